"""From a name that is not ours to the right one: those that users bring along, misspelt ones."""

from collections.abc import Iterable

OTHER_NAMES: dict[str, dict[str, str]] = {
    "argument": {
        "minimum": "min",
        "min_speedup": "min",
        "maximum": "max",
        "timeout": "max_time",
        "rel": "rtol",
        "abs": "atol",
    },
    "option": {
        "device": "gpu",
        "backend": "gpu",
        "timeout": "max_time",
        "report": "json",
        "save": "json",
        "compare": "baseline",
    },
    "command": {
        "export": "gpuperf show REPORT --export FORMAT:PATH",
        "diff": "gpuperf compare BASE NEW",
    },
    "backend": {
        "cuda": "cupy, torch or jax",
        "rocm": "cupy, torch or jax",
        "mps": "torch or mlx",
        "xpu": "torch or sycl",
        "gpu": "auto",
        "cpu": "torch:cpu, jax:cpu or standin:MODULE",
        "pytorch": "torch",
        "tensorflow": "keras",
    },
    "metric": {
        "gpu": "gpu_time",
        "cpu": "cpu_time",
        "always": "with_copies",
        "threshold": "at_most in @pytest.mark.offload_threshold",
    },
}
"""By what they name: words of other plugins, of libraries, of vendors, and of our own markers."""


def right_name(kind: str, name: str, ours: Iterable[str]) -> str | None:
    """Return what is written in the place of a name that is not ours: the nearest of ours, if any is near."""
    from difflib import get_close_matches  # which a run without a mistake does not need

    return OTHER_NAMES[kind].get(name) or next(iter(get_close_matches(name, [*ours], n=1)), None)


def remedy(kind: str, name: str, ours: Iterable[str], otherwise: str) -> str:
    """Return what to write in the place of a name that is not ours; `otherwise` for one that is like none."""
    right = right_name(kind, name, ours)
    return otherwise if right is None else f"use {right}"
