"""From a record to the properties of its test, which files of JUnit and pytest-json-report have."""

from collections.abc import Iterator

from pytest_gpuperf.gate import metric_values
from pytest_gpuperf.model.record import Record

PROPERTY_PREFIX = "gpuperf."


def properties(record: Record) -> Iterator[tuple[str, str | float]]:
    """Yield a test's properties in the files of JUnit and pytest-json-report, as names and values.

    They are its status, its speedup or efficiency with the range, and the outcomes of its comparisons.
    """
    yield f"{PROPERTY_PREFIX}status", record.status
    for metric, found in metric_values.decided(record).items():
        ends = {metric: found.value, "low": found.low, "high": found.high}
        yield from ((f"{PROPERTY_PREFIX}{name}", value) for name, value in ends.items() if value is not None)
    for comparison in record.comparisons:
        yield f"{PROPERTY_PREFIX}baseline.{comparison.metric}", comparison.outcome
