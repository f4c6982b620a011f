"""Markdown: what stands first, what is left out, and that nobody's text becomes mark-up."""

import re
import shlex
from types import SimpleNamespace

import pytest
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
    scaled,
    scaling_curve,
    skipped,
    speedup,
    threshold,
    variants,
)
from golden import assert_golden, run_with_everything
from hostile import HOSTILE as TEXTS
from hostile import hostile_run
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from msgspec.structs import replace
from strategies import HOSTILE, shown

from pytest_gpuperf.model.comparison import Commit, GateNote
from pytest_gpuperf.model.demand import Demand, Pairing, SizeGroup
from pytest_gpuperf.model.offload import Diagnosis, Point
from pytest_gpuperf.model.record import Note, Record
from pytest_gpuperf.report.markdown import SIGNATURE, text

A_COMMENT = 65_536  # characters that GitHub takes
OF_TABLES = {"table", "thead", "tbody", "tr", "th", "td"}
OURS = {"h3", "p", "strong", "code", "ul", "li", "details", "summary", *OF_TABLES}
TRAPS = [trap for trap in TEXTS.values() if len(shown(trap)) <= 80]


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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    ("expected", "run"),
    [
        ("2 more tests are not in the table, only in the report: 2 skipped.", run_of(*MANY)),
        ("`doubt x (2 notes of this kind more)`\n", run_of(*DOUBTS)),
        ("- 5 more notes in the report\n", run_of(*DOUBTS, *FAILED)),
        ("- 2 more thresholds in the report\n", run_of(record(), thresholds=(threshold(),) * 12)),
        ("- 10 more scaling lines in the report\n", run_of(record(), scalings=(scaling_curve(),) * 6)),
        ("- 1 more failure in the report\n", run_of(record(), gate=gate_result(*"abcdefghijk"))),
        ("- 10 more values in the report\n", run_of(record(), environment=LARGE)),
    ],
)
def test_what_does_not_fit_is_counted(expected, run):
    assert text(run).count(expected) == 1


def commands(*records: Record, variables=None, **changes) -> list[str]:
    """Return the commands that repeat tests: those of `records`, if all failed."""
    run = run_of(*records, **changes)
    run = replace(run, environment=replace(run.environment, variables=variables))
    return text(run).partition("```sh\n")[2].partition("\n```")[0].split("\n")


def test_the_largest_size_of_a_threshold_that_failed_comes_with_the_command_that_repeats_it():
    curve = (Point(size=1, nodeid="c", cpu=None, gpu=None),)
    missed = threshold("L", at_most=1, status="failed", reason="the GPU loses", curve=curve)
    assert ["pytest a", "pytest c"] == commands(failed("a"), record("b"), record("c"), thresholds=(missed,))
    assert "Repeat" not in text(run_of(record("fine")))


def test_of_many_commands_ten_whole_ones_are_shown_and_all_counted():
    found = text(run_of(*(failed(name) for name in ("a" * 400, *"bcdefghijklm"))))
    assert "Repeat what failed or regressed (10 of 13), in the root folder:" in found
    assert "aaaa\n" not in found


STEP, STEP_COMMAND = (
    replace(scaled(4, 0.8), status="failed", reason="too slow"),
    "pytest 'a.py::test_step[4]'",
)
FFT = "tests/test_x.py::test_fft"
CPU_VARIANT, GPU_VARIANT = variants(FFT, status="failed", reason="too slow")


@pytest.mark.parametrize(
    ("expected", "records", "changes"),
    [
        # A scaling test has as many emulated devices.
        (STEP_COMMAND, [STEP], {}),
        (f"JAX_NUM_CPU_DEVICES=4 {STEP_COMMAND}", [STEP], {"variables": {"JAX_NUM_CPU_DEVICES": "4"}}),
        (
            f"JAX_NUM_CPU_DEVICES='$(x)' {STEP_COMMAND}",
            [STEP],
            {"variables": {"JAX_NUM_CPU_DEVICES": "$(x)"}},
        ),
        (f"pytest {FFT}", [failed(FFT)], {"variables": {"JAX_NUM_CPU_DEVICES": "4"}}),
        # A GPU variant comes with its CPU variant.
        (f"pytest '{FFT}[cpu]' '{FFT}[gpu]'", [CPU_VARIANT, GPU_VARIANT], {}),
        (f"pytest '{FFT}[cpu]'", [replace(CPU_VARIANT, status="failed", reason="too slow")], {}),
        # A node id is no option, and no file of arguments.
        (
            "pytest --pyargs 'package.test_fft::test[a.py::b]'",
            [failed("package.test_fft::test[a.py::b]#2")],
            {},
        ),
        ("pytest ./-x/test_a.py::test", [failed("-x/test_a.py::test")], {}),
        ("pytest ./@arguments", [failed("@arguments")], {}),
        # Options are those of ours, and a strict check allows that other tests do not run.
        *(
            (f"pytest {FFT} {expected}", [failed(FFT)], {"arguments": arguments})
            for expected, arguments in [
                ("--gpuperf-gpu=sycl:cpu", ("--gpuperf-gpu=sycl:cpu",)),
                ("--gpuperf-strict --gpuperf-allow=missing", ("--gpuperf-strict",)),
                ("--gpuperf-allow=missing --gpuperf-strict", ("--gpuperf-allow=missing", "--gpuperf-strict")),
                (
                    "--gpuperf-off",
                    ("-p", "--pdbcls=os:system", "; rm -rf /", "@file", "", "\n", "--gpuperf-off"),
                ),
            ]
        ),
    ],
)
def test_a_command_reaches_a_verdict_again_and_does_nothing_else(expected, records, changes):
    assert [expected] == commands(*records, **changes)


