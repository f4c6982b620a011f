"""The pictures of README and docs: those that are shown are there, small, and said to be synthetic."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
MOST_BYTES = 150_000
TEXTS = {
    path: path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
}


def shown_in(path, text):
    """Return the pictures of a text: of Markdown, and of HTML for GitHub's two schemes."""
    found = re.findall(r"!\[[^\]]+\]\(([^)]+)\)|<(?:img|source)[^>]* src(?:set)?=\"([^\"]+)\"", text)
    return {(path.parent / (first or second)).resolve() for first, second in found if "://" not in first}


def test_every_picture_that_is_shown_is_there_and_every_one_that_is_there_is_shown():
    shown = set().union(*(shown_in(path, text) for path, text in TEXTS.items()))
    assert shown == {*PICTURES.glob("*.png"), *PICTURES.glob("*.svg")} != set()


def test_no_picture_is_large():
    assert [] == [path.name for path in PICTURES.glob("*.png") if path.stat().st_size > MOST_BYTES]


def test_readers_are_told_that_the_times_are_synthetic():
    with_pictures = {path: text for path, text in TEXTS.items() if shown_in(path, text)}
    assert [] == [path.name for path, text in with_pictures.items() if "synthetic" not in text]
