"""GPUs through PyTorch, compared with PyTorch on the CPU."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property, wraps
from importlib.util import find_spec
from os import environ
from time import perf_counter, process_time
from typing import Any, Literal
from warnings import catch_warnings, simplefilter

import numpy as np

from pytest_gpuperf.devices import errors, nvml
from pytest_gpuperf.devices.namespaces import Namespace
from pytest_gpuperf.devices.protocol import Observation
from pytest_gpuperf.model.demand import Kind
from pytest_gpuperf.model.errors import Fault, GpuPerfError, Unavailable
from pytest_gpuperf.model.measurement import DeviceInfo
from pytest_gpuperf.model.record import Clocks

__all__ = ["TorchBackend", "TorchDevice"]

_TYPES = ("cuda", "hpu", "mps", "mtia", "npu", "xpu")
_AMPERE = 8  # the first compute capability with TF32

# What makes a tensor without being given one: the names that `torch.set_default_device` acts on.
_MAKERS = frozenset(
    """arange as_tensor asarray bartlett_window blackman_window empty empty_permuted empty_strided eye fftfreq
    full hamming_window hann_window kaiser_window linspace logspace ones rand randint randn randperm range
    rfftfreq scalar_tensor sparse_coo_tensor tensor tril_indices triu_indices zeros""".split()  # noqa: SIM905 - as a list each has its line
)


class TorchDevice:
    """One torch device: the CPU, whose work is done when the call returns, or an accelerator.

    `xp` is PyTorch as array-api-compat shows it, where that is installed. A tensor that `xp` makes lives on
    this device; one that is made from `import torch`, or a new module of `torch.nn`, lives where torch puts
    it. NumPy has no bfloat16: such tensors come down as float32.
    """

    backend = "torch"
    clock = staticmethod(perf_counter)
    clocks_reason: str | None = None  # why clocks() returns None, once it has

    def __init__(self, torch: Any, device: Any, name: str) -> None:
        self.kind: Kind = "cpu" if device.type == "cpu" else "gpu"
        self.name = name
        self.xp = _placed(torch, device)
        self.processor_time = process_time if self.kind == "cpu" else None  # of all threads
        self._torch = torch
        self._device = device
        self._module: Any = getattr(torch, device.type, None)  # torch.cuda, torch.xpu, torch.mps, ...

    @property
    def info(self) -> DeviceInfo:
        """Say what it is; the precision of products can be switched at any time."""
        version = self._torch.version
        cuda, hip = getattr(version, "cuda", None), getattr(version, "hip", None)
        runtime = f"ROCm {hip}" if hip else f"CUDA {cuda}" if cuda else None
        return DeviceInfo(
            kind=self.kind,
            backend=self.backend,
            name=self.name,
            library=f"torch {self._torch.__version__}",
            memory=getattr(self._properties, "total_memory", None),
            runtime=runtime if self._is_cuda else None,
            reduced_precision=self._reduced_precision(),
        )

    def asarray(self, host: Any) -> Any:
        """Copy to this device."""
        if isinstance(host, self._torch.Tensor):
            return host.detach().to(self._device, copy=True)
        return self._torch.tensor(np.asarray(host, order="C"), device=self._device)

    def asnumpy(self, array: Any) -> Any:
        """Copy to the host on the current stream, and wait for it."""
        there = array.detach().to("cpu", copy=True).resolve_conj().resolve_neg()
        try:
            return there.numpy()
        except TypeError:
            return there.to(self._torch.complex64 if there.is_complex() else self._torch.float32).numpy()

    def synchronize(self) -> None:
        """Wait for the whole device, side streams included; on the CPU nothing is in flight."""
        if self.kind == "gpu":
            getattr(self._torch, "accelerator", self._module).synchronize(self._device)

    def holds(self, value: Any) -> bool:
        """Say whether `value` is a tensor on this device."""
        return isinstance(value, self._torch.Tensor) and value.device == self._device

    @contextmanager
    def observe(self) -> Iterator[Observation]:
        """See work by torch's allocator and by an unfinished stream; time it by two CUDA events.

        An accelerator that keeps no count of allocations is taken at its word, as the CPU is. On CUDA
        torch's own record of the peak starts anew here.
        """
        seen, before = Observation(worked=True), self._memory()
        if not before:
            yield seen
            return
        self._module.reset_peak_memory_stats(self._device)
        with self._timed(seen):
            yield seen
        after = self._memory()
        held = before["allocated_bytes.all.current"]
        seen.worked = seen.worked or after["allocation.all.allocated"] > before["allocation.all.allocated"]
        seen.memory = after["allocated_bytes.all.peak"] - held
        seen.held = after["allocated_bytes.all.current"] - held
        if "num_device_alloc" in before:
            seen.allocations = after["num_device_alloc"] - before["num_device_alloc"]

    def clocks(self) -> Clocks | None:
        """Return what NVML says of this moment, or None; `clocks_reason` then says why."""
        return self._watch.clocks() if self._watch else None

    def throttle(self) -> tuple[str, ...]:
        """Return what slows the GPU down at this moment, as far as NVML tells."""
        return self._watch.throttle() if self._watch else ()

    def host_memory(self, host: Any) -> Literal["pinned", "pageable"] | None:
        """Ask CUDA whether a NumPy array lies in memory that was registered with it."""
        if not self._is_cuda or not isinstance(host, np.ndarray) or not host.flags.writeable:
            return None  # torch warns of an array that is read-only
        return "pinned" if self._torch.from_numpy(host).is_pinned() else "pageable"

    def fault(self, error: BaseException) -> Fault | None:
        """Recognize torch's memory errors and the CUDA errors that outlive their call."""
        if isinstance(error, MemoryError):
            return Fault(kind="out_of_memory")
        return errors.parse_error_text(str(error)) if isinstance(error, RuntimeError) else None

    def release(self) -> None:
        """Empty the pool of torch's allocator; on the CPU there is none."""
        if hasattr(self._module, "empty_cache"):
            self._module.empty_cache()

    @property
    def _is_cuda(self) -> bool:
        return bool(self._device.type == "cuda")

    @cached_property
    def _properties(self) -> Any:
        tell = getattr(self._module, "get_device_properties", None)
        return tell(self._device) if tell and self.kind == "gpu" else None

    @cached_property
    def _watch(self) -> nvml.NvmlMonitor | None:
        place: Any = self._properties if self._is_cuda else None
        if not hasattr(place, "pci_bus_id"):
            self.clocks_reason = "torch does not tell the GPU's place on the bus, so NVML cannot be asked"
            return None
        try:
            return nvml.watch(f"{place.pci_domain_id:08x}:{place.pci_bus_id:02x}:{place.pci_device_id:02x}.0")
        except GpuPerfError as cause:
            self.clocks_reason = str(cause)
            return None

    def _memory(self) -> dict[str, int]:
        """Return the allocator's counts; empty where it keeps none."""
        tell = getattr(self._module, "memory_stats", None)
        return dict(tell(self._device)) if tell and self.kind == "gpu" else {}

    @contextmanager
    def _timed(self, seen: Observation) -> Iterator[None]:
        """Time what is submitted to the current stream; other accelerators are only watched."""
        if not self._is_cuda:
            seen.worked = False
            yield
            return
        stream = self._module.current_stream(self._device)
        start, end = (self._module.Event(enable_timing=True) for _ in range(2))
        start.record(stream)
        yield
        seen.worked = not stream.query()
        end.record(stream)
        end.synchronize()
        waited = self.clock()
        self.synchronize()
        seen.outside_time = self.clock() - waited
        seen.device_time = start.elapsed_time(end) / 1000  # milliseconds

    def _reduced_precision(self) -> str | None:
        """Return the setting that rounds the factors of float32 products; NVIDIA's own forbids it."""
        old = not self._is_cuda or getattr(self._properties, "major", 0) < _AMPERE
        if old or environ.get("NVIDIA_TF32_OVERRIDE") == "0":
            return None
        matmul = self._torch.backends.cuda.matmul
        if hasattr(matmul, "fp32_precision"):  # asking the older setting raises once this one was set
            return "TF32 in float32 products (fp32_precision)" if matmul.fp32_precision == "tf32" else None
        return "TF32 in float32 products (allow_tf32)" if matmul.allow_tf32 else None


