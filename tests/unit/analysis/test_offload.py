"""Offload: whether moving the work pays, and after how many calls, from numbers that are known."""

import dataclasses
from array import array

import pytest
from cases import for_each
from factories import CPU, GPU, LASTED, ROUNDS, measurement, speedup
from golden import assert_golden
from msgspec.structs import replace

from pytest_gpuperf.analysis.estimation import Sampled, sampled_rounds
from pytest_gpuperf.analysis.noise import Disturbance
from pytest_gpuperf.analysis.offload import OffloadInput, assess
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.measurement import Copies, Estimate, Measurement, Round, Transfer

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
    rounds = changes.pop("rounds", [Round(cpu=cpu, gpu=gpu, copies=moved)] * ROUNDS)
    sampled = changes.pop("sampled", sampled_rounds(rounds, demand, seconds))
    shown = speedup(*found) if found else sampled.speedup()
    if (own := changes.pop("own_share", None)) is not None:
        low = own * (shown.low or 0.0)
        disturbed = replace(shown, low=low or None)
        changes["disturbance"] = Disturbance(speedup=disturbed, least=low, most=0.0, reason="a neighbour")
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


@for_each("demand", GATED)
@for_each(
    ("expected", "found"),
    [
        (True, WON),
        (True, (3.0, 2.9, None)),
        (False, LOST),
        (False, (0.5, None, 0.6)),
        (None, DOUBT),
        (None, (3.0, None, 3.1)),
        (None, (0.5, 0.4, None)),
        (None, (1.2, 1.005, 1.4)),  # by less than 1 %
        (None, (0.8, 0.6, 0.995)),
    ],
)
def test_moving_is_worth_it_when_the_whole_range_of_the_gated_speedup_is_above_one(expected, found, demand):
    assert expected is assess(seen(moved=0.5, found=found, demand=demand), PLAN).worth
    assert expected is assess(of_a_body(found), PLAN).worth


@for_each(
    ("worth", "faster", "found"),
    [
        (True, True, (10.0, 9.9, 10.1)),
        (True, True, (5.0, 2.6, None)),
        (False, True, (2.0, 1.9, 2.1)),
        (False, False, (0.5, 0.4, 0.6)),
        (None, True, (2.5, 2.4, 2.6)),
        (None, True, (5.0, 2.51, 9.0)),  # by less than 1 %
        (None, None, (5.0, None, 9.0)),
        (False, None, (2.0, 1.0, 2.45)),
    ],
)
def test_with_a_cost_ratio_it_is_worth_it_where_the_whole_range_lies_above_that(worth, faster, found):
    offload = assess(seen(found=found), PRICED)
    assert (worth, faster) == (offload.worth, offload.faster)
    assert faster is assess(seen(found=found), PLAN).worth


@for_each(
    ("expected", "found", "seconds"),
    [
        (True, (1.3, 1.21, 1.4), 1.0),
        (None, (1.3, 1.19, 1.4), 1.0),
        (True, (1.3, 1.11, 1.4), 2.0),
        (False, (0.8, 0.7, 0.9), 2.0),  # on either side by as much as a test takes to pass
        (None, (0.8, 0.7, 0.92), 2.0),
        (None, (1.9, 1.8, 1.99), 0.1),
        (True, (2.1, 2.01, 2.2), 0.1),
    ],
)
def test_what_a_short_measurement_shows_must_lie_farther_from_one(expected, found, seconds):
    assert expected is assess(seen(found=found, seconds=seconds), PLAN).worth


@for_each(
    ("expected", "demand"),
    [
        (True, Demand()),
        (True, Demand(transfer="once", calls=10)),
        (False, Demand(transfer="once", calls=2)),
        (False, Demand(transfer="always")),
    ],
)
def test_copies_count_as_the_demand_says(expected, demand):
    """10 s on the CPU, 1 s on the GPU, 30 s of copies."""
    found = assess(seen(10, 1, moved=30, demand=demand), PLAN)
    assert expected is found.worth
    assert (demand.transfer, False) == (found.regime, found.by_latency)


@for_each(
    ("expected", "own", "options"),
    [(True, 0.4, PLAN), (None, 0.3, PLAN), (None, 0.0, PLAN), (True, 0.9, PRICED), (None, 0.8, PRICED)],
)
def test_worth_does_not_rest_on_time_that_the_cpu_lost_to_others(expected, own, options):
    assert expected is assess(seen(found=WON, own_share=own), options).worth


