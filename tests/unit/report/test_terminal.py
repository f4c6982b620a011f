"""Terminal: the section's lines, their columns, units and width."""

from dataclasses import replace

import pytest
from cases import for_each
from factories import GPU, record, run_of, skipped, speedup

from pytest_gpuperf.model.demand import Demand, Pairing
from pytest_gpuperf.model.offload import Diagnosis, GpuLimits, Link, Offload, Point, Price, Threshold
from pytest_gpuperf.model.record import Note, Record
from pytest_gpuperf.report.summary import format_time
from pytest_gpuperf.report.terminal import lines

WIDTHS = [80, 120]


@pytest.fixture(scope="module")
def section():
    """Return the lines about a run of these records."""

    def call(*records: Record, width=80, **changes) -> list[str]:
        return lines(run_of(*records, **changes), width)

    return call


def row_of(name: str, shown: list[str]) -> str:
    (row,) = [line for line in shown if line.startswith(f"{name} ")]
    return row


@for_each(
    ("expected", "seconds"),
    [
        ("-", None),
        ("0 ns", 0.0),
        ("1.00 ns", 1e-9),
        ("12.3 ns", 12.34e-9),
        ("0.500 ns", 0.5e-9),
        ("999 ns", 999e-9),
        ("1.00 us", 1e-6),
        ("999 us", 999e-6),
        ("1.00 ms", 1e-3),
        ("1.23 ms", 1.234e-3),
        ("1.00 s", 1.0),
        ("3600 s", 3600.0),
        ("1.00 ms", 999.9e-6),
        ("1.00 s", 0.99996),
        ("100 us", 99.97e-6),
    ],
)
def test_a_time_has_three_digits_and_its_unit(expected, seconds):
    assert expected == format_time(seconds)


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


@for_each("name", ["long name", "long parameter", "long word", "note", "skipped"])
def test_long_texts_fit_into_sixty_columns_too(section, wide, name):
    shown = section(wide[name], width=60)
    assert [line for line in shown if len(line) > 60] == []


@for_each("width", WIDTHS)
def test_all_records_together_fit_too(section, wide, width):
    shown = section(*wide.values(), width=width)
    assert [line for line in shown if len(line) > width] == []


def test_a_long_name_keeps_its_end_which_tells_tests_apart(section):
    shown = section(record("test_x.py::test_" + "x" * 100 + "[cpu-17]"))
    assert any(line.startswith("~") and "xx[cpu-17]  " in line for line in shown)


def test_names_alike_are_shown_with_their_files(section):
    shown = section(record("a/test_one.py::test_fft"), record("b/test_two.py::test_fft"))
    assert row_of("test_one.py::test_fft", shown)
    assert row_of("test_two.py::test_fft", shown)


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


def test_skipped_tests_are_shown_with_their_reason(section):
    shown = section(skipped("test_x.py::test_other", "no GPU here"))
    assert row_of("test_other", shown).endswith("skipped")
    assert "test_other: no GPU here" in shown


def test_a_reason_that_tests_share_is_given_once(section):
    tests = [skipped(f"test_x.py::test_{name}", "no GPU here") for name in "abc"]
    shown = section(*tests)
    assert [line for line in shown if "no GPU here" in line] == ["test_a and 2 more: no GPU here"]


def test_what_became_of_a_gpu_sibling_is_told_with_it_and_not_again_with_the_other(section):
    note = Note(code="gpu_sibling_without_speedup", text="in any words")
    numpy = record("test_x.py::test_a[numpy]", notes=(note,))
    pairing = Pairing(side="gpu", library="cupy", partner=numpy.nodeid)
    cupy = skipped("test_x.py::test_a[cupy]", "no GPU here", pairing=pairing)
    assert ["", "test_a[cupy]: no GPU here"] == section(numpy, cupy)[-2:]
    deselected = replace(cupy, reason_code="deselected")
    assert "test_a[numpy]: in any words" in section(numpy, deselected)
    assert "test_a[numpy]: in any words" in section(numpy, replace(cupy, pairing=None))


def test_a_note_is_given_like_a_reason(section):
    failed = record(notes=(noted("dependent samples"),), status="failed", reason="too slow")
    assert ["", "test_fft: too slow", "test_fft: dependent samples"] == section(failed)[-3:]


def test_a_pass_needs_no_reasons(section):
    assert section(record())[-1].endswith("passed")


def test_an_emulated_device_is_never_called_a_gpu_without_saying_so(section):
    first = section(record(), gpu=replace(GPU, emulated=True))[0]
    assert "emulated: not a GPU's speedup" in first
    assert "emulated" not in section(record())[0]


def test_a_run_without_a_gpu_says_so(section):
    assert section(record(), gpu=None)[0] == "CPU EPYC | GPU none"


def offload(
    *, worth=True, saves=True, always=None, gpu_limits=None, links=(), reason="it is what it is"
) -> Offload:
    return Offload(
        worth=worth,
        reason=reason,
        regime="never",
        by_latency=False,
        price=Price(ratio=2.5, needed=2.5, saves=saves if saves != "yes" else True, saving_percent=None),
        always=always,
        gpu_limits=gpu_limits,
        links=links,
    )


@pytest.fixture(scope="module")
def without_gpu():
    """Make the record of a test for which there was no GPU, with what a call may take on one."""

    def call(limits: GpuLimits, demand: Demand | None = None, links=()) -> Record:
        known = offload(worth=None, saves=None, gpu_limits=limits, links=links, reason="it cannot pay")
        demand = demand or Demand()
        return record(demand=demand, gpu=None, speedup=None, status="skipped", reason="no GPU", offload=known)

    return call


