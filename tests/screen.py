"""A terminal of the operating system, what is seen on it, and how much room a text takes there."""

import os
import select
import termios
from contextlib import suppress

import pyte
from wcwidth import wcswidth  # which pyte brings


def columns(text) -> int:
    """Return how many columns a terminal gives to a text."""
    return wcswidth(text)


class Screen:
    """A terminal of this size; `file` is its other end, to write to, and `written` what was read of that."""

    def __init__(self, *, columns=60, rows=6):
        self._master, writing = os.openpty()
        termios.tcsetwinsize(writing, (rows, columns))
        self.file = os.fdopen(writing, "w", encoding="utf-8")
        self.written = b""
        self._size = (columns, rows)

    def close(self):
        """Give both ends back."""
        self.file.close()
        os.close(self._master)

    def read(self):
        """Read what can be read."""
        while select.select([self._master], [], [], 0)[0]:
            self.written += os.read(self._master, 1 << 16)

    def read_to_the_end(self):
        """Read until nobody can write any more, which Linux says by an error."""
        self.file.close()
        with suppress(OSError):
            while True:
                self.written += os.read(self._master, 1 << 16)

    def shows(self, written=None):
        """Return its rows, with those that have scrolled away, and the row and column of the cursor."""
        if written is None:
            self.read()
            written = self.written
        screen = pyte.HistoryScreen(*self._size, history=1000)
        pyte.ByteStream(screen).feed(written)
        columns = range(screen.columns)
        above = ["".join(row[column].data for column in columns) for row in screen.history.top]
        rows = "\n".join(row.rstrip() for row in [*above, *screen.display]).rstrip().split("\n")
        return rows, (len(above) + screen.cursor.y, screen.cursor.x)
