"""From an object of a user's to what its attributes hold; none of its code runs for that."""

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from types import BuiltinFunctionType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

from pytest_gpuperf.model import ask

CODE = (type, ModuleType, FunctionType)
"""What an object of code is: its attributes are those of a library, not of a user's data."""
CALLABLES = (FunctionType, MethodType, BuiltinFunctionType, partial)
_NOT_SEARCHED = {"_pytest", "builtins", "pluggy", "pytest", "pytest_gpuperf"}


def may_be_searched(value: Any) -> bool:
    """Return whether an object's attributes may hold a user's arrays: not those of code."""
    return not ask.is_a(value, CODE) and ask.package(type(value)) not in _NOT_SEARCHED


def attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names and values in an object's `__dict__` and slots."""
    yield from ask.names(value).items()
    for base in type(value).__mro__:
        if "__slots__" in vars(base):
            for name, slot in vars(base).items():
                with suppress(AttributeError):  # a slot that is still empty
                    if type(slot) is MemberDescriptorType:
                        yield name, slot.__get__(value)
