"""Tests of PyTorch as its users write them; on the fake no kernel computes, so no values are compared."""

import copy
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import pytest
import torch

pytestmark = pytest.mark.speedup(min=1e-7, check=False)


def ramp(device):
    return torch.linspace(0, 1, 512).reshape(16, 32).to(device.native)


def make_model(device, depth=2):
    torch.manual_seed(0)
    layers = [layer for _ in range(depth) for layer in (torch.nn.Linear(32, 32), torch.nn.GELU())]
    return torch.nn.Sequential(*layers).to(device.native)


def test_inference_with_autocast(device):
    model = make_model(device)
    x = ramp(device)

    @torch.inference_mode()
    def infer():
        with torch.autocast(device.native.type, dtype=torch.bfloat16):
            return model(x)

    return infer


def training_step(gpuperf, model, optimizer, batches):
    weights, state = copy.deepcopy((model.state_dict(), optimizer.state_dict()))

    def step():
        optimizer.zero_grad(set_to_none=True)
        for batch in batches:
            loss = model(batch).square().mean()
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return {"loss": loss.detach(), "rate": optimizer.param_groups[0]["lr"]}

    def restore():
        model.load_state_dict(weights)
        optimizer.load_state_dict(state)

    return gpuperf.workload(step, reset=restore)


@pytest.mark.parametrize("options", [{"foreach": True}, {"fused": True}], ids=["foreach", "fused"])
def test_training_step(device, gpuperf, options):
    model = make_model(device)
    x = ramp(device)
    return training_step(gpuperf, model, torch.optim.AdamW(model.parameters(), **options), [x])


def test_training_step_of_1500_launches(device, gpuperf):
    model = make_model(device, depth=11)
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    return training_step(gpuperf, model, optimizer, ramp(device).split(1))


def test_gradients(device):
    model = make_model(device)
    x = ramp(device)
    return lambda: torch.autograd.grad(model(x).sum(), [*model.parameters()])


def test_hooks(device):
    model = make_model(device)
    x = ramp(device)
    seen = {}
    for name, layer in model.named_children():
        layer.register_forward_hook(lambda _, __, out, name=name: seen.__setitem__(name, out.detach()))

    def infer():
        with torch.no_grad():
            model(x)
        return dict(seen)

    return infer


@torch.library.custom_op("honest::scaled_add", mutates_args=())
def scaled_add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a * 2 + b


@torch.library.custom_op("honest::add_into", mutates_args=("out",))
def add_into(a: torch.Tensor, out: torch.Tensor) -> None:
    torch.add(a, 1, out=out)


def test_custom_operator(device):
    x = ramp(device)
    return lambda: scaled_add(x, x)


def test_custom_operator_that_writes(device):
    x = ramp(device)
    out = torch.empty_like(x)
    return lambda: add_into(x, out)


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad


def test_autograd_function(device):
    x = ramp(device)
    leaf = x.requires_grad_()
    return lambda: torch.autograd.grad(Square.apply(leaf).sum(), leaf)[0]


class Graphed:
    """A CUDA graph of a function, with its static inputs and output."""

    def __init__(self, function, *inputs):
        self.inputs, self.graph = inputs, torch.cuda.CUDAGraph()
        function(*inputs)
        with torch.cuda.graph(self.graph):
            self.out = function(*inputs)

    def __call__(self, *inputs):
        for static, given in zip(self.inputs, inputs, strict=True):
            static.copy_(given)
        self.graph.replay()
        return self.out


def test_graph_by_hand(device):
    x = ramp(device)
    on_gpu = device.kind == "gpu"

    def function(a):
        return torch.cos(a), a * 2

    call = Graphed(function, x.clone()) if on_gpu else function
    return lambda: call(x)


def test_graphed_callable(device):
    model = make_model(device)
    x = ramp(device)
    on_gpu = device.kind == "gpu"
    if on_gpu:
        model = torch.cuda.make_graphed_callables(model, (torch.zeros_like(x),))

    def infer():
        with torch.no_grad():
            return model(x)

    return infer


def test_graphed_function(device):
    x = ramp(device)
    on_gpu = device.kind == "gpu"
    call = torch.sin
    if on_gpu:
        call = torch.cuda.make_graphed_callables(lambda a: torch.sin(a), (torch.zeros_like(x),))
    return lambda: call(x)


