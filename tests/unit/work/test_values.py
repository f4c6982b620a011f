"""What a result is made of: values with their places, copied to the host, and what is not computed yet."""

from collections import ChainMap, OrderedDict, UserDict, UserList, defaultdict, deque
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from io import BytesIO
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest
from cases import for_each
from factories import Answer
from walks import prepared, simulated

from pytest_gpuperf.devices.simulated import Clock, SimulatedDevice
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.work.checks import ResultChecks

BARE, GATE, UNCHECKED = Demand(), Demand(min=3), Demand(min=3, check=False)
COPIED = Demand(min=3, check=False, transfer="always")
LAZY = "which is lazy, or may be: its work would run after the timed call"


def copied(result, device=None) -> list[tuple[str, Any]]:
    """Return where each value of a result is, and the value on the host."""
    found = ResultChecks(BARE).copy_to_host(result, device or simulated())
    return [(leaf.path, leaf.value) for leaf in found]


def paths(result) -> list[str]:
    return [path for path, _ in copied(result)]


def refusal(result, demand=GATE, device=None) -> str:
    with pytest.raises(GpuPerfError) as refused:
        ResultChecks(demand).copy_to_host(result, device or simulated())
    return str(refused.value)


def test_values_are_named_by_where_they_stand_and_are_copies_of_what_is_not_hidden():
    array = np.zeros(3)
    masked = np.ma.masked_array([(1.0, 2)], mask=[(True, False)], dtype=[("x", "f8"), ("n", "i4")])
    found = copied({"x": [1, (2, array)], 5: Answer(4, {"y": masked}), "nothing": None})
    array += 1
    assert [(path, value.tolist()) for path, value in found] == [
        ("result['x'][0]", 1),
        ("result['x'][1][0]", 2),
        ("result['x'][1][1]", [0, 0, 0]),
        ("result[5].total", 4),
        ("result[5].parts['y']['x']", [0.0]),
        ("result[5].parts['y']['x'].mask", [True]),
        ("result[5].parts['y']['n']", [2]),
    ]
    assert masked["x"].data.tolist() == [1.0]


# Containers.


class Stored(Mapping):
    """Reads what it stores."""

    def __init__(self, **values):
        self.units = dict.fromkeys(range(len(values)), "s")
        self.values_ = values

    def __getitem__(self, key):
        return self.values_[key]

    def __iter__(self):
        return iter(self.values_)

    def __len__(self):
        return len(self.values_)


class Caching(Stored):
    """Computes what is read and keeps it, where it stored how to compute it."""

    def __getitem__(self, key):
        if callable(self.values_[key]):
            self.values_[key] = self.values_[key]()
        return self.values_[key]


class ModelOutput(OrderedDict):
    """Reads as that of transformers does: by name or by place."""

    def __getitem__(self, key):
        return dict(self.items())[key] if isinstance(key, str) else tuple(self.values())[key]


class Named(NamedTuple):
    total: Any


@dataclass(slots=True)
class SlottedData:
    total: Any


@dataclass(frozen=True)
class Frozen:
    total: Any
    kind: str = "default"
    unit: str = field(default="s", init=False)


@for_each(
    ("places", "make"),
    [
        ("['total']", lambda value: {"total": value}),
        ("['total']", lambda value: OrderedDict(total=value)),
        ("['total']", lambda value: defaultdict(list, total=value)),
        ("['total']", lambda value: ModelOutput(total=value)),
        ("['total']", lambda value: UserDict(total=value)),
        ("['total']", lambda value: Stored(total=value)),
        ("['total']", lambda value: ChainMap({"total": value}, {"total": None})),
        ("['total']", lambda value: MappingProxyType({"total": value})),
        ("[0]", lambda value: UserList([value])),
        ("[0]", lambda value: deque([value], maxlen=2)),
        ("[0]", Named),
        (".total", SlottedData),
        (".total", Frozen),
    ],
)
def test_containers_that_store_their_values_are_read(places, make):
    found = copied(make(np.ones(2)))
    assert (f"result{places}", [1.0, 1.0]) == (found[0][0], found[0][1].tolist())
    assert {np.ndarray} == {type(value) for _, value in found}


def lazily():
    yield 1.0


class LazyMapping(Mapping):
    """As xarray.Dataset and h5py.Group are."""

    def __getitem__(self, key):
        return np.ones(2)

    def __iter__(self):
        return iter("ab")

    def __len__(self):
        return 2


class LazyDict(dict):
    def __getitem__(self, key):
        return np.ones(super().__getitem__(key))


