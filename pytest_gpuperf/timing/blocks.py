"""From a workload to its samples, one for each timed block.

A sample is the time per call of one block: synchronize, read the host clock, k calls, synchronize, read the
host clock. Where each call waits, no other wait follows. Nothing but the workload runs between the two
readings.
"""

import gc
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import repeat
from math import inf
from random import Random
from statistics import median
from time import perf_counter, thread_time
from typing import Any, NamedTuple

from pytest_gpuperf.analysis import noise, turns
from pytest_gpuperf.analysis.turns import Alone
from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.clock import seconds_between
from pytest_gpuperf.devices.environment import one_thread, other_work, waits
from pytest_gpuperf.devices.protocol import Observation, TimedDevice
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import Inspection, Interference, Measurement, Memory
from pytest_gpuperf.timing.gc_pause import gc_paused
from pytest_gpuperf.timing.gpu_clocks import GpuClocks, clocks_of
from pytest_gpuperf.work.workload import Workload

# Seconds by the host's clock of a block that the device's own clock shows as too short, and of work that
# raises clocks, whose calls take nanoseconds of simulated time.
LONGEST_ON_HOST = 1.0
_FOUND_WORK = 2  # empty waits: a longer one waited for work
_LEAST_WAIT = 0.01  # of a block's time: a thread that waited less is not counted
_MEMORY_NOT_REPORTED = "the device does not report how much memory a call needs"
_MOST_RECOMPILES = 10  # blocks: torch compiles a function 8 times at most


class Stopped(NamedTuple):
    """A quota of so many processors, and in how many of its periods the process had used it up."""

    processors: float
    periods: int


