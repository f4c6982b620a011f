"""From a test's source, its marker and its record to hints: what was timed is not what its author meant."""

import ast
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from textwrap import dedent
from traceback import walk_tb
from types import ModuleType
from typing import Any, Literal
from unittest import TestCase

import pytest
from msgspec.structs import replace

from pytest_gpuperf.collection.items import ItemSpec
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.model.errors import GpuPerfError, is_outcome
from pytest_gpuperf.model.plain_text import text_of
from pytest_gpuperf.model.record import Note, Record

_MONKEYPATCH = "monkeypatch"
_UPLOADS = frozenset({"array", "as_tensor", "asarray", "device_put", "from_numpy", "tensor"})
_NOTHING_UPLOADED = (
    "transfer={transfer!r} includes no upload: nothing that the workload reads was put on the device with "
    "device.asarray, or by a fixture"
)
_NOT_RETURNED = "the body makes {name}, and neither calls nor returns it; return it to time it"
_HAS_ENDED = "{} has ended when the timed callable runs; what it needs of that belongs in it, or in a fixture"
_PATCHED = (
    "{} in the body: until the test ends, both devices are timed with what the second body set; do it "
    "inside the returned callable, or in a fixture that requests `device`"
)
_SWALLOWED = (
    "a decorator of the test, or a plugin, does not hand on {} the test returns, so its "
    "preparation would be timed; let the decorator return it, or remove the decorator"
)
_IF_NONE = "; if that is None, write no `return`"
_DONATED = (
    "a call that donates an array deletes it: keep the new one, and let the reset of gpuperf.workload(call, "
    "reset=...), of the fixture gpuperf, make the first one anew"
)
_NO_FLOAT64 = "torch has no float64 on Apple's GPUs: use float32 on both devices"
_OF_LIBRARY = (
    "for what {library} computes choose gpuperf_gpu = {library} in the ini file (--gpuperf-gpu={library}:cpu "
    "without a GPU): device.asarray then makes its arrays, and device.native is its device, to be used in "
    "place of the fixture"
)
_NATIVE = "pass device.native, not the fixture: it is the device of {library} itself"
_NOT_HERE = (
    "no such device is here: use device.native in place of a device by name; it is the one of this run, also "
    "where {library} on the CPU emulates a GPU"
)
_NOT_CHOSEN = (
    "no such device is here: choose gpuperf_gpu = {library} in the ini file (--gpuperf-gpu={library}:cpu "
    "without a GPU), and use device.native, of the fixture device, in place of a device by name"
)
_MISSING = {
    "torch": re.compile(
        r"no NVIDIA driver|CUDA driver version is insufficient|No \w+ GPUs are available"
        r"|not compiled with \w+ enabled|not linked with support for \w+ devices"
    ),
    "jax": re.compile(
        r"(Unknown backend|Backend '\w+' failed).*(no platforms that are|Available backends are)"
    ),
}
"""What each library says where it lacks a device."""
_WHOLE_BODY = (
    "the whole body is timed, including set-up, assertions, NumPy calls or uploads in it; return the "
    "workload as a callable to time that alone"
)


@dataclass(frozen=True, slots=True)
class Handed:
    """What a call of a test hands on if its decorators do, and the `problem` where it does not."""

    is_callable: bool
    problem: str

    def require(self, result: Any) -> None:
        """Raise GpuPerfError where a call has not returned it."""
        if result is None or (self.is_callable and not callable(result)):
            raise GpuPerfError(self.problem)


@dataclass(frozen=True, slots=True)
class Body:
    """What the body of a test does besides its work: `unused` is a callable that it makes for nothing.

    `does_more` is whether it asserts, calls NumPy itself or uploads. What it `returns` is known where it ends
    in no other way: always what is surely a callable, or always an expression that is seldom None. `block` is
    the head of a `with` block from which it returns a callable. `patch` are the calls of pytest's monkeypatch
    whose values may differ from device to device.
    """

    unused: str | None = None
    does_more: bool = False
    returns: Literal["a callable", "a value"] | None = None
    block: str | None = None
    patch: str | None = None


def annotate(record: Record, spec: ItemSpec, item: pytest.Function) -> Record:
    """Return a record with the hints for its test; unmarked tests of --gpuperf-all get none."""
    if spec.source == "all":
        return record
    texts, reason, body = [*_hints(record, spec, item)], record.reason, None
    # gpuperf.both times another function, and a unittest's method may return nothing.
    if record.scope == "body" and not (spec.calls_both or isinstance(item.instance, TestCase)):
        body = read_body(inspect.unwrap(_function(item)))
    if body and body.unused is not None:
        texts.append(_NOT_RETURNED.format(name=body.unused))
        if record.status in ("failed", "inconclusive"):  # which this explains, and `pytest -q` shows no notes
            reason = f"{reason}; {texts[-1]}"
    elif body and body.does_more:
        texts.append(_WHOLE_BODY)
    notes = (Note(code="check_the_test", text=text) for text in texts)
    return replace(record, reason=reason, notes=(*record.notes, *notes)) if texts else record


