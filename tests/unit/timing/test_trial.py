"""Trial: one test's walk on devices whose every time is known."""

import gc
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import count, cycle, product
from math import inf
from time import perf_counter

import numpy as np
import pytest
from cases import for_each
from msgspec.structs import replace
from walks import NODEID, bound, simulated, trial_of

from pytest_gpuperf.devices.host import HostDevice
from pytest_gpuperf.devices.simulated import Clock, Injected, SimulatedDevice, Timing
from pytest_gpuperf.model.comparison import GateOptions
from pytest_gpuperf.model.demand import Demand, RunOptions, SamplingPlan, SizeGroup
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import Interference
from pytest_gpuperf.model.record import Note, Record, Verdict
from pytest_gpuperf.timing import blocks
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.checks import CpuResult
from pytest_gpuperf.timing.leaves import Leaf
from pytest_gpuperf.timing.rounds import for_gate, for_unmarked
from pytest_gpuperf.timing.trial import Trial


class Bench:
    """A CPU and a GPU on one clock."""

    def __init__(self, *, cpu=10e-3, gpu=1e-3, cpu_noise=None, faults=(), throttle=tuple, **gpu_timing):
        self.clock = Clock()
        even = cpu_noise or (lambda: 1.0)
        self.cpu = simulated("cpu", self.clock, even, kernel=cpu)
        timing = Timing(kernel=gpu, **gpu_timing)
        self.gpu = SimulatedDevice("gpu", clock=self.clock, timing=timing, faults=faults, throttle=throttle)

    def compare(self, body, demand=None, *, nodeid=NODEID, options=None) -> Record:
        """Walk a test and return its record as the session would."""
        return self.walk(body, demand, nodeid=nodeid, options=options)[1]

    def walk(self, body, demand=None, *, nodeid=NODEID, options=None) -> tuple[Trial, Record]:
        trial = trial_of(demand, options, nodeid=nodeid)
        found = trial.compare(bound(body), self.cpu, self.gpu)
        return trial, trial.record(found)

    def refused(self, body, demand=None) -> tuple[Trial, str]:
        trial = trial_of(demand)
        with pytest.raises(GpuPerfError) as refusal:
            trial.compare(bound(body), self.cpu, self.gpu)
        return trial, str(refusal.value)


def ones(device):
    return device.xp.ones(4)


def test_the_speedup_of_known_times_is_exact():
    found = Bench(cpu=10e-3, gpu=1e-3).compare(ones, Demand(min=9.5))
    assert ("passed", None) == (found.status, found.reason)
    speedup = found.speedup
    assert [pytest.approx(10)] * 3 == [speedup.value, speedup.low, speedup.high]
    assert (pytest.approx(10 / 1.01), pytest.approx(10.1)) == (speedup.certain.low, speedup.certain.high)
    assert speedup.sampling == "interleaved"
    assert found.cpu.median == pytest.approx(10e-3)
    assert found.gpu.median == pytest.approx(1e-3)


def on_a_side_stream(device):
    device.launch(5e-3, stream=1)
    return device.xp.ones(4)


@for_each(
    ("expected", "demand", "speedup", "gpu", "body"),
    [
        ("passed", Demand(min=9), 10, 1e-3, ones),
        ("failed", Demand(min=11), 10, 1e-3, ones),
        ("passed", Demand(max=11), 10, 1e-3, ones),
        ("failed", Demand(max=9), 10, 1e-3, ones),
        ("passed", Demand(min=9, max=11), 10, 1e-3, ones),
        ("recorded", Demand(), 10, 1e-3, ones),
        ("recorded", Demand(), 1 / 4, 40e-3, ones),
        ("inconclusive", Demand(min=10), 10, 1e-3, ones),
        ("failed", Demand(min=4), 3, 5e-3, on_a_side_stream),  # whose work is waited for
    ],
)
def test_the_verdict_is_that_of_the_demand(expected, demand, speedup, gpu, body):
    found = Bench(cpu=10e-3, gpu=gpu).compare(body, demand)
    assert (expected, pytest.approx(speedup)) == (found.status, found.speedup.value)
    assert (found.reason is None) == (expected in ("passed", "recorded"))


def test_launch_costs_are_the_gpus_and_overlap_with_its_work():
    found = Bench(cpu=10e-3, gpu=1e-3, launch=4e-3).compare(ones)
    assert found.speedup.value == pytest.approx(10 / 4, rel=0.015)
    assert found.gpu.block_calls == 22  # of 5 ms, alone, in a tenth of a second


def test_a_block_that_is_too_short_to_show_the_overlap_says_so():
    """A call submits 9 ms of work, during which the device is busy with that of the call before it."""
    found = Bench(cpu=90e-3, gpu=9e-3, launch=9e-3).compare(ones)
    assert (found.gpu.block_calls, found.status) == (7, "passed")
    assert found.speedup.value == pytest.approx(10 * 7 / 8)
    (note,) = (note for note in found.notes if note.code == "overlap_not_measured")
    assert note.text == (
        "host and device overlap in a loop, which a block of 7 calls shows in part: a call in a loop takes "
        "12 % less on the GPU"
    )
    latency = Bench(cpu=90e-3, gpu=9e-3, launch=9e-3).compare(ones, Demand(min=3, latency=True))
    assert latency.speedup.value == pytest.approx(5)


def test_the_record_holds_what_is_known():
    bench = Bench()
    found = bench.compare(lambda device: partial(ones, device), Demand(min=3, max_time=5))
    assert (found.nodeid, found.demand) == (NODEID, Demand(min=3, max_time=5))
    assert (found.scope, Bench().compare(ones).scope) == ("call", "body")
    assert (found.cpu.device, found.gpu.device) == (bench.cpu.info, bench.gpu.info)
    assert found.check.agreed is True
    assert found.speedup.rounds == len(found.cpu.samples) == len(found.gpu.samples)
    assert found.elapsed == pytest.approx(bench.clock())
    assert 0 < found.rounds_elapsed < found.elapsed
    assert found.gpu.device_time == pytest.approx(1e-3)
    assert found.notes == ()


