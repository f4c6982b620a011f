"""The export as CSV: a row for each number, and no cell is a formula."""

import csv
import io

import pytest
from factories import NODEID, comparison, record, skipped, speedup
from hypothesis import example, given, settings
from strategies import FORMULAS, HOSTILE

from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.model.record import Record

COLUMNS = "test status reason metric device emulated unit value low high at_least at_most baseline outcome"
FULL = """\
cpu_time           EPYC s      0.02               2.0 regressed
gpu_time           H200 s      0.00175            2.0 regressed
cpu_first_call     EPYC s      0.5
gpu_first_call     H200 s      0.5
speedup            H200 x      10.0 9.0 11.0 3 9  2.0 regressed
with_copies        H200 x      2.0 1.5 3.0        2.0 regressed
with_one_transfer  H200 x      4.0 3.5 5.0
latency            H200 x      6.0 5.5 7.0        2.0 regressed
copies             H200 s      0.002
copied             H200 bytes  16
break_even         H200 calls  2.0 1.5 3.0
memory             H200 bytes  4096 8192          2.0 regressed
scaling_speedup    H200 x      3.4 3.2 3.6 3 9
efficiency         H200 ratio  0.85 0.8 0.9 0.8   2.0 regressed
karp_flatt         H200 ratio  0.06 0.04 0.08
"""


@pytest.fixture(scope="module")
def rows(written):
    """Return what a reader of CSV makes of our file."""

    def call(*records: Record) -> list[dict[str, str]]:
        file = io.StringIO(written("csv", *records), newline="")
        return list(csv.DictReader(file, strict=True))

    return call


def test_csv_has_a_row_for_each_number(rows, full):
    found = rows(full)
    assert COLUMNS.split() == list(found[0])
    assert {(NODEID, "failed", "too slow", "false")} == {
        tuple(row[name] for name in ("test", "status", "reason", "emulated")) for row in found
    }
    shown = ("metric", "device", "unit", "value", "low", "high", "at_least", "at_most", "baseline", "outcome")
    assert [line.split() for line in FULL.splitlines()] == [
        [row[name] for name in shown if row[name]] for row in found
    ]


def test_a_test_without_numbers_has_a_row_and_what_is_not_known_is_empty(rows):
    nothing, *others = rows(skipped("b"), record("c", gpu=None, speedup=speedup(high=None)))
    assert {"test": "b", "status": "skipped"} == {
        name: cell for name, cell in nothing.items() if cell and name != "reason"
    }
    found = {row["metric"]: row for row in others}
    assert ("10.0", "9.0", "", "") == tuple(
        found["speedup"][each] for each in ("value", "low", "high", "device")
    )


def test_what_the_baseline_alone_has_is_a_row(rows):
    lost = comparison("inconclusive", metric="efficiency")
    (found,) = [row for row in rows(record("c", comparisons=(lost,))) if row["metric"] == "efficiency"]
    assert ("", "12.5", "inconclusive") == (found["value"], found["baseline"], found["outcome"])


def test_rows_make_a_table_of_tests_and_metrics(rows):
    """As `pivot(index="test", columns="metric", values="value")` of pandas does: no pair has two rows."""
    found = rows(record("a"), record("b", speedup=speedup(4.0, 3.0, 5.0)))
    table = {(row["test"], row["metric"]): float(row["value"]) for row in found}
    assert len(table) == len(found)
    assert (10.0, 4.0, 0.02) == (table["a", "speedup"], table["b", "speedup"], table["b", "cpu_time"])


def test_csv_has_the_line_ends_of_its_standard(written):
    assert written("csv", skipped("a"), skipped("b")).count("\r\n") == 3


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
