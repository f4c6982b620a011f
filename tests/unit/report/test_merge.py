"""Two runs joined into one report: a speedup from the CPU's samples and the GPU's."""

import json
from array import array
from random import Random

import numpy as np
import pytest
from cases import for_each
from factories import GPU, ROUNDS, copies, skipped
from msgspec.structs import replace
from two_runs import (
    CLOCKS,
    ELSEWHERE,
    HERE,
    OTHER,
    TEST,
    THERE,
    TWICE,
    joined,
    report,
    side,
    size_group_of,
    whole,
)
from walks import bound, simulated

from pytest_gpuperf.devices.simulated import Clock
from pytest_gpuperf.gate.fingerprint import environment_differences, hosts_differ, machine_names
from pytest_gpuperf.model.demand import Demand, Pairing, RunOptions, SamplingPlan, UnknownValue
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import Copies, Interference, Memory, ResultCheck, Transfer
from pytest_gpuperf.model.record import (
    Merged,
    Note,
    Record,
    Report,
    Run,
    ThreadPool,
    Verdict,
)
from pytest_gpuperf.report.json import document
from pytest_gpuperf.report.merge import merge
from pytest_gpuperf.timing.trial import Trial

FIRST, SECOND, THIRD = (Note(code="traced", text=text) for text in ("a", "b", "c"))
UNSTABLE = Interference(kind="unstable_cpu_times", own_share=0.1, median=0.01, fastest=0.001)
CONTENTION = Interference(kind="cpu_contention", own_share=0.5, waited=0.5)

APART = Note(
    code="results_not_compared",
    text="the results were not compared: the CPU and the GPU variant ran in two runs",
)


def ended(kind, status, reason, **changes) -> Record:
    """Return the record of one side that ended before it was measured."""
    return side(kind, status=status, reason=reason, **{kind: None, "scope": None, **changes})


def beside(cpu, gpu) -> Record:
    """Return the record of a test for which there may be a side missing, when another test was joined."""
    others = [side(kind, 1.0, nodeid=OTHER) for kind in ("cpu", "gpu")]
    reports = [
        report(name, *filter(None, [record]), other)
        for name, record, other in zip(("cpu.json", "gpu.json"), (cpu, gpu), others, strict=True)
    ]
    return next(record for record in merge(reports).run.records if record.nodeid == TEST)


def refused(*reports) -> str:
    with pytest.raises(GpuPerfError) as refusal:
        merge(reports)
    return str(refusal.value)


@for_each(
    ("expected", "demand"),
    [
        ("passed", Demand(min=9)),
        ("failed", Demand(min=11)),
        ("passed", Demand(max=11)),
        ("failed", Demand(max=9)),
        ("recorded", Demand()),
        ("inconclusive", Demand(min=10)),
    ],
)
def test_a_ratio_that_is_known_gives_that_speedup_and_the_verdict_on_it(expected, demand):
    found = joined(side("cpu", 10e-3, demand=demand), side("gpu", 1e-3, demand=demand))
    assert expected == found.status
    assert found.speedup.value == pytest.approx(10)
    assert (found.speedup.low, found.speedup.high) == pytest.approx((10, 10))
    assert (found.speedup.certain.low, found.speedup.certain.high) == pytest.approx((10 / 1.01, 10 * 1.01))
    assert (found.speedup.rounds, found.speedup.sampling) == (ROUNDS, "variants")


def test_a_verdict_has_its_reason_in_numbers():
    found = joined(side("cpu", 10e-3, demand=Demand(min=11)), side("gpu", 1e-3, demand=Demand(min=11)))
    assert found.reason == "required at least 11x, speedup 10.0x [10.0, 10.0]"


@for_each("short", ["cpu", "gpu"])
@for_each(
    ("expected", "demand", "seconds"),
    [("failed", 11, 7.5), ("inconclusive", 11, 2.0), ("failed", 16, 2.0), ("inconclusive", 16, 1.0)],
)
def test_the_shorter_of_the_runs_decides_how_near_its_limit_a_verdict_may_be(
    expected, demand, seconds, short
):
    sides = {
        kind: side(kind, time, demand=Demand(min=demand), rounds_elapsed=seconds if kind == short else 10.0)
        for kind, time in (("cpu", 10e-3), ("gpu", 1e-3))
    }
    found = joined(**sides)
    assert (expected, seconds) == (found.status, found.rounds_elapsed)


