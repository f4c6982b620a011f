"""GPUs through PyTorch, compared with PyTorch on the CPU."""

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property, partial, wraps
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Literal
from warnings import catch_warnings, simplefilter

import numpy as np

from pytest_gpuperf.devices import faults
from pytest_gpuperf.devices.device_parameter import TORCH_TYPES
from pytest_gpuperf.devices.environment import cpu_name
from pytest_gpuperf.devices.group import DeviceGroup
from pytest_gpuperf.devices.library import (
    LONGEST_SPIN,
    VISIBLE,
    LibraryBackend,
    LibraryDevice,
    Namespace,
    Reduced,
    any_product,
    may_use_tf32,
    noted_calls,
    observed_warnings,
    shown_settings,
    unusable,
)
from pytest_gpuperf.devices.nvml import NOT_OF_NVIDIA, cuda_driver
from pytest_gpuperf.devices.protocol import Activity, Observation, Watched
from pytest_gpuperf.devices.torch_and_jax import host_copy
from pytest_gpuperf.model import ask
from pytest_gpuperf.model.demand import Kind
from pytest_gpuperf.model.errors import Fault, GpuPerfError, Unavailable
from pytest_gpuperf.model.measurement import DeviceInfo

# Counters of its allocators in bytes: Intel's counts nothing else, those of HPU and MTIA not even these.
_ALLOCATED, _HELD, _PEAK = (f"allocated_bytes.all.{name}" for name in ("allocated", "current", "peak"))
_NOT_APPLES = {"float64": "float32", "complex128": "complex64"}  # with what to use in their place
_TRIAL_CYCLES = 2_000_000  # about a millisecond
_TOOLKIT = (
    "reinstall torch's build for CUDA, which brings what it compiles with: "
    "https://pytorch.org/get-started/locally"
)
_FALLBACK = re.compile(
    r"(?:CAUTION: )?The operator '([^']+)'.*run on the CPU|Aten Op fallback from XPU to CPU"
)
_UNNAMED = "an operator that PYTORCH_DEBUG_XPU_FALLBACK=1 names"
_PRODUCT = re.compile(  # addmm, cudnn_convolution
    r"_?(\w*m[mv]|v?dot|matmul|einsum|(\w+_)?conv(olution)?\d?d?(_\w+)?|\w*(rnn|lstm|gru|attention)\w*)$"
)
_OWN = {"aten", "autograd", "c10d", "_c10d_functional", "prim", "prims", "profiler", "torch"}
# Classes and methods that launch work past torch's dispatcher, by the module that has them.
_LAUNCHERS = {"torch.cuda": ("CUDAGraph", "replay"), "triton": ("JITFunction", "run")}
_GRAPHED = "make_graphed_callables.<locals>."  # functions that it makes, which hold their graphs in a class

# Operators that only copy, and those that touch no element though they make no view.
_COPIES = frozenset(("_to_copy", "clone", "copy", "copy_", "lift_fresh", "_local_scalar_dense"))
_EMPTY = frozenset(
    ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "resize_", "is_pinned", "set_")
)

# Functions that make a tensor without being given one: those that `torch.set_default_device` acts on.
_FACTORIES = frozenset(
    """arange as_tensor asarray bartlett_window blackman_window empty empty_permuted empty_strided eye fftfreq
    full hamming_window hann_window kaiser_window linspace logspace ones rand randint randn randperm range
    rfftfreq scalar_tensor sparse_coo_tensor tensor tril_indices triu_indices zeros""".split()  # noqa: SIM905 - as a list each has its line
)


