"""From the command line and the ini file to a Plan."""

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from pytest_gpuperf.model import Plan

__all__ = ["MARKERS", "add", "chosen", "json_path", "plan"]

_SPEEDUP = (
    'speedup(min=None, *, max=None, transfer="never", calls=None, latency=False, max_memory=None, '
    "rtol=None, atol=None, parity=True, max_time=None): time the test on CPU and GPU; fail when the speedup "
    "is below min or above max"
)
_THRESHOLD = (
    "offload_threshold(parameter, *, at_most=None, at_least=None): find the size from which the GPU wins in "
    "a speedup test that is parametrized over it; fail when it is beyond the limits"
)
MARKERS = (_SPEEDUP, _THRESHOLD)


class _Option:
    """One option: `--gpuperf-NAME` on the command line and `gpuperf_name` in the ini file."""

    def __init__(
        self,
        name: str,
        help: str,
        *,
        read: Callable[[str], Any] | None = None,
        metavar: str | None = None,
        ini: Literal["string", "bool", "float"] = "string",
    ) -> None:
        self.flag = f"--gpuperf-{name}"
        self.key = f"gpuperf_{name.replace('-', '_')}"
        self.help = help
        self.read = read
        self.metavar = metavar
        self.ini = ini


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


_JSON = _Option("json", "write the report to PATH", read=str, metavar="PATH")
_PLAN = (
    _Option("gpu", "the GPU: auto, none, cupy[:N], sycl[:gpu|:cpu], simulated", read=str, metavar="DEVICE"),
    _Option("require-gpu", "fail, instead of skipping, where no GPU can be used"),
    _Option("report-only", "record every verdict and fail no test for it"),
    _Option("off", "run marked tests once on each device and measure nothing"),
    _Option("alpha", "chance of a wrong verdict, per side (0.025)", read=_alpha, metavar="P", ini="float"),
    _Option(
        "max-time",
        "seconds that measuring one test may take (10)",
        read=_seconds,
        metavar="S",
        ini="float",
    ),
    _Option(
        "inconclusive",
        "an undecided test: warn passes it near its limit and fails it elsewhere; fail and pass settle it",
        read=_settlement,
        metavar="warn|fail|pass",
    ),
    _Option(
        "cost-ratio",
        "what an hour of a GPU machine costs, over one of a CPU machine (2.5)",
        read=_price,
        metavar="R",
        ini="float",
    ),
)
_OPTIONS = (*_PLAN, _JSON)


def add(parser: pytest.Parser) -> None:
    """Add every option to the command line and the ini file."""
    group = parser.getgroup("gpuperf", "speedups of GPU over CPU (pytest-gpuperf)")
    for option in _OPTIONS:
        if option.read is None:
            group.addoption(option.flag, action="store_true", default=None, help=option.help)
            parser.addini(option.key, option.help, type="bool", default=None)
        else:
            group.addoption(option.flag, default=None, metavar=option.metavar, help=option.help)
            parser.addini(option.key, option.help, type=option.ini, default=None)


def chosen(config: pytest.Config) -> bool:
    """Say whether the user set any option: only then is there anything to check before the first test."""
    return any(_given(config, option) is not None for option in _OPTIONS)


def plan(config: pytest.Config) -> "Plan":
    """Return how this run measures; raise UsageError, naming the option, for a value that can't be."""
    from pytest_gpuperf.model import Plan

    values = {option.key.removeprefix("gpuperf_"): _read(config, option) for option in _PLAN}
    return Plan(**{name: value for name, value in values.items() if value is not None})


def json_path(config: pytest.Config) -> Path | None:
    """Return where this process writes the report, relative to where pytest was called, or None.

    Raises UsageError when that is not a place where a file can be written.
    """
    given = _read(config, _JSON)
    if given is None or hasattr(config, "workerinput"):  # xdist's controller writes for its workers
        return None
    path: Path = config.invocation_params.dir / given
    if path.is_dir():
        raise pytest.UsageError(f"--gpuperf-json: {path} is a folder; name a file in it")
    if not path.parent.is_dir():
        raise pytest.UsageError(f"--gpuperf-json: there is no folder {path.parent}; make it first")
    if path.exists() and not _is_json(path):
        raise pytest.UsageError(f"--gpuperf-json: {path} is there and no report; name another file")
    if not _writable(path):
        raise pytest.UsageError(f"--gpuperf-json: no file can be written at {path}; choose another place")
    return path


def _given(config: pytest.Config, option: _Option) -> Any:
    """Return what the command line says, else the ini file, else None."""
    value = config.getoption(option.flag)
    if value is not None:
        return value
    try:
        return config.getini(option.key)
    except (ValueError, TypeError, pytest.UsageError) as error:
        raise pytest.UsageError(f"{option.key} in the ini file: {error}") from error


def _read(config: pytest.Config, option: _Option) -> Any:
    value = _given(config, option)
    if value is None or option.read is None:
        return value
    try:
        return option.read(str(value))
    except ValueError as error:
        raise pytest.UsageError(f"{option.flag} (ini: {option.key}): {error}") from error


def _is_json(path: Path) -> bool:
    """Say whether a file may be an earlier report: an object of JSON, or empty."""
    with path.open("rb") as file:
        return file.read(64).lstrip()[:1] in (b"{", b"")


def _writable(path: Path) -> bool:
    """Try to open a new file beside the report, as writing it will."""
    trial = path.with_name(f".{path.name}.{os.getpid()}.trial")
    try:
        with trial.open("xb"):
            pass
        trial.unlink()
    except OSError:
        return False
    return True
