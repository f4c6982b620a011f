"""The pictures of the page in README and docs: taken here, of the simulated suite, whose times are synthetic.

With GPUPERF_PICTURES set they are written to docs/pictures/, with an outline of the page that they show. They
are compared with today's page by that outline alone: pixels differ with the fonts of a machine.
"""

import os
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
OUTLINE = PICTURES / "outline.txt"
MOST_BYTES = 150_000
WIDTH = 1100
SHOTS = {"page": (0, 760)}  # from which pixel of the page to which


class Outline(HTMLParser):
    """The headings of a page: of its sections, tables, columns and figures, each once and without numbers."""

    def __init__(self):
        super().__init__()
        self.lines = {}
        self._tag = None

    def handle_starttag(self, tag, attributes):
        if tag in ("h1", "h2", "h3", "caption", "figcaption", "label") or ("scope", "col") in attributes:
            self._tag, self._words = tag, []

    def handle_data(self, data):
        if self._tag:
            self._words.append(data)

    def handle_endtag(self, tag):
        if tag == self._tag:
            words = " ".join("".join(self._words).split())
            self.lines[f"{tag}: {re.sub(r'[0-9][0-9.,]*', 'N', words)}"] = None
            self._tag = None


def outline(path):
    parser = Outline()
    parser.feed(path.read_text(encoding="utf-8"))
    return "".join(f"{line}\n" for line in parser.lines)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pictures_can_be_taken_and_are_small(opened, example, tmp_path, scheme):
    folder = PICTURES if "GPUPERF_PICTURES" in os.environ else tmp_path
    shown = opened(example, width=WIDTH, scheme=scheme)
    for name, (top, bottom) in SHOTS.items():
        path = folder / f"{name}-{scheme}.png"
        clip = {"x": 0, "y": top, "width": WIDTH, "height": bottom - top}
        shown.screenshot(path=path, clip=clip, full_page=True)
        assert path.stat().st_size <= MOST_BYTES


def test_the_pictures_show_the_page_as_it_is(example):
    if "GPUPERF_PICTURES" in os.environ:
        OUTLINE.write_text(outline(example), encoding="utf-8")
    again = "take them anew: GPUPERF_PICTURES=1 pytest tests/browser/test_pictures.py"
    assert OUTLINE.read_text(encoding="utf-8") == outline(example), again
