"""Terminal: the section's lines, their columns and width, and how many of them there are."""

from time import process_time

from cases import for_each
from factories import (
    comparison,
    offload,
    record,
    run_of,
    scaling_curve,
    skipped,
    speedup,
    threshold,
    variants,
)
from golden import assert_golden, run_with_everything
from msgspec.structs import replace

from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.record import Note
from pytest_gpuperf.report.names import columns
from pytest_gpuperf.report.text import section

WIDTHS = [60, 80, 100, 120, 200]
LONGEST = "tests/" + "very/" * 20 + "test_" + "long_" * 30 + "name.py::test_" + "long_" * 30 + "end"
IN_DOUBT = "in doubt " * 30
WIDE = [
    record(LONGEST),
    record("test_x.py::test_x[" + "float32-" * 30 + "1048576]"),
    record("test_y.py::test_y[行列の積]" * 3),
    record("a", status="inconclusive", reason=IN_DOUBT, demand=Demand(min=2.5, max=100)),
    record("b", status="inconclusive", reason="in doubt", speedup=speedup(12.3, 10.1, 15.2)),
    record("c", speedup=speedup(123456.0, 12345.0, 1234567.0), demand=Demand(min=0.333333)),
    record("d", speedup=speedup(12.3, None, None), offload=offload(always=speedup())),
    record("e", status="error", reason="x" * 300, speedup=None),
    record("f", status="failed", reason="?", reason_code="devices_disagree", expected_failure=True),
    record("g", notes=(Note(code="aside_failed", text="dependent samples: " + "lag-1 " * 40),)),
    record("h", comparisons=(comparison("not_comparable", ratio=None),)),
    record("i", source="all"),
    skipped(LONGEST + "[1]", "no GPU library is installed; " * 5),
]


def lines(*records, width=80, all_notes=True, **changes):
    return [str(line) for line in section.lines(run_of(*records, **changes), width, all_notes=all_notes)]


def noted(number, text="doubt"):
    return [
        record(f"test_{n}", notes=(Note(code="aside_failed", text=f"{text} {n}"),)) for n in range(number)
    ]


def failed(number):
    return [record(f"test_{n}", status="failed", reason=f"slow {n}") for n in range(number)]


@for_each("width", WIDTHS)
def test_a_run_with_everything_looks_at_each_width_as_it_did(width):
    shown = section.lines(run_with_everything(), width)
    assert_golden(f"terminal-{width}.txt", "".join(f"{line}\n" for line in shown))


def test_with_all_notes_it_looks_as_it_did():
    shown = section.lines(run_with_everything(), 80, all_notes=True)
    assert_golden("terminal-all-notes.txt", "".join(f"{line}\n" for line in shown))


@for_each("width", WIDTHS)
def test_no_line_is_wider_than_the_terminal(width):
    thresholds, scalings = (threshold(name=LONGEST),), (scaling_curve(name=LONGEST),)
    changes = {"unmarked": 1, "thresholds": thresholds, "scalings": scalings}
    hostile = replace(run_of().environment, cpu={"name": "\x1b[31m" * 30})  # escapes are longer
    for records in (*([each] for each in WIDE), WIDE):
        for all_notes in (False, True):
            shown = lines(*records, width=width, all_notes=all_notes, environment=hostile, **changes)
            assert [line for line in shown if columns(line) > width] == []
    assert [line for line in section.changes(WIDE, width) if columns(line) > width] == []


@for_each("width", WIDTHS)
def test_with_all_notes_every_test_is_named_in_full_and_every_value_shown(width):
    others = [record(f"tests/test_other.py::test_other[{n}]") for n in range(3)]
    for each in WIDE:
        shown = "".join(line.strip() for line in lines(*others, each, width=width))
        function, bracket, parameters = each.nodeid.rpartition("::")[2].partition("[")
        assert function in shown
        assert bracket + parameters in shown
    values = " ".join(lines(*WIDE, width=width))
    for value in ("20.0 ms", "1.75 ms", "10.0x", "2.5..100x", "differs", "failed (expected)"):
        assert value in values


def test_names_that_would_be_one_when_cut_are_whole():
    alike = [record(f"test_{'b' * 30}{letter}{'e' * 30}") for letter in "xy"]
    assert all(each.nodeid in lines(*alike, all_notes=False) for each in alike)


def test_the_cause_of_a_verdict_makes_no_other_row_wider_and_stands_where_it_fits():
    known = record(
        "a", status="failed", reason="?", reason_code="devices_disagree", offload=offload(always=speedup())
    )
    for width, said in ((80, "failed"), (100, "failed: results differ")):
        assert lines(known, width=width)[3].endswith(f"  >=3x  {said}")


