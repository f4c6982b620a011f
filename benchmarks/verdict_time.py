"""How long a clear verdict takes: one test, 500 of them with a report, and the sizes of a threshold.

Where dpnp is installed, also tests of three lengths of calls on a device that is asynchronous, SYCL's CPU,
beside pytest-benchmark on both sides.
"""

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from timeit import Timer
from typing import Any
from xml.etree import ElementTree

import numpy as np
from common import ALONE, Cost, Pairs, Target, conclude, duel, pytest, table

from pytest_gpuperf.devices.host import HostDevice
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.devices.sycl import SyclBackend
from pytest_gpuperf.report.json import document

# Milliseconds of a call on the CPU and on SYCL's CPU device, and pytest-benchmark's time for both over ours.
LENGTHS = (((8.0, 1.0), 9.0), ((1.0, 0.2), 14.0), ((30.0, 3.0), 4.5))
MOST_MILLISECONDS = 170.0
MOST_OF_PEER = 0.18  # of pytest-benchmark's time for one side
MOST_SECONDS = 85.0
MOST_OF_ITEMS = 1.2  # what a threshold may cost, in the sum of its items without it
STEPS = 5  # the CPU's share of the work for one of the stand-in's: the true speedup
LIMIT = 1.5
LIMIT_ON_SYCL = 1.2  # far below: on a machine whose speed changes, 5x may become 3x, and stays a clear case
ELEMENTS = 10_000
SIZES = tuple(2**power for power in range(10))
UNIT = 20e-6  # seconds of the CPU for size 1; the stand-in takes 16 units and a quarter: they meet at 21
OURS_WITH = ("pytest_gpuperf.plugin", "--gpuperf-gpu=standin", "--gpuperf-json=report.json")
OURS_ON_SYCL = ("pytest_gpuperf.plugin", "--gpuperf-gpu=sycl:cpu", "--gpuperf-json=report.json")
THRESHOLD = '@pytest.mark.offload_threshold("n", at_most=32)'

CONFTEST = """
import pytest
from common import StandInBackend

@pytest.hookimpl(optionalhook=True)
def pytest_gpuperf_devices():
    return [StandInBackend()]
"""
OURS = """
import numpy as np
import pytest

@pytest.mark.parametrize("number", range({tests}))
@pytest.mark.speedup(min={limit})
def test_clear(device, number):
    data = device.asarray(np.linspace(0, 1, {elements}))
    steps = {step_calls} * ({steps} if device.kind == "cpu" else 1)

    def work():
        for _ in range(steps):
            result = np.exp(data)
        return result

    return work
"""
SIZE_GROUP = """
import numpy as np
import pytest

{marker}
@pytest.mark.parametrize("n", {sizes})
@pytest.mark.speedup
def test_size(device, n):
    data = device.asarray(np.linspace(0, 1, {elements}))
    units = n if device.kind == "cpu" else 16 + n // 4

    def work():
        for _ in range(units * {unit_calls}):
            result = np.exp(data)
        return result

    return work
"""
ON_SYCL = """
import numpy as np
import pytest

@pytest.mark.parametrize("number", range({tests}))
@pytest.mark.speedup(min={limit})
def test_clear(device, number):
    data = device.asarray(np.linspace(0, 1, {elements}))
    steps, exp = {steps}[device.kind], device.xp.exp

    def work():
        for _ in range(steps):
            result = exp(data)
        return result

    return work
"""
PEER_ON_SYCL = """
import numpy as np
import pytest

from pytest_gpuperf.devices.host import HostDevice
from pytest_gpuperf.devices.sycl import SyclBackend

DEVICES = {{"cpu": HostDevice("CPU"), "gpu": SyclBackend().gpu("cpu")}}

@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_clear(benchmark, kind):
    device = DEVICES[kind]
    data = device.asarray(np.linspace(0, 1, {elements}))
    steps, exp = {steps}[kind], device.xp.exp

    def work():
        for _ in range(steps):
            result = exp(data)
        device.synchronize()
        return result

    for _ in range(5):
        work()  # it takes the time of the first call for that of each
    benchmark(work)
"""
PEER = """
import numpy as np

def test_clear(benchmark):
    data = np.linspace(0, 1, {elements})

    def work():
        for _ in range({step_calls} * {steps}):
            result = np.exp(data)
        return result

    benchmark(work)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """A run of a suite: what its process took, and each test's setup, call and teardown in seconds.

    Of our tests also the rounds of both devices, in seconds, and the calls in a block on the CPU.
    """

    process: Cost
    tests: tuple[float, ...]
    rounds: tuple[float, ...] = ()
    block_calls: tuple[int, ...] = ()


def main() -> int:
    arguments = read_arguments()
    step_calls = calls_in(1e-3 / STEPS)
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")
        single = [run_ours(folder, 1, step_calls) for _ in range(arguments.repeats)]
        many = run_ours(folder, arguments.tests, step_calls)
        report = (folder / "report.json").read_text(encoding="utf-8")
        peers = run_peer(folder, step_calls, arguments.repeats) if find_spec("pytest_benchmark") else []
        print(f"a 1 ms workload {STEPS} times as fast on the other side, at least {LIMIT} times wanted\n")
        rows = [row("one test", single), row(f"{arguments.tests} tests", [many])]
        if peers:
            rows.append(row("pytest-benchmark, one side", peers))
            rows.append(["ratio, one test / pytest-benchmark", f"{middle(single) / middle(peers):.4f}", ""])
        table(["", "median of a test", "process"], rows)
        print_parts([*single, many])
        print_report_cost(report, many.process)
        lengths = list(on_sycl(folder, arguments.tests_of_length)) if find_spec("dpnp") and peers else []
        sizes = size_groups(folder, arguments.size_groups)  # last: a busy machine may leave one inconclusive
    print_lengths(lengths)
    print_size_groups(sizes)
    targets = [
        Target(name="one clear test, ms", figure=1e3 * middle(single), limit=MOST_MILLISECONDS),
        Target(name=f"{arguments.tests} tests, s", figure=many.process.wall, limit=MOST_SECONDS),
        Target(name="a threshold / its items without it", figure=sizes.ratio, limit=MOST_OF_ITEMS),
    ]
    if peers:
        share = middle(single) / middle(peers)
        targets.append(
            Target(name="one clear test / pytest-benchmark, one side", figure=share, limit=MOST_OF_PEER)
        )
    targets += [
        Target(
            name=f"pytest-benchmark / a clear test, {each.name}",
            figure=each.ratio,
            limit=each.wanted,
            at_least=True,
        )
        for each in lengths
    ]
    return conclude(targets)


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """Clear tests of calls of one length, and pytest-benchmark's tests of both sides; times in seconds."""

    name: str
    ours: tuple[float, ...]
    rounds: tuple[float, ...]
    speedup: float
    restarts: int
    peer: float
    wanted: float

    @property
    def ratio(self) -> float:
        """How many times as long pytest-benchmark takes for both sides."""
        return self.peer / median(self.ours)


