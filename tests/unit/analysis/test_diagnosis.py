"""Diagnosis: each rule speaks just beyond its boundary, with its numbers, and is silent at it."""

from array import array

import pytest
from cases import for_each
from factories import CPU, GPU, measurement, offload, recorded
from msgspec.structs import replace

from pytest_gpuperf.analysis.diagnosis import find
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import (
    Copies,
    DeviceInfo,
    Estimate,
    Inspection,
    Measurement,
    Transfer,
)
from pytest_gpuperf.model.offload import BreakEven, Diagnosis, Offload
from pytest_gpuperf.model.record import Record

EMPTY = recorded(cpu=None, gpu=None, speedup=None)
ORDER = [
    "launch_bound",
    "host_synchronization",
    "transfer_bound",
    "cpu_threads",
    "float64",
    "precision_differs",
    "short_block",
    "first_call",
    "side_stream",
    "noisy_samples",
    "allocation",
]


def on_cpu(*samples: float, **changes) -> Measurement:
    samples = samples or (8.0,) * 5
    return measurement(CPU, *samples, **{"block_calls": 1, "first_call": samples[0], **changes})


def on_gpu(*samples: float, device: DeviceInfo = GPU, **changes) -> Measurement:
    samples = samples or (2.0,) * 5
    return measurement(device, *samples, **{"block_calls": 1, "first_call": samples[0], **changes})


def seen(**changes) -> Inspection:
    return Inspection(**{"host_time": 0.5, **changes})


def record(**changes) -> Record:
    """A record of 8 s on the CPU and 2 s on the GPU, with nothing wrong in it."""
    return replace(EMPTY, **{"cpu": on_cpu(), "gpu": on_gpu(), **changes})


def inspected(*samples: float, synchronize_cost: float = 0.0, **changes) -> Record:
    return record(gpu=on_gpu(*samples, inspection=seen(**changes), synchronize_cost=synchronize_cost))


def copied(up: float, down: float = 0.0, **changes) -> Record:
    """A record whose copies of 4 MB up and 2 MB down took so many seconds."""
    h2d = Copies(bytes=4_000_000, arrays=1, samples=array("d", [up]))
    d2h = Copies(bytes=2_000_000, arrays=1, samples=array("d", [down]))
    return record(transfer=Transfer(h2d=h2d, d2h=d2h), **changes)


def earning(transfer: float | None = None, first_call: float | None = None) -> Offload:
    """What was found of an offload: after how many calls the copies and the first call are earned back."""
    estimates = [
        None if calls is None else Estimate(value=calls, low=None, high=None)
        for calls in (transfer, first_call)
    ]
    break_even = BreakEven(transfer=estimates[0], first_call=estimates[1], both=None, reason=None)
    return offload(break_even_calls=break_even)


def codes(of: Record, usable=None, pool_threads=None) -> list[str]:
    return [each.code for each in find(of, usable=usable, pool_threads=pool_threads)]


def only(of: Record, usable=None, pool_threads=None) -> Diagnosis:
    """Return the one diagnosis there is."""
    (found,) = find(of, usable=usable, pool_threads=pool_threads)
    return found


def test_of_a_record_with_nothing_in_it_nothing_is_said():
    assert () == find(EMPTY, usable=None, pool_threads=None)
    assert () == find(EMPTY, usable=8, pool_threads=1)


def test_of_measurements_without_samples_and_of_times_of_zero_nothing_is_said():
    inspection = seen(device_time=0.0, outside_time=1.0)
    cpu = measurement(CPU, processors=1.0, block_time=1e-3)
    gpu = measurement(GPU, inspection=inspection, first_call=9.0, block_time=1e-3)
    assert () == find(copied(3.0, cpu=cpu, gpu=gpu), usable=8, pool_threads=1)
    nothing, inspection = [0.0] * 5, seen(device_time=0.0, outside_time=0.0)
    assert [] == codes(copied(0.0, cpu=on_cpu(*nothing), gpu=on_gpu(*nothing, inspection=inspection)))


