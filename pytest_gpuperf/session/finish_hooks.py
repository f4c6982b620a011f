"""pytest's hooks around a run that measures: its records come in, its files and its last words go out."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from pytest_gpuperf import schema
from pytest_gpuperf.collection.items import SHAPE
from pytest_gpuperf.collection.requested import RequestedTests
from pytest_gpuperf.gate import policy
from pytest_gpuperf.gate.gate import RunCoverage
from pytest_gpuperf.model.demand import Selection
from pytest_gpuperf.model.record import Run, Verdict
from pytest_gpuperf.report import git, publish, terminal
from pytest_gpuperf.session import baselines
from pytest_gpuperf.session.session import GpuPerfSession

__all__ = ["ATTRIBUTE", "FinishHooks"]

ATTRIBUTE = "gpuperf"
"""Of a test's last report: its record, JSON-able, so that it travels between xdist's processes."""
_DESELECTED = Verdict(
    status="skipped", reason="deselected on the command line or by a plugin", reason_code="deselected"
)
_ENDED = Verdict(status="skipped", reason="not run: the session ended before it", reason_code="session_ended")
_CUT_SHORT = (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR)


class FinishHooks:
    """Follows a run from its first test to its last words; `begun` says that it runs tests."""

    def __init__(self, config: pytest.Config, session: GpuPerfSession) -> None:
        self.session = session
        self._is_worker = hasattr(config, "workerinput")
        self._is_controller = not self._is_worker and config.getoption("dist", "no") != "no"
        self._dry = config.option.collectonly or config.option.setuponly or config.option.setupplan
        self._collected = RequestedTests(
            root=config.rootpath,
            asked=baselines.narrowed(config),
            again=baselines.repeats(config),
        )
        self._began = False
        self._crashed: dict[str, str] = {}
        self._selected: Sequence[pytest.Item] = ()
        self._deselected: Sequence[pytest.Item] = ()
        self._run: Run | None = None
        self._wrong: list[str] = []
        self._told: list[str] = []

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

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Remember which files were collected."""
        self._collected.note(report)

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Remember that its file was collected."""
        self._collected.find(item.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take a finished test's record, whichever process measured it."""
        if report.when not in ("setup", "call", "teardown") and report.failed:  # xdist's, of a lost worker
            self._crashed[report.nodeid] = str(report.longrepr).partition("\n")[0]
        content: dict[str, Any] | None = getattr(report, ATTRIBUTE, None)
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
        self._collected.learn(told["collected"])
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
        """Complete the records and write the files, in the process that the user called."""
        if not self._began and exitstatus not in _CUT_SHORT:
            return
        all_ran = self._complete()
        if self.session.gating.options.allow_no_gpu and not self._is_controller:
            self.session.machine.has_gpu()  # a runner that has one cannot be excused, whatever was skipped
        if self._is_worker:
            session.config.workeroutput["gpuperf"] = self._for_controller()  # type: ignore[attr-defined]
            return
        run = self._found(complete=all_ran and exitstatus not in _CUT_SHORT and not self._crashed)
        self._wrong += [f"FAILED: {failure}" for failure in self._failures(run)]
        self._write(run)
        if self._wrong and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table and the reasons; nothing when nothing was marked."""
        if self._run is None or not (self._began or self._wrong):
            return
        width = max(80, min(terminalreporter._tw.fullwidth, 120))  # noqa: SLF001 - plugins have no other way
        shown = terminal.lines(self._run, width)
        if shown or self._wrong:
            terminalreporter.section("gpuperf", sep="-")
        for line in shown:
            terminalreporter.write_line(line)
        for line in self._wrong:
            terminalreporter.write_line(line, red=True)
        for line in self._told if shown else ():
            terminalreporter.write_line(line)

    def _found(self, *, complete: bool) -> Run:
        """Return the run with what the gate found in it as a whole."""
        session, surveyed = self.session, self.session.machine.surveyed()
        run = session.ledger.run(surveyed, complete=complete)
        has_gpu = surveyed.gpu is not None
        files = has_gpu or not session.gating.options.allow_no_gpu  # that skip themselves should have run
        expects = partial(self._collected.expects, skipped_files=files)
        seen = RunCoverage(expects=expects, crashed=self._crashed, has_gpu=has_gpu)
        gate = session.gating.finish(run.records, seen, session.plan)
        commit = git.current(self._collected.root) if session.publishes else None
        return replace(run, gate=gate, commit=commit)

    def _failures(self, run: Run) -> Iterator[str]:
        """Yield why the run fails beside its tests."""
        plan = self.session.plan
        for threshold in self.session.families.untold(run.records, plan):
            yield f"{threshold.name}: {threshold.reason}"
        if (unmeasured := policy.required_gpu_unused(run.records, plan)) is not None:
            yield unmeasured
        yield from (failure.text for failure in (run.gate.failures if run.gate else ()))

    def _write(self, run: Run) -> None:
        """Write every file that was asked for; what cannot be written is said, and fails the run."""
        self._run = run
        ledger = self.session.ledger
        ledger.write(run)
        if ledger.unwritten:
            self._wrong.append(ledger.unwritten)
        elif ledger.report:
            self._told.append(f"report: {ledger.report}")
        gating = self.session.gating
        new = gating.path_to_create(run.records)
        if new is not None and gating.allows_missing_gpu(
            run.records, has_gpu=run.environment.gpu is not None
        ):
            self._told.append(f"no baseline was made at {new}: no GPU was there to measure")
            new = None
        done = publish.publish(run, self.session.outputs, new)
        self._wrong += done.problems
        self._told += done.lines

    def _for_controller(self) -> dict[str, Any]:
        """Return what this worker of xdist's tells its controller when it ends."""
        session = self.session
        return {
            "records": [schema.dump_record(record) for record in session.ledger.records.values()],
            "environment": schema.dump_environment(session.machine.surveyed()),
            "thresholds": sorted(session.families.told),
            "selections": schema.dump_selections(session.ledger.selections),
            "collected": self._collected.outcomes,
        }

    def _complete(self) -> bool:
        """Give a record to every marked test that has none; say whether all that were selected ran."""
        for nodeid, reason in self._crashed.items():
            known = self.session.ledger.records.get(nodeid)
            if known is not None:
                self.session.ledger.keep(replace(known, status="error", reason=reason, reason_code=None))
        not_run = self._fill_in(self._selected, _ENDED)
        self._fill_in(self._deselected, _DESELECTED)
        if not self._is_worker:
            for record in policy.missing_gpu_notes(list(self.session.ledger.records.values())):
                self.session.ledger.keep(record)
        return not_run == 0

    def _fill_in(self, listed: Sequence[pytest.Item], ended: Verdict) -> int:
        filled = 0
        for item in listed:
            shape = item.stash.get(SHAPE, None)
            if shape and shape.nodeid not in self.session.ledger.records:
                self.session.without_measurement(item, shape, ended)
                filled += 1
        return filled