def wrong_on_the_gpu(device):
    return device.xp.ones(4) * (2 if device.kind == "gpu" else 1)


def wrong_from_call(number):
    """Return a body whose GPU workload gives another answer from that call on."""

    def body(device):
        calls = count(1)

        def call():
            late = next(calls) >= number and device.kind == "gpu"
            return device.xp.full(4, 2.0 if late else 1.0)

        return call

    return body


def random_on_each(device):
    return device.xp.multiply(DRAWS.random(4), 1.0)  # it changes from call to call, too


DRAWS = np.random.default_rng(1)


def kept_on_the_cpu(device):
    value = device.xp.full(4, 2.0 if device.kind == "cpu" else 1.0)
    return lambda: value if device.kind == "cpu" else device.xp.multiply(value, 1)


def idle_in_timed_blocks(device):
    return lambda: device.xp.full(4, float(device.kind == "cpu" or gc.isenabled()))


@pytest.mark.parametrize(
    ("when", "body", "demands", "cpus"),
    [
        ("before", wrong_on_the_gpu, [Demand(min=9), Demand(min=11), Demand(min=10), Demand(max=9)], [10e-3]),
        ("before", random_on_each, [Demand(min=3)], [10e-3]),
        ("before", kept_on_the_cpu, [Demand(min=3)], [10e-3]),
        ("after", wrong_from_call(8), [Demand(min=3)], [10e-3]),
        ("after", idle_in_timed_blocks, [Demand(min=3)], [10e-3]),
        ("after", wrong_from_call(2), [Demand(min=3), Demand(min=3, latency=True)], [4.0, 2.4, 1.0, 1e-3]),
    ],
    ids=["first call", "random", "takes no time", "late", "timed calls", "slow or quick"],
)
def test_a_wrong_answer_fails_whatever_the_speedup(when, body, demands, cpus):
    for demand, cpu in product(demands, cpus):
        found = Bench(cpu=cpu, gpu=cpu / (10 if cpu == 10e-3 else 100)).compare(body, demand)
        assert (found.status, found.reason_code, found.offload) == ("failed", "devices_disagree", None)
        assert found.reason.startswith(f"the devices disagree {when} timing: result: relative error")
        assert "create the random generator, with a seed, inside the test" in found.reason
        assert found.check.agreed is False
        assert body is not wrong_on_the_gpu or found.speedup.value == pytest.approx(10)


def test_a_wrong_answer_takes_nothing_beside_the_rounds():
    wrong, right = Bench(gpu=2e-3), Bench(gpu=2e-3)
    failed = wrong.compare(lambda device: device.xp.full(4, float(device.kind == "gpu")))
    passed = right.compare(ones)
    assert (failed.status, passed.status) == ("failed", "passed")
    assert failed.speedup == passed.speedup
    assert failed.elapsed < passed.elapsed


@for_each(
    ("expected", "agreed", "demand"),
    [
        (("recorded", ["devices_disagree"]), False, Demand()),
        (("passed", []), None, Demand(min=3, check=False)),
    ],
)
def test_a_bare_demand_records_that_the_answers_differ_and_without_a_check_they_may(expected, agreed, demand):
    found = Bench().compare(wrong_on_the_gpu, demand)
    assert expected == (found.status, [note.code for note in found.notes])
    assert (None, agreed) == (found.reason, found.check.agreed)
    assert found.speedup.value == pytest.approx(10)


def test_a_last_answer_that_nobody_can_compare_is_an_error_like_the_first():
    def body(device):
        calls = count(1)
        return lambda: device.xp.ones(4) if next(calls) < 8 else (device.launch(), {1})[1]

    assert Bench().refused(body)[1].startswith("result is of type set")


def test_a_result_that_changes_from_call_to_call_is_refused_and_only_the_samples_stay():
    def body(device):
        calls = count(1)
        return lambda: device.xp.ones(4) * next(calls)

    trial, text = Bench().refused(body)
    assert "result changes from call to call" in text
    trial.discard_estimate()
    found = trial.record(Verdict(status="error", reason=text))
    assert found.speedup is None
    assert len(found.gpu.samples) >= 3


@for_each("body", [lambda device: np.ones(4), lambda device: lambda: 5.0, lambda device: None])
def test_a_gpu_that_does_no_work_is_refused(body):
    trial, text = Bench().refused(body)
    assert "no work reached simulated GPU" in text
    assert "device.asarray or xp" in text
    assert len(trial.record(Verdict(status="error", reason=text)).cpu.samples) == 0


@for_each(("expected", "others"), [([], None), ([], 0), (["not_exclusive"], 2)])
def test_other_processes_on_the_gpu_are_noted(expected, others):
    bench = Bench()
    bench.gpu.other_processes = lambda: others
    notes = [note for note in bench.compare(ones).notes if note.code == "not_exclusive"]
    assert expected == [note.code for note in notes]
    assert all("2 other processes use the GPU" in note.text for note in notes)


@pytest.mark.parametrize(
    ("expected", "runtime", "emulated"),
    [
        (1, "CUDA 13.0", False),
        (1, "cuda 13000", False),
        (1, "ROCm 7.1", False),
        (0, "CUDA 13.0", True),
        (0, "tpu", False),
        (0, None, False),
    ],
)
def test_launches_that_block_are_noted_as_a_tracer_is(monkeypatch, expected, runtime, emulated):
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    bench = Bench()
    bench.gpu.info = replace(bench.gpu.info, emulated=emulated, runtime=runtime)
    notes = [note for note in bench.compare(ones).notes if note.code == "slowed_by_settings"]
    assert expected == len(notes)
    assert all(note.text.startswith("CUDA_LAUNCH_BLOCKING=1 makes each launch wait") for note in notes)


