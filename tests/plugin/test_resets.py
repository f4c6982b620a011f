"""`gpuperf.workload(call, reset=...)`: calls that change a state, which is restored before each block."""

from fnmatch import fnmatch

import pytest

SUITE = """
import numpy as np

pytestmark = pytest.mark.speedup(min=3)
RESTORED = {"cpu": [], "gpu": []}

@pytest.fixture(autouse=True)
def restored(request):
    yield
    if request.node.name in ("test_state[limit]", "test_state[latency]"):
        for found in RESTORED.values():
            assert len(found) > 15
            assert max(found) < 200
    for found in RESTORED.values():
        found.clear()

def demands(**limits):
    copies, latency = {"transfer": "always"}, {"latency": True}
    return pytest.mark.parametrize("demand", [
        pytest.param(name, marks=pytest.mark.speedup(**limits, **more))
        for name, more in (("limit", {}), ("latency", latency), ("copies", copies))
    ])

def training(device, seconds=(2e-4, 2e-5)):
    # A step that adds to a state, and what restores it, which is 500 times as slow.
    state = [0.0]

    def call():
        state[0] += 1
        device.launch(seconds[device.kind == "gpu"])
        return state[0]

    def restore():
        RESTORED[device.kind].append(state[0])
        device.launch(0.1)
        state[0] = 0.0

    return call, restore

@demands(min=3)
def test_state(device, gpuperf, demand):
    call, restore = training(device)
    x = device.asarray(np.ones(9))
    return gpuperf.workload((lambda: x * call()) if demand == "copies" else call, reset=restore)

@pytest.mark.speedup(min=100)
def test_few_calls(device, gpuperf):
    call, restore = training(device, (0.02, 1e-5))
    return gpuperf.workload(call, reset=restore)

@demands(min=1)
def test_slow(device, gpuperf, demand):
    x, calls = device.asarray(np.ones(9)), []

    def call():
        assert len(calls) < 2
        calls.append(1)
        device.launch(0.1 if device.kind == "cpu" else 0.02)
        return x + len(calls)
    return gpuperf.workload(call, reset=calls.clear)

def growing(device, gpuperf, seconds):
    calls = []

    def call():
        calls.append(1)
        device.launch(seconds(len(calls)) * (2 if device.kind == "cpu" else 1))
        return len(calls)
    return gpuperf.workload(call, reset=calls.clear)

@demands(min=1)
def test_grows(device, gpuperf, demand):
    return growing(device, gpuperf, lambda calls: 1e-5 * calls)

def test_compiles(device, gpuperf, monkeypatch):
    compiled = []
    monkeypatch.setattr(type(device), "compilations", lambda _: len(compiled), raising=False)
    call, restore = training(device)
    return gpuperf.workload(call, reset=lambda: (restore(), compiled.append(1)))

def test_both(gpuperf):
    def body(device):
        call, restore = training(device)
        call()
        return gpuperf.workload(call, reset=restore)
    assert gpuperf.both(body) == (1.0, 1.0)

def test_keeps(device, gpuperf):
    kept, x = [], device.asarray(np.arange(10000.0))

    def call():
        if not kept or device.kind == "cpu":
            kept.append(x + 1)
        return kept[-1]
    return gpuperf.workload(call, reset=kept.clear)

@pytest.mark.parametrize("how", ["restored", "left", "no reset"])
def test_array(device, gpuperf, how):
    state = device.asarray(np.arange(3.0))

    def call():
        state[0] = state[0] + 1
        return state[1:] + 0

    def restore():
        state[0 if how == "restored" else 1] = 0
    return call if how == "no reset" else gpuperf.workload(call, reset=restore)

RESULTS = {"sum": lambda layer: layer.weights.sum(), "itself": lambda layer: layer, "number": lambda _: 1.0}

class Layer:
    def __init__(self, result, *arrays):
        self.result = result
        self.weights, self.momentum = arrays

    def step(self):
        self.weights += self.momentum
        self.momentum *= 0.5
        return RESULTS[self.result](self)

    def restore(self, forgotten):
        for name in ("weights", "momentum"):
            if name != forgotten:
                getattr(self, name)[...] = np.arange(4.0)

@pytest.mark.parametrize("forgotten", ["nothing", "momentum", "weights"])
@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.speedup(min=1e-9)
def test_object(device, gpuperf, result, forgotten):
    layer = Layer(result, device.asarray(np.arange(4.0)), device.asarray(np.arange(4.0)))
    return gpuperf.workload(layer.step, reset=lambda: layer.restore(forgotten))

def forgetting(device, call):
    return lambda: call() if device.kind == "cpu" else min(1.0, call())

def test_differs(device, gpuperf):
    call, restore = training(device)
    return gpuperf.workload(forgetting(device, call), reset=restore)

@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_raises(device, gpuperf, kind):
    call, restore = training(device)
    resets = iter(range(10 if device.kind == kind else 10**9))
    return gpuperf.workload(call, reset=lambda: (restore(), next(resets)))

def test_raises_at_first(device, gpuperf):
    return gpuperf.workload(training(device)[0], reset=lambda: 1 / 0)

@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_leaves(device, gpuperf, kind):
    call, restore = training(device)
    return gpuperf.workload(call, reset=(lambda: device.launch(1e-3)) if device.kind == kind else restore)

def test_no_reset(device):
    return training(device)[0]

@pytest.mark.parametrize("call, reset", [(int, None), (None, int), (int, 3)], ids=["reset", "call", "number"])
def test_arguments(device, gpuperf, call, reset):
    return gpuperf.workload(call, reset=reset)

def of(xp):
    return conftest.BACKEND.gpu("") if xp is conftest.cupy else conftest.BACKEND.cpu()

def test_variants(xp, gpuperf):
    call, restore = training(of(xp))
    return gpuperf.workload(call, reset=restore)

def test_variants_differ(xp, gpuperf):
    call, restore = training(of(xp))
    return gpuperf.workload(forgetting(of(xp), call), reset=restore)

@pytest.mark.speedup(min=1.5)
def test_variants_grow(xp, gpuperf):
    return growing(of(xp), gpuperf, lambda calls: 1e-5 * calls)
"""
DEMANDS = ("limit", "latency", "copies")
RIGHT = [
    *(f"test_{what}[{demand}]" for what in ("state", "slow") for demand in DEMANDS),
    *(f"test_object[{result}-nothing]" for result in ("sum", "itself", "number")),
    *("test_array[restored]", "test_few_calls", "test_compiles", "test_both", "test_variants[cupy]"),
]
CHANGES = "the workload's result changes after each reset, so repeated calls*"
RAISED = "*raised on the {} (simulated {}) in round * by the workload's reset"
TAKES = "*gpuperf.workload takes two functions without arguments, call and reset*"
WRONG = {
    "test_differs": ("failed", "the devices disagree before timing: result: *"),
    "test_variants_differ[cupy]": ("failed", "the devices disagree *"),
    "test_raises[cpu]": ("error", RAISED.format("CPU", "CPU")),
    "test_raises[gpu]": ("error", RAISED.format("emulated device", "GPU")),
    "test_raises_at_first": (
        "error",
        "ZeroDivisionError: *, raised on the CPU (simulated CPU) by the workload's reset",
    ),
    "test_leaves[cpu]": ("error", CHANGES),
    "test_leaves[gpu]": ("error", CHANGES),
    "test_array[left]": ("error", "*does not restore what calls change (float64 array of shape (3,))*"),
    "test_no_reset": (
        "error",
        "*restore all that it changes, * too, with gpuperf.workload(call, reset=...)*",
    ),
    "test_array[no reset]": ("error", "*or restore it with gpuperf.workload(call, reset=...)"),
    **{
        f"test_object[{result}-{forgotten}]": ("error", "*reset*")
        for forgotten in ("momentum", "weights")
        for result in ("sum", "itself", "number")
    },
    **{f"test_arguments[{name}]": ("error", TAKES) for name in ("reset", "call", "number")},
}
KEPT = {}