def test_the_range_of_a_speedup_is_that_of_any_stretch_of_one_run_over_any_of_the_other():
    on_cpu, on_gpu = [10e-3] * 24 + [12e-3] * 4, [1e-3] * 4 + [0.8e-3] * 4 + [1e-3] * 20
    found = joined(side("cpu", *on_cpu), side("gpu", *on_gpu)).speedup
    assert (10.0, 10.0, 15.0) == pytest.approx((found.value, found.low, found.high))


def test_a_run_may_have_more_samples_than_the_other():
    found = joined(side("cpu", *[10e-3] * 20, *[20e-3] * 15), side("gpu", *[1e-3] * 28)).speedup
    assert (28, 10.0, 20.0) == (found.rounds, pytest.approx(found.value), pytest.approx(found.high))


def test_both_sides_stay_as_they_were_measured():
    cpu, gpu = side("cpu", 10e-3), side("gpu", 1e-3)
    found = joined(cpu, gpu)
    assert (cpu.cpu, gpu.gpu) == (found.cpu, found.gpu)
    assert found.pairing == Pairing(kind="gpu", library="cupy", partner=TEST)


def test_what_was_spent_on_both_sides_is_added_up():
    cpu = side("cpu", 10e-3, elapsed=1.5, rounds_elapsed=0.5, turn_wait=0.25, reruns=1, notes=(FIRST, SECOND))
    gpu = side("gpu", 1e-3, elapsed=2.5, rounds_elapsed=0.25, dropped_rounds=1, notes=(SECOND, THIRD))
    found = joined(cpu, gpu)
    assert (4.0, 0.25) == (found.elapsed, found.turn_wait)
    assert (1, 1) == (found.reruns, found.dropped_rounds)
    assert found.notes == (APART, FIRST, SECOND, THIRD)


def test_nobody_compared_the_answers_and_the_record_says_so():
    told = ResultCheck(agreed=True, error=0.0, tolerance=1e-3, reason=None)
    found = joined(side("cpu", 10e-3), side("gpu", 1e-3, check=told))
    assert (None, (APART,)) == (found.check, found.notes)


def test_where_no_comparison_is_asked_for_none_is_missed():
    unasked = Demand(min=2, check=False)
    assert joined(side("cpu", 10e-3, demand=unasked), side("gpu", 1e-3, demand=unasked)).notes == ()


def test_moving_the_work_is_judged_at_the_price_in_the_reports():
    found = joined(side("cpu", 10e-3), side("gpu", 1e-3), cost_ratio=12.5)
    assert (False, True) == (found.offload.worth, found.offload.faster)
    assert found.offload.latency.value == pytest.approx(10)


def test_a_demand_on_latency_takes_the_calls_that_were_waited_for():
    demand = Demand(min=2, latency=True)
    found = joined(
        side("cpu", 1e-3, demand=demand, timed={"block_calls": 9, "latencies": array("d", [8e-3] * ROUNDS)}),
        side("gpu", 1e-3, demand=demand, timed={"block_calls": 9, "latencies": array("d", [2e-3] * ROUNDS)}),
    )
    assert ("passed", pytest.approx(4)) == (found.status, found.speedup.value)


def test_a_demand_on_latency_without_such_calls_is_an_error():
    demand = Demand(min=2, latency=True)
    cpu, gpu = side("cpu", 1.0, demand=demand), side("gpu", 1.0, demand=demand, timed={"block_calls": 9})
    assert ("error", "its GPU variant has no samples of awaited calls") == (
        (found := beside(cpu, gpu)).status,
        found.reason,
    )


def moving(seconds, **changes) -> Transfer:
    known = {
        "h2d": copies(*[seconds / 4] * ROUNDS),
        "d2h": copies(*[seconds * 3 / 4] * ROUNDS),
    }
    return Transfer(**{**known, **changes})


@for_each(
    ("expected", "demand"),
    [
        (10 / 5, Demand(min=1.5, transfer="always")),
        (10 / 2, Demand(min=1.5, transfer="once", calls=4)),
        (10, Demand(min=1.5)),
    ],
)
def test_copies_count_as_demanded_where_the_gpu_run_timed_them(expected, demand):
    found = joined(side("cpu", 10e-3, demand=demand), side("gpu", 1e-3, demand=demand, transfer=moving(4e-3)))
    assert ("passed", pytest.approx(expected)) == (found.status, found.speedup.value)
    assert found.offload.never.value == pytest.approx(10)
    assert found.offload.always.value == pytest.approx(2)


def test_copies_in_one_direction_are_all_that_there_are():
    one_way = moving(4e-3, d2h=Copies(bytes=0, arrays=0))
    demand = Demand(min=2, transfer="always")
    found = joined(side("cpu", 10e-3, demand=demand), side("gpu", 1e-3, demand=demand, transfer=one_way))
    assert ("passed", pytest.approx(5)) == (found.status, found.speedup.value)


