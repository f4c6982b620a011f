"""From a record to where the time of a call on the GPU goes: copies, work of the device, and the rest."""

from collections.abc import Iterable, Iterator
from math import inf
from statistics import median
from typing import Literal, NamedTuple

from pytest_gpuperf.model import units
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.report.html.figure import Figure, Mark, Style, bar

PartName = Literal["upload", "device busy", "launch and idle", "call", "download"]
"""`call` is a call as a whole, where the device does not say how long it worked on it."""
_STYLES: dict[PartName, Style] = {
    "upload": "copies",
    "device busy": "gpu",
    "launch and idle": "muted",
    "call": "gpu",
    "download": "copies",
}
_HEIGHTS: dict[PartName, float] = {  # shares of the bar's: what a part is shows without its colour, too
    "upload": 0.6,
    "device busy": 1.0,
    "launch and idle": 0.2,
    "call": 1.0,
    "download": 0.6,
}
_WIDTH, _HEIGHT = 90.0, 14.0
_APART = 0.1  # of the sum: by so much a loop differs from it before that is worth a sentence

_FASTER_LOOP = "it waits for the device once, and the parts above each on their own"
_SLOWER_LOOP = "it waits for the copies of the call before, and may find its data in no cache"


class Part(NamedTuple):
    """A part of the time of a call on the GPU."""

    name: PartName
    seconds: float


def parts(record: Record) -> tuple[Part, ...]:
    """Return the parts of a call with its copies, in order; none where no call on the GPU was timed.

    The device is busy for no longer than a call takes: its own events may see one call alone take longer than
    each of many in a row. Copies that several calls share count for each by its share.
    """
    call = _call(record)
    if call is None:
        return ()
    upload, download = _copies(record)
    busy = _busy(record)
    middle = [Part("call", call)]
    if busy is not None:
        busy = min(max(0.0, busy), call)
        middle = [Part("device busy", busy), Part("launch and idle", call - busy)]
    found = (Part("upload", upload), *middle, Part("download", download))
    return tuple(part for part in found if part.seconds) if sum(part.seconds for part in found) < inf else ()


def figure(record: Record) -> Figure | None:
    """Return the parts of a call as a bar for a row of the table; None where no call was timed.

    `sentence` says the same in words.
    """
    shown = parts(record)
    if not shown:
        return None
    return Figure(width=_WIDTH, height=_HEIGHT, finding=None, marks=list(_bar(shown)))


def legend(records: Iterable[Record]) -> list[tuple[str, Figure]]:
    """Return what the parts of the bars look like, in the order of the parts."""
    found = {part.name for record in records for part in parts(record)}
    return [(name.replace("call", "whole call"), _swatch(name)) for name in _STYLES if name in found]


def _swatch(name: PartName) -> Figure:
    """Return a piece of a bar."""
    return Figure(width=_HEIGHT, height=_HEIGHT, finding=None, marks=[_mark(name, 0.0, _HEIGHT)])


def sentence(record: Record) -> str | None:
    """Return the parts of a call in words, with what they are not; None where no call was timed."""
    shown = parts(record)
    if not shown:
        return None
    total = sum(part.seconds for part in shown)
    return " ".join([f"{_finding(record, shown)}.", *_caveats(record, total)])


def _call(record: Record) -> float | None:
    """Return the typical seconds of a call, of the kind that the speedup is about; None of several GPUs."""
    if record.scaling is not None:
        return None  # nobody says when which of them was busy
    samples = record.gpu.samples_for(record.demand) if record.gpu else ()
    call = median(samples) if samples else 0.0
    return call if call > 0 else None


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


def _bar(shown: tuple[Part, ...]) -> Iterator[Mark]:
    total = sum(part.seconds for part in shown)
    left = 0.0
    for part in shown:
        share = part.seconds / total * _WIDTH
        yield _mark(part.name, left, share)
        left += share


def _mark(name: PartName, left: float, width: float) -> Mark:
    tall = _HEIGHT * _HEIGHTS[name]
    return Mark(_STYLES[name], bar(left, (_HEIGHT - tall) / 2, width, tall), filled=True)


def _finding(record: Record, shown: tuple[Part, ...]) -> str:
    total = sum(part.seconds for part in shown)
    device = "an emulated device" if record.is_emulated else "the GPU"
    names = {part.name for part in shown}
    copies = " with its copies" if names & {"upload", "download"} else ""
    said = f"A call{copies} on {device} takes {units.seconds(total)}"
    if len(shown) == 1:
        return said
    each = (
        f"{part.name} {units.seconds(part.seconds)} ({100 * (part.seconds / total):.0f} %)" for part in shown
    )
    return f"{said}: {', '.join(each)}"


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
