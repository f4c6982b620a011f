"""The page: what stands where, that it stands alone, and that nobody's text becomes mark-up."""

import json
import re
from array import array
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

import pytest
from factories import (
    CPU,
    GPU,
    HERE,
    comparison,
    copies,
    estimate,
    histories,
    history_of,
    measurement,
    offload,
    on_cpu_only,
    record,
    run_of,
    scaled,
    scaling_curve,
    skipped,
    speedup,
)
from golden import assert_golden, run_with_everything, without_assets
from hostile import hostile_run
from msgspec.structs import replace

from pytest_gpuperf.analysis.diagnosis import find
from pytest_gpuperf.model.comparison import Commit
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import Interference, Transfer
from pytest_gpuperf.model.offload import Diagnosis
from pytest_gpuperf.model.record import Note
from pytest_gpuperf.report.html.page import text
from pytest_gpuperf.report.words import view

NOTE = Note(code="not_exclusive", text="another process used the GPU")
BUSY = Interference(kind="cpu_contention", own_share=0.6, waited=0.4, threads=1)
UNSEEN = Interference(kind="unstable_cpu_times", own_share=0.0, median=0.1, fastest=0.0)
NO_GPU = replace(HERE, gpu=None, gpu_reason="no driver was found")
UNDECIDED = {"status": "inconclusive", "reason": "too close"}
LIMITED = {"status": "failed", "reason": "too slow", "reason_code": "speedup_outside_limits"}


class Page(HTMLParser):
    """What a page consists of: its elements with their attributes, and its texts."""

    def __init__(self, content):
        super().__init__()
        self.elements, self.texts = [], []
        self._tag = ""
        self.feed(content)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self._tag = tag

    def handle_data(self, data):
        if self._tag not in ("script", "style") and data.strip():
            self.texts.append(data.strip())

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def leads(*records):
    """Return the second line of each row, or None for a row of one line."""
    found = text(run_of(*records)).split("<tbody class=test")[1:]
    return [lead[1] if (lead := re.search("<p class=lead>(.*?)</p>", row)) else None for row in found]


def test_a_run_that_has_everything_looks_as_it_did():
    """To write the file again: GPUPERF_GOLDEN=write pytest tests/unit/report/html/test_page.py."""
    assert_golden("page.html", without_assets(text(run_with_everything())))


@pytest.mark.parametrize(
    ("changes", "lead"),
    [
        ({}, None),
        (LIMITED, None),  # the row says the speedup and the limit
        ({"offload": offload(reason="worth it")}, None),
        ({"comparisons": (comparison("improved"),)}, None),
        ({"notes": (Note(code="interference", text="the machine was busy"),)}, None),
        ({**LIMITED, "speedup": None}, "too slow"),
        ({**LIMITED, "diagnosis": (Diagnosis(code="float64", sentence="it is slow"),)}, None),
        # The cause comes first, also where the row says it.
        ({**LIMITED, "notes": (NOTE,)}, "too slow"),
        ({**LIMITED, "offload": offload(reason="copies", always=estimate(0.5, 0.4, 0.6))}, "too slow"),
        ({**LIMITED, "comparisons": (comparison(),)}, "it regressed"),
        ({"status": "error", "reason": "it raised", "notes": (NOTE,)}, "it raised"),
        (
            {**UNDECIDED, "comparisons": (comparison("inconclusive"), comparison()), "notes": (NOTE,)},
            "it regressed",
        ),
        ({"status": "skipped", "reason": "no GPU found", "reason_code": "no_gpu", "speedup": None}, None),
        ({"status": "error", "reason": "it raised"}, "it raised"),
        ({"status": "inconclusive", "reason": "too close"}, "too close"),
        ({"comparisons": (comparison(),)}, "it regressed"),
        ({"notes": (NOTE,)}, NOTE.text),
        ({"offload": offload(reason="not with copies", always=estimate(0.5, 0.4, 0.6))}, "not with copies"),
    ],
)
def test_a_row_has_a_second_line_only_where_it_says_more(changes, lead):
    assert [lead] == leads(record(**changes))


def test_the_record_of_a_test_is_json_without_samples():
    found = json.loads(next(word for word in Page(text(run_of(record()))).texts if word.startswith("{")))
    assert 10.0 == found["speedup"]["value"]
    assert "samples" not in found["gpu"]


