"""The formats by their names, and what all of them do with numbers, texts and files."""

import csv
import io
import json
import re
from math import inf
from pathlib import Path
from types import SimpleNamespace

import pytest
from cases import for_each
from factories import (
    CPU,
    EMULATED,
    GPU,
    HERE,
    comparison,
    copies,
    estimate,
    measurement,
    offload,
    record,
    run_of,
    scaled,
    skipped,
    speedup,
)
from golden import assert_golden
from hypothesis import example, given, settings
from jsonschema import Draft202012Validator
from msgspec.structs import replace
from strategies import FORMULAS, HOSTILE

from pytest_gpuperf.model.comparison import METRICS, Commit
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import Memory, Transfer
from pytest_gpuperf.model.offload import BreakEven
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.model.record import Record, Run
from pytest_gpuperf.report import exports
from pytest_gpuperf.report.outputs import Output, Outputs, publish

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


def run_of_each_kind() -> Run:
    """Return a run with each kind of record that a format treats in a way of its own."""
    two = estimate(2.0, 1.5, 3.0)
    slower = comparison(reason="slower", baseline=two, found=two, ratio=estimate(0.75, 0.5, 1.25))
    full = record(
        "test_a.py::test_full",
        status="failed",
        reason="too slow",
        demand=Demand(min=3, max=9, max_memory=8192),
        transfer=Transfer(h2d=copies(0.001), d2h=copies(0.001)),
        memory=Memory(peak=4096),
        offload=offload(
            always=speedup(2.0, 1.5, 3.0),
            once=speedup(4.0, 3.5, 5.0),
            latency=speedup(6.0, 5.5, 7.0),
            break_even_calls=BreakEven(transfer=None, first_call=None, both=two, reason=None),
        ),
        comparisons=tuple(replace(slower, metric=metric) for metric in METRICS),
    )
    return run_of(
        full,
        record("test_a.py::test_open", speedup=speedup(high=None)),
        record("test_a.py::test_or[a|b]", gpu=measurement(EMULATED, 0.001)),
        skipped("test_a.py::test_skipped", "no GPU"),
        skipped("test_a.py::test_on_the_cpu", "no GPU", cpu=measurement(CPU, 0.02)),
        scaled(1),
        replace(scaled(4, 0.5, required=0.4), demand=Demand(min=2, max=3)),
        commit=Commit(id="abc", branch="main", time="2026-11-21T10:54:31+00:00", changed=True),
    )


def written(format: str, *records: Record, **changes) -> str:
    """Return the text of records in a format of ours."""
    return exports.formats()[format].write(run_of(*records, **changes))


def own(name="own", write=lambda run: "mine", **members):
    return SimpleNamespace(name=name, suffix=".own", write=write, **members)


def test_the_formats_are_those_of_the_documentation():
    assert [*TABLES, "markdown", "html", "svg"] == list(exports.formats())
    assert "own" in exports.formats([own()])


@pytest.mark.parametrize("format", TABLES)
def test_a_file_has_what_a_run_has(format):
    """Read the diff of a golden file with the page of exports, which says what stands where."""
    text = exports.formats()[format].write(run_of_each_kind())
    if format in SCHEMAS:
        Draft202012Validator(SCHEMAS[format]).validate(json.loads(text))
    shown = text.replace("\r\n", "\n") if format == "csv" else json.dumps(json.loads(text), indent=1)
    assert_golden(f"export-{format}.txt", shown)


