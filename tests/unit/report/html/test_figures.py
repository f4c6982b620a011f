"""The figures of the page: what each shows in words and in marks, and that any values can be drawn."""

import re
from array import array
from itertools import accumulate
from xml.etree import ElementTree

import pytest
from cases import for_each
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
    record,
    run_of,
    scaled,
    scaling_curve,
    skipped,
    speedup,
    threshold,
)
from figures import is_whole, numbers, overlapping, paths, places, texts
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from strategies import records, scalings, thresholds

from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import Inspection, Transfer
from pytest_gpuperf.model.offload import Diagnosis, Point
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.report import view
from pytest_gpuperf.report.history import series
from pytest_gpuperf.report.html import calls, curves, forest
from pytest_gpuperf.report.html.figure import Figure, Word, svg_document
from pytest_gpuperf.report.scale import speedup_axis
from pytest_gpuperf.report.summary import threshold_sentence
from pytest_gpuperf.report.view import Sizes

pytestmark = pytest.mark.unit


def timed(cpu, gpu, **changes):
    return calls.rounds_figure(record(cpu=measurement(CPU, *cpu), gpu=measurement(GPU, *gpu), **changes))


def point(size, speedup, **changes):
    """Return a size at which a call takes 1 us for each element on the CPU; copies double the GPU's time."""
    known = {"cpu": size * 1e-6, "gpu": size * 1e-6 / speedup, "nodeid": "a", "size": size}
    resident = estimate(speedup, speedup / 1.5, speedup * 1.5)
    always = estimate(speedup / 2, speedup / 3, speedup / 1.5)
    return Point(**{**known, "speedup": resident, "never": resident, "always": always, **changes})


CURVE = (point(64, 0.2), point(256, 0.9), point(1024, 3.0), point(4096, 10.0))


def of_sizes(gpu="GPU", **changes):
    known = {
        "at_most": 4096,
        "status": "passed",
        "largest_not_won": 256,
        "smallest_won": 1024,
        "curve": CURVE,
    }
    found = threshold(**{**known, **changes})
    return curves.of_threshold(Sizes(found, threshold_sentence(found, f"the {gpu}"), gpu))


def of_counts(**changes):
    return curves.of_scaling(scaling_curve(**{"required": 0.8, **changes}))


def of_runs(*values, **how):
    return curves.of_series(series(history_of(*values, **how))[0], {"here"})


