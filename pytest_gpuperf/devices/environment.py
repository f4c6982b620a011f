"""The environment that timings depend on: machine, interpreter, libraries, threads, settings."""

import fnmatch
import os
import platform
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache
from math import inf
from pathlib import Path, PurePosixPath
from time import perf_counter, process_time

from pytest_gpuperf.devices.registry import REGISTRY
from pytest_gpuperf.model.measurement import DeviceInfo
from pytest_gpuperf.model.record import Environment, ThreadPool

_COMMON = """pytest-gpuperf pytest numpy scipy threadpoolctl nvidia-ml-py array-api-compat triton numba
    numba-cuda rmm-cu12 rmm-cu13 nvidia-cublas nvidia-cublas-cu12 nvidia-cudnn-cu12 nvidia-cudnn-cu13
    nvidia-nccl-cu12 nvidia-nccl-cu13""".split()  # noqa: SIM905 - as a list each has its line
_PACKAGES = (*_COMMON, *(package for row in REGISTRY for package in row.packages))
THREADS = """OMP_NUM_THREADS OPENBLAS_NUM_THREADS MKL_NUM_THREADS NUMEXPR_NUM_THREADS BLIS_NUM_THREADS
    VECLIB_MAXIMUM_THREADS POLARS_MAX_THREADS NPROC""".split()  # noqa: SIM905 - as above
# AMD's two make the host wait before each kernel or copy (1), after it (2), or both (3).
_BLOCKING = {
    "CUDA_LAUNCH_BLOCKING": ("1",),
    "HIP_LAUNCH_BLOCKING": ("1",),
    "AMD_SERIALIZE_KERNEL": ("1", "2", "3"),
    "AMD_SERIALIZE_COPY": ("1", "2", "3"),
}
_SETTINGS = """OPENBLAS_CORETYPE CUDA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES CUPY_TF32
    NVIDIA_TF32_OVERRIDE CUPY_ACCELERATORS CUPY_CUDA_PER_THREAD_DEFAULT_STREAM
    CUDA_MODULE_LOADING CUDA_DEVICE_MAX_CONNECTIONS CUDA_MPS_PIPE_DIRECTORY
    CUDA_MPS_ACTIVE_THREAD_PERCENTAGE CUBLAS_WORKSPACE_CONFIG PYTORCH_ALLOC_CONF
    PYTORCH_CUDA_ALLOC_CONF TORCH_ALLOW_TF32_CUBLAS_OVERRIDE XLA_FLAGS
    XLA_PYTHON_CLIENT_ALLOCATOR XLA_PYTHON_CLIENT_MEM_FRACTION XLA_PYTHON_CLIENT_PREALLOCATE
    JAX_PLATFORMS JAX_DEFAULT_MATMUL_PRECISION JAX_ENABLE_X64 JAX_NUM_CPU_DEVICES KERAS_BACKEND
    MLX_ENABLE_TF32 TF_GPU_ALLOCATOR TF_FORCE_GPU_ALLOW_GROWTH ONEAPI_DEVICE_SELECTOR""".split()  # noqa: SIM905 - as above
_VARIABLES = (*THREADS, *_SETTINGS, *_BLOCKING)
# What is masked in their values. Each rule keeps its first group.
_SECRETS = (
    # NAME=VALUE or NAME:VALUE, up to the next space outside of quotes
    re.compile(
        r"""((?<![a-z])(?:tok|secret|passw|pwd|(?:api)?key|credential|auth)[\w.-]*+["']?\s*[=:]\s*)("[^"]*"|'[^']*'|\S+)""",
        re.IGNORECASE,
    ),
    re.compile(r"(://[^\s:/@]*:)\S+(?=@)"),  # the password in a URL
    # Tokens of GitHub, Hugging Face, OpenAI, AWS, and JSON Web Tokens
    re.compile(r"()\b(?:gh[a-z]_|github_pat_|hf_|sk-|AKIA|eyJ)[\w.-]{16,}"),
)
_ROOT = Path("/")
# As they are before any test runs: one that replaces them, and may count their calls, gets none of ours.
_listdir, _open, _open_descriptor, _read_descriptor, _close = os.listdir, open, os.open, os.read, os.close
_LINE = 100  # bytes: three numbers of at most twenty digits
_NAME = 256  # bytes of a processor's name


@dataclass(frozen=True, slots=True)
class Quota:
    """A limit of processor time: so many processors on average over each period of a cgroup."""

    processors: float
    group: Path

    def stopped(self) -> int | None:
        """Return in how many periods the group was stopped so far; None where the system does not tell."""
        fields = [line.split() for line in (read(self.group / "cpu.stat") or "").splitlines()]
        counts = [int(field[1]) for field in fields if field[0] == "nr_throttled" and field[1].isdecimal()]
        return counts[0] if counts else None


