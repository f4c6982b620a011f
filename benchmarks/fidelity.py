"""Whether our medians are those of timeit, of pyperf, and of hand-written loops on a SYCL queue."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from timeit import Timer
from typing import Any

import numpy as np
from common import Pairs, StandIn, Target, conclude, duel, paired, run, table
from loops import Copied, call_median, copy_medians

from pytest_gpuperf.devices.host import HostDevice
from pytest_gpuperf.devices.protocol import Device, TimedDevice
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.measurement import Measurement
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.timing.trial import Bind, Trial

# It makes no array: one of 1 MB and more costs fresh pages or not, as the allocator happens to stand.
STATEMENT = "numpy.logaddexp.reduce(data)"
SETUP = "import numpy; data = numpy.linspace(0, 1, {size})"
WORKLOADS = {"1 ms": 1e-3, "20 us": 20e-6}
BLOCK = 1e-3
COPIED = {"1 MB": 2**20, "32 MB": 2**25}
ADDED = {"1,000": 1000, "100,000": 100_000}
SMALL = 1000  # elements of work beside which the GPU's is measured
HOST_PERCENT = 2.0
SYCL_PERCENT = 3.0
ASIDE_PERCENT = 5.0  # of what is sampled beside the verdict: copies and latency


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """Our medians beside a peer's, and by how many percent they may be off, if that was promised."""

    name: str
    pairs: Pairs
    percent: float | None = None

    @property
    def target(self) -> Target:
        """The promise, for a contest that has one."""
        assert self.percent is not None
        return Target(name=f"{self.name}, % off", figure=100 * abs(self.pairs.ratio - 1), limit=self.percent)

    @property
    def row(self) -> list[str]:
        """What a table shows of it."""
        low, high = self.pairs.interval
        medians = (f"{1e6 * median(side):.1f} us" for side in (self.pairs.first, self.pairs.second))
        return [self.name, *medians, f"{self.pairs.ratio:.4f}", f"{low:.3f} to {high:.3f}"]


def main() -> int:
    arguments = read_arguments()
    contests = list(on_host(arguments))
    if find_spec("dpnp"):
        contests += on_sycl(arguments)
    else:
        print("dpnp is not installed: no comparison on sycl:cpu\n")
    print(f"our median / the peer's, {arguments.pairs} pairs by turns\n")
    header = ["ours / peer", "ours", "peer", "ratio", "95 % interval"]
    table(header, [contest.row for contest in contests])
    return conclude([contest.target for contest in contests if contest.percent is not None])


def read_arguments() -> Namespace:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=11, help="measurements of each side, by turns")
    parser.add_argument("--samples", type=int, default=60, help="blocks in each of the peer's measurements")
    parser.add_argument("--order", type=int, default=1000, help="rows of the matrix on sycl:cpu")
    return parser.parse_args()


def on_host(arguments: Namespace) -> Iterator[Contest]:
    """Yield the contests for NumPy statements."""
    for name, seconds in WORKLOADS.items():
        size = elements_for(seconds)
        for peer, theirs in host_peers(size, seconds, arguments.samples).items():
            pairs = duel(partial(host_median, size), theirs, arguments.pairs)
            yield Contest(name=f"{name} NumPy / {peer}", pairs=pairs, percent=HOST_PERCENT)


def elements_for(seconds: float) -> int:
    """Return how many elements the statement needs to last that long here."""
    size = 10_000
    one = min(Timer(STATEMENT, SETUP.format(size=size)).repeat(20, 50)) / 50
    return max(1, round(size * seconds / one))


def host_peers(size: int, seconds: float, samples: int) -> dict[str, Callable[[], float]]:
    """Return the peers for a NumPy statement, each as a function that measures its median once."""
    loops = max(1, ceil(BLOCK / seconds))
    measures = {"timeit": timeit_median, **({"pyperf": pyperf_median} if find_spec("pyperf") else {})}
    return {name: partial(measure, size, loops, samples) for name, measure in measures.items()}


def host_median(size: int) -> float:
    """Return the CPU median of a whole comparison, as the report would have it."""
    data = np.linspace(0, 1, size)
    bind = on_both(data, lambda device, there: device.xp.logaddexp.reduce(there))
    return middle(compare(bind, HostDevice("the CPU"), StandIn()).cpu)


def on_both(host: Any, work: Callable[[Device, Any], Any]) -> Bind:
    """Return a test that puts an array on its device and returns that work on it."""

    def bind(device: Device) -> Callable[[], Callable[[], Any]]:
        def body() -> Callable[[], Any]:
            data = device.asarray(host)
            return lambda: work(device, data)

        return body

    return bind


def compare(bind: Bind, cpu: TimedDevice, gpu: TimedDevice) -> Record:
    """Return the record of one test without limits."""
    trial = Trial(nodeid="fidelity", demand=Demand(check=False), options=RunOptions())
    found = trial.compare(bind, cpu, gpu)
    return trial.record(found)


def middle(measurement: Measurement | None) -> float:
    if measurement is None or measurement.median is None:
        raise SystemExit("a side was not measured")
    return measurement.median


