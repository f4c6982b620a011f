"""Markdown: what stands first, what is left out, and that nobody's text becomes mark-up."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from cases import for_each
from factories import (
    EMULATED,
    GPU,
    HERE,
    comparison,
    estimate,
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
    within,
)
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from pytest_gpuperf.analysis.scaling import curves
from pytest_gpuperf.model.comparison import Commit, GateNote, GateResult
from pytest_gpuperf.model.demand import Demand, SizeGroup, UnknownValue
from pytest_gpuperf.model.measurement import Estimate
from pytest_gpuperf.model.offload import Diagnosis, GpuLimits, Point
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.model.record import Environment, Merged, Note, Record, Run
from pytest_gpuperf.report.markdown import code_span, text
from pytest_gpuperf.report.repeat import Repeater

A_COMMENT = 65_536  # characters that GitHub takes
OURS = {
    "h3",
    "p",
    "strong",
    "code",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "ul",
    "li",
    "details",
    "summary",
}
HARD = st.sampled_from(tuple("|`\\<>&@#*_[]()!~$: \n\r\t\x1b\ud800\u202e"))
HOSTILE = (
    st.lists(HARD | st.characters(), max_size=80)
    .map("".join)
    .filter(lambda text: len(printable(text)) <= 120)  # what is longer is shortened, in a test of its own
)
TRAPS = [
    "<img src=x onerror=alert(1)>",
    "a|b|c",
    "a\\|b",
    "ends in a backslash\\",
    "`ticks`",
    "``` `` `",
    "`",
    "@octocat and #1 and GH-2",
    "https://example.org www.example.org me@example.org",
    "[link](https://example.org) ![image](x) [^1]",
    "line\nbreak\r\n\n# heading",
    "\x1b[31mred\x1b[0m",
    "\ud800 alone",
    "</details></table><h1>",
    "<!-- comment",
    ":smile: $x$ ~~gone~~ **bold** _it_",
    "\u202ereversed",
    " spaces ",
    "",
]


@pytest.fixture(scope="module")
def failed():
    """Make the record of a test that failed."""

    def call(nodeid: str, reason="required at least 3x, speedup 2.1x [1.9, 2.3]") -> Record:
        return record(nodeid, status="failed", reason=reason)

    return call


def headline(run: Run) -> str:
    return text(run).splitlines()[0]


def rows(run: Run) -> list[list[str]]:
    """Return the cells of the first table as a reader of Markdown sees them, without its headings."""
    table = rendered(text(run)).tables[0]
    return table[1:]


PARSER = MarkdownIt("gfm-like", {"html": True})


def rendered(markdown: str) -> SimpleNamespace:
    """Return what a renderer of GitHub's Markdown with raw HTML makes of it: elements, tables and code."""
    elements, tables, spans, raw, blocks = set(), [], [], [], []
    for token in PARSER.parse(markdown):
        elements.add(token.tag)
        raw += [token.content] if token.type == "html_block" else []
        blocks += [token.content] if token.type == "fence" else []
        if token.type == "table_open":
            tables.append([])
        elif token.type == "tr_open":
            tables[-1].append([])
        for child in token.children or ():
            elements.add(child.tag)
            raw += [child.content] if child.type == "html_inline" else []
            spans += [child.content] if child.type == "code_inline" else []
        if token.type == "inline" and token.level == 4 and tables:
            tables[-1][-1].append("".join(child.content for child in token.children))
    return SimpleNamespace(elements=elements - {""}, tables=tables, spans=spans, raw=raw, blocks=blocks)


def test_the_headline_counts_what_failed_and_changed_first(failed):
    found = headline(
        run_of(
            record("a"),
            skipped("b"),
            record("c", comparisons=(comparison("improved"),)),
            failed("d"),
            record("e", comparisons=(comparison("regressed"),)),
            record("f", comparisons=(comparison("inconclusive"),)),
            record("g", comparisons=(comparison("not_comparable"),)),
            record("h", status="error", reason="lost", speedup=None),
        )
    )
    assert (
        "### Speedups: 1 failed, 1 error, 1 regressed, 1 improved, 1 inconclusive, 1 not comparable, "
        "1 passed, 1 skipped" == found
    )


