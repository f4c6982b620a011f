"""A rank that plain pytest has started: it runs tests with `ranks`, and hands on their reports.

`python -m pytest_gpuperf.session.ranks.own_rank FILE`, where the file has a `Task`.
"""

import json
import os
import sys
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_gpuperf.integrations import processes
from pytest_gpuperf.integrations.launchers import REFUSED
from pytest_gpuperf.session.ranks.process import KILL


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What all ranks of a launch do: the arguments of the run that started them, and of its tests these.

    Each has a file of its own in `folder`. `path` is where Python looks for modules, `seed` that of
    pytest-randomly, by which all have the same order. `process` has started them, and they die with it.
    """

    arguments: list[str]
    tests: list[str]
    folder: str
    path: list[str]
    seed: Any
    process: int

    @property
    def text(self) -> str:
        """The task as its file has it."""
        return json.dumps(asdict(self))


def reports_of(folder: Path, number: int) -> Path:
    """Return the file with the reports of a rank, one in a line."""
    return folder / f"rank-{number}.jsonl"


_FILES = dict.fromkeys(("xmlpath", "report_log", "htmlpath", "json_report", "pastebin", "basetemp"))
_LEFT_OUT = {**dict.fromkeys(REFUSED, 0), **_FILES, "log_file": os.devnull}
"""Values of options, by their names in pytest's configuration, in place of what is given or in the ini file.

One rank can run no test again alone, and the run that started this one writes the files itself.
"""


class _Worker:
    """Lets a run do what one rank of several can do, and hands its reports to the process that shows them."""

    def __init__(self, task: Task, number: int) -> None:
        self._file = reports_of(Path(task.folder), number)
        self._seed = task.seed
        self._order = {test: place for place, test in enumerate(task.tests)}
        self._config: pytest.Config | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> None:
        """Leave out what one rank cannot do alone, and the files of the run that started it."""
        self._config = config
        for name, value in _LEFT_OUT.items():
            if hasattr(config.option, name):
                setattr(config.option, name, value)
        if hasattr(config.option, "randomly_seed"):
            config.option.randomly_seed = self._seed

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the tests that are for ranks, in the order of the run that started this one."""
        kept = [item for item in items if item.nodeid in self._order]
        items[:] = sorted(kept, key=lambda item: self._order[item.nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write a report for the process that shows it."""
        assert self._config is not None  # noqa: S101 - the hook above comes first
        self._write(self._config.hook.pytest_report_to_serializable(config=self._config, report=report))

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str
    ) -> None:
        """Write a warning of a test; the process that shows it has those of the collection itself."""
        if when == "runtest":
            category = warning_message.category
            named = {"module": category.__module__, "name": category.__qualname__}
            where = {"filename": warning_message.filename, "lineno": warning_message.lineno}
            text = str(warning_message.message)
            self._write({"warning": text, **named, **where, "nodeid": nodeid})

    def _write(self, data: dict[str, Any]) -> None:
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(data, default=str) + "\n")


def main(file: str) -> int:
    """Run the tests of a task, and return pytest's exit status."""
    task = Task(**json.loads(Path(file).read_text(encoding="utf-8")))
    processes.die_with(task.process, KILL)
    sys.path[:] = task.path
    return int(pytest.main(task.arguments, plugins=[_Worker(task, int(os.environ["RANK"]))]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
