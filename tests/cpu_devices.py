"""Libraries whose CPU can be several devices: a second one, which is not the library's default."""

from typing import Any

import pytest

from pytest_gpuperf.devices.jax import JaxDevice
from pytest_gpuperf.devices.keras import KerasDevice, _TensorflowDevice


def two_of_jax() -> Any:
    """Return JAX, whose CPU is two devices; call it before JAX is used."""
    jax = pytest.importorskip("jax", reason="CI's second environment has it")
    jax.config.update("jax_num_cpu_devices", 2)
    return jax


def two_of_keras(keras: Any) -> None:
    """Let the library that Keras runs on have two devices of the CPU, where it can; before it is used."""
    if keras.config.backend() == "jax":
        two_of_jax()
    elif keras.config.backend() == "tensorflow":
        import tensorflow

        tensorflow.config.set_logical_device_configuration(
            tensorflow.config.list_physical_devices("CPU")[0],
            [tensorflow.config.LogicalDeviceConfiguration() for _ in range(2)],
        )


def second_of_jax() -> JaxDevice:
    """Return JAX's second device of the CPU."""
    jax = pytest.importorskip("jax")
    return JaxDevice(jax, jax.local_devices(backend="cpu")[1], "a second processor")


def second_of_keras() -> KerasDevice:
    """Return Keras on the second device of the library that it runs on."""
    keras = pytest.importorskip("keras")
    if keras.config.backend() == "torch":
        pytest.skip("torch has one CPU; CI runs these tests on TensorFlow and JAX")
    if keras.config.backend() == "jax":
        return KerasDevice(keras, second_of_jax())
    tensorflow = pytest.importorskip("tensorflow")
    return KerasDevice(keras, _TensorflowDevice(tensorflow, "CPU:1", "a second processor"))
