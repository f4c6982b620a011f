"""The first calls of one test on its devices, and what they show at once."""

from collections.abc import Callable
from dataclasses import replace

from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.record import Note
from pytest_gpuperf.timing import notes, secondary
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.question import Question
from pytest_gpuperf.timing.required_work import OnHost
from pytest_gpuperf.timing.sides import Sides
from pytest_gpuperf.timing.time_budget import TimeBudget
from pytest_gpuperf.work import device_work
from pytest_gpuperf.work.checks import ResultChecks
from pytest_gpuperf.work.first_call import Bind, first_call
from pytest_gpuperf.work.values import incomparable


class FirstCalls:
    """The first calls of one test. `notes` on them outlast a restart; `emulation` is that on an emulated GPU.

    `has_run` is whether the test has run once to its end, with the callable that it returned: what is raised
    later is raised because it is measured. `after_run` is called after that on each device.
    """

    def __init__(
        self,
        sides: Sides,
        demand: Demand,
        question: Question,
        checks: ResultChecks,
        budget: TimeBudget,
        after_run: Callable[[], None] = lambda: None,
    ) -> None:
        self.has_run = False
        self.emulation: Note | None = None
        self.notes: list[Note] = []
        self._sides = sides
        self._demand = demand
        self._question = question
        self._checks = checks
        self._budget = budget
        self._after_run = after_run

    def make(self, bind: Bind, device: TimedDevice) -> tuple[BlockTimer, OnHost]:
        """Make the first call; return a timer of the workload, and its results on the host."""
        self._sides.device = device
        self._budget.start(device.clock)
        with device.context():
            left = self._budget.remaining()
            workload, result = first_call(bind, device, self._budget.without_limit, self._end_run)
            self._checks.looking += left - self._budget.remaining()
            secondary.require_separable(self._demand, workload)
            values = [self._checks.copy_to_host(result, device, workload.used_dtypes)]
            holds = capabilities.holds(device)
            if any(holds(leaf.value) for leaf in incomparable(values[0])):
                workload = replace(workload, has_host_form=False)
            if workload.restore is not None:
                values.append(self._checks.copy_to_host(workload.call(), device, workload.used_dtypes))
        if device.kind == "gpu":
            self._checks.runs_products = self._runs_products
            self._checks.require_device_work(workload)
            self.emulation = notes.on_emulation(workload, result.values)
        works_here = device_work.is_seen_at_first(workload)
        timer = BlockTimer(workload=workload)
        self.notes += filter(None, [notes.on_placement(workload, result.values, works_here=works_here)])
        self.notes += filter(None, [self._question.after_first_call(timer, device)])
        return timer, values

    def _end_run(self) -> None:
        self.has_run = True
        self._after_run()

    def _runs_products(self) -> bool | None:
        """Return whether the GPU's workload multiplies or convolves, which one more call may show."""
        if self._sides.gpu is None:
            return None
        workload = self._sides.gpu.workload
        with workload.device.context():
            return capabilities.seen_of(workload.device.runs_products, workload.call, workload.prepare)
