"""Whether a call of JAX multiplies matrices or convolves, from the primitives that JAX evaluates in it.

`jax.make_jaxpr` would leave tracers in whatever the call writes to, and what XLA compiles is seen only once.
So the call runs as any other, in a trace that evaluates as JAX's own does. The trace is in the keys of JAX's
fast path, which is then not taken: each function of `jax.jit` shows the jaxpr that JAX has kept of it, and
nothing is traced or compiled again.
"""

import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from importlib import import_module
from typing import Any

from pytest_gpuperf.devices.library import any_product, noted_calls

_PRODUCT = re.compile(r"dot|matmul|conv_general")  # dot_general, ragged_dot_general, conv_general_dilated
# Modules that define what XLA itself computes: not those of kernels (Pallas, FFI), callbacks and exports.
_OWN = re.compile(
    r"jax\._src\.(ad_\w+|core|custom_batching|custom_derivatives|debugging|dispatch|hijax|interpreters|lax|pjit"
    r"|prng|random|shard_map|state)\b"
)
_EXPANDED = re.compile(r"jax\._src\.lax\.(fft|linalg)$")  # XLA makes products of these on a TPU


def runs_products(jax: Any, call: Callable[[], Any], exact: Collection[str], platform: str) -> bool | None:
    """Return whether a call multiplies matrices or convolves in a precision whose name is not an `exact` one.

    None where it runs what is not seen or not known: a kernel of one's own, or a function that was compiled
    ahead of time.
    """
    core: Any = import_module("jax._src.core")
    own = _primitives(core, _OWN)
    if platform == "tpu":
        own -= _primitives(core, _EXPANDED)
    found: list[bool | None] = []

    class Noting(core.EvalTrace):  # type: ignore[misc]  # JAX is untyped
        def process_primitive(self, primitive: Any, *given: Any) -> Any:
            found.extend(_are_products(primitive, given[-1], own, exact))
            return super().process_primitive(primitive, *given)

        def process_custom_jvp_call(self, *given: Any, **options: Any) -> Any:
            with core.set_current_trace(self):  # it calls the function itself
                return super().process_custom_jvp_call(*given, **options)

        def process_custom_vjp_call(self, *given: Any, **options: Any) -> Any:
            with core.set_current_trace(self):
                return super().process_custom_vjp_call(*given, **options)

        def process_shard_map(self, *given: Any, **options: Any) -> Any:
            found.append(None)  # its function runs in a trace of its own
            return super().process_shard_map(*given, **options)

    def note() -> None:
        found.append(None)

    with core.set_current_trace(Noting()), noted_calls(jax.stages.Compiled, "__call__", note):
        call()
    return any_product(found)


def _primitives(core: Any, modules: re.Pattern[str]) -> set[Any]:
    matching = [vars(module) for name, module in [*sys.modules.items()] if modules.match(name)]
    return {each for names in matching for each in names.values() if isinstance(each, core.Primitive)}


def _are_products(
    primitive: Any, params: dict[str, Any], own: Collection[Any], exact: Collection[str]
) -> Iterator[bool | None]:
    """Yield whether a primitive, and each one in the jaxprs that it runs, is a product; None if unknown."""
    if _PRODUCT.search(primitive.name):
        precision = params.get("precision")
        factors = precision if isinstance(precision, tuple) else (precision,)
        yield not all(getattr(factor, "name", None) in exact for factor in factors)
    else:
        yield False if primitive in own else None
    for jaxpr in _jaxprs(params.values()):
        for equation in jaxpr.eqns:
            yield from _are_products(equation.primitive, equation.params, own, exact)


def _jaxprs(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, tuple | list):
            yield from _jaxprs(value)
        elif hasattr(value, "eqns"):
            yield value
