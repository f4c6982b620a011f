"""How often a gate is wrong on recorded noise, through the package's own sampling, records and comparison.

Each pair of traces is measured twice, as `truth.py` measures it: once at a known speedup, with the plan of a
run that makes a baseline, and once more at that speedup times a factor, with the plan of a run that is a gate
and the limit that the baseline leaves. Both starts are random, so that the two runs see different stretches
of the same noise. What compares them is `Gate`, whose surroundings are the same on both sides.

With `--by-time` the rows are not markers but lengths of calls and of max_time: from 30 ms a call, which has
all the rounds that it wants, to a second, which has few. A row shows which losses are found.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from multiprocessing import Pool
from random import Random
from statistics import fmean

from common import Target, conclude, table
from msgspec.structs import replace
from truth import Trace, argument_parser, pairs, replay

from pytest_gpuperf.analysis.looks import Limit
from pytest_gpuperf.devices.simulated import Clock
from pytest_gpuperf.gate.gate import Gate
from pytest_gpuperf.model.comparison import GateOptions, Outcome, Tolerance
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.record import Environment, Record, Report, Run
from pytest_gpuperf.model.sampling_constants import SamplingPlan
from pytest_gpuperf.timing import rounds
from pytest_gpuperf.timing.rounds import RoundSampler
from pytest_gpuperf.timing.time_budget import TimeBudget
from pytest_gpuperf.timing.trial_context import TrialContext

TOLERANCE = 0.1
UNCHANGED = 1.0
AT_THE_LIMIT = 1 - TOLERANCE
LOST = 0.8
FACTORS: tuple[float, ...] = (UNCHANGED, AT_THE_LIMIT, LOST)
BY_TIME = (UNCHANGED, AT_THE_LIMIT, 0.85, LOST, 0.7, 0.5)
MOST_FALSE = 1.0
LEAST_FOUND = 99.0
MOST_FALSE_BY_TIME = 0.5
ASKED = GateOptions(tolerances=(Tolerance(metric="speedup", share=TOLERANCE),))
PLAN = RunOptions(sampling=rounds.for_gate(SamplingPlan(), ASKED))
BASELINE_PLAN = RunOptions(sampling=rounds.for_gate(SamplingPlan(), replace(ASKED, create=True)))
SLOW_TIME = 30.0  # seconds that slow calls may take at the default max_time, as options.py has it
NODEID = "test_it.py::test_it"
HERE = Environment(host={}, cpu={}, gpu=None, gpu_reason=None, python="", packages={})


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Tests that are alike: their marker, what a call takes, and the max_time of both runs, in seconds.

    The trace is made longer for a `call` of so many seconds on the CPU; None leaves it as it is. `found` says
    by factor how many losses should be found, in percent, and `fine` how many tests without a change should
    be called so.
    """

    name: str
    demand: Demand = field(default_factory=Demand)
    call: float | None = None
    speedup: float = 10.0
    base_time: float = 10.0
    run_time: float = 10.0
    found: Mapping[float, float] = field(default_factory=dict)
    fine: float = 0.0


