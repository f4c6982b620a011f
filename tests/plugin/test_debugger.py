"""`pytest --trace`: the debugger stops in the test's own lines once for each device."""

DEBUGGER = """
    CALLS = []

    class Debugger:
        def do_continue(self, arg):
            pass

        def get_stack(self, frame, traceback):
            return [], 0

        def setup(self, frame, traceback):
            pass

        def runcall(self, function, *values, **named):
            CALLS.append(getattr(function, "func", function).__name__)
            return function(*values, **named)
"""

TRACED = """
from unittest import mock

RUNS = []

@pytest.mark.speedup(min=300)
def test_call(device):
    def work():
        RUNS.append(f"work on the {device.kind}")
        return ones + 1
    ones = device.xp.ones(3)
    RUNS.append(f"body on the {device.kind}")
    return work

@pytest.mark.speedup(min=300)
def test_body(xp):
    RUNS.append("variant")

@pytest.mark.speedup(min=300)
def test_reset(device, gpuperf):
    def again():
        RUNS.append(f"again on the {device.kind}")
    return gpuperf.workload(again, reset=lambda: RUNS.append("reset"))

@pytest.mark.speedup(min=300)
@mock.patch("os.getpid", new=int)
def test_patched(device):
    return lambda: RUNS.append(f"patched on the {device.kind}")

@pytest.mark.speedup(min=300)
def test_both(gpuperf):
    gpuperf.both(lambda device: RUNS.append(f"both on the {device.kind}"))

@pytest.mark.speedup(min=300, pair="unit")
class TestUnit(unittest.TestCase):
    def test_unit_cpu(self):
        RUNS.append("unit")

    def test_unit_gpu(self):
        RUNS.append("unit")

@pytest.mark.speedup(min=300)
def test_fails(device):
    assert device.kind == "cpu", RUNS.append("fails")

def test_unmarked(xp):
    RUNS.append("unmarked")

def test_after():
    assert [
        "body on the cpu", "work on the cpu", "body on the gpu", "work on the gpu", "variant", "variant",
        "reset", "again on the cpu", "reset", "again on the gpu", "patched on the cpu", "patched on the gpu",
        "both on the cpu", "both on the gpu",
        "unit", "unit", "fails", "unmarked", "unmarked",
    ] == RUNS
    debugged = conftest.CALLS[:-1]  # without this test
    assert [
        "test_call", "work", "test_call", "work", "test_body", "test_body", "test_reset", "again",
        "test_reset", "again", "test_patched", "<lambda>", "test_patched", "<lambda>", "test_both",
        "test_unit_cpu", "test_unit_gpu", "test_fails", "test_fails", "test_unmarked", "test_unmarked",
    ] == debugged
"""


def test_a_test_is_debugged_once_on_each_device_and_not_measured(suite):
    options = ("--trace", "--pdbcls=conftest:Debugger", "--gpuperf-all", "-s")
    found = suite(TRACED, *options, conftest=DEBUGGER)
    found.ended(passed=11, failed=1)
    assert {"test_fails"} == {name for name, status in found.statuses.items() if status != "skipped"}
    found.says("*not measured: pytest --trace runs the test in the debugger")
    alone = suite(TRACED, *options, "-k", "test_body and cupy", conftest=DEBUGGER)
    alone.ended(passed=1)
    assert 2 == str(alone.result.stdout).count("PDB runcall"), "pytest's and ours, for the GPU variant alone"


RETURNED = """
@pytest.mark.speedup
def test_workload(device):
    return lambda: conftest.CALLS.append(device.kind)

@pytest.mark.speedup
def test_reset(device, gpuperf):
    return gpuperf.workload(lambda: None, reset=lambda: conftest.CALLS.append("reset"))

def test_after():
    assert ["test_workload", "<lambda>", "cpu", "test_reset", "reset", "<lambda>"] == conftest.CALLS[:-1]
"""


def test_a_workload_is_debugged_where_nothing_is_measured(suite):
    options = ("--trace", "--pdbcls=conftest:OwnDebugger", "--gpuperf-off", "-s")
    # Under a name of its own, as pytest keeps the last class of each name.
    suite(RETURNED, *options, conftest=DEBUGGER.replace("Debugger", "OwnDebugger")).ended(passed=3)
