"""Update: which records of later runs take the place of a baseline's, and which are kept or refused."""

import re

import factories
import pytest
from cases import for_each
from factories import (
    CPU,
    ELSEWHERE,
    GATE,
    GPU,
    base_of,
    comparison,
    gate_result,
    measured,
    recorded,
    run_of,
    speedup_within,
    within,
)
from msgspec.structs import replace

from pytest_gpuperf.analysis.scaling import with_speedup
from pytest_gpuperf.gate.update import plan
from pytest_gpuperf.model.demand import Pairing, SizeGroup
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import Memory, ResultCheck
from pytest_gpuperf.model.record import Record, Report
from pytest_gpuperf.model.scaling import Scaling

TEST, OTHER = "test_a.py::test_1", "test_a.py::test_2"
THERE = {"environment": ELSEWHERE}


def record(value=10.0, nodeid=TEST, share=0.02, **changes) -> Record:
    return recorded(nodeid, value, **{"speedup": speedup_within(value, share), **changes})


NOISY = record(share=0.9)


def skipped(nodeid=TEST, **changes) -> Record:
    return factories.skipped(nodeid, **changes)


def on_devices(count, value=None) -> Record:
    """Return the record of a scaling test; an efficiency of `value` on two devices or more."""
    found = speedup_within(value * count, 0.02) if value else None
    known = Scaling(name="test_a.py::test", mode="strong", count=count, counts=(1, 2, 4))
    scaling = with_speedup(known, found, measured(GPU, 10e-3) if found else None)
    return record(1.0, f"test_a.py::test[{count}]", cpu=None, speedup=None, scaling=scaling)


def report(*records, tolerances=GATE.tolerances, **changes) -> Report:
    gate = gate_result(tolerances=tolerances) if tolerances else None
    return Report(name="r.json", run=run_of(*records, **{"gate": gate, **changes}))


def update(before, *reports, accept=False, prune=False):
    return plan(base_of(*before) if before else None, reports, accept=accept, prune=prune)


def values(found) -> dict[str, float]:
    return {each.nodeid: each.speedup.value for each in found.run.records if each.speedup}


HELD = {"memory": Memory(peak=1000)}
WAS = "speedup 10.0x [9.80, 10.2]"
OF_MEMORY = within(metric="memory")


@for_each(
    ("expected", "before", "now", "tolerance"),
    [
        (None, record(), record(), within()),
        (f"{WAS} replaced by 12.0x [11.8, 12.2]", record(), record(12.0), within()),
        (f"{WAS} kept instead of 9.90x [9.70, 10.1]", record(), record(9.9), within()),
        (f"{WAS} kept instead of 10.5x [1.05, 19.9]", record(), record(10.5, share=0.9), within()),
        ("speedup 10.0x [1.00, 19.0] replaced by 10.5x [10.3, 10.7]", NOISY, record(10.5), within()),
        ("speedup 10.0x [1.00, 19.0] replaced by 9.90x [9.70, 10.1]", NOISY, record(9.9), within()),
        (f"{WAS} kept instead of 6.00x [0.600, 11.4]", record(), record(6.0, share=0.9), within()),
        (f"{WAS} kept instead of 8.00x [7.84, 8.16]", record(), record(8.0), within(0.3)),
        ("memory 1.00 kB replaced by 990 B", record(**HELD), record(memory=Memory(peak=990)), OF_MEMORY),
        ("memory 1.00 kB kept instead of none", record(**HELD), record(), OF_MEMORY),
        (
            "parallel efficiency 0.80 [0.78, 0.82] kept instead of 0.79 [0.77, 0.81]",
            on_devices(4, 0.8),
            on_devices(4, 0.79),
            within(),
        ),
    ],
)
def test_a_value_that_is_worse_or_less_certain_replaces_none_however_little(expected, before, now, tolerance):
    found = update([before], report(now, tolerances=(tolerance,)))
    assert (expected and f"{before.nodeid}: {expected}") == next(iter(found.values), None)
    is_kept = expected is not None and "kept" in expected
    counts = "1 test updated, 0 new, 0 kept as before"
    counts = "0 tests updated, 0 new, 1 kept as before (1 for better values)" if is_kept else counts
    assert (is_kept, counts, ()) == (found.run is None, found.counts, found.regressions)
    accepted = update([before], report(now, tolerances=(tolerance,)), accept=True)
    assert ((now,), ()) == (accepted.run.records, accepted.regressions)


def test_a_record_is_kept_whole_where_one_of_its_values_is_better():
    before, now = record(**HELD), record(12.0, memory=Memory(peak=1010))
    found = update([before], report(now, record(5.0, OTHER), tolerances=(within(), OF_MEMORY)))
    assert found.run.records == (before, record(5.0, OTHER))


