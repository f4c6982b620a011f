"""How often a verdict is wrong under noise of a known shape, wide or dependent.

Each side is a simulated device on one clock, whose kernels are slowed down by a process that goes on with the
clock: a pause between two rounds lets it change. The GPU is scaled so that the median of the ratio of both,
found by drawing many independent ratios, is the limit times a factor. What runs is the package's
`RoundSampler`, with its pauses and second measurements, and `verdict.judge`, as in `truth.py`.
"""

import os
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import exp, inf, log, sqrt
from multiprocessing import Pool
from random import Random
from statistics import fmean, median

from common import Target, conclude, table

from pytest_gpuperf.analysis import verdict
from pytest_gpuperf.devices.simulated import Clock, SimulatedDevice
from pytest_gpuperf.model.demand import Demand, Kind, RunOptions, SamplingPlan
from pytest_gpuperf.model.record import Status
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.context import TrialContext
from pytest_gpuperf.timing.rounds import RoundSampler
from pytest_gpuperf.timing.workload import Workload

LIMIT = 10.0
CPU = 10e-3  # seconds a call
ROUND = CPU + CPU / LIMIT
OPTIONS = RunOptions(sampling=SamplingPlan(precision_time=0.0))  # stops at the verdict
DRAWS = 40_000  # of independent ratios, for the true median
SMALL = 0.01  # the noise of a device on which a cell has no other

Process = Callable[[float], float]
"""Returns the log of the factor by which a kernel is slower, so many rounds after it was last asked."""
Shape = Callable[[Random], Process]


def normal(spread: float, chance: Random) -> Process:
    return lambda _: chance.gauss(0, spread)


def lognormal(percent: float, chance: Random) -> Process:
    """A relative standard deviation of so many percent."""
    return normal(sqrt(log(1 + (percent / 100) ** 2)), chance)


def pareto(tail: float, chance: Random) -> Process:
    return lambda _: log(chance.paretovariate(tail))


def two_levels(factor: float, share: float, chance: Random) -> Process:
    """Slower by a factor in a share of the rounds, whatever they were before."""
    return lambda _: (log(factor) if chance.random() < share else 0.0) + chance.gauss(0, SMALL)


def autoregressive(kept: float, spread: float, chance: Random) -> Process:
    """AR(1): so much of the last deviation is kept from round to round."""
    state = chance.gauss(0, spread)

    def step(rounds: float) -> float:
        nonlocal state
        rest: float = kept**rounds
        state = rest * state + sqrt(1 - rest * rest) * chance.gauss(0, spread)
        return state

    return step


def spells(factor: float, rounds_each: float, chance: Random, share: float = 0.4) -> Process:
    """Slower by a factor in a share of the time, in spells of so many rounds on average."""
    rate = (1 + share / (1 - share)) / rounds_each
    slow = chance.random() < share

    def step(rounds: float) -> float:
        nonlocal slow
        slow = chance.random() < share + (slow - share) * exp(-rate * rounds)
        return (log(factor) if slow else 0.0) + chance.gauss(0, SMALL)

    return step


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A shape of noise on either device, at a true ratio; the largest share of wrong verdicts each way."""

    name: str
    cpu: Shape
    gpu: Shape
    factor: float = 1.0
    passed: float = inf
    failed: float = inf


def cells() -> list[Cell]:
    still = partial(normal, SMALL)
    found = []
    for name, shape in {
        "lognormal 20 %": partial(lognormal, 20),
        "lognormal 50 %": partial(lognormal, 50),
        "lognormal 100 %": partial(lognormal, 100),
        "Pareto 1.5": partial(pareto, 1.5),
        "Pareto 0.8": partial(pareto, 0.8),
        "both 2.2x in 50 %": partial(two_levels, 2.2, 0.5),
    }.items():
        found.append(Cell(name=name, cpu=shape, gpu=shape, passed=2.5, failed=2.5))
    for share in (0.2, 0.4):
        shape = partial(two_levels, 2.2, share)
        found.append(Cell(name=f"GPU 2.2x in {share:.0%}", cpu=still, gpu=shape, passed=2.5, failed=2.5))
        found.append(Cell(name=f"CPU 2.2x in {share:.0%}", cpu=shape, gpu=still, passed=2.5, failed=2.5))
    dependent: dict[str, Shape] = {
        "AR(1) 0.9, 3 %": partial(autoregressive, 0.9, 0.03),
        "AR(1) 0.9, 10 %": partial(autoregressive, 0.9, 0.10),
        **{
            f"{factor}x for {rounds} rounds": partial(spells, factor, rounds)
            for factor in (1.1, 1.3)
            for rounds in (5, 20)
        },
    }
    for name, shape in dependent.items():
        for side, cpu, gpu in (("GPU", still, shape), ("CPU", shape, still)):
            at_limit = Cell(name=f"{side} {name}", cpu=cpu, gpu=gpu, passed=10, failed=5)
            above = Cell(name=f"{side} {name}", cpu=cpu, gpu=gpu, factor=1.05, failed=2.5)
            found += [at_limit, above]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How often each verdict was found in a cell, in percent, the mean number of rounds and their seconds."""

    cell: Cell
    passed: float
    failed: float
    rounds: float
    seconds: float


