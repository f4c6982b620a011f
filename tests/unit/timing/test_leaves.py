"""What a result is made of: values with their places, copied to the host, and what is not computed yet."""

import sys
from collections import ChainMap, OrderedDict, UserDict, UserList, defaultdict, deque
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from io import BytesIO
from time import struct_time
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest
from cases import for_each
from factories import Answer, on_host
from walks import prepared, simulated

from pytest_gpuperf.devices.simulated import Clock, SimulatedDevice
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Note
from pytest_gpuperf.timing.checks import ResultChecks
from pytest_gpuperf.timing.leaves import values_of

BARE, GATE, UNCHECKED = Demand(), Demand(min=3), Demand(min=3, check=False)
COPIED = Demand(min=3, check=False, transfer="always")
LAZY = "which is lazy, or may be: its work would run after the timed call"


def paths(result) -> list[str]:
    return [leaf.path for leaf in on_host(result)]


def refusal(result, demand=GATE, device=None) -> str:
    with pytest.raises(GpuPerfError) as refused:
        ResultChecks(demand).copy_to_host(result, device or simulated())
    return str(refused.value)


def test_values_are_named_by_where_they_stand():
    result = {"x": [1, (2, 3)], 5: Answer(4, {"y": 5}), "nothing": None}
    assert [(leaf.path, leaf.value) for leaf in on_host(result)] == [
        ("result['x'][0]", 1),
        ("result['x'][1][0]", 2),
        ("result['x'][1][1]", 3),
        ("result[5].total", 4),
        ("result[5].parts['y']", 5),
    ]


def test_values_are_copies_of_what_is_not_hidden():
    array = np.zeros(3)
    masked = np.ma.masked_array([(1.0, 2)], mask=[(True, False)], dtype=[("x", "f8"), ("n", "i4")])
    found = on_host([array, masked])
    array += 1
    assert [(leaf.path, leaf.value.tolist()) for leaf in found] == [
        ("result[0]", [0, 0, 0]),
        ("result[1]['x']", [0.0]),
        ("result[1]['x'].mask", [True]),
        ("result[1]['n']", [2]),
    ]
    assert masked["x"].data.tolist() == [1.0]


def test_arrays_without_a_mask_leave_masked_arrays_unimported(monkeypatch):
    assert np.ma.masked is not None  # NumPy imports it when it is asked for, as `delattr` does
    monkeypatch.delitem(sys.modules, "numpy.ma")
    monkeypatch.delattr(np, "ma")
    device = simulated()
    prepared(device, lambda device: lambda: [device.xp.ones(3), np.ones(3), 1.0])
    on_host([np.ones(3), 1.0])
    assert "numpy.ma" not in sys.modules


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
        ("[0]", lambda value: struct_time([value, *range(8)])),
        (".total", SlottedData),
        (".total", Frozen),
    ],
)
def test_containers_that_store_their_values_are_read(places, make):
    result = make(np.ones(2))
    found = ResultChecks(GATE).copy_to_host(result, simulated())
    assert (f"result{places}", [1.0, 1.0]) == (found[0].path, found[0].value.tolist())
    assert {np.ndarray} == {type(leaf.value) for leaf in found}


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
    ],
)
def test_what_may_compute_its_values_when_they_are_read_is_refused_by_any_marker_each_time(value):
    for demand in (BARE, GATE, UNCHECKED, COPIED):
        assert refusal([value], demand).startswith(f"result[0] is of type {type(value).__name__}, {LAZY}")


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


class LazyArray:
    """An array of dask: what can be awaited is its graph."""

    def __dask_graph__(self):
        return {}

    def __await__(self):
        return iter(())


def test_a_graph_of_dask_is_lazy_and_not_async():
    assert prepared(simulated(), lambda device: LazyArray).result_arrays == 0
    assert f"LazyArray, {LAZY}" in refusal(LazyArray())


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


def test_one_without_arrays_one_that_converts_itself_and_those_of_code_are_one_value(tmp_path):
    device = SimulatedDevice("cpu", clock=Clock())
    device.array = np.ones(1)
    values = [Output(loss=0.5), Convertible(data=np.ones(3)), {1}, print, device]
    assert paths(values) == [f"result[{index}]" for index in range(len(values))]
    with (tmp_path / "log").open("w") as log:
        assert paths(Output(w=np.ones(1), log=log)) == ["result.w"]


class Keyed(Output):
    """Runs code when it is asked for what it does not have."""

    def __getattr__(self, name):
        raise KeyError(name)


