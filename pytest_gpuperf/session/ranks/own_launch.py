"""Plain pytest starts the ranks for its tests with `ranks`, once, and reports what rank 0 has reported."""

import json
import os
import secrets
import socket
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any, Literal

import pytest

from pytest_gpuperf.collection.items import SPEC
from pytest_gpuperf.integrations import processes
from pytest_gpuperf.integrations.launchers import OF_PYTEST, RANK_OF_PYTEST, RANKS_OF_PYTEST
from pytest_gpuperf.model.errors import Unavailable
from pytest_gpuperf.session.ranks import own_rank
from pytest_gpuperf.session.ranks.own_rank import Task, reports_of
from pytest_gpuperf.session.ranks.signals import ended_by_sigterm
from pytest_gpuperf.session.session import GpuPerfSession

Line = dict[str, Any]
"""A report of a test, as pytest serializes it, or a warning."""

_LOOK = 0.2  # seconds between two looks at who is there
_ALONE = 120.0  # seconds without a report for rank 0 to end when all others have, which it may await for 60
_GRACE = 10.0  # seconds for others to end when rank 0 has
_LAST_LINES = 15
_START = (
    f"import json, os, sys; sys.path[:] = json.loads(os.environ[{own_rank.PATH!r}]); import pytest; "
    "sys.exit(pytest.main(sys.argv[1:]))"
)
_HOST = "127.0.0.1"
_ENDED_WELL = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
_OF_A_LAUNCHER = "TORCHELASTIC_"  # variables of a torchrun that has started this process alone