class EmptyDict(dict):
    def items(self):
        return [("a", np.ones(2))]


class ShortDict(dict):
    def items(self):
        return []


class LazyIteration(tuple):
    __slots__ = ()

    def __iter__(self):
        return (np.ones(2) for _ in range(len(self)))


class Chain(ChainMap):
    """A subclass, which may read in any way."""


class LongList(list):
    def __len__(self):
        return 2


class Computing:
    """A descriptor."""

    def __get__(self, owner, owner_type=None):
        return 1.0

    def __set__(self, owner, value):
        pass


@dataclass
class WithDescriptor:
    total: Any = Computing()


@dataclass
class WithGetattr:
    total: Any = field(init=False)

    def __getattr__(self, name):
        return np.ones(2)


class LazyArray:
    """An array of dask: what can be awaited is its graph."""

    def __dask_graph__(self):
        return {}

    def __await__(self):
        return iter(())


@for_each(
    "value",
    [
        lazily(),
        LazyMapping(),
        Caching(a=lambda: np.ones(2)),
        Chain({"a": np.ones(2)}),
        LazyDict(a=2),
        EmptyDict(),
        ShortDict(a=2),
        LazyIteration([1, 2]),
        LongList(),
        ChainMap({"a": 1}, LazyMapping()),
        WithDescriptor(),
        WithGetattr(),
        LazyArray(),
    ],
)
def test_what_may_compute_its_values_when_they_are_read_is_refused_by_any_marker_each_time(value):
    for demand in (BARE, GATE, UNCHECKED, COPIED):
        assert refusal([value], demand).startswith(f"result[0] is of type {type(value).__name__}, {LAZY}")
    assert prepared(simulated(), lambda device: lambda: value).result_arrays == 0, "it is not async"


class OnDisk(LazyMapping):
    """Knows its attributes, and has all else in a file."""

    reads = 0

    def __init__(self):
        self.attributes = {}

    def __getitem__(self, key):
        OnDisk.reads += 1
        return super().__getitem__(key)


def test_what_has_more_parts_than_it_stores_is_not_read():
    assert LAZY in refusal(OnDisk())
    assert OnDisk.reads == 0


class Product:
    """Work that is to be done: what it multiplies."""

    def __init__(self, *factors):
        self.factors = factors


def test_an_object_with_nothing_but_inputs_may_still_have_its_work_to_do():
    def body(device, beside=list):
        a = device.asarray(np.ones(3))
        return lambda: [Product(a, a), *beside(a)]

    with pytest.raises(GpuPerfError, match=f"is of type Product, {LAZY}"):
        prepared(simulated(), lambda device: body(device, beside=lambda a: []))
    assert 3 == prepared(simulated(), lambda device: body(device, beside=lambda a: [a + a])).result_arrays
    made = prepared(simulated(), lambda device: lambda: Product(device.asarray(np.ones(3))))
    assert 1 == made.result_arrays


# Objects with arrays in their attributes.


