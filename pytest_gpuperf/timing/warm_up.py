"""From a workload to a timer that is warm: how many calls a block needs, and when blocks agree.

Calls that overlap fill a pipeline, and a GPU that has idled raises its clocks: blocks are long enough for it.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import ceil, hypot, sqrt
from random import Random
from statistics import median, stdev
from time import get_clock_info, perf_counter
from typing import Any

from msgspec.structs import replace

from pytest_gpuperf.analysis.looks import STRETCHES
from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.model.demand import RunOptions
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.timing.blocks import LONGEST_ON_HOST, BlockTimer, timed_block, waited_for
from pytest_gpuperf.timing.gc_pause import gc_paused
from pytest_gpuperf.timing.time_budget import seconds_between
from pytest_gpuperf.timing.workload import Workload

_MAX_WARMUP_FACTOR = 10  # of the plan's warm-up time, for a workload too slow to become steady within it
_MIN_CALLS = 3
_AGREEING_BLOCKS = 3
_MAX_CALLS = 10**7
_MAX_CALLS_OF_NO_TIME = 1000  # when so many calls show no time at all, more of them would not either
_MAX_CALLS_OF_LATENCY = 100  # each waits for the device: so many last far longer than the clock resolves
_MOST_BESIDE_CALLS = 0.01  # of a block's time, where a block of so many seconds is long enough for it
_LONGEST_BLOCK, _LONGEST_IN_DOUBT = 0.1, 5  # seconds; times the plan's block time
_ROUNDED = 1.001  # what a sum of floats may be off, and more
_MOST_PAIRS = 6  # of blocks of k and of 2k calls
_SHARE_OF_PAIRS = 1 / 50  # of the time that is left, which is also the most for one block
_LONGEST_COMPARED = 1 / 10  # of that time, for 2k calls: of slower ones nothing is compared


def warm_up(timer: BlockTimer, options: RunOptions, max_calls: int = _MAX_CALLS) -> None:
    """Find how many calls a block needs, and repeat blocks until three in a row agree.

    A block lasts at least the plan's block time, 20 times an empty synchronize and 1000 times the clock's
    resolution; it is shorter when that takes more than `max_calls`.
    """
    device, plan = timer.device, options.sampling
    nothing = Workload(device=device, call=lambda: None, scope="call")
    with gc_paused():
        timer.synchronize_cost = min(timed_block(nothing, 1).sample for _ in range(5))
    block_time = max(plan.block_time, 20 * timer.synchronize_cost, 1000 * _resolution())
    timer.block_time = block_time
    timer.raise_clocks()
    started = device.clock()
    recent: list[float] = []
    while not timer.steady and not _is_warm(timer, seconds_between(started, device.clock()), options):
        started_on_host = perf_counter()
        with gc_paused():
            sample = timer.time_block(timer.block_calls).sample
        timer.warmup_calls += timer.block_calls
        timer.note_time(sample)
        timer.last_warmup_block = sample * timer.block_calls
        recent = [*recent[-2:], sample]
        if sample * timer.block_calls < block_time:
            _require_time(timer, sample, perf_counter() - started_on_host)
            if timer.block_calls < max_calls:
                timer.block_calls = min(max_calls, _more_calls(timer.block_calls, sample, block_time))
                recent.clear()
        tolerated = (1 + plan.warmup_tolerance) * min(recent, default=0.0)
        timer.steady = len(recent) == _AGREEING_BLOCKS and max(recent) <= tolerated
    timer.note_end()
    timer.warmup += seconds_between(started, device.clock())


def find_ramp(timer: BlockTimer, options: RunOptions) -> None:
    """Find for how long a GPU that idled must work until it is as fast as in steady work; warm up again.

    Once for a process and a GPU, where blocks are short enough to show it; it takes 1.3 s.
    """
    clocks, device = timer.clocks, timer.device
    if clocks is None or not clocks.may_find_ramp(timer.block_seconds):
        return
    started = device.clock()
    clocks.find_ramp(device, partial(_run, timer))
    timer.warmup += seconds_between(started, device.clock())
    timer.drop_result()
    timer.steady, timer.block_calls = False, 1
    warm_up(timer, options)


def fill_pipeline(timer: BlockTimer, options: RunOptions, remaining: float) -> None:
    """Put so many calls in a block that what it spends beside them is at most 1 % of it.

    A block of k calls takes T(k) = a + k b: it fills the pipeline of host and device, and waits for the
    device at its end; each further call takes b, as in a loop. Blocks of k and of 2k calls tell a from b.
    A block lasts 0.1 s at most, and less where time is short; for what noise alone may show, five times
    the least block time.
    """
    calls, plan = timer.block_calls, options.sampling
    if not _may_overlap(timer) or 2 * timer.last_warmup_block > _LONGEST_COMPARED * remaining:
        return
    once, twice = _compare_blocks(timer, _SHARE_OF_PAIRS * remaining)
    beside, each = 2 * median(once) - median(twice), (median(twice) - median(once)) / calls
    if each <= 0:  # other work was in the way
        return
    surely_beside = max(0.0, beside - 2 * hypot(2 * _error_of_median(once), _error_of_median(twice)))
    longest = min(_LONGEST_BLOCK, _SHARE_OF_PAIRS * remaining, plan.record_time / STRETCHES)
    if not surely_beside:
        longest = min(longest, _LONGEST_IN_DOUBT * plan.block_time)
    most = longest / max(each, median(twice) / (2 * calls))
    needed = ceil(beside / (_MOST_BESIDE_CALLS * each))
    timer.block_calls = max(calls, min(needed, int(_ROUNDED * most), _MAX_CALLS))
    timer.overlap_left = surely_beside / (surely_beside + timer.block_calls * each)


def per_call(timer: BlockTimer, options: RunOptions) -> BlockTimer:
    """Return a timer of the workload whose calls are each waited for: its samples are latencies.

    Where a block is one call, every call is waited for anyway: then it is this timer.
    """
    if timer.block_calls == 1:
        return timer
    if timer.per_call_timer is None:
        timer.in_block = True
        call = waited_for(timer.workload.call, timer.device)
        timer.per_call_timer = warmed_up(call, timer.device, options, timer.workload.restore)
        timer.per_call_timer.keeps_result = timer.keeps_result
        timer.in_block = False
        timer.per_call_timer.note_time(timer.fastest_latency)
    return timer.per_call_timer


def warmed_up(
    call: Callable[[], Any],
    device: TimedDevice,
    options: RunOptions,
    restore: Callable[[], None] | None = None,
    *,
    calls_wait: bool = True,
) -> BlockTimer:
    """Return a timer of a call that waits for its device, warmed up in a quarter of the secondary time."""
    workload = Workload(device=device, call=call, scope="call", restore=restore)
    timer = BlockTimer(workload=workload, calls_wait=calls_wait)
    plan = replace(options.sampling, warmup_time=options.sampling.secondary_time / 4)
    warm_up(timer, replace(options, sampling=plan), max_calls=_MAX_CALLS_OF_LATENCY)
    return timer


def share_calls(*timers: BlockTimer) -> None:
    """Let blocks of workloads with a reset have as many calls on each device.

    A call may take longer, or less, than the one before it: then only as many calls are the same work.
    """
    if all(timer.workload.restore is None for timer in timers):
        return
    most = int(_ROUNDED * _LONGEST_BLOCK / max(timer.fastest_sample for timer in timers))
    calls = max(1, min(most, max(timer.block_calls for timer in timers)))
    for timer in timers:
        timer.block_calls = calls


def _is_warm(timer: BlockTimer, elapsed: float, options: RunOptions) -> bool:
    """Return whether warm-up has used its time: the plan's, and more only to reach three calls."""
    warmup_time = options.sampling.warmup_time
    if timer.warmup_calls >= _MIN_CALLS:
        return elapsed >= warmup_time
    return elapsed >= min(_MAX_WARMUP_FACTOR * warmup_time, options.max_time / 4)


