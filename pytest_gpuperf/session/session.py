"""The state of one run: measures each speedup test, stores its record, and ends the test by its verdict."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from pytest_gpuperf import options
from pytest_gpuperf.analysis import diagnosis, threshold
from pytest_gpuperf.collection.finder import registered_backends
from pytest_gpuperf.collection.items import ItemSpec
from pytest_gpuperf.devices import doubts, environment
from pytest_gpuperf.devices.machine import Machine
from pytest_gpuperf.gate import what_fails
from pytest_gpuperf.gate.baseline import comparable_tests
from pytest_gpuperf.gate.gate import Gate
from pytest_gpuperf.gate.remedy import Plan
from pytest_gpuperf.gate.what_fails import Rules
from pytest_gpuperf.integrations.collectives import Collectives
from pytest_gpuperf.integrations.launchers import OF_PYTEST
from pytest_gpuperf.integrations.pytest_timeout import TimeoutPauser
from pytest_gpuperf.model.comparison import GateOptions
from pytest_gpuperf.model.errors import (
    BackendWarning,
    Fault,
    GpuPerfError,
    InconclusiveWarning,
    NotComparableWarning,
    is_outcome,
)
from pytest_gpuperf.model.metrics import TABLE
from pytest_gpuperf.model.offload import Threshold
from pytest_gpuperf.model.plain_text import first_line, message
from pytest_gpuperf.model.record import Environment, Note, Record, Report, Verdict
from pytest_gpuperf.report import files, outputs, reader
from pytest_gpuperf.report.json import codec
from pytest_gpuperf.session import hints, live_line, timed_call
from pytest_gpuperf.session.cpu_variants import CpuVariants
from pytest_gpuperf.session.item_runner import ItemRunner
from pytest_gpuperf.session.live_line import LiveLine
from pytest_gpuperf.session.no_gpu import NoDevice
from pytest_gpuperf.session.ranks import roles, run_once
from pytest_gpuperf.session.ranks.roles import RankFailed
from pytest_gpuperf.session.records import RecordStore
from pytest_gpuperf.session.run_devices import SKIPS, RunDevices
from pytest_gpuperf.timing import rounds
from pytest_gpuperf.timing.lock import LockHold, MeasurementLock, OnWait
from pytest_gpuperf.timing.scaling_question import ScalingQuestion
from pytest_gpuperf.timing.time_budget import AcquireLock
from pytest_gpuperf.timing.trial import Trial
from pytest_gpuperf.work.first_call import Bind
from pytest_gpuperf.work.workload import is_raised_by_reset

_TRACED = (
    "coverage, a debugger or a profiler traces the timed code, which distorts the times (with pytest-cov, "
    "use --no-cov)"
)
_MOST_KEPT = 16  # CPU variants in a worker of pytest-xdist, whose GPU variants may run in another one
_RAN_OUT = (
    "where the workload takes a new input from an iterator in each call, it has run out: how often it is "
    "called is not known before; use itertools.cycle (with check=False if the "
    "inputs differ), or make the input in the call"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ended:
    """How a measurement ended: its verdict, and the `failure` with which the test ends once it is stored."""

    verdict: Verdict
    failure: BaseException | None = None
    is_by_fault: bool = False  # of the device


class GpuPerfSession:
    """The state of one run, made from its options: UsageError for a wrong one, before the first test.

    Later errors for the user leave it as GpuPerfError or as pytest's outcomes. `size_groups` has the ids of
    the tests of each size group that will run here, `reported` the thresholds that a test has reported.
    """

    def __init__(self, config: pytest.Config) -> None:
        gate = options.gate_options(config)
        self.ranks = roles.of_run(config)
        try:
            wanted = options.outputs(config)
            self.outputs = outputs.checked(wanted, config.hook.pytest_gpuperf_reports, gate.baseline)
        except GpuPerfError as error:
            raise options.usage_error(config, str(error)) from error
        try:
            candidates = _baselines(gate)
        except GpuPerfError as error:
            raise options.wrong(config, "--gpuperf-baseline", error) from error
        run_options = options.run_options(config)
        is_named = run_options.lock not in ("auto", "none")
        if is_named and (problem := files.why_no_lock(Path(run_options.lock))) is not None:
            raise options.wrong(config, "--gpuperf-lock", problem)
        self.options = replace(run_options, sampling=rounds.for_gate(run_options.sampling, gate))
        self.gate = Gate(
            gate,
            candidates,
            self._environment,
            plan=Plan(run_options.max_time, run_options.sampling.slow_time),
        )
        self.records = RecordStore(self.outputs.report)
        self.size_groups: dict[str, set[str]] = {}
        self.reported: set[str] = set()
        self.machine = Machine(
            self.options.gpu,
            partial(registered_backends, config),
            self.ranks.local if self.ranks.launch else _worker_number(config),
            options.gpu_setting(config),
            required=self.options.require_gpu,
        )
        self.cpu_variants = CpuVariants(
            self.records.by_nodeid, most_kept=_MOST_KEPT if hasattr(config, "workerinput") else None
        )
        self.devices = RunDevices(self.machine, self.options, self.ranks, _option_without_ranks(config))
        self.runner = ItemRunner(self.options, self.devices, self.cpu_variants)
        self.timers = TimeoutPauser()
        self._lock = MeasurementLock.from_option(self.options.lock)
        self.is_controller = config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput")
        self._live_line: LiveLine | None = None
        self._warned_differences: set[str] = set()

    def check(self, config: pytest.Config) -> None:
        """Raise UsageError for a --gpuperf-gpu that no backend offers, or without its library.

        So it is for one that emulates a GPU where one is required. This opens no device.
        """
        if self.options.gpu == "auto":
            return
        try:
            missing = self.machine.choice.missing()
        except GpuPerfError as error:
            raise options.wrong(config, "--gpuperf-gpu", error) from error
        if self.options.require_gpu and not self.options.off and self.machine.choice.emulates():
            raise options.emulates(config, self.options.gpu)
        if missing and options.requires_library(config):
            skips = "--gpuperf-allow=no-gpu skips the tests instead"
            raise options.wrong(config, "--gpuperf-gpu", f"{missing}; {skips}")

    def prepare(self, config: pytest.Config) -> None:
        """Import and make what the first measured test would wait for; look for a terminal to show it on."""
        self._lock.prepare()
        environment.prepare()
        codec.prepare(Record)
        self._live_line = live_line.of_run(config)

    def measure_and_apply(self, item: pytest.Function, spec: ItemSpec, bind: Bind | None = None) -> None:
        """Measure one item, store its record, and end the test as its verdict requires."""
        self.apply_verdict(self.measure(item, spec, bind), item)
        self.cpu_variants.release(spec)  # not after a failure: another plugin may run the test again

    def measure_unmarked(self, item: pytest.Function, spec: ItemSpec, elapsed: float) -> None:
        """Measure a test that has passed, in further calls; whatever fails in them is only recorded.

        Its baseline fails it, and nothing else does.
        """
        if elapsed > self.options.max_time / 8:
            reason = f"one call takes {elapsed:.1f} s, more than an eighth of --gpuperf-max-time"
            ended = Verdict(status="skipped", reason=reason, reason_code="call_too_long")
            self.apply_verdict(self.records.without_measurement(item, spec, ended), item)
            return
        sampling = self.options.sampling
        longest = max(self.options.max_time, (sampling.slow_time or 0.0) if sampling.compared else 0.0)
        try:
            with self.timers.begun_anew(item, longest), timed_call.isolated(item):
                self.measure(item, spec)
        except (KeyboardInterrupt, pytest.exit.Exception):
            raise
        except BaseException:  # noqa: BLE001, S110 - it is in the record
            pass
        self.cpu_variants.release(spec)
        if (record := self.records.by_nodeid.get(spec.nodeid)) is not None:
            self.apply_verdict(record, item)

    def measure(self, item: pytest.Function, spec: ItemSpec, bind: Bind | None = None) -> Record:
        """Measure one item and store its record; exceptions of the body pass through."""
        if spec.kind is None and spec.source != "all" and spec.scaling is None:
            # It fails the test, or warns, for a broken GPU; without any the CPU is timed.
            self.devices.look_for_gpu(spec.accelerator)
        trial = self._trial(item, spec)
        ended = self._ended(trial, item, spec, bind)
        if spec.is_in_ranks:
            cause, is_skip = _told_to_ranks(ended, spec)
            self.ranks.end_calls(cause, is_skip=is_skip)
        self.ranks.end(item)
        record = self.records.completed(trial.record(ended.verdict), spec)
        if ended.failure is None:
            record = self._explained(record, spec, item)
        record = self.records.keep(record, item)
        trial.release()  # pytest keeps the frames of a test that fails until the next one has run
        if ended.is_by_fault:
            self.machine.release()
        if ended.failure is not None:
            try:
                raise ended.failure
            finally:
                del ended  # else the traceback of what is raised keeps this frame alive, and this frame that
        return record

    def _ended(self, trial: Trial, item: pytest.Function, spec: ItemSpec, bind: Bind | None) -> _Ended:
        """Measure one item, and return how that ended, whatever it raised."""
        try:
            verdict = self.runner.measure(trial, spec, bind or timed_call.bind_of(item, spec))
        except GpuPerfError as refusal:
            trial.discard_estimate()
            reason = str(refusal)
            skip = self.runner.without_gpu(refusal, reason, trial, spec)
            return _Ended(verdict=skip or Verdict(status="error", reason=reason))
        except RankFailed as failed:
            failure = pytest.fail.Exception(str(failed), pytrace=False)
            return _Ended(verdict=Verdict(status="error", reason=str(failed)), failure=failure)
        except BaseException as raised:  # noqa: BLE001 - it is raised again, once the record is stored
            return self._raised(raised, trial, spec, item)
        finally:
            if self._live_line is not None:
                self._live_line.erase()
        return _Ended(verdict=verdict)

    def _raised(self, error: BaseException, trial: Trial, spec: ItemSpec, item: pytest.Function) -> _Ended:
        """Return how a measurement ended that raised; the exception gets what explains it as notes."""
        fault = self.machine.fault(error, trial.nodeid, trial.sides.at_work)
        verdict = self._verdict_of_error(error, trial, fault)
        if fault is not None:  # what was raised keeps the arrays of the test alive, and goes
            failure = pytest.fail.Exception(str(verdict.reason), pytrace=False)
            return _Ended(verdict=verdict, failure=failure, is_by_fault=True)
        below = spec.scaling.count if spec.is_in_ranks and spec.scaling is not None else 0
        if isinstance(error, KeyboardInterrupt) and (by_rank := self.ranks.why_ended(below)) is not None:
            verdict = replace(verdict, reason=f"{by_rank}; {verdict.reason}")  # for which a launcher ends all
        if is_outcome(error):
            return _Ended(verdict=verdict, failure=error)
        explained = [*self._hints(error, trial, spec, item), *filter(None, [self.ranks.why_ended(below)])]
        for hint in explained:
            error.add_note(hint)
        reason = "; ".join(filter(None, [*explained, verdict.reason]))  # a table cuts what is long
        skip = self.runner.without_gpu(error, reason, trial, spec)
        return _Ended(verdict=verdict, failure=error) if skip is None else _Ended(verdict=skip)

    def _explained(self, record: Record, spec: ItemSpec, item: pytest.Function) -> Record:
        """Return a record with what explains its numbers, and how they compare with the baseline's."""
        if timed_call.is_traced():
            record = replace(record, notes=(*record.notes, Note(code="slowed_by_settings", text=_TRACED)))
        record = diagnosis.annotate(
            record, lambda: (environment.usable_processors(), environment.pool_threads())
        )
        return self.gate.with_comparisons(hints.annotate(record, spec, item))

    def _trial(self, item: pytest.Function, spec: ItemSpec) -> Trial:
        limits = self.gate.limits(spec.nodeid)
        sampling = rounds.for_test(self.options.sampling, self.gate.options, limits)
        if spec.source == "all":
            sampling = rounds.for_unmarked(sampling, self.gate.options)
        return Trial(
            nodeid=spec.nodeid,
            demand=spec.demand,
            options=replace(self.options, sampling=sampling),
            question=ScalingQuestion(spec.scaling) if spec.scaling else None,
            size_group=spec.size_group,
            acquire_lock=self._acquire_lock(item, spec),
            after_first_run=self._after_first_run(item, spec),
            limits=limits,
            other_limit=self.timers.limit(),
            on_round=self._live_line.begin(spec.nodeid) if self._live_line else None,
        )

    def _acquire_lock(self, item: pytest.Item, spec: ItemSpec) -> AcquireLock:
        """Return what waits for the right to measure; in a test with ranks the others work, too."""
        on_wait = partial(self.waiting, item)
        if spec.is_in_ranks:
            return partial(self._with_ranks, on_wait)
        return partial(roles.in_turn, self.ranks, self.max_time(spec), self._lock.acquire, on_wait)

    def max_time(self, spec: ItemSpec) -> float:
        """Return the seconds that a test may be measured for."""
        return spec.demand.max_time or self.options.max_time

    def longest_time(self, spec: ItemSpec) -> float:
        """Return for how many seconds a test may be measured where its calls are slow."""
        sampling = self.options.sampling
        slow = sampling.slow_time if sampling.compared and spec.demand.max_time is None else None
        return max(self.max_time(spec), slow or 0.0)

    @contextmanager
    def _with_ranks(self, on_wait: OnWait) -> Iterator[LockHold]:
        """Hold the lock, while the other ranks know that this one waits for it, or measures."""

        @contextmanager
        def waiting() -> Iterator[None]:
            self.ranks.note_wait()
            with on_wait():
                yield

        with self._lock.acquire(waiting) as hold:
            self.ranks.note_start()
            yield hold

    def run_once(self, item: pytest.Function, spec: ItemSpec) -> None:
        """Run a test on a rank that does not measure."""
        # The limit of a test in which all work is that of rank 0.
        limit = self.timers.stopped(item) if spec.is_in_ranks else nullcontext()
        with limit, self._lock.acquire() if self.ranks.takes_turns else nullcontext():
            run_once.call(item, spec, self.devices, self.ranks)

    def meet_ranks(self, item: pytest.Item, spec: ItemSpec) -> None:
        """Release the ranks that wait for a test to be measured, or wait for that."""
        if self.ranks.end(item):
            with self.timers.stopped(item):
                self.ranks.wait(self.max_time(spec))

    def _after_first_run(self, item: pytest.Function, spec: ItemSpec) -> Callable[[], None]:
        """Return what refuses a test after its first run that other ranks would have to run as often."""
        if self.ranks.launch is None or spec.is_in_ranks:
            return lambda: None
        return partial(run_once.require_own_calls, Collectives(item))

    @contextmanager
    def waiting(self, item: pytest.Item, words: str = live_line.WAITS) -> Iterator[None]:
        """Wait for another process that measures, outside the time limits of a test."""
        if self._live_line is not None:
            self._live_line.show_wait(item.nodeid, words)
        with self.timers.stopped(item):
            yield

    def apply_verdict(self, record: Record, item: pytest.Function) -> None:
        """End the test: pass, warn, skip or fail; the last test of a size group reports its threshold too."""
        threshold = self._threshold_after(record)
        if threshold is not None:
            self.reported.add(threshold.name)
        for doubt in doubts.take():
            self._warn(item, BackendWarning(doubt))
        self._warn_of_differences(record, item)
        rules = Rules(gate=self.gate.options, run=self.options)
        end = what_fails.decide(record, threshold, rules, self.gate.failures(record, self.options))
        is_marked = record.source != "all"
        for warning in end.warnings if is_marked else ():
            self._warn(item, InconclusiveWarning(warning))
        if end.failure is not None:
            pytest.fail(end.failure, pytrace=False)
        if end.skip is not None and is_marked:
            raise pytest.skip.Exception(end.skip, _use_item_location=True)

    def _threshold_after(self, record: Record) -> Threshold | None:
        """Return the threshold of a size group, if this record is of its last member."""
        name = record.size_group.name if record.size_group else ""
        members, records = self.size_groups.get(name, set()), self.records.by_nodeid
        if record.nodeid not in members or not members <= records.keys():
            return None
        of_group = (each for each in records.values() if each.size_group and each.size_group.name == name)
        return next(iter(threshold.find(of_group)), None)

    def _environment(self) -> Environment:
        """Return the environment of the measurements, with the GPU that this process can use."""
        if not self.is_controller:  # whose workers measure
            self.machine.has_gpu()
        return self.machine.environment()

    def _warn_of_differences(self, record: Record, item: pytest.Item) -> None:
        """Warn once of each difference that makes a baseline not comparable."""
        for comparison in record.comparisons:
            differences = "; ".join(comparison.differences)
            if self.gate.options.is_gate and differences and differences not in self._warned_differences:
                self._warned_differences.add(differences)
                self._warn(item, NotComparableWarning(comparison.reason or differences))

    @staticmethod
    def _warn(item: pytest.Item, warning: Warning) -> None:
        if (failure := failure_by(item.warn, warning)) is not None:
            pytest.fail(failure, pytrace=False)

    def _verdict_of_error(self, error: BaseException, trial: Trial, fault: Fault | None) -> Verdict:
        """Return how a test ended that raised, with the device's fault if there is one.

        The exception gets a note with the device's name, which pytest shows below its traceback. An outcome
        stays as it is.
        """
        if isinstance(error, SKIPS):
            code = error.code if isinstance(error, NoDevice) else None
            return Verdict(status="skipped", reason=message(error) or "skipped in the test", reason_code=code)
        where = trial.where
        if is_raised_by_reset(error):
            where = f"{where} by the workload's reset"
        what = first_line(error)
        if fault is not None and fault.kind == "out_of_memory":
            size = f" ({fault.requested:,} bytes requested)" if fault.requested else ""
            if fault.free is not None:
                size = f" (the device had {fault.free:,} bytes free)"
            reason = f"out of memory {where}{size}: {what}"
            return Verdict(status="error", reason=reason, reason_code="out_of_memory")
        if fault is not None:
            reason = self.machine.lost or f"lost {where}: {what}"
            return Verdict(status="error", reason=reason, reason_code="gpu_lost")
        if is_outcome(error) and not isinstance(error, GeneratorExit):
            reason = f"interrupted {where} by {what}"
            if (explained := trial.ended_by_other_limit) is not None:
                error.add_note(explained)
                reason = f"{reason}; {explained}"
            return Verdict(status="error", reason=reason)
        error.add_note(f"raised {where}")
        return Verdict(status="error", reason=f"{what}, raised {where}")

    @staticmethod
    def _hints(error: BaseException, trial: Trial, spec: ItemSpec, item: pytest.Function) -> Iterator[str]:
        """Yield what may explain an exception of a test."""
        if isinstance(error, StopIteration):
            yield _RAN_OUT
        elif (hint := hints.hint_on_device(error, trial.sides.at_work) or trial.hint) is not None:
            yield hint
        if (hint := hints.of_error(error, spec, item)) is not None:
            yield hint


