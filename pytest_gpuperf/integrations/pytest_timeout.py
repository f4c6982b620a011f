"""pytest-timeout: its timer is stopped while a test waits, and begun anew for further calls of the test."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import pytest

_SHORTEST = 1e-3  # seconds: a timer of zero would never fire


class TimeoutPauser:
    """Tracks the timer pytest-timeout set for the running test; does nothing without pytest-timeout."""

    def __init__(self) -> None:
        self._settings: Any = None  # of the timer that runs
        self._since = 0.0

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_timeout_set_timer(self, settings: Any) -> None:
        """Remember the timer; pytest-timeout sets it."""
        self._settings = settings
        self._since = perf_counter()

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_timeout_cancel_timer(self) -> None:
        """Forget the timer."""
        self._settings = None

    @contextmanager
    def stopped(self, item: pytest.Item) -> Iterator[None]:
        """Stop the timer of a test, and set it again for the remaining time."""
        settings = self._settings
        if settings is None:
            yield
            return
        remaining = max(settings.timeout - (perf_counter() - self._since), _SHORTEST)
        hook = item.config.hook
        hook.pytest_timeout_cancel_timer(item=item)
        try:
            yield
        finally:
            hook.pytest_timeout_set_timer(item=item, settings=settings._replace(timeout=remaining))

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
            try:
                yield
            finally:
                hook.pytest_timeout_cancel_timer(item=item)
