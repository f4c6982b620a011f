"""GPUs and TPUs through JAX, one or several as a mesh, compared with JAX on the CPU; all are asynchronous."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cached_property, wraps
from os import environ
from types import ModuleType
from typing import Any

import numpy as np

from pytest_gpuperf.devices import jax_platforms, jax_products, jax_programs
from pytest_gpuperf.devices.environment import cpu_name
from pytest_gpuperf.devices.group import DeviceGroup, Parts
from pytest_gpuperf.devices.library import (
    BFLOAT16_EPS,
    TF32_EPS,
    VISIBLE,
    VISIBLE_TO_AMD,
    LibraryBackend,
    LibraryDevice,
    Namespace,
    Reduced,
    may_use_tf32,
    shown_setting,
    unusable,
)
from pytest_gpuperf.devices.nvml import cuda_bus_id, cuda_driver, cuda_size
from pytest_gpuperf.devices.protocol import Activity, Observation, Watched
from pytest_gpuperf.model import ask
from pytest_gpuperf.model.demand import Kind
from pytest_gpuperf.model.errors import GpuPerfError, Unavailable
from pytest_gpuperf.model.measurement import DeviceInfo

_NUMBER = re.compile(r"[0-9]+\.[0-9]+")
# Of jax_default_matmul_precision: those that keep float32's digits, by splitting its numbers if need be.
_EXACT = (
    "highest",
    "HIGHEST",  # as jax.lax.Precision has it
    "float32",
    "F32_F32_F32",
    "BF16_BF16_F32_X6",
    "BF16_BF16_F32_X9",
    "TF32_TF32_F32_X3",
)
_FINER_THAN_TF32 = "BF16_BF16_F32_X3"
_PLUGINS = "jax[cuda13], jax[cuda12], jax-rocm7-plugin, jax[tpu]"
AXIS = "devices"
"""The name of the only axis of a group's mesh."""


