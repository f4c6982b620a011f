"""How often a verdict is wrong under noise of a known shape, wide or dependent.

Each side is a simulated device on one clock, whose kernels are slowed down by a process that goes on with the
clock: a wait between two rounds lets it change. The GPU is scaled so that the median of the ratio of both,
found by drawing many independent ratios, is the limit times a factor. What runs is the package's
`RoundSampler`, with its looks and waits, and `verdict.judge`, as in `truth.py`. Under noise
that lasts for some rounds, a gate compares two runs of the same speed, too, as in `gate.py`.
"""

import os
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import exp, inf, log, sqrt
from multiprocessing import Pool
from random import Random
from statistics import fmean, median

import gate
from common import Target, conclude, table

from pytest_gpuperf.analysis import verdict
from pytest_gpuperf.analysis.looks import Limit
from pytest_gpuperf.devices.simulated import Clock, SimulatedDevice
from pytest_gpuperf.gate.gate import Gate
from pytest_gpuperf.model.demand import Demand, Kind, RunOptions
from pytest_gpuperf.model.record import Record, Report, Run, Status
from pytest_gpuperf.model.sampling_constants import SamplingPlan
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.rounds import RoundSampler
from pytest_gpuperf.timing.taken_rounds import TakenRounds
from pytest_gpuperf.timing.trial_context import TrialContext
from pytest_gpuperf.work.workload import Workload

