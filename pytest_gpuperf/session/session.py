"""What a run knows: the walk of each speedup test, its records, and what it says to pytest."""

import unittest
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_gpuperf import schema
from pytest_gpuperf.analysis import diagnosis
from pytest_gpuperf.collection.items import ItemSpec
from pytest_gpuperf.devices import environment, errors
from pytest_gpuperf.devices.machine import Machine
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.devices.spec import DeviceSpec
from pytest_gpuperf.gate import policy
from pytest_gpuperf.gate.baseline import Baseline
from pytest_gpuperf.gate.gate import Gate
from pytest_gpuperf.integrations.pytest_timeout import TimeoutPauser
from pytest_gpuperf.model.comparison import GateOptions
from pytest_gpuperf.model.demand import Outputs, Pairing, Plan
from pytest_gpuperf.model.errors import (
    Fault,
    GpuPerfError,
    InconclusiveWarning,
    NotComparableWarning,
    Unavailable,
)
from pytest_gpuperf.model.record import Environment, ReasonCode, Record, Verdict
from pytest_gpuperf.report import junit
from pytest_gpuperf.session import call, isolation
from pytest_gpuperf.session.item_runner import ItemRunner
from pytest_gpuperf.session.records import RecordStore
from pytest_gpuperf.session.threshold_families import SweepTracker
from pytest_gpuperf.timing import presets
from pytest_gpuperf.timing.inspection import Bind
from pytest_gpuperf.timing.lock import MeasurementLock
from pytest_gpuperf.timing.trial import Trial

__all__ = ["SKIPS", "GpuPerfSession", "NoGpu"]

SKIPS = (pytest.skip.Exception, pytest.xfail.Exception, unittest.SkipTest)

_TRACED = (
    "coverage, a debugger or a profiler traces the timed code: the times are distorted (pytest-cov: --no-cov)"
)


_NOTHING, _NO_GATE = Outputs(), GateOptions()


class NoGpu(pytest.skip.Exception):  # type: ignore[misc, name-defined]  # to mypy it is a variable
    """The skip of a test for want of a GPU."""


