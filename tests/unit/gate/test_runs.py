"""Several earlier runs: which of a folder count, and what their range says of a later one."""

import re
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatch

import pytest
from cases import for_each
from factories import CPU, ELSEWHERE, GATE, GPU, HERE, base_of, measured, recorded, within
from msgspec.structs import replace

from pytest_gpuperf.gate import runs
from pytest_gpuperf.gate.gate import Gate, RunCoverage
from pytest_gpuperf.model.comparison import GateOptions
from pytest_gpuperf.model.demand import RunOptions
from pytest_gpuperf.model.measurement import Memory
from pytest_gpuperf.model.record import Record, Run

VALUES = (10.02, 10.2, 9.8, 10.1, 9.9, 9.98)  # the newest first; no two runs have the same times
NEWEST = 10.02 * 0.96, 10.02 * 1.04
LOW, HIGH = 9.8 * 0.96, 10.2 * 1.04  # of a record the range is 4 % of its value to either side
BEGUN = datetime(2026, 1, 1, tzinfo=UTC)


def record(value=10.0, **changes) -> Record:
    """Return a record, whose GPU has times of its own: those of another run would be the same one."""
    return recorded("a", value, **{"cpu": measured(CPU, 10e-3), **changes})


def at(mhz, value):
    """Return a record of which the GPU had such clocks."""
    return record(value, gpu=measured(GPU, 1e-3 * (10 / value), highest_sm_mhz=mhz))


def minutes(*ago, record_of=lambda place: record(VALUES[place % 6] + place / 1e6), **changes):
    """Return a report of one test for each number of minutes before now."""
    return [
        base_of(
            record_of(place),
            name=f"{each}.json",
            started=(BEGUN - timedelta(minutes=each)).isoformat(),
            **changes,
        )
        for place, each in enumerate(ago)
    ]


def earlier(*changed, **changes):
    """Return the reports of six hours, in which the record of one of them may be changed."""
    place, record_changes = changed or (None, {})

    def record_of(this):
        return record(VALUES[this], **(record_changes if this == place else {}))

    return minutes(*range(60, 420, 60), record_of=record_of, **changes)


def compared(now, reports, metric="speedup"):
    asked = GateOptions(tolerances=(within(metric=metric),))
    (found,) = Gate(asked, reports, lambda: HERE).with_comparisons(now).comparisons
    return found


def test_other_clocks_than_the_newest_of_the_runs_are_named():
    clocked = minutes(*range(60, 420, 60), record_of=lambda place: at(1980 + place, VALUES[place]))
    assert "the GPU's clock reached 1,410 MHz, and 1,980 MHz" in compared(at(1410, 5.0), clocked).reason


# Which reports count


@for_each(
    ("expected", "ago"),
    [
        ([10, 20, 30, 40, 50, 60], [10, 20, 30, 40, 50, 60]),
        ([10, 20, 30, 40, 50, 60], [10, 20, 30, 40, 50, 60, 70]),  # the newest six
        ([1, 20, 30, 40, 50, 60], [1, 3, 5, 20, 22, 30, 40, 50, 60]),  # of those near together the newest
        ([1, 11, 21, 31, 41, 51], [1, 6, 11, 16, 21, 26, 31, 36, 41, 46, 51]),  # as far as from that
        ([], [10, 20, 30, 40, 50]),
        ([], [10, 20, 30, 40, 50, 59]),
        ([], []),
    ],
)
def test_six_runs_count_that_began_ten_minutes_apart(expected, ago):
    assert [f"{each}.json" for each in expected] == [each.name for each in runs.newest(minutes(*ago))]


@for_each(("expected", "ago"), [(1, range(6)), (0, range(5)), (0, range(10, 70, 10))])
def test_a_folder_whose_reports_began_too_close_together_says_that_the_newest_decides(expected, ago):
    gate = Gate(GATE, minutes(*ago), lambda: HERE)
    run = Run(started="", environment=HERE, records=(gate.with_comparisons(record()),))
    notes = gate.finish(run, RunCoverage(cause=lambda *_: "gone"), RunOptions()).notes
    told = [each.text for each in notes if "the newest alone decides" in each.text]
    assert expected == len(told)
    assert told in (
        [],
        ["of 6 reports the newest alone decides: fewer than 6 of them began 10 minutes apart"],
    )


