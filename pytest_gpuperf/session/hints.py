"""From a test's source, its marker and its record to hints: what was timed is not what its author meant."""

import ast
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from textwrap import dedent
from types import ModuleType
from typing import Any
from unittest import TestCase

import pytest

from pytest_gpuperf.collection.items import ItemSpec
from pytest_gpuperf.model.measurement import Transfer
from pytest_gpuperf.model.record import Note, Record

_UPLOADS = frozenset({"array", "as_tensor", "asarray", "device_put", "from_numpy", "tensor"})
_PAIR_WITHOUT_EFFECT = (
    "{argument} has no effect: the test runs on both devices itself; remove the argument, or write one test "
    "for each device"
)
_NOTHING_UPLOADED = (
    "transfer={transfer!r} includes no upload: nothing that the workload reads was put on the device with "
    "device.asarray, or by a fixture"
)
_NOT_RETURNED = (
    "the body makes {name}, and neither calls nor returns it: only its setup was timed; return it to time it"
)
_WHOLE_BODY = "the whole body is timed, with {parts}; return the workload as a callable to time that alone"


@dataclass(frozen=True, slots=True)
class Body:
    """What the body of a test does besides its work: `unused` is a callable that it makes for nothing."""

    unused: str | None = None
    asserts: bool = False
    uses_numpy: bool = False
    uploads: bool = False


def annotate(record: Record, spec: ItemSpec, item: pytest.Function) -> Record:
    """Return a record with the hints for its test; unmarked tests of --gpuperf-all get none."""
    hints = () if spec.source == "all" else tuple(_hints(record, spec, item))
    return replace(record, notes=(*record.notes, *hints)) if hints else record


def _hints(record: Record, spec: ItemSpec, item: pytest.Function) -> Iterator[Note]:
    mark = item.get_closest_marker("speedup")
    ignored = [name for name in ("pair", "device") if mark and mark.kwargs.get(name) is not None]
    if ignored and spec.device is None:
        text = _PAIR_WITHOUT_EFFECT.format(argument=" and ".join(ignored))
        yield Note(code="pair_without_effect", text=text)
    if record.demand.transfer != "never" and record.transfer and _uploads_nothing(record.transfer):
        text = _NOTHING_UPLOADED.format(transfer=record.demand.transfer)
        yield Note(code="nothing_uploaded", text=text)
    # gpuperf.both times another function, and a unittest's method may return nothing.
    if record.scope != "body" or spec.calls_both or isinstance(item.instance, TestCase):
        return
    body = read_body(inspect.unwrap(getattr(item.obj, "__func__", item.obj)))
    if body.unused is not None:
        yield Note(code="callable_not_returned", text=_NOT_RETURNED.format(name=body.unused))
        return
    done = {"assertions": body.asserts, "NumPy calls": body.uses_numpy, "uploads": body.uploads}
    if parts := [f"its {name}" for name, is_done in done.items() if is_done]:
        text = _WHOLE_BODY.format(parts=" and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]])))
        yield Note(code="whole_body_timed", text=text)


def _uploads_nothing(copies: Transfer) -> bool:
    """Return whether a workload reads what was made on the device only, or has nothing to copy at all."""
    return copies.h2d is not None and not copies.h2d.bytes and bool(copies.made or not copies.bytes)


@lru_cache(maxsize=256)
def read_body(function: Callable[..., Any]) -> Body:
    """Return what a function's source shows; nothing where there is no source."""
    try:
        (tree,) = ast.parse(dedent(inspect.getsource(function))).body
    except (OSError, TypeError, ValueError, SyntaxError):
        return Body()
    if not isinstance(tree, ast.FunctionDef):
        return Body()
    nodes = [node for statement in tree.body for node in ast.walk(statement)]
    called = [node.func for node in nodes if isinstance(node, ast.Call)]
    checks = [each for each in called if _last_name(each).startswith("assert")]  # as NumPy's own
    of_numpy = [each for each in called if each not in checks and _is_of_numpy(each, function)]
    return Body(
        unused=_unused_callable(nodes),
        asserts=bool(checks) or any(isinstance(node, ast.Assert) for node in nodes),
        uses_numpy=bool(of_numpy),
        uploads=any(_last_name(each) in _UPLOADS for each in called if each not in of_numpy),
    )


def _unused_callable(nodes: list[ast.AST]) -> str | None:
    """Return the name of a function that is made and never read; `a lambda` has none."""
    read = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Lambda):
            return "a lambda"
        made = []
        if isinstance(node, ast.FunctionDef) and not node.decorator_list:
            made = [node.name]
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            made = [target.id for target in node.targets if isinstance(target, ast.Name)]
        if made and read.isdisjoint(made):
            return f"`{made[0]}`"
    return None


def _is_of_numpy(called: ast.expr, function: Callable[..., Any]) -> bool:
    """Return whether a call is one of NumPy's functions, by the module's name for it."""
    while isinstance(called, ast.Attribute):
        called = called.value
    module = function.__globals__.get(called.id) if isinstance(called, ast.Name) else None
    return isinstance(module, ModuleType) and module.__name__.partition(".")[0] == "numpy"


def _last_name(called: ast.expr) -> str:
    """Return the last part of a call's name: `asarray` of `xp.asarray`."""
    if isinstance(called, ast.Attribute):
        return called.attr
    return called.id if isinstance(called, ast.Name) else ""
