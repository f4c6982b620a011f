"""unittest.TestCase: the method is measured where unittest calls it, between setUp and tearDown."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeGuard

import pytest
from _pytest.unittest import TestCaseFunction

from pytest_gpuperf.integrations.fixture_replacements import no_subtest
from pytest_gpuperf.work.first_call import Bind

_MEASUREMENT_FAILED = pytest.StashKey[bool]()  # with an exception, or by its verdict


def call_instead(item: TestCaseFunction, call: Callable[[Callable[[], Any]], None]) -> None:
    """Let unittest call this in place of a method, which it gets."""
    method = item.obj

    @wraps(method)  # keeps the attributes that unittest's decorators have set
    def called() -> None:
        call(method)

    item.obj = called


def measure_instead(item: TestCaseFunction, measure: Callable[[Bind], None]) -> None:
    """Replace a unittest's method by its measurement."""
    item.stash[_MEASUREMENT_FAILED] = True

    def measured(method: Callable[[], Any]) -> None:
        item.instance.subTest = no_subtest
        measure(lambda _: method)
        item.stash[_MEASUREMENT_FAILED] = False

    call_instead(item, measured)


def is_called(item: pytest.Item) -> TypeGuard[TestCaseFunction]:
    """Return whether unittest will call this item's method."""
    return isinstance(item, TestCaseFunction) and not is_skipped(item)


def is_skipped(item: pytest.Item) -> bool:
    """Return whether one of unittest's decorators skips this item, with the suite's own reason."""
    return isinstance(item, TestCaseFunction) and any(
        getattr(target, "__unittest_skip__", False) for target in (item.obj, item.cls)
    )


def failures(item: pytest.Item) -> list[BaseException]:
    """Return the exceptions that unittest has caught in this item and not yet given to pytest."""
    return [info.value for info in getattr(item, "_excinfo", None) or ()]


def failures_around(item: pytest.Item) -> list[BaseException]:
    """Return them if the measurement did not fail itself: they come from setUp or tearDown then."""
    return [] if item.stash.get(_MEASUREMENT_FAILED, False) else failures(item)
