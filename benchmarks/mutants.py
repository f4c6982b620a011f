"""How many small faults in the code the tests find: mutants, drawn at random, and the tests that cover them.

A mutant is one change of one node of the syntax tree. It is known by its function and its statement before
and after: `--again FILE` finds the mutants of an earlier run in code that has moved since.

What is mutated is a copy of a commit, written as `ast.unparse` writes it: one statement on one line, so that
coverage gives the tests that run a statement: of these, unit tests first, then those that cover few lines.
"""

import ast
import copy
import json
import os
import platform
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import cache_from_source
from itertools import chain
from operator import attrgetter
from pathlib import Path
from queue import SimpleQueue
from random import Random
from time import perf_counter
from typing import Any

from common import Target, conclude, table
from coverage import CoverageData

Covered = dict[tuple[str, int], list[str]]

ROOT = Path(__file__).parents[1]
PACKAGE = "pytest_gpuperf"
RESULTS = ROOT / "benchmarks" / "results" / "mutants.json"
ROOMS = ("analysis", "gate", "work", "timing", "collection", "report")
KILLED, TIMEOUT, SURVIVED, NOT_COVERED, GONE = "killed", "timeout", "survived", "not covered", "code gone"
FAILED = {"failed", "error"}
STEPS = ("setup", "call", "teardown")
OUTCOMES = (KILLED, TIMEOUT, SURVIVED, NOT_COVERED, GONE)
MEMORY = 8 << 30  # bytes a process of the tests may have: a mutant that allocates without end stops there
PATIENCE = (
    60.0  # seconds that any mutant may take, and four times what its tests took while coverage traced them
)

PAIRS: list[tuple[type, type]] = [
    (ast.Lt, ast.LtE),
    (ast.Gt, ast.GtE),
    (ast.Eq, ast.NotEq),
    (ast.In, ast.NotIn),
    (ast.Is, ast.IsNot),
    (ast.And, ast.Or),
    (ast.Add, ast.Sub),
    (ast.Mult, ast.Div),
]
SWAPS: dict[type, Any] = dict(PAIRS) | {second: first for first, second in PAIRS}
TEXTS = (ast.JoinedStr, ast.List, ast.Tuple)
NO_BEHAVIOUR = {"annotation", "returns", "decorator_list", "bases"}
DECLARATIONS = {"compare", "eq", "frozen", "init", "kw_only", "repr", "slots", "strict"}

# ---------------------------------------------------------------------------------------------------------
# Mutants of a module
# ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Mutant:
    """What identifies a mutant where code moves; the module is where it was."""

    module: str
    function: str
    operator: str
    original: str
    mutated: str
    occurrence: int

    @property
    def room(self) -> str:
        """The folder of the package that the module is in."""
        return self.module.partition("/")[0]

    @property
    def moved(self) -> tuple[str, str, str]:
        """What is left of it where the function is in another module, or no method any more."""
        return self.function.rpartition(".")[2], self.original, self.mutated


@dataclass(frozen=True, slots=True)
class Place:
    """A node of a tree, the list or the fields that hold it, and the statement that it belongs to."""

    node: ast.AST
    holder: Any
    key: str | int
    statement: Any
    function: str
    in_function: bool

    def source(self, node: ast.AST, show: Callable[[], str]) -> str:
        """Return what is shown while another node is there."""
        self.holder[self.key] = node
        shown = show()
        self.holder[self.key] = self.node
        return shown


@dataclass(frozen=True, slots=True)
class Change:
    """A mutant in the code as it is."""

    mutant: Mutant
    tree: ast.Module
    place: Place
    node: ast.AST

    @property
    def covered_at(self) -> tuple[str, int]:
        """The module and the line that its tests run; line 0, any of the module, for what runs at import."""
        return self.mutant.module, self.place.statement.lineno if self.place.in_function else 0

    @property
    def source(self) -> str:
        """The whole module with the change."""
        return self.place.source(self.node, partial(ast.unparse, self.tree))


def changes(source: str, module: str) -> list[list[Change]]:
    """Return the mutants of a module, those of one node together."""
    tree = ast.parse(source)
    seen: Counter[tuple[str, str, str]] = Counter()
    found = []
    for place in places(tree, tree, (), in_function=False):
        original, of_node = head(place.statement), []
        for operator, node in replacements(place.node):
            changed = node if place.node is place.statement else place.statement
            mutated = place.source(node, partial(head, changed))
            equal = (place.function, original, mutated)
            mutant = Mutant(module, place.function, operator, original, mutated, seen[equal])
            of_node.append(Change(mutant, tree, place, node))
            seen[equal] += 1
        if of_node:
            found.append(of_node)
    return found


