"""Single calls outside the timed blocks: the first, the inspected one, and the one on an occupied GPU."""

from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import chain, count, repeat
from math import inf
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cases import for_each
from factories import Answer
from walks import bound, observing, prepared, simulated, time_block, trial_of, walked

from pytest_gpuperf.devices.host import HostDevice
from pytest_gpuperf.devices.simulated import SimulatedDevice
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import Inspection
from pytest_gpuperf.model.record import Verdict
from pytest_gpuperf.model.sampling_constants import SamplingPlan
from pytest_gpuperf.work.workload import ResettableCall


def unseen() -> SimulatedDevice:
    """Return a GPU of which no work is ever seen, as of a short kernel that allocates nothing."""
    return observing(simulated(), lambda observation: setattr(observation, "worked", False))


def through_a_function(held):
    """Return a callable that uses an array only through another function."""

    def step():
        len(held)

    return lambda: step()


HELD: dict[str, Any] = {}


def inspection(device, call, plan=None) -> Inspection:
    """Return what a single call shows of a workload, after it was timed."""
    trial = trial_of(Demand(check=False), RunOptions(sampling=plan or SamplingPlan()))
    trial.time_alone(bound(lambda _: call), device, seconds=0.0)
    record = trial.record(Verdict(status="recorded", reason=None))
    return (record.gpu or record.cpu).inspection


@for_each(("expected", "left"), [(2e-3, []), (12e-3, ["work of another thread"])])
def test_where_a_result_can_be_waited_for_the_device_is_not_unless_it_has_more_work(expected, left):
    device = simulated(kernel=2e-3)
    wait_for_all = device.synchronize

    def slow_synchronize():
        wait_for_all()
        device.pause(10e-3)

    device.wait = lambda _: wait_for_all()
    device.unfinished = lambda: left
    device.synchronize = slow_synchronize
    assert pytest.approx(expected, rel=0.1) == prepared(device, lambda seen: seen.launch()).first_call


@for_each(
    ("scope", "setup", "call", "body"),
    [
        ("call", 2e-3, 7e-3, lambda seen: (seen.xp.ones(1), partial(seen.launch, 7e-3))[1]),
        ("body", None, 2e-3, lambda seen: seen.xp.ones(1)),
    ],
)
def test_a_body_that_returns_a_callable_was_the_setup_and_any_other_is_the_workload(scope, setup, call, body):
    device = simulated(kernel=2e-3)
    workload = prepared(device, body)
    assert (scope, setup and pytest.approx(setup)) == (workload.scope, workload.setup)
    assert [pytest.approx(call)] * 2 == [workload.first_call, time_block(workload.call, 1, device)]


def with_a_global(seen):
    HELD.update(a=[seen.xp.ones(3)])
    return lambda: len(HELD)


def with_an_attribute(seen):
    """Return a callable whose attribute has the name of a global."""
    HELD.update(a=[seen.xp.ones(3)])
    host = SimpleNamespace(HELD=1.0)
    return lambda: host.HELD + 1


@for_each(
    ("expected", "device", "body"),
    [
        (True, simulated, lambda seen: seen.xp.ones(3)),
        (True, simulated, lambda seen: float(seen.xp.ones(3).sum())),
        (True, simulated, lambda seen: lambda: seen.asarray(np.ones(3))),
        (False, simulated, lambda seen: None),
        (False, simulated, lambda seen: (seen.xp.ones(3), lambda: np.ones(3))[1]),  # in the setup
        # Of a device on which no work is seen counts what the call can reach there.
        (True, unseen, lambda seen: (lambda held: lambda: float(len(held)))(seen.asarray(np.ones(3)))),
        (True, unseen, lambda seen: float(len(seen.asarray(np.ones(3))))),
        (True, unseen, lambda seen: through_a_function(seen.xp.ones(3))),
        (True, unseen, with_a_global),
        (False, unseen, with_an_attribute),
        (False, unseen, lambda seen: (seen.asarray(np.ones(3)), lambda: float(np.ones(3).sum()))[1]),
    ],
)
def test_work_on_the_device_is_what_the_workload_did_or_reaches_there(expected, device, body):
    assert expected is prepared(device(), body).did_device_work
    brought = unseen()
    held = brought.asarray(np.ones(3))
    assert prepared(brought, lambda seen, held: None, held=held).did_device_work


