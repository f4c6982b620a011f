"""The terminal: which tests have rows, what is said of them and how often, what is counted, and widths."""

from array import array

import pytest
from factories import (
    CPU,
    GPU,
    comparison,
    estimate,
    gate_result,
    measurement,
    offload,
    on_cpu_only,
    record,
    run_of,
    scaled,
    scaling_curve,
    skipped,
    speedup,
    threshold,
    variants,
)
from golden import assert_golden, assert_told, run_with_everything
from msgspec.structs import replace
from screen import columns

from pytest_gpuperf.model.demand import LIBRARY_NOT_KNOWN, Demand, Pairing
from pytest_gpuperf.model.measurement import Interference, ResultCheck
from pytest_gpuperf.model.offload import Diagnosis
from pytest_gpuperf.model.record import Note
from pytest_gpuperf.report.terminal import progress, section

WIDTHS = [60, 80, 100, 120, 200]
STAND_IN = replace(GPU, name="jax on the CPU", emulated=True)
SIMULATED = replace(GPU, name="simulated GPU", backend="simulated", emulated=True)
EMULATED = {"gpu": measurement(STAND_IN, 2e-3)}
DIFFER = {"status": "failed", "reason": "they disagree", "reason_code": "devices_disagree"}
SLOW = {"status": "failed", "reason": "too slow", "reason_code": "speedup_outside_limits"}
BROKEN = {"status": "error", "reason": "lost", "speedup": None}
WORSE, BETTER = comparison(reason="worse"), comparison("improved")
WHY = Diagnosis(code="float64", sentence="float64: it is slow")
NOT_WORTH_IT = {"offload": offload(worth=False, reason="slow link"), "diagnosis": (WHY,)}
CPU_ONLY, ON_GPU = variants()
SKIPPED = skipped(ON_GPU.nodeid, "no GPU here", pairing=ON_GPU.pairing)
UNKNOWN = replace(run_of().environment, gpu=None, gpu_reason="no GPU found: install one")
BUSY = Interference(kind="cpu_contention", own_share=0.5, waited=1.0, threads=2)
AWAITED = measurement(CPU, 0.02, latencies=array("d", [0.03]))
MISSED = threshold(status="failed", reason="too large")
SIZES = [f"test_fft[{size}]" for size in (64, 256)]
CODES = ("check_the_test", "work_in_doubt", "not_on_device", "slowed_by_settings", "long_warm_up")


def shown(lines) -> str:
    """Return lines as a golden file has them: a verdict's colour, which is no text, stands last."""
    return "".join(f"{line}{f'  <{line.colour}>' if line.colour else ''}\n" for line in lines)


def brief(*records, above=section.NOTHING_ABOVE, **changes) -> str:
    return shown(section.lines(run_of(*records, **changes), 120, above=above))


def full(*records, width=120, **changes) -> str:
    return shown(section.lines(run_of(*records, **changes), width, all_notes=True))


def quiet(*records, above=section.NOTHING_ABOVE, **changes) -> str:
    return shown(section.short_lines(run_of(*records, **changes), 100, above=above))


def noted(text, code="aside_failed", **changes):
    return {"notes": (Note(code=code, text=text),), **changes}


def changed(outcome, ratio, metric="speedup", **changes):
    """Return a test with one change against its baseline."""
    found = comparison(outcome, metric=metric, ratio=ratio and estimate(ratio, 0.5, 2e6), reason=None)
    return record(f"{outcome} {ratio} {metric}", comparisons=(found,), **changes)


def disturbed(name, share, kind="cpu_contention", **changes):
    found = Interference(kind=kind, own_share=share, waited=1 - share, threads=1)
    return record(name, **{"interference": found, **noted("other work", "interference"), **changes})


