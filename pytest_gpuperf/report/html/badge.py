"""From a report to a badge for a README: what the speedups are, or the speedup of one test."""

from collections.abc import Sequence

from pytest_gpuperf.model import units
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Record, Run
from pytest_gpuperf.report.html import engine
from pytest_gpuperf.report.summary.counts import counts, shown_records
from pytest_gpuperf.report.summary.verdicts import verdict

_LETTER = 6.6  # pixels of a character, about; the browser fits the text to what it is given
_PADDING = 6
_GOOD, _BAD, _DOUBT, _PLAIN = "#00664b", "#a83c00", "#755700", "#5a6270"
_COLOURS = {
    **dict.fromkeys(("failed", "error", "regressed"), _BAD),
    "inconclusive": _DOUBT,
    "passed": _GOOD,
}


def svg(run: Run, only: str | None = None) -> str:
    """Return the badge of a run, or of the one test whose node id contains `only`; raises GpuPerfError."""
    records = [record for record in shown_records(run) if only is None or only in record.nodeid]
    if only is not None and len(records) != 1:
        found = units.first_few([record.nodeid for record in records]) or "no test"
        raise GpuPerfError(f"--only {only!r} must name one test of the report; it names {found}")
    message = _one(records[0]) if only is not None else _all(records)
    verdicts = {verdict(record) for record in records}
    colour = next((colour for verdict, colour in _COLOURS.items() if verdict in verdicts), _PLAIN)
    label = "speedup, emulated" if any(record.is_emulated for record in records) else "GPU speedup"
    widths = [2 * _PADDING + round(_LETTER * len(text)) for text in (label, message)]
    return engine.render("badge.svg", label=label, message=message, colour=colour, widths=widths)


def _one(record: Record) -> str:
    if record.speedup is None:
        return verdict(record)
    word = verdict(record)
    shown = f"{units.digits(record.speedup.value)}x"
    return shown if word in ("passed", "recorded") else f"{shown} {word}"


def _all(records: Sequence[Record]) -> str:
    return ", ".join(counts(records)) or "not measured"