def calls_before_the_rounds(body) -> int:
    """Return how often the GPU is called before its first sample, of a walk without faults."""
    found = Bench(gpu=2e-3).compare(body)
    assert found.gpu.block_calls == 1
    return found.gpu.warmup_calls


def test_an_exception_in_a_round_keeps_those_before_it_and_says_where():
    fault = Injected(kind="error", call=calls_before_the_rounds(ones) + 6)
    bench = Bench(gpu=2e-3, faults=[fault])
    trial = trial_of()
    with pytest.raises(RuntimeError, match="injected error"):
        trial.compare(bound(ones), bench.cpu, bench.gpu)
    found = trial.record(Verdict(status="error", reason="injected"))
    assert trial.where == "on the GPU (simulated GPU) in round 6"
    assert [5] * 2 == [found.speedup.rounds, len(found.gpu.samples)]
    assert found.speedup.value == pytest.approx(5)
    assert found.rounds_elapsed == pytest.approx(5 * 12e-3)


@for_each("kind", ["cpu", "gpu"])
@for_each(
    ("call_number", "where"), [(1, "on the {0} (simulated {0})"), (10, "on the {0} (simulated {0}) in")]
)
def test_an_exception_names_the_device_that_was_running(call_number, where, kind):
    def body(device):
        calls = count(1)

        def call():
            if device.kind == kind and next(calls) == call_number:
                raise ValueError("in the call")
            return device.xp.ones(4)

        return call

    bench = Bench(gpu=2e-3)
    trial = trial_of(Demand(min=5))
    with pytest.raises(ValueError, match="in the call"):
        trial.compare(bound(body), bench.cpu, bench.gpu)
    assert trial.device.kind == kind
    where = f"on the {kind.upper()} (simulated {kind.upper()})"
    assert trial.where.startswith(where)
    if call_number == 1:
        assert trial.where == where
        assert trial.record(Verdict(status="error", reason="in the call")).speedup is None


def test_before_any_device_was_used_there_is_no_place_and_the_record_is_empty():
    trial = trial_of(Demand())
    assert trial.where == "before any device was used"
    found = trial.record(Verdict(status="skipped", reason="no GPU"))
    assert (None, None, None, None) == (found.cpu, found.gpu, found.speedup, found.elapsed)


def cpu_side(bench, body=ones, *, seconds=1.0, options=None) -> CpuResult:
    return trial_of(Demand(), options).time_alone(bound(body), bench.cpu, seconds=seconds)


def compare_with(bench, side, body=ones, demand=None) -> Record:
    trial = trial_of(demand)
    found = trial.compare_with(side, bound(body), bench.gpu)
    return trial.record(found)


def test_a_variant_is_compared_with_the_samples_of_the_other():
    bench = Bench(cpu=8e-3, gpu=2e-3)
    side = cpu_side(bench)
    launches = bench.cpu.launches
    found = compare_with(bench, side)
    assert ("passed", "variants") == (found.status, found.speedup.sampling)
    assert found.speedup.value == pytest.approx(4)
    assert found.cpu == side.measurement
    assert bench.cpu.launches == launches


@for_each(("seconds", "size"), [(1, 2), (7.5, 4)])
def test_a_size_that_loses_is_measured_for_longer_where_its_size_group_fails_by_that(seconds, size):
    bench = Bench(cpu=1.6e-3, gpu=2e-3)
    trial = trial_of(
        Demand(),
        size_group=SizeGroup(name="f", parameter="n", size=size, sizes=(2, 4), at_most=4),
    )
    found = trial.record(trial.compare(bound(ones), bench.cpu, bench.gpu))
    assert found.rounds_elapsed == pytest.approx(seconds, rel=0.05)


@for_each(
    ("expected", "cpu", "seconds"),
    [
        (("failed", "speedup_outside_limits"), 5e-3, inf),  # 1.2x below its limit
        (("inconclusive", "not_enough_time"), 5e-3, 2.0),
        (("failed", "speedup_outside_limits"), 3e-3, 2.5),  # no spell explains it
    ],
)
def test_a_variant_fails_near_its_limit_if_both_were_sampled_for_long(expected, cpu, seconds):
    bench = Bench(cpu=cpu, gpu=2e-3)
    side = cpu_side(bench, seconds=seconds)
    found = compare_with(bench, side, demand=Demand(min=3))
    assert expected == (found.status, found.reason_code)
    assert side.seconds == pytest.approx(min(seconds, 7.5), rel=0.01)
    assert found.rounds_elapsed <= side.seconds


def doubling(device):
    a = device.asarray(np.ones(4))
    return lambda: a + 1


def test_where_a_check_rests_on_them_latency_and_copies_are_sampled_in_each_round():
    """Of both devices, of a GPU against its CPU variant, and of that variant alone."""
    plain, options = (
        RunOptions(max_time=1.0, sampling=SamplingPlan(in_rounds=asked, whole=True))
        for asked in (False, True)
    )
    bench = Bench(cpu=4e-4, gpu=4e-4)
    found = bench.compare(doubling, Demand(), options=options)
    trial, side = trial_of(Demand(), options), cpu_side(bench, doubling, options=options)
    variant = trial.record(trial.compare_with(side, bound(doubling), bench.gpu))
    for record in (found, variant):
        alike = record.gpu.samples, record.gpu.latencies, record.transfer.loop
        assert {record.speedup.rounds} == {len(samples) for samples in alike}
        assert len(record.cpu.samples) == len(record.cpu.latencies)
    found = bench.compare(doubling, Demand(), options=plain)
    assert len(found.gpu.latencies) <= 60 < found.speedup.rounds


def sums(device, *, whole=False, dtype="float32"):
    """Return a number of Python, computed from arrays of a dtype that it does not tell."""
    array = device.asarray(np.ones(3, dtype))

    def total():
        return float(device.asnumpy(array + 1).sum()) * (1 + 1e-7 * (device.kind == "gpu"))

    return total() if whole else total


