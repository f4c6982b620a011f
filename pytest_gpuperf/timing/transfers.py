"""From a workload's uploads and results to the times of the transfers that each call needs."""

from array import array
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from msgspec.structs import replace

from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import Copies, Transfer
from pytest_gpuperf.timing import blocks
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.leaves import values_of
from pytest_gpuperf.timing.workload import Workload

TIMED_WITH_BODY = (
    "the whole body is the workload, including its transfers; return a callable to time them separately"
)
_NO_ROUND = "the transfers were not timed: no round of them was completed, or every round was dropped"
_NOTHING = (
    "nothing is transferred: no input was uploaded with device.asarray and the result holds no device array, "
    "so all transfer modes are equal"
)


def untimed(workload: Workload, reason: str | None = None, loop: BlockTimer | None = None) -> Transfer:
    """Return the sizes of a workload's transfers without their times; `reason` says why there are none.

    The times of a `loop` with them may be known all the same.
    """
    if workload.scope == "body":
        return Transfer(h2d=None, d2h=None, reason=TIMED_WITH_BODY)
    up = Copies(bytes=sum(upload.bytes for upload in workload.uploads), arrays=len(workload.uploads))
    down = Copies(bytes=workload.result_bytes, arrays=workload.result_arrays)
    reason = reason if up.bytes or down.bytes else _NOTHING
    return Transfer(h2d=up, d2h=down, made=workload.created_bytes, reason=reason, loop=_samples(loop))


def require_separable(demand: Demand, workload: Workload) -> None:
    """Refuse a limit that includes transfers where they cannot be timed apart from the workload."""
    if demand.transfer != "never" and workload.scope == "body":
        raise GpuPerfError(f"transfer={demand.transfer!r} has no effect here: {TIMED_WITH_BODY}")


def loop_timer(
    workload: Workload, options: RunOptions, sampled: BlockTimer | None = None
) -> BlockTimer | None:
    """Return a timer, warmed up, of calls with their copies, as a loop makes them; None without any copies.

    Each call uploads all inputs, works, and brings its result to the host. Like the workload it reads its own
    inputs, not the new copies. It holds one result and the inputs twice; the result of a `sampled` timer is
    replaced by its own.
    """
    if not untimed(workload).bytes:
        return None
    call, device, hosts = workload.call, workload.device, _hosts(workload)

    def call_with_copies() -> Any:
        if sampled is not None:
            sampled.drop_result()
        arrays = [device.asarray(host) for host in hosts]
        result = call()
        if device.holds(result):
            device.asnumpy(result)
        else:
            for leaf in values_of(result):
                if device.holds(leaf.value):
                    device.asnumpy(leaf.value)
        if sampled is not None:
            sampled.last_result = result
        del arrays

    comes_down = workload.result_bytes > 0
    loop = call_with_copies if comes_down else blocks.waited_for(call_with_copies, device)
    return blocks.warmed_up(loop, device, options, workload.restore)


class TransferTimer:
    """The transfers of one workload on a GPU, warmed up: its uploads, and the download of its result.

    Each direction is a workload of its own, waited for like a call with transfers. The timer holds one result
    of the workload, of a call of its own. Creating it transfers everything a few times. `loop` times calls
    with their copies; it may have its samples already.
    """

    def __init__(self, workload: Workload, options: RunOptions, loop: BlockTimer | None = None) -> None:
        self._untimed = untimed(workload)
        self._loop = loop
        device, hosts = workload.device, _hosts(workload)
        with capabilities.context(device):
            workload.prepare()
            returned = [leaf.value for leaf in values_of(workload.call()) if device.holds(leaf.value)]
        self._memory = _memory(device, hosts)
        upload = blocks.waited_for(lambda: [device.asarray(host) for host in hosts], device)

        def download() -> None:
            for value in returned:
                device.asnumpy(value)

        def timed(copies: Copies | None, call: Callable[[], None]) -> BlockTimer | None:
            return blocks.warmed_up(call, device, options) if copies and copies.bytes else None

        self._h2d = timed(self._untimed.h2d, upload)
        self._d2h = timed(self._untimed.d2h, download)
        self.timers = [timer for timer in (self._h2d, self._d2h) if timer is not None]

    @property
    def transfer(self) -> Transfer:
        """What has been measured so far."""
        h2d, d2h = self._untimed.h2d, self._untimed.d2h
        return replace(
            self._untimed,
            reason=self._untimed.reason
            or (None if all(timer.samples for timer in self.timers) else _NO_ROUND),
            h2d=h2d and replace(h2d, samples=_samples(self._h2d), memory=self._memory),
            d2h=d2h and replace(d2h, samples=_samples(self._d2h), memory="pageable"),
            loop=_samples(self._loop),
        )


def _hosts(workload: Workload) -> list[Any]:
    """Return what goes up: arrays, so that the conversion of a list is not timed as a transfer."""
    uploaded = [upload.host() for upload in workload.uploads if upload.host is not None]
    return [host if hasattr(host, "dtype") else np.asarray(host) for host in uploaded]


def _samples(timer: BlockTimer | None) -> "array[float]":
    return array("d", timer.samples if timer else ())


def _memory(device: Any, hosts: list[Any]) -> Literal["pinned", "pageable"] | None:
    """Return the kind of memory that all host arrays are in; one pageable array makes the whole pageable."""
    kinds = {capabilities.host_memory(device, host) for host in hosts}
    if "pageable" in kinds:
        return "pageable"
    return kinds.pop() if len(kinds) == 1 else None
