"""Scaling tests with `ranks`: how often a verdict is wrong, and whether a time is that of a loop by hand.

The verdicts are those of simulated ranks, which begin at different moments; one of them may be slower, or all
may be slower after a turn of rank 0 alone. They need no processes. The loop is of torch.distributed, with
gloo on the CPU, under torchrun: it needs torch. In one of its kinds rank 0 works alone before each call of
both, as in rounds; in the other neither waits for a turn. Its numbers say nothing about GPUs: both ranks
share the processors of this machine. The suite is one of 40 ordinary tests: plain, under torchrun, and under
mpiexec.
"""

import json
import multiprocessing
import os
import shutil
import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache, partial
from itertools import product
from math import exp, sqrt
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from common import ALONE, Pairs, Target, conclude, run, table

from pytest_gpuperf.analysis.scaling import with_required_speedup
from pytest_gpuperf.devices.simulated import Clock, SimulatedDevice
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.launch import Launch
from pytest_gpuperf.model.scaling import Scaling
from pytest_gpuperf.session.ranks import group
from pytest_gpuperf.session.ranks.group import MeasuredRanks, joint_bind
from pytest_gpuperf.session.ranks.roles import JointCalls
from pytest_gpuperf.timing.scaling_question import ScalingQuestion
from pytest_gpuperf.timing.trial import Trial

RESULTS = Path(__file__).parent / "results" / "ranks.json"
WORK = 40e-3  # seconds of the whole problem on one rank
DRAWS = 400_000  # of the rounds from which the truth is taken
COLD = 1.2  # as two ranks with gloo
NEAR = 0.02  # just below and above the limit
WRONG = 0.025  # at most, a side
APART = 0.05  # at most, of a loop by hand


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Ranks whose blocks are off by `spread` each, the last of them slower by `straggler`.

    Without a `skew` all begin a block at one moment, and each ends it by itself. With one each begins later
    by so many seconds on average, exponentially, and all end at one moment, as after an exchange. A
    block of several ranks takes `cold` times as long after one of rank 0 alone. The limit is the true
    efficiency, of loops, over `factor`.
    """

    ranks: int
    spread: float
    straggler: float
    skew: float
    factor: float
    cold: float = 1.0

    def seconds(self, count: int) -> float:
        """Return the seconds of a call without noise: they share the work."""
        return WORK / count


class SimulatedRanks:
    """The others of a launch, which answer at once; `noise` is the factor of rank 0's time in a block."""

    def __init__(self, world: World, chance: Random) -> None:
        self.noise, self.calls = 1.0, JointCalls()
        self._world = world
        self._chance = chance
        self._answers: dict[str, list[dict[str, Any]]] = {}
        self._worked = 0  # ranks in the last block

    def tell(self, message: dict[str, Any], below: int) -> None:
        """Take what rank 0 says; before a block each rank's time in it is drawn."""
        self._answers["done"] = [{"worked": True, "compiled": 0, "inputs": 8}] * (below - 1)
        self._answers["ready"] = [{}] * (below - 1)
        if message["do"] == "block":
            begun, took = self._block(below, message["calls"] * self._world.seconds(below))
            self.noise = took[0] / (message["calls"] * self._world.seconds(below))
            self._answers["took"] = [
                {"took": lasted, "started": start, "compiled": 0}
                for start, lasted in zip(begun[1:], took[1:], strict=True)
            ]

    def require(self, below: int) -> None:
        """Raise nothing: none of the others ends a test."""

    def hear(self, what: str, below: int) -> list[dict[str, Any]]:  # noqa: ARG002 - as a launch is asked
        """Return the answers of the others, of a call that none of them fails."""
        if what == "took":
            self.noise = 1.0
        return self._answers[what]

    def _block(self, count: int, seconds: float) -> tuple[list[float], list[float]]:
        """Return when each rank begins a block, and how long that lasts for it."""
        world, chance = self._world, self._chance
        if 1 == self._worked < count:
            seconds *= world.cold
        self._worked = count
        begun = [chance.expovariate(1 / world.skew) if world.skew else 0.0 for _ in range(count)]
        begun = [start - min(begun) for start in begun]
        alone = [seconds * exp(chance.gauss(0, world.spread)) for _ in range(count)]
        if count > 1:
            alone[-1] *= world.straggler
        if not world.skew:
            return begun, alone
        end = max(start + lasts for start, lasts in zip(begun, alone, strict=True))
        return begun, [end - start for start in begun]


