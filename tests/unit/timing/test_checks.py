"""Result checks: which results can be compared, and whether the timed work was the requested work."""

from collections import ChainMap, OrderedDict, UserDict, UserList, defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import BytesIO
from itertools import count
from time import struct_time
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest
from cases import for_each
from walks import prepared, simulated

from pytest_gpuperf.devices.simulated import Clock, SimulatedDevice
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Note
from pytest_gpuperf.timing import first_call
from pytest_gpuperf.timing.checks import ResultChecks
from pytest_gpuperf.timing.leaves import LAZY, Leaf

BARE, GATE, UNCHECKED = Demand(), Demand(min=3), Demand(min=3, check=False)
COPIED = Demand(min=3, check=False, transfer="always")
DEMANDS = [BARE, GATE, UNCHECKED, COPIED]


class Model:
    """An object that nobody can compare."""


def copied_to_host(result, demand) -> list[Leaf]:
    return ResultChecks(demand).copy_to_host(result, simulated())


def refusal(result, demand) -> str:
    with pytest.raises(GpuPerfError) as refused:
        copied_to_host(result, demand)
    return str(refused.value)


def leaves_of(*values) -> list[Leaf]:
    return [Leaf(f"result[{index}]", np.array(value)) for index, value in enumerate(values)]


def compared(*pairs, demand=GATE, when="before") -> ResultChecks:
    """Return what was found of these pairs of values, of the CPU and the GPU, one pair after the other."""
    checks = ResultChecks(demand)
    for cpu, gpu in pairs:
        checks.compare(leaves_of(cpu), leaves_of(gpu), simulated(), when)
    return checks


def lazily():
    yield 1.0


@for_each("result", [lazily(), map(float, [1]), zip([1], [2], strict=True), iter([1.0]), count()])
def test_a_result_whose_work_is_still_to_be_done_is_refused_by_any_marker(result):
    expected = f"result is of type {type(result).__name__}, which {LAZY}"
    assert [expected] * 4 == [refusal(result, demand) for demand in DEMANDS]


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


class FillingDict(dict):
    """Computes what is read for the first time, and keeps it."""

    def __getitem__(self, key):
        if super().__getitem__(key) is None:
            self[key] = np.ones(2)
        return super().__getitem__(key)

    def items(self):
        return [(key, self[key]) for key in self]


class LazyUserDict(UserDict):
    def __getitem__(self, key):
        return np.ones(self.data[key])


class LazyList(list):
    def __getitem__(self, index):
        return np.ones(2)


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
class WithProperty:
    total: Any = field(init=False, default=property(lambda self: np.ones(2)))


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


LAZY_CONTAINERS = [
    LazyMapping(),
    Chain({"a": np.ones(2)}),
    LazyDict(a=2),
    EmptyDict(),
    ShortDict(a=2),
    FillingDict(a=None),
    LazyUserDict(a=2),
    LazyList([1, 2]),
    LazyIteration([1, 2]),
    LongList(),
    ChainMap({"a": 1}, LazyMapping()),
    WithDescriptor(),
    WithProperty(),
    WithGetattr(),
]


@for_each("value", LAZY_CONTAINERS)
def test_a_container_that_may_compute_what_is_read_is_refused_by_any_marker(value):
    expected = f"result[0] is of type {type(value).__name__}, which {LAZY}"
    assert [expected] * 4 == [refusal([value], demand) for demand in DEMANDS]


class Product:
    """Work that is to be done: what it multiplies."""

    def __init__(self, *factors):
        self.factors = factors


def test_an_object_with_nothing_but_inputs_may_still_have_its_work_to_do():
    def body(device):
        a = device.asarray(np.ones(3))
        return lambda: Product(a, a)

    with pytest.raises(
        GpuPerfError, match="is of type Product, which is lazy, or may be: its work would run"
    ):
        prepared(simulated(), body)
    assert (
        1 == prepared(simulated(), lambda device: lambda: Product(device.asarray(np.ones(3)))).result_arrays
    )

    def beside_new(device):
        a = device.asarray(np.ones(3))
        return lambda: [Product(a, a), a + a]

    assert 3 == prepared(simulated(), beside_new).result_arrays


def test_a_graph_of_dask_is_lazy_and_not_async():
    workload, result = first_call.first_call(lambda seen: LazyArray, simulated())
    assert "LazyArray, which is lazy, or may be: its work would run" in refusal(result, GATE)
    assert workload.result_arrays == 0


