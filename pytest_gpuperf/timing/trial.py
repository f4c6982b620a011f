"""From a test's body and its devices to a record: one test's walk, without pytest."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from zlib import crc32

from pytest_gpuperf.analysis import noise, offload, verdict
from pytest_gpuperf.devices import errors
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.model.demand import Demand, Family, Plan
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import Interference, Measurement, Neighbours, Transfer
from pytest_gpuperf.model.offload import Offload
from pytest_gpuperf.model.record import Note, NoteCode, Record, Verdict
from pytest_gpuperf.timing import blocks, inspection, outcome, secondary, transfers
from pytest_gpuperf.timing.blocks import Workload
from pytest_gpuperf.timing.budget import TakeTurn, TimeBudget
from pytest_gpuperf.timing.checks import CpuResult, ResultChecks
from pytest_gpuperf.timing.inspection import Bind
from pytest_gpuperf.timing.parity import Leaf
from pytest_gpuperf.timing.rounds import RoundSampler
from pytest_gpuperf.timing.transfers import TransferTimer

__all__ = ["Trial"]


class Trial:
    """One marked test while it is measured; `record` says at any moment what is known by then.

    Exceptions of the body and of the devices pass through, and what was measured before them stays.
    A workload that did not do the work asked for is a GpuPerfError. At any time no more than two results
    and the inputs are held for a device; while copies are timed, one result and the inputs twice.
    """

    def __init__(
        self,
        *,
        nodeid: str,
        demand: Demand,
        plan: Plan,
        family: Family | None = None,
        take_turn: TakeTurn | None = None,
        apart: Sequence[tuple[float, float]] = (),
    ) -> None:
        self.nodeid = nodeid
        self.demand = demand
        self.family = family
        self.plan = replace(plan, max_time=demand.max_time or plan.max_time)
        self._apart = (*apart, *([(1.0, 1.0)] if family else []))
        self._budget = TimeBudget(self.plan.max_time, take_turn)
        self._rounds = self._no_rounds()
        self._order = Random(crc32(nodeid.encode("utf-8", "surrogatepass")))  # noqa: S311 - an order, not a secret
        self.notes: list[Note] = []
        self._device: TimedDevice | None = None
        self._cpu: Workload | None = None
        self._gpu: Workload | None = None
        self._side: CpuResult | None = None
        self._copying: TransferTimer | None = None
        self._transfer: Transfer | None = None
        self._offload: Offload | None = None
        self._answers = ResultChecks(demand)

    def compare(self, bind: Bind, cpu: TimedDevice, gpu: TimedDevice) -> Verdict:
        """Time the body on both devices in interleaved rounds."""
        self._cpu, before = self._prepare(bind, cpu)
        self._gpu, there = self._prepare(bind, gpu)
        self._answers.check_work(self._gpu)
        self._answers.compare(before, there, gpu)
        del there
        if self._answers.differ:
            return self._judge()
        with self._budget.turn():
            for starts_left in reversed(range(self.plan.fresh_starts + 1)):
                here, yonder = self._warmed_up(self._cpu), self._warmed_up(self._gpu)
                self._rounds.interleaved(here, yonder, self._gated_copies(self._gpu), self._order)
                if self._budget.left() < 0:
                    text = "time was up: the answers after timing were not compared"
                    self.note("answers_not_compared_again", text)
                    return self._judge()
                after, there = self._finish(self._cpu), self._finish(self._gpu)
                if self._sound or not starts_left or self._rounds.are_late:
                    break
                after, there = [], []  # no more than two results are held
                self._start_afresh(self._cpu, self._gpu)
            self._answers.check_same(before, after)
            del before
            self._answers.compare(after, there, gpu)
            del after, there
            self._look_aside(self._cpu, self._gpu)
        return self._judge()

    def compare_with(self, side: CpuResult, bind: Bind, gpu: TimedDevice) -> Verdict:
        """Time the body on the GPU, against the samples that its CPU sibling left."""
        self._side = side
        self._gpu, there = self._prepare(bind, gpu)
        self._answers.check_work(self._gpu)
        self._answers.compare(side.answer, there, gpu)
        del there
        if self._answers.differ:
            return self._judge()
        measured = side.measurement
        cpu_samples = measured.waited_for if self.demand.latency else measured.samples
        with self._budget.turn():
            yonder = self._warmed_up(self._gpu)
            self._rounds.against(cpu_samples, yonder, self._gated_copies(self._gpu))
            self._answers.compare(side.answer, self._finish(self._gpu), gpu)
            if self._budget.left() >= 0:
                self._look_aside(self._gpu)
        return self._judge()

    def time_cpu(self, bind: Bind, cpu: TimedDevice, *, most_blocks: int, seconds: float) -> CpuResult:
        """Time the body on the CPU alone: two blocks, and more up to `most_blocks` within `seconds`."""
        self._cpu, before = self._prepare(bind, cpu)
        with self._budget.turn():
            for starts_left in reversed(range(self.plan.fresh_starts + 1)):
                here = self._warmed_up(self._cpu)
                self._rounds.alone(here, most_blocks, seconds)
                if here.interference is None or not starts_left or self._budget.left() < 0:
                    break
                self._start_afresh(self._cpu)
            if self._budget.left() >= 0:
                self._answers.check_same(before, self._finish(self._cpu))
                secondary.other_kind([self._cpu], self.demand, self.plan, self._order, self._budget.left)
        if (interference := here.interference) is not None:
            self.note("interference", noise.sentence(interference))
        return CpuResult(measurement=self._cpu.measurement, answer=before, interference=interference)

    def time_gpu(self, bind: Bind, gpu: TimedDevice, *, most_blocks: int, seconds: float) -> None:
        """Time the body on the GPU alone: two blocks, and more up to `most_blocks` within `seconds`."""
        self._gpu, before = self._prepare(bind, gpu)
        self._answers.check_work(self._gpu)
        with self._budget.turn():
            self._rounds.alone(self._warmed_up(self._gpu), most_blocks, seconds)
            if self._budget.left() >= 0:
                self._answers.check_same(before, self._finish(self._gpu))
                secondary.calls_aside([self._gpu], self.demand, self.plan, self._order, self._budget.left)

    def without_gpu(self, side: CpuResult) -> None:
        """Say what the CPU's times alone tell about moving the work."""
        if self._cpu is not None:
            self._transfer = transfers.known(self._cpu, "no GPU was measured")
            self._offload = offload.weigh_cpu(
                side.measurement, self.demand, self._transfer, self.plan, side.doubt
            )

    def record(self, ended: Verdict) -> Record:
        """Return everything that is known by now."""
        workload = self._gpu or self._cpu
        return Record(
            nodeid=self.nodeid,
            status=ended.status,
            reason=ended.reason,
            reason_code=ended.reason_code,
            demand=self.demand,
            alpha=self.plan.alpha,
            scope=workload.scope if workload else None,
            family=self.family,
            cpu=self._cpu_measurement,
            gpu=self._gpu.measurement if self._gpu else None,
            speedup=self._rounds.speedup(self._sampling),
            parity=self._answers.parity,
            transfer=self._transfer,
            offload=self._offload,
            memory=outcome.memory_of(self._gpu) if self._gpu else None,
            dropped_rounds=self._rounds.dropped,
            parity_elapsed=self._answers.elapsed,
            rounds_elapsed=self._rounds.elapsed,
            elapsed=self._budget.elapsed,
            turn_wait=self._budget.waited or None,
            interference=self._interference,
            notes=(*self.notes, *(Note(code="not_exclusive", text=doubt) for doubt in self._budget.doubts)),
        )

    @property
    def device(self) -> TimedDevice | None:
        """The device that is, or was last, at work."""
        running = (w.device for w in (self._cpu, self._gpu) if w is not None and w.is_running)
        return next(running, self._device)

    @property
    def where(self) -> str:
        """The place of an error."""
        return errors.describe_place(self.device, self._rounds.begun)

    def note(self, code: NoteCode, text: str) -> None:
        """Add a note to the record."""
        self.notes.append(Note(code=code, text=text))

    def distrust(self) -> None:
        """Give up the estimate: the samples stay, but they were not of the work that was asked for."""
        self._rounds, self._offload = self._no_rounds(), None

    def use(self, device: TimedDevice) -> None:
        """Say on which device the test runs, when it is not measured."""
        self._device = device

    def forget(self) -> None:
        """Let go of everything that may hold arrays of the devices."""
        self._cpu = self._gpu = self._copying = None

    @property
    def _sampling(self) -> Neighbours:
        return "siblings" if self._side else "interleaved"

    @property
    def _cpu_measurement(self) -> Measurement | None:
        return self._cpu.measurement if self._cpu else self._side.measurement if self._side else None

    @property
    def _interference(self) -> Interference | None:
        if self._side is not None:
            return self._side.interference
        if self._cpu is None:
            return None
        latencies = self._cpu.single if self.demand.latency and self._cpu.block_calls > 1 else self._cpu
        return latencies.interference if latencies else None

    @property
    def _sound(self) -> bool:
        """Whether the samples need not be taken again: undisturbed, or clear in spite of it."""
        interference, speedup = self._interference, self._rounds.speedup(self._sampling)
        if interference is None or speedup is None:
            return True
        return bool(self.demand.limits) and verdict.stands(speedup, self.demand, interference.own_share)

    def _no_rounds(self) -> RoundSampler:
        return RoundSampler(self.demand, self.plan, self._budget.left, self._apart)

    def _gated(self, workload: Workload) -> Workload:
        """Return the workload as the demand gates it: in blocks, or call by call."""
        return blocks.single(workload, self.plan) if self.demand.latency else workload

    def _prepare(self, bind: Bind, device: TimedDevice) -> tuple[Workload, list[Leaf]]:
        """Make the first call; return the workload and its first answer, copied to the host."""
        self._device = device
        self._budget.start(device.clock)
        workload, result = inspection.prepare(bind, device)
        transfers.check(self.demand, workload)
        return workload, self._answers.on_host(result, device)

    def _warmed_up(self, workload: Workload) -> Workload:
        self._device = workload.device
        blocks.warm_up(workload, self.plan)
        return self._gated(workload)

    def _finish(self, workload: Workload) -> list[Leaf]:
        self._device = workload.device
        return self._answers.last(workload)

    def _start_afresh(self, *workloads: Workload) -> None:
        """Give up samples of a slow spell."""
        text = "started afresh: the machine had been busy with other work"
        self.notes = [Note(code="restarted", text=text)]
        self._rounds.start_afresh()
        self._copying = None
        for workload in workloads:
            workload.start_afresh()

    def _gated_copies(self, gpu: Workload) -> TransferTimer | None:
        if self.demand.transfer != "never":
            self._copying = TransferTimer(gpu, self.plan)
        return self._copying

    def _look_aside(self, *workloads: Workload) -> None:
        """Measure what the verdict does not rest on."""
        taken = len(self._rounds.rounds)
        seen = secondary.look(
            workloads, taken, self.demand, self.plan, self._order, self._budget.left, self._copying
        )
        self._copying, self._transfer = seen.copying, seen.transfer
        self.notes += seen.notes

    def _judge(self) -> Verdict:
        wrong = self._answers.wrong(after_timing=bool(self._rounds.begun))
        if wrong is not None and self.demand.bare:
            self.note("devices_disagree", wrong)
            return Verdict(status="recorded", reason=None)
        if wrong is not None:
            return Verdict(status="failed", reason=wrong, reason_code="devices_disagree")
        return self._weigh(self._cpu_measurement, self._gpu)

    def _weigh(self, cpu: Measurement | None, gpu: Workload | None) -> Verdict:
        if cpu is None or gpu is None:
            raise GpuPerfError("one of the two devices was not measured")
        if self._copying is not None:
            self._transfer = self._copying.transfer
        elif self._transfer is None:
            self._transfer = transfers.known(gpu, secondary.NO_TIME)
        found = outcome.judge(
            demand=self.demand,
            plan=self.plan,
            rounds=self._rounds,
            sampling=self._sampling,
            cpu=cpu,
            gpu=gpu,
            copies=self._copying.samples if self._copying else (),
            transfer=self._transfer,
            interference=self._interference,
        )
        self._offload = found.offload
        self.notes += (*found.notes, *self._answers.notes)
        return found.verdict
