"""torch and JAX where a test uses them itself, and the devices of the run are another library's."""

import sys
from typing import Any
from weakref import WeakKeyDictionary

from pytest_gpuperf.devices.protocol import Device
from pytest_gpuperf.model import ask

_LIBRARIES = WeakKeyDictionary[type, str]()  # of classes; copies in a timed loop ask for each array


def library_of(value: Any) -> str | None:
    """Return which library made an array, of those that tests use beside `xp`: "torch", "jax", else None.

    A test's own subclass of a tensor is one of torch's.
    """
    kind = type(value)
    found: str | None = ask.answer(_LIBRARIES.get, kind)  # a class may have no hash
    if found is None:
        found = _library_of(kind)
        ask.answer(_LIBRARIES.__setitem__, kind, found)
    return found or None


def _library_of(kind: type) -> str:
    roots = {ask.package(base) for base in kind.__mro__}
    if "torch" in roots and ask.has(kind, "detach"):
        return "torch"
    return "jax" if roots & {"jax", "jaxlib"} and ask.has(kind, "block_until_ready") else ""


def other_library(value: Any, device: Device) -> str | None:
    """Return which library made an array, where it is not the device's; Keras' is the one that it runs on."""
    library = library_of(value)
    return None if device.backend in (library, "keras") else library


def host_copy(tensor: Any) -> Any:
    """Return a tensor's values as a new NumPy array; those of a dtype that NumPy lacks, as float32.

    Raises TypeError for a tensor that has no dense form, such as a nested tensor.
    """
    torch, host = sys.modules["torch"], tensor.detach().to("cpu", copy=True).resolve_conj().resolve_neg()
    try:
        return host.numpy()
    except RuntimeError as error:  # not of the device: the copy is on the host
        if type(host) is torch.Tensor:
            raise TypeError(f"NumPy has no array like this tensor: {error}") from error
        # A subclass whose numbers are in other tensors
        plain = torch.empty(host.shape, dtype=host.dtype)
        plain.copy_(host)
        return host_copy(plain)
    except TypeError:  # bfloat16, for one
        return host.to(torch.complex64 if host.is_complex() else torch.float32).numpy()


def native_cpu() -> Any:
    """Return torch's or JAX's object for the CPU, if one of the two alone is imported, else None."""
    torch, jax = sys.modules.get("torch"), sys.modules.get("jax")
    if torch is not None and jax is None:
        return torch.device("cpu")
    return jax.local_devices(backend="cpu")[0] if jax is not None and torch is None else None
