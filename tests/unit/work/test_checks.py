"""Result checks: which answers are the same, and what is said of those that are not."""

from datetime import date
from decimal import Decimal
from fractions import Fraction
from itertools import count, product
from math import inf, nan, sqrt

import numpy as np
import pytest
from cases import for_each
from factories import Answer
from walks import simulated

from pytest_gpuperf.devices.python_calls import profiled
from pytest_gpuperf.devices.simulated import Clock, SimulatedDevice
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import ResultCheck
from pytest_gpuperf.model.record import Note
from pytest_gpuperf.timing import notes
from pytest_gpuperf.work.checks import ResultChecks

HALF, SINGLE, DOUBLE = sqrt(2**-10), sqrt(2**-23), sqrt(2**-52)  # 0.03125, 3.45e-4, 1.49e-8

ANSWER = {"x": (np.ones(3), [Answer(2, "text"), None]), "y": Answer(np.zeros(2), 1.0)}
HIDDEN = np.ma.masked_array([1.0, 2.0], mask=True).mean()  # the masked constant
NO_TIME = np.array(["NaT", 5], "datetime64[s]")
UNCHECKED = Demand(min=3, check=False)


def checked(*pairs, demand=None, device=None, when="before", dtypes=()) -> ResultChecks:
    """Return what was found of these pairs of results, of the CPU and the GPU, one pair after the other."""
    checks, on = ResultChecks(demand or Demand()), device or simulated()
    for pair in pairs:
        checks.compare(*(checks.copy_to_host(result, on, dtypes) for result in pair), on, when)
    return checks


def compared(cpu, gpu, **demand) -> ResultCheck:
    return checked((cpu, gpu), demand=Demand(**demand)).outcome


class Narrow:
    """An array of a device; a dtype that NumPy lacks comes down as float32."""

    def __init__(self, dtype):
        self.dtype = dtype
        self.shape = (2,)


class NarrowDevice(SimulatedDevice):
    def holds(self, value):
        return isinstance(value, Narrow)

    def asnumpy(self, array):
        return np.ones(2, array.dtype if array.dtype in np.sctypeDict else "float32")


@for_each(
    ("expected", "one", "other"),
    [
        (HALF, "float16", "float32"),
        (HALF, "float64", "float16"),
        (SINGLE, "float32", "float32"),
        (SINGLE, "complex64", "complex128"),
        (DOUBLE, "float64", "float64"),
        (2**-3.5, "torch.bfloat16", "torch.bfloat16"),
        (2**-1.5, "float8_e4m3", "float64"),
        (2**-1.5, "torch.float8_e4m3fn", "float64"),
        (2**-1, "float8_e5m2fnuz", "float8_e5m2fnuz"),
        (2**-5, "torch.complex32", "float64"),
    ],
)
def test_half_of_the_digits_of_the_coarser_dtype_must_agree(expected, one, other):
    device = NarrowDevice("gpu", clock=Clock())
    for pair in ((one, other), (other, one)):
        found = checked([Narrow(dtype) for dtype in pair], device=device).outcome
        assert expected == pytest.approx(found.tolerance, rel=1e-6)
        assert (True, 0.0, None) == (found.agreed, found.error, found.reason)


def rounding(kind=SimulatedDevice, reduced_eps=2**-8) -> SimulatedDevice:
    """Return a GPU that rounds float32 more than the dtype says."""
    return kind("gpu", clock=Clock(), reduced_precision="TF32 (allow_tf32)", reduced_eps=reduced_eps)


@for_each(
    ("expected", "reduced_eps", "dtypes", "number"),
    [
        (DOUBLE, None, (), 1.0),
        (SINGLE, None, ("float64", "float32"), 1j),
        (SINGLE, None, ("complex64",), 1.0),
        (HALF, 2**-8, ("float16",), 1.0),
        (2**-4, 2**-8, ("float32", "float64"), 1.0),
        (2**-3.5, None, ("float32", "bfloat16"), 1.0),
        # Any other number has a dtype.
        (DOUBLE, None, ("float16",), np.float64(1)),
        (DOUBLE, None, ("float16",), np.ones(2)),
        (None, None, ("float16",), 1),
    ],
)
def test_numbers_of_python_have_the_digits_of_the_coarsest_dtype_known(expected, reduced_eps, dtypes, number):
    device = rounding(reduced_eps=reduced_eps)
    for pair in ((number, number * 2), (number * 2, number)):  # the strictest tolerance is not enough
        assert expected == pytest.approx(checked(pair, device=device, dtypes=dtypes).outcome.tolerance)


