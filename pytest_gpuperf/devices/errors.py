"""From a library's words for an error to what it means for the device."""

import re

from pytest_gpuperf.model.errors import Fault

__all__ = ["read"]

_OUT_OF_MEMORY = re.compile(r"out of memory|can't allocate memory|not enough memory|failed to allocate", re.I)
_REQUESTED = re.compile(r"allocat(?:e|ing)(?: request for)? ([\d.]+) ?(bytes|[KMGT]i?B)", re.I)
_UNITS = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}

# What cudaGetErrorString says (HIP has the same words) of errors after which the context cannot be used,
# and what SYCL says of a device that is gone.
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
)


def read(words: str) -> Fault | None:
    """Return the fault that an error's text tells of; bytes that it gives in GiB are rounded."""
    if any(said in words for said in _LOST):
        return Fault(kind="lost")
    if not _OUT_OF_MEMORY.search(words):
        return None
    told = _REQUESTED.search(words)
    requested = None if told is None else round(float(told[1]) * _UNITS[told[2][0].lower()])
    return Fault(kind="out_of_memory", requested=requested)
