"""ScalingQuestion: one test on groups of devices whose every time is known."""

from collections import UserDict, UserList, deque
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pytest
from cases import for_each
from msgspec.structs import replace

from pytest_gpuperf.analysis import scaling
from pytest_gpuperf.devices.group import DeviceGroup
from pytest_gpuperf.devices.protocol import Observation
from pytest_gpuperf.devices.simulated import Clock, SimulatedDevice, Timing
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import Interference
from pytest_gpuperf.model.record import Record, Verdict
from pytest_gpuperf.model.scaling import Scaling
from pytest_gpuperf.timing.scaling_question import ScalingQuestion
from pytest_gpuperf.timing.trial import Trial
from pytest_gpuperf.timing.untimed_calls import devices_at_work
from pytest_gpuperf.timing.workload import Workload

WORK = 10e-3  # seconds of the whole problem on one device
COUNTS = (1, 2, 4)


class Devices:
    """Up to four GPUs on one clock, whose operations on arrays take no time."""

    def __init__(self, *, noise=lambda: 1.0, throttle=tuple, **timing):
        self.clock = Clock()
        self._throttle = throttle
        self.timing = Timing(kernel=0.0, **timing)
        self._noise = noise
        self._devices = [self._device(index) for index in range(4)]

    def _device(self, index):
        return SimulatedDevice(
            "gpu",
            clock=self.clock,
            timing=self.timing,
            noise=self._noise,
            throttle=self._throttle,
            index=index,
        )

    def group(self, count) -> DeviceGroup:
        return DeviceGroup(self._devices[:count])

    def trial(self, count, *, required=None, mode="strong", demand=None) -> Trial:
        asked = Scaling(name="test_it", mode=mode, count=count, counts=COUNTS, required=required)
        wanted = scaling.with_required_speedup(demand or Demand(), asked)
        question = ScalingQuestion(asked)
        return Trial(nodeid="test_it", demand=wanted, question=question, options=RunOptions())

    def compare(self, body, count=4, **options) -> Record:
        """Measure a body on so many devices, and on one, and return its record."""
        trial = self.trial(count, **options)
        ended = trial.compare(bound(body), self.group(1), self.group(count))
        return trial.record(ended)

    def refusal(self, body, count=4, **options) -> str:
        with pytest.raises(GpuPerfError) as refused:
            self.compare(body, count, **options)
        return str(refused.value)


def bound(body):
    return lambda devices: partial(body, devices)


def divided(devices, *, extra=0.0, work=WORK, size=8):
    """Return a call whose work the devices share, but for what each of them needs more."""
    parts = devices.asarray(np.arange(float(size)), shard=0)

    def call():
        for device in devices.all:
            device.launch(work / devices.count + extra)
        return [part * 2 for part in parts]

    return call


def test_work_that_is_divided_has_an_efficiency_of_one():
    record = Devices().compare(divided)
    assert record.scaling.efficiency.value == pytest.approx(1, rel=1e-12)
    assert record.scaling.speedup.value == pytest.approx(4, rel=1e-12)
    assert record.scaling.karp_flatt.value == pytest.approx(0, abs=1e-12)


def test_the_times_of_both_numbers_of_devices_are_in_the_record_and_none_of_a_cpu():
    record = Devices().compare(divided)
    assert record.gpu.median == pytest.approx(WORK / 4)
    assert record.scaling.base.median == pytest.approx(WORK)
    assert (record.gpu.device.name, record.scaling.base.device.name) == ("4 x simulated GPU", "simulated GPU")
    of_a_speedup = record.cpu, record.speedup, record.offload, record.transfer, record.memory
    assert of_a_speedup == (None,) * 5


def test_what_every_device_does_itself_is_the_share_of_karp_and_flatt():
    record = Devices().compare(partial(divided, extra=WORK / 10))
    time, on_four = 1.1 * WORK, 0.35 * WORK
    assert record.scaling.efficiency.value == pytest.approx(time / on_four / 4, rel=1e-9)
    assert record.scaling.karp_flatt.value == pytest.approx(0.1 / 1.1, rel=1e-6)


@for_each(
    ("expected", "said", "required"),
    [
        ("recorded", None, None),
        ("passed", None, 0.75),
        ("inconclusive", "parallel efficiency 0.79 [", 1.1 / 1.4),
        ("failed", "required at least 0.82, parallel efficiency 0.79 [0.79, 0.79] on 4 devices", 0.82),
    ],
)
def test_a_required_efficiency_passes_above_it_and_fails_below_it(expected, said, required):
    found = Devices().compare(partial(divided, extra=WORK / 10), required=required)  # an efficiency of 0.786
    assert expected == found.status
    assert (found.reason_code == "efficiency_below_limit") == (expected == "failed")
    assert said in found.reason if said else found.reason is None


