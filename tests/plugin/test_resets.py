"""`gpuperf.workload(call, reset=...)`: calls that change a state, which is restored before each block."""

import json

import pytest

HEAD = """
import numpy as np, pytest

RESTORED = {"cpu": [], "gpu": []}

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
"""
TEST = """
@pytest.mark.speedup(min=3)
def test_it(device, gpuperf):
    call, restore = training(device)
    return gpuperf.workload(call, reset=restore)
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


@pytest.fixture
def ended(run, pytester):
    """Run one test on the simulated devices; return pytest's result and the record."""

    def call(source, *options):
        result = run(HEAD + source, "--gpuperf-json=r.json", *options)
        (record,) = json.loads((pytester.path / "r.json").read_text())["records"]
        return result, record

    return call


@pytest.mark.parametrize("demand", ["min=3", "min=3, latency=True"])
def test_a_state_is_restored_before_each_block_and_that_is_in_no_time(ended, demand):
    after = """
def test_after():
    for found in RESTORED.values():
        assert len(found) > 15
        assert max(found) < 200
"""
    result, record = ended(TEST.replace("min=3", demand) + after)
    result.assert_outcomes(passed=2)
    assert record["check"]["agreed"] is True
    for kind, seconds in (("cpu", 2e-4), ("gpu", 2e-5)):
        found = record[kind]
        assert found["block_calls"] > 2
        assert [found["median"], found["latency"]] == pytest.approx([seconds, seconds], abs=1e-5)
        assert found["first_call"] == pytest.approx(seconds, abs=1e-5)


def test_calls_with_copies_start_from_it_too(ended):
    copies = TEST.replace("min=3", "min=3, transfer='always'").replace(
        "return gpu", "x = device.asarray(np.ones(9))\n    call = plus(call, x)\n    return gpu"
    )
    plus = "def plus(call, x):\n    return lambda: x * call()\n"
    result, record = ended(plus + copies)
    result.assert_outcomes(passed=1)
    assert record["check"]["agreed"] is True
    assert record["transfer"]["loop"]


@pytest.mark.parametrize("demand", ["min=3", "min=3, latency=True", "min=1, transfer='always'"])
def test_of_slow_calls_no_third_one_is_made_without_a_reset(ended, demand):
    source = """
@pytest.mark.speedup(DEMAND)
def test_it(device, gpuperf):
    x, calls = device.asarray(np.ones(9)), []

    def call():
        assert len(calls) < 2
        calls.append(1)
        device.launch(0.1 if device.kind == "cpu" else 0.02)
        return x + len(calls)
    return gpuperf.workload(call, reset=calls.clear)
"""
    result, record = ended(source.replace("DEMAND", demand))
    result.assert_outcomes(passed=1)
    assert record["transfer"]["h2d"]["samples"]
    assert "aside_failed" not in {note["code"] for note in record["notes"]}
    assert record["gpu"]["inspection"]["synchronizes"] is False


def test_what_only_the_second_call_shows_is_compared(ended):
    forgets = "lambda: call() if device.kind == 'cpu' else min(1.0, call())"
    result, record = ended(TEST.replace("workload(call", f"workload({forgets}"))
    result.assert_outcomes(failed=1)
    assert record["reason"].startswith("the devices disagree before timing: result: ")


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_a_reset_that_raises_is_named_with_its_device(ended, kind):
    source = f"{TEST}\nclass Restored(list):\n    def append(self, _):\n        self.extend([0])\n"
    source += f"        assert len(self) < 10, 'gone'\nRESTORED[{kind!r}] = Restored()"
    result, record = ended(source)
    result.assert_outcomes(failed=1)
    assert "error" == record["status"]
    assert f"raised on the {kind.upper()} (simulated {kind.upper()}) in round" in record["reason"]
    assert record["reason"].endswith(" by the workload's reset")
    result.stdout.fnmatch_lines(["E *raised by the workload's reset"])


CHANGES = "the workload's result changes after each reset, so repeated calls"


