"""The interfaces of devices and backends: what tests use, and what measuring them needs."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import update_wrapper
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, runtime_checkable

from pytest_gpuperf.devices import doubts
from pytest_gpuperf.devices.environment import Quota
from pytest_gpuperf.model.demand import Kind
from pytest_gpuperf.model.errors import Fault, is_outcome
from pytest_gpuperf.model.measurement import DeviceInfo
from pytest_gpuperf.model.plain_text import first_line
from pytest_gpuperf.model.record import Clocks

__all__ = ["Activity", "Backend", "Device", "Observation", "Single", "TimedDevice", "Watched"]

_NO_CONTEXT = nullcontext()  # one for all blocks: they are many, and may be short


@runtime_checkable
class Device(Protocol):
    """A device as a test sees it: arrays live there, and work runs there."""

    kind: Kind
    """`cpu` or `gpu`: which of the two compared devices it is."""
    backend: str
    """The name of the library behind it."""
    name: str
    """The device's own name."""
    xp: Any
    """The array namespace whose arrays live on this device."""

    @property
    def native(self) -> Any:
        """The library's device object, such as a `torch.device`; None if the library has no such object."""
        return None

    @abstractmethod
    def asarray(self, host: Any) -> Any:
        """Return a new array on this device with the values of `host` (any shape, NumPy's dtypes)."""

    @abstractmethod
    def asnumpy(self, array: Any) -> Any:
        """Return a new NumPy array with the values of an array of this device, once it is ready."""

    @abstractmethod
    def synchronize(self) -> None:
        """Return when all work submitted to this device, on any stream, is done."""


@dataclass(slots=True)
class Observation:
    """What a device observed of the work in a `with device.observe()` block, filled in at its end.

    It was `unfinished` where its stream had work left at the block's end; None where nobody asked.
    `device_time` runs from the start of the work on the device to the end that its own events record, and
    `outside_time` (seconds too) is how long the device worked on after that. `finished` is the device's clock
    when its work was done, before anything else was asked. `allocations` counts those made by the device
    itself, not from a pool. `live` are the bytes that were held before, by anyone, `memory` is the peak of
    the bytes held above those, and `held` is what is left of it at the end. None where the device does not
    report it. `fallbacks` are the functions that the device is known to have left to the CPU.
    """

    worked: bool = False
    unfinished: bool | None = None
    device_time: float | None = None
    outside_time: float | None = None
    finished: float | None = None
    allocations: int | None = None
    live: int | None = None
    memory: int | None = None
    held: int | None = None
    fallbacks: tuple[str, ...] = ()


@dataclass(slots=True)
class Watched:
    """What a device's library did in a first call besides the work, filled in at its end.

    `on_cpu` are operators that ran on the CPU for want of the device's. `captured` is the size of the arrays
    that functions took as constants which were compiled meanwhile, and `constant` are the names of what was
    compiled, where none of it reads an argument.
    """

    on_cpu: tuple[str, ...] = ()
    captured: str | None = None
    constant: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """How many operations of a device's library one call was seen to run: those that compute, and copies.

    It `is_complete` where none can escape: then a call with neither did nothing.
    """

    computed: int = 0
    copied: int = 0
    is_complete: bool = False

    @property
    def anything(self) -> bool:
        """Whether the call did anything that was seen."""
        return self.computed > 0 or self.copied > 0


class Single:
    """Base of devices: a copy of one is the device itself, as a copy of a module is that module."""

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, known: dict[int, Any]) -> Self:
        return self


_ANSWERS: dict[str, Any] = {
    **dict.fromkeys(("occupy", "holds_work", "reuses_results", "is_immutable", "is_emulation"), bool),
    **dict.fromkeys(("sm_mhz", "other_processes", "free_memory"), int | None),
    **dict.fromkeys(("occupied", "processor_time"), Real | None),
    "is_constant": bool | None,
    "clocks": Clocks | None,
    "quota": Quota | None,
    "fault": Fault | None,
    "unfinished": list,
    "throttle": tuple,
    "throttle_counters": dict | None,
    "compilations": int,
    "host_memory": str | None,
    "missing": str | None,
    "runs_products": bool | None,
    "activity": Activity | None,
    "copiers": tuple,
}
"""The types that each optional method may return; any other type is reported as an error of the method."""


