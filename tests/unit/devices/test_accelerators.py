"""Accelerators: which names there are, what is missing, and what is made of what an accelerator tells.

The libraries themselves are in tests/backends/test_accelerators.py; cuDF and the GPUs' are fakes here.
"""

import logging
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from cases import for_each

from pytest_gpuperf.devices.accelerators import CHOICES, chosen_accelerator
from pytest_gpuperf.devices.choice import Choice
from pytest_gpuperf.model.errors import GpuPerfError, Unavailable


@for_each(
    ("choice", "reason"),
    [
        ("accelerator:", "there is no accelerator ''; the accelerators are accelerator:cudf.pandas, "),
        ("accelerator:foo", "there is no accelerator 'foo'; the accelerators are accelerator:cudf.pandas, "),
        ("accelerator:networkx", "networkx needs a backend; pass one of accelerator:networkx:cugraph, "),
        ("accelerator:networkx:parallel:1", "networkx has no backend 'parallel:1'; pass one of "),
        (
            "accelerator:polars:warp",
            "polars has no engine 'warp' to compare; pass accelerator:polars:gpu or ",
        ),
        (
            "accelerator:sklearnex:cuda",
            "accelerator:sklearnex takes no device, for the CPU, or one of Intel's",
        ),
        ("accelerator:cudf.pandas:1", "accelerator:cudf.pandas has one GPU and takes no device, not '1'"),
    ],
)
def test_a_name_that_no_machine_has_is_refused_with_the_valid_ones(choice, reason):
    with pytest.raises(GpuPerfError) as refusal:
        Choice(choice).missing()
    assert str(refusal.value).startswith(reason)
    assert "\n" not in str(refusal.value)


@for_each("choice", [*CHOICES, "accelerator:sklearnex:gpu:1"])
def test_a_valid_name_is_that_of_a_backend_and_imports_no_library(choice):
    before = {*sys.modules}
    assert choice == chosen_accelerator(choice).name
    new = {name.partition(".")[0] for name in {*sys.modules} - before}
    assert not new & {"networkx", "polars", "sklearn", "sklearnex", "pandas", "cudf"}
    for other in ("auto", "none", "cupy:1", "standin:accelerator", "accelerators:polars"):
        assert chosen_accelerator(other) is None


@for_each(
    ("choice", "missing", "reason"),
    [
        ("polars", "polars", "polars is not installed; install polars"),
        ("polars", "cudf_polars", "cudf_polars is not installed; install cudf-polars-cu12 or cudf-"),
        ("networkx:parallel", "networkx", "networkx is not installed; install networkx"),
        ("networkx:cugraph", "cudf", "networkx has no backend cugraph here; install nx-cugraph-cu12 or "),
        ("sklearnex", "sklearnex", "scikit-learn-intelex is not installed; install scikit-learn-intelex"),
        ("cudf.pandas", "cudf", "cuDF is not installed; install cudf-cu12 or cudf-cu13"),
    ],
)
def test_a_missing_package_is_named_with_the_one_to_install(installed, choice, missing, reason):
    installed(
        **{"polars": {"__version__": "2.1.0"}, "networkx": {}, "sklearn": {}, "pandas": {}, missing: None}
    )
    with pytest.raises(Unavailable) as cause:
        chosen_accelerator(f"accelerator:{choice}").gpu("")
    assert str(cause.value).startswith(reason)
    assert cause.value.missing


@for_each("choice", ["polars", "polars:streaming"])
def test_a_polars_that_is_too_old_is_refused_with_the_version_to_install(installed, choice):
    installed(polars={"__version__": "1.43.0"}, cudf_polars={})
    backend = chosen_accelerator(f"accelerator:{choice}")
    for open_device in (backend.cpu, lambda: backend.gpu("")):
        with pytest.raises(Unavailable, match=r"polars 1.43.0 is too old .*; install polars>=1.44$") as cause:
            open_device()
        assert cause.value.broken


class NAType:
    """As the type of pandas.NA: what compares with it is neither true nor false."""

    def __ne__(self, other):
        return self

    def __eq__(self, other):
        return self

    __hash__ = object.__hash__

    def __bool__(self):
        raise TypeError("boolean value of NA is ambiguous")


class Series:
    """As a series of pandas."""

    def __init__(self, *values):
        array = np.empty(len(values), dtype=object)
        array[:] = values
        self.index, self.to_numpy, self.to_list = SimpleNamespace(to_numpy=list), lambda: array, array.tolist


