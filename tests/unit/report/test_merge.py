"""Reports joined into one run: shards, and a run on the CPU with one on the GPU."""

from array import array

import pytest
from cases import for_each
from factories import GPU, copies, scaled, skipped
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
    whole,
)

from pytest_gpuperf.model.demand import Demand, Pairing, UnknownValue
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import Copies, Interference, Transfer
from pytest_gpuperf.model.record import Note, Record, Report, Run, ThreadPool
from pytest_gpuperf.report.json import document
from pytest_gpuperf.report.merge import merge

APART = Note(
    code="results_not_compared",
    text="the results were not compared: the CPU and the GPU variant ran in two runs",
)
EMPTY = {"samples": array("d")}
AWAITED = Demand(min=2, latency=True)


def of_test(cpu: Record | None, gpu: Record | None, *others: Report) -> Record:
    """Return the record of a test whose result one run may lack; another test was joined."""
    reports = [
        report(f"{kind}.json", *filter(None, [record]), side(kind, 1.0, nodeid=OTHER))
        for kind, record in (("cpu", cpu), ("gpu", gpu))
    ]
    return next(record for record in merge([*reports, *others]).records if record.nodeid == TEST)


def ended(kind, status, **changes) -> Record:
    """Return the record of a device's run that ended before anything was measured."""
    return side(kind, status=status, reason="a bad day", **{kind: None, "scope": None, **changes})


def refused(*reports: Report) -> str:
    with pytest.raises(GpuPerfError) as refusal:
        merge(reports)
    return str(refusal.value)


# A test that ran once on each device.


@for_each("short", ["cpu", "gpu"])
@for_each(("expected", "seconds"), [("failed", 7.5), ("inconclusive", 2.0)])
def test_the_shorter_of_the_runs_decides_how_near_its_limit_a_verdict_may_be(expected, seconds, short):
    lasted = dict.fromkeys(("cpu", "gpu"), 10.0) | {short: seconds}
    sides = {kind: side(kind, 1.0, demand=Demand(min=1.1), rounds_elapsed=lasted[kind]) for kind in lasted}
    found = joined(**sides)
    assert (expected, seconds) == (found.status, found.rounds_elapsed)


def test_both_results_stay_as_they_were_measured_and_what_was_spent_is_added_up():
    alone, one, two = (
        Note(code=code, text=code) for code in ("no_partner", "slowed_by_settings", "recompiles")
    )
    busy = Interference(kind="cpu_contention", own_share=0.9, waited=0.5)
    cpu = side("cpu", 10e-3, elapsed=1.5, restart_reason="noise", interference=busy, notes=(alone, one))
    gpu = side("gpu", 1e-3, elapsed=2.5, notes=(alone, one, two))
    found = joined(cpu, gpu)
    assert (cpu.cpu, gpu.gpu, None) == (found.cpu, found.gpu, found.pairing)
    assert (4.0, "noise", busy) == (found.elapsed, found.restart_reason, found.interference)
    assert (APART, one, two) == found.notes[:3]
    unasked = Demand(min=2, check=False)
    assert () == joined(side("cpu", 1.0, demand=unasked), side("gpu", 1.0, demand=unasked)).notes


@for_each(("expected", "ratio"), [(True, None), (True, 9), (False, 12.5)])
def test_worth_is_judged_at_the_price_of_the_gpus_run(expected, ratio):
    gpu = report("gpu", side("gpu", 0.1), cost_ratio=ratio)
    run = merge([report("cpu", side("cpu", 1.0), cost_ratio=2), gpu])
    assert (ratio, expected) == (run.cost_ratio, run.records[0].offload.worth)


ALWAYS, ONCE = Demand(min=1.5, transfer="always"), Demand(min=1.5, transfer="once", calls=4)
UNTIMED = Transfer(h2d=copies(), d2h=copies(), reason="time was up")
NO_TIMES = [("gpu", EMPTY), ("cpu", EMPTY), ("cpu", {"samples": array("d", [1.0, 0.0])})]


def test_copies_of_nothing_cost_nothing():
    nothing = Transfer(h2d=Copies(bytes=0, arrays=0), d2h=Copies(bytes=0, arrays=0))
    found = joined(side("cpu", 10.0, demand=ALWAYS), side("gpu", 1.0, demand=ALWAYS, transfer=nothing))
    assert ("passed", pytest.approx(10)) == (found.status, found.speedup.value)


