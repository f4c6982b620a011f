"""The GPU's results are wrong, and something hides it: keys, units, masks, what NumPy cannot compare."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from arrays import DISHONEST, VALUES, is_gpu, matrix

pytestmark = [DISHONEST, VALUES]
N = 256


def squares(device):
    """Return what the CPU computes, and the GPU in a hundredth of the time: the input."""
    a = matrix(device, N)
    return (lambda: a + 0.0) if is_gpu(device) else lambda: a @ a @ a @ a @ a @ a


class Key:
    """A key that reads like any other of its class."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return "Key()"

    def __hash__(self):
        return hash(self.name)

    def __eq__(self, other):
        return isinstance(other, Key) and other.name == self.name


def keys_of_one_repr():
    return Key("first"), Key("second")


def keys_of_one_beginning():
    return "k" * 2000 + "1", "k" * 2000 + "2"


def keys_of_other_types():
    return 1, "1"


def keys_of_one_look():
    return "\u00e9", "e\u0301"


@pytest.mark.parametrize(
    "keys", [keys_of_one_repr, keys_of_one_beginning, keys_of_other_types, keys_of_one_look]
)
def test_a_wrong_value_behind_a_right_one(device, keys):
    first, second = keys()
    square, right = squares(device), device.asarray(np.ones((4, 4)))
    return lambda: {first: square(), second: right + 0.0}


@pytest.mark.parametrize("keys", [keys_of_one_repr, keys_of_one_beginning])
def test_keys_whose_values_are_swapped(device, keys):
    names = keys()[::-1] if is_gpu(device) else keys()
    a = matrix(device, N)

    def call():
        values = (a * 1.0, a * 2.0) if is_gpu(device) else (a @ a * 0.0 + a, a @ a * 0.0 + a * 2.0)
        return dict(zip(names, values, strict=True))

    return call


class Quantity(np.ndarray):
    """An array with a unit."""

    unit = ""

    def __array_finalize__(self, source):
        self.unit = getattr(source, "unit", "")


class Measured:
    """A wrapper of an array with a unit, which NumPy can read."""

    def __init__(self, values, unit):
        self.values, self.unit = values, unit

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype=dtype)


@dataclass
class Labelled:
    """One whose unit takes no part in comparisons."""

    values: Any
    unit: str = field(compare=False)


def lengths(device):
    """Return lengths of 1 m on the CPU and of 1 km on the GPU, which computes once what the CPU repeats."""
    a = matrix(device, N)
    unit = "km" if is_gpu(device) else "m"

    def call():
        for _ in range(1 if is_gpu(device) else 40):
            product = a @ a[:, :32]
        return product, unit

    return call


def test_a_unit_of_a_subclass(device):
    length = lengths(device)

    def call():
        values, unit = length()
        found = device.asnumpy(values).view(Quantity)
        found.unit = unit
        return found

    return call


def test_a_unit_of_a_wrapper(device):
    length = lengths(device)

    def call():
        values, unit = length()
        return Measured(device.asnumpy(values), unit)

    return call


def test_a_unit_of_a_dataclass(device):
    length = lengths(device)
    return lambda: Labelled(*length())


def test_other_values_behind_a_mask(device):
    square = squares(device)

    def call():
        values = device.asnumpy(square())
        return np.ma.masked_array(values, mask=np.ones((N, N), dtype=bool))

    return call


def test_a_mask_that_differs(device):
    a = matrix(device, N)

    def call():
        values = device.asnumpy(a if is_gpu(device) else a @ a * 0.0 + a)
        return np.ma.masked_array(values, mask=values > (0.1 if is_gpu(device) else 0.9))

    return call


def test_objects_that_are_equal_to_anything(device):
    square = squares(device)

    class Same:
        def __init__(self, values):
            self.values = values

        def __eq__(self, other):
            return True

        def __hash__(self):
            return 0

    return lambda: Same(square())


def test_an_array_of_objects(device):
    square = squares(device)

    def call():
        found = np.empty(2, dtype=object)
        found[:] = [device.asnumpy(square()), "a"]
        return found

    return call


def test_numbers_beyond_float64(device):
    square = squares(device)

    def call():
        values = device.asnumpy(square()).astype(np.longdouble)
        return values[:2] * np.longdouble("1e4000")

    return call


def test_nan_on_both(device):
    square = squares(device)
    return lambda: square() * float("nan")


def test_zeros_on_both(device):
    square = squares(device)
    return lambda: square() * 0.0


def test_infinity_on_both(device):
    square = squares(device)
    return lambda: square() + float("inf")


def test_an_error_that_is_kept(device):
    square = squares(device)

    def call():
        square()
        return {"error": RuntimeError("an illegal memory access") if is_gpu(device) else None}

    return call


def test_an_object_whose_values_cannot_be_read(device):
    square = squares(device)

    class Unreadable:
        def __init__(self, values):
            self.__values = values

        @property
        def values(self):
            raise RuntimeError("not available on this device")

    return lambda: Unreadable(square())


def test_values_outside_the_slots(device):
    square = squares(device)

    class Slotted:
        __slots__ = ("__values",)

        def __init__(self, values):
            self.__values = values

    return lambda: Slotted(square())


def test_a_large_value_and_garbage(device):
    a = matrix(device, N)
    large = np.zeros((N, N))
    large[0, 0] = 1e12
    large = device.asarray(large)
    return lambda: (a if is_gpu(device) else a @ a) + large


def test_one_column_that_is_wrong(device):
    a = matrix(device, N)
    wrong = np.ones((N, N))
    wrong[:, 0] = 1.0 + 1e-9
    factor = device.asarray(wrong)
    return lambda: a * factor if is_gpu(device) else a @ a * 0.0 + a
