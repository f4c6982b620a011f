"""Hypothesis: its tests are not timed, and go on as before where they are not marked."""

import pytest
from plugins import needed

pytestmark = pytest.mark.all_plugins

DRAWN = """
from hypothesis import given, settings, strategies

@settings(max_examples=5, database=None, deadline=None)
@given(n=strategies.integers(1, 4))
@pytest.mark.parametrize("module", [conftest.numpy, conftest.cupy], ids=["numpy", "cupy"])
def test_drawn(module, n):
    assert module.ones(n).sum() == n

def test_ones(xp):
    xp.ones(3)
"""


def test_a_marked_test_of_hypothesis_is_an_error_and_unmarked_ones_go_on_as_before(suite):
    needed("hypothesis", "hypothesis")
    found = suite(DRAWN.replace("@settings", "@pytest.mark.speedup(min=3)\n@settings"))
    found.ended(passed=2, errors=2)
    found.says("gpuperf: error: test_it.py::test_drawn[[]numpy] (and 1 more *): a speedup test cannot use *")
    found = suite(DRAWN, "--gpuperf-all")
    found.ended(passed=4)
    assert {"test_ones"} == {name.partition("[")[0] for name in found.records}
