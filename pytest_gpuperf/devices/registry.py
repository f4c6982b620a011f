"""Our own backends, one row each: whoever needs a list of them, or what sets one apart, reads it here.

A new one is a module of this room and a row. Start-up reads the help text of an option from this module, so
it imports nothing of the room.

PYTEST_DONT_REWRITE: there is no assert here, which pytest would look for at each start without bytecode.
"""

# Annotations stay text, and types are imported for mypy alone: every start of pytest imports this module.
from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Literal

    from pytest_gpuperf.devices.protocol import Backend


class Row:
    """One backend, by the NAME of `--gpuperf-gpu=NAME`: its class is `NameBackend` in the module `name`.

    `selectors` are the devices that a user may choose, as help texts show them: `[:N|:cpu]`. `values` are the
    names of its library among the values of a suite's parameters, `jnp` for one; first its package.
    `namespace` is the module whose functions make its arrays, where that is not its package. `only` is the
    one kind of device that a bare name means; None where the library is on either by default. `emulation` is
    what `NAME:cpu`, which emulates a GPU, is compared with; None where there is no such choice. `packages`
    are the distributions whose versions a report has.
    """

    # To make a NamedTuple or a dataclass takes half a millisecond, at each start of pytest.
    def __init__(
        self,
        name: str,
        *,
        selectors: str = "",
        values: tuple[str, ...] = (),
        namespace: str | None = None,
        only: Literal["cpu", "gpu"] | None = None,
        emulation: Literal["itself", "numpy"] | None = None,
        packages: tuple[str, ...] = (),
    ) -> None:
        self.name, self.selectors, self.packages = name, selectors, packages
        self.values, self.namespace, self.only, self.emulation = values, namespace, only, emulation

    @property
    def is_on_either(self) -> bool:
        """Whether the library puts arrays on a GPU by default where it sees one, else on the CPU."""
        return bool(self.values) and self.only is None

    def backend(self) -> Backend:
        """Return the backend; this imports its module, and no library."""
        module = import_module(f"pytest_gpuperf.devices.{self.name}")
        made: Backend = getattr(module, f"{self.name.capitalize()}Backend")()
        return made


# In the order in which `auto` tries those that are automatic, and in which messages name what a suite has
# imported: Keras stands before what it imports.
REGISTRY = (
    Row(
        "cupy",
        selectors="[:N]",
        values=("cupy", "cp", "cupyx"),
        only="gpu",
        packages=("cupy-cuda12x", "cupy-cuda13x", "cupy-rocm-7-0", "cupy"),
    ),
    Row(
        "sycl",
        selectors="[:gpu|:cpu]",
        values=("dpnp",),
        only="gpu",
        emulation="numpy",
        packages=("dpnp", "dpctl"),
    ),
    Row(
        "keras",
        selectors="[:N|:cpu]",
        values=("keras",),
        namespace="keras.ops",
        emulation="itself",
        packages=("keras", "tensorflow", "tensorflow-cpu"),
    ),
    Row(
        "torch",
        selectors="[:cuda:N|:cpu]",
        values=("torch", "pytorch"),
        emulation="itself",
        packages=("torch",),
    ),
    Row(
        "jax",
        selectors="[:N|:cpu]",
        values=("jax", "jnp"),
        namespace="jax.numpy",
        emulation="itself",
        packages=(
            *("jax", "jaxlib", "jax-cuda12-plugin", "jax-cuda12-pjrt", "jax-cuda13-plugin"),
            *("jax-cuda13-pjrt", "jax-rocm7-plugin", "jax-rocm7-pjrt", "libtpu"),
        ),
    ),
    Row(
        "mlx",
        selectors="[:N|:cpu]",
        values=("mlx", "mx"),
        namespace="mlx.core",
        only="gpu",
        emulation="itself",
        packages=("mlx",),
    ),
    Row("simulated"),
)
EMULATED = frozenset(row.name for row in REGISTRY if row.emulation)
"""The backends of which `NAME:cpu` emulates a GPU."""
