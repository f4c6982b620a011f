"""pytest-timeout: sampling ends before its timer, which is stopped while a test waits.

Further calls of `--gpuperf-all` are no part of the time that a suite gives its test: for them the timer
begins anew, long enough for max_time.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from time import perf_counter
from typing import Any

import pytest

from pytest_gpuperf.timing.time_budget import OtherLimit

_SHORTEST = 1e-3  # seconds: a timer of zero would never fire


class TimeoutPauser:
    """Tracks the timer pytest-timeout set for the running test; does nothing without pytest-timeout."""

    def __init__(self) -> None:
        self._settings: Any = None  # of the timer that runs
        self._since = 0.0
        self._limit: float | None = None  # seconds that the suite gives the whole test; None in further calls

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_timeout_set_timer(self, settings: Any) -> None:
        """Remember the timer; pytest-timeout sets it."""
        self._settings = settings
        self._limit = settings.timeout
        self._since = perf_counter()

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_timeout_cancel_timer(self) -> None:
        """Forget the timer."""
        self._settings = None

    def limit(self) -> OtherLimit | None:
        """Return the limit of the running test, which its sampling is not to reach; None without one."""
        if self._settings is None or self._limit is None:
            return None
        return OtherLimit(owner="pytest-timeout", seconds=self._limit, left=self._left)

    def _left(self) -> float:
        """Return the seconds until the timer fires."""
        return inf if self._settings is None else self._settings.timeout - (perf_counter() - self._since)

    @contextmanager
    def stopped(self, item: pytest.Item) -> Iterator[None]:
        """Stop the timer of a test, and set it again for the remaining time."""
        settings, limit = self._settings, self._limit
        if settings is None:
            yield
            return
        remaining = max(self._left(), _SHORTEST)
        hook = item.config.hook
        hook.pytest_timeout_cancel_timer(item=item)
        try:
            yield
        finally:
            hook.pytest_timeout_set_timer(item=item, settings=settings._replace(timeout=remaining))
            self._limit = limit

    @contextmanager
    def begun_anew(self, item: pytest.Item, more: float) -> Iterator[None]:
        """Give further calls of a test its limit and so many seconds more; then its own timer goes on."""
        settings = self._settings
        if settings is None:
            yield
            return
        hook = item.config.hook
        with self.stopped(item):
            further = settings._replace(timeout=settings.timeout + more)
            hook.pytest_timeout_set_timer(item=item, settings=further)
            self._limit = None
            try:
                yield
            finally:
                hook.pytest_timeout_cancel_timer(item=item)