def headlines():
    said = {}
    synthetic = measurement(replace(SIMULATED, kind="cpu"), 0.02)
    said["the devices, and a column for what was measured"] = brief(record())
    said["a GPU that was not looked for"] = brief(record(), gpu=None)
    said["an emulated GPU is called so"] = brief(record(**EMULATED), gpu=STAND_IN)
    said["an emulated GPU beside a GPU"] = brief(record(), record("b", **EMULATED))
    said["simulated devices have synthetic times"] = brief(record(cpu=synthetic), gpu=SIMULATED)
    said["no column in which no test has anything"] = brief(skipped("a"))
    return said


def rows():
    said = {}
    names = ("a[1]", "b[1]", "a[2]", "b[2]", "t.py::c", "u.py::c", "u.py::d", "x/t.py::e", "y/t.py::e")
    said["tests of one function together, under the shortest name of their own"] = brief(
        *(record(name) for name in (*names, "t.py::TestOps::op[aten::add]"))
    )
    said["a deselected test has no row"] = brief(record(), skipped("a", reason_code="deselected"))
    odd = {
        "plain": {},
        "failed": {"status": "failed", "reason": "why"},
        "error": {"status": "error", "reason": "why"},
        "compared": {"comparisons": (comparison(reason=None),)},
    }
    pairs = {name: variants(name) for name in odd}
    said["a CPU variant has a row where there is something to say of it"] = brief(
        *(each for name, (cpu, gpu) in pairs.items() for each in (replace(cpu, **odd[name]), gpu)),
        *variants("on CPU only", status="skipped", reason="no", speedup=None, gpu=None),
    )
    limits = [
        {},
        {"max": 1.5, "transfer": "always"},
        {"min": 2, "max": 4, "transfer": "once", "calls": 1000},
        {"min": 2, "latency": True},
    ]
    said["limits"] = brief(
        *(record(f"{number}", demand=Demand(**limit)) for number, limit in enumerate(limits)),
        scaled(4, 0.6, required=0.5),
        skipped("nothing measured"),
    )
    said["changes"] = brief(
        changed("regressed", 0.8),
        changed("regressed", 1.25, "gpu_time"),
        changed("not_regressed", 0.997),
        changed("improved", 999.4),
        changed("improved", 1132.4),
        changed("inconclusive", 1132.4),
        changed("not_comparable", None),
        changed("new", None),
        record("none"),
    )
    unlike = {each: record(f"{each}x", speedup=speedup(each)) for each in (9.6, 10.4, 9.4, 10.6)}
    with_more = record("with copies", speedup=speedup(2.0), demand=Demand(min=1, transfer="always"))
    said["a speedup as that of its row's times"] = brief(unlike[9.6], unlike[10.4])
    said["one that differs by more than 5 %"] = brief(*unlike.values())
    said["one that includes more than its row's times"] = brief(with_more)
    said["both"] = brief(unlike[9.4], with_more)
    with_copies = {
        "sure": speedup(8.23, 8.22, 8.24),
        "less sure": speedup(0.464, 0.414, 0.509),
        "doubtful": speedup(1.46, 0.61, 2.9),
        "of one round": speedup(0.464, None, None),
    }
    copied = [record(name, offload=offload(always=found)) for name, found in with_copies.items()]
    said["a speedup with copies in as many digits as its range leaves, and with its range"] = brief(
        *copied
    ) + full(*copied)
    above = {"never": speedup(1.02, 0.97, 1.05), "always": speedup(1.03, 0.9, 1.2)}
    noisy = [record(name, offload=offload(**above)) for name in ("a", "b")]
    said["what is faster with copies by noise alone"] = brief(*noisy)
    said["not of a column that has no room"] = shown(section.lines(run_of(*noisy), 60))
    said["an end of a range that is not known"] = brief(
        record("one round", speedup=speedup(low=None, high=None))
    )
    widened = replace(comparison("inconclusive"), baseline=estimate(10.0, None, 12.0))
    said["one of the baseline's"] = brief(record("a", comparisons=(widened,)))
    said["what a call may take on a GPU that is not here"] = brief(
        on_cpu_only(nodeid="at least", demand=Demand(min=3)),
        on_cpu_only(nodeid="awaited", demand=Demand(min=3, latency=True), cpu=AWAITED),
        on_cpu_only(nodeid="nothing required", demand=Demand()),
        on_cpu_only(nodeid="at most", demand=Demand(max=1)),
        on_cpu_only(nodeid="between", demand=Demand(min=1, max=3)),
        on_cpu_only(nodeid="disturbed", interference=BUSY),
        on_cpu_only(nodeid="not measured", cpu=None),
    )
    ends = {
        "results differ": DIFFER,
        "expected": DIFFER | {"expected_failure": True},
        "memory": DIFFER | {"reason_code": "memory_above_limit"},
        "memory not known": {"status": "error", "reason": "?", "reason_code": "memory_not_known"},
        "slow": SLOW,
        "doubt": {"status": "inconclusive", "reason": "?", "reason_code": "not_enough_time"},
        "regressed": DIFFER | {"comparisons": (comparison(),)},
        "regressed, expected": {"comparisons": (comparison(),), "expected_failure": True},
        "recorded": {"status": "recorded"},
        "skipped": {"status": "skipped", "reason": "?"},
    }
    said["verdicts, their causes, and their colours"] = brief(
        *(record(name, **how) for name, how in ends.items())
    )
    cut = record("a", **DIFFER, offload=offload(always=speedup()))
    said["a cause that does not fit"] = shown(section.lines(run_of(cut), 80))
    said["names that would be one when cut"] = brief(
        *(record(f"test_{'b' * 70}{letter}{'e' * 70}") for letter in "xy")
    )
    wide = ("x", "\uff21…é", "test_行列の積", "re\u0301sume\u0301", "test_行列の積" * 9, "re\u0301" * 50)
    for width in (59, 60, 61):
        said[f"names of any letters in {width} columns"] = shown(
            section.lines(run_of(*map(record, wide)), width)
        ) + full(*map(record, wide), width=width)
    return said


