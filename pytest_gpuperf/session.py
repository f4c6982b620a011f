"""What a run knows: its devices, the walk of each marked item, and what it says to pytest."""

import gc
import unittest
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_gpuperf import diagnosis, environment, schema, settlement
from pytest_gpuperf.answers import CpuSide
from pytest_gpuperf.calls import Bind
from pytest_gpuperf.devices import Devices, abilities, backends
from pytest_gpuperf.devices.protocol import Device, TimedDevice
from pytest_gpuperf.families import Families
from pytest_gpuperf.items import Shape
from pytest_gpuperf.ledger import Ledger
from pytest_gpuperf.model import (
    Clocks,
    Environment,
    Fault,
    GpuPerfError,
    InconclusiveWarning,
    Plan,
    Record,
    Status,
    Unavailable,
    Verdict,
)
from pytest_gpuperf.trial import Trial

__all__ = ["SKIPS", "Session"]

SKIPS = (pytest.skip.Exception, pytest.xfail.Exception, unittest.SkipTest)

_ALONE = (
    "there is nothing to compare with: its CPU sibling [cpu] failed, or was not run before it in this "
    "process; select both, and with pytest-xdist use --dist loadfile"
)
_OFF = "measuring is turned off by --gpuperf-off"


class Session:
    """One run's state. Errors that the user should see leave it as GpuPerfError or as pytest's outcomes."""

    def __init__(self, config: pytest.Config, plan: Plan, report: Path | None) -> None:
        self.plan = plan
        self.ledger = Ledger(report, plan.cost_ratio)
        self.families = Families()
        self.lost: str | None = None
        self._config = config
        self._devices: Devices | None = None
        self._elsewhere: Environment | None = None
        self._clocks_at_start: Clocks | None = None
        self._sides: dict[Hashable, CpuSide] = {}

    @property
    def devices(self) -> Devices:
        """The devices, from all backends that plugins registered; raises GpuPerfError for a wrong choice."""
        if self._devices is None:
            registered = self._config.hook.pytest_gpuperf_devices()
            extra = [backend for listed in registered for backend in listed]
            self._devices = Devices(self.plan.gpu, backends(environment.cpu_name(), extra))
        return self._devices

    def check(self) -> None:
        """Raise UsageError for a device that no backend offers; nothing is probed for it."""
        if self.plan.gpu != "auto":
            try:
                self.devices.gpu  # noqa: B018 - looking the choice up is the check
            except GpuPerfError as error:
                raise pytest.UsageError(f"--gpuperf-gpu: {error}") from error

    def gpu(self) -> TimedDevice:
        """Return the GPU, or end the test: a skip with the reason, an error where a GPU is required."""
        if self.lost:
            pytest.fail(self.lost, pytrace=False)
        try:
            return self._open_gpu()
        except Unavailable as cause:
            reason = str(cause)
        if self.plan.require_gpu:
            pytest.fail(f"a GPU is required (--gpuperf-require-gpu): {reason}", pytrace=False)
        pytest.skip(reason)

    def walk(self, item: pytest.Function, shape: Shape) -> None:
        """Measure one item, keep its record, and end the test as its verdict says."""
        trial = Trial(nodeid=item.nodeid, demand=shape.demand, plan=self.plan, family=shape.family)
        faulty: str | None = None
        try:
            found = self._measure(trial, shape, partial(_bind, item, shape))
        except GpuPerfError as error:
            trial.distrust()
            found = Verdict(status="error", reason=str(error))
        except BaseException as error:
            fault = self.note_fault(error, trial.nodeid) or _fault(trial.device, error)
            ended = self._explain(error, trial, fault)
            self.keep(trial.record(ended.status, ended.reason), item)
            if fault is None:
                raise
            faulty = ended.reason or fault.kind
        if faulty is not None:
            # Raised out here, so that no traceback keeps the arrays of the failed test alive.
            self._recover(trial)
            pytest.fail(faulty, pytrace=False)
        record = self._diagnosed(trial.record(found.status, found.reason))
        trial.forget()  # pytest keeps the frames of a test that fails until the next one has run
        self.keep(record, item)
        self._settle(record, item)
        if shape.side == "gpu":  # a test that failed may be run again by another plugin
            self._sides.pop(shape.pair, None)

    def keep(self, record: Record, item: pytest.Item | None = None) -> None:
        """Keep a record; with its item, other plugins' reports learn of it."""
        self.ledger.keep(record)
        if record.family is not None:
            self.families.leave(record.family.name, record.nodeid)
        if item is None:
            return
        item.user_properties[:] = [
            pair for pair in item.user_properties if not pair[0].startswith("gpuperf.")
        ]
        item.user_properties.append(("gpuperf.status", record.status))
        if record.speedup:
            for name in ("speedup", "low", "high"):
                value = getattr(record.speedup, "value" if name == "speedup" else name)
                if value is not None:
                    item.user_properties.append((f"gpuperf.{name}", value))

    def without_measurement(self, item: pytest.Item, shape: Shape, status: Status, reason: str) -> None:
        """Keep the record of a marked item that ended before it was measured."""
        record = Record(
            nodeid=item.nodeid,
            status=status,
            reason=reason,
            demand=shape.demand,
            alpha=self.plan.alpha,
            family=shape.family,
        )
        if shape.side == "gpu" and shape.pair in self._sides:
            side = self._sides[shape.pair]
            record = replace(record, cpu=side.measurement)
        self.keep(record, item)

    def note_fault(self, error: BaseException, nodeid: str) -> Fault | None:
        """Say what an exception of any test means for the GPU, and remember a lost one."""
        gpu = self._devices.opened if self._devices else None
        fault = _fault(gpu, error)
        if gpu and fault and fault.kind == "lost" and self.lost is None:
            self.lost = f"the GPU ({gpu.name}) was lost in {nodeid}: {_first_line(error)}"
        return fault

    def learn(self, surveyed: dict[str, Any], told: Iterable[str]) -> None:
        """Take the environment that another process measured in, and which thresholds it told."""
        self.families.told.update(told)
        there = schema.load_environment(surveyed)
        if self._elsewhere is None or there.gpu is not None:
            self._elsewhere = there

    def surveyed(self) -> Environment:
        """Return the environment of the measurements."""
        if self._elsewhere is not None:
            return self._elsewhere
        gpu = self._devices.opened if self._devices else None
        if gpu is None:
            return environment.survey(None, self._devices.reason if self._devices else None)
        now = None if self.lost else abilities.clocks(gpu)
        reason = (
            None if now else getattr(gpu, "clocks_reason", None) or f"{gpu.backend} does not tell its clocks"
        )
        return environment.survey(
            gpu.info, None, clocks_at_start=self._clocks_at_start, clocks_at_end=now, clocks_reason=reason
        )

    def _diagnosed(self, record: Record) -> Record:
        """Return a record with what holds its speedup back; emulated devices keep processors busy, too."""
        if record.cpu is None or record.gpu is None:
            return record
        usable = threads = None
        if not (record.cpu.device.emulated or record.gpu.device.emulated):
            usable, threads = environment.usable_processors(), environment.pool_threads()
        return replace(record, diagnosis=diagnosis.find(record, usable=usable, pool_threads=threads))

    def _measure(self, trial: Trial, shape: Shape, bind: Bind) -> Verdict:
        if self.plan.off:
            return self._run_once(trial, shape, bind)
        if shape.side == "cpu":
            seconds = trial.plan.max_time / 4 if self._has_gpu() else self.plan.precision_time
            cpu = self.devices.cpu()
            side = trial.time_cpu(bind, cpu, blocks=self.plan.max_rounds, seconds=seconds)
            self._sides[shape.pair] = side
            if not self._has_gpu():
                trial.without_gpu(side)
            return Verdict(status="recorded", reason=None)
        if shape.side == "gpu":
            if shape.pair not in self._sides:
                raise GpuPerfError(_ALONE)
            return trial.compare_with(self._sides[shape.pair], bind, self.gpu())
        try:
            gpu = self._open_gpu()
        except Unavailable as cause:
            reason = str(cause)
        else:
            return trial.compare(bind, self.devices.cpu(), gpu)
        seconds, cpu = self.plan.precision_time, self.devices.cpu()
        trial.without_gpu(trial.time_cpu(bind, cpu, blocks=self.plan.max_rounds, seconds=seconds))
        return Verdict(status="skipped", reason=reason)

    def _run_once(self, trial: Trial, shape: Shape, bind: Bind) -> Verdict:
        """Run the workload once on each device that is there, measuring nothing."""
        sides = {"cpu": self.devices.cpu, "gpu": self.devices.gpu}
        for side in sides if shape.side is None else [shape.side]:
            try:
                device = sides[side]()
            except Unavailable:
                continue
            trial.use(device)
            outcome = bind(device)()
            if callable(outcome):
                outcome()
            device.synchronize()
        return Verdict(status="skipped", reason=_OFF)

    def _has_gpu(self) -> bool:
        try:
            return self._open_gpu() is not None
        except Unavailable:
            return False

    def _open_gpu(self) -> TimedDevice:
        """Return the GPU, and remember its clocks as they were at first; raise Unavailable."""
        first, gpu = self.devices.opened is None, self.devices.gpu()
        if first:
            self._clocks_at_start = abilities.clocks(gpu)
        return gpu

    def _settle(self, record: Record, item: pytest.Item) -> None:
        """End the test: pass, warn, skip or fail; the last of a family tells its threshold, too."""
        threshold = self.families.ended(record, self.ledger.records.values())
        if threshold is not None:
            self.families.told.add(threshold.name)
        end = settlement.ending(record, threshold, self.plan)
        for warning in end.warnings:
            item.warn(InconclusiveWarning(warning))
        if end.failure is not None:
            pytest.fail(end.failure, pytrace=False)
        if end.skip is not None:
            pytest.skip(end.skip)

    def _explain(self, error: BaseException, trial: Trial, fault: Fault | None) -> Verdict:
        """Return how a test ended that raised, by the device's fault where there is one.

        The exception gets a note with the device's name, which pytest shows below its traceback.
        """
        if isinstance(error, SKIPS):
            return Verdict(status="skipped", reason=str(error) or "skipped in the test")
        where, what = trial.where, _first_line(error)
        if fault is not None and fault.kind == "out_of_memory":
            asked = f", {fault.requested:,} bytes were asked for" if fault.requested else ""
            return Verdict(status="error", reason=f"out of memory {where}{asked}: {what}")
        if fault is not None:
            return Verdict(status="error", reason=self.lost or f"lost {where}: {what}")
        if not isinstance(error, Exception):
            return Verdict(status="error", reason=f"interrupted {where} by {what}")
        error.add_note(f"raised {where}")
        return Verdict(status="error", reason=f"{what}, raised {where}")

    def _recover(self, trial: Trial) -> None:
        """Free what the failed test held, on both devices."""
        trial.forget()
        gc.collect()
        if self.lost is None:
            self.devices.cpu().release()
            if self.devices.opened is not None:
                self.devices.opened.release()


def _bind(item: pytest.Function, shape: Shape, device: Device) -> Callable[[], Any]:
    """Return the test function with its fixtures, and the device in its slots."""
    names: Sequence[str] = item._fixtureinfo.argnames  # noqa: SLF001 - pytest's own call reads them here
    arguments = {name: item.funcargs[name] for name in names}
    arguments.update({"device": device} if "device" in shape.slots else {})
    arguments.update({"xp": device.xp} if "xp" in shape.slots else {})
    return partial(item.obj, **arguments)


def _fault(device: TimedDevice | None, error: BaseException) -> Fault | None:
    """Ask a device what an error means; one that fails to say so must not stop the run."""
    try:
        return device.fault(error) if device else None
    except Exception:  # noqa: BLE001 - another plugin's backend
        return None


def _first_line(error: BaseException) -> str:
    first = str(error).partition("\n")[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
