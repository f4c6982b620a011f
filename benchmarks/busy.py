"""How clear cases end beside other processes.

Those keep every processor busy, beside products on two BLAS threads; or they fill the memory's bandwidth, on
all processors but one, beside sums on one thread, which waits for no processor.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")  # read by NumPy when it is loaded

import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from time import perf_counter, sleep, thread_time
from timeit import repeat
from typing import Any

import numpy as np
from common import Target, conclude, table
from msgspec.structs import replace

from pytest_gpuperf.devices.environment import one_thread, usable_processors
from pytest_gpuperf.devices.host import HostDevice
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.timing.trial import Trial

LIMIT = 3.0
BUSY = "while True: pass"
FILLING = "import numpy; a = numpy.ones(16_000_000); b = a.copy()\nwhile True: b[:] = a"  # 128 MB each
SIZES = (256, 1000)  # about 1 ms and 30 ms on two quiet processors
MEMORY = 4_000_000  # numbers: 32 MB, more than caches hold for one processor


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A workload with a known speedup of the GPU over a quiet CPU, and the program that disturbs it."""

    speedup: float
    size: int
    program: str = BUSY


CELLS = {
    **{f"{speed:g}x,{size}": Cell(speedup=speed, size=size) for speed in (10.0, 1.0) for size in SIZES},
    **{f"{speed:g}x,memory": Cell(speedup=speed, size=MEMORY, program=FILLING) for speed in (10.0, 1.0)},
}


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
def neighbours(program: str, count: int) -> Iterator[None]:
    """Let so many processes run a program."""
    busy = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(count)]
    try:
        sleep(1.0)  # until they work
        yield
    finally:
        for process in busy:
            process.kill()


def product_time(product: Callable[[], Any]) -> float:
    """Return the seconds of a product on as many threads as it may use, without other work."""
    with one_thread() as threads:
        product()
        started = thread_time()
        for _ in range(5):
            product()
        return (thread_time() - started) / 5 / (threads or 1)


def quiet_time(work: Callable[[], Any]) -> float:
    """Return the seconds of work, measured while nothing else runs."""
    return min(repeat(work, repeat=20, number=1))


def measured(gpu: ExactGpu, work: Callable[[], Any], seconds: float, number: int) -> Record:
    """Return the record of one test of work that takes so many seconds on the GPU."""
    result = work()

    def body(device: Any) -> Any:
        if device.kind == "cpu":
            return work
        return lambda: (device.launch(seconds), result)[1]

    def bind(device: TimedDevice) -> Any:
        return partial(body, device)

    trial = Trial(nodeid=f"test_{number}", demand=Demand(min=LIMIT), options=RunOptions())
    return trial.record(trial.compare(bind, HostDevice("CPU"), gpu))


def records_of(cell: Cell, options: Namespace) -> list[Record]:
    """Return the records of a cell's tests."""
    rng = np.random.default_rng(0)
    gpu = ExactGpu()  # of all tests, as in a process: how its clocks rise is found once
    if cell.program == FILLING:
        numbers = rng.random(cell.size)
        # Processor time includes waits for memory: it is measured before the others begin.
        seconds = quiet_time(numbers.sum) / cell.speedup
        with neighbours(cell.program, max(1, int(usable_processors()) - 1)):
            return [measured(gpu, numbers.sum, seconds, number) for number in range(options.runs)]
    matrix = rng.random((cell.size, cell.size))
    product = partial(np.matmul, matrix, matrix)
    with neighbours(cell.program, options.load):
        return [
            measured(gpu, product, product_time(product) / cell.speedup, number)
            for number in range(options.runs)
        ]


def main(options: Namespace) -> int:
    """Measure the cells, print what was found, and return the exit status."""
    rows, targets = [], []
    for name in options.cell or CELLS:
        speedup = CELLS[name].speedup
        started = perf_counter()
        records = records_of(CELLS[name], options)
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
        "--load",
        type=int,
        default=5,
        help="processes beside them that keep processors busy (default: %(default)s)",
    )
    sys.exit(main(parser.parse_args()))
