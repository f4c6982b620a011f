"""From a test's spec and its body to a verdict: which devices are measured and compared."""

from collections.abc import Callable
from dataclasses import replace
from math import inf

from pytest_gpuperf.collection.items import ItemSpec
from pytest_gpuperf.devices.device_parameter import DeviceSpec
from pytest_gpuperf.devices.host import HostDevice, LoneHostDevice
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.model.demand import RunOptions
from pytest_gpuperf.model.errors import GpuPerfError, Unavailable, UnknownResult
from pytest_gpuperf.model.plain_text import first_line
from pytest_gpuperf.model.record import Record, Verdict
from pytest_gpuperf.model.scaling import Scaling
from pytest_gpuperf.session import hints, no_gpu
from pytest_gpuperf.session.cpu_variants import CpuVariants
from pytest_gpuperf.session.ranks.group import joint_bind, lacks_groups, make_groups
from pytest_gpuperf.session.run_devices import RunDevices
from pytest_gpuperf.timing.trial import Trial
from pytest_gpuperf.work.first_call import Bind

_ONE_DEVICE = (
    "only one device was measured (--gpuperf-default-device): a speedup needs both devices in one run"
)
_NO_CPU_VARIANT = (
    "nothing to compare with: this test runs on the GPU only and has no CPU counterpart; request `device` or "
    "`xp`, parametrize it over both devices, or link it to a CPU test with pair=NAME (one in another class "
    "or file must be collected, too)"
)
_NO_GPU_VARIANT = (
    "nothing to compare with: this test runs on the CPU, and no other variant of it runs on a GPU; keep both "
    "in the suite and skip the GPU one where there is no GPU; where torch or JAX sees none, its tests run on "
    "the CPU"
)
_EMULATE_EITHER = " (--gpuperf-gpu=jax:cpu or torch:cpu emulates one)"
_DIFFERS = (
    "nothing to compare with: no variant of this test on the {other} has the same {parameters}; parametrize "
    "the device by itself, or give both devices equal values (an array, or an object without `==`, is equal "
    "to itself only); with pair=NAME a parameter that goes with the device is left out"
)
_SHARE_OF_ONE_DEVICE = 0.25  # of the time limit, where one device is measured without a variant
_RECORDED = Verdict(status="recorded", reason=None)