@pytest.fixture
def found(suite):
    """Return what one run of all tests has left, which is the same for all that only read it."""
    if not KEPT:
        KEPT["found"] = suite(SUITE, "-vv")
    return KEPT["found"]


def notes(record):
    return {note["code"] for note in record["notes"]}


def test_a_state_that_is_restored_is_measured(found):
    assert dict.fromkeys(RIGHT, "passed") == {name: found.statuses[name] for name in RIGHT}
    for name in RIGHT:
        assert "work_in_doubt" not in notes(found.records[name]), name
        assert name == "test_both" or found.records[name]["check"]["agreed"] is True
    assert "work_in_doubt" in notes(found.records["test_keeps"]), "a result that is kept within a block"


@pytest.mark.parametrize("name", WRONG)
def test_a_reset_that_leaves_or_cannot_leave_the_state_is_an_error(found, name):
    status, reason = WRONG[name]
    record = found.records[name]
    assert status == record["status"]
    assert fnmatch(record["reason"], reason)
    assert f"test_it.py::{name} FAILED" in str(found.result.stdout)


def test_the_time_of_a_reset_is_in_no_time(found):
    for name in ("test_state[limit]", "test_state[latency]"):
        for kind, seconds in (("cpu", 2e-4), ("gpu", 2e-5)):
            device = found.records[name][kind]
            assert device["block_calls"] > 2
            assert [device["median"], device["latency"]] == pytest.approx([seconds, seconds], abs=1e-5)
            assert device["first_call"] == pytest.approx(seconds, abs=1e-5)
    assert found.records["test_state[copies]"]["transfer"]["loop"]


def test_of_slow_calls_no_third_one_is_made_without_a_reset(found):
    for name in (f"test_slow[{demand}]" for demand in DEMANDS):
        record = found.records[name]
        assert record["transfer"]["h2d"]["samples"]
        assert "aside_failed" not in notes(record)
        assert record["gpu"]["inspection"]["synchronizes"] is False


def test_where_calls_after_a_reset_take_other_times_both_devices_make_as_many(found):
    for record in (found.records[f"test_grows[{demand}]"] for demand in DEMANDS[:2]):
        assert record["cpu"]["block_calls"] == record["gpu"]["block_calls"]
        assert record["speedup"]["value"] == pytest.approx(2, rel=0.1)
        # So do the single calls that are timed besides.
        assert record["cpu"]["latency"] / record["gpu"]["latency"] == pytest.approx(2, rel=0.1)
        assert "work_in_doubt" not in notes(record)
    assert found.records["test_variants_grow[cupy]"]["speedup"]["value"] == pytest.approx(2, rel=0.1)
    record = found.records["test_few_calls"]
    assert record["cpu"]["block_calls"] == record["gpu"]["block_calls"] == 5
