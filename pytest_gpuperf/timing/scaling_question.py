"""What a scaling test asks of its measurement: how much more devices shorten the work that they share."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from msgspec.structs import replace

from pytest_gpuperf.analysis import scaling, verdict
from pytest_gpuperf.devices.clock import seconds_between
from pytest_gpuperf.devices.group import DeviceGroup, StackedParts
from pytest_gpuperf.model import units
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import ResultCheck
from pytest_gpuperf.model.record import Note, Record
from pytest_gpuperf.model.scaling import Scaling
from pytest_gpuperf.timing import notes
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.question import Answer, Facts, Question
from pytest_gpuperf.work import any_array, result_check
from pytest_gpuperf.work.checks import ResultChecks, When
from pytest_gpuperf.work.observed_call import devices_at_work
from pytest_gpuperf.work.places import Place, same_places
from pytest_gpuperf.work.values import Leaf
from pytest_gpuperf.work.workload import Workload

_GROWN = 0.9  # of what a device had before: a problem that grows need not divide without a remainder
_HINT = (
    "return what does not depend on the number of {}s: the parts that make up the whole, or a value that "
    "is reduced over all of them; check=False compares nothing"
)
_OTHER_PROBLEMS = "under weak scaling each number of {}s has a problem of its own"


class ScalingQuestion(Question):
    """By how much is the work faster on a group of devices than on the fewest, and how efficient is that?

    The trial compares the fewest devices with the group: they take the place of the CPU, so that its speedup
    is their time / that of the group.
    """

    times_secondary = False  # copies to one device say nothing about several

    def __init__(self, scaling: Scaling) -> None:
        self._scaling = scaling
        self.names = _names(scaling)
        self._is_weak = scaling.mode == "weak"
        self._on_fewest: list[int] = []  # bytes of each input that the first device has there
        self._whole_on_fewest = 0  # bytes of all inputs there
        self._group: DeviceGroup | None = None

    def checks(self, demand: Demand) -> ResultChecks:
        """Return the checks of results that each number of devices has in other parts."""
        return ScalingChecks(demand, self._scaling)

    def after_first_call(self, timer: BlockTimer, device: Any) -> Note | None:
        """Refuse a workload that leaves devices of its group idle, or whose inputs do not scale."""
        self._group = device
        note = self._check_inputs(timer.workload, device)
        if device.count > 1:
            self._require_all(timer.workload, device)
        return note

    def judge(self, facts: Facts) -> Answer:
        """Return the verdict on the parallel efficiency; results must agree wherever one is required."""
        disagreement, speedup = facts.checks.disagreement, facts.speedup
        if disagreement is not None and self._scaling.required is not None:
            return Answer.of_disagreement(disagreement)
        if disagreement is not None or speedup is None:  # which says nothing about the efficiency
            return super().judge(facts)
        demand, look = facts.context.demand, facts.rounds.sampled.look
        judged = verdict.judge(
            speedup,
            demand,
            look,
            facts.disturbance,
            facts.rounds.throttled,
            pace=facts.pace,
            state=scaling.describe(self._scaling, speedup),
            missed="efficiency_below_limit",
        )
        measured = (facts.cpu.measurement, facts.gpu.measurement)
        found = (
            *notes.on_overlap(zip(facts.names, measured, strict=True)),
            *notes.on_disturbance(facts.disturbance, speedup, demand, look),
            *notes.on_rounds(facts.rounds),
            *notes.on_results(facts.checks),
        )
        return Answer(verdict=judged, notes=found)

    def finish(self, record: Record) -> Record:
        """Return the record with what was measured in place of a CPU as the base of the scaling."""
        # Of other results nobody wants to know how soon they came.
        speedup = None if record.check is not None and record.check.agreed is False else record.speedup
        its_own = replace(self._scaling, ranks=self._group.blocks if self._group else None)
        return replace(
            record,
            cpu=None,
            speedup=None,
            roof=None,
            memory=None,
            scaling=scaling.with_speedup(its_own, speedup, record.cpu),
            interference=record.interference or record.gpu_interference,
            gpu_interference=None,
        )

    def _check_inputs(self, workload: Workload, group: DeviceGroup) -> Note | None:
        """Refuse inputs on some of the devices only, and a weak problem that does not grow with them.

        Returns a note where each device has a copy of all that it should have a part of.
        """
        arrays, member = workload.arrays if workload.scope == "call" else [], self._scaling.member
        they = f"{member}s"
        if not arrays and self._is_weak:
            raise GpuPerfError(
                f"under weak scaling the inputs must be known, to see that they grow with the {they}; make "
                "them first, and return a function that does the work and names them"
            )
        if not arrays:
            return None
        if idle := group.idle(arrays):
            numbers = units.first_few(map(str, idle))
            raise GpuPerfError(
                f"no input of the workload is on {len(idle)} of the {group.count} {they} ({numbers}); "
                f"divide them with {they}.asarray(host, shard=0), or copy them with {they}.asarray(host)"
            )
        sizes = sorted(map(any_array.bytes_of, group.on_first(arrays)), reverse=True)
        whole = sum(map(any_array.bytes_of, arrays)) + group.bytes_elsewhere
        fewest = self._scaling.counts[0]
        if group.count == fewest:
            self._on_fewest, self._whole_on_fewest = sizes, whole
        elif self._is_weak and (whole == self._whole_on_fewest or _is_smaller(sizes, self._on_fewest)):
            raise GpuPerfError(
                f"under weak scaling the problem grows with the {they}, and that of "
                f"{units.count(group.count, member)} is too small compared with that of "
                f"{units.count(fewest, member)}; make what is divided {they}.count times as large and "
                "copy the rest, or remove mode='weak'"
            )
        elif not self._is_weak and sizes == self._on_fewest:
            text = f"every {member} has all inputs, so nothing was divided: pass shard= to {they}.asarray"
            return Note(code="check_the_test", text=text)
        return None

    def _require_all(self, workload: Workload, group: DeviceGroup) -> None:
        """Refuse a workload that leaves devices idle: more of them would not be what is measured."""
        with group.context():
            at_work = devices_at_work(workload, group)
        idle = [number for number in range(group.count) if number not in at_work]
        if idle:
            numbers, member = units.first_few(map(str, idle)), self._scaling.member
            remedy = "to each of devices.all" if member == "device" else "on each of them, to ranks.device"
            raise GpuPerfError(
                f"no work reached {len(idle)} of the {group.count} {member}s ({numbers}); submit a part of "
                f"it {remedy}"
            )


def _is_smaller(sizes: list[int], before: list[int]) -> bool:
    """Return whether one of the largest inputs of a device is clearly smaller than it was before.

    With fewer inputs, all together are: two may have become one.
    """
    if len(sizes) < len(before):
        sizes, before = [sum(sizes)], [sum(before)]
    return any(now < _GROWN * then for now, then in zip(sizes, before, strict=False))


class ScalingChecks(ResultChecks):
    """Compares the results on more devices with those on the fewest.

    Parts of a result, one on each device, are joined first: along the one axis on which more devices have
    shorter parts; where all have the same shape, each device has the whole. Under weak scaling the problems
    differ: only the calls on the same devices are compared with each other then.
    """

    def __init__(self, demand: Demand, scaling: Scaling) -> None:
        super().__init__(demand)
        self._hints = _HINT.format(scaling.member)
        self._other_problems = _OTHER_PROBLEMS.format(scaling.member)
        self.compares_devices = scaling.mode == "strong"
        self._first_of_group: list[list[Leaf]] = []  # of the first calls, where devices are not compared
        self._compared = 0  # of the last ones
        self._names = _names(scaling)

    def copy_to_host(self, result: Any, device: Any, dtypes: Iterable[str] = ()) -> list[Leaf]:
        """Return a result's values on the host, with the parts that other processes have of them."""
        values = super().copy_to_host(result, device, dtypes)
        if not self.is_asked:
            return values
        started = device.clock()
        gathered: list[Leaf] = device.gathered(values)
        self.looking += seconds_between(started, device.clock())
        return gathered

    def compare(self, cpu: list[Leaf], gpu: list[Leaf], device: Any, when: When) -> None:
        """Compare fewer devices with more, or calls on the same devices with each other."""
        if not self.compares_devices:
            if when == "before":
                self._first_of_group.append(gpu)
            else:
                place = self._compared % len(self._first_of_group)
                self.require_same_result(self._first_of_group[place], gpu)
                self._compared += 1
            self.outcome = ResultCheck(agreed=None, error=None, tolerance=None, reason=self._other_problems)
            self.degenerate = list(result_check.degenerate(gpu, gpu))
        else:
            super().compare(*_aligned(cpu, gpu), device, when)


