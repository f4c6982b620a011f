"""How near a call is to its device's roof: exact on simulated devices, whose bandwidth is known."""

from functools import partial

import numpy as np
import pytest
from cases import for_each
from walks import trial_of

from pytest_gpuperf.analysis import diagnosis
from pytest_gpuperf.devices.simulated import Clock, SimulatedDevice, Timing
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import DeviceInfo
from pytest_gpuperf.model.sampling_constants import SamplingPlan
from pytest_gpuperf.report.words import roof as words
from pytest_gpuperf.timing.copies import Copies

HOST = np.ones(1 << 15, np.float32)  # 128 KiB
MOVED = 2 * HOST.nbytes
COPY = {"cpu": MOVED / 1e8, "gpu": MOVED / 1e9}  # seconds


def devices(*, cpu, gpu, **changes):
    """Return devices that copy at 0.1 and 1 GB/s, and whose calls take so many times as long as a copy."""
    clock = Clock()
    timing = {"memory_bandwidth": 1e8, "kernel": cpu * COPY["cpu"]}
    here = SimulatedDevice("cpu", clock=clock, timing=Timing(**timing))
    timing = {"memory_bandwidth": 1e9, "kernel": gpu * COPY["gpu"]}
    return here, SimulatedDevice("gpu", clock=clock, timing=Timing(**timing | changes))


def doubled(device):
    a = device.asarray(HOST)
    return lambda: a + a


def measured(demand=None, body=doubled, *, asks=True, cpu=10.0, gpu=2.0, **changes):
    plan = SamplingPlan(record_time=0.2)
    trial = trial_of(demand, RunOptions(sampling=plan, roofs=asks, max_time=4.0))
    ended = trial.compare(lambda device: partial(body, device), *devices(cpu=cpu, gpu=gpu, **changes))
    return trial.record(ended)


def codes(record):
    found = diagnosis.find(record, usable=1.0, pool_threads=None)
    return [each.code for each in found if each.code != "transfer_bound"]


def test_the_share_is_the_time_of_a_copy_of_as_many_bytes_over_that_of_a_call():
    roof = measured().roof
    assert (roof.source, roof.reason) == ("arrays", None)
    assert [MOVED, MOVED] == [roof.cpu.bytes, roof.gpu.bytes]
    assert [COPY["cpu"], COPY["gpu"]] == pytest.approx([roof.cpu.copy_time, roof.gpu.copy_time])
    assert [0.1, 0.5] == pytest.approx([roof.cpu.share.value, roof.gpu.share.value])
    assert [0.1, 0.1] == pytest.approx([roof.cpu.share.low, roof.cpu.share.high])
    assert [1e7, 5e8] == pytest.approx([roof.cpu.bandwidth, roof.gpu.bandwidth])
    assert roof.of_bandwidths == pytest.approx(10)


def test_a_size_between_two_that_were_timed_is_exact_where_bandwidth_limits_it():
    roof = measured(Demand(bytes=3_000_000), cpu=50, gpu=50).roof
    assert roof.source == "marker"
    assert roof.gpu.copy_time == pytest.approx(3e-3)


def test_a_larger_size_than_all_that_are_timed_takes_longer_in_proportion():
    assert measured(Demand(bytes=10**12), gpu=5e6, cpu=5e6).roof.gpu.copy_time == pytest.approx(1000)


def test_a_small_copy_takes_as_long_as_the_smallest():
    roof = measured(Demand(bytes=1), gpu=10).roof
    assert roof.gpu.copy_time == pytest.approx(4096 / 1e9)


def test_a_copy_that_mostly_waits_for_its_launch_is_no_roof():
    assert measured().roof.gpu.bandwidth_limited
    assert measured(launch=0.01, kernel=0.02, cpu=100).roof.gpu.share is None
    assert not measured(launch=0.01, kernel=0.02, cpu=100).roof.gpu.bandwidth_limited


