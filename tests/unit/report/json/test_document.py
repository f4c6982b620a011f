"""Documents: a run becomes a document that keeps the published schema, and comes back as it was."""

import json
import subprocess
import sys
from array import array
from copy import deepcopy
from functools import reduce
from math import inf, nan
from pathlib import Path

import factories
import pytest
from cases import for_each
from factories import record, run_of, skipped
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from msgspec.structs import replace
from published import FULL, JUDGE, SCHEMA
from strategies import records, scalings, thresholds

from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import STATUSES, Run
from pytest_gpuperf.report.json import codec, document

RUN = document.parse(json.dumps(FULL).encode())
TEXT = document.text(RUN)


def found_in(content: bytes) -> Run | None:
    """Return the run in a text, None where it is refused; a run's own text keeps the schema."""
    try:
        run = document.parse(content)
    except GpuPerfError:
        return None
    assert JUDGE.is_valid(json.loads(document.text(run)))
    return run


# -- the published schema ------------------------------------------------------------------------


def objects_in(part):
    """Yield every object that a schema describes."""
    if isinstance(part, dict):
        if "properties" in part and part.get("type") == "object":
            yield part
        for value in part.values():
            yield from objects_in(value)


def places(part, path=()):
    """Return the path of every part of a document."""
    inner = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    return [path, *(found for name, each in inner for found in places(each, (*path, name)))]


PLACES = places(FULL)[1:]
FOUND = [reduce(lambda part, step: part[step], path, FULL) for path in PLACES]
"""What is there: a part of a report is right in some other places, too."""


def test_the_published_schemas_are_what_the_types_say():
    script = Path(__file__).parents[4] / ".ci" / "generate_schemas.py"
    subprocess.run([sys.executable, script, "--check"], check=True)


def test_each_object_of_the_schema_has_all_of_its_keys_no_others_and_says_what_they_are():
    def says(part):
        return {"description", "$ref", "const", "enum"} & set(part) or any(map(says, part.get("anyOf", [])))

    Draft202012Validator.check_schema(SCHEMA)
    found = list(objects_in(SCHEMA))
    assert len(found) > 30
    for part in found:
        assert part["additionalProperties"] is False
        assert set(part["required"]) == set(part["properties"]) - codec.ADDED
        assert all(map(says, part["properties"].values()))


def test_each_field_of_an_object_has_a_description_of_its_own():
    for part in objects_in(SCHEMA):
        told = [each["description"] for each in part["properties"].values() if "description" in each]
        assert sorted({*told}) == sorted(told)


def test_the_full_report_has_every_field_of_the_schema():
    assert {name for part in objects_in(SCHEMA) for name in part["properties"]} <= {
        name for *_, name in PLACES
    }


# -- written and read ----------------------------------------------------------------------------


def test_a_run_with_every_field_that_was_written_and_read_is_the_same_run():
    assert TEXT.isascii()
    JUDGE.validate(json.loads(TEXT))
    assert document.parse(TEXT.encode()) == RUN


@given(
    st.lists(
        st.builds(lambda found, nodeid: replace(found, nodeid=nodeid), records(), st.text()), max_size=3
    ),
    st.lists(thresholds(), max_size=1),
    st.lists(scalings(), max_size=1),
    st.booleans(),
)
def test_any_run_survives_writing_and_reading_or_is_refused(found, of_sizes, of_devices, complete):
    run = run_of(*found, thresholds=tuple(of_sizes), scalings=tuple(of_devices), complete=complete)
    try:
        text = document.text(run)
    except GpuPerfError:
        return
    JUDGE.validate(json.loads(text))
    assert document.parse(text.encode()) == run


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])  # of Windows, with a mark
@pytest.mark.parametrize("layout", [{}, {"indent": 4, "sort_keys": True}])
def test_a_report_that_another_tool_laid_out_is_read(layout, encoding):
    text = json.dumps(FULL, ensure_ascii=False, **layout)
    assert document.parse(text.encode(encoding)) == RUN


def test_each_record_is_a_line_which_is_not_written_again():
    known = {id(each): codec.text(each) for each in RUN.records}
    lines = {line.strip().rstrip(",") for line in TEXT.splitlines()}
    assert {*known.values()} <= lines
    assert TEXT == document.text(RUN, lambda each: known.pop(id(each)))
    assert known == {}


def test_what_is_derived_is_written_and_not_believed():
    content = json.loads(TEXT)
    assert {each: sum(one.status == each for one in RUN.records) for each in STATUSES} == content["summary"]
    content["records"][0]["cpu"]["median"] = 99.0
    content["summary"]["failed"] = 99
    assert document.parse(json.dumps(content).encode()) == RUN


def test_half_a_character_is_written_out():
    text = document.text(run_of(record("test_a[\ud800]")))
    assert [r"test_a[\ud800]"] == [each.nodeid for each in document.parse(text.encode()).records]


# -- refused, with the place ---------------------------------------------------------------------