def test_copies_of_nothing_cost_nothing():
    nothing = Transfer(h2d=Copies(bytes=0, arrays=0), d2h=Copies(bytes=0, arrays=0), reason="no bytes move")
    demand = Demand(min=2, transfer="always")
    found = joined(side("cpu", 10e-3, demand=demand), side("gpu", 1e-3, demand=demand, transfer=nothing))
    assert ("passed", pytest.approx(10)) == (found.status, found.speedup.value)


UNTIMED = copies()


@for_each(
    ("why", "transfer"),
    [
        ("", None),
        (": time was up", moving(1.0, h2d=UNTIMED, d2h=UNTIMED, reason="time was up")),
        (": of a body", Transfer(h2d=None, d2h=None, reason="of a body")),
    ],
)
@for_each("regime", [{"transfer": "always"}, {"transfer": "once", "calls": 4}])
def test_copies_that_nobody_timed_are_an_error_where_they_are_demanded(why, transfer, regime):
    demand = Demand(min=2, **regime)
    found = beside(side("cpu", 1.0, demand=demand), side("gpu", 1e-3, demand=demand, transfer=transfer))
    assert (found.status, found.speedup) == ("error", None)
    said = f"transfer={demand.transfer!r} needs the times of the copies, and its GPU variant lacks them{why}"
    assert found.reason == said


WAITED = {"waited": 0.5 * 10e-3 * ROUNDS}


@for_each(
    "cpu",
    [
        side("cpu", 10e-3, demand=Demand(min=6), timed=WAITED),
        side("cpu", 1e-3, *[10e-3] * (ROUNDS - 1), demand=Demand(min=6)),
        side("cpu", 10e-3, demand=Demand(min=6), interference=UNSTABLE),
    ],
)
def test_a_cpu_that_was_disturbed_lets_nothing_pass(cpu):
    found = joined(cpu, side("gpu", 1e-3, demand=Demand(min=6)), cost_ratio=6.0)
    assert found.speedup.low > 6
    assert (found.status, found.offload.worth) == ("inconclusive", None)
    assert "quieter machine" in found.reason


def test_a_verdict_that_stands_in_spite_of_what_disturbed_the_cpu_notes_it():
    found = joined(side("cpu", 10e-3, timed=WAITED), side("gpu", 1e-3))
    assert found.status == "passed"
    (note,) = [note for note in found.notes if note.code == "interference"]
    assert note.text.startswith("CPU times were disturbed: other programs may have taken 50 % of")
    assert found.interference.own_share == pytest.approx(0.5)


def test_an_emulated_gpu_that_was_disturbed_fails_nothing():
    emulated = {"device": replace(GPU, emulated=True), "waited": 0.5 * 10e-3 * ROUNDS}
    gpu = side("gpu", 10e-3, demand=Demand(min=3), timed=emulated)
    found = joined(side("cpu", 20e-3, demand=Demand(min=3)), gpu)
    assert (found.status, found.reason_code) == ("inconclusive", "interference")
    assert (found.interference, found.gpu_interference.own_share) == (None, pytest.approx(0.5))
    quiet = side("gpu", 10e-3, demand=Demand(min=3), timed={**emulated, "waited": 0.0})
    assert joined(side("cpu", 20e-3, demand=Demand(min=3)), quiet).status == "failed"


def test_a_gpu_that_was_slowed_down_decides_nothing():
    found = joined(side("cpu", 10e-3), side("gpu", 1e-3, dropped_rounds=ROUNDS))
    assert found.status == "inconclusive"
    assert "the GPU was slowed down in 28 of 56 rounds; improve its cooling" in found.reason
    assert found.offload.worth is None


LIMITED = Demand(min=2, max_memory=1000)

HELD = "the workload holds 2.00 kB on the device, max_memory is 1.00 kB"


@for_each(
    ("status", "reason", "memory", "of_side"),
    [
        ("passed", None, Memory(peak=1000), ("passed", None, None)),
        ("passed", None, Memory(peak=1000), ("recorded", None, None)),
        ("failed", HELD, Memory(peak=2000), ("failed", "in any words", "memory_above_limit")),
        ("failed", HELD, Memory(peak=2000), ("recorded", None, None)),
        (
            "error",
            "max_memory is 1.00 kB, but the report does not say how much",
            None,
            ("error", "in any words", "memory_not_known"),
        ),
        (
            "error",
            "max_memory is 1.00 kB, but the report does not say how much",
            None,
            ("recorded", None, None),
        ),
    ],
)
def test_memory_is_judged_with_the_speedup(status, reason, memory, of_side):
    ended_so = dict(zip(("status", "reason", "reason_code"), of_side, strict=True))
    gpu = side("gpu", 1e-3, demand=LIMITED, memory=memory, **ended_so)
    found = joined(side("cpu", 10e-3, demand=LIMITED), gpu)
    assert status == found.status
    assert (reason or "") in (found.reason or "")
    assert found.speedup is not None


