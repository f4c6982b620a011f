"""How often a verdict is wrong on recorded noise, through the package's own sampling and deciding.

Each side is a simulated device on one clock whose blocks take consecutive values of a trace, from a random
start; the GPU's are scaled so that the ratio of the traces' medians is the limit times a factor. What runs is
the package's `RoundSampler` of two workloads, one call a block, and `verdict.judge`. Left out are first call,
warm-up, check, copies and latency: on a known clock there is nothing to warm up.
"""

import csv
import os
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, islice, permutations
from math import inf
from multiprocessing import Pool
from pathlib import Path
from random import Random
from statistics import fmean, median

from common import Target, conclude, table

from pytest_gpuperf.analysis import verdict
from pytest_gpuperf.devices.simulated import Clock, SimulatedDevice
from pytest_gpuperf.model.demand import Demand, Kind, RunOptions
from pytest_gpuperf.model.measurement import Speedup
from pytest_gpuperf.model.record import Status
from pytest_gpuperf.model.sampling_constants import SamplingPlan
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.rounds import RoundSampler
from pytest_gpuperf.timing.trial_context import TrialContext
from pytest_gpuperf.work.workload import Workload

LIMIT = 3.0
AT_THE_LIMIT = 1.0
REGRESSED = 0.9
FACTORS = (3.0, 2.0, 1.3, 1.1, 1.05, 1.02, REGRESSED)
MOST_WRONG = 2.5  # at the limit itself
LEAST_FOUND = 99.0
CLEAR = FACTORS[0]
WIDEST, WIDEST_PRECISE = 1.4, 1.15  # high / low of a clear case, at its verdict and after the precision time
TO_PRECISION = RunOptions()
# Stops when it is certain, so that its rounds can be counted.
TO_VERDICT = RunOptions(sampling=SamplingPlan(precision_time=0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Consecutive block times of one workload, in seconds."""

    name: str
    times: tuple[float, ...]
    median: float

    def lasting(self, seconds: float) -> "Trace":
        """Return the same noise of calls that take so many seconds."""
        scale = seconds / self.median
        return replace(self, times=tuple(scale * each for each in self.times), median=seconds)

    def stretch(self, start: int, scale: float) -> Iterator[float]:
        """Yield its times from a place on, scaled, and from its beginning again after its end."""
        return (scale * seconds for seconds in islice(cycle(self.times), start, None))


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One pair of traces, compared many times at one true ratio."""

    cpu: Trace
    gpu: Trace
    factor: float
    plan: RunOptions
    runs: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How often each verdict was found for one task, in percent, and the mean number of rounds.

    `width` is the median of the range's upper end over its lower one.
    """

    cpu: str
    gpu: str
    factor: float
    passed: float
    failed: float
    inconclusive: float
    rounds: float
    width: float

    @property
    def wrong(self) -> float:
        """The share of verdicts on the wrong side of the limit; at the limit both sides are."""
        if self.factor == AT_THE_LIMIT:
            return self.passed + self.failed
        return self.failed if self.factor > 1 else self.passed


def main() -> int:
    arguments = argument_parser(__doc__, runs=1000).parse_args()
    tasks = [
        Task(
            cpu=cpu,
            gpu=gpu,
            factor=factor,
            plan=TO_PRECISION if factor == AT_THE_LIMIT else TO_VERDICT,
            runs=arguments.runs,
            seed=arguments.seed,
        )
        for cpu, gpu in pairs(arguments.noise)
        for factor in (AT_THE_LIMIT, *FACTORS)
    ]
    precise = [replace(task, plan=TO_PRECISION) for task in tasks if task.factor == CLEAR]
    with Pool(arguments.processes) as pool:
        tallies = pool.map(tally, tasks, chunksize=1)
        clear = pool.map(tally, precise, chunksize=1)
    print_pairs([found for found in tallies if found.factor == AT_THE_LIMIT], arguments.runs)
    print_factors(tallies)
    return conclude([*targets(tallies), *widths(tallies, clear)])


def argument_parser(told: str, *, runs: int) -> ArgumentParser:
    """Return a parser of what is read and how often it is run; `told` is the docstring of the script."""
    parser = ArgumentParser(description=told.partition("\n")[0])
    parser.add_argument(
        "--noise", type=Path, required=True, metavar="DIR", help="folder of CSV files with seconds_per_call"
    )
    parser.add_argument("--runs", type=int, default=runs, help="runs for each pair under each condition")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="processes to use")
    parser.add_argument("--seed", type=int, default=1, help="of the starts and of the order in rounds")
    return parser


def pairs(folder: Path) -> list[tuple[Trace, Trace]]:
    """Return every trace of a folder beside every other one, either as the CPU's."""
    traces = [read(path) for path in sorted(folder.glob("*.csv"))]
    if len(traces) < 2:
        raise SystemExit(f"{folder}: two traces or more are needed, as CSV files")
    return list(permutations(traces, 2))


def read(path: Path) -> Trace:
    with path.open(newline="", encoding="utf-8") as file:
        times = tuple(float(row["seconds_per_call"]) for row in csv.DictReader(file))
    return Trace(name=path.stem, times=times, median=median(times))


def tally(task: Task) -> Tally:
    """Compare a pair of traces `runs` times and count the verdicts."""
    chance = Random(f"{task.seed} {task.cpu.name} {task.gpu.name} {task.factor}")  # noqa: S311 - a simulation
    found: Counter[Status] = Counter()
    rounds, widths = [], []
    for _ in range(task.runs):
        status, speedup = compare(task, chance)
        found[status] += 1
        rounds.append(speedup.rounds)
        widths.append(speedup.estimate.upper / speedup.estimate.lower if speedup.low else inf)
    return Tally(
        cpu=task.cpu.name,
        gpu=task.gpu.name,
        factor=task.factor,
        passed=100 * found["passed"] / task.runs,
        failed=100 * found["failed"] / task.runs,
        inconclusive=100 * found["inconclusive"] / task.runs,
        rounds=fmean(rounds),
        width=median(widths),
    )


def compare(task: Task, chance: Random) -> tuple[Status, Speedup]:
    """Measure one comparison on two stretches of noise; return the verdict and the speedup."""
    demand, clock = Demand(min=LIMIT), Clock()
    ratio = LIMIT * task.factor
    cpu, gpu = replay(task.cpu, task.gpu, ratio=ratio, clock=clock, chance=chance)
    context = TrialContext(
        demand=demand,
        options=task.plan,
        order=chance,
        remaining=lambda: task.plan.max_time - clock(),
    )
    sampling = RoundSampler(context)
    sampling.take_interleaved(cpu, gpu)
    speedup = sampling.rounds.speedup()
    assert speedup is not None
    return verdict.judge(speedup, demand, sampling.rounds.sampled.look).status, speedup


def replay(
    cpu: Trace, gpu: Trace, *, ratio: float, clock: Clock, chance: Random
) -> tuple[BlockTimer, BlockTimer]:
    """Return timers of workloads whose blocks take the traces' times, each from a random start.

    The GPU's are scaled so that the ratio of the medians is `ratio`. A wait takes no time off a trace: its
    neighbours stay neighbours.
    """

    def side(kind: Kind, trace: Trace, scale: float) -> BlockTimer:
        start = chance.randrange(len(trace.times))
        device = SimulatedDevice(kind, clock=clock, noise=trace.stretch(start, scale).__next__)
        workload = Workload(device=device, call=partial(device.launch, 1.0), scope="call")
        return BlockTimer(workload=workload)

    return side("cpu", cpu, 1.0), side("gpu", gpu, cpu.median / (gpu.median * ratio))


def print_pairs(tallies: Sequence[Tally], runs: int) -> None:
    print(f"at the limit itself, {runs} runs for each pair: wrong verdicts\n")
    rows = [
        [f"{t.cpu} / {t.gpu}", f"{t.passed:.1f} %", f"{t.failed:.1f} %", f"{t.rounds:.1f}"] for t in tallies
    ]
    means = (f"{fmean(t.passed for t in tallies):.2f} %", f"{fmean(t.failed for t in tallies):.2f} %")
    table(["cpu / gpu", "passed", "failed", "rounds"], [*rows, ["mean", *means, ""]])


def print_factors(tallies: Sequence[Tally]) -> None:
    print("away from the limit, all pairs, stopped at the verdict\n")
    rows = []
    for factor in FACTORS:
        found = [t for t in tallies if t.factor == factor]
        rows.append(
            [
                f"{factor:g}",
                f"{fmean(t.wrong for t in found):.2f} %",
                f"{max(t.wrong for t in found):.1f} %",
                f"{fmean(t.inconclusive for t in found):.1f} %",
                f"{fmean(t.rounds for t in found):.1f}",
                f"{max(t.rounds for t in found):.1f}",
            ]
        )
    header = ["ratio / limit", "wrong", "worst pair", "inconclusive", "rounds to verdict", "worst pair"]
    table(header, rows)


def targets(tallies: Sequence[Tally]) -> list[Target]:
    at_the_limit = [t for t in tallies if t.factor == AT_THE_LIMIT]
    found = min(t.failed for t in tallies if t.factor == REGRESSED)
    passed, failed = max(t.passed for t in at_the_limit), max(t.failed for t in at_the_limit)
    return [
        Target(name="wrongly passed, worst pair, %", figure=passed, limit=MOST_WRONG),
        Target(name="wrongly failed, worst pair, %", figure=failed, limit=MOST_WRONG),
        Target(name="10 % regressions found, worst pair, %", figure=found, limit=LEAST_FOUND, at_least=True),
    ]


def widths(tallies: Sequence[Tally], clear: Sequence[Tally]) -> list[Target]:
    at_verdict = median(t.width for t in tallies if t.factor == CLEAR)
    return [
        Target(name="high / low of a clear case, at its verdict", figure=at_verdict, limit=WIDEST),
        Target(
            name="the same, after the precision time",
            figure=median(t.width for t in clear),
            limit=WIDEST_PRECISE,
        ),
    ]


if __name__ == "__main__":
    sys.exit(main())
