"""Offload: whether moving the work pays, and after how many calls, from numbers that are known."""

import dataclasses
from array import array

import pytest
from cases import for_each
from factories import CPU, GPU, LASTED, ROUNDS, measurement, speedup
from golden import assert_golden
from msgspec.structs import replace

from pytest_gpuperf.analysis.estimation import Sampled, sampled_rounds
from pytest_gpuperf.analysis.offload import OffloadInput, assess
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.measurement import Copies, Interference, Measurement, Round, Transfer

PLAN = RunOptions()
PRICED = RunOptions(cost_ratio=2.5)
NOTHING = Transfer(h2d=Copies(bytes=0, arrays=1), d2h=Copies(bytes=0, arrays=0), reason="no bytes move")
UNTIMED = Transfer(h2d=Copies(bytes=8000, arrays=2), d2h=Copies(bytes=4000, arrays=1), reason="time was up")
MOVED = replace(UNTIMED, reason=None)
BODY = Transfer(h2d=None, d2h=None, reason="the whole body is the workload")
WON, LOST, DOUBT = (3.0, 2.9, 3.1), (0.5, 0.4, 0.6), (1.02, 0.9, 1.1)


def measured(kind, *seconds, first_call=None, latencies=()) -> Measurement:
    return measurement(
        CPU if kind == "cpu" else GPU,
        *seconds,
        block_calls=2 if latencies else 1,
        first_call=sum(seconds[:1]) if first_call is None else first_call,
        latencies=array("d", latencies),
    )


def seen(
    cpu=10.0, gpu=1.0, moved=0.0, *, found=None, demand=None, first_call=None, seconds=LASTED, **changes
) -> OffloadInput:
    """Return what rounds of these times say, which took so many seconds; `found` is another speedup.

    The CPU needed but its `own_share` of its times.
    """
    demand = demand or Demand()
    own = changes.pop("own_share", None)
    ratios = [cpu] if own is None else found
    rounds = changes.pop("rounds", [Round(cpu=each, gpu=gpu, copies=moved) for each in ratios] * ROUNDS)
    sampled = changes.pop("sampled", sampled_rounds(rounds, demand, seconds))
    shown = speedup(*found) if found else sampled.speedup()
    if own is not None:
        busy = Interference(kind="cpu_contention", own_share=own, waited=1 - own, threads=1)
        changes["disturbance"] = sampled.in_spite_of(busy, None, ("the CPU", "the GPU"))
    known = {
        "demand": demand,
        "regime": demand.transfer,
        "on_cpu": measured("cpu", cpu),
        "on_gpu": measured("gpu", gpu, first_call=first_call),
        "alone": [each.gpu for each in rounds],
        "sampled": sampled,
        "speedup": shown,
        "copies": [moved] * ROUNDS if moved else [],
        "transfer": MOVED if moved else NOTHING,
        **changes,
    }
    return OffloadInput(cpu=known.pop("on_cpu"), gpu=known.pop("on_gpu"), **known)


def of_a_body(found=WON) -> OffloadInput:
    return seen(found=found, regime="body", transfer=BODY)


def values(offload):
    """Return the speedups in the regimes, those that could be had."""
    found = {regime: getattr(offload, regime) for regime in ("never", "once", "always")}
    return {regime: pytest.approx(each.value) for regime, each in found.items() if each}


SHARED = Demand(transfer="once", calls=8)
GATED = [Demand(), Demand(transfer="once", calls=7), Demand(transfer="always"), Demand(latency=True)]


ABOVE_ONE = [
    (True, WON),
    (False, LOST),
    (None, DOUBT),
    (None, (3.0, None, 3.1)),
    (None, (1.2, 1.005, 1.4)),  # by less than 1 %
    (None, (0.8, 0.6, 0.995)),
]