def test_cudagraph_trees(device):
    x = ramp(device)
    call = torch.compile(lambda a: a @ a.T, mode="reduce-overhead")
    return lambda: call(x)


def test_own_pool(device):
    x = ramp(device)
    on_gpu = device.kind == "gpu"
    if not on_gpu:
        return lambda: x + 1
    pool = torch.cuda.MemPool()

    def work():
        with torch.cuda.use_mem_pool(pool):
            return x + 1

    return work


def test_there_and_back_without_blocking(device):
    on_gpu = device.kind == "gpu"
    host, back = torch.linspace(0, 1, 4000), torch.empty(4000)
    if on_gpu:
        host, back = host.pin_memory(), back.pin_memory()

    def work():
        back.copy_(host.to(device.native, non_blocking=True) * 2, non_blocking=True)
        if on_gpu:
            torch.cuda.synchronize()
        return back

    return work


def test_side_streams(device):
    x = ramp(device)
    on_gpu = device.kind == "gpu"
    if not on_gpu:
        return lambda: torch.sin(x) + torch.cos(x)
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]

    def work():
        current, parts = torch.cuda.current_stream(), []
        for stream, function in zip(streams, (torch.sin, torch.cos), strict=True):
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                parts.append(function(x))
        for stream, part in zip(streams, parts, strict=True):
            current.wait_stream(stream)
            part.record_stream(current)
        return parts[0] + parts[1]

    return work


def test_events(device):
    x = ramp(device)
    on_gpu = device.kind == "gpu"
    if not on_gpu:
        return lambda: x + 1
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def work():
        start.record()
        y = x + 1
        end.record()
        end.synchronize()
        return y, start.elapsed_time(end) >= 0

    return work


def test_list_of_tensors(device):
    x = ramp(device)
    parts = [x + number for number in range(30)]
    return lambda: torch._foreach_mul(parts, 2.0)


def test_vmap_of_grad(device):
    x = ramp(device)
    f = torch.func.vmap(torch.func.grad(lambda row: (row**3).sum()))
    return lambda: f(x)


@dataclass
class Output:
    logits: torch.Tensor
    hidden: tuple
    loss: float


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


def test_nested_results(device):
    x = ramp(device)
    return lambda: Output(x * 2, (Pair(x + 1, x + 2), torch.max(x, dim=1)), (x * 2).sum().item())


def test_seeded_generator(device):
    generator = torch.Generator(device.native)

    def work():
        generator.manual_seed(7)
        return torch.randn(1000, generator=generator, device=device.native)

    return work


def test_epoch_of_a_dataloader(device):
    on_gpu = device.kind == "gpu"
    data = torch.utils.data.TensorDataset(torch.arange(400.0).reshape(100, 4), torch.arange(100))
    loader = torch.utils.data.DataLoader(data, batch_size=25, pin_memory=on_gpu)

    def epoch():
        total = torch.zeros((), device=device.native)
        for batch in loader:
            a, b = (part.to(device.native, non_blocking=True) for part in batch)
            total += (a.sum(1) * b).sum()
        return total

    return epoch


def test_fft(device):
    x = ramp(device)
    waves = x.to(torch.complex64)
    return lambda: torch.fft.fft(waves, dim=1).abs()


def test_views(device):
    x = ramp(device)
    return lambda: [part.T.contiguous() for part in x.chunk(4, dim=1)] + [(x * 2).T[::2]]


@pytest.fixture(scope="class")
def shared(device):
    return torch.ones(64, 64, device=device.native)


class TestOfAClassesTensor:
    def test_power(self, shared):
        return partial(torch.linalg.matrix_power, shared, 3)


class Doubling(torch.nn.Module):
    def __init__(self, like):
        super().__init__()
        self.register_buffer("out", torch.empty_like(like))

    def forward(self, x):
        return torch.mul(x, 2, out=self.out)


def test_buffer_of_a_module(device):
    x = ramp(device)
    module = Doubling(x)
    return lambda: module(x)


def test_result_on_the_host(device):
    x = ramp(device)
    return lambda: (x * 2).cpu().numpy()
