"""What a gate's texts mean, and what is wrong with them."""

import re

import pytest
from cases import for_each

from pytest_gpuperf.gate import tolerance
from pytest_gpuperf.model.comparison import Tolerance


@for_each(
    ("expected", "given"),
    [
        (Tolerance(metric="speedup", share=0.1), "speedup:10%"),
        (Tolerance(metric="memory", share=0.05), "memory: 5 %"),
        (Tolerance(metric="speedup", share=0.9), "speedup:90%"),  # a factor of ten is the largest
        (Tolerance(metric="gpu_time", share=9), "gpu_time:900%"),
        ("improvement", "improvement"),
    ],
)
def test_a_text_is_a_metric_and_the_share_that_it_may_lose(expected, given):
    assert expected == tolerance.parse(given)


@for_each(
    ("text", "cause"),
    [
        ("hours:10%", "'hours' is not a metric; expected one of speedup"),
        ("speedup", "expected METRIC:PERCENT"),
        ("gpu_time:-1%", "expected METRIC:PERCENT"),
        ("gpu_time:inf%", "expected METRIC:PERCENT"),
        ("speedup:100%", "a tolerance of speedup is at most 90 %; pass less, as in speedup:10%"),
        (
            "efficiency:90.1%",
            "is a check that hardly anything fails: a tolerance of efficiency is at most 90 %",
        ),
        ("gpu_time:1000000%", "a tolerance of gpu_time is at most 900 %; pass less, as in gpu_time:10%"),
        ("speedup:10", "'speedup:10' has no unit: write speedup:10% for 10 percent"),
        ("gpu_time: 0.1 ", "'gpu_time: 0.1 ' has no unit: write gpu_time:0.1% for 0.1 percent"),
        ("improvement:5%", "or improvement without a percentage"),
    ],
)
def test_a_text_that_means_nothing_is_refused_with_what_is_expected(text, cause):
    with pytest.raises(ValueError, match=re.escape(cause)):
        tolerance.parse(text)


def test_improvement_alone_and_a_metric_twice_are_refused():
    ten = Tolerance(metric="speedup", share=0.1)
    with pytest.raises(ValueError, match="improvement needs a tolerance to be beyond"):
        tolerance.tolerances_of(["improvement"])
    with pytest.raises(ValueError, match="speedup"):
        tolerance.tolerances_of([ten, ten])
    assert tolerance.tolerances_of([ten, "improvement"]) == (ten,)
