"""From rounds, copies and prices to whether the work is worth offloading, with the numbers and a sentence."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, inf, log
from statistics import median

from pytest_gpuperf.analysis import noise
from pytest_gpuperf.analysis.estimation import estimate
from pytest_gpuperf.analysis.evidence import ALPHA, e_value
from pytest_gpuperf.analysis.noise import Disturbance
from pytest_gpuperf.analysis.verdict import UNCONFIRMED, describe_regime, ratio
from pytest_gpuperf.model import units
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.measurement import Estimate, Measurement, Round, Speedup, Transfer
from pytest_gpuperf.model.offload import BreakEven, GpuLimits, Link, Offload, Price, Regime

# Bytes per second in one direction: PCI-SIG's transfer rate x 16 lanes x 128/130 / 8, and half of the
# 900 GB/s that NVIDIA names for NVLink-C2C in both directions. No copy of pageable memory reaches them.
LINKS = {
    "PCIe 3 x16": 8e9 * 16 * 128 / 130 / 8,
    "PCIe 4 x16": 16e9 * 16 * 128 / 130 / 8,
    "PCIe 5 x16": 32e9 * 16 * 128 / 130 / 8,
    "NVLink-C2C": 450e9,
}
_MOST_DOUBLINGS = 50  # of a number of calls
_ROUNDING = 1e-9  # relative error within which a count of calls is treated as an integer
_whole = "{:.0f}".format
_WORTH = {True: "worth it", False: "not worth it", None: "unclear whether it is worth it"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OffloadInput:
    """The measurement of one test: its rounds, with the copies that the demand includes, and secondary ones.

    `copies` are the seconds that they add to a call, for the last of the rounds or for all. `disturbance` is
    what is certain where other work took time, and `throttled` says why the GPU was slower than usual. What
    rests on the rounds spends `alpha_share` of alpha: the rest is for those that a restart discarded.
    """

    demand: Demand
    regime: Regime
    cpu: Measurement
    gpu: Measurement
    rounds: Sequence[Round]
    speedup: Speedup
    copies: Sequence[float]
    transfer: Transfer | None
    disturbance: Disturbance | None = None
    throttled: str | None = None
    alpha_share: float = 1.0

    @property
    def certain(self) -> Estimate:
        """The speedup with the interval that holds although other work disturbed the samples."""
        return self.disturbance.estimate if self.disturbance else self.speedup.estimate

    @property
    def with_copies(self) -> list[tuple[Round, float]]:
        """The rounds with their copies; where there are fewer copies, the last rounds, nearest in time."""
        return list(zip(self.rounds[len(self.rounds) - len(self.copies) :], self.copies, strict=True))

    def is_beyond(self, limit: float) -> bool | None:
        """Return whether the speedup is above a limit; None while that is inconclusive."""
        if self.throttled:
            return None
        above = self.certain.is_above(limit)
        return None if above is False and self.speedup.is_unconfirmed else above


def assess(measured: OffloadInput, options: RunOptions) -> Offload:
    """Return whether a workload that was timed on both devices is worth offloading."""
    worth = measured.is_beyond(1.0)
    regimes = _regimes(measured, options)
    price = _price(measured, options)
    break_even = _break_even(measured, options)
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
        latency=_latency(measured, options),
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


def _regimes(measured: OffloadInput, options: RunOptions) -> dict[str, Speedup | None]:
    """Return the speedup in each regime that can be computed; a whole body is a regime of its own."""
    if measured.regime == "body":
        return {}
    sampling = measured.speedup.sampling
    regimes: dict[str, Speedup | None] = {measured.regime: measured.speedup}
    if measured.regime != "never":
        ratios = (one_round.cpu / one_round.gpu for one_round in measured.rounds)
        regimes["never"] = estimate(ratios, options, sampling, alpha_share=measured.alpha_share)
    for regime, calls in (("once", measured.demand.calls), ("always", 1)):
        if regime in regimes or calls is None or measured.transfer is None:
            continue
        if measured.transfer.bytes == 0:
            regimes[regime] = regimes["never"]
            continue
        ratios = (one.cpu / (one.gpu + copies / calls) for one, copies in measured.with_copies)
        regimes[regime] = estimate(ratios, options, sampling, alpha_share=measured.alpha_share)
    return regimes


def _latency(measured: OffloadInput, options: RunOptions) -> Speedup | None:
    """Return the speedup of calls that are waited for one by one; single-call rounds already are."""
    calls_in_blocks = {measured.cpu.block_calls, measured.gpu.block_calls}
    if measured.demand.latency or calls_in_blocks == {1}:
        ratios = (one_round.cpu / one_round.gpu for one_round in measured.rounds)
        return estimate(ratios, options, measured.speedup.sampling, alpha_share=measured.alpha_share)
    pairs = zip(measured.cpu.waited_for, measured.gpu.waited_for, strict=False)
    ratios = (cpu / gpu for cpu, gpu in pairs)
    if 1 not in calls_in_blocks:  # single calls are sampled once, after any restart
        return estimate(ratios, options, measured.speedup.sampling)
    # Where one device's blocks are single calls, its samples are those of the rounds; the other's came later.
    return estimate(ratios, options, "variants", alpha_share=measured.alpha_share)


def _price(measured: OffloadInput, options: RunOptions) -> Price | None:
    """Return the change in cost: a call on the GPU costs ratio / speedup of what it costs on the CPU."""
    cost_ratio = options.cost_ratio
    if cost_ratio is None:
        return None
    speedup = measured.speedup
    low = measured.certain.lower
    return Price(
        ratio=cost_ratio,
        needed=cost_ratio,
        saves=measured.is_beyond(cost_ratio),
        saving_percent=Estimate(
            value=100 * (1 - cost_ratio / speedup.value),
            low=100 * (1 - cost_ratio / low) if low > 0 else None,
            high=100 * (1 - cost_ratio / measured.certain.upper),
        ),
    )


def _break_even(measured: OffloadInput, options: RunOptions) -> BreakEven | None:
    """Return after how many calls the copies and the first call are amortized.

    A call saves cpu - gpu. What the first call cost is the GPU's start-up in this process: kernels that were
    compiled before, or come from a cache on disk, make it smaller.
    """
    startup = measured.gpu.startup
    if measured.regime == "body" or startup is None:
        return None
    is_free = measured.transfer is not None and measured.transfer.bytes == 0
    with_copies = [(one_round, 0.0) for one_round in measured.rounds] if is_free else measured.with_copies
    alpha = measured.alpha_share * ALPHA
    transfer = _calls(with_copies, options, alpha)
    first_call = _calls([(one_round, startup) for one_round in measured.rounds], options, alpha)
    reason = None
    if first_call is None and measured.is_beyond(1.0) is False:
        reason = "never: a call on the GPU takes no less time than on the CPU"
    elif first_call is None:
        reason = "inconclusive: half of the rounds show no saving"
    elif transfer is None and measured.copies:
        reason = "inconclusive: half of the rounds with timed copies show no saving"
    elif transfer is None:
        reason = (measured.transfer.reason if measured.transfer else None) or "the copies were not timed"
    return BreakEven(
        transfer=transfer,
        first_call=first_call,
        both=_calls([(one_round, copies + startup) for one_round, copies in with_copies], options, alpha),
        reason=reason,
    )


def _calls(costs: Sequence[tuple[Round, float]], options: RunOptions, alpha: float) -> Estimate | None:
    """Return the number of calls whose savings are each round's cost; None for never, and without rounds.

    The median over the rounds. The interval holds the numbers for which the speedup, with the cost shared by
    so many calls, is not significantly above or below 1, by the same evidence as a speedup's.
    """
    if not costs:
        return None
    savings = ((cost, one_round.cpu - one_round.gpu) for one_round, cost in costs)
    middle = median(cost / saving if saving > 0 else inf for cost, saving in savings)
    if middle == inf:
        return None

    def evidence(calls: float, sign: int) -> float:
        ratios = (log(one.cpu / (one.gpu + (cost / calls if cost else 0.0))) for one, cost in costs)
        return e_value([sign * ratio for ratio in ratios], log(1 + options.sampling.resolution))

    enough = 1 / alpha
    value = max(0, ceil(middle * (1 - _ROUNDING)))  # by noise, a loop with copies may be quicker than without
    lowest = _smallest(lambda calls: evidence(calls, -1) < enough) if value else 0
    highest: int | None = 0
    if evidence(inf, 1) < enough:
        highest = None
    elif any(cost for _, cost in costs):
        highest = _smallest(lambda calls: evidence(calls, 1) >= enough)
    return Estimate(
        value=value,
        low=min(value, lowest if lowest is not None else value),
        high=None if highest is None else max(value, highest),
    )


def _smallest(holds: Callable[[int], bool]) -> int | None:
    """Return the smallest number from 1 on for which it holds, as it then does for all larger ones."""
    above = next((2**power for power in range(_MOST_DOUBLINGS) if holds(2**power)), None)
    if above is None:
        return None
    return bisect_left(range(above), 1, lo=above // 2 + 1, key=lambda number: int(holds(number)))


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
    """Return why it is unclear whether the speedup is above 1, where its interval excludes 1."""
    speedup = measured.speedup
    if speedup.estimate.is_above(1.0) is None:
        return None
    if measured.throttled:
        return measured.throttled
    if measured.certain.is_above(1.0) is None:
        certain = units.interval(measured.certain.low, measured.certain.high, units.digits)
        return f"other work disturbed the times, so only {certain} is certain"
    return UNCONFIRMED[speedup.confirmation] if speedup.confirmation else None


def _copies_text(measured: OffloadInput, always: Speedup | None, break_even: BreakEven | None) -> str | None:
    """Return what copies do to a speedup with resident data; None where that is not known or not worth it."""
    transfer = measured.transfer
    if measured.regime != "never" or transfer is None or not transfer.bytes or always is None:
        return None
    if not measured.is_beyond(1.0):
        return None
    if always.estimate.lower * measured.certain.lower > measured.speedup.estimate.lower:
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
