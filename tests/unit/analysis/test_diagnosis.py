"""Diagnosis: each rule speaks just beyond its boundary, and is silent at it."""

from array import array

from cases import for_each
from factories import CPU, EMULATED, GPU, measurement, offload, recorded
from golden import assert_golden
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


def on_cpu(*samples: float, device: DeviceInfo = CPU, **changes) -> Measurement:
    samples = samples or (8.0,) * 5
    return measurement(device, *samples, **{"block_calls": 1, "first_call": samples[0], **changes})


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


def looped(seconds: float, up: float = 0.0, **changes) -> Record:
    """A record whose calls take so many seconds in a loop with their copies."""
    found = copied(up, **changes)
    return replace(found, transfer=replace(found.transfer, loop=array("d", [seconds])))


def awaited(seconds: float) -> Measurement:
    """Calls of 2 s on the GPU, or of so many if each is waited for."""
    return on_gpu(block_calls=4, latencies=array("d", [seconds]))


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


def test_of_what_was_not_measured_or_has_nothing_wrong_in_it_nothing_is_said():
    cpu = on_cpu(processors=1.0, dtypes=("float64",))
    gpu = on_gpu(device=TF32, first_call=90.0, dtypes=("float32",), inspection=seen(allocations=1))
    for missing in ("cpu", "gpu"):
        assert () == find(replace(record(cpu=cpu, gpu=gpu), **{missing: None}), usable=8, pool_threads=1)
    # Measurements without samples, and times of zero
    inspection = seen(device_time=0.0, outside_time=1.0)
    cpu = measurement(CPU, processors=1.0, block_time=1e-3)
    gpu = measurement(GPU, inspection=inspection, first_call=9.0, block_time=1e-3)
    assert () == find(copied(3.0, cpu=cpu, gpu=gpu), usable=8, pool_threads=1)
    nothing, inspection = [0.0] * 5, seen(device_time=0.0, outside_time=0.0)
    assert [] == codes(copied(0.0, cpu=on_cpu(*nothing), gpu=on_gpu(*nothing, inspection=inspection)))
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


def on_threads(usable, pool_threads, processors):
    return record(cpu=on_cpu(processors=processors)), usable, pool_threads


def test_each_diagnosis_says_its_numbers_and_its_remedy():
    floats = {"cpu": on_cpu(dtypes=("float64", "int32")), "gpu": on_gpu(dtypes=("float32", "float16"))}
    rounded = {"cpu": on_cpu(dtypes=("float32",)), "gpu": on_gpu(device=TF32, dtypes=("float32",))}
    cases = [
        (inspected(10e-6, device_time=1.2e-6),),
        (inspected(device_time=0.3, synchronizes=True),),
        (copied(2.0, 4.0, offload=earning(transfer=6.2)),),
        (copied(3.0, offload=earning(transfer=0.7)),),
        (copied(24.0, demand=Demand(transfer="once", calls=4)),),
        (looped(9.0, gpu=awaited(3.0)),),
        (record(**floats),),
        (record(**rounded),),
        (record(cpu=on_cpu(dtypes=("bfloat16",)), gpu=on_gpu(dtypes=("int64",))),),
        (record(gpu=on_gpu(dtypes=("float64", "complex128"))),),
        (record(gpu=on_gpu(first_call=90.0), offload=earning(first_call=14.1)),),
        (inspected(device_time=1.5, outside_time=0.4, synchronize_cost=0.01),),
        (inspected(allocations=3),),
        on_threads(8, 4, 0.98),
        on_threads(8, 4, None),
        on_threads(7.5, 8, 1.02),
    ]
    assert_golden("words/diagnoses.txt", "".join(f"{sentence(*case)}\n" for case in cases))


UNTIMED = Copies(bytes=8, arrays=1)
NOTHING = Copies(bytes=0, arrays=0)


