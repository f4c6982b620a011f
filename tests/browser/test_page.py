"""The page of a report as its readers meet it: on screens and paper, by keyboard and by screen reader."""

import re

import factories
import pytest

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
LINES = """
all => all.map(each => {
    const text = new Range();
    text.selectNodeContents(each);
    return [each.textContent.trim(), new Set([...text.getClientRects()].map(box => box.top)).size];
})
"""
BOXES = "all => all.map(each => each.getBoundingClientRect().toJSON())"


def focus(shown, selector):
    """Go by the Tab key alone to an element, and see the focus all the way."""
    for _ in range(100):
        shown.keyboard.press("Tab")
        element, outline, is_seen, is_found = shown.evaluate(
            """selector => {
                const focused = document.activeElement;
                const {x, y, width, height} = focused.getBoundingClientRect();
                const at = document.elementFromPoint(x + width / 2, y + Math.min(height, 100) / 2);
                const {outlineStyle, outlineWidth} = getComputedStyle(focused);
                const outline = outlineStyle === "solid" && parseFloat(outlineWidth) >= 2;
                return [focused.outerHTML, outline, focused.contains(at), focused.matches(selector)];
            }""",
            selector,
        )
        assert outline, element
        assert is_seen, element
        if is_found:
            return
    raise AssertionError(f"Tab leads to no {selector}")


def cells(shown, selector):
    """Return what the rows that are shown have in a column."""
    found = shown.locator(f"{VISIBLE} > tr:first-child > {selector}")
    return [" ".join(words.split()) for words in found.all_text_contents()]


def number(words):
    """Return a time in seconds, or a ratio; None where nothing was measured."""
    found = re.match(r"~?([\d.]+)(?: (ns|us|ms|s)\b)?", words)
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


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "dark")])
def test_axe_finds_nothing_against_wcag_a_and_aa(opened, example, width, scheme):
    from axe_playwright_python.sync_playwright import Axe

    shown = opened(example, width=width, scheme=scheme)
    shown.open_all()
    rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
    found = Axe().run(shown.view, options={"runOnly": rules, "resultTypes": ["violations"]})
    assert 0 == found.violations_count, found.generate_report()


@pytest.mark.parametrize("width", [360, 390, 768, 1280, 1600])
def test_no_text_is_cut_or_lies_over_another_and_nothing_is_wider_than_the_window(opened, example, width):
    shown = opened(example, width=width)
    assert [] == shown.misplaced()
    shown.open_all()
    assert [] == shown.misplaced()


def test_five_hundred_tests_with_a_baseline_have_a_line_each_below_heads_that_stay_in_sight(opened):
    shown = opened(page.text(suite_of(500)))
    shown.lay_out()
    assert 500 == len(cells(shown, "th"))
    assert shown.evaluate("document.documentElement.scrollHeight") <= 20_000
    assert shown.evaluate("document.documentElement.scrollWidth") <= 1280
    assert all(28 <= box["height"] <= 36 for box in shown.eval_on_selector_all(VISIBLE, BOXES))
    failed = [f"tests/test_{n // 50}.py::test_fft[{n}-float32]" for n in range(480, -1, -20)]
    assert failed == cells(shown, "th")[: len(failed)]  # the farthest from its limit first
    assert len(failed) == shown.locator(".test .file:visible").count()  # others have it in their group's head
    shown.evaluate("document.querySelectorAll('.test')[200].scrollIntoView({block: 'center'})")
    (head,) = shown.eval_on_selector_all("#table > thead", BOXES)
    assert 0 == head["top"]
    groups = [box["top"] for box in shown.eval_on_selector_all("#table > .group", BOXES)]
    assert pytest.approx(head["bottom"], abs=1.5) in groups
    plots = shown.eval_on_selector_all("#table .plot svg", BOXES)
    assert 1 == len({box["x"] for box in plots})  # the axis lies above all rows


