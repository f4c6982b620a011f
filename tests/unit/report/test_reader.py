"""Reading: whatever a file holds, there is a run or an error that names it, and never anything else."""

import json
import os
from copy import deepcopy
from pathlib import Path

import pytest
from cases import for_each
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from msgspec.structs import replace

from pytest_gpuperf.cli import main
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Record, Report, Run
from pytest_gpuperf.report import reader
from pytest_gpuperf.report.json import codec, document

REPORTS = Path(__file__).parents[2] / "data"
QUICKLY = settings(
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


FULL = json.loads((REPORTS / "report-1.0.json").read_text(encoding="utf-8"))  # every value, every status
RUN = document.load(FULL)
TEXT = document.text(RUN)
JUDGE = Draft202012Validator(document.published_schema("report"))


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


BODY = TEXT.removeprefix("{\n")


@for_each(
    ("content", "said"),
    [
        ("", "is not JSON: it is empty; "),
        (" \n\t", "is not JSON: it is empty; "),
        ("notes", "is not JSON: Expecting value at line 1, column 1; "),
        (TEXT[:-300], "is not JSON: it ends too early: "),
        (TEXT[: TEXT.index("records") + 400], "it may have been cut off"),
        (TEXT.replace('"complete"', "complete"), "is not JSON: Expecting property name"),
        (TEXT.encode("utf-16"), "is not JSON: it is not UTF-8 at byte 1; save it as UTF-8"),
        (TEXT.encode().replace(b"here", b"\xff"), "is not JSON: it is not UTF-8 at byte"),
        (
            TEXT.replace('"elapsed":1.5', '"elapsed":NaN'),
            "is not JSON: it has a number that is none at line ",
        ),
        (TEXT.replace('"elapsed":1.5', '"elapsed":-Infinity'), "that is none at line "),
        (TEXT.replace('"elapsed":1.5', '"elapsed":1e999'), "the number at $.records[0].elapsed is beyond"),
        (TEXT.replace('"elapsed":1.5', '"elapsed":1' + "0" * 400), "the number at $.records[0].elapsed is"),
        (TEXT.replace('"elapsed":1.5', '"elapsed":' + "1" * 5000), "a number of too many digits at line "),
        (TEXT.replace('"peak":160', '"peak":1' + "0" * 400), "the number at $.records[0].memory.peak is"),
        (TEXT.replace('"made":8', '"made":8' + "0" * 400), "the number at $.records[0].transfer.made is"),
        (
            TEXT.replace('},\n  {"nodeid"', '} \n  {"nodeid"', 1),
            "is not JSON: Expecting ',' delimiter at line 28",
        ),
        (TEXT.encode().replace(b"a processor", b"\xff", 1), "is not JSON: it is not UTF-8 at byte"),
        (TEXT.encode().replace(b"it was traced", b"\xff", 1), "is not JSON: it is not UTF-8 at byte"),
        ('{\n "complete": true,\n' + BODY, "an object has the key 'complete' again at line 5, column 2; "),
        (TEXT.replace('"peak":160', '"peak":160,"peak":1'), "an object has the key 'peak' again at line "),
        (TEXT.replace('"x":1.5', '"x":1.5,"\\u0078" :1'), "an object has the key 'x' again at line "),
        ("[" * 100_000, "is not JSON: it is nested too deeply"),
        (TEXT.replace('"notes":[', '"notes":[' + "[" * 900 + "]" * 900 + ",", 1), "$.records[0].notes"),
        ("[]", "this is no report: it has no schema_version; name one that --gpuperf-json wrote"),
        ("null", "this is no report: it has no schema_version; name one that --gpuperf-json wrote"),
        ('"1.0"', "this is no report: it has no schema_version; name one that --gpuperf-json wrote"),
        (
            '{"history_version": "1.0"}',
            "this is no report: it has no schema_version; name one that --gpuperf-json wrote",
        ),
        (TEXT.replace('"1.0"', '"2.0"'), "its schema_version 2.0 is newer than 1.0; update pytest-gpuperf"),
        (
            TEXT.replace('"1.0"', '"0.9"'),
            "this is no report: its schema_version is '0.9'; name one that --gpuperf-json wrote",
        ),
        (TEXT.replace('"1.0"', '"1.9"'), "its schema_version 1.9 is newer than 1.0; update pytest-gpuperf"),
        (
            TEXT.replace('"1.0"', '["1.0"]'),
            "this is no report: its schema_version is ['1.0']; name one that --gpuperf-json wrote",
        ),
        (TEXT.replace('"python": "', '"python": 3, "old": "'), "breaks its schema at $.environment"),
        (
            TEXT.replace('"status":"failed"', '"status":"green"', 1),
            "breaks its schema at $.records[0].status",
        ),
        (json.dumps({**FULL, "records": {}}), "breaks its schema at $.records"),
        (json.dumps({**FULL, "records": [*FULL["records"], 5]}), f"at $.records[{len(FULL['records'])}]: "),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path, content, said):
    assert content != TEXT
    path = written(tmp_path / "report.json", content)
    assert said in refused(path)


def test_a_missing_file_a_folder_and_what_has_no_end_are_refused(tmp_path):
    assert "cannot be read: No such file or directory" in refused(tmp_path / "missing.json")
    assert "it is not a regular file; name a report" in refused(tmp_path)
    assert "not a regular file" in refused(Path("/dev/zero"))
    os.mkfifo(tmp_path / "pipe.json")
    assert "not a regular file" in refused(tmp_path / "pipe.json")
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
        file.truncate(reader.LIMIT + 1)
    assert "has more than 2.00 GB" in refused(tmp_path / "huge.json")
    path = written(tmp_path / "report.json", TEXT)
    monkeypatch.setattr(reader, "LIMIT", len(TEXT) - 1)
    assert "the most that is read" in refused(path)
    monkeypatch.setattr(reader, "LIMIT", len(TEXT))
    assert reader.load_report(path) == RUN


@pytest.mark.skipif(not Path("/proc/version").exists(), reason="needs a file that does not tell its size")
def test_a_file_that_grows_beyond_the_limit_is_refused(monkeypatch):
    monkeypatch.setattr(reader, "LIMIT", 3)
    assert "the most that is read" in refused(Path("/proc/version"))


def test_names_and_texts_of_a_file_never_reach_a_terminal_as_commands(tmp_path, capsys):
    hostile = "\x1b[2J<script>\u202e\x00../../etc/passwd"
    content = deepcopy(FULL)
    content["records"][0] |= {"nodeid": hostile, "status": hostile}
    content["environment"]["packages"][hostile] = 5
    path = written(tmp_path / "\x1b[31mreport.json", json.dumps(content))
    assert main(["validate", str(path)]) == 2
    assert capsys.readouterr().err.removesuffix("\n").isprintable()


def test_a_hostile_node_id_is_a_text_like_any_other(tmp_path):
    hostile = "../../<script>alert(1)</script>\x1b[2J\ud800\u2028.py::test"
    run = replace(RUN, records=(replace(RUN.records[0], nodeid=hostile),))
    before = sorted(tmp_path.parent.iterdir())
    path = written(tmp_path / "report.json", document.text(run))
    assert reader.load_report(path) == run
    assert list(tmp_path.iterdir()) == [path]
    assert sorted(tmp_path.parent.iterdir()) == before


def test_the_collector_works_as_before_when_a_report_was_read(tmp_path):
    import gc

    assert gc.isenabled()
    reader.load_report(written(tmp_path / "report.json", TEXT))
    refused(written(tmp_path / "report.json", "wrong"))
    assert gc.isenabled()


@for_each(
    ("part", "written_as"),
    [('"made":8', '"made":1e300'), ('"made":8', '"made":8.0'), ('"x":1.5', '"\\ud800":1.5')],
)
def test_what_the_quick_reader_cannot_take_is_read_by_the_other(tmp_path, part, written_as):
    text = TEXT.replace(part, written_as)
    assert text != TEXT
    assert document.load(codec.parse(text)) == reader.load_report(written(tmp_path / "report.json", text))


def test_half_a_character_is_a_text(tmp_path):
    run = replace(RUN, records=(replace(RUN.records[0], reason="half: \ud800"),))
    assert reader.load_report(written(tmp_path / "report.json", document.text(run))) == run


@for_each("wild", [float("nan"), float("inf"), 10**400, -(10**400)])
def test_a_document_with_a_number_that_is_none_is_refused_with_its_place(wild):
    content = deepcopy(FULL)
    content["environment"]["cpu"]["quota"] = wild
    with pytest.raises(GpuPerfError, match=r"\$\.environment\.cpu\.quota: the number is beyond"):
        document.load(content)


@for_each("wild", [float("nan"), float("inf"), 10**400])
def test_a_record_with_a_number_that_is_none_is_never_written(wild):
    assert RUN.records[0].nodeid.isascii()
    for record in (replace(RUN.records[0], elapsed=wild), replace(RUN.records[1], elapsed=wild)):
        with pytest.raises(GpuPerfError, match=r"elapsed|not finite"):
            document.text(replace(RUN, records=(record,)))


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
    assert [str(report), str(folder / "within.json")] == [each.name for each in reader.load_reports(folder)]


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
    with pytest.raises(
        GpuPerfError,
        match=r"wrong\.json: this is no report: it has no .*; name one that --gpuperf-json wrote$",
    ):
        reader.load_reports(tmp_path / "wrong.json")


@for_each("started", ["yesterday", "", "2026-01-01T00:00:00", "2026-13-01T00:00:00+00:00"])
def test_a_report_in_a_folder_that_does_not_say_when_it_began_is_named(tmp_path, started):
    path = written(tmp_path / "report.json", document.text(replace(RUN, started=started)))
    assert reader.load_report(path).started == started
    with pytest.raises(GpuPerfError, match=r"report\.json: \$\.started is .* with an offset.*; or move the"):
        reader.load_reports(tmp_path)


# -- how a report is written ---------------------------------------------------------------------


def test_each_record_is_a_line():
    lines = TEXT.splitlines()
    for record in FULL["records"]:
        assert sum(json.dumps(record["nodeid"])[:-1] in line for line in lines) == 1
    assert json.loads(TEXT) == json.loads(json.dumps(FULL))


def quickly(record: Record) -> Record | None:
    return codec.quick(codec.written(record).encode(), Record)


def test_a_record_in_ascii_is_read_quickly():
    plain = [record for record in RUN.records if record.nodeid.isascii()]
    assert 1 < len(plain) < len(RUN.records)
    assert plain == [quickly(record) for record in plain]


def test_an_integer_in_the_place_of_a_float_is_written_as_one_that_is_read_quickly():
    record = replace(RUN.records[1], nodeid="ascii", elapsed=2)
    assert '"elapsed":2.0' in codec.written(record)
    assert record == quickly(record)


@for_each(
    ("part", "changed_to"),
    [
        ('"elapsed":1.5', '"elapsed":1.50'),
        ('"elapsed":1.5', '"elapsed":1.5,"elapsed":1.5'),
        ('"elapsed":1.5', '"elapsed":1.5,"more":1'),
        ('"elapsed":1.5,', ""),
        ('"elapsed":1.5', '"elapsed": 1.5'),
        ('"made":8', '"made":8' + "0" * 400),
    ],
)
def test_a_text_that_is_not_as_it_is_written_is_not_read_quickly(part, changed_to):
    line = codec.written(replace(RUN.records[0], nodeid="ascii")).replace(part, changed_to)
    assert changed_to in line
    assert codec.quick(line.encode(), Record) is None


def test_a_node_id_that_is_there_twice_is_refused_with_both_places(tmp_path):
    content = {**FULL, "records": [*FULL["records"], FULL["records"][2]]}
    said = f"$.records[2] and $.records[{len(FULL['records'])}] are both of '{FULL['records'][2]['nodeid']}'"
    assert said in refused(written(tmp_path / "report.json", json.dumps(content)))
    with pytest.raises(GpuPerfError, match="leave one of them out"):
        document.text(replace(RUN, records=(*RUN.records, RUN.records[2])))


def test_a_node_id_that_is_there_twice_is_refused_with_both_lines_of_a_report_of_ours(tmp_path):
    lines = document.text(RUN).splitlines(keepends=True)
    first = next(index for index, line in enumerate(lines) if line.lstrip().startswith('{"nodeid"'))
    both = "".join([*lines[:first], lines[first], *lines[first:]])  # a merge conflict that keeps both sides
    said = f"$.records[0] (line {first + 1}) and $.records[1] (line {first + 2}) are both of "
    assert said in refused(written(tmp_path / "report.json", both))
    assert said in refused(written(tmp_path / "report.json", both.replace(": ", ":", 1)))


@for_each("sample", [True, "1.0", None, -1.0, {}])
def test_what_is_no_sample_is_refused_with_its_place(tmp_path, sample):
    content = deepcopy(FULL)
    content["records"][0]["cpu"]["samples"][1] = sample
    said = refused(written(tmp_path / "report.json", json.dumps(content)))
    assert "breaks its schema at $.records[0].cpu.samples[1]: Expected `float`" in said


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


def has_wild_number(content) -> bool:
    return codec.unbounded(content, "$") is not None


def passes_part_by_part(content) -> bool:
    try:
        document.validate(content)
    except GpuPerfError:
        return False
    return True


@QUICKLY
@given(changes=CHANGES, laid=st.booleans())
def test_a_document_that_was_tampered_with_is_a_run_or_an_error_and_validated_like_a_whole(
    tmp_path, changes, laid
):
    content = changed(FULL, changes)
    text = json.dumps(content, indent=1)
    if laid and isinstance(content.get("records"), list) and content["records"]:
        lines = map(json.dumps, content["records"])
        head, _, tail = json.dumps({**content, "records": []}).partition('"records": []')
        text = "".join((head, '\n "records": [\n  ', ",\n  ".join(lines), "\n ]", tail))
    run = found_in(written(tmp_path / "report.json", text))
    is_valid = JUDGE.is_valid(content)
    assert is_valid or run is None
    assert passes_part_by_part(content) == (is_valid and not has_wild_number(content))


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


@QUICKLY
@given(value=VALUES)
def test_a_line_that_reads_back_is_what_any_reader_makes_of_it(value):
    try:
        line = codec.text({"value": value})
    except GpuPerfError:
        assert has_wild_number(value)
        return
    assert line.isascii()
    assert "\n" not in line
    assert codec.parse(line) == json.loads(line)
    quick = codec.quick(line.encode(), dict)
    assert quick in (None, {"value": value})


@for_each("text", ['{"a":1,"a":2}', '{"a":1,"a" :2}', '{"a\\\\":1,"a\\\\":2}', '[{"b":{},"b":1}]'])
def test_a_key_that_is_there_twice_is_found_however_it_is_written(text):
    assert codec.quick(text.encode(), object) is None
    with pytest.raises(ValueError, match=r"again at line 1, column \d+; leave one of them out"):
        codec.parse(text)


def test_a_long_report_of_one_kind_of_error_ends_soon(tmp_path):
    content = {**FULL, "thresholds": [{"wrong": number} for number in range(5000)]}
    assert "breaks its schema at $.thresholds" in refused(written(tmp_path / "r.json", json.dumps(content)))
