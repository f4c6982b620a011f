"""From a test that is measured to a line below pytest's in a terminal, written between its rounds."""

import os
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter
from typing import Any

import pytest

from pytest_gpuperf.model.nodeid import name_of
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.report.words.names import beginning, shorten
from pytest_gpuperf.timing.trial_context import OnRound

_INTERVAL = 0.5  # seconds before the line is shown and between two changes: most tests end before
# The line is below the one that pytest has begun and the cursor returns there, so that whoever writes next
# writes in the right place. ESC D makes the row, by scrolling where the cursor is in the last one, and
# afterwards the saved position holds. Without automatic wrapping the line stays one whatever its width is.
_SHOW = "\x1bD\x1b[A\x1b7\r\n\x1b[K\x1b[?7l{}\x1b[?7h\x1b8"
_ERASE = "\x1b[J"
_SHORTEST = 10  # columns: a name that is cut shorter says nothing


WAITS = "waits for another process that measures"


class LiveLine:
    """Shows which test is measured, and how long that may still take; `begin` and `erase` enclose each.

    While a test runs, file descriptor 1 is a file of pytest's, and what the reporter writes is captured, too:
    so this writes to a duplicate. Errors of the terminal are ignored: they are no reason to stop measuring.
    """

    def __init__(self, reporter: Any, clock: Callable[[], float] = perf_counter) -> None:
        self._writer = reporter._tw  # noqa: SLF001 - plugins have no other way
        self._terminal = os.dup(self._writer._file.fileno())  # noqa: SLF001 - as above
        weakref.finalize(self, os.close, self._terminal)
        self._clock = clock
        self._is_shown = False

    def begin(self, nodeid: str) -> OnRound:
        """Return what the measurement of a test calls between its rounds."""
        changed = self._clock()

        def show(remaining: float) -> None:
            nonlocal changed
            if self._clock() - changed >= _INTERVAL:
                changed = self._clock()
                self._show(nodeid, f"is measured, at most {max(0.0, remaining):.0f} s more")

        return show

    def show_wait(self, nodeid: str, words: str = WAITS) -> None:
        """Show in words that the test waits for another process, as it may for minutes."""
        self._show(nodeid, words)

    def erase(self) -> None:
        """Erase the line: the test has been measured."""
        if self._is_shown:
            self._is_shown = False
            self._write(_ERASE)

    def _show(self, nodeid: str, words: str) -> None:
        """Show words on a test, unless pytest's line ends with its row: no cursor returns to there."""
        with suppress(OSError):
            columns, rows = os.get_terminal_size(self._terminal)
            written = self._writer.width_of_current_line
            if rows > 1 and columns and written % columns:
                name = shorten(printable(name_of(nodeid)), max(columns - len(words) - 1, _SHORTEST))
                self._is_shown = True  # before it is written: whoever interrupts that leaves it to be erased
                self._write(_SHOW.format(beginning(f"{name} {words}", columns)))

    def _write(self, text: str) -> None:
        with suppress(OSError):
            os.write(self._terminal, text.encode(self._writer._file.encoding, "replace"))  # noqa: SLF001 - as above


def of_run(config: pytest.Config) -> LiveLine | None:
    """Return the live line of a run; None where nobody watches, or others write where it would be.

    Call this while pytest does not capture. CI is recognised as pytest does. Notebooks run `!pytest` in a
    terminal that they copy into a cell. With `--capture=sys`, child processes and libraries in C are seen.
    """
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    # A subclass, such as pytest-sugar's, has its own idea of the screen. xdist's workers have no reporter.
    if type(reporter) is not pytest.TerminalReporter or config.getoption("verbose") < 0:
        return None
    is_copied = any(os.environ.get(name) for name in ("CI", "BUILD_NUMBER", "JPY_PARENT_PID"))
    if is_copied or os.environ.get("TERM", "dumb") == "dumb" or sys.platform == "win32":
        return None
    logs = config.pluginmanager.has_plugin("logging-plugin") and (
        config.getoption("log_cli_level") is not None or config.getini("log_cli")
    )
    is_terminal = reporter._tw._file.isatty()  # noqa: SLF001 - as above
    return LiveLine(reporter) if is_terminal and not logs and config.getoption("capture") == "fd" else None
