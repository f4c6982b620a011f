"""pytest's hooks for a run that has something to measure; registered when the first such thing is seen."""

from collections.abc import Generator
from functools import partial
from time import perf_counter

import pytest

from pytest_gpuperf import schema
from pytest_gpuperf.collection.items import SHAPE, ItemSpec
from pytest_gpuperf.devices import errors
from pytest_gpuperf.integrations import unittest_cases
from pytest_gpuperf.model.record import Status, Verdict
from pytest_gpuperf.session.finish_hooks import ATTRIBUTE, FinishHooks
from pytest_gpuperf.session.gpuperf_fixture import MEASURED
from pytest_gpuperf.session.session import SKIPS, GpuPerfSession, NoGpu

__all__ = ["RunHooks"]

_NO_DEVICE = (
    "a speedup test needs a device: take the fixture device or xp, parametrize the test over devices or "
    "array libraries (gpuperf_device_params names such parameters), use gpuperf.both, or join tests with pair"
)


class RunHooks:
    """Passes what pytest says on to the session, and what the session finds on to pytest."""

    def __init__(self, config: pytest.Config, session: GpuPerfSession) -> None:
        self.session = session
        self.closing = FinishHooks(config, session)
        self._dry = config.option.collectonly or config.option.setuponly or config.option.setupplan
        self._running: pytest.Item | None = None
        self._broken: list[str] = []  # what subtests of the running test have raised

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Stop a test that cannot be measured before its fixtures are made."""
        shape = shape_of(item)
        if shape is None:
            if self.session.machine.lost and uses_gpu(item):
                pytest.fail(self.session.machine.lost, pytrace=False)
            return
        self.session.runs[shape.nodeid] += 1
        if shape.source == "all" or unittest_cases.is_skipped(item):
            return
        if not shape.has_device:
            if shape.demand.bare:
                self.session.without_measurement(item, shape, Verdict(status="error", reason=_NO_DEVICE))
                return
            pytest.fail(_NO_DEVICE, pytrace=False)
        lonely = None if self._dry else self.session.comparisons.lonely(shape)
        if lonely is not None:
            pytest.fail(lonely, pytrace=False)
        required = self.session.machine.lost or self.session.plan.require_gpu
        if shape.kind == "gpu" or (required and shape.kind is None):
            self.session.gpu(shape.side)

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> object | None:
        """Measure a marked test instead of calling it."""
        shape = shape_of(pyfuncitem)
        if shape is None or not (shape.slots or shape.side) or shape.source == "all":
            return None
        self.session.walk(pyfuncitem, shape)
        return True

    @pytest.hookimpl(wrapper=True, trylast=True)  # within pytest's own, that capture output and logs
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        """Measure what is not called by pytest_pyfunc_call, and fail what passed without being measured."""
        shape = shape_of(item)
        if shape is None or not isinstance(item, pytest.Function):
            return (yield)
        if shape.has_device:
            self.session.ledger.records.pop(shape.nodeid, None)
            self.session.comparisons.distrust(shape)
            if MEASURED in item.stash:
                del item.stash[MEASURED]
        if unittest_cases.is_called(item) and shape.side is not None and shape.source != "all":
            unittest_cases.measure_instead(item, partial(self.session.walk, item, shape))
        started = perf_counter()
        self._broken.clear()
        self._running = item
        try:
            yield
        except BaseException as error:
            if MEASURED in item.stash and not isinstance(error, SKIPS):
                self.session.disown(item, shape, errors.first_line(error))
            raise
        finally:
            self._running = None
        around = [error for error in unittest_cases.failures_around(item) if not isinstance(error, SKIPS)]
        if wrong := [*self._broken, *map(errors.first_line, around)]:
            self.session.disown(item, shape, wrong[0])
        if shape.source == "all":
            self.session.watch(item, shape, perf_counter() - started)
            self.session.settle_watched(item, shape)
        elif MEASURED in item.stash:
            self.session.settle(item.stash[MEASURED], item)
        elif shape.both:
            pytest.fail("the test was not measured: it never called gpuperf.both", pytrace=False)
        elif shape.nodeid not in self.session.ledger.records and not unittest_cases.failures(item):
            pytest.fail("the test was not measured: another plugin called it", pytrace=False)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Keep a record for every marked test, and send it along with the last of the test's reports."""
        shape, error = shape_of(item), call.excinfo.value if call.excinfo else None
        if error is not None and not isinstance(error, SKIPS):
            self.session.machine.fault(error, item.nodeid)
            if self._running is item:
                self._broken.append(f"a subtest failed: {errors.first_line(error)}")
            if shape and call.when == "teardown":
                self.session.disown(item, shape, f"its teardown failed: {errors.first_line(error)}")
        if (
            shape
            and error is not None
            and (call.when == "setup" or shape.nodeid not in self.session.ledger.records)
        ):
            ended = Verdict(
                status="skipped" if isinstance(error, SKIPS) else "error",
                reason=(str(error) or type(error).__name__).partition("\n")[0],
                reason_code="no_gpu" if isinstance(error, NoGpu) else None,
            )
            self.session.without_measurement(item, shape, ended)
        report = yield
        if shape and call.when == "call" and shape.nodeid not in self.session.ledger.records:
            status: Status = "skipped" if report.skipped else "error"
            reason = _last_words(report)  # unittest keeps it there
            self.session.without_measurement(item, shape, Verdict(status=status, reason=reason))
        if shape and call.when == "teardown" and shape.nodeid in self.session.ledger.records:
            content = schema.dump_record(self.session.ledger.records[shape.nodeid])
            setattr(report, ATTRIBUTE, content)
        return report


def shape_of(item: pytest.Item) -> ItemSpec | None:
    """Return the shape of a marked test, None of any other."""
    return item.stash.get(SHAPE, None)


def uses_gpu(item: pytest.Item) -> bool:
    """Say whether an unmarked test works on our GPU."""
    if "gpu" in getattr(item, "fixturenames", ()):
        return True
    callspec = getattr(item, "callspec", None)
    return callspec is not None and callspec.params.get("device") == "gpu"


def _last_words(report: pytest.TestReport) -> str:
    """Return why a test was skipped, or the last line of what pytest shows of its end."""
    if isinstance(report.longrepr, tuple):  # of a skip: file, line and reason
        return report.longrepr[2].removeprefix("Skipped: ")
    return report.longreprtext.strip().rpartition("\n")[2] or report.outcome
