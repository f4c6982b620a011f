"""`gpuperf against`: a commit in; what changed since it, over pairs of processes, and an exit code out."""

import argparse
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from msgspec import structs

from pytest_gpuperf.cli import compare, one_process
from pytest_gpuperf.cli.command import FAILED, CommandResult, add_command
from pytest_gpuperf.cli.one_process import NoReport
from pytest_gpuperf.cli.trees import Tree, Trees, two_trees
from pytest_gpuperf.gate import pairs
from pytest_gpuperf.gate.pairs import Pair
from pytest_gpuperf.model.comparison import GateOptions
from pytest_gpuperf.model.demand import RunOptions
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.plain_text import one_line, printable
from pytest_gpuperf.model.record import Report, Run

_MARKED = ("-m", "speedup or offload_threshold or scaling")
# The first process may take an hour, each other one ten times as long as the longest so far, and a minute.
_FIRST_LIMIT, _TIMES_LONGEST, _MORE = 3600.0, 10, 60
_NOTHING_RAN = (
    "no marked test ran in head: name tests or folders after --, or add --gpuperf-all there for unmarked ones"
)
_SMALLEST = (
    "more pairs or a quieter machine decide what is inconclusive; on a clean checkout, gpuperf against HEAD "
    "shows how small a change this machine can see"
)
_EPILOG = """\
example: gpuperf against origin/main
         gpuperf against v1.2 --fail-on gpu_time:3% --markdown summary.md -- tests/perf -k fft

Base is the last commit that REF and HEAD have in common; head is the checkout, with changes that are not
committed. Both projects are installed beside this environment, which has what they need, and both run
head's test files. A pair is two fresh processes of pytest, one after the other. What all of 6 pairs say
decides; other tests have 6 more, and then it is what 11 of 12 say. Without --fail-on it is gpu_time:5%,
cpu_time:5% and memory:5%. What follows -- goes to pytest; without -m or --gpuperf-all in it, the marked
tests are run.

exit codes: 0 nothing regressed, or --fail nothing; 1 something did, too little was measured, or a process
died; 2 an error, or an option is wrong; 3 the two have nothing in common to compare"""


