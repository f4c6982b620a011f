"""What a run knows: the walk of each speedup test, its records, and what it says to pytest."""

import logging
import os
import random
import sys
import unittest
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_gpuperf import bodies, diagnosis, environment, faults, schema, settlement
from pytest_gpuperf.calls import Bind
from pytest_gpuperf.comparisons import Comparisons
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.families import Families
from pytest_gpuperf.items import Shape
from pytest_gpuperf.ledger import Ledger
from pytest_gpuperf.machine import Machine
from pytest_gpuperf.model import (
    Fault,
    GpuPerfError,
    InconclusiveWarning,
    Pairing,
    Plan,
    Record,
    Status,
    Unavailable,
    Verdict,
)
from pytest_gpuperf.sides import Side
from pytest_gpuperf.timers import Timers
from pytest_gpuperf.trial import Trial
from pytest_gpuperf.turns import Turns

__all__ = ["SKIPS", "Session"]

SKIPS = (pytest.skip.Exception, pytest.xfail.Exception, unittest.SkipTest)

_TRACED = (
    "coverage, a debugger or a profiler traces the timed code: the times are distorted (pytest-cov: --no-cov)"
)
_CAPTURES = ("capsys", "capsysbinary", "capteesys", "capfd", "capfdbinary")  # fixtures that show output
_MONITORED = (0, 1, 2)  # sys.monitoring's tools: debugger, coverage, profiler


class Session:
    """One run's state. Errors that the user should see leave it as GpuPerfError or as pytest's outcomes."""

    def __init__(self, config: pytest.Config, plan: Plan, report: Path | None) -> None:
        self.plan = plan
        self.ledger = Ledger(report, plan.cost_ratio)
        self.families = Families()
        self.machine = Machine(plan.gpu, partial(_registered, config), _worker(config))
        self.comparisons = Comparisons(plan, self.machine, self.gpu, self.ledger.records)
        self.timers = Timers()
        self._turns = Turns.chosen(plan.lock)
        self.runs: Counter[str] = Counter()

    def check(self) -> None:
        """Raise UsageError for a device that no backend offers; nothing is probed for it."""
        if self.plan.gpu != "auto":
            try:
                self.machine.devices.gpu  # noqa: B018 - looking the choice up is the check
            except GpuPerfError as error:
                raise pytest.UsageError(f"--gpuperf-gpu: {error}") from error

    def gpu(self, side: Side | None = None) -> TimedDevice:
        """Return the GPU, or end the test: a skip with the reason, an error where a GPU is required."""
        if self.machine.lost:
            pytest.fail(self.machine.lost, pytrace=False)
        try:
            return self.machine.gpu(side)
        except Unavailable as cause:
            reason = str(cause)
        if self.plan.require_gpu:
            pytest.fail(f"a GPU is required (--gpuperf-require-gpu): {reason}", pytrace=False)
        pytest.skip(reason)

    def walk(self, item: pytest.Function, shape: Shape, bind: Bind | None = None) -> None:
        """Measure one item, keep its record, and end the test as its verdict says."""
        self.settle(self.measure(item, shape, bind), item)
        self.comparisons.forget(shape)  # not of a test that failed: another plugin may run it again

    def watch(self, item: pytest.Function, shape: Shape, elapsed: float) -> None:
        """Measure a test that has passed, in further calls; whatever comes of them stays in its record."""
        if elapsed > self.plan.max_time / 8:
            reason = f"one call takes {elapsed:.1f} s, more than an eighth of --gpuperf-max-time"
            self.without_measurement(item, shape, "skipped", reason)
            return
        with self.timers.stopped(item), _as_it_was(item):  # the test itself has had its time
            try:
                self.measure(item, shape)
            except (KeyboardInterrupt, pytest.exit.Exception):
                raise
            except BaseException as error:  # noqa: BLE001 - it is in the record
                del error
        self.comparisons.forget(shape)

    def measure(self, item: pytest.Function, shape: Shape, bind: Bind | None = None) -> Record:
        """Measure one item and keep its record; exceptions of the body pass through."""
        plan = _quick(self.plan) if shape.source == "all" else self.plan
        trial = Trial(
            nodeid=shape.nodeid,
            demand=shape.demand,
            plan=plan,
            family=shape.family,
            take_turn=partial(self._turns.take, partial(self.timers.stopped, item)),
        )
        faulty: str | None = None
        try:
            found = self.comparisons.measure(
                trial, shape, bind or partial(bodies.bind, item.obj, bodies.fixtures(item), shape)
            )
        except GpuPerfError as error:
            trial.distrust()
            found = Verdict(status="error", reason=str(error))
        except BaseException as error:
            fault = self.machine.fault(error, trial.nodeid, trial.device)
            ended = self._explain(error, trial, fault)
            self.keep(self._placed(trial.record(ended.status, ended.reason), shape), item)
            if fault is None:
                raise
            faulty = ended.reason or fault.kind
        if faulty is not None:
            # Raised out here, so that no traceback keeps the arrays of the failed test alive.
            trial.forget()
            self.machine.release()
            pytest.fail(faulty, pytrace=False)
        if _is_traced():
            trial.notes.append(_TRACED)
        record = _diagnosed(self._placed(trial.record(found.status, found.reason), shape))
        trial.forget()  # pytest keeps the frames of a test that fails until the next one has run
        self.keep(record, item)
        return record

    def settle(self, record: Record, item: pytest.Function) -> None:
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
        """Keep the record of a speedup test that ended before it was measured."""
        record = Record(
            nodeid=shape.nodeid,
            status=status,
            reason=reason,
            demand=shape.demand,
            alpha=self.plan.alpha,
            family=shape.family,
            cpu=self.comparisons.left_for(shape),
        )
        self.keep(self._placed(record, shape), item)

    def disown(self, item: pytest.Item, shape: Shape, reason: str) -> None:
        """Take back what came of a test that failed beside its measurement: verdict, and what it left."""
        self.comparisons.distrust(shape)
        record = self.ledger.records.get(shape.nodeid)
        if record is not None and record.status in ("passed", "recorded", "inconclusive"):
            self.keep(replace(record, status="error", reason=reason), item)

    def learn(self, surveyed: dict[str, Any], told: Iterable[str]) -> None:
        """Take the environment that another process measured in, and which thresholds it told."""
        self.families.told.update(told)
        self.machine.learn(schema.load_environment(surveyed))

    def _placed(self, record: Record, shape: Shape) -> Record:
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
            return Verdict(status="skipped", reason=str(error) or "skipped in the test")
        where, what = trial.where, faults.first_line(error)
        if fault is not None and fault.kind == "out_of_memory":
            asked = f", {fault.requested:,} bytes were asked for" if fault.requested else ""
            return Verdict(status="error", reason=f"out of memory {where}{asked}: {what}")
        if fault is not None:
            return Verdict(status="error", reason=self.machine.lost or f"lost {where}: {what}")
        if not isinstance(error, Exception):
            return Verdict(status="error", reason=f"interrupted {where} by {what}")
        error.add_note(f"raised {where}")
        return Verdict(status="error", reason=f"{what}, raised {where}")