class TorchBackend:
    """`torch[:TYPE[:N]]`: torch's accelerator, or one of a type such as `cuda:1`.

    `auto` does not choose it: it takes the place of NumPy on the CPU too, so that what a test's `xp` is would
    hang on the machine.
    """

    name = "torch"
    automatic = False

    def __init__(self, cpu_name: str) -> None:
        self._cpu_name = cpu_name

    def check(self, selector: str) -> None:
        """Accept nothing or a type of accelerator, with a number or without."""
        if selector and not re.fullmatch(rf"({'|'.join(_TYPES)})(:\d+)?", selector, re.ASCII):
            valid = f"{', '.join(_TYPES)}, each with a number or without"
            raise GpuPerfError(f"the device of torch is one of {valid}, as in torch:cuda:0, not {selector!r}")

    def gpu(self, selector: str) -> TorchDevice:
        """Return the device after one allocation, one kernel and one synchronize on it."""
        torch = _import()
        kind, _, index = (selector or _accelerator(torch)).partition(":")
        try:
            with catch_warnings():  # torch warns of a driver that is too old before it raises
                simplefilter("ignore")
                device = _tried(torch, torch.device(kind, int(index or 0)))
        except Exception as error:
            cause = str(error).partition("\n")[0] or type(error).__name__
            wanted = f"torch {torch.__version__} cannot use {kind}:{index or 0}: {cause}"
            raise Unavailable(f"{wanted}; {_remedy(kind)}") from error
        return device

    def cpu(self) -> TorchDevice:
        """Return torch on the CPU."""
        torch = _import()
        return TorchDevice(torch, torch.device("cpu"), self._cpu_name)


