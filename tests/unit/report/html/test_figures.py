"""The figures of the page: what each shows in words and in marks, and that any values can be drawn."""

from array import array

import pytest
from factories import (
    CPU,
    EMULATED,
    GPU,
    STEP,
    comparison,
    copies,
    estimate,
    histories,
    history_of,
    measurement,
    near_roof,
    record,
    run_of,
    scaled,
    scaling_curve,
    skipped,
    speedup,
    threshold,
)
from figures import figures, is_whole, numbers, outside, overlapping
from golden import assert_golden, without_assets
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from strategies import records, roofs, scalings, thresholds

from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import Inspection, Transfer
from pytest_gpuperf.model.offload import Diagnosis, Point
from pytest_gpuperf.report.html.page import text

CHARTS = ("thresholds", "roofs", "scaling", "history")


def timed(name, cpu, gpu, **changes):
    return record(f"calls.py::{name}", cpu=measurement(CPU, *cpu), gpu=measurement(GPU, *gpu), **changes)


def called(name, busy=1.5e-3, *, gpu=GPU, **changes):
    """Return the record of a call of 2 ms, with 4 ms of uploads before it and 1 ms of downloads after it."""
    on_gpu = measurement(gpu, 2e-3, inspection=Inspection(host_time=1e-3, device_time=busy))
    moved = Transfer(h2d=copies(4e-3), d2h=copies(1e-3))
    return record(f"calls.py::{name}", **{"gpu": on_gpu, "transfer": moved, "scope": "call", **changes})


def calls():
    """Yield tests of whose calls the page shows the rounds, or what their parts take, or neither."""
    yield timed("rounds", [20, 40, 10], [0.2, 0.2, 0.1])
    yield timed("one of each 5 rounds", [1.0] * 1000, [2.0] * 1000)
    yield timed("one round on the CPU", [9.0], [9.0] * 2)
    yield timed("one round", [1.0], [1.0])
    latencies = measurement(CPU, 9.0, latencies=array("d", [1.0, 1.0]))
    yield record("calls.py::latencies", cpu=latencies, gpu=None, demand=Demand(latency=True))
    yield called("parts")
    yield called("busy for longer than the call", busy=3e-3)
    yield called("busy for a time that is not known", busy=None)
    yield called("busy on other streams", diagnosis=(Diagnosis(code="side_stream", sentence="-"),))
    yield called("copies shared", demand=Demand(transfer="once", calls=10))
    yield called("without copies", transfer=None)
    yield called("emulated", gpu=EMULATED, speedup=speedup(1.0, 0.9, 1.1))
    yield called("no parts of a body", scope="body")
    yield called("no parts without copies and a busy time", busy=None, transfer=None)
    yield record("calls.py::no parts of no time", gpu=measurement(GPU, 0))
    yield scaled(4, 0.5)


def forest():
    """Yield tests with the marks that a plot in the table may have."""
    yield skipped("forest.py::no plot")
    yield record("forest.py::open above", speedup=speedup(high=None))
    yield record("forest.py::open below", speedup=speedup(1000.0, None))
    yield record("forest.py::at most", demand=Demand(max=20, transfer="always"))
    narrow = comparison("improved", baseline=estimate(5, 5, 5))
    yield record("forest.py::a narrow baseline", comparisons=(narrow,))
    yield record("forest.py::an open baseline", comparisons=(replace(narrow, baseline=estimate(5)),))
    yield record("forest.py::no baseline of the speedup", comparisons=(replace(narrow, metric="memory"),))


def point(size, speedup, **changes):
    """Return a size at which a call takes 1 us for each element on the CPU; copies double the GPU's time."""
    known = {"cpu": size * 1e-6, "gpu": size * 1e-6 / speedup, "nodeid": "a", "size": size}
    resident = estimate(speedup, speedup / 1.5, speedup * 1.5)
    always = estimate(speedup / 2, speedup / 3, speedup / 1.5)
    return Point(**{**known, "speedup": resident, "never": resident, "always": always, **changes})


def each(points, **changes):
    return tuple(replace(point, **changes) for point in points)


