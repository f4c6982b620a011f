"""Samples -> how they are spread, in the numbers of pytest-benchmark."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from math import fsum, sqrt
from statistics import median

__all__ = ["spread"]


def spread(samples: Sequence[float]) -> dict[str, float | str]:
    """Return pytest-benchmark's statistics of one sample or more, in seconds.

    Quartiles are the medians of the halves, or for an odd number method 3 of
    https://en.wikipedia.org/wiki/Quartile#Computing_methods; fences are Tukey's, 1.5 IQR beyond them.
    """
    data = sorted(samples)
    rounds, total = len(data), fsum(data)
    mean = min(max(total / rounds, data[0]), data[-1])  # rounding may not leave the samples' own range
    stddev = sqrt(fsum((each - mean) ** 2 for each in data) / (rounds - 1)) if rounds > 1 else 0.0
    low, high = _quartiles(data)
    inside = _between(data, low - 1.5 * (high - low), high + 1.5 * (high - low))
    iqr_outliers = rounds - len(inside)
    stddev_outliers = rounds - len(_between(data, mean - stddev, mean + stddev))
    return {
        "min": data[0],
        "max": data[-1],
        "mean": mean,
        "stddev": stddev,
        "rounds": rounds,
        "median": median(data),
        "iqr": high - low,
        "q1": low,
        "q3": high,
        "iqr_outliers": iqr_outliers,
        "stddev_outliers": stddev_outliers,
        "outliers": f"{stddev_outliers};{iqr_outliers}",
        "ld15iqr": inside[0],
        "hd15iqr": inside[-1],
        "ops": rounds / total if total else 0.0,
        "total": total,
    }


def _between(data: Sequence[float], low: float, high: float) -> Sequence[float]:
    return data[bisect_left(data, low) : bisect_right(data, high)]


def _quartiles(data: Sequence[float]) -> tuple[float, float]:
    size = len(data)
    quarter, rest = divmod(size, 4)
    if size == 1:
        return data[0], data[0]
    if size % 2 == 0:
        return median(data[: size // 2]), median(data[size // 2 :])
    if rest == 1:
        below = 0.25 * data[quarter - 1] + 0.75 * data[quarter]
        return below, 0.75 * data[3 * quarter] + 0.25 * data[3 * quarter + 1]
    below = 0.75 * data[quarter] + 0.25 * data[quarter + 1]
    return below, 0.25 * data[3 * quarter + 1] + 0.75 * data[3 * quarter + 2]
