"""Apple's GPUs, and NVIDIA's, through MLX, compared with NumPy; MLX is lazy and asynchronous."""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from io import StringIO
from os import environ
from platform import mac_ver
from typing import Any

import numpy as np

from pytest_gpuperf.devices import containers
from pytest_gpuperf.devices.library import (
    LibraryBackend,
    LibraryDevice,
    Reduced,
    any_product,
    may_use_tf32,
)
from pytest_gpuperf.devices.nvml import cuda_driver
from pytest_gpuperf.devices.protocol import Observation
from pytest_gpuperf.model import ask
from pytest_gpuperf.model.errors import GpuPerfError, Unavailable
from pytest_gpuperf.model.measurement import DeviceInfo

_REMEDY = "use a Mac with Apple silicon, or MLX's build for NVIDIA's GPUs (mlx[cuda13])"
_SCALARS = 64  # bytes: a number in an expression is an array at once, though nothing is computed
_PRIMITIVE = re.compile(r'label ?= ?"(\w+)')  # in a graph of MLX
_PRODUCT = re.compile(r"Matmul|MM$|Convolution|Attention")
# The others that MLX itself has (mlx/primitives.h, fast_primitives.h): an extension can bring its own.
_OWN = frozenset(
    """Abs Add And Arange ArcCos ArcCosh ArcSin ArcSinh ArcTan ArcTan2 ArcTanh ArgPartition
    ArgReduce ArgSort AsStrided AsType BitwiseAnd BitwiseInvert BitwiseOr BitwiseXor Broadcast
    BroadcastAxes Ceil Cholesky Concatenate Conjugate Contiguous Copy Cos Cosh CumLogAddExp CumMax
    CumMin CumProd CumSum CustomTransforms Depends DivMod Divide DynamicSlice DynamicSliceUpdate Eig
    Eigh Equal Erf ErfInv Exp ExpandDims Expm1 FFT Flatten Floor FromFP8 Full Gather GatherAxis
    Greater GreaterEqual Hadamard Imag Inverse LUF LayerNorm LayerNormVJP LeftShift Less LessEqual
    Load Log Log10 Log1p Log2 LogAddExp LogSumExp LogicalAnd LogicalNot LogicalOr MaskedScatter Max
    Maximum Min Minimum Multiply NaNEqual Negative NotEqual NumberOfElements Or Pad Partition Power
    Prod QRF Quantize RMSNorm RMSNormVJP RandomBits Real Remainder Reshape RightShift RoPE Round
    Rsqrt SVD Scatter ScatterAxis SearchSorted Select Sigmoid Sign Sin Sinh Slice SliceUpdate
    Softmax Sort Split Sqrt Square Squeeze StopGradient Subtract Sum Tan Tanh ToFP8 Transpose
    Unflatten View""".split()  # noqa: SIM905 - as a list each has its line
)
_ARCHITECTURE = re.compile(r"applegpu_g(\d+)(\w)")
_NEURAL_ACCELERATORS = (26, 2)  # the first macOS in which MLX uses those of the M5 and A19 and later ones


