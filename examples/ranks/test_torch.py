"""A training step through DistributedDataParallel: each rank has rows of one batch, and gradients are summed.

    pytest examples/ranks/test_torch.py --gpuperf-gpu=torch

or, for other tests with several ranks, too, torchrun --nproc-per-node 2 -m pytest ...
"""

import os
from datetime import timedelta

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

ROWS, WIDTH = 4096, 1024


@pytest.fixture(scope="session", autouse=True)
def processes():
    """One group of all ranks, where there are several; a rank that hangs ends the others."""
    if "RANK" not in os.environ:
        yield
        return
    torch.distributed.init_process_group(timeout=timedelta(minutes=1))  # NCCL for CUDA, gloo for the CPU
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.scaling([1, 2, 4], efficiency=0.6)
def test_training_step(ranks):
    if ranks.device.backend != "torch":
        pytest.skip("this is about PyTorch: pass --gpuperf-gpu=torch, or torch:cpu without a GPU")
    rng = np.random.default_rng(0)
    x, target = (ranks.asarray(rng.random((ROWS, WIDTH), dtype=np.float32), shard=0) for _ in range(2))
    torch.manual_seed(0)  # the same weights on all ranks, and on any number of them
    linear = torch.nn.Linear
    model = torch.nn.Sequential(linear(WIDTH, WIDTH), torch.nn.ReLU(), linear(WIDTH, WIDTH))
    model = model.to(ranks.device.native)
    if ranks.group is not None:
        model = torch.nn.parallel.DistributedDataParallel(model, process_group=ranks.group)

    def step():  # no optimizer's: each call finds the same weights
        model.zero_grad()
        torch.nn.functional.mse_loss(model(x), target).backward()
        return [weight.grad for weight in model.parameters()]  # of the whole batch, the same on each rank

    return step
