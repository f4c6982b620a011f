"""Put the fake CUDA runtime under CuPy, whose modules contain NVIDIA's: each function jumps to the fake's.

Python imports this file as it starts, in each process that the fake is given to by its environment.
"""

import ctypes
import json
import mmap
import os
import struct
from importlib.machinery import ExtensionFileLoader
from pathlib import Path

_FOLDER = Path(os.environ["FAKE_CUDA"])
_FUNCTIONS = json.loads((_FOLDER / "cupy.json").read_text())
_create = ExtensionFileLoader.create_module


def _create_module(self, spec):
    """Load a module; one of CuPy's is redirected before its own code runs."""
    module = _create(self, spec)
    if spec.origin in _FUNCTIONS:
        _redirect(spec.origin)
    return module


def _redirect(path):
    libc = ctypes.CDLL(None, use_errno=True)
    fake = ctypes.CDLL(str(_FOLDER / "libcudart.so.13"))
    base = _base_of(path)
    for offset, name in _FUNCTIONS[path]:
        address = base + offset
        page = address & -mmap.PAGESIZE
        everything = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
        if libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(2 * mmap.PAGESIZE), everything):
            raise OSError(ctypes.get_errno(), f"{path} cannot be redirected to the fake CUDA runtime")
        function = getattr(fake, f"fake_cupy_{name}", None) or getattr(fake, name)
        target = ctypes.cast(function, ctypes.c_void_p).value
        jump = b"\x48\xb8" + struct.pack("<Q", target) + b"\xff\xe0"  # mov rax, target; jmp rax
        ctypes.memmove(address, jump, len(jump))


def _base_of(path):
    """Return where a library begins in memory."""
    with Path("/proc/self/maps").open(encoding="utf-8") as maps:
        return min(int(line.partition("-")[0], 16) for line in maps if line.rstrip().endswith(path))


ExtensionFileLoader.create_module = _create_module
