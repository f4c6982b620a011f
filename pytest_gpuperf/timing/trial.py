"""From a test's body and its devices to a record: one test is measured, without pytest."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from statistics import median
from typing import Any
from zlib import crc32

from pytest_gpuperf.analysis import estimation, judgement, noise, offload, threshold, verdict
from pytest_gpuperf.analysis.looks import Limit
from pytest_gpuperf.analysis.noise import Disturbance
from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.model.demand import Demand, Family, RunOptions
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import Interference, Speedup, Transfer
from pytest_gpuperf.model.offload import Offload
from pytest_gpuperf.model.plain_text import first_line
from pytest_gpuperf.model.record import Note, NoteCode, Record, Verdict
from pytest_gpuperf.timing import outcome, secondary, transfers, untimed_calls
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.checks import CpuResult, ResultChecks
from pytest_gpuperf.timing.clock import ClockError
from pytest_gpuperf.timing.context import OnRound, TrialContext
from pytest_gpuperf.timing.kept_results import Returned, are_same, look_for_kept, remember
from pytest_gpuperf.timing.leaves import Leaf
from pytest_gpuperf.timing.rounds import RoundSampler
from pytest_gpuperf.timing.time_budget import AcquireLock, TimeBudget
from pytest_gpuperf.timing.untimed_calls import Bind

_BUSY = Note(code="restarted", text="restarted the measurement: the machine was busy with other work")
_NOT_WARM = Note(
    code="restarted",
    text="restarted the measurement: after it, calls took another time; pass warmup=N where a call becomes "
    "fast after more calls than that",
)
_OVERLAP = Note(
    code="overlap_not_measured",
    text="overlap not fully measured: calls are so long that host and device may overlap more in a loop than "
    "in the blocks that were timed",
)
_UNSETTLED = (
    "the GPU still became faster when its clocks were measured, or there was no time to let them rise, so it "
    "may be faster than it was seen to be; allow more time with max_time"
)
_NEXT_TO_NONE = 0.01  # of the time limit: so short a call is made, to look at its result, after that, too


class Trial:
    """The measurement of one test; `record` returns at any time what has been measured so far.

    Exceptions of the body and of the devices pass through, and what was measured before them stays.
    A workload that did not do the requested work is a GpuPerfError. At any time at most two results and the
    inputs are held for a device; while transfers are timed, one result and the inputs twice.

    `limits` are ranges of speedups that the rounds must lie outside of as well before sampling stops.
    """

    def __init__(
        self,
        *,
        nodeid: str,
        demand: Demand,
        options: RunOptions,
        family: Family | None = None,
        acquire_lock: AcquireLock | None = None,
        limits: Sequence[Limit] = (),
        on_round: OnRound | None = None,
    ) -> None:
        self.nodeid = nodeid
        self.demand = demand
        self.family = family
        self.options = replace(options, max_time=demand.max_time or options.max_time)
        self.notes: list[Note] = []
        self._budget = TimeBudget(self.options.max_time, acquire_lock)
        self._context = TrialContext(
            demand=demand,
            options=self.options,
            order=Random(crc32(nodeid.encode("utf-8", "surrogatepass"))),  # noqa: S311 - an order, not a secret
            remaining=self._budget.remaining,
            on_round=on_round,
        )
        if family is not None:
            # The threshold of a sweep lies where the speedup crosses 1: each size must be clear of it.
            fails = threshold.side_that_fails(family, is_compared=self.options.sampling.compared)
            limits = (*limits, Limit(1.0, 1.0, fails))
        if options.cost_ratio is not None:
            limits = (*limits, Limit(options.cost_ratio, options.cost_ratio, "either"))
        self._rounds = RoundSampler(self._context, limits)
        self._checks = ResultChecks(demand)
        self._device: TimedDevice | None = None
        self._cpu: BlockTimer | CpuResult | None = None
        self._gpu: BlockTimer | None = None
        self._loop: BlockTimer | None = None
        self._transfer: Transfer | None = None
        self._offload: Offload | None = None

    def compare(self, bind: Bind, cpu: TimedDevice, gpu: TimedDevice) -> Verdict:
        """Time the body on both devices in interleaved rounds."""
        self._cpu, first_result = self._first_call(bind, cpu)
        self._gpu, gpu_result = self._first_call(bind, gpu)
        self._checks.compare(first_result, gpu_result, gpu, "before")
        del gpu_result
        with self._budget.lock(), self._checks.outlasting_refusals():
            while True:
                cpu_timer, gpu_timer = self._warmed_up(self._cpu), self._warmed_up(self._gpu)
                loop = self._demanded_loop(self._gpu)
                beside = self._beside(self._cpu, self._gpu)
                self._rounds.take_interleaved(
                    cpu_timer, gpu_timer, loop, beside=beside, may_stop=self._may_stop
                )
                if self._checks.differ:
                    return self._judge()
                self._require_same_results(first_result, self._cpu)
                self._compare_last_results(first_result, self._gpu)
                cause = None if self._checks.differ else self._cause_to_restart(cpu_timer, gpu_timer)
                if cause is None:
                    break
                self._restart(cause, self._cpu, self._gpu)
            del first_result  # the transfers need the room
            self._measure_secondary(self._cpu, self._gpu)
        return self._judge()

    def compare_with(self, cpu_result: CpuResult, bind: Bind, gpu: TimedDevice) -> Verdict:
        """Time the body on the GPU and compare it with the samples that its CPU sibling left."""
        self._cpu = cpu_result
        if cpu_result.restarted:
            self.notes.append(_BUSY)
        self._gpu, gpu_result = self._first_call(bind, gpu)
        self._checks.compare(cpu_result.result, gpu_result, gpu, "before")
        del gpu_result
        with self._budget.lock(), self._checks.outlasting_refusals():
            gpu_timer = self._warmed_up(self._gpu)
            loop = self._demanded_loop(self._gpu)
            self._rounds.take_against(cpu_result, gpu_timer, loop, beside=self._beside(self._gpu))
            self._measure_least_time(self._gpu)
            if self._checks.differ:
                return self._judge()
            self._compare_last_results(cpu_result.result, self._gpu)
            if self._budget.remaining() >= 0:
                self._measure_secondary(self._gpu)
        return self._judge()

    def time_cpu(self, bind: Bind, cpu: TimedDevice, seconds: float) -> CpuResult:
        """Time the body on the CPU alone: two blocks, and more within `seconds`."""
        self._cpu, first_result = self._first_call(bind, cpu)
        with self._budget.lock():
            while True:
                timer = self._warmed_up(self._cpu)
                self._rounds.take_alone(timer, seconds, beside=self._beside(self._cpu))
                self._measure_least_time(self._cpu)
                is_busy = self._interference(self._cpu) is not None
                if not is_busy or not self._may_restart or self._budget.remaining() < 0:
                    break
                self._restart(_BUSY, self._cpu)
            self._require_same_results(first_result, self._cpu)
            secondary.sample_other_mode([self._cpu], self._context)
        interference = self._interference(self._cpu)
        if (reason := noise.describe(interference)) is not None:
            self.note("interference", reason)
        return CpuResult(
            measurement=self._cpu.measurement,
            samples=timer.samples,
            look=self._rounds.look,
            own_share=timer.own_share,
            result=first_result,
            interference=interference,
            restarted=self._is_restarted,
        )

    def time_gpu(self, bind: Bind, gpu: TimedDevice, seconds: float) -> None:
        """Time the body on the GPU alone: two blocks, and more within `seconds`."""
        self._gpu, first_result = self._first_call(bind, gpu)
        with self._budget.lock():
            timer = self._warmed_up(self._gpu)
            self._rounds.take_alone(timer, seconds, beside=self._beside(self._gpu))
            self._measure_least_time(self._gpu)
            self._require_same_results(first_result, self._gpu)
            secondary.probe_and_sample([self._gpu], self._context)

    def assess_cpu_only(self, cpu_result: CpuResult) -> None:
        """Assess from the CPU's times alone what a GPU would have to reach."""
        if isinstance(self._cpu, BlockTimer):
            self._transfer = transfers.untimed(self._cpu.workload, "no GPU was measured")
            self._offload = offload.assess_cpu_only(
                cpu_result.measurement,
                self.demand,
                self._transfer,
                self.options,
                disturbed=cpu_result.interference is not None,
            )

    def record(self, ended: Verdict) -> Record:
        """Return everything that has been measured so far, with how the test ended."""
        timers = self._timers
        return Record(
            nodeid=self.nodeid,
            status=ended.status,
            reason=ended.reason,
            reason_code=ended.reason_code,
            demand=replace(self.demand, alpha=self.options.alpha),
            scope=timers[-1].workload.scope if timers else None,
            family=self.family,
            cpu=self._cpu.measurement if self._cpu else None,
            gpu=self._gpu.measurement if self._gpu else None,
            speedup=self._speedup,
            parity=self._checks.parity,
            transfer=self._transfer,
            offload=self._offload,
            memory=outcome.memory_of(self._gpu) if self._gpu else None,
            dropped_rounds=self._rounds.dropped,
            parity_elapsed=self._checks.elapsed,
            rounds_elapsed=self._rounds.elapsed,
            certain_factor=self._rounds.certain_factor,
            elapsed=self._budget.elapsed,
            turn_wait=self._budget.waited or None,
            interference=self._interference(self._cpu),
            gpu_interference=self._interference(self._gpu),
            notes=(*self.notes, *(Note(code="not_exclusive", text=text) for text in self._budget.warnings)),
        )

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
        return f"on the {self.device.kind.upper()} ({self.device.info.name}){in_round}"

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

    @property
    def _speedup(self) -> Speedup | None:
        return self._rounds.speedup

    def _interference(self, side: BlockTimer | CpuResult | None) -> Interference | None:
        """Return what disturbed the samples of a device that count for the demand."""
        counting = self._sampled(side) if isinstance(side, BlockTimer) else side
        return counting.interference if counting else None

    @property
    def _disturbance(self) -> Disturbance | None:
        """What is certain of the speedup, if the samples of either device were disturbed."""
        rounds = self._rounds
        return estimation.undisturbed(
            rounds.evidence,
            rounds.look,
            decided=rounds.is_decided,
            reference=self._interference(self._cpu),
            candidate=self._interference(self._gpu),
        )

    def _may_stop(self) -> bool:
        """Return whether the verdict stands in spite of a disturbance, or more rounds are no use."""
        for timer in self._timers:
            self._measure_least_time(timer)
        disturbance = self._disturbance
        if disturbance is None or self._stands(disturbance):
            return True
        low, high = disturbance.medians
        return any(low <= limit <= high for limit in self.demand.limits) or not self.demand.limits

    def _stands(self, disturbance: Disturbance) -> bool:
        """Return whether there is a verdict, and what is certain of the speedup leaves it as it is."""
        speedup = self._speedup
        decided = verdict.decision(speedup, self.demand) if speedup and self.demand.limits else None
        return decided is not None and decided == verdict.decision(disturbance.certain, self.demand)

    @property
    def _is_restarted(self) -> bool:
        return any(note.code == "restarted" for note in self.notes)

    @property
    def _may_restart(self) -> bool:
        """Whether there was no restart yet: a second one would double the chance of a wrong verdict again."""
        return self.options.sampling.may_restart and not self._is_restarted

    def _cause_to_restart(self, cpu: BlockTimer, gpu: BlockTimer) -> Note | None:
        """Return why the samples are taken again; None where they are of use, or there is no time."""
        if not self._may_restart or self._rounds.too_late_to_restart:
            return None
        disturbance = self._disturbance
        if disturbance is not None and not self._stands(disturbance):
            return _BUSY
        # A short measurement may have ended before a compiler or an allocator was done.
        late = [timer.is_as_before() for timer in self._rounds.maybe_cold(cpu, gpu)]
        return None if all(late) else _NOT_WARM

    def _beside(self, *timers: BlockTimer) -> list[BlockTimer]:
        """Return what else takes a sample in each round, where a check rests on it."""
        if not self.options.sampling.latency_in_rounds:
            return []
        return [other for other in secondary.other_modes(timers, self._context) if not other.samples]

    def _first_call(self, bind: Bind, device: TimedDevice) -> tuple[BlockTimer, list[Leaf]]:
        """Make the first call; return a timer of the workload and its first result, copied to the host."""
        self._device = device
        self._budget.start(device.clock)
        with capabilities.context(device):
            workload, result = untimed_calls.first_call(bind, device)
            transfers.require_separable(self.demand, workload)
            workload = replace(workload, returned=remember(result, device))
            values = self._checks.copy_to_host(result, device, workload.used_dtypes)
        if device.kind == "gpu":
            self._checks.require_device_work(workload)
        return BlockTimer(workload=workload), values

    def _sampled(self, timer: BlockTimer) -> BlockTimer:
        """Return the timer of the mode that the demand is on: of blocks, or of single calls."""
        # Not `per_call`: without latencies so far, a record must not take any.
        return timer.per_call_timer or timer if self.demand.latency else timer

    def _warmed_up(self, timer: BlockTimer) -> BlockTimer:
        """Warm up; return the timer of the mode that the demand is on."""
        self._device = timer.device
        timer.keeps_result = True
        if timer.device.kind == "gpu":
            for note in outcome.notes_on_gpu(timer.device):
                self._add_note(note)
        if self.demand.warmup and timer.warmup_calls == 1:
            timer.warm_up_for(self.demand.warmup, self.options)
        timer.warm_up(self.options)
        if timer.needs_ramp:
            timer.find_ramp(self._budget)
            timer.warm_up(self.options)
        timer.afford_ramp(self._rounds.seconds)
        if timer.is_unsettled:
            self._add_note(Note(code="clocks_not_settled", text=_UNSETTLED))
        if not timer.overlap_measured:
            self._add_note(_OVERLAP)
        return timer.per_call(self.options) if self.demand.latency else timer

    def _last_results(self, timer: BlockTimer) -> list[list[Leaf]]:
        """Return the results of the last call in a block and, while there is time, of one more call.

        What only timed calls leave out shows in the first, what only every second call does in one of them.
        """
        self._device = timer.device
        with capabilities.context(timer.device):
            return self._checked_last_results(timer)

    def _checked_last_results(self, timer: BlockTimer) -> list[list[Leaf]]:
        """Return the last results; refuse a workload that changed its inputs or kept a result."""
        sampled, workload = self._sampled(timer), timer.workload
        used = workload.used_dtypes
        results = []
        returned = workload.returned
        if sampled.samples:
            results.append(self._checks.copy_to_host(sampled.last_result, timer.device, used))
            self._look_for_kept_result(timer, sampled.last_result, returned)
            returned = remember(sampled.last_result, timer.device, keep=True)
        sampled.drop_result()
        timer.keeps_result = sampled.keeps_result = False
        if self._budget.remaining() >= 0 or not results or self._takes_next_to_none(sampled):
            result = untimed_calls.inspected_call(timer)
            results.append(self._checks.copy_to_host(result, timer.device, used))
            self._look_for_kept_result(timer, result, returned)
            del result
        del returned
        self.notes += self._checks.require_same_inputs(workload)
        self._add_note(self._checks.note_on_state(workload))
        return results

    def _look_for_kept_result(self, timer: BlockTimer, result: Any, before: Returned) -> None:
        """Note where a call may not have made its result."""
        sampled = self._sampled(timer)
        if samples := sampled.samples:
            is_same = are_same(before, remember(result, timer.device, keep=True))
            note = look_for_kept(timer.workload, result, samples, is_same=is_same)
            self._add_note(note)

    def _takes_next_to_none(self, sampled: BlockTimer) -> bool:
        """Return whether one more call is so short that it may be made though the time is up."""
        return bool(sampled.samples) and median(sampled.samples) < _NEXT_TO_NONE * self.options.max_time

    def _add_note(self, note: Note | None) -> None:
        if note is not None and note not in self.notes:
            self.notes.append(note)

    def _require_same_results(self, first: list[Leaf], timer: BlockTimer) -> None:
        for result in self._last_results(timer):
            self._checks.require_same_result(first, result)

    def _compare_last_results(self, cpu: list[Leaf], gpu: BlockTimer) -> None:
        for result in self._last_results(gpu):
            self._checks.compare(cpu, result, gpu.device, "after")

    def _measure_least_time(self, timer: BlockTimer) -> None:
        """Measure once what a call needs in any case, if other work disturbed the samples."""
        self._device = timer.device
        sampled = self._sampled(timer)
        if timer.least_time is None:
            sampled.measure_least_time(self._budget.remaining())
            timer.least_time = sampled.least_time
        sampled.least_time = timer.least_time

    def _restart(self, cause: Note, *timers: BlockTimer) -> None:
        """Discard the samples that were taken while the machine was busy, or before the calls were warm."""
        self.notes = [cause]
        self._rounds.restart()
        self._loop = None
        for timer in timers:
            timer.restart()

    def _demanded_loop(self, gpu: BlockTimer) -> BlockTimer | None:
        """Return the timer of calls with their transfers if a limit includes them: it is in each round."""
        if self.demand.transfer != "never" or self.options.sampling.copies_in_rounds:
            self._loop = transfers.loop_timer(gpu.workload, self.options, self._sampled(gpu))
        return self._loop

    def _measure_secondary(self, *timers: BlockTimer) -> None:
        """Measure what the verdict does not rest on; a failure is a note, unless device or clock was lost."""
        gpu = timers[-1]
        try:
            secondary.probe_and_sample(timers, self._context)
            rounds = len(self._rounds.rounds)
            self._transfer = secondary.time_transfers(gpu, rounds, self._context, self._loop)
        except ClockError:
            raise
        except Exception as error:
            if (fault := capabilities.fault(gpu.device, error)) is not None and fault.kind == "lost":
                raise
            self._budget.remaining()  # raises for a clock that went back
            text = f"some secondary measurements failed: {first_line(error)}"
            self.note("aside_failed", text)

    def _judge(self) -> Verdict:
        """Return the verdict on the demand, with the offload verdict and notes added to the record."""
        disagreement = self._checks.disagreement
        if disagreement is not None and self.demand.bare:
            self.note("devices_disagree", disagreement)
            return Verdict(status="recorded", reason=None)
        if disagreement is not None:
            return Verdict(status="failed", reason=disagreement, reason_code="devices_disagree")
        cpu, gpu = self._cpu, self._gpu
        if cpu is None or gpu is None:
            raise GpuPerfError("one of the two devices was not measured")
        if self._transfer is None:
            self._transfer = transfers.untimed(gpu.workload, secondary.NO_TIME, self._loop)
        speedup = self._speedup
        memory = outcome.memory_of(gpu)
        if speedup is None:
            judged = outcome.judge_without_rounds(self._rounds, memory, self.demand)
        else:
            measured = offload.OffloadInput(
                demand=self.demand,
                regime="body" if gpu.workload.scope == "body" else self.demand.transfer,
                cpu=cpu.measurement,
                gpu=gpu.measurement,
                rounds=self._rounds.rounds,
                evidence=self._rounds.evidence,
                speedup=speedup,
                look=self._rounds.look,
                copies=self._transfer.beside([one_round.gpu for one_round in self._rounds.rounds]),
                transfer=self._transfer,
                disturbance=self._disturbance,
                throttled=self._rounds.throttled,
                unsettled=_UNSETTLED if gpu.is_unsettled else None,
            )
            judged = judgement.judge(measured, self.options, memory)
        self._offload = judged.offload
        self.notes += (*judged.notes, *outcome.notes_on_rounds(self._rounds), *self._checks.notes)
        return judged.verdict
