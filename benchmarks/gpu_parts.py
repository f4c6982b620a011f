"""What each part of `gpu.py` looks at, from a library and its devices to findings; times are in seconds."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib import metadata
from itertools import product as product_of
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from textwrap import indent
from time import perf_counter, sleep
from typing import Any

import numpy as np
from common import ALONE
from gpu_libraries import LIBRARIES, Library, devices

from pytest_gpuperf.devices.library import is_emulated
from pytest_gpuperf.devices.protocol import Device, TimedDevice
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.timing.copies import copies_of
from pytest_gpuperf.timing.trial import Trial

__all__ = ["PARTS", "Finding", "Part", "Subject"]

ROOT = Path(__file__).parent.parent
_PACKAGES = """numpy pytest pytest-xdist cupy-cuda12x cupy-cuda13x torch triton jax jaxlib jax-cuda13-plugin
    nvidia-ml-py nvidia-cublas nvidia-cuda-runtime cuda-bench""".split()  # noqa: SIM905 - as a list each has its line
_CUDA_BENCH = {"nv/batch/time/gpu/mean": "warm L2", "nv/cold/time/gpu/mean": "cold L2"}
_LONG = 50e-6  # seconds; the host's part in a shorter call is more than the few percent that were promised
_ROUNDED = 1e-5  # the error of a float32 product of normal numbers is below it, with TF32 it is 3e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One figure, or facts without one; `limit` is the most that it may be where that was promised."""

    what: str
    figure: float | None = None
    limit: float | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    def as_line(self) -> dict[str, Any]:
        """Return the finding as the object of a line of JSON."""
        numbers = {"figure": self.figure, "limit": self.limit}
        known = {name: number for name, number in numbers.items() if number is not None}
        return {"what": self.what, **known, **self.facts}


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
        """What parts need and the device is not: an emulated one is no GPU, and a fake computes nothing.

        A long run takes a fake for a GPU, to show how long each part takes.
        """
        if is_emulated(self.gpu.name):
            return ("a device that computes", *(["a GPU"] if self.short else []))
        return ("a GPU",) if self.gpu.info.emulated else ()

    def at_most(self, limit: float) -> float | None:
        """Return a limit of times on a GPU; on a device that is only emulated none was promised."""
        return None if self.gpu.info.emulated else limit

    def record(
        self,
        work: Callable[[Any], Any],
        *shape: int,
        dtype: str = "f4",
        roofs: bool = False,
        **demand: Any,
    ) -> Record:
        """Return the record of a test that does this work on an array of random numbers, on the CPU on few.

        Else most of the time, of which there is little, would go to the CPU's products.
        A short one has a limit that is far away: its rounds end soon.
        """
        if self.short:
            demand["min"] = 1e-7
        host = np.random.default_rng(0).random(shape).astype(dtype)
        few = host[tuple(slice(32) for _ in shape)]

        def bind(device: Device) -> Callable[[], Callable[[], Any]]:
            def body() -> Callable[[], Any]:
                array = device.asarray(few if device.kind == "cpu" else host)
                return partial(work, array)

            return body

        return self.measured(bind, roofs=roofs, **demand)

    def measured(
        self, bind: Callable[[Device], Callable[[], Any]], *, roofs: bool = False, **demand: Any
    ) -> Record:
        """Return the record of a test, also of one that ended in an error."""
        options = RunOptions(max_time=5.0 if self.short else 10.0, roofs=roofs)
        trial = Trial(nodeid="gpu", demand=Demand(**demand), options=options)
        return trial.record(trial.compare(bind, *self.both))


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One thing to look at with each library, or `once`, with the first of them.

    It takes so many `seconds` at most. What is `expected` on a GPU is an estimate.
    """

    name: str
    look: Callable[[Subject], Iterator[Finding]]
    expected: int
    seconds: int
    libraries: tuple[str, ...] = tuple(LIBRARIES)
    once: bool = False
    needs: str | None = None

    def choices(self, gpus: Sequence[str]) -> list[str]:
        """Return with which of these GPUs (as in `--gpuperf-gpu`) the part runs."""
        found = [gpu for gpu in gpus if gpu.partition(":")[0] in self.libraries]
        return found[:1] if self.once else found

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
    yield from _monitored(subject.gpu)
    yield Finding(what="seconds to wait for no work", figure=_mean(subject.gpu.synchronize, calls=20))
    if subject.library.module == "jax":
        yield from _client(subject.gpu)
    yield from _queue(subject)
    yield from _spins(subject)


def _monitored(gpu: TimedDevice) -> Iterator[Finding]:
    """Yield what NVML answers and how long it takes; two of the answers are asked for in each round."""
    yield Finding(what="why no clocks", facts={"reason": gpu.clocks_reason})
    for name in ("sm_mhz", "throttle_counters", "throttle", "other_processes", "clocks"):
        ask = getattr(gpu, name)
        limit = 100e-6 if name in ("sm_mhz", "throttle_counters") and ask() is not None else None
        facts = {"answer": repr(ask())}
        yield Finding(what=f"seconds to ask for {name}", figure=_mean(ask, calls=5), limit=limit, facts=facts)


def _client(gpu: Any) -> Iterator[Finding]:
    """Yield what the vendor's client tells JAX of its device; it need not implement all of it."""
    native = gpu.native
    array = gpu.asarray(np.ones((1024, 1024), np.float32))
    array @ array
    for name, look in {
        "memory_stats": lambda: native.memory_stats(),  # which some have not
        "platform_version": lambda: native.client.platform_version,
        "platform": lambda: native.platform,
        "local_hardware_id": lambda: native.local_hardware_id,
        "compute_capability": lambda: native.compute_capability,
        "bus id": lambda: gpu._pci_bus_id(),  # noqa: SLF001 - what NVML is asked for
        "hlo_modules": lambda: native.client.live_executables()[-1].hlo_modules()[0].to_string()[:120],
    }.items():
        yield Finding(what=f"JAX's {name}", facts=_guarded(look))


