"""From a record to the properties of a test in the files of JUnit and pytest-json-report."""

from collections.abc import Iterator

from pytest_gpuperf.model.record import Record

PREFIX = "gpuperf."


def pairs(record: Record) -> Iterator[tuple[str, str | float]]:
    """Yield names and values: status, speedup or efficiency with its interval, outcomes of comparisons."""
    yield f"{PREFIX}status", record.status
    efficiency = record.scaling.efficiency if record.scaling else None
    for name, found in (("speedup", record.speedup), ("efficiency", efficiency)):
        if found is not None:
            ends = {name: found.value, "low": found.low, "high": found.high}
            yield from ((f"{PREFIX}{name}", value) for name, value in ends.items() if value is not None)
    for comparison in record.comparisons:
        yield f"{PREFIX}baseline.{comparison.metric}", comparison.outcome
