"""Reading: whatever a file holds, there is a run or an error that names it, and never anything else."""

import json
import os
from copy import deepcopy
from pathlib import Path

import pytest
from cases import for_each
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from published import JUDGE

from pytest_gpuperf.cli import main
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Report, Run
from pytest_gpuperf.report import files, reader
from pytest_gpuperf.report.json import document

REPORTS = Path(__file__).parents[2] / "data"
QUICKLY = settings(
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


FULL = json.loads((REPORTS / "report-1.0.json").read_text(encoding="utf-8"))  # every value, every status
RUN = document.parse(json.dumps(FULL).encode())
TEXT = document.text(RUN)


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    return path


def refused(path: Path) -> str:
    """Return the message with which a file is refused; it names the file, and no terminal obeys it."""
    with pytest.raises(GpuPerfError) as refusal:
        reader.load_report(path)
    named = "".join(each if each.isprintable() else repr(each)[1:-1] for each in str(path))
    assert str(refusal.value).startswith(named)
    assert str(refusal.value).isprintable()
    return str(refusal.value).removeprefix(named).strip(": ")


def found_in(path: Path) -> Run | None:
    """Return the run in a file, None where it is refused; a run's document keeps the schema."""
    try:
        run = reader.load_report(path)
    except GpuPerfError:
        refused(path)
        return None
    assert JUDGE.is_valid(json.loads(document.text(run)))
    return run


# -- what is wrong with a file, and where --------------------------------------------------------


def test_a_report_is_read_as_it_was_written(tmp_path):
    assert reader.load_report(written(tmp_path / "report.json", TEXT)) == RUN


@for_each("indent", [None, 1, 4])
@for_each("sort_keys", [True, False])
def test_a_report_that_another_tool_laid_out_is_read(tmp_path, indent, sort_keys):
    text = json.dumps(FULL, indent=indent, sort_keys=sort_keys, ensure_ascii=False)
    assert reader.load_report(written(tmp_path / "report.json", text)) == RUN


def test_a_mark_that_windows_puts_first_is_no_part_of_a_report(tmp_path):
    assert reader.load_report(written(tmp_path / "report.json", b"\xef\xbb\xbf" + TEXT.encode())) == RUN


TIMED = '"elapsed":1.5'


@for_each(
    ("content", "said"),
    [
        ("", "it is not JSON: it is empty; "),
        (" \n\t", "it is not JSON: it is empty; "),
        ("notes", "it is not JSON: invalid character at line 1, column "),
        (TEXT[:-300], "it is not JSON: it ends too early; it may have been cut off"),
        (TEXT.replace('"complete"', "complete"), "not JSON: object keys must be strings at line "),
        (TEXT.encode("utf-16"), "it is not JSON: invalid character at line 1, column 1"),
        (TEXT.encode().replace(b"a processor", b"\xff", 1), "it is not JSON: it is not UTF-8 at byte"),
        (TEXT.replace(TIMED, '"elapsed":NaN'), "it is not JSON: invalid character at line "),
        (TEXT.replace(TIMED, '"elapsed":-Infinity'), "it is not JSON: invalid character at line "),
        (TEXT.replace(TIMED, '"elapsed":1e999'), "at $.records[0].elapsed: Number out of range"),
        (TEXT.replace(TIMED, '"elapsed":1' + "0" * 400), "at $.records[0].elapsed: Number out of range"),
        (TEXT.replace('"made":8', '"made":8' + "0" * 400), "has 401 digits"),
        (TEXT.replace('"made":8', '"made":' + "1" * 5000), "at $.records[0].transfer.made: Integer value"),
        (TEXT.replace('},\n  {"nodeid"', '} \n  {"nodeid"', 1), "expected ',' or ']' at line 75"),
        (TEXT.replace("{", '{\n "complete": true,', 1), "has the key 'complete' twice"),
        (TEXT.replace('"peak":160', '"peak":160,"peak":1'), "'peak: 160' has the key 'peak' twice"),
        (TEXT.replace('"name":"test_x"', '"name":"test_x","n\\u0061me" :"x"'), "has the key 'name' twice"),
        ('{"records":' + "[" * 100_000, "it "),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(tmp_path, content, said):
    assert content != TEXT
    path = written(tmp_path / "report.json", content)
    assert said in refused(path)
    assert not ("twice" in said and "not JSON" in refused(path)), "JSON lets a key be there twice"


def test_a_missing_file_a_folder_and_what_has_no_end_are_refused(tmp_path):
    assert "cannot be read: No such file or directory" in refused(tmp_path / "missing.json")
    assert "cannot be read: Is a directory; name a report" == refused(tmp_path)
    assert "cannot be read" in refused(tmp_path / ("long" * 100))
    assert "cannot be read" in refused(tmp_path / "a\0b")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert "cannot be read" in refused(tmp_path / "loop")


def test_a_file_that_may_not_be_read_is_refused(tmp_path, monkeypatch):
    def forbidden(*_):
        raise PermissionError(13, "Permission denied")

    path = written(tmp_path / "report.json", TEXT)
    monkeypatch.setattr(os, "open", forbidden)
    assert refused(path) == "cannot be read: Permission denied; name a report"


def test_a_file_beyond_the_limit_is_refused_unread(tmp_path, monkeypatch):
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(files.LIMIT + 1)
    assert "has more than 2.00 GB" in refused(tmp_path / "huge.json")
    path = written(tmp_path / "report.json", TEXT)
    monkeypatch.setattr(files, "LIMIT", len(TEXT) - 1)
    assert "the most that is read" in refused(path)
    monkeypatch.setattr(files, "LIMIT", len(TEXT))
    assert reader.load_report(path) == RUN


def test_names_and_texts_of_a_file_never_reach_a_terminal_as_commands(tmp_path, capsys):
    hostile = "\x1b[2J<script>\u202e\x00../../etc/passwd"
    content = deepcopy(FULL)
    content["records"][0] |= {"nodeid": hostile, "status": hostile}
    content["environment"]["packages"][hostile] = 5
    path = written(tmp_path / "\x1b[31mreport.json", json.dumps(content))
    assert main(["validate", str(path)]) == 2
    assert capsys.readouterr().err.removesuffix("\n").isprintable()


def test_the_collector_works_as_before_when_a_report_was_read(tmp_path):
    import gc

    assert gc.isenabled()
    reader.load_report(written(tmp_path / "report.json", TEXT))
    refused(written(tmp_path / "report.json", "wrong"))
    assert gc.isenabled()


# -- files and folders ---------------------------------------------------------------------------


def test_a_file_gives_its_one_report(tmp_path):
    path = written(tmp_path / "report.json", TEXT)
    assert (Report(name=str(path), run=RUN),) == reader.load_reports(path)


def test_a_report_in_the_current_folder_is_named_as_it_would_be_typed_there(tmp_path, monkeypatch):
    path = written(tmp_path / "report.json", TEXT)
    monkeypatch.chdir(tmp_path)
    assert "report.json" == reader.named_report(path).name


def test_an_empty_folder_has_no_reports(tmp_path):
    assert reader.load_reports(tmp_path) == ()


STARTS = {
    "b.json": "2026-01-02T00:30:00+02:00",  # the evening before, in UTC
    "c.json": "2026-01-01T23:00:00+00:00",
    "a.json": "2026-01-01T10:00:00-12:00",
    "d.json": "2025-12-31T23:59:59Z",
}


def test_a_folder_gives_its_reports_newest_first(tmp_path):
    for name, started in STARTS.items():
        written(tmp_path / name, document.text(replace(RUN, started=started)))
    assert ["c.json", "b.json", "a.json", "d.json"] == [
        Path(report.name).name
        for report in reader.load_reports(tmp_path)
        if Path(report.name).parent == tmp_path
    ]


def test_other_files_in_a_folder_are_left_out(tmp_path):
    folder = tmp_path / "reports"
    (folder / "below.json").mkdir(parents=True)
    for name in ("below.json/deep.json", ".hidden.json", "report.json.17.journal", "notes.txt"):
        written(folder / name, "no report")
    written(tmp_path / "outside.json", "no report")
    (folder / "out.json").symlink_to("../outside.json")
    (folder / "loop.json").symlink_to("loop.json")
    report = written(folder / "report.json", TEXT)
    (folder / "within.json").symlink_to("report.json")
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


def test_a_file_in_a_folder_that_is_no_report_is_named(tmp_path):
    written(tmp_path / "good.json", TEXT)
    written(tmp_path / "wrong.json", "{}")
    with pytest.raises(
        GpuPerfError, match=r"wrong\.json: this is no report.*; or move the file out of the fold"
    ):
        reader.load_reports(tmp_path)


@for_each("started", ["yesterday", "", "2026-01-01T00:00:00", "2026-13-01T00:00:00+00:00"])
def test_a_report_in_a_folder_that_does_not_say_when_it_began_is_named(tmp_path, started):
    path = written(tmp_path / "report.json", document.text(replace(RUN, started=started)))
    assert reader.load_report(path).started == started
    with pytest.raises(GpuPerfError, match=r"report\.json: \$\.started is .* with an offset.*; or move the"):
        reader.load_reports(tmp_path)


def test_a_baseline_that_is_not_there_is_a_folder_where_it_has_no_suffix(tmp_path):
    (tmp_path / "base").touch()
    (tmp_path / "kept.d").mkdir()
    names = ("new", "new.json", "base", "kept.d", "kept.d/new")
    found = {name for name in names if reader.baseline_file(tmp_path / name, RUN) != tmp_path / name}
    assert {"new", "kept.d", "kept.d/new"} == found
    assert "2026-01-01T000000.000Z.json" == reader.baseline_file(tmp_path, RUN).name


# -- whatever there may be -----------------------------------------------------------------------

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, -1, 1, 2.0, -0.0, 1e-320, 1e308, 2**53 + 1, 2**70, 10**400, -(10**400)]),
    st.integers(),
    st.floats(allow_nan=True),
    st.text(st.characters(exclude_categories=())),
    st.sampled_from(["passed", "failed", "gpu", "1.0", "1.9", "once", "..", "<b>", "\ud800", "\x00"]),
)
VALUES = st.recursive(
    LEAVES, lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=3), part, max_size=3)
)


