"""PyTorch on the CPU, the side that its GPU is compared with; the GPU is tests/gpu's."""

import sys
import weakref
from importlib.util import find_spec
from types import ModuleType

import numpy as np
import pytest
from factories import on_host
from plugins import skip_module
from walks import walked, warmed_up

from pytest_gpuperf.devices.device_parameter import DeviceSpec
from pytest_gpuperf.devices.host import HostDevice, LoneHostDevice
from pytest_gpuperf.devices.machine import Machine
from pytest_gpuperf.devices.stand_in import chosen_stand_in
from pytest_gpuperf.devices.torch import _FACTORIES, TorchBackend, TorchDevice
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.errors import Unavailable
from pytest_gpuperf.testing import StandIn
from pytest_gpuperf.timing import inputs, kept_results, warm_up

if find_spec("torch") is None:
    skip_module("torch is not installed; CI's second environment has it")

import torch


def test_numpys_device_takes_a_tensor_as_a_new_array_and_where_nothing_is_compared_it_stays_one():
    tensor = torch.ones(3, requires_grad=True)
    for device, kind in ((HostDevice, np.ndarray), (LoneHostDevice, torch.Tensor)):
        copied = device("a processor").asarray(tensor)
        assert type(copied) is kind
        copied += 1
        assert (copied.tolist(), tensor.tolist()) == ([2, 2, 2], [1, 1, 1])


@pytest.mark.parametrize(
    ("imported", "native"), [({"jax": None}, "cpu"), ({}, None), ({"jax": None, "torch": None}, None)]
)
def test_numpys_device_has_the_cpu_of_the_only_library_that_is_imported(monkeypatch, imported, native):
    monkeypatch.setitem(sys.modules, "jax", ModuleType("jax"))
    for name in imported:
        monkeypatch.delitem(sys.modules, name)
    found = HostDevice("a processor").native
    assert native == (found and found.type)


def test_a_gpu_that_the_suite_names_by_number_is_not_there_in_emulation():
    devices = Machine("torch:cpu")
    with pytest.raises(Unavailable, match="torch:cpu emulates a GPU, and cuda:0 is not there"):
        devices.gpu(DeviceSpec(kind="gpu", library="torch", selector="cuda:0"))


@pytest.fixture
def cpu():
    return TorchBackend().cpu()


@pytest.fixture
def elsewhere():
    """A device that is not torch's default one; it computes nothing."""
    return TorchDevice(torch, torch.device("meta"), "nowhere")


ARGUMENTS = {
    "as_tensor": ([1],),
    "asarray": ([1],),
    "empty_permuted": ((2, 3), (0, 1)),
    "empty_strided": ((2,), (1,)),
    "full": ((2,), 1.0),
    "linspace": (0, 1, 3),
    "logspace": (0, 1, 3),
    "randint": (3, (2,)),
    "range": (0, 2),
    "scalar_tensor": (1.0,),
    "sparse_coo_tensor": ([[0]], [1.0], (2,)),
    "tensor": ([1],),
    "tril_indices": (2, 2),
    "triu_indices": (2, 2),
}


@pytest.mark.filterwarnings("ignore:torch.range is deprecated", "ignore:Sparse invariant checks")
@pytest.mark.parametrize("name", sorted(_FACTORIES))
def test_what_xp_makes_lives_on_its_device(elsewhere, cpu, name):
    for device, type_ in ((elsewhere, "meta"), (cpu, "cpu")):
        namespace = device.xp.fft if name.endswith("fftfreq") else device.xp
        made = getattr(namespace, name)(*ARGUMENTS.get(name, (3,)))
        assert made.device.type == type_


def test_a_place_that_was_asked_for_wins_and_the_suites_default_device_moves_nothing(elsewhere, cpu):
    assert elsewhere.xp.ones(3, device="cpu").device.type == "cpu"
    assert elsewhere.xp.ones(3).device.type == "meta"
    assert torch.ones(3).device.type == "cpu", "torch's default device stays what it is"
    torch.set_default_device("meta")
    try:
        made = [cpu.xp.ones(3), cpu.xp.asarray([1.0]), cpu.asarray([1.0]), cpu.asarray(np.ones(3))]
    finally:
        torch.set_default_device(None)
    assert all(cpu.holds(tensor) for tensor in made)
    assert not any(elsewhere.holds(tensor) for tensor in made)
    assert not cpu.holds(elsewhere.xp.ones(3))


def test_xp_is_the_array_api_where_compat_is_installed_and_torch_in_all_else(cpu):
    array = cpu.xp.ones((2, 3))
    assert cpu.xp.nn is torch.nn
    assert cpu.xp.fft.fft(cpu.xp.ones(2)).tolist() == [2, 0]
    assert isinstance(array, cpu.xp.Tensor)
    assert "relu" in dir(cpu.xp)
    if find_spec("array_api_compat") is not None:
        assert cpu.xp.permute_dims(array, (1, 0)).shape == (3, 2)