@pytest.mark.parametrize(
    ("said", "reset"),
    [
        (
            "ZeroDivisionError: division by zero, raised on the CPU (simulated CPU) by the workload's reset",
            "lambda: 1 / 0",
        ),
        (CHANGES, "lambda: device.launch(1e-3)"),
        (CHANGES, "restore if device.kind == 'cpu' else lambda: device.launch(1e-3)"),
    ],
    ids=["raises at first", "leaves the state", "leaves it on the GPU alone"],
)
def test_a_reset_that_fails_or_leaves_the_state_is_an_error(ended, said, reset):
    _, record = ended(TEST.replace("reset=restore", f"reset={reset}"))
    assert record["reason"].startswith(said)


def test_a_reset_that_leaves_an_array_changed_which_no_result_shows_is_an_error(ended):
    ended(STATE_IN_AN_ARRAY)[0].assert_outcomes(passed=1)
    _, record = ended(STATE_IN_AN_ARRAY.replace("state[0] = 0", "state[1] = 1"))
    assert record["reason"] == (
        "the workload's reset does not restore what calls change (float64 array of shape (3,)), so repeated "
        "blocks do not do the same work; copy the values back into that array"
    )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (TEST, "restore all that it changes with gpuperf.workload(call, reset=...)"),
        (STATE_IN_AN_ARRAY, "or restore it with gpuperf.workload(call, reset=...)"),
    ],
)
def test_without_a_reset_the_error_says_how_to_have_one(ended, source, expected):
    _, record = ended(source.replace("gpuperf.workload(call, reset=restore)", "call"))
    assert expected in record["reason"]


@pytest.mark.parametrize(("of_gpu", "status"), [("call", "passed"), ("lambda: min(1.0, call())", "failed")])
def test_variants_have_resets_too(suite, of_gpu, status):
    found = suite(
        f"""{HEAD}
@pytest.mark.speedup(min=3)
def test_it(xp, gpuperf):
    device = conftest.BACKEND.gpu("") if xp is conftest.cupy else conftest.BACKEND.cpu()
    call, restore = training(device)
    return gpuperf.workload(call if xp is conftest.numpy else {of_gpu}, reset=restore)
"""
    )
    assert {"test_it[numpy]": "recorded", "test_it[cupy]": status} == found.statuses


def test_a_workload_with_a_reset_is_a_body_of_gpuperf_both_and_runs_where_nothing_is_timed(run):
    both = """
@pytest.mark.speedup(min=3)
def test_both(gpuperf):
    def body(device):
        call, restore = training(device)
        call()
        return gpuperf.workload(call, reset=restore)
    assert gpuperf.both(body) == (1.0, 1.0)
"""
    run(HEAD + both).assert_outcomes(passed=1)
    run(HEAD + TEST, "--gpuperf-off").assert_outcomes(passed=1)


GROWING = """
@pytest.mark.speedup(min=1.5)
def test_it(device, gpuperf):
    calls = []

    def call():
        calls.append(1)
        device.launch({seconds})
        return len(calls)
    return gpuperf.workload(call, reset=calls.clear)
"""


@pytest.mark.parametrize("seconds", ["1e-5 * len(calls)", "1e-3 if len(calls) == 1 else 1e-6"])
@pytest.mark.parametrize("demand", ["min=1.5", "min=1.5, latency=True"])
def test_where_calls_after_a_reset_take_other_times_both_devices_make_as_many(ended, seconds, demand):
    seconds = f"(({seconds}) * (2 if device.kind == 'cpu' else 1))"
    _, record = ended(GROWING.format(seconds=seconds).replace("min=1.5", demand))
    assert record["cpu"]["block_calls"] == record["gpu"]["block_calls"]
    assert record["speedup"]["value"] == pytest.approx(2, rel=0.1)
    # So do the single calls that are timed besides.
    assert record["cpu"]["latency"] / record["gpu"]["latency"] == pytest.approx(2, rel=0.1)
    assert "work_in_doubt" not in {note["code"] for note in record["notes"]}


