"""Terminal: the section's lines, their columns, units and width."""

import re
from array import array
from time import process_time

import pytest
from cases import for_each
from factories import (
    CPU,
    GPU,
    comparison,
    estimate,
    measurement,
    offload,
    on_cpu_only,
    record,
    run_of,
    skipped,
    speedup,
    threshold,
    variants,
)
from golden import assert_golden, run_with_everything
from msgspec.structs import replace

from pytest_gpuperf.model.demand import Demand, Pairing
from pytest_gpuperf.model.measurement import Interference
from pytest_gpuperf.model.offload import Diagnosis
from pytest_gpuperf.model.record import Note, Record
from pytest_gpuperf.report.text.section import NOTHING_ABOVE, short_lines
from pytest_gpuperf.report.text.section import lines as section_lines

WIDTHS = [60, 80, 100, 120, 200]


def lines(run, width, **options) -> list[str]:
    return [str(line) for line in section_lines(run, width, **options)]


@pytest.fixture(scope="module")
def section():
    """Return the lines about a run of these records."""

    def call(*records: Record, width=80, all_notes=True, above=NOTHING_ABOVE, **changes) -> list[str]:
        return lines(run_of(*records, **changes), width, all_notes=all_notes, above=above)

    return call


def row_of(name: str, shown: list[str]) -> str:
    (row,) = [line for line in shown if line.startswith(f"{name} ")]
    return row


def test_what_the_rows_do_not_show_of_a_run_is_said_below_them(section):
    assert "the run ended early: this is not all of it" in section(record(), complete=False)


def test_without_records_nothing_is_shown(section):
    assert section() == []


def test_a_row_holds_times_speedup_demand_and_verdict(section):
    shown = section(record())
    assert shown[0] == "CPU EPYC | GPU H200 through cupy"
    assert ["test", "CPU", "GPU", "speedup", "limit", "verdict"] == shown[2].split()
    expected = "test_fft  20.0 ms  1.75 ms  10.0x [9.00, 11.0]   >=3x  passed"
    assert expected == row_of("test_fft", shown)


def test_columns_stand_below_their_headings(section):
    shown = section(record(), record("test_x.py::test_longer_name", speedup=speedup(1234.0, 1000.0, 1500.0)))
    heading, *rows = shown[2:5]
    assert len(rows) == 2
    for name in ("CPU", "GPU", "speedup", "limit"):
        end = heading.index(name) + len(name)
        assert all(row[end - 1] != " " and row[end : end + 2] == "  " for row in rows)
    assert all(row[heading.index("verdict") :] == "passed" for row in rows)


@for_each(
    ("expected", "demand"),
    [
        (" >=3x ", Demand(min=3)),
        (" <=1.5x ", Demand(max=1.5)),
        (" 2..4x ", Demand(min=2, max=4)),
        (" - ", Demand()),
    ],
)
def test_what_was_wanted_is_shown(section, expected, demand):
    assert expected in row_of("test_fft", section(record(demand=demand)))


def test_what_was_not_measured_is_a_dash(section):
    row = row_of("test_fft", section(record(status="error", reason="lost", gpu=None, speedup=None)))
    assert ["test_fft", "20.0", "ms", "-", "-", ">=3x", "error"] == row.split()


LONGEST = "tests/" + "very/" * 20 + "test_" + "long_" * 30 + "name.py::test_" + "long_" * 30 + "end"
WIDE = [
    "long name",
    "long parameter",
    "doubt",
    "narrow doubt",
    "large numbers",
    "unbounded",
    "long word",
    "note",
    "skipped",
]


@pytest.fixture(scope="module")
def wide():
    """Return records that are wide in one place each, by name."""
    return {
        "long name": record(LONGEST),
        "long parameter": record("test_x.py::test_x[" + "float32-" * 30 + "1048576]"),
        "doubt": record(status="inconclusive", reason="in doubt " * 30, demand=Demand(min=2.5, max=100)),
        "narrow doubt": record(status="inconclusive", reason="in doubt", speedup=speedup(12.3, 10.1, 15.2)),
        "large numbers": record(speedup=speedup(123456.0, 12345.0, 1234567.0), demand=Demand(min=0.333333)),
        "unbounded": record(speedup=speedup(12.3, None, None)),
        "long word": record(status="error", reason="x" * 300, speedup=None),
        "note": record(notes=(noted("dependent samples: " + "lag-1 " * 40),)),
        "skipped": skipped(LONGEST, "no GPU library is installed; " * 5),
    }