class GpuPerfSession:
    """One run's state. Errors that the user should see leave it as GpuPerfError or as pytest's outcomes."""

    def __init__(
        self,
        config: pytest.Config,
        plan: Plan,
        report: Path | None = None,
        outputs: Outputs = _NOTHING,
        gate: GateOptions = _NO_GATE,
        bases: Sequence[Baseline] = (),
    ) -> None:
        self.plan = presets.of_gate(plan, gate)
        self.outputs = outputs
        self.gating = Gate(gate, bases, self._surveyed, gated=gate.measures_longer)
        self.ledger = RecordStore(report, plan.cost_ratio)
        self.families = SweepTracker()
        self.machine = Machine(plan.gpu, partial(_registered, config), _worker(config))
        self.comparisons = ItemRunner(self.plan, self.machine, self.gpu, self.ledger.records)
        self.timers = TimeoutPauser()
        self._turns = MeasurementLock.chosen(plan.lock)
        self._is_controller = config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput")
        self.runs: Counter[str] = Counter()
        self._unlike: set[str] = set()

    def check(self) -> None:
        """Raise UsageError for a device that no backend offers; nothing is probed for it."""
        if self.plan.gpu != "auto":
            try:
                self.machine.devices.gpu  # noqa: B018 - looking the choice up is the check
            except GpuPerfError as error:
                raise pytest.UsageError(f"--gpuperf-gpu: {error}") from error

    def gpu(self, side: DeviceSpec | None = None) -> TimedDevice:
        """Return the GPU, or end the test: a skip with the reason, an error where a GPU is required."""
        if self.machine.lost:
            pytest.fail(self.machine.lost, pytrace=False)
        try:
            return self.machine.gpu(side)
        except Unavailable as cause:
            reason = str(cause)
        if self.plan.require_gpu:
            pytest.fail(f"a GPU is required (--gpuperf-require-gpu): {reason}", pytrace=False)
        raise NoGpu(reason)

    def walk(self, item: pytest.Function, shape: ItemSpec, bind: Bind | None = None) -> None:
        """Measure one item, keep its record, and end the test as its verdict says."""
        self.settle(self.measure(item, shape, bind), item)
        self.comparisons.forget(shape)  # not of a test that failed: another plugin may run it again

    def watch(self, item: pytest.Function, shape: ItemSpec, elapsed: float) -> None:
        """Measure a test that has passed, in further calls; whatever comes of them stays in its record."""
        if elapsed > self.plan.max_time / 8:
            reason = f"one call takes {elapsed:.1f} s, more than an eighth of --gpuperf-max-time"
            ended = Verdict(status="skipped", reason=reason, reason_code="call_too_long")
            self.without_measurement(item, shape, ended)
            return
        with self.timers.stopped(item), isolation.as_it_was(item):  # the test itself has had its time
            try:
                self.measure(item, shape)
            except (KeyboardInterrupt, pytest.exit.Exception):
                raise
            except BaseException as error:  # noqa: BLE001 - it is in the record
                del error
        self.comparisons.forget(shape)

    def measure(self, item: pytest.Function, shape: ItemSpec, bind: Bind | None = None) -> Record:
        """Measure one item and keep its record; exceptions of the body pass through."""
        plan = presets.quick(self.plan, self.gating.options) if shape.source == "all" else self.plan
        trial = Trial(
            nodeid=shape.nodeid,
            demand=shape.demand,
            plan=plan,
            family=shape.family,
            take_turn=partial(self._turns.take, partial(self.timers.stopped, item)),
            apart=self.gating.limits(shape.nodeid),
        )
        faulty: str | None = None
        try:
            found = self.comparisons.measure(
                trial, shape, bind or partial(call.bind, item.obj, call.fixtures(item), shape)
            )
        except GpuPerfError as error:
            trial.distrust()
            found = Verdict(status="error", reason=str(error))
        except BaseException as error:
            fault = self.machine.fault(error, trial.nodeid, trial.device)
            ended = self._explain(error, trial, fault)
            self.keep(self._placed(trial.record(ended), shape), item)
            if fault is None:
                raise
            faulty = ended.reason or fault.kind
        if faulty is not None:
            # Raised out here, so that no traceback keeps the arrays of the failed test alive.
            trial.forget()
            self.machine.release()
            pytest.fail(faulty, pytrace=False)
        if isolation.is_traced():
            trial.note("traced", _TRACED)
        record = _diagnosed(self._placed(trial.record(found), shape))
        record = self.gating.with_comparisons(record)
        trial.forget()  # pytest keeps the frames of a test that fails until the next one has run
        self.keep(record, item)
        return record

    def settle(self, record: Record, item: pytest.Function) -> None:
        """End the test: pass, warn, skip or fail; the last of a family tells its threshold, too."""
        threshold = self.families.ended(record, self.ledger.records.values())
        if threshold is not None:
            self.families.told.add(threshold.name)
            held = self.gating.threshold_comparisons(threshold, list(self.ledger.records.values()))
            record = replace(record, comparisons=(*record.comparisons, *held))
            self.keep(record, item)
        self._warn_of_differences(record, item)
        end = policy.decide(record, threshold, self.plan, self.gating.options)
        for warning in end.warnings:
            item.warn(InconclusiveWarning(warning))
        if end.failure is not None:
            pytest.fail(end.failure, pytrace=False)
        if end.skip is not None:
            pytest.skip(end.skip)

    def settle_watched(self, item: pytest.Item, shape: ItemSpec) -> None:
        """Fail a test that nobody marked for what it lost since the baseline, and for nothing else."""
        record = self.ledger.records.get(shape.nodeid)
        if record is None:
            return
        self._warn_of_differences(record, item)
        if regressions := self.gating.unmarked_failures(record, self.plan):
            pytest.fail("\n".join(regressions), pytrace=False)

    def keep(self, record: Record, item: pytest.Item | None = None) -> None:
        """Keep a record; with its item, other plugins' reports learn of it."""
        self.ledger.keep(record)
        if record.family is not None:
            self.families.leave(record.family.name, record.nodeid)
        if item is None:
            return
        others = [pair for pair in item.user_properties if not pair[0].startswith(junit.PREFIX)]
        item.user_properties[:] = [*others, *junit.pairs(record)]

    def without_measurement(self, item: pytest.Item, shape: ItemSpec, ended: Verdict) -> None:
        """Keep the record of a speedup test that ended before it was measured."""
        record = Record(
            nodeid=shape.nodeid,
            status=ended.status,
            reason=ended.reason,
            reason_code=ended.reason_code,
            demand=shape.demand,
            alpha=self.plan.alpha,
            family=shape.family,
            cpu=self.comparisons.left_for(shape),
        )
        self.keep(self._placed(record, shape), item)

    def disown(self, item: pytest.Item, shape: ItemSpec, reason: str) -> None:
        """Take back what came of a test that failed beside its measurement: verdict, and what it left."""
        self.comparisons.distrust(shape)
        record = self.ledger.records.get(shape.nodeid)
        if record is not None and record.status in ("passed", "recorded", "inconclusive"):
            self.keep(replace(record, status="error", reason=reason, reason_code=None), item)

    def learn(self, surveyed: dict[str, Any], told: Iterable[str]) -> None:
        """Take the environment that another process measured in, and which thresholds it told."""
        self.families.told.update(told)
        self.machine.learn(schema.load_environment(surveyed))

    @property
    def publishes(self) -> bool:
        """Whether anything of the run is written down."""
        return bool(self.ledger.report or self.gating.options.create or self.outputs != _NOTHING)

    def _surveyed(self) -> Environment:
        """Return the environment of the measurements, on the GPU that this process can use."""
        if not self._is_controller:
            self.machine.has_gpu()
        return self.machine.surveyed()

    def _warn_of_differences(self, record: Record, item: pytest.Item) -> None:
        """Warn once of what makes a baseline another machine's."""
        for found in record.comparisons:
            differences = "; ".join(found.differences)
            if self.gating.options.is_gate and differences and differences not in self._unlike:
                self._unlike.add(differences)
                item.warn(NotComparableWarning(found.reason or differences))

    def _placed(self, record: Record, shape: ItemSpec) -> Record:
        """Return a record with what asked for it, and its place among its siblings."""
        pairing = None
        if shape.side is not None:
            measured = record.cpu if shape.kind == "cpu" else record.gpu
            library = measured.device.backend if measured else shape.side.library or "not known"
            pairing = Pairing(side=shape.side.kind, library=library, partner=shape.partner)
        reruns = max(0, self.runs[shape.nodeid] - 1)
        return replace(record, pairing=pairing, source=shape.source, reruns=reruns)

    def _explain(self, error: BaseException, trial: Trial, fault: Fault | None) -> Verdict:
        """Return how a test ended that raised, by the device's fault where there is one.

        The exception gets a note with the device's name, which pytest shows below its traceback.
        """
        if isinstance(error, SKIPS):
            code: ReasonCode | None = "no_gpu" if isinstance(error, NoGpu) else None
            return Verdict(status="skipped", reason=str(error) or "skipped in the test", reason_code=code)
        where, what = trial.where, errors.first_line(error)
        if fault is not None and fault.kind == "out_of_memory":
            asked = f", {fault.requested:,} bytes were asked for" if fault.requested else ""
            reason = f"out of memory {where}{asked}: {what}"
            return Verdict(status="error", reason=reason, reason_code="out_of_memory")
        if fault is not None:
            reason = self.machine.lost or f"lost {where}: {what}"
            return Verdict(status="error", reason=reason, reason_code="gpu_lost")
        if not isinstance(error, Exception):
            return Verdict(status="error", reason=f"interrupted {where} by {what}")
        error.add_note(f"raised {where}")
        return Verdict(status="error", reason=f"{what}, raised {where}")


def _worker(config: pytest.Config) -> int | None:
    """Return the number of this worker of pytest-xdist's, as in `gw3`."""
    number = getattr(config, "workerinput", {}).get("workerid", "").removeprefix("gw")
    return int(number) if number.isdecimal() else None


def _registered(config: pytest.Config) -> Iterator[Any]:
    """Yield the backends that other plugins offer."""
    for listed in config.hook.pytest_gpuperf_devices():
        yield from listed


def _diagnosed(record: Record) -> Record:
    """Return a record with what holds its speedup back; emulated devices keep processors busy, too."""
    if record.cpu is None or record.gpu is None:
        return record
    usable = threads = None
    if not (record.cpu.device.emulated or record.gpu.device.emulated):
        usable, threads = environment.usable_processors(), environment.pool_threads()
    return replace(record, diagnosis=diagnosis.find(record, usable=usable, pool_threads=threads))
