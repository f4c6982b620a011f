"""Files: what a command may write over, and that each is there whole or not at all."""

import io
import json
import os
from contextlib import redirect_stderr, suppress
from errno import ENOSPC
from itertools import product
from pathlib import Path

import pytest
from cases import for_each
from command import exported, inputs, record
from factories import EMULATED, run_of, scaled, skipped, speedup
from hypothesis import example, given, settings
from msgspec.structs import replace
from strategies import HOSTILE

from pytest_gpuperf.cli import main
from pytest_gpuperf.model.record import Run
from pytest_gpuperf.report import files
from pytest_gpuperf.report.json import document

KINDS = ("report", "csv", "bencher", "github-action-benchmark", "markdown", "svg")
OTHERS = {
    "package.json": '{"name": "mine", "private": true}',
    "settings in objects": '{"editor": {"speedup": 2}, "gpu-ns": {"value": 3}}',
    "another tool's metrics": '{"test_it": {"latency": {"value": 3.0}}}',
    "another tool's report": '{"schema_version": "1.4.0", "id": "GHSA-1"}',
    "a history entry": '{"history_version": "1.0", "started": "2026-01-01T00:00:00+00:00"}',
    "a table of ours from another version": "test,status,reason,cpu_device,gpu_device\r\n",
    "a run of pytest-benchmark": '{"machine_info": {"node": "a", "processor": "", "machine": "x86_64", '
    '"python_compiler": "GCC 13.3.0"}}',
    "another tool's chart": '[{"name": "mine", "unit": "ms", "value": 3, "range": "1"}]',
    "another table": "test,status,reason\r\ntest_it,passed,\r\n",
    "notes": "# Speedups\n\nof last week",
    "white space and then something": " " * 100_000 + "precious",
}


def runs(nodeid: str = "test_a.py::test_1") -> dict[str, Run]:
    """Return the runs that a format's output may be of, with tests of this name."""
    whole = record(nodeid)
    emulated = replace(whole, gpu=replace(whole.gpu, device=EMULATED))
    return {
        "whole": run_of(whole),
        "skipped": run_of(skipped(nodeid)),
        "several": run_of(skipped(nodeid), record("test_a.py::test_2"), record("test_a.py::test_3")),
        "empty": run_of(),
        "scaling": run_of(scaled(4, 0.5)),
        "emulated": run_of(emulated),
        "emulated only": run_of(replace(emulated, cpu=None, speedup=None)),
        "open": run_of(record(nodeid, speedup=speedup(10.0, None, None))),
        "CPU only": run_of(record(nodeid, gpu=None, speedup=None)),
        "GPU only": run_of(record(nodeid, cpu=None, speedup=None)),
        "ended early": run_of(whole, complete=False, gpu=None),
    }


def text_of(kind: str, run: Run) -> str:
    return document.text(run) if kind == "report" else exported(run, kind)


@pytest.fixture(scope="module")
def objected(tmp_path_factory):
    """Say why a file of a kind may not be written over a text, if it may not."""
    folder = tmp_path_factory.mktemp("places")
    path, *reports = (folder / name for name in ("there", "one.json", "two.json"))
    for number, report in enumerate(reports):
        report.write_text(document.text(run_of(record(f"test_{number}"))), encoding="utf-8")

    def call(kind: str, text: str) -> str | None:
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        merge = ["merge", *map(str, reports), "-o", str(path)]
        command = merge if kind == "report" else ["show", str(reports[0]), f"--export={kind}:{path}"]
        with redirect_stderr(io.StringIO()) as said:
            code = main(command)
        assert (code == 0) == (not said.getvalue()) == (path.read_bytes() != text.encode())
        return said.getvalue() or None

    return call


@settings(max_examples=10)
@given(nodeid=HOSTILE)
@example(nodeid="")
@example(nodeid='tests/test_a.py::test["quoted \\\\", {"a": [1, 2]}]')
@example(nodeid="\N{PILE OF POO}" * 5_000)
def test_what_we_wrote_is_written_over(objected, nodeid):
    made = runs(nodeid)
    for kind, name in product(KINDS, ("whole", "skipped")):
        assert objected(kind, text_of(kind, made[name])) is None, (kind, name)


@pytest.mark.parametrize("kind", KINDS)
def test_what_we_wrote_is_written_over_in_its_own_form_alone_however_json_is_laid_out(objected, kind):
    for name, run in runs().items():
        if text := text_of(kind, run):  # else no file is written
            assert objected(kind, text) is None, name
            if kind in ("report", "bencher", "github-action-benchmark"):
                assert objected(kind, json.dumps(json.loads(text), indent=4)) is None, name
    for other, name in product({*KINDS} - {kind}, ("whole", "scaling")):
        assert objected(other, text_of(kind, runs()[name])), (other, name)


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS)
def test_what_others_wrote_is_not(objected, text):
    for kind in KINDS:
        what = "a report" if kind == "report" else kind
        assert f"exists and was not written by pytest-gpuperf as {what}; choose another file" in (
            objected(kind, text) or ""
        )


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_file_is_anybodys(objected, text):
    assert [None] * len(KINDS) == [objected(kind, text) for kind in KINDS]


