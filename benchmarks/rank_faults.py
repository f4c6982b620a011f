"""Faults in a scaling test with `ranks`: whether each ends it on all ranks, in words, and leaves no process.

A launch of two or three ranks has one fault: at a place of the test, in rank 0 or another one. Limits of half
a minute and more, for which ranks wait for each other, are some seconds here.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from time import monotonic, sleep

from common import Target, conclude, table

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "rank_faults.json"
PLACES = ("fixture", "body", "call", "later call")
ANYWHERE = ("raise", "skip", "exit", "kill", "hang", "hang in C")
FAULTS = (
    *product(ANYWHERE, PLACES),
    *product(("barrier",), PLACES[1:]),
    *product(("collection",), ("a test less", "another order")),
)
RANKS = {"variables": 3, "plain": 2, "torchrun": 2, "mpiexec": 2}
LAUNCHERS = tuple(RANKS)
AFTER_KNOWN = 5.0  # seconds in which all processes should end
PATIENCE = 60.0  # seconds after which a launch hangs
MARK = "RANK_FAULT"

CAUSES = {
    "raise": "(raised )?ValueError: odd",
    "skip": "not here",
    "exit": "was killed or crashed",
    "kill": "was killed or crashed",
    "hang": "has said nothing for",
    "hang in C": "has said nothing for",
    "barrier": r"at another place of the test .* than rank|waits in ranks\.barrier\(\)",
    "collection": "the ranks have collected different tests|in another order",
}
"""By kind of fault, a pattern for the message that names it, after the number of the rank."""

OF_RANK_0 = {
    "skip": "not here",
    "exit": "rank 0 ended with exit status 3",
    "kill": "rank 0 was ended by signal 9",
}
"""What plain pytest says of a fault of rank 0, which does not live to tell it, or skips as one alone does."""

MPICH_SAYS = r"^=\s+(RANK \d+ )?PID \d+ RUNNING AT \S+$"

CONFTEST = """
import os
import signal
import time
from pathlib import Path
import pytest
from pytest_gpuperf.devices.simulated import SimulatedBackend, Timing
from pytest_gpuperf.session.ranks import patience, process, roles

patience._SHORTEST = 1.0
roles._JOIN, roles._LONGEST, roles._ANSWER, roles._IDLE, roles._GRACE = 30.0, 4.0, 1.0, 2.0, 2.0

send_signal = process.send_signal

def send(to, number):
    if number == signal.SIGTERM:
        Path(f"known-{os.getpid()}").write_text(str(time.monotonic()))
    send_signal(to, number)

process.send_signal = send

def pytest_collection_finish():
    if os.environ["RANK_FAULT"].startswith("collection"):  # of ranks that a launcher has started
        Path(f"fault-{os.getpid()}").write_text(str(time.monotonic()))

@pytest.hookimpl(optionalhook=True)
def pytest_gpuperf_devices():
    return [SimulatedBackend(name="one", gpu=Timing(kernel=0.0))]
"""
SUITE = """
import ctypes
import os
import signal
import time
from pathlib import Path
import numpy as np
import pytest

RANK = int(os.environ.get("RANK", os.environ.get("PMI_RANK", -1)))  # -1: of pytest that starts ranks
KIND, PLACE, IN_RANK = os.environ["RANK_FAULT"].split(",")[:3]
IS_HERE = RANK == int(IN_RANK)
MUTEX = ctypes.create_string_buffer(64)

def fault(place, ranks=None):
    if place != PLACE or not IS_HERE:
        return
    Path(f"fault-{os.getpid()}").write_text(str(time.monotonic()))
    if KIND == "raise":
        raise ValueError("odd")
    if KIND == "skip":
        pytest.skip("not here")
    if KIND == "exit":
        os._exit(3)
    if KIND == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if KIND == "hang":
        time.sleep(3600)
    if KIND == "hang in C":
        for _ in range(2):
            ctypes.CDLL(None).pthread_mutex_lock(MUTEX)
    if KIND == "barrier":
        ranks.barrier()

@pytest.fixture
def prepared(request):
    if "1rank" not in request.node.name:
        fault("fixture")

@pytest.mark.scaling([1, RANKS], efficiency=0.01)
def test_step(ranks, prepared):
    calls = []
    part = ranks.asarray(np.arange(24.0), shard=0)
    if ranks.count > 1:
        fault("body", ranks)
    def step():
        calls.append(1)
        if ranks.count > 1 and len(calls) == 1:
            fault("call", ranks)
        if ranks.count > 1 and len(calls) == 12:
            fault("later call", ranks)
        time.sleep(1e-3)
        ranks.device.launch(1e-2 / ranks.count)
        return part * 2
    return step

