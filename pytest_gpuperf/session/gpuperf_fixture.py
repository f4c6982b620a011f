"""The fixture `gpuperf`: one body on both devices, inside one test, and workloads that change their state."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from pytest_gpuperf.collection.items import SPEC, accelerator_of
from pytest_gpuperf.devices.protocol import Device
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.session import timed_call
from pytest_gpuperf.session.ranks import run_once
from pytest_gpuperf.session.session import GpuPerfSession
from pytest_gpuperf.work.workload import ResettableCall

MEASURED = pytest.StashKey[Record]()
"""In the stash of an item that called `both`: the record, whose verdict ends the test after its body."""


class GpuPerfFixture:
    """The value of the fixture `gpuperf`."""

    def __init__(self, session: GpuPerfSession, item: pytest.Function) -> None:
        self._session = session
        self._item = item

    @staticmethod
    def workload(call: Callable[[], Any], *, reset: Callable[[], Any]) -> ResettableCall:
        """Return a workload for a test to return whose calls change a state, as training steps do.

        `reset` brings that state back. It runs before the first call, before each block of timed calls and
        before the last check, on both devices, and is not timed. The results of the first two calls are
        compared, and must come again after each reset. TypeError where one of the two cannot be called.
        """
        if not (callable(call) and callable(reset)):
            raise TypeError("gpuperf.workload takes two functions without arguments, call and reset")
        return ResettableCall(call, reset)

    def both(self, body: Callable[[Any], Any]) -> tuple[Any, Any]:
        """Run a body on the CPU and on the GPU, and return both results, as each library has them.

        The body takes the array namespace, or, where its parameter is called `device`, the Device; like a
        test it may return a callable, which is then the workload. In a speedup test it is timed, and the
        verdict ends the test after its own body has passed. Skips, with the reason, where there is no GPU.
        """
        spec = self._item.stash.get(SPEC, None)
        if spec is not None and spec.device is not None:
            raise GpuPerfError(
                "the test is parametrized over single devices but calls gpuperf.both(), which uses both; use "
                "one or the other"
            )
        is_debugged = self._item.config.getoption("trace", default=False)
        if spec is not None and spec.calls_both and not is_debugged:
            if not self._session.ranks.measures:
                results = run_once.both(self._item, partial(_bind, body), self._session.devices)
                self._session.meet_ranks(self._item, spec)  # before what the test does next with other ranks
                return results
            if MEASURED in self._item.stash:
                pytest.fail(
                    "gpuperf.both was called twice in one speedup test; parametrize the test, so that each "
                    "call has its own verdict",
                    pytrace=False,
                )
            record = self._session.measure(self._item, spec, partial(_bind, body))
            self._item.stash[MEASURED] = record
            if record.gpu is None:
                self._session.apply_verdict(record, self._item)
        bind = partial(_bind, body)
        accelerator = accelerator_of(self._item)
        cpu_result = timed_call.run_once(bind, self._session.devices.cpu(accelerator))
        return cpu_result, timed_call.run_once(bind, self._session.devices.gpu(accelerator))


def _bind(body: Callable[[Any], Any], device: Device) -> Callable[[], Any]:
    parameters = list(inspect.signature(body).parameters)
    takes_device = parameters and parameters[0] == "device"
    return partial(body, device if takes_device else device.xp)
