"""Files: what may be written over, and that each is there whole or not at all."""

import json
import os
from itertools import product
from pathlib import Path

import pytest
from factories import EMULATED, record, run_of, scaled, skipped, speedup
from hypothesis import example, given
from msgspec.structs import replace
from strategies import HOSTILE

from pytest_gpuperf.model.record import Run
from pytest_gpuperf.report import exports, files
from pytest_gpuperf.report.json import document

FORMATS = {name: each for name, each in exports.formats().items() if name != "html"}
WRITTEN = {"report": document.text, **{name: each.write for name, each in FORMATS.items()}}
BEGINS = {"report": files.REPORT, **{name: each.begins_as for name, each in FORMATS.items()}}
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


@pytest.fixture(scope="module")
def objected(tmp_path_factory):
    """Say why a file of a kind may not be written over a text, if it may not."""
    path = tmp_path_factory.mktemp("places") / "there"

    def call(kind: str, text: str) -> str | None:
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        return files.why_not_writable(path, BEGINS[kind], kind)

    return call


@given(nodeid=HOSTILE)
@example(nodeid="")
@example(nodeid='tests/test_a.py::test["quoted \\\\", {"a": [1, 2]}]')
@example(nodeid="\N{PILE OF POO}" * 5_000)
def test_what_we_wrote_is_written_over(objected, nodeid):
    made = runs(nodeid)
    for kind, name in product(BEGINS, ("whole", "skipped")):
        assert objected(kind, WRITTEN[kind](made[name])) is None, (kind, name)


@pytest.mark.parametrize("kind", [kind for kind in BEGINS if kind not in ("markdown", "csv", "svg")])
def test_json_of_ours_is_written_over_however_it_is_laid_out(objected, kind):
    written = [text for run in runs().values() if (text := WRITTEN[kind](run))]
    assert {None} == {objected(kind, json.dumps(json.loads(text), indent=4)) for text in written}


@pytest.mark.parametrize("kind", BEGINS)
def test_what_we_wrote_in_another_form_is_not(objected, kind):
    for other, (name, run) in product(WRITTEN, runs().items()):
        if text := WRITTEN[other](run):  # else no file is written
            assert (kind == other) == (objected(kind, text) is None), (other, name)


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS)
def test_what_others_wrote_is_not(objected, text):
    for kind in BEGINS:
        assert f"exists and was not written by pytest-gpuperf as {kind}; choose another file" in (
            objected(kind, text) or ""
        )


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_file_is_anybodys(objected, text):
    assert [None] * len(BEGINS) == [objected(kind, text) for kind in BEGINS]


def test_a_report_is_written_and_takes_the_place_of_an_older_one(tmp_path):
    path = tmp_path / "new" / "folder" / "report.json"
    for text in ("new é\n, and longer", "newer"):
        files.replace(path, text)
        assert path.read_text(encoding="utf-8") == text
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_report_and_nothing_else(tmp_path, monkeypatch, step):
    path = tmp_path / "report.json"
    path.write_text("old", encoding="utf-8")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(*{"fsync": (os, "fsync"), "replace": (Path, "replace")}[step], full)
    with pytest.raises(OSError, match="No space left"):
        files.replace(path, "new")
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_text_is_on_the_disk_before_it_takes_the_place(tmp_path, monkeypatch):
    steps = []
    flushed, moved = os.fsync, Path.replace

    def fsync(file):
        steps.append(os.fstat(file).st_size)
        flushed(file)

    def move(path, target):
        steps.append("replace")
        return moved(path, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", move)
    files.replace(tmp_path / "report.json", "12345")
    assert steps == [5, "replace"]


@pytest.mark.parametrize("write", [files.replace, files.create])
def test_a_file_that_was_planted_is_neither_followed_nor_removed(tmp_path, monkeypatch, write):
    """Even where the random part of its name were known, which is as long as it can be."""
    asked = []
    monkeypatch.setattr(os, "urandom", lambda size: asked.append(size) or bytes(size))
    victim, planted = tmp_path / "victim", tmp_path / f".gpuperf-{'00' * 8}.tmp"
    victim.write_text("precious", encoding="utf-8")
    planted.symlink_to(victim)
    with pytest.raises(FileExistsError):
        write(tmp_path / "report.json", "new")
    assert asked == [8]
    assert victim.read_text(encoding="utf-8") == "precious"
    assert planted.is_symlink()


def test_an_output_that_is_a_link_is_written_where_it_leads(tmp_path):
    (tmp_path / "real").mkdir()
    real, link = tmp_path / "real" / "report.json", tmp_path / "link.json"
    real.write_text("old", encoding="utf-8")
    link.symlink_to("between.json")
    (tmp_path / "between.json").symlink_to("real/report.json")
    files.replace(link, "new")
    assert link.is_symlink()
    assert real.read_text(encoding="utf-8") == "new"
    assert list(real.parent.iterdir()) == [real]


@pytest.mark.parametrize("leads_to", ["itself", "nothing"])
def test_an_output_that_is_a_link_to_no_file_is_an_error(tmp_path, leads_to):
    link = tmp_path / "itself"
    link.symlink_to(tmp_path / leads_to)
    with pytest.raises(OSError, match="it is a link that leads to no file"):
        files.replace(link, "new")
    assert list(tmp_path.iterdir()) == [link]


@pytest.mark.skipif(os.name != "posix", reason="files have no such modes")
@pytest.mark.parametrize("mode", [0o600, 0o664, 0o444])
def test_a_file_keeps_its_mode_and_a_new_one_gets_that_of_any_other(tmp_path, mode):
    old, new, other = tmp_path / "old", tmp_path / "new", tmp_path / "other"
    old.touch()
    old.chmod(mode)
    other.touch()
    files.replace(old, "text")
    files.replace(new, "text")
    assert [mode, other.stat().st_mode] == [old.stat().st_mode & 0o777, new.stat().st_mode]


def test_a_new_file_is_made_where_links_are_refused_and_an_old_one_stays(tmp_path, monkeypatch):
    def refused(*places):
        raise PermissionError("no links here")

    monkeypatch.setattr("os.link", refused)
    files.create(tmp_path / "new.json", "text")
    with pytest.raises(FileExistsError):
        files.create(tmp_path / "new.json", "other")
    assert ["text"] == [path.read_text(encoding="utf-8") for path in tmp_path.iterdir()]
