"""From two results to whether they are the same answer."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np

from pytest_gpuperf.model import Demand, Parity

__all__ = ["Leaf", "compare", "leaves", "snapshot"]

_UNCHECKED = "parity was turned off on the marker"


class Leaf(NamedTuple):
    """One value of a result and where it stands: `result[0]['x']`."""

    path: str
    value: Any


@dataclass(frozen=True, slots=True)
class _Mismatch:
    error: float | None
    reason: str


def leaves(result: Any, path: str = "result") -> Iterator[Leaf]:
    """Yield the values in tuples, lists, dicts and dataclasses, in order; None is no value."""
    if isinstance(result, Mapping):
        for key, part in result.items():
            yield from leaves(part, f"{path}[{key!r}]")
    elif isinstance(result, list | tuple):
        for index, part in enumerate(result):
            yield from leaves(part, f"{path}[{index}]")
    elif is_dataclass(result) and not isinstance(result, type):
        for part in fields(result):
            yield from leaves(getattr(result, part.name), f"{path}.{part.name}")
    elif result is not None:
        yield Leaf(path, result)


def snapshot(result: Any, holds: Callable[[Any], bool], asnumpy: Callable[[Any], Any]) -> list[Leaf]:
    """Return the result's values on the host: arrays of the device copied, numbers as 0-d arrays."""
    return [Leaf(path, _to_host(value, holds, asnumpy)) for path, value in leaves(result)]


def compare(cpu: list[Leaf], gpu: list[Leaf], demand: Demand) -> Parity:
    """Return whether the GPU's values are the CPU's.

    Without rtol and atol: exact for integers, booleans and text; for floating-point and complex arrays
    ||gpu - cpu|| <= sqrt(eps) * max(||gpu||, ||cpu||), 2-norms, eps of the coarser of the two dtypes: half
    of the digits, the rule of Julia's `isapprox`. With either of them elementwise
    |gpu - cpu| <= atol + rtol * |cpu|. Shapes, kinds of dtype, NaN and infinities must match. `error` is
    the largest relative norm error, or elementwise error, seen.
    """
    if not demand.parity:
        return Parity(agreed=None, error=None, tolerance=demand.rtol, reason=_UNCHECKED)
    if not cpu and not gpu:
        reason = "the workload returns nothing that could be compared"
        return Parity(agreed=None, error=None, tolerance=demand.rtol, reason=reason)
    if [leaf.path for leaf in cpu] != [leaf.path for leaf in gpu]:
        reason = f"the CPU returned {_paths(cpu)}, the GPU {_paths(gpu)}"
        return Parity(agreed=False, error=None, tolerance=demand.rtol, reason=reason)
    return _compare_leaves(cpu, gpu, demand)


def _compare_leaves(cpu: list[Leaf], gpu: list[Leaf], demand: Demand) -> Parity:
    worst, widest, unknown = 0.0, demand.rtol, None
    for ours, theirs in zip(cpu, gpu, strict=True):
        if not isinstance(ours.value, np.ndarray) or not isinstance(theirs.value, np.ndarray):
            unknown = unknown or f"{ours.path} is a {type(ours.value).__name__}, which cannot be compared"
            continue
        if demand.rtol is None and demand.atol is None and ours.value.dtype.kind in "fc":
            widest = max(widest or 0.0, _tolerance(ours.value, theirs.value))
        error = _difference(ours.value, theirs.value, demand)
        if isinstance(error, _Mismatch):
            reason = f"{ours.path}: {error.reason}"
            return Parity(agreed=False, error=error.error, tolerance=widest, reason=reason)
        worst = max(worst, error)
    return Parity(agreed=None if unknown else True, error=worst, tolerance=widest, reason=unknown)


def _difference(cpu: Any, gpu: Any, demand: Demand) -> float | _Mismatch:
    """Return the error between two arrays, or what is wrong."""
    if cpu.shape != gpu.shape:
        return _Mismatch(None, f"shape {cpu.shape} on the CPU, {gpu.shape} on the GPU")
    if cpu.dtype.kind != gpu.dtype.kind and {cpu.dtype.kind, gpu.dtype.kind} != {"i", "u"}:
        return _Mismatch(None, f"dtype {cpu.dtype} on the CPU, {gpu.dtype} on the GPU")
    if cpu.dtype.kind not in "fc":
        wrong = int(np.count_nonzero(cpu != gpu))
        return _Mismatch(None, f"{wrong} of {cpu.size} values differ") if wrong else 0.0
    finite = np.isfinite(cpu)
    if not np.array_equal(np.isnan(cpu), np.isnan(gpu)):
        return _Mismatch(None, "NaN in different places")
    if not np.array_equal(cpu[~finite & ~np.isnan(cpu)], gpu[~np.isfinite(gpu) & ~np.isnan(gpu)]):
        return _Mismatch(None, "infinities differ")
    wide = np.complex128 if cpu.dtype.kind == "c" else np.float64
    return _distance(cpu[finite].astype(wide), gpu[finite].astype(wide), _tolerance(cpu, gpu), demand)


def _distance(cpu: Any, gpu: Any, tolerance: float, demand: Demand) -> float | _Mismatch:
    """Return the error between finite values, or the one that is too large."""
    gap = np.abs(gpu - cpu)
    if demand.rtol is not None or demand.atol is not None:
        excess = gap - ((demand.atol or 0.0) + (demand.rtol or 0.0) * np.abs(cpu))
        wrong = int(np.count_nonzero(excess > 0))
        largest = float(gap.max(initial=0.0))
        reason = f"{wrong} of {gap.size} values differ beyond rtol and atol, by up to {largest:.2g}"
        return _Mismatch(largest, reason) if wrong else largest
    scale = max(float(np.linalg.norm(cpu)), float(np.linalg.norm(gpu)))
    error = float(np.linalg.norm(gap)) / scale if scale else 0.0
    reason = f"relative error {error:.2g}, tolerance {tolerance:.2g}"
    return _Mismatch(error, reason) if error > tolerance else error


def _tolerance(cpu: Any, gpu: Any) -> float:
    """Return the square root of the coarser machine epsilon."""
    kinds = [array.dtype for array in (cpu, gpu) if array.dtype.kind in "fc"]
    return float(max(np.finfo(dtype).eps for dtype in kinds) ** 0.5)


def _to_host(value: Any, holds: Callable[[Any], bool], asnumpy: Callable[[Any], Any]) -> Any:
    if holds(value):
        return asnumpy(value)
    if isinstance(value, np.ndarray | np.generic | bool | int | float | complex | str):
        return np.array(value)
    return value


def _paths(values: list[Leaf]) -> str:
    return ", ".join(leaf.path for leaf in values) or "nothing"
