"""PyTorch on the CPU, the side that its GPU is compared with; the GPU is tests/gpu's."""

import sys
import weakref
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest
from cases import for_each, unfolded
from plugins import skip_module
from walks import bound, trial_of, walked

from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.device_parameter import DeviceSpec
from pytest_gpuperf.devices.host import HostDevice, LoneHostDevice
from pytest_gpuperf.devices.machine import Machine
from pytest_gpuperf.devices.simulated import Clock
from pytest_gpuperf.devices.torch import TorchDevice
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.errors import Unavailable, UnknownResult
from pytest_gpuperf.model.sampling_constants import SamplingPlan
from pytest_gpuperf.work.checks import ResultChecks

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


@for_each(
    ("expected", "make"),
    [
        (True, lambda: torch.compile(torch.sin, mode="reduce-overhead")),
        (True, lambda: torch.compile(torch.nn.Linear(2, 2), options={"triton.cudagraphs": True})),
        (True, lambda: torch.compile(torch.sin, mode="max-autotune")),
        (False, lambda: torch.compile(torch.sin, mode="max-autotune-no-cudagraphs")),
        (False, lambda: torch.compile(torch.sin, backend="eager")),
        (False, lambda: torch.compile(torch.sin)),
        (False, lambda: torch.sin),
    ],
)
def test_a_function_that_torch_runs_as_a_cuda_graph_reuses_the_memory_of_its_result(expected, make):
    assert expected == TorchDevice(torch, torch.device("cuda"), "a GPU").reuses_results(make())
    assert not Machine("torch:cpu").gpu().reuses_results(make()), "there are no CUDA graphs"


@for_each(
    ("expected", "call"),
    [
        ([], lambda x, out: torch.mul(x, 2, out=out)),
        ([], lambda x, out: torch.mul(x, 2, out=out.detach())),
        ([], lambda x, out: (out[:1].fill_(2), out)[1]),
        (["work_in_doubt"], lambda x, out: (torch.mul(x, 2), out)[1]),
    ],
)
@for_each("keeper", ["object", "closure"])
@for_each("elements", [10**4, 2 * 10**6])  # the larger one takes longer to write than a call
def test_a_result_with_the_values_that_it_had_is_new_in_no_time_if_torch_counts_a_write_in_each_call(
    cpu, expected, call, keeper, elements
):
    cpu.clock = Clock()

    def body(device):
        x = torch.ones(elements)
        out = x * 2
        holder = SimpleNamespace(out=out)
        if keeper == "closure":
            return lambda: (cpu.clock.advance(1e-7), call(x, out))[1]
        return lambda: (cpu.clock.advance(1e-7), call(x, holder.out))[1]

    plan = SamplingPlan(block_time=4e-7, warmup_time=20e-7, may_restart=False)
    trial = trial_of(Demand(check=False), RunOptions(max_time=1e3, sampling=plan))
    trial.time_alone(bound(body), cpu, seconds=0.0)
    assert expected == [note.code for note in trial.notes if "very result" in note.text]


def test_a_workload_in_inference_mode_whose_tensors_count_no_writes_is_measured(cpu):
    def body(device):
        array = device.asarray(np.ones((100, 100), dtype=np.float32))

        with torch.inference_mode():
            out = torch.ones(100, 100, device=device.native)

        def call():
            with torch.inference_mode():
                return torch.matmul(array, array, out=out)

        return call

    # It ends at the first look; within a second or five other work has left no time for a round.
    record = walked(body, cpu, Machine("torch:cpu").gpu(), Demand(min=1e-7), max_time=30)
    assert ("passed", True) == (record.status, record.check.agreed)
    assert not any("very result" in note.text for note in record.notes)


def test_a_test_of_torch_on_a_device_of_another_library_is_told_to_choose_torch(pytester):
    pytester.makepyfile(
        """
        import pytest, torch

        @pytest.mark.speedup(min=2)
        def test_it(device):
            x = torch.ones(10, 10)
            return lambda: x @ x
        """
    )
    result = pytester.runpytest_inprocess("--gpuperf-gpu=simulated")
    assert "the device was idle; compare torch with itself: gpuperf_gpu = torch" in unfolded(result)


def test_a_gpu_that_the_suite_names_by_number_is_not_there_in_emulation():
    devices = Machine("torch:cpu")
    with pytest.raises(Unavailable, match="torch:cpu emulates a GPU, and cuda:0 is not there"):
        devices.gpu(DeviceSpec(kind="gpu", library="torch", selector="cuda:0"))