@for_each(
    ("tolerance", "named", "dtype"),
    [
        (2**-4, True, "float32"),
        (2**-4, True, "complex64"),
        (HALF, False, "float16"),
        (DOUBLE, False, "float64"),
        (2**-3.5, False, "bfloat16"),
    ],
)
def test_a_mode_that_rounds_float32_more_sets_its_tolerance_alone_and_is_named(tolerance, named, dtype):
    found = checked((Narrow(dtype), np.array([1.0, 9.0])), device=rounding(NarrowDevice))
    assert found.outcome.tolerance == pytest.approx(tolerance)
    found = checked((np.array([1.0, 9.0], "complex64"), Narrow(dtype)), device=rounding(NarrowDevice))
    assert named is ("more than the dtype says (TF32 (allow_tf32)): turn that off" in found.disagreement)


@for_each(("runs_products", "differ"), [(None, False), (True, False), (False, True)])
def test_float32_has_the_tolerance_of_a_mode_only_where_products_may_have_run(runs_products, differ):
    cpu, device = simulated("cpu"), rounding(reduced_eps=2**-10)
    checks, asked = ResultChecks(Demand(min=3)), []
    checks.runs_products = lambda: asked.append(1) or runs_products
    expected, right, off = (
        checks.copy_to_host({"x": on.asarray(np.float32([value])), "y": 1.0}, on, ["float32"])
        for on, value in ((cpu, 1), (device, 1), (device, 1.02))
    )
    checks.compare(expected, right, device, "before")
    assert not asked  # full precision suffices, and nothing need be known
    assert checks.outcome.tolerance == pytest.approx(2**-11.5)
    checks.compare(expected, off, device, "after")
    assert asked
    assert checks.differ is differ


@for_each(
    ("reduced_eps", "result", "dtypes"),
    [
        (2**-10, 1.0, ["float16", "float32"]),
        (2**-7, Narrow("bfloat16"), []),
        (2**-7, Narrow("float16"), []),
    ],
)
def test_without_products_narrow_dtypes_keep_their_own_tolerance_though_it_is_that_of_a_mode(
    reduced_eps, result, dtypes
):
    device = rounding(NarrowDevice, reduced_eps)
    checks = ResultChecks(Demand())
    checks.runs_products = lambda: False
    (found,) = checks.copy_to_host(result, device, dtypes)
    expected = found._replace(value=found.value * found.value.dtype.type(1.002), eps=0.0)  # as NumPy has it
    checks.compare([expected], [found], device, "before")
    assert checks.differ is False


def test_a_mode_that_did_not_act_is_no_reason_for_a_disagreement():
    cpu, device = simulated("cpu"), rounding(reduced_eps=2**-10)
    for runs_products, value, named in ((True, 2, True), (None, 2, True), (False, 1.02, False)):
        checks = ResultChecks(Demand())
        checks.runs_products = lambda known=runs_products: known
        expected, off = (
            checks.copy_to_host(on.asarray(np.float32([number])), on)
            for on, number in ((cpu, 1), (device, value))
        )
        checks.compare(expected, off, device, "before")
        assert named is ("rounds float32 more" in checks.disagreement)


@for_each(("dtype", "tolerance"), [("float32", SINGLE), ("float64", DOUBLE)])
@for_each(("expected", "share"), [(True, 0.9), (False, 1.1)])
def test_the_tolerance_bounds_the_relative_error_in_the_norm_of_the_worst_leaf(
    expected, share, dtype, tolerance
):
    cpu = np.ones(100, dtype)
    gpu = np.ones(100, dtype)
    gpu[0] += 10 * share * tolerance  # ||gpu - cpu|| / ||cpu|| = gpu[0] / sqrt(100)
    for others in ([], [np.ones(4, dtype)]):
        found = compared([cpu, *others], [gpu, *others])
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
    for cpu, gpu, kind in ((complete, partial, "emulated device"), (partial, complete, "CPU")):
        found = compared(cpu, gpu)
        assert found.error < found.tolerance, "the norm does not see it"
        assert found.agreed is False
        assert f"the {kind} left zeros in " in found.reason


def test_a_part_that_is_zero_on_both_devices_is_no_part_of_the_answer():
    cpu, gpu = (np.pad(part, ((0, 99), (0, 0))) for part in hidden("float32", slice(2), (8, 384)))
    assert compared(cpu, gpu).reason == (
        "result: the emulated device left zeros in 75 % of the values that differ from zero on the other "
        "device"
    )


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