def main() -> int:
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=2000, help="runs for each cell")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="processes to use")
    parser.add_argument("--seed", type=int, default=1, help="of the noise and of the order in rounds")
    arguments = parser.parse_args()
    places = range(len(cells()))  # a process makes the cells anew: shapes are functions
    with Pool(arguments.processes) as pool:
        tallies = pool.map(partial(tally, runs=arguments.runs, seed=arguments.seed), places, chunksize=1)
    rows = [
        [
            found.cell.name,
            f"{found.cell.factor:g}",
            f"{found.passed:.1f} %",
            f"{found.failed:.1f} %",
            f"{found.rounds:.1f}",
            f"{found.seconds:.1f} s",
        ]
        for found in tallies
    ]
    print(f"{arguments.runs} runs for each cell, rounds of {1e3 * ROUND:g} ms\n")
    table(["noise", "ratio / limit", "passed", "failed", "rounds", "time"], rows)
    targets = []
    for found in tallies:
        name = f"{found.cell.name}, x {found.cell.factor:g}"
        if found.cell.passed < inf:
            target = Target(name=f"{name}: passed, %", figure=found.passed, limit=found.cell.passed)
            targets.append(target)
        targets.append(Target(name=f"{name}: failed, %", figure=found.failed, limit=found.cell.failed))
    return conclude(targets)


def tally(place: int, *, runs: int, seed: int) -> Tally:
    """Measure one cell `runs` times and count the verdicts."""
    cell = cells()[place]
    chance = Random(f"{seed} {place}")  # noqa: S311 - a simulation
    noise = true_log_ratio(cell, chance)
    found: Counter[Status] = Counter()
    rounds, seconds = [], []
    for _ in range(runs):
        status, taken, elapsed = compare(cell, noise, chance)
        found[status] += 1
        rounds.append(taken)
        seconds.append(elapsed)
    return Tally(
        cell=cell,
        passed=100 * found["passed"] / runs,
        failed=100 * found["failed"] / runs,
        rounds=fmean(rounds),
        seconds=fmean(seconds),
    )


def true_log_ratio(cell: Cell, chance: Random) -> float:
    """Return the median of the log ratio that the noise alone makes, from samples far apart."""
    cpu, gpu = cell.cpu(chance), cell.gpu(chance)
    return median(cpu(1e6) - gpu(1e6) for _ in range(DRAWS))


def compare(cell: Cell, noise: float, chance: Random) -> tuple[Status, int, float]:
    """Measure one comparison; return the verdict, its rounds, and the time that it took on the clock."""
    clock, demand = Clock(), Demand(min=LIMIT)

    def side(kind: Kind, shape: Shape, seconds: float) -> BlockTimer:
        process, asked = shape(chance), clock()

        def factor() -> float:
            nonlocal asked
            rounds, asked = (clock() - asked) / ROUND, clock()
            return exp(process(rounds))

        device = SimulatedDevice(kind, clock=clock, noise=factor)
        workload = Workload(device=device, call=partial(device.launch, seconds), scope="call")
        return BlockTimer(workload=workload)

    context = TrialContext(
        demand=demand, options=OPTIONS, order=chance, remaining=lambda: OPTIONS.max_time - clock()
    )
    sampling = RoundSampler(context)
    gpu_seconds = CPU * exp(noise) / (LIMIT * cell.factor)
    sampling.take_interleaved(side("cpu", cell.cpu, CPU), side("gpu", cell.gpu, gpu_seconds))
    speedup = sampling.speedup("interleaved")
    assert speedup is not None
    return verdict.judge(speedup, demand, OPTIONS).status, speedup.rounds, clock()


if __name__ == "__main__":
    sys.exit(main())
