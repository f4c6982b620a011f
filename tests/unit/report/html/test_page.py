"""The page: what stands where, that it stands alone, and that nobody's text becomes mark-up."""

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

from cases import for_each
from factories import (
    EMULATED,
    GPU,
    comparison,
    gate_result,
    measurement,
    on_cpu_only,
    record,
    run_of,
    scaled,
    scaling_curve,
    skipped,
    speedup,
    threshold,
)
from msgspec.structs import replace

from pytest_gpuperf.analysis.scaling import curves
from pytest_gpuperf.model.comparison import Commit
from pytest_gpuperf.model.demand import UnknownValue
from pytest_gpuperf.model.offload import Diagnosis
from pytest_gpuperf.model.record import Merged, Note
from pytest_gpuperf.report import paths
from pytest_gpuperf.report.history import History
from pytest_gpuperf.report.html import engine, page
from pytest_gpuperf.report.html.page import text

TRAPS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style></title></script><svg onload=alert(1)>",
    "javascript:alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "]]>&lt;b&gt;",
    "\x1b[31mred\x00\u202e",
    "\ud800 alone",
]
REGRESSED = comparison()


class Page(HTMLParser):
    """What a page consists of: its elements with their attributes, its texts, and each row of its table."""

    def __init__(self, content):
        super().__init__()
        self.elements, self.texts, self.rows = [], [], []
        self._tags = [""]
        self.feed(content)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self._tags.append(tag)
        if tag == "tbody":
            self.rows.append([])

    def handle_data(self, data):
        if self._tags[-1] in ("script", "style"):
            return
        self.texts.append(data.strip())
        if self.rows:
            self.rows[-1].append(data.strip())

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def test_what_failed_and_regressed_stands_first():
    passed, failed = record("a.py::test_passed"), record("a.py::test_failed", status="failed", reason="slow")
    worse = record("a.py::test_worse", comparisons=(REGRESSED,))
    rows = Page(text(run_of(passed, skipped("a.py::test_skipped"), failed, worse))).rows
    names = [next(word for word in row if word.startswith("test_")) for row in rows]
    assert ["test_failed", "test_worse", "test_passed", "test_skipped"] == names
    assert "regressed" in rows[1]


def test_a_row_has_the_times_the_speedup_the_limit_and_why():
    (row,) = Page(text(run_of(record("a.py::test_it[4096]", status="failed", reason="too slow")))).rows
    for word in ("a.py::", "test_it", "[4096]", "20.0 ms", "1.75 ms", "10.0x [9.00, 11.0]", ">=3x", "failed"):
        assert word in row
    assert "too slow" in row


def test_the_first_lines_say_what_was_measured_and_on_what():
    run = run_of(record(), commit=Commit(id="0123456789abcdef", branch="main", changed=True), complete=False)
    shown = " ".join(Page(text(run)).texts)
    for said in ("1 passed", "EPYC", "H200 through cupy", "0123456789ab on main", "The run ended early"):
        assert said in shown
    assert "differ" in shown


def test_an_emulated_device_is_named_in_words():
    emulated = record(gpu=measurement(EMULATED, 0.001))
    shown = " ".join(Page(text(run_of(emulated, record("b.py::test_b"), gpu=EMULATED))).texts)
    assert "Speedups on an emulated device" in shown
    assert "1 of these tests ran on an emulated device" in shown
    assert "emulated" not in " ".join(Page(text(run_of(record()))).texts)


def test_what_the_page_does_not_show_of_a_run_stands_above_the_tests():
    run = run_of(
        record(),
        unknown_values=(UnknownValue(parameter="backend", value="'dask'", tests=2),),
        merged=Merged(reports=("a.json", "b.json"), hosts_differ=True, differences=("numpy 1 and 2",)),
    )
    warnings = [words for words in Page(text(run)).texts if words.startswith(("Left alone", "The runs"))]
    assert "2 tests on devices that are not known (backend='dask')" in warnings[0]
    assert "The runs that were merged differ: numpy 1 and 2." == warnings[1]


