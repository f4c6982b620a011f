"""Environment: what is known of the machine, and what is said where it does not tell."""

import os
import platform
import sys
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from cases import for_each
from factories import GPU, HERE
from msgspec.structs import replace

from pytest_gpuperf.devices import environment
from pytest_gpuperf.model.record import ThreadPool

CGROUP = "sys/fs/cgroup/"
VERSION_1 = {"quota": "50000", "period": "100000"}


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Let the system tell what these files say and no more; return the survey."""
    monkeypatch.setattr(environment, "_ROOT", tmp_path)

    def survey(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else f"{text}\n".encode())
        return environment.survey(None, None)

    return survey


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (
            "processor\t: 0\nmodel name\t: Some CPU @ 3 GHz: fast\n\nmodel name\t: Other",
            "Some CPU @ 3 GHz: fast",
        ),
        ("", None),
        ("model name\t:", None),
    ],
)
def test_the_processor_is_called_by_its_model_or_else_by_its_architecture(monkeypatch, machine, text, name):
    monkeypatch.setattr(platform, "processor", lambda: "")
    assert machine({}).cpu["name"] == platform.machine()
    assert machine({"proc/cpuinfo": text}).cpu["name"] == (name or platform.machine())


def test_the_survey_names_what_the_numbers_depend_on():
    found = environment.survey(GPU, None)
    assert (GPU, None, platform.python_version()) == (found.gpu, found.gpu_reason, found.python)
    assert (platform.system(), environment.cpu_name()) == (found.host["system"], found.cpu["name"])
    assert 1 <= found.cpu["usable"] <= found.cpu["logical"]
    for name in ("pytest-gpuperf", "pytest", "numpy"):
        assert found.packages[name] == version(name)
    without = environment.survey(None, "no driver")
    assert (None, "no driver") == (without.gpu, without.gpu_reason)


def test_a_report_s_limit_that_is_no_number_limits_nothing():
    found = replace(HERE, cpu={"usable": 4, "quota": "passed"})
    assert found.usable_processors == 4


@pytest.mark.parametrize(
    ("own", "files", "limit"),
    [
        ("0::/", {"cpu.max": "150000 100000"}, 1.5),
        ("0::/", {"cpu.max": "max 100000"}, None),
        ("0::/", {}, None),
        ("0::/a/b", {"a/b/cpu.max": "max 100000", "a/cpu.max": "200000 100000"}, 2),
        ("0::/a/b", {"a/b/cpu.max": "100000 100000", "a/cpu.max": "200000 100000"}, 1),
        ("0::/a", {"a/cpu.max": "400000 100000", "cpu.max": "50000 100000"}, 0.5),
        ("0::/a", {"b/cpu.max": "100000 100000"}, None),
        ("0::/../../a", {"cpu.max": "300000 100000"}, 3),
        ("0::/with:colon", {"with:colon/cpu.max": "100000 100000"}, 1),
        ("3:cpu,cpuacct:/a", {"cpu,cpuacct/a/cpu.cfs_quota_us": "50000"}, None),
        ("3:cpu,cpuacct:/a", {f"cpu,cpuacct/a/cpu.cfs_{n}_us": v for n, v in VERSION_1.items()}, 0.5),
        ("1:cpu:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        (
            "3:cpuacct,cpu:/docker/1f\n2:memory:/",
            {f"cpu/cpu.cfs_{n}_us": v for n, v in VERSION_1.items()},
            0.5,
        ),
        ("2:cpuset:/", {f"cpu/cpu.cfs_{n}_us": v for n, v in VERSION_1.items()}, None),
        ("0::/a", {"unified/a/cpu.max": "100000 100000"}, 1),
        ("0::/", {"cpu.max": "100000 0"}, None),
        ("0::/", {"cpu.max": "no number"}, None),
        ("0::/", {"cpu.max": b"\xff 100000"}, None),
        ("no cgroup", {"cpu.max": "100000 100000"}, None),
        (None, {"cpu.max": "100000 100000"}, None),
    ],
)
def test_the_quota_is_the_smallest_limit_up_to_the_root(machine, own, files, limit):
    told = {} if own is None else {"proc/self/cgroup": own}
    assert machine({**told, **{CGROUP + name: text for name, text in files.items()}}).cpu["quota"] == limit


@pytest.mark.parametrize(
    ("governors", "said"),
    [
        ({}, None),
        ({0: "performance", 1: "performance"}, "performance"),
        ({0: "performance", 9: "powersave"}, "mixed"),
    ],
)
def test_the_governor_is_that_of_all_processors(machine, governors, said):
    path = "sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor"
    assert machine({path.format(number): name for number, name in governors.items()}).cpu["governor"] == said


@for_each(
    ("affinity", "count", "limit", "usable"),
    [
        ({0, 3, 5, 7}, 8, "max", 4),
        ({0, 3, 5, 7}, 8, "150000", 1.5),
        ({0, 3}, 8, "800000", 2),
        (PermissionError(), 8, "max", 8),
        (None, None, "max", 1),
    ],
)
def test_a_process_can_use_what_affinity_and_quota_leave(machine, affinity, count, limit, usable):
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(os, "cpu_count", lambda: count)
        monkeypatch.setattr(os, "sched_getaffinity", Mock(side_effect=[affinity] * 2), raising=False)
        if affinity is None:  # as on a Mac
            monkeypatch.delattr(os, "sched_getaffinity")
        found = machine({"proc/self/cgroup": "0::/", f"{CGROUP}cpu.max": f"{limit} 100000"})
        assert found.cpu["usable"] == (len(affinity) if isinstance(affinity, set) else None)
        assert environment.usable_processors() == usable


@for_each(("size", "memory"), [(4096, 4096000), (ValueError(), None), (AttributeError(), None), (-1, None)])
def test_memory_is_in_bytes_and_unknown_where_the_system_does_not_tell(size, memory):
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(os, "sysconf", Mock(side_effect=[1000, size]), raising=False)
        assert environment.survey(None, None).host["memory"] == memory


def pool(user_api: str, internal_api: str, threads: int | None) -> dict[str, object]:
    return {
        "user_api": user_api,
        "internal_api": internal_api,
        "num_threads": threads,
        "prefix": f"lib_{internal_api}",
        "version": "1.2",
    }


@for_each("told", [True, False, None])
def test_thread_pools_are_those_of_the_loaded_libraries_that_tell_their_size(monkeypatch, told):
    listed = [pool("blas", "openblas", 4), pool("openmp", "openmp", 8), pool("blas", "mkl", None)]
    library = SimpleNamespace(threadpool_info=lambda: listed if told else 1 // 0)
    monkeypatch.setitem(sys.modules, "threadpoolctl", None if told is None else library)
    known = (
        ThreadPool(library="openblas", api="blas", threads=4, version="1.2"),
        ThreadPool(library="lib_openmp", api="openmp", threads=8, version="1.2"),
    )
    assert environment.survey(None, None).thread_pools == (known if told else ())


def test_the_pool_of_numpys_own_blas_is_found():
    np.ones((2, 2)) @ np.ones((2, 2))
    if not np.show_config(mode="dicts")["Build Dependencies"]["blas"]["name"].endswith("openblas"):
        pytest.skip("NumPy is built with another BLAS")
    pools = {found.library: found for found in environment.survey(None, None).thread_pools}
    assert ("blas", True) == (pools["openblas"].api, pools["openblas"].threads >= 1)


@for_each(
    ("expected", "setting"),
    [
        (True, "CUDA_LAUNCH_BLOCKING=1"),
        (False, "CUDA_LAUNCH_BLOCKING=0"),
        (False, "CUDA_LAUNCH_BLOCKING="),
        (True, "HIP_LAUNCH_BLOCKING=1"),
        (True, "AMD_SERIALIZE_KERNEL=3"),
        (True, "AMD_SERIALIZE_COPY=2"),
        (False, "AMD_SERIALIZE_COPY=0"),
        (False, "AMD_SERIALIZE_KERNEL=12"),
        (False, "OMP_NUM_THREADS=1"),
    ],
)
def test_a_setting_that_makes_each_launch_wait_is_told(expected, setting):
    name, _, value = setting.partition("=")
    assert environment.blocking_setting({name: value}) == (setting if expected else None)


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        ("--tok=***", "--tok=hunter2"),
        ("--xla_a=1 --HF_TOKEN=*** --xla_b=2", "--xla_a=1 --HF_TOKEN=hunter2 --xla_b=2"),
        ("--outer=password=***", "--outer=password=hunter2"),
        ("max_split_size_mb:128,api_key:***", "max_split_size_mb:128,api_key:hunter2,x:1"),
        ("--passwd=*** --a=b", "--passwd='hunter 2' --a=b"),
        ('{"client_secret": ***}', '{"client_secret": "hunter 2"}'),
        ("pwd=***", "pwd=a=b;c"),
        ("--credentials:*** --authorization=***", "--credentials:a --authorization=b"),
        ("--to=https://user:***@host/x", "--to=https://user:hunt/er@2@host/x"),
        *(
            (value, value)
            for value in (
                "--xla_force_host_platform_device_count=8 --xla_gpu_autotune_level=0",
                "max_split_size_mb:128,garbage_collection_threshold:0.8,backend:cudaMallocAsync",
                "level_zero:gpu;opencl:cpu",
                "/run/nvidia-mps:/home/authors",
                "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6",
            )
        ),
        *(("--a=*** --b", f"--a={form}{16 * 'x'} --b") for form in ("ghp_", "hf_", "sk-", "AKIA", "eyJ")),
    ],
)
def test_what_looks_like_a_secret_is_masked_in_a_variable_and_no_setting_is(monkeypatch, expected, value):
    monkeypatch.setenv("XLA_FLAGS", value)
    assert expected == environment.survey(None, None).variables["XLA_FLAGS"]


def test_the_survey_has_the_variables_that_are_set_and_no_other(monkeypatch):
    for name in environment._VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("SECRET", "xyz")
    found = environment.survey(None, None).variables
    assert found == {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def test_the_wait_for_a_processor_only_grows():
    first = environment.waits()
    if first is None:
        assert not Path("/proc/self/schedstat").exists()
    else:
        now = environment.waits()
        assert all(0 <= wait <= now.get(thread, wait) for thread, wait in first.items())


def test_others_have_worked_when_a_usable_processor_was_not_idle_and_this_process_did_not_work(
    monkeypatch, tmp_path
):
    stat = tmp_path / "stat"
    monkeypatch.setattr(environment, "_PROCESSORS", str(stat))
    monkeypatch.setattr(environment, "perf_counter", lambda: now)
    monkeypatch.setattr(environment, "process_time", lambda: own)
    known = {"SC_NPROCESSORS_ONLN": 2, "SC_CLK_TCK": 100}
    monkeypatch.setattr(environment.os, "sysconf", known.get, raising=False)
    monkeypatch.setattr(environment, "_quota_at_start", lambda: None)
    line = "{0} 1 2 3 {1} {2} 4 5 6 7 8\n".format
    rest = line("cpu0", 999, 999) + "intr 7 1 2 3\n"
    stat.write_text(line("cpu ", 100, 50) + rest)
    now, own = 10.0, 1.0
    before = environment.other_work()
    stat.write_text(line("cpu ", 300, 60) + rest)
    now, own = 15.0, 3.0
    # Of 2 x 5 s the two were idle for 2 and 0.1 s, and worked for this process for 2 s.
    assert environment.other_work() - before == pytest.approx(10 - 2.1 - 2)


@pytest.mark.parametrize(
    ("text", "quota"),
    [(None, None), ("cpu  a b c d e f\n", None), ("cpu  0 0 0 0 0 0\n", None), ("cpu  1 2 3 4 5 6\n", 1.5)],
)
def test_without_the_times_of_processors_nothing_is_known_of_others(monkeypatch, tmp_path, text, quota):
    stat = tmp_path / "stat"
    if text:
        stat.write_text(text)
    monkeypatch.setattr(environment, "_PROCESSORS", str(stat))
    monkeypatch.setattr(environment, "_quota_at_start", lambda: quota)
    assert environment.other_work() is None


@for_each(
    ("expected", "threads"),
    [(1, []), (4, [2, 4]), (6, [8]), (None, None)],
)
def test_the_work_of_one_thread_is_shared_by_the_largest_pool_on_as_many_processors(expected, threads):
    """The loaded libraries are looked at once: that takes long."""
    controller = None
    if threads is not None:
        pools = [pool("blas", "openblas", each) for each in threads]
        controller = SimpleNamespace(info=lambda: pools, limit=lambda limits: nullcontext())
    make = Mock(side_effect=[controller])
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setitem(sys.modules, "threadpoolctl", SimpleNamespace(ThreadpoolController=make))
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(6), raising=False)
        with environment.one_thread() as found:
            assert expected == found


def test_the_pools_have_one_thread_within_and_their_own_number_after():
    np.ones((2, 2)) @ np.ones((2, 2))
    before = environment.survey(None, None).thread_pools
    with environment.one_thread():
        assert all(found.threads == 1 for found in environment.survey(None, None).thread_pools)
    assert before == environment.survey(None, None).thread_pools
