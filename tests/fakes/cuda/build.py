"""Build the fake CUDA libraries from the C files beside this one, and find the functions of CuPy to redirect.

What is built is kept in the folder for temporary files, by what it was built from, and never in the tree.
"""

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
# A library's file name, its C files, and what its other functions return: "not supported" in its own codes.
LIBRARIES = {
    "libcudart.so.13": (("timeline", "events", "graphs", "memory", "kernels", "devices"), 801),
    "libcuda.so.1": (("driver",), 801),
    "libcublas.so.13": (("cublas",), 15),
    "libcublasLt.so.13": (("cublaslt",), 15),
    "libcufft.so.12": (("cufft",), 16),
}
PACKAGES = (
    "nvidia-cuda-runtime",
    "nvidia-cuda-crt",
    "nvidia-cuda-cccl",
    "nvidia-cublas",
    "nvidia-cufft",
    "cupy-cuda13x",
)
# Warnings are errors, but CUDA's own signatures have arguments that are of no use here.
FLAGS = (
    "-O1",
    "-fPIC",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unused-parameter",
    "-Wno-missing-field-initializers",
)


class CannotBuildError(Exception):
    """Something that the fake is built from is missing; the text says what, and how to get it."""


def build() -> Path:
    """Return the folder of the built libraries; raise CannotBuildError if they cannot be built here."""
    folder = Path(tempfile.gettempdir()) / f"gpuperf-fake-cuda-{os.getuid()}-{_digest()}"
    if folder.is_dir() and folder.stat().st_uid == os.getuid():  # it is preloaded: nobody else may provide it
        return folder
    _require_tools()
    toolkit = _toolkit()
    with tempfile.TemporaryDirectory(dir=tempfile.gettempdir()) as temporary:
        work = Path(temporary) / "built"
        work.mkdir()
        for name, (sources, refusal) in LIBRARIES.items():
            _compile(work, toolkit, name, sources, refusal)
        (work / "cupy.json").write_text(json.dumps(_cupy_functions(work / "libcudart.so.13")))
        try:
            work.rename(folder)
        except OSError:
            if not folder.is_dir() or folder.stat().st_uid != os.getuid():
                raise  # else another process of ours was faster
    return folder


def _digest() -> str:
    """Return what the built libraries depend on, as a short name."""
    content = hashlib.sha256()
    for path in sorted(HERE.glob("*")):
        if path.is_file():
            content.update(path.read_bytes())
    for package in PACKAGES:
        try:
            content.update(f"{package} {version(package)}".encode())
        except PackageNotFoundError:
            continue
    cupy = find_spec("cupy")
    content.update(
        str(cupy and cupy.origin).encode()
    )  # the specification's text has addresses of this process
    return content.hexdigest()[:16]


def _toolkit() -> Path:
    """Return the folder of CUDA 13's headers and libraries, as NVIDIA's wheels install them."""
    found = find_spec("nvidia")
    for root in found.submodule_search_locations or () if found else ():
        toolkit = Path(root) / "cu13"
        headers = (toolkit / "include" / "cuda_runtime_api.h", toolkit / "include" / "crt" / "host_defines.h")
        if all(header.exists() for header in headers):
            return toolkit
    needed = (
        "torch's CUDA 13 build brings the libraries, "
        "and nvidia-cuda-crt and nvidia-cuda-cccl the rest of the headers"
    )
    raise CannotBuildError(f"the fake CUDA runtime is built from NVIDIA's wheels for CUDA 13: {needed}")


def _require_tools() -> None:
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise CannotBuildError(
            "the fake CUDA runtime runs on Linux on x86-64 alone: it preloads, and writes jumps"
        )
    missing = [tool for tool in ("cc", "nm") if shutil.which(tool) is None]
    if missing:
        needed = "a C compiler and binutils (on Debian the packages gcc and binutils)"
        raise CannotBuildError(f"{' and '.join(missing)} not found: the fake CUDA runtime needs {needed}")


def _compile(work: Path, toolkit: Path, name: str, sources: tuple[str, ...], refusal: int) -> None:
    """Build one library with all the names of the real one, which other libraries look for as they load."""
    files = [HERE / f"{source}.c" for source in sources]
    rest = work / "rest.c"
    names = _driver_names(toolkit) if name == "libcuda.so.1" else _exported(toolkit / "lib" / name)
    # Weak, so that what is written in the C files takes its place.
    refuse = f"__attribute__((weak)) int name(void) {{ return fake_unsupported(#name, {refusal}); }}"
    lines = [
        "int fake_unsupported(const char *name, int code);",
        f"#define REFUSE(name) {refuse}",
        *(f"REFUSE({each})" for each in sorted(names)),
    ]
    rest.write_text("\n".join(lines))
    versions = work / "versions"
    # torch asks for each name in the version that NVIDIA gave it, which is the name of the file.
    versions.write_text(f"{name} {{ global: cu*; __cu*; fake_*; }};\n")
    first = name == "libcudart.so.13"
    linked = () if first else ("-L", str(work), "-l:libcudart.so.13", "-Wl,-rpath,$ORIGIN")
    versioned = () if name == "libcuda.so.1" else (f"-Wl,--version-script={versions}",)
    include = toolkit / "include"
    command = ("cc", *FLAGS, "-shared", f"-I{include}", f"-Wl,-soname,{name}", *versioned)
    command += ("-o", str(work / name), *map(str, files), str(rest), *linked, "-lpthread", "-ldl")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    rest.unlink()
    versions.unlink()
    if done.returncode:
        raise CannotBuildError(f"{name} of the fake CUDA runtime could not be built:\n{done.stderr}")


def _exported(library: Path) -> set[str]:
    """Return the functions of a library."""
    return {name for _, name in _symbols(library, "-D", "--defined-only", kinds="TW")}


def _driver_names(toolkit: Path) -> set[str]:
    """Return the functions of the driver, whose library no wheel has; their versions are in the header."""
    header = (toolkit / "include" / "cuda.h").read_text()
    names = set(re.findall(r"\bCUDAAPI (cu[A-Z]\w+)\(", header))
    return names | set(re.findall(r"#define cu[A-Z]\w+\s+(cu[A-Z]\w+)", header))


def _cupy_functions(runtime: Path) -> dict[str, list[tuple[int, str]]]:
    """Return the addresses of CUDA's runtime in each of CuPy's modules, which have it in them, by file."""
    ours = _exported(runtime)
    found = find_spec("cupy")
    if found is None or found.origin is None:
        return {}
    root = Path(found.origin).parents[1]
    functions = {}
    for module in (*root.glob("cupy/**/*.so"), *root.glob("cupy_backends/**/*.so")):
        inside = [
            each for each in _symbols(module, kinds="tT") if each[1] in ours and each[1].startswith("cuda")
        ]
        if len(inside) > 100:  # else it only calls some
            functions[str(module)] = inside
    return functions


def _symbols(library: Path, *options: str, kinds: str) -> list[tuple[int, str]]:
    """Return the addresses and names of functions in a file, without the version."""
    listed = subprocess.run(["nm", *options, str(library)], capture_output=True, text=True, check=False)  # noqa: S607 - of binutils
    pattern = rf"^([0-9a-f]+) [{kinds}] (\w+)"
    return [(int(address, 16), name) for address, name in re.findall(pattern, listed.stdout, re.MULTILINE)]