@pytest.mark.parametrize("width", [1280, 390])
def test_a_time_stands_on_one_line_with_its_unit_and_so_does_a_range(opened, width):
    wide = factories.record("wide", speedup=factories.speedup(0.0036, 0.0035, 1.22))
    needs = factories.on_cpu_only(nodeid="needs", demand=Demand(min=3))
    shown = opened(page.text(factories.run_of(wide, needs)), width=width)
    found = shown.eval_on_selector_all(".test td:is(.CPU, .GPU), .speedup span", LINES)
    expected = {"20.0 ms": 1, "2.00 ms": 1, "needs 6.67 ms": 1, "[0.0035, 1.22]": 1}
    assert expected == dict(found)


def test_ten_thousand_tests_open_and_are_filtered(opened):
    shown = opened(page.text(suite_of(10_000)))
    shown.fill("#filter", "test_7.py 351")
    assert ["tests/test_7.py::test_fft[351-float32]"] == cells(shown, "th")


def test_the_filter_leaves_the_tests_of_a_name_or_a_verdict_by_keyboard_alone(opened, example):
    shown = opened(example)
    everything = cells(shown, "th")
    focus(shown, "#filter")
    shown.keyboard.type("FFT 4096")
    wanted = [name for name in everything if "fft" in name and "4096" in name]
    assert wanted == cells(shown, "th") != []
    assert f"{len(wanted)} of {len(everything)} tests" in shown.text
    assert 1 == shown.locator("#table > .group:not([hidden])").count()
    shown.keyboard.press("Control+A")
    shown.keyboard.press("Delete")
    assert everything == cells(shown, "th")
    focus(shown, "#verdict")
    shown.keyboard.type("failed")
    assert ["failed"] * 2 == cells(shown, "td:first-child")


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


@pytest.mark.parametrize("key", ["CPU", "GPU", "speedup"])
def test_a_heading_sorts_both_ways_by_keyboard_alone(opened, example, key):
    shown = opened(example)
    first = cells(shown, "th")
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
    assert first == cells(shown, "th")


@pytest.mark.parametrize("device", ["GPU", "emulated"])
def test_a_phone_sorts_by_a_list_and_labels_what_a_row_has(opened, device):
    gpu = factories.measurement(factories.EMULATED if device == "emulated" else factories.GPU, 1e-3)
    known = {"gpu": gpu, "speedup": factories.speedup(20)}
    quiet = factories.record("a.py::test_quiet", demand=Demand(), status="recorded", **known)
    compared = factories.record("a.py::test_told", comparisons=(factories.comparison(),), gpu=gpu)
    shown = opened(page.text(factories.run_of(quiet, compared)), width=390)
    labelled = "each => getComputedStyle(each, '::before').content.replaceAll('\"', '') + each.textContent"
    for row, said in enumerate((["change -20 %", "limit >=3x"], [])):
        told = shown.eval_on_selector_all(
            f"#t{row} > tr:first-child > :is(.CPU, .GPU, .change, .limit)",
            f"all => all.filter(each => each.checkVisibility()).map({labelled})",
        )
        assert ["CPU 20.0 ms", f"{device} 1.00 ms", *said] == [words.strip() for words in told]
    assert not shown.is_visible("th[data-key=speedup]")
    shown.select_option("#sort", label="speedup ↓")
    assert [20, 10] == [number(words) for words in cells(shown, ".speedup")]


def test_a_test_opens_to_its_record_by_keyboard_alone(opened, example):
    shown = opened(example)
    focus(shown, ".test summary")
    shown.keyboard.press("Enter")
    details = shown.locator(".test > tr > td > details[open]")
    assert 1 == details.count()
    assert details.locator("pre").first.inner_text().startswith("pytest ")
    details.locator("details summary").click()
    assert '"nodeid": "tests/' in details.inner_text()


