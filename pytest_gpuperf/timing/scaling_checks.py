"""The results of a test on several numbers of devices, compared although each has them in other parts."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from pytest_gpuperf.devices.group import StackedParts
from pytest_gpuperf.model import units
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import ResultCheck
from pytest_gpuperf.model.record import Note
from pytest_gpuperf.model.scaling import Scaling
from pytest_gpuperf.timing import result_check
from pytest_gpuperf.timing.checks import ResultChecks, When
from pytest_gpuperf.timing.leaves import Leaf

_HINT = (
    "return what does not depend on the number of devices: the parts that make up the whole, or a value that "
    "is reduced over all of them; check=False compares nothing"
)
_OTHER_PROBLEMS = "under weak scaling each number of devices has a problem of its own"


class ScalingChecks(ResultChecks):
    """Compares the results on more devices with those on the fewest.

    Parts of a result, one on each device, are joined first: along the one axis on which more devices have
    shorter parts; where all have the same shape, each device has the whole. Under weak scaling the problems
    differ, and only the calls on the same devices are compared with each other.
    """

    def __init__(self, demand: Demand, scaling: Scaling) -> None:
        super().__init__(demand)
        self._hints = _HINT
        self._is_weak = scaling.mode == "weak"
        self._first_of_group: list[list[Leaf]] = []  # under weak scaling, of the first calls
        self._compared = 0  # of the last ones
        self._names = (units.count(scaling.counts[0], "device"), units.count(scaling.count, "device"))

    def compare(self, cpu: list[Leaf], gpu: list[Leaf], device: Any, when: When) -> None:
        """Compare fewer devices with more; under weak scaling, calls on the same devices."""
        if self._is_weak:
            if when == "before":
                self._first_of_group.append(gpu)
            else:
                place = self._compared % len(self._first_of_group)
                self.require_same_result(self._first_of_group[place], gpu)
                self._compared += 1
            self.outcome = ResultCheck(agreed=None, error=None, tolerance=None, reason=_OTHER_PROBLEMS)
            self._degenerate = list(result_check.degenerate(gpu, gpu))
        else:
            super().compare(*_aligned(cpu, gpu), device, when)

    @property
    def notes(self) -> tuple[Note, ...]:
        """Notes on results that could not be compared, which is no surprise under weak scaling."""
        expected = ("results_not_compared",) if self._is_weak else ()
        return tuple(note for note in super().notes if note.code not in expected)


def _aligned(few: list[Leaf], many: list[Leaf]) -> tuple[list[Leaf], list[Leaf]]:
    """Return both results with the parts of the same value joined, where their shapes tell how."""
    few, many = _as_in(many, few), _as_in(few, many)
    others = {leaf.path: leaf.value for leaf in many}
    whole: dict[str, tuple[Any, Any]] = {}
    for leaf in few:
        other = others.get(leaf.path)
        if isinstance(leaf.value, StackedParts) and isinstance(other, StackedParts):
            whole[leaf.path] = _joined(leaf.value, other)
    return (
        [leaf._replace(value=whole[leaf.path][0]) if leaf.path in whole else leaf for leaf in few],
        [leaf._replace(value=whole[leaf.path][1]) if leaf.path in whole else leaf for leaf in many],
    )


def _as_in(others: list[Leaf], result: list[Leaf]) -> list[Leaf]:
    """Return a result without parts of what is a list of values in the other one, too."""
    paths = {leaf.path for leaf in others}
    return [part for leaf in result for part in _split(leaf, paths)]


def _split(leaf: Leaf, paths: set[str]) -> Iterator[Leaf]:
    """Yield the parts one by one where the other result has values at their places: they are no parts."""
    if isinstance(leaf.value, StackedParts) and leaf.path not in paths and f"{leaf.path}[0]" in paths:
        yield from (
            leaf._replace(path=f"{leaf.path}[{place}]", value=np.array(part))
            for place, part in enumerate(leaf.value)
        )
    else:
        yield leaf


def _joined(few: Any, many: Any) -> tuple[Any, Any]:
    """Return the parts on few and on many devices as arrays that can be compared."""
    few, many = few.view(np.ndarray), many.view(np.ndarray)
    part, smaller = few.shape[1:], many.shape[1:]
    if part == smaller:  # each device has the whole, and all must have the same
        copies = np.concatenate([few, many])
        return np.broadcast_to(few[:1], copies.shape), copies
    divided = [axis for axis, (long, short) in enumerate(zip(part, smaller, strict=False)) if long != short]
    if len(part) == len(smaller) and len(divided) == 1:
        axis = divided[0]
        return np.concatenate(few, axis=axis), np.concatenate(many, axis=axis)
    return few, many
