"""From a record to where the time of a call on the GPU goes: copies, work of the device, and the rest."""

from collections.abc import Iterator
from math import isfinite
from statistics import median
from typing import Literal

from pytest_gpuperf.model import units
from pytest_gpuperf.model.record import Record

_APART = 0.1  # of the sum: by so much a loop differs from it before that is worth a sentence
_Unknown = Literal["body", "streams", "device"]
_WHY_ONE_PART: dict[_Unknown, str] = {
    "body": "The body of the test is timed as a whole, with the copies that it makes.",
    "streams": "The device works on other streams, too, so a call is one part.",
    "device": "The device does not say how long it works on a call, so a call is one part.",
}
"""Why it is not known how long the device worked on a call."""
_FASTER_LOOP = "it waits for the device once, and the parts above each on their own"
_SLOWER_LOOP = "it waits for the copies of the call before, and may find its data in no cache"


def sentence(record: Record) -> str | None:
    """Return the parts of a call in words, with what they are not; None where no call was timed."""
    shown = parts(record)
    if not shown:
        return None
    total = sum(shown.values())
    device = "an emulated device" if record.is_emulated else "the GPU"
    copies = " with its copies" if {"upload", "download"} & shown.keys() else ""
    unknown = _unknown(record)
    said = f"A call{copies} on {device} takes {units.seconds(total)}"
    if len(shown) > 1:
        each = (
            f"{name} {units.seconds(part)} ({100 * (part / total):.0f} %)" for name, part in shown.items()
        )
        said += f": {', '.join(each)}"
    if unknown == "device" and len(shown) == 1:  # there is nothing else to split
        unknown = None
    why = [_WHY_ONE_PART[unknown]] if unknown else []
    return " ".join([f"{said}.", *why, *_about_copies(record, total)])


def parts(record: Record) -> dict[str, float]:
    """Return the seconds of each part of a call with its copies, in order; none where no call was timed.

    The device is busy for no longer than a call takes: its own events may see one call alone take longer than
    each of many in a row. Copies that several calls share count for each by its share.
    """
    samples = record.gpu.samples_for(record.demand) if record.gpu and record.scaling is None else ()
    call = median(samples) if samples else 0.0
    if record.gpu is None or call <= 0:
        return {}
    upload, download = _copies(record)
    middle = {"call": call}
    if _unknown(record) is None:
        busy = min(max(0.0, record.gpu.device_time or 0.0), call)
        middle = {"device busy": busy, "launch and idle": call - busy}
    found = {"upload": upload, **middle, "download": download}
    return {name: part for name, part in found.items() if part} if isfinite(sum(found.values())) else {}


def _copies(record: Record) -> tuple[float, float]:
    """Return the seconds of the copies to the device and back, as far as they were timed."""
    transfer, demand = record.transfer, record.demand
    if transfer is None or transfer.h2d is None or transfer.d2h is None:
        return 0.0, 0.0
    calls = demand.calls if demand.transfer == "once" and demand.calls else 1
    upload, download = (max(0.0, copies.median or 0.0) / calls for copies in (transfer.h2d, transfer.d2h))
    return upload, download


def _unknown(record: Record) -> _Unknown | None:
    """Return what hides how long the device worked on a call; None where that is known."""
    if record.scope == "body" or (record.transfer and record.transfer.h2d is None):
        return "body"
    if any(diagnosis.code == "side_stream" for diagnosis in record.diagnosis):
        return "streams"
    if record.gpu is None or record.gpu.device_time is None:
        return "device"
    return None


def _about_copies(record: Record, total: float) -> Iterator[str]:
    """Yield what the times of the copies are not."""
    transfer, demand = record.transfer, record.demand
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
