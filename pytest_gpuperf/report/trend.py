"""History -> each test's speedup over commits, and where it changed: lines, or an object of JSON."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby, pairwise
from math import log
from statistics import median
from typing import Any

from pytest_gpuperf.analysis.changepoint import FEWEST, Change, changes
from pytest_gpuperf.analysis.verdict import ratio
from pytest_gpuperf.model import units
from pytest_gpuperf.model.measurement import Estimate
from pytest_gpuperf.report.escape import printable
from pytest_gpuperf.report.history import Entry, History, Result

__all__ = ["Finding", "Series", "document", "lines", "series"]

_BLOCKS, _LETTERS = "▁▂▃▄▅▆▇", "_.-~+*#"  # an odd number: one is the middle
_WIDEST = 40  # marks of a sparkline
_NARROWEST = log(1.1)  # what its height stands for at least, so that noise looks like noise
_SHORT = 7  # letters of a commit
_INDENT = "  "


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one run found of one test."""

    entry: Entry
    result: Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One test in all runs that can be compared, earliest first; changes are counted in `timed`."""

    fingerprint: str
    nodeid: str
    findings: tuple[Finding, ...]
    changes: tuple[Change, ...]

    @property
    def timed(self) -> tuple[Finding, ...]:
        """The findings that have a speedup."""
        return tuple(finding for finding in self.findings if finding.result.speedup)


def series(entries: Iterable[Entry], *, only: str | None = None) -> tuple[Series, ...]:
    """Return a series for each test and fingerprint; `only` is what a node id has to have in it."""
    found: dict[tuple[str, str], list[Finding]] = {}
    for entry in entries:
        for result in entry.results:
            if only is None or only in result.nodeid:
                place = found.setdefault((result.fingerprint, result.nodeid), [])
                place.append(Finding(entry=entry, result=result))
    ranks = {shared: rank for rank, shared in enumerate(dict.fromkeys(shared for shared, _ in found))}
    places = sorted(found, key=lambda place: ranks[place[0]])  # stable: tests stay as they came
    return tuple(_series(*place, found[place]) for place in places)


def lines(
    history: History, *, only: str | None = None, last: int | None = 10, unicode: bool = True
) -> list[str]:
    """Return the lines that tell the history of each test, with its `last` runs (None: all of them).

    Series of different fingerprints stand apart. Without `unicode` all marks are of ASCII.
    """
    found = series(history.entries, only=only)
    told = [_runs(history, found, only)]
    for shared, several in groupby(found, key=lambda each: each.fingerprint):
        together = list(several)
        told += ["", f"== {printable(shared)}"]
        told += [line for each in together if each.timed for line in _told(each, last, unicode=unicode)]
        told += _untimed([each for each in together if not each.timed])
    return [*told, *_rejected(history)]


def document(history: History, *, only: str | None = None) -> dict[str, Any]:
    """Return the same as an object of JSON: runs, series with their changes, and files that are no entries.

    An index of a change counts the findings that have a speedup.
    """
    return {
        "runs": len(history.entries),
        "fewest": FEWEST,
        "series": [_content(each) for each in series(history.entries, only=only)],
        "rejected": [asdict(rejected) for rejected in history.rejected],
    }


def _series(fingerprint: str, nodeid: str, findings: Sequence[Finding]) -> Series:
    values = [finding.result.speedup.value for finding in findings if finding.result.speedup]
    return Series(fingerprint=fingerprint, nodeid=nodeid, findings=tuple(findings), changes=changes(values))


def _runs(history: History, found: Sequence[Series], only: str | None) -> str:
    """Return how much there is; nothing to see has its cause."""
    entries = history.entries
    if not entries:
        return "no runs yet: run pytest with --gpuperf-history=DIR"
    runs = f"{units.count(len(entries), 'run')} from {_date(entries[0])} to {_date(entries[-1])}"
    if not found:
        return f"{runs}, and no test in them" + (f" whose name has {only!r} in it" if only else "")
    return f"{runs}, {units.count(len({each.nodeid for each in found}), 'test')}"


def _told(one: Series, last: int | None, *, unicode: bool) -> Iterator[str]:
    """Yield a test's name and sparkline, its last runs, and its changes."""
    values = [finding.result.speedup.value for finding in one.timed if finding.result.speedup]
    yield ""
    yield f"{printable(one.nodeid)}  {_sparkline(values, _BLOCKS if unicode else _LETTERS)}"
    shown = one.findings if last is None else one.findings[max(0, len(one.findings) - last) :]
    if hidden := len(one.findings) - len(shown):
        yield f"{_INDENT}... {hidden} earlier"
    for finding in shown:
        yield f"{_INDENT}{_date(finding.entry)}  {_commit(finding.entry):{_SHORT + 1}}  {_result(finding)}"
    yield from (f"{_INDENT}{sentence}" for sentence in _changes(one))


