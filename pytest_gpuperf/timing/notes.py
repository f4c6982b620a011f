"""From the live measurement of one test to the notes on its numbers."""

from collections.abc import Iterable, Iterator, Sequence
from math import ceil, log
from statistics import fmean, median
from typing import Any, Literal

import numpy as np

from pytest_gpuperf.analysis import verdict
from pytest_gpuperf.analysis.looks import Look
from pytest_gpuperf.analysis.noise import Disturbance
from pytest_gpuperf.analysis.offload import OffloadInput
from pytest_gpuperf.devices import capabilities, environment
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.devices.torch_and_jax import library_of
from pytest_gpuperf.model import ask, units
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import Measurement, Speedup
from pytest_gpuperf.model.plain_text import text_of
from pytest_gpuperf.model.record import Note
from pytest_gpuperf.model.roof import DeviceRoof
from pytest_gpuperf.model.units import first_few
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.late_look import LateTime
from pytest_gpuperf.timing.process_state import Change
from pytest_gpuperf.timing.taken_rounds import TakenRounds
from pytest_gpuperf.timing.time_budget import OtherLimit
from pytest_gpuperf.timing.trial_context import TrialContext
from pytest_gpuperf.work import inputs
from pytest_gpuperf.work.any_array import root
from pytest_gpuperf.work.checks import ResultChecks
from pytest_gpuperf.work.values import Leaf
from pytest_gpuperf.work.workload import NO_WORK, Workload

_BLOCKING_RUNTIMES = ("cuda", "rocm")  # that read the settings: SYCL's, Apple's and a TPU's do not
_NO_TIME = "time was up before the first round: the first call took {} on the CPU and {} on the {gpu}; {more}"
_NO_TIME_BESIDE_LOOKS = (
    "time was up before the first round: to copy inputs and results and look at them took {}, the first call "
    "{} on the CPU and {} on the {gpu}; use smaller inputs, return fewer objects, or {more}"
)
_NO_TIME_ON_HOST = (
    "time was up before the first round: simulated devices compute on this machine, and the calls before it "
    "took {} of its time; use smaller arrays, or device.launch(seconds) in place of work"
)
_MORE = "allow more time with max_time"
_OTHERS = "raise {}'s limit of {}, which ends this test before max_time does"
_MOST_STARTUP = 0.1  # of the time limit may first calls take longer than later ones before a note says so
_MOST_LEFT = 0.02  # of a block's time may be spent beside its calls before a note says so
_MOST_RAISING = 0.1  # of the time limit may be spent on raising clocks before a note says so
_FEWEST_FOR_TOTALS = 60  # rounds: fewer show no calls that are as rare
_DIFFERENT = 1.1
_MORE_AT_FIRST = 2  # times as long as later calls may the device work in the first one
_LEAST_AT_FIRST = 1e-4  # seconds more: less is a plan or a workspace that is made once, or cold caches


def why_no_rounds(
    context: TrialContext, rounds: TakenRounds, first_times: tuple[float, float], looking: float, gpu: str
) -> tuple[Literal["gpu_throttled", "not_enough_time"], str]:
    """Return why a test has no rounds: all of them were dropped, or there was no time.

    `first_times` are the seconds of first calls on the CPU and on the `gpu`, `looking` those of bringing
    inputs and results to the host, and looking at them.
    """
    if rounds.throttled is not None:
        return "gpu_throttled", rounds.throttled
    if (on_host := context.up_on_host()) is not None:
        return "not_enough_time", _NO_TIME_ON_HOST.format(units.seconds(on_host))
    other = context.other_limit()
    calls = [*map(units.seconds, first_times)]
    more = _MORE if other is None else _OTHERS.format(other.owner, units.seconds(other.seconds))
    if looking > sum(first_times):
        looks = units.seconds(looking)
        return "not_enough_time", _NO_TIME_BESIDE_LOOKS.format(looks, *calls, gpu=gpu, more=more)
    return "not_enough_time", _NO_TIME.format(*calls, gpu=gpu, more=more)


def on_other_limit(other: OtherLimit, max_time: float) -> Note:
    """Return the note that somebody else's time limit has shortened a test's."""
    text = (
        f"{other.owner} ends this test after {units.seconds(other.seconds)}, so that it was measured as with "
        f"max_time={round(max_time, 1):g}; for more time raise that limit, too"
    )
    return Note(code="not_enough_time", text=text)


def ended_early(other: OtherLimit) -> str:
    """Return which number to change where somebody else's time limit ended a test before its first round."""
    limit = f"{other.owner}'s limit of {units.seconds(other.seconds)}"
    return f"no round began within {limit}: raise it; max_time does not limit first calls"


