"""pytest-rerunfailures: a test that runs again has one record."""

import xml.etree.ElementTree as ElementTree

from plugins import needed

FLAKY = """
TRIES = {{}}

def try_of(name):
    TRIES[name] = TRIES.get(name, 0) + 1
    return TRIES[name]

@pytest.mark.speedup(min=3)
def test_ones(xp):
    if xp.__name__ == "cupy":
        assert try_of("ones") > {failures}, f"try {{TRIES}}"
    return lambda: xp.ones(3)

@pytest.mark.speedup(min=3)
def test_slot(device):
    slow = device.kind == "gpu" and try_of("slot") <= {failures}
    return lambda: device.launch(1.0 if slow else None)

@pytest.fixture
def frail(xp):
    if xp.__name__ == "cupy":
        assert try_of("frail") > {failures}

@pytest.mark.speedup(min=3)
def test_set_up(frail, xp):
    return lambda: xp.ones(3)
"""


def test_a_test_that_passes_when_it_is_run_again_has_one_record_that_counts_the_reruns(suite):
    needed("pytest_rerunfailures", "pytest-rerunfailures")
    found = suite(FLAKY.format(failures=1), "--reruns=3", "--junit-xml=j.xml")
    assert {"passed": 5, "rerun": 3} == found.result.parseoutcomes()
    assert {
        "test_ones[numpy]": ("recorded", 0),
        "test_ones[cupy]": ("passed", 1),
        "test_slot": ("passed", 1),
        "test_set_up[numpy]": ("recorded", 0),
        "test_set_up[cupy]": ("passed", 1),
    } == {name: (record["status"], record["reruns"]) for name, record in found.records.items()}
    assert 10 == found.speedup("test_ones[cupy]")
    last = {}  # of each test: a rerun has a case of its own
    for case in ElementTree.parse(found.path / "j.xml").getroot().iter("testcase"):
        properties = [(each.get("name"), each.get("value")) for each in case.iter("property")]
        assert len(dict(properties)) == len(properties)
        last[case.get("name")] = dict(properties)["gpuperf.status"]
    assert found.statuses == last


def test_a_test_that_fails_at_every_try_keeps_the_record_of_the_last(suite):
    needed("pytest_rerunfailures", "pytest-rerunfailures")
    found = suite(FLAKY.format(failures=9), "--reruns=2")
    assert {"passed": 2, "failed": 2, "errors": 1, "rerun": 6} == found.result.parseoutcomes()
    statuses = {name: (record["status"], record["reruns"]) for name, record in found.records.items()}
    assert ("error", 2) == statuses["test_ones[cupy]"]
    assert ("failed", 2) == statuses["test_slot"]
    assert ("error", 2) == statuses["test_set_up[cupy]"]
    assert "'ones': 3" in found.records["test_ones[cupy]"]["reason"]