def test_what_makes_a_speedup_flatter_than_it_is_is_found_on_the_machine_of_the_cpu():
    slow = replace(HERE, thread_pools=(ThreadPool(library="openblas", api="blas", threads=1, version=None),))
    made = merge([report("cpu", side("cpu", 1.0), environment=slow), report("gpu", side("gpu", 0.1))])
    (found,) = made.run.records[0].diagnosis
    assert found.code == "cpu_threads"
    assert found.numbers["usable"] == 8


def test_an_emulated_device_keeps_processors_busy_and_is_not_diagnosed_for_it():
    slow = replace(HERE, thread_pools=(ThreadPool(library="openblas", api="blas", threads=1, version=None),))
    emulated = side("gpu", 0.1, timed={"device": replace(GPU, emulated=True)})
    cpu = side("cpu", 1.0, timed={"processors": 1.0})
    made = merge([report("cpu", cpu, environment=slow), report("gpu", emulated)])
    assert made.run.records[0].diagnosis == ()


def adding(device):
    a = device.asarray(np.ones(1000))
    return lambda: a + 1


def of_variants(demand, *, cpu, gpu, seed) -> tuple[Record, Record]:
    """Return the records of two variants that were compared in one run."""
    clock, noise = Clock(), Random(seed)  # noqa: S311 - noise, not a secret
    devices = [
        simulated(kind, clock, lambda: noise.lognormvariate(0.0, 0.1), **timing)
        for kind, timing in (("cpu", {"kernel": cpu}), ("gpu", {"kernel": gpu, "bandwidth": 1e7}))
    ]
    options = RunOptions(sampling=SamplingPlan(block_time=3e-5))  # few calls of the quickest, for speed
    here, there = (Trial(nodeid=TEST, demand=demand, options=options) for _ in range(2))
    left = here.time_cpu(bound(adding), devices[0], seconds=2.5)
    found = there.compare_with(left, bound(adding), devices[1])
    return here.record(Verdict(status="recorded", reason=None)), there.record(found)


@for_each(
    "demand",
    [
        TWICE,
        Demand(),
        Demand(max=1.5),
        Demand(min=1.9, latency=True),
        Demand(min=2, transfer="always"),
        Demand(min=2, transfer="once", calls=7),
    ],
)
@for_each("times", [(10e-3, 1e-3), (10e-3, 5e-3), (2e-5, 1e-5)])
def test_the_same_samples_say_the_same_as_those_of_variants(demand, times):
    cpu, together = of_variants(demand, cpu=times[0], gpu=times[1], seed=0)
    apart = joined(
        replace(cpu, pairing=Pairing(kind="cpu", library="numpy")),
        replace(
            together,
            status="recorded",
            reason=None,
            cpu=None,
            speedup=None,
            check=None,
            offload=None,
            pairing=Pairing(kind="gpu", library="cupy"),
        ),
    )
    assert together.speedup == apart.speedup
    assert (together.status, together.reason) == (apart.status, apart.reason)
    assert together.offload == apart.offload


@for_each(
    ("said", "changes"),
    [
        ("min=2 in cpu.json, min=3 in gpu.json", {"demand": Demand(min=3)}),
        ("min=2, rtol=None in cpu.json, min=None, rtol=0.1 in gpu.json", {"demand": Demand(rtol=0.1)}),
        ("scope=call in cpu.json, scope=body in gpu.json", {"scope": "body"}),
    ],
)
def test_sides_that_ask_for_different_things_are_an_error_that_names_both(said, changes):
    found = beside(side("cpu", 10e-3), side("gpu", 1e-3, **changes))
    assert (found.status, found.speedup, found.offload) == ("error", None, None)
    assert found.reason == f"its CPU and GPU variants have different requirements: {said}"
    assert not found.demand.bare


@for_each("bare", ["cpu", "gpu"])
def test_a_demand_of_one_side_alone_is_not_lost_for_a_bare_one(bare):
    demands = {"cpu": TWICE, "gpu": TWICE, bare: Demand()}
    found = beside(*(side(kind, 1.0, demand=demand) for kind, demand in demands.items()))
    assert ("error", TWICE) == (found.status, found.demand)


