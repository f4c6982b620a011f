"""Thresholds: from which size on the GPU wins, and what is said while that is missing or in doubt."""

from itertools import combinations, product
from math import inf
from random import Random

from cases import for_each
from factories import CPU, EMULATED, GPU, LASTED, measurement, offload, recorded, speedup
from golden import assert_golden
from msgspec.structs import replace

from pytest_gpuperf.analysis.threshold import find, side_that_fails
from pytest_gpuperf.model.demand import Demand, SizeGroup
from pytest_gpuperf.model.measurement import Estimate, Interference, ResultCheck
from pytest_gpuperf.model.record import Record

WON, LOST, DOUBT = (3.0, 2.9, 3.1), (0.5, 0.4, 0.6), (1.02, 0.9, 1.1)
WRONG = ResultCheck(agreed=False, error=1.0, tolerance=1e-5, reason="they differ")


def record(size, found=WON, *, sizes=(64, 256, 1024), name="test_fft", asked=None, **changes) -> Record:
    value = found[0] if found else 1.0
    known = {
        "nodeid": f"{name}[{size}]",
        "size_group": SizeGroup(name=name, parameter="n", size=size, sizes=tuple(sizes), **(asked or {})),
        "cpu": measurement(CPU, value),
        "gpu": measurement(GPU, 1.0) if found else None,
        "speedup": speedup(*found) if found else None,
    }
    return recorded(**{**known, **changes})


def size_group(found, **asked) -> list[Record]:
    """Return one record for each size of {size: (value, low, high)}."""
    return [record(size, each, sizes=found, asked=asked) for size, each in found.items()]


ABOVE = [record(256), record(1024)]
STATES = {"L": LOST, "W": WON, "?": DOUBT}


def sizes_of(states) -> dict[float, tuple[float, float, float]]:
    """Return sizes of 1, 2, 4, ... that are lost (L), won (W) or in doubt (?)."""
    return {2**place: STATES[state] for place, state in enumerate(states)}


def threshold(found, **asked):
    (only,) = find(size_group(sizes_of(found) if isinstance(found, str) else found, **asked))
    return only


def bracket(found):
    return found.largest_not_won, found.smallest_won


# pyhpc-benchmarks, results/aws.md: equation of state, CuPy over NumPy
PYHPC = {
    size: (value, 0.95 * value, 1.05 * value)
    for size, value in [(4096, 0.21), (16384, 0.90), (65536, 3.3), (262144, 21), (1048576, 64), (4194304, 99)]
}


@for_each(
    ("expected", "found"),
    [
        (("bracket", 16384, 65536), PYHPC),
        (("bracket", 1, 2), "?W"),
        (("bracket", 2, 4), "W?W"),
        (("bracket", 2, 4), "L?W"),
        (("none", 2, None), "W?"),
        (("not_monotone", 4, 8), "WL?W"),
    ],
)
def test_the_outcome_is_the_smallest_size_from_which_all_are_won(expected, found):
    seen = threshold(found)
    assert expected == (seen.outcome, *bracket(seen))
    assert {int} == {*map(type, (*filter(None, bracket(seen)), *(point.size for point in seen.curve)))}


@for_each(
    ("expected", "limit", "found"),
    [
        ("passed", {"at_most": 4}, "L?W"),
        ("passed", {"at_most": inf}, "LLW"),
        ("failed", {"at_most": 2}, "W?L"),
        ("inconclusive", {"at_most": 2}, "LW?"),
        ("passed", {"at_least": 3}, "LLW"),
        ("passed", {"at_least": 2}, "L?W"),
        ("failed", {"at_least": 3}, "LWW"),
        ("failed", {"at_least": 9}, "L?W"),
        ("inconclusive", {"at_least": 4}, "L?W"),
        ("inconclusive", {"at_least": 4}, "LW?"),
        ("passed", {"at_least": 2, "at_most": 4}, "LLW"),
        ("failed", {"at_least": 2, "at_most": 3}, "LLW"),
        ("inconclusive", {"at_least": 2, "at_most": 4}, "?WW"),
        ("failed", {"at_least": 2, "at_most": 2}, "?LW"),
        ("recorded", {}, "L?W"),
    ],
)
def test_a_limit_is_decided_only_when_no_doubt_could_turn_it(expected, limit, found):
    seen = threshold(found, **limit)
    assert (expected, expected in ("passed", "recorded")) == (seen.status, seen.reason is None)