def test_of_a_record_with_nothing_wrong_in_it_nothing_is_said():
    gpu = on_gpu(dtypes=("float32",), block_time=1.0, inspection=seen(device_time=1.9, allocations=0))
    cpu = on_cpu(dtypes=("float32",), block_time=1.0, processors=7.9)
    assert () == find(copied(0.1, cpu=cpu, gpu=gpu), usable=8, pool_threads=8)


@for_each("synchronizes", [True, False])
def test_all_reasons_are_given_in_their_order(synchronizes):
    inspection = seen(
        device_time=0.1,
        outside_time=None if not synchronizes else 1.0,
        synchronizes=synchronizes,
        allocations=1,
    )
    gpu = on_gpu(1, 2, 2, 2.6, 3, first_call=99, dtypes=("float64",), block_time=9, inspection=inspection)
    cpu = on_cpu(dtypes=("float32",), processors=1.0)
    worst = copied(3.0, cpu=cpu, gpu=gpu)
    missing = {"launch_bound"} if synchronizes else {"host_synchronization", "side_stream"}
    assert [code for code in ORDER if code not in missing] == codes(worst, usable=8)


TF32 = replace(GPU, reduced_precision="TF32")


@for_each(
    ("code", "said", "numbers", "of"),
    [
        (
            "launch_bound",
            (
                "launch-bound: the device worked 12 % of the time (1.20 us of 10.0 us); fuse operations, or "
                "give it more data per call"
            ),
            {"device_time": 1.2e-6, "gpu": 10e-6, "busy_percent": pytest.approx(12)},
            inspected(10e-6, device_time=1.2e-6),
        ),
        (
            "host_synchronization",
            "waits for its device before it returns, after 500 ms; keep results on the device",
            {"host_time": 0.5, "device_time": 0.3, "gpu": 2.0},
            inspected(device_time=0.3, synchronizes=True),
        ),
        (
            "transfer_bound",
            (
                "transfer-bound: the copies are 75 % of a call with them (6.00 s of 8.00 s, 6.00 MB at 1.00 "
                "MB/s); keep the data on the device and reuse it; the copies are amortized after 7 calls"
            ),
            {
                "copies": 6.0,
                "gpu": 2.0,
                "bytes": 6_000_000,
                "bandwidth": 1e6,
                "copies_percent": 75.0,
                "break_even_calls": 7,
            },
            copied(2.0, 4.0, offload=earning(transfer=6.2)),
        ),
        (
            "cpu_threads",
            (
                "CPU threads: its libraries may use 4 of 8 usable processors, and kept 0.98 busy: the "
                "speedup flatters the GPU; raise the limit (OMP_NUM_THREADS and similar variables)"
            ),
            {"processors": 0.98, "usable": 8, "pool_threads": 4},
            record(cpu=on_cpu(processors=0.98)),
        ),
        (
            "precision_differs",
            "the CPU works in float64, the GPU in float16, float32: the speedup compares",
            {"cpu_dtypes": "float64", "gpu_dtypes": "float16, float32", "reduced_precision": None},
            record(cpu=on_cpu(dtypes=("float64", "int32")), gpu=on_gpu(dtypes=("float32", "float16"))),
        ),
        (
            "precision_differs",
            "precision differs: the GPU rounds more than its dtypes say (TF32): the speedup compares",
            {"cpu_dtypes": "float32", "gpu_dtypes": "float32", "reduced_precision": "TF32"},
            record(cpu=on_cpu(dtypes=("float32",)), gpu=on_gpu(device=TF32, dtypes=("float32",))),
        ),
        (
            "short_block",
            "short block: on the GPU it lasted 300 us of 1.00 ms, so the cost of timing",
            {"gpu_block": pytest.approx(0.3e-3), "gpu_block_time": 1e-3},
            record(gpu=on_gpu(*[0.1e-3] * 5, block_calls=3, block_time=1e-3)),
        ),
        (
            "short_block",
            "on the CPU it lasted 8.00 s of 32.0 s, on the GPU it lasted 2.00 s of 8.00 s",
            {"cpu_block": 8, "cpu_block_time": 32, "gpu_block": 2, "gpu_block_time": 8},
            record(cpu=on_cpu(block_time=32.0), gpu=on_gpu(block_time=8.0)),
        ),
        (
            "first_call",
            (
                "the GPU took 90.0 s for it, 2.00 s for a later one (the CPU 8.00 s); keep the process, or "
                "its compiled kernels; it is amortized after 15 calls"
            ),
            {"first_call": 90.0, "gpu": 2.0, "cpu": 8.0, "break_even_calls": 15},
            record(gpu=on_gpu(first_call=90.0), offload=earning(first_call=14.1)),
        ),
        (
            "side_stream",
            (
                "the device worked on for 400 ms after its own events: work on other streams is not in the "
                "device time; rely on the verdict, which includes it"
            ),
            {"outside_time": 0.4, "device_time": 1.5, "gpu": 2.0},
            inspected(device_time=1.5, outside_time=0.4, synchronize_cost=0.01),
        ),
        (
            "noisy_samples",
            "their middle half spans 50 % of the median on the GPU; check for other work",
            {"gpu_spread_percent": 50.0},
            record(gpu=on_gpu(1.0, 1.5, 2.0, 2.5, 9.0)),
        ),
        (
            "noisy_samples",
            "100 % of the median on the CPU and 50 % of the median on the GPU",
            {"cpu_spread_percent": 100.0, "gpu_spread_percent": 50.0},
            record(cpu=on_cpu(1, 2, 4, 6, 9), gpu=on_gpu(1.0, 1.5, 2.0, 2.5, 9.0)),
        ),
        (
            "allocation",
            "allocates memory in the timed block (3 in one call); use a memory pool",
            {"allocations": 3},
            inspected(allocations=3),
        ),
    ],
)
def test_each_diagnosis_has_its_sentence_and_its_numbers(code, said, numbers, of):
    found = only(of, *((8, 4) if code == "cpu_threads" else ()))
    assert (code, numbers) == (found.code, found.numbers)
    assert said in found.sentence