def test_a_smaller_dtype_on_the_gpu_is_a_factor_of_its_own():
    def narrow_there(device):
        a = device.asarray(HOST if device.kind == "gpu" else HOST.astype(np.float64))
        return lambda: a + a

    assert words.line(measured(Demand(check=False), narrow_there)) == (
        "50.0x = 10.0x (the emulated device's roof over the CPU's) x 2.00x (the bytes of the CPU's call over "
        "the emulated device's) x 2.50x (the emulated device code is at 50.0 % of its roof, the CPU code at "
        "20.0 %)"
    )


class Disturbed(SimulatedDevice):
    """A device whose first copies of each size take ten times as long, as on a busy machine."""

    seen = frozenset()

    def copiers(self, size):
        times = 1 if size in self.seen else 10
        self.seen = self.seen | {size}
        return (partial(self.launch, times * 2 * size / 1e9),)


@for_each("demand", [Demand(bytes=MOVED), Demand(min_share=0.2), Demand()])
def test_a_copy_is_timed_again_before_anything_is_held_against_a_test(demand):
    clock, timing = Clock(), Timing(kernel=2 * COPY["gpu"])
    here, there = (Disturbed(kind, clock=clock, timing=timing) for kind in ("cpu", "gpu"))
    options = RunOptions(roofs=True, sampling=SamplingPlan(record_time=0.2))
    trial = trial_of(demand, options)
    record = trial.record(trial.compare(lambda device: partial(doubled, device), here, there))
    assert record.status == ("passed" if demand.min_share else "recorded")
    assert not record.notes
    assert record.roof.gpu.share.value == pytest.approx(0.5)


def test_what_a_slow_copy_showed_of_a_cache_is_forgotten():
    class SlowAtFirst(Cached, Disturbed):
        def copiers(self, size):
            times = 1 if size in self.seen else 6
            self.seen = self.seen | {size}
            (copy,) = Cached.copiers(self, size)
            return (lambda: [copy() for _ in range(times)],)

    clock, copy = Clock(), MOVED / 1e10
    here, there = (
        SlowAtFirst(kind, clock=clock, timing=Timing(kernel=1.2 * copy)) for kind in ("cpu", "gpu")
    )
    for device in (here, there):  # much larger copies are known, and small ones not yet
        device.seen = frozenset({1 << 20})
    trial = trial_of(Demand(bytes=MOVED), RunOptions(sampling=SamplingPlan(record_time=0.2)))
    record = trial.record(trial.compare(lambda device: partial(doubled, device), here, there))
    assert record.roof.gpu.share.value == pytest.approx(1 / 1.2)
    assert not record.roof.gpu.cache_resident


def test_without_anyone_who_asks_no_copy_is_timed_and_the_record_says_why():
    roof = measured(asks=False).roof
    assert roof.cpu.copy_time is roof.gpu.share is roof.of_bandwidths is None
    assert roof.gpu.bandwidth == pytest.approx(5e8)
    assert "no copy was timed" in roof.reason


def test_of_a_whole_body_the_bytes_are_those_of_the_marker():
    def body(device):
        device.asarray(HOST).sum()

    assert "whole body" in measured(body=body).roof.reason
    assert measured(body=body).roof.gpu is None
    assert measured(Demand(bytes=MOVED), body).roof.gpu.share is not None


def test_a_device_without_plain_copies_says_so():
    roof = measured(memory_bandwidth=None).roof
    assert roof.gpu.copy_time is None
    assert roof.reason == "no plain copy could be timed on the emulated device"


@for_each(("moved", "free"), [(1 << 30, 1 << 40), (1 << 28, 1 << 30), (1 << 27, 0)])
def test_the_largest_copy_has_room_on_the_device(moved, free):
    class Full(SimulatedDevice):
        largest = 0

        def free_memory(self):
            return free

        def copiers(self, size):
            self.largest = max(self.largest, 2 * size)
            return super().copiers(size)

    device = Full("gpu", clock=Clock(), timing=Timing(memory_bandwidth=1e12))
    device.info = DeviceInfo(kind="gpu", backend="cupy", name="a GPU", library="cupy 13")
    found = Copies(device).find(1 << 40, device, RunOptions())
    assert device.largest == moved
    assert found.seconds == pytest.approx((1 << 40) / 1e12)


