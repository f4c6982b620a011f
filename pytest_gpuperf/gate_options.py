"""From the command line and the ini file to what a run is held against, and to what it leaves for others."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.option import Option, check_file, given, read, read_all, start
from pytest_gpuperf.report import paths

if TYPE_CHECKING:
    from pytest_gpuperf.model.comparison import GateOptions, Tolerance
    from pytest_gpuperf.model.demand import Outputs

__all__ = ["GITHUB", "OPTIONS", "check_apart", "gate", "outputs"]

GITHUB = "github"
_NO_BASELINE = "none"


def _tolerance(text: str) -> "Tolerance | str":
    from pytest_gpuperf.gate import tolerance  # the door of every suite; few of them have a gate

    return tolerance.parse(text)


def _on_missing(text: str) -> str:
    if text not in ("fail", "create"):
        raise ValueError(f"{text!r} is neither fail nor create")
    return text


def _path(text: str) -> str:
    if not text:
        raise ValueError("name a file or folder")
    return text


def _export(text: str) -> tuple[str, str]:
    name, _, path = text.partition(":")
    if name not in paths.EXPORTS:
        known = ", ".join(paths.EXPORTS)
        raise ValueError(f"{name!r} is no format; say one of {known}, as in csv:speedups.csv")
    if not path:
        raise ValueError(f"{text!r} names no file, as {name}:PATH does")
    return name, path


_BASELINE = Option(
    "baseline",
    "compare with an earlier report, or the newest of a folder; none turns off what the ini file asks for",
    read=_path,
    metavar="PATH|none",
)
_MISSING = Option(
    "baseline-missing",
    "what a baseline that is not there does: fail, or create makes one of this run",
    read=_on_missing,
    metavar="fail|create",
)
_FAIL_ON = Option(
    "fail-on",
    "fail what got worse than the baseline beyond a tolerance: speedup:10%, gpu, cpu, latency, always, "
    "threshold, memory; improvement fails what got better; may be repeated",
    read=_tolerance,
    metavar="METRIC:PERCENT",
    ini="args",
)
_STRICT = Option("strict", "fail tests that cannot be compared with the baseline: another machine, say")
_NO_GPU = Option("allow-no-gpu", "let a gate pass that measured nothing for want of a GPU")
_MISSED = Option("allow-missing", "let a gate pass that did not run all of the baseline's tests")
_MARKDOWN_TO = Option(
    "markdown",
    f"write a summary for pull requests to PATH; {GITHUB} appends it to the job's summary; may be repeated",
    read=_path,
    metavar=f"PATH|{GITHUB}",
    ini="args",
)
_EXPORT = Option(
    "export",
    f"write the report as {', '.join(paths.EXPORTS)}; may be repeated",
    read=_export,
    metavar="FORMAT:PATH",
    ini="args",
)
_HISTORY = Option("history", "keep a small file of this run in DIR", read=_path, metavar="DIR")
OPTIONS = (
    _BASELINE,
    _MISSING,
    _FAIL_ON,
    _STRICT,
    _NO_GPU,
    _MISSED,
    _MARKDOWN_TO,
    _EXPORT,
    _HISTORY,
)


def gate(config: pytest.Config) -> "GateOptions":
    """Return what this run is held against; raise UsageError, naming the option, for what cannot be."""
    from pytest_gpuperf.gate import tolerance
    from pytest_gpuperf.model.comparison import GateOptions

    asked = read_all(config, _FAIL_ON)
    path, creates = read(config, _BASELINE), read(config, _MISSING) == "create"
    if path == _NO_BASELINE and config.getoption(_FAIL_ON.flag) is None:
        return GateOptions()  # whatever the ini file asks for
    try:
        held = tolerance.tolerances_of(asked)
    except ValueError as error:
        raise pytest.UsageError(f"--gpuperf-fail-on: {error}") from error
    if asked and path in (None, _NO_BASELINE):
        raise pytest.UsageError(
            "--gpuperf-fail-on: there is nothing to compare with; say with --gpuperf-baseline what is"
        )
    if asked and (config.getoption("--gpuperf-off") or config.getini("gpuperf_off")):
        raise pytest.UsageError(
            "--gpuperf-off measures nothing, so that --gpuperf-fail-on could not fail; leave one of them out"
        )
    if creates and path is None:
        raise pytest.UsageError("--gpuperf-baseline-missing: say with --gpuperf-baseline which one")
    return GateOptions(
        baseline=None if path is None else start(config, _BASELINE) / path,
        tolerances=held,
        improvements=tolerance.IMPROVEMENT in asked,
        create=creates,
        strict=bool(given(config, _STRICT)),
        allow_no_gpu=bool(given(config, _NO_GPU)),
        allow_missing=bool(given(config, _MISSED)),
    )


def outputs(config: pytest.Config) -> "Outputs":
    """Return the files that this process writes beside the report; none in xdist's workers.

    Raises UsageError, before the first test, for a place where one cannot be written, and where something
    else of the user's would be lost.
    """
    from pytest_gpuperf.model.demand import Outputs

    if hasattr(config, "workerinput"):
        return Outputs()
    markdown = read_all(config, _MARKDOWN_TO)
    files = [start(config, _MARKDOWN_TO) / path for path in markdown if path != GITHUB]
    exports = [(name, start(config, _EXPORT) / path) for name, path in read_all(config, _EXPORT)]
    for path in files:
        check_file("--gpuperf-markdown", path, paths.MARKDOWN, "summary of ours")
    for name, path in exports:
        check_file("--gpuperf-export", path, paths.EXPORTS[name], f"file of {name}")
    history = read(config, _HISTORY)
    summary = os.environ.get("GITHUB_STEP_SUMMARY") if GITHUB in markdown else None
    return Outputs(
        markdown=tuple(files),
        summary=Path(summary) if summary else None,
        exports=tuple(exports),
        history=None if history is None else _folder(start(config, _HISTORY) / history),
    )


def check_apart(gate: "GateOptions", report: Path | None, outputs: "Outputs") -> None:
    """Raise UsageError where two files of a run are one, or where one would be the next run's baseline."""
    named = [("--gpuperf-json", report)] if report else []
    named += [("--gpuperf-markdown", path) for path in outputs.markdown]
    named += [("--gpuperf-export", path) for _, path in outputs.exports]
    taken: dict[Path, str] = {}
    for flag, path in named:
        place = path.resolve()
        if place in taken:
            raise pytest.UsageError(f"{flag}: {path} is written by {taken[place]}, too; name another file")
        taken[place] = flag
    if gate.baseline is None:
        return
    base = gate.baseline.resolve()
    for place, flag in taken.items():
        if place == base or (place.parent == base and place.suffix == ".json"):
            raise pytest.UsageError(
                f"{flag}: {place} would be what the next run is compared with, whatever this one loses; name "
                "a file elsewhere (gpuperf baseline update takes a good report into a baseline)"
            )
    if outputs.history is not None and outputs.history.resolve() == base:
        raise pytest.UsageError(f"--gpuperf-history: {base} holds the baselines; name another folder")


def _folder(path: Path) -> Path:
    """Return the folder for the history, which may be made; raise UsageError where it cannot be."""
    if path.exists() and not path.is_dir():
        raise pytest.UsageError(f"--gpuperf-history: {path} is no folder; name another place")
    if not path.parent.is_dir():
        raise pytest.UsageError(f"--gpuperf-history: there is no folder {path.parent}; make it first")
    if not paths.writable(path / "entry" if path.is_dir() else path):
        raise pytest.UsageError(f"--gpuperf-history: nothing can be written in {path}; choose another place")
    return path