@for_each(
    ("expected", "calls", "seen_in", "seconds"),
    [(True, 9, 9, 0.0), (False, 31, inf, 0.0), (False, 2, inf, 0.1)],
)
def test_a_quick_call_of_which_nothing_was_seen_is_looked_at_again(expected, calls, seen_in, seconds):
    looks = count(0)  # the first is at the body
    device = observing(simulated(), lambda seen: setattr(seen, "worked", next(looks) == seen_in))
    workload = prepared(
        device, lambda seen: lambda: device.clock.advance(seconds)
    )  # as the replay of a graph
    assert (expected, calls + 1) == (workload.did_device_work, next(looks))


@for_each("seconds", [-1.0, float("nan")])
def test_a_time_outside_of_the_events_that_cannot_be_right_is_an_error(seconds):
    device = observing(simulated(), lambda observation: setattr(observation, "outside_time", seconds))
    with pytest.raises(GpuPerfError, match="cannot be right"):
        prepared(device, lambda seen: seen.launch)


def test_neither_first_call_nor_host_time_has_what_it_costs_to_observe():
    device = simulated(launch=1e-3, kernel=2e-3)
    observe = device.observe

    @contextmanager
    def observe_slowly():
        device.clock.advance(0.5)
        with observe() as observation:
            yield observation
        device.synchronize()
        observation.finished = device.clock()
        device.clock.advance(0.25)

    device.observe = observe_slowly
    assert prepared(device, lambda seen: device.launch).first_call == pytest.approx(3e-3)
    assert inspection(device, device.launch).host_time == pytest.approx(1e-3)


@for_each(
    ("refused", "seconds", "sees_all_work"),
    [(True, 1e-9, False), (True, 2e-6, True), (False, 2e-6, False)],  # whose work may not have been seen
)
def test_a_last_call_that_does_no_work_where_the_first_did_is_refused(refused, seconds, sees_all_work):
    device, first = simulated(), iter([True])
    device.sees_all_work = sees_all_work
    said = "submitted no work to simulated GPU, although the first one did"

    def call():
        device.clock.advance(seconds)
        if next(first, None):
            device.launch()

    with pytest.raises(GpuPerfError, match=said) if refused else nullcontext():
        found = inspection(device, call, SamplingPlan(block_time=1e-8, warmup_time=1e-6))
        assert found.host_time == pytest.approx(2e-6)


def launches(*kernels):
    """Return a call of so many kernels: of seconds each, on the first stream or on another."""
    return lambda device: [device.launch(seconds, stream=stream) for seconds, stream in kernels]


@for_each(
    ("host_time", "device_time", "outside", "kind", "call"),
    [
        (0.0, 7e-3, 0.0, "gpu", launches((3e-3, 0), (4e-3, 0))),
        (2e-3, 4e-3, 0.0, "gpu", lambda device: (device.pause(2e-3), device.launch(4e-3))),
        (0.0, 2e-3, 3e-3, "gpu", launches((2e-3, 0), (5e-3, 1))),  # the side stream ends after the events
        (0.0, 2e-3, 0.0, "gpu", launches((2e-3, 1), (2e-3, 0))),
        (2e-3, None, None, "cpu", launches((2e-3, 0))),  # it has no events
    ],
)
def test_the_last_call_shows_its_times(host_time, device_time, outside, kind, call):
    device = simulated(kind)
    found = inspection(device, lambda: call(device))
    assert found.host_time == pytest.approx(host_time)
    assert found.device_time == (device_time and pytest.approx(device_time))
    assert found.outside_time == (outside and pytest.approx(outside))
    for allocations, pool in ((0, True), (3, False)):  # of its own, not those from its pool
        device = simulated(kind, pool=pool)
        found = inspection(device, partial(lambda xp: xp.ones(9) + xp.ones(9), device.xp))
        assert (allocations, 3 * 72) == (found.allocations, found.memory)


