"""From a tree to the report of a fresh process of pytest in it, or an error with its last lines of output."""

import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pytest_gpuperf.cli import imported
from pytest_gpuperf.cli.trees import Tree
from pytest_gpuperf.integrations.processes import started
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Report
from pytest_gpuperf.report import reader

_LAST_LINES = 15
_MEASURED = (0, 1, 5)  # exit codes of pytest: all passed, some failed, and there were no tests
_OURS = (
    "-pno:cacheprovider",  # it would write into the tree
    f"-p{imported.__name__}",
    "--continue-on-collection-errors",  # base need not know what head's new tests import
    "--maxfail=0",  # a suite's own `-x` would leave out what comes after
    "--tb=short",
    "--gpuperf-baseline=later",
    "--gpuperf-fail=nothing",
)
_ERROR_HEADING = re.compile(r"_+ ERROR collecting (.*?) _+$")
_OF_ONE_RUN = ("GITHUB_STEP_SUMMARY",)  # an ini file may have each process write there


class NoReport(GpuPerfError):
    """A process that died or hung; `lines` are the last lines of its output."""

    def __init__(self, text: str, lines: Sequence[str]) -> None:
        super().__init__(text)
        self.lines = lines


class Measured(NamedTuple):
    """The report of a process, the error of each file that it could not collect, and what it imported."""

    report: Report
    errors: Mapping[str, str]
    imported: Sequence[str]


def measure(tree: Tree, report: Path, arguments: Sequence[str], limit: float) -> Measured:
    """Run pytest in a tree; raise NoReport where it does not end by itself, or leaves no whole report.

    It may take so many seconds. However it ends, nothing that it has started outlives it.
    """
    command = [sys.executable, "-P", "-m", "pytest", *arguments, *_OURS, f"--gpuperf-json={report}"]
    said, modules = report.with_suffix(".txt"), report.with_suffix(".modules")
    environment = {name: value for name, value in tree.environment.items() if name not in _OF_ONE_RUN}
    environment[imported.FILE] = str(modules)
    with started(command, tree.folder, environment, said) as process:
        try:
            code: int | None = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
    lines = said.read_text(encoding="utf-8", errors="replace").splitlines()
    where = f"pytest in {tree.name} ({tree.commit[:7]})"
    if code is None:
        raise NoReport(f"{where} was still at work after {limit:.0f} s", lines[-_LAST_LINES:])
    if code not in _MEASURED or not report.exists():
        raise NoReport(f"{where} ended with exit code {code}", lines[-_LAST_LINES:])
    found = reader.named_report(report)
    if not found.run.complete:
        raise NoReport(f"{where} ended before its last test", lines[-_LAST_LINES:])
    return Measured(found, collection_errors(lines), imported.files_in(modules))


def collection_errors(lines: Iterable[str]) -> dict[str, str]:
    """Return the files that pytest could not collect, each with what was raised, from what it printed."""
    found: dict[str, str] = {}
    file = None
    for line in lines:
        if heading := _ERROR_HEADING.match(line):
            file = heading[1]
            found[file] = ""
        elif line.startswith(("=", "___")):
            file = None
        elif file is not None and line.startswith("E   "):
            found[file] = line.removeprefix("E   ").strip()  # the last of several lines states the exception
    return found