@for_each("seconds", [0.0, float("inf")])
@for_each("kind", ["cpu", "gpu"])
def test_samples_that_are_no_times_are_an_error(kind, seconds):
    sides = {"cpu": 1.0, "gpu": 1.0, kind: seconds}
    found = beside(*(side(each, value) for each, value in sides.items()))
    assert f"its {kind.upper()} variant has samples that are not times" == found.reason


@for_each("kind", ["cpu", "gpu"])
def test_a_side_without_samples_is_an_error(kind):
    empty = side(kind, timed={"samples": array("d")})
    found = beside(*(empty if each == kind else side(each, 1.0) for each in ("cpu", "gpu")))
    assert ("error", f"its {kind.upper()} variant has no samples") == (found.status, found.reason)


@for_each(
    ("expected", "words", "status"),
    [
        ("skipped", "was skipped", "skipped"),
        ("error", "failed", "error"),
        ("error", "failed", "failed"),
        ("inconclusive", "is inconclusive", "inconclusive"),
    ],
)
@for_each("kept", ["nothing", "samples"])
@for_each("kind", ["cpu", "gpu"])
def test_a_side_that_did_not_end_well_is_named_with_its_reason(expected, words, status, kind, kept):
    broken = ended(kind, status, "a bad day")
    if kept == "samples":
        broken = side(kind, 1.0, status=status, reason="a bad day")
    found = beside(*(broken if each == kind else side(each, 1.0) for each in ("cpu", "gpu")))
    assert (expected, f"its {kind.upper()} variant {words}: a bad day") == (found.status, found.reason)
    assert found.speedup is None


def test_a_side_that_ended_before_anyone_knew_its_side_is_named_all_the_same():
    found = beside(side("cpu", 1.0), ended("gpu", "skipped", "no driver", pairing=None))
    assert ("skipped", "its GPU variant was skipped: no driver") == (found.status, found.reason)
    assert found.cpu is not None


@for_each(("absent", "there"), [("CPU", "gpu"), ("GPU", "cpu")])
def test_a_side_that_no_report_has_is_an_error(absent, there):
    sides = {"cpu": None, "gpu": None, there: side(there, 1.0)}
    found = beside(**sides)
    assert found.status == "error"
    assert found.reason.startswith(f"no report has its {absent} result; a test needs the same node id")


def test_a_test_that_was_skipped_in_both_runs_is_skipped():
    found = beside(ended("cpu", "skipped", "a bad day"), ended("gpu", "skipped", "a bad day"))
    assert ("skipped", "a bad day") == (found.status, found.reason)


@for_each("order", [1, -1])
def test_an_error_is_not_hidden_behind_a_skip(order):
    sides = [ended("cpu", "skipped", "a bad day"), ended("cpu", "error", "it broke", pairing=None)]
    found = beside(*sides[::order])
    assert ("error", "it broke") == (found.status, found.reason)


def test_a_skip_of_the_same_side_in_a_third_report_hides_nothing():
    sides = [side(kind, value) for kind, value in (("cpu", 10e-3), ("gpu", 1e-3))]
    shard = report("cpu-2.json", ended("cpu", "skipped", "deselected"))
    made = merge([report("cpu.json", sides[0]), shard, report("gpu.json", sides[1])])
    assert [("passed", TEST)] == [(record.status, record.nodeid) for record in made.run.records]
    lonely = [side("cpu", 1.0, nodeid=OTHER), side("gpu", 1.0, nodeid=OTHER)]
    made = merge([report("cpu.json", sides[0], lonely[0]), shard, report("gpu.json", lonely[1])])
    assert made.run.records[0].reason.startswith("no report has its GPU result")


def test_the_two_sides_of_different_tests_may_be_spread_over_many_reports():
    kinds = [("cpu", TEST), ("gpu", OTHER), ("cpu", OTHER), ("gpu", TEST)]
    made = merge([report(f"{kind}-{nodeid}", side(kind, 1.0, nodeid=nodeid)) for kind, nodeid in kinds])
    assert made.joined == (TEST, OTHER)
    assert made.run.environment.gpu == GPU


def test_a_test_that_one_run_measured_on_both_devices_is_carried_over_unchanged():
    there = whole(status="failed", reason="too slow")
    made = merge([report("cpu.json", side("cpu", 1.0)), report("gpu.json", side("gpu", 1.0), there)])
    assert there in made.run.records
    assert made.joined == (TEST,)


def test_a_test_that_only_one_of_two_runs_could_measure_is_that_runs():
    skipped = whole(status="skipped", reason="no driver", gpu=None, speedup=None, offload=None)
    reports = [report("cpu.json", side("cpu", 1.0), skipped), report("gpu.json", side("gpu", 1.0), whole())]
    for order in (1, -1):
        assert whole() in merge(reports[::order]).run.records


