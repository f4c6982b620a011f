"""From rounds, copies and prices to whether the work is worth offloading, with the numbers and a sentence."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf
from statistics import median

from pytest_gpuperf.analysis import looks, noise
from pytest_gpuperf.analysis.estimation import Sampled
from pytest_gpuperf.analysis.looks import Limit, Look, Range
from pytest_gpuperf.analysis.noise import Disturbance
from pytest_gpuperf.analysis.verdict import describe_regime, ratio
from pytest_gpuperf.model import units
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.measurement import Estimate, Measurement, Neighbours, Round, Speedup, Transfer
from pytest_gpuperf.model.offload import BreakEven, GpuLimits, Link, Offload, Price, Regime

# Bytes per second in one direction: PCI-SIG's transfer rate x 16 lanes x 128/130 / 8, and half of the
# 900 GB/s that NVIDIA names for NVLink-C2C in both directions. No copy of pageable memory reaches them.
LINKS = {
    "PCIe 3 x16": 8e9 * 16 * 128 / 130 / 8,
    "PCIe 4 x16": 16e9 * 16 * 128 / 130 / 8,
    "PCIe 5 x16": 32e9 * 16 * 128 / 130 / 8,
    "NVLink-C2C": 450e9,
}
_ROUNDING = 1e-9  # relative error within which a count of calls is treated as an integer
_whole = "{:.0f}".format
_WORTH = {True: "worth it", False: "not worth it", None: "unclear whether it is worth it"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OffloadInput:
    """The measurement of one test: its rounds, with the copies that the demand includes, and secondary ones.

    `sampled` are the times that the speedup rests on. `copies` are the seconds that they add to a call, for
    the last of the rounds or for all. `disturbance` is what shows where other work took time, and `throttled`
    says why the GPU was slower than usual.
    """

    demand: Demand
    regime: Regime
    cpu: Measurement
    gpu: Measurement
    rounds: Sequence[Round]
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
        """The speedup with the range that holds although other work disturbed the samples."""
        return self.disturbance.speedup if self.disturbance else self.speedup

    @property
    def with_copies(self) -> list[tuple[Round, float]]:
        """The rounds with their copies; where there are fewer copies, the last rounds, nearest in time."""
        return list(zip(self.rounds[len(self.rounds) - len(self.copies) :], self.copies, strict=True))

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
    """Return whether a workload that was timed on both devices is worth offloading."""
    worth = measured.is_beyond(1.0)
    regimes = _regimes(measured)
    price = _price(measured, options)
    break_even = _break_even(measured, regimes)
    time = _demanded_time(measured.cpu, measured.demand)
    included = describe_regime(measured.demand, measured.regime)
    parts = [f"{_WORTH[worth]}: {ratio(measured.speedup)} {included}"]
    if worth is None:
        parts += filter(None, [_doubt_text(measured)])
    if worth is not False:
        parts += filter(None, [_copies_text(measured, regimes.get("always"), break_even), _price_text(price)])
    return Offload(
        worth=worth,
        reason="; ".join(parts),
        regime=measured.regime,
        by_latency=measured.demand.latency,
        price=price,
        latency=_latency(measured),
        break_even_calls=break_even,
        gpu_limits=_gpu_limits(time, measured.demand, options),
        links=_links(time, measured.transfer),
        **regimes,
    )


def assess_cpu_only(
    cpu: Measurement, demand: Demand, transfer: Transfer, options: RunOptions, *, disturbed: bool = False
) -> Offload:
    """Return what the CPU's times alone show: what a GPU must reach, and which links rule that out.

    With `disturbed` times only the links count: the CPU was slower than it should be.
    """
    time = None if disturbed else _demanded_time(cpu, demand)
    limits = _gpu_limits(time, demand, options)
    links = _links(time, transfer)
    slowest = max(cpu.samples_for(demand), default=inf)
    hopeless = bool(links) and slowest < min(link.seconds for link in links)
    ratio = options.cost_ratio
    parts = [_cpu_only_text(limits, ratio, disturbed=disturbed)]
    if hopeless and transfer.bytes is not None:
        fastest = links[-1]
        parts.append(
            f"with copies at every call no link makes it worth it: on {fastest.name} they alone take "
            f"{units.seconds(fastest.seconds)} for {units.size(transfer.bytes)}"
        )
    return Offload(
        worth=False if hopeless and demand.transfer == "always" else None,
        reason="; ".join(parts),
        regime="body" if transfer.h2d is None else demand.transfer,
        by_latency=demand.latency,
        price=None if ratio is None else Price(ratio=ratio, needed=ratio, saves=None, saving_percent=None),
        gpu_limits=limits,
        links=links,
    )


def _regimes(measured: OffloadInput) -> dict[str, Speedup | None]:
    """Return the speedup in each regime that can be computed; a whole body is a regime of its own.

    Rounds repeat the samples of a CPU variant that has fewer: each of them counts once.
    """
    if measured.regime == "body":
        return {}
    regimes: dict[str, Speedup | None] = {measured.regime: measured.speedup}
    on_cpu, on_gpu = measured.sampled.cpu, [each.gpu for each in measured.rounds]
    is_interleaved = measured.sampled.sampling == "interleaved"
    if measured.regime != "never":
        regimes["never"] = measured.estimate(on_cpu, on_gpu)
    for regime, calls in (("once", measured.demand.calls), ("always", 1)):
        if regime in regimes or calls is None or measured.transfer is None:
            continue
        if measured.transfer.bytes == 0:
            regimes[regime] = regimes["never"]
            continue
        included = [one.gpu + copies / calls for one, copies in measured.with_copies]
        of_the_same = on_cpu[len(on_cpu) - len(included) :] if is_interleaved else on_cpu
        regimes[regime] = measured.estimate(of_the_same, included)
    return regimes


def _latency(measured: OffloadInput) -> Speedup | None:
    """Return the speedup of calls that are waited for one by one; single-call rounds already are."""
    calls_in_blocks = {measured.cpu.block_calls, measured.gpu.block_calls}
    if measured.demand.latency or calls_in_blocks == {1}:
        return measured.estimate(measured.sampled.cpu, [each.gpu for each in measured.rounds])
    # Where one device's blocks are single calls, its samples are those of the rounds; the other's came later.
    sampling: Neighbours | None = "variants" if 1 in calls_in_blocks else None
    return measured.estimate(measured.cpu.waited_for, measured.gpu.waited_for, sampling)


def _price(measured: OffloadInput, options: RunOptions) -> Price | None:
    """Return the change in cost: a call on the GPU costs ratio / speedup of what it costs on the CPU."""
    cost_ratio = options.cost_ratio
    if cost_ratio is None:
        return None
    speedup = measured.speedup
    found = measured.undisturbed.estimate
    return Price(
        ratio=cost_ratio,
        needed=cost_ratio,
        saves=measured.is_beyond(cost_ratio),
        saving_percent=Estimate(
            value=100 * (1 - cost_ratio / speedup.value),
            low=100 * (1 - cost_ratio / found.lower) if found.lower > 0 else None,
            high=100 * (1 - cost_ratio / found.upper),
        ),
    )


def _break_even(measured: OffloadInput, regimes: dict[str, Speedup | None]) -> BreakEven | None:
    """Return after how many calls the copies and the first call are amortized.

    A call saves cpu - gpu. What the first call cost is the GPU's start-up in this process: kernels that were
    compiled before, or come from a cache on disk, make it smaller.
    """
    startup, resident = measured.gpu.startup, regimes.get("never")
    if resident is None or startup is None:
        return None
    gpu = median(one_round.gpu for one_round in measured.rounds)
    is_free = measured.transfer is not None and measured.transfer.bytes == 0
    copies = 0.0 if is_free else median(measured.copies) if measured.copies else None
    first_call = _calls(startup, gpu, resident)
    reason = None
    if first_call is None and measured.is_beyond(1.0) is False:
        reason = "never: a call on the GPU takes no less time than on the CPU"
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


def _demanded_time(measurement: Measurement, demand: Demand) -> float | None:
    """Return the median time that the demand is about: of a call in a block, or of one that is waited for."""
    return measurement.latency if demand.latency else measurement.median


def _gpu_limits(time: float | None, demand: Demand, options: RunOptions) -> GpuLimits | None:
    if time is None:
        return None
    return GpuLimits(
        demand=time / demand.min if demand.min else None,
        price=time / options.cost_ratio if options.cost_ratio else None,
    )


def _links(time: float | None, transfer: Transfer | None) -> tuple[Link, ...]:
    """Return the least cost of one call's copies, link by link; nothing when no bytes move."""
    if transfer is None or not transfer.bytes:
        return ()
    return tuple(
        Link(
            name=name,
            bandwidth=bandwidth,
            seconds=transfer.bytes / bandwidth,
            speedup_at_most=time * bandwidth / transfer.bytes if time is not None else None,
        )
        for name, bandwidth in LINKS.items()
    )