def test_runs_in_other_conditions_do_not_count():
    others = minutes(5, 15, 25, environment=ELSEWHERE)
    assert (LOW, HIGH) == pytest.approx(span(compared(record(), [*others, *earlier()])))
    assert NEWEST == pytest.approx(span(compared(record(), [*others, *earlier()[:5]])))


def span(found):
    return found.baseline.low, found.baseline.high


# What their range says


@for_each(
    ("expected", "metric", "value"),
    [
        ("regressed", "speedup", 7.8),  # beyond 0.9 of the least by 1 %, and by a quarter of their range
        ("inconclusive", "speedup", 7.85),
        ("inconclusive", "speedup", 8.2),  # the newest alone would say that it regressed
        ("inconclusive", "speedup", 10.15),
        ("not_regressed", "speedup", 10.25),  # beyond 0.9 of the greatest by 1 %, and by an eighth
        ("not_regressed", "speedup", 12.6),
        ("improved", "speedup", 12.66),  # as a failure: by a quarter, as it may fail a run
        ("regressed", "gpu_time", 8.7),  # the times of a test are exact here
        ("inconclusive", "gpu_time", 8.75),
        ("not_regressed", "gpu_time", 10.0),
        ("improved", "gpu_time", 11.7),
        ("regressed", "memory", 8.8),
        ("inconclusive", "memory", 8.9),
        ("not_regressed", "memory", 9.4),
    ],
)
def test_a_change_lies_beyond_the_range_over_runs_by_a_share_of_it(expected, metric, value):
    def held(value):
        return record(value, memory=Memory(peak=round(1e6 / value)))

    reports = minutes(*range(60, 420, 60), record_of=lambda place: held(VALUES[place]))
    assert expected == compared(held(value), reports, metric).outcome


def test_memory_that_never_changes_needs_no_tolerance():
    reports = minutes(
        *range(60, 420, 60), record_of=lambda place: record(VALUES[place], memory=Memory(peak=100))
    )
    for peak, expected in ((100, "not_regressed"), (101, "regressed")):
        gate = Gate(GateOptions(tolerances=(within(0.0, "memory"),)), reports, lambda: HERE)
        (found,) = gate.with_comparisons(record(memory=Memory(peak=peak))).comparisons
        assert expected == found.outcome


@for_each(
    ("expected", "rounds"), [("regressed", 28), ("regressed", 3), ("inconclusive", 2), ("inconclusive", 1)]
)
def test_one_or_two_rounds_beside_six_long_runs_decide_no_loss_that_their_noise_may_be(expected, rounds):
    now = record(7.0, speedup=replace(record(7.0).speedup, rounds=rounds))
    found = compared(now, earlier())
    assert expected == found.outcome
    assert (rounds < 3) == (" losses below 8" in found.reason)


def test_the_baseline_is_the_median_with_the_range_over_runs_and_the_sentence_says_so():
    found = compared(record(7.0), earlier())
    assert (10.0, LOW, HIGH) == pytest.approx((found.baseline.value, *span(found)))
    assert (0.7, 7.0 * 0.96 / HIGH, 7.0 * 1.04 / LOW) == pytest.approx(
        (found.ratio.value, found.ratio.low, found.ratio.high)
    )
    said = "speedup got worse: 7.00x [6.72, 7.28], baseline 10.0x [9.41, 10.6]: -30.0 % [-36.7, -22.6] "
    assert f"{said}over 6 earlier runs, 10 % less is allowed" == found.reason


def test_what_is_visible_beside_six_runs_follows_from_their_range():
    wide = HIGH / LOW
    expected = 1 - 0.9 * LOW / 10.0 / (wide * 1.01 * wide**0.25)
    assert expected == pytest.approx(compared(record(), earlier()).visible)


