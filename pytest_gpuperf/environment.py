"""What the numbers depend on: machine, interpreter, libraries."""

import os
import platform
from importlib import metadata
from pathlib import Path

from pytest_gpuperf.model import DeviceInfo, Environment

__all__ = ["cpu_name", "survey", "waited"]

_PACKAGES = ("pytest-gpuperf", "pytest", "numpy", "cupy-cuda12x", "cupy-cuda13x", "cupy", "dpnp", "dpctl")


def survey(gpu: DeviceInfo | None, gpu_reason: str | None) -> Environment:
    """Return the environment of this process; a value that cannot be had is None."""
    return Environment(
        host={"name": platform.node(), "system": platform.system(), "machine": platform.machine()},
        cpu={"name": cpu_name(), "logical": os.cpu_count(), "usable": _usable()},
        gpu=gpu,
        gpu_reason=gpu_reason,
        python=platform.python_version(),
        packages={name: version for name in _PACKAGES if (version := _version(name)) is not None},
    )


def cpu_name() -> str:
    """Return the processor's model name, or the architecture where the system does not tell."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        text = ""
    models = (line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name"))
    return next(models, "") or platform.processor() or platform.machine()


def waited() -> float | None:
    """Return the seconds that this process's threads have waited for a processor, all together.

    That is Linux's run-queue delay (proc_pid_schedstat(5)); None where the system does not tell. A thread
    that waits is not at work: multithreaded BLAS then stands still, a thousand times as long as its work.
    """
    total = 0
    try:
        # Plain strings: this runs beside every block, and pathlib keeps every name that it has parsed.
        for task in os.listdir("/proc/self/task"):  # noqa: PTH208 - as said above
            with open(f"/proc/self/task/{task}/schedstat", "rb") as file:  # noqa: PTH123 - likewise
                total += int(file.read().split()[1])
    except (OSError, IndexError, ValueError):
        return None
    return total / 1e9


def _usable() -> int | None:
    """Return how many processors this process may run on; None where the system does not tell."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
