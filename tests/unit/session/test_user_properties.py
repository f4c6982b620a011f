"""User properties: what other plugins and suites put there may be anything, and stays as it is."""

from types import SimpleNamespace

import pytest
from cases import for_each

from pytest_gpuperf.session import user_properties

OURS = ("gpuperf.status", "passed")


class Hostile:
    """Raises whatever it is asked."""

    def __getattribute__(self, name):
        raise RuntimeError(name)

    __eq__ = __bool__ = __len__ = __iter__ = __getitem__ = __hash__ = lambda self, *_: 1 / 0


class Text(str):
    startswith = None


THEIRS = [
    ("n", 3),
    (1, "x"),
    {"case": "C1"},
    None,
    (),
    "gpuperf.status",
    ("gpuperfect", 1),
    (Text("gpuperf."), 1),
]
THEIRS += [Hostile(), (Hostile(), Hostile()), ["gpuperf.status", "mine"], 7, type("Pair", (tuple,), {})(OURS)]


@for_each("properties", [[*THEIRS, OURS], (OURS, *THEIRS)])
def test_only_ours_are_taken_for_ours_whatever_there_is(properties):
    item = SimpleNamespace(user_properties=properties)
    assert [OURS] == user_properties.ours(item)
    assert [*map(id, THEIRS)] == [*map(id, user_properties.of_others(item))]


def test_the_list_that_others_hold_stays_the_list_of_the_test():
    item = SimpleNamespace(user_properties=[])
    held = item.user_properties
    user_properties.put(item, [("n", 3)], [OURS])
    assert held is item.user_properties
    assert [("n", 3), OURS] == held


@for_each("nothing", [None, ()])
def test_a_test_whose_properties_are_no_list_gets_one(nothing):
    item = SimpleNamespace(user_properties=nothing)
    user_properties.put(item, user_properties.of_others(item), [OURS])
    assert [OURS] == item.user_properties


SUITE = """
@pytest.fixture(autouse=True)
def theirs(request):
    request.node.user_properties[:] = [{"case": "C1"}, (1, "x"), object()]

@pytest.fixture
def broken(theirs):
    raise ValueError

@pytest.mark.speedup
def test_measured(device):
    return lambda: device.launch()

@pytest.mark.speedup
def test_broken(device, broken):
    pass

@pytest.mark.speedup
def test_skipped(device):
    pytest.skip("here")

def test_unmarked(xp):
    xp.ones(3)
"""


@pytest.mark.parametrize("option", [[], ["--gpuperf-all"]])
def test_no_test_fails_for_what_others_have_noted_of_it(suite, option):
    found = suite(SUITE, *option)
    found.ended(passed=3, errors=1, skipped=1)
    assert {"recorded", "error", "skipped"} == {*found.statuses.values()}
