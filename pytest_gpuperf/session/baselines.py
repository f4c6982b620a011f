"""From a run's options to what finds its speedup tests, and to the errors that end it before the first."""

from pathlib import Path
from typing import Any

import pytest

from pytest_gpuperf import options
from pytest_gpuperf.collection.finder import Finder
from pytest_gpuperf.collection.patterns import Patterns
from pytest_gpuperf.devices.spec import DeviceParser, DeviceSpec
from pytest_gpuperf.gate.baseline import Baseline
from pytest_gpuperf.model.comparison import GateOptions
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.report import paths, reader

__all__ = ["WRONG", "baselines", "finder", "narrowed", "repeats", "usage_error"]

WRONG = "gpuperf-wrong"
"""In what a worker of pytest-xdist leaves for its controller: why the run ends."""


def usage_error(config: pytest.Config, text: str) -> pytest.UsageError:
    """Return the error that ends a run, in xdist's controller too, where a worker finds it."""
    output: dict[str, Any] = getattr(config, "workeroutput", {})
    output[WRONG] = text
    return pytest.UsageError(text)


def finder(config: pytest.Config) -> Finder:
    """Return what finds a run's speedup tests; raise UsageError for what cannot be asked."""
    offered = [backend for listed in config.hook.pytest_gpuperf_devices() for backend in listed]
    sides = DeviceParser(
        options.device_params(config), [each for each in offered if hasattr(each, "recognizes")]
    )
    try:
        patterns = Patterns(options.patterns(config))
    except ValueError as error:
        raise usage_error(config, f"gpuperf_speedup: {error}") from error
    return Finder(
        sides,
        patterns,
        takes_all=options.takes_all(config),
        lone=_lone(config, sides),
        foreign=options.has_foreign_marker(config),
    )


def _lone(config: pytest.Config, sides: DeviceParser) -> DeviceSpec | None:
    """Return the side that --gpuperf-side names."""
    chosen = options.plan(config).side
    if chosen is None:
        return None
    side = sides.of({sides.names[0]: chosen})[0]
    if side is None or isinstance(side, str):
        raise usage_error(
            config, f"--gpuperf-side: {chosen!r} is no device; say numpy, cupy, torch:cuda, or cpu"
        )
    return side


def baselines(gate: GateOptions) -> tuple[Baseline, ...]:
    """Return what a run may be compared with, newest first; raise UsageError where that is nothing."""
    path = gate.baseline
    if path is None:
        return ()
    try:
        reports = reader.load_reports(path) if path.exists() else ()
    except GpuPerfError as error:
        raise pytest.UsageError(f"--gpuperf-baseline: {error}") from error
    except OSError as error:  # a name that is too long, say
        raise pytest.UsageError(f"--gpuperf-baseline: {path} cannot be read: {error.strerror}") from error
    if not reports and gate.create:
        _check_folder(path)
        return ()
    if not reports:
        what = f"{path} has no report" if path.is_dir() else f"there is no {path}"
        raise pytest.UsageError(f"--gpuperf-baseline: {what}; --gpuperf-baseline-missing=create makes one")
    found = (Baseline(Path(report.name).name, report.run) for report in reports)
    usable = tuple(base for base in found if base.tests(gate.compared))
    if gate.create and path.is_dir():
        _check_folder(path)
    elif not usable:
        metrics = ", ".join(each.metric for each in gate.compared)
        raise pytest.UsageError(
            f"--gpuperf-baseline: {path} has no test with a {metrics} to compare with; make it on a machine "
            "that has the GPU"
        )
    return usable


def _check_folder(path: Path) -> None:
    """Raise UsageError where a baseline could not be made."""
    folder = path if path.is_dir() else path.parent
    if not folder.is_dir():
        raise pytest.UsageError(f"--gpuperf-baseline: there is no folder {folder}; make it first")
    if not paths.writable(folder / "baseline"):
        raise pytest.UsageError(f"--gpuperf-baseline: nothing can be written in {folder}; choose another")


def narrowed(config: pytest.Config) -> list[str]:
    """Return the paths, resolved, and node ids that the user gave on the command line, if any."""
    given = config.args_source is pytest.Config.ArgsSource.ARGS
    parts = (argument.partition("::") for argument in config.args if given)
    return [
        f"{(config.invocation_params.dir / place).resolve()}{colons}{name}" for place, colons, name in parts
    ]


def repeats(config: pytest.Config) -> bool:
    """Say whether only tests are run again that failed before; where none has, --lf and --sw run them all."""
    cache = getattr(config, "cache", None)
    if cache is None:
        return False
    if config.getoption("lf", default=False) and cache.get("cache/lastfailed", None):
        return True
    stopped = cache.get("cache/stepwise", None) if config.getoption("stepwise", default=False) else None
    return bool(stopped.get("last_failed") if isinstance(stopped, dict) else stopped)
