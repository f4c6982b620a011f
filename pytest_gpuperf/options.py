"""From the command line and the ini file to RunOptions."""

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf import gate_options, option
from pytest_gpuperf.option import Option, check_file, given, listed, read
from pytest_gpuperf.report import paths

if TYPE_CHECKING:
    from pytest_gpuperf.model.demand import RunOptions

__all__ = [
    "MARKERS",
    "add",
    "chosen",
    "device_params",
    "has_foreign_marker",
    "json_path",
    "patterns",
    "run_options",
    "takes_all",
]

_SPEEDUP = (
    'speedup(min=None, *, max=None, transfer="never", calls=None, latency=False, max_memory=None, '
    "rtol=None, atol=None, parity=True, max_time=None, pair=None, device=None): time the test on CPU and "
    "GPU; fail when the speedup is below min or above max"
)
_THRESHOLD = (
    "offload_threshold(parameter, *, at_most=None, at_least=None): find the size from which the GPU wins in "
    "a speedup test that is parametrized over it; fail when it is beyond the limits"
)
MARKERS = (_SPEEDUP, _THRESHOLD)


def _alpha(text: str) -> float:
    value = float(text)
    if not 0 < value < 0.5:
        raise ValueError(f"{text} is not between 0 and 0.5")
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < math.inf:
        raise ValueError(f"{text} is not a positive number of seconds")
    return value


def _price(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ValueError(
            f"{text} is no price ratio above 0: what an hour of a GPU machine costs, over a CPU one's"
        )
    return value


def _settlement(text: str) -> str:
    if text not in ("warn", "fail", "pass"):
        raise ValueError(f"{text!r} is not one of warn, fail, pass")
    return text


def _file(text: str) -> str:
    if not text:
        raise ValueError("name a file, or none")
    return text


_JSON = Option("json", "write the report to PATH", read=str, metavar="PATH")
_LOCK = Option(
    "lock",
    "the file by which processes take turns to measure (one for the whole machine); none: they don't",
    read=_file,
    metavar="PATH|none",
)
_PLAN = (
    Option(
        "gpu",
        "the GPU: auto, none, cupy[:N], torch[:cuda:N], jax[:N], sycl[:gpu|:cpu], simulated",
        read=str,
        metavar="DEVICE",
    ),
    Option(
        "side",
        "the device that tests work on which do not choose it themselves, as numpy or cupy",
        read=str,
        metavar="DEVICE",
    ),
    Option("require-gpu", "fail, instead of skipping, where no GPU can be used"),
    Option("report-only", "record every verdict and fail no test for it"),
    Option("off", "run marked tests once on each device and measure nothing"),
    Option("alpha", "chance of a wrong verdict, per side (0.025)", read=_alpha, metavar="P", ini="float"),
    Option(
        "max-time",
        "seconds that measuring one test may take (10)",
        read=_seconds,
        metavar="S",
        ini="float",
    ),
    Option(
        "inconclusive",
        "an undecided test: warn passes it near its limit and fails it elsewhere; fail and pass settle it",
        read=_settlement,
        metavar="warn|fail|pass",
    ),
    Option(
        "cost-ratio",
        "what an hour of a GPU machine costs, over one of a CPU machine (2.5)",
        read=_price,
        metavar="R",
        ini="float",
    ),
    _LOCK,
)
_ALL = Option("all", "time every test that has siblings on both devices, marked or not, and fail none for it")
_OPTIONS = (*_PLAN, _JSON, _ALL)
_DEVICE_PARAMS = ["device", "xp", "module", "namespace", "array_namespace", "library", "backend", "nx"]


def add(parser: pytest.Parser) -> None:
    """Add every option to the command line and the ini file."""
    group = parser.getgroup("gpuperf", "speedups of GPU over CPU (pytest-gpuperf)")
    for each in (*_OPTIONS, *gate_options.OPTIONS):
        option.add(parser, group, each)
    parser.addini(
        "gpuperf_device_params",
        "names of the suite's parameters whose values are devices or array libraries",
        type="args",
        default=_DEVICE_PARAMS,
    )
    parser.addini(
        "gpuperf_speedup",
        "what is asked of tests without a marker, a line each: NODE-ID-PATTERN min=2 max_time=5",
        type="linelist",
        default=[],
    )


def chosen(config: pytest.Config) -> bool:
    """Say whether the user set an option that asks for anything: only then is there something to check."""
    asked = [each for each in (*_OPTIONS, *gate_options.OPTIONS) if given(config, each) is not None]
    return any(each.key != "gpuperf_off" for each in asked)


def run_options(config: pytest.Config) -> "RunOptions":
    """Return the options of this run; raise UsageError, naming the option, for an invalid value."""
    from pytest_gpuperf.model.demand import RunOptions

    values = {each.key.removeprefix("gpuperf_"): read(config, each) for each in _PLAN}
    values["default_device"] = values.pop("side")
    if values["lock"] not in (None, "auto", "none"):
        values["lock"] = str(_lock_file(option.start(config, _LOCK) / values["lock"]))
    return RunOptions(**{name: value for name, value in values.items() if value is not None})


def takes_all(config: pytest.Config) -> bool:
    """Say whether every test that has siblings is to be timed."""
    return bool(given(config, _ALL))


def device_params(config: pytest.Config) -> list[str]:
    """Return the names of the suite's parameters that tell devices; raise UsageError when there are none."""
    names = listed(config, "gpuperf_device_params")
    if not names:
        raise pytest.UsageError("gpuperf_device_params names no parameter; leave it out, or name some")
    return names


def patterns(config: pytest.Config) -> list[str]:
    """Return the lines of gpuperf_speedup."""
    return listed(config, "gpuperf_speedup")


def has_foreign_marker(config: pytest.Config) -> bool:
    """Say whether the suite registers a mark called speedup for something of its own."""
    names = (
        line.partition(":")[0].partition("(")[0].strip()
        for line in config.getini("markers")
        if line not in MARKERS
    )
    return "speedup" in names


def json_path(config: pytest.Config) -> Path | None:
    """Return where this process writes the report, or None.

    Raises UsageError when that is not a place where a file can be written.
    """
    name = read(config, _JSON)
    if name is None or hasattr(config, "workerinput"):  # xdist's controller writes for its workers
        return None
    path: Path = option.start(config, _JSON) / name
    check_file("--gpuperf-json", path, paths.REPORT, "report")
    return path


def _lock_file(path: Path) -> Path:
    """Return the path of a file that can be locked; raise UsageError for another. Locking makes it."""
    if path.is_dir():
        raise pytest.UsageError(f"--gpuperf-lock: {path} is a folder; name a file in it")
    if not path.parent.is_dir():
        raise pytest.UsageError(f"--gpuperf-lock: there is no folder {path.parent}; make it first")
    if path.is_symlink() or (path.exists() and (not path.is_file() or path.stat().st_size)):
        raise pytest.UsageError(f"--gpuperf-lock: {path} is there and no lock file; name another file")
    if not (os.access(path, os.R_OK | os.W_OK) if path.exists() else paths.writable(path)):
        raise pytest.UsageError(f"--gpuperf-lock: {path} cannot be opened to write; choose another place")
    return path