def on_floats(value=10.0) -> Record:
    return record(value, gpu=measured(GPU, 10e-3 / value, dtypes=("float32",)))


def on_doubles(value=10.0, share=0.02) -> Record:
    return record(value, share=share, gpu=measured(GPU, 10e-3 / value, dtypes=("float64",)))


LOSS = f"{TEST}: speedup got worse: 2.00x [1.96, 2.04], baseline 10.0x [9.80, 10.2]: -80.0 %"
DOUBT = f"{TEST}: speedup is inconclusive: 9.90x [0.990, 18.8], baseline 10.0x"
NOT_COMPARABLE = "not comparable with the baseline base.json"
OTHER_DTYPES = f"{NOT_COMPARABLE}: GPU dtypes: float32 in the baseline, float64 now"
OF_CPU = (within(0.5, "cpu_time"),)


@for_each(
    ("expected", "now", "changes"),
    [
        ("", on_floats(2.0), {}),
        ("", on_floats(2.0), {"tolerances": ()}),  # of a run without a check
        ("", on_floats(2.0), {"tolerances": OF_CPU}),
        (f"{NOT_COMPARABLE}: CPU: EPYC in the baseline, another now", on_floats(2.0), THERE),
        (f"{NOT_COMPARABLE}: GPU dtypes: float32 in the baseline, float64 now", on_doubles(2.0), {}),
        (
            f"{NOT_COMPARABLE}: GPU dtypes: float32 in the baseline, float64 now",
            on_doubles(9.9, share=0.9),
            {},
        ),
        (None, on_doubles(9.9), {}),
        (None, on_doubles(12.0), {}),
        (None, on_floats(9.9), THERE),
    ],
)
def test_a_regression_is_refused_and_so_is_one_that_no_check_compares(expected, now, changes):
    found = update([on_floats()], report(now, **changes))
    assert (expected is not None) == bool(found.regressions)
    assert all(each.startswith((LOSS, DOUBT)) and each.endswith(expected) for each in found.regressions)
    assert found.regressions or found.run.records == (now,)
    accepted = update([on_floats()], report(now, **changes), accept=True)
    assert ((now,), ()) == (accepted.run.records, accepted.regressions)


WRONG = ResultCheck(agreed=False, error=1.0, tolerance=1e-3, reason="they differ")
ALONE = Pairing(kind="cpu", library="numpy")
LESS = [
    skipped(),
    skipped(cpu=measured(CPU, 1.0), scope="call"),
    skipped(cpu=measured(CPU, 1.0), scope="call", pairing=ALONE),
    record(99.0, status="error", reason="lost"),
    record(99.0, status="failed", reason="they differ", check=WRONG),
    record(speedup=None),
]
NOTHING = "the reports measured nothing that a later run could be compared with"


@for_each("less", [*LESS, record(gpu=None, speedup=None, pairing=ALONE)])
@for_each("accept", [False, True])
def test_nothing_less_replaces_what_was_measured(less, accept):
    fine, other = record(), record(5.0, OTHER)
    assert (fine, other) == update([fine], report(less, other), accept=accept).run.records
    assert (other, fine) == update([], report(fine), report(other, less), accept=accept).run.records[::-1]


@for_each("less", LESS)
@for_each("before", [[], [record()]])
def test_reports_that_measured_nothing_are_refused(less, before):
    with pytest.raises(GpuPerfError, match=NOTHING):
        update(before, report(less))


def test_a_failed_demand_was_measured_and_a_test_that_was_not_is_measured_now():
    failed = record(12.0, status="failed", reason="too slow")
    assert (failed,) == update([record()], report(failed)).run.records
    assert (record(),) == update([skipped()], report(record())).run.records
    of_cpu = [skipped(cpu=measured(CPU, seconds), scope="call") for seconds in (1.0, 1.1)]
    assert (of_cpu[1],) == update(of_cpu[:1], report(of_cpu[1])).run.records


def test_the_last_report_of_a_test_counts_and_the_others_stay_in_their_order():
    first = report(record(13.0))
    last = report(record(3.0, "test_a.py::new"), record(12.0), started="last")
    found = update([record(), record(nodeid=OTHER)], first, last)
    assert [(TEST, 12.0), (OTHER, 10.0), ("test_a.py::new", 3.0)] == [*values(found).items()]
    assert ("1 test updated, 1 new, 1 kept as before", "last") == (found.counts, found.run.started)


