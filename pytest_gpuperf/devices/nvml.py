"""NVIDIA's management library (NVML): from a GPU's bus id to its clocks and the reasons for lower ones."""

from collections.abc import Callable
from functools import cached_property
from os import getpid
from typing import Any

from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Clocks

# nvml.h, nvmlClocksEventReason*; idle (0x1) and application clocks (0x2) are no slowdown.
_HARMLESS = {0x4: "power cap", 0x10: "sync boost", 0x100: "display clock"}
_BAD = {
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
_REASONS = {**_BAD, **_HARMLESS}
# The first "may be also reported during PState or clock change".
_HARDWARE, _HEAT_OR_SUPPLY = 0x8, 0x40 | 0x80
# Counters of the nanoseconds that a GPU was slowed down, and the only one of older GPUs, as the T4.
_COUNTERS = {
    "software thermal slowdown": "NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN",
    "hardware thermal slowdown": "NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN",
    "hardware power brake": "NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN",
}
_OLDER_COUNTER = "thermal slowdown"
NOT_OF_NVIDIA = "the GPU's clocks are unknown: only NVIDIA's GPUs are asked for them"
_BUS_ID = 32  # bytes that hold a bus id
_DRIVER = "libcuda.so.1"
_MULTIPROCESSORS = 16  # cuda.h, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT


class MonitoredDevice(TimedDevice):
    """Base of devices that NVML may know, asked anew each time; what it does not tell is None.

    `clocks_reason` is why it tells nothing.
    """

    def clocks(self) -> Clocks | None:
        """Return the clocks, temperature and power of this moment, and every reason for lower clocks."""
        if self._monitored is None:
            return None
        ask = self._ask
        milliwatts = ask(lambda nvml, gpu: nvml.nvmlDeviceGetPowerUsage(gpu))
        celsius = ask(lambda nvml, gpu: nvml.nvmlDeviceGetTemperatureV(gpu, nvml.NVML_TEMPERATURE_GPU))
        if celsius is None:  # an older driver or binding; the older name will be gone from CUDA 14 on
            celsius = ask(lambda nvml, gpu: nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU))
        return Clocks(
            sm_mhz=self.sm_mhz(),
            memory_mhz=ask(lambda nvml, gpu: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_MEM)),
            celsius=celsius,
            watts=None if milliwatts is None else milliwatts / 1000,
            throttle=_names(self._reasons(), _REASONS),
        )

    def sm_mhz(self) -> int | None:
        """Return the clock of the multiprocessors at this moment, in MHz."""
        mhz: int | None = self._ask(lambda nvml, gpu: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM))
        return mhz

    def throttle(self) -> tuple[str, ...]:
        """Return the reasons for which the GPU is slower than it should be: heat, or too weak a supply."""
        bits = self._reasons()
        return _names(bits if bits & _HEAT_OR_SUPPLY else bits & ~_HARDWARE, _BAD)

    def throttle_counters(self) -> dict[str, int] | None:
        """Return for how long each such reason has slowed the GPU down so far; None if it counts none."""
        values = self._ask(
            lambda nvml, gpu: nvml.nvmlDeviceGetFieldValues(
                gpu, [getattr(nvml, field) for field in _COUNTERS.values()]
            )
        )
        found = zip(_COUNTERS, values or (), strict=False)
        counters = {name: int(one.value.ullVal) for name, one in found if one.nvmlReturn == 0}
        if counters:
            return counters
        status = self._ask(
            lambda nvml, gpu: nvml.nvmlDeviceGetViolationStatus(gpu, nvml.NVML_PERF_POLICY_THERMAL)
        )
        return None if status is None else {_OLDER_COUNTER: int(status.violationTime)}

    def other_processes(self) -> int | None:
        """Return how many other processes hold a compute context on this GPU, or this instance of it (MIG).

        In a container NVML may call this process by another number: of those that it lists one is this one.
        """
        listed = self._processes()
        if listed is None:
            return None
        own = next((process for process in listed if process.pid == getpid()), None)
        instances = {getattr(process, "gpuInstanceId", None) for process in listed}
        if own is None and len(instances) > 1:
            return None
        instance = getattr(own, "gpuInstanceId", None) if own else next(iter(instances), None)
        beside = [process for process in listed if getattr(process, "gpuInstanceId", None) == instance]
        return max(0, len(beside) - 1)

    def _processes(self) -> list[Any] | None:
        """Return the processes that compute on the GPU, this one among them; None if NVML does not tell."""
        listed = self._ask(lambda nvml, gpu: nvml.nvmlDeviceGetComputeRunningProcesses(gpu))
        if listed is None:
            return None
        drawing = self._ask(lambda nvml, gpu: nvml.nvmlDeviceGetGraphicsRunningProcesses(gpu)) or ()
        drawing = {process.pid for process in drawing} - {getpid()}
        # What only draws should not be listed, but may be under Windows' own driver model, which tells no
        # process's memory: https://docs.nvidia.com/deploy/nvml-api/api/structnvmlProcessInfo__t.html
        found = [each for each in listed if each.pid not in drawing or each.usedGpuMemory is not None]
        clients = self._ask(lambda nvml, gpu: nvml.nvmlDeviceGetMPSComputeRunningProcesses(gpu)) or []
        if not clients:
            return found
        # MPS's server holds the GPU's context and issues its clients' work:
        # https://manpages.ubuntu.com/manpages/noble/man1/nvidia-cuda-mps-control.1.html. NVML's documentation
        # does not say whether the list includes the server; we assume that one of the other processes is it.
        beside = [each for each in found if each.pid not in {client.pid for client in clients}]
        server = next((each for each in beside if each.pid != getpid()), None)
        return clients + [each for each in beside if each is not server]

    @cached_property
    def driver_version(self) -> str | None:
        """Return the version of NVIDIA's driver: 580.65.06."""
        version: str | None = self._ask(lambda nvml, _: nvml.nvmlSystemGetDriverVersion())
        return version

    @cached_property
    def power_limit_watts(self) -> float | None:
        """Return the power that the GPU may take, as an administrator has set it."""
        milliwatts = self._ask(lambda nvml, gpu: nvml.nvmlDeviceGetPowerManagementLimit(gpu))
        return milliwatts / 1000 if milliwatts else None

    def _pci_bus_id(self) -> str:
        """Return the PCI bus id of the device; raise GpuPerfError if the library reports none."""
        raise NotImplementedError

    def _reasons(self) -> int:
        """Return the bits that are set; old drivers and bindings lack the function's newer name."""
        bits = self._ask(lambda nvml, gpu: nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu))
        if bits is None:
            bits = self._ask(lambda nvml, gpu: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu))
        return bits or 0

    def _ask(self, question: Callable[[Any, Any], Any]) -> Any:
        """Return NVML's answer, or None: not in the binding, not supported, or the GPU is gone."""
        if self._monitored is None:
            return None
        nvml, gpu = self._monitored
        try:
            return question(nvml, gpu)
        except (AttributeError, nvml.NVMLError):
            return None

    @cached_property
    def _monitored(self) -> tuple[Any, Any] | None:
        """NVML and its handle of the GPU on this bus; None with a reason where it does not know the GPU."""
        try:
            return _find(self._pci_bus_id())
        except GpuPerfError as cause:
            self.clocks_reason = str(cause)
            return None


