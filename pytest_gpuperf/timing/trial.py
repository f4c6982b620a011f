"""From a test's body and its devices to a record: one test is measured, without pytest."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import repeat
from math import inf
from random import Random
from statistics import median
from zlib import crc32

from msgspec import structs

from pytest_gpuperf.analysis import looks, noise, threshold, verdict
from pytest_gpuperf.analysis.looks import Limit, Look
from pytest_gpuperf.analysis.noise import Disturbance
from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.model.demand import Demand, RunOptions, SizeGroup
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import Interference, Speedup, Transfer
from pytest_gpuperf.model.offload import Offload
from pytest_gpuperf.model.record import Note, NoteCode, Record, Verdict
from pytest_gpuperf.timing import inspection, notes, secondary, warm_up
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.cpu_result import CpuResult
from pytest_gpuperf.timing.kept_results import look_for_kept, look_for_kept_in_turn
from pytest_gpuperf.timing.late_look import LateLook
from pytest_gpuperf.timing.process_state import HINT, Change, StateProbe, require_same_types
from pytest_gpuperf.timing.question import Facts, Question
from pytest_gpuperf.timing.rounds import RoundSampler
from pytest_gpuperf.timing.time_budget import AcquireLock, OtherLimit, TimeBudget
from pytest_gpuperf.timing.trial_context import OnRound, TrialContext
from pytest_gpuperf.work import device_work, first_call
from pytest_gpuperf.work.checks import When
from pytest_gpuperf.work.device_work import CpuWork, Sight
from pytest_gpuperf.work.first_call import Bind
from pytest_gpuperf.work.result_check import are_equal
from pytest_gpuperf.work.returned import Returned, are_same, remember
from pytest_gpuperf.work.values import Leaf, Result, incomparable, walked
from pytest_gpuperf.work.workload import Workload

_BUSY = "the machine was busy with other work"
_BEYOND_HARDWARE = 50  # times as fast: beyond what memory and units of a GPU give over those of a CPU
_QUICK = 0.25  # seconds of sampling: what took less may rest on calls that become fast later
_NEXT_TO_NONE = 0.01  # of the time limit: what takes less with a look at its result is called after that, too


class Trial:
    """The measurement of one test; `record` returns at any time what has been measured so far.

    Exceptions of the body and of the devices pass through, and what was measured before them stays.
    A workload that did not do the requested work is a GpuPerfError. At any time at most two results and the
    inputs are held for a device; while transfers are timed, one result and the inputs twice.

    `has_run` is whether the test has run once to its end, with the callable that it returned: what is raised
    later is raised because it is measured.

    `question` is what is asked of the measurement: the speedup of the GPU, unless it is another one.
    `limits` are ranges of speedups that the rounds must lie outside of, as well as the demand's limits.
    `other_limit` is what ends the test besides its own `max_time`.
    """

    def __init__(
        self,
        *,
        nodeid: str,
        demand: Demand,
        options: RunOptions,
        question: Question | None = None,
        size_group: SizeGroup | None = None,
        acquire_lock: AcquireLock | None = None,
        limits: Sequence[Limit] = (),
        on_round: OnRound | None = None,
        other_limit: OtherLimit | None = None,
    ) -> None:
        self.nodeid = nodeid
        self.demand = demand
        self.size_group = size_group
        if demand.max_time is not None:
            plan = structs.replace(options.sampling, slow_time=None)
            options = structs.replace(options, max_time=demand.max_time, sampling=plan)
        self._other_limit = other_limit
        budget = TimeBudget(options.max_time, acquire_lock, other_limit)
        self.options = options if other_limit is None else _within(options, other_limit.max_time)
        self.notes: list[Note] = []
        self.has_run = False
        self._restart_reason: str | None = None
        self._budget = budget
        self._context = TrialContext(
            demand=demand,
            options=self.options,
            order=Random(crc32(nodeid.encode("utf-8", "surrogatepass"))),  # noqa: S311 - an order, not a secret
            remaining=self._budget.remaining,
            extend=self._budget.extend,
            excuse=self._budget.excuse,
            on_round=on_round,
            other_limit=lambda: other_limit if budget.cut_to is not None else None,
            up_on_host=lambda: budget.up_on_host,
        )
        if size_group is not None:
            # The threshold of a size group lies where the speedup crosses 1: each size must be clear of it.
            limits = (*limits, Limit(1.0, 1.0, threshold.side_that_fails(size_group)))
        self._sampler = RoundSampler(self._context, limits)
        self._rounds = self._sampler.rounds
        self._question = question or Question()
        self._checks = self._question.checks(demand)
        self._device: TimedDevice | None = None
        self._cpu: BlockTimer | CpuResult | None = None
        self._gpu: BlockTimer | None = None
        self._loop: BlockTimer | None = None
        self._transfer: Transfer | None = None
        self._offload: Offload | None = None
        self._emulation: Note | None = None
        self._placement: list[Note] = []
        self._change: Change | None = None
        self._late_change: Change | None = None
        self._sight: Sight = "seen"
        self._last_sight: Sight = "seen"
        self._work_of_cpu: CpuWork | None = None

    def compare(self, bind: Bind, cpu: TimedDevice, gpu: TimedDevice) -> Verdict:
        """Time the body on both devices in interleaved rounds."""
        self._cpu, of_cpu = self._first_call(bind, cpu)
        state = StateProbe(timer=self._cpu, max_time=self.options.max_time)
        self._gpu, of_gpu = self._first_call(bind, gpu)
        self._compare(of_cpu, of_gpu, gpu, "before")
        if self._gpu.workload.restore is None:
            of_gpu = []  # they take up room on the host
        with self._budget.lock(), self._checks.outlasting_refusals():
            self._require_work(self._gpu)
            for _ in self._attempts(self._cpu, self._gpu):
                cpu_timer, gpu_timer = self._warmed_up(self._cpu, self._gpu)
                with self._budget.without_limit():  # bodies that run again may compile again
                    self._change = self._change or state.change(bind, gpu)  # a restart asks no second time
                loop = self._demanded_loop(self._gpu)
                warm_up.share_calls(cpu_timer, gpu_timer, *filter(None, [loop]))
                others = self._in_rounds(self._cpu, self._gpu)
                late = self._sampler.late_look(cpu_timer, gpu_timer) if self._asks_later else None
                self._sampler.take_interleaved(
                    cpu_timer, gpu_timer, loop, others=others, late=late, may_stop=self._may_stop
                )
                if self._checks.differ:
                    return self._judge()
                self._require_same(of_cpu, self._last_results(self._cpu), self._cpu)
                self._compare_last_results(of_cpu, of_gpu, self._gpu)
                self._require_last_work(self._gpu)
                if self._checks.differ or self._sampler.too_late_to_restart:
                    break
                is_late = late is not None and self._changed_late(late)
                if self._samples_usable and not is_late:
                    break
            else:
                if is_late:  # and the restart was used
                    self._change = self._change or self._late_change
            del of_cpu, of_gpu  # the transfers need the room
            self._measure_secondary(self._cpu, self._gpu)
            self._gpu.memory.note_left()
        return self._unless_changed(self._judge())

    def compare_with(self, cpu_result: CpuResult, bind: Bind, gpu: TimedDevice) -> Verdict:
        """Time the body on the GPU and compare it with the samples that its CPU variant left."""
        self._cpu = cpu_result
        self._restart_reason = cpu_result.restart_reason
        self._gpu, of_gpu = self._first_call(bind, gpu)
        self._compare(cpu_result.results, of_gpu, gpu, "before")
        with self._budget.lock(), self._checks.outlasting_refusals():
            self._require_work(self._gpu)
            (gpu_timer,) = self._warmed_up(self._gpu)
            loop = self._demanded_loop(self._gpu)
            if self._gpu.workload.restore is not None:  # so many calls after a reset are the CPU's work, too
                gpu_timer.block_calls = cpu_result.measurement.block_calls
            others = self._in_rounds(self._gpu)
            self._sampler.take_against(cpu_result, gpu_timer, loop, others=others)
            self._measure_least_time(self._gpu)
            if self._checks.differ:
                return self._judge()
            self._compare_last_results(cpu_result.results, of_gpu, self._gpu)
            self._require_last_work(self._gpu)
            if self._budget.remaining() >= 0:
                self._measure_secondary(self._gpu)
            self._gpu.memory.note_left()
        return self._judge()

    def time_alone(
        self, bind: Bind, device: TimedDevice, seconds: float, *, in_turn: bool = True
    ) -> CpuResult:
        """Time the body on one device: two blocks, and more within `seconds`.

        What decides nothing need not be `in_turn`: other processes may measure meanwhile.
        """
        timer, results = self._first_call(bind, device)
        if device.kind == "cpu":
            self._cpu = timer
        else:
            self._gpu = timer
        with self._budget.lock() if in_turn else nullcontext():
            for _ in self._attempts(timer):
                (sampled,) = self._warmed_up(timer)
                self._sampler.take_alone(sampled, seconds, others=self._in_rounds(timer))
                self._measure_least_time(timer)
                if self._interference(timer) is None or self._sampler.too_late_to_restart:
                    break
            self._require_same(results, self._last_results(timer), timer)
            if self._question.times_secondary:
                secondary.probe_and_sample([timer], self._context)
        interference = self._interference(timer)
        if (
            reason := noise.describe(self._interference(self._cpu), self._interference(self._gpu))
        ) is not None:
            self.note("interference", reason)
        self.notes += notes.on_rounds(self._rounds)
        return CpuResult(
            measurement=timer.measurement,
            seconds=self._rounds.elapsed or 0.0,
            results=results,
            interference=interference,
            restart_reason=self._restart_reason,
        )

    def work_of_cpu(self) -> CpuWork | None:
        """Return what the CPU's calls do, as the GPU's are held against it; None where nobody looked."""
        if isinstance(self._cpu, CpuResult):
            return self._cpu.work
        if self._cpu is not None and self._work_of_cpu is None:
            self._device = self._cpu.device
            self._work_of_cpu = device_work.of_cpu(self._cpu.workload)
        return self._work_of_cpu

    def describe_copies(self) -> None:
        """Add to the record the bytes that a GPU would copy, where only the CPU was timed."""
        if isinstance(self._cpu, BlockTimer):
            self._transfer = secondary.untimed(self._cpu.workload, "no GPU was measured")

    def record(self, ended: Verdict) -> Record:
        """Return everything that has been measured so far, with how the test ended."""
        timers = self._timers
        record = Record(
            nodeid=self.nodeid,
            status=ended.status,
            reason=ended.reason,
            reason_code=ended.reason_code,
            demand=self.demand,
            scope=timers[-1].workload.scope if timers else None,
            size_group=self.size_group,
            cpu=self._cpu.measurement if self._cpu else None,
            gpu=self._gpu.measurement if self._gpu else None,
            speedup=self._rounds.speedup(),
            check=self._checks.outcome,
            transfer=self._transfer,
            offload=self._offload,
            memory=self._gpu.memory.needed if self._gpu else None,
            dropped_rounds=self._rounds.dropped,
            check_elapsed=self._checks.elapsed,
            rounds_elapsed=self._rounds.seconds,
            elapsed=self._budget.elapsed,
            turn_wait=self._budget.waited or None,
            interference=self._interference(self._cpu),
            gpu_interference=self._interference(self._gpu),
            restart_reason=self._restart_reason,
            notes=(
                *self.notes,
                *self._placement,
                *self._on_other_limit(ended),
                *(Note(code="not_exclusive", text=text) for text in self._budget.warnings),
            ),
        )
        return self._question.finish(record)

    @property
    def device(self) -> TimedDevice | None:
        """The device that is at work, or was the last."""
        return next((timer.device for timer in self._timers if timer.is_running), self._device)

    @property
    def where(self) -> str:
        """The place of an error: `on the GPU (NAME) in round 17`; no round before the first."""
        if self.device is None:
            return "before any device was used"
        in_round = f" in round {self._rounds.begun}" if self._rounds.begun else ""
        return f"on the {self.device.info.noun} ({self.device.info.name}){in_round}"

    @property
    def other_library(self) -> str | None:
        """The library, of torch and JAX, that made arrays of the first result; None for the device's own."""
        return self._timers[0].workload.other_library

    @property
    def hint(self) -> str | None:
        """What may explain an exception in the first call since the other device's body has run."""
        cpu = self._cpu
        if not isinstance(cpu, BlockTimer) or self._gpu is None or self.device is not cpu.device:
            return None
        return HINT if cpu.workload.scope == "call" and cpu.warmup.calls == 1 else None

    @property
    def ended_by_other_limit(self) -> str | None:
        """What explains that somebody else's time limit ended the test before its first round, if one did."""
        other = self._other_limit
        return notes.ended_early(other) if other and other.left() <= 0 and not self._rounds.begun else None

    def _on_other_limit(self, ended: Verdict) -> Iterator[Note]:
        """Yield a note where somebody else's time limit has shortened a measurement that needed its time."""
        other = self._other_limit
        if other is None or not self._rounds.rounds or ended.status == "error":
            return
        max_time = self._budget.cut_to
        if max_time is None:
            return
        rest = (1 - looks.SAMPLING_SHARE) * self.options.max_time
        if ended.reason_code == "not_enough_time" or self._budget.remaining() < rest:
            yield notes.on_other_limit(other, max_time)

    def note(self, code: NoteCode, text: str) -> None:
        """Add a note to the record."""
        self.notes.append(Note(code=code, text=text))

    def discard_estimate(self) -> None:
        """Discard the estimate but keep the samples: they did not measure the requested work."""
        self._rounds.restart()
        self._offload = None

    def release(self) -> None:
        """Drop every reference that may keep arrays of the devices alive."""
        self._cpu = self._gpu = self._loop = None

    @property
    def _timers(self) -> list[BlockTimer]:
        """The timers of the devices that this test measures: of the CPU first."""
        return [side for side in (self._cpu, self._gpu) if isinstance(side, BlockTimer)]

    def _interference(self, side: BlockTimer | CpuResult | None) -> Interference | None:
        """Return what disturbed the samples of a device that count for the demand."""
        counting = self._sampled(side) if isinstance(side, BlockTimer) else side
        return counting.interference if counting else None

    @property
    def _disturbance(self) -> Disturbance | None:
        """What is certain of the speedup, if the samples of either device are not those of quiet loops."""
        cpu, gpu = self._interference(self._cpu), self._interference(self._gpu)
        noun = self._gpu.device.info.noun if self._gpu else "GPU"
        return self._rounds.sampled.in_spite_of(cpu, gpu, noun)

    @property
    def _samples_usable(self) -> bool:
        """Whether the samples need not be taken again: without interference, or conclusive in spite of it."""
        disturbance = self._disturbance
        return not self._is_busy or disturbance is None or self._decides(disturbance.speedup)

    @property
    def _is_busy(self) -> bool:
        """Whether other work disturbed the samples of either device."""
        return bool(self._interference(self._cpu) or self._interference(self._gpu))

    def _may_stop(self) -> bool:
        """Return whether the verdict stands in spite of a disturbance, or more rounds are no use."""
        for timer in self._timers:
            self._measure_least_time(timer)
        disturbance = self._disturbance
        if disturbance is None or self._decides(disturbance.speedup):
            return True
        medians = structs.replace(disturbance.speedup, low=disturbance.least, high=disturbance.most)
        return not self._decides(medians, looks.EXACT)  # a later look would not decide either

    def _decides(self, changed: Speedup, look: Look | None = None) -> bool:
        """Return whether there is a verdict, which stands where the speedup may be another one."""
        speedup = self._rounds.speedup()
        return bool(speedup and self.demand.limits and self._stands(speedup, changed, look))

    def _stands(self, speedup: Speedup, changed: Speedup, look: Look | None = None) -> bool:
        return verdict.stands(speedup, changed, self.demand, look or self._rounds.sampled.look)

    @property
    def _asks_later(self) -> bool:
        """Whether it is asked if later calls take another time: once in a test."""
        return self.options.sampling.may_restart and self._late_change is None

    def _changed_late(self, late: LateLook) -> bool:
        """Return whether quick numbers rest on times that later calls do not take.

        On a busy machine every block may take another time. Times that are only unstable may have changed so.
        """
        is_quick = self._rounds.rounds and (self._rounds.elapsed or 0.0) < _QUICK
        found_other_work = (self._interference(timer) for timer in self._timers)
        is_busy = any(found and found.kind == "cpu_contention" for found in found_other_work)
        if not is_quick or is_busy or (found := late.changed()) is None:
            return False
        self._device = found.timer.device
        self._late_change = notes.late_change(found)
        return True

    def _attempts(self, *timers: BlockTimer) -> Iterator[None]:
        """Yield once, and again after a restart, which discards what was sampled before it."""
        yield
        if self.options.sampling.may_restart:
            self._restart(*timers)
            yield

    def _first_call(self, bind: Bind, device: TimedDevice) -> tuple[BlockTimer, list[list[Leaf]]]:
        """Make the first call; return a timer of the workload and its first result, copied to the host.

        Of a workload with a reset they are the results of the first two calls: of a training step only the
        second shows what the first one has changed.
        """
        self._device = device
        self._budget.start(device.clock)
        with device.context():
            left = self._budget.remaining()
            workload, result = first_call.first_call(bind, device, self._budget.without_limit, self._end_run)
            self._checks.looking += left - self._budget.remaining()
            secondary.require_separable(self.demand, workload)
            values = [self._checks.copy_to_host(result, device, workload.used_dtypes)]
            holds = capabilities.holds(device)
            if any(holds(leaf.value) for leaf in incomparable(values[0])):
                workload = replace(workload, has_host_form=False)
            if workload.restore is not None:
                values.append(self._checks.copy_to_host(workload.call(), device, workload.used_dtypes))
        if device.kind == "gpu":
            self._checks.runs_products = self._runs_products
            self._checks.require_device_work(workload)
            self._emulation = notes.on_emulation(workload, result.values)
        works_here = device_work.is_seen_at_first(workload)
        self._placement += filter(None, [notes.on_placement(workload, result.values, works_here=works_here)])
        timer = BlockTimer(workload=workload)
        self._add_note(self._question.after_first_call(timer, device))
        return timer, values

    def _end_run(self) -> None:
        self.has_run = True

    def _require_work(self, gpu: BlockTimer) -> None:
        """Refuse a GPU's call that does nothing where the CPU's works."""
        are_compared = self._checks.compared_arrays
        with self._budget.without_limit():  # the first look of a process imports for a second
            self._sight = device_work.require_work(gpu.workload, self.work_of_cpu, are_compared=are_compared)

    def _require_last_work(self, gpu: BlockTimer) -> None:
        """Refuse a GPU's call that works no more, where its first one did; a reset may make it work again."""
        if self._sight == "seen" and gpu.workload.restore is None:
            seconds, shows = median(gpu.samples or [inf]), gpu.calls.shows_at_last
            self._last_sight = device_work.require_last_work(
                gpu.workload, self.work_of_cpu, seconds=seconds, shows=shows
            )

    def _runs_products(self) -> bool | None:
        """Return whether the GPU's workload multiplies or convolves, which one more call may show."""
        if self._gpu is None:
            return None
        workload = self._gpu.workload
        with workload.device.context():
            return capabilities.seen_of(workload.device.runs_products, workload.call, workload.prepare)

    def _sampled(self, timer: BlockTimer) -> BlockTimer:
        """Return the timer of the mode that the demand is on: of blocks, or of single calls."""
        # Not `per_call`: without latencies so far, a record must not take any.
        return timer.per_call_timer or timer if self.demand.latency else timer

    def _warmed_up(self, *timers: BlockTimer) -> list[BlockTimer]:
        """Warm up while there is time; return the timers of the mode that the demand is on."""
        for timer in timers:
            self._warm_up(timer)
        warm_up.share_calls(*timers)
        sampled = list(timers)
        for place, timer in enumerate(timers):
            self._device = timer.device
            if self.demand.latency and timer.warmup.elapsed:
                sampled[place] = warm_up.per_call(timer, self.options)
        warm_up.share_calls(*sampled)
        return sampled

    def _warm_up(self, timer: BlockTimer) -> None:
        self._device = timer.device
        timer.keeps_result = True
        if timer.device.kind == "gpu":
            for note in notes.on_gpu(timer.device):
                self._add_note(note)
        if self._budget.remaining() < 0:
            return
        warm_up.warm_up(timer, self.options)
        with self._budget.without_limit():  # it is done for all tests of the process
            warm_up.find_ramp(timer, self.options)
        warm_up.fill_pipeline(timer, self.options, self._budget.remaining())

    def _last_results(self, timer: BlockTimer) -> list[list[Leaf]]:
        """Return the results of the last call in a block and, while there is time, of one more call.

        What only timed calls leave out shows in the first, what only every second call does in one of them.
        Of a workload with a reset they are those of the first two calls after it.
        """
        self._device = timer.device
        with timer.device.context():
            return self._checked_last_results(timer)

    def _checked_last_results(self, timer: BlockTimer) -> list[list[Leaf]]:
        """Return the last results; refuse a workload that changed its inputs or kept a result."""
        sampled, workload = self._sampled(timer), timer.workload
        used, holds = workload.used_dtypes, capabilities.holds(timer.device)
        results = []
        returned = workload.returned
        if sampled.samples:
            result = walked(sampled.last_result, holds)
            require_same_types(workload, result.values)
            if workload.restore is None:
                results.append(self._checks.copy_to_host(result, timer.device, used))
                now = remember(result.values, timer.device, keep=True)
                self._look_for_kept_result(timer, result, returned, now)
                returned = now
                del now
            del result
        sampled.drop_result()
        timer.keeps_result = sampled.keeps_result = False
        has_time = partial(self._has_time, sampled)
        after_reset = workload.after_reset()
        if has_time():
            result = inspection.inspected_call(timer)
            self._add_note(notes.on_first_call(timer))
            if after_reset is not None:
                with timer.memory.settling():  # what was returned before was not kept
                    pass
            results.append(self._checks.copy_to_host(result, timer.device, used))
            if after_reset is not None:
                after_reset.look(is_first=True)
            if after_reset is not None and has_time():
                returned = remember(result.values, timer.device, keep=True)
                del result
                result = walked(workload.call(), holds)
                results.append(self._checks.copy_to_host(result, timer.device, used))
                after_reset.look(is_first=False)
            # Of a call that wrote its state again the buffer is the same, and the result is another one.
            if after_reset is None or (len(results) > 1 and are_equal(*results)):
                now = remember(result.values, timer.device, keep=True)
                self._look_for_kept_result(timer, result, returned, now)
                del now
            del result
        with timer.memory.settling():
            del returned
        self.notes += self._checks.require_same_inputs(workload, after_reset, has_time)
        if workload.restore is None:
            is_busy = self._interference(timer) is not None
            look_for_kept_in_turn(workload, sampled.samples, has_time, is_busy=is_busy)
        return results

    def _look_for_kept_result(
        self, timer: BlockTimer, result: Result, before: Returned, now: Returned
    ) -> None:
        """Note where a call may not have made its result."""
        sampled = self._sampled(timer)
        if samples := sampled.samples:
            is_same = are_same(before, now)
            is_busy = self._interference(timer) is not None
            note = look_for_kept(timer.workload, result, samples, is_same=is_same, is_busy=is_busy)
            self._add_note(note)

    def _has_time(self, sampled: BlockTimer) -> bool:
        """Return whether one more call may be made and looked at: in time, or too short to matter."""
        seconds = median(sampled.samples or [inf]) + self._checks.longest_look
        return self._budget.remaining() >= 0 or seconds < _NEXT_TO_NONE * self.options.max_time

    def _add_note(self, note: Note | None) -> None:
        if note is not None and note not in self.notes:
            self.notes.append(note)

    def _require_same(self, first: list[list[Leaf]], last: list[list[Leaf]], timer: BlockTimer) -> None:
        """Refuse results of a device that change from call to call, or after each reset."""
        has_reset = timer.workload.restore is not None
        for before, now in zip(first if has_reset else repeat(first[0]), last, strict=False):
            self._checks.require_same_result(before, now, timer.workload)

    def _compare_last_results(
        self, of_cpu: list[list[Leaf]], of_gpu: list[list[Leaf]], gpu: BlockTimer
    ) -> None:
        last = self._last_results(gpu)
        if gpu.workload.restore is not None:
            self._require_same(of_gpu, last, gpu)
        self._compare(of_cpu, last, gpu.device, "after")

    def _compare(self, cpu: list[list[Leaf]], gpu: list[list[Leaf]], device: TimedDevice, when: When) -> None:
        """Compare results after as many calls since a reset; without one, each with the CPU's first."""
        for on_cpu, on_gpu in zip(cpu if len(cpu) > 1 else repeat(cpu[0]), gpu, strict=False):
            self._checks.compare(on_cpu, on_gpu, device, when)
        if when == "before" and self._checks.differ and isinstance(self._cpu, BlockTimer):
            self._require_steady(cpu[0], self._cpu.workload)

    def _require_steady(self, first: list[Leaf], workload: Workload) -> None:
        """Refuse a call that gives another result when it is made again: then the devices' differ for that.

        Not a whole body, which may draw other inputs each time.
        """
        if workload.scope == "call" and workload.restore is None and self._budget.remaining() >= 0:
            with workload.device.context():
                again = walked(workload.call(), capabilities.holds(workload.device))
                last = self._checks.copy_to_host(again, workload.device, workload.used_dtypes)
            self._checks.require_same_result(first, last, workload)

    def _measure_least_time(self, timer: BlockTimer) -> None:
        """Measure once what a call needs in any case, if other work disturbed the samples."""
        self._device = timer.device
        sampled = self._sampled(timer)
        if timer.processors.least_time is None:
            sampled.measure_least_time(self._budget.remaining())
            timer.processors.least_time = sampled.processors.least_time
        sampled.processors.least_time = timer.processors.least_time

    def _restart(self, *timers: BlockTimer) -> None:
        """Discard the samples: the machine was busy, or later calls took another time."""
        self.notes = []
        self._restart_reason = _BUSY if self._late_change is None else self._late_change.text
        self._rounds.restart()
        self._loop = None
        for timer in timers:
            timer.restart()

    def _demanded_loop(self, gpu: BlockTimer) -> BlockTimer | None:
        """Return the timer of calls with their transfers, for each round, if limit or check rests on it."""
        is_asked = self.demand.transfer != "never" or self.options.sampling.in_rounds
        if is_asked and self._budget.remaining() >= 0:
            self._loop = secondary.loop_timer(gpu.workload, self.options, self._sampled(gpu))
        return self._loop

    def _in_rounds(self, *timers: BlockTimer) -> list[BlockTimer]:
        """Return the timers of the mode that the demand is not on, where a check rests on it."""
        is_asked = self._question.times_secondary and self.options.sampling.in_rounds
        return secondary.other_modes(timers, self._context) if is_asked else []

    def _measure_secondary(self, *timers: BlockTimer) -> None:
        """Measure what the verdict does not rest on; only a copy that fails becomes a note."""
        if not self._question.times_secondary:
            return
        gpu = timers[-1]
        try:
            secondary.probe_and_sample(timers, self._context)
            rounds = len(self._rounds.rounds)
            self._transfer = secondary.time_transfers(gpu, rounds, self._context, self._loop)
        except secondary.CopyFailed as failed:
            self._budget.remaining()  # raises for a clock that went back
            self.note("aside_failed", f"timing the copies failed: {failed}")

    def _unless_changed(self, ended: Verdict) -> Verdict:
        """Return the verdict: inconclusive where it rests on which of a device's two times is right."""
        change, speedup, cpu = self._change, self._rounds.speedup(), self._cpu
        if change is None or speedup is None or (isinstance(cpu, BlockTimer) and change.is_over(cpu)):
            return ended
        self.note("work_in_doubt", change.text)
        least, most = min(1.0, 1 / change.factor), max(1.0, 1 / change.factor)
        found = speedup.estimate
        changed = structs.replace(speedup, low=least * found.lower, high=most * found.upper)
        if ended.reason_code == "devices_disagree" or self._stands(speedup, changed):
            return ended
        return Verdict(status="inconclusive", reason=f"speedup {verdict.ratio(speedup)}: {change.text}")

    def _judge(self) -> Verdict:
        """Return the answer to the question, with the offload verdict and notes added to the record."""
        cpu, gpu = self._cpu, self._gpu
        if cpu is None or gpu is None:
            raise GpuPerfError("one of the two devices was not measured")
        facts = Facts(
            context=self._context,
            cpu=cpu,
            gpu=gpu,
            loop=self._loop,
            rounds=self._rounds,
            checks=self._checks,
            speedup=self._rounds.speedup(),
            disturbance=self._disturbance,
            transfer=self._transfer,
            emulation=self._emulation,
        )
        answer = self._question.judge(facts)
        ended = self._unless_unseen(answer.verdict, facts.speedup)
        self._offload = answer.offload
        self._transfer = answer.transfer or self._transfer
        said = ended.reason if ended.reason_code == "work_not_seen" else None  # once is enough
        self.notes += [note for note in answer.notes if note.text not in (said or "")]
        return ended

    def _unless_unseen(self, ended: Verdict, speedup: Speedup | None) -> Verdict:
        """Return the verdict: inconclusive where it would pass and nobody knows that the GPU did anything."""
        is_beyond = speedup is not None and speedup.value > _BEYOND_HARDWARE
        if speedup is None or self._gpu is None or ended.status not in ("passed", "recorded"):
            return ended
        noun = self._gpu.device.info.noun
        at_last = None if self._checks.compared_arrays else device_work.doubt(self._last_sight, noun)
        doubt = device_work.doubt(self._sight, noun) or (at_last if is_beyond else None)
        if doubt is None and ended.status == "passed":  # else it is a note, as in each case
            sampled = self._rounds.sampled
            doubt = notes.no_work(sampled.cpu, sampled.gpu, noun)
        if ended.status == "recorded" or doubt is None:
            if (text := doubt or at_last) is not None:
                self.note("work_in_doubt", text)
            return ended
        reason = f"speedup {verdict.ratio(speedup)}: {doubt}"
        return Verdict(status="inconclusive", reason=reason, reason_code="work_not_seen")


def _within(options: RunOptions, max_time: float) -> RunOptions:
    """Return options with which no test is measured for longer."""
    plan = options.sampling
    slow_time = None if plan.slow_time is None else min(plan.slow_time, max_time)
    plan = structs.replace(plan, slow_time=slow_time)
    return structs.replace(options, max_time=min(options.max_time, max_time), sampling=plan)