@for_each(
    ("blocks", "device_time", "call"),
    [
        (True, None, lambda device: float(device.xp.ones(3).sum())),
        (True, None, lambda device: bool(device.xp.ones(3).all())),
        (True, None, lambda device: device.asnumpy(device.xp.ones(3))),
        (True, None, lambda device: (device.launch(), device.synchronize(), device.launch())),
        (True, None, lambda device: (device.pause(1.4e-3), device.launch(9e-3), device.synchronize())),
        # What takes long to submit may have filled the queue.
        (None, None, lambda device: (device.pause(1.6e-3), device.launch(1e-6), device.synchronize())),
        (False, 1.0, lambda device: device.launch(1.0)),
        (False, 1e-3, lambda device: (device.pause(1e-3), device.launch())),
        (False, 1e-3, lambda device: (device.pause(47e-3), device.launch())),
        (None, None, lambda device: (device.pause(48e-3), device.launch())),  # it takes too long to submit
    ],
)
def test_a_call_that_waits_for_its_device_is_told_by_that_alone(blocks, device_time, call):
    device = simulated()
    found = inspection(device, lambda: call(device))
    assert (blocks, device_time and pytest.approx(device_time)) == (found.synchronizes, found.device_time)


def test_what_events_saw_of_a_call_that_waits_for_its_device_is_not_the_devices_time():
    def interrupted(observation):  # after the call returned, and before the last event
        observation.device_time += 1.0

    device = observing(simulated(), interrupted)
    found = inspection(device, lambda: float(device.xp.ones(3).sum()))
    assert (True, None) == (found.synchronizes, found.device_time)


@for_each(("behind", "launch", "kernel"), [(5 * 2e-3, 1e-3, 2e-3), (5 * 1e-3, 2e-3, 1e-3)])
def test_behind_other_work_the_devices_time_has_no_launch_in_it(behind, launch, kernel):
    device = simulated(launch=launch, kernel=kernel)

    def call():
        for _ in range(5):
            device.launch()

    found = inspection(device, call)
    assert (pytest.approx(behind), pytest.approx(5 * launch)) == (found.device_time, found.host_time)


# A kernel of 1 ms takes as long as it takes to submit it.
@for_each(("expected", "kernel"), [(None, 0.5e-3), (None, 1e-3), (3e-3, 2e-3)])
def test_a_device_that_cannot_be_occupied_does_not_tell_the_submission_as_its_time(expected, kernel):
    device = simulated(launch=1e-3, kernel=kernel)
    device.occupy = lambda seconds: False
    found = inspection(device, device.launch)
    assert (None, expected and pytest.approx(expected)) == (found.synchronizes, found.device_time)


@for_each(
    ("expected", "shares", "waits"),
    [
        ((False, 1e-4), (0.1, 0.1, 1.0), False),  # clocks rise meanwhile: it is occupied for less
        ((True, None), (0.1, 0.1, 1.0), True),
        ((True, None), (0.95,), True),
        ((False, 1e-4), (0.6,), False),  # for long enough all the same
        ((None, None), (0.1, 0.1, 0.1, 1.0), True),
        ((None, None), (0.1, 0.1, 0.1, 1.0), False),
    ],
)
def test_a_device_whose_clocks_rise_is_occupied_again_until_that_lasts_for_the_call(expected, shares, waits):
    device, left = simulated(), chain(shares, repeat(shares[-1]))

    def occupy(seconds):
        device.lasted = next(left) * seconds
        return type(device).occupy(device, device.lasted)

    device.occupy, device.occupied = occupy, lambda: device.lasted

    def call():
        device.pause(1.2e-3)
        device.launch(1e-4)
        if waits:
            device.synchronize()

    found = inspection(device, call)
    blocks, seconds = expected
    assert (blocks, seconds and pytest.approx(seconds)) == (found.synchronizes, found.device_time)


def test_a_host_that_is_interrupted_once_is_no_call_that_waits_for_its_device():
    device, times = simulated(), []

    def occupy(seconds):
        times.append(seconds)
        return type(device).occupy(device, seconds)

    def call():
        device.pause(1.0 if len(times) == 1 else 0.0)
        device.launch(1e-4)

    device.occupy = occupy
    found = inspection(device, call)
    assert (False, pytest.approx(1e-4)) == (found.synchronizes, found.device_time)


