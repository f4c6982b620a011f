"""Trial: one test's walk on devices whose every time is known."""

import gc
import re
import weakref
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain, count, cycle, product, repeat
from math import inf
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from cases import for_each
from factories import CPU, GPU, NOUNS, measurement
from msgspec.structs import replace
from walks import NODEID, bound, observing, simulated, system, trial_of, walked

from pytest_gpuperf.devices.environment import Quota
from pytest_gpuperf.devices.simulated import Clock
from pytest_gpuperf.model.comparison import GateOptions
from pytest_gpuperf.model.demand import Demand, RunOptions, SizeGroup
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Note, Record, Verdict
from pytest_gpuperf.model.sampling_constants import SamplingPlan
from pytest_gpuperf.timing import notes
from pytest_gpuperf.timing.cpu_result import CpuResult
from pytest_gpuperf.timing.question import Question
from pytest_gpuperf.timing.rounds import for_gate, for_unmarked
from pytest_gpuperf.timing.time_budget import OtherLimit
from pytest_gpuperf.timing.trial import Trial
from pytest_gpuperf.work.workload import ResettableCall

SIZE = 80_000  # bytes of each array of `doubling`


def steady():
    return 1.0


class Bench:
    """A CPU and a GPU on one clock: ten milliseconds a call, and one."""

    def __init__(self, *, cpu=10e-3, gpu=1e-3, noise=steady, gpu_noise=steady, throttle=tuple, **timing):
        self.clock = Clock()
        self.cpu = simulated("cpu", self.clock, noise, kernel=cpu)
        self.gpu = simulated("gpu", self.clock, gpu_noise, kernel=gpu, **timing)
        self.gpu.throttle = throttle

    def compare(self, body, demand=None, *, options=None, brought=None, **changes) -> Record:
        """Walk a test and return its record as the session would."""
        trial = trial_of(demand, options, **changes)
        return self.walk(trial, body, brought)

    def walk(self, trial, body, brought=None) -> Record:
        """Walk a test whose fixtures brought an array, which is another one for each kind of device."""
        bind = bound(body) if brought is None else lambda device: partial(body, device, brought[device.kind])
        return trial.record(trial.compare(bind, self.cpu, self.gpu))

    def refused(self, body, demand=None, *, brought=None) -> tuple[Trial, str]:
        trial = trial_of(demand)
        with pytest.raises(GpuPerfError) as refusal:
            self.walk(trial, body, brought)
        return trial, str(refusal.value)

    def alone(self, body, trial=None, *, seconds=1.0, options=None) -> CpuResult:
        """Time the CPU variant of a test."""
        trial = trial or trial_of(Demand(), options)
        return trial.time_alone(bound(body), self.cpu, seconds=seconds)

    def against(self, cpu_result, body, demand=None, *, options=None) -> Record:
        """Time the GPU variant of a test and compare it with its CPU variant."""
        trial = trial_of(demand, options)
        return trial.record(trial.compare_with(cpu_result, bound(body), self.gpu))


def codes_of(record) -> list[str]:
    return [note.code for note in record.notes]


def ones(device):
    return device.xp.ones(4)


def quick(device):
    return lambda: device.launch()


def adding(device):
    a = device.asarray(np.ones(4))
    return lambda: a + 1