def test_a_copy_that_fails_is_none():
    class Fails(SimulatedDevice):
        def copiers(self, size):
            def fail():
                raise TypeError("no such copy")

            return (fail,)

    clock = Clock()
    here, there = (Fails(kind, clock=clock, timing=Timing()) for kind in ("cpu", "gpu"))
    trial = trial_of(Demand(), RunOptions(roofs=True))
    record = trial.record(trial.compare(lambda device: partial(doubled, device), here, there))
    assert record.status == "recorded"
    assert record.roof.gpu.share is None


def test_the_fastest_way_to_copy_counts():
    class Threads(SimulatedDevice):
        def copiers(self, size):
            one_thread = 2 * size / 1e9
            return tuple(partial(self.launch, share * one_thread) for share in (1, 0.5, 0.6))

    clock = Clock()
    here, there = (Threads(kind, clock=clock, timing=Timing()) for kind in ("cpu", "gpu"))
    trial = trial_of(Demand(), RunOptions(roofs=True, sampling=SamplingPlan(record_time=0.2)))
    record = trial.record(trial.compare(lambda device: partial(doubled, device), here, there))
    assert record.roof.cpu.copy_time == pytest.approx(0.5 * MOVED / 1e9)


def test_a_size_is_timed_once_for_all_tests_of_the_process():
    here, there = devices(cpu=10, gpu=2)
    launches = []
    for _ in range(2):
        before = there.launches
        trial = trial_of(Demand(), RunOptions(roofs=True, sampling=SamplingPlan(record_time=0.2)))
        trial.compare(lambda device: partial(doubled, device), here, there)
        launches.append(there.launches - before)
    assert launches[1] < launches[0]


def test_the_speedup_is_the_product_of_roofs_and_code():
    product = (
        "10.0x (the emulated device's roof over the CPU's) x 5.00x (the emulated device code is at 50.0 % of "
        "its roof, the CPU code at 10.0 %)"
    )
    assert words.line(measured()) == f"50.0x = {product}"
    assert words.line(measured(Demand(transfer="always"))) == f"50.0x without copies = {product}"
    assert words.line(measured(asks=False)) is None


@for_each(
    ("expected", "times"),
    [
        (["memory_bound", "cpu_code_far_from_roof"], {"gpu": 1.5, "cpu": 10}),
        (["memory_bound"], {"gpu": 1.5, "cpu": 4}),
        ([], {"gpu": 2, "cpu": 4}),
        (["cpu_code_far_from_roof"], {"gpu": 3, "cpu": 10}),
        ([], {"gpu": 5, "cpu": 100}),  # something else than memory bounds the work
    ],
)
def test_a_gpu_at_its_roof_and_a_cpu_far_from_it_are_diagnoses(expected, times):
    assert expected == codes(measured(**times))


@for_each(("expected", "share"), [("passed", 0.4), ("failed", 0.9)])
def test_a_limit_on_the_share_passes_or_fails(expected, share):
    record = measured(Demand(min_share=share), asks=False)
    assert expected == record.status
    if expected == "failed":
        assert record.reason_code == "share_below_limit"
        assert record.reason == (
            "required at least 90 % of the emulated device's roof (262 kB in 262 us), found 50.0 % [50.0 %, "
            "50.0 %]"
        )


def test_a_share_at_its_limit_is_inconclusive_and_sampled_to_the_end():
    record = measured(Demand(min_share=0.5))
    assert (record.status, record.reason_code) == ("inconclusive", "limit_too_close")


