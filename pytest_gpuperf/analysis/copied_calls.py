"""From a record to what a call on the GPU and its copies take: the one source of all shares of them."""

from dataclasses import dataclass
from statistics import median

from pytest_gpuperf.model.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedCall:
    """Seconds of a call on the GPU, and of its copies: of its share in them, where `calls` use the same."""

    call: float
    copies: float
    calls: int

    @property
    def total(self) -> float:
        """Seconds of the call with its copies."""
        return self.call + self.copies


def copied_call(record: Record) -> CopiedCall | None:
    """Return a call with its copies; None where there are none, or their time is not known.

    What they take is what they add to a call in a loop with them, where such a loop was timed: copies that
    are timed apart have no waits. In such a loop each result is waited for, so that the call beside them is,
    too; of `calls` on the same copies only the last one is.
    """
    transfer, demand, gpu = record.transfer, record.demand, record.gpu
    if gpu is None or transfer is None or not transfer.bytes:
        return None
    call = gpu.median if gpu.latency is None else gpu.latency
    if call is None:
        return None
    in_all = median(transfer.loop) - call if transfer.loop else transfer.median
    if in_all is None:
        return None
    calls = (demand.calls or 1) if demand.transfer == "once" else 1
    if demand.transfer == "once" and not demand.latency and gpu.median is not None:
        call = gpu.median
    return CopiedCall(call=call, copies=max(0.0, in_all) / calls, calls=calls)
