"""What a test asks of its measurement: by default how much faster a GPU is than a CPU, and if it pays off."""

from dataclasses import dataclass
from typing import Self

from pytest_gpuperf.analysis import verdict
from pytest_gpuperf.analysis.noise import Disturbance
from pytest_gpuperf.analysis.offload import OffloadInput, assess
from pytest_gpuperf.analysis.verdict import Pace
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.model import units
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import Speedup, Transfer
from pytest_gpuperf.model.offload import Offload
from pytest_gpuperf.model.record import Note, Record, Verdict
from pytest_gpuperf.timing import notes, secondary
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.cpu_result import CpuResult
from pytest_gpuperf.timing.near_roof import ShareLimit
from pytest_gpuperf.timing.taken_rounds import TakenRounds
from pytest_gpuperf.timing.trial_context import TrialContext
from pytest_gpuperf.work.checks import ResultChecks


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a trial has measured; `loop` times calls with their copies, where each round has one.

    `names` are those of both sides. Without rounds that count there is no `speedup`. `share` is a limit on
    the GPU's share of its roof. `emulation` is a note on a GPU that is emulated.
    """

    context: TrialContext
    names: tuple[str, str]
    cpu: BlockTimer | CpuResult
    gpu: BlockTimer
    loop: BlockTimer | None
    rounds: TakenRounds
    checks: ResultChecks
    speedup: Speedup | None
    disturbance: Disturbance | None
    transfer: Transfer | None
    share: ShareLimit | None
    emulation: Note | None

    @property
    def pace(self) -> Pace | None:
        """How long a round took, and how long the test might take; None without a round."""
        rounds = self.rounds
        if not rounds.elapsed or not rounds.begun:
            return None
        return Pace(rounds.elapsed / rounds.begun, self.context.options.max_time)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The verdict on what a test asks, and what its record has besides."""

    verdict: Verdict
    notes: tuple[Note, ...] = ()
    offload: Offload | None = None
    transfer: Transfer | None = None

    @classmethod
    def of_disagreement(cls, reason: str) -> Self:
        """Return that the test failed since the devices disagree."""
        return cls(verdict=Verdict(status="failed", reason=reason, reason_code="devices_disagree"))


class Question:
    """What a test asks of its measurement: how many times as fast as the CPU is the GPU, and does it pay off?

    Another question is a subclass; there is one for each trial.
    """

    times_secondary = True
    """Whether copies and latencies are measured: no limit rests on them."""
    names: tuple[str, str] | None = None
    """What both sides are called; None for a CPU and a GPU."""

    def checks(self, demand: Demand) -> ResultChecks:
        """Return the checks of the results of a CPU and a GPU."""
        return ResultChecks(demand)

    def after_first_call(self, timer: BlockTimer, device: TimedDevice) -> Note | None:
        """Refuse a workload that does not answer the question; return a note on one that may not."""

    def judge(self, facts: Facts) -> Answer:
        """Return the verdict on the demand, the offload verdict and notes on both."""
        demand, options = facts.context.demand, facts.context.options
        disagreement = facts.checks.disagreement
        if disagreement is not None and demand.bare:
            note = Note(code="devices_disagree", text=disagreement)
            return Answer(verdict=Verdict(status="recorded", reason=None), notes=(note,))
        if disagreement is not None:
            return Answer.of_disagreement(disagreement)
        cpu, gpu, rounds = facts.cpu.measurement, facts.gpu, facts.rounds
        transfer = facts.transfer or secondary.untimed(gpu.workload, secondary.NO_TIME, facts.loop)
        memory, noun = gpu.memory.needed, gpu.device.info.noun
        on_speedup, offload, said = Verdict(status="recorded", reason=None), None, list[Note]()
        if facts.speedup is None:
            first_times = cpu.first_call, gpu.workload.first_call
            code, why = notes.why_no_rounds(facts.context, rounds, first_times, facts.checks.looking, noun)
            said = [Note(code=code, text=why)]
            if demand.limits or demand.min_share is not None:
                on_speedup = Verdict(status="inconclusive", reason=why, reason_code=code)
        else:
            on_gpu = [each.gpu for each in rounds.rounds]
            measured = OffloadInput(
                demand=demand,
                regime="body" if gpu.workload.scope == "body" else demand.transfer,
                cpu=cpu,
                gpu=gpu.measurement,
                alone=on_gpu,
                sampled=rounds.sampled,
                speedup=facts.speedup,
                copies=transfer.beside(on_gpu),
                transfer=transfer,
                disturbance=facts.disturbance,
                throttled=rounds.throttled,
            )
            doubts = facts.disturbance, rounds.throttled
            on_speedup = verdict.judge(facts.speedup, demand, measured.look, *doubts, pace=facts.pace)
            if facts.share is not None:
                on_speedup = verdict.both(on_speedup, self._judge_share(facts, facts.share))
            offload, said = assess(measured, options), [*notes.on_numbers(measured)]
            if not demand.latency:
                said += notes.on_overlap(zip(facts.names, (cpu, measured.gpu), strict=True))
        timers = [gpu] if isinstance(facts.cpu, CpuResult) else [facts.cpu, gpu]
        raised = sum(timer.clocks.raised for timer in filter(None, (gpu, gpu.per_call_timer, facts.loop)))
        found = (
            facts.emulation,
            *notes.on_libraries(timers, options.max_time),
            notes.on_ramp(gpu.measurement.ramp, raised, options.max_time),
            *said,
            *notes.on_rounds(rounds),
            *notes.on_results(facts.checks),
        )
        return Answer(
            verdict=verdict.apply_memory_limit(on_speedup, memory, demand),
            notes=tuple(filter(None, found)),
            offload=offload,
            transfer=transfer,
        )

    def _judge_share(self, facts: Facts, share: ShareLimit) -> Verdict:
        """Return the verdict on the GPU's share of its roof."""
        sampled, gpu = facts.rounds.beside(share.copy_time), facts.gpu
        noun = gpu.device.info.noun
        return verdict.judge_share(
            sampled,
            share.least,
            sampled.in_spite_of(None, gpu.interference, facts.names),
            facts.rounds.throttled,
            pace=facts.pace,
            noun=noun,
            roof=f"{units.size(share.moved)} in {units.seconds(share.copy_time)}",
        )

    def finish(self, record: Record) -> Record:
        """Return the record with its values where this question has them."""
        return record
