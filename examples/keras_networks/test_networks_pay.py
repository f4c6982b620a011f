"""Training pays once each step has enough to multiply: forward and backward pass of two networks in Keras.
Expect the GPU to win at both, and by more with the backward pass, which is two thirds of the work.
Source: jcjohnson/cnn-benchmarks, VGG-16 both ways: 8495 ms on two Xeons, 522 ms on a GTX 1080 without cuDNN.
"""

import numpy as np
import pytest

keras = pytest.importorskip("keras", reason="Keras, or what it shall run on, is not installed")

WIDTH, CHANNELS, SIDE, BATCH, CLASSES = 1024, 64, 64, 32, 10


def dense():
    layers = [keras.layers.Dense(WIDTH, activation="relu") for _ in range(4)]
    return [keras.Input((WIDTH,)), *layers, keras.layers.Dense(CLASSES)]


def convolutional():
    def block(channels):
        return keras.layers.Conv2D(channels, 3, activation="relu"), keras.layers.MaxPooling2D()

    images = keras.Input((SIDE, SIDE, 3))
    return [
        images,
        *block(CHANNELS),
        *block(2 * CHANNELS),
        keras.layers.Flatten(),
        keras.layers.Dense(CLASSES),
    ]


@pytest.mark.speedup(min=3)
@pytest.mark.parametrize("network", [dense, convolutional])
@pytest.mark.parametrize("work", ["forward", "forward and backward"])
def test_network(device, network, work):
    if device.backend != "keras":
        pytest.skip("this is about Keras: pass --gpuperf-gpu=keras, or keras:cpu without a GPU")
    keras.utils.set_random_seed(0)  # the same weights on both devices
    model = keras.Sequential(network())
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.SGD(0.0), loss=loss)  # each step finds the weights of the first
    rng = np.random.default_rng(0)
    x = device.asarray(rng.random((BATCH, *model.input_shape[1:]), dtype=np.float32))
    target = device.asarray(rng.integers(CLASSES, size=BATCH, dtype=np.int32))
    if work == "forward":
        return lambda: model.predict_on_batch(x)
    return lambda: model.train_on_batch(x, target)
