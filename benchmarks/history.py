"""How soon `gpuperf history` finds a step, by its size and the noise, and how often one that is not there."""

import sys
from argparse import ArgumentParser
from math import exp, log
from random import Random

from common import Target, conclude, table

from pytest_gpuperf.analysis.changepoint import LEVEL, changes

STEPS = (3, 5, 10, 17, 30)  # percent that a speedup loses
AFTER = (3, 4, 5, 6, 8)  # runs
BEFORE = (8, 12, 30)  # runs
NOISE = (1, 3)  # percent, standard deviation from run to run
LENGTHS = (12, 16, 24, 40)  # runs without a change
PROMISED = {(1, 8, 10, 4), (1, 12, 10, 3)}  # noise, before, step, after
LEAST_FOUND = 90.0  # percent


def main() -> int:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100, help="series for each share (100)")
    runs = parser.parse_args().runs
    targets = []
    rows = []
    for noise in NOISE:
        for before in BEFORE:
            for step in STEPS:
                found = [found_share(noise, before, step, after, runs) for after in AFTER]
                rows.append((f"{noise} %", str(before), f"{step} %", *(f"{share:.0f} %" for share in found)))
                for after, share in zip(AFTER, found, strict=True):
                    if (noise, before, step, after) in PROMISED:
                        name = f"-{step} % found {after} runs after {before}, noise {noise} %: percent"
                        targets.append(Target(name=name, figure=share, limit=LEAST_FOUND, at_least=True))
    table(("noise", "before", "step", *(f"{after} after" for after in AFTER)), rows)
    alarms = {length: false_alarms(length, 10 * runs) for length in LENGTHS}
    limit = 100 * (LEVEL + 3 * (LEVEL / (10 * runs)) ** 0.5)
    targets += [
        Target(name=f"false alarms of {length} runs without a change: percent", figure=share, limit=limit)
        for length, share in alarms.items()
    ]
    return conclude(targets)


def found_share(noise: float, before: int, step: float, after: int, runs: int) -> float:
    """Return the percentage of series in which the step is found, at most one run from its place."""
    found = 0
    for seed in range(runs):
        draws = Random(f"{noise} {before} {step} {after} {seed}")  # noqa: S311 - a simulation
        lost = log(1 - step / 100)
        values = [exp(draws.gauss(0, noise / 100) + lost * (at >= before)) for at in range(before + after)]
        found += any(abs(each.index - before) <= 1 and each.percent < 0 for each in changes(values))
    return 100 * found / runs


def false_alarms(length: int, runs: int) -> float:
    """Return the percentage of series without a change in which one is found."""
    draws = Random(length)  # noqa: S311 - a simulation
    series = ([exp(draws.gauss(0, NOISE[-1] / 100)) for _ in range(length)] for _ in range(runs))
    return 100 * sum(bool(changes(values)) for values in series) / runs


if __name__ == "__main__":
    sys.exit(main())
