"""Whether samples are those of steady work on a quiet machine, or the verdict stands if they are not."""

from collections.abc import Callable

from msgspec import structs

from pytest_gpuperf.analysis import looks, verdict
from pytest_gpuperf.analysis.looks import Look
from pytest_gpuperf.analysis.noise import Disturbance
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.measurement import Speedup
from pytest_gpuperf.model.record import Verdict
from pytest_gpuperf.timing import notes
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.late_look import LateLook
from pytest_gpuperf.timing.process_state import Change, StateProbe
from pytest_gpuperf.timing.rounds import RoundSampler
from pytest_gpuperf.timing.sides import Sides
from pytest_gpuperf.work.first_call import Bind

_BUSY = "the machine was busy with other work"
_QUICK = 0.25  # seconds of sampling: what took less may rest on calls that become fast later


class Stability:
    """What made the samples of one test other than those of quiet, steady loops.

    That is other work on the machine, a body that sets something for the whole process, or calls that take
    another time later. `change` is what the verdict must outlast; None without one.
    """

    def __init__(
        self,
        sides: Sides,
        sampler: RoundSampler,
        demand: Demand,
        options: RunOptions,
        remaining: Callable[[], float],
    ) -> None:
        self.change: Change | None = None
        self._sides = sides
        self._sampler = sampler
        self._rounds = sampler.rounds
        self._demand = demand
        self._options = options
        self._remaining = remaining
        self._probe: StateProbe | None = None
        self._late: LateLook | None = None
        self._late_change: Change | None = None

    def probe(self, timer: BlockTimer) -> None:
        """Time a workload before the other device's body runs."""
        self._probe = StateProbe(timer=timer, max_time=self._options.max_time)

    def look_for_change(self, bind: Bind, other: TimedDevice) -> None:
        """Look whether the other device's body has changed a call's time; after a restart only if it had not.

        Raises GpuPerfError where it surely has.
        """
        if self._probe is not None:
            self.change = self.change or self._probe.change(bind, other)

    def late_look(self, cpu: BlockTimer, gpu: BlockTimer) -> LateLook | None:
        """Return a look at whether later calls take another time; None once one has found that."""
        asks = self._options.sampling.may_restart and self._late_change is None
        self._late = self._sampler.late_look(cpu, gpu) if asks else None
        return self._late

    @property
    def disturbance(self) -> Disturbance | None:
        """What is certain of the speedup, if the samples of either device are not those of quiet loops."""
        sides = self._sides
        cpu, gpu = sides.interference(sides.cpu), sides.interference(sides.gpu)
        return self._rounds.sampled.in_spite_of(cpu, gpu, sides.names)

    def may_stop(self) -> bool:
        """Return whether the verdict stands in spite of a disturbance, or more rounds are no use."""
        self.measure_least_times()
        disturbance = self.disturbance
        if disturbance is None or self._decides(disturbance.speedup):
            return True
        medians = structs.replace(disturbance.speedup, low=disturbance.least, high=disturbance.most)
        return not self._decides(medians, looks.EXACT)  # a later look would not decide either

    def measure_least_times(self) -> None:
        """Measure once what calls need in any case, where other work disturbed the samples."""
        for timer in self._sides.timers:
            self._sides.device = timer.device
            sampled = self._sides.sampled(timer)
            if timer.processors.least_time is None:
                sampled.measure_least_time(self._remaining())
                timer.processors.least_time = sampled.processors.least_time
            sampled.processors.least_time = timer.processors.least_time

    def settle(self, *, is_last: bool) -> bool:
        """Return whether the samples count; a late change in the last ones is a doubt of the verdict."""
        is_late = self._late is not None and self._changed_late(self._late)
        if is_late and is_last:
            self.change = self.change or self._late_change
        return self._are_usable and not is_late

    @property
    def restart_reason(self) -> str:
        """Why samples are discarded: the machine was busy, or later calls took another time."""
        return _BUSY if self._late_change is None else self._late_change.text

    def unless_changed(self, ended: Verdict, note: Callable[[str], None]) -> Verdict:
        """Return the verdict: inconclusive where it rests on which of a device's two times is right.

        The sentence on these times is noted.
        """
        change, speedup, cpu = self.change, self._rounds.speedup(), self._sides.cpu
        if change is None or speedup is None or (isinstance(cpu, BlockTimer) and change.is_over(cpu)):
            return ended
        note(change.text)
        least, most = min(1.0, 1 / change.factor), max(1.0, 1 / change.factor)
        found = speedup.estimate
        changed = structs.replace(speedup, low=least * found.lower, high=most * found.upper)
        if ended.reason_code == "devices_disagree" or self._stands(speedup, changed):
            return ended
        return Verdict(status="inconclusive", reason=f"speedup {verdict.ratio(speedup)}: {change.text}")

    def release(self) -> None:
        """Drop every reference that may keep arrays of the devices alive."""
        self._probe = self._late = None

    @property
    def _are_usable(self) -> bool:
        """Whether the machine was quiet, or the verdict stands in spite of it."""
        if not self._sides.is_busy:
            return True
        disturbance = self.disturbance if self._sides.are_both else None
        is_decided = disturbance is not None and self._decides(disturbance.speedup)
        return is_decided or (self._sides.are_both and disturbance is None)

    def _decides(self, changed: Speedup, look: Look | None = None) -> bool:
        """Return whether there is a verdict, which stands where the speedup may be another one."""
        speedup = self._rounds.speedup()
        return bool(speedup and self._demand.limits and self._stands(speedup, changed, look))

    def _stands(self, speedup: Speedup, changed: Speedup, look: Look | None = None) -> bool:
        return verdict.stands(speedup, changed, self._demand, look or self._rounds.sampled.look)

    def _changed_late(self, late: LateLook) -> bool:
        """Return whether quick numbers rest on times that later calls do not take.

        On a busy machine every block may take another time. Times that are only unstable may have changed so.
        """
        is_quick = self._rounds.rounds and (self._rounds.elapsed or 0.0) < _QUICK
        found_other_work = (self._sides.interference(timer) for timer in self._sides.timers)
        is_busy = any(found and found.kind == "cpu_contention" for found in found_other_work)
        if not is_quick or is_busy or (found := late.changed()) is None:
            return False
        self._sides.device = found.timer.device
        self._late_change = notes.late_change(found)
        return True
