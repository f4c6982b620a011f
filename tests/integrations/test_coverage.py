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


@pytest.mark.parametrize("core", [*CORES, None])
def test_coverage_is_noted_in_each_record_because_it_distorts_the_times(suite, monkeypatch, core):
    needed("pytest_cov", "pytest-cov")
    monkeypatch.setenv("COVERAGE_CORE", core or "ctrace")
    found = suite(COVERED, "--cov=.", *([] if core else ["--no-cov"]), apart=core is not None)
    found.ended(passed=3)
    noted = [note["code"] for record in found.records.values() for note in record["notes"]]
    assert (3 if core else 0) == noted.count("slowed_by_settings")
    if core:
        found.says("test_ones[[]cupy] and 1 more: coverage, a debugger or a profiler traces the timed*")