@for_each(
    ("expected", "code", "limits"),
    [
        ("passed", None, {"min": 20, "min_share": 0.4}),
        ("failed", "share_below_limit", {"min": 20, "min_share": 0.9}),
        ("failed", "speedup_outside_limits", {"min": 200, "min_share": 0.4}),
        ("failed", "speedup_outside_limits", {"min": 200, "min_share": 0.9}),
        ("failed", "share_below_limit", {"min": 50, "min_share": 0.9}),
    ],
)
def test_the_worse_of_speedup_and_share_is_the_verdict(expected, code, limits):
    record = measured(Demand(**limits))
    assert (expected, code) == (record.status, record.reason_code)


@for_each(
    ("reason", "body", "changes"),
    [
        ("use larger inputs", doubled, {"launch": 0.01}),
        ("say bytes=N in the marker", lambda device: device.asarray(HOST).sum(), {}),
        ("no plain copy could be timed", doubled, {"memory_bandwidth": None}),
    ],
)
def test_a_limit_on_a_share_that_is_not_known_is_an_error(reason, body, changes):
    with pytest.raises(GpuPerfError, match=reason):
        measured(Demand(min_share=0.5), body, **changes)


def looked_up(device):
    table = device.asarray(HOST)
    return lambda: table[:10] + 1


def test_a_call_that_reads_a_part_of_its_inputs_has_a_note_with_what_was_counted():
    record = measured(body=looked_up, cpu=0.01, gpu=0.01)
    _, note = (each.text for each in record.notes if each.code == "faster_than_roof")
    assert "50.0 times as fast as a plain copy that moves the 131 kB of its arrays of shape 32768" in note
    assert "bytes=N" in note


@for_each("demand", [Demand(bytes=MOVED), Demand(min_share=0.5)])
def test_what_is_faster_than_its_roof_is_an_error_where_the_marker_rests_on_the_bytes(demand):
    with pytest.raises(GpuPerfError, match="which no code can be"):
        measured(demand, looked_up, cpu=1.0, gpu=0.01)


def test_calls_of_up_to_twice_the_speed_of_a_copy_are_possible():
    record = measured(Demand(bytes=MOVED), gpu=0.6, cpu=0.6)
    assert record.status == "recorded"
    assert not [note for note in record.notes if note.code == "faster_than_roof"]


class Cached(SimulatedDevice):
    """A device that copies ten times as fast what fits into its cache of 1 MiB."""

    def copiers(self, size):
        seconds = 2 * size / (1e10 if 2 * size <= 1 << 20 else 1e9)
        return (lambda: self.launch(seconds),)


def cached(times):
    """Return the record of calls that are so many times as fast as a copy in the cache."""
    clock = Clock()
    timing = Timing(kernel=MOVED / 1e10 / times)
    here, there = (Cached(kind, clock=clock, timing=timing) for kind in ("cpu", "gpu"))
    trial = trial_of(Demand(bytes=MOVED), RunOptions(sampling=SamplingPlan(record_time=0.2)))
    return trial.record(trial.compare(lambda device: partial(doubled, device), here, there))


def test_what_is_faster_than_a_copy_in_a_cache_is_cache_resident_and_no_liar():
    record = cached(3)
    assert record.roof.gpu.cache_resident
    assert codes(record) == ["cache_resident"]


def test_no_cache_explains_calls_that_are_much_faster_than_a_copy_in_it():
    with pytest.raises(GpuPerfError, match=r"5\.00 times as fast as a plain copy"):
        cached(5)


def test_a_copy_that_takes_as_long_for_any_size_calls_nobody_a_liar():
    class Launches(SimulatedDevice):
        def copiers(self, size):
            return (partial(self.launch, 0.01),)

    clock = Clock()
    here, there = (Launches(kind, clock=clock, timing=Timing(kernel=1e-3)) for kind in ("cpu", "gpu"))
    trial = trial_of(Demand(bytes=MOVED), RunOptions(sampling=SamplingPlan(record_time=0.2)))
    record = trial.record(trial.compare(lambda device: partial(doubled, device), here, there))
    assert record.status == "recorded"
    assert record.roof.gpu.share is None
    assert "takes as long as its launch" in record.roof.reason
