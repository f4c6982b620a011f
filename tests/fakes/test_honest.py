"""Honest tests, as users write them, are measured without an error or a doubt about what they do."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

SUITES = [("cupy", "of_cupy", 25), ("torch", "of_torch", 28)]  # with how many tests each has
if find_spec("jax"):
    SUITES.append(("jax:cpu", "of_jax", 14))
# What a busy machine, and so little time, make of any test.
OF_TIME = {"interference", "not_enough_time", "totals_differ", "overlap_not_measured", "long_warm_up"}


def is_of_time(note):
    return note["code"] in OF_TIME or "the machine was busy" in note["text"]


@pytest.mark.parametrize(("device", "suite", "tests"), SUITES)
def test_no_honest_test_is_refused_or_noted(ran, device, suite, tests):
    source = (Path(__file__).parent / "honest" / f"{suite}.py").read_text()
    output, report = ran(device, source, "--gpuperf-max-time=0.5", OMP_NUM_THREADS="1")
    assert report.exists(), output
    records = json.loads(report.read_text())["records"]
    refused = {
        record["nodeid"]: record["reason"]
        for record in records
        if record["status"] not in ("passed", "recorded") and record["reason_code"] not in OF_TIME
    }
    noted = {
        record["nodeid"].partition("::test_")[2]: note["text"]
        for record in records
        for note in record["notes"]
        if not is_of_time(note)
    }
    assert ({}, {}, tests) == (refused, noted, len(records))
