"""From a series of speedups to the points where its mean changed.

This is E-divisive means, written here because no library that has it is small and maintained: apache-otava
0.8 brings SciPy, gRPC, BigQuery and Slack, and wants one version of NumPy; signal-processing-algorithms 2.1
is for Python 3.11 and NumPy 1 only; ruptures 1.1 has neither the energy statistic nor a test of significance.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, isfinite, log
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy import float64
    from numpy.random import Generator
    from numpy.typing import NDArray

LEVEL = 0.01
"""The chance that noise alone is reported as a change."""
FEWEST = 10
"""The fewest values with a change: fewer have too many orders that split as well for `LEVEL`."""

SMALLEST = 0.01
"""The smallest change: the last look resolves no less (`looks.SHARPEST`)."""

_SHORTEST = 3  # run of values on either side of a change: one bad hour of a shared machine is no change
_ENDS = 8  # candidate ends of the values after a change, besides the last value
_PERMUTATIONS = 199  # as many as the authors' own package ecp has by default
_PERMUTATIONS_OF_FEW = 999  # 8 and 4 values have 495 orders: of 199 too often two are split as well by chance
_FEW = 100  # values of which the permutations are cheap
_LEAST_AT_ONCE = 16  # permutations of about a thousand values that fit the processor's cache
_VALUES_AT_ONCE = 4096
_SEED = 2014  # fixed: the same series has the same changes every time
_ROUNDING = 1e-9  # of the statistic: other orders of the same two halves sum to a little more or less


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The value at `index` is the first after a change; `before` and `after` are geometric means.

    Each mean is of the values up to the next change. `p` is the chance of a split as clear as this one if the
    order of the values meant nothing.
    """

    index: int
    before: float
    after: float
    p: float

    @property
    def percent(self) -> float:
        """The relative change of the mean in percent; negative where it became smaller."""
        return 100 * (self.after / self.before - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Split:
    """The best split of a part of the series, and the chance of as good a split in a random order."""

    at: int
    p: float


def changes(values: Sequence[float]) -> tuple[Change, ...]:
    """Return where the mean of a series of ratios changed, in order; a slow drift is one or several changes.

    A change by a smaller share than `SMALLEST` is left out, and so is one of the spread alone. Raises
    ValueError for a value that is not finite and above zero.

    Method: E-divisive means (Matteson and James 2014, JASA 109:334-345) with distances between logarithms to
    the power of 1, as MongoDB uses it for performance (Daly et al. 2020, ICPE): a part is split in two where
    their energy distance is largest, if no more than `LEVEL` of its permutations can be split as well, and
    then its halves are. Each part is tested by itself, so that no result depends on another part.
    """
    if any(not isfinite(value) or value <= 0 for value in values):
        raise ValueError("every speedup must be finite and above zero")
    logs = [log(value) for value in values]
    splits = sorted(_splits(logs, 0), key=lambda split: split.at)
    means = _means(logs, splits)
    while steps := [abs(after - before) for before, after in pairwise(means)]:
        least = min(range(len(steps)), key=steps.__getitem__)
        if steps[least] >= log(1 + SMALLEST):
            break
        del splits[least]
        means = _means(logs, splits)
    return tuple(
        Change(index=split.at, before=exp(before), after=exp(after), p=split.p)
        for split, (before, after) in zip(splits, pairwise(means), strict=True)
    )


def _means(logs: Sequence[float], splits: Sequence[_Split]) -> list[float]:
    """Return the mean of each part between splits."""
    ends = [0, *(split.at for split in splits), len(logs)]
    return [fmean(logs[begin:end]) for begin, end in pairwise(ends)] if logs else []


def _splits(logs: Sequence[float], begin: int) -> Iterator[_Split]:
    """Yield the splits of a part and of its halves; `begin` is the index of its first value."""
    split = _split(logs) if len(logs) >= FEWEST else None
    if split is None:
        return
    first, last = _without_outliers(logs, split.at)
    if (first, last) != (0, len(logs)):
        yield from _splits(logs[first:last], begin + first)
        return
    yield _Split(at=begin + split.at, p=split.p)
    yield from _splits(logs[: split.at], begin)
    yield from _splits(logs[split.at :], begin + split.at)


def _without_outliers(logs: Sequence[float], at: int) -> tuple[int, int]:
    """Return the range of a part that is tested again: without one or two outliers at an end of it.

    Together with one ordinary value they are as many as a split needs; a third outlier makes them a change.
    """
    before, after = logs[:at], logs[at:]
    middle = (fmean(before) + fmean(after)) / 2
    rises = fmean(after) > fmean(before)
    if len(after) == _SHORTEST and (after[0] > middle) != rises:
        return 0, at + 1
    if len(before) == _SHORTEST and (before[-1] > middle) == rises:
        return at - 1, len(logs)
    return 0, len(logs)


def _split(logs: Sequence[float]) -> _Split | None:
    """Return the best split of a part; None if too many permutations of it can be split as well."""
    import numpy as np

    part = np.array([logs])
    permutations = _PERMUTATIONS_OF_FEW if len(logs) <= _FEW else _PERMUTATIONS
    energies = _energies(part)[0]
    best = int(energies.argmax())
    reached = 0
    most = int(LEVEL * (permutations + 1) + _ROUNDING) - 1
    for shuffled in _shuffled(part, permutations, np.random.default_rng(_SEED)):
        highest = _energies(shuffled).max(axis=1)
        reached += int((highest >= energies[best] - _ROUNDING).sum())
        if reached > most:  # the remaining permutations cannot change that
            return None
    return _Split(at=_SHORTEST + best, p=(1 + reached) / (1 + permutations))


def _shuffled(
    part: "NDArray[float64]", permutations: int, random: "Generator"
) -> "Iterator[NDArray[float64]]":
    """Yield permutations of a part in batches, one to a row."""
    at_once = max(_LEAST_AT_ONCE, _VALUES_AT_ONCE // part.size)
    for done in range(0, permutations, at_once):
        rows = part.repeat(min(at_once, permutations - done), axis=0)
        yield random.permuted(rows, axis=1)


def _energies(rows: "NDArray[float64]") -> "NDArray[float64]":
    """Return for each row the statistic Q of its splits: with n = 3, 4, ... values before, at least 3 after.

    Q = nm / (n + m) * (2 / (nm) * between - 2 / (n (n - 1)) * before - 2 / (m (m - 1)) * after), where the
    three are sums of distances over pairs (Matteson and James, section 2.2, alpha = 1). The m values after a
    split reach to the end, or to some eighths before it, whichever separates the two best: a regression that
    was repaired would be lost among what followed (Matteson and James search all ends).
    """
    import numpy as np

    size = rows.shape[1]
    ends = range(size, 2 * _SHORTEST - 1, -max(1, size // _ENDS))
    best: NDArray[float64] = np.full((len(rows), size - 2 * _SHORTEST + 1), -np.inf)
    within = np.zeros((len(rows), size + 1))  # by n: the distances among the first n values
    between = np.zeros_like(within)  # by n: those from the first n values to the later ones so far
    for end in range(2, size + 1):  # quadratic, and still 0.1 s for 16 series of a thousand values
        to_first = np.abs(rows[:, : end - 1] - rows[:, end - 1 : end]).cumsum(axis=1)
        within[:, end] = within[:, end - 1] + to_first[:, -1]
        between[:, 1:end] += to_first
        if end in ends:
            n = np.arange(_SHORTEST, end - _SHORTEST + 1)
            m = end - n
            before, across = within[:, n], between[:, n]
            after = within[:, end : end + 1] - before - across
            distance = 2 * across / (n * m) - 2 * before / (n * (n - 1)) - 2 * after / (m * (m - 1))
            splits = best[:, : len(n)]
            np.maximum(splits, n * m / end * distance, out=splits)
    return best
