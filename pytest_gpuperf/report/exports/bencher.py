"""From a run to Bencher Metric Format, as `bencher run --adapter json` reads it."""

from pytest_gpuperf.model.measurement import Measurement
from pytest_gpuperf.model.record import Record, Run
from pytest_gpuperf.report import paths
from pytest_gpuperf.report.exports.headline import headline
from pytest_gpuperf.report.json import codec
from pytest_gpuperf.report.names import distinct

_LONGEST_NAME = 1024  # bytes: Bencher's limit of a BenchmarkName


class Bencher:
    """One benchmark for each test that was measured: its speedup or efficiency, the medians in nanoseconds.

    Results of an emulated device have measures of their own, to which no threshold for a GPU applies.
    """

    name, suffix = "bencher", ".json"
    begins_as = staticmethod(
        paths.begins(
            rb"\{" + paths.TEXT + rb':\{"(?:emulated-)?(?:speedup|efficiency|cpu-ns|gpu-ns)":\{"value":'
        )
    )

    def write(self, run: Run) -> str:
        """Return the benchmarks by the names of their tests."""
        benchmarks = {distinct(record.nodeid, _LONGEST_NAME): _measures(record) for record in run.records}
        measured = {name: measures for name, measures in benchmarks.items() if measures}
        return codec.plain(measured) + "\n" if measured else ""


def _measures(record: Record) -> dict[str, dict[str, float]]:
    measures = {}
    if (found := headline(record)) is not None:
        name, value = found
        parts = {"value": value.value, "lower_value": value.low, "upper_value": value.high}
        bounded = {part: number for part, number in parts.items() if number is not None}  # null is no number
        measures[f"{_emulated(record.gpu)}{name}"] = bounded
    for kind, measurement in (("cpu", record.cpu), ("gpu", record.gpu)):
        if measurement and measurement.median is not None:
            measures[f"{_emulated(measurement)}{kind}-ns"] = {"value": measurement.median * 1e9}
    return measures


def _emulated(measurement: Measurement | None) -> str:
    return "emulated-" if measurement and measurement.device.emulated else ""
