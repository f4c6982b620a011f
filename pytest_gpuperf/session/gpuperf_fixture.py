"""The fixture `gpuperf`: one body on both devices, inside one test."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from pytest_gpuperf.collection.items import SPEC
from pytest_gpuperf.devices.protocol import Device
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.session.session import GpuPerfSession

__all__ = ["MEASURED", "GpuPerfFixture"]

MEASURED = pytest.StashKey[Record]()
"""What `both` measured in an item; its verdict falls when the test's own body has ended."""


class GpuPerfFixture:
    """The value of the fixture `gpuperf`."""

    def __init__(self, session: GpuPerfSession, item: pytest.Function) -> None:
        self._session = session
        self._item = item

    def both(self, body: Callable[[Any], Any]) -> tuple[Any, Any]:
        """Run a body on the CPU and on the GPU, and return both results, as each library has them.

        The body takes the array namespace, or, where its parameter is called `device`, the Device; as a test
        it may return a callable, which is then the workload. In a speedup test it is timed: once for a test,
        and the verdict falls when the test has ended. Skips, with the reason, where there is no GPU.
        """
        shape = self._item.stash.get(SPEC, None)
        if shape is not None and shape.calls_both:
            if MEASURED in self._item.stash:
                pytest.fail(
                    "gpuperf.both was called twice in one speedup test; parametrize it, so that each has its "
                    "own verdict",
                    pytrace=False,
                )
            record = self._session.measure(self._item, shape, partial(_bound, body))
            self._item.stash[MEASURED] = record
            if record.gpu is None:
                self._session.settle(record, self._item)
        cpu = _result(body, self._session.machine.cpu())
        return cpu, _result(body, self._session.gpu())


def _bound(body: Callable[[Any], Any], device: Device) -> Callable[[], Any]:
    parameters = list(inspect.signature(body).parameters)
    takes_device = parameters and parameters[0] == "device"
    return partial(body, device if takes_device else device.xp)


def _result(body: Callable[[Any], Any], device: Device) -> Any:
    found = _bound(body, device)()
    found = found() if callable(found) else found
    device.synchronize()
    return found
