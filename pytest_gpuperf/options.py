"""What a run gets from its options: their values, from the command line and the ini file, read and checked.

`option_table` has the options. This module is imported when one is given, or a test is marked.
"""

# Annotations stay text: they name what is imported where it is used.
from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gpuperf import option_table as table
from pytest_gpuperf.devices.registry import EMULATED
from pytest_gpuperf.model.worker_keys import USAGE_ERROR
from pytest_gpuperf.option_table import Option

if TYPE_CHECKING:
    from pytest_gpuperf.model.comparison import Allowance, GateOptions, Tolerance
    from pytest_gpuperf.model.demand import RunOptions
    from pytest_gpuperf.report.outputs import Named, Wanted

# ---------------------------------------------------------------------------------------------------------
# The value of one option
# ---------------------------------------------------------------------------------------------------------


def _value(config: pytest.Config, option: Option) -> Any:
    """Return the option's value, or None where it is not given; raise UsageError for an invalid one."""
    value = option.raw_value(config)
    return value if value is None or option.is_flag else _parsed(config, option, str(value))


def _values(config: pytest.Config, option: Option) -> tuple[Any, ...]:
    """Return all values of an option that may be repeated; raise UsageError for an invalid one."""
    return tuple(_parsed(config, option, str(value)) for value in option.raw_value(config) or ())


def _parsed(config: pytest.Config, option: Option, text: str) -> Any:
    try:
        return _PARSERS[option](text)
    except ValueError as error:
        raise _error(config, option, error) from error


def _is_in_ini(config: pytest.Config, option: Option) -> bool:
    """Return whether the value, if there is one, is that of the ini file."""
    return config.getoption(option.flag) is None


def _set_by(config: pytest.Config, option: Option) -> str:
    """Return what set the option, as messages name it: `gpuperf_gpu in the ini file`."""
    return f"{option.key} in the ini file" if _is_in_ini(config, option) else option.flag


def _base_dir(config: pytest.Config, option: Option) -> Path:
    """Return the folder that a relative path of this option starts from.

    That is where pytest was called for the command line, and the root of the suite for the ini file.
    """
    return config.rootpath if _is_in_ini(config, option) else config.invocation_params.dir


def _named(config: pytest.Config, option: Option, path: str, format: str | None = None) -> Named:
    """Return a file or folder that an option asks for."""
    from pytest_gpuperf.report.outputs import Named

    return Named(set_by=_set_by(config, option), typed=path, folder=_base_dir(config, option), format=format)


def _error(config: pytest.Config, option: Option, problem: object) -> pytest.UsageError:
    """Return the error that ends a run for a wrong value of the option, and names what set it."""
    return usage_error(config, f"{_set_by(config, option)}: {problem}")


def usage_error(config: pytest.Config, text: str) -> pytest.UsageError:
    """Return the error that ends a run for a usage mistake.

    pytest-xdist does not report a worker's UsageError: the worker leaves the text in its output, and
    `integrations/xdist.py` ends the run in the controller.
    """
    output: dict[str, Any] = getattr(config, "workeroutput", {})
    output[USAGE_ERROR] = text
    return pytest.UsageError(text)


def _path(text: str) -> str:
    """Return a path, with the home folder for the `~` that no shell expands behind `--option=`."""
    if not text:
        raise ValueError("expected a path")
    return os.path.expanduser(text)  # noqa: PTH111 - pathlib's raises where there is no such user


def _choice(option: Option) -> Callable[[str], str]:
    """Return a parser that accepts the words of the option's metavar only."""
    choices = (option.metavar or "").split("|")

    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"{text!r} is not one of {', '.join(choices)}")
        return text

    return parse


