"""One fresh process of pytest in a tree: its report, or why there is none, and the last that it said."""

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pytest_gpuperf.cli.processes import dying_with_parent, end, held_back
from pytest_gpuperf.cli.trees import Tree
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Report
from pytest_gpuperf.report import reader

_LAST_LINES = 15
_MEASURED = (0, 1, 5)  # exit codes of pytest: all passed, some failed, and there were no tests
_OURS = (
    "-pno:cacheprovider",  # it would write into the tree
    "-rE",  # what could not be collected, a line each
    "--continue-on-collection-errors",  # base need not know what head's new tests import
    "--gpuperf-baseline=later",
    "--gpuperf-fail=nothing",
)
_OF_ONE_RUN = ("GITHUB_STEP_SUMMARY",)  # an ini file may have each process write there


class NoReport(GpuPerfError):
    """A process that died or hung; `lines` are the last ones of what it said."""

    def __init__(self, text: str, lines: Sequence[str]) -> None:
        super().__init__(text)
        self.lines = lines


class Measured(NamedTuple):
    """The report of a process, and what it said of files that it could not collect."""

    report: Report
    errors: tuple[str, ...]


def measure(tree: Tree, report: Path, arguments: Sequence[str], limit: float) -> Measured:
    """Run pytest in a tree; raise NoReport where it does not end by itself, or leaves no whole report.

    It may take so many seconds. However it ends, nothing that it has started outlives it.
    """
    command = [sys.executable, "-P", "-m", "pytest", *arguments, *_OURS, f"--gpuperf-json={report}"]
    environment = {name: value for name, value in tree.environment.items() if name not in _OF_ONE_RUN}
    said = report.with_suffix(".txt")
    with (
        said.open("w+", encoding="utf-8", errors="replace") as output,
        subprocess.Popen(  # noqa: S603 - our words and the user's own, and no shell
            command,
            cwd=tree.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,  # not a pipe, which what a test leaves behind would keep open
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=dying_with_parent(signal.SIGKILL),
        ) as process,
    ):
        try:
            code: int | None = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            with held_back():
                end(process)
    lines = said.read_text(encoding="utf-8", errors="replace").splitlines()
    where = f"pytest in {tree.name} ({tree.commit[:7]})"
    if code is None:
        raise NoReport(f"{where} was still at work after {limit:.0f} s", lines[-_LAST_LINES:])
    if code not in _MEASURED or not report.exists():
        raise NoReport(f"{where} ended with exit code {code}", lines[-_LAST_LINES:])
    return Measured(reader.named_report(report), tuple(line for line in lines if line.startswith("ERROR ")))
