"""The pictures of the page in README and docs: taken here, of the simulated suite, whose times are synthetic.

With GPUPERF_PICTURES set they are written to docs/pictures/, with an outline of the page that they show. They
are compared with today's page by that outline alone: pixels differ with the fonts of a machine.
"""

import os
from pathlib import Path

import pytest

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
OUTLINE = PICTURES / "outline.txt"
WIDTH = 1280
PAGE = "page"
SHOTS = {  # what is shown, and at most how wide and high
    PAGE: ("body", WIDTH, 840),
    "details": ("#table > .test:has(:text-is('test_sosfilt'))", WIDTH, 600),
    "history": ("section[aria-labelledby=history]", WIDTH, 480),
    "scaling": ("section[aria-labelledby=scaling]", WIDTH, 420),
    "thresholds": ("section[aria-labelledby=thresholds]", 480, 400),
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pictures_can_be_taken(opened, example, tmp_path, scheme):
    folder = PICTURES if "GPUPERF_PICTURES" in os.environ else tmp_path
    shown = opened(example, width=WIDTH, scheme=scheme)
    shown.lay_out()
    for name, (selector, widest, highest) in SHOTS.items():
        if scheme == "dark" and name != PAGE:  # of README, where GitHub takes the one of its reader's scheme
            continue
        part = shown.locator(selector)
        if name == "details":
            part.locator("summary").first.click()
            shown.evaluate("scrollTo(0, 0)")
        x, y, width, height = part.bounding_box().values()
        clip = {"x": x, "y": y, "width": min(width, widest), "height": min(height, highest)}
        shown.screenshot(path=folder / f"{name}-{scheme}.png", clip=clip, full_page=True)


def test_the_pictures_show_the_page_as_it_is(opened, example):
    """Compare the headings of sections, tables, columns and fields, each once and without numbers."""
    headings = opened(example, scripts=False).eval_on_selector_all(
        "h1, h2, h3, caption, label, th[scope=col]",
        "all => all.map(each => [each.localName, each.textContent.replace(/[0-9][0-9.,]*/g, 'N')])",
    )
    outline = "".join(dict.fromkeys(f"{tag}: {' '.join(words.split())}\n" for tag, words in headings))
    if "GPUPERF_PICTURES" in os.environ:
        OUTLINE.write_text(outline, encoding="utf-8")
    again = "take them anew: GPUPERF_PICTURES=1 pytest tests/browser/test_pictures.py"
    assert OUTLINE.read_text(encoding="utf-8") == outline, again
