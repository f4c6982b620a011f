"""NVIDIA's management library (NVML): from a GPU's bus id to its clocks and the reasons for lower ones."""

from functools import cached_property
from os import getpid
from typing import Any

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
# Counters of the nanoseconds that a GPU was slowed down, and the only one that GPUs before them have.
_COUNTERS = {
    "software thermal slowdown": "NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN",
    "hardware thermal slowdown": "NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN",
    "hardware power brake": "NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN",
}
_OLDER_COUNTER = "thermal slowdown"
_BUS_ID = 32  # bytes that hold a bus id


class NvmlMonitor:
    """The state of one GPU, read anew at each call; a value that NVML does not give is None."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml = nvml
        self._handle = handle

    def clocks(self) -> Clocks:
        """Return the clocks, temperature and power of this moment, and every reason for lower clocks."""
        nvml = self._nvml
        milliwatts = self._query("nvmlDeviceGetPowerUsage")
        celsius = self._query("nvmlDeviceGetTemperatureV", nvml.NVML_TEMPERATURE_GPU)
        if celsius is None:  # an older driver or binding; the older name will be gone from CUDA 14 on
            celsius = self._query("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU)
        return Clocks(
            sm_mhz=self.sm_mhz(),
            memory_mhz=self._query("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM),
            celsius=celsius,
            watts=None if milliwatts is None else milliwatts / 1000,
            throttle=_names(self._reasons(), _REASONS),
        )

    def sm_mhz(self) -> int | None:
        """Return the clock of the multiprocessors at this moment, in MHz."""
        return self._query("nvmlDeviceGetClockInfo", self._nvml.NVML_CLOCK_SM)

    def throttle(self) -> tuple[str, ...]:
        """Return the reasons for which the GPU is slower than it should be: heat, or too weak a supply."""
        bits = self._reasons()
        return _names(bits if bits & _HEAT_OR_SUPPLY else bits & ~_HARDWARE, _BAD)

    def throttle_counters(self) -> dict[str, int] | None:
        """Return for how long each such reason has slowed the GPU down so far; None if it counts none."""
        nvml = self._nvml
        try:
            fields = {name: getattr(nvml, field) for name, field in _COUNTERS.items()}
            values = nvml.nvmlDeviceGetFieldValues(self._handle, list(fields.values()))
            found = zip(fields, values, strict=True)
            counters = {name: int(one.value.ullVal) for name, one in found if one.nvmlReturn == 0}
            if counters:
                return counters
        except (AttributeError, nvml.NVMLError):  # an old binding or driver
            pass
        try:
            status = nvml.nvmlDeviceGetViolationStatus(self._handle, nvml.NVML_PERF_POLICY_THERMAL)
        except (AttributeError, nvml.NVMLError):
            return None
        return {_OLDER_COUNTER: int(status.violationTime)}

    def other_processes(self) -> int | None:
        """Return how many other processes hold a compute context on this GPU, or this instance of it (MIG).

        In a container NVML may call this process by another number: of those that it lists one is this one.
        """
        try:
            listed = self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle)
        except (AttributeError, self._nvml.NVMLError):
            return None
        own = next((process for process in listed if process.pid == getpid()), None)
        instances = {getattr(process, "gpuInstanceId", None) for process in listed}
        if own is None and len(instances) > 1:
            return None
        instance = getattr(own, "gpuInstanceId", None) if own else next(iter(instances), None)
        beside = [process for process in listed if getattr(process, "gpuInstanceId", None) == instance]
        return max(0, len(beside) - 1)

    def _reasons(self) -> int:
        """Return the bits that are set; old drivers and bindings lack the function's newer name."""
        for name in ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"):
            if (bits := self._query(name)) is not None:
                return bits
        return 0

    def _query(self, name: str, *arguments: int) -> int | None:
        """Return what NVML returns, or None: not in the binding, not supported, or the GPU is gone."""
        try:
            found: int | None = getattr(self._nvml, name)(self._handle, *arguments)
        except (AttributeError, self._nvml.NVMLError):
            return None
        return found


class MonitoredDevice:
    """Base of devices whose clocks NVML may report; `clocks_reason` has the cause where it does not."""

    clocks_reason: str | None = None

    def clocks(self) -> Clocks | None:
        """Return the clocks that NVML reports now, or None; `clocks_reason` then has the cause."""
        return self._monitor.clocks() if self._monitor else None

    def sm_mhz(self) -> int | None:
        """Return the clock of the multiprocessors now, in MHz, where NVML reports it."""
        return self._monitor.sm_mhz() if self._monitor else None

    def throttle(self) -> tuple[str, ...]:
        """Return what slows the GPU down at this moment, as far as NVML reports it."""
        return self._monitor.throttle() if self._monitor else ()

    def other_processes(self) -> int | None:
        """Return how many other processes use this GPU; None where NVML does not tell."""
        return self._monitor.other_processes() if self._monitor else None

    def throttle_counters(self) -> dict[str, int] | None:
        """Return for how long each reason has slowed the GPU down so far, where NVML counts that."""
        return self._monitor.throttle_counters() if self._monitor else None

    def _pci_bus_id(self) -> str:
        """Return the PCI bus id of the device; raise GpuPerfError if NVML reports none."""
        raise NotImplementedError

    @cached_property
    def _monitor(self) -> NvmlMonitor | None:
        try:
            return monitor(self._pci_bus_id())
        except GpuPerfError as cause:
            self.clocks_reason = str(cause)
            return None


def monitor(pci_bus_id: str) -> NvmlMonitor:
    """Return the monitor of the GPU on that bus; CUDA_VISIBLE_DEVICES changes device numbers, but not this.

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
        return NvmlMonitor(pynvml, pynvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id))
    except pynvml.NVMLError as error:
        cause = f"NVML does not know the GPU on bus {pci_bus_id}: {error}"
        raise _unknown(f"{cause}; check that nvidia-smi lists it") from error


def cuda_bus_id(ordinal: int) -> str:
    """Return the PCI bus id of the CUDA device that has this number in this process.

    The driver numbers devices as it does for the process's libraries, whatever CUDA_VISIBLE_DEVICES and
    CUDA_DEVICE_ORDER are now. Raises GpuPerfError where it does not tell.
    """
    from ctypes import CDLL, byref, c_int, create_string_buffer

    device, text = c_int(), create_string_buffer(_BUS_ID)
    try:
        driver = CDLL("libcuda.so.1")
        failed = (
            driver.cuInit(0)
            or driver.cuDeviceGet(byref(device), ordinal)
            or driver.cuDeviceGetPCIBusId(text, _BUS_ID, device)
        )
    except (OSError, AttributeError) as error:
        raise _unknown(f"the driver's library cannot be called: {error}") from error
    if failed:
        raise _unknown(f"the driver does not tell the bus of CUDA device {ordinal} (error {failed})")
    return text.value.decode()


def _unknown(cause: str) -> GpuPerfError:
    return GpuPerfError(f"the GPU's clocks are unknown: {cause}")


def _names(bits: int, names: dict[int, str]) -> tuple[str, ...]:
    return tuple(name for bit, name in names.items() if bits & bit)