@for_each("width", WIDTHS)
@for_each("name", WIDE)
def test_no_line_is_wider_than_the_terminal(section, wide, name, width):
    shown = section(wide[name], width=width)
    assert [line for line in shown if len(line) > width] == []


@for_each("width", WIDTHS)
def test_all_records_together_fit_too(section, wide, width):
    shown = section(*wide.values(), width=width)
    assert [line for line in shown if len(line) > width] == []


@for_each("width", WIDTHS)
@for_each("name", WIDE)
def test_every_test_is_named_in_full(section, wide, name, width):
    others = [record(f"tests/test_other.py::test_other[{n}]") for n in range(3)]
    shown = "".join(line.strip() for line in section(*others, wide[name], width=width))
    function, bracket, parameters = wide[name].nodeid.rpartition("::")[2].partition("[")
    assert function in shown
    assert bracket + parameters in shown


def test_only_names_that_are_alike_are_shown_with_their_files(section):
    alike = [record("test_one.py::test_fft[1]"), record("test_two.py::test_fft[2]")]
    shown = section(*alike, record("test_two.py::test_sort"))
    assert row_of("test_one.py::test_fft[1]", shown)
    assert row_of("test_sort", shown)


def test_names_and_files_alike_are_told_apart_by_their_folders(section):
    shown = section(record("a/test_it.py::test_fft"), record("b/test_it.py::test_fft"), width=120)
    assert row_of("a/test_it.py::test_fft", shown)
    assert row_of("b/test_it.py::test_fft", shown)


def test_colons_in_a_parameter_belong_to_the_name(section):
    assert row_of("test_op[aten::add]", section(record("test_x.py::TestOps::test_op[aten::add]")))


def test_deselected_tests_are_not_shown(section):
    unmeasured = skipped("test_x.py::test_other", reason_code="deselected")
    assert section(unmeasured) == []
    assert not any("test_other" in line for line in section(record(), unmeasured))


def test_what_became_of_a_gpu_variant_is_told_with_it_and_not_again_with_the_other(section):
    note = Note(code="gpu_variant_without_speedup", text="in any words")
    numpy = record("test_x.py::test_a[numpy]", notes=(note,))
    pairing = Pairing(kind="gpu", library="cupy", partner=numpy.nodeid)
    cupy = skipped("test_x.py::test_a[cupy]", "no GPU here", pairing=pairing)
    assert ["", "test_a[cupy]: no GPU here", ""] == section(numpy, cupy)[-4:-1]
    deselected = replace(cupy, reason_code="deselected")
    assert "test_a[numpy]: in any words" in section(numpy, deselected)
    assert "test_a[numpy]: in any words" in section(numpy, replace(cupy, pairing=None))


def test_a_pass_needs_no_reasons(section):
    assert section(record())[-1].endswith("passed")


def test_an_emulated_device_is_never_called_a_gpu_without_saying_so(section):
    first = section(record(), gpu=replace(GPU, emulated=True))[0]
    assert first == "CPU EPYC | emulated: H200 through cupy, not a GPU"
    assert "emulated" not in section(record())[0]


def test_a_run_without_a_gpu_says_so(section):
    assert section(record(), gpu=None)[0] == "CPU EPYC | GPU none"


def test_the_speedup_with_copies_stands_beside_the_one_without(section):
    shown = section(record(offload=offload(always=speedup(2.34, 2, 3))), width=120)
    assert "with copies" in shown[2]
    assert "2.34x" in row_of("test_fft", shown)


LONG = "tests/test_fft.py::test_of_a_name_with_forty_characters_in"


BUSY = Interference(kind="cpu_contention", own_share=0.1, waited=0.9)
AWAITED = measurement(CPU, 0.02, latencies=array("d", [0.03]))