def _told_to_ranks(ended: _Ended, spec: ItemSpec) -> tuple[str | None, bool]:
    """Return why a test was not measured, None where it was; and whether it is a skip, as it is here."""
    status = ended.verdict.status
    if status not in ("error", "skipped"):
        return None, False
    is_skip = status == "skipped" or (ended.failure is None and spec.demand.bare)
    return ended.verdict.reason or "it says no reason", is_skip


def failure_by(warn: Callable[[Warning], None], warning: Warning) -> str | None:
    """Warn; where warnings are errors, return the failure in one line, without a traceback of ours."""
    try:
        warn(warning)
    except Warning as raised:
        return f"{raised} ({type(raised).__name__}, and the suite makes warnings errors)"
    return None


def _baselines(gate: GateOptions) -> tuple[Report, ...]:
    """Return the reports that a run may be compared with, newest first; raise GpuPerfError without any."""
    path = gate.baseline
    if path is None:
        return ()
    if (problem := files.why_broken(path)) is not None:
        raise GpuPerfError(problem)
    reports = reader.load_reports(path) if path.exists() else ()
    usable = tuple(report for report in reports if comparable_tests(report.run, gate.compared))
    if gate.create and (path.is_dir() or not reports):
        problem = files.why_no_new_file(path)
    elif not reports:
        missing = f"folder {path} contains no report" if path.is_dir() else f"{path} does not exist"
        problem = f"{missing}; --gpuperf-baseline-missing=create creates one"
        if any(TABLE[tolerance.metric].needs_gpu for tolerance in gate.compared):
            problem += (
                " on a machine with a GPU; with --gpuperf-allow=no-gpu, too, a runner without one passes"
            )
    elif not usable:
        metrics = ", ".join(tolerance.metric for tolerance in gate.compared)
        remedy = "create it on a machine that has the GPU"
        problem = f"{path} has no test with a {metrics} to compare with; {remedy}"
    if problem is not None:
        raise GpuPerfError(problem)
    return usable


def _option_without_ranks(config: pytest.Config) -> str | None:
    """Return the option with which this run starts no ranks; None where it may."""
    if OF_PYTEST in os.environ:  # which pytest started for one rank, or a test of such a rank did
        return OF_PYTEST
    if hasattr(config, "workerinput"):
        return "-n"
    asked = {"--pdb": "usepdb", "--trace": "trace"}
    return next((flag for flag, name in asked.items() if config.getoption(name, default=False)), None)


def _worker_number(config: pytest.Config) -> int | None:
    """Return the number in the name of this pytest-xdist worker, 3 in `gw3`; None outside a worker."""
    number = getattr(config, "workerinput", {}).get("workerid", "").removeprefix("gw")
    return int(number) if number.isdecimal() else None