def test_a_failed_gate_and_failed_thresholds_stand_in_the_headline():
    late = threshold(
        at_most=100.0,
        status="failed",
        reason="the GPU wins from n = 4096 on, required at most 100",
        largest_not_won=2048.0,
        smallest_won=4096.0,
    )
    run = run_of(record(), gate=gate_result("nothing was compared"), thresholds=(late,))
    assert headline(run) == "### Speedups: the regression check failed, 1 threshold failed, 1 passed"
    assert "**The regression check failed:**\n\n- `nothing was compared`" in text(run)
    assert "the GPU wins from n = 4096 on, required at most 100" in text(run)


def test_a_run_without_tests_or_without_speedups_is_not_green():
    assert headline(run_of()) == "### Speedups: no test was measured"
    assert "**No speedup was measured.**" in text(run_of(skipped("a")))
    assert "No speedup" not in text(run_of(record()))


def test_tests_on_unknown_devices_are_counted():
    values = (
        UnknownValue(parameter="backend", value="'dask'", tests=2),
        UnknownValue(parameter="xp", value="'a|b`'"),
    )
    said = (
        "Left alone: 3 tests on devices that are not known (`backend='dask'`, ``xp='a|b`'``); "
        "gpuperf_device_values can map them."
    )
    assert said in text(run_of(record(), unknown_values=values)).splitlines()
    many = tuple(UnknownValue(parameter="xp", value=str(index)) for index in range(9))
    assert text(run_of(record(), unknown_values=many)).count("`xp=") == 6


def test_without_a_gpu_the_table_says_what_a_call_may_take_on_one():
    limited = on_cpu_only(GpuLimits(demand=4e-3, price=None), Demand(min=3))
    shown = text(run_of(limited, gpu=None))
    assert "| needs 4.00 ms |" in shown
    assert "after <=" not in text(run_of(record()))


def test_failures_and_regressions_stand_first_and_skipped_tests_last(failed):
    run = run_of(
        skipped("skipped"),
        record("passed"),
        record("improved", comparisons=(comparison("improved"),)),
        record("in_doubt", comparisons=(comparison("inconclusive"),)),
        record("regressed", comparisons=(comparison("regressed"),)),
        failed("failed"),
    )
    assert ["regressed", "failed", "in_doubt", "improved", "passed", "skipped"] == [
        row[0] for row in rows(run)
    ]


def test_a_row_holds_times_speedup_demand_baseline_and_verdict():
    run = run_of(record(comparisons=(comparison("not_regressed"), comparison("regressed"))))
    assert [
        "test_fft",
        "20.0 ms",
        "1.75 ms",
        "10.0x [9.00, 11.0]",
        "·│··········║··········├●┤○·",
        ">=3x",
        "12.5x",
        "-20.0 % [-30.0, -10.0]",
        "passed, regressed",
    ] == rows(run)[0]


@for_each(
    ("expected", "metric", "baseline"),
    [
        ("GPU 1.23 ms", "gpu_time", 1.23e-3),
        ("CPU 1.23 ms", "cpu_time", 1.23e-3),
        ("memory 4.19 MB", "memory", 4.19e6),
        ("with copies 2.50x", "with_copies", 2.5),
        ("latency 2.50x", "latency", 2.5),
    ],
)
def test_a_baseline_has_its_metric_and_its_unit(expected, metric, baseline):
    estimate = Estimate(value=baseline, low=None, high=None)
    one = comparison("regressed", metric=metric, baseline=estimate)
    assert expected == rows(run_of(record(comparisons=(one,))))[0][6]


def test_columns_that_no_test_needs_are_left_out():
    assert "limit" not in text(run_of(record(demand=Demand())))
    assert "baseline" not in text(run_of(record()))


def test_what_is_not_in_the_table_is_said_in_words():
    run = run_of(*(record(f"a[{n}]") for n in range(50)), skipped("b"), skipped("c"))
    assert "2 more tests are not in the table, only in the report: 2 skipped." in text(run)
    assert len(rows(run)) == 50


