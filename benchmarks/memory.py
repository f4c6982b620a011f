"""What a comparison holds on each device, in results, and what it keeps of each sample, in bytes."""

import gc
import sys
import tracemalloc
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from math import inf
from random import Random
from typing import Any

import numpy as np
from common import Target, conclude, table

from pytest_gpuperf.devices.protocol import Device
from pytest_gpuperf.devices.simulated import Clock, SimulatedDevice, Timing
from pytest_gpuperf.model import Demand, Plan
from pytest_gpuperf.trial import Bind, Trial

INPUTS = 1
RESULTS = 2
SAMPLE_BYTES = 8.0


def main() -> int:
    arguments = read_arguments()
    peaks = {name: peak(bind, arguments.bytes) for name, bind in workloads(arguments.bytes).items()}
    rows = [
        [
            name,
            *(f"{there / arguments.bytes:.2f}" for there in found[:2]),
            f"{found[2] / arguments.bytes:.2f}",
        ]
        for name, found in peaks.items()
    ]
    print(f"peak, in results of {arguments.bytes / 1e6:g} MB; the process holds both simulated devices too\n")
    table(["inputs of one result's size", "cpu", "gpu", "process"], rows)
    kept, working = sample_costs(arguments.rounds)
    table(
        ["bytes per sample", ""],
        [["in the record", f"{kept:.1f}"], ["while sampling, per sample", f"{working:.0f}"]],
    )
    worst = max(max(found[:2]) for found in peaks.values()) / arguments.bytes
    return conclude(
        [
            Target(name="inputs and results on a device", figure=worst, limit=INPUTS + RESULTS),
            Target(name="bytes kept per sample", figure=kept, limit=1.05 * SAMPLE_BYTES),
        ]
    )


def read_arguments() -> Namespace:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, default=8_000_000, help="size of the input and of a result")
    parser.add_argument("--rounds", type=int, default=500, help="rounds behind the bytes per sample")
    return parser.parse_args()


def workloads(size: int) -> dict[str, Bind]:
    """Return workloads with one input and one result of that size: the callable's and the body's kind."""
    host = np.ones(size // 8)

    def returned(device: Device) -> Callable[[], Any]:
        def body() -> Callable[[], Any]:
            data = device.asarray(host)
            return lambda: device.xp.exp(data)

        return body

    def whole(device: Device) -> Callable[[], Any]:
        return lambda: device.xp.exp(device.asarray(host))

    return {"callable": returned, "whole body": whole}


def devices(
    kernel: float, noise: Callable[[], float] = lambda: 1.0
) -> tuple[SimulatedDevice, SimulatedDevice]:
    """Return a CPU and a GPU of a quarter of its time, on one clock."""
    clock = Clock()
    return (
        SimulatedDevice("cpu", clock=clock, timing=Timing(kernel=4 * kernel), noise=noise),
        SimulatedDevice("gpu", clock=clock, timing=Timing(kernel=kernel), noise=noise),
    )


def peak(bind: Bind, size: int) -> tuple[int, int, int]:
    """Return the most bytes alive at once: on the CPU, on the GPU, and in the process beyond the start."""
    cpu, gpu = devices(kernel=1e-3)
    trial = Trial(nodeid="memory", demand=Demand(min=2), plan=Plan())
    tracemalloc.start()
    if trial.compare(bind, cpu, gpu).status != "passed":
        raise SystemExit(f"a clear comparison of {size} bytes has not passed")
    traced = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return cpu.peak_bytes, gpu.peak_bytes, traced


def sample_costs(rounds: int) -> tuple[float, float]:
    """Return the bytes per sample that a record keeps, and that a trial holds while it samples.

    Each is the slope between a tenth of the rounds and all of them, so that fixed costs drop out. One
    trial comes before them, untraced, to fill what all trials share.
    """
    held(rounds)
    few, many = held(rounds // 10), held(rounds)
    samples = 2 * (rounds - rounds // 10)
    return (many[0] - few[0]) / samples, (many[1] - few[1]) / samples


def held(rounds: int) -> tuple[int, int]:
    """Return the bytes of a record of so many rounds, and of the trial that measured them."""
    chance = Random(1)  # noqa: S311 - a simulation
    cpu, gpu = devices(kernel=1e-2, noise=lambda: chance.lognormvariate(0, 0.1))
    gc.collect()
    tracemalloc.start()
    trial = Trial(nodeid="memory", demand=Demand(max_time=1e9), plan=endless(rounds))
    trial.compare(workloads(8)["callable"], cpu, gpu)
    working = live_bytes()
    record = trial.record("recorded", None)
    del trial
    kept = live_bytes()
    tracemalloc.stop()
    assert record.cpu is not None
    assert len(record.cpu.samples) == rounds
    return kept, working


def live_bytes() -> int:
    """Return what is allocated, after a collection."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def endless(rounds: int) -> Plan:
    """Return a plan that samples exactly so many rounds of a test without a demand."""
    return Plan(record_rounds=rounds, record_time=inf, precision=0.0)


if __name__ == "__main__":
    sys.exit(main())