def verdict(world: World, seed: str) -> tuple[str, float]:
    """Return the verdict of a test, and the efficiency that it found."""
    chance, clock, counts = Random(seed), Clock(), (1, world.ranks)  # noqa: S311 - a simulation
    others = SimulatedRanks(world, chance)
    device = SimulatedDevice("gpu", clock=clock, noise=lambda: others.noise)
    launch = Launch(launcher="torchrun", ranks=world.ranks, nodes=1)
    groups = [MeasuredRanks(device, others, launch, count) for count in counts]  # type: ignore[arg-type]
    limit = truth_of(world.ranks, world.spread, world.straggler) / world.factor
    asked = Scaling(name="it", mode="strong", count=world.ranks, counts=counts, required=limit)
    trial = Trial(
        nodeid=f"test_{seed}",
        demand=with_required_speedup(Demand(check=False), asked),
        question=ScalingQuestion(asked),
        options=RunOptions(),
    )

    def body(group: Any) -> Callable[[], None]:
        return lambda: device.launch(world.seconds(group.count))

    ended = trial.compare(joint_bind(lambda group: partial(body, group)), *groups)
    record = trial.record(ended)
    found = record.scaling.efficiency if record.scaling else None
    return record.status, found.value if found else 0.0


@cache
def truth_of(ranks: int, spread: float, straggler: float) -> float:
    """Return the median efficiency of rounds that all ranks begin at one moment, for the same work."""
    chance = np.random.default_rng(0)
    draws = np.exp(spread * chance.standard_normal((ranks + 1, DRAWS)))
    draws[-1] *= straggler
    return float(np.median(draws[0] / draws[1:].max(axis=0)))


