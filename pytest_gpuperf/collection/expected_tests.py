"""Why a test of an earlier run did not run, from the command line and from what pytest collected."""

import argparse
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from pytest_gpuperf.model.comparison import Absence, LeftOutBy
from pytest_gpuperf.model.nodeid import file_of, split

_DESELECT: dict[str, LeftOutBy] = {"keyword": "-k", "markexpr": "-m", "deselect": "--deselect"}
_RERUN: dict[str, LeftOutBy] = {"lf": "--lf", "stepwise": "--sw", "stepwise_skip": "--sw"}


class ExpectedTests:
    """Which tests of a baseline a run should have had, by the `outcomes` of the files that it collected.

    `deselected` are node ids. Unlike pytest's options, `command_line` holds only what the user typed: nothing
    that comes from `addopts` or PYTEST_ADDOPTS.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.outcomes: dict[str, str] = {}
        self.deselected: set[str] = set()
        parser = config._parser  # noqa: SLF001 - pytest keeps the parsed options of all sources only
        self.command_line = parser.parse_known_args(config.invocation_params.args)
        self._options = config.option
        self._root = config.rootpath
        self._folder = config.invocation_params.dir
        self._source = config.args_source
        self._places = _places(config)
        self._reruns_failures = _reruns_failures(config)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Add the outcome of a file, or of a folder, which has no tests of its own."""
        if report.nodeid and "::" not in report.nodeid:
            self.outcomes[report.nodeid] = report.outcome

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Add the file of a test: pytest reports no outcome for one requested by node ids."""
        self.outcomes.setdefault(file_of(item.nodeid), "passed")

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Add tests that options or plugins deselected."""
        self.deselected.update(item.nodeid for item in items)

    def absence(self, nodeid: str, *, skipped_files: bool = True) -> Absence | None:
        """Return why a test did not run; None where nobody asked for it.

        A file or folder that skips itself counts as collected, unless `skipped_files` is False.
        """
        file, name = split(nodeid)
        if nodeid in self.deselected:
            return self._left_out(_DESELECT | _RERUN, nodeid)
        if self._reruns_failures:
            return self._left_out(_RERUN, nodeid)
        exists = (self._root / file).exists()
        outcome = self._outcome(file)
        by_name = any("::" in place for place in self._places)
        if (outcome is None or by_name) and not self._is_requested(file, name):
            return self._outside(exists=exists)
        if outcome is None and exists:
            # Without any outcome the session ended before it collected a file, and fails for that.
            return self._ignored(self._root / file) if self.outcomes else None
        return None if outcome == "skipped" and not skipped_files else Absence(cause="gone")

    def _left_out(self, options: dict[str, LeftOutBy], nodeid: str) -> Absence:
        """Return who deselected a test: the command line if it has such an option, whatever else there is."""
        if typed := _used(self.command_line, options, nodeid):
            return Absence(cause="command_line", options=typed)
        return Absence(cause="configuration", options=_used(self._options, options, nodeid))

    def _outside(self, *, exists: bool) -> Absence | None:
        """Return why a test is in no place that pytest was to collect."""
        if self.command_line.file_or_dir:
            return Absence(cause="command_line", options=("paths",)) if exists else None
        if not exists:
            return Absence(cause="gone")
        if self._source is pytest.Config.ArgsSource.INVOCATION_DIR:
            return Absence(cause="command_line", options=("folder",))
        is_ini = self._source is pytest.Config.ArgsSource.TESTPATHS
        return Absence(cause="configuration", options=("testpaths" if is_ini else "paths",))

    def _ignored(self, path: Path) -> Absence:
        """Return why a file was not collected although pytest was called for its place."""
        around = (path, *path.parents)
        ignored = [self._folder / name for name in getattr(self.command_line, "ignore", None) or ()]
        globs = [str(self._folder / name) for name in getattr(self.command_line, "ignore_glob", None) or ()]
        if any(place.resolve() in map(Path.resolve, around) for place in ignored):
            return Absence(cause="command_line", options=("--ignore",))
        if any(fnmatch(str(place), pattern) for place in around for pattern in globs):
            return Absence(cause="command_line", options=("--ignore-glob",))
        return Absence(cause="configuration")

    def _outcome(self, file: str) -> str | None:
        """Return the outcome of a file; one in a folder that skips itself is skipped with it."""
        if file in self.outcomes:
            return self.outcomes[file]
        folders = (str(folder) for folder in PurePosixPath(file).parents)
        return "skipped" if any(self.outcomes.get(folder) == "skipped" for folder in folders) else None

    def _is_requested(self, file: str, name: str) -> bool:
        """Return whether pytest was to collect a test: its folder, its file or its name."""
        path = (self._root / file).resolve()
        return any(_covers(place, path, name) for place in self._places)


def _used(given: argparse.Namespace, options: dict[str, LeftOutBy], nodeid: str) -> tuple[LeftOutBy, ...]:
    """Return which of these options are given; --deselect only if it names the test."""
    used = []
    for name, flag in options.items():
        value: Any = getattr(given, name, None)
        if value and (name != "deselect" or nodeid.startswith(tuple(value))):
            used.append(flag)
    return tuple(dict.fromkeys(used))


def _covers(argument: str, file: Path, name: str) -> bool:
    place, requested_name = split(argument)
    path = Path(place)
    if not requested_name:
        return file.is_relative_to(path)
    return path == file and (
        name == requested_name or name.startswith((f"{requested_name}::", f"{requested_name}["))
    )


def command_line_selection(config: pytest.Config) -> list[str]:
    """Return the paths, resolved, and node ids that the user passed on the command line, if any."""
    return _places(config) if config.args_source is pytest.Config.ArgsSource.ARGS else []


def _places(config: pytest.Config) -> list[str]:
    """Return the paths, resolved, and node ids that pytest collects."""
    parts = (argument.partition("::") for argument in config.args)
    return [
        f"{(config.invocation_params.dir / path).resolve()}{colons}{name}" for path, colons, name in parts
    ]


def _reruns_failures(config: pytest.Config) -> bool:
    """Return whether only tests run that failed before; if none has, --lf and --sw run all of them."""
    cache = getattr(config, "cache", None)
    if cache is None:
        return False
    if config.getoption("lf", default=False) and cache.get("cache/lastfailed", None):
        return True
    if not config.getoption("stepwise", default=False):
        return False
    stopped_at = cache.get("cache/stepwise", None)
    return bool(stopped_at.get("last_failed") if isinstance(stopped_at, dict) else stopped_at)