def on_sycl(folder: Path, tests: int) -> Iterator[Length]:
    """Time clear tests on an asynchronous device, and the same two calls with pytest-benchmark, in turn."""
    devices: tuple[TimedDevice, ...] = HostDevice("CPU"), SyclBackend().gpu("cpu")
    for milliseconds, wanted in LENGTHS:
        sides = zip(milliseconds, devices, strict=True)
        steps = {device.kind: steps_in(each / 1e3, device) for each, device in sides}
        chosen = {"tests": tests, "limit": LIMIT_ON_SYCL, "elements": ELEMENTS, "steps": steps}
        peer = sum(run_suite(folder, PEER_ON_SYCL.format(**chosen), "pytest_benchmark.plugin").tests)
        found = run_suite(folder, ON_SYCL.format(**chosen), *OURS_ON_SYCL)
        records = report_in(folder)["records"]
        yield Length(
            name="{:g} and {:g} ms".format(*milliseconds),
            ours=found.tests,
            rounds=tuple(record["rounds_elapsed"] for record in records),
            speedup=median(record["speedup"]["value"] for record in records),
            restarts=sum(record["restart_reason"] is not None for record in records),
            peer=peer,
            wanted=wanted,
        )


def steps_in(seconds: float, device: TimedDevice) -> int:
    """Return how many steps of a device's workload take that long here."""
    data = device.asarray(np.linspace(0, 1, ELEMENTS))

    def steps() -> None:
        for _ in range(50):
            device.xp.exp(data)
        device.synchronize()

    return max(1, round(seconds / (min(Timer(steps).repeat(20, 1)) / 50)))


def print_lengths(lengths: list[Length]) -> None:
    """Print what a clear test takes beside pytest-benchmark on both sides, by the length of calls."""
    rows = [
        [
            each.name,
            f"{1e3 * median(each.ours):.0f} ms",
            f"{1e3 * median(each.rounds):.0f} ms",
            f"{each.speedup:.1f}x",
            f"{each.restarts} of {len(each.ours)}",
            f"{each.peer:.2f} s",
            f"{each.ratio:.1f}",
        ]
        for each in lengths
    ]
    if rows:
        heading = [
            "a call on the CPU, on sycl:cpu",
            "a test",
            "its rounds",
            "speedup",
            "begun again",
            "pytest-benchmark",
            "ratio",
        ]
        table(heading, rows)


def read_arguments() -> Namespace:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--tests", type=int, default=500, help="clear tests in the long run")
    parser.add_argument("--repeats", type=int, default=9, help="runs with one test")
    parser.add_argument("--tests-of-length", type=int, default=9, help="clear tests of each length of calls")
    parser.add_argument("--size-groups", type=int, default=7, help="runs of a size group, and of its items")
    return parser.parse_args()