def places(
    node: ast.AST, statement: ast.AST, names: tuple[str, ...], *, in_function: bool
) -> Iterator[Place]:
    """Yield the places below a node where a change is one of behaviour: no annotations, no decorators."""
    for field, value in ast.iter_fields(node):
        if field in NO_BEHAVIOUR or (isinstance(node, ast.ClassDef) and field == "keywords"):
            continue
        inside = in_function or (isinstance(node, ast.FunctionDef) and field == "body")
        holder, keys = (value, range(len(value))) if isinstance(value, list) else (vars(node), [field])
        for key in keys:
            match child := holder[key]:
                case ast.If(test=ast.Name("TYPE_CHECKING")):
                    continue
                case ast.keyword(arg) if arg in DECLARATIONS:
                    continue
                case ast.FunctionDef(name) | ast.ClassDef(name):
                    named = (*names, name)
                case ast.AST():
                    named = names
                case _:
                    continue
            of = child if isinstance(child, ast.stmt) else statement
            yield Place(child, holder, key, of, ".".join(named), inside)
            yield from places(child, of, named, in_function=inside)


def replacements(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield what may stand in place of a node, each with the name of its operator."""
    match node:
        case ast.Compare(left, ops, comparators):
            for index, op in enumerate(ops):
                swapped = [*ops[:index], SWAPS[type(op)](), *ops[index + 1 :]]
                yield "comparison", ast.Compare(left, swapped, comparators)
        case ast.BoolOp(op, values):
            yield "and, or", ast.BoolOp(SWAPS[type(op)](), values)
        case ast.UnaryOp(ast.Not(), operand):
            yield "not", operand
        case ast.Constant(bool(value)):
            yield "boolean", ast.Constant(not value)
        case ast.Constant(int(value)):
            yield "number", ast.Constant(value + 1)
            yield "number", ast.Constant(value - 1)
        case ast.Constant(float(value)):
            yield "number", ast.Constant(value / 2 or 1.0)
        case ast.BinOp(left, op, right) if type(op) in SWAPS and not (is_text(left) or is_text(right)):
            yield "arithmetic", ast.BinOp(left, SWAPS[type(op)](), right)
        case ast.AugAssign(target, op, value) if type(op) in SWAPS and not is_text(value):
            yield "arithmetic", ast.AugAssign(target, SWAPS[type(op)](), value)
        case ast.Expr(ast.Call()):
            yield "call dropped", ast.Pass()
        case ast.If(test) | ast.While(test) | ast.IfExp(test) if not isinstance(test, ast.Constant):
            for value in (True, False):
                changed = copy.copy(node)
                changed.test = ast.Constant(value)
                yield "condition", changed
        case ast.Return(ast.AST() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield "return", ast.Return(ast.Constant(None))


def is_text(node: ast.AST) -> bool:
    """Return whether a sum or product of it is one of texts or of lists."""
    return isinstance(node, TEXTS) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def head(statement: Any) -> str:
    """Return the source of a statement, without the statements in it."""
    shown = copy.copy(statement)
    for field in statement._fields:
        if field == "body":
            shown.body = [ast.Expr(ast.Constant(...))]
        elif field in {"orelse", "finalbody", "handlers", "decorator_list"}:
            setattr(shown, field, [])
    return ast.unparse(shown).removesuffix("\n    ...")


def find_again(wanted: Iterable[Mutant], everywhere: Iterable[Change]) -> dict[Mutant, Change | None]:
    """Return the mutants in the code as it is: in their module, or else in a function of the same name."""
    here: dict[Mutant, Change] = {}
    moved: dict[tuple[str, str, str], Change] = {}
    for change in everywhere:
        here[change.mutant] = change
        moved.setdefault(change.mutant.moved, change)
    return {mutant: here.get(mutant) or moved.get(mutant.moved) for mutant in wanted}


# ---------------------------------------------------------------------------------------------------------
# Tests of a copy
# ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a run of tests ended: its exit status, None when it took too long; the outcomes and the seconds."""

    status: int | None
    outcomes: Mapping[str, str]
    seconds: Mapping[str, float]


def copy_of(commit: str, folder: Path) -> Path:
    """Write the files of a commit into a folder, those of the package as `ast.unparse` does."""
    folder.mkdir()
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, stdout=subprocess.PIPE, check=True)  # noqa: S607 - git of the path
    subprocess.run(["tar", "-x"], cwd=folder, input=archive.stdout, check=True)  # noqa: S607 - tar of the path
    for path in (folder / PACKAGE).rglob("*.py"):
        path.write_text(ast.unparse(ast.parse(path.read_bytes())) + "\n", encoding="utf-8")
    return folder