def _queue(subject: Subject) -> Iterator[Finding]:
    """Yield how many launches a busy device takes before one waits, and what is said of a call with more."""
    gpu, xp = subject.gpu, subject.gpu.xp
    if not gpu.occupy(1e-6):  # which compiles its kernel
        return
    array = gpu.asarray(np.ones(1000, np.float32))
    xp.add(array, 1, out=array)
    gpu.synchronize()
    gpu.occupy(0.3)
    taken, most = 0, 20_000
    while taken < most and _seconds(lambda: xp.add(array, 1, out=array)) < 0.05:
        taken += 1
    gpu.synchronize()
    yield Finding(what=f"launches that wait for a busy device, up to {most}", figure=taken)
    for count in (500, 1500):
        record = subject.measured(_on_gpu(partial(_sines, xp, count, array)), check=False, max_time=0.5)
        inspection = record.gpu and record.gpu.inspection
        facts = {
            "diagnosis": [one.code for one in record.diagnosis],
            "synchronizes": inspection and inspection.synchronizes,
            "host time": inspection and inspection.host_time,
            "block": record.gpu and record.gpu.median,
        }
        time = inspection.device_time if inspection else None
        yield Finding(what=f"device time of {count} launches", figure=time, facts=facts)


def _sines(xp: Any, count: int, array: Any) -> Any:
    for _ in range(count):
        array = xp.sin(array)
    return array


def _spins(subject: Subject) -> Iterator[Finding]:
    """Yield how long a device is occupied that has idled, and at once after it."""
    gpu = subject.gpu
    if not gpu.occupy(1e-6):
        return
    gpu.synchronize()
    for asked in (0.005,) if subject.short else (0.005, 0.1, 1.0):
        for idle in (0.1 if subject.short else 2, 0):
            sleep(idle)
            lasted = _seconds(lambda asked=asked: (gpu.occupy(asked), gpu.synchronize()))
            yield Finding(
                what=f"occupied / asked for {asked} s, after {idle} s of idling", figure=lasted / asked
            )