class Output:
    """A result as a module of torch returns it: arrays, and what is not the same on both devices."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Slotted:
    __slots__ = ("logits", "unset")


class Convertible(Output):
    def __array__(self):
        return self.data


def test_the_arrays_in_an_object_are_its_values():
    inner = Output(weights={"w": [np.ones(2)]}, device="cuda:0")
    output = Output(logits=np.ones(3), loss=0.5, inner=inner, hooks=[print], kind=Output, numpy=np)
    output.itself = output
    assert paths({"out": output, "again": output}) == [
        "result['out'].logits",
        "result['out'].loss",
        "result['out'].inner.weights['w'][0]",
    ]
    slotted = Slotted()
    slotted.logits = np.ones(2)
    assert paths(slotted) == ["result.logits"]
    assert paths(Output(w=np.ones(1), _place=0, place=1)) == ["result.w", "result.place"]
    # What may hide work is a value of its own.
    assert paths(Output(w=np.ones(2), sparse=Sparse(), text="cuda:0")) == ["result.w", "result.sparse"]
    for lazy in (lazily(), Caching(a=len), Future()):
        assert refusal(Output(w=np.ones(2), lazy=lazy)).startswith("result.lazy is of type ")
    # Those of an object that comes again were given; a text is a value each time.
    text, shared = "text", Output(w=np.ones(1))
    again = "".join(["te", "xt"])
    assert paths([text, text, again]) == ["result[0]", "result[1]", "result[2]"]
    assert paths([Output(inner=shared), shared, Output(inner=shared, v=np.ones(1))]) == [
        "result[0].inner.w",
        "result[2].v",
    ]
    for _ in range(3000):
        shared = Output(next=shared)
    assert len(paths(shared)) == 1


def test_one_without_arrays_one_that_converts_itself_and_those_of_code_are_one_value(tmp_path):
    device = simulated()
    device.array = np.ones(1)
    values = [Output(loss=0.5), Convertible(data=np.ones(3)), {1}, print, device]
    assert paths(values) == [f"result[{index}]" for index in range(len(values))]
    with (tmp_path / "log").open("w") as log:
        assert paths(Output(w=np.ones(1), log=log)) == ["result.w"]


class Keyed(Output):
    """Runs code when it is asked for what it does not have."""

    def __getattr__(self, name):
        raise KeyError(name)


def test_no_code_of_an_object_runs_while_it_is_searched_or_called_for_the_first_time():
    assert paths([Keyed(w=1), Output(w=np.ones(1), dtype="float32")]) == ["result[0]", "result[1].w"]
    made = prepared(simulated(), lambda device: lambda: [Keyed(w=1), device.xp.ones(3)])
    assert [each.rpartition(" ")[2] for each in made.returned_types] == ["float64"]


# Wrappers of arrays.


class Quantity:
    """An array with a unit, as pint has them."""

    def __init__(self, magnitude, units="m"):
        self._magnitude, self._units, self.registry = magnitude, units, {"m": 1.0}

    magnitude = property(lambda self: self._magnitude)
    units = property(lambda self: self._units)
    dtype = property(lambda self: self._magnitude.dtype)
    shape = property(lambda self: self._magnitude.shape)

    def __array__(self, dtype=None, copy=None):
        raise AssertionError("a unit would be lost")


class Variable:
    """An array with names of dimensions, as xarray has them, one within another."""

    __slots__ = ("_attrs", "_data", "_dims")

    def __init__(self, data, dims=("x",), **attrs):
        self._data, self._dims, self._attrs = data, dims, attrs

    dims = property(lambda self: self._dims)
    attrs = property(lambda self: self._attrs)
    dtype = property(lambda self: self._data.dtype)
    shape = property(lambda self: self._data.shape)

    def __dask_graph__(self):
        return None

    @property
    def data(self):
        return self._data


class DataArray(Variable):
    """Has its array in a variable, and a dimension that is called as NumPy calls the array of a view."""

    __slots__ = ("_coords", "_variable")

    def __init__(self, data, dims=("x",), **attrs):
        self._variable = Variable(data, dims, **attrs)
        self._coords = {"x": Variable(np.arange(3))}

    dims = property(lambda self: self._variable.dims)
    attrs = property(lambda self: self._variable.attrs)
    dtype = property(lambda self: self._variable.dtype)
    shape = property(lambda self: self._variable.shape)
    base = property(lambda self: DataArray(np.zeros(3)))
    nbytes = 24

    @property
    def data(self):
        return self._variable.data


class Dataset(Stored):
    """Stores its arrays beside coordinates, and wraps each anew when it is read."""

    def __init__(self, **data):
        self._variables = {name: Variable(array) for name, array in data.items()}
        self._variables["x"] = Variable(np.arange(3))
        self._names = [*data]

    def __getitem__(self, key):
        found = DataArray.__new__(DataArray)
        found._variable, found._coords = self._variables[key], {}
        return found

    def __iter__(self):
        return iter(self._names)

    def __len__(self):
        return len(self._names)

    def __dask_graph__(self):
        return None


class WithUnit(np.ndarray):
    """A subclass, as astropy has it."""

    unit = "m"


class OfFile(Variable):
    """Reads its values from a file, here an array, when they are asked for, and keeps them."""

    __slots__ = ("_read",)
    dtype, shape = np.dtype("float64"), (2,)

    @property
    def data(self):
        if not hasattr(self, "_read"):
            self._read = self._data * 2
        return self._read


class Negated(Quantity):
    """Computes what it gives."""

    magnitude = property(lambda self: -self._magnitude)


@for_each(
    ("expected", "make"),
    [
        ({"": [1.0, 1.0], ".units": "m"}, Quantity),
        ({"": [1.0, 1.0], ".dims": "x"}, Variable),
        ({"": [1.0, 1.0], ".dims": "x", ".units": "K"}, lambda array: DataArray(array, units="K")),
        ({"": [1.0, 1.0], ".dims": "x", ".units": "s"}, lambda array: DataArray(Quantity(array, "s"))),
        ({"['a']": [1.0, 1.0], "['a'].dims": "x"}, lambda array: Dataset(a=array)),
        ({"": [1.0, 1.0], ".unit": "m"}, lambda array: array.view(WithUnit)),
        ({"": 3.0, ".units": "m"}, lambda array: Quantity(np.float64(3))),
    ],
)
def test_of_a_wrapper_its_array_is_the_value_and_its_unit_is_one_too(expected, make):
    found = copied(make(np.ones(2)))
    assert {f"result{place}": value for place, value in expected.items()} == {
        path: value.tolist() for path, value in found
    }


def test_the_array_of_the_device_in_a_wrapper_is_what_a_call_returns():
    def body(device):
        a = device.asarray(np.ones(3))
        return lambda: DataArray(Quantity(a + 1))

    found = prepared(simulated(), body)
    assert (24, 1) == (found.result_bytes, found.result_arrays)
    assert [each.rpartition(" ")[2] for each in found.returned_types] == ["float64"]


@for_each("value", [OfFile(np.ones(2)), Negated(np.ones(2))])
def test_what_computes_the_array_that_it_gives_is_no_wrapper_even_if_it_keeps_it(value):
    for _ in range(3):
        assert "can be neither compared nor copied" in refusal(value)


class OwnBase:
    """An array of a stranger's, which is its own base."""

    dtype, shape, nbytes = np.dtype("float64"), (2,), 16
    base = property(lambda self: self)

    def __init__(self):
        self.numbers = np.ones(2)


