"""Names that are not ours, and what they are called here: older ones, and those that users bring along."""

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


def remedy(kind: str, name: str, otherwise: str) -> str:
    """Return what to write in the place of a name that is not ours; `otherwise` for an unknown one."""
    right = OTHER_NAMES[kind].get(name)
    return otherwise if right is None else f"use {right}"
