"""`gpuperf.workload(call, reset=...)`: calls that change a state, which is restored before each block."""

from fnmatch import fnmatch

import pytest

HEAD = """
import numpy as np

RESTORED = {"cpu": [], "gpu": []}
OF_TESTS = {}

@pytest.fixture(autouse=True)
def restored(request):
    yield
    OF_TESTS[request.node.name] = [tuple(found) for found in RESTORED.values()]
    for found in RESTORED.values():
        found.clear()

def training(device, seconds=(2e-4, 2e-5), step=1.0):
    \"\"\"Return a step that adds to a state, and what restores it, which is 500 times as slow.\"\"\"
    state = [0.0]

    def call():
        state[0] += step
        device.launch(seconds[device.kind == "gpu"])
        return state[0]

    def restore():
        RESTORED[device.kind].append(state[0])
        device.launch(0.1)
        state[0] = 0.0

    return call, restore

def plus(call, x):
    return lambda: x * call()
"""
TEST = """
@pytest.mark.speedup(min=3)
def test_it(device, gpuperf):
    call, restore = training(device)
    return gpuperf.workload(call, reset=restore)
"""
LATER = """
def test_all_were_restored():
    for name in ("test_state", "test_state_and_latency"):
        for found in OF_TESTS[name]:
            assert len(found) > 15
            assert max(found) < 200
"""
STATE_IN_AN_ARRAY = """
@pytest.mark.speedup(min=3)
def test_it(device, gpuperf):
    state = device.asarray(np.arange(3.0))

    def call():
        state[0] = state[0] + 1
        return state[1:] + 0

    def restore():
        state[0] = 0
    return gpuperf.workload(call, reset=restore)
"""
SLOW = """
@pytest.mark.speedup(min=3)
def test_it(device, gpuperf):
    x, calls = device.asarray(np.ones(9)), []

    def call():
        assert len(calls) < 2
        calls.append(1)
        device.launch(0.1 if device.kind == "cpu" else 0.02)
        return x + len(calls)
    return gpuperf.workload(call, reset=calls.clear)
"""
RAISING = """
@pytest.mark.speedup(min=3)
def test_it(device, gpuperf):
    call, restore = training(device)
    resets = iter(range(10 if device.kind == KIND else 10**9))
    return gpuperf.workload(call, reset=lambda: (restore(), next(resets)))
"""
GROWING = """
@pytest.mark.speedup(min=1.5)
def test_it(device, gpuperf):
    calls = []

    def call():
        calls.append(1)
        device.launch((SECONDS) * (2 if device.kind == "cpu" else 1))
        return len(calls)
    return gpuperf.workload(call, reset=calls.clear)
"""
MODULE = """
class Layer:
    def __init__(self, device):
        self.weights, self.momentum = device.asarray(np.arange(4.0)), device.asarray(np.arange(4.0))

    def step(self):
        self.weights += self.momentum
        self.momentum *= 0.5
        return RESULT

@pytest.mark.speedup(min=1e-9)
def test_it(device, gpuperf):
    layer = Layer(device)

    def restore():
        layer.weights[...] = np.arange(4.0)
        layer.momentum[...] = np.arange(4.0)
    return gpuperf.workload(layer.step, reset=restore)
"""
MADE_THERE = MODULE.replace("device.asarray(np.arange(4.0))", "(device.asarray(np.arange(4.0)) + 0)").replace(
    "layer.step,", "lambda: layer.step(),"
)
KEEPING = """
@pytest.mark.speedup(min=3)
def test_it(device, gpuperf):
    kept, x = [], device.asarray(np.arange(10000.0))

    def call():
        if not kept or device.kind == "cpu":
            kept.append(x + 1)
        return kept[-1]
    return gpuperf.workload(call, reset=kept.clear)
"""
COMPILING = """
@pytest.mark.speedup(min=3)
def test_it(device, gpuperf, monkeypatch):
    compiled = []
    monkeypatch.setattr(type(device), "compilations", lambda _: len(compiled), raising=False)
    call, restore = training(device)
    return gpuperf.workload(call, reset=lambda: (restore(), compiled.append(1)))
"""
BOTH = """
@pytest.mark.speedup(min=3)
def test_both(gpuperf):
    def body(device):
        call, restore = training(device)
        call()
        return gpuperf.workload(call, reset=restore)
    assert gpuperf.both(body) == (1.0, 1.0)
"""


