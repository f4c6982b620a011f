"""A scaling test on ranks: its curve, lines and figure count ranks, and no devices."""

from factories import scaled
from msgspec.structs import replace

from pytest_gpuperf.analysis.scaling import curves
from pytest_gpuperf.report.html.curves import of_scaling
from pytest_gpuperf.report.words.scaling import scaling_lines


def test_lines_and_figure_of_ranks_count_ranks():
    records = [scaled(1), scaled(2, 0.8), scaled(4, 0.667)]
    on_ranks = [replace(each, scaling=replace(each.scaling, member="rank")) for each in records]
    (curve,), (of_devices,) = curves(on_ranks), curves(records)
    lines = [*scaling_lines(curve)]
    assert ["ranks 1", "ranks 2", "ranks 4"] == [line.partition(",")[0] for line in lines[:3]]
    assert [line.replace("device", "rank") for line in scaling_lines(of_devices)] == lines
    said = str(of_scaling(curve))
    assert "on 4 ranks" in said
    assert "devices" not in said.replace("fewest devices", "").replace("as many devices", "")