def _import() -> Any:
    if find_spec("torch") is None:
        remedy = "install pytest-gpuperf[torch], for a GPU with torch's build for it"
        raise Unavailable(f"torch is not installed; {remedy}", missing=True)
    try:
        import torch
    except Exception as error:
        raise Unavailable(f"torch is installed but cannot be imported: {error}") from error
    return torch


def _tried(torch: Any, device: Any) -> TorchDevice:
    """Return the device; raise whatever torch raises when it cannot be used."""
    (torch.ones(1, device=device) + 1).sum()
    tell = getattr(getattr(torch, device.type, None), "get_device_name", None)
    tried = TorchDevice(torch, device, tell(device) if tell else device.type.upper())
    tried.synchronize()
    return tried


def _remedy(kind: str) -> str:
    if kind != "cuda":
        return f"see whether there is one, its driver, and torch's build for {kind}"
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    shown = "not set" if visible is None else f"{visible!r}, which may hide it"
    return f"see whether nvidia-smi (rocm-smi) shows it; CUDA_VISIBLE_DEVICES is {shown}"


def _accelerator(torch: Any) -> str:
    """Return the type of accelerator that torch was built for; before 2.6 it is CUDA's."""
    if not hasattr(torch, "accelerator"):
        return "cuda"
    built_for = torch.accelerator.current_accelerator()
    if built_for is None:
        remedy = "install the build for yours from https://pytorch.org/get-started/locally"
        raise Unavailable(f"torch {torch.__version__} was built without any GPU; {remedy}")
    return str(built_for.type)


def _placed(torch: Any, device: Any) -> Namespace:
    """Return torch's namespace, whose makers of tensors make them on the device unless told where."""
    if find_spec("array_api_compat") is not None:
        import array_api_compat.torch as namespace
    else:
        namespace = torch

    def place(name: str, value: Any) -> Any:
        if name == "fft":
            return Namespace(value, place)
        return _made_on(value, device) if name in _MAKERS else value

    return Namespace(namespace, place)


def _made_on(make: Any, here: Any) -> Any:
    @wraps(make)
    def made(*inputs: Any, device: Any = None, **options: Any) -> Any:
        return make(*inputs, device=here if device is None else device, **options)

    return made
