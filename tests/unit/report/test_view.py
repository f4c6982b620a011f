"""The view of a run: which tests have rows, what is said of them and how often, and what is counted."""

from cases import for_each
from factories import (
    GPU,
    comparison,
    estimate,
    measurement,
    offload,
    record,
    run_of,
    scaling_curve,
    skipped,
    speedup,
    threshold,
    variants,
)
from msgspec.structs import replace

from pytest_gpuperf.model.measurement import Interference
from pytest_gpuperf.model.offload import Diagnosis
from pytest_gpuperf.model.record import Note
from pytest_gpuperf.report import view

STAND_IN = replace(GPU, name="jax on the CPU", emulated=True)
SIMULATED = replace(GPU, name="simulated GPU", backend="simulated", emulated=True)
EMULATED = {"gpu": measurement(STAND_IN, 1e-3)}
WORSE = comparison(reason="worse")
WHY = Diagnosis(code="float64", sentence="float64: it is slow")
CPU_ONLY, ON_GPU = variants()


def noted(text, code="aside_failed"):
    return Note(code=code, text=text)


def failed(nodeid="a", reason="too slow", **changes):
    return record(nodeid, status="failed", reason=reason, **changes)


def notes(*records, **options):
    """Return what is said of tests, a line each."""
    shown = view.of(run_of(*records), **options)
    return [f"{note.head}: {text}" for note in shown.notes for text in note.texts]


@for_each(
    ("expected", "run"),
    [
        ("CPU EPYC | GPU H200 through cupy", run_of(record())),
        ("CPU EPYC | GPU not looked for", run_of(record(), gpu=None)),
        (
            "CPU EPYC | emulated: jax on the CPU through cupy, not a GPU",
            run_of(record(**EMULATED), gpu=STAND_IN),
        ),
        (
            "CPU EPYC | GPU H200 through cupy; emulated: jax on the CPU, not a GPU",
            run_of(record(), record("b", **EMULATED)),
        ),
        (
            "simulated CPU | simulated GPU: synthetic times",
            run_of(record(cpu=measurement(replace(SIMULATED, kind="cpu"), 1.0)), gpu=SIMULATED),
        ),
    ],
)
def test_no_device_is_called_a_gpu_that_is_none(expected, run):
    assert expected == view.of(run).headline


@for_each(
    ("expected", "records"),
    [
        (["CPU", "GPU", "speedup", "limit", "verdict"], [record()]),
        (["limit", "verdict"], [skipped("a")]),
        (["CPU", "emulated", "speedup", "limit", "verdict"], [record(**EMULATED)]),
        (["CPU", "GPU", "speedup", "limit", "verdict"], [record(), record("b", **EMULATED)]),
        (
            ["CPU", "GPU", "speedup", "with copies", "limit", "change", "verdict"],
            [record(offload=offload(always=speedup()), comparisons=(comparison(),))],
        ),
    ],
)
def test_a_column_in_which_no_test_has_anything_is_left_out(expected, records):
    assert expected == view.of(run_of(*records)).headings


@for_each(
    ("expected", "records"),
    [
        ([], [skipped("a", reason_code="deselected")]),
        (["test_a[gpu]"], [CPU_ONLY, ON_GPU]),
        (["test_a[cpu]", "test_a[gpu]"], [replace(CPU_ONLY, status="failed", reason="why"), ON_GPU]),
        (["test_a[cpu]", "test_a[gpu]"], [replace(CPU_ONLY, status="error", reason="why"), ON_GPU]),
        (["test_a[cpu]", "test_a[gpu]"], [replace(CPU_ONLY, comparisons=(comparison(),)), ON_GPU]),
        (["test_a[cpu]", "test_a[gpu]"], variants(status="skipped", reason="no", speedup=None, gpu=None)),
        (["a[1]", "a[2]", "b[1]", "b[2]"], [record(name) for name in ("a[1]", "b[1]", "a[2]", "b[2]")]),
        (["t.py::a", "u.py::a", "b"], [record(name) for name in ("t.py::a", "u.py::a", "u.py::b")]),
        (["x/t.py::a", "y/t.py::a"], [record(name) for name in ("x/t.py::a", "y/t.py::a")]),
        (["op[aten::add]"], [record("t.py::TestOps::op[aten::add]")]),
    ],
)
def test_each_test_has_a_row_unless_another_says_all_of_it_under_the_shortest_name_of_its_own(
    expected, records
):
    assert expected == [row.name for row in view.of(run_of(*records)).rows]


