"""gpuperf baseline: what takes the place of what, what is refused, and the files read and written."""

from pathlib import Path

import pytest
from command import record, skipped, update, values, written
from factories import CPU, ELSEWHERE, GPU, comparison, gate_result, measured, speedup_within, within
from golden import assert_told
from msgspec.structs import replace

from pytest_gpuperf.analysis.scaling import with_speedup
from pytest_gpuperf.model.demand import Pairing, SizeGroup
from pytest_gpuperf.model.measurement import Memory, ResultCheck
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.model.scaling import Scaling
from pytest_gpuperf.report.reader import load_report

TEST, OTHER = "test_a.py::test_1", "test_a.py::test_2"
TWO = [record(), record(OTHER)]
ALONE = Pairing(kind="cpu", library="numpy")


def unsure(value) -> Record:
    return record(value=value, speedup=speedup_within(value, 0.9))


def lasting(rounds, seconds, share=0.02, value=10.0) -> Record:
    """Return the record of a test that was measured for so long, and scattered so far."""
    return record(value=value, speedup=speedup_within(value, share, rounds=rounds), rounds_elapsed=seconds)


def holding(peak, value=10.0) -> Record:
    return record(value=value, memory=Memory(peak=peak))


def of_cpu(seconds) -> Record:
    return record(gpu=None, speedup=None, cpu=measured(CPU, seconds), pairing=ALONE)


def on_devices(count, value=None) -> Record:
    """Return the record of a scaling test; an efficiency of `value` on two devices or more."""
    found = speedup_within(value * count, 0.02) if value else None
    known = Scaling(name="test_a.py::test", mode="strong", count=count, counts=(1, 2, 4))
    scaling = with_speedup(known, found, measured(GPU, 10e-3) if found else None)
    return record(f"test_a.py::test[{count}]", cpu=None, speedup=None, scaling=scaling)


def of_doubles(now: Record) -> Record:
    return replace(now, gpu=replace(now.gpu, dtypes=("float64",)))


FLOATS = replace(record(), gpu=measured(GPU, 1e-3, dtypes=("float32",)))
THERE = {"environment": ELSEWHERE}


def checked(*tolerances):
    return {"gate": gate_result(tolerances=tolerances)}


MEMORY = checked(within(), within(metric="memory"))
UPDATES = {  # the baseline, the report, the options, and what else the report's run was
    "none there yet": ([], TWO),
    "the same report again": (TWO, TWO),
    "new measurements of a run that ended early": (
        [*TWO, record("test_a.py::test_3")],
        [record("test_a.py::new", 3.0), record(OTHER, 12.0)],
        "",
        {"complete": False},
    ),
    # A record is replaced by one that is as good or better in everything.
    "a value that is a little worse": (TWO[:1], [record(value=9.9)]),
    "a better value that is less certain": (TWO[:1], [unsure(10.5)]),
    "a value that is more certain": ([unsure(10.0)], [record(value=10.5)]),
    "a value that is worse and more certain": ([unsure(10.0)], [record(value=9.9)]),
    "two rounds, which happened to be alike": ([lasting(2, 8.0, 0.001)], [record(value=9.9)]),
    "a baseline of one second": ([lasting(25, 1.0)], [record(value=9.9)]),
    "two rounds, from which more have lost too much": ([lasting(2, 8.0, 0.001)], [record(value=1.0)]),
    "a run of one second": (TWO[:1], [lasting(25, 1.0, value=9.9)]),
    "a value that may be much worse": (TWO[:1], [unsure(6.0)]),
    "a value that is worse by less than its check allows": (
        *(TWO[:1], [record(value=8.0)]),
        *("", checked(within(0.3))),
    ),
    "less memory": ([holding(1000)], [holding(990)], "", MEMORY),
    "memory that is not measured any more": ([holding(1000)], [record()], "", MEMORY),
    "a better speedup with more memory, and a new test": (
        *([holding(1000)], [holding(1010, 12.0), record(OTHER, 5.0)]),
        *("", MEMORY),
    ),
    "a worse parallel efficiency": ([on_devices(4, 0.8)], [on_devices(4, 0.79)]),
    "worse values that are accepted": (
        [holding(1000), record(OTHER)],
        [record(value=9.9), replace(unsure(6.0), nodeid=OTHER)],
        "--accept-regressions",
        MEMORY,
    ),
    "what no report measured is removed": (
        [*TWO, record("test_a.py::gone")],
        [record(value=9.9), skipped(OTHER)],
        "--prune",
    ),
    # What no check would say of later runs is a regression, too.
    "a regression": (TWO, [record(value=8.0), record(OTHER, 12.0)]),
    "a regression that is accepted": (TWO[:1], [record(value=8.0)], "--accept-regressions"),
    "a regression, with a check of CPU times": (
        *(TWO[:1], [record(value=2.0)]),
        *("", checked(within(0.5, "cpu_time"))),
    ),
    "a regression elsewhere": (TWO[:1], [record(value=2.0)], "", THERE),
    "a regression with other dtypes": ([FLOATS], [of_doubles(record(value=2.0))]),
    "what may be a regression with other dtypes": ([FLOATS], [of_doubles(unsure(9.9))]),
    "what is hardly worse with other dtypes": ([FLOATS], [of_doubles(record(value=9.9))]),
    "what is hardly worse elsewhere": (TWO[:1], [record(value=9.9)], "", THERE),
    # What is not comparable cannot stand in one baseline.
    "measured elsewhere": (TWO, [record()], "", THERE),
    "measured elsewhere, in its place": (TWO, [record()], "--prune", THERE),
    "measured elsewhere, where the other was skipped": ([record(), skipped(OTHER)], [record()], "", THERE),
    "a worse time of the same CPU, with another GPU": (
        *([of_cpu(1.0)], [of_cpu(1.1)]),
        *("", {**checked(within(0.5, "cpu_time")), "gpu": replace(GPU, name="A100")}),
    ),
}


