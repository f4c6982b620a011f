"""How often a gate is wrong on recorded noise, through the package's own sampling, records and comparison.

Each pair of traces is measured twice, as `truth.py` measures it: once at a known speedup, with the plan of a
run that makes a baseline, and once more at that speedup times a factor, with the plan of a run that is a gate
and the limit that the baseline leaves. Both starts are random, so that the two runs see different stretches
of the same noise. What compares them is `Gate`, whose surroundings are the same on both sides.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from multiprocessing import Pool
from random import Random
from statistics import fmean

from common import Target, conclude, table
from msgspec.structs import replace
from truth import Trace, pairs, read_arguments, replay

from pytest_gpuperf.analysis.looks import Limit
from pytest_gpuperf.devices.simulated import Clock
from pytest_gpuperf.gate.gate import Gate
from pytest_gpuperf.model.comparison import GateOptions, Outcome, Tolerance
from pytest_gpuperf.model.demand import Demand, RunOptions, SamplingPlan
from pytest_gpuperf.model.record import Environment, Record, Report, Run
from pytest_gpuperf.timing import rounds
from pytest_gpuperf.timing.rounds import RoundSampler, TrialContext

SPEEDUP = 10.0
TOLERANCE = 0.1
UNCHANGED = 1.0
AT_THE_LIMIT = 1 - TOLERANCE
LOST = 0.8
FACTORS = (UNCHANGED, AT_THE_LIMIT, LOST)
SLOW = "bare, 50 ms"
DEMANDS = {"bare": Demand(), "min=3": Demand(min=3), SLOW: Demand()}  # the limit is far from any speedup here
CALLS = {SLOW: 0.05}  # seconds that a call takes on the CPU, where the trace is made longer
MOST_FALSE = 1.0
LEAST_FOUND = 99.0
ASKED = GateOptions(tolerances=(Tolerance(metric="speedup", share=TOLERANCE),))
PLAN = RunOptions(sampling=rounds.for_gate(SamplingPlan(), ASKED))
BASELINE_PLAN = RunOptions(sampling=rounds.for_gate(SamplingPlan(), replace(ASKED, create=True)))
NODEID = "test_it.py::test_it"
HERE = Environment(host={}, cpu={}, gpu=None, gpu_reason=None, python="", packages={})


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One pair of traces under one marker, held against baselines many times at one true change."""

    cpu: Trace
    gpu: Trace
    marker: str
    factor: float
    runs: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How often each outcome was found for one task, in percent, and the mean number of rounds."""

    cpu: str
    gpu: str
    marker: str
    factor: float
    regressed: float
    inconclusive: float
    fine: float
    rounds: float
    baseline_rounds: float


def main() -> int:
    arguments = read_arguments(__doc__, runs=500)
    tasks = [
        Task(cpu=cpu, gpu=gpu, marker=marker, factor=factor, runs=arguments.runs, seed=arguments.seed)
        for (cpu, gpu), marker, factor in product(pairs(arguments.noise), DEMANDS, FACTORS)
    ]
    with Pool(arguments.processes) as pool:
        tallies = pool.map(tally, tasks, chunksize=1)
    print_pairs(tallies, arguments.runs)
    print_factors(tallies)
    return conclude(targets(tallies))


def tally(task: Task) -> Tally:
    """Hold a pair of traces against a baseline of its own `runs` times and count the outcomes."""
    chance = Random(f"{task.seed} {task.cpu.name} {task.gpu.name} {task.marker} {task.factor}")  # noqa: S311 - a simulation
    found: Counter[Outcome] = Counter()
    rounds, baseline_rounds = [], []
    for _ in range(task.runs):
        before, now = compare(task, chance)
        (comparison,) = now.comparisons
        found[comparison.outcome] += 1
        rounds.append(len(now.gpu.samples))
        baseline_rounds.append(len(before.gpu.samples))
    fine = found["not_regressed"] + found["improved"]
    return Tally(
        cpu=task.cpu.name,
        gpu=task.gpu.name,
        marker=task.marker,
        factor=task.factor,
        regressed=100 * found["regressed"] / task.runs,
        inconclusive=100 * found["inconclusive"] / task.runs,
        fine=100 * fine / task.runs,
        rounds=fmean(rounds),
        baseline_rounds=fmean(baseline_rounds),
    )


def compare(task: Task, chance: Random) -> tuple[Record, Record]:
    """Measure a baseline and a later run; return both, the later with its comparisons."""
    before = measure(task, 1.0, (), chance, BASELINE_PLAN)
    base = Report(name="baseline.json", run=Run(environment=HERE, started="", records=(before,)))
    gate = Gate(ASKED, [base], lambda: HERE)
    return before, gate.with_comparisons(measure(task, task.factor, gate.limits(NODEID), chance, PLAN))


def measure(task: Task, factor: float, limits: Sequence[Limit], chance: Random, plan: RunOptions) -> Record:
    """Sample two stretches of noise until that is enough for the demand and the limits."""
    demand, clock = DEMANDS[task.marker], Clock()
    ratio, slower = SPEEDUP * factor, task.cpu.lasting(CALLS.get(task.marker, task.cpu.median))
    cpu, gpu = replay(slower, task.gpu, ratio=ratio, clock=clock, chance=chance)
    context = TrialContext(
        demand=demand,
        options=plan,
        order=chance,
        remaining=lambda: plan.max_time - clock(),
    )
    sampling = RoundSampler(context, limits)
    sampling.take_interleaved(cpu, gpu)
    return Record(
        nodeid=NODEID,
        status="passed" if demand.limits else "recorded",
        reason=None,
        demand=demand,
        scope="call",
        cpu=cpu.measurement,
        gpu=gpu.measurement,
        speedup=sampling.speedup(),
        rounds_elapsed=sampling.seconds,
    )


def print_pairs(tallies: Sequence[Tally], runs: int) -> None:
    print(f"{TOLERANCE:.0%} less than {SPEEDUP:g}x is allowed, {runs} runs for each pair: regressed\n")
    rows = []
    for cpu, gpu in dict.fromkeys((t.cpu, t.gpu) for t in tallies):
        found = [t for t in tallies if (t.cpu, t.gpu) == (cpu, gpu)]
        cells = [f"{t.regressed:.1f} %" for t in found]
        rows.append([f"{cpu} / {gpu}", *cells])
    columns = [f"{marker}, x {factor:g}" for marker, factor in product(DEMANDS, FACTORS)]
    table(["cpu / gpu", *columns], rows)


def print_factors(tallies: Sequence[Tally]) -> None:
    print("all pairs: outcomes, and rounds\n")
    rows = []
    for marker, factor in product(DEMANDS, FACTORS):
        found = [t for t in tallies if (t.marker, t.factor) == (marker, factor)]
        rows.append(
            [
                f"{marker}, x {factor:g}",
                f"{fmean(t.regressed for t in found):.2f} %",
                f"{min(t.regressed for t in found):.1f} %",
                f"{max(t.regressed for t in found):.1f} %",
                f"{fmean(t.inconclusive for t in found):.1f} %",
                f"{max(t.inconclusive for t in found):.1f} %",
                f"{fmean(t.baseline_rounds for t in found):.0f}",
                f"{fmean(t.rounds for t in found):.0f}",
                f"{max(t.rounds for t in found):.0f}",
            ]
        )
    outcomes = ["regressed", "least pair", "most pair", "inconclusive", "worst pair"]
    table(["marker, change", *outcomes, "baseline's rounds", "rounds", "worst pair"], rows)


def targets(tallies: Sequence[Tally]) -> list[Target]:
    found = []
    for marker in DEMANDS:
        shares = {
            factor: [t.regressed for t in tallies if (t.marker, t.factor) == (marker, factor)]
            for factor in FACTORS
        }
        name = f"{marker}: unchanged and failed, worst pair, %"
        found.append(Target(name=name, figure=max(shares[UNCHANGED]), limit=MOST_FALSE))
        name = f"{marker}: 20 % less found, worst pair, %"
        found.append(Target(name=name, figure=min(shares[LOST]), limit=LEAST_FOUND, at_least=True))
    return found


if __name__ == "__main__":
    sys.exit(main())