# More than 20 methods: it answers nearly all that a TimedDevice may be asked.
class TorchDevice(LibraryDevice):
    """One torch device: the CPU, whose work is done when the call returns, or an accelerator.

    `xp` is PyTorch as array-api-compat shows it, where that is installed. A tensor that `xp` makes lives on
    this device; one that is made from `import torch`, or a new module of `torch.nn`, lives where torch puts
    it. NumPy has no bfloat16: such tensors are copied to the host as float32.
    """

    backend = "torch"

    def __init__(self, torch: Any, device: Any, name: str, *, emulates_gpu: bool = False) -> None:
        self._on_cpu = self.is_synchronous = device.type == "cpu"
        self.emulates_gpu = emulates_gpu
        self.kind: Kind = "cpu" if self._on_cpu and not emulates_gpu else "gpu"
        self.name = name
        self.xp = _placed(torch, device)
        self._torch = torch
        self.native = device
        self._is_cuda = device.type == "cuda"
        self._module: Any = getattr(torch, device.type, None)  # torch.cuda, torch.xpu, torch.mps, ...
        self._spin: tuple[Any, Any] | None = None  # the events before and after the last one

    def make_current(self) -> None:
        """Let tensors that a test makes for "cuda" live here; some types have one device only."""
        if hasattr(self._module, "set_device"):
            self._module.set_device(self.native)

    @property
    def info(self) -> DeviceInfo:
        """Describe the device."""
        version = self._torch.version
        cuda, hip = getattr(version, "cuda", None), getattr(version, "hip", None)
        runtime, driver = None, getattr(self._properties, "driver_version", None)  # of Intel's GPUs
        if self._is_cuda and (cuda or hip):
            runtime = f"ROCm {hip}" if hip else f"CUDA {cuda}"
            driver = None if hip else cuda_driver()
        return self.describe(
            f"torch {self._torch.__version__}",
            products=self._reduced("products"),
            convolutions=self._reduced("convolutions"),
            memory=getattr(self._properties, "total_memory", None),
            multiprocessors=self._multiprocessors,
            runtime=runtime,
            driver=driver,
            settings=tuple(self._settings()),
        )

    def asarray(self, host: Any) -> Any:
        """Copy to this device; GpuPerfError for a dtype that Apple's GPUs lack."""
        is_tensor = isinstance(host, self._torch.Tensor)
        values: Any = host.detach() if is_tensor else np.asarray(host, order="C")
        try:
            if is_tensor:
                return values.to(self.native, copy=True)
            return self._torch.tensor(values, device=self.native)
        except TypeError as error:
            dtype = str(values.dtype).removeprefix("torch.")
            if self.native.type != "mps" or dtype not in _NOT_APPLES:
                raise
            raise GpuPerfError(
                f"torch has no {dtype} on Apple's GPUs, and device.asarray was given a {dtype} array of "
                f"shape {tuple(values.shape)}; give it {_NOT_APPLES[dtype]} on both devices"
            ) from error

    def asnumpy(self, array: Any) -> Any:
        """Copy to the host on the current stream, and wait for it."""
        return host_copy(array)

    def synchronize(self) -> None:
        """Wait for the whole device, side streams included; on the CPU nothing is in flight."""
        if not self._on_cpu:
            self._torch.accelerator.synchronize(self.native)

    def holds(self, value: Any) -> bool:
        """Return whether `value` is a tensor on this device."""
        return isinstance(value, self._torch.Tensor) and value.device == self.native

    def holds_work(self, value: Any) -> bool:
        """Return whether `value` is a CUDA graph, or what `make_graphed_callables` made of a function."""
        if not self._is_cuda:
            return False
        is_graphed = str(ask.attribute(value, "__qualname__")).startswith(_GRAPHED)
        return isinstance(value, self._module.CUDAGraph) or (
            is_graphed and ask.module_of(value) == "torch.cuda.graphs"
        )

    def reuses_results(self, value: Any) -> bool:
        """Return whether `value` is a CUDA graph, or a function that torch.compile runs as one.

        As with mode="reduce-overhead". Of another compiler than torch's own that is not known.
        """
        if not self._is_cuda or not ask.has(value, "_torchdynamo_orig_callable"):
            return self.holds_work(value)
        config = value.get_compiler_config() if hasattr(value, "get_compiler_config") else None
        return config is not None and config.get("triton.cudagraphs") is True

    @contextmanager
    def observe(self) -> Iterator[Observation]:
        """Detect work by torch's allocator and by an unfinished stream; time it by two CUDA events.

        If the accelerator does not count what it allocates, every call counts as work. On CUDA this resets
        torch's own record of the peak.
        """
        observation = Observation()
        before = self._reset_memory()
        with self._timed(observation):
            yield observation
        after = self._memory() if before else {}
        if not {_ALLOCATED, _HELD, _PEAK} <= after.keys():
            observation.worked = True
            return
        observation.worked = observation.worked or after[_ALLOCATED] > before[_ALLOCATED]
        observation.live = before[_HELD]
        observation.memory = after[_PEAK] - before[_HELD]
        observation.held = after[_HELD] - before[_HELD]
        if "num_device_alloc" in before:
            observation.allocations = after["num_device_alloc"] - before["num_device_alloc"]

    @contextmanager
    def watch(self) -> Iterator[Watched]:
        """Watch which operators run on the CPU for want of the accelerator's: torch warns of it, once."""
        seen = Watched()
        if self._on_cpu or self._is_cuda:
            yield seen
            return
        torch, always = self._torch, self._torch.is_warn_always_enabled()
        with observed_warnings(_FALLBACK) as found:
            try:
                torch.set_warn_always(True)
                yield seen
            finally:
                torch.set_warn_always(always)
        seen.on_cpu = tuple(dict.fromkeys(each[1] or _UNNAMED for each in found))

    def runs_products(self, call: Callable[[], Any]) -> bool | None:
        """Return whether a call multiplies matrices or convolves, which one more call shows.

        None where it runs anything that is not torch's own: a custom operator, a kernel of Triton, a graph.
        What torch.compile has compiled runs as it was written, so that its operators are seen.
        """
        operators = [name.split("::", 1) for name in self._operators(call) if "::" in name]  # else a step
        return any_product(bool(_PRODUCT.match(name)) if space in _OWN else None for space, name in operators)

    def _operators(self, call: Callable[[], Any]) -> list[str]:
        """Return the names of the operators that one more call runs: aten::mm, mylib::gemm.

        The profiler sees those that operators call in turn, and misses custom ones that are written in Python
        (torch 2.14); a dispatch mode sees these, and in one torch.compile compiles nothing and uses nothing
        compiled. Backward passes run in both, in threads of their own too (ATen/ThreadLocalState.h).
        """
        names: list[str] = []

        def note_operator(operator: Any, _: Any) -> None:
            names.append(f"{operator.namespace}::{_name(operator)}")

        profiler = self._torch.profiler
        with ExitStack() as stack:
            for module, (owner, method) in _LAUNCHERS.items():
                launcher = getattr(sys.modules.get(module), owner, None)
                if launcher is not None:
                    note = partial(names.append, f"{module}::{owner}")
                    stack.enter_context(noted_calls(launcher, method, note))
            profile = stack.enter_context(profiler.profile(activities=[profiler.ProfilerActivity.CPU]))
            stack.enter_context(self._dispatched(note_operator))
            call()
        return names + [event.key for event in profile.key_averages()]

    def activity(self, call: Callable[[], Any], smallest: int) -> Activity:  # noqa: ARG002 - no size escapes it
        """Count the operators that a call runs in this thread, and in those of autograd.

        What torch.compile has compiled runs as it was written. On a GPU kernels of others are no operators.
        """
        found = Counter[str]()

        def count(operator: Any, written: Sequence[Any]) -> None:
            name = _name(operator)
            if name in _COPIES:
                found["copied"] += 1
            elif not getattr(operator, "is_view", False) and name not in _EMPTY:
                found["computed"] += any(self.holds(each) and each.numel() for each in written)

        with self._dispatched(count):
            call()
        return Activity(computed=found["computed"], copied=found["copied"], is_complete=self._on_cpu)

    @contextmanager
    def _dispatched(self, note: Callable[[Any, Sequence[Any]], None]) -> Iterator[None]:
        """Pass each operator that torch dispatches meanwhile to `note`, with what it returns, or else takes.

        In such a mode torch.compile refuses some functions, so that what is compiled runs as it was written.
        """

        class Noting(self._torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[misc,name-defined]  # noqa: SLF001 - its only name
            supports_higher_order_operators = True

            def __torch_dispatch__(self, operator: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
                result = operator(*args, **kwargs or {})
                note(operator, _flat((result,)) or _flat(args))
                return result

        with ExitStack() as stack:
            if "torch._dynamo" in sys.modules:  # which is slow to import
                stack.enter_context(self._torch.compiler.set_stance("force_eager"))
            stack.enter_context(Noting())
            yield

    def compilations(self) -> int:
        """Return how many graphs torch.compile has compiled so far."""
        dynamo: Any = sys.modules.get("torch._dynamo.utils")
        return int(dynamo.counters["stats"]["unique_graphs"]) if dynamo else 0

    def host_memory(self, host: Any) -> Literal["pinned", "pageable"] | None:
        """Return whether CUDA has registered (pinned) the memory of a NumPy array."""
        if not self._is_cuda or not isinstance(host, np.ndarray) or not host.flags.writeable:
            return None  # from_numpy warns of a read-only array
        return "pinned" if self._torch.from_numpy(host).is_pinned() else "pageable"

    def fault(self, error: BaseException) -> Fault | None:
        """Recognize memory errors and the CUDA errors that outlive their call, by text or number."""
        if (fault := super().fault(error)) is not None:
            return fault
        has_number = isinstance(error, getattr(self._torch, "AcceleratorError", ()))  # from torch 2.8 on
        return faults.parse_status(getattr(error, "error_code", None)) if has_number else None

    def free_memory(self) -> int | None:
        """Return the bytes that CUDA can still give; what torch's pool holds is not among them."""
        return int(self._module.mem_get_info(self.native)[0]) if self._is_cuda else None

    def release(self) -> None:
        """Empty the pool of torch's allocator; on the CPU there is none."""
        if hasattr(self._module, "empty_cache"):
            self._module.empty_cache()

    def occupied(self) -> float | None:
        """Return how long the last spin took, which is shorter than was asked for where clocks rose."""
        if self._spin is None:
            return None
        start, end = self._spin
        return float(start.elapsed_time(end)) / 1000  # milliseconds

    def occupy(self, seconds: float) -> bool:
        """Launch a kernel that spins for up to one second; False where torch has no such kernel.

        It spins for so many cycles as take that long at the clock of this moment: torch counts in cycles.
        """
        cuda = self._module
        if not self._is_cuda or not hasattr(cuda, "_sleep"):
            return False
        with cuda.device(self.native):
            start, end, begin, done = (cuda.Event(enable_timing=True) for _ in range(4))
            stream = cuda.current_stream(self.native)
            cuda._sleep(1)  # noqa: SLF001 - torch's own tests use it; this loads the kernel
            start.record(stream)
            cuda._sleep(_TRIAL_CYCLES)  # noqa: SLF001 - as above
            end.record(stream)
            end.synchronize()
            rate = _TRIAL_CYCLES / (start.elapsed_time(end) / 1000)
            begin.record(stream)
            cuda._sleep(round(min(seconds, LONGEST_SPIN) * rate))  # noqa: SLF001 - as above
            done.record(stream)
            self._spin = begin, done
        return True

    @cached_property
    def _properties(self) -> Any:
        get_properties = getattr(self._module, "get_device_properties", None)
        return get_properties(self.native) if get_properties and not self._on_cpu else None

    @cached_property
    def _multiprocessors(self) -> int | None:
        """How many there are: of Intel's GPUs the compute units, of Apple's the cores."""
        backend: Any = getattr(self._torch.backends, self.native.type, None)
        if hasattr(backend, "get_core_count"):
            return int(backend.get_core_count())
        found = self._properties
        return getattr(found, "multi_processor_count", None) or getattr(found, "max_compute_units", None)

    def _settings(self) -> Iterator[str]:
        """Yield what is set to other than torch's default, and changes which algorithms it takes."""
        if self._torch.are_deterministic_algorithms_enabled():
            yield "deterministic algorithms"
        cudnn = getattr(self._torch.backends, "cudnn", None) if self._is_cuda else None
        defaults = {"enabled": True, "benchmark": False, "deterministic": False}
        for name, default in defaults.items():
            if (value := getattr(cudnn, name, default)) != default:
                yield f"cudnn.{name}={value}"

    def _pci_bus_id(self) -> str:
        if getattr(self._torch.version, "hip", None):
            raise GpuPerfError(NOT_OF_NVIDIA)
        gpu: Any = self._properties if self._is_cuda else None
        if not hasattr(gpu, "pci_bus_id"):
            raise GpuPerfError("torch does not report the GPU's bus id, which NVML needs")
        return f"{gpu.pci_domain_id:08x}:{gpu.pci_bus_id:02x}:{gpu.pci_device_id:02x}.0"

    def _memory(self) -> dict[str, int]:
        """Return the allocator's counters, or an empty mapping if it keeps none."""
        memory_stats = getattr(self._module, "memory_stats", None)
        return dict(memory_stats(self.native)) if memory_stats and not self._on_cpu else {}

    def _reset_memory(self) -> dict[str, int]:
        """Reset the peak and return the allocator's counters; empty if it does not keep them."""
        try:
            counters = self._memory()
            if counters:
                self._module.reset_peak_memory_stats(self.native)
        except RuntimeError:  # torch's pluggable allocators, such as RMM's, have neither
            return {}
        return counters

    @contextmanager
    def _timed(self, observation: Observation) -> Iterator[None]:
        """Time what is submitted to CUDA's current stream; other accelerators have no such events here."""
        if not self._is_cuda:
            yield
            return
        stream = self._module.current_stream(self.native)
        start, end = (self._module.Event(enable_timing=True) for _ in range(2))
        was_idle = stream.query()
        start.record(stream)
        if was_idle:
            start.synchronize()  # an event of ours that is still on its way is no work of the call's
        yield
        observation.worked = observation.unfinished = not stream.query()
        end.record(stream)
        end.synchronize()
        waited = self.clock()
        self.synchronize()
        observation.finished = self.clock()
        observation.outside_time = observation.finished - waited
        observation.device_time = start.elapsed_time(end) / 1000  # milliseconds

    def _reduced(self, work: Literal["products", "convolutions"]) -> Reduced | None:
        """Return the setting that rounds the factors of float32 work; NVIDIA's variable can forbid it.

        In convolutions and recurrent layers, which cuDNN makes, TF32 is torch's default. On AMD's GPUs torch
        has it in products alone, of these architectures (pytorch, Context.cpp, `allowTF32CuBLAS`).
        """
        has_tf32 = str(getattr(self._properties, "gcnArchName", "")).startswith(("gfx94", "gfx95"))
        if getattr(self._torch.version, "hip", None) and (work != "products" or not has_tf32):
            return None
        if not self._is_cuda or not may_use_tf32(getattr(self._properties, "major", 0)):
            return None
        backends = self._torch.backends
        cudnn = getattr(backends, "cudnn", None)
        older = backends.cuda.matmul if work == "products" else cudnn
        newer: dict[str, Any] = {"products": older} if work == "products" else _cudnns_layers(cudnn)
        found = {name: one.fp32_precision for name, one in newer.items() if hasattr(one, "fp32_precision")}
        if found:  # reading the older setting raises once one of these was set
            reduced = next((name for name, precision in found.items() if precision == "tf32"), None)
            return Reduced(mode="TF32", setting="fp32_precision", work=reduced) if reduced else None
        is_allowed = getattr(older, "allow_tf32", False)
        return Reduced(mode="TF32", setting="allow_tf32", work=work) if is_allowed else None


def _name(operator: Any) -> str:
    """Return the name of an operator without its namespace and overload: mm."""
    return str(operator.name()).rpartition("::")[2].partition(".")[0]


def _flat(values: Iterable[Any]) -> list[Any]:
    """Return values and those in lists and tuples of them; None is no value."""
    parts = [value if isinstance(value, list | tuple) else [value] for value in values]
    return [each for part in parts for each in part if each is not None]


class TorchBackend(LibraryBackend):
    """`torch[:TYPE[:N]]`: torch's accelerator, or one of a type such as `cuda:1`.

    `auto` does not choose it: it replaces NumPy on the CPU too, so that a test's `xp` would depend on the
    machine.
    """

    name = "torch"
    library = ("torch", "torch", "install pytest-gpuperf[torch]; a GPU needs torch's build for it")

    def check(self, selector: str) -> None:
        """Accept nothing or a type of accelerator, with or without a number."""
        if selector and not re.fullmatch(rf"({'|'.join(TORCH_TYPES)})(:\d+)?", selector, re.ASCII):
            valid = f"{', '.join(TORCH_TYPES)}, with or without a number"
            found = f"{selector!r}; torch:cpu emulates one"
            raise GpuPerfError(f"the device of torch is one of {valid}, e.g. torch:cuda:0, not {found}")

    def selectors(self) -> list[str]:
        """Return a selector for each device of the accelerator that torch was built for."""
        torch = self.load()
        kind = _accelerator(torch)
        return [f"{kind}:{index}" for index in range(torch.accelerator.device_count())]

    def gpu(self, selector: str) -> TorchDevice:
        """Return the device after one allocation, one kernel and one synchronize on it."""
        torch = self.load()
        kind, _, index = (selector or _accelerator(torch)).partition(":")
        try:
            with catch_warnings():  # torch warns of an old driver, and then raises
                simplefilter("ignore")
                return _open(torch, torch.device(kind, int(index or 0)))
        except Exception as error:
            count, titled = _count(torch, kind), f"torch {torch.__version__}"
            if 0 < count <= int(index or 0):
                problem = f"{titled} sees {count} device(s) of type {kind}, and {selector} was requested"
                hidden = f"; {shown_settings(VISIBLE)}" if kind == "cuda" else ""
                raise Unavailable(problem + hidden) from error
            remedy = _remedy(torch, kind)
            cause = unusable(f"{titled} cannot use {kind}:{index or 0}", error, remedy, _TOOLKIT)
            # It counts no CUDA device where the driver fails; of other types a build may have none.
            is_broken = cause.broken and (kind == "cuda" or count > 0)
            raise Unavailable(str(cause), broken=is_broken) from error

    def group(self, devices: Sequence[Any]) -> DeviceGroup:
        """Return several devices as one; the first is the current device again, as the last was opened."""
        devices[0].make_current()
        return DeviceGroup(devices)

    def cpu(self) -> TorchDevice:
        """Return torch on the CPU."""
        torch = self.load()
        return TorchDevice(torch, torch.device("cpu"), cpu_name())

    def emulated(self, name: str, index: int) -> TorchDevice:  # noqa: ARG002 - torch has one CPU
        """Return torch's CPU as a GPU of that name: its work is done when a call returns."""
        torch = self.load()
        return TorchDevice(torch, torch.device("cpu"), name, emulates_gpu=True)


def _open(torch: Any, device: Any) -> TorchDevice:
    """Return the device after one kernel on it; raise whatever torch raises when it cannot be used."""
    (torch.ones(1, device=device) + 1).sum()
    opened = TorchDevice(torch, device, _name_of(torch, device))
    if device.index:
        opened.make_current()
    opened.synchronize()
    return opened


def _name_of(torch: Any, device: Any) -> str:
    """Return what torch calls the device. Of Apple's GPUs older versions of torch have the type alone."""
    if (get_name := getattr(getattr(torch, device.type, None), "get_device_name", None)) is not None:
        return str(get_name(device))
    get_name = getattr(getattr(torch.backends, device.type, None), "get_name", None)
    return str(get_name()) if get_name else str(device.type).upper()


def _cudnns_layers(cudnn: Any) -> dict[str, Any]:
    """Return where the precision of each kind of cuDNN's layers is set; older versions of torch have none."""
    return {"convolutions": getattr(cudnn, "conv", None), "recurrent layers": getattr(cudnn, "rnn", None)}


def _count(torch: Any, kind: str) -> int:
    """Return how many devices torch counts, including unusable ones; 0 if torch raises."""
    try:
        return int(getattr(torch, kind).device_count())
    except Exception:  # noqa: BLE001 - of any build of torch; what it raised at first is what the user reads
        return 0


def _remedy(torch: Any, kind: str) -> str:
    if kind != "cuda":
        return f"check the device, its driver, and that torch is built for {kind}"
    tool = "rocm-smi" if getattr(torch.version, "hip", None) else "nvidia-smi"
    return f"check that {tool} shows it as free and healthy"


def _accelerator(torch: Any) -> str:
    """Return the type of accelerator that torch was built for; raise Unavailable without one."""
    if not hasattr(torch, "accelerator"):
        raise Unavailable(f"torch {torch.__version__} is too old; install torch>=2.6")
    built_for = torch.accelerator.current_accelerator()
    if built_for is None:
        remedy = "install the build for your GPU from https://pytorch.org/get-started/locally"
        raise Unavailable(f"torch {torch.__version__} was built without any GPU; {remedy}")
    return str(built_for.type)


def _placed(torch: Any, device: Any) -> Namespace:
    """Return torch's namespace, whose factory functions use this device unless they get another."""
    if find_spec("array_api_compat") is not None:
        import array_api_compat.torch as namespace
    else:
        namespace = torch

    def place(name: str, value: Any) -> Any:
        if name == "fft" and isinstance(value, ModuleType):  # `fft.fft` is a function
            return Namespace(value, place)
        return _with_default_device(value, device) if name in _FACTORIES else value

    return Namespace(namespace, place)


def _with_default_device(factory: Any, default: Any) -> Any:
    @wraps(factory)
    def make(*inputs: Any, device: Any = None, **options: Any) -> Any:
        return factory(*inputs, device=default if device is None else device, **options)

    return make
