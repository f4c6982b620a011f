"""From a history to lines for the terminal: each test's series as a sparkline, its last runs, its changes."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from math import exp, log

from pytest_gpuperf.analysis.verdict import ratio
from pytest_gpuperf.model import units
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.report.history_folder import History, Point, Series, series
from pytest_gpuperf.report.terminal.layout import folded, wrapped
from pytest_gpuperf.report.words.history import sentences

_MARKS = "▁▂▃▄▅▆▇"  # an odd number: one is the middle
_CHANGE = "│"
_SCALE = 22  # columns for the values of the lowest and the highest mark
_NARROWEST = log(1.1)  # what its height stands for at least, so that noise looks like noise
_INDENT = "  "


def lines(history: History, *, only: str | None = None, last: int = 10, width: int = 80) -> list[str]:
    """Return the lines that show the history of each test, with its `last` runs.

    Series of different fingerprints are listed apart.
    """
    shown = series(history, only=only)
    text = [_heading(history, shown, only)]
    for conditions, group in groupby(shown, key=lambda one: one.fingerprint):
        text += ["", *wrapped(f"== {printable(conditions)}", width, "   ")]
        for one in sorted(group, key=lambda one: not one.timed):
            text += ["", *folded(printable(one.nodeid), width)]
            said = _lines(one, last, width - len(_INDENT))
            text += [f"{_INDENT}{printable(line)}" for line in said]
    if history.rejected:
        text += ["", f"{units.count(len(history.rejected), 'file')} left out:"]
    for name, reason in history.rejected.items():
        text += wrapped(f"{_INDENT}{printable(name)}: {printable(reason)}", width, _INDENT * 2)
    return text


def _heading(history: History, shown: Sequence[Series], only: str | None) -> str:
    """Return how many runs and tests there are, or why there are none."""
    if not history.started:
        return "no runs yet: run pytest with --gpuperf-history=DIR"
    days = " to ".join(f"{time:%Y-%m-%d}" for time in (history.started[0], history.started[-1]))
    runs = f"{units.count(len(history.started), 'run')} from {days}"
    if not shown:
        return f"{runs}, and no test in them" + (f" whose name contains {only!r}" if only else "")
    return f"{runs}, {units.count(len({one.nodeid for one in shown}), 'test')}"


def _lines(one: Series, last: int, width: int) -> Iterator[str]:
    """Yield a test's series as a sparkline, its last runs, and its changes."""
    if one.timed:
        yield _sparkline(one, width)
        shown = one.points[-last:]
        if hidden := len(one.points) - len(shown):
            yield f"... {hidden} earlier"
        yield from (f"{point.day}  {point.origin:8}  {_result(point)}" for point in shown)
    yield from sentences(one)


def _result(point: Point) -> str:
    """Return the speedup with its range, and the test's status where it did not pass."""
    status, speedup = point.status, point.speedup
    if speedup is None:
        return f"no speedup: {status}"
    return ratio(speedup) + (f"  {status}" if status in ("failed", "inconclusive", "error") else "")


def _sparkline(one: Series, width: int) -> str:
    """Return a mark for each of the last values that fit, bars before changes, and the ends of the scale.

    The scale is one of ratios: on it twice as fast rises as far as half as fast falls.
    """
    logs = [log(point.speedup.value) for point in one.points if point.speedup]
    middle, span = (max(logs) + min(logs)) / 2, max(max(logs) - min(logs), _NARROWEST)
    heights = (0.5 + (value - middle) / span for value in logs)
    line = [_MARKS[min(int(height * len(_MARKS)), len(_MARKS) - 1)] for height in heights]
    for change in one.changes:
        line[change.index] = _CHANGE + line[change.index]
    low, high = (f"{units.digits(exp(middle + end * span))}x" for end in (-0.5, 0.5))
    shown = "".join(line)[-(width - _SCALE) :]
    return f"{shown}{_INDENT}{_MARKS[0]} {low}{_INDENT}{_MARKS[-1]} {high}"
