"""Ordinary GPU code is measured: on a second device, into existing arrays, in graphs, with other allocators.

A kernel is over before Python gets to ask whether it runs, so that nothing here rests on being quick enough.
"""

import json
import re

import pytest

SUITE = """
import numpy as np
import pytest

pytestmark = pytest.mark.speedup(min=1e-7, check=False)

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

    def call(device, *options, conftest="", suite=SUITE):
        output, report = ran(device, suite, *options, conftest=conftest, **quick)
        assert report.exists(), output
        return {name: record["status"] for name, record in records_of(report).items()}

    return call


@pytest.mark.parametrize("device", ["cupy:1", "torch:cuda:1"])
def test_work_is_seen_however_it_is_submitted(statuses, device):
    assert dict.fromkeys(NAMES, "passed") == statuses(device)


@pytest.mark.parametrize("device", ["cupy", "torch"])
@pytest.mark.parametrize("givers", [ALLOCATORS, POOLS], ids=["from elsewhere", "a pool"])
def test_others_may_give_the_memory(statuses, device, givers):
    assert statuses(device, "-k", "new_results", conftest=givers[device]) == {"new_results": "passed"}


IDLE = """
import numpy as np
import pytest

pytestmark = pytest.mark.speedup(min=3, check=False)

def arrays(device):
    return [device.asarray(np.ones(1000, dtype=np.float32)) for _ in range(2)]

def test_returns_early(device):
    a, out = arrays(device)
    def work():
        if device.kind == "gpu":
            return
        device.xp.add(a, a, out=out)
    return work

def test_swallows_what_is_missing(device):
    a, out = arrays(device)
    def work():
        try:
            if device.kind == "gpu":
                import an_extension_that_was_built_without_cuda
            device.xp.add(a, a, out=out)
        except ImportError:
            pass
    return work

def test_has_no_batches(device):
    batches = arrays(device) if device.kind == "cpu" else arrays(device)[:0]
    def work():
        for batch in batches:
            batch + batch
    return work

def test_returns_its_input(device):
    a, _ = arrays(device)
    return (lambda: a) if device.kind == "gpu" else (lambda: a * 1.0)
"""


@pytest.mark.parametrize("device", ["cupy", "torch"])
def test_a_call_that_does_nothing_on_the_gpu_is_an_error(statuses, device):
    names = ("returns_early", "swallows_what_is_missing", "has_no_batches", "returns_its_input")
    assert dict.fromkeys(names, "error") == statuses(device, suite=IDLE)


KERAS = """
import numpy as np
import pytest

@pytest.mark.speedup(min=1e-7, check=False)
def test_second(device):
    a = device.asarray(np.ones(1000, dtype=np.float32))
    assert device.kind == "cpu" or a.device.index == 1
    return lambda: a + a
"""


def test_keras_numbers_the_devices_of_torch(ran, records_of):
    output, report = ran("keras:1", KERAS, FAKE_CUDA_DEVICES="2", KERAS_BACKEND="torch")
    assert "passed" == records_of(report)["second"]["status"], output


LOSES = """
import pytest

@pytest.mark.speedup(min=1e-7, check=False)
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
    output, report = ran(device, LOSES, FAKE_CUDA_CRASH="sin", FAKE_CUDA_CRASH_ERROR="700")
    assert "was lost in test_it.py::test_crash" in output, output
    (record,) = json.loads(report.read_text())["records"]
    assert ("test_it.py::test_crash", "gpu_lost") == (record["nodeid"], record["reason_code"])


