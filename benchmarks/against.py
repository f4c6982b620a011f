"""How often the rule for pairs of processes is wrong: `gpuperf compare BASE/ HEAD/`, in worlds of noise.

A world says by how much the processes of one test differ, base and head in turns: each by its own offset,
and by what lasts, is rare, or depends on the order. The rule looks at a test after 6 pairs, and again after
12 if the test is still undecided. The true change of a test is zero, the tolerance, or more. The rule is the
package's own.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import log

import numpy as np
from common import Target, conclude, table

from pytest_gpuperf.gate import pairs
from pytest_gpuperf.model.comparison import Outcome, Tolerance

TOLERANCE = Tolerance(metric="gpu_time", share=0.05)
OFFSETS = (0.005, 0.02, 0.05)  # standard deviations of a process's own offset
CHANGES = (0.0, 0.05, 0.08, 0.10)
NEIGHBOUR = 0.14  # how much slower a process is while a neighbour is at work
LASTS = (0.3, 2.0, 8.0)  # the mean time of such a spell, in processes
MOST_FALSE, MOST_AT_LIMIT = 0.5, 2.5  # percent

Noise = Callable[[np.random.Generator, int], np.ndarray]
"""Returns the logs of the factors of so many tests: an array of tests x pairs x (base, head)."""


def shape(tests: int) -> tuple[int, int, int]:
    return tests, pairs.MANY, 2


def places() -> np.ndarray:
    """Return when each process runs: base first in one pair, head first in the next."""
    order = np.arange(2 * pairs.MANY).reshape(pairs.MANY, 2)
    order[1::2] = order[1::2, ::-1]
    return order


def independent(_chance: np.random.Generator, tests: int) -> np.ndarray:
    return np.zeros(shape(tests))


def fast_mode(chance: np.random.Generator, tests: int) -> np.ndarray:
    """One process in ten is 20 % faster."""
    return -0.18 * (chance.random(shape(tests)) < 0.1)


def drift(_chance: np.random.Generator, tests: int) -> np.ndarray:
    """Each process is 1 % slower than the one before."""
    return np.broadcast_to(0.01 * places(), shape(tests))


def walk(chance: np.random.Generator, tests: int) -> np.ndarray:
    """A random walk, by 1 % from process to process."""
    return np.cumsum(chance.normal(0, 0.01, (tests, 2 * pairs.MANY)), axis=1)[:, places()]


def second_slower(_chance: np.random.Generator, tests: int) -> np.ndarray:
    """The second process of a pair is 2 % slower."""
    return np.broadcast_to(0.02 * (places() % 2), shape(tests))


def spells(lasting: float, chance: np.random.Generator, tests: int) -> np.ndarray:
    """A neighbour comes and goes: after that many processes on average, and for as long."""
    steps = 10  # in one process
    changes = chance.random((tests, 2 * pairs.MANY * steps)) < 1 / (lasting * steps)
    is_there = (np.cumsum(changes, axis=1) + chance.integers(0, 2, (tests, 1))) % 2
    return NEIGHBOUR * is_there[:, places() * steps]


WORLDS: dict[str, Noise] = {
    "independent": independent,
    "fast mode": fast_mode,
    "drift": drift,
    "walk": walk,
    "second slower": second_slower,
    **{f"spells of {lasting:g}": partial(spells, lasting) for lasting in LASTS},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """How often tests of one world ended how, in percent, by their true change."""

    world: str
    offset: float
    by_change: dict[float, Counter[Outcome]]

    def share(self, change: float, outcome: Outcome) -> float:
        """Return how often an outcome was found, in percent."""
        found = self.by_change[change]
        return 100 * found[outcome] / found.total()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tests", type=int, default=20_000, help="tests of each world")
    parser.add_argument("--seed", type=int, default=20261129)
    arguments = parser.parse_args()
    found = [
        rates(world, offset, arguments.tests, np.random.default_rng(arguments.seed))
        for world in WORLDS
        for offset in OFFSETS
    ]
    print(f"{arguments.tests} tests a world, tolerance {100 * TOLERANCE.share:g} %; percent of the tests\n")
    header = ("world", "offset", "none: worse", "same", "5 %: worse", "same", "8 %: worse", "10 %: worse")
    table(header, [row(each) for each in found])
    worst = (
        ("no change is called worse", 0.0, "regressed", MOST_FALSE),
        ("exactly what is allowed is called worse", 0.05, "regressed", MOST_AT_LIMIT),
        ("exactly what is allowed is called the same", 0.05, "not_regressed", MOST_AT_LIMIT),
    )
    return conclude(
        [
            Target(
                name=f"{name}, in the worst world, %",
                figure=max(each.share(change, outcome) for each in found),
                limit=most,
            )
            for name, change, outcome, most in worst
        ]
    )


def rates(world: str, offset: float, tests: int, chance: np.random.Generator) -> Rates:
    """Return how tests of a world end whose head is slower by each of the changes."""
    logs = WORLDS[world](chance, tests) + chance.normal(0, offset, shape(tests))
    steps = logs[:, :, 1] - logs[:, :, 0]
    by_change = {
        change: Counter(outcome_of(list(each)) for each in np.exp(steps + log(1 + change)))
        for change in CHANGES
    }
    return Rates(world=world, offset=offset, by_change=by_change)


def outcome_of(ratios: list[float]) -> Outcome:
    """Return what became of a test at the first look that decides it."""
    for count in (pairs.FEW, pairs.MANY):
        seen = pairs.bracket(ratios[:count])
        outcome = pairs.outcome_of(seen, seen, TOLERANCE)
        if outcome != "inconclusive":
            break
    return outcome


def row(found: Rates) -> tuple[str, ...]:
    same = found.share(0.0, "not_regressed") + found.share(0.0, "improved")
    values = (
        found.share(0.0, "regressed"),
        same,
        found.share(0.05, "regressed"),
        found.share(0.05, "not_regressed"),
        found.share(0.08, "regressed"),
        found.share(0.10, "regressed"),
    )
    return found.world, f"{100 * found.offset:g} %", *(f"{value:.2f}" for value in values)


if __name__ == "__main__":
    sys.exit(main())
