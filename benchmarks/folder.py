"""How often a check against a folder of six earlier reports is wrong, and what it finds, in worlds of noise.

Each of the seven runs of a test is a process of its own: its speedup has an offset, and its rounds have the
noise of a world, which begins anew. A round is a CPU block of three quarters of its time and a GPU block of
the rest, in either order. The ranges are those of the package's stretches, and what compares them is the
package's rule. Noise that lasts is averaged over a block. The true loss of a test is zero, what is allowed,
or more; one point more than the visible loss is lost in a run that comes after the one that said it.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import ceil, exp, log, sqrt
from pathlib import Path
from typing import NamedTuple

import numpy as np
from common import Target, conclude, table
from worlds import SHARE, read_traces

from pytest_gpuperf.analysis import looks
from pytest_gpuperf.gate import regression, runs
from pytest_gpuperf.model.comparison import Outcome, Tolerance
from pytest_gpuperf.model.measurement import Estimate

TOLERANCE = Tolerance(metric="speedup", share=0.1)
LOSSES = (0.0, 0.1, 0.15, 0.2, 0.3, 0.5)
OFFSETS = (0.005, 0.02, 0.05)  # standard deviations of a process's own offset
SMALL = 0.01  # the noise of a block beside its spells
STEP = 0.2  # seconds, at most, in which a spell begins or ends
CHECKED = 20  # tests whose ranges must be those of the package
MOST_FALSE, MOST_FALSE_GAIN, MOST_RED_AT_LIMIT, MOST_GREEN_AT_LIMIT = 1.0, 2.0, 6.0, 8.0  # percent
MOST_FALSE_PLAIN = 2.5  # of runs that are shorter than a spell

Noise = Callable[[np.random.Generator, int, int, float], np.ndarray]
"""Returns the logs of the ratios of so many tests, in so many rounds of so many seconds."""


class Length(NamedTuple):
    """How many rounds the earlier runs have, how many the later one, and the seconds of a round."""

    before: int
    now: int
    seconds: float


MAX_TIME_3, PLAIN = "six of max_time=3", "seven plain reports"
LENGTHS = {
    MAX_TIME_3: Length(56, 56, 0.04),
    "six of 7.5 s, one of 2.2 s": Length(188, 56, 0.04),
    "six of 7.5 s": Length(188, 188, 0.04),
    "six plain reports, 7.5 s": Length(7, 188, 0.04),
    PLAIN: Length(7, 7, 0.04),
    "20 rounds of 0.8 s": Length(20, 20, 0.8),
    "7 rounds of 0.8 s": Length(7, 7, 0.8),
    "3 rounds of 4 s": Length(3, 3, 4.0),
    "2 rounds of 8 s": Length(2, 2, 8.0),
}


def lognormal(percent: float, chance: np.random.Generator, tests: int, rounds: int, _: float) -> np.ndarray:
    """Both devices have a relative standard deviation of so many percent."""
    spread = sqrt(log(1 + (percent / 100) ** 2))
    return chance.normal(0, sqrt(2) * spread, (tests, rounds))


def autoregressive(
    percent: float, chance: np.random.Generator, tests: int, rounds: int, _: float
) -> np.ndarray:
    """Both devices forget a tenth from round to round."""
    kept = 0.9
    values = chance.normal(0, sqrt(2) * percent / 100, (tests, rounds))
    for place in range(1, rounds):
        values[:, place] = kept * values[:, place - 1] + sqrt(1 - kept**2) * values[:, place]
    return values


def replayed(
    traces: Sequence[np.ndarray], chance: np.random.Generator, tests: int, rounds: int, _: float
) -> np.ndarray:
    """The consecutive values of two recorded traces, from random starts."""
    length = min(map(len, traces))
    logs = np.array([trace[:length] for trace in traces])
    one = chance.integers(0, len(logs), tests)
    other = (one + chance.integers(1, len(logs), tests)) % len(logs)
    places = chance.integers(0, length, (2, tests, 1)) + np.arange(rounds)
    return logs[one[:, None], places[0] % length] - logs[other[:, None], places[1] % length]


def spells(
    factor: float, lasting: float, side: str, chance: np.random.Generator, tests: int, rounds: int, r: float
) -> np.ndarray:
    """One device is slower by a factor in a share of the time, for so many seconds on average."""
    steps = ceil(r / 4 / STEP)  # in a quarter of a round
    kept = exp(-r / 4 / steps / ((1 - SHARE) * lasting))
    slow = np.empty((tests, rounds * 4 * steps), dtype=bool)
    slow[:, 0] = chance.random(tests) < SHARE
    for step in range(1, slow.shape[1]):
        slow[:, step] = chance.random(tests) < SHARE + (slow[:, step - 1] - SHARE) * kept
    quarters = slow.reshape(tests, rounds, 4, steps).mean(axis=3)
    cpu_first = chance.random((tests, rounds)) < 0.5
    ends = (quarters[:, :, 3], quarters[:, :, 0])
    gpu = np.where(cpu_first, *ends)
    found = gpu if side == "gpu" else (quarters.sum(axis=2) - gpu) / 3
    sign = -1 if side == "gpu" else 1
    return sign * np.log1p((factor - 1) * found) + chance.normal(0, sqrt(2) * SMALL, (tests, rounds))


def worlds_of(traces: Sequence[np.ndarray]) -> dict[str, Noise]:
    return {
        "recorded": partial(replayed, traces),
        **{f"lognormal {percent:g} %": partial(lognormal, percent) for percent in (0.1, 2.0, 5.0)},
        **{f"AR(1) {percent} %": partial(autoregressive, percent) for percent in (3, 10)},
        "1.1x, 1 s": partial(spells, 1.1, 1.0, "cpu"),
        "1.3x, 1 s": partial(spells, 1.3, 1.0, "cpu"),
        "1.3x, 3 s": partial(spells, 1.3, 3.0, "cpu"),
        "1.6x, 3 s": partial(spells, 1.6, 3.0, "cpu"),
        "1.6x, 3 s, GPU": partial(spells, 1.6, 3.0, "gpu"),
        "1.6x, 6 s, GPU": partial(spells, 1.6, 6.0, "gpu"),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The values and ranges of one run of each test, as logs."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def moved(self, by: np.ndarray) -> "Seen":
        """Return the same with an offset of each test."""
        return Seen(value=self.value + by, low=self.low + by, high=self.high + by)

    def estimates(self) -> list[Estimate]:
        """Return them as the package has them."""
        values, lows, highs = (np.exp(each).tolist() for each in (self.value, self.low, self.high))
        return [
            Estimate(value=value, low=low, high=high)
            for value, low, high in zip(values, lows, highs, strict=True)
        ]


def seen(logs: np.ndarray) -> Seen:
    """Return the range of each test's rounds as the package does: by the medians of stretches."""
    stretches, rounds = logs, logs.shape[1]
    if rounds >= looks.MANY:
        size = rounds // looks.STRETCHES
        odd = size - 1 + size % 2
        starts = [place * size + place % 2 * (size - odd) for place in range(looks.STRETCHES)]
        stretches = np.stack([np.median(logs[:, start : start + odd], 1) for start in starts], 1)
    elif rounds >= looks.STRETCHES:
        ends = [rounds * place // looks.STRETCHES for place in range(looks.STRETCHES + 1)]
        stretches = np.stack([np.median(logs[:, one:other], 1) for one, other in pairwise(ends)], 1)
    low, high = stretches.min(1), stretches.max(1)
    for place in range(min(CHECKED, len(logs))):
        of_package = looks.seen(logs[place].tolist())
        assert np.allclose((low[place], high[place]), of_package), "not what the package sees"
    return Seen(value=np.median(logs, 1), low=low, high=high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """How often the tests of a world ended how, in percent, by their true loss.

    `visible` is the median of what the check says it finds, and `found` how often it did, one point beyond.
    """

    world: str
    length: str
    offset: float
    outcomes: dict[float, list[Outcome]]
    visible: float
    found: float

    def share(self, loss: float, *wanted: Outcome) -> float:
        """Return how often one of these outcomes was found, in percent."""
        of_loss = self.outcomes[loss]
        return 100 * sum(each in wanted for each in of_loss) / len(of_loss)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--noise", type=Path, required=True, help="a folder of traces: CSV files")
    parser.add_argument("--tests", type=int, default=4_000, help="tests of each world")
    parser.add_argument("--seed", type=int, default=20261129)
    arguments = parser.parse_args()
    chance = np.random.default_rng(arguments.seed)
    worlds = worlds_of([np.array(trace.logs) for trace in read_traces(arguments.noise)])
    found = [
        each
        for length in LENGTHS
        for world in worlds
        for each in rates(world, worlds[world], length, arguments.tests, chance)
    ]
    print(f"{arguments.tests} tests a row, tolerance 10 %; percent of the tests\n")
    table(
        (
            *("runs, world", "offset", "none: worse", "better", "same", "10 %: worse", "same"),
            *(f"{100 * loss:g} %: worse" for loss in LOSSES[2:]),
            *("visible", "found"),
        ),
        [row(each) for each in found],
    )
    return conclude(list(targets(found)))


def targets(found: Sequence[Rates]) -> Iterator[Target]:
    """Yield what the check promises."""
    worst = {
        "no change is called worse": (0.0, MOST_FALSE, ("regressed",)),
        "no change is called better": (0.0, MOST_FALSE_GAIN, ("improved",)),
        "exactly what is allowed is called worse": (0.1, MOST_RED_AT_LIMIT, ("regressed",)),
        "exactly what is allowed is called the same": (
            0.1,
            MOST_GREEN_AT_LIMIT,
            ("not_regressed", "improved"),
        ),
    }
    for name, (loss, most, outcomes) in worst.items():
        figure = max(each.share(loss, *outcomes) for each in found if each.length != PLAIN)
        yield Target(name=f"{name}, worst row, %", figure=figure, limit=most)
    yield Target(
        name=f"no change is called worse, {PLAIN}, worst row, %",
        figure=max(each.share(0.0, "regressed") for each in found if each.length == PLAIN),
        limit=MOST_FALSE_PLAIN,
    )
    quiet = [each for each in found if each.world == "recorded" and each.length == MAX_TIME_3]
    for loss, least in ((0.2, (80, 55)), (0.3, (98, 95))):
        for offset, wanted in zip(OFFSETS[:2], least, strict=True):
            (figure,) = (each.share(loss, "regressed") for each in quiet if each.offset == offset)
            name = f"recorded, {MAX_TIME_3}, offset {100 * offset:g} %: {100 * loss:g} % found"
            yield Target(name=name, figure=figure, limit=wanted, at_least=True)
    yield Target(
        name="one point more than the visible loss is found, worst row, %",
        figure=min(each.found for each in found),
        limit=90,
        at_least=True,
    )


def rates(world: str, noise: Noise, length: str, tests: int, chance: np.random.Generator) -> Iterator[Rates]:
    """Yield how the tests of a world end, for each offset of their processes."""
    before, now, seconds = LENGTHS[length]
    earlier = [seen(noise(chance, tests, before, seconds)) for _ in range(runs.RUNS)]
    later, after = (seen(noise(chance, tests, now, seconds)) for _ in range(2))
    for offset in OFFSETS:
        moves = chance.normal(0, offset, (runs.RUNS + 2, tests))
        known = [each.moved(by) for each, by in zip([*earlier, later, after], moves, strict=True)]
        over = Seen(
            value=np.median([each.value for each in known[: runs.RUNS]], 0),
            low=np.min([each.low for each in known[: runs.RUNS]], 0),
            high=np.max([each.high for each in known[: runs.RUNS]], 0),
        ).estimates()
        head = known[-2].estimates()
        visible = [1.0 if loss is None else loss for loss in map(visible_loss, over, head)]
        lost = np.log(1 - np.minimum(np.array(visible) + 0.01, 1 - 1e-9))
        found = map(outcome_of, over, known[-1].moved(lost).estimates())
        yield Rates(
            world=world,
            length=length,
            offset=offset,
            outcomes={
                loss: list(map(outcome_of, over, known[-2].moved(np.full(tests, log(1 - loss))).estimates()))
                for loss in LOSSES
            },
            visible=100 * float(np.median(visible)),
            found=100 * sum(each == "regressed" for each in found) / tests,
        )


def outcome_of(over: Estimate, now: Estimate) -> Outcome:
    """Return what the package says of a run beside a range over runs."""
    return regression.compare_ranges(over, now, looks.of_runs(regression.width(over)), TOLERANCE)


def visible_loss(over: Estimate, now: Estimate) -> float | None:
    """Return the smallest loss that the package says such a check finds."""
    return regression.visible(over, now, looks.of_runs(regression.width(over)), TOLERANCE)


def row(found: Rates) -> tuple[str, ...]:
    values = (
        found.share(0.0, "regressed"),
        found.share(0.0, "improved"),
        found.share(0.0, "not_regressed", "improved"),
        found.share(0.1, "regressed"),
        found.share(0.1, "not_regressed", "improved"),
        *(found.share(loss, "regressed") for loss in LOSSES[2:]),
        found.visible,
        found.found,
    )
    return f"{found.length}, {found.world}", f"{100 * found.offset:g} %", *(f"{each:.1f}" for each in values)


if __name__ == "__main__":
    sys.exit(main())
