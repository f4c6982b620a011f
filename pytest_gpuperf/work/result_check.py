"""From the values of two results to whether they are the same."""

from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np

from pytest_gpuperf.model import ask
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import ResultCheck
from pytest_gpuperf.model.units import first_few
from pytest_gpuperf.work.places import has_equality, same_places
from pytest_gpuperf.work.values import Leaf, apart, incomparable

_LARGEST = 1.7e308  # written for an error beyond every float: JSON has no infinity
_PART = 32  # consecutive numbers that are looked at together: a comparison that flips zeroes fewer
_CHUNK = 2**13  # numbers that are compared at once: in the cache, and too few for BLAS to start threads
_TURNED_OFF = "the marker has check=False"
_NOTHING_RETURNED = "the workload returns nothing that could be compared"

Difference = Literal["labels", "signs", "order"]
"""What alone may tell two results apart: units and dimensions, signs of numbers, or the order in an array."""


def compare(
    cpu: list[Leaf], gpu: list[Leaf], demand: Demand, names: tuple[str, str] = ("the CPU", "the GPU")
) -> ResultCheck:
    """Return whether the GPU's values are the CPU's; `names` are those of the two in the reason.

    Exact for booleans, times and text, and without rtol and atol for integers; for floating-point and complex
    arrays ||gpu - cpu|| <= sqrt(eps) * max(||gpu||, ||cpu||), 2-norms, eps of the coarser dtype, as the
    devices have it (2**-7 for bfloat16, 2**-10 for float32 where TF32 is on): half of the digits, the rule
    of Julia's `isapprox`. With rtol or atol elementwise |gpu - cpu| <= atol + rtol * |cpu|. Shapes, kinds of
    dtype, NaN and infinities match. `error` is the largest relative norm error, or elementwise error.

    A large element hides parts of an array that were never computed. So parts that are zero on one device
    and vary on the other have the tolerance eps**(2/3), where they are more than sqrt(eps) of all parts.
    Nothing else is held to it, for small parts are honestly wrong where large numbers cancel. Rounding
    leaves no such zeros: where one device cancels exactly and the other does not, as FFTs do, there remain
    a few eps; the residue of a constant is constant; and of the parts that a comparison of rounded numbers
    switches off, few are near enough to its limit.
    """
    tolerance = demand.rtol
    if not demand.check or not (cpu or gpu):
        reason = _NOTHING_RETURNED if demand.check else _TURNED_OFF
        return ResultCheck(agreed=None, error=None, tolerance=tolerance, reason=reason)
    pairs, alone = _matched(cpu, gpu)
    values = [sorted(leaf.path for leaf in left if not leaf.is_label) for left in alone]
    if any(values):
        only = (
            f"only {name} returned {first_few(paths)}"
            for name, paths in zip(names, values, strict=True)
            if paths
        )
        return ResultCheck(agreed=False, error=None, tolerance=tolerance, reason="; ".join(only))
    largest_error = 0.0
    not_compared = None
    for name, left in zip(names, alone, strict=True):
        for leaf in left:
            not_compared = not_compared or f"{leaf.path} is {leaf.value.item()!r} on {name} alone"
    for pair in pairs:
        unknown = next(map(_incomparable_type, incomparable(pair)), None) or _without_equality(*pair)
        if unknown is not None:
            not_compared = not_compared or f"{pair[0].path} is a {unknown}, which cannot be compared"
            continue
        if not _is_elementwise(demand) and pair[0].value.dtype.kind in "fc":
            tolerance = max(tolerance or 0.0, _tolerance(*pair))
        error, difference = _difference(*pair, demand, names)
        if difference is not None:
            return ResultCheck(
                agreed=False, error=error, tolerance=tolerance, reason=f"{pair[0].path}: {difference}"
            )
        largest_error = max(largest_error, error or 0.0)
    agreed = None if not_compared else True
    return ResultCheck(agreed=agreed, error=largest_error, tolerance=tolerance, reason=not_compared)


def same_up_to(cpu: list[Leaf], gpu: list[Leaf], demand: Demand) -> Difference | None:
    """Return what alone tells two results apart; None where there is more to it."""
    ways: dict[Difference, Callable[[Leaf], Any]] = {
        "labels": lambda leaf: np.array("") if leaf.is_label else leaf.value,
        "signs": lambda leaf: np.abs(leaf.value) if _kind(leaf) in "ifc" else leaf.value,
        "order": lambda leaf: np.sort(leaf.value, axis=None) if _kind(leaf) in "iufcMmSUT" else leaf.value,
    }
    for what, change in ways.items():
        one, other = ([leaf._replace(value=change(leaf)) for leaf in leaves] for leaves in (cpu, gpu))
        if compare(one, other, demand).agreed:
            return what
    return None