# How a file is written


@pytest.fixture
def show(tmp_path, monkeypatch):
    """Write a report as a summary to a path; return whether that was done, and what was said."""
    monkeypatch.chdir(tmp_path)
    inputs()

    def call(path):
        with redirect_stderr(io.StringIO()) as said:
            return main(["show", "r.json", "--markdown", str(path)]) == 0, said.getvalue()

    return call


BEGIN = "<!-- pytest-gpuperf -->\n###"


def test_the_text_is_on_the_disk_before_it_takes_the_place(show, monkeypatch):
    flushed = os.fsync

    def fsync(file):
        flushed(file)
        assert not Path("it.md").exists()
        assert os.fstat(file).st_size > 500

    monkeypatch.setattr(os, "fsync", fsync)
    assert (True, "") == show("it.md")
    assert Path("it.md").read_text(encoding="utf-8").startswith(BEGIN)


@pytest.mark.skipif(os.name != "posix", reason="no open file can be replaced")
def test_a_file_is_replaced_whole_and_who_reads_the_old_one_reads_on(show):
    path = Path("it.md")
    path.write_text(BEGIN, encoding="utf-8")
    with path.open(encoding="utf-8") as reader:
        assert (True, "") == show(path)
        assert BEGIN == reader.read()
    assert len(path.read_text(encoding="utf-8")) > len(BEGIN)


def test_a_file_that_was_planted_is_neither_followed_nor_removed(show, monkeypatch):
    """Even where the random part of its name were known, which is as long as it can be."""
    monkeypatch.setattr(os, "urandom", bytes)
    planted = Path(f".gpuperf-{'00' * 8}.tmp")
    Path("victim").write_text("precious", encoding="utf-8")
    planted.symlink_to("victim")
    for command in (["show", "r.json", "--markdown=it.md"], ["recover", "r.journal", "new.json"]):
        assert 2 == main(command)
    assert ("precious", True) == (Path("victim").read_text(encoding="utf-8"), planted.is_symlink())


def test_an_output_that_is_a_link_is_written_where_it_leads(show):
    Path("real").mkdir()
    Path("real/it.md").write_text(BEGIN, encoding="utf-8")
    Path("link.md").symlink_to("between.md")
    Path("between.md").symlink_to("real/it.md")
    assert (True, "") == show("link.md")
    assert Path("link.md").is_symlink()
    assert [Path("real/it.md")] == [*Path("real").iterdir()]
    assert len(Path("real/it.md").read_text(encoding="utf-8")) > len(BEGIN)


@pytest.mark.parametrize("leads_to", ["itself", "nothing"])
def test_an_output_that_is_a_link_to_no_file_is_an_error(show, leads_to):
    Path("itself").symlink_to(leads_to)
    assert "it is a link that leads to no file" in show("itself")[1]
    assert Path("itself").is_symlink()
    assert not Path("nothing").exists()


@pytest.mark.skipif(os.name != "posix", reason="files have no such modes")
@pytest.mark.parametrize("mode", [0o600, 0o664, 0o444])
def test_a_file_keeps_its_mode_and_a_new_one_gets_that_of_any_other(show, mode):
    old = Path("old.md")
    old.touch()
    old.chmod(mode)
    assert (True, True) == (show(old)[0], show("new.md")[0])
    assert [mode, Path("r.json").stat().st_mode] == [
        old.stat().st_mode & 0o777,
        Path("new.md").stat().st_mode,
    ]


def refused(*places):
    raise OSError(ENOSPC, os.strerror(ENOSPC))


def test_a_new_file_is_made_where_links_are_refused_and_an_old_one_stays(show, monkeypatch):
    monkeypatch.setattr("os.link", refused)
    assert [0, 2] == [main(["recover", "r.journal", "new.json"]) for _ in range(2)]
    assert 0 == main(["validate", "new.json"])


class Full:
    """A file on a disk that gets full half way."""

    def __init__(self, file):
        self.file = file
        self.close = file.close

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def write(self, text):
        self.file.write(text[: len(text) // 2])
        raise OSError(ENOSPC, os.strerror(ENOSPC))


@for_each("left", [0, 1])  # files that the disk has room for
def test_a_new_file_is_whole_or_not_there_where_links_are_refused_and_the_disk_gets_full(tmp_path, left):
    def open_new(path):
        opened.append(path)
        return open_whole(path) if len(opened) <= left else Full(open_whole(path))

    open_whole, opened, path = files.open_new, [], tmp_path / "new.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.link", refused)
        patch.setattr(files, "open_new", open_new)
        with suppress(OSError):
            files.create(path, "whole")
    assert ["whole"] * left == [each.read_text(encoding="utf-8") for each in tmp_path.iterdir()]
    path.unlink(missing_ok=True)


def test_a_new_file_that_cannot_get_its_name_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("os.link", refused)
    monkeypatch.setattr(Path, "replace", refused)
    with pytest.raises(OSError, match=r"No space left on device: '.*new\.json'"):
        files.create(tmp_path / "new.json", "whole")
    assert [] == [*tmp_path.iterdir()]