def test_tests_that_share_a_reason_are_told_once():
    found = text(run_of(*(skipped(f"a[{n}]") for n in range(100))))
    assert found.count("CuPy is not installed") == 1
    assert "- `a[0]` and 99 more: `no GPU: CuPy is not installed`" in found


def test_reasons_of_regressions_and_failures_are_told(failed):
    found = text(
        run_of(failed("a"), record("b", comparisons=(comparison("regressed", reason="20 % slower"),)))
    )
    assert "- `a`: `required at least 3x, speedup 2.1x [1.9, 2.3]`" in found
    assert "- `b`: `20 % slower`" in found


def commands(run: Run) -> list[str]:
    """Return the commands that repeat what went wrong, in the order of the records."""
    return [
        Repeater(run).command(each)
        for each in run.records
        if each.status == "failed" or any(one.outcome == "regressed" for one in each.comparisons)
    ]


def test_what_failed_or_regressed_comes_with_the_command_that_repeats_it(failed):
    arguments = ("--gpuperf-gpu=sycl:cpu",)
    lost = record("b", comparisons=(comparison("regressed"),))
    run = run_of(failed("a[1]"), record("fine"), lost, arguments=arguments)
    block = "```sh\npytest 'a[1]' --gpuperf-gpu=sycl:cpu\npytest b --gpuperf-gpu=sycl:cpu\n```\n"
    assert f"Repeat what failed or regressed, in the root folder:\n\n{block}" in text(run)
    assert "Repeat" not in text(run_of(record("fine")))


def test_more_than_a_few_commands_are_folded_and_the_rest_is_counted(failed):
    many = [failed(f"a[{n}]") for n in range(4)]
    assert "<details>\n<summary>Repeat what failed or regressed, in the root folder</summary>" in text(
        run_of(*many)
    )
    many += [failed(f"a[{n}]") for n in range(4, 9)] + [failed("a" * 300), failed("b"), failed("c")]
    found = text(run_of(*many))
    assert "<summary>Repeat what failed or regressed (10 of 12), in the root folder</summary>" in found
    assert "aaaa\n" not in found


def test_the_size_with_the_verdict_of_a_failed_threshold_is_repeated():
    one = record("a[1]", size_group=SizeGroup(name="a", parameter="n", size=1, sizes=(1,)))
    curve = (Point(size=1, nodeid="a[1]", cpu=None, gpu=None),)
    missed = threshold("L", name="a", at_most=1, status="failed", reason="the GPU loses", curve=curve)
    assert "pytest 'a[1]'" in text(run_of(one, thresholds=(missed,)))
    assert "pytest" not in text(run_of(one, thresholds=(replace(missed, status="passed", reason=None),)))


def test_curves_of_scaling_are_a_table_and_what_holds_them_back():
    records = [scaled(1), scaled(2, 0.99), scaled(4, 0.6, required=0.5)]
    shown = text(run_of(*records, scalings=curves(records)))
    _, (heading, *found), _ = rendered(shown).tables
    assert ["scaling", "devices", "time", "speedup", "efficiency", "Karp-Flatt"] == heading
    assert ["a.py::test_step (strong), required efficiency 0.5", "1", "12.0 ms", *"---"] == found[0]
    assert ["", "4", "5.00 ms", "2.40x", "0.60 [0.54, 0.66]", "0.222 [0.172, 0.284]"] == found[-1]
    assert 3 == len(found)
    assert "- `a.py::test_step`: `the share of the work that the devices do not divide grows" in shown
    assert "No speedup" not in shown
    assert "scaling" not in text(run_of(record()))


def test_of_many_curves_of_scaling_those_that_failed_are_in_the_table():
    points = scaling_curve().points
    of = {
        name: scaling_curve(name=name, points=tuple(replace(each, nodeid=name) for each in points))
        for name in (f"test_{number}" for number in range(12))
    }
    run = run_of(
        *(record(name, status="failed" if name == "test_11" else "passed") for name in of),
        scalings=tuple(of.values()),
    )
    shown = text(run)
    _, found, _ = rendered(shown).tables
    assert ["test_11 (strong)", *(f"test_{number} (strong)" for number in range(4))] == [
        row[0] for row in found[1:] if row[0]
    ]
    assert "- 7 more curves of scaling are in the report" in shown


