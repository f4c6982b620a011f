"""From a test's body and two devices to a record: one test's walk, without pytest."""

from collections.abc import Callable
from math import exp, inf, log
from random import Random
from statistics import median
from typing import Any
from zlib import crc32

from pytest_gpuperf import measure, parity, verdict
from pytest_gpuperf.devices.protocol import Device, TimedDevice
from pytest_gpuperf.evidence import Evidence, autocorrelation, e_value
from pytest_gpuperf.measure import Workload
from pytest_gpuperf.model import (
    Demand,
    GpuPerfError,
    Measurement,
    Parity,
    Plan,
    Record,
    Speedup,
    Status,
    Verdict,
)

__all__ = ["CpuSide", "Trial"]

Bind = Callable[[Device], Callable[[], Any]]
"""Gives the test's body its device; what it returns is called without arguments."""

_FEWEST = 2  # rounds that are taken whatever they cost: one alone can never decide


class CpuSide:
    """What a CPU sibling leaves for its GPU sibling: its measurement and its first answer, on the host."""

    def __init__(self, measurement: Measurement, answer: list[parity.Leaf]) -> None:
        self.measurement = measurement
        self.answer = answer


class Trial:
    """One marked test while it is measured; `record` says at any moment what is known by then.

    The devices' faults and the body's own exceptions pass through: what was measured before stays.
    """

    def __init__(self, *, nodeid: str, demand: Demand, plan: Plan) -> None:
        self.nodeid = nodeid
        self.demand = demand
        self.plan = plan
        self.notes: list[str] = []
        self._at: TimedDevice | None = None
        self._rounds_begun = 0
        self._evidence = self._new_evidence()
        self._cpu: Workload | None = None
        self._gpu: Workload | None = None
        self._side: CpuSide | None = None
        self._parity: Parity | None = None
        self._parity_elapsed: float | None = None
        self._rounds_elapsed: float | None = None
        self._started: float | None = None
        self._elapsed: float | None = None

    def compare(self, bind: Bind, cpu: TimedDevice, gpu: TimedDevice) -> Verdict:
        """Time the body on both devices in interleaved rounds and return the verdict."""
        self._start(gpu)
        self._cpu, answer = self._prepare(bind, cpu)
        before = _answer(self._cpu, answer)
        self._gpu, answer = self._prepare(bind, gpu)
        self._check_parity(before, _answer(self._gpu, answer), "before timing")
        del answer
        self._require_work(self._gpu)
        if self._wrong:
            return self._end()
        for workload in (self._cpu, self._gpu):
            self._at = workload.device
            measure.warm_up(workload, self.plan)
        self._take_rounds(self._cpu, self._gpu)
        after = self._finish(self._cpu, before)
        self._check_parity(after, self._finish(self._gpu, None), "after timing")
        return self._end()

    def compare_with(self, side: CpuSide, bind: Bind, gpu: TimedDevice) -> Verdict:
        """Time the body on the GPU alone, against the samples that its CPU sibling left."""
        self._start(gpu)
        self._side = side
        self._gpu, answer = self._prepare(bind, gpu)
        self._check_parity(side.answer, _answer(self._gpu, answer), "before timing")
        del answer
        self._require_work(self._gpu)
        if self._wrong:
            return self._end()
        measure.warm_up(self._gpu, self.plan)
        started, spent = gpu.clock(), 0.0
        for cpu_sample in side.measurement.samples:
            self._rounds_begun += 1
            measure.sample(self._gpu)
            self._evidence.add(log(cpu_sample / self._gpu.samples[-1]))
            spent = gpu.clock() - started
            self._rounds_elapsed = spent
            if self._enough(spent, gpu.clock()):
                break
        self._check_parity(side.answer, self._finish(self._gpu, None), "after timing")
        return self._end()

    def time_cpu(self, bind: Bind, cpu: TimedDevice, *, blocks: int, share: float) -> CpuSide:
        """Time the body on the CPU alone: at most `blocks` blocks within that share of the time allowed."""
        self._start(cpu)
        self._cpu, answer = self._prepare(bind, cpu)
        before = _answer(self._cpu, answer)
        del answer
        measure.warm_up(self._cpu, self.plan)
        started = cpu.clock()
        while len(self._cpu.samples) < blocks:
            measure.sample(self._cpu)
            self._rounds_elapsed = cpu.clock() - started
            if len(self._cpu.samples) >= _FEWEST and self._rounds_elapsed >= share * self._max_time:
                break
        self._finish(self._cpu, before)
        self._elapsed = cpu.clock() - (self._started or 0.0)
        return CpuSide(self._cpu.measurement, before)

    def record(self, status: Status, reason: str | None) -> Record:
        """Return everything that is known by now."""
        cpu = self._cpu.measurement if self._cpu else self._side.measurement if self._side else None
        return Record(
            nodeid=self.nodeid,
            status=status,
            reason=reason,
            demand=self.demand,
            alpha=self.plan.alpha,
            scope=self._workload.scope if self._workload else None,
            cpu=cpu,
            gpu=self._gpu.measurement if self._gpu else None,
            speedup=self.speedup,
            parity=self._parity,
            parity_elapsed=self._parity_elapsed,
            rounds_elapsed=self._rounds_elapsed,
            elapsed=self._elapsed,
            notes=tuple(self.notes),
        )

    @property
    def at(self) -> TimedDevice | None:
        """The device that is, or was last, at work."""
        running = (w.device for w in (self._cpu, self._gpu) if w is not None and w.running)
        return next(running, self._at)

    @property
    def where(self) -> str:
        """The place of an error: `on the GPU (NAME) in round 17`."""
        device = self.at
        if device is None:
            return "before any device was used"
        round_ = f" in round {self._rounds_begun}" if self._rounds_begun else ""
        return f"on the {device.kind.upper()} ({device.name}){round_}"

    def distrust(self) -> None:
        """Give up the estimate: the samples stay, but they were not of the work that was asked for."""
        self._evidence = self._new_evidence()

    def forget(self) -> None:
        """Let go of everything that may hold arrays of the devices; the record stays as it was taken."""
        self._cpu = self._gpu = None

    @property
    def speedup(self) -> Speedup | None:
        """The estimate from the rounds so far."""
        values = self._evidence.values
        if not values:
            return None
        middle = median(values)
        # A median that has drifted out of what earlier rounds left is a doubt: the interval takes it in.
        low, high = min(self._evidence.low, middle), max(self._evidence.high, middle)
        return Speedup(
            value=exp(middle),
            low=exp(low) if low > -inf else None,
            high=exp(high) if high < inf else None,
            confidence=1 - 2 * self.plan.alpha,
            resolution=self.plan.resolution,
            rounds=len(values),
            evidence=self._strongest(values),
            autocorrelation=autocorrelation(values),
            sampling="siblings" if self._side else "interleaved",
        )

    @property
    def _workload(self) -> Workload | None:
        return self._gpu or self._cpu

    @property
    def _wrong(self) -> bool:
        return self._parity is not None and self._parity.agreed is False

    @property
    def _max_time(self) -> float:
        return self.demand.max_time or self.plan.max_time

    def _new_evidence(self) -> Evidence:
        return Evidence(alpha=self.plan.alpha, resolution=log(1 + self.plan.resolution))

    def _start(self, device: TimedDevice) -> None:
        self._started = device.clock()

    def _prepare(self, bind: Bind, device: TimedDevice) -> tuple[Workload, Any]:
        self._at = device
        return measure.prepare(bind, device)

    def _require_work(self, gpu: Workload) -> None:
        if not gpu.worked:
            raise GpuPerfError(
                f"no work reached {gpu.device.name}: the result lives on the host and the device saw "
                "nothing; make the arrays with device.asarray or xp"
            )

    def _take_rounds(self, cpu: Workload, gpu: Workload) -> None:
        """Sample until the verdict is certain and the estimate precise, or time or rounds are used up."""
        order = Random(crc32(self.nodeid.encode()))  # noqa: S311 - an order, not a secret
        clock = gpu.device.clock
        started = clock()
        sampling = measure.rounds(cpu, gpu, order)
        while not self._enough((clock() - started), clock()):
            self._rounds_begun += 1
            taken = next(sampling)
            self._evidence.add(log(taken.cpu / taken.gpu))
            self._rounds_elapsed = clock() - started

    def _enough(self, spent: float, now: float) -> bool:
        """Say whether sampling may stop, `spent` seconds after its first round began."""
        plan, taken = self.plan, len(self._evidence.values)
        if taken < _FEWEST:
            return False
        used = now - (self._started or 0.0)
        if used + spent / taken > self._max_time:
            return True
        if taken < plan.min_rounds:
            return False
        if not self.demand.limits:
            return self._precise or spent >= plan.record_time or taken >= plan.record_rounds
        if taken >= plan.max_rounds:
            return True
        low, high = exp(self._evidence.low), exp(min(self._evidence.high, 700.0))
        decided = verdict.decision(low, high, self.demand) is not None
        return decided and (self._precise or spent >= plan.precision_time)

    @property
    def _precise(self) -> bool:
        middle, near = median(self._evidence.values), log(1 + self.plan.precision)
        return middle - self._evidence.low <= near and self._evidence.high - middle <= near

    def _finish(self, workload: Workload, before: list[parity.Leaf] | None) -> list[parity.Leaf]:
        """Make the last call, and see that it did the work of the first; return its answer on the host."""
        self._at = workload.device
        answer = _answer(workload, measure.finish(workload))
        changed = measure.changed_input(workload)
        if changed is not None:
            raise GpuPerfError(
                f"the workload changes its own input ({changed}), so later calls do other work; "
                "work on a copy made inside it, or write to another array"
            )
        if before is not None and parity.compare(before, answer, self.demand).agreed is False:
            raise GpuPerfError(
                "the workload's result changes from call to call, so later calls do other work; "
                "undo inside it what it changes, fix its random numbers, or say parity=False"
            )
        return answer

    def _check_parity(self, cpu: list[parity.Leaf], gpu: list[parity.Leaf], when: str) -> None:
        clock = self.at.clock if self.at else None
        started = clock() if clock else 0.0
        found = parity.compare(cpu, gpu, self.demand)
        if found.agreed is False:
            self.notes.append(f"the devices disagree {when}: {found.reason}")
        if self._parity is None or found.agreed is False:
            self._parity = found
        if clock:
            self._parity_elapsed = (self._parity_elapsed or 0.0) + clock() - started

    def _strongest(self, values: list[float]) -> float | None:
        """Return the e-value that decides: for the demand's nearest limit, the side that has more."""
        if not self.demand.limits:
            return None
        nearest = min(self.demand.limits, key=lambda limit: abs(median(values) - log(limit)))
        margin = log(1 + self.plan.resolution)
        above = e_value(values, log(nearest) + margin)
        below = e_value([-value for value in values], margin - log(nearest))
        return max(above, below)

    def _end(self) -> Verdict:
        clock = self.at.clock if self.at else None
        if clock and self._started is not None:
            self._elapsed = clock() - self._started
        if self._wrong and self._parity:
            return Verdict(status="failed", reason=f"the devices disagree: {self._parity.reason}")
        speedup = self.speedup
        if speedup is None:
            return Verdict(status="error", reason="no round was measured")
        if note := verdict.dependence(speedup):
            self.notes.append(note)
        return verdict.judge(speedup, self.demand, self.plan)


def _answer(workload: Workload, result: Any) -> list[parity.Leaf]:
    return parity.snapshot(result, workload.device.holds, workload.device.asnumpy)
