"""Live line: a row below pytest's, at most twice a second, and gone when the test has been measured."""

from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from cases import for_each

from pytest_gpuperf.devices.simulated import Clock
from pytest_gpuperf.session.live_line import LiveLine

pytest.importorskip("termios", reason="the system has no such terminals")


@pytest.fixture
def bench(request):
    """Return a live line on a terminal of this size, on which pytest has begun a line."""
    from screen import Screen

    def call(*, begun="test_it.py ..", above=0, columns=60, rows=6):
        clock, screen = Clock(), Screen(columns=columns, rows=rows)
        request.addfinalizer(screen.close)
        reporter = screen.reporter()
        reporter._tw.write("above\n" * above + begun, flush=True)
        line, begun = LiveLine(reporter, clock), screen.shows()
        return SimpleNamespace(line=line, clock=clock, screen=screen, pytest=reporter._tw, begun=begun)

    return call


def words(on) -> str:
    """Return what is shown below the line that pytest has begun."""
    (before, cursor), (rows, now) = on.begun, on.screen.shows()
    assert (cursor, before) == (now, rows[: len(before)])
    return "".join(rows[len(before) :])


def test_the_line_says_which_test_is_measured_and_how_long_that_may_take_twice_a_second(bench):
    on = bench()
    after_round, shown = on.line.begin("a.py::test_fft[64]"), []
    for tenths in range(1, 21):
        on.clock.advance(0.1)
        after_round(2.3 - tenths / 5)
        shown.append(words(on).removeprefix("test_fft[64] is measured, at most "))
    assert 4 == shown.count(""), "most tests end before"
    assert ["", "1 s more", "0 s more"] == list(dict.fromkeys(shown))
    assert 3 <= on.screen.written.count(b"\x1b7") <= 4


@for_each("above", [0, 4, 5])  # in the last row the screen has to scroll
@for_each("begun", ["test_it.py ..", "test_it.py::test_it[" + 50 * "n" + "] "])  # in two rows
def test_pytest_writes_on_where_it_was(bench, above, begun):
    on = bench(above=above, begun=begun)
    on.line.show_wait("a.py::test_it")
    assert words(on) == "test_it waits for another process that measures"
    on.line.erase()
    assert on.begun == on.screen.shows()
    on.pytest.write("PASSED", flush=True)
    assert f"{begun}PASSED"[-12:] == on.screen.shows()[0][-1][-12:]


@for_each(
    ("expected", "name", "columns"),
    [
        ("test_nnn~nnnnnnn waits for another process that measures", "test_" + 40 * "n", 56),
        ("test_日~日日日 waits for another process that measures", "test_" + 40 * "日", 55),  # of two columns
        ("test~_it waits for a", "test_of_it", 20),
        (r"\x1b[2J waits for another process that measures", "\x1b[2J", 60),
    ],
)
def test_a_line_is_as_wide_as_the_terminal_which_no_name_steers(bench, expected, name, columns):
    on = bench(columns=columns)
    on.line.show_wait(f"a.py::{name}")
    assert expected == words(on)


@for_each(("rows", "begun"), [(6, "n" * 60), (1, "test_it.py ..")])
def test_nothing_is_shown_below_a_row_that_is_full_or_the_only_one(bench, rows, begun):
    on = bench(begun=begun, rows=rows)
    on.line.show_wait("a.py::test_it")
    assert on.begun == on.screen.shows()


def test_a_terminal_that_is_gone_stops_no_measurement(bench, monkeypatch):
    on = bench()
    for name in ("write", "get_terminal_size"):
        monkeypatch.setattr(f"os.{name}", Mock(side_effect=OSError))
        on.line.show_wait("a.py::test_it")
        on.line.erase()
