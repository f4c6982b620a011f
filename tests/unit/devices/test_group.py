"""DeviceGroup: several devices as one, with parts of arrays on each; and which devices a run takes for it."""

import numpy as np
import pytest

from pytest_gpuperf.devices.machine import Machine
from pytest_gpuperf.devices.simulated import SimulatedBackend, SimulatedDeviceLost, Timing
from pytest_gpuperf.model.errors import GpuPerfError, TooFewDevices, Unavailable


def run_with(count=4, choice="simulated", worker=None):
    return Machine(choice, lambda: [SimulatedBackend(gpu=Timing(), count=count)], worker)


@pytest.fixture
def group():
    return run_with().group(4)


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


def test_it_tells_which_of_its_devices_worked_and_waits_for_every_one(group):
    for expected, launches in ([False, True, False, False], group.all[1:2]), ([False] * 4, ()):
        with group.observe() as observation:
            for device in launches:
                device.launch()
        assert (observation.worked, group.worked) == (any(expected), expected)
    for seconds, device in enumerate(group.all):
        device.launch(float(seconds))
    group.synchronize()
    assert group.clock() == pytest.approx(3, abs=0.01)


def test_what_devices_hold_of_arrays_shows_which_are_idle_and_what_the_first_computes_with(group):
    assert [1, 3] == group.idle([group.all[number].asarray(np.ones(2)) for number in (0, 2)])
    arrays = [*group.asarray(np.zeros(8), shard=0), *group.asarray(np.zeros(3))]
    assert [2, 3] == [array.size for array in group.on_first(arrays)]


def test_a_list_has_parts_only_with_one_of_the_same_shape_on_each_device_in_their_order(group):
    parts = group.asarray(np.arange(8.0), shard=0)
    assert group.asnumpy(group.unpack(parts)).shape == (4, 2)
    assert group.unpack(tuple(parts)) is not None
    for others in (parts[:3], parts[::-1], [*parts[:3], parts[3][:1]], [*parts[:3], 1.0], parts[0]):
        assert group.unpack(others) is None


def test_any_device_that_is_slowed_down_slows_the_group_down_and_each_has_counters_of_its_own():
    machine = run_with()
    group, lone = machine.group(2), machine.group(1)
    for amount, device in enumerate(group.all, 1):
        device.throttle = lambda amount=amount: ("thermal",) * (amount - 1)
        device.throttle_counters = lambda amount=amount: {"thermal": amount}
    assert (("thermal",), ()) == (group.throttle(), lone.throttle())
    assert group.throttle_counters() == {"thermal (device 0)": 1, "thermal (device 1)": 2}
    assert lone.throttle_counters() == {"thermal": 1}


@pytest.mark.parametrize(
    ("others", "mhz", "of_each"), [(2, 345, [(0, 1980), (2, None), (None, 345)]), (0, 1980, [(0, 1980)])]
)
def test_its_other_users_are_those_of_the_busiest_device_and_its_clock_is_the_slowest(others, mhz, of_each):
    run = run_with(len(of_each))
    group = run.group(len(of_each))
    assert (None, None) == (group.other_processes(), group.sm_mhz())
    for device, (processes, clock) in zip(group.all, of_each, strict=True):
        device.other_processes = lambda processes=processes: processes
        device.sm_mhz = lambda clock=clock: clock
    assert (others, mhz) == (group.other_processes(), group.sm_mhz())


def test_a_fault_of_any_device_is_the_groups(group):
    group.all[0].fault = lambda error: None
    assert group.fault(SimulatedDeviceLost("gone")).kind == "lost"
    assert group.fault(ValueError("wrong shape")) is None


def test_a_run_takes_its_own_gpu_first_and_then_its_neighbours():
    devices = run_with(worker=2)
    group = devices.group(3)
    names = [device.name for device in group.all]
    assert names == ["simulated GPU 2", "simulated GPU 3", "simulated GPU"]
    assert "3 x simulated GPU 2" == group.name == group.info.name
    assert devices.gpu().name == names[0] == devices.group(1).name
    assert devices.group(3) is group, "it is opened once"
    assert devices.environment().gpu == devices.gpu().info, "and no group"
    devices.release()
    assert all(device.released for device in group.all)


def test_too_few_devices_are_told_with_their_number_each_time():
    devices = run_with(count=2)
    for _ in range(2):
        with pytest.raises(TooFewDevices, match=r"^4 devices are needed, and simulated shows 2 devices$"):
            devices.group(4)


def test_a_selector_names_one_device():
    devices = run_with(choice="simulated:1")
    assert devices.group(1).all == (devices.gpu(),)
    with pytest.raises(Unavailable, match="2 devices are needed, and --gpuperf-gpu=simulated:1 names one;"):
        devices.group(2)


def test_lazy_devices_make_no_group_and_a_backend_may_make_its_own():
    class Lazy(SimulatedBackend):
        def gpu(self, selector):
            found = super().gpu(selector)
            found.submit = print
            return found

    class Own(SimulatedBackend):
        def group(self, devices):
            return ("a mesh", *devices)

    with pytest.raises(Unavailable, match="scaling is not measured with simulated, which computes only what"):
        Machine("simulated", lambda: [Lazy(count=2)]).group(2)
    mesh, *devices = Machine("simulated", lambda: [Own(count=2)]).group(2)
    assert ("a mesh", 2) == (mesh, len(devices))


def test_a_lost_gpu_is_not_asked_for_its_memory():
    machine = Machine("simulated")
    gpu = machine.gpu()
    machine.fault(SimulatedDeviceLost("gone"), "test_it")
    machine.release()
    assert not gpu.released
