"""Fingerprint: what must be the same for two measurements to be comparable, field by field."""

from dataclasses import replace

import factories
from cases import for_each
from factories import measurement, recorded

from pytest_gpuperf.gate.fingerprint import (
    baseline_differences,
    device_conditions,
    differences,
    record_conditions,
    run_conditions,
)
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.record import Environment, Note, Record

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


def here(**changes) -> Environment:
    return replace(HERE, **changes)


def differs(now: Record, surveyed=HERE, *, before=None, kinds=("cpu", "gpu"), was=HERE):
    found = record_conditions(device_conditions(was, kinds), before or record(), kinds)
    return differences(found, record_conditions(device_conditions(surveyed, kinds), now, kinds))


def test_the_same_test_on_the_same_machine_is_comparable():
    assert differs(record()) == ()


@for_each(
    ("expected", "now"),
    [
        ("GPU: H200, A100", on_gpu(name="A100")),
        ("GPU backend: cupy, torch", on_gpu(backend="torch")),
        ("GPU emulated: no, yes", on_gpu(emulated=True)),
        ("GPU library: cupy 13.4, cupy 14.0", on_gpu(library="cupy 14.0.0, CUDA 12.8")),
        ("GPU library: cupy 13.4, cupy 13.5", on_gpu(library="cupy 13.5.0")),
        ("GPU driver: for CUDA 12, for CUDA 13", on_gpu(driver="for CUDA 13.0")),
        ("GPU runtime: CUDA 12, CUDA 13", on_gpu(runtime="CUDA 13.0")),
        ("GPU precision: full, TF32", on_gpu(reduced_precision="TF32")),
        ("CPU backend: numpy, torch", on_cpu(backend="torch")),
        ("CPU emulated: no, yes", on_cpu(emulated=True)),
        ("CPU library: numpy 2.4, numpy 2.5", on_cpu(library="numpy 2.5.0")),
        ("CPU precision: full, bfloat16", on_cpu(reduced_precision="bfloat16")),
        (
            "GPU dtypes: float32, int64, float64, int64",
            record(gpu=measured(GPU, dtypes=("int64", "float64"))),
        ),
        ("GPU shapes: 512x512, 512, 1024x1024", record(gpu=measured(GPU, shapes=("1024x1024",)))),
        ("CPU dtypes: float32, int64, float64", record(cpu=measured(CPU, dtypes=("float64",)))),
        ("CPU shapes: 512x512, 512, 512, 512x512", record(cpu=measured(CPU, shapes=("512", "512x512")))),
        ("scope: call, body", record(scope="body")),
        ("transfer: never, always", record(demand=Demand(transfer="always"))),
        ("transfer: never, once for 9 calls", record(demand=Demand(transfer="once", calls=9))),
        ("latency: no, yes", record(demand=Demand(latency=True))),
    ],
)
def test_each_part_of_a_test_that_differs_is_named_by_itself(expected, now):
    assert differs(now) == (expected,)


@for_each(
    ("expected", "surveyed"),
    [
        ("CPU: EPYC, Intel Xeon", here(cpu={**HERE.cpu, "name": "Intel Xeon"})),
        ("processors: 8, 4", here(cpu={**HERE.cpu, "usable": 4})),
        ("processors: 8, 2.5", here(cpu={**HERE.cpu, "quota": 2.5})),
        ("processors: 8, 16", here(cpu={**HERE.cpu, "usable": None})),
        ("python: 3.11, 3.12", here(python="3.12.1")),
        ("OMP_NUM_THREADS: 4, 8", here(variables={"OMP_NUM_THREADS": "8"})),
        ("OMP_NUM_THREADS: 4, not set", here(variables={})),
        *(
            (f"{name}: not set, 1", here(variables={**HERE.variables, name: "1"}))
            for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
        ),
        *(
            (f"{name}: not set, 1", here(variables={**HERE.variables, name: "1"}))
            for name in (
                "CUPY_TF32",
                "NVIDIA_TF32_OVERRIDE",
                "JAX_ENABLE_X64",
                "JAX_DEFAULT_MATMUL_PRECISION",
                "MLX_ENABLE_TF32",
            )
        ),
    ],
)
def test_each_part_of_the_surroundings_that_differs_is_named_by_itself(expected, surveyed):
    assert differs(record(), surveyed) == (expected,)
    assert differences(run_conditions(HERE), run_conditions(surveyed)) == (expected,)


@for_each(
    "now",
    [
        on_gpu(library="cupy 13.4.9, CUDA 12.9"),
        on_gpu(library="cupy 13.4.1rc1"),
        on_gpu(driver="for CUDA 12.4"),
        on_gpu(runtime="CUDA 12.2"),
        on_gpu(memory=80 * 10**9),
        on_cpu(library="numpy 2.4.0"),
        on_cpu(name="the CPU"),  # the processor is the environment's
        record(gpu=measured(GPU, dtypes=("int64", "float32"))),
        record(
            status="failed",
            reason="too slow",
            notes=(Note(code="traced", text="a note"),),
            demand=Demand(min=3, alpha=0.01),
        ),
        record(demand=Demand(min=3, max_time=1.0)),
    ],
)
def test_what_changes_no_time_is_no_difference(now):
    assert differs(now) == ()