def of_many_dtypes(seen):
    a, b = seen.asarray(np.ones((3, 4), np.float32)), seen.xp.ones(3, dtype=np.int16)
    c = seen.asarray(np.ones((), np.float32))
    return lambda: (a + c, [a.astype(np.complex128)], float(b.max()), "text", np.ones(7))


def of_its_inputs(seen):
    a = seen.xp.ones(10)
    return lambda: {"a": a, "b": (seen.xp.ones(5), 3.0, np.ones(7)), "c": Answer([None], seen.xp.ones(2))}


@for_each(
    ("dtypes", "shapes", "result", "body"),
    [
        # Of inputs and results each dtype once, in order; of inputs each shape, and without any of results.
        ("complex128 float32 float64 int16", "1 3 3x4", (48 + 192, 2), of_many_dtypes),
        ("float64", "10", (80 + 40 + 16, 3), of_its_inputs),
        ("float64", "2x5", (0, 0), lambda seen: lambda: [np.ones((2, 5)), 3.0]),
        # Numbers of NumPy and arrays on the host have a dtype, numbers of Python have none.
        ("float16", "1", (0, 0), lambda seen: lambda: np.float16(1)),
        ("", "", (0, 0), lambda seen: lambda: (None, 3.0, 4, True, "text")),
        # Of a whole body those of its result
        ("float32", "2", (8, 1), lambda seen: seen.asarray([1, 2]).astype(np.float32)),
    ],
)
def test_dtypes_shapes_and_bytes_are_those_of_inputs_and_results(dtypes, shapes, result, body):
    found = prepared(simulated(), body)
    assert (tuple(dtypes.split()), tuple(shapes.split())) == (found.dtypes, found.shapes)
    assert result == (found.result_bytes, found.result_arrays)


def bytes_of(workload) -> list[int]:
    return [upload.bytes for upload in workload.uploads]


def test_what_the_body_puts_up_are_the_uploads_read_or_not_and_of_a_cpu_their_bytes_alone():
    host = np.arange(10.0)

    def body(seen):
        a, _ = seen.asarray(host), seen.asarray([1.0, 2.0, 3.0])
        return lambda: a + 1

    workload = prepared(simulated(), body)
    assert ([80, 24], 0) == (bytes_of(workload), workload.created_bytes)
    assert workload.uploads[0].host() is host
    assert workload.uploads[1].host() == [1.0, 2.0, 3.0]
    for device in (simulated("cpu"), HostDevice("a processor")):
        workload = prepared(device, body)
        assert ([80, 24], None) == (bytes_of(workload), workload.uploads[0].host)


@for_each(
    ("uploads", "created", "hold"),
    [
        # What is made on the device and read there did not go up; what is not read does not count.
        ([80], 160, lambda seen: (seen.asarray(np.ones(10)), seen.xp.ones(20), seen.xp.ones(1000))[:2]),
        # An upload that is not read hides nothing that was made.
        ([80], 80, lambda seen: (seen.asarray(np.ones(10)) + 1,)),
        # A copy of an array of the device does not go up.
        ([], 80, lambda seen: (seen.asarray(seen.xp.ones(10)),)),
        # Views are not counted twice, of an upload and of what was made.
        ([80], 0, lambda seen: (whole := seen.asarray(np.ones(10)), whole[:4], whole.reshape(2, 5).T)),
        ([], 80, lambda seen: (whole := seen.xp.ones(10), whole[:4])),
    ],
)
def test_uploads_are_what_the_body_puts_up_and_created_is_what_it_makes_there(uploads, created, hold):
    def body(seen):
        held = hold(seen)
        # What is made in the call is neither.
        return lambda: ([each + 1 for each in held], seen.asarray(np.ones(10)) + seen.xp.ones(10))

    workload = prepared(simulated(), body)
    assert (uploads, created) == (bytes_of(workload), workload.created_bytes)