def notes():
    said = {}
    expected = record("a", status="failed", reason="known", expected_failure=True)
    alike = [skipped(name, "no GPU") for name in "abc"]
    restarted = record("a", restart_reason="other work", **NOT_WORTH_IT)
    explained = record("a", **SLOW, offload=offload(), diagnosis=(WHY,))
    said["a reason that a note repeats"] = full(record("a", **SLOW, **noted("too slow")))
    said["what failed first"] = full(expected, record("b", **SLOW))
    said["tests with one reason"] = brief(*alike) + full(*alike)
    said["many tests with one reason"] = full(*(skipped(f"{n}", "no GPU") for n in range(4)))
    changed_once = [
        noted(f"the first call on {device} changed an array", "work_in_doubt")["notes"]
        for device in ("the CPU", "the GPU", "both devices")
    ]
    both_sides = record("a", notes=(*changed_once[0], *changed_once[1]))
    said["a note on both devices"] = full(both_sides) + brief(both_sides, record("b", notes=changed_once[2]))
    idle = [
        record(name, gpu=measurement(replace(GPU, name=gpu), 2e-3), **noted(f"nothing on {gpu}: idle", code))
        for code in ("not_on_device", "aside_failed")
        for name, gpu in ((f"{code} a", "H200"), (f"{code} b", "MI300 X"))
    ]
    said["a note that differs in the GPU's name"] = full(*idle) + brief(*idle)
    emulated = measurement(replace(GPU, emulated=True), 2e-3)
    said["a note that differs in an emulated device"] = full(
        *(
            record(noun, gpu=emulated, **noted(f"nothing on the {noun}: idle", "aside_failed"))
            for noun in ("CPU", "emulated device")
        )
    )
    said["what only explains, with all notes"] = full(restarted)
    said["what only explains, in short"] = brief(restarted)
    said["what holds a failed test back"] = full(explained) + brief(explained)
    said["what holds a test back that pays"] = full(record("a", offload=offload(), diagnosis=(WHY,)))
    said["what a note says of it, too"] = full(record("a", **NOT_WORTH_IT, **noted(WHY.sentence)))
    own = (*noted("both")["notes"], *noted("its own")["notes"])
    said["what both variants say"] = full(replace(CPU_ONLY, notes=own), replace(ON_GPU, **noted("both")))
    without = replace(CPU_ONLY, **noted("no speedup", "no_partner"))
    said["why a GPU variant has no speedup is not said of the CPU variant"] = brief(without, SKIPPED)
    said["a deselected GPU variant"] = brief(without, replace(SKIPPED, reason_code="deselected"))
    said["a GPU test of its own"] = brief(without, replace(SKIPPED, pairing=None))
    said["another note on the CPU variant"] = brief(replace(CPU_ONLY, **noted("no speedup")), SKIPPED)
    doubts = [record(f"test_{n}", **noted(f"doubt {n}")) for n in range(12)]
    said["of a kind of note one, in short"] = brief(*doubts)
    said["of a kind of note all, with all notes"] = full(*doubts)
    said["a regression explained"] = brief(record("a", **NOT_WORTH_IT, comparisons=(WORSE,)))
    said["a reason that is the code of a note"] = brief(skipped("a", "interference"))
    said["a reason that is the text of a note"] = brief(
        record("a", status="failed", reason="slow"), record("b", **noted("slow"))
    )
    several = tuple(Note(code=code, text=f"{code} {text}") for code in CODES for text in ("kept", "changed"))
    said["codes of several kinds of doubt hide none behind another"] = full(
        record("a", notes=several)
    ) + brief(
        *(record(code, notes=(Note(code=code, text=f"{code} too fast"),)) for code in CODES),
        record("a", notes=several[:4]),
    )
    said["of many notes the first"] = brief(
        *(record(f"{n}", **SLOW | {"reason": f"slow {n}"}) for n in range(13))
    )
    long = record("a", **noted("word " * 90))
    said["of a long note the beginning"] = brief(long) + full(long)
    for name, above in {
        "nothing": {},
        "the reason": {"a": "\ntoo slow"},
        "that of another test": {"b": "too slow"},
    }.items():
        said[f"pytest has shown {name}"] = brief(explained, above=above)
    raised = replace(explained, status="error")
    said["pytest has shown an exception"] = brief(raised, above={"a": "E too\nE slow"})
    said["other work, of tests and of the worst"] = brief(
        disturbed("a", 0.7), disturbed("b", 0.62), record("c")
    )
    said["unsteady times"] = brief(disturbed("a", 0.25, "unstable_cpu_times"))
    said["other work beside a GPU"] = brief(
        disturbed("a", 0.9, gpu_interference=BUSY, status="inconclusive", reason="?")
    )
    said["other work beside a CPU variant, which has no row"] = brief(
        replace(CPU_ONLY, interference=BUSY),
        replace(ON_GPU, interference=replace(BUSY, waited=0.5, threads=1)),
    )
    return said


