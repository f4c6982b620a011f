"""Keras on its CPU, and in the place of a GPU, on what KERAS_BACKEND names: TensorFlow, torch or JAX."""

import json
import sys
from contextlib import nullcontext
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from cases import for_each
from cpu_devices import two_of_keras
from msgspec.structs import replace
from plugins import skip_module
from walks import walked

from pytest_gpuperf.devices.keras import KerasDevice
from pytest_gpuperf.devices.machine import Machine
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.errors import GpuPerfError, Unavailable
from pytest_gpuperf.testing import StandIn

if find_spec("keras") is None:
    skip_module("Keras is not installed; CI's second environment has it")

try:
    import keras
except ImportError as missing:
    skip_module(f"Keras has nothing to run on: {missing}")

RUNS_ON = keras.config.backend()
two_of_keras(keras)


@pytest.fixture
def cpu():
    return Machine("keras:cpu").cpu()


def test_xp_is_kerass_own_and_variables_of_a_layer_are_on_the_device_and_come_down(cpu):
    with cpu.context():
        assert cpu.asnumpy(cpu.xp.relu(cpu.xp.asarray([-1.0, 2.0]))).tolist() == [0, 2]
        layer = keras.layers.Dense(3, kernel_initializer="ones")
        layer.build((2, 4))
    assert "conv" in dir(cpu.xp)
    assert cpu.holds(layer.kernel)
    assert not any(map(cpu.holds, (np.ones(3), keras.KerasTensor((3,)), layer, "cpu:0")))
    assert cpu.asnumpy(layer.kernel).tolist() == [[1] * 3] * 4
    copied = cpu.asarray(layer.kernel)
    layer.kernel.assign(keras.ops.zeros((4, 3)))
    assert cpu.asnumpy(copied).sum() == 12


def measured(body, **demand):
    """Return the record of a body that is measured with Keras on the CPU, and so once more as if on a GPU."""
    devices = Machine("keras:cpu")
    return walked(body, devices.cpu(), devices.gpu(), Demand(**demand), max_time=30)


def inferring(device):
    layer = keras.layers.Dense(16, activation="relu", kernel_initializer="ones")
    x = device.asarray(np.ones((8, 32), dtype=np.float32))
    return lambda: layer(x)


def training(device):
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4, kernel_initializer="ones")])
    model.compile(optimizer=keras.optimizers.SGD(0.0), loss="mse")
    x, y = np.ones((16, 8), dtype=np.float32), np.ones((16, 4), dtype=np.float32)
    return lambda: model.train_on_batch(x, y)


def assigning(device):
    layer, x = keras.layers.Dense(256), device.asarray(np.ones((256, 256), dtype=np.float32))
    layer.build((None, 256))

    def train():
        layer.kernel.assign(device.xp.matmul(x, x))
        return layer.kernel

    return train


@pytest.mark.parametrize(
    ("body", "uploaded"), [(inferring, 8 * 32 * 4), (training, 0), (assigning, 256 * 256 * 4)]
)
def test_a_layer_and_training_have_a_verdict_and_a_variable_that_each_call_writes_was_not_kept(
    body, uploaded
):
    record = measured(body)
    assert ("recorded", True) == (record.status, record.check.agreed)
    assert uploaded == record.transfer.h2d.bytes


def products(monkeypatch):
    """Return calls by whether they multiply or convolve: True, False, or None where that is not known."""
    ops = keras.ops
    a = ops.convert_to_tensor(np.random.default_rng(0).uniform(1, 2, (16, 16)).astype(np.float32))
    layer, scaled = keras.layers.Dense(4), keras.layers.Rescaling(2.0)
    model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(4)])
    model.compile(optimizer="sgd", loss="mse")
    batch = np.ones((16, 16), np.float32), np.ones((16, 4), np.float32)
    calls = {
        True: {
            "product": lambda: ops.matmul(a, a),
            "convolution": lambda: ops.conv(a[None], a[None], padding="same"),
            "layer": lambda: layer(a),
            "training": lambda: model.train_on_batch(*batch),
            "loop": lambda: ops.fori_loop(0, 2, lambda _, x: ops.matmul(x, x), a),
        },
        False: {
            "sort": lambda: ops.sort(a) * 1.02,
            "reductions": lambda: (ops.sum(a), ops.cumsum(a), ops.mean(a, axis=0)),
            "layer": lambda: scaled(a),
        },
        None: {"nothing": lambda: None},
    }
    if RUNS_ON == "tensorflow":
        add_graphs(calls, a, monkeypatch)
    return calls