def survey(gpu: DeviceInfo | None, gpu_reason: str | None, *, root: Path = _ROOT) -> Environment:
    """Return the environment of this process, without clocks; a value that is not available is None.

    `root` is the folder that has the system's `proc` and `sys`.
    """
    return Environment(
        host={
            "name": platform.node(),
            "system": platform.system(),
            "machine": platform.machine(),
            "memory": _memory(),
        },
        cpu={
            "name": cpu_name(root),
            "logical": os.cpu_count(),
            "usable": _usable(),
            "quota": limit.processors if (limit := _quota(root)) else None,
            "governor": _governor(root),
        },
        gpu=gpu,
        gpu_reason=gpu_reason,
        python=platform.python_version(),
        packages={name: version for name in _PACKAGES if (version := _version(name))},
        thread_pools=_thread_pools(),
        variables={name: _masked(os.environ[name]) for name in _VARIABLES if name in os.environ},
    )


def prepare() -> None:
    """Import what the survey, the diagnosis and `one_thread` would wait for."""
    with suppress(Exception):  # foreign libraries: only what it knows of their threads is lost
        import threadpoolctl  # noqa: F401 - 3 ms that no test shall take


def blocking_setting(variables: Mapping[str, str] = os.environ) -> str | None:
    """Return the setting, if one is made, with which CUDA or HIP waits for each kernel or copy."""
    found = (f"{name}={variables[name]}" for name in _BLOCKING if variables.get(name) in _BLOCKING[name])
    return next(found, None)


def read(path: Path) -> str | None:
    """Return the text of one of the system's own files; None where it cannot be had."""
    try:
        with _open(path, encoding="utf-8") as file:
            return file.read()
    except Exception:  # noqa: BLE001 - as in `waits`
        return None


def usable_processors(root: Path = _ROOT) -> float:
    """Return how many processors' worth of time this process can get; a quota may leave less than one."""
    limit = _quota(root)
    return min(_usable() or os.cpu_count() or 1, limit.processors if limit else inf)


def cpu_name(root: Path = _ROOT) -> str:
    """Return the processor's model name, or the architecture where the system does not report it.

    Linux on ARM tells numbers alone: `aarch64 0x41:0xd4f` has cores of that designer and of that kind.
    """
    found: dict[str, list[str]] = {}
    for line in (read(root / "proc/cpuinfo") or "").splitlines():
        name, _, value = line.partition(":")
        found.setdefault(name.strip(), []).append(value.strip())
    model = found.get("model name", [""])[0]
    cores = zip(found.get("CPU implementer", ()), found.get("CPU part", ()), strict=False)
    kinds = [f"{designer}:{part}" for designer, part in dict.fromkeys(cores)]
    arm = " ".join([platform.machine(), *kinds]) if kinds else ""
    return model or arm or _name_on_macos() or platform.processor() or platform.machine()


def waits() -> dict[str, float] | None:
    """Return the seconds that each thread of this process has waited for a processor.

    That is Linux's run-queue delay (proc_pid_schedstat(5)); None where the system does not report it. One
    waiting thread holds up all of a multithreaded BLAS call, for up to a thousand times its own work.
    """
    found = {}
    try:
        # Plain strings: this runs around every block, and pathlib interns every name that it has parsed. No
        # file object, which takes as long again.
        for task in _listdir("/proc/self/task"):
            descriptor = _open_descriptor(f"/proc/self/task/{task}/schedstat", os.O_RDONLY)
            try:
                found[task] = int(_read_descriptor(descriptor, _LINE).split()[1]) / 1e9
            finally:
                _close(descriptor)
    except Exception:  # noqa: BLE001 - no test fails for want of it, whatever it has replaced
        return None
    return found


def other_work(root: Path = _ROOT) -> float | None:
    """Return the seconds that processors have worked for others than this process, from a fixed time on.

    That is the time in which the machine's processors were not idle (proc_stat(5), in hundredths of a
    second), less its own; None where the system does not report it, or a quota lets processors idle beside
    threads that wait.
    """
    try:
        with _open(f"{root}/proc/stat", "rb") as file:  # a plain string, as in `waits`
            idle = sum(map(int, file.readline().split()[4:6]))  # the second waits for a disk
        processors, ticks = os.sysconf("SC_NPROCESSORS_ONLN"), os.sysconf("SC_CLK_TCK")
    except Exception:  # noqa: BLE001 - as in `waits`
        return None
    is_known = idle and quota_at_start(root) is None
    return processors * perf_counter() - idle / ticks - process_time() if is_known else None


@cache
def quota_at_start(root: Path = _ROOT) -> Quota | None:
    """Return the limit of this process's processor time, as it was when this was first asked."""
    return _quota(root)


