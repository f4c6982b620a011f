"""SVG that Python writes: what strangers wrote is data in it."""

import sys
from html import escape

from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.report.html.figure import escaped


def test_each_letter_that_html_or_a_terminal_could_take_for_its_own_is_escaped():
    for letter in map(chr, (*range(0x3000), 0xD800, 0xFEFF, sys.maxunicode)):
        for text in (letter, f"speedup{letter}", f"{letter} 3x"):
            assert escaped(text) == escape(printable(text))
