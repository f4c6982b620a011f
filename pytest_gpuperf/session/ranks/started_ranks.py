"""Processes of pytest that run the same tests as ranks: started, waited for, and what each has said."""

import json
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

import pytest

from pytest_gpuperf.integrations import processes
from pytest_gpuperf.integrations.launchers import OF_PYTEST, RANK_OF_PYTEST, RANKS_OF_PYTEST
from pytest_gpuperf.session.ranks import own_rank
from pytest_gpuperf.session.ranks.own_rank import Task, reports_of

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
"""A program that imports pytest alone: it rewrites the assertions of what it imports itself."""
_HOST = "127.0.0.1"
_ENDED_WELL = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
_OF_A_LAUNCHER = "TORCHELASTIC_"  # variables of a torchrun that has started this process alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """How ranks are started: the arguments of pytest, the folder, and where Python looks for modules."""

    arguments: Sequence[str]
    folder: Path
    path: Sequence[str]


class Ended:
    """How a launch has ended: what each rank said of each test, and `why` something may be missing.

    `crash` is how a rank has ended badly, although rank 0 has ended all tests.
    """

    def __init__(
        self, said: Sequence[dict[str, list[Line]]], statuses: Sequence[int | None], why: str, task: Task
    ) -> None:
        self._said = said
        self.why = why
        bad = _first_bad(statuses)
        has_all = all(map(self._is_there, task.tests))
        self.crash = _how(bad, statuses[bad]) if bad is not None and has_all else None

    def next_run(self, nodeid: str) -> list[list[Line]]:
        """Return what each rank has said of a test: the next time, of one that is there more than once."""
        return [_taken_up_to_teardown(its.get(nodeid, [])) for its in self._said]

    def _is_there(self, nodeid: str) -> bool:
        return any(line.get("when") == "teardown" for line in self._said[0].get(nodeid, ()))


def _taken_up_to_teardown(lines: list[Line]) -> list[Line]:
    """Remove the lines of one run of a test from all of its lines, and return them; warnings come last."""
    ends = [place for place, line in enumerate(lines) if line.get("when") == "teardown"]
    end = ends[0] + 1 if len(ends) > 1 else len(lines)
    taken, lines[:end] = lines[:end], []
    return taken


def run(task: Task, ranks: int, command: Command) -> Ended:
    """Let so many ranks run the tests of a task, and return how that ended; nothing is left of them."""
    with TemporaryDirectory(prefix="gpuperf-ranks-") as name:
        folder = Path(name)
        (folder / own_rank.TASK).write_text(task.text, encoding="utf-8")
        words = [sys.executable, "-P", "-c", _START, f"-p{own_rank.__name__}", *command.arguments]
        outputs = [folder / f"rank-{number}.txt" for number in range(ranks)]
        environments = _environments(ranks, folder, command.path)
        with ExitStack() as stack:
            started = [
                stack.enter_context(
                    processes.started(words, command.folder, environment, output, calls_die_with=True)
                )
                for environment, output in zip(environments, outputs, strict=True)
            ]
            stack.callback(processes.ask_to_end, started)  # all at once: some wait for others
            _wait_for(started, reports_of(folder, 0))
            statuses = [process.poll() for process in started]
        said = [_read(reports_of(folder, number)) for number in range(ranks)]
        return Ended(said, statuses, _why(statuses, outputs), task)


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
    """Return how the ranks have ended, and the last lines of rank 0 and of another one that has failed."""
    how = ", ".join(_how(number, status) for number, status in enumerate(statuses))
    others = [number for number, status in enumerate(statuses) if number and status != 0]
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