def detection(subject: Subject) -> Iterator[Finding]:
    """How many of twenty measurements refuse ordinary work as none, or as a kept result."""

    def observe() -> None:
        with subject.gpu.observe():
            pass

    yield Finding(what="seconds to observe no call", figure=_mean(observe, calls=20))
    for name, call in subject.library.unseen():
        yield _refused(subject, name, call)
    if "a device that computes" in subject.lacks:
        return
    try:
        compiled = None if subject.short else subject.library.compiled()
    except Exception as error:  # noqa: BLE001 - of a compiler that may not be there
        yield Finding(what="no compiled call", facts={"cause": str(error)[:200]})
    else:
        if compiled is not None:
            yield _refused(subject, "compiled, in a graph", compiled)


def times(subject: Subject) -> Iterator[Finding]:
    """Compare our block, latency and device time with device events, a hand-written loop, CUPTI and peers."""
    is_small = subject.short or "a GPU" in subject.lacks
    sizes = (1000, 1 << 18) if is_small else (1000, 1 << 20, 1 << 25)
    products = () if is_small else (512, 4096)
    for name, work, shape in (
        *((f"a + 1, {size}", _plus, (size,)) for size in sizes),
        *((f"a @ a, {size}", _product, (size, size)) for size in products),
    ):
        record = subject.record(work, *shape, check=False, max_time=2.0)
        gpu = record.gpu
        assert gpu is not None
        array = subject.library.up(np.random.default_rng(0).random(shape, dtype="f4"))
        call = partial(work, array)
        block = gpu.median or 0.0
        latency = gpu.latency or block
        calls = max(1, min(1000, round(0.02 / (block or 1e-3))))
        is_long = block >= _LONG
        yield Finding(
            what=f"{name}: block", figure=block, facts={"latency": latency, "rounds": len(gpu.samples)}
        )
        events = subject.library.by_events(call, calls)
        events = events and median(subject.library.by_events(call, calls) or 0.0 for _ in range(15))
        if events:
            yield _off(f"{name}: block / events", block, events, subject.at_most(0.02) if is_long else None)
        loop = _loop(subject.library, call, calls)
        yield _off(f"{name}: latency / loop", latency, loop, subject.at_most(0.05) if is_long else None)
        host_time = gpu.inspection.host_time if gpu.inspection else None
        if host_time is not None:
            submitted = _submission(subject.library, call)
            yield Finding(
                what=f"{name}: host time / a call that is not waited for", figure=host_time / submitted
            )
        device_time = gpu.inspection.device_time if gpu.inspection else None
        if device_time is not None and subject.gpu.occupy(1e-3):
            yield Finding(what=f"{name}: device time", figure=device_time)
            traced = None if subject.gpu.info.emulated else subject.library.by_tracing(call)
            if traced:
                what, off = f"{name}: device time - CUPTI's", abs(device_time - traced)
                # Events include the gaps beside a kernel; the clocks of two runs differ by some percent.
                limit = max(3e-6, 0.05 * traced)
                yield Finding(what=what, figure=off, limit=limit, facts={"traced": traced})
        for peer, measure in subject.library.peers(call).items():
            try:
                yield Finding(what=f"{name}: block / {peer}", figure=block / measure())
            except Exception as error:  # noqa: BLE001 - whatever a peer raises that cannot run here
                yield Finding(what=f"{name}: no {peer}", facts={"cause": str(error)[:200]})