def places(part, path=()):
    """Return the path of every part of a document."""
    inner = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    return [path, *(found for name, each in inner for found in places(each, (*path, name)))]


PLACES = places(FULL)
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(PLACES[1:]), st.sampled_from(["drop", "replace", "nest", "rename", "twice"]), VALUES
    ),
    min_size=1,
    max_size=2,
)


def changed(content, changes):
    """Return a copy of a document with parts dropped, replaced, nested, renamed or doubled."""
    content = deepcopy(content)
    for (*way, last), change, value in changes:
        place = content
        try:
            for step in way:
                place = place[step]
            part = place.pop(last)
        except (KeyError, IndexError, TypeError, AttributeError):
            continue  # an earlier change took it away
        put = place.__setitem__ if isinstance(place, dict) else place.insert
        if change == "replace":
            put(last, value)
        elif change == "nest":
            put(last, [part] if isinstance(part, dict) else {"part": part})
        elif change == "rename":
            put(f"{last}_" if isinstance(place, dict) else last, part)
        elif change == "twice":
            put(last, part)
            put(f"{last}2" if isinstance(place, dict) else last, part)
    return content


@QUICKLY
@given(changes=CHANGES)
def test_a_document_that_breaks_the_published_schema_is_refused(tmp_path, changes):
    content = changed(FULL, changes)
    run = found_in(written(tmp_path / "report.json", json.dumps(content)))
    assert run is None or JUDGE.is_valid(content)


@QUICKLY
@given(end=st.integers(0, len(TEXT) - 2))
def test_a_report_that_was_cut_off_anywhere_is_an_error(tmp_path, end):
    assert found_in(written(tmp_path / "report.json", TEXT[:end])) is None


@QUICKLY
@given(flips=st.lists(st.tuples(st.integers(0, len(TEXT) - 1), st.integers(0, 255)), min_size=1, max_size=3))
def test_a_report_with_bytes_changed_is_a_run_or_an_error(tmp_path, flips):
    content = bytearray(TEXT.encode())
    for place, byte in flips:
        content[place] = byte
    found_in(written(tmp_path / "report.json", bytes(content)))


@QUICKLY
@given(
    content=st.binary()
    | st.text(st.characters(exclude_categories=())).map(lambda text: json.dumps(text).encode())
)
def test_any_bytes_are_an_error(tmp_path, content):
    assert found_in(written(tmp_path / "report.json", content)) is None


def test_a_long_report_of_one_kind_of_error_ends_soon(tmp_path):
    content = {**FULL, "thresholds": [{"wrong": number} for number in range(5000)]}
    assert "breaks its schema at $.thresholds" in refused(written(tmp_path / "r.json", json.dumps(content)))
