"""What XLA compiles while a test runs: arrays that became constants, and programs that read no argument.

JAX hands the arrays that a function closes over to XLA as constants, and XLA computes while it compiles what
depends on constants alone (docs.jax.dev, internals/constants; xla/hlo, HloConstantFolding).
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from pytest_gpuperf.devices.observed_warnings import observed_warnings
from pytest_gpuperf.devices.protocol import Observation

_OPTION, _LEAST = "jax_captured_constants_warn_bytes", 4096  # bytes: smaller tables are nobody's work
_CAPTURED = re.compile(r"A large amount of constants were captured during lowering \((\S+) total\)")
_NO_ARGUMENT = re.compile(r"HloModule (?:jit_)?([^,\s]+),.*entry_computation_layout=\{\(\)->")
# Of jnp.zeros and jnp.arange, called without jit: they close over nothing.
_EAGER = ("broadcast_in_dim", "iota")
_COMPILED = "/jax/core/compile/backend_compile_duration"


@contextmanager
def watched(jax: Any, device: Any, observation: Observation) -> Iterator[None]:
    """Note in an observation what is compiled meanwhile, of functions that close over arrays."""
    live_executables: Any = getattr(device.client, "live_executables", list)
    known = live_executables()
    least = getattr(jax.config, _OPTION, None)
    with observed_warnings(_CAPTURED) as captured:
        try:
            if least is not None:
                jax.config.update(_OPTION, _LEAST)
            yield
        finally:
            if least is not None:
                jax.config.update(_OPTION, least)
    ids = set(map(id, known))
    programs: list[str] = []
    with suppress(Exception):  # a plugin of PJRT need not show its programs
        new = [executable for executable in live_executables() if id(executable) not in ids]
        programs = [module.to_string() for executable in new for module in executable.hlo_modules()]
    if captured:
        observation.captured = ", ".join(found[1] for found in captured)
        observation.constant = any(map(_reads_nothing, programs))


def is_constant(jax: Any, function: Any) -> bool:
    """Return whether a function of `jax.jit`, which was called, takes no arguments and closes over arrays."""
    try:
        if not isinstance(function, jax.stages.Wrapped):
            return False
        captured = function.trace().jaxpr.consts
    except Exception:  # noqa: BLE001 - it takes arguments, or is a user's that traces as it likes
        return False
    return sum(getattr(array, "nbytes", 0) for array in captured) >= _LEAST


@cache
def compilations(jax: Any) -> list[str]:
    """Return a list that grows by one with each program that JAX compiles from now on."""
    found: list[str] = []

    def note(event: str, _: float, **__: Any) -> None:
        if event == _COMPILED:
            found.append(event)

    jax.monitoring.register_event_duration_secs_listener(note)
    return found


def _reads_nothing(program: str) -> bool:
    """Return whether a program reads no argument."""
    found = _NO_ARGUMENT.match(program)
    return found is not None and found[1] not in _EAGER
