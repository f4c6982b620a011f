"""Options: what a marker may ask, and how misuse is refused."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from cases import for_each

from pytest_gpuperf.collection.markers import ARGUMENTS, demand, scaling, signature, size, threshold
from pytest_gpuperf.model.demand import Demand


def asked(*args, **kwargs) -> Demand:
    return demand(pytest.mark.speedup(*args, **kwargs).mark)


def refusal(*args, **kwargs) -> str:
    with pytest.raises(ValueError, match=r".") as refused:
        asked(*args, **kwargs)
    return str(refused.value)


def test_a_signature_has_every_argument_with_its_default():
    expected = (
        'scaling(devices, *, mode="strong", efficiency=None, rtol=None, atol=None, check=True, max_time=None)'
    )
    assert expected == signature("scaling")
    assert "offload_threshold(parameter, *, at_most=None, at_least=None)" == signature("offload_threshold")
    assert signature("speedup").startswith('speedup(min=None, *, max=None, transfer="never", calls=None, ')


@for_each("marker", ARGUMENTS)
def test_a_value_that_no_argument_takes_is_refused_in_words_for_each_of_them(marker):
    for name, argument in ARGUMENTS[marker].items():
        if argument.type is not Any:
            mark = getattr(pytest.mark, marker)(**{name: {"a": "dictionary"}}).mark
            with pytest.raises(ValueError, match=rf"^{name} must be .+, not {{'a': 'dictionary'}}$"):
                {"speedup": demand, "offload_threshold": threshold, "scaling": scaling}[marker](mark)


ABOVE_ZERO = [0, -1, 0.0, float("nan"), float("inf"), "3", True, [3], 1j, np.bool_(True)]  # noqa: FBT003
FROM_ZERO = [-1, -1e-9, float("nan"), float("inf"), "0", False, (0,)]


def test_a_bare_marker_asks_nothing():
    assert Demand() == asked()
    assert asked().bare


@for_each(
    ("expected", "args", "kwargs"),
    [
        (Demand(min=3), (3,), {}),
        (Demand(min=3), (), {"min": 3}),
        (Demand(min=None), (None,), {}),
        (Demand(max=1.5), (), {"max": 1.5}),
        (Demand(min=2, max=2), (2,), {"max": 2}),
        (Demand(rtol=0, atol=1e-3), (), {"rtol": 0, "atol": 1e-3}),
        (Demand(check=False), (), {"check": False}),
        (Demand(check=False), (), {"check": False, "rtol": None}),
        (Demand(max_time=0.5), (), {"max_time": 0.5}),
        (Demand(), (), {"transfer": "never", "calls": None}),
    ],
)
def test_a_marker_becomes_its_demand(expected, args, kwargs):
    assert expected == asked(*args, **kwargs)


@for_each("value", [np.float64(3), np.float32(3), np.int64(3), Fraction(3), Decimal(3)])
def test_numbers_of_other_libraries_become_pythons_own(value):
    found = asked(value, rtol=value)
    assert {type(found.min), type(found.rtol)} <= {int, float}
    assert (3, 3) == (found.min, found.rtol)


def test_an_unknown_argument_is_named_with_the_valid_ones():
    text = refusal(least=3)
    assert "has no argument 'least'" in text
    assert "min, max, transfer, calls, latency, max_memory, rtol, atol, check, max_time" in text


def test_min_by_position_and_by_name_is_refused():
    assert "min is given twice" in refusal(3, min=3)


def test_a_second_positional_argument_is_refused():
    text = refusal(3, 4)
    assert "one positional argument, min; 2 were given" in text
    assert "min, max" in text


@for_each("name", ["min", "max", "max_time"])
def test_limits_and_times_are_finite_numbers_above_zero(name):
    for value in ABOVE_ZERO:
        text = refusal(**{name: value})
        assert text.startswith(f"{name} must be a finite number")
        assert "above 0" in text
        assert repr(value) in text


def test_a_measurement_takes_a_day_at_most():
    assert 86_400 == asked(max_time=86_400).max_time
    expected = "max_time must be a finite number of seconds above 0 and at most 86400, a day, not 86401"
    assert expected == refusal(max_time=86_401)


def test_a_positional_min_is_checked_too():
    assert refusal("3").startswith("min must be a finite number above 0, not '3'")


HUGE = 10**400  # no float, and no number that a report can hold
NAMELESS = type("Nameless", (), {"__repr__": lambda _: 1 // 0})()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, HUGE) for name in ("min", "max", "max_time", "max_memory", "rtol", "atol")),
        ("min", Fraction(HUGE)),
        ("min", Fraction(1, HUGE)),
        ("max_memory", "9" * 400 + "GB"),
        ("max_memory", 10**5000),
        ("check", NAMELESS),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isidentifier() else type(value).__name__,
)
def test_values_that_no_report_can_hold_are_refused(name, value):
    assert refusal(**{name: value}).startswith(f"{name} must be ")


def test_so_many_calls_are_refused():
    assert refusal(transfer="once", calls=HUGE).startswith("calls must be an integer")


def test_a_large_integer_is_a_number_that_a_report_can_hold():
    assert (float, 1e300) == (type(asked(10**300).min), asked(10**300).min)


@pytest.mark.parametrize("given", [{"at_most": HUGE}, {"at_least": HUGE}], ids=" ".join)
def test_a_threshold_that_no_report_can_hold_is_refused(given):
    with pytest.raises(ValueError, match=r"^at_\w+ must be a finite number"):
        threshold(pytest.mark.offload_threshold("n", **given).mark)


def test_a_size_that_no_report_can_hold_is_none():
    assert [None, None, 3.0] == [size(HUGE), size(Fraction(HUGE)), size(3)]


@for_each("name", ["rtol", "atol"])
def test_tolerances_are_finite_numbers_from_zero_up(name):
    for value in FROM_ZERO:
        expected = f"{name} must be a finite number of at least 0, not {value!r}"
        assert refusal(**{name: value}).startswith(expected)


@for_each("value", [None, 0, 1, "no"])
def test_check_is_true_or_false(value):
    assert f"check must be True or False, not {value!r}" == refusal(check=value)


@for_each("value", [None, "sometimes", 1, True, "Always"])
def test_transfer_is_one_of_three_words(value):
    assert f"transfer must be 'never', 'always' or 'once', not {value!r}" == refusal(transfer=value)


@for_each("value", [0, -1, 1.5, "1", True])
def test_calls_is_a_whole_number(value):
    assert f"calls must be an integer of at least 1, not {value!r}" == refusal(calls=value)


def test_one_transfer_for_some_calls_says_for_how_many():
    assert (
        refusal(transfer="once")
        == "transfer='once' needs calls=N, the number of calls that share one transfer"
    )


@for_each("given", [{}, {"transfer": "always"}, {"transfer": "never"}])
def test_calls_without_one_transfer_are_refused_and_not_ignored(given):
    assert "calls=5 has no effect without transfer='once'" in refusal(calls=5, **given)


@for_each("value", [None, 0, 1, "no"])
def test_latency_is_true_or_false(value):
    assert refusal(latency=value) == f"latency must be True or False, not {value!r}"


@for_each(
    ("expected", "text"),
    [
        (512, 512),
        (512, "512B"),
        (512_000, "512 kB"),
        (512_000_000, "512MB"),
        (1_500_000_000, "1.5 GB"),
        (1024, "1KiB"),
        (3 * 2**29, "1.5GiB"),
        (2 * 2**40, "2tib"),
    ],
)
def test_memory_is_a_number_of_bytes_with_or_without_a_unit(expected, text):
    assert demand(pytest.mark.speedup(max_memory=text).mark).max_memory == expected


@for_each("value", [0, -1, "0B", "lots", "5 apples", "MB", "", True, float("inf")])
def test_memory_that_is_no_number_of_bytes_is_refused(value):
    assert refusal(max_memory=value).startswith("max_memory must be a number of bytes above 0")


def test_min_above_max_is_refused():
    assert refusal(3, max=2) == "min must be at most max; min=3 is above max=2"


@for_each("name", ["rtol", "atol"])
def test_a_tolerance_without_a_comparison_is_refused(name):
    text = refusal(check=False, **{name: 0})
    assert "rtol and atol" in text
    assert "check=False" in text


def test_the_first_of_two_wrong_arguments_is_named():
    assert refusal(max=-1, rtol=-1).startswith("max must be")
