"""From the scaling curves of a run to their headings, lines and rows."""

from collections.abc import Iterator

from pytest_gpuperf.analysis.scaling import efficiency_text, karp_flatt_text
from pytest_gpuperf.model import units
from pytest_gpuperf.model.record import Run
from pytest_gpuperf.model.scaling import ScalingCurve, ScalingPoint
from pytest_gpuperf.report.words.verdicts import place


def measured(run: Run) -> list[ScalingCurve]:
    """Return the curves that were measured, those of tests that failed first."""
    places = {record.nodeid: place(record) for record in run.records}
    measured = [curve for curve in run.scalings if any(point.time is not None for point in curve.points)]
    return sorted(measured, key=lambda curve: places.get(curve.points[-1].nodeid, (0, 0.0)))


def scaling_heading(curve: ScalingCurve) -> str:
    """Return which curve it is and what is required: `test_step (strong), required efficiency 0.8`."""
    required = "" if curve.required is None else f", required efficiency {curve.required:g}"
    return f"{curve.name} ({curve.mode}){required}"


def scaling_lines(curve: ScalingCurve) -> Iterator[str]:
    """Yield what was measured on each number of devices, and what holds the efficiency back."""
    for point in curve.points:
        if point.time is not None:
            known = [f"{name} {cell}" for name, cell in scaling_cells(curve, point).items() if cell != "-"]
            yield ", ".join(known)
    yield from (diagnosis.sentence for diagnosis in curve.diagnosis)


def scaling_cells(curve: ScalingCurve, point: ScalingPoint) -> dict[str, str]:
    """Return the row of a number of devices in a table, by headings; a dash for what was not measured."""
    return {
        f"{curve.member}s": f"{point.count}",
        "time": "-" if point.time is None else units.seconds(point.time),
        "speedup": "-" if point.speedup is None else f"{units.digits(point.speedup.value)}x",
        "efficiency": "-" if point.efficiency is None else efficiency_text(point.efficiency),
        "Karp-Flatt": "-" if point.karp_flatt is None else karp_flatt_text(point.karp_flatt),
    }
