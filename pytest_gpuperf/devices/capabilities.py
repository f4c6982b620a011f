"""Optional methods of a device, beyond the protocol; None where it lacks one, or where that raises."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from time import perf_counter, sleep
from typing import Any, Literal

from pytest_gpuperf.devices.environment import Quota
from pytest_gpuperf.devices.protocol import Activity, Watched
from pytest_gpuperf.model import ask
from pytest_gpuperf.model.errors import Fault, GpuPerfError, is_outcome
from pytest_gpuperf.model.record import Clocks

_NO_CONTEXT = nullcontext()  # one for all blocks: they are many, and may be short


def context(device: Any) -> AbstractContextManager[Any]:
    """Return what to enter around each use of the device: a setting of its library, such as an engine.

    It is entered and left outside what is timed, once around the set-up with the first call and its copies,
    each block, and the check of the last results: a new one each time, and within that of the check those of
    blocks that it measures. It lets exceptions pass. Unlike other optional methods it may raise.
    """
    make: Callable[[], AbstractContextManager[Any]] | None = getattr(device, "context", None)
    return make() if make is not None else _NO_CONTEXT


def idle_remedy(device: Any) -> str:
    """Return what to do where no work reached the device: its `idle_remedy`, or what is true of most."""
    return getattr(device, "idle_remedy", None) or "make the arrays with device.asarray or xp"


def unpack(device: Any) -> Callable[[Any], Any] | None:
    """Return the device's method `unpack(value)`, or None if the device does not define it.

    It returns a value of the device's library, such as a data frame, as containers of arrays, numbers and
    text, which are compared in its place; None for what it does not know. It raises GpuPerfError for a value
    whose work has not been done; anything else that it raises says that it does not know the value.
    """
    method: Callable[[Any], Any] | None = getattr(device, "unpack", None)
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


def occupy(device: Any, seconds: float) -> bool:
    """Keep the device busy for about so many seconds, and return at once; False where it cannot."""
    return call_optional(device, "occupy", seconds, otherwise=False) is not False


def occupied(device: Any) -> float | None:
    """Return for how long the device was last kept busy, once that is over; None for as long as asked for."""
    return call_optional(device, "occupied", expected=float)  # type: ignore[no-any-return]  # as the capability is typed


def pause(device: Any, seconds: float) -> None:
    """Let so many seconds pass on the device's clock; a clock of its own needs the method for that."""
    if getattr(device, "pause", None) is not None:
        call_optional(device, "pause", seconds)
    elif device.clock is perf_counter:
        sleep(seconds)


def sees_all_work(device: Any) -> bool:
    """Return whether the device's `observe` misses no work, however short: its attribute of that name."""
    return getattr(device, "sees_all_work", False) is True


def is_synchronous(device: Any) -> bool:
    """Return whether all work is done when a call returns: the device's attribute of that name."""
    return getattr(device, "is_synchronous", False) is True


def shares_processors(device: Any) -> bool:
    """Return whether a device is a group, whose threads wait for each other where it is emulated."""
    return hasattr(device, "idle")


def wait_for_result(device: Any) -> Callable[[Any], None] | None:
    """Return the device's method `wait(result)`; None for one that can only `synchronize` as a whole.

    It waits for the arrays in a call's result. Where the result has anything else in it, or nothing, it waits
    for all that this thread has submitted. Unlike other optional methods it may raise, as `synchronize` may.
    """
    wait: Callable[[Any], None] | None = getattr(device, "wait", None)
    return wait


def submitted(call: Callable[[], Any], device: Any) -> Callable[[], Any]:
    """Return the call with a submission of its result; the call itself where a device has no `submit`.

    A lazy library computes only what it is asked for: of a result that is dropped before that, it computes
    nothing. `submit(result)` starts that work and does not wait for it. Like `wait` it may raise.
    """
    if not is_lazy(device):
        return call
    submit = device.submit

    def call_and_submit() -> Any:
        result = call()
        submit(result)
        return result

    return call_and_submit


def is_lazy(device: Any) -> bool:
    """Return whether the device's library computes only what it is asked for."""
    return getattr(device, "submit", None) is not None


def unfinished(device: Any) -> list[Any]:
    """Return the arrays that are not ready, which may be none, for `wait`."""
    found: list[Any] | None = call_optional(device, "unfinished", expected=list)
    return found or []


def clocks(device: Any) -> Clocks | None:
    """Return the state of the device's clocks now."""
    return call_optional(device, "clocks", expected=Clocks)  # type: ignore[no-any-return]  # as the capability is typed


def sm_mhz(device: Any) -> int | None:
    """Return the clock of the device's multiprocessors now, in MHz."""
    return call_optional(device, "sm_mhz", expected=int)  # type: ignore[no-any-return]  # as the capability is typed


def throttle_counters(device: Any) -> dict[str, int] | None:
    """Return how much each reason has slowed the device down so far, in a unit of its own."""
    found: dict[str, int] | None = call_optional(device, "throttle_counters", expected=dict)
    return found or None


def throttle(device: Any, before: dict[str, int] | None = None) -> tuple[str, ...]:
    """Return the reasons for which the device ran slower than it should since its counters were these.

    Without counters they are the reasons of this moment.
    """
    after = throttle_counters(device) if before is not None else None
    if before is None or after is None:
        return tuple(call_optional(device, "throttle", otherwise=(), expected=(tuple, list)))
    return tuple(name for name, count in after.items() if count > before.get(name, count))


def holds(device: Any) -> Callable[[Any], bool]:
    """Return the device's method `holds(value)`, safe for any value: a stranger is none of its arrays."""
    return lambda value: bool(ask.answer(device.holds, value, default=False))