def test_without_time_for_a_round_an_efficiency_is_inconclusive():
    found = Devices().compare(partial(divided, work=100.0), required=0.5, demand=Demand(max_time=1.0))
    assert (found.status, found.reason_code) == ("inconclusive", "not_enough_time")
    assert found.scaling.efficiency is None


@for_each(
    ("expected", "noted", "slow"),
    [("inconclusive", "gpu_throttled", 5), ("passed", "gpu_throttled", 20)],
)
def test_no_efficiency_rests_on_throttled_devices_and_few_dropped_rounds_are_noted(expected, noted, slow):
    looks = count()
    devices = Devices(throttle=lambda: ("hot",) if next(looks) % slow == slow - 1 else ())
    found = devices.compare(divided, required=0.5)
    assert (expected, True) == (
        found.status,
        noted in {found.reason_code, *(note.code for note in found.notes)},
    )


def test_what_disturbed_either_number_of_devices_is_the_interference_of_the_test():
    disturbed = Interference(kind="cpu_contention", own_share=0.5)
    asked = Scaling(name="test_it", mode="strong", count=4, counts=COUNTS)
    measured = Devices().trial(4).record(Verdict(status="recorded", reason=None))
    found = ScalingQuestion(asked).finish(replace(measured, gpu_interference=disturbed))
    assert (found.interference, found.gpu_interference) == (disturbed, None)


def test_weak_scaling_compares_the_times_themselves():
    def grown(devices):
        extra = WORK / 4 * (devices.count - 1)
        return divided(devices, work=WORK * devices.count, extra=extra, size=8 * devices.count)

    record = Devices().compare(grown, mode="weak", required=0.5)
    assert record.scaling.efficiency.value == pytest.approx(1 / 1.75, rel=1e-9)
    assert record.status == "passed"
    assert record.check.agreed is None
    assert record.notes == ()


def test_copies_between_devices_take_the_time_of_their_link():
    """Three devices send 32 kB each to the first: two links cannot be used at once."""

    def gathered(devices):
        parts = devices.asarray(np.zeros(16384), shard=0)

        def call():
            for device in devices.all:
                device.launch(WORK / devices.count)
            first = devices.all[0]
            return [sum(first.asarray(part).sum() for part in parts)]

        return call

    record = Devices(peer_latency=0.5e-3, peer_bandwidth=32768 / 0.5e-3).compare(gathered)
    assert record.gpu.median == pytest.approx(WORK / 4 + 3 * 1e-3, rel=1e-6)


def test_the_fewest_devices_are_timed_alone():
    devices = Devices()
    trial = devices.trial(1)
    trial.time_alone(bound(partial(divided, work=WORK / 100)), devices.group(1), 0.1)
    record = trial.record(Verdict(status="recorded", reason=None))
    assert record.gpu.median == pytest.approx(WORK / 100)
    assert (record.scaling.base, record.scaling.efficiency) == (None, None)
    assert not record.gpu.latencies


def returning(make):
    """Return a body whose workload returns what `make` makes of the devices."""

    def body(devices):
        values = make(devices)

        def call():
            for device in devices.all:
                device.launch(WORK / devices.count)
            return values()

        return call

    return body


def test_parts_of_a_result_are_joined_along_the_axis_that_was_divided():
    host = np.arange(32.0).reshape(4, 8)

    def columns(devices):
        parts = devices.asarray(host, shard=1)
        return lambda: {"doubled": [part * 2 for part in parts]}

    assert Devices().compare(returning(columns)).check.agreed is True


def test_a_result_that_every_device_has_as_a_whole_must_be_the_same_on_each():
    def copies(devices, wrong=0.0):
        whole = devices.asarray(np.arange(8.0))
        factors = [1.0] * devices.count
        factors[-1] += wrong * (devices.count > 1)
        return lambda: [part * factor for part, factor in zip(whole, factors, strict=True)]

    assert Devices().compare(returning(copies)).check.agreed is True
    record = Devices().compare(returning(partial(copies, wrong=0.1)), required=0.5)
    assert (record.status, record.reason_code) == ("failed", "devices_disagree")


def test_a_result_of_another_form_names_both_numbers_of_devices():
    def form(devices):
        parts = devices.asarray(np.arange(8.0), shard=0)
        return lambda: {f"{devices.count}": parts[0] * 2}

    reason = Devices().compare(returning(form), required=0.5).reason
    assert "only 1 device returned result['1']; only 4 devices returned result['4']" in reason


