"""Remedies: what decides an inconclusive comparison, followed to the letter."""

import re
from itertools import product

from cases import for_each
from factories import GPU, HERE, base_of, measured, offload, recorded, speedup, speedup_within, within
from msgspec.structs import replace

from pytest_gpuperf.gate.gate import Gate
from pytest_gpuperf.gate.remedy import Plan
from pytest_gpuperf.model.comparison import GateOptions
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import Interference

TEST = "test_a.py::test_1"
UNTIMED = 1.14  # rounds for each one that is timed, from 14 on
TIME = re.compile(
    r"(?P<anew>made anew of the same code at )?max_time=(?P<seconds>\d+)(?P<too>, for the baseline, too)?"
)
TOLERANCE = re.compile(r"(?:tolerance of|one of) (\d+) %")


def run_of(value, rounds, seconds, spread=(0.01, 0.01), **changes):
    """Return a record of so many rounds in so many seconds, whose range reaches so far down and up."""
    low, high = (None if each is None else value * (1 + each) for each in (-spread[0], spread[1]))
    found = speedup(value, low, high, rounds=rounds)
    times = [value * 1e-3 / (1 + each) for each in (-spread[0], spread[1]) if each is not None]
    of_gpu = ([times[0]] * (rounds // 2) + [times[-1]] * (rounds - rounds // 2)) if times else [1e-3]
    known = {"speedup": found, "gpu": measured(GPU, *of_gpu), "rounds_elapsed": seconds}
    return recorded(TEST, value, **{**known, **changes})


def compared(before, now, share=0.1, *, metric="speedup", max_time=None):
    options = GateOptions(tolerances=(within(share, metric),))
    plan = None if max_time is None else Plan(max_time)
    gate = Gate(options, [base_of(before)], lambda: HERE, plan=plan)
    (found,) = gate.with_comparisons(now).comparisons
    return found


def in_time(record, max_time):
    """Return a record as a run with so much time makes it, whose rounds scatter as before."""
    found = record.speedup
    each = record.rounds_elapsed / found.rounds
    rounds = min(0.75 * max_time / each, max_time / each - 5) + 1e-9
    rounds = max(found.rounds, int(rounds / UNTIMED) if rounds >= 14 * UNTIMED else min(int(rounds), 14))
    seconds = max(record.rounds_elapsed, min(0.75 * max_time, max_time - 5 * each))
    longer = replace(found, rounds=rounds)
    of_gpu = record.gpu.samples[:1] * (rounds // 2) + record.gpu.samples[-1:] * (rounds - rounds // 2)
    return replace(record, rounds_elapsed=seconds, speedup=longer, gpu=measured(GPU, *of_gpu))


def followed(reason, before, now, *, metric="speedup", share=0.1):
    """Return the outcomes of doing what a sentence says, each of its tolerances in turn."""
    remedy = reason.partition(" is allowed; ")[2]
    if "--accept-regressions" in remedy:
        return [compared(now, now, share, metric=metric).outcome]
    if (time := TIME.search(remedy)) is not None:
        max_time = int(time["seconds"])
        before = in_time(before, max_time) if time["anew"] or time["too"] else before
        now = now if time["anew"] else in_time(now, max_time)
    shares = [int(each) / 100 for each in TOLERANCE.findall(remedy)] or [share]
    assert time or shares != [share], remedy
    return [compared(before, now, each, metric=metric).outcome for each in shares]


BRIEF = (7, 0.28)  # a plain report of calls of 30 ms
SHORT, CREATED = (56, 2.25), (188, 7.5)  # max_time=3, and 10
SLOW, SLOWER = (7, 5.6), (3, 12.0)  # rounds of 0.8 s, and of 4 s
TWENTY, MANY = (20, 16.0), (28, 22.4)
REPEAT = "which decides nothing: repeat it; if that stays, mend it, or accept it with *--accept-regressions"
NARROW, WIDE = (0.01, 0.01), (0.09, 0.09)


@for_each(
    ("before", "now", "value", "spread", "said"),
    [
        # The baseline was short, or the later run, or both.
        (BRIEF, CREATED, 7.0, NARROW, "the baseline has 7 rounds in 280 ms: made anew *max_time=10 it *14 %"),
        (
            BRIEF,
            CREATED,
            9.0,
            NARROW,
            "the baseline has 7 *max_time=10 *; if these numbers stay, a tolerance of 13 % passes them",
        ),
        (BRIEF, BRIEF, 10.0, NARROW, "7 rounds in 280 ms show *max_time=10, for the baseline, too, *14 %"),
        (
            BRIEF,
            BRIEF,
            8.5,
            WIDE,
            "7 rounds in 280 ms show *max_time=10, *; if these numbers stay, * of 30 % *",
        ),
        (SHORT, CREATED, 7.7, NARROW, "the baseline has 56 rounds in 2.25 s: made anew *max_time=10 it *"),
        (CREATED, SHORT, 7.7, NARROW, "56 rounds in 2.25 s show losses from 28 %: max_time=10 shows *14 %"),
        (SHORT, SHORT, 8.0, NARROW, "56 rounds in 2.25 s show *: max_time=10, for the baseline, too, *"),
        # Calls are slow: the time of twenty rounds.
        (SLOW, SLOW, 8.0, NARROW, "7 rounds in 5.60 s show *max_time=25, for the baseline, too, *"),
        (
            SLOW,
            SLOW,
            8.65,
            NARROW,
            "7 rounds in 5.60 s hide losses below *: a tolerance of 20 % would pass it",
        ),
        (MANY, SLOW, 8.0, NARROW, "7 rounds in 5.60 s show losses from *: max_time=25 shows *"),
        (SLOW, TWENTY, 8.0, NARROW, "the baseline has 7 rounds in 5.60 s: made anew *max_time=25 it *"),
        (SLOWER, SLOWER, 7.0, NARROW, "3 rounds in 12.0 s show *max_time=124, for the baseline, too, *"),
        (SLOWER, SLOWER, 10.0, NARROW, "3 rounds in 12.0 s show *max_time=124, for the baseline, too, *"),
        (SLOWER, (7, 28.0), 10.0, WIDE, "the baseline has 3 *max_time=124 *; if these numbers *"),
        # Rounds differ, of either side.
        (CREATED, CREATED, 9.6, WIDE, "rounds of * differ by 20 %, which hides losses below *: *"),
        (
            CREATED,
            CREATED,
            9.0,
            (0.3, 0.4),
            "rounds of *100 %*: a quieter machine, or a tolerance of 56 %, *",
        ),
        (MANY, MANY, 9.5, WIDE, "rounds of *: a tolerance of 22 % would pass it"),
        (TWENTY, TWENTY, 9.2, WIDE, "rounds of * by 20 %, which hides losses below *: a tolerance of * %*"),
        # Both are narrow, and the loss is about as large as is allowed.
        (CREATED, CREATED, 9.0, NARROW, f"it got worse by 8 to 12 %, {REPEAT}"),
        (MANY, MANY, 9.1, NARROW, f"it got worse by 7 to 11 %, {REPEAT}"),
    ],
)
def test_what_a_doubt_says_decides_it(before, now, value, spread, said):
    earlier, later = run_of(10.0, *before, spread), run_of(value, *now, spread)
    found = compared(earlier, later)
    assert "inconclusive" == found.outcome
    remedy = found.reason.partition(" is allowed; ")[2]
    assert re.fullmatch(re.escape(said).replace(r"\*", ".*"), remedy), remedy
    assert "inconclusive" not in followed(found.reason, earlier, later), remedy


@for_each("metric", ["speedup", "gpu_time"])
@for_each("spread", [(0.0, 0.0), NARROW, WIDE, (0.3, 0.4)])
def test_every_doubt_ends_with_the_first_thing_that_is_said_of_it(metric, spread):
    asked = 0
    lengths = [BRIEF, (25, 1.0), SHORT, CREATED, SLOW, SLOWER, TWENTY]
    for before, now, value, share in product(lengths, lengths, (10.0, 9.2, 8.5, 6.0), (0.02, 0.1)):
        earlier, later = run_of(10.0, *before, spread), run_of(value, *now, spread)
        found = compared(earlier, later, share, metric=metric)
        if found.outcome == "inconclusive":
            asked += 1
            ended = followed(found.reason, earlier, later, metric=metric, share=share)
            assert "inconclusive" not in ended, found.reason
    assert asked > 50


@for_each("seconds", [1e308, 1e-310])
def test_no_time_is_named_for_rounds_that_took_an_impossible_one(seconds):
    found = compared(run_of(10.0, 7, seconds), run_of(8.6, 7, seconds), max_time=10.0)
    assert ("inconclusive", False) == (found.outcome, "max_time" in found.reason)


def test_no_run_is_told_to_take_the_time_that_it_has():
    """It ended early, as more rounds would not have decided, or its calls are slow."""
    earlier = run_of(10.0, *CREATED)
    short, slow = run_of(7.7, *SHORT), run_of(8.0, *SLOW)
    assert "the default max_time shows" in compared(earlier, short, max_time=3.0).reason
    assert "max_time" not in compared(earlier, short, max_time=10.0).reason
    by_marker = replace(short, demand=Demand(max_time=10.0))
    assert "max_time" not in compared(earlier, by_marker, max_time=3.0).reason
    assert "the default max_time shows" in compared(run_of(10.0, *MANY), slow, max_time=10.0).reason
    assert "max_time=25 " in compared(run_of(10.0, *MANY), replace(slow, demand=Demand(max_time=10))).reason
    fewer = run_of(8.3, 18, 14.4)  # than 25 s usually have
    assert "max_time=25 " in compared(run_of(10.0, *MANY), fewer).reason
    assert "max_time" not in compared(run_of(10.0, *MANY), replace(fewer, demand=Demand(max_time=25))).reason
    early = run_of(8.0, 7, 2.1)
    assert "max_time" in compared(earlier, early, max_time=3.0).reason
    assert "max_time" not in compared(earlier, early, max_time=10.0).reason


def test_a_run_with_fewer_rounds_than_a_look_takes_is_told_the_time_that_decides():
    found = compared(run_of(10.0, *BRIEF), run_of(10.0, 1, 0.1), max_time=3.0)
    assert "; 1 round in 100 ms shows losses from 83 %: the default max_time shows losses" in found.reason
    unknown = run_of(10.0, 1, 4.0, speedup=speedup(10.0, None, None, rounds=1))
    assert "1 round in 4.00 s shows no loss: max_time=124" in compared(run_of(10.0, *MANY), unknown).reason


@for_each(
    ("expected", "before", "now"),
    [
        ("25 rounds in 1.00 s ", (25, 1.0), (10, 8.0)),  # it has more rounds, in too few seconds
        ("10 rounds in 8.00 s ", (10, 8.0), (10, 8.0)),
        ("3 rounds in 2.40 s ", (188, 7.5), (3, 2.4)),
    ],
)
def test_the_run_is_named_whose_length_keeps_losses_from_being_seen(expected, before, now):
    assert expected in compared(run_of(10.0, *before), run_of(8.6, *now), max_time=1.0).reason


def test_no_max_time_of_more_than_a_day_is_named():
    assert "max_time" not in compared(run_of(10.0, 2, 8000.0), run_of(10.0, 2, 8000.0)).reason
    assert "max_time=62000" in compared(run_of(10.0, 2, 4000.0), run_of(10.0, 2, 4000.0)).reason


@for_each(("expected", "spread"), [(True, NARROW), (False, (0.03, 0.03))])
def test_time_that_finds_hardly_smaller_losses_is_not_asked_for(expected, spread):
    found = compared(run_of(10.0, 15, 12.0, spread), run_of(8.2, 15, 12.0, spread))
    assert "inconclusive" == found.outcome
    assert expected == ("max_time" in found.reason)


BUSY = {"interference": Interference(kind="unstable_cpu_times", own_share=0.8, median=0.5, fastest=0.4)}
QUIETER = "use a quieter machine; a tolerance of"


def test_where_other_programs_took_time_a_quieter_machine_decides():
    quiet, busy = run_of(10.0, *CREATED), run_of(10.0, *CREATED, **BUSY)
    now = compared(quiet, busy).reason
    assert f"the fastest block took 400 ms; {QUIETER}" in now
    then = compared(busy, run_of(8.5, *CREATED)).reason
    assert "; when the baseline was made unstable CPU timings: " in then
    assert f"; {QUIETER}" in then


def test_what_was_not_measured_in_the_rounds_has_a_tolerance_too():
    def by_latency(value):
        return recorded(TEST, offload=offload(latency=speedup_within(value, 0.05, rounds=10)))

    found = compared(by_latency(10.0), by_latency(8.0), metric="latency")
    assert "inconclusive" == found.outcome
    assert "max_time" not in found.reason
    (share,) = TOLERANCE.findall(found.reason)
    wider = compared(by_latency(10.0), by_latency(8.0), int(share) / 100, metric="latency")
    assert "not_regressed" == wider.outcome