def pytest(folder: Path, *arguments: str, limit: float | None = None) -> Ran:
    """Run pytest in a copy, in a session of its own, of which nothing is left when it took too long."""
    report = folder.with_suffix(".json")
    report.unlink(missing_ok=True)
    options = ("-p", "no:cacheprovider", "--json-report", f"--json-report-file={report}")
    left_out = ("--json-report-omit", "collectors", "log", "traceback", "streams", "warnings", "keywords")
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, *left_out, "-q", *arguments],
        cwd=folder,
        env={**os.environ, "CI": "true", "PYTHONPATH": str(folder)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    resource.prlimit(process.pid, resource.RLIMIT_AS, (MEMORY, MEMORY))
    status = None
    try:
        status = process.wait(limit)
    except subprocess.TimeoutExpired:
        pass
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    written = json.loads(report.read_text(encoding="utf-8"))["tests"] if report.exists() else []
    return Ran(
        status=status,
        outcomes={test["nodeid"]: test["outcome"] for test in written},
        seconds={
            test["nodeid"]: sum(test[step]["duration"] for step in STEPS if step in test) for test in written
        },
    )


def covering(
    folder: Path, jobs: int, wanted: Container[tuple[str, int]]
) -> tuple[Covered, Mapping[str, float]]:
    """Run all tests once; return those that pass and run these lines, the best first, and their seconds."""
    ran = pytest(
        folder, f"-n{jobs}", "--dist=loadfile", f"--cov={PACKAGE}", "--cov-context=test", "--cov-report="
    )
    passed = {name for name, outcome in ran.outcomes.items() if outcome == "passed"}
    if not passed:
        raise SystemExit(f"no test passed in the copy: pytest ended with {ran.status}")
    data = CoverageData(str(folder / ".coverage"))
    data.read()
    size: Counter[str] = Counter()
    covered: Covered = {}
    for path in data.measured_files():
        module = Path(path).relative_to(folder / PACKAGE).as_posix()  # fails where tests import another copy
        counts: Counter[str] = Counter()
        for line, contexts in data.contexts_by_lineno(path).items():
            tests = list({context.rpartition("|")[0] for context in contexts} & passed)
            counts.update(tests)
            if (module, line) in wanted:
                covered[module, line] = tests
        covered[module, 0] = list(counts)
        size += counts
    for tests in covered.values():
        tests.sort(key=lambda test: (not test.startswith("tests/unit/"), size[test], test))
    return covered, ran.seconds


# ---------------------------------------------------------------------------------------------------------
# A run
# ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of a mutant, of how many tests, the one that killed it, and the seconds that it took."""

    mutant: Mutant
    outcome: str
    tests: int = 0
    killed_by: str | None = None
    seconds: float = 0.0


def main() -> int:
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--number", type=int, default=300, help="of mutants")
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    parser.add_argument("--again", type=Path, metavar="FILE", help="run the mutants of this file; draw none")
    parser.add_argument("--commit", default="HEAD", help="what is mutated and tested")
    parser.add_argument("--most", type=int, default=150, help="tests for a mutant")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="mutants at a time, each in its own copy")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        folder = copy_of(arguments.commit, Path(work) / "0")
        before = {}
        if arguments.again:
            written = json.loads(arguments.again.read_text(encoding="utf-8"))["mutants"]
            before = {Mutant(**each["mutant"]): each["outcome"] for each in written}
            found = find_again(before, chain.from_iterable(chain.from_iterable(changes_in(folder))))
        else:
            found = {change.mutant: change for change in draw(folder, arguments.number, arguments.seed)}
        results = run(found, folder, arguments)
    write(results, arguments)
    print_tables(results)
    return conclude(compare(results, before)) if before else 0


def changes_in(folder: Path, rooms: Collection[str] = ()) -> Iterator[list[list[Change]]]:
    """Yield the mutants of each module, of these rooms or of all."""
    package = folder / PACKAGE
    for path in sorted(package.rglob("*.py")):
        module = path.relative_to(package)
        if not rooms or module.parts[0] in rooms:
            yield changes(path.read_text(encoding="utf-8"), module.as_posix())


def draw(folder: Path, number: int, seed: int) -> list[Change]:
    """Return mutants of the rooms; every node that has one is equally likely."""
    chance = Random(seed)  # noqa: S311 - a draw, not a secret
    nodes = list(chain.from_iterable(changes_in(folder, ROOMS)))
    return [chance.choice(of_node) for of_node in chance.sample(nodes, number)]


