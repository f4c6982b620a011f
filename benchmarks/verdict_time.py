"""How long a clear verdict takes: one test, and 500 of them in a run with a report."""

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from timeit import Timer
from xml.etree import ElementTree

import numpy as np
from common import ALONE, Cost, Target, conclude, pytest, table

from pytest_gpuperf import schema

MOST_MILLISECONDS = 100.0
MOST_SECONDS = 60.0
STEPS = 5  # the CPU's share of the work for one of the stand-in's: the true speedup
LIMIT = 1.5
ELEMENTS = 10_000

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
    """A run of a suite: what its process took, and each test's setup, call and teardown in seconds."""

    process: Cost
    tests: tuple[float, ...]


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
    print_report_cost(report, many.process)
    return conclude(
        [
            Target(name="one clear test, ms", figure=1e3 * middle(single), limit=MOST_MILLISECONDS),
            Target(name=f"{arguments.tests} tests, s", figure=many.process.wall, limit=MOST_SECONDS),
        ]
    )


def read_arguments() -> Namespace:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--tests", type=int, default=500, help="clear tests in the long run")
    parser.add_argument("--repeats", type=int, default=9, help="runs with one test")
    return parser.parse_args()


def calls_in(seconds: float) -> int:
    """Return how many steps of the workload take that long here."""
    data = np.linspace(0, 1, ELEMENTS)
    one = min(Timer(lambda: np.exp(data)).repeat(20, 50)) / 50
    return max(1, round(seconds / one))


def run_ours(folder: Path, tests: int, step_calls: int) -> Timed:
    text = OURS.format(tests=tests, limit=LIMIT, elements=ELEMENTS, steps=STEPS, step_calls=step_calls)
    found = run_suite(
        folder, text, "pytest_gpuperf.plugin", "--gpuperf-gpu=standin", "--gpuperf-json=report.json"
    )
    records = json.loads((folder / "report.json").read_text(encoding="utf-8"))["records"]
    if any(record["status"] != "passed" for record in records):
        raise SystemExit("a clear test has not passed")
    return found


def run_peer(folder: Path, step_calls: int, repeats: int) -> list[Timed]:
    text = PEER.format(elements=ELEMENTS, steps=STEPS, step_calls=step_calls)
    return [run_suite(folder, text, "pytest_benchmark.plugin") for _ in range(repeats)]


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


def print_report_cost(text: str, process: Cost) -> None:
    """Print what making the report's text takes, and how much of it is the check against the schema."""
    run = schema.load(json.loads(text))
    whole = seconds_of(lambda: schema.text(run))
    unchecked = seconds_of(lambda: json.dumps(schema.document(run), indent=1, allow_nan=False))
    rows = [
        ["the report's text", f"{1e3 * whole:.0f} ms", f"{100 * whole / process.wall:.1f} %"],
        [
            "of which validation",
            f"{1e3 * (whole - unchecked):.0f} ms",
            f"{100 * (whole - unchecked) / process.wall:.1f} %",
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
