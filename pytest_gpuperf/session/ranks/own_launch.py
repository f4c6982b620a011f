"""Plain pytest starts the ranks for its tests with `ranks`, once, and reports what rank 0 has reported."""

import json
import os
import secrets
import socket
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

import pytest

from pytest_gpuperf.collection.items import SPEC
from pytest_gpuperf.integrations import processes
from pytest_gpuperf.integrations.launchers import OF_PYTEST
from pytest_gpuperf.model.errors import Unavailable
from pytest_gpuperf.session.ranks import own_rank
from pytest_gpuperf.session.ranks.own_rank import Task, reports_of
from pytest_gpuperf.session.run_hooks import ERROR_BEFORE
from pytest_gpuperf.session.session import GpuPerfSession

Line = dict[str, Any]
"""A report of a test, as pytest serializes it, or a warning."""

_LOOK = 0.2  # seconds between two looks at who is there
_ALONE = 60.0  # seconds for rank 0 to end when all others have
_GRACE = 10.0  # seconds for others to end when rank 0 has
_LAST_LINES = 15
_HOST = "127.0.0.1"


class OwnLaunch:
    """Runs each test with `ranks` in the ranks that it has started, where there are GPUs for two or more."""

    def __init__(self, session: GpuPerfSession, config: pytest.Config) -> None:
        self._session = session
        self._config = config
        self._ended: _Ended | None = None
        self._first_failed: str | None = None

    @pytest.hookimpl(tryfirst=True)  # before pytest's own, and plugins that run a test again
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Report how the ranks have run a test; leave it to pytest where they have not."""
        if not _is_for_ranks(item):
            return None
        try:
            item.session._setupstate.teardown_exact(nextitem)  # noqa: SLF001 - what earlier tests have left
        except Exception as error:  # noqa: BLE001 - this is no phase of a test: it is raised in the setup
            item.stash[ERROR_BEFORE] = error
            return None
        if self._ended is None:
            self._ended = self._run(item)
        if item.nodeid not in self._ended.tests:
            return None
        reports = [*self._reports(item.nodeid)]
        if not any(report.when == "teardown" for report in reports):
            reason = self._ended.why if self._first_failed is None else f"as {self._first_failed}"
            self._first_failed = self._first_failed or item.nodeid
            text = f"the ranks that pytest started have ended before this test did: {reason}"
            item.stash[ERROR_BEFORE] = pytest.fail.Exception(text, pytrace=False)
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        for line in self._ended.said[0][item.nodeid]:
            if "warning" in line:
                self._warn(line)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _run(self, item: pytest.Item) -> "_Ended":
        """Run all tests that are for ranks, and return how that ended."""
        try:
            most = self._session.machine.most_processes()
        except Unavailable:
            return _Ended()
        self._session.machine.release()  # what the ranks may need
        counts = {each.nodeid: _ranks_of(each) for each in item.session.items if _is_for_ranks(each)}
        tests = [nodeid for nodeid, needed in counts.items() if needed <= most]
        ranks = max((counts[nodeid] for nodeid in tests), default=1)
        if ranks == 1:
            return _Ended()
        with self._session.waiting(item), TemporaryDirectory(prefix="gpuperf-ranks-") as name:
            return self._run_in(Path(name), tests, ranks)

    def _run_in(self, folder: Path, tests: list[str], ranks: int) -> "_Ended":
        config = self._config
        # What is typed, as pytest-xdist hands it to its workers: pytest reads the rest again. This plugin may
        # not have been loaded by its entry point.
        arguments = ["-pgpuperf", *map(str, config.invocation_params.args)]
        if config.pluginmanager.hasplugin("pytest_cov"):
            arguments.append("--no-cov")
        seed = getattr(config.option, "randomly_seed", None)
        task = Task(
            arguments=arguments,
            tests=tests,
            folder=str(folder),
            path=sys.path,
            seed=seed,
            process=os.getpid(),
        )
        file = folder / "task.json"
        file.write_text(task.text, encoding="utf-8")
        command = [sys.executable, "-m", own_rank.__name__, str(file)]
        outputs = [folder / f"rank-{number}.txt" for number in range(ranks)]
        with ExitStack() as stack:
            started = [
                stack.enter_context(
                    processes.started(
                        command, config.invocation_params.dir, environment, output, calls_die_with=True
                    )
                )
                for environment, output in zip(_environments(ranks), outputs, strict=True)
            ]
            _wait_for(started)
            statuses = [process.poll() for process in started]
        said = [_read(reports_of(folder, number)) for number in range(ranks)]
        return _Ended(tests, said, _why(statuses, outputs))

    def _reports(self, nodeid: str) -> Iterator[pytest.TestReport]:
        """Yield the reports of rank 0 on a test; one that fails shows how other ranks have failed, too."""
        assert self._ended is not None  # noqa: S101 - the caller has run them
        first, *others = self._ended.said
        failures = [
            (f"rank {number}, {report.when}", report.longreprtext)
            for number, lines in enumerate(others, 1)
            for report in self._loaded(lines.get(nodeid, ()))
            if report.failed
        ]
        for report in self._loaded(first.get(nodeid, ())):
            if report.failed:
                report.sections += failures
                failures = []
            yield report

    def _loaded(self, lines: Sequence[Line]) -> list[pytest.TestReport]:
        return [self._report(line) for line in lines if "warning" not in line]

    def _report(self, data: Line) -> pytest.TestReport:
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
        found = warnings.WarningMessage(category(text), category, file, number)
        told = {"warning_message": found, "when": "runtest", "nodeid": line["nodeid"], "location": None}
        self._config.hook.pytest_warning_recorded.call_historic(kwargs=told)


class _Ended:
    """How a launch has ended: its tests, what each rank said of each, and why something may be missing."""

    def __init__(
        self, tests: Sequence[str] = (), said: Sequence[dict[str, list[Line]]] = (), why: str = ""
    ) -> None:
        self.tests = set(tests)
        self.said = said
        self.why = why


def _is_for_ranks(item: pytest.Item) -> bool:
    spec = item.stash.get(SPEC, None)
    return spec is not None and spec.is_in_ranks and spec.scaling is not None and spec.problem is None


def _ranks_of(item: pytest.Item) -> int:
    scaling = item.stash[SPEC].scaling
    return scaling.count if scaling is not None else 1


def _environments(ranks: int) -> list[dict[str, str]]:
    """Return the environment of each rank: that of this process, what torch.distributed reads, and JAX's.

    All else is as it is here, so that a baseline of one run is compared with what another has measured.
    """
    launch, ports = secrets.token_hex(8), [*_free_ports(2)]
    of_all = {
        **os.environ,
        OF_PYTEST: launch,
        "MASTER_ADDR": _HOST,
        "MASTER_PORT": str(ports[0]),
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "JAX_COORDINATOR_ADDRESS": f"{_HOST}:{ports[1]}",
        "JAX_NUM_PROCESSES": str(ranks),
    }
    names = ("RANK", "LOCAL_RANK", "JAX_PROCESS_ID")
    return [{**of_all, **dict.fromkeys(names, str(number))} for number in range(ranks)]


def _free_ports(number: int) -> Iterator[int]:
    with ExitStack() as stack:
        for _ in range(number):
            yield stack.enter_context(socket.create_server((_HOST, 0))).getsockname()[1]


def _wait_for(ranks: Sequence[subprocess.Popen[bytes]]) -> None:
    """Wait until rank 0 has ended, and then the others; not for long for one that is left alone."""
    first, *others = ranks
    deadline: float | None = None
    while not _has_ended(first, _LOOK):
        if deadline is None and all(_has_ended(other, 0.0) for other in others):
            deadline = monotonic() + _ALONE
        if deadline is not None and monotonic() > deadline:
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
    """Return how the ranks have ended, and the last lines of the first one that did so badly."""
    how = [_how(number, status) for number, status in enumerate(statuses)]
    bad = next((number for number, status in enumerate(statuses) if status not in (0, 1)), 0)
    lines = outputs[bad].read_text(encoding="utf-8", errors="replace").splitlines()[-_LAST_LINES:]
    return "\n".join([f"{', '.join(how)}; the last lines of rank {bad}:", *lines])


def _how(number: int, status: int | None) -> str:
    if status is None:
        return f"rank {number} did not end"
    how = f"was ended by signal {-status}" if status < 0 else f"ended with exit status {status}"
    return f"rank {number} {how}"
