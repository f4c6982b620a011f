"""The user properties of a test: ours, and those of other plugins and of the suite, which may be anything."""

from collections.abc import Iterable
from itertools import filterfalse
from typing import Any

import pytest

from pytest_gpuperf.report.words.properties import PROPERTY_PREFIX


def ours(item: pytest.Item) -> list[Any]:
    """Return those of a test's user properties that are ours."""
    return [*filter(_is_ours, item.user_properties or ())]


def of_others(item: pytest.Item) -> list[Any]:
    """Return those of a test's user properties that are not ours."""
    return [*filterfalse(_is_ours, item.user_properties or ())]


def put(item: pytest.Item, others: Iterable[Any], ours: Iterable[Any]) -> None:
    """Let a test have these user properties, in the list that others may hold."""
    held: Any = item.user_properties
    if isinstance(held, list):
        held[:] = [*others, *ours]
    else:  # a tuple or None, which pytest reads, too
        item.user_properties = [*others, *ours]


def _is_ours(pair: Any) -> bool:
    """Return whether a user property is one of ours; of what others have put there only types are asked."""
    return type(pair) is tuple and bool(pair) and type(pair[0]) is str and pair[0].startswith(PROPERTY_PREFIX)