@for_each(("expected", "device_time"), [(["launch_bound"], 0.99), ([], 1.0), ([], None)])
def test_a_device_that_works_half_of_the_time_is_not_launch_bound(expected, device_time):
    assert expected == codes(inspected(device_time=device_time))


def test_waiting_for_the_device_explains_that_it_idles():
    assert ["host_synchronization"] == codes(inspected(device_time=0.1, synchronizes=True))


def test_work_on_other_streams_explains_that_the_device_seems_to_idle():
    assert ["side_stream"] == codes(inspected(device_time=0.1, outside_time=1.8))


@for_each("synchronizes", [False, None])
def test_a_call_that_is_not_known_to_wait_does_not_synchronize_the_host(synchronizes):
    assert [] == codes(inspected(synchronizes=synchronizes))


def test_a_wait_is_told_without_any_times_beside_it():
    gpu = measurement(GPU, inspection=seen(synchronizes=True))
    found = only(replace(EMPTY, cpu=measurement(CPU), gpu=gpu))
    assert {"host_time": 0.5, "device_time": None, "gpu": None} == found.numbers


def test_one_call_may_earn_the_copies_back():
    assert only(copied(3.0, offload=earning(transfer=0.7))).sentence.endswith(
        "; the copies are amortized after 1 call"
    )


@for_each("offload", [None, earning(), replace(earning(), break_even_calls=None)])
def test_copies_that_no_calls_are_known_to_earn_back_only_bound_the_call(offload):
    found = only(copied(3.0, offload=offload))
    assert found.sentence.endswith("and reuse it")
    assert found.numbers["break_even_calls"] is None


@for_each(("expected", "up"), [(["transfer_bound"], 1.01), ([], 1.0)])
def test_copies_as_long_as_the_call_do_not_bound_it(expected, up):
    assert expected == codes(copied(up, 1.0))


@for_each(
    ("expected", "demand"),
    [
        (["transfer_bound"], Demand(transfer="once", calls=4)),
        ([], Demand(transfer="once", calls=5)),
        (["transfer_bound"], Demand(transfer="always")),
    ],
)
def test_copies_made_once_are_shared_by_the_calls(expected, demand):
    assert expected == codes(copied(10.0, demand=demand))


def test_the_share_of_copies_made_once_is_that_of_one_call():
    found = only(copied(24.0, demand=Demand(transfer="once", calls=4)))
    assert (6.0, 75.0) == (found.numbers["copies"], found.numbers["copies_percent"])
    assert 6e6 / 24 == found.numbers["bandwidth"]


