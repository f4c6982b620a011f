"""The benchmark of hostile use: a share of its cases, and that it finds what it looks for."""

import pytest


@pytest.fixture
def hostile(script):
    return script("hostile")


@pytest.mark.parametrize(
    ("expected", "kind", "way", "is_lost"),
    [
        (None, "device", "conftest, collect_ignore", True),
        (None, "scaling", "another order", False),
        ("2 left out by the command line", "device", "--ignore", True),
    ],
)
def test_a_lost_test_is_red_an_honest_run_green_and_one_that_the_user_left_out_is_counted(
    hostile, expected, kind, way, is_lost
):
    all_ways = (*hostile.ways(), *hostile.honest_ways())
    found = next(each for each in hostile.KINDS if each.name == kind)
    case = hostile.Case(
        kind=found,
        way=next(each for each in all_ways if each.name == way),
        metrics=found.metrics[:1],
        is_strict=False,
        processes=0,
        extra=(),
        is_in_ini=False,
    )
    problem = hostile.problem_of_case(case, is_lost=is_lost)
    assert expected == problem or expected in problem


def test_a_killed_run_and_a_fault_end_no_command_and_lose_no_other_test(hostile):
    killed = list(hostile.SIGNALS).index("SIGKILL after the first test")
    ended = [hostile.signals_case((killed, 1)), hostile.faults_case((0, 1))]
    assert [None, None] == [problem for _, problem in ended]


def test_a_hang_and_a_traceback_of_ours_are_problems(hostile):
    trace = 'Traceback (most recent call last):\n  File "{}", line 1, in f\n    f()\nValueError: x\n'
    said = ["INTERNALERROR> x", trace.format("/x/pytest_gpuperf/report/files.py")]
    ran = [hostile.Ran(code=1, output=output, seconds=1.0) for output in said]
    assert all(hostile.problem_of(each).startswith("traceback") for each in ran)
    assert hostile.problem_of(hostile.Ran(code=None, output="", seconds=1.0)) == "hang"
    of_a_test = hostile.Ran(code=1, output=trace.format("/x/tests/test_f.py"), seconds=1.0)
    assert hostile.problem_of(of_a_test) is None
