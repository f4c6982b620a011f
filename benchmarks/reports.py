"""What large reports cost to write, to load and to compare: seconds and memory, and how both grow."""

import json
import os
import resource
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from math import log10
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory, TemporaryFile
from time import perf_counter, process_time

from common import Target, conclude, table

from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import (
    Bounds,
    Copies,
    DeviceInfo,
    Estimate,
    Inspection,
    Measurement,
    Memory,
    ResultCheck,
    Speedup,
    Transfer,
)
from pytest_gpuperf.model.offload import BreakEven, Offload
from pytest_gpuperf.model.record import Environment, Record, Run
from pytest_gpuperf.report import files, reader
from pytest_gpuperf.report.json import document

MIDDLE = 10_000
MOST_SECONDS = {"write": 1.2, "load": 1.8, "load two": 1.8, "compare": 1.8}
MOST_MEGABYTES = {"load two": 300.0, "compare": 250.0}
MOST_GROWTH = 1.3  # time per record at the largest report, in that of the middle one
SAMPLES = 10
UNIT = 1 if sys.platform == "darwin" else 1024  # of the system's peak
COMMAND = "import sys; from pytest_gpuperf.cli import main; sys.exit(main())"
CPU = DeviceInfo(kind="cpu", backend="numpy", name="AMD EPYC 7763", library="numpy 2.4.6")
GPU = DeviceInfo(kind="gpu", backend="cupy", name="NVIDIA A100", library="cupy 13.6, driver 13.0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a process of its own took for one step: seconds, of them of the processor, and its peak bytes."""

    wall: float
    cpu: float
    peak: int


def main() -> int:
    arguments = read_arguments()
    if arguments.step:
        print(json.dumps(asdict(STEPS[arguments.step](arguments.report, arguments.records, arguments.seed))))
        return 0
    with TemporaryDirectory() as name:
        costs = measure(arguments.sizes, Path(name), arguments.repeats)
    print_costs(costs)
    if arguments.plot:
        arguments.plot.write_text(plot(costs), encoding="utf-8")
    return conclude(list(targets(costs)))


def read_arguments() -> Namespace:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, MIDDLE, 100_000], help="records")
    parser.add_argument("--repeats", type=int, default=3, help="processes for each figure, the median counts")
    parser.add_argument("--plot", type=Path, help="an SVG file for the figures")
    parser.add_argument("--step", choices=STEPS, help="be one of the processes")
    parser.add_argument("--report", type=Path)
    parser.add_argument("--records", type=int)
    parser.add_argument("--seed", type=int, default=1, help="of the numbers in the report")
    return parser.parse_args()


def measure(sizes: Sequence[int], folder: Path, repeats: int) -> dict[str, dict[int, Cost]]:
    """Return the cost of each step at each size, the smaller ones measured more often."""
    costs: dict[str, dict[int, Cost]] = {step: {} for step in STEPS}
    for size in sorted(sizes):
        for step in STEPS:
            runs = [
                apart(step, folder / f"{size}.json", size) for _ in range(repeats if size <= MIDDLE else 1)
            ]
            costs[step][size] = Cost(
                wall=median(run.wall for run in runs),
                cpu=median(run.cpu for run in runs),
                peak=max(run.peak for run in runs),
            )
        (folder / f"{size}.json").unlink()
    return costs


def apart(step: str, report: Path, records: int, seed: int = 1) -> Cost:
    """Return what a step takes in a process of its own."""
    chosen = ["--step", step, "--report", report, "--records", records, "--seed", seed]
    command = list(map(str, [sys.executable, __file__, *chosen]))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{step} of {records} records failed:\n{done.stdout}{done.stderr}")
    return Cost(**json.loads(done.stdout))


def print_costs(costs: dict[str, dict[int, Cost]]) -> None:
    rows = [
        [
            f"{step}, {size:,} records",
            f"{cost.wall:.2f} s",
            f"{cost.cpu:.2f} s",
            f"{1e6 * cost.cpu / size:.0f} us",
            f"{cost.peak / 1e6:.0f} MB",
        ]
        for step, found in costs.items()
        for size, cost in found.items()
    ]
    table(["", "wall", "processor", "per record", "peak"], rows)