def _guarded(name: str, member: Any, default: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that raises nothing but an outcome, such as pytest.skip's.

    Where it raises, or answers what it may not, its default stands and the run says why.
    """

    def ask(self: Any, *arguments: Any) -> Any:
        try:
            found = member.__get__(self, type(self))(*arguments)
            if isinstance(found, _ANSWERS[name]):
                return found
            doubts.note(self, name, f"returned {type(found).__name__}")
        except Exception as error:
            if is_outcome(error):
                raise
            doubts.note(self, name, f"raised {first_line(error)}")
        return default(self, *arguments)

    return update_wrapper(ask, member)


class _Guarded:
    """Base of what other plugins subclass: what they make of the methods in `_ANSWERS` is guarded."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name in _ANSWERS.keys() & vars(cls).keys():
            default = next(vars(base)[name] for base in reversed(cls.__mro__) if name in vars(base))
            setattr(cls, name, _guarded(name, vars(cls)[name], default))


# More than 20 methods: each is one question that a device may answer, with what holds where it does not.
class TimedDevice(_Guarded, Single, Device):
    """Base of devices that can be measured, with what the plugin needs besides the members that a test sees.

    The abstract methods are required, and so are `kind`, `backend`, `name`, `xp`, `info`, the description of
    the device in the report, and `clock`, the host's clock to time this device with, in seconds:
    `time.perf_counter` unless simulated. All else is optional: its default says that it does not know.
    If an optional method raises an error, the run shows a `BackendWarning` and uses the default. Errors of
    `context`, `watch`, `wait` and `submit` are errors of the test instead.

    Where no work reached the device, `idle_remedy` is what to do. A device `is_synchronous` where all work is
    done when a call returns, and `sees_all_work` where its `observe` misses no work, however short.
    """

    clock: Callable[[], float]
    if TYPE_CHECKING:  # a property, or an attribute

        @property
        def info(self) -> DeviceInfo:
            """The description of the device in the report."""

    idle_remedy = "make the arrays with device.asarray or xp"
    is_synchronous = False
    sees_all_work = False
    shares_processors = False
    """Whether it is a group, whose threads wait for each other where it is emulated."""
    arrays_are_on_host = False
    shares_host_memory = False
    """Whether its memory is the host's, as that of a CPU: plain copies are NumPy's then."""
    clocks_reason: str | None = None
    """Why `clocks` tells nothing."""

    wait: Callable[[Any], None] | None = None
    """`wait(result)` waits for the arrays in a call's result.

    Where the result has anything else in it, or nothing, it waits for all that this thread has submitted.
    Without it the device can only `synchronize` as a whole.
    """
    submit: Callable[[Any], None] | None = None
    """`submit(result)` starts the work of a lazy library's result, and does not wait for it.

    Such a library computes only what it is asked for: of a result that is dropped before that, nothing.
    """
    unpack: Callable[[Any], Any] | None = None
    """`unpack(value)` returns a value of the library, such as a data frame, as containers to compare instead.

    They are of arrays, numbers and text; None for what it does not know. It raises GpuPerfError for a value
    whose work has not been done; anything else that it raises says that it does not know the value.
    """
    time_calls: Callable[..., tuple[float, Any]] | None = None
    """`time_calls(call, calls, calls_wait=, empty_wait=)` times so many calls itself, in several processes.

    It returns their seconds and the last result, as `timing.blocks.timed_calls` does for all other devices.
    """
    pause: Callable[[float], None] | None = None
    """`pause(seconds)` lets so much time pass on a clock of the device's own."""

    @abstractmethod
    def holds(self, value: Any) -> bool:
        """Return whether `value` is an array that lives on this device."""

    @abstractmethod
    def observe(self) -> AbstractContextManager[Observation]:
        """Observe one untimed call: was work submitted here, and how long did it take (seconds)?"""

    @abstractmethod
    def fault(self, error: BaseException) -> Fault | None:
        """Return the fault if `error` means that this device ran out of memory or was lost."""

    @abstractmethod
    def release(self) -> None:
        """Return memory that no array uses to the device."""

    def context(self) -> AbstractContextManager[Any]:
        """Return what to enter around each use of the device: a setting of its library, such as an engine.

        It is entered and left outside what is timed, once around the set-up with the first call and its
        copies, each block, and the check of the last results: a new one each time, and within that of the
        check those of blocks that it measures. It lets exceptions pass.
        """
        return _NO_CONTEXT

    def watch(self) -> AbstractContextManager[Watched]:
        """Return what watches the library in a first call: what it compiles, and leaves to the CPU."""
        return nullcontext(Watched())

    def occupy(self, seconds: float) -> bool:  # noqa: ARG002 - as the methods below, it says that it cannot
        """Keep the device busy for about so many seconds, and return at once; False where it cannot."""
        return False

    def occupied(self) -> float | None:
        """Return for how long the device was last kept busy, once that is over; None for as asked for."""

    def unfinished(self) -> list[Any]:
        """Return the arrays that are not ready, which may be none, for `wait`."""
        return []

    def clocks(self) -> Clocks | None:
        """Return the state of the device's clocks now."""

    def sm_mhz(self) -> int | None:
        """Return the clock of the device's multiprocessors now, in MHz."""

    def throttle_counters(self) -> dict[str, int] | None:
        """Return how much each reason has slowed the device down so far, in a unit of its own."""

    def throttle(self) -> tuple[str, ...]:
        """Return the reasons for which the device runs slower now than it should."""
        return ()

    def holds_work(self, value: Any) -> bool:  # noqa: ARG002
        """Return whether a value is a CUDA graph or a stream of its own: work that no look at it shows."""
        return False

    def reuses_results(self, value: Any) -> bool:  # noqa: ARG002
        """Return whether a value, as a CUDA graph, writes each result where the one before was."""
        return False

    def is_constant(self, function: Any) -> bool | None:
        """Return whether a compiled function computes from arrays that it closes over alone."""

    def is_immutable(self, array: Any) -> bool:  # noqa: ARG002
        """Return whether no call can write an array again: one that returns the same has kept it."""
        return False

    def runs_products(self, call: Callable[[], Any]) -> bool | None:
        """Return whether a call multiplies matrices or convolves, if one more call shows it."""

    def activity(self, call: Callable[[], Any], smallest: int) -> Activity | None:
        """Return what the device's library is seen to do in one more call; None where that cannot be told.

        `smallest` is the size in bytes of the smallest array that the call is known to use, 0 for none.
        """

    def compilations(self) -> int:
        """Return how many programs the device's library has compiled so far; 0 where it counts none."""
        return 0

    def host_memory(self, host: Any) -> Literal["pinned", "pageable"] | None:
        """Return the kind of a host array's memory: pinned memory can be read by the device itself."""

    def copiers(self, size: int) -> tuple[Callable[[], Any], ...]:  # noqa: ARG002
        """Return the functions that copy `size` bytes between two arrays on this device; () without any.

        Each is called without arguments, and its result waited for like that of a workload. The fastest one
        counts.
        """
        return ()

    def processor_time(self) -> float | None:
        """Return the seconds that all processors together have worked for this process."""

    def quota(self) -> Quota | None:
        """Return the limit of the processor time that this process may use, where it has one."""

    def other_processes(self) -> int | None:
        """Return how many other processes use the device, as far as it reports them."""

    def free_memory(self) -> int | None:
        """Return how many bytes of the device's memory nobody has."""


class Backend(_Guarded, ABC):
    """One library's devices, as `--gpuperf-gpu=NAME[:SELECTOR]` and the hook name them.

    Its `name` is that in `--gpuperf-gpu`, and `auto` may pick it where it is `automatic`.
    """

    name: str
    automatic = False

    @abstractmethod
    def check(self, selector: str) -> None:
        """Raise GpuPerfError, with the valid selectors, for one that is wrong on every machine."""

    @abstractmethod
    def gpu(self, selector: str) -> TimedDevice:
        """Return the GPU; raise Unavailable, with cause and remedy, when a trial allocation fails."""

    @abstractmethod
    def cpu(self) -> TimedDevice:
        """Return the CPU that this backend's GPU is compared with."""

    def selectors(self) -> list[str]:
        """Return a selector for each device: their numbers, where `count` has been overridden alone.

        With one of both the processes that share a run are spread over the devices, and `gpuperf devices`
        lists them all.
        """
        return [str(index) for index in range(self.count())]

    def count(self) -> int:
        """Return how many devices there are, which are numbered; 0 where they are not."""
        return 0

    def missing(self) -> str | None:
        """Return that the library is not installed, and what to do; this imports nothing."""

    def is_emulation(self, selector: str) -> bool:  # noqa: ARG002 - of any
        """Return whether that device is no GPU: a run that requires one is refused before its first test."""
        return False

    def group(self, devices: Sequence[Any]) -> TimedDevice:
        """Return several devices as one, for tests of scaling: its arrays are lists of a part for each."""
        from pytest_gpuperf.devices.group import DeviceGroup

        return DeviceGroup(devices)