def test_of_a_long_curve_the_most_devices_are_in_the_table():
    point = scaling_curve().points[-1]
    long = scaling_curve(points=tuple(replace(point, count=count) for count in range(1, 12)))
    shown = text(run_of(record(), scalings=(long,)))
    _, found, _ = rendered(shown).tables
    assert [f"{count}" for count in range(6, 12)] == [row[1] for row in found[1:]]
    assert "- 5 more numbers of devices are in the report" in shown


def test_a_plot_has_one_axis_for_all_tests_and_a_legend():
    run = run_of(record("a"), record("b", speedup=speedup(0.5, 0.4, None)), skipped("c"))
    heading, *found = rendered(text(run)).tables[0]
    assert heading[4].startswith("0.3")
    assert ["├", "►", "-"] == [next(mark for mark in "►├-" if mark in row[4]) for row in found]
    assert {28} == {len(row[4]) for row in (heading, *found[:2])}
    assert "`║` required" in text(run)
    assert "required" not in text(run_of(skipped("c", reason="no GPU")))


def test_no_line_ends_in_a_space_or_has_a_tab(failed):
    found = text(run_of(failed("a"), record("b", comparisons=(comparison("regressed"),)), skipped("c")))
    assert [] == [line for line in found.splitlines() if line != line.rstrip() or "\t" in line]


def test_a_failure_that_an_xfail_expects_says_so(failed):
    worse = record("b", comparisons=(comparison("regressed", reason="20 % slower"),), expected_failure=True)
    run = run_of(replace(failed("a"), expected_failure=True), worse, failed("c"))
    assert "1 failed, 1 failed (expected), 1 regressed (expected)" in headline(run)
    assert ["failed", "failed (expected)", "passed, regressed (expected)"] == [row[-1] for row in rows(run)]


def test_each_test_s_own_reason_comes_before_the_doubts_of_any(failed):
    doubts = tuple(Note(code="noisy", text=f"doubt {number}") for number in range(20))
    slow = [replace(failed(name), reason=f"{name} is slow", notes=doubts) for name in "abc"]
    worse = record("d", comparisons=(comparison("regressed", reason="d got worse"),), notes=doubts)
    shown = text(run_of(*slow, worse))
    places = [shown.index(said) for said in ("a is slow", "b is slow", "c is slow", "d got worse", "doubt 0")]
    assert places == sorted(places)
    assert "9 more reasons are in the report" in shown


def test_an_emulated_device_is_never_called_a_gpu():
    run = run_of(record(gpu=measurement(EMULATED, 1e-3)), gpu=EMULATED)
    assert headline(run).startswith("### Speedups on an emulated device: ")
    assert "**1 test was measured on an emulated device: this is not a GPU's speedup.**" in text(run)
    assert "emulated" not in text(run_of(record()))


def test_a_run_that_ended_early_says_so():
    assert "**The run ended early: this is not all of it.**" in text(run_of(record(), complete=False))


def test_runs_that_were_merged_say_how_they_differ():
    merged = Merged(reports=("a", "b"), hosts_differ=True, differences=("python: 3.11, 3.12",))
    assert "- `python: 3.11, 3.12`" in text(run_of(record(), merged=merged))


def test_the_gate_says_what_it_compared_with_and_what_fails():
    gate = gate_result(
        baseline="old.json",
        started="then",
        tolerances=(within(), within(0.025, "gpu_time")),
        notes=(GateNote(code="tests_skipped", text="3 tests are new"),),
    )
    found = text(run_of(record(), gate=gate))
    assert (
        "Compared with `old.json` of `then`; worse by more than speedup 10 %, gpu_time 2.5 % fails." in found
    )
    assert "- `3 tests are new`" in found
    assert "There is no baseline" in text(run_of(record(), gate=replace(gate, baseline=None)))


def test_the_commit_is_named():
    commit = Commit(id="abc123", branch="main", changed=True)
    found = text(run_of(record(), commit=commit))
    assert "commit `abc123` of `main`, with files that differ from it" in found


def test_the_environment_is_folded():
    found = text(run_of(record()))
    inside = found.partition("<details>\n<summary>Environment</summary>\n\n")[2].partition("\n\n</details>")[
        0
    ]
    assert "| `python` | `3.11.7` |" in inside
    assert "| `host name` | `runner` |" in inside