def honest_switch(dtype):
    """A row that a comparison of rounded numbers switches off."""
    values = np.random.default_rng(0).standard_normal((4096, 64))
    values = values.astype("float16" if dtype == "float16" else "float32")
    values[7] *= 1 if dtype == "float16" else 0.01
    gated = values.copy()
    gated[7] = 0
    return values, gated


def honest_small_values(dtype):
    """Small values that are wrong, all signs but one, where large ones cancel."""
    complete, partial = hidden(dtype if dtype == "float64" else "float32")
    return complete, 2 * partial - complete


@for_each("dtype", ["float16", "float32", "float64"])
@for_each("case", [honest_fft, honest_mean, honest_underflow, honest_switch, honest_small_values])
def test_what_rounding_explains_agrees(case, dtype):
    for cpu, gpu in (case(dtype), reversed(case(dtype))):
        found = compared(cpu, gpu)
        assert (True, None) == (found.agreed, found.reason)


LARGE, MEAN = np.array([1e6, 1e-6]), np.array([100.0, 1.0])


@for_each(
    ("expected", "cpu", "gpu", "demand"),
    [
        (True, np.array([1, 2]), np.array([1, 2], "uint8"), {}),  # whole numbers of other widths
        (False, np.array([True, False]), np.array([True, True]), {}),
        (True, "yes", "yes", {}),
        (False, "yes", "no", {}),
        (False, b"a", b"a\0", {}),
        (False, np.zeros(3), np.full(3, 1e-30), {}),
        *((True, np.ones((0, 3), dtype), np.ones((0, 3), dtype), {}) for dtype in "fqF?"),  # empty ones
        (False, np.array([1 + 1j]), np.array([1 - 1j]), {}),
        (True, np.array([complex(inf, nan), 1]), np.array([complex(inf, nan), 1]), {}),
        (True, LARGE, np.array([1e6, 0.0]), {}),  # the norm judges the array
        (False, [object(), 1.0], [object(), 2.0], {}),  # wrong beside something unknown
        (True, Decimal("1.5"), Fraction(3, 2), {}),
        (False, date(2026, 1, 1), date(2026, 1, 2), {}),
        (True, 2**70, 2**70, {}),
        (False, 2**70, 2**70 + 1, {}),
        (True, HIDDEN, HIDDEN, {}),
        (True, NO_TIME, NO_TIME.copy(), {}),
        (True, np.ma.masked_array([0.0, 2.0]), np.array([0.0, 2.0]), {}),
        # The size of the values does not matter.
        *((True, size * MEAN, size * (MEAN + 1e-8), {}) for size in (1e300, 1e-300, 1e-160)),
        *((False, size * MEAN, size * (MEAN + 1e-2), {}) for size in (1e300, 1e-300, 1e-160)),
        # Whole numbers have a tolerance that is asked for.
        (True, np.array([2, 3]), np.array([2, 4]), {"atol": 1.0}),
        (False, np.array([2, 3]), np.array([2, 6]), {"atol": 1.0}),
        (True, np.array([2, 3]), np.array([2, 4]), {"rtol": 0.5}),
        (False, np.array([2, 3]), np.array([2, 6]), {"rtol": 0.5}),
        # Both hold for each element, and rtol is a share of the CPU's.
        (True, MEAN, np.array([100.9, 1.0]), {"rtol": 0.01}),
        (False, MEAN, np.array([101.1, 1.0]), {"rtol": 0.01}),
        (True, MEAN, np.array([100.0, 1.4]), {"atol": 0.5}),
        (False, MEAN, np.array([100.6, 1.0]), {"atol": 0.5}),
        (True, MEAN, np.array([101.4, 1.0]), {"rtol": 0.01, "atol": 0.5}),
        (False, MEAN, np.array([101.6, 1.0]), {"rtol": 0.01, "atol": 0.5}),
        (False, MEAN, np.array([100.0, 1.0 + 1e-12]), {"atol": 0.0}),
        (False, MEAN, np.array([111.0, 1.0]), {"rtol": 0.1}),
    ],
)
def test_values_are_the_same_or_other_ones(expected, cpu, gpu, demand):
    assert expected is compared(cpu, gpu, **demand).agreed


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
        # NaN in one component leaves the other one to be compared.
        (False, [2, complex(nan, 1)], [2, complex(1, nan)]),
        (True, [2, complex(nan, 1)], [2, complex(nan, 1 + 1e-9)]),
        (True, [2, complex(nan, 1)], [2, complex(nan, nan)]),  # as libraries make products of the same number
        (False, [2, complex(1, nan)], [2, complex(5, nan)]),
    ],
)
def test_nan_and_infinities_stand_in_the_same_places(expected, cpu, gpu):
    dtypes = ["complex128"] if complex in map(type, cpu) else ["float64", "float32", "complex128"]
    for dtype, demand in product(dtypes, [{}, {"rtol": 1e-3}]):
        for pair in ((cpu, gpu), (gpu, cpu)):
            assert expected is compared(*(np.array(each, dtype) for each in pair), **demand).agreed, dtype