@for_each(
    ("expected", "of"),
    [
        (["launch_bound"], inspected(device_time=0.99)),
        ([], inspected(device_time=0.0)),  # the body prepared something, and worked on nothing
        ([], inspected(device_time=1.0)),
        # A wait, or work on other streams, explains that the device idles.
        (["host_synchronization"], inspected(device_time=0.1, synchronizes=True)),
        (["side_stream"], inspected(device_time=0.1, outside_time=1.8)),
        ([], inspected(synchronizes=False)),
        (["transfer_bound"], copied(1.01, 1.0)),
        ([], copied(1.0, 1.0)),
        # What is copied once is shared by the calls.
        (["transfer_bound"], copied(10.0, demand=Demand(transfer="once", calls=4))),
        ([], copied(10.0, demand=Demand(transfer="once", calls=5))),
        # A loop with them shows what they add to an awaited call, whatever each takes alone.
        (["transfer_bound"], looped(4.01)),
        ([], looped(4.0, up=9.0)),
        (["transfer_bound"], looped(6.01, gpu=awaited(3.0))),
        ([], looped(6.0, gpu=awaited(3.0))),
        ([], looped(2.5, gpu=awaited(3.0))),
        # Of calls on the same copies only the last is waited for, unless each is.
        (["transfer_bound"], looped(11.01, gpu=awaited(3.0), demand=Demand(transfer="once", calls=4))),
        ([], looped(11.0, gpu=awaited(3.0), demand=Demand(transfer="once", calls=4))),
        ([], looped(15.0, gpu=awaited(3.0), demand=Demand(transfer="once", calls=4, latency=True))),
        # Copies that were not timed
        ([], record(transfer=None)),
        ([], record(transfer=Transfer(h2d=UNTIMED, d2h=NOTHING))),
        (["first_call"], record(cpu=on_cpu(8.0), gpu=on_gpu(2.0, first_call=80.1))),
        ([], record(cpu=on_cpu(8.0), gpu=on_gpu(2.0, first_call=80.0))),
        (["first_call"], record(cpu=on_cpu(2.0), gpu=on_gpu(8.0, first_call=80.1))),
        (["side_stream"], inspected(outside_time=0.21)),
        ([], inspected(outside_time=0.2)),
        ([], inspected(outside_time=0.3, synchronize_cost=0.03)),
        (["side_stream"], inspected(outside_time=0.31, synchronize_cost=0.03)),
        ([], inspected(allocations=0)),
    ],
)
def test_each_diagnosis_is_made_beyond_its_boundary(expected, of):
    assert expected == codes(of)


@for_each(
    ("expected", "usable", "pool_threads", "processors", "waited"),
    [
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
    ("remedy", "library", "pool_threads"),
    [
        ("unless other work needs the others, raise the limit (OMP_NUM_THREADS)", "torch 2.14", 1),
        ("unless other work needs the others, raise the limit (OMP_NUM_THREADS)", "keras 3 on torch 2.14", 1),
        ("unless other work needs the others, raise the limit (OMP_NUM_THREADS and similar", "own 1.0", 1),
        # What limits NumPy does not limit XLA, and what its products use is no matter of other libraries.
        ("compare with CPU code that uses them all", "jax 0.10", 1),
        ("compare with CPU code that uses them all", "torch 2.14", 8),
        ("NumPy uses several threads in matrix products only, so compare with CPU code", "numpy 2.4", 8),
    ],
)
def test_the_remedy_for_few_threads_is_that_of_the_library_that_computes(remedy, library, pool_threads):
    device = replace(CPU, backend=library.split()[0], library=library)
    of = record(cpu=on_cpu(device=device, processors=1.0))
    assert sentence(of, 8, pool_threads).partition("the speedup flatters the GPU; ")[2].startswith(remedy)


@for_each(
    ("expected", "of_cpu", "of_gpu", "device"),
    [
        # Double precision is slow on some GPUs; the CPU may use it.
        (["float64"], (), ("complex128", "int64"), GPU),
        ([], ("float64",), (), GPU),
        # Only floats that are known can differ.
        ([], ("float32", "int64"), ("int32", "float32"), GPU),
        ([], (), ("float32",), GPU),
        (["precision_differs"], ("float32",), ("complex64",), GPU),
        *(
            (["precision_differs"], (dtype,), ("int64",), GPU)
            for dtype in ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
        ),
        # A mode that rounds float32 leaves work in other dtypes as it is.
        *(([], (dtype,), (dtype,), TF32) for dtype in ("int32", "float16")),
        (["float64"], ("float64", "int64"), ("float64", "int64"), TF32),
        (["precision_differs"], ("complex64",), ("complex64",), TF32),
        (["precision_differs"], (), (), TF32),
    ],
)
def test_dtypes_that_are_slow_or_differ_are_diagnosed(expected, of_cpu, of_gpu, device):
    of = record(cpu=on_cpu(dtypes=of_cpu), gpu=on_gpu(device=device, dtypes=of_gpu))
    assert expected == codes(of)


@for_each(("expected", "device"), [(["float64"], GPU), ([], EMULATED)])
def test_float64_is_slow_on_a_gpu_and_not_on_a_cpu_that_emulates_one(expected, device):
    found = annotate(record(gpu=on_gpu(device=device, dtypes=("float64",))), lambda: (None, None))
    assert expected == [each.code for each in found.diagnosis]
