"""From a series of speedups to where its mean changed: numbers in, numbers out.

This is E-divisive means, written here because no library that has it is light and well kept: apache-otava
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

__all__ = ["FEWEST", "LEVEL", "SMALLEST", "Change", "changes"]

LEVEL = 0.01
"""The chance that noise alone, without a change, is called one."""
FEWEST = 10
"""Values without which there is no change: of fewer, too many orders have the two sides apart for `LEVEL`."""

SMALLEST = 0.01
"""A change of less is none: an estimate itself is not surer than that (`Speedup.resolution`)."""

_SHORTEST = 3  # values on either side of a change: one bad hour of a shared machine is no change
_ENDS = 8  # where the values after a change are thought to end, besides at the last one
_PERMUTATIONS = 199  # as many as the authors' own package ecp has by default
_AT_ONCE = 16  # permutations of about a thousand values that fit the processor's cache
_SEED = 2014  # the same series has the same changes, whoever looks
_ROUNDING = 1e-9  # of the statistic: other orders of the same two sides add up to a little more, or less


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The value at `index` is the first after a change; `before` and `after` are geometric means.

    Each is of the values as far as the next change. `p` is the chance of a split as clear as this one if the
    order of the values meant nothing.
    """

    index: int
    before: float
    after: float
    p: float

    @property
    def percent(self) -> float:
        """How much larger the mean is after the change, in percent; negative where it is smaller."""
        return 100 * (self.after / self.before - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Split:
    """Where a part of the series is split best, and the chance of as good a split in any order."""

    at: int
    p: float


def changes(
    values: Sequence[float],
    *,
    level: float = LEVEL,
    smallest: float = SMALLEST,
    permutations: int = _PERMUTATIONS,
) -> tuple[Change, ...]:
    """Return where the mean of a series of ratios changed, first to last; a slow drift is one or several.

    A change by a smaller share than `smallest` is left out, and so is one of the spread alone. Raises
    ValueError for a value that is not finite and above zero.

    Method: E-divisive means (Matteson and James 2014, JASA 109:334-345) with distances between logarithms to
    the power of 1, as MongoDB uses it for performance (Daly et al. 2020, ICPE): a part is split in two where
    their energy distance is largest, if no more than `level` of its permutations can be split as well, and
    then its halves are. Each part is tested by itself, so that what is found in one does not hang on others.
    """
    if any(not isfinite(value) or value <= 0 for value in values):
        raise ValueError("a speedup is finite and above zero")
    logs = [log(value) for value in values]
    splits = sorted(_splits(logs, 0, level, permutations), key=lambda split: split.at)
    means = _means(logs, splits)
    while steps := [abs(after - before) for before, after in pairwise(means)]:
        least = min(range(len(steps)), key=steps.__getitem__)
        if steps[least] >= log(1 + smallest):
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


def _splits(logs: Sequence[float], begin: int, level: float, permutations: int) -> Iterator[_Split]:
    """Yield the splits of a part, and of what it is split into; `begin` is where the part begins."""
    split = _split(logs, level, permutations) if len(logs) >= FEWEST else None
    if split is None:
        return
    first, last = _too_few(logs, split.at)
    if (first, last) != (0, len(logs)):
        yield from _splits(logs[first:last], begin + first, level, permutations)
        return
    yield _Split(at=begin + split.at, p=split.p)
    yield from _splits(logs[: split.at], begin, level, permutations)
    yield from _splits(logs[split.at :], begin + split.at, level, permutations)


def _too_few(logs: Sequence[float], at: int) -> tuple[int, int]:
    """Return from where to where a part is looked at again: without one or two outliers at an end of it.

    They take a value of the other side to be as many as a split needs; a third one makes them a change.
    """
    before, after = logs[:at], logs[at:]
    middle = (fmean(before) + fmean(after)) / 2
    rises = fmean(after) > fmean(before)
    if len(after) == _SHORTEST and (after[0] > middle) != rises:
        return 0, at + 1
    if len(before) == _SHORTEST and (before[-1] > middle) == rises:
        return at - 1, len(logs)
    return 0, len(logs)


def _split(logs: Sequence[float], level: float, permutations: int) -> _Split | None:
    """Return the best split of a part, or None if too many permutations of it can be split as well."""
    import numpy as np

    part = np.array([logs])
    found = _energies(part)[0]
    best = int(found.argmax())
    reached, most = 0, int(level * (permutations + 1) + _ROUNDING) - 1
    for shuffled in _shuffled(part, permutations, np.random.default_rng(_SEED)):
        highest = _energies(shuffled).max(axis=1)
        reached += int((highest >= found[best] - _ROUNDING).sum())
        if reached > most:  # the others cannot change that
            return None
    return _Split(at=_SHORTEST + best, p=(1 + reached) / (1 + permutations))


def _shuffled(
    part: "NDArray[float64]", permutations: int, random: "Generator"
) -> "Iterator[NDArray[float64]]":
    """Yield permutations of a part, some at once, one to a row."""
    for done in range(0, permutations, _AT_ONCE):
        rows = part.repeat(min(_AT_ONCE, permutations - done), axis=0)
        yield random.permuted(rows, axis=1)


def _energies(rows: "NDArray[float64]") -> "NDArray[float64]":
    """Return for each row the statistic Q of its splits: with n = 3, 4, ... values before, at least 3 after.

    What is after reaches to the end or to an eighth before it, whichever tells the two sides apart best: a
    regression that was repaired would be lost among what followed (Matteson and James search all ends).
    """
    import numpy as np

    size = rows.shape[1]
    earlier = _distances_to_earlier(rows)
    best: NDArray[float64] = np.full((len(rows), size - 2 * _SHORTEST + 1), -np.inf)
    for end in range(size, 2 * _SHORTEST - 1, -max(1, size // _ENDS)):
        found = _energies_before(rows[:, :end], earlier[:, :end])
        reached = best[:, : found.shape[1]]
        np.maximum(reached, found, out=reached)
    return best


def _energies_before(rows: "NDArray[float64]", earlier: "NDArray[float64]") -> "NDArray[float64]":
    """Return the statistic of splits of whole rows; `earlier` are the distances to earlier values.

    Q = nm / (n + m) * (2 / (nm) * between - 2 / (n (n - 1)) * before - 2 / (m (m - 1)) * after), where the
    three are sums of distances over pairs (Matteson and James, section 2.2, alpha = 1).
    """
    import numpy as np

    size = rows.shape[1]
    n = np.arange(_SHORTEST, size - _SHORTEST + 1)
    m = size - n
    summed = earlier.cumsum(axis=1)
    before, whole = summed[:, n - 1], summed[:, -1:]
    between = _distances_to_all(rows).cumsum(axis=1)[:, n - 1] - 2 * before
    after = whole - before - between
    distance = 2 * between / (n * m) - 2 * before / (n * (n - 1)) - 2 * after / (m * (m - 1))
    energies: NDArray[float64] = n * m / size * distance
    return energies


def _distances_to_all(rows: "NDArray[float64]") -> "NDArray[float64]":
    """Return for each value the sum of its distances to all others of its row."""
    import numpy as np

    order = rows.argsort(axis=1)
    ordered = np.take_along_axis(rows, order, axis=1)
    size, below = rows.shape[1], ordered.cumsum(axis=1)
    sums = ordered * (2 * np.arange(1, size + 1) - size) + below[:, -1:] - 2 * below
    found = np.empty_like(rows)
    np.put_along_axis(found, order, sums, axis=1)
    return found


def _distances_to_earlier(rows: "NDArray[float64]") -> "NDArray[float64]":
    """Return for each value the sum of its distances to the values before it in its row.

    Blocks of 1, 2, 4, ... values meet the block before them, sorted together with it: n (log n)^2 steps and
    not n^2, so that all permutations of a thousand values take a fraction of a second and not some.
    """
    import numpy as np

    count, size = rows.shape
    half, found = 1, np.zeros((count, 1 << (size - 1).bit_length()))
    padded = np.zeros_like(found)
    padded[:, :size] = rows
    while half < size:
        blocks = padded.reshape(-1, 2 * half)
        order = blocks.argsort(axis=1)
        ordered = np.take_along_axis(blocks, order, axis=1)
        earlier = order < half
        number, below = earlier.cumsum(axis=1), (ordered * earlier).cumsum(axis=1)
        sums = np.where(earlier, 0.0, ordered * (2 * number - half) + below[:, -1:] - 2 * below)
        added = np.empty_like(sums)
        np.put_along_axis(added, order, sums, axis=1)
        found += added.reshape(found.shape)
        half *= 2
    return found[:, :size]
