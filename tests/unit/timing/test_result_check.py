"""The result check: which answers are the same, and what is said of those that are not."""

from itertools import product
from math import inf, nan, sqrt

import numpy as np
import pytest
from cases import for_each
from factories import Answer, on_host

from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import ResultCheck
from pytest_gpuperf.timing.leaves import snapshot
from pytest_gpuperf.timing.result_check import compare

HALF, SINGLE, DOUBLE = sqrt(2**-10), sqrt(2**-23), sqrt(2**-52)  # 0.03125, 3.45e-4, 1.49e-8

ANSWER = {"x": (np.ones(3), [Answer(2, "text"), None]), "y": Answer(np.zeros(2), 1.0)}
HIDDEN = np.ma.masked_array([1.0, 2.0], mask=True).mean()  # the masked constant
NO_TIME = np.array(["NaT", 5], "datetime64[s]")


def compared(cpu, gpu, **demand) -> ResultCheck:
    return compare(on_host(cpu), on_host(gpu), Demand(**demand))


@for_each(
    ("expected", "cpu", "gpu"),
    [
        (HALF, "float16", "float32"),
        (HALF, "float64", "float16"),
        (SINGLE, "float32", "float32"),
        (SINGLE, "complex64", "complex128"),
        (DOUBLE, "float64", "float64"),
    ],
)
def test_half_of_the_digits_of_the_coarser_dtype_must_agree(expected, cpu, gpu):
    ones = np.ones(16)
    found = compared(ones.astype(cpu), ones.astype(gpu))
    assert expected == pytest.approx(found.tolerance, rel=1e-6)
    assert (True, 0.0, None) == (found.agreed, found.error, found.reason)


class Narrow:
    """An array of a device; a dtype that NumPy lacks comes down as float32."""

    def __init__(self, dtype, on_host="float32"):
        self.dtype = dtype
        self.shape = (2,)
        self.values = np.ones(2, on_host)


def brought_down(result, reduced_eps=None) -> list:
    return snapshot(result, lambda value: isinstance(value, Narrow), lambda array: array.values, reduced_eps)


@for_each(
    ("bits", "dtype"),
    [
        (7, "torch.bfloat16"),
        (3, "float8_e4m3"),
        (3, "torch.float8_e4m3fn"),
        (2, "float8_e5m2fnuz"),
        (10, "torch.complex32"),
    ],
)
def test_a_dtype_that_numpy_lacks_keeps_its_own_tolerance(bits, dtype):
    narrow, double = brought_down(Narrow(dtype)), on_host(np.ones(2))
    for cpu, gpu in ((narrow, narrow), (narrow, double), (double, narrow)):
        found = compare(cpu, gpu, Demand())
        assert (True, 2 ** (-bits / 2)) == (found.agreed, pytest.approx(found.tolerance))


@for_each(
    ("expected", "dtype"),
    [(2**-4, "float32"), (2**-4, "complex64"), (HALF, "float16"), (DOUBLE, "float64"), (2**-3.5, "bfloat16")],
)
def test_a_mode_that_rounds_float32_more_sets_the_tolerance_of_float32_alone(expected, dtype):
    found = brought_down(Narrow(dtype, "float32" if dtype == "bfloat16" else dtype), 2**-8)
    assert compare(found, found, Demand()).tolerance == pytest.approx(expected)


@for_each(("dtype", "tolerance"), [("float32", SINGLE), ("float64", DOUBLE)])
@for_each(("expected", "share"), [(True, 0.9), (False, 1.1)])
def test_the_tolerance_bounds_the_relative_error_in_the_norm(expected, share, dtype, tolerance):
    cpu = np.ones(100, dtype)
    gpu = np.ones(100, dtype)
    gpu[0] += 10 * share * tolerance  # ||gpu - cpu|| / ||cpu|| = gpu[0] / sqrt(100)
    found = compared(cpu, gpu)
    assert expected is found.agreed
    assert share * tolerance == pytest.approx(found.error, rel=1e-2)


def hidden(dtype, computed=slice(0), shape=(384, 384)):
    """Return an answer with one large element, and it with zeros but where it was computed."""
    complete = np.random.default_rng(0).uniform(-1, 1, shape).astype(dtype)
    partial = np.zeros_like(complete)
    partial[computed] = complete[computed]
    lost = np.linalg.norm(complete - partial)
    complete.reshape(-1)[0] = partial.reshape(-1)[0] = lost / np.finfo(dtype).eps ** 0.6
    return complete, partial


