"""Whether timed calls did the required work: by their results, and by what they are seen to do."""

from collections.abc import Callable
from functools import partial
from itertools import repeat
from math import inf
from statistics import median

from pytest_gpuperf.analysis.estimation import Sampled
from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.model.record import Note, Verdict
from pytest_gpuperf.timing import inspection, notes
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.cpu_result import CpuResult
from pytest_gpuperf.timing.kept_results import look_for_kept, look_for_kept_in_turn
from pytest_gpuperf.timing.process_state import require_same_types
from pytest_gpuperf.timing.sides import Sides
from pytest_gpuperf.timing.time_budget import TimeBudget
from pytest_gpuperf.work import device_work
from pytest_gpuperf.work.checks import ResultChecks, When
from pytest_gpuperf.work.device_work import CpuWork, Sight
from pytest_gpuperf.work.result_check import are_equal
from pytest_gpuperf.work.returned import Returned, are_same, remember
from pytest_gpuperf.work.values import Leaf, Result, walked
from pytest_gpuperf.work.workload import Workload

_BEYOND_HARDWARE = 50  # times as fast: beyond what memory and units of a GPU give over those of a CPU
_NEXT_TO_NONE = 0.01  # of the time limit: what takes less with a look at its result is called after that, too

OnHost = list[list[Leaf]]
"""A result, copied to the host.

Of a workload with a reset those of the first two calls after it: of a training step only the second shows
what the first one has changed.
"""


