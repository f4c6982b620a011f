"""The table of the plugin's options: their names, keys in the ini file and help texts.

Every start of pytest imports this module, in suites without a speedup test too, and where no bytecode is
written it compiles it each time: what reads and checks the values is in `options`, which is imported when an
option is given or a test is marked. It imports only what pytest itself has loaded by then, and the tables
of backends and metrics.

PYTEST_DONT_REWRITE: there is no assert here, which pytest would look for at each start without bytecode.
"""

# Annotations stay text: every start of pytest would have to evaluate them.
from __future__ import annotations

import os
from typing import Any, Literal

import pytest

from pytest_gpuperf.devices.registry import REGISTRY
from pytest_gpuperf.model.metrics import METRICS, TABLE


class Option:
    """One option: `--gpuperf-NAME` on the command line, `gpuperf_name` in the ini file.

    It is a flag, unless it has a `metavar`. With `ini="args"` it may be given several times; the ini file
    then has all values on one line. `expected` says what pytest itself refuses anything else for.
    """

    def __init__(
        self,
        name: str,
        help: str,
        metavar: str | None = None,
        *,
        ini: Literal["string", "float", "args"] = "string",
        expected: str | None = None,
    ) -> None:
        self.flag = f"--gpuperf-{name}"
        self.key = f"gpuperf_{name.replace('-', '_')}"
        self.help = help
        self.is_flag = metavar is None
        self.metavar = metavar
        self.ini = ini
        self.expected = "true or false" if self.is_flag else expected

    def raw_value(self, config: pytest.Config) -> Any:
        """Return the value on the command line, else the one in the ini file, else None."""
        value = config.getoption(self.flag)
        return ini_value(config, self.key, self.expected) if value is None else value


def ini_value(config: pytest.Config, key: str, expected: str | None = None) -> Any:
    """Return the value of a key in the ini file; raise UsageError where pytest cannot read it."""
    try:
        return config.getini(key)
    except (ValueError, TypeError, pytest.UsageError) as error:
        remedy = f"; expected {expected}" if expected else ""
        raise pytest.UsageError(f"{key} in the ini file: {error}{remedy}") from error


_COST_RATIO = "hourly price of a GPU machine divided by that of a CPU machine"

GPU = Option(
    "gpu",
    f"GPU to use: auto, none, {', '.join(f'{row.name}{row.selectors}' for row in REGISTRY)}, standin:MODULE, "
    "an array library on the CPU that emulates one, or accelerator:NAME, a library's own accelerator, e.g. "
    "accelerator:polars",
    "DEVICE",
)
DEFAULT_DEVICE = Option(
    "default-device", "device used by tests that do not choose one themselves, e.g. numpy or cupy", "DEVICE"
)
REQUIRE_GPU = Option(
    "require-gpu",
    "fail tests that need a GPU, instead of skipping them, where none can be used, and a run in which no "
    "speedup test was measured on one; refuse what only emulates a GPU",
)

ALL = Option(
    "all",
    "time every test that has CPU and GPU variants, marked or not; no limit applies to unmarked tests",
)
OFF = Option("off", "run each test once, as if this plugin were not there; write no files")
MAX_TIME = Option(
    "max-time",
    "seconds that measuring one test may take, at most a day (default: 10, and 30 for a test of slow "
    "calls in a run with --gpuperf-baseline)",
    "S",
    ini="float",
    expected="a positive number of seconds, at most 86400 (a day)",
)
COST_RATIO = Option(
    "cost-ratio",
    f"speedup beyond which a GPU is worth it: {_COST_RATIO} (default: 1)",
    "R",
    ini="float",
    expected=f"a price ratio above 0: the {_COST_RATIO}",
)
LOCK = Option(
    "lock",
    "lock file that lets one process measure at a time (default: one per machine); none disables it",
    "PATH|none",
)

