"""Fingerprint: what must be the same for two measurements to be comparable, field by field."""

import factories
from cases import for_each
from factories import measurement, recorded
from msgspec.structs import replace

from pytest_gpuperf.gate.fingerprint import (
    OF_BASELINE,
    device_conditions,
    differences,
    record_conditions,
    run_conditions,
)
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.record import Record

CPU = replace(factories.CPU, library="numpy 2.4.6")
GPU = replace(factories.GPU, library="cupy 13.4.1, CUDA 12.8", driver="for CUDA 12.9", runtime="CUDA 12.8")
HERE = replace(
    factories.HERE,
    cpu={"name": "EPYC", "logical": 16, "usable": 8, "quota": None},
    variables={"OMP_NUM_THREADS": "4"},
)


def measured(on, **changes):
    return measurement(on, 1.0, **{"dtypes": ("float32", "int64"), "shapes": ("512x512", "512"), **changes})


def record(**changes) -> Record:
    return recorded(**{"cpu": measured(CPU), "gpu": measured(GPU), **changes})


def on_gpu(**changes) -> Record:
    return record(gpu=measured(replace(GPU, **changes)))


def on_cpu(**changes) -> Record:
    return record(cpu=measured(replace(CPU, **changes)))


def differs(now: Record, surveyed=HERE, *, before=None, kinds=("cpu", "gpu"), was=HERE):
    then, later = (device_conditions(each, kinds) for each in (was, surveyed))
    return differences(
        record_conditions(then, before or record(), kinds), record_conditions(later, now, kinds)
    )


@for_each(
    ("expected", "now"),
    [
        ("GPU: H200, A100", on_gpu(name="A100")),
        ("GPU backend: cupy, torch", on_gpu(backend="torch")),
        ("GPU emulated: no, yes", on_gpu(emulated=True)),
        ("GPU library: cupy 13.4, cupy 13.5", on_gpu(library="cupy 13.5.0, CUDA 12.8")),
        ("GPU driver: for CUDA 12, for CUDA 13", on_gpu(driver="for CUDA 13.0")),
        ("GPU runtime: CUDA 12, CUDA 13", on_gpu(runtime="CUDA 13.0")),
        ("GPU precision: full, TF32", on_gpu(reduced_precision="TF32")),
        ("CPU backend: numpy, torch", on_cpu(backend="torch")),
        ("CPU emulated: no, yes", on_cpu(emulated=True)),
        ("CPU library: numpy 2.4, numpy 2.5", on_cpu(library="numpy 2.5.0")),
        ("CPU precision: full, bfloat16", on_cpu(reduced_precision="bfloat16")),
        ("GPU dtypes: float32, int64, int64", record(gpu=measured(GPU, dtypes=("int64",)))),
        ("GPU shapes: 512x512, 512, 1024x1024", record(gpu=measured(GPU, shapes=("1024x1024",)))),
        ("CPU dtypes: float32, int64, float64", record(cpu=measured(CPU, dtypes=("float64",)))),
        ("CPU shapes: 512x512, 512, 512, 512x512", record(cpu=measured(CPU, shapes=("512", "512x512")))),
        ("scope: call, body", record(scope="body")),
        ("transfer: never, always", record(demand=Demand(transfer="always"))),
        ("transfer: never, once for 9 calls", record(demand=Demand(transfer="once", calls=9))),
        ("latency: no, yes", record(demand=Demand(latency=True))),
        (None, record()),
        (None, on_gpu(library="cupy 13.4.9rc1, CUDA 12.9", driver="for CUDA 12.4", runtime="CUDA 12.2")),
        (None, on_gpu(memory=80 * 10**9)),
        (None, on_cpu(name="the CPU", library="numpy 2.4.0")),  # the processor is the environment's
        (None, record(gpu=measured(GPU, dtypes=("int64", "float32")))),
        (None, record(status="failed", reason="too slow", demand=Demand(min=3, max_time=1.0))),
    ],
)
def test_what_a_time_depends_on_is_named_by_itself_and_nothing_else_is(expected, now):
    assert differs(now) == (() if expected is None else (expected,))


SETTINGS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "CUPY_TF32")
SETTINGS += ("NVIDIA_TF32_OVERRIDE", "JAX_ENABLE_X64", "JAX_DEFAULT_MATMUL_PRECISION", "MLX_ENABLE_TF32")


