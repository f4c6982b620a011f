"""GPUs through Keras, compared with Keras on the CPU: it runs on TensorFlow, PyTorch or JAX."""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import Any

import numpy as np
from msgspec.structs import replace

from pytest_gpuperf.devices.environment import cpu_name
from pytest_gpuperf.devices.jax import JaxBackend
from pytest_gpuperf.devices.library import (
    LibraryBackend,
    LibraryDevice,
    Namespace,
    Reduced,
    any_product,
    may_use_tf32,
    unusable,
)
from pytest_gpuperf.devices.nvml import cuda_bus_id, cuda_driver, cuda_size, driver_failure
from pytest_gpuperf.devices.protocol import Observation, Single, TimedDevice
from pytest_gpuperf.devices.torch import TorchBackend
from pytest_gpuperf.model.demand import Kind
from pytest_gpuperf.model.errors import Fault, Unavailable
from pytest_gpuperf.model.measurement import DeviceInfo

_PRODUCT = re.compile(r"MatMul|Einsum|Conv(?!ert)|Dot|RNN|LSTM|GRU")  # of TensorFlow's operations
_CHOICE = "set KERAS_BACKEND to tensorflow, torch or jax, whichever is installed"


class KerasDevice(Single):  # no TimedDevice: its defaults would hide what `__getattr__` finds
    """Keras on one device: `xp` is keras.ops, and layers and models are made on the device, too.

    Keras puts what it makes where its context says, so `context` is entered around each use. Everything else,
    such as how to wait, is done by the device of the library that Keras runs on: `runs_on`.
    """

    backend = "keras"

    def __init__(self, keras: Any, runs_on: TimedDevice) -> None:
        self._runs_on = runs_on
        self._keras = keras
        self.kind: Kind = runs_on.kind
        self.name, self.native = runs_on.name, runs_on.native
        self.clock = runs_on.clock
        self.synchronize, self.observe = runs_on.synchronize, runs_on.observe
        self.xp: Any = Namespace(keras.ops, lambda _, value: value)
        vars(self.xp)["asarray"] = keras.ops.convert_to_tensor
        place = runs_on.asarray(np.zeros(1, np.float32)).device
        self._place = place if runs_on.backend == "jax" else str(place)

    def __getattr__(self, name: str) -> Any:
        """Return an optional method of the device that Keras runs on."""
        if name == "_runs_on":  # copy.copy looks attributes up before __init__ has run
            raise AttributeError(name)
        return getattr(self._runs_on, name)

    @property
    def info(self) -> DeviceInfo:
        """Describe the device: it is the one below."""
        below = self._runs_on.info
        library = f"keras {self._keras.__version__} on {below.library}"
        return replace(below, backend=self.backend, library=library)

    def context(self) -> AbstractContextManager[Any, None]:
        """Return Keras' own context, in which it makes tensors, layers and models on this device."""
        return self._keras.device(self._place)  # type: ignore[no-any-return]

    def asarray(self, host: Any) -> Any:
        """Copy to this device."""
        return self._runs_on.asarray(self._value(host))

    def asnumpy(self, array: Any) -> Any:
        """Copy to the host once the array is ready."""
        return self._runs_on.asnumpy(self._value(array))

    def holds(self, value: Any) -> bool:
        """Return whether `value` is a tensor, or a variable of Keras, on this device."""
        return self._runs_on.holds(self._value(value))

    def is_immutable(self, array: Any) -> bool:
        """Return whether no call can write `array`: calls assign to a variable."""
        is_variable = isinstance(array, self._keras.Variable)
        return not is_variable and self._runs_on.is_immutable(array)

    def _value(self, value: Any) -> Any:
        return value.value if isinstance(value, self._keras.Variable) else value


