"""From an object that others made to what it answers; what it raises instead is an answer, too.

Values of parametrizations, results, fixtures and what other plugins hand on may be anything: a module that is
imported when it is first used, an object that needs an application, an array that is equal item by item.
They are asked through here, so that none of them ends a run, or fails a test that has nothing to do with it.
Their texts are those of `plain_text`.
"""

import operator
from collections.abc import Callable, Container, Iterable
from itertools import islice
from types import UnionType
from typing import Any

from pytest_gpuperf.model.errors import ends_run, is_skip

_NOTHING = object()


def answer(question: Callable[..., Any], *values: Any, default: Any = None) -> Any:
    """Return what a function says of objects; `default` where one of them raises in it."""
    try:
        return question(*values)
    except BaseException as error:
        # A skip is importorskip's, when a module is first used. Others may be those of a timeout's signal.
        if ends_run(error) or not (isinstance(error, Exception) or is_skip(error)):
            raise
        return default


def attribute(value: Any, name: str, default: Any = None) -> Any:
    """Return an attribute of an object; `default` where it has none, or cannot be asked."""
    return answer(getattr, value, name, default, default=default)


def has(value: Any, name: str) -> bool:
    """Return whether an object has an attribute, and gives it when it is asked."""
    return attribute(value, name, _NOTHING) is not _NOTHING


def is_a(value: Any, kind: type | UnionType | tuple[type, ...]) -> bool:
    """Return whether `isinstance` says so; an object that stands for another one may raise at that."""
    return answer(isinstance, value, kind, default=False) is True


def is_really(value: Any, kind: type | UnionType | tuple[type, ...]) -> bool:
    """Return whether an object's own class is one of these, which are no abstract ones: it is not asked."""
    return issubclass(type(value), kind)


def is_one_of(value: Any, words: Container[str]) -> bool:
    """Return whether a value is one of these texts; nothing but a text is compared with them."""
    return is_really(value, str) and str.__str__(value) in words


def is_equal(value: Any, other: Any) -> bool:
    """Return whether two objects are one, or `==` says that they are equal: with True, not with an array."""
    return value is other or answer(operator.eq, value, other) is True


def name_of(value: Any) -> str | None:
    """Return the name of a module, or of what stands for one: also of one that cannot be imported."""
    name = answer(_name, value)
    return str.__str__(name) if is_really(name, str) else None


def _name(value: Any) -> Any:
    try:
        return value.__name__
    except ImportError as error:  # a module that is imported when it is first used
        return error.name


def module_of(kind: Any) -> str:
    """Return the name of the module that defined a class or a function; empty where that does not say."""
    name = attribute(kind, "__module__")
    return str.__str__(name) if is_really(name, str) else ""


def package(kind: Any) -> str:
    """Return the outermost package of a class or a function; empty where that does not say."""
    return module_of(kind).partition(".")[0]


def parts(container: Iterable[Any], most: int) -> list[Any] | None:
    """Return at most so many parts of a container; None where it cannot be asked for them."""
    found: list[Any] | None = answer(_first, container, most)
    return found


def _first(container: Iterable[Any], most: int) -> list[Any]:
    return [*islice(container, most)]


def names(value: Any) -> dict[str, Any]:
    """Return what an object's `__dict__` has under names; nothing where it has none, or cannot be asked."""
    found = attribute(value, "__dict__")
    if not is_really(found, dict):
        return {}
    return {name: part for name, part in dict.items(found) if type(name) is str}
