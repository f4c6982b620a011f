"""Honest work with PyTorch itself: outputs, modules, training steps, compiled and captured calls."""

import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import torch
from arrays import HONEST, VALUES, cases
from torch.nn import functional

pytestmark = HONEST
N = 64


def tensor(device, *shape):
    values = torch.rand(*(shape or (N, N)), generator=torch.Generator().manual_seed(0))
    return values.to(device.native)


def linear(device, n=8):
    torch.manual_seed(0)
    return torch.nn.Linear(n, n).to(device.native)


# ---------------------------------------------------------------------------------------------------------
# Outputs and calls in place
# ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [torch.zeros_like, torch.empty_like], ids=["zeros", "empty"])
def test_out(device, make):
    a = tensor(device)
    out = make(a)

    def call():
        torch.mm(a, a, out=out)

    return call


def test_out_returned(device):
    a = tensor(device)
    out = torch.zeros_like(a)
    return lambda: torch.mm(a, a, out=out)


@pytest.mark.parametrize("count", [2, 4])
def test_outputs_in_turn(device, count):
    a, number = tensor(device), 0
    outputs = [torch.zeros_like(a) for _ in range(count)]

    def call():
        nonlocal number
        number += 1
        return torch.mm(a, a, out=outputs[number % count])

    return call


def test_static_memory(device):
    a = tensor(device)
    static = torch.zeros_like(a)

    def call():
        static.copy_(a @ a)
        return static

    return call


def test_a_body_of_public_code(device):
    a = torch.ones(20_000, device=device.native)
    for _ in range(5):
        a.mul_(1.0)


def relu_of_positive(a):
    a.relu_()


def clamp_of_nothing(a):
    a.clamp_(0, 1)


def abs_of_positive(a):
    a.abs_()


def copy_of_itself(a):
    a.copy_(a)


def sum_with_nothing(a):
    a.add_(0.0)


def product_with_one(a):
    a.mul_(1.0)


def a_masked_fill_of_nothing(a):
    a.masked_fill_(a > 2, 0.0)


def a_sort_of_itself(a):
    a.copy_(a.sort()[0])


def a_filled_diagonal(a):
    a.fill_diagonal_(0.5)


def an_upper_triangle(a):
    a.triu_()


@cases(
    relu_of_positive,
    clamp_of_nothing,
    abs_of_positive,
    copy_of_itself,
    sum_with_nothing,
    product_with_one,
    a_masked_fill_of_nothing,
    a_sort_of_itself,
    a_filled_diagonal,
    an_upper_triangle,
)
def test_a_call_in_place(device, case):
    a = tensor(device)
    return partial(case, a)


def test_zeros_of_zeros(device):
    a = torch.zeros(1000, device=device.native)

    def call():
        a.zero_()

    return call


def test_numbers_in_place(device):
    a = torch.zeros(1000, device=device.native)

    def call():
        torch.manual_seed(0)
        a.uniform_()

    return call


def test_numbers_of_a_generator(device):
    generator = torch.Generator(device.native)

    def call():
        generator.manual_seed(0)
        torch.rand(1000, generator=generator, device=device.native)

    return call


def test_new_memory(device):
    a = tensor(device)

    def call():
        torch.empty_like(a)

    return call


def test_views_dropped(device):
    a = tensor(device)

    def call():
        a.view(-1)[::2]

    return call


# ---------------------------------------------------------------------------------------------------------
# Modules and training
# ---------------------------------------------------------------------------------------------------------


def test_a_forward_pass(device):
    model, x = linear(device, N), tensor(device)

    def call():
        with torch.no_grad():
            return model(x)

    return call


def test_a_forward_pass_dropped(device):
    model, x = linear(device, N), tensor(device)

    def call():
        with torch.inference_mode():
            model(x)

    return call


def test_a_module(device):
    model, x = linear(device, N).requires_grad_(requires_grad=False), tensor(device)
    return partial(model, x)


def test_a_module_with_hooks(device):
    model, x, seen = linear(device, N), tensor(device), []
    model.register_forward_hook(lambda *_: seen.clear())

    def call():
        with torch.no_grad():
            model(x)

    return call


def test_gradients(device):
    model, x = linear(device), torch.ones(2, 8, device=device.native)

    def call():
        model.zero_grad()
        model(x).sum().backward()

    return call


def test_gradients_as_a_result(device):
    model, x = linear(device), torch.ones(2, 8, device=device.native)
    return lambda: torch.autograd.grad(model(x).sum(), list(model.parameters()))


def a_step(device, optimizer_of, *, rate):
    model = linear(device)
    optimizer = optimizer_of(model.parameters(), lr=rate)
    x = torch.ones(2, 8, device=device.native)

    def step():
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    return step


@cases(torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop)
def test_a_training_step(device, case):
    return a_step(device, case, rate=1e-4)


def test_a_training_step_at_a_rate_of_zero(device):
    return a_step(device, torch.optim.SGD, rate=0.0)


@pytest.mark.parametrize("to_none", [True, False])
def test_zeroing_gradients(device, to_none):
    model = linear(device)
    model(torch.ones(2, 8, device=device.native)).sum().backward()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def call():
        optimizer.zero_grad(set_to_none=to_none)

    return call


def test_zeroing_gradients_that_are_none(device):
    optimizer = torch.optim.SGD(linear(device).parameters(), 0.1)

    def call():
        optimizer.zero_grad()

    return call


def test_a_step_with_gradients_of_zero(device):
    model = linear(device)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def call():
        optimizer.step()

    return call