@for_each(
    ("expected", "changes"),
    [
        (["needs 6.67 ms"], {"demand": Demand(min=3)}),
        (["needs 10.0 ms"], {"demand": Demand(min=3, latency=True), "cpu": AWAITED}),
        ([], {"demand": Demand()}),
        ([], {"demand": Demand(max=1)}),
        ([], {"demand": Demand(min=1, max=3)}),
        ([], {"interference": BUSY}),
        ([], {"cpu": None}),
    ],
)
def test_without_a_gpu_the_table_says_what_a_call_may_take_on_one(section, expected, changes):
    assert expected == re.findall("needs .*?s", row_of("test_fft", section(on_cpu_only(**changes), gpu=None)))


REGRESSED = comparison(
    reason="speedup got worse: 5.00x [4.90, 5.10], baseline 10.0x [9.80, 10.2]: -50.0 % [-51.9, -48.0], 10 % "
    "less is allowed",
    ratio=estimate(0.5, 0.48, 0.52),
)
WHY = Diagnosis(code="float64", sentence="float64: it is slow")


@for_each(
    ("expected", "says_why", "status", "worth"),
    [
        (False, False, "passed", True),
        (True, False, "failed", True),  # its row says that it is worth it
        (True, True, "failed", False),
        (True, True, "passed", False),
        (True, True, "recorded", None),
    ],
)
def test_what_holds_a_speedup_back_is_said_of_tests_that_fail_or_do_not_pay(
    section, expected, says_why, status, worth
):
    reason = "too slow" if status == "failed" else None
    shown = section(record(status=status, reason=reason, offload=offload(worth=worth), diagnosis=(WHY,)))
    assert expected == any(line.endswith(" float64: it is slow") for line in shown)
    assert says_why == any(line.endswith(" it pays") for line in shown)


def test_a_doubt_that_is_noted_and_diagnosed_is_said_once(section):
    twice = record(offload=offload(worth=False), notes=(noted("float64: it is slow"),), diagnosis=(WHY,))
    assert sum("float64: it is slow" in line for line in section(twice)) == 1


@for_each(
    ("expected", "ratio"), [("(GPU surely faster)", None), ("(GPU surely more than 2.5 times as fast)", 2.5)]
)
def test_how_many_tests_pay_is_counted(expected, ratio):
    records = [record(f"test_{n}", offload=offload(worth=n > 0)) for n in range(3)]
    assert lines(run_of(*records, cost_ratio=ratio), 100)[-1] == f"worth it {expected}: 2 of 3"


def test_one_test_alone_is_not_counted(section):
    assert not any("worth it (" in line for line in section(record(offload=offload())))


@for_each(
    ("expected", "changes"),
    [
        ("recorded: the GPU wins from n = 256 on, not at 128", {}),
        ("recorded: the GPU wins from n = 256 on, the smallest", {"largest_not_won": None}),
        ("recorded: the GPU does not win at the largest n, 128", {"outcome": "none", "smallest_won": None}),
        ("inconclusive: not known; sizes are missing", {"outcome": None, "status": "inconclusive"}),
    ],
)
def test_a_threshold_is_told_in_a_line(expected, changes):
    reason = "sizes are missing" if changes.get("outcome", "") is None else None
    run = run_of(record(), thresholds=(threshold(**changes, reason=reason),))
    assert lines(run, 120)[-1] == f"threshold of test_fft: {expected}"


def test_a_threshold_that_was_skipped_with_its_tests_is_not_told_again():
    run = run_of(record(), thresholds=(threshold(status="skipped", outcome=None, reason="no GPU"),))
    assert not any(line.startswith("threshold") for line in lines(run, 120))


def test_what_is_wanted_stays_where_it_says_what_the_speedup_includes(section):
    wide = record(LONG, demand=Demand(min=3, transfer="once", calls=1000), offload=offload(always=speedup()))
    assert ">=3x once/1000" in section(wide)[4]


def test_a_largest_size_in_doubt_is_not_called_lost():
    shown = lines(run_of(record(), thresholds=(threshold("?"),)), 120)[-1]
    said = "no n from which the GPU surely wins (inconclusive at the largest, 64)"
    assert shown == f"threshold of test_fft: recorded: {said}"


