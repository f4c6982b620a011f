"""Objects that raise when they are asked, or never end, in what a workload refers to and returns."""

from collections import ChainMap
from collections.abc import Mapping
from dataclasses import make_dataclass
from itertools import count, repeat
from types import ModuleType
from unittest.mock import MagicMock

import numpy as np
import pytest
from cases import for_each
from walks import simulated, walked

from pytest_gpuperf.devices.simulated import Clock
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.errors import GpuPerfError

GATE = Demand(min=3)


def raises(*arguments, **named):
    raise RuntimeError("asked outside of an application")


RAISING = (
    *("__class__", "__dict__", "__module__", "__self__", "__defaults__", "__closure__", "__name__"),
    *("dtype", "shape", "base", "nbytes", "data", "units", "attrs", "ndim", "device"),
)
SAYING = (
    *("__eq__", "__bool__", "__len__", "__iter__", "__repr__", "__str__", "__getattr__", "__getitem__"),
    *("__float__", "__array__", "__dask_graph__", "__contains__", "__index__"),
)


class EveryAttribute:
    """Has every attribute that it is asked for, as the stub of a remote procedure has."""

    def __getattr__(self, name):
        return lambda *_: None


class Lazily(ModuleType):
    """A module that is imported when it is first used, and is not installed."""

    def __getattr__(self, name):
        raise ModuleNotFoundError("No module named 'cupy'")


class Skips:
    def __getattr__(self, name):
        pytest.skip("could not import 'cupy'")


class Meta(type):
    def __getattr__(cls, name):
        raise RuntimeError("a class that cannot be asked")


class OfMeta(metaclass=Meta):
    pass


class Itself:
    """An array, as it says, that is the base, the data and an attribute of itself."""

    dtype = np.dtype("f8")
    shape = (3,)
    nbytes = 24

    def __init__(self):
        self.one = self.other = self.value = self

    base = data = property(lambda self: self)


class EndlessList(list):
    def __iter__(self):
        return count()


class LongList(list):
    def __len__(self):
        return 1 << 60

    __iter__ = EndlessList.__iter__


class EndlessDict(dict):
    def __len__(self):
        return 1

    def items(self):
        return repeat(("x", self["x"]))

    values = keys = items


class RaisingDict(dict):
    values = items = keys = __iter__ = __len__ = raises


class EndlessMapping(Mapping):
    __getitem__ = __len__ = raises

    def __iter__(self):
        return count()


def strangers():
    """Yield objects, each with its name: what is asked of them raises, or does not end."""
    for name in RAISING:
        yield f"raising {name}", type("Stranger", (), {name: property(raises)})()
    for name in SAYING:
        yield f"raising {name}()", type("Stranger", (), {name: raises})()
    yield "unhashable", type("Stranger", (), {"__hash__": None, "__eq__": raises})()
    yield "array that raises", type("Stranger", (), dict.fromkeys(("dtype", "shape"), property(raises)))()
    yield (
        "array of endless shape",
        type("Stranger", (), {"dtype": "f8", "shape": property(lambda _: count())})(),
    )
    yield "every attribute", EveryAttribute()
    yield "mock", MagicMock()
    yield "mock of an array", MagicMock(spec=np.ndarray)
    yield "module", Lazily("cupy")
    yield "skips", Skips()
    yield "class", OfMeta
    yield "of a class", OfMeta()
    yield "itself", Itself()
    yield "endless list", EndlessList()
    yield "endless list of some", EndlessList([1, 2])
    yield "long list", LongList()
    yield "endless dict", EndlessDict(x=1)
    yield "raising dict", RaisingDict(x=1)
    yield "endless mapping", EndlessMapping()
    maps = ChainMap({})
    maps.maps.append(maps)
    yield "its own map", maps


class Holder:
    def __init__(self, stranger):
        self.stranger = stranger


class Caller:
    def __init__(self, call, stranger):
        self.call, self.stranger = call, stranger

    def __call__(self):
        return self.call()


def in_closure(a, stranger):
    return lambda: (a + 1, stranger is None)[0]


def in_default(a, stranger):
    return lambda other=stranger: a + 1


def in_list(a, stranger):
    others = [stranger, {"x": stranger}, (stranger,)]
    return lambda: (a + 1, others is None)[0]


def in_object(a, stranger):
    return Caller(lambda: a + 1, Holder(stranger))


def as_global(a, stranger):
    globals()["mentioned"] = stranger
    return lambda: (a + 1, mentioned is None)[0]  # noqa: F821 - it is there when the body has run


PLACES = (in_closure, in_default, in_list, in_object, as_global)


def record_of(place, stranger):
    clock = Clock()

    def body(device):
        a = device.asarray(np.ones(3))
        device.launch(1e-2 if device.kind == "cpu" else 1e-3)
        call = place(a, stranger)

        def launched():
            device.launch(1e-2 if device.kind == "cpu" else 1e-3)
            return call()

        return Caller(launched, Holder(stranger)) if place is in_object else launched

    return walked(body, simulated("cpu", clock), simulated("gpu", clock), GATE)


@for_each("place", PLACES)
def test_strangers_that_a_workload_only_refers_to_change_nothing(place):
    assert record_of(place, [stranger for _, stranger in strangers()]).status == "passed"


def returned(a, stranger):
    return lambda: (a + 1, stranger)


@for_each(("name", "stranger"), strangers())
def test_a_stranger_in_a_result_is_a_value_or_is_refused_by_its_place_with_a_remedy(name, stranger):
    said = refusal_of((stranger, Holder(stranger), make_dataclass("Fields", ["field"])(stranger)))
    assert said is None or {"result[1]", type(stranger).__name__, "return "} == {
        word for word in ("result[1]", type(stranger).__name__, "return ") if word in said
    }


def refusal_of(result):
    try:
        assert record_of(returned, result).status == "passed"
    except GpuPerfError as refused:
        return str(refused)
    return None
