"""What XLA compiles while a test runs: arrays that became constants, and programs that read no argument.

JAX hands the arrays that a function closes over to XLA as constants, and XLA computes while it compiles what
depends on constants alone (docs.jax.dev, internals/constants; xla/hlo, HloConstantFolding).
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from inspect import signature
from typing import Any

from pytest_gpuperf.devices.library import observed_warnings
from pytest_gpuperf.devices.protocol import Activity, Watched
from pytest_gpuperf.devices.python_calls import profiled
from pytest_gpuperf.model import ask

_OPTION, _LEAST = "jax_captured_constants_warn_bytes", 4096  # bytes: smaller tables are nobody's work
_CAPTURED = re.compile(r"A large amount of constants were captured during lowering \((\S+) total\)")
_NO_ARGUMENT = re.compile(r"HloModule .*entry_computation_layout=\{\(\)->")
_COPIES = ("stage", "copy", "_copy")  # programs that `jnp.asarray` and `jnp.copy` run
# Where its Python dispatches a program, and copies from and to the host.
_DISPATCH = ("jax._src.pjit", "cache_miss")
_TRANSFERS = (("jax._src.api", "device_put"), ("jax._src.array", "__array__"), ("jax._src.array", "_value"))
_COMPILED = "/jax/core/compile/backend_compile_duration"


@contextmanager
def watched(jax: Any, device: Any) -> Iterator[Watched]:
    """Watch what is compiled meanwhile, of functions that close over arrays."""
    seen = Watched()
    live_executables: Any = getattr(device.client, "live_executables", list)
    known = live_executables()
    least = getattr(jax.config, _OPTION, None)
    with observed_warnings(_CAPTURED) as captured:
        try:
            if least is not None:
                jax.config.update(_OPTION, _LEAST)
            yield seen
        finally:
            if least is not None:
                jax.config.update(_OPTION, least)
    if not captured:
        return
    seen.captured = ", ".join(found[1] for found in captured)
    with suppress(Exception):  # a plugin of PJRT need not show its programs
        ids = set(map(id, known))
        new = [executable for executable in live_executables() if id(executable) not in ids]
        programs = [module.to_string() for executable in new for module in executable.hlo_modules()]
        named = {_name_of(program): program for program in programs}
        # Those of single operations, as of `a + b`, are no functions of the user.
        own = {
            name: program
            for name, program in named.items()
            if not hasattr(jax.lax, name) and not hasattr(jax.numpy, name)
        }
        if all(map(_NO_ARGUMENT.match, own.values())):
            seen.constant = tuple(own)


def is_constant(jax: Any, function: Any) -> bool | None:
    """Return True for a compiled function without parameters that closes over arrays, False for another one.

    Return None for an object that `jax.jit` did not make. The function is traced; JAX caches the trace of an
    earlier call.
    """
    try:
        if not (ask.has(type(function), "trace") and ask.is_a(function, jax.stages.Wrapped)):
            return None  # the class is asked, too: a mock has every attribute
        if signature(function).parameters:
            return False
        captured = function.trace().jaxpr.consts
    except Exception:  # noqa: BLE001 - a user's function, which traces as it likes
        return False
    return sum(getattr(array, "nbytes", 0) for array in captured) >= _LEAST


def activity(call: Callable[[], Any], besides: Any) -> Activity | None:
    """Return how many programs a call runs in this thread; None where this version of JAX cannot tell.

    The program `besides` is none: it is what waits for the others.

    JAX has a hook after each program that its dispatch in C++ runs, for `jax_debug_nans`. Of the others its
    dispatch in Python is seen: the first call of each, and those with callbacks.
    """
    try:
        from jax._src.api import _post_hook_state as hook
    except ImportError:  # it has moved before
        return None
    found = Counter[str]()

    def count(program: Any, *_: Any) -> None:
        if program is besides:
            return
        found["copied" if getattr(program, "__name__", None) in _COPIES else "computed"] += 1

    def count_in_python(frame: Any, function: Any) -> None:
        place = (frame.f_globals.get("__name__"), frame.f_code.co_name) if function is None else None
        found["computed"] += place == _DISPATCH
        found["copied"] += place in _TRANSFERS

    before = hook.swap_local(count)
    try:
        with profiled(count_in_python):
            call()
    finally:
        hook.set_local(before)
    return Activity(computed=found["computed"], copied=found["copied"], is_complete=True)


@cache
def compilations(jax: Any) -> list[str]:
    """Return a list that grows by one with each program that JAX compiles from now on."""
    found: list[str] = []

    def note(event: str, _: float, **__: Any) -> None:
        if event == _COMPILED:
            found.append(event)

    jax.monitoring.register_event_duration_secs_listener(note)
    return found


def _name_of(program: str) -> str:
    """Return the name of a program's function: `_lambda`."""
    return program.partition(",")[0].removeprefix("HloModule jit_")
