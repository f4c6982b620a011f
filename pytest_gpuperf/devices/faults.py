"""From what a GPU library raises to what it means for the device, and what its user can do about it."""

import re

from pytest_gpuperf.model.errors import Fault
from pytest_gpuperf.model.plain_text import text_of

_OUT_OF_MEMORY = re.compile(
    r"out of memory|can't allocate memory|(?:not enough|insufficient) memory"
    r"|(?:failed|unable|attempting) to allocate|OUT_OF_\w*MEMORY|_ALLOC_FAILED|invalid buffer size: [\d.]+",
    re.I,
)
_REQUESTED = re.compile(
    r"(?:allocat(?:e|ing)(?: request for)?|buffer size:) ([\d.]+) ?(bytes|[KMGTPE](?:i?B)?)\b", re.I
)
_UNITS = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50, "e": 1 << 60}

# The texts of cudaGetErrorString (HIP has the same ones) for errors after which the context cannot be used,
# SYCL's text for a device that is gone, Metal's for a kernel that hung or went astray, XLA's and a TPU's.
_LOST = (
    "an illegal memory access was encountered",
    "an illegal instruction was encountered",
    "device-side assert triggered",
    "unspecified launch failure",
    "misaligned address",
    "the launch timed out and was terminated",
    "invalid program counter",
    "hardware stack error",
    "operation not supported on global/shared address space",
    "uncorrectable ECC error encountered",
    "DEVICE_LOST",
    "uncorrectable NVLink error",
    "Invalid access of peer GPU memory",
    "the MPS client has been terminated",
    "CUDA error: unknown error",
    "HIP error: unknown error",
    "CUDA_ERROR_UNKNOWN",
    "Caused GPU Hang Error",
    "Caused GPU Address Fault Error",
    "GPU has fallen off the bus",
    "Core halted unexpectedly",
)
# The same by their numbers (driver_types.h; HIP has the same ones), and that of memory that ran out.
_LOST_STATUSES = frozenset(
    {4, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911, 999}
)
_MEMORY_ALLOCATION = 2
_READ = 100_000  # letters of a message, which may hold an array

_REINSTALL = "reinstall it with the CUDA libraries it needs"
_HIDDEN = "check `nvidia-smi -L`: a container must be given its GPUs, and one in MIG mode needs instances"
# The texts of cudaGetErrorString (HIP has the same ones), of CuPy's and of torch's own checks.
_REMEDIES: tuple[tuple[str, str | None], ...] = (  # None: the library's own, for what it compiles with
    (r"multiple CuPy packages", "uninstall every CuPy, and install one again"),
    (r"CUDA headers|nvrtc", None),
    (
        r"cannot open shared object|undefined symbol|DLL load failed|file too short|invalid ELF header",
        _REINSTALL,
    ),
    (r"no (CUDA|HIP) GPUs|no (CUDA|ROCm)-capable device", _HIDDEN),
    (r"busy or unavailable", "wait for the process that has it in exclusive mode, or run `nvidia-smi -c 0`"),
    (
        r"no kernel image|not compatible with the current",
        "install the library's build for this GPU's generation",
    ),
    (
        r"driver version is insufficient|system is too old|installed CUDA driver|unsupported toolchain",
        "update the NVIDIA driver, or install the library's build for an older CUDA",
    ),
    (r"no NVIDIA driver", "install the driver, or use a machine that has one"),
    (r"out of memory", "free memory of the GPU: nvidia-smi lists the processes that hold it"),
    (
        r"unsupported display driver|forward compatibility",
        "restart the machine: its driver was updated in part",
    ),
    (r"system not yet initialized", "start NVIDIA's fabric manager: `systemctl start nvidia-fabricmanager`"),
    (r"unknown error", "reload the driver, or restart the machine: both help after it was suspended"),
    (
        r"forked|initialization error",
        "let no process use CUDA before it forks: run pytest without a forking plugin",
    ),
    (
        r"uncorrectable|fallen off the bus|DEVICE_LOST",
        "reset the GPU or restart the machine: `dmesg` says what failed",
    ),
)


def parse_error(error: BaseException) -> Fault | None:
    """Return the fault that an error's type or text describes; a size that it gives in GiB is rounded."""
    text = text_of(str, error)[:_READ] if isinstance(error, RuntimeError | MemoryError) else ""
    if any(phrase in text for phrase in _LOST):
        return Fault(kind="lost")
    if not isinstance(error, MemoryError) and not _OUT_OF_MEMORY.search(text):
        return None
    match = _REQUESTED.search(text)
    requested = None if match is None else round(float(match[1]) * _UNITS[match[2][0].lower()])
    return Fault(kind="out_of_memory", requested=requested)


def parse_status(status: int | None) -> Fault | None:
    """Return the fault that a number of CUDA's or HIP's runtime stands for."""
    if status == _MEMORY_ALLOCATION:
        return Fault(kind="out_of_memory")
    return Fault(kind="lost") if status in _LOST_STATUSES else None


def remedy(text: str, toolkit: str | None = None) -> str | None:
    """Return the remedy for the first cause that a library's text names; None where none is known.

    `toolkit` says how to get the parts of CUDA's toolkit that the library compiles with.
    """
    for cause, found in _REMEDIES:
        if re.search(cause, text, re.IGNORECASE):
            return found or toolkit or _REINSTALL
    return None
