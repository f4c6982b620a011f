"""Reading: whatever is at a path, there is a run or an error that names it, and never anything else."""

import json
import os
from copy import deepcopy
from pathlib import Path

import pytest
from cases import for_each
from msgspec.structs import replace

from pytest_gpuperf.cli import main
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Report
from pytest_gpuperf.report import files, reader
from pytest_gpuperf.report.json import document

FULL = json.loads((Path(__file__).parents[2] / "data" / "report-1.0.json").read_bytes())
RUN = document.parse(json.dumps(FULL).encode())
TEXT = document.text(RUN)


def written(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path


def refused(path: Path) -> str:
    """Return the message with which a file is refused, without the name with which it begins."""
    with pytest.raises(GpuPerfError) as refusal:
        reader.load_report(path)
    named = "".join(each if each.isprintable() else repr(each)[1:-1] for each in str(path))
    assert str(refusal.value).startswith(named)
    return str(refusal.value).removeprefix(named).strip(": ")


def test_a_missing_file_a_folder_and_what_has_no_end_are_refused(tmp_path):
    assert "cannot be read: No such file or directory; name a report" == refused(tmp_path / "missing.json")
    assert "cannot be read: Is a directory; name a report" == refused(tmp_path)
    assert "cannot be read" in refused(tmp_path / ("long" * 100))
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert "cannot be read" in refused(tmp_path / "loop")
    os.mkfifo(tmp_path / "pipe")
    assert "cannot be read: it is not a regular file; name a report" == refused(tmp_path / "pipe")


def test_a_file_beyond_the_limit_is_refused_unread(tmp_path, monkeypatch):
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(files.LIMIT + 1)
    assert "has more than 2.00 GB, the most that is read" in refused(tmp_path / "huge.json")
    monkeypatch.setattr(files, "LIMIT", len(TEXT))
    assert reader.load_report(written(tmp_path / "report.json", TEXT)) == RUN


def test_names_and_texts_of_a_file_never_reach_a_terminal_as_commands(tmp_path, capsys):
    hostile = "\x1b[2J<script>\u202e\x00../../etc/passwd"
    content = deepcopy(FULL)
    content["records"][0] |= {"nodeid": hostile, "status": hostile}
    content["environment"]["packages"][hostile] = 5
    path = written(tmp_path / "\x1b[31mreport.json", json.dumps(content))
    assert main(["validate", str(path)]) == 2
    assert capsys.readouterr().err.removesuffix("\n").isprintable()


# -- files and folders ---------------------------------------------------------------------------


def test_a_file_gives_its_one_report_named_as_it_would_be_typed(tmp_path, monkeypatch):
    path = written(tmp_path / "report.json", TEXT)
    assert (Report(name=str(path), run=RUN),) == reader.load_reports(path)
    monkeypatch.chdir(tmp_path)
    assert "report.json" == reader.named_report(path).name


STARTS = {
    "b.json": "2026-01-02T00:30:00+02:00",  # the evening before, in UTC
    "c.json": "2026-01-01T23:00:00+00:00",
    "a.json": "2026-01-01T10:00:00-12:00",
    "d.json": "2025-12-31T23:59:59Z",
}


def test_a_folder_gives_its_reports_newest_first(tmp_path):
    assert reader.load_reports(tmp_path) == ()
    for name, started in STARTS.items():
        written(tmp_path / name, document.text(replace(RUN, started=started)))
    expected = [str(tmp_path / f"{name}.json") for name in "cbad"]
    assert expected == [report.name for report in reader.load_reports(tmp_path)]


def test_other_files_in_a_folder_are_left_out(tmp_path):
    folder = tmp_path / "reports"
    (folder / "below.json").mkdir(parents=True)
    for name in ("below.json/deep.json", ".hidden.json", "report.json.17.journal", "notes.txt"):
        written(folder / name, "no report")
    report = written(folder / "report.json", TEXT)
    for link, leads_to in {"within": "report", "out": "../outside", "loop": "loop"}.items():
        (folder / f"{link}.json").symlink_to(f"{leads_to}.json")
    assert [str(report)] == [each.name for each in reader.load_reports(folder)]


def test_a_folder_that_may_be_listed_and_no_more_is_refused(tmp_path, monkeypatch):
    def is_dir(path):
        if path != tmp_path:
            raise PermissionError(13, "Permission denied", str(path))
        return True

    written(tmp_path / "report.json", TEXT)
    monkeypatch.setattr(Path, "is_dir", is_dir)
    with pytest.raises(GpuPerfError, match=r"cannot be read: Permission denied$"):
        reader.load_reports(tmp_path)


@for_each(
    ("content", "said"),
    [
        ("{}", "this is no report: "),
        *(
            (
                document.text(replace(RUN, started=started)),
                r"\$\.started is .*, which is not a time with an offset",
            )
            for started in ("yesterday", "", "2026-01-01T00:00:00", "2026-13-01T00:00:00+00:00")
        ),
    ],
)
def test_a_file_in_a_folder_that_is_no_report_or_does_not_say_when_it_began_is_named(tmp_path, content, said):
    written(tmp_path / "good.json", TEXT)
    written(tmp_path / "wrong.json", content)
    with pytest.raises(GpuPerfError, match=rf"wrong\.json: {said}.*; or move the file out of the folder"):
        reader.load_reports(tmp_path)


def test_a_baseline_that_is_not_there_is_a_folder_where_it_has_no_suffix(tmp_path):
    (tmp_path / "base").touch()
    (tmp_path / "kept.d").mkdir()
    names = ("new", "new.json", "base", "kept.d", "kept.d/new")
    found = {name for name in names if reader.baseline_file(tmp_path / name, RUN) != tmp_path / name}
    assert {"new", "kept.d", "kept.d/new"} == found
    assert "2026-01-01T000000.000Z.json" == reader.baseline_file(tmp_path, RUN).name


def test_any_path_is_read_or_refused_in_words_that_steer_no_terminal(tmp_path):
    assert reader.load_report(str(written(tmp_path / "report.json", TEXT))) == RUN
    for name in ("a\0b", "\x1b[31mred", "\ud800"):
        assert refused(tmp_path / name).endswith("; name a report")


def test_a_key_that_is_there_twice_among_very_many_is_found_at_once(tmp_path):
    variables = {f"v{number}": "1" for number in range(100_000)}
    text = json.dumps({**FULL, "environment": {**FULL["environment"], "variables": variables}})
    twice = text.replace('"v99999": "1"', '"v99999": "1", "v99999": "2"')
    assert "has the key 'v99999' twice" in refused(written(tmp_path / "report.json", twice))