def targets(costs: dict[str, dict[int, Cost]]) -> Iterator[Target]:
    for step, found in costs.items():
        if middle := found.get(MIDDLE):
            yield Target(
                name=f"{step} of {MIDDLE:,} records, seconds", figure=middle.wall, limit=MOST_SECONDS[step]
            )
            largest = max(found)
            if largest > MIDDLE:
                growth = (found[largest].cpu / largest) / (middle.cpu / MIDDLE)
                yield Target(
                    name=f"{step}, time per record at {largest:,} / at {MIDDLE:,}",
                    figure=growth,
                    limit=MOST_GROWTH,
                )
    for step, most in MOST_MEGABYTES.items():
        if middle := costs[step].get(MIDDLE):
            yield Target(name=f"{step} of {MIDDLE:,} records, MB", figure=middle.peak / 1e6, limit=most)


def write(report: Path, records: int, seed: int) -> Cost:
    """Write a report, the proof by its types included; the run that it is of was there before."""
    run = made(records, seed)
    return timed(lambda: files.replace(report, document.text(run)))


def load(report: Path, *_: int) -> Cost:
    return timed(lambda: reader.load_report(report))


def load_two(report: Path, *_: int) -> Cost:
    """Load a report twice, and hold both: what a comparison starts with."""
    return timed(lambda: (reader.load_report(report), reader.load_report(report)))


def compare(report: Path, records: int, seed: int) -> Cost:
    """Compare a report with another by `gpuperf compare`: the whole process, from its start to its end."""
    new = report.with_suffix(".new.json")
    apart("write", new, records, seed + 1)
    command = [sys.executable, "-c", COMMAND, "compare", str(report), str(new)]
    with TemporaryFile() as told:
        wall = perf_counter()
        process = subprocess.Popen(command, stdout=told)
        _, status, used = os.wait4(process.pid, 0)  # of this child alone
        wall = perf_counter() - wall
        process.returncode = os.waitstatus_to_exitcode(status)
        compared = os.fstat(told.fileno()).st_size > 0  # a traceback ends with 1, too
    new.unlink()
    if process.returncode not in (0, 1) or not compared:
        raise SystemExit(f"gpuperf compare ended with {process.returncode}")
    return Cost(wall=wall, cpu=used.ru_utime + used.ru_stime, peak=used.ru_maxrss * UNIT)


STEPS: dict[str, Callable[[Path, int, int], Cost]] = {
    "write": write,
    "load": load,
    "load two": load_two,
    "compare": compare,
}


def timed(work: Callable[[], object]) -> Cost:
    wall, cpu = perf_counter(), process_time()
    held = work()
    wall, cpu = perf_counter() - wall, process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * UNIT
    del held
    return Cost(wall=wall, cpu=cpu, peak=peak)


def made(records: int, seed: int = 1) -> Run:
    """Return a run of so many tests, alike but for their numbers."""
    chance = Random(seed)  # noqa: S311 - a simulation
    return Run(
        environment=Environment(
            host={"name": "runner", "system": "Linux", "machine": "x86_64", "memory": 1 << 37},
            cpu={"name": CPU.name, "logical": 16, "usable": 16},
            gpu=GPU,
            gpu_reason=None,
            python="3.12.1",
            packages={"numpy": "2.4.6", "cupy-cuda13x": "13.6.0", "pytest": "9.0.0"},
        ),
        started="2026-01-01T00:00:00+00:00",
        records=tuple(record(number, chance) for number in range(records)),
        cost_ratio=2.5,
    )