def test_an_array_whose_base_is_itself_ends_no_search():
    assert prepared(simulated(), lambda device: lambda: (OwnBase(), device.xp.ones(2))).result_arrays == 1


# What nobody can compare.


class Sparse:
    """An array of the device, as torch's sparse tensors are: NumPy has nothing like it."""

    dtype = "float32"

    def to_dense(self):
        return np.ones(2)

    @property
    def nbytes(self):
        raise RuntimeError("nbytes is not defined for sparse tensors")


class WithSparse(SimulatedDevice):
    def __init__(self, error=TypeError):
        super().__init__("gpu", clock=Clock())
        self.error = error

    def holds(self, value):
        return isinstance(value, Sparse) or super().holds(value)

    def asnumpy(self, array):
        if isinstance(array, Sparse):
            raise self.error("can't convert Sparse layout tensor to numpy")
        return super().asnumpy(array)


def test_what_nobody_can_compare_is_refused_with_its_type_and_place_where_values_are_wanted():
    on = WithSparse()
    for strange in ({1, 2}, memoryview(b"bytes"), BytesIO(), Output(), Sparse()):
        text = refusal((1.0, {"deep": strange}), GATE, on)
        assert text == (
            f"result[1]['deep'] is of type {type(strange).__name__}, which can be neither compared nor "
            "copied; return dense arrays, numbers or text, in tuples, lists, dicts or dataclasses or "
            "pass check=False"
        )
        once = Demand(min=3, transfer="once", calls=10)
        for demand in (COPIED, once):
            said = refusal((1.0, {"deep": strange}), demand, on)
            assert said == text.removesuffix(" or pass check=False")
        for demand in (UNCHECKED, BARE):
            (leaf,) = ResultChecks(demand).copy_to_host(strange, on)
            assert leaf.value is strange


def test_a_workload_may_read_a_sparse_input_that_there_is_memory_for():
    def body(device):
        sparse, dense = Sparse(), device.asarray(np.ones(2))
        return lambda: (sparse, dense)[1] * 2

    assert [(2,)] == [array.shape for array in prepared(WithSparse(), body).arrays]
    with pytest.raises(MemoryError):
        prepared(WithSparse(MemoryError), body)


ITSELF: list[Any] = []
ITSELF.append(ITSELF)


@for_each(
    ("expected", "result"),
    [
        ([500], {(number, number + 1): 0.5 for number in range(500)}),
        ([250, 250], [0.5, 1] * 250),
        ([499], [None] + [0.5] * 499),
        ([1, 499], [np.float64(0.5)] * 500),
        ([500, 500], [(number, 0.5) for number in range(500)]),
        ([1, 999], [[np.float64(0.5)] * 2] * 500),
        ([64] * 500, [[0.5] * 64] * 500),  # rows of many are values of their own
        ([], [()] * 500),
        ([], [ITSELF] * 500),
    ],
)
def test_many_numbers_are_one_value_for_each_type(expected, result):
    assert expected == [np.size(value) for _, value in copied(result)]