def test_a_baseline_has_what_was_measured_and_refuses_what_got_worse_or_cannot_stand_beside_it(call):
    """Read the titles above, and what stands below each in the file."""
    said = []
    for title, (base, new, *rest) in UPDATES.items():
        options, changes = [*rest, *("", {})[len(rest) :]]
        Path("base.json").unlink(missing_ok=True)
        before = Path(written("base.json", *base)).read_bytes() if base else b""
        code, lines = update(call, "base.json", written("r.json", *new, **changes), *options.split())
        is_changed = before != Path("base.json").read_bytes()
        left = f"exit code {code}, {'changed' if is_changed else 'unchanged'}: {values('base.json')}"
        said.append((title, "\n".join([*lines, left, ""])))
    assert_told("baseline", said)


@pytest.fixture
def updated(call):
    """Update a baseline of records with a report of others; return the run that it has then."""

    def run(before, now, *options, **changes):
        update(call, written("base.json", *before), written("r.json", *now, **changes), *options)
        return load_report("base.json")

    return run


WRONG = ResultCheck(agreed=False, error=1.0, tolerance=1e-3, reason="they differ")
LESS = [
    skipped(),
    skipped(cpu=measured(CPU, 1.0), scope="call"),
    skipped(cpu=measured(CPU, 1.0), scope="call", pairing=ALONE),
    record(value=99.0, status="error", reason="lost"),
    record(value=99.0, status="failed", reason="they differ", check=WRONG),
    record(speedup=None),
]


def test_nothing_less_replaces_what_was_measured_and_alone_it_makes_no_baseline(updated, refused):
    other = record(OTHER, 5.0)
    for less in [*LESS, record(gpu=None, speedup=None, pairing=ALONE)]:
        for options in ((), ("--accept-regressions",)):
            assert (record(), other) == updated([record()], [less, other], *options).records
    for base in ("base.json", "new.json"):
        for less in LESS:
            said = refused("baseline", "update", base, written("r.json", less))
            assert said == "the reports measured nothing that a later run could be compared with"


def test_a_failed_demand_was_measured_and_a_test_that_was_not_is_measured_now(updated):
    failed = record(value=12.0, status="failed", reason="too slow")
    assert (failed,) == updated([record()], [failed]).records
    assert (record(), record(OTHER)) == updated([skipped(), record(OTHER)], [record()]).records
    skips = [skipped(cpu=measured(CPU, seconds), scope="call") for seconds in (1.0, 1.1)]
    assert (skips[1],) == updated(skips[:1], skips[1:]).records


def test_a_baseline_holds_no_comparison_and_no_gate_and_the_curves_of_old_and_new_records(updated):
    compared = {"comparisons": (comparison("new"),)}
    found = updated([record(OTHER, **compared)], [record(**compared)], **MEMORY)
    assert ((record(OTHER), record()), None, True) == (found.records, found.gate, found.complete)
    before = [on_devices(1), on_devices(2, 0.9), on_devices(4, 0.8)]
    found = updated(before, [on_devices(1), skipped("test_a.py::test[2]"), on_devices(4, 0.82)])
    assert [1, 2, 4] == [point.count for point in found.scalings[0].points]
    sizes = [SizeGroup(name=TEST, parameter="n", size=each, sizes=(1, 2)) for each in (1, 2)]
    (found,) = updated(*([record(f"{TEST}[{each.size}]", size_group=each)] for each in sizes)).thresholds
    assert [f"{TEST}[1]", f"{TEST}[2]"] == [point.nodeid for point in found.curve]


def test_pruning_takes_what_no_report_has_any_more_from_a_record_that_is_kept(updated):
    sized = record(size_group=SizeGroup(name="f", parameter="n", size=1, sizes=(1,)))
    found = updated([sized], [record(value=9.9)], "--prune")
    assert [(10.0, None)] == [(each.speedup.value, each.size_group) for each in found.records]
    assert [None] == [each.memory for each in updated([holding(1)], [record()], "--prune").records]


