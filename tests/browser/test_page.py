"""The page of a report as its readers meet it: on screens and paper, by keyboard and by screen reader."""

import re

import factories
import pytest
from cases import for_each

from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.report.html import page

VISIBLE = "#table > .test:not([hidden])"
LUMINANCE = """
([selector, property]) => {
    const canvas = new OffscreenCanvas(1, 1).getContext("2d");
    canvas.fillStyle = getComputedStyle(document.querySelector(selector))[property];
    canvas.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
    return alpha ? (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255 : 1;
}
"""
HEIGHTS = "all => all.map(each => each.getBoundingClientRect().height)"


def focus(shown, selector):
    """Go by the Tab key alone to an element."""
    for _ in range(100):
        shown.keyboard.press("Tab")
        if shown.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"Tab leads to no {selector}")


def cells(shown, selector):
    """Return what the rows that are shown have in a column."""
    found = shown.locator(f"{VISIBLE} > tr:first-child > {selector}")
    return [" ".join(words.split()) for words in found.all_text_contents()]


def names(shown):
    return cells(shown, "th")


def words(shown):
    """Return what a reader sees, without its spaces."""
    return "".join(shown.inner_text("main").split())


def number(words):
    """Return a time in seconds, or a ratio; None where nothing was measured."""
    found = re.match(r"([\d.]+)(?: (ns|us|ms|s)\b)?", words)
    return found and float(found[1]) * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3}.get(found[2], 1)


def suite_of(count):
    """Return a run of so many tests, of which every twentieth failed, compared with a baseline."""
    samples = [1e-3 * (1 + number / 1e3) for number in range(30)]
    timed = factories.measurement(factories.GPU, *samples)
    slow = {"status": "failed", "reason": "too slow", "reason_code": "speedup_outside_limits"}
    records = [
        factories.record(
            f"tests/test_{n // 50}.py::test_fft[{n}-float32]",
            cpu=timed,
            gpu=timed,
            comparisons=(factories.comparison("not_regressed"),),
            **(slow | {"demand": Demand(min=20 + n)} if n % 20 == 0 else {}),
        )
        for n in range(count)
    ]
    return factories.run_of(*records, gate=factories.gate_result(started="2026-01-01T00:00:00+00:00"))


@pytest.fixture(scope="module")
def many():
    """Return the page of 500 tests."""
    return page.text(suite_of(500))


@for_each(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "dark")])
def test_axe_finds_nothing_against_wcag_a_and_aa(opened, example, width, scheme):
    from axe_playwright_python.sync_playwright import Axe

    shown = opened(example, width=width, scheme=scheme)
    shown.open_all()
    rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
    found = Axe().run(shown.view, options={"runOnly": rules, "resultTypes": ["violations"]})
    assert 0 == found.violations_count, found.generate_report()


@for_each("width", [360, 390, 768, 1280, 1600])
def test_no_text_is_cut_or_lies_over_another_and_nothing_is_wider_than_the_window(opened, example, width):
    shown = opened(example, width=width)
    assert [] == shown.misplaced()
    shown.open_all()
    assert [] == shown.misplaced()


def test_five_hundred_tests_with_a_baseline_have_a_line_each(opened, many):
    shown = opened(many)
    shown.lay_out()
    assert 500 == len(names(shown))
    assert shown.evaluate("document.documentElement.scrollHeight") <= 20_000
    assert shown.evaluate("document.documentElement.scrollWidth") <= 1280
    assert 36 >= max(shown.eval_on_selector_all(VISIBLE, HEIGHTS)) >= 28
    failed = [f"tests/test_{n // 50}.py::test_fft[{n}-float32]" for n in range(480, -1, -20)]
    assert failed == names(shown)[: len(failed)]  # the farthest from its limit first
    assert len(failed) == shown.locator(".test .file:visible").count()  # others have it in their group's head


def test_the_heads_of_the_columns_and_of_the_file_stay_in_sight(opened, many):
    shown = opened(many)
    shown.evaluate("document.querySelectorAll('.test')[200].scrollIntoView({block: 'center'})")
    tops = "all => all.map(each => each.getBoundingClientRect()).map(({top, bottom}) => [top, bottom])"
    ((head, below),) = shown.eval_on_selector_all("#table > thead", tops)
    groups = [top for top, _ in shown.eval_on_selector_all("#table > .group", tops)]
    plots = shown.eval_on_selector_all(
        "#table .plot svg", "all => all.map(each => each.getBoundingClientRect().x)"
    )
    assert 1 == len(set(plots))  # the axis lies above all rows
    assert 0 == head
    assert pytest.approx(below, abs=1.5) in groups


