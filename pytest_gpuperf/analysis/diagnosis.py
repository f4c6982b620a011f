"""From a record to what holds its speedup back: each rule finds one reason, or none."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import ceil, floor
from statistics import quantiles

from pytest_gpuperf.analysis.verdict import dependence
from pytest_gpuperf.model.measurement import Estimate, Inspection, Measurement
from pytest_gpuperf.model.offload import BreakEven, Diagnosis
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.model.units import bandwidth, seconds, size

__all__ = ["annotate", "find"]

_BUSY = 0.5  # of a call's time: a device that works less waits for its launches
_ONE_PROCESSOR = 1.25  # as many processors busy are one thread, and a little beside it
_WAITED = 0.1  # of the blocks' time
_SHORT = 0.5  # of the time that a block has to last
_SLOW_FIRST = 10  # times a later call, on either device
_OUTSIDE = 0.1  # of a call's time
_SYNCHRONIZES = 10  # empty ones, which take that much time by themselves
_NOISY = 0.25  # of the median: the middle half of the samples
_FEWEST_SAMPLES = 5
_DOUBLES = frozenset({"float64", "complex128"})
_FLOATING = _DOUBLES | {"float16", "bfloat16", "float32", "complex64"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """A record, and what its CPU could have used: None where the system does not tell."""

    record: Record
    usable: float | None
    pool_threads: int | None

    @property
    def sides(self) -> dict[str, Measurement]:
        """The measurements that have samples, by the names that a sentence gives them."""
        both = {"CPU": self.record.cpu, "GPU": self.record.gpu}
        return {side: found for side, found in both.items() if found is not None and found.samples}

    @property
    def cpu_time(self) -> float | None:
        return self.record.cpu.median if self.record.cpu else None

    @property
    def gpu_time(self) -> float | None:
        return self.record.gpu.median if self.record.gpu else None

    @property
    def inspection(self) -> Inspection | None:
        return self.record.gpu.inspection if self.record.gpu else None

    @property
    def break_even(self) -> BreakEven | None:
        return self.record.offload.break_even_calls if self.record.offload else None


def annotate(record: Record, processors: Callable[[], tuple[float | None, int | None]]) -> Record:
    """Return a record of both devices with its diagnoses; any other record as it is.

    `processors` returns how many the process may use, and how many threads its libraries may. It is not
    called for an emulated device, whose own threads keep the processors busy.
    """
    if record.cpu is None or record.gpu is None:
        return record
    emulated = record.cpu.device.emulated or record.gpu.device.emulated
    usable, pool_threads = (None, None) if emulated else processors()
    return replace(record, diagnosis=find(record, usable=usable, pool_threads=pool_threads))


def find(record: Record, *, usable: float | None, pool_threads: int | None) -> tuple[Diagnosis, ...]:
    """Return the reasons why a speedup is what it is; numbers that are not known give none.

    `usable` is how many processors the process may use, `pool_threads` how many threads the libraries may.
    """
    case = _Case(record=record, usable=usable, pool_threads=pool_threads)
    return tuple(found for rule in _RULES if (found := rule(case)) is not None)


def _launch_bound(case: _Case) -> Diagnosis | None:
    """Silent where waiting for the device, or work that its events do not see, explains that it is idle."""
    seen, call = case.inspection, case.gpu_time
    if seen is None or seen.device_time is None or call is None or seen.device_time >= _BUSY * call:
        return None
    if _host_synchronization(case) or _side_stream(case):
        return None
    busy = 100 * seen.device_time / call
    sentence = (
        f"launch-bound: the device worked {busy:.0f} % of the time ({seconds(seen.device_time)} of "
        f"{seconds(call)}); fuse operations, or give it more data per call"
    )
    return _diagnosis("launch_bound", sentence, device_time=seen.device_time, gpu=call, busy_percent=busy)


def _host_synchronization(case: _Case) -> Diagnosis | None:
    seen = case.inspection
    if seen is None or not seen.synchronizes:
        return None
    after = f", after {seconds(seen.host_time)}" if seen.host_time is not None else ""
    sentence = (
        f"host synchronization: the call waits for its device before it returns{after}; "
        f"keep results on the device, and read no values from them in the call"
    )
    numbers = {"host_time": seen.host_time, "device_time": seen.device_time, "gpu": case.gpu_time}
    return _diagnosis("host_synchronization", sentence, **numbers)


def _transfer_bound(case: _Case) -> Diagnosis | None:
    transfer, demand, call = case.record.transfer, case.record.demand, case.gpu_time
    if transfer is None or transfer.bytes is None or transfer.median is None or call is None:
        return None
    copies = transfer.median / ((demand.calls or 1) if demand.transfer == "once" else 1)
    if copies <= call:
        return None
    share = 100 * copies / (copies + call)
    rate = transfer.bytes / transfer.median
    calls = _whole(case.break_even.transfer) if case.break_even else None
    sentence = (
        f"transfer-bound: the copies are {share:.0f} % of a call with them ({seconds(copies)} of "
        f"{seconds(copies + call)}, {size(transfer.bytes)} at {bandwidth(rate)}); keep the data on the "
        f"device and reuse it{_earned(calls, 'the copies')}"
    )
    numbers = {"copies": copies, "gpu": call, "bytes": transfer.bytes, "bandwidth": rate}
    return _diagnosis("transfer_bound", sentence, **numbers, copies_percent=share, break_even_calls=calls)


def _cpu_threads(case: _Case) -> Diagnosis | None:
    if case.usable is None or case.usable < 2 or len(case.sides) < 2:
        return None
    threads, used = case.pool_threads, case.sides["CPU"].processors
    kept = "" if used is None else f", and kept {used:.2f} busy"
    if threads is not None and threads < floor(case.usable):
        why = (
            f"its libraries may use {threads} of {case.usable:g} usable processors{kept}: the speedup "
            "flatters the GPU; lift the limit (OMP_NUM_THREADS and its like)"
        )
    elif used is not None and used < _ONE_PROCESSOR and not _has_waited(case.sides["CPU"]):
        why = (
            f"it kept {used:.2f} of {case.usable:g} usable processors busy: the speedup flatters the GPU; "
            "NumPy uses several threads in matrix products only, so compare with CPU code that uses them all"
        )
    else:
        return None
    sentence = f"CPU threads: {why}"
    return _diagnosis("cpu_threads", sentence, processors=used, usable=case.usable, pool_threads=threads)


def _has_waited(cpu: Measurement) -> bool:
    """Say whether threads stood still for want of a processor: then few are busy for another reason."""
    return (cpu.waited or 0.0) > _WAITED * sum(cpu.samples) * cpu.block_calls


def _float64(case: _Case) -> Diagnosis | None:
    """The rates are those of "Arithmetic Instructions" in NVIDIA's CUDA C++ Programming Guide."""
    doubles = _DOUBLES.intersection(case.record.gpu.dtypes) if case.record.gpu else None
    if not doubles:
        return None
    sentence = (
        f"float64: the GPU works in {_words(doubles)}; GPUs for graphics do float64 at 1/32 to 1/64 of "
        "float32's rate: use float32 where its seven digits suffice"
    )
    return _diagnosis("float64", sentence, dtypes=_words(doubles))


