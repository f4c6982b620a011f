"""From seconds, bytes, shares and counts to words: three digits and a unit, a plural."""

from collections.abc import Callable, Iterable
from math import floor, inf, log10

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
_SIZES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
_ONE_DIGIT = 3.55  # the smallest error that is written with one digit
_ROUNDS_UP = 0.9995  # of a unit: from there on three digits round up to the whole unit


def seconds(value: float) -> str:
    """Return a time: `1.23 ms`."""
    for unit, name in _TIMES:
        if value >= _ROUNDS_UP * unit:
            return f"{digits(value / unit)} {name}"
    return f"{digits(value / 1e-9)} ns"


def size(bytes: float) -> str:
    """Return a number of bytes, in powers of a thousand: `4.19 MB`."""
    for unit, name in _SIZES:
        if bytes >= _ROUNDS_UP * unit:
            return f"{digits(bytes / unit)} {name}"
    return f"{bytes:.0f} B"


def different_sizes(one: int, other: int) -> tuple[str, str]:
    """Return two sizes as `size` does; in bytes where it would not tell them apart: `12,000 B`."""
    found = size(one), size(other)
    return found if one == other or found[0] != found[1] else (f"{one:,} B", f"{other:,} B")


def bandwidth(bytes_per_second: float) -> str:
    """Return bytes per second: `12.3 GB/s`."""
    return f"{size(bytes_per_second)}/s"


def digits(value: float) -> str:
    """Return a value with three significant digits, or two below a tenth: `2.90`, `1.50e+12`."""
    if value >= 1e9:
        return f"{value:.2e}"
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:#.3g}" if value >= 0.1 else f"{value:#.2g}" if value else "0"


def digits_within(value: float, low: float, high: float) -> str:
    """Return a value in no more digits than its range leaves: `0.46` in [0.41, 0.51].

    They are those that the Particle Data Group writes beside an error of half the range, which has two digits
    up to 354 and else one.
    """
    error = (high - low) / 2
    if not 0 < value < 1e9 or not 0 < error < inf:
        return digits(value)
    first, last = floor(log10(value)), floor(log10(error / _ONE_DIGIT))  # 2 are hundreds, -1 tenths
    if last <= first - (2 if value >= 0.1 else 1):
        return digits(value)
    last = min(first, last)
    return f"{round(value, -last):.{max(0, -last)}f}"


def interval(low: float | None, high: float | None, shown: Callable[[float], str]) -> str:
    """Return an interval: `[2.6, 3.2]`, with a question mark for an unbounded end."""
    return f"[{'?' if low is None else shown(low)}, {'?' if high is None else shown(high)}]"


def percent(share: float) -> str:
    """Return a share in percent: `2.5 %`."""
    return f"{100 * share:g} %"


def measured_percent(share: float) -> str:
    """Return a measured share in percent, with the digits of a measured number: `62.4 %`."""
    return f"{digits(100 * share)} %"


def change(ratio: float) -> str:
    """Return a ratio as a change in percent, with its sign: `-18 %`, `+3.5 %`."""
    percent = 100 * (ratio - 1)
    return f"{percent:+.0f} %" if abs(percent) >= 9.95 else f"{percent:+.1f} %"


def minute(time: str) -> str:
    """Return a time that is written as in ISO 8601, up to its minute: `2026-11-20 10:00`."""
    return time[:16].replace("T", " ")


def count(number: int, one: str, several: str | None = None) -> str:
    """Return a number with its noun: `1 test`, `1,200 tests`; `several` is a plural other than -s."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


def first_few(names: Iterable[str], most: int | None = 3) -> str:
    """Return the first names, and how many more there are: `a, b, c and 2 more`; without `most` all."""
    known = list(names)
    shown = ", ".join(known[:most])
    return shown if most is None or len(known) <= most else f"{shown} and {len(known) - most:,} more"


def listed(names: Iterable[str]) -> str:
    """Return names in a sentence: `a`, `a and b`, `a, b and c`."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