def on_gpu(gpu: TimedDevice) -> Iterator[Note]:
    """Yield notes on what slows a GPU down: other processes, and a setting with which it waits."""
    if others := gpu.other_processes():
        use = "1 other process uses" if others == 1 else f"{others} other processes use"
        text = f"{use} the GPU (nvidia-smi lists them): their work may have made the times longer"
        yield Note(code="not_exclusive", text=text)
    setting = environment.blocking_setting()
    is_cuda_or_hip = (gpu.info.runtime or "").casefold().startswith(_BLOCKING_RUNTIMES)
    if setting is not None and is_cuda_or_hip and not gpu.info.emulated:
        text = f"{setting} makes each launch wait for its kernel, which distorts the times; do not set it"
        yield Note(code="slowed_by_settings", text=text)


def on_overlap(measured: Iterable[tuple[str, Measurement]]) -> Iterator[Note]:
    """Yield a note where calls in a loop overlap more than those of the longest blocks that are timed.

    It is one for all devices: the loop of which it asks for more work is the same.
    """
    less, needed = [], 0
    for device, each in measured:
        left = each.overlap_left or 0.0
        if left > _MOST_LEFT:
            beside = each.block_calls * left / (1 - left)  # what a block spends beside its calls, in calls
            blocks = units.count(each.block_calls, "call")
            less.append(f"{100 * left:.0f} % less on {device} than in blocks of {blocks}")
            needed = max(needed, ceil(beside / _MOST_LEFT))
    if less:
        text = (
            f"host and device overlap in a loop, which timed blocks show in part: a call in a loop takes "
            f"{units.listed(less)}; to time such a loop, let one call do the work of {needed}"
        )
        yield Note(code="overlap_not_measured", text=text)


def on_first_call(timer: BlockTimer) -> Note | None:
    """Return a note where the device worked for much longer in the first call than later calls take.

    A later call's time is that of the inspected one by the device's events, or all of the second call's, if
    more: events may see a part, and a device that is slow at first still is then. A GPU that idled before the
    first call may have had low clocks.
    """
    first, inspection = timer.workload.first_device_time, timer.inspection
    later = inspection.device_time if inspection is not None else None
    if first is None or later is None:
        return None
    beyond_clocks = first - (timer.clocks.ramp or 0.0)
    most = max(later, timer.calls.second)
    if beyond_clocks <= max(_MORE_AT_FIRST * most, most + _LEAST_AT_FIRST):
        return None
    on = timer.device.info.noun
    text = (
        f"the first call worked {units.seconds(first)} on the {on}, and a later one "
        f"{units.seconds(later)}: it may have tuned something or filled a cache, or later calls start warm "
        "or end early; if these are what counts, call once in the setup, and else let each call do all its "
        "work, with gpuperf.workload(call, reset=...)"
    )
    return Note(code="work_in_doubt", text=text)


def late_change(found: LateTime) -> Change:
    """Return by which factor the speedup was too large, since later calls take another time."""
    before, now, device = found.before, found.now, found.timer.device
    text = (
        f"on the {device.info.noun} later calls took {units.seconds(now)} each, "
        f"and the timed ones {units.seconds(before)}"
    )
    return Change(factor=before / now if device.kind == "cpu" else now / before, text=text)


def on_libraries(timers: Sequence[BlockTimer], max_time: float) -> Iterator[Note]:
    """Yield notes on what libraries did besides the timed work: they compiled, or used the CPU."""
    startup = sum(timer.measurement.startup or 0.0 for timer in timers)
    if startup > _MOST_STARTUP * max_time:
        first = [timer.workload.first_call for timer in timers]
        each = (f"{units.seconds(timer.workload.first_call)} on the {_noun(timer)}" for timer in timers)
        text = (
            f"first calls took {units.seconds(sum(first))} ({', '.join(each)}): imports, compilation, "
            "autotuning; max_time does not limit them"
        )
        yield Note(code="long_warm_up", text=text)
    for timer in timers:
        modes = filter(None, (timer, timer.per_call_timer))
        if recompiles := sum(mode.calls.recompiles for mode in modes):
            text = (
                f"in {units.count(recompiles, 'timed block')} on the {_noun(timer)} something was compiled; "
                "they do not count: give calls the same shapes, dtypes and Python numbers"
            )
            yield Note(code="recompiles", text=text)
        if (stopped := timer.processors.stopped) is not None:
            text = (
                f"a quota of {units.digits(stopped.processors)} processors stopped its container in "
                f"{units.count(stopped.periods, 'period')}: give the container more processors, or let "
                "libraries use fewer threads"
            )
            yield Note(code="slowed_by_settings", text=text)
        if on_cpu := timer.workload.watched.on_cpu:
            text = (
                f"{timer.device.name} left to the CPU: {units.first_few(on_cpu)}; the times "
                f"of the {_noun(timer)} include that, and its copies"
            )
            yield Note(code="not_on_device", text=text)
    captured = {timer.workload.watched.captured: None for timer in timers}
    for size in filter(None, captured):
        text = (
            f"a compiled function closes over arrays ({size}), and the compiler computes what depends on "
            "nothing else; pass them as arguments to time that, too"
        )
        yield Note(code="not_on_device", text=text)