def with_new(seen, whole, part):
    made = seen.xp.ones(20)
    return lambda: (whole + 1, part + 1, made + 1)


@for_each(
    ("created", "bring", "body"),
    [
        # What the callable reads; by two fixtures, and in a list of a third one.
        (0, lambda a: {"x": a, "y": [a.copy()]}, lambda seen, x, y: lambda: x + 1),
        (0, lambda a: {"x": a, "y": a, "z": [a]}, lambda seen, x, y, z: lambda: x + y + z[0]),
        # Read through a view, and beside one
        (0, lambda a: {"x": a}, lambda seen, x: (part := x[:4], lambda: part + 1)[1]),
        (160, lambda a: {"whole": a, "part": a[:4]}, with_new),
        # The body puts it up itself.
        (
            0,
            lambda a: {"kept": {}},
            lambda seen, kept: (kept.update(a=seen.asarray(np.ones(10))), lambda: kept["a"] + 1)[1],
        ),
    ],
)
def test_an_array_that_fixtures_brought_and_the_callable_reads_goes_up_once(created, bring, body):
    device = simulated()
    workload = prepared(device, body, **bring(device.asarray(np.ones(10))))
    assert ([80], created) == (bytes_of(workload), workload.created_bytes)
    assert np.array_equal(workload.uploads[0].host(), np.ones(10))


async def coroutine():
    pass


def needs_one(argument):
    return argument


@for_each(
    ("said", "call"),
    [
        ("the workload is async and would never run", coroutine),
        (r"the test returned takes arguments: .*'a'", lambda a: a),
        (r"the test returned takes arguments: .*'a'", lambda *, a: a),
        (
            r"the test returned takes arguments: TypeError: .* missing 1 .* as in return lambda: model\(x\)",
            lambda *given: needs_one(*given),
        ),
        ("the test returned 2 functions in a tuple, which nobody calls", (lambda: 1, partial(needs_one, 1))),
        ("the test returned 1 function in a dict, which nobody calls", {"a": lambda: 1}),
        ("the call returned a function, which nobody calls", lambda: partial(needs_one, 1)),
    ],
)
def test_a_callable_that_cannot_be_called_again_and_again_is_refused(said, call):
    with pytest.raises(GpuPerfError, match=said):
        prepared(simulated(), lambda seen: call)
    assert prepared(simulated(), lambda seen: dict).scope == "call", "it does not tell its signature"


def lacks_an_argument_itself():
    return needs_one()


def test_an_error_of_what_is_called_is_none_of_arguments_that_the_callable_takes():
    for call in (lacks_an_argument_itself, lambda *given: lacks_an_argument_itself(*given)):
        with pytest.raises(TypeError, match="missing 1 required positional argument"):
            prepared(simulated(), lambda seen, call=call: call)


class LazyDevice(HostDevice):
    """A GPU whose work is a list of functions, until they are submitted."""

    kind = "gpu"

    def __init__(self):
        super().__init__("a lazy GPU")
        self.computed = 0

    def submit(self, result):
        self.computed += 1


@for_each(("computed", "calls", "calls_wait"), [(1, 1, False), (7, 7, False), (0, 7, True)])
def test_each_call_of_a_block_is_submitted_once_unless_it_waits_for_its_result(computed, calls, calls_wait):
    device = LazyDevice()
    time_block(list, calls, device, calls_wait=calls_wait)
    assert device.computed == computed


def test_a_call_that_returns_nothing_and_was_not_seen_to_work_is_an_error_that_says_what_to_return():
    def body(device):
        array = device.asarray(np.ones(3))
        return lambda: (array + 1, None)[1]

    idle = observing(LazyDevice(), lambda observation: setattr(observation, "worked", False))
    with pytest.raises(GpuPerfError, match=r"nothing was computed on a lazy GPU: .*; return the arrays"):
        trial_of(Demand()).compare(bound(body), HostDevice("a CPU"), idle)


def test_an_object_of_a_lazy_library_is_refused_for_its_arrays_may_not_be_computed():
    with pytest.raises(GpuPerfError, match="is of type SimpleNamespace, which is lazy"):
        prepared(LazyDevice(), lambda seen: lambda: SimpleNamespace(array=seen.asarray(np.ones(2))))


