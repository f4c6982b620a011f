"""What is measured besides throughput: the copies of each call, single calls, and whether the call blocks.

No limit rests on them, unless a marker or a check asks for copies or latency: then they are in the rounds.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from math import inf
from typing import Any, Literal

import numpy as np
from msgspec.structs import replace

from pytest_gpuperf.analysis.looks import STRETCHES
from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.clock import ClockError, seconds_between
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.errors import GpuPerfError, is_outcome
from pytest_gpuperf.model.measurement import Copies, Transfer
from pytest_gpuperf.model.plain_text import first_line
from pytest_gpuperf.timing import blocks, inspection, warm_up
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.gc_pause import gc_paused
from pytest_gpuperf.timing.sides import Sides
from pytest_gpuperf.timing.trial_context import TrialContext
from pytest_gpuperf.work.values import values_of
from pytest_gpuperf.work.workload import Workload

TIMED_WITH_BODY = (
    "the whole body is the workload, including its transfers; return a callable to time them separately"
)
_NO_HOST_FORM = "an array of the result cannot be copied to the host, so the transfers were not timed"
_NOTHING = (
    "nothing is transferred: no input was uploaded with device.asarray and the result holds no device array, "
    "so all transfer modes are equal"
)
NO_TIME = "max_time was reached before the transfers were timed; allow more time with max_time"
NO_ROUNDS = "every round was dropped, so the transfers were not timed"
NO_ROOM = "not enough device memory for a second copy of the inputs, so the transfers were not timed"
_SHORT_CALL = 0.01  # seconds: a longer one is not repeated only to time its copies with it
_MOST_ROUNDS = 60
_WAITS = 5  # of which the shortest counts


class CopyFailed(Exception):
    """A copy that no limit rests on has failed, for a reason that is not the workload's or the device's."""


class Secondary:
    """What one test's verdict does not rest on, unless a marker or a check asks for it.

    `loop` times calls with their copies, in the rounds of the verdict where that rests on them. `transfer` is
    what is known of the copies. Where nothing secondary `is_asked`, only that loop is timed.
    """

    def __init__(self, sides: Sides, context: TrialContext, *, is_asked: bool) -> None:
        self.loop: BlockTimer | None = None
        self.transfer: Transfer | None = None
        self._sides = sides
        self._context = context
        self._is_asked = is_asked

    def demanded_loop(self) -> BlockTimer | None:
        """Return the timer of calls with their copies, for each round, if a limit or check rests on it."""
        gpu, context = self._sides.gpu, self._context
        is_demanded = context.demand.transfer != "never" or context.options.sampling.in_rounds
        if gpu is not None and is_demanded and context.remaining() >= 0:
            self.loop = loop_timer(gpu.workload, context.options, self._sides.sampled(gpu))
        return self.loop

    def other_modes(self) -> list[BlockTimer]:
        """Return the timers of the mode that the demand is not on, where a check rests on it."""
        is_demanded = self._is_asked and self._context.options.sampling.in_rounds
        return other_modes(self._sides.timers, self._context) if is_demanded else []

    def probe_and_sample(self) -> None:
        """Probe whether a call blocks, and sample single calls, outside the rounds; only if asked to."""
        if self._is_asked:
            probe_and_sample(self._sides.timers, self._context)

    def time_transfers(self, rounds: int) -> None:
        """Time the copies of the GPU's call, in at most as many rounds as the workload has."""
        if self._is_asked and self._sides.gpu is not None:
            self.transfer = time_transfers(self._sides.gpu, rounds, self._context, self.loop)

    def release(self) -> None:
        """Drop the loop, which keeps arrays of the device alive."""
        self.loop = None

    def describe_copies(self) -> None:
        """Say which bytes a GPU would copy, where only the CPU was timed."""
        if isinstance(self._sides.cpu, BlockTimer):
            self.transfer = untimed(self._sides.cpu.workload, "no GPU was measured")


def probe_and_sample(timers: Sequence[BlockTimer], context: TrialContext) -> None:
    """Probe whether the GPU's call blocks, and sample the other mode, while there is time."""
    inspection.probe_blocking(timers[-1], context.remaining())
    if context.remaining() >= 0:
        _sample([other for other in other_modes(timers, context) if not other.samples], _MOST_ROUNDS, context)


def other_modes(timers: Sequence[BlockTimer], context: TrialContext) -> list[BlockTimer]:
    """Return timers of blocks where the demand is on latency, and of single calls where it is on throughput.

    Where each block is one call, both modes are the same, and there is no other timer.
    """
    found = []
    for timer in timers:
        per_call = warm_up.per_call(timer, _in_short_blocks(context.options))
        if per_call is not timer:
            found.append(timer if context.demand.latency else per_call)
    if found:
        warm_up.share_calls(*found)
    return found


