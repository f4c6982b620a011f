"""From the results of single calls to whether the timed work was the work that was asked for."""

from collections.abc import Iterator
from dataclasses import dataclass
from io import IOBase
from typing import Any

from pytest_gpuperf.analysis import noise
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import Interference, Measurement, Parity
from pytest_gpuperf.model.record import Note
from pytest_gpuperf.timing import inputs, inspection, parity
from pytest_gpuperf.timing.blocks import Workload

__all__ = ["CpuResult", "ResultChecks"]

_HINT = "seed what the body draws at random; rtol and atol compare elementwise"
_CHOICE = "return arrays, numbers or text, in tuples, lists, dicts or dataclasses"


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuResult:
    """What a CPU sibling leaves for its GPU sibling: its measurement, and its answer on the host."""

    measurement: Measurement
    answer: list[parity.Leaf]
    interference: Interference | None

    @property
    def doubt(self) -> str | None:
        """Why the times are in doubt, if they are."""
        return noise.sentence(self.interference) if self.interference else None


class ResultChecks:
    """The answers of both devices, compared before timing and after it; the worse finding stays.

    Work that was not what was asked for is a GpuPerfError.
    """

    def __init__(self, demand: Demand) -> None:
        self.parity: Parity | None = None
        self.elapsed: float | None = None
        self._demand = demand

    @property
    def differ(self) -> bool:
        """Whether the devices gave different answers."""
        return self.parity is not None and self.parity.agreed is False

    @property
    def notes(self) -> tuple[Note, ...]:
        """That the answers were to be compared and nobody could tell, if so."""
        if not self._demand.parity or self.parity is None or self.parity.agreed is not None:
            return ()
        return (Note(code="parity_not_checked", text=f"parity was not checked: {self.parity.reason}"),)

    def wrong(self, *, after_timing: bool) -> str | None:
        """Return how the devices disagree, if they do."""
        if self.parity is None or not self.differ:
            return None
        when = "after" if after_timing else "before"
        return f"the devices disagree {when} timing: {self.parity.reason}; {_HINT}"

    def on_host(self, result: Any, device: TimedDevice) -> list[parity.Leaf]:
        """Return a result's values on the host; refuse one that holds no values yet, or none that compare."""
        answer = parity.snapshot(result, device.holds, device.asnumpy)
        for path, value in parity.strange(answer):
            name = f"{path} is of type {type(value).__name__}"
            if isinstance(value, Iterator) and not isinstance(value, IOBase):
                raise GpuPerfError(f"{name}, whose work is done after the call; return what it yields")
            if self._demand.bare or not (self._demand.parity or self._demand.transfer != "never"):
                continue
            remedy = " or say parity=False" if self._demand.transfer == "never" else ""
            raise GpuPerfError(f"{name}, which can be neither compared nor copied; {_CHOICE}{remedy}")
        return answer

    def last(self, workload: Workload) -> list[parity.Leaf]:
        """Make the last call and return its answer on the host; the inputs must be what they were."""
        result = inspection.finish(workload)
        changed = inputs.changed(workload.inputs, workload.call, workload.device)
        if changed is not None:
            raise GpuPerfError(
                f"the workload changes its own input ({changed}), so later calls do other work; "
                "work on a copy made inside it, or write to another array"
            )
        return self.on_host(result, workload.device)

    def check_work(self, gpu: Workload) -> None:
        """Refuse a workload that left the GPU idle."""
        if not gpu.worked:
            raise GpuPerfError(
                f"no work reached {gpu.device.name}: the result lives on the host and the device saw "
                "nothing; make the arrays with device.asarray or xp"
            )

    def check_same(self, before: list[parity.Leaf], after: list[parity.Leaf]) -> None:
        """Refuse work whose answer changes from call to call."""
        if parity.compare(before, after, self._demand).agreed is False:
            raise GpuPerfError(
                "the workload's result changes from call to call, so later calls do other work; "
                "undo inside it what it changes, fix its random numbers, or say parity=False"
            )

    def compare(self, cpu: list[parity.Leaf], gpu: list[parity.Leaf], device: TimedDevice) -> None:
        """Compare the devices' answers."""
        started = device.clock()
        found = parity.compare(cpu, gpu, self._demand)
        self.elapsed = (self.elapsed or 0.0) + device.clock() - started
        if self.parity is None or found.agreed is False:
            self.parity = found
