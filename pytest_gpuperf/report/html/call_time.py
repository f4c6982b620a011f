"""From a record to where the time of a call on the GPU goes: copies, work of the device, and the rest."""

from math import isfinite
from statistics import median

from pytest_gpuperf.model import units
from pytest_gpuperf.model.record import Record


def sentence(record: Record) -> str | None:
    """Return the parts of a call in words; None where fewer than two parts are known."""
    parts = _parts(record)
    total = sum(parts.values())
    if len(parts) < 2 or not isfinite(total):
        return None
    device = "an emulated device" if record.is_emulated else "the GPU"
    copies = ""
    if {"upload", "download"} & parts.keys():
        copies = " with its share of the copies" if record.demand.transfer == "once" else " with its copies"
    each = (f"{name} {units.seconds(part)} ({100 * (part / total):.0f} %)" for name, part in parts.items())
    return f"A call{copies} on {device} takes {units.seconds(total)}: {', '.join(each)}."


def _parts(record: Record) -> dict[str, float]:
    """Return the seconds of each part of a call in order; a body is timed as a whole, and has no parts.

    The device is busy for no longer than a call takes: its own events may see one call alone take longer than
    each of many in a row. Copies that several calls share count for each by its share.
    """
    demand, gpu = record.demand, record.gpu
    if gpu is None or record.scaling is not None or record.scope == "body":
        return {}
    samples = gpu.samples_for(demand)
    call = median(samples) if samples else 0.0
    if call <= 0:
        return {}
    moved = (record.transfer.h2d, record.transfer.d2h) if record.transfer else (None, None)
    calls = demand.calls if demand.transfer == "once" and demand.calls else 1
    upload, download = (max(0.0, (copies and copies.median) or 0.0) / calls for copies in moved)
    on_other_streams = any(diagnosis.code == "side_stream" for diagnosis in record.diagnosis)
    if gpu.device_time is None or on_other_streams:
        middle = {"call": call}
    else:
        busy = min(max(0.0, gpu.device_time), call)
        middle = {"device busy": busy, "launch and idle": call - busy}
    found = {"upload": upload, **middle, "download": download}
    return {name: part for name, part in found.items() if part}