def test_efficiencies_and_the_times_on_the_fewest_devices_make_curves():
    before = update([], report(on_devices(1), on_devices(2, 0.9), on_devices(4, 0.8))).run
    found = update(before.records, report(on_devices(1), skipped("test_a.py::test[2]"), on_devices(4, 0.82)))
    assert found.counts == "2 tests updated, 0 new, 1 kept as before"
    assert [1, 2, 4] == [point.count for point in found.run.scalings[0].points]
    (kept,) = update([on_devices(4, 0.8)], report(on_devices(4), on_devices(1))).run.records[:1]
    assert kept == on_devices(4, 0.8)


def test_a_threshold_is_that_of_old_and_new_records():
    sizes = [SizeGroup(name="test_a.py::test_1", parameter="n", size=each, sizes=(1, 2)) for each in (1, 2)]
    names = [f"{TEST}[{group.size}]" for group in sizes]
    small, large = (record(10.0, name, size_group=group) for name, group in zip(names, sizes, strict=True))
    (found,) = update([small], report(large)).run.thresholds
    assert names == [point.nodeid for point in found.curve]


def test_tests_that_no_report_measured_are_removed_where_that_is_asked_for():
    before = [record(), record(nodeid=OTHER), record(nodeid="test_a.py::gone")]
    found = update(before, report(record(9.9), skipped(OTHER)), prune=True)
    assert {TEST: 10.0} == values(found)
    kept = "1 kept as before (1 for better values)"
    assert found.counts == f"0 tests updated, 0 new, {kept}, 2 removed: {OTHER}, test_a.py::gone"


DIFFER = "runs differ: CPU: EPYC, another; a folder holds a baseline of each machine, and --prune removes"


@for_each(
    ("expected", "before", "reports", "prune"),
    [
        (True, [record(), record(nodeid=OTHER)], [report(record(), **THERE)], False),
        (False, [record(), record(nodeid=OTHER)], [report(record(), **THERE)], True),
        (False, [record(), skipped(OTHER)], [report(record(), **THERE)], False),
        (True, [], [report(record()), report(record(nodeid=OTHER), **THERE)], False),
        (True, [], [report(record()), report(record(nodeid=OTHER), **THERE)], True),
    ],
)
def test_what_was_measured_on_several_machines_is_in_no_baseline(expected, before, reports, prune):
    refusal = update(before, *reports, prune=prune).refusal
    assert expected == (refusal is not None and refusal.startswith(DIFFER))


def test_on_another_machine_a_worse_time_of_a_device_that_is_the_same_is_replaced():
    """The records of this machine could not stay beside those of another GPU."""
    times = [record(gpu=None, speedup=None, cpu=measured(CPU, each), pairing=ALONE) for each in (1.0, 1.1)]
    gpu = replace(GPU, name="A100")
    found = update(times[:1], report(times[1], tolerances=OF_CPU, gpu=gpu))
    assert (None, (times[1],)) == (found.refusal, found.run.records)


def test_a_baseline_holds_no_comparison_and_no_gate():
    compared = {"comparisons": (comparison("new"),)}
    found = update([record(nodeid=OTHER, **compared)], report(record(**compared), complete=False)).run
    assert ((record(nodeid=OTHER), record()), None, True) == (found.records, found.gate, found.complete)
    for before, options in (([], {}), ([record()], {"prune": True})):
        with pytest.raises(
            GpuPerfError, match=r"r.json is incomplete: its run ended early, and the baseline"
        ):
            update(before, report(record(), complete=False), **options)


@for_each(
    ("said", "changes"),
    [
        ("r.json is of a part of the suite (-k)", {"narrowed_by": ("-k",)}),
        ("r.json is of a run that deselected b.py::test_b", {}),
    ],
)
def test_a_report_of_a_part_of_the_suite_prunes_nothing(said, changes):
    left_out = skipped("b.py::test_b", reason_code="deselected")
    partial = report(record(), *(() if changes else (left_out,)))
    partial = replace(partial, run=replace(partial.run, **changes))
    with pytest.raises(GpuPerfError, match=re.escape(said)):
        update([record(), record(5.0, OTHER)], partial, prune=True)
    assert len(update([record(), record(5.0, OTHER)], partial).run.records) == 2


def test_pruning_takes_what_no_report_has_any_more_from_a_record_that_is_kept():
    sized = record(size_group=SizeGroup(name="f", parameter="n", size=1, sizes=(1,)))
    found = update([sized], report(record(9.9)), prune=True).run
    assert [(10.0, None)] == [(each.speedup.value, each.size_group) for each in found.records]
    lost = update([record(**HELD)], report(record(), tolerances=(within(), OF_MEMORY)), prune=True).run
    assert [None] == [each.memory for each in lost.records]
