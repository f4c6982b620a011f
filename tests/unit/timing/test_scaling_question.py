"""ScalingQuestion: one test on groups of devices whose every time is known."""

from collections import deque
from contextlib import contextmanager
from functools import partial
from itertools import count
from math import inf

import numpy as np
import pytest
from cases import for_each
from msgspec.structs import replace
from walks import bound, trial_of

from pytest_gpuperf.analysis import scaling
from pytest_gpuperf.devices.group import DeviceGroup
from pytest_gpuperf.devices.simulated import Clock, SimulatedDevice, Timing
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import Interference
from pytest_gpuperf.model.record import Record, Verdict
from pytest_gpuperf.model.scaling import Scaling
from pytest_gpuperf.timing.scaling_question import ScalingQuestion
from pytest_gpuperf.timing.trial import Trial

WORK = 10e-3  # seconds of the whole problem on one device
COUNTS = (1, 2, 4)


class Devices:
    """Up to four GPUs on one clock, whose operations on arrays take no time."""

    def __init__(self, kind=SimulatedDevice, *, throttle=tuple, **timing):
        self.clock = Clock()
        timing = Timing(kernel=0.0, **timing)
        self._devices = [
            kind("gpu", clock=self.clock, timing=timing, throttle=throttle, index=index) for index in range(4)
        ]

    def group(self, count) -> DeviceGroup:
        return DeviceGroup(self._devices[:count])

    def trial(self, count, counts=COUNTS, *, required=None, mode="strong", demand=None) -> Trial:
        asked = Scaling(name="test_it", mode=mode, count=count, counts=counts, required=required)
        wanted = scaling.with_required_speedup(demand or Demand(), asked)
        return trial_of(wanted, question=ScalingQuestion(asked))

    def compare(self, body, count=4, counts=COUNTS, **options) -> Record:
        """Measure a body on so many devices, and on the fewest, and return its record."""
        trial = self.trial(count, counts, **options)
        ended = trial.compare(bound(body), self.group(counts[0]), self.group(count))
        return trial.record(ended)


def divided(devices, *, extra=0.0, work=WORK, size=8):
    """Return a call whose work the devices share, but for what each of them needs more."""
    parts = devices.asarray(np.arange(float(size)), shard=0)

    def call():
        for device in devices.all:
            device.launch(work / devices.count + extra)
        return [part * 2 for part in parts]

    return call


@for_each(("extra", "efficiency", "karp_flatt"), [(0.0, 1.0, 0.0), (0.1, 1.1 / 0.35 / 4, 0.1 / 1.1)])
def test_what_every_device_does_itself_is_lost_and_is_the_share_of_karp_and_flatt(
    extra, efficiency, karp_flatt
):
    record = Devices().compare(partial(divided, extra=extra * WORK))
    found = record.scaling
    assert found.efficiency.value == pytest.approx(efficiency, rel=1e-9)
    assert found.speedup.value == pytest.approx(4 * efficiency, rel=1e-9)
    assert found.karp_flatt.value == pytest.approx(karp_flatt, abs=1e-9)
    assert (record.gpu.median, found.base.median) == (
        pytest.approx((0.25 + extra) * WORK),
        pytest.approx((1 + extra) * WORK),
    )
    assert (record.gpu.device.name, found.base.device.name) == ("4 x simulated GPU", "simulated GPU")
    assert (None,) * 5 == (record.cpu, record.speedup, record.offload, record.transfer, record.memory)


@for_each(
    ("expected", "said", "required"),
    [
        (("recorded", None), None, None),
        (("passed", None), None, 0.75),
        (("inconclusive", "limit_too_close"), "parallel efficiency 0.79 [", 1.1 / 1.4),
        (
            ("failed", "efficiency_below_limit"),
            "required at least 0.82, parallel efficiency 0.79 [0.79, 0.79] on 4 devices",
            0.82,
        ),
    ],
)
def test_a_required_efficiency_passes_above_it_and_fails_below_it(expected, said, required):
    found = Devices().compare(partial(divided, extra=WORK / 10), required=required)  # an efficiency of 0.786
    assert expected == (found.status, found.reason_code)
    assert said in found.reason if said else found.reason is None