def test_the_speedup_with_copies_stands_beside_the_one_without(section):
    shown = section(record(offload=offload(always=speedup(2.34, 2, 3))), width=120)
    assert "with copies" in shown[2]
    assert "2.34x" in row_of("test_fft", shown)


LONG = "tests/test_fft.py::test_of_a_name_with_forty_characters_in"


@for_each(
    ("shown", "hidden", "width"),
    [
        ({"with copies", "limit"}, set(), 130),
        ({"with copies", "limit"}, set(), 95),
        ({"limit"}, {"with copies"}, 80),
        (set(), {"with copies", "limit"}, 80),
    ],
)
def test_columns_that_leave_a_name_too_little_room_are_left_out(section, shown, hidden, width):
    least = 3 if shown else 3.14159e-100
    wide = record(LONG, demand=Demand(min=least), offload=offload(always=speedup()))
    heading = section(wide, width=width)[2]
    assert all(name in heading for name in shown)
    assert not any(name in heading for name in hidden)


@for_each(
    ("expected", "limits", "demand"),
    [
        ("<=4.00 ms", GpuLimits(demand=4e-3, price=5e-3), Demand(min=3)),
        ("<=5.00 ms", GpuLimits(demand=None, price=5e-3), Demand()),
        (" - ", GpuLimits(demand=None, price=5e-3), Demand(max=1)),
    ],
)
def test_without_a_gpu_the_table_says_what_a_call_may_take_on_one(
    section, without_gpu, expected, limits, demand
):
    shown = section(without_gpu(limits, demand), gpu=None)
    assert expected in row_of("test_fft", shown)
    assert any(line.startswith("GPU times after <= ") for line in shown) == ("<=" in expected)
    assert "test_fft: it cannot pay" not in shown


@for_each(("expected", "bound"), [(True, 0.9), (False, 1.0), (False, None)])
def test_without_a_gpu_only_what_no_link_allows_is_said_in_words(section, without_gpu, expected, bound):
    links = (Link(name="a wire", bandwidth=1e9, seconds=1.0, speedup_at_most=bound),)
    shown = section(without_gpu(GpuLimits(demand=None, price=5e-3), links=links), gpu=None)
    assert expected == ("test_fft: it cannot pay" in shown)


WHY = Diagnosis(code="float64", sentence="float64: it is slow", numbers={})


@for_each(
    ("expected", "status", "worth"),
    [(False, "passed", True), (True, "failed", True), (True, "passed", False), (True, "recorded", None)],
)
def test_what_holds_a_speedup_back_is_said_of_tests_that_fail_or_do_not_pay(section, expected, status, worth):
    reason = "too slow" if status == "failed" else None
    shown = section(record(status=status, reason=reason, offload=offload(worth=worth), diagnosis=(WHY,)))
    assert expected == ("test_fft: float64: it is slow" in shown)
    assert expected == ("test_fft: it is what it is" in shown)


def test_a_doubt_that_is_noted_and_diagnosed_is_said_once(section):
    twice = record(offload=offload(worth=False), notes=(noted("float64: it is slow"),), diagnosis=(WHY,))
    assert section(twice).count("test_fft: float64: it is slow") == 1


def test_how_many_tests_pay_and_save_money_is_counted(section):
    records = [record(f"test_{n}", offload=offload(worth=n > 0, saves=n > 1)) for n in range(3)]
    assert section(*records)[-1] == "worth it: 2 of 3; costs less at 2.5 times the price: 1"


def test_one_test_alone_is_not_counted(section):
    assert not any("worth it: " in line for line in section(record(offload=offload())))


def threshold(**changes) -> Threshold:
    known = {
        "name": "test_fft",
        "parameter": "n",
        "at_most": None,
        "at_least": None,
        "regime": "never",
        "by_latency": False,
        "status": "recorded",
        "reason": None,
        "outcome": "bracket",
        "largest_not_won": 64,
        "smallest_won": 256,
        "curve": (),
    }
    return Threshold(**{**known, **changes})


@for_each(
    ("expected", "changes"),
    [
        ("the GPU wins from n = 256 on, not at 64, recorded", {}),
        ("the GPU wins from n = 256 on, the smallest, recorded", {"largest_not_won": None}),
        ("the GPU does not win at the largest n, 64, recorded", {"outcome": "none", "smallest_won": None}),
        ("not known, inconclusive: sizes are missing", {"outcome": None, "status": "inconclusive"}),
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
    assert ">=3x once/1000" in section(wide)[3]


def test_a_largest_size_in_doubt_is_not_called_lost():
    point = Point(size=64, nodeid="test_fft[64]", cpu=1.0, gpu=1.0)
    found = threshold(outcome="none", smallest_won=None, curve=(point,))
    shown = lines(run_of(record(), thresholds=(found,)), 120)[-1]
    assert shown == "threshold of test_fft: undecided whether the GPU wins at the largest n, 64, recorded"


def test_what_pays_in_time_and_not_in_money_is_told_too(section):
    assert "test_fft: it is what it is" in section(record(offload=offload(worth=True, saves=False)))


def noted(text: str) -> Note:
    return Note(code="dependent_samples", text=text)


def test_another_note_is_not_taken_for_that_of_a_gpu_sibling(section):
    note = noted("its GPU variant test_x.py::test_a[cupy] was skipped: no GPU here")
    numpy = record("test_x.py::test_a[numpy]", notes=(note,))
    pairing = Pairing(side="gpu", library="cupy", partner=numpy.nodeid)
    cupy = skipped("test_x.py::test_a[cupy]", "no GPU here", pairing=pairing)
    assert any("its GPU variant" in line for line in section(numpy, cupy))