@for_each("whole", [False, True])
def test_a_number_of_python_has_the_digits_of_the_arrays_it_comes_from(whole):
    bench = Bench(cpu=6e-3, gpu=2e-3)
    assert bench.compare(partial(sums, whole=whole), Demand(min=2)).status == "passed"
    found = bench.compare(partial(sums, whole=whole, dtype="float64"), Demand(min=2))
    assert (found.status, found.reason_code) == ("failed", "devices_disagree")


@for_each(
    ("when", "body", "cpu_body"),
    [("before", wrong_on_the_gpu, wrong_on_the_gpu), ("after", wrong_from_call(8), ones)],
)
def test_a_variant_with_another_answer_fails(when, body, cpu_body):
    bench = Bench()
    found = compare_with(bench, cpu_side(bench, cpu_body), body)
    assert found.status == "failed"
    assert found.reason.startswith(f"the devices disagree {when} timing")
    assert found.speedup.rounds == len(found.gpu.samples) > 0


@for_each("values", [count(1), cycle([0, 1])])
def test_a_cpu_variant_whose_result_changes_is_refused(values):
    with pytest.raises(GpuPerfError, match="changes from call to call"):
        cpu_side(Bench(), lambda device: device.xp.ones(4) * next(values))


SIZE = 80_000


