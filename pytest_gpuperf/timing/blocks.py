"""From a workload to its samples, one for each timed block.

A sample is the time per call of one block: synchronize, read the host clock, k calls, synchronize, read the
host clock. Where each call waits, no other wait follows. Nothing but the workload runs between the two
readings.
"""

from array import array
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
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
from pytest_gpuperf.devices.environment import one_thread
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import Inspection, Interference, Measurement
from pytest_gpuperf.timing.calls import Calls, WarmUp
from pytest_gpuperf.timing.gc_pause import gc_paused
from pytest_gpuperf.timing.gpu_clocks import BlockClocks
from pytest_gpuperf.timing.held_memory import HeldMemory
from pytest_gpuperf.timing.processors import Processors
from pytest_gpuperf.work.workload import Workload

# Seconds by the host's clock of a block that the device's own clock shows as too short, and of work that
# raises clocks, whose calls take nanoseconds of simulated time.
LONGEST_ON_HOST = 1.0
_FOUND_WORK = 2  # empty waits: a longer one waited for work


@dataclass(slots=True, kw_only=True)
class BlockTimer:
    """What has been measured of one workload so far: its samples, in seconds, and what is known besides.

    `per_call_timer` times the same workload with a wait after each call: its `calls_wait`. With
    `keeps_result` the result of a block's last call is in `last_result` until the next block.
    `alone` is what calls took while no other device worked, each time that this was asked.
    """

    workload: Workload
    calls_wait: bool = False
    keeps_result: bool = False
    last_result: Any = None
    in_block: bool = False
    block_calls: int = 1
    samples: "array[float]" = field(default_factory=lambda: array("d"))
    alone: list[Alone] = field(default_factory=list)
    per_call_timer: "BlockTimer | None" = None
    inspection: Inspection | None = None
    calls: Calls = field(default_factory=Calls)
    warmup: WarmUp = field(default_factory=WarmUp)
    clocks: BlockClocks = field(init=False)
    memory: HeldMemory = field(init=False)
    processors: Processors = field(init=False)

    def __post_init__(self) -> None:
        """Begin to watch what the device's clocks, memory and processors do."""
        self.clocks = BlockClocks(self.device)
        self.memory = HeldMemory(workload=self.workload)
        self.processors = Processors(self.device)

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
        processors = self.processors
        if not noise.is_watched(self.device.info, processors.lost):
            return None
        return noise.detect(
            self.samples,
            block_calls=self.block_calls,
            waited=processors.lost or 0.0,
            fastest=self.calls.fastest,
            threads=processors.waiting_threads,
            least=processors.least_time,
        )

    @property
    def measurement(self) -> Measurement:
        """What has been measured so far, as a value."""
        workload, warmup, processors = self.workload, self.warmup, self.processors
        per_call = self.per_call_timer
        timed, worked = sum(self.samples) * self.block_calls, processors.worked
        mhz = self.clocks.mhz + (per_call.clocks.mhz if per_call else array("l"))
        alone = self.alone or (per_call.alone if per_call else [])
        return Measurement(
            device=self.device.info,
            samples=array("d", self.samples),
            block_calls=self.block_calls,
            setup=workload.setup,
            first_call=workload.first_call,
            warmup=warmup.elapsed,
            warmup_calls=warmup.calls,
            steady=warmup.steady,
            synchronize_cost=warmup.synchronize_cost,
            block_time=warmup.block_time,
            waited=processors.lost,
            waiting_threads=processors.waiting_threads,
            least_time=processors.least_time,
            processors=worked / timed if worked is not None and timed else None,
            latencies=array("d", per_call.samples if per_call else ()),
            dtypes=workload.dtypes,
            shapes=workload.shapes,
            inspection=self.inspection,
            alone=turns.typical(alone) if alone else None,
            overlap_left=warmup.overlap_left,
            ramp=self.clocks.ramp,
            lowest_sm_mhz=min(mhz, default=None),
            highest_sm_mhz=max(mhz, default=None),
        )

    def restart(self) -> None:
        """Discard the samples and the block length."""
        self.drop_result()
        del self.samples[:]
        self.block_calls = 1
        self.warmup.steady = False
        self.warmup.overlap_left = None
        self.alone.clear()
        self.processors.restart()
        del self.clocks.mhz[:]
        if self.per_call_timer is not None:
            fastest = self.per_call_timer.calls.fastest
            self.calls.fastest_latency = min(self.calls.fastest_latency, fastest)
            self.per_call_timer = None

    def raise_clocks(self) -> None:
        """Work untimed until a GPU that has idled is as fast as in steady work."""
        if self.clocks.gpu is None:
            return
        clock = self.device.clock
        started, started_on_host, worked = clock(), perf_counter(), 0.0
        ramp = self.clocks.gpu.ramp_at(started, self.block_seconds)
        while worked < ramp and perf_counter() - started_on_host < LONGEST_ON_HOST:
            self.drop_result()
            self._run_block(self.block_calls)
            worked = seconds_between(started, clock())
        self.clocks.raised += worked

    @property
    def block_seconds(self) -> float:
        """The seconds of a block, before the first those of the first call; 0 where that is not known."""
        if self.calls.fastest < inf:
            return self.calls.fastest * self.block_calls
        return self.workload.first_call or 0.0

    def take_sample(self) -> None:
        """Time one block and keep its sample; time another block if the library compiled something in it."""
        while True:
            self.raise_clocks()
            self.drop_result()
            self.processors.note_before(is_first=not self.samples)
            sample = self.run_block()
            if not self.calls.compiled:
                break
            self.calls.count_recompiled()
        self.clocks.note_mhz()
        self.processors.add_block(sample * self.block_calls)
        self.calls.note_time(sample)
        self.samples.append(sample)

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
        self.processors.least_time = min(needed, self.processors.least_time or inf)
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
            sample, result, self.calls.compiled = self.time_block(calls)
        self.in_block = False
        self.clocks.note_end()
        if self.keeps_result:
            self.last_result = result
        return sample

    def time_block(self, calls: int) -> "Block":
        """Time a block of so many calls, which is no sample yet; see what the second of all calls holds."""
        is_first_block = self.warmup.calls == 1 and not self.samples
        has_reset = self.workload.restore is not None
        watches = self.workload.live_before is not None and is_first_block and not has_reset
        with self.device.observe() if watches else nullcontext() as seen:
            block = timed_block(
                self.workload, calls, calls_wait=self.calls_wait, empty_wait=self.warmup.synchronize_cost
            )
        self.calls.made += calls
        if is_first_block:
            self.calls.second = block.sample
        if seen is not None:
            self.memory.note_call(seen)
        return block

    def drop_last_sample(self) -> None:
        """Discard the last sample, and what its block added to the sums."""
        del self.samples[-1]
        self.processors.drop_last_block()


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
    time_calls = device.time_calls or partial(timed_calls, device)
    with device.context():
        workload.prepare()
        compiled = device.compilations()
        lasted, result = time_calls(workload.call, calls, calls_wait=calls_wait, empty_wait=empty_wait)
        compiled = device.compilations() - compiled
    return Block(lasted / calls, result, compiled)


def timed_calls(
    device: TimedDevice,
    call: Callable[[], Any],
    calls: int,
    *,
    calls_wait: bool = False,
    empty_wait: float = 0.0,
    meet: Callable[[], None] = lambda: None,
) -> tuple[float, Any]:
    """Return the seconds of so many calls between two waits for the device, and the result of the last one.

    `meet` is called between the first wait and the first call.
    """
    clock, wait = device.clock, device.wait
    call = call if calls_wait else capabilities.submitted(call, device)
    device.synchronize()
    meet()
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
    return lasted, result


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