@for_each("dtype", ["float32", "float64", "complex64"])
@for_each(
    ("computed", "shape"),
    [
        (slice(2), (384, 384)),
        ((slice(None), slice(100)), (384, 384)),
        (slice(0, 10_000), (50_000,)),
    ],
)
def test_a_part_left_zero_beside_a_large_element_differs(dtype, computed, shape):
    complete, partial = hidden(dtype, computed, shape)
    for cpu, gpu, kind in ((complete, partial, "GPU"), (partial, complete, "CPU")):
        found = compared(cpu, gpu)
        assert found.error < found.tolerance, "the norm does not see it"
        assert found.agreed is False
        assert f"the {kind} left zeros in " in found.reason


def test_a_part_that_is_zero_on_both_devices_is_no_part_of_the_answer():
    cpu, gpu = (np.pad(part, ((0, 99), (0, 0))) for part in hidden("float32", slice(2), (8, 384)))
    assert compared(cpu, gpu).reason == (
        "result: the GPU left zeros in 75 % of the values that differ from zero on the other device"
    )


def test_small_values_that_are_wrong_beside_large_ones_may_be_rounding():
    complete, partial = hidden("float32")
    assert compared(complete, 2 * partial - complete).agreed is True, "all signs but one are wrong"


def honest_fft(dtype):
    """A convolution with an identity is exact where it is direct, and leaves noise through an FFT."""
    direct = np.zeros((64, 64), dtype)
    direct[:4, :4] = np.random.default_rng(0).uniform(-100, 100, (4, 4))
    spectrum = np.fft.rfft2(direct)
    single = spectrum.astype(np.complex64) if dtype != "float64" else spectrum
    return direct, np.fft.irfft2(single, s=direct.shape).astype(dtype)


def honest_mean(dtype):
    """Constant rows, less a mean of which one device has the last digits wrong."""
    values = np.random.default_rng(0).standard_normal((256, 256)).astype(dtype)
    values[::3] = 0
    residue = values.copy()
    residue[::3] = np.finfo(dtype).eps ** 0.5 * np.linspace(0.5, 1, 86)[:, None]
    return values, residue


def honest_underflow(dtype):
    """Numbers below the normal ones, that a GPU may flush to zero."""
    values = np.random.default_rng(0).uniform(0, 1, (64, 64)).astype(dtype)
    values[1:] *= np.finfo(dtype).tiny
    flushed = values.copy()
    flushed[1:] = 0
    return values, flushed


@for_each("dtype", ["float16", "float32", "float64"])
@for_each("case", [honest_fft, honest_mean, honest_underflow])
def test_zeros_that_rounding_explains_agree(case, dtype):
    for cpu, gpu in (case(dtype), reversed(case(dtype))):
        found = compared(cpu, gpu)
        assert (True, None) == (found.agreed, found.reason)


@for_each("dtype", ["float16", "float32"])
def test_a_row_that_a_comparison_switches_off_agrees(dtype):
    values = np.random.default_rng(0).standard_normal((4096, 64)).astype(dtype)
    values[7] *= 1 if dtype == "float16" else 0.01
    gated = values.copy()
    gated[7] = 0
    assert compared(values, gated).agreed is True


def test_the_error_is_that_of_the_worst_leaf():
    cpu = [np.ones(4, "float32"), np.ones(4)]
    gpu = [np.full(4, 1 + 2**-20, "float32"), np.full(4, 1 + 2**-40)]
    found = compared(cpu, gpu)
    assert 2**-20 == pytest.approx(found.error, rel=1e-3)
    assert pytest.approx(SINGLE, rel=1e-6) == found.tolerance


@for_each("scale", [1e300, 1e-300, 1e-160])
def test_the_size_of_the_values_does_not_matter(scale):
    cpu, close, wrong = (scale * np.array(values) for values in ([1, 2.0], [1, 2.0 + 1e-9], [1, 2.1]))
    assert compared(cpu, close).agreed is True
    assert compared(cpu, wrong).agreed is False


def test_an_error_beyond_every_float_is_written_as_a_number():
    found = compared(np.array([1.7e308]), np.array([-1.7e308]), rtol=0.1)
    assert found.agreed is False
    assert found.error < inf


@for_each("tolerance", [{"atol": 1.0}, {"rtol": 0.5}])
def test_whole_numbers_are_compared_within_a_tolerance_that_was_asked_for(tolerance):
    assert compared(np.array([2, 3]), np.array([2, 4]), **tolerance).agreed is True
    assert compared(np.array([2, 3]), np.array([2, 6]), **tolerance).agreed is False


