"""Environment: what is known of the machine, and what is said where it does not tell."""

import os
import platform
import sys
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path
from time import perf_counter, process_time
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from cases import for_each
from factories import GPU, HERE
from msgspec.structs import replace

from pytest_gpuperf.devices import environment
from pytest_gpuperf.model.record import ThreadPool

CPU_INFO = "processor\t: 0\nmodel name\t: A CPU @ 3 GHz: fast\n\nmodel name\t: another"
ARCHITECTURE = platform.processor() or platform.machine()
CGROUP = "sys/fs/cgroup/"
USABLE = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
VERSION_1 = {"quota": "50000", "period": "100000"}


@pytest.fixture
def machine(tmp_path):
    """Return a folder with these files: all that the system shows."""

    def call(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else f"{text}\n".encode())
        return tmp_path

    return call


def governors(**names):
    return {f"sys/devices/system/cpu/{cpu}/cpufreq/scaling_governor": name for cpu, name in names.items()}


@pytest.mark.parametrize(
    ("field", "expected", "files"),
    [
        ("name", "A CPU @ 3 GHz: fast", {"proc/cpuinfo": CPU_INFO}),
        ("name", ARCHITECTURE, {"proc/cpuinfo": "model name\t:"}),
        ("name", ARCHITECTURE, {}),
        ("governor", None, {}),
        ("governor", "performance", governors(cpu0="performance", cpu1="performance")),
        ("governor", "mixed", governors(cpu0="performance", cpu9="powersave")),
    ],
)
def test_a_processor_has_a_name_and_the_governor_of_all(machine, field, expected, files):
    assert expected == environment.survey(None, None, root=machine(files)).cpu[field]


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
    root = machine({**told, **{CGROUP + name: text for name, text in files.items()}})
    assert limit == environment.survey(None, None, root=root).cpu["quota"]


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
        root = machine({"proc/self/cgroup": "0::/", f"{CGROUP}cpu.max": f"{limit} 100000"})
        known = environment.survey(None, None, root=root).cpu["usable"]
        assert known == (len(affinity) if isinstance(affinity, set) else None)
        assert environment.usable_processors(root) == usable


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


def test_others_have_worked_when_a_processor_was_not_idle_and_this_process_did_not_work(machine):
    def work(busy, idle, waiting):
        """Return other work, between the times before and after that, and this process's own."""
        line = f"{{}} 1 2 {busy} {idle} {waiting} 4 5 6 7 8\n".format
        root = machine({"proc/stat": line("cpu ") + line("cpu0")})
        return perf_counter(), environment.other_work(root), perf_counter(), process_time()

    begun, first, before, own = work(1, 100, 50)
    while process_time() < own + 0.02:
        pass
    after, second, ended, own_later = work(999, 300, 60)
    processors, ticks = os.sysconf("SC_NPROCESSORS_ONLN"), os.sysconf("SC_CLK_TCK")
    known = second - first + 210 / ticks
    assert processors * (after - before) - (own_later - own) <= known
    assert known <= processors * (ended - begun) - 0.02


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"proc/stat": "cpu  a b c d e f"},
        {"proc/stat": "cpu  0 0 0 0 0 0"},
        {"proc/stat": "cpu  1 2 3 4 5 6", "proc/self/cgroup": "0::/", f"{CGROUP}cpu.max": "150000 100000"},
    ],
    ids=["no file", "no numbers", "no time", "a quota"],
)
def test_without_the_times_of_processors_nothing_is_known_of_others(machine, files):
    assert environment.other_work(machine(files)) is None


@for_each(
    ("expected", "threads"),
    [(1, []), (min(4, USABLE), [2, 4]), (USABLE, [USABLE + 2]), (None, None)],
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
        with environment.one_thread() as found:
            assert expected == found


def test_the_pools_have_one_thread_within_and_their_own_number_after():
    np.ones((2, 2)) @ np.ones((2, 2))
    before = environment.survey(None, None).thread_pools
    if np.show_config(mode="dicts")["Build Dependencies"]["blas"]["name"].endswith("openblas"):
        assert ("openblas", "blas") in [(found.library, found.api) for found in before]
    with environment.one_thread():
        assert all(found.threads == 1 for found in environment.survey(None, None).thread_pools)
    assert before == environment.survey(None, None).thread_pools