def noted(text: str) -> Note:
    return Note(code="traced", text=text)


def test_another_note_is_not_taken_for_that_of_a_gpu_variant(section):
    note = noted("its GPU variant test_x.py::test_a[cupy] was skipped: no GPU here")
    numpy = record("test_x.py::test_a[numpy]", notes=(note,))
    pairing = Pairing(kind="gpu", library="cupy", partner=numpy.nodeid)
    cupy = skipped("test_x.py::test_a[cupy]", "no GPU here", pairing=pairing)
    assert any("its GPU variant" in line for line in section(numpy, cupy))


def said_of(number: int, text: str) -> list[Record]:
    return [record(f"test_x.py::test_{n}", notes=(noted(f"{text} {n}"),)) for n in range(number)]


def test_of_a_kind_of_note_one_is_shown_and_the_others_counted(section):
    shown = section(*said_of(12, "doubt"), all_notes=False)
    assert ["test_0: doubt 0 (11 notes of this kind more)"] == [line for line in shown if "doubt" in line]
    assert "11 more notes: pytest -v" in shown
    assert 12 == sum("doubt" in line for line in section(*said_of(12, "doubt")))


def test_of_many_reasons_ten_are_shown_and_the_others_counted(section):
    failed = [record(f"test_x.py::test_{n}", status="failed", reason=f"doubt {n}") for n in range(12)]
    shown = section(*failed, all_notes=False)
    assert [f"test_{n}: doubt {n}" for n in range(10)] == [line for line in shown if "doubt" in line]
    assert "2 more notes: pytest -v" in shown


def test_what_only_explains_is_shown_where_all_is(section):
    why = "other work"
    explained = record(restart_reason=why, offload=offload(worth=False, reason="slow link"), diagnosis=(WHY,))
    shown = section(explained, all_notes=False)
    assert shown[4:] == ["", "3 more notes: pytest -v"]
    assert 3 == sum(
        text in line
        for line in section(explained)
        for text in ("restarted the measurement: other work", "slow link", "float64:")
    )


def disturbed(name, share, kind="cpu_contention", **changes):
    found = Interference(kind=kind, own_share=share, waited=1 - share, threads=1)
    changes = {"interference": found, "notes": (Note(code="interference", text=name),)} | changes
    return record(f"test_x.py::{name}", **changes)


def test_disturbed_tests_share_a_line_that_names_the_worst(section):
    quiet = record("test_x.py::test_c")
    two = [disturbed("test_a", 0.7), disturbed("test_b", 0.62), quiet]
    said = "machine busy: 2 of 3 tests; worst test_b, which may have lost up to 38 % of its time: close"
    assert f"{said} other work" in section(*two, all_notes=False, width=120)
    assert "test_b: test_b" in section(*two, width=120)
    unstable = section(disturbed("test_d", 0.25, "unstable_cpu_times"), all_notes=False, width=120)
    assert any(
        "1 of 1 test; worst test_d, whose median is 4.0 times its fastest" in line for line in unstable
    )
    gpu = Interference(kind="cpu_contention", own_share=0.5, waited=1.0, threads=2)
    emulated = section(disturbed("test_e", 0.9, gpu_interference=gpu), all_notes=False, width=120)
    assert any("worst test_e, which may have lost up to 50 %" in line for line in emulated)


def test_an_inconclusive_test_is_among_those_that_a_busy_machine_disturbed(section):
    doubted = disturbed("test_a", 0.3, notes=(), status="inconclusive", reason="required at least 3x: busy")
    assert any("1 of 1 test; worst test_a" in line for line in section(doubted, all_notes=False, width=120))


def test_a_cpu_variant_without_a_row_is_not_counted_among_disturbed_tests(section):
    busy = Interference(kind="cpu_contention", own_share=0.5, waited=0.5, threads=1)
    cpu, gpu = variants(interference=busy)
    shown = section(replace(cpu, interference=busy), gpu, all_notes=False, width=120)
    assert any("1 of 1 test; worst test_a[gpu]" in line for line in shown)