def test_the_copies_have_the_same_share_in_a_diagnosis_and_in_the_parts_of_a_call():
    # 0.7 ms in a loop with calls of 0.3 ms, and a tenth of that where they are timed apart, without waits
    moved = Transfer(h2d=copies(30e-6), d2h=copies(40e-6), loop=array("d", [1e-3]))
    awaited = measurement(GPU, 0.2e-3, latencies=array("d", [0.3e-3]))
    found = record(gpu=awaited, transfer=moved, scope="call")
    diagnosis = find(found, usable=None, pool_threads=None)
    said = Page(text(run_of(replace(found, diagnosis=diagnosis)))).texts
    assert {"70 % of a call with them (700 us of 1.00 ms"} == {
        word.partition("the copies are ")[2].partition(",")[0] for word in said if "transfer-bound" in word
    }
    assert (
        "A call with its copies on the GPU takes 1.00 ms: call 300 us (30 %), copies 700 us (70 %)." in said
    )


def test_what_is_the_same_in_every_row_has_no_column_and_no_explanation():
    def columns(*records):
        return [each.get("class") for each in Page(text(run_of(*records))).all("th") if "data-key" in each]

    free = record(demand=Demand())
    assert [None, None, "CPU", "GPU", "speedup"] == columns(free)
    assert "change" in columns(record(comparisons=(comparison(),)))
    assert [None, None] == columns(skipped("a"))
    assert [None, None, "CPU", "GPU"] == columns(on_cpu_only(demand=Demand(min=3)))


def test_the_page_explains_the_words_that_stand_on_it_and_no_others():
    limits = {
        "": Demand(min=3),
        "always": Demand(min=3, transfer="always"),
        "once/N": Demand(min=3, transfer="once", calls=9),
        "latency": Demand(min=3, latency=True),
    }

    def explained(*records):
        caption = text(run_of(*records)).partition("<caption>")[2].partition("</caption>")[0]
        return re.findall("<i>(.*?)</i>", caption)

    for word, demand in limits.items():
        assert [word] * bool(word) == explained(record(demand=demand))
    assert ["eff."] == explained(scaled(4, 0.6, required=0.5))
    two = [record(demand=limits[word]) for word in ("latency", "always")]
    assert ["always", "latency"] == explained(*two)
    assert "<caption>" not in text(run_of(skipped("a")))
    assert "<caption>needs:" in text(run_of(on_cpu_only(demand=Demand(min=3))))
    unknown = speedup(low=None, high=None)
    of_copies = record(offload=offload(always=unknown))  # which have no column here
    assert [True, False] == [
        "? in a range" in text(run_of(each)) for each in (record(speedup=unknown), of_copies)
    ]


@pytest.mark.parametrize(
    ("says_how", "run"),
    [
        (True, run_of(skipped("a"), environment=NO_GPU)),
        (False, run_of(skipped("a"))),
        (False, run_of(record(), environment=NO_GPU)),
    ],
)
def test_the_page_of_a_run_without_a_gpu_says_how_to_see_verdicts(says_how, run):
    assert says_how == ("emulate it; <code>gpuperf devices</code>" in text(run))


@pytest.mark.parametrize(
    ("is_link", "address"),
    [(True, "https://github.com/x"), (True, "http://ci/7"), (False, "javascript:alert(1)"), (False, "//x")],
)
def test_only_an_address_of_the_web_is_a_link(is_link, address):
    run = run_of(record(), commit=Commit(id="0123456789abcdef", branch="main", url=address), job=address)
    shown = Page(text(run))
    assert [address] * 2 * is_link == [each["href"] for each in shown.all("a")]
    said = " ".join(shown.texts)
    assert "commit 0123456789ab of main" in said
    assert "run of 2026-01-01 00:00" in said


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("failed_expected", {**LIMITED, "expected_failure": True}),
        ("improved", {"comparisons": (comparison("improved"),)}),
        ("passed", {"comparisons": (comparison("new"),)}),  # which is no verdict of its own
    ],
)
def test_a_curve_and_the_row_of_its_last_test_have_the_same_verdict(code, changes):
    curve = scaling_curve()
    last = record(curve.points[-1].nodeid, **changes)
    assert 2 == len(
        re.findall(f'(?:<tr><td>|<h3>.*)<span class="v {code}">', text(run_of(last, scalings=(curve,))))
    )


def test_what_the_page_leaves_out_of_a_history_is_counted():
    runs = histories(*(history_of(2.0, 2.0, nodeid=f"a.py::test_{n}") for n in range(61)))
    rejected = {f"{number}<.txt": "it is no JSON" for number in range(21)}
    shown = Page(text(run_of(record()), replace(runs, rejected=rejected))).texts
    assert "The history has 1 more test;" in shown
    assert 60 == sum("speedup: changes are looked for" in each for each in shown)
    assert "it is no JSON" == shown[shown.index("19<.txt") + 1]
    assert "20<.txt" not in shown
    assert "and 1 more file" in shown