def reset_by(reset):
    return TEST.replace("reset=restore", f"reset={reset}")


def without_reset(source):
    return source.replace("gpuperf.workload(call, reset=restore)", "call")


def growing(seconds, more=""):
    return GROWING.replace("SECONDS", seconds).replace("min=1.5", f"min=1.5{more}")


def module(source, result, forgotten=""):
    return source.replace("RESULT", result).replace(f"        layer.{forgotten}[...] = np.arange(4.0)\n", "")


GROWS, FIRST_IS_SLOW = "1e-5 * len(calls)", "1e-3 if len(calls) == 1 else 1e-6"
COPIES = "    x = device.asarray(np.ones(9))\n    call = plus(call, x)\n    return gpu"
FORGETS = "lambda: call() if device.kind == 'cpu' else min(1.0, call())"
CHANGES = "the workload's result changes after each reset, so repeated calls*"
RAISED = "*raised on the {0} (simulated {0}) in round * by the workload's reset"
TAKES = "*gpuperf.workload takes two functions without arguments, call and reset*"
RIGHT = {
    "test_state": TEST,
    "test_state_and_latency": TEST.replace("min=3", "min=3, latency=True"),
    "test_copies": TEST.replace("min=3", "min=3, transfer='always'").replace("    return gpu", COPIES),
    "test_slow": SLOW,
    "test_slow_and_latency": SLOW.replace("min=3", "min=3, latency=True"),
    "test_slow_and_copies": SLOW.replace("min=3", "min=1, transfer='always'"),
    "test_array": STATE_IN_AN_ARRAY,
    "test_few_calls": TEST.replace("training(device)", "training(device, (0.02, 1e-5))").replace(
        "=3", "=100"
    ),
    "test_object_sum": module(MODULE, "self.weights.sum()"),
    "test_object_itself": module(MODULE, "self"),
    "test_object_number": module(MODULE, "1.0"),
    "test_made_there_itself": module(MADE_THERE, "self"),
    "test_made_there_number": module(MADE_THERE, "1.0"),
    "test_compiles": COMPILING,
    "test_both": BOTH,
}
OF_OTHER_TIMES = {
    "test_grows": growing(GROWS),
    "test_grows_and_latency": growing(GROWS, ", latency=True"),
    "test_first_is_slow": growing(FIRST_IS_SLOW),
    "test_first_is_slow_and_latency": growing(FIRST_IS_SLOW, ", latency=True"),
}
WRONG = {
    "test_second_differs": (
        TEST.replace("workload(call", f"workload({FORGETS}"),
        "failed",
        "the devices disagree before timing: result: *",
    ),
    "test_raises_on_cpu": (RAISING.replace("KIND", "'cpu'"), "error", RAISED.format("CPU")),
    "test_raises_on_gpu": (RAISING.replace("KIND", "'gpu'"), "error", RAISED.format("GPU")),
    "test_raises_at_first": (
        reset_by("lambda: 1 / 0"),
        "error",
        "ZeroDivisionError: *, raised on the CPU (simulated CPU) by the workload's reset",
    ),
    "test_leaves_it": (reset_by("lambda: device.launch(1e-3)"), "error", CHANGES),
    "test_leaves_it_on_gpu": (
        reset_by("restore if device.kind == 'cpu' else lambda: device.launch(1e-3)"),
        "error",
        CHANGES,
    ),
    "test_leaves_an_array": (
        STATE_IN_AN_ARRAY.replace("state[0] = 0", "state[1] = 1"),
        "error",
        "the workload's reset does not restore what calls change (float64 array of shape (3,))*",
    ),
    "test_no_reset": (
        without_reset(TEST),
        "error",
        "*restore all that it changes with gpuperf.workload(call, reset=...)*",
    ),
    "test_no_reset_of_an_array": (
        without_reset(STATE_IN_AN_ARRAY),
        "error",
        "*or restore it with gpuperf.workload(call, reset=...)",
    ),
    **{
        f"test_forgets_{forgotten}_{name}": (module(MODULE, result, forgotten), "error", "*reset*")
        for forgotten in ("momentum", "weights")
        for name, result in (("sum", "self.weights.sum()"), ("itself", "self"), ("number", "1.0"))
    },
    "test_made_there_forgets": (
        module(MADE_THERE, "1.0", "weights"),
        "error",
        "*does not restore what calls change (float64 array of shape (4,))*",
    ),
    **{
        f"test_arguments_{index}": (TEST.replace("call, reset=restore", arguments), "error", TAKES)
        for index, arguments in enumerate(("call, reset=None", "None, reset=call", "call, reset=3"))
    },
}
KEPT = {}


