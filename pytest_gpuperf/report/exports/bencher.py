"""Run -> Bencher Metric Format, as `bencher run --adapter json` reads it."""

from pytest_gpuperf.model.measurement import Measurement, Speedup
from pytest_gpuperf.model.record import Record, Run
from pytest_gpuperf.report.escape import distinct
from pytest_gpuperf.report.json import codec

__all__ = ["text"]

_LONGEST_NAME = 1024  # bytes, says Bencher's BenchmarkName
_NANOSECONDS = 1e9  # the unit of Bencher's own latency


def text(run: Run) -> str:
    """Return one benchmark for each test that was measured: its speedup, and the medians in nanoseconds.

    What an emulated device measured is a measure of its own: no threshold for a GPU's numbers sees it.
    """
    found = {distinct(record.nodeid, _LONGEST_NAME): _measures(record) for record in run.records}
    return codec.text({name: measures for name, measures in found.items() if measures}) + "\n"


def _measures(record: Record) -> dict[str, dict[str, float]]:
    found = {}
    if record.speedup:
        found[f"{_emulated(record.gpu)}speedup"] = _speedup(record.speedup)
    for side, measured in (("cpu", record.cpu), ("gpu", record.gpu)):
        if measured and measured.median is not None:
            found[f"{_emulated(measured)}{side}-ns"] = {"value": measured.median * _NANOSECONDS}
    return found


def _speedup(speedup: Speedup) -> dict[str, float]:
    """Return the value with the ends of its interval that are bounded: the format has no null."""
    parts = {"value": speedup.value, "lower_value": speedup.low, "upper_value": speedup.high}
    return {name: part for name, part in parts.items() if part is not None}


def _emulated(measured: Measurement | None) -> str:
    return "emulated-" if measured and measured.device.emulated else ""
