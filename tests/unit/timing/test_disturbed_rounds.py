"""Rounds that other work disturbed: more are taken where a later look may decide in spite of it."""

from cases import for_each
from walks import bound, simulated

from pytest_gpuperf.devices.simulated import Clock
from pytest_gpuperf.model.demand import Demand, RunOptions, SamplingPlan
from pytest_gpuperf.model.measurement import Interference
from pytest_gpuperf.model.record import Verdict
from pytest_gpuperf.timing.trial import Trial


class Disturbed(Trial):
    """A trial of which so large a share of the CPU's times is its own; it is not restarted."""

    own_share = 1.0

    def _interference(self, side):
        if side is not self._cpu:
            return None
        return Interference(kind="cpu_contention", own_share=self.own_share, waited=0.5)


@for_each(
    ("status", "own_share", "is_longer"),
    [("passed", 0.9, False), ("passed", 0.5, True), ("inconclusive", 0.3, False)],
)
def test_more_rounds_are_taken_where_a_later_look_may_decide(status, own_share, is_longer):
    """Of a speedup of 4.5 where 1.5 is required, after seven rounds two thirds must be its own."""
    clock = Clock()
    cpu, gpu = (simulated(kind, clock, kernel=ms * 1e-3) for kind, ms in (("cpu", 45), ("gpu", 10)))
    options = RunOptions(sampling=SamplingPlan(may_restart=False))
    trial = Disturbed(nodeid="test", demand=Demand(min=1.5, check=False), options=options)
    trial.own_share = own_share
    found = trial.compare(bound(lambda device: device.launch), cpu, gpu)
    elapsed = trial.record(Verdict(status="recorded", reason=None)).rounds_elapsed
    assert (status, is_longer) == (found.status, elapsed > 0.9)
