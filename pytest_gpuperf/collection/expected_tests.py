"""Why a test of an earlier run did not run, from the command line and from what pytest collected."""

import argparse
import os
from collections.abc import Collection, Generator, Iterable, Iterator
from copy import copy
from fnmatch import fnmatch
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_gpuperf.collection.items import SPEC, test_id
from pytest_gpuperf.model.comparison import AbsenceCause, LeftOutBy
from pytest_gpuperf.model.nodeid import file_of, has_module_name, split
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.options import add_ours, times_all

Deselection = tuple[bool, tuple[LeftOutBy, ...]]
"""Whether a marker asks for a test, and which of -k and -m exclude it, whoever set them."""
_EXPRESSIONS: dict[str, LeftOutBy] = {"keyword": "-k", "markexpr": "-m"}
_PLACES: dict[str, LeftOutBy] = {
    "deselect": "--deselect",
    "ignore": "--ignore",
    "ignore_glob": "--ignore-glob",
}
_UNREAD = "unread"  # the outcome of a file in which nothing failed, which --lf does not read
_RERUN: dict[str, LeftOutBy] = {"lf": "--lf", "stepwise": "--sw", "stepwise_skip": "--sw"}


class ExpectedTests:
    """Which tests of a baseline a run should have had, by the `outcomes` of the files that it collected.

    Unlike pytest's options, `command_line` holds only what the user typed: nothing that comes from `addopts`
    or PYTEST_ADDOPTS.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.outcomes: dict[str, str] = {}
        self.command_line = _command_line(config)
        self._deselected: dict[str, pytest.Item] = {}
        self._deselected_in_workers: dict[str, Deselection] = {}
        self._paths: dict[str, Path] = {}
        self._config = config
        self._failed_files = _failed_files(config)
        # What the user typed that runs only tests that failed before; the end of the run replaces these.
        flags = (flag for name, flag in _RERUN.items() if getattr(self.command_line, name))
        self._reruns = tuple(dict.fromkeys(flags)) if _reruns_failures(config) else ()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Add the outcome of a file, or of a folder, which has no tests of its own."""
        if report.nodeid and "::" not in report.nodeid:
            is_empty = report.passed and not report.result
            is_unread = is_empty and self._failed_files and report.nodeid not in self._failed_files
            self.outcomes[report.nodeid] = _UNREAD if is_unread else report.outcome

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_make_collect_report(self) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Add the tests of a file before --lf removes from them, unannounced, what did not fail."""
        report = yield
        if self._failed_files:
            self.pytest_deselected([each for each in report.result or () if isinstance(each, pytest.Item)])
        return report

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Add the file of a test: pytest reports no outcome for one requested by node ids."""
        self.outcomes.setdefault(file_of(test_id(item)), "passed")

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Add tests that options or plugins deselected."""
        self._deselected.update((test_id(item), item) for item in items)

    def deselections(self, nodeids: Iterable[str]) -> dict[str, Deselection]:
        """Return what deselected these tests, for those that this process deselected."""
        items = self._deselected
        return {nodeid: self._deselection(items[nodeid]) for nodeid in nodeids if nodeid in items}

    def add_from_worker(self, outcomes: dict[str, str], deselections: dict[str, Deselection]) -> None:
        """Add what an xdist worker collected and deselected."""
        self.outcomes.update(outcomes)
        self._deselected_in_workers.update(deselections)

    @cached_property
    def narrowed_by(self) -> tuple[LeftOutBy, ...]:
        """What the user typed that may leave tests out."""
        typed, found = self.command_line, list[LeftOutBy]()
        is_folder = self._config.args_source is pytest.Config.ArgsSource.INVOCATION_DIR
        if typed.file_or_dir or (is_folder and self._config.invocation_params.dir != self._config.rootpath):
            found.append("paths")
        found += self._typed_expressions(_EXPRESSIONS.values())
        found += (flag for name, flag in _PLACES.items() if getattr(typed, name))
        return (*found, *self._reruns)

    def cause(self, nodeid: str, record: Record) -> AbsenceCause:
        """Return why a test that has this record in the baseline did not run.

        The command line narrowed the run only where what the user typed leaves out this very test: other
        plugins and the ini file may leave it out, too.
        """
        deselected = self.deselections([nodeid]).get(nodeid) or self._deselected_in_workers.get(nodeid)
        if deselected is not None:
            is_marked, options = deselected
            # --gpuperf-all measures what has no marker: it is missed if the baseline has it for its marker.
            is_expected = is_marked or (times_all(self._config) and record.source == "all")
            return self._deselected_by(nodeid, options) if is_expected else "gone"
        file, name = split(nodeid)
        path, outcome = self._path(file), self._outcome(file)
        if outcome == _UNREAD:
            return "narrowed" if self._reruns else "hidden"
        if (outcome is None or self._names_tests) and not self._is_requested(path, name):
            if not self.command_line.file_or_dir and not path.exists():
                return "gone"
            return "narrowed" if "paths" in self.narrowed_by else "hidden"
        if outcome is None and not self.outcomes:
            return "ended"  # before it collected a file
        if outcome is None and path.exists():
            return "narrowed" if self._is_ignored(path) else "hidden"
        return "skipped" if outcome == "skipped" else "gone"

    def _deselection(self, item: pytest.Item) -> Deselection:
        """Return whether a deselected test is marked, and which options exclude it."""
        is_marked = SPEC in item.stash or any(
            item.get_closest_marker(name) for name in ("speedup", "scaling")
        )
        options = (flag for option, flag in _EXPRESSIONS.items() if _excludes(self._config, option, item))
        return is_marked, tuple(options)

    def _deselected_by(self, nodeid: str, options: Iterable[LeftOutBy]) -> AbsenceCause:
        typed = self.command_line.deselect or ()
        is_typed = any(self._typed_expressions(options)) or nodeid.startswith(tuple(typed))
        return "narrowed" if is_typed or self._reruns else "hidden"

    def _typed_expressions(self, options: Iterable[LeftOutBy]) -> Iterator[LeftOutBy]:
        """Yield which of the options -k and -m the user typed, and nothing replaced."""
        for name, flag in _EXPRESSIONS.items():
            value = getattr(self.command_line, name)
            if flag in options and value and value == getattr(self._config.option, name):
                yield flag

    def _is_ignored(self, path: Path) -> bool:
        """Return whether the user typed to ignore a file that pytest was called for."""
        folder, around = self._config.invocation_params.dir, (path, *path.parents)
        places = {(folder / name).resolve() for name in self.command_line.ignore or ()}
        globs = [str(folder / name) for name in self.command_line.ignore_glob or ()]
        return not places.isdisjoint(map(Path.resolve, around)) or any(
            fnmatch(str(place), pattern) for place in around for pattern in globs
        )

    def _outcome(self, file: str) -> str | None:
        """Return the outcome of a file; one in a folder that skips itself is skipped with it."""
        if file in self.outcomes:
            return self.outcomes[file]
        folders = (str(folder) for folder in PurePosixPath(file).parents)
        return "skipped" if any(self.outcomes.get(folder) == "skipped" for folder in folders) else None

    @cached_property
    def _places(self) -> list[str]:
        """What pytest collects; found when it has collected, because --pyargs imports packages for it."""
        return _places(self._config)

    @cached_property
    def _names_tests(self) -> bool:
        return any("::" in place for place in self._places)

    def _path(self, file: str) -> Path:
        """Return the path, resolved, of the file that a node id begins with, or of the module."""
        if file not in self._paths:
            path = self._config.rootpath / file
            if has_module_name(f"{file}::"):
                path = _path_of_module(self._config, file) or path
            self._paths[file] = path.resolve()
        return self._paths[file]

    def _is_requested(self, path: Path, name: str) -> bool:
        """Return whether pytest was to collect a test: its folder, its file or its name."""
        return any(_covers(place, path, name) for place in self._places)


def _command_line(config: pytest.Config) -> argparse.Namespace:
    """Return what the user typed of these options and of the paths that pytest was given.

    pytest's parser has the options of other plugins, too: they may be required, and addopts may have given
    them, or they may do more than to set a value.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, fromfile_prefix_chars="@")
    parser.add_argument("-k", dest="keyword")
    parser.add_argument("-m", dest="markexpr")
    for name in ("deselect", "ignore", "ignore-glob"):
        parser.add_argument(f"--{name}", action="append")
    add_ours(parser)
    parser.add_argument("--lf", "--last-failed", action="store_true")
    parser.add_argument("--stepwise", "--sw", action="store_true")
    parser.add_argument("--stepwise-skip", "--sw-skip", action="store_true")
    parser.add_argument("-l", "-q", "-s", "-v", "-x", dest="flags", action="count")  # as in -vkfast
    typed, others = parser.parse_known_args(list(map(os.fspath, config.invocation_params.args)))
    # What pytest collects may be typed, come from `testpaths`, or be the current folder.
    are_typed = config.args_source is pytest.Config.ArgsSource.ARGS
    typed.file_or_dir = [path for path in config.args if are_typed and path in others]
    return typed


