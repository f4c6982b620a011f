"""Devices with a context in pytest: where it is entered beside measurements, and what one says that fails."""

CONFTEST = """
    from contextlib import contextmanager

    ENTERED = []

    @contextmanager
    def context(device):
        if device.kind == "gpu" and BROKEN:
            raise RuntimeError("there is no engine of this name")
        ENTERED.append(device.kind)
        yield
        ENTERED.remove(device.kind)

    BROKEN = False
    for found in (BACKEND.cpu(), BACKEND.gpu("")):
        found.context = lambda found=found: context(found)
"""
MARKED = """
@pytest.mark.speedup(min=3)
def test_it(device):
    made = device.asarray([1.0])
    entered = [*conftest.ENTERED]
    def workload():
        assert [device.kind] == entered == conftest.ENTERED
        return made + 1
    return workload
"""
OTHERS = """
def test_unmarked(gpuperf):
    assert (["cpu"], ["gpu"]) == gpuperf.both(lambda device: lambda: [*conftest.ENTERED])
    assert not conftest.ENTERED

@pytest.mark.speedup(min=3)
def test_broken(device, monkeypatch):
    monkeypatch.setattr(conftest, "BROKEN", True)
    return lambda: device.xp.ones(3)
"""


def test_measurements_and_gpuperf_both_are_within_the_contexts_or_have_the_error_of_one(suite):
    found = suite(OTHERS + MARKED, conftest=CONFTEST)
    found.ended(passed=2, failed=1)
    assert 10 == found.speedup("test_it")
    reason = "RuntimeError: there is no engine of this name, raised on the emulated device (simulated GPU)"
    assert ("error", reason) == (found.statuses["test_broken"], found.records["test_broken"]["reason"])


def test_off_runs_a_test_within_the_cpus_context(suite):
    suite(MARKED, "--gpuperf-off", conftest=CONFTEST, ours=("--gpuperf-gpu=cupy",)).ended(passed=1)