def _require_time(timer: BlockTimer, sample: float, on_host: float) -> None:
    """Refuse a block that was too short where one of more calls would not be long enough either.

    A clock of the device's own may never see the calls, as one of simulated times for arrays of NumPy.
    """
    is_unseen = timer.device.clock is not perf_counter and on_host > LONGEST_ON_HOST
    if timer.block_calls >= (_MAX_CALLS if sample > 0 else _MAX_CALLS_OF_NO_TIME) or is_unseen:
        raise GpuPerfError(
            f"{timer.block_calls} calls take no time that the clock can show: does the workload use "
            "the device?"
        )


def _more_calls(calls: int, sample: float, block_time: float) -> int:
    """Return how many calls fill a block with a tenth to spare, at most 100 times as many as before."""
    needed = ceil(1.1 * block_time / sample) if sample > 0 else 100 * calls
    return min(max(needed, calls + 1), 100 * calls, _MAX_CALLS)


def _may_overlap(timer: BlockTimer) -> bool:
    """Whether the device may work on while the host submits the next call.

    Not an emulated group: with many calls under way its devices wait for each other, short of threads,
    and XLA ends the process.
    """
    if timer.device.info.emulated and capabilities.shares_processors(timer.device):
        return False
    if capabilities.is_synchronous(timer.device):
        return False
    is_asynchronous = timer.device.kind == "gpu" or capabilities.wait_for_result(timer.device) is not None
    return is_asynchronous and not timer.calls_wait


def _compare_blocks(timer: BlockTimer, seconds: float) -> tuple[list[float], list[float]]:
    """Return how long blocks take, and blocks of twice as many calls: pairs of them for so many seconds.

    Their order is random, so that they do not fall into step with anything periodic.
    """
    calls, clock, order = timer.block_calls, timer.device.clock, Random(0)  # noqa: S311 - an order
    started = clock()
    times: dict[int, list[float]] = {calls: [], 2 * calls: []}
    for _ in range(_MOST_PAIRS):
        for count in order.sample([*times], 2):
            times[count].append(count * _run(timer, count))
        if seconds_between(started, clock()) > seconds:
            break
    timer.drop_result()
    timer.warmup += seconds_between(started, clock())
    return times[calls], times[2 * calls]


def _run(timer: BlockTimer, calls: int | None = None) -> float:
    """Run a block that counts as warm-up; return its seconds per call."""
    timer.drop_result()
    timer.warmup_calls += calls or timer.block_calls
    return timer.run_block(calls)


def _error_of_median(values: Sequence[float]) -> float:
    """Return the standard error of the median, as of normal noise: of 5 % where too few values tell."""
    return 1.25 * stdev(values) / sqrt(len(values)) if len(values) > 2 else 0.05 * median(values)


def _resolution() -> float:
    return get_clock_info("perf_counter").resolution