class OwnLaunch:
    """Runs each test with `ranks` in the ranks that it has started, where there are GPUs for two or more.

    `on_error` is told what fails the run, as no test shows it. `plugin` is the name under which this plugin
    is registered, and `path` where Python looked for modules when it was.
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
        self._ended: _Ended | None = None
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
        """Report what the ranks have said of a test, which run all of them now if they have not yet."""
        if self._ended is None:
            self._ended = self._run(item, plan)
        lines = self._ended.next_run(item.nodeid)
        reports = [*self._reports(lines)]
        if not any(report.when == "teardown" for report in reports):
            reason = self._ended.why if self._first_failed is None else f"as {self._first_failed}"
            self._first_failed = self._first_failed or item.nodeid
            text = f"the ranks that pytest started have ended before this test did: {reason}"
            _report_phase(item, "setup", pytest.fail.Exception(text, pytrace=False))
            _report_phase(item, "teardown", None)
            return
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        for line in lines[0]:
            if "warning" in line:
                self._warn(line)

    def _planned(self, items: Iterable[pytest.Item]) -> "_Plan":
        """Return which tests the ranks run, and how many of these there are; none without GPUs for two."""
        try:
            most = self._session.machine.most_processes()
        except Unavailable:
            return _Plan()
        counts = {item.nodeid: _ranks_of(item) for item in items if _is_for_ranks(item)}
        tests = [nodeid for nodeid, needed in counts.items() if needed <= most]
        ranks = max((counts[nodeid] for nodeid in tests), default=1)
        return _Plan(tuple(tests), ranks) if ranks > 1 else _Plan()

    def _run(self, item: pytest.Item, plan: "_Plan") -> "_Ended":
        """Run all tests that are for ranks, and return how that ended."""
        self._session.machine.release()  # what the ranks may need
        words = f"is measured by {plan.ranks} ranks, as {len(plan.tests)} tests in all are"
        with (
            ended_by_sigterm(lambda: False),
            self._session.waiting(item, words),
            TemporaryDirectory(prefix="gpuperf-ranks-") as name,
        ):
            return self._run_in(Path(name), [*plan.tests], plan.ranks)

    def _run_in(self, folder: Path, tests: list[str], ranks: int) -> "_Ended":
        config = self._config
        # What is typed, as pytest-xdist hands it to its workers: pytest reads the rest again. This plugin may
        # not have been loaded by its entry point.
        arguments = [f"-p{self._plugin}", f"-p{own_rank.__name__}", *map(str, config.invocation_params.args)]
        if config.pluginmanager.hasplugin("pytest_cov"):
            arguments.append("--no-cov")
        seed = getattr(config.option, "randomly_seed", None)
        task = Task(tests=tests, seed=seed, process=os.getpid())
        (folder / "task.json").write_text(task.text, encoding="utf-8")
        # Our package is imported by pytest alone, which rewrites its assertions.
        command = [sys.executable, "-P", "-c", _START, *arguments]
        outputs = [folder / f"rank-{number}.txt" for number in range(ranks)]
        with ExitStack() as stack:
            started = [
                stack.enter_context(
                    processes.started(
                        command, config.invocation_params.dir, environment, output, calls_die_with=True
                    )
                )
                for environment, output in zip(_environments(ranks, folder, self._path), outputs, strict=True)
            ]
            stack.callback(processes.ask_to_end, started)  # all at once: some wait for others
            _wait_for(started, reports_of(folder, 0))
            statuses = [process.poll() for process in started]
        said = [_read(reports_of(folder, number)) for number in range(ranks)]
        ended = _Ended(said, _why(statuses, outputs))
        if ended.has_all(tests) and (bad := _first_bad(statuses)) is not None:
            self._on_error(f"FAILED: {_how(bad, statuses[bad])} after its last test; {ended.why}")
        return ended

    def _reports(self, lines: Sequence[Sequence[Line]]) -> Iterator[pytest.TestReport]:
        """Yield the reports of rank 0 on a test; one that fails shows how other ranks have failed, too.

        Where only others have, the last one fails.
        """
        first, *others = map(self._loaded, lines)
        failed = [(number, report) for number, its in enumerate(others, 1) for report in its if report.failed]
        sections = [(f"rank {number}, {report.when}", report.longreprtext) for number, report in failed]
        for report in first:
            if failed and not any(each.failed for each in first) and report is first[-1]:
                number, other = failed[0]
                report.outcome, report.longrepr = "failed", f"rank {number} has failed in its {other.when}"
            if report.failed:
                report.sections += sections
                sections = []
            yield report

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


class _Ended:
    """How a launch has ended: what each rank said of each test, and `why` something may be missing."""

    def __init__(self, said: Sequence[dict[str, list[Line]]], why: str) -> None:
        self._said = said
        self.why = why

    def has_all(self, tests: Iterable[str]) -> bool:
        """Return whether rank 0 has ended each of these tests."""
        return all(
            any(line.get("when") == "teardown" for line in self._said[0].get(test, ())) for test in tests
        )

    def next_run(self, nodeid: str) -> list[list[Line]]:
        """Return what each rank has said of a test: the next time, of one that is there more than once."""
        return [_taken_up_to_teardown(its.get(nodeid, [])) for its in self._said]


def _taken_up_to_teardown(lines: list[Line]) -> list[Line]:
    """Remove the lines of one run of a test from all of its lines, and return them; warnings come last."""
    ends = [place for place, line in enumerate(lines) if line.get("when") == "teardown"]
    end = ends[0] + 1 if len(ends) > 1 else len(lines)
    taken, lines[:end] = lines[:end], []
    return taken


def _report_phase(item: pytest.Item, when: Literal["setup", "teardown"], error: BaseException | None) -> None:
    """Report a phase of a test in this process, in which an error was raised, or none."""

    def end() -> None:
        if error is not None:
            raise error

    report = item.ihook.pytest_runtest_makereport(item=item, call=pytest.CallInfo.from_call(end, when))
    item.ihook.pytest_runtest_logreport(report=report)


def _is_for_ranks(item: pytest.Item) -> bool:
    spec = item.stash.get(SPEC, None)
    return spec is not None and spec.is_in_ranks and spec.scaling is not None and spec.problem is None


def _ranks_of(item: pytest.Item) -> int:
    scaling = item.stash[SPEC].scaling
    return scaling.count if scaling is not None else 1


def _environments(ranks: int, folder: Path, path: Sequence[str]) -> list[dict[str, str]]:
    """Return the environment of each rank: that of this process, what torch.distributed reads, and JAX's.

    All else is as it is here, so that a baseline of one run is compared with what another has measured.
    """
    launch, ports = secrets.token_hex(8), [*_free_ports(2)]
    of_all = {
        **{name: value for name, value in os.environ.items() if not name.startswith(_OF_A_LAUNCHER)},
        OF_PYTEST: launch,
        RANKS_OF_PYTEST: str(ranks),
        own_rank.FOLDER: str(folder),
        own_rank.PATH: json.dumps(path),
        "MASTER_ADDR": _HOST,
        "MASTER_PORT": str(ports[0]),
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "JAX_COORDINATOR_ADDRESS": f"{_HOST}:{ports[1]}",
        "JAX_NUM_PROCESSES": str(ranks),
    }
    names = (RANK_OF_PYTEST, "RANK", "LOCAL_RANK", "JAX_PROCESS_ID")
    return [{**of_all, **dict.fromkeys(names, str(number))} for number in range(ranks)]


def _free_ports(number: int) -> Iterator[int]:
    with ExitStack() as stack:
        for _ in range(number):
            yield stack.enter_context(socket.create_server((_HOST, 0))).getsockname()[1]


def _wait_for(ranks: Sequence[subprocess.Popen[bytes]], reports: Path) -> None:
    """Wait until rank 0 has ended, and then the others; not for long for one that is left alone.

    A rank that ends badly before the first report has met nobody, and rank 0 would wait for it in vain.
    """
    first, *others = ranks
    written, since = -1, monotonic()
    while not _has_ended(first, _LOOK):
        size = reports.stat().st_size if reports.exists() else 0
        if size != written or not all(_has_ended(other, 0.0) for other in others):
            written, since = size, monotonic()
        if monotonic() - since > _ALONE or (
            not size and _first_bad([rank.poll() for rank in ranks]) is not None
        ):
            return
    deadline = monotonic() + _GRACE
    for other in others:
        _has_ended(other, max(0.0, deadline - monotonic()))


def _has_ended(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _read(file: Path) -> dict[str, list[Line]]:
    """Return what a rank has written, by test; the last line of one that was killed may be cut short."""
    found: dict[str, list[Line]] = {}
    for text in file.read_bytes().splitlines() if file.exists() else ():
        with suppress(ValueError):
            line = json.loads(text)
            found.setdefault(line["nodeid"], []).append(line)
    return found


def _why(statuses: Sequence[int | None], outputs: Sequence[Path]) -> str:
    """Return how the ranks have ended, and the last lines of rank 0 and of another one that ended badly."""
    how = ", ".join(_how(number, status) for number, status in enumerate(statuses))
    others = [number for number, status in enumerate(statuses) if number and status not in _ENDED_WELL]
    shown = [0, *others[:1]]
    return "\n".join([how, *(line for number in shown for line in _last_lines(number, outputs[number]))])


def _last_lines(number: int, output: Path) -> list[str]:
    lines = output.read_text(encoding="utf-8", errors="replace").splitlines()[-_LAST_LINES:]
    return [f"the last lines of rank {number}:", *lines] if lines else []


def _first_bad(statuses: Sequence[int | None]) -> int | None:
    """Return the first rank that has ended, and neither passed nor failed its tests."""
    ended = ((number, status) for number, status in enumerate(statuses) if status is not None)
    return next((number for number, status in ended if status not in _ENDED_WELL), None)


def _how(number: int, status: int | None) -> str:
    if status is None:
        return f"rank {number} did not end"
    how = f"was ended by signal {-status}" if status < 0 else f"ended with exit status {status}"
    return f"rank {number} {how}"