def _noun(timer: BlockTimer) -> str:
    return timer.device.info.noun


def on_emulation(workload: Workload, result: Iterable[Leaf]) -> Note | None:
    """Return a note where a call that was timed on an emulated GPU would not use a real one."""
    device = workload.device
    if not device.info.emulated or device.arrays_are_on_host:
        return None
    values = (leaf.value for leaf in result)
    # What NumPy computes is its own memory, unlike a view of another library's array, or a pinned buffer.
    owners = [root(value) for value in values if ask.is_really(value, np.ndarray) and not device.holds(value)]
    is_of_numpy = any(ask.is_really(owner, np.ndarray) and owner.flags.owndata for owner in owners)
    if is_of_numpy and inputs.mentions_numpy(workload.call):
        text = (
            f"the result on {device.name} is an array of NumPy, which may have computed it: NumPy takes the "
            "arrays of an emulated GPU, and refuses or copies those of a GPU; use xp or the library's own"
        )
    elif not inputs.mentions_device(workload.call, device):
        # A library that computes on its GPU by default would take arrays of the host, which it copies there.
        text = (
            f"the call refers to nothing on {device.name}: a GPU would be idle, or be given the arrays anew "
            "in each call; make them with device.asarray or xp"
        )
    else:
        return None
    return Note(code="not_on_device", text=text)


def on_placement(workload: Workload, result: Iterable[Leaf], *, works_here: bool) -> Note | None:
    """Return a note on a call whose arrays are its device's library's, and on another device of that.

    A call that takes its inputs from there copies them each time, or works there. One that has its inputs
    here may bring its result from a GPU to the host, and on the CPU has no reason to send it elsewhere. One
    that was seen to work here (`works_here`) copies them on purpose, as an epoch over a DataLoader does.
    """
    device, holds = workload.device, capabilities.holds(workload.device)

    def is_elsewhere(value: object) -> bool:
        # Of a donated array nobody knows where it was.
        is_there = library_of(value) == device.backend and ask.attribute(value, "device") is not None
        return is_there and not holds(value) and not ask.answer(_is_partly_on, value, device, default=False)

    found: Iterator[object]
    values = [leaf.value for leaf in result]
    if inputs.reaches_device(workload.call, device):
        is_sent = device.kind == "cpu" and not any(map(holds, values))
        what, found = "returns", filter(is_elsewhere, values if is_sent else ())
    elif works_here:
        return None
    else:
        what, found = "reads", inputs.reached(workload.call, is_elsewhere, through_functions=True)
    if (array := next(found, None)) is None:
        return None
    where = text_of(str, ask.attribute(array, "device"))
    text = (
        f"the call on the {device.info.noun} {what} arrays on {where} and none on its own device: "
        "that one is timed, or copies; make them in the test, not in its module, with device.asarray or on "
        "device.native"
    )
    return Note(code="not_on_device", text=text)


def _is_partly_on(value: Any, device: TimedDevice) -> bool:
    """Return whether an array that several devices share, as JAX's may be, has a part on this one."""
    return device.native in value.devices()


def faster_than_roof(side: DeviceRoof, workload: Workload, *, is_given: bool) -> str:
    """Return that a call is faster than it could be if it moved all the bytes that were counted."""
    share = side.share.value if side.share else 0.0
    moved, shapes = units.size(side.bytes), workload.shapes
    if is_given:
        counted, remedy = f"the {moved} that bytes= says", "correct that number"
    else:
        of = f" of its arrays of shape {units.listed(shapes)}" if shapes else " of its arrays"
        counted, remedy = f"the {moved}{of}", "say in the marker with bytes=N how many it moves"
    return (
        f"a call on the {workload.device.info.noun} is {units.digits(share)} times as fast as a plain copy "
        f"that moves {counted}, which no code can be: it reads or writes only a part, as a lookup in a table "
        f"does; {remedy}"
    )