def _precision_differs(case: _Case) -> Diagnosis | None:
    cpu, gpu = case.record.cpu, case.record.gpu
    if cpu is None or gpu is None:
        return None
    on_cpu, on_gpu = _words(_FLOATING.intersection(cpu.dtypes)), _words(_FLOATING.intersection(gpu.dtypes))
    reduced = gpu.device.reduced_precision
    why = []
    if cpu.dtypes and gpu.dtypes and on_cpu != on_gpu:
        why.append(f"the CPU works in {on_cpu or 'no floats'}, the GPU in {on_gpu or 'no floats'}")
    if reduced:
        why.append(f"the GPU rounds more than its dtypes say ({reduced})")
    if not why:
        return None
    sentence = (
        f"precision differs: {', and '.join(why)}: the speedup is not of the same work; give both the same "
        "dtypes and modes"
    )
    numbers = {"cpu_dtypes": on_cpu, "gpu_dtypes": on_gpu, "reduced_precision": reduced}
    return _diagnosis("precision_differs", sentence, **numbers)


def _short_block(case: _Case) -> Diagnosis | None:
    why: list[str] = []
    numbers: dict[str, float | int | str | None] = {}
    for side, found in case.sides.items():
        lasted, wanted = (found.median or 0.0) * found.block_calls, found.block_time
        if wanted is not None and lasted < _SHORT * wanted:
            why.append(f"on the {side} it lasted {seconds(lasted)} of {seconds(wanted)}")
            numbers |= {f"{side.lower()}_block": lasted, f"{side.lower()}_block_time": wanted}
    if not why:
        return None
    sentence = (
        f"short block: {', '.join(why)}, so the cost of timing weighs more; let every call do the same work, "
        "and more of it"
    )
    return _diagnosis("short_block", sentence, **numbers)