def are_equal(first: list[Leaf], second: list[Leaf]) -> bool:
    """Return whether two results are the same, to the last digit."""
    pairs = zip(first, second, strict=False)
    return len(first) == len(second) and all(
        _are_same_object(one.value, other.value) or np.array_equal(one.value, other.value)
        for one, other in pairs
    )


def degenerate(cpu: list[Leaf], gpu: list[Leaf]) -> Iterator[tuple[str, str]]:
    """Yield the places of arrays that hold only zeros or only NaN on both devices, with which of them.

    Zeros beside other numbers are a result, such as a bias that has not moved, or a gradient that is zero.
    """
    pairs = _matched(cpu, gpu)[0]
    are_all_zero = not any(_is_computed(leaf.value) for leaf, _ in pairs)
    for leaf, other in pairs:
        only = _only(leaf.value) if leaf.cells is None else None
        if only is not None and only == _only(other.value) and (are_all_zero or only == "NaN"):
            yield leaf.path, only


def _is_computed(value: Any) -> bool:
    """Return whether there are numbers other than zero; one integer may be a count, which shows no work."""
    if not ask.is_really(value, np.ndarray) or value.dtype.kind not in "fciub":
        return False
    return (value.size > 1 or value.dtype.kind in "fc") and bool(value.any())


def _matched(
    cpu: list[Leaf], gpu: list[Leaf]
) -> tuple[list[tuple[Leaf, Leaf]], tuple[list[Leaf], list[Leaf]]]:
    """Return the values in the same places of two results, and those that only one of them has."""
    pairs, alone = _in_same_places(cpu, gpu)
    is_in_parts = any(leaf.cells is not None for left in alone for leaf in left)
    if is_in_parts or any(one.cells != other.cells for one, other in pairs):  # on one device they are no list
        return _in_same_places(*([each for leaf in side for each in apart(leaf)] for side in (cpu, gpu)))
    return pairs, alone


def _in_same_places(
    cpu: list[Leaf], gpu: list[Leaf]
) -> tuple[list[tuple[Leaf, Leaf]], tuple[list[Leaf], list[Leaf]]]:
    """Return the values in the same places, of which those of long lists are one."""
    places = same_places((leaf.place for leaf in cpu), (leaf.place for leaf in gpu))
    on_gpu = {leaf.place: leaf for leaf in gpu}
    pairs, alone = [], []
    for leaf in cpu:
        place = places.get(leaf.place)
        if place in on_gpu:
            pairs.append((leaf, on_gpu.pop(place)))
        else:
            alone.append(leaf)
    return pairs, (alone, [*on_gpu.values()])


def _incomparable_type(leaf: Leaf) -> str:
    return type(leaf.value).__name__


def _without_equality(cpu: Leaf, gpu: Leaf) -> str | None:
    """Return the type of objects that do not say whether they are equal; None for all other values."""
    if not (_is_object(cpu.value) and _is_object(gpu.value)):
        return None
    return type(cpu.value.item()).__name__ if _are_same_object(cpu.value, gpu.value) is None else None


def _is_object(value: Any) -> bool:
    """Return whether a value is an array of one object."""
    return ask.is_really(value, np.ndarray) and value.dtype.kind == "O" and not value.shape


def _are_same_object(cpu: Any, gpu: Any) -> bool | None:
    """Return whether two arrays of one object hold equal ones; None where they do not say, or are none."""
    if not (_is_object(cpu) and _is_object(gpu)):
        return None
    one, other = cpu.item(), gpu.item()
    if one is other:
        return True
    if not (has_equality(one) or has_equality(other)):
        return None
    found: bool | None = ask.answer(_are_equal_or_nan, one, other)
    return found


def _are_equal_or_nan(one: Any, other: Any) -> bool:
    return bool(one == other) or bool(one != one and other != other)


def _kind(leaf: Leaf) -> str:
    """Return the kind of an array's dtype; of what is none, that of objects."""
    return leaf.value.dtype.kind if ask.is_really(leaf.value, np.ndarray) else "O"