def test_a_reason_that_is_a_code_by_chance_is_a_reason(section):
    shown = section(skipped("a.py::test_a", "interference"), all_notes=False)
    assert "test_a: interference" in shown


def test_a_text_that_is_one_test_s_reason_and_another_s_note_leaves_no_note_out(section):
    tests = [record("a", status="failed", reason="slow"), record("b", notes=(noted("slow"),))]
    assert not any("more note" in line for line in section(*tests, all_notes=False))


def test_only_rows_that_were_left_out_make_the_others_the_slowest(section):
    few, many = ([record(f"test_{n}", source="all") for n in range(count)] for count in (2, 21))
    assert "--gpuperf-all: 2 tests, 2 compared with a CPU variant" in section(*few, unmarked=2)
    assert any("the slowest 20 are above" in line for line in section(*many, width=120, unmarked=21))


def test_a_text_that_is_reason_and_note_is_said_once(section):
    twice = record(status="failed", reason="too slow", notes=(noted("too slow"),))
    shown = section(twice, all_notes=False)
    assert 1 == sum("too slow" in line for line in shown)
    assert not any("more note" in line for line in shown)


def test_what_is_emulated_is_said_of_that_alone(section):
    emulated = replace(GPU, name="jax on the CPU", emulated=True)
    tests = [record(f"test_{n}", offload=offload(worth=n == 0)) for n in range(3)]
    tests += [
        record(f"test_e{n}", gpu=measurement(emulated, 1e-3), offload=offload(worth=False)) for n in range(2)
    ]
    shown = section(*tests, width=120)
    assert shown[0] == "CPU EPYC | GPU H200 through cupy; emulated: jax on the CPU, not a GPU"
    assert shown[2].split()[:3] == ["test", "CPU", "GPU"]
    totals = " ".join(line.strip() for line in shown[-2:])
    assert "worth it (GPU surely faster): 1 of 3" in totals
    assert "emulated device faster: 0 of 2" in totals


@for_each(("gpu", "is_emulated"), [("the GPU", False), ("the emulated GPU", True)])
def test_a_threshold_says_whose_it_is(gpu, is_emulated):
    tests = [
        record(f"test_fft[{n}]", gpu=measurement(replace(GPU, emulated=is_emulated), 1e-3)) for n in (64, 256)
    ]
    shown = lines(run_of(*tests, thresholds=(threshold(),)), 120)
    assert f"threshold of test_fft: recorded: {gpu} wins from n = 256 on, not at 128" in shown


def test_times_that_are_all_synthetic_are_called_so(section):
    cpu = measurement(replace(GPU, kind="cpu", backend="simulated", emulated=True), 1.0)
    shown = section(
        record(cpu=cpu), gpu=replace(GPU, name="simulated GPU", backend="simulated", emulated=True)
    )
    assert shown[0] == "simulated CPU | simulated GPU: synthetic times"


def test_a_regressed_test_has_what_holds_it_back(section):
    regressed = record(comparisons=(REGRESSED,), offload=offload(worth=False), diagnosis=(WHY,))
    assert any(WHY.sentence in line for line in section(regressed, all_notes=False))


def test_of_a_long_note_three_lines_are_shown(section):
    long = record(notes=(noted("word " * 50),))
    shown = section(long, all_notes=False)
    assert 3 == sum("word" in line for line in shown)
    assert any(line.endswith("word ...") for line in shown)
    assert "1 more note: pytest -v" in shown
    assert 4 == sum("word" in line for line in section(long))


def test_what_failed_is_among_the_notes_that_are_shown(section):
    failed = record("test_x.py::test_failed", status="failed", reason="too slow")
    assert "test_failed: too slow" in section(*said_of(12, "doubt"), failed, all_notes=False)


def test_what_pytest_has_shown_of_a_failed_test_is_not_said_again(section):
    why = "speedup 2x, required at least 3x"
    failed = record(status="failed", reason=why, diagnosis=(WHY,), offload=offload())
    above = {failed.nodeid: f"\n{why}"}
    shown = section(failed, above=above)
    assert not any(why in line for line in shown)
    assert any("float64: it is slow" in line for line in shown), "how to help it is not above"
    assert any(why in line for line in section(failed))
    assert any(why in line for line in section(failed, above={"test_other": why}))