def test_the_size_with_the_verdict_of_the_threshold_is_repeated_with_the_others():
    sizes = SizeGroup(name=FFT, parameter="n", size=2, sizes=(1, 2))
    pairing = Pairing(kind="gpu", library="cupy", partner=f"{FFT}[numpy]")
    tests = (replace(failed(f"{FFT}[{size}]"), size_group=sizes, pairing=pairing) for size in (1, 2))
    curve = tuple(Point(size=size, nodeid=f"{FFT}[{size}]", cpu=None, gpu=None) for size in (1, 2))
    missed = threshold("L", name=FFT, at_most=1, status="failed", reason="too late", curve=curve)
    assert [f"pytest '{FFT}[numpy]' '{FFT}[1]'", f"pytest {FFT}"] == commands(*tests, thresholds=(missed,))


HARD = st.sampled_from(tuple("'\"\\`$!;&|<>*?[]{}()~# \n\r\t\x1b\x7f\u202e\udc80é😀09afnx"))


@given(st.lists(HARD, min_size=1, max_size=12).map("".join))
def test_a_shell_reads_one_word_and_shows_no_control_character(anything):
    (found,) = commands(failed(f"a{anything}"), arguments=(f"--gpuperf-gpu={anything}",))
    assert found.isprintable()
    expected = [
        re.sub(r"#\d+$", "", f"a{anything}"),
        f"--gpuperf-gpu={anything}",
    ]  # `#9` is a result's number
    assert [*map(shown, expected)] == shlex.split(found)[1:]


def at(power: float | None) -> float | None:
    """Return a ratio for about each column of the plot: a power of two."""
    return None if power is None else 2.0 ** (power - 3)


def plotted(low, value, high, baseline=None, metric="speedup", **limits) -> Record:
    """Return a test with these speedups, limits and this baseline, as columns of the plot."""
    told = " ".join(
        map(str, filter(None, (low, value, high, baseline and f"{baseline} of {metric}", limits)))
    )
    known = comparison("new", metric=metric, baseline=estimate(at(baseline))) if baseline else None
    return record(
        told,
        speedup=speedup(*map(at, (value, low, high))),
        demand=Demand(**{name: at(limit) for name, limit in limits.items()}),
        comparisons=(known,) if known else (),
    )


def test_a_row_shows_the_interval_beside_one_what_is_required_and_the_baseline_all_on_one_axis():
    rows = [
        *(plotted(6, 9, 12), plotted(6, 6, 6), plotted(1, 5, 6), plotted(3, 5, 6)),
        *(plotted(None, 6, 9), plotted(6, 9, None), plotted(-2, -2, 3), plotted(6, 22, 22)),
        *(
            plotted(6, 9, 12, min=4),
            plotted(6, 9, 12, min=7),
            plotted(6, 9, 12, min=3),
            plotted(1, 5, 6, min=3),
        ),
        plotted(6, 9, 12, min=6, max=12),
        *(plotted(6, 9, 12, each) for each in (15, 11, 9)),
        plotted(6, 9, 12, 15, "gpu_time"),
        *(plotted(None, power, None) for power in (-999, 999)),  # of a file that lies
        skipped("without a speedup"),
    ]
    lines = [line for line in text(run_of(*rows)).splitlines() if line.startswith("|")]
    cells = ([cell.strip(" `") for cell in line.split(" | ")] for line in lines)
    assert_golden("words/plot.txt", "".join(f"{row[4]}  {row[0].lstrip('| `')}\n" for row in cells))


@given(st.sampled_from(TRAPS) | HOSTILE.filter(lambda text: len(shown(text)) <= 80))
def test_anybodys_text_is_code_wherever_it_can_stand_and_makes_no_element(anything):
    """What is longer is shortened, in a test of its own."""
    found = text(hostile_run(anything))
    found.encode()
    assert [] == [line for line in found.splitlines() if line != line.rstrip() or "\t" in line]
    page = rendered(found)
    assert page.elements <= OURS
    folded = [f"<details>\n<summary>{each}</summary>\n" for each in ("Speedups taken apart", "Environment")]
    assert [f"{SIGNATURE}\n", folded[0], "</details>\n", folded[1], "</details>\n"] == page.raw
    (tests,) = page.tables
    assert {7} == {len(row) for row in tests}
    assert ["verdict", "failed", *["passed"] * 4, "skipped"] == [row[-1] for row in tests]
    (block,) = page.blocks
    assert all(line.isprintable() and line.startswith("pytest ") for line in block.splitlines())
    assert shown(anything or "-").strip() in {span.strip() for span in page.spans}


@pytest.mark.parametrize("filler", ["|", "`", "\u202e"])  # each of which is written as several letters
def test_the_longest_text_fits_a_comment(filler):
    long = filler * 2000
    huge = estimate(1e300, 1e300, 1e300)
    worse = comparison(reason=long, baseline=huge, ratio=huge)
    cause = Diagnosis(code="serial_part", sentence=long)
    points = tuple(replace(each, time=1e300, karp_flatt=huge) for each in scaling_curve().points)
    curve = scaling_curve(name=long, points=points * 20, diagnosis=(cause,) * 2)
    facts = {f"{long}{n}": long for n in range(100)}
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
        gate=gate_result(
            *[long] * 100, baseline=long, notes=(GateNote(code="baseline_stale", text=long),) * 100
        ),
        commit=Commit(id=long, branch=long),
    )
    assert len(text(run)) < A_COMMENT