@for_each(
    ("worth", "faster", "options", "observed"),
    [
        # The whole range of the gated speedup counts.
        *((each, each, PLAN, of_a_body(found)) for each, found in ABOVE_ONE),
        *(
            (each, each, PLAN, seen(moved=0.5, found=found, demand=demand))
            for each, found in ABOVE_ONE
            for demand in GATED
        ),
        # Copies count as the demand says: 10 s on the CPU, 1 s on the GPU, 30 s of copies.
        (True, True, PLAN, seen(10, 1, moved=30)),
        (True, True, PLAN, seen(10, 1, moved=30, demand=Demand(transfer="once", calls=10))),
        (False, False, PLAN, seen(10, 1, moved=30, demand=Demand(transfer="once", calls=2))),
        (False, False, PLAN, seen(10, 1, moved=30, demand=Demand(transfer="always"))),
        # With a cost ratio it must lie above that.
        (True, True, PRICED, seen(found=(10.0, 9.9, 10.1))),
        (True, True, PRICED, seen(found=(5.0, 2.6, None))),
        (False, True, PRICED, seen(found=(2.0, 1.9, 2.1))),
        (None, True, PRICED, seen(found=(2.5, 2.4, 2.6))),
        (None, True, PRICED, seen(found=(5.0, 2.51, 9.0))),  # by less than 1 %
        (False, None, PRICED, seen(found=(2.0, 1.0, 2.45))),
        # What a short measurement shows must lie farther from one, on either side as far as for a pass.
        (True, True, PLAN, seen(found=(1.3, 1.21, 1.4), seconds=1.0)),
        (None, None, PLAN, seen(found=(1.3, 1.19, 1.4), seconds=1.0)),
        (False, False, PLAN, seen(found=(0.8, 0.7, 0.9), seconds=2.0)),
        (None, None, PLAN, seen(found=(0.8, 0.7, 0.92), seconds=2.0)),
        # A win does not rest on time that the CPU lost to others, and a loss is one all the same.
        (True, True, PLAN, seen(found=WON, own_share=0.4)),
        *((None, None, PLAN, seen(found=WON, own_share=own)) for own in (0.3, 0.0)),
        (True, True, PRICED, seen(found=WON, own_share=0.9)),
        (None, True, PRICED, seen(found=WON, own_share=0.8)),
        *((False, False, PLAN, seen(found=LOST, own_share=own)) for own in (1.0, 0.3, 0.0)),
        # A GPU that was slowed down decides nothing.
        *((None, None, PRICED, seen(found=found, throttled="heat")) for found in (WON, LOST)),
    ],
)
def test_whether_moving_the_work_is_worth_it(worth, faster, options, observed):
    offload = assess(observed, options)
    assert (worth, faster) == (offload.worth, offload.faster)
    assert (observed.regime, observed.demand.latency) == (offload.regime, offload.by_latency)


@for_each(
    ("expected", "observed"),
    [
        # 10 s on the CPU, 1 s on the GPU, 4 s of copies: "once" needs to know for how many calls.
        ({"never": 10, "always": 2}, seen(10, 1, moved=4)),
        ({"never": 10, "once": 10 / 1.5, "always": 2}, seen(10, 1, moved=4, demand=SHARED)),
        ({"never": 10, "always": 2}, seen(10, 1, moved=4, demand=Demand(transfer="always"))),
        # Without times of the copies only the resident regime is known.
        *(({"never": 10}, seen(10, 1, transfer=transfer)) for transfer in (UNTIMED, MOVED, None)),
        # Where nothing is copied, all are equal.
        ({"never": 10, "always": 10}, seen(10, 1)),
        ({"never": 10, "once": 10, "always": 10}, seen(10, 1, demand=SHARED)),
        ({}, of_a_body()),
    ],
)
def test_each_regime_has_the_speedup_with_its_copies(expected, observed):
    assert expected == values(assess(observed, PLAN))


def test_the_gated_regime_is_the_speedup_of_the_record():
    for demand in GATED[:3]:
        observed = seen(moved=4, demand=demand)
        assert observed.speedup is getattr(assess(observed, PLAN), demand.transfer)


def test_regimes_beside_the_gated_one_have_ranges_of_their_own():
    rounds = [Round(cpu=10.0, gpu=1.0)] * 4 + [Round(cpu=12.0, gpu=1.0)] * 24
    always = assess(seen(rounds=rounds, copies=[4.0] * ROUNDS, transfer=MOVED), PLAN).always
    assert pytest.approx([2.4, 2.0, 2.4]) == [always.value, always.low, always.high]
    assert pytest.approx([2.0 / 1.01, 2.4 * 1.01]) == [always.certain.low, always.certain.high]
    assert always.rounds == ROUNDS


def test_copies_that_are_fewer_than_the_rounds_are_set_beside_the_last_of_them():
    rounds = [Round(cpu=10, gpu=5)] * 9 + [Round(cpu=10, gpu=1)] * 3
    offload = assess(seen(rounds=rounds, copies=[4.0] * 3, transfer=MOVED), PLAN)
    assert (pytest.approx(2), 3) == (offload.always.value, offload.always.rounds)
    assert offload.break_even_calls.transfer.value == 1  # 4 / 9; the others need 4 / 5
    assert offload.break_even_calls.first_call.value == 0


