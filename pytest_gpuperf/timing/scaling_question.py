"""What a scaling test asks of its measurement: how much more devices shorten the work that they share."""

from typing import Any

from msgspec.structs import replace

from pytest_gpuperf.analysis import scaling, verdict
from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.group import DeviceGroup
from pytest_gpuperf.model import units
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Note, Record
from pytest_gpuperf.model.scaling import Scaling
from pytest_gpuperf.timing import any_array, outcome
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.checks import ResultChecks
from pytest_gpuperf.timing.question import Answer, Facts, SpeedupQuestion
from pytest_gpuperf.timing.scaling_checks import ScalingChecks
from pytest_gpuperf.timing.untimed_calls import devices_at_work
from pytest_gpuperf.timing.workload import Workload

_GROWN = 0.9  # of what a device had before: a problem that grows need not divide without a remainder


class ScalingQuestion:
    """By how much is the work faster on a group of devices than on the fewest, and how efficient is that?

    The trial compares the fewest devices with the group: they take the place of the CPU, so that its speedup
    is their time / that of the group.
    """

    times_secondary = False  # copies to one device say nothing about several

    def __init__(self, scaling: Scaling) -> None:
        self._scaling = scaling
        self._is_weak = scaling.mode == "weak"
        self._on_fewest: list[int] = []  # bytes of each input that the first device has there
        self._whole_on_fewest = 0  # bytes of all inputs there

    def checks(self, demand: Demand) -> ResultChecks:
        """Return the checks of results that each number of devices has in other parts."""
        return ScalingChecks(demand, self._scaling)

    def after_first_call(self, timer: BlockTimer, device: Any) -> Note | None:
        """Refuse a workload that leaves devices of its group idle, or whose inputs do not scale."""
        note = self._check_inputs(timer.workload, device)
        if device.count > 1:
            _require_all_devices(timer.workload, device)
        return note

    def judge(self, facts: Facts) -> Answer:
        """Return the verdict on the parallel efficiency; results must agree wherever one is required."""
        disagreement, speedup = facts.checks.disagreement, facts.speedup
        if disagreement is not None and self._scaling.required is not None:
            return Answer.of_disagreement(disagreement)
        if disagreement is not None or speedup is None:  # which says nothing about the efficiency
            return SpeedupQuestion().judge(facts)
        judged = verdict.judge(
            speedup,
            facts.context.demand,
            facts.rounds.sampled.look,
            facts.disturbance,
            facts.rounds.throttled,
            state=scaling.describe(self._scaling, speedup),
            missed="efficiency_below_limit",
        )
        notes = (*outcome.notes_on_rounds(facts.rounds), *facts.checks.notes)
        return Answer(verdict=judged, notes=notes)

    def finish(self, record: Record) -> Record:
        """Return the record with what was measured in place of a CPU as the base of the scaling."""
        # Of other results nobody wants to know how soon they came.
        speedup = None if record.check is not None and record.check.agreed is False else record.speedup
        return replace(
            record,
            cpu=None,
            speedup=None,
            memory=None,
            scaling=scaling.with_speedup(self._scaling, speedup, record.cpu),
            interference=record.interference or record.gpu_interference,
            gpu_interference=None,
        )

    def _check_inputs(self, workload: Workload, group: DeviceGroup) -> Note | None:
        """Refuse inputs on some of the devices only, and a weak problem that does not grow with them.

        Returns a note where each device has a copy of all that it should have a part of.
        """
        arrays = [each for one in workload.inputs if (each := one.array()) is not None]
        if not arrays and self._is_weak:
            raise GpuPerfError(
                "under weak scaling the inputs must be known, to see that they grow with the devices; make "
                "them first, and return a function that does the work and names them"
            )
        if not arrays:
            return None
        if idle := group.idle(arrays):
            numbers = units.first_few(map(str, idle))
            raise GpuPerfError(
                f"no input of the workload is on {len(idle)} of the {group.count} devices ({numbers}); "
                "divide them with devices.asarray(host, shard=0), or copy them with devices.asarray(host)"
            )
        sizes = sorted(map(any_array.bytes_of, group.on_first(arrays)), reverse=True)
        whole = sum(map(any_array.bytes_of, arrays))
        fewest = self._scaling.counts[0]
        if group.count == fewest:
            self._on_fewest, self._whole_on_fewest = sizes, whole
        elif self._is_weak and (whole == self._whole_on_fewest or _is_smaller(sizes, self._on_fewest)):
            raise GpuPerfError(
                "under weak scaling the problem grows with the devices, and that of "
                f"{units.count(group.count, 'device')} is too small compared with that of "
                f"{units.count(fewest, 'device')}; make what is divided devices.count times as large and "
                "copy the rest, or remove mode='weak'"
            )
        elif not self._is_weak and sizes == self._on_fewest:
            text = "every device has all inputs, so nothing was divided: pass shard= to devices.asarray"
            return Note(code="check_the_test", text=text)
        return None


def _require_all_devices(workload: Workload, group: DeviceGroup) -> None:
    """Refuse a workload that leaves devices idle: more of them would not be what is measured."""
    with capabilities.context(group):
        at_work = devices_at_work(workload, group)
    idle = [number for number in range(group.count) if number not in at_work]
    if idle:
        numbers = units.first_few(map(str, idle))
        raise GpuPerfError(
            f"no work reached {len(idle)} of the {group.count} devices ({numbers}); submit a part of it "
            "to each of devices.all"
        )


def _is_smaller(sizes: list[int], before: list[int]) -> bool:
    """Return whether one of the largest inputs of a device is clearly smaller than it was before.

    With fewer inputs, all together are: two may have become one.
    """
    if len(sizes) < len(before):
        sizes, before = [sum(sizes)], [sum(before)]
    return any(now < _GROWN * then for now, then in zip(sizes, before, strict=False))
