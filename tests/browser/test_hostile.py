"""What strangers wrote into a report (names, reasons, commits, the environment) stays text on the page."""

import pytest
from hostile import HOSTILE, hostile_run

from pytest_gpuperf.report.html import page


@pytest.fixture(scope="module")
def hostile():
    """Return the page of a run in which strangers chose everything."""
    return page.text(hostile_run())


def test_nothing_that_a_stranger_wrote_runs_or_loads(opened, hostile):
    shown = opened(hostile)
    shown.open_all()
    for each in shown.query_selector_all("summary, .test > tr:first-child > th, figure")[:60]:
        each.hover()
    assert not shown.evaluate("() => 'ran' in window")
    inserted = "img, a:not([href^='#t']), iframe, base, object, embed, link, form form, [onload]"
    assert 0 == shown.locator(inserted).count()
    assert 1 == shown.locator("script").count() == shown.locator("style").count()


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_that_a_stranger_wrote_breaks_the_layout(opened, hostile, width):
    shown = opened(hostile, width=width)
    assert [] == shown.misplaced()
    shown.open_all()
    assert [] == shown.misplaced()


def test_what_a_stranger_wrote_is_shown_as_it_is(opened, hostile):
    said = opened(hostile).text
    kinds = ("script", "attribute", "single quotes", "link", "CDATA", "template", "comment", "entity")
    assert [] == [kind for kind in kinds if HOSTILE[kind] not in said]
    assert r"user\u202eyp.tset\u2066" in said
