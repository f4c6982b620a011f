"""Whether the parallel efficiency of a scaling test is that of a hand-written loop, on JAX's host devices.

The numbers say nothing about GPUs: the devices share the processors of this machine.
"""

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

os.environ.setdefault("JAX_NUM_CPU_DEVICES", "2")

import jax
import jax.numpy as jnp
import numpy as np
from common import Target, conclude, table

from pytest_gpuperf.devices.machine import Machine
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.scaling import Scaling
from pytest_gpuperf.timing.scaling_question import ScalingQuestion
from pytest_gpuperf.timing.trial import Trial

MOST_APART = 0.05
COUNTS = (1, 2)
Call = Callable[[], Any]


def main() -> int:
    arguments = read_arguments()
    devices = Machine("jax:cpu")
    rows, apart = [], []
    for index in range(arguments.repeats):
        by_hand = efficiency_by_hand(devices, arguments.rounds)
        ours = measured_efficiency(devices)
        apart.append(ours / by_hand - 1)
        rows.append([f"{index + 1}", f"{by_hand:.3f}", f"{ours:.3f}", f"{apart[-1]:+.1%}"])
        by_hand = efficiency_by_hand(devices, arguments.rounds)  # the machine may have changed since
        rows[-1].append(f"{by_hand:.3f}")
    print(f"efficiency of a dense layer on {COUNTS[-1]} of JAX's devices of the CPU\n")
    table(["", "by hand", "a scaling test", "apart", "by hand again"], rows)
    found = abs(median(apart))
    return conclude([Target(name="efficiency / that by hand - 1, median", figure=found, limit=MOST_APART)])


def read_arguments() -> Namespace:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=9, help="comparisons, of which the median counts")
    parser.add_argument("--rounds", type=int, default=40, help="of the loop by hand")
    return parser.parse_args()


def dense(devices: Any) -> Call:
    """Return a step of a dense layer, whose rows the devices share."""
    rng = np.random.default_rng(0)
    x = devices.asarray(rng.random((1024, 512), dtype=np.float32), shard=0)
    w = devices.asarray(rng.random((512, 512), dtype=np.float32))
    step = jax.jit(lambda x, w: jnp.tanh(x @ w))
    return lambda: step(x, w)


def efficiency_by_hand(devices: Machine, rounds: int) -> float:
    """Return the efficiency that a loop finds: calls that are waited for, in turn on one and on two."""
    calls = {count: dense(devices.group(count)) for count in COUNTS}
    for call in calls.values():
        call().block_until_ready()
    ratios = []
    for _ in range(rounds):
        times = {count: time_of(call) for count, call in calls.items()}
        ratios.append(times[COUNTS[0]] / times[COUNTS[-1]])
    return median(ratios) * COUNTS[0] / COUNTS[-1]


def time_of(call: Call, repeats: int = 5) -> float:
    started = perf_counter()
    for _ in range(repeats):
        result = call()
    result.block_until_ready()
    return (perf_counter() - started) / repeats


def measured_efficiency(devices: Machine) -> float:
    """Return the efficiency in the record of a scaling test of the same work."""
    asked = Scaling(name="dense", mode="strong", count=COUNTS[-1], counts=COUNTS)
    trial = Trial(nodeid="dense", demand=Demand(), question=ScalingQuestion(asked), options=RunOptions())
    ended = trial.compare(
        lambda group: lambda: dense(group), devices.group(COUNTS[0]), devices.group(COUNTS[-1])
    )
    found = trial.record(ended).scaling
    if found is None or found.efficiency is None:
        raise SystemExit("nothing was measured")
    return found.efficiency.value


if __name__ == "__main__":
    sys.exit(main())
