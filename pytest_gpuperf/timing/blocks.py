"""From a workload and the options of a run to samples: warm-up, blocks and rounds.

A sample is the time per call of one block: synchronize, read the host clock, k calls, synchronize, read the
host clock. Nothing but the workload runs between the two readings.
"""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from math import ceil, hypot, inf, sqrt
from random import Random
from statistics import median, stdev
from time import get_clock_info, perf_counter, thread_time
from typing import Any, NamedTuple

from msgspec.structs import replace

from pytest_gpuperf.analysis import noise
from pytest_gpuperf.analysis.looks import STRETCHES
from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.environment import one_thread, other_work, waits
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.model.demand import RunOptions
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import Inspection, Interference, Measurement
from pytest_gpuperf.timing.gc_pause import gc_paused
from pytest_gpuperf.timing.gpu_clocks import GpuClocks, clocks_of
from pytest_gpuperf.timing.time_budget import seconds_between
from pytest_gpuperf.timing.workload import Workload

_MAX_WARMUP_FACTOR = 10  # of the plan's warm-up time, for a workload too slow to become steady within it
_MIN_CALLS = 3
_AGREEING_BLOCKS = 3
_MAX_CALLS = 10**7
_ROUNDED = 1.001  # what a sum of floats may be off, and more
_MAX_CALLS_OF_NO_TIME = 1000  # when so many calls show no time at all, more of them would not either
# Seconds by the host's clock of a block that the device's own clock shows as too short, and of work that
# raises clocks, whose calls take nanoseconds of simulated time.
_LONGEST_ON_HOST = 1.0
# What warms up late counts calls: times are late after so many where these take at most so many seconds.
_LATE_CALLS, _FEWEST_LATE_CALLS = ((256, 0.13), (64, 0.35)), 24
_LATE_BLOCKS, _AS_BEFORE = (3, 6), 1.2  # that are timed then, and that confirm a difference by that factor
_LEAST_WAIT = 0.01  # of a block's time: a thread that waited less is not counted
_MAX_CALLS_OF_LATENCY = 100  # each waits for the device: so many last far longer than the clock resolves
_MOST_BESIDE_CALLS = 0.01  # of a block's time, where a block of so many seconds is long enough for it
_LONGEST_BLOCK, _LONGEST_IN_DOUBT = 0.1, 5  # seconds; times the plan's block time
_MOST_RECOMPILES = 10  # blocks: torch compiles a function 8 times at most
_MOST_PAIRS = 6  # of blocks of k and of 2k calls
_SHARE_OF_PAIRS = 1 / 50  # of the time that is left, which is also the most for one block
_LONGEST_COMPARED = 1 / 10  # of that time, for 2k calls: of slower ones nothing is compared