def on(library, name="a", *, emulated=None, **changes):
    """Return a test that other work disturbed on the CPU of a library, or on the GPU that it emulates."""
    cpu = measurement(replace(CPU, backend=library.split()[0], library=library), 0.02)
    gpu = {"gpu": measurement(replace(STAND_IN, library=emulated), 2e-3), "gpu_interference": BUSY}
    return record(name, cpu=cpu, interference=BUSY, **(gpu if emulated else {}), **changes)


def remedies():
    """Return what is said of a busy machine, once for all tests: how to limit its libraries' threads."""
    set_already = replace(run_of().environment, variables={"OMP_NUM_THREADS": "1"})
    one_thread = replace(on("numpy 2.4"), interference=replace(BUSY, threads=1))
    undecided = {"status": "inconclusive", "reason": "busy", "reason_code": "interference"}
    return {
        **{name: brief(on(name)) for name in ("numpy 2.4", "torch 2.14", "jax 0.10", "polars 1.4")},
        "what Keras runs on": brief(on("keras 3.1 on torch 2.14, CUDA 13")),
        "what computes on the CPU of NumPy is not known without a GPU": brief(
            replace(on("numpy 2.4"), gpu=None, speedup=None, status="skipped", reason="no GPU")
        ),
        "of a library that was chosen it is": brief(
            replace(on("torch 2.14"), gpu=None, speedup=None, status="skipped", reason="no GPU")
        ),
        "and so is that of a variant": brief(
            replace(CPU_ONLY, interference=BUSY, pairing=Pairing(kind="cpu", library="numpy"))
        ),
        "unless its partner names no library, as `cuda` without a GPU": brief(
            replace(CPU_ONLY, interference=BUSY, pairing=Pairing(kind="cpu", library="numpy")),
            replace(SKIPPED, pairing=replace(ON_GPU.pairing, library=LIBRARY_NOT_KNOWN)),
        ),
        "two libraries of several tests": brief(
            on("numpy 2.4", "a", emulated="jax 0.10"), on("numpy 2.4", "b"), on("torch 2.14", "c")
        ),
        "a library whose threads nobody knows to limit": brief(on("mlx 0.30")),
        "one thread alone waited": brief(one_thread),
        "the threads are limited": brief(on("torch 2.14"), environment=set_already),
        "with -q, of tests that it left undecided": quiet(on("torch 2.14", **undecided)),
        "with -q, not of tests that were decided": quiet(on("torch 2.14")),
    }


