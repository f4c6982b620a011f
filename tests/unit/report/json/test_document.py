"""Documents: a run becomes a document that keeps the published schema, and comes back as it was."""

import json
import runpy
import sys
from array import array
from math import inf, nan
from pathlib import Path

import pytest
from cases import for_each
from factories import record, run_of, skipped
from jsonschema import Draft202012Validator
from msgspec.structs import replace
from published import JUDGE, SCHEMA

from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import STATUSES, Run
from pytest_gpuperf.report.json import codec, document

FULL = Path(__file__).parents[3] / "data" / "report-1.0.json"  # every value, every status
RUN = document.parse(FULL.read_bytes())


def content_of(run: Run = RUN) -> dict:
    return json.loads(document.text(run))


def parsed(content) -> Run:
    return document.parse(json.dumps(content).encode())


def changed(path: str, value) -> dict:
    """Return the full document with the value at a path replaced; `...` drops it."""
    content = place = content_of()
    *way, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    for step in way:
        place = place[step]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return content


def refusal(content) -> str:
    with pytest.raises(GpuPerfError) as refused:
        parsed(content)
    return str(refused.value)


# -- the published schema ------------------------------------------------------------------------


def objects_in(part):
    """Yield every object that a schema describes."""
    if isinstance(part, dict):
        if "properties" in part and part.get("type") == "object":
            yield part
        for value in part.values():
            yield from objects_in(value)


def test_the_published_schemas_are_what_the_types_say(monkeypatch):
    script = Path(__file__).parents[4] / ".ci" / "generate_schemas.py"
    monkeypatch.setattr(sys, "argv", [str(script), "--check"])
    assert runpy.run_path(str(script))["main"]() == 0


def test_each_object_of_the_schema_has_all_of_its_keys_no_others_and_says_what_they_are():
    def says(part):
        return {"description", "$ref", "const", "enum"} & set(part) or any(map(says, part.get("anyOf", [])))

    Draft202012Validator.check_schema(SCHEMA)
    found = list(objects_in(SCHEMA))
    assert len(found) > 30
    for part in found:
        assert part["additionalProperties"] is False
        assert set(part["required"]) == set(part["properties"])
        assert all(map(says, part["properties"].values()))


def test_the_full_report_has_every_field_of_the_schema():
    def of(part, *path):
        below = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
        return {path, *(found for name, each in below for found in of(each, *path, name))}

    seen = {path[-1] for path in of(content_of()) if path}
    assert {name for part in objects_in(SCHEMA) for name in part["properties"]} <= seen


# -- written and read ----------------------------------------------------------------------------


@for_each("run", [RUN, run_of(), run_of(replace(RUN.records[0], gpu=None)), replace(RUN, complete=False)])
def test_a_run_that_was_written_and_read_is_the_same_run(run):
    text = document.text(run)
    assert text.isascii()
    JUDGE.validate(json.loads(text))
    assert document.parse(text.encode()) == run


def test_each_record_is_a_line():
    lines = document.text(RUN).splitlines()
    for each in RUN.records:
        assert sum(json.dumps(each.nodeid)[:-1] in line for line in lines) == 1


def test_a_record_that_was_written_is_not_written_again():
    known = {id(each): codec.text(each) for each in RUN.records}
    assert document.text(RUN) == document.text(RUN, lambda each: known.pop(id(each)))
    assert known == {}


def test_what_is_derived_is_written_and_not_believed():
    content = changed("records.0.cpu.median", 99.0)
    content["summary"]["failed"] = 99
    assert parsed(content) == RUN
    assert {each: sum(one.status == each for one in RUN.records) for each in STATUSES} == content_of()[
        "summary"
    ]


def test_half_a_character_is_written_out():
    run = run_of(record("test_a[\ud800]"))
    assert [r"test_a[\ud800]"] == [
        each.nodeid for each in document.parse(document.text(run).encode()).records
    ]


# -- refused, with the place ---------------------------------------------------------------------


