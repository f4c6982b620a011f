"""From a name that is not ours to the right one: older names, those that users bring along, misspelt ones."""

from collections.abc import Iterable

OTHER_NAMES: dict[str, dict[str, str]] = {
    "argument": {
        "parity": "check",
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
        "side": "default_device",
        "report": "json",
        "save": "json",
        "compare": "baseline",
        "report_only": "fail=nothing",
        "inconclusive": "fail=doubt",
        "allow_no_gpu": "allow=no-gpu",
        "allow_missing": "allow=missing",
    },
    "command": {
        "html": "gpuperf show REPORT --html PATH",
        "export": "gpuperf show REPORT --export FORMAT:PATH",
        "badge": "gpuperf show REPORT --export svg:PATH, or the badge of the CI's workflow",
        "diff": "gpuperf compare BASE NEW",
        "update": "gpuperf baseline update BASE REPORT",
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
"""By what they name. Nothing was released with the older ones."""


def right_name(kind: str, name: str, ours: Iterable[str]) -> str | None:
    """Return what is written in the place of a name that is not ours: the nearest of ours, if any is near."""
    from difflib import get_close_matches  # which a run without a mistake does not need

    return OTHER_NAMES[kind].get(name) or next(iter(get_close_matches(name, [*ours], n=1)), None)


def remedy(kind: str, name: str, ours: Iterable[str], otherwise: str) -> str:
    """Return what to write in the place of a name that is not ours; `otherwise` for one that is like none."""
    right = right_name(kind, name, ours)
    return otherwise if right is None else f"use {right}"
