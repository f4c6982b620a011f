"""From a workload's inputs and results to the copies that a call needs, timed in rounds of their own."""

from array import array
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import Copies, Transfer
from pytest_gpuperf.timing import blocks
from pytest_gpuperf.timing.blocks import Workload
from pytest_gpuperf.timing.parity import leaves

__all__ = ["OF_THE_BODY", "TransferTimer", "check", "known"]

OF_THE_BODY = (
    "the whole body is the workload, with the copies that it makes; return a callable and they are timed "
    "apart from it"
)
_NO_ROUND = "the copies were not timed: no round of them was completed, or none counts"
_NOTHING = (
    "no bytes move: nothing went up with device.asarray and the result holds no array of the device, so the "
    "regimes are equal"
)


def known(workload: Workload, reason: str | None = None) -> Transfer:
    """Return what a workload copies, without any times; `reason` says why there are none."""
    if workload.scope == "body":
        return Transfer(h2d=None, d2h=None, reason=OF_THE_BODY)
    up = Copies(bytes=sum(upload.bytes for upload in workload.uploads), arrays=len(workload.uploads))
    down = Copies(bytes=workload.result_bytes, arrays=workload.result_arrays)
    nothing = _NOTHING if not up.bytes and not down.bytes else reason
    return Transfer(h2d=up, d2h=down, made=workload.made, reason=nothing)


def check(demand: Demand, workload: Workload) -> None:
    """Raise GpuPerfError when copies are demanded that cannot be told from the workload."""
    if demand.transfer != "never" and workload.scope == "body":
        raise GpuPerfError(f"transfer={demand.transfer!r} gates nothing here: {OF_THE_BODY}")


class TransferTimer:
    """The copies of one workload on a GPU, ready to be timed: up what the body put there, down a result.

    Each direction is a workload of its own, waited for as a call with copies has to be. One result of the
    workload is held as long as this is. Making it copies everything a few times.
    """

    def __init__(self, workload: Workload, plan: RunOptions) -> None:
        self._known = known(workload)
        device = workload.device
        hosts = [_as_array(upload.host()) for upload in workload.uploads if upload.host is not None]
        returned = [leaf.value for leaf in leaves(workload.call()) if device.holds(leaf.value)]
        self._memory = _memory(device, hosts)

        def up() -> None:
            placed = [device.asarray(host) for host in hosts]
            device.synchronize()
            del placed

        def down() -> None:
            for value in returned:
                device.asnumpy(value)

        self._up = blocks.timed(up, device, plan) if self._known.h2d and self._known.h2d.bytes else None
        self._down = blocks.timed(down, device, plan) if self._known.d2h and self._known.d2h.bytes else None
        self.workloads = [workload for workload in (self._up, self._down) if workload is not None]

    @property
    def latest(self) -> float:
        """The seconds that the copies of both directions took in the last round."""
        return sum(workload.samples[-1] for workload in self.workloads)

    @property
    def samples(self) -> list[float]:
        """The seconds for both directions, round by round."""
        columns = (workload.samples for workload in self.workloads)
        return [sum(pair) for pair in zip(*columns, strict=False)]  # one that raised has a sample less

    @property
    def transfer(self) -> Transfer:
        """What was measured by now."""
        h2d, d2h = self._known.h2d, self._known.d2h
        return replace(
            self._known,
            reason=self._known.reason or (None if self.samples else _NO_ROUND),
            h2d=h2d and replace(h2d, samples=_samples(self._up), memory=self._memory),
            d2h=d2h and replace(d2h, samples=_samples(self._down), memory="pageable"),
        )


def _samples(workload: Workload | None) -> "array[float]":
    return array("d", workload.samples) if workload else array("d")


def _as_array(host: Any) -> Any:
    """Return what goes up as an array, so that making one of a list is not timed as a copy."""
    return host if hasattr(host, "dtype") else np.asarray(host)


def _memory(device: Any, hosts: list[Any]) -> Literal["pinned", "pageable"] | None:
    """Return what all of the host's arrays are: one that is pageable makes the whole so."""
    kinds = {capabilities.host_memory(device, host) for host in hosts}
    return "pageable" if "pageable" in kinds else kinds.pop() if len(kinds) == 1 else None
