"""pytest's hooks for a run that has something to measure; registered when the first such thing is seen."""

from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

import pytest

from pytest_gpuperf import faults, schema, settlement, unittests
from pytest_gpuperf.both import MEASURED
from pytest_gpuperf.items import SHAPE, Shape
from pytest_gpuperf.model import DESELECTED, Selection, Threshold
from pytest_gpuperf.report import terminal
from pytest_gpuperf.session import SKIPS, Session

__all__ = ["Hooks"]

_NO_DEVICE = (
    "a speedup test needs a device: take the fixture device or xp, parametrize the test over devices or "
    "array libraries (gpuperf_device_params names such parameters), use gpuperf.both, or join tests with pair"
)
_ATTRIBUTE = "gpuperf"  # of a test's last report: JSON-able, so that it travels between xdist's processes
_CUT_SHORT = (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR)


class Hooks:
    """Passes what pytest says on to the session, and what the session finds on to pytest."""

    def __init__(self, config: pytest.Config, session: Session) -> None:
        self.session = session
        self._is_worker = hasattr(config, "workerinput")
        self._dry = config.option.collectonly or config.option.setuponly or config.option.setupplan
        self._began = False
        self._crashed: dict[str, str] = {}
        self._selected: Sequence[pytest.Item] = ()
        self._deselected: Sequence[pytest.Item] = ()
        self._untold: list[Threshold] = []
        self._unmeasured: str | None = None
        self._running: pytest.Item | None = None
        self._broken: list[str] = []  # what subtests of the running test have raised

    def begin(
        self,
        selected: Sequence[pytest.Item],
        deselected: Sequence[pytest.Item],
        selections: tuple[Selection, ...],
        found: Iterable[pytest.Item],
    ) -> None:
        """Take the speedup tests that will run, those that were deselected, and what asked for them."""
        self.session.ledger.selections = selections
        self._began, self._selected, self._deselected = True, selected, deselected
        shapes = [item.stash[SHAPE] for item in selected]
        partners = (partner for item in found if (partner := item.stash[SHAPE].partner) is not None)
        self.session.comparisons.expect(shapes, [item.stash[SHAPE].nodeid for item in deselected], partners)
        for shape in shapes:
            if shape.family and shape.kind != "cpu":
                self.session.families.expect(shape.family.name, shape.nodeid)

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Stop a test that cannot be measured before its fixtures are made."""
        shape = shape_of(item)
        if shape is None:
            if self.session.machine.lost and uses_gpu(item):
                pytest.fail(self.session.machine.lost, pytrace=False)
            return
        self.session.runs[shape.nodeid] += 1
        if shape.source == "all" or unittests.is_skipped(item):
            return
        if not shape.has_device:
            if shape.demand.bare:
                self.session.without_measurement(item, shape, "error", _NO_DEVICE)
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
        if unittests.is_called(item) and shape.side is not None and shape.source != "all":
            unittests.measure_instead(item, partial(self.session.walk, item, shape))
        started = perf_counter()
        self._broken.clear()
        self._running = item
        try:
            yield
        except BaseException as error:
            if MEASURED in item.stash and not isinstance(error, SKIPS):
                self.session.disown(item, shape, faults.first_line(error))
            raise
        finally:
            self._running = None
        around = [error for error in unittests.failures_around(item) if not isinstance(error, SKIPS)]
        if wrong := [*self._broken, *map(faults.first_line, around)]:
            self.session.disown(item, shape, wrong[0])
        if shape.source == "all":
            self.session.watch(item, shape, perf_counter() - started)
        elif MEASURED in item.stash:
            self.session.settle(item.stash[MEASURED], item)
        elif shape.both:
            pytest.fail("the test was not measured: it never called gpuperf.both", pytrace=False)
        elif shape.nodeid not in self.session.ledger.records and not unittests.failures(item):
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
                self._broken.append(f"a subtest failed: {faults.first_line(error)}")
            if shape and call.when == "teardown":
                self.session.disown(item, shape, f"its teardown failed: {faults.first_line(error)}")
        if (
            shape
            and error is not None
            and (call.when == "setup" or shape.nodeid not in self.session.ledger.records)
        ):
            skipped = isinstance(error, SKIPS)
            reason = (str(error) or type(error).__name__).partition("\n")[0]
            self.session.without_measurement(item, shape, "skipped" if skipped else "error", reason)
        report = yield
        if shape and call.when == "call" and shape.nodeid not in self.session.ledger.records:
            reason = _last_words(report)  # unittest keeps it there
            self.session.without_measurement(item, shape, "skipped" if report.skipped else "error", reason)
        if shape and call.when == "teardown" and shape.nodeid in self.session.ledger.records:
            content = schema.dump_record(self.session.ledger.records[shape.nodeid])
            setattr(report, _ATTRIBUTE, content)
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take a finished test's record, whichever process measured it."""
        if report.when not in ("setup", "call", "teardown") and report.failed:  # xdist's, of a lost worker
            self._crashed[report.nodeid] = str(report.longrepr).partition("\n")[0]
        content: dict[str, Any] | None = getattr(report, _ATTRIBUTE, None)
        if content is not None and not self._is_worker and not self._dry:
            self._began = True
            self.session.ledger.enter(content, self.session.machine.surveyed)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take what an xdist worker knew of tests that it did not run, and of the machine."""
        told = getattr(node, "workeroutput", {}).get("gpuperf")
        if told is None:
            return
        self.session.learn(told["environment"], told["thresholds"])
        self.session.ledger.selections = schema.load_selections(told["selections"])
        for content in told["records"]:
            if content["nodeid"] not in self.session.ledger.records:
                self.session.keep(schema.load_record(content))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        """Remember that tests were about to run: `--fixtures` and its like run none."""
        self._began = not self._dry
        return (yield)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Complete the records and write the report, in the process that the user called."""
        if not self._began and exitstatus not in _CUT_SHORT:
            return
        all_ran = self._complete()
        if self._is_worker:
            told = [schema.dump_record(record) for record in self.session.ledger.records.values()]
            surveyed = schema.dump_environment(self.session.machine.surveyed())
            session.config.workeroutput["gpuperf"] = {  # type: ignore[attr-defined]
                "records": told,
                "environment": surveyed,
                "thresholds": sorted(self.session.families.told),
                "selections": schema.dump_selections(self.session.ledger.selections),
            }
            return
        complete = all_ran and exitstatus not in _CUT_SHORT and not self._crashed
        self.session.ledger.write(self.session.machine.surveyed(), complete=complete)
        self._untold = self.session.families.untold(self.session.ledger.records.values(), self.session.plan)
        records = list(self.session.ledger.records.values())
        self._unmeasured = settlement.nothing_measured(records, self.session.plan)
        wrong = self.session.ledger.unwritten or self._untold or self._unmeasured
        if wrong and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table and the reasons; nothing when nothing was marked."""
        if not self._began and not self.session.ledger.unwritten:
            return
        width = max(80, min(terminalreporter._tw.fullwidth, 120))  # noqa: SLF001 - plugins have no other way
        shown = terminal.lines(self.session.ledger.run(self.session.machine.surveyed(), complete=True), width)
        if shown or self.session.ledger.unwritten:
            terminalreporter.section("gpuperf", sep="-")
        for line in shown:
            terminalreporter.write_line(line)
        for threshold in self._untold:
            terminalreporter.write_line(f"FAILED {threshold.name}: {threshold.reason}", red=True)
        if self._unmeasured:
            terminalreporter.write_line(f"FAILED: {self._unmeasured}", red=True)
        if self.session.ledger.unwritten:
            terminalreporter.write_line(self.session.ledger.unwritten, red=True)
        elif shown and self.session.ledger.report:
            terminalreporter.write_line(f"report: {self.session.ledger.report}")

    def _complete(self) -> bool:
        """Give a record to every marked test that has none; say whether all that were selected ran."""
        for nodeid, reason in self._crashed.items():
            known = self.session.ledger.records.get(nodeid)
            if known is not None:
                self.session.ledger.keep(replace(known, status="error", reason=reason))
        not_run = self._fill_in(self._selected, "not run: the session ended before it")
        self._fill_in(self._deselected, DESELECTED)
        if not self._is_worker:
            for record in settlement.unanswered(list(self.session.ledger.records.values())):
                self.session.ledger.keep(record)
        return not_run == 0

    def _fill_in(self, listed: Sequence[pytest.Item], reason: str) -> int:
        filled = 0
        for item in listed:
            shape = shape_of(item)
            if shape and shape.nodeid not in self.session.ledger.records:
                self.session.without_measurement(item, shape, "skipped", reason)
                filled += 1
        return filled


def shape_of(item: pytest.Item) -> Shape | None:
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