def _names(scaling: Scaling) -> tuple[str, str]:
    """Return the names of both groups of devices."""
    return units.count(scaling.counts[0], scaling.member), units.count(scaling.count, scaling.member)


def _aligned(few: list[Leaf], many: list[Leaf]) -> tuple[list[Leaf], list[Leaf]]:
    """Return both results with the parts of the same value as one array."""
    few, many = _as_in(many, few), _as_in(few, many)
    same = same_places((leaf.place for leaf in few), (leaf.place for leaf in many))
    others = {leaf.place: leaf for leaf in many}
    for place, leaf in enumerate(few):
        other = others.get(same.get(leaf.place, leaf.place))
        if (
            other is not None
            and isinstance(leaf.value, StackedParts)
            and isinstance(other.value, StackedParts)
        ):
            whole = _joined(leaf.value.view(np.ndarray), other.value.view(np.ndarray))
            few[place], others[other.place] = leaf._replace(value=whole[0]), other._replace(value=whole[1])
    return few, list(others.values())


def _as_in(others: list[Leaf], result: list[Leaf]) -> list[Leaf]:
    """Return a result with the values of a list one by one, where they are no parts in the other result."""
    same = same_places((leaf.place for leaf in result), (leaf.place for leaf in others))
    values, found = {leaf.place for leaf in others}, []
    for leaf in result:
        other = same.get(leaf.place)
        if isinstance(leaf.value, StackedParts) and other is not None and other not in values:
            each = enumerate(leaf.value)
            found += [
                leaf._replace(place=Place(leaf.place, key), value=np.array(value)) for key, value in each
            ]
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