def _number(option: Option, *, most: float = math.inf) -> Callable[[str], float]:
    """Return a parser that accepts finite numbers above 0 and at most a limit only."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (0 < value <= most and math.isfinite(value)):
            raise ValueError(f"{text} is not {option.expected}")
        return value

    return parse


def _tolerance(text: str) -> Tolerance | str:
    from pytest_gpuperf.gate import tolerance

    return tolerance.parse(text)


def _allowances(text: str) -> frozenset[Allowance]:
    from pytest_gpuperf.gate import tolerance

    return tolerance.allowances(text)


def _export(text: str) -> tuple[str, str]:
    name, _, path = text.partition(":")
    if not (name and path):
        raise ValueError(f"{text!r} has no format or no file; expected FORMAT:PATH, e.g. csv:a.csv")
    return name, _path(path)


_PARSERS: dict[Option, Callable[[str], Any]] = {
    table.GPU: str,
    table.DEFAULT_DEVICE: str,
    table.MAX_TIME: _number(table.MAX_TIME, most=86_400),
    table.COST_RATIO: _number(table.COST_RATIO),
    table.LOCK: _path,
    table.FAIL: _choice(table.FAIL),
    table.BASELINE: _path,
    table.BASELINE_MISSING: _choice(table.BASELINE_MISSING),
    table.FAIL_ON: _tolerance,
    table.ALLOW: _allowances,
    table.JSON: _path,
    table.HTML: _path,
    table.MARKDOWN: _path,
    table.EXPORT: _export,
    table.HISTORY: _path,
}
"""What turns the text of each option that is no flag into its value, or raises ValueError."""

# ---------------------------------------------------------------------------------------------------------
# Names that are misspelt
# ---------------------------------------------------------------------------------------------------------


def check_names(parser: pytest.Parser, words: list[str]) -> None:
    """Raise UsageError for an option that begins as ours and that nobody has, with the one to use."""
    flags = [option.flag for option in table.OPTIONS]
    typed = [word.partition("=")[0] for word in words if word.startswith("--gpuperf")]
    if all(name in flags for name in typed):
        return
    _, unknown = parser.parse_known_and_unknown_args(words)  # the suite may have some that begin so, too
    for name in typed:
        if any(word.partition("=")[0] == name for word in unknown):
            hint = _nearest(name, flags)
            raise pytest.UsageError(f"{name} is no option of pytest-gpuperf; {hint}")


def _nearest(name: str, names: list[str]) -> str:
    """Return what to write in the place of a name that is not ours."""
    from pytest_gpuperf.model.other_names import right_name

    known = {_without_first_word(each): each for each in names}
    right, equals, value = (right_name("option", _without_first_word(name), known) or "").partition("=")
    return f"use {known[right]}{equals}{value}" if right else f"there are {', '.join(sorted(names))}"


def _without_first_word(name: str) -> str:
    """Return the words of a name by which ours differ: `max_time`."""
    return name.lower().lstrip("-").replace("-", "_").partition("_")[2]


def check_keys(unknown: Iterable[str]) -> None:
    """Raise UsageError for a misspelt key of ours among those of the ini file that pytest does not know.

    A gate that is misspelt would be no gate, and green: pytest only warns.
    """
    from difflib import get_close_matches

    keys = [*(option.key for option in table.OPTIONS), *table.INI_LISTS]
    problems = []
    for key in sorted(unknown):
        name = key.lower().replace("-", "_")
        # Any other key may be that of a plugin that is not installed, unless it is one letter away from ours.
        if name.startswith("gpuperf") or get_close_matches(name, keys, n=1, cutoff=0.93):
            hint = _nearest(key, keys)
            problems.append(f"{key} in the ini file is no option of pytest-gpuperf; {hint}")
    if problems:
        raise pytest.UsageError("\n".join(problems))


# ---------------------------------------------------------------------------------------------------------
# How a run measures
# ---------------------------------------------------------------------------------------------------------


def run_options(config: pytest.Config) -> RunOptions:
    """Return the options of this run; raise UsageError, naming the option, for an invalid value."""
    from pytest_gpuperf.model.demand import RunOptions
    from pytest_gpuperf.model.sampling_constants import SLOW_TIME, SamplingPlan

    given = (*table.GROUPS["device"], table.MAX_TIME, table.COST_RATIO, table.LOCK, table.FAIL)
    values = {option.key.removeprefix("gpuperf_"): _value(config, option) for option in given}
    values["off"] = table.is_off(config)
    if values["require_gpu"]:
        _check_measures(config, table.REQUIRE_GPU)
    if values["lock"] not in (None, "auto", "none"):
        values["lock"] = str(_base_dir(config, table.LOCK) / values["lock"])
    is_shown = bool(_value(config, table.HTML) or _values(config, table.MARKDOWN))
    values["roofs"] = is_shown or config.get_verbosity() > 0
    slow = SLOW_TIME if values["max_time"] is None else None
    known = {name: value for name, value in values.items() if value is not None}
    return RunOptions(**known, sampling=SamplingPlan(slow_time=slow))


def _check_measures(config: pytest.Config, option: Option) -> None:
    """Raise UsageError for an option that could not fail anything, because the run measures nothing.

    Where CodSpeed measures, that of the ini file is for other runs.
    """
    if table.codspeed_is_on(config):
        if not _is_in_ini(config, option):
            raise pytest.UsageError(
                f"{option.flag}: CodSpeed measures in this run, and this plugin does not; check in a run "
                "without it"
            )
    elif table.is_off(config):
        raise pytest.UsageError(
            f"{_set_by(config, table.OFF)} measures nothing, so {_set_by(config, option)} could never fail a "
            "speedup test; use one of them only (--gpuperf-baseline=none switches off a regression check of "
            "the ini file)"
        )


def gpu_setting(config: pytest.Config) -> str:
    """Return how the user chose the GPU: `--gpuperf-gpu=torch`, or the line of the ini file."""
    value = table.GPU.raw_value(config)
    key, flag = table.GPU.key, table.GPU.flag
    return f"{key} = {value} in the ini file" if _is_in_ini(config, table.GPU) else f"{flag}={value}"


def wrong(config: pytest.Config, flag: str, problem: object) -> pytest.UsageError:
    """Return the error that ends a run for what is wrong with an option's value, and names what set it."""
    return _error(config, next(option for option in table.OPTIONS if option.flag == flag), problem)