if KIND == "collection":
    def test_other(device):
        return lambda: None
    test_other = pytest.mark.speedup(test_other)
    if IS_HERE and PLACE == "a test less":
        del test_other
    if IS_HERE and PLACE == "another order":
        first, test_step = test_step, test_other
        test_other = first

def test_after():
    pass
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault of one rank in a launch of so many."""

    launcher: str
    kind: str
    place: str
    rank: int

    @property
    def name(self) -> str:
        """What a line calls it."""
        return f"{self.launcher}, {self.kind}, {self.place}, rank {self.rank}"

    @property
    def ends_well(self) -> bool:
        """Whether the launch shall have exit status 0: a skip is one on all ranks."""
        return self.kind == "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a launch ended: exit statuses of what was started, and the seconds since the fault was known.

    `cause` is the line that names it, `report` whether there is one, `left` how many processes were left.
    """

    fault: Fault
    hangs: bool
    seconds: float | None
    statuses: list[int]
    cause: str | None
    report: bool
    left: int

    @property
    def has_right_status(self) -> bool:
        """Whether the launch has failed, or passed with a skip."""
        return all(status == 0 for status in self.statuses) == self.fault.ends_well

    @property
    def shall_report(self) -> bool:
        """Whether rank 0 can write a report: it lives, has collected tests, and is not killed by MPICH."""
        fault = self.fault
        is_killed = fault.launcher == "mpiexec" and fault.kind == "kill"
        return fault.rank != 0 and fault.kind != "collection" and not is_killed

    @property
    def problems(self) -> list[str]:
        """What is not as it should be."""
        slow = self.seconds is None or self.seconds > AFTER_KNOWN
        found = {
            "hangs": self.hangs,
            "slow": slow and not self.hangs,
            "exit status": not self.has_right_status,
            "no cause": self.cause is None,
            "no report": not self.report and self.shall_report,
            "left": bool(self.left),
        }
        return [name for name, is_so in found.items() if is_so]


def main() -> int:
    arguments = read_arguments()
    launchers = [name for name in LAUNCHERS if name != "mpiexec" or arguments.mpiexec]
    if not arguments.mpiexec:
        print("mpiexec is not there: pass its path with --mpiexec\n")
    faults = [
        Fault(launcher=launcher, kind=kind, place=place, rank=rank)
        for launcher, (kind, place), rank in product(launchers, FAULTS, (0, 1))
    ]
    # Ranks of plain pytest run the tests of that, whatever else they collect.
    faults = [fault for fault in faults if fault.launcher != "plain" or fault.kind != "collection"]
    faults = [fault for fault in faults if arguments.only in fault.name]
    found = []
    for fault in faults:
        with tempfile.TemporaryDirectory() as folder:
            found.append(launch(fault, Path(folder), arguments))
        problems = ", ".join(found[-1].problems)
        if problems or arguments.verbose:
            print(f"{fault.name}: {problems or 'fine'}", flush=True)
    print_table(found)
    if not arguments.only:
        written = [{**asdict(each), "problems": each.problems} for each in found]
        arguments.out.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    return conclude(targets(found))


def read_arguments() -> Namespace:
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mpiexec", default=shutil.which("mpiexec"), help="path of MPICH's")
    parser.add_argument("--only", default="", help="faults of such a name alone; writes no results")
    parser.add_argument("--verbose", action="store_true", help="print each fault, and what wrong ones print")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


# ---------------------------------------------------------------------------------------------------------
# One launch
# ---------------------------------------------------------------------------------------------------------


def launch(fault: Fault, folder: Path, arguments: Namespace) -> Ended:
    """Start a launch that has a fault, and wait until all of its processes have ended."""
    ranks = RANKS[fault.launcher]
    (folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (folder / "test_it.py").write_text(SUITE.replace("RANKS]", f"{ranks}]"), encoding="utf-8")
    mark = f"{fault.kind},{fault.place},{fault.rank},{folder.name}"
    output = folder / "output"
    with output.open("wb") as file:
        start = partial(
            subprocess.Popen, cwd=folder, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
        processes = [
            start(command, env=environment)
            for command, environment in commands(fault.launcher, ranks, arguments.mpiexec, folder, mark)
        ]
        hangs = not all_end(processes, monotonic() + PATIENCE)
    ended = monotonic()
    left = 0
    if not hangs:
        sleep(0.2)  # what the system has not removed yet
    for process in marked(mark):
        left += 1
        with suppress(OSError):
            os.kill(process, signal.SIGKILL)
    statuses = [process.wait() for process in processes]
    said = output.read_text(encoding="utf-8", errors="replace")
    report = folder / "report.json"
    if report.exists():
        said += "\n".join(str(each["reason"]) for each in json.loads(report.read_text("utf-8"))["records"])
    found = Ended(
        fault=fault,
        hangs=hangs,
        seconds=None if (known := known_at(fault, folder)) is None else ended - known,
        statuses=statuses,
        cause=cause_in(said, fault),
        report=report.exists(),
        left=left,
    )
    if arguments.verbose and found.problems:
        print(said, found)
    return found


def commands(
    launcher: str, ranks: int, mpiexec: str, folder: Path, mark: str
) -> Iterator[tuple[Sequence[str], Mapping[str, str]]]:
    """Yield what a launch starts: the command and the environment of each process."""
    pytest = [sys.executable, "-m", "pytest", "-pgpuperf", "-pno:cacheprovider", "-rs", f"--rootdir={folder}"]
    pytest += ["-c", os.devnull, "--gpuperf-gpu=one", "--gpuperf-lock=none", "--gpuperf-max-time=0.5"]
    pytest += ["--gpuperf-json=report.json", str(folder)]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "OMP_NUM_THREADS": "1",
        MARK: mark,
    }
    if launcher == "torchrun":
        torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", "--no-python"]
        yield [sys.executable, *torchrun, *pytest], environment
    elif launcher == "mpiexec":
        yield [mpiexec, "-n", str(ranks), *pytest], environment
    elif launcher == "plain":
        yield pytest, environment
    else:
        of_launch = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "localhost", "MASTER_PORT": folder.name}
        for rank in map(str, range(ranks)):
            yield pytest, {**environment, **of_launch, "RANK": rank, "LOCAL_RANK": rank}


