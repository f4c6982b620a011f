"""Why a test of an earlier run did not run: what the user typed, the test itself, or anything else."""

import argparse
from collections.abc import Iterable, Iterator
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
from pytest_gpuperf.model.nodeid import has_module_name, split
from pytest_gpuperf.options import add_ours, typed_words

_LEAVES_OUT: dict[str, LeftOutBy] = {
    "keyword": "-k",
    "markexpr": "-m",
    "deselect": "--deselect",
    "ignore": "--ignore",
    "ignore_glob": "--ignore-glob",
    "lf": "--lf",
    "stepwise": "--sw",
}


_FLAGS = "dfhlqsvxV"  # short options without a value, of pytest and of pytest-xdist


class ExpectedTests:
    """Which tests of a baseline a run should have had: all but those that the user left out.

    Unlike pytest's options, `command_line` holds only what the user typed: nothing that comes from `addopts`
    or PYTEST_ADDOPTS. `skipped` are the files and folders that skipped themselves.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.skipped: set[str] = set()
        self.command_line = _command_line(config)
        self._deselected: dict[str, pytest.Item] = {}
        self._deselected_in_workers: dict[str, AbsenceCause] = {}
        self._config = config

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Add a file, or a folder, that skipped itself."""
        if report.skipped:
            self.skipped.add(report.nodeid)

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Add tests that options or plugins deselected."""
        self._deselected.update((test_id(item), item) for item in items)

    def deselections(self, nodeids: Iterable[str]) -> dict[str, AbsenceCause]:
        """Return why these tests did not run, for those that this process deselected."""
        items = self._deselected
        return {nodeid: self._deselection(items[nodeid]) for nodeid in nodeids if nodeid in items}

    def add_from_worker(self, skipped: set[str], deselections: dict[str, AbsenceCause]) -> None:
        """Add what skipped itself in an xdist worker, and what that deselected."""
        self.skipped |= skipped
        self._deselected_in_workers.update(deselections)

    @cached_property
    def narrowed_by(self) -> tuple[LeftOutBy, ...]:
        """What the user typed that may leave tests out."""
        config, flags = self._config, _LEAVES_OUT.items()
        is_folder = config.args_source is pytest.Config.ArgsSource.INVOCATION_DIR
        has_paths = self.command_line.file_or_dir or (
            is_folder and config.invocation_params.dir != config.rootpath
        )
        found: list[LeftOutBy] = ["paths"] if has_paths else []
        return (*found, *(flag for name, flag in flags if getattr(self.command_line, name)))

    def cause(self, nodeid: str) -> AbsenceCause:
        """Return why a test of the baseline did not run.

        The command line narrowed the run only where what the user typed leaves out this very test: other
        plugins and the ini file may leave it out, too.
        """
        deselected = self.deselections([nodeid]) or self._deselected_in_workers
        if nodeid in deselected:
            return deselected[nodeid]
        file, name = split(nodeid)
        if not self.skipped.isdisjoint(map(str, (file, *PurePosixPath(file).parents))):
            return "skipped"
        path = self._path(self._config.rootpath, file, may_be_module=has_module_name(nodeid))
        is_left_out = (
            nodeid.startswith(tuple(self.command_line.deselect or ()))
            or ("paths" in self.narrowed_by and not any(_covers(*each, path, name) for each in self._places))
            or self._is_ignored(path)
            or (self.command_line.lf and path.exists())  # which reads no files but those of failed tests
        )
        return "narrowed" if is_left_out else "gone"

    def _deselection(self, item: pytest.Item) -> AbsenceCause:
        """Return whether what the user typed left out a deselected test that is a speedup test still."""
        is_marked = SPEC in item.stash or any(map(item.get_closest_marker, ("speedup", "scaling")))
        typed = self.command_line
        is_typed = (
            typed.lf
            or typed.stepwise
            or item.nodeid.startswith(tuple(typed.deselect or ()))
            or _excludes(self._config, typed, item)
        )
        return "narrowed" if is_marked and is_typed else "gone"

    def _is_ignored(self, path: Path) -> bool:
        """Return whether the user typed to ignore a file."""
        folder, around = self._config.invocation_params.dir, (path, *path.parents)
        places = {(folder / name).resolve() for name in self.command_line.ignore or ()}
        globs = [str(folder / name) for name in self.command_line.ignore_glob or ()]
        return not places.isdisjoint(around) or any(
            fnmatch(str(place), pattern) for place in around for pattern in globs
        )

    @cached_property
    def _places(self) -> list[tuple[Path, str]]:
        """The paths that pytest collects, each with the name in it; found late: --pyargs imports packages."""
        config = self._config
        folder, pyargs = config.invocation_params.dir, config.option.pyargs
        parts = map(split, config.args)
        return [(self._path(folder, place, may_be_module=pyargs), name) for place, name in parts]

    @staticmethod
    def _path(folder: Path, name: str, *, may_be_module: bool) -> Path:
        """Return the path, resolved, that a name is of in a folder, or the file or folder of a module."""
        try:
            spec = find_spec(name) if may_be_module else None
        except Exception:  # noqa: BLE001 - a path, or a module in a package that raises when it is imported
            spec = None
        if spec is None or spec.origin is None:
            return (folder / name).resolve()
        path = Path(spec.origin).resolve()
        return path.parent if spec.submodule_search_locations else path


def _command_line(config: pytest.Config) -> argparse.Namespace:
    """Return what the user typed of these options and of the paths that pytest was given.

    pytest's parser has the options of other plugins, too: they may be required, and addopts may have given
    them, or they may do more than to set a value. That one has accepted these words, so that this one does.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-k", dest="keyword", default="")
    parser.add_argument("-m", dest="markexpr", default="")
    for name in ("deselect", "ignore", "ignore-glob"):
        parser.add_argument(f"--{name}", action="append")
    add_ours(parser)
    parser.add_argument("--lf", "--last-failed", action="store_true")
    parser.add_argument("--stepwise", "--sw", "--stepwise-skip", "--sw-skip", action="store_true")
    typed, others = parser.parse_known_args([*_without_flags(typed_words(config))])
    # What pytest collects may be typed, come from `testpaths`, or be the current folder.
    are_typed = config.args_source is pytest.Config.ArgsSource.ARGS
    typed.file_or_dir = [path for path in config.args if are_typed and path in others]
    if typed.lf or typed.stepwise:  # which run all tests where none has failed before, or is there still
        failed, stopped_at = (config.cache.get(f"cache/{name}", {}) for name in ("lastfailed", "stepwise"))
        runs_none = not failed and config.getoption("last_failed_no_failures") == "none"
        are_there = any((config.rootpath / split(nodeid)[0]).exists() for nodeid in failed)
        typed.lf = typed.lf and (are_there or runs_none)
        has_stopped = isinstance(stopped_at, dict) and stopped_at.get("last_failed")
        typed.stepwise = typed.stepwise and bool(has_stopped)
    return typed


def _without_flags(words: Iterable[str]) -> Iterator[str]:
    """Yield words without the short flags that stand before other short options, as in -vkfast and -qrA.

    A parser that knows -v, and not -r, refuses -vrA.
    """
    for word in words:
        if word.startswith("-") and not word.startswith("--"):
            word = f"-{word[1:].lstrip(_FLAGS)}"
        if word != "-":
            yield word


def _excludes(config: pytest.Config, typed: argparse.Namespace, item: pytest.Item) -> bool:
    """Return whether the typed -k or -m excludes a test, by pytest's own hook: matching is not public."""
    alone: Any = copy(config)
    alone.option = SimpleNamespace(keyword=typed.keyword, markexpr=typed.markexpr)
    alone.hook = SimpleNamespace(pytest_deselected=lambda **_: None)
    items = [item]
    mark: Any = config.pluginmanager.get_plugin("mark")
    mark.pytest_collection_modifyitems(items=items, config=alone)
    return not items


def _covers(place: Path, requested: str, file: Path, name: str) -> bool:
    """Return whether a path, and a name in it if one is requested, has a test of a file."""
    if not requested:
        return file.is_relative_to(place)
    return file == place and (name == requested or name.startswith((f"{requested}::", f"{requested}[")))