@for_each(
    "transfer",
    [
        None,
        Transfer(h2d=None, d2h=None),
        Transfer(h2d=Copies(bytes=8, arrays=1), d2h=Copies(bytes=0, arrays=0)),
        Transfer(h2d=Copies(bytes=0, arrays=0), d2h=Copies(bytes=0, arrays=0)),
    ],
)
def test_copies_that_were_not_timed_do_not_bound_the_call(transfer):
    assert [] == codes(record(transfer=transfer))


def test_a_workload_of_one_thread_flatters_the_gpu():
    found = only(record(cpu=on_cpu(processors=1.02)), usable=7.5, pool_threads=8)
    assert found.code == "cpu_threads"
    assert "kept 1.02 of 7.5 usable processors busy: the speedup flatters the GPU" in found.sentence
    assert "NumPy uses several threads in matrix products only" in found.sentence
    assert "OMP_NUM_THREADS" not in found.sentence
    assert found.numbers == {"processors": 1.02, "usable": 7.5, "pool_threads": 8}


def test_a_small_thread_pool_is_told_when_nobody_knows_how_many_processors_were_busy():
    sentence = only(record(), usable=8, pool_threads=4).sentence
    assert "may use 4 of 8 usable processors: the speedup flatters the GPU" in sentence


@for_each(
    ("expected", "usable", "pool_threads", "processors"),
    [
        (["cpu_threads"], 8, 7, 7.0),
        ([], 8, 8, 7.0),
        ([], 8.9, 8, 7.0),
        (["cpu_threads"], 8, None, 1.24),
        ([], 8, None, 1.25),
        (["cpu_threads"], 2, 1, 1.0),
        ([], 1.99, 1, 1.0),
        ([], 8, None, None),
        ([], None, 1, 1.0),
    ],
)
def test_a_cpu_that_uses_what_it_may_does_not_flatter_the_gpu(expected, usable, pool_threads, processors):
    assert expected == codes(record(cpu=on_cpu(processors=processors)), usable, pool_threads)


@for_each("side", ["cpu", "gpu"])
def test_without_both_sides_there_is_no_speedup_to_flatter(side):
    assert [] == codes(replace(record(cpu=on_cpu(processors=1.0)), **{side: None}), 8, 1)


@for_each(
    ("expected", "dtypes"),
    [
        ("float64", ("float32", "float64")),
        ("complex128", ("complex128", "int64")),
        ("complex128, float64", ("float64", "complex128")),
    ],
)
def test_double_precision_is_slow_on_some_gpus(expected, dtypes):
    found = only(record(gpu=on_gpu(dtypes=dtypes)))
    assert found.code == "float64"
    assert f"the GPU works in {expected}; consumer GPUs compute float64 at 1/32 to 1/64" in found.sentence
    assert "use float32 where its seven digits suffice" in found.sentence
    assert {"dtypes": expected} == found.numbers


@for_each("dtypes", [(), ("float32",), ("complex64", "float16", "int64")])
def test_without_double_precision_nothing_is_slow(dtypes):
    assert [] == codes(record(gpu=on_gpu(dtypes=dtypes)))


def test_the_cpu_may_use_double_precision():
    assert "float64" not in codes(record(cpu=on_cpu(dtypes=("float64",))))


