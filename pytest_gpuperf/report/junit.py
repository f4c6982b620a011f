"""Record -> the properties of a test that JUnit's and pytest-json-report's files take."""

from collections.abc import Iterator

from pytest_gpuperf.model.record import Record

__all__ = ["PREFIX", "pairs"]

PREFIX = "gpuperf."


def pairs(record: Record) -> Iterator[tuple[str, str | float]]:
    """Yield names and values, one for each: status, speedup with its interval, outcomes beside a baseline."""
    yield f"{PREFIX}status", record.status
    if record.speedup:
        ends = {"speedup": record.speedup.value, "low": record.speedup.low, "high": record.speedup.high}
        yield from ((f"{PREFIX}{name}", value) for name, value in ends.items() if value is not None)
    for found in record.comparisons:
        yield f"{PREFIX}baseline.{found.metric}", found.outcome