STRUCTURE = [("x", "f8"), ("inner", [("y", "f4", (2,)), ("n", "i8"), ("z", "c16")])]


@for_each(
    ("said", "gpu"),
    [
        ("None", (nan, ([1, 2], 3, 4j))),
        ("None", (nan, ([1, 2 + 1e-5], 3, 4j))),
        ("result['x']: NaN in different places", (0, ([1, 2], 3, 4j))),
        ("result['inner']['y']: ", (nan, ([1, 3], 3, 4j))),
        ("result['inner']['n']: 1 of 1 values differ", (nan, ([1, 2], 4, 4j))),
        ("result['inner']['z']: ", (nan, ([1, 2], 3, 4))),
    ],
)
@for_each("tolerance", [{}, {"rtol": 1e-3}])
def test_fields_are_compared_each_by_its_own_dtype(said, gpu, tolerance):
    for shape in ((), (1,)):
        cpu, other = (
            np.array([values], STRUCTURE).reshape(shape) for values in ((nan, ([1, 2], 3, 4j)), gpu)
        )
        found = compared(cpu, other, **tolerance)
        assert (found.agreed, str(found.reason).startswith(said)) == (said == "None", True)


@for_each("dtype", ["float64", "int64", "datetime64[s]", "U3", "bool"])
def test_masks_count_and_what_they_hide_does_not(dtype):
    values = np.array([1, 0, 1]).astype(dtype)
    masked = np.ma.masked_array(values, [False, True, False])
    hidden = values.copy()
    hidden[1] = values[0]
    assert compared(masked, np.ma.masked_array(hidden, masked.mask)).agreed is True
    assert compared(masked, np.ma.masked_array(values, [False, True, True])).agreed is False
    shown = np.ma.masked_array(hidden, masked.mask)
    shown[0] = values[1]
    assert compared(masked, shown).agreed is False


def objects(*values) -> np.ndarray:
    array = np.empty(len(values), object)
    array[:] = values
    return array


class Same:
    """Equal to all objects of its class."""

    __hash__ = None

    def __eq__(self, other):
        return type(other) is Same


@for_each(
    ("expected", "cpu", "gpu"),
    [
        (True, objects(1.0, 2.0), objects(1.0, 2.0 + 1e-9)),
        (True, objects(1.0, 2.0), np.array([1.0, 2.0])),
        (False, objects(1.0, 2.0), objects(1.0, 2.1)),
        (True, objects("a", "b"), objects("a", "b")),
        (False, objects("a", "b"), objects("a", "c")),
        (True, objects(1, "a", None, nan), objects(1, "a", None, nan)),
        (False, objects(1, "a", None, nan), objects(1, "b", None, nan)),
        (True, objects(Decimal("NaN"), Decimal(1)), objects(Decimal("NaN"), Decimal(1))),
        (False, objects(2**70, 1), objects(2**70 + 1, 1)),
        # Arrays of other lengths, each by its own dtype
        (True, objects(np.arange(3.0), np.arange(4)), objects(np.arange(3.0) + 1e-9, np.arange(4))),
        (False, objects(np.arange(3.0), np.arange(4)), objects(np.arange(3.0), np.arange(4) + 1)),
        (False, objects(np.arange(3.0), np.arange(4)), objects(np.arange(3.0), np.arange(5))),
        (True, objects(Same(), 1.0), objects(Same(), 1.0)),
        (None, objects(object(), 1.0), objects(object(), 1.0)),
        (False, objects(object(), 1.0), objects(object(), 2.0)),
        (False, np.empty((0, 2), object), np.empty((2, 0), object)),
        (False, np.array([[1, "a"]], object), np.array([[1], ["a"]], object)),
        (False, *(np.array([(Decimal(one), 1.0)], [("x", "O"), ("y", "f8")]) for one in "12")),
    ],
)
def test_objects_in_an_array_are_compared_each_by_its_own_type(expected, cpu, gpu):
    assert expected is compared(cpu, gpu).agreed
    checked((cpu, gpu), demand=Demand(min=3))  # as it was before, it is not refused