def emulates(config: pytest.Config, choice: str) -> pytest.UsageError:
    """Return the error that ends a run which requires a GPU and chooses what emulates one."""
    required = _set_by(config, table.REQUIRE_GPU)
    problem = f"{choice} only emulates a GPU, and {required} requires a real one"
    library = choice.partition(":")[0]
    named = f"{library} without :cpu" if library in EMULATED else "such as cupy or torch"
    remedy = f"name the GPU's library, {named}, or leave {required} out"
    return _error(config, table.GPU, f"{problem}; {remedy}")


def requires_library(config: pytest.Config) -> bool:
    """Return whether the library of --gpuperf-gpu must be installed: the command itself names it.

    What the ini file, `addopts` or PYTEST_ADDOPTS name is for machines without a GPU, too: tests skip there.
    """
    is_allowed = "no-gpu" in chain.from_iterable(_values(config, table.ALLOW))
    return _is_typed(config, table.GPU) and not is_allowed and not table.is_off(config)


def _is_typed(config: pytest.Config, option: Option) -> bool:
    """Return whether the command has an option, rather than the ini file, `addopts` or PYTEST_ADDOPTS."""
    return any(word.partition("=")[0] == option.flag for word in typed_words(config))


_TYPED = pytest.StashKey[list[str]]()


def typed_words(config: pytest.Config) -> list[str]:
    """Return the words that the user typed, those of each `@FILE` in its place, as pytest read them.

    They are read once, at the start: later a test may have changed the file, or the working folder.
    """
    if _TYPED not in config.stash:
        config.stash[_TYPED] = [*_with_those_of_files(map(os.fspath, config.invocation_params.args))]
    return config.stash[_TYPED]


def _with_those_of_files(words: Iterable[str]) -> Iterator[str]:
    for word in words:
        if word.startswith("@"):  # as argparse reads it, which has no public way to it
            encoding, errors = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()
            yield from _with_those_of_files(Path(word[1:]).read_text(encoding, errors).splitlines())
        else:
            yield word


def device_params(config: pytest.Config) -> list[str]:
    """Return the names of parameters whose values are devices; raise UsageError when there are none."""
    names = _ini_list(config, table.DEVICE_PARAMS)
    if not names:
        raise pytest.UsageError(
            "gpuperf_device_params is empty: list at least one parameter, or remove the key"
        )
    return names


def device_values(config: pytest.Config) -> dict[str, str]:
    """Return the devices that values of the suite stand for; raise UsageError for an entry without both."""
    devices = {}
    for entry in _ini_list(config, table.DEVICE_VALUES):
        value, _, device = entry.rpartition("=")
        if not (value and device):
            raise pytest.UsageError(
                f"gpuperf_device_values: {entry!r} is not VALUE=DEVICE, e.g. TorchBackend=torch"
            )
        devices[value] = device
    return devices


def _ini_list(config: pytest.Config, key: str) -> list[str]:
    return [str(entry) for entry in table.ini_value(config, key)]


def has_foreign_marker(config: pytest.Config, name: str = "speedup") -> bool:
    """Return whether the suite registers a marker of such a name for a purpose of its own.

    A line that names gpuperf registers ours, for those who do not have the plugin.
    """
    names = (
        line.partition(":")[0].partition("(")[0].strip()
        for line in config.getini("markers")
        if "gpuperf" not in line
    )
    return name in names


# ---------------------------------------------------------------------------------------------------------
# The regression check against a baseline
# ---------------------------------------------------------------------------------------------------------

_NO_BASELINE, _LATER = "none", "later"


def asks_for_gate(command_line: argparse.Namespace) -> bool:
    """Return whether the command itself, and not the ini file alone, asks for a gate."""
    return any(option is table.FAIL_ON for option, _ in command_line.ours)