def worlds() -> Iterator[World]:
    """Yield ranks with an efficiency just below, at, and just above the limit."""
    of_each = product((2, 4), (0.02, 0.1), (1.0, 1.3), (0.0, 50e-6), (1 - NEAR, 1.0, 1 + NEAR))
    for ranks, spread, straggler, skew, factor in of_each:
        yield World(ranks=ranks, spread=spread, straggler=straggler, skew=skew, factor=factor)
    for ranks, factor in product((2, 4), (1 - NEAR, 1.0, 1 + NEAR)):
        yield World(ranks=ranks, spread=0.02, straggler=1.0, skew=0.0, factor=factor, cold=COLD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the runs of a world found: how many ended so, and the median efficiency over the true one."""

    world: World
    runs: int
    passed: int
    failed: int
    inconclusive: int
    value: float


def runs_of(world: World, runs: int, seed: int) -> Found:
    """Judge a world so many times."""
    group._LEAD = 0.0  # noqa: SLF001 - nobody has to be waited for
    ended = [verdict(world, f"{seed} {world} {number}") for number in range(runs)]
    statuses = Counter(status for status, _ in ended)
    if others := statuses.keys() - {"passed", "failed", "inconclusive"}:
        raise RuntimeError(f"{world} is {others}")
    value = median(value for _, value in ended) / truth_of(world.ranks, world.spread, world.straggler)
    return Found(
        world=world,
        runs=runs,
        passed=statuses["passed"],
        failed=statuses["failed"],
        inconclusive=statuses["inconclusive"],
        value=value,
    )


def wilson(count: int, runs: int) -> tuple[float, float]:
    """Return the Wilson interval of a share at 95 %."""
    share, square = count / runs, 1.96**2 / runs
    middle, half = share + square / 2, sqrt(square * share * (1 - share) + square**2 / 4)
    return max(0.0, (middle - half) / (1 + square)), min(1.0, (middle + half) / (1 + square))


def verdicts(arguments: Namespace) -> tuple[dict[str, Any], list[Target]]:
    """Return the share of wrong verdicts: at the limit, just below it and just above it."""
    measure = partial(runs_of, runs=arguments.runs, seed=arguments.seed)
    with multiprocessing.get_context("fork").Pool(arguments.processes) as pool:
        found = pool.map(measure, list(worlds()), chunksize=1)
    print(f"verdicts on an efficiency, {arguments.runs} runs each\n")
    table(
        ["ranks, noise, straggler, skew, cold, efficiency / limit", *SHARES, "value / truth"],
        [*map(row, found)],
    )
    wrong = {
        f"wrongly {status} {where}": wrong_of([each for each in found if each.world.factor == factor], status)
        for status, where, factor in (
            ("passed", "at the limit", 1.0),
            ("failed", "at the limit", 1.0),
            ("passed", f"{NEAR:.0%} below it", 1 - NEAR),
            ("failed", f"{NEAR:.0%} above it", 1 + NEAR),
        )
    }
    for what, each in wrong.items():
        print(f"{what}: {said(each['all'])}; in the worst world {said(each['worst'])}")
    print()
    worlds_found = [asdict(each) for each in found]
    return {"wrong": wrong, "worlds": worlds_found}, [
        Target(name=f"{what}, {where}", figure=each[where]["share"], limit=WRONG)
        for what, each in wrong.items()
        for where in each
    ]


def wrong_of(found: list[Found], status: str) -> dict[str, dict[str, Any]]:
    """Return how many verdicts are this one, in all worlds and in that with most of them."""
    counts = [getattr(each, status) for each in found]
    runs = [each.runs for each in found]
    return {"all": share_of(sum(counts), sum(runs)), "worst": share_of(max(counts), runs[0])}


def share_of(count: int, runs: int) -> dict[str, Any]:
    return {"count": count, "runs": runs, "share": count / runs, "interval": wilson(count, runs)}


def said(found: dict[str, Any]) -> str:
    low, high = found["interval"]
    return f"{found['count']} of {found['runs']}, {found['share']:.2%} [{low:.2%}, {high:.2%}]"


SHARES = ("passed", "failed", "inconclusive")
STATUSES = (*SHARES, "recorded")


def row(found: Found) -> list[str]:
    world = found.world
    name = (
        f"{world.ranks}, {world.spread:.0%}, {world.straggler:g}x, {1e6 * world.skew:g} us, {world.cold:g}x, "
        f"{world.factor:g}"
    )
    return [name, *(f"{getattr(found, what) / found.runs:.1%}" for what in SHARES), f"{found.value:.3f}"]


SUITE = """
import os
from datetime import timedelta
from statistics import median
from time import perf_counter

import pytest
import torch
import torch.distributed as dist

@pytest.fixture(scope="session", autouse=True)
def processes():
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    yield
    dist.destroy_process_group()

def step_of(group):
    torch.manual_seed(0)
    w, x = torch.rand(1024, 1024), torch.rand(1024, 1024)
    own = x.chunk(dist.get_world_size(group))[dist.get_rank(group)]
    def step():
        total = (own @ w).sum(dim=0)
        dist.all_reduce(total, group=group)
        return total
    return step

FIRST = []

def by_hand():
    FIRST[:] = FIRST or [dist.new_group([0])]
    is_first = dist.get_rank() == 0
    step, medians = step_of(None), []
    alone = step_of(FIRST[0]) if is_first else lambda: None
    for is_in_turn in (True, False):
        for _ in range(10):
            step()
        times = []
        for _ in range(30):
            if is_in_turn:
                alone()
            dist.barrier()
            started = perf_counter()
            step()
            lasted = torch.tensor([perf_counter() - started])
            dist.all_reduce(lasted, op=dist.ReduceOp.MAX)
            times.append(float(lasted))
        medians.append(median(times))
    if dist.get_rank() == 0:
        with open("by_hand.txt", "a") as file:
            print(*medians, file=file)
"""
PAIR = """
def test_{0:02}_by_hand():
    by_hand()

@pytest.mark.scaling([1, 2])
def test_{0:02}_step(ranks):
    return step_of(ranks.group)
"""


def loop(arguments: Namespace) -> tuple[dict[str, Any], list[Target]]:
    """Return whether the slowest rank's time is that of a loop with barriers, in turns within one launch."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        pairs = map(PAIR.format, range(arguments.pairs))
        last = "\ndef test_last():\n    by_hand()\n"
        (folder / "test_loop.py").write_text("".join([SUITE, *pairs, last]), encoding="utf-8")
        before = os.getloadavg()[0]
        run(*TORCHRUN, *OURS, folder=folder, variables={**ALONE, "OMP_NUM_THREADS": "1"})
        load = before, os.getloadavg()[0]
        lines = (folder / "by_hand.txt").read_text("utf-8").splitlines()
        records = json.loads((folder / "report.json").read_text("utf-8"))["records"]
    hand, never_idle = zip(*(map(float, line.split()) for line in lines), strict=True)
    two = [record for record in records if record["nodeid"].endswith("[2ranks]")]
    ours = tuple(record["gpu"]["median"] for record in two)
    skew = median(record["scaling"]["ranks"]["skew"] for record in two)
    told = {
        "slowest rank / by hand": Pairs(first=ours, second=hand[:-1]),
        "slowest rank / by hand, both at work": Pairs(first=ours, second=never_idle[:-1]),
        "by hand / by hand before": Pairs(first=hand[1:], second=hand[:-1]),
    }
    rows = [
        [f"{1e3 * each:.3f}" for each in each_of] for each_of in zip(ours, hand, never_idle, strict=False)
    ]
    table(["the slowest rank, ms", "by hand, in turn with rank 0 alone", "both at work"], rows)
    for what, found in told.items():
        print(f"{what}: {found.ratio:.3f} [{found.interval[0]:.3f}, {found.interval[1]:.3f}]")
    print(f"median skew {1e6 * skew:.1f} us; load average {load[0]:.1f} before, {load[1]:.1f} after\n")
    results = {what: {"median": found.ratio, "interval": found.interval} for what, found in told.items()}
    apart = abs(told["slowest rank / by hand"].ratio - 1)
    target = Target(name="slowest rank / by hand - 1, median", figure=apart, limit=APART)
    return {**results, "pairs": len(ours), "skew": skew, "load": load}, [target]


TORCHRUN = (
    "-m",
    "torch.distributed.run",
    "--standalone",
    "--nproc-per-node=2",
    "--no-python",
    sys.executable,
)
OURS = (
    *(
        "-m",
        "pytest",
        "-p",
        "pytest_gpuperf.plugin",
        "-c",
        os.devnull,
        "--rootdir",
        ".",
        "-p",
        "no:cacheprovider",
    ),
    *("--gpuperf-gpu=torch:cpu", "--gpuperf-lock=none", "--gpuperf-max-time=1", "--gpuperf-json=report.json"),
)
ORDINARY = """
import numpy as np
import pytest

speedup = pytest.mark.speedup
LIMITS = speedup, speedup(min=1e-4), speedup(min=1e4)

@pytest.mark.parametrize("number", [pytest.param(n, marks=LIMITS[n % 3]) for n in range(40)])
def test_product(device, number):
    x = device.asarray(np.random.default_rng(number).random((256, 256), dtype=np.float32))
    return lambda: x @ x
"""
PROGRAM = "import os, sys; os.execv(sys.argv[1], sys.argv[1:])"


def suite(arguments: Namespace) -> tuple[dict[str, Any], list[Target]]:
    """Return whether ordinary tests end alike under each launcher, and how long rank 0 waits."""
    launchers: dict[str, tuple[str, ...]] = {"plain": (), "torchrun": TORCHRUN}
    if not arguments.mpiexec:
        print("mpiexec is not there: pass its path with --mpiexec\n")
    else:
        launchers["mpiexec"] = ("-c", PROGRAM, arguments.mpiexec, "-n", "2", sys.executable)
    found = {name: ordinary(launcher) for name, launcher in launchers.items()}
    expected, rows = found["plain"].statuses, []
    for name, each in found.items():
        counts = Counter(each.statuses.values())
        rows.append(
            [name, f"{each.seconds:.0f}", f"{each.wait:.2g}", *(f"{counts[one]}" for one in STATUSES)]
        )
    table(["launcher", "seconds", "longest wait / its test", *STATUSES], rows)
    unlike = sum(each.statuses.get(test) != end for each in found.values() for test, end in expected.items())
    longest = max(each.wait for each in found.values())
    targets = [
        Target(name="verdicts unlike those of plain pytest", figure=unlike, limit=0),
        Target(name="longest wait of rank 0 / its test", figure=longest, limit=1),
    ]
    return {
        "unlike": unlike,
        **{name: {"seconds": each.seconds, "wait": each.wait} for name, each in found.items()},
    }, targets


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordinary:
    """How ordinary tests ended, in how many seconds, and the longest wait for other ranks over its test."""

    statuses: dict[str, str]
    seconds: float
    wait: float


def ordinary(launcher: tuple[str, ...]) -> Ordinary:
    """Run ordinary tests, and read the one report that they leave."""
    with TemporaryDirectory() as path:
        folder = Path(path)
        (folder / "test_ordinary.py").write_text(ORDINARY, encoding="utf-8")
        cost = run(*launcher, *OURS, "--gpuperf-fail=nothing", folder=folder, variables=ALONE)
        (report,) = folder.glob("*.json")
        records = json.loads(report.read_text("utf-8"))["records"]
    waits = [(record["turn_wait"] or 0.0) / record["elapsed"] for record in records]
    statuses = {record["nodeid"]: record["status"] for record in records}
    return Ordinary(statuses=statuses, seconds=cost.wall, wait=max(waits))


PARTS = {"verdicts": verdicts, "loop": loop, "suite": suite}


def main() -> int:
    arguments = read_arguments()
    results = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    targets: list[Target] = []
    for part in arguments.only:
        results[part], wanted = PARTS[part](arguments)
        targets += wanted
    if arguments.save:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return conclude(targets)


def read_arguments() -> Namespace:
    parser = ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=[*PARTS], help="parts to run")
    parser.add_argument("--runs", type=int, default=400, help="verdicts in each world")
    parser.add_argument("--pairs", type=int, default=20, help="times of either kind of loop")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="for the verdicts")
    parser.add_argument("--mpiexec", default=shutil.which("mpiexec"), help="path of MPICH's")
    parser.add_argument("--seed", type=int, default=1, help="of the worlds' chance")
    parser.add_argument("--save", action="store_true", help=f"write results/{RESULTS.name}")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