def untimed(workload: Workload, reason: str | None = None, loop: BlockTimer | None = None) -> Transfer:
    """Return the sizes of a workload's transfers without their times; `reason` says why there are none.

    The times of a `loop` with them may be known all the same.
    """
    if workload.scope == "body":
        return Transfer(h2d=None, d2h=None, reason=TIMED_WITH_BODY)
    if not workload.has_host_form:
        return Transfer(h2d=None, d2h=None, reason=_NO_HOST_FORM)
    up = Copies(bytes=sum(upload.bytes for upload in workload.uploads), arrays=len(workload.uploads))
    down = Copies(bytes=workload.result_bytes, arrays=workload.result_arrays)
    reason = reason if up.bytes or down.bytes else _NOTHING
    return Transfer(h2d=up, d2h=down, made=workload.created_bytes, reason=reason, loop=_samples(loop))


def require_separable(demand: Demand, workload: Workload) -> None:
    """Refuse a limit that includes transfers where they cannot be timed apart from the workload."""
    if demand.transfer != "never" and workload.scope == "body":
        raise GpuPerfError(f"transfer={demand.transfer!r} has no effect here: {TIMED_WITH_BODY}")


def loop_timer(
    workload: Workload, options: RunOptions, sampled: BlockTimer | None = None
) -> BlockTimer | None:
    """Return a timer, warmed up, of calls with their copies, as a loop makes them; None without any copies.

    Each call uploads all inputs, works, and brings its result to the host. Like the workload it reads its own
    inputs, not the new copies. It holds one result and the inputs twice; the result of a `sampled` timer is
    replaced by its own. Without that no limit rests on the loop, and an upload that fails is a CopyFailed. A
    result that cannot be read is the workload's failure, which some libraries raise only then.
    """
    if not untimed(workload).bytes:
        return None
    call, device, hosts = workload.call, workload.device, _hosts(workload)
    holds = capabilities.holds(device)

    def call_with_copies() -> Any:
        if sampled is not None:
            sampled.drop_result()
        try:
            arrays = [device.asarray(host) for host in hosts]
        except Exception as error:
            if sampled is None and _is_of_copy(error, device):
                raise CopyFailed(first_line(error)) from error
            raise
        result = call()
        if holds(result):
            device.asnumpy(result)
        else:
            for leaf in values_of(result, holds):
                if holds(leaf.value):
                    device.asnumpy(leaf.value)
        if sampled is not None:
            sampled.last_result = result
        del arrays

    comes_down = workload.result_bytes > 0
    loop = call_with_copies if comes_down else blocks.waited_for(call_with_copies, device)
    return warm_up.warmed_up(loop, device, options, workload.restore)


def time_transfers(
    gpu: BlockTimer, rounds: int, context: TrialContext, loop: BlockTimer | None = None
) -> Transfer:
    """Time the transfers in rounds of their own: at most as many as the workload has.

    So is the loop of calls with their transfers, unless it was in the rounds of the verdict. A slow call is
    not repeated for it: what its transfers take apart is then as exact. What the workload raises passes; one
    that has no room beside the copies is called again without them.
    """
    workload = gpu.workload
    if not rounds or context.remaining() < 0 or not untimed(workload).bytes:
        return untimed(workload, NO_TIME if rounds else NO_ROUNDS, loop)
    try:
        return _sampled_transfers(gpu, rounds, context, loop)
    except Exception as error:
        fault = workload.device.fault(error)
        if fault is None or fault.kind != "out_of_memory":
            raise
    # Outside the handler: the traceback of the error would keep the copies alive.
    workload.device.release()
    with workload.device.context():
        workload.prepare()
        workload.call()
        workload.device.synchronize()
    return untimed(workload, NO_ROOM, loop)