def test_a_gpu_variant_makes_as_many_calls_as_its_cpu_variant(suite):
    there = (
        "device = conftest.BACKEND.gpu('') if xp is conftest.cupy else conftest.BACKEND.cpu()\n    calls = []"
    )
    source = GROWING.replace("test_it(device", "test_it(xp").replace("calls = []", there)
    found = suite(HEAD + source.format(seconds="1e-5 * len(calls) * (2 if xp is conftest.numpy else 1)"))
    assert pytest.approx(2, rel=0.1) == found.records["test_it[cupy]"]["speedup"]["value"]


def test_blocks_of_slow_calls_have_few_of_them_on_both_devices(ended):
    source = TEST.replace("training(device)", "training(device, (0.02, 1e-5))").replace("min=3", "min=100")
    _, record = ended(source)
    assert record["cpu"]["block_calls"] == record["gpu"]["block_calls"] == 5


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
MADE_THERE = MODULE.replace("device.asarray(np.arange(4.0))", "(device.asarray(np.arange(4.0)) + 0)")


@pytest.mark.parametrize("result", ["self.weights.sum()", "self", "1.0"])
def test_a_state_in_an_object_is_restored_or_an_error(ended, result):
    source = MODULE.replace("RESULT", result)
    ended(source)[0].assert_outcomes(passed=1)
    for forgotten in ("momentum", "weights"):
        _, record = ended(source.replace(f"        layer.{forgotten}[...] = np.arange(4.0)\n", ""))
        assert "error" == record["status"]
        assert "reset" in record["reason"]
        assert "random" not in record["reason"]


def test_a_result_that_is_the_state_itself_was_not_kept(ended):
    source = MADE_THERE.replace("RESULT", "self").replace("layer.step,", "lambda: layer.step(),")
    _, record = ended(source)
    assert record["check"]["agreed"] is True
    assert "work_in_doubt" not in {note["code"] for note in record["notes"]}


def test_a_state_that_is_reached_through_objects_is_restored_or_an_error(ended):
    source = MADE_THERE.replace("RESULT", "1.0").replace("layer.step,", "lambda: layer.step(),")
    ended(source)[0].assert_outcomes(passed=1)
    _, record = ended(source.replace("        layer.weights[...] = np.arange(4.0)\n", ""))
    assert "does not restore what calls change (float64 array of shape (4,))" in record["reason"]


def test_a_result_that_is_kept_within_a_block_is_noted(ended):
    _, record = ended(
        """
@pytest.mark.speedup(min=3)
def test_it(device, gpuperf):
    kept, x = [], device.asarray(np.arange(10000.0))

    def call():
        if not kept or device.kind == "cpu":
            kept.append(x + 1)
        return kept[-1]
    return gpuperf.workload(call, reset=kept.clear)
"""
    )
    assert "work_in_doubt" in {note["code"] for note in record["notes"]}


def test_what_a_reset_compiles_is_not_the_calls(ended):
    source = TEST.replace("reset=restore", "reset=lambda: (restore(), device.compile())")
    hook = """
import itertools
from pytest_gpuperf.devices.simulated import SimulatedDevice
COUNT = itertools.count()
SimulatedDevice.compilations = lambda self: COMPILED[0]
COMPILED = [0]
SimulatedDevice.compile = lambda self: COMPILED.__setitem__(0, COMPILED[0] + 1)

def test_after():
    del SimulatedDevice.compilations, SimulatedDevice.compile
"""
    _, record = ended(source + hook)
    assert "passed" == record["status"]


@pytest.mark.parametrize("arguments", ["call, reset=None", "None, reset=call", "call, reset=3"])
def test_a_reset_that_cannot_be_called_is_refused_at_once(ended, arguments):
    _, record = ended(TEST.replace("call, reset=restore", arguments))
    assert "gpuperf.workload takes two functions without arguments, call and reset" in record["reason"]
