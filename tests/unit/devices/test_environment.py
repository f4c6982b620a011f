"""Environment: what is known of the machine, and what is said where it does not tell."""

import builtins
import os
import platform
import subprocess
import sys
from ast import literal_eval
from importlib.metadata import version
from math import inf
from pathlib import Path
from time import perf_counter, process_time
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from cases import for_each
from factories import HERE
from msgspec.structs import replace
from threadpoolctl import threadpool_limits
from walks import timer_on

from pytest_gpuperf.devices import environment
from pytest_gpuperf.devices.host import HostDevice
from pytest_gpuperf.devices.machine import Machine
from pytest_gpuperf.model.record import ThreadPool
from pytest_gpuperf.timing import gc_pause

MACHINE = platform.machine()
ARCHITECTURE = platform.processor() or MACHINE
VERSION_1 = {"quota": "50000", "period": "100000"}


def arm(*parts):
    """Return what Linux tells of a processor with such cores."""
    return "\n\n".join(f"processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: {part}" for part in parts)


def survey():
    """Return the environment of a run without a GPU."""
    return Machine("none").environment()


@for_each(
    ("expected", "info"),
    [
        ("A CPU @ 3 GHz: fast", "processor\t: 0\nmodel name\t: A CPU @ 3 GHz: fast\n\nmodel name\t: another"),
        (ARCHITECTURE, "model name\t:"),
        (ARCHITECTURE, None),
        (f"{MACHINE} 0x41:0xd4f", arm("0xd4f", "0xd4f")),
        (f"{MACHINE} 0x41:0xd05 0x41:0xd4e", arm("0xd05", "0xd4e", "0xd05")),
        (ARCHITECTURE, "CPU implementer\t: 0x41"),
    ],
)
def test_a_processor_has_a_name_and_one_of_arm_the_numbers_of_its_kinds_of_cores(
    system_files, expected, info
):
    system_files({"/proc/cpuinfo": info})
    assert expected == survey().cpu["name"]


def test_a_mac_has_the_name_that_the_system_gives_its_processor(system_files, monkeypatch):
    def look_up(name, text, size, *_):
        text.value = {b"machdep.cpu.brand_string": b"Apple M2 Pro"}[name]

    system_files({"/proc/cpuinfo": None})
    monkeypatch.setattr("ctypes.CDLL", lambda name: SimpleNamespace(sysctlbyname=look_up))
    assert "Apple M2 Pro" == survey().cpu["name"]


def test_the_survey_names_what_the_numbers_depend_on():
    found = survey()
    assert (platform.python_version(), platform.system()) == (found.python, found.host["system"])
    assert 1 <= found.cpu["usable"] <= found.cpu["logical"]
    if hasattr(os, "sysconf"):
        assert os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") == found.host["memory"]
    for name in ("pytest-gpuperf", "pytest", "numpy"):
        assert found.packages[name] == version(name)


def test_the_survey_has_the_versions_of_what_compiles_for_a_gpu_or_joins_several(tmp_path):
    names = [
        "jax-cuda13-plugin",
        "jax-cuda13-pjrt",
        "jax-rocm7-plugin",
        "libtpu",
        "nvidia-nccl-cu13",
        "cupy-rocm-7-0",
    ]
    for name in names:
        folder = tmp_path / f"{name.replace('-', '_')}-1.2.3.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2.3\n")
    source = "from pytest_gpuperf.devices.environment import survey; print(survey(None, None).packages)"
    path = os.pathsep.join([str(tmp_path), *sys.path])  # each process looks once
    done = subprocess.run(
        [sys.executable, "-c", source],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert dict.fromkeys(names, "1.2.3").items() <= literal_eval(done.stdout).items()


def test_a_report_s_limit_that_is_no_number_limits_nothing():
    found = replace(HERE, cpu={"usable": 4, "quota": "passed"})
    assert found.usable_processors == 4


@for_each(
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
        ("no cgroup", {"cpu.max": "100000 100000"}, None),
        (None, {"cpu.max": "100000 100000"}, None),
    ],
)
def test_the_quota_is_the_smallest_limit_up_to_the_root(system_files, own, files, limit):
    system_files(
        {"/proc/self/cgroup": own, **{f"/sys/fs/cgroup/{name}": text for name, text in files.items()}}
    )
    assert limit == survey().cpu["quota"]


@for_each(
    ("expected", "stat"),
    [
        (7, "usage_usec 9\nnr_periods 20\nnr_throttled 7\nthrottled_usec 100"),
        (None, "usage_usec 9"),
        (None, "nr_throttled often"),
        (None, None),
    ],
)
def test_a_quota_tells_in_how_many_periods_it_has_stopped_the_process(system_files, expected, stat):
    own = {"/proc/self/cgroup": "0::/a", "/sys/fs/cgroup/a/cpu.max": "150000 100000"}
    system_files({**own, "/sys/fs/cgroup/a/cpu.stat": stat})
    environment.quota_at_start.cache_clear()
    found = HostDevice("a processor").quota()
    environment.quota_at_start.cache_clear()
    assert (1.5, expected) == (found.processors, found.stopped())