@for_each(
    ("expected", "cpu", "gpu"),
    [
        (True, np.array([1, 2]), np.array([1, 2], "uint8")),  # whole numbers of other widths
        (False, np.array([True, False]), np.array([True, True])),
        (True, "yes", "yes"),
        (False, "yes", "no"),
        (False, b"a", b"a\0"),
        (False, np.zeros(3), np.full(3, 1e-30)),
        *((True, np.ones((0, 3), dtype), np.ones((0, 3), dtype)) for dtype in "fqF?"),  # empty ones
        (False, np.array([1 + 1j]), np.array([1 - 1j])),
        (True, np.array([complex(inf, nan), 1]), np.array([complex(inf, nan), 1])),
        (True, np.array([1e6, 1e-6]), np.array([1e6, 0.0])),  # the norm judges the array
        (False, [object(), 1.0], [object(), 2.0]),  # wrong beside something unknown
        (True, HIDDEN, HIDDEN),
        (True, NO_TIME, NO_TIME.copy()),
        (True, np.ma.masked_array([0.0, 2.0]), np.array([0.0, 2.0])),
    ],
)
def test_values_are_the_same_or_other_ones(expected, cpu, gpu):
    assert expected is compared(cpu, gpu).agreed


@for_each(
    ("expected", "cpu", "gpu"),
    [
        (True, [nan, 1.0], [nan, 1.0]),
        (True, [inf, -inf, 1.0], [inf, -inf, 1.0]),
        (False, [1.0, 1.0], [nan, 1.0]),
        (False, [inf, 1.0], [-inf, 1.0]),
        (False, [1.0, 1.0], [inf, 1.0]),
        (False, [inf, 1.0], [nan, 1.0]),
        (False, [nan, 1.0], [nan, 2.0]),
        (False, [inf, 1.0], [inf, 2.0]),
    ],
)
def test_nan_and_infinities_stand_in_the_same_places(expected, cpu, gpu):
    for dtype, demand in product(["float64", "float32", "complex128"], [{}, {"rtol": 0.1}]):
        assert expected is compared(np.array(cpu, dtype), np.array(gpu, dtype), **demand).agreed, (
            dtype,
            demand,
        )


@for_each("tolerance", [{}, {"rtol": 1e-3}])
@for_each(
    ("expected", "cpu", "gpu"),
    [
        (False, complex(nan, 1), complex(1, nan)),
        (True, complex(nan, 1), complex(nan, 1 + 1e-9)),
        (True, complex(nan, 1), complex(nan, nan)),  # as libraries make products of the same number
        (False, complex(1, nan), complex(5, nan)),
    ],
)
def test_nan_in_one_component_leaves_the_other_one_to_be_compared(expected, cpu, gpu, tolerance):
    for pair in ((cpu, gpu), (gpu, cpu)):
        assert expected is compared(*(np.array([[2, value]]) for value in pair), **tolerance).agreed


STRUCTURE = [("x", "f8"), ("inner", [("y", "f4", (2,)), ("n", "i8")])]


@for_each(
    ("said", "gpu"),
    [
        (None, (nan, ([1, 2], 3))),
        (None, (nan, ([1, 2 + 1e-5], 3))),
        ("result['x']: NaN in different places", (0, ([1, 2], 3))),
        ("result['inner']['y']: relative error", (nan, ([1, 3], 3))),
        ("result['inner']['n']: 1 of 1 values differ", (nan, ([1, 2], 4))),
    ],
)
def test_fields_are_compared_each_by_its_own_dtype(said, gpu):
    for shape in ((), (1,)):
        cpu, other = (np.array([values], STRUCTURE).reshape(shape) for values in ((nan, ([1, 2], 3)), gpu))
        found = compared(cpu, other)
        assert (found.agreed, (found.reason or "").startswith(said or "")) == (said is None, True)


@for_each("tolerance", [{}, {"rtol": 1e-3}])
def test_complex_fields_are_compared(tolerance):
    cpu = np.zeros(5, [("x", "f8"), ("z", "c16")])
    gpu = cpu.copy()
    gpu["z"][3] = 1 + 2j
    assert compared(cpu, cpu, **tolerance).agreed is True
    assert compared(cpu, gpu, **tolerance).reason.startswith("result['z']: ")


@for_each("dtype", ["float64", "int64", "datetime64[s]", "U3", "bool"])
def test_masks_count_and_what_they_hide_does_not(dtype):
    values = np.array([1, 0, 1]).astype(dtype)
    masked = np.ma.masked_array(values, [False, True, False])
    hidden = values.copy()
    hidden[1] = values[0]
    assert compared(masked, np.ma.masked_array(hidden, masked.mask)).agreed is True
    other = compared(masked, np.ma.masked_array(values, [False, True, True]))
    assert other.agreed is False
    shown = np.ma.masked_array(hidden, masked.mask)
    shown[0] = values[1]
    assert compared(masked, shown).agreed is False


