"""Hooks at the end of a run: collect records from workers, run the gate, write files."""

import warnings
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from pytest_gpuperf.analysis import scaling, threshold
from pytest_gpuperf.collection.expected_tests import ExpectedTests
from pytest_gpuperf.collection.finder import Found
from pytest_gpuperf.collection.hooks import runs_no_test
from pytest_gpuperf.collection.items import SPEC, UNKNOWN
from pytest_gpuperf.devices import doubts
from pytest_gpuperf.gate import what_fails
from pytest_gpuperf.gate.gate import RunCoverage
from pytest_gpuperf.integrations import fixture_replacements
from pytest_gpuperf.model.demand import UnknownValue
from pytest_gpuperf.model.errors import BackendWarning, GpuPerfError, InconclusiveWarning
from pytest_gpuperf.model.record import Environment, Record, Run, Verdict
from pytest_gpuperf.model.worker_keys import RECORD_ATTRIBUTE
from pytest_gpuperf.options import arguments, asks_for_gate, usage_error
from pytest_gpuperf.report import git, outputs
from pytest_gpuperf.report.json import codec, document
from pytest_gpuperf.session import run_files
from pytest_gpuperf.session.records import possible_environment
from pytest_gpuperf.session.session import GpuPerfSession, failure_by
from pytest_gpuperf.session.terminal_hooks import TerminalHooks

_DESELECTED = Verdict(
    status="skipped", reason="deselected on the command line or by a plugin", reason_code="deselected"
)
_ENDED = Verdict(status="skipped", reason="not run: the session ended before it", reason_code="session_ended")
_CUT_SHORT = (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR)