@dataclass(slots=True, kw_only=True)
class BlockTimer:
    """What has been measured of one workload so far. Times in seconds.

    `waited` and `processor_time` are sums over the timed blocks, and `waiting_threads` is the largest number
    in one of them; None where the system does not report them. `others_worked` is how long processors have
    worked for others since the first block, where that is known: threads that waited longer waited for each
    other. `least_time` is what a call needs in any case.
    `fastest_sample` outlives a restart: the samples of a busy machine are compared with it.
    `sm_mhz` are the clocks of a GPU right after the timed blocks, where it reports them.
    `overlap_left` is the share of a block's time beyond that of its calls in a loop; None if not known.
    `recompiles` counts the blocks in which something was compiled: they are no samples.
    `raised` is the time of untimed work that raised the clocks of a GPU that had idled.
    `per_call_timer` times the same workload with a wait after each call: its `calls_wait`. With
    `keeps_result` the result of a block's last call is in `last_result` until the next block.
    """

    workload: Workload
    calls_wait: bool = False
    keeps_result: bool = False
    last_result: Any = None
    block_calls: int = 1
    warmup: float = 0.0
    warmup_calls: int = 1
    steady: bool = False
    synchronize_cost: float = 0.0
    block_time: float | None = None
    samples: "array[float]" = field(default_factory=lambda: array("d"))
    fastest_sample: float = inf
    waited: float | None = None
    waiting_threads: int | None = None
    others_worked: float = inf
    least_time: float | None = None
    processor_time: float | None = None
    inspection: Inspection | None = None
    overlap_left: float | None = None
    raised: float = 0.0
    recompiles: int = 0
    sm_mhz: "array[int]" = field(default_factory=lambda: array("l"))
    per_call_timer: "BlockTimer | None" = None
    _clocks: GpuClocks | None = None
    _is_running: bool = False
    _compiled: int = 0  # programs, in the last block
    _others_before: float | None = None
    _last_warmup_block: float = 0.0  # seconds
    _before_last_block: tuple[float | None, float | None, float] = (None, None, inf)
    _fastest_latency: float = inf

    def __post_init__(self) -> None:
        """Look up what is known of the device's clocks."""
        self._clocks = clocks_of(self.device)

    @property
    def device(self) -> TimedDevice:
        """The device of the workload."""
        return self.workload.device

    @property
    def is_running(self) -> bool:
        """Whether a block, of many calls or of single ones, has begun and not ended: it raised."""
        return self._is_running or (self.per_call_timer is not None and self.per_call_timer.is_running)

    @property
    def interference(self) -> Interference | None:
        """What took time from the workload while it was sampled, if anything did."""
        if not noise.is_watched(self.device.info, self.lost):
            return None
        return noise.detect(
            self.samples,
            block_calls=self.block_calls,
            waited=self.lost or 0.0,
            fastest=self.fastest_sample,
            threads=self.waiting_threads,
            least=self.least_time,
        )

    @property
    def lost(self) -> float | None:
        """How long threads waited for a processor because of other work, at most; None where not known."""
        return None if self.waited is None else min(self.waited, self.others_worked)

    @property
    def measurement(self) -> Measurement:
        """What has been measured so far, as a value."""
        timed = sum(self.samples) * self.block_calls
        clocks = self.sm_mhz + (self.per_call_timer.sm_mhz if self.per_call_timer else array("l"))
        return Measurement(
            device=self.device.info,
            samples=array("d", self.samples),
            block_calls=self.block_calls,
            setup=self.workload.setup,
            first_call=self.workload.first_call,
            warmup=self.warmup,
            warmup_calls=self.warmup_calls,
            steady=self.steady,
            synchronize_cost=self.synchronize_cost,
            block_time=self.block_time,
            waited=self.lost,
            waiting_threads=self.waiting_threads,
            least_time=self.least_time,
            processors=self.processor_time / timed if self.processor_time is not None and timed else None,
            latencies=array("d", self.per_call_timer.samples if self.per_call_timer else ()),
            dtypes=self.workload.dtypes,
            shapes=self.workload.shapes,
            inspection=self.inspection,
            overlap_left=self.overlap_left,
            ramp=self._clocks.ramp if self._clocks else None,
            lowest_sm_mhz=min(clocks, default=None),
            highest_sm_mhz=max(clocks, default=None),
        )

    def note_time(self, seconds: float) -> None:
        """Let the time of a call count for `fastest_sample`, though it may be no sample."""
        self.fastest_sample = min(self.fastest_sample, seconds)

    def restart(self) -> None:
        """Discard the samples and the block length."""
        self.drop_result()
        del self.samples[:]
        self.block_calls = 1
        self.steady = False
        self.overlap_left = None
        self.waited = self.waiting_threads = self.processor_time = None
        del self.sm_mhz[:]
        if self.per_call_timer is not None:
            self._fastest_latency = min(self._fastest_latency, self.per_call_timer.fastest_sample)
            self.per_call_timer = None

    def warm_up(self, options: RunOptions, max_calls: int = _MAX_CALLS) -> None:
        """Find how many calls a block needs, and repeat blocks until three in a row agree.

        A block lasts at least the plan's block time, 20 times an empty synchronize and 1000 times the clock's
        resolution; it is shorter when that takes more than `max_calls`.
        """
        device, plan = self.device, options.sampling
        nothing = Workload(device=device, call=lambda: None, scope="call")
        with gc_paused():
            self.synchronize_cost = min(timed_block(nothing, 1).sample for _ in range(5))
        block_time = max(plan.block_time, 20 * self.synchronize_cost, 1000 * _resolution())
        self.block_time = block_time
        self.raise_clocks()
        started = device.clock()
        recent: list[float] = []
        while not self.steady and not self._is_warm(seconds_between(started, device.clock()), options):
            started_on_host = perf_counter()
            with gc_paused():
                sample = timed_block(self.workload, self.block_calls, calls_wait=self.calls_wait).sample
            self.warmup_calls += self.block_calls
            self.note_time(sample)
            self._last_warmup_block = sample * self.block_calls
            recent = [*recent[-2:], sample]
            if sample * self.block_calls < block_time:
                self._require_time(sample, perf_counter() - started_on_host)
                if self.block_calls < max_calls:
                    self.block_calls = min(max_calls, _more_calls(self.block_calls, sample, block_time))
                    recent.clear()
            tolerated = (1 + plan.warmup_tolerance) * min(recent, default=0.0)
            self.steady = len(recent) == _AGREEING_BLOCKS and max(recent) <= tolerated
        self._note_end()
        self.warmup += seconds_between(started, device.clock())

    def _require_time(self, sample: float, on_host: float) -> None:
        """Refuse a block that was too short where one of more calls would not be long enough either.

        A clock of the device's own may never see the calls, as one of simulated times for arrays of NumPy.
        """
        is_unseen = self.device.clock is not perf_counter and on_host > _LONGEST_ON_HOST
        if self.block_calls >= (_MAX_CALLS if sample > 0 else _MAX_CALLS_OF_NO_TIME) or is_unseen:
            raise GpuPerfError(
                f"{self.block_calls} calls take no time that the clock can show: does the workload use "
                "the device?"
            )

    def find_ramp(self, options: RunOptions) -> None:
        """Find for how long a GPU that idled must work until it is as fast as in steady work; warm up again.

        Once for a process and a GPU, where blocks are short enough to show it; it takes 1.3 s.
        """
        clocks, device = self._clocks, self.device
        if clocks is None or not clocks.may_find_ramp(self._block):
            return
        started = device.clock()
        clocks.find_ramp(device, self._run_in_warmup)
        self.warmup += seconds_between(started, device.clock())
        self.drop_result()
        self.steady, self.block_calls = False, 1
        self.warm_up(options)

    def raise_clocks(self) -> None:
        """Work untimed until a GPU that has idled is as fast as in steady work."""
        if self._clocks is None:
            return
        clock = self.device.clock
        started, started_on_host, worked = clock(), perf_counter(), 0.0
        ramp = self._clocks.ramp_at(started, self._block)
        while worked < ramp and perf_counter() - started_on_host < _LONGEST_ON_HOST:
            self.drop_result()
            self._run_block()
            worked = seconds_between(started, clock())
        self.raised += worked

    @property
    def _block(self) -> float:
        """The seconds of a block, before the first those of the first call; 0 where that is not known."""
        if self.fastest_sample < inf:
            return self.fastest_sample * self.block_calls
        return self.workload.first_call or 0.0

    def fill_pipeline(self, options: RunOptions, remaining: float) -> None:
        """Put so many calls in a block that what it spends beside them is at most 1 % of it.

        A block of k calls takes T(k) = a + k b: it fills the pipeline of host and device, and waits for the
        device at its end; each further call takes b, as in a loop. Blocks of k and of 2k calls tell a from b.
        A block lasts 0.1 s at most, and less where time is short; for what noise alone may show, five times
        the least block time.
        """
        calls, plan = self.block_calls, options.sampling
        if not self._overlaps or 2 * self._last_warmup_block > _LONGEST_COMPARED * remaining:
            return
        once, twice = self._compare_blocks(_SHARE_OF_PAIRS * remaining)
        beside, each = 2 * median(once) - median(twice), (median(twice) - median(once)) / calls
        if each <= 0:  # other work was in the way
            return
        surely_beside = max(0.0, beside - 2 * hypot(2 * _error_of_median(once), _error_of_median(twice)))
        longest = min(_LONGEST_BLOCK, _SHARE_OF_PAIRS * remaining, plan.record_time / STRETCHES)
        if not surely_beside:
            longest = min(longest, _LONGEST_IN_DOUBT * plan.block_time)
        most = longest / max(each, median(twice) / (2 * calls))
        needed = ceil(beside / (_MOST_BESIDE_CALLS * each))
        self.block_calls = max(calls, min(needed, int(_ROUNDED * most), _MAX_CALLS))
        self.overlap_left = surely_beside / (surely_beside + self.block_calls * each)

    def _compare_blocks(self, seconds: float) -> tuple[list[float], list[float]]:
        """Return how long blocks take, and blocks of twice as many calls: pairs of them for so many seconds.

        Their order is random, so that they do not fall into step with anything periodic.
        """
        calls, clock, order = self.block_calls, self.device.clock, Random(0)  # noqa: S311 - an order
        started = clock()
        times: dict[int, list[float]] = {calls: [], 2 * calls: []}
        for _ in range(_MOST_PAIRS):
            for count in order.sample([*times], 2):
                times[count].append(count * self._run_in_warmup(count))
            if seconds_between(started, clock()) > seconds:
                break
        self.drop_result()
        self.warmup += seconds_between(started, clock())
        return times[calls], times[2 * calls]

    @property
    def _overlaps(self) -> bool:
        """Whether the device may work on while the host submits the next call.

        Not an emulated group: with many calls under way its devices wait for each other, short of threads,
        and XLA ends the process.
        """
        if self.device.info.emulated and capabilities.shares_processors(self.device):
            return False
        if capabilities.is_synchronous(self.device):
            return False
        is_asynchronous = self.device.kind == "gpu" or capabilities.wait_for_result(self.device) is not None
        return is_asynchronous and not self.calls_wait

    def per_call(self, options: RunOptions) -> "BlockTimer":
        """Return a timer of the workload whose calls are each waited for: its samples are latencies.

        Where a block is one call, every call is waited for anyway: then it is this timer.
        """
        if self.block_calls == 1:
            return self
        if self.per_call_timer is None:
            self._is_running = True
            call = waited_for(self.workload.call, self.device)
            self.per_call_timer = warmed_up(call, self.device, options, self.workload.restore)
            self.per_call_timer.keeps_result = self.keeps_result
            self._is_running = False
            self.per_call_timer.note_time(self._fastest_latency)
        return self.per_call_timer

    def take_sample(self) -> None:
        """Time one block and keep its sample."""
        self.raise_clocks()
        self.drop_result()
        is_watched = self._is_watched
        if not self.samples:
            self._others_before = other_work() if is_watched else None
        waits_before, worked_before = (
            waits() if is_watched else None,
            capabilities.processor_time(self.device),
        )
        sample = self._run_block()
        if self._compiled:
            self._count_recompiled()
            self.take_sample()
            return
        self._note_clock()
        worked_after, waits_after = capabilities.processor_time(self.device), waits() if is_watched else None
        self._before_last_block = self.waited, self.processor_time, self.others_worked
        if worked_before is not None and worked_after is not None:
            self.processor_time = (self.processor_time or 0.0) + max(0.0, worked_after - worked_before)
        if waits_before is not None and waits_after is not None:
            in_block = [now - waits_before.get(thread, 0.0) for thread, now in waits_after.items()]
            waiting = sum(wait > _LEAST_WAIT * sample * self.block_calls for wait in in_block)
            self.waited = (self.waited or 0.0) + sum(in_block)
            self.waiting_threads = max(self.waiting_threads or 0, waiting)
            if (
                sum(in_block) > _LEAST_WAIT * sample * self.block_calls
                and self._others_before is not None
                and (others := other_work()) is not None
            ):
                self.others_worked = max(0.0, others - self._others_before)
        self.note_time(sample)
        self.samples.append(sample)

    def _count_recompiled(self) -> None:
        """Count a block in which something was compiled, which is no sample; refuse a call that goes on."""
        self.recompiles += 1
        if self.recompiles > _MOST_RECOMPILES:
            raise GpuPerfError(
                f"the call compiles again and again, in each of {self.recompiles} timed blocks: make its "
                "functions once, outside the call, and give them the same shapes, dtypes and Python numbers"
            )

    def _note_clock(self) -> None:
        """Note the GPU's clock while it is that of the block: NVML takes some tens of microseconds."""
        if self._clocks is not None and (mhz := capabilities.sm_mhz(self.device)) is not None:
            self.sm_mhz.append(mhz)

    def run_untimed(self) -> float:
        """Run a block that is no sample: caches and clocks are then those of steady work; return its time."""
        self.raise_clocks()
        self.drop_result()
        return self._run_block()

    def changed_late(self, remaining: float) -> float | None:
        """Return the seconds of a call after more work, where they differ from the samples by a fifth.

        None where they do not, or where there is no time for that work and as many samples again.
        """
        before, calls = median(self.samples), self.block_calls
        made = self.warmup_calls + len(self.samples) * calls + _LATE_BLOCKS[0] * calls
        ahead = ceil((_late_calls(before) - made) / calls)
        if (max(0, ahead) + sum(_LATE_BLOCKS)) * calls * before > remaining / 2:
            return None
        for _ in range(ahead):
            self.run_untimed()
        late = list[float]()
        for more in _LATE_BLOCKS:
            late += [self.run_untimed() for _ in range(more)]
            now = median(late)
            if max(now, before) <= _AS_BEFORE * min(now, before):
                return None
        return now

    def measure_least_time(self, remaining: float) -> None:
        """Measure how long a call takes at least, if it was disturbed and that can be done in time.

        A block on one thread needs the same processor time however busy the machine is, and no number of
        threads can share it better than evenly. Of several threads it would include the time that they spin.
        """
        interference = self.interference
        has_reset = self.workload.restore is not None  # whose time on the thread would be in it
        if interference is None or interference.kind != "cpu_contention" or has_reset:
            return
        with one_thread() as threads:
            if threads is None or 2 * threads * median(self.samples) * self.block_calls > remaining:
                return
            self.drop_result()
            started = thread_time()
            self._run_block()
            needed = (thread_time() - started) / self.block_calls / threads
        self.least_time = min(needed, self.least_time or inf)

    def drop_result(self) -> None:
        """Free the last block's result, before the next one exists: at most two are held for a device."""
        self.last_result = None

    def _run_block(self, calls: int | None = None) -> float:
        """Run a block; return its seconds per call. A workload that raises stays marked as running."""
        calls = calls or self.block_calls
        self._is_running = True
        with gc_paused():
            sample, result, self._compiled = timed_block(self.workload, calls, calls_wait=self.calls_wait)
        self._is_running = False
        if sample <= 0:
            raise GpuPerfError(f"{calls} calls took no time that the clock can show")
        self._note_end()
        if self.keeps_result:
            self.last_result = result
        return sample

    def _note_end(self) -> None:
        """Note when a GPU's last block ended: it idles from then on."""
        if self._clocks is not None:
            self._clocks.ended = self.device.clock()

    @property
    def _is_watched(self) -> bool:
        """Whether a thread that waits for a processor holds up the workload.

        It does not in simulated time, nor on a GPU. Emulated devices wait for each other.
        """
        is_timed_here = self.device.clock is perf_counter and self._clocks is None
        return is_timed_here and not capabilities.shares_processors(self.device)

    def _run_in_warmup(self, calls: int | None = None) -> float:
        """Run a block that counts as warm-up; return its seconds per call."""
        self.drop_result()
        self.warmup_calls += calls or self.block_calls
        return self._run_block(calls)

    def drop_last_sample(self) -> None:
        """Discard the last sample, and what its block added to the sums."""
        del self.samples[-1]
        self.waited, self.processor_time, self.others_worked = self._before_last_block

    def _is_warm(self, elapsed: float, options: RunOptions) -> bool:
        """Return whether warm-up has used its time: the plan's, and more only to reach three calls."""
        warmup_time = options.sampling.warmup_time
        if self.warmup_calls >= _MIN_CALLS:
            return elapsed >= warmup_time
        return elapsed >= min(_MAX_WARMUP_FACTOR * warmup_time, options.max_time / 4)