def add_graphs(calls, a, monkeypatch):
    """Add functions of TensorFlow, which run as one operation each."""
    import tensorflow as tf

    multiplied, ordered = tf.function(lambda x: tf.sin(x) @ x), tf.function(tf.sort)
    calls[True] |= {
        "function": lambda: multiplied(a),
        "function in a function": tf.function(lambda: multiplied(a) + 1),
        "of XLA": tf.function(lambda: a @ a, jit_compile=True),
        "branch": tf.function(lambda: tf.cond(a[0, 0] > 0, lambda: multiplied(a), lambda: a)),
        "gradient": tf.function(lambda: tf.gradients(multiplied(a), a)),
    }
    calls[False] |= {
        "function": lambda: ordered(a),
        "function in a function": tf.function(lambda: ordered(a)),
    }
    calls[None]["Python"] = tf.function(lambda: tf.py_function(tf.sort, [a], tf.float32) + 1)
    monkeypatch.delattr(tf.raw_ops, "Asinh", raising=False)  # as of an operation that another library brings
    calls[None]["operation of another library"] = lambda: tf.asinh(a) + 1


@for_each("known", [True, False, None])
def test_products_are_seen_in_one_more_call(monkeypatch, known):
    gpu = Machine("keras:cpu").gpu()
    with gpu.context():
        calls = products(monkeypatch)[known]
        for _ in range(2):  # the first one may trace
            found = {name: gpu.runs_products(call) for name, call in calls.items()}
            assert dict.fromkeys(calls, known) == found


@for_each(
    ("name", "factor", "agrees"),
    [
        ("sort", 1.02, False),
        ("sort", 1.0001, True),
        ("matmul", 1.02, True),
        ("matmul", 1.04, False),
    ],
)
def test_only_a_product_has_the_tolerance_of_tf32(monkeypatch, name, factor, agrees):
    described = KerasDevice.info.fget
    mode = {"reduced_precision": "TF32 in float32 products (a setting)", "reduced_eps": 2**-10}
    monkeypatch.setattr(
        KerasDevice,
        "info",
        property(lambda device: replace(described(device), **(mode if device.kind == "gpu" else {}))),
    )
    values = np.random.default_rng(0).uniform(1, 2, (16, 16)).astype(np.float32)

    def body(device):
        a, wrong = device.asarray(values), 1.0 if device.kind == "cpu" else factor
        inputs = [a] if name == "sort" else [a, a]
        return lambda: getattr(device.xp, name)(*inputs) * wrong

    assert agrees is measured(body).check.agreed


def test_a_tensor_that_is_returned_again_was_kept():
    if RUNS_ON == "torch":
        pytest.skip("torch's tensors can be written")

    def body(device):
        kept, x = [], device.asarray(np.ones((256, 256), dtype=np.float32))

        def call():
            kept[:] = kept or [device.xp.matmul(x, x)]
            return kept[0]

        return call

    with pytest.raises(
        GpuPerfError, match=r"was kept .* it is the very array, which no call can write again"
    ):
        measured(body)


GALLERY = Path(__file__).parents[2] / "examples" / "keras_networks" / "test_networks_pay.py"


def test_the_networks_of_the_gallery_run_both_ways_on_keras(pytester, run):
    sizes, small = "= 1024, 64, 64, 32, 10", "= 16, 2, 16, 4, 10"
    source = GALLERY.read_text(encoding="utf-8")
    assert sizes in source
    # The second call compiles, too.
    options = ("--gpuperf-fail=nothing", "--gpuperf-max-time=8", "--gpuperf-json=r.json")
    run(source.replace(sizes, small), *options, gpu="keras:cpu").assert_outcomes(passed=4)
    records = json.loads((pytester.path / "r.json").read_text(encoding="utf-8"))["records"]
    assert all(record["speedup"]["value"] > 0 and record["check"]["agreed"] for record in records)


def test_what_its_context_makes_is_on_its_device_and_nowhere_else(cpu):
    if RUNS_ON == "torch":
        pytest.skip("torch has one CPU; CI runs these tests on TensorFlow and JAX")
    second = StandIn("keras").gpu("1")
    with second.context():
        layer = keras.layers.Dense(3)
        result = layer(second.asarray(np.ones((2, 4), dtype=np.float32)))
        assert (True, False) == (second.holds(layer.kernel), cpu.holds(layer.kernel))
        assert (True, False) == (second.holds(result), cpu.holds(result))
        with cpu.context():
            assert (False, True) == (second.holds(keras.ops.ones(3)), cpu.holds(keras.ops.ones(3)))


def keras_on(monkeypatch, library):
    """Put a Keras in place that runs on this library."""
    made = ModuleType("keras")
    made.__spec__, made.__version__, made.Variable = ModuleSpec("keras", None), "3", ()
    made.config = SimpleNamespace(backend=lambda: library)
    made.ops = ModuleType("keras.ops")
    made.ops.convert_to_tensor = None
    monkeypatch.setitem(sys.modules, "keras", made)


def test_a_library_without_devices_below_keras_is_named_with_the_others(monkeypatch):
    keras_on(monkeypatch, "openvino")
    devices = Machine("keras")
    for opened in (devices.cpu, devices.gpu):
        with pytest.raises(Unavailable, match=r"Keras runs on openvino.*; set KERAS_BACKEND to tensorflow"):
            opened()


class Placed(np.ndarray):
    device = "/physical_device:GPU:0"


