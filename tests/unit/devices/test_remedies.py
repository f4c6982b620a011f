"""What a library says when it cannot use a GPU has a remedy of its own."""

import re

from cases import for_each

from pytest_gpuperf.devices import remedies

SAID = {
    "CuPy may not function because multiple CuPy packages are installed": "uninstall every CuPy",
    "Failed to find CUDA headers. Please install cuda-toolkit": "install the toolkit",
    "nvrtc: error: failed to open libnvrtc-builtins.so.13.0": "install the toolkit",
    "libcublas.so.13: cannot open shared object file: No such file or directory": "reinstall it with",
    "libcudnn.so.9: undefined symbol: cudnnGetLastErrorString": "reinstall it with the CUDA",
    "libcublasLt.so.13: file too short": "reinstall it with the CUDA",
    "libcusolver.so.12: invalid ELF header": "reinstall it with the CUDA",
    "DLL load failed while importing runtime: The module could not be found": "reinstall it with the CUDA",
    "No CUDA GPUs are available": "MIG mode needs instances",
    "no ROCm-capable device is detected": "a container must be given its GPUs",
    "CUDA-capable device(s) is/are busy or unavailable": "nvidia-smi -c 0",
    "no kernel image is available for execution on the device": "for this GPU's generation",
    "NVIDIA B200 with capability sm_100 is not compatible with the current installation": "GPU's generation",
    "CUDA driver version is insufficient for CUDA runtime version": "update the NVIDIA driver",
    "The NVIDIA driver on your system is too old (found version 11040)": "update the NVIDIA driver",
    "the provided PTX was compiled with an unsupported toolchain": "update the NVIDIA",
    "API call is not supported in the installed CUDA driver": "update the NVIDIA driver",
    "Found no NVIDIA driver on your system": "install the driver, or use a machine that has one",
    "CUDA error: out of memory": "nvidia-smi lists the processes that hold it",
    "system has unsupported display driver / cuda driver combination": "driver was updated in part",
    "forward compatibility was attempted on non supported HW": "driver was updated in part",
    "system not yet initialized": "nvidia-fabricmanager",
    "CUDA unknown error - this may be due to an incorrectly set up environment": "reload the driver",
    "Cannot re-initialize CUDA in forked subprocess": "let no process use CUDA before it forks",
    "initialization error": "let no process use CUDA before it forks",
    "uncorrectable ECC error encountered": "reset the GPU",
    "Unable to determine the device handle for GPU: GPU has fallen off the bus": "reset the GPU",
}


@for_each(("said", "remedy"), SAID.items())
def test_each_cause_has_its_remedy(said, remedy):
    assert remedy in remedies.remedy(said, "install the toolkit")


def test_no_remedy_is_left_out_here():
    causes = [cause for cause, _ in remedies._REMEDIES]
    reached = {next(cause for cause in causes if re.search(cause, said, re.IGNORECASE)) for said in SAID}
    assert {*causes} == reached


def test_what_nobody_knows_has_no_remedy():
    assert remedies.remedy("something new") is None
