"""What the benchmarks share: commands and their cost, paired runs, a second device, tables and targets."""

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from math import comb
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TypeVar

from pytest_gpuperf.devices.host import HostDevice
from pytest_gpuperf.devices.protocol import Backend
from pytest_gpuperf.model.demand import Kind
from pytest_gpuperf.model.measurement import DeviceInfo

__all__ = [
    "ALONE",
    "Cost",
    "Pairs",
    "StandIn",
    "StandInBackend",
    "Target",
    "conclude",
    "duel",
    "paired",
    "pytest",
    "run",
    "table",
]

Found = TypeVar("Found")

ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""The environment in which pytest loads only the plugins that the command line names."""

_DISTURBING = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS", "PYTHONDONTWRITEBYTECODE", "CI")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a command took, in seconds: by the wall clock, and of the processor (user and system)."""

    wall: float
    cpu: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """The numbers of two sides that took turns, pair by pair."""

    first: tuple[float, ...]
    second: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """The median over the pairs of first / second."""
        return median(self._ratios)

    @property
    def interval(self) -> tuple[float, float]:
        """The limits of that median at 95 % or more, by the sign test: from the smallest to the largest of
        the ratios, less as many at either end as chance allows.
        """
        ordered, chances = sorted(self._ratios), 2 ** len(self._ratios)
        tails = accumulate(2 * comb(len(ordered), rank) / chances for rank in range(len(ordered)))
        out = max(0, sum(tail <= 0.05 for tail in tails) - 1)
        return ordered[out], ordered[-1 - out]

    @property
    def difference(self) -> float:
        """The median over the pairs of first - second."""
        return median(a - b for a, b in zip(self.first, self.second, strict=True))

    @property
    def _ratios(self) -> list[float]:
        return [a / b for a, b in zip(self.first, self.second, strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A figure with what it should be; the figure and the limit are in the unit that the name says."""

    name: str
    figure: float
    limit: float
    at_least: bool = False

    @property
    def reached(self) -> bool:
        """Whether the figure is on the right side of the limit."""
        return self.figure >= self.limit if self.at_least else self.figure <= self.limit


class StandIn(HostDevice):
    """This machine's CPU in the place of a GPU: real times, and a body can tell it by its kind."""

    kind: Kind = "gpu"
    backend = "standin"

    def __init__(self) -> None:
        super().__init__("stand-in for a GPU")
        self.info = DeviceInfo(
            kind="gpu", backend=self.backend, name=self.name, library=self.info.library, emulated=True
        )


class StandInBackend(Backend):
    """`--gpuperf-gpu=standin`: the CPU on both sides."""

    name = "standin"

    def check(self, selector: str) -> None:
        """Accept anything: there is one device."""

    def gpu(self, selector: str) -> StandIn:  # noqa: ARG002 - the protocol passes it
        """Return the stand-in."""
        return StandIn()

    def cpu(self) -> HostDevice:
        """Return NumPy."""
        return HostDevice("the CPU")


def run(
    *arguments: str | Path,
    folder: Path,
    variables: Mapping[str, str] | None = None,
    allowed: Sequence[int] = (0,),
) -> Cost:
    """Run this Python with the arguments and return what it took; raise, with its output, when it fails.

    It fails with any exit status that is not `allowed`.
    """
    environment = {name: value for name, value in os.environ.items() if name not in _DISTURBING}
    before, started = _children(), perf_counter()
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=folder,
        env={**environment, **(variables or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    cost = Cost(wall=perf_counter() - started, cpu=_children() - before)
    if done.returncode not in allowed:
        raise SystemExit(f"{' '.join(map(str, arguments))} failed:\n{done.stdout}{done.stderr}")
    return cost


def pytest(
    *arguments: str | Path,
    folder: Path,
    variables: Mapping[str, str] | None = None,
    profile: Path | None = None,
    allowed: Sequence[int] = (0,),
) -> Cost:
    """Run pytest on a folder of its own, which needs no configuration of ours; profile it into a file."""
    under = ("-m", "cProfile", "-o", profile) if profile else ()
    here = ("-m", "pytest", "--rootdir", folder, "-c", os.devnull, "-p", "no:cacheprovider")
    return run(*under, *here, *arguments, folder=folder, variables=variables, allowed=allowed)


def paired(
    first: Callable[[], Found], second: Callable[[], Found], pairs: int
) -> Iterator[tuple[Found, Found]]:
    """Yield what both return, pair by pair; each goes first in every other pair, so that drift cancels."""
    for index in range(pairs):
        if index % 2:
            later = second()
            yield first(), later
        else:
            yield first(), second()


def duel(first: Callable[[], float], second: Callable[[], float], pairs: int) -> Pairs:
    """Return the numbers of both sides, which take turns."""
    ours, theirs = zip(*paired(first, second, pairs), strict=True)
    return Pairs(first=ours, second=theirs)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns, the first one to the left and the others to the right."""
    widths = [max(len(row[column]) for row in chain([header], rows)) for column in range(len(header))]
    for row in chain([header, ["-" * width for width in widths]], rows):
        first, *others = (
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join([first, *others]).rstrip())
    print()


def conclude(targets: Sequence[Target]) -> int:
    """Print the targets and return the exit status: 1 when one was missed."""
    rows = [
        [
            target.name,
            f"{target.figure:.4g}",
            f"{'at least' if target.at_least else 'at most'} {target.limit:g}",
            "yes" if target.reached else "NO",
        ]
        for target in targets
    ]
    table(["target", "found", "wanted", "reached"], rows)
    return 0 if all(target.reached for target in targets) else 1


def _children() -> float:
    """Return the processor time of all commands that have ended, in seconds."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
