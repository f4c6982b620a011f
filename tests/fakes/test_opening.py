"""Why a GPU cannot be used, by the real libraries: each cause has its own sentence and remedy."""

import json
import os
import subprocess
import sys

import pytest

OPEN = """
import json, os, sys, warnings
from pytest_gpuperf.devices.machine import Machine
from pytest_gpuperf.model.errors import Unavailable

def open_device(setting):
    name, _, value = setting.partition("=")
    os.environ[name] = value
    try:
        said = Machine(library).gpu().name, None
    except Unavailable as cause:
        said = str(cause), cause.broken
    print(json.dumps(said), flush=True)

library, causes = json.loads(sys.argv[1])
for setting in causes[:-1]:  # each in a process of its own, where the library is imported
    __import__(library)
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    child = os.fork()
    if not child:
        open_device(setting)
        os._exit(0)
    os.waitpid(child, 0)
open_device(causes[-1])
"""
NO_DRIVER, OLD_DRIVER = "FAKE_CUDA_DRIVER=0", "FAKE_CUDA_DRIVER=11040"
NONE = "FAKE_CUDA_DEVICES=0"  # so is a GPU in MIG mode without an instance
HIDDEN, NO_SUCH = "CUDA_VISIBLE_DEVICES=", "CUDA_VISIBLE_DEVICES=7"
EXCLUSIVE, NO_KERNELS = "FAKE_CUDA_REFUSE=46", "FAKE_CUDA_REFUSE=209"
NO_MEMORY = "FAKE_CUDA_REFUSE=2"
NO_FABRIC, SUSPENDED = "FAKE_CUDA_REFUSE=802", "FAKE_CUDA_REFUSE=999"
# These come before any device is counted.
UNCOUNTED = {number: f"FAKE_CUDA_COUNT_ERROR={number}" for number in (304, *range(802, 810), 999)}
# Of JAX's plugins, by a stand-in for one.
OLD_CUDNN = "OLD_CUDNN=Outdated cuDNN installation found.\nVersion JAX was built against: 91002"
FULL = "cuda=FAILED_PRECONDITION: No visible GPU devices."
TPU_IN_USE = "tpu=ABORTED: The TPU is already in use by process with pid 7. Not attempting to load libtpu.so."
RESTART_MPS = "restart MPS (`echo quit | nvidia-cuda-mps-control`"
REMEDIES = {  # and whether the GPU is there: then a run that names it fails
    NO_DRIVER: ("install the driver, or use a machine that has one", False),
    NONE: ("one in MIG mode needs instances; CUDA_VISIBLE_DEVICES is not set", False),
    HIDDEN: ("one in MIG mode needs instances; CUDA_VISIBLE_DEVICES is '', which may hide devices", False),
    NO_SUCH: ("one in MIG mode needs instances; CUDA_VISIBLE_DEVICES is '7', which may hide devices", False),
    OLD_DRIVER: ("update the", True),
    EXCLUSIVE: ("wait for the process that has it in exclusive mode, or run `nvidia-smi -c 0`", True),
    NO_KERNELS: ("install the library's build for this GPU's generation", True),
    NO_FABRIC: ("systemctl start nvidia-fabricmanager", True),
    SUSPENDED: ("reload the driver, or restart the machine", True),
    UNCOUNTED[304]: ("run `nvidia-modprobe -u` as root", True),
    UNCOUNTED[802]: ("systemctl start nvidia-fabricmanager", True),
    UNCOUNTED[803]: ("restart the machine: its driver was updated in part", True),
    UNCOUNTED[804]: ("a container's image must not bring cuda-compat", True),
    **{UNCOUNTED[number]: (RESTART_MPS, True) for number in (805, 806, 807)},
    **{UNCOUNTED[number]: ("end other programs that use the GPU through MPS", True) for number in (808, 809)},
    NO_MEMORY: ("free memory of the GPU: nvidia-smi (rocm-smi) lists the processes that hold it", True),
    UNCOUNTED[999]: ("reload the driver, or restart the machine", True),
    OLD_CUDNN: ("install JAX with the CUDA libraries that it was built for", True),
    FULL: ("free the GPU: nvidia-smi lists the processes that fill it", True),
    TPU_IN_USE: ("end that process: one at a time uses a TPU", True),
}
UNCOUNTED_SAID = {
    UNCOUNTED[304]: "OS call failed or operation not supported on this OS; ",
    UNCOUNTED[802]: "system not yet initialized; ",
    UNCOUNTED[803]: "system has unsupported display driver / cuda driver combination; ",
    UNCOUNTED[804]: "forward compatibility was attempted on non supported HW; ",
    UNCOUNTED[805]: "MPS client failed to connect to the MPS control daemon or the MPS server; ",
    UNCOUNTED[806]: "the remote procedural call between the MPS server and the MPS client failed; ",
    UNCOUNTED[807]: "MPS server is not ready to accept new MPS client requests; ",
    UNCOUNTED[808]: "the hardware resources required to create MPS client have been exhausted; ",
    UNCOUNTED[809]: "the hardware resources required to support device connections have been exhausted; ",
    UNCOUNTED[999]: "unknown error",
}
SAID = {
    "cupy": {
        **UNCOUNTED_SAID,
        NO_DRIVER: "CuPy is installed but no NVIDIA driver is; ",
        OLD_DRIVER: "CUDA cannot be used: cudaErrorInsufficientDriver: CUDA driver version is insufficient",
        **dict.fromkeys(
            (NONE, HIDDEN, NO_SUCH),
            "CUDA cannot be used: cudaErrorNoDevice: no CUDA-capable device is detected; ",
        ),
        EXCLUSIVE: "CuPy's CUDA device 0 was found but cannot be used: cudaErrorDevicesUnavailable: ",
        NO_KERNELS: "CuPy's CUDA device 0 was found but cannot be used: cudaErrorNoKernelImageForDevice: ",
        NO_FABRIC: "CuPy's CUDA device 0 was found but cannot be used: cudaErrorSystemNotReady: ",
        NO_MEMORY: "CuPy's CUDA device 0 was found but cannot be used: cudaErrorMemoryAllocation: out of mem",
        SUSPENDED: "CuPy's CUDA device 0 was found but cannot be used: cudaErrorUnknown: unknown error; ",
    },
    "torch": {
        **UNCOUNTED_SAID,
        NO_DRIVER: "cannot use cuda:0: Found no NVIDIA driver on your system",
        OLD_DRIVER: "cannot use cuda:0: The NVIDIA driver on your system is too old (found version 11040)",
        **dict.fromkeys((NONE, HIDDEN, NO_SUCH), "cannot use cuda:0: No CUDA GPUs are available; "),
        EXCLUSIVE: "cannot use cuda:0: CUDA error: CUDA-capable device(s) is/are busy or unavailable; ",
        NO_KERNELS: "cannot use cuda:0: CUDA error: no kernel image is available for execution on the device",
        NO_FABRIC: "cannot use cuda:0: CUDA error: system not yet initialized; ",
        NO_MEMORY: "cannot use cuda:0: CUDA error: out of memory; ",
        SUSPENDED: "cannot use cuda:0: CUDA error: unknown error; ",
    },
    "jax": {
        NO_DRIVER: "operation cuInit(0) failed: Unknown CUDA error 303; cuGetErrorName failed.",
        OLD_DRIVER: "operation cuDeviceGetCount(&device_count) failed: CUDA_ERROR_INSUFFICIENT_DRIVER; ",
        **dict.fromkeys((NONE, HIDDEN, NO_SUCH), "operation cuInit(0) failed: CUDA_ERROR_NO_DEVICE; "),
        UNCOUNTED[304]: "operation cuInit(0) failed: CUDA_ERROR_OPERATING_SYSTEM; ",
        UNCOUNTED[802]: "operation cuInit(0) failed: CUDA_ERROR_SYSTEM_NOT_READY; ",
        UNCOUNTED[803]: "operation cuInit(0) failed: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH; ",
        UNCOUNTED[804]: "operation cuInit(0) failed: CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE; ",
        UNCOUNTED[805]: "operation cuInit(0) failed: CUDA_ERROR_MPS_CONNECTION_FAILED; ",
        UNCOUNTED[806]: "operation cuInit(0) failed: CUDA_ERROR_MPS_RPC_FAILURE; ",
        UNCOUNTED[807]: "operation cuInit(0) failed: CUDA_ERROR_MPS_SERVER_NOT_READY; ",
        UNCOUNTED[808]: "operation cuInit(0) failed: CUDA_ERROR_MPS_MAX_CLIENTS_REACHED; ",
        UNCOUNTED[809]: "operation cuInit(0) failed: CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED; ",
        UNCOUNTED[999]: "operation cuInit(0) failed: CUDA_ERROR_UNKNOWN; ",
        OLD_CUDNN: "JAX sees no GPU: Outdated cuDNN installation found; ",
        FULL: "initialize backend 'cuda': FAILED_PRECONDITION: No visible GPU devices; ",
        TPU_IN_USE: "JAX sees no GPU: tpu: ABORTED: The TPU is already in use by process with pid 7. ",
    },
}
JAX_PLUGIN = """
import os
from ctypes import CDLL, byref, c_char_p, c_int
from functools import partial
from jax._src import hardware_utils, xla_bridge

def raises(said):
    raise RuntimeError(said)

def check(line, call, error):
    name = c_char_p()
    is_named = not driver.cuGetErrorName(error, byref(name))
    said = name.value.decode() if is_named else f"Unknown CUDA error {error}; cuGetErrorName failed. This"
    if error:
        raise RuntimeError(f"jaxlib/cuda/versions_helpers.cc:{line}: operation {call} failed: {said}")

driver = CDLL("libcuda.so.1")

def initialize():
    check(135, "cuInit(0)", driver.cuInit(0))
    check(139, "cuDeviceGetCount(&device_count)", driver.cuDeviceGetCount(byref(c_int())))
    if "OLD_CUDNN" in os.environ:
        raise RuntimeError(os.environ["OLD_CUDNN"])
    for platform, is_quiet in (("cuda", False), ("tpu", True)):
        if platform in os.environ:
            start = partial(raises, os.environ[platform])
            xla_bridge.register_backend_factory(platform, start, fail_quietly=is_quiet)
    hardware_utils.has_visible_nvidia_gpu = lambda: True
    hardware_utils.num_available_tpu_chips_and_device_id = lambda: (4, None)
"""