def gate_options(config: pytest.Config) -> GateOptions:
    """Return what this run is compared with; raise UsageError, naming the option, for an invalid value."""
    from pytest_gpuperf.gate import tolerance
    from pytest_gpuperf.model.comparison import GateOptions

    required = _values(config, table.FAIL_ON)
    path = _value(config, table.BASELINE)
    creates = _value(config, table.BASELINE_MISSING) == "create"
    if path == _NO_BASELINE and _is_in_ini(config, table.FAIL_ON):
        return GateOptions()  # the command line switches off the gate of the ini file
    if path == _LATER:  # whose own check, as in `addopts`, may name the same metrics
        compared = {each.metric: each for each in required if each != tolerance.IMPROVEMENT}
        return GateOptions(later=not table.codspeed_is_on(config), tolerances=tuple(compared.values()))
    try:
        tolerances = tolerance.tolerances_of(required)
    except ValueError as error:
        raise _error(config, table.FAIL_ON, error) from error
    if required and path in (None, _NO_BASELINE):
        raise pytest.UsageError("--gpuperf-fail-on requires --gpuperf-baseline")
    if required:
        _check_measures(config, table.FAIL_ON)
    elif _is_typed(config, table.STRICT):  # in addopts it may wait for a check that is typed
        raise pytest.UsageError("--gpuperf-strict requires --gpuperf-fail-on: without it nothing fails")
    if table.codspeed_is_on(config):
        return GateOptions()
    if creates and path is None:
        raise pytest.UsageError("--gpuperf-baseline-missing requires --gpuperf-baseline")
    return GateOptions(
        baseline=None if path is None else _base_dir(config, table.BASELINE) / path,
        tolerances=tolerances,
        improvements=tolerance.IMPROVEMENT in required,
        create=creates,
        strict=bool(table.STRICT.raw_value(config)),
        allow=frozenset(chain.from_iterable(_values(config, table.ALLOW))),
    )


# ---------------------------------------------------------------------------------------------------------
# The files that a run writes
# ---------------------------------------------------------------------------------------------------------

_GITHUB = "github"


def add_ours(parser: argparse.ArgumentParser) -> None:
    """Let a parser collect our options as `ours`: each with its value, in the order in which it is typed."""
    parser.set_defaults(ours=[])
    for option in table.OPTIONS:
        if option.is_flag:
            parser.add_argument(option.flag, dest="ours", action="append_const", const=(option, None))
        else:
            typed = lambda value, option=option: (option, value)  # noqa: E731 - as the other branch has it
            parser.add_argument(option.flag, dest="ours", action="append", type=typed)


def arguments(config: pytest.Config, command_line: argparse.Namespace) -> tuple[str, ...]:
    """Return the options of ours that the user typed, a word each, as they are typed in the root folder.

    Without those that name outputs, or that make a missing baseline: a test that is repeated writes nothing.
    """
    words = []
    for option, value in command_line.ours:
        if option in table.GROUPS["output"] or option is table.BASELINE_MISSING:
            continue
        if option in (table.BASELINE, table.LOCK) and value not in (_NO_BASELINE, _LATER, "auto"):
            value = _from_root(config, value)
        words.append(option.flag if option.is_flag else f"{option.flag}={value}")
    return tuple(words)


def _from_root(config: pytest.Config, typed: str) -> str:
    """Return a path that was typed elsewhere as it is typed in the root folder."""
    folder, root = config.invocation_params.dir, config.rootpath
    if folder == root or Path(_path(typed)).is_absolute():
        return typed
    path = Path(os.path.normpath(folder / typed))
    return str(path.relative_to(root) if path.is_relative_to(root) else path)


def outputs(config: pytest.Config) -> Wanted:
    """Return what this process is asked to write; nothing in xdist's workers: the controller writes.

    Raises UsageError for a value that is wrong by itself: `report.outputs` says what cannot be written.
    """
    from pytest_gpuperf.report.outputs import Wanted

    if hasattr(config, "workerinput"):
        return Wanted()
    markdown, html = _values(config, table.MARKDOWN), _value(config, table.HTML)
    named = [(table.MARKDOWN, path, "markdown") for path in markdown if path != _GITHUB]
    named += [(table.EXPORT, path, name) for name, path in _values(config, table.EXPORT)]
    named += [] if html is None else [(table.HTML, html, "html")]
    report, history = _value(config, table.JSON), _value(config, table.HISTORY)
    summary = os.environ.get("GITHUB_STEP_SUMMARY") if _GITHUB in markdown else None
    return Wanted(
        report=None if report is None else _named(config, table.JSON, report),
        files=tuple(_named(config, *each) for each in named),
        summary=Path(summary) if summary else None,
        history=None if history is None else _named(config, table.HISTORY, history),
    )
