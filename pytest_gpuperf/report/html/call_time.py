"""From a record to where the time of a call on the GPU goes: copies, work of the device, and the rest."""

from collections.abc import Iterator
from math import inf
from statistics import median
from typing import NamedTuple

from pytest_gpuperf.model import units
from pytest_gpuperf.model.record import Record

_APART = 0.1  # of the sum: by so much a loop differs from it before that is worth a sentence
_FASTER_LOOP = "it waits for the device once, and the parts above each on their own"
_SLOWER_LOOP = "it waits for the copies of the call before, and may find its data in no cache"


class Part(NamedTuple):
    """A part of the time of a call on the GPU."""

    name: str
    seconds: float


def sentence(record: Record) -> str | None:
    """Return the parts of a call in words, with what they are not; None where no call was timed."""
    shown = parts(record)
    if not shown:
        return None
    total = sum(part.seconds for part in shown)
    device = "an emulated device" if record.is_emulated else "the GPU"
    copies = " with its copies" if {"upload", "download"} & {part.name for part in shown} else ""
    each = (
        f"{part.name} {units.seconds(part.seconds)} ({100 * (part.seconds / total):.0f} %)" for part in shown
    )
    in_parts = f": {', '.join(each)}" if len(shown) > 1 else ""
    said = f"A call{copies} on {device} takes {units.seconds(total)}{in_parts}."
    return " ".join([said, *_caveats(record, total)])


def parts(record: Record) -> tuple[Part, ...]:
    """Return the parts of a call with its copies, in order; none where no call on the GPU was timed.

    The device is busy for no longer than a call takes: its own events may see one call alone take longer than
    each of many in a row. Copies that several calls share count for each by its share.
    """
    samples = record.gpu.samples_for(record.demand) if record.gpu and record.scaling is None else ()
    call = median(samples) if samples else 0.0
    if call <= 0:
        return ()
    upload, download = _copies(record)
    busy = _busy(record)
    middle = [Part("call", call)]
    if busy is not None:
        busy = min(max(0.0, busy), call)
        middle = [Part("device busy", busy), Part("launch and idle", call - busy)]
    found = (Part("upload", upload), *middle, Part("download", download))
    return tuple(part for part in found if part.seconds) if sum(part.seconds for part in found) < inf else ()


def _copies(record: Record) -> tuple[float, float]:
    """Return the seconds of the copies to the device and back, as far as they were timed."""
    transfer, demand = record.transfer, record.demand
    if transfer is None or transfer.h2d is None or transfer.d2h is None:
        return 0.0, 0.0
    calls = demand.calls if demand.transfer == "once" and demand.calls else 1
    upload, download = (max(0.0, copies.median or 0.0) / calls for copies in (transfer.h2d, transfer.d2h))
    return upload, download


def _busy(record: Record) -> float | None:
    """Return the seconds that the device worked on a call; None where that is not all of its work."""
    if record.gpu is None or _is_body(record) or _works_aside(record):
        return None
    return record.gpu.device_time


def _is_body(record: Record) -> bool:
    """Return whether the times are those of a body, whose copies are a part of it."""
    return record.scope == "body" or (record.transfer is not None and record.transfer.h2d is None)


def _works_aside(record: Record) -> bool:
    return any(diagnosis.code == "side_stream" for diagnosis in record.diagnosis)


def _caveats(record: Record, total: float) -> Iterator[str]:
    """Yield what the parts are not."""
    transfer, demand = record.transfer, record.demand
    if _is_body(record):
        yield "The body of the test is timed as a whole, with the copies that it makes."
    elif _works_aside(record):
        yield "The device works on other streams, too, so a call is one part."
    elif _busy(record) is None:
        yield "The device does not say how long it works on a call, so a call is one part."
    if transfer is None or transfer.h2d is None or not transfer.bytes:
        return
    if transfer.median is None:
        yield "The copies were not timed."
    elif demand.transfer == "once" and demand.calls:
        yield f"The copies are shared by {units.count(demand.calls, 'call')}."
    else:
        if demand.transfer == "never":
            yield "The speedup leaves the copies out."
        loop = median(transfer.loop) if transfer.loop else total
        if abs(loop - total) > _APART * total:
            cause = _SLOWER_LOOP if loop > total else _FASTER_LOOP
            yield f"In a loop, a call with its copies takes {units.seconds(loop)}: {cause}."
