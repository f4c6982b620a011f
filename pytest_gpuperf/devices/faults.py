"""From what a GPU library raises to what it means for the device, and what its user can do about it."""

import re
from dataclasses import dataclass
from typing import Literal

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Why a GPU cannot be used, by what a library says, and what to do.

    Without a `remedy` it is the library's own, for what it compiles with. `gpu` is what the text says of the
    GPU: it is there, CUDA shows none, or none can be there; one that `is_of_amd` HIP does not show.
    """

    said: str
    remedy: str | None
    gpu: Literal["there", "not shown", "absent"] = "there"
    is_of_amd: bool = False


# The texts of cudaGetErrorString (HIP has the same ones), or of CuPy's, torch's and JAX's own checks, and the
# names of CUDA's errors, which are all that JAX tells of some: cudaErrorNoDevice, CUDA_ERROR_NO_DEVICE.
_CAUSES = (
    Cause(said=r"multiple CuPy packages", remedy="uninstall every CuPy, and install one again"),
    Cause(said=r"CUDA headers|nvrtc", remedy=None),
    Cause(
        said=r"no NVIDIA driver|libcuda\.so\.1: cannot open|CUDA error 303",
        remedy="install the driver, or use a machine that has one",
        gpu="absent",
    ),
    Cause(
        said=r"not compiled with CUDA",
        remedy="install the build for your GPU from https://pytorch.org/get-started/locally",
        gpu="absent",
    ),
    Cause(said=r"Failed to open libtpu", remedy="install jax[tpu] on a machine with a TPU", gpu="absent"),
    Cause(
        said=r"cannot open shared object|undefined symbol|DLL load failed|file too short|invalid ELF header",
        remedy=_REINSTALL,
    ),
    Cause(
        said=r"no HIP GPUs|no ROCm-capable device|hipErrorNoDevice",
        remedy="check `rocm-smi`: a container must be given /dev/kfd and /dev/dri",
        gpu="not shown",
        is_of_amd=True,
    ),
    Cause(
        said=r"no CUDA GPUs|no CUDA-capable device|Error_?No_?Device",
        remedy=_HIDDEN,
        gpu="not shown",
    ),
    Cause(
        said=r"Outdated \w+ installation|Unable to load cu\w+\. Is it|cuDNN (< )?[\d.]+ .*had an? ",
        remedy="install JAX with the CUDA libraries that it was built for: pip install -U 'jax[cuda13]'",
    ),
    Cause(
        said=r"busy or unavailable|Devices?_?Unavailable",
        remedy="wait for the process that has it in exclusive mode, or run `nvidia-smi -c 0`",
    ),
    Cause(
        said=r"no kernel image|not compatible with the current|HIP error: invalid device function",
        remedy="install the library's build for this GPU's generation",
    ),
    Cause(
        said=r"driver version is insufficient|system is too old|installed CUDA driver|unsupported toolchain"
        r"|Insufficient_?Driver",
        remedy="update the GPU's driver, or install the library's build for an older CUDA or ROCm",
    ),
    Cause(
        said=r"No visible GPU devices|no supported devices found for platform",
        remedy="free the GPU: nvidia-smi lists the processes that fill it, or have it in exclusive mode",
    ),
    Cause(
        said=r"out of memory",
        remedy="free memory of the GPU: nvidia-smi (rocm-smi) lists the processes that hold it",
    ),
    Cause(
        said=r"unsupported display driver|System_?Driver_?Mismatch",
        remedy="restart the machine: its driver was updated in part",
    ),
    Cause(
        said=r"forward compatibility|Compat_?Not_?Supported",
        remedy="restart the machine if its driver was updated in part; a container's image must not bring "
        "cuda-compat, which is for a newer CUDA than this GPU's driver can take",
    ),
    Cause(
        said=r"system not yet initialized|System_?Not_?Ready",
        remedy="start NVIDIA's fabric manager: `systemctl start nvidia-fabricmanager`",
    ),
    Cause(
        said=r"OS call failed|Error_?Operating_?System",
        remedy="run `nvidia-modprobe -u` as root, and give this process /dev/nvidia-uvm, or restart the "
        "machine",
    ),
    Cause(
        said=r"create MPS client|support device connections|MPS_?Max_?C",
        remedy="end other programs that use the GPU through MPS, which takes no more of them",
    ),
    Cause(
        said=r"MPS server|MPS_?(Connection|Rpc|Server)",
        remedy="restart MPS (`echo quit | nvidia-cuda-mps-control`, then `nvidia-cuda-mps-control -d`), or "
        "use the GPU without it",
    ),
    Cause(
        said=r"unknown error|CUDA_ERROR_UNKNOWN|cudaErrorUnknown",
        remedy="reload the driver, or restart the machine: both help after it was suspended",
    ),
    Cause(
        said=r"forked|initialization error",
        remedy="let no process use CUDA before it forks: run pytest without a forking plugin",
    ),
    Cause(
        said=r"uncorrectable|fallen off the bus|DEVICE_LOST",
        remedy="reset the GPU or restart the machine: `dmesg` says what failed",
    ),
    Cause(
        said=r"TPU is already in use",
        remedy="end that process: one at a time uses a TPU, so run pytest without workers (-n 0)",
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


def cause(text: str) -> Cause | None:
    """Return the first known cause that a library's text names; None where it names none."""
    return next((known for known in _CAUSES if re.search(known.said, text, re.IGNORECASE)), None)


def remedy(known: Cause | None, otherwise: str, toolkit: str | None = None) -> str:
    """Return what to do about a cause, or else the other remedy.

    `toolkit` says how to get the parts of CUDA's toolkit that the library compiles with.
    """
    return otherwise if known is None else known.remedy or toolkit or _REINSTALL