def totals():
    said = {}
    said["no run"] = full() + quiet()
    said["pytest says how many passed"] = full(record("a"), record("b"))
    said["pytest says how many skipped"] = full(skipped("a"), skipped("b"))
    said["verdicts that pytest does not count"] = full(record("a"), record("b", status="recorded"))
    counted = {
        "variants count once": [*variants("a"), *variants("b", **SLOW), record()],
        "expected regressions": [record("a", comparisons=(WORSE,), expected_failure=True), record()],
        "a check that decides nothing counts apart": [
            *(record(name, **SLOW, comparisons=(comparison("inconclusive"),)) for name in "ab"),
            record("c", status="inconclusive", reason="?", comparisons=(comparison("inconclusive"),)),
            record("d", comparisons=(comparison("not_regressed", reason=None),)),
        ],
        "each test counts once, and its comparisons apart": [
            record("a", **SLOW, comparisons=(WORSE,)),
            record("b", comparisons=(BETTER,)),
            record("c", **SLOW, comparisons=(WORSE,), expected_failure=True),
            skipped("d"),
        ],
        "errors": [record(name, **BROKEN) for name in "ab"],
    }
    wrong, unseen = {"reason_code": "error_on_gpu"}, {"reason_code": "no_gpu"}
    looked_at = on_cpu_only(nodeid="looked at", **unseen)
    on_gpus = [replace(each, **unseen, status="skipped") for each in (scaled(2), SKIPPED)]
    counted |= {
        "no skipped test is known to be wrong": [looked_at, *on_gpus],
        "some would be errors on a GPU": [skipped("a", **wrong), looked_at],
        "of some nothing is known": [*(skipped(name, **unseen) for name in "ab"), looked_at, *on_gpus],
        "both": [skipped("a", **wrong), skipped("b", **wrong), skipped("c", **unseen), looked_at],
    }
    nothing = ResultCheck(agreed=None, error=None, tolerance=None, reason="nothing")
    alike = ResultCheck(agreed=True, error=0.0, tolerance=None, reason=None)
    counted |= {
        "some return nothing": [record("a", check=nothing), record("b", check=alike)],
        "none returns nothing unasked": [
            record("a", check=nothing, demand=Demand(check=False)),
            record("b", check=replace(alike, agreed=None)),
        ],
    }
    for title, records in counted.items():
        said[title] = quiet(*records)
    said["in short, on an emulated device"] = quiet(record(**EMULATED), skipped("none"))
    said["in short, on two devices of which one is emulated"] = quiet(record("a"), record("b", **EMULATED))
    said["a threshold failed"] = quiet(record(), thresholds=(MISSED,))
    said["the check failed"] = quiet(record(), thresholds=(MISSED, MISSED), gate=gate_result("all skipped"))
    slow = record("slow", **SLOW, restart_reason="other work")
    said["in short why tests failed"] = quiet(
        record("a", **noted("doubt")),
        replace(slow, nodeid="known", expected_failure=True),
        slow,
        skipped("none"),
        thresholds=(MISSED, threshold(name="b")),
    )
    many = [record(f"{n}", **SLOW | {"reason": f"slow {n}"}) for n in range(15)]
    said["in short, of many failures"] = quiet(*many, above={"0": "slow 0"})
    worth = {f"test_{n}": offload(worth=n < 2) for n in range(3)}
    real = [record(name, offload=each) for name, each in worth.items()]
    emulated = [record(f"emulated {name}", offload=each, **EMULATED) for name, each in worth.items()]
    said["one test that pays is not counted"] = brief(real[0], emulated[0])
    said["tests that pay"] = brief(*real[1:], cost_ratio=2.5)
    said["tests that pay, those of emulated devices apart"] = brief(*real, *emulated)
    doubt = [record(f"{worth}", offload=offload(worth=worth), **EMULATED) for worth in (False, None, None)]
    said["none that surely pays"] = brief(*doubt)
    for count in (0, 2, 21):
        measured = [record(f"test_{n}", source="all", cpu=measurement(CPU, 1.0 + n)) for n in range(count)]
        said[f"{count} tests without a marker"] = brief(*measured, unmarked=count)
    lone = record(source="all", gpu=None, speedup=None)
    said["none of them was compared for want of a GPU"] = brief(lone, environment=UNKNOWN, unmarked=1)
    error = {"source": "all", "status": "error", "gpu": None, "speedup": None}
    errors = [record(name, **error, reason=f"interrupted {name}") for name in ("a", "b", "c")]
    said["the first error of tests without a marker that pytest has not shown"] = "".join(
        told(*errors, above={"a": "assert False"}) for told in (brief, quiet)
    )
    return said