def pool(user_api: str, internal_api: str, threads: int | None) -> dict[str, object]:
    return {
        "user_api": user_api,
        "internal_api": internal_api,
        "num_threads": threads,
        "prefix": f"lib_{internal_api}",
        "version": "1.2",
    }


def test_thread_pools_are_those_of_the_loaded_libraries_that_tell_their_size(installed):
    listed = [pool("blas", "openblas", 4), pool("openmp", "openmp", 8), pool("blas", "mkl", None)]
    installed(threadpoolctl={"threadpool_info": lambda: listed})
    assert survey().thread_pools == (
        ThreadPool(library="openblas", api="blas", threads=4, version="1.2"),
        ThreadPool(library="lib_openmp", api="openmp", threads=8, version="1.2"),
    )
    for missing in ({"threadpool_info": lambda: 1 // 0}, None):
        installed(threadpoolctl=missing)
        assert survey().thread_pools == ()


@for_each(
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
def test_what_looks_like_a_secret_is_masked_in_a_variable_and_no_setting_is(setting, expected, value):
    setting("XLA_FLAGS", value)
    assert expected == survey().variables["XLA_FLAGS"]


def test_the_survey_has_the_variables_that_are_set_and_no_other(setting):
    for name, value in {
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "HIP_VISIBLE_DEVICES": "0",
        "ROCR_VISIBLE_DEVICES": "1",
        "CUPY_TF32": None,
        "SECRET": "xyz",
    }.items():
        setting(name, value)
    found = survey().variables
    assert ("1", "") == (found["OMP_NUM_THREADS"], found["CUDA_VISIBLE_DEVICES"])
    assert ("0", "1") == (found["HIP_VISIBLE_DEVICES"], found["ROCR_VISIBLE_DEVICES"])
    assert not {"CUPY_TF32", "SECRET"} & {*found}


def test_where_others_keep_a_processor_busy_a_call_is_timed_on_one_thread_with_the_pools_as_before_after_it():
    def others_worked():
        idle, waiting = map(int, Path("/proc/stat").read_text().split()[4:6])
        ticks = os.cpu_count() * perf_counter() * os.sysconf("SC_CLK_TCK")
        return (ticks - idle - waiting) / os.sysconf("SC_CLK_TCK") - process_time()

    def call():
        threads.append({found.threads for found in survey().thread_pools})
        end = process_time() + 0.05
        while process_time() < end:
            pass

    threads, timer = [], timer_on(HostDevice("a processor"), call)
    if not Path("/proc/self/schedstat").exists():
        timer.take_sample()
        assert timer.measurement.waited is None
        return
    processors = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(processors)})
    source = "print(flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE) as busy:
        try:
            busy.stdout.readline()
            assert 1 == survey().cpu["usable"]
            with threadpool_limits(2):
                started, others = perf_counter(), -others_worked()
                for _ in range(3):
                    timer.take_sample()
                elapsed, others = perf_counter() - started, others + others_worked()
                timer.measure_least_time(inf)
                call()
        finally:
            busy.kill()
            os.sched_setaffinity(0, processors)
    assert 0.05 < timer.processors.waited < 20 * elapsed  # so many threads of libraries may wait, too
    if survey().cpu["quota"] is None:  # else processors may idle beside threads that wait
        assert 0.05 < timer.processors.others_worked < others + 0.05 * os.cpu_count()
    assert timer.processors.least_time > 0.045
    assert [{2}, {2}, {2}, {1}, {2}] == threads


REPLACED = [
    (builtins, "open"),
    (os, "open"),
    (os, "read"),
    (os, "listdir"),
    (os, "scandir"),
    (Path, "open"),
    (Path, "read_text"),
    (Path, "glob"),
]


def known():
    """Return what the system says of itself that stays the same, and which of the rest is known."""
    memory = gc_pause.MemoryWatch()
    memory.collect_if_grown(HostDevice("a CPU"))
    changing = (environment.waits(), environment.other_work(), max(memory._least))
    return survey(), [bool(each) for each in changing]


@for_each("raised", [RuntimeError("replaced"), None])
def test_a_test_that_replaces_how_files_are_read_changes_nothing_of_what_is_known(installed, raised):
    installed(threadpoolctl=None)  # which reads files as it will
    expected = known()
    with pytest.MonkeyPatch.context() as patch:
        mocks = [Mock(side_effect=raised) for _ in REPLACED]
        for (owner, name), mock in zip(REPLACED, mocks, strict=True):
            patch.setattr(owner, name, mock)
        found = known()
        calls = [mock.call_count for mock in mocks]
    assert expected == found
    assert [0] * len(REPLACED) == calls


def test_what_the_system_cannot_be_asked_for_is_unknown(monkeypatch):
    monkeypatch.setattr(os, "sysconf", Mock(side_effect=RuntimeError("replaced")))
    monkeypatch.setattr(os, "sched_getaffinity", Mock(side_effect=RuntimeError("replaced")), raising=False)
    found = survey()
    assert (None, None) == (found.host["memory"], found.cpu["usable"])
    assert environment.other_work() is None