@for_each("latency", [True, False])
def test_variants_stay_variants_in_every_regime_and_each_of_their_samples_counts_once(latency):
    """The rounds repeat the five samples of the CPU."""
    sampled = Sampled(cpu=[9, 9, 10, 11, 11], gpu=[1.5] * ROUNDS, seconds=LASTED, sampling="variants")
    demand = replace(SHARED, latency=latency)
    offload = assess(seen(10, 1, moved=4, demand=demand, sampled=sampled), PLAN)
    found = [offload.never, offload.once, offload.always, offload.latency]
    assert [("variants", 5)] * 4 == [(each.sampling, each.rounds) for each in found]
    assert [0.9 / 1.2] * 4 == pytest.approx([each.certain.low / each.value for each in found])
    assert pytest.approx([10.0, 10 / 1.5, 2.0, 10.0]) == [each.value for each in found]


def test_copies_of_few_rounds_are_set_beside_all_samples_of_a_cpu_variant():
    sampled = Sampled(cpu=[10] * 20 + [30] * 8, gpu=[1] * ROUNDS, seconds=LASTED, sampling="variants")
    always = assess(seen(sampled=sampled, copies=[4.0] * 3, transfer=MOVED), PLAN).always
    assert (pytest.approx(2), 3) == (always.value, always.rounds)


def test_single_calls_have_a_speedup_of_their_own():
    cpu, gpu = measured("cpu", 10, latencies=[12, 12, 12]), measured("gpu", 1, latencies=[4, 4])
    offload = assess(seen(10, 1, on_cpu=cpu, on_gpu=gpu), PLAN)
    assert (pytest.approx(3), 2) == (offload.latency.value, offload.latency.rounds)
    many = [replace(each, latencies=array("d", [1.0] * 2 * ROUNDS)) for each in (cpu, gpu)]
    of_many = assess(seen(10, 1, on_cpu=many[0], on_gpu=many[1]), PLAN).latency
    assert (2 * ROUNDS, 2.0) == (of_many.rounds, of_many.certain.high), "in a short time of their own"
    assert assess(seen(10, 1, on_cpu=cpu, on_gpu=replace(gpu, latencies=array("d"))), PLAN).latency is None
    of_blocks = assess(seen(10, 1), PLAN)  # of one call, whose samples are those of single calls
    assert (pytest.approx(10), False) == (of_blocks.latency.value, of_blocks.by_latency)
    assert assess(seen(demand=Demand(latency=True)), PLAN).by_latency is True


# The number of calls that earn back their cost: median(cost / (cpu - gpu)), rounded up.


def calls(observed):
    """Return the calls that earn back the copies, the first call, and both."""
    even = assess(observed, PLAN).break_even_calls
    found = [even.transfer, even.first_call, even.both]
    return [each and each.value for each in found]


def test_jax_matmul_is_33_times_faster_and_earns_back_copy_and_compilation_in_13_calls():
    """JAX's docs/benchmarking.md, 1000 x 1000: NumPy 16.2 ms, up 1.26 ms, compile 193 ms, GPU 485 us."""
    up = Transfer(h2d=Copies(bytes=4_000_000, arrays=1), d2h=Copies(bytes=0, arrays=0))
    observed = seen(16.2e-3, 485e-6, moved=1.26e-3, first_call=193e-3, transfer=up)
    offload = assess(observed, PLAN)
    assert offload.worth is True
    assert round(offload.never.value) == 33
    assert [1, 13, 13] == calls(observed)
    assert [1, 13, 13] == calls(
        dataclasses.replace(observed, gpu=measured("gpu", 485e-6, first_call=193.485e-3))
    )


