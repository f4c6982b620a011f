"""From what a device can tell or do to what is asked of it, where that is more than one of its methods."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from time import perf_counter, sleep
from typing import Any, TypeVar

from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.model import ask
from pytest_gpuperf.model.errors import Fault, GpuPerfError, is_outcome

_Seen = TypeVar("_Seen")


def context(device: Any) -> AbstractContextManager[Any]:
    """Return a device's context; an empty one of what a suite's own fixture may give in its place."""
    make: Callable[[], AbstractContextManager[Any]] = getattr(device, "context", nullcontext)
    return make()


def holds(device: TimedDevice) -> Callable[[Any], bool]:
    """Return a function that calls `holds(value)` of the device, and returns False on an error."""
    return lambda value: bool(ask.answer(device.holds, value, default=False))


def unpack(device: TimedDevice) -> Callable[[Any], Any] | None:
    """Return a function that unpacks a value; None if the device has no `unpack` method.

    The function returns None for a value that the method cannot unpack.
    """
    method = device.unpack
    if method is None:
        return None

    def contents(value: Any) -> Any:
        try:
            return method(value)
        except GpuPerfError:
            raise
        except Exception as error:
            if is_outcome(error):
                raise
            return None  # a stranger's object that has the name of one of the library's

    return contents


def pause(device: TimedDevice, seconds: float) -> None:
    """Let so many seconds pass on the device's clock; a clock of its own needs the method for that."""
    if device.pause is not None:
        device.pause(seconds)
    elif device.clock is perf_counter:
        sleep(seconds)


def submitted(call: Callable[[], Any], device: TimedDevice) -> Callable[[], Any]:
    """Return the call with a submission of its result; the call itself where a device is not lazy."""
    if (submit := device.submit) is None:
        return call

    def call_and_submit() -> Any:
        result = call()
        submit(result)
        return result

    return call_and_submit


def throttle(device: TimedDevice, before: dict[str, int] | None = None) -> tuple[str, ...]:
    """Return the reasons for which the device ran slower than it should since its counters were these.

    Without counters they are the reasons of this moment.
    """
    after = device.throttle_counters() if before else None
    if not before or not after:
        return device.throttle()
    return tuple(name for name, count in after.items() if count > before.get(name, count))


class _CallRaised(BaseException):
    """What a call raised that was looked at: it passes whatever looks."""


def seen_of(
    look: Callable[..., _Seen], call: Callable[[], Any], prepare: Callable[[], Any], *arguments: Any
) -> _Seen | None:
    """Return what a method of a device sees of one more call; None where looking at it breaks the call.

    `prepare` precedes each call. Where one raises, it is made once more as it is: what it raises then is the
    test's.
    """

    def observed_call() -> Any:
        try:
            return call()
        except Exception as error:
            raise _CallRaised from error

    prepare()
    try:
        return look(observed_call, *arguments)
    except _CallRaised as raised:
        if raised.__cause__ is not None and is_outcome(raised.__cause__):
            raise raised.__cause__ from None
    prepare()
    call()
    return None


def fault(device: TimedDevice | None, error: BaseException) -> Fault | None:
    """Return what an error means for a device; where it does not tell, one wait for a GPU does.

    A library such as cuBLAS raises an error of its own for work that another call had broken before. An
    outcome says nothing of a device, and waits for none: its work may never end.
    """
    if device is None or is_outcome(error):
        return None
    found = device.fault(error)
    if found is not None and found.kind == "out_of_memory" and found.requested is None:
        is_of_host = isinstance(error, MemoryError)
        return found if is_of_host else replace(found, free=device.free_memory())
    if found is not None or device.kind != "gpu":
        return found
    try:
        device.synchronize()
    except Exception as later:  # noqa: BLE001 - whatever a library raises
        return device.fault(later)
    return None