def _find(pci_bus_id: str) -> tuple[Any, Any]:
    """Return NVML and its handle of a GPU; CUDA_VISIBLE_DEVICES changes device numbers, but not the bus.

    Raises GpuPerfError, with cause and remedy, when NVML is missing or does not know the GPU.
    """
    try:
        import pynvml
    except ImportError as error:
        raise _unknown('pynvml is not installed; pip install "pytest-gpuperf[nvml]"') from error
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        remedy = "check that nvidia-smi runs, and in a container that it has the driver capability `utility`"
        raise _unknown(f"NVML does not start: {error}; {remedy}") from error
    try:
        return pynvml, pynvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id)
    except pynvml.NVMLError as error:
        cause = f"NVML does not know the GPU on bus {pci_bus_id}: {error}"
        raise _unknown(f"{cause}; check that nvidia-smi lists it") from error


def cuda_bus_id(ordinal: int) -> str:
    """Return the PCI bus id of the CUDA device that has this number in this process.

    Raises GpuPerfError where the driver does not tell.
    """
    from ctypes import create_string_buffer

    text = create_string_buffer(_BUS_ID)
    _ask_driver(ordinal, lambda driver, gpu: driver.cuDeviceGetPCIBusId(text, _BUS_ID, gpu))
    return text.value.decode()


