"""DeviceGroup: several devices as one, with parts of arrays on each; and which devices a run takes for it."""

import numpy as np
import pytest

from pytest_gpuperf.devices.group import DeviceGroup
from pytest_gpuperf.devices.machine import Machine
from pytest_gpuperf.devices.simulated import (
    Clock,
    Injected,
    SimulatedBackend,
    SimulatedDevice,
    SimulatedDeviceLost,
    Timing,
)
from pytest_gpuperf.model.errors import GpuPerfError, TooFewDevices, Unavailable


@pytest.fixture
def group():
    clock = Clock()
    return DeviceGroup([SimulatedDevice("gpu", clock=clock, index=index) for index in range(4)])


def test_an_array_is_divided_along_an_axis_or_copied_to_each_device(group):
    host = np.arange(24.0).reshape(2, 12)
    divided = group.asarray(host, shard=1)
    assert [part.shape for part in divided] == [(2, 3)] * 4
    np.testing.assert_array_equal(host, np.concatenate([group.asnumpy(part) for part in divided], axis=1))
    np.testing.assert_array_equal([host] * 4, [group.asnumpy(part) for part in group.asarray(host)])
    assert [part.shape for part in group.asarray(host, shard=-1)] == [(2, 3)] * 4
    assert [True] * 4 == [device.holds(part) for device, part in zip(group.all, divided, strict=True)]
    assert not group.all[0].holds(divided[1])
    assert all(map(group.holds, divided))


@pytest.mark.parametrize(
    ("shape", "shard", "message"),
    [
        ((10,), 0, "4 devices cannot share 10 elements equally; use a size that is a multiple of 4"),
        ((8,), 1, r"an array of shape \(8,\) has no such axis"),
        ((), 0, r"an array of shape \(\) has no such axis"),
        *(
            ((8,), shard, "pass the number of an axis, or leave it out for copies")
            for shard in ("x", True, 0.0)
        ),
    ],
)
def test_an_axis_that_cannot_be_divided_is_an_error_with_its_remedy(group, shape, shard, message):
    with pytest.raises(GpuPerfError, match=f"shard={shard!r}: {message}"):
        group.asarray(np.zeros(shape), shard=shard)


def test_it_tells_which_of_its_devices_worked(group):
    with group.observe() as observation:
        group.all[1].launch()
    assert (observation.worked, group.worked) == (True, [False, True, False, False])
    with group.observe() as observation:
        pass
    assert (observation.worked, group.worked) == (False, [False] * 4)


def test_it_waits_for_every_device(group):
    for seconds, device in enumerate(group.all):
        device.launch(float(seconds))
    group.synchronize()
    assert group.clock() == 3


def test_devices_without_any_of_the_arrays_are_idle(group):
    arrays = [group.all[0].asarray(np.ones(2)), group.all[2].asarray(np.ones(2))]
    assert group.idle(arrays) == [1, 3]


def test_a_list_has_parts_only_with_one_of_the_same_shape_on_each_device_in_their_order(group):
    parts = group.asarray(np.arange(8.0), shard=0)
    assert group.asnumpy(group.unpack(parts)).shape == (4, 2)
    assert group.unpack(tuple(parts)) is not None
    for others in (parts[:3], parts[::-1], [*parts[:3], parts[3][:1]], [*parts[:3], 1.0], parts[0]):
        assert group.unpack(others) is None


def test_its_name_says_how_many_devices_it_has(group):
    assert (group.name, group.info.name) == ("4 x simulated GPU", "4 x simulated GPU")
    assert DeviceGroup(group.all[:1]).name == "simulated GPU"


def test_any_device_that_is_slowed_down_slows_the_group_down_and_each_has_counters_of_its_own(group):
    for amount, device in enumerate(group.all):
        device.throttle = lambda amount=amount: ("thermal",) * amount
        device.throttle_counters = lambda amount=amount: {"thermal": amount}
    assert group.throttle() == ("thermal",)
    assert DeviceGroup(group.all[:1]).throttle() == ()
    pair, lone = DeviceGroup(group.all[:2]), DeviceGroup(group.all[1:2])
    assert pair.throttle_counters() == {"thermal (device 0)": 0, "thermal (device 1)": 1}
    assert lone.throttle_counters() == {"thermal": 1}


def test_a_fault_of_any_device_is_the_groups():
    clock = Clock()
    healthy = SimulatedDevice("gpu", clock=clock)
    lost = SimulatedDevice("gpu", clock=clock, faults=[Injected(kind="lost", call=1)])
    with pytest.raises(RuntimeError) as raised:
        lost.launch()
    assert DeviceGroup([healthy, lost]).fault(raised.value).kind == "lost"
    assert DeviceGroup([healthy, lost]).fault(ValueError("wrong shape")) is None


def run_with(count=4, choice="simulated", worker=None):
    return Machine(choice, lambda: [SimulatedBackend(gpu=Timing(), count=count)], worker)


def test_a_run_takes_its_own_gpu_first_and_then_its_neighbours():
    devices = run_with(worker=2)
    names = [device.name for device in devices.group(3).all]
    assert names == ["simulated GPU 2", "simulated GPU 3", "simulated GPU"]
    assert devices.gpu().name == names[0]
    assert devices.group(3) is devices.group(3), "it is opened once"
    assert devices.environment().gpu == devices.gpu().info, "and no group"


def test_too_few_devices_are_told_with_their_number_each_time():
    devices = run_with(count=2)
    for _ in range(2):
        with pytest.raises(TooFewDevices, match=r"^4 devices are needed, and simulated shows 2 devices$"):
            devices.group(4)


def test_a_selector_names_one_device():
    devices = run_with(choice="simulated:1")
    assert devices.group(1).all == (devices.gpu(),)
    with pytest.raises(Unavailable, match="2 devices are needed, and --gpuperf-gpu names one; leave out"):
        devices.group(2)


def test_lazy_devices_make_no_group():
    class Lazy(SimulatedDevice):
        def submit(self, result):
            pass

    class Backend(SimulatedBackend):
        def gpu(self, selector):
            return Lazy("gpu", clock=Clock())

    with pytest.raises(Unavailable, match="scaling is not measured with simulated, which computes only what"):
        Machine("simulated", lambda: [Backend(count=2)]).group(2)


def test_a_backend_makes_its_own_groups():
    class Own(SimulatedBackend):
        def group(self, devices):
            made = DeviceGroup(devices)
            made.mesh = "a mesh"
            return made

    assert Machine("simulated", lambda: [Own(count=2)]).group(2).mesh == "a mesh"


def test_the_first_device_holds_its_parts_and_its_copies(group):
    arrays = [*group.asarray(np.zeros(8), shard=0), *group.asarray(np.zeros(3))]
    assert [array.size for array in group.on_first(arrays)] == [2, 3]


def test_every_device_of_a_group_gives_its_memory_back():
    machine = Machine("simulated", lambda: [SimulatedBackend(count=3)])
    group = machine.group(3)
    machine.release()
    assert all(device.released for device in group.all)


def test_a_lost_gpu_is_not_asked_for_its_memory():
    machine = Machine("simulated")
    gpu = machine.gpu()
    machine.fault(SimulatedDeviceLost("gone"), "test_it")
    machine.release()
    assert not gpu.released
