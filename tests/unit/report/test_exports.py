"""The formats by their names, and what all of them do with numbers, texts and files."""

import csv
import io
import json
from math import inf
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from factories import (
    GPU,
    HERE,
    measurement,
    record,
    run_of,
    scaled,
    skipped,
    speedup,
)
from golden import assert_golden, run_with_everything
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from msgspec.structs import replace
from strategies import FORMULAS, HOSTILE

from pytest_gpuperf.model.comparison import Commit
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.report import exports

# https://bencher.dev/docs/reference/bencher-metric-format, with the lengths that its text gives
METRIC = {
    "type": "object",
    "properties": {name: {"type": "number"} for name in ("value", "lower_value", "upper_value")},
    "required": ["value"],
    "additionalProperties": False,
}
MEASURES = {
    "type": "object",
    "propertyNames": {"maxLength": 64, "pattern": "^[a-z0-9]+(-[a-z0-9]+)*$"},
    "additionalProperties": METRIC,
}
# BenchmarkResult in benchmark-action/github-action-benchmark, src/extract.ts
RESULT = {
    "type": "object",
    "properties": {
        "value": {"type": "number"},
        **{name: {"type": "string"} for name in ("name", "unit", "range", "extra")},
    },
    "required": ["name", "value", "unit"],
    "additionalProperties": False,
}
SCHEMAS = {
    "bencher": {"type": "object", "additionalProperties": MEASURES},
    "github-action-benchmark": {"type": "array", "items": RESULT},
}
JSON = ["bencher", "github-action-benchmark"]
TABLES = ["csv", *JSON]


def written(format: str, *records: Record, **changes) -> str:
    """Return the text of records in a format of ours."""
    return exports.formats()[format].write(run_of(*records, **changes))


def own(name="own", write=lambda run: "mine", **members):
    return SimpleNamespace(name=name, suffix=".own", write=write, **members)


def test_the_formats_are_those_of_the_documentation():
    assert [*TABLES, "markdown", "html", "svg"] == list(exports.formats())
    assert "own" in exports.formats([own()])


@pytest.mark.parametrize("format", [*TABLES, "svg"])
def test_a_file_has_what_a_run_has(format):
    """Read the diff of a golden file with the page of exports, which says what stands where."""
    text = exports.formats()[format].write(run_with_everything())
    assert (format == "csv") == ("\r\n" in text), "the line ends of its standard"
    if format in SCHEMAS:
        Draft202012Validator(SCHEMAS[format]).validate(json.loads(text))
        text = json.dumps(json.loads(text), indent=1)
    assert_golden(f"export-{format}.txt", text.replace("\r\n", "\n").replace("><", ">\n<"))


@pytest.mark.parametrize(
    ("message", "others"),
    [
        (
            "two report formats are called 'csv', pytest_gpuperf.report.exports.csv.Csv and types.Simple",
            [own("csv")],
        ),
        ("two report formats are called 'own'", [own(), own()]),
        *(
            ("is no report format: it must be an object with a name", [wrong])
            for wrong in (
                *map(own, ("a:b", "", 7, None)),
                SimpleNamespace(name="own"),
                SimpleNamespace(name="own", suffix=".own"),
                type("Own", (), {**vars(own())}),
            )
        ),
    ],
)
def test_a_format_that_cannot_be_is_refused(message, others):
    with pytest.raises(GpuPerfError, match=message):
        exports.formats(others)


@pytest.mark.parametrize("format", [*TABLES, "svg"])
@given(anything=HOSTILE)
def test_every_format_can_be_read_whatever_a_test_is_called(format, anything):
    device = replace(GPU, name=anything, backend=anything)
    environment = replace(HERE, host={"name": anything}, cpu={"name": anything}, gpu=device, python=anything)
    hostile = record(f"{anything}-", reason=anything, gpu=measurement(device, 0.1))
    content = written(format, hostile, environment=environment, commit=Commit(id=anything, branch=anything))
    if format == "svg":
        drawn = ElementTree.fromstring(content)
        assert printable(drawn.get("aria-label")) == drawn.get("aria-label")
    elif format != "csv":
        content = json.dumps(json.loads(content), ensure_ascii=False)  # what a reader has after decoding
    assert content.encode().decode() == content


LONG = f"test[{'é' * 600}"  # 1,205 bytes


@given(st.lists(HOSTILE, unique=True, min_size=1, max_size=4))
@example(["test[\x1b]", "test[\\x1b]", f"{LONG}1]", f"{LONG}2]"])
@example(["", " "])
def test_tests_stay_different_in_every_file_under_names_that_it_can_hold(names):
    tests = list(map(record, names))
    found = {each: json.loads(written(each, *tests)) for each in JSON}
    assert len(names) == len(found["bencher"])
    assert all(0 < len(name.encode()) <= 1024 and name.isprintable() for name in found["bencher"])
    assert len(names) == len({entry["name"] for entry in found["github-action-benchmark"]})


@pytest.mark.parametrize("format", JSON)
def test_a_number_that_json_has_not_is_an_error(format):
    with pytest.raises(GpuPerfError, match="not finite"):
        written(format, record(speedup=speedup(value=inf)))


@pytest.mark.parametrize("format", JSON)
def test_a_run_without_times_leaves_no_export_of_an_earlier_run(tmp_path, format):
    ours, path = exports.formats()[format], tmp_path / "export.json"

    def write_nothing() -> str | None:
        return exports.write(exports.text(ours, run_of(skipped("a"))), ours, path)

    why = "because no test has a result for it"
    assert f"no file, {why}" == write_nothing()
    for earlier in (record("a"), scaled(4, 0.5)):
        path.write_text(written(format, earlier))
        assert (f"emptied, {why}", b"") == (write_nothing(), path.read_bytes())
    path.write_text("theirs")
    assert (f"no file, {why}", b"theirs") == (write_nothing(), path.read_bytes())


def test_a_picture_of_no_speedups_says_so():
    assert "no speedup was measured" == ElementTree.fromstring(written("svg", skipped("a"))).get("aria-label")


def test_a_format_of_others_returns_text_or_is_named():
    assert "ours" == exports.text(own(write=lambda run: "ours"), run_of())
    with pytest.raises(GpuPerfError, match="SimpleNamespace returned NoneType, and no str"):
        exports.text(own(write=lambda run: None), run_of())


@pytest.mark.parametrize("ends", [KeyboardInterrupt, pytest.exit.Exception])
def test_a_format_may_end_the_whole_run(ends):
    def write(run):
        raise ends

    with pytest.raises(ends):
        exports.text(own(write=write), run_of())


# CSV


def rows(*records: Record) -> list[dict[str, str]]:
    """Return what a reader of CSV makes of our file."""
    file = io.StringIO(written("csv", *records), newline="")
    return list(csv.DictReader(file, strict=True))


@given(HOSTILE)
@example('"=')
def test_no_cell_of_text_is_a_formula(anything):
    found = rows(skipped(anything, reason=anything))[0]
    for cell in (found["test"], found["reason"]):
        assert not cell.startswith(FORMULAS)
        assert printable(anything).replace("'", "") == cell.replace("'", "")
        assert not any(part.lstrip(' "').startswith(FORMULAS[:4]) for part in cell.split(";"))


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ("'=1+1", "=1+1"),
        ("a;'=1+1", "a;=1+1"),
        ("a;' \"-1", 'a; "-1'),
        ("a;;'\uff1d1", "a;;\uff1d1"),
        (r"\t=1", "\t=1"),
    ],
)
def test_text_that_begins_like_a_formula_is_marked_as_text(expected, text):
    assert expected == rows(skipped(text, reason="it"))[0]["test"]