def warmed_up(
    call: Callable[[], Any],
    device: TimedDevice,
    options: RunOptions,
    restore: Callable[[], None] | None = None,
) -> BlockTimer:
    """Return a timer of a call that waits for its device, warmed up in a quarter of the secondary time."""
    workload = Workload(device=device, call=call, scope="call", restore=restore)
    timer = BlockTimer(workload=workload, calls_wait=True)
    plan = replace(options.sampling, warmup_time=options.sampling.secondary_time / 4)
    timer.warm_up(replace(options, sampling=plan), max_calls=_MAX_CALLS_OF_LATENCY)
    return timer


def round_of(timers: Sequence[BlockTimer], order: Random) -> Callable[[], None]:
    """Return what samples each workload once, in a new random order.

    It is no generator, in which a workload's StopIteration would become a RuntimeError.
    """
    shuffled = list(timers)

    def take_round() -> None:
        order.shuffle(shuffled)
        for timer in shuffled:
            timer.take_sample()

    return take_round


class Block(NamedTuple):
    """A timed block: its seconds per call, its last result, and how many programs were compiled in it."""

    sample: float
    result: Any
    compiled: int


def timed_block(workload: Workload, calls: int, *, calls_wait: bool = False) -> Block:
    """Time a block; keep its last result, and drop the others at once.

    The state that calls change is restored before the block, untimed.
    A lazy device submits each result, unless the calls wait for it.
    A device that waits for results waits for what is not in the last one, and for that, unless the calls do.
    What it cannot wait for in this way, as the work of another thread, shows when the time has been read: the
    wait for it is added.
    """
    device = workload.device
    clock = device.clock
    wait = capabilities.wait_for_result(device)
    call = workload.call if calls_wait else capabilities.submitted(workload.call, device)
    with capabilities.context(device):
        workload.prepare()
        compiled = capabilities.compilations(device)
        device.synchronize()
        started = clock()
        for _ in repeat(None, calls - 1):
            call()
        result = call()
        if wait is None:
            device.synchronize()
        elif not calls_wait:
            wait(None)  # what follows all work is submitted while the device works on: that adds little
            wait(result)
        ended = clock()
        lasted = seconds_between(started, ended)
        if wait is not None and (left := capabilities.unfinished(device)):
            found = clock()
            wait(left)
            lasted += seconds_between(found, clock())  # to find it takes long among many arrays
        compiled = capabilities.compilations(device) - compiled
    return Block(lasted / calls, result, compiled)


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


