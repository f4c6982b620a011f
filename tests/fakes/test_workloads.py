"""Ordinary GPU code is measured: on a second device, into existing arrays, in graphs, with other allocators.

A kernel is over before Python gets to ask whether it runs, so that nothing here rests on being quick enough.
"""

import pytest

SUITE = """
import numpy as np
import pytest

pytestmark = pytest.mark.speedup(min=1e-7, parity=False)

def ones(device):
    return device.asarray(np.ones(1000, dtype=np.float32))

def adding(device):
    a, out = ones(device), ones(device)
    def work():
        device.xp.add(a, a, out=out)
    work()
    return work

def test_new_results(device):
    a = ones(device)
    return lambda: a + a

def test_into_an_array(device):
    return adding(device)

def test_read_value(device):
    a = ones(device)
    return lambda: float(a[0])

def test_other_stream(device):
    add = adding(device)
    if device.kind == "cpu":
        return add
    if device.backend == "cupy":
        stream = device.xp.cuda.Stream(non_blocking=True)
        use = lambda: stream
    else:
        import torch
        stream = torch.cuda.Stream("cuda:1")
        use = lambda: torch.cuda.stream(stream)
    def work():
        with use():
            add()
    return work

def test_graph(device):
    add = adding(device)
    if device.kind == "cpu":
        return add
    if device.backend == "cupy":
        with device.xp.cuda.Stream(non_blocking=True) as stream:
            stream.begin_capture()
            add()
            return stream.end_capture().launch
    import torch
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.device("cuda:1"), torch.cuda.graph(graph):
        add()
    return graph.replay
"""
ALLOCATORS = {
    "cupy": """
import cupy
runtime = cupy.cuda.runtime
taken = cupy.cuda.PythonFunctionAllocator(
    lambda size, device: runtime.mallocAsync(size, 0), lambda pointer, device: runtime.freeAsync(pointer, 0)
)
cupy.cuda.set_allocator(taken.malloc)
""",
    "torch": """
import os
import torch
library = os.environ["FAKE_CUDA"] + "/libcudart.so.13"
taken = torch.cuda.memory.CUDAPluggableAllocator(library, "fake_pluggable_malloc", "fake_pluggable_free")
torch.cuda.memory.change_current_allocator(taken)
""",
}
POOLS = {
    "cupy": "import cupy; cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)",
    "torch": 'import os; os.environ["PYTORCH_ALLOC_CONF"] = "backend:cudaMallocAsync"',
}
NAMES = ("new_results", "into_an_array", "read_value", "other_stream", "graph")


@pytest.fixture(scope="module")
def statuses(ran, records_of):
    """Run the suite on a library's fake device; return the statuses by the tests' names."""
    quick = {"FAKE_CUDA_LATENCY_NS": "0", "FAKE_CUDA_KERNELS": "add=200", "FAKE_CUDA_DEVICES": "2"}

    def call(device, *options, conftest=""):
        output, report = ran(device, SUITE, *options, conftest=conftest, **quick)
        assert report.exists(), output
        return {name: record["status"] for name, record in records_of(report).items()}

    return call


@pytest.fixture(scope="module", params=["cupy:1", "torch:cuda:1"])
def on_second_device(request, statuses):
    return statuses(request.param)


@pytest.mark.parametrize("name", NAMES)
def test_work_is_seen_however_it_is_submitted(on_second_device, name):
    assert on_second_device[name] == "passed"


@pytest.mark.parametrize("device", ["cupy", "torch"])
def test_an_allocator_from_elsewhere_may_give_the_memory(statuses, device):
    assert statuses(device, "-k", "new_results", conftest=ALLOCATORS[device]) == {"new_results": "passed"}


@pytest.mark.parametrize("device", ["cupy", "torch"])
def test_a_pool_of_the_driver_may_give_the_memory(statuses, device):
    assert statuses(device, "-k", "new_results", conftest=POOLS[device]) == {"new_results": "passed"}


LOSES = """
import pytest

@pytest.mark.speedup(min=1e-7, parity=False)
def test_crash(device):
    a = device.xp.ones((8, 8))
    product = a @ a
    def work():
        device.xp.sin(a)
        device.kind == "gpu" and wait_a_moment()
        device.xp.matmul(a, a, out=product)  # the first that meets the fault
    return work

def wait_a_moment():
    import time
    time.sleep(0.01)

def test_after(gpu):
    gpu.synchronize()
"""


@pytest.mark.parametrize("device", ["cupy", "torch"])
def test_a_device_that_is_lost_before_a_product_is_blamed_on_the_test_that_lost_it(ran, device):
    output, _ = ran(device, LOSES, FAKE_CUDA_CRASH="sin")
    assert "was lost in test_it.py::test_crash" in output, output