LONG = np.longdouble
MORE_DIGITS = pytest.mark.skipif(
    np.finfo(LONG).eps == np.finfo(float).eps, reason="long doubles are doubles here"
)


@MORE_DIGITS
@for_each("dtype", [np.longdouble, np.clongdouble])
@for_each(
    ("expected", "value", "other"),
    [
        (True, LONG(1), LONG(1) + LONG(1e-10)),
        (False, LONG(1), LONG(1) + LONG(1e-9)),  # which is nothing to float64
        (True, LONG(10) ** 400, LONG(10) ** 400),
        (False, LONG(10) ** 400, LONG(10) ** 400 * 2),
    ],
)
def test_extended_precision_is_compared_in_its_own_digits(dtype, expected, value, other):
    found = compared(np.array([value, 0], dtype), np.array([other, 0], dtype))
    assert (expected, float(np.finfo(LONG).eps ** 0.5)) == (found.agreed, pytest.approx(found.tolerance))
    rtol = compared(np.array([value, 0], dtype), np.array([other, 0], dtype), rtol=3e-10)
    assert (expected, True) == (rtol.agreed, rtol.error < inf)


class Unit(np.ndarray):
    """An array with a unit."""


def with_unit(unit, value=1.0) -> Unit:
    array = np.full(3, value).view(Unit)
    array.unit = unit
    return array


@for_each(
    ("expected", "said", "cpu", "gpu"),
    [
        (True, None, with_unit("m"), with_unit("m")),
        (False, "result.unit: 'm' on the CPU, 'km' on the emulated device", with_unit("m"), with_unit("km")),
        (False, "result: relative error 0.5, ", with_unit("m"), with_unit("m", 2.0)),
        (None, "result.unit is 'm' on the CPU alone", with_unit("m"), np.ones(3)),
        (None, "result.unit is 'm' on the emulated device alone", np.ones(3), with_unit("m")),
        (False, "result: relative error 0.5, ", with_unit("m"), np.full(3, 2.0)),
        (True, None, with_unit(None), np.ones(3)),
        (True, None, with_unit(object()), np.ones(3)),  # nothing to read
    ],
)
def test_a_unit_belongs_to_the_answer(expected, said, cpu, gpu):
    found = compared(cpu, gpu)
    assert (expected, (said or "")) == (found.agreed, (found.reason or "")[: len(said or "")])
    assert bool(said) is bool(found.reason)


VECTORS = np.linalg.eigh(np.arange(9.0).reshape(3, 3) + np.arange(9.0).reshape(3, 3).T)
SIGNS, ORDER = "they agree up to their signs, which is an error unless", "the same values in another order"
SEED = "create the random generator, with a seed"


@for_each(
    ("remedy", "cpu", "gpu"),
    [
        (SIGNS, tuple(VECTORS), (VECTORS[0], VECTORS[1] * [1, -1, 1])),
        (SIGNS, np.array([1 + 1j, 2]), np.array([1 - 1j, -2])),
        (SIGNS, np.array([1, -2]), np.array([-1, -2])),
        (ORDER, np.array([3.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0 + 1e-9])),
        (ORDER, {"top": np.array([[5, 4]]), "sum": 9}, {"top": np.array([[4, 5]]), "sum": 9}),
        (ORDER, np.array(["b", "a"]), np.array(["a", "b"])),
        ("give both results the same units", with_unit("m"), with_unit("km")),
        (SEED, np.array([1.0, 2.0]), np.array([1.0, 3.0])),
        (SEED, (np.array([1.0, 2.0]), 1), (np.array([2.0, 1.0]), 2)),  # more than the order
        (SEED, np.array([True, False]), np.array([False, True])),  # any mask of so many is that
        (SEED, [np.ones(2), np.ones(3)], [np.ones(3), np.ones(2)]),
    ],
)
def test_where_signs_order_or_units_alone_differ_the_remedy_is_not_a_seed(remedy, cpu, gpu):
    found = checked((cpu, gpu), demand=Demand(min=3))
    assert found.differ
    assert remedy in found.disagreement
    assert (remedy == SEED) is (SEED in found.disagreement)


