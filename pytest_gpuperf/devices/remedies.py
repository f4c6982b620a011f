"""From the text with which a GPU library failed to open a device to what its user can do about it."""

import re

_REINSTALL = "reinstall it with the CUDA libraries it needs"
_OLD_DRIVER = "update the NVIDIA driver, or install the library's build for an older CUDA"
HIDDEN = "check `nvidia-smi -L`: a container must be given its GPUs, and one in MIG mode needs instances"
_FREE_MEMORY = "free memory of the GPU: nvidia-smi lists the processes that hold it"
# The texts of cudaGetErrorString (HIP has the same ones), of CuPy's and of torch's own checks.
_REMEDIES: tuple[tuple[str, str | None], ...] = (  # None: the library's own, for what it compiles with
    (r"multiple CuPy packages", "uninstall every CuPy, and install one again"),
    (r"CUDA headers|nvrtc", None),
    (
        r"cannot open shared object|undefined symbol|DLL load failed|file too short|invalid ELF header",
        _REINSTALL,
    ),
    (r"no (CUDA|HIP) GPUs|no (CUDA|ROCm)-capable device", HIDDEN),
    (r"busy or unavailable", "wait for the process that has it in exclusive mode, or run `nvidia-smi -c 0`"),
    (
        r"no kernel image|not compatible with the current",
        "install the library's build for this GPU's generation",
    ),
    (
        r"driver version is insufficient|system is too old|installed CUDA driver|unsupported toolchain",
        _OLD_DRIVER,
    ),
    (r"no NVIDIA driver", "install the driver, or use a machine that has one"),
    (r"out of memory", _FREE_MEMORY),
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


def remedy(text: str, toolkit: str | None = None) -> str | None:
    """Return the remedy for the first cause that a library's text names; None where none is known.

    `toolkit` says how to get the parts of CUDA's toolkit that the library compiles with.
    """
    for cause, found in _REMEDIES:
        if re.search(cause, text, re.IGNORECASE):
            return found or toolkit or _REINSTALL
    return None