# More than 20 methods: it answers nearly all that a TimedDevice may be asked.
class JaxDevice(LibraryDevice):
    """One JAX device; work runs asynchronously on it, the CPU's too.

    `xp` is jax.numpy: an array that it makes is committed to this device, and a function with an array
    argument runs where that array is. What says nothing of a device, as `jax.numpy.ones` or a jitted function
    of its array, runs where JAX's own context says, so `context` is entered around each use.
    JAX's own `jax_enable_x64` decides whether float64 is kept: without it, asarray makes it float32.
    NumPy has no bfloat16: such arrays are copied to the host as float32.
    """

    backend = "jax"

    def __init__(self, jax: Any, device: Any, name: str, *, emulates_gpu: bool = False) -> None:
        self.kind: Kind = "cpu" if device.platform == "cpu" and not emulates_gpu else "gpu"
        self.name = name
        self.xp = _placed(jax, device)
        self._jax = jax
        self.native = device
        self.emulates_gpu = emulates_gpu
        self._follow = jax.jit(lambda mark: mark + 1)
        self._mark = jax.device_put(np.float32(0), device)

    @property
    def info(self) -> DeviceInfo:
        """Describe the device."""
        runtime = None if self.native.platform == "cpu" else self._runtime
        # A TPU's runtime tells when it was built and from what, by which every one would be another.
        is_build = runtime is not None and runtime.startswith("Built on ")
        return self.describe(
            f"jax {self._jax.__version__}{f', {runtime}' if is_build else ''}",
            products=self._reduced_products(),
            runtime=None if is_build else runtime,
            **self._size,
            driver=cuda_driver() if self._runtime.startswith("cuda") else None,
        )

    def asarray(self, host: Any) -> Any:
        """Copy to this device, and wait until `host` may be changed again.

        On the CPU an aligned NumPy array would be used in place, whatever `may_alias` says (JAX 0.10).
        """
        if isinstance(host, self._jax.Array):
            values = host.copy()
        else:
            values = np.array(host) if self.native.platform == "cpu" else np.asarray(host)
        return self._jax.device_put(values, self.native).block_until_ready()

    def asnumpy(self, array: Any) -> Any:
        """Copy to the host once the array is ready; a random key comes as the numbers in it.

        JAX caches an array's host copy, so that a second one would cost nothing: a new view has no cache. It
        gets memory of its own from a GPU, and to copy that again may take longer than the copy itself; on the
        CPU it is the array's own memory.
        """
        if self._jax.dtypes.issubdtype(array.dtype, self._jax.dtypes.prng_key):
            array = self._jax.random.key_data(array)
        host = np.asarray(array.addressable_data(0))
        if host.dtype.kind == "V":
            return host.astype(np.float32)
        if not host.flags.owndata:
            return np.array(host)
        host.flags.writeable = True  # JAX protects its cache, which is gone with the view
        return host

    def context(self) -> AbstractContextManager[Any]:
        """Return JAX's own context that makes this device the default one of this thread."""
        default: AbstractContextManager[Any] = self._jax.default_device(self.native)
        return default

    def synchronize(self) -> None:
        """Wait for a computation that runs after all others, and for every live array.

        JAX cannot wait for a device. XLA runs a device's computations in their order, on the CPU those of one
        thread (xla/pjrt/cpu, `SetLastEnqueueEvent`), whether or not their results are kept. Copies, and the
        work of other threads, are waited for by their arrays. A failed one is done: it raises when read.
        """
        self.follow().block_until_ready()
        self._wait_for_arrays()

    def wait(self, result: Any) -> None:
        """Wait for the arrays of a result; where it has other things in it, for all of this thread's work.

        To ask every live array, as `synchronize` does, takes as long as a short call for a few of them.
        """
        if type(result) is not type(self._mark):  # in the time of a call, and `isinstance` takes longer
            leaves = ask.answer(self._jax.tree.leaves, result, default=[])  # of keys that JAX cannot sort
            arrays = [leaf for leaf in leaves if ask.is_a(leaf, self._jax.Array)]
            if not arrays or len(arrays) < len(leaves):
                arrays.append(self.follow())
            for array in arrays:
                _wait_for(array)
            return
        try:  # noqa: SIM105 - `suppress` takes as long as a short call's end
            result.block_until_ready()
        except RuntimeError:  # deleted, or failed: it raises when it is read
            pass

    def follow(self) -> Any:
        """Submit a computation that runs after all others, and return its array."""
        return self._follow(self._mark)

    def unfinished(self) -> list[Any]:
        """Return the live arrays that are not ready."""
        return [array for array in self._jax.live_arrays(self.native.platform) if not _is_ready(array)]

    def holds(self, value: Any) -> bool:
        """Return whether `value` is an array on this device and on no other."""
        return isinstance(value, self._jax.Array) and value.devices() == {self.native}

    def is_immutable(self, array: Any) -> bool:  # noqa: ARG002 - the capability passes it
        """Return True: calls make new arrays, and write none."""
        return True

    @contextmanager
    def observe(self) -> Iterator[Observation]:
        """Detect work by the allocator's count; without an allocator, as on the CPU, every call is work.

        JAX records the peak of the whole process only, so that the peak of one call is not reported.
        """
        observation = Observation(worked=True)
        before = self._memory()
        yield observation
        if "num_allocs" not in before:
            return
        self._wait_for_arrays()  # only then is all of their memory allocated
        after = self._memory()
        observation.worked = after["num_allocs"] > before["num_allocs"]
        if "bytes_in_use" in before:
            observation.held = after["bytes_in_use"] - before["bytes_in_use"]

    def watch(self) -> AbstractContextManager[Watched]:
        """Watch what JAX compiles."""
        return jax_programs.watched(self._jax, self.native)

    def is_constant(self, function: Any) -> bool | None:
        """Return whether a function of `jax.jit` computes from nothing but arrays that it closes over."""
        return jax_programs.is_constant(self._jax, function)

    def activity(self, call: Callable[[], Any], smallest: int) -> Activity | None:  # noqa: ARG002 - no size escapes it
        """Count the compiled programs that a call runs; copies from and to the host are none."""
        return jax_programs.activity(call, besides=self._follow)

    def runs_products(self, call: Callable[[], Any]) -> bool | None:
        """Return whether a call multiplies or convolves in a mode that rounds, if one more call shows it."""
        return jax_products.runs_products(self._jax, call, _EXACT, self.native.platform)

    def compilations(self) -> int:
        """Return how many programs JAX has compiled since this was asked first."""
        return len(jax_programs.compilations(self._jax))

    def release(self) -> None:
        """Do nothing: JAX keeps its pool."""

    def _wait_for_arrays(self) -> None:
        for array in self._jax.live_arrays(self.native.platform):
            _wait_for(array)

    @property
    def _runtime(self) -> str:
        return str(self.native.client.platform_version).strip().rpartition("\n")[2]

    @cached_property
    def _size(self) -> dict[str, Any]:
        """Memory and multiprocessors; JAX itself tells the latter alone."""
        if (number := self._cuda_number) is not None and (size := cuda_size(number)):
            return size
        cores = getattr(self.native, "core_count", None)
        return {"multiprocessors": cores} if cores else {}

    @property
    def _cuda_number(self) -> int | None:
        """The number of CUDA's device, which JAX takes and gives in DLPack; None for another vendor's."""
        number = getattr(self.native, "local_hardware_id", None)
        return number if self._runtime.startswith("cuda") and isinstance(number, int) else None

    def _pci_bus_id(self) -> str:
        if (number := self._cuda_number) is None:
            raise GpuPerfError(f"JAX's device {self.native} is no NVIDIA GPU, and NVML knows no other")
        return cuda_bus_id(number)

    def _memory(self) -> dict[str, int]:
        """Return the counters that the allocator keeps; a plugin gives a negative number for any other."""
        counters = self.native.memory_stats() or {}
        return {name: number for name, number in counters.items() if number >= 0}

    def _reduced_products(self) -> Reduced | None:
        """Return how factors of float32 products are rounded (jax.lax.Precision); by default they are.

        TPUs round to bfloat16, and GPUs where a preset says so.
        """
        precision, platform = str(self._jax.config.jax_default_matmul_precision), self.native.platform
        capability = str(getattr(self.native, "compute_capability", ""))  # of AMD's GPUs gfx942, or unknown
        has_tf32 = _NUMBER.fullmatch(capability) is not None and may_use_tf32(float(capability))
        if platform == "cpu" or precision in _EXACT or not (platform == "tpu" or has_tf32):
            return None
        is_bfloat16 = platform == "tpu" or precision.startswith("BF16")
        return Reduced(
            mode="bfloat16" if is_bfloat16 else "TF32",
            setting=f"jax_default_matmul_precision={precision}",
            eps=BFLOAT16_EPS if is_bfloat16 and precision != _FINER_THAN_TF32 else TF32_EPS,
        )


