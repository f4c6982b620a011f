"""What a command has to say, its exit code, and what it may write over."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.report import paths
from pytest_gpuperf.report.escape import printable

__all__ = ["FAILED", "FINE", "INCOMPARABLE", "WRONG", "CommandResult", "check_replaceable", "told"]

FINE, FAILED, WRONG, INCOMPARABLE = 0, 1, 2, 3
"""Exit codes: 1 a demand failed or a metric regressed, 2 it could not be done, 3 nothing to compare."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """The text goes to standard output."""

    text: str
    code: int = FINE


def told(lines: Iterable[str], code: int = FINE) -> CommandResult:
    """Return lines for people: what is in a report, which anyone may have written, steers no terminal."""
    return CommandResult(text="\n".join(map(printable, lines)), code=code)


def check_replaceable(output: Path, begins: bytes, what: str, inputs: Iterable[Path]) -> None:
    """Raise GpuPerfError for an output in the place of an input, or of a file of another kind."""
    if output.exists() and any(path.exists() and output.samefile(path) for path in inputs):
        raise GpuPerfError(f"{output} is read by this command; name another file to write")
    if (found := paths.objection(output, begins, what)) is not None:
        raise GpuPerfError(found)
