"""From what GPU libraries raise to faults (memory that ran out, devices that are lost) and to remedies."""

import re

import pytest
from cases import for_each

from pytest_gpuperf.devices import capabilities, library
from pytest_gpuperf.devices.choice import backends
from pytest_gpuperf.devices.simulated import Clock, Injected, SimulatedDevice
from pytest_gpuperf.model.errors import Unavailable

GIB = 1 << 30


@pytest.fixture
def cupy(with_cupy):
    """Return a function that opens one of CuPy's two GPUs, whose first kernel may raise."""

    def call(selector="", error=None):
        waited = with_cupy(2, error)
        backend = backends()["cupy"]
        backend.check(selector)
        gpu = backend.gpu(selector)
        assert waited == [int(selector or 0)]
        return gpu

    return call


@for_each(
    ("text", "requested"),
    [
        ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", None),
        ("cuFFT error: CUFFT_ALLOC_FAILED", None),
        ("Invalid buffer size: 9.50 GB", 19 * GIB // 2),
        (
            "MPS backend out of memory (MPS allocated: 9 GB). Tried to allocate 256.00 MB on private pool.",
            1 << 28,
        ),
        ("RESOURCE_EXHAUSTED: Attempting to allocate 60.00G. That was not possible.", 60 * GIB),
        ("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4096 bytes.", 4096),
        ("RESOURCE_EXHAUSTED: Failed to allocate request for 176.00MiB (184549376B)", 11 << 24),
        ("[malloc] Unable to allocate 4096 bytes.", 4096),
        ("CUDA error: out of memory", None),
        ("CUDA out of memory. Tried to allocate 20.50 MiB (GPU 0;", 41 << 19),
        ("DefaultCPUAllocator: can't allocate memory: you tried to allocate 96 bytes.", 96),
        ("[METAL] Command buffer execution failed: Insufficient Memory (00000008)", None),
        ("Native API failed: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)", None),
    ],
)
def test_every_form_of_out_of_memory_is_told_with_its_bytes_else_the_free_ones(cupy, text, requested):
    gpu = cupy()
    gpu.free_memory = lambda: 1000
    fault = capabilities.fault(gpu, RuntimeError(text))
    assert ("out_of_memory", requested) == (fault.kind, fault.requested)
    assert fault.free == (1000 if requested is None else None)


def test_a_memory_error_is_the_hosts_maybe_and_tells_its_bytes(cupy):
    gpu = cupy()
    gpu.free_memory = lambda: 1000
    for size, requested in (
        (" 1.50 GiB", 3 * GIB // 2),
        (" 32.0 PiB", 1 << 55),
        (" 2.00 EiB", 1 << 61),
        ("", None),
    ):
        fault = capabilities.fault(gpu, MemoryError(f"Unable to allocate{size} for an array"))
        assert (requested, None) == (fault.requested, fault.free)


@for_each(
    ("kind", "text"),
    [
        ("lost", "CUDA error: unknown error"),
        ("lost", "CUDA_ERROR_UNKNOWN: unknown error"),
        ("lost", "HIP error: unknown error"),
        ("lost", "CUDA error: uncorrectable NVLink error detected during the execution"),
        ("lost", "CUDA error: the MPS client has been terminated"),
        ("lost", "CUDA error: an illegal memory access was encountered\nCUDA kernel errors"),
        ("lost", "CUDA error: device-side assert triggered"),
        ("lost", "HIP error: unspecified launch failure"),
        (
            "lost",
            "[METAL] Command buffer execution failed: Caused GPU Hang Error (00000003:kIOGPUCommandBuffer",
        ),
        ("lost", "[METAL] Command buffer execution failed: Caused GPU Address Fault Error (0000000b:kIOGPU"),
        ("lost", "INTERNAL: GPU has fallen off the bus"),
        ("lost", "INTERNAL: Core halted unexpectedly: Assertion failed"),
        (None, "CUDA error: invalid argument"),
        (None, "RESOURCE_EXHAUSTED: Shared memory size limit exceeded: requested 180224"),
        (None, "INVALID_ARGUMENT: Executable expected parameter 0 of size 4"),
        (None, "unknown error"),
        (None, "invalid buffer"),
        (None, "CUBLAS_STATUS_EXECUTION_FAILED"),
    ],
)
def test_some_errors_lose_the_device(cupy, kind, text):
    fault = cupy().fault(RuntimeError(text))
    assert kind == (fault and fault.kind)
    assert cupy().fault(ValueError(text)) is None, "which no library raises for that"


def test_an_error_that_says_nothing_of_the_device_is_followed_by_one_wait_that_does():
    device = SimulatedDevice("gpu", clock=Clock(), faults=[Injected(kind="lost", call=1)])
    said_nothing = RuntimeError("CUBLAS_STATUS_EXECUTION_FAILED")
    assert capabilities.fault(device, said_nothing) is None
    with pytest.raises(RuntimeError, match="lost"):
        device.launch()
    assert "lost" == capabilities.fault(device, said_nothing).kind
    for end in (KeyboardInterrupt(), pytest.fail.Exception("timeout"), pytest.exit.Exception("stop")):
        assert capabilities.fault(device, end) is None, "an end from outside waits for no device"


def test_a_number_beyond_the_devices_says_how_many_there_are_and_what_may_hide_them(cupy, setting):
    setting("CUDA_VISIBLE_DEVICES", "0,1")
    assert "GPU 1" == cupy("1").name
    with pytest.raises(Unavailable) as caught:
        cupy("2")
    hides = "CUDA_VISIBLE_DEVICES is '0,1', which may hide devices"
    assert f"CuPy sees 2 CUDA device(s) and number 2 was requested; {hides}" == str(caught.value)
    assert not caught.value.broken


REMEDIES = {
    "something new\n  more of it": "check with nvidia-smi (rocm-smi) that it is free and healthy",
    "CuPy may not function because multiple CuPy packages are installed": "uninstall every CuPy",
    "Failed to find CUDA headers. Please install cuda-toolkit": "install the parts of CUDA's toolkit",
    "nvrtc: error: failed to open libnvrtc-builtins.so.13.0": "install the parts of CUDA's toolkit",
    "libcublas.so.13: cannot open shared object file: No such file or directory": "reinstall it with",
    "libcudnn.so.9: undefined symbol: cudnnGetLastErrorString": "reinstall it with the CUDA",
    "libcusolver.so.12: invalid ELF header": "reinstall it with the CUDA",
    "DLL load failed while importing runtime: The module could not be found": "reinstall it with the CUDA",
    "CUDA-capable device(s) is/are busy or unavailable": "wait for the process that has it in exclusive",
    "HIP error: invalid device function": "install the library's build for this GPU's generation",
    "no kernel image is available for execution on the device": "install the library's build for this GPU",
    "NVIDIA B200 with capability sm_100 is not compatible with the current": "install the library's build",
    "CUDA driver version is insufficient for CUDA runtime version": "update the GPU's driver",
    "The NVIDIA driver on your system is too old (found version 11040)": "update the GPU's driver",
    "the provided PTX was compiled with an unsupported toolchain": "update the GPU's driver",
    "CUDA error: out of memory": "free memory of the GPU: nvidia-smi (rocm-smi) lists the processes",
    "system has unsupported display driver / cuda driver combination": "restart the machine: its driver was",
    "forward compatibility was attempted on non supported HW": "restart the machine if its driver was",
    "OS call failed or operation not supported on this OS": "run `nvidia-modprobe -u` as root",
    "operation cuInit(0) failed: CUDA_ERROR_OPERATING_SYSTEM": "run `nvidia-modprobe -u` as root",
    "MPS client failed to connect to the MPS control daemon or the MPS server": "restart MPS",
    "MPS server is not ready to accept new MPS client requests": "restart MPS",
    "operation cuInit(0) failed: CUDA_ERROR_MPS_CONNECTION_FAILED": "restart MPS",
    "operation cuInit(0) failed: CUDA_ERROR_MPS_RPC_FAILURE": "restart MPS",
    "operation cuInit(0) failed: CUDA_ERROR_MPS_SERVER_NOT_READY": "restart MPS",
    "the hardware resources required to create MPS client have been exhausted": "end other programs",
    "operation cuInit(0) failed: CUDA_ERROR_MPS_MAX_CLIENTS_REACHED": "end other programs",
    "operation cuInit(0) failed: CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED": "end other programs",
    "the remote procedural call between the MPS server and the MPS client failed": "restart MPS",
    "the hardware resources required to support device connections have been exhausted": "end other programs",
    "system not yet initialized": "start NVIDIA's fabric manager: `systemctl start nvidia-fabricmanager`",
    "CUDA unknown error - this may be due to an incorrectly set up environment": "reload the driver",
    "Cannot re-initialize CUDA in forked subprocess": "let no process use CUDA before it forks",
    "uncorrectable ECC error encountered": "reset the GPU",
}


@for_each(("said", "remedy"), REMEDIES.items())
def test_a_device_that_was_found_and_fails_is_broken_and_its_remedy_is_by_cause(cupy, said, remedy):
    with pytest.raises(Unavailable) as caught:
        cupy("1", RuntimeError(said))
    problem = f"CuPy's CUDA device 1 was found but cannot be used: {said.partition(chr(10))[0]}; {remedy}"
    assert str(caught.value).startswith(problem)
    assert caught.value.broken


NOT_SHOWN, NO_DRIVER = "no CUDA-capable device is detected", "Found no NVIDIA driver on your system"


@for_each(
    ("said", "listed", "visible", "is_broken", "end"),
    [
        (NOT_SHOWN, 0, None, False, "; CUDA_VISIBLE_DEVICES is not set"),
        (NOT_SHOWN, 2, None, True, "; the driver has a GPU that no variable hides: this user needs rights"),
        (NOT_SHOWN, 2, "1", True, "; the driver has a GPU that no variable hides: this user needs rights"),
        (NOT_SHOWN, 2, "2", False, "; CUDA_VISIBLE_DEVICES is '2', which may hide devices"),
        (NOT_SHOWN, 2, "", False, "; CUDA_VISIBLE_DEVICES is '', which may hide devices"),
        (NOT_SHOWN, 2, "-1", False, "; CUDA_VISIBLE_DEVICES is '-1', which may hide devices"),
        (NOT_SHOWN, 0, "GPU-8932f937", False, "; CUDA_VISIBLE_DEVICES is 'GPU-8932f937', which may hide"),
        (NOT_SHOWN, 2, "GPU-8932f937", True, "; the driver has a GPU that no variable hides: this user"),
        (NOT_SHOWN, 2, "MIG-41b9,MIG-41ba", True, "; the driver has a GPU that no variable hides: this user"),
        ("No HIP GPUs are available", 0, None, False, "; CUDA_VISIBLE_DEVICES is not set"),
        (NO_DRIVER, 2, None, False, "; install the driver, or use a machine that has one"),
        ("libcuda.so.1: cannot open shared object file", 2, None, False, "; install the driver, or use a"),
        ("Torch not compiled with CUDA enabled", 2, None, False, "; install the build for your GPU from"),
    ],
)
def test_a_gpu_that_cuda_does_not_show_is_broken_where_the_driver_has_it_and_nothing_hides_it(
    cupy, setting, monkeypatch, tmp_path, said, listed, visible, is_broken, end
):
    setting("CUDA_VISIBLE_DEVICES", visible)
    for number in range(listed):
        (tmp_path / "driver" / "gpus" / f"0000:0{number}:00.0").mkdir(parents=True, exist_ok=True)
        (tmp_path / f"nvidia{number}").touch()
    monkeypatch.setattr(library, "NVIDIA_DRIVER", str(tmp_path / ("driver" if listed else "none")))
    monkeypatch.setattr(library, "NVIDIA_NODES", str(tmp_path))
    with pytest.raises(Unavailable, match=re.escape(end)) as caught:
        cupy("1", RuntimeError(said))
    assert is_broken == caught.value.broken
    monkeypatch.setattr(library, "NVIDIA_NODES", str(tmp_path / "driver"))
    assert not library.should_show_gpu(), "a container sees what the host's driver lists"


@for_each("said", ["No HIP GPUs are available", "hipErrorNoDevice: no ROCm-capable device is detected"])
@for_each(
    ("is_broken", "is_there", "has_rights", "visible"),
    [
        (True, True, False, {}),
        (True, True, False, {"HIP_VISIBLE_DEVICES": "0,1"}),
        (True, True, False, {"ROCR_VISIBLE_DEVICES": "GPU-4d2f,0"}),
        (False, True, False, {"HIP_VISIBLE_DEVICES": ""}),
        (False, True, False, {"ROCR_VISIBLE_DEVICES": "-1"}),
        (False, True, True, {}),
        (False, False, False, {}),
    ],
)
def test_amds_gpu_is_broken_where_it_is_there_and_this_user_has_no_rights_to_it(
    cupy, setting, monkeypatch, tmp_path, said, is_broken, is_there, has_rights, visible
):
    for name in ("CUDA_VISIBLE_DEVICES", *library.VISIBLE_TO_AMD):
        setting(name, visible.get(name))
    node = tmp_path / "kfd"
    if is_there:
        node.touch()
    else:
        node.unlink(missing_ok=True)
    monkeypatch.setattr(library, "AMD_NODE", str(node))
    monkeypatch.setattr(library, "access", lambda path, mode: has_rights)  # root has all rights
    end = "this user needs rights on /dev/kfd" if is_broken else "CUDA_VISIBLE_DEVICES is not set"
    with pytest.raises(Unavailable, match=f"check `rocm-smi`.*; .*{end}") as caught:
        cupy("1", RuntimeError(said))
    assert is_broken == caught.value.broken