@pytest.fixture(scope="session")
def jax_plugin(tmp_path_factory):
    """Return a path with a plugin that says what JAX's own for CUDA says.

    It asks the driver as that does. What does not come from the driver is in its environment.
    """
    folder = tmp_path_factory.mktemp("plugin")
    (folder / "jax_plugins").mkdir()
    (folder / "jax_plugins" / "stand_in.py").write_text(JAX_PLUGIN)
    return os.pathsep.join([str(folder), os.environ["PYTHONPATH"]])


def opened(library, *causes, **settings):
    """Return what is said for each cause, and whether the GPU is there, in one process."""
    command = [sys.executable, "-c", OPEN, json.dumps([library, causes])]
    done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("library", SAID)
def test_each_cause_has_its_sentence_and_its_remedy(library, jax_plugin):
    causes = SAID[library]
    for cause, (said, is_broken) in zip(causes, opened(library, *causes, PYTHONPATH=jax_plugin), strict=True):
        assert SAID[library][cause] in said
        assert (REMEDIES[cause][0] in said, REMEDIES[cause][1]) == (True, is_broken), said


def test_keras_on_torch_says_of_a_numbered_gpu_what_torch_says():
    ((said, is_broken),) = opened("keras:1", NONE, KERAS_BACKEND="torch")
    assert SAID["torch"][NONE] in said
    assert not is_broken


