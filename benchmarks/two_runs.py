"""How often a regression check of two runs is wrong, and which losses it finds, in worlds of noise.

A test is a baseline and a later run. A round is a block of calls on the CPU, three quarters of its time, and
one on the GPU, in random order. A world says by how much they are slower in each round. Noise that lasts is
averaged over the time of each block; it does not make a round longer. What is lost is nothing, exactly what
is allowed, or more.

The factors are those of `looks.of_pair`. What `looks.seen` and `regression.compare_ranges` say of one test is
worked out here for all tests of a world at once, and held against both for some of them.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, pairwise, product
from math import exp, log, sqrt
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np
from common import Target, conclude, table
from worlds import SHARE, SMALL, read_traces

from pytest_gpuperf.analysis import looks
from pytest_gpuperf.analysis.looks import Length, Look
from pytest_gpuperf.gate import regression
from pytest_gpuperf.model.comparison import Tolerance
from pytest_gpuperf.model.measurement import Estimate

TOLERANCE = Tolerance(metric="speedup", share=0.1)
UNCHANGED, AT_THE_LIMIT = 1.0, 1 - TOLERANCE.share
BETTER = 1.05 * AT_THE_LIMIT
LOST = (0.85, 0.8, 0.7, 0.5)
FACTORS = (UNCHANGED, BETTER, AT_THE_LIMIT, *LOST)
CPU_SHARE = 0.75  # of the time of a round
KEPT = 0.9  # of the deviation of one round in the next
MOST_OF_INDEPENDENT, MOST_OF_LASTING, MOST_OF_SHORT = 0.5, 5.0, 7.0  # percent
COMPARED = 20  # tests of each cell that are held against the package

# ---------------------------------------------------------------------------------------------------------
# Worlds
# ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """So many runs of rounds that take so many seconds each."""

    runs: int
    rounds: int
    seconds: float

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of an array of values for each round."""
        return self.runs, self.rounds


World = Callable[[np.random.Generator, Size], np.ndarray]
"""Returns the logs of the factors of the ratio: an array of runs x rounds."""


def small(chance: np.random.Generator, size: Size) -> np.ndarray:
    """The noise of two devices that have no other."""
    return chance.normal(0, sqrt(2) * SMALL, size.shape)


def lognormal(percent: float, chance: np.random.Generator, size: Size) -> np.ndarray:
    """A relative standard deviation of so many percent on each side."""
    return chance.normal(0, sqrt(2 * log(1 + (percent / 100) ** 2)), size.shape)


def two_levels(factor: float, chance: np.random.Generator, size: Size) -> np.ndarray:
    """Each side is slower by a factor in half of the rounds, at random."""
    cpu, gpu = chance.integers(0, 2, (2, *size.shape))
    return log(factor) * (cpu - gpu) + small(chance, size)


def recorded(traces: np.ndarray, chance: np.random.Generator, size: Size) -> np.ndarray:
    """Consecutive values of two different traces, each from a random start."""
    count, length = traces.shape
    cpu = chance.integers(0, count, size.runs)
    gpu = (cpu + chance.integers(1, count, size.runs)) % count
    starts = chance.integers(0, length, (2, size.runs, 1))
    of_cpu, of_gpu = (starts + np.arange(size.rounds)) % length
    return traces[cpu[:, None], of_cpu] - traces[gpu[:, None], of_gpu]


def autoregressive(
    percent: float, relaxation: float | None, chance: np.random.Generator, size: Size
) -> np.ndarray:
    """AR(1) on each side, of so many percent: it forgets with so many seconds, or the same in each round."""
    kept = KEPT if relaxation is None else exp(-size.seconds / relaxation)
    drawn = chance.normal(0, percent / 100, (2, *size.shape))
    state = drawn.copy()
    for place in range(1, size.rounds):
        state[..., place] = kept * state[..., place - 1] + sqrt(1 - kept**2) * drawn[..., place]
    return state[0] - state[1]


