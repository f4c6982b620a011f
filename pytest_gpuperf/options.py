"""The plugin's options: what they are called, and what a run gets from the command line and the ini file.

Every start of pytest imports this module, in suites without a speedup test too: it imports only what pytest
itself has loaded by then, and what few runs need is imported where it is used.
"""

# Annotations stay text: every start of pytest would have to evaluate them.
from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from pytest_gpuperf.model.comparison import Allowance, GateOptions, Tolerance
    from pytest_gpuperf.model.demand import RunOptions
    from pytest_gpuperf.report.outputs import Output, Outputs

RECORD_ATTRIBUTE = "gpuperf"
"""Of a test's last report: its record, JSON-able, because reports travel from xdist's workers."""

OUTCOME_ATTRIBUTE = "gpuperf_outcome"
"""Of the report of a test's call: what `-v` shows of it."""

USAGE_ERROR = "gpuperf-usage-error"
"""Key in `workeroutput`, which pytest-xdist sends to the controller: why a worker ends the run."""

# ---------------------------------------------------------------------------------------------------------
# One option: `--gpuperf-NAME` on the command line, `gpuperf_name` in the ini file
# ---------------------------------------------------------------------------------------------------------


class _Option:
    """One option; a flag, unless it has a `metavar`. `parse` turns a text into a value or raises ValueError.

    With `ini="args"` it may be given several times; the ini file then has all values on one line. `expected`
    says what pytest itself refuses anything else for.
    """

    def __init__(
        self,
        name: str,
        help: str,
        *,
        metavar: str | None = None,
        parse: Callable[[str], Any] = str,
        ini: Literal["string", "float", "args"] = "string",
        expected: str | None = None,
    ) -> None:
        self.flag = f"--gpuperf-{name}"
        self.key = f"gpuperf_{name.replace('-', '_')}"
        self.help = help
        self.is_flag = metavar is None
        self.parse = parse
        self.metavar = metavar
        self.ini = ini
        self.expected = "true or false" if self.is_flag else expected

    def add_to(self, parser: pytest.Parser, group: pytest.OptionGroup) -> None:
        """Add the option to the command line and to the ini file."""
        escaped_help = self.help.replace("%", "%%")  # argparse formats it with %
        if self.is_flag:
            group.addoption(self.flag, action="store_true", default=None, help=escaped_help)
            parser.addini(self.key, self.help, type="bool", default=None)
            return
        action = "append" if self.ini == "args" else "store"
        group.addoption(self.flag, action=action, default=None, metavar=self.metavar, help=escaped_help)
        parser.addini(self.key, self.help, type=self.ini, default=None)

    def raw_value(self, config: pytest.Config) -> Any:
        """Return the value on the command line, else the one in the ini file, else None."""
        value = config.getoption(self.flag)
        return _ini_value(config, self.key, self.expected) if value is None else value

    def value(self, config: pytest.Config) -> Any:
        """Return the option's value, or None where it is not given; raise UsageError for an invalid one."""
        value = self.raw_value(config)
        return value if value is None or self.is_flag else self._parsed(config, str(value))

    def values(self, config: pytest.Config) -> tuple[Any, ...]:
        """Return all values of an option that may be repeated; raise UsageError for an invalid one."""
        return tuple(self._parsed(config, str(value)) for value in self.raw_value(config) or ())

    def is_in_ini(self, config: pytest.Config) -> bool:
        """Return whether the value, if there is one, is that of the ini file."""
        return config.getoption(self.flag) is None

    def set_by(self, config: pytest.Config) -> str:
        """Return what set the option, as messages name it: `gpuperf_gpu in the ini file`."""
        return f"{self.key} in the ini file" if self.is_in_ini(config) else self.flag

    def setting(self, config: pytest.Config) -> str:
        """Return the option with its value as the user wrote them: `gpuperf_gpu = torch in the ini file`."""
        value = self.raw_value(config)
        return f"{self.key} = {value} in the ini file" if self.is_in_ini(config) else f"{self.flag}={value}"

    def base_dir(self, config: pytest.Config) -> Path:
        """Return the folder that a relative path of this option starts from.

        That is where pytest was called for the command line, and the root of the suite for the ini file.
        """
        return config.rootpath if self.is_in_ini(config) else config.invocation_params.dir

    def output_file(
        self, config: pytest.Config, name: str, is_ours: Callable[[bytes], bool], what: str
    ) -> Path:
        """Return the path of an output; raise UsageError for a file that is there and not empty or ours."""
        from pytest_gpuperf.report import files

        if name.endswith(("/", os.sep)):
            raise self.error(config, f"{name} is a folder; choose a file in it")
        path = self.base_dir(config) / name
        return self.checked(config, path, files.why_not_writable(path, is_ours, what))

    def checked(self, config: pytest.Config, path: Path, problem: str | None) -> Path:
        """Return the path; raise UsageError where there is a problem with it."""
        if problem is not None:
            raise self.error(config, problem)
        return path

    def error(self, config: pytest.Config, problem: object) -> pytest.UsageError:
        """Return the error that ends a run for a wrong value of the option, and names what set it."""
        return usage_error(config, f"{self.set_by(config)}: {problem}")

    def _parsed(self, config: pytest.Config, text: str) -> Any:
        try:
            return self.parse(text)
        except ValueError as error:
            raise self.error(config, error) from error


