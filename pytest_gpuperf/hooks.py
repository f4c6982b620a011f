"""pytest's hooks for a run that has something to measure; registered when the first such thing is seen."""

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from pytest_gpuperf import schema
from pytest_gpuperf.items import SHAPE, Shape
from pytest_gpuperf.model import Threshold
from pytest_gpuperf.report import terminal
from pytest_gpuperf.session import SKIPS, Session

__all__ = ["Hooks"]

_NO_DEVICE = (
    "a speedup test needs the fixture device or xp: take one of them as an argument of the test, or in a "
    "fixture that it uses (parameters of the suite's own are not read yet)"
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
        self._selected: list[pytest.Item] = []
        self._deselected: list[pytest.Item] = []
        self._untold: list[Threshold] = []

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Remember the marked tests that will not run: each has its record."""
        self._deselected += [item for item in items if shape_of(item)]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Remember the marked tests that will."""
        self._selected = [item for item in session.items if shape_of(item)]
        for item in self._selected:
            shape = shape_of(item)
            if shape and shape.family and shape.side != "cpu":
                self.session.families.expect(shape.family.name, item.nodeid)

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Stop a test that cannot be measured before its fixtures are made."""
        shape = shape_of(item)
        if shape is None:
            if self.session.lost and uses_gpu(item):
                pytest.fail(self.session.lost, pytrace=False)
            return
        if not shape.has_device:
            if shape.demand.bare:
                self.session.without_measurement(item, shape, "error", _NO_DEVICE)
                return
            pytest.fail(_NO_DEVICE, pytrace=False)
        if shape.side != "cpu" and (self.session.lost or self.session.plan.require_gpu):
            self.session.gpu()

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> object | None:
        """Measure a marked test instead of calling it."""
        shape = shape_of(pyfuncitem)
        if shape is None or not shape.has_device:
            return None
        self.session.walk(pyfuncitem, shape)
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        """Fail a marked test that passed without being measured, because another plugin called it."""
        shape = shape_of(item)
        if shape and shape.has_device:
            self.session.ledger.records.pop(item.nodeid, None)
        yield
        if shape and item.nodeid not in self.session.ledger.records:
            pytest.fail("the test was not measured: another plugin called it", pytrace=False)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Keep a record for every marked test, and send it along with the last of the test's reports."""
        shape, error = shape_of(item), call.excinfo.value if call.excinfo else None
        if error is not None and not isinstance(error, SKIPS):
            self.session.note_fault(error, item.nodeid)
        if (
            shape
            and error is not None
            and (call.when == "setup" or item.nodeid not in self.session.ledger.records)
        ):
            skipped = isinstance(error, SKIPS)
            reason = (str(error) or type(error).__name__).partition("\n")[0]
            self.session.without_measurement(item, shape, "skipped" if skipped else "error", reason)
        report = yield
        if shape and call.when == "teardown" and item.nodeid in self.session.ledger.records:
            content = schema.dump_record(self.session.ledger.records[item.nodeid])
            setattr(report, _ATTRIBUTE, content)
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take a finished test's record, whichever process measured it."""
        if report.when not in ("setup", "call", "teardown") and report.failed:  # xdist's, of a lost worker
            self._crashed[report.nodeid] = str(report.longrepr).partition("\n")[0]
        content: dict[str, Any] | None = getattr(report, _ATTRIBUTE, None)
        if content is not None and not self._is_worker and not self._dry:
            self._began = True
            self.session.ledger.enter(content, self.session.surveyed)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take what an xdist worker knew of tests that it did not run, and of the machine."""
        told = getattr(node, "workeroutput", {}).get("gpuperf")
        if told is None:
            return
        self.session.learn(told["environment"], told["thresholds"])
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
            surveyed = schema.dump_environment(self.session.surveyed())
            session.config.workeroutput["gpuperf"] = {  # type: ignore[attr-defined]
                "records": told,
                "environment": surveyed,
                "thresholds": sorted(self.session.families.told),
            }
            return
        complete = all_ran and exitstatus not in _CUT_SHORT and not self._crashed
        self.session.ledger.write(self.session.surveyed(), complete=complete)
        self._untold = self.session.families.untold(self.session.ledger.records.values(), self.session.plan)
        if (self.session.ledger.unwritten or self._untold) and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table and the reasons; nothing when nothing was marked."""
        if not self._began and not self.session.ledger.unwritten:
            return
        width = max(80, min(terminalreporter._tw.fullwidth, 120))  # noqa: SLF001 - plugins have no other way
        shown = terminal.lines(self.session.ledger.run(self.session.surveyed(), complete=True), width)
        if shown or self.session.ledger.unwritten:
            terminalreporter.section("gpuperf", sep="-")
        for line in shown:
            terminalreporter.write_line(line)
        for threshold in self._untold:
            terminalreporter.write_line(f"FAILED {threshold.name}: {threshold.reason}", red=True)
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
        self._fill_in(self._deselected, "deselected on the command line or by a plugin")
        return not_run == 0

    def _fill_in(self, listed: Sequence[pytest.Item], reason: str) -> int:
        filled = 0
        for item in listed:
            shape = shape_of(item)
            if shape and item.nodeid not in self.session.ledger.records:
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
