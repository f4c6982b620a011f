"""From a run to its curves of scaling, and from each of their points to words."""

from collections.abc import Iterator

from pytest_gpuperf.analysis.scaling import efficiency_text, karp_flatt_text
from pytest_gpuperf.model import units
from pytest_gpuperf.model.record import Run
from pytest_gpuperf.model.scaling import ScalingCurve, ScalingPoint


def measured_scalings(run: Run) -> list[ScalingCurve]:
    """Return the curves of which a point was measured."""
    return [curve for curve in run.scalings if any(point.time is not None for point in curve.points)]


def heading(curve: ScalingCurve) -> str:
    """Return which curve it is and what is required: `test_step (strong), required efficiency 0.8`."""
    required = "" if curve.required is None else f", required efficiency {curve.required:g}"
    return f"{curve.name} ({curve.mode}){required}"


def lines(curve: ScalingCurve) -> Iterator[str]:
    """Yield what was measured on each number of devices, and what holds the efficiency back."""
    yield from (
        f"{units.count(point.count, 'device')}: {', '.join(facts(point).values())}"
        for point in curve.points
        if point.time is not None
    )
    yield from (diagnosis.sentence for diagnosis in curve.diagnosis)


def cells(point: ScalingPoint) -> dict[str, str]:
    """Return the row of a number of devices in a table, by headings; a dash for what was not measured."""
    return {
        "devices": f"{point.count}",
        "time": "-" if point.time is None else units.seconds(point.time),
        "speedup": "-" if point.speedup is None else f"{units.digits(point.speedup.value)}x",
        "efficiency": "-" if point.efficiency is None else efficiency_text(point.efficiency),
        "Karp-Flatt": "-" if point.karp_flatt is None else karp_flatt_text(point.karp_flatt),
    }


def facts(point: ScalingPoint) -> dict[str, str]:
    """Return what is known of a number of devices, by name."""
    found = {"time": units.seconds(point.time)} if point.time is not None else {}
    if point.speedup is not None:
        found["speedup"] = f"{units.digits(point.speedup.value)}x"
    if point.efficiency is not None:
        found["efficiency"] = f"efficiency {efficiency_text(point.efficiency)}"
    if point.karp_flatt is not None:
        found["karp_flatt"] = f"Karp-Flatt {karp_flatt_text(point.karp_flatt)}"
    return found