def copies(subject: Subject) -> Iterator[Finding]:
    """Compare our copy times with those of a hand-written loop."""
    library = subject.library
    is_small = subject.short or "a GPU" in subject.lacks
    for size in (1000, 1 << 18) if is_small else (1000, 1 << 18, 1 << 22, 1 << 25):
        host = np.random.default_rng(0).random(size, dtype="f4")
        transfer = subject.record(_plus, size, check=False, max_time=2.0).transfer
        if transfer is None or not (
            transfer.h2d and transfer.d2h and transfer.h2d.median and transfer.d2h.median
        ):
            yield Finding(what=f"{4 * size} bytes", facts={"not timed": transfer and transfer.reason})
            continue
        there, calls = library.up(host), max(1, min(10, (1 << 18) // size))
        up, down = _mean(partial(library.up, host), calls), _mean(partial(library.down, there), calls)
        limit = subject.at_most(0.05) if transfer.h2d.median >= _LONG else None
        yield _off(f"{4 * size} bytes up / loop", transfer.h2d.median, up, limit)
        yield _off(f"{4 * size} bytes down / loop", transfer.d2h.median, down, limit)
        if transfer.loop:
            whole = _mean(lambda host=host: library.down(_plus(library.up(host))), calls)
            yield _off(f"{4 * size} bytes up, a + 1, down / loop", median(transfer.loop), whole, limit)


def roof(subject: Subject) -> Iterator[Finding]:
    """The bandwidth of plain copies by size, beside a loop by hand, and shares of calls that memory bounds.

    A sum of two arrays writes one, a sum of all values only reads: what it shows above 1 is how much faster a
    GPU reads than it copies. A product of matrices is far below.
    """
    gpu, known = subject.gpu, copies_of(subject.gpu)
    sizes = (1 << 20, 1 << 24) if subject.short else (1 << 16, 1 << 20, 1 << 24, 1 << 27, 1 << 30)
    started, rates = perf_counter(), {}
    for moved in sizes:
        copy = known.find(moved, gpu, RunOptions())
        rates[str(moved)] = moved / copy.seconds if copy else None
    facts = {"bytes per second": rates, "seconds for all sizes": perf_counter() - started}
    yield Finding(what="plain copies", facts=facts)
    copier, *_ = gpu.copiers(sizes[-1] // 2)
    by_hand = _loop(subject.library, copier, 20)
    if (copy := known.find(sizes[-1], gpu, RunOptions())) is not None:
        name = "a plain copy of the largest size off a loop by hand"
        yield _off(name, copy.seconds, by_hand, subject.at_most(0.1))
    side = 4096 if not subject.short else 256
    works = {"a sum of two arrays": _plus_itself, "a sum of all values": _total, "a product": _product}
    for name, work in works.items():
        record = subject.record(work, side, side, check=False, roofs=True)
        found = record.roof.gpu if record.roof else None
        shown = {} if found is None else {"bytes": found.bytes, "bytes per second": found.bandwidth}
        share = found.share.value if found and found.share else None
        yield Finding(what=f"share of the roof of {name}", figure=share, facts=shown)


def clocks(subject: Subject) -> Iterator[Finding]:
    """How much slower a block is after the GPU has idled, and how much faster than under lasting load."""
    gpu, short = subject.gpu, subject.short
    random = np.random.default_rng(0)
    size, count = (256, 1 << 16) if short else (4096, 1 << 26)
    host = random.random((1024, 1024), dtype="f4")
    matrix = gpu.asarray(random.random((size, size), dtype="f4"))
    vector = gpu.asarray(random.random(count, dtype="f4"))

    def product() -> float:
        gpu.synchronize()
        return _seconds(lambda: (_product(matrix), gpu.synchronize()))

    def elementwise() -> float:
        gpu.synchronize()
        return _seconds(lambda: (_plus(vector), gpu.synchronize()))

    def blas(seconds: float) -> None:
        end = perf_counter() + seconds
        while perf_counter() < end:
            host @ host

    slowed = gpu.throttle_counters()
    sleep(0.1 if short else 3)
    started, series = perf_counter(), []
    while perf_counter() - started < (0.1 if short else 1.5):
        series.append((perf_counter() - started, product()))
    steady = median(seconds for _, seconds in series[len(series) // 2 :])
    awake = next((at for at, seconds in series if seconds <= 1.05 * steady), None)
    facts = {
        "first": [seconds for _, seconds in series[:5]],
        "steady": steady,
        "clocks": repr(gpu.clocks()),
    }
    yield Finding(what="seconds of work until a product is steady", figure=awake, facts=facts)
    for load, block, gaps in (
        ("a @ a", product, (0.001, 0.01) if short else (0.001, 0.01, 0.1, 1.0)),
        ("a + 1", elementwise, (0.001,) if short else (0.001, 0.01, 0.1)),
    ):
        back_to_back = median(block() for _ in range(3 if short else 30))
        for gap, (how, idle) in product_of(gaps, {"sleep": sleep, "BLAS": blas}.items()):
            first, clock = [], []
            for _ in range(3 if gap >= 1 or short else 10):
                idle(gap)
                clock.append(gpu.sm_mhz())
                first.append(block())
            what = f"{load}: block after {gap} s of {how} / back to back"
            yield Finding(what=what, figure=median(first) / back_to_back, facts={"MHz": clock})
    reasons = {"work": Counter[str](), "idling": Counter[str]()}
    for _ in range(2 if short else 20):
        product()
        reasons["work"].update(_reasons(gpu))
        blas(0.02)
        reasons["idling"].update(_reasons(gpu))
    yield Finding(what="reasons for lower clocks, after work and after idling", facts=reasons)
    started = perf_counter()
    while perf_counter() - started < (0.1 if short else 5):
        lasting = product()
    facts = {
        "clocks": repr(gpu.clocks()),
        "slowed down, before": slowed,
        "and now": gpu.throttle_counters(),
    }
    yield Finding(what="a @ a after 5 s of load / at first", figure=lasting / steady, facts=facts)


def answers(subject: Subject) -> Iterator[Finding]:
    """The error between CPU and GPU that is no mistake, in the tolerance that it is held to."""
    library, random = subject.library, np.random.default_rng(1)
    size = 64 if subject.short else 512
    weights = random.standard_normal((4, size, size), dtype=np.float32) / size**0.5
    images = random.standard_normal((4, 32, 64, 64), dtype=np.float32)
    kernels = random.standard_normal((4, 32, 32, 3, 3), dtype=np.float32) / 17

    def products(layers: int, dtype: str, device: Device) -> Callable[[], Any]:
        def body() -> Callable[[], Any]:
            held = [library.cast(device.asarray(each), dtype) for each in weights[:layers]]

            def run() -> Any:
                values = held[0]
                for each in held:
                    values = abs(values @ each)
                return values

            return run

        return body

    def convolutions(layers: int, device: Device) -> Callable[[], Any]:
        def body() -> Callable[[], Any]:
            shown, held = device.asarray(images), [device.asarray(each) for each in kernels[:layers]]

            def run() -> Any:
                values = shown
                for each in held:
                    values = library.convolve(values, each)
                return values

            return run

        return body

    loads = [
        (f"{dtype}, {layers} products", partial(products, layers, dtype))
        for dtype in library.dtypes
        for layers in (1, 2, 4)
    ]
    if type(library).convolve is not Library.convolve:
        loads += [(f"float32, {layers} convolutions", partial(convolutions, layers)) for layers in (1, 2, 4)]
    for name, bind in loads:
        check = subject.measured(bind, max_time=0.5).check
        assert check is not None
        info = subject.gpu.info
        facts = {
            "reason": check.reason,
            "mode": [info.reduced_precision, info.reduced_convolutions],
            "error": check.error,
            "tolerance": check.tolerance,
        }
        share = None if check.error is None or not check.tolerance else check.error / check.tolerance
        yield Finding(what=f"error / tolerance, {name}", figure=share, limit=1, facts=facts)
    yield from _rounding(subject)


def _rounding(subject: Subject) -> Iterator[Finding]:
    """Yield for each setting whether float32 products are rounded exactly where the device says so."""
    program = f"""
import json, sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
import gpu_libraries, numpy
gpu = gpu_libraries.devices({subject.choice!r})[1]
one, other = numpy.random.default_rng(0).standard_normal((2, 512, 512), dtype="f4")
exact = one.astype("f8") @ other
found = gpu.asnumpy(gpu.asarray(one) @ gpu.asarray(other))
error = float(numpy.linalg.norm(found - exact) / numpy.linalg.norm(exact))
print(json.dumps({{"error": error, "mode": gpu.info.reduced_precision}}))
"""
    for setting in subject.library.settings[: 1 if subject.short else None]:
        lines = _output(sys.executable, "-c", program, **setting).splitlines()
        name = " ".join(f"{key}={value}" for key, value in setting.items()) or "no setting"
        try:
            facts = json.loads(lines[-1])
            is_wrong = (facts["error"] > _ROUNDED) is not (facts["mode"] is not None)
        except (IndexError, ValueError):
            facts, is_wrong = {"said": lines[-1:]}, True
        yield Finding(
            what=f"rounding other than described: {name}", figure=float(is_wrong), limit=0, facts=facts
        )


def faults(subject: Subject) -> Iterator[Finding]:
    """What the library raises without memory, and after a crash, and whether it is recognized."""
    library = subject.library
    for name, (kind, code) in library.faults.items():
        program = f"""
import sys, time; sys.path.insert(0, {str(Path(__file__).parent)!r})
import {library.module}, gpu_libraries, numpy
from pytest_gpuperf.devices import capabilities
gpu = gpu_libraries.devices({subject.choice!r})[1]
try:
{indent(code, "    ")}
except Exception as error:
    fault = capabilities.fault(gpu, error)
    text = f"{{type(error).__name__}}: {{error}}"[:200].replace(chr(10), " ")
else:
    sys.exit("nothing was raised")
held = a = out = None
if {kind == "out_of_memory"}:
    gpu.release()
    gpu.asarray(numpy.ones(3)) + 1
    gpu.synchronize()
print(text, fault, sep=" | ")
"""
        said = _output(sys.executable, "-c", program).splitlines()[-1:]
        is_known = f"kind='{kind}'" in "".join(said)
        yield Finding(
            what=f"not recognized: {kind}, {name}",
            figure=float(not is_known),
            limit=0,
            facts={"raised": said},
        )


def tenants(subject: Subject) -> Iterator[Finding]:
    """What another process on the same GPU costs, and whether the record says so."""
    size = 256 if subject.short else 2048
    product = partial(subject.record, _product, size, size, check=False, max_time=2.0)
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


def cuda_bench(subject: Subject) -> Iterator[Finding]:
    """Compare our block with the times of NVIDIA's own harness, with a warm and with a cold L2."""
    try:
        from cuda import bench
    except ImportError as error:
        yield Finding(what="not looked at: it needs cuda-bench", facts={"cause": str(error)})
        return
    cupy, ours = subject.library.module_object, {}
    for name, work, shape in (
        ("a + 1, 1048576", _plus, (1 << 20,)),
        ("a + 1, 33554432", _plus, (1 << 25,)),
        ("a @ a, 4096", _product, (4096, 4096)),
    ):
        gpu = subject.record(work, *shape, check=False, max_time=2.0).gpu
        ours[name] = (gpu and gpu.median) or 0.0

        def run(state: Any, work: Callable[[Any], Any] = work, shape: tuple[int, ...] = shape) -> None:
            with cupy.cuda.Stream.from_external(state.get_stream()):
                array = cupy.asarray(np.random.default_rng(0).random(shape, dtype="f4"))
                work(array)  # it takes its memory now: nothing may wait for the device while that is blocked

            def launch(one: Any) -> None:
                with cupy.cuda.Stream.from_external(one.get_stream()):
                    work(array)

            state.exec(launch)

        bench.register(run).set_name(name)
    file = subject.folder / "cuda-bench.json"
    device = subject.choice.partition(":")[2] or "0"
    options = ["--devices", device, "--json", str(file), "--timeout", "4", "--min-time", "0.3"]
    bench.run_all_benchmarks(["gpu.py", *options])
    for benchmark in json.loads(file.read_text(encoding="utf-8"))["benchmarks"]:
        for summary in benchmark["states"][0]["summaries"]:
            if summary["tag"] in _CUDA_BENCH:
                theirs = next(float(one["value"]) for one in summary["data"] if one["name"] == "value")
                name = benchmark["name"]
                yield _off(
                    f"{name}: block / cuda-bench, {_CUDA_BENCH[summary['tag']]}", ours[name], theirs, None
                )


def hidden(subject: Subject) -> Iterator[Finding]:
    """What the package says of a GPU that is hidden from the library, and of one that is not there."""
    program = f"""
from pytest_gpuperf.devices.machine import Machine
try:
    print(Machine({subject.choice!r}).gpu().name)
except Exception as error:
    print(getattr(error, "broken", None), error)
"""
    for value in ("", "7"):
        said = _output(sys.executable, "-c", program, CUDA_VISIBLE_DEVICES=value)
        yield Finding(what=f"CUDA_VISIBLE_DEVICES={value!r}", facts={"said": said[-400:]})


def profiled(subject: Subject) -> Iterator[Finding]:
    """How many of CUDA's events torch's profiler sees after a profile of the CPU alone, in one process."""
    from torch.profiler import ProfilerActivity, profile

    torch = subject.library.module_object
    array = torch.ones(1 << 20, device="cuda")
    for name, activities in {
        "of the CPU": [ProfilerActivity.CPU],
        "of both, after it": [ProfilerActivity.CPU, ProfilerActivity.CUDA],
    }.items():
        with profile(activities=activities) as seen:
            _plus(array)
            torch.cuda.synchronize()
        count = sum(event.device_type.name == "CUDA" for event in seen.events())
        yield Finding(what=f"CUDA's events in a profile {name}", figure=count)


def tests(subject: Subject) -> Iterator[Finding]:
    """The project's own tests of this library on its GPU; warnings of its version are no faults."""
    name = subject.choice.partition(":")[0]
    chosen = (
        ("tests/gpu/test_cuda.py", "-k", f"[{name}")
        if name in ("cupy", "torch")
        else (f"tests/gpu/test_{name}.py",)
    )
    yield _pytest(*chosen, "-W", "default")


def examples(subject: Subject) -> Iterator[Finding]:
    """The gallery; its report stays in the folder."""
    report = subject.folder / f"examples-{subject.choice.replace(':', '-')}.json"
    options = (f"--gpuperf-gpu={subject.choice}", "--gpuperf-fail=nothing", f"--gpuperf-json={report}")
    yield _pytest("examples", "--gpuperf-max-time=1", *options)


def workers(subject: Subject) -> Iterator[Finding]:
    """The gallery in four processes that share the GPU."""
    options = ("-pxdist", "-n4", f"--gpuperf-gpu={subject.choice}", "--gpuperf-fail=nothing")
    yield _pytest("examples", "--gpuperf-max-time=0.5", *options)  # whether they get in each other's way


PARTS = (  # what is wanted most comes first
    Part(name="machine", look=machine, expected=15, seconds=45),
    Part(name="tests", look=tests, expected=30, seconds=90, needs="a GPU"),
    Part(name="times", look=times, expected=15, seconds=90),
    Part(name="detection", look=detection, expected=20, seconds=90),
    Part(name="answers", look=answers, expected=20, seconds=60, needs="a device that computes"),
    Part(name="clocks", look=clocks, expected=25, seconds=45, once=True, needs="a GPU"),
    Part(name="faults", look=faults, expected=20, seconds=60),
    Part(name="copies", look=copies, expected=12, seconds=45),
    Part(name="roof", look=roof, expected=12, seconds=45),
    Part(name="hidden", look=hidden, expected=8, seconds=40, needs="a GPU"),
    Part(name="profiled", look=profiled, expected=8, seconds=30, libraries=("torch",), needs="a GPU"),
    Part(name="workers", look=workers, expected=30, seconds=90, once=True, needs="a GPU"),
    Part(name="examples", look=examples, expected=30, seconds=90, needs="a GPU"),
    Part(name="tenants", look=tenants, expected=15, seconds=30, once=True, needs="a GPU"),
    Part(name="cuda_bench", look=cuda_bench, expected=15, seconds=40, libraries=("cupy",), needs="a GPU"),
)


def _plus(array: Any) -> Any:
    return array + 1


def _plus_itself(array: Any) -> Any:
    return array + array


def _total(array: Any) -> Any:
    return array.sum()


def _product(array: Any) -> Any:
    return array @ array


def _reasons(gpu: TimedDevice) -> tuple[str, ...]:
    """Return the reasons for lower clocks at this moment, of which there may be none."""
    found = gpu.clocks()
    return ("unknown",) if found is None else found.throttle or ("none",)


def _refused(subject: Subject, name: str, call: Callable[[], Any]) -> Finding:
    """Return how often a test that makes this call on the GPU ends in an error."""
    errors = []
    for _ in range(2 if subject.short else 20):
        try:
            subject.measured(_on_gpu(call), check=False, max_time=0.1)
        except GpuPerfError as error:
            errors.append(str(error))
    return Finding(
        what=f"false errors: {name}", figure=len(errors), limit=0, facts={"errors": sorted({*errors})}
    )


def _on_gpu(call: Callable[[], Any]) -> Callable[[Device], Callable[[], Any]]:
    """Return a test that makes this call on the GPU, and next to nothing on the CPU."""

    def bind(device: Device) -> Callable[[], Any]:
        on_cpu = device.asarray(np.ones(1000, "f4")) if device.kind == "cpu" else None
        return lambda: call if on_cpu is None else partial(_plus, on_cpu)

    return bind


def _loop(library: Library, call: Callable[[], Any], calls: int) -> float:
    """Return the mean time of calls that are each waited for."""
    return _mean(lambda: library.wait(call()), calls)


def _submission(library: Library, call: Callable[[], Any]) -> float:
    """Return the time until a call returns, on an idle device."""
    found = []
    for _ in range(50):
        started = perf_counter()
        result = call()
        found.append(perf_counter() - started)
        library.wait(result)
    return median(found)


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
    """Run pytest in the project's root, and print what it prints, as it comes; return how it ended."""
    here = Path(__file__).parent
    path = os.pathsep.join(filter(None, (str(here), os.environ.get("PYTHONPATH"))))
    with TemporaryDirectory() as temporary:
        plugins = ("-pno:cacheprovider", "-pgpuperf", "-pgpu_failures")  # others may need long to start
        command = (sys.executable, "-m", "pytest", "-v", *plugins)
        with subprocess.Popen(
            [*command, f"--basetemp={temporary}/t", "--tb=short", *arguments],
            cwd=ROOT,
            env={**os.environ, **ALONE, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as running:
            assert running.stdout is not None
            lines = []
            for line in running.stdout:
                print(line, end="", flush=True)
                lines.append(line.rstrip())
    facts = {
        "exit code": running.returncode,
        "last line": lines[-1:],
        "failed": [line for line in lines if line.startswith(("FAILED", "ERROR"))],
    }
    what = f"exit code of pytest {arguments[0]}"
    return Finding(what=what, figure=running.returncode, limit=0, facts=facts)


def _guarded(look: Callable[[], Any]) -> dict[str, str]:
    """Return what was found, or raised."""
    try:
        return {"found": str(look())[:500]}
    except Exception as error:  # noqa: BLE001 - of any library
        return {"raised": f"{type(error).__name__}: {error}"[:300]}


def _output(*command: str, **settings: str) -> str:
    """Return what a command prints with some variables of the environment, or why it cannot be run."""
    environment = {**os.environ, **settings}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return (done.stdout or done.stderr).strip()


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
