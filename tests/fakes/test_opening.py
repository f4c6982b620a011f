"""Why a GPU cannot be used, by the real libraries: each cause has its own sentence and remedy."""

import json
import os
import subprocess
import sys

import pytest

OPEN = """
import json, os, sys
from pytest_gpuperf.devices.machine import Machine
from pytest_gpuperf.model.errors import Unavailable

library, causes = json.loads(sys.argv[1])
for setting in causes:
    name, _, value = setting.partition("=")
    os.environ[name] = value
    try:
        said = Machine(library).gpu().name, None
    except Unavailable as cause:
        said = str(cause), cause.broken
    del os.environ[name]
    print(json.dumps(said))
"""
NO_DRIVER, OLD_DRIVER = "FAKE_CUDA_DRIVER=0", "FAKE_CUDA_DRIVER=11040"
NONE = "FAKE_CUDA_DEVICES=0"  # so is a GPU in MIG mode without an instance
HIDDEN, NO_SUCH = "CUDA_VISIBLE_DEVICES=", "CUDA_VISIBLE_DEVICES=7"
EXCLUSIVE, NO_KERNELS = "FAKE_CUDA_REFUSE=46", "FAKE_CUDA_REFUSE=209"
NO_FABRIC, SUSPENDED = "FAKE_CUDA_REFUSE=802", "FAKE_CUDA_REFUSE=999"
# These come before any device is counted.
UNCOUNTED = {number: f"FAKE_CUDA_COUNT_ERROR={number}" for number in (304, 802, 803, 804, 805, 807, 808, 999)}
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
    UNCOUNTED[805]: (RESTART_MPS, True),
    UNCOUNTED[807]: (RESTART_MPS, True),
    UNCOUNTED[808]: ("end other programs that use the GPU through MPS", True),
    UNCOUNTED[999]: ("reload the driver, or restart the machine", True),
}
UNCOUNTED_SAID = {
    UNCOUNTED[304]: "OS call failed or operation not supported on this OS; ",
    UNCOUNTED[802]: "system not yet initialized; ",
    UNCOUNTED[803]: "system has unsupported display driver / cuda driver combination; ",
    UNCOUNTED[804]: "forward compatibility was attempted on non supported HW; ",
    UNCOUNTED[805]: "MPS client failed to connect to the MPS control daemon or the MPS server; ",
    UNCOUNTED[807]: "MPS server is not ready to accept new MPS client requests; ",
    UNCOUNTED[808]: "the hardware resources required to create MPS client have been exhausted; ",
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
        SUSPENDED: "cannot use cuda:0: CUDA error: unknown error; ",
    },
}


def opened(library, *causes, **settings):
    """Return what is said for each cause, and whether the GPU is there, in one process."""
    command = [sys.executable, "-c", OPEN, json.dumps([library, causes])]
    done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


# torch counts devices once in a process, so those that it finds come in one of their own.
@pytest.mark.parametrize("library", SAID)
@pytest.mark.parametrize(
    "causes",
    [
        (NO_DRIVER, OLD_DRIVER, NONE, HIDDEN, NO_SUCH, *UNCOUNTED.values()),
        (EXCLUSIVE, NO_KERNELS, NO_FABRIC, SUSPENDED),
    ],
)
def test_each_cause_has_its_sentence_and_its_remedy(library, causes):
    for cause, (said, is_broken) in zip(causes, opened(library, *causes), strict=True):
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
