"""The export as CSV: a column for each number, and no cell is a formula."""

import csv
import io

import pytest
from cases import for_each
from factories import NODEID, record, run_of, skipped, speedup
from hypothesis import example, given, settings
from strategies import FORMULAS, HOSTILE

from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.report import exports


@pytest.fixture(scope="module")
def rows():
    """Return what a reader of CSV makes of our file."""

    def call(*records: Record) -> list[dict[str, str]]:
        file = io.StringIO(exports.text("csv", run_of(*records)), newline="")
        return list(csv.DictReader(file, strict=True))

    return call


def test_csv_has_a_column_for_each_number(rows, full):
    (found,) = rows(full)
    assert [] == [name for name, cell in found.items() if cell == ""]
    expected = {
        "test": NODEID,
        "status": "failed",
        "reason": "too slow",
        "gpu_emulated": "false",
        "cpu_median_s": "0.02",
        "gpu_median_s": "0.00175",
        "speedup_x": "10.0",
        "speedup_low_x": "9.0",
        "speedup_high_x": "11.0",
        "required_min_x": "3",
        "with_copies_x": "2.0",
        "by_latency_high_x": "7.0",
        "transfer_bytes": "16",
        "worth": "false",
        "break_even_low_calls": "1.5",
        "memory_peak_bytes": "4096",
        "scaling_mode": "strong",
        "scaling_devices": "4",
        "scaling_speedup_x": "3.4",
        "efficiency_ratio": "0.85",
        "efficiency_low_ratio": "0.8",
        "required_efficiency_ratio": "0.8",
        "karp_flatt_high_ratio": "0.08",
        "efficiency_baseline_ratio": "2.0",
        "speedup_baseline_x": "2.0",
        "gpu_time_baseline_s": "2.0",
        "speedup_change_percent": "-25.0",
        "speedup_change_low_percent": "-50.0",
        "speedup_change_high_percent": "25.0",
        "cpu_time_outcome": "regressed",
    }
    assert expected == {name: found[name] for name in expected}


def test_csv_has_the_same_columns_and_a_row_for_every_test(rows, full):
    found = rows(full, skipped("b"), record("c", speedup=speedup(high=None)))
    assert ["failed", "skipped", "passed"] == [row["status"] for row in found]
    assert found[1]["speedup_x"] == found[2]["speedup_high_x"] == ""
    assert list(found[0]) == list(rows(skipped("b"))[0])


def test_csv_has_the_line_ends_of_its_standard():
    assert exports.text("csv", run_of(record())).count("\r\n") == 2


@settings(deadline=None)
@given(HOSTILE)
@example('"=')
def test_no_cell_of_text_is_a_formula(rows, anything):
    (found,) = rows(record(anything, reason=anything))
    for cell in (found["test"], found["reason"]):
        assert not cell.startswith(
            ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
        )
        assert printable(anything).replace("'", "") == cell.replace("'", "")
        assert not any(part.lstrip(' "').startswith(FORMULAS[:4]) for part in cell.split(";"))


@pytest.mark.parametrize("text", ["a;=1+1", 'a; "-1', "a;;\uff1d1"])
def test_no_part_of_a_text_is_a_formula_where_a_semicolon_begins_a_cell(rows, text):
    (found,) = rows(record(text, reason=text))
    assert (
        found["test"] == found["reason"] == text[: text.rindex(";") + 1] + "'" + text[text.rindex(";") + 1 :]
    )


@for_each("begin", FORMULAS)
def test_text_that_begins_like_a_formula_is_marked_as_text(rows, begin):
    (found,) = rows(record(f"{begin}1+1"))
    assert found["test"][0] in ("'", "\\")


def test_a_negative_number_is_no_formula(rows, full):
    assert rows(full)[0]["speedup_change_percent"] == "-25.0"
