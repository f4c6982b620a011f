"""From a test's shape and its body to a verdict: who is measured, and with whom it is compared."""

from collections.abc import Callable, Iterable, Mapping

from pytest_gpuperf.collection.items import ItemSpec
from pytest_gpuperf.devices.machine import Machine
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.devices.spec import DeviceSpec
from pytest_gpuperf.model.demand import Plan
from pytest_gpuperf.model.errors import GpuPerfError, Unavailable
from pytest_gpuperf.model.measurement import Measurement
from pytest_gpuperf.model.record import Record, Verdict
from pytest_gpuperf.timing.checks import CpuResult
from pytest_gpuperf.timing.inspection import Bind
from pytest_gpuperf.timing.trial import Trial

__all__ = ["ItemRunner"]

_ONE_DEVICE = "one side only (--gpuperf-side): gpuperf merge compares it with a report of the other"
_OFF = "measuring is turned off by --gpuperf-off"
_ALONE = (
    "there is nothing to compare with: the test works on the GPU only, and none is its CPU sibling; take the "
    "fixture device or xp, parametrize the test over both devices, or join it to one with pair"
)
_NO_GPU_SIBLING = (
    "there is nothing to compare with: the test works on the CPU only, and none is its GPU sibling; let the "
    "suite have both, and skip the GPU's where there is none"
)
_RECORDED = Verdict(status="recorded", reason=None)


