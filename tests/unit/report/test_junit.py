"""The properties of a test in the files of JUnit and pytest-json-report."""

import pytest
from factories import record, scaled, skipped

from pytest_gpuperf.report import junit

pytestmark = pytest.mark.unit


def test_a_test_has_its_speedup_or_its_efficiency():
    assert {"gpuperf.status": "skipped"} == dict(junit.pairs(skipped("a")))
    assert {
        "gpuperf.status": "passed",
        "gpuperf.speedup": 10.0,
        "gpuperf.low": 9.0,
        "gpuperf.high": 11.0,
    } == (dict(junit.pairs(record("a"))))
    found = dict(junit.pairs(scaled(4, 0.5)))
    assert {"gpuperf.status", "gpuperf.efficiency", "gpuperf.low", "gpuperf.high"} == set(found)
    assert (0.5, 0.45) == pytest.approx((found["gpuperf.efficiency"], found["gpuperf.low"]))