def test_an_exception_that_pytest_has_shown_is_not_said_again(section):
    failed = record(status="error", reason="ValueError: lost, raised on the GPU", speedup=None)
    above = {failed.nodeid: "E  ValueError: lost\nE  raised on the GPU"}
    assert not any("ValueError" in line for line in section(failed, above=above))


def test_a_cpu_variant_has_no_row_beside_its_gpu_variant_s(section):
    shown = section(*variants())
    assert row_of("test_a[gpu]", shown)
    assert not any("[cpu]" in line for line in shown)


@for_each(
    "changes",
    [
        {"status": "failed", "reason": "why"},
        {"status": "error", "reason": "why"},
        {"comparisons": (comparison(metric="cpu_time"),)},
    ],
)
def test_a_cpu_variant_of_which_there_is_more_to_say_has_its_row(section, changes):
    cpu, gpu = variants()
    assert row_of("test_a[cpu]", section(replace(cpu, **changes), gpu))


def test_a_cpu_variant_whose_gpu_variant_has_no_speedup_has_its_row(section):
    cpu, gpu = variants(status="skipped", reason="no GPU", speedup=None, gpu=None)
    assert row_of("test_a[cpu]", section(cpu, gpu))


def test_a_note_on_both_variants_is_said_once(section):
    cpu, gpu = variants(notes=(noted("the same"),))
    both, own = noted("the same"), noted("its own")
    shown = section(replace(cpu, notes=(both, own)), gpu)
    assert ["test_a[gpu]: the same", "test_a[cpu]: its own"] == shown[-2:]


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
        ("regressed", "red", {"comparisons": (REGRESSED,)}),
        ("regressed (expected)", "yellow", {"comparisons": (REGRESSED,), "expected_failure": True}),
        ("error (expected)", "yellow", {"status": "error", "expected_failure": True}),
    ],
)
def test_the_verdict_alone_has_a_colour(verdict, colour, changes):
    reason = None if changes.get("status", "passed") in ("passed", "recorded") else "why"
    shown = section_lines(run_of(record(**{"reason": reason, **changes})), 120)
    row = next(line for line in shown if line.text.startswith("test_fft "))
    assert (verdict, colour) == (row.verdict, row.colour)
    assert {None} == {line.colour for line in shown if line is not row}


def short(*records: Record, **options) -> list[str]:
    return [str(line) for line in short_lines(run_of(*records), 80, **options)]


def test_in_short_verdicts_are_counted_and_failures_explained():
    failed = record("test_x.py::test_slow", status="failed", reason="too slow")
    known = record("test_x.py::test_known", status="failed", reason="known", expected_failure=True)
    noted_only = record("test_x.py::test_fast", notes=(noted("doubt"),))
    shown = short(*variants(), noted_only, known, failed, skipped("test_x.py::test_none", "no GPU"))
    assert ["1 failed, 1 failed (expected), 2 passed, 1 skipped", "test_slow: too slow"] == shown
    assert 1 == len(short(failed, above={failed.nodeid: "too slow"}))
    assert 2 == len(short(replace(failed, restart_reason="other work"))), "what explains it is left out"
    assert [] == short()


def test_in_short_many_failures_are_counted():
    failed = [record(f"test_x.py::test_{n}", status="failed", reason=f"doubt {n}") for n in range(15)]
    shown = [str(line) for line in short_lines(run_of(*failed), 80)]
    assert len(shown) == 12
    assert shown[-1] == "5 more notes: pytest -v"


def test_in_short_a_threshold_that_failed_is_told():
    run = run_of(
        record(), thresholds=(threshold(status="failed", reason="too large"), threshold(name="test_b"))
    )
    shown = [str(line) for line in short_lines(run, 100)]
    assert "threshold of test_fft: failed: the GPU wins from n = 256 on, not at 128; too large" in shown
    assert 2 == len(shown)


