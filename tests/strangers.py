"""Objects of which each answers some question badly: it raises, never ends, or leads to itself."""

import itertools
import types
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from unittest.mock import MagicMock, call

import pytest


def raising(method, error):
    """Return an object that raises at one of Python's questions."""

    def ask(self, *_):
        raise error

    answer = property(ask) if method in ("__class__", "__dict__") else ask
    return type("Stranger", (), {method: answer})()


def skipping(self, *_):
    pytest.skip("a stranger skips")


class MissingModule:
    """A module that is imported when it is first used."""

    def __getattr__(self, name):
        raise ModuleNotFoundError("No module named 'no_such_library'", name="no_such_library")


class MissingModuleProxy(types.ModuleType):
    __getattr__ = MissingModule.__getattr__


class Endless(list):
    def __iter__(self):
        return itertools.count()


class EndlessMapping(Mapping):
    def __getitem__(self, key):
        return key

    def __iter__(self):
        return itertools.count()

    def __len__(self):
        return 1 << 62


class BadItems(dict):
    def _raise(self, *_):
        raise RuntimeError("items")

    items = values = keys = __iter__ = _raise


class BadText(str):
    __slots__ = ()

    def __eq__(self, other):
        raise RuntimeError("eq")

    __hash__ = str.__hash__


class BadNumber(float):
    def __eq__(self, other):
        raise RuntimeError("eq")

    __hash__ = float.__hash__


class BadMeta(type):
    @property
    def __module__(cls):
        raise RuntimeError("module")

    def __instancecheck__(cls, value):
        raise RuntimeError("instance")


class OfBadMeta(metaclass=BadMeta):
    pass


@dataclass
class Unset:
    here: int
    missing: int = field(init=False)


class BaseIsItself:
    dtype, shape, nbytes = "float64", (3,), 24

    @property
    def base(self):
        return self


class NoDtype:
    @property
    def dtype(self):
        raise RuntimeError("dtype")

    shape = dtype


class NoShape:
    dtype = "float64"

    @property
    def shape(self):
        raise RuntimeError("shape")


class EqualItemByItem:
    def __eq__(self, other):
        return raising("__bool__", ValueError("ambiguous"))

    __hash__ = None


class StandsForText:
    """As a proxy does, it says that it is what it stands for."""

    __class__ = str


class Unwrapped:
    """What it wraps wraps another one, and so on."""

    @property
    def __wrapped__(self):
        return Unwrapped()


def around_itself():
    made = []
    made.append(made)
    return made


def mapping_around_itself():
    made = {}
    made["it"] = made
    return made


def object_around_itself():
    made = types.SimpleNamespace()
    made.it = made
    return made


def deep():
    made = ()
    for _ in range(5_000):
        made = (made,)
    return made


def dead():
    return weakref.proxy(set())


METHODS = (
    "__getattr__",
    "__getattribute__",
    "__eq__",
    "__bool__",
    "__len__",
    "__iter__",
    "__class__",
    "__hash__",
    "__repr__",
    "__str__",
    "__dict__",
    "__array__",
    "__float__",
    "__contains__",
    "__getitem__",
)
MAKE = {
    **{f"{name[2:-2]}_raises": lambda name=name: raising(name, RuntimeError(name)) for name in METHODS},
    "getattr_raises_key_error": lambda: raising("__getattr__", KeyError("key")),
    "getattr_skips": lambda: type("Skips", (), {"__getattr__": skipping})(),
    "eq_skips": lambda: type("Skips", (), {"__eq__": skipping, "__hash__": None})(),
    "missing_module": MissingModule,
    "missing_module_proxy": lambda: MissingModuleProxy("it"),
    "equal_item_by_item": EqualItemByItem,
    "endless": Endless,
    "endless_mapping": EndlessMapping,
    "endless_iterator": itertools.count,
    "bad_items": BadItems,
    "bad_text": lambda: BadText("gpu"),
    "bad_number": lambda: BadNumber(1.0),
    "of_bad_meta": OfBadMeta,
    "bad_class": lambda: OfBadMeta,
    "unset_field": lambda: Unset(1),
    "base_is_itself": BaseIsItself,
    "no_dtype": NoDtype,
    "no_shape": NoShape,
    "unwrapped": Unwrapped,
    "list_around_itself": around_itself,
    "mapping_around_itself": mapping_around_itself,
    "object_around_itself": object_around_itself,
    "deep": deep,
    "dead": dead,
    "mock": MagicMock,
    "mock_of_text": lambda: MagicMock(spec=str),
    "stands_for_a_text": StandsForText,
    "any_call": lambda: call,
}
NAMES = sorted(MAKE)


def ending(error):
    """Return an object that raises what no `except Exception` catches: a test's end, or the program's."""

    def ask(self, name):
        raise error

    return type("Ending", (), {"__getattr__": ask})()


ENDING = {
    "getattr_fails": lambda: ending(pytest.fail.Exception("a stranger fails")),
    "getattr_exits": lambda: ending(SystemExit(3)),
}
"""Where a test is running, they end it as they want to; while tests are collected they must not."""


def make(name):
    return {**MAKE, **ENDING}[name]()


def parameters(*more):
    """Return each of them, and more, as a parameter whose id is its name."""
    return [pytest.param(make(name), id=name) for name in (*NAMES, *more)]