@pytest.fixture
def cpu():
    return Machine("torch:cpu").cpu()


MAKERS = {  # with their inputs, where these are not a size
    "arange": (3,),
    "as_tensor": ([1.0],),
    "empty_permuted": ((2, 3), (0, 1)),
    "empty_strided": ((2,), (1,)),
    "full": ((2,), 1.0),
    "linspace": (0, 1, 3),
    "logspace": (0, 1, 3),
    "randint": (3, (2,)),
    "range": (0, 2),
    "scalar_tensor": (1.0,),
    "sparse_coo_tensor": ([[0]], [1.0], (2,)),
    "tensor": ([1.0],),
    "asarray": ([1.0],),
    "tril_indices": (2, 2),
    "triu_indices": (2, 2),
    **dict.fromkeys(("empty", "eye", "ones", "rand", "randn", "randperm", "zeros"), (3,)),
    **{f"{name}_window": (3,) for name in ("bartlett", "blackman", "hamming", "hann", "kaiser")},
}


@pytest.mark.filterwarnings("ignore:torch.range is deprecated", "ignore:Sparse invariant checks")
def test_what_xp_makes_lives_on_its_device_whatever_the_suites_default_is_unless_a_place_is_asked_for(cpu):
    torch.set_default_device("meta")
    try:
        made = {name: getattr(cpu.xp, name)(*inputs) for name, inputs in MAKERS.items()}
        made |= {name: getattr(cpu.xp.fft, name)(3) for name in ("fftfreq", "rfftfreq")}
        made["uploaded"], made["a list"] = cpu.asarray(np.ones(3)), cpu.asarray([1.0])
        elsewhere = [torch.ones(3), cpu.xp.ones(3, device="meta")]
    finally:
        torch.set_default_device(None)
    assert [] == [name for name, tensor in made.items() if not cpu.holds(tensor)]
    assert not any(cpu.holds(tensor) for tensor in elsewhere)


def test_xp_is_the_array_api_where_compat_is_installed_and_torch_in_all_else(cpu):
    array = cpu.xp.ones((2, 3))
    assert cpu.xp.nn is torch.nn
    assert cpu.xp.fft.fft(cpu.xp.ones(2)).tolist() == [2, 0]
    assert isinstance(array, cpu.xp.Tensor)
    assert "relu" in dir(cpu.xp)
    if find_spec("array_api_compat") is not None:
        assert cpu.xp.permute_dims(array, (1, 0)).shape == (3, 2)


@for_each(
    ("tensor", "dtype", "values"),
    [
        (torch.tensor([1 + 2j], dtype=torch.complex64).conj(), "complex64", [1 - 2j]),
        (torch.ones(2, requires_grad=True), "float32", [1.0, 1.0]),
    ],
)
def test_what_numpy_does_not_have_comes_down_as_what_it_has(cpu, tensor, dtype, values):
    host = cpu.asnumpy(tensor)
    assert (dtype, values) == (str(host.dtype), host.tolist())


def test_a_view_is_counted_with_what_it_views():
    def body(device):
        whole = device.asarray(np.ones(100, dtype=np.float32))
        part = whole[10:]
        return lambda: whole.sum() + part.sum()

    devices = Machine("torch:cpu")
    record = walked(body, devices.cpu(), devices.gpu(), Demand(min=1e-7), max_time=30)
    assert 400 == record.transfer.h2d.bytes


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

    record = walked(body, cpu, Machine("torch:cpu").gpu(), Demand(min=1e-7), max_time=30)
    assert ("passed", True) == (record.status, record.check.agreed)
    assert record.transfer.d2h.samples


@for_each(
    ("tensor", "values"),
    [
        (torch.arange(4.0).reshape(2, 2).T, [[0.0, 2.0], [1.0, 3.0]]),
        (torch.ones(2, requires_grad=True) * 2, [2.0, 2.0]),
        (torch.ones(2, dtype=torch.bfloat16), None),
        (torch.sparse_coo_tensor([[0]], [1.0], (2,), check_invariants=True), None),
    ],
)
def test_beside_numpys_cpu_a_dense_tensor_is_a_value_and_copied_and_no_other_tensor(tensor, values):
    copied = ResultChecks(Demand()).copy_to_host
    (leaf,) = copied(tensor, HostDevice("a processor"))
    if values is None:
        assert leaf.value is tensor
    else:
        tensor.detach().zero_()
        assert values == leaf.value.tolist()
    with pytest.raises(UnknownResult, match="numpy does not wait for"):
        copied(torch.ones(2, device="meta"), HostDevice("a processor"))


