"""Options: what a marker may ask, and how misuse is refused."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from cases import for_each

from pytest_gpuperf.collection.markers import ARGUMENTS, demand, scaling, size, threshold
from pytest_gpuperf.model.demand import Demand


def asked(*args, **kwargs) -> Demand:
    return demand(pytest.mark.speedup(*args, **kwargs).mark)


def refusal(*args, **kwargs) -> str:
    with pytest.raises(ValueError, match=r".") as refused:
        asked(*args, **kwargs)
    return str(refused.value)


@for_each("marker", ARGUMENTS)
def test_a_value_that_no_argument_takes_is_refused_in_words_for_each_of_them(marker):
    for name, argument in ARGUMENTS[marker].items():
        if argument.type is not Any:
            mark = getattr(pytest.mark, marker)(**{name: {"a": "dictionary"}}).mark
            with pytest.raises(ValueError, match=rf"^{name} must be .+, not {{'a': 'dictionary'}}$"):
                {"speedup": demand, "offload_threshold": threshold, "scaling": scaling}[marker](mark)


@for_each(
    ("expected", "args", "kwargs"),
    [
        (Demand(), (), {}),
        (Demand(), (), {"transfer": "never", "calls": None}),
        (Demand(min=3), (3,), {}),
        (Demand(min=3), (), {"min": 3}),
        (Demand(min=None), (None,), {}),
        (Demand(min=1e300), (10**300,), {}),  # a number that a report can hold
        (Demand(min=2, max=2), (2,), {"max": 2}),
        (Demand(rtol=0, atol=1e-3), (), {"rtol": 0, "atol": 1e-3}),
        (Demand(check=False), (), {"check": False, "rtol": None}),
        (Demand(max_time=86_400), (), {"max_time": 86_400}),
        (Demand(max_memory=512), (), {"max_memory": 512}),
        (Demand(max_memory=512_000), (), {"max_memory": "512 kB"}),
        (Demand(max_memory=1_500_000_000), (), {"max_memory": "1.5 GB"}),
        (Demand(max_memory=3 * 2**29), (), {"max_memory": "1.5GiB"}),
        (Demand(max_memory=2 * 2**40), (), {"max_memory": "2tib"}),
    ],
)
def test_a_marker_becomes_its_demand(expected, args, kwargs):
    assert expected == asked(*args, **kwargs)


@for_each("devices", [range(1, 3), [np.int64(2), 1], (1, 2)])
def test_numbers_of_devices_come_as_any_list(devices):
    assert (1, 2) == scaling(pytest.mark.scaling(devices).mark)[0].counts


@for_each(
    ("expected", "given"),
    [
        ("devices must be a list of at least two different numbers", [4, [1], [1, 1], [0, 2]]),
        ("efficiency must be a number above 0 and below 1", [{"efficiency": 80}, {"efficiency": 1}]),
        ("mode must be 'strong' or 'weak', not 'wide'", [{"mode": "wide"}]),
        ("has no argument 'min': the valid arguments are devices, mode", [{"min": 3}]),
    ],
)
def test_a_scaling_marker_refuses_what_makes_no_curve(expected, given):
    for each in given:
        named = {"devices": [1, 2], **(each if isinstance(each, dict) else {"devices": each})}
        with pytest.raises(ValueError, match=f"^{expected}"):
            scaling(pytest.mark.scaling(**named).mark)


@for_each("value", [np.float64(3), np.float32(3), np.int64(3), Fraction(3), Decimal(3)])
def test_numbers_of_other_libraries_become_pythons_own(value):
    found = asked(value, rtol=value)
    assert {type(found.min), type(found.rtol)} <= {int, float}
    assert (3, 3) == (found.min, found.rtol)


HUGE = 10**400  # no float, and no number that a report can hold
NAMELESS = type("Nameless", (), {"__repr__": lambda _: 1 // 0})()
NOT_ABOVE_ZERO = [0, -1, float("nan"), float("inf"), "3", True, [3], 1j, np.bool_(True)]  # noqa: FBT003
NOT_FROM_ZERO = [-1, -1e-9, float("nan"), float("inf"), "0", False, (0,)]


@for_each(
    ("names", "values", "valid"),
    [
        (("min", "max"), NOT_ABOVE_ZERO, "a finite number above 0, not {}"),
        (
            *(("max_time",), [*NOT_ABOVE_ZERO, 86_401]),
            "a finite number of seconds above 0 and at most 86400, a day, not {}",
        ),
        (("rtol", "atol"), NOT_FROM_ZERO, "a finite number of at least 0, not {}"),
        (("check", "latency"), [None, 0, 1, "no"], "True or False, not {}"),
        (("transfer",), [None, "sometimes", 1, True, "Always"], "'never', 'always' or 'once', not {}"),
        (("calls",), [0, -1, 1.5, "1", True], "an integer of at least 1, not {}"),
        (("max_memory",), [0, "0B", "lots", "5 apples", "MB", "", True], "a number of bytes above 0"),
        # What no report can hold, or cannot even be shown.
        (("min", "max", "max_time", "max_memory", "rtol", "atol", "calls"), [HUGE], ""),
        (("min",), [Fraction(HUGE), Fraction(1, HUGE)], ""),
        (("max_memory",), ["9" * 400 + "GB", 10**5000], ""),
        (("check",), [NAMELESS], "True or False, not <Nameless, which cannot be shown: ZeroDivisionError>"),
    ],
)
def test_a_value_that_is_not_valid_is_named_with_what_would_be(names, values, valid):
    for name in names:
        for value in values:
            shown = repr(value) if "{}" in valid else ""
            assert refusal(**{name: value}).startswith(f"{name} must be {valid.format(shown)}")


@for_each(
    ("expected", "args", "kwargs"),
    [
        ("has no argument 'least': the valid arguments are min, max, transfer, calls", (), {"least": 3}),
        ("has no argument 'mim': use min", (), {"mim": 3}),
        ("min is given twice", (3,), {"min": 3}),
        ("one positional argument, min; 2 were given", (3, 4), {}),
        (
            "transfer='once' needs calls=N, the number of calls that share one transfer",
            *((), {"transfer": "once"}),
        ),
        ("calls=5 has no effect without transfer='once'", (), {"calls": 5}),
        ("calls=5 has no effect without transfer='once'", (), {"calls": 5, "transfer": "always"}),
        ("min must be at most max; min=3 is above max=2", (3,), {"max": 2}),
        ("rtol and atol", (), {"check": False, "rtol": 0}),
        ("check=False", (), {"check": False, "atol": 0}),
        ("max must be", (), {"max": -1, "rtol": -1}),  # the first of two
    ],
)
def test_arguments_that_make_no_sense_together_are_refused(expected, args, kwargs):
    assert expected in refusal(*args, **kwargs)


@for_each(
    ("name", "right"), [("maximum", "max"), ("minimum", "min"), ("timeout", "max_time"), ("rel", "rtol")]
)
def test_an_argument_that_is_not_ours_is_answered_with_ours(name, right):
    said = refusal(**{name: 1})
    assert said.startswith(f"has no argument '{name}': ")
    assert f"use {right}" in said


@for_each("name", ["at_most", "at_least"])
def test_a_size_that_no_report_can_hold_is_none_and_no_limit(name):
    assert [None, None, 3.0] == [size(HUGE), size(Fraction(HUGE)), size(3)]
    with pytest.raises(ValueError, match=r"^at_\w+ must be a finite number"):
        threshold(pytest.mark.offload_threshold("n", **{name: HUGE}).mark)