@for_each(
    ("said", "cpu", "gpu"),
    [
        ("result: relative error 0.092, tolerance 1.5e-08", np.array([3.0, 4.0]), np.array([3.0, 4.5])),
        ("result['y'].parts: relative error 0.5,", ANSWER, {**ANSWER, "y": Answer(np.zeros(2), 2.0)}),
        ("result: shape (2, 3) on the CPU, (3, 2) on the emulated device", np.ones((2, 3)), np.ones((3, 2))),
        ("only the CPU returned result", 1.0, None),
        ("only the CPU returned result.mask", HIDDEN, 0.0),
        ("result: 1 of 2 values differ", b"ab", b"ac"),
        ("result: 1 of 3 values differ", np.array([1, 2, 3], "int32"), np.array([1, 2, 4], "uint8")),
        ("result: 1 of 2 values differ", NO_TIME, np.array([5, 5], "datetime64[s]")),
        *(
            (
                f"result: dtype {cpu} on the CPU, {gpu} on the emulated device",
                np.ones(2, cpu),
                np.ones(2, gpu),
            )
            for cpu, gpu in (("float64", "int64"), ("int64", "bool"), ("float64", "complex128"))
        ),
        ("only the emulated device returned result[500], ", [0.0] * 500, [0.0] * 1000),
    ],
)
def test_how_answers_differ_is_said_briefly(said, cpu, gpu):
    found = compared(cpu, gpu)
    assert found.agreed is False
    assert found.reason.startswith(said)
    assert len(found.reason) < 500


def test_beyond_rtol_the_count_and_the_largest_error_are_said():
    found = compared(np.zeros(4), np.array([0.0, 0.5, 0.25, 0.0]), atol=0.1)
    assert found.reason == "result: 2 of 4 values differ beyond rtol and atol, by up to 0.5"
    assert found.error == 0.5
    assert compared(np.array([1.7e308]), np.array([-1.7e308]), rtol=0.1).error < inf, "it is written as JSON"


@for_each(
    ("said", "cpu", "gpu"),
    [
        ("result['model'] is a object, which cannot be compared", {"model": object()}, {"model": object()}),
        ("result is a set, which cannot be compared", np.ones(3), {1, 2}),
        ("the workload returns nothing that could be compared", None, [None, {}]),
    ],
)
def test_what_cannot_be_compared_is_named_and_neither_right_nor_wrong(said, cpu, gpu):
    found = checked((cpu, gpu))
    assert (None, said, False) == (found.outcome.agreed, found.outcome.reason, found.differ)
    assert tuple(notes.on_results(found)) == (
        Note(code="results_not_compared", text=f"the results were not compared: {said}"),
    )


def test_what_all_comparisons_take_is_told_together():
    device = simulated()
    device.clock = count(0.0, 0.25).__next__
    assert 0.75 == checked((1, 1), (1, 1), (1, 1), device=device).elapsed


@for_each(("when", "pairs"), [("before", [(1, 2)]), ("after", [(1, 1), (1, 2)]), ("after", [(1, 2), (3, 3)])])
def test_answers_that_differ_once_are_wrong_and_the_remedies_are_named(when, pairs):
    found = checked(*pairs, when=when)
    assert found.differ
    text = found.disagreement
    assert text.startswith(f"the devices disagree {when} timing: result: 1 of 1 values differ; make ")
    assert "check=False" in text
    unchecked = checked(*pairs, demand=UNCHECKED)
    assert (None, False, ()) == (
        unchecked.outcome.agreed,
        unchecked.differ,
        tuple(notes.on_results(unchecked)),
    )
    assert unchecked.disagreement is None


@for_each(
    ("said", "value"),
    [
        ("zero", [0.0, 0.0]),
        ("NaN", np.full((2, 2), np.nan, "float32")),
        ("NaN", np.nan),
        (None, [0.0, 1.0]),
        (None, [np.nan, 0.0]),
        (None, [0.0, np.nan]),
        (None, [0.0]),
        (None, [0, 0]),
        (None, []),
        (None, "00"),
    ],
)
def test_answers_of_zeros_or_nan_alone_are_noted_and_agree(said, value):
    value = np.array(value)
    checks = checked((value, value))
    assert checks.outcome.agreed is True
    text = f"only zeros or only NaN on both devices: result ({said}); check that the work is done"
    assert tuple(notes.on_results(checks)) == ((Note(code="degenerate_results", text=text),) if said else ())
    assert not [*notes.on_results(checked((np.zeros(2), np.ones(2))))], "on one device"


