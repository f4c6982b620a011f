"""The export as CSV: rows that make a table, and no cell is a formula."""

import csv
import io

import pytest
from factories import record, skipped, speedup
from hypothesis import example, given, settings
from strategies import FORMULAS, HOSTILE

from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.model.record import Record


@pytest.fixture(scope="module")
def rows(written):
    """Return what a reader of CSV makes of our file."""

    def call(*records: Record) -> list[dict[str, str]]:
        file = io.StringIO(written("csv", *records), newline="")
        return list(csv.DictReader(file, strict=True))

    return call


def test_rows_make_a_table_of_tests_and_metrics(rows, written):
    """As `pivot(index="test", columns="metric", values="value")` of pandas does: no pair has two rows."""
    found = rows(record("a"), record("b", speedup=speedup(4.0, 3.0, 5.0)))
    table = {(row["test"], row["metric"]): float(row["value"]) for row in found}
    assert len(table) == len(found)
    assert (10.0, 4.0, 0.02) == (table["a", "speedup"], table["b", "speedup"], table["b", "cpu_time"])
    assert 3 == written("csv", skipped("a"), skipped("b")).count("\r\n"), "the line ends of its standard"


@settings(deadline=None)
@given(HOSTILE)
@example('"=')
def test_no_cell_of_text_is_a_formula(rows, anything):
    found = rows(skipped(anything, reason=anything))[0]
    for cell in (found["test"], found["reason"]):
        assert not cell.startswith(FORMULAS)
        assert printable(anything).replace("'", "") == cell.replace("'", "")
        assert not any(part.lstrip(' "').startswith(FORMULAS[:4]) for part in cell.split(";"))


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        *((f"'{begin}1+1", f"{begin}1+1") for begin in FORMULAS if begin.isprintable()),
        ("a;'=1+1", "a;=1+1"),
        ("a;' \"-1", 'a; "-1'),
        ("a;;'\uff1d1", "a;;\uff1d1"),
        (r"\t=1", "\t=1"),
    ],
)
def test_text_that_begins_like_a_formula_is_marked_as_text(rows, expected, text):
    assert expected == rows(skipped(text, reason="it"))[0]["test"]