def _ini_value(config: pytest.Config, key: str, expected: str | None = None) -> Any:
    try:
        return config.getini(key)
    except (ValueError, TypeError, pytest.UsageError) as error:
        remedy = f"; expected {expected}" if expected else ""
        raise pytest.UsageError(f"{key} in the ini file: {error}{remedy}") from error


def _ini_list(config: pytest.Config, key: str) -> list[str]:
    return [str(entry) for entry in _ini_value(config, key)]


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


def _choice(*choices: str) -> Callable[[str], str]:
    """Return a parser that accepts these words only."""

    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"{text!r} is not one of {', '.join(choices)}")
        return text

    return parse


# ---------------------------------------------------------------------------------------------------------
# How a run measures
# ---------------------------------------------------------------------------------------------------------


_COST_RATIO = "hourly price of a GPU machine divided by that of a CPU machine"


def _number(name: str, help: str, *, metavar: str, expected: str, most: float = math.inf) -> _Option:
    """Return an option that accepts finite numbers above 0 and at most a limit only."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (0 < value <= most and math.isfinite(value)):
            raise ValueError(f"{text} is not {expected}")
        return value

    return _Option(name, help, parse=parse, metavar=metavar, ini="float", expected=expected)


_OFF = _Option("off", "run each test once, as if this plugin were not there; write no files")
_LOCK = _Option(
    "lock",
    "lock file that lets one process measure at a time (default: one per machine); none disables it",
    parse=_path,
    metavar="PATH|none",
)
_REQUIRE_GPU = _Option(
    "require-gpu",
    "fail tests that need a GPU, instead of skipping them, where none can be used, and a run in which no "
    "speedup test was measured on one",
)
_GPU = _Option(
    "gpu",
    "GPU to use: auto, none, cupy[:N], torch[:cuda:N], jax[:N|:cpu], keras[:N|:cpu], mlx[:N|:cpu], "
    "sycl[:gpu|:cpu], simulated, standin:MODULE, an array library on the CPU that emulates one, or "
    "accelerator:NAME, a library's own accelerator, e.g. accelerator:polars",
    metavar="DEVICE",
)
_DEVICE = (
    _GPU,
    _Option(
        "default-device",
        "device used by tests that do not choose one themselves, e.g. numpy or cupy",
        metavar="DEVICE",
    ),
    _REQUIRE_GPU,
)
_MEASURING = (
    _OFF,
    _number(
        "max-time",
        "seconds that measuring one test may take, at most a day (default: 10, and 30 for a test of slow "
        "calls in a run with --gpuperf-baseline)",
        metavar="S",
        expected="a positive number of seconds, at most 86400 (a day)",
        most=86_400,
    ),
    _number(
        "cost-ratio",
        f"speedup beyond which a GPU is worth it: {_COST_RATIO} (default: 1)",
        metavar="R",
        expected=f"a price ratio above 0: the {_COST_RATIO}",
    ),
    _LOCK,
)
_FAIL = _Option(
    "fail",
    "what fails: a limit that is surely missed or a sure regression, while inconclusive tests warn (sure, "
    "default); inconclusive tests, too (doubt); or nothing, and all is reported (nothing)",
    parse=_choice("sure", "doubt", "nothing"),
    metavar="sure|doubt|nothing",
)
_ALL = _Option(
    "all",
    "time every test that has CPU and GPU variants, marked or not; no limit applies to unmarked tests",
)
_DEVICE_PARAMS = ["device", "xp", "module", "namespace", "array_namespace", "library", "backend", "nx"]


def add_options(parser: pytest.Parser) -> None:
    """Add every option to the command line and the ini file."""
    for name, members in GROUPS.items():
        group = parser.getgroup(f"gpuperf {name}", f"pytest-gpuperf, speedups of GPU over CPU: {name}")
        for option in members:
            option.add_to(parser, group)
    parser.addini(
        "gpuperf_device_params",
        "names of the suite's parameters whose values are devices or array libraries",
        type="args",
        default=_DEVICE_PARAMS,
    )
    parser.addini(
        "gpuperf_device_values",
        "devices that values of the suite's parameters stand for: VALUE=DEVICE, e.g. TorchBackend=torch",
        type="args",
        default=[],
    )


def any_option_given(config: pytest.Config) -> bool:
    """Return whether the user set an option whose value has to be checked before the first test."""
    given = [option.key for option in OPTIONS if option.raw_value(config) is not None]
    return any(key != _OFF.key for key in given)


def check_names(parser: pytest.Parser, words: list[str]) -> None:
    """Raise UsageError for an option that begins as ours and that nobody has, with the one to use."""
    flags = [option.flag for option in OPTIONS]
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


def check_keys(config: pytest.Config) -> None:
    """Raise UsageError for a misspelt key of ours in the ini file, of which pytest only warns.

    A gate that is misspelt would be no gate, and green.
    """
    # pytest has it for its own warning; a pytest without it leaves us with that warning.
    unknown: Iterable[str] = getattr(config, "_get_unknown_ini_keys", tuple)()
    if not unknown:
        return
    from difflib import get_close_matches

    keys = [*(option.key for option in OPTIONS), *INI_KEYS]
    problems = []
    for key in sorted(unknown):
        name = key.lower().replace("-", "_")
        # Any other key may be that of a plugin that is not installed, unless it is one letter away from ours.
        if name.startswith("gpuperf") or get_close_matches(name, keys, n=1, cutoff=0.93):
            hint = _nearest(key, keys)
            problems.append(f"{key} in the ini file is no option of pytest-gpuperf; {hint}")
    if problems:
        raise pytest.UsageError("\n".join(problems))


def run_options(config: pytest.Config) -> RunOptions:
    """Return the options of this run; raise UsageError, naming the option, for an invalid value."""
    from pytest_gpuperf.model.demand import SLOW_TIME, RunOptions, SamplingPlan

    given = (*_DEVICE, *_MEASURING, _FAIL)
    values = {option.key.removeprefix("gpuperf_"): option.value(config) for option in given}
    values["off"] = is_off(config)
    if values["require_gpu"]:
        _check_measures(config, _REQUIRE_GPU)
    if values["lock"] not in (None, "auto", "none"):
        path = _LOCK.output_file(config, values["lock"], lambda _: False, "a lock file")
        is_there = path.parent.is_dir()  # to make it would hide that another process locks another file
        problem = None if is_there else f"the folder {path.parent} does not exist; create it first"
        values["lock"] = str(_LOCK.checked(config, path, problem))
    slow = SLOW_TIME if values["max_time"] is None else None
    known = {name: value for name, value in values.items() if value is not None}
    return RunOptions(**known, sampling=SamplingPlan(slow_time=slow))


def is_off(config: pytest.Config) -> bool:
    """Return whether marked tests run as if they had no marker: CodSpeed would time our timing of them."""
    return bool(_OFF.raw_value(config)) or codspeed_is_on(config)


def _check_measures(config: pytest.Config, option: _Option) -> None:
    """Raise UsageError for an option that could not fail anything, because the run measures nothing.

    Where CodSpeed measures, that of the ini file is for other runs.
    """
    if codspeed_is_on(config):
        if not option.is_in_ini(config):
            raise pytest.UsageError(
                f"{option.flag}: CodSpeed measures in this run, and this plugin does not; check in a run "
                "without it"
            )
    elif is_off(config):
        raise pytest.UsageError(
            f"{_OFF.set_by(config)} measures nothing, so {option.set_by(config)} could never fail a speedup "
            "test; use one of them only (--gpuperf-baseline=none switches off a regression check of the ini "
            "file)"
        )


def gpu_setting(config: pytest.Config) -> str:
    """Return how the user chose the GPU: `--gpuperf-gpu=torch`, or the line of the ini file."""
    return _GPU.setting(config)


def wrong(config: pytest.Config, flag: str, problem: object) -> pytest.UsageError:
    """Return the error that ends a run for what is wrong with an option's value, and names what set it."""
    return next(option for option in OPTIONS if option.flag == flag).error(config, problem)