# Many numbers of Python.

MANY = [1e9, *range(1, 1000)]
FLOATS = [float(number) for number in MANY]


class Key:
    """Raises when it is compared."""

    __hash__ = object.__hash__

    def __eq__(self, other):
        raise RuntimeError("as an array may")


def changed(values, at, number):
    values = values.copy()
    values[at] = number
    return values


def in_numpy(values):
    return [np.dtype(type(value)).type(value) for value in values]


def edges(values):
    return {(number, "x"): value for number, value in enumerate(values)}


def pairs(values, row=tuple):
    return [row((number, value)) for number, value in enumerate(values)]


def threes(values):
    return [[value, 1.0, 2.0] for value in values]


def records(values):
    return [{"x": value, "n": number} for number, value in enumerate(values)]


def corners(values):
    return [((value, 1.0), (2.0, None)) for value in values]


def named(values):
    return {f"node {number}": value for number, value in enumerate(values)}


@for_each(
    ("cpu", "gpu", "said"),
    [
        (FLOATS, changed(FLOATS, 5, 5.0 + 1e-9), None),
        (FLOATS, changed(FLOATS, 5, 5.1), "1 of 1000 numbers differ, [5] first: 5.0 and 5.1"),
        (FLOATS, changed(FLOATS, 0, inf), "1 of 1000 numbers differ, [0] first: 1000000000.0 and inf"),
        (changed(FLOATS, 5, nan), FLOATS, "1 of 1000 numbers differ, [5] first: nan and 5.0"),
        (changed(FLOATS, 5, nan), changed(FLOATS, 5, nan), None),
        (changed(FLOATS, 5, inf), changed(FLOATS, 5, inf), None),
        (changed(FLOATS, 5, 0.0), changed(FLOATS, 5, 1e-300), "1 of 1000 numbers differ, [5]"),
        (changed(FLOATS, 5, 1e308), changed(FLOATS, 5, -1e308), "1 of 1000 numbers differ, [5]"),
        (MANY[1:], changed(MANY[1:], 4, 7), "result: 1 of 999 values differ, [4] first"),
        (FLOATS, [np.float64(number) for number in FLOATS], None),
        (FLOATS, [np.float64(number) for number in changed(FLOATS, 5, 5.1)], "result[5]: relative error"),
        (FLOATS, FLOATS[:-1], "only the CPU returned result[999]"),
        (FLOATS, tuple(FLOATS), None),
        (MANY, changed(MANY, 5, 6), "result: 1 of 999 values differ, [5] first"),
        (MANY, changed(MANY, 0, 1.1e9), "result: 1 of 1 numbers differ, [0] first"),
        ([None, *MANY], [None, *changed(MANY, 5, 6)], "result: 1 of 999 values differ, [6] first"),
        (MANY, FLOATS, "result[1]: dtype int64 on the CPU, float64 on the emulated device"),
        (in_numpy(MANY), in_numpy(MANY), None),
        (
            in_numpy(FLOATS),
            in_numpy(changed(FLOATS, 5, 5.1)),
            "1 of 999 numbers differ, [5] first: 5.0 and 5.1",
        ),
        (edges(FLOATS), edges(FLOATS), None),
        (edges(FLOATS), edges(changed(FLOATS, 5, 5.1)), "1 of 1000 numbers differ, [(5, 'x')] first: 5.0"),
        ({Key(): 1.0 for _ in MANY}, {Key(): 1.0 for _ in MANY}, None),
        (named(FLOATS), dict(reversed(named(FLOATS).items())), None),
        (named(FLOATS), named(changed(FLOATS, 5, 5.1)), "numbers differ, ['node 5'] first"),
        (named(FLOATS), {**named(FLOATS[:-1]), "other": 1.0}, "only the CPU returned result['node 999']"),
        (changed(MANY[1:], 4, 2**70), changed(MANY[1:], 4, 2**70 + 1), "result[4]: 1 of 1 values differ"),
        (changed(MANY[1:], 4, 2**63), changed(MANY[1:], 4, 2**63), None),
        (pairs(FLOATS), pairs(FLOATS, list), None),
        (pairs(FLOATS), pairs(changed(FLOATS, 5, 5.1)), "1 of 1000 numbers differ, [5][1] first: 5.0"),
        (pairs(MANY), pairs(changed(MANY, 5, 6)), "result: 1 of 1999 values differ, [5][1] first"),
        (pairs(MANY), pairs(FLOATS), "result[1][1]: dtype int64 on the CPU, float64 on the emulated device"),
        (pairs(FLOATS), pairs(changed(FLOATS, 5, np.True_)), "result[5][1]: dtype float64 on the CPU, bool"),
        (pairs(FLOATS), pairs(changed(FLOATS, 5, 5j)), "result[5][1]: dtype float64 on the CPU, complex128"),
        (pairs(FLOATS), pairs(in_numpy(changed(FLOATS, 5, 5.1))), "result[5][1]: relative error"),
        (pairs(FLOATS), pairs(changed(FLOATS, 5, nan)), "1 of 1000 numbers differ, [5][1] first: 5.0"),
        (pairs(FLOATS), pairs(FLOATS[:-1]), "only the CPU returned result[999][0], result[999][1]"),
        (
            pairs(FLOATS),
            changed(pairs(FLOATS), 5, (5, 5.0, 1.0)),
            "only the emulated device returned result[5][2]",
        ),
        (pairs(FLOATS), changed(pairs(FLOATS), 5, (5, "five")), "result[5][1]: dtype float64 on the CPU"),
        (pairs(changed(MANY, 5, 2**70)), pairs(changed(MANY, 5, 2**70)), None),
        (pairs(changed(MANY, 5, 2**70)), pairs(MANY), "result[5][1]: dtype object on the CPU, int64"),
        (threes(FLOATS), threes(changed(FLOATS, 5, 5.1)), "1 of 3000 numbers differ, [5][0] first"),
        (corners(FLOATS), corners(changed(FLOATS, 5, 5.1)), "1 of 3000 numbers differ, [5][0][0] first"),
        (edges(pairs(FLOATS)), edges(pairs(changed(FLOATS, 5, 5.1))), "numbers differ, [(5, 'x')][1] first"),
        (records(FLOATS), records(changed(FLOATS, 5, 5.1)), "1 of 1000 numbers differ, [5]['x'] first"),
        (records(FLOATS), changed(records(FLOATS), 5, {"x": 5.0}), "only the CPU returned result[5]['n']"),
        ([{Key(): 1.0} for _ in MANY], [{Key(): 1.0} for _ in MANY], None),
    ],
)
def test_each_of_many_numbers_is_compared_by_itself_wherever_another_device_has_it(cpu, gpu, said):
    found = compared(cpu, gpu)
    assert (found.error or 0.0) <= 2
    assert (found.agreed, said or "") == (said is None, said if said and said in found.reason else "")
    assert said is None or compared(gpu, cpu).agreed is False


