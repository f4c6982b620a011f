"""One option: `--gpuperf-NAME` on the command line, `gpuperf_name` in the ini file, and how it is read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from pytest_gpuperf.report import paths

__all__ = ["Option", "add", "check_file", "given", "listed", "read", "read_all", "start"]


class Option:
    """One option; one that may be given several times has its values in the ini file one beside the other."""

    def __init__(
        self,
        name: str,
        help: str,
        *,
        read: Callable[[str], Any] | None = None,
        metavar: str | None = None,
        ini: Literal["string", "bool", "float", "args"] = "string",
    ) -> None:
        self.flag = f"--gpuperf-{name}"
        self.key = f"gpuperf_{name.replace('-', '_')}"
        self.help = help
        self.read = read
        self.metavar = metavar
        self.ini = ini


def add(parser: pytest.Parser, group: Any, option: Option) -> None:
    """Add an option to the command line and the ini file."""
    shown = option.help.replace("%", "%%")  # argparse formats its help
    if option.read is None:
        group.addoption(option.flag, action="store_true", default=None, help=shown)
        parser.addini(option.key, option.help, type="bool", default=None)
        return
    action = "append" if option.ini == "args" else "store"
    group.addoption(option.flag, action=action, default=None, metavar=option.metavar, help=shown)
    parser.addini(option.key, option.help, type=option.ini, default=None)


def start(config: pytest.Config, option: Option) -> Path:
    """Return the folder that a path of this option starts from.

    That is where pytest was called for the command line, and the root of the suite for the ini file.
    """
    on_command_line = config.getoption(option.flag) is not None
    return config.invocation_params.dir if on_command_line else config.rootpath


def given(config: pytest.Config, option: Option) -> Any:
    """Return what the command line says, else the ini file, else None."""
    value = config.getoption(option.flag)
    if value is not None:
        return value
    try:
        return config.getini(option.key)
    except (ValueError, TypeError, pytest.UsageError) as error:
        raise pytest.UsageError(f"{option.key} in the ini file: {error}") from error


def listed(config: pytest.Config, key: str) -> list[str]:
    """Return what the ini file lists."""
    try:
        return [str(entry) for entry in config.getini(key)]
    except (ValueError, TypeError, pytest.UsageError) as error:
        raise pytest.UsageError(f"{key} in the ini file: {error}") from error


def read(config: pytest.Config, option: Option) -> Any:
    """Return an option's value, None where it is not given; raise UsageError for a wrong one."""
    value = given(config, option)
    if value is None or option.read is None:
        return value
    try:
        return option.read(str(value))
    except ValueError as error:
        raise pytest.UsageError(f"{option.flag} (ini: {option.key}): {error}") from error


def read_all(config: pytest.Config, option: Option) -> tuple[Any, ...]:
    """Return the values of an option that may be given several times; raise UsageError for a wrong one."""
    try:
        return tuple(option.read(str(each)) for each in given(config, option) or () if option.read)
    except ValueError as error:
        raise pytest.UsageError(f"{option.flag} (ini: {option.key}): {error}") from error


def check_file(flag: str, path: Path, begins: bytes, what: str) -> None:
    """Raise UsageError unless a file can be written there that is new, empty, or begins as ours do."""
    try:
        found = paths.why_not_writable(path, begins, what)
    except OSError as error:
        found = f"{path} cannot be looked at: {error.strerror}; name another file"
    if found is not None:
        raise pytest.UsageError(f"{flag}: {found}")