def all_end(processes: Sequence[subprocess.Popen[bytes]], until: float) -> bool:
    """Wait until all processes have ended; return whether they did in time."""
    for process in processes:
        try:
            process.wait(max(0.0, until - monotonic()))
        except subprocess.TimeoutExpired:
            return False
    return True


def marked(mark: str) -> Iterator[int]:
    """Yield the processes of a launch that are there."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                yield int(folder.name)


def known_at(fault: Fault, folder: Path) -> float | None:
    """Return when a fault was known: one that hangs when another rank was asked to end, others at once."""
    name = "known" if fault.kind.startswith("hang") else "fault"
    times = [float(file.read_text("utf-8")) for file in folder.glob(f"{name}-*")]
    if not times:
        return None
    return max(times) if fault.kind == "collection" else min(times)  # once all have collected


def cause_in(said: str, fault: Fault) -> str | None:
    """Return the first line that names the rank and the fault."""
    pattern = rf"^.*\brank {fault.rank}\b.*({CAUSES[fault.kind]}).*$"
    if fault.kind in ("collection", "barrier"):  # a sentence on two ranks
        pattern = rf"^.*({CAUSES[fault.kind]}).*$"
    if fault.launcher == "plain" and fault.rank == 0 and fault.kind in OF_RANK_0:
        pattern = rf"^.*{OF_RANK_0[fault.kind]}.*$"
    if fault.launcher == "mpiexec" and fault.kind == "kill":  # it kills all ranks at once, and says this
        pattern = rf"{pattern}|{MPICH_SAYS}"
    found = re.search(pattern, said, re.MULTILINE)
    return found[0] if found else None


# ---------------------------------------------------------------------------------------------------------
# Tables and targets
# ---------------------------------------------------------------------------------------------------------


def print_table(found: Sequence[Ended]) -> None:
    """Print by launcher and kind of fault what was found."""
    rows = []
    for launcher, kind in dict.fromkeys((each.fault.launcher, each.fault.kind) for each in found):
        alike = [each for each in found if (each.fault.launcher, each.fault.kind) == (launcher, kind)]
        slowest = max((each.seconds for each in alike if each.seconds is not None), default=0.0)
        counts = [
            sum(each.hangs for each in alike),
            sum(not each.has_right_status for each in alike),
            sum(each.cause is None for each in alike),
            sum(each.report for each in alike),
            sum(each.left for each in alike),
        ]
        rows.append([f"{launcher}, {kind}", str(len(alike)), f"{slowest:.1f} s", *map(str, counts)])
    header = ["fault", "launches", "slowest end", "hang", "wrong status", "no cause", "reports", "left"]
    table(header, rows)


def targets(found: Sequence[Ended]) -> list[Target]:
    """Return what should be so."""
    known = [each.seconds for each in found if each.seconds is not None]
    numbers = {
        "launches that hang": sum(each.hangs for each in found),
        "launches with a wrong exit status": sum(not each.has_right_status for each in found),
        "faults without a cause": sum(each.cause is None for each in found),
        "processes left": sum(each.left for each in found),
    }
    return [
        *(Target(name=name, figure=number, limit=0) for name, number in numbers.items()),
        Target(
            name="seconds from a known fault to the end of all",
            figure=max(known, default=0.0),
            limit=AFTER_KNOWN,
        ),
        Target(name="faults", figure=len(found), limit=100, at_least=True),
    ]


if __name__ == "__main__":
    sys.exit(main())