@pytest.mark.parametrize(
    ("tensor", "dtype", "values"),
    [
        (torch.tensor([1 + 2j], dtype=torch.complex64).conj(), "complex64", [1 - 2j]),
        (torch.ones(2, requires_grad=True), "float32", [1.0, 1.0]),
    ],
    ids=["conjugated", "with a gradient"],
)
def test_what_numpy_does_not_have_comes_down_as_what_it_has(cpu, tensor, dtype, values):
    host = cpu.asnumpy(tensor)
    assert (dtype, values) == (str(host.dtype), host.tolist())


def test_a_view_is_counted_with_what_it_views(cpu):
    whole = cpu.asarray(np.ones(100, dtype=np.float32))
    part = whole[10:]
    found = inputs.fingerprints([whole, part], cpu)
    assert [(400, "float32"), (0, "float32")] == [(entry.bytes, entry.dtype) for entry in found]


def test_a_result_that_the_next_call_frees_is_compared_and_copied_while_it_is_there(cpu):
    """As are those of `torch.compile(mode="reduce-overhead")`, which torch lets nobody read after that."""
    host = np.ones((100, 100), dtype=np.float32)

    def body(device):
        array, earlier = device.asarray(host), []

        def call():
            for result in earlier:
                result.untyped_storage().resize_(0)
                torch._C._set_storage_access_error_msg(result, "overwritten by a subsequent run")
            earlier[:] = [array @ array]
            return earlier[0]

        return call

    record = walked(body, cpu, StandIn("torch").gpu(""), Demand(min=1e-7), max_time=5)
    assert ("passed", True) == (record.status, record.check.agreed)
    assert record.transfer.d2h.samples


@pytest.mark.parametrize(
    ("tensor", "values"),
    [
        (torch.arange(4.0).reshape(2, 2).T, [[0.0, 2.0], [1.0, 3.0]]),
        (torch.ones(2, requires_grad=True) * 2, [2.0, 2.0]),
        (torch.ones(2, dtype=torch.bfloat16), None),
        (torch.ones(2, device="meta"), None),
        (torch.sparse_coo_tensor([[0]], [1.0], (2,), check_invariants=True), None),
    ],
    ids=["a view", "with a gradient", "a dtype that NumPy lacks", "elsewhere", "sparse"],
)
def test_beside_numpys_cpu_a_dense_tensor_is_a_value_and_copied_and_no_other_tensor(tensor, values):
    (leaf,) = on_host(tensor)
    if values is None:
        assert leaf.value is tensor
    else:
        tensor.detach().zero_()
        assert values == leaf.value.tolist()


def test_products_are_seen_in_one_more_call(cpu):
    a = torch.ones(8, 8)
    assert cpu.runs_products(lambda: a @ a + 1)
    assert cpu.runs_products(lambda: torch.nn.functional.conv1d(a[None], a[None]))
    lstm = torch.nn.LSTM(8, 8)
    assert cpu.runs_products(lambda: lstm(a))
    for call in (a.sum, a.sort, lambda: torch.fft.rfft(a), lambda: a * 2 + a.exp()):
        assert cpu.runs_products(call) is False
    for name in ("cummax", "lgamma", "digamma"):
        assert cpu.runs_products(lambda name=name: getattr(a, name)(*[0] * (name == "cummax"))) is False


def test_kernels_that_no_operator_of_torch_launched_may_be_products(cpu):
    def own_kernel():
        with torch.profiler.record_function("triton_poi_fused_0"):
            return torch.ones(3) + 1

    assert cpu.runs_products(own_kernel) is None
    assert cpu.runs_products(lambda: None) is None


def test_blocks_of_an_emulated_gpu_are_as_short_as_those_of_the_cpu():
    gpu = chosen_stand_in("torch:cpu").gpu("")
    timer = warmed_up(gpu, lambda: torch.ones(10).sum())
    calls = timer.block_calls
    warm_up.fill_pipeline(timer, RunOptions(), 10.0)
    assert (timer.block_calls, timer.overlap_left) == (calls, None)


def test_graphs_that_are_compiled_are_counted(cpu):
    before = cpu.compilations()
    double = torch.compile(lambda x: x * 2, backend="eager")
    double(torch.ones(3))
    assert cpu.compilations() == before + 1
    double(torch.ones(3))
    assert cpu.compilations() == before + 1


def test_a_result_that_is_remembered_keeps_no_graph(cpu):
    inner = torch.ones(3, requires_grad=True).exp()
    kept = weakref.ref(inner)
    result = inner * inner
    before = kept_results.remember(result, cpu, keep=True)
    assert kept_results.are_same(before, kept_results.remember(result, cpu, keep=True))
    del inner, result
    assert kept() is None
