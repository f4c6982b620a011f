"""The device's memory: the most that any call held above what was there before the setup, to the byte."""

import gc
from functools import partial
from itertools import count

import numpy as np
from cases import for_each
from walks import observing, simulated, trial_of, walked

from pytest_gpuperf.devices.simulated import Clock, SimulatedDevice
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import Memory
from pytest_gpuperf.model.record import Verdict
from pytest_gpuperf.timing.held_memory import HeldMemory
from pytest_gpuperf.work.workload import ResettableCall, Workload

SMALL, LARGE = np.ones(1000, dtype=np.float32), np.ones(10**6, dtype=np.float32)
INPUT = RESULT = SMALL.nbytes  # 4 kB


def devices() -> tuple[SimulatedDevice, SimulatedDevice]:
    clock = Clock()
    return simulated("cpu", clock, kernel=2e-3), simulated("gpu", clock)


def measured(body, on=None) -> Memory:
    found = walked(body, *(on or devices()), Demand(max_memory=10**6))
    assert found.memory.peak is not None
    assert (found.status == "failed") == (found.memory.peak > 10**6)
    return found.memory


def of_the_first_call(device):
    """Make a plan, a workspace or the state of an optimizer in the first call, and keep it."""
    a, plans = device.asarray(SMALL), {}

    def call():
        if not plans:
            plans["plan"] = device.xp.ones(10**6, dtype="float32")
        return a * plans["plan"][:1000]

    return call


def freed_by_the_next_call(device):
    """Free gradients only when the next step begins."""
    a, state = device.asarray(SMALL), {}

    def call():
        state.pop("gradient", None)
        state["gradient"] = device.xp.ones(10**6, dtype="float32")
        return a * 2

    return call


def freed_by_the_first_call_itself(device):
    a, tried = device.asarray(SMALL), []

    def call():
        if not tried:
            tried.append(float(device.xp.ones(10**6, dtype="float32")[0]))
        return a * 2

    return call


def made_in_the_setup(device):
    a, plan = device.asarray(SMALL), device.xp.ones(10**6, dtype="float32")
    return lambda: a * plan[:1000]


def freed_in_the_setup(device):
    large = device.asarray(LARGE)
    a = large[:1000] + 1
    del large
    return lambda: a * 2


def replaced_when_the_next_is_there(device):
    a, state = device.asarray(SMALL), {}

    def call():
        state["last"] = a * 2
        return state["last"]

    return call


def plain(device):
    a = device.asarray(SMALL)
    return lambda: a * 2


def a_whole_body(device):
    a = device.asarray(SMALL)
    a = a * 2
    return a + 1


KEPT = {}


def a_whole_body_with_a_plan(device):
    if device.kind not in KEPT:
        KEPT[device.kind] = device.xp.ones(10**6, dtype="float32")
    return device.asarray(SMALL) * 2


@for_each(
    ("peak", "inputs", "body"),
    [
        (INPUT + LARGE.nbytes + RESULT, INPUT, of_the_first_call),
        (INPUT + LARGE.nbytes + RESULT, INPUT, freed_by_the_next_call),
        (INPUT + LARGE.nbytes, INPUT, freed_by_the_first_call_itself),
        (INPUT + LARGE.nbytes + RESULT, INPUT + LARGE.nbytes, made_in_the_setup),
        (INPUT + RESULT, INPUT, freed_in_the_setup),
        (INPUT + 2 * RESULT, INPUT, replaced_when_the_next_is_there),
        (INPUT + RESULT, INPUT, plain),
        (2 * RESULT, 0, a_whole_body),
        (LARGE.nbytes + INPUT + RESULT, 0, a_whole_body_with_a_plan),
    ],
)
def test_the_peak_is_the_most_that_any_call_held_with_what_earlier_ones_have_left(peak, inputs, body):
    found = measured(body)
    KEPT.clear()
    assert (peak, inputs) == (found.peak, found.inputs)


def test_a_cache_that_grows_counts_as_large_as_the_last_call_has_left_it():
    caches = {"cpu": [], "gpu": []}

    def growing(device):
        a = device.asarray(SMALL)
        return lambda: (caches[device.kind].append(device.xp.ones(1000, dtype="float32")), a * 2)[1]

    assert INPUT + len(caches["gpu"]) * INPUT < measured(growing).peak
    assert INPUT + len(caches["gpu"]) * INPUT == measured(growing).peak


@for_each("is_freed", [False, True])
def test_what_was_there_before_the_setup_is_no_part_of_it_though_it_is_freed_meanwhile(is_freed):
    cpu, gpu = devices()
    before = [gpu.asarray(LARGE)]

    def other_work():
        if is_freed:
            before.clear()

    def body(device):
        a = device.asarray(SMALL)
        return lambda: (other_work(), a * 2)[1]

    assert INPUT + RESULT == measured(body, (cpu, gpu)).peak
    assert is_freed == (not before)


@for_each("first", [0, 1])
def test_an_input_that_a_fixture_brought_is_held_beside_what_calls_keep(first):
    on = devices()
    brought = {device.kind: device.asarray(LARGE) for device in on}

    def body(device, array):
        plans, calls = [], count()

        def call():
            if next(calls) == first:
                plans.append(device.xp.ones(10**6, dtype="float32"))
            return array[:1000] * 2

        return call

    trial = trial_of(Demand())
    trial.compare(lambda device: partial(body, device, brought[device.kind]), *on)
    found = trial.record(Verdict(status="recorded", reason=None)).memory
    assert (2 * LARGE.nbytes + RESULT, LARGE.nbytes) == (found.peak, found.inputs)


def test_a_reset_that_makes_the_state_anew_adds_nothing():
    def body(device):
        state = {"weights": device.asarray(LARGE[:1000])}

        def reset():
            state["weights"] = device.asarray(LARGE)[:1000] + 0  # no call holds what is copied here

        def step():
            state["weights"] = state["weights"] * 2
            return state["weights"]

        return ResettableCall(step, reset)

    assert INPUT + RESULT == measured(body).peak


def test_garbage_of_the_blocks_in_which_the_collector_pauses_is_not_held():
    def body(device):
        a = device.asarray(SMALL)

        def call():
            cycle = [device.xp.ones(10**6, dtype="float32")]
            cycle.append(cycle)
            return a * 2

        return call

    gc.disable()
    try:
        found = measured(body)
    finally:
        gc.enable()
    assert INPUT + 2 * LARGE.nbytes + RESULT == found.peak, "of the first call and the second"


def test_a_device_that_does_not_say_what_was_there_before_counts_what_a_call_adds():
    cpu, gpu = devices()
    observing(gpu, lambda seen: setattr(seen, "live", None))
    assert INPUT + LARGE.nbytes + RESULT == measured(of_the_first_call, (cpu, gpu)).peak


def test_what_only_the_plugin_had_kept_in_the_inspected_call_is_not_held():
    device = simulated()
    kept, cached = [device.asarray(SMALL)], device.asarray(SMALL)
    workload = Workload(device=device, call=device.launch, scope="call", live_before=0)
    held = HeldMemory(workload=workload, at_last=device.live_bytes + RESULT)
    with held.settling():
        kept.clear()
    assert cached.nbytes + RESULT == held.most