def _only(value: Any) -> str | None:
    """Return which value a floating-point array has throughout, zero or NaN; a single zero is a result."""
    if not ask.is_really(value, np.ndarray) or value.dtype.kind not in "fc" or not value.size:
        return None
    first = value.flat[0]
    if first == 0:
        return None if value.size == 1 or value.any() else "zero"
    return "NaN" if np.isnan(first) and np.isnan(value).all() else None


def _difference(
    cpu_leaf: Leaf, gpu_leaf: Leaf, demand: Demand, names: tuple[str, str]
) -> tuple[float | None, str | None]:
    """Return the error between two arrays where it can be computed, and how they differ, if they do."""
    cpu, gpu = cpu_leaf.value, gpu_leaf.value
    kind = cpu.dtype.kind
    if cpu.shape != gpu.shape:
        return None, f"shape {cpu.shape} on {names[0]}, {gpu.shape} on {names[1]}"
    if kind != gpu.dtype.kind and {kind, gpu.dtype.kind} != {"i", "u"}:
        return None, f"dtype {cpu.dtype} on {names[0]}, {gpu.dtype} on {names[1]}"
    if (same := _are_same_object(cpu, gpu)) is not None:
        return (0.0, None) if same else (None, "1 of 1 values differ")
    if cpu_leaf.is_label:
        differ = f"{cpu.item()!r} on {names[0]}, {gpu.item()!r} on {names[1]}"
        return (0.0, None) if cpu == gpu else (None, differ)
    if kind not in "fc" and not (_is_elementwise(demand) and kind in "iu"):
        unequal = (cpu != gpu) & ((cpu == cpu) | (gpu == gpu))  # NaT and a NaN are not equal themselves
        wrong = int(np.count_nonzero(unequal))
        first = "" if cpu_leaf.cells is None else f", {cpu_leaf.cells.name(unequal.argmax())} first"
        return (None, f"{wrong} of {cpu.size} values differ{first}") if wrong else (0.0, None)
    if kind in "iu":
        return _elementwise(cpu.astype(np.longdouble), gpu.astype(np.longdouble), demand)
    if np.array_equal(cpu, gpu):  # as two results of one device are: a tenth of the time of a norm
        return 0.0, None
    if cpu_leaf.cells is not None and not _is_elementwise(demand):
        return _each_relative(cpu_leaf, gpu_leaf)
    parts = [_real_parts(cpu), _real_parts(gpu)]
    scale = _largest(parts)
    if not np.isfinite(scale):
        if (difference := _different_places(cpu, gpu)) is not None:
            return None, difference
        shared = np.isfinite(parts[0]) & np.isfinite(parts[1])
        parts = [np.where(shared, part, 0) for part in parts]
        scale = _largest(parts)
    if _is_elementwise(demand):
        wide = _wide(*parts)
        as_before = np.result_type(wide, np.complex64) if kind == "c" else wide
        parts = [part.astype(wide).view(as_before) for part in parts]
        return _elementwise(parts[0], parts[1], demand)
    return _relative(parts[0], parts[1], scale, _tolerance(cpu_leaf, gpu_leaf), names)


def _real_parts(array: Any) -> Any:
    """Return the numbers in a floating-point or complex array, one after another; a view where it can be."""
    flat = np.ascontiguousarray(array).reshape(-1)  # not a field, whose numbers lie apart
    return flat.view(flat.real.dtype)


def _wide(*parts: Any) -> Any:
    """Return the dtype to compute in: float64, or that of the parts where it has more digits."""
    return np.result_type(np.float64, *parts)


def _largest(parts: list[Any]) -> Any:
    """Return the largest absolute value; NaN if there is one."""
    wide = _wide(*parts).type
    ends = [wide(end(part, initial=0.0)) for part in parts for end in (np.max, np.min)]
    return np.abs(ends).max()


def _different_places(cpu: Any, gpu: Any) -> str | None:
    """Return which of NaN and infinities are in different places, if they are."""
    if not np.array_equal(np.isnan(cpu), np.isnan(gpu)):
        return "NaN in different places"
    if cpu.dtype.kind == "c":
        in_parts = np.isnan(_real_parts(cpu)) != np.isnan(_real_parts(gpu))
        if in_parts.reshape(-1, 2).all(axis=1).any():  # the real part here, the imaginary one there
            return "NaN in different places"
    infinite = np.isinf(cpu)
    same_places = np.array_equal(infinite, np.isinf(gpu))
    if not same_places or not np.array_equal(cpu[infinite], gpu[infinite], equal_nan=True):
        return "infinities differ"
    return None