def add(commands: Any) -> None:
    """Add the command."""
    purpose = "measure this checkout against another commit, in pairs of fresh processes"
    command = add_command(commands, "against", purpose, _against, _EPILOG)
    command.add_argument("ref", metavar="REF", help="a branch, a tag or a commit, e.g. origin/main")
    command.add_argument(
        "--pairs",
        type=int,
        choices=(pairs.FEW, pairs.MANY),
        default=pairs.MANY,
        help="the most pairs of processes: 6, or 12 for the tests that 6 do not decide (default)",
    )
    compare.add_rules(command, "head", "base")


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words of the command, and those of pytest: what follows `--` in `gpuperf against`."""
    ours, theirs = [*arguments], list[str]()
    if ours[:1] == ["against"] and "--" in ours:
        place = ours.index("--")
        ours, theirs = ours[:place], ours[place + 1 :]
    return ours, theirs


def _against(chosen: argparse.Namespace) -> CommandResult:
    options = compare.gate_options(chosen, None, by_pairs=True)
    compare.check_outputs(chosen)
    failures, notes = [], []
    _say("checks out base and head, and installs their projects")
    with two_trees(chosen.ref, Path.cwd()) as trees:
        base = f"{trees.base.commit[:7]} (merge base of {chosen.ref})"
        processes = _Processes(trees=trees, options=options, name=base, pytest=chosen.pytest)
        for line in _described(trees):
            _say(line)
        try:
            processes.measure(chosen.pairs)
        except NoReport as problem:
            for line in problem.lines:
                _say(f"| {one_line(line)}")
            if len(processes.pairs) < pairs.FEW:
                raise
            failures.append(str(problem))
    run, of_gate = processes.compared(RunOptions(fail=chosen.fail))
    if not run.records:
        notes.append(_NOTHING_RAN)
    if any(_undecided(run)):
        notes.append(_SMALLEST)
    ended = compare.ended(chosen, run, [*failures, *of_gate], notes, options, by_pairs=True)
    return replace(ended, code=FAILED) if failures else ended  # with --fail nothing, too


@dataclass(kw_only=True)
class _Processes:
    """The pairs of processes so far. In turns base is first, and head, so that no drift is one side's."""

    trees: Trees
    options: GateOptions
    name: str
    pytest: Sequence[str]
    pairs: list[Pair] = field(default_factory=list)
    _longest: float | None = None  # seconds of a process
    _own: set[str] = field(default_factory=set)  # test files that base has from its own commit

    def measure(self, most: int) -> None:
        """Measure so many pairs at most; raise NoReport for a process without a report."""
        self._measure_pair(())
        run, _ = self.compared(RunOptions())
        if not compare.has_common(run):
            return
        while len(self.pairs) < pairs.FEW:
            self._measure_pair(())
        run, _ = self.compared(RunOptions())
        left_out = [*_decided(run)]
        while len(self.pairs) < most and len(left_out) < len(run.records):
            self._measure_pair(left_out)

    def compared(self, options: RunOptions) -> tuple[Run, list[str]]:
        """Return head's first run with what changed, and what fails."""
        return compare.with_comparisons(self.pairs[0].head.run, self.options, options, self.pairs)

    def _measure_pair(self, left_out: Collection[str]) -> None:
        started, place = time.monotonic(), len(self.pairs) + 1
        base, head = self.trees.base, self.trees.head
        order = (base, head) if place % 2 else (head, base)
        found = {tree.name: self._measure(tree, place, left_out) for tree in order}
        self.pairs.append(Pair(structs.replace(found["base"], name=self.name), found["head"]))
        of_few = f" of {pairs.FEW}" if place <= pairs.FEW else f" of {pairs.MANY}"
        _say(f"pair {place}{of_few}: {time.monotonic() - started:.0f} s")

    def _measure(self, tree: Tree, place: int, left_out: Collection[str]) -> Report:
        started = time.monotonic()
        asked = [tree.moved(word) for word in _selection(self.pytest)]
        asked += [f"--deselect={each}" for each in left_out]
        asked += [f"--gpuperf-fail-on={each.metric}:0%" for each in self.options.tolerances]
        limit = _FIRST_LIMIT if self._longest is None else _TIMES_LONGEST * self._longest + _MORE
        report = self.trees.folder / f"{tree.name}-{place}.json"
        found = one_process.measure(tree, report, asked, limit)
        self._longest = max(time.monotonic() - started, self._longest or 0.0)
        if place == 1:
            _require_own(tree, found.imported)
            if tree.name == "base" and self._restored(found.errors):
                return self._measure(tree, place, left_out)
            for file, reason in found.errors.items():
                _say(f"{tree.name} cannot import {file}: {reason}")
        return found.report

    def _restored(self, errors: Mapping[str, str]) -> bool:
        """Give base its own test files where it cannot import head's; return whether there are any."""
        base, restored = self.trees.base, False
        for file, reason in errors.items():
            name = _from_root(base, file)
            if name in self.trees.tests and name not in self._own and base.restore(name):
                self._own.add(name)
                restored = True
                _say(f"base cannot import head's {file} ({reason}), and runs its own")
        return restored


def _selection(words: Sequence[str]) -> Iterator[str]:
    """Yield the words for pytest; where they select nothing by themselves, only marked tests run."""
    if not any(word.startswith("-m") or word == "--gpuperf-all" for word in words):
        yield from _MARKED
    yield from words


def _from_root(tree: Tree, file: str) -> str | None:
    """Return the name from the root of a file that pytest names from its own rootdir."""
    for folder in (tree.folder, *tree.folder.parents):
        if (folder / file).exists():
            return (folder / file).relative_to(tree.root).as_posix()
        if folder == tree.root:
            break
    return None


def _require_own(tree: Tree, files: Sequence[str]) -> None:
    """Refuse a side that imported the user's own files: they are the same on both sides."""
    if theirs := tree.of_checkout(files):
        raise GpuPerfError(
            f"{tree.name} imported {theirs[0]}, which is the checkout's and not its own; install projects "
            "plainly, not editable (pip install .), and let no option of pytest lead there"
        )


def _decided(run: Run) -> Iterator[str]:
    """Yield the tests that more pairs need not have: `--deselect` leaves out all whose ids begin as these."""
    still_open = [*_undecided(run)]
    for record in run.records:
        if not any(each.startswith(record.nodeid) for each in still_open):
            yield record.nodeid


def _undecided(run: Run) -> Iterator[str]:
    """Yield the tests that more pairs may decide, and their CPU variants."""
    for record in run.records:
        if any(each.outcome == "inconclusive" for each in record.comparisons):
            yield record.nodeid
            if record.pairing and record.pairing.partner:
                yield record.pairing.partner


def _described(trees: Trees) -> Iterator[str]:
    for tree in (trees.base, trees.head):
        yield f"{tree.name}: {tree.described}"
    yield from trees.notes


def _say(line: str) -> None:
    print(f"gpuperf: {printable(line)}", file=sys.stderr, flush=True)  # noqa: T201 - a command prints
