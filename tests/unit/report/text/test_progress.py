"""Progress: one line for a test that is measured, for one that was, and for a run that will take long."""

from cases import for_each
from factories import CPU, GPU, comparison, measurement, record, skipped, speedup

from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.report.text import progress

NODEID = "tests/test_fft.py::TestFft::test_fft[n=4096]"


def measuring(*, nodeid=NODEID, demand=Demand(min=3), rounds=12, estimate=None, width=200, restarted=False):  # noqa: B008 - frozen
    return progress.measuring(nodeid, demand, rounds, estimate, 4.4, width, restarted=restarted)


def test_a_test_that_is_measured_has_its_rounds_its_speedup_and_its_seconds():
    found = measuring(estimate=speedup(2.9, 2.4, 3.6))
    assert "test_fft[n=4096]  12 rounds  2.90x [2.40, 3.60]  required 3x  4 s" == found


@for_each(
    ("expected", "low", "high"),
    [("2.90x", None, None), ("2.90x [2.40, ?]", 2.4, None), ("2.90x [?, 3.60]", None, 3.6)],
)
def test_a_range_without_any_end_is_not_shown(expected, low, high):
    assert f"12 rounds  {expected}  required 3x" in measuring(estimate=speedup(2.9, low, high))


def test_a_test_that_is_measured_anew_says_so():
    assert "test_fft[n=4096]  restarted, 1 round  required 3x  4 s" == measuring(rounds=1, restarted=True)


def test_without_an_estimate_or_a_limit_there_is_none():
    assert "test_fft[n=4096]  1 round  4 s" == measuring(demand=Demand(), rounds=1)


@for_each(
    ("expected", "demand"),
    [
        ("required 3x", Demand(min=3)),
        ("required at most 3x", Demand(max=3)),
        ("required at least 2x and at most 3x", Demand(min=2, max=3)),
        ("required 3x with copies at every call", Demand(min=3, transfer="always")),
        ("required 3x with one transfer for 10 calls", Demand(min=3, transfer="once", calls=10)),
    ],
)
def test_what_is_required_is_that_of_the_demand(expected, demand):
    assert f"test_fft[n=4096]  12 rounds  {expected}  4 s" == measuring(demand=demand)


@for_each(
    ("expected", "width"),
    [
        ("test_fft[n=4096]  12 rounds  required 3x  4 s", 45),
        ("test_ff…n=4096]  12 rounds  required 3x  4 s", 44),
        ("test…96]  12 rounds  required 3x  4 s", 37),
        ("test…96]  12 rounds  required 3x  4", 35),
        ("test…96]  12 r", 14),
        ("", 0),
    ],
)
def test_a_line_is_as_wide_as_the_terminal_and_cut_in_the_middle_of_the_name(expected, width):
    assert expected == measuring(width=width)
    assert len(expected) <= width


def test_a_line_is_as_wide_as_the_terminal_whatever_the_letters_of_the_name():
    line = measuring(nodeid=f"a.py::test_{'行列' * 20}", width=60)
    assert "test_行列行列行…列行列行列行列  12 rounds  required 3x  4 s" == line


def test_names_steer_no_terminal():
    assert r"test_fft[\x1b[2J\n]  12 rounds" in measuring(nodeid="test_it.py::test_fft[\x1b[2J\n]")
    assert r"test_fft[\x1b]" in progress.waiting("test_it.py::test_fft[\x1b]", 80)


def test_a_finished_test_has_what_its_verdict_rests_on():
    found = progress.outcome(record(elapsed=0.4124, speedup=speedup(2.9, 2.8, 3.0)))
    assert "2.90x [2.80, 3.00], required 3x, 28 rounds, 412 ms" == found


@for_each(
    ("expected", "changes"),
    [
        ("10.0x [9.00, 11.0], required 3x, inconclusive, 28 rounds", {"status": "inconclusive"}),
        (
            "10.0x [9.00, 11.0], required 3x, regressed, 28 rounds",
            {"comparisons": (comparison(),)},
        ),
        ("10.0x [9.00, 11.0], 28 rounds", {"demand": Demand(), "status": "recorded"}),
        ("CPU 20.0 ms, GPU 1.75 ms", {"speedup": None}),
        ("CPU 20.0 ms", {"speedup": None, "gpu": None}),
    ],
)
def test_a_finished_test_has_what_pytest_cannot_know(expected, changes):
    assert expected == progress.outcome(record(**changes))


def test_a_test_that_measured_nothing_has_nothing():
    assert progress.outcome(skipped("test_it.py::test_a", elapsed=1.0)) is None
    empty = {"speedup": None, "cpu": measurement(CPU), "gpu": measurement(GPU)}
    assert progress.outcome(record(**empty)) is None


@for_each(
    ("expected", "limits"),
    [
        (None, []),
        (None, [10.0] * 6),
        ("7 tests are measured, each for at most 10 s (70 s in all)", [10.0] * 7),
        ("36 tests are measured, each for at most 10 s (6 min in all)", [10.0] * 36),
        ("1,000 tests are measured, each for at most 10 s (2.8 h in all)", [10.0] * 1000),
        ("2 tests are measured, for at most 6 min", [10.0, 300.5]),
        ("1 test is measured, for at most 61 s", [60.5]),
    ],
)
def test_a_run_of_more_than_a_minute_says_how_long_it_may_take(expected, limits):
    assert expected == progress.time_limits(limits)