def curves():
    said = {}
    found = {
        "first": "LLWW",
        "smallest": "WW",
        "none": "LL",
        "in doubt": "?",
        "no size": "",
    }
    said["thresholds"] = brief(
        record(),
        thresholds=(
            *(threshold(states, name=name) for name, states in found.items()),
            threshold(name="not known", status="inconclusive", outcome=None, reason="sizes are missing"),
            threshold(name="skipped", status="skipped", reason="no GPU"),
        ),
    )
    said["a threshold that failed"] = brief(*map(record, SIZES), thresholds=(MISSED,))
    said["on an emulated GPU"] = brief(*(record(name, **EMULATED) for name in SIZES), thresholds=(MISSED,))
    above = {SIZES[0]: "too large"}
    said["without a reason that pytest has shown"] = brief(
        *map(record, SIZES), thresholds=(MISSED,), above=above
    )
    points = scaling_curve().points
    of = {name: tuple(replace(each, nodeid=name) for each in points) for name in "ab"}
    said["the curve of a test that failed comes first"] = brief(
        record("a"),
        record("b", **SLOW),
        scalings=tuple(scaling_curve(name=name, points=each) for name, each in of.items()),
    )
    unlike = comparison("not_comparable", ratio=None, reason="another machine")
    found = [record("a", comparisons=(unlike,)), record("b", comparisons=(comparison("inconclusive"),))]
    said["below the changes is what their numbers do not say"] = "".join(
        f"{line}\n" for line in section.changes([*found, record("c", comparisons=(WORSE,))], 80)
    )
    return said


@pytest.mark.parametrize("part", [headlines, rows, notes, remedies, totals, curves])
def test_what_is_said_and_how_often(part):
    """Read the titles here, and what stands below each in the file."""
    assert_told(f"terminal-{part.__name__}", part().items())


