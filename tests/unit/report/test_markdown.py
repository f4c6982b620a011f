"""Markdown: what stands first, what is left out, and that nobody's text becomes mark-up."""

import re
from types import SimpleNamespace

from cases import for_each
from factories import (
    EMULATED,
    GPU,
    HERE,
    comparison,
    estimate,
    gate_result,
    measurement,
    record,
    run_of,
    scaling_curve,
    skipped,
    speedup,
    threshold,
)
from golden import assert_golden, run_with_everything
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from msgspec.structs import replace

from pytest_gpuperf.model.comparison import Commit, GateNote, GateResult
from pytest_gpuperf.model.demand import Demand, SizeGroup
from pytest_gpuperf.model.offload import Diagnosis, Point
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.model.record import Environment, Merged, Note, Record, Run
from pytest_gpuperf.report import repeat
from pytest_gpuperf.report.markdown import SIGNATURE, code_span, plot_axis, plot_row, text
from pytest_gpuperf.report.scale import LogScale

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


def failed(nodeid: str, reason="required at least 3x, speedup 2.1x [1.9, 2.3]") -> Record:
    return record(nodeid, status="failed", reason=reason)


def headline(run: Run) -> str:
    return text(run).splitlines()[1]


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


def test_a_run_with_everything_is_written_as_it_was():
    assert_golden("markdown.md", text(run_with_everything()))


@for_each(
    ("expected", "run"),
    [
        ("### Speedups: no test was measured", run_of()),
        ("### Speedups (none was measured): 1 skipped", run_of(skipped("a"))),
        ("### Speedups: the regression check failed, 1 passed", run_of(record(), gate=gate_result("why"))),
        (
            "### Speedups: 1 threshold failed, 1 passed",
            run_of(record(), thresholds=(threshold(status="failed", reason="late"),)),
        ),
        (
            "### Speedups on an emulated device: 1 passed",
            run_of(record(gpu=measurement(EMULATED, 1e-3)), gpu=EMULATED),
        ),
    ],
)
def test_the_headline_is_no_greener_than_the_run(expected, run):
    assert expected == headline(run)


def test_what_went_wrong_stands_first_and_of_that_what_misses_its_limit_most():
    run = run_of(
        skipped("skipped"),
        record("passed"),
        record("improved", comparisons=(comparison("improved"),)),
        record("in_doubt", comparisons=(comparison("inconclusive"),)),
        record("regressed", comparisons=(comparison("regressed", ratio=estimate(0.8)),)),
        replace(failed("close"), speedup=speedup(2.9, 2.8, 2.95)),
        replace(failed("far"), speedup=speedup(1.5, 1.4, 1.6)),
        record("error", status="error", reason="lost", speedup=None),
    )
    order = ["error", "far", "regressed", "close", "in_doubt", "improved", "passed", "skipped"]
    assert order == [row[0] for row in rows(run)]


def test_columns_that_no_test_needs_are_left_out():
    heading = rendered(text(run_of(record()))).tables[0][0]
    assert ["test", "CPU", "GPU", "speedup", "limit", "verdict"] == [*heading[:4], *heading[5:]]


def test_what_is_not_in_the_table_is_said_in_words():
    run = run_of(*(record(f"a[{n}]") for n in range(50)), skipped("b"), skipped("c"))
    assert "2 more tests are not in the table, only in the report: 2 skipped." in text(run)
    assert len(rows(run)) == 50


def test_tests_that_share_a_reason_are_named_together():
    found = text(run_of(*(skipped(f"a[{n}]") for n in range(100))))
    assert found.count("CuPy is not installed") == 1
    assert "- `a[0] and 99 more`: `no GPU: CuPy is not installed`" in found


def test_notes_are_cut_and_those_of_tests_that_failed_come_first():
    doubts = [record(f"a[{n}]", notes=(Note(code="traced", text=f"doubt {n}"),)) for n in range(20)]
    slow = [failed(name, reason=f"{name} is slow") for name in "".join(map(chr, range(97, 117)))]
    found = text(run_of(*doubts, *slow))
    assert 15 == found.count(" is slow`")
    assert "- 25 more notes are in the report" in found