def test_the_filter_leaves_the_tests_of_a_name_or_a_verdict_by_keyboard_alone(opened, example):
    shown = opened(example)
    everything = names(shown)
    focus(shown, "#filter")
    shown.keyboard.type("FFT 4096")
    assert [name for name in everything if "fft" in name and "4096" in name] == names(shown) != []
    assert f"{len(names(shown))} of {len(everything)} tests" in shown.text
    assert 1 == shown.locator("#table > .group:not([hidden])").count()
    shown.keyboard.press("Control+A")
    shown.keyboard.press("Delete")
    assert everything == names(shown)
    focus(shown, "#verdict")
    shown.keyboard.type("failed")
    assert ["failed"] * 2 == cells(shown, "td:first-child")


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
        values = [number(words) for words in cells(shown, f".{key}")]
        measured = [value for value in values if value is not None]
        assert len(measured) > 5
        assert [None] * (len(values) - len(measured)) == values[len(measured) :]  # the others come last
        found.append(measured)
    assert sorted(found[0]) == found[0] == found[1][::-1]
    assert not shown.is_visible(".group")
    shown.click("th[data-key=''] button")
    assert first == names(shown)


def test_what_went_wrong_is_one_choice_of_the_filter(opened):
    records = [
        factories.record("a.py::test_slow", status="failed", reason="too slow"),
        factories.record("a.py::test_worse", comparisons=(factories.comparison(),)),
        factories.record("a.py::test_lost", status="error", reason="lost", speedup=None),
        factories.record("a.py::test_known", status="failed", reason="too slow", expected_failure=True),
        factories.record("a.py::test_good"),
    ]
    shown = opened(page.text(factories.run_of(*records)))
    shown.select_option("#verdict", label="Failures")
    assert ["error", "failed", "regressed"] == sorted(cells(shown, "td:first-child"))
    assert "Failures" not in opened(page.text(factories.run_of(records[-1]))).inner_text("#verdict")


LABELS = """
cells => cells.filter(each => each.checkVisibility())
    .map(each => getComputedStyle(each, "::before").content.replaceAll('"', "") + each.textContent.trim())
"""


@for_each(("device", "label"), [(factories.EMULATED, "emulated "), (factories.GPU, "GPU ")])
def test_a_phone_labels_what_a_row_has_as_the_head_of_a_wide_table_does(opened, device, label):
    quiet = factories.record(
        "a.py::test_quiet", demand=Demand(), status="recorded", gpu=factories.measurement(device, 1e-3)
    )
    compared = factories.record(
        "a.py::test_told", comparisons=(factories.comparison(),), gpu=factories.measurement(device, 1e-3)
    )
    shown = opened(page.text(factories.run_of(quiet, compared)), width=390)
    told, said = (
        shown.eval_on_selector_all(f"#t{number} > tr:first-child > :is(.CPU, .GPU, .change, .limit)", LABELS)
        for number in range(2)
    )
    assert ["CPU 20.0 ms", f"{label}1.00 ms", "change -20 %", "limit >=3x"] == told
    assert ["CPU 20.0 ms", f"{label}1.00 ms"] == said


def test_a_phone_has_a_list_to_sort_by_in_the_place_of_headings(opened, example):
    shown = opened(example, width=390)
    assert not shown.is_visible("th[data-key=speedup]")
    shown.select_option("#sort", label="speedup ↓")
    values = list(filter(None, map(number, cells(shown, ".speedup"))))
    assert sorted(values, reverse=True) == values
    assert not opened(example).is_visible("#sort")


def test_a_test_opens_to_its_record_by_keyboard_alone(opened, example):
    shown = opened(example)
    focus(shown, ".test summary")
    shown.keyboard.press("Enter")
    details = shown.locator(".test > tr > td > details[open]")
    assert 1 == details.count()
    assert details.locator("pre").first.inner_text().startswith("pytest ")
    details.locator("details summary").click()
    assert '"nodeid": "tests/' in details.inner_text()