def _elementwise(cpu: Any, gpu: Any, demand: Demand) -> tuple[float, str | None]:
    """Return the largest difference, and how many are too large."""
    with np.errstate(over="ignore"):
        gap = np.abs(gpu - cpu)
        excess = gap > (demand.atol or 0.0) + (demand.rtol or 0.0) * np.abs(cpu)
    wrong = int(np.count_nonzero(excess))
    largest = float(min(gap.max(initial=0.0), _LARGEST))
    reason = f"{wrong} of {gap.size} values differ beyond rtol and atol, by up to {largest:.2g}"
    return largest, reason if wrong else None


def _each_relative(cpu_leaf: Leaf, gpu_leaf: Leaf) -> tuple[float | None, str | None]:
    """Return the largest relative error of numbers that are each compared by itself, and how many differ."""
    cpu, gpu, tolerance = cpu_leaf.value, gpu_leaf.value, _tolerance(cpu_leaf, gpu_leaf)
    alike = (cpu == gpu) | (np.isnan(cpu) & np.isnan(gpu))
    with np.errstate(all="ignore"):
        scale = np.maximum(np.abs(cpu), np.abs(gpu))
        errors = np.where(alike, 0.0, np.abs(gpu / scale - cpu / scale))
    wrong = np.flatnonzero(~(errors <= tolerance))
    if not wrong.size:
        return float(errors.max()), None
    largest = None if np.isnan(errors).any() else float(errors.max())
    first = wrong[0]
    key = "" if cpu_leaf.cells is None else cpu_leaf.cells.name(first)
    two = f"{float(cpu[first])!r} and {float(gpu[first])!r}"
    differ = f"{wrong.size} of {cpu.size} numbers differ, {key} first: {two}"
    return largest, differ if largest is None else f"{differ}; relative error {largest:.2g}"


def _relative(
    cpu: Any, gpu: Any, scale: Any, tolerance: float, names: tuple[str, str]
) -> tuple[float, str | None]:
    """Return the relative norm error; values are scaled first, so that no square overflows."""
    if scale == 0:
        return 0.0, None
    wide = _wide(cpu, gpu)
    squares = np.zeros(3, wide)
    zeros = [np.zeros(3), np.zeros(3)]
    for start in range(0, cpu.size, _CHUNK):  # a whole array would take several copies of it
        on_cpu, on_gpu = (part[start : start + _CHUNK].astype(wide) / scale for part in (cpu, gpu))
        gap = on_gpu - on_cpu
        squares += [part @ part for part in (gap, on_cpu, on_gpu)]
        zeros[0] += _left_zero(on_cpu, on_gpu)
        zeros[1] += _left_zero(on_gpu, on_cpu)
    apart, *whole = np.sqrt(squares)
    error = float(apart / max(whole))
    if error > tolerance:
        return error, f"relative error {error:.2g}, tolerance {tolerance:.2g}"
    for name, (parts, others, square) in zip(names, zeros, strict=True):
        share = parts / max(1, parts + others)
        if share > tolerance and square**0.5 > tolerance ** (4 / 3) * max(whole):
            left = f"{100 * share:.2g} % of the values that differ from zero"
            return error, f"{name} left zeros in {left} on the other device"
    return error, None


def _left_zero(here: Any, there: Any) -> Any:
    """Return how many parts are zero here and vary there, how many are not zero here, and a sum of squares.

    Each part is of consecutive numbers. The squares are those of what is there in place of the first parts.
    """
    size = here.size - here.size % _PART
    here, there = (values[:size].reshape(-1, _PART) for values in (here, there))
    if np.count_nonzero(here) > size - _PART:
        return np.array([0, len(here), 0])
    zero = ~here.any(axis=1)
    left = there[zero]
    left = left[np.ptp(left, axis=1) > 0]
    return np.array([len(left), np.count_nonzero(~zero), np.square(left).sum()])


def _is_elementwise(demand: Demand) -> bool:
    return demand.rtol is not None or demand.atol is not None


def _tolerance(*leaves: Leaf) -> float:
    """Return the square root of the coarser machine epsilon; 0 for integers."""
    floating = [(leaf.value.dtype, leaf.eps) for leaf in leaves if leaf.value.dtype.kind in "fc"]
    return float(max((max(np.finfo(dtype).eps, eps) for dtype, eps in floating), default=0.0) ** 0.5)