def _first_call(case: _Case) -> Diagnosis | None:
    gpu, on_cpu, later = case.record.gpu, case.cpu_time, case.gpu_time
    if gpu is None or on_cpu is None or later is None or gpu.first_call <= _SLOW_FIRST * max(on_cpu, later):
        return None
    calls = _whole(case.break_even.first_call) if case.break_even else None
    sentence = (
        f"first call: the GPU took {seconds(gpu.first_call)} for it, {seconds(later)} for a later one (the "
        f"CPU {seconds(on_cpu)}); keep the process, or its compiled kernels{_earned(calls, 'the first one')}"
    )
    numbers = {"first_call": gpu.first_call, "gpu": later, "cpu": on_cpu, "break_even_calls": calls}
    return _diagnosis("first_call", sentence, **numbers)


def _side_stream(case: _Case) -> Diagnosis | None:
    seen, call = case.inspection, case.gpu_time
    if case.record.gpu is None or seen is None or seen.outside_time is None or call is None:
        return None
    if seen.outside_time <= max(_OUTSIDE * call, _SYNCHRONIZES * case.record.gpu.synchronize_cost):
        return None
    sentence = (
        f"side stream: the device worked on for {seconds(seen.outside_time)} after its own events: work on "
        "other streams is not in the device time; rely on the verdict, which has it"
    )
    numbers = {"outside_time": seen.outside_time, "device_time": seen.device_time, "gpu": call}
    return _diagnosis("side_stream", sentence, **numbers)


def _dependent_samples(case: _Case) -> Diagnosis | None:
    speedup = case.record.speedup
    sentence = dependence(speedup) if speedup else None
    if speedup is None or sentence is None:
        return None
    return _diagnosis("dependent_samples", sentence, autocorrelation=speedup.autocorrelation)


def _noisy_samples(case: _Case) -> Diagnosis | None:
    spreads = {side: _spread(found) for side, found in case.sides.items()}
    noisy = {side: 100 * spread for side, spread in spreads.items() if spread > _NOISY}
    if not noisy:
        return None
    why = " and ".join(f"{spread:.0f} % of the median on the {side}" for side, spread in noisy.items())
    sentence = f"noisy samples: their middle half spans {why}; look for other work or changing clocks"
    numbers = {f"{side.lower()}_spread_percent": spread for side, spread in noisy.items()}
    return _diagnosis("noisy_samples", sentence, **numbers)


def _allocation(case: _Case) -> Diagnosis | None:
    count = case.inspection.allocations if case.inspection else None
    if not count:
        return None
    sentence = (
        f"allocation: the device itself allocates memory in the timed block ({count} in one call); take it "
        "from a pool, or write results into arrays made before"
    )
    return _diagnosis("allocation", sentence, allocations=count)


def _diagnosis(code: str, sentence: str, **numbers: float | int | str | None) -> Diagnosis:
    return Diagnosis(code=code, sentence=sentence, numbers=numbers)


def _spread(measurement: Measurement) -> float:
    """Return the samples' interquartile range over their median: 0 for too few, or none that took time."""
    if len(measurement.samples) < _FEWEST_SAMPLES or not measurement.median:
        return 0.0
    low, _, high = quantiles(measurement.samples, n=4, method="inclusive")
    return (high - low) / measurement.median


def _whole(calls: Estimate | None) -> int | None:
    return ceil(calls.value) if calls else None


def _earned(calls: int | None, what: str) -> str:
    """Return after how many calls something is earned back, as the end of a sentence."""
    earn = "call earns" if calls == 1 else "calls earn"
    return f"; {calls} {earn} {what} back" if calls is not None else ""


def _words(dtypes: Iterable[str]) -> str:
    return ", ".join(sorted(dtypes))


_RULES: tuple[Callable[[_Case], Diagnosis | None], ...] = (
    _launch_bound,
    _host_synchronization,
    _transfer_bound,
    _cpu_threads,
    _float64,
    _precision_differs,
    _short_block,
    _first_call,
    _side_stream,
    _dependent_samples,
    _noisy_samples,
    _allocation,
)