def test_what_went_wrong_stands_first_and_of_that_what_misses_its_limit_most():
    run = run_of(
        skipped("skipped"),
        record("passed"),
        record("recorded", status="recorded"),
        record("new", comparisons=(comparison("new"),)),
        record("improved", comparisons=(comparison("improved"),)),
        record("in_doubt", comparisons=(comparison("inconclusive"),)),
        failed("known", expected_failure=True),
        record("regressed", comparisons=(comparison("regressed", ratio=estimate(0.8)),)),
        failed("close", speedup=speedup(2.9, 2.8, 2.95)),
        failed("far", speedup=speedup(1.5, 1.4, 1.6)),
        record("error", status="error", reason="lost", speedup=None),
    )
    order = "error far regressed close known in_doubt improved passed recorded new skipped"
    assert order.split() == [row.name for row in view.of(run, worst_first=True).rows]


NOT_WORTH_IT = {"offload": offload(worth=False, reason="slow link"), "diagnosis": (WHY,)}
EXPLAINED = record("a", restart_reason="other work", **NOT_WORTH_IT)


def test_curves_of_tests_that_failed_come_first():
    points = scaling_curve().points
    curves = [
        scaling_curve(name=name, points=tuple(replace(each, nodeid=name) for each in points)) for name in "ab"
    ]
    shown = view.of(run_of(record("a"), failed("b"), scalings=tuple(curves)))
    assert ["b", "a"] == [curve.name for curve in shown.scalings]


@for_each(
    ("expected", "records"),
    [
        ([], [record()]),
        (["a: too slow"], [failed(notes=(noted("too slow"),))]),
        (["b: too slow", "a: known"], [failed("a", "known", expected_failure=True), failed("b")]),
        (["a and 2 more: no GPU"], [skipped(name, "no GPU") for name in "abc"]),
        (["a: slow link", f"a: {WHY.sentence}", "a: restarted the measurement: other work"], [EXPLAINED]),
        (["a: too slow", f"a: {WHY.sentence}"], [failed(offload=offload(), diagnosis=(WHY,))]),
        ([], [record("a", offload=offload(), diagnosis=(WHY,))]),
        # What a note says, too.
        ([f"a: {WHY.sentence}"], [record("a", notes=(noted(WHY.sentence),))]),
        (
            ["test_a[cpu]: its own", "test_a[gpu]: both"],
            [
                replace(CPU_ONLY, notes=(noted("both"), noted("its own"))),
                replace(ON_GPU, notes=(noted("both"),)),
            ],
        ),
    ],
)
def test_each_reason_is_said_once_what_failed_first(expected, records):
    assert expected == notes(*records, all_notes=True)


WITHOUT = replace(CPU_ONLY, notes=(noted("no speedup", "no_partner"),))
SKIPPED = skipped(ON_GPU.nodeid, "no GPU here", pairing=ON_GPU.pairing)


@for_each(
    ("expected", "records"),
    [
        (["test_a[gpu]: no GPU here"], [WITHOUT, SKIPPED]),
        (["test_a[cpu]: no speedup"], [WITHOUT, replace(SKIPPED, reason_code="deselected")]),
        (
            ["test_a[cpu]: no speedup", "test_a[gpu]: no GPU here"],
            [WITHOUT, replace(SKIPPED, pairing=None)],
        ),
        (
            ["test_a[cpu]: no speedup", "test_a[gpu]: no GPU here"],
            [replace(CPU_ONLY, notes=(noted("no speedup"),)), SKIPPED],
        ),
    ],
)
def test_what_became_of_a_gpu_variant_is_told_with_it_and_not_again_with_the_other(expected, records):
    assert expected == notes(*records)


DOUBTS = [record(f"test_{n}", notes=(noted(f"doubt {n}"),)) for n in range(3)]


@for_each(
    ("expected", "more", "records"),
    [
        (["test_0: doubt 0 (2 notes of this kind more)"], 2, DOUBTS),
        ([], 3, [EXPLAINED]),
        (["a: too slow", f"a: {WHY.sentence}"], 0, [failed(diagnosis=(WHY,), offload=offload())]),
        (["a: worse", f"a: {WHY.sentence}"], 1, [record("a", **NOT_WORTH_IT, comparisons=(WORSE,))]),
        # A reason that is the code of a note by chance, or its text.
        (["a: interference"], 0, [skipped("a", "interference")]),
        (["a: slow", "b: slow"], 0, [failed("a", "slow"), record("b", notes=(noted("slow"),))]),
    ],
)
def test_in_short_each_kind_of_note_is_said_once_and_what_is_left_out_is_counted(expected, more, records):
    assert (expected, more) == (notes(*records), view.of(run_of(*records)).more_notes)


@for_each("code", ["check_the_test", "work_in_doubt", "not_on_device", "slowed_by_settings", "long_warm_up"])
def test_a_code_of_several_kinds_of_doubt_hides_none_behind_another(code):
    one = record("a", notes=(noted("kept", code), noted("changed", code)))
    two = record("b", notes=(noted("too fast", code),))
    assert notes(one, two) == ["a: kept", "a: changed", "b: too fast"]