class ItemRunner:
    """Measures one test after the other; CPU variants leave their samples for their GPU variants."""

    def __init__(self, options: RunOptions, devices: RunDevices, cpu_variants: CpuVariants) -> None:
        self._options = options
        self._devices = devices
        self._machine = devices.machine
        self._cpu_variants = cpu_variants
        self._not_emulated: set[DeviceSpec | None] = set()  # of which a test of this run found it so

    def measure(self, trial: Trial, spec: ItemSpec, bind: Bind) -> Verdict:
        """Measure a test on the devices that it uses."""
        if spec.scaling is not None:
            return self._compare_counts(trial, spec, spec.scaling, bind)
        if spec.kind == "cpu":
            return self._time_cpu(trial, spec, bind)
        if spec.kind == "gpu":
            return self._time_gpu(trial, spec, bind)
        try:
            gpu = self._machine.gpu(spec.accelerator)
        except Unavailable as cause:
            reason = str(cause)
        else:
            return trial.compare(bind, self._machine.cpu(spec.accelerator), gpu)
        seconds = trial.options.sampling.precision_time
        cpu = self._machine.cpu(spec.accelerator)
        cpu = LoneHostDevice(cpu.name) if isinstance(cpu, HostDevice) else cpu
        try:
            trial.time_alone(bind, cpu, seconds, in_turn=trial.options.sampling.compared)
            trial.secondary.describe_copies()
        except UnknownResult as found:  # of a library that has its own GPU
            if found.library is None:
                raise
            return self._skipped(reason, found.library, no_gpu.UNSEEN)
        except Unavailable as cause:  # of the native device
            return self._skipped(reason if self._machine.choice.is_off else str(cause), None)
        return self._skipped(reason, trial.sides.other_library)

    def without_gpu(self, error: BaseException, reason: str, trial: Trial, spec: ItemSpec) -> Verdict | None:
        """Return the skip of a test that fails because it is measured, where there is no GPU to do that on.

        None where that is an error: on a GPU or an emulated one, and where plain pytest fails the test, too.
        """
        # A variant that has not run to its end may have left out what it asserts: it must not pass.
        is_refused = trial.first_calls.has_run or (spec.kind is None and isinstance(error, GpuPerfError))
        cause = self._why_no_gpu(spec) if is_refused else None
        if cause is None:
            return None
        reason = f"no GPU; on one it would be an error: {reason} ({cause})"
        return Verdict(status="skipped", reason=reason, reason_code="error_on_gpu")

    def _why_no_gpu(self, spec: ItemSpec) -> str | None:
        """Return why neither a marked test nor a GPU variant that waits for it has a GPU; None if one has."""
        if self._options.require_gpu or spec.source == "all" or spec.kind == "gpu":
            return None
        waiting = [each.device for each in self._cpu_variants.waiting_for(spec)]
        causes = []
        for device in waiting or [spec.accelerator]:
            try:
                self._machine.gpu(device)
            except Unavailable as cause:
                causes.append(str(cause))
            else:
                return None
        return causes[0]

    def _skipped(self, reason: str, library: str | None, unseen: str = "") -> Verdict:
        """Return that a test was skipped for want of a GPU of the library that it computes with.

        `unseen` says that nothing is known of its calls: this run's CPU does not wait for that library.
        """
        if library is not None and not self._machine.choice.is_off:
            reason = self._or(no_gpu.OTHER_LIBRARY, no_gpu.EMULATE_IT).format(library=library, unseen=unseen)
        return no_gpu.skip(reason)

    def _or(self, remedy: str, emulate: str) -> str:
        """Return a remedy, with the way to emulate a GPU where none is required."""
        return remedy if self._options.require_gpu else remedy + emulate

    def _compare_counts(self, trial: Trial, spec: ItemSpec, scaling: Scaling, bind: Bind) -> Verdict:
        """Measure a test on so many devices, in rounds with the fewest of its group."""
        open_group: Callable[[int], TimedDevice] = self._devices.group
        if spec.is_in_ranks:
            open_group, bind = self._devices.ranks, joint_bind(bind)
            counts = (scaling.counts[0], scaling.count)
            if lacks_groups(counts):
                self._devices.await_ranks()
            make_groups(counts, rank=0)
        group, ended = open_group(scaling.count), _RECORDED
        if scaling.is_base:
            trial.time_alone(bind, group, trial.options.sampling.precision_time)
        else:
            ended = trial.compare(bind, open_group(scaling.counts[0]), group)
        self._devices.settle_ranks()
        return ended

    def _time_cpu(self, trial: Trial, spec: ItemSpec, bind: Bind) -> Verdict:
        variants = self._cpu_variants.waiting_for(spec)
        waiting = [each for each in variants if self._machine.has_gpu(each.device)]
        is_awaited = bool(waiting)
        # Kept all the same: another test with such a device may do with the emulated one.
        is_in_vain = is_awaited and all(each.device in self._not_emulated for each in waiting)
        lacks_gpu = not is_awaited and (bool(variants) or spec.awaits_gpu)
        sampling = trial.options.sampling
        decides = any(each.demand.limits or each.size_group for each in waiting)
        if is_in_vain:
            seconds = sampling.precision_time
        elif is_awaited and (decides or sampling.compared):
            seconds = inf  # all of the rounds' time: what limits and checks rest on cannot be measured again
        elif spec.source == "all":
            seconds = sampling.record_time
        elif is_awaited or spec.pair is None:
            seconds = _SHARE_OF_ONE_DEVICE * trial.options.max_time
        else:
            seconds = sampling.precision_time
        try:
            in_turn = sampling.compared or not lacks_gpu
            result = trial.time_alone(bind, self._machine.cpu(spec.device), seconds, in_turn=in_turn)
        except UnknownResult as found:
            if found.library is None or is_awaited:
                raise
            try:
                self._machine.gpu()
            except Unavailable as cause:
                return self._skipped(str(cause), found.library, no_gpu.UNSEEN)
            raise
        if is_awaited:
            self._cpu_variants.keep(spec, replace(result, work=trial.work_of_cpu()))
        else:
            trial.secondary.describe_copies()
        if spec.pair is None:
            trial.note("no_partner", _ONE_DEVICE)
        elif self._cpu_variants.has_gpu_variant(spec):
            pass
        elif spec.device and spec.device.is_default and not spec.demand.bare:
            library = spec.device.library
            reason = no_gpu.ON_CPU_BY_DEFAULT.format(library=library, emulated=f"{library}:cpu")
            return no_gpu.skip(reason)
        elif not spec.demand.bare or spec.pair.kind == "name":
            trial.note("no_partner", _why_alone(spec, self._no_gpu_variant))
        return _RECORDED

    def missing_counterpart_reason(self, spec: ItemSpec) -> str | None:
        """Return why a test with limits cannot be judged, if it has no variant on the other device.

        A CPU test without a GPU variant is accepted where there is no GPU, unless one is required, and where
        one is emulated and its variant needs that of another library.
        """
        if spec.demand.bare or spec.pair is None:
            return None
        if spec.kind == "gpu":
            return _why_alone(spec, _NO_CPU_VARIANT) if spec.partner is None else None
        if self._cpu_variants.has_gpu_variant(spec):
            return None
        has_gpu = self._machine.has_gpu() and not (spec.awaits_gpu and self._machine.gpu().info.emulated)
        has_gpu = has_gpu or self._options.require_gpu
        return _why_alone(spec, self._no_gpu_variant) if has_gpu else None

    @property
    def _no_gpu_variant(self) -> str:
        return self._or(_NO_GPU_VARIANT, _EMULATE_EITHER)

    def _time_gpu(self, trial: Trial, spec: ItemSpec, bind: Bind) -> Verdict:
        gpu = self._devices.gpu(spec.device)
        try:
            return self._time_variant(trial, spec, bind, gpu)
        except Exception as error:
            # An own parameter names a device, as "cuda", which what emulates a GPU need not understand.
            is_named = spec.source != "all" and spec.names_device
            if not (is_named and gpu.info.emulated and hints.lacks_device(error)):
                raise
            self._not_emulated.add(spec.device)
            self._devices.none(no_gpu.NAMED.format(first_line(error), gpu.info.name))

    def _time_variant(self, trial: Trial, spec: ItemSpec, bind: Bind, gpu: TimedDevice) -> Verdict:
        if (result := self._cpu_variants.result_for(spec)) is not None:
            return trial.compare_with(result, bind, gpu)
        cpu_record = self._cpu_variants.end_for(spec)
        if cpu_record is not None and cpu_record.status == "skipped" and cpu_record.cpu is None:
            reason = f"its CPU variant was skipped: {cpu_record.reason}"
            return Verdict(status="skipped", reason=reason, reason_code="cpu_variant_skipped")
        if not (spec.demand.bare or spec.pair is None):
            raise GpuPerfError(self._no_comparison_reason(spec, cpu_record))
        if spec.pair is None:
            trial.time_alone(bind, gpu, _SHARE_OF_ONE_DEVICE * trial.options.max_time)
            trial.note("no_partner", _ONE_DEVICE)
        else:
            trial.time_alone(bind, gpu, trial.options.sampling.precision_time)
            trial.note("no_partner", self._no_comparison_reason(spec, cpu_record))
        return _RECORDED

    def _no_comparison_reason(self, spec: ItemSpec, cpu_record: Record | None) -> str:
        """Return why a GPU variant has nothing to be compared with."""
        if spec.partner is None:
            return _why_alone(spec, _NO_CPU_VARIANT)
        reason = "left no samples"
        if cpu_record is not None:
            reason = f"ended as {cpu_record.status}" + (f": {cpu_record.reason}" if cpu_record.reason else "")
        return f"nothing to compare with: its CPU variant {spec.partner} {reason}"


def _why_alone(spec: ItemSpec, reason: str) -> str:
    """Return why a test has no variant on the other device: there is none, or its parameters differ."""
    if not spec.differs:
        return reason
    other = "CPU" if spec.kind == "gpu" else "GPU"
    return _DIFFERS.format(other=other, parameters=" and ".join(spec.differs))
