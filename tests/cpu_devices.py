"""Libraries whose CPU can be several devices: a second one, which is not the library's default."""

import pytest


def two_of_jax():
    """Return JAX, whose CPU is two devices; call it before JAX is used."""
    jax = pytest.importorskip("jax", reason="CI's second environment has it")
    jax.config.update("jax_num_cpu_devices", 2)
    return jax


def two_of_keras(keras):
    """Let the library that Keras runs on have two devices of the CPU, where it can; before it is used."""
    if keras.config.backend() == "jax":
        two_of_jax()
    elif keras.config.backend() == "tensorflow":
        import tensorflow

        tensorflow.config.set_logical_device_configuration(
            tensorflow.config.list_physical_devices("CPU")[0],
            [tensorflow.config.LogicalDeviceConfiguration() for _ in range(2)],
        )