@for_each("own", [1.0, 0.3, 0.0])
def test_a_gpu_that_is_slower_than_a_disturbed_cpu_is_not_worth_it(own):
    assert assess(seen(found=LOST, own_share=own), PLAN).worth is False


@for_each("found", [WON, LOST, (0.01, 0.009, 0.011), (99.0, 98.0, 100.0)])
def test_with_a_gpu_that_was_slowed_down_nothing_is_decided(found):
    offload = assess(seen(found=found, throttled="heat"), PRICED)
    assert (None, None) == (offload.worth, offload.faster)


def test_each_regime_has_the_speedup_with_its_copies():
    """10 s on the CPU, 1 s on the GPU, 4 s of copies, 8 calls."""
    once = assess(seen(10, 1, moved=4, demand=SHARED), PLAN)
    assert {"never": 10, "once": 10 / 1.5, "always": 2} == values(once)


@for_each(
    ("expected", "demand"),
    [
        ({"never": 10, "always": 2}, Demand()),
        ({"never": 10, "always": 2}, Demand(transfer="always")),
        ({"never": 10, "once": 5, "always": 2}, Demand(transfer="once", calls=4)),
        ({"never": 10, "once": 2, "always": 2}, Demand(transfer="once", calls=1)),
    ],
)
def test_once_needs_to_know_for_how_many_calls(expected, demand):
    assert expected == values(assess(seen(10, 1, moved=4, demand=demand), PLAN))


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


@for_each(("factor", "copied"), [(1.01, ROUNDS), (2.0, ROUNDS - 1), (2.7, 3)])
def test_copies_of_fewer_rounds_took_an_unknown_part_of_the_time(factor, copied):
    always = assess(seen(copies=[4.0] * copied, transfer=MOVED), PLAN).always
    assert pytest.approx([2 / factor, 2 * factor]) == [always.certain.low, always.certain.high]


def test_copies_that_are_fewer_than_the_rounds_are_set_beside_the_last_of_them():
    rounds = [Round(cpu=10, gpu=5)] * 9 + [Round(cpu=10, gpu=1)] * 3
    offload = assess(seen(rounds=rounds, copies=[4.0] * 3, transfer=MOVED), PLAN)
    assert (pytest.approx(2), 3) == (offload.always.value, offload.always.rounds)
    assert offload.break_even_calls.transfer.value == 1  # 4 / 9; the others need 4 / 5
    assert offload.break_even_calls.first_call.value == 0


def test_the_medians_of_rounds_and_copies_count():
    rounds = [Round(cpu=10, gpu=1), Round(cpu=20, gpu=1), Round(cpu=30, gpu=1)]
    offload = assess(seen(rounds=rounds, copies=[4.0, 9.0, 29.0], transfer=MOVED), PLAN)
    assert pytest.approx(2) == offload.always.value  # of 2, 2, 1
    assert (1, 1) == (offload.break_even_calls.transfer.value, offload.break_even_calls.transfer.low)
    assert offload.break_even_calls.transfer.high == 1  # 9 / 9


@for_each("transfer", [UNTIMED, MOVED, None])
def test_without_times_of_the_copies_only_the_resident_regime_is_known(transfer):
    offload = assess(seen(10, 1, transfer=transfer), PLAN)
    assert {"never": 10} == values(offload)


@for_each("latency", [True, False])
def test_variants_stay_variants_in_every_regime_and_each_of_their_samples_counts_once(latency):
    """The rounds repeat the five samples of the CPU."""
    sampled = Sampled(cpu=[9, 9, 10, 11, 11], gpu=[1.5] * ROUNDS, seconds=LASTED, sampling="variants")
    demand = replace(SHARED, latency=latency)
    offload = assess(seen(10, 1, moved=4, demand=demand, sampled=sampled), PLAN)
    found = [offload.never, offload.once, offload.always, offload.latency]
    assert [("variants", 5)] * 4 == [(each.sampling, each.rounds) for each in found]
    assert [0.9 / 2.7] * 4 == pytest.approx([each.certain.low / each.value for each in found])
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


def test_where_nothing_is_copied_all_regimes_are_equal_and_free():
    for demand, regimes in ((Demand(), 2), (SHARED, 3), (Demand(transfer="always"), 2)):
        offload = assess(seen(10, 1, demand=demand), PLAN)
        assert [10] * regimes == [*values(offload).values()]
        assert Estimate(value=0, low=0, high=0) == offload.break_even_calls.transfer
        assert offload.break_even_calls.reason is None
    assert "cop" not in assess(seen(10, 1), PLAN).reason