def _doubt_text(measured: OffloadInput) -> str | None:
    """Return why it is unclear whether the speedup is above 1, where all stretches lie on one side of 1."""
    if measured.speedup.estimate.is_above(1.0) is None:
        return None
    if measured.throttled:
        return measured.throttled
    if measured.undisturbed.estimate.is_above(1.0) is None:
        found = measured.undisturbed
        shown = units.interval(found.low, found.high, units.digits)
        return f"other work disturbed the times, so that it may be anything in {shown}"
    return f"so short a measurement shows it from {measured.look.meets:g}x on"


def _copies_text(measured: OffloadInput, always: Speedup | None, break_even: BreakEven | None) -> str | None:
    """Return what copies do to a speedup with resident data; None where that is not known or not worth it."""
    transfer = measured.transfer
    if measured.regime != "never" or transfer is None or not transfer.bytes or always is None:
        return None
    if not measured.is_beyond(1.0):
        return None
    if always.estimate.lower * measured.undisturbed.estimate.lower > measured.speedup.estimate.lower:
        return f"even with copies at every call ({ratio(always)})"
    if break_even is None or break_even.transfer is None:
        return None
    calls = f"{break_even.transfer.value:.0f} call{'' if break_even.transfer.value == 1 else 's'}"
    return f"its copies ({units.size(transfer.bytes)}) are amortized after {calls} on the same data"


