"""How clear cases end while other processes keep every processor busy: NumPy products on two BLAS threads.

The GPU is exact: its work takes a fixed time, whatever else the machine does. What the tests found is read
from the report of a session of pytest.
"""

import json
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, thread_time
from typing import Any

import numpy as np
from common import ALONE, Target, conclude, pytest, table

from pytest_gpuperf.devices.environment import one_thread
from pytest_gpuperf.devices.host import HostDevice

LIMIT = 3.0
SIZES = (256, 1000)  # about 1 ms and 30 ms on two quiet processors
CELLS = {f"{speedup:g}x,{size}": (speedup, size) for speedup in (10.0, 1.0) for size in SIZES}
OURS = ("-p", "pytest_gpuperf.plugin", "--gpuperf-gpu=exact", "--gpuperf-json=report.json")
TESTS_FAILED = (0, 1)  # by exit status; whatever else is an error
THREADS = {"OPENBLAS_NUM_THREADS": "2"}

CONFTEST = """
import pytest
from busy import ExactBackend

@pytest.hookimpl(optionalhook=True)
def pytest_gpuperf_devices():
    return [ExactBackend()]
"""
BUSY = """
import numpy as np
import pytest
from busy import own_time

@pytest.mark.parametrize("number", range({runs}))
@pytest.mark.speedup(min={limit})
def test_product(device, number):
    matrix = np.random.default_rng(0).random(({size}, {size}))
    result, seconds = matrix @ matrix, own_time(matrix) / {speedup}
    if device.kind == "cpu":
        return lambda: matrix @ matrix
    return lambda: (device.launch(seconds), result)[1]
"""


class ExactGpu(HostDevice):
    """A device whose work takes a fixed time, whatever else the machine does."""

    kind = "gpu"
    backend = "exact"
    processor_time: Any = None

    def __init__(self) -> None:
        super().__init__("exact GPU")
        self.info = replace(self.info, kind="gpu", backend=self.backend)
        self._ahead = self._work = 0.0
        self._began = perf_counter()

    def clock(self) -> float:
        """Return the time, as if the work since the last wait had taken exactly its time.

        Work begins when the clock was last read before it: on a busy machine, too, it never goes back.
        """
        now = perf_counter()
        if not self._work:
            self._began = now
        return now + self._ahead

    def launch(self, seconds: float) -> None:
        """Add work."""
        self._work += seconds

    def synchronize(self) -> None:
        """Let the clock show the work that was added, and no more."""
        now = perf_counter()
        if self._work:
            self._ahead += self._work - (now - self._began)
        self._began, self._work = now, 0.0


class ExactBackend:
    """`--gpuperf-gpu=exact`: NumPy beside an exact GPU."""

    name = "exact"
    automatic = False

    def check(self, selector: str) -> None:
        """Accept anything: there is one device."""

    def gpu(self, selector: str) -> ExactGpu:  # noqa: ARG002 - the protocol passes it
        """Return the exact GPU."""
        return ExactGpu()

    def cpu(self) -> HostDevice:
        """Return NumPy."""
        return HostDevice("the CPU")


@contextmanager
def neighbours(count: int) -> Iterator[None]:
    """Keep so many processes busy."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()


def own_time(matrix: "np.ndarray[Any, Any]") -> float:
    """Return the seconds of a product on as many threads as it may use, without other work."""
    with one_thread() as threads:
        matrix @ matrix
        started = thread_time()
        for _ in range(5):
            matrix @ matrix
        return (thread_time() - started) / 5 / (threads or 1)


def statuses(speedup: float, size: int, runs: int) -> "Counter[str]":
    """Return how so many tests end in which the GPU is so many times as fast as the quiet CPU."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")
        text = BUSY.format(runs=runs, limit=LIMIT, size=size, speedup=speedup)
        (folder / "test_busy.py").write_text(text, encoding="utf-8")
        variables = {**ALONE, **THREADS, "PYTHONPATH": str(Path(__file__).parent)}
        pytest("-q", *OURS, folder=folder, variables=variables, allowed=TESTS_FAILED)
        report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    found = Counter(record["status"] for record in report["records"])
    if found.total() != runs or found["error"] or found["skipped"]:
        raise SystemExit(f"not all tests were measured: {dict(found)}")
    return found


def main(options: Namespace) -> int:
    """Measure the cells, print what was found, and return the exit status."""
    rows, targets = [], []
    with neighbours(options.load):
        for name in options.cell or CELLS:
            speedup, size = CELLS[name]
            started = perf_counter()
            found = statuses(speedup, size, options.runs)
            each = (perf_counter() - started) / options.runs
            share = {
                status: 100 * found[status] / options.runs for status in ("passed", "failed", "inconclusive")
            }
            rows.append([name, *(f"{one:.1f} %" for one in share.values()), f"{each:.1f} s"])
            passed, failed = (f"{name}: {status}, %" for status in ("passed", "failed"))
            if speedup > LIMIT:
                targets.append(Target(name=failed, figure=share["failed"], limit=0.0))
                targets.append(Target(name=passed, figure=share["passed"], limit=95.0, at_least=True))
            else:
                targets.append(Target(name=passed, figure=share["passed"], limit=2.5))
    table(["true speedup, size", "passed", "failed", "inconclusive", "a run"], rows)
    return conclude(targets)


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=500, help="tests in each cell (default: %(default)s)")
    parser.add_argument(
        "--cell", action="append", choices=CELLS, help="measure this cell only; may be repeated"
    )
    parser.add_argument(
        "--load", type=int, default=5, help="busy processes beside them (default: %(default)s)"
    )
    sys.exit(main(parser.parse_args()))
