"""SVG that Python writes: what strangers wrote is data in it."""

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.report.html.figure import Figure, Word, svg_document


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_stays_text_in_words_and_findings(text):
    figure = Figure(width=9, height=9, finding=text, words=[Word(1, 1, text)])
    drawn = ElementTree.fromstring(svg_document(figure))
    assert printable(text) == drawn.get("aria-label")
    assert printable(text) == (drawn[-1].text or "")