def _excludes(config: pytest.Config, option: str, item: pytest.Item) -> bool:
    """Return whether -k or -m alone excludes a test, by pytest's own hook: matching is no public function."""
    alone: Any = copy(config)
    values = dict.fromkeys(_EXPRESSIONS, "") | {option: getattr(config.option, option)}
    alone.option = SimpleNamespace(**values)
    alone.hook = SimpleNamespace(pytest_deselected=lambda **_: None)
    items = [item]
    mark: Any = config.pluginmanager.get_plugin("mark")
    mark.pytest_collection_modifyitems(items=items, config=alone)
    return not items


def _covers(argument: str, file: Path, name: str) -> bool:
    place, requested_name = split(argument)
    path = Path(place)
    if not requested_name:
        return file.is_relative_to(path)
    return path == file and (
        name == requested_name or name.startswith((f"{requested_name}::", f"{requested_name}["))
    )


def _places(config: pytest.Config) -> list[str]:
    """Return the paths, resolved, and node ids that pytest collects."""
    parts = (argument.partition("::") for argument in config.args)
    return [f"{_path(config, place)}{colons}{name}" for place, colons, name in parts]


def _path(config: pytest.Config, argument: str) -> Path:
    """Return the path of an argument; with --pyargs it may name a module or a package."""
    path = _path_of_module(config, argument) if config.option.pyargs else None
    return path or (config.invocation_params.dir / argument).resolve()