class JaxGroup(DeviceGroup):
    """JAX devices as one: arrays are sharded over a `mesh` of one axis, `devices`, and XLA divides the work.

    `jax.jit` runs where its inputs are.
    """

    all: tuple[JaxDevice, ...]

    def __init__(self, jax: Any, devices: Sequence[JaxDevice]) -> None:
        super().__init__(devices)
        self.xp = jax.numpy
        self._jax = jax
        self._devices = {device.native for device in devices}
        self.mesh = jax.sharding.Mesh(np.array([device.native for device in devices]), (AXIS,))

    def asarray(self, host: Any, *, shard: int | None = None) -> Any:
        """Return one array on all devices, divided along the axis `shard`, or copied to each without it.

        GpuPerfError where the axis does not exist, or the devices cannot share it equally.
        """
        spec: list[str | None] = []
        if shard is not None:
            axis = self.divisible_axis(host, shard) % np.ndim(host)
            spec = [*[None] * axis, AXIS]
        sharding = self._jax.sharding.NamedSharding(self.mesh, self._jax.sharding.PartitionSpec(*spec))
        return self._jax.device_put(np.array(host), sharding).block_until_ready()

    def asnumpy(self, array: Any) -> Any:
        """Copy to the host once the array is ready; of `Parts` all, along a new first axis."""
        if isinstance(array, Parts):
            return super().asnumpy(array)
        host = np.array(array)
        return host.astype(np.float32) if host.dtype.kind == "V" else host

    def holds(self, value: Any) -> bool:
        """Return whether `value` is an array on some of these devices and on no other."""
        if isinstance(value, Parts):
            return True
        return isinstance(value, self._jax.Array) and value.devices() <= self._devices

    def is_immutable(self, array: Any) -> bool:  # noqa: ARG002 - the capability passes it
        """Return True: calls make new arrays, and write none."""
        return True

    def idle(self, arrays: Iterable[Any]) -> list[int]:
        """Return the numbers of the devices that hold no part of these arrays."""
        busy = set().union(*(array.devices() for array in arrays))
        return [number for number, device in enumerate(self.all) if device.native not in busy]

    def on_first(self, arrays: Iterable[Any]) -> list[Any]:
        """Return what the first device holds of these arrays: its parts of them, or its copies."""
        first = self.mesh.devices.flat[0]
        return [shard.data for array in arrays for shard in array.addressable_shards if shard.device == first]

    def wait(self, result: Any) -> None:
        """Wait for the arrays of a result; where it has other things in it, for each device's work.

        What follows the work is submitted to all devices first, so that they are waited for at one time.
        """
        if result is not None:
            self.all[0].wait(result)
        else:
            for mark in [device.follow() for device in self.all]:
                mark.block_until_ready()

    def unfinished(self) -> list[Any]:
        """Return the live arrays that are not ready, on any device."""
        return self.all[0].unfinished()