def commands(run: Run) -> list[str]:
    """Return the commands that repeat what went wrong, in the order of the records."""
    return [
        repeat.command(run, each)
        for each in run.records
        if each.status == "failed" or any(one.outcome == "regressed" for one in each.comparisons)
    ]


def test_what_failed_or_regressed_comes_with_the_command_that_repeats_it():
    arguments = ("--gpuperf-gpu=sycl:cpu",)
    lost = record("b", comparisons=(comparison("regressed"),))
    run = run_of(failed("a[1]"), record("fine"), lost, arguments=arguments)
    block = "```sh\npytest b --gpuperf-gpu=sycl:cpu\npytest 'a[1]' --gpuperf-gpu=sycl:cpu\n```\n"
    assert f"Repeat what failed or regressed, in the root folder:\n\n{block}" in text(run)
    assert "Repeat" not in text(run_of(record("fine")))


def test_more_than_a_few_commands_are_folded_and_the_rest_is_counted():
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
    assert "\npytest a\n" in text(run_of(one, thresholds=(missed,)))
    assert "\npytest a" not in text(run_of(one, thresholds=(replace(missed, status="passed", reason=None),)))


def test_of_many_curves_of_scaling_those_that_failed_are_shown():
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
    found = [line for line in shown.splitlines() if line.startswith("- scaling of")]
    names = ["test_11", *(f"test_{number}" for number in range(4))]
    assert [f"- scaling of `{name} (strong)`" for name in names] == found
    assert "- 7 more curves of scaling are in the report" in shown


def test_of_a_long_curve_the_most_devices_are_shown():
    point = scaling_curve().points[-1]
    long = scaling_curve(points=tuple(replace(point, count=count) for count in range(1, 12)))
    shown = text(run_of(record(), scalings=(long,)))
    assert [7, 8, 9, 10, 11] == [int(count) for count in re.findall(r"`devices (\d+), ", shown)]
    assert "- 6 more numbers of devices are in the report" in shown


def test_a_plot_has_one_axis_for_all_tests_and_a_legend():
    run = run_of(record("a"), record("b", speedup=speedup(0.5, 0.4, None)), skipped("c"))
    heading, *found = rendered(text(run)).tables[0]
    assert heading[4].startswith("0.3")
    assert ["├", "►", "-"] == [next(mark for mark in "►├-" if mark in row[4]) for row in found]
    assert {28} == {len(row[4]) for row in (heading, *found[:2])}
    assert "`║` required" in text(run)
    assert "required" not in text(run_of(skipped("c", reason="no GPU")))


def test_no_line_ends_in_a_space_or_has_a_tab():
    found = text(run_of(failed("a"), record("b", comparisons=(comparison("regressed"),)), skipped("c")))
    assert [] == [line for line in found.splitlines() if line != line.rstrip() or "\t" in line]


AXIS = LogScale(0.125, 2.0**24 / 8, 27)  # a power of 2 for nearly each column


def at(power: float) -> float:
    """Return the value that lies in a column."""
    return AXIS.low * (AXIS.high / AXIS.low) ** (power / 27)


def plotted(low, value, high, **demand) -> str:
    ends = (None if end is None else at(end) for end in (low, high))
    one = record(speedup=speedup(at(value), *ends), demand=Demand(**{k: at(v) for k, v in demand.items()}))
    return plot_row(one, AXIS)


@for_each(
    ("expected", "low", "value", "high", "demand"),
    [
        ("···│··├──●──┤···············", 6, 9, 12, {}),
        ("···│··├──●──┤···············", 6, 9, 12, {}),
        ("···│··●·····················", 6, 6, 6, {}),
        ("·├─┼─●┤·····················", 1, 5, 6, {}),
        ("···├─●┤·····················", 3, 5, 6, {}),
        ("···│║·├──●──┤···············", 6, 9, 12, {"min": 4}),
        ("···│··├╫─●──┤···············", 6, 9, 12, {"min": 7}),
        ("···│··╟──●──╢···············", 6, 9, 12, {"min": 6, "max": 12}),
        ("···║··├──●──┤···············", 6, 9, 12, {"min": 3}),
        ("·├─╫─●┤·····················", 1, 5, 6, {"min": 3}),
        ("◄──┼──●──┤··················", None, 6, 9, {}),
        ("···│··├──●─────────────────►", 6, 9, None, {}),
        ("···│··├────────────────────●", 6, 40, 50, {}),
        ("●──┤························", -9, -9, 3, {}),
    ],
)
def test_a_row_shows_the_interval_beside_one_and_what_is_required(expected, low, value, high, demand):
    assert expected == plotted(low, value, high, **demand)