CURVE = (point(64, 0.2), point(256, 0.9), point(1024, 3.0), point(4096, 10.0))
SHARED = tuple(replace(each, once=each.always, always=None, speedup=None) for each in CURVE)
OFF = estimate(0.5, 0.4, 0.6)
THRESHOLDS = {
    "at most": {},
    "between, near together": {"at_least": 1000, "at_most": 1100},
    "between, of which the GPU wins all": {"at_least": 64, "largest_not_won": None, "smallest_won": 64},
    "of a body, without copies": {"regime": "body", "curve": each(CURVE, never=None, always=None)},
    "copies shared": {"regime": "once", "curve": SHARED},
    "of single calls": {"by_latency": True},
    "on an emulated GPU": {"curve": each(CURVE, nodeid="emulated")},
    "a size without a place on a log axis": {"curve": (point(0, 1.0, cpu=1.0, gpu=1.0), *CURVE)},
    "times in their bands where the median ratio is another": {
        "curve": (point(64, 0.2, never=OFF), point(256, 2.0, never=OFF))
    },
    "no size, no figure": {"curve": ()},
    "one size, no figure": {"curve": (point(0, 1.0), CURVE[0])},
    "no time on the GPU, no figure": {"curve": each(CURVE, gpu=None)},
}
MEASURED = scaling_curve().points
OPEN = replace(MEASURED[1], efficiency=estimate(0.8))
WIDE = replace(MEASURED[2], efficiency=estimate(0.5, 1e-9, 1e9))
SCALINGS = {
    "strong": {},
    "weak": {"mode": "weak"},
    "nothing required": {"required": None},
    "not measured on eight": {"points": (*MEASURED, replace(MEASURED[0], count=8, time=None))},
    "not measured on the fewest": {"points": (replace(MEASURED[0], time=None), *MEASURED[1:])},
    "open and wide ranges": {"points": (MEASURED[0], OPEN, WIDE)},
    "an axis that ends on a tick": {"points": (MEASURED[0], replace(OPEN, efficiency=estimate(5 / 1.05)))},
    "measured on one, no figure": {"points": MEASURED[:1]},
}
MACHINES = ("CPU one, python 3.13", "CPU two, python 3.13")
HISTORIES = {  # the largest loss first, and last what did not change
    "large loss": [*STEP[:6], *(value / 2 for value in STEP[6:])],
    "loss": [None, *STEP],
    "gain": STEP[::-1],
    "many changes": [10.0 * 1.5 ** (number // 6) for number in range(60)],
    "far apart": [1e-12, 1e12],
    "beyond what is drawn": [1e12, 1e12],
    "same": [2.0] * 12,
    "one run, no figure": [2.0],
    "no speedup, no figure": [None] * 12,
}


def of_thresholds():
    known = {
        "at_most": 4096,
        "status": "passed",
        "largest_not_won": 256,
        "smallest_won": 1024,
        "curve": CURVE,
    }
    return tuple(threshold(name=name, **known | changes) for name, changes in THRESHOLDS.items())


def of_scalings():
    known = {"required": 0.8}
    return tuple(scaling_curve(name=name, **known | changes) for name, changes in SCALINGS.items())


def over_bytes():
    """Yield tests whose roofs are known: on two GPUs with a figure, and on one with too few sizes."""
    for number, size in enumerate((1 << 12, 1 << 16, 1 << 20, 1 << 24)):
        yield near_roof(f"bytes.py::roof[{size}]", size, gpu_share=0.2 + 0.2 * number)
        yield near_roof(f"bytes.py::emulated[{size}]", size, gpu_share=1.2, gpu=measurement(EMULATED, 1e-3))
    yield near_roof("bytes.py::no share on the GPU", 1 << 22, gpu_share=None)
    yield near_roof(
        "bytes.py::one size of its GPU", 1 << 22, gpu=measurement(replace(GPU, name="H100"), 1e-3)
    )


def of_histories():
    one, two = MACHINES
    return histories(
        *(history_of(*values, nodeid=name, fingerprint=one) for name, values in HISTORIES.items()),
        history_of(*STEP, nodeid="elsewhere, without commits", fingerprint=two, commit=None),
        history_of(9.0, 9.0, nodeid="open ranges", fingerprint=two, share=None),
    )


@pytest.fixture(scope="module")
def whole():
    """Return the page that has each figure."""
    emulated = record("emulated", gpu=measurement(EMULATED, 1e-3))
    run = run_of(
        *calls(), *forest(), *over_bytes(), emulated, thresholds=of_thresholds(), scalings=of_scalings()
    )
    return text(run, of_histories())


def test_each_figure_looks_as_it_did(whole):
    """Read the names here, and what stands with each in the file."""
    assert_golden("figures.html", without_assets(whole))


def test_figures_are_whole_and_no_word_lies_over_another(whole):
    shown = [figure for figure in figures(whole) if figure.finding]
    assert len(shown) > 20
    assert [] == [figure for figure in shown if not is_whole(figure) or overlapping(figure)]
    assert [] == [
        mark for section in CHARTS for figure in figures(whole, section) for mark in outside(figure)
    ]


@given(st.lists(thresholds(), min_size=1, max_size=3), st.lists(scalings(), min_size=1, max_size=3))
def test_any_values_can_be_drawn(of_sizes, of_devices):
    content = text(run_of(record("a"), thresholds=tuple(of_sizes), scalings=tuple(of_devices)))
    for section in ("thresholds", "scaling"):
        for figure in figures(content, section):
            assert is_whole(figure)
            assert [] == overlapping(figure)
            assert [] == outside(figure)
            *ticks, _ = [word.y for word in figure.words if word.anchor == "end"]
            assert 2 <= len(ticks) <= 5
            if section == "scaling":  # at equal distances from zero on
                assert ticks == pytest.approx(
                    [ticks[0] + (ticks[1] - ticks[0]) * n for n in range(len(ticks))], abs=0.3
                )


@given(st.lists(roofs(), min_size=3, max_size=6))
def test_any_roofs_can_be_drawn(found):
    content = text(run_of(*(record(f"{number}", roof=roof) for number, roof in enumerate(found))))
    for figure in figures(content, "roofs"):
        assert is_whole(figure)
        assert [] == overlapping(figure)
        assert [] == outside(figure)


@given(records())
def test_any_record_can_be_drawn_and_said(found):
    content = text(run_of(found))
    assert all(is_whole(figure) for figure in figures(content) if figure.finding)
    assert "nan" not in content.partition("<main>")[2].partition("<pre>")[0]


@given(st.floats(1e-9, 1e9), st.floats(1e-9, 1e9))
def test_words_of_the_axis_never_touch_and_1x_has_one(low, high):
    ends = [record(f"{value}", speedup=speedup(value, value, value)) for value in (low, high)]
    axis = next(
        each for each in figures(text(run_of(*ends))) if "axis of the speedup" in (each.finding or "")
    )
    assert [] == overlapping(axis)
    assert "1x" in axis.texts


def test_large_speedups_are_written_in_few_letters():
    ends = [record(f"{value}", speedup=speedup(value, value, value)) for value in (1.0, 2e5)]
    axis = next(
        each for each in figures(text(run_of(*ends))) if "axis of the speedup" in (each.finding or "")
    )
    assert {"1x", "10kx"} <= {*axis.texts}


def test_equal_speedups_lie_at_one_place_in_every_row_and_their_distances_are_as_the_logarithms():
    shown = [
        record(f"{value}", speedup=speedup(value, 0.9 * value, 1.1 * value)) for value in (0.5, 4.0, 64.0)
    ]
    rows = [
        figure
        for figure in figures(text(run_of(*shown)))
        if figure.paths("passed", "range") and figure.paths("limit")
    ]
    assert 1 == len({row.paths("limit")[0] for row in rows[-3:]})
    one, two, three = (numbers(row.paths("passed", "range")[0])[0] for row in rows[-3:])
    assert abs((three - two) / (two - one) - 4 / 3) < 0.01  # of sixteen times, and of eight
