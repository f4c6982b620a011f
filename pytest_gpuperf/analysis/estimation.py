"""From the times of two devices to the speedup: what was seen of it, and what is certain."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from statistics import median

from pytest_gpuperf.analysis import looks, noise, turns
from pytest_gpuperf.analysis.looks import Look, Range
from pytest_gpuperf.analysis.noise import Disturbance
from pytest_gpuperf.analysis.turns import Turns
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import Bounds, Estimate, Interference, Neighbours, Round, Speedup

_AS_SEEN = Range(1.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """Seconds per call on both devices, in order, and the `seconds` in which they were sampled.

    Times that are `interleaved` are of the same rounds. Those of `variants` were taken by two tests:
    `seconds` are those of the shorter one. `turns` is how they differ from those of loops; None where they do
    not, or where nobody knows.
    """

    cpu: Sequence[float]
    gpu: Sequence[float]
    seconds: float
    sampling: Neighbours = "interleaved"
    turns: Turns | None = None

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

    @property
    def _of_loops(self) -> Range:
        """What the speedup of loops may be, as a share of that of rounds."""
        return self.turns.speedup if self.turns else _AS_SEEN

    def in_stretches_of(self, size: int) -> Range:
        """Return the range of the first seven stretches of so many rounds, of those that are full."""
        if self.sampling == "variants":
            cpu, gpu = looks.seen(self.cpu), looks.medians(self.gpu, size)
            return Range(cpu.low / max(gpu), cpu.high / min(gpu))
        found = looks.medians(self.ratios, size)
        return Range(min(found), max(found))

    def speedup(self) -> Speedup | None:
        """Return the speedup with what was seen of it, and what is certain; None without a round."""
        return _speedup(self, self.seen, self._of_loops) if self.rounds else None

    def in_spite_of(
        self, cpu: Interference | None, gpu: Interference | None, names: tuple[str, str]
    ) -> Disturbance | None:
        """Return what shows of the speedup although the samples are not those of undisturbed loops.

        The time that other work took makes the speedup too large on the CPU's side, and too small on the
        GPU's. So the range begins where it does in rounds in which the CPU needs no more than its own time,
        and ends where it does in rounds in which the GPU needs no more. It reaches as far as that of loops,
        where these differ. None without other work and such a difference, and without a round.
        `names` are what both sides are called.
        """
        is_busy = cpu is not None or gpu is not None
        if not self.rounds or not (is_busy or self.turns):
            return None
        on_cpu, on_gpu = _own_times(self.cpu, cpu), _own_times(self.gpu, gpu)
        least = replace(self, cpu=on_cpu) if on_cpu else None
        most = replace(self, gpu=on_gpu) if on_gpu else None
        low = min(self.seen.low, least.seen.low) if least else 0.0
        high = max(self.seen.high, most.seen.high) if most else inf
        loop = self._of_loops
        reasons = noise.describe(cpu, gpu), turns.describe(self.turns, names) if self.turns else None
        return Disturbance(
            speedup=_speedup(
                self, Range(min(low, loop.low * self.seen.low), max(high, loop.high * self.seen.high))
            ),
            least=min(least.value, loop.low * self.value) if least else 0.0,
            most=max(most.value, loop.high * self.value) if most else inf,
            code="interference" if is_busy else "turns_differ",
            reason="; ".join(filter(None, reasons)),
            in_short=noise.IN_SHORT if is_busy else turns.IN_SHORT,
            remedy="; ".join([*[noise.REMEDY] * is_busy, *[turns.REMEDY] * (self.turns is not None)]),
        )


def _speedup(sampled: Sampled, seen: Range, of_loops: Range = _AS_SEEN) -> Speedup:
    """Return a speedup that was seen in a range, which that of loops may exceed by these factors."""
    is_range = sampled.rounds > 1
    low = seen.low if is_range and seen.low > 0 else None
    high = seen.high if is_range and seen.high < inf else None
    missed_by = sampled.look.misses or inf
    return Speedup(
        value=sampled.value,
        low=low,
        high=high,
        certain=Bounds(
            low=low and of_loops.low * low / missed_by, high=high and of_loops.high * high * missed_by
        ),
        rounds=sampled.rounds,
        sampling=sampled.sampling,
    )


def _own_times(times: Sequence[float], interference: Interference | None) -> Sequence[float] | None:
    """Return times of which none is above what is certainly the device's own; None where that is nothing."""
    if interference is None:
        return times
    own = interference.own_share * median(times)
    return [min(own, time) for time in times] if own > 0 else None


def sampled_rounds(
    rounds: Sequence[Round], demand: Demand, seconds: float, turns: Turns | None = None
) -> Sampled:
    """Return the times of interleaved rounds, with the copies that the demand includes."""
    return Sampled(
        cpu=[each.cpu for each in rounds],
        gpu=[with_copies(each.gpu, each.copies, demand) for each in rounds],
        seconds=seconds,
        turns=turns,
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
