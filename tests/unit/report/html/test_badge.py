"""The badge: what it says, and of which test."""

from dataclasses import replace
from xml.etree import ElementTree

import pytest
from cases import for_each
from factories import GPU, measurement, record, run_of, scaled, skipped, variants

from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.report.html import badge

EMULATED = replace(GPU, emulated=True)
FAILED = record("b.py::test_b", status="failed", reason="slow")


@for_each(
    ("records", "only", "said"),
    [
        ([record()], None, "GPU speedup: 1 passed"),
        ([record(), FAILED, skipped("c.py::test_c")], None, "GPU speedup: 1 failed, 1 passed, 1 skipped"),
        ([record(), FAILED], "test_fft", "GPU speedup: 10.0x"),
        ([record(), FAILED], "test_b", "GPU speedup: 10.0x failed"),
        ([skipped("c.py::test_c")], "test_c", "GPU speedup: skipped"),
        ([record(gpu=measurement(EMULATED, 1e-3))], "fft", "speedup, emulated: 10.0x"),
        ([], None, "GPU speedup: not measured"),
        ([record("a.py::test_b[0]"), FAILED], "test_b", "GPU speedup: 10.0x failed"),
        ([record("c/b.py::test_b"), FAILED], "b.py::test_b", "GPU speedup: 10.0x failed"),
        (variants(), "test_a", "GPU speedup: 10.0x"),
        (variants(), "a.py::test_a[cpu]", "GPU speedup: recorded"),
        ([scaled(1), scaled(4, 0.5)], "test_step[4]", "GPU scaling: efficiency 0.50"),
        ([scaled(1), scaled(4, 0.5)], "test_step[1]", "GPU scaling: recorded"),
    ],
)
def test_a_badge_says_the_verdicts_or_one_speedup(records, only, said):
    svg = ElementTree.fromstring(badge.svg(run_of(*records), only))
    assert said == svg.get("aria-label")


def test_the_worst_verdict_colours_the_badge():
    colours = [badge.svg(run_of(*records)) for records in ([record()], [record(), FAILED])]
    assert badge._GOOD in colours[0]
    assert badge._BAD in colours[1]
    assert badge._GOOD not in colours[1]


@for_each("only", ["test_", "nothing"])
def test_only_must_name_one_test(only):
    with pytest.raises(GpuPerfError, match="must name one test of the report; it names"):
        badge.svg(run_of(record(), FAILED), only)


def test_a_name_of_a_stranger_stays_text():
    svg = badge.svg(run_of(record("a.py::test[<script>]")), "<script>")
    assert "<script>" not in svg
