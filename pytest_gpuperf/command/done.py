"""What a command has to say, and its exit code."""

from dataclasses import dataclass

__all__ = ["FAILED", "FINE", "INCOMPARABLE", "WRONG", "Done"]

FINE, FAILED, WRONG, INCOMPARABLE = 0, 1, 2, 3
"""Exit codes: 1 a demand failed or a metric regressed, 2 it could not be done, 3 nothing to compare."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The text goes to standard output."""

    text: str
    code: int = FINE