class KerasBackend(LibraryBackend):
    """`keras[:N]`: GPU N of what Keras runs on; `keras:cpu` is a stand-in's. `auto` does not choose it."""

    name = "keras"
    library = ("keras", "Keras", "install pytest-gpuperf[keras], and tensorflow, torch or jax", _CHOICE)

    def selectors(self) -> list[str]:
        """Return a number for each GPU of the library that Keras runs on."""
        below = self._below(self.load())
        counted = len(below.selectors()) if isinstance(below, TorchBackend) else below.count()
        return [str(index) for index in range(counted)]

    def gpu(self, selector: str) -> Any:
        """Return the device of what Keras runs on, which that has tried."""
        keras = self.load()
        below = self._below(keras)
        if selector and isinstance(below, TorchBackend):
            first = next(iter(below.selectors()), None)  # without any, torch says why
            selector = f"{first.partition(':')[0]}:{selector}" if first else ""
        return KerasDevice(keras, below.gpu(selector))

    def cpu(self) -> Any:
        """Return Keras on the CPU."""
        keras = self.load()
        return KerasDevice(keras, self._below(keras).cpu())

    def emulated(self, name: str, index: int) -> Any:
        """Return Keras' CPU as a GPU of that name."""
        keras = self.load()
        return KerasDevice(keras, self._below(keras).emulated(name, index))

    def _below(self, keras: Any) -> Any:
        """Return the backend of the library that Keras runs on."""
        library = keras.config.backend()
        available = {"tensorflow": _TensorflowBackend, "torch": TorchBackend, "jax": JaxBackend}
        if library not in available:
            raise Unavailable(f"Keras runs on {library}, which has no device to time; {_CHOICE}")
        return available[library]()


class _TensorflowDevice(LibraryDevice):
    """One device of TensorFlow, below Keras; its work runs asynchronously on a GPU."""

    backend = "tensorflow"

    def __init__(
        self,
        tensorflow: Any,
        place: str,
        name: str,
        details: dict[str, Any] | None = None,
        *,
        emulates_gpu: bool = False,
    ) -> None:
        self._on_cpu = place.startswith("CPU")
        self.emulates_gpu = emulates_gpu
        self.kind: Kind = "cpu" if self._on_cpu and not emulates_gpu else "gpu"
        self.name = name
        self.xp = tensorflow
        self._tf = tensorflow
        self._place = place
        self._details = details or {}

    @property
    def info(self) -> DeviceInfo:
        major, minor = self._details.get("compute_capability", (0, 0))
        may_reduce = self._tf.config.experimental.tensor_float_32_execution_enabled()
        reduces = may_reduce and may_use_tf32(float(f"{major}.{minor}"))
        setting = "enable_tensor_float_32_execution"
        products, convolutions = (
            Reduced(mode="TF32", setting=setting, work=work) if reduces else None
            for work in ("products", "convolutions")
        )
        library = f"tensorflow {self._tf.__version__}"
        size = {} if self._on_cpu else cuda_size(self._number)
        driver = None if self._on_cpu else cuda_driver()
        return self.describe(library, products=products, convolutions=convolutions, driver=driver, **size)

    def asarray(self, host: Any) -> Any:
        with self._tf.device(self._place):
            return (
                self._tf.identity(host) if self._tf.is_tensor(host) else self._tf.constant(np.asarray(host))
            )

    def ones(self, count: int) -> Any:
        with self._tf.device(self._place):
            return self._tf.ones(count)

    def asnumpy(self, array: Any) -> Any:
        host = np.array(array.numpy())
        return host.astype(np.float32) if host.dtype.kind == "V" else host  # bfloat16

    def synchronize(self) -> None:
        self._tf.test.experimental.sync_devices()

    def holds(self, value: Any) -> bool:
        return self._tf.is_tensor(value) and str(getattr(value, "device", "")).endswith(self._place)

    def is_immutable(self, array: Any) -> bool:
        return not isinstance(array, self._tf.Variable)

    @contextmanager
    def observe(self) -> Iterator[Observation]:
        """Detect work by the allocator's peak, which this resets; on the CPU every call is work."""
        observation = Observation(worked=True)
        if self._on_cpu:
            yield observation
            return
        memory = self._tf.config.experimental
        before = memory.get_memory_info(self._place)["current"]
        memory.reset_memory_stats(self._place)
        yield observation
        self.synchronize()
        after = memory.get_memory_info(self._place)
        observation.live = before
        observation.memory, observation.held = after["peak"] - before, after["current"] - before
        observation.worked = observation.memory > 0

    def runs_products(self, call: Callable[[], Any]) -> bool | None:
        """Return whether a call multiplies or convolves, from the operations that one more call runs.

        Their names come as TensorFlow's own debugger has them. Functions run as one operation each, whose
        graph TensorFlow keeps. None for an operation that is not TensorFlow's own, or runs Python.
        """
        names: list[str] = []

        def note(name: str | bytes, *_: Any, **__: Any) -> None:
            names.append(self._tf.compat.as_str(name))

        callbacks = import_module("tensorflow.python.framework.op_callbacks")
        callbacks.add_op_callback(note)
        try:
            call()
        finally:
            callbacks.remove_op_callback(note)
        return any_product(map(self._is_product, self._with_graphs(names)))

    def _with_graphs(self, names: list[str]) -> list[str]:
        """Return the names of operations, those in the graphs of functions in place of the functions."""
        context = import_module("tensorflow.python.eager.context").context()
        found, seen = [], set[str]()
        while names:
            name = names.pop()
            if not context.has_function(name):
                found.append(name)
            elif name not in seen:
                seen.add(name)
                for node in context.get_function_def(name).node_def:
                    names.append(node.op)
                    for value in node.attr.values():
                        names += [function.name for function in (value.func, *value.list.func)]
        return [name for name in found if name]

    def _is_product(self, name: str) -> bool | None:
        if _PRODUCT.search(name):
            return True
        return False if hasattr(self._tf.raw_ops, name) and "PyFunc" not in name else None

    def fault(self, error: BaseException) -> Fault | None:
        if isinstance(error, self._tf.errors.ResourceExhaustedError):
            return Fault(kind="out_of_memory")
        if isinstance(error, self._tf.errors.OpError):  # no RuntimeError, which other libraries raise
            error = RuntimeError(str(error))
        return super().fault(error)

    def release(self) -> None:
        """Do nothing: TensorFlow keeps its pool."""

    def _pci_bus_id(self) -> str:
        return cuda_bus_id(self._number)

    @property
    def _number(self) -> int:
        return int(self._place.partition(":")[2])