def test_a_row_shows_the_baseline_where_it_differs():
    def compared(power, metric="speedup"):
        one = comparison(metric=metric, baseline=estimate(at(power)))
        fast = record(speedup=speedup(at(9), at(6), at(12)), demand=Demand(), comparisons=(one,))
        return plot_row(fast, AXIS)

    assert "···│··├──●──┤··○············" == compared(15)
    assert "···│··├──●─○┤···············" == compared(11)
    assert "···│··├──●──┤···············" == compared(9)
    assert "···│··├──●──┤···············" == compared(15, metric="gpu_time")


def test_a_test_without_a_speedup_has_no_row():
    assert plot_row(skipped("a"), AXIS) is None


def test_all_rows_are_on_one_axis_with_one_and_the_limits_on_it():
    slow = record(speedup=speedup(0.5, 0.4, 0.6), demand=Demand(min=40))
    fast = record(speedup=speedup(20.0, 10.0, None))
    axis = plot_axis([slow, fast, skipped("a")])
    assert axis.low < 0.4 < 40 < axis.high
    rows = [plot_row(each, axis) for each in (slow, fast)]
    assert ["·├●┤··│···················║·", "······│·····║·····├───●────►"] == rows


def test_no_number_breaks_the_axis():
    for value in (1e-300, 1e300):
        one = record(speedup=speedup(value, value, value))
        axis = plot_axis([one, record()])
        assert len(plot_row(one, axis)) == 28


def hostile(anything: str) -> Run:
    """Return the run that has a text in every place where somebody's text can stand."""
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
        merged=Merged(reports=(), differences=lines),
        scalings=(scaling_curve(name=anything or "-"),),
    )


@for_each("trap", TRAPS)
def test_anybodys_text_is_shown_as_it_is(trap):
    assert_literal(hostile(trap), trap)


@given(HOSTILE)
def test_no_text_becomes_markup(anything):
    assert_literal(hostile(anything), anything)


def assert_literal(run: Run, anything: str) -> None:
    """Everywhere where somebody's text can stand it is code, and no element is made of it."""
    found = text(run)
    found.encode()
    shown = rendered(found)
    assert shown.elements <= OURS
    assert [f"{SIGNATURE}\n", "<details>\n<summary>Environment</summary>\n", "</details>\n"] == shown.raw
    changes, facts = shown.tables
    assert {8} == {len(row) for row in changes}
    short = [command for command in commands(run) if len(command) <= 300]
    assert sorted(short) == sorted("".join(shown.blocks).splitlines())
    assert {"verdict", "failed", "passed", "regressed"} == {row[-1] for row in changes}
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
    diagnosis = Diagnosis(code="serial_part", sentence=long)
    points = tuple(replace(point, time=1e300, karp_flatt=huge) for point in scaling_curve().points)
    curve = scaling_curve(name=long, points=points * 20, diagnosis=(diagnosis,) * 2)
    run = run_of(
        *many,
        environment=environment,
        scalings=(curve,) * 20,
        gate=gate_of(long, lines),
        merged=Merged(reports=(), differences=lines),
        commit=Commit(id=long, branch=long),
    )
    assert len(text(run)) < A_COMMENT


def gate_of(name: str, texts: tuple[str, ...]) -> GateResult:
    """Return a gate with this text in every place."""
    notes = tuple(GateNote(code="baseline_stale", text=text) for text in texts)
    return gate_result(*texts, baseline=name, started=name, tolerances=(), notes=notes)
