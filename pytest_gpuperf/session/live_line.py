"""From the rounds of a test that is measured to one line of the terminal, written between them."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from math import inf
from time import perf_counter
from typing import Any, Protocol

import pytest

from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import Speedup
from pytest_gpuperf.report.text import progress
from pytest_gpuperf.timing.context import OnRound

_QUIET = 0.5  # seconds: most tests end before, and leave the terminal alone
_INTERVAL = 0.5  # seconds between two changes of the line

# The line is below the one that pytest has begun and the cursor returns there, so that whoever writes next
# writes in the right place. ESC D makes the row, by scrolling where the cursor is in the last one, and
# afterwards the saved position holds. Without automatic wrapping the line stays one whatever its width is.
_SHOW = "\x1bD\x1b[A\x1b7\r\n\x1b[K\x1b[?7l{}\x1b[?7h\x1b8"
_ERASE = "\x1b[J"


class Terminal(Protocol):
    """A terminal on which pytest has begun a line."""

    @property
    def columns(self) -> int:
        """How wide it is by now; 0 where no line can be shown."""

    def write(self, text: str) -> None:
        """Write at once."""


class LiveLine:
    """Shows how the test is getting on that is measured; `begin` and `erase` enclose each.

    Any error of the terminal is ignored: it is no reason to stop measuring.
    """

    def __init__(self, terminal: Terminal, clock: Callable[[], float] = perf_counter) -> None:
        self._terminal = terminal
        self._clock = clock
        self._nodeid = ""
        self._demand = Demand()
        self._begun = 0.0
        self._rounds = 0
        self._is_restarted = False
        self._changed = -inf
        self._is_shown = False

    def begin(self, nodeid: str, demand: Demand) -> OnRound:
        """Return what the measurement of a test calls between its rounds."""
        self._nodeid = nodeid
        self._demand = demand
        self._begun = self._clock()
        self._rounds = 0
        self._is_restarted = False
        return self._after_round

    def show_wait(self) -> None:
        """Show that the test waits for another process, as it may for minutes."""
        self._show(partial(progress.waiting, self._nodeid))

    def erase(self) -> None:
        """Erase the line: the test has been measured."""
        if self._is_shown:
            self._is_shown = False
            with suppress(OSError):
                self._terminal.write(_ERASE)

    def _after_round(self, rounds: int, estimate: Callable[[], Speedup | None]) -> None:
        seconds = self._clock() - self._begun
        self._is_restarted = self._is_restarted or rounds <= self._rounds
        self._rounds = rounds
        if seconds >= _QUIET:
            self._show(
                lambda width: progress.measuring(
                    self._nodeid,
                    self._demand,
                    rounds,
                    estimate(),
                    seconds,
                    width,
                    restarted=self._is_restarted,
                )
            )

    def _show(self, text: Callable[[int], str]) -> None:
        """Show what `text` makes for a width, unless the line has just changed."""
        now = self._clock()
        if now - self._changed < _INTERVAL:
            return
        self._changed = now
        with suppress(OSError):
            if columns := self._terminal.columns:
                shown = _SHOW.format(text(columns))
                self._is_shown = True  # before it is written: whoever interrupts that leaves it to be erased
                self._terminal.write(shown)


def of_run(config: pytest.Config) -> LiveLine | None:
    """Return the live line of a run; None where nobody watches, or others write where it would be.

    Call this while pytest does not capture.
    """
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    # A subclass, such as pytest-sugar's, has its own idea of the screen. xdist's workers have no reporter.
    if type(reporter) is not pytest.TerminalReporter or config.getoption("verbose") < 0:
        return None
    if _is_for_files() or _shows_output(config) or not reporter._tw._file.isatty():  # noqa: SLF001 - as below
        return None
    return LiveLine(_ReportersTerminal(reporter))


class _ReportersTerminal:
    """The terminal that pytest's reporter writes to.

    While a test runs, file descriptor 1 is a file of pytest's, and what the reporter writes is captured, too.
    So this writes to a duplicate, made before.
    """

    def __init__(self, reporter: Any) -> None:
        self._writer = reporter._tw  # noqa: SLF001 - plugins have no other way
        self._encoding = self._writer._file.encoding  # noqa: SLF001 - as above
        self._descriptor = os.dup(self._writer._file.fileno())  # noqa: SLF001 - as above

    def __del__(self) -> None:
        os.close(self._descriptor)

    @property
    def columns(self) -> int:
        """How wide the terminal is; 0 where no line can be shown.

        Where pytest's line ends with its row no cursor returns to there, and a single row is pytest's own.
        """
        columns, rows = os.get_terminal_size(self._descriptor)
        written = self._writer.width_of_current_line
        is_full = columns and written and written % columns == 0
        return 0 if is_full or rows == 1 else columns

    def write(self, text: str) -> None:
        """Write at once."""
        os.write(self._descriptor, text.encode(self._encoding, "replace"))


def _is_for_files() -> bool:
    """Return whether the output goes where cursors do not move, though it may look like a terminal.

    CI is recognised as pytest does. Notebooks run `!pytest` in a terminal that they copy into a cell.
    """
    is_copied = any(os.environ.get(name) for name in ("CI", "BUILD_NUMBER", "JPY_PARENT_PID"))
    return is_copied or os.environ.get("TERM", "dumb") == "dumb" or sys.platform == "win32"


def _shows_output(config: pytest.Config) -> bool:
    """Return whether what a test prints or logs is shown as it comes: it would be mixed with the line.

    With `--capture=sys` that is what its child processes and its libraries in C write.
    """
    if config.getoption("capture", "no") != "fd":
        return True
    if not config.pluginmanager.has_plugin("logging-plugin"):
        return False
    return config.getoption("log_cli_level") is not None or bool(config.getini("log_cli"))