def calls_in(seconds: float) -> int:
    """Return how many steps of the workload take that long here."""
    data = np.linspace(0, 1, ELEMENTS)
    one = min(Timer(lambda: np.exp(data)).repeat(20, 50)) / 50
    return max(1, round(seconds / one))


def run_ours(folder: Path, tests: int, step_calls: int) -> Timed:
    text = OURS.format(tests=tests, limit=LIMIT, elements=ELEMENTS, steps=STEPS, step_calls=step_calls)
    found = run_suite(folder, text, *OURS_WITH)
    records = report_in(folder)["records"]
    if any(record["status"] != "passed" for record in records):
        raise SystemExit("a clear test has not passed")
    return replace(
        found,
        rounds=tuple(record["rounds_elapsed"] for record in records),
        block_calls=tuple(record["cpu"]["block_calls"] for record in records),
    )


def report_in(folder: Path) -> Any:
    return json.loads((folder / "report.json").read_text(encoding="utf-8"))


def run_peer(folder: Path, step_calls: int, repeats: int) -> list[Timed]:
    text = PEER.format(elements=ELEMENTS, steps=STEPS, step_calls=step_calls)
    return [run_suite(folder, text, "pytest_benchmark.plugin") for _ in range(repeats)]


def size_groups(folder: Path, pairs: int) -> Pairs:
    """Return the seconds of all items of a size group, beside those of the same items without its marker."""
    unit_calls = calls_in(UNIT)

    def run(marker: str, threshold: str | None) -> float:
        text = SIZE_GROUP.format(marker=marker, sizes=SIZES, elements=ELEMENTS, unit_calls=unit_calls)
        found = run_suite(folder, text, *OURS_WITH)
        verdicts = [each["status"] for each in report_in(folder)["thresholds"]]
        if verdicts != ([] if threshold is None else [threshold]):
            raise SystemExit(f"thresholds of a clear size_group: {verdicts}")
        return sum(found.tests)

    return duel(partial(run, THRESHOLD, "passed"), partial(run, "", None), pairs)


def run_suite(folder: Path, text: str, plugin: str, *options: str) -> Timed:
    """Run one file of tests with one plugin, and read the durations that pytest reports."""
    (folder / "test_clear.py").write_text(text, encoding="utf-8")
    paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    variables = {**ALONE, "PYTHONPATH": os.pathsep.join(paths)}
    process = pytest("-q", "-p", plugin, "--junitxml=times.xml", *options, folder=folder, variables=variables)
    cases = ElementTree.parse(folder / "times.xml").iter("testcase")  # noqa: S314 - pytest wrote it just now
    return Timed(process=process, tests=tuple(float(case.attrib["time"]) for case in cases))


def middle(runs: list[Timed]) -> float:
    """Return the median duration of a test in the runs."""
    return median(seconds for run in runs for seconds in run.tests)


def row(name: str, runs: list[Timed]) -> list[str]:
    return [name, f"{1e3 * middle(runs):.0f} ms", f"{median(run.process.wall for run in runs):.2f} s"]


def print_parts(runs: list[Timed]) -> None:
    """Print what the rounds take of a test; a workload of a block's length needs one call a block, or two."""
    found: dict[int, list[tuple[float, float]]] = {}
    for run in runs:
        for calls, whole, rounds in zip(run.block_calls, run.tests, run.rounds, strict=True):
            found.setdefault(calls, []).append((whole, rounds))
    rows = [
        [str(calls), str(len(parts)), *(f"{1e3 * median(each):.0f} ms" for each in zip(*parts, strict=True))]
        for calls, parts in sorted(found.items())
    ]
    table(["calls in a CPU block", "tests", "median of a test", "of which rounds"], rows)


def print_size_groups(sizes: Pairs) -> None:
    low, high = sizes.interval
    both = (f"{median(side):.2f} s" for side in (sizes.first, sizes.second))
    table(
        [f"{len(SIZES)} sizes, {len(sizes.first)} pairs", "threshold", "items", "ratio", "95 % interval"],
        [["setup to teardown, all together", *both, f"{sizes.ratio:.3f}", f"{low:.3f} to {high:.3f}"]],
    )


def print_report_cost(text: str, process: Cost) -> None:
    """Print what making the report's text takes, and what reading it does."""
    run = document.parse(text.encode())
    whole = seconds_of(lambda: document.text(run))
    read = seconds_of(lambda: document.parse(text.encode()))
    rows = [
        ["the report's text", f"{1e3 * whole:.0f} ms", f"{100 * whole / process.wall:.1f} %"],
        [
            "gpuperf validate",
            f"{1e3 * read:.0f} ms",
            f"{100 * read / process.wall:.1f} %",
        ],
    ]
    table([f"report of {len(run.records)} tests, {len(text) / 1e3:.0f} kB", "time", "of the process"], rows)


def seconds_of(work: Callable[[], object]) -> float:
    """Return the shortest of three times."""
    times = []
    for _ in range(3):
        started = perf_counter()
        work()
        times.append(perf_counter() - started)
    return min(times)


if __name__ == "__main__":
    sys.exit(main())
