"""From `accelerator:NAME` to its backend: a library with an accelerator of its own switched off, and on."""

from pytest_gpuperf.devices.accelerators.base import Accelerator
from pytest_gpuperf.devices.accelerators.cudf_pandas import CudfPandas
from pytest_gpuperf.devices.accelerators.networkx import NetworkX
from pytest_gpuperf.devices.accelerators.polars import Polars
from pytest_gpuperf.devices.accelerators.sklearnex import Sklearnex
from pytest_gpuperf.model.errors import GpuPerfError

__all__ = ["ACCELERATOR", "CHOICES", "LIBRARIES", "chosen_accelerator"]

ACCELERATOR = "accelerator"
"""The name before that of the library in `--gpuperf-gpu=accelerator:NAME`."""

_ACCELERATORS: dict[str, type[Accelerator]] = {
    "cudf.pandas": CudfPandas,
    "networkx": NetworkX,
    "polars": Polars,
    "sklearnex": Sklearnex,
}

LIBRARIES = frozenset(_ACCELERATORS)
"""The libraries that have an accelerator here."""

CHOICES = (
    "accelerator:cudf.pandas",
    "accelerator:networkx:cugraph",
    "accelerator:networkx:parallel",
    "accelerator:polars",
    "accelerator:polars:streaming",
    "accelerator:sklearnex",
)
"""Each accelerator in full; networkx takes other backends, and sklearnex a device, in the same place."""


def chosen_accelerator(choice: str) -> Accelerator | None:
    """Return the backend of `accelerator:NAME`, None for any other choice; this imports no library.

    Raises GpuPerfError, with the valid names, for one that no machine has.
    """
    kind, _, name = choice.partition(":")
    if kind != ACCELERATOR:
        return None
    library, _, how = name.partition(":")
    if library not in _ACCELERATORS:
        names = ", ".join(f"{ACCELERATOR}:{each}" for each in _ACCELERATORS)
        raise GpuPerfError(f"there is no accelerator {name!r}; the accelerators are {names}")
    return _ACCELERATORS[library](choice, how)