class ModelOutput(OrderedDict):
    """Reads as that of transformers does: by name or by place."""

    def __getitem__(self, key):
        return dict(self.items())[key] if isinstance(key, str) else tuple(self.values())[key]


class Table(UserDict):
    """Reads like a dict."""


class Named(NamedTuple):
    total: Any


class Stack(list):
    def top(self):
        return self[-1]


class Checked(list):
    def __getitem__(self, index):
        return super().__getitem__(index)


@dataclass(slots=True)
class Slotted:
    total: Any


@dataclass(frozen=True)
class Frozen:
    total: Any
    kind: str = "default"
    unit: str = field(default="s", init=False)


@for_each(
    "make",
    [
        lambda value: {"total": value},
        lambda value: OrderedDict(total=value),
        lambda value: defaultdict(list, total=value),
        lambda value: ModelOutput(total=value),
        lambda value: Table(total=value),
        lambda value: UserList([value]),
        lambda value: deque([value], maxlen=2),
        lambda value: ChainMap({"total": value}, {"total": None}),
        lambda value: MappingProxyType({"total": value}),
        Named,
        lambda value: Stack([value]),
        lambda value: Checked([value]),
        lambda value: struct_time(range(9)),
        Slotted,
        Frozen,
    ],
)
def test_containers_that_store_their_values_are_read(make):
    found = copied_to_host(make(np.ones(2)), GATE)
    assert found
    assert {np.ndarray} == {type(leaf.value) for leaf in found}


STRANGE = [
    ("set", lambda path: {1, 2}),
    ("Model", lambda path: Model()),
    ("memoryview", lambda path: memoryview(b"bytes")),
    ("BytesIO", lambda path: BytesIO()),
]


@pytest.fixture(params=["TextIOWrapper", *(name for name, _ in STRANGE)])
def strange(request, tmp_path):
    """Return a value that nobody can compare, and the name of its type: a file, a set, an object."""
    path = tmp_path / "a_file"
    path.touch()
    make = {"TextIOWrapper": lambda path: path.open(encoding="utf-8"), **dict(STRANGE)}[request.param]
    value = make(path)
    yield value, request.param
    getattr(value, "close", lambda: None)()


def test_what_can_be_neither_compared_nor_copied_is_refused_with_its_type_and_place(strange):
    value, name = strange
    expected = (
        f"result[1]['deep'] is of type {name}, which can be neither compared nor copied; "
        "return dense arrays, numbers or text, in tuples, lists, dicts or dataclasses or pass check=False"
    )
    assert expected == refusal((1.0, {"deep": value}), GATE)


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


def test_a_sparse_result_is_refused():
    device = WithSparse("gpu", clock=Clock())
    with pytest.raises(GpuPerfError, match="Sparse, which can be neither compared nor copied; return dense"):
        ResultChecks(GATE).copy_to_host([Sparse()], device)


def test_a_workload_may_read_a_sparse_input():
    device = WithSparse("gpu", clock=Clock())
    sparse, dense = Sparse(), device.asarray(np.ones(2))
    workload, _ = first_call.first_call(lambda seen: lambda: lambda: (sparse, dense)[1] * 2, device)
    assert [dense] == [entry.array() for entry in workload.inputs]


def test_an_input_that_cannot_be_read_for_want_of_memory_is_an_error():
    class Full(WithSparse):
        def asnumpy(self, array):
            raise MemoryError

    with pytest.raises(MemoryError):
        first_call.first_call(lambda seen: lambda: Sparse().to_dense, Full("gpu", clock=Clock()))


def test_where_results_are_copied_check_is_no_way_out(strange):
    value, name = strange
    text = refusal(value, COPIED)
    assert text.startswith(f"result is of type {name}, which can be neither compared nor copied")
    assert "check=False" not in text
    assert text == refusal(value, Demand(min=3, transfer="once", calls=10))


def test_without_a_check_and_copies_anything_may_be_returned(strange):
    value, _ = strange
    assert [Leaf("result", value)] == copied_to_host(value, UNCHECKED)