class FakeTensorflow(ModuleType):
    """The parts of TensorFlow that we touch, with GPUs of 100 bytes; a computation takes 7 of them."""

    __version__ = "2.21.0"
    is_tensor = staticmethod(lambda value: False)
    device = staticmethod(nullcontext)

    def __init__(self, *, gpus=1, capability=(9, 0)):
        super().__init__("tensorflow")
        self.__spec__ = ModuleSpec("tensorflow", None)
        self.bytes = self.peak = self.synchronized = 0
        self.tf32 = True
        found = [SimpleNamespace(name=f"/physical_device:GPU:{index}") for index in range(gpus)]
        self.config = SimpleNamespace(
            list_physical_devices=lambda kind: found,
            experimental=SimpleNamespace(
                get_device_details=lambda gpu: {"device_name": "H100", "compute_capability": capability},
                get_memory_info=lambda place: {"current": self.bytes, "peak": self.peak},
                reset_memory_stats=lambda place: vars(self).update(peak=self.bytes),
                tensor_float_32_execution_enabled=lambda: self.tf32,
            ),
        )
        self.test = SimpleNamespace(experimental=SimpleNamespace(sync_devices=self.sync_devices))
        self.errors = SimpleNamespace(OpError=FakeOpError, ResourceExhaustedError=FakeExhaustedError)

    def sync_devices(self):
        self.synchronized += 1

    def constant(self, host):
        return host.view(Placed)

    def reduce_sum(self, array):
        self.peak = max(self.peak, self.bytes + 7)


class FakeOpError(Exception):
    """As TensorFlow's: no RuntimeError."""


class FakeExhaustedError(FakeOpError):
    pass


@pytest.fixture
def opened(monkeypatch):
    """Open a GPU of Keras on a TensorFlow that is made up: return both."""

    def call(choice="keras", **facts):
        tensorflow = FakeTensorflow(**facts)
        monkeypatch.setitem(sys.modules, "tensorflow", tensorflow)
        keras_on(monkeypatch, "tensorflow")
        return Machine(choice).gpu(), tensorflow

    return call


def test_a_gpu_of_tensorflow_is_tried_and_described(opened, setting, with_cuda_driver):
    with_cuda_driver()
    setting("NVIDIA_TF32_OVERRIDE", None)
    gpu, tensorflow = opened("keras:1", gpus=2)
    assert (7, 1) == (tensorflow.peak, tensorflow.synchronized)
    assert ("gpu", "H100", "keras 3 on tensorflow 2.21.0") == (gpu.kind, gpu.info.name, gpu.info.library)
    assert ("for CUDA 13.0", 2 << 30, 132) == (gpu.info.driver, gpu.info.memory, gpu.info.multiprocessors)
    assert "TF32 in float32 convolutions" in gpu.info.reduced_convolutions
    assert gpu.info.reduced_eps == 2**-10
    tensorflow.tf32 = False
    assert (gpu.info.reduced_precision, gpu.info.reduced_eps) == (None, None)
    assert opened(capability=(7, 0))[0].info.reduced_precision is None
    emulated = Machine("keras:cpu").gpu()
    assert ("gpu", True, None) == (emulated.kind, emulated.info.emulated, emulated.processor_time())
    with emulated.observe() as seen:
        pass
    assert seen.worked


@for_each(
    ("said", "is_broken", "message"),
    [
        (None, False, r"TensorFlow sees no GPU; install tensorflow\[and-cuda\]"),
        (
            "CUDA_ERROR_SYSTEM_NOT_READY",
            True,
            "sees no GPU: CUDA_ERROR_SYSTEM_NOT_READY; start NVIDIA's fabric",
        ),
        ("CUDA_ERROR_NO_DEVICE", False, "check `nvidia-smi -L`.*; CUDA_VISIBLE_DEVICES is ''"),
    ],
)
def test_a_gpu_that_tensorflow_does_not_see_has_the_drivers_cause(
    opened, monkeypatch, setting, said, is_broken, message
):
    setting("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr("pytest_gpuperf.devices.keras.driver_failure", lambda: said)
    with pytest.raises(Unavailable, match=message) as caught:
        opened(gpus=0)
    assert is_broken == caught.value.broken


def test_work_on_a_gpu_of_tensorflow_is_seen_by_its_memory(opened):
    gpu, tensorflow = opened()
    tensorflow.bytes = 50
    with gpu.observe() as working:
        tensorflow.reduce_sum(None)
        tensorflow.bytes = 52
    with gpu.observe() as idle:
        pass
    assert (True, 50, 7, 2) == (working.worked, working.live, working.memory, working.held)
    assert (False, 52, 0, 0) == (idle.worked, idle.live, idle.memory, idle.held)


@for_each(
    ("error", "fault"),
    [
        (FakeExhaustedError("OOM when allocating tensor with shape[4398046511104]"), "out_of_memory"),
        (FakeOpError("CUDA error: an illegal memory access was encountered"), "lost"),
        (FakeOpError("Matrix size-incompatible"), None),
        (ValueError("an illegal memory access was encountered"), None),
    ],
)
def test_tensorflows_errors_are_faults_where_they_are_the_devices(opened, error, fault):
    gpu, _ = opened()
    found = gpu.fault(error)
    assert fault == (found and found.kind)