def test_a_threshold_s_reason_is_not_said_again():
    run = run_of(record(), thresholds=(threshold(status="failed", reason="too large"),))
    assert not any("too large" in line for line in lines(run, 120, above={"test_fft[64]": "too large"}))


def test_a_test_that_is_emulated_is_named_though_the_run_has_a_real_gpu(section):
    emulated = record(gpu=measurement(replace(GPU, emulated=True), 1e-3))
    shown = section(emulated)
    assert shown[0].endswith(", not a GPU")
    assert shown[2].split()[:3] == ["test", "CPU", "emulated"]
    assert "emulated" not in section(record())[0]


def test_escapes_of_a_machine_s_name_are_written_before_lines_are_broken(section):
    environment = replace(run_of().environment, cpu={"name": "\x1b[31m" * 30})
    assert all(len(line) <= 60 for line in section(record(), width=60, environment=environment))


def test_the_tests_of_one_function_stand_together_in_whatever_order_they_finished(section):
    shown = section(*(record(f"test_{name}") for name in ("a[1]", "b[1]", "a[2]", "c", "b[2]")))
    assert ["test_a[1]", "test_a[2]", "test_b[1]", "test_b[2]", "test_c"] == [
        line.split()[0] for line in shown if line.startswith("test_")
    ]


def test_what_was_measured_without_a_marker_fits_the_width(section):
    unmarked = [record(f"test_{n}", source="all") for n in range(2)]
    for records in ((), unmarked):
        assert all(len(line) <= 60 for line in section(*records, width=60, unmarked=2))


def test_a_loss_of_less_than_half_a_percent_has_no_sign(section):
    same = comparison("not_regressed", ratio=estimate(0.997, 0.99, 1.004))
    assert " 0 %" in row_of("test_fft", section(record(comparisons=(same,)), width=120))


@for_each(("expected", "outcome"), [(" x1132 ", "improved"), (" x1132? ", "inconclusive")])
def test_a_change_of_a_thousandfold_is_no_percentage(section, expected, outcome):
    found = comparison(outcome, ratio=estimate(1132.4, 0.5, 2e6))
    assert expected in row_of("test_fft", section(record(comparisons=(found,)), width=120))


def test_a_test_has_one_row_though_its_name_is_long_and_all_where_all_is_asked_for(section):
    name = "test_a_polynomial_is_not_changed_by_smoothing"
    long = [record(f"a.py::{name}[{n}]", offload=offload(always=speedup())) for n in (2, 30)]
    shown = section(*long, all_notes=False)
    assert shown[2].split() == ["test", "CPU", "GPU", "speedup", "limit", "verdict"]
    rows = [line.split()[0] for line in shown[3:5]]
    assert rows == ["test_a_polyno~smoothing[2]", "test_a_polyno~moothing[30]"]
    whole = section(*long)
    assert f"{name}" in whole
    assert "with copies" in whole[2]


def test_names_that_would_be_one_when_cut_are_whole(section):
    begin, end = "test_" + "b" * 30, "e" * 30
    alike = [record(f"a.py::{begin}{letter}{end}") for letter in "xy"]
    assert all(f"{begin}{letter}{end}" in section(*alike, all_notes=False) for letter in "xy")


def test_a_threshold_without_sizes_is_not_known(section):
    assert any("not known" in line for line in section(record(), thresholds=(threshold(""),)))


def test_the_time_grows_no_faster_than_the_number_of_tests():
    def seconds(number: int) -> float:
        names = [f"tests/test_{n % 50}.py::test_it[{'float32-' * (n % 3)}{n}]" for n in range(number)]
        run = run_of(*(record(name, notes=(noted(f"doubt {name}"),)) for name in names))
        begin = process_time()
        lines(run, 80, all_notes=False)
        return process_time() - begin

    assert min(seconds(1_000) for _ in range(3)) < 3 * 10 * min(seconds(100) for _ in range(3))


@for_each("width", WIDTHS)
def test_a_run_with_everything_looks_at_each_width_as_it_did(width):
    shown = lines(run_with_everything(), width, all_notes=False)
    assert_golden(f"terminal-{width}.txt", "".join(f"{line}\n" for line in shown))
