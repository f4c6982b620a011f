"""From a run to the list that github-action-benchmark reads with `tool: customBiggerIsBetter`."""

from typing import Any

from pytest_gpuperf.model import units
from pytest_gpuperf.model.measurement import Speedup
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.model.record import Record, Run
from pytest_gpuperf.report.json import codec
from pytest_gpuperf.report.names import distinct
from pytest_gpuperf.report.summary import format_time


def text(run: Run) -> str:
    """Return one entry for each test that has a speedup or an efficiency; a null would be charted as 0."""
    entries = [entry for record in run.records if (entry := _entry(record)) is not None]
    return codec.text(entries) + "\n" if entries else ""  # the action fails for an empty list


def _entry(record: Record) -> dict[str, Any] | None:
    """Return the speedup, or the parallel efficiency of a scaling test; None without any."""
    if (speedup := record.speedup) is not None:
        interval = units.interval(speedup.low, speedup.high, units.digits)
        return _charted(record, "x", speedup.value, interval, speedup)
    if (scaling := record.scaling) and scaling.speedup and (efficiency := scaling.efficiency):
        interval = units.interval(efficiency.low, efficiency.high, "{:.2f}".format)
        return _charted(record, "efficiency", efficiency.value, interval, scaling.speedup)
    return None


def _charted(record: Record, unit: str, value: float, interval: str, speedup: Speedup) -> dict[str, Any]:
    suffix = " (emulated)" if record.is_emulated else ""  # no chart mixes the two
    name = distinct(record.nodeid).replace("|", r"\|")  # the action writes it into a table as it is
    return {
        "name": f"{name}{suffix}",
        "unit": unit,
        "value": value,
        "range": interval,
        "extra": _tooltip(record, speedup),
    }


def _tooltip(record: Record, speedup: Speedup) -> str:
    """Return the chart's tooltip for a test: the times, the devices and the verdict."""
    lines = [
        f"{kind}: {format_time(measurement.median)} on {printable(measurement.device.name)}"
        for kind, measurement in (("CPU", record.cpu), ("GPU", record.gpu))
        if measurement
    ]
    lines.append(f"{record.status}, range of {speedup.rounds} rounds")
    if record.is_emulated:
        lines.append("emulated: not a GPU's speedup")
    return "\n".join(lines)