@for_each(
    "surveyed",
    [
        here(host={"name": "there", "memory": 1}),
        here(packages={"numpy": "1.26"}),  # the devices' libraries are what counts
        here(python="3.11.9"),
        here(cpu={**HERE.cpu, "logical": 32}),
        here(cpu={**HERE.cpu, "quota": 8.0}),
        here(variables={**HERE.variables, "CUDA_VISIBLE_DEVICES": "1"}),
    ],
)
def test_another_runner_of_the_same_kind_is_no_difference(surveyed):
    assert differs(record(), surveyed) == ()


@for_each(
    "known_less",
    [
        on_gpu(driver=None),
        on_gpu(runtime=None),
        on_gpu(library=""),
        record(gpu=measured(GPU, dtypes=(), shapes=())),
        record(cpu=measured(CPU, dtypes=(), shapes=())),
        record(gpu=None),
        record(cpu=None),
        record(scope=None),
    ],
)
def test_what_either_run_does_not_tell_differs_from_nothing(known_less):
    assert differs(known_less) == ()
    assert differs(record(), before=known_less) == ()


@for_each(
    "surveyed",
    [here(variables=None), here(python=""), here(cpu={}), here(cpu={"name": None, "usable": None})],
)
def test_what_either_environment_does_not_tell_differs_from_nothing(surveyed):
    assert differs(record(), surveyed) == ()
    assert differs(record(), was=surveyed) == ()


def test_a_driver_that_only_the_library_names_is_not_told():
    older = on_gpu(library="cupy 13.4.1, CUDA 12.8, driver for 12.9", driver=None)
    assert differs(on_gpu(driver="for CUDA 13.0"), before=older) == ()


@for_each(
    ("expected", "before", "now"),
    [
        ((), "cuda 12080", "cuda 12090"),
        (("GPU runtime: cuda 12, cuda 13",), "cuda 12090", "cuda 13000"),
        ((), "rocm 60300", "rocm 60300"),
        ((), "CUDA 12.8", "CUDA 12.9"),
        ((), "550.54.15", "550.90"),
        (("GPU runtime: 550, 560",), "550.54.15", "560.28.03"),
        ((), "2025.20.10.0.23", "2025.20.11"),
    ],
)
def test_of_a_driver_and_a_runtime_the_major_version_counts(expected, before, now):
    assert expected == differs(on_gpu(runtime=now), before=on_gpu(runtime=before))
    renamed = tuple(each.replace("runtime", "driver") for each in expected)
    assert renamed == differs(on_gpu(driver=now), before=on_gpu(driver=before))


@for_each(
    ("expected", "kinds", "now", "surveyed"),
    [
        ((), ("cpu",), on_gpu(name="another"), HERE),
        ((), ("gpu",), on_cpu(library="numpy 1.26"), HERE),
        ((), ("gpu",), record(), here(cpu={"name": "another"}, python="3.13.0")),
        ((), ("cpu",), record(), here(variables={**HERE.variables, "CUPY_TF32": "1"})),
        (("CPU: EPYC, another",), ("cpu",), record(), here(cpu={**HERE.cpu, "name": "another"})),
        (("CUPY_TF32: not set, 1",), ("gpu",), record(), here(variables={"CUPY_TF32": "1"})),
        (
            ("blocking launches: not set, HIP_LAUNCH_BLOCKING=1",),
            ("gpu",),
            record(),
            here(variables={"HIP_LAUNCH_BLOCKING": "1"}),
        ),
        ((), ("gpu",), record(), here(variables={"CUDA_LAUNCH_BLOCKING": "0"})),
    ],
)
def test_one_sides_times_depend_on_that_side(expected, kinds, now, surveyed):
    assert expected == differs(now, surveyed, kinds=kinds)


@for_each("demand", [Demand(transfer="always"), Demand(latency=True)])
def test_a_time_does_not_depend_on_what_a_speedup_includes(demand):
    assert differs(record(demand=demand), kinds=("gpu",)) == ()


def test_several_differences_are_told_together():
    now, surveyed = on_gpu(name="A100", emulated=True), here(python="3.12.0")
    assert differs(now, surveyed) == (
        "python: 3.11, 3.12",
        "GPU: H200, A100",
        "GPU emulated: no, yes",
    )


def test_a_difference_from_a_baseline_says_which_value_is_whose():
    now = here(variables={**HERE.variables, "OPENBLAS_NUM_THREADS": "2"})
    told = "OPENBLAS_NUM_THREADS: not set in the baseline, 2 now"
    assert baseline_differences(run_conditions(HERE), run_conditions(now)) == (told,)


def test_a_run_without_a_gpu_has_the_surroundings_of_its_processor():
    assert differences(run_conditions(replace(HERE, gpu=None)), run_conditions(HERE)) == ()
    assert not any(name.startswith("GPU") for name in run_conditions(replace(HERE, gpu=None)))