@for_each(("found", "limit"), [("LWW", {"at_least": 3}), ("LLW", {"at_most": 1})])
def test_a_reason_names_an_emulated_device_as_such(found, limit):
    on_gpu = size_group(sizes_of(found), **limit)
    emulated = [replace(each, gpu=measurement(EMULATED, 1.0)) for each in on_gpu]
    (of_gpu,), (of_emulated,) = find(on_gpu), find(emulated)
    assert "the GPU" in of_gpu.reason
    assert of_emulated.reason == of_gpu.reason.replace("the GPU", "the emulated device")


@for_each(
    ("expected", "seconds", "asked", "found"),
    [
        # A size is won or lost where the whole range is on one side of 1, by more than 1 %.
        ("passed", LASTED, {"at_most": 2}, (1.2, 1.02, None)),
        ("inconclusive", LASTED, {"at_most": 2}, (1.2, 1.01, 1.4)),
        ("inconclusive", LASTED, {"at_most": 2}, (1.2, None, 1.4)),
        ("failed", LASTED, {"at_most": 2}, (0.8, None, 0.99)),
        ("inconclusive", LASTED, {"at_most": 2}, (0.8, 0.7, 0.995)),
        ("inconclusive", LASTED, {"at_most": 2}, (0.8, 0.7, None)),
        # After a short time it fails its size group farther from one than it passes.
        ("failed", 2.0, {"at_least": 4}, (2.0, 1.6, 2.1)),
        ("inconclusive", 2.0, {"at_least": 4}, (2.0, 1.4, 2.1)),
        ("passed", 2.0, {"at_most": 2}, (2.0, 1.2, 2.1)),
        ("inconclusive", 2.0, {"at_most": 2}, (2.0, 1.05, 2.1)),
        ("failed", 2.0, {"at_most": 2}, (0.5, 0.4, 0.6)),
        ("inconclusive", 2.0, {"at_most": 2}, (0.8, 0.7, 0.9)),
        ("passed", 2.0, {"at_least": 4}, (0.8, 0.7, 0.9)),
    ],
)
def test_a_size_is_won_or_lost_when_the_whole_range_is_on_one_side_of_one(expected, seconds, asked, found):
    sizes = {1: LOST, 2: found, 4: WON}
    (seen,) = find([replace(each, rounds_elapsed=seconds) for each in size_group(sizes, **asked)])
    assert expected == seen.status
    is_short = expected == "inconclusive" and seconds < LASTED
    assert not is_short or ", too near 1 for so short a measurement)" in seen.reason


OTHER_SIZES = {1e-7: LOST, 0.1234567891: LOST, 4194304.0: WON}


def test_what_failed_or_is_in_doubt_says_why_and_what_would_tell_more():
    """Of a doubt the sizes that the limit hangs on are named, and of a limit a size within the bracket."""
    cases = [
        ({"at_least": 4}, "LWW"),
        ({"at_least": 1, "at_most": 2}, "LLW"),
        ({"at_most": 2}, "LLL"),
        ({"at_most": 1}, "LL?"),
        ({"at_most": 0.5}, "WW"),
        ({"at_most": 3}, "LLW"),
        ({"at_most": 9}, "LL"),
        ({"at_most": inf}, "LL"),
        ({"at_most": 1}, "WWLW"),
        ({"at_most": 4}, "?L?W?"),
        ({"at_most": 4}, "L??W"),
        ({"at_least": 2, "at_most": 4}, "L??W"),
        ({"at_most": 2}, "W?W"),
        ({"at_most": 3}, "W?W"),
        ({"at_least": 3}, "W?W"),
        ({"at_least": 4}, "W?W"),
        ({"at_least": 1.5, "at_most": 2}, "W?W"),
        ({"at_most": 5}, {1: LOST, 4: DOUBT, 8: DOUBT}),
        ({"at_most": 1e-7}, OTHER_SIZES),
    ]
    said = []
    for limit, found in cases:
        asked = " and ".join(f"{bound} {size:g}" for bound, size in limit.items())
        states = found if isinstance(found, str) else [*found]
        said.append(f"{asked} of {states}: {threshold(found, **limit).reason}\n")
    assert_golden("words/thresholds.txt", "".join(said))


