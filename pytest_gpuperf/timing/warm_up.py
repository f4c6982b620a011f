"""From a workload to a timer that is warm: how many calls a block needs, and when blocks agree.

Calls that overlap fill a pipeline, and a GPU that has idled raises its clocks: blocks are long enough for it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import ceil, hypot, sqrt
from random import Random
from statistics import median, stdev
from time import perf_counter
from typing import Any

from msgspec.structs import replace

from pytest_gpuperf.analysis.looks import STRETCHES
from pytest_gpuperf.devices.clock import FINE, let_pass, seconds_between, step_of
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.model import units
from pytest_gpuperf.model.demand import RunOptions
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.timing.blocks import LONGEST_ON_HOST, BlockTimer, timed_block, waited_for
from pytest_gpuperf.timing.gc_pause import gc_paused
from pytest_gpuperf.work.workload import Workload

_MAX_WARMUP_FACTOR = 10  # of the plan's warm-up time, for a workload too slow to become steady within it
_MIN_CALLS = 3
_AGREEING_BLOCKS = 3
_MAX_CALLS = 10**7
_MAX_CALLS_OF_NO_TIME = 1000  # when so many calls show no time at all, more of them would not either
_MAX_CALLS_OF_LATENCY = 100  # each waits for the device: so many last far longer than a fine clock resolves
_STEPS = 100  # of the clock in a block: the readings at its two ends are off by less than one each
_MOST_BESIDE_CALLS = 0.01  # of a block's time, where a block of so many seconds is long enough for it
_LONGEST_BLOCK, _LONGEST_IN_DOUBT = 0.1, 5  # seconds; times the plan's block time
_ROUNDED = 1.001  # what a sum of floats may be off, and more
_PAIRS = 3  # of blocks of k and of 2k calls; twice as many where these show surely that a block is too short
# Longer ones have so many times as many calls: the first where that takes a sixteenth of the time for pairs.
_FAR, _NEAR, _SHARE_OF_FAR, _FEWEST_FAR = 7, 3, 1 / 16, 3
_BENT = 0.1  # of a longer or shifted block's time, by which it is off
_MOST_LONGER = 4  # comparisons more, each of seven times as many calls, where these take hardly longer
_SHIFT, _SHIFTED = 0.38, 4  # of a block's time; blocks for each longer one
_SHARE_OF_PAIRS = 1 / 50  # of the time that is left, which is also the most for one block
_MUCH_MORE = 4  # times as many calls in a block: what asks for so many is looked at once more
_TO_REFUSE = 2  # times LONGEST_ON_HOST: the next block takes the host no longer, which is enough to refuse it
_LONGEST_COMPARED = 1 / 10  # of that time, for 2k calls: of slower ones nothing is compared


def warm_up(timer: BlockTimer, options: RunOptions, max_calls: int = _MAX_CALLS) -> None:
    """Find how many calls a block needs, and repeat blocks until three in a row agree.

    A block lasts at least the plan's block time, 20 times an empty synchronize and 100 steps of the device's
    clock; it is shorter when that takes more than `max_calls`.
    """
    device, plan = timer.device, options.sampling
    nothing = Workload(device=device, call=lambda: None, scope="call")
    with gc_paused():
        timer.warmup.synchronize_cost = min(timed_block(nothing, 1).sample for _ in range(5))
    block_time = max(plan.block_time, 20 * timer.warmup.synchronize_cost, _STEPS * step_of(device))
    timer.warmup.block_time = block_time
    timer.raise_clocks()
    started = device.clock()
    recent: list[float] = []
    while not timer.warmup.steady and not _is_warm(timer, seconds_between(started, device.clock()), options):
        started_on_host = perf_counter()
        with gc_paused():
            sample = timer.time_block(timer.block_calls).sample
        timer.warmup.calls += timer.block_calls
        timer.calls.note_time(sample)
        timer.warmup.last_block = sample * timer.block_calls
        recent = [*recent[-2:], sample]
        if sample * timer.block_calls < block_time:
            on_host = perf_counter() - started_on_host
            _require_time(timer, sample, on_host)
            if timer.block_calls < max_calls:
                most = max_calls
                if device.clock is not perf_counter:  # a clock of its own may never see the calls
                    most = min(most, 1 + ceil(_TO_REFUSE * LONGEST_ON_HOST / on_host * timer.block_calls))
                timer.block_calls = min(most, _more_calls(timer.block_calls, sample, block_time))
                recent.clear()
        tolerated = (1 + plan.warmup_tolerance) * min(recent, default=0.0)
        timer.warmup.steady = len(recent) == _AGREEING_BLOCKS and max(recent) <= tolerated
    timer.clocks.note_end()
    timer.warmup.elapsed += seconds_between(started, device.clock())


def find_ramp(timer: BlockTimer, options: RunOptions) -> None:
    """Find for how long a GPU that idled must work until it is as fast as in steady work; warm up again.

    Once for a process and a GPU, where blocks are short enough to show it; it takes 1.3 s.
    """
    clocks, device = timer.clocks.gpu, timer.device
    if clocks is None or not clocks.may_find_ramp(timer.block_seconds):
        return
    started = device.clock()
    clocks.find_ramp(device, partial(_run, timer))
    timer.warmup.elapsed += seconds_between(started, device.clock())
    timer.drop_result()
    timer.warmup.steady, timer.block_calls = False, 1
    warm_up(timer, options)


def fill_pipeline(timer: BlockTimer, options: RunOptions, remaining: float) -> None:
    """Put so many calls in a block that what it spends beside them is at most 1 % of it.

    A block of k calls takes T(k) = a + k b: it fills the pipeline of host and device, and waits for the
    device at its end; each further call takes b, as in a loop. Blocks of k and of 2k calls tell a from b, and
    longer ones what these hide where the wait looks for the device from time to time alone.
    A block lasts 0.1 s at most, and less where time is short; for what noise alone may show, five times
    the least block time.
    """
    plan = options.sampling
    if not _may_overlap(timer) or 2 * timer.warmup.last_block > _LONGEST_COMPARED * remaining:
        return
    longest = min(_LONGEST_BLOCK, _SHARE_OF_PAIRS * remaining, plan.record_time / STRETCHES)
    times = _compare_blocks(timer, _SHARE_OF_PAIRS * remaining)
    for _ in range(_MOST_LONGER):
        if not times.is_flat or _FAR * median(times.of(1)) > longest:
            break
        timer.block_calls = min(_FAR * timer.block_calls, _MAX_CALLS)
        times = _compare_blocks(timer, _SHARE_OF_PAIRS * remaining)
    found, calls = times.beside(), timer.block_calls
    if found and found.surely and found.seconds > _MUCH_MORE * _MOST_BESIDE_CALLS * calls * found.each:
        # A few times may lie close together by chance: blocks as long as that are worth a second look.
        again = _compare_blocks(timer, _SHARE_OF_PAIRS * remaining).beside()
        found = again and min(found, again, key=lambda each: each.surely)
    if found is None:  # other work was in the way
        return
    if not found.surely:
        longest = min(longest, _LONGEST_IN_DOUBT * plan.block_time)
    most = longest / max(found.each, median(times.of(2)) / (2 * calls))
    needed = ceil(found.seconds / (_MOST_BESIDE_CALLS * found.each))
    timer.block_calls = max(calls, min(needed, int(_ROUNDED * most), _MAX_CALLS))
    timer.warmup.overlap_left = found.surely / (found.surely + timer.block_calls * found.each)


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
        timer.per_call_timer.calls.note_time(timer.calls.fastest_latency)
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
    most = _MAX_CALLS_OF_LATENCY if step_of(device) <= FINE else _MAX_CALLS
    warm_up(timer, replace(options, sampling=plan), max_calls=most)
    return timer


def share_calls(*timers: BlockTimer) -> None:
    """Let blocks of workloads with a reset have as many calls on each device.

    A call may take longer, or less, than the one before it: then only as many calls are the same work.
    """
    if all(timer.workload.restore is None for timer in timers):
        return
    most = int(_ROUNDED * _LONGEST_BLOCK / max(timer.calls.fastest for timer in timers))
    calls = max(1, min(most, max(timer.block_calls for timer in timers)))
    for timer in timers:
        timer.block_calls = calls


def _is_warm(timer: BlockTimer, elapsed: float, options: RunOptions) -> bool:
    """Return whether warm-up has used its time: the plan's, and more only to reach three calls."""
    warmup_time = options.sampling.warmup_time
    if timer.warmup.calls >= _MIN_CALLS:
        return elapsed >= warmup_time
    return elapsed >= min(_MAX_WARMUP_FACTOR * warmup_time, options.max_time / 4)