@for_each(
    ("expected", "above", "changes"),
    [
        (["too slow", WHY.sentence], {}, {}),
        ([WHY.sentence], {"a": "\ntoo slow"}, {}),
        (["too slow", WHY.sentence], {"b": "too slow"}, {}),
        ([], {"a": "E too\nE slow"}, {"status": "error"}),  # an exception
    ],
)
def test_what_pytest_has_shown_of_a_test_is_not_said_again(expected, above, changes):
    one = replace(failed(diagnosis=(WHY,), offload=offload()), **changes)
    assert [f"a: {text}" for text in expected] == notes(one, above=above)


def test_a_threshold_is_said_as_one_of_its_device_without_a_reason_that_pytest_has_shown():
    def said(above=view.NOTHING_ABOVE, **changes):
        sizes = [record(f"test_fft[{n}]", **changes) for n in (64, 256)]
        missed = threshold(status="failed", reason="too large")
        return [each.said for each in view.of(run_of(*sizes, thresholds=(missed,)), above=above).thresholds]

    assert said() == ["failed: the GPU wins from n = 256 on, not at 128; too large"]
    assert said(**EMULATED) == ["failed: the emulated GPU wins from n = 256 on, not at 128; too large"]
    assert said({"test_fft[64]": "too large"}) == ["failed: the GPU wins from n = 256 on, not at 128"]


def disturbed(name, share, kind="cpu_contention", **changes):
    found = Interference(kind=kind, own_share=share, waited=1 - share, threads=1)
    note = noted("other work", "interference")
    return record(name, **{"interference": found, "notes": (note,), **changes})


ON_CPU = Interference(kind="cpu_contention", own_share=0.5, waited=1.0, threads=2)


@for_each(
    ("expected", "records"),
    [
        ([], [record()]),
        (
            ["2 of 3 tests; worst b, which may have lost up to 38 % of its time"],
            [disturbed("a", 0.7), disturbed("b", 0.62), record("c")],
        ),
        (
            ["1 of 1 test; worst a, whose median is 4.0 times its fastest block"],
            [disturbed("a", 0.25, "unstable_cpu_times")],
        ),
        (
            ["1 of 1 test; worst a, which may have lost up to 50 % of its time"],
            [disturbed("a", 0.9, gpu_interference=ON_CPU, status="inconclusive", reason="?")],
        ),
        (  # the CPU variant has no row
            ["1 of 1 test; worst test_a[gpu], which may have lost up to 50 % of its time"],
            [
                replace(CPU_ONLY, interference=ON_CPU),
                replace(ON_GPU, interference=replace(ON_CPU, waited=0.5, threads=1)),
            ],
        ),
    ],
)
def test_disturbed_tests_share_a_sentence_that_names_the_worst(expected, records):
    shown = view.of(run_of(*records))
    assert [f"machine busy: {text}: close other work" for text in expected] == list(shown.busy)
    assert [] == [note for note in shown.notes if "other work" in note.texts]


@for_each(
    ("expected", "worth", "emulated", "ratio"),
    [
        ([], [True], [True], None),
        (["worth it (GPU surely faster): 2 of 3"], [True, True, False], [], None),
        (["worth it (GPU surely more than 2.5 times as fast): 1 of 2"], [True, False], [], 2.5),
        (
            ["worth it (GPU surely faster): 2 of 2", "emulated device faster: 0 of 2"],
            [True, True],
            [False, False],
            None,
        ),
    ],
)
def test_how_many_tests_pay_is_counted_those_of_emulated_devices_apart(expected, worth, emulated, ratio):
    tests = [record(f"test_{n}", offload=offload(worth=each)) for n, each in enumerate(worth)]
    tests += [record(f"e{n}", offload=offload(worth=each), **EMULATED) for n, each in enumerate(emulated)]
    assert expected == view.of(run_of(*tests, cost_ratio=ratio)).totals


@for_each(
    ("expected", "count"),
    [
        (
            (
                "0 tests: no unmarked test has variants on the CPU and on a GPU here; choose one with "
                "--gpuperf-gpu, or name parameters that choose a device in gpuperf_device_params"
            ),
            0,
        ),
        ("2 tests, 2 compared with a CPU variant", 2),
        ("21 tests, 21 compared with a CPU variant; the slowest 20 are above, all are in the report", 21),
    ],
)
def test_tests_without_a_marker_are_counted_and_the_slowest_have_rows(expected, count):
    shown = view.of(run_of(*(record(f"test_{n}", source="all") for n in range(count)), unmarked=count))
    assert ([f"--gpuperf-all: {expected}"], min(count, 20)) == (shown.totals, len(shown.rows))


def test_where_none_of_them_was_compared_for_want_of_a_gpu_the_reason_is_said():
    here = replace(run_of().environment, gpu=None, gpu_reason="no GPU found: install one")
    cpu = record(source="all", gpu=None, speedup=None)
    (said,) = view.of(run_of(cpu, environment=here, unmarked=1)).totals
    assert said == "--gpuperf-all: 1 test, 0 compared with a CPU variant: no GPU found: install one"
