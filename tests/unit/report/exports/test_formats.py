"""The formats by their names, and what all of them do with numbers, texts and files."""

import json
import re
from math import inf
from pathlib import Path
from types import SimpleNamespace

import pytest
from cases import for_each
from factories import GPU, HERE, measurement, record, run_of, scaled, skipped, speedup
from golden import assert_golden
from hypothesis import given
from jsonschema import Draft202012Validator
from msgspec.structs import replace
from strategies import HOSTILE

from pytest_gpuperf.model.comparison import Commit
from pytest_gpuperf.model.errors import GpuPerfError
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


def own(name="own", write=lambda run: "mine", **members):
    return SimpleNamespace(name=name, suffix=".own", write=write, **members)


def test_the_formats_are_those_of_the_documentation():
    assert [*TABLES, "markdown", "html", "svg"] == list(exports.formats())
    assert "own" in exports.formats([own()])


@pytest.mark.parametrize("format", TABLES)
def test_a_file_has_what_a_run_has(everything, format):
    """Read the diff of a golden file with the page of exports, which says what stands where."""
    text = exports.formats()[format].write(everything)
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
def test_every_format_can_be_encoded_whatever_a_test_is_called(written, format, anything):
    device = replace(GPU, name=anything, backend=anything)
    environment = replace(HERE, host={"name": anything}, cpu={"name": anything}, gpu=device, python=anything)
    hostile = record(anything, reason=anything, gpu=measurement(device, 0.1))
    content = written(format, hostile, environment=environment, commit=Commit(id=anything, branch=anything))
    if format != "csv":
        content = json.dumps(json.loads(content), ensure_ascii=False)  # what a reader has after decoding
    assert content.encode().decode() == content


@for_each("format", JSON)
def test_a_number_that_json_has_not_is_an_error(written, format):
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
def test_a_run_without_times_leaves_no_export_of_an_earlier_run(published, written, format):
    path, empty = Path("export.json"), (exports.formats()[format], skipped("a"))
    nothing = f"{format} file: %s, because no test has a result for it"
    path.unlink(missing_ok=True)
    assert nothing % "no file" == published(*empty)
    for first in (record("a"), scaled(4, 0.5)):
        path.write_text(written(format, first))
        assert (nothing % "emptied", b"") == (published(*empty), path.read_bytes())
    path.write_text("theirs")
    assert (nothing % "no file", b"theirs") == (published(*empty), path.read_bytes())


def test_the_picture_has_the_worst_first_and_says_where_a_device_is_emulated(written):
    verdicts = {"passed": None, "inconclusive": "near", "failed": "slow"}
    emulated = measurement(replace(GPU, emulated=True), 0.1)
    records = [record(f"a.py::test_{status}", status=status, reason=why) for status, why in verdicts.items()]
    words = re.findall(
        r"<text[^>]*>([^<]*)", written("svg", *records, replace(records[0], nodeid="b", gpu=emulated))
    )
    shown = [word.rpartition("] ")[2] for word in words if "] " in word]
    assert ["failed", "inconclusive", "passed", "passed, emulated"] == shown


@for_each(
    ("said", "written"),
    [
        ("the own file was not written: types.SimpleNamespace returned NoneType, and no str", None),
        ("own file: no file, because no test has a result for it", ""),
        ("own file: export.json", "ours"),
    ],
)
def test_a_format_of_others_writes_its_file_or_is_named(published, said, written):
    Path("export.json").write_text("theirs")
    assert published(own(write=lambda run: written), record()).startswith(said)
    assert (written or "theirs") == Path("export.json").read_text()


@for_each("ends", [KeyboardInterrupt, pytest.exit.Exception])
def test_a_format_may_end_the_whole_run(published, ends):
    def write(run):
        raise ends

    with pytest.raises(ends):
        published(own(write=write), record())


def test_names_that_cannot_be_kept_stay_different_in_every_file(loaded):
    long = f"test[{'é' * 600}"  # 1,205 bytes
    names = ["test[\x1b]", "test[\\x1b]", f"{long}1]", f"{long}2]"]
    found = [*loaded("bencher", *map(record, names))]
    assert [True] * 4 == [len(name.encode()) <= 1024 for name in found]
    assert 4 == len({entry["name"] for entry in loaded("github-action-benchmark", *map(record, names))})