@for_each(
    ("path", "value", "place"),
    [
        ("records.0.status", "green", "records[0].status"),
        ("records.0.cpu", 5, "records[0].cpu"),
        ("records.0.demand.min", 0, "records[0].demand.min"),
        ("records.0.speedup.rounds", 0, "records[0].speedup.rounds"),
        ("records.0.notes.1", None, "records[0].notes[1]"),
        ("records.0.notes.1.code", "hearsay", "records[0].notes[1].code"),
        ("records.0.interference.own_share", 1.5, "records[0].interference.own_share"),
        ("records.0.check.agreed", "yes", "records[0].check.agreed"),
        ("gate.failures.0.code", "hearsay", "gate.failures[0].code"),
        ("records.1.elapsed", -1.0, "records[1].elapsed"),
        ("summary.failed", -1, "summary.failed"),
        ("environment.packages.numpy", 2, "environment.packages[...]"),
        ("environment.cpu.usable", [4], "environment.cpu[...]"),
        ("records.0.surprise", 1, "records[0]: Object contains unknown field `surprise`"),
        ("records.0.demand.surprise", 1, "records[0].demand: Object contains unknown field `surprise`"),
        ("complete", "yes", "complete"),
        ("records", {}, "records"),
        *((f"records.0.cpu.samples.{at}", value, f"records[0].cpu.samples[{at}]: Expected `float`")
          for at, value in enumerate([True, "1.0", -1.0])),
        *((f"records.0.{name}", ..., f"records[0]: Object missing required field `{name}`")
          for name in ("nodeid", "reason", "demand", "speedup", "notes")),
        ("records.0.demand.transfer", ..., "records[0].demand: Object missing required field `transfer`"),
        ("environment.variables", ..., "environment: Object missing required field `variables`"),
        ("gate", ..., ": Object missing required field `gate`"),
    ],
)  # fmt: skip
def test_a_tampered_document_is_refused_with_the_place(path, value, place):
    said = refusal(changed(path, value))
    assert said.startswith(f"it breaks its schema at $.{place}".replace("$.:", "$:"))


def test_a_test_that_is_there_twice_as_after_a_merge_conflict_is_named():
    content = content_of()
    content["records"].append(content["records"][2])
    said = f"it has 2 records of {RUN.records[2].nodeid!r}; remove all but one"
    assert said == refusal(content)
    with pytest.raises(GpuPerfError, match="remove all but one"):
        document.text(replace(RUN, records=(*RUN.records, RUN.records[2])))


@for_each(
    ("status", "reason"),
    [("passed", "it was fast"), ("recorded", "it was"), ("failed", None), ("skipped", None), ("error", "")],
)
def test_only_what_passed_or_was_recorded_has_no_reason(status, reason):
    with pytest.raises(GpuPerfError, match=r"\$\.records\[0\]\.reason"):
        document.text(run_of(skipped(status=status, reason=reason)))


@for_each("wild", [nan, inf, -inf, 10**400])
@for_each(
    "with_it",
    [
        lambda record, wild: replace(record, elapsed=wild),
        lambda record, wild: replace(record, check=replace(record.check, error=wild)),
        lambda record, wild: replace(record, speedup=replace(record.speedup, value=wild)),
        lambda record, wild: replace(record, gpu=replace(record.gpu, setup=wild)),
    ],
)
def test_what_is_not_a_number_is_never_written(with_it, wild):
    with pytest.raises(GpuPerfError):
        document.text(run_of(with_it(RUN.records[0], wild)))


def test_a_sample_that_is_not_a_number_is_never_written():
    gpu = replace(RUN.records[0].gpu, latencies=array("d", [1.0, nan]))
    with pytest.raises(GpuPerfError):
        document.text(run_of(replace(RUN.records[0], gpu=gpu)))


# -- versions ------------------------------------------------------------------------------------


@for_each("version", ["1.7", "0.9", "", "1.0\n", "9" * 5000 + ".0", ["1.0"], 1.0])
def test_another_version_is_shown_and_an_update_or_a_report_is_asked_for(version):
    said = refusal(changed("schema_version", version))
    assert said.startswith(f"its schema_version is {repr(version)[:80]}, and not 1.0; update pytest-gpuperf ")
    assert said.endswith(", or name one that --gpuperf-json wrote")


@for_each("content", [[], None, "1.0", 5, {}, {"history_version": "1.0"}, {"schema_version": None}])
def test_what_is_no_report_is_called_so(content):
    said = "this is no report: it has no schema_version; name one that --gpuperf-json wrote"
    assert said == refusal(content)
