"""What a test raises outside its workload is pytest's alone: its outcome is as it is without the plugin."""

import re

import pytest

WHERE = """
    ENDS = {
        "exit": lambda: pytest.exit("stop here", 5),
        "interrupt": lambda: (_ for _ in ()).throw(KeyboardInterrupt("stop here")),
        "skip": lambda: pytest.skip("not now"),
        "fail": lambda: pytest.fail("not right"),
        "xfail": lambda: pytest.xfail("not yet"),
        "raise": lambda: int("no number"),
    }

    def end(item, place):
        if item.callspec.params.get("place") == place:
            ENDS[item.callspec.params["end"]]()

    @pytest.fixture
    def fixture(request):
        end(request.node, "fixture")
        yield
        end(request.node, "fixture's teardown")

    def pytest_runtest_setup(item):
        end(item, "setup")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(item):
        end(item, "before the call")
        result = yield
        end(item, "after the call")
        return result

    def pytest_runtest_teardown(item):
        end(item, "teardown")
"""
PLACES = ("fixture", "fixture's teardown", "setup", "before the call", "after the call", "teardown")
ENDS = ("skip", "fail", "xfail", "raise")
SUITE = """
@pytest.fixture(params=[conftest.numpy, conftest.cupy], ids=["numpy", "cupy"])
def xp(request):
    return request.param

pytestmark = [pytest.mark.parametrize("place", {places}), pytest.mark.parametrize("end", {ends})]

@pytest.mark.speedup
def test_marked(xp, place, end, fixture):
    xp.ones(3)

def test_unmarked(xp, place, end, fixture):
    xp.ones(3)
"""
MARKERS = "markers =\n  speedup: as without the plugin\n"


def endings(found):
    """Return how a run ended, and its lines on tests, on what has stopped it, and of notes of ours."""
    lines = found.result.outlines
    of_tests = [line for line in lines if re.match("PASSED|FAILED|ERROR|SKIPPED|XFAIL", line)]
    return found.result.ret, of_tests, [line for line in lines if "stop here" in line or "raised on" in line]


@pytest.mark.parametrize(
    ("places", "ends"),
    [
        (PLACES, ENDS),
        *(((place,), ("exit",)) for place in PLACES),
        *(((place,), ("interrupt",)) for place in ("fixture", "after the call")),
    ],
)
def test_what_is_raised_outside_the_workload_ends_a_test_as_without_the_plugin(suite, places, ends):
    def run(*options, **ours):
        source = SUITE.format(places=places, ends=ends)
        return suite(source, "-rA", *options, conftest=WHERE, ini=MARKERS, interrupts=True, **ours)

    expected = endings(run("-pno:gpuperf", ours=()))
    found = run("--gpuperf-all")
    assert expected == endings(found)
    assert any(expected[1:])
    assert found.records
