"""Live line: between rounds only, at most twice a second, and gone when the test has been measured."""

from itertools import pairwise

import numpy as np
import pytest
from cases import for_each
from factories import speedup
from walks import NODEID, simulated

from pytest_gpuperf.devices.simulated import Clock
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.session import live_line
from pytest_gpuperf.session.live_line import LiveLine
from pytest_gpuperf.timing.trial import Trial


class Bench:
    """A CPU, a GPU and a terminal on one clock; a round takes a third of a second, unless told otherwise.

    `writes` are the times of what was written, `texts`, and `inside` is what was written inside a round.
    """

    def __init__(self, *, cpu=0.3, gpu=0.03, max_time=10.0, demand=Demand(min=10)):  # noqa: B008 - frozen
        self.clock = Clock()
        self.cpu = simulated("cpu", self.clock, kernel=cpu)
        self.gpu = simulated("gpu", self.clock, kernel=gpu)
        self.texts, self.writes, self.inside = [], [], []
        self.line = LiveLine(self, self.clock)
        self.trial = Trial(
            nodeid=NODEID,
            demand=demand,
            options=RunOptions(max_time=max_time),
            on_round=self.line.begin(NODEID, demand),
        )

    columns = 80

    def write(self, text):
        self.texts.append(text)
        self.writes.append(self.clock())
        timers = [*map(self.trial._sampled, self.trial._timers), *filter(None, [self.trial._loop])]
        if any(timer.is_running for timer in timers) or len({len(timer.samples) for timer in timers}) > 1:
            self.inside.append(text)

    def compare(self):
        return self.trial.compare(self.bind, self.cpu, self.gpu)

    def time_cpu(self):
        return self.trial.time_cpu(self.bind, self.cpu, 5.0)

    def bind(self, device):
        def body():
            a = device.asarray(np.ones(4))
            return lambda: a + 1

        return body


@for_each(
    ("measure", "demand"),
    [
        (Bench.compare, Demand(min=10)),  # inconclusive, until there is no more time
        (Bench.compare, Demand(min=10.5)),  # missed, by so little that it is measured once more
        (Bench.compare, Demand(min=9.5, transfer="always")),
        (Bench.compare, Demand(min=10, latency=True)),
        (Bench.time_cpu, Demand()),
    ],
)
def test_nothing_is_written_inside_a_round_or_more_than_twice_a_second(measure, demand):
    bench = Bench(demand=demand)
    measure(bench)
    assert len(bench.writes) >= 3
    assert [] == bench.inside
    assert bench.writes[0] >= 0.5
    assert all(after - before >= 0.5 for before, after in pairwise(bench.writes))


def test_a_measurement_that_is_restarted_says_so_until_its_end():
    bench = Bench()
    after_round = bench.line.begin(NODEID, Demand(min=3))
    for rounds in (1, 2, 1, 2):
        bench.clock.advance(1.0)
        after_round(rounds, speedup)
    assert [False, False, True, True] == ["restarted, " in text for text in bench.texts]
    after_round = bench.line.begin(NODEID, Demand(min=3))
    bench.clock.advance(1.0)
    after_round(1, speedup)
    assert "restarted" not in bench.texts[-1]


def test_a_clear_test_leaves_the_terminal_alone():
    bench = Bench(cpu=1e-3, gpu=1e-4, demand=Demand(min=3))
    assert "passed" == bench.compare().status
    bench.line.erase()
    assert [] == bench.writes


def test_what_is_not_shown_is_not_estimated():
    bench, estimated = Bench(), []

    def estimate():
        estimated.append(bench.clock())
        return speedup()

    after_round = bench.line.begin(NODEID, Demand(min=3))
    for rounds in range(1, 101):
        bench.clock.advance(0.05)
        after_round(rounds, estimate)
    assert bench.writes == estimated
    assert 9 <= len(estimated) <= 10


def test_a_wait_is_shown_at_once_but_not_more_than_twice_a_second():
    bench = Bench()
    for _ in range(20):
        bench.line.show_wait()
        bench.clock.advance(0.05)
    assert ["test_it  waits for another process that measures"] * 2 == [
        text.partition("\x1b[?7l")[2].partition("\x1b")[0] for text in bench.texts
    ]
    assert 0 == bench.writes[0]


def test_a_line_is_erased_once_and_only_where_it_was_shown():
    bench = Bench()
    bench.line.erase()
    bench.line.show_wait()
    bench.line.erase()
    bench.line.erase()
    assert [live_line._ERASE] == bench.texts[1:]


def test_a_line_whose_writing_is_interrupted_is_erased():
    bench = Bench()
    write = bench.write

    def interrupted(text):
        write(text)
        raise KeyboardInterrupt

    bench.write = interrupted
    with pytest.raises(KeyboardInterrupt):
        bench.line.show_wait()
    bench.write = write
    bench.line.erase()
    assert [live_line._ERASE] == bench.texts[1:]


@for_each("columns", [OSError(5, "the terminal is gone"), 0])
def test_where_no_line_can_be_shown_the_test_is_measured_nevertheless(columns):
    class Gone(Bench):
        @property
        def columns(self):
            if isinstance(columns, OSError):
                raise columns
            return columns

    bench = Gone()
    assert "inconclusive" == bench.compare().status
    bench.line.erase()
    assert [] == bench.writes


@pytest.fixture
def screen_of(request):
    """Return a terminal of a size, and the live line on it as pytest's reporter would have it."""
    pytest.importorskip("termios", reason="the system has no such terminals")
    from screen import Screen

    def call(**size):
        screen = Screen(**size)
        request.addfinalizer(screen.close)
        return screen, LiveLine(live_line._ReportersTerminal(screen.reporter()), Clock())

    return call


@for_each(
    ("above", "begun"),
    [
        (0, "test_it.py "),
        (2, "test_it.py ....."),
        (4, "test_it.py ....."),  # in the second row from below
        (5, "test_it.py ....."),  # in the last row: the screen has to scroll
        (3, "test_it.py::test_it[" + 50 * "n" + "] "),  # in two rows
    ],
)
def test_pytest_writes_on_where_it_was(screen_of, above, begun):
    screen, line = screen_of(columns=60, rows=6)
    line._nodeid = f"test_it.py::test_{40 * 'n'}"
    writer = line._terminal._writer
    writer.write("above\n" * above + begun, flush=True)
    rows, cursor = screen.shows()
    line.show_wait()
    name = "test_nnnn…nnnnnnnnn"
    assert ([*rows, f"{name}  waits for another process that measures"], cursor) == screen.shows()
    line.erase()
    assert (rows, cursor) == screen.shows()
    writer.write("PASSED", flush=True)
    assert f"{rows[-1].ljust(cursor[1])}PASSED" == screen.shows()[0][-1]


@for_each(("columns", "letter"), [(60, "日"), (8, "n"), (1, "n")])  # the first takes two columns
def test_a_line_never_takes_two_rows(screen_of, columns, letter):
    screen, line = screen_of(columns=columns, rows=6)
    line._nodeid = f"test_it.py::test_{12 * letter}"
    line.show_wait()
    rows, cursor = screen.shows()
    assert (2, (0, 0)) == (len(rows), cursor)


@for_each(("rows", "begun"), [(6, "test_it.py::test_" + 43 * "n"), (1, "test_it.py ...")])
def test_nothing_is_shown_below_a_row_that_is_full_or_the_only_one(screen_of, rows, begun):
    screen, line = screen_of(columns=60, rows=rows)
    line._terminal._writer.write(begun, flush=True)
    before = screen.shows()
    line.show_wait()
    assert before == screen.shows()
