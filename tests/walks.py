"""Simulated devices, blocks of calls on them, and tests that are walked on two devices."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, Literal

import pytest

from pytest_gpuperf.devices.simulated import Clock, SimulatedDevice, Timing
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.timing import blocks, processors, warm_up
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.trial import Trial
from pytest_gpuperf.work import first_call
from pytest_gpuperf.work.workload import Workload

NODEID = "test_it.py::test_it"


def simulated(
    kind: Literal["cpu", "gpu"] = "gpu",
    clock: Clock | None = None,
    noise: Callable[[], float] = lambda: 1.0,
    **timing: Any,
) -> SimulatedDevice:
    """Return a device of these times; a kernel takes a millisecond unless `timing` says otherwise."""
    return SimulatedDevice(kind, clock=clock or Clock(), timing=Timing(**timing), noise=noise)


def observing(device: SimulatedDevice, change: Callable[[Any], Any]) -> SimulatedDevice:
    """Let a device report something else of each call than what it observed of it."""
    observe = device.observe

    @contextmanager
    def observe_and_change() -> Iterator[Any]:
        with observe() as observation:
            yield observation
        change(observation)

    device.observe = observe_and_change
    return device


@contextmanager
def system(clock: Callable[[], float], **reports: Any) -> Iterator[None]:
    """Let blocks be timed by a clock as by the host's, on a system that reports this.

    By default no thread has ever waited, nothing is known of other work, and no pool can be limited.
    """
    known = {
        "perf_counter": clock,
        "thread_time": clock,
        "waits": dict,
        "other_work": lambda: None,
        "one_thread": lambda: nullcontext(None),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, report in {**known, **reports}.items():
            for module in (blocks, processors):
                if hasattr(module, name):
                    patch.setattr(module, name, report)
        yield


def prepared(device: Any, body: Callable[..., Any], **brought: Any) -> Workload:
    """Prepare a body that takes the device, and what its fixtures brought."""
    return first_call.first_call(lambda seen: partial(body, seen, **brought), device)[0]


def timer_on(device: Any, call: Callable[[], Any] | None = None, **changes: Any) -> BlockTimer:
    """Return the timer of a call, which is one kernel unless it is given."""
    return BlockTimer(workload=Workload(device=device, call=call or device.launch, scope="call"), **changes)


def time_block(call: Callable[[], Any], calls: int, device: Any, **waits: Any) -> float:
    """Return the seconds per call of one block."""
    workload = Workload(device=device, call=call, scope="call")
    return blocks.timed_block(workload, calls, **waits).sample


def warmed_up(
    device: Any, call: Callable[[], Any] | None = None, options: RunOptions | None = None
) -> BlockTimer:
    """Return the timer of a call after its warm-up."""
    timer = timer_on(device, call)
    warm_up.warm_up(timer, options or RunOptions())
    return timer


def bound(body: Callable[..., Any]) -> Callable[[Any], Callable[[], Any]]:
    """Return what gives a body its device."""
    return lambda device: partial(body, device)


def trial_of(demand: Demand | None = None, options: RunOptions | None = None, **changes: Any) -> Trial:
    """Return the walk of a test that must be three times as fast, unless it demands something else."""
    known = {"nodeid": NODEID, "demand": demand or Demand(min=3), "options": options or RunOptions()}
    return Trial(**{**known, **changes})


def walked(
    body: Callable[..., Any], cpu: Any, gpu: Any, demand: Demand | None = None, **options: Any
) -> Record:
    """Return the record of a body that was measured on both devices, with these options of the run."""
    trial = trial_of(demand, RunOptions(**options))
    return trial.record(trial.compare(bound(body), cpu, gpu))
