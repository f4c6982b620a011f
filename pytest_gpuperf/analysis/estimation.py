"""From the times of two devices to the speedup: what was seen of it, and what is certain."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from statistics import median

from pytest_gpuperf.analysis import looks, noise
from pytest_gpuperf.analysis.looks import Look, Range
from pytest_gpuperf.analysis.noise import Disturbance
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import Bounds, Estimate, Interference, Neighbours, Round, Speedup


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """Seconds per call on both devices, in order, and the `seconds` in which they were sampled.

    Times that are `interleaved` are of the same rounds. Those of `variants` were taken by two tests:
    `seconds` are those of the shorter one.
    """

    cpu: Sequence[float]
    gpu: Sequence[float]
    seconds: float
    sampling: Neighbours = "interleaved"

    @property
    def rounds(self) -> int:
        """How many rounds there are: of times that were taken apart, as many as of the shorter side."""
        return min(len(self.cpu), len(self.gpu))

    @property
    def look(self) -> Look:
        """The look at all of them."""
        return looks.at_end(self.rounds, self.seconds)

    @property
    def ratios(self) -> list[float]:
        """The speedup in each round."""
        return [cpu / gpu for cpu, gpu in zip(self.cpu, self.gpu, strict=False)]

    @property
    def value(self) -> float:
        """The median speedup; of times that were taken apart, the ratio of their medians."""
        if self.sampling == "variants":
            return median(self.cpu) / median(self.gpu)
        return median(self.ratios)

    @property
    def seen(self) -> Range:
        """The range of the stretches' medians; of times taken apart, of any stretch over any other."""
        if self.sampling == "variants":
            cpu, gpu = looks.seen(self.cpu), looks.seen(self.gpu)
            return Range(cpu.low / gpu.high, cpu.high / gpu.low)
        return looks.seen(self.ratios)

    def in_stretches_of(self, size: int) -> Range:
        """Return the range of the first seven stretches of so many rounds, of those that are full."""
        if self.sampling == "variants":
            cpu, gpu = looks.seen(self.cpu), looks.medians(self.gpu, size)
            return Range(cpu.low / max(gpu), cpu.high / min(gpu))
        found = looks.medians(self.ratios, size)
        return Range(min(found), max(found))

    def speedup(self) -> Speedup | None:
        """Return the speedup with what was seen of it, and what is certain; None without a round."""
        return _speedup(self, self.seen) if self.rounds else None

    def in_spite_of(self, cpu: Interference | None, gpu: Interference | None) -> Disturbance | None:
        """Return what shows of the speedup although other work took time from the samples of a device.

        That time makes the speedup too large on the CPU's side, and too small on the GPU's. So the range
        begins where it does in rounds in which the CPU needs no more than its own time, and ends where it
        does in rounds in which the GPU needs no more. None without other work, and without a round.
        """
        if not self.rounds or (cpu is None and gpu is None):
            return None
        on_cpu, on_gpu = _own_times(self.cpu, cpu), _own_times(self.gpu, gpu)
        least = replace(self, cpu=on_cpu) if on_cpu else None
        most = replace(self, gpu=on_gpu) if on_gpu else None
        low = min(self.seen.low, least.seen.low) if least else 0.0
        high = max(self.seen.high, most.seen.high) if most else inf
        return Disturbance(
            speedup=_speedup(self, Range(low, high)),
            least=least.value if least else 0.0,
            most=most.value if most else inf,
            reason=noise.describe(cpu, gpu) or "",
        )


def _speedup(sampled: Sampled, seen: Range) -> Speedup:
    is_range = sampled.rounds > 1
    low = seen.low if is_range and seen.low > 0 else None
    high = seen.high if is_range and seen.high < inf else None
    missed_by = sampled.look.misses or inf
    return Speedup(
        value=sampled.value,
        low=low,
        high=high,
        certain=Bounds(low=low and low / missed_by, high=high and high * missed_by),
        rounds=sampled.rounds,
        sampling=sampled.sampling,
    )


def _own_times(times: Sequence[float], interference: Interference | None) -> Sequence[float] | None:
    """Return times of which none is above what is certainly the device's own; None where that is nothing."""
    if interference is None:
        return times
    own = interference.own_share * median(times)
    return [min(own, time) for time in times] if own > 0 else None


def sampled_rounds(rounds: Sequence[Round], demand: Demand, seconds: float) -> Sampled:
    """Return the times of interleaved rounds, with the copies that the demand includes."""
    return Sampled(
        cpu=[each.cpu for each in rounds],
        gpu=[with_copies(each.gpu, each.copies, demand) for each in rounds],
        seconds=seconds,
    )


def with_copies(call: float, copies: float, demand: Demand) -> float:
    """Return the seconds of a call on the GPU with its share of the copies that the demand includes."""
    if demand.transfer == "never":
        return call
    return call + copies / ((demand.calls or 1) if demand.transfer == "once" else 1)


def estimate_time(samples: Sequence[float]) -> Estimate | None:
    """Return the median of one device's times with the range of the stretches' medians; None for none."""
    if not samples:
        return None
    low, high = looks.seen(samples)
    return Estimate(value=median(samples), low=low, high=high)