def run(found: Mapping[Mutant, Change | None], folder: Path, arguments: Namespace) -> list[Result]:
    """Run each mutant that was found; say on stderr what became of it."""
    print("one run of all tests, to see what they cover", file=sys.stderr)
    wanted = {change.covered_at for change in found.values() if change}
    covered, seconds = covering(folder, arguments.jobs, wanted)
    sources = {mutant: change.source for mutant, change in found.items() if change}
    copies: SimpleQueue[Path] = SimpleQueue()
    copies.put(folder)
    for index in range(1, arguments.jobs):
        copies.put(shutil.copytree(folder, folder.with_name(str(index)), symlinks=True))

    def result(mutant: Mutant) -> Result:
        change = found[mutant]
        if change is None:
            return Result(mutant=mutant, outcome=GONE)
        own, started = copies.get(), perf_counter()
        chosen = covered.get(change.covered_at, [])[: arguments.most]
        outcome, killed_by = judge(own, change.mutant.module, sources[mutant], chosen, seconds)
        copies.put(own)
        taken = round(perf_counter() - started, 1)
        return Result(mutant=mutant, outcome=outcome, tests=len(chosen), killed_by=killed_by, seconds=taken)

    results = []
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for each in pool.map(result, found):
            results.append(each)
            print(
                f"{len(results)}/{len(found)} {each.outcome} {each.seconds} s {each.mutant}", file=sys.stderr
            )
    return results


def judge(
    folder: Path, module: str, source: str, chosen: Sequence[str], seconds: Mapping[str, float]
) -> tuple[str, str | None]:
    """Return the outcome of a module's mutant, and the test that kills it.

    That test fails twice with the mutant and passes once without it, after the same other tests: one may fail
    by chance, or because of the order, which is not that of the whole suite.
    """
    path = folder / PACKAGE / module
    clean = path.read_text(encoding="utf-8")

    def run_with(text: str, tests: Sequence[str]) -> Ran:
        put(path, text)
        try:
            return pytest(folder, "-x", *tests, limit=PATIENCE + 4 * sum(seconds[test] for test in tests))
        finally:
            put(path, clean)

    left = list(chosen)
    while left:
        ran = run_with(source, left)
        if ran.status is None:
            return TIMEOUT, None
        if ran.status == 0:
            return SURVIVED, None
        failed = next((name for name, outcome in ran.outcomes.items() if outcome in FAILED), None)
        repeated = left[: left.index(failed) + 1] if failed else left
        if run_with(clean, repeated).status == 0 and run_with(source, repeated).status != 0:
            return KILLED, failed
        if failed is None:
            break
        left.remove(failed)
    return SURVIVED if chosen else NOT_COVERED, None


def put(path: Path, source: str) -> None:
    """Write a module, and leave no compiled file that Python could take to be that of the new source."""
    path.write_text(source, encoding="utf-8")
    Path(cache_from_source(path)).unlink(missing_ok=True)


def write(results: Sequence[Result], arguments: Namespace) -> None:
    """Write the file of results."""
    command = ["git", "rev-parse", arguments.commit]
    commit = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    written = {
        "commit": commit,
        "python": platform.python_version(),
        "seed": arguments.seed,
        "most_tests": arguments.most,
        "outcomes": Counter(result.outcome for result in results),
        "by_room": counted(results, "room"),
        "by_operator": counted(results, "operator"),
        "mutants": [asdict(result) for result in results],
    }
    arguments.out.parent.mkdir(exist_ok=True)
    arguments.out.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


def counted(results: Sequence[Result], name: str) -> dict[str, Counter[str]]:
    """Return the outcomes for each room, or for each operator."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for result in sorted(results, key=attrgetter(f"mutant.{name}")):
        counts[getattr(result.mutant, name)][result.outcome] += 1
    return counts


def print_tables(results: Sequence[Result]) -> None:
    for name in ("room", "operator"):
        counts = counted(results, name)
        counts["all"] = Counter(result.outcome for result in results)
        rows = []
        for of, count in counts.items():
            numbers = [count.total(), *(count[outcome] for outcome in OUTCOMES)]
            rows.append([of, *map(str, numbers), f"{percent(count):.1f}"])
        table([name, "mutants", *OUTCOMES, "killed, %"], rows)


def percent(outcomes: Mapping[str, int]) -> float:
    """Return the share of those found that are killed; a test without an end is one that shows a fault."""
    tried = sum(outcomes.values()) - outcomes.get(GONE, 0)
    return 100 * (outcomes.get(KILLED, 0) + outcomes.get(TIMEOUT, 0)) / max(tried, 1)


def compare(results: Sequence[Result], before: Mapping[Mutant, str]) -> list[Target]:
    """Print the mutants that are no longer killed; return the target, that the share is no smaller."""
    tried = [result for result in results if result.outcome != GONE]
    for result in tried:
        if result.outcome in {SURVIVED, NOT_COVERED} and before[result.mutant] in {KILLED, TIMEOUT}:
            print(f"killed before: {result.mutant.module} {result.mutant.function}: {result.mutant.mutated}")
    now = percent(Counter(result.outcome for result in tried))
    then = percent(Counter(before[result.mutant] for result in tried))
    return [Target(name="killed of those found again, %", figure=now, limit=then, at_least=True)]


if __name__ == "__main__":
    sys.exit(main())
