"""The results of a test on several numbers of devices, compared although each has them in other parts."""

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
    """Return both results with the parts of the same value as one array."""
    few, many = _as_in(many, few), _as_in(few, many)
    others = {leaf.path: leaf for leaf in many}
    for place, leaf in enumerate(few):
        other = others.get(leaf.path)
        if (
            other is not None
            and isinstance(leaf.value, StackedParts)
            and isinstance(other.value, StackedParts)
        ):
            whole = _joined(leaf.value.view(np.ndarray), other.value.view(np.ndarray))
            few[place], others[leaf.path] = leaf._replace(value=whole[0]), other._replace(value=whole[1])
    return few, list(others.values())


def _as_in(others: list[Leaf], result: list[Leaf]) -> list[Leaf]:
    """Return a result with the values of a list one by one, where they are no parts in the other result."""
    paths, found = {leaf.path for leaf in others}, []
    for leaf in result:
        if isinstance(leaf.value, StackedParts) and f"{leaf.path}[0]" in paths:
            values = enumerate(leaf.value)
            found += [Leaf(f"{leaf.path}[{place}]", np.array(value), leaf.eps) for place, value in values]
        else:
            found.append(leaf)
    return found


def _joined(few: Any, many: Any) -> tuple[Any, Any]:
    """Return the parts on few and on many devices, joined along the one axis on which they differ.

    Without such an axis each device has the whole, and all must have the same. Parts that differ on several
    axes stay as they are: their shapes are refused.
    """
    part, smaller = few.shape[1:], many.shape[1:]
    if part == smaller:
        copies = np.concatenate([few, many])
        return np.broadcast_to(few[:1], copies.shape), copies
    divided = [axis for axis, (long, short) in enumerate(zip(part, smaller, strict=False)) if long != short]
    if len(part) != len(smaller) or len(divided) > 1:
        return few, many
    return np.concatenate(few, axis=divided[0]), np.concatenate(many, axis=divided[0])