class ItemRunner:
    """Measures one test after the other, and keeps what CPU siblings leave for their GPU siblings.

    `gpu` opens a GPU or ends the test; `records` are those of the tests that have ended.
    """

    def __init__(
        self,
        plan: Plan,
        machine: Machine,
        gpu: Callable[[DeviceSpec | None], TimedDevice],
        records: Mapping[str, Record],
    ) -> None:
        self._plan = plan
        self._machine = machine
        self._gpu = gpu
        self._records = records
        self._left: dict[str, CpuResult] = {}
        self._awaited: dict[str, list[DeviceSpec]] = {}
        self._selected: set[str] = set()
        self._deselected: frozenset[str] = frozenset()
        self._partners: frozenset[str] = frozenset()

    def expect(self, shapes: Iterable[ItemSpec], deselected: Iterable[str], partners: Iterable[str]) -> None:
        """Say which tests will run: what a CPU sibling leaves is kept until the last has used it.

        `partners` are the CPU siblings of all GPU siblings, of those that will not run, too.
        """
        self._partners = frozenset(partners)
        self._deselected = frozenset(deselected)
        self._awaited.clear()
        for shape in shapes:
            self._selected.add(shape.nodeid)
            if shape.partner is not None and shape.side is not None:
                self._awaited.setdefault(shape.partner, []).append(shape.side)

    def distrust(self, shape: ItemSpec) -> None:
        """Let go of what a CPU sibling left, for it runs again, or has failed since."""
        self._left.pop(shape.nodeid, None)

    def forget(self, shape: ItemSpec) -> None:
        """Let go of what the CPU sibling left, when its last GPU sibling has been measured."""
        waiting = self._awaited.get(shape.partner or "", [])
        if shape.side in waiting:
            waiting.remove(shape.side)
        if shape.partner is not None and not waiting:
            self._left.pop(shape.partner, None)

    def left_for(self, shape: ItemSpec) -> Measurement | None:
        """Return what the CPU sibling measured."""
        ended = self._records.get(shape.partner or "")
        return ended.cpu if ended is not None and ended.status == "recorded" else None

    def measure(self, trial: Trial, shape: ItemSpec, bind: Bind) -> Verdict:
        """Measure a test in the way that its shape allows."""
        if self._plan.off:
            return self._run_once(trial, shape, bind)
        if shape.kind == "cpu":
            return self._time_cpu(trial, shape, bind)
        if shape.kind == "gpu":
            return self._time_gpu(trial, shape, bind)
        try:
            gpu = self._machine.gpu()
        except Unavailable as cause:
            reason = str(cause)
        else:
            return trial.compare(bind, self._machine.cpu(), gpu)
        seconds, cpu = self._plan.precision_time, self._machine.cpu()
        trial.without_gpu(trial.time_cpu(bind, cpu, most_blocks=self._plan.max_rounds, seconds=seconds))
        return Verdict(status="skipped", reason=reason, reason_code="no_gpu")

    def _time_cpu(self, trial: Trial, shape: ItemSpec, bind: Bind) -> Verdict:
        awaited = any(self._machine.has_gpu(side) for side in self._awaited.get(shape.nodeid, ()))
        long = shape.source != "all" and (awaited or shape.pair is None)
        seconds = trial.plan.max_time / 4 if long else trial.plan.precision_time
        cpu = self._machine.cpu(shape.side)
        side = trial.time_cpu(bind, cpu, most_blocks=self._plan.max_rounds, seconds=seconds)
        if awaited:
            self._left[shape.nodeid] = side
        else:
            trial.without_gpu(side)
        if shape.pair is None:
            trial.note("one_device", _ONE_DEVICE)
        elif not shape.demand.bare and shape.nodeid not in self._partners:
            trial.note("no_gpu_sibling", _NO_GPU_SIBLING)
        return _RECORDED

    def lonely(self, shape: ItemSpec) -> str | None:
        """Return why a demand cannot be answered, where the test has no sibling on the other device.

        On the CPU that is no mistake where there is no GPU, and none must be.
        """
        if shape.demand.bare or shape.pair is None:
            return None
        if shape.kind == "gpu":
            return _ALONE if shape.partner is None else None
        if shape.nodeid in self._partners:
            return None
        is_gpu_there = self._plan.require_gpu or (not self._plan.off and self._machine.has_gpu())
        return _NO_GPU_SIBLING if is_gpu_there else None

    def _time_gpu(self, trial: Trial, shape: ItemSpec, bind: Bind) -> Verdict:
        gpu = self._gpu(shape.side)
        if shape.partner in self._left:
            return trial.compare_with(self._left[shape.partner], bind, gpu)
        ended = self._records.get(shape.partner or "")
        if ended is not None and ended.status == "skipped" and ended.cpu is None:
            reason = f"its CPU sibling was skipped: {ended.reason}"
            return Verdict(status="skipped", reason=reason, reason_code="cpu_sibling_skipped")
        if not (shape.demand.bare or shape.pair is None):
            raise GpuPerfError(self._alone(shape.partner, ended))
        seconds = trial.plan.precision_time if shape.pair is not None else trial.plan.max_time / 4
        trial.time_gpu(bind, gpu, most_blocks=self._plan.max_rounds, seconds=seconds)
        if shape.pair is None:
            trial.note("one_device", _ONE_DEVICE)
        else:
            trial.note("no_cpu_sibling", self._alone(shape.partner, ended))
        return _RECORDED

    def _run_once(self, trial: Trial, shape: ItemSpec, bind: Bind) -> Verdict:
        """Run the workload once on each device that is there, measuring nothing."""
        sides = {"cpu": self._machine.cpu, "gpu": self._machine.gpu}
        for kind in sides if shape.kind is None else [shape.kind]:
            try:
                device = sides[kind](shape.side)
            except Unavailable:
                continue
            trial.use(device)
            outcome = bind(device)()
            if callable(outcome):
                outcome()
            device.synchronize()
        return Verdict(status="skipped", reason=_OFF, reason_code="measuring_off")

    def _alone(self, partner: str | None, ended: Record | None) -> str:
        """Return why a GPU sibling has nothing to be compared with."""
        if partner is None:
            return _ALONE
        if ended is not None:
            how = f"ended as {ended.status}" + (f": {ended.reason}" if ended.reason else "")
        elif partner in self._deselected:
            how = "was deselected; select both"
        elif partner in self._selected:
            how = "did not run before it in this process: another one lost it, or has run it"
        else:
            how = "was not selected; select both"
        return f"there is nothing to compare with: its CPU sibling {partner} {how}"
