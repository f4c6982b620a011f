"""What orders, selects or stops tests: pytest-randomly, --ff, -x and their like."""

from collections import Counter

import pytest
from plugins import needed


def test_a_shuffled_suite_has_the_same_records_in_whatever_order_it_runs(suite):
    needed("pytest_randomly", "pytest-randomly")
    source = """
@pytest.mark.parametrize("n", [3, 4])
@pytest.mark.speedup(min=3)
def test_ones(xp, n):
    xp.ones(n)

class TestMore:
    @pytest.mark.speedup(pair="zeros", min=3)
    def test_zeros_cupy(self):
        conftest.cupy.zeros(3)

    @pytest.mark.speedup(pair="zeros")
    def test_zeros_numpy(self):
        conftest.numpy.zeros(3)

def test_plain():
    pass
"""
    expected, orders = suite(source).statuses, set()
    assert {"passed": 3, "recorded": 3} == Counter(expected.values())
    for seed in range(3):
        found = suite(source, "-p", "randomly", f"--randomly-seed={seed}", "-v")
        found.ended(passed=7)
        assert expected == found.statuses
        orders.add(tuple(line.split()[0] for line in found.result.outlines if " PASSED " in line))
        for name in ("test_ones[cupy-3]", "test_ones[cupy-4]", "TestMore::test_zeros_cupy"):
            assert 10 == found.speedup(name)
    assert len(orders) > 1
    first = "test_it.py::test_ones[cupy-3]", "test_it.py::test_ones[numpy-3]"
    assert any(order.index(first[0]) < order.index(first[1]) for order in orders), "GPU before CPU, too"


CACHED = """
@pytest.mark.speedup(min={least})
@pytest.mark.parametrize("n", [3, 4])
def test_ones(xp, n):
    xp.ones(n)

def test_plain():
    pass
"""

LIBRARIES = """
    @pytest.fixture(params=["cupy", "numpy"])
    def xp(request):
        return LIBRARIES[request.param]
"""


@pytest.mark.parametrize("option", ["--ff", "--lf"])
def test_what_orders_or_selects_tests_by_earlier_runs_leaves_gpus_their_verdicts(suite, option):
    suite(CACHED.format(least=300), conftest=LIBRARIES).ended(passed=3, failed=2)
    found = suite(CACHED.format(least=3), option, "-v", conftest=LIBRARIES)
    assert 0 == found.result.ret
    assert ["passed"] * 2 == [found.statuses[f"test_ones[cupy-{n}]"] for n in (3, 4)]


@pytest.mark.parametrize(("option", "last"), [("-x", "skipped"), ("--maxfail=2", "failed")])
def test_a_run_that_stops_at_a_failure_says_what_did_not_run(suite, option, last):
    found = suite(CACHED.format(least=300), option)
    assert {
        "test_ones[numpy-3]": "recorded",
        "test_ones[numpy-4]": "recorded",
        "test_ones[cupy-3]": "failed",
        "test_ones[cupy-4]": last,
    } == found.statuses
    reason = found.records["test_ones[cupy-4]"]["reason"]
    assert reason.startswith("required" if last == "failed" else "not run: the session ended before it")
    assert found.written["complete"] is (last == "failed")