def requires_library(config: pytest.Config) -> bool:
    """Return whether the library of --gpuperf-gpu must be installed: the command itself names it.

    What the ini file, `addopts` or PYTEST_ADDOPTS name is for machines without a GPU, too: tests skip there.
    """
    is_allowed = "no-gpu" in chain.from_iterable(_ALLOW.values(config))
    return _is_typed(config, _GPU) and not is_allowed and not is_off(config)


def _is_typed(config: pytest.Config, option: _Option) -> bool:
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


def codspeed_is_on(config: pytest.Config) -> bool:
    """Return whether pytest-codspeed measures; it leaves out all tests but its own benchmarks."""
    is_asked_for = config.getoption("codspeed", default=False) or "CODSPEED_ENV" in os.environ
    return bool(is_asked_for) and config.pluginmanager.hasplugin("codspeed")


def times_all(config: pytest.Config) -> bool:
    """Return whether unmarked tests with CPU and GPU variants are timed too."""
    return bool(_ALL.raw_value(config))


def device_params(config: pytest.Config) -> list[str]:
    """Return the names of parameters whose values are devices; raise UsageError when there are none."""
    names = _ini_list(config, "gpuperf_device_params")
    if not names:
        raise pytest.UsageError(
            "gpuperf_device_params is empty: list at least one parameter, or remove the key"
        )
    return names


