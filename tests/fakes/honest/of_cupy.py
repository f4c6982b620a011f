"""Tests of CuPy as its users write them; on the fake no kernel computes, so no values are compared."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

pytestmark = pytest.mark.speedup(min=1e-7, check=False)
SIZE = 4000
HOST = np.linspace(0, 1, SIZE, dtype=np.float32)


def test_raw_kernel_without_a_result(device):
    x = device.asarray(HOST)
    on_gpu = device.kind == "gpu"
    out = device.xp.empty_like(x)
    if not on_gpu:
        return lambda: np.multiply(x, 3, out=out)
    source = """extern "C" __global__ void triple(const float* x, float* out, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) out[i] = 3 * x[i];
    }"""
    kernel = device.xp.RawKernel(source, "triple")
    return lambda: kernel((16,), (256,), (x, out, np.int32(SIZE)))


def test_elementwise_kernel(device):
    x = device.asarray(HOST)
    on_gpu = device.kind == "gpu"
    if not on_gpu:
        return lambda: (x - 1) ** 2
    kernel = device.xp.ElementwiseKernel("float32 x", "float32 z", "z = (x - 1) * (x - 1)", "off_by_one")
    return lambda: kernel(x)


def test_fused(device):
    x = device.asarray(HOST)
    on_gpu = device.kind == "gpu"

    def polynomial(x):
        return x * x + 2 * x

    fused = device.xp.fuse(polynomial) if on_gpu else polynomial
    return lambda: fused(x)


@pytest.mark.parametrize("pool", ["MemoryPool", "MemoryAsyncPool", None])
def test_own_pool(device, pool):
    x = device.asarray(HOST)
    on_gpu = device.kind == "gpu"
    if not on_gpu:
        return lambda: x + 1
    cuda = device.xp.cuda
    allocator = pool and getattr(cuda, pool)().malloc

    def work():
        with cuda.using_allocator(allocator):
            return x + 1

    return work


@pytest.fixture
def managed():
    cuda = pytest.importorskip("cupy").cuda
    with cuda.using_allocator(cuda.MemoryPool(cuda.malloc_managed).malloc):
        yield


@pytest.mark.usefixtures("managed")
def test_managed_pool(device):
    a = device.asarray(HOST)
    return lambda: device.xp.sqrt(a)


def test_managed_memory(device):
    on_gpu = device.kind == "gpu"
    xp = device.xp
    a, out = np.empty((2, SIZE), np.float32)
    if on_gpu:
        a, out = (xp.ndarray(SIZE, np.float32, memptr=xp.cuda.malloc_managed(4 * SIZE)) for _ in range(2))
    a[...] = 2
    return lambda: xp.multiply(a, a, out=out)


def test_pinned_copies(device):
    on_gpu = device.kind == "gpu"
    if not on_gpu:
        return lambda: HOST * 2
    cupyx = pytest.importorskip("cupyx")
    pinned, back = cupyx.empty_pinned(SIZE, np.float32), cupyx.empty_pinned(SIZE, np.float32)
    pinned[:] = HOST
    there = device.xp.empty(SIZE, np.float32)
    stream = device.xp.cuda.Stream(non_blocking=True)

    def work():
        with stream:
            there.set(pinned, stream=stream)
            (there * 2).get(out=back, stream=stream, blocking=False)
        stream.synchronize()
        return back

    return work


def test_streams_and_an_event(device):
    x = device.asarray(HOST)
    on_gpu = device.kind == "gpu"
    if not on_gpu:
        return lambda: (x + 1) * (x + 2)
    cuda = device.xp.cuda
    one, two = cuda.Stream(non_blocking=True), cuda.Stream(non_blocking=True)
    done = cuda.Event(disable_timing=True)

    def work():
        with one:
            first = x + 1
            done.record(one)
        with two:
            second = x + 2
            two.wait_event(done)
            both = first * second
        two.synchronize()
        return both

    return work


def test_a_graph_in_an_object(device):
    x = device.asarray(HOST)
    on_gpu = device.kind == "gpu"
    plan = SimpleNamespace(out=device.xp.empty_like(x))

    def steps():
        device.xp.multiply(x, 2, out=plan.out)
        for _ in range(20):
            device.xp.sin(plan.out, out=plan.out)

    if on_gpu:
        steps()
        plan.stream = device.xp.cuda.Stream(non_blocking=True)
        with plan.stream:
            plan.stream.begin_capture()
            steps()
            plan.graph = plan.stream.end_capture()

    def work():
        plan.graph.launch(plan.stream) if on_gpu else steps()
        return plan.out

    return work


def test_1500_launches(device):
    a = device.asarray(HOST[:100])

    def work():
        b = a
        for _ in range(1500):
            b = b + 1
        return b

    return work


@dataclass
class Summary:
    total: object
    parts: dict


def test_dataclass(device):
    x = device.asarray(HOST)
    return lambda: Summary(x.sum(), {"largest": x.max(), "double": [x * 2], "names": ["a", "b"]})


def test_values_that_are_read(device):
    x = device.asarray(HOST)
    return lambda: (x.sum().item(), float(x[3]), bool(x[0] > 2))


def test_fft_plan(device):
    on_gpu = device.kind == "gpu"
    waves = device.asarray(np.ones((16, 256), np.complex64))
    if not on_gpu:
        return lambda: np.fft.fft(waves, axis=1)
    fft = pytest.importorskip("cupyx.scipy.fft")
    plan = fft.get_fft_plan(waves, axes=1)
    return lambda: fft.fft(waves, axis=1, plan=plan)


def test_views_of_products(device):
    x = device.asarray(HOST)
    a = x.reshape(10, 20, 20)
    return lambda: device.xp.tensordot(a, a.transpose(0, 2, 1), axes=([2], [1]))[:, ::2]


@pytest.fixture(scope="module")
def table():
    return np.random.default_rng(0).random((100, 40), dtype=np.float32)


@pytest.mark.parametrize("rows", [10, 100])
def test_sizes_of_a_module_s_array(device, table, rows):
    a = device.asarray(table[:rows])
    return lambda: (a - a.mean(axis=0)) / a.std(axis=0)


def test_batches_that_the_call_copies(device, table):
    return lambda: [float(device.asarray(batch).sum()) for batch in np.array_split(table, 5)]


def test_seeded_generator(device):
    return lambda: device.xp.random.default_rng(3).random(SIZE)


def test_in_place_with_a_reset(device, gpuperf):
    x = device.asarray(HOST)

    def reset():
        x[...] = device.asarray(HOST)

    return gpuperf.workload(lambda: device.xp.multiply(x, 1.5, out=x), reset=reset)


class Solver:
    def __init__(self, device):
        self.xp = device.xp
        self.x = device.asarray(HOST)
        self.buffers = [self.xp.empty_like(self.x) for _ in range(2)]

    def step(self):
        self.xp.sqrt(self.x, out=self.buffers[0])
        for number in range(5):
            self.xp.add(self.buffers[number % 2], 1, out=self.buffers[(number + 1) % 2])
        return self.buffers[1]


def test_buffers_in_turn(device):
    return Solver(device).step


def test_threads(device):
    x = device.asarray(HOST)
    pool = ThreadPoolExecutor(2)
    return lambda: [*pool.map(lambda part: part * 2, np.array_split(x, 4) if type(x) is np.ndarray else [x])]


def test_result_on_the_host(device):
    x = device.asarray(HOST)
    return lambda: device.asnumpy(x * 2)


def test_gpuperf_both(gpuperf):
    cpu, gpu = gpuperf.both(lambda xp: xp.arange(1000.0) * 2)
    assert cpu.shape == gpu.shape
