"""From a test's body and two groups of devices to a record: how much more devices shorten it."""

from dataclasses import replace
from typing import Any

from pytest_gpuperf.analysis import scaling, verdict
from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.group import DeviceGroup
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.record import Record, Verdict
from pytest_gpuperf.model.scaling import Scaling
from pytest_gpuperf.timing import outcome
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.leaves import Leaf
from pytest_gpuperf.timing.scaling_checks import ScalingChecks
from pytest_gpuperf.timing.trial import Trial
from pytest_gpuperf.timing.untimed_calls import Bind, devices_at_work


class ScalingTrial(Trial):
    """The measurement of one test on a group of devices, in interleaved rounds with the fewest devices.

    `compare` takes the fewest devices in the place of the CPU: its speedup is their time / that of the group.
    Copies and latencies are not timed.
    """

    def __init__(
        self,
        *,
        nodeid: str,
        demand: Demand,
        scaling: Scaling,
        options: RunOptions,
        **others: Any,
    ) -> None:
        super().__init__(nodeid=nodeid, demand=demand, options=options, **others)
        self._scaling = scaling
        self._scaling_checks = self._checks = ScalingChecks(demand, scaling)

    def time_base(self, bind: Bind, group: DeviceGroup, seconds: float) -> None:
        """Time the body on the fewest devices alone: two blocks, and more within `seconds`."""
        self._gpu, results = self._first_call(bind, group)
        with self._budget.lock():
            self._rounds.take_alone(self._warmed_up(self._gpu)[0], seconds)
            self._require_same_results(results, self._gpu)

    def record(self, ended: Verdict) -> Record:
        """Return everything that has been measured so far, with how the test ended."""
        record = super().record(ended)
        of_base = record.cpu
        # Of other results nobody wants to know how soon they came.
        speedup = None if self._checks.differ else record.speedup
        found = scaling.with_speedup(self._scaling, speedup, of_base)
        return replace(
            record,
            cpu=None,
            speedup=None,
            memory=None,
            scaling=found,
            interference=record.interference or record.gpu_interference,
            gpu_interference=None,
        )

    def _first_call(self, bind: Bind, device: Any) -> tuple[BlockTimer, list[list[Leaf]]]:
        """Make the first call, which must use all of the devices."""
        timer, values = super()._first_call(bind, device)
        self._add_note(self._scaling_checks.check_inputs(timer.workload, device))
        if device.count > 1:
            with capabilities.context(device):
                at_work = devices_at_work(timer.workload, device)
            self._scaling_checks.require_all_devices(at_work, device)
        return timer, values

    def _measure_secondary(self, *timers: BlockTimer) -> None:
        """Skip copies and latencies: copies to one device say nothing about several."""

    def _judge(self) -> Verdict:
        """Return the verdict on the parallel efficiency; results must agree wherever one is required."""
        speedup = self._speedup
        if self._checks.disagreement is not None and self._scaling.required is not None:
            return Verdict(status="failed", reason=self._checks.disagreement, reason_code="devices_disagree")
        if self._checks.disagreement is not None or speedup is None:
            return super()._judge()
        self.notes += (*outcome.notes_on_rounds(self._rounds), *self._checks.notes)
        if (dependence := verdict.autocorrelation_note(speedup)) is not None:
            self.note("dependent_samples", dependence)
        return verdict.judge(
            speedup,
            self.demand,
            self.options,
            self._disturbance,
            self._rounds.throttled,
            state=scaling.describe(self._scaling, speedup),
            missed="efficiency_below_limit",
        )