def test_files_of_the_history_that_are_none_are_named():
    left_out = History(rejected={"notes<.txt": "it is no JSON"})
    shown = Page(text(run_of(record()), left_out)).texts
    assert "it is no JSON" == shown[shown.index("notes<.txt") + 1]


def test_without_a_speedup_there_is_no_axis():
    assert "1x" in Page(text(run_of(record()))).texts
    assert "1x" not in Page(text(run_of(skipped("a.py::test_a")))).texts


def test_without_a_gpu_the_table_says_what_a_call_may_take_on_one():
    assert "needs 6.67 ms" in Page(text(run_of(on_cpu_only(), gpu=None))).rows[0]


def test_the_result_of_the_regression_check_stands_above_the_tests():
    shown = text(run_of(record(), gate=gate_result("nothing was measured: no GPU")))
    assert 0 < shown.index("nothing was measured: no GPU") < shown.index('id="tests"')


def test_a_machine_without_a_name_is_not_known():
    nameless = replace(run_of().environment, cpu={})
    assert "not known" in Page(text(run_of(record(), environment=nameless))).texts


def test_the_caption_says_what_the_parts_of_a_call_look_like():
    timed = record(gpu=measurement(GPU, 2e-3))
    assert "whole call" in " ".join(Page(text(run_of(timed))).texts)
    assert "Call on GPU" not in " ".join(Page(text(run_of(skipped("a.py::test_a")))).texts)


def test_a_run_without_tests_is_a_page():
    shown = Page(text(run_of()))
    assert "no test was measured" in shown.texts
    assert [] == shown.rows


def test_details_say_all_that_the_record_says():
    note = Note(code="gpu_shared", text="another process used the GPU")
    (row,) = Page(text(run_of(record(notes=(note,), elapsed=0.5, comparisons=(REGRESSED,))))).rows
    assert "another process used the GPU" in row
    for label, value in (("first call", "500 ms"), ("elapsed", "500 ms"), ("demand", "min 3x")):
        assert value in row[row.index(label) + 1 : row.index(label) + 4]
    assert "-20.0 % [-30.0, -10.0]" in row


def test_what_all_tests_share_is_said_once():
    shown = text(run_of(*(record(f"a.py::test_{index}", rounds_elapsed=1e-3 * index) for index in (1, 2))))
    assert 1 == shown.count("The same for all tests")
    assert 1 == shown.count("<dt>speedup<dd>10.0x")
    assert 2 == shown.count("<dt>rounds elapsed<dd>")


def test_beyond_the_first_tests_a_row_keeps_its_reason_and_the_page_says_where_the_rest_is():
    most = page._MOST_DETAILED
    tests = most + 2
    records = [record(f"a.py::test_{n}", status="failed", reason=f"why {n}") for n in range(tests)]
    shown = text(run_of(*records))
    assert all(f"why {n}" in shown for n in range(tests))
    assert (
        f"Only the first {most} tests have details here; the JSON report has them for all {tests}." in shown
    )
    assert "have details here" not in text(run_of(*records[:most]))


def test_the_sizes_thresholds_are_figures_with_their_sentence():
    found = threshold(name="a.py::test_n", largest_not_won=10.0, smallest_won=100.0)
    assert "recorded: the GPU wins from n = 100 on, not at 10" in text(run_of(record(), thresholds=(found,)))


