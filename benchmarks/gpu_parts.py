"""What each part of `gpu.py` looks at, from a library and its devices to findings; times are in seconds."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib import metadata
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import Any

import numpy as np
from gpu_libraries import LIBRARIES, Library, devices

from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.library import is_emulated
from pytest_gpuperf.devices.protocol import Device, TimedDevice
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.timing.trial import Trial

__all__ = ["PARTS", "Finding", "Part", "Subject"]

ROOT = Path(__file__).parent.parent
_PACKAGES = """numpy pytest pytest-xdist cupy-cuda12x cupy-cuda13x torch triton jax jaxlib jax-cuda13-plugin
    nvidia-ml-py nvidia-cublas nvidia-cuda-runtime""".split()  # noqa: SIM905 - as a list each has its line


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One figure, or facts without one; `limit` is the most that it may be where that was promised."""

    what: str
    figure: float | None = None
    limit: float | None = None
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What a part looks at: a library, by `--gpuperf-gpu`; `short` asks for small sizes and few turns."""

    choice: str
    folder: Path
    short: bool

    @cached_property
    def library(self) -> Library:
        """The library, as its users call it."""
        return LIBRARIES[self.choice.partition(":")[0]]()

    @cached_property
    def both(self) -> tuple[TimedDevice, TimedDevice]:
        """The CPU and the GPU, as the package opens them."""
        return devices(self.choice)

    @property
    def gpu(self) -> TimedDevice:
        """The GPU."""
        return self.both[1]

    @property
    def lacks(self) -> tuple[str, ...]:
        """What parts need and the device is not: an emulated one is no GPU, and a fake computes nothing."""
        if is_emulated(self.gpu.name):
            return ("a GPU", "a device that computes")
        return ("a GPU",) if self.gpu.info.emulated else ()

    def at_most(self, limit: float) -> float | None:
        """Return a limit of times on a GPU; on a device that is only emulated none was promised."""
        return None if self.gpu.info.emulated else limit

    def record(self, work: Callable[[Any], Any], *shape: int, dtype: str = "f4", **demand: Any) -> Record:
        """Return the record of a test that does this work on an array of random numbers.

        A short one has a limit that is far away: its rounds end soon.
        """
        if self.short:
            demand["min"] = 1e-7
        host = np.random.default_rng(0).random(shape).astype(dtype)

        def bind(device: Device) -> Callable[[], Callable[[], Any]]:
            def body() -> Callable[[], Any]:
                array = device.asarray(host)
                return partial(work, array)

            return body

        return self.measured(bind, **demand)

    def measured(self, bind: Callable[[Device], Callable[[], Any]], **demand: Any) -> Record:
        """Return the record of a test, also of one that ended in an error."""
        trial = Trial(
            nodeid="gpu", demand=Demand(**demand), options=RunOptions(max_time=5.0 if self.short else 10.0)
        )
        return trial.record(trial.compare(bind, *self.both))


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One thing to look at, for so many seconds at most."""

    name: str
    look: Callable[[Subject], Iterator[Finding]]
    seconds: int
    libraries: tuple[str, ...] = tuple(LIBRARIES)
    needs: str | None = None

    def findings(self, subject: Subject) -> Iterator[Finding]:
        """Yield what is found, or that the device cannot show it."""
        if self.needs is not None and self.needs in subject.lacks:
            yield Finding(what=f"not looked at: it needs {self.needs}")
        else:
            yield from self.look(subject)


def machine(subject: Subject) -> Iterator[Finding]:
    """What the GPU and its libraries are, before and after a context exists."""
    query = "name,driver_version,pstate,clocks.sm,clocks.mem,power.draw,compute_mode,mig.mode.current"
    before = _output("nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader")
    started = perf_counter()
    info = subject.gpu.info
    yield Finding(
        what="seconds to open the device", figure=perf_counter() - started, facts={"info": repr(info)}
    )
    after = _output("nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader")
    packages = {name: _version(name) for name in _PACKAGES}
    facts = {"before": before, "after": after, "packages": packages, "processors": os.cpu_count()}
    yield Finding(what="nvidia-smi, packages", facts=facts)
    if capabilities.sm_mhz(subject.gpu) is not None:  # both are asked in each round
        for name in ("sm_mhz", "throttle_counters"):
            asked = _mean(partial(getattr(capabilities, name), subject.gpu), calls=20)
            yield Finding(what=f"seconds to ask for {name}", figure=asked, limit=100e-6)


