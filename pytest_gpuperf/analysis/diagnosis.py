"""From a record to the bottlenecks behind its speedup: each rule returns a sentence, or none."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import ceil, floor

from msgspec.structs import replace

from pytest_gpuperf.analysis import threads
from pytest_gpuperf.analysis.copied_calls import copied_call
from pytest_gpuperf.model.measurement import Estimate, Measurement
from pytest_gpuperf.model.offload import BreakEven, Diagnosis, DiagnosisCode
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.model.units import bandwidth, count, listed, measured_percent, seconds, size

_BUSY = 0.5  # of a call's time: a device that is busy for less of it waits for its launches
_ONE_PROCESSOR = 1.25  # processors kept busy by one thread and a little else
_WAITED = 0.1  # of the blocks' time
_SLOW_FIRST = 10  # times a later call, on either device
_OUTSIDE = 0.1  # of a call's time
_SYNCHRONIZES = 10  # empty ones: that much time is theirs
_MEMORY_BOUND = 0.6  # of the roof
_NEAR, _FAR = 0.3, 3  # a GPU so near to its roof shows that memory bounds the work; times nearer than the CPU
_DOUBLES = frozenset({"float64", "complex128"})
_ROUNDED = frozenset({"float32", "complex64"})  # by modes such as TF32, which leave other dtypes as they are
_FLOATING = _DOUBLES | {"float16", "bfloat16", "float32", "complex64"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """A record of both devices, and what its CPU could have used; None where that is not known."""

    record: Record
    cpu: Measurement
    gpu: Measurement
    usable: float | None
    pool_threads: int | None

    @property
    def break_even(self) -> BreakEven | None:
        return self.record.offload.break_even_calls if self.record.offload else None


def annotate(record: Record, processors: Callable[[], tuple[float | None, int | None]]) -> Record:
    """Return a record of both devices with its diagnoses; any other record as it is.

    `processors` returns how many the process may use, and how many threads its libraries may. It is not
    called for an emulated device, whose own threads keep the processors busy, and whose float64 is not slow.
    """
    if record.cpu is None or record.gpu is None:
        return record
    emulated = record.cpu.device.emulated or record.gpu.device.emulated
    usable, pool_threads = (None, None) if emulated else processors()
    found = find(record, usable=usable, pool_threads=pool_threads)
    return replace(record, diagnosis=tuple(each for each in found if not emulated or each.code != "float64"))


def find(record: Record, *, usable: float | None, pool_threads: int | None) -> tuple[Diagnosis, ...]:
    """Return the diagnoses of a record of both devices; a rule whose numbers are not known gives none.

    `usable` is how many processors the process may use, `pool_threads` how many threads the libraries may.
    """
    if record.cpu is None or record.gpu is None:
        return ()
    case = _Case(record=record, cpu=record.cpu, gpu=record.gpu, usable=usable, pool_threads=pool_threads)
    found = ((code, rule(case)) for code, rule in _RULES.items())
    return tuple(Diagnosis(code=code, sentence=sentence) for code, sentence in found if sentence)


def _launch_bound(case: _Case) -> str | None:
    """None where a synchronization, or work that its events do not see, explains the idle device."""
    worked = case.gpu.device_time
    call = case.gpu.median
    if not worked or call is None or worked >= _BUSY * call:
        return None
    if _host_synchronization(case) or _side_stream(case):
        return None
    busy = 100 * worked / call
    return (
        f"launch-bound: the device worked {busy:.0f} % of the time ({seconds(worked)} of {seconds(call)}); "
        "fuse operations, or give it more data per call"
    )


def _host_synchronization(case: _Case) -> str | None:
    inspection = case.gpu.inspection
    if inspection is None or not inspection.synchronizes:
        return None
    after = f", after {seconds(inspection.host_time)}" if inspection.host_time is not None else ""
    return (
        f"host synchronization: the call waits for its device before it returns{after}; keep results on the "
        "device, and read no values from them in the call"
    )


def _transfer_bound(case: _Case) -> str | None:
    found, transfer = copied_call(case.record), case.record.transfer
    if found is None or transfer is None or not transfer.bytes or found.copies <= found.call:
        return None
    share = 100 * found.copies / found.total
    rate = transfer.bytes / (found.copies * found.calls)
    calls = case.break_even.transfer if case.break_even else None
    return (
        f"transfer-bound: the copies are {share:.0f} % of a call with them ({seconds(found.copies)} of "
        f"{seconds(found.total)}, {size(transfer.bytes)} at {bandwidth(rate)}); keep the data on the "
        f"device and reuse it{_amortized(calls, 'the copies are')}"
    )


def _cpu_threads(case: _Case) -> str | None:
    if case.usable is None or case.usable < 2 or not (case.cpu.samples and case.gpu.samples):
        return None
    libraries = threads.libraries(case.cpu.device)
    limits = {threads.LIMITS[library] for library in libraries}
    # Pools are OpenMP's and BLAS's; those of XLA and polars are not seen.
    pool_threads = case.pool_threads if threads.OPENMP in limits or not limits else None
    used = case.cpu.processors
    # Threads that wait for a processor keep few of them busy, whatever their number.
    waited = (case.cpu.waited or 0.0) > _WAITED * sum(case.cpu.samples) * case.cpu.block_calls
    kept = "" if used is None else f", and kept {used:.2f} busy"
    if pool_threads is not None and pool_threads < floor(case.usable):
        limit = threads.OPENMP if limits else f"{threads.OPENMP} and similar variables"
        why = (
            f"its libraries may use {pool_threads} of {case.usable:g} usable processors{kept}: the speedup "
            f"flatters the GPU; unless other work needs the others, raise the limit ({limit})"
        )
    elif used is not None and used < _ONE_PROCESSOR and not waited:
        numpy = "NumPy uses several threads in matrix products only, so " if "numpy" in libraries else ""
        why = (
            f"it kept {used:.2f} of {case.usable:g} usable processors busy: the speedup flatters the GPU; "
            f"{numpy}compare with CPU code that uses them all"
        )
    else:
        return None
    return f"CPU threads: {why}"


def _float64(case: _Case) -> str | None:
    """The rates are those of "Arithmetic Instructions" in NVIDIA's CUDA C++ Programming Guide."""
    doubles = _DOUBLES.intersection(case.gpu.dtypes)
    if not doubles:
        return None
    return (
        f"float64: the GPU works in {_list(doubles)}; consumer GPUs compute float64 at 1/32 to 1/64 of "
        "the rate of float32: use float32 where its seven digits suffice"
    )