@for_each(
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


@pytest.mark.parametrize("format", TABLES)
@given(anything=HOSTILE)
def test_every_format_can_be_encoded_whatever_a_test_is_called(format, anything):
    device = replace(GPU, name=anything, backend=anything)
    environment = replace(HERE, host={"name": anything}, cpu={"name": anything}, gpu=device, python=anything)
    hostile = record(anything, reason=anything, gpu=measurement(device, 0.1))
    content = written(format, hostile, environment=environment, commit=Commit(id=anything, branch=anything))
    if format != "csv":
        content = json.dumps(json.loads(content), ensure_ascii=False)  # what a reader has after decoding
    assert content.encode().decode() == content


@for_each("format", JSON)
def test_a_number_that_json_has_not_is_an_error(format):
    with pytest.raises(GpuPerfError, match="not finite"):
        written(format, record(speedup=speedup(value=inf)))


@pytest.fixture
def published(tmp_path, monkeypatch):
    """Write a run to `export.json` in a format; return the line of it, or the problem."""
    monkeypatch.chdir(tmp_path)

    def call(format, *records) -> str:
        output = Output(flag="", format=format, path=Path("export.json"))
        (said,) = [
            line for part in publish(run_of(*records), Outputs(files=(output,)), None) for line in part
        ]
        return said

    return call


@for_each("format", JSON)
def test_a_run_without_times_leaves_no_export_of_an_earlier_run(published, format):
    path, empty = Path("export.json"), (exports.formats()[format], skipped("a"))
    nothing = f"{format} file: %s, because no test has a result for it"
    path.unlink(missing_ok=True)
    assert nothing % "no file" == published(*empty)
    for first in (record("a"), scaled(4, 0.5)):
        path.write_text(written(format, first))
        assert (nothing % "emptied", b"") == (published(*empty), path.read_bytes())
    path.write_text("theirs")
    assert (nothing % "no file", b"theirs") == (published(*empty), path.read_bytes())


def test_the_picture_has_the_worst_first_and_says_where_a_device_is_emulated():
    verdicts = {"passed": None, "inconclusive": "near", "failed": "slow"}
    emulated = measurement(replace(GPU, emulated=True), 0.1)
    records = [record(f"a.py::test_{status}", status=status, reason=why) for status, why in verdicts.items()]
    words = re.findall(
        r"<text[^>]*>([^<]*)", written("svg", *records, replace(records[0], nodeid="b", gpu=emulated))
    )
    shown = [word.rpartition("] ")[2] for word in words if "] " in word]
    assert ["failed", "inconclusive", "passed", "passed, emulated"] == shown


@for_each(
    ("said", "content"),
    [
        ("the own file was not written: types.SimpleNamespace returned NoneType, and no str", None),
        ("own file: no file, because no test has a result for it", ""),
        ("own file: export.json", "ours"),
    ],
)
def test_a_format_of_others_writes_its_file_or_is_named(published, said, content):
    Path("export.json").write_text("theirs")
    assert published(own(write=lambda run: content), record()).startswith(said)
    assert (content or "theirs") == Path("export.json").read_text()


@for_each("ends", [KeyboardInterrupt, pytest.exit.Exception])
def test_a_format_may_end_the_whole_run(published, ends):
    def write(run):
        raise ends

    with pytest.raises(ends):
        published(own(write=write), record())


def test_names_that_cannot_be_kept_stay_different_in_every_file():
    long = f"test[{'é' * 600}"  # 1,205 bytes
    names = ["test[\x1b]", "test[\\x1b]", f"{long}1]", f"{long}2]"]
    found = [*json.loads(written("bencher", *map(record, names)))]
    assert [True] * 4 == [len(name.encode()) <= 1024 for name in found]
    assert 4 == len(
        {entry["name"] for entry in json.loads(written("github-action-benchmark", *map(record, names)))}
    )


# CSV


def rows(*records: Record) -> list[dict[str, str]]:
    """Return what a reader of CSV makes of our file."""
    file = io.StringIO(written("csv", *records), newline="")
    return list(csv.DictReader(file, strict=True))


def test_rows_make_a_table_of_tests_and_metrics():
    """As `pivot(index="test", columns="metric", values="value")` of pandas does: no pair has two rows."""
    found = rows(record("a"), record("b", speedup=speedup(4.0, 3.0, 5.0)))
    table = {(row["test"], row["metric"]): float(row["value"]) for row in found}
    assert len(table) == len(found)
    assert (10.0, 4.0, 0.02) == (table["a", "speedup"], table["b", "speedup"], table["b", "cpu_time"])
    assert 3 == written("csv", skipped("a"), skipped("b")).count("\r\n"), "the line ends of its standard"


@pytest.mark.parametrize(("expected", "reason"), [("it got worse", None), ("too slow", "too slow")])
def test_a_test_without_a_reason_has_that_of_its_regression(expected, reason):
    worse = comparison(reason="it got worse")
    found = rows(record("a", reason=reason, comparisons=(worse,)))
    assert {expected} == {row["reason"] for row in found}


@settings(deadline=None)
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
        *((f"'{begin}1+1", f"{begin}1+1") for begin in FORMULAS if begin.isprintable()),
        ("a;'=1+1", "a;=1+1"),
        ("a;' \"-1", 'a; "-1'),
        ("a;;'\uff1d1", "a;;\uff1d1"),
        (r"\t=1", "\t=1"),
    ],
)
def test_text_that_begins_like_a_formula_is_marked_as_text(expected, text):
    assert expected == rows(skipped(text, reason="it"))[0]["test"]
