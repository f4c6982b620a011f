"""The export for github-action-benchmark."""

from dataclasses import replace

from factories import GPU, NODEID, measurement, record, scaled, skipped, speedup
from jsonschema import Draft202012Validator

EMULATED = replace(GPU, name="a CPU", emulated=True)


# BenchmarkResult in benchmark-action/github-action-benchmark, src/extract.ts
GITHUB_ACTION_BENCHMARK = {
    "type": "array",
    "items": {
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
    },
}


def test_github_action_benchmark_gets_its_published_fields(loaded, full):
    found = loaded("github-action-benchmark", full, record("b", speedup=speedup(low=None)), skipped("c"))
    Draft202012Validator(GITHUB_ACTION_BENCHMARK).validate(found)
    assert {
        "name": NODEID,
        "unit": "x",
        "value": 10.0,
        "range": "[9.00, 11.0]",
        "extra": "CPU: 20.0 ms on EPYC\nGPU: 1.75 ms on H200\nfailed, range of 28 rounds",
    } == found[0]


def test_github_action_benchmark_gets_the_efficiency_of_a_scaling_test(loaded):
    found = loaded("github-action-benchmark", scaled(1), scaled(4, 0.5, required=0.4))
    Draft202012Validator(GITHUB_ACTION_BENCHMARK).validate(found)
    assert [
        {
            "name": "a.py::test_step[4]",
            "unit": "efficiency",
            "value": 0.5,
            "range": "[0.45, 0.55]",
            "extra": "GPU: 6.00 ms on H200\npassed, range of 28 rounds",
        }
    ] == found


def test_github_action_benchmark_gets_no_test_without_a_speedup(loaded):
    assert ["a"] == [entry["name"] for entry in loaded("github-action-benchmark", record("a"), skipped("b"))]


def test_a_name_is_one_cell_of_the_tables_that_the_action_writes(loaded):
    (found,) = loaded("github-action-benchmark", record("test_or[a|b]"))
    assert found["name"] == r"test_or[a\|b]"


def test_an_emulated_speedup_is_charted_apart(loaded):
    (found,) = loaded("github-action-benchmark", record("a", gpu=measurement(EMULATED, 0.001)))
    assert found["name"] == "a (emulated)"
    assert found["extra"].endswith("emulated: not a GPU's speedup")