def test_many_numbers_have_a_tolerance_of_their_own_are_not_degenerate_and_are_no_array():
    found = checked((FLOATS, changed(FLOATS, 5, 5.1)), demand=Demand(atol=0.2))
    assert (True, False) == (found.outcome.agreed, found.compared_arrays)
    assert not [*notes.on_results(checked(([0.0] * 1000, [0.0] * 1000)))]


@for_each(
    ("said", "result"),
    [
        ([], {"weights": np.ones(3), "bias": np.zeros(2)}),
        ([], (0.5, np.zeros(2))),  # a loss, and a gradient
        ([], (np.array([2, 1]), np.zeros(2))),
        ([], (FLOATS, np.zeros(2))),
        (["result[1] (zero)"], (7, np.zeros(2))),  # a count
        (["result[0] (zero), result[1] (zero)"], (np.zeros(3), np.zeros(2), 0.0)),
        (["result[1] (NaN)"], (np.ones(3), np.full(2, np.nan), np.zeros(2))),
    ],
)
def test_zeros_beside_other_numbers_are_a_result(said, result):
    found = [*notes.on_results(checked((result, result)))]
    assert said == [note.text.partition(": ")[2].partition(";")[0] for note in found]


@for_each(
    "values",
    (
        *(FLOATS, MANY[1:], named(FLOATS), dict(enumerate(FLOATS))),
        *(pairs(FLOATS), threes(FLOATS), corners(FLOATS), records(FLOATS), named(pairs(MANY))),
    ),
)
def test_to_look_at_a_result_of_many_numbers_takes_no_call_for_each(values):
    many, calls = {"x": values}, count()
    with profiled(lambda *_: next(calls)):
        compared(many, many)
    assert next(calls) < len(values)
