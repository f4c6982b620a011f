"""From a test's body and its devices to a record: one test's walk, without pytest."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Literal
from zlib import crc32

from pytest_gpuperf import inputs, measure, parity, verdict
from pytest_gpuperf.devices.protocol import Device, TimedDevice
from pytest_gpuperf.estimation import Estimation
from pytest_gpuperf.measure import Disturbance, Workload
from pytest_gpuperf.model import (
    Demand,
    GpuPerfError,
    Measurement,
    Parity,
    Plan,
    Record,
    Round,
    Status,
    Verdict,
)

__all__ = ["Bind", "CpuSide", "Trial"]

Bind = Callable[[Device], Callable[[], Any]]
"""Gives the test's body its device; what it returns is called without arguments."""

_FRESH_STARTS = 2  # from a slow spell of the machine
_QUIET = "a quiet machine, or fewer BLAS threads (OPENBLAS_NUM_THREADS), would decide it"
_HINT = "seed what the body draws at random; rtol and atol compare elementwise"
_FEWEST = 2  # blocks of a CPU alone, whatever they cost


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuSide:
    """What a CPU sibling leaves for its GPU sibling: its measurement, and its answer on the host."""

    measurement: Measurement
    answer: list[parity.Leaf]
    disturbance: Disturbance | None


