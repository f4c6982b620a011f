"""pytest-cov and other tracers: they distort the times, and the records note it."""

import sys

import pytest
from plugins import needed

COVERED = """
@pytest.mark.speedup(min=3)
def test_ones(xp):
    xp.ones(3)

@pytest.mark.speedup(min=3)
def test_slot(device):
    return lambda: device.xp.ones(3)
"""

# pytrace sets a trace function as ctrace does.
CORES = ["ctrace", *(["sysmon"] if sys.version_info >= (3, 12) else [])]


@pytest.mark.parametrize("core", CORES)
def test_coverage_is_noted_in_each_record_because_it_distorts_the_times(suite, monkeypatch, core):
    needed("pytest_cov", "pytest-cov")
    monkeypatch.setenv("COVERAGE_CORE", core)
    found = suite(COVERED, "--cov=.", apart=True)
    found.ended(passed=3)
    assert 3 == len(found.records)
    for record in found.records.values():
        assert [note["code"] for note in record["notes"]].count("slowed_by_settings") == 1
    found.says("test_ones[[]cupy] and 1 more: coverage, a debugger or a profiler traces the timed*")


def test_without_coverage_nothing_is_noted(suite):
    needed("pytest_cov", "pytest-cov")
    found = suite(COVERED, "--cov=.", "--no-cov")
    found.ended(passed=3)
    noted = [note["code"] for record in found.records.values() for note in record["notes"]]
    assert "slowed_by_settings" not in noted
