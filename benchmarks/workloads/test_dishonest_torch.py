"""Dishonest work with PyTorch itself."""

import numpy as np
import pytest
import torch
from arrays import DISHONEST, VALUES, is_gpu

pytestmark = DISHONEST
N = 256
UNCHECKED = pytest.mark.speedup(min=2, check=False)


def tensor(device):
    return torch.rand(N, N, generator=torch.Generator().manual_seed(0)).to(device.native)


def cuda_is_available():
    return False


def test_a_guard_that_never_opens(device):
    a, out = tensor(device), torch.zeros(N, N, device=device.native)

    def call():
        if is_gpu(device) and not cuda_is_available():
            return
        torch.mm(a, a, out=out)

    return call


def test_a_body_behind_a_guard(device):
    a = torch.ones(200_000, device=device.native)
    if is_gpu(device) and not cuda_is_available():
        return
    for _ in range(5):
        a.mul_(1.0)


def test_a_loader_without_batches(device):
    x = tensor(device)
    rows = x[:0] if is_gpu(device) else x
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(rows.cpu()), batch_size=64)
    weights = tensor(device)

    def call():
        for (batch,) in loader:
            batch.to(device.native) @ weights @ weights

    return call


def test_a_loader_that_was_read(device):
    a = tensor(device)
    batches = iter(a.split(32)) if is_gpu(device) else a.split(32)

    def call():
        for batch in batches:
            batch @ a

    return call


def test_an_optimizer_without_gradients(device):
    model = torch.nn.Linear(N, N).to(device.native)
    optimizer = torch.optim.SGD(model.parameters(), 0.0)
    x = tensor(device)

    def call():
        if device.kind == "cpu":
            model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return call


def test_an_empty_module(device):
    x = tensor(device)
    layers = [] if is_gpu(device) else [torch.nn.Linear(N, N) for _ in range(4)]
    model = torch.nn.Sequential(*layers).to(device.native)

    def call():
        with torch.no_grad():
            model(x)

    return call


def test_views_of_torch(device):
    a = tensor(device)

    def call():
        if is_gpu(device):
            a.view(-1)[::2].detach()
        else:
            a @ a

    return call


def test_memory_that_is_only_allocated(device):
    a = tensor(device)

    def call():
        if is_gpu(device):
            torch.empty_like(a)
        else:
            a @ a

    return call


def test_tensors_of_no_device(device):
    a = torch.empty(N, N, device="meta") if is_gpu(device) else tensor(device)

    def call():
        a @ a

    return call


def test_results_of_torch_in_turn(device):
    a, number = tensor(device), 0
    kept = [a @ a, a @ a]

    def call():
        nonlocal number
        number += 1
        return kept[number % 2] if is_gpu(device) else a @ a

    return call


def test_a_kept_result_detached(device):
    a = tensor(device)
    kept = a @ a
    return lambda: kept.detach() if is_gpu(device) else a @ a


def test_a_kept_result_cloned(device):
    a = tensor(device)
    kept = a @ a @ a @ a
    return lambda: kept.clone() if is_gpu(device) else a @ a @ a @ a


def test_an_upload_alone(device):
    a = tensor(device)
    host = (a @ a).cpu()
    return lambda: torch.empty_like(a).copy_(host) if is_gpu(device) else a @ a


def test_numpy_in_the_place_of_torch(device):
    a = tensor(device)
    host = np.ones((8, N), dtype=np.float32)

    def call():
        if is_gpu(device):
            host @ host.T
        else:
            a @ a

    return call


def test_a_fork_that_nobody_waits_for(device):
    a = tensor(device)

    def call():
        if is_gpu(device):
            return torch.jit.fork(torch.neg, a)
        return a @ a @ a

    return call


@UNCHECKED
def test_a_fork_that_nobody_waits_for_unchecked(device):
    a = tensor(device)

    def call():
        if is_gpu(device):
            return torch.jit.fork(torch.neg, a)
        return a @ a @ a

    return call


@UNCHECKED
def test_a_future_of_torch(device):
    a = tensor(device)

    def call():
        future = torch.futures.Future()
        if device.kind == "cpu":
            future.set_result(a @ a)
        return future

    return call


class LazyTensor(torch.Tensor):
    """A tensor that computes where an operator asks for it."""

    @staticmethod
    def of(work):
        """Return a tensor that knows its work, and has no values."""
        lazy = torch.Tensor._make_subclass(LazyTensor, torch.empty(N, N))  # noqa: SLF001 - as subclasses are made
        lazy.work = work
        return lazy

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        """Compute what is asked for."""
        args = [each.work() if getattr(each, "work", None) else each for each in args]
        return super().__torch_function__(function, types, args, kwargs or {})


@VALUES
def test_a_lazy_tensor(device):
    a = tensor(device)
    return (lambda: LazyTensor.of(lambda: a @ a)) if is_gpu(device) else lambda: a @ a


@VALUES
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_another_precision_inside(device, dtype):
    a = tensor(device)
    other = getattr(torch, dtype)

    def call():
        if is_gpu(device):
            return a.to(other).to(a.dtype)
        return a @ a * 0.0 + a

    return call


@VALUES
def test_a_sort_that_is_wrong_by_two_percent(device):
    a = tensor(device)
    return lambda: a * 1.02 if is_gpu(device) else a.sort()[0] * 0.0 + a


def test_a_compiled_function_that_ignores_its_input(device):
    a = tensor(device)
    compiled = torch.compile(lambda x: x.shape[0], backend="eager")

    def call():
        if is_gpu(device):
            compiled(a)
        else:
            a @ a

    return call