@pytest.mark.parametrize(
    ("said", "run"),
    [
        ("no test was measured", run_of()),
        ("CPU EPYC | GPU H200 through cupy | run of 2026-01-01 00:00", run_of()),
        ("| GPU none: no driver was found | run of", run_of(environment=NO_GPU)),
        ("machine busy: 1 of 2 tests; worst test_fft", run_of(record(interference=BUSY), record("test_b"))),
        (
            "whose median is many times its fastest block",
            run_of(record(interference=UNSEEN), record("test_b")),
        ),
    ],
)
def test_above_the_tests_the_page_says_what_all_of_them_ran_on(said, run):
    assert said in " ".join(Page(text(run)).texts)


def test_the_page_and_the_terminal_name_the_same_test_as_the_worst():
    """Of two that are as bad it is the first by name, and one without a row counts."""
    alike = replace(BUSY, own_share=0.0)
    marked = [record("test_b", interference=alike), record("test_a", **LIMITED, interference=alike)]
    fast, slow = (measurement(CPU, time) for time in (1e-3, 1.0))
    unmarked = [record(f"test_{n}", source="all", cpu=fast if n == 0 else slow) for n in range(21)]
    unmarked[0] = replace(unmarked[0], interference=alike)
    for expected, records in {"test_a": marked, "test_0": unmarked}.items():
        run = run_of(*records, unmarked=21)
        assert f"worst {expected}, which" in "".join(view.of(run).busy)
        assert view.of(run).busy == view.of(run, worst_first=True).busy


def listed(*records, **changes):
    """Return what stands above the tests of a page: titles, and the texts of their lists."""
    found = re.findall(
        r'<h2 id="list\d">(.*?)</h2>\s*<ol>(.*?)</section>', text(run_of(*records, **changes)), re.S
    )
    return {title: " ".join(re.sub("<.*?>", " ", body).split()) for title, body in found}


def worth(name, value, *, pays=None, **changes):
    """Return the record of a test that passed if it has a limit, and of which this is known to pay or not."""
    known = {"speedup": speedup(value, value, value), "offload": offload(worth=pays)}
    known |= {} if "demand" in changes else {"status": "recorded", "demand": Demand()}
    return record(f"test_a.py::{name}", **{**known, **changes})


PLAIN = [worth(f"test_{n}", 3.0) for n in range(11)]


def test_above_many_tests_the_page_lists_what_a_reader_would_act_on():
    slow = Diagnosis(code="launch_bound", sentence="launch-bound: the device worked 33 % of the time; fuse")
    records = [
        worth("test_slow", 2.0, demand=Demand(min=3), diagnosis=(slow,), **LIMITED),
        worth("test_near", 3.3, demand=Demand(min=3)),
        worth("test_far", 9.0, demand=Demand(min=3)),
        worth("test_lost", 0.5, pays=False, diagnosis=(slow,)),
        *(worth(f"test_won[{n}]", 10.0 + n, pays=True) for n in range(7)),
    ]
    assert {
        "Failed": "2.00x test_slow required &gt;=3x; launch-bound: the device worked 33 % of the time",
        "Close to their limits": "3.30x test_near required &gt;=3x",
        "Not worth moving to the GPU at 4 times the cost": "0.500x test_lost launch-bound: the device worked "
        "33 % of the time",
        "Largest gains": "16.0x test_won[6] 15.0x test_won[5] 14.0x test_won[4] 13.0x test_won[3] "
        "12.0x test_won[2] and 2 tests more",
    } == listed(*records, cost_ratio=4.0)


def test_a_list_that_says_nothing_is_not_there():
    assert {} == listed(*PLAIN) == listed(worth("test_won", 10.0, pays=True))
    assert ["Largest gains"] == [*listed(*PLAIN, worth("test_won", 10.0, pays=True))]


def test_a_commit_has_twelve_digits():
    content = text(run_of(record(), commit=Commit(id="0123456789ab" + 28 * "c")))
    assert "commit 0123456789ab |" in content


def test_text_of_strangers_stays_text():
    content = text(hostile_run())
    shown = Page(content)
    assert 1 == len(shown.all("script")) == len(shown.all("style"))
    assert not {"img", "iframe", "base", "object"} & {tag for tag, _ in shown.elements}
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


def test_the_page_of_many_tests_is_small():
    samples = [1e-3 * (1 + n / 1e3) for n in range(60)]
    cpu, gpu = measurement(GPU, *samples), measurement(GPU, *samples[::-1])
    known = {"cpu": cpu, "gpu": gpu, "comparisons": (comparison("new"),)}
    records = [record(f"tests/test_{n // 50}.py::test_some_name[{n}]", **known) for n in range(1500)]
    content = text(run_of(*records))
    assert len(content) < 3_000_000
    assert "<h1>Speedups: 1,500 of 1,500 as required</h1>" in content
    assert "80 tests have details here" in content
    assert 80 == content.count("To repeat this test")