LIMIT = 10.0
CPU = 10e-3  # seconds a call
SLOW = (50e-3, 80e-3)  # of which a test has time for fewer than 150 rounds
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
    """A shape of noise on either device, at a true ratio; the largest share of wrong verdicts each way.

    `missed` is the largest share of runs, of a limit and of a bare marker, whose certain interval lacks the
    true ratio, and `regressed` that of gates which find a loss where nothing changed; where the speedup did
    `change`, it is the least share of those which find it.
    """

    name: str
    cpu: Shape
    gpu: Shape
    factor: float = 1.0
    seconds: float = CPU
    passed: float = inf
    failed: float = inf
    missed: float = inf
    regressed: float = inf
    change: float = 1.0


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
        "stalls of 1000x in 0.2 %": partial(two_levels, 1000, 0.002),
        "stalls of 1000x in 2 %": partial(two_levels, 1000, 0.02),
    }.items():
        found.append(Cell(name=name, cpu=shape, gpu=shape, passed=2.5, failed=2.5, missed=5))
    for share in (0.2, 0.4):
        shape = partial(two_levels, 2.2, share)
        for side, cpu, gpu in (("GPU", still, shape), ("CPU", shape, still)):
            name = f"{side} 2.2x in {share:.0%}"
            found.append(Cell(name=name, cpu=cpu, gpu=gpu, passed=2.5, failed=2.5, missed=5))
    ten = partial(lognormal, 10)
    found.append(Cell(name="lognormal 10 %, 20 % lost", cpu=ten, gpu=ten, change=0.8, regressed=60))
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
            at_limit = Cell(name=f"{side} {name}", cpu=cpu, gpu=gpu, passed=10, failed=5, regressed=1)
            above = Cell(name=f"{side} {name}", cpu=cpu, gpu=gpu, factor=1.05, failed=2.5)
            found += [at_limit, above]
            if name in ("AR(1) 0.9, 3 %", "AR(1) 0.9, 10 %", "1.3x for 20 rounds"):
                # A spell may last as long as the first looks.
                passed = inf if "rounds" in name else 10
                slow = replace(at_limit, passed=passed, regressed=inf)
                found += [replace(slow, seconds=seconds) for seconds in SLOW]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How often each verdict was found in a cell, in percent, the mean number of rounds and their seconds."""

    cell: Cell
    passed: float
    failed: float
    missed: float
    missed_bare: float
    regressed: float
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
            f"{1e3 * round_time(found.cell):g} ms",
            f"{found.cell.factor:g}",
            f"{found.passed:.1f} %",
            f"{found.failed:.1f} %",
            f"{found.missed:.1f} %",
            f"{found.missed_bare:.1f} %",
            f"{found.regressed:.1f} %" if found.cell.regressed < inf else "",
            f"{found.rounds:.1f}",
            f"{found.seconds:.1f} s",
        ]
        for found in tallies
    ]
    print(f"{arguments.runs} runs for each cell\n")
    columns = [
        "noise",
        "round",
        "ratio / limit",
        "passed",
        "failed",
        "missed",
        "bare missed",
        "regressed",
        "rounds",
        "time",
    ]
    table(columns, rows)
    targets = []
    for found in tallies:
        cell = found.cell
        limited = {
            "passed": (found.passed, cell.passed),
            "failed": (found.failed, cell.failed),
            "interval of a limit misses": (found.missed, cell.missed),
            "interval of a bare marker misses": (found.missed_bare, cell.missed),
            "gate finds a loss": (found.regressed, cell.regressed),
        }
        targets += [
            Target(
                name=f"{cell.name}, {1e3 * cell.seconds:g} ms, x {cell.factor:g}: {what}, %",
                figure=figure,
                limit=limit,
                at_least=what == "gate finds a loss" and cell.change < 1,
            )
            for what, (figure, limit) in limited.items()
            if limit < inf
        ]
    return conclude(targets)


def tally(place: int, *, runs: int, seed: int) -> Tally:
    """Measure one cell `runs` times and count the verdicts."""
    cell = cells()[place]
    chance = Random(f"{seed} {place}")  # noqa: S311 - a simulation
    noise = true_log_ratio(cell, chance)
    found: Counter[Status] = Counter()
    missed: Counter[str] = Counter()
    rounds, seconds = [], []
    for _ in range(runs):
        demand = Demand(min=LIMIT)
        sampling, elapsed = measure(cell, noise, chance, demand)
        speedup = sampling.speedup()
        found[verdict.judge(speedup, demand, sampling.sampled.look).status] += 1
        rounds.append(speedup.rounds)
        seconds.append(elapsed)
        missed["limit"] += misses(cell, sampling)
        if cell.missed < inf:
            missed["bare"] += misses(cell, measure(cell, noise, chance, Demand())[0])
        if cell.regressed < inf:
            missed["gate"] += finds_a_loss(cell, noise, chance)
    return Tally(
        cell=cell,
        passed=100 * found["passed"] / runs,
        failed=100 * found["failed"] / runs,
        missed=100 * missed["limit"] / runs,
        missed_bare=100 * missed["bare"] / runs,
        regressed=100 * missed["gate"] / runs,
        rounds=fmean(rounds),
        seconds=fmean(seconds),
    )


def true_log_ratio(cell: Cell, chance: Random) -> float:
    """Return the median of the log ratio that the noise alone makes, from samples far apart."""
    cpu, gpu = cell.cpu(chance), cell.gpu(chance)
    return median(cpu(1e6) - gpu(1e6) for _ in range(DRAWS))


def round_time(cell: Cell) -> float:
    """Return the seconds of a round without noise."""
    return cell.seconds * (1 + 1 / LIMIT)


def misses(cell: Cell, sampling: TakenRounds) -> bool:
    """Return whether what is certain does not hold the true ratio."""
    certain = sampling.speedup().certain
    return not (certain.low or 0.0) <= LIMIT * cell.factor <= (certain.high or inf)


def finds_a_loss(cell: Cell, noise: float, chance: Random) -> bool:
    """Return whether a gate fails a run against the baseline of another, of the same speed or changed."""
    before = record(measure(cell, noise, chance, Demand(), gate.BASELINE_PLAN)[0])
    base = Report(name="baseline.json", run=Run(environment=gate.HERE, started="", records=(before,)))
    held = Gate(gate.ASKED, [base], lambda: gate.HERE)
    later = replace(cell, factor=cell.factor * cell.change)
    now = measure(later, noise, chance, Demand(), gate.PLAN, held.limits(gate.NODEID))[0]
    (comparison,) = held.with_comparisons(record(now)).comparisons
    return comparison.outcome == "regressed"


def record(sampling: TakenRounds) -> Record:
    """Return the record of a bare marker's rounds."""
    return Record(
        nodeid=gate.NODEID,
        status="recorded",
        reason=None,
        demand=Demand(),
        speedup=sampling.speedup(),
        rounds_elapsed=sampling.seconds,
    )


def measure(
    cell: Cell,
    noise: float,
    chance: Random,
    demand: Demand,
    options: RunOptions = OPTIONS,
    limits: Sequence[Limit] = (),
) -> tuple[TakenRounds, float]:
    """Measure one comparison; return its rounds and the time that it took on the clock."""
    clock = Clock()

    def side(kind: Kind, shape: Shape, seconds: float) -> BlockTimer:
        process, asked = shape(chance), clock()

        def factor() -> float:
            nonlocal asked
            rounds, asked = (clock() - asked) / round_time(cell), clock()
            return exp(process(rounds))

        device = SimulatedDevice(kind, clock=clock, noise=factor)
        workload = Workload(device=device, call=partial(device.launch, seconds), scope="call")
        return BlockTimer(workload=workload)

    context = TrialContext(
        demand=demand, options=options, order=chance, remaining=lambda: options.max_time - clock()
    )
    sampling = RoundSampler(context, limits)
    gpu_seconds = cell.seconds * exp(noise) / (LIMIT * cell.factor)
    sampling.take_interleaved(side("cpu", cell.cpu, cell.seconds), side("gpu", cell.gpu, gpu_seconds))
    return sampling.rounds, clock()


if __name__ == "__main__":
    sys.exit(main())