def test_under_a_bare_marker_it_is_noted_only(strange):
    value, name = strange
    checks = ResultChecks(BARE)
    leaf = checks.copy_to_host([value], simulated())
    checks.require_same_result(leaf, leaf)
    checks.compare(leaf, leaf, simulated(), "before")
    assert not checks.differ
    said = f"the results were not compared: result[0] is a {name}, which cannot be compared"
    assert checks.notes == (Note(code="results_not_compared", text=said),)


@for_each("when", ["before", "after"])
def test_answers_that_differ_are_wrong_and_the_remedies_are_named(when):
    text = compared((1, 2), when=when).disagreement
    assert text.startswith(f"the devices disagree {when} timing: result[0]: 1 of 1 values differ; make ")
    assert "check=False" in text


@for_each(("named", "dtype"), [(True, "float32"), (False, "float64")])
def test_answers_that_differ_where_float32_is_rounded_more_name_the_setting(named, dtype):
    device = SimulatedDevice("gpu", clock=Clock(), reduced_precision="TF32 (allow_tf32)", reduced_eps=2**-10)
    checks = ResultChecks(GATE)
    first, close, wrong = (
        checks.copy_to_host(device.asarray(np.array([1.0, value], dtype)), device) for value in (1, 1.001, 2)
    )
    checks.compare(first, close, device, "before")
    assert checks.differ is not named
    checks.compare(first, wrong, device, "after")
    text = checks.disagreement
    assert named is ("more than the dtype says (TF32 (allow_tf32)): turn that off" in text)


@for_each(("runs_products", "differ"), [(None, False), (True, False), (False, True)])
def test_float32_has_the_tolerance_of_a_mode_only_where_products_may_have_run(runs_products, differ):
    cpu = simulated("cpu")
    device = SimulatedDevice("gpu", clock=Clock(), reduced_precision="TF32", reduced_eps=2**-10)
    checks, asked = ResultChecks(GATE), []
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


@for_each("pairs", [[(1, 2), (1, 1)], [(1, 1), (1, 2)], [(1, 2), (3, 3), (4, 4)]])
def test_of_two_findings_the_worse_stays(pairs):
    assert compared(*pairs).differ


def test_what_the_check_takes_is_told_altogether():
    device = simulated()
    checks = ResultChecks(GATE)
    slow = count(0.0, 0.25)
    device.clock = lambda: next(slow)
    for _ in range(3):
        checks.compare(leaves_of(1), leaves_of(1), device, "after")
    assert checks.elapsed == 0.75


@for_each(
    ("said", "value"),
    [
        ("zero", [0.0, 0.0]),
        ("zero", [0j, -0.0]),
        ("NaN", np.full((2, 2), np.nan, "float32")),
        ("NaN", np.nan),
        ("NaN", [complex(0, np.nan)]),
        (None, [0.0, 1.0]),
        (None, [np.nan, 0.0]),
        (None, [0.0, np.nan]),
        (None, 0.0),
        (None, [0.0]),
        (None, [0, 0]),
        (None, [False, False]),
        (None, []),
        (None, "00"),
    ],
)
def test_answers_of_zeros_or_nan_alone_are_noted_and_agree(said, value):
    checks = compared((value, value))
    assert checks.outcome.agreed is True
    text = f"only zeros or only NaN on both devices: result[0] ({said}); check that the work is done"
    assert checks.notes == ((Note(code="degenerate_results", text=text),) if said else ())
    assert compared(([0.0, 0.0], [1.0, 1.0])).notes == (), "on one device"


@for_each(("agreed", "pair", "demand"), [(True, (1.0, 1.0), GATE), (None, (1, 2), UNCHECKED)])
def test_answers_that_agree_or_need_not_are_not_wrong(agreed, pair, demand):
    checks = compared(pair, demand=demand)
    assert (agreed, False, ()) == (checks.outcome.agreed, checks.differ, checks.notes)
    assert checks.disagreement is None


def test_a_workload_that_returns_nothing_is_noted():
    checks = ResultChecks(GATE)
    checks.compare([], [], simulated(), "before")
    (note,) = checks.notes
    assert note.code == "results_not_compared"
    assert note.text == "the results were not compared: the workload returns nothing that could be compared"


@for_each(("demand", "after"), [(GATE, 1), (UNCHECKED, 2), (Demand(min=3, atol=2), 2)])
def test_a_result_that_stays_or_need_not_is_the_same_work(demand, after):
    ResultChecks(demand).require_same_result(leaves_of(1), leaves_of(after))