@pytest.mark.parametrize("width", WIDTHS)
def test_a_run_with_everything_looks_at_each_width_as_it_did(width):
    assert_golden(f"terminal-{width}.txt", shown(section.lines(run_with_everything(), width)))


def test_with_all_notes_it_looks_as_it_did():
    assert_golden("terminal-all-notes.txt", shown(section.lines(run_with_everything(), 80, all_notes=True)))


LONGEST = "tests/" + "very/" * 20 + "test_" + "long_" * 30 + "name.py::test_" + "long_" * 30 + "end"
WIDE = [
    record(LONGEST),
    record("test_x.py::test_x[" + "float32-" * 30 + "1048576]"),
    record("test_y.py::test_y[行列の積]" * 3),
    record("a", status="inconclusive", reason="in doubt " * 30, demand=Demand(min=2.5, max=100)),
    record("b", status="inconclusive", reason="in doubt", speedup=speedup(12.3, 10.1, 15.2)),
    record("c", speedup=speedup(123456.0, 12345.0, 1234567.0), demand=Demand(min=0.333333)),
    record("d", speedup=speedup(12.3, None, None), offload=offload(always=speedup())),
    record("e", status="error", reason="x" * 300, speedup=None),
    record("f", **DIFFER, expected_failure=True),
    record("g", **noted("dependent samples: " + "lag-1 " * 40)),
    record("h", comparisons=(comparison("not_comparable", ratio=None),)),
    record("i", source="all"),
    skipped(LONGEST + "[1]", "no GPU library is installed; " * 5),
]


@pytest.mark.parametrize("all_notes", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_no_line_is_wider_than_the_terminal(width, all_notes):
    changes = {"thresholds": (threshold(name=LONGEST),), "scalings": (scaling_curve(name=LONGEST),)}
    hostile = replace(run_of().environment, cpu={"name": "\x1b[31m" * 30})  # escapes are longer
    for records in (*([each] for each in WIDE), WIDE):
        run = run_of(*records, environment=hostile, unmarked=1, **changes)
        lines = section.lines(run, width, all_notes=all_notes)
        assert [line for line in map(str, lines) if columns(line) > width] == []
    assert [line for line in section.changes(WIDE, width) if columns(line) > width] == []


def test_what_shows_why_a_test_failed_is_left_out_last():
    found = record("test_a_failing_one", **SLOW, comparisons=(WORSE,), offload=offload(always=speedup()))

    def headings(width):
        return " ".join(str(section.lines(run_of(found), width)[2]).split())

    assert "test CPU GPU speedup with copies limit change verdict" == headings(120)
    assert "test CPU GPU speedup limit change verdict" == headings(90)
    assert "test speedup limit change verdict" == headings(70)
    assert "test speedup limit verdict" == headings(60)


def test_tests_of_which_it_is_unclear_whether_they_are_worth_it_are_counted_and_named_once():
    unclear = [
        record(name, offload=offload(worth=None, reason="unclear whether it is worth it")) for name in "abc"
    ]
    assert "a: unclear whether it is worth it\n" in full(unclear[0])
    several = full(*unclear[:2], record("d", **NOT_WORTH_IT))
    assert "whether it is worth it" not in several
    assert "d: slow link\n" in several
    assert "worth it (GPU surely faster): 0 of 3 tests, 2 unclear (a, b)\n" in several
    assert full(*unclear).endswith("worth it (GPU surely faster): 0 of 3 tests, 3 unclear\n")
    emulated = record("d", **EMULATED, offload=offload(worth=None, reason="unclear on it"))
    assert "d: unclear on it\n" in full(*unclear, emulated)


def test_the_line_of_a_test_without_a_speedup_labels_an_emulated_device_as_its_column():
    times = [progress.outcome(record(speedup=None, **changes)) for changes in ({}, EMULATED)]
    assert ["GPU", "emulated"] == [said.split(", ")[1].split()[0] for said in times]