def test_a_whole_body_is_a_regime_of_its_own():
    offload = assess(of_a_body(), PLAN)
    assert ("body", {}) == (offload.regime, values(offload))
    assert offload.break_even_calls is None
    assert offload.reason == "worth it: 3.00x [2.90, 3.10] with the copies that the body makes"


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
    assert offload.reason == (
        "worth it: 33.4x [33.4, 33.4] with the data on the device; even with copies at every call "
        "(9.28x [9.28, 9.28])"
    )


@for_each(
    ("expected", "observed"),
    [
        ([1, 0, 1], seen(10, 1, moved=1)),
        ([1, 0, 1], seen(10, 1, moved=9)),
        ([2, 0, 2], seen(10, 1, moved=9.1)),
        ([3, 0, 3], seen(0.3, 0.2, moved=0.3)),  # 0.3 / (0.3 - 0.2) is a little more than 3 in floats
        ([3, 2, 4], seen(10, 1, moved=20, first_call=15)),
        ([0, 2, 2], seen(10, 1, first_call=15)),
        ([3, 0, 3], seen(10, 1, moved=20, first_call=0.5)),  # a first call that was fast costs nothing
        ([2, 0, 2], seen(1.5, 1, moved=1, first_call=0.01)),
        ([0, 0, 0], seen(10, 1)),
        ([3, 2, 4], seen(10, 1, moved=20, first_call=15, demand=Demand(transfer="always"))),
        ([3, 2, 4], seen(10, 1, moved=20, first_call=15, demand=Demand(transfer="once", calls=4))),
        ([None, 2, None], seen(10, 1, first_call=15, transfer=UNTIMED)),
        ([None, None, None], seen(10, 10, moved=20, first_call=15)),
        ([None, None, None], seen(1, 10, moved=20, first_call=15)),
        ([None, None, None], seen(1, 10)),
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


def uneven(*ratios) -> list[Round]:
    """Return rounds in which the GPU needs 5 s, four of each of these speedups."""
    return [Round(cpu=5.0 * ratio, gpu=5.0) for ratio in ratios for _ in range(4)]


def calls_to_copy(*ratios, copies=2000.0):
    rounds = uneven(*ratios)
    observed = seen(rounds=rounds, copies=[copies] * len(rounds), transfer=MOVED)
    return assess(observed, PLAN).break_even_calls.transfer


def test_the_number_of_calls_has_the_range_of_the_speedup():
    """5 s are saved, or from 4 s to 6 s."""
    assert Estimate(value=400, low=334, high=500) == calls_to_copy(2.0, 1.8, 2.0, 2.2, 2.0, 1.9, 2.1)


def test_a_saving_that_could_be_none_may_never_earn_anything_back():
    assert Estimate(value=10, low=5, high=None) == calls_to_copy(1.2, 1.2, 1.0, 1.4, 1.2, 1.1, 1.3, copies=10)


def test_what_costs_nothing_is_earned_back_at_once_if_anything_is_saved():
    found = assess(seen(rounds=uneven(1.2, 1.2, 1.1, 1.4, 1.2, 1.1, 1.3)), PLAN).break_even_calls
    assert Estimate(value=0, low=0, high=0) == found.transfer == found.first_call == found.both


def test_a_loop_with_copies_that_was_quicker_than_its_calls_alone_costs_nothing():
    assert calls_to_copy(2.0, copies=-30.0).value == 0


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
        "copied at every call": (seen(10, 1, moved=4, demand=GATED[2], found=(2.0, 1.98, 2.02)), PLAN),
        "copied once and awaited": (awaited, PLAN),
        "copied once and awaited, at 2.5 times the price": (awaited, PRICED),
        "on a busy CPU": (seen(found=WON, own_share=0.3), PLAN),
        "on a busy CPU, at 2.5 times the price": (seen(found=WON, own_share=0.5), PRICED),
        "on a slow GPU": (seen(found=WON, throttled="the GPU was slowed down"), PLAN),
        "in a short time": (seen(found=(1.5, 1.4, 1.6), seconds=0.1), PLAN),
        "in a short time, at 2.5 times the price": (short, PRICED),
    }
    said = [f"{name}: {assess(*case).reason}\n" for name, case in cases.items()]
    assert_golden("words/offload.txt", "".join(said))
