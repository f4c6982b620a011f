"""Arrays and a namespace whose operations are launches on a simulated device; NumPy computes them."""

from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pytest_gpuperf.devices.simulated import SimulatedDevice

__all__ = ["Namespace", "SimulatedArray", "plain", "plain_all"]


class SimulatedArray(np.ndarray[Any, Any]):
    """A NumPy array that lives on a simulated device: its operations are launches there."""

    home: "SimulatedDevice"

    def __array_finalize__(self, source: Any) -> None:
        if isinstance(source, SimulatedArray):
            self.home = source.home

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        outputs = options.get("out", ())
        if outputs:
            options["out"] = tuple(plain(output) for output in outputs)
        result = getattr(ufunc, method)(*map(plain, inputs), **options)
        self.home.launch_for(result)
        return outputs[0] if outputs else self.home.place(result)

    def __array_function__(self, function: Any, _: Any, inputs: Any, options: Any) -> Any:
        return self.home.run(function, inputs, options)

    def copy(self, *inputs: Any, **options: Any) -> Any:
        """Copy on the device, as one launch."""
        return self._made(plain(self).copy(*inputs, **options))

    def astype(self, *inputs: Any, **options: Any) -> Any:
        """Convert on the device, as one launch."""
        return self._made(plain(self).astype(*inputs, **options))

    def _made(self, values: Any) -> Any:
        self.home.launch_for(values)
        return self.home.place(values)

    def sort(self, *inputs: Any, **options: Any) -> None:
        """Sort in place, as one launch."""
        plain(self).sort(*inputs, **options)
        self.home.launch_for(self)

    def item(self, *place: Any) -> Any:
        """Return a value to the host, which waits for the device."""
        self.home.synchronize()
        return plain(self).item(*place)

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())


class Namespace:
    """NumPy, or a part of it, whose functions run on a simulated device."""

    def __init__(self, module: ModuleType, device: "SimulatedDevice") -> None:
        self._module = module
        self._device = device

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        if isinstance(value, ModuleType):
            return Namespace(value, self._device)
        if not callable(value) or isinstance(value, type):
            return value
        return lambda *inputs, **options: self._device.run(value, inputs, options)


def plain(value: Any) -> Any:
    """Return a simulated array as the NumPy array that it is."""
    return value.view(np.ndarray) if isinstance(value, SimulatedArray) else value


def plain_all(values: Any) -> Any:
    """Return arguments with every simulated array plain, in tuples, lists and dicts too."""
    if isinstance(values, dict):
        return {name: plain_all(value) for name, value in values.items()}
    if isinstance(values, tuple | list):
        return type(values)(plain_all(value) for value in values)
    return plain(values)
