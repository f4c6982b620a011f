"""Diagnosis: each rule speaks just beyond its boundary, and is silent at it."""

from array import array

from cases import for_each
from factories import CPU, EMULATED, GPU, measurement, offload, recorded
from msgspec.structs import replace

from pytest_gpuperf.analysis.diagnosis import annotate, find
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import (
    Copies,
    DeviceInfo,
    Estimate,
    Inspection,
    Measurement,
    Transfer,
)
from pytest_gpuperf.model.offload import BreakEven, Offload
from pytest_gpuperf.model.record import Record

EMPTY = recorded(cpu=None, gpu=None, speedup=None)
ORDER = [
    "launch_bound",
    "host_synchronization",
    "transfer_bound",
    "cpu_threads",
    "float64",
    "precision_differs",
    "first_call",
    "side_stream",
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


def sentence(of: Record, usable=None, pool_threads=None) -> str:
    """Return that of the one diagnosis there is."""
    (found,) = find(of, usable=usable, pool_threads=pool_threads)
    return found.sentence


def test_of_a_record_with_nothing_in_it_nothing_is_said():
    assert () == find(EMPTY, usable=None, pool_threads=None)
    assert () == find(EMPTY, usable=8, pool_threads=1)


@for_each("missing", ["cpu", "gpu"])
def test_without_both_devices_nothing_is_said(missing):
    cpu = on_cpu(processors=1.0, dtypes=("float64",))
    gpu = on_gpu(device=TF32, first_call=90.0, dtypes=("float32",), inspection=seen(allocations=1))
    of = replace(record(cpu=cpu, gpu=gpu), **{missing: None})
    assert () == find(of, usable=8, pool_threads=1)


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
    gpu = on_gpu(first_call=99, dtypes=("float64",), inspection=inspection)
    cpu = on_cpu(dtypes=("float32",), processors=1.0)
    worst = copied(3.0, cpu=cpu, gpu=gpu)
    missing = {"launch_bound"} if synchronizes else {"host_synchronization", "side_stream"}
    assert [code for code in ORDER if code not in missing] == codes(worst, usable=8)


TF32 = replace(GPU, reduced_precision="TF32")
NOT_KNOWN = [None, earning(), replace(earning(), break_even_calls=None)]


@for_each(
    ("said", "of"),
    [
        (
            (
                "launch-bound: the device worked 12 % of the time (1.20 us of 10.0 us); fuse operations, or "
                "give it more data per call"
            ),
            inspected(10e-6, device_time=1.2e-6),
        ),
        (
            "waits for its device before it returns, after 500 ms; keep results on the device",
            inspected(device_time=0.3, synchronizes=True),
        ),
        (
            (
                "transfer-bound: the copies are 75 % of a call with them (6.00 s of 8.00 s, 6.00 MB at 1.00 "
                "MB/s); keep the data on the device and reuse it; the copies are amortized after 7 calls"
            ),
            copied(2.0, 4.0, offload=earning(transfer=6.2)),
        ),
        ("; the copies are amortized after 1 call", copied(3.0, offload=earning(transfer=0.7))),
        (
            "the copies are 75 % of a call with them (6.00 s of 8.00 s, 6.00 MB at 250 kB/s)",
            copied(24.0, demand=Demand(transfer="once", calls=4)),
        ),
        (
            "the CPU works in float64, the GPU in float16, float32: the speedup compares",
            record(cpu=on_cpu(dtypes=("float64", "int32")), gpu=on_gpu(dtypes=("float32", "float16"))),
        ),
        (
            "precision differs: the GPU rounds more than its dtypes say (TF32): the speedup compares",
            record(cpu=on_cpu(dtypes=("float32",)), gpu=on_gpu(device=TF32, dtypes=("float32",))),
        ),
        (
            "the CPU works in bfloat16, the GPU in no floats",
            record(cpu=on_cpu(dtypes=("bfloat16",)), gpu=on_gpu(dtypes=("int64",))),
        ),
        (
            (
                "float64: the GPU works in complex128, float64; consumer GPUs compute float64 at 1/32 to "
                "1/64 of the rate of float32: use float32 where its seven digits suffice"
            ),
            record(gpu=on_gpu(dtypes=("float64", "complex128"))),
        ),
        (
            (
                "the GPU took 90.0 s for it, 2.00 s for a later one (the CPU 8.00 s); keep the process, or "
                "its compiled kernels; it is amortized after 15 calls"
            ),
            record(gpu=on_gpu(first_call=90.0), offload=earning(first_call=14.1)),
        ),
        (
            (
                "the device worked on for 400 ms after its own events: work on other streams is not in the "
                "device time; rely on the verdict, which includes it"
            ),
            inspected(device_time=1.5, outside_time=0.4, synchronize_cost=0.01),
        ),
        (
            "allocates memory in the timed block (3 in one call); use a memory pool",
            inspected(allocations=3),
        ),
    ],
)
def test_each_diagnosis_says_its_numbers_and_its_remedy(said, of):
    assert said in sentence(of)


def test_a_wait_needs_no_times_beside_it():
    gpu = measurement(GPU, inspection=seen(synchronizes=True))
    assert ["host_synchronization"] == codes(replace(EMPTY, cpu=measurement(CPU), gpu=gpu))


@for_each("offload", [*NOT_KNOWN, earning(first_call=3.0)])
def test_copies_that_no_calls_are_known_to_earn_back_only_bound_the_call(offload):
    assert sentence(copied(3.0, offload=offload)).endswith("and reuse it")


@for_each("offload", [*NOT_KNOWN, earning(transfer=3.0)])
def test_a_first_call_that_no_calls_are_known_to_earn_back_has_no_number_of_them(offload):
    of = record(gpu=on_gpu(first_call=90.0), offload=offload)
    assert sentence(of).endswith("or its compiled kernels")


UNTIMED = Copies(bytes=8, arrays=1)
NOTHING = Copies(bytes=0, arrays=0)


@for_each(
    ("expected", "of"),
    [
        (["launch_bound"], inspected(device_time=0.99)),
        ([], inspected(device_time=1.0)),
        ([], inspected(device_time=None)),
        # A wait, or work on other streams, explains that the device idles.
        (["host_synchronization"], inspected(device_time=0.1, synchronizes=True)),
        (["side_stream"], inspected(device_time=0.1, outside_time=1.8)),
        ([], inspected(synchronizes=False)),
        ([], inspected(synchronizes=None)),
        (["transfer_bound"], copied(1.01, 1.0)),
        ([], copied(1.0, 1.0)),
        # What is copied once is shared by the calls.
        (["transfer_bound"], copied(10.0, demand=Demand(transfer="once", calls=4))),
        ([], copied(10.0, demand=Demand(transfer="once", calls=5))),
        (["transfer_bound"], copied(10.0, demand=Demand(transfer="always"))),
        # Copies that were not timed
        ([], record(transfer=None)),
        ([], record(transfer=Transfer(h2d=None, d2h=None))),
        ([], record(transfer=Transfer(h2d=UNTIMED, d2h=NOTHING))),
        ([], record(transfer=Transfer(h2d=NOTHING, d2h=NOTHING))),
        (["first_call"], record(cpu=on_cpu(8.0), gpu=on_gpu(2.0, first_call=80.1))),
        ([], record(cpu=on_cpu(8.0), gpu=on_gpu(2.0, first_call=80.0))),
        ([], record(cpu=on_cpu(2.0), gpu=on_gpu(8.0, first_call=80.0))),
        (["first_call"], record(cpu=on_cpu(2.0), gpu=on_gpu(8.0, first_call=80.1))),
        (["side_stream"], inspected(outside_time=0.21)),
        ([], inspected(outside_time=0.2)),
        ([], inspected(outside_time=0.3, synchronize_cost=0.03)),
        (["side_stream"], inspected(outside_time=0.31, synchronize_cost=0.03)),
        ([], inspected(outside_time=None)),
        ([], inspected(allocations=0)),
        ([], inspected(allocations=None)),
    ],
)
def test_each_diagnosis_is_made_beyond_its_boundary(expected, of):
    assert expected == codes(of)


@for_each(
    ("said", "usable", "pool_threads", "processors"),
    [
        (
            (
                "CPU threads: its libraries may use 4 of 8 usable processors, and kept 0.98 busy: the "
                "speedup flatters the GPU; raise the limit (OMP_NUM_THREADS and similar variables)"
            ),
            8,
            4,
            0.98,
        ),
        ("may use 4 of 8 usable processors: the speedup flatters the GPU", 8, 4, None),
        (
            (
                "CPU threads: it kept 1.02 of 7.5 usable processors busy: the speedup flatters the GPU; "
                "NumPy uses several threads in matrix products only, so compare with CPU code that uses "
                "them all"
            ),
            7.5,
            8,
            1.02,
        ),
    ],
)
def test_a_workload_of_few_threads_flatters_the_gpu(said, usable, pool_threads, processors):
    assert said in sentence(record(cpu=on_cpu(processors=processors)), usable, pool_threads)


@for_each(
    ("expected", "usable", "pool_threads", "processors", "waited"),
    [
        (["cpu_threads"], 8, 7, 7.0, None),
        ([], 8, 8, 7.0, None),
        ([], 8.9, 8, 7.0, None),
        (["cpu_threads"], 8, None, 1.24, None),
        ([], 8, None, 1.25, None),
        (["cpu_threads"], 2, 1, 1.0, None),
        ([], 1.99, 1, 1.0, None),
        ([], 8, None, None, None),
        ([], None, 1, 1.0, None),
        # It stood still for want of a processor.
        ([], 4.0, None, 0.8, 4.1),
        (["cpu_threads"], 4.0, None, 0.8, 3.9),
    ],
)
def test_a_cpu_that_uses_what_it_may_does_not_flatter_the_gpu(
    expected, usable, pool_threads, processors, waited
):
    assert expected == codes(record(cpu=on_cpu(processors=processors, waited=waited)), usable, pool_threads)


@for_each(
    ("expected", "of_cpu", "of_gpu"),
    [
        # Double precision is slow on some GPUs; the CPU may use it.
        (["float64"], (), ("float32", "float64")),
        (["float64"], (), ("complex128", "int64")),
        ([], (), ("complex64", "float16", "int64")),
        ([], ("float64",), ()),
        # Only floats that are known can differ.
        ([], ("float32", "int64"), ("int32", "float32")),
        ([], ("complex64", "float32"), ("float32", "complex64")),
        ([], (), ("float32",)),
        ([], ("float32",), ()),
        (["precision_differs"], ("float32",), ("bfloat16",)),
        (["precision_differs"], ("float32",), ("complex64",)),
        *(
            (["precision_differs"], (dtype,), ("int64",))
            for dtype in ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
        ),
    ],
)
def test_dtypes_that_are_slow_or_differ_are_diagnosed(expected, of_cpu, of_gpu):
    assert expected == codes(record(cpu=on_cpu(dtypes=of_cpu), gpu=on_gpu(dtypes=of_gpu)))


@for_each(("expected", "device"), [(["float64"], GPU), ([], EMULATED)])
def test_float64_is_slow_on_a_gpu_and_not_on_a_cpu_that_emulates_one(expected, device):
    found = annotate(record(gpu=on_gpu(device=device, dtypes=("float64",))), lambda: (None, None))
    assert expected == [each.code for each in found.diagnosis]


@for_each(
    ("expected", "dtypes"),
    [
        ([], ("int32",)),
        (["float64"], ("float64", "int64")),
        ([], ("float16",)),
        (["precision_differs"], ("complex64",)),
        (["precision_differs"], ("float32", "int32")),
        (["precision_differs"], ()),
    ],
)
def test_a_mode_that_rounds_float32_leaves_work_in_other_dtypes_as_it_is(expected, dtypes):
    assert expected == codes(record(cpu=on_cpu(dtypes=dtypes), gpu=on_gpu(device=TF32, dtypes=dtypes)))