def device_values(config: pytest.Config) -> dict[str, str]:
    """Return the devices that values of the suite stand for; raise UsageError for an entry without both."""
    devices = {}
    for entry in _ini_list(config, "gpuperf_device_values"):
        value, _, device = entry.rpartition("=")
        if not (value and device):
            raise pytest.UsageError(
                f"gpuperf_device_values: {entry!r} is not VALUE=DEVICE, e.g. TorchBackend=torch"
            )
        devices[value] = device
    return devices


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


def _tolerance(text: str) -> Tolerance | str:
    from pytest_gpuperf.gate import tolerance

    return tolerance.parse(text)


def _allowances(text: str) -> frozenset[Allowance]:
    from pytest_gpuperf.gate import tolerance

    return tolerance.allowances(text)


_BASELINE = _Option(
    "baseline",
    "compare with an earlier report, or with the comparable ones in a folder: the range over six, or the "
    "newest of fewer; none ignores the baseline that the ini file names; later measures one process of many, "
    "which gpuperf compare compares",
    parse=_path,
    metavar="PATH|none|later",
)
_BASELINE_MISSING = _Option(
    "baseline-missing",
    "what to do if the baseline does not exist: fail (default), or create it from this run",
    parse=_choice("fail", "create"),
    metavar="fail|create",
)
_FAIL_ON = _Option(
    "fail-on",
    "fail tests that got worse than the baseline by more than a tolerance, e.g. speedup:10%; metrics: "
    "speedup, gpu_time, cpu_time, latency, with_copies, memory, efficiency; improvement also "
    "fails tests that got better; may be repeated",
    parse=_tolerance,
    metavar="METRIC:PERCENT",
    ini="args",
)
_STRICT = _Option(
    "strict",
    "fail tests that cannot be compared with the baseline (e.g. a different machine), or that the command "
    "line left out",
)
_ALLOW = _Option(
    "allow",
    "let a regression check pass that measured nothing because there was no GPU (no-gpu), or that did not "
    "run all tests of the baseline (missing); may be repeated",
    parse=_allowances,
    metavar="no-gpu,missing",
    ini="args",
)
_GATE = (_BASELINE, _BASELINE_MISSING, _FAIL_ON, _STRICT, _ALLOW)