def changed(path, value, *, is_added=False) -> str:
    """Return the full document with another value at a path, or one more beside it; `...` drops it."""
    content = place = deepcopy(FULL)
    *way, last = path
    for step in way:
        place = place[step]
    if value is ...:
        del place[last]
    elif is_added and isinstance(place, list):
        place.insert(last, value)
    else:
        place[f"{last}_" if is_added else last] = value
    return json.dumps(content)


def steps(path: str) -> list[str | int]:
    return [int(step) if step.isdigit() else step for step in path.split(".")]


def with_text(old: str, new: str) -> str:
    """Return the text of the full document with other letters in one place."""
    assert old in TEXT
    return TEXT.replace(old, new, 1)


BROKEN = "it breaks its schema at $"
OBJECT = "the object that begins with"
TIMED, MADE, NAMED = '"elapsed":1.5', '"made":8', '"name":"test_x"'
TWICE = RUN.records[0].nodeid
NO_REPORT = "this is no report: it has no schema_version; name one that --gpuperf-json wrote"
TAMPERED = {
    "records.0.status": ("green", ".records[0].status: Invalid enum value 'green'"),
    "records.0.demand.min": (0, ".records[0].demand.min: "),
    "records.0.notes.1.code": ("hearsay", ".records[0].notes[1].code: "),
    "environment.packages.numpy": (2, ".environment.packages[...]: "),
    "records.0.demand.surprise": (1, ".records[0].demand: Object contains unknown field `surprise`"),
    "records.0.cpu.samples.2": (-1.0, ".records[0].cpu.samples[2]: Expected `float`"),
    "records.0.reason": (None, ".records[0].reason: a record that failed has a reason"),
    "records.0.speedup": (..., ".records[0]: Object missing required field `speedup`"),
    "gate": (..., ": Object missing required field `gate`"),
}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "it is not JSON: it is empty or was cut off; "),
        ("notes", "it is not JSON: invalid character at line 1, column "),
        (TEXT[:-300], "it is not JSON: it is empty or was cut off; "),
        (with_text('"complete"', "complete"), "it is not JSON: object keys must be strings at line "),
        (TEXT.encode("utf-16"), "it is not JSON: it is not UTF-8; "),
        (TEXT.encode().replace(b"a processor", b"\xff", 1), "it is not JSON: it is not UTF-8; "),
        (with_text(TIMED, '"elapsed":NaN'), "it is not JSON: invalid character at line "),
        (with_text(TIMED, '"elapsed":-Infinity'), "it is not JSON: invalid character at line "),
        (with_text('},\n  {"nodeid"', '} \n  {"nodeid"'), "it is not JSON: expected ',' or ']' at line 80"),
        ('{"records":' + "[" * 100_000, "it "),
        (with_text(TIMED, '"elapsed":1e999'), f"{BROKEN}.records[0].elapsed: Number out of range"),
        (with_text(TIMED, f'"elapsed":1{"0" * 400}'), f"{BROKEN}.records[0].elapsed: Number out of range"),
        (with_text(MADE, f'"made":{"1" * 5000}'), f"{BROKEN}.records[0].transfer.made: Integer value"),
        (with_text(MADE, f'"made":8{"0" * 400}'), "the number 80000000000000000000... has 401 digits"),
        (with_text("{", '{"complete": true,'), f"{OBJECT} 'complete: True' has the key 'complete' twice"),
        (with_text('"peak":160', '"peak":160,"peak":1'), f"{OBJECT} 'peak: 160' has the key 'peak' twice"),
        (with_text(NAMED, f'{NAMED},"n\\u0061me" :"x"'), f"{OBJECT} 'name: test_x' has the key 'name' twice"),
        *((changed(steps(path), value), f"{BROKEN}{said}") for path, (value, said) in TAMPERED.items()),
        (changed(["records"], FULL["records"][:1] * 2), f"it has 2 records of {TWICE!r}; remove all but one"),
        *((changed(["schema_version"], version), f"its schema_version is {repr(version)[:80]}, and not 1.0; ")
          for version in ("1.7", "0.9", "", "1.0\n", "9" * 5000 + ".0", ["1.0"], 1.0)),
        *((json.dumps(content), NO_REPORT)
          for content in ([], None, "1.0", 5, {}, {"history_version": "1.0"}, {"schema_version": None})),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(content, said):
    with pytest.raises(GpuPerfError) as refused:
        document.parse(content if isinstance(content, bytes) else content.encode())
    assert str(refused.value).startswith(said)


@pytest.mark.parametrize(
    ("status", "reason"),
    [("passed", "it was fast"), ("recorded", "it was"), ("failed", None), ("skipped", None), ("error", "")],
)
def test_only_what_passed_or_was_recorded_has_no_reason(status, reason):
    with pytest.raises(GpuPerfError, match=r"\$\.records\[0\]\.reason"):
        document.text(run_of(skipped(status=status, reason=reason)))


