"""What the charts share: a box with two axes, ticks in words, and lines that are known by their shape."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pytest_gpuperf.model import units
from pytest_gpuperf.report.html.figure import Mark, Place, Style, Word, diamond, dot, square, text_width
from pytest_gpuperf.report.scale import LinearScale, LogScale

WIDTH = 320.0
"""Pixels: whole on a telephone, where a wider figure would be scaled until nobody can read its words."""
SHAPES: dict[Style, Callable[[float, float], str]] = {"cpu": dot, "gpu": diamond, "copies": square}
"""By which a line is known without its colour."""
_SPACE = 4.0
LINE = 12.0
"""Pixels from one line of words to the next, at least."""
_MOST_IN_FULL = 1e9  # larger numbers are written with three digits


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A log axis across and an upright axis in a box, whose upper left corner is at `left` and `top`."""

    left: float
    top: float
    x: LogScale
    y: LogScale | LinearScale

    @property
    def right(self) -> float:
        """The right edge."""
        return self.left + self.x.length

    @property
    def bottom(self) -> float:
        """The lower edge."""
        return self.top + self.y.length

    def place(self, x: float | None, y: float | None) -> Place:
        """Return where two values meet; what lies beyond an axis is on its edge."""
        return self.left + self.x.position(x), self.bottom - self.y.position(y)

    def grid(self, rows: Iterable[float]) -> Mark:
        """Return a line across for each tick of the upright axis, and the edge below."""
        heights = [*(self.place(None, row)[1] for row in rows), self.bottom]
        return Mark("axis", "".join(f"M{self.left:.0f} {y:.0f}H{self.right:.0f}" for y in heights))

    def beside(self, x: float, y: float, text: str, style: Style | None = None) -> Word:
        """Return a word at the side of an upright line where there is more room."""
        if x < self.left + self.x.length / 2:
            return Word(x + 4, y, text, style=style)
        return Word(x - 4, y, text, "end", style)

    def words_below(self, ticks: Iterable[tuple[float, str]]) -> list[Word]:
        """Return words below the box at values of the axis across, without those that would overlap."""
        words = (Word(self.place(value, None)[0], self.bottom + 13, text, "middle") for value, text in ticks)
        return row(words)

    def words_left(self, ticks: Iterable[float], text: Callable[[float], str]) -> list[Word]:
        """Return words at the left of the box at values of the upright axis, without those that overlap."""
        words: list[Word] = []
        for tick in ticks:
            y = self.place(None, tick)[1] + 4
            if not words or words[-1].y - y >= LINE:
                words.append(Word(self.left - 7, y, text(tick), "end"))
        return words


def extent(word: Word) -> tuple[float, float]:
    """Return about where a word begins and ends, from left to right."""
    needed = text_width(word.text)
    begin = word.x - {"start": 0.0, "middle": needed / 2, "end": needed}[word.anchor]
    return begin, begin + needed


def row(words: Iterable[Word]) -> list[Word]:
    """Return the words of one line that fit into the figure, without those that would overlap one before."""
    shown: list[tuple[float, float, Word]] = []
    for word in words:
        begin, end = extent(word)
        needed = end - begin
        begin = max(0.0, min(begin, WIDTH - needed))
        end = begin + needed
        if all(end + _SPACE <= left or right + _SPACE <= begin for left, right, _ in shown):
            shown.append((begin, end, Word(begin + needed / 2, word.y, word.text, "middle", word.style)))
    return [word for _, _, word in shown]


def legend(entries: Sequence[tuple[Style, str]], left: float) -> tuple[list[Mark], list[Word]]:
    """Return the shape and the name of each line, above the plot."""
    marks, words = [], []
    for style, name in entries:
        marks.append(Mark(style, f"M{left:.0f} 8h18"))
        marks.append(Mark(style, SHAPES[style](left + 9, 8), filled=True))
        words.append(Word(left + 23, 12, name))
        left += 23 + text_width(name) + 6
    return marks, words


def time(value: float) -> str:
    """Return a tick in units of time: `1 ms`."""
    number, _, unit = units.seconds(value).partition(" ")
    return f"{float(number):g} {unit}"


def ratio(value: float) -> str:
    """Return a tick that is a ratio: `10x`."""
    return f"{value:g}x"


def number(value: float) -> str:
    """Return a size or a number: `4096`."""
    return f"{value:.0f}" if float(value).is_integer() and abs(value) < _MOST_IN_FULL else f"{value:.3g}"
