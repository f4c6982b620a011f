"""The page of a report as its readers meet it: on screens and paper, by keyboard and by screen reader."""

import re

import factories
from cases import for_each

from pytest_gpuperf.report.html import page

WIDTHS = (360, 768, 1200, 1280, 1600)
SCHEMES = ("light", "dark")
VISIBLE = "#table > tbody:not([hidden])"
LUMINANCE = """
([selector, property]) => {
    const canvas = new OffscreenCanvas(1, 1).getContext("2d");
    canvas.fillStyle = getComputedStyle(document.querySelector(selector))[property];
    canvas.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
    return alpha ? (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255 : 1;
}
"""


def focus(shown, selector):
    """Go by the Tab key alone to an element."""
    for _ in range(100):
        shown.keyboard.press("Tab")
        if shown.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"Tab leads to no {selector}")


def column(shown, heading):
    """Return what a column of the table of tests has in the rows that are shown."""
    headings = [words.strip(" ↑↓") for words in shown.locator("#table > thead th").all_text_contents()]
    cells = shown.locator(f"{VISIBLE} > tr:first-child > :nth-child({headings.index(heading) + 1})")
    return [words.strip() for words in cells.all_text_contents()]


def words(shown):
    """Return what a reader sees, without its spaces."""
    return "".join(shown.inner_text("main").split())


def names(shown):
    return column(shown, "test")


def number(words):
    """Return a time in seconds, or a ratio; None where nothing was measured."""
    found = re.match(r"([\d.]+)(?: (ns|us|ms|s)\b)?", words)
    return found and float(found[1]) * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3}.get(found[2], 1)


@for_each(("width", "scheme"), [(1280, "light"), (1280, "dark"), (360, "dark")])
def test_axe_finds_nothing_against_wcag_a_and_aa(opened, example, width, scheme):
    from axe_playwright_python.sync_playwright import Axe

    shown = opened(example, width=width, scheme=scheme)
    shown.open_all()
    rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
    found = Axe().run(shown.view, options={"runOnly": rules, "resultTypes": ["violations"]})
    assert 0 == found.violations_count, found.generate_report()


@for_each("width", WIDTHS)
def test_no_text_is_cut_or_lies_over_another_at_any_width(opened, example, width):
    shown = opened(example, width=width)
    assert [] == shown.misplaced()
    shown.open_all()
    assert [] == shown.misplaced()


def test_the_filter_leaves_the_tests_of_a_name_by_keyboard_alone(opened, example):
    shown = opened(example)
    everything = names(shown)
    focus(shown, "#filter")
    shown.keyboard.type("FFT 4096")
    assert [name for name in everything if "fft" in name and "4096" in name] == names(shown) != []
    assert f"{len(names(shown))} of {len(everything)} tests" in shown.text
    shown.keyboard.press("Control+A")
    shown.keyboard.press("Delete")
    assert everything == names(shown)


def test_a_verdict_is_chosen_by_keyboard_alone(opened, example):
    shown = opened(example)
    focus(shown, "#verdict")
    shown.keyboard.type("fail")
    verdicts = [words.split() for words in column(shown, "verdict")]
    assert len(verdicts) > 1
    assert all("failed" in words and "(expected)" not in words for words in verdicts)


def test_a_verdict_is_chosen_whatever_its_causes(opened):
    failed = {"status": "failed", "reason": "it failed"}
    records = [
        factories.record("a.py::test_a"),
        factories.record("a.py::test_b", **failed),
        factories.record("a.py::test_c", **failed, reason_code="devices_disagree"),
    ]
    shown = opened(page.text(factories.run_of(*records)))
    shown.select_option("#verdict", "failed")
    assert {"failed", "failed results differ"} == set(column(shown, "verdict"))


@for_each("key", ["CPU", "GPU", "speedup"])
def test_a_heading_sorts_both_ways_by_keyboard_alone(opened, example, key):
    shown = opened(example)
    first = names(shown)
    heading = f"th[data-key={key}]"
    focus(shown, f"{heading} button")
    found = []
    for direction in ("ascending", "descending"):
        shown.keyboard.press("Enter")
        assert direction == shown.get_attribute(heading, "aria-sort")
        assert shown.evaluate("selector => document.activeElement.matches(selector)", f"{heading} button")
        values = [number(words) for words in column(shown, key)]
        measured = [value for value in values if value is not None]
        assert len(measured) > 5
        assert [None] * (len(values) - len(measured)) == values[len(measured) :]  # the others come last
        found.append(measured)
    assert sorted(found[0]) == found[0]
    assert sorted(found[0], reverse=True) == found[1]
    focus(shown, "th[data-key=order] button")
    shown.keyboard.press("Enter")
    assert first == names(shown)


def test_a_test_opens_to_its_record_by_keyboard_alone(opened, example):
    shown = opened(example)
    focus(shown, "#table summary")
    shown.keyboard.press("Enter")
    details = "document.activeElement.closest('details')"
    assert shown.evaluate(f"{details}.open")
    assert "block calls" in shown.evaluate(f"{details}.innerText")