def test_two_cupys_that_are_installed_are_named_where_warnings_are_errors(tmp_path):
    second = tmp_path / "cupy_cuda12x-14.0.dist-info"
    second.mkdir()
    (second / "METADATA").write_text("Metadata-Version: 2.1\nName: cupy-cuda12x\nVersion: 14.0\n")
    path = os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]])
    ((said, is_broken),) = opened("cupy", "FAKE_CUDA_LOG=0", PYTHONPATH=path, PYTHONWARNINGS="error")
    assert "multiple CuPy packages are installed; uninstall every CuPy, and install one again" in said
    assert is_broken


def test_keras_on_jax_says_what_jax_says(jax_plugin):
    ((said, is_broken),) = opened("keras", UNCOUNTED[802], KERAS_BACKEND="jax", PYTHONPATH=jax_plugin)
    assert SAID["jax"][UNCOUNTED[802]] in said
    assert is_broken


def test_what_the_driver_says_is_known_without_a_library():
    ask = "from pytest_gpuperf.devices.nvml import driver_failure; print(driver_failure())"
    for cause, expected in (
        ("FAKE_CUDA_LOG=0", "None"),
        (NO_DRIVER, "CUDA error 303"),
        (NONE, "CUDA_ERROR_NO_DEVICE"),
        (UNCOUNTED[802], "CUDA_ERROR_SYSTEM_NOT_READY"),
    ):
        environment = {**os.environ, **dict([cause.split("=")])}
        said = subprocess.check_output([sys.executable, "-c", ask], env=environment, text=True)
        assert expected == said.strip()