def noted(body, *, change=None, noise=lambda: 1.0, **timing) -> list[str]:
    """Return what is doubted of a body whose kernels take 10 ms on the CPU, and on the GPU `timing`."""
    gpu = simulated("gpu", noise=noise, **timing)
    cpu = simulated("cpu", gpu.clock, kernel=10e-3)
    found = walked(body, cpu, observing(gpu, change) if change else gpu, Demand(check=False))
    return [note.text for note in found.notes if note.code == "work_in_doubt"]


def at_first(device, first, later):
    """Return a call that does something else the first time."""
    calls = chain([first], repeat(later))
    return lambda: next(calls)(device)


def kernels(launches, seconds=None):
    return lambda device: [device.launch(seconds) for _ in range(launches)][:0]


def compiling(device):
    """Work on the host for a second, while the device is idle between its two events."""
    device.pause(1.0)
    device.launch()


def tuning(device):
    """Try forty kernels and wait for them, as libraries do that choose the fastest one."""
    kernels(40)(device)
    device.synchronize()
    device.launch()


def beside_a_side_stream(launches):
    def call(device):
        device.launch(10e-3, stream=1)
        kernels(launches)(device)

    return call


def quick_once(device):
    launches = chain([40, 1], repeat(40))
    return lambda: kernels(next(launches) if device.kind == "gpu" else 40)(device)


def once_before(device):
    call = at_first(device, kernels(40), kernels(1))
    call()
    return call


def after_each_reset(device):
    """Return a step that works for longer after a reset, as the first call and the inspected one do."""
    done: list[None] = []

    def step():
        kernels(1 if done else 40)(device)
        done.append(None)

    return ResettableCall(step, done.clear)


@for_each(
    ("first", "later", "launches", "kernel"),
    [
        ("40.0 ms", "1.00 ms", 40, 1e-3),
        ("2.10 ms", "1.00 ms", 21, 1e-3),
        ("130 us", "10.0 us", 13, 10e-6),
    ],
)
def test_a_first_call_that_works_for_more_than_twice_as_long_as_later_ones_is_noted(
    first, later, launches, kernel
):
    """As one that fills a cache, a warm start, or an early exit."""
    seconds = 0.1e-3 if launches == 21 else None
    (text,) = noted(lambda device: at_first(device, kernels(launches, seconds), kernels(1)), kernel=kernel)
    assert text.startswith(f"the first call worked {first} on the emulated device, and a later one {later}: ")
    assert "call once in the setup" in text


@pytest.mark.parametrize(
    ("body", "timing"),
    [
        (lambda device: at_first(device, kernels(2), kernels(1)), {}),
        (lambda device: at_first(device, kernels(10), kernels(1)), {"kernel": 10e-6}),
        (lambda device: at_first(device, compiling, kernels(1)), {}),
        (lambda device: at_first(device, tuning, kernels(1)), {}),
        (lambda device: at_first(device, beside_a_side_stream(15), beside_a_side_stream(1)), {}),
        (lambda device: device.launch, {"noise": chain([5.0] * 50, repeat(1.0)).__next__}),
        (quick_once, {}),
        (once_before, {}),
        (after_each_reset, {}),
        (
            lambda device: at_first(device, kernels(40), kernels(1)),
            {"change": lambda observation: setattr(observation, "device_time", None)},
        ),
        (
            lambda device: at_first(device, kernels(40), kernels(1)),
            {"change": lambda observation: setattr(observation, "unfinished", False)},
        ),
    ],
    ids=[
        "twice as long",
        "a workspace that takes microseconds",
        "a compiler on the host",
        "kernels that the library tries",
        "a plan that takes no longer than a call",
        "a device that is slow at first",
        "a second call alone that does less",
        "a call in the setup",
        "the first call after each reset",
        "a device without events",
        "a device that was done as the call returned, before the host was interrupted",
    ],
)
def test_a_first_call_that_did_no_other_work_that_matters_is_not_noted(body, timing):
    assert noted(body, **timing) == []
