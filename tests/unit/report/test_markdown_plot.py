"""A forest plot in characters: where the interval lies, and what it lies beside."""

from cases import for_each
from factories import comparison, estimate, record, skipped, speedup

from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.report.markdown import plot_axis, plot_heading, plot_legend, plot_row
from pytest_gpuperf.report.scale import LogScale

AXIS = LogScale(0.125, 2.0**24 / 8, 27)  # a power of 2 for nearly each column


def at(power: float) -> float:
    """Return the value that lies in a column."""
    return AXIS.low * (AXIS.high / AXIS.low) ** (power / 27)


def plotted(low, value, high, **demand) -> str:
    ends = (None if end is None else at(end) for end in (low, high))
    one = record(speedup=speedup(at(value), *ends), demand=Demand(**{k: at(v) for k, v in demand.items()}))
    return plot_row(one, AXIS)


@for_each(
    ("expected", "low", "value", "high", "demand"),
    [
        ("···│··├──●──┤···············", 6, 9, 12, {}),
        ("···│··├──●──┤···············", 6, 9, 12, {}),
        ("···│··●·····················", 6, 6, 6, {}),
        ("·├─┼─●┤·····················", 1, 5, 6, {}),
        ("···├─●┤·····················", 3, 5, 6, {}),
        ("···│║·├──●──┤···············", 6, 9, 12, {"min": 4}),
        ("···│··├╫─●──┤···············", 6, 9, 12, {"min": 7}),
        ("···│··╟──●──╢···············", 6, 9, 12, {"min": 6, "max": 12}),
        ("···║··├──●──┤···············", 6, 9, 12, {"min": 3}),
        ("·├─╫─●┤·····················", 1, 5, 6, {"min": 3}),
        ("◄──┼──●──┤··················", None, 6, 9, {}),
        ("···│··├──●─────────────────►", 6, 9, None, {}),
        ("···│··├────────────────────●", 6, 40, 50, {}),
        ("●──┤························", -9, -9, 3, {}),
    ],
)
def test_a_row_shows_the_interval_beside_one_and_what_is_required(expected, low, value, high, demand):
    assert expected == plotted(low, value, high, **demand)


def test_a_row_shows_the_baseline_where_it_differs():
    def compared(power, metric="speedup"):
        one = comparison(metric=metric, baseline=estimate(at(power)))
        fast = record(speedup=speedup(at(9), at(6), at(12)), demand=Demand(), comparisons=(one,))
        return plot_row(fast, AXIS)

    assert "···│··├──●──┤··○············" == compared(15)
    assert "···│··├──●─○┤···············" == compared(11)
    assert "···│··├──●──┤···············" == compared(9)
    assert "···│··├──●──┤···············" == compared(15, metric="gpu_time")


def test_a_test_without_a_speedup_has_no_row():
    assert plot_row(skipped("a"), AXIS) is None


def test_the_legend_names_the_marks_that_are_there():
    bare = record(demand=Demand())
    assert plot_legend([bare, skipped("a")]).endswith("`│` 1x")
    assert plot_legend([record()]).endswith(", `║` required")


def test_all_rows_are_on_one_axis_with_one_and_the_limits_on_it():
    slow = record(speedup=speedup(0.5, 0.4, 0.6), demand=Demand(min=40))
    fast = record(speedup=speedup(20.0, 10.0, None))
    axis = plot_axis([slow, fast, skipped("a")])
    assert axis.low < 0.4 < 40 < axis.high
    rows = [plot_row(each, axis) for each in (slow, fast)]
    assert ["·├●┤··│···················║·", "······│·····║·····├───●────►"] == rows


@for_each(
    ("expected", "low", "high"),
    [
        ("0.5x ·················· 50x", 0.5, 50.0),
        ("1e-06x ·············· 1e+06x", 1e-6, 1e6),
        ("1x ·················· 12345x", 1.0, 12345.0),
    ],
)
def test_the_heading_names_the_ends_of_the_axis(expected, low, high):
    assert expected.replace("·", "") == plot_heading(LogScale(low, high, 27)).replace("·", "")
    assert len(plot_heading(LogScale(low, high, 27))) == 28


def test_no_number_breaks_the_axis():
    for value in (1e-300, 1e300):
        one = record(speedup=speedup(value, value, value))
        axis = plot_axis([one, record()])
        assert len(plot_row(one, axis)) == len(plot_heading(axis)) == 28