def _path_of_module(config: pytest.Config, name: str) -> Path | None:
    """Return the file of a module, or the folder of a package; None where there is none of this name."""
    try:
        spec = find_spec(name)
    except Exception:  # noqa: BLE001 - a path, or a module in a package that raises when it is imported
        return None
    if spec is None:
        return None
    folders = spec.submodule_search_locations
    if folders and (spec.origin or config.getini("consider_namespace_packages")):
        return Path(next(iter(folders))).resolve()
    return Path(spec.origin).resolve() if spec.origin and spec.has_location else None


def _reruns_failures(config: pytest.Config) -> bool:
    """Return whether only tests run that failed before.

    If none has, --lf and --sw run all of them, and --lf with --lfnf=none runs none.
    """
    cache = getattr(config, "cache", None)
    if cache is None:
        return False
    if config.getoption("lf", default=False):
        runs_none = config.getoption("last_failed_no_failures", default="all") == "none"
        if runs_none or cache.get("cache/lastfailed", None):
            return True
    # --sw-skip implies --sw, but only when pytest configures itself.
    if not any(config.getoption(name, default=False) for name in ("stepwise", "stepwise_skip")):
        return False
    stopped_at = cache.get("cache/stepwise", None)
    return bool(stopped_at.get("last_failed") if isinstance(stopped_at, dict) else stopped_at)


def _failed_files(config: pytest.Config) -> Collection[str]:
    """Return the files with tests that --lf runs again; none if it runs all tests."""
    cache = getattr(config, "cache", None)
    if cache is None or not config.getoption("lf", default=False):
        return frozenset()
    return frozenset(map(file_of, cache.get("cache/lastfailed", {})))