def asks_for_gate(command_line: argparse.Namespace) -> bool:
    """Return whether the command itself, and not the ini file alone, asks for a gate."""
    return any(option is _FAIL_ON for option, _ in command_line.ours)


def gate_options(config: pytest.Config) -> GateOptions:
    """Return what this run is compared with; raise UsageError, naming the option, for an invalid value."""
    from pytest_gpuperf.gate import tolerance
    from pytest_gpuperf.model.comparison import GateOptions

    required = _FAIL_ON.values(config)
    path = _BASELINE.value(config)
    creates = _BASELINE_MISSING.value(config) == "create"
    if path == _NO_BASELINE and _FAIL_ON.is_in_ini(config):
        return GateOptions()  # the command line switches off the gate of the ini file
    if path == _LATER:  # whose own check, as in `addopts`, may name the same metrics
        compared = {each.metric: each for each in required if each != tolerance.IMPROVEMENT}
        return GateOptions(later=not codspeed_is_on(config), tolerances=tuple(compared.values()))
    try:
        tolerances = tolerance.tolerances_of(required)
    except ValueError as error:
        raise _FAIL_ON.error(config, error) from error
    if required and path in (None, _NO_BASELINE):
        raise pytest.UsageError("--gpuperf-fail-on requires --gpuperf-baseline")
    if required:
        _check_measures(config, _FAIL_ON)
    elif _is_typed(config, _STRICT):  # in addopts it may wait for a check that is typed
        raise pytest.UsageError("--gpuperf-strict requires --gpuperf-fail-on: without it nothing fails")
    if codspeed_is_on(config):
        return GateOptions()
    if creates and path is None:
        raise pytest.UsageError("--gpuperf-baseline-missing requires --gpuperf-baseline")
    return GateOptions(
        baseline=None if path is None else _BASELINE.base_dir(config) / path,
        tolerances=tolerances,
        improvements=tolerance.IMPROVEMENT in required,
        create=creates,
        strict=bool(_STRICT.raw_value(config)),
        allow=frozenset(chain.from_iterable(_ALLOW.values(config))),
    )


# ---------------------------------------------------------------------------------------------------------
# The files that a run writes
# ---------------------------------------------------------------------------------------------------------

_GITHUB = "github"


def _export(text: str) -> tuple[str, str]:
    name, _, path = text.partition(":")
    if not (name and path):
        raise ValueError(f"{text!r} has no format or no file; expected FORMAT:PATH, e.g. csv:a.csv")
    return name, _path(path)


_JSON = _Option("json", "write the report to PATH", parse=_path, metavar="PATH")
_MARKDOWN = _Option(
    "markdown",
    "write a summary for pull requests to PATH; github appends it to the summary of the job; may be repeated",
    parse=_path,
    metavar="PATH|github",
    ini="args",
)
_HTML = _Option("html", "write the report as one HTML page to PATH", parse=_path, metavar="PATH")
_EXPORT = _Option(
    "export",
    # The names of report.exports.formats, which only a run that exports imports.
    "write the report as csv, bencher, github-action-benchmark, markdown, html, svg, or in a format of "
    "the suite or a plugin; may be repeated",
    parse=_export,
    metavar="FORMAT:PATH",
    ini="args",
)
_HISTORY = _Option("history", "keep this run's report, without samples, in DIR", parse=_path, metavar="DIR")
GROUPS = {
    "device": _DEVICE,
    "measure": (_ALL, *_MEASURING),
    "gate": (_FAIL, *_GATE),
    "output": (_JSON, _HTML, _MARKDOWN, _EXPORT, _HISTORY),
}
"""The options, as `pytest --help` groups them."""
OPTIONS = tuple(chain.from_iterable(GROUPS.values()))
INI_KEYS = ("gpuperf_device_params", "gpuperf_device_values")
"""The keys without an option of the command line."""


def add_ours(parser: argparse.ArgumentParser) -> None:
    """Let a parser collect our options as `ours`: each with its value, in the order in which it is typed."""
    parser.set_defaults(ours=[])
    for option in OPTIONS:
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
        if option in GROUPS["output"] or option is _BASELINE_MISSING:
            continue
        if option in (_BASELINE, _LOCK) and value not in (_NO_BASELINE, _LATER, "auto"):
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


