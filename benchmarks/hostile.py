"""Whether hostile use finds a false green, a lost measurement, a traceback of ours, or a hang.

Every case runs on the simulated device, whose times are exact: load changes only how long a case takes. The
draws are seeded.
"""

import contextlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import cycle, islice, product
from multiprocessing import Pool
from pathlib import Path
from random import Random
from typing import Any

from common import ALONE, Target, conclude, table
from losses import KINDS, H, Kind, Suite, Way, honest_ways, ways

from pytest_gpuperf import cli
from pytest_gpuperf.model.metrics import Metric

PLUGIN = ("-p", "pytest_gpuperf.plugin", "--gpuperf-gpu=simulated")
LONGEST = 5.0  # seconds that a run may take above those of an undisturbed one
PATIENCE = 60.0  # seconds after which a run is ended: it hangs
SOURCES = str(Path(cli.__file__).parents[2])
EVERY_NUMBER = {"gate": 500, "honest": 200, "files": 50_000, "signals": 120, "faults": 200}

# ---------------------------------------------------------------------------------------------------------
# One run of pytest in a folder of its own
# ---------------------------------------------------------------------------------------------------------

CONFTEST = """
import os
import pytest

DONE = os.environ.get("DONE")

@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report):
    # After the plugin has kept the record of a finished test in its journal.
    if DONE and report.when == "teardown":
        with open(DONE, "a") as log:
            log.write(report.nodeid + "\\n")
"""
SUITE = """
import os
import pytest

def work(device, slower=1.0):
    gpu = 0.0001 * slower
    return lambda: device.launch(0.001 if device.kind == "cpu" else gpu)

@pytest.mark.speedup
def test_a(device):
    return work(device, float(os.environ.get("SLOWER", "1")))

@pytest.mark.speedup
def test_b(device):
    return work(device)
"""


