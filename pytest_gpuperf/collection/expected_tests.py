"""Which tests of an earlier run this run should have run, from its command line and what it collected."""

from pathlib import Path, PurePosixPath

import pytest

from pytest_gpuperf.model.nodeid import file_of, split


class ExpectedTests:
    """Which tests of a baseline a run should have had, by the `outcomes` of the files that it collected."""

    def __init__(self, config: pytest.Config) -> None:
        self.outcomes: dict[str, str] = {}
        self._root = config.rootpath
        self._arguments = command_line_selection(config)
        self._reruns_failures = _reruns_failures(config)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Add the outcome of a file, or of a folder, which has no tests of its own."""
        if report.nodeid and "::" not in report.nodeid:
            self.outcomes[report.nodeid] = report.outcome

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Add the file of a test: pytest reports no outcome for one requested by node ids."""
        self.outcomes.setdefault(file_of(item.nodeid), "passed")

    def expects(self, nodeid: str, *, skipped_files: bool = True) -> bool:
        """Return whether a test should have run: its file was collected, or was requested and is gone.

        A file or folder that skips itself counts as collected, unless `skipped_files` is False.
        """
        file, name = split(nodeid)
        if self._reruns_failures:
            return False
        outcome = self._outcome(file)
        if outcome is None:
            return not (self._root / file).exists() and self._is_requested(file, name)
        if outcome == "skipped" and not skipped_files:
            return False
        by_name = any("::" in argument for argument in self._arguments)
        return not by_name or self._is_requested(file, name)

    def _outcome(self, file: str) -> str | None:
        """Return the outcome of a file; one in a folder that skips itself is skipped with it."""
        if file in self.outcomes:
            return self.outcomes[file]
        folders = (str(folder) for folder in PurePosixPath(file).parents)
        return "skipped" if any(self.outcomes.get(folder) == "skipped" for folder in folders) else None

    def _is_requested(self, file: str, name: str) -> bool:
        """Return whether the command line requests a test by a folder, by its file or by its name."""
        path = (self._root / file).resolve()
        return not self._arguments or any(_covers(argument, path, name) for argument in self._arguments)


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
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        return []
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