def test_a_run_that_could_not_measure_a_test_takes_nothing_from_one_that_could():
    broken = whole(status="error", reason="no driver", gpu=None, speedup=None, offload=None)
    reports = [report("cpu.json", side("cpu", 1.0), broken), report("gpu.json", side("gpu", 1.0), whole())]
    assert whole() in merge(reports).run.records


def test_an_older_cpu_variant_that_was_recorded_is_no_reason_for_a_missing_side():
    older = side("cpu", 1.0, pairing=None)
    other = [report(kind, side(kind, 1.0, nodeid=OTHER)) for kind in ("cpu", "gpu")]
    made = merge([report("one.json", side("cpu", 1.0)), report("older.json", older), *other])
    assert made.run.records[0].reason.startswith("no report has its GPU result")


def test_variants_of_one_run_are_carried_over_unchanged():
    cpu, gpu = side("cpu", 1.0, nodeid="t[cpu]"), whole("t[gpu]")
    gpu = replace(gpu, pairing=Pairing(kind="gpu", library="cupy", partner="t[cpu]"))
    lonely = ended("gpu", "skipped", "no driver", nodeid="u[gpu]")
    lonely = replace(lonely, pairing=replace(lonely.pairing, partner="u[cpu]"))
    broken = side("gpu", 1.0, nodeid="v[gpu]", status="error", reason="it broke")
    broken = replace(broken, pairing=replace(broken.pairing, partner="v[cpu]"))
    variants = (cpu, gpu, side("cpu", 1.0, nodeid="u[cpu]"), lonely, broken)
    made = merge([report("cpu.json", side("cpu", 1.0)), report("gpu.json", side("gpu", 1.0), *variants)])
    assert made.run.records[1:] == variants


@for_each(
    ("sides", "first", "second"),
    [
        ("CPU result", side("cpu", 1.0), side("cpu", 1.0)),
        ("GPU result", side("gpu", 1.0), side("gpu", 1.0)),
        ("CPU result and GPU result", whole(TEST), whole(TEST)),
        ("CPU result", whole(TEST), side("cpu", 1.0)),
        ("GPU result", side("gpu", 1.0), whole(TEST)),
    ],
)
def test_a_side_that_two_reports_have_is_refused_with_their_names(sides, first, second):
    others = [side("cpu", 1.0, nodeid=OTHER), side("gpu", 1.0, nodeid=OTHER)]
    said = refused(report("one.json", first, others[0]), report("two.json", second, others[1]))
    assert said.startswith(f"one.json and two.json both have a {sides} of {TEST}; leave one out")


def test_one_cpu_run_with_two_gpu_runs_says_what_to_do():
    torch = replace(side("gpu", 1.0), pairing=Pairing(kind="gpu", library="torch"))
    said = refused(report("cpu", side("cpu", 1.0)), report("cupy", side("gpu", 1.0)), report("torch", torch))
    assert said.startswith("cupy and torch both have")
    assert said.endswith("merge a CPU run with one GPU run at a time")


@for_each(
    ("why", "second"),
    [
        ("its GPU variant was skipped: no driver", ended("gpu", "skipped", "no driver")),
        ("no report has its GPU result", side("gpu", 1.0, nodeid=OTHER)),
        ("its CPU and GPU variants have different requirements", side("gpu", 1.0, demand=Demand())),
    ],
)
def test_reports_of_which_no_test_was_joined_are_refused_with_a_reason(why, second):
    said = refused(report("cpu.json", side("cpu", 1.0)), report("gpu.json", second))
    assert said.startswith("nothing to merge: no test has")
    assert f"; {TEST}: {why}" in said


def test_reports_without_records_are_refused():
    assert "nothing to merge: no test has" in refused(report("cpu.json"), report("gpu.json"))


def test_shards_of_one_run_make_one_report_in_which_nothing_is_lost():
    skip = replace(ended("gpu", "skipped", "no driver"), nodeid="t[x]")
    first, second = report("one.json", whole(TEST), skip), report("two.json", whole(OTHER))
    made = merge([first, second])
    assert (whole(TEST), skip, whole(OTHER)) == made.run.records
    assert () == made.joined
    assert ("one.json", "two.json") == made.run.merged.reports


def test_a_shard_that_deselected_a_test_does_not_hide_anothers():
    left_out = skipped(TEST, "left out", reason_code="deselected")
    made = merge([report("one.json", whole(OTHER), left_out), report("two.json", whole(TEST))])
    assert (whole(OTHER), whole(TEST)) == made.run.records


