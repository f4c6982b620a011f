"""Times over bytes: what is a mark and what a line, and which tests share a figure."""

import pytest
from factories import CPU, EMULATED, GPU, measurement, near_roof, record, run_of, skipped, variants
from figures import figures, numbers, places
from msgspec.structs import replace

from pytest_gpuperf.report.html.page import text

EMULATION = measurement(EMULATED, 1e-3)
SIZES = (1 << 14, 1 << 18, 1 << 22, 1 << 26)


def shown(*records):
    """Return the figures over bytes of the page of these tests."""
    return figures(text(run_of(*records)), "roofs")


def over(*sizes, name="test_it", **known):
    """Return tests that move so many bytes."""
    return [near_roof(f"a.py::{name}[{size}]", size, **known) for size in sizes]


def without_copies(test):
    """Return a test whose devices offer no copies."""
    cpu, gpu = (replace(side, copy_time=None, share=None) for side in (test.roof.cpu, test.roof.gpu))
    return replace(test, roof=replace(test.roof, cpu=cpu, gpu=gpu))


def line_of(figure, style):
    """Return the places of a device's roof; the line before it is in the legend."""
    _, found = figure.paths(style)
    return places(found)


def marks_of(figure, style):
    """Return the middles of a device's marks, of which the one before is in the legend."""
    _, found = figure.paths(style, "area")
    shapes = [numbers(each) for each in found.split("z")[:-1]]
    # A circle begins on its left, and a diamond goes from there to its tip.
    return [(each[0] + 3 if style == "cpu" else each[2], each[1]) for each in shapes]


@pytest.mark.parametrize(
    ("count", "records"),
    [
        (1, over(*SIZES[:3])),
        (0, over(*SIZES[:2], *SIZES[:2])),
        (0, [*over(*SIZES[:2]), record("unknown"), skipped("skipped")]),
        (0, over(0, *SIZES[:2])),
        (0, over(*SIZES, cpu=None, gpu=None)),
        (0, list(map(without_copies, over(*SIZES)))),
        (0, []),
    ],
)
def test_three_different_sizes_with_a_roof_have_a_figure(count, records):
    assert count == len(shown(*records))
    assert bool(count) == ("Time over bytes" in text(run_of(*records)))


def test_a_line_is_the_roof_in_order_of_bytes_and_a_mark_is_a_test():
    (figure,) = shown(*over(*SIZES[::-1]), near_roof("as large", SIZES[1], cpu_share=0.1))
    for style in ("cpu", "gpu"):
        roof, marks = line_of(figure, style), marks_of(figure, style)
        across, heights = zip(*roof, strict=True)
        assert sorted(across) == [*across]
        assert sorted(heights, reverse=True) == [*heights]  # larger copies take longer, and lie above
        assert 4 == len(roof)
        assert sorted([*across, across[1]]) == pytest.approx(sorted(x for x, _ in marks), abs=0.11)


def test_a_mark_lies_above_the_roof_by_the_logarithm_of_its_share_at_every_size():
    tests = [*over(*SIZES, cpu_share=0.1), *over(*SIZES, name="test_far", cpu_share=0.01)]
    (figure,) = shown(*tests)
    roof, marks = line_of(figure, "cpu"), marks_of(figure, "cpu")
    near, far = (
        [roof - y for (_, roof), (_, y) in zip(roof, each, strict=True)] for each in (marks[:4], marks[4:])
    )
    assert near == pytest.approx([near[0]] * 4, abs=0.21)
    assert far == pytest.approx([2 * near[0]] * 4, abs=0.31)
    assert near[0] > 10


def test_of_copies_of_one_size_the_fastest_is_the_roof():
    """Each process times its own."""
    fast, *others = over(SIZES[1], SIZES[0], *SIZES[2:])
    slower = replace(fast.roof.cpu, copy_time=2 * fast.roof.cpu.copy_time)
    slow = replace(fast, nodeid="slow", roof=replace(fast.roof, cpu=slower))
    (alone,), (first,), (last,) = shown(fast, *others), shown(slow, fast, *others), shown(fast, slow, *others)
    assert 4 == len(line_of(alone, "cpu"))
    assert line_of(alone, "cpu") == line_of(first, "cpu") == line_of(last, "cpu")
    assert 5 == len(marks_of(first, "cpu"))