class _TensorflowBackend(LibraryBackend):
    name = "tensorflow"
    library = ("tensorflow", "TensorFlow", f"install tensorflow[and-cuda], or {_CHOICE}")
    hidden_by = "CUDA_VISIBLE_DEVICES"

    def count(self) -> int:
        return len(self.load().config.list_physical_devices("GPU"))

    def open(self, index: int) -> _TensorflowDevice:
        tensorflow = self.load()
        found = tensorflow.config.list_physical_devices("GPU")[index]
        details = tensorflow.config.experimental.get_device_details(found)
        name = str(details.get("device_name", found.name))
        device = _TensorflowDevice(tensorflow, f"GPU:{index}", name, details)
        tensorflow.reduce_sum(device.asarray(np.ones(1)))
        return device

    def too_few(self, count: int, index: int) -> Unavailable:
        if count:
            return super().too_few(count, index)
        problem, remedy = "TensorFlow sees no GPU", "install tensorflow[and-cuda] and the driver"
        if (said := driver_failure()) is not None:  # TensorFlow writes it to the standard error alone
            return unusable(problem, RuntimeError(said), remedy)
        return Unavailable(f"{problem}; {remedy}")

    def cpu(self) -> _TensorflowDevice:
        return _TensorflowDevice(self.load(), "CPU:0", cpu_name())

    def emulated(self, name: str, index: int) -> _TensorflowDevice:
        return _TensorflowDevice(self.load(), f"CPU:{index}", name, emulates_gpu=True)