class Trial:
    """One marked test while it is measured; `record` says at any moment what is known by then.

    Exceptions of the body and of the devices pass through, and what was measured before them stays.
    A workload that did not do the work asked for is a GpuPerfError. At any time no more than two results
    and the inputs are held for a device.
    """

    def __init__(self, *, nodeid: str, demand: Demand, plan: Plan) -> None:
        self.nodeid = nodeid
        self.demand = demand
        self.plan = replace(plan, max_time=demand.max_time or plan.max_time)
        self._estimation = Estimation(demand, self.plan)
        self._notes: list[str] = []
        self._device: TimedDevice | None = None
        self._cpu: Workload | None = None
        self._gpu: Workload | None = None
        self._side: CpuSide | None = None
        self._parity: Parity | None = None
        self._parity_elapsed: float | None = None
        self._rounds_begun = 0
        self._rounds_elapsed: float | None = None
        self._started: float | None = None

    def compare(self, bind: Bind, cpu: TimedDevice, gpu: TimedDevice) -> Verdict:
        """Time the body on both devices in interleaved rounds."""
        self._cpu, before = self._prepare(bind, cpu)
        self._gpu, there = self._prepare(bind, gpu)
        self._check_work(self._gpu)
        self._check_parity(before, there)
        del there
        if self._wrong:
            return self._judge()
        self._warm_up(self._cpu)
        self._warm_up(self._gpu)
        order = Random(crc32(self.nodeid.encode("utf-8", "surrogatepass")))  # noqa: S311 - an order, not a secret
        for starts_left in reversed(range(_FRESH_STARTS + 1)):
            self._sample(measure.rounds(self._cpu, self._gpu, order), gpu)
            if self._late:
                self._notes.append("time was up: the answers after timing were not compared")
                return self._judge()
            after, there = self._finish(self._cpu), self._finish(self._gpu)
            if self._sound or not starts_left:
                break
            after, there = [], []  # no more than two results are held
            self._start_afresh(self._cpu, self._gpu)
        self._check_same_work(before, after)
        del before
        self._check_parity(after, there)
        return self._judge()

    def compare_with(self, side: CpuSide, bind: Bind, gpu: TimedDevice) -> Verdict:
        """Time the body on the GPU, against the samples that its CPU sibling left."""
        self._side = side
        self._gpu, there = self._prepare(bind, gpu)
        self._check_work(self._gpu)
        self._check_parity(side.answer, there)
        del there
        if self._wrong:
            return self._judge()
        self._warm_up(self._gpu)
        self._sample(measure.rounds_against(side.measurement.samples, self._gpu), gpu)
        self._check_parity(side.answer, self._finish(self._gpu))
        return self._judge()

    def time_cpu(self, bind: Bind, cpu: TimedDevice, *, blocks: int, seconds: float) -> CpuSide:
        """Time the body on the CPU alone: two blocks, and more up to `blocks` within `seconds`."""
        self._cpu, before = self._prepare(bind, cpu)
        self._warm_up(self._cpu)
        started = cpu.clock()
        while len(self._cpu.samples) < blocks:
            if len(self._cpu.samples) >= _FEWEST and cpu.clock() - started >= seconds:
                break
            self._rounds_begun += 1
            measure.sample(self._cpu)
            self._rounds_elapsed = cpu.clock() - started
        if not self._late:
            self._check_same_work(before, self._finish(self._cpu))
        disturbance = self._cpu.disturbance
        if disturbance is not None:
            self._notes.append(disturbance.reason)
        return CpuSide(measurement=self._cpu.measurement, answer=before, disturbance=disturbance)

    def record(self, status: Status, reason: str | None) -> Record:
        """Return everything that is known by now."""
        cpu = self._cpu.measurement if self._cpu else self._side.measurement if self._side else None
        workload = self._gpu or self._cpu
        return Record(
            nodeid=self.nodeid,
            status=status,
            reason=reason,
            demand=self.demand,
            alpha=self.plan.alpha,
            scope=workload.scope if workload else None,
            cpu=cpu,
            gpu=self._gpu.measurement if self._gpu else None,
            speedup=self._estimation.speedup(self._sampling),
            parity=self._parity,
            parity_elapsed=self._parity_elapsed,
            rounds_elapsed=self._rounds_elapsed,
            elapsed=self._elapsed,
            notes=tuple(self._notes),
        )

    @property
    def device(self) -> TimedDevice | None:
        """The device that is, or was last, at work."""
        running = (w.device for w in (self._cpu, self._gpu) if w is not None and w.running)
        return next(running, self._device)

    @property
    def where(self) -> str:
        """The place of an error: `on the GPU (NAME) in round 17`."""
        device = self.device
        if device is None:
            return "before any device was used"
        place = f"on the {device.kind.upper()} ({device.name})"
        return f"{place} in round {self._rounds_begun}" if self._rounds_begun else place

    def distrust(self) -> None:
        """Give up the estimate: the samples stay, but they were not of the work that was asked for."""
        self._estimation = Estimation(self.demand, self.plan)

    def use(self, device: TimedDevice) -> None:
        """Say on which device the test runs, when it is not measured."""
        self._device = device

    def forget(self) -> None:
        """Let go of everything that may hold arrays of the devices."""
        self._cpu = self._gpu = None

    @property
    def _sampling(self) -> Literal["interleaved", "siblings"]:
        return "siblings" if self._side else "interleaved"

    @property
    def _wrong(self) -> bool:
        return self._parity is not None and self._parity.agreed is False

    @property
    def _late(self) -> bool:
        return (self._elapsed or 0.0) > self.plan.max_time

    @property
    def _disturbance(self) -> Disturbance | None:
        return self._side.disturbance if self._side else self._cpu.disturbance if self._cpu else None

    @property
    def _sound(self) -> bool:
        """Whether the samples need not be taken again: undisturbed, or clear in spite of it."""
        disturbance, speedup = self._disturbance, self._estimation.speedup(self._sampling)
        if disturbance is None or speedup is None:
            return True
        return bool(self.demand.limits) and verdict.stands(speedup, self.demand, disturbance.own)

    @property
    def _elapsed(self) -> float | None:
        if self._started is None or self._device is None:
            return None
        return self._device.clock() - self._started

    def _prepare(self, bind: Bind, device: TimedDevice) -> tuple[Workload, list[parity.Leaf]]:
        """Make the first call; return the workload and its first answer, copied to the host."""
        self._device = device
        if self._started is None:
            self._started = device.clock()
        workload, result = measure.prepare(bind, device)
        return workload, parity.snapshot(result, device.holds, device.asnumpy)

    def _warm_up(self, workload: Workload) -> None:
        self._device = workload.device
        measure.warm_up(workload, self.plan)

    def _start_afresh(self, *workloads: Workload) -> None:
        """Give up samples of a slow spell, and warm up again."""
        self._notes = ["started afresh: the machine had been busy with other work"]
        self._estimation = Estimation(self.demand, self.plan)
        self._rounds_begun = 0
        for workload in workloads:
            workload.start_afresh()
            self._warm_up(workload)

    def _sample(self, rounds: Iterator[Round], gpu: TimedDevice) -> None:
        """Take rounds until there are enough, or no more."""
        started = gpu.clock()
        spent = 0.0
        while not self._estimation.enough(spent=spent, left=self.plan.max_time - (self._elapsed or 0.0)):
            self._rounds_begun += 1
            taken = next(rounds, None)
            if taken is None:
                break
            self._estimation.add(taken)
            spent = self._rounds_elapsed = gpu.clock() - started

    def _finish(self, workload: Workload) -> list[parity.Leaf]:
        """Make the last call and return its answer on the host; the inputs must be what they were."""
        self._device = workload.device
        result = measure.finish(workload)
        changed = inputs.changed(workload.inputs, workload.call, workload.device)
        if changed is not None:
            raise GpuPerfError(
                f"the workload changes its own input ({changed}), so later calls do other work; "
                "work on a copy made inside it, or write to another array"
            )
        return parity.snapshot(result, workload.device.holds, workload.device.asnumpy)

    def _check_work(self, gpu: Workload) -> None:
        if not gpu.worked:
            raise GpuPerfError(
                f"no work reached {gpu.device.name}: the result lives on the host and the device saw "
                "nothing; make the arrays with device.asarray or xp"
            )

    def _check_same_work(self, before: list[parity.Leaf], after: list[parity.Leaf]) -> None:
        if parity.compare(before, after, self.demand).agreed is False:
            raise GpuPerfError(
                "the workload's result changes from call to call, so later calls do other work; "
                "undo inside it what it changes, fix its random numbers, or say parity=False"
            )

    def _check_parity(self, cpu: list[parity.Leaf], gpu: list[parity.Leaf]) -> None:
        """Compare the answers, before timing and after it; the worse finding stays."""
        before = self._elapsed or 0.0
        found = parity.compare(cpu, gpu, self.demand)
        self._parity_elapsed = (self._parity_elapsed or 0.0) + (self._elapsed or 0.0) - before
        if self._parity is None or found.agreed is False:
            self._parity = found

    def _judge(self) -> Verdict:
        if self._parity is not None and self._wrong:
            when = "after timing" if self._rounds_begun else "before timing"
            reason = f"the devices disagree {when}: {self._parity.reason}; {_HINT}"
            if self.demand.bare:
                self._notes.append(reason)
                return Verdict(status="recorded", reason=None)
            return Verdict(status="failed", reason=reason)
        speedup = self._estimation.speedup(self._sampling)
        if speedup is None:
            raise GpuPerfError("no round was measured: the CPU sibling left no samples")
        if note := verdict.dependence(speedup):
            self._notes.append(note)
        if self.demand.parity and self._parity is not None and self._parity.agreed is None:
            self._notes.append(f"parity was not checked: {self._parity.reason}")
        found = verdict.judge(speedup, self.demand, self.plan)
        disturbance = self._disturbance
        if disturbance is None:
            return found
        if verdict.stands(speedup, self.demand, disturbance.own):
            self._notes.append(disturbance.reason)
            return found
        doubt = (
            f"speedup {verdict.ratio(speedup)}, wanted {verdict.wanted(self.demand)}: {disturbance.reason}"
        )
        return Verdict(status="inconclusive", reason=f"{doubt}; {_QUIET}")