def doubling(device):
    """Hold two inputs, and give a result of the same size."""
    a, b = device.asarray(np.ones(SIZE // 8)), device.asarray(np.ones(SIZE // 8))
    return lambda: device.xp.add(a, b)


def on_a_side_stream(device):
    device.launch(5e-3, stream=1)
    return device.xp.ones(4)


def slow_at_first(device):
    calls = count()
    return lambda: device.launch(100.0 if next(calls) == 0 else 0.1)


def wrong_on_the_gpu(device):
    return device.xp.ones(4) * (2 if device.kind == "gpu" else 1)


def freeing(device):
    """Give back to the device most of what the set-up took."""
    large = device.asarray(np.ones(10**5))
    small = large[:10] + 1
    del large
    return lambda: small + 1


SLOW_ONCE = ("work_in_doubt", "long_warm_up")
NO_TIME = {"cpu": 30.0, "gpu": 1.0}  # for a round


@pytest.mark.parametrize(
    ("expected", "body", "demand", "times"),
    [
        (("passed", None, 10), ones, Demand(min=9), {}),
        (("failed", "speedup_outside_limits", 10), ones, Demand(min=11), {}),
        (("failed", "speedup_outside_limits", 10), ones, Demand(max=9), {}),
        (("inconclusive", "limit_too_close", 10), ones, Demand(min=10), {}),
        (("recorded", None, 1 / 4), ones, Demand(), {"gpu": 40e-3}),
        (("failed", "speedup_outside_limits", 3), on_a_side_stream, Demand(min=4), {"gpu": 5e-3}),
        (("passed", None, 1, *SLOW_ONCE), slow_at_first, Demand(min=0.1, check=False), {}),
        (("inconclusive", "not_enough_time", 1), ones, Demand(min=3), {"cpu": 4.0, "gpu": 4.0}),
        (("inconclusive", "not_enough_time", None, "not_enough_time"), ones, Demand(min=3), NO_TIME),
        (("recorded", None, None, "not_enough_time"), ones, Demand(), NO_TIME),
        (("recorded", None, 10, "devices_disagree"), wrong_on_the_gpu, Demand(), {}),
        (("recorded", None, 10, "devices_disagree"), wrong_on_the_gpu, Demand(max_time=5, latency=True), {}),
        (("recorded", None, 10, "devices_disagree"), wrong_on_the_gpu, Demand(rtol=1e-3), {}),
        (("passed", None, 10), wrong_on_the_gpu, Demand(min=3, check=False), {}),
        (("passed", None, 10), freeing, Demand(min=3, max_memory=10_000), {}),
    ],
    ids=[
        "above min",
        "below min",
        "above max",
        "at min",
        "nothing is demanded",
        "work on a side stream is waited for",
        "first calls use up no time",
        "after one round nothing is decided",
        "without time for a round",
        "without time for a round nothing is demanded",
        "another answer where nothing is demanded",
        "another answer where only the way to measure is said",
        "another answer where only a tolerance is said",
        "another answer without a check",
        "memory that the set-up gave back",
    ],
)
def test_the_verdict_is_that_of_the_demand(expected, body, demand, times):
    status, code, speedup, *notes = expected
    found = Bench(**times).compare(body, demand)
    assert (status, code, notes) == (found.status, found.reason_code, codes_of(found))
    assert (found.reason is None) == (status in ("passed", "recorded"))
    assert (found.speedup and found.speedup.value) == (speedup and pytest.approx(speedup))
    assert found.check.agreed is (None if not demand.check else body is not wrong_on_the_gpu)


def test_the_record_holds_what_is_known():
    bench, demand = Bench(), Demand(min=9.5, max_time=10)
    no_lock = partial(pytest.fail, "simulated time needs no lock")
    found = bench.compare(lambda device: partial(ones, device), demand, acquire_lock=no_lock)
    assert (found.nodeid, found.demand, found.notes) == (NODEID, demand, ())
    assert (found.scope, Bench().compare(ones).scope) == ("call", "body")
    assert (found.cpu.device, found.gpu.device) == (bench.cpu.info, bench.gpu.info)
    speedup = found.speedup
    assert [pytest.approx(10)] * 3 == [speedup.value, speedup.low, speedup.high]
    assert (pytest.approx(10 / 1.01), pytest.approx(10.1)) == (speedup.certain.low, speedup.certain.high)
    assert speedup.rounds == len(found.cpu.samples) == len(found.gpu.samples)
    assert found.elapsed == pytest.approx(bench.clock())
    assert 0 < found.rounds_elapsed < found.elapsed


def test_a_block_that_is_too_short_to_show_the_overlap_says_so_and_what_shows_it():
    """A call submits 9 ms of work, during which the device is busy with that of the call before it."""
    found = Bench(cpu=90e-3, gpu=9e-3, launch=9e-3).compare(ones)
    assert (found.gpu.block_calls, found.status) == (7, "passed")
    assert found.speedup.value == pytest.approx(10 * 7 / 8)
    (text,) = (note.text for note in found.notes if note.code == "overlap_not_measured")
    assert (
        "show in part: a call in a loop takes 12 % less on the emulated device than in blocks of 7 calls"
        in text
    )
    (steps,) = re.findall(r"let one call do the work of (\d+)$", text)

    def several(device):
        return lambda: [ones(device) for _ in range(int(steps))][-1]

    assert "overlap_not_measured" not in codes_of(Bench(cpu=90e-3, gpu=9e-3, launch=9e-3).compare(several))
    latency = Bench(cpu=90e-3, gpu=9e-3, launch=9e-3).compare(ones, Demand(min=3, latency=True))
    assert latency.speedup.value == pytest.approx(5)
    assert "overlap_not_measured" not in codes_of(latency)


def test_the_overlap_on_both_devices_is_one_note_with_one_loop():
    cpu = measurement(CPU, 1e-3, block_calls=10, overlap_left=0.05)
    gpu = measurement(GPU, 1e-3, block_calls=20, overlap_left=0.1)
    each = {next(notes.on_overlap([("it", one)])).text.rpartition(" ")[2] for one in (cpu, gpu)}
    assert {"27", "112"} == each  # 0.05 / 0.95 * 10 calls, and 0.1 / 0.9 * 20, are 2 % of so many
    (note,) = notes.on_overlap([("1 device", cpu), ("4 devices", gpu)])
    assert note.text.endswith(
        "5 % less on 1 device than in blocks of 10 calls and 10 % less on 4 devices than in blocks of 20 "
        "calls; to time such a loop, let one call do the work of 112"
    )


def test_the_overlap_is_said_beside_a_speedup_alone():
    bench = Bench(cpu=90e-3, gpu=9e-3, launch=9e-3)
    trial, text = bench.refused(changing)
    assert "overlap_not_measured" not in codes_of(trial.record(Verdict(status="error", reason=text)))
    differing = bench.compare(lambda device: lambda: device.xp.ones(4) + (device.kind == "gpu"))
    assert ("failed", []) == (differing.status, codes_of(differing))


SHORTER = "somebody ends this test after {}, so that it was measured as with max_time={}; for more"
NO_ROUND = "raise somebody's limit of 5.00 s, which ends this test before max_time does"


@for_each(
    ("seconds", "first", "cpu", "status", "said"),
    [
        (5.0, 0.0, 10e-3, "inconclusive", [SHORTER.format("5.00 s", 4)]),
        (50.0, 0.0, 10e-3, "inconclusive", []),  # max_time is shorter
        (5.0, 0.0, 30e-3, "passed", []),  # it needs no more time
        (5.0, 4.6, 10e-3, "inconclusive", [NO_ROUND]),
        (50.0, 35.0, 10e-3, "inconclusive", [SHORTER.format("50.0 s", 5)]),  # of 40 s five are left
        (50.0, 35.0, 30e-3, "passed", []),
    ],
)
def test_sampling_ends_before_the_time_limit_of_somebody_else(seconds, first, cpu, status, said):
    bench, firsts = Bench(cpu=cpu), [first]

    def body(device):
        if device.kind == "gpu" and firsts:
            bench.clock.advance(firsts.pop())
        return device.xp.ones(4)

    limit = OtherLimit(owner="somebody", seconds=seconds, left=lambda: seconds - bench.clock())
    found = bench.compare(body, Demand(min=10), other_limit=limit)
    assert status == found.status
    assert bench.clock() < seconds
    told = [note.text for note in found.notes if "somebody" in note.text]
    assert [True] * len(said) == [part in text for part, text in zip(said, told, strict=True)]


def test_a_limit_of_somebody_else_that_ends_the_first_calls_is_the_number_to_change():
    bench = Bench()

    def body(device):
        bench.clock.advance(6.0)
        raise TimeoutError

    trial = trial_of(other_limit=OtherLimit(owner="somebody", seconds=5.0, left=lambda: 5.0 - bench.clock()))
    with pytest.raises(TimeoutError):
        bench.walk(trial, body)
    said = "no round began within somebody's limit of 5.00 s: raise it; max_time does not limit first calls"
    assert said == trial.ended_by_other_limit


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


@for_each(
    ("when", "body", "cpu_body"),
    [("before", wrong_on_the_gpu, wrong_on_the_gpu), ("after", wrong_from_call(8), ones)],
)
def test_a_variant_with_another_answer_fails(when, body, cpu_body):
    bench = Bench()
    found = bench.against(bench.alone(cpu_body), body)
    assert found.status == "failed"
    assert found.reason.startswith(f"the devices disagree {when} timing")
    assert found.speedup.rounds == len(found.gpu.samples) > 0


@for_each("wrong", [0, 1])
@for_each("kind", ["cpu", "gpu"])
@for_each("seconds", [4.0, 10e-3, 2.8e-4])  # a block is one call, 11 of the GPU, and 4 or 40
def test_work_that_is_wrong_in_every_second_call_never_passes(seconds, kind, wrong):
    def body(device):
        calls = count()
        return lambda: device.xp.full(4, float(device.kind == kind and next(calls) % 2 == wrong))

    bench = Bench(cpu=seconds, gpu=seconds / (10 if seconds < 1 else 100))
    if kind == "cpu" and (wrong == 1 or seconds > 1):  # its own results differ, from one call to the next
        assert "changes from call to call" in bench.refused(body)[1]
    else:
        found = bench.compare(body)
        assert (found.status, found.reason_code) == ("failed", "devices_disagree")


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


def strange_at_last(device):
    calls = count(1)
    return lambda: device.xp.ones(4) if next(calls) < 8 else (device.launch(), {1})[1]


def changing(device, values=None):
    values = values or count(1)
    return lambda: device.xp.ones(4) * next(values)


def adding_to_its_input(device):
    a = device.asarray(np.arange(4.0))
    return lambda: a.__iadd__(1)


def doubling_its_input(device):
    """Return a call that has nothing left to change in the array after eight calls."""
    a = device.asarray(np.ones(4, np.int8))
    return lambda: a.__imul__(2)


def adding_to_what_was_brought(device, array):
    np.add(array, 1.0, out=array)
    return device.xp.ones(4)


@pytest.mark.parametrize(
    ("expected", "body", "seconds"),
    [
        ("result is of type set", strange_at_last, 10e-3),
        ("changes from call to call, so repeated calls", changing, 10e-3),
        ("call to call (calls have written to int8 array of shape (4,))", doubling_its_input, 1e-3),
        ("no work reached simulated GPU", lambda device: np.ones(4), 10e-3),
        ("no work reached simulated GPU", lambda device: None, 10e-3),
        ("modifies its input", adding_to_its_input, 4.0),
        ("modifies its input", adding_to_its_input, 1e-3),
    ],
    ids=[
        "cannot be compared",
        "changes",
        "changes with its input, which changes no more",
        "array of the host",
        "nothing",
        "slow input",
        "quick input",
    ],
)
def test_what_is_not_the_requested_work_is_refused_and_has_no_speedup(expected, body, seconds):
    trial, text = Bench(cpu=seconds, gpu=seconds / 100).refused(body)
    assert expected in text
    trial.discard_estimate()
    found = trial.record(Verdict(status="error", reason=text))
    assert found.speedup is None
    assert (found.gpu is None) == ("no work" in text)
    assert seconds > 1 or found.gpu is None or len(found.gpu.samples) >= 3


@for_each("kind", ["cpu", "gpu"])
@for_each("seconds", [4.0, 1e-3])
@for_each("is_on_host", [False, True])
def test_a_whole_body_that_goes_on_to_change_its_fixtures_array_is_refused(is_on_host, seconds, kind):
    def body(device, array):
        return adding_to_what_was_brought(device, array) if device.kind == kind else ones(device)

    bench, host = Bench(cpu=seconds, gpu=seconds / 100), np.arange(4.0)
    brought = {each.kind: host if is_on_host else each.asarray(host) for each in (bench.cpu, bench.gpu)}
    trial, text = bench.refused(body, brought=brought)
    assert "modifies its input (float64 array of shape (4,))" in text
    assert trial.sides.at_work.kind == kind


COUNTED = np.arange(4.0)


@for_each(
    ("codes", "body", "array"),
    [
        (["work_in_doubt"] * 2, lambda device, a: (a.sort(), a.copy())[1], COUNTED[::-1]),
        ([], lambda device, a: np.add(COUNTED, 1.0, out=a) + 1, np.zeros(4)),
        ([], lambda device, a: a + 1, np.ones(1000)),
    ],
)
def test_a_whole_body_may_read_and_write_its_fixtures_array_and_one_change_of_it_is_noted(codes, body, array):
    bench = Bench()
    found = bench.compare(body, brought={each.kind: each.asarray(array) for each in (bench.cpu, bench.gpu)})
    assert ("passed", codes) == (found.status, codes_of(found))
    assert found.memory.inputs == 0, "it is no input that it holds"


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
    def layer_of(device):
        found = SimpleNamespace(b=device.xp.subtract(np.zeros(4), np.arange(4.0)), new=device.xp.zeros(4))
        found.inner = found  # objects may hold each other
        return found

    def work(device, layer):
        change(layer.b)
        np.add(np.arange(4.0), 1.0, out=layer.new)
        return device.xp.ones(4)

    bench = Bench()
    if scope == "body":
        found = bench.compare(work, brought={each.kind: layer_of(each) for each in (bench.cpu, bench.gpu)})
    else:
        found = bench.compare(lambda device: partial(work, device, layer_of(device)))
    assert ("passed", ["work_in_doubt"] * 2 * noted) == (found.status, codes_of(found))


@for_each(
    ("expected", "runtime", "emulated", "others"),
    [
        ([], None, True, 0),
        (["2 other processes use the GPU"], None, True, 2),
        (["CUDA_LAUNCH_BLOCKING=1 makes each launch wait"], "CUDA 13.0", False, None),
        (["CUDA_LAUNCH_BLOCKING=1 makes each launch wait"], "ROCm 7.1", False, None),
        ([], "CUDA 13.0", True, None),
        ([], "tpu", False, None),
    ],
)
def test_other_processes_and_launches_that_block_are_noted(monkeypatch, expected, runtime, emulated, others):
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    bench = Bench()
    bench.gpu.info = replace(bench.gpu.info, emulated=emulated, runtime=runtime)
    bench.gpu.other_processes = lambda: others
    codes = ("not_exclusive", "slowed_by_settings")
    notes = [note.text for note in bench.compare(ones).notes if note.code in codes]
    assert len(expected) == len(notes)
    assert all(map(str.startswith, notes, expected))


@for_each("kind", ["cpu", "gpu"])
@for_each("number", [1, 10, 6000])  # a first call, one of warm-up, and one after it
def test_an_exception_names_the_device_that_was_running(number, kind):
    def body(device):
        calls = count(1)
        return lambda: device.launch(1e-5 / (device.kind != kind or next(calls) != number))

    trial = trial_of(Demand(min=5, latency=True))
    with pytest.raises(ZeroDivisionError):
        Bench().walk(trial, body)
    assert trial.sides.at_work.kind == kind
    where = f"on the {NOUNS[kind]} (simulated {kind.upper()})"
    assert trial.where.startswith(where)
    assert number > 1 or trial.where == where, "no round before the first"


def test_before_any_device_was_used_there_is_no_place_and_the_record_is_empty():
    trial = trial_of(Demand())
    assert trial.where == "before any device was used"
    found = trial.record(Verdict(status="skipped", reason="no GPU"))
    assert (None, None, None, None) == (found.cpu, found.gpu, found.speedup, found.elapsed)


def in_turn(bench, *, factor=1.5, seconds=0.05):
    """Return a body whose CPU is slower for so long after it has waited for the GPU."""
    waited, left = -1.0, 0.0

    def body(device):
        def on_cpu():
            nonlocal waited, left
            left = seconds if bench.clock() - waited > 1e-3 else left
            taken = min(left, factor * 10e-3)
            left -= taken
            device.launch(taken + (1 - taken / (factor * 10e-3)) * 10e-3)
            waited = bench.clock()
            return np.float32(1)

        return on_cpu if device.kind == "cpu" else lambda: device.launch(9e-3) or np.float32(1)

    return body


@for_each(
    ("status", "code", "least"),
    [
        ("inconclusive", "turns_differ", 1.3),
        ("failed", "speedup_outside_limits", 1.8),
        ("passed", None, 1.05),
    ],
)
def test_a_cpu_that_the_gpus_turn_slows_down_decides_nothing_between_its_two_speedups(status, code, least):
    bench = Bench()
    found = bench.compare(in_turn(bench), Demand(min=least))
    assert (status, code) == (found.status, found.reason_code)
    assert found.speedup.value == pytest.approx(15 / 9, rel=0.02)
    assert found.speedup.certain.low < 10 / 9 < found.speedup.certain.high
    assert (found.cpu.alone, found.gpu.alone) == pytest.approx((10e-3, 9e-3))
    said = (
        "a call on the CPU takes 15.0 ms in turn with the emulated device, and 10.0 ms in a loop "
        "(in turn: the median of the later half of the rounds)"
    )
    assert [(note.code, note.text) for note in found.notes] == [("turns_differ", said)] * (
        status != "inconclusive"
    )
    assert found.restart_reason is None


@dataclass(frozen=True)
class CountingQuota(Quota):
    """A quota that has stopped the process in as many periods as it says next."""

    periods: Iterator[int]

    def stopped(self):
        return next(self.periods)


@for_each(
    ("texts", "after"), [([], 3), (["a quota of 2.00 processors stopped its container in 4 periods"], 7)]
)
def test_a_quota_that_stops_the_process_while_it_is_timed_is_said(texts, after):
    bench = Bench()
    quota = CountingQuota(2.0, Path(), chain([3], repeat(after)))
    bench.cpu.quota = lambda: quota
    notes = [note.text for note in bench.compare(ones).notes if note.code == "slowed_by_settings"]
    assert texts == [text.partition(":")[0] for text in notes]


def test_whether_the_work_is_worth_it_is_unclear_between_the_two_speedups_too():
    bench = Bench()
    offload = bench.compare(in_turn(bench), options=RunOptions(cost_ratio=1.3)).offload
    assert (None, True) == (offload.worth, offload.faster)
    assert (
        "calls of a device that works alone take another time, so that it may be anything in"
        in offload.reason
    )


@for_each(("seconds", "size"), [(1, 2), (7.5, 4)])
def test_a_size_that_loses_is_measured_for_longer_where_its_size_group_fails_by_that(seconds, size):
    group = SizeGroup(name="f", parameter="n", size=size, sizes=(2, 4), at_most=4)
    found = Bench(cpu=1.6e-3, gpu=2e-3).compare(ones, Demand(), size_group=group)
    assert found.rounds_elapsed == pytest.approx(seconds, rel=0.05)


def test_where_a_check_rests_on_them_latency_and_copies_are_sampled_in_each_round():
    """Of both devices, of a GPU against its CPU variant, and of that variant alone."""
    plain, options = (
        RunOptions(max_time=1.0, sampling=SamplingPlan(in_rounds=asked, whole=True))
        for asked in (False, True)
    )
    bench = Bench(cpu=4e-4, gpu=4e-4)
    found = bench.compare(doubling, Demand(), options=options)
    variant = bench.against(bench.alone(doubling, options=options), doubling, Demand(), options=options)
    for record in (found, variant):
        alike = record.gpu.samples, record.gpu.latencies, record.transfer.loop
        assert {record.speedup.rounds} == {len(samples) for samples in alike}
        assert len(record.cpu.samples) == len(record.cpu.latencies)
    found = bench.compare(doubling, Demand(), options=plain)
    assert len(found.gpu.latencies) <= 60 < found.speedup.rounds


def test_results_that_differ_since_they_change_from_call_to_call_are_told_as_on_one_device():
    def body(device):
        return lambda: device.xp.full(4, DRAWS.random())

    assert "changes from call to call" in Bench().refused(body)[1]


@for_each("values", [count(1), cycle([0, 1])])
def test_a_cpu_variant_whose_result_changes_is_refused(values):
    with pytest.raises(GpuPerfError, match="changes from call to call"):
        Bench().alone(partial(changing, values=values))


@for_each("kernel", [1e-3, 1e-5])
@for_each("demand", [Demand(), *(Demand(max=30, transfer="always", latency=each) for each in (False, True))])
def test_a_device_holds_at_most_the_inputs_and_two_results_or_the_inputs_twice_and_one(demand, kernel):
    bench, variants = (Bench(cpu=10 * kernel, gpu=kernel) for _ in range(2))
    trial = trial_of(demand)
    bench.walk(trial, doubling)
    variants.against(variants.alone(doubling), doubling, demand)
    inputs, result = 2 * SIZE, SIZE
    for devices in (bench, variants):
        assert devices.gpu.peak_bytes <= 2 * inputs + result
        assert devices.cpu.peak_bytes <= inputs + 2 * result
    trial.release()
    assert (0, 0) == (bench.cpu.live_bytes, bench.gpu.live_bytes)


def test_a_released_trial_keeps_no_result_alive():
    trial, holding = trial_of(Demand()), trial_of(Demand())
    for each in (trial, holding):
        result = Bench().alone(doubling, each)
        values = [weakref.ref(leaf.value) for leaf in result.results[0]]
        if each is trial:
            each.release()
        del result
        assert [each is trial] * len(values) == [value() is None for value in values]


def test_without_time_for_a_round_the_reason_says_what_a_call_takes():
    bench = Bench(**NO_TIME)
    assert bench.compare(quick, Demand(min=3)).reason == (
        "time was up before the first round: the first call took 30.0 s on the CPU and 1.00 s on the "
        "emulated device; allow more time with max_time"
    )
    assert (bench.cpu.launches, bench.gpu.launches) == (2, 1)  # the first one, and one of warm-up


def test_without_time_for_a_round_the_reason_names_the_results_where_they_took_it():
    assert Bench(bandwidth=1.0).compare(adding, Demand(min=3)).reason == (
        "time was up before the first round: to copy inputs and results and look at them took 64.0 s, the "
        "first call 10.0 ms on the CPU and 1.00 ms on the emulated device; use smaller inputs, return "
        "fewer objects, or allow more time with max_time"
    )


def test_without_time_for_a_round_the_reason_names_the_hosts_time_that_simulated_work_took(monkeypatch):
    hours = count(step=3600.0)
    monkeypatch.setattr("pytest_gpuperf.timing.time_budget.perf_counter", hours.__next__)
    assert Bench().compare(quick, Demand(min=3)).reason == (
        "time was up before the first round: simulated devices compute on this machine, and the calls before "
        "it took 30.0 s of its time; use smaller arrays, or device.launch(seconds) in place of work"
    )


@for_each(("status", "bandwidth"), [("inconclusive", 5e3), ("passed", 5e6)])  # 16 s to copy the input
def test_to_look_at_the_inputs_counts_as_time_of_the_test_and_the_calls_themselves_do_not(status, bandwidth):
    def body(device):
        a = device.asarray(np.zeros(SIZE // 8))
        device.launch(100.0)
        return lambda: a[:1] + 1

    found = Bench(bandwidth=bandwidth).compare(body, Demand(min=3, max_time=10.0))
    assert status == found.status
    assert (status == "inconclusive") == ("copy inputs and results and look at them" in (found.reason or ""))


@for_each("max_time", [3.0, 5.0, 7.0, 8.0, 9.0, 10.0, 12.0, 20.0])
def test_a_reset_costs_at_most_one_call_on_each_device_beyond_the_time_limit(max_time):
    def body(device):
        weights, out = device.asarray(np.arange(3.0)), device.asarray(np.array([7.0, 1.0, 0.1]))

        def call():
            device.launch()
            weights[...] += 1
            out[...] = weights
            return weights + 0

        def reset():
            weights[...] = np.arange(3.0)

        return ResettableCall(call, reset)

    found = Bench(cpu=1.0, gpu=0.5).compare(body, Demand(min=1.5, max_time=max_time))
    timed = found.elapsed - sum(side.setup + side.first_call for side in (found.cpu, found.gpu))
    of_each = sum(side.first_call for side in (found.cpu, found.gpu))
    assert (timed <= max_time + of_each + 0.001) is True  # the copies of results take no time to speak of


@for_each("max_time", [1.0, 1.2])
def test_when_time_is_up_no_call_is_made_whose_result_takes_long_to_copy(max_time):
    def body(device):
        return lambda: (device.launch(), device.xp.ones(8000))[1]

    bench = Bench(bandwidth=128e3)  # half a second for each result
    found = bench.compare(body, Demand(min=3, max_time=max_time))
    assert (found.status, found.elapsed <= max_time + 0.5) == ("passed", True)


@for_each("max_time", [1.0, 1.2])
def test_when_time_is_up_no_call_is_made_whose_result_takes_long_to_look_at(max_time):
    def body(device):
        return lambda: (device.launch(), device.xp.ones(8))[1]

    bench = Bench(cpu=1e-3, gpu=1e-4)
    holds = bench.gpu.holds
    bench.gpu.holds = lambda value: (bench.clock.advance(0.05), holds(value))[1]
    found = bench.compare(body, Demand(min=3, max_time=max_time))
    assert (found.status, found.elapsed <= max_time + 0.25) == ("passed", True)


def test_without_time_for_a_round_no_body_runs_again_and_no_loop_with_copies_is_warmed_up():
    bodies = []

    def body(device):
        bodies.append(device.kind)
        return adding(device)

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
        return lambda: device.launch(10e-3 if device.kind == "cpu" and next(calls) < 2 else 1e-3)

    found = Bench().compare(body, Demand(min=0.1, check=False))
    assert ["cpu", "gpu", "cpu", "gpu"] == bodies
    assert "work_in_doubt" in codes_of(found)
    assert (found.status, found.speedup.value) == ("passed", pytest.approx(1))


@for_each("cpu", [1e-3, 0.3, 1.9, 3.0, 30.0])
@for_each("gpu", [1e-3, 0.09, 0.3, 3.0, 30.0])
@for_each("transfer", ["never", "always"])
def test_the_time_is_exceeded_by_at_most_a_call_on_each_device(cpu, gpu, transfer):
    found = Bench(cpu=cpu, gpu=gpu).compare(adding, Demand(min=3, max_time=2.0, transfer=transfer))
    first = found.cpu.first_call + found.gpu.first_call + found.cpu.setup + found.gpu.setup
    loop = gpu if transfer == "always" else 0.0
    assert found.elapsed - first <= 2.0 + cpu + gpu + loop + 0.05


def order_of(nodeid: str) -> list[str]:
    steps = []

    def body(device):
        return lambda: (steps.append(device.kind), device.xp.ones(4))[1]

    Bench(gpu=2e-3).compare(body, Demand(min=4), nodeid=nodeid)
    return steps


def test_the_same_test_has_the_same_order_in_every_run_and_another_has_another():
    assert order_of("test_it.py::test_a") == order_of("test_it.py::test_a") != order_of("test_it.py::test_b")
    assert order_of("test_\udcff.py::test_it"), "of a file name that is no text"


class Busy(Bench):
    """A machine with other work, which takes time from a device until so many rounds have ended.

    A call takes the time of a `Bench`, of which the device has its own share.
    """

    def __init__(self, own_share, *, on="cpu", rounds=inf, **times):
        super().__init__(noise=partial(self._run, "cpu"), gpu_noise=partial(self._run, "gpu"), **times)
        self._lost = (1 - own_share) * times.get(on, {"cpu": 10e-3, "gpu": 1e-3}[on])
        self._on, self._rounds = on, rounds
        self._waited = 0.0
        self.ended = 0

    def _run(self, kind) -> float:
        self._waited += self._lost * (kind == self._on and self.ended < self._rounds)
        return 1.0

    def _end_round(self, _):
        self.ended += 1

    def trial(self, demand=None, options=None) -> Trial:
        return trial_of(demand, options, on_round=self._end_round)

    def system(self):
        """Return a context in which the system reports the waits."""
        return system(self.clock, waits=lambda: {"1": self._waited})

    def measure(self, body, demand=None, options=None) -> Record:
        with self.system():
            return self.walk(self.trial(demand, options), body)


BUSY = "the machine was busy with other work"


@pytest.mark.parametrize("on", ["cpu", "gpu"])
@pytest.mark.parametrize(
    ("expected", "demands"),
    [
        ("inconclusive", {"cpu": Demand(min=3), "gpu": Demand(min=20)}),
        ("passed", {"cpu": Demand(min=0.5), "gpu": Demand(min=3)}),
        ("failed", {"cpu": Demand(min=30), "gpu": Demand(min=2000)}),
        ("recorded", {"cpu": Demand(), "gpu": Demand()}),
    ],
    ids=["near min", "far above min", "far below min", "bare"],
)
def test_no_verdict_rests_on_time_that_a_device_lost_to_others(on, expected, demands):
    """The CPU took 10 ms, of which 1 ms was its own; or an emulated GPU 1 ms, of which 0.01 ms."""
    found = Busy({"cpu": 0.1, "gpu": 0.01}[on], on=on).measure(quick, demands[on])
    assert expected == found.status
    assert "interference" in [found.reason_code, *codes_of(found)]
    lost = {"cpu": 90, "gpu": 99}[on]
    said = f"{NOUNS[on]} times were disturbed: other programs may have taken up to {lost} %"
    assert said in f"{found.reason} {found.notes}"
    assert (found.interference is None, found.gpu_interference is None) == (on == "gpu", on == "cpu")


def quicker(device, *, after, seconds):
    """Return a call that takes so many seconds on the CPU after so many calls."""
    made = count(1)
    return lambda: device.launch(seconds if device.kind == "cpu" and next(made) > after else None)


WHOLE = RunOptions(sampling=SamplingPlan(whole=True))
UNMARKED = RunOptions(sampling=for_unmarked(SamplingPlan(), GateOptions()))


@pytest.mark.parametrize(
    ("reason", "own_share", "demand", "options", "cpu"),
    [
        (BUSY, 0.1, Demand(min=3), None, 10e-3),
        (None, 0.1, Demand(), WHOLE, 0.2),
        (None, 0.1, Demand(), UNMARKED, 10e-3),
        (None, 0.65, Demand(min=0.5), None, 5e-3),
        ("later calls took", 1.0, Demand(min=0.5), None, 5e-3),
    ],
    ids=["disturbed", "no time for as many samples", "unmarked", "it decides nevertheless", "not disturbed"],
)
def test_a_disturbed_measurement_is_begun_again_and_the_quiet_one_counts(
    reason, own_share, demand, options, cpu
):
    """Where a disturbed measurement decides, nobody asks whether later calls take another time."""
    bench = Busy(own_share, rounds=7 if reason else inf, cpu=cpu)
    body = quick if own_share < 0.5 else partial(quicker, after=18, seconds=4e-3)
    found = bench.measure(body, demand, options)
    assert found.status == ("passed" if demand.min else "recorded")
    assert (reason is None) == (found.restart_reason is None)
    assert (reason or "") in (found.restart_reason or "")
    of_cpu = found.interference
    assert (of_cpu and of_cpu.own_share) == (None if reason else pytest.approx(own_share, rel=0.1))
    assert found.speedup.rounds == len(found.cpu.samples) == len(found.gpu.samples)
    assert found.cpu.processors == pytest.approx(1), "nothing is left of what was discarded"


@for_each(("waits", "others"), [(0.0, 1.0), (1.0, 0.0), (1.0, 1.0)])  # shares of the time
def test_a_body_that_sets_something_for_the_process_is_an_error_unless_other_work_may_explain_it(
    waits, others
):
    bench, state = Bench(), []

    def body(device):
        state[:] = [device.kind]
        return lambda: device.launch(10e-3 if state == ["cpu"] else 1e-3)

    reports = {"waits": lambda: {"1": waits * bench.clock()}, "other_work": lambda: others * bench.clock()}
    with system(bench.clock, **reports):
        if waits and others:
            found = bench.compare(body, Demand(min=3, check=False))
            assert ("inconclusive", ["work_in_doubt"]) == (found.status, codes_of(found)[:1])
        else:
            with pytest.raises(GpuPerfError, match="sets something for the whole process"):
                bench.compare(body, Demand(min=3, check=False))


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
    found = Busy(own_share).measure(quick, Demand(min=3), options)
    assert found.status == expected
    assert ("interference" in codes_of(found)) is (expected == "passed")
    assert found.rounds_elapsed == pytest.approx(seconds, rel=0.15)
    assert found.speedup.rounds == len(found.cpu.samples) == len(found.gpu.samples)


@for_each(("expected", "threads"), [("passed", 2), ("inconclusive", None)])
def test_the_processor_time_of_one_thread_settles_what_other_work_made_slow(expected, threads):
    """Two threads wait all the time; on one of them a call needs 10 ms, which two can share."""
    bench = Bench()
    bench.gpu.info = replace(bench.gpu.info, emulated=False)
    reports = {
        "waits": lambda: {"1": bench.clock(), "2": bench.clock()},
        "other_work": lambda: 2 * bench.clock(),
        "one_thread": lambda: nullcontext(threads),
    }
    with system(bench.clock, **reports):
        found = bench.compare(quick, Demand(min=3))
    assert found.status == expected
    assert (threads and pytest.approx(5e-3), None) == (found.cpu.least_time, found.gpu.least_time)
    assert (2, 2) == (found.cpu.waiting_threads, found.interference.threads)
    assert found.gpu_interference is None


def test_a_disturbed_cpu_variant_leaves_its_gpu_variant_in_doubt():
    bench = Busy(0.1)
    with bench.system():
        found = bench.against(bench.alone(quick), quick)
    assert (found.status, found.restart_reason) == ("inconclusive", BUSY)
    assert "use a quieter machine" in found.reason


@for_each(("disturbed_still", "rounds"), [(True, inf), (False, 2)])  # in both spells, and in the first one
def test_a_cpu_that_is_timed_alone_is_timed_again_after_a_slow_spell_and_else_noted(disturbed_still, rounds):
    bench = Busy(0.1, rounds=rounds)
    trial = bench.trial(Demand())
    with bench.system():
        side = bench.alone(quick, trial, seconds=0.0)
    record = trial.record(Verdict(status="skipped", reason="no GPU"))
    assert disturbed_still == (side.interference is not None)
    assert record.restart_reason == BUSY
    assert ["interference"] * disturbed_still == codes_of(record)[-1:]


def test_a_disturbed_cpu_keeps_its_samples_where_too_little_time_is_left_for_as_many():
    options = RunOptions(sampling=for_gate(SamplingPlan(), GateOptions(create=True)))
    bench = Busy(0.1, cpu=30e-3)
    with bench.system():
        side = bench.alone(quick, seconds=inf, options=options)
    assert (True, None) == (len(side.measurement.samples) > 100, side.restart_reason)
    assert side.interference is not None


def test_a_device_that_is_timed_alone_keeps_to_the_time_limit_of_its_test():
    trial = trial_of(Demand(), RunOptions(max_time=0.1))
    Bench().alone(quick, trial)
    found = trial.record(Verdict(status="skipped", reason="no GPU"))
    assert len(found.cpu.samples) > 2
    assert found.elapsed - found.cpu.first_call < 0.1001


def at_first(times, calls=50):
    """Return the noise of a device whose first calls take so many times as long."""
    return chain(repeat(times, calls), repeat(1.0)).__next__


def slow_at_first(on, demand, options=None, *, calls=50, gpu=1e-3) -> Record:
    """Return the record of calls of 1 ms of which the first ones of a device take five times as long."""
    bench = Bench(cpu=1e-3, gpu=gpu, **{{"cpu": "noise", "gpu": "gpu_noise"}[on]: at_first(5.0, calls)})
    return bench.compare(lambda device: partial(ones, device), demand, options=options)


@for_each(
    ("on", "demand", "gpu"),
    [("cpu", Demand(min=0.1), 1e-3), ("gpu", Demand(max=10.0), 1e-3), ("cpu", Demand(), 0.1e-3)],
)
def test_what_was_slow_in_its_first_calls_is_measured_again(on, demand, gpu):
    found = slow_at_first(on, demand, gpu=gpu)
    said = f"on the {NOUNS[on]} later calls took 1.00 ms each, and the timed ones 5.00 ms"
    assert (said, 1e-3) == (found.restart_reason, pytest.approx(gpu * found.speedup.value))
    assert "work_in_doubt" not in codes_of(found)


@for_each(
    ("status", "on", "demand"),
    [
        ("failed", "cpu", Demand(min=1.07)),
        ("failed", "gpu", Demand(max=0.93)),
        ("passed", "cpu", Demand(max=3.0)),
    ],
)
def test_later_rounds_turn_a_verdict_that_rests_on_slow_first_calls(status, on, demand):
    found = slow_at_first(on, demand)
    assert (status, 1) == (found.status, pytest.approx(found.speedup.value))


@for_each(("on", "demand", "value"), [("gpu", Demand(min=0.1), 0.2), ("cpu", Demand(max=10.0), 5.0)])
def test_a_device_whose_shorter_calls_would_not_turn_the_verdict_is_not_asked(on, demand, value):
    found = slow_at_first(on, demand, calls=200)
    assert ("passed", None, pytest.approx(value)) == (found.status, found.restart_reason, found.speedup.value)


def test_a_test_of_a_suite_without_markers_is_not_asked_for_later_calls():
    found = slow_at_first("cpu", Demand(), UNMARKED)
    assert (None, pytest.approx(5)) == (found.restart_reason, found.speedup.value)


def test_a_verdict_that_took_a_quarter_of_a_second_stands():
    found = Bench(cpu=60e-3, noise=at_first(3, 12)).compare(lambda device: partial(ones, device))
    assert (found.status, found.restart_reason, found.rounds_elapsed > 0.25) == ("passed", None, True)


def test_a_late_change_after_the_restart_leaves_the_verdict_open():
    """The restart is that of a busy machine; the CPU's calls change in the rounds after it."""
    bench = Busy(0.01, rounds=7, cpu=5e-3, gpu=0.05e-3)
    found = bench.measure(partial(quicker, after=60, seconds=1e-3), Demand(min=3))
    (text,) = (note.text for note in found.notes if note.code == "work_in_doubt")
    assert ("inconclusive", BUSY) == (found.status, found.restart_reason)
    assert text == "on the CPU later calls took 1.00 ms each, and the timed ones 5.00 ms"


def test_what_a_question_notes_of_first_calls_outlasts_a_restart():
    class Asked(Question):
        def after_first_call(self, timer, device):
            return Note(code="check_the_test", text=device.kind)

    bench = Busy(0.1, rounds=7)
    trial = trial_of(Demand(min=3), question=Asked(), on_round=bench._end_round)
    with bench.system():
        found = bench.walk(trial, quick)
    assert (BUSY, ["cpu", "gpu"]) == (
        found.restart_reason,
        [note.text for note in found.notes if note.code == "check_the_test"],
    )


def standing_still(clock, seconds):
    """Return the noise of a device of 10 ms that waits once for a machine which stands still for so long."""
    left = [seconds]
    return lambda: left.pop() / 10e-3 if left and clock() > 0.6 else 1.0


@for_each("is_alone", [False, True])
def test_a_machine_that_stood_still_is_noted_and_the_test_has_the_time_that_it_lost(is_alone):
    clock = Clock()
    here, there = simulated("cpu", clock, standing_still(clock, 20.0), kernel=10e-3), simulated("gpu", clock)
    here.processor_time = lambda: None  # which passes only while a machine works
    trial = trial_of(Demand(min=9.5))
    if is_alone:
        trial.time_alone(lambda device: partial(ones, device), here, 5.0)
        found = trial.record(Verdict(status="recorded", reason=None))
    else:
        found = trial.record(trial.compare(lambda device: partial(ones, device), here, there))
    (text,) = (note.text for note in found.notes if note.code == "interference")
    assert ("recorded" if is_alone else "passed") == found.status
    assert text.startswith("one round took 20.0 s, and a typical one 1")
    assert text.endswith("stood still (suspended, moved, stopped); the round counts as 500 ms of sampling")
    assert (found.rounds_elapsed < 8, found.elapsed > 20) == (True, True)


def test_a_slow_call_in_which_the_processor_worked_uses_up_the_time_of_the_test():
    clock = Clock()
    here, there = simulated("cpu", clock, standing_still(clock, 8.0), kernel=10e-3), simulated("gpu", clock)
    trial = trial_of(Demand(min=9.9))
    found = trial.record(trial.compare(lambda device: partial(ones, device), here, there))
    assert found.elapsed < 13
    assert not [note for note in found.notes if note.code == "interference"]


def heat(*rounds):
    """Return a GPU's throttle that is hot in these rounds, counted from 1."""
    asked = count(1)
    return lambda: ("thermal",) if next(asked) in rounds else ()


MANY = range(2, 1000, 2)


@pytest.mark.parametrize(
    ("status", "hot", "demand"),
    [
        ("inconclusive", range(1, 1000), Demand(min=3)),
        ("inconclusive", MANY, Demand(min=3)),
        ("passed", MANY, Demand(max_memory=10**6)),
        ("recorded", MANY, Demand()),
        ("passed", [1], Demand(min=9)),
        ("passed", [2], Demand(min=9)),
    ],
    ids=["all the time", "every second round", "no speedup demanded", "bare", "the first", "one round"],
)
def test_rounds_of_a_gpu_that_is_too_hot_do_not_count_and_if_they_are_many_nothing_is_decided(
    status, hot, demand
):
    options = RunOptions(sampling=SamplingPlan(record_time=0.1))
    found = Bench(throttle=heat(*hot)).compare(ones, demand, options=options)
    is_many, said = len(hot) > 1, f"{found.reason} {found.notes}"
    assert status == found.status
    assert (13 if is_many else 1) == found.dropped_rounds
    assert ("the GPU was slowed down (thermal) in " in said) == is_many
    assert ("1 of " in said) != is_many
    assert "gpu_throttled" in [found.reason_code, *codes_of(found)]
    assert (found.offload and found.offload.worth) is (None if is_many else True)
    assert found.speedup is None if 1 in hot and is_many else found.speedup.low > 3
    # What was dropped leaves unknown values unknown.
    assert (found.gpu.processors, found.gpu.waited, found.cpu.waited) == (None, None, None)


def test_a_demand_on_memory_that_the_device_does_not_report_is_an_error_and_keeps_the_measurement():
    bench = Bench()
    observing(bench.gpu, lambda seen: setattr(seen, "memory", None))
    found = bench.compare(ones, Demand(min=3, max_memory=1000))
    assert found.status == "error"
    assert "max_memory is 1.00 kB, but the device does not report" in found.reason
    assert found.speedup.value == pytest.approx(10)


def test_what_fails_beside_the_verdict_is_noted_and_the_verdict_stays():
    bench = Bench()
    asarray, uploads = bench.gpu.asarray, iter([True, True])

    def once(host):
        if next(uploads, None) is None:
            raise RuntimeError("no second copy")
        return asarray(host)

    bench.gpu.asarray = once
    found = bench.compare(doubling, Demand(min=9))
    assert found.status == "passed"
    said = "timing the copies failed: RuntimeError: no second copy"
    assert found.notes == (Note(code="aside_failed", text=said),)


SLOW = [*[1.0] * 19, 20.0]  # how many times as long as others each call takes, from the first on again


@for_each(
    ("uneven", "cpu", "gpu", "seconds"),
    [
        ("CPU", SLOW, [1.0], 2.0),
        ("emulated device", [1.0], SLOW, 1.5),
        (None, [*[1.0] * 60, 20.0, *[1.0] * 999], [1.0], 1.5),  # one, which may have been a stall
        (None, [*[1.0] * 19, 2.0], [1.0], 1.5),  # less than a tenth
        (None, SLOW, SLOW, 6.0),  # by chance a short test has more of them on one side
        (None, SLOW, [1.0], 1.0),  # fewer than 60 rounds
    ],
)
def test_slow_calls_that_a_loop_pays_for_are_noted(uneven, cpu, gpu, seconds):
    bench = Bench(noise=cycle(cpu).__next__, gpu_noise=cycle(gpu).__next__)
    options = RunOptions(max_time=seconds / 0.75, sampling=SamplingPlan(whole=True))
    found = bench.compare(ones, Demand(), options=options)
    texts = [note.text for note in found.notes if note.code == "totals_differ"]
    assert (found.speedup.rounds >= 60, len(texts)) == (seconds > 1, 1 if uneven else 0)
    for text in texts:
        assert f": on the {uneven} a call takes " in text
        together = float(text.removeprefix("all times together give ").partition("x")[0])
        assert together == pytest.approx(sum(found.cpu.samples) / sum(found.gpu.samples), rel=0.01)


@for_each(("expected", "share"), [(["totals_differ"], 0.0), (["interference"], 0.5)])
def test_slow_calls_are_not_the_loops_own_where_other_work_may_explain_them(expected, share):
    bench = Bench(noise=cycle(SLOW).__next__)
    options = RunOptions(max_time=2.7, sampling=SamplingPlan(whole=True, may_restart=False))
    with system(bench.clock, waits=lambda: {"1": share * bench.clock()}):
        found = bench.compare(ones, Demand(), options=options)
    assert expected == codes_of(found)


def test_results_in_reference_cycles_are_freed_before_they_fill_a_device():
    def body(device):
        def call():
            result = SimpleNamespace(values=device.xp.ones(1000))
            result.itself = result
            return result

        return call

    bench = Bench()
    bench.gpu.free_memory = lambda: 100 * 8000 - bench.gpu.live_bytes
    options = RunOptions(max_time=2.0, sampling=SamplingPlan(whole=True))
    gc.disable()  # nothing else collects garbage
    try:
        found = bench.compare(body, Demand(), options=options)
    finally:
        gc.enable()
    assert found.speedup.rounds > 50
    assert bench.gpu.peak_bytes < 50 * 8000


@for_each(("status", "seconds"), [("inconclusive", 50e-9), ("passed", 1e-6)])
def test_calls_too_short_for_any_work_meet_no_limit(status, seconds):
    clock = Clock()
    devices = [simulated(kind, clock, kernel=seconds, launch=1e-9) for kind in ("cpu", "gpu")]
    found = walked(lambda device: device.launch, *devices, Demand(min=0.2), max_time=0.02)
    assert status == found.status, found.reason
    said = [found.reason or "", *(note.text for note in found.notes)]
    assert (status == "inconclusive") == sum("too short for any work" in text for text in said), "once"


@for_each(("expected", "seconds"), [([True], 50e-9), ([], 1e-6)])
def test_calls_too_short_for_any_work_are_noted(expected, seconds):
    clock = Clock()
    devices = [simulated(kind, clock, kernel=seconds, launch=1e-9) for kind in ("cpu", "gpu")]
    found = walked(lambda device: device.launch, *devices, max_time=0.02)
    notes = [note.text for note in found.notes if note.code == "work_in_doubt"]
    assert expected == [
        "too short for any work: it seems to return what was made before" in text for text in notes
    ]