def _precision_differs(case: _Case) -> str | None:
    on_cpu = _list(_FLOATING.intersection(case.cpu.dtypes))
    on_gpu = _list(_FLOATING.intersection(case.gpu.dtypes))
    is_rounded = not case.gpu.dtypes or _ROUNDED.intersection(case.gpu.dtypes)
    reduced = case.gpu.device.reduced_precision if is_rounded else None
    why, noun = [], case.gpu.device.noun
    if case.cpu.dtypes and case.gpu.dtypes and on_cpu != on_gpu:
        why.append(f"the CPU works in {on_cpu or 'no floats'}, the {noun} in {on_gpu or 'no floats'}")
    if reduced:
        why.append(f"the {noun} rounds more than its dtypes say ({reduced})")
    if not why:
        return None
    differs = f"precision differs: {', and '.join(why)}: the speedup compares different work"
    return f"{differs}; give both the same dtypes and modes"


def _first_call(case: _Case) -> str | None:
    first = case.gpu.first_call
    on_cpu = case.cpu.median
    later = case.gpu.median
    if on_cpu is None or later is None or first <= _SLOW_FIRST * max(on_cpu, later):
        return None
    calls = case.break_even.first_call if case.break_even else None
    return (
        f"first call: the {case.gpu.device.noun} took {seconds(first)} for it, {seconds(later)} for a later "
        f"one (the CPU {seconds(on_cpu)}); keep the process, or its compiled "
        f"kernels{_amortized(calls, 'it is')}"
    )