def timeit_median(size: int, loops: int, samples: int) -> float:
    return median(Timer(STATEMENT, SETUP.format(size=size)).repeat(samples, loops)) / loops


def pyperf_median(size: int, loops: int, samples: int) -> float:
    """Return pyperf's median, from three processes of its own."""
    import pyperf

    with TemporaryDirectory() as folder:
        command = ("-m", "pyperf", "timeit", "-q", "-o", "times.json", "-s", SETUP.format(size=size))
        shape = ("--processes=3", f"--values={ceil(samples / 3)}", "--warmups=3", f"--loops={loops}")
        run(*command, *shape, STATEMENT, folder=Path(folder))
        return float(pyperf.Benchmark.load(str(Path(folder) / "times.json")).median())


def on_sycl(arguments: Namespace) -> Iterator[Contest]:
    """Yield the contests on sycl:cpu, each with a loop that waits for the queue.

    A product beside a CPU workload of one thread. Then beside the same product in NumPy, whose BLAS threads
    go on spinning after it and take the cores that sycl:cpu computes on: what two pools on one CPU cost. A
    short call that is waited for, and the copies of an array.
    """
    from pytest_gpuperf.devices.sycl import SyclBackend

    backend = SyclBackend()
    gpu = backend.gpu("cpu")
    measured = partial(compare, cpu=backend.cpu(), gpu=gpu)
    pairs, samples = arguments.pairs, arguments.samples
    square = np.random.default_rng(0).random((arguments.order, arguments.order), dtype=np.float32)
    theirs = partial(call_median, square, lambda data: data @ data, samples)
    quiet = on_both(square, lambda device, data: one_thread(data[0]) if device.kind == "cpu" else data @ data)
    yield Contest(
        name="sycl:cpu a @ a / loop",
        pairs=duel(lambda: middle(measured(quiet).gpu), theirs, pairs),
        percent=SYCL_PERCENT,
    )
    loud = on_both(square, lambda _, data: data @ data)
    yield Contest(
        name="the same, beside a @ a in NumPy", pairs=duel(lambda: middle(measured(loud).gpu), theirs, pairs)
    )
    for name, size in ADDED.items():
        yield from latency_contests(name, size, measured, arguments)
    for name, size in COPIED.items():
        yield from copy_contests(name, size, measured, arguments)


def latency_contests(
    name: str, size: int, measured: Callable[[Bind], Record], arguments: Namespace
) -> Iterator[Contest]:
    """Yield the contests for a sum that is waited for: with means of blocks, as ours are, and with calls.

    A few calls take far longer than most: they count in a mean, and not in a median of calls.
    """
    host = np.ones(size, dtype=np.float32)
    test = on_both(host, lambda _, data: data + data)
    blocks = partial(call_median, host, lambda data: data + data)
    calls = ceil(BLOCK / blocks(arguments.samples))
    for peer, theirs, percent in (
        ("loop", partial(blocks, arguments.samples, calls), ASIDE_PERCENT),
        ("median of calls", partial(blocks, arguments.samples * calls), None),
    ):
        pairs = duel(lambda: latency(measured(test)), theirs, arguments.pairs)
        yield Contest(name=f"sycl:cpu latency, {name} floats / {peer}", pairs=pairs, percent=percent)


def copy_contests(
    name: str, size: int, measured: Callable[[Bind], Record], arguments: Namespace
) -> Iterator[Contest]:
    """Yield the contests for the copies of an array of that size, up and down.

    A turn of the loop is short, for the machine's speed changes from second to second.
    """
    host = np.random.default_rng(0).random(size // 4, dtype=np.float32)
    test = on_both(host, lambda device, data: one_thread(data[:SMALL]) if device.kind == "cpu" else abs(data))
    theirs = partial(copy_medians, host, ceil(arguments.samples / 4))
    turns = list(paired(lambda: copied(measured(test)), theirs, arguments.pairs))
    for way in ("up", "down"):
        first, second = zip(*((getattr(a, way), getattr(b, way)) for a, b in turns), strict=True)
        yield Contest(
            name=f"sycl:cpu {name} {way} / loop",
            pairs=Pairs(first=first, second=second),
            percent=ASIDE_PERCENT,
        )


def one_thread(data: Any) -> Any:
    """Return what NumPy computes in one thread, and without an array."""
    return np.logaddexp.reduce(data)


def latency(record: Record) -> float:
    if record.gpu is None or record.gpu.latency is None or record.gpu.block_calls == 1:
        raise SystemExit("single calls were not measured apart from blocks")
    return record.gpu.latency


def copied(record: Record) -> Copied:
    transfer = record.transfer
    if transfer is None or not (transfer.h2d and transfer.d2h and transfer.h2d.samples):
        raise SystemExit(f"copies were not measured: {transfer and transfer.reason}")
    return Copied(up=median(transfer.h2d.samples), down=median(transfer.d2h.samples))


if __name__ == "__main__":
    sys.exit(main())
