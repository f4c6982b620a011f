"""From an object of a user's to what its attributes hold; none of its code runs for that."""

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from inspect import ismemberdescriptor
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

CODE = (type, ModuleType, FunctionType)
"""What an object of code is: its attributes are those of a library, not of a user's data."""
CALLABLES = (FunctionType, MethodType, BuiltinFunctionType, partial)
_NOT_SEARCHED = {"_pytest", "builtins", "pluggy", "pytest", "pytest_gpuperf"}


def may_be_searched(value: Any) -> bool:
    """Return whether an object's attributes may hold a user's arrays: not those of code."""
    return not isinstance(value, CODE) and type(value).__module__.partition(".")[0] not in _NOT_SEARCHED


def attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names and values in an object's `__dict__` and slots."""
    yield from [*getattr(value, "__dict__", {}).items()]
    for base in type(value).__mro__:
        if "__slots__" in vars(base):
            for name, slot in vars(base).items():
                with suppress(AttributeError):  # a slot that is still empty
                    if ismemberdescriptor(slot):
                        yield name, slot.__get__(value)
