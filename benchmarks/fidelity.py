"""Whether our medians are those of timeit, of pyperf, and of a hand-written loop on a SYCL queue."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from timeit import Timer
from typing import Any

import numpy as np
from common import Pairs, StandIn, Target, conclude, paired, run, table

from pytest_gpuperf.devices.host import HostDevice
from pytest_gpuperf.devices.protocol import Device, TimedDevice
from pytest_gpuperf.model import Demand, Measurement, Plan, Record
from pytest_gpuperf.trial import Bind, Trial

# It makes no array: one of 1 MB and more costs fresh pages or not, as the allocator happens to stand.
STATEMENT = "numpy.logaddexp.reduce(data)"
SETUP = "import numpy; data = numpy.linspace(0, 1, {size})"
WORKLOADS = {"1 ms": 1e-3, "20 us": 20e-6}
BLOCK = 1e-3
HOST_PERCENT = 2.0
SYCL_PERCENT = 3.0


def main() -> int:
    arguments = read_arguments()
    rows, targets = [], []
    for name, seconds in WORKLOADS.items():
        size = elements_for(seconds)
        for peer, theirs in host_peers(size, seconds, arguments.samples).items():
            pairs = duel(partial(host_median, size), theirs, arguments.pairs)
            rows.append(row(f"{name} NumPy / {peer}", pairs))
            targets.append(target(f"{name} NumPy against {peer}, % off", pairs, HOST_PERCENT))
    if find_spec("dpnp"):
        quiet, threaded = sycl_duels(arguments)
        rows.append(row("sycl:cpu a @ a / hand-written loop", quiet))
        rows.append(row("the same, beside a @ a in NumPy", threaded))
        targets.append(target("sycl:cpu product against a loop, % off", quiet, SYCL_PERCENT))
    else:
        print("dpnp is not installed: no comparison on sycl:cpu\n")
    print(f"our median / the peer's, {arguments.pairs} pairs by turns\n")
    table(["ours / peer", "ours", "peer", "ratio", "95 % interval"], rows)
    return conclude(targets)


def read_arguments() -> Namespace:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=11, help="measurements of each side, by turns")
    parser.add_argument("--samples", type=int, default=60, help="blocks in each of the peer's measurements")
    parser.add_argument("--order", type=int, default=1000, help="rows of the matrix on sycl:cpu")
    return parser.parse_args()


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


def duel(ours: Callable[[], float], theirs: Callable[[], float], pairs: int) -> Pairs:
    first, second = zip(*paired(ours, theirs, pairs), strict=True)
    return Pairs(first=first, second=second)


def host_median(size: int) -> float:
    """Return the CPU median of a whole comparison, as the report would have it."""

    def bind(device: Device) -> Callable[[], Callable[[], Any]]:
        def body() -> Callable[[], Any]:
            data = device.asarray(np.linspace(0, 1, size))
            return lambda: device.xp.logaddexp.reduce(data)

        return body

    return middle(compare(bind, HostDevice("the CPU"), StandIn()).cpu)


def compare(bind: Bind, cpu: TimedDevice, gpu: TimedDevice) -> Record:
    """Return the record of one test without limits."""
    trial = Trial(nodeid="fidelity", demand=Demand(parity=False), plan=Plan())
    found = trial.compare(bind, cpu, gpu)
    return trial.record(found.status, found.reason)


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


def sycl_duels(arguments: Namespace) -> tuple[Pairs, Pairs]:
    """Return medians of a product on sycl:cpu: ours, and those of a loop that waits for the queue.

    First beside a CPU workload of one thread. Then beside the same product in NumPy, whose BLAS threads go
    on spinning after it and take the cores that sycl:cpu computes on: what two pools on one CPU cost.
    """
    from pytest_gpuperf.devices.sycl import SyclBackend

    backend = SyclBackend("the CPU")
    gpu = backend.gpu("cpu")
    host = np.random.default_rng(0).random((arguments.order, arguments.order), dtype=np.float32)

    def ours(*, threaded: bool) -> float:
        return middle(compare(product(host, threaded=threaded), backend.cpu(), gpu).gpu)

    def theirs() -> float:
        return queue_median(host, arguments.samples)

    return (
        duel(lambda: ours(threaded=False), theirs, arguments.pairs),
        duel(lambda: ours(threaded=True), theirs, arguments.pairs),
    )


def product(host: Any, *, threaded: bool) -> Bind:
    """Return a test of a product; on the CPU it is that too, or else work for one thread."""

    def bind(device: Device) -> Callable[[], Callable[[], Any]]:
        def body() -> Callable[[], Any]:
            data = device.asarray(host)
            if device.kind == "cpu" and not threaded:
                return lambda: device.xp.logaddexp.reduce(data[0])
            return lambda: data @ data

        return body

    return bind


def queue_median(host: Any, samples: int) -> float:
    """Return the median time of a product on the default queue, waiting for it before and after."""
    import dpnp

    data = dpnp.array(host)
    queue = data.sycl_queue
    times = []
    for _ in range(samples):
        queue.wait()
        started = perf_counter()
        data @ data
        queue.wait()
        times.append(perf_counter() - started)
    return median(times)


def row(name: str, pairs: Pairs) -> list[str]:
    low, high = pairs.interval
    medians = (f"{1e6 * median(side):.1f} us" for side in (pairs.first, pairs.second))
    return [name, *medians, f"{pairs.ratio:.4f}", f"{low:.3f} to {high:.3f}"]


def target(name: str, pairs: Pairs, percent: float) -> Target:
    return Target(name=name, figure=100 * abs(pairs.ratio - 1), limit=percent)


if __name__ == "__main__":
    sys.exit(main())
