"""Subtests of a marked test."""

from collections import Counter

import pytest
from plugins import needed

pytestmark = pytest.mark.all_plugins

SUBTESTS = """
@pytest.mark.speedup(min=3)
def test_slot(subtests, device):
    with subtests.test("ones"):
        assert device.xp.ones(3).sum() == {ones}
    return lambda: device.xp.ones(3)

class TestIt(unittest.TestCase):
    @pytest.mark.speedup(pair="zeros", min=3)
    def test_zeros_cupy(self):
        with self.subTest(n=3):
            assert conftest.cupy.zeros(3).sum() == {zeros}

    @pytest.mark.speedup(pair="zeros")
    def test_zeros_numpy(self):
        with self.subTest(n=3):
            conftest.numpy.zeros(3)
"""


def test_subtests_of_a_marked_test_are_reported_once(suite):
    needed("_pytest.subtests", "pytest 9, which has subtests")
    source = """
@pytest.mark.speedup(min=3)
def test_body(subtests, xp):
    for n in (3, 4):
        with subtests.test(n=n):
            xp.ones(n)
"""
    found = suite(SUBTESTS.format(ones=3, zeros=0) + source, "-v")
    assert {"passed": 5, "subtests": 5} == found.result.parseoutcomes()
    assert {"passed": 3, "recorded": 2} == Counter(found.statuses.values())
    assert pytest.approx(2e-3, rel=0.01) == found.records["test_body[cupy]"]["gpu"]["median"]


def test_a_subtest_that_fails_fails_its_marked_test_and_the_record_is_no_pass(suite):
    needed("_pytest.subtests", "pytest 9, which has subtests")
    source = """
@pytest.mark.speedup(min=3)
@pytest.mark.parametrize("right", ["numpy", "cupy"])
def test_on_one(subtests, xp, right):
    with subtests.test("wrong"):
        assert xp.__name__ == right
    return lambda: xp.ones(3)
"""
    found = suite(SUBTESTS.format(ones=4, zeros=4) + source)
    assert found.result.ret == pytest.ExitCode.TESTS_FAILED
    found.says("SUBFAILED*test_it.py::test_on_one[[]cupy-numpy]*")
    assert {
        "test_slot": "error",
        "TestIt::test_zeros_cupy": "error",
        "TestIt::test_zeros_numpy": "recorded",
        "test_on_one[numpy-numpy]": "recorded",
        "test_on_one[cupy-numpy]": "error",
        "test_on_one[numpy-cupy]": "error",
        "test_on_one[cupy-cupy]": "error",
    } == found.statuses
    reason = found.records["test_on_one[cupy-cupy]"]["reason"]
    assert "test_on_one[numpy-cupy] ended as error: a subtest failed: AssertionError: " in reason