@for_each(
    ("expected", "changes"),
    [
        ("CPU: EPYC, Intel Xeon", {"cpu": {**HERE.cpu, "name": "Intel Xeon"}}),
        ("processors: 8, 4", {"cpu": {**HERE.cpu, "usable": 4}}),
        ("processors: 8, 2.5", {"cpu": {**HERE.cpu, "quota": 2.5}}),
        ("processors: 8, 16", {"cpu": {**HERE.cpu, "usable": None}}),
        ("python: 3.11, 3.12", {"python": "3.12.1"}),
        ("OMP_NUM_THREADS: 4, 8", {"variables": {"OMP_NUM_THREADS": "8"}}),
        ("OMP_NUM_THREADS: 4, not set", {"variables": {}}),
        *((f"{name}: not set, 1", {"variables": {**HERE.variables, name: "1"}}) for name in SETTINGS),
        (None, {"host": {"name": "there", "memory": 1}}),
        (None, {"packages": {"numpy": "1.26"}}),  # the devices' libraries are what counts
        (None, {"python": "3.11.9"}),
        (None, {"cpu": {**HERE.cpu, "logical": 32, "quota": 8.0}}),
        (None, {"variables": {**HERE.variables, "CUDA_VISIBLE_DEVICES": "1"}}),
    ],
)
def test_so_is_what_a_whole_run_depends_on(expected, changes):
    now = replace(HERE, **changes)
    named = () if expected is None else (expected,)
    assert named == differs(record(), now) == differences(run_conditions(HERE), run_conditions(now))


@for_each(
    ("known_less", "surveyed"),
    [
        (on_gpu(driver=None, runtime=None, library=""), HERE),
        (record(gpu=measured(GPU, dtypes=(), shapes=()), cpu=measured(CPU, dtypes=(), shapes=())), HERE),
        (record(gpu=None), HERE),
        (record(cpu=None, scope=None), HERE),
        (record(), replace(HERE, variables=None, python="", cpu={})),
        (record(), replace(HERE, cpu={"name": None, "usable": None})),
    ],
)
def test_what_either_run_does_not_report_differs_from_nothing(known_less, surveyed):
    assert () == differs(known_less, surveyed) == differs(record(), before=known_less, was=surveyed)


@for_each(
    ("expected", "before", "now"),
    [
        ((), "cuda 12080", "cuda 12090"),
        (("GPU runtime: cuda 12, cuda 13",), "cuda 12090", "cuda 13000"),
        (("GPU runtime: 550, 560",), "550.54.15", "560.28.03"),
        ((), "2025.20.10.0.23", "2025.20.11"),
    ],
)
def test_of_a_driver_and_a_runtime_the_major_version_counts(expected, before, now):
    assert expected == differs(on_gpu(runtime=now), before=on_gpu(runtime=before))
    renamed = tuple(each.replace("runtime", "driver") for each in expected)
    assert renamed == differs(on_gpu(driver=now), before=on_gpu(driver=before))


ON_TF32 = replace(HERE, variables={**HERE.variables, "CUPY_TF32": "1"})
OF_BOTH = record(demand=Demand(transfer="always", latency=True))


@for_each(
    ("expected", "kind", "now", "surveyed"),
    [
        ((), "cpu", on_gpu(name="another"), ON_TF32),
        ((), "gpu", on_cpu(library="numpy 1.26"), replace(HERE, cpu={"name": "another"}, python="3.13.0")),
        ((), "gpu", OF_BOTH, HERE),
        (("CPU: EPYC, another",), "cpu", record(), replace(HERE, cpu={**HERE.cpu, "name": "another"})),
        (("CUPY_TF32: not set, 1",), "gpu", record(), ON_TF32),
        (
            ("blocking launches: not set, HIP_LAUNCH_BLOCKING=1",),
            *("gpu", record(), replace(HERE, variables={**HERE.variables, "HIP_LAUNCH_BLOCKING": "1"})),
        ),
    ],
)
def test_the_times_of_one_device_depend_on_it_alone(expected, kind, now, surveyed):
    assert expected == differs(now, surveyed, kinds=(kind,))


def test_several_differences_are_named_together_and_of_a_baseline_each_value_is_said_to_be_whose():
    now, surveyed = on_gpu(name="A100", emulated=True), replace(HERE, python="3.12.0")
    assert differs(now, surveyed) == ("python: 3.11, 3.12", "GPU: H200, A100", "GPU emulated: no, yes")
    named = differences(run_conditions(HERE), run_conditions(ON_TF32), OF_BASELINE)
    assert named == ("CUPY_TF32: not set in the baseline, 1 now",)


def test_a_run_without_a_gpu_has_the_conditions_of_its_processor():
    without = run_conditions(replace(HERE, gpu=None))
    assert differences(without, run_conditions(HERE)) == ()
    assert not any(name.startswith("GPU") for name in without)