def test_parts_whose_shapes_tell_no_axis_are_not_the_same_result():
    def cut(devices):
        parts = devices.asarray(np.zeros((8, 8)) + 1, shard=0)
        return lambda: [part[:, : 8 // devices.count] * 1 for part in parts]

    record = Devices().compare(returning(cut), required=0.5)
    assert record.status == "failed"
    assert "shape (1, 8, 8) on 1 device, (4, 2, 2) on 4 devices" in record.reason


def test_inputs_on_some_of_the_devices_only_are_refused():
    def forgetful(devices):
        array = devices.all[0].asarray(np.zeros(8))

        def call():
            devices.all[0].launch(WORK)
            return array + 1

        return call

    message = Devices().refusal(forgetful)
    assert message.startswith("no input of the workload is on 3 of the 4 devices (1, 2, 3); divide them")


def test_a_call_that_uses_no_device_is_refused():
    def on_host(devices):
        clock = devices.clock

        def call():
            clock.advance(WORK / devices.count)
            return np.ones(3)

        return call

    assert Devices().refusal(on_host).startswith("no work reached simulated GPU")


@pytest.mark.parametrize("mode", ["strong", "weak"])
@pytest.mark.parametrize("shard", [0, None])
def test_devices_that_have_inputs_and_no_work_are_refused(mode, shard):
    def on_first(devices):
        parts = devices.asarray(np.arange(8.0 * (devices.count if mode == "weak" else 1)), shard=shard)

        def call():
            devices.all[0].launch(WORK / devices.count)
            parts[0].sum()

        return call

    message = Devices().refusal(on_first, mode=mode, demand=Demand(check=False))
    assert message.startswith("no work reached 3 of the 4 devices (1, 2, 3); submit a part of it to each")


def test_other_results_fail_on_every_number_of_devices_where_an_efficiency_is_required_and_have_none():
    def doubled(devices):
        parts = devices.asarray(np.arange(8.0), shard=0)
        return lambda: [
            part * (2 if devices.count == 1 or index < 1 else 3) for index, part in enumerate(parts)
        ]

    for required, is_bare, ended, noted in (
        (None, True, ("recorded", None), ["devices_disagree"]),
        (0.5, False, ("failed", "devices_disagree"), []),
    ):
        for devices in (2, 4):
            judged = Devices().compare(returning(doubled), devices, required=required)
            assert (ended, is_bare) == ((judged.status, judged.reason_code), judged.is_bare)
            assert noted == [note.code for note in judged.notes]
            found = judged.scaling
            assert (None, None, None) == (found.speedup, found.efficiency, found.karp_flatt)


def test_a_weak_result_of_nothing_but_nan_is_noted():
    def lost(devices):
        parts = devices.asarray(np.full(8 * devices.count, np.nan), shard=0)
        return lambda: [part * 2 for part in parts]

    assert [note.code for note in Devices().compare(returning(lost), mode="weak").notes] == [
        "degenerate_results"
    ]


def test_copies_on_the_fewest_devices_must_be_the_same_too():
    def copies(devices):
        whole = devices.asarray(np.arange(8.0))
        return lambda: [
            part * (2 if devices.count == 2 and index == 1 else 1) for index, part in enumerate(whole)
        ]

    trial = Devices()
    asked = Scaling(name="it", mode="strong", count=4, counts=(2, 4), required=0.1)
    question = ScalingQuestion(asked)
    measured = Trial(nodeid="it", demand=Demand(min=0.1), question=question, options=RunOptions())
    ended = measured.compare(bound(returning(copies)), trial.group(2), trial.group(4))
    assert ended.reason_code == "devices_disagree"


def test_as_many_results_as_devices_are_no_parts_of_one():
    def pair(devices):
        parts = devices.asarray(np.arange(8.0), shard=0)

        def values():
            total = sum(devices.asnumpy(part).sum() for part in parts)
            last = devices.all[-1]
            return devices.all[0].asarray(total), last.asarray(2 * total)

        return values

    assert Devices().compare(returning(pair), 2).check.agreed is True


def test_inputs_that_every_device_has_whole_are_noted():
    def copied(devices):
        whole = devices.asarray(np.arange(8.0))

        def call():
            for device in devices.all:
                device.launch(WORK)
            return [part * 2 for part in whole]

        return call

    assert [note.code for note in Devices().compare(copied).notes] == ["check_the_test"]
    assert Devices().compare(divided).notes == ()


def test_a_workload_that_changes_its_inputs_is_refused():
    def changing(devices):
        parts = devices.asarray(np.ones(8), shard=0)

        def call():
            for device, part in zip(devices.all, parts, strict=True):
                device.launch(WORK / devices.count)
                part += 1
            return [part * 1 for part in parts]

        return call

    assert "modifies its input" in Devices().refusal(changing)


def test_under_weak_scaling_a_result_that_changes_from_call_to_call_is_refused():
    def drifting(devices):
        parts, calls = devices.asarray(np.arange(8.0 * devices.count), shard=0), count()

        def values():
            factor = next(calls) if devices.count > 1 else 1
            return [part * factor for part in parts]

        return values

    assert Devices().refusal(returning(drifting), mode="weak").startswith("the workload's result changes")


@for_each(
    "inputs",
    [
        lambda devices: [*devices.asarray(np.arange(64.0 / devices.count**2), shard=0)],
        lambda devices: [*devices.asarray(np.zeros(1000)), *devices.asarray(np.arange(8.0), shard=0)],
        lambda devices: [*devices.asarray(np.arange(8.0), shard=0)],
        # One more buffer hides no input that shrinks.
        lambda devices: [
            *devices.asarray(np.zeros(64)),
            *devices.asarray(np.arange(8.0), shard=0),
            *(device.asarray(np.zeros(2)) for device in devices.all if devices.count > 1),
        ],
    ],
)
def test_a_weak_problem_that_does_not_grow_is_refused_beside_weights_too(inputs):
    def body(devices):
        arrays = inputs(devices)
        return lambda: [array + 1 for array in arrays]

    message = Devices().refusal(returning(body), mode="weak", demand=Demand(check=False))
    assert message.startswith("under weak scaling the problem grows with the devices, and that of 4 devices")


def test_a_weak_problem_may_grow_without_dividing_evenly():
    def body(devices):
        side = int(30 * devices.count**0.5) // devices.count * devices.count
        parts = devices.asarray(np.ones((side, side)), shard=0)
        weights = devices.asarray(np.ones(30))
        return lambda: [part + weight[0] for part, weight in zip(parts, weights, strict=True)]

    assert Devices().compare(returning(body), 2, mode="weak").scaling.efficiency is not None


def test_a_weak_problem_without_known_inputs_is_refused():
    def whole(devices):
        parts = devices.asarray(np.arange(8.0), shard=0)
        for device in devices.all:
            device.launch(WORK)
        return [part * 2 for part in parts]

    def inside(devices):
        host = np.ones(8 // devices.count)
        return lambda: [device.asarray(host) for device in devices.all]

    for body in (whole, returning(inside)):
        assert "return a function that does the work" in Devices().refusal(body, mode="weak")


@for_each("form", [lambda value: [value], lambda value: (value,), lambda value: {"layers": [value]}])
def test_a_list_of_one_value_is_no_part_of_it_on_one_device(form):
    def total(devices):
        parts = devices.asarray(np.arange(8.0), shard=0)
        first = devices.all[0]
        return lambda: form(first.asarray(sum(devices.asnumpy(part).sum() for part in parts)))

    assert Devices().compare(returning(total)).check.agreed is True


class State(NamedTuple):
    params: list


@dataclass(frozen=True, slots=True)
class Step:
    params: list


def test_parts_are_joined_in_any_container_that_is_read():
    forms = (
        State,
        Step,
        lambda parts: deque([parts, {"again": parts}]),
        lambda parts: MappingProxyType({"parts": parts}),
        lambda parts: UserDict(parts=UserList([parts])),
    )
    for form in forms:
        assert Devices().compare(returning(partial(in_form, form)), required=0.5).check.agreed is True


def in_form(form, devices):
    parts = devices.asarray(np.arange(8.0), shard=0)
    return lambda: form([part * 2 for part in parts])


class Late(dict):
    """A dict whose values are computed when they are read."""

    def items(self):
        return [(name, value + 1) for name, value in super().items()]


def test_a_container_that_computes_is_refused_on_several_devices_too():
    def late(devices):
        parts = devices.asarray(np.arange(8.0), shard=0)
        return lambda: Late(sum=parts[0] * 1)

    assert "is lazy, or may be: its work would run after the timed call" in Devices().refusal(returning(late))


class Asked(SimulatedDevice):
    """A device that is asked for unfinished work, and waited for: then all the others are done, too."""

    waited = False

    @contextmanager
    def observe(self):
        observation = Observation()
        yield observation
        observation.worked = not Asked.waited
        Asked.waited = True


def test_a_slow_call_is_made_as_often_as_there_are_devices_to_ask():
    clock = Clock()
    group = DeviceGroup([Asked("gpu", clock=clock, index=index) for index in range(3)])

    def call():
        Asked.waited = False
        clock.advance(1.0)

    assert devices_at_work(Workload(device=group, call=call, scope="call"), group) == {0, 1, 2}
