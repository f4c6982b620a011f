"""pytest's hooks around each test of a run that measures."""

from collections.abc import Callable, Generator, Iterable
from functools import partial
from textwrap import shorten
from time import perf_counter
from traceback import format_exc
from typing import NoReturn

import pytest
from _pytest._code.code import TracebackEntry
from msgspec.structs import replace

from pytest_gpuperf.collection.items import SPEC, WHY_NO_DEVICE, ItemSpec, parameters
from pytest_gpuperf.integrations import unittest_cases
from pytest_gpuperf.model import ask
from pytest_gpuperf.model.plain_text import first_line, message
from pytest_gpuperf.model.record import Record, Status, Verdict
from pytest_gpuperf.model.worker_keys import OUTCOME_ATTRIBUTE, RECORD_ATTRIBUTE
from pytest_gpuperf.report.terminal import progress
from pytest_gpuperf.report.words.totals import left_alone
from pytest_gpuperf.session import debugger
from pytest_gpuperf.session.cpu_variants import CpuRun
from pytest_gpuperf.session.finish_hooks import FinishHooks
from pytest_gpuperf.session.gpuperf_fixture import MEASURED
from pytest_gpuperf.session.no_gpu import NoDevice
from pytest_gpuperf.session.run_devices import SKIPS
from pytest_gpuperf.session.session import GpuPerfSession
from pytest_gpuperf.session.unmeasured_hooks import call_with_workload

_ERROR_BEFORE = pytest.StashKey[BaseException]()
"""What was raised before the setup, which raises it."""
_REFUSED = pytest.StashKey[BaseException]()
"""Why a test was stopped at its setup; what is raised may refer to another test for the words."""
_LONG = 100
_CPU_SECTIONS = pytest.StashKey[Iterable[tuple[str, str]]]()
"""What the report of a GPU variant says of a CPU variant that ran for it and failed."""