@pytest.fixture(scope="module")
def hostile(failed):
    """Make the run that has a text in every place where somebody's text can stand."""

    def call(anything: str) -> Run:
        environment = Environment(
            host={anything: anything},
            cpu={"name": anything},
            gpu=replace(GPU, name=anything, backend=anything),
            gpu_reason=anything,
            python=anything,
            packages={anything: anything},
            variables={anything: anything},
        )
        lines = (anything,)
        note = Note(code="traced", text=anything)
        return run_of(
            record("a"),
            failed(anything or "-", reason=anything),
            record("b", comparisons=(comparison("regressed", reason=anything),), notes=(note,)),
            environment=environment,
            started=anything,
            commit=Commit(id=anything, branch=anything),
            gate=gate_of(anything, lines),
            merged=Merged(reports=(), hosts_differ=None, differences=lines),
            scalings=(scaling_curve(name=anything or "-"),),
        )

    return call


@for_each("trap", TRAPS)
def test_anybodys_text_is_shown_as_it_is(hostile, trap):
    assert_literal(hostile(trap), trap)


@given(HOSTILE)
def test_no_text_becomes_markup(hostile, anything):
    assert_literal(hostile(anything), anything)


def assert_literal(run: Run, anything: str) -> None:
    """Everywhere where somebody's text can stand it is code, and no element is made of it."""
    found = text(run)
    found.encode()
    shown = rendered(found)
    assert shown.elements <= OURS
    assert ["<details>\n<summary>Environment</summary>\n", "</details>\n"] == shown.raw
    changes, scaling, facts = shown.tables
    assert [{9}, {6}] == [{len(row) for row in table} for table in (changes, scaling)]
    short = [command for command in commands(run) if len(command) <= 300]
    assert shown.blocks == ["".join(f"{command}\n" for command in short)]
    assert {"verdict", "failed", "passed", "passed, regressed"} == {row[-1] for row in changes}
    assert {name.strip(): value.strip() for name, value in facts}["python"] == printable(anything).strip()
    assert printable(anything).strip() in {span.strip() for span in shown.spans}


@given(HOSTILE)
def test_a_code_span_holds_its_text_and_nothing_else(anything):
    shown = rendered(f"before {code_span(anything)} after")
    assert [printable(anything).strip(" ")] == [span.strip(" ") for span in shown.spans]


@for_each("filler", ["|", "`", "\\", "x", "<", "\u202e", "\U0001f600"])
def test_the_longest_text_fits_a_comment(filler):
    long = filler * 2000
    huge = estimate(1e300, 1e300, 1e300)
    many = [
        record(
            f"{long}{n}",
            status="failed",
            reason=f"{n}{long}",
            speedup=speedup(1e300, 1e300, 1e300),
            comparisons=(comparison("regressed", reason=f"{long}{n}", baseline=huge, ratio=huge),),
        )
        for n in range(30)
    ]
    environment = replace(
        HERE,
        cpu={"name": long},
        gpu=replace(GPU, name=long, backend=long),
        gpu_reason=long,
        python=long,
        packages={f"{long}{n}": long for n in range(100)},
    )
    lines = tuple(long for _ in range(100))
    diagnosis = Diagnosis(code="serial_part", sentence=long, numbers={})
    points = tuple(replace(point, time=1e300, karp_flatt=huge) for point in scaling_curve().points)
    curve = scaling_curve(name=long, points=points * 20, diagnosis=(diagnosis,) * 2)
    run = run_of(
        *many,
        environment=environment,
        scalings=(curve,) * 20,
        gate=gate_of(long, lines),
        merged=Merged(reports=(), hosts_differ=None, differences=lines),
        commit=Commit(id=long, branch=long),
    )
    assert len(text(run)) < A_COMMENT


def gate_of(name: str, texts: tuple[str, ...]) -> GateResult:
    """Return a gate with this text in every place."""
    notes = tuple(GateNote(code="baseline_stale", text=text) for text in texts)
    return gate_result(*texts, baseline=name, started=name, tolerances=(), notes=notes)