@for_each(
    ("said", "demand", "changes"),
    [
        ("gpu.json has no GPU times to judge it by", AWAITED, {"gpu": {"timed": {"block_calls": 9}}}),
        *(
            (f"{kind}.json has no {kind.upper()} times", TWICE, {kind: {"timed": of}})
            for kind, of in NO_TIMES
        ),
        ("transfer='always' needs the times of the copies, which gpu.json lacks", ALWAYS, {}),
        ("transfer='once' needs the times of the copies", ONCE, {"gpu": {"transfer": UNTIMED}}),
        ("min=2, rtol=None in cpu.json, min=None, rtol=0.1 in", TWICE, {"gpu": {"demand": Demand(rtol=0.1)}}),
        ("min=2 in cpu.json, min=None in gpu.json", TWICE, {"gpu": {"demand": Demand()}}),
        ("requirements: scope=call in cpu.json, scope=body in gpu.json", TWICE, {"gpu": {"scope": "body"}}),
    ],
)
def test_results_that_cannot_be_joined_are_an_error_that_names_the_report(said, demand, changes):
    sides = {kind: side(kind, 1.0, **{"demand": demand, **changes.get(kind, {})}) for kind in ("cpu", "gpu")}
    found = of_test(**sides)
    assert ("error", None, None) == (found.status, found.speedup, found.offload)
    assert said in found.reason
    assert not found.is_bare, "such an error must fail"


ONE_THREAD = replace(HERE, thread_pools=(ThreadPool(library="mkl", api="blas", threads=1, version=None),))


def test_what_holds_the_cpu_back_is_found_on_the_machine_of_the_cpu():
    run = merge([report("cpu", side("cpu", 1.0), environment=ONE_THREAD), report("gpu", side("gpu", 0.1))])
    assert ["cpu_threads"] == [found.code for found in run.records[0].diagnosis]


# A test that one run lacks, or did not measure.


@for_each("status", ["skipped", "error", "failed", "inconclusive"])
@for_each("is_measured", [False, True])
@for_each("kind", ["cpu", "gpu"])
def test_a_result_that_did_not_end_well_is_that_of_the_test_and_names_its_report(status, kind, is_measured):
    broken = side(kind, 1.0, status=status, reason="a bad day") if is_measured else ended(kind, status)
    found = of_test(*(broken if each == kind else side(each, 1.0) for each in ("cpu", "gpu")))
    assert (status, f"{status} in {kind}.json: a bad day") == (found.status, found.reason)
    assert found.speedup is None


ABSENT = "no report has its {} result; a test needs the same node id in both runs"


@for_each(
    ("expected", "cpu", "gpu"),
    [
        (("error", ABSENT.format("GPU")), side("cpu", 1.0), None),
        (("error", ABSENT.format("CPU")), None, side("gpu", 1.0)),
        (("skipped", "a bad day"), ended("cpu", "skipped"), ended("gpu", "skipped")),
        (("error", "a bad day"), ended("cpu", "skipped"), ended("gpu", "error", pairing=None)),
    ],
)
def test_a_result_that_is_missing_has_a_reason(expected, cpu, gpu):
    found = of_test(cpu, gpu)
    assert expected == (found.status, found.reason)


def test_a_shard_that_left_a_test_out_hides_neither_a_result_nor_that_one_is_missing():
    left_out = report("more.json", skipped(TEST, "left out", reason_code="deselected"))
    assert "passed" == of_test(side("cpu", 10.0), side("gpu", 1.0), left_out).status
    assert of_test(side("cpu", 10.0), None, left_out).reason.startswith("no report has its GPU result")
    shards = merge([report("one.json", whole(OTHER), *left_out.run.records), report("two.json", whole(TEST))])
    assert (whole(OTHER), whole(TEST)) == tuple(shards.records)


@for_each("status", ["skipped", "error"])
def test_a_test_that_only_one_of_two_runs_could_measure_is_that_runs(status):
    broken = whole(status=status, reason="no driver", gpu=None, speedup=None, offload=None)
    cpu, gpu = report("cpu.json", side("cpu", 1.0), broken), report("gpu.json", side("gpu", 1.0), whole())
    assert whole() in merge([cpu, gpu]).records


