"""Environment: what is known of the machine, and what is said where it does not tell."""

import os
import platform
import sys
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

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


def test_a_package_that_is_not_installed_is_left_out(monkeypatch):
    monkeypatch.setattr(environment, "_PACKAGES", ("numpy", "no-such-package-here"))
    assert set(environment.survey(None, None).packages) == {"numpy"}


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
        ({0, 3, 5, 7}, 8, "50000", 0.5),
        ({0, 3}, 8, "800000", 2),
        (PermissionError, 8, "max", 8),
        (None, 8, "max", 8),
        (None, None, "max", 1),
    ],
)
def test_a_process_can_use_what_affinity_and_quota_leave(machine, affinity, count, limit, usable):
    def told(_):
        if affinity is PermissionError:
            raise affinity
        return affinity

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(os, "cpu_count", lambda: count)
        monkeypatch.setattr(os, "sched_getaffinity", told, raising=False)
        if affinity is None:
            monkeypatch.delattr(os, "sched_getaffinity")
        found = machine({"proc/self/cgroup": "0::/", f"{CGROUP}cpu.max": f"{limit} 100000"})
        assert found.cpu["usable"] == (len(affinity) if isinstance(affinity, set) else None)
        assert environment.usable_processors() == usable


@for_each(
    ("told", "memory"),
    [
        ({"SC_PHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}.__getitem__, 4096000),
        (lambda name: int(name), None),
        (lambda name: Path(name).stat(), None),
        (lambda name: -1, None),
        (None, None),
    ],
)
def test_memory_is_in_bytes_and_unknown_where_the_system_does_not_tell(told, memory):
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(os, "sysconf", told, raising=False)
        if told is None:
            monkeypatch.delattr(os, "sysconf")
        assert environment.survey(None, None).host["memory"] == memory


def with_pools(monkeypatch, pools) -> tuple[ThreadPool, ...]:
    monkeypatch.setitem(sys.modules, "threadpoolctl", SimpleNamespace(threadpool_info=pools))
    return environment.survey(None, None).thread_pools


def pool(user_api: str, internal_api: str, threads: int | None) -> dict[str, object]:
    return {
        "user_api": user_api,
        "internal_api": internal_api,
        "num_threads": threads,
        "prefix": f"lib_{internal_api}",
        "version": "1.2",
    }


def test_thread_pools_are_those_of_the_loaded_libraries_that_tell_their_size(monkeypatch):
    listed = [pool("blas", "openblas", 4), pool("openmp", "openmp", 8), pool("blas", "mkl", None)]
    assert with_pools(monkeypatch, lambda: listed) == (
        ThreadPool(library="openblas", api="blas", threads=4, version="1.2"),
        ThreadPool(library="lib_openmp", api="openmp", threads=8, version="1.2"),
    )
    assert with_pools(monkeypatch, lambda: 1 // 0) == ()
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    assert environment.survey(None, None).thread_pools == ()


def test_the_pool_of_numpys_own_blas_is_found():
    np.ones((2, 2)) @ np.ones((2, 2))
    if not np.show_config(mode="dicts")["Build Dependencies"]["blas"]["name"].endswith("openblas"):
        pytest.skip("NumPy is built with another BLAS")
    pools = {found.library: found for found in environment.survey(None, None).thread_pools}
    assert ("blas", True) == (pools["openblas"].api, pools["openblas"].threads >= 1)


@for_each(
    "name",
    [
        "CUDA_LAUNCH_BLOCKING",
        "CUDA_MODULE_LOADING",
        "CUDA_DEVICE_MAX_CONNECTIONS",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
        "CUPY_CUDA_PER_THREAD_DEFAULT_STREAM",
        "PYTORCH_ALLOC_CONF",
        "PYTORCH_CUDA_ALLOC_CONF",
        "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
        "XLA_PYTHON_CLIENT_MEM_FRACTION",
        "XLA_PYTHON_CLIENT_PREALLOCATE",
        "XLA_PYTHON_CLIENT_ALLOCATOR",
    ],
)
def test_settings_of_gpu_libraries_that_change_times_are_in_the_survey(setting, name):
    setting(name, "1")
    assert environment.survey(None, None).variables[name] == "1"


@pytest.mark.parametrize(
    ("expected", "name", "value"),
    [
        ("CUDA_LAUNCH_BLOCKING=1", "CUDA_LAUNCH_BLOCKING", "1"),
        (None, "CUDA_LAUNCH_BLOCKING", "0"),
        (None, "CUDA_LAUNCH_BLOCKING", ""),
        (None, "CUDA_LAUNCH_BLOCKING", None),
        ("HIP_LAUNCH_BLOCKING=1", "HIP_LAUNCH_BLOCKING", "1"),
        ("AMD_SERIALIZE_KERNEL=3", "AMD_SERIALIZE_KERNEL", "3"),
        ("AMD_SERIALIZE_KERNEL=1", "AMD_SERIALIZE_KERNEL", "1"),
        ("AMD_SERIALIZE_COPY=2", "AMD_SERIALIZE_COPY", "2"),
        (None, "AMD_SERIALIZE_COPY", "0"),
        (None, "AMD_SERIALIZE_KERNEL", "12"),
    ],
)
def test_a_setting_that_makes_each_launch_wait_is_told(setting, expected, name, value):
    setting("CUDA_LAUNCH_BLOCKING", None)
    setting(name, value)
    assert environment.blocking_setting() == expected


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
    [
        (None, None),
        ("cpu  1\n", None),
        ("cpu  a b c d e f\n", None),
        ("cpu  0 0 0 0 0 0\n", None),
        ("cpu  1 2 3 4 5 6\n", 1.5),
    ],
)
def test_without_the_times_of_processors_nothing_is_known_of_others(monkeypatch, tmp_path, text, quota):
    stat = tmp_path / "stat"
    if text:
        stat.write_text(text)
    monkeypatch.setattr(environment, "_PROCESSORS", str(stat))
    monkeypatch.setattr(environment, "_quota_at_start", lambda: quota)
    assert environment.other_work() is None


def test_of_this_machine_it_is_known_how_long_others_worked_where_it_is_known_how_long_threads_waited():
    first, waits = environment.other_work(), environment.waits()
    if waits is not None and environment._quota() is None:
        assert first is not None
        assert environment.other_work() - first > -1


def limited(monkeypatch, pools, limits=lambda limits: nullcontext()):
    """Return among how many threads the work of one is shared, where these are the pools."""
    controller = SimpleNamespace(info=lambda: pools, limit=limits)
    found = SimpleNamespace(ThreadpoolController=lambda: controller)
    monkeypatch.setitem(sys.modules, "threadpoolctl", found)
    monkeypatch.setattr(environment, "_usable", lambda: 6)
    with environment.one_thread() as threads:
        return threads


@for_each(("expected", "threads"), [(1, []), (4, [2, 4]), (6, [8])])
def test_the_work_of_one_thread_is_shared_by_the_largest_pool_on_as_many_processors(
    monkeypatch, expected, threads
):
    assert expected == limited(monkeypatch, [pool("blas", "openblas", each) for each in threads])


def test_the_loaded_libraries_are_looked_at_once_to_limit_their_pools(monkeypatch):
    made, controller = [], SimpleNamespace(info=list, limit=lambda limits: nullcontext())
    found = SimpleNamespace(ThreadpoolController=lambda: made.append(1) or controller)
    monkeypatch.setitem(sys.modules, "threadpoolctl", found)
    with environment.one_thread():
        assert [1] == made


def test_pools_that_cannot_be_limited_tell_no_processor_time(monkeypatch):
    assert limited(monkeypatch, [], limits=None) is None
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    with environment.one_thread() as threads:
        assert threads is None


def test_the_pools_have_one_thread_within_and_their_own_number_after():
    np.ones((2, 2)) @ np.ones((2, 2))
    before = environment.survey(None, None).thread_pools
    with environment.one_thread():
        assert all(found.threads == 1 for found in environment.survey(None, None).thread_pools)
    assert before == environment.survey(None, None).thread_pools