def _sampled_transfers(
    gpu: BlockTimer, rounds: int, context: TrialContext, loop: BlockTimer | None
) -> Transfer:
    """Time each direction as a workload of its own, without the waits, which are no part of a copy.

    Several uploads share one wait. Downloads wait each, for as long as that of one number at least.
    The workload's inputs are held twice meanwhile, and one result, of a call of its own. It is a function of
    its own: when it raises, no variable of the caller keeps the copies alive.
    """
    workload, device, options = gpu.workload, gpu.device, _in_short_blocks(context.options)
    rounds = min(rounds, _MOST_ROUNDS)
    if loop is None and gpu.calls.fastest <= _SHORT_CALL:
        loop = loop_timer(workload, options)
        _sample([loop] if loop else [], rounds, context)  # before the others, which hold one more result
    if context.remaining() < 0:
        return untimed(workload, NO_TIME, loop)
    sizes, hosts = untimed(workload), _hosts(workload)
    with device.context():
        workload.prepare()
        holds = capabilities.holds(device)
        returned = [leaf.value for leaf in values_of(workload.call(), holds) if holds(leaf.value)]
        device.synchronize()  # what it still does may fail, and is no copy
    memory = _memory(device, hosts)

    def upload() -> list[Any]:
        return [device.asarray(host) for host in hosts]

    def download() -> None:
        for value in returned:
            device.asnumpy(value)

    def timed(copies: Copies | None, call: Callable[[], Any], *, waits: bool) -> BlockTimer | None:
        return warm_up.warmed_up(call, device, options, calls_wait=waits) if copies and copies.bytes else None

    with _copying(device):
        wait = _wait_of_download(device)
        up, down = timed(sizes.h2d, upload, waits=False), timed(sizes.d2h, download, waits=True)
        _sample([timer for timer in (up, down) if timer], rounds, context)
    is_timed = all(timer.samples for timer in (up, down) if timer)
    return replace(
        sizes,
        reason=None if is_timed else NO_TIME,
        h2d=sizes.h2d and replace(sizes.h2d, samples=_without(_wait_of_block(up), up), memory=memory),
        d2h=sizes.d2h and replace(sizes.d2h, samples=_without(len(returned) * wait, down), memory="pageable"),
        loop=_samples(loop),
    )


def _wait_of_block(timer: BlockTimer | None) -> float:
    """Return the share of each call in the wait that ends its block."""
    return timer.warmup.synchronize_cost / timer.block_calls if timer else 0.0


def _wait_of_download(device: TimedDevice) -> float:
    """Return the seconds that each download waits though the device has nothing to do.

    They are those of a wait for what is ready, or of a single number's download if it takes less: such a
    download does not wait for the device as a whole.
    """
    clock, least = device.clock, inf
    with device.context(), gc_paused():
        number = device.asarray(np.zeros(1, dtype=np.float32))
        wait, download = blocks.waited_for(lambda: number, device), partial(device.asnumpy, number)
        for step in (wait, download) * _WAITS:
            started = clock()
            step()
            least = min(least, seconds_between(started, clock()))
    return least


def _without(wait: float, timer: BlockTimer | None) -> "array[float]":
    """Return the samples without their waits."""
    return array("d", [max(0.0, sample - wait) for sample in _samples(timer)])


@contextmanager
def _copying(device: TimedDevice) -> Iterator[None]:
    """Raise CopyFailed where something fails that calls nothing of the user's."""
    try:
        yield
    except Exception as error:
        if _is_of_copy(error, device):
            raise CopyFailed(first_line(error)) from error
        raise


def _is_of_copy(error: Exception, device: TimedDevice) -> bool:
    """Return whether what was raised in a copy is about that alone: not about a device, or the run."""
    is_about_more = is_outcome(error) or isinstance(error, ClockError)
    return not is_about_more and capabilities.fault(device, error) is None


def _in_short_blocks(options: RunOptions) -> RunOptions:
    plan = options.sampling
    return replace(
        options, sampling=replace(plan, block_time=min(plan.block_time, plan.secondary_block_time))
    )


def _sample(timers: Sequence[BlockTimer], max_rounds: int, context: TrialContext) -> None:
    """Take rounds within the secondary time of the plan.

    As many as there are stretches are taken if the test has time left for them.
    """
    if not timers or not max_rounds or context.remaining() < 0:
        return
    clock = timers[0].device.clock
    started = clock()
    take_round = blocks.round_of(timers, context.order)
    for taken in count(1):
        take_round()
        spent = seconds_between(started, clock())
        if taken >= max_rounds or spent / taken > context.remaining():
            return
        if taken >= STRETCHES and spent >= context.options.sampling.secondary_time:
            return


def _hosts(workload: Workload) -> list[Any]:
    """Return what goes up: arrays, so that the conversion of a list is not timed as a transfer."""
    uploaded = [upload.host() for upload in workload.uploads if upload.host is not None]
    return [host if hasattr(host, "dtype") else np.asarray(host) for host in uploaded]


def _samples(timer: BlockTimer | None) -> "array[float]":
    return array("d", timer.samples if timer else ())


def _memory(device: Any, hosts: list[Any]) -> Literal["pinned", "pageable"] | None:
    """Return the kind of memory that all host arrays are in; one pageable array makes the whole pageable."""
    kinds = {device.host_memory(host) for host in hosts}
    if "pageable" in kinds:
        return "pageable"
    return kinds.pop() if len(kinds) == 1 else None