def test_a_small_change_is_a_small_diff(call):
    written("base.json", *(record(f"test_a.py::test_{letter}") for letter in "abc"))
    before = Path("base.json").read_text().splitlines()
    update(
        call, "base.json", written("r.json", record("test_a.py::new", 3.0), record("test_a.py::test_b", 12.0))
    )
    changed = [line for line in Path("base.json").read_text().splitlines() if line not in before]
    assert sum('"nodeid":' in line for line in changed) <= 3


def test_the_latest_report_wins_whatever_the_order_of_the_names(call):
    written("a.json", record(value=3.0), started="2026-01-01T12:00:00+00:00")
    written("b.json", record(value=5.0), started="2026-01-01T12:30:00+02:00")  # half past ten
    update(call, "base.json", "a.json", "b.json")
    update(call, "again.json", "b.json", "a.json")
    assert (3.0, 3.0) == (*values("base.json").values(), *values("again.json").values())


@pytest.mark.parametrize("options", [[], ["--prune"]])
def test_reports_of_several_machines_make_no_baseline(call, options):
    reports = written("r.json", record()), written("there.json", record(OTHER), **THERE)
    code, (line,) = update(call, "base.json", *reports, *options)
    assert (3, True) == (
        code,
        line.startswith("base.json was not changed, because the runs differ: CPU: EPYC, another"),
    )


def test_a_folder_gets_a_file_of_its_own(call, refused):
    update(call, "folder/", written("r.json", record(), started="2026-01-01T00:00:00+00:00"))
    written("folder/else.json", record(), environment=ELSEWHERE, started="2026-06-01T00:00:00+00:00")
    before = {path: path.read_bytes() for path in Path("folder").iterdir()}
    written("r.json", record(value=12.0), record(OTHER), started="2026-02-01T01:00:00+01:00")
    newer = "folder/2026-02-01T000000.000Z.json"
    assert f"{newer}: 1 test updated, 1 new, 0 kept as before" == update(call, "folder", "r.json")[1][-1]
    assert {TEST: 12.0, OTHER: 10.0} == values(newer)
    assert Path("folder/2026-01-01T000000.000Z.json") in before
    assert before == {path: path.read_bytes() for path in before}
    said = f"{newer} already exists, of a run that began at"
    assert refused("baseline", "update", "folder", "r.json").startswith(said)


def test_a_baseline_that_is_a_link_is_updated_where_the_gate_reads_it(call, refused):
    Path("real").mkdir()
    written("real/base.json", record())
    Path("link.json").symlink_to("real/base.json")
    Path("lost.json").symlink_to("nothing.json")
    written("r.json", record(value=5.0))
    code, lines = update(call, "--accept-regressions", "link.json", "r.json")
    assert (0, "link.json: 1 test updated, 0 new, 0 kept as before") == (code, lines[-1])
    assert Path("link.json").is_symlink()
    assert values("real/base.json") == {TEST: 5.0}
    said = "lost.json: it is a link that leads to no file"
    assert said == refused("baseline", "update", "lost.json", "r.json")


OLDER = "old.json is of a run that began before that of the baseline {}; measure it again, or "
NO_TIME = "which is not a time with an offset"


@pytest.mark.parametrize(
    ("said", "base", "reports"),
    [
        (OLDER.format("base.json"), "base.json", "new.json old.json"),
        (OLDER.format("folder/base.json"), "folder", "new.json old.json"),
        ("the reports measured nothing that a later run", "base.json", "none.json"),
        ("the reports measured nothing that a later run", "made/", "none.json"),
        ("notes.json: it is not JSON", "notes.json", "new.json"),
        ("early.json is incomplete: its run ended early, and the baseline", "made.json", "early.json"),
        (
            "early.json is incomplete: its run ended early, and the baseline",
            "base.json",
            "early.json --prune",
        ),
        # Of a part of the suite
        ("part.json is of a part of the suite (-k): --prune would", "base.json", "part.json --prune"),
        ("; run the whole suite (pytest without a path, -k or -m), and", "base.json", "part.json --prune"),
        ("few.json is of a run that deselected b.py::test_b: --prune", "base.json", "few.json --prune"),
        *((NO_TIME, "folder", f"{name}.json") for name in ("yesterday", "outside", "nul")),
        (NO_TIME, "made/", "outside.json"),
    ],
)
def test_what_cannot_be_updated_is_refused_and_nothing_is_made(refused, said, base, reports):
    Path("folder").mkdir(exist_ok=True)
    for name in ("base.json", "folder/base.json"):
        written(name, record())
    written("old.json", record(value=3.0), record(OTHER), started="2025-12-31T00:00:00+00:00")
    written("new.json", record(OTHER), started="2026-02-01T00:00:00+00:00")
    written("none.json", skipped())
    written("early.json", record(), complete=False)
    written("part.json", record(), narrowed_by=("-k",))
    written("few.json", record(), skipped("b.py::test_b", reason_code="deselected"))
    for name, started in {"yesterday": "yesterday", "outside": "../outside", "nul": "\0"}.items():
        written(f"{name}.json", record(), started=started)
    Path("notes.json").write_text("my notes")
    assert said in refused("baseline", "update", base, *reports.split())
    assert not Path("made").exists()
