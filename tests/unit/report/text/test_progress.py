"""Progress: the words of -v for a test that was measured, and a line for a run that will take long."""

import pytest
from factories import CPU, GPU, comparison, measurement, record

from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.report.text import progress

LASTED = {"elapsed": 0.4124, "rounds_elapsed": 8.0}
EMPTY = {"speedup": None, "cpu": measurement(CPU), "gpu": measurement(GPU)}


@pytest.mark.parametrize(
    ("expected", "changes"),
    [
        ("10.0x [9.00, 11.0], required 3x, 28 rounds in 8.00 s, 412 ms", LASTED),
        ("10.0x [9.00, 11.0], required 3x, inconclusive, 28 rounds", {"status": "inconclusive"}),
        ("10.0x [9.00, 11.0], required 3x, regressed, 28 rounds", {"comparisons": (comparison(),)}),
        (
            "10.0x [9.00, 11.0], required 3x, results differ, 28 rounds",
            {"status": "failed", "reason": "?", "reason_code": "devices_disagree"},
        ),
        ("10.0x [9.00, 11.0], required at most 3x, 28 rounds", {"demand": Demand(max=3)}),
        ("10.0x [9.00, 11.0], 28 rounds", {"demand": Demand(), "status": "recorded"}),
        ("CPU 20.0 ms, GPU 1.75 ms", {"speedup": None}),
        ("CPU 20.0 ms", {"speedup": None, "gpu": None}),
        (None, LASTED | EMPTY),
        (None, LASTED | {"speedup": None, "cpu": None, "gpu": None}),
    ],
)
def test_a_finished_test_has_what_its_verdict_rests_on(expected, changes):
    assert expected == progress.outcome(record(**changes))


@pytest.mark.parametrize(
    ("expected", "limits"),
    [
        (None, [10.0] * 6),
        ("7 tests are measured, each for at most 10 s (70 s in all)", [10.0] * 7),
        ("1,000 tests are measured, each for at most 10 s (2.8 h in all)", [10.0] * 1000),
        ("2 tests are measured, for at most 6 min", [10.0, 300.5]),
        ("1 test is measured, for at most 61 s", [60.5]),
    ],
)
def test_a_run_of_more_than_a_minute_says_how_long_it_may_take(expected, limits):
    assert expected == progress.time_limits(limits)