@pytest.mark.parametrize("wild", [nan, inf, -inf, 10**400])
def test_what_is_not_a_number_is_never_written(wild):
    found = RUN.records[0]
    changes = [{"elapsed": wild}, {"gpu": replace(found.gpu, setup=wild)}]
    if wild != 10**400:  # which no array holds
        changes.append({"gpu": replace(found.gpu, latencies=array("d", [1.0, wild]))})
    for each in changes:
        with pytest.raises(GpuPerfError):
            document.text(run_of(replace(found, **each)))


# -- what is wrong costs no more than itself ------------------------------------------------------

LATER = {"offload": factories.offload(), "comparisons": (factories.comparison(),)}


def kept(**changes):
    """Return a record as a report can hold it, which is what it is held to."""
    found = document.possible(record(**{**LATER, **changes}))
    assert document.record_in(document.line_of(found).encode()) == found
    return found


def test_a_record_loses_a_wrong_field_alone_which_is_named():
    found = kept(elapsed=-1.0, restart_reason="it was slow")
    assert record(
        **LATER,
        status="error",
        reason="what was measured is impossible and not kept: elapsed: it breaks its schema at $.elapsed: "
        "Expected `float` >= 0.0",
        restart_reason="it was slow",
    ) == replace(found, elapsed=None)
    assert None is found.elapsed


@for_each("wild", [-1.0, nan])
def test_what_was_computed_of_a_wrong_time_goes_with_it(wild):
    found = kept(gpu=replace(RUN.records[0].gpu, setup=wild))
    assert (None, None, None, ()) == (found.gpu, found.speedup, found.offload, found.comparisons)
    assert record().cpu == found.cpu


def test_a_test_that_did_not_pass_keeps_its_own_reason():
    found = kept(status="skipped", reason="no GPU", reason_code="no_gpu", demand=Demand(min=-3), elapsed=nan)
    assert ("skipped", "no_gpu") == (found.status, found.reason_code)
    assert found.reason.startswith("no GPU; what was measured is impossible and not kept: demand: it breaks")
    assert "; elapsed: a number is not finite" in found.reason


@for_each(("status", "reason", "left"), [("skipped", "", "no reason was given"), ("passed", "fast", None)])
def test_a_reason_is_there_where_the_status_needs_one(status, reason, left):
    assert record(**LATER, status=status, reason=left) == kept(status=status, reason=reason)


@given(records())
def test_a_report_can_hold_what_is_left_of_any_record(found):
    left = document.possible(found)
    assert document.record_in(document.line_of(left).encode()) == left


def test_one_rule_proves_a_record_and_a_report():
    wrong = skipped(reason="")
    for prove in (document.line_of, lambda each: document.text(run_of(each))):
        with pytest.raises(GpuPerfError, match=r"\.reason: a record that skipped has a reason"):
            prove(wrong)
    with pytest.raises(GpuPerfError, match=r"at \$\.reason: a record that skipped has a reason"):
        document.record_in(codec.text(wrong).encode())


def test_a_run_loses_a_wrong_field_alone_which_is_named():
    right = run_of(record(), cost_ratio=2.0)
    found, named = document.possible_run(replace(right, thresholds=(factories.threshold(at_most=nan),)))
    assert (right, True) == (found, named.startswith("thresholds: a number is not finite"))
    assert (right, "") == document.possible_run(right)


# -- whatever there may be -----------------------------------------------------------------------

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, -1, 1, 2.0, -0.0, 1e-320, 1e308, 2**53 + 1, 2**70, 10**400, -(10**400)]),
    st.integers(),
    st.floats(allow_nan=True),
    st.text(st.characters(exclude_categories=())),
    st.sampled_from(["passed", "failed", "gpu", "1.0", "once", "\ud800"]),
)
VALUES = st.recursive(
    LEAVES, lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=3), part, max_size=3)
)


UNSAID = (": Expected `int`, got `float`", "Number out of range", " digits; ", "not JSON")
"""What no schema says: 2.0 is an integer there, and a number of any size a number."""


@settings(derandomize=True, max_examples=100)
@given(st.sampled_from(PLACES), st.just(...) | VALUES | st.sampled_from(FOUND), st.booleans())
def test_the_types_of_a_report_and_its_published_schema_refuse_the_same(path, value, is_added):
    content = changed(path, value, is_added=is_added)
    try:
        document.parse(content.encode())
        refusal = ""
    except GpuPerfError as error:
        refusal = str(error)
    is_valid = JUDGE.is_valid(json.loads(content))
    assert is_valid == (refusal == "") or (is_valid and any(each in refusal for each in UNSAID)), refusal


@settings(derandomize=True)
@given(end=st.integers(0, len(TEXT) - 2))
def test_a_report_that_was_cut_off_anywhere_is_an_error(end):
    assert found_in(TEXT[:end].encode()) is None


@settings(derandomize=True)
@given(
    flips=st.lists(st.tuples(st.integers(0, len(TEXT) - 1), st.integers(0, 255)), max_size=3),
    other=st.binary(),
)
def test_whatever_bytes_there_are_they_are_a_run_or_an_error(flips, other):
    content = bytearray(TEXT.encode())
    for place, byte in flips:
        content[place] = byte
    found_in(bytes(content))
    assert found_in(other) is None
