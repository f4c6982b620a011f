"""The page: what stands where, that it stands alone, and that nobody's text becomes mark-up."""

import json
import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from time import process_time

import pytest
from cases import for_each
from factories import (
    EMULATED,
    GPU,
    comparison,
    estimate,
    gate_result,
    histories,
    history_of,
    measurement,
    offload,
    record,
    run_of,
    scaling_curve,
    skipped,
    speedup,
)
from golden import assert_golden, run_with_everything
from msgspec.structs import replace

from pytest_gpuperf.model.comparison import Commit
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import Interference
from pytest_gpuperf.model.offload import Diagnosis
from pytest_gpuperf.model.record import Note
from pytest_gpuperf.report import paths
from pytest_gpuperf.report.history import History
from pytest_gpuperf.report.html import page
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
NOTE = Note(code="gpu_shared", text="another process used the GPU")
LIMITED = {"status": "failed", "reason": "too slow", "reason_code": "speedup_outside_limits"}
LEFT_OUT = re.compile(  # of the golden file: what the run has no part in, and records, which are JSON
    r"(?<=<style>).*?(?=</style>)|(?<=<script>).*?(?=</script>)|sha256-[\w+/=]*|^{\n.*?^}\n",
    re.DOTALL | re.MULTILINE,
)


class Page(HTMLParser):
    """What a page consists of: its elements with their attributes, and the texts of each test's row."""

    def __init__(self, content):
        super().__init__()
        self.elements, self.texts, self.rows = [], [], []
        self._tags = [""]
        self.feed(content)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self._tags.append(tag)
        if tag == "tbody" and dict(attributes).get("class") == "test":
            self.rows.append([])

    def handle_data(self, data):
        if self._tags[-1] in ("script", "style") or not data.strip():
            return
        self.texts.append(data.strip())
        if self.rows:
            self.rows[-1].append(data.strip())

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def leads(*records):
    """Return the second line of each row, or None for a row of one line."""
    found = text(run_of(*records)).split("<tbody class=test")[1:]
    return [lead[1] if (lead := re.search("<p class=lead>(.*?)</p>", row)) else None for row in found]


def test_a_run_that_has_everything_looks_as_it_did():
    """To write the file again: GPUPERF_GOLDEN=write pytest tests/unit/report/html/test_page.py."""
    assert_golden("page.html", LEFT_OUT.sub("", text(run_with_everything())))


def test_a_busy_machine_is_said_once_above_the_tests():
    busy = Interference(kind="cpu_contention", own_share=0.6, waited=0.4, threads=1)
    shown = text(run_of(record(interference=busy), record("test_b")))
    assert 1 == shown.count("machine busy: 1 of 2 tests; worst test_fft")
    assert "machine busy" not in text(run_of(record()))


def test_what_failed_stands_first_the_farthest_from_its_limit_before_all_others():
    near = record("b.py::test_near", **LIMITED, speedup=speedup(2.9, 2.8, 2.95))
    far = record("a.py::test_far", **LIMITED, speedup=speedup(0.5, 0.4, 0.6))
    most = record("a.py::test_most", **LIMITED, speedup=speedup(4, 3, 5), demand=Demand(max=1))
    worse = record("a.py::test_worse", comparisons=(comparison(),))
    broken = record("a.py::test_broken", status="error", reason="it raised", speedup=None)
    doubt = record("c.py::test_doubt", status="inconclusive", reason="too close")
    quiet = [record("a.py::test_quiet"), skipped("a.py::test_skipped"), doubt]
    rows = Page(text(run_of(*quiet, near, worse, broken, far, most))).rows
    names = [next(word for word in row if word.startswith("test_")) for row in rows]
    failures = ["test_broken", "test_far", "test_most", "test_worse", "test_near"]
    assert [*failures, "test_doubt", "test_quiet", "test_skipped"] == names


@for_each(
    ("changes", "lead"),
    [
        ({}, None),
        (LIMITED, None),  # the row says the speedup and the limit
        ({"offload": offload(reason="worth it")}, None),
        ({"comparisons": (comparison("improved"),)}, None),
        ({"notes": (Note(code="interference", text="the machine was busy"),)}, None),
        ({**LIMITED, "speedup": None}, "too slow"),
        ({**LIMITED, "diagnosis": (Diagnosis(code="float64", sentence="it is slow"),)}, None),
        ({"status": "error", "reason": "it raised"}, "it raised"),
        ({"status": "inconclusive", "reason": "too close"}, "too close"),
        ({"comparisons": (comparison(),)}, "it regressed"),
        ({"notes": (NOTE,)}, NOTE.text),
        ({"offload": offload(reason="not with copies", always=estimate(0.5, 0.4, 0.6))}, "not with copies"),
    ],
)
def test_a_row_has_a_second_line_only_where_it_says_more(changes, lead):
    assert [lead] == leads(record(**changes))


