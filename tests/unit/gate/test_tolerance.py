"""What a gate's texts mean, and what is wrong with them."""

import re

import pytest
from cases import for_each

from pytest_gpuperf.gate import tolerance
from pytest_gpuperf.model.comparison import Tolerance


def test_a_text_is_a_metric_and_the_share_that_it_may_lose():
    assert tolerance.parse("speedup:10%") == Tolerance(metric="speedup", share=0.1)
    assert tolerance.parse("memory: 5 %") == Tolerance(metric="memory", share=0.05)
    assert tolerance.parse("improvement") == "improvement"


@for_each(
    ("text", "cause"),
    [
        ("speed:10%", "'speed' is not a metric; expected one of speedup"),
        ("speedup", "expected METRIC:PERCENT"),
        ("speedup:ten%", "expected METRIC:PERCENT"),
        ("gpu_time:-1%", "expected METRIC:PERCENT"),
        ("gpu_time:inf%", "expected METRIC:PERCENT"),
        ("speedup:100%", "speedup cannot lose 100 % or more; pass less, as in speedup:10%"),
        ("speedup:10", "'speedup:10' has no unit: write speedup:10% for 10 percent"),
        ("gpu_time: 0.1 ", "'gpu_time: 0.1 ' has no unit: write gpu_time:0.1% for 0.1 percent"),
        ("improvement:5%", "improvement takes no percentage"),
    ],
)
def test_a_text_that_means_nothing_is_refused_with_what_is_expected(text, cause):
    with pytest.raises(ValueError, match=re.escape(cause)):
        tolerance.parse(text)


def test_a_time_may_grow_by_more_than_itself():
    assert tolerance.parse("gpu_time:150%").share == 1.5


def test_improvement_alone_and_a_metric_twice_are_refused():
    ten = Tolerance(metric="speedup", share=0.1)
    with pytest.raises(ValueError, match="improvement needs a tolerance to be beyond"):
        tolerance.tolerances_of(["improvement"])
    with pytest.raises(ValueError, match="speedup"):
        tolerance.tolerances_of([ten, ten])
    assert tolerance.tolerances_of([ten, "improvement"]) == (ten,)
