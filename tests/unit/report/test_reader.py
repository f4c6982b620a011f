"""Reading: whatever is at a path, there is a run or an error that names it, and never anything else."""

import json
import os
from copy import deepcopy
from pathlib import Path

import pytest
from msgspec.structs import replace
from published import FULL
from strategies import shown

from pytest_gpuperf.cli import main
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Report
from pytest_gpuperf.report import history_folder, journal, reader
from pytest_gpuperf.report.json import codec, document

RUN = document.parse(json.dumps(FULL).encode())
TEXT = document.text(RUN)


def written(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path


def as_report(path: Path) -> str:
    """Return the message with which a file is refused, without the name with which it begins."""
    with pytest.raises(GpuPerfError) as refusal:
        reader.load_report(path)
    named = shown(str(path))
    assert str(refusal.value).startswith(named)
    return str(refusal.value).removeprefix(named).strip(": ")


def as_run_of_a_history(path: Path) -> str:
    return history_folder.read(path.parent).rejected[path.name]


def as_journal(path: Path) -> str:
    with pytest.raises((GpuPerfError, OSError)) as refusal:
        journal.run_in(path)
    return getattr(refusal.value, "strerror", None) or str(refusal.value).removeprefix(f"{path} is ")


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2_000_000_001)


READERS = (as_report, as_run_of_a_history, as_journal)
NO_FILE = {
    "missing": lambda path: None,
    "folder": Path.mkdir,
    "pipe": os.mkfifo,
    "loop": lambda path: path.symlink_to(path),
    "huge": huge,
}
JOURNAL = codec.text(journal.Heading(started=RUN.started, environment=RUN.environment)) + "\n"
TOO_NEW = TEXT.replace('"1.0"', '"1.1"', 1)
CUT = "it is not JSON: it is empty or was cut off"
WRONG = "no whole journal of a run: it "
BROKEN = [  # what is there, and what each reader says of it, unless it is no matter of that reader
    ("missing", "cannot be read: No such file or directory; name a report", None, "No such file or"),
    ("folder", "cannot be read: Is a directory; name a report", "it cannot be read: Is", "Is a directory"),
    ("pipe", *["it is not a regular file"] * 3),
    ("loop", "cannot be read: ", *["Too many levels of symbolic links"] * 2),
    ("huge", *["has more than 2.00 GB, the most that is read"] * 3),
    ("", CUT, CUT, "has no whole line: the run ended before it measured anything"),
    (JOURNAL[:100], None, None, "has no whole line"),
    ("notes\n", *["it is not JSON: invalid character"] * 3),
    ("[]\n[]\n", *["it breaks its schema at $: "] * 2, f"{WRONG}breaks its schema at $: Expected `object`"),
    ("{}\n", *["this is no report: it has no schema_version"] * 2, f"{WRONG}breaks its schema at $: "),
    (TOO_NEW, *["its schema_version is '1.1', and not 1.0; update"] * 2, f"{WRONG}is not JSON: "),
    (TEXT.replace(RUN.started, "yesterday"), None, "$.started is 'yesterday', which is not a time", None),
    (JOURNAL, "this is the journal of an unfinished run; gpuperf recover", "it ", None),
    (JOURNAL + '{"later":1}\n', "this is the journal", "it ", f"{WRONG}breaks its schema at $: "),
    (JOURNAL + '{"status":"bogus"}\n', "this is the journal", "it ", f"{WRONG}breaks its schema at $.status"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "said"), [(content, said) for content, *said in BROKEN], ids=lambda each: str(each)[:9]
)
def test_whatever_is_at_a_path_each_reader_says_what_is_wrong_with_it(tmp_path, content, said):
    path = tmp_path / "reports" / "it.json"
    path.parent.mkdir()
    NO_FILE.get(content, lambda path: written(path, content))(path)
    for read, expected in zip(READERS, said, strict=True):
        assert expected is None or expected in read(path), read.__name__


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


def test_a_folder_gives_its_reports_newest_first_and_leaves_out_other_files(tmp_path):
    folder = tmp_path / "reports"
    (folder / "below.json").mkdir(parents=True)
    for name in ("below.json/deep.json", ".hidden.json", "report.json.17.journal", "notes.txt"):
        written(folder / name, "no report")
    for link, leads_to in {"within": "a", "out": "../outside", "loop": "loop"}.items():
        (folder / f"{link}.json").symlink_to(f"{leads_to}.json")
    assert reader.load_reports(folder) == ()
    for name, started in STARTS.items():
        written(folder / name, document.text(replace(RUN, started=started)))
    assert [str(folder / f"{name}.json") for name in "cbad"] == [
        each.name for each in reader.load_reports(folder)
    ]


@pytest.mark.parametrize(
    "started", ["yesterday", "", "2026-01-01T00:00:00", "2026-13-01T00:00:00+00:00", None]
)
def test_a_file_in_a_folder_that_is_no_report_or_does_not_say_when_it_began_is_named(tmp_path, started):
    written(tmp_path / "good.json", TEXT)
    no_report = "{}" if started is None else document.text(replace(RUN, started=started))
    written(tmp_path / "wrong.json", no_report)
    said = (
        "this is no report" if started is None else r"\$\.started is .*, which is not a time with an offset"
    )
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
        assert as_report(tmp_path / name).endswith("; name a report")