@for_each(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 360)])
def test_the_focus_is_seen_wherever_it_goes(opened, example, scheme, width):
    shown = opened(example, scheme=scheme, width=width)
    seen = set()
    for _ in range(15):
        shown.keyboard.press("Tab")
        name, style, line, box = shown.evaluate(
            """() => {
                const {outlineStyle, outlineWidth} = getComputedStyle(document.activeElement);
                const {x, y, width, height} = document.activeElement.getBoundingClientRect();
                const at = document.elementFromPoint(x + width / 2, y + Math.min(height, 100) / 2);
                const seen = document.activeElement.contains(at);
                return [document.activeElement.outerHTML, outlineStyle, parseFloat(outlineWidth), seen];
            }"""
        )
        assert ("solid", True, True) == (style, line >= 2, box), name
        seen.add(re.match(r"<(\w+)", name)[1])
    assert {"input", "select", "button", "summary"} <= seen


@for_each(("scheme", "is_light"), [("light", True), ("dark", False)])
def test_the_page_follows_the_scheme_of_its_reader(opened, example, scheme, is_light):
    shown = opened(example, scheme=scheme)
    back, front = (shown.evaluate(LUMINANCE, ["body", name]) for name in ("backgroundColor", "color"))
    assert is_light == (back > 0.5) == (front < 0.5)


def test_forced_colours_leave_every_verdict_in_words(opened, example, measured):
    shown = opened(example, forced_colors="active")
    shown.lay_out()
    words = shown.locator(f"{VISIBLE} > tr:first-child > td:first-child").all_inner_texts()
    assert len(names(shown)) == len(words)
    assert [] == [word for word in words if not re.search(r"[a-z]{5,}", word)]
    assert [] == shown.misplaced()


@for_each("scheme", SCHEMES)
def test_paper_has_all_of_it_on_white(opened, example, measured, scheme):
    shown = opened(example, width=700, scheme=scheme)
    shown.emulate_media(media="print", color_scheme=scheme)
    assert shown.evaluate(LUMINANCE, ["body", "backgroundColor"]) > 0.95
    assert shown.evaluate(LUMINANCE, ["body", "color"]) < 0.2
    assert [] == shown.misplaced()
    # checkVisibility() is false within details that are closed on paper, too.
    values = shown.eval_on_selector_all("tbody details td", "all => all.map(each => each.checkVisibility())")
    assert len(values) > 100
    assert all(values)
    failed = [record.reason for record in measured[0].records if record.status == "failed"]
    assert failed
    assert [] == [reason for reason in failed if reason not in shown.text]
    assert shown.pdf().startswith(b"%PDF")


def test_each_figure_says_its_finding(opened, example):
    shown = opened(example)
    roles = "all => all.map(each => [each.getAttribute('role'), each.ariaLabel])"
    figures = shown.eval_on_selector_all("svg:not([aria-hidden])", roles)
    assert len(figures) > 20
    assert all(role == "img" and re.search(r"\w+ .*\d", label) for role, label in figures)
    # The only ones without a label show what their own row of the table, or the word beside them, says.
    inside = "#table > tbody > tr:first-child svg, caption svg"
    assert 0 == shown.locator(f"svg[aria-hidden]:not({inside})").count()


def test_each_heading_of_a_table_says_what_it_heads(opened, example):
    shown = opened(example)
    scopes = shown.evaluate("() => [...document.querySelectorAll('th')].map(each => each.scope)")
    assert {"row", "col"} == set(scopes)


def test_without_scripts_all_of_it_is_there(opened, example):
    said = []
    for scripts in (True, False):
        shown = opened(example, scripts=scripts)
        shown.open_all()
        said.append(words(shown))
    controls = said[0].removeprefix(said[1][: len("Tests")]).partition("Timepercall")[0]
    assert said[0].replace(controls, "", 1) == said[1]
    assert "of22tests" in controls
    assert not shown.is_visible("#controls")


JENKINS = "sandbox; default-src 'none'; img-src 'self'; style-src 'self'"  # of files that a build has left
MARKS = """
() => [...document.querySelectorAll("svg path")].map(each => {
    const {width, height} = each.getBoundingClientRect();
    const style = getComputedStyle(each);
    return Math.max(width, height) > 0.5 && (style.fill !== "none" || style.stroke !== "none");
})
"""


def test_without_scripts_and_styles_all_words_and_marks_are_there(opened, example, serve):
    whole = opened(example, scripts=False)
    with serve(example.parent, Content_Security_Policy=JENKINS) as address:
        bare = opened(f"{address}/{example.name}", complains=True)
        styles = "() => getComputedStyle(document.querySelector('h1')).fontSize"
        assert bare.evaluate(styles) != whole.evaluate(styles)
        assert any("Content Security Policy" in complaint for complaint in bare.complaints)
        for shown in (whole, bare):
            shown.open_all()
        assert words(whole) == words(bare)
        marks = bare.evaluate(MARKS)
        assert len(marks) > 50
        assert all(marks)


def test_a_run_that_measured_nothing_has_a_page(opened):
    shown = opened(page.text(factories.run_of()))
    assert "no test was measured" in shown.text
    assert [] == shown.misplaced()


def test_ten_thousand_tests_open_and_are_filtered(opened):
    run = factories.run_of(*(factories.record(f"test_{n // 100}.py::test_it[{n}]") for n in range(10_000)))
    shown = opened(page.text(run))
    shown.fill("#filter", "test_7.py")
    assert [f"test_7.py::test_it[{n}]" for n in range(700, 800)] == names(shown)