def test_shards_of_different_machines_are_refused_with_what_differs():
    elsewhere = replace(HERE, cpu={**HERE.cpu, "name": "Xeon"})
    one = report("one.json", whole(TEST), environment=HERE)
    said = refused(one, report("two.json", whole(OTHER), environment=elsewhere))
    assert "one.json and two.json were measured in different conditions (CPU: " in said
    assert said.endswith("Xeon), and a report has only one environment; keep two reports")


def made_of(cpu_environment=HERE, gpu_environment=THERE, **changes) -> Run:
    cpu = report("cpu.json", side("cpu", 10e-3), environment=cpu_environment)
    return merge([cpu, report("gpu.json", side("gpu", 1e-3), environment=gpu_environment, **changes)]).run


def test_the_environment_is_the_cpu_runs_with_the_gpu_of_the_other():
    there = replace(THERE, cpu={"name": "another"}, python="3.13.0", variables={"OMP_NUM_THREADS": "1"})
    made = made_of(gpu_environment=there).environment
    assert (made.host, made.cpu, made.python, made.variables) == (HERE.host, HERE.cpu, HERE.python, {})
    assert (made.gpu, made.gpu_reason) == (GPU, None)
    assert (made.clocks_at_start, made.clocks_at_end) == (CLOCKS, CLOCKS)
    assert made.packages == THERE.packages


def test_the_versions_are_those_of_the_cpu_run_where_both_have_one():
    there = replace(THERE, packages={"numpy": "1.26", "cupy": "13"})
    assert made_of(gpu_environment=there).environment.packages == {**HERE.packages, "cupy": "13"}


def test_one_host_is_one_host():
    made = made_of()
    assert made.merged == Merged(reports=("cpu.json", "gpu.json"), hosts_differ=False)
    assert made.records[0].notes == (APART,)


def test_a_speedup_of_two_machines_is_called_so():
    made = made_of(gpu_environment=ELSEWHERE)
    assert made.merged.hosts_differ is True
    assert made.merged.differences == ("host: here, there",)
    note = (
        "its CPU and GPU variants ran on different machines, here and there: the speedup is of two machines"
    )
    assert Note(code="different_machines", text=note) in made.records[0].notes


def test_machines_of_one_name_differ_by_their_processors():
    made = made_of(gpu_environment=replace(THERE, cpu={**THERE.cpu, "name": "another"}))
    assert made.merged.hosts_differ is True
    assert any("machines, EPYC and another:" in note.text for note in made.records[0].notes)


@for_each("part", ["host", "cpu"])
def test_hosts_that_are_not_named_may_be_the_same_or_not(part):
    unnamed = replace(THERE, **{part: {"name": None}})
    assert hosts_differ([HERE, unnamed]) is None
    assert made_of(gpu_environment=unnamed).records[0].notes == (APART,)


def test_what_is_known_to_differ_differs_though_another_is_not_named():
    assert hosts_differ([replace(HERE, cpu={}), ELSEWHERE]) is True
    assert machine_names([replace(HERE, cpu={}), ELSEWHERE]) == ("here", "there")


def test_every_part_of_the_environment_that_differs_is_told():
    other = replace(
        HERE,
        host={"name": "there", "memory": 32 * 10**9},
        cpu={"name": "another"},
        python="3.13.0",
        packages={"numpy": "1.26", "pytest-gpuperf": "0.2.0", "cupy": "13"},
        thread_pools=(ThreadPool(library="mkl", api="blas", threads=1, version=None),),
        variables={"OMP_NUM_THREADS": "1"},
    )
    assert environment_differences([HERE, other, other]) == (
        "host: here, there",
        "CPU: EPYC, another",
        "memory: 64.0 GB, 32.0 GB",
        "python: 3.11.7, 3.13.0",
        "numpy: 2.0, 1.26",
        "pytest-gpuperf: 0.1.0, 0.2.0",
        "thread pools: openblas 8, mkl 1",
        "OMP_NUM_THREADS: not set, 1",
    )


def test_what_an_older_environment_does_not_tell_is_no_difference():
    older = replace(HERE, host={"name": "here"}, cpu={"name": "EPYC"}, thread_pools=(), variables=None)
    assert environment_differences([replace(HERE, variables={"OMP_NUM_THREADS": "1"}), older]) == ()


def test_the_price_is_the_gpu_runs_and_another_is_told():
    sides = (("cpu", 2.5), ("gpu", 4.0))
    made = merge([report(kind, side(kind, 1.0), cost_ratio=ratio) for kind, ratio in sides])
    assert made.run.cost_ratio == 4.0
    assert made.run.merged.differences == ("cost ratio: 2.5, 4",)