def waited_for(call: Callable[[], Any], device: TimedDevice) -> Callable[[], Any]:
    """Return the call with a wait for its result: for that alone, where the device can."""
    wait, synchronize = capabilities.wait_for_result(device), device.synchronize

    def call_and_synchronize() -> Any:
        result = call()
        synchronize()
        return result

    def call_and_wait() -> Any:
        result = call()
        wait(result)  # type: ignore[misc]  # it is not None where this is returned
        return result

    return call_and_synchronize if wait is None else call_and_wait


def _more_calls(calls: int, sample: float, block_time: float) -> int:
    """Return how many calls fill a block with a tenth to spare, at most 100 times as many as before."""
    needed = ceil(1.1 * block_time / sample) if sample > 0 else 100 * calls
    return min(max(needed, calls + 1), 100 * calls, _MAX_CALLS)


def _late_calls(seconds: float) -> int:
    """Return after how many calls, of so many seconds each, times are late."""
    return next((calls for calls, most in _LATE_CALLS if calls * seconds <= most), _FEWEST_LATE_CALLS)


def _error_of_median(values: Sequence[float]) -> float:
    """Return the standard error of the median, as of normal noise: of 5 % where too few values tell."""
    return 1.25 * stdev(values) / sqrt(len(values)) if len(values) > 2 else 0.05 * median(values)


def _resolution() -> float:
    return get_clock_info("perf_counter").resolution