def detection(subject: Subject) -> Iterator[Finding]:
    """How many of twenty measurements refuse ordinary work as none, or as a kept result."""
    for name, call in subject.library.unseen():
        errors = []
        for _ in range(2 if subject.short else 20):
            try:
                subject.measured(_on_gpu(call), parity=False, max_time=0.2)
            except GpuPerfError as error:
                errors.append(str(error))
        yield Finding(
            what=f"false errors: {name}", figure=len(errors), limit=0, facts={"errors": sorted({*errors})}
        )


def times(subject: Subject) -> Iterator[Finding]:
    """Compare our block, latency and device time with device events, a hand-written loop, CUPTI and peers."""
    sizes = (1000, 1 << 18) if subject.short else (1000, 1 << 20, 1 << 25)
    products = () if subject.short else (512, 4096)
    for name, work, shape in (
        *((f"a + 1, {size}", _plus, (size,)) for size in sizes),
        *((f"a @ a, {size}", _product, (size, size)) for size in products),
    ):
        record = subject.record(work, *shape, parity=False)
        gpu = record.gpu
        assert gpu is not None
        array = subject.library.up(np.random.default_rng(0).random(shape, dtype="f4"))
        call = partial(work, array)
        block = gpu.median or 0.0
        latency = gpu.latency or block
        calls = max(1, min(1000, round(0.02 / (block or 1e-3))))
        yield Finding(
            what=f"{name}: block", figure=block, facts={"latency": latency, "rounds": len(gpu.samples)}
        )
        events = subject.library.by_events(call, calls)
        events = events and median(subject.library.by_events(call, calls) or 0.0 for _ in range(15))
        if events:
            large = 4 * np.prod(shape) >= 1 << 20
            yield _off(f"{name}: block / events", block, events, subject.at_most(0.02) if large else None)
        yield _off(
            f"{name}: latency / loop", latency, _loop(subject.library, call, calls), subject.at_most(0.05)
        )
        device_time = gpu.inspection.device_time if gpu.inspection else None
        if device_time is not None and capabilities.occupy(subject.gpu, 1e-3):
            yield Finding(what=f"{name}: device time", figure=device_time)
            traced = None if subject.gpu.info.emulated else subject.library.by_tracing(call)
            if traced:
                what, off = f"{name}: device time - CUPTI's", abs(device_time - traced)
                yield Finding(what=what, figure=off, limit=1e-6, facts={"traced": traced})
        for peer, measure in subject.library.peers(call).items():
            try:
                yield Finding(what=f"{name}: block / {peer}", figure=block / measure())
            except Exception as error:  # noqa: BLE001 - whatever a peer raises that cannot run here
                yield Finding(what=f"{name}: no {peer}", facts={"cause": str(error)[:200]})