@for_each(
    ("expected", "observed"),
    [
        ([1, 0, 1], seen(10, 1, moved=9)),
        ([2, 0, 2], seen(10, 1, moved=9.1)),
        ([3, 0, 3], seen(0.3, 0.2, moved=0.3)),  # 0.3 / (0.3 - 0.2) is a little more than 3 in floats
        ([3, 2, 4], seen(10, 1, moved=20, first_call=15)),
        ([0, 2, 2], seen(10, 1, first_call=15)),
        ([3, 0, 3], seen(10, 1, moved=20, first_call=0.5)),  # a first call that was fast costs nothing
        *(
            ([0, 0, 0], seen(10, 1, demand=demand))
            for demand in (Demand(), SHARED, Demand(transfer="always"))
        ),
        ([3, 2, 4], seen(10, 1, moved=20, first_call=15, demand=Demand(transfer="always"))),
        ([None, 2, None], seen(10, 1, first_call=15, transfer=UNTIMED)),
        ([None, None, None], seen(10, 10, moved=20, first_call=15)),
        ([None, None, None], seen(1, 10, moved=20, first_call=15)),
    ],
)
def test_costs_are_earned_back_after_so_many_calls(expected, observed):
    assert expected == calls(observed)


@for_each(
    ("expected", "observed"),
    [
        (None, seen(10, 1, moved=20)),
        ("never: a call on the GPU takes no less time than on the CPU", seen(1, 10, moved=20)),
        ("inconclusive: half of the rounds show no saving", seen(1, 1)),
        ("time was up", seen(10, 1, transfer=UNTIMED)),
        ("the copies were not timed", seen(10, 1, transfer=MOVED)),
    ],
)
def test_what_is_never_earned_back_or_not_known_has_its_reason(expected, observed):
    assert expected == assess(observed, PLAN).break_even_calls.reason


@for_each(
    ("expected", "ratios", "copies"),
    [
        ((400, 334, 500), (2.0, 1.8, 2.0, 2.2, 2.0, 1.9, 2.1), 2000.0),  # 5 s are saved, or from 4 s to 6 s
        ((10, 5, None), (1.2, 1.2, 1.0, 1.4, 1.2, 1.1, 1.3), 10.0),  # perhaps nothing is
        ((0, 0, 0), (1.2, 1.2, 1.1, 1.4, 1.2, 1.1, 1.3), 0.0),
        ((0, 0, 0), (2.0,) * 7, -30.0),  # a loop with copies that was quicker than its calls alone
    ],
)
def test_the_number_of_calls_has_the_range_of_the_speedup(expected, ratios, copies):
    rounds = [Round(cpu=5.0 * ratio, gpu=5.0) for ratio in ratios for _ in range(4)]
    observed = seen(rounds=rounds, copies=[copies] * len(rounds), transfer=MOVED)
    found = assess(observed, PLAN).break_even_calls.transfer
    assert expected == (found.value, found.low, found.high)


def test_the_reason_says_time_copies_price_and_why_a_range_that_excludes_the_limit_decides_nothing():
    large, small = (seen(10, 1, moved=moved, found=(10.0, 9.9, 10.1)) for moved in (30, 1))
    awaited = seen(moved=24, demand=replace(SHARED, latency=True), found=(2.5, 2.48, 2.52))
    short = seen(found=WON, seconds=0.1)
    cases = {
        "of 0.9 to 1.1, at 2.5 times the price": (seen(found=DOUBT), PRICED),
        "of 0.9 to 1.1, on a busy CPU": (seen(found=DOUBT, own_share=0.3), PLAN),
        "with large copies": (large, PLAN),
        "with large copies, at 2.5 times the price": (large, PRICED),
        "with small copies, at 2.5 times the price": (small, PRICED),
        "with small copies, at 6 times the price": (small, RunOptions(cost_ratio=6)),
        "of a body": (of_a_body(), PLAN),
        "with nothing copied": (seen(10, 1), PLAN),
        "copied at every call": (seen(10, 1, moved=4, demand=GATED[2], found=(2.0, 1.98, 2.02)), PLAN),
        "copied once and awaited": (awaited, PLAN),
        "copied once and awaited, at 2.5 times the price": (awaited, PRICED),
        "on a busy CPU": (seen(found=WON, own_share=0.3), PLAN),
        "on a busy CPU, at 2.5 times the price": (seen(found=WON, own_share=0.5), PRICED),
        "on a CPU that may have done other work only": (seen(found=WON, own_share=0.0), PLAN),
        "on a slow GPU": (seen(found=WON, throttled="the GPU was slowed down"), PLAN),
        "in a short time": (seen(found=(1.5, 1.4, 1.6), seconds=0.1), PLAN),
        "in a short time, at 2.5 times the price": (short, PRICED),
    }
    said = [f"{name}: {assess(*case).reason}\n" for name, case in cases.items()]
    assert_golden("words/offload.txt", "".join(said))
