"""Plugin of a rank that plain pytest has started: it runs tests with `ranks`, and keeps their reports."""

import json
import os
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_gpuperf.integrations import processes
from pytest_gpuperf.integrations.launchers import RANK_OF_PYTEST, REFUSED
from pytest_gpuperf.session.ranks.process import KILL

FOLDER, PATH = "PYTEST_GPUPERF_LAUNCH_FOLDER", "PYTEST_GPUPERF_LAUNCH_PATH"
"""Variables: the folder of the task and the reports, and where Python looks for modules."""
TASK = "task.json"
"""The file of the task in that folder."""
_FILES = dict.fromkeys(("xmlpath", "report_log", "htmlpath", "json_report", "pastebin", "basetemp"))
_LEFT_OUT = {**dict.fromkeys(REFUSED, 0), **_FILES, "log_file": os.devnull}
"""Values of options, by their names in pytest's configuration, in place of what is given or in the ini file.

One rank can run no test again alone, and the run that started this one writes the files itself.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What all ranks of a launch do: these tests of the run that started them, in this order.

    `seed` is that of pytest-randomly, `process` the one that has started them: they die with it.
    """

    tests: list[str]
    seed: Any
    process: int

    @property
    def text(self) -> str:
        """The task as its file has it."""
        return json.dumps(asdict(self))


def reports_of(folder: Path, number: int) -> Path:
    """Return the file with the reports of a rank, one in a line."""
    return folder / f"rank-{number}.jsonl"


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Die with the run that started this one, before anything of the suite is imported."""
    processes.die_with(_task().process, KILL)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Let this run do what one rank of several can do, before any plugin is configured."""
    task = _task()
    for name, value in _LEFT_OUT.items():
        if hasattr(config.option, name):
            setattr(config.option, name, value)
    if hasattr(config.option, "randomly_seed"):
        config.option.randomly_seed = task.seed
    file = reports_of(Path(os.environ[FOLDER]), int(os.environ[RANK_OF_PYTEST]))
    config.pluginmanager.register(_Worker(config, task, file))


def _task() -> Task:
    return Task(**json.loads(Path(os.environ[FOLDER], TASK).read_text(encoding="utf-8")))


class _Worker:
    """Runs the tests of a task, and writes their reports to a file, for the process that shows them."""

    def __init__(self, config: pytest.Config, task: Task, file: Path) -> None:
        self._config = config
        self._file = file
        self._order = {test: place for place, test in enumerate(task.tests)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the tests that are for ranks, in the order of the run that started this one."""
        kept = [item for item in items if item.nodeid in self._order]
        items[:] = sorted(kept, key=lambda item: self._order[item.nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write a report."""
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        try:
            self._write(data)
        except TypeError:  # of a property that a test has set: JSON takes no key that is no text
            properties = [(str(name), str(value)) for name, value in data["user_properties"]]
            self._write({**data, "user_properties": properties})

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
        line = json.dumps(data, default=str)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
