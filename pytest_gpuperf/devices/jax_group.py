"""Several JAX devices as one: arrays are sharded over a mesh, and XLA divides the work."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.group import DeviceGroup, Parts

AXIS = "devices"
"""The name of the mesh's only axis."""


class JaxGroup(DeviceGroup):
    """JAX devices in a `mesh` of one axis, `devices`; `jax.jit` runs where its inputs are."""

    all: tuple[Any, ...]  # of JaxDevice, whose module imports this one

    def __init__(self, jax: Any, devices: Sequence[Any]) -> None:
        super().__init__(devices)
        self.xp = jax.numpy
        self._jax = jax
        self._devices = {device.native for device in devices}
        self.mesh = jax.sharding.Mesh(np.array([device.native for device in devices]), (AXIS,))

    def asarray(self, host: Any, *, shard: int | None = None) -> Any:
        """Return one array on all devices, divided along the axis `shard`, or copied to each without it.

        GpuPerfError where the axis does not exist, or the devices cannot share it equally.
        """
        spec: list[str | None] = []
        if shard is not None:
            axis = self.divisible_axis(host, shard) % np.ndim(host)
            spec = [*[None] * axis, AXIS]
        sharding = self._jax.sharding.NamedSharding(self.mesh, self._jax.sharding.PartitionSpec(*spec))
        return self._jax.device_put(np.array(host), sharding).block_until_ready()

    def asnumpy(self, array: Any) -> Any:
        """Copy to the host once the array is ready; of `Parts` all, along a new first axis."""
        if isinstance(array, Parts):
            return super().asnumpy(array)
        host = np.array(array)
        return host.astype(np.float32) if host.dtype.kind == "V" else host

    def holds(self, value: Any) -> bool:
        """Return whether `value` is an array on some of these devices and on no other."""
        if isinstance(value, Parts):
            return True
        return isinstance(value, self._jax.Array) and value.devices() <= self._devices

    def is_immutable(self, array: Any) -> bool:  # noqa: ARG002 - the capability passes it
        """Return True: calls make new arrays, and write none."""
        return True

    def idle(self, arrays: Iterable[Any]) -> list[int]:
        """Return the numbers of the devices that hold no part of these arrays."""
        busy = set().union(*(array.devices() for array in arrays))
        return [number for number, device in enumerate(self.all) if device.native not in busy]

    def on_first(self, arrays: Iterable[Any]) -> list[Any]:
        """Return what the first device holds of these arrays: its parts of them, or its copies."""
        first = self.mesh.devices.flat[0]
        return [shard.data for array in arrays for shard in array.addressable_shards if shard.device == first]

    def wait(self, result: Any) -> None:
        """Wait for the arrays of a result; where it has other things in it, for each device's work.

        What follows the work is submitted to all devices first, so that they are waited for at one time.
        """
        if result is not None:
            self.all[0].wait(result)
        else:
            for mark in [device.follow() for device in self.all]:
                mark.block_until_ready()

    def unfinished(self) -> list[Any]:
        """Return the live arrays that are not ready, on any device."""
        return capabilities.unfinished(self.all[0])
