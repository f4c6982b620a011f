"""pytest-timeout: its timer is stopped while a test waits for the measurement lock, and then resumed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import pytest

_SHORTEST = 1e-3  # seconds: a timer of zero would never fire


@dataclass(frozen=True, slots=True, kw_only=True)
class _Timer:
    """The settings of pytest-timeout's timer, and when it was set (seconds)."""

    settings: Any
    since: float


class TimeoutPauser:
    """Tracks the timer pytest-timeout set for the running test; does nothing without pytest-timeout."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._timer: _Timer | None = None

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_timeout_set_timer(self, settings: Any) -> None:
        """Remember the timer; pytest-timeout sets it."""
        self._timer = _Timer(settings=settings, since=self._clock())

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_timeout_cancel_timer(self) -> None:
        """Forget the timer."""
        self._timer = None

    @contextmanager
    def stopped(self, item: pytest.Item) -> Iterator[None]:
        """Stop the timer of a test, and set it again for the remaining time."""
        timer = self._timer
        if timer is None:
            yield
            return
        remaining = max(timer.settings.timeout - (self._clock() - timer.since), _SHORTEST)
        hook = item.config.hook
        hook.pytest_timeout_cancel_timer(item=item)
        try:
            yield
        finally:
            hook.pytest_timeout_set_timer(item=item, settings=timer.settings._replace(timeout=remaining))