class RequiredWork:
    """The results of both sides, first and last, and whether the GPU's call works.

    Work that was not the required work is a GpuPerfError; what is in doubt is a note.
    """

    def __init__(
        self,
        sides: Sides,
        checks: ResultChecks,
        budget: TimeBudget,
        max_time: float,
        add_note: Callable[[Note | None], None],
    ) -> None:
        self.of_cpu: OnHost = []
        self.of_gpu: OnHost = []
        self._sides = sides
        self._checks = checks
        self._budget = budget
        self._max_time = max_time
        self._add_note = add_note
        self._sight: Sight = "seen"
        self._last_sight: Sight = "seen"
        self._work_of_cpu: CpuWork | None = None

    def compare_first_results(self) -> None:
        """Compare the results of the first calls, where there are those of both devices."""
        cpu, gpu = self._sides.cpu, self._sides.gpu
        if cpu is None or gpu is None:
            return
        self._compare(self.of_gpu, gpu.device, "before")
        if self._checks.differ and isinstance(cpu, BlockTimer):
            self._require_steady(cpu.workload)
        if gpu.workload.restore is None:
            self.of_gpu = []  # they take up room on the host

    def require_work(self) -> None:
        """Refuse a GPU's call that does nothing where the CPU's works."""
        cpu, gpu = self._sides.cpu, self._sides.gpu
        if cpu is None or gpu is None:
            return
        are_compared = self._checks.compared_arrays
        with self._budget.without_limit():  # the first look of a process imports for a second
            self._sight = device_work.require_work(gpu.workload, self.work_of_cpu, are_compared=are_compared)

    def require_last_results(self) -> None:
        """Hold the results of later calls against the first ones, and the GPU's against the CPU's."""
        cpu, gpu = self._sides.cpu, self._sides.gpu
        if isinstance(cpu, BlockTimer):
            self._require_same(self.of_cpu, self._last_results(cpu), cpu)
        if gpu is None:
            return
        last = self._last_results(gpu)
        if cpu is None or gpu.workload.restore is not None:
            self._require_same(self.of_gpu, last, gpu)
        if cpu is not None:
            self._compare(last, gpu.device, "after")
            self._require_last_work(gpu)

    def forget_results(self) -> None:
        """Give back the room of the first results."""
        self.of_cpu, self.of_gpu = [], []

    def work_of_cpu(self) -> CpuWork | None:
        """Return what the CPU's calls do, as the GPU's are held against it; None where nobody looked."""
        cpu = self._sides.cpu
        if isinstance(cpu, CpuResult):
            return cpu.work
        if cpu is not None and self._work_of_cpu is None:
            self._sides.device = cpu.device
            self._work_of_cpu = device_work.of_cpu(cpu.workload)
        return self._work_of_cpu

    def find_doubt(self, ended: Verdict, sampled: Sampled) -> str | None:
        """Return why it is not known that the GPU did anything, where the test would pass; else note that."""
        gpu = self._sides.gpu
        if not sampled.rounds or gpu is None or ended.status not in ("passed", "recorded"):
            return None
        noun = gpu.device.info.noun
        at_last = None if self._checks.compared_arrays else device_work.doubt(self._last_sight, noun)
        is_beyond = sampled.value > _BEYOND_HARDWARE
        doubt = device_work.doubt(self._sight, noun) or (at_last if is_beyond else None)
        if doubt is None and ended.status == "passed":  # else it is a note, as in each case
            doubt = notes.no_work(sampled.cpu, sampled.gpu, noun)
        if doubt is not None and ended.status == "passed":
            return doubt
        if (text := doubt or at_last) is not None:
            self._add_note(Note(code="work_in_doubt", text=text))
        return None

    def _require_last_work(self, gpu: BlockTimer) -> None:
        """Refuse a GPU's call that works no more, where its first one did; a reset may make it work again."""
        if self._sight == "seen" and gpu.workload.restore is None:
            seconds, shows = median(gpu.samples or [inf]), gpu.calls.shows_at_last
            self._last_sight = device_work.require_last_work(
                gpu.workload, self.work_of_cpu, seconds=seconds, shows=shows
            )

    def _require_same(self, first: OnHost, last: OnHost, timer: BlockTimer) -> None:
        """Refuse results of a device that change from call to call, or after each reset."""
        has_reset = timer.workload.restore is not None
        for before, now in zip(first if has_reset else repeat(first[0]), last, strict=False):
            self._checks.require_same_result(before, now, timer.workload)

    def _compare(self, gpu: OnHost, device: TimedDevice, when: When) -> None:
        """Compare results after as many calls since a reset; without one, each with the CPU's first."""
        cpu = self.of_cpu
        for on_cpu, on_gpu in zip(cpu if len(cpu) > 1 else repeat(cpu[0]), gpu, strict=False):
            self._checks.compare(on_cpu, on_gpu, device, when)

    def _require_steady(self, workload: Workload) -> None:
        """Refuse a CPU's call that gives another result when it is made again: devices differ for that.

        Not a whole body, which may draw other inputs each time.
        """
        if workload.scope == "call" and workload.restore is None and self._budget.remaining() >= 0:
            with workload.device.context():
                again = walked(workload.call(), capabilities.holds(workload.device))
                last = self._checks.copy_to_host(again, workload.device, workload.used_dtypes)
            self._checks.require_same_result(self.of_cpu[0], last, workload)

    def _last_results(self, timer: BlockTimer) -> OnHost:
        """Return the results of the last call in a block and, while there is time, of one more call.

        What only timed calls leave out shows in the first, what only every second call does in one of them.
        Of a workload with a reset they are those of the first two calls after it. A workload that changed its
        inputs or kept a result is refused.
        """
        self._sides.device = timer.device
        with timer.device.context():
            return self._checked_last_results(timer)

    def _checked_last_results(self, timer: BlockTimer) -> OnHost:
        sampled, workload = self._sides.sampled(timer), timer.workload
        used, holds = workload.used_dtypes, capabilities.holds(timer.device)
        results = []
        returned = workload.returned
        if sampled.samples:
            result = walked(sampled.last_result, holds)
            require_same_types(workload, result.values)
            if workload.restore is None:
                results.append(self._checks.copy_to_host(result, timer.device, used))
                now = remember(result.values, timer.device, keep=True)
                self._look_for_kept_result(timer, result, returned, now)
                returned = now
                del now
            del result
        sampled.drop_result()
        timer.keeps_result = sampled.keeps_result = False
        has_time = partial(self._has_time, sampled)
        after_reset = workload.after_reset()
        if has_time():
            result = inspection.inspected_call(timer)
            self._add_note(notes.on_first_call(timer))
            if after_reset is not None:
                with timer.memory.settling():  # what was returned before was not kept
                    pass
            results.append(self._checks.copy_to_host(result, timer.device, used))
            if after_reset is not None:
                after_reset.look(is_first=True)
            if after_reset is not None and has_time():
                returned = remember(result.values, timer.device, keep=True)
                del result
                result = walked(workload.call(), holds)
                results.append(self._checks.copy_to_host(result, timer.device, used))
                after_reset.look(is_first=False)
            # Of a call that wrote its state again the buffer is the same, and the result is another one.
            if after_reset is None or (len(results) > 1 and are_equal(*results)):
                now = remember(result.values, timer.device, keep=True)
                self._look_for_kept_result(timer, result, returned, now)
                del now
            del result
        with timer.memory.settling():
            del returned
        for note in self._checks.require_same_inputs(workload, after_reset, has_time):
            self._add_note(note)
        if workload.restore is None:
            is_busy = self._sides.interference(timer) is not None
            look_for_kept_in_turn(workload, sampled.samples, has_time, is_busy=is_busy)
        return results

    def _look_for_kept_result(
        self, timer: BlockTimer, result: Result, before: Returned, now: Returned
    ) -> None:
        """Note where a call may not have made its result."""
        if samples := self._sides.sampled(timer).samples:
            is_same = are_same(before, now)
            is_busy = self._sides.interference(timer) is not None
            note = look_for_kept(timer.workload, result, samples, is_same=is_same, is_busy=is_busy)
            self._add_note(note)

    def _has_time(self, sampled: BlockTimer) -> bool:
        """Return whether one more call may be made and looked at: in time, or too short to matter."""
        seconds = median(sampled.samples or [inf]) + self._checks.longest_look
        return self._budget.remaining() >= 0 or seconds < _NEXT_TO_NONE * self._max_time
