"""From a device to the libraries that compute on it, and to what limits the threads of each on a CPU."""

import re

from pytest_gpuperf.model.measurement import DeviceInfo

OPENMP = "OMP_NUM_THREADS"
LIMITS = {
    **dict.fromkeys(("numpy", "array_api_strict", "torch", "sklearn"), OPENMP),
    "jax": "NPROC",
    "polars": "POLARS_MAX_THREADS",
}
"""The variable that limits a library's threads.

Each was tried: at 1 the work of the library's CPU is that of one thread. OpenBLAS, MKL and BLIS read OpenMP's
variable, too. XLA takes no flag for it (`xla_cpu_multi_thread_eigen` changes nothing), and sizes its pool by
NPROC. A library that is not here has no threads, or nobody has tried.
"""


def libraries(device: DeviceInfo) -> list[str]:
    """Return the libraries that work on a device and can be limited: `jax` of Keras on JAX."""
    words = re.findall(r"\w+", f"{device.backend} {device.library}".lower())
    return [library for library in LIMITS if library in words]
