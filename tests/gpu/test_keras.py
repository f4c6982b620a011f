"""Keras on a GPU of TensorFlow, torch or JAX, whichever KERAS_BACKEND names: the conformance kit, a layer.

Runs only where Keras finds one, which may be torch's on a fake CUDA device: `KERAS_BACKEND=torch python
tests/fakes/cuda -m pytest tests/gpu`.
"""

import numpy as np
import pytest
from walks import walked

from pytest_gpuperf.devices.choice import backends
from pytest_gpuperf.devices.machine import Machine
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.errors import Unavailable
from pytest_gpuperf.testing import DeviceConformance

try:
    Machine("keras").gpu()
except Unavailable as cause:
    pytest.skip(str(cause), allow_module_level=True)

import keras


class TestKeras(DeviceConformance):
    size = 4096

    @pytest.fixture
    def backend(self):
        return backends()["keras"]

    @pytest.mark.needs_values
    def test_uploads_mix_with_new_arrays(self, gpu):
        super().test_uploads_mix_with_new_arrays(gpu)


def test_each_side_makes_layers_and_tensors_on_its_own_device():
    devices = Machine("keras")
    sides = {"cpu": devices.cpu(), "gpu": devices.gpu()}
    for kind, device in sides.items():
        with device.context():
            layer = keras.layers.Dense(3)
            made = [layer(device.asarray(np.ones((2, 4), dtype=np.float32))), layer.kernel, keras.ops.ones(3)]
        assert [[kind]] * 3 == [[one for one in sides if sides[one].holds(value)] for value in made]


def test_a_layer_is_measured_on_both_sides():
    def body(device):
        layer = keras.layers.Dense(256, kernel_initializer="ones")
        x = device.asarray(np.ones((64, 256), dtype=np.float32))
        return lambda: layer(x)

    record = walked(body, Machine("keras").cpu(), Machine("keras").gpu(), Demand(check=False), max_time=5)
    assert ("recorded", "keras") == (record.status, record.gpu.device.backend)
    assert record.transfer.h2d.bytes == 64 * 256 * 4
