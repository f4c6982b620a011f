"""Modes that round float32 more than its dtype says: how far, and which CUDA devices may have TF32."""

from os import environ

BFLOAT16_EPS, TF32_EPS = 2.0**-7, 2.0**-10  # the relative spacing to which such a mode rounds float32
_AMPERE = 8.0  # the first compute capability with TF32


def may_use_tf32(compute_capability: float) -> bool:
    """Return whether a device has TF32, and NVIDIA's own variable does not forbid it."""
    return compute_capability >= _AMPERE and environ.get("NVIDIA_TF32_OVERRIDE") != "0"