def hint_on_device(error: BaseException, device: TimedDevice | None) -> str | None:
    """Return what to hand torch or JAX where it refuses a device or an array of ours, or lacks a device."""
    text = text_of(str, error)
    if "deleted or donated" in text:
        return _DONATED
    if "MPS framework doesn't support float64" in text:
        return _NO_FLOAT64
    if device is not None and (library := lacks_device(error)) is not None:
        is_chosen = device.backend in (library, "keras")
        return (_NOT_HERE if is_chosen else _NOT_CHOSEN).format(
            library=device.backend if is_chosen else library
        )
    if device is None or not isinstance(error, TypeError | ValueError | AttributeError):
        return None
    if device.backend == "numpy" and "must be Tensor, not numpy.ndarray" in text:
        return _OF_LIBRARY.format(library="torch")
    for library in ("torch", "jax"):
        if _has_asked(error, library, device) or (
            re.search(rf"\b{library}\.\w*[dD]evice", text) and _refuses(text, library, device)
        ):
            return _device_for(library, device)
    return None


def lacks_device(error: BaseException) -> str | None:
    """Return which of torch and JAX says that the device which a test names is not here."""
    text = text_of(str, error)
    return next((library for library, words in _MISSING.items() if words.search(text)), None)


def _device_for(library: str, device: TimedDevice) -> str | None:
    """Return which device to pass to a library instead; None for a group, which has no native device."""
    if device.backend != library:
        return _OF_LIBRARY.format(library=library)
    return _NATIVE.format(library=library) if getattr(device, "native", None) is not None else None


def _has_asked(error: BaseException, library: str, device: TimedDevice) -> bool:
    """Return whether a library asked our device for what one of its own has, as `jax.numpy.ones` does."""
    if not isinstance(error, AttributeError) or error.obj is not device:
        return False
    modules = (frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__))
    return any(name.partition(".")[0] == library for name in modules)


def _refuses(text: str, library: str, device: TimedDevice) -> bool:
    """Return whether the words of an error are about our device, or its native one of another library."""
    if "UploadTracker" in text or "<device " in text:
        return True
    if device.backend in (library, "numpy"):  # NumPy's is that of the one library that is imported
        return False
    return re.search(rf"not .*\b{type(getattr(device, 'native', None)).__name__}\b", text) is not None


def _hints(record: Record, spec: ItemSpec, item: pytest.Function) -> Iterator[str]:
    copies = record.transfer if record.demand.transfer != "never" else None
    # It reads what was made on the device only, or has nothing to copy at all.
    if copies and copies.h2d and not copies.h2d.bytes and (copies.made or not copies.bytes):
        yield _NOTHING_UPLOADED.format(transfer=record.demand.transfer)
    if record.scope == "call" and (ended := _ended_context(item)) is not None:
        yield ended
    if record.scope == "call" and spec.slots:  # each variant has a monkeypatch of its own
        patch = read_body(inspect.unwrap(_function(item))).patch
        yield from [_PATCHED.format(patch)] if patch else []


def of_error(error: BaseException, spec: ItemSpec, item: pytest.Function) -> str | None:
    """Return a hint for an exception of the callable that a test returned, and not of the test's body."""
    if spec.source == "all" or spec.calls_both or is_outcome(error):
        return None
    code = getattr(inspect.unwrap(_function(item)), "__code__", None)
    is_of_body = any(frame.f_code is code for frame, _ in walk_tb(error.__traceback__))
    return None if is_of_body else _ended_context(item)


def handed_on(item: pytest.Function) -> Handed | None:
    """Return what a test's decorators must hand on; None without any, or where the test returns nothing."""
    function = _function(item)
    body = inspect.unwrap(function)
    returns = read_body(body).returns if body is not function else None
    if returns is None:
        return None
    if returns == "a callable":
        return Handed(is_callable=True, problem=_SWALLOWED.format("the callable that"))
    return Handed(is_callable=False, problem=_SWALLOWED.format("what") + _IF_NONE)


def _ended_context(item: pytest.Function) -> str | None:
    """Return which `with` block or decorator has ended when the callable that a test returned runs."""
    function = _function(item)
    body = inspect.unwrap(function)
    if (block := read_body(body).block) is not None:
        return _HAS_ENDED.format(f"`with {block}:`")
    return _HAS_ENDED.format("the test's decorator") if body is not function else None