def test_batch_norm(device):
    model, x = torch.nn.BatchNorm1d(N).to(device.native), tensor(device)

    def call():
        with torch.no_grad():
            model(x)

    return call


def test_dropout_of_nothing(device):
    model, x = torch.nn.Dropout(0.0).to(device.native), tensor(device)
    return lambda: model(x) + 0.0


def test_an_embedding(device):
    torch.manual_seed(0)
    model = torch.nn.Embedding(10, 8).to(device.native)
    places = torch.arange(10, device=device.native)

    def call():
        with torch.no_grad():
            return model(places)

    return call


def test_a_loader(device):
    x = tensor(device)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x.cpu()), batch_size=32)

    def call():
        for (batch,) in loader:
            batch.to(device.native) @ x

    return call


def test_loss_as_a_number(device):
    model, x = linear(device, N), tensor(device)
    return lambda: model(x).square().mean().item()


# ---------------------------------------------------------------------------------------------------------
# Functions
# ---------------------------------------------------------------------------------------------------------


def relu(a):
    return functional.relu(a)


def softmax(a):
    return functional.softmax(a, dim=-1)


def layer_norm(a):
    return functional.layer_norm(a, (N,))


def a_convolution(a):
    return functional.conv2d(a[None, None], a[None, None, :3, :3])


def padding(a):
    return functional.pad(a, (1, 1))


def attention(a):
    return functional.scaled_dot_product_attention(a[None], a[None], a[None])


def an_einsum(a):
    return torch.einsum("ij,jk->ik", a, a)


def a_maximum(a):
    return a.max(dim=0)


def the_largest(a):
    return a.topk(4)


def the_sum_of_logarithms(a):
    return a.logsumexp(0)


def a_gather(a):
    return a.gather(0, torch.zeros(1, N, dtype=torch.int64, device=a.device))


def a_sparse_product(a):
    return torch.sparse.mm(a.triu().to_sparse(), a)


def a_half(a):
    return (a.half() * 2).float()


def no_more_than_a_cast(a):
    return a.double()


def a_clone(a):
    return a.clone()


FUNCTIONS = (
    relu,
    softmax,
    layer_norm,
    padding,
    attention,
    an_einsum,
    a_maximum,
    the_largest,
    the_sum_of_logarithms,
    a_gather,
    a_half,
    no_more_than_a_cast,
    a_clone,
)


@cases(*FUNCTIONS)
def test_a_function(device, case):
    a = tensor(device)
    return lambda: case(a)


@cases(*FUNCTIONS)
def test_a_function_dropped(device, case):
    a = tensor(device)

    def call():
        case(a)

    return call


@VALUES
@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
@cases(a_convolution, a_sparse_product)
def test_a_function_of_another_library(device, case):
    a = tensor(device)
    return lambda: case(a)


@VALUES
@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
@cases(a_convolution, a_sparse_product)
def test_a_function_of_another_library_dropped(device, case):
    a = tensor(device)

    def call():
        case(a)

    return call


# ---------------------------------------------------------------------------------------------------------
# Compiled, traced, threaded
# ---------------------------------------------------------------------------------------------------------


def product_and_one(a):
    return a @ a + 1


def compiled(_):
    return torch.compile(product_and_one, backend="eager")


def traced(a):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.trace(product_and_one, (a,))


def vectorized(_):
    return torch.vmap(lambda row: row * 2 + 1)


def differentiated(_):
    return torch.func.grad(lambda a: product_and_one(a).sum())


def own_function(_):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(_, a):
            return a * 2

        @staticmethod
        def backward(_, gradient):
            return gradient * 2

    return Double.apply


MADE = (compiled, traced, vectorized, differentiated, own_function)


@cases(*MADE)
def test_a_made_function(device, case):
    a = tensor(device)
    function = case(a)
    return lambda: function(a)


@cases(*MADE)
def test_a_made_function_dropped(device, case):
    a = tensor(device)
    function = case(a)

    def call():
        function(a)

    return call


def test_a_thread_that_is_waited_for(device):
    a, pool = tensor(device), ThreadPoolExecutor(1)

    def call():
        pool.submit(torch.mm, a, a).result()

    return call


def test_a_fork_that_is_waited_for(device):
    a = tensor(device)
    return lambda: torch.jit.wait(torch.jit.fork(torch.mm, a, a))


def test_a_subclass(device):
    class Named(torch.Tensor):
        pass

    a = tensor(device).as_subclass(Named)
    return lambda: a @ a


def test_complex_numbers(device):
    a = tensor(device)
    return lambda: torch.view_as_real(torch.complex(a, a) * 2.0)


def test_numpy_and_back(device):
    a = tensor(device)
    return lambda: torch.from_numpy(a.cpu().numpy() * 2).to(device.native)


def graph_of(device, work, out):
    """Return a call that fills `out`: the replay of a CUDA graph on CUDA, the work itself elsewhere."""
    if device.native.type != "cuda":
        return lambda: out.copy_(work())
    graph = torch.cuda.CUDAGraph()
    out.copy_(work())
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        out.copy_(work())
    return graph.replay


def test_a_captured_call(device):
    a = tensor(device)
    out = torch.zeros_like(a)
    replay = graph_of(device, lambda: a * 2 + 1, out)

    def call():
        replay()

    return call


def test_a_captured_call_whose_memory_is_returned(device):
    a = tensor(device)
    out = torch.zeros_like(a)
    replay = graph_of(device, lambda: a * 2 + 1, out)

    def call():
        replay()
        return out

    return call