def products():
    """Return calls by whether they multiply or convolve: True, False, or None where that is not known."""
    a, slope = torch.ones(8, 8), torch.ones(8, 8, requires_grad=True)
    lstm, functional = torch.nn.LSTM(8, 8), torch.nn.functional
    compiled = {
        "sorts": torch.compile(lambda x: x.sort().values + 1, backend=hidden),
        "multiplies": torch.compile(lambda x: x @ x, backend=hidden),
    }
    for function in compiled.values():
        function(a)
    return {
        True: {
            "product": lambda: a @ a + 1,
            "convolution": lambda: functional.conv1d(a[None], a[None]),
            "recurrent layer": lambda: lstm(a),
            "within another operator": lambda: torch.matrix_exp(a),
            "backward pass": lambda: (slope @ slope).sum().backward(),
            "compiled": lambda: compiled["multiplies"](a),
        },
        False: {
            "sum": a.sum,
            "sort": lambda: a.sort().values * 1.02,
            "fft": lambda: torch.fft.rfft(a),
            "elementwise": lambda: a * 2 + a.exp(),
            "names that look like one": lambda: (a.cummax(0), a.lgamma(), a.digamma()),
            "backward pass": lambda: (slope * slope).sum().backward(),
            "step of an optimizer": torch.optim.SGD([slope], lr=0.0).step,
            "compiled": lambda: compiled["sorts"](a),
        },
        None: {
            "nothing": lambda: None,
            "custom operator": lambda: doubled(a) + 1,
            "operator of a library": lambda: torch.ops.gpuperf_tests.copied(a) + 1,
            "of higher order": lambda: torch.cond(torch.ones(()) > 0, torch.exp, torch.exp, (a,)),
            "graph": lambda: (torch.cuda.CUDAGraph().replay(), a + 1),
            "kernel of Triton": lambda: (sys.modules["triton"].JITFunction().run(), a + 1),
        },
    }


def hidden(*_):
    """Compile a function into one that no operator of torch shows."""
    return lambda *inputs: (torch.from_numpy(inputs[0].numpy()),)


@torch.library.custom_op("gpuperf_tests::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.numpy() * 2)


LIBRARY = torch.library.Library("gpuperf_tests", "FRAGMENT")
LIBRARY.define("copied(Tensor x) -> Tensor")
LIBRARY.impl("copied", torch.clone, "CPU")


@for_each("known", [True, False, None])
def test_products_are_seen_in_one_more_call(cpu, monkeypatch, known):
    class Launcher:
        def replay(self):
            return None

        run = replay

    calls = products()[known]
    with monkeypatch.context() as patched:
        patched.setattr(torch.cuda, "CUDAGraph", Launcher)
        patched.setitem(sys.modules, "triton", SimpleNamespace(JITFunction=Launcher))
        found = {name: cpu.runs_products(call) for name, call in calls.items()}
    assert dict.fromkeys(calls, known) == found
    assert Launcher.replay is Launcher.run, "what was noted is noted no more"


def test_an_operator_that_fails_while_it_is_looked_at_leaves_torch_as_it_was(cpu):
    a = torch.ones(2)
    with pytest.raises(IndexError):
        capabilities.seen_of(cpu.runs_products, lambda: a[3], int)
    assert cpu.runs_products(lambda: a + 1) is False


def test_graphs_that_are_compiled_are_counted(cpu):
    before = cpu.compilations()
    double = torch.compile(lambda x: x * 2, backend="eager")
    for _ in range(2):
        double(torch.ones(3))
        assert cpu.compilations() == before + 1


def test_a_result_that_is_remembered_keeps_no_graph(cpu):
    weights, graphs, held = torch.ones(3, requires_grad=True), [], []

    def call():
        held.append(sum(graph() is not None for graph in graphs))
        inner = weights.exp()
        graphs.append(weakref.ref(inner))
        return inner * inner

    plan = SamplingPlan(warmup_time=0.0, block_time=1e-6)
    trial = trial_of(Demand(check=False), RunOptions(sampling=plan))
    trial.time_alone(bound(lambda _: call), cpu, seconds=0.0)
    assert len(held) > 3
    assert {0} == set(held)
