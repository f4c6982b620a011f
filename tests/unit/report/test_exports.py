"""The formats by their names, and what all of them do with numbers, texts and files."""

import csv
import io
import json
from xml.etree import ElementTree

import pytest
from command import exported
from factories import (
    GPU,
    HERE,
    measurement,
    record,
    run_of,
    skipped,
)
from golden import assert_golden, run_with_everything
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from msgspec.structs import replace
from strategies import FORMULAS, HOSTILE, shown

from pytest_gpuperf.model.comparison import Commit
from pytest_gpuperf.model.record import Record

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


@pytest.mark.parametrize("format", [*TABLES, "svg"])
def test_a_file_has_what_a_run_has(format):
    """Read the diff of a golden file with the page of exports, which says what stands where."""
    text = exported(run_with_everything(), format)
    assert (format == "csv") == ("\r\n" in text), "the line ends of its standard"
    if format in SCHEMAS:
        Draft202012Validator(SCHEMAS[format]).validate(json.loads(text))
        text = json.dumps(json.loads(text), indent=1)
    assert_golden(f"export-{format}.txt", text.replace("\r\n", "\n").replace("><", ">\n<"))


@pytest.mark.parametrize("format", [*TABLES, "svg"])
@given(anything=HOSTILE)
def test_every_format_can_be_read_whatever_a_test_is_called(format, anything):
    device = replace(GPU, name=anything, backend=anything)
    environment = replace(HERE, host={"name": anything}, cpu={"name": anything}, gpu=device, python=anything)
    test = record(f"{anything}-", status="failed", reason=anything or "-", gpu=measurement(device, 0.1))
    commit = Commit(id=anything or "-", branch=anything)
    content = exported(run_of(test, environment=environment, commit=commit), format)
    if format == "svg":
        drawn = ElementTree.fromstring(content)
        assert shown(drawn.get("aria-label")) == drawn.get("aria-label")
    elif format != "csv":
        content = json.dumps(json.loads(content), ensure_ascii=False)  # what a reader has after decoding
    assert content.encode().decode() == content


LONG = f"test[{'é' * 600}"  # 1,205 bytes


@given(st.lists(HOSTILE, unique=True, min_size=1, max_size=4))
@example(["test[\x1b]", "test[\\x1b]", f"{LONG}1]", f"{LONG}2]"])
@example(["", " "])
def test_tests_stay_different_in_every_file_under_names_that_it_can_hold(names):
    run = run_of(*map(record, names))
    found = {each: json.loads(exported(run, each)) for each in JSON}
    assert len(names) == len(found["bencher"])
    assert all(0 < len(name.encode()) <= 1024 and name.isprintable() for name in found["bencher"])
    assert len(names) == len({entry["name"] for entry in found["github-action-benchmark"]})


def test_a_picture_of_no_speedups_says_so():
    drawn = ElementTree.fromstring(exported(run_of(skipped("a")), "svg"))
    assert "no speedup was measured" == drawn.get("aria-label")


# CSV


def row(record: Record) -> dict[str, str]:
    """Return what a reader of CSV makes of our file."""
    file = io.StringIO(exported(run_of(record), "csv"), newline="")
    return next(csv.DictReader(file, strict=True))


@given(HOSTILE)
@example('"=')
def test_no_cell_of_text_is_a_formula(anything):
    found = row(skipped(anything, reason=anything or "-"))
    for cell in (found["test"], found["reason"] if anything else ""):
        assert not cell.startswith(FORMULAS)
        assert shown(anything).replace("'", "") == cell.replace("'", "")
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
    assert expected == row(skipped(text, reason="it"))["test"]