@for_each(("expected", "others"), [(("--gpuperf-all",), "all"), ((), "require-gpu")])
def test_options_that_all_runs_had_are_those_of_the_whole(expected, others):
    options = (("cpu", "all"), ("gpu", others))
    made = merge([report(kind, side(kind, 1.0), arguments=(f"--gpuperf-{name}",)) for kind, name in options])
    assert expected == made.run.arguments


def test_a_price_that_a_report_lacks_is_the_others():
    sides = (("cpu", 3.0), ("gpu", None))
    made = merge([report(kind, side(kind, 1.0), cost_ratio=ratio) for kind, ratio in sides])
    assert made.run.cost_ratio == 3.0


def test_without_a_price_in_any_report_there_is_none():
    made = merge([report(kind, side(kind, 1.0), cost_ratio=None) for kind in ("cpu", "gpu")])
    assert made.run.cost_ratio is None


def test_the_run_began_with_the_first_and_is_complete_when_all_are():
    made = made_of(started="2025-12-31T00:00:00+00:00", complete=False)
    assert ("2025-12-31T00:00:00+00:00", False) == (made.started, made.complete)
    assert made_of().complete is True


def test_the_number_of_unmarked_tests_is_that_of_the_run_with_most():
    cpu, gpu = report("cpu", side("cpu", 1.0), unmarked=1), report("gpu", side("gpu", 1.0), unmarked=2)
    assert 2 == merge([cpu, gpu]).run.unmarked


def test_a_value_that_no_backend_knows_is_told_once():
    few, many = (UnknownValue(parameter="xp", value="'dask'", tests=tests) for tests in (1, 3))
    other = UnknownValue(parameter="xp", value="'mlx'", tests=2)
    cpu = report("cpu", side("cpu", 1.0), unknown_values=(many,))
    gpu = report("gpu", side("gpu", 1.0), unknown_values=(few, other))
    assert merge([cpu, gpu]).run.unknown_values == (many, other)


def test_the_threshold_is_that_of_the_joined_records():
    cpu, gpu = zip(*size_group_of(0.5, 2.0, 4.0, at_most=1), strict=True)
    made = merge([report("cpu.json", *cpu), report("gpu.json", *gpu)])
    (found,) = made.run.thresholds
    assert (found.status, found.largest_not_won, found.smallest_won) == ("failed", 1, 2)
    assert [pytest.approx(ratio) for ratio in (0.5, 2.0, 4.0)] == [
        point.speedup.value for point in found.curve
    ]
    (said,) = made.failures(RunOptions())
    assert said.startswith("threshold of test_n: failed: offload threshold of n")
    assert made.failures(RunOptions(fail="nothing")) == ()


def test_a_joined_run_keeps_the_schema_and_can_be_joined_again():
    first = made_of(gpu_environment=ELSEWHERE)
    again = document.load(json.loads(document.text(first)))
    assert again == first
    made = merge([Report(name="merged.json", run=again), *shards("cpu.json", "gpu.json", OTHER)])
    assert made.run.records[0] == first.records[0]
    assert made.joined == (OTHER,)


def shards(cpu, gpu, nodeid) -> list[Report]:
    return [
        report(cpu, side("cpu", 10e-3, nodeid=nodeid)),
        report(gpu, side("gpu", 1e-3, nodeid=nodeid)),
    ]


def test_a_side_that_has_its_other_one_is_no_longer_noted_as_one_device():
    alone = Note(code="one_device", text="in any words")
    found = joined(side("cpu", 10e-3, notes=(alone, FIRST)), side("gpu", 1e-3, notes=(alone,)))
    assert found.notes == (APART, FIRST)


def test_what_was_known_then_weighs_more_than_what_is_seen_only_where_it_is_worse():
    milder = replace(CONTENTION, own_share=0.9)
    known = joined(side("cpu", 10e-3, timed=WAITED, interference=milder), side("gpu", 1e-3))
    assert known.status == "passed"
    assert known.interference.own_share == pytest.approx(0.5)
    worse = joined(side("cpu", 10e-3, timed=WAITED, interference=UNSTABLE), side("gpu", 1e-3))
    assert (worse.status, worse.reason_code) == ("inconclusive", "interference")
    assert worse.interference == UNSTABLE


def test_what_a_note_says_is_no_interference():
    said = Note(
        code="traced", text="threads waited for a processor, 0.9 s in each second of the CPU's blocks"
    )
    found = joined(side("cpu", 10e-3, notes=(said,)), side("gpu", 1e-3))
    assert (found.status, found.interference) == ("passed", None)
