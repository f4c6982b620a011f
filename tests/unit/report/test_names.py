"""Names in columns of a terminal: letters of East Asia take two, marks over a letter none."""

from cases import for_each
from factories import NODEID
from hypothesis import given
from hypothesis import strategies as st
from strategies import HOSTILE

from pytest_gpuperf.report.names import beginning, columns, distinct, end
from pytest_gpuperf.report.text import table
from pytest_gpuperf.report.text.table import Row

JAPANESE = "test_行列の積"  # five letters of one column, four of two
ACCENTED = "re\N{COMBINING ACUTE ACCENT}sume\N{COMBINING ACUTE ACCENT}"


@for_each(
    ("expected", "text"),
    [
        (0, ""),
        (4, "test"),
        (13, JAPANESE),
        (6, ACCENTED),
        (1, "é"),
        (2, "\N{FULLWIDTH LATIN CAPITAL LETTER A}"),
        (1, "…"),
    ],
)
def test_a_letter_takes_as_many_columns_as_terminals_give_it(expected, text):
    assert expected == columns(text)


@for_each(
    ("first", "last", "text", "most"),
    [
        ("", "", JAPANESE, 0),
        ("t", "", JAPANESE, 1),
        ("test", "の積", JAPANESE, 4),
        ("test_", "の積", JAPANESE, 5),
        ("test_", "列の積", JAPANESE, 6),
        (ACCENTED[:3], ACCENTED[-3:], ACCENTED, 2),  # a mark stays with its letter
        (ACCENTED, ACCENTED, ACCENTED, 6),
    ],
)
def test_a_text_is_cut_between_letters(first, last, text, most):
    assert (first, last) == (beginning(text, most), end(text, most))


def test_cells_stand_below_each_other_beside_names_of_any_letters():
    rows = [Row(name, {"CPU": "1 ms", "verdict": "passed"}) for name in ("x", JAPANESE, ACCENTED)]
    _, *lines = table.lines(rows, ("CPU", "verdict"), 60, ())
    assert {13 + len("  1 ms  ")} == {columns(line.text) for line in lines}


def test_a_long_name_is_folded_where_the_terminal_ends():
    lines = list(table.folded(JAPANESE * 9, 60))
    assert JAPANESE * 9 == "".join(line.strip() for line in lines)
    assert all(59 <= columns(line) <= 60 for line in lines[:-1])


@given(st.lists(HOSTILE, unique=True), st.sampled_from([None, 40]))
def test_names_stay_different_and_short(names, longest):
    found = [distinct(name, longest) for name in names]
    assert len(set(found)) == len(names)
    assert all(found)
    assert all(longest is None or len(name.encode()) <= longest for name in found)
    assert distinct(NODEID, 1024) == NODEID, "a name that needs no change stays"