def spells(factor: float, lasting: float, side: str, chance: np.random.Generator, size: Size) -> np.ndarray:
    """One side is slower by a factor in a share of the time, in spells of so many seconds on average."""
    share = CPU_SHARE if side == "CPU" else 1 - CPU_SHARE
    goes_first = chance.random(size.shape) < 1 / 2
    begun = size.seconds * (np.arange(size.rounds) + np.where(goes_first, 0, 1 - share))
    slow_until = slow_seconds(lasting, chance, size)
    slow = slow_until(begun + share * size.seconds) - slow_until(begun)
    slower = np.log1p((factor - 1) * slow / (share * size.seconds))
    return (slower if side == "CPU" else -slower) + small(chance, size)


def slow_seconds(
    lasting: float, chance: np.random.Generator, size: Size
) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function from times of each run to how many seconds before them were slow."""
    between, whole = lasting * (1 - SHARE) / SHARE, size.rounds * size.seconds
    count = 2 * int(1.6 * whole / (lasting + between)) + 24
    is_slow = (np.arange(count) % 2 == 0) == (chance.random((size.runs, 1)) < SHARE)
    seconds = chance.exponential(1, (size.runs, count)) * np.where(is_slow, lasting, between)
    until, slow = np.zeros((2, size.runs, count + 1))
    np.cumsum(seconds, axis=1, out=until[:, 1:])
    np.cumsum(seconds * is_slow, axis=1, out=slow[:, 1:])
    assert until[:, -1].min() > whole
    begun = (until.max() + 1) * np.arange(size.runs)[
        :, None
    ]  # one run after the other, for one interpolation
    known = (begun + until).ravel(), slow.ravel()
    return lambda times: np.interp((begun + times).ravel(), *known).reshape(times.shape)


def of_spells(lasting: Sequence[float], cpu: Sequence[float], gpu: Sequence[float]) -> dict[str, World]:
    """Return worlds of spells that last so long, by these factors on the CPU and on the GPU."""
    return {
        f"{factor:g}x {seconds:g} s {side}": partial(spells, factor, seconds, side)
        for seconds in lasting
        for side, factors in (("CPU", cpu), ("GPU", gpu))
        for factor in factors
    }


RECORDED, INDEPENDENT, STRONG, LONG = "recorded", "independent", "3 s, 1.6x", "6 s"
KINDS: dict[str, dict[str, World]] = {
    INDEPENDENT: {
        **{f"lognormal {percent} %": partial(lognormal, percent) for percent in (2, 5, 20)},
        **{f"levels {factor}x": partial(two_levels, factor) for factor in (1.3, 2.2)},
    },
    "AR 3 %": {"AR 3 %": partial(autoregressive, 3, None)},
    "AR 10 %": {"AR 10 %": partial(autoregressive, 10, None)},
    "AR 1, 3 s": {f"AR 10 % {seconds} s": partial(autoregressive, 10, seconds) for seconds in (1, 3)},
    "to 1 s": of_spells((0.3, 1), (1.1, 1.3, 1.6), (1.3, 1.6)),
    "3 s, to 1.3x": of_spells((3,), (1.1, 1.3), (1.3,)),
    STRONG: of_spells((3,), (1.6,), (1.6,)),
    LONG: of_spells((6,), (1.3, 1.6), (1.3, 1.6)),
}
QUIET = (RECORDED, "lognormal 2 %", "lognormal 5 %")  # worlds in which losses should be found

# ---------------------------------------------------------------------------------------------------------
# Cases
# ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """So many rounds in the baseline and in the later run, which take so many seconds each."""

    seconds: float
    before: int
    now: int

    @property
    def name(self) -> str:
        """How the tables call it."""
        return f"{self.before} / {self.now} x {self.seconds:g} s"

    @property
    def look(self) -> Look:
        """The package's factors of two such runs."""
        before, now = (Length(rounds, rounds * self.seconds) for rounds in (self.before, self.now))
        return looks.of_pair(before, now)

    @property
    def has_short_baseline(self) -> bool:
        """Whether the baseline took 1 to 2 s, in which one spell explains more than the factor."""
        return 1 <= self.before * self.seconds < 2