def cold(devices, clock):
    """Return a call of several devices that takes 1.5 times as long for 50 ms after one device's turn."""
    ended, left = 0.0, 0.0

    def call():
        nonlocal ended, left
        left = 50e-3 if devices.count > 1 and clock() - ended > 1e-3 else left
        taken = min(left, 1.5 * WORK / devices.count)
        left -= taken
        for device in devices.all:
            device.launch(taken + WORK / devices.count - taken / 1.5)
        devices.synchronize()
        ended = clock()

    return call


@for_each(
    ("status", "code", "required"),
    [("inconclusive", "turns_differ", 0.8), ("failed", "efficiency_below_limit", 1.2), ("passed", None, 0.5)],
)
def test_devices_that_are_slower_after_the_others_turn_decide_nothing_between_both_efficiencies(
    status, code, required
):
    devices = Devices()
    found = devices.compare(partial(cold, clock=devices.clock), 2, (1, 2), required=required)
    assert (status, code) == (found.status, found.reason_code)
    assert found.scaling.efficiency.value == pytest.approx(1 / 1.5, rel=0.02)
    assert found.scaling.speedup.certain.low < 1 / 1.5 * 2 < 2 < found.scaling.speedup.certain.high
    assert (found.scaling.base.alone, found.gpu.alone) == pytest.approx((WORK, WORK / 2))
    said = (
        "a call on 2 devices takes 7.50 ms in turn with 1 device, and 5.00 ms in a loop (in turn: the median "
        "of the later half of the rounds)"
    )
    assert [note.text for note in found.notes if note.code == "turns_differ"] == [said] * (
        status != "inconclusive"
    )
    assert (said in (found.reason or "")) == (status == "inconclusive")


@for_each(
    ("expected", "slow", "work"),
    [
        (("inconclusive", "gpu_throttled", []), 5, WORK),
        (("passed", None, ["gpu_throttled"]), 20, WORK),
        (("inconclusive", "not_enough_time", ["not_enough_time"]), inf, 100.0),
    ],
)
def test_no_efficiency_rests_on_throttled_devices_or_no_round_and_few_dropped_ones_are_noted(
    expected, slow, work
):
    looks = count()
    devices = Devices(throttle=lambda: ("hot",) if next(looks) % slow == slow - 1 else ())
    found = devices.compare(partial(divided, work=work), required=0.5)
    assert expected == (found.status, found.reason_code, [note.code for note in found.notes])
    assert (found.scaling.efficiency is None) == (work > WORK)


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


HOST = np.arange(8.0)


def parts_of(devices, shard=0, host=HOST):
    return devices.asarray(host, shard=shard)


def columns(devices):
    parts = parts_of(devices, 1, np.arange(32.0).reshape(4, 8))
    return lambda: {"doubled": [part * 2 for part in parts]}


def copies(devices, wrong_on=None):
    whole = parts_of(devices, None)
    last = 2.0 if devices.count == wrong_on else 1.0
    return lambda: [*(part * 1.0 for part in whole[:-1]), whole[-1] * last]


def in_containers(devices):
    parts = parts_of(devices)
    return lambda: deque([[part * 2 for part in parts], {"again": [part * 2 for part in parts]}])


def totals(form):
    """Return a body whose result has other values than parts: in a list of one, or as many as devices."""

    def body(devices):
        total = sum(devices.asnumpy(part).sum() for part in parts_of(devices))
        return lambda: form(devices.all[0].asarray(total), devices.all[-1].asarray(2 * total))

    return body


@for_each(
    ("values", "count"),
    [
        (columns, 4),
        (copies, 4),
        (in_containers, 4),
        (totals(lambda one, two: [one]), 4),
        (totals(lambda one, two: {"layers": [one]}), 4),
        (totals(lambda one, two: (one, two)), 2),
    ],
)
def test_results_in_parts_or_copies_are_the_same_on_every_number_of_devices(values, count):
    record = Devices().compare(returning(values), count, required=0.1)
    assert (record.status, record.check.agreed) == ("passed" if count == 4 else "recorded", True)


def of_another_form(devices):
    parts = parts_of(devices)
    return lambda: {f"{devices.count}": parts[0] * 2}


