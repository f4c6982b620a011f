"""torch and JAX where a test uses them, and the devices of the run are another library's."""

import sys
from typing import Any


def library_of(value: Any) -> str | None:
    """Return which library made an array, of those that tests use beside `xp`: "torch", "jax", else None."""
    root = type(value).__module__.partition(".")[0]
    if root == "torch" and hasattr(value, "detach"):
        return "torch"
    return "jax" if root in ("jax", "jaxlib") and hasattr(value, "block_until_ready") else None


def sees_gpu(library: str) -> bool:
    """Return whether torch or JAX, of which a test has made arrays, sees a GPU; this starts no context."""
    module = sys.modules[library]
    if library == "jax":
        return bool(module.default_backend() != "cpu")
    return bool(getattr(module, "accelerator", module.cuda).is_available())
