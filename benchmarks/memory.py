"""What a comparison holds on each device, beside what it may, and what it keeps of each sample."""

import gc
import sys
import tracemalloc
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from random import Random
from typing import Any

import numpy as np
from common import Target, conclude, table

from pytest_gpuperf.devices.protocol import Device
from pytest_gpuperf.devices.simulated import Clock, SimulatedDevice, Timing
from pytest_gpuperf.model.demand import Demand, RunOptions, Transfers
from pytest_gpuperf.model.record import Record, Verdict
from pytest_gpuperf.model.sampling_constants import SamplingPlan
from pytest_gpuperf.timing.trial import Bind, Trial

SAMPLE_BYTES = 8.0
KERNEL = 1e-3
KERNELS = {"many calls": 1e-4, "one call": 1e-2}  # by the kind of block that it makes
LONGEST_WAIT = 10e-3  # seconds before a round
WAIT = 5e-6  # of a synchronize: copies and single calls take time, so that there are few of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What a workload puts on its device: the bytes of its inputs, and those of one result."""

    name: str
    inputs: int
    result: int

    @property
    def most(self) -> int:
        """The most bytes at a time: inputs and two results; while copies are timed, inputs twice and one."""
        return max(self.inputs + 2 * self.result, 2 * self.inputs + self.result)


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """The most bytes alive at once: on each device, and in the process beyond the start."""

    cpu: int
    gpu: int
    process: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The bytes of a trial that has measured, those of its record, and the samples that were taken."""

    trial: int
    record: int
    samples: int


def main() -> int:
    arguments = read_arguments()
    size, rows, shares = arguments.bytes, [], []
    for contents in (
        Contents(name="input = result", inputs=size, result=size),
        Contents(name="input = 4 results", inputs=4 * size, result=size),
        Contents(name="result = 4 inputs", inputs=size, result=4 * size),
    ):
        for name, found in peaks(contents).items():
            shares.append(max(found.cpu, found.gpu) / contents.most)
            bytes_found = (found.cpu, found.gpu, contents.most, found.process)
            rows.append([f"{contents.name}, {name}", *(f"{each / size:.2f}" for each in bytes_found)])
    print(f"peak, in units of {size / 1e6:g} MB; the process holds both simulated devices too\n")
    table(["", "cpu", "gpu", "may be", "process"], rows)
    costs = {name: sample_costs(arguments.rounds, kernel) for name, kernel in KERNELS.items()}
    table(
        ["bytes per sample, with blocks of", "in the record", "while sampling"],
        [[name, f"{kept:.1f}", f"{working:.0f}"] for name, (kept, working) in costs.items()],
    )
    worst = max(kept for kept, _ in costs.values())
    return conclude(
        [
            Target(name="held on a device, of what may be", figure=max(shares), limit=1.0),
            Target(name="bytes kept per sample", figure=worst, limit=1.05 * SAMPLE_BYTES),
        ]
    )


def read_arguments() -> Namespace:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, default=8_000_000, help="size of the smaller of both")
    parser.add_argument("--rounds", type=int, default=2000, help="rounds behind the bytes per sample, about")
    return parser.parse_args()


def peaks(contents: Contents) -> dict[str, Peak]:
    """Return the peaks of every way to measure a workload."""
    return {
        "copies aside": peak(returned(contents), "never"),
        "copies in the rounds": peak(returned(contents), "always"),
        "whole body": peak(whole(contents), "never"),
    }


def returned(contents: Contents) -> Bind:
    """Return a test that puts its input on the device and returns its workload."""
    host = np.ones(contents.inputs // 8)

    def bind(device: Device) -> Callable[[], Any]:
        def body() -> Callable[[], Any]:
            data = device.asarray(host)
            return lambda: device.xp.resize(data, contents.result // 8)

        return body

    return bind


def whole(contents: Contents) -> Bind:
    """Return a test whose body is the workload, copies included."""
    host = np.ones(contents.inputs // 8)
    return lambda device: lambda: device.xp.resize(device.asarray(host), contents.result // 8)


def devices(
    kernel: float, noise: Callable[[], float] = lambda: 1.0
) -> tuple[SimulatedDevice, SimulatedDevice]:
    """Return a CPU and a GPU of a quarter of its time, on one clock."""
    clock = Clock()
    return (
        SimulatedDevice("cpu", clock=clock, timing=Timing(kernel=4 * kernel), noise=noise),
        SimulatedDevice("gpu", clock=clock, timing=Timing(kernel=kernel, synchronize=WAIT), noise=noise),
    )


def peak(bind: Bind, transfer: Transfers) -> Peak:
    cpu, gpu = devices(KERNEL)
    trial = Trial(nodeid="memory", demand=Demand(max=10, transfer=transfer), options=RunOptions())
    tracemalloc.start()
    found = trial.compare(bind, cpu, gpu)
    traced = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    if found.status != "passed":
        raise SystemExit(f"a clear comparison has not passed: {found.reason}")
    return Peak(cpu=cpu.peak_bytes, gpu=gpu.peak_bytes, process=traced)


def sample_costs(rounds: int, kernel: float) -> tuple[float, float]:
    """Return the bytes per sample that a record keeps, and that a trial holds while it samples.

    Each is the slope between a tenth of the rounds and all of them, so that fixed costs drop out. One
    trial comes before them, untraced, to fill what all trials share.
    """
    held(rounds, kernel)
    few, many = held(rounds // 10, kernel), held(rounds, kernel)
    samples = many.samples - few.samples
    return (many.record - few.record) / samples, (many.trial - few.trial) / samples


def held(rounds: int, kernel: float) -> Held:
    """Measure about so many rounds and return what is held then."""
    chance = Random(1)  # noqa: S311 - a simulation
    cpu, gpu = devices(kernel, noise=lambda: chance.lognormvariate(0, 0.1))
    small = Contents(name="small", inputs=8, result=8)
    gc.collect()
    tracemalloc.start()
    trial = Trial(nodeid="memory", demand=Demand(max_time=1e9), options=endless(rounds, kernel))
    trial.compare(returned(small), cpu, gpu)
    working = live_bytes()
    record = trial.record(Verdict(status="recorded", reason=None))
    del trial
    kept = live_bytes()
    tracemalloc.stop()
    return Held(trial=working, record=kept, samples=samples_in(record))


def samples_in(record: Record) -> int:
    """Return how often something was timed: a block of one call counts once, though it is a latency too."""
    assert record.cpu is not None
    assert record.gpu is not None
    assert record.transfer is not None
    sides = (record.cpu, record.gpu)
    latencies = sum(len(side.latencies) for side in sides if side.block_calls > 1)
    copies = sum(len(each.samples) for each in (record.transfer.h2d, record.transfer.d2h) if each)
    return sum(len(side.samples) for side in sides) + latencies + copies


def live_bytes() -> int:
    """Return what is allocated, after a collection."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def endless(rounds: int, kernel: float) -> RunOptions:
    """Return options that sample about so many rounds of a test without a limit, whatever they show."""
    seconds = rounds * (5 * kernel + LONGEST_WAIT)
    return RunOptions(sampling=SamplingPlan(record_time=seconds, precision_time=inf, precision=0.0))


if __name__ == "__main__":
    sys.exit(main())
