"""From two results to whether they are the same answer."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np

from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import Parity
from pytest_gpuperf.model.units import first_few

__all__ = ["Leaf", "compare", "leaves", "snapshot", "strange"]

_LARGEST = 1.7e308  # an error beyond every float is written as nearly the largest
_WIDE = {"c": np.complex128, "f": np.float64, "i": np.longdouble, "u": np.longdouble}
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


def strange(answer: Iterable[Leaf]) -> Iterator[Leaf]:
    """Yield the values that can be neither compared nor copied."""
    return (leaf for leaf in answer if not isinstance(leaf.value, np.ndarray))


def compare(cpu: list[Leaf], gpu: list[Leaf], demand: Demand) -> Parity:
    """Return whether the GPU's values are the CPU's.

    Exact for booleans and text, and without rtol and atol for integers; for floating-point and complex arrays
    ||gpu - cpu|| <= sqrt(eps) * max(||gpu||, ||cpu||), 2-norms, eps of the coarser of the two dtypes: half
    of the digits, the rule of Julia's `isapprox`. With rtol or atol elementwise
    |gpu - cpu| <= atol + rtol * |cpu|. Shapes, kinds of dtype, NaN and infinities must match. `error` is
    the largest relative norm error, or elementwise error, seen.
    """
    if not demand.parity:
        return Parity(agreed=None, error=None, tolerance=demand.rtol, reason=_UNCHECKED)
    if not cpu and not gpu:
        reason = "the workload returns nothing that could be compared"
        return Parity(agreed=None, error=None, tolerance=demand.rtol, reason=reason)
    here, there = dict(cpu), dict(gpu)
    if here.keys() != there.keys():
        only = {"CPU": here.keys() - there.keys(), "GPU": there.keys() - here.keys()}
        reason = "; ".join(
            f"only the {side} returned {first_few(sorted(paths))}" for side, paths in only.items() if paths
        )
        return Parity(agreed=False, error=None, tolerance=demand.rtol, reason=reason)
    return _compare_leaves(here, there, demand)


def _compare_leaves(cpu: dict[str, Any], gpu: dict[str, Any], demand: Demand) -> Parity:
    worst, widest, unknown = 0.0, demand.rtol, None
    for path, ours in cpu.items():
        theirs = gpu[path]
        strange = [value for value in (ours, theirs) if not isinstance(value, np.ndarray)]
        if strange:
            unknown = unknown or f"{path} is a {type(strange[0]).__name__}, which cannot be compared"
            continue
        if not _is_elementwise(demand) and ours.dtype.kind in "fc":
            widest = max(widest or 0.0, _tolerance(ours, theirs))
        error = _difference(ours, theirs, demand)
        if isinstance(error, _Mismatch):
            reason = f"{path}: {error.reason}"
            return Parity(agreed=False, error=error.error, tolerance=widest, reason=reason)
        worst = max(worst, error)
    return Parity(agreed=None if unknown else True, error=worst, tolerance=widest, reason=unknown)


def _difference(cpu: Any, gpu: Any, demand: Demand) -> float | _Mismatch:
    """Return the error between two arrays, or what is wrong."""
    if cpu.shape != gpu.shape:
        return _Mismatch(None, f"shape {cpu.shape} on the CPU, {gpu.shape} on the GPU")
    if cpu.dtype.kind != gpu.dtype.kind and {cpu.dtype.kind, gpu.dtype.kind} != {"i", "u"}:
        return _Mismatch(None, f"dtype {cpu.dtype} on the CPU, {gpu.dtype} on the GPU")
    if cpu.dtype.kind not in "fc" and not (_is_elementwise(demand) and cpu.dtype.kind in "iu"):
        wrong = int(np.count_nonzero(cpu != gpu))
        return _Mismatch(None, f"{wrong} of {cpu.size} values differ") if wrong else 0.0
    if not np.array_equal(np.isnan(cpu), np.isnan(gpu)):
        return _Mismatch(None, "NaN in different places")
    infinite = np.isinf(cpu)
    if not np.array_equal(infinite, np.isinf(gpu)) or not np.array_equal(
        cpu[infinite], gpu[infinite], equal_nan=True
    ):
        return _Mismatch(None, "infinities differ")
    finite = np.isfinite(cpu)
    here, there = (array[finite].astype(_WIDE[cpu.dtype.kind]) for array in (cpu, gpu))
    if _is_elementwise(demand):
        return _elementwise(here, there, demand)
    return _relative(here, there, _tolerance(cpu, gpu))


def _elementwise(cpu: Any, gpu: Any, demand: Demand) -> float | _Mismatch:
    """Return the largest difference, or that some are too large."""
    with np.errstate(over="ignore"):
        gap = np.abs(gpu - cpu)
        excess = gap > (demand.atol or 0.0) + (demand.rtol or 0.0) * np.abs(cpu)
    wrong, largest = int(np.count_nonzero(excess)), min(float(gap.max(initial=0.0)), _LARGEST)
    reason = f"{wrong} of {gap.size} values differ beyond rtol and atol, by up to {largest:.2g}"
    return _Mismatch(largest, reason) if wrong else largest


def _relative(cpu: Any, gpu: Any, tolerance: float) -> float | _Mismatch:
    """Return the relative norm error, or that it is too large; scaled first, so that no square overflows."""
    scale = max(
        float(np.abs(part).max(initial=0.0)) for side in (cpu, gpu) for part in (side.real, side.imag)
    )
    if scale == 0:
        return 0.0
    cpu, gpu = cpu / scale, gpu / scale
    error = float(np.linalg.norm(gpu - cpu)) / max(float(np.linalg.norm(cpu)), float(np.linalg.norm(gpu)))
    reason = f"relative error {error:.2g}, tolerance {tolerance:.2g}"
    return _Mismatch(error, reason) if error > tolerance else error


def _is_elementwise(demand: Demand) -> bool:
    return demand.rtol is not None or demand.atol is not None


def _tolerance(cpu: Any, gpu: Any) -> float:
    """Return the square root of the coarser machine epsilon; 0 for integers."""
    floating = [array.dtype for array in (cpu, gpu) if array.dtype.kind in "fc"]
    return float(max((np.finfo(dtype).eps for dtype in floating), default=0.0) ** 0.5)


def _to_host(value: Any, holds: Callable[[Any], bool], asnumpy: Callable[[Any], Any]) -> Any:
    if holds(value):
        return asnumpy(value)
    if isinstance(value, np.ndarray | np.generic | bool | int | float | complex | str):
        return np.array(value)
    return value
