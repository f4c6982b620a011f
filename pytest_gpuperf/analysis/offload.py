"""From rounds, copies and prices to whether moving the work pays: numbers in, numbers and a sentence out."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, inf, log
from statistics import median

from pytest_gpuperf.analysis.estimation import estimate
from pytest_gpuperf.analysis.evidence import e_value
from pytest_gpuperf.analysis.verdict import ratio, regime_words
from pytest_gpuperf.model import units
from pytest_gpuperf.model.demand import Demand, Plan
from pytest_gpuperf.model.measurement import Estimate, Measurement, Neighbours, Round, Speedup, Transfer
from pytest_gpuperf.model.offload import BreakEven, GpuLimits, Link, Offload, Price, Regime

__all__ = ["LINKS", "OffloadInput", "weigh", "weigh_cpu"]

# Bytes per second in one direction: PCI-SIG's transfer rate x 16 lanes x 128/130 / 8, and half of the
# 900 GB/s that NVIDIA names for NVLink-C2C in both directions. No copy of pageable memory reaches them.
LINKS = {
    "PCIe 3 x16": 8e9 * 16 * 128 / 130 / 8,
    "PCIe 4 x16": 16e9 * 16 * 128 / 130 / 8,
    "PCIe 5 x16": 32e9 * 16 * 128 / 130 / 8,
    "NVLink-C2C": 450e9,
}
_MOST_DOUBLINGS = 50  # of a number of calls
_ROUNDING = 1e-9  # a count of calls that is an integer but for the rounding of floats
_QUIET = "a quiet machine, or fewer BLAS threads (OPENBLAS_NUM_THREADS), would tell"
_HEADS = {True: "worth it", False: "not worth it", None: "in doubt whether it is worth it"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OffloadInput:
    """What one test's measurement has to say: rounds as the demand gates them, and what was sampled aside.

    `copies` are seconds per transfer, for as many rounds or fewer. `own` is the share of the CPU's
    time that was the workload's own; with `throttled` the GPU's was not its usual.
    """

    demand: Demand
    regime: Regime
    cpu: Measurement
    gpu: Measurement
    rounds: Sequence[Round]
    speedup: Speedup
    copies: Sequence[float]
    transfer: Transfer | None
    own: float = 1.0
    throttled: bool = False

    @property
    def with_copies(self) -> list[tuple[Round, float]]:
        """The rounds with their copies; where there are fewer, the last rounds, which were nearest."""
        return list(zip(self.rounds[len(self.rounds) - len(self.copies) :], self.copies, strict=True))

    def is_beyond(self, limit: float) -> bool | None:
        """Say whether the speedup is above a limit, beyond doubt; None while in doubt."""
        if self.throttled:
            return None
        if (self.speedup.low or 0.0) * self.own > limit:
            return True
        return False if self.speedup.high is not None and self.speedup.high < limit else None


def weigh(seen: OffloadInput, plan: Plan) -> Offload:
    """Return whether moving the work pays, for a workload that was timed on both devices."""
    worth = seen.is_beyond(1.0)
    regimes = _regimes(seen, plan)
    price = _price(seen, plan)
    even = _break_even(seen, plan)
    copied = seen.regime == "never" and seen.transfer is not None and bool(seen.transfer.bytes)
    always = regimes.get("always") if copied and worth else None
    gated = regime_words(seen.demand, seen.regime)
    return Offload(
        worth=worth,
        reason=sentence(
            worth=worth,
            speedup=seen.speedup,
            gated=gated,
            price=price,
            even=even,
            always=always,
            pays_always=always is not None and (always.low or 0.0) * seen.own > 1,
            transfer=seen.transfer,
        ),
        regime=seen.regime,
        by_latency=seen.demand.latency,
        price=price,
        never=regimes.get("never"),
        once=regimes.get("once"),
        always=regimes.get("always"),
        latency=_latency(seen, plan),
        break_even_calls=even,
        gpu_limits=_gpu_limits(_gated(seen.cpu, seen.demand), seen.demand, plan),
        links=_links(_gated(seen.cpu, seen.demand), seen.transfer),
    )


def weigh_cpu(
    cpu: Measurement, demand: Demand, transfer: Transfer, plan: Plan, doubt: str | None = None
) -> Offload:
    """Return what the CPU's times alone say: what a GPU must reach, and what no link allows.

    Times that are in `doubt` say nothing, but for the links: a disturbed CPU is slower than it is.
    """
    time = _gated(cpu, demand) if doubt is None else None
    limits, links = _gpu_limits(time, demand, plan), _links(time, transfer)
    slowest = max(cpu.waited_for if demand.latency else cpu.samples, default=inf)
    hopeless = bool(links) and slowest < min(link.seconds for link in links)
    return Offload(
        worth=False if hopeless and demand.transfer == "always" else None,
        reason=without_gpu(limits, plan.cost_ratio, links[-1] if hopeless else None, transfer.bytes, doubt),
        regime="body" if transfer.h2d is None else demand.transfer,
        by_latency=demand.latency,
        price=Price(ratio=plan.cost_ratio, needed=plan.cost_ratio, saves=None, saving_percent=None),
        gpu_limits=limits,
        links=links,
    )


def _regimes(seen: OffloadInput, plan: Plan) -> dict[str, Speedup | None]:
    """Return the speedup in each regime that can be computed; a whole body is a regime of its own."""
    if seen.regime == "body":
        return {}
    sampling = seen.speedup.sampling
    found: dict[str, Speedup | None] = {seen.regime: seen.speedup}
    if seen.regime != "never":
        found["never"] = estimate((taken.cpu / taken.gpu for taken in seen.rounds), plan, sampling)
    for regime, calls in (("once", seen.demand.calls), ("always", 1)):
        if regime in found or calls is None or seen.transfer is None:
            continue
        if seen.transfer.bytes == 0:
            found[regime] = found["never"]
            continue
        ratios = (taken.cpu / (taken.gpu + copies / calls) for taken, copies in seen.with_copies)
        found[regime] = estimate(ratios, plan, sampling)
    return found


def _latency(seen: OffloadInput, plan: Plan) -> Speedup | None:
    """Return the speedup of calls that are waited for: that of the rounds where those are such calls."""
    calls_in_blocks = {seen.cpu.block_calls, seen.gpu.block_calls}
    if seen.demand.latency or calls_in_blocks == {1}:
        return estimate((taken.cpu / taken.gpu for taken in seen.rounds), plan, seen.speedup.sampling)
    # Where one side's blocks are single calls, its samples are of the rounds; the other's came after them.
    apart: Neighbours = "siblings" if 1 in calls_in_blocks else seen.speedup.sampling
    pairs = zip(seen.cpu.waited_for, seen.gpu.waited_for, strict=False)
    return estimate((cpu / gpu for cpu, gpu in pairs), plan, apart)


def _price(seen: OffloadInput, plan: Plan) -> Price:
    """Return what the bill does: a call on the GPU costs ratio / speedup of what it costs on the CPU."""
    ratio, found = plan.cost_ratio, seen.speedup
    low = (found.low or 0.0) * seen.own
    return Price(
        ratio=ratio,
        needed=ratio,
        saves=seen.is_beyond(ratio),
        saving_percent=Estimate(
            value=100 * (1 - ratio / found.value),
            low=100 * (1 - ratio / low) if low > 0 else None,
            high=100 * (1 - ratio / found.high) if found.high is not None else 100.0,
        ),
    )


def _break_even(seen: OffloadInput, plan: Plan) -> BreakEven | None:
    """Return after how many calls the copies and the first call are earned back.

    A call saves cpu - gpu. What the first call cost is what it took longer than a later one that is waited
    for, on the GPU and in this process: kernels that were compiled before, or come from a cache on disk,
    make it smaller.
    """
    later = seen.gpu.median if seen.gpu.latency is None else seen.gpu.latency
    if seen.regime == "body" or later is None:
        return None
    extra = max(0.0, seen.gpu.first_call - later)
    free = seen.transfer is not None and seen.transfer.bytes == 0
    of_rounds = [(taken, 0.0) for taken in seen.rounds] if free else seen.with_copies
    transfer = _calls(of_rounds, plan)
    first_call = _calls([(taken, extra) for taken in seen.rounds], plan)
    reason = None
    if first_call is None and seen.is_beyond(1.0) is False:
        reason = "never: a call on the GPU takes no less time than on the CPU"
    elif first_call is None:
        reason = "in doubt: half of the rounds show no saving"
    elif transfer is None and seen.copies:
        reason = "in doubt: half of the rounds beside which copies were timed show no saving"
    elif transfer is None:
        reason = (seen.transfer.reason if seen.transfer else None) or "the copies were not timed"
    return BreakEven(
        transfer=transfer,
        first_call=first_call,
        both=_calls([(taken, copies + extra) for taken, copies in of_rounds], plan),
        reason=reason,
    )


def _calls(pairs: Sequence[tuple[Round, float]], plan: Plan) -> Estimate | None:
    """Return the number of calls whose savings are the cost of each round, or None for never and for none.

    The median over the rounds. The interval holds the numbers for which the speedup with the cost shared by
    so many calls is neither beyond doubt above 1 nor below it, by the same evidence as a speedup's.
    """
    if not pairs:
        return None
    savings = ((cost, taken.cpu - taken.gpu) for taken, cost in pairs)
    middle = median(cost / saving if saving > 0 else inf for cost, saving in savings)
    if middle == inf:
        return None

    def evidence(calls: float, sign: int) -> float:
        ratios = (log(taken.cpu / (taken.gpu + (cost / calls if cost else 0.0))) for taken, cost in pairs)
        return e_value([sign * ratio for ratio in ratios], log(1 + plan.resolution))

    value = ceil(middle * (1 - _ROUNDING))
    lowest = _smallest(lambda calls: evidence(calls, -1) < 1 / plan.alpha) if value else 0
    highest = (
        _smallest(lambda calls: evidence(calls, 1) >= 1 / plan.alpha) if any(cost for _, cost in pairs) else 0
    )
    if evidence(inf, 1) < 1 / plan.alpha:
        highest = None
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


def _gated(measured: Measurement, demand: Demand) -> float | None:
    """Return the median time that the demand is about."""
    return measured.latency if demand.latency else measured.median


def _gpu_limits(time: float | None, demand: Demand, plan: Plan) -> GpuLimits | None:
    if time is None:
        return None
    return GpuLimits(demand=time / demand.min if demand.min else None, price=time / plan.cost_ratio)


def _links(time: float | None, transfer: Transfer | None) -> tuple[Link, ...]:
    """Return what the copies of one call cost at least, link by link; nothing when no bytes move."""
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


def sentence(
    *,
    worth: bool | None,
    speedup: Speedup,
    gated: str,
    price: Price,
    even: BreakEven | None,
    always: Speedup | None,
    pays_always: bool,
    transfer: Transfer | None,
) -> str:
    """Return whether moving the work pays, in one sentence: time, copies, money."""
    parts = [f"{_HEADS[worth]}: {ratio(speedup)} {gated}"]
    if worth is not False:
        copies = _with_copies(always) if pays_always else _copies(even, always, transfer)
        parts += filter(None, [copies, _money(price)])
    return "; ".join(parts)


def without_gpu(
    limits: GpuLimits | None, price: float, hopeless: Link | None, size: int | None, doubt: str | None
) -> str:
    """Return what a GPU that nobody has measured must reach, and whether its copies alone forbid that."""
    parts = ["no GPU was measured"]
    if doubt is not None:
        parts.append(f"the CPU's times do not say what one must reach: {doubt}; {_QUIET}")
    if limits is not None and limits.price is not None:
        most = f"at most {units.seconds(limits.price)} to save money at {price:g} times the price"
        if limits.demand is not None:
            most = f"at most {units.seconds(limits.demand)} for the demand, and {most}"
        parts = [f"no GPU was measured: a call may take {most}"]
    if hopeless is not None and size is not None:
        parts.append(
            f"with copies at every call it cannot pay on any link: on {hopeless.name} they alone take "
            f"{units.seconds(hopeless.seconds)} for {units.size(size)}"
        )
    return "; ".join(parts)


def _with_copies(always: Speedup | None) -> str | None:
    return f"even with copies at every call ({ratio(always)})" if always else None


def _copies(even: BreakEven | None, always: Speedup | None, transfer: Transfer | None) -> str | None:
    if transfer is None or not transfer.bytes or always is None:
        return None
    if even is None or even.transfer is None:
        return None
    moved = units.size(transfer.bytes)
    number = f"{even.transfer.value:.0f}"
    calls = "1 call" if number == "1" else f"{number} calls"
    return f"its copies ({moved}) are earned back after {calls} on the same data"


def _money(price: Price) -> str | None:
    saving = price.saving_percent
    if saving is None:
        return None
    at = f"at {price.ratio:g} times the price"
    if price.saves is None:
        return f"whether it saves money {at} is in doubt"
    if price.saves:
        return f"{at} it saves {saving.value:.0f} % of the bill {_ends(saving.low, saving.high)}"
    higher = [None if end is None else -end for end in (saving.high, saving.low)]
    return f"{at} the bill is {-saving.value:.0f} % higher {_ends(*higher)}"


def _ends(low: float | None, high: float | None) -> str:
    return f"[{', '.join('?' if end is None else f'{end:.0f}' for end in (low, high))}]"
