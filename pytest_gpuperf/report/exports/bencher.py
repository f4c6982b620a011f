"""From a run to Bencher Metric Format, as `bencher run --adapter json` reads it."""

from pytest_gpuperf.model.measurement import Measurement
from pytest_gpuperf.model.record import Record, Run
from pytest_gpuperf.report.json import codec
from pytest_gpuperf.report.names import distinct

_LONGEST_NAME = 1024  # bytes: Bencher's limit of a BenchmarkName


def text(run: Run) -> str:
    """Return one benchmark for each test that was measured: its speedup, or its parallel efficiency, and
    the medians in nanoseconds.

    Results of an emulated device have measures of their own, to which no threshold for a GPU applies.
    """
    benchmarks = {distinct(record.nodeid, _LONGEST_NAME): _measures(record) for record in run.records}
    measured = {name: measures for name, measures in benchmarks.items() if measures}
    return codec.text(measured) + "\n" if measured else ""


def _measures(record: Record) -> dict[str, dict[str, float]]:
    measures = {}
    efficiency = record.scaling.efficiency if record.scaling else None
    for name, found in (("speedup", record.speedup), ("efficiency", efficiency)):
        if found is not None:
            parts = {"value": found.value, "lower_value": found.low, "upper_value": found.high}
            bounded = {
                part: value for part, value in parts.items() if value is not None
            }  # null is not allowed
            measures[f"{_emulated(record.gpu)}{name}"] = bounded
    for kind, measurement in (("cpu", record.cpu), ("gpu", record.gpu)):
        if measurement and measurement.median is not None:
            measures[f"{_emulated(measurement)}{kind}-ns"] = {"value": measurement.median * 1e9}
    return measures


def _emulated(measurement: Measurement | None) -> str:
    return "emulated-" if measurement and measurement.device.emulated else ""
