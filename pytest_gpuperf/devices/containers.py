"""From a container to its parts; what is compared and what a lazy library must compute are the same parts."""

from collections import UserList, deque
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

SEQUENCES = (list, tuple, deque, UserList)


def is_container(value: Any) -> bool:
    """Return whether a value is a mapping, a sequence that is no text, or a dataclass."""
    return isinstance(value, (Mapping, *SEQUENCES)) or (is_dataclass(value) and not isinstance(value, type))


def items(container: Any) -> Iterable[tuple[Any, Any]]:
    """Return the parts of a container, each with its key, its index, or the name of its field."""
    if isinstance(container, Mapping):
        return container.items()
    if isinstance(container, SEQUENCES):
        return enumerate(container)
    return ((field.name, getattr(container, field.name)) for field in fields(container))
