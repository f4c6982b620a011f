"""Plain pytest starts the ranks for its tests with `ranks`, once, and reports what rank 0 has reported."""

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import pytest

from pytest_gpuperf.collection.items import SPEC
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.session.ranks import started_ranks
from pytest_gpuperf.session.ranks.own_rank import Task
from pytest_gpuperf.session.ranks.signals import ended_by_sigterm
from pytest_gpuperf.session.ranks.started_ranks import Command, Ended, Line
from pytest_gpuperf.session.session import GpuPerfSession


class OwnLaunch:
    """Runs each test with `ranks` in the ranks that it has started, where there are GPUs for two or more.

    `on_error` receives a message for each failure of the run that no test reports. `plugin` is the name under
    which this plugin is registered. `path` is `sys.path` at its registration.
    """

    def __init__(
        self,
        session: GpuPerfSession,
        config: pytest.Config,
        on_error: Callable[[str], None],
        *,
        plugin: str,
        path: Sequence[str],
    ) -> None:
        self._session = session
        self._plugin = plugin
        self._path = path
        self._config = config
        self._on_error = on_error
        self._plan: _Plan | None = None
        self._ended: Ended | None = None
        self._first_failed: str | None = None

    @pytest.hookimpl(tryfirst=True)  # before pytest's own, and plugins that run a test again
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Report how the ranks have run a test; leave it to pytest where they have not."""
        if not _is_for_ranks(item):
            return None
        if self._plan is None:
            self._plan = self._planned(item.session.items)
        if item.nodeid not in self._plan.tests:
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        error: BaseException | None = None
        try:
            item.session._setupstate.teardown_exact(nextitem)  # noqa: SLF001 - what earlier tests have left
        except (KeyboardInterrupt, pytest.exit.Exception):
            raise
        except BaseException as raised:  # noqa: BLE001 - of a fixture that ends here, as in a teardown
            error = raised
        self._report(item, self._plan)
        if error is not None:
            _report_phase(item, "teardown", error)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _report(self, item: pytest.Item, plan: "_Plan") -> None:
        """Report what the ranks have said of a test; first they run all tests, if they have not yet.

        What fails on another rank alone fails the test, and its record.
        """
        if self._ended is None:
            self._ended = self._run(item, plan)
        lines = self._ended.next_run(item.nodeid)
        reports, *of_others = map(self._loaded, lines)
        if not any(report.when == "teardown" for report in reports):
            reason = self._ended.why if self._first_failed is None else f"as {self._first_failed}"
            self._first_failed = self._first_failed or item.nodeid
            text = f"the ranks that pytest started have ended before this test did: {reason}"
            _report_phase(item, "setup", pytest.fail.Exception(text, pytrace=False))
            _report_phase(item, "teardown", None)
            return
        failed = [(number, each) for number, its in enumerate(of_others, 1) for each in its if each.failed]
        sections = [(f"rank {number}, {report.when}", report.longreprtext) for number, report in failed]
        for report in reports:
            if report.failed:
                report.sections += sections
                sections = []
            item.ihook.pytest_runtest_logreport(report=report)
        if sections:  # rank 0 has not failed
            number, other = failed[0]
            error = pytest.fail.Exception(f"rank {number} has failed in its {other.when}", pytrace=False)
            _report_phase(item, "teardown", error, sections)
        for line in lines[0]:
            if "warning" in line:
                self._warn(line)

    def _planned(self, items: Iterable[pytest.Item]) -> "_Plan":
        """Return which tests the ranks run, and how many of these there are; none without GPUs for two."""
        try:
            most = self._session.machine.most_processes()
        except GpuPerfError:  # which the test itself shows
            return _Plan()
        counts = {item.nodeid: _ranks_of(item) for item in items if _is_for_ranks(item)}
        tests = [nodeid for nodeid, needed in counts.items() if needed <= most]
        ranks = max((counts[nodeid] for nodeid in tests), default=1)
        return _Plan(tuple(tests), ranks) if ranks > 1 else _Plan()

    def _run(self, item: pytest.Item, plan: "_Plan") -> Ended:
        """Run all tests that are for ranks, and return how that ended."""
        self._session.machine.release()  # what the ranks may need
        config, name = self._config, f"-p{self._plugin}"  # it need not be loaded by its entry point
        # What is typed, as pytest-xdist hands it to its workers: pytest reads the rest again.
        arguments = [name, *map(str, config.invocation_params.args)]
        if config.pluginmanager.hasplugin("pytest_cov"):
            arguments.append("--no-cov")
        command = Command(arguments=arguments, folder=config.invocation_params.dir, path=self._path)
        seed = getattr(config.option, "randomly_seed", None)
        task = Task(tests=[*plan.tests], seed=seed, process=os.getpid())
        words = f"is measured by {plan.ranks} ranks, as {len(plan.tests)} tests in all are"
        with ended_by_sigterm(lambda: False), self._session.waiting(item, words):
            ended = started_ranks.run(task, plan.ranks, command)
        if ended.crash is not None:
            self._on_error(f"FAILED: {ended.crash} after its last test; {ended.why}")
        return ended

    def _loaded(self, lines: Sequence[Line]) -> list[pytest.TestReport]:
        return [self._report_in(line) for line in lines if "warning" not in line]

    def _report_in(self, data: Line) -> pytest.TestReport:
        hook, skip = self._config.hook, data["longrepr"]
        tuples = {  # which JSON has as lists
            "location": tuple(data["location"]),
            "longrepr": tuple(skip) if isinstance(skip, list) else skip,
            "sections": [*map(tuple, data["sections"])],
            "user_properties": [*map(tuple, data["user_properties"])],
        }
        data = {**data, **tuples}
        report: pytest.TestReport = hook.pytest_report_from_serializable(config=self._config, data=data)
        return report

    def _warn(self, line: Line) -> None:
        """Record a warning of rank 0 as pytest does; a UserWarning where its class is not loaded here."""
        kind = getattr(sys.modules.get(line["module"]), line["name"], UserWarning)
        category = kind if isinstance(kind, type) and issubclass(kind, Warning) else UserWarning
        text, file, number = line["warning"], line["filename"], line["lineno"]
        try:
            warning = category(text)
        except Exception:  # noqa: BLE001 - a class of the suite's own may take other arguments
            category, warning = UserWarning, UserWarning(text)
        found = warnings.WarningMessage(warning, category, file, number)
        told = {"warning_message": found, "when": "runtest", "nodeid": line["nodeid"], "location": None}
        self._config.hook.pytest_warning_recorded.call_historic(kwargs=told)


@dataclass(frozen=True, slots=True)
class _Plan:
    """Which tests, by their node ids, so many ranks run."""

    tests: tuple[str, ...] = ()
    ranks: int = 1


def _report_phase(
    item: pytest.Item,
    when: Literal["setup", "teardown"],
    error: BaseException | None,
    sections: Iterable[tuple[str, str]] = (),
) -> None:
    """Report a phase of a test in this process, in which an error was raised, or none."""

    def end() -> None:
        if error is not None:
            raise error

    report = item.ihook.pytest_runtest_makereport(item=item, call=pytest.CallInfo.from_call(end, when))
    report.sections += sections
    item.ihook.pytest_runtest_logreport(report=report)


def _is_for_ranks(item: pytest.Item) -> bool:
    spec = item.stash.get(SPEC, None)
    return spec is not None and spec.is_in_ranks and spec.scaling is not None and spec.problem is None


def _ranks_of(item: pytest.Item) -> int:
    scaling = item.stash[SPEC].scaling
    return scaling.count if scaling is not None else 1
