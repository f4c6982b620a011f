"""From comparisons with a baseline to a table of what changed, and why some could not be compared."""

from collections.abc import Iterator, Sequence

from pytest_gpuperf.gate import text
from pytest_gpuperf.model import units
from pytest_gpuperf.model.comparison import Comparison, Metric
from pytest_gpuperf.model.measurement import Estimate
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.report.names import short_names
from pytest_gpuperf.report.summary import change_text, shared_reasons
from pytest_gpuperf.report.text import table
from pytest_gpuperf.report.text.table import Row
from pytest_gpuperf.report.verdicts import in_words

_HEADINGS = ("metric", "baseline", "now", "change", "outcome")
_MOVABLE = (("baseline", "now"), ("metric",))


def lines(records: Sequence[Record], width: int) -> Iterator[str]:
    """Yield a table of what changed or cannot be compared, and why the latter."""
    names = short_names(records)
    rows = [
        _row(names[record.nodeid], each) for record in records for each in record.comparisons if each.reason
    ]
    if rows:
        yield from map(str, table.lines(rows, _HEADINGS, width, _MOVABLE))
    reasons = shared_reasons(records, names, _unexplained)
    if reasons:
        yield ""
    for reason, tests in reasons.items():
        yield from table.wrapped(f"{units.first_few(tests, most=1)}: {reason}", width)


def _row(name: str, comparison: Comparison) -> Row:
    cells = {
        "metric": text.METRIC_NAMES[comparison.metric],
        "baseline": _value(comparison.metric, comparison.baseline),
        "now": _value(comparison.metric, comparison.found),
        "change": change_text(comparison),
        "outcome": in_words(comparison.outcome),
    }
    return Row(name=name, cells=cells)


def _value(metric: Metric, estimate: Estimate | None) -> str:
    return "-" if estimate is None else text.format_metric(metric, estimate)


def _unexplained(record: Record) -> Iterator[str]:
    """Yield why comparisons ended as they did whose numbers alone do not say it."""
    for comparison in record.comparisons:
        if comparison.reason and (comparison.ratio is None or comparison.outcome == "inconclusive"):
            yield comparison.reason