LATENT = record(
    cpu=measurement(CPU, 9.0, latencies=array("d", [1.0, 1.0])), gpu=None, demand=Demand(latency=True)
)
MEASURED = scaling_curve().points
BODY = tuple(replace(each, never=None, always=None) for each in CURVE)
SHARED = tuple(replace(each, once=each.always, always=None, speedup=None) for each in CURVE)
FAR = [[1e-12, 1e12], [1e12] * 2, [10.0 * 1.5 ** (number // 6) for number in range(60)]]


@for_each(
    ("shown", "said"),
    [
        (
            timed([20, 40, 10], [0.2, 0.2, 0.1]),
            "(10.0 s to 40.0 s); GPU 200 ms (100 ms to 200 ms)\nTime of a call in 3 rounds, in order; line",
        ),
        (timed([1.0] * 1000, [2.0] * 1000), "in 1,000 rounds, in order, one of each 5 shown"),
        (timed([9.0], [9.0] * 2), "\nGPU\n9.00 s\n2 rounds in order: GPU 9.00 s ("),
        (calls.rounds_figure(LATENT), "CPU 1.00 s ("),
        (of_sizes(), "time of a call\nCPU\nGPU\nGPU with copies\n"),
        (of_sizes(), "size n\npassed: the GPU wins from n = 1024 on, not at 256; required at most 4096\n"),
        (of_sizes(), "over the range of the speedup. The threshold lies in the grey area."),
        (of_sizes(at_least=1000, at_most=1100), "\nat least 1000\nat most 1100\nGPU faster from 1024\n"),
        (of_sizes(at_least=64, smallest_won=64), "\nat least 64\nat most 4096\nGPU faster from 64\n"),
        (of_sizes(at_least=4096), "; required at least 4096 and at most 4096"),
        (of_sizes(regime="once", curve=SHARED), "\nGPU, copies shared\n"),
        (of_sizes("emulated GPU"), "\nemulated GPU\nemulated GPU with copies\n"),
        (of_sizes("emulated GPU"), "\nemulated GPU faster from 1024\n"),
        (of_sizes(by_latency=True), "the threshold is that of single calls"),
        (of_counts(), "measured\nideal\nrequired 0.8\n"),
        (of_counts(), "efficiency 0.80 [0.72, 0.88] on 2 devices, 0.60 [0.54, 0.66] on 4 devices\n"),
        (of_counts(points=(*MEASURED, replace(MEASURED[0], count=8, time=None))), "\n1\n2\n4\n8\ndevices"),
        (of_counts(mode="weak"), "for a problem that grows with the devices"),
        (of_runs(None, *STEP), "\n-18 % 0000008\n"),  # a run without a speedup has no place
        (of_runs(None, *STEP), "\n2026-01-02\n2026-01-13\nrun date\nSpeedup 8.00x [7.20, 8.80] in the last"),
        (of_runs(*STEP), "of 12 runs; from 9.90x to 8.10x (-18 %) at 0000007 of 2026-01-07\nfrom 9.90x"),
        (of_runs(*STEP, commit=None), "\n-18 % 2026-01-07\n"),
        *((of_runs(*values, share=share), "Speedup ") for values in FAR for share in (0.1, None)),
    ],
)
def test_a_figure_says_what_it_shows(shown, said):
    assert said in "\n".join([*texts(shown), shown.finding, shown.caption])
    assert is_whole(shown)
    assert [] == overlapping(shown)


@for_each(
    "shown",
    [
        *(timed([1.0], [1.0]), of_sizes(curve=()), of_sizes(curve=(point(0, 1.0), CURVE[0]))),
        of_sizes(curve=tuple(replace(each, gpu=None) for each in CURVE)),
        *(of_counts(points=MEASURED[:1]), forest.row(skipped("a"), speedup_axis([], forest.LENGTH))),
    ],
)
def test_what_was_not_measured_has_no_figure(shown):
    assert shown is None


@given(
    thresholds().map(lambda found: curves.of_threshold(Sizes(found, "said", "GPU")))
    | scalings().map(curves.of_scaling)
)
def test_any_values_can_be_drawn(shown):
    assert shown is None or (is_whole(shown) and not overlapping(shown))


@given(records())
def test_any_rounds_can_be_drawn(found):
    shown = calls.rounds_figure(found)
    assert shown is None or is_whole(shown)


def test_each_round_is_a_dot_of_each_device_in_order_and_the_same_ratio_is_as_high_on_both():
    shown = timed([20, 40, 10], [0.2, 0.2, 0.1])
    steps = [re.findall(r"m(-?\d+) ?(-?\d+)z", paths(shown, kind, "dots")[0]) for kind in ("cpu", "gpu")]
    xs, gpu_xs = ([*accumulate(int(x) for x, _ in each)] for each in steps)
    ys, gpu_ys = ([*accumulate(int(y) for _, y in each)] for each in steps)
    assert xs == gpu_xs == sorted(set(xs))
    assert ys[1] < ys[0] < ys[2]
    assert pytest.approx(ys[2] - ys[0], abs=1) == gpu_ys[2] - gpu_ys[1]


@for_each(
    ("changes", "lines", "bands"),
    [
        ({"curve": (point(0, 1.0, cpu=1.0, gpu=1.0), *CURVE)}, [4, 4, 4], [0, 1, 1]),  # a log axis has no 0
        ({"regime": "body", "curve": BODY}, [4, 4], [0, 1, 0]),
        ({"regime": "once", "curve": SHARED}, [4, 4, 4], [0, 1, 1]),
        ({"by_latency": True}, [4, 4], [0, 0, 0]),  # ratios of single calls are not those of the times
    ],
)
def test_each_device_has_a_line_with_the_range_of_its_speedup(changes, lines, bands):
    shown = of_sizes(**changes)
    styles = ("cpu", "gpu", "copies")
    assert lines == [len(places(path)) for style in styles for path in paths(shown, style)[-1:]]
    assert bands == [len(paths(shown, style, "band")) for style in styles]
    assert places(paths(of_sizes(), "gpu")[-1])[0][1] > places(paths(of_sizes(), "copies")[-1])[0][1]


def test_a_time_lies_in_its_band_although_the_median_ratio_is_another():
    off = estimate(0.5, 0.4, 0.6)
    shown = of_sizes(curve=(point(64, 0.2, never=off), point(256, 2.0, never=off)))
    (one, other, other_low, one_low) = (y for _, y in places(paths(shown, "gpu", "band")[0]))
    first, second = (y for _, y in places(paths(shown, "gpu")[-1]))
    assert one <= first <= one_low
    assert other <= second <= other_low


def test_the_line_of_a_curve_begins_on_that_of_the_ideal_if_its_fewest_devices_were_measured():
    (_, ideal), *_ = places(paths(of_counts(), "muted")[-1])
    line = places(paths(of_counts(), "gpu")[-1])
    assert (ideal, 3) == (line[0][1], len(line))
    without_base = of_counts(points=(replace(MEASURED[0], time=None), *MEASURED[1:]))
    assert 2 == len(places(paths(without_base, "gpu")[-1]))
    assert [] == paths(of_counts(required=None), "limit")


def test_a_change_is_a_rule_between_its_runs():
    shown = of_runs(*STEP)
    xs = [x for x, _ in places(paths(shown, "gpu")[0])]
    assert xs[5] < numbers(paths(shown, "limit")[0])[0] < xs[6]


def test_the_largest_loss_of_a_history_is_first_and_what_did_not_change_is_last():
    worse = [*STEP[:6], *(value / 2 for value in STEP[6:])]
    runs = {
        "once": [2.0],
        "same": [2.0] * 12,
        "gain": STEP[::-1],
        "loss": STEP,
        "large": worse,
        "untimed": [None] * 12,
    }
    found = curves.worst_first(histories(*(history_of(*runs[name], nodeid=name) for name in runs)))
    assert ["large", "loss", "gain", "same"] == [each.nodeid for each in found]


def test_figures_of_runs_that_cannot_be_compared_say_what_differs():
    machines = ("CPU one, python 3.13", "CPU two, python 3.13")
    found = series(histories(*(history_of(2.0, 2.0, fingerprint=each) for each in machines)))
    known = curves.facts_of_all(found)
    assert ["python 3.13"] == known
    captions = [curves.of_series(each, known).caption for each in found]
    assert ["; CPU one", "; CPU two"] == [caption[caption.index(";") :] for caption in captions]


def called(busy=1.5e-3, *, gpu=GPU, **changes):
    """Return the record of a call of 2 ms, with 4 ms of uploads before it and 1 ms of downloads after it."""
    on_gpu = measurement(gpu, 2e-3, inspection=Inspection(host_time=1e-3, device_time=busy))
    moved = Transfer(h2d=copies(4e-3), d2h=copies(1e-3))
    return record(**{"gpu": on_gpu, "transfer": moved, "scope": "call", **changes})


@for_each(
    ("found", "said"),
    [
        (
            called(),
            "A call with its copies on the GPU takes 7.00 ms: upload 4.00 ms (57 %), device busy 1.50",
        ),
        (called(), "busy 1.50 ms (21 %), launch and idle 500 us (7 %), download 1.00 ms (14 %)."),
        # A device is busy for no longer than a call takes.
        (called(busy=3e-3), "upload 4.00 ms (57 %), device busy 2.00 ms (29 %), download"),
        (called(busy=None), "call 2.00 ms (29 %), download 1.00 ms (14 %)."),
        (called(diagnosis=(Diagnosis(code="side_stream", sentence="-"),)), "call 2.00 ms (29 %)"),
        (
            called(demand=Demand(transfer="once", calls=10)),
            "with its share of the copies on the GPU takes 2.50 ms: upload 400 us (16 %)",
        ),
        (called(transfer=None), "A call on the GPU takes 2.00 ms: device busy 1.50 ms (75 %)"),
        (called(gpu=EMULATED), "A call with its copies on an emulated device takes"),
    ],
)
def test_a_call_is_copies_work_of_the_device_and_the_rest(found, said):
    assert said in calls.parts_sentence(found)


@for_each(
    "found",
    [
        *(skipped("a"), record(gpu=None), record(gpu=measurement(GPU, 0)), scaled(4, 0.5)),
        *(called(scope="body"), called(busy=None, transfer=None)),
    ],
)
def test_without_two_parts_there_is_no_sentence(found):
    assert calls.parts_sentence(found) is None


@given(records())
def test_any_record_has_a_sentence_or_none(found):
    assert "nan" not in (calls.parts_sentence(found) or "")


def test_equal_speedups_lie_at_one_place_in_every_row():
    shown = [record(speedup=speedup(value, 0.9 * value, 1.1 * value)) for value in (0.5, 4.0, 64.0)]
    rows = [forest.row(each, speedup_axis(shown, forest.LENGTH)) for each in shown]
    assert 1 == len({paths(row, "limit")[0] for row in rows})
    one, two, three = (numbers(paths(row, "passed", "range")[0])[0] for row in rows)
    # 4 is eight times 0.5, and 64 sixteen times 4: their distances are as the logarithms.
    assert abs((three - two) / (two - one) - 4 / 3) < 0.01


@for_each(("changes", "count"), [({"baseline": estimate(5, 5, 5)}, 1), ({"metric": "memory"}, 0)])
def test_the_baseline_is_a_ghost_that_is_seen_although_it_is_narrow(changes, count):
    shown = record(comparisons=(comparison("improved", **changes),))
    ghosts = paths(forest.row(shown, speedup_axis([shown], forest.LENGTH)), "baseline", "area")
    assert [True] * count == [float(re.search(r"h([\d.]+)", ghost)[1]) >= 5 for ghost in ghosts]


def test_the_legend_has_what_is_drawn():
    assert [] == forest.legend([skipped("a.py::test_a")])
    free = record(demand=Demand(), status="recorded")
    assert ["nothing required", "1x"] == [words for words, _ in forest.legend([free])]
    compared = record(comparisons=(comparison("improved"),))
    assert ["passed", "1x", "required", "baseline"] == [words for words, _ in forest.legend([compared])]


@for_each(
    ("status", "look"),
    [
        ("passed", ("passed", "range", "a")),
        ("failed", ("failed", "range", "L")),  # a diamond has corners
        ("inconclusive", ("inconclusive", "line", "a")),  # a ring
        ("recorded", ("muted", "range", "a")),
    ],
)
def test_a_verdict_has_a_colour_and_a_shape(status, look):
    shown = record(status=status, reason=None if status in ("passed", "recorded") else "why")
    *_, mark = forest.row(shown, speedup_axis([shown], forest.LENGTH)).marks
    point = mark.path.split("M")[2]
    assert look == (mark.style, mark.paint, "L" if "L" in point else "a")


def test_the_plot_in_a_file_of_its_own_is_whole_xml_and_says_what_it_shows():
    emulated = {"gpu": measurement(EMULATED, 1e-3), "demand": Demand(max=3, transfer="always")}
    at_most = record("a.py::test_c" + "x" * 99, **emulated)
    found = [record("a.py::test_<a>"), skipped("a.py::test_b"), at_most]
    plot = ElementTree.fromstring(svg_document(forest.plot(view.of(run_of(*found)).rows)))
    words = [element.text for element in plot.iter("{http://www.w3.org/2000/svg}text")]
    assert {"test_<a>", "10.0x [9.00, 11.0] passed, emulated", "speedup, log scale"} <= set(words)
    assert "test_b" not in words
    assert "test_<a>: 10.0x [9.00, 11.0] passed, required at least 3x" in plot.get("aria-label")
    assert "required at most 3x with copies at every call" in plot.get("aria-label")
    ElementTree.fromstring(svg_document(forest.plot([])))


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_stays_text_in_words_and_findings(text):
    figure = Figure(width=9, height=9, finding=text, words=[Word(1, 1, text)])
    drawn = ElementTree.fromstring(svg_document(figure))
    assert printable(text) == drawn.get("aria-label")
    assert printable(text) == (drawn[-1].text or "")