FAIL = Option(
    "fail",
    "which verdicts fail: a limit that is surely missed, results that differ, what cannot be timed, a sure "
    "regression, while inconclusive tests warn (sure, default); inconclusive tests, too (doubt); or none, "
    "and what cannot be timed skips (nothing); a test that raises fails in any case",
    "sure|doubt|nothing",
)
BASELINE = Option(
    "baseline",
    "compare with an earlier report, or with the comparable ones in a folder: the range over six, or the "
    "newest of fewer; none ignores the baseline that the ini file names; later measures one process of many, "
    "which gpuperf compare compares",
    "PATH|none|later",
)
BASELINE_MISSING = Option(
    "baseline-missing",
    "what to do if the baseline does not exist: fail (default), or create it from this run",
    "fail|create",
)
FAIL_ON = Option(
    "fail-on",
    "fail tests that got worse than the baseline by more than a tolerance, e.g. speedup:10%; metrics: "
    f"{', '.join(name for name in METRICS if not TABLE[name].pairs_only)}; improvement also "
    "fails tests that got better; may be repeated",
    "METRIC:PERCENT",
    ini="args",
)
STRICT = Option(
    "strict",
    "fail tests that cannot be compared with the baseline (e.g. a different machine), or that the command "
    "line left out",
)
ALLOW = Option(
    "allow",
    "let a regression check pass that measured nothing because there was no GPU (no-gpu), or that did not "
    "run all tests of the baseline (missing); may be repeated",
    "no-gpu,missing",
    ini="args",
)

JSON = Option("json", "write the report to PATH", "PATH")
HTML = Option("html", "write the report as one HTML page to PATH", "PATH")
MARKDOWN = Option(
    "markdown",
    "write a summary for pull requests to PATH; github appends it to the summary of the job; may be repeated",
    "PATH|github",
    ini="args",
)
EXPORT = Option(
    "export",
    # The names of report.exports.formats, which only a run that exports imports.
    "write the report as csv, bencher, github-action-benchmark, markdown, html, svg, or in a format of "
    "the suite or a plugin; may be repeated",
    "FORMAT:PATH",
    ini="args",
)
HISTORY = Option("history", "keep this run's report, without samples, in DIR", "DIR")

GROUPS = {
    "device": (GPU, DEFAULT_DEVICE, REQUIRE_GPU),
    "measure": (ALL, OFF, MAX_TIME, COST_RATIO, LOCK),
    "gate": (FAIL, BASELINE, BASELINE_MISSING, FAIL_ON, STRICT, ALLOW),
    "output": (JSON, HTML, MARKDOWN, EXPORT, HISTORY),
}
"""The options, as `pytest --help` groups them."""
OPTIONS = [option for members in GROUPS.values() for option in members]

DEVICE_PARAMS = "gpuperf_device_params"
DEVICE_VALUES = "gpuperf_device_values"
INI_LISTS: dict[str, tuple[str, list[str]]] = {
    DEVICE_PARAMS: (
        "names of the suite's parameters whose values are devices or array libraries",
        ["device", "xp", "module", "namespace", "array_namespace", "library", "backend", "nx"],
    ),
    DEVICE_VALUES: (
        "devices that values of the suite's parameters stand for: VALUE=DEVICE, e.g. TorchBackend=torch",
        [],
    ),
}
"""The keys without an option of the command line: what each means, and its default."""


def add_to(parser: pytest.Parser) -> None:
    """Add every option to the command line and the ini file."""
    for name, members in GROUPS.items():
        group = parser.getgroup(f"gpuperf {name}", f"pytest-gpuperf, speedups of GPU over CPU: {name}")
        for option in members:
            escaped_help = option.help.replace("%", "%%")  # argparse formats it with %
            if option.is_flag:
                group.addoption(option.flag, action="store_true", default=None, help=escaped_help)
                parser.addini(option.key, option.help, type="bool", default=None)
            else:
                action = "append" if option.ini == "args" else "store"
                group.addoption(
                    option.flag, action=action, default=None, metavar=option.metavar, help=escaped_help
                )
                parser.addini(option.key, option.help, type=option.ini, default=None)
    for key, (help_, default) in INI_LISTS.items():
        parser.addini(key, help_, type="args", default=default)


# ---------------------------------------------------------------------------------------------------------
# What every start of pytest asks
# ---------------------------------------------------------------------------------------------------------


def any_given(config: pytest.Config) -> bool:
    """Return whether the user set an option whose value has to be checked before the first test."""
    given = [option for option in OPTIONS if option.raw_value(config) is not None]
    return any(option is not OFF for option in given)


def is_off(config: pytest.Config) -> bool:
    """Return whether marked tests run as if they had no marker: CodSpeed would time our timing of them."""
    return bool(OFF.raw_value(config)) or codspeed_is_on(config)


def codspeed_is_on(config: pytest.Config) -> bool:
    """Return whether pytest-codspeed measures; it leaves out all tests but its own benchmarks."""
    is_asked_for = config.getoption("codspeed", default=False) or "CODSPEED_ENV" in os.environ
    return bool(is_asked_for) and config.pluginmanager.hasplugin("codspeed")


def times_all(config: pytest.Config) -> bool:
    """Return whether unmarked tests with CPU and GPU variants are timed too."""
    return bool(ALL.raw_value(config))
