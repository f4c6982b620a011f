"""What is told before the first test: what a check will not find, and the number that helps."""

from cases import for_each
from factories import GPU, base_of, measured, recorded, speedup_within, within
from golden import assert_told

from pytest_gpuperf.gate import forecast
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


TYPED = ["--gpuperf-baseline=base.json", "--gpuperf-fail-on=speedup:10%", "--gpuperf-all"]


def foreseen(*records, max_time=10.0, tolerances=SPEEDUP, selected=None, slow_time=None):
    return forecast.foresee(base_of(*records), tolerances, Plan(max_time, slow_time), selected, TYPED)


SEVERAL = [lasting(2, 8.0, nodeid=f"test_fft.py::test_{name}") for name in "abcde"]
BUSY = Interference(kind="unstable_cpu_times", own_share=0.01, median=0.5, fastest=0.4)
TOLD = {
    "a plain report": foreseen(lasting(*BRIEF)),
    "a plain report, and max_time=3": foreseen(lasting(*BRIEF), max_time=3.0),
    "made at max_time=3, as the run": foreseen(lasting(*SHORT), max_time=3.0),
    "made at 10, and max_time=3, which is noisy": foreseen(lasting(*CREATED, 0.04), max_time=3.0),
    "slow calls": foreseen(lasting(2, 8.0)),
    "many slow calls": foreseen(*SEVERAL),
    "a marker with a short max_time": foreseen(lasting(2, 0.08, demand=Demand(max_time=0.1))),
    "noise": foreseen(lasting(*CREATED, 0.2)),
    "other programs": foreseen(lasting(*CREATED, interference=BUSY)),
    "a fine one, too": foreseen(lasting(*BRIEF), lasting(*CREATED, nodeid="test_fine")),
    "two metrics": foreseen(lasting(*BRIEF), tolerances=[within(), within(0.05, "gpu_time")]),
}


def test_what_a_check_will_not_find_is_told_with_what_helps():
    assert_told("forecasts", ((name, "\n".join(lines)) for name, lines in TOLD.items()))


@for_each(
    ("records", "changes"),
    [
        ([lasting(*CREATED)], {}),
        ([lasting(*CREATED)], {"max_time": 3.0}),
        ([lasting(20, 20.0)], {"slow_time": 30.0}),  # slow calls have as many rounds as the baseline
        ([lasting(*BRIEF)], {"tolerances": [within(0.25)]}),
        ([lasting(*BRIEF)], {"tolerances": [within(metric="latency"), within(metric="memory")]}),
        ([lasting(*BRIEF)], {"selected": ["test_another"]}),
        ([lasting(2, 8.0, demand=Demand(max_time=130))], {"tolerances": [within(0.9)]}),
        ([lasting(20, 80.0)], {"max_time": 124.0}),
    ],
)
def test_nothing_is_told_of_a_check_that_finds_losses_near_its_tolerance(records, changes):
    assert [] == foreseen(*records, **changes)
