"""What the plugin costs a suite that does not use it: at start-up, and for each test."""

import os
import pstats
import sys
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from shutil import copytree, ignore_patterns
from tempfile import TemporaryDirectory

from common import ALONE, Cost, Pairs, Target, conclude, paired, pytest, table

OURS = ("-p", "pytest_gpuperf.plugin")
PEER = ("-p", "pytest_benchmark.plugin")
MOST_OF_PEER = 0.25  # of what pytest-benchmark adds to the start
MOST_UNWRITTEN = 0.3  # the same where Python writes no bytecode, as in most images
MOST_PERCENT = 1.0

Found = list[tuple[Cost, Cost]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """The same pytest command with a plugin and without it."""

    name: str
    with_it: tuple[str, ...]
    without: tuple[str, ...] = ()
    autoload: bool = False
    sources: Path | None = None  # a folder of packages without bytecode, which then stays so

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables that pytest needs for it."""
        loading = {} if self.autoload else ALONE
        if self.sources is None:
            return loading
        paths = filter(None, (str(self.sources), os.environ.get("PYTHONPATH")))
        return {**loading, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}


ALONE_OURS = Contest(name="gpuperf, no other plugin", with_it=OURS)
INSTALLED = Contest(
    name="gpuperf, all installed plugins", with_it=(), without=("-p", "no:gpuperf"), autoload=True
)
ALONE_PEER = Contest(name="pytest-benchmark, no other plugin", with_it=PEER)

NOTHING = Contest(name="no plugin on either side: the noise", with_it=())


def main() -> int:
    arguments = read_arguments()
    peers = [ALONE_PEER] if find_spec("pytest_benchmark") else []
    contests = [ALONE_OURS, *peers, NOTHING]
    with TemporaryDirectory() as folder, TemporaryDirectory() as packages:
        suite, sources = Path(folder), Path(packages)
        write_suite(suite, 50)
        copy_sources(sources, "pytest_gpuperf", *["pytest_benchmark"] * len(peers))
        unwritten = [
            replace(contest, name=f"{contest.name}, no bytecode", sources=sources)
            for contest in (ALONE_OURS, *peers)
        ]
        starts = [
            (contest, contend(contest, ("--collect-only", "-q"), suite, arguments.pairs))
            for contest in (INSTALLED, *contests, *unwritten)
        ]
        write_suite(suite, arguments.tests)
        runs = [(contest, contend(contest, ("-q",), suite, arguments.long_pairs)) for contest in contests]
        share = share_of_hooks(suite)
    print(f"collect-only of 50 tests, median of {arguments.pairs} pairs, with the plugin - without it\n")
    table(["", "wall", "processor"], [start_row(*start) for start in starts])
    print(f"{arguments.tests} unmarked tests, median of {arguments.long_pairs} pairs, with / without\n")
    table(["", "wall", "processor", "95 % interval"], [run_row(*found) for found in runs])
    start = {contest: processor(found).difference for contest, found in starts}
    beside_peer = [(ALONE_OURS, ALONE_PEER), tuple(unwritten)] if peers else []
    shares = [start[ours] / start[peer] for ours, peer in beside_peer]
    return conclude([*of_peer(shares), *targets(dict(runs)[ALONE_OURS], share)])


def of_peer(shares: list[float]) -> list[Target]:
    """Return the targets beside pytest-benchmark, where it is installed."""
    names = "start-up, share of pytest-benchmark's", "the same where no bytecode is written"
    limits = MOST_OF_PEER, MOST_UNWRITTEN
    return [
        Target(name=name, figure=share, limit=limit)
        for name, share, limit in zip(names, shares, limits, strict=False)
    ]


def targets(long: Found, share: float) -> list[Target]:
    """Return the others. One process's time varies by more than 1 %: a miss is one beyond the doubt."""
    more = 100 * (processor(long).interval[0] - 1)
    return [
        Target(name="unmarked tests, more processor time in %, lower end", figure=more, limit=MOST_PERCENT),
        Target(name="unmarked tests, our hooks by cProfile in %", figure=share, limit=MOST_PERCENT),
    ]


def read_arguments() -> Namespace:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=31, help="pairs of collect-only runs")
    parser.add_argument("--tests", type=int, default=10_000, help="unmarked tests to run")
    parser.add_argument("--long-pairs", type=int, default=15, help="pairs of runs of those")
    return parser.parse_args()


def write_suite(folder: Path, tests: int) -> None:
    """Write a file of trivial tests in the place of the one before."""
    lines = (f"def test_{number}():\n    assert {number} == {number}\n" for number in range(tests))
    (folder / "test_trivial.py").write_text("\n\n".join(lines), encoding="utf-8")


def copy_sources(folder: Path, *packages: str) -> None:
    """Copy packages into a folder without their bytecode."""
    for package in packages:
        (place,) = find_spec(package).submodule_search_locations
        copytree(place, folder / package, ignore=ignore_patterns("__pycache__"))


def contend(contest: Contest, arguments: tuple[str, ...], suite: Path, pairs: int) -> Found:
    """Run the command by turns with the plugin and without it, after one untimed run of each."""
    with_it, without = (
        partial(pytest, *arguments, *side, folder=suite, variables=contest.variables)
        for side in (contest.with_it, contest.without)
    )
    with_it()
    without()
    return list(paired(with_it, without, pairs))


def wall(found: Found) -> Pairs:
    first, second = zip(*((a.wall, b.wall) for a, b in found), strict=True)
    return Pairs(first=first, second=second)


def processor(found: Found) -> Pairs:
    first, second = zip(*((a.cpu, b.cpu) for a, b in found), strict=True)
    return Pairs(first=first, second=second)


def start_row(contest: Contest, found: Found) -> list[str]:
    return [
        contest.name,
        f"{1e3 * wall(found).difference:+.1f} ms",
        f"{1e3 * processor(found).difference:+.1f} ms",
    ]


def run_row(contest: Contest, found: Found) -> list[str]:
    pairs = processor(found)
    low, high = pairs.interval
    return [contest.name, f"{wall(found).ratio:.4f}", f"{pairs.ratio:.4f}", f"{low:.3f} to {high:.3f}"]


def share_of_hooks(suite: Path) -> float:
    """Return the share of a profiled run that our plugin's hooks take, in percent."""
    times = suite / "times.prof"
    pytest("-q", *OURS, folder=suite, variables=ALONE, profile=times)
    profile = pstats.Stats(str(times))
    ours = sum(
        cumulative
        for (file, _, function), (*_, cumulative, _) in profile.stats.items()
        if Path(file).parts[-2:] == ("pytest_gpuperf", "plugin.py") and function.startswith("pytest_")
    )
    if not ours:
        raise SystemExit("the profile does not show our plugin: was it loaded?")
    return 100 * ours / profile.total_tt


if __name__ == "__main__":
    sys.exit(main())
