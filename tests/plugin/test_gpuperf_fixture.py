"""`gpuperf.both`: one body, run on both devices."""

from plugins import needed

BOTH = """
@pytest.fixture(autouse=True)
def both(request, gpuperf):
    if request.instance is not None:
        request.instance.both = gpuperf.both

@pytest.mark.speedup(min=3)
def test_xp(gpuperf):
    cpu, gpu = gpuperf.both(lambda xp: xp.ones(3))
    assert (cpu == gpu).all()

@pytest.mark.speedup(min=3)
def test_device(gpuperf):
    def workload(device):
        return lambda: device.xp.ones(3)
    cpu, gpu = gpuperf.both(workload)
    assert cpu.sum() == gpu.sum() == 3

class TestUnit(unittest.TestCase):
    @pytest.mark.speedup(min=3)
    def test_unit(self):
        self.both(lambda xp: xp.ones(3))

@pytest.mark.speedup(min=300)
def test_slow(gpuperf):
    gpuperf.both(lambda xp: xp.ones(3))

@pytest.mark.speedup(min=3)
def test_twice(gpuperf):
    gpuperf.both(lambda xp: xp.ones(3))
    gpuperf.both(lambda xp: xp.ones(3))

@pytest.fixture
def ones(gpuperf):
    return gpuperf.both(lambda xp: xp.ones(3))

@pytest.mark.speedup(min=3)
def test_fixture(ones):
    assert (ones[0] == ones[1]).all()

@pytest.mark.speedup(min=300)
def test_slow_fixture(ones):
    pass

@pytest.mark.speedup(min=3)
def test_fixture_twice(ones, gpuperf):
    gpuperf.both(lambda xp: xp.ones(3))

RUNS = []

@pytest.fixture
def breaks_at_first(ones):
    RUNS.append(1)
    assert len(RUNS) > 1, "at first"

@pytest.mark.flaky(reruns=1)
@pytest.mark.speedup(min=3)
def test_fixture_again(breaks_at_first):
    pass

@pytest.mark.speedup(min=3)
def test_never(gpuperf):
    pass

@pytest.mark.speedup(min=3)
def test_wrong_after(gpuperf):
    cpu, gpu = gpuperf.both(lambda xp: xp.ones(3))
    assert cpu.sum() == 4

@pytest.mark.speedup(min=3)
def test_wrong_within(gpuperf):
    gpuperf.both(lambda device: 1 / (device.kind == "cpu"))

@pytest.mark.speedup(min=3)
def test_variant(gpuperf, xp):
    gpuperf.both(lambda xp: xp.ones(3))

def test_unmarked(gpuperf):
    calls = []
    cpu, gpu = gpuperf.both(lambda device: calls.append(device.kind) or device.xp.ones(3))
    assert calls == ["cpu", "gpu"]
    assert cpu.sum() == gpu.sum() == 3
    gpuperf.both(lambda xp: lambda: xp.ones(3))
"""


def test_both_runs_a_body_on_both_devices_and_a_marked_test_is_timed(suite):
    needed("pytest_rerunfailures", "pytest-rerunfailures")
    found = suite(BOTH, "--reruns=0")
    found.ended(passed=6, failed=9)
    assert {
        "test_xp": "passed",
        "test_device": "passed",
        "TestUnit::test_unit": "passed",
        "test_slow": "failed",
        "test_twice": "error",
        "test_fixture": "passed",
        "test_slow_fixture": "failed",
        "test_fixture_twice": "error",
        "test_fixture_again": "passed",
        "test_never": "error",
        "test_wrong_after": "error",
        "test_wrong_within": "error",
        "test_variant[numpy]": "error",
        "test_variant[cupy]": "error",
    } == found.statuses
    assert ["body", "call"] == [found.records[name]["scope"] for name in ("test_xp", "test_device")]
    for name in ("test_xp", "test_device", "TestUnit::test_unit", "test_fixture", "test_fixture_again"):
        assert 10 == found.speedup(name)
    assert "assert" in found.records["test_wrong_after"]["reason"].lower()
    assert (
        "the test is parametrized over single devices but calls gpuperf.both(), which uses both; use one or "
        in (found.records["test_variant[numpy]"]["reason"])
    )
    found.says(
        "gpuperf.both was called twice in one speedup test; parametrize the test, *",
        "not measured: the test never called gpuperf.both",
        "E*raised on the emulated device (simulated GPU)",
    )


def test_both_without_a_gpu_skips_and_the_cpus_times_are_in_the_record(suite):
    found = suite(BOTH, "--gpuperf-gpu=none", "-rs", "-k", "xp or device or unit or unmarked")
    found.says("SKIPPED [[]1[]] test_it.py:*: *--gpuperf-gpu=none*")
    found.result.stdout.no_fnmatch_line("SKIPPED*run_devices.py*")
    assert {"skipped": 4, "deselected": 11} == found.result.parseoutcomes()
    for name in ("test_xp", "test_device", "TestUnit::test_unit"):
        assert "skipped" == found.statuses[name]
        assert len(found.records[name]["cpu"]["samples"]) > 1
