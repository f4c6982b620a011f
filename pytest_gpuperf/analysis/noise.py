"""From samples to what disturbed them: CPU contention, unstable CPU timings, a throttled GPU."""

from collections.abc import Iterable, Sequence
from statistics import median

from pytest_gpuperf.model.measurement import Interference, Measurement

MOST_DROPPED = 0.2
"""The largest share of rounds that may be dropped; with more, the rest do not show the GPU's usual speed."""
REMEDY = "use a quieter machine, or fewer BLAS threads (OPENBLAS_NUM_THREADS)"

_MOST_WAITING = 0.25  # of the blocks' time, spent waiting for a processor
_MOST_SPREAD = 3  # a median this many times the fastest block is not of the same work


def detect(
    samples: Sequence[float], *, block_calls: int, waited: float, fastest: float
) -> Interference | None:
    """Return what took CPU time from the workload; `waited` and `fastest` are in seconds."""
    timed = sum(samples) * block_calls
    if timed <= 0:
        return None
    middle = median(samples)
    waiting = waited / timed
    if waiting > _MOST_WAITING:
        return Interference(kind="cpu_contention", own_share=max(0.0, 1 - waiting), waited=waiting)
    if middle > _MOST_SPREAD * fastest:
        share = fastest / middle
        return Interference(kind="unstable_cpu_times", own_share=share, median=middle, fastest=fastest)
    return None


def worst_in_report(
    cpu: Measurement, recorded: Interference | None, *, latency: bool = False
) -> Interference | None:
    """Return what took the largest share of the CPU's time, as the samples show or as their run recorded.

    The recorded interference may be worse: it also knew the blocks before the samples, which are not in a
    report. With `latency` the samples are single calls; how those had to wait is not in a report either.
    """
    samples = cpu.waited_for if latency else cpu.samples
    if not samples:
        return None
    calls, waited = (1, 0.0) if latency else (cpu.block_calls, cpu.waited or 0.0)
    in_samples = detect(samples, block_calls=calls, waited=waited, fastest=min(samples))
    return min(filter(None, (in_samples, recorded)), key=lambda each: each.own_share, default=None)


def describe(interference: Interference) -> str:
    """Return an interference in words, with its numbers."""
    if interference.kind == "cpu_contention":
        waited = interference.waited or 0.0
        return f"CPU contention: threads waited for a processor, {waited:.1f} s per second of measurement"
    middle = interference.median or 0.0
    fastest = interference.fastest or 0.0
    return f"unstable CPU timings: the median is {middle:.2g} s, the fastest block took {fastest:.2g} s"


def throttle_reason(dropped: int, begun: int, throttle: Iterable[str] = ()) -> str | None:
    """Return why the rounds decide nothing, if too large a share of them was dropped."""
    if dropped <= MOST_DROPPED * begun:
        return None
    names = ", ".join(throttle)
    slowed = f"the GPU was slowed down{f' ({names})' if names else ''} in {dropped} of {begun} rounds"
    return f"{slowed}; improve its cooling or raise its power limit"