def test_a_row_and_its_details_say_what_was_measured():
    asked = record("a.py::test_it[4096]", notes=(NOTE,), comparisons=(comparison("inconclusive"),))
    shown = Page(text(run_of(asked)))
    (row,) = shown.rows
    for word in ("test_it", "[4096]", "20.0 ms", "1.75 ms", "10.0x", "[9.00, 11.0]", ">=3x", "-20 %?"):
        assert word in row
    assert NOTE.text in row
    assert "Speedups: 1 of 1 as required" in shown.texts
    assert "-20.0 % [-30.0, -10.0]" in row
    assert "pytest 'a.py::test_it[4096]'" in row
    found = json.loads(next(word for word in row if word.startswith("{")))
    assert 10.0 == found["speedup"]["value"]
    assert "samples" not in found["gpu"]


def test_no_column_is_the_same_in_every_row():
    def columns(*records):
        return [each.get("class") for each in Page(text(run_of(*records))).all("th") if "data-key" in each]

    free = record(demand=Demand())
    assert [None, None, "CPU", "GPU", "speedup"] == columns(free)
    assert "change" in columns(record(comparisons=(comparison(),)))


@for_each(
    ("demand", "said"),
    [
        (Demand(min=2), None),
        (Demand(min=2, transfer="always"), "always with copies at every call."),
        (
            Demand(min=2, transfer="once", calls=10, latency=True),
            "once/N with copies once for N calls; latency of",
        ),
    ],
)
def test_words_after_a_limit_are_explained_where_one_has_them(demand, said):
    caption = re.search("<caption>.*</caption>", text(run_of(record(demand=demand))), re.DOTALL)[0]
    shown = " ".join(re.sub("<.*?>", "", caption).split())
    assert f"In limits: {said}" in shown if said else "In limits" not in shown


def test_means_of_gpus_and_of_emulated_devices_are_not_mixed():
    emulated = [
        record(f"b.py::test_{n}", gpu=measurement(EMULATED, 0.001), speedup=speedup(n)) for n in (1.0, 4.0)
    ]
    real = [record(f"a.py::test_{n}", speedup=speedup(n)) for n in (10.0, 1000.0)]
    shown = Page(text(run_of(*emulated, *real))).texts
    assert "100x (2 tests, 10.0x to 1000x)" == shown[shown.index("geometric mean") + 1]
    assert "2.00x (2 tests, 1.00x to 4.00x)" == shown[shown.index("geometric mean, emulated") + 1]


def test_of_many_tests_the_longest_and_the_least_certain_are_listed():
    records = [
        record(f"a.py::test_{n}", cpu=measurement(GPU, n + 1.0), speedup=speedup(10, 10 / (21 - n), 11))
        for n in range(20)
    ]
    shown = Page(text(run_of(*records))).texts
    longest, wide = shown.index("Longest on the CPU"), shown.index("Least certain")
    assert ["20.0 s", "test_19", "19.0 s", "test_18"] == shown[longest + 1 : longest + 5]
    assert "test_0" == shown[wide + 2]
    (eleven, ten) = (text(run_of(*records[:count])) for count in (11, 10))
    assert ["Longest on the CPU" in each and "Least certain" in each for each in (eleven, ten)] == [
        True,
        False,
    ]


def test_a_list_of_nothing_has_no_heading_and_what_is_certain_is_not_listed():
    skips = text(run_of(*(skipped(f"a.py::test_{n}") for n in range(12))))
    assert "Longest on the CPU" not in skips
    assert "Least certain" not in skips
    certain = [record(f"a.py::test_{n}", speedup=speedup(2, 2, 2)) for n in range(12)]
    assert "Least certain" not in text(run_of(*certain))
    shown = Page(text(run_of(*certain, record("a.py::test_open", speedup=speedup(2, None, None))))).texts
    assert ["test_open", "Tests"] == shown[shown.index("Least certain") + 2 :][:2]


@for_each(
    ("address", "is_link"),
    [
        ("https://github.com/x/commit/1", True),
        ("http://ci/7", True),
        ("javascript:alert(1)", False),
        ("//x", False),
    ],
)
def test_only_an_address_of_the_web_is_a_link(address, is_link):
    run = run_of(record(), commit=Commit(id="0123456789abcdef", branch="main", url=address), job=address)
    shown = Page(text(run))
    assert [address] * 2 * is_link == [each["href"] for each in shown.all("a")]
    said = " ".join(shown.texts)
    assert "commit 0123456789abcdef of main" in said
    assert "run of 2026-01-01 00:00" in said


@for_each(
    ("changes", "said"),
    [
        ({"comparisons": (comparison(),)}, "regressed"),
        ({**LIMITED, "expected_failure": True}, "failed (expected)"),
        ({"comparisons": (comparison("improved"),)}, "improved"),
        ({}, "passed"),
    ],
)
def test_a_curve_and_the_rows_of_its_tests_have_the_same_verdict(changes, said):
    scaled_to = record("a.py::test_step[4]", **changes)
    curve = scaling_curve()
    last = replace(curve.points[-1], nodeid=scaled_to.nodeid)
    content = text(run_of(scaled_to, scalings=(replace(curve, points=(*curve.points[:-1], last)),)))
    code = said.replace(" (expected)", "_expected")
    assert f'<span class="v {code}">{said}</span></h3>' in content
    assert [f'{code}">{said}'] == re.findall(r'<tr><td><span class="v (.*?)</span>', content)