@pytest.mark.parametrize(("scheme", "is_light"), [("light", True), ("dark", False)])
def test_the_page_follows_the_scheme_of_its_reader_and_paper_has_all_of_it_on_white(opened, scheme, is_light):
    shown = opened(page.text(suite_of(12)), width=700, scheme=scheme)

    def luminances(*of):
        return [shown.evaluate(LUMINANCE, each) for each in (["body", "backgroundColor"], *of)]

    back, front, ghost = luminances(["body", "color"], ["path.baseline", "fill"])
    assert is_light == (back > 0.5) == (front < 0.5)
    lighter, darker = sorted([back**2.2, ghost**2.2], reverse=True)
    assert (lighter + 0.05) / (darker + 0.05) >= 3  # of WCAG for graphics
    shown.emulate_media(media="print", color_scheme=scheme)
    back, front = luminances(["body", "color"])
    assert back > 0.95
    assert front < 0.2
    assert [] == shown.misplaced()
    # checkVisibility() is false within details that are closed on paper, too.
    visible = "all => all.map(each => each.checkVisibility())"
    assert [True] * 12 == shown.eval_on_selector_all(".open > div > pre", visible)
    assert 0 == shown.locator(".open details:visible").count()  # the record
    assert len(re.findall(rb"/Type\s*/Page\b", shown.pdf(format="A4"))) <= 6


def test_each_figure_says_its_finding_and_each_heading_what_it_heads(opened, example):
    shown = opened(example)
    roles = "all => all.map(each => [each.getAttribute('role'), each.ariaLabel])"
    figures = shown.eval_on_selector_all("svg:not([aria-hidden])", roles)
    assert len(figures) > 20
    assert all(role == "img" and re.search(r"\w+ .*\d", label) for role, label in figures)
    # The only ones without a label show what their own row of the table, or the word beside them, says.
    rest = "svg[aria-hidden]:not(#table > tbody > tr:first-child svg, caption svg)"
    assert 0 == shown.locator(rest).count()
    scopes = shown.evaluate("() => [...document.querySelectorAll('th')].map(each => each.scope)")
    assert {"row", "col", "rowgroup"} == set(scopes)


@pytest.mark.parametrize("width", [360, 1280])
def test_times_over_bytes_are_a_figure_with_a_mark_for_each_test_and_a_line_for_each_roof(opened, width):
    sizes = (1 << 12, 1 << 20, 1 << 28)
    tests = [factories.near_roof(f"a.py::test_it[{size}]", size) for size in sizes]
    shown = opened(page.text(factories.run_of(*tests)), width=width)
    assert [] == shown.misplaced()
    figure = shown.get_by_role("img", name="Time over bytes: 3 tests, 4.10 kB to 268 MB")
    assert figure.is_visible()
    for style in ("cpu", "gpu"):
        lines = figure.locator(f"path.{style}[stroke]").evaluate_all(BOXES)
        marks = figure.locator(f"path.{style}[fill]").evaluate_all(BOXES)
        (_, roof), (_, calls) = lines, marks  # after those of the legend
        assert roof["width"] > 150
        assert calls["width"] > 150
        assert calls["top"] < roof["top"]  # a call takes longer than its copy


JENKINS = "sandbox; default-src 'none'; img-src 'self'; style-src 'self'"  # of files that a build has left
MARKS = """
() => [...document.querySelectorAll("svg path")].map(each => {
    const {width, height} = each.getBoundingClientRect();
    const style = getComputedStyle(each);
    return Math.max(width, height) > 0.5 && (style.fill !== "none" || style.stroke !== "none");
})
"""


def test_without_scripts_and_styles_all_words_and_marks_are_there(opened, example):
    scripted, whole, bare = opened(example), opened(example, scripts=False), opened(example, policy=JENKINS)
    assert any("Content Security Policy" in complaint for complaint in bare.complaints)
    for shown in (scripted, whole, bare):
        shown.open_all()
    rows = "() => [...document.querySelectorAll('.test')].map(each => each.textContent)"
    assert scripted.evaluate(rows) == whole.evaluate(rows) == bare.evaluate(rows)
    assert not whole.is_visible("#controls")
    assert "tests/test_linalg.py::test_solve" in "".join(bare.inner_text("main").split())
    marks = bare.evaluate(MARKS)
    assert len(marks) > 50
    assert all(marks)