@dataclass(slots=True, kw_only=True)
class BlockTimer:
    """What has been measured of one workload so far. Times in seconds.

    `waited` and `processor_time` are sums over the timed blocks, and `waiting_threads` is the largest number
    in one of them; None where the system does not report them. `others_worked` is how long processors have
    worked for others since the first block, where that is known: threads that waited longer waited for each
    other. `least_time` is what a call needs in any case.
    `calls` are all that were made, the first one and those of blocks, of whatever became of their times.
    `second_call` is a call's time in the first block, which is one call; infinite before that.
    `fastest_sample` outlives a restart: the samples of a busy machine are compared with it.
    `sm_mhz` are the clocks of a GPU right after the timed blocks, where it reports them.
    `overlap_left` is the share of a block's time beyond that of its calls in a loop; None if not known.
    `recompiles` counts the blocks in which something was compiled: they are no samples.
    `raised` is the time of untimed work that raised the clocks of a GPU that had idled.
    `alone` is what calls took while no other device worked, each time that this was asked.
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
    calls: int = 1
    steady: bool = False
    synchronize_cost: float = 0.0
    block_time: float | None = None
    samples: "array[float]" = field(default_factory=lambda: array("d"))
    second_call: float = inf
    fastest_sample: float = inf
    waited: float | None = None
    waiting_threads: int | None = None
    others_worked: float = inf
    least_time: float | None = None
    processor_time: float | None = None
    inspection: Inspection | None = None
    shows_at_last: bool = True
    overlap_left: float | None = None
    raised: float = 0.0
    recompiles: int = 0
    sm_mhz: "array[int]" = field(default_factory=lambda: array("l"))
    per_call_timer: "BlockTimer | None" = None
    clocks: GpuClocks | None = None
    in_block: bool = False
    _compiled: int = 0  # programs, in the last block
    _others_before: float | None = None
    last_warmup_block: float = 0.0  # seconds
    _before_last_block: tuple[float | None, float | None, float] = (None, None, inf)
    fastest_latency: float = inf
    alone: list[Alone] = field(default_factory=list)
    _stopped_before: int | None = None
    most_held: int = 0  # bytes, in the calls of which that is known
    held_at_last: int | None = None  # in the inspected call, with what is kept of an earlier one

    def __post_init__(self) -> None:
        """Look up what is known of the device's clocks."""
        self.clocks = clocks_of(self.device)

    @property
    def device(self) -> TimedDevice:
        """The device of the workload."""
        return self.workload.device

    @property
    def is_running(self) -> bool:
        """Whether a block, of many calls or of single ones, has begun and not ended: it raised."""
        return self.in_block or (self.per_call_timer is not None and self.per_call_timer.is_running)

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
        alone = self.alone or (self.per_call_timer.alone if self.per_call_timer else [])
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
            alone=turns.typical(alone) if alone else None,
            overlap_left=self.overlap_left,
            ramp=self.clocks.ramp if self.clocks else None,
            lowest_sm_mhz=min(clocks, default=None),
            highest_sm_mhz=max(clocks, default=None),
        )

    @property
    def memory(self) -> Memory:
        """What the workload holds on its device at its peak, and what of that its setup left there.

        The setup leaves the inputs, or what the device held more after it than before, if more. A call adds
        something to that, and may find what earlier ones have left: the most that one held counts. While a
        whole body is called first, its uploads are kept: a later call counts in its place.
        """
        workload = self.workload
        # An input that was freed since, after the setup that made it, is not held.
        inputs = sum(entry.bytes for entry in workload.inputs if entry.array() is not None)
        freed = sum(entry.bytes for entry in workload.inputs if entry.array() is None)
        before = max(inputs, (workload.held_after_setup or 0) - freed)
        of_last = self.inspection.memory if self.inspection is not None else None
        of_first = workload.first_call_memory if workload.scope == "call" or of_last is None else None
        added = [each for each in (of_first, of_last) if each is not None]
        if not added:
            return Memory(peak=None, inputs=before, reason=_MEMORY_NOT_REPORTED)
        return Memory(peak=max(before + max(added), self.most_held), inputs=before)

    def held_in(self, observation: Observation) -> int | None:
        """Return the most bytes that were held in a call, its inputs and what earlier calls left included.

        What was there before the setup is not counted, unless it is an input; None where that is not known.
        """
        before = self.workload.live_before
        if before is None or observation.live is None or observation.memory is None:
            return None
        return observation.live + observation.memory - before + self.workload.brought_bytes

    @contextmanager
    def settling_memory(self) -> Iterator[None]:
        """Let what the inspected call held count, without what is freed meanwhile: only we had kept that."""
        held, self.held_at_last = self.held_at_last, None
        if held is None:
            yield
            return
        with self.device.observe() as released:
            yield
        self._note_held(held + min(0, released.held or 0))

    def note_memory_left(self) -> None:
        """Let count what calls have left: the last of them held that, too."""
        if self.workload.live_before is None:
            return
        with self.device.observe() as nothing:
            pass
        if (held := self.held_in(nothing)) is not None:
            self._note_held(held)

    def _note_held(self, held: int) -> None:
        """Let so many bytes count, without the garbage of blocks: the collector pauses in them."""
        if held > self.most_held:
            with self.device.observe() as collected:
                gc.collect()
            self.most_held = max(self.most_held, held + min(0, collected.held or 0))

    def note_time(self, seconds: float) -> None:
        """Let the time of a call count for `fastest_sample`, though it may be no sample.

        What a clock of its own did not show took an unknown time.
        """
        if seconds > 0:
            self.fastest_sample = min(self.fastest_sample, seconds)

    def restart(self) -> None:
        """Discard the samples and the block length."""
        self.drop_result()
        del self.samples[:]
        self.block_calls = 1
        self.steady = False
        self.overlap_left = None
        self.alone.clear()
        self.waited = self.waiting_threads = self.processor_time = None
        del self.sm_mhz[:]
        if self.per_call_timer is not None:
            self.fastest_latency = min(self.fastest_latency, self.per_call_timer.fastest_sample)
            self.per_call_timer = None

    @property
    def stopped(self) -> Stopped | None:
        """How a quota of processor time has stopped the process since the first sample; None if none did."""
        quota = self.device.quota()
        if quota is None or self._stopped_before is None:
            return None
        periods = (quota.stopped() or 0) - self._stopped_before
        return Stopped(quota.processors, periods) if periods > 0 else None

    def raise_clocks(self) -> None:
        """Work untimed until a GPU that has idled is as fast as in steady work."""
        if self.clocks is None:
            return
        clock = self.device.clock
        started, started_on_host, worked = clock(), perf_counter(), 0.0
        ramp = self.clocks.ramp_at(started, self.block_seconds)
        while worked < ramp and perf_counter() - started_on_host < LONGEST_ON_HOST:
            self.drop_result()
            self._run_block(self.block_calls)
            worked = seconds_between(started, clock())
        self.raised += worked

    @property
    def block_seconds(self) -> float:
        """The seconds of a block, before the first those of the first call; 0 where that is not known."""
        if self.fastest_sample < inf:
            return self.fastest_sample * self.block_calls
        return self.workload.first_call or 0.0

    def take_sample(self) -> None:
        """Time one block and keep its sample."""
        self.raise_clocks()
        self.drop_result()
        is_watched = self.is_watched
        if not self.samples:
            self._others_before = other_work() if is_watched else None
            quota = self.device.quota()
            self._stopped_before = quota.stopped() if quota else None
        waits_before, worked_before = (
            waits() if is_watched else None,
            self.device.processor_time(),
        )
        sample = self.run_block()
        if self._compiled:
            self._count_recompiled()
            self.take_sample()
            return
        self._note_clock()
        worked_after, waits_after = self.device.processor_time(), waits() if is_watched else None
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
                "functions once, outside what is timed (where that is the whole test, return a callable), "
                "and give them the same shapes, dtypes and Python numbers"
            )

    def _note_clock(self) -> None:
        """Note the GPU's clock while it is that of the block: NVML takes some tens of microseconds."""
        if self.clocks is not None and (mhz := self.device.sm_mhz()) is not None:
            self.sm_mhz.append(mhz)

    def run_untimed(self) -> float:
        """Run a block that is no sample: caches and clocks are then those of steady work; return its time."""
        self.raise_clocks()
        self.drop_result()
        return self.run_block()

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
            if threads is None or (2 * threads + 1) * median(self.samples) * self.block_calls > remaining:
                return
            self.drop_result()
            started = thread_time()
            self.run_block()
            needed = (thread_time() - started) / self.block_calls / threads
        self.least_time = min(needed, self.least_time or inf)
        if self.keeps_result:
            self.run_untimed()  # on one thread its result may be rounded in another way

    def drop_result(self) -> None:
        """Free the last block's result, before the next one exists: at most two are held for a device."""
        self.last_result = None

    def run_block(self, calls: int | None = None) -> float:
        """Run a block; return its seconds per call, which the clock has shown."""
        calls = calls or self.block_calls
        sample = self._run_block(calls)
        if sample <= 0:
            raise GpuPerfError(f"{calls} calls took no time that the clock can show")
        return sample

    def _run_block(self, calls: int) -> float:
        """Run a block; return its seconds per call. A workload that raises stays marked as running."""
        self.in_block = True
        with gc_paused():
            sample, result, self._compiled = self.time_block(calls)
        self.in_block = False
        self.note_end()
        if self.keeps_result:
            self.last_result = result
        return sample

    def time_block(self, calls: int) -> "Block":
        """Time a block of so many calls, which is no sample yet; see what the second of all calls holds."""
        is_first_block = self.warmup_calls == 1 and not self.samples
        has_reset = self.workload.restore is not None
        watches = self.workload.live_before is not None and is_first_block and not has_reset
        with self.device.observe() if watches else nullcontext() as seen:
            block = timed_block(
                self.workload, calls, calls_wait=self.calls_wait, empty_wait=self.synchronize_cost
            )
        self.calls += calls
        if is_first_block:
            self.second_call = block.sample
        if seen is not None:
            self.most_held = max(self.most_held, self.held_in(seen) or 0)
        return block

    def note_end(self) -> None:
        """Note when a GPU's last block ended: it idles from then on."""
        if self.clocks is not None:
            self.clocks.ended = self.device.clock()

    @property
    def is_watched(self) -> bool:
        """Whether a thread that waits for a processor holds up the workload.

        It does not in simulated time, nor on a GPU. Emulated devices wait for each other.
        """
        is_timed_here = self.device.clock is perf_counter and self.clocks is None
        return is_timed_here and not self.device.shares_processors

    def drop_last_sample(self) -> None:
        """Discard the last sample, and what its block added to the sums."""
        del self.samples[-1]
        self.waited, self.processor_time, self.others_worked = self._before_last_block


