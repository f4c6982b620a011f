"""Training scales with the GPUs, data parallel: they share a batch, and exchange gradients once a step.
Expect 4 GPUs to keep an efficiency of 0.6, with a batch for each (weak) and where all share one (strong).
Source: Goyal et al., Accurate, Large Minibatch SGD (2017): 90 % from 8 to 256 GPUs, with 32 images for each.
"""

import numpy as np
import pytest

RATE = 1e-6


@pytest.mark.scaling([1, 2, 4], mode="weak", efficiency=0.6)
def test_a_batch_for_each(devices):
    return training_step(devices, batches=devices.count)


@pytest.mark.scaling([1, 2, 4], efficiency=0.6)
def test_a_batch_for_all(devices):
    return training_step(devices, batches=4)


def training_step(devices, batches):
    """Return a step of two dense layers, which each device has; they divide the batch."""
    rows, width = (1 << 9, 256) if devices.info.emulated else (1 << 12, 1024)
    rng = np.random.default_rng(0)
    x, target = (rng.standard_normal((batches * rows, width), dtype=np.float32) for _ in range(2))
    layers = [rng.standard_normal((width, width), dtype=np.float32) / width**0.5 for _ in range(2)]
    layers = [devices.asarray(layer) for layer in layers]
    batch = [devices.asarray(each, shard=0) for each in (x, target)]
    return (
        step_on_a_mesh(layers, *batch) if hasattr(devices, "mesh") else step_on_each(devices, layers, *batch)
    )


def gradients(layers, x, target):
    """Return the gradients of the squared error, forward and backward."""
    first, second = layers
    before = x @ first
    hidden = before * (before > 0)
    error = hidden @ second - target
    return x.T @ ((error @ second.T) * (before > 0)), hidden.T @ error


def step_on_a_mesh(layers, x, target):
    """Return a step of JAX: XLA divides the work as its inputs are, and sums the gradients of all devices."""
    import jax

    @jax.jit
    def step(layers, x, target):
        found = gradients(layers, x, target)
        return [w - RATE * gradient for w, gradient in zip(layers, found, strict=True)]

    return lambda: step(layers, x, target)


def step_on_each(devices, layers, x, target):
    """Return a step of a library whose arrays are on one device: the first one sums, and sends it to all."""
    first, replicas = devices.all[0], list(zip(*layers, strict=True))

    def step():
        found = []
        for own, rows, expected in zip(replicas, x, target, strict=True):
            with current_device_of(rows):
                found.append(gradients(own, rows, expected))
        sums = [sum(first.asarray(part) for part in parts) for parts in zip(*found, strict=True)]
        updated = []
        for device, own in zip(devices.all, replicas, strict=True):
            with current_device_of(own[0]):
                updated.append([w - RATE * device.asarray(each) for w, each in zip(own, sums, strict=True)])
        return [list(parts) for parts in zip(*updated, strict=True)]

    return step


def current_device_of(array):
    """Return what has CuPy work where an array is; other libraries do so by themselves."""
    from contextlib import nullcontext

    device = getattr(array, "device", None)
    return device if hasattr(device, "use") else nullcontext()
