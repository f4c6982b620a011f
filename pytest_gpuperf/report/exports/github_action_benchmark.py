"""From a run to the list that github-action-benchmark reads with `tool: customBiggerIsBetter`."""

from typing import Any

from pytest_gpuperf.model import units
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.model.record import Record, Run
from pytest_gpuperf.report import paths
from pytest_gpuperf.report.exports.headline import headline
from pytest_gpuperf.report.json import codec
from pytest_gpuperf.report.names import distinct
from pytest_gpuperf.report.summary import format_time


class GithubAction:
    """One entry for each test that has a speedup or an efficiency; a null would be charted as 0."""

    name, suffix = "github-action-benchmark", ".json"
    begins_as = staticmethod(
        paths.begins(rb'\[\{"name":' + paths.TEXT + rb',"unit":"(?:x|efficiency)","value":[^,"]+,"range":"')
    )

    def write(self, run: Run) -> str:
        """Return the entries, or nothing: the action fails for an empty list."""
        entries = [entry for record in run.records if (entry := _entry(record)) is not None]
        return codec.plain(entries) + "\n" if entries else ""


def _entry(record: Record) -> dict[str, Any] | None:
    if (found := headline(record)) is None:
        return None
    what, value = found
    shown = units.digits if what == "speedup" else "{:.2f}".format
    suffix = " (emulated)" if record.is_emulated else ""  # no chart mixes the two
    name = distinct(record.nodeid).replace("|", r"\|")  # the action writes it into a table as it is
    return {
        "name": f"{name}{suffix}",
        "unit": "x" if what == "speedup" else what,
        "value": value.value,
        "range": units.interval(value.low, value.high, shown),
        "extra": _tooltip(record),
    }


def _tooltip(record: Record) -> str:
    """Return the chart's tooltip for a test: the times, the devices and the verdict."""
    lines = [
        f"{kind}: {format_time(measurement.median)} on {printable(measurement.device.name)}"
        for kind, measurement in (("CPU", record.cpu), ("GPU", record.gpu))
        if measurement
    ]
    emulated = ["emulated: not a GPU's speedup"] if record.is_emulated else []
    return "\n".join([*lines, record.verdict, *emulated])
