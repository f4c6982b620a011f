"""Run `python ARGUMENTS` where CuPy and torch find fake CUDA devices: `python tests/fakes/cuda ARGUMENTS`.

Beside CUDA's runtime there are the products of cuBLAS and the transforms of cuFFT; what needs cuDNN, cuRAND,
cuSOLVER or cuSPARSE fails. Settings of the fake, in the environment, which are read at each use:

    FAKE_CUDA_CALL_NS     what a launch takes on the host (1500)
    FAKE_CUDA_LATENCY_NS  what passes then until an idle device begins (2500)
    FAKE_CUDA_QUEUE       how many launches may wait for a stream's device (1000; 0: any number)
    FAKE_CUDA_KERNEL_NS   what a kernel takes (2000)
    FAKE_CUDA_KERNELS     the same by a part of the kernels' names: "add=20000 gemm=5000"
    FAKE_CUDA_CRASH       a part of the names of kernels that lose their device, beside those called "crash"
    FAKE_CUDA_CRASH_ERROR the number of the error that a lost device returns (700, an illegal address)
    FAKE_CUDA_GBPS        the bandwidth of copies from and to the host (20)
    FAKE_CUDA_TFLOPS      the rate of matrix products (20)
    FAKE_CUDA_MEMORY      the bytes of a device (8 GiB)
    FAKE_CUDA_DEVICES     how many devices there are (1); CUDA_VISIBLE_DEVICES may hide some
    FAKE_CUDA_DRIVER      the CUDA version that the driver supports: 11040, or 0 without a driver (13020)
    FAKE_CUDA_COUNT_ERROR the number of the error of a driver that cannot count its devices (0)
    FAKE_CUDA_RAMP_US     for how long after 10 ms of idling a device works at 345 of 1980 MHz (0)
    FAKE_CUDA_REFUSE      the number of the error with which devices refuse to be used: 46 of exclusive mode
    FAKE_CUDA_LOG         1 writes launches, allocations, and what the fake lacks to the standard error
"""

import os
import sys

from build import HERE, LIBRARIES, CannotBuildError, build


def main() -> None:
    """Become the process that was asked for; its own processes find the fake, too."""
    try:
        folder = build()
    except CannotBuildError as error:
        sys.exit(str(error))
    preloaded = ":".join(str(folder / name) for name in LIBRARIES)
    above = os.environ.get("PYTHONPATH")
    path = os.pathsep.join(filter(None, (str(HERE / "site"), above)))
    # Compiled kernels are for no GPU, and kept apart from those that are.
    ours = {
        "CUPY_CACHE_DIR": str(folder / "kernels"),
        "FAKE_CUDA": str(folder),
        "LD_PRELOAD": preloaded,
        "PYTHONPATH": path,
        "TRITON_LIBCUDA_PATH": str(folder),
    }
    os.execve(sys.executable, [sys.executable, *sys.argv[1:]], {**os.environ, **ours})  # noqa: S606 - Python


if __name__ == "__main__":
    main()
