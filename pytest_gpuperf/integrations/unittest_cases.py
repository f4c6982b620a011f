"""From a unittest's method to one that is measured where unittest calls it, and what failed around it."""

from collections.abc import Callable
from functools import wraps
from typing import TypeGuard

import pytest
from _pytest.unittest import TestCaseFunction

from pytest_gpuperf.integrations.stand_ins import silence_subtests
from pytest_gpuperf.timing.inspection import Bind

__all__ = ["failures", "failures_around", "is_called", "is_skipped", "measure_instead"]

_HAS_RAISED = pytest.StashKey[bool]()  # the measurement, its verdict included


def measure_instead(item: TestCaseFunction, walk: Callable[[Bind], None]) -> None:
    """Let a unittest's method be measured where unittest calls it, between setUp and tearDown."""
    method = item.obj
    item.stash[_HAS_RAISED] = True

    @wraps(method)  # with what unittest's decorators have left on it
    def measured() -> None:
        silence_subtests(item.instance)
        walk(lambda _: method)
        item.stash[_HAS_RAISED] = False

    item.obj = measured


def is_called(item: pytest.Item) -> TypeGuard[TestCaseFunction]:
    """Say whether unittest will call this item's method."""
    return isinstance(item, TestCaseFunction) and not is_skipped(item)


def is_skipped(item: pytest.Item) -> bool:
    """Say whether a decorator of unittest's skips this item, with the suite's own reason."""
    return isinstance(item, TestCaseFunction) and any(
        getattr(each, "__unittest_skip__", False) for each in (item.obj, item.cls)
    )


def failures(item: pytest.Item) -> list[BaseException]:
    """Return the exceptions that unittest keeps of this item, which pytest has not seen yet."""
    return [kept.value for kept in getattr(item, "_excinfo", None) or ()]


def failures_around(item: pytest.Item) -> list[BaseException]:
    """Return them where the measurement went well, and where there was none: tearDown's, say."""
    return [] if item.stash.get(_HAS_RAISED, False) else failures(item)