FULL = """
import pytest

BYTES = 1 << 45

def taken(allocator):
    before = cupy.cuda.get_allocator()
    cupy.cuda.set_allocator(allocator)
    try:
        cupy.empty(BYTES, "u1")
    finally:
        cupy.cuda.set_allocator(before)

def fill(take):
    held, size = [], 1 << 32
    while size >= 1 << 20:
        try:
            held.append(take(size))
        except Exception:
            size //= 16
    return held

def nothing_left_for_cupy():
    held = fill(lambda size: cupy.empty(size, "u1"))
    cupy.empty(1 << 30, "u1")

def nothing_left_for_cublas():
    a, out = (torch.ones(64, 64, device="cuda") for _ in range(2))
    held = fill(lambda size: torch.empty(size, dtype=torch.uint8, device="cuda"))
    torch.matmul(a, a, out=out)

def fraction():
    torch.cuda.set_per_process_memory_fraction(0.01)
    try:
        torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)

if LIBRARY == "cupy":
    import cupy
    from cupy.cuda import runtime
else:
    import torch
FORMS = {
    "cupy": {
        "pool": lambda: cupy.empty(BYTES, "u1"),
        "no_pool": lambda: taken(None),
        "asynchronous_pool": lambda: taken(cupy.cuda.MemoryAsyncPool().malloc),
        "managed": lambda: runtime.mallocManaged(BYTES),
        "pinned": lambda: cupy.cuda.alloc_pinned_memory(1 << 50),
        "nothing_left": nothing_left_for_cupy,
    },
    "torch": {
        "allocator": lambda: torch.empty(BYTES, dtype=torch.uint8, device="cuda"),
        "pinned": lambda: torch.empty(1 << 50, dtype=torch.uint8, pin_memory=True),
        "fraction": fraction,
        "nothing_left": nothing_left_for_cublas,
    },
}[LIBRARY]

def plus(device, overflow=lambda: None):
    a = device.xp.ones(1000)
    def work():
        device.kind == "gpu" and overflow()
        return a + a
    return work

@pytest.mark.speedup(min=1e-7, check=False)
@pytest.mark.parametrize("form", FORMS)
def test_full(device, form):
    work = plus(device)
    work()
    device.synchronize()  # after the one before it can be used
    return plus(device, FORMS[form])

@pytest.mark.speedup(min=1e-7, check=False)
def test_after(device):
    free, total = (runtime.memGetInfo if LIBRARY == "cupy" else torch.cuda.mem_get_info)()
    assert free > 0.9 * total  # what the tests before took is not kept from others
    return plus(device)
"""
REQUESTED = {  # where the library says how many bytes; else the free ones are told
    "cupy": {"pool": 1 << 45, "asynchronous_pool": 1 << 45, "nothing_left": 1 << 30},
    "torch": {"allocator": 1 << 45, "fraction": 1 << 30, "nothing_left": 32 << 20},
}


@pytest.mark.parametrize("device", ["cupy", "torch"])
def test_every_form_of_out_of_memory_leaves_the_device_usable_and_says_the_bytes(ran, records_of, device):
    output, report = ran(device, f"LIBRARY = {device!r}\n{FULL}")
    records = records_of(report)
    assert "passed" == records.pop("after")["status"], output
    assert len(records) >= 4
    for name, record in records.items():
        assert ("error", "out_of_memory") == (record["status"], record["reason_code"]), output
        requested = REQUESTED[device].get(name.removeprefix("full[").rstrip("]"))
        said = re.search(
            r"\(the device had ([\d,]+) bytes free\)|\(([\d,]+) bytes requested\)", record["reason"]
        )
        free, named = (text and int(text.replace(",", "")) for text in said.groups())
        assert requested == named
        assert named or 0 < free < 8 << 30


POOLS = """
import cupy
import pytest
import torch

pytestmark = pytest.mark.speedup(min=1e-9, check=False)
of_cupy = pytest.mark.parametrize("backend", ["numpy", "cupy"])
of_torch = pytest.mark.parametrize("backend", ["torch:cpu", "torch:cuda"])
MOST = {"cupy": 5 << 30, "torch:cuda": 5 << 30}  # bytes, of 8 GiB

@pytest.fixture(scope="module")
def own_pool():
    cupy.cuda.set_allocator(cupy.cuda.MemoryPool().malloc)

def fill_with_torch(backend):
    torch.empty(MOST.get(backend, 1), dtype=torch.uint8, device="cuda").fill_(1)

@of_cupy
def test_first(backend):
    cupy.empty(MOST.get(backend, 1), "u1").fill(1)

@of_torch
def test_second(backend):
    fill_with_torch(backend)

@of_cupy
@pytest.mark.usefixtures("own_pool")
def test_third(backend):
    cupy.empty(MOST.get(backend, 1), "u1").fill(1)

@of_torch
def test_fourth(backend):
    fill_with_torch(backend)
"""


def test_a_library_has_the_memory_that_another_one_kept_for_itself(ran):
    output, _ = ran("cupy", POOLS)
    assert " 8 passed" in output, output