def cuda_size(ordinal: int) -> dict[str, Any]:
    """Return `memory` and `multiprocessors` of that CUDA device; empty where the driver does not tell."""
    from ctypes import byref, c_int, c_size_t

    memory, multiprocessors = c_size_t(), c_int()
    try:
        _ask_driver(
            ordinal,
            lambda driver, gpu: (
                driver.cuDeviceTotalMem_v2(byref(memory), gpu)
                or driver.cuDeviceGetAttribute(byref(multiprocessors), _MULTIPROCESSORS, gpu)
            ),
        )
    except GpuPerfError:
        return {}
    return {"memory": memory.value, "multiprocessors": multiprocessors.value}


def _ask_driver(ordinal: int, question: Callable[[Any, Any], int]) -> None:
    """Ask the driver's library of the CUDA device that has this number; raise GpuPerfError if it fails.

    The driver numbers devices as it does for the process's libraries, whatever CUDA_VISIBLE_DEVICES and
    CUDA_DEVICE_ORDER are now.
    """
    from ctypes import CDLL, byref, c_int

    gpu = c_int()
    try:
        driver = CDLL(_DRIVER)
        failed = driver.cuInit(0) or driver.cuDeviceGet(byref(gpu), ordinal) or question(driver, gpu)
    except (OSError, AttributeError) as error:
        raise _unknown(f"the driver's library cannot be called: {error}") from error
    if failed:
        raise _unknown(f"the driver does not tell the bus of CUDA device {ordinal} (error {failed})")


def cuda_driver() -> str | None:
    """Return up to which version of CUDA the driver goes: `for CUDA 13.0`; None where it does not tell."""
    from ctypes import CDLL, byref, c_int

    version = c_int()
    try:
        failed = CDLL(_DRIVER).cuDriverGetVersion(byref(version))
    except (OSError, AttributeError):
        return None
    return None if failed else f"for CUDA {cuda_version(version.value)}"


def cuda_version(number: int) -> str:
    """Return CUDA's 12090 as 12.9."""
    return f"{number // 1000}.{number % 1000 // 10}"


def driver_failure() -> str | None:
    """Return the name of the error with which NVIDIA's driver shows no device, for a library that tells none.

    None where it shows devices, or where no driver is installed.
    """
    from ctypes import CDLL, byref, c_char_p, c_int

    name, count = c_char_p(), c_int()
    try:
        driver = CDLL(_DRIVER)
        failed = driver.cuInit(0) or driver.cuDeviceGetCount(byref(count))
        driver.cuGetErrorName(failed, byref(name))
    except (OSError, AttributeError):
        return None
    if not failed:
        return None
    return name.value.decode() if name.value else f"CUDA error {failed}"


def _unknown(cause: str) -> GpuPerfError:
    return GpuPerfError(f"the GPU's clocks are unknown: {cause}")


def _names(bits: int, names: dict[int, str]) -> tuple[str, ...]:
    return tuple(name for bit, name in names.items() if bits & bit)