@pytest.fixture
def found(suite):
    """Return what one run of all tests has left, which is the same for all that only read it."""
    if not KEPT:
        sources = {
            **RIGHT,
            **OF_OTHER_TIMES,
            "test_keeps": KEEPING,
            **{name: case[0] for name, case in WRONG.items()},
        }
        tests = [source.replace("test_it", name) for name, source in sources.items()]
        KEPT["found"] = suite("".join([HEAD, *tests, LATER]), "-v")
    return KEPT["found"]


def notes(record):
    return {note["code"] for note in record["notes"]}


def test_a_state_that_is_restored_is_measured(found):
    assert dict.fromkeys(RIGHT, "passed") == {name: found.statuses[name] for name in RIGHT}
    assert "PASSED" == found.endings["test_all_were_restored"]
    for name in RIGHT:
        assert "work_in_doubt" not in notes(found.records[name]), name
        assert name == "test_both" or found.records[name]["check"]["agreed"] is True
    assert "work_in_doubt" in notes(found.records["test_keeps"]), "a result that is kept within a block"


@pytest.mark.parametrize("name", WRONG)
def test_a_reset_that_leaves_or_cannot_leave_the_state_is_an_error(found, name):
    _, status, reason = WRONG[name]
    record = found.records[name]
    assert status == record["status"]
    assert fnmatch(record["reason"], reason)
    assert "FAILED" == found.endings[name]


def test_the_time_of_a_reset_is_in_no_time(found):
    for name in ("test_state", "test_state_and_latency"):
        for kind, seconds in (("cpu", 2e-4), ("gpu", 2e-5)):
            device = found.records[name][kind]
            assert device["block_calls"] > 2
            assert [device["median"], device["latency"]] == pytest.approx([seconds, seconds], abs=1e-5)
            assert device["first_call"] == pytest.approx(seconds, abs=1e-5)
    assert found.records["test_copies"]["transfer"]["loop"]


def test_of_slow_calls_no_third_one_is_made_without_a_reset(found):
    for name in ("test_slow", "test_slow_and_latency", "test_slow_and_copies"):
        record = found.records[name]
        assert record["transfer"]["h2d"]["samples"]
        assert "aside_failed" not in notes(record)
        assert record["gpu"]["inspection"]["synchronizes"] is False


def test_where_calls_after_a_reset_take_other_times_both_devices_make_as_many(found):
    for record in (found.records[name] for name in OF_OTHER_TIMES):
        assert record["cpu"]["block_calls"] == record["gpu"]["block_calls"]
        assert record["speedup"]["value"] == pytest.approx(2, rel=0.1)
        # So do the single calls that are timed besides.
        assert record["cpu"]["latency"] / record["gpu"]["latency"] == pytest.approx(2, rel=0.1)
        assert "work_in_doubt" not in notes(record)
    record = found.records["test_few_calls"]
    assert record["cpu"]["block_calls"] == record["gpu"]["block_calls"] == 5


def test_variants_have_resets_too_and_make_as_many_calls(suite):
    device = "device = conftest.BACKEND.gpu('') if xp is conftest.cupy else conftest.BACKEND.cpu()\n    "
    sources = {
        "test_same": TEST,
        "test_differs": TEST.replace("workload(call", f"workload({FORGETS}"),
        "test_grows": growing(GROWS),
    }
    tests = [
        source.replace("test_it(device", f"{name}(xp")
        .replace("call, restore =", f"{device}call, restore =")
        .replace("calls = []", f"{device}calls = []")
        for name, source in sources.items()
    ]
    found = suite("".join([HEAD, *tests]))
    assert "passed" == found.statuses["test_same[cupy]"]
    assert "failed" == found.statuses["test_differs[cupy]"]
    assert pytest.approx(2, rel=0.1) == found.records["test_grows[cupy]"]["speedup"]["value"]
