"""From a curve of scaling to its figure: parallel efficiency over the number of devices."""

from collections.abc import Sequence

from pytest_gpuperf.analysis.scaling import efficiency_text
from pytest_gpuperf.model import units
from pytest_gpuperf.model.scaling import Mode, ScalingCurve
from pytest_gpuperf.report.html import chart
from pytest_gpuperf.report.html.chart import Axis, Line
from pytest_gpuperf.report.html.figure import Figure, Style
from pytest_gpuperf.report.summary import scaling_heading

_CAPTIONS: dict[Mode, str] = {
    "strong": "Speedup over the fewest devices / how many times as many devices.",
    "weak": "Time on the fewest devices / time, for a problem that grows with the devices.",
}


def figure(curve: ScalingCurve) -> Figure | None:
    """Return the efficiency over the number of devices; None where it was measured on none."""
    values = [(float(point.count), point.efficiency) for point in curve.points if point.efficiency]
    if not values:
        return None
    said = (f"{efficiency_text(each)} on {units.count(int(count), 'device')}" for count, each in values)
    finding = f"Scaling of {scaling_heading(curve)}: efficiency {', '.join(said)}"
    counts = [float(point.count) for point in curve.points]
    # The line begins with the fewest devices, with which all others are compared.
    if curve.points[0].efficiency is None and curve.points[0].time is not None:
        values.insert(0, (counts[0], chart.exact(1.0)))
    lines = [Line(style="gpu", name="measured", values=values), _across(counts, "muted", "ideal", 1.0)]
    if curve.required is not None:
        lines.append(_across(counts, "limit", f"required {curve.required:g}", curve.required))
    return chart.figure(
        lines,
        (),
        across=Axis(name="devices", word="{:.0f}".format),
        ticks=counts,
        upright=Axis(name="efficiency", word="{:g}".format, log=False),
        finding=finding,
        caption=f"{_CAPTIONS[curve.mode]} 1 is perfect; the band is the range.",
    )


def _across(counts: Sequence[float], style: Style, name: str, value: float) -> Line:
    return Line(style=style, name=name, values=[(count, chart.exact(value)) for count in counts])
