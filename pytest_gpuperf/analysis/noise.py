"""From samples to what disturbed them: CPU contention, unstable CPU timings, a throttled GPU."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from pytest_gpuperf.model import units
from pytest_gpuperf.model.measurement import DeviceInfo, Interference, Measurement, Speedup

MOST_DROPPED = 0.2
"""The largest share of rounds that may be dropped; with more, the rest do not show the GPU's usual speed."""
MOST_WAITING = 0.25
"""The largest share of a time, spent waiting for a processor, with which it counts as undisturbed."""
IN_SHORT = "other work disturbed the times"
REMEDY = "use a quieter machine"

_MOST_SPREAD = 3  # a median this many times the fastest block is not of the same work


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """What shows of a speedup although its samples are not those of undisturbed loops, and the reason.

    Other work took time from them, or the other device's turn changed them. More rounds bring the ends of its
    range nearer to the medians `least` and `most`.
    """

    speedup: Speedup
    least: float
    most: float
    code: Literal["interference", "turns_differ"]
    reason: str
    in_short: str
    remedy: str


def detect(
    samples: Sequence[float],
    *,
    block_calls: int,
    waited: float,
    fastest: float,
    threads: int | None = None,
    least: float | None = None,
) -> Interference | None:
    """Return what took time from a workload that runs on the CPU; `waited` and `fastest` are in seconds.

    The median less all waits is the workload's own time, and so is its `least` time. A wait counts as a
    whole: while one thread of a pool waits for a processor, the others wait for that thread, or spin.
    """
    timed = sum(samples) * block_calls
    if timed <= 0:
        return None
    middle = median(samples)
    waiting = waited / timed
    if waiting > MOST_WAITING:
        own = min(fastest, max((1 - waiting) * middle, least or 0.0))  # no more than a block showed
        share = min(1.0, own / middle)
        return Interference(kind="cpu_contention", own_share=share, waited=waiting, threads=threads)
    if middle > _MOST_SPREAD * fastest:
        share = fastest / middle
        return Interference(kind="unstable_cpu_times", own_share=share, median=middle, fastest=fastest)
    return None


def is_watched(device: DeviceInfo, waited: float | None) -> bool:
    """Return whether a device's work runs on the CPU, where other work can disturb it."""
    return device.kind == "cpu" or (device.emulated and waited is not None)  # simulated time has no waits


def worst_in_report(measured: Measurement | None, recorded: Interference | None) -> Interference | None:
    """Return what took the largest share of a device's time, as the samples show or as their run recorded.

    The recorded interference may be worse: it also knew the blocks before the samples, which are not in a
    report.
    """
    if measured is None or not is_watched(measured.device, measured.waited):
        return None
    if not measured.samples:
        return None
    in_samples = detect(
        measured.samples,
        block_calls=measured.block_calls,
        waited=measured.waited or 0.0,
        fastest=min(measured.samples),
        threads=measured.waiting_threads,
        least=measured.least_time,
    )
    return min(filter(None, (in_samples, recorded)), key=lambda each: each.own_share, default=None)


def describe(cpu: Interference | None, gpu: Interference | None = None) -> str | None:
    """Return in words, and with its numbers, what disturbed each device; None where nothing did."""
    disturbed = ((cpu, "CPU"), (gpu, "emulated device"))
    return "; ".join(_describe(each, device) for each, device in disturbed if each) or None


def in_short(interference: Interference) -> str:
    """Return how strongly a device was disturbed: `which may have lost up to 28 % of its time`."""
    if interference.kind == "unstable_cpu_times":
        times = f"{1 / interference.own_share:.1f}" if interference.own_share else "many"
        return f"whose median is {times} times its fastest block"
    return f"which may have lost up to {_lost(interference)} of its time"


def _describe(interference: Interference, device: str) -> str:
    if interference.kind == "unstable_cpu_times":
        middle, fastest = interference.median or 0.0, interference.fastest or 0.0
        shown = f"the median is {units.seconds(middle)}, the fastest block took {units.seconds(fastest)}"
        return f"unstable {device} timings: {shown}"
    taken = f"other programs may have taken up to {_lost(interference)} of the time shown"
    return f"{device} times were disturbed: {taken}"


def _lost(interference: Interference) -> str:
    """Return the share of the time shown that is not surely the test's own work: `57 %`."""
    return f"{100 * (1 - interference.own_share):.0f} %"


def throttle_reason(dropped: int, begun: int, throttle: Iterable[str] = ()) -> str | None:
    """Return why the rounds decide nothing, if too large a share of them was dropped."""
    if dropped <= MOST_DROPPED * begun:
        return None
    names = ", ".join(throttle)
    slowed = f"the GPU was slowed down{f' ({names})' if names else ''} in {dropped} of {begun} rounds"
    return f"{slowed}; improve its cooling or raise its power limit"
