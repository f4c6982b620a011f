"""The results of a test on several numbers of devices, compared although each has them in other parts."""

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import numpy as np

from pytest_gpuperf.devices.group import DeviceGroup, StackedParts
from pytest_gpuperf.model import units
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import Parity
from pytest_gpuperf.model.record import Note
from pytest_gpuperf.model.scaling import Scaling
from pytest_gpuperf.timing import parity
from pytest_gpuperf.timing.checks import ResultChecks, When
from pytest_gpuperf.timing.leaves import Leaf
from pytest_gpuperf.timing.workload import Workload

_HINT = (
    "return what does not depend on the number of devices: the parts that make up the whole, or a value that "
    "is reduced over all of them; parity=False compares nothing"
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
        self._scaling = scaling
        self._is_weak = scaling.mode == "weak"
        self._on_fewest = 0  # bytes of the inputs there
        self._names = (units.count(scaling.counts[0], "device"), units.count(scaling.count, "device"))

    def copy_to_host(self, result: Any, device: Any, dtypes: Iterable[str] = ()) -> list[Leaf]:
        """Return a result's values on the host; parts on all devices are one value."""
        return super().copy_to_host(_gathered(result, device), device, dtypes)

    def compare(self, cpu: list[Leaf], gpu: list[Leaf], device: Any, when: When) -> None:
        """Compare the results on the fewest devices with those on more, but for weak scaling."""
        if self._is_weak:
            self.parity = Parity(agreed=None, error=None, tolerance=None, reason=_OTHER_PROBLEMS)
            self._degenerate = list(parity.degenerate(gpu, gpu))
        else:
            super().compare(*_aligned(cpu, gpu), device, when)

    @property
    def notes(self) -> tuple[Note, ...]:
        """Notes on results that could not be compared, which is no surprise under weak scaling."""
        expected = ("parity_not_checked",) if self._is_weak else ()
        return tuple(note for note in super().notes if note.code not in expected)

    def check_inputs(self, workload: Workload, group: DeviceGroup) -> Note | None:
        """Refuse inputs on some of the devices only, and a weak problem that does not grow with them.

        Returns a note where each device has a copy of all that it should have a part of.
        """
        arrays = [each for one in workload.inputs if (each := one.array()) is not None]
        if not arrays:
            return None
        if idle := group.idle(arrays):
            numbers = units.first_few(map(str, idle))
            raise GpuPerfError(
                f"no input of the workload is on {len(idle)} of the {group.count} devices ({numbers}); "
                "divide them with devices.asarray(host, shard=0), or copy them with devices.asarray(host)"
            )
        found = group.bytes_of_problem(arrays) if self._is_weak else group.bytes_held(arrays)
        if group.count == self._scaling.counts[0]:
            self._on_fewest = found
        elif self._is_weak and found == self._on_fewest:
            raise GpuPerfError(
                f"under weak scaling the problem grows with the devices, and {self._names[1]} have no larger "
                f"inputs than {self._names[0]}; make them devices.count times as large, or remove mode='weak'"
            )
        elif not self._is_weak and found == self._on_fewest * self._scaling.ratio:
            text = "every device has all inputs, so nothing was divided: pass shard= to devices.asarray"
            return Note(code="nothing_divided", text=text)
        return None

    def require_all_devices(self, at_work: Collection[int], group: DeviceGroup) -> None:
        """Refuse a workload that leaves devices idle: more of them would not be what is measured."""
        idle = [number for number in range(group.count) if number not in at_work]
        if idle:
            numbers = units.first_few(map(str, idle))
            raise GpuPerfError(
                f"no work reached {len(idle)} of the {group.count} devices ({numbers}); submit a part of it "
                "to each of devices.all"
            )


def _gathered(result: Any, group: DeviceGroup) -> Any:
    """Return a result in which a list with a part on each device is one value."""
    if (parts := group.parts_of(result)) is not None:
        return parts
    if isinstance(result, dict):
        return {name: _gathered(value, group) for name, value in result.items()}
    if type(result) in (list, tuple):
        return type(result)(_gathered(value, group) for value in result)
    return result


def _aligned(few: list[Leaf], many: list[Leaf]) -> tuple[list[Leaf], list[Leaf]]:
    """Return both results with the parts of the same value joined, where their shapes tell how."""
    paths = {leaf.path for leaf in few}
    many = [part for leaf in many for part in _split(leaf, paths)]
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


def _split(leaf: Leaf, paths: set[str]) -> Iterator[Leaf]:
    """Yield the parts one by one where the result on few devices has as many values: they are no parts."""
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
