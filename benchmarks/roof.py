"""How near to its roof: are the bytes of a call known, is the share that of a hand-written STREAM, who lies?

Sides are NumPy's arrays on all usable processors and torch's and JAX's on the CPU; other work on the machine
changes shares, so the part that compares them with STREAM needs a quiet one.
"""

import json
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from time import perf_counter
from typing import Any
from unittest import mock

import numpy as np
from common import StandIn, StandInBackend, Target, conclude, table

from pytest_gpuperf.devices.environment import usable_processors
from pytest_gpuperf.devices.host import HostDevice
from pytest_gpuperf.devices.jax import JaxBackend
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.devices.simulated import Clock, SimulatedDevice, Timing
from pytest_gpuperf.devices.torch import TorchBackend
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.timing.near_roof import NearRoof
from pytest_gpuperf.timing.trial import Trial
from pytest_gpuperf.work.first_call import first_call

WORKLOADS = Path(__file__).parent / "workloads"
HONEST_ON = ("standin:numpy", "torch:cpu", "jax:cpu", "simulated")
ALIKE = 0.2  # of a share, by which ours may differ from that of a hand-written loop
SHOWN = RunOptions(roofs=True)
_OF_ONE = """
abs negative exp log1p sqrt sin cos tanh floor ceil sign square isfinite cumsum sort argsort flip sum mean max
min prod var std any all argmax round roll reshape ravel
"""
_OF_TWO = "add subtract multiply divide maximum minimum hypot arctan2 equal less where outer matmul"
OF_ONE, OF_TWO = _OF_ONE.split(), _OF_TWO.split()


@dataclass(frozen=True, slots=True)
class Case:
    """A workload by its name: its set-up takes a device and returns the call."""

    name: str
    set_up: Callable[[Any], Callable[[], Any]]


def measured(
    case: Case, cpu: TimedDevice, gpu: TimedDevice, demand: Demand | None = None, options: RunOptions = SHOWN
) -> Record:
    """Return the record of a workload on two devices."""
    trial = Trial(nodeid=case.name, demand=demand or Demand(), options=options)
    return trial.record(trial.compare(lambda device: partial(case.set_up, device), cpu, gpu))


# --- which bytes are known ----------------------------------------------------------------------------------


def known_bytes() -> Target:
    """Return of how many of the array functions of NumPy, torch and JAX the bytes are known without help."""
    unknown, count = [], 0
    for library in ("numpy", "torch", "jax.numpy"):
        device = _device(library)
        for name in (*OF_ONE, *OF_TWO):
            function = getattr(device.xp, {"arctan2": "atan2"}.get(name, name), None) or getattr(
                device.xp, name, None
            )
            if function is None:
                continue
            count += 1
            case = _of_function(name, function)
            try:
                workload, _ = first_call(lambda seen, case=case: partial(case.set_up, seen), device)
                moved = workload.moved_bytes
            except GpuPerfError as refused:
                moved = None
                name = f"{name} ({refused})"
            if not moved:
                unknown.append(f"{library}.{name}")
    print(f"{count - len(unknown)} of {count} functions; not known: {', '.join(unknown) or 'none'}\n")
    return Target(
        name="functions whose bytes are known, share",
        figure=1 - len(unknown) / count,
        limit=0.9,
        at_least=True,
    )


def _device(library: str) -> TimedDevice:
    """Return the CPU with the arrays of a library."""
    return {"numpy": StandInBackend(), "torch": TorchBackend(), "jax.numpy": JaxBackend()}[library].cpu()


def _of_function(name: str, function: Callable[..., Any]) -> Case:
    def set_up(device: Any) -> Callable[[], Any]:
        a, b = (device.asarray(np.ones((64, 64), np.float32)) for _ in range(2))
        if name == "where":
            mask = device.asarray(np.ones((64, 64), bool))
            return lambda: function(mask, a, b)
        if name == "roll":
            return lambda: function(a, 3)
        if name == "flip":
            return lambda: function(a, axis=0)
        if name == "cumsum":
            return lambda: function(a, axis=0)
        if name == "reshape":
            return lambda: function(a, (-1,)) + 0
        if name == "ravel":
            return lambda: function(a) + 0
        if name == "outer":
            return lambda: function(a[0], b[0])
        return partial(function, a, b) if name in OF_TWO else partial(function, a)

    return Case(name, set_up)


# --- the share beside STREAM --------------------------------------------------------------------------------