def _price_text(price: Price | None) -> str | None:
    saving = price.saving_percent if price else None
    if price is None or saving is None:
        return None
    at = f"at {price.ratio:g} times the price"
    if price.saves is None:
        return f"unclear whether it saves money {at}"
    if price.saves:
        return f"{at} it costs {saving.value:.0f} % less {units.interval(saving.low, saving.high, _whole)}"
    low, high = (None if end is None else -end for end in (saving.high, saving.low))
    return f"{at} it costs {-saving.value:.0f} % more {units.interval(low, high, _whole)}"


def _cpu_only_text(limits: GpuLimits | None, cost_ratio: float | None, *, disturbed: bool) -> str:
    """Return how long a call may take on a GPU that was not measured."""
    if disturbed:
        unknown = "how long a call may take on a GPU is not known"
        return f"{unknown}: other work disturbed the times on the CPU; {noise.REMEDY}"
    aims = []
    if limits is not None and limits.demand is not None:
        aims.append(f"at most {units.seconds(limits.demand)} for the required speedup")
    if limits is not None and limits.price is not None:
        aims.append(f"at most {units.seconds(limits.price)} to save money at {cost_ratio:g} times the price")
    allowed = f": a call may take {', and '.join(aims)}" if aims else ""
    return f"no GPU was measured{allowed}"