class Waiting:
    """How long threads of this process waited for a processor because of other work, since this was made."""

    def __init__(self) -> None:
        self._waits, self._others = waits(), other_work()

    @property
    def seconds(self) -> float:
        """The seconds of all threads, at most; 0 where the system does not report them."""
        before, now, others = self._waits, waits(), other_work()
        if before is None or now is None:
            return 0.0
        waited = sum(seconds - before.get(thread, 0.0) for thread, seconds in now.items())
        worked = inf if others is None or self._others is None else max(0.0, others - self._others)
        return min(waited, worked)


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


def timed_block(
    workload: Workload, calls: int, *, calls_wait: bool = False, empty_wait: float = 0.0
) -> Block:
    """Time a block; keep its last result, and drop the others at once.

    The state that calls change is restored before the block, untimed.
    A lazy device submits each result, unless the calls wait for it.
    A block ends with a wait for the device, unless its calls wait: a loop of these has no wait but theirs.
    A device that waits for results waits for what is not in the last one, and for that.
    What was not waited for in this way, as the work of another thread, shows when the time has been read: it
    is added, without the `empty_wait`.
    """
    device = workload.device
    clock = device.clock
    wait = device.wait
    call = workload.call if calls_wait else capabilities.submitted(workload.call, device)
    with device.context():
        workload.prepare()
        compiled = device.compilations()
        device.synchronize()
        started = clock()
        for _ in repeat(None, calls - 1):
            call()
        result = call()
        if wait is None and not calls_wait:
            device.synchronize()
        elif wait is not None and not calls_wait:
            wait(None)  # what follows all work is submitted while the device works on: that adds little
            wait(result)
        lasted = seconds_between(started, clock())
        if wait is not None or calls_wait:
            lasted += _left(device, empty_wait)
        compiled = device.compilations() - compiled
    return Block(lasted / calls, result, compiled)


def _left(device: TimedDevice, empty_wait: float) -> float:
    """Wait for what a block has left to do; return the seconds of that.

    A call that waits for its own copies alone leaves the work of other streams: without it, what piles up
    there would count nowhere. A wait that is less than twice as long as an empty one found nothing to do.
    """
    wait, clock = device.wait, device.clock
    if wait is None:
        found = clock()
        device.synchronize()
        waited = seconds_between(found, clock())
        return waited - empty_wait if waited > _FOUND_WORK * empty_wait else 0
    if not (left := device.unfinished()):
        return 0
    found = clock()  # to find it takes long among many arrays
    wait(left)
    return seconds_between(found, clock())


def waited_for(call: Callable[[], Any], device: TimedDevice) -> Callable[[], Any]:
    """Return the call with a wait for its result: for that alone, where the device can."""
    wait, synchronize = device.wait, device.synchronize

    def call_and_synchronize() -> Any:
        result = call()
        synchronize()
        return result

    def call_and_wait() -> Any:
        result = call()
        wait(result)  # type: ignore[misc]  # it is not None where this is returned
        return result

    return call_and_synchronize if wait is None else call_and_wait