def allocating(device):
    """Hold two inputs, and give a result of the same size."""
    a, b = device.asarray(np.ones(SIZE // 8)), device.asarray(np.ones(SIZE // 8))
    return lambda: device.xp.add(a, b)


def test_a_device_holds_at_most_the_inputs_and_two_results_or_the_inputs_twice_and_one():
    bench = Bench()
    assert bench.compare(allocating).status == "passed"
    assert bench.gpu.peak_bytes <= 2 * SIZE + 2 * SIZE + SIZE  # a second copy of the inputs, with one result
    assert bench.cpu.peak_bytes <= 2 * SIZE + 2 * SIZE
    variants = Bench()
    compare_with(variants, cpu_side(variants, allocating), allocating)
    assert variants.gpu.peak_bytes <= 2 * SIZE + 2 * SIZE + SIZE
    assert variants.cpu.peak_bytes <= 2 * SIZE + 2 * SIZE


def test_a_device_that_fits_the_inputs_and_two_results_is_large_enough():
    found = Bench(memory=4 * SIZE).compare(allocating)
    assert found.status == "passed"
    assert found.transfer.reason.startswith("not enough device memory for a second copy")
    assert found.offload.always is None


@for_each("latency", [False, True])
@for_each("kernel", [1e-3, 1e-5])
def test_copies_in_the_rounds_hold_no_second_result(kernel, latency):
    bench = Bench(cpu=10 * kernel, gpu=kernel)
    bench.compare(allocating, Demand(max=30, transfer="always", latency=latency))
    assert bench.gpu.peak_bytes <= 2 * SIZE + 2 * SIZE + SIZE


def test_after_forgetting_nothing_is_held():
    bench = Bench()
    trial, _ = bench.walk(allocating)
    trial.release()
    assert (0, 0) == (bench.cpu.live_bytes, bench.gpu.live_bytes)


def noise(seed: int, spread: float = 0.05):
    draws = np.random.default_rng(seed)
    return lambda: float(np.exp(spread * draws.standard_normal()))


@for_each("limit", [1.0, 3.0, 10.0])
def test_measuring_takes_no_longer_than_the_time_allowed(limit):
    bench = Bench(cpu=0.0903, gpu=0.03, cpu_noise=noise(3))
    found = bench.compare(
        ones, Demand(min=3, max_time=limit), options=RunOptions(sampling=SamplingPlan(whole=True))
    )
    last_calls = 0.09 + 0.03
    assert found.elapsed == pytest.approx(bench.clock())
    assert limit / 2 < found.elapsed <= limit + 1.2 * last_calls
    assert found.status == "inconclusive"


def test_the_time_allowed_on_the_marker_counts_like_that_of_the_run():
    on_marker = Bench(cpu=0.3, gpu=0.2).compare(ones, Demand(min=3, max_time=1.0))
    of_run = Bench(cpu=0.3, gpu=0.2).compare(ones, Demand(min=3), options=RunOptions(max_time=1.0))
    assert of_run.elapsed == on_marker.elapsed
    assert of_run.cpu == on_marker.cpu


def test_first_calls_use_up_no_time():
    def slow_at_first(device):
        calls = count()
        return lambda: device.launch(100.0 if next(calls) == 0 else 0.1)

    found = Bench().compare(slow_at_first, Demand(min=0.1, check=False))
    assert (found.status, found.cpu.first_call, found.gpu.first_call) == ("passed", 100.0, 100.0)
    assert 200 < found.elapsed < 210


def test_without_time_for_a_round_nothing_is_decided_and_the_reason_says_what_a_call_takes():
    bench = Bench(cpu=30.0, gpu=1.0)
    found = bench.compare(lambda device: lambda: device.launch(), Demand(min=3))
    assert ("inconclusive", "not_enough_time", None) == (found.status, found.reason_code, found.speedup)
    assert found.reason == (
        "time was up before the first round: the first call took 30.0 s on the CPU and 1.00 s on the GPU; "
        "allow more time with max_time"
    )
    assert (bench.cpu.launches, bench.gpu.launches) == (2, 1)  # the first one, and one of warm-up
    found = Bench(cpu=30.0, gpu=1.0).compare(ones, Demand())
    assert ("recorded", None) == (found.status, found.reason)
    assert ["not_enough_time"] == [note.code for note in found.notes if "30.0 s" in note.text]


def test_without_time_for_a_round_no_body_runs_again_and_no_loop_with_copies_is_warmed_up():
    bodies = []

    def body(device):
        bodies.append(device.kind)
        a = device.asarray(np.ones(4))
        return lambda: a + 1

    bench = Bench(bandwidth=1.0)  # bytes a second: to copy the first result takes all the time
    found = bench.compare(body, Demand(min=3, transfer="always"))
    assert ("inconclusive", "not_enough_time") == (found.status, found.reason_code)
    assert (["cpu", "gpu"], 1, 1) == (bodies, found.cpu.warmup_calls, found.gpu.warmup_calls)
    copies = 4  # of the input up and, to see whether it changed, twice down; of the result
    assert copies * 32 <= found.elapsed < copies * 32 + 1


def test_bodies_that_run_again_use_up_no_time():
    """Each body takes 20 s. Calls become faster after the other body has run, since they are warm by then."""
    bodies, calls = [], count()

    def body(device):
        bodies.append(device.kind)
        device.launch(20.0)
        device.synchronize()
        return lambda: device.launch(10e-3 if device.kind == "cpu" and next(calls) < 5 else 1e-3)

    found = Bench().compare(body, Demand(min=0.1, check=False))
    assert ["cpu", "gpu", "cpu", "gpu"] == bodies
    assert "work_in_doubt" in [note.code for note in found.notes]
    assert (found.status, found.speedup.value) == ("passed", pytest.approx(1))


def test_after_one_round_nothing_is_decided():
    found = Bench(cpu=4.0, gpu=4.0).compare(ones, Demand(min=3))
    assert ("inconclusive", "not_enough_time", 1) == (found.status, found.reason_code, found.speedup.rounds)
    assert found.reason.endswith("inconclusive after 1 round; allow more time with max_time")


@for_each("cpu", [1e-3, 0.3, 1.9, 3.0, 30.0])
@for_each("gpu", [1e-3, 0.09, 0.3, 3.0, 30.0])
@for_each("transfer", ["never", "always"])
def test_the_time_is_exceeded_by_at_most_a_call_on_each_device(cpu, gpu, transfer):
    def body(device):
        a = device.asarray(np.ones(4))
        return lambda: a + 1

    found = Bench(cpu=cpu, gpu=gpu).compare(body, Demand(min=3, max_time=2.0, transfer=transfer))
    first = found.cpu.first_call + found.gpu.first_call + found.cpu.setup + found.gpu.setup
    loop = gpu if transfer == "always" else 0.0
    assert found.elapsed - first <= 2.0 + cpu + gpu + loop + 0.05


def order_of(nodeid: str) -> list[str]:
    steps = []

    def body(device):
        def call():
            steps.append(device.kind)
            return device.xp.ones(4)

        return call

    Bench(cpu=10e-3, gpu=2e-3).compare(body, Demand(min=5), nodeid=nodeid)
    return steps


def test_the_same_test_has_the_same_order_in_every_run_and_another_has_another():
    assert order_of("test_it.py::test_a") == order_of("test_it.py::test_a") != order_of("test_it.py::test_b")
    assert order_of("test_\udcff.py::test_it"), "of a file name that is no text"


def quick(device):
    return lambda: device.launch()


def disturbed(monkeypatch, *shares, kind="cpu"):
    """Let a device's times be its own in these shares: before the restart, and after it; one is for both."""
    left = list(shares)
    restart = BlockTimer.restart

    def interference(timer):
        if timer.device.kind != kind or left[0] is None:
            return None
        return Interference(kind="cpu_contention", own_share=left[0], waited=0.9)

    def begin_again(timer):
        restart(timer)
        if timer.device.kind == kind and len(left) > 1:
            left.pop(0)

    monkeypatch.setattr(BlockTimer, "interference", property(interference))
    monkeypatch.setattr(BlockTimer, "restart", begin_again)


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
@pytest.mark.parametrize(
    ("expected", "demands"),
    [
        ("inconclusive", {"cpu": Demand(min=3), "gpu": Demand(min=20)}),
        ("inconclusive", {"cpu": Demand(max=3), "gpu": Demand(max=20)}),
        ("passed", {"cpu": Demand(min=0.5), "gpu": Demand(min=3)}),
        ("passed", {"cpu": Demand(max=30), "gpu": Demand(max=2000)}),
        ("failed", {"cpu": Demand(min=30), "gpu": Demand(min=2000)}),
        ("recorded", {"cpu": Demand(), "gpu": Demand()}),
    ],
    ids=["below", "above", "far above min", "far below max", "far below min", "bare"],
)
def test_no_verdict_rests_on_time_that_a_device_lost_to_others(monkeypatch, kind, expected, demands):
    """The CPU took 10 ms, of which 1 ms was its own; or an emulated GPU 1 ms, of which 0.01 ms."""
    disturbed(monkeypatch, {"cpu": 0.1, "gpu": 0.01}[kind], kind=kind)
    found = Bench().compare(quick, demands[kind])
    assert expected == found.status
    assert "interference" in [found.reason_code, *(note.code for note in found.notes)]
    name, lost = {"cpu": ("CPU", 90), "gpu": ("emulated GPU", 99)}[kind]
    said = f"{name} times were disturbed: other programs may have taken up to {lost} %"
    assert said in f"{found.reason} {found.notes}"
    assert (found.interference is None, found.gpu_interference is None) == (kind == "gpu", kind == "cpu")


def slow_and_whole() -> tuple[Bench, RunOptions]:
    return Bench(cpu=0.2, gpu=0.2), RunOptions(sampling=SamplingPlan(whole=True))


def unmarked() -> tuple[Bench, RunOptions]:
    return Bench(), RunOptions(sampling=for_unmarked(SamplingPlan(), GateOptions()))


@pytest.mark.parametrize(
    ("is_restarted", "own_share", "demand", "where"),
    [
        (True, 0.1, Demand(min=3), lambda: (Bench(), None)),
        (False, 0.1, Demand(), slow_and_whole),
        (False, 0.1, Demand(), unmarked),
        (False, 0.9, Demand(min=3), lambda: (Bench(), None)),
    ],
    ids=["disturbed", "no time for as many samples", "unmarked", "it decides nevertheless"],
)
def test_a_disturbed_measurement_is_begun_again_and_the_quiet_one_counts(
    monkeypatch, is_restarted, own_share, demand, where
):
    disturbed(monkeypatch, own_share, 1.0)
    monkeypatch.setattr(BlockTimer, "changed_late", lambda timer, remaining: None if is_restarted else 2e-3)
    bench, options = where()
    found = bench.compare(quick, demand, options=options)
    assert found.status == ("passed" if demand.min else "recorded")
    assert found.restart_reason == ("the machine was busy with other work" if is_restarted else None)
    assert found.interference.own_share == (1.0 if is_restarted else own_share)
    assert found.speedup.rounds == len(found.cpu.samples) == len(found.gpu.samples)


@for_each(
    ("expected", "seconds", "own_share"),
    [
        ("passed", 0.07, 0.61),  # 6.1x, by the CPU's own times, is twice the limit
        ("passed", 1, 0.4),
        ("passed", 7.5, 0.32),
        ("inconclusive", 0.07, 0.29),  # no look would decide
    ],
)
def test_rounds_go_on_while_a_later_look_may_decide_in_spite_of_a_disturbance(expected, seconds, own_share):
    options = RunOptions(sampling=SamplingPlan(precision_time=0.0, may_restart=False))
    with pytest.MonkeyPatch.context() as patch:
        disturbed(patch, own_share)
        found = Bench().compare(quick, Demand(min=3), options=options)
    assert found.status == expected
    assert ("interference" in [note.code for note in found.notes]) is (expected == "passed")
    assert found.rounds_elapsed == pytest.approx(seconds, rel=0.15)
    assert found.speedup.rounds == len(found.cpu.samples) == len(found.gpu.samples)


def kept_waiting(monkeypatch):
    """Let two threads wait all the time for processors that work for others."""
    monkeypatch.setattr(blocks, "waits", lambda: {"1": perf_counter(), "2": perf_counter()})
    monkeypatch.setattr(blocks, "other_work", lambda: 2 * perf_counter())


def work(device):
    return lambda: device.asarray(sum(range(20_000 if device.kind == "cpu" else 20)) > 0)


@pytest.mark.parametrize(("expected", "threads"), [("passed", 2), ("inconclusive", None)])
def test_the_processor_time_of_one_thread_settles_what_other_work_made_slow(monkeypatch, expected, threads):
    kept_waiting(monkeypatch)
    monkeypatch.setattr(blocks, "one_thread", lambda: nullcontext(threads))
    there = HostDevice("another processor")
    there.kind, there.info = "gpu", replace(there.info, kind="gpu")
    options = RunOptions(sampling=SamplingPlan(precision_time=0.0), max_time=2.0)
    trial = trial_of(Demand(min=3), options)
    found = trial.record(trial.compare(bound(work), HostDevice("a processor"), there))
    assert found.status == expected
    assert (found.cpu.least_time is not None, found.gpu.least_time) == (threads is not None, None)
    assert (2, 2) == (found.cpu.waiting_threads, found.interference.threads)
    assert found.gpu_interference is None


def test_a_disturbed_cpu_variant_leaves_its_gpu_variant_in_doubt(monkeypatch):
    disturbed(monkeypatch, 0.1)
    bench = Bench()
    trials = [trial_of() for _ in range(2)]
    side = trials[0].time_alone(bound(quick), bench.cpu, seconds=1.0)
    found = trials[1].record(trials[1].compare_with(side, bound(quick), bench.gpu))
    assert (found.status, found.restart_reason) == ("inconclusive", "the machine was busy with other work")
    assert "use a quieter machine" in found.reason


@for_each(
    ("disturbed_still", "shares"),
    [(True, [0.1]), (False, [0.1, None])],  # in both spells, and in the first one
)
def test_a_cpu_that_is_timed_alone_is_timed_again_after_a_slow_spell_and_else_noted(disturbed_still, shares):
    with pytest.MonkeyPatch.context() as patch:
        disturbed(patch, *shares)
        trial = trial_of(Demand())
        side = trial.time_alone(bound(quick), Bench().cpu, seconds=0.0)
    record = trial.record(Verdict(status="skipped", reason="no GPU"))
    assert disturbed_still == (side.interference is not None)
    assert record.restart_reason == "the machine was busy with other work"
    assert ["interference"] * disturbed_still == [note.code for note in record.notes[-1:]]


def test_after_a_restart_nothing_is_said_twice(monkeypatch):
    disturbed(monkeypatch, 0.1, 1.0)

    def body(device):
        values = device.asarray(np.arange(8.0)[::-1].copy())
        return lambda: (values.sort(), device.launch(), values.copy())[2]

    found = Bench().compare(body, Demand(min=3))
    assert found.restart_reason is not None
    assert ["on the CPU", "on the GPU"] == [
        side for note in found.notes for side in ("on the CPU", "on the GPU") if side in note.text
    ]


@for_each(
    ("status", "gpu"),
    [("inconclusive", 1e-3), ("passed", 0.1e-3)],  # 10x and 100x; later calls of the CPU take a fifth
)
def test_a_late_change_after_the_restart_leaves_a_verdict_open_that_rests_on_it(status, gpu):
    with pytest.MonkeyPatch.context() as patch:
        disturbed(patch, 0.01, None)
        patch.setattr(BlockTimer, "changed_late", lambda timer, remaining: 2e-3)
        found = Bench(gpu=gpu).compare(quick, Demand(min=3))
    (text,) = (note.text for note in found.notes if note.code == "work_in_doubt")
    assert (status, True) == (found.status, found.restart_reason is not None)
    assert text == "on the CPU later calls took 2.00 ms each, and the timed ones 10.0 ms"
    assert (found.reason or text).endswith(text)


def test_a_disturbed_cpu_keeps_its_samples_where_too_little_time_is_left_for_as_many(monkeypatch):
    disturbed(monkeypatch, 0.1)
    options = RunOptions(sampling=for_gate(SamplingPlan(), GateOptions(create=True)))
    trial = trial_of(Demand(), options)
    side = trial.time_alone(bound(quick), Bench(cpu=30e-3).cpu, seconds=inf)
    assert (True, None) == (len(side.measurement.samples) > 100, side.restart_reason)


def test_a_device_that_is_timed_alone_keeps_to_the_time_limit_of_its_test():
    trial = trial_of(Demand(), RunOptions(max_time=0.1))
    trial.time_alone(bound(quick), Bench().cpu, seconds=1.0)
    found = trial.record(Verdict(status="skipped", reason="no GPU"))
    assert len(found.cpu.samples) > 2
    assert found.elapsed - found.cpu.first_call < 0.1001


def test_an_error_after_a_fresh_start_names_the_round_of_that_start(monkeypatch):
    disturbed(monkeypatch, 0.1)
    bench = Bench(gpu=2e-3, faults=[Injected(kind="error", call=122)])
    trial = trial_of()
    with pytest.raises(RuntimeError, match="launch 122"):
        trial.compare(bound(quick), bench.cpu, bench.gpu)
    record = trial.record(Verdict(status="error", reason="it broke"))
    assert record.restart_reason is not None
    assert record.speedup.rounds > 0
    assert trial.where.endswith(f"in round {record.speedup.rounds + 1}")


def test_a_fresh_start_holds_no_answers_of_the_one_before(monkeypatch):
    disturbed(monkeypatch, 0.1)
    held = []
    restart = Trial._restart

    def look(trial, *timers):
        leaves = [each for each in gc.get_objects() if type(each) is Leaf]
        held.append(sum(str(getattr(leaf.value, "shape", "")) == "(1003,)" for leaf in leaves))
        restart(trial, *timers)

    monkeypatch.setattr(Trial, "_restart", look)
    Bench().compare(lambda device: lambda: device.xp.ones(1003))
    assert held == [1]  # that of the first call on the CPU


def test_a_slow_workload_is_called_four_times_where_there_is_time_for_two_rounds():
    for allowed, calls in [(16.5, 4), (15.5, 3)]:
        bench = Bench(cpu=4.0, gpu=4.0)
        bench.compare(lambda device: lambda: device.launch(), Demand(min=3, max_time=allowed))
        assert (allowed, calls, calls) == (allowed, bench.cpu.launches, bench.gpu.launches)


@for_each("seconds", [4.0, 1e-3])
def test_a_changed_input_is_an_error_however_slow_the_workload_is(seconds):
    def body(device):
        a = device.asarray(np.arange(4.0))
        return lambda: a.__iadd__(1)

    with pytest.raises(GpuPerfError, match="modifies its input"):
        Bench(cpu=seconds, gpu=seconds / 100).compare(body, Demand(min=3))


@for_each("wrong", [0, 1])
@for_each("kind", ["cpu", "gpu"])
@for_each("seconds", [4.0, 10e-3, 2.8e-4])  # a block is one call, 11 of the GPU, and 4 or 40
def test_work_that_is_wrong_in_every_second_call_never_passes(seconds, kind, wrong):
    def body(device):
        calls = count()
        return lambda: device.xp.full(4, float(device.kind == kind and next(calls) % 2 == wrong))

    bench = Bench(cpu=seconds, gpu=seconds / (10 if seconds < 1 else 100))
    if kind == "cpu" and wrong == 1:  # the first call is right, so the CPU's own results differ
        assert "changes from call to call" in bench.refused(body)[1]
    else:
        found = bench.compare(body)
        assert (found.status, found.reason_code) == ("failed", "devices_disagree")


def with_fixture(bench, body, demand=None, **arrays) -> Record:
    """Return the record of a test whose fixture gives it an array on the device where it runs."""
    own = {device.kind: device.asarray(arrays[device.kind]) for device in (bench.cpu, bench.gpu)}
    trial = trial_of(demand)
    return trial.record(trial.compare(lambda device: partial(body, a=own[device.kind]), bench.cpu, bench.gpu))


COUNTED = np.arange(4.0)


@for_each("kind", ["cpu", "gpu"])
@for_each("seconds", [4.0, 1e-3])
def test_a_whole_body_that_goes_on_to_change_its_fixtures_array_is_refused(seconds, kind):
    bench = Bench(cpu=seconds, gpu=seconds / 100)
    changes = {"cpu": 0.0, "gpu": 0.0, kind: 1.0}
    own = {device.kind: device.asarray(COUNTED) for device in (bench.cpu, bench.gpu)}

    def bind(device):
        def body(a):
            np.add(a, changes[device.kind], out=a)
            return device.xp.ones(4)

        return partial(body, a=own[device.kind])

    trial = trial_of()
    with pytest.raises(GpuPerfError, match=r"modifies its input \(float64 array of shape \(4,\)\)"):
        trial.compare(bind, bench.cpu, bench.gpu)


@for_each(
    ("codes", "body", "array"),
    [
        (["work_in_doubt"] * 2, lambda a: (a.sort(), a.copy())[1], COUNTED[::-1]),
        ([], lambda a: np.add(COUNTED, 1.0, out=a) + 1, np.zeros(4)),
        ([], lambda a: a + 1, np.ones(1000)),
    ],
)
def test_a_whole_body_may_read_and_write_its_fixtures_array_and_one_change_of_it_is_noted(codes, body, array):
    found = with_fixture(Bench(), body, cpu=array, gpu=array)
    assert ("passed", codes) == (found.status, [note.code for note in found.notes])
    assert found.memory.inputs == 0, "it is no input that it holds"


def test_an_array_of_numpy_that_a_whole_body_changes_is_seen_beside_any_device():
    host = np.arange(4.0)

    def bind(device):
        return partial(lambda a: (a.__iadd__(1), device.xp.ones(4))[1], a=host)

    trial = trial_of()
    bench = Bench()
    with pytest.raises(GpuPerfError, match="modifies its input"):
        trial.compare(bind, bench.cpu, bench.gpu)
    assert trial.device.kind == "cpu"


class Layer:
    """An object with an array that a library made, and another such object."""

    def __init__(self, device, change):
        self.change = change
        self._buffers = {
            "b": device.xp.subtract(np.zeros(4), np.arange(4.0)),
            "new": device.xp.zeros(4),
        }
        self.inner = self  # objects may hold each other

    def __call__(self):
        self.change(self._buffers["b"])
        np.add(np.arange(4.0), 1.0, out=self._buffers["new"])


def codes_of(change, *, scope, demand=None):
    """Return the notes on a workload that changes the array in its object."""

    def body(device):
        layer = {"deep": [Layer(device, change)]}

        def call():
            layer["deep"][0]()
            return device.xp.ones(4)

        return call

    bench = Bench()
    bind = bound(body)
    if scope == "body":
        layers = {device.kind: Layer(device, change) for device in (bench.cpu, bench.gpu)}
        bind = lambda device: partial(  # noqa: E731 - as short as the other
            lambda device, layer: (layer(), device.xp.ones(4))[1], device, layer=layers[device.kind]
        )
    trial = trial_of(demand)
    found = trial.record(trial.compare(bind, bench.cpu, bench.gpu))
    assert found.status == "passed"
    return [note.code for note in found.notes]


@for_each("scope", ["call", "body"])
@for_each(
    ("noted", "change"),
    [
        (True, lambda b: b.sort()),
        (True, lambda b: np.maximum(b, -2.0, out=b)),
        (False, lambda b: b.__iadd__(1)),  # state that goes on to change
        (False, lambda b: b + 1),  # a new buffer
    ],
)
def test_work_in_place_in_an_object_that_only_the_first_call_does_is_noted(noted, change, scope):
    assert codes_of(change, scope=scope) == ["work_in_doubt"] * 2 * noted


def heat(*rounds):
    """Return a GPU's throttle that is hot in these rounds, counted from 1."""
    asked = count(1)
    return lambda: ("thermal",) if next(asked) in rounds else ()


@for_each("hot", [1, 2])
def test_a_round_of_a_gpu_that_was_too_hot_does_not_count(hot):
    found = Bench(throttle=heat(hot)).compare(ones, Demand(min=9))
    assert ("passed", 1) == (found.status, found.dropped_rounds)
    assert len(found.cpu.samples) == len(found.gpu.samples) == found.speedup.rounds >= 4
    # What was dropped leaves unknown values unknown.
    assert (found.gpu.processors, found.gpu.waited, found.cpu.waited) == (None, None, None)
    (note,) = [note for note in found.notes if note.code == "gpu_throttled"]
    assert note.text.startswith("1 of ")
    assert "thermal" in note.text


@pytest.mark.parametrize(
    ("status", "hot", "demand"),
    [
        ("inconclusive", lambda number: True, Demand(min=3)),
        ("inconclusive", lambda number: number % 2, Demand(min=3)),
        ("passed", lambda number: number % 2, Demand(max_memory=10**6)),
        ("recorded", lambda number: number % 2, Demand()),
    ],
    ids=["all the time", "every second round", "no speedup demanded", "bare"],
)
def test_a_gpu_that_is_too_hot_decides_nothing_about_the_speedup(status, hot, demand):
    rounds = count()
    bench = Bench(throttle=lambda: ("thermal",) if hot(next(rounds)) else ())
    found = bench.compare(ones, demand, options=RunOptions(sampling=SamplingPlan(record_time=0.1)))
    assert status == found.status
    assert "the GPU was slowed down (thermal) in " in f"{found.reason} {found.notes}"
    assert (found.offload and found.offload.worth) is None
    assert found.speedup is None if hot(0) else found.speedup.low > 3


def test_a_demand_on_memory_that_the_device_inconclusive_is_an_error_and_keeps_the_measurement():
    bench = Bench()
    watch = bench.gpu.observe

    @contextmanager
    def blind():
        with watch() as seen:
            yield seen
        seen.memory = None

    bench.gpu.observe = blind
    found = bench.compare(ones, Demand(min=3, max_memory=1000))
    assert found.status == "error"
    assert "max_memory is 1.00 kB, but the device does not report" in found.reason
    assert found.speedup.value == pytest.approx(10)


def test_memory_that_the_set_up_gave_back_is_not_held_by_the_workload():
    def body(device):
        large = device.asarray(np.ones(10**5))
        small = large[:10] + 1
        del large
        return lambda: small + 1

    found = Bench().compare(body, Demand(min=3, max_memory=10_000))
    assert ("passed", 160) == (found.status, found.memory.peak)


def test_what_fails_beside_the_verdict_is_noted_and_the_verdict_stays(monkeypatch):
    def fail(*_):
        raise RuntimeError("no second copy")

    monkeypatch.setattr("pytest_gpuperf.timing.secondary.time_transfers", fail)
    found = Bench().compare(ones, Demand(min=9))
    assert found.status == "passed"
    said = "some secondary measurements failed: RuntimeError: no second copy"
    assert found.notes == (Note(code="aside_failed", text=said),)


def test_an_error_of_the_cpu_beside_the_verdict_is_not_blamed_on_the_gpu(monkeypatch):
    warmed_up = blocks.warmed_up
    seen = []

    def warming_up(call, device, *others):
        seen.append((device.kind, trial.device.kind))
        return warmed_up(call, device, *others)

    monkeypatch.setattr(blocks, "warmed_up", warming_up)
    bench = Bench(cpu=1e-5, gpu=1e-5)
    trial = trial_of(Demand(min=0.1))
    trial.compare(bound(ones), bench.cpu, bench.gpu)
    assert ("cpu", "cpu") in seen
    assert all(at_work == said for at_work, said in seen)