def test_of_many_or_long_notes_the_first_are_shown_and_the_others_counted():
    few = [*(f"test_{n}: slow {n}" for n in range(10)), "3 more notes: pytest -v"]
    assert few == lines(*failed(12), skipped("none"), all_notes=False)[-12:-1]
    assert "test_0: doubt 0 (11 notes of this kind more)" in lines(*noted(12), all_notes=False)
    long = noted(1, "word " * 50)
    cut = [line for line in lines(*long, all_notes=False) if "word" in line]
    assert (3, True) == (len(cut), cut[-1].endswith("word ..."))
    assert "1 more note: pytest -v" in lines(*long, all_notes=False)
    assert 12 == sum("doubt" in line for line in lines(*noted(12)))
    assert 4 == sum("word" in line for line in lines(*long))


@for_each(
    ("verdict", "colour", "changes"),
    [
        ("passed", "green", {}),
        ("recorded", None, {"status": "recorded"}),
        ("failed", "red", {"status": "failed"}),
        ("error", "red", {"status": "error"}),
        ("inconclusive", "yellow", {"status": "inconclusive"}),
        ("skipped", "yellow", {"status": "skipped"}),
        ("failed (expected)", "yellow", {"status": "failed", "expected_failure": True}),
        ("regressed", "red", {"comparisons": (comparison(),)}),
        ("regressed (expected)", "yellow", {"comparisons": (comparison(),), "expected_failure": True}),
    ],
)
def test_the_verdict_alone_has_a_colour(verdict, colour, changes):
    reason = None if changes.get("status", "passed") in ("passed", "recorded") else "why"
    shown = section.lines(run_of(record("test_fft", **{"reason": reason, **changes})), 120)
    row = next(line for line in shown if line.text.startswith("test_fft "))
    assert (verdict, colour) == (row.verdict, row.colour)
    assert {None} == {line.colour for line in shown if line is not row}


def test_without_records_nothing_is_shown():
    assert [] == lines() == list(section.short_lines(run_of(), 80))


@for_each(
    ("expected", "records"),
    [
        ([], [record("a"), record("b")]),  # pytest says how many passed
        ([], [skipped("a"), skipped("b")]),
        (["verdicts: 1 passed, 1 recorded"], [record("a"), record("b", status="recorded", demand=Demand())]),
    ],
)
def test_verdicts_are_counted_where_pytest_does_not_do_so(expected, records):
    assert expected == [line for line in lines(*records) if line.startswith("verdicts")]


def test_below_the_changes_is_what_their_numbers_do_not_say():
    unlike = comparison("not_comparable", ratio=None, reason="another machine")
    found = [record("a", comparisons=(unlike,)), record("b", comparisons=(comparison("inconclusive"),))]
    shown = [*section.changes([*found, record("c", comparisons=(comparison(),))], 80)]
    assert ["", "a: another machine", "b: it inconclusive"] == shown[-3:]


def test_in_short_verdicts_are_counted_and_failures_explained():
    slow = record("slow", status="failed", reason="too slow", restart_reason="other work")
    known = replace(slow, nodeid="known", expected_failure=True)
    missed = threshold(status="failed", reason="too large")
    run = run_of(
        *variants(), *noted(1), known, slow, skipped("none"), thresholds=(missed, threshold(name="b"))
    )
    assert [
        "verdicts: 1 threshold failed, 1 failed, 1 failed (expected), 2 passed, 1 skipped",
        "slow: too slow",
        "threshold of test_fft: failed: the GPU wins from n = 256 on, not at 128; too large",
    ] == [str(line) for line in section.short_lines(run, 100)]
    shown = [str(line) for line in section.short_lines(run_of(*failed(15)), 80, above={"test_0": "slow 0"})]
    assert (12, "4 more notes: pytest -v") == (len(shown), shown[-1])


def test_the_time_grows_no_faster_than_the_number_of_tests():
    def seconds(number: int) -> float:
        names = [f"tests/test_{n % 50}.py::test_it[{'float32-' * (n % 3)}{n}]" for n in range(number)]
        run = run_of(
            *(record(name, notes=(Note(code="aside_failed", text=f"doubt {name}"),)) for name in names)
        )
        begin = process_time()
        section.lines(run, 80)
        return process_time() - begin

    assert min(seconds(1_000) for _ in range(3)) < 3 * 10 * min(seconds(100) for _ in range(3))
