"""The verdict on stored numbers, and the notes on them: where all times together differ from their median."""

from random import Random

import factories
import numpy as np
import pytest
from cases import for_each
from factories import CPU, GPU, ROUNDS, measured, recorded
from msgspec.structs import replace
from walks import bound, simulated

from pytest_gpuperf.analysis.estimation import sampled_rounds
from pytest_gpuperf.analysis.judgement import judge_apart, judge_offline
from pytest_gpuperf.analysis.offload import OffloadInput
from pytest_gpuperf.devices.simulated import Clock
from pytest_gpuperf.model.demand import Demand, RunOptions, SamplingPlan
from pytest_gpuperf.model.measurement import Interference, Memory, Round
from pytest_gpuperf.timing.transfers import Transfer
from pytest_gpuperf.timing.trial import Trial


def notes(cpu, gpu, *, copies=0.0, demand=None) -> list[str]:
    """Return the notes `totals_differ` on rounds of these seconds; their median speedup is 10."""
    rounds = [Round(cpu=one, gpu=other, copies=copies) for one, other in zip(cpu, gpu, strict=True)]
    measured = OffloadInput(
        demand=demand or Demand(),
        regime=(demand or Demand()).transfer,
        cpu=factories.measurement(factories.CPU, *cpu),
        gpu=factories.measurement(factories.GPU, *gpu),
        alone=gpu,
        sampled=sampled_rounds(rounds, demand or Demand(), factories.LASTED),
        speedup=factories.speedup(10.0),
        copies=[copies] * len(rounds),
        transfer=Transfer(h2d=None, d2h=None, reason="nothing moves"),
    )
    judged = judge_offline(measured, RunOptions(), Memory(peak=None, inputs=0, reason="not reported"))
    return [note.text for note in judged.notes if note.code == "totals_differ"]


def times(usual, *, slow=0, factor=20.0, rounds=60) -> list[float]:
    """Return so many times, of which some are slow."""
    return [usual * factor] * slow + [usual] * (rounds - slow)


def test_slow_calls_that_a_loop_pays_for_are_noted():
    (text,) = notes(times(10.0, slow=2), times(1.0))
    assert text == (
        "all times together give 16.3x, and the median is 10.0x: on the CPU a call takes 16.3 s on average "
        "and 10.0 s typically, and a loop pays the average"
    )
    (text,) = notes(times(10.0), times(1.0, slow=2))
    assert "give 6.12x" in text
    assert "on the GPU a call takes 1.63 s on average and 1.00 s typically" in text


def test_the_note_names_the_uneven_device_where_its_typical_block_holds_the_slow_call():
    """Most blocks of the GPU hold the slow call: without it a fifth of them takes a tenth as long."""
    (text,) = notes(times(10.0), times(1.0, slow=12, factor=0.1))
    assert "give 12.2x" in text
    assert "on the GPU a call takes 820 ms on average and 1.00 s typically" in text


@for_each(
    ("cpu", "gpu"),
    [
        (times(10.0), times(1.0)),
        (times(10.0, slow=1), times(1.0)),  # which may have been a stall
        (times(10.0), times(1.0, slow=1)),
        (times(10.0, slow=2), times(1.0, slow=2)),
        (
            times(10.0, slow=2, factor=90.0),
            times(1.0, slow=10, factor=20.0),
        ),  # of sides that differ without the largest
        (times(10.0, slow=5, factor=2.0), times(1.0)),  # less than a tenth
        (times(10.0, slow=2, rounds=59), times(1.0, rounds=59)),
    ],
)
def test_one_slow_call_slow_calls_of_both_small_differences_and_few_rounds_are_not(cpu, gpu):
    assert notes(cpu, gpu) == []


def test_the_times_are_with_the_copies_of_the_demand():
    """The median is 10: that of calls of 10 s on the CPU, and of 0.25 s with copies of 0.75 s on the GPU."""
    cpu, gpu = times(10.0), times(0.25)
    assert notes(cpu, gpu, copies=0.75, demand=Demand(transfer="always")) == []
    (text,) = notes(cpu, gpu, copies=0.75, demand=Demand(transfer="once", calls=3))
    assert "give 20.0x" in text


# Two runs, one on each device, in one record.

TWICE, LIMITED = Demand(min=2), Demand(min=2, max_memory=1000)
ALWAYS, ONCE = Demand(min=1.5, transfer="always"), Demand(min=1.5, transfer="once", calls=4)


def adding(device):
    a = device.asarray(np.ones(1000))
    return lambda: a + 1


@for_each("demand", [TWICE, Demand(), Demand(max=1.5), Demand(min=2, latency=True), ALWAYS, ONCE])
@for_each("times", [(10e-3, 1e-3), (10e-3, 5e-3), (2e-5, 1e-5)])
def test_the_same_samples_say_the_same_as_those_of_variants(demand, times):
    clock, noise = Clock(), Random(0)  # noqa: S311 - noise, not a secret
    cpu, gpu = (
        simulated(kind, clock, lambda: noise.lognormvariate(0, 0.1), kernel=kernel, bandwidth=1e7)
        for kind, kernel in zip(("cpu", "gpu"), times, strict=True)
    )
    options = RunOptions(sampling=SamplingPlan(block_time=3e-5))  # few calls of the quickest, for speed
    one, other = (Trial(nodeid="test_it", demand=demand, options=options) for _ in range(2))
    found = other.compare_with(one.time_cpu(bound(adding), cpu, seconds=2.5), bound(adding), gpu)
    together = other.record(found)
    bare = replace(together, status="recorded", reason=None, speedup=None, offload=None)
    apart = judge_apart(bare, options)
    for name in ("speedup", "status", "reason", "offload"):
        assert getattr(together, name) == getattr(apart, name)


EMULATED = {"waited": 0.05 * ROUNDS, "device": replace(GPU, emulated=True)}
WORSE = Interference(kind="unstable_cpu_times", own_share=0.1, median=0.01, fastest=0.001)


@for_each(
    ("expected", "demand", "cpu", "gpu", "changes"),
    [
        ("passed", TWICE, {"waited": 0.5 * ROUNDS}, {}, {}),
        ("inconclusive", Demand(min=6), {"waited": 0.5 * ROUNDS}, {}, {}),
        ("inconclusive", TWICE, {}, {}, {"interference": WORSE}),  # than the samples show
        ("failed", Demand(min=11), {}, {}, {}),
        ("inconclusive", Demand(min=11), {}, EMULATED, {}),
        ("inconclusive", Demand(min=11), {}, EMULATED | {"waited": 0.0}, {"gpu_interference": WORSE}),
        ("inconclusive", TWICE, {}, {}, {"dropped_rounds": ROUNDS}),
        ("passed", LIMITED, {}, {}, {"memory": Memory(peak=1000)}),
        ("failed", LIMITED, {}, {}, {"memory": Memory(peak=2000)}),
    ],
)
def test_what_disturbed_a_run_and_what_it_held_count(expected, demand, cpu, gpu, changes):
    on = {"cpu": replace(measured(CPU, 1.0), **cpu), "gpu": replace(measured(GPU, 0.1), **gpu)}
    found = judge_apart(recorded(demand=demand, speedup=None, **on, **changes), RunOptions())
    assert (expected, pytest.approx(10)) == (found.status, found.speedup.value)
