"""The rows of the table of tests as HTML: where each text stands, and that none of them becomes mark-up."""

from dataclasses import replace
from html import escape

from cases import for_each

from pytest_gpuperf.report.html.details import Listing, Timing
from pytest_gpuperf.report.html.figure import Figure
from pytest_gpuperf.report.html.table import ComparisonRow, Details, Row, body, facts

TRAP = "<b title=\"x\" id='y'>&\x1b"
SHOWN = escape("<b title=\"x\" id='y'>&\\x1b")
FIGURE = Figure(width=9, height=9, finding=None, caption=TRAP)
DETAILS = Details(
    command=TRAP,
    call_time=TRAP,
    comparisons=[ComparisonRow(*[TRAP] * 5)],
    figures=[FIGURE],
    listing=Listing([Timing(TRAP, TRAP, TRAP)], [(TRAP, TRAP)]),
)
ROW = Row(
    place=TRAP,
    name=TRAP,
    parameters=TRAP,
    verdicts=[(TRAP, TRAP)],
    cause=TRAP,
    cells=dict.fromkeys(("CPU", "GPU", "speedup", "limit"), TRAP),
    forest=FIGURE,
    call_time=FIGURE,
    change=TRAP,
    reasons=[TRAP, TRAP],
    details=DETAILS,
)


@for_each(("row", "texts"), [(ROW, 26), (replace(ROW, details=None), 13)])
def test_every_text_of_a_row_stays_text(row, texts):
    written = body(row, has_changes=True)
    assert texts == written.count(SHOWN)
    assert TRAP not in written.replace(SHOWN, "")


def test_a_list_of_facts_stays_text():
    assert f"<dl>\n<dt>{SHOWN}<dd>{SHOWN}\n</dl>" == facts([(TRAP, TRAP)])


def test_a_row_is_as_wide_as_the_table():
    for has_changes, columns in ((False, 8), (True, 9)):
        cells, _, details = body(ROW, has_changes=has_changes).partition("<tr><td colspan=")
        assert columns == cells.count("<td") + cells.count("<th scope=row>")
        assert details.startswith(f"{columns}>")
