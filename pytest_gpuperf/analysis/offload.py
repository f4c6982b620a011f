"""From rounds and copies to whether the work is worth offloading, with the numbers and a sentence."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median

from pytest_gpuperf.analysis import looks
from pytest_gpuperf.analysis.estimation import Sampled
from pytest_gpuperf.analysis.looks import Limit, Look, Range
from pytest_gpuperf.analysis.noise import Disturbance
from pytest_gpuperf.analysis.verdict import describe_regime, ratio
from pytest_gpuperf.model import units
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.measurement import Estimate, Measurement, Neighbours, Speedup, Transfer
from pytest_gpuperf.model.offload import BreakEven, Offload, Regime

_ROUNDING = 1e-9  # relative error within which a count of calls is treated as an integer
_WORTH = {True: "worth it", False: "not worth it", None: "unclear whether it is worth it"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OffloadInput:
    """The measurement of one test, with the copies that the demand includes, and secondary ones.

    `sampled` are the times that the speedup rests on, and `alone` those of its calls on the GPU without
    copies. `copies` are the seconds that they add to the last of these calls, or to all. `disturbance` is
    what shows where samples are not those of undisturbed loops, and `throttled` says why the GPU was slower
    than usual.
    """

    demand: Demand
    regime: Regime
    cpu: Measurement
    gpu: Measurement
    alone: Sequence[float]
    sampled: Sampled
    speedup: Speedup
    copies: Sequence[float]
    transfer: Transfer | None
    disturbance: Disturbance | None = None
    throttled: str | None = None

    @property
    def look(self) -> Look:
        """The look at the rounds."""
        return self.sampled.look

    @property
    def undisturbed(self) -> Speedup:
        """The speedup with the range that holds although the samples are not those of undisturbed loops."""
        return self.disturbance.speedup if self.disturbance else self.speedup

    def is_beyond(self, limit: float) -> bool | None:
        """Return whether the speedup is above a limit, by what a test takes to pass; None while unclear."""
        if self.throttled:
            return None
        found = self.undisturbed.estimate
        side = looks.decided(Limit(limit, limit, "neither"), Range(found.lower, found.upper), self.look)
        return None if side is None else side == "above"

    def estimate(
        self, cpu: Sequence[float], gpu: Sequence[float], sampling: Neighbours | None = None
    ) -> Speedup | None:
        """Return the speedup of other times than those that are judged.

        Where they are not one of each round, they were taken in a short time of their own.
        """
        every_round = min(len(cpu), len(gpu)) == self.sampled.rounds
        seconds = self.sampled.seconds if every_round else 0.0
        sampled = Sampled(cpu=cpu, gpu=gpu, seconds=seconds, sampling=sampling or self.sampled.sampling)
        return sampled.speedup()


def assess(measured: OffloadInput, options: RunOptions) -> Offload:
    """Return whether a workload that was timed on both devices is worth offloading.

    It is where the GPU is faster by more than its machine costs more: by more than 1 where no ratio is known.
    """
    limit = options.cost_ratio or 1.0
    worth, faster = measured.is_beyond(limit), measured.is_beyond(1.0)
    regimes = _regimes(measured)
    break_even = _break_even(measured, regimes, faster=faster)
    included = describe_regime(measured.demand, measured.regime)
    at = f" at {limit:g} times the price" if options.cost_ratio else ""
    parts = [f"{_WORTH[worth]}{at}: {ratio(measured.speedup)} {included}"]
    if worth is None:
        parts += filter(None, [_doubt_text(measured, limit)])
    elif worth:
        parts += filter(None, [_copies_text(measured, limit, regimes.get("always"), break_even)])
    return Offload(
        worth=worth,
        faster=faster,
        reason="; ".join(parts),
        regime=measured.regime,
        by_latency=measured.demand.latency,
        latency=_latency(measured),
        break_even_calls=break_even,
        **regimes,
    )


def _regimes(measured: OffloadInput) -> dict[str, Speedup | None]:
    """Return the speedup in each regime that can be computed; a whole body is a regime of its own."""
    if measured.regime == "body":
        return {}
    regimes: dict[str, Speedup | None] = {measured.regime: measured.speedup}
    on_cpu, on_gpu = measured.sampled.cpu, measured.alone
    is_interleaved = measured.sampled.sampling == "interleaved"
    if measured.regime != "never":
        regimes["never"] = measured.estimate(on_cpu, on_gpu)
    for regime, calls in (("once", measured.demand.calls), ("always", 1)):
        if regime in regimes or calls is None or measured.transfer is None:
            continue
        if measured.transfer.bytes == 0:
            regimes[regime] = regimes["never"]
            continue
        # Fewer copies than calls go with the last calls, which are nearest in time.
        last = on_gpu[len(on_gpu) - len(measured.copies) :]
        included = [call + copies / calls for call, copies in zip(last, measured.copies, strict=True)]
        of_the_same = on_cpu[len(on_cpu) - len(included) :] if is_interleaved else on_cpu
        regimes[regime] = measured.estimate(of_the_same, included)
    return regimes


def _latency(measured: OffloadInput) -> Speedup | None:
    """Return the speedup of calls that are waited for one by one; single-call rounds already are."""
    calls_in_blocks = {measured.cpu.block_calls, measured.gpu.block_calls}
    if measured.demand.latency or calls_in_blocks == {1}:
        return measured.estimate(measured.sampled.cpu, measured.alone)
    # Where one device's blocks are single calls, its samples are those of the rounds; the other's came later.
    sampling: Neighbours | None = "variants" if 1 in calls_in_blocks else None
    return measured.estimate(measured.cpu.waited_for, measured.gpu.waited_for, sampling)


def _break_even(
    measured: OffloadInput, regimes: dict[str, Speedup | None], *, faster: bool | None
) -> BreakEven | None:
    """Return after how many calls the copies and the first call are amortized.

    A call saves cpu - gpu. What the first call cost is the GPU's start-up in this process: kernels that were
    compiled before, or come from a cache on disk, make it smaller.
    """
    startup, resident = measured.gpu.startup, regimes.get("never")
    if resident is None or startup is None:
        return None
    gpu = median(measured.alone)
    is_free = measured.transfer is not None and measured.transfer.bytes == 0
    copies = 0.0 if is_free else median(measured.copies) if measured.copies else None
    first_call = _calls(startup, gpu, resident)
    reason = None
    if first_call is None and faster is False:
        reason = f"never: a call on the {measured.gpu.device.noun} takes no less time than on the CPU"
    elif first_call is None:
        reason = "inconclusive: half of the rounds show no saving"
    elif copies is None:
        reason = (measured.transfer.reason if measured.transfer else None) or "the copies were not timed"
    return BreakEven(
        transfer=None if copies is None else _calls(copies, gpu, resident),
        first_call=first_call,
        both=None if copies is None else _calls(copies + startup, gpu, resident),
        reason=reason,
    )


def _calls(cost: float, gpu: float, speedup: Speedup) -> Estimate | None:
    """Return how many calls on the GPU, of so many seconds each, save the seconds of a cost; None for never.

    A call saves cpu - gpu = (speedup - 1) gpu: at the speedup's value, and at the ends of its range.
    """

    def calls(ratio: float) -> int | None:
        # By noise, a loop with copies may be quicker than one without.
        needed = max(0.0, cost) / ((ratio - 1) * gpu) if ratio > 1 else None
        return None if needed is None else ceil(needed * (1 - _ROUNDING))

    value = calls(speedup.value)
    if value is None:
        return None
    return Estimate(value=value, low=calls(speedup.estimate.upper), high=calls(speedup.estimate.lower))


def _doubt_text(measured: OffloadInput, limit: float) -> str | None:
    """Return why it is unclear whether the speedup is above a limit, where all stretches lie on one side."""
    if measured.speedup.estimate.is_above(limit) is None:
        return None
    if measured.throttled:
        return measured.throttled
    if measured.undisturbed.estimate.is_above(limit) is None:
        why = measured.disturbance.in_short if measured.disturbance else ""
        return f"{why}, so that it may be anything{_within(measured.undisturbed)}"
    meets, misses = measured.look
    below = f" or below {units.digits(limit / misses)}x" if misses else ""
    return f"so short a measurement decides it above {units.digits(limit * meets)}x{below} only"


def _within(speedup: Speedup) -> str:
    """Return between which values a speedup is: ` in [0.90, 3.00]`, ` up to 3.00x`; nothing of any value."""
    low, high = speedup.low, speedup.high
    if low is not None and high is not None:
        return f" in {units.interval(low, high, units.digits)}"
    if high is not None:
        return f" up to {units.digits(high)}x"
    return "" if low is None else f" from {units.digits(low)}x on"


def _copies_text(
    measured: OffloadInput, limit: float, always: Speedup | None, break_even: BreakEven | None
) -> str | None:
    """Return what copies do to a resident speedup that is worth it; None where that is not known."""
    transfer = measured.transfer
    if measured.regime != "never" or transfer is None or not transfer.bytes or always is None:
        return None
    if always.estimate.lower * measured.undisturbed.estimate.lower > limit * measured.speedup.estimate.lower:
        return f"even with copies at every call ({ratio(always)})"
    if break_even is None or break_even.transfer is None:
        return None
    after = units.count(int(break_even.transfer.value), "call")
    amortized = "amortized" if limit == 1 else "amortized in time"  # the money takes more calls
    return f"its copies ({units.size(transfer.bytes)}) are {amortized} after {after} on the same data"