@contextmanager
def one_thread() -> Iterator[int | None]:
    """Let the thread pools of the loaded libraries use one thread each.

    Yield among how many threads they could share the work of this one; None where they cannot be limited.
    """
    threads, limits = 1, None
    try:
        from threadpoolctl import ThreadpoolController

        controller = (
            ThreadpoolController()
        )  # one for both: it looks at all loaded libraries, which takes 2 ms
        threads = max((pool["num_threads"] or 1 for pool in controller.info()), default=1)
        limits = controller.limit(limits=1)
    except Exception:  # noqa: BLE001, S110 - it calls into foreign libraries, and only a bound is lost
        pass
    with limits or nullcontext():
        yield min(threads, _usable() or threads) if limits else None


def _masked(text: str) -> str:
    """Return the value of a variable with `***` for what looks like a password or a token."""
    for secret in _SECRETS:
        text = secret.sub(r"\1***", text)
    return text


def _name_on_macos() -> str:
    """Return what macOS calls the processor: Apple M2 Pro. It is empty on other systems."""
    from ctypes import CDLL, byref, c_size_t, create_string_buffer

    text = create_string_buffer(_NAME)
    with suppress(Exception):  # no other system has both the function and that name
        CDLL(None).sysctlbyname(b"machdep.cpu.brand_string", text, byref(c_size_t(_NAME)), None, 0)
    return text.value.decode(errors="replace").strip()


def _usable() -> int | None:
    """Return how many processors this process may run on; None where the system does not report it."""
    try:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    except Exception:  # noqa: BLE001 - as in `waits`
        return None


def _quota(root: Path) -> Quota | None:
    """Return the limit that cgroups set to this process's processor time; None without one.

    Every group up to the root has its own limit, and the smallest holds (cgroup v2: cpu.max; v1:
    cpu.cfs_quota_us). In a container the root is the container's, and the path to it may not be there.
    """
    limits = filter(None, map(_limit, _groups(root)))
    return min(limits, key=lambda limit: limit.processors, default=None)


def _groups(root: Path) -> Iterator[Path]:
    """Yield the directories that may limit this process, for every hierarchy that it is in."""
    for line in (read(root / "proc/self/cgroup") or "").splitlines():
        controllers, _, path = line.partition(":")[2].partition(":")
        if not path or (controllers and "cpu" not in controllers.split(",")):
            continue
        names = (controllers, "cpu") if controllers else ("", "unified")
        inside = PurePosixPath(path.lstrip("/"))
        folder = root / "sys/fs/cgroup"
        yield from (folder / name / group for name in names for group in (inside, *inside.parents))


def _limit(group: Path) -> Quota | None:
    """Return the quota that one cgroup sets; None if it sets none."""
    text = read(group / "cpu.max")
    if text is None:
        text = f"{read(group / 'cpu.cfs_quota_us')} {read(group / 'cpu.cfs_period_us')}"
    try:
        quota, period = (int(number) for number in text.split())
        return Quota(quota / period, group) if quota > 0 else None
    except (ValueError, ZeroDivisionError):
        return None


def _governor(root: Path) -> str | None:
    """Return the frequency governor of the processors; "mixed" when they differ."""
    try:
        folders = fnmatch.filter(_listdir(root / "sys/devices/system/cpu"), "cpu[0-9]*")
    except Exception:  # noqa: BLE001 - as in `waits`
        return None
    texts = {read(root / f"sys/devices/system/cpu/{name}/cpufreq/scaling_governor") for name in folders}
    governors = {text.strip() for text in texts if text is not None}
    return "mixed" if len(governors) > 1 else next(iter(governors), None)


def _memory() -> int | None:
    """Return the machine's memory in bytes."""
    try:
        pages = os.sysconf("SC_PHYS_PAGES")
        size = os.sysconf("SC_PAGE_SIZE")
    except Exception:  # noqa: BLE001 - as in `waits`
        return None
    return pages * size if pages > 0 and size > 0 else None


def _thread_pools() -> tuple[ThreadPool, ...]:
    """Return the thread pools of the loaded libraries: BLAS by its vendor, OpenMP by its file name."""
    try:
        from threadpoolctl import threadpool_info

        return tuple(
            ThreadPool(
                library=pool["prefix"] if pool["user_api"] == "openmp" else pool["internal_api"],
                api=pool["user_api"],
                threads=pool["num_threads"],
                version=pool["version"],
            )
            for pool in threadpool_info()
            if pool["num_threads"] is not None
        )
    except Exception:  # noqa: BLE001 - it calls into foreign libraries, and a description must not fail a run
        return ()


@cache
def pool_threads() -> int | None:
    """Return how many threads the largest pool of the loaded libraries may use; None without any pool.

    Looked up once: libraries create their pools when they are loaded.
    """
    return max((pool.threads for pool in _thread_pools()), default=None)


def _version(name: str) -> str | None:
    try:
        return _installed_version(name)
    except Exception:  # noqa: BLE001 - as in `waits`; and it is asked again
        return None


@cache
def _installed_version(name: str) -> str | None:
    from importlib import metadata  # imports the e-mail parser, which the command does not need

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