def test_files_of_the_history_that_are_none_are_named_and_the_rest_is_counted():
    left_out = {f"{number}<.txt": "it is no JSON" for number in range(21)}
    shown = Page(text(run_of(record()), History(rejected=left_out))).texts
    assert "it is no JSON" == shown[shown.index("19<.txt") + 1]
    assert "20<.txt" not in shown
    assert "and 1 more file" in shown
    few = History(rejected={"notes.txt": "it is no JSON"})
    assert "more file" not in text(run_of(record()), few)


def test_tests_of_the_history_that_are_not_drawn_are_counted(monkeypatch):
    monkeypatch.setattr(page, "_MOST_HISTORIES", 2)
    runs = histories(*(history_of(2.0, 2.0, nodeid=f"a.py::test_{n}") for n in range(3)))
    assert "The history has 1 more test;" in Page(text(run_of(record()), runs)).texts


def test_large_numbers_are_written_alike():
    (heading,) = re.findall("<h1>(.*?)</h1>", text(run_of(*[record(f"a.py::test_{n}") for n in range(1000)])))
    assert "Speedups: 1,000 of 1,000 as required" == heading


def test_without_a_gpu_the_headline_says_why():
    environment = replace(run_of().environment, gpu=None, gpu_reason="no driver was found")
    shown = " ".join(Page(text(run_of(record(gpu=None, speedup=None), environment=environment))).texts)
    assert "| GPU none: no driver was found | run of" in shown


def test_a_run_without_tests_or_the_name_of_its_machine_is_a_page():
    shown = Page(text(run_of(environment=replace(run_of().environment, cpu={}))))
    assert {"no test was measured", "CPU unknown | GPU H200 through cupy | run of 2026-01-01 00:00"} <= set(
        shown.texts
    )
    assert [] == shown.rows


@for_each("trap", TRAPS)
def test_text_of_strangers_stays_text(trap):
    gate = gate_result(trap, baseline=trap, started=trap)
    note, diagnosis = replace(NOTE, text=trap), Diagnosis(code="serial_part", sentence=trap)
    bad = record(f"{trap}.py::test[{trap}]", status="failed", reason=trap, notes=(note,))
    run = run_of(
        *(replace(bad, nodeid=f"{bad.nodeid}{number}") for number in range(12)),
        gate=gate,
        commit=Commit(id=trap, branch=trap, url=trap),
        job=trap,
        gpu=replace(GPU, name=trap),
        scalings=(scaling_curve(name=trap, diagnosis=(diagnosis,)),),
    )
    run = replace(run, environment=replace(run.environment, variables={trap: trap}, cpu={"name": trap}))
    shown, content = Page(text(run)), text(run)
    assert 1 == len(shown.all("script")) == len(shown.all("style"))
    assert not {"img", "iframe", "base"} & {tag for tag, _ in shown.elements}
    assert not [name for _, each in shown.elements for name in each if name.startswith("on")]
    assert all(each["href"].startswith("#t") for each in shown.all("a"))
    assert all(letter.isprintable() or letter == "\n" for letter in content)
    content.encode()


def test_the_page_loads_nothing_and_its_policy_names_what_it_holds():
    content = text(run_of(record()))
    shown = Page(content)
    assert not {"src", "href", "srcset", "action", "style"} & {
        name for _, each in shown.elements for name in each
    }
    assert not re.search(r"url\(|@import|http://", content)
    (policy,) = [meta["content"] for meta in shown.all("meta") if meta.get("http-equiv")]
    assert policy.startswith("default-src 'none'; ")
    for tag in ("style", "script"):
        (body,) = re.findall(rf"<{tag}>(.*?)</{tag}>", content, re.DOTALL)
        digest = b64encode(sha256(body.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_a_page_is_known_as_ours_by_its_beginning(tmp_path):
    path = tmp_path / "page.html"
    path.write_text(text(run_of(record())))
    assert paths.begins_as(path, paths.PAGE)


def test_an_unbounded_interval_is_drawn_to_the_edge():
    content = text(run_of(record(speedup=speedup(10.0, None, None)), record("b.py::test_b")))
    assert not re.search(r'="[^"]*\b(nan|inf)\b', content)


@pytest.mark.parametrize(
    ("tests", "most_bytes", "seconds"), [(500, 1_000_000, 0.5), (10_000, 20_000_000, 10)]
)
def test_the_page_of_many_tests_is_small_and_soon_written(tests, most_bytes, seconds):
    samples = [1e-3 * (1 + n / 1e3) for n in range(60)]
    cpu, gpu = measurement(GPU, *samples), measurement(GPU, *samples[::-1])
    records = [
        record(
            f"tests/test_{n // 50}.py::test_some_name[{n}]",
            cpu=cpu,
            gpu=gpu,
            comparisons=(comparison("new"),),
        )
        for n in range(tests)
    ]
    text(run_of(record()))
    began = process_time()
    content = text(run_of(*records))
    assert process_time() - began < seconds
    assert len(content) < most_bytes
    assert f"{page._MOST_DETAILED} tests have details here" in content
