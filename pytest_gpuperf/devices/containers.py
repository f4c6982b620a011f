"""From a container to its parts; what is compared and what a lazy library must compute are the same parts."""

from collections import UserList, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from itertools import islice
from typing import Any

from pytest_gpuperf.model import ask

SEQUENCES = (list, tuple, deque, UserList)
INDEXED = (Mapping, *SEQUENCES)
"""Of all containers those that are no dataclasses."""
MOST_OPENED = 1_000_000
"""Containers in one: of some that make others anew each time there is no end."""
_MOST_PARTS = 10_000_000  # of a container with methods of its own, which may give them without end


def is_container(value: Any) -> bool:
    """Return whether a value is a mapping, a sequence that is no text, or a dataclass."""
    return ask.is_a(value, INDEXED) or ask.has(type(value), "__dataclass_fields__")


def items(container: Any) -> Iterable[tuple[Any, Any]]:
    """Return the parts of a container, each with its key, its index, or the name of its field.

    A container with methods of its own raises what they raise.
    """
    if isinstance(container, Mapping):
        return container.items()
    if isinstance(container, SEQUENCES):
        return enumerate(container)
    return ((field.name, getattr(container, field.name)) for field in fields(container))


def asked_items(container: Any) -> Iterable[tuple[Any, Any]] | None:
    """Return the parts of a container; None of one that cannot be asked for them, or gives them endlessly."""
    kind = type(container)
    if kind is list or kind is tuple:
        return enumerate(container)
    if kind is dict:
        return [*container.items()]
    found: list[tuple[Any, Any]] | None = ask.answer(_as_many_as_it_has, container)
    return found


def found_in(value: Any, is_wanted: Callable[[Any], bool]) -> Iterator[Any]:
    """Yield what is wanted of a value and of the parts of containers in it, each of which is opened once."""
    queue, opened = [value], dict[int, Any]()
    while queue and len(opened) <= MOST_OPENED:
        part = queue.pop()
        if is_wanted(part):
            yield part
        elif id(part) not in opened and is_container(part):
            opened[id(part)] = part  # alive, so that no other part gets its id
            queue.extend(each for _, each in asked_items(part) or ())


def _as_many_as_it_has(container: Any) -> list[tuple[Any, Any]] | None:
    """Return the parts of a container; None where there are more than it says."""
    if not isinstance(container, INDEXED):
        return [*items(container)]
    most = min(len(container), _MOST_PARTS)
    found = [*islice(items(container), most + 1)]
    return found if len(found) <= most else None