def without_an_axis(devices):
    parts = parts_of(devices, 0, np.zeros((8, 8)) + 1)
    return lambda: [part[:, : 8 // devices.count] * 1 for part in parts]


@for_each(
    ("said", "values"),
    [
        ("relative error", partial(copies, wrong_on=4)),
        ("relative error", partial(copies, wrong_on=2)),
        ("only 2 devices returned result['2']; only 4 devices returned result['4']", of_another_form),
        ("shape (2, 4, 4) on 2 devices, (4, 2, 2) on 4 devices", without_an_axis),
    ],
)
def test_other_results_are_a_disagreement_that_names_both_numbers_of_devices(said, values):
    ended = Devices().compare(returning(values), counts=(2, 4), required=0.1)
    assert (ended.status, ended.reason_code) == ("failed", "devices_disagree")
    assert said in ended.reason


def forgetful(devices):
    array = devices.all[0].asarray(np.zeros(8))
    return lambda: (devices.all[0].launch(WORK), array + 1)[1]


def on_first(devices):
    """Every device has its input, and only the first one works."""
    parts = parts_of(devices, 0, np.arange(8.0 * devices.count))
    return lambda: (devices.all[0].launch(WORK / devices.count), parts[0].sum(), None)[2]


def drifting(devices):
    parts, calls = parts_of(devices, host=np.arange(8.0 * devices.count)), count()
    return lambda: [part * (next(calls) if devices.count > 1 else 1) for part in parts]


def whole(devices):
    parts = parts_of(devices)
    for device in devices.all:
        device.launch(WORK)
    return [part * 2 for part in parts]


def zeros(devices, *sizes, shard=0):
    return [part for size in sizes for part in parts_of(devices, shard, np.zeros(size))]


def adding(inputs):
    """Return a body that reads these inputs of a weak problem."""

    def values(devices):
        arrays = inputs(devices)
        return lambda: [array + 1 for array in arrays]

    return returning(values)


NOT_GROWN = "under weak scaling the problem grows with the devices, and that of 4 devices"
IDLE = "no work reached 3 of the 4 devices (1, 2, 3); submit a part of it to each"


@for_each(
    ("said", "mode", "body"),
    [
        ("no input of the workload is on 3 of the 4 devices (1, 2, 3)", "strong", forgetful),
        (IDLE, "weak", on_first),
        ("the workload's result changes", "weak", returning(drifting)),
        ("under weak scaling the inputs must be known", "weak", whole),
        (NOT_GROWN, "weak", adding(lambda group: zeros(group, 64 // group.count**2))),
        (
            NOT_GROWN,  # beside weights
            "weak",
            adding(lambda group: [*zeros(group, 1000, shard=None), *zeros(group, 8)]),
        ),
        (
            NOT_GROWN,  # as two inputs that became one
            "weak",
            adding(lambda group: zeros(group, *([64, 64] if group.count == 1 else [100 * group.count]))),
        ),
    ],
)
def test_work_that_does_not_show_how_it_scales_is_refused(said, mode, body):
    demand = Demand(check=False) if said in (IDLE, NOT_GROWN) else None
    with pytest.raises(GpuPerfError) as refused:
        Devices().compare(body, mode=mode, demand=demand)
    assert str(refused.value).startswith(said)


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


def test_inputs_that_every_device_has_whole_and_a_weak_result_of_nothing_but_nan_are_noted():
    lost = adding(lambda group: parts_of(group, host=np.full(8 * group.count, np.nan)))
    for codes, found in (
        (["check_the_test"], Devices().compare(returning(copies))),
        (["degenerate_results"], Devices().compare(lost, mode="weak")),
        ([], Devices().compare(divided)),
    ):
        assert codes == [note.code for note in found.notes]


def test_a_weak_problem_may_grow_without_dividing_evenly():
    def body(devices):
        side = int(30 * devices.count**0.5) // devices.count * devices.count
        parts = devices.asarray(np.ones((side, side)), shard=0)
        weights = devices.asarray(np.ones(30))
        return lambda: [part + weight[0] for part, weight in zip(parts, weights, strict=True)]

    assert Devices().compare(returning(body), 2, mode="weak").scaling.efficiency is not None


class Asked(SimulatedDevice):
    """A device that is asked for unfinished work, and waited for: then all the others are done, too."""

    waited = False

    @contextmanager
    def observe(self):
        with super().observe() as observation:
            yield observation
        observation.worked = not Asked.waited
        Asked.waited = True


def test_a_slow_call_is_made_as_often_as_there_are_devices_to_ask():
    def body(devices):
        parts = parts_of(devices)

        def call():
            Asked.waited = False
            for device, _ in zip(devices.all, parts, strict=True):
                device.launch(4.0 / devices.count)

        return call

    assert Devices(Asked).compare(body).scaling.efficiency.value == pytest.approx(1)