CASES = [
    Case(seconds=seconds, before=before, now=now)
    for seconds, rounds in {
        0.04: [(7, 188), (25, 188)],
        0.1: [(20, 20), (75, 22), (55, 55), (75, 75)],
        0.3: [(25, 7), (25, 25)],
        0.4: [(20, 20)],
        0.8: [(5, 5), (7, 7), (12, 12), (20, 20), (28, 28)],
        1.33: [(6, 6), (17, 17)],
        4.0: [(3, 3), (5, 5), (7, 7), (20, 20)],
    }.items()
    for before, now in rounds
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """How often tests of a case that kept so much ended red, and green, in one world: in percent."""

    case: Case
    kind: str
    world: str
    factor: float
    red: float
    green: float


class Ranges(NamedTuple):
    """The ends of the ranges of many tests."""

    low: np.ndarray
    high: np.ndarray


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--noise", type=Path, metavar="DIR", help="folder of CSV files with seconds_per_call")
    parser.add_argument("--tests", type=int, default=20_000, help="tests of each case in each world")
    parser.add_argument("--seed", type=int, default=20261129)
    arguments = parser.parse_args()
    kinds = KINDS
    if arguments.noise:
        logs = [trace.logs for trace in read_traces(arguments.noise)]
        traces = np.array([each[: min(map(len, logs))] for each in logs])
        kinds = {RECORDED: {RECORDED: partial(recorded, traces)}, **KINDS}
    found = list(cells(kinds, arguments.tests, arguments.seed))
    print(f"{arguments.tests} tests of each case in each world, {100 * TOLERANCE.share:g} % less is allowed.")
    print("A case: rounds of the baseline / of the run x their seconds.\n")
    print_wrong(found)
    print_right(found)
    return conclude(targets(found))


def cells(kinds: Mapping[str, Mapping[str, World]], tests: int, seed: int) -> Iterator[Cell]:
    """Yield each case in each world; cases whose rounds take equally long are parts of the same runs."""
    worlds = [(kind, name, world) for kind, each in kinds.items() for name, world in each.items()]
    for seconds, alike in groupby(CASES, attrgetter("seconds")):
        cases = list(alike)
        size = Size(runs=tests, rounds=max(max(case.before, case.now) for case in cases), seconds=seconds)
        for kind, name, world in worlds:
            chance = np.random.default_rng([seed, *name.encode()])
            before, now = (np.exp(world(chance, size)) for _ in range(2))
            for case in cases:
                for factor, red, green in outcomes(case, before[:, : case.before], now[:, : case.now]):
                    yield Cell(case=case, kind=kind, world=name, factor=factor, red=red, green=green)


def outcomes(case: Case, before: np.ndarray, now: np.ndarray) -> Iterator[tuple[float, float, float]]:
    """Yield by what a loss leaves how often it is called a regression, and none, in percent."""
    look, earlier, unchanged = case.look, ranges(before), ranges(now)
    assert look.misses is not None
    for factor in FACTORS:
        later = Ranges(factor * unchanged.low, factor * unchanged.high)
        red = later.high * look.misses < AT_THE_LIMIT * earlier.low
        green = later.low >= AT_THE_LIMIT * earlier.high * look.meets
        for test in range(COMPARED):
            of_package = outcome(case, before[test].tolist(), (factor * now[test]).tolist())
            assert of_package == (red[test], green[test]), (case, factor)
        yield factor, 100 * float(red.mean()), 100 * float(green.mean())


def outcome(case: Case, before: Sequence[float], now: Sequence[float]) -> tuple[bool, bool]:
    """Return whether the package calls a test a regression, and whether it calls it none."""
    earlier, later = (
        Estimate(value=1.0, low=seen.low, high=seen.high) for seen in map(looks.seen, (before, now))
    )
    found = regression.compare_ranges(earlier, later, case.look, TOLERANCE)
    return found == "regressed", found in ("not_regressed", "improved")


def ranges(ratios: np.ndarray) -> Ranges:
    """Return `looks.seen` of each row."""
    rounds, weighed = ratios.shape[1], ratios
    if rounds >= looks.STRETCHES:
        weighed = np.stack([np.median(ratios[:, each], axis=1) for each in stretches(rounds)], axis=1)
    return Ranges(weighed.min(axis=1), weighed.max(axis=1))


def stretches(rounds: int) -> list[slice]:
    """Return the rounds of which `looks.seen` takes medians."""
    if rounds < looks.MANY:
        ends = (rounds * place // looks.STRETCHES for place in range(looks.STRETCHES + 1))
        return [slice(*each) for each in pairwise(ends)]
    size = rounds // looks.STRETCHES
    odd = size - 1 + size % 2
    starts = (place * size + place % 2 * (size - odd) for place in range(looks.STRETCHES))
    return [slice(start, start + odd) for start in starts]


# ---------------------------------------------------------------------------------------------------------
# Tables and targets
# ---------------------------------------------------------------------------------------------------------


def print_wrong(found: Sequence[Cell]) -> None:
    """Print by case and kind of noise how often an answer is wrong, in the worst world of the kind."""
    kinds = list(dict.fromkeys(cell.kind for cell in found))
    shares = (
        ("exactly what is allowed lost, called a regression beyond the factor", AT_THE_LIMIT, "red"),
        ("5 % better than that, called a regression", BETTER, "red"),
        ("no change, called a regression", UNCHANGED, "red"),
        ("exactly what is allowed lost, called no regression beyond the factor", AT_THE_LIMIT, "green"),
    )
    for told, factor, share in shares:
        print(f"{told}: percent, worst world of each kind\n")
        rows = []
        for case in CASES:
            beyond = case.look.misses if share == "red" else case.look.meets
            worst = (most(of(found, case=case, kind=kind, factor=factor), share) for kind in kinds)
            rows.append([case.name, f"{beyond:g}", *(f"{each:.1f}" for each in worst)])
        table(["case", "factor", *kinds], rows)


def print_right(found: Sequence[Cell]) -> None:
    """Print by case which losses are found, and whether no change is called none."""
    worlds = [world for world in QUIET if of(found, world=world)]
    losses = " ".join(f"{100 * (1 - factor):.0f}" for factor in LOST)
    print(f"losses of {losses} % that are found; no change that is called none: percent\n")
    rows = []
    for case, world in product(CASES, worlds):
        lost = (most(of(found, case=case, world=world, factor=factor), "red") for factor in LOST)
        fine = most(of(found, case=case, world=world, factor=UNCHANGED), "green")
        rows.append(f"{' '.join(f'{each:3.0f}' for each in lost)};{fine:4.0f}")
    width = len(worlds)
    table(
        ["case", *worlds],
        [[case.name, *rows[width * place : width * (place + 1)]] for place, case in enumerate(CASES)],
    )


def targets(found: Sequence[Cell]) -> list[Target]:
    """Return what the factors should keep; in spells of 6 s they do not, which the tables show."""
    independent = [cell for cell in found if cell.kind in (RECORDED, INDEPENDENT)]
    lasting = [cell for cell in found if cell.kind not in (RECORDED, INDEPENDENT, LONG)]
    short = [cell for cell in lasting if cell.kind == STRONG and cell.case.has_short_baseline]
    groups = (
        ("recorded and independent noise", independent, MOST_OF_INDEPENDENT),
        ("noise that lasts", [cell for cell in lasting if cell not in short], MOST_OF_LASTING),
        (f"a baseline of 1 to 2 s in spells of {STRONG}", short, MOST_OF_SHORT),
    )
    return [
        Target(
            name=f"{told} called worse, {group}, worst cell, %",
            figure=most(of(cells, factor=factor), "red"),
            limit=limit,
        )
        for told, factor in (("no change", UNCHANGED), ("exactly what is allowed", AT_THE_LIMIT))
        for group, cells, limit in groups
    ] + [
        Target(
            name=f"exactly what is allowed called fine, {groups[0][0]}, worst cell, %",
            figure=most(of(independent, factor=AT_THE_LIMIT), "green"),
            limit=MOST_OF_INDEPENDENT,
        )
    ]


def of(found: Sequence[Cell], **fields: object) -> list[Cell]:
    """Return the cells whose fields have these values."""
    return [cell for cell in found if all(getattr(cell, name) == value for name, value in fields.items())]


def most(found: Sequence[Cell], share: str) -> float:
    """Return the largest share of some cells, in percent."""
    return max(getattr(cell, share) for cell in found)


if __name__ == "__main__":
    sys.exit(main())
