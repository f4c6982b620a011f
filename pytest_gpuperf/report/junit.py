"""From a record to the properties of a test in the files of JUnit and pytest-json-report."""

from collections.abc import Iterator

from pytest_gpuperf.model.record import Record

PREFIX = "gpuperf."


def pairs(record: Record) -> Iterator[tuple[str, str | float]]:
    """Yield names and values: status, speedup with its interval, outcomes of baseline comparisons."""
    yield f"{PREFIX}status", record.status
    if record.speedup:
        ends = {"speedup": record.speedup.value, "low": record.speedup.low, "high": record.speedup.high}
        yield from ((f"{PREFIX}{name}", value) for name, value in ends.items() if value is not None)
    for comparison in record.comparisons:
        yield f"{PREFIX}baseline.{comparison.metric}", comparison.outcome