class RunHooks:
    """Measures speedup tests as pytest runs them; `plugin.py` has a table of all hooks and their order."""

    def __init__(self, config: pytest.Config) -> None:
        self.session = GpuPerfSession(config)
        self._records = self.session.records
        self.finish_hooks = FinishHooks(config, self.session)
        self.cpu_run = CpuRun()
        self._is_debugged = bool(config.getoption("trace", default=False))
        self._measures = self.session.ranks.measures
        self._shows_words = config.get_verbosity(pytest.Config.VERBOSITY_TEST_CASES) > 0  # -v
        self._running: pytest.Item | None = None
        self._subtest_errors: list[str] = []  # of the running test
        self._refused: dict[str, str] = {}  # by why: the first test that was stopped at its setup for it

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # around plugins that run a test again if it fails
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Begin a test, which may have run before in this session."""
        spec = item.stash.get(SPEC, None)
        if spec is not None:
            if item is not self.cpu_run.item:
                self.session.ranks.start(item, self.session.longest_time(spec))
            needs_cpu = self._measures and not (self.finish_hooks.runs_no_test or self._is_debugged)
            if spec.kind == "gpu" and needs_cpu:
                self._run_missing_cpu_variant(item, spec)
            self._records.runs[spec.nodeid] = 0
            if item is not self.cpu_run.item:
                self.session.cpu_variants.begin(spec)
                self._records.results.begin(spec.nodeid)
        return (yield)

    def _run_missing_cpu_variant(self, item: pytest.Item, spec: ItemSpec) -> None:
        """Run a GPU variant's CPU variant, where that has left no samples in this process.

        It was deselected, comes later, or ran in another process. The run has no record of it.
        """
        cpu = self.session.cpu_variants.missing_for(spec)
        if cpu is None:
            return
        try:
            if self.session.machine.lost or not self.session.machine.has_gpu(spec.device):
                return
            item.session._setupstate.teardown_exact(cpu)  # noqa: SLF001 - fixtures that it does not need
        except (KeyboardInterrupt, pytest.exit.Exception):
            raise
        except BaseException as error:  # noqa: BLE001 - this is no phase of a test: it is raised in the setup
            item.stash[_ERROR_BEFORE] = error
            return
        records, nodeid = self._records.by_nodeid, cpu.stash[SPEC].nodeid
        earlier = records.get(nodeid)
        try:
            reports = self.cpu_run.run(cpu, item)
        finally:
            ended = records.pop(nodeid, None)
            if earlier is not None:
                records[nodeid] = earlier
        if ended is not None:
            self.session.cpu_variants.end(cpu.stash[SPEC], ended)
        item.stash[_CPU_SECTIONS] = [
            (f"CPU variant {cpu.nodeid}, {report.when}", report.longreprtext)
            for report in reports
            if report.failed
        ]

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Stop a test that cannot be measured before its fixtures are set up."""
        spec = item.stash.get(SPEC, None)
        if spec is None:
            if self.session.machine.lost and _uses_gpu(item):
                pytest.fail(self.session.machine.lost, pytrace=False)
            return
        self._records.runs[spec.nodeid] += 1
        if MEASURED in item.stash:  # by an earlier run of the test, which failed before its call
            del item.stash[MEASURED]
        if (error := item.stash.get(_ERROR_BEFORE, None)) is not None:
            del item.stash[_ERROR_BEFORE]
            raise error
        if spec.problem is not None:
            self._refuse(item, spec.problem)
        if self.session.ranks.refusal is not None and spec.source != "all":
            self._refuse(item, self.session.ranks.refusal)
        if spec.stand_in_taken is not None:
            self.session.devices.none(spec.stand_in_taken)
        if spec.source == "all" or unittest_cases.is_skipped(item):
            return
        if not spec.has_device:
            no_device = item.stash[WHY_NO_DEVICE]
            if spec.demand.bare:
                self._records.without_measurement(item, spec, Verdict(status="error", reason=no_device))
                return
            self._refuse(item, no_device)
        runs_tests = not self.finish_hooks.runs_no_test
        if runs_tests and (reason := self.session.runner.missing_counterpart_reason(spec)) is not None:
            unknown = self._records.unknown_values  # the other variant may be among these
            self._refuse(item, f"{left_alone(unknown)}; {reason}" if unknown else reason)
        if spec.scaling is not None and spec.is_in_ranks:
            self.session.devices.gpu()
            self.session.devices.require_ranks(spec.scaling.count)
            return
        if spec.scaling is not None and self._measures:
            self.session.devices.group(spec.scaling.count)
            return
        must_have_gpu = self.session.machine.lost or self.session.options.require_gpu
        if spec.kind == "gpu" or (must_have_gpu and spec.kind is None):
            self.session.devices.gpu(spec.device or spec.accelerator)
        if spec.kind != "gpu":
            self.session.devices.cpu(spec.device or spec.accelerator)

    def _refuse(self, item: pytest.Item, reason: str) -> NoReturn:
        """Stop a test at its setup; a long reason that others have, too, is shown once."""
        item.stash[_REFUSED] = pytest.fail.Exception(reason, pytrace=False)
        first = self._refused.setdefault(reason, item.nodeid)
        if first != item.nodeid and len(reason) > _LONG:
            reason = f"{shorten(reason, _LONG, placeholder=' ...')} (as {first}, which says it in full)"
        pytest.fail(reason, pytrace=False)

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> object | None:
        """Measure a marked test instead of calling it."""
        spec = pyfuncitem.stash.get(SPEC, None)
        if spec is None or not (spec.slots or spec.device) or spec.source == "all":
            return None
        if self._is_debugged:
            debugger.call(pyfuncitem, spec, self.session.devices)
        elif not self._measures:
            self.session.run_once(pyfuncitem, spec)
        else:
            self.session.measure_and_apply(pyfuncitem, spec)
        return True

    @pytest.hookimpl(wrapper=True, trylast=True)  # within pytest's own, which capture output and logs
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        """Measure what pytest_pyfunc_call does not call, and fail what passed without being measured."""
        spec = item.stash.get(SPEC, None)
        if spec is None or not isinstance(item, pytest.Function):
            return (yield)
        self._prepare(item, spec)
        started = perf_counter()
        self._running = item
        try:
            yield
        except BaseException as error:
            if MEASURED in item.stash and not isinstance(error, SKIPS):
                self._records.invalidate(item, spec, first_line(error))
            raise
        finally:
            self._running = None
            measured = item.stash.get(MEASURED, None)
            if measured is not None:
                del item.stash[MEASURED]
        elapsed = perf_counter() - started
        around = [error for error in unittest_cases.failures_around(item) if not isinstance(error, SKIPS)]
        errors_outside = [*self._subtest_errors, *map(first_line, around)]
        if errors_outside:
            self._records.invalidate(item, spec, errors_outside[0])
        self._apply_outcome(item, spec, elapsed, measured)

    def _prepare(self, item: pytest.Function, spec: ItemSpec) -> None:
        """Discard what an earlier run of the test left, and let unittest's method be measured."""
        self._subtest_errors.clear()
        if spec.has_device and MEASURED not in item.stash:  # a fixture of this run may have called `both`
            self._records.by_nodeid.pop(spec.nodeid, None)
        is_called = spec.device is not None and spec.source != "all" and not self._is_debugged
        if not (is_called and unittest_cases.is_called(item)):
            return
        if self._measures:
            unittest_cases.measure_instead(item, partial(self.session.measure_and_apply, item, spec))
        else:
            unittest_cases.call_instead(item, partial(self._call_once, item, spec))

    def _call_once(self, item: pytest.Function, spec: ItemSpec, method: Callable[[], object]) -> None:
        """Call a unittest's method on a rank that does not measure; `tearDown` may need the other ranks."""
        call_with_workload(method)
        self.session.meet_ranks(item, spec)

    def _apply_outcome(
        self, item: pytest.Function, spec: ItemSpec, elapsed: float, measured: Record | None
    ) -> None:
        """End a test whose body has passed, by what gpuperf.both has `measured` if it was called."""
        if not self._measures:
            return
        if self._is_debugged:
            self._records.without_measurement(item, spec, debugger.NOT_MEASURED)
        elif spec.source == "all":
            self.session.measure_unmarked(item, spec, elapsed)
        elif measured is not None:
            self.session.apply_verdict(measured, item)
        elif spec.calls_both:
            pytest.fail("not measured: the test never called gpuperf.both", pytrace=False)
        elif spec.nodeid not in self._records.by_nodeid and not unittest_cases.failures(item):
            pytest.fail("not measured: another plugin executed the test function itself", pytrace=False)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Store a record for every marked test, and send it along with the last of the test's reports."""
        if call.excinfo is not None:
            self._record_raised(item, call.when, call.excinfo)
        report = yield
        if (spec := item.stash.get(SPEC, None)) is None:
            return report
        if spec.problem is not None and hasattr(report, "wasxfail"):  # an expected failure is no wrong marker
            del report.wasxfail
            report.outcome, report.longrepr = "failed", spec.problem
        if not self._measures:
            if call.when == "call" and call.excinfo is None and report.failed:
                # A strict xfail, which has not failed here: whether it does shows on rank 0.
                report.outcome, report.longrepr = "passed", None
            return report
        if report.failed:
            report.sections += item.stash.get(_CPU_SECTIONS, ())
        if call.when == "call" and spec.nodeid not in self._records.by_nodeid:
            self._record_reported(item, spec, report)
        is_expected = report.skipped and hasattr(report, "wasxfail")
        if is_expected:
            self._record_expected_failure(spec)
        # Of a skip pytest shows the reason, and the line of an unmarked test stays as it is.
        has_word = spec.source != "all" and (not report.skipped or is_expected)
        if call.when == "call" and self._shows_words and has_word:
            setattr(report, OUTCOME_ATTRIBUTE, progress.outcome(self._records.by_nodeid[spec.nodeid]))
        if call.when == "teardown":
            self._send(item, spec, report)
        return report

    def _record_raised(
        self, item: pytest.Item, phase: str, raised: pytest.ExceptionInfo[BaseException]
    ) -> None:
        """Store what a phase of a marked test raised; during the call, a subtest reports here too."""
        error, is_skip = raised.value, isinstance(raised.value, SKIPS)
        if not is_skip:
            self.session.machine.fault(error, item.nodeid)  # an unmarked test may lose the GPU, too
        if phase == "call" and not item.config.getoption("fulltrace"):
            _leave_out_our_frames(raised)
        if (spec := item.stash.get(SPEC, None)) is None or not self._measures:
            return
        if not is_skip and self._running is item:
            self._subtest_errors.append(f"a subtest failed: {first_line(error)}")
        if not is_skip and phase == "teardown":
            self._records.invalidate(item, spec, f"its teardown failed: {first_line(error)}")
        if phase == "setup" or spec.nodeid not in self._records.by_nodeid:
            told = item.stash.get(_REFUSED, error) if phase == "setup" else error
            ended = Verdict(
                status="skipped" if is_skip else "error",
                reason=message(told) or type(error).__name__,
                reason_code=error.code if isinstance(error, NoDevice) else None,
            )
            self._records.without_measurement(item, spec, ended)

    def _record_reported(self, item: pytest.Item, spec: ItemSpec, report: pytest.TestReport) -> None:
        """Store how a call ended that raised nothing here: unittest keeps that in the report."""
        status: Status = "skipped" if report.skipped else "error"
        self._records.without_measurement(item, spec, Verdict(status=status, reason=_end_reason(report)))

    def _record_expected_failure(self, spec: ItemSpec) -> None:
        """Store that a test failed as was expected; one that was not run, or ended itself, is a skip."""
        record = self._records.by_nodeid.get(spec.nodeid)
        if record is not None and record.status != "skipped":
            self._records.keep(replace(record, expected_failure=True))

    def _send(self, item: pytest.Item, spec: ItemSpec, report: pytest.TestReport) -> None:
        """Send a test's record along with its last report, and hand it to other plugins."""
        record = self._records.by_nodeid.get(spec.nodeid)
        if record is None:
            return
        setattr(report, RECORD_ATTRIBUTE, self._records.attach(spec.nodeid))
        if item is not self.cpu_run.item:
            _hand_over(item, record, report)