def _changes(one: Series) -> Iterator[str]:
    """Yield what is known of changes: each of them and all together, that there is none, or too few runs."""
    runs, found = len(one.timed), one.changes
    if runs < FEWEST:
        yield f"{units.count(runs, 'run')} with a speedup: changes are looked for in {FEWEST} or more"
    elif not found:
        yield f"no change in {runs} runs"
    for change in found:
        entry = one.timed[change.index].entry
        yield f"{_words(change.before, change.after)} at {_place(entry)}"
    if len(found) > 1:
        yield f"in all {_words(found[0].before, found[-1].after)}"


def _words(before: float, after: float) -> str:
    percent = 100 * (after / before - 1)
    share = f"{percent:+.0f}" if abs(percent) >= 9.95 else f"{percent:+.1f}"
    return f"from {units.digits(before)}x to {units.digits(after)}x ({share} %)"


def _result(finding: Finding) -> str:
    """Return the speedup with its interval and what became of the test, if that is worth a word."""
    status, found = finding.result.status, finding.result.speedup
    if found is None:
        return f"no speedup: {status}"
    return ratio(found) + (f"  {status}" if status in ("failed", "inconclusive", "error") else "")


def _untimed(several: Sequence[Series]) -> Iterator[str]:
    """Yield the tests that have no speedup in any of these runs, and how they ended."""
    if several:
        yield ""
    for one in several:
        counts = Counter(finding.result.status for finding in one.findings)
        ended = ", ".join(f"{count} {status}" for status, count in counts.items())
        yield f"{printable(one.nodeid)}  no speedup in {units.count(len(one.findings), 'run')}: {ended}"


def _rejected(history: History) -> Iterator[str]:
    if history.rejected:
        yield ""
        yield f"{units.count(len(history.rejected), 'file')} left out:"
    for rejected in history.rejected:
        yield f"{_INDENT}{printable(rejected.name)}: {printable(rejected.reason)}"


def _sparkline(values: Sequence[float], marks: str) -> str:
    """Return a mark for each value on a scale of ratios, or for each few of them their median's."""
    logs = [log(value) for value in values]
    count = min(len(logs), _WIDEST)
    ends = [len(logs) * end // count for end in range(count + 1)]
    shown = [median(logs[begin:end]) for begin, end in pairwise(ends)]
    middle, span = (max(shown) + min(shown)) / 2, max(max(shown) - min(shown), _NARROWEST)
    heights = (0.5 + (value - middle) / span for value in shown)
    return "".join(marks[min(max(int(height * len(marks)), 0), len(marks) - 1)] for height in heights)


def _date(entry: Entry) -> str:
    return f"{entry.time:%Y-%m-%d}"


def _place(entry: Entry) -> str:
    """Return the commit and its day, or where no commit is known the time at which the run began, in UTC."""
    return f"{_commit(entry)} of {_date(entry)}" if entry.commit else f"{entry.time:%Y-%m-%d %H:%M}"


def _commit(entry: Entry) -> str:
    """Return the first letters of the commit; a plus says that files differed from it."""
    if entry.commit is None:
        return "unknown"
    return printable(entry.commit.id[:_SHORT]) + ("+" if entry.commit.changed else "")


def _content(one: Series) -> dict[str, Any]:
    return {
        "fingerprint": one.fingerprint,
        "nodeid": one.nodeid,
        "findings": [_found(finding) for finding in one.findings],
        "changes": [_changed(change, one.timed[change.index].entry) for change in one.changes],
    }


def _found(finding: Finding) -> dict[str, Any]:
    entry, result = finding.entry, finding.result
    speedup: Estimate | None = result.speedup
    return {
        "started": entry.started,
        "commit": asdict(entry.commit) if entry.commit else None,
        "status": result.status,
        "speedup": asdict(speedup) if speedup else None,
        "cpu": result.cpu,
        "gpu": result.gpu,
    }


def _changed(change: Change, entry: Entry) -> dict[str, Any]:
    commit = asdict(entry.commit) if entry.commit else None
    return {**asdict(change), "percent": change.percent, "started": entry.started, "commit": commit}
