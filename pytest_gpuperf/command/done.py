"""What a command has to say, and its exit code."""

from collections.abc import Iterable
from dataclasses import dataclass

from pytest_gpuperf.report.names import printable

__all__ = ["FAILED", "FINE", "INCOMPARABLE", "WRONG", "Done", "told"]

FINE, FAILED, WRONG, INCOMPARABLE = 0, 1, 2, 3
"""Exit codes: 1 a demand failed or a metric regressed, 2 it could not be done, 3 nothing to compare."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The text goes to standard output."""

    text: str
    code: int = FINE


def told(lines: Iterable[str], code: int = FINE) -> Done:
    """Return lines for people: what is in a report, which anyone may have written, steers no terminal."""
    return Done(text="\n".join(map(printable, lines)), code=code)
