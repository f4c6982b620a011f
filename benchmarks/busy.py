"""How clear cases end while other processes keep every processor busy: NumPy products on two BLAS threads."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")  # read by NumPy when it is loaded

import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from time import perf_counter, thread_time
from typing import Any

import numpy as np
from common import Target, conclude, table

from pytest_gpuperf.devices.environment import one_thread
from pytest_gpuperf.devices.host import HostDevice
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.timing.trial import Trial

LIMIT = 3.0
SIZES = (256, 1000)  # about 1 ms and 30 ms on two quiet processors
CELLS = {f"{speedup:g}x,{size}": (speedup, size) for speedup in (10.0, 1.0) for size in SIZES}


class ExactGpu(HostDevice):
    """A device whose work takes a fixed time, whatever else the machine does."""

    kind = "gpu"
    processor_time = None

    def __init__(self) -> None:
        super().__init__("exact GPU")
        self.info = replace(self.info, kind="gpu", backend="exact")
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


def measured(gpu: ExactGpu, size: int, speedup: float, number: int) -> Record:
    """Return the record of one test in which the GPU is so many times as fast as the quiet CPU."""
    matrix = np.random.default_rng(0).random((size, size))
    result, seconds = matrix @ matrix, own_time(matrix) / speedup

    def body(device: Any) -> Any:
        if device.kind == "cpu":
            return lambda: matrix @ matrix
        return lambda: (device.launch(seconds), result)[1]

    def bind(device: TimedDevice) -> Any:
        return partial(body, device)

    trial = Trial(nodeid=f"test_{size}_{number}", demand=Demand(min=LIMIT), options=RunOptions())
    return trial.record(trial.compare(bind, HostDevice("CPU"), gpu))


def main(options: Namespace) -> int:
    """Measure the cells, print what was found, and return the exit status."""
    rows, targets = [], []
    with neighbours(options.load):
        for name in options.cell or CELLS:
            speedup, size = CELLS[name]
            gpu = ExactGpu()  # of all tests, as in a process: how its clocks rise is found once
            started = perf_counter()
            records = [measured(gpu, size, speedup, number) for number in range(options.runs)]
            each = (perf_counter() - started) / options.runs
            share = {
                status: 100 * sum(record.status == status for record in records) / len(records)
                for status in ("passed", "failed", "inconclusive")
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