def skipped(reasons) -> list[Record]:
    return [record(size, None, status="skipped", reason=why) for size, why in reasons.items()]


OUT_OF_MEMORY = record(256, None, status="error", reason="out of memory")
NO_GPU = {"status": "skipped", "reason": "no GPU"}
DISAGREE = {"status": "failed", "reason": "the devices disagree", "check": WRONG}


@for_each(
    ("status", "said", "records"),
    [
        ("inconclusive", "at n=256 (out of memory), n=1024 (not run); run all", [record(64), OUT_OF_MEMORY]),
        # Sizes that look decided do not decide for those that are missing.
        ("inconclusive", "n=1024 (not run)", [record(64, LOST, asked={"at_most": 256}), record(256)]),
        ("failed", "loses at n=64", [record(64, LOST, asked={"at_most": 64})]),  # for certain
        # A size without a speedup that counts is missing.
        ("inconclusive", "n=64 (boom)", [record(64, status="error", reason="boom"), *ABOVE]),
        ("inconclusive", "n=64 (no GPU)", [record(64, **NO_GPU), *ABOVE]),
        ("inconclusive", "n=64 (the devices disagree)", [record(64, **DISAGREE), *ABOVE]),
        ("inconclusive", "n=64 (they differ)", [record(64, check=WRONG), *ABOVE]),
        ("skipped", "no GPU; slow", skipped({64: "no GPU", 256: "slow", 1024: "no GPU"})),
    ],
)
def test_a_size_group_that_is_not_whole_says_which_sizes_are_missing_and_why(status, said, records):
    (found,) = find(records)
    assert (status, None, (None, None)) == (found.status, found.outcome, bracket(found))
    assert said == found.reason if status == "skipped" else said in found.reason


def test_a_wrong_answer_has_no_speedup_in_any_regime():
    known = offload(never=speedup(*WON), always=speedup(*WON))
    (found,) = find([record(64, offload=known, check=WRONG)])
    assert (None, None) == (found.curve[0].never, found.curve[0].always)


@for_each("status", ["passed", "failed", "inconclusive", "recorded"])
def test_what_a_test_itself_demanded_does_not_matter_to_its_size_group(status):
    records = [replace(each, status=status, reason="required at least 9x") for each in size_group(PYHPC)]
    assert ["recorded"] == [each.status for each in find(records)]


def test_size_groups_come_in_order_of_first_appearance_each_with_its_own_limits():
    first = [record(size, sizes=(1, 2), name="test_b", asked={"at_most": 2}) for size in (1, 2)]
    second = [record(size, sizes=(1, 2), name="test_a", asked={"at_least": 1}) for size in (2, 1)]
    found = find([first[0], second[0], record(7, size_group=None), first[1], second[1]])
    assert [("test_b", 2, None), ("test_a", None, 1)] == [(f.name, f.at_most, f.at_least) for f in found]
    assert ["passed", "passed"] == [f.status for f in found]
    assert () == find([record(64, size_group=None)])


ALONE = {"gpu": None, "speedup": None}
CPU_VARIANT = record(64, None, sizes=(64,), nodeid="test_fft[cpu-64]")


@for_each("order", [1, -1])
@for_each(
    ("expected", "records"),
    [
        (("recorded", None), [CPU_VARIANT, record(64, sizes=(64,))]),
        (("skipped", "no GPU"), [CPU_VARIANT, record(64, sizes=(64,), **ALONE, **NO_GPU)]),
        (("recorded", None), [record(64, None, sizes=(64,), status="error"), record(64, sizes=(64,))]),
    ],
)
def test_of_a_size_the_gpu_variant_counts_and_the_record_with_both_devices(expected, records, order):
    (found,) = find(records[::order])
    assert expected == (found.status, found.reason)
    assert ["test_fft[64]"] == [point.nodeid for point in found.curve]


