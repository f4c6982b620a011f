"""Errors of optional methods of devices and backends in this run. The run reports each of them once."""

from collections.abc import Iterator
from typing import Any

_noted: dict[tuple[str, str], str] = {}  # by device and method; empty once it was told


def note(owner: Any, method: str, what: str) -> None:
    """Note what a method did in place of an answer; the first time alone."""
    name = getattr(owner, "name", type(owner).__name__)
    text = f"{type(owner).__name__}.{method} of {name} {what}; the run goes on without what it tells: mend it"
    _noted.setdefault((name, method), text)


def take() -> Iterator[str]:
    """Yield what was noted and has not been told."""
    for key, text in _noted.items():
        if text:
            _noted[key] = ""
            yield text


def forget() -> None:
    """Begin anew: another run tells its own."""
    _noted.clear()