@for_each(
    ("said", "cpu", "gpu"),
    [
        ("result: relative error 0.092, tolerance 1.5e-08", np.array([3.0, 4.0]), np.array([3.0, 4.5])),
        ("result['y'].parts: relative error 0.5,", ANSWER, {**ANSWER, "y": Answer(np.zeros(2), 2.0)}),
        ("result: shape (2, 3) on the CPU, (3, 2) on the GPU", np.ones((2, 3)), np.ones((3, 2))),
        ("only the CPU returned result", 1.0, None),
        ("only the CPU returned result.mask", HIDDEN, 0.0),
        ("result: 1 of 2 values differ", b"ab", b"ac"),
        ("result: 1 of 3 values differ", np.array([1, 2, 3], "int32"), np.array([1, 2, 4], "uint8")),
        ("result: 1 of 2 values differ", NO_TIME, np.array([5, 5], "datetime64[s]")),
        *(
            (f"result: dtype {cpu} on the CPU, {gpu} on the GPU", np.ones(2, cpu), np.ones(2, gpu))
            for cpu, gpu in (("float64", "int64"), ("int64", "bool"), ("float64", "complex128"))
        ),
    ],
)
def test_how_answers_differ_is_said(said, cpu, gpu):
    found = compared(cpu, gpu)
    assert found.agreed is False
    assert found.reason.startswith(said)


@for_each(
    ("expected", "gpu", "demand"),
    [
        (True, [100.9, 1.0], {"rtol": 0.01}),
        (False, [101.1, 1.0], {"rtol": 0.01}),
        (True, [100.0, 1.4], {"atol": 0.5}),
        (False, [100.6, 1.0], {"atol": 0.5}),
        (True, [101.4, 1.0], {"rtol": 0.01, "atol": 0.5}),
        (False, [101.6, 1.0], {"rtol": 0.01, "atol": 0.5}),
        (False, [100.0, 1.0 + 1e-12], {"atol": 0.0}),
        (False, [111.0, 1.0], {"rtol": 0.1}),  # of the CPU's value
    ],
)
def test_rtol_and_atol_hold_for_each_element(expected, gpu, demand):
    assert expected is compared(np.array([100.0, 1.0]), np.array(gpu), **demand).agreed


def test_beyond_rtol_the_count_and_the_largest_error_are_said():
    found = compared(np.zeros(4), np.array([0.0, 0.5, 0.25, 0.0]), atol=0.1)
    assert found.reason == "result: 2 of 4 values differ beyond rtol and atol, by up to 0.5"
    assert found.error == 0.5


@for_each(
    ("expected", "reduced_eps", "dtypes"),
    [
        (DOUBLE, None, ()),
        (SINGLE, None, ("float64", "float32")),
        (SINGLE, None, ("complex64",)),
        (HALF, 2**-8, ("float16",)),
        (2**-4, 2**-8, ("float32", "float64")),
        (2**-3.5, None, ("float32", "bfloat16")),
    ],
)
def test_numbers_of_python_have_the_digits_of_the_coarsest_dtype_known(expected, reduced_eps, dtypes):
    for number in (1.0, 1j):
        here = snapshot([number], lambda value: False, np.array, reduced_eps, dtypes)
        for pair in ((here, on_host([number])), (on_host([number]), here)):
            assert expected == pytest.approx(compare(*pair, Demand()).tolerance)


def test_only_numbers_of_python_hide_their_dtype():
    for value, tolerance in ((np.float64(1), DOUBLE), (np.ones(2), DOUBLE), (1, None), (True, None)):
        here = snapshot(value, lambda value: False, np.array, None, ("float16",))
        assert tolerance == pytest.approx(compare(here, here, Demand()).tolerance)


@for_each(
    ("said", "cpu", "gpu"),
    [
        ("result['model'] is a object, which cannot be compared", {"model": object()}, {"model": object()}),
        ("result is a set, which cannot be compared", np.ones(3), {1, 2}),
        ("the workload returns nothing that could be compared", None, [None, {}]),
    ],
)
def test_what_cannot_be_compared_is_named_and_neither_right_nor_wrong(said, cpu, gpu):
    found = compared(cpu, gpu)
    assert (None, said) == (found.agreed, found.reason)


def test_a_mismatch_of_many_parts_is_still_said_briefly():
    found = compared([0.0] * 500, [0.0] * 1000)
    assert found.agreed is False
    assert len(found.reason) < 500
