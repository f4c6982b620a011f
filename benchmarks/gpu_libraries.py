"""GPU libraries as their users call them, without the package: waits, events, copies, hard cases."""

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np
from msgspec.structs import replace

from pytest_gpuperf.devices.jax import JaxBackend, JaxDevice
from pytest_gpuperf.devices.machine import Machine
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.model.measurement import DeviceInfo

__all__ = ["LIBRARIES", "Library", "devices"]


class Library:
    """One library: what a hand-written benchmark of it would do. Times are in seconds."""

    module: str
    dtypes: tuple[str, ...] = ("float32",)
    """Of the products whose rounding is looked at: those that the library has on both devices."""
    settings: tuple[dict[str, str], ...] = ({},)
    """Environments that may change the precision of float32 products."""
    faults: dict[str, tuple[str, str]]
    """By name a kind of fault, and Python code that raises it."""

    def __init__(self) -> None:
        self.module_object: Any = import_module(self.module)

    def wait(self, result: Any) -> None:
        """Wait until the result is computed."""
        raise NotImplementedError

    def up(self, host: Any) -> Any:
        """Copy to the device, and wait."""
        raise NotImplementedError

    def down(self, array: Any) -> Any:
        """Copy to the host, and wait."""
        raise NotImplementedError

    def by_events(self, call: Callable[[], Any], calls: int) -> float | None:  # noqa: ARG002 - for those that can
        """Return the mean time of a call by two device events; None for a library without events."""
        return None

    def by_tracing(self, call: Callable[[], Any]) -> float | None:  # noqa: ARG002 - as above
        """Return how long the kernels of a call run, as CUPTI records them; None without a tracer."""
        return None

    def peers(self, call: Callable[[], Any]) -> dict[str, Callable[[], float]]:  # noqa: ARG002 - as above
        """Return by name what measures a call with the library's own tools, in seconds."""
        return {}

    def cast(self, array: Any, dtype: str) -> Any:
        """Return an array of either device in another dtype."""
        return array.astype(dtype)

    def convolve(self, images: Any, weights: Any) -> Any:  # noqa: ARG002 - as above
        """Return images of the same size after a 3x3 convolution; None for a library without them."""
        return None

    def compiled(self) -> Callable[[], Any] | None:
        """Return a compiled call whose result is in memory of its own; None for a library without those."""
        return None

    def unseen(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        """Yield work that asks no pool for memory, or does not run on the default stream."""
        yield from ()


_CRASH = """
crash = cupy.RawKernel('extern "C" __global__ void crash(int* p) { *((volatile int*)16) = 1; }', "crash")
crash((1,), (1,), (cupy.zeros(1, "i4"),))
"""
_PRODUCT = "a = cupy.ones((512, 512), 'f4')\na @ a\n"
_TORCHS_PRODUCT = "a = torch.ones(512, 512, device='cuda')\na @ a\n"
_ASSERTION = "torch.ones(3, device='cuda')[torch.tensor([10**9], device='cuda')]"
# What is left is less than cuBLAS or its work area takes.
_FULL = """
a, out = (torch.ones(64, 64, device="cuda") for _ in range(2))
held, size = [], 1 << 36
while size >= 1 << 20:
    try:
        held.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError:
        size //= 2
"""


class Cupy(Library):
    """CuPy."""

    module = "cupy"
    settings = (
        {},
        {"CUPY_TF32": "1"},
        {"NVIDIA_TF32_OVERRIDE": "1"},
        {"CUPY_TF32": "1", "NVIDIA_TF32_OVERRIDE": "0"},
    )
    faults = {  # noqa: RUF012 - as those below, nobody changes it
        "memory": ("out_of_memory", "cupy.empty(1 << 45, 'u1')"),
        "memory without a pool": (
            "out_of_memory",
            "cupy.cuda.set_allocator(None)\ncupy.empty(1 << 45, 'u1')",
        ),
        "illegal address": ("lost", f"{_CRASH}\ncupy.cuda.Device().synchronize()"),
        "illegal address, met by a copy": ("lost", f"{_CRASH}\ncupy.ones(3).get()"),
        "illegal address, met by cuBLAS": (
            "lost",
            f"{_PRODUCT}{_CRASH}\ntime.sleep(0.05)\na @ a\ncupy.cuda.Device().synchronize()",
        ),
    }

    def wait(self, result: Any) -> None:  # noqa: ARG002 - of a result of another library
        self.module_object.cuda.Device().synchronize()  # all streams, as the package and torch wait

    def up(self, host: Any) -> Any:
        array = self.module_object.asarray(host)
        self.wait(array)
        return array

    def down(self, array: Any) -> Any:
        return self.module_object.asnumpy(array)

    def by_events(self, call: Callable[[], Any], calls: int) -> float:
        cuda = self.module_object.cuda
        begin, end = cuda.Event(), cuda.Event()
        begin.record()
        for _ in range(calls):
            call()
        end.record()
        end.synchronize()
        return float(cuda.get_elapsed_time(begin, end)) / 1e3 / calls

    def peers(self, call: Callable[[], Any]) -> dict[str, Callable[[], float]]:
        def profiler() -> float:
            from cupyx.profiler import benchmark

            # It wants a function's name, which a partial has not.
            found = benchmark(lambda: call(), (), n_repeat=200, n_warmup=10, max_duration=1)
            return float(np.median(found.gpu_times))

        return {"cupyx.profiler": profiler}

    def unseen(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        cupy = self.module_object
        for size in (1000, 1 << 20):
            source, target = cupy.ones(size, "f4"), cupy.ones(size, "f4")
            yield (
                f"add(out=), {size} floats",
                lambda source=source, target=target: cupy.add(source, 1, out=target),
            )
        array = cupy.ones(1 << 16, "f4")
        side = cupy.cuda.Stream(non_blocking=True)

        def on_side() -> None:
            with side:
                cupy.add(array, 1, out=array)

        yield "non-blocking stream", on_side
        one = cupy.ones(1, "f4")
        yield "float(result)", lambda: float(cupy.add(one, 1, out=one)[0])
        source = 'extern "C" __global__ void plus(float* x) { x[threadIdx.x] += 1; }'
        kernel = cupy.RawKernel(source, "plus")
        yield "RawKernel", lambda: kernel((1,), (32,), (array,))
        with side:
            side.begin_capture()
            cupy.add(array, 1, out=array)
            graph = side.end_capture()
        yield "graph", lambda: graph.launch(stream=side)


class Torch(Library):
    """PyTorch on CUDA."""

    module = "torch"
    dtypes = ("float32", "bfloat16", "float16")
    settings = ({}, {"TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "1"}, {"NVIDIA_TF32_OVERRIDE": "1"})
    faults = {  # noqa: RUF012 - as above
        "memory": ("out_of_memory", "torch.empty(1 << 45, dtype=torch.uint8, device='cuda')"),
        "memory for cuBLAS": (
            "out_of_memory",
            f"{_FULL}\ntorch.matmul(a, a, out=out)\ntorch.cuda.synchronize()",
        ),
        "assertion": ("lost", f"{_ASSERTION}\ntorch.cuda.synchronize()"),
        "assertion, met by cuBLAS": (
            "lost",
            f"{_TORCHS_PRODUCT}{_ASSERTION}\ntime.sleep(0.05)\na @ a\ntorch.cuda.synchronize()",
        ),
    }

    def wait(self, result: Any) -> None:  # noqa: ARG002 - as above
        self.module_object.cuda.synchronize()

    def up(self, host: Any) -> Any:
        array = self.module_object.from_numpy(host).cuda()
        self.wait(array)
        return array

    def down(self, array: Any) -> Any:
        return array.cpu().numpy()

    def by_events(self, call: Callable[[], Any], calls: int) -> float:
        cuda = self.module_object.cuda
        begin, end = (cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(calls):
            call()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3 / calls

    def by_tracing(self, call: Callable[[], Any]) -> float | None:
        from torch.profiler import ProfilerActivity, profile

        calls = 20
        with profile(activities=[ProfilerActivity.CUDA]) as traced:
            for _ in range(calls):
                call()
            self.wait(None)
        total = sum(event.device_time_total for event in traced.events() if event.device_type.name == "CUDA")
        return total / 1e6 / calls or None

    def peers(self, call: Callable[[], Any]) -> dict[str, Callable[[], float]]:
        def timer() -> float:
            from torch.utils.benchmark import Timer

            measured = Timer("call()", globals={"call": call}).blocked_autorange(min_run_time=0.2)
            return float(measured.median)

        def do_bench() -> float:
            from triton.testing import do_bench as cold

            return float(cold(call, return_mode="median")) / 1e3

        def do_bench_cudagraph() -> float:
            from triton.testing import do_bench_cudagraph as replayed

            return float(replayed(call, return_mode="median")) / 1e3

        return {
            "torch.utils.benchmark": timer,
            "triton do_bench, cold L2": do_bench,
            "triton do_bench_cudagraph": do_bench_cudagraph,
        }

    def cast(self, array: Any, dtype: str) -> Any:
        return array.to(getattr(self.module_object, dtype))

    def convolve(self, images: Any, weights: Any) -> Any:
        return self.module_object.nn.functional.conv2d(images, weights, padding=1)

    def compiled(self) -> Callable[[], Any]:
        torch = self.module_object
        layers = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU()).cuda()
        work, values = torch.compile(layers, mode="reduce-overhead"), torch.ones(64, 64, device="cuda")

        def call() -> Any:
            with torch.no_grad():
                torch.compiler.cudagraph_mark_step_begin()
                return work(values)

        for _ in range(4):  # it compiles, warms up, and records its graph
            call()
        return call

    def unseen(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        torch = self.module_object
        for size in (1000, 1 << 20):
            source, target = (torch.ones(size, device="cuda") for _ in range(2))
            yield (
                f"add(out=), {size} floats",
                lambda source=source, target=target: torch.add(source, 1, out=target),
            )
        array, one = torch.ones(1 << 16, device="cuda"), torch.ones((), device="cuda")
        side = torch.cuda.Stream()

        def on_side() -> None:
            with torch.cuda.stream(side):
                array.add_(1)

        yield "side stream", on_side
        yield "item()", lambda: one.add_(0).item()
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            array.add_(1)
        yield "graph replay", graph.replay


class Jax(Library):
    """JAX, on its first device."""

    module = "jax"
    dtypes = ("float32", "bfloat16", "float16")
    settings = ({}, {"JAX_DEFAULT_MATMUL_PRECISION": "highest"}, {"NVIDIA_TF32_OVERRIDE": "0"})
    faults = {  # noqa: RUF012 - as above
        "memory": ("out_of_memory", "jax.numpy.ones((1 << 42,), 'f4').block_until_ready()"),
    }

    def wait(self, result: Any) -> None:
        result.block_until_ready()

    def up(self, host: Any) -> Any:
        return self.module_object.device_put(host).block_until_ready()

    def down(self, array: Any) -> Any:
        return np.asarray(array.addressable_data(0))  # a new view: an array keeps what was copied of it

    def convolve(self, images: Any, weights: Any) -> Any:
        return self.module_object.lax.conv(images, weights, (1, 1), "SAME")

    def unseen(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        jax = self.module_object
        array = jax.device_put(np.ones(1000, np.float32))
        plus = jax.jit(lambda values: values + 1)
        yield "jit", lambda: plus(array)
        yield "float(result)", lambda: float(plus(array)[0])


LIBRARIES: dict[str, type[Library]] = {"cupy": Cupy, "torch": Torch, "jax": Jax}


def devices(choice: str) -> tuple[TimedDevice, TimedDevice]:
    """Return the CPU and the GPU of `--gpuperf-gpu=CHOICE`; `jax:cpu` is JAX's CPU in the place of a GPU."""
    if choice == "jax:cpu":
        return JaxBackend().cpu(), _jax_on_cpu()
    chosen = Machine(choice)
    return chosen.cpu(), chosen.gpu()


def _jax_on_cpu() -> JaxDevice:
    import jax

    class OnCpu(JaxDevice):
        @property
        def info(self) -> DeviceInfo:
            return replace(super().info, kind="gpu", emulated=True)

    device = OnCpu(jax, jax.local_devices(backend="cpu")[0], "JAX's CPU")
    device.kind = "gpu"
    return device
