"""Markdown: what stands first, what is left out, and that nobody's text becomes mark-up."""

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
from strategies import HOSTILE

from pytest_gpuperf.model.comparison import Commit, GateNote, GateResult
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.offload import Diagnosis, Point
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.model.record import Environment, Note, Record, Run
from pytest_gpuperf.report import repeat
from pytest_gpuperf.report.markdown import SIGNATURE, code_span, plot_row, text
from pytest_gpuperf.report.scale import LogScale, speedup_axis

A_COMMENT = 65_536  # characters that GitHub takes
OF_TABLES = {"table", "thead", "tbody", "tr", "th", "td"}
OURS = {"h3", "p", "strong", "code", "ul", "li", "details", "summary", *OF_TABLES}
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
        (
            "### Speedups on an emulated device: 1 passed",
            run_of(record(gpu=measurement(EMULATED, 1e-3)), gpu=EMULATED),
        ),
    ],
)
def test_the_headline_is_no_greener_than_the_run(expected, run):
    assert expected == text(run).splitlines()[1]


MANY = [*(record(f"a[{n}]") for n in range(50)), skipped("b"), skipped("c")]
DOUBTS = [record(name, notes=(Note(code="aside_failed", text=f"doubt {name}"),)) for name in "xyz"]
FAILED = [failed(name, reason=f"{name} is slow") for name in "abcdefghijkl"]
LARGE = replace(HERE, packages={f"package{n}": "1.0" for n in range(40)})


@for_each(
    ("expected", "run"),
    [
        ("2 more tests are not in the table, only in the report: 2 skipped.", run_of(*MANY)),
        ("- 5 more notes in the report\n", run_of(*DOUBTS, *FAILED)),
        ("- 2 more thresholds in the report\n", run_of(record(), thresholds=(threshold(),) * 12)),
        ("- 10 more scaling lines in the report\n", run_of(record(), scalings=(scaling_curve(),) * 6)),
        ("- 1 more failure in the report\n", run_of(record(), gate=gate_result(*"abcdefghijk"))),
        ("- 10 more values in the report\n", run_of(record(), environment=LARGE)),
    ],
)
def test_what_does_not_fit_is_counted(expected, run):
    assert text(run).count(expected) == 1


def commands(run: Run) -> list[str]:
    """Return the commands that repeat what went wrong, in the order of the records."""
    return [
        repeat.command(run, each, repeat.last_sizes(run))
        for each in run.records
        if each.status == "failed" or any(one.outcome == "regressed" for one in each.comparisons)
    ]


def test_what_failed_or_regressed_comes_with_the_command_that_repeats_it():
    curve = (Point(size=1, nodeid="c", cpu=None, gpu=None),)
    missed = threshold("L", at_most=1, status="failed", reason="the GPU loses", curve=curve)
    lost = record("b", comparisons=(comparison(),))
    tests = [failed("a[1]"), record("fine"), lost, record("c")]
    found = text(run_of(*tests, thresholds=(missed,), arguments=("--gpuperf-gpu=sycl:cpu",)))
    lines = [f"pytest {name} --gpuperf-gpu=sycl:cpu\n" for name in ("b", "'a[1]'", "c")]
    assert f"Repeat what failed or regressed, in the root folder:\n\n```sh\n{''.join(lines)}```\n" in found
    assert "Repeat" not in text(run_of(record("fine")))


def test_of_many_commands_ten_whole_ones_are_shown_and_all_counted():
    found = text(run_of(*(failed(name) for name in ("a" * 400, *"bcdefghijklm"))))
    assert "Repeat what failed or regressed (10 of 13), in the root folder:" in found
    assert "aaaa\n" not in found


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
        ("···│··●·····················", 6, 6, 6, {}),
        ("·├─│─●┤·····················", 1, 5, 6, {}),
        ("···├─●┤·····················", 3, 5, 6, {}),
        ("···│║·├──●──┤···············", 6, 9, 12, {"min": 4}),
        ("···│··├║─●──┤···············", 6, 9, 12, {"min": 7}),
        ("···│··║──●──║···············", 6, 9, 12, {"min": 6, "max": 12}),
        ("···║··├──●──┤···············", 6, 9, 12, {"min": 3}),
        ("·├─║─●┤·····················", 1, 5, 6, {"min": 3}),
        ("◄──│──●──┤··················", None, 6, 9, {}),
        ("···│··├──●─────────────────►", 6, 9, None, {}),
        ("···│··├────────────────────●", 6, 40, 50, {}),
        ("●──┤························", -9, -9, 3, {}),
    ],
)
def test_a_row_shows_the_interval_beside_one_and_what_is_required(expected, low, value, high, demand):
    assert expected == plotted(low, value, high, **demand)