def _function(item: pytest.Function) -> Callable[..., Any]:
    """Return a test's function; a TestCase's method is replaced while it is measured."""
    is_replaced = isinstance(item.instance, TestCase)
    function: Any = getattr(item.cls, item.originalname) if is_replaced else item.obj
    return getattr(function, "__func__", function)  # type: ignore[no-any-return]  # a function is callable


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
    does_more = any(
        isinstance(node, ast.Assert) or (isinstance(node, ast.Call) and _is_no_work(node.func, function))
        for node in nodes
    )
    made = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    returned = [*_returned(tree.body)]
    blocks = [block for value, block in returned if _is_callable(value, made)]
    returns: Literal["a callable", "a value"] | None = None
    if _ends_with_return(tree.body) and not any(_may_be_none(value) for value, _ in returned):
        returns = "a callable" if len(blocks) == len(returned) else "a value"
    # What is called and kept before a value is returned may be inputs that are made in each call.
    keeps = any(isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) for node in tree.body)
    return Body(
        unused=_unused_callable(nodes),
        does_more=does_more or (keeps and returns == "a value"),
        returns=returns,
        block=next(filter(None, blocks), None),
        patch=_patch(tree),
    )


def _patch(tree: ast.FunctionDef) -> str | None:
    """Return the calls of monkeypatch in a body, not in what it defines, with values of the body's own."""
    nodes = [*_own_nodes(tree.body)]
    arguments = {each.arg for each in ast.walk(tree.args) if isinstance(each, ast.arg)}
    made = {each.id for each in nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    local = (arguments | made) - {_MONKEYPATCH}
    found = []
    for node in nodes:
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith(f"{_MONKEYPATCH}."):
            given = [each for value in (*node.args, *node.keywords) for each in ast.walk(value)]
            if any(isinstance(each, ast.Name) and each.id in local for each in given):
                found.append(f"`{ast.unparse(node.func)}(...)`")
    return " and ".join(dict.fromkeys(found)) or None


def _own_nodes(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes of a body without those of functions and classes that it defines."""
    for node in nodes:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield node
            yield from _own_nodes(ast.iter_child_nodes(node))


def _returned(
    statements: Iterable[ast.AST], block: str | None = None
) -> Iterator[tuple[ast.expr | None, str | None]]:
    """Yield what a function returns, and the head of the outermost `with` block around it."""
    for node in statements:
        if isinstance(node, ast.Return):
            yield node.value, block
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            entered = ", ".join(map(ast.unparse, node.items)) if isinstance(node, ast.With) else None
            yield from _returned(ast.iter_child_nodes(node), block or entered)


def _ends_with_return(statements: list[ast.stmt]) -> bool:
    """Return whether a body cannot fall off its end; what may, as a loop, counts as if it did."""
    match statements[-1:]:
        case [ast.Return()]:
            return True
        case [ast.With(body=body)]:
            return _ends_with_return(body)
        case [ast.If(body=body, orelse=orelse)]:
            return _ends_with_return(body) and _ends_with_return(orelse)
        case [ast.Try(body=body, orelse=orelse, handlers=handlers, finalbody=last)]:
            branches = [orelse or body, *(handler.body for handler in handlers)]
            return _ends_with_return(last) or all(map(_ends_with_return, branches))
    return False


def _may_be_none(value: ast.expr | None) -> bool:
    """Return whether an expression is a constant, or calls what asserts, which returns nothing."""
    if isinstance(value, ast.Call):
        return _name(value.func).startswith("assert")
    return isinstance(value, ast.Constant | None)


def _is_callable(value: ast.expr | None, made: set[str]) -> bool:
    """Return whether an expression is surely callable: a lambda, a function made before, or a partial."""
    if isinstance(value, ast.Call):
        return ast.unparse(value.func) in ("partial", "functools.partial")
    return isinstance(value, ast.Lambda) or (isinstance(value, ast.Name) and value.id in made)


def _unused_callable(nodes: list[ast.AST]) -> str | None:
    """Return the name of a function that is made and never read; `a lambda` has none.

    A class's methods may be called under other names, as `__call__` is; `locals()` reads all of them.
    """
    read = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    if "locals" in read:
        return None
    in_classes = {part for node in nodes if isinstance(node, ast.ClassDef) for part in ast.walk(node)}
    for node in nodes:
        if node in in_classes:
            continue
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


def _is_no_work(called: ast.expr, function: Callable[..., Any]) -> bool:
    """Return whether a call asserts, uploads, or is of NumPy, by the module's name for it."""
    name = _name(called)
    if name.startswith("assert") or name in _UPLOADS:
        return True
    while isinstance(called, ast.Attribute):
        called = called.value
    module = function.__globals__.get(called.id) if isinstance(called, ast.Name) else None
    return isinstance(module, ModuleType) and module.__name__.partition(".")[0] == "numpy"


def _name(called: ast.expr) -> str:
    """Return the last name of what is called; nothing where it has none."""
    return str(getattr(called, "attr", "") or getattr(called, "id", ""))