def copies(subject: Subject) -> Iterator[Finding]:
    """Compare our copy times with those of a hand-written loop."""
    library, limit = subject.library, subject.at_most(0.05)
    for size in (1000, 1 << 18) if subject.short else (1000, 1 << 18, 1 << 22, 1 << 26):
        host = np.random.default_rng(0).random(size, dtype="f4")
        transfer = subject.record(_plus, size, parity=False).transfer
        if transfer is None or not (
            transfer.h2d and transfer.d2h and transfer.h2d.median and transfer.d2h.median
        ):
            yield Finding(what=f"{4 * size} bytes", facts={"not timed": transfer and transfer.reason})
            continue
        there, calls = library.up(host), max(1, min(10, (1 << 18) // size))
        up, down = _mean(partial(library.up, host), calls), _mean(partial(library.down, there), calls)
        yield _off(f"{4 * size} bytes up / loop", transfer.h2d.median, up, limit)
        yield _off(f"{4 * size} bytes down / loop", transfer.d2h.median, down, limit)


def clocks(subject: Subject) -> Iterator[Finding]:
    """How much slower a block is after the GPU has idled, and how much faster than under lasting load."""
    size = 256 if subject.short else 4096
    array = subject.gpu.asarray(np.random.default_rng(0).random((size, size), dtype="f4"))

    def block() -> float:
        subject.gpu.synchronize()
        return _seconds(lambda: (_product(array), subject.gpu.synchronize()))

    sleep(0.1 if subject.short else 3)
    started, series = perf_counter(), []
    while perf_counter() - started < (0.1 if subject.short else 1.5):
        series.append((perf_counter() - started, block()))
    steady = median(seconds for _, seconds in series[len(series) // 2 :])
    awake = next((at for at, seconds in series if seconds <= 1.05 * steady), None)
    facts = {
        "first": [seconds for _, seconds in series[:5]],
        "steady": steady,
        "clocks": repr(capabilities.clocks(subject.gpu)),
    }
    yield Finding(what="seconds of work until a product is steady", figure=awake, facts=facts)
    for gap in (0.001, 0.01) if subject.short else (0.001, 0.01, 0.1, 1.0):
        first = []
        for _ in range(3 if gap >= 1 else 10):
            sleep(gap)
            first.append(block())
        yield Finding(what=f"block after {gap} s idle / back to back", figure=median(first) / steady)
    if subject.short:
        return
    started = perf_counter()
    while perf_counter() - started < 5:
        lasting = block()
    facts = {"clocks": repr(capabilities.clocks(subject.gpu))}
    yield Finding(what="after 5 s of load / at first", figure=lasting / steady, facts=facts)


def answers(subject: Subject) -> Iterator[Finding]:
    """The error between CPU and GPU that is no mistake, in the tolerance that it is held to."""
    size = 64 if subject.short else 512
    weights = np.random.default_rng(1).standard_normal((4, size, size), dtype=np.float32) / size**0.5

    def network(layers: int, device: Device) -> Callable[[], Any]:
        def body() -> Callable[[], Any]:
            held = [device.asarray(each) for each in weights[:layers]]

            def run() -> Any:
                values = held[0]
                for each in held:
                    values = abs(values @ each)
                return values

            return run

        return body

    for layers in (1, 2, 4):
        record = subject.measured(partial(network, layers), max_time=0.5)
        parity = record.parity
        assert parity is not None
        facts = {"reason": parity.reason, "mode": subject.gpu.info.reduced_precision}
        share = None if parity.error is None or not parity.tolerance else parity.error / parity.tolerance
        yield Finding(
            what=f"error / tolerance, float32, {layers} products", figure=share, limit=1, facts=facts
        )


def faults(subject: Subject) -> Iterator[Finding]:
    """What the library raises without memory, and after a crash, and whether it is recognized."""
    library = subject.library
    for kind, code in (("out_of_memory", library.out_of_memory), ("lost", library.lost)):
        if code is None:
            continue
        program = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
import {library.module}, gpu_libraries
gpu = gpu_libraries.devices({subject.choice!r})[1]
try:
    {code.replace(f"import {library.module}; ", "")}
except Exception as error:
    print(type(error).__name__, str(error)[:200].replace(chr(10), " "), gpu.fault(error), sep=" | ")
else:
    print("nothing was raised")
"""
        said = _output(sys.executable, "-c", program).splitlines()[-1:]
        is_known = f"kind='{kind}'" in "".join(said)
        yield Finding(
            what=f"not recognized: {kind}", figure=float(not is_known), limit=0, facts={"raised": said}
        )


def tenants(subject: Subject) -> Iterator[Finding]:
    """What another process on the same GPU costs, and whether the record says so."""
    size = 256 if subject.short else 2048
    product = partial(subject.record, _product, size, size, parity=False, max_time=2.0)
    alone = product()
    lasts = 3 if subject.short else 10
    program = f"""
import sys, time; sys.path.insert(0, {str(Path(__file__).parent)!r})
import gpu_libraries, numpy
gpu = gpu_libraries.devices({subject.choice!r})[1]
a = gpu.asarray(numpy.ones(({2 * size}, {2 * size}), "f4"))
print(flush=True)
end = time.time() + {lasts}
while time.time() < end:
    a @ a
    gpu.synchronize()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()  # it is at work from now on
        shared = product()
        other.kill()
    assert alone.gpu is not None
    assert shared.gpu is not None
    facts = {"notes": [note.code for note in shared.notes], "interference": repr(shared.gpu_interference)}
    yield Finding(
        what="beside another process / alone",
        figure=(shared.gpu.median or 0) / (alone.gpu.median or 1),
        facts=facts,
    )


def tests(subject: Subject) -> Iterator[Finding]:
    """The project's own tests of this library on its GPU."""
    name = subject.choice.partition(":")[0]
    yield _pytest(f"tests/gpu/test_{name}.py", f"--junitxml={subject.folder / f'tests-{name}.xml'}")


def examples(subject: Subject) -> Iterator[Finding]:
    """The gallery; its report stays in the folder."""
    report = subject.folder / f"examples-{subject.choice.replace(':', '-')}.json"
    options = (f"--gpuperf-gpu={subject.choice}", "--gpuperf-report-only", f"--gpuperf-json={report}")
    yield _pytest("examples", *options)


def workers(subject: Subject) -> Iterator[Finding]:
    """The gallery in four processes that share the GPU."""
    yield _pytest("examples", "-n4", f"--gpuperf-gpu={subject.choice}", "--gpuperf-report-only")


PARTS = (  # what matters most comes first
    Part(name="machine", look=machine, seconds=20),
    Part(name="detection", look=detection, seconds=40),
    Part(name="times", look=times, seconds=40),
    Part(name="tests", look=tests, seconds=60, needs="a GPU"),
    Part(name="copies", look=copies, seconds=25),
    Part(name="clocks", look=clocks, seconds=20, libraries=("cupy", "torch"), needs="a GPU"),
    Part(name="answers", look=answers, seconds=20, needs="a device that computes"),
    Part(name="faults", look=faults, seconds=40),
    Part(name="examples", look=examples, seconds=90, needs="a GPU"),
    Part(name="tenants", look=tenants, seconds=30, libraries=("cupy",), needs="a GPU"),
    Part(name="workers", look=workers, seconds=60, libraries=("cupy",), needs="a GPU"),
)


def _plus(array: Any) -> Any:
    return array + 1


def _product(array: Any) -> Any:
    return array @ array


def _on_gpu(call: Callable[[], Any]) -> Callable[[Device], Callable[[], Any]]:
    """Return a test that makes this call on the GPU, and next to nothing on the CPU."""

    def bind(device: Device) -> Callable[[], Any]:
        on_cpu = device.asarray(np.ones(1000, "f4")) if device.kind == "cpu" else None
        return lambda: call if on_cpu is None else partial(_plus, on_cpu)

    return bind


def _loop(library: Library, call: Callable[[], Any], calls: int) -> float:
    """Return the mean time of calls that are each waited for."""
    return _mean(lambda: library.wait(call()), calls)


def _mean(call: Callable[[], Any], calls: int) -> float:
    """Return the mean time of calls that wait for themselves, as the median of blocks: as ours are."""

    def block() -> None:
        for _ in range(calls):
            call()

    block()
    return median(_seconds(block) / calls for _ in range(15))


def _off(what: str, ours: float, theirs: float, limit: float | None) -> Finding:
    facts = {"ours": ours, "theirs": theirs, "ratio": ours / theirs}
    return Finding(what=what, figure=abs(ours / theirs - 1), limit=limit, facts=facts)


def _seconds(call: Callable[[], Any]) -> float:
    started = perf_counter()
    call()
    return perf_counter() - started


def _pytest(*arguments: str) -> Finding:
    """Run pytest in the project's root; return how many tests failed."""
    with TemporaryDirectory() as temporary:
        command = (
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-pno:cacheprovider",
            f"--basetemp={temporary}/t",
            *arguments,
        )
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    facts = {
        "exit code": done.returncode,
        "last line": lines[-1:],
        "failed": [line for line in lines if line.startswith("FAILED")],
    }
    return Finding(what=f"exit code of pytest {arguments[0]}", figure=done.returncode, limit=0, facts=facts)


def _output(*command: str) -> str:
    """Return what a command prints, or why it cannot be run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return (done.stdout or done.stderr).strip()


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def written(finding: Finding, part: str) -> str:
    """Return a finding of a part as a line of JSON."""
    facts = {
        name: value
        for name, value in (("figure", finding.figure), ("limit", finding.limit))
        if value is not None
    }
    return json.dumps({"part": part, "what": finding.what, **facts, **finding.facts})