def _quick(plan: Plan) -> Plan:
    """Return a plan for tests that nobody asked for one by one: there may be thousands."""
    return replace(plan, record_time=0.05, precision_time=0.02, warmup_time=0.02, fresh_starts=0)


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


@contextmanager
def _as_it_was(item: pytest.Function) -> Iterator[None]:
    """Leave no trace of calls that the suite does not know of: draws, warnings, output, properties."""
    drawn, numpy = random.getstate(), sys.modules.get("numpy")
    numpy_drawn = numpy.random.get_state() if numpy else None
    properties = [pair for pair in item.user_properties if not pair[0].startswith("gpuperf.")]
    try:
        with warnings.catch_warnings(record=True), _unheard(item):
            yield
    finally:
        random.setstate(drawn)
        if numpy is not None:
            numpy.random.set_state(numpy_drawn)
        ours = [pair for pair in item.user_properties if pair[0].startswith("gpuperf.")]
        item.user_properties[:] = properties + ours


@contextmanager
def _unheard(item: pytest.Function) -> Iterator[None]:
    """Drop what is printed and logged at every call, but for a test that looks at it."""
    root, caplog = logging.getLogger(), item.funcargs.get("caplog")
    handlers, heard = root.handlers[:], getattr(caplog, "handler", None)
    with ExitStack() as stack:
        if not any(name in item.fixturenames for name in _CAPTURES):
            nowhere = stack.enter_context(Path(os.devnull).open("w", encoding="utf-8"))
            stack.enter_context(redirect_stdout(nowhere))
            stack.enter_context(redirect_stderr(nowhere))
        root.handlers[:] = [heard or logging.NullHandler()]
        stack.callback(root.handlers.__setitem__, slice(None), handlers)
        yield


def _is_traced() -> bool:
    """Say whether something follows the program line by line."""
    if sys.gettrace() is not None:
        return True
    monitoring: Any = getattr(sys, "monitoring", None)  # from Python 3.12 on
    return monitoring is not None and any(monitoring.get_tool(tool) for tool in _MONITORED)