@for_each(
    ("expected", "power", "metric"),
    [
        ("···│··├──●──┤··○············", 15, "speedup"),
        ("···│··├──●─○┤···············", 11, "speedup"),
        ("···│··├──●──┤···············", 9, "speedup"),
        ("···│··├──●──┤···············", 15, "gpu_time"),
    ],
)
def test_a_row_shows_the_baseline_where_it_differs(expected, power, metric):
    one = comparison(metric=metric, baseline=estimate(at(power)))
    fast = record(speedup=speedup(at(9), at(6), at(12)), demand=Demand(), comparisons=(one,))
    assert expected == plot_row(fast, AXIS)


def test_all_rows_are_on_one_axis_with_one_and_the_limits_on_it():
    slow = record(speedup=speedup(0.5, 0.4, 0.6), demand=Demand(min=40))
    fast = record(speedup=speedup(20.0, 10.0, None))
    axis = speedup_axis([slow, fast, skipped("a")], 27)
    rows = [plot_row(each, axis) for each in (slow, fast, skipped("a"))]
    assert ["·├●┤··│···················║·", "······│·····║·····├───●────►", None] == rows


@for_each("value", [1e-300, 1e300])
def test_no_number_breaks_the_axis(value):
    one = record(speedup=speedup(value, value, value))
    assert len(plot_row(one, speedup_axis([one, record()], 27))) == 28


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
    note = Note(code="aside_failed", text=anything)
    return run_of(
        record("a"),
        failed(anything or "-", reason=anything),
        record("b", comparisons=(comparison("regressed", reason=anything),), notes=(note,)),
        environment=environment,
        started=anything,
        commit=Commit(id=anything, branch=anything),
        gate=gate_of(anything, lines),
        scalings=(scaling_curve(name=anything or "-"),),
    )


@given(st.sampled_from(TRAPS) | HOSTILE.filter(lambda text: len(printable(text)) <= 120))
def test_anybodys_text_is_code_wherever_it_can_stand_and_makes_no_element(anything):
    """What is longer is shortened, in a test of its own."""
    run = hostile(anything)
    found = text(run)
    found.encode()
    assert [] == [line for line in found.splitlines() if line != line.rstrip() or "\t" in line]
    shown = rendered(found)
    assert shown.elements <= OURS
    assert [f"{SIGNATURE}\n", "<details>\n<summary>Environment</summary>\n", "</details>\n"] == shown.raw
    (changes,) = shown.tables
    assert {8} == {len(row) for row in changes}
    short = [command for command in commands(run) if len(command) <= 400]
    assert sorted(short) == sorted("".join(shown.blocks).splitlines())
    assert {"verdict", "failed", "passed", "regressed"} == {row[-1] for row in changes}
    assert printable(anything).strip() in {span.strip() for span in shown.spans}


@given(HOSTILE)
def test_a_code_span_holds_its_text_and_nothing_else(anything):
    shown = rendered(f"before {code_span(anything)} after")
    assert [printable(anything).strip(" ")] == [span.strip(" ") for span in shown.spans]


@for_each("filler", ["|", "`", "\\", "x", "<", "\u202e", "\U0001f600"])
def test_the_longest_text_fits_a_comment(filler):
    long = filler * 2000
    huge = estimate(1e300, 1e300, 1e300)
    worse = comparison(reason=long, baseline=huge, ratio=huge)
    cause = Diagnosis(code="serial_part", sentence=long)
    points = tuple(replace(each, time=1e300, karp_flatt=huge) for each in scaling_curve().points)
    curve = scaling_curve(name=long, points=points * 20, diagnosis=(cause,) * 2)
    facts = {f"{long}{n}": long for n in range(100)}
    lines = (long,) * 100
    run = run_of(
        *(
            replace(failed(f"{long}{n}", f"{n}{long}"), speedup=speedup(*[1e300] * 3), comparisons=(worse,))
            for n in range(60)
        ),
        environment=replace(
            HERE, cpu=facts, gpu=replace(GPU, name=long, backend=long), python=long, packages=facts
        ),
        thresholds=(threshold(name=long, reason=long),) * 20,
        scalings=(curve,) * 20,
        gate=gate_of(long, lines),
        commit=Commit(id=long, branch=long),
    )
    assert len(text(run)) < A_COMMENT


def gate_of(name: str, texts: tuple[str, ...]) -> GateResult:
    """Return a gate with this text in every place."""
    notes = tuple(GateNote(code="baseline_stale", text=text) for text in texts)
    return gate_result(*texts, baseline=name, started=name, tolerances=(), notes=notes)