MARKERS: tuple[Row, ...] = (
    Row(name="bare"),
    Row(name="min=3", demand=Demand(min=3)),  # the limit is far from any speedup here
    Row(name="bare, 50 ms", call=0.05),
)
TIMES: tuple[Row, ...] = (
    Row(
        name="30 ms, 10 / 10",
        call=0.03,
        speedup=3.0,
        found={0.85: 95, 0.8: 100, 0.7: 100, 0.5: 100},
        fine=100,
    ),
    Row(name="30 ms, 10 / 3", call=0.03, speedup=3.0, run_time=3.0, found={0.7: 90, 0.5: 100}, fine=90),
    Row(
        name="30 ms, 7 / 7",
        call=0.03,
        speedup=3.0,
        base_time=7.0,
        run_time=7.0,
        found={0.7: 98, 0.5: 100},
        fine=95,
    ),
    Row(name="0.6 / 0.2 s, 10 / 10", call=0.6, speedup=3.0, found={0.8: 25, 0.7: 80, 0.5: 98}, fine=35),
    Row(
        name="1 / 0.33 s, 36 / 36",
        call=1.0,
        speedup=3.0,
        base_time=36.0,
        run_time=36.0,
        found={0.7: 60, 0.5: 98},
        fine=10,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One pair of traces in one row, held against baselines many times at one true change."""

    cpu: Trace
    gpu: Trace
    row: Row
    factor: float
    runs: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How often each outcome was found for one task, in percent, and the mean number of rounds."""

    cpu: str
    gpu: str
    row: str
    factor: float
    regressed: float
    inconclusive: float
    fine: float
    rounds: float
    baseline_rounds: float


def main() -> int:
    parser = argument_parser(__doc__, runs=500)
    parser.add_argument(
        "--by-time",
        type=int,
        nargs="?",
        const=100,
        metavar="TESTS",
        help="instead of markers: calls and max_time of several lengths, so many tests of each (100)",
    )
    arguments = parser.parse_args()
    traces = pairs(arguments.noise)
    rows, factors, runs = MARKERS, FACTORS, arguments.runs
    if arguments.by_time:
        rows, factors, runs = TIMES, BY_TIME, -(-arguments.by_time // len(traces))
    tasks = [
        Task(cpu=cpu, gpu=gpu, row=row, factor=factor, runs=runs, seed=arguments.seed)
        for row, factor, (cpu, gpu) in product(rows, factors, traces)
    ]
    with Pool(arguments.processes) as pool:
        tallies = pool.map(tally, tasks, chunksize=1)
    if arguments.by_time:
        print_times(tallies, runs * len(traces))
        return conclude(list(targets_by_time(tallies)))
    print_pairs(tallies, runs)
    print_factors(tallies)
    return conclude(targets(tallies))


def tally(task: Task) -> Tally:
    """Hold a pair of traces against a baseline of its own `runs` times and count the outcomes."""
    chance = Random(f"{task.seed} {task.cpu.name} {task.gpu.name} {task.row.name} {task.factor}")  # noqa: S311 - a simulation
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
        row=task.row.name,
        factor=task.factor,
        regressed=100 * found["regressed"] / task.runs,
        inconclusive=100 * found["inconclusive"] / task.runs,
        fine=100 * fine / task.runs,
        rounds=fmean(rounds),
        baseline_rounds=fmean(baseline_rounds),
    )


def compare(task: Task, chance: Random) -> tuple[Record, Record]:
    """Measure a baseline and a later run; return both, the later with its comparisons."""
    base_plan = with_time(BASELINE_PLAN, task.row.base_time)
    before = measure(task, 1.0, (), chance, base_plan)
    base = Report(name="baseline.json", run=Run(environment=HERE, started="", records=(before,)))
    gate = Gate(ASKED, [base], lambda: HERE)
    plan = with_time(PLAN, task.row.run_time)
    return before, gate.with_comparisons(measure(task, task.factor, gate.limits(NODEID), chance, plan))


def with_time(plan: RunOptions, max_time: float) -> RunOptions:
    """Return a plan with a time limit; the default one leaves slow calls more."""
    if max_time == plan.max_time:
        return replace(plan, sampling=replace(plan.sampling, slow_time=SLOW_TIME))
    return replace(plan, max_time=max_time)


def measure(task: Task, factor: float, limits: Sequence[Limit], chance: Random, plan: RunOptions) -> Record:
    """Sample two stretches of noise until that is enough for the demand and the limits."""
    row, clock = task.row, Clock()
    demand, ratio = row.demand, row.speedup * factor
    slower = task.cpu.lasting(task.cpu.median if row.call is None else row.call)
    cpu, gpu = replay(slower, task.gpu, ratio=ratio, clock=clock, chance=chance)
    call = task.cpu.median if row.call is None else row.call
    cpu.calls.note_time(call)  # as warm-up does, before the first round
    gpu.calls.note_time(call / ratio)
    budget = TimeBudget(plan.max_time)
    budget.start(clock)
    context = TrialContext(
        demand=demand, options=plan, order=chance, remaining=budget.remaining, extend=budget.extend
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
        speedup=sampling.rounds.speedup(),
        rounds_elapsed=sampling.rounds.seconds,
    )


def print_pairs(tallies: Sequence[Tally], runs: int) -> None:
    allowed = f"{TOLERANCE:.0%} less than {MARKERS[0].speedup:g}x is allowed"
    print(f"{allowed}, {runs} runs for each pair: regressed\n")
    rows = []
    for cpu, gpu in dict.fromkeys((t.cpu, t.gpu) for t in tallies):
        found = [t for t in tallies if (t.cpu, t.gpu) == (cpu, gpu)]
        cells = [f"{t.regressed:.1f} %" for t in found]
        rows.append([f"{cpu} / {gpu}", *cells])
    columns = [f"{marker}, x {factor:g}" for marker, factor in product(names(MARKERS), FACTORS)]
    table(["cpu / gpu", *columns], rows)


def print_factors(tallies: Sequence[Tally]) -> None:
    print("all pairs: outcomes, and rounds\n")
    rows = []
    for marker, factor in product(names(MARKERS), FACTORS):
        found = of(tallies, marker, factor)
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


def print_times(tallies: Sequence[Tally], tests: int) -> None:
    print(f"{100 * TOLERANCE:.0f} % less is allowed, {tests} tests of each row and change; percent of them:")
    print("not regressed without a change (fine), and regressed by what was lost\n")
    rows = []
    for row in TIMES:
        unchanged = of(tallies, row.name, UNCHANGED)
        rounds = [fmean(t.baseline_rounds for t in unchanged), fmean(t.rounds for t in unchanged)]
        fine = fmean(t.fine for t in unchanged)
        lost = [fmean(t.regressed for t in of(tallies, row.name, factor)) for factor in BY_TIME]
        rows.append(
            [
                row.name,
                " / ".join(f"{each:.0f}" for each in rounds),
                *(f"{each:.0f}" for each in (fine, *lost)),
            ]
        )
    table(["calls, max_time", "rounds", "fine", *(f"{100 * (1 - factor):.0f} %" for factor in BY_TIME)], rows)


def targets(tallies: Sequence[Tally]) -> list[Target]:
    found = []
    for marker in names(MARKERS):
        shares = {factor: [t.regressed for t in of(tallies, marker, factor)] for factor in FACTORS}
        name = f"{marker}: unchanged and failed, worst pair, %"
        found.append(Target(name=name, figure=max(shares[UNCHANGED]), limit=MOST_FALSE))
        name = f"{marker}: 20 % less found, worst pair, %"
        found.append(Target(name=name, figure=min(shares[LOST]), limit=LEAST_FOUND, at_least=True))
    return found


def targets_by_time(tallies: Sequence[Tally]) -> Iterator[Target]:
    for row in TIMES:
        unchanged = of(tallies, row.name, UNCHANGED)
        failed, fine = fmean(t.regressed for t in unchanged), fmean(t.fine for t in unchanged)
        yield Target(name=f"{row.name}: unchanged and failed, %", figure=failed, limit=MOST_FALSE_BY_TIME)
        yield Target(
            name=f"{row.name}: unchanged and called so, %", figure=fine, limit=row.fine, at_least=True
        )
        for factor, least in row.found.items():
            found = fmean(t.regressed for t in of(tallies, row.name, factor))
            name = f"{row.name}: {100 * (1 - factor):.0f} % less found, %"
            yield Target(name=name, figure=found, limit=least, at_least=True)


def names(rows: Sequence[Row]) -> list[str]:
    return [row.name for row in rows]


def of(tallies: Sequence[Tally], row: str, factor: float) -> list[Tally]:
    """Return the tallies of all pairs in a row at one true change."""
    return [t for t in tallies if (t.row, t.factor) == (row, factor)]


if __name__ == "__main__":
    sys.exit(main())