@for_each(
    ("expected", "values", "now"),
    [
        ("the earlier runs differ by 13 %, which hides losses below 28 %: a tolerance of 18 %", VALUES, {}),
        (
            "rounds of this run differ by 13 %, which hides losses below 22 %: a tolerance of 13 %",
            (10.0,) * 6,
            {"share": 0.06},
        ),
        (
            "it got worse by 9 to 10 %, which decides nothing: *: remove the reports from before",
            (10.0,) * 6,
            {"value": 9.05, "share": 0.001},
        ),
    ],
)
def test_a_doubt_says_what_would_decide(expected, values, now):
    def one(value, share):
        low, high = value * (1 - share), value * (1 + share)
        return record(value, speedup=replace(record(value).speedup, low=low, high=high))

    share = 0.04 if values is VALUES else 0.001
    reports = minutes(
        *range(60, 420, 60),
        record_of=lambda place: replace(one(values[place], share), gpu=measured(GPU, 1e-3 + place * 1e-9)),
    )
    later = one(now.get("value", 9.4), now.get("share", share))
    found = compared(later, reports)
    assert "inconclusive" == found.outcome
    remedy = found.reason.partition(" is allowed; ")[2]
    assert fnmatch(remedy, f"{expected}*")
    for number in re.findall(r"tolerance of (\d+) %", remedy):
        (followed,) = (
            Gate(GateOptions(tolerances=(within(int(number) / 100),)), reports, lambda: HERE)
            .with_comparisons(later)
            .comparisons
        )
        assert "not_regressed" == followed.outcome


# What the newest alone decides


@for_each(
    "change",
    [
        {"gpu": None, "speedup": None, "status": "skipped", "reason": "no GPU"},
        {"gpu": measured(GPU, 1e-3, dtypes=("float32",))},  # another test than now
        {"dropped_rounds": 500},  # its GPU was throttled
        {"speedup": replace(record().speedup, low=None)},
    ],
)
def test_a_test_that_one_of_six_runs_did_not_measure_is_compared_with_the_newest(change):
    now = record(8.2, gpu=measured(GPU, 1e-3, dtypes=("float64",)))
    found = compared(now, earlier(3, change))
    assert ("regressed", pytest.approx(NEWEST)) == (found.outcome, span(found))
    assert "earlier runs" not in found.reason


def test_a_record_that_several_reports_share_is_of_one_run():
    kept = minutes(*range(60, 420, 60), record_of=lambda place: record(VALUES[min(place, 4)]))
    assert "regressed" == compared(record(8.2), kept).outcome


def test_of_fewer_than_six_reports_the_newest_decides():
    assert "regressed" == compared(record(8.2), earlier()[:5]).outcome
    assert "inconclusive" == compared(record(8.2), earlier()).outcome


def test_a_throttled_gpu_of_now_decides_no_loss():
    found = compared(record(7.0, dropped_rounds=500), earlier())
    assert ("inconclusive", True) == (found.outcome, "slowed down" in found.reason)
    assert (None, True) == (found.visible, found.shows_little)


# The run as a whole


def test_sampling_goes_on_until_a_test_lies_clear_of_the_range_over_runs():
    less, more = (HIGH / LOW) ** 0.25, (HIGH / LOW) ** 0.125
    ((low, high, fails),) = Gate(GATE, earlier(), lambda: HERE).limits("a")
    assert (0.9 * LOW / less, 0.9 * HIGH * more, "below") == (pytest.approx(low), pytest.approx(high), fails)
    _, gained = Gate(replace(GATE, improvements=True), earlier(), lambda: HERE).limits("a")
    assert (1.1 * HIGH * less, "above") == (pytest.approx(gained.high), gained.fails)


@for_each(("expected", "reports"), [(6, earlier()), (0, earlier()[:5])])
def test_the_result_says_how_many_runs_decided_and_what_locks_a_gain_in(expected, reports):
    gate = Gate(GATE, reports, lambda: HERE)
    now = gate.with_comparisons(record(14.0))
    run = Run(started="", environment=HERE, records=(now,))
    result = gate.finish(run, RunCoverage(cause=lambda *_: "gone"), RunOptions())
    assert (expected, "60.json") == (result.runs, result.baseline)
    (note,) = result.notes
    remedy = "remove the older ones" if expected else "run gpuperf baseline update"
    assert ("baseline_stale", True) == (note.code, remedy in note.text)