def _require_time(timer: BlockTimer, sample: float, on_host: float) -> None:
    """Refuse a block that was too short where one of more calls would not be long enough either.

    A clock of the device's own may never see the calls, as one of simulated times for arrays of NumPy.
    """
    is_unseen = timer.device.clock is not perf_counter and on_host > LONGEST_ON_HOST
    step = step_of(timer.device)
    if timer.block_calls >= (_MAX_CALLS if sample > 0 or step > FINE else _MAX_CALLS_OF_NO_TIME) or is_unseen:
        steps = f", whose steps are {units.seconds(step)}" if step > FINE else ""
        raise GpuPerfError(
            f"{timer.block_calls} calls take no time that the clock can show{steps}: does the workload use "
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
    if timer.device.info.emulated and timer.device.shares_processors:
        return False
    if timer.device.is_synchronous:
        return False
    is_asynchronous = timer.device.kind == "gpu" or timer.device.wait is not None
    return is_asynchronous and not timer.calls_wait


@dataclass(frozen=True, slots=True, kw_only=True)
class _Beside:
    """The seconds of a block beside its calls, those that noise does not explain, and those of a call."""

    seconds: float
    surely: float
    each: float


@dataclass(frozen=True, slots=True)
class _Times:
    """How long blocks took, by how many times as many calls as the shortest they had.

    Those that are `shifted` had as few, and began at a while after the block before them.
    """

    calls: int
    blocks: dict[int, list[float]] = field(default_factory=lambda: {1: [], 2: []})
    shifted: list[float] = field(default_factory=list)

    def of(self, multiple: int) -> list[float]:
        """Return the seconds of blocks of so many times as many calls."""
        return self.blocks.get(multiple, [])

    @property
    def is_flat(self) -> bool:
        """Whether blocks of many times as many calls hardly take longer: all of them end at the next look."""
        furthest = max(self.blocks)
        return furthest > 2 and median(self.of(furthest)) < furthest / 2 * median(self.of(1))

    @property
    def is_bent(self) -> bool:
        """Whether longer or shifted blocks take another time than those of k and 2k calls let expect."""
        once, twice, furthest = median(self.of(1)), median(self.of(2)), max(self.blocks)
        far, expected = median(self.of(furthest)), once + (furthest - 1) * (twice - once)
        is_off = abs(expected - far) > _BENT * far
        return is_off or any(abs(shifted - once) > _BENT * once for shifted in self.shifted)

    @property
    def seems_short(self) -> bool:
        """Whether a block takes more beside its calls than it may; noise in a few may show that, too."""
        found = self.beside()
        if found is None or found.surely == found.seconds:  # a clock without any noise
            return False
        return found.surely > _MOST_BESIDE_CALLS * self.calls * found.each

    def beside(self) -> _Beside | None:
        """Return what blocks of twice as many calls show, or what others surely show to be more.

        None where no blocks took longer than those of fewer calls.
        """
        short = [self.of(1), *([self.shifted] if len(self.shifted) > 1 else [])]
        usual, *others = (
            self._beside(once, multiple) for once in short for multiple in self.blocks if multiple > 1
        )
        shown = [each for each in (usual, *(other for other in others if other.surely)) if each.each > 0]
        return max(shown, default=None, key=lambda each: (each.surely, each.seconds))

    def _beside(self, once: list[float], multiple: int) -> _Beside:
        more = self.of(multiple)
        seconds = (multiple * median(once) - median(more)) / (multiple - 1)
        error = hypot(multiple * _error_of_median(once), _error_of_median(more)) / (multiple - 1)
        return _Beside(
            seconds=seconds,
            surely=max(0.0, seconds - 2 * error),
            each=(median(more) - median(once)) / ((multiple - 1) * self.calls),
        )


def _compare_blocks(timer: BlockTimer, seconds: float) -> _Times:
    """Return how long blocks take, and blocks of twice as many calls: pairs of them for so many seconds.

    Their order is random, so that they do not fall into step with anything periodic. A wait that looks for
    the device from time to time shows in a longer block, and in one that begins between two looks: others
    begin where one has ended. If these take another time than expected, more of them are timed.
    """
    calls, clock, order = timer.block_calls, timer.device.clock, Random(0)  # noqa: S311 - an order
    started = clock()
    times = _Times(calls)

    def take(*multiples: int) -> None:
        for multiple in order.sample(multiples, len(multiples)):
            times.blocks.setdefault(multiple, []).append(multiple * calls * _run(timer, multiple * calls))

    def shift(share: float) -> None:
        let_pass(timer.device, share * once)
        times.shifted.append(calls * _run(timer))

    for pairs in range(1, 2 * _PAIRS + 1):
        take(1, 2)
        is_enough = pairs >= _PAIRS and not times.seems_short
        if is_enough or seconds_between(started, clock()) > seconds:
            break
    once = median(times.of(1))
    far = _FAR if _FAR * once <= _SHARE_OF_FAR * seconds else _NEAR
    if far * once <= seconds and timer.workload.restore is None:  # more calls after a reset are other work
        take(far)
        shift(_SHIFT)
        if times.is_bent and not times.is_flat:
            begun = clock()
            while len(times.of(far)) < _FEWEST_FAR and seconds_between(begun, clock()) < 2 * seconds:
                take(*{_NEAR, far})
                for place in range(_SHIFTED):
                    shift((place + order.random()) / _SHIFTED)
    timer.drop_result()
    timer.warmup.elapsed += seconds_between(started, clock())
    return times


def _run(timer: BlockTimer, calls: int | None = None) -> float:
    """Run a block that counts as warm-up; return its seconds per call."""
    timer.drop_result()
    timer.warmup.calls += calls or timer.block_calls
    return timer.run_block(calls)


def _error_of_median(values: Sequence[float]) -> float:
    """Return the standard error of the median, as of normal noise: of 5 % where too few values tell."""
    return 1.25 * stdev(values) / sqrt(len(values)) if len(values) > 2 else 0.05 * median(values)