class FinishHooks:
    """Collects what a run measured in all its processes, and completes, checks and writes it at the end."""

    def __init__(self, config: pytest.Config, session: GpuPerfSession) -> None:
        self.session = session
        is_own_rank = session.ranks.launch is not None and session.ranks.launch.launcher == "pytest"
        self._is_worker = is_own_rank or hasattr(config, "workerinput")
        self.runs_no_test = runs_no_test(config)
        self.expected_tests = ExpectedTests(config)
        self._arguments = arguments(config, self.expected_tests.command_line)
        self.terminal_hooks = TerminalHooks(config, session, self._arguments)
        self._config = config
        self._ran_tests = False
        self._crashed: dict[str, str] = {}
        self._failed: set[str] = set()  # ids of records
        self._failed_reports: set[str] = set()
        self._not_reported: list[Record] = []
        self._selected: Sequence[pytest.Item] = ()
        self._deselected: Sequence[pytest.Item] = ()

    def begin(self, found: Found, selected: Sequence[pytest.Item], deselected: Sequence[pytest.Item]) -> None:
        """Set which speedup tests will run, which were deselected or left alone, and which are unmarked.

        What they need is imported now, as other plugins do at start: the first test would wait for it.
        """
        try:
            self.session.ranks.begin([item for item in selected if SPEC in item.stash])
        except GpuPerfError as error:
            raise usage_error(self._config, str(error)) from error
        records = self.session.records
        records.unmarked = found.unmarked
        unknown = Counter(item.stash[UNKNOWN] for item in selected if UNKNOWN in item.stash)
        records.unknown_values = tuple(replace(value, tests=count) for value, count in unknown.items())
        self._ran_tests = True
        self._selected = selected = [item for item in selected if SPEC in item.stash]
        self._deselected = [item for item in deselected if SPEC in item.stash]
        specs = [item.stash[SPEC] for item in selected]
        measured = (item for item in selected if item.stash[SPEC].source != "all")
        if (line := fixture_replacements.not_in_files(self._config, measured)) is not None:
            self.terminal_hooks.written.append(line)
        if specs:
            self.session.prepare(self._config)
        self.session.cpu_variants.plan(found.items, specs)
        for spec in specs:
            if spec.size_group:
                self.session.size_groups.setdefault(spec.size_group.name, set()).add(spec.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Store a finished test's record, whichever process measured it."""
        is_of_crashed_worker = report.when not in ("setup", "call", "teardown") and report.failed
        if is_of_crashed_worker:  # xdist makes it
            self._crashed[report.nodeid] = str(report.longrepr).partition("\n")[0]
            self._failed.add(report.nodeid)
        if report.failed:
            self._failed_reports.add(report.nodeid)
        line: str | None = getattr(report, RECORD_ATTRIBUTE, None)
        if line is None or self._is_worker or self.runs_no_test:
            return
        self._ran_tests = True
        worker = getattr(report, "worker_id", None)
        nodeid = self.session.records.receive(line, worker, self.session.machine.environment)
        if nodeid is not None and report.nodeid in self._failed_reports:
            self._failed.add(nodeid)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Add what an xdist worker recorded of tests that it did not run, and of the machine."""
        data = getattr(node, "workeroutput", {}).get("gpuperf")
        if data is None:
            return
        self.expected_tests.add_from_worker(data["skipped"], data["deselected"])
        records = self.session.records
        try:
            self.session.reported.update(data["thresholds"])
            self.session.machine.use_worker_environment(codec.load(data["environment"].encode(), Environment))
            records.unmarked = data["unmarked"]
            unknown = data["unknown_values"]
            records.unknown_values = tuple(codec.load(each.encode(), UnknownValue) for each in unknown)
            # Of tests that did not run in that worker: another one may still report them.
            self._not_reported += (document.record_in(line.encode()) for line in data["records"])
        except GpuPerfError as error:
            records.refuse(error)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        """Remember that tests are about to run: `--fixtures` and its like run none."""
        self._ran_tests = not self.runs_no_test
        return (yield)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Complete the records and write the files, in the process that the user called."""
        self.terminal_hooks.has_finished = True
        if self.session.options.off or (not self._ran_tests and exitstatus not in _CUT_SHORT):
            return
        if not self.session.ranks.measures:
            return
        all_ran = self._add_missing_records()
        if "no-gpu" in self.session.gate.options.allow and not self.session.is_controller:
            # Even if every test was skipped: a machine that has a GPU must not pass without measuring.
            self.session.machine.has_gpu()
        if self._is_worker:
            if (output := getattr(session.config, "workeroutput", None)) is not None:
                output["gpuperf"] = self._for_controller()
            return
        run = self._build_run(complete=all_ran and exitstatus not in _CUT_SHORT and not self._crashed)
        terminal = self.terminal_hooks
        terminal.run, terminal.ran_tests = run, self._ran_tests
        terminal.errors += [f"FAILED: {failure}" for failure in self._failures(run)]
        written, problems = run_files.write(run, self.session, self._failed, self._arguments)
        terminal.written += written
        terminal.errors += problems
        if terminal.errors and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _build_run(self, *, complete: bool) -> Run:
        """Return the run with the gate's result."""
        session = self.session
        records = session.records.results.all()
        environment = session.machine.environment()
        seen = RunCoverage(
            cause=lambda nodeid, _: self.expected_tests.cause(nodeid),
            crashed=self._crashed,
            failed=self._failed,
            gate_requested=asks_for_gate(self.expected_tests.command_line),
        )
        writes_files = session.gate.options.create or session.outputs != outputs.Outputs()
        commit, job = (git.current(self._config.rootpath), git.job()) if writes_files else (None, None)
        run = Run(
            started=session.records.started,
            complete=complete,
            cost_ratio=session.options.cost_ratio,
            arguments=self._arguments,
            narrowed_by=self.expected_tests.narrowed_by,
            environment=environment,
            records=records,
            thresholds=threshold.find(records),
            scalings=scaling.curves(records),
            unmarked=session.records.unmarked,
            unknown_values=session.records.unknown_values,
            commit=commit,
            job=job,
            launch=session.ranks.launch,
        )
        return replace(run, gate=session.gate.finish(run, seen, session.options))

    def _failures(self, run: Run) -> Iterator[str]:
        """Yield why the run fails as a whole, even if every test passed."""
        options = self.session.options
        for fault in doubts.take():  # of what was asked after the last test
            yield from filter(None, [failure_by(warnings.warn, BackendWarning(fault))])
        for found in run.thresholds:  # its tests ran in several processes, or the last of them did not run
            if found.name in self.session.reported:
                continue
            if what_fails.threshold_fails(found, options):
                yield f"{found.name}: {found.reason}"
            elif (doubt := what_fails.threshold_doubt(found, options)) is not None:
                failure = failure_by(warnings.warn, InconclusiveWarning(doubt))
                yield from filter(None, [failure])
        if (unmeasured := what_fails.required_gpu_unused(run.records, options)) is not None:
            yield unmeasured
        yield from (failure.text for failure in (run.gate.failures if run.gate else ()))

    def _for_controller(self) -> dict[str, Any]:
        """Return what this xdist worker sends to its controller when it ends."""
        session = self.session
        in_baselines = {nodeid for base in session.gate.candidates for nodeid in base.records}
        return {
            "records": [*map(session.records.line, session.records.by_nodeid.values())],
            "environment": codec.text(possible_environment(session.machine.environment())),
            "thresholds": sorted(session.reported),
            "unmarked": session.records.unmarked,
            "unknown_values": [*map(codec.text, session.records.unknown_values)],
            "skipped": self.expected_tests.skipped,
            "deselected": self.expected_tests.deselections(in_baselines),
        }

    def _add_missing_records(self) -> bool:
        """Add a record for every marked test that has none; return whether all selected tests ran."""
        for of_worker in self._not_reported:
            if of_worker.nodeid not in self.session.records.by_nodeid:
                self.session.records.keep(of_worker)
        for nodeid, reason in self._crashed.items():
            record = self.session.records.by_nodeid.get(nodeid)
            if record is not None:
                self.session.records.keep(replace(record, status="error", reason=reason, reason_code=None))
        missing = self._without_record(self._selected)
        for items, ended in ((missing, _ENDED), (self._without_record(self._deselected), _DESELECTED)):
            for item in items:
                self.session.records.results.begin(item.stash[SPEC].nodeid)
                self.session.records.without_measurement(item, item.stash[SPEC], ended)
        if not self._is_worker:
            for record in what_fails.missing_gpu_notes(list(self.session.records.by_nodeid.values())):
                self.session.records.keep(record)
        return not missing

    def _without_record(self, items: Sequence[pytest.Item]) -> list[pytest.Item]:
        seen: Counter[str] = Counter()
        missing = []
        for item in items:
            if (spec := item.stash.get(SPEC, None)) is not None:
                seen[spec.nodeid] += 1
                if seen[spec.nodeid] > self.session.records.results.count(spec.nodeid):
                    missing.append(item)
        return missing