def on_ramp(ramp: float | None, raised: float, max_time: float) -> Note | None:
    """Return a note where much of the time limit went to untimed work that raised a GPU's clocks."""
    if not ramp or raised <= _MOST_RAISING * max_time:
        return None
    text = (
        f"{units.seconds(raised)} of max_time ({units.seconds(max_time)}) went to untimed work: a GPU "
        f"that idled during the CPU's turn needs {units.seconds(ramp)} to reach its speed"
    )
    return Note(code="long_warm_up", text=text)


def on_results(checks: ResultChecks) -> Iterator[Note]:
    """Yield notes on results that could not be compared, or of which a comparison says little."""
    outcome = checks.outcome
    if outcome is None or not checks.is_asked:
        return
    if outcome.agreed is None and checks.compares_devices:
        text = f"the results were not compared: {outcome.reason}"
        yield Note(code="results_not_compared", text=text)
    if checks.degenerate:
        places = first_few([f"{path} ({only})" for path, only in checks.degenerate])
        text = f"only zeros or only NaN on both devices: {places}; check that the work is done"
        yield Note(code="degenerate_results", text=text)


def on_rounds(rounds: TakenRounds) -> Iterator[Note]:
    """Yield notes on a round in which the machine stood still, and on dropped rounds, where others decide."""
    lasted = rounds.lasted
    if lasted.standstill:
        text = (
            f"one round took {units.seconds(lasted.longest)}, and a typical one "
            f"{units.seconds(lasted.typical)}: the machine may have stood still (suspended, moved, stopped); "
            f"the round counts as {units.seconds(lasted.most)} of sampling"
        )
        yield Note(code="interference", text=text)
    if rounds.dropped and rounds.throttled is None:
        reasons = ", ".join(rounds.throttle)
        text = f"{rounds.dropped} of {rounds.begun} rounds were dropped: the GPU was slowed down ({reasons})"
        yield Note(code="gpu_throttled", text=text)


def on_disturbance(
    disturbance: Disturbance | None, speedup: Speedup, demand: Demand, look: Look
) -> Iterator[Note]:
    """Yield a note on a disturbance that did not change the verdict."""
    if disturbance and verdict.stands(speedup, disturbance.speedup, demand, look):
        yield Note(code=disturbance.code, text=disturbance.reason)


def on_numbers(measured: OffloadInput) -> Iterator[Note]:
    """Yield notes on calls too short for any work, and on disturbances that did not change the verdict."""
    demand, disturbance = measured.demand, measured.disturbance
    if (text := no_work(measured.sampled.cpu, measured.sampled.gpu, measured.gpu.device.noun)) is not None:
        yield Note(code="work_in_doubt", text=text)
    is_busy = disturbance is not None and disturbance.code == "interference"
    if not is_busy and (totals := _totals(measured)) is not None:  # else it was other work that took longer
        yield Note(code="totals_differ", text=totals)
    yield from on_disturbance(disturbance, measured.speedup, demand, measured.look)
    if measured.throttled is not None and not demand.limits:
        yield Note(code="gpu_throttled", text=measured.throttled)


def no_work(cpu: Sequence[float], gpu: Sequence[float], noun: str) -> str | None:
    """Return that the samples of the CPU and of what the `noun` names are too short for any work."""
    on_cpu, on_gpu = median(cpu), median(gpu)
    if max(on_cpu, on_gpu) >= NO_WORK:
        return None
    return (
        f"a call takes {units.seconds(on_cpu)} on the CPU and {units.seconds(on_gpu)} on the {noun}, too "
        "short for any work: it seems to return what was made before; let it do the work, as in return "
        "lambda: f(x)"
    )


def _totals(measured: OffloadInput) -> str | None:
    """Return how the ratio of all times differs from the median ratio, if a loop would feel the difference.

    It must do so without the largest sample of each side, too: one slow call says nothing of others.
    """
    if measured.sampled.rounds < _FEWEST_FOR_TOTALS:
        return None
    speedup, cpu, gpu = measured.speedup.value, measured.sampled.cpu, measured.sampled.gpu
    total = fmean(cpu) / fmean(gpu)
    without_largest = fmean(sorted(cpu)[:-1]) / fmean(sorted(gpu)[:-1])
    is_more = min(total, without_largest) > _DIFFERENT * speedup
    is_less = _DIFFERENT * max(total, without_largest) < speedup
    if not is_more and not is_less:
        return None
    noun = measured.gpu.device.noun
    averages = {"CPU": (fmean(cpu), median(cpu)), noun: (fmean(gpu), median(gpu))}
    uneven = max(averages, key=lambda name: abs(log(averages[name][0] / averages[name][1])))
    mean, typical = map(units.seconds, averages[uneven])
    return (
        f"all times together give {units.digits(total)}x, and the median is {units.digits(speedup)}x: on the "
        f"{uneven} a call takes {mean} on average and {typical} typically, and a loop pays the average"
    )
