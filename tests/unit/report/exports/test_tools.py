"""The exports for Bencher and for github-action-benchmark."""

from dataclasses import replace

import pytest
from factories import CPU, GPU, NODEID, measurement, record, scaled, skipped, speedup
from jsonschema import Draft202012Validator

EMULATED = measurement(replace(GPU, name="a CPU", emulated=True), 0.001)
BENCHER, ACTION = "bencher", "github-action-benchmark"
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
        "name": {"type": "string"},
        "unit": {"enum": ["x", "efficiency"]},
        "value": {"type": "number"},
        "range": {"type": "string"},
        "extra": {"type": "string"},
    },
    "required": ["name", "value", "unit"],
    "additionalProperties": False,
}
SCHEMAS = {
    BENCHER: {"type": "object", "additionalProperties": MEASURES},
    ACTION: {"type": "array", "items": RESULT},
}
CPU_NS, GPU_NS = {"value": pytest.approx(2e7)}, {"value": pytest.approx(1.75e6)}


@pytest.mark.parametrize("tool", SCHEMAS)
def test_a_tool_gets_what_it_publishes(loaded, full, tool):
    records = (full, record("b", speedup=speedup(high=None)), skipped("c"), scaled(1), scaled(4, 0.5))
    Draft202012Validator(SCHEMAS[tool]).validate(loaded(tool, *records))


@pytest.mark.parametrize(
    ("expected", "measured"),
    [
        (
            {
                "speedup": {"value": 10.0, "lower_value": 9.0, "upper_value": 11.0},
                "cpu-ns": CPU_NS,
                "gpu-ns": GPU_NS,
            },
            record("a"),
        ),
        (
            {"speedup": {"value": 10.0, "lower_value": 9.0}, "cpu-ns": CPU_NS, "gpu-ns": GPU_NS},
            record("a", speedup=speedup(high=None)),
        ),
        ({"cpu-ns": CPU_NS}, skipped("a", cpu=measurement(CPU, 0.02))),
        (
            {
                "emulated-speedup": {"value": 10.0, "lower_value": 9.0, "upper_value": 11.0},
                "cpu-ns": CPU_NS,
                "emulated-gpu-ns": {"value": EMULATED.median * 1e9},
            },
            record("a", gpu=EMULATED),
        ),
    ],
)
def test_bencher_gets_what_was_measured(loaded, expected, measured):
    assert {"a": expected} == loaded(BENCHER, measured, skipped("b"), skipped("c", cpu=measurement(CPU)))


def test_bencher_gets_the_efficiency_of_a_scaling_test(loaded):
    few, many = loaded(BENCHER, scaled(1), scaled(4, 0.5)).values()
    assert {"gpu-ns"} == set(few)
    ends = {"value": 0.5, "lower_value": 0.45, "upper_value": 0.55}
    assert {end: pytest.approx(value) for end, value in ends.items()} == many["efficiency"]


@pytest.mark.parametrize(
    ("expected", "measured"),
    [
        (
            {
                "name": NODEID,
                "unit": "x",
                "value": 10.0,
                "range": "[9.00, 11.0]",
                "extra": "CPU: 20.0 ms on EPYC\nGPU: 1.75 ms on H200\npassed",
            },
            record(),
        ),
        (
            {
                "name": "a.py::test_step[4]",
                "unit": "efficiency",
                "value": 0.5,
                "range": "[0.45, 0.55]",
                "extra": "GPU: 6.00 ms on H200\npassed",
            },
            scaled(4, 0.5, required=0.4),
        ),
        ({"name": r"test_or[a\|b]"}, record("test_or[a|b]")),  # the action writes tables
        (
            {
                "name": "a (emulated)",
                "extra": "CPU: 20.0 ms on EPYC\nGPU: 1.00 ms on a CPU\npassed\nemulated: not a GPU's speedup",
            },
            record("a", gpu=EMULATED),
        ),
    ],
)
def test_github_action_benchmark_gets_what_was_measured(loaded, expected, measured):
    (found,) = loaded(ACTION, measured, scaled(1), skipped("b"))
    assert expected == {name: found[name] for name in expected}