@pytest.mark.parametrize(
    "other",
    [
        {"gpu": measurement(replace(GPU, name="H100"), 1e-3)},
        {"gpu": measurement(replace(GPU, library="torch 3"), 1e-3)},
        {"cpu": measurement(replace(CPU, library="torch 3"), 1.0)},
    ],
)
def test_unlike_devices_share_no_line(other):
    """Their tests took turns."""
    turns = zip(over(*SIZES), over(*SIZES[:3], name="test_other", **other), strict=False)
    one, two = shown(*(each for turn in turns for each in turn), *over(SIZES[3], name="test_last"))
    for figure, count in ((one, 4), (two, 3)):
        assert count == len(line_of(figure, "cpu")) == len(line_of(figure, "gpu"))
    assert one.caption.endswith("CPU: EPYC, numpy 2; GPU: H200, cupy 13.")
    assert not two.caption.endswith("CPU: EPYC, numpy 2; GPU: H200, cupy 13.")


def test_a_test_on_the_cpu_alone_stands_with_those_of_its_cpu():
    lost = near_roof("lost", SIZES[3])
    on_cpu = [
        replace(each, gpu=None, roof=replace(each.roof, gpu=None)) for each in (lost, *over(*SIZES[:3]))
    ]
    (both,) = shown(*on_cpu[:1], *over(*SIZES[:3], name="test_both"))
    assert 4 == len(marks_of(both, "cpu"))
    assert 3 == len(marks_of(both, "gpu"))
    (alone,) = shown(*on_cpu)
    assert 4 == len(marks_of(alone, "cpu"))
    assert [] == alone.paths("gpu") == alone.paths("gpu", "area")
    assert ["CPU's roof", "CPU"] == [word for word in alone.texts if "CPU" in word]


def test_a_test_in_two_variants_is_one_mark():
    found = [
        replace(each, roof=test.roof) for test in over(*SIZES) for each in variants(f"a.py::{test.nodeid}")
    ]
    (figure,) = shown(*found)
    assert 4 == len(marks_of(figure, "cpu")) == len(marks_of(figure, "gpu"))


@pytest.mark.parametrize("share", [None, 0.0])
def test_a_call_whose_share_is_not_known_has_no_mark_and_its_copy_is_in_the_line(share):
    (figure,) = shown(*over(*SIZES[:3]), near_roof("unknown", SIZES[3], gpu_share=share))
    assert figure.finding.endswith("the GPU's calls are at 50.0 % of its roof")
    assert 4 == len(line_of(figure, "gpu"))
    assert 3 == len(marks_of(figure, "gpu"))


def test_one_copy_is_no_line():
    rest = [replace(each, roof=replace(each.roof, gpu=None)) for each in over(*SIZES[1:])]
    (figure,) = shown(*over(SIZES[0]), *rest)
    assert "GPU" in figure.texts
    assert "GPU's roof" not in figure.texts
    assert [] == figure.paths("gpu")


def test_each_test_has_a_mark_however_many_there_are():
    (figure,) = shown(*over(*range(1000, 100_000, 990)))
    assert 100 == len(marks_of(figure, "cpu")) == len(marks_of(figure, "gpu"))
    assert {"1.00 kB", "99.0 kB"} < {*figure.texts}  # the ends


def test_the_figure_says_in_words_how_near_the_calls_are():
    (figure,) = shown(
        *over(*SIZES[:2], gpu_share=0.2, gpu=EMULATION), near_roof("near", SIZES[2], gpu=EMULATION)
    )
    assert (
        "Time over bytes: 3 tests, 16.4 kB to 4.19 MB; the CPU's calls are at 25.0 % of its roof; "
        "the emulated device's calls are at 20.0 % to 50.0 % of its roof"
    ) == figure.finding
    assert {"CPU's roof", "CPU", "emulated device's roof", "emulated device"} < {*figure.texts}