def test_variants_of_one_run_are_carried_over_unchanged():
    cpu, gpu = side("cpu", 1.0, nodeid="t[cpu]"), whole("t[gpu]")
    gpu = replace(gpu, pairing=Pairing(kind="gpu", library="cupy", partner="t[cpu]"))
    lonely = ended("gpu", "skipped", nodeid="u[gpu]", pairing=replace(gpu.pairing, partner="u[cpu]"))
    failed = whole("v", status="failed", reason="slow")
    variants = (cpu, gpu, side("cpu", 1.0, nodeid="u[cpu]"), lonely, failed)
    run = merge([report("cpu.json", side("cpu", 1.0)), report("gpu.json", side("gpu", 1.0), *variants)])
    assert variants == run.records[1:]


# What is refused.


@for_each(
    ("kind", "first", "second"),
    [
        ("CPU", side("cpu", 1.0), side("cpu", 1.0)),
        ("GPU", side("gpu", 1.0), side("gpu", 1.0)),
        ("CPU", whole(TEST), whole(TEST)),
        ("GPU", side("gpu", 1.0), whole(TEST)),
    ],
)
def test_a_result_that_two_reports_have_is_refused_with_their_names_and_the_remedy(kind, first, second):
    said = refused(report("one.json", first), report("two.json", second))
    assert said.startswith(f"one.json and two.json both have a {kind} result of {TEST}; leave one out, or ")


@for_each(
    ("why", "records"),
    [
        ("", [[], []]),
        (f"; {TEST}: skipped in gpu.json: a bad day", [[side("cpu", 1.0)], [ended("gpu", "skipped")]]),
        (f"; {TEST}: no report has its GPU", [[side("cpu", 1.0)], [side("gpu", 1.0, nodeid=OTHER)]]),
        (f"; {TEST}: its CPU and GPU", [[side("cpu", 1.0)], [side("gpu", 1.0, demand=Demand())]]),
    ],
)
def test_reports_of_which_no_test_was_compared_are_refused_with_a_reason(why, records):
    said = refused(*(report(f"{kind}.json", *of) for kind, of in zip(("cpu", "gpu"), records, strict=True)))
    missing = "no test has a CPU result in one report and a GPU result in another"
    assert said.startswith(f"nothing to merge: {missing}{why}")


def test_shards_of_different_machines_are_refused_with_what_differs():
    elsewhere = replace(HERE, cpu={**HERE.cpu, "name": "Xeon"})
    one = report("one.json", whole(TEST), environment=HERE)
    said = refused(one, report("two.json", whole(OTHER), environment=elsewhere))
    assert "one.json and two.json were measured in different conditions (CPU: " in said
    assert said.endswith("Xeon), and a report has only one environment and one cost ratio; keep two reports")


@for_each("gpus", [(whole(TEST), whole(OTHER)), (whole(TEST), side("gpu", 1.0, nodeid=OTHER))])
@for_each(("told", "ratios"), [("2, 9", (2, 9)), ("none, 9", (None, 9))])
def test_gpus_that_were_judged_at_different_prices_are_refused(told, ratios, gpus):
    """Whether one is worth it is in the records, and the page says at which price: that of the report."""
    reports = [
        report(f"{name}.json", gpu, cost_ratio=ratio)
        for name, gpu, ratio in zip(("one", "two"), gpus, ratios, strict=True)
    ]
    said = refused(report("cpu.json", side("cpu", 1.0, nodeid="b.py::test_it"), cost_ratio=5), *reports)
    assert f"one.json and two.json were measured in different conditions (cost ratio: {told})" in said


# The run that is made.


def test_shards_of_one_run_make_one_report_in_which_nothing_changes():
    first = (whole(TEST), ended("gpu", "skipped", nodeid="t[x]"), side("cpu", 1.0, nodeid="t[numpy]"))
    run = merge([report("one.json", *first), report("two.json", whole(OTHER))])
    assert (*first, whole(OTHER)) == run.records
    assert ("one.json", "two.json") == run.merged.reports


def test_shards_may_have_scaling_tests_alone():
    run = merge([report("one.json", scaled(1), scaled(2, 0.9)), report("two.json", scaled(4, 0.8))])
    assert [1, 2, 4] == [point.count for curve in run.scalings for point in curve.points]