def stream_cases(size: int) -> Iterator[Case]:
    """Yield workloads that memory bounds, of float32 arrays of so many bytes, into arrays that are there."""

    def of(name: str, arrays: int, call: Callable[..., Any]) -> Case:
        def set_up(device: Any) -> Callable[[], Any]:
            used = [device.asarray(np.full(size // 4, value, np.float32)) for value in range(arrays)]
            return partial(call, *used)

        return Case(f"{name} of {size >> 20} MiB", set_up)

    yield of("copy", 2, lambda out, a: np.copyto(out, a))
    yield of("scale", 2, lambda out, a: np.multiply(a, 3, out=out))
    yield of("add", 3, lambda out, a, b: np.add(a, b, out=out))
    yield of("negative", 2, lambda out, a: np.negative(a, out=out))
    yield of("sum", 1, np.sum)


def beside_stream(sizes: list[int], pairs: int) -> Target:
    """Return in how many workloads the CPU's share is over 20 % off that of a hand-written STREAM."""
    rows, off = [], 0
    for case in (case for size in sizes for case in stream_cases(size)):
        ours, by_hand = [], []
        for _ in range(pairs):
            record = measured(case, HostDevice("the CPU"), StandIn(), options=_short())
            side = record.roof and record.roof.cpu
            if side is None or side.share is None or side.copy_time is None or record.cpu is None:
                raise SystemExit(f"{case.name}: no share")
            # Here both sides are the same CPU, and each finds the other's data in the caches: not in a loop.
            ours.append(side.copy_time / (record.cpu.alone or side.copy_time / side.share.value))
            by_hand.append(stream(side.bytes) / hand_timed(case.set_up(HostDevice("the CPU"))))
        ratio = median(ours) / median(by_hand)
        off += not 1 / (1 + ALIKE) <= ratio <= 1 + ALIKE
        rows.append(
            [case.name, f"{100 * median(ours):.0f} %", f"{100 * median(by_hand):.0f} %", f"{ratio:.2f}"]
        )
    table(["workload", "share", "of a hand-written STREAM", "ratio"], rows)
    return Target(name=f"of {len(rows)} workloads, shares over 20 % off", figure=off, limit=0)


def stream(moved: int) -> float:
    """Return the seconds of McCalpin's STREAM copy that reads and writes so many bytes, on all processors."""
    threads = max(1, int(usable_processors()))
    source, target = np.ones(moved // 8, np.float32), np.ones(moved // 8, np.float32)
    parts = [*zip(np.array_split(target, threads), np.array_split(source, threads), strict=True)]
    with ThreadPoolExecutor(threads) as pool:
        together = hand_timed(lambda: list(pool.map(lambda part: np.copyto(*part), parts)), best=True)
    return min(together, hand_timed(lambda: np.copyto(target, source), best=True))


def hand_timed(call: Callable[[], Any], *, best: bool = False) -> float:
    """Return the seconds of a call in a loop of 2 ms, the median or the best of 20."""
    call()
    started = perf_counter()
    call()
    calls = max(1, int(2e-3 / (perf_counter() - started)))
    times = []
    for _ in range(20):
        started = perf_counter()
        for _ in range(calls):
            call()
        times.append((perf_counter() - started) / calls)
    return min(times) if best else median(times)


# --- exact where the bandwidth is known ---------------------------------------------------------------------


def on_simulated(count: int) -> Target:
    """Return the largest relative error of a share on simulated devices of random bandwidths and sizes."""
    chance, worst = Random(7), 0.0  # noqa: S311 - cases that are the same in each run
    for _ in range(count):
        clock, size = Clock(), chance.randrange(1 << 12, 1 << 16)
        moved = 2 * 4 * size
        times = {kind: 10 ** chance.uniform(7, 9) for kind in ("cpu", "gpu")}
        shares = {kind: chance.uniform(0.02, 0.98) for kind in times}
        here, there = (
            SimulatedDevice(
                kind,
                clock=clock,
                timing=Timing(kernel=moved / times[kind] / shares[kind], memory_bandwidth=times[kind]),
            )
            for kind in ("cpu", "gpu")
        )

        def doubled(device: Any, size: int = size) -> Callable[[], Any]:
            a = device.asarray(np.ones(size, np.float32))
            return lambda: a + a

        roof = measured(Case("doubled", doubled), here, there, options=_short()).roof
        for kind, side in (("cpu", roof and roof.cpu), ("gpu", roof and roof.gpu)):
            if side is None or side.share is None:
                raise SystemExit("a simulated share is missing")
            worst = max(worst, abs(side.share.value / shares[kind] - 1))
    return Target(name="simulated shares, largest relative error", figure=worst, limit=1e-6)


def _short() -> RunOptions:
    plan = type(SHOWN.sampling)(record_time=0.05)
    return RunOptions(roofs=True, sampling=plan)


# --- who is called impossible -------------------------------------------------------------------------------


def honest_called_impossible(devices: list[str]) -> tuple[Target, Target]:
    """Return how many honest workloads are refused as faster than their roof, and how many there were.

    None says its bytes: a note, as on a call that reads a part of an array, refuses nothing.
    """
    named, noted, count = [], [], 0
    for device in devices:
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.json"
            subprocess.run(
                [
                    *(sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-c", "/dev/null"),
                    *("--rootdir", WORKLOADS, *sorted(WORKLOADS.glob("test_honest*.py"))),
                    *(f"--gpuperf-gpu={device}", f"--gpuperf-json={report}", "--gpuperf-max-time=2"),
                ],
                cwd=WORKLOADS,
                capture_output=True,
                check=False,
            )
            records = json.loads(report.read_text())["records"]
        shown = [each for each in records if each["roof"] and each["gpu"]]
        count += len(shown)
        for record in records:
            if "which no code can be" in (record["reason"] or ""):
                named.append(f"{device} {record['nodeid']}")
            if "faster_than_roof" in [note["code"] for note in record["notes"]]:
                noted.append(f"{device} {record['nodeid']}")
    print("honest workloads called impossible:", ", ".join(named) or "none")
    print("with a note:", ", ".join(noted) or "none", "\n")
    return (
        Target(name="honest workloads called faster than their roof", figure=len(named), limit=0),
        Target(name="honest workloads that were looked at", figure=count, limit=1000, at_least=True),
    )


def liars() -> Target:
    """Return how many planted liars, which move less than they say, are named."""
    host = np.ones(1 << 23, np.float32)  # 32 MiB
    said = 2 * host.nbytes

    def set_up(call: Callable[[Any, Any], Any]) -> Callable[[Any], Callable[[], Any]]:
        def body(device: Any) -> Callable[[], Any]:
            a, out = device.asarray(host), device.asarray(host)
            return lambda: call(a, out)

        return body

    calls: dict[str, Callable[[Any, Any], Any]] = {
        "a row of a table": lambda a, _: a[:1000] + 1,
        "every hundredth value": lambda a, _: a[::100] + 1,
        "a tenth of the output": lambda a, out: np.add(a[: len(a) // 10], 1, out=out[: len(a) // 10]),
        "a view": lambda a, _: a.reshape(2, -1)[0, :10] * 1,
        "a lookup": lambda a, _: a[np.arange(0, 1000)],
        "one value": lambda a, _: float(a[5]) + 1,
        "the middle": lambda a, _: a[1000:2000].sum(),
        "a short product": lambda a, _: a[:500] @ a[500:1000],
    }
    found = 0
    for name, call in calls.items():
        try:
            measured(Case(name, set_up(call)), HostDevice("the CPU"), StandIn(), Demand(bytes=said))
        except GpuPerfError as error:
            found += "which no code can be" in str(error)
        else:
            print(f"not named: {name}")
    return Target(name=f"of {len(calls)} liars, named", figure=found, limit=len(calls), at_least=True)


# --- what it costs ------------------------------------------------------------------------------------------


def cost(tests: int) -> list[Target]:
    """Return the seconds that the roof takes in the first test of a process, and in each later one."""
    spent = list[float]()

    def timed(method: Callable[[NearRoof], None]) -> Callable[[NearRoof], None]:
        def run(near_roof: NearRoof) -> None:
            started = perf_counter()
            method(near_roof)
            spent[-1] += perf_counter() - started

        return run

    def doubled(device: Any) -> Callable[[], Any]:
        a = device.asarray(np.ones(1 << 20, np.float32))
        return lambda: a + a

    cpu, gpu = HostDevice("the CPU"), StandIn()
    methods = {name: timed(getattr(NearRoof, name)) for name in ("time_copies", "require_possible")}
    with mock.patch.multiple(NearRoof, **methods):
        for _ in range(tests):
            spent.append(0.0)
            measured(Case("doubled", doubled), cpu, gpu, options=_short())
    first, *later = spent
    # In the first test that is faster than its roof a larger copy shows whether a cache is why.
    copies = ", ".join(f"{1e3 * each:.0f}" for each in (first, *later) if each > 1e-3)
    print(f"8 MiB: {copies} ms in the tests that timed copies, {1e3 * median(later):.3f} ms in a later one\n")
    return [Target(name="a later test, ms", figure=1e3 * median(later), limit=10)]


def main() -> int:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5, help="comparisons with STREAM of each workload")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 4, 16, 64], help="MiB of an array there")
    parser.add_argument("--honest-on", nargs="*", default=HONEST_ON, help="devices of the honest workloads")
    options = parser.parse_args()
    targets = [known_bytes(), *cost(20), liars(), on_simulated(100)]
    targets.append(beside_stream([size << 20 for size in options.sizes], options.pairs))
    if options.honest_on:
        targets += honest_called_impossible(list(options.honest_on))
    return conclude(targets)


if __name__ == "__main__":
    raise SystemExit(main())
