"""The benchmark of hostile use: a share of its cases, and that it finds what it looks for."""

import pytest


@pytest.fixture
def hostile(script):
    return script("hostile")


def number_of(hostile, way, mode):
    names = [each.name for each in hostile.ways()]
    return names.index(way) * len(hostile.MODES) + list(hostile.MODES).index(mode)


@pytest.mark.parametrize(("way", "mode"), [("collect_ignore", "serial"), ("-k", "in the ini file")])
def test_a_lost_speedup_is_seen_or_the_run_says_what_was_left_out(hostile, way, mode):
    assert hostile.gate_case((number_of(hostile, way, mode), 1))[1] is None


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
    way = hostile.Way(name="plain")
    assert hostile._green(ran(hostile), way, "serial").startswith("false green")
    assert hostile._green(ran(hostile, code=1), way, "serial") is None
    told = hostile.Way(name="-k", told="left out")
    assert hostile._green(ran(hostile), told, "serial").startswith("silent green")
    assert hostile._green(ran(hostile, "1 left out"), told, "serial") is None
    assert hostile._green(ran(hostile, "1 left out"), told, "strict").startswith("false green")
    assert hostile.problem_of(ran(hostile, code=None)) == "hang"
    assert hostile.problem_of(ran(hostile, "INTERNALERROR> x")).startswith("traceback")
    trace = 'Traceback (most recent call last):\n  File "{}", line 1, in f\n    f()\nValueError: x\n'
    assert hostile.problem_of(ran(hostile, trace.format("/x/pytest_gpuperf/report/files.py"))) is not None
    assert hostile.problem_of(ran(hostile, trace.format("/x/tests/test_f.py"))) is None
