"""From a test's body and its devices to a record: one test is measured, without pytest."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from random import Random
from zlib import crc32

from msgspec import structs

from pytest_gpuperf.analysis import looks, noise, threshold, verdict
from pytest_gpuperf.analysis.looks import Limit
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.model.demand import Demand, RunOptions, SizeGroup
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.offload import Offload
from pytest_gpuperf.model.record import Note, NoteCode, Record, Verdict
from pytest_gpuperf.timing import notes, warm_up
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.cpu_result import CpuResult
from pytest_gpuperf.timing.first_calls import FirstCalls
from pytest_gpuperf.timing.near_roof import NearRoof
from pytest_gpuperf.timing.process_state import HINT
from pytest_gpuperf.timing.question import Facts, Question
from pytest_gpuperf.timing.required_work import RequiredWork
from pytest_gpuperf.timing.rounds import RoundSampler
from pytest_gpuperf.timing.secondary import CopyFailed, Secondary
from pytest_gpuperf.timing.sides import Sides
from pytest_gpuperf.timing.stability import Stability
from pytest_gpuperf.timing.time_budget import AcquireLock, OtherLimit, TimeBudget
from pytest_gpuperf.timing.trial_context import OnRound, TrialContext
from pytest_gpuperf.work.device_work import CpuWork
from pytest_gpuperf.work.first_call import Bind


# More than 20 methods and 15 fields: it holds the parts of one measurement, and answers what is asked of it.
class Trial:
    """The measurement of one test; `record` returns at any time what has been measured so far.

    Exceptions of the body and of the devices pass through, and what was measured before them stays.
    A workload that did not do the required work is a GpuPerfError. At any time at most two results and the
    inputs are held for a device; while transfers are timed, one result and the inputs twice.

    `sides` are the devices and their timers, `first_calls` and `secondary` what is known of the calls before
    the rounds and beside them, `notes` those on the rest.

    `question` is what is asked of the measurement: the speedup of the GPU, unless it is another one.
    `limits` are ranges of speedups that the rounds must lie outside of, as well as the demand's limits.
    `other_limit` is what ends the test besides its own `max_time`. `after_first_run` is called when the test
    has run once on a device, and may refuse to run it again.
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
        after_first_run: Callable[[], None] = lambda: None,
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
        self.sides = Sides(latency=demand.latency, called=self._question.names)
        self.first_calls = FirstCalls(
            self.sides, demand, self._question, self._checks, budget, after_first_run
        )
        self._required = RequiredWork(self.sides, self._checks, budget, self.options.max_time, self._add_note)
        self._stability = Stability(self.sides, self._sampler, demand, self.options, budget.remaining)
        self.secondary = Secondary(self.sides, self._context, is_asked=self._question.times_secondary)
        self._near_roof = NearRoof(
            self.sides, self._context, self._add_note, is_asked=self._question.times_secondary
        )
        self._offload: Offload | None = None

    def compare(self, bind: Bind, cpu: TimedDevice, gpu: TimedDevice) -> Verdict:
        """Time the body on both devices in interleaved rounds."""
        self._measure(bind, self._take_interleaved, cpu=cpu, gpu=gpu)
        return self._judge()

    def compare_with(self, cpu_result: CpuResult, bind: Bind, gpu: TimedDevice) -> Verdict:
        """Time the body on the GPU and compare it with the samples that its CPU variant left."""
        self.sides.cpu, self._required.of_cpu = cpu_result, cpu_result.results
        self._restart_reason = cpu_result.restart_reason
        self._measure(bind, partial(self._take_against, cpu_result), gpu=gpu)
        return self._judge()

    def time_alone(
        self, bind: Bind, device: TimedDevice, seconds: float, *, in_turn: bool = True
    ) -> CpuResult:
        """Time the body on one device: two blocks, and more within `seconds`.

        What decides nothing need not be `in_turn`: other processes may measure meanwhile.
        """
        side = "cpu" if device.kind == "cpu" else "gpu"
        self._measure(bind, partial(self._take_alone, seconds), in_turn=in_turn, **{side: device})
        (timer,) = self.sides.timers
        cpu, gpu = (self.sides.interference(each) for each in (self.sides.cpu, self.sides.gpu))
        if (reason := noise.describe(cpu, gpu)) is not None:
            self.note("interference", reason)
        self.notes += notes.on_rounds(self._rounds)
        return CpuResult(
            measurement=timer.measurement,
            seconds=self._rounds.elapsed or 0.0,
            results=self._required.of_cpu,
            interference=self.sides.interference(timer),
            restart_reason=self._restart_reason,
            roof=self._near_roof.side(timer),
        )

    def work_of_cpu(self) -> CpuWork | None:
        """Return what the CPU's calls do, as the GPU's are held against it; None where nobody looked."""
        return self._required.work_of_cpu()

    def record(self, ended: Verdict) -> Record:
        """Return everything that has been measured so far, with how the test ended."""
        sides, timers = self.sides, self.sides.timers
        record = Record(
            nodeid=self.nodeid,
            status=ended.status,
            reason=ended.reason,
            reason_code=ended.reason_code,
            demand=self.demand,
            scope=timers[-1].workload.scope if timers else None,
            size_group=self.size_group,
            cpu=sides.cpu.measurement if sides.cpu else None,
            gpu=sides.gpu.measurement if sides.gpu else None,
            speedup=self._rounds.speedup(),
            check=self._checks.outcome,
            transfer=self.secondary.transfer,
            offload=self._offload,
            roof=self._near_roof.found(),
            memory=sides.gpu.memory.needed if sides.gpu else None,
            dropped_rounds=self._rounds.dropped,
            check_elapsed=self._checks.elapsed,
            rounds_elapsed=self._rounds.seconds,
            elapsed=self._budget.elapsed,
            turn_wait=self._budget.waited or None,
            interference=sides.interference(sides.cpu),
            gpu_interference=sides.interference(sides.gpu),
            restart_reason=self._restart_reason,
            notes=(
                *self.notes,
                *self.first_calls.notes,
                *self._on_other_limit(ended),
                *(Note(code="not_exclusive", text=text) for text in self._budget.warnings),
            ),
        )
        return self._question.finish(record)

    @property
    def where(self) -> str:
        """The place of an error: `on the GPU (NAME) in round 17`; no round before the first."""
        device = self.sides.at_work
        if device is None:
            return "before any device was used"
        in_round = f" in round {self._rounds.begun}" if self._rounds.begun else ""
        return f"on the {device.info.noun} ({device.info.name}){in_round}"

    @property
    def hint(self) -> str | None:
        """What may explain an exception in the first call since the other device's body has run."""
        cpu = self.sides.cpu
        if not isinstance(cpu, BlockTimer) or self.sides.gpu is None or self.sides.at_work is not cpu.device:
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
        """Discard the estimate but keep the samples: they did not measure the required work."""
        self._rounds.restart()
        self._offload = None

    def release(self) -> None:
        """Drop every reference that may keep arrays of the devices alive."""
        self.sides.release()
        self._required.forget_results()
        self._stability.release()
        self.secondary.release()

    def _measure(
        self,
        bind: Bind,
        take_rounds: Callable[[Sequence[BlockTimer]], None],
        *,
        cpu: TimedDevice | None = None,
        gpu: TimedDevice | None = None,
        in_turn: bool = True,
    ) -> None:
        """Measure the body on its devices: first calls, warm-up, rounds, checks, and what is secondary.

        `take_rounds` takes those of timers that are warm. Results that differ end it.
        """
        self._make_first_calls(bind, cpu, gpu)
        self._required.compare_first_results()
        with self._budget.lock() if in_turn else nullcontext(), self._checks.outlasting_refusals():
            self._required.require_work()
            with self._budget.without_limit():  # a size is timed once for all tests of the process
                self._near_roof.time_copies()
            self._sampler.share = self._near_roof.limit
            for is_last in self._attempts():
                sampled = self._warmed_up(self.sides.timers)
                if cpu is not None and gpu is not None:
                    with self._budget.without_limit():  # bodies that run again may compile again
                        self._stability.look_for_change(bind, gpu)
                take_rounds(sampled)
                if self._checks.differ:
                    return
                if self._sampler.too_late_to_restart or self._stability.settle(is_last=is_last):
                    break
            self._required.require_last_results()
            with self._budget.without_limit():
                self._near_roof.require_possible()
            self._measure_secondary()

    def _make_first_calls(self, bind: Bind, cpu: TimedDevice | None, gpu: TimedDevice | None) -> None:
        """Make the first calls; on the CPU first, whose later calls may show what the GPU's body has set."""
        if cpu is not None:
            self.sides.cpu, self._required.of_cpu = self.first_calls.make(bind, cpu)
            if gpu is not None:
                self._stability.probe(self.sides.cpu)
        if gpu is not None:
            self.sides.gpu, self._required.of_gpu = self.first_calls.make(bind, gpu)

    def _attempts(self) -> Iterator[bool]:
        """Yield whether this is the last attempt: once, and again after a restart, which drops the samples.

        What a CPU variant left cannot be measured again.
        """
        may_restart = self.options.sampling.may_restart and not isinstance(self.sides.cpu, CpuResult)
        yield not may_restart
        if may_restart:
            self._restart()
            yield True

    def _take_interleaved(self, sampled: Sequence[BlockTimer]) -> None:
        """Take rounds of both devices, until later ones show the same where that is asked."""
        cpu, gpu = sampled
        loop = self.secondary.demanded_loop()
        warm_up.share_calls(*sampled, *filter(None, [loop]))
        self._sampler.take_interleaved(
            cpu,
            gpu,
            loop,
            others=self.secondary.other_modes(),
            late=self._stability.late_look(cpu, gpu),
            may_stop=self._stability.may_stop,
        )

    def _take_against(self, recorded: CpuResult, sampled: Sequence[BlockTimer]) -> None:
        """Take rounds of the GPU, for the samples that its CPU variant left."""
        (gpu,) = sampled
        loop = self.secondary.demanded_loop()
        if gpu.workload.restore is not None:  # so many calls after a reset are the CPU's work, too
            gpu.block_calls = recorded.measurement.block_calls
        self._sampler.take_against(recorded, gpu, loop, others=self.secondary.other_modes())
        self._stability.measure_least_times()

    def _take_alone(self, seconds: float, sampled: Sequence[BlockTimer]) -> None:
        """Take blocks of one device."""
        (timer,) = sampled
        self._sampler.take_alone(timer, seconds, others=self.secondary.other_modes())
        self._stability.measure_least_times()

    def _warmed_up(self, timers: Sequence[BlockTimer]) -> list[BlockTimer]:
        """Warm up while there is time; return the timers of the mode that the demand is on."""
        for timer in timers:
            self._warm_up(timer)
        warm_up.share_calls(*timers)
        sampled = list(timers)
        for place, timer in enumerate(timers):
            self.sides.device = timer.device
            if self.demand.latency and timer.warmup.elapsed:
                sampled[place] = warm_up.per_call(timer, self.options)
        warm_up.share_calls(*sampled)
        return sampled

    def _warm_up(self, timer: BlockTimer) -> None:
        self.sides.device = timer.device
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

    def _add_note(self, note: Note | None) -> None:
        if note is not None and note not in self.notes:
            self.notes.append(note)

    def _restart(self) -> None:
        """Discard the samples, with the notes on them."""
        self.notes.clear()
        self._restart_reason = self._stability.restart_reason
        self._rounds.restart()
        self.secondary.release()
        for timer in self.sides.timers:
            timer.restart()

    def _measure_secondary(self) -> None:
        """Measure what the verdict does not rest on; only a copy that fails becomes a note."""
        gpu = self.sides.gpu
        if self.sides.are_both:
            self._required.forget_results()  # what follows needs the room
        self.secondary.probe_and_sample()
        if gpu is None or not self.sides.are_both:
            return
        try:
            self.secondary.time_transfers(len(self._rounds.rounds))
        except CopyFailed as failed:
            self._budget.remaining()  # raises for a clock that went back
            self.note("aside_failed", f"timing the copies failed: {failed}")
        gpu.memory.note_left()

    def _judge(self) -> Verdict:
        """Return the answer to the question, with the offload verdict and notes added to the record."""
        cpu, gpu = self.sides.cpu, self.sides.gpu
        if cpu is None or gpu is None:
            raise GpuPerfError("one of the two devices was not measured")
        facts = Facts(
            context=self._context,
            names=self.sides.names,
            cpu=cpu,
            gpu=gpu,
            loop=self.secondary.loop,
            rounds=self._rounds,
            checks=self._checks,
            speedup=self._rounds.speedup(),
            disturbance=self._stability.disturbance,
            transfer=self.secondary.transfer,
            share=self._near_roof.limit,
            emulation=self.first_calls.emulation,
        )
        answer = self._question.judge(facts)
        ended, found = answer.verdict, answer.notes
        self._offload = answer.offload
        self.secondary.transfer = answer.transfer or self.secondary.transfer
        doubt = self._required.find_doubt(ended, self._rounds.sampled)
        if doubt is not None and facts.speedup is not None:
            reason = f"speedup {verdict.ratio(facts.speedup)}: {doubt}"
            ended = Verdict(status="inconclusive", reason=reason, reason_code="work_not_seen")
            found = tuple(note for note in found if note.text != doubt)  # to say it once is enough
        self.notes += found
        return self._stability.unless_changed(ended, partial(self.note, "work_in_doubt"))


def _within(options: RunOptions, max_time: float) -> RunOptions:
    """Return options with which no test is measured for longer."""
    plan = options.sampling
    slow_time = None if plan.slow_time is None else min(plan.slow_time, max_time)
    plan = structs.replace(plan, slow_time=slow_time)
    return structs.replace(options, max_time=min(options.max_time, max_time), sampling=plan)