def _leave_out_our_frames(raised: pytest.ExceptionInfo[BaseException]) -> None:
    """Let pytest show what a workload raised without our frames around its own; those that raise are shown.

    pytest itself begins at the test's file, of which a callable of another module has no frame.
    """
    own = [_is_ours(entry) for entry in raised.traceback]
    last_of_others = max((index for index, is_ours in enumerate(own) if not is_ours), default=0)
    is_hidden = iter([is_ours and index < last_of_others for index, is_ours in enumerate(own)])
    raised.traceback = raised.traceback.filter(lambda _: not next(is_hidden))


def _is_ours(entry: TracebackEntry) -> bool:
    module = entry.frame.f_globals.get("__name__")
    return ask.is_really(module, str) and str.__str__(module).partition(".")[0] == "pytest_gpuperf"


def _uses_gpu(item: pytest.Item) -> bool:
    """Return whether an unmarked test uses our GPU; its `device` may be anything of the suite's own."""
    requested = ask.attribute(item, "fixturenames", ())
    return "gpu" in requested or ask.is_one_of(parameters(item).get("device"), ("gpu",))


def _hand_over(item: pytest.Item, record: Record, report: pytest.TestReport) -> None:
    """Call the hook for a record; what it raises fails the test's last report, and nothing else."""
    try:
        item.ihook.pytest_gpuperf_record(item=item, record=record)
    except (KeyboardInterrupt, pytest.exit.Exception):
        raise
    except BaseException:  # noqa: BLE001 - pytest.fail, too: pytest ends a run for what this hook of its own raises
        shown = f"pytest_gpuperf_record failed for this test:\n{format_exc()}"
        report.longrepr = "\n".join(filter(None, (report.longreprtext, shown)))
        report.outcome = "failed"


def _end_reason(report: pytest.TestReport) -> str:
    """Return why a test was skipped, or the last line of what pytest shows of its failure."""
    if isinstance(report.longrepr, tuple):  # of a skip: file, line and reason
        return report.longrepr[2].removeprefix("Skipped: ")
    return report.longreprtext.strip().rpartition("\n")[2] or report.outcome
