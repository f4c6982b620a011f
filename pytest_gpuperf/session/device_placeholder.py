"""What the fixtures `device` and `devices` give a test that is yet to be measured."""

from typing import Any

import pytest


class DevicePlaceholder:
    """Placeholder for the device of a speedup test; any use outside the measured call raises UsageError."""

    def __init__(self, fixture: str) -> None:
        self._fixture = fixture
        self.xp: Any = self  # only the use of the namespace is an error

    def __getattr__(self, name: str) -> Any:
        raise pytest.UsageError(
            f"`{self._fixture}` has no attribute {name!r} before the test is measured; request it as an "
            "argument of the test function, and use it in no fixture or getfixturevalue()"
        )