def record(number: int, chance: Random) -> Record:
    """Return the record of a test that passed: its samples spread by 5 %."""
    whole = speedup(chance)
    return Record(
        nodeid=f"tests/numerics/test_{number // 100}.py::test_workload[float32-{number}]",
        status="passed",
        reason=None,
        demand=Demand(min=3.0),
        scope="call",
        cpu=measurement(CPU, 1e-2, chance),
        gpu=measurement(GPU, 1e-3, chance),
        speedup=whole,
        check=ResultCheck(agreed=True, error=1e-7 * chance.random(), tolerance=1e-3, reason=None),
        transfer=Transfer(h2d=copies(chance), d2h=copies(chance)),
        offload=offload(whole, chance),
        memory=Memory(peak=3 << 24, inputs=1 << 24),
        check_elapsed=chance.random(),
        rounds_elapsed=chance.random(),
        elapsed=1 + chance.random(),
    )


def measurement(device: DeviceInfo, middle: float, chance: Random) -> Measurement:
    return Measurement(
        device=device,
        samples=samples(middle, chance),
        block_calls=4,
        setup=chance.random(),
        first_call=chance.random(),
        warmup=chance.random(),
        warmup_calls=9,
        steady=True,
        synchronize_cost=1e-5 * chance.random(),
        block_time=4 * middle * chance.random(),
        waited=1e-3 * chance.random(),
        processors=chance.random(),
        latencies=samples(middle, chance),
        dtypes=("float32",),
        shapes=("2048x2048", "2048x2048"),
        inspection=Inspection(host_time=middle * chance.random(), device_time=middle, allocations=0),
    )


def samples(middle: float, chance: Random) -> "array[float]":
    return array("d", (middle * chance.lognormvariate(0, 0.05) for _ in range(SAMPLES)))


def copies(chance: Random) -> Copies:
    return Copies(bytes=1 << 24, arrays=1, samples=samples(1e-3, chance), memory="pageable")


def speedup(chance: Random) -> Speedup:
    value = 10 * chance.lognormvariate(0, 0.05)
    low, high = value * chance.uniform(0.9, 1), value * chance.uniform(1, 1.1)
    certain = Bounds(low=low / 1.01, high=1.01 * high)
    return Speedup(value=value, low=low, high=high, certain=certain, rounds=SAMPLES)


def offload(whole: Speedup, chance: Random) -> Offload:
    calls = Estimate(value=chance.random(), low=chance.random(), high=chance.random())
    return Offload(
        worth=True,
        faster=True,
        reason=f"worth it: {whole.value:.3g}x with the data on the device; even with copies at every call",
        regime="never",
        by_latency=False,
        never=whole,
        once=None,
        always=speedup(chance),
        latency=speedup(chance),
        break_even_calls=BreakEven(transfer=calls, first_call=calls, both=calls, reason=None),
    )


def plot(costs: dict[str, dict[int, Cost]]) -> str:
    """Return seconds over records as SVG, both on logarithmic scales: even growth is a straight line."""
    points = [(size, cost.cpu) for found in costs.values() for size, cost in found.items()]
    sizes, times = [size for size, _ in points], [time for _, time in points]

    def across(size: float) -> float:
        return 70 + 440 * log10(size / min(sizes)) / (log10(max(sizes) / min(sizes)) or 1)

    def down(time: float) -> float:
        return 320 - 280 * log10(time / min(times)) / (log10(max(times) / min(times)) or 1)

    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" width="640" height="380" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        *(
            f'<text x="{across(size):.0f}" y="350" text-anchor="middle">{size:,} records</text>'
            for size in sorted(set(sizes))
        ),
    ]
    for (step, found), colour in zip(
        costs.items(), ("#1f77b4", "#2ca02c", "#d62728", "#9467bd"), strict=True
    ):
        places = [(across(size), down(cost.cpu), cost.cpu) for size, cost in sorted(found.items())]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in places)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}"/>')
        for x, y, time in places:
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>')
            parts.append(f'<text x="{x - 8:.1f}" y="{y:.1f}" text-anchor="end">{time:.2g} s</text>')
        x, y, _ = places[-1]
        parts.append(f'<text x="{x + 8:.1f}" y="{y + 4:.1f}" fill="{colour}">{step}</text>')
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    sys.exit(main())
