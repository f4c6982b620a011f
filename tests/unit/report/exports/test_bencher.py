"""The export for Bencher."""

from dataclasses import replace

import pytest
from factories import CPU, GPU, NODEID, measurement, record, scaled, skipped, speedup
from jsonschema import Draft202012Validator

EMULATED = replace(GPU, name="a CPU", emulated=True)


# https://bencher.dev/docs/reference/bencher-metric-format, with the lengths that its text gives
BENCHER = {
    "type": "object",
    "patternProperties": {
        ".+": {
            "type": "object",
            "propertyNames": {"maxLength": 64, "pattern": "^[a-z0-9]+(-[a-z0-9]+)*$"},
            "patternProperties": {
                ".+": {
                    "type": "object",
                    "properties": {
                        "value": {"type": "number"},
                        "lower_value": {"type": "number"},
                        "upper_value": {"type": "number"},
                    },
                    "required": ["value"],
                    "additionalProperties": False,
                }
            },
        }
    },
}


def test_bencher_gets_its_published_metrics(loaded, full):
    found = loaded("bencher", full, record("b", speedup=speedup(high=None)), skipped("c"))
    Draft202012Validator(BENCHER).validate(found)
    assert {"value": 10.0, "lower_value": 9.0, "upper_value": 11.0} == found[NODEID]["speedup"]
    assert {"value": 10.0, "lower_value": 9.0} == found["b"]["speedup"]
    assert {"value": pytest.approx(2e7)} == found[NODEID]["cpu-ns"]
    assert {"value": pytest.approx(1.75e6)} == found[NODEID]["gpu-ns"]


def test_bencher_gets_the_efficiency_of_a_scaling_test(loaded):
    few, many = loaded("bencher", scaled(1), scaled(4, 0.5)).values()
    Draft202012Validator(BENCHER).validate({"few": few, "many": many})
    assert {"gpu-ns"} == set(few)
    assert {"efficiency": {"value": 0.5, "lower_value": 0.45, "upper_value": 0.55}} == {
        name: {end: pytest.approx(value) for end, value in measure.items()}
        for name, measure in many.items()
        if name != "gpu-ns"
    }


def test_bencher_gets_no_test_that_was_not_measured(loaded):
    assert ["a"] == list(loaded("bencher", record("a"), skipped("b"), skipped("c", cpu=measurement(CPU))))


def test_bencher_gets_the_cpu_where_there_was_no_gpu(loaded):
    found = loaded("bencher", skipped("a", cpu=measurement(CPU, 0.02)))
    assert {"a": {"cpu-ns": {"value": pytest.approx(2e7)}}} == found


def test_bencher_has_measures_of_its_own_for_an_emulated_device(loaded):
    found = loaded("bencher", record("a", gpu=measurement(EMULATED, 0.001)))
    assert {"emulated-speedup", "cpu-ns", "emulated-gpu-ns"} == set(found["a"])


def test_names_that_cannot_be_kept_stay_different_everywhere(loaded):
    written_out, literal = record("test[\x1b]"), record("test[\\x1b]")
    assert len(loaded("bencher", written_out, literal)) == 2
    charted = loaded("github-action-benchmark", written_out, literal)
    assert len({entry["name"] for entry in charted}) == 2
    groups = {each["group"] for each in loaded("pytest-benchmark", written_out, literal)["benchmarks"]}
    assert len(groups) == 2
    assert all(name.isprintable() for name in groups)


def test_names_that_are_too_long_for_bencher_stay_different(loaded):
    long = f"test[{'é' * 600}"  # 1,205 bytes
    found = list(loaded("bencher", record(f"{long}1]"), record(f"{long}2]")))
    assert len(found) == 2
    assert all(len(name.encode()) <= 1024 for name in found)