def column(*values):
    """Return what is compared of a series of pandas."""
    return chosen_accelerator("accelerator:cudf.pandas").unpack(Series(*values))["values"]


def test_a_column_of_text_is_two_arrays_whatever_stands_for_what_is_missing_and_any_other_a_list():
    for missing in (float("nan"), np.float64("nan"), NAType(), None):
        found = {name: array.tolist() for name, array in column("a", missing, "nan").items()}
        assert {"missing": [False, True, False], "text": ["a", "", "nan"]} == found
    for other in (2.5, [float("nan")], np.array([np.nan])):
        assert ["a", other] == column("a", other)


def test_a_log_that_is_read_goes_nowhere_else_and_is_left_as_it_was(installed):
    installed(sklearn={}, sklearnex=None)
    elsewhere = []
    catcher = logging.Handler()
    catcher.emit = elsewhere.append
    logger, root = logging.getLogger("sklearnex"), logging.getLogger()
    before = vars(logger).copy()
    logger.level, logger.handlers, logger.disabled = logging.ERROR, [catcher], True
    root.addHandler(catcher)
    try:
        cpu = chosen_accelerator("accelerator:sklearnex").cpu()
        with pytest.raises(GpuPerfError, match=r"yet ran svm\.SVC\.fit"), cpu.observe():
            logger.info("sklearn.svm.SVC.fit: running accelerated version on CPU")
        left = logger.level, logger.handlers, logger.propagate, logger.disabled
    finally:
        root.removeHandler(catcher)
        vars(logger).update(before)
    assert [] == elsewhere
    assert (logging.ERROR, [catcher], True, True) == left


class Profiler:
    """As that of cudf.pandas: what ran where, once it has ended."""

    per_function_stats = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        functions = {"sum": {"gpu": [0.1, 0.1]}, "apply": {"cpu": [0.5, 0.5]}}
        self.per_function_stats = {f"DataFrame.{name}": times for name, times in functions.items()}


@pytest.fixture
def cudf(installed):
    """Install a cuDF whose pandas is its own, and a CuPy with one GPU; return what the GPU was asked for."""
    asked = []
    runtime = SimpleNamespace(
        getDevice=lambda: 0,
        getDeviceProperties=lambda _: {"name": b"NVIDIA H200"},
        deviceSynchronize=lambda: asked.append("synchronize"),
    )
    installed(
        pandas={"Series": Series},
        cudf={"__version__": "26.10"},
        cudf__pandas={"is_proxy_object": lambda value: isinstance(value, Series), "Profiler": Profiler},
        cudf__pandas__module_accelerator={"disable_module_accelerator": lambda: nullcontext("disabled")},
        cupy={"cuda": SimpleNamespace(runtime=runtime)},
    )
    return asked


def test_cudf_pandas_is_switched_off_for_the_cpu_and_tells_which_functions_ran_where(cudf):
    backend = chosen_accelerator("accelerator:cudf.pandas")
    gpu, cpu = backend.gpu(""), backend.cpu()
    assert "pandas with cudf.pandas 26.10 on NVIDIA H200" == gpu.name
    assert not gpu.info.emulated
    with cpu.context() as entered:
        assert "disabled" == entered
    with gpu.observe() as observation:
        pass
    assert (True, ("DataFrame.apply",)) == (observation.worked, observation.fallbacks)
    gpu.synchronize()
    assert ["synchronize"] == cudf


@pytest.mark.usefixtures("cudf")
def test_cudf_pandas_that_was_not_loaded_before_pandas_says_how_to_load_it(installed, monkeypatch):
    late = "cudf.pandas was not loaded before pandas: run pytest -p cudf.pandas"
    installed(cudf__pandas={"is_proxy_object": lambda _: False})
    with pytest.raises(Unavailable, match=late):
        chosen_accelerator("accelerator:cudf.pandas").gpu("")
    monkeypatch.delitem(sys.modules, "cudf.pandas")
    with pytest.raises(Unavailable, match=late):
        chosen_accelerator("accelerator:cudf.pandas").gpu("")


def test_the_cpu_of_cudf_pandas_is_pandas_where_there_is_no_cudf(installed):
    installed(cudf=None, pandas={})
    cpu = chosen_accelerator("accelerator:cudf.pandas").cpu()
    with cpu.context(), cpu.observe() as observation:
        cpu.synchronize()
    assert observation.worked
    assert (True, False) == (cpu.holds(np.ones(1)), cpu.sees_all_work)