class MlxDevice(LibraryDevice):
    """MLX on one of its devices, which compute what a call returns when they are asked for it.

    MLX computes nothing before somebody reads or evaluates it, and never what is dropped before. So each
    result of a timed block is submitted (`mx.async_eval`), and the last one is waited for (`mx.eval`): the
    arrays in it, however nested in dicts, lists, tuples and dataclasses. What a call does not return is not
    computed, and not timed.

    MLX's GPUs have neither float64 nor complex128: asarray makes arrays of half that width, as MLX does.
    NumPy has no bfloat16: such arrays are copied to the host as float32.
    """

    backend = "mlx"

    def __init__(self, mx: Any, device: Any, name: str, *, emulates_gpu: bool = False) -> None:
        self.name = name
        self.xp = mx
        self._mx = mx
        self._device = device
        self.emulates_gpu = emulates_gpu
        self._properties: dict[str, Any] = mx.device_info(device)

    @property
    def info(self) -> DeviceInfo:
        """Describe the device."""
        memory = self._properties.get("total_memory", self._properties.get("memory_size"))
        return self.describe(
            f"mlx {self._mx.__version__}",
            products=self._reduced_products(),
            memory=None if self.emulates_gpu else memory,
            driver=cuda_driver() if "pci_bus_id" in self._properties else None,
        )

    def context(self) -> AbstractContextManager[Any, None]:
        """Return MLX's own context that runs work on this device, whatever its default is."""
        return self._mx.stream(self._device)  # type: ignore[no-any-return]

    def asarray(self, host: Any) -> Any:
        """Copy to MLX's memory, which the CPU and Apple's GPUs share."""
        if not isinstance(host, self._mx.array):
            return self._mx.array(np.asarray(host, order="C"))
        copy = self._mx.array(host)
        self._mx.eval(copy)
        return copy

    def asnumpy(self, array: Any) -> Any:
        """Compute the array, where that is still to be done, and copy it."""
        if array.dtype == self._mx.bfloat16:
            array = array.astype(self._mx.float32)
        return np.array(array)

    def submit(self, result: Any) -> None:
        """Start to compute the arrays of a result."""
        if type(result) is self._mx.array:
            self._mx.async_eval(result)
        elif arrays := list(self._arrays(result)):
            self._mx.async_eval(arrays)

    def wait(self, result: Any) -> None:
        """Compute the arrays of a result, or wait for them; without any, wait for what was submitted."""
        if type(result) is self._mx.array:
            self._mx.eval(result)
        elif arrays := list(self._arrays(result)):
            self._mx.eval(arrays)
        else:
            self.synchronize()

    def synchronize(self) -> None:
        """Wait for what was submitted to the device's own stream; results on others are waited for alone."""
        self._mx.synchronize(self._device)

    def holds(self, value: Any) -> bool:
        """Return whether `value` is an array of MLX: its devices share them."""
        return isinstance(value, self._mx.array)

    @contextmanager
    def observe(self) -> Iterator[Observation]:
        """Detect work by the memory that its results take; this resets MLX's own record of the peak."""
        observation = Observation()
        before = self._mx.get_active_memory()
        self._mx.reset_peak_memory()  # to zero
        yield observation
        self.synchronize()
        observation.live = before
        observation.memory = max(0, self._mx.get_peak_memory() - before)
        observation.held = self._mx.get_active_memory() - before
        observation.worked = observation.memory > _SCALARS

    def runs_products(self, call: Callable[[], Any]) -> bool | None:
        """Return whether the result of one more call, which is not computed, needs a product or convolution.

        None where the call has computed something, of which no graph is left, or for a kernel of one's own.
        """
        before = self._mx.get_active_memory()
        self._mx.reset_peak_memory()
        arrays = list(self._arrays(call()))
        if self._mx.get_peak_memory() - before > _SCALARS or not arrays:
            return None
        graph = StringIO()
        self._mx.export_to_dot(graph, *arrays)
        return any_product(map(_is_product, _PRIMITIVE.findall(graph.getvalue())))

    def copiers(self, size: int) -> tuple[Callable[[], Any], ...]:
        """Return a negation, which moves as much: of copies into an array only the last would be computed."""
        source = self.ones(size // 4)
        return (lambda: -source,)

    def free_memory(self) -> int | None:
        """Return the bytes that CUDA can still give; Apple's GPUs share the memory of the system."""
        return self._mx.device_info(self._device).get("free_memory")  # type: ignore[no-any-return]

    def release(self) -> None:
        """Empty MLX's cache of memory."""
        self._mx.clear_cache()

    def _arrays(self, value: Any) -> Iterator[Any]:
        """Yield the arrays in a result; MLX itself looks into dicts, lists and tuples alone."""
        return containers.found_in(value, lambda part: ask.is_a(part, self._mx.array))

    def _pci_bus_id(self) -> str:
        if "pci_bus_id" not in self._properties:
            raise GpuPerfError("MLX reports a bus id, which NVML needs, of NVIDIA's GPUs only")
        return str(self._properties["pci_bus_id"])

    def _reduced_products(self) -> Reduced | None:
        """Return that float32 products are rounded, as MLX does by default where the GPU has units for it.

        Apple's are the neural accelerators (mlx/backend/metal/device.cpp, `is_nax_available`).
        """
        found = self._properties
        if self.emulates_gpu or environ.get("MLX_ENABLE_TF32", "1") == "0":
            return None
        if apple := _ARCHITECTURE.match(str(found.get("architecture"))):
            first = 18 if apple[2] == "p" else 17
            system = tuple(int(part) for part in mac_ver()[0].split(".") if part)
            reduces = int(apple[1]) >= first and system >= _NEURAL_ACCELERATORS
        else:
            major, minor = (found.get(f"compute_capability_{part}", 0) for part in ("major", "minor"))
            reduces = may_use_tf32(float(f"{major}.{minor}"))
        return Reduced(mode="TF32", setting="MLX_ENABLE_TF32") if reduces else None


def _is_product(primitive: str) -> bool | None:
    if _PRODUCT.search(primitive):
        return True
    return False if primitive in _OWN or primitive.startswith("Compiled") else None


class MlxBackend(LibraryBackend):
    """`mlx[:N]`: GPU N of those that MLX shows; `mlx:cpu` is a stand-in's.

    `auto` does not choose it: a test's `xp` would depend on the machine.
    """

    name = "mlx"
    library = (
        "mlx.core",
        "MLX",
        "install pytest-gpuperf[mlx], on Linux with MLX's build for a GPU (mlx[cuda13])",
    )

    def count(self) -> int:
        """Return how many GPUs MLX shows."""
        mx = self.load()
        return int(mx.device_count(mx.gpu)) if mx.is_available(mx.gpu) else 0

    def open(self, index: int) -> MlxDevice:
        """Return that GPU, after one kernel on it."""
        mx = self.load()
        found = mx.Device(mx.gpu, index)
        device = MlxDevice(mx, found, str(mx.device_info(found).get("device_name", found)))
        with device.context():
            mx.eval(mx.ones(1) + 1)
        return device

    def emulated(self, name: str, index: int) -> MlxDevice:  # noqa: ARG002 - MLX has one CPU
        """Return MLX's CPU as a GPU of that name."""
        mx = self.load()
        return MlxDevice(mx, mx.Device(mx.cpu, 0), name, emulates_gpu=True)

    def too_few(self, count: int, index: int) -> Unavailable:
        """Return the error for a number that is too large, or for a machine without a GPU."""
        problem = f"MLX {self.load().__version__} has no GPU here"
        return super().too_few(count, index) if count else Unavailable(f"{problem}; {_REMEDY}")