@for_each(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_the_focus_is_seen_wherever_it_goes(opened, example, scheme, width):
    shown = opened(example, scheme=scheme, width=width)
    seen = set()
    for _ in range(25):
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
    assert {"input", "select", "summary", "a"} <= seen


@for_each(("scheme", "is_light"), [("light", True), ("dark", False)])
def test_the_page_follows_the_scheme_of_its_reader(opened, example, scheme, is_light):
    shown = opened(example, scheme=scheme)
    back, front = (shown.evaluate(LUMINANCE, ["body", name]) for name in ("backgroundColor", "color"))
    assert is_light == (back > 0.5) == (front < 0.5)


def test_forced_colours_leave_every_verdict_in_words(opened, example):
    shown = opened(example, forced_colors="active")
    shown.lay_out()
    assert [] == [words for words in cells(shown, "td:first-child") if not re.search(r"[a-z]{5,}", words)]
    assert [] == shown.misplaced()


@for_each("scheme", ["light", "dark"])
def test_paper_has_all_of_it_on_white(opened, example, scheme):
    shown = opened(example, width=700, scheme=scheme)
    shown.emulate_media(media="print", color_scheme=scheme)
    assert shown.evaluate(LUMINANCE, ["body", "backgroundColor"]) > 0.95
    assert shown.evaluate(LUMINANCE, ["body", "color"]) < 0.2
    assert [] == shown.misplaced()
    # checkVisibility() is false within details that are closed on paper, too.
    commands = shown.eval_on_selector_all(
        ".open > div > pre", "all => all.map(each => each.checkVisibility())"
    )
    assert len(commands) > 20
    assert all(commands)
    assert 0 == shown.locator(".open details:visible").count()  # the record


def test_twelve_tests_are_a_few_sheets_of_paper(opened):
    pdf = opened(page.text(suite_of(12))).pdf(format="A4")
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 6


@for_each("scheme", ["light", "dark"])
def test_the_range_of_a_baseline_is_seen(opened, scheme):
    shown = opened(page.text(suite_of(1)), scheme=scheme)
    back, ghost = (
        shown.evaluate(LUMINANCE, each) for each in (["body", "backgroundColor"], ["path.baseline", "fill"])
    )
    lighter, darker = sorted([back**2.2, ghost**2.2], reverse=True)
    assert (lighter + 0.05) / (darker + 0.05) >= 3  # of WCAG for graphics


def test_each_figure_says_its_finding_and_each_heading_what_it_heads(opened, example):
    shown = opened(example)
    roles = "all => all.map(each => [each.getAttribute('role'), each.ariaLabel])"
    figures = shown.eval_on_selector_all("svg:not([aria-hidden])", roles)
    assert len(figures) > 20
    assert all(role == "img" and re.search(r"\w+ .*\d", label) for role, label in figures)
    # The only ones without a label show what their own row of the table, or the word beside them, says.
    assert (
        0 == shown.locator("svg[aria-hidden]:not(#table > tbody > tr:first-child svg, caption svg)").count()
    )
    scopes = shown.evaluate("() => [...document.querySelectorAll('th')].map(each => each.scope)")
    assert {"row", "col", "rowgroup"} == set(scopes)


JENKINS = "sandbox; default-src 'none'; img-src 'self'; style-src 'self'"  # of files that a build has left
MARKS = """
() => [...document.querySelectorAll("svg path")].map(each => {
    const {width, height} = each.getBoundingClientRect();
    const style = getComputedStyle(each);
    return Math.max(width, height) > 0.5 && (style.fill !== "none" || style.stroke !== "none");
})
"""


def test_without_scripts_and_styles_all_words_and_marks_are_there(opened, example, serve):
    scripted, whole = opened(example), opened(example, scripts=False)
    with serve(example.parent, Content_Security_Policy=JENKINS) as address:
        bare = opened(f"{address}/{example.name}", complains=True)
        assert any("Content Security Policy" in complaint for complaint in bare.complaints)
        for shown in (scripted, whole, bare):
            shown.open_all()
        rows = "() => [...document.querySelectorAll('.test')].map(each => each.textContent)"
        assert scripted.evaluate(rows) == whole.evaluate(rows) == bare.evaluate(rows)
        assert not whole.is_visible("#controls")
        assert "tests/test_linalg.py::test_solve" in words(bare)
        marks = bare.evaluate(MARKS)
        assert len(marks) > 50
        assert all(marks)


def test_ten_thousand_tests_open_and_are_filtered(opened):
    shown = opened(page.text(suite_of(10_000)))
    shown.fill("#filter", "test_7.py 351")
    assert ["tests/test_7.py::test_fft[351-float32]"] == names(shown)