@for_each("dtype", ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"])
def test_floats_and_none_are_not_the_same_work(dtype):
    found = only(record(cpu=on_cpu(dtypes=(dtype,)), gpu=on_gpu(dtypes=("int64",))))
    assert f"the CPU works in {dtype}, the GPU in no floats" in found.sentence


@for_each(
    ("expected", "dtypes"),
    [
        ([], ("int32",)),
        ([], ("float64", "int64")),
        ([], ("float16",)),
        (["precision_differs"], ("complex64",)),
        (["precision_differs"], ("float32", "int32")),
        (["precision_differs"], ()),
    ],
)
def test_a_mode_that_rounds_float32_leaves_work_in_other_dtypes_as_it_is(expected, dtypes):
    cpu, gpu = on_cpu(dtypes=dtypes), on_gpu(device=TF32, dtypes=dtypes)
    assert expected == [code for code in codes(record(cpu=cpu, gpu=gpu)) if code != "float64"]


@for_each(
    ("expected", "of_cpu", "of_gpu"),
    [
        ([], ("float32", "int64"), ("int32", "float32")),
        ([], ("complex64", "float32"), ("float32", "complex64")),
        ([], (), ("float32",)),
        ([], ("float32",), ()),
        (["precision_differs"], ("float32",), ("bfloat16",)),
        (["precision_differs"], ("float32",), ("complex64",)),
    ],
)
def test_only_floats_that_are_known_can_differ(expected, of_cpu, of_gpu):
    assert expected == codes(record(cpu=on_cpu(dtypes=of_cpu), gpu=on_gpu(dtypes=of_gpu)))


@for_each("side", ["cpu", "gpu"])
def test_with_one_side_no_precision_differs(side):
    gpu = on_gpu(device=TF32, dtypes=("float32",))
    assert [] == codes(replace(record(gpu=gpu), **{side: None}))


@for_each(
    ("expected", "calls", "block_time"),
    [(["short_block"], 2, 8.01), ([], 2, 8.0), (["short_block"], 1, 8.0), ([], 1, None)],
)
def test_a_block_of_half_its_time_is_not_short(expected, calls, block_time):
    assert expected == codes(record(gpu=on_gpu(block_calls=calls, block_time=block_time)))


@for_each("offload", [None, earning(transfer=3.0), replace(earning(), break_even_calls=None)])
def test_a_first_call_that_no_calls_are_known_to_earn_back_is_told_alone(offload):
    found = only(record(gpu=on_gpu(first_call=90.0), offload=offload))
    assert found.sentence.endswith("or its compiled kernels")
    assert found.numbers["break_even_calls"] is None


@for_each(
    ("expected", "cpu", "gpu", "first_call"),
    [
        (["first_call"], 8.0, 2.0, 80.1),
        ([], 8.0, 2.0, 80.0),
        ([], 2.0, 8.0, 80.0),
        (["first_call"], 2.0, 8.0, 80.1),
    ],
)
def test_a_first_call_ten_times_as_long_is_not_told(expected, cpu, gpu, first_call):
    assert expected == codes(record(cpu=on_cpu(cpu), gpu=on_gpu(gpu, first_call=first_call)))


def test_without_the_cpu_the_first_call_is_compared_with_nothing():
    assert [] == codes(record(cpu=None, gpu=on_gpu(first_call=90.0)))


@for_each(
    ("expected", "outside_time", "cost"),
    [
        (["side_stream"], 0.21, 0.0),
        ([], 0.2, 0.0),
        ([], 0.3, 0.03),
        (["side_stream"], 0.31, 0.03),
        ([], None, 0.0),
    ],
)
def test_little_work_outside_the_events_is_no_side_stream(expected, outside_time, cost):
    assert expected == codes(inspected(outside_time=outside_time, synchronize_cost=cost))


@for_each(
    ("expected", "samples"),
    [
        (["noisy_samples"], (1.0, 3.5, 4.0, 4.51, 9.0)),
        ([], (1.0, 3.5, 4.0, 4.5, 9.0)),
        ([], (1.0, 2.0, 3.0, 4.0)),
        (["noisy_samples"], (5.0, 1.0, 4.0, 2.0, 3.0)),
    ],
)
def test_a_narrow_middle_half_or_few_samples_are_no_noise(expected, samples):
    assert expected == codes(record(gpu=on_gpu(*samples)))
    assert expected == codes(record(cpu=on_cpu(*samples)))


@for_each("allocations", [0, None])
def test_without_allocations_none_is_told(allocations):
    assert [] == codes(inspected(allocations=allocations))


@for_each(("expected", "waited"), [([], 4.1), (["cpu_threads"], 3.9), (["cpu_threads"], None)])
def test_a_cpu_that_stood_still_for_want_of_a_processor_is_no_cpu_of_one_thread(expected, waited):
    cpu = on_cpu(processors=0.8, waited=waited)
    found = find(record(cpu=cpu, gpu=on_gpu()), usable=4.0, pool_threads=None)
    assert expected == [each.code for each in found]
