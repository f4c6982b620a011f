"""What is told before the first test: what a check will not find, and the number that helps."""

import shlex

from cases import for_each
from factories import GATE, GPU, HERE, base_of, measured, recorded, speedup, speedup_within, within
from golden import assert_told
from msgspec.structs import replace

from pytest_gpuperf.gate import forecast
from pytest_gpuperf.gate.gate import Gate
from pytest_gpuperf.gate.remedy import Plan
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import Interference

SPEEDUP = [within()]
BRIEF, SHORT, CREATED = (7, 0.28), (56, 2.25), (188, 7.5)


def lasting(rounds, seconds, spread=0.01, nodeid="test_fft.py::test_fft", **changes):
    """Return the record of a test that was measured for so long, and scattered so far."""
    found = speedup_within(10.0, spread, rounds=rounds)
    of_gpu = [1e-3 * (1 - spread)] * (rounds // 2) + [1e-3 * (1 + spread)] * (rounds - rounds // 2)
    known = {"speedup": found, "rounds_elapsed": seconds, "gpu": measured(GPU, *of_gpu)}
    return recorded(nodeid, **{**known, **changes})


CREATES = "--gpuperf-baseline-missing=create"
TYPED = ["--gpuperf-baseline=base.json", "--gpuperf-fail-on=speedup:10%", "--gpuperf-all"]


def foreseen(*records, max_time=10.0, tolerances=SPEEDUP, tests=None, slow_time=None, typed=TYPED):
    """Return what is told of tests that run with these markers, or with those of the baseline."""
    base = base_of(*records)
    known = forecast.times(base) if tests is None else tests
    return forecast.foresee(base, tolerances, Plan(max_time, slow_time), known, typed)


SEVERAL = [lasting(2, 8.0, nodeid=f"test_fft.py::test_{name}") for name in "abcde"]
CUT, LONG = [*TYPED, "--gpuperf-max-time=3"], [*TYPED, "--gpuperf-max-time=35"]
BUSY = Interference(kind="unstable_cpu_times", own_share=0.01, median=0.5, fastest=0.4)
TOLD = {
    "a plain report": foreseen(lasting(*BRIEF)),
    "a plain report, and max_time=3": foreseen(lasting(*BRIEF), max_time=3.0),
    "made at max_time=3, as the run": foreseen(lasting(*SHORT), max_time=3.0),
    "made at 10, and max_time=3, which is noisy": foreseen(lasting(*CREATED, 0.04), max_time=3.0),
    "an option that was typed": foreseen(lasting(*BRIEF), max_time=3.0, typed=CUT),
    "an option that slow calls have no use for": foreseen(lasting(2, 2.2), max_time=3.0, typed=CUT),
    "a long time that was typed": foreseen(lasting(*BRIEF), max_time=35.0, typed=LONG),
    "an option that leaves slow calls a part": foreseen(lasting(19, 23.0), max_time=3.0, typed=CUT),
    "slow calls": foreseen(lasting(2, 8.0)),
    "slow calls that differ too much": foreseen(lasting(2, 8.0, 0.055)),
    "one round, of which nobody knows the range": foreseen(
        lasting(2, 0.08, speedup=speedup(10.0, None, None, rounds=1))
    ),
    "two brief rounds that differ": foreseen(lasting(2, 0.08, 0.2)),
    "two rounds that differ, by an option": foreseen(lasting(2, 0.6, 0.2), max_time=3.0, typed=CUT),
    "noise of a marker": foreseen(lasting(*CREATED, 0.2, demand=Demand(max_time=10.0))),
    "many slow calls": foreseen(*SEVERAL),
    "a marker with a short max_time": foreseen(lasting(2, 0.08, demand=Demand(max_time=0.1))),
    "noise": foreseen(lasting(*CREATED, 0.2)),
    "other programs": foreseen(lasting(*CREATED, interference=BUSY)),
    "a fine one, too": foreseen(lasting(*BRIEF), lasting(*CREATED, nodeid="test_fine")),
    "two metrics": foreseen(lasting(*BRIEF), tolerances=[within(), within(0.05, "gpu_time")]),
}


def test_one_time_is_told_for_a_test_before_and_after_it_although_its_rounds_take_another_time():
    before, now = lasting(2, 6.6), lasting(2, 6.8)
    (line, *_) = foreseen(before)
    gate = Gate(GATE, [base_of(before)], lambda: HERE, plan=Plan(10.0))
    (found,) = gate.with_comparisons(now).comparisons
    assert "takes max_time=103 in its marker, for the baseline, too" in line
    assert "max_time=103, for the baseline, too, shows losses from" in found.reason


@for_each("spread", [0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06])
def test_a_test_that_had_the_time_that_was_told_is_compared_in_a_noisier_run_too(spread):
    (line, *_) = foreseen(lasting(2, 8.0, spread))
    is_told = "too few rounds to say" not in line
    assert (is_told, True) == (spread <= 0.05, "max_time=124" in line)
    if is_told:
        noisier = lasting(20, 80.0, 1.2 * spread)
        gate = Gate(GATE, [base_of(lasting(20, 80.0, spread))], lambda: HERE, plan=Plan(124.0))
        assert not any(each.shows_little for each in gate.with_comparisons(noisier).comparisons)


def test_the_marker_of_the_test_decides_how_long_it_will_take_and_not_that_of_the_baseline():
    slow = lasting(2, 8.0)
    assert [] == foreseen(lasting(12, 48.0), tests={slow.nodeid: 50.0})
    assert "at max_time=10" in foreseen(lasting(12, 48.0), tests={slow.nodeid: None})[0]
    marked = replace(lasting(12, 48.0), demand=Demand(max_time=50.0))
    assert [] == foreseen(marked)
    assert "at max_time=10" in foreseen(marked, tests={slow.nodeid: None})[0]  # its marker was removed
    assert "at max_time=5" in foreseen(marked, tests={slow.nodeid: 5.0})[0]


def test_a_test_with_a_marker_is_not_told_to_leave_out_an_option_that_says_the_same():
    (line, *_) = foreseen(lasting(*SHORT), max_time=3.0, tests={"test_fft.py::test_fft": 3.0}, typed=CUT)
    assert "takes max_time=10 in its marker" in line


def test_slow_calls_that_get_more_rounds_in_a_check_are_told_no_time():
    """A plain report of calls of 1 and 0.33 s: a check takes 17 rounds of them."""
    (line, *_) = foreseen(lasting(2, 2.66), slow_time=30.0)
    assert "the baseline base.json was sampled for at most 2.66 s" in line
    assert "max_time" not in line


@for_each(
    ("typed", "device"),
    [
        ([], ["--gpuperf-gpu=jax:cpu"]),
        (["--gpuperf-gpu=torch"], ["--gpuperf-gpu=torch"]),
        (["--gpuperf-gpu", "sycl"], ["--gpuperf-gpu", "sycl"]),
    ],
)
def test_the_command_for_a_new_baseline_has_the_device_of_the_old_one_unless_one_was_typed(typed, device):
    made = base_of(lasting(*BRIEF), arguments=("--gpuperf-max-time=3", "--gpuperf-gpu=jax:cpu"))
    *_, last = forecast.foresee(made, SPEEDUP, Plan(10.0, None), forecast.times(made), [*TYPED, *typed])
    assert last.endswith(f"run: {shlex.join(['pytest', *TYPED, *device, CREATES])}")


@for_each("seconds", [1e308, 1e-310])
def test_of_rounds_that_took_an_impossible_time_nothing_is_told_before_the_first_test(seconds):
    assert [] == foreseen(lasting(7, seconds))


def test_what_a_check_will_not_find_is_told_with_what_helps():
    assert_told("forecasts", ((name, "\n".join(lines)) for name, lines in TOLD.items()))


@for_each(
    ("records", "changes"),
    [
        ([lasting(*CREATED)], {}),
        ([lasting(*CREATED)], {"max_time": 3.0}),
        ([lasting(*CREATED, dropped_rounds=500)], {}),  # a GPU that was slowed down hides no loss of later
        ([lasting(20, 20.0)], {"slow_time": 30.0}),  # slow calls have as many rounds as the baseline
        ([lasting(*BRIEF)], {"tolerances": [within(0.25)]}),
        ([lasting(*BRIEF)], {"tolerances": [within(metric="latency"), within(metric="memory")]}),
        ([lasting(*BRIEF)], {"tests": {"test_another": None}}),
        ([lasting(2, 8.0, demand=Demand(max_time=130))], {"tolerances": [within(0.9)]}),
        ([lasting(20, 80.0)], {"max_time": 124.0}),
    ],
)
def test_nothing_is_told_of_a_check_that_finds_losses_near_its_tolerance(records, changes):
    assert [] == foreseen(*records, **changes)