class JaxBackend(LibraryBackend):
    """`jax[:N]`: accelerator N of those that JAX shows; `jax:cpu` is a stand-in's.

    `auto` does not choose it: it replaces NumPy on the CPU too, so that a test's `xp` would depend on the
    machine.
    """

    name = "jax"
    library = ("jax", "JAX", "install pytest-gpuperf[jax], for a GPU with JAX's plugin for it (jax[cuda13])")
    gpus = "accelerator"

    def count(self) -> int:
        """Return how many accelerators JAX shows."""
        jax = self.load()
        return len(_accelerators(jax)) if jax_platforms.failure_at_start(jax) is None else 0

    def open(self, index: int) -> JaxDevice:
        """Return that accelerator, after one kernel on it."""
        jax = self.load()
        found = _accelerators(jax)[index]
        device = JaxDevice(jax, found, found.device_kind)
        device.xp.ones(1).sum()
        if index:  # arrays that a test makes with jax.numpy itself shall live there, too
            jax.config.update("jax_default_device", found)
        return device

    def too_few(self, count: int, index: int) -> Unavailable:
        """Return the error for a number that is too large, or for a machine without a usable accelerator."""
        if count:
            return Unavailable(f"{super().too_few(count, index)}{_settings()}")
        return self._not_started("JAX sees no GPU")

    def group(self, devices: Sequence[Any]) -> JaxGroup:
        """Return several devices as a mesh; the first is the default again, as the last was opened."""
        jax = self.load()
        if len(devices) > 1:
            jax.config.update("jax_default_device", devices[0].native)
        return JaxGroup(jax, devices)

    def cpu(self) -> JaxDevice:
        """Return JAX on the CPU; looking it up makes JAX open its GPU as well."""
        jax = self.load()
        try:
            device = jax_platforms.cpus(jax)[0]
        except Exception as error:  # RuntimeError, or a bare AssertionError of JAX 0.10
            problem = "JAX cannot use the CPU for the comparison"
            if jax_platforms.failure_at_start(jax) is not None:
                raise self._not_started(problem) from error
            where = "JAX_PLATFORMS" if "JAX_PLATFORMS" in environ else "jax.config's jax_platforms"
            raise GpuPerfError(f"{problem}; add cpu to {where}, after the GPU's platform: {error}") from error
        return JaxDevice(jax, device, cpu_name())

    def emulated(self, name: str, index: int) -> JaxDevice:
        """Return one of JAX's devices of the CPU as a GPU of that name."""
        jax = self.load()
        return JaxDevice(jax, jax_platforms.cpus(jax)[index], name, emulates_gpu=True)

    def _not_started(self, problem: str) -> Unavailable:
        """Return why no platform for an accelerator has started: of a GPU that is there, if one is."""
        failures = jax_platforms.failures(self.load())
        remedy = f"check its plugin ({_PLUGINS}) and its driver{_settings()}"
        causes = [unusable(problem, failure, remedy) for failure in failures]
        install = f"install JAX's plugin for your device ({_PLUGINS}) and its driver"
        none = Unavailable(f"{problem}; {install}, and give a container its GPUs{_settings()}")
        return max(causes, key=lambda cause: cause.broken, default=none)


def _accelerators(jax: Any) -> list[Any]:
    return [device for device in jax.local_devices() if device.platform != "cpu"]


def _settings() -> str:
    """Return those variables that are set and may hide devices from JAX, to be appended to a message."""
    names = ("JAX_PLATFORMS", VISIBLE, *VISIBLE_TO_AMD)
    return "".join(f"; {shown_setting(name)}" for name in names if name in environ)


def _wait_for(array: Any) -> None:
    with suppress(RuntimeError):  # deleted, or failed: it raises when it is read
        array.block_until_ready()


def _is_ready(array: Any) -> bool:
    try:
        return bool(array.is_ready())
    except RuntimeError:  # deleted, or failed
        return True


def _placed(jax: Any, device: Any) -> Namespace:
    """Return jax.numpy, whose functions run on the device unless an array argument decides that."""

    def place(name: str, value: Any) -> Any:
        if name in ("fft", "linalg") and isinstance(value, ModuleType):  # `fft.fft` is a function
            return Namespace(value, place)
        return _run_on(value, device, jax) if callable(value) and not isinstance(value, type) else value

    return Namespace(jax.numpy, place)


def _run_on(function: Any, device: Any, jax: Any) -> Any:
    @wraps(function)
    def run(*inputs: Any, **options: Any) -> Any:
        if any(isinstance(argument, jax.Array) for argument in inputs):
            return function(*inputs, **options)
        with jax.default_device(device):
            result = function(*inputs, **options)
        return jax.tree.map(lambda leaf: _committed(leaf, device, jax), result)

    for name in {*dir(function)} - {*dir(run)}:  # a ufunc has methods: reduce, at
        if not name.startswith("_"):
            setattr(run, name, getattr(function, name))
    return run


def _committed(leaf: Any, device: Any, jax: Any) -> Any:
    """Return an array committed to the device, in the same memory; unchanged if traced, or elsewhere."""
    if not isinstance(leaf, jax.Array) or isinstance(leaf, jax.core.Tracer):
        return leaf
    return jax.device_put(leaf, device) if leaf.devices() == {device} else leaf
