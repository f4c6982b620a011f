"""The hook through which other plugins bring their devices."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from pytest_gpuperf.devices.protocol import Backend

hookspec = pluggy.HookspecMarker("pytest")


@hookspec
def pytest_gpuperf_devices() -> "Iterable[Backend]":  # type: ignore[empty-body]  # a hook has no body
    """Return backends (see `pytest_gpuperf.devices.protocol.Backend`) that `--gpuperf-gpu` may name.

    Called once in a run, when the first device is needed. Mark an implementation in a conftest with
    `@pytest.hookimpl(optionalhook=True)`, and the suite runs without this plugin too.
    """