def _side_stream(case: _Case) -> str | None:
    outside = case.gpu.inspection.outside_time if case.gpu.inspection else None
    call = case.gpu.median
    if outside is None or call is None:
        return None
    if outside <= max(_OUTSIDE * call, _SYNCHRONIZES * case.gpu.synchronize_cost):
        return None
    return (
        f"side stream: the device worked on for {seconds(outside)} after its own events: work on other "
        "streams is not in the device time; rely on the verdict, which includes it"
    )


def _allocation(case: _Case) -> str | None:
    allocations = case.gpu.inspection.allocations if case.gpu.inspection else None
    if not allocations:
        return None
    return (
        f"allocation: the device itself allocates memory in the timed block ({allocations} in one call); use "
        "a memory pool, or write results into preallocated arrays"
    )


def _memory_bound(case: _Case) -> str | None:
    side = case.record.roof.gpu if case.record.roof else None
    if side is None or side.share is None or side.share.value < _MEMORY_BOUND:
        return None
    if side.cache_resident:
        return None
    above = ", for reading alone is faster than a copy" if side.share.value > 1 else ""
    share = measured_percent(side.share.value)
    return (
        f"memory-bound: the {case.gpu.device.noun} is at {share} of its roof, a plain copy of "
        f"as many bytes ({size(side.bytes)}){above}; only fewer bytes make it much faster: fuse operations, "
        "or use a smaller dtype"
    )


def _cpu_code_far_from_roof(case: _Case) -> str | None:
    """None where the GPU, too, is far from its roof: then something else than memory bounds the work."""
    roof = case.record.roof
    shares = [side.share for side in (roof.cpu, roof.gpu) if side and side.share] if roof else []
    if len(shares) < 2:
        return None
    cpu, gpu = (share.value for share in shares)
    if gpu < _NEAR or gpu < _FAR * cpu:
        return None
    on_cpu, on_gpu = map(measured_percent, (cpu, gpu))
    return (
        f"CPU code far from its roof: it is at {on_cpu} of a plain copy of as many bytes, the "
        f"{case.gpu.device.noun} at {on_gpu} of its own: the speedup flatters the GPU; compare with "
        "CPU code that uses all processors and writes no intermediate arrays"
    )


def _cache_resident(case: _Case) -> str | None:
    roof = case.record.roof
    sides = ((roof.cpu, "CPU"), (roof.gpu, case.gpu.device.noun)) if roof else ()
    resident = [(side, noun) for side, noun in sides if side and side.cache_resident]
    if not resident:
        return None
    moved, nouns = resident[0][0].bytes, listed(noun for _, noun in resident)
    return (
        f"cache-resident: the {size(moved)} of a call fit into a cache of the {nouns}, where repeated calls "
        "find them again; a program that comes with other data each time is slower: measure inputs of its "
        "size"
    )


def _amortized(calls: Estimate | None, cost: str) -> str:
    """Return after how many calls a cost is amortized, as the end of a sentence."""
    return f"; {cost} amortized after {count(ceil(calls.value), 'call')}" if calls else ""


def _list(dtypes: Iterable[str]) -> str:
    return ", ".join(sorted(dtypes))


_RULES: dict[DiagnosisCode, Callable[[_Case], str | None]] = {
    "launch_bound": _launch_bound,
    "host_synchronization": _host_synchronization,
    "transfer_bound": _transfer_bound,
    "cpu_threads": _cpu_threads,
    "float64": _float64,
    "precision_differs": _precision_differs,
    "first_call": _first_call,
    "side_stream": _side_stream,
    "allocation": _allocation,
    "memory_bound": _memory_bound,
    "cpu_code_far_from_roof": _cpu_code_far_from_roof,
    "cache_resident": _cache_resident,
}
