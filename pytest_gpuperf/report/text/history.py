"""From a history to lines for the terminal: each test's series as a sparkline, its last runs, its changes."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from math import exp, log
from statistics import median

from pytest_gpuperf.analysis.changepoint import FEWEST
from pytest_gpuperf.analysis.verdict import ratio
from pytest_gpuperf.model import units
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.report.history import Entry, History, Point, Series, series
from pytest_gpuperf.report.names import columns
from pytest_gpuperf.report.text.table import folded, wrapped

_BLOCKS, _LETTERS = "▁▂▃▄▅▆▇│", "_.-~+*#|"  # an odd number: one is the middle; and what marks a change
_SCALE = 22  # columns for the values of the lowest and the highest mark
_NARROWEST = log(1.1)  # what its height stands for at least, so that noise looks like noise
_INDENT = "  "


def lines(
    history: History,
    *,
    only: str | None = None,
    last: int | None = 10,
    unicode: bool = True,
    width: int = 80,
) -> list[str]:
    """Return the lines that show the history of each test, with its `last` runs (None: all of them).

    Series of different fingerprints are listed apart. Without `unicode` all marks are of ASCII.
    """
    shown = series(history.entries, only=only)
    text = [_heading(history, shown, only)]
    for fingerprint, group in groupby(shown, key=lambda one: one.fingerprint):
        comparable = list(group)
        text += ["", *wrapped(f"== {printable(fingerprint)}", width, "   ")]
        for one in comparable:
            if one.timed:
                text += _lines(one, last, width, _BLOCKS if unicode else _LETTERS)
        text += _untimed([one for one in comparable if not one.timed], width)
    return [*text, *_rejected(history, width)]


def _heading(history: History, shown: Sequence[Series], only: str | None) -> str:
    """Return how many runs and tests there are, or why there are none."""
    entries = history.entries
    if not entries:
        return "no runs yet: run pytest with --gpuperf-history=DIR"
    runs = f"{units.count(len(entries), 'run')} from {entries[0].day} to {entries[-1].day}"
    if not shown:
        return f"{runs}, and no test in them" + (f" whose name contains {only!r}" if only else "")
    return f"{runs}, {units.count(len({one.nodeid for one in shown}), 'test')}"


def _lines(one: Series, last: int | None, width: int, marks: str) -> Iterator[str]:
    """Yield a test's name, its series as a sparkline, its last runs, and its changes."""
    yield ""
    yield from folded(printable(one.nodeid), width)
    yield f"{_INDENT}{_sparkline(one, width - len(_INDENT), marks)}"
    shown = one.points if last is None else one.points[max(0, len(one.points) - last) :]
    if hidden := len(one.points) - len(shown):
        yield f"{_INDENT}... {hidden} earlier"
    for point in shown:
        yield f"{_INDENT}{point.entry.day}  {_commit(point.entry):8}  {_result(point)}"
    yield from (f"{_INDENT}{sentence}" for sentence in _changes(one))


def _changes(one: Series) -> Iterator[str]:
    """Yield each change and all of them together, or that there is none, or too few runs."""
    runs = len(one.timed)
    if runs < FEWEST:
        yield f"{units.count(runs, 'run')} with a speedup: changes are looked for in {FEWEST} or more"
    elif not one.changes:
        yield f"no change in {runs} runs"
    for change in one.changes:
        entry = one.timed[change.index].entry
        # Where no commit is known, the start of the run tells it from the others of that day.
        origin = f"{_commit(entry)} of {entry.day}" if entry.commit else f"{entry.time:%Y-%m-%d %H:%M}"
        yield f"{_step(change.before, change.after)} at {origin}"
    if len(one.changes) > 1:
        yield f"in all {_step(one.changes[0].before, one.changes[-1].after)}"


def _step(before: float, after: float) -> str:
    return f"from {units.digits(before)}x to {units.digits(after)}x ({units.change(after / before)})"


def _result(point: Point) -> str:
    """Return the speedup with its range, and the test's status where it did not pass."""
    status, speedup = point.result.status, point.result.speedup
    if speedup is None:
        return f"no speedup: {status}"
    return ratio(speedup) + (f"  {status}" if status in ("failed", "inconclusive", "error") else "")


def _untimed(without: Sequence[Series], width: int) -> Iterator[str]:
    """Yield the tests that have no speedup in any of these runs, and how they ended."""
    if without:
        yield ""
    for one in without:
        counts = Counter(point.result.status for point in one.points)
        ended = ", ".join(f"{count} {status}" for status, count in counts.items())
        text = f"{_INDENT}no speedup in {units.count(len(one.points), 'run')}: {ended}"
        name = printable(one.nodeid)
        yield from [name + text] if columns(name + text) <= width else [*folded(name, width), text]


def _rejected(history: History, width: int) -> Iterator[str]:
    if history.rejected:
        yield ""
        yield f"{units.count(len(history.rejected), 'file')} left out:"
    for name, reason in history.rejected.items():
        text = f"{_INDENT}{printable(name)}: {printable(reason)}"
        yield from wrapped(text, width, _INDENT * 2)


def _sparkline(one: Series, width: int, marks: str) -> str:
    """Return a mark for each value, or for each few of them their median's, and what its ends stand for.

    The scale is one of ratios. The last of the marks stands before the first value after each change.
    """
    # On a scale of ratios twice as fast rises as far as half as fast falls.
    logs = [log(point.result.speedup.value) for point in one.timed if point.result.speedup]
    levels, bar = marks[:-1], marks[-1]
    room = width - _SCALE
    count = min(len(logs), max(room // 2, room - len(one.changes)))
    ends = [len(logs) * end // count for end in range(count + 1)]
    shown = [median(logs[begin:end]) for begin, end in pairwise(ends)]
    middle, span = (max(shown) + min(shown)) / 2, max(max(shown) - min(shown), _NARROWEST)
    heights = (0.5 + (value - middle) / span for value in shown)
    line = [levels[min(max(int(height * len(levels)), 0), len(levels) - 1)] for height in heights]
    for place in {min(round(change.index * count / len(logs)), count - 1) for change in one.changes}:
        line[place] = bar + line[place]
    low, high = (f"{units.digits(exp(middle + end * span))}x" for end in (-0.5, 0.5))
    return f"{''.join(line)}{_INDENT}{levels[0]} {low}{_INDENT}{levels[-1]} {high}"


def _commit(entry: Entry) -> str:
    """Return the first letters of the commit; a plus means that files differed from it."""
    if entry.commit is None:
        return "unknown"
    return printable(entry.commit.short) + ("+" if entry.commit.changed else "")