def holds_work(device: Any, value: Any) -> bool:
    """Return whether a value is a CUDA graph or a stream of its own: work that no look at it shows."""
    return call_optional(device, "holds_work", value) is True


def reuses_results(device: Any, value: Any) -> bool:
    """Return whether a value, as a CUDA graph, writes each result where the one before was."""
    return call_optional(device, "reuses_results", value) is True


def watch(device: Any) -> AbstractContextManager[Watched]:
    """Return what watches a device's library in a first call: what it compiles, and leaves to the CPU."""
    method: Callable[[], AbstractContextManager[Watched]] | None = getattr(device, "watch", None)
    return method() if method is not None else nullcontext(Watched())


def is_constant(device: Any, function: Any) -> bool | None:
    """Return whether a compiled function computes from arrays that it closes over alone; None for others."""
    return call_optional(device, "is_constant", function, expected=bool)  # type: ignore[no-any-return]  # as the capability is typed


def runs_products(device: Any, call: Callable[[], Any], prepare: Callable[[], Any]) -> bool | None:
    """Return whether a call multiplies matrices or convolves, if one more call shows it.

    `prepare` precedes each call. Where one raises, it is made once more as it is: what it raises then is the
    test's.
    """
    return _seen_of(device, "runs_products", call, prepare, expected=bool)  # type: ignore[no-any-return]  # as the capability is typed


def activity(
    device: Any, call: Callable[[], Any], smallest: int, prepare: Callable[[], Any]
) -> Activity | None:
    """Return what the device's library is seen to do in one more call; None where that cannot be told.

    `smallest` is the size in bytes of the smallest array that the call is known to use, 0 if it knows none.
    `prepare` precedes each call. Where one raises, it is made once more as it is: what it raises then is the
    test's.
    """
    return _seen_of(device, "activity", call, prepare, smallest, expected=Activity)  # type: ignore[no-any-return]  # as above


def _seen_of(
    device: Any,
    name: str,
    call: Callable[[], Any],
    prepare: Callable[[], Any],
    *arguments: Any,
    expected: type,
) -> Any:
    """Return what a method of the device sees of a call; None where looking at it breaks the call."""
    raised: list[Exception] = []

    def observed_call() -> Any:
        try:
            return call()
        except Exception as error:
            raised.append(error)
            raise

    prepare()
    found = call_optional(device, name, observed_call, *arguments, expected=expected)
    if not raised:
        return found
    if is_outcome(error := raised.pop()):
        raise error
    prepare()
    call()
    return None


def compilations(device: Any) -> int:
    """Return how many programs the device's library has compiled so far; 0 where it does not count them."""
    return call_optional(device, "compilations", otherwise=0, expected=int)  # type: ignore[no-any-return]  # as the capability is typed


def is_immutable(device: Any, array: Any) -> bool:
    """Return whether no call can write an array again: one that returns the same has kept it."""
    return call_optional(device, "is_immutable", array) is True


def host_memory(device: Any, host: Any) -> Literal["pinned", "pageable"] | None:
    """Return the kind of a host array's memory: pinned memory can be read by the device itself."""
    memory: Any = call_optional(device, "host_memory", host)
    return memory if memory in ("pinned", "pageable") else None


def processor_time(device: Any) -> float | None:
    """Return the seconds that all processors together have worked for this process."""
    return call_optional(device, "processor_time", expected=(int, float))  # type: ignore[no-any-return]  # as the capability is typed


def quota(device: Any) -> Quota | None:
    """Return the limit of the processor time that this process may use, where it has one."""
    return call_optional(device, "quota", expected=Quota)  # type: ignore[no-any-return]  # as the capability is typed


def other_processes(device: Any) -> int | None:
    """Return how many other processes use the device, as far as it reports them."""
    return call_optional(device, "other_processes", expected=int)  # type: ignore[no-any-return]  # as the capability is typed


def free_memory(device: Any) -> int | None:
    """Return how many bytes of the device's memory nobody has."""
    return call_optional(device, "free_memory", expected=int)  # type: ignore[no-any-return]  # as the capability is typed


def fault(device: Any, error: BaseException) -> Fault | None:
    """Return what an error means for a device; where it does not tell, one wait for a GPU does.

    A library such as cuBLAS raises an error of its own for work that another call had broken before. An
    outcome says nothing of a device, and waits for none: its work may never end.
    """
    if is_outcome(error):
        return None
    found: Fault | None = call_optional(device, "fault", error)
    if found is not None and found.kind == "out_of_memory" and found.requested is None:
        is_of_host = isinstance(error, MemoryError)
        return found if is_of_host else replace(found, free=free_memory(device))
    if found is not None or getattr(device, "kind", None) != "gpu":
        return found
    try:
        device.synchronize()
    except Exception as later:  # noqa: BLE001 - whatever a library raises
        return call_optional(device, "fault", later)  # type: ignore[no-any-return]  # as its protocol is typed
    return None


def call_optional(
    device: Any,
    name: str,
    *arguments: Any,
    otherwise: Any = None,
    expected: type | tuple[type, ...] = object,
) -> Any:
    """Return what a method returns; `otherwise` where the device or backend lacks it, or where it raises.

    So it is where the method returns what is not of an `expected` type.
    """
    try:
        method = getattr(device, name, None)
        found = otherwise if method is None else method(*arguments)
        return found if isinstance(found, expected) else otherwise
    except Exception as error:
        if is_outcome(error):
            raise
        return otherwise  # another plugin's backend: an optional value must not end a measurement
