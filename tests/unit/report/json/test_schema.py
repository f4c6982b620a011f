"""The published schema as the judge of a report: what is wrong is named with its path, as other tools do."""

import json
from copy import deepcopy

import pytest
from cases import for_each
from published import FULL

from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.value import Value
from pytest_gpuperf.report.json import document, schema

LATER = {"alone", "multiprocessors", "power_limit_watts", "runs", "settings", "visible"}
"""Fields that the first reports of this version do not have."""
BROKEN = "it breaks its schema at $"


def refusal(content) -> str:
    with pytest.raises(GpuPerfError) as refused:
        schema.parse(json.dumps(content).encode())
    return str(refused.value)


def changed(path, value):
    """Return the full report with another value at a path; `...` drops what is there."""
    content = place = deepcopy(FULL)
    *way, last = path
    for step in way:
        place = place[step]
    place[last] = value
    if value is ...:
        del place[last]
    return content


@for_each("mark", [b"", document.MARK])
def test_a_report_that_keeps_the_schema_is_the_run_that_the_types_read(mark):
    content = mark + json.dumps(FULL).encode()
    assert document.parse(content) == schema.parse(content)


def lacking(content, names):
    """Return a document as it was before some of its fields were added."""
    if isinstance(content, dict):
        return {name: lacking(part, names) for name, part in content.items() if name not in names}
    return [lacking(part, names) for part in content] if isinstance(content, list) else content


def known(value, name):
    """Yield what is known of a field, wherever in a value it is."""
    if isinstance(value, tuple):
        for part in value:
            yield from known(part, name)
    elif isinstance(value, Value):
        for field in value.__struct_fields__:
            part = getattr(value, field)
            yield from [part] if field == name else known(part, name)


@for_each("names", [*({name} for name in sorted(LATER)), LATER])
def test_a_report_of_before_a_field_was_added_does_not_know_it(names):
    content = json.dumps(lacking(FULL, names)).encode()
    run = document.parse(content)
    assert schema.parse(content) == run
    for name in names:
        assert {0 if name == "runs" else None} == {*known(run, name)}  # one run decided
    assert document.parse(document.text(run).encode()) == run


@for_each(
    ("path", "value", "said"),
    [
        (("environment", "packages", "numpy"), 2, ".environment.packages.numpy: 2 is not of type 'string'"),
        (("records", 0, "cpu", "samples", 2), -1.0, ".records[0].cpu.samples[2]: -1.0 is less than the"),
        (("records", 0, "status"), "green", ".records[0].status: 'green' is not one of ['error', "),
        (("records", 0, "reason"), None, ".records[0].reason: None is not of type 'string'"),
        (("records", 0, "speedup"), ..., ".records[0]: 'speedup' is a required property"),
        (("records", 0, "demand", "surprise"), 1, ".records[0].demand: Additional properties are not"),
        (("gate",), ..., ": 'gate' is a required property"),
    ],
)
def test_what_breaks_the_schema_is_named_with_its_path(path, value, said):
    assert refusal(changed(path, value)).startswith(f"{BROKEN}{said}")


def test_a_long_value_hides_neither_its_path_nor_what_is_wrong():
    said = refusal(changed(("records",), {"key": "a" * 10_000}))
    assert said.startswith(f"{BROKEN}.records: {{'key': 'aaa")
    assert said.endswith("aaa... is not of type 'array'")


@for_each(
    ("content", "said"),
    [
        ([], "this is no report: it has no schema_version"),
        (changed(("schema_version",), "1.7"), "its schema_version is '1.7', and not 1.0"),
        (changed(("records",), FULL["records"][:1] * 2), "it has 2 records of "),
        (changed(("cost_ratio",), float("nan")), "it is not JSON: invalid character"),
    ],
)
def test_what_no_schema_can_say_is_said_by_the_types(content, said):
    assert refusal(content).startswith(said)


@for_each("depth", [150, 900, 100_000])
def test_what_is_nested_deeply_is_an_error_in_words(depth):
    with pytest.raises(GpuPerfError, match=r"^it "):
        schema.parse(b'{"schema_version": "1.0", "records": ' + b"[" * depth + b"]" * depth + b"}")