def test_the_curve_has_a_point_for_each_size_that_was_run_smallest_first():
    skipped = record(256, None, status="skipped", reason="no GPU", cpu=measurement(CPU, 0.25))
    (found,) = find([record(1024, (4.0, 3.0, 5.0)), skipped])
    assert [(256, 0.25, None), (1024, 4.0, 1.0)] == [(p.size, p.cpu, p.gpu) for p in found.curve]
    assert [None, Estimate(value=4.0, low=3.0, high=5.0)] == [p.never for p in found.curve]


REGIMES = {"never": (9, 8, 10), "once": WON, "always": LOST, "latency": (2, 1, 3)}
KNOWN = {name: speedup(*each) for name, each in REGIMES.items()}


@for_each(
    ("regime", "expected", "demand", "known"),
    [
        # Without what offload says the speedup stands under the demand's regime.
        ("never", {"never": WON}, Demand(), None),
        ("once", {"once": WON}, Demand(transfer="once", calls=5), None),
        # The regime is that of the measurement before that of the demand.
        ("body", {}, Demand(), {"regime": "body"}),
        ("once", REGIMES, Demand(latency=True), {"regime": "once", **KNOWN}),
    ],
)
def test_the_curve_has_the_speedup_of_each_regime(regime, expected, demand, known):
    (found,) = find([record(64, sizes=(64,), offload=known and offload(**known), demand=demand)])
    (point,) = found.curve
    seen = {name: getattr(point, name) for name in REGIMES}
    assert (regime, demand.latency) == (found.regime, found.by_latency)
    assert expected == {name: (each.value, each.low, each.high) for name, each in seen.items() if each}
    assert (3.0, 64) == (point.speedup.value, found.smallest_won)


@for_each("disturbed", ["interference", "gpu_interference"])
def test_a_win_that_rests_on_a_disturbed_machine_is_a_doubt(disturbed):
    found = {1: LOST, 2: WON}
    busy = Interference(kind="cpu_contention", own_share=0.1, waited=1.9, threads=2)
    unsure = {"offload": offload(faster=None), disturbed: busy}
    records = [
        replace(each, **unsure) if each.size_group.size == 2 else each
        for each in size_group(found, at_most=2)
    ]
    (seen,) = find(records)
    assert seen.status == "inconclusive"
    assert "n=2 (3.00x [2.90, 3.10], on a busy machine)" in seen.reason


def brute_force(wins):
    """Return the definition word for word: the smallest size from which all larger ones are won, too."""
    starts = [size for size in wins if all(won for other, won in wins.items() if other >= size)]
    smallest = min(starts, default=None)
    below = [size for size in wins if smallest is None or size < smallest]
    return max(below, default=None), smallest


def test_without_doubt_the_bracket_is_that_of_the_definition():
    order = Random(0)  # noqa: S311 - an order, not a secret
    for count in range(1, 7):
        sizes = range(10, 10 + count)
        for wins in (dict(zip(sizes, won, strict=True)) for won in product((True, False), repeat=count)):
            limit = order.choice(sizes)
            records = size_group({size: WON if won else LOST for size, won in wins.items()}, at_most=limit)
            (found,) = find(order.sample(records, count))
            smallest = brute_force(wins)[1]
            mixed = any(wins[small] > wins[large] for small, large in combinations(sizes, 2))
            assert brute_force(wins) == bracket(found)
            assert ("not_monotone" if mixed else "none" if smallest is None else "bracket") == found.outcome
            assert ("passed" if (smallest or inf) <= limit else "failed") == found.status


@for_each(
    ("expected", "size", "asked"),
    [
        ("neither", 2, {"at_most": 4}),
        ("below", 4, {"at_most": 7}),  # of which the decision begins at 4
        ("below", 2, {"at_most": 1}),
        ("above", 8, {"at_least": 4}),
        ("above", 2, {"at_least": 2, "at_most": 4}),
        ("either", 4, {"at_least": 2, "at_most": 4}),
    ],
)
def test_a_size_fails_its_size_group_by_a_loss_from_at_most_on_and_by_wins_where_there_is_at_least(
    expected, size, asked
):
    size_group = SizeGroup(name="f", parameter="n", size=size, sizes=(2, 4, 8), **asked)
    assert expected == side_that_fails(size_group)
