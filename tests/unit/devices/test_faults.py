"""From what GPU libraries raise to faults (memory that ran out, devices that are lost) and to remedies."""

import re
from types import SimpleNamespace

import pytest
from cases import for_each

from pytest_gpuperf.devices import capabilities, faults
from pytest_gpuperf.devices.simulated import Clock, Injected, SimulatedDevice

GIB = 1 << 30


@for_each(
    ("text", "requested"),
    [
        ("CUBLAS_STATUS_ALLOC_FAILED", None),
        ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", None),
        ("cuDNN error: CUDNN_STATUS_ALLOC_FAILED", None),
        ("cuFFT error: CUFFT_ALLOC_FAILED", None),
        ("Invalid buffer size: 9.50 GB", 19 * GIB // 2),
        ("Invalid buffer size: 9.50 GiB", 19 * GIB // 2),
        (
            "MPS backend out of memory (MPS allocated: 9 GB). Tried to allocate 256.00 MB on private pool.",
            1 << 28,
        ),
        ("RESOURCE_EXHAUSTED: Attempting to allocate 60.00G. That was not possible.", 60 * GIB),
        ("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4096 bytes.", 4096),
        ("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1.50GiB", 3 * GIB // 2),
        ("RESOURCE_EXHAUSTED: Failed to allocate request for 176.00MiB (184549376B)", 11 << 24),
        ("[malloc] Unable to allocate 4096 bytes.", 4096),
        ("CUDA error: out of memory", None),
        ("CUDA out of memory. Tried to allocate 20.50 MiB (GPU 0;", 41 << 19),
        ("DefaultCPUAllocator: can't allocate memory: you tried to allocate 96 bytes.", 96),
        ("[METAL] Command buffer execution failed: Insufficient Memory (00000008)", None),
        ("Native API failed: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)", None),
    ],
)
def test_every_form_of_out_of_memory_is_told_with_its_bytes(text, requested):
    fault = faults.parse_error(RuntimeError(text))
    assert fault is not None
    assert ("out_of_memory", requested) == (fault.kind, fault.requested)


@for_each(("size", "requested"), [("1.50 GiB", 3 * GIB // 2), ("32.0 PiB", 1 << 55), ("2.00 EiB", 1 << 61)])
def test_a_memory_error_of_the_host_tells_its_bytes(size, requested):
    error = MemoryError(f"Unable to allocate {size} for an array with shape (201326592,)")
    assert faults.parse_error(error).requested == requested


@for_each(
    ("kind", "text"),
    [
        ("lost", "CUDA error: unknown error"),
        ("lost", "CUDA_ERROR_UNKNOWN: unknown error"),
        ("lost", "HIP error: unknown error"),
        ("lost", "CUDA error: uncorrectable NVLink error detected during the execution"),
        ("lost", "CUDA error: Invalid access of peer GPU memory over nvlink or a hardware error"),
        ("lost", "CUDA error: the MPS client has been terminated"),
        ("lost", "CUDA error: an illegal memory access was encountered\nCUDA kernel errors"),
        ("lost", "INTERNAL: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered"),
        ("lost", "CUDA error: device-side assert triggered"),
        ("lost", "HIP error: unspecified launch failure"),
        (None, "CUDA error: invalid argument"),
        (None, "CUDA error: invalid configuration argument"),
        (None, "RESOURCE_EXHAUSTED: Shared memory size limit exceeded: requested 180224"),
        (None, "INVALID_ARGUMENT: Executable expected parameter 0 of size 4"),
        (None, "mat1 and mat2 shapes cannot be multiplied"),
        (None, "unknown error"),
        (None, "invalid buffer"),
        (None, "CUBLAS_STATUS_EXECUTION_FAILED"),
    ],
)
def test_some_errors_lose_the_device(kind, text):
    fault = faults.parse_error(RuntimeError(text))
    assert kind == (fault and fault.kind)
    assert faults.parse_error(ValueError(text)) is None, "which no library raises for that"


@for_each(
    ("kind", "statuses"),
    [("lost", (220, 700, 719, 999)), ("out_of_memory", (2,)), (None, (1, 46, None))],
)
def test_so_do_the_same_errors_by_their_numbers(kind, statuses):
    found = [faults.parse_status(status) for status in statuses]
    assert [kind] * len(statuses) == [fault and fault.kind for fault in found]


def lost_device() -> SimulatedDevice:
    device = SimulatedDevice("gpu", clock=Clock(), faults=[Injected(kind="lost", call=1)])
    with pytest.raises(RuntimeError, match="lost"):
        device.launch()
    return device


def test_an_error_that_says_nothing_of_the_device_is_followed_by_one_wait_that_does():
    fault = capabilities.fault(lost_device(), RuntimeError("CUBLAS_STATUS_EXECUTION_FAILED"))
    assert fault is not None
    assert fault.kind == "lost"


@for_each(
    ("error", "free"),
    [
        (RuntimeError("CUDA error: out of memory"), 1000),
        (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"), None),  # it says how many
        (MemoryError(), None),  # of the host, maybe
        (RuntimeError("CUDA error: unknown error"), None),
    ],
)
def test_where_an_error_does_not_say_how_many_bytes_were_requested_the_free_ones_are_told(error, free):
    device = SimpleNamespace(fault=faults.parse_error, free_memory=lambda: 1000)
    assert capabilities.fault(device, error).free == free


def test_a_device_that_still_waits_has_no_fault():
    device = SimulatedDevice("gpu", clock=Clock())
    assert capabilities.fault(device, ValueError("wrong shape")) is None


def test_an_end_from_outside_waits_for_no_device():
    assert capabilities.fault(lost_device(), KeyboardInterrupt()) is None
    assert capabilities.fault(lost_device(), pytest.fail.Exception("timeout")) is None


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
    assert remedy in faults.remedy(said, "install the toolkit")


def test_no_remedy_is_left_out_here():
    causes = [cause for cause, _ in faults._REMEDIES]
    reached = {next(cause for cause in causes if re.search(cause, said, re.IGNORECASE)) for said in SAID}
    assert {*causes} == reached


def test_what_nobody_knows_has_no_remedy():
    assert faults.remedy("something new") is None