@for_each("scaling", ["skipped", "measured"])
@for_each(("status", "other"), [("error", "skipped"), ("skipped", "recorded"), ("error", "recorded")])
def test_a_gpu_run_without_results_is_not_hidden_by_tests_that_need_none(status, other, scaling):
    """A report with a scaling test, or with a test that has both devices, may be half of a join, too."""
    of_scaling = scaled(2, 0.8)
    if scaling == "skipped":
        of_scaling = replace(of_scaling, status="skipped", reason="no GPU", gpu=None)
    cpu, gpu = side("cpu", 10e-3), ended("gpu", status)
    if other == "skipped":
        cpu = replace(cpu, status="skipped", reason="a holiday")
    found = merge([report("cpu.json", cpu, whole()), report("gpu.json", gpu, of_scaling)]).records[0]
    assert (found.status, found.reason) == (status, f"{status} in gpu.json: a bad day")


def test_a_skipped_scaling_test_makes_no_shard_of_a_run_on_one_device():
    alone = replace(scaled(2, 0.8), status="skipped", reason="too few GPUs", gpu=None)
    cpu, gpu = (
        report("cpu.json", side("cpu", 10e-3), alone),
        report("gpu.json", ended("gpu", "skipped"), alone),
    )
    assert "nothing to merge: " in refused(cpu, gpu)
    elsewhere = replace(ELSEWHERE, gpu=None, gpu_reason="none")
    cpu = report("cpu.json", side("cpu", 10e-3), alone, environment=elsewhere)
    assert merge([cpu, report("gpu.json", side("gpu", 1e-3), alone)]).records[0].speedup.value == 10


def test_the_results_of_different_tests_may_be_spread_over_many_reports():
    kinds = [("cpu", TEST), ("gpu", OTHER), ("cpu", OTHER), ("gpu", TEST)]
    run = merge([report(f"{kind}-{nodeid}", side(kind, 1.0, nodeid=nodeid)) for kind, nodeid in kinds])
    assert all(record.speedup for record in run.records)


def made_of(there=THERE) -> Run:
    cpu = report("cpu.json", side("cpu", 1.0), environment=HERE)
    return merge([cpu, report("gpu.json", side("gpu", 0.1), environment=there)])


def test_the_environment_is_the_gpu_runs_with_the_machine_of_the_cpu():
    there = replace(THERE, cpu={}, host={}, variables={"OMP_NUM_THREADS": "1"}, thread_pools=())
    found = made_of(there).environment
    assert HERE.thread_pools == found.thread_pools
    assert (HERE.host, HERE.cpu, HERE.variables) == (found.host, found.cpu, found.variables)
    assert (GPU, CLOCKS, THERE.packages) == (found.gpu, found.clocks_at_end, found.packages)


def test_a_run_is_that_of_all_its_reports():
    few, many = (UnknownValue(parameter="xp", value=value, tests=2) for value in ("'dask'", "'mlx'"))
    known = {"started": "2025-12-31T00:00:00+00:00", "complete": False, "unmarked": 2}
    common = {"arguments": ("--gpuperf-all",)}
    of_cpu = {**common, "unknown_values": (many,), "unmarked": 1, "narrowed_by": ("-k", "paths")}
    of_gpu = {**common, "unknown_values": (few, many), "narrowed_by": ("-m", "-k"), **known}
    cpu, gpu = report("cpu", side("cpu", 1.0), **of_cpu), report("gpu", side("gpu", 1.0), **of_gpu)
    run = merge([cpu, gpu])
    assert ("-k", "paths", "-m") == run.narrowed_by, "`baseline update --prune` refuses a part of the suite"
    assert (*known.values(),) == (run.started, run.complete, run.unmarked)
    assert ((many, few), ("--gpuperf-all",)) == (run.unknown_values, run.arguments)
    assert made_of().complete is True
    assert () == merge([cpu, report("gpu", side("gpu", 1.0))]).arguments


def test_a_joined_run_keeps_the_schema_and_can_be_joined_again():
    first = made_of(ELSEWHERE)
    again = document.parse(document.text(first).encode())
    assert again == first
    others = [report(f"{kind}.json", side(kind, 1.0, nodeid=OTHER)) for kind in ("cpu", "gpu")]
    run = merge([Report(name="merged.json", run=again), *others])
    assert (TEST, OTHER) == tuple(record.nodeid for record in run.records if record.speedup)
    assert first.records[0] == run.records[0]
