"""The benchmark of hostile use: a share of its cases, and that it finds what it looks for."""

from functools import partial

import pytest


@pytest.fixture
def hostile(script):
    return script("hostile")


def case(hostile, way, *, kind="device", strict=False):
    all_ways = (*hostile.ways(), *hostile.honest_ways())
    found = next(each for each in hostile.KINDS if each.name == kind)
    return hostile.Case(
        kind=found,
        way=next(each for each in all_ways if each.name == way),
        metrics=found.metrics[:1],
        is_strict=strict,
        processes=0,
        extra=(),
        is_in_ini=False,
    )


@pytest.mark.parametrize(("kind", "way"), [("device", "conftest, collect_ignore"), ("scaling", "none")])
def test_a_lost_test_is_red(hostile, kind, way):
    assert hostile.problem_of_case(case(hostile, way, kind=kind), is_lost=True) is None


def test_a_test_that_the_user_left_out_is_green_and_counted_in_the_last_line(hostile):
    found = hostile.problem_of_case(case(hostile, "--ignore", kind="sizes"), is_lost=True)
    assert found.startswith(hostile.KNOWN)
    assert "6 left out by the command line" in found


def test_an_honest_run_is_green(hostile):
    assert hostile.problem_of_case(case(hostile, "another order", strict=True), is_lost=False) is None


def test_all_kinds_and_ways_have_a_turn_half_of_them_strict(hostile):
    every = [(kind.name, way.name) for kind in hostile.KINDS for way in hostile.ways() if way.fits(kind)]
    found = hostile.cases(hostile.ways(), 2 * len(every), 1)
    for strict in (False, True):
        assert sorted(every) == sorted(
            (each.kind.name, each.way.name) for each in found if each.is_strict is strict
        )
    assert len({*every}) == len(every)


def test_bent_files_end_no_command_with_a_traceback(hostile, monkeypatch):
    monkeypatch.setattr(hostile, "FILES_A_CASE", 40)
    assert hostile.files_case((0, 1))[1] is None


def test_a_killed_run_loses_no_finished_test(hostile):
    number = list(hostile.SIGNALS).index("SIGKILL after the first test")
    assert hostile.signals_case((number, 1))[1] is None


def test_a_fault_costs_no_neighbour_its_measurement(hostile):
    assert hostile.faults_case((0, 1))[1] is None


def ran(hostile, output="", code=0):
    return hostile.Ran(code=code, output=output, seconds=1.0)


def test_what_the_benchmark_looks_for_is_found(hostile):
    lost, left_out = case(hostile, "none"), case(hostile, "-k")
    judged = partial(hostile._judged, lost, must_be_red=True)
    assert judged(ran(hostile)).startswith("false green")
    assert judged(ran(hostile, code=1)) is None
    allowed = partial(hostile._judged, left_out, must_be_red=False)
    assert allowed(ran(hostile, code=1)).startswith("false red")
    assert allowed(ran(hostile, "3 passed")).startswith("silent green")
    assert allowed(ran(hostile, "1 left out by the command line (-k)")) is None
    assert case(hostile, "-k", strict=True).left_out is None
    assert hostile.problem_of(ran(hostile, code=None)) == "hang"
    assert hostile.problem_of(ran(hostile, "INTERNALERROR> x")).startswith("traceback")
    trace = 'Traceback (most recent call last):\n  File "{}", line 1, in f\n    f()\nValueError: x\n'
    assert hostile.problem_of(ran(hostile, trace.format("/x/pytest_gpuperf/report/files.py"))) is not None
    assert hostile.problem_of(ran(hostile, trace.format("/x/tests/test_f.py"))) is None


def test_what_the_user_left_out_misses_no_target(hostile):
    found = {"left out": 3, "false green": 1, "silent green": 1, "hang": 1}
    assert [2, 0, 1] == [each.figure for each in hostile.targets_of("gate", found)]
    assert [1] == [each.figure for each in hostile.targets_of("faults", {"lost": 1})]