class Rude(Keyed):
    """Runs code when it is asked for a dtype, too."""

    @property
    def dtype(self):
        raise KeyError("dtype")


def test_no_code_of_an_object_runs_while_it_is_searched_or_called_for_the_first_time():
    result = [Rude(w=1), Output(w=np.ones(1), dtype="float32")]
    assert [leaf.path for leaf in values_of(result)] == ["result[0]", "result[1].w"]
    assert paths([Keyed(w=1)]) == ["result[0]"]
    made = prepared(simulated(), lambda device: lambda: [Keyed(w=1), device.xp.ones(3)])
    assert [each.rpartition(" ")[2] for each in made.returned_types] == ["float64"]


def test_what_may_hide_work_is_a_value_of_its_own():
    future = Future()
    output = Output(w=np.ones(2), later=(x for x in "a"), lazy=Caching(a=len), future=future, text="cuda:0")
    assert paths(output) == ["result.w", "result.later", "result.lazy", "result.future"]


def test_a_search_ends_with_what_was_seen_and_with_what_is_too_much():
    head = None
    for _ in range(3000):
        head = Output(next=head, w=np.ones(1) if head is None else None)
    assert len(paths(head)) == 1
    *_, last = on_host(Output(w=np.ones(2), many=[Output() for _ in range(20_001)]))
    assert type(last.value) is Output


def test_texts_and_objects_that_come_again_are_values_or_were():
    text, shared = "text", Output(w=np.ones(1))
    again = "".join(["te", "xt"])
    assert paths([text, text, again]) == ["result[0]", "result[1]", "result[2]"]
    assert paths([Output(inner=shared), shared, Output(inner=shared, v=np.ones(1))]) == [
        "result[0].inner.w",
        "result[2].v",
    ]


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
    def holds(self, value):
        return isinstance(value, Sparse) or super().holds(value)

    def asnumpy(self, array):
        if isinstance(array, Sparse):
            raise TypeError("can't convert Sparse layout tensor to numpy")
        return super().asnumpy(array)


@pytest.fixture(
    params=["a file", {1, 2}, memoryview(b"bytes"), BytesIO(), Output(), Sparse()],
    ids=lambda value: type(value).__name__,
)
def strange(request, tmp_path):
    """Return a value that nobody can compare."""
    if request.param != "a file":
        yield request.param
        return
    with (tmp_path / "a_file").open("w", encoding="utf-8") as file:
        yield file


def sparse_device():
    return WithSparse("gpu", clock=Clock())


def test_what_nobody_can_compare_is_refused_with_its_type_and_place_where_values_are_wanted(strange):
    on = sparse_device()
    text = refusal((1.0, {"deep": strange}), GATE, on)
    assert text == (
        f"result[1]['deep'] is of type {type(strange).__name__}, which can be neither compared nor copied; "
        "return dense arrays, numbers or text, in tuples, lists, dicts or dataclasses or pass check=False"
    )
    copied = refusal((1.0, {"deep": strange}), COPIED, on)
    assert copied == text.removesuffix(" or pass check=False")
    assert copied == refusal((1.0, {"deep": strange}), Demand(min=3, transfer="once", calls=10), on)


def test_what_nobody_can_compare_may_be_returned_without_a_check_and_is_noted_under_a_bare_marker(strange):
    on = sparse_device()
    assert [strange] == [leaf.value for leaf in ResultChecks(UNCHECKED).copy_to_host(strange, on)]
    checks = ResultChecks(BARE)
    leaf = checks.copy_to_host([strange], on)
    checks.require_same_result(leaf, leaf)
    checks.compare(leaf, leaf, on, "before")
    assert not checks.differ
    name = type(strange).__name__
    said = f"the results were not compared: result[0] is a {name}, which cannot be compared"
    assert checks.notes == (Note(code="results_not_compared", text=said),)


def test_a_workload_may_read_a_sparse_input():
    device = sparse_device()
    sparse, dense = Sparse(), device.asarray(np.ones(2))
    workload = prepared(device, lambda seen: lambda: (sparse, dense)[1] * 2)
    assert [dense] == [entry.array() for entry in workload.inputs]


def test_an_input_that_cannot_be_read_for_want_of_memory_is_an_error():
    class Full(WithSparse):
        def asnumpy(self, array):
            raise MemoryError

    with pytest.raises(MemoryError):
        prepared(Full("gpu", clock=Clock()), lambda seen: Sparse().to_dense)