def test_curves_of_scaling_are_figures_with_a_table_a_verdict_and_what_holds_them_back():
    records = scaled(1), scaled(2, 0.99), scaled(4, 0.6, required=0.5)
    shown = text(run_of(*records, scalings=curves(records)))
    section = Page(shown[shown.index('<h2 id="scaling">') : shown.index('<h2 id="environment">')])
    words = list(filter(None, section.texts))
    assert ["Scaling", "a.py::test_step (strong), required efficiency 0.5", "passed"] == words[:3]
    assert words[3].startswith("the share of the work that the devices do not divide grows")
    table = words[words.index("time") - 1 :]
    assert ["devices", "time", "speedup", "efficiency", "Karp-Flatt", "1", "12.0 ms", *"---"] == table[:10]
    assert ["4", "5.00 ms", "2.40x", "0.60 [0.54, 0.66]", "0.222 [0.172, 0.284]"] == table[-5:]
    (figure,) = section.all("svg")
    assert "0.60 [0.54, 0.66] on 4 devices" in figure["aria-label"]
    assert 'id="scaling"' not in text(run_of(record()))


@for_each("trap", TRAPS)
def test_text_of_strangers_stays_text(trap):
    note = Note(code="gpu_shared", text=trap)
    gate = gate_result(trap, baseline=trap, started=trap)
    bad = record(f"a.py::test[{trap}]", status="failed", reason=trap, notes=(note,))
    named = scaling_curve(name=trap, diagnosis=(Diagnosis(code="serial_part", sentence=trap, numbers={}),))
    run = run_of(
        bad, gate=gate, commit=Commit(id=trap, branch=trap), gpu=replace(GPU, name=trap), scalings=(named,)
    )
    run = replace(run, environment=replace(run.environment, variables={trap: trap}, cpu={"name": trap}))
    harmless = run_of(record("a.py::test[1]", status="failed", reason="x"), scalings=(scaling_curve(),))
    shown, plain = Page(text(run)), Page(text(harmless))
    assert 1 == len(shown.all("script")) == len(plain.all("script"))
    assert [] == shown.all("img")
    assert {tag for tag, _ in shown.elements} <= {tag for tag, _ in plain.elements} | {"ul", "li", "section"}
    names = {name for _, attributes in shown.elements for name in attributes}
    assert not [name for name in names if name.startswith("on") or name == "href"]
    assert all(letter.isprintable() or letter == "\n" for letter in text(run))
    text(run).encode()


def test_the_page_loads_nothing_and_its_policy_names_what_it_holds():
    content = text(run_of(record()))
    shown = Page(content)
    assert not {"src", "href", "srcset", "action"} & {name for _, each in shown.elements for name in each}
    assert not re.search(r"url\(|@import", content)
    assert "http://" not in content
    (policy,) = [meta["content"] for meta in shown.all("meta") if meta.get("http-equiv")]
    assert policy.startswith("default-src 'none'; ")
    for tag in ("style", "script"):
        (body,) = re.findall(rf"<{tag}>(.*?)</{tag}>", content, re.DOTALL)
        digest = b64encode(sha256(body.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_every_table_heading_has_its_scope_and_every_figure_its_finding():
    shown = Page(text(run_of(record(status="failed", reason="x", comparisons=(REGRESSED,)))))
    assert all(heading.get("scope") in ("row", "col") for heading in shown.all("th"))
    figures = shown.all("svg")
    assert figures
    assert all(figure.get("aria-label") or figure.get("aria-hidden") for figure in figures)


def test_a_page_is_known_as_ours_by_its_beginning(tmp_path):
    path = tmp_path / "page.html"
    path.write_text(text(run_of(record())))
    assert paths.begins_as(path, paths.PAGE)
    path.write_text("<!doctype html><html><head><title>mine</title>")
    assert not paths.begins_as(path, paths.PAGE)


def test_the_template_is_compiled_where_the_making_of_pages_is_checked(monkeypatch):
    engine._environment.cache_clear()
    engine.check()
    monkeypatch.setattr(engine._environment(), "compile", None)
    assert "test_fft" in text(run_of(record()))


def test_an_unbounded_interval_is_drawn_to_the_edge():
    content = text(run_of(record(speedup=speedup(10.0, None, None)), record("b.py::test_b")))
    assert "nan" not in content
    assert "inf" not in content.replace("information", "")