STEADY = SUITE.replace('float(os.environ.get("SLOWER", "1"))', "1.0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a run of pytest ended."""

    code: int | None
    output: str
    seconds: float

    @property
    def last_lines(self) -> str:
        """What people read: the last five lines."""
        return "\n".join(self.output.splitlines()[-5:])


def pytest(folder: Path, *arguments: str, plugins: Sequence[str] = (), **variables: str) -> Ran:
    """Run pytest in a folder, with our plugin and the named ones."""
    command = [sys.executable, "-m", "pytest", *PLUGIN, *(f"-p{name}" for name in plugins), *arguments]
    started = time.monotonic()
    try:
        process = subprocess.run(
            command,
            cwd=folder,
            env=environment(**variables),
            text=True,
            errors="replace",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        output = error.stdout or b""
        return Ran(code=None, output=output.decode(errors="replace"), seconds=time.monotonic() - started)
    return Ran(code=process.returncode, output=process.stdout, seconds=time.monotonic() - started)


def environment(**variables: str) -> dict[str, str]:
    """Return the environment of a run: no plugin but the named ones, and this copy of the package."""
    return {**os.environ, **ALONE, "PYTHONPATH": SOURCES, "OPENBLAS_NUM_THREADS": "1", **variables}


def suite(folder: Path, **files: str) -> None:
    """Write two files of tests, of which test_g.py may be slower than its baseline, and others."""
    for name, text in {"conftest.py": CONFTEST, "test_g.py": SUITE, "test_h.py": STEADY, **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def of_ours(output: str) -> str | None:
    """Return the traceback in an output that our code raised."""
    # A worker that pytest.exit ends is an error in pytest-xdist, without the plugin, too.
    if "INTERNALERROR" in output and "assert not crashitem, (crashitem, node)" not in output:
        return "INTERNALERROR"
    for block in re.findall(r"Traceback \(most recent call last\):\n((?:  .*\n)+)(.*)", output):
        files = re.findall(r'File "([^"]+)"', block[0])
        # A second interrupt may hit any line, as without the plugin.
        if files and "/pytest_gpuperf/" in files[-1] and block[1] != "KeyboardInterrupt":
            return f"{files[-1]}: {block[1][:100]}"
    return None


def problem_of(ran: Ran) -> str | None:
    """Return what is wrong with any run: a hang, or a traceback of ours."""
    if ran.code is None:
        return "hang"
    found = of_ours(ran.output)
    return f"traceback: {found}" if found else None


# ---------------------------------------------------------------------------------------------------------
# The gate: each kind of entry, lost in each way, may not be green unseen; and honest runs are green
# ---------------------------------------------------------------------------------------------------------

KNOWN = "left out: "
"""How what is no problem begins, and is named all the same: the user left the test out, without strict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A way to lose a test of a kind, or an honest one, with the options of its run."""

    kind: Kind
    way: Way
    metrics: tuple[Metric, ...]
    is_strict: bool
    processes: int
    extra: tuple[str, ...]
    is_in_ini: bool

    @property
    def name(self) -> str:
        """What tells it from other cases."""
        options = [*self.metrics, *self.extra]
        options += ["strict"] if self.is_strict else []
        options += [f"-n{self.processes}"] if self.processes else []
        options += ["in the ini file"] if self.is_in_ini else []
        return f"{self.kind.name}, {self.way.name} ({', '.join(options)})"

    @property
    def left_out(self) -> int | None:
        """How many tests the user leaves out on purpose, which is allowed without strict."""
        if self.way.left_out is None or self.is_strict:
            return None
        return self.way.left_out(self.kind, self.metrics)

    @property
    def environment(self) -> dict[str, str]:
        """The variables that make the test worse in all that is compared."""
        names = ["WORSE_CPU"] if self.metrics == ("cpu_time",) else ["WORSE_GPU", "WORSE_MEMORY"]
        return {name: str(self.way.worse) for name in names}

    @property
    def gate(self) -> list[tuple[str, str]]:
        """The options of the regression check, as names and values."""
        strict = [("strict", "true")] if self.is_strict else []
        return [("baseline", BASE), *(("fail-on", f"{each}:10%") for each in self.metrics), *strict]

    def in_ini(self) -> str:
        """Return the lines of the ini file."""
        if not self.is_in_ini:
            return ""
        values: dict[str, list[str]] = {}
        for name, value in self.gate:
            values.setdefault(f"gpuperf_{name.replace('-', '_')}", []).append(value)
        return "\n".join(f"{name} = {' '.join(value)}" for name, value in values.items())

    def typed(self) -> list[str]:
        """Return the arguments of pytest."""
        gate = [f"--gpuperf-{name}={value}".removesuffix("=true") for name, value in self.gate]
        workers = [f"-n{self.processes}"] if self.processes else []
        return [*_devices(self.kind), *([] if self.is_in_ini else gate), *workers, *self.extra]

    def compared(self) -> list[str]:
        """Return the arguments of `gpuperf compare`."""
        return [f"--{name}={value}".removesuffix("=true") for name, value in self.gate[1:]]


BASE = "base.json"
EXTRA = ((), (), (), ("-q",), ("--gpuperf-fail=doubt",))
TYPED = (("-k", "test"), ("-m", "not other"), ("--ignore=no_such",), ("--deselect=no_such",), ("unit", H))
"""What leaves nothing out, and must not hide that something else does."""


def cases(ways: Sequence[Way], number: int, seed: int) -> list[Case]:
    """Return so many cases: all kinds and ways, shuffled, as often as it takes, and half of them strict."""
    pairs = [(kind, way) for kind, way in product(KINDS, ways) if way.fits(kind)]
    Random(seed).shuffle(pairs)  # noqa: S311 - a simulation
    return [_case(*pairs[place % len(pairs)], place, len(pairs), seed) for place in range(number)]


def _case(kind: Kind, way: Way, place: int, pairs: int, seed: int) -> Case:
    chance = Random(f"{seed} {place}")  # noqa: S311 - a simulation
    metrics = chance.sample(kind.metrics, chance.choice((1, min(2, len(kind.metrics)))))
    processes = chance.choice((0, 0, 0, 2))
    extra = chance.choice(EXTRA)
    if chance.random() < 0.3 and not way.suite(kind).arguments:
        extra += chance.choice(TYPED)
    return Case(
        kind=kind,
        way=way,
        metrics=tuple(metrics),
        is_strict=(place + place // pairs) % 2 == 1,
        processes=processes if way.processes is None else way.processes,
        extra=extra,
        is_in_ini=chance.random() < 0.2,
    )


def gate_case(task: tuple[int, int]) -> tuple[str, str | None]:
    """Lose a test in one way; return the name of the case and its problem."""
    number, seed = task
    case = cases(ways(), number + 1, seed)[-1]
    return f"gate {number}, {case.name}", problem_of_case(case, is_lost=True)


def honest_case(task: tuple[int, int]) -> tuple[str, str | None]:
    """Run an honest suite; return the name of the case and its problem, which is that it is red."""
    number, seed = task
    case = cases(honest_ways(), number + 1, seed)[-1]
    if case.way.left_out is not None:
        case = replace(case, is_strict=False)  # which forbids it
    return f"honest {number}, {case.name}", problem_of_case(case, is_lost=False)


def problem_of_case(case: Case, *, is_lost: bool) -> str | None:
    """Return what is wrong with how pytest, or `gpuperf compare` after it, ended; KNOWN with what is not."""
    suite = case.way.suite(case.kind)
    with scratch() as folder:
        (folder / BASE).write_bytes(baseline(case.kind))
        case.way.prepare(folder / BASE)
        suite.write(folder, case.in_ini())
        variables = case.environment | suite.environment
        plugins = ("xdist",) if case.processes else ()
        typed = (*case.typed(), "--gpuperf-json=r.json", *suite.typed)
        ran = pytest(folder, *typed, plugins=plugins, **variables)
        if problem := problem_of(ran):
            return f"{problem}\n{ran.last_lines}"
        compared = _compare(folder, case)
    must_be_red = is_lost and case.left_out is None
    if problem := _judged(case, ran, must_be_red=must_be_red):
        return problem
    if compared is not None:
        if compared.code not in range(4):
            return f"traceback: gpuperf compare: {compared.output[-300:]}"
        if (compared.code != 0) is not must_be_red:
            colour = "false red" if compared.code else "false green"
            return f"{colour}: gpuperf compare ended with {compared.code}: {compared.last_lines}"
    return f"{KNOWN}{ran.last_lines.splitlines()[-1]}" if is_lost and not must_be_red else None


def _judged(case: Case, ran: Ran, *, must_be_red: bool) -> str | None:
    """Return what is wrong with how pytest ended; the last line has to say what the user left out."""
    if (ran.code != 0) is not must_be_red:
        return f"false {'red' if ran.code else 'green'}: pytest ended with {ran.code}: {ran.last_lines}"
    left_out, last = case.left_out, ran.last_lines.rstrip().rpartition("\n")[2]
    if left_out is not None and not re.search(rf"\b{left_out} left out by the command line", last):
        return f"silent green: the last line does not say that {left_out} were left out: {ran.last_lines}"
    return None


def _compare(folder: Path, case: Case) -> Ran | None:
    """Run `gpuperf compare` on the report of the run, if there is one."""
    if not (folder / "r.json").exists():
        return None
    return command("compare", str(folder / BASE), str(folder / "r.json"), *case.compared())


def command(*arguments: str) -> Ran:
    """Run a command of ours in this process; a traceback is its output, and it then has no exit code."""
    output, started = io.StringIO(), time.monotonic()
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            code: Any = cli.main(list(arguments))
    except SystemExit as error:
        code = error.code
    except BaseException:  # noqa: BLE001 - a traceback is what is looked for
        code = None
        output.write(traceback.format_exc())
    return Ran(code=code, output=output.getvalue(), seconds=time.monotonic() - started)


def _devices(kind: Kind) -> tuple[str, str]:
    """Return the options that choose the devices, and a lock of their own: simulated times need no quiet."""
    return f"--gpuperf-gpu={kind.gpu}", "--gpuperf-lock=lock"


@cache
def baseline(kind: Kind) -> bytes:
    """Return the baseline of an honest suite, with all metrics that this kind has."""
    with scratch() as folder:
        Suite(kind=kind).write(folder)
        metrics = [f"--gpuperf-fail-on={each}:10%" for each in kind.metrics]
        create = (f"--gpuperf-baseline={BASE}", "--gpuperf-baseline-missing=create")
        ran = pytest(folder, *_devices(kind), *create, *metrics)
        if ran.code != 0:
            raise RuntimeError(f"no baseline of {kind.name}: {ran.output}")
        return (folder / BASE).read_bytes()


# ---------------------------------------------------------------------------------------------------------
# Files: each command on files that are cut, bent and merged
# ---------------------------------------------------------------------------------------------------------

COMMANDS = (
    ("show", "{file}"),
    ("validate", "{file}"),
    ("compare", "{good}", "{file}"),
    ("compare", "{file}", "{good}"),
    ("export", "{file}", "--as", "csv"),
    ("export", "{file}", "--as", "github-action-benchmark"),
    ("export", "{file}", "--as", "bencher"),
    ("export", "{file}", "--as", "markdown"),
    ("merge", "{good}", "{file}", "-o", "{new}"),
    ("recover", "{file}", "{new}"),
    ("baseline", "update", "{new}", "{file}"),
    ("history", "{folder}"),
)
STRANGE: tuple[Any, ...] = (
    None, True, -1, 0, 1e308, 10**400, "", "\x1b[2J", "\u202e", "x" * 3000, [], {}, [None],
    "nan", "../../x", "bogus",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Good:
    """Files that are right, to be bent."""

    report: bytes
    journal: bytes
    history: bytes


def good_files(folder: Path) -> Good:
    """Return the files of a run, and the journal of one that was killed."""
    suite(folder)
    keep = (
        "import glob\nimport shutil\n\n"
        "def pytest_sessionfinish():\n    shutil.copy(glob.glob('*.journal')[0], 'kept')\n"
    )
    (folder / "keep.py").write_text(keep, encoding="utf-8")
    ran = pytest(folder, "--gpuperf-json=r.json", "--gpuperf-history=past", "-pkeep")
    if ran.code != 0:
        raise RuntimeError(ran.output)
    history = next((folder / "past").glob("*.json"))
    return Good(
        report=(folder / "r.json").read_bytes(),
        journal=(folder / "kept").read_bytes(),
        history=history.read_bytes(),
    )


def bent(content: bytes, chance: Random) -> bytes:
    """Return a file that is wrong somewhere: in its bytes, or in one value of its JSON."""
    kind = chance.choice(("cut", "byte", "value", "value", "value", "twice", "swap", "noise"))
    lines = content.splitlines(keepends=True)
    if kind == "cut":
        return content[: chance.randrange(len(content))]
    if kind == "byte":
        place = chance.randrange(len(content))
        return content[:place] + bytes([chance.randrange(256)]) + content[place + 1 :]
    if kind == "twice":
        place = chance.randrange(len(lines))
        return b"".join([*lines[:place], lines[place], *lines[place:]])
    if kind == "swap":
        chance.shuffle(lines)
        return b"".join(lines)
    if kind == "noise":
        return chance.randbytes(chance.randrange(200))
    try:
        document = json.loads(content)
    except ValueError:  # a journal: one document a line
        place = chance.randrange(len(lines))
        lines[place] = json.dumps(_with_one_changed(json.loads(lines[place]), chance)).encode() + b"\n"
        return b"".join(lines)
    return json.dumps(_with_one_changed(document, chance)).encode()


def _with_one_changed(document: Any, chance: Random) -> Any:
    """Change, remove or add one value, somewhere."""
    places = list(_places(document))
    holder, key = chance.choice(places)
    action = chance.choice(("change", "change", "remove", "add"))
    if action == "remove":
        del holder[key]
    elif action == "add" and isinstance(holder, dict):
        holder[chance.choice(("more", "", "__class__", "records"))] = chance.choice(STRANGE)
    else:
        holder[key] = chance.choice(STRANGE)
    return document


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    items: Any = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in list(items):
        yield value, key
        if isinstance(inner, dict | list):
            yield from _places(inner)


def files_case(task: tuple[int, int]) -> tuple[str, str | None]:
    """Give a thousand bent files to the commands; return the first problem."""
    number, seed = task
    chance = Random(f"{seed} {number}")  # noqa: S311 - a simulation
    with scratch() as folder:
        (folder / "made").mkdir()
        made = good_files(folder / "made")
        (folder / "good.json").write_bytes(made.report)
        for attempt in range(FILES_A_CASE):
            command = chance.choice(COMMANDS)
            problem = _one_file(folder, made, command, chance)
            if problem:
                return f"files, {number}, attempt {attempt}, {command[0]}", problem
    return f"files, {number}", None


FILES_A_CASE = 500


def _one_file(folder: Path, made: Good, command: Sequence[str], chance: Random) -> str | None:
    right = {"recover": made.journal, "history": made.history}.get(command[0], made.report)
    if chance.random() < 0.1:
        right = chance.choice((made.journal, made.history, made.report))
    place = folder / "past" if command[0] == "history" else folder
    place.mkdir(exist_ok=True)
    file, new = place / "bent.json", folder / "new.json"
    file.write_bytes(bent(right, chance))
    names = {"file": file, "good": folder / "good.json", "new": new, "folder": place}
    before = set(folder.iterdir())
    output = io.StringIO()
    started = time.monotonic()
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            code: Any = cli.main([part.format(**names) for part in command])
    except SystemExit as error:
        code = error.code
    except BaseException:  # noqa: BLE001 - a traceback is what is looked for
        return f"traceback: {traceback.format_exc()[-300:]}"
    if time.monotonic() - started > LONGEST:
        return "hang"
    text = output.getvalue().replace("\r\n", "\n")  # which end the lines of CSV
    if code not in (0, 1, 2, 3):
        return f"exit code {code}"
    if (found := re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)) is not None:
        return f"a control character, {found[0]!r}, reached the terminal"
    if strangers := set(folder.iterdir()) - before - {new}:
        return f"a file that nobody named: {strangers}"
    new.unlink(missing_ok=True)
    return None


# ---------------------------------------------------------------------------------------------------------
# Signals: what had finished before a run was killed is in its report or its journal
# ---------------------------------------------------------------------------------------------------------

SLOW_SUITE = """
import time
import pytest

@pytest.mark.speedup
@pytest.mark.parametrize("n", range(8))
def test_it(device, n):
    time.sleep(0.03)
    return lambda: device.launch(0.001 if device.kind == "cpu" else 0.0001)
"""
SIGNALS = {
    "SIGINT": (signal.SIGINT,),
    "SIGINT twice": (signal.SIGINT, signal.SIGINT),
    "SIGTERM": (signal.SIGTERM,),
    "SIGKILL": (signal.SIGKILL,),
    "SIGKILL after the first test": (signal.SIGKILL,),
    "SIGKILL, -n2": (signal.SIGKILL,),
}


def signals_case(task: tuple[int, int]) -> tuple[str, str | None]:
    """Kill a run somewhere; return its problem if a finished test is neither in a report nor in a journal."""
    number, seed = task
    name = list(SIGNALS)[number % len(SIGNALS)]
    chance = Random(f"{seed} {number}")  # noqa: S311 - a simulation
    label = f"signals, {name}, {number}"
    with scratch() as folder:
        suite(folder, **{"test_g.py": SLOW_SUITE, "test_h.py": SLOW_SUITE})
        workers = ("-pxdist", "-n2") if "-n2" in name else ()
        with (folder / "output").open("w") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "pytest", *PLUGIN, *workers, "--gpuperf-json=r.json"],
                cwd=folder,
                env=environment(DONE=str(folder / "done")),
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
            _wait_for(folder / "done", process)
            time.sleep(0.0 if "first" in name else chance.uniform(0.0, 1.0))
            for each in SIGNALS[name]:
                _send(process, each, to_all="-n2" in name)
                time.sleep(0.02)
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return label, "hang"
        return label, _lost(folder)


def _wait_for(path: Path, process: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + PATIENCE
    while not path.exists() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.005)


def _send(process: "subprocess.Popen[bytes]", which: signal.Signals, *, to_all: bool) -> None:
    with contextlib.suppress(ProcessLookupError):
        if to_all:
            os.killpg(process.pid, which)
        else:
            process.send_signal(which)


def _lost(folder: Path) -> str | None:
    output = (folder / "output").read_text(errors="replace")
    if found := of_ours(output):
        return f"traceback: {found}"
    done = set((folder / "done").read_text().split("\n")[:-1]) if (folder / "done").exists() else set()
    report = folder / "r.json"
    journals = list(folder.glob("*journal*"))
    if not report.exists() and journals:
        with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(said):
            code = cli.main(["recover", str(journals[0]), str(report)])
        if code != 0:
            return f"lost: recover ended with {code}: {said.getvalue()}"
    if not report.exists():
        return f"lost: {len(done)} finished tests are nowhere" if done else None
    records = json.loads(report.read_text())["records"]
    kept = {record["nodeid"] for record in records if record["cpu"]}
    return f"lost: {sorted(done - kept)}" if done - kept else None


# ---------------------------------------------------------------------------------------------------------
# Faults: what one test does must not cost the measurements of its neighbours
# ---------------------------------------------------------------------------------------------------------

FAULTS = {
    "raises": "raise ValueError('x')",
    "raises with a large text": "raise ValueError('x' * 4_000_000)",  # pytest takes 1 s for 5 MB
    "raises with escapes": "raise ValueError('\\x1b[2J\\x07')",
    "raises with surrogates": "raise ValueError('\\udcff')",
    "str raises": "class E(Exception):\n        def __str__(self): raise RuntimeError('s')\n    raise E()",
    "str exits": "class E(Exception):\n        def __str__(self): raise SystemExit(3)\n    raise E()",
    "repr raises": "class E(Exception):\n        def __repr__(self): raise RuntimeError('s')\n    raise E()",
    "str returns int": "class E(Exception):\n        def __str__(self): return 3\n    raise E()",
    "exits": "raise SystemExit(0)",
    "memory": "raise MemoryError()",
    "recursion": "f = lambda f: f(f)\n    f(f)",
    "group": "raise ExceptionGroup('g', [ValueError('a'), TypeError('b')])",
    "base exception": "class B(BaseException): pass\n    raise B('x')",
    "generator exit": "raise GeneratorExit()",
    "skips": "pytest.skip('s')",
    "xfails": "pytest.xfail('x')",
    "fails": "pytest.fail('f', pytrace=False)",
    "closes standard output": "import sys; sys.stdout.close()",
    "no standard output": "import sys; sys.stdout = None",
    "leaves the folder": "import os, tempfile; os.chdir(tempfile.mkdtemp())",
    "its folder is gone": "import os, tempfile; d = tempfile.mkdtemp(); os.chdir(d); os.rmdir(d)",
    "clears the environment": "import os; os.environ.clear()",
    "umask": "import os; os.umask(0o777)",
    "no garbage collection": "import gc; gc.disable()",
    "recursion limit": "import sys; sys.setrecursionlimit(140)",
    "warnings are errors": "import warnings; warnings.simplefilter('error')",
    "warns": "import warnings; warnings.warn('w')",
    "time is mocked": "import time; time.time = lambda: -1.0",
    "clock is nan": "import time; time.perf_counter = lambda: float('nan')",
    "json is mocked": "import json; json.dumps = json.loads = None",
    "open is mocked": "import builtins; builtins.open = None",
    "no import path": "import sys; sys.path.clear(); sys.path_importer_cache.clear()",
    "NumPy raises": "import numpy; numpy.seterr(all='raise')",
    "decimal context": "import decimal; decimal.getcontext().prec = 1",
    "a thread raises": "import threading; threading.Thread(target=lambda: 1 / 0).start()",
    "returns a generator": "return (n for n in range(3))",
    "returns a class": "return dict",
    "returns a large int": "return lambda: 10 ** 5000",
    "returns nan": "return lambda: float('nan')",
    "returns itself": "a = []; a.append(a); return lambda: a",
    "returns deep lists": "a = []\n    for _ in range(5000): a = [a]\n    return lambda: a",
    "returns a bad equality": "class Q:\n        def __eq__(self, o): raise ValueError\n    return Q",
    "returns text with escapes": "return lambda: '\\x1b[2J'",
    "returns None": "return None",
    "is async": "async def f(): pass\n    return f",
    "takes arguments": "return lambda x: x",
    "asserts": "assert [1, 2] == [2, 1]",
}  # fmt: skip
FAULTY = """
import pytest

def work(device):
    return lambda: device.launch(0.001 if device.kind == "cpu" else 0.0001)

@pytest.mark.speedup(min=2)
def test_a(device):
    return work(device)

{marker}
def test_m(device):
    {body}

@pytest.mark.speedup(min=2)
def test_z(device):
    return work(device)
"""
ENDS_THE_RUN = (
    "closes standard output",
    "json is mocked",
    "open is mocked",
    "no import path",
    "clock is nan",
    "umask",
)
"""After these pytest itself may be unable to go on; what was measured before must still be there."""
ENDS_XDIST = "raises with surrogates"
"""pytest-xdist itself, without this plugin, ends with an INTERNALERROR for it."""
FAULT_MODES: dict[str, tuple[tuple[str, ...], str, bool]] = {
    # arguments, marker, whether the fault is in the call and not in the body
    "body, min": (("--gpuperf-json=r.json",), "@pytest.mark.speedup(min=2)", False),
    "call, min": (("--gpuperf-json=r.json",), "@pytest.mark.speedup(min=2)", True),
    "body, bare": (("--gpuperf-json=r.json", "--junit-xml=j.xml"), "@pytest.mark.speedup", False),
    "call, gate": (
        ("--gpuperf-json=r.json", "--gpuperf-baseline=b.json", "--gpuperf-baseline-missing=create"),
        "@pytest.mark.speedup(min=2)",
        True,
    ),
    "body, -n2": (("-pxdist", "-n2", "--gpuperf-json=r.json"), "@pytest.mark.speedup(min=2)", False),
}


def faults_case(task: tuple[int, int]) -> tuple[str, str | None]:
    """Run one fault in one mode; return its problem."""
    number, _ = task
    cases = list(product(FAULTS.items(), FAULT_MODES.items()))
    (name, body), (mode, (arguments, marker, in_call)) = cases[number % len(cases)]
    if name == ENDS_XDIST:
        arguments = tuple(each for each in arguments if each not in ("-pxdist", "-n2"))
    if in_call and "return " not in body:
        body = "def call():\n        " + body.replace("\n    ", "\n        ") + "\n    return call"
    label = f"faults, {name}, {mode}"
    with scratch() as folder:
        (folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")
        (folder / "test_f.py").write_text(FAULTY.format(marker=marker, body=body), encoding="utf-8")
        ran = pytest(folder, *arguments)
        if problem := problem_of(ran):
            return label, problem
        report = folder / "r.json"
        journals = list(folder.glob("*journal*"))
        if not report.exists() and journals:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                cli.main(["recover", str(journals[0]), str(report)])
        if not report.exists():
            return label, f"lost: no report, and no journal; {ran.last_lines}"
        content = report.read_text(encoding="utf-8")
        if len(content) > 200_000:
            return label, f"a report of {len(content)} characters"
        records = {record["nodeid"][11:]: record["status"] for record in json.loads(content)["records"]}
    expected = ("test_a",) if name in ENDS_THE_RUN else ("test_a", "test_z")
    lost = [test for test in expected if records.get(test) != "passed"]
    if lost:
        return label, f"lost: {lost} in {records}"
    section = re.search(r"^-+ gpuperf -+$(.*?)^=+ ", ran.output, flags=re.DOTALL | re.MULTILINE)
    if section and re.search(r"\x1b\[2J|\x07", section[1]):  # the traceback above is pytest's
        return label, "a control character reached the terminal"
    return label, None


# ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """Make a folder, and remove it whatever was done to it."""
    folder = Path(tempfile.mkdtemp(prefix="hostile-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


CASES: dict[str, Callable[[tuple[int, int]], tuple[str, str | None]]] = {
    "gate": gate_case,
    "honest": honest_case,
    "files": files_case,
    "signals": signals_case,
    "faults": faults_case,
}


def numbers(part: str, wanted: int) -> list[int]:
    """Return the numbers of the cases of a part: all, or as many of them, spread evenly."""
    if part == "files":
        return list(range(max(1, wanted // FILES_A_CASE)))
    if part != "faults":
        return list(range(wanted))
    there = len(FAULTS) * len(FAULT_MODES)
    step = max(1, there // wanted)
    return list(islice(cycle(range(0, there, step)), min(wanted, there)))


def main() -> int:
    """Run the parts; print what was found, and the targets."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--part", choices=CASES, action="append", help="only these parts")
    parser.add_argument("--share", type=float, default=1.0, help="of all cases, 0.02 for example")
    parser.add_argument("--number", type=int, help="so many cases of each part, instead of a share")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    targets = []
    rows = []
    with Pool(arguments.processes) as pool:
        for part in arguments.part or CASES:
            wanted = arguments.number or int(arguments.share * EVERY_NUMBER[part])
            chosen = numbers(part, max(1, wanted))
            tasks = [(number, arguments.seed) for number in chosen]
            found = []
            for name, problem in pool.imap(CASES[part], tasks):
                if problem:
                    found.append(problem)
                    print(f"{name}: {problem}", flush=True)
            kinds = Counter(problem.partition(":")[0] for problem in found)
            count = len(chosen) * (FILES_A_CASE if part == "files" else 1)
            rows.append([part, f"{count:,}", ", ".join(f"{n} {kind}" for kind, n in kinds.items()) or "none"])
            targets += targets_of(part, kinds)
    table(["part", "cases", "found"], rows)
    return conclude(targets)


def targets_of(part: str, found: Mapping[str, int]) -> list[Target]:
    """Return what a part should not find, from how often it found what; KNOWN is no problem."""
    problems = {kind: count for kind, count in found.items() if not KNOWN.startswith(kind)}
    if part not in ("gate", "honest"):
        return [Target(name=f"{part}: problems", figure=sum(problems.values()), limit=0)]
    green = problems.get("false green", 0) + problems.get("silent green", 0)
    red = problems.get("false red", 0)
    figures = {
        "wrongly green": green,
        "wrongly red": red,
        "tracebacks, hangs": sum(problems.values()) - green - red,
    }
    return [Target(name=f"{part}: {name}", figure=figure, limit=0) for name, figure in figures.items()]


if __name__ == "__main__":
    sys.exit(main())
