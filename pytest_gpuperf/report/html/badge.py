"""From a report to a badge for a README: what the speedups are, or the speedup or efficiency of one test."""

from collections.abc import Sequence

from pytest_gpuperf.model import units
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.nodeid import name_of
from pytest_gpuperf.model.record import Record, Run
from pytest_gpuperf.report.html import engine
from pytest_gpuperf.report.html.figure import text_width
from pytest_gpuperf.report.names import short_names
from pytest_gpuperf.report.verdicts import (
    FAILURES,
    CountedCode,
    codes_of,
    rows_of,
    run_counts,
    shown_records,
    verdict,
    verdict_code,
)

_PADDING = 6
_GOOD, _BAD, _DOUBT, _PLAIN = "#00664b", "#a83c00", "#755700", "#5a6270"
_COLOURS: dict[CountedCode, str] = {
    **dict.fromkeys((*FAILURES, "check_failed", "threshold_failed"), _BAD),
    "inconclusive": _DOUBT,
    "passed": _GOOD,
}


def svg(run: Run, only: str | None = None) -> str:
    """Return the badge of a run, or of the one test that `only` names; raises GpuPerfError.

    A whole node id or name comes before a part of a node id, which those of other tests may contain, too.
    """
    if only is None:
        records, counted = shown_records(run), run_counts(run)
        message = ", ".join(map(str, counted)) or "not measured"
        codes = [count.code for count in counted]
    else:
        records = [_named(shown_records(run), only)]
        message, codes = _one(records[0]), codes_of(records[0])
    colour = next((colour for code, colour in _COLOURS.items() if code in codes), _PLAIN)
    about = "scaling" if only is not None and records[0].scaling else "speedup"
    label = f"{about}, emulated" if any(record.is_emulated for record in records) else f"GPU {about}"
    # The browser fits the texts to these.
    widths = [2 * _PADDING + round(text_width(text)) for text in (label, message)]
    return engine.render("badge.svg", label=label, message=message, colour=colour, widths=widths)


def _named(records: Sequence[Record], only: str) -> Record:
    names = short_names(records)
    whole = [each for each in records if only in (each.nodeid, names[each.nodeid], name_of(each.nodeid))]
    found = whole or [record for record in rows_of(records) if only in record.nodeid]
    if len(found) != 1:
        shown = units.first_few([record.nodeid for record in found]) or "no test"
        raise GpuPerfError(f"--only {only!r} must name one test of the report; it names {shown}")
    return found[0]


def _one(record: Record) -> str:
    if record.scaling and record.scaling.efficiency:
        shown = f"efficiency {record.scaling.efficiency.value:.2f}"
    elif record.speedup:
        shown = f"{units.digits(record.speedup.value)}x"
    else:
        return verdict(record)
    return shown if verdict_code(record) in ("passed", "recorded") else f"{shown} {verdict(record)}"