def json_path(config: pytest.Config) -> Path | None:
    """Return where this process writes the report, or None; raise UsageError for a path it cannot write."""
    name = _JSON.value(config)
    if name is None or hasattr(config, "workerinput"):  # xdist's controller writes for its workers
        return None
    from pytest_gpuperf.report import files

    return _JSON.output_file(config, name, files.REPORT, "a report")


def outputs(config: pytest.Config) -> Outputs:
    """Return the files that this process writes besides the report; none in xdist's workers.

    Raises UsageError, before the first test, for a path that cannot be written, and for a file that is not
    one of ours and would be overwritten.
    """
    from pytest_gpuperf.report.outputs import Outputs

    if hasattr(config, "workerinput"):
        return Outputs()
    markdown, html, history = _MARKDOWN.values(config), _HTML.value(config), _history_folder(config)
    named = [(_MARKDOWN, "markdown", path) for path in markdown if path != _GITHUB]
    named += [(_EXPORT, name, path) for name, path in _EXPORT.values(config)]
    named += [] if html is None else [(_HTML, "html", html)]
    summary = os.environ.get("GITHUB_STEP_SUMMARY") if _GITHUB in markdown else None
    return Outputs(
        files=tuple(_output_files(config, named, history)) if named else (),
        summary=Path(summary) if summary else None,
        history=history,
    )


def _history_folder(config: pytest.Config) -> Path | None:
    name = _HISTORY.value(config)
    if name is None:
        return None
    from pytest_gpuperf.report import files

    path = _HISTORY.base_dir(config) / name
    is_file = path.exists() and not path.is_dir()
    problem = f"{path} is not a folder; choose another place" if is_file else None
    return _HISTORY.checked(config, path, problem or files.why_no_new_file(path))


def _output_files(
    config: pytest.Config, named: Iterable[tuple[_Option, str, str]], history: Path | None
) -> Iterator[Output]:
    """Yield the files that options name, each with its format: one of ours, or one that the hook offers."""
    from pytest_gpuperf.model.errors import GpuPerfError
    from pytest_gpuperf.report import exports
    from pytest_gpuperf.report.outputs import Output

    try:
        with exports.errors_named("the hook"):
            returned = config.hook.pytest_gpuperf_reports()
            others = chain.from_iterable(each if isinstance(each, Iterable) else [each] for each in returned)
            formats = exports.formats(others, history)
    except GpuPerfError as error:
        raise pytest.UsageError(f"pytest_gpuperf_reports: {error}") from error
    for option, name, path in named:
        if name not in formats:
            known = ", ".join(f"{each.name} ({each.suffix})" for each in formats.values())
            problem = f"{name!r} is not an export format; use one of {known}; a suite's come from "
            remedy = "pytest_gpuperf_reports in a conftest.py that pytest loads at its start"
            raise option.error(config, problem + remedy)
        try:
            if name == "html":
                from pytest_gpuperf.report.html import page

                page.template()
            file = option.output_file(config, path, *exports.known_by(formats[name]))
        except GpuPerfError as error:
            raise option.error(config, error) from error
        yield Output(set_by=option.set_by(config), format=formats[name], path=file)


def check_paths_differ(
    config: pytest.Config, gate: GateOptions, report: Path | None, outputs: Outputs
) -> None:
    """Raise UsageError where two outputs are in each other's way, or one would be the next run's baseline."""
    named = [(_JSON.set_by(config), report)] if report else []
    named += [(output.set_by, output.path) for output in outputs.files]
    named += [(_HISTORY.set_by(config), outputs.history)] if outputs.history else []
    places = [(flag, Path(os.path.realpath(path))) for flag, path in named]  # `resolve` raises for some links
    for (other, of_other), (flag, path) in permutations(places, 2):
        if path == of_other or of_other in path.parents:
            problem = f"{path} and {of_other} of {other} are in each other's way; choose another place"
            raise pytest.UsageError(f"{flag}: {problem}")
    if gate.baseline is None:
        return
    baseline = Path(os.path.realpath(gate.baseline))
    for flag, path in places:
        if path == baseline or (path.parent == baseline and path.suffix == ".json"):
            raise pytest.UsageError(
                f"{flag}: the next run would be compared with {path}, even if this one regressed; choose a "
                "place elsewhere (`gpuperf baseline update` accepts a good report into a baseline)"
            )
