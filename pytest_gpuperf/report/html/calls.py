"""The calls of one test: the times of its rounds in a figure, and in words where the time of a call goes."""

from collections.abc import Sequence
from math import ceil, isfinite
from statistics import median

from pytest_gpuperf.analysis.copied_calls import copied_call
from pytest_gpuperf.model import units
from pytest_gpuperf.model.demand import KINDS, Kind
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.report.axes import LogScale
from pytest_gpuperf.report.html.figure import Figure, Mark, Word, scatter

_MOST = 200  # dots of one device
_WIDTH, _LEFT, _RIGHT = 360, 56, 296
_HEIGHT, _GAP, _MARGIN = 40, 22, 6
_LEAST, _LONGEST = 1e-30, 1e30  # seconds; beyond are those of files that lie
_NARROWEST = 1.05  # over the median, and below it: noise of a percent looks like one


def rounds_figure(record: Record) -> Figure | None:
    """Return a strip of dots for each device, both with the same room for the same ratio to the median.

    A dot is a round's time of a call; the line is their median. None where nothing was sampled twice.
    """
    strips = {kind: samples for kind in KINDS if len(samples := _samples(record, kind)) > 1}
    if not strips:
        return None
    medians = {kind: median(samples) for kind, samples in strips.items()}
    ratios = [end / medians[kind] for kind, each in strips.items() for end in (min(each), max(each))]
    axis = LogScale(min(*ratios, 1 / _NARROWEST), max(*ratios, _NARROWEST), _HEIGHT)
    rounds = max(map(len, strips.values()))
    step = ceil(rounds / _MOST)
    marks: list[Mark] = []
    words: list[Word] = []
    findings = []
    for number, (kind, samples) in enumerate(strips.items()):
        top = _MARGIN + number * (_HEIGHT + _GAP)
        bottom, typical = top + _HEIGHT, medians[kind]
        heights = [round(bottom - axis.position(sample / typical)) for sample in samples[::step]]
        across = [round(_LEFT + place * (_RIGHT - _LEFT) / (rounds - 1)) for place in range(0, rounds, step)]
        middle = bottom - axis.position(1.0)
        marks.append(Mark("axis", f"M{_LEFT} {middle:.0f}H{_RIGHT}"))
        marks.append(Mark(kind, scatter(zip(across, heights, strict=False)), "dots"))
        words += (
            Word(_LEFT - 7, top + 6, units.seconds(axis.high * typical), "end"),
            Word(_LEFT - 7, bottom + 4, units.seconds(axis.low * typical), "end"),
            Word(_RIGHT + 8, top + 17, kind.upper()),
            Word(_RIGHT + 8, top + 31, units.seconds(typical)),
        )
        ends = f"{units.seconds(min(samples))} to {units.seconds(max(samples))}"
        findings.append(f"{kind.upper()} {units.seconds(typical)} ({ends})")
    shown = f", one of each {step} shown" if step > 1 else ""
    return Figure(
        width=_WIDTH,
        height=2 * _MARGIN + len(strips) * (_HEIGHT + _GAP) - _GAP,
        finding=f"{units.count(rounds, 'round')} in order: {'; '.join(findings)}",
        marks=marks,
        words=words,
        caption=f"Time of a call in {units.count(rounds, 'round')}, in order{shown}; line: the median; "
        "the same height is the same ratio.",
    )


def _samples(record: Record, kind: Kind) -> Sequence[float]:
    measurement = record.measurement(kind)
    taken = measurement.samples_for(record.demand) if measurement else ()
    return [sample for sample in taken if _LEAST < sample < _LONGEST]


def parts_sentence(record: Record) -> str | None:
    """Return the parts of a call in words; None where fewer than two parts are known."""
    parts = _parts(record)
    total = sum(parts.values())
    if len(parts) < 2 or not isfinite(total):
        return None
    copies = ""
    if {"upload", "download", "copies"} & parts.keys():
        copies = " with its share of the copies" if record.demand.transfer == "once" else " with its copies"
    each = (f"{name} {units.seconds(part)} ({100 * (part / total):.0f} %)" for name, part in parts.items())
    return f"A call{copies} on the {record.gpu_noun} takes {units.seconds(total)}: {', '.join(each)}."


def _parts(record: Record) -> dict[str, float]:
    """Return the seconds of each part of a call; a body is timed as a whole, and has no parts.

    The device is busy for no longer than a call takes: its own events may see one call alone take longer than
    each of many in a row. Where copies were timed in a loop with calls, that does not tell their directions.
    """
    gpu, transfer = record.gpu, record.transfer
    if gpu is None or record.scaling is not None or record.scope == "body":
        return {}
    samples, copied = gpu.samples_for(record.demand), copied_call(record)
    call = copied.call if copied else median(samples) if samples else 0.0
    if call <= 0:
        return {}
    on_other_streams = any(diagnosis.code == "side_stream" for diagnosis in record.diagnosis)
    if gpu.device_time is None or on_other_streams:
        middle = {"call": call}
    else:
        busy = min(max(0.0, gpu.device_time), call)
        middle = {"device busy": busy, "launch and idle": call - busy}
    found = middle
    if copied and transfer and transfer.loop:
        found = {**middle, "copies": copied.copies}
    elif copied and transfer:
        upload, download = (
            max(0.0, (each and each.median) or 0.0) / copied.calls for each in (transfer.h2d, transfer.d2h)
        )
        found = {"upload": upload, **middle, "download": download}
    return {name: part for name, part in found.items() if part}
