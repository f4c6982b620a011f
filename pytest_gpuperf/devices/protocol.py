"""The interfaces of devices and backends: what tests use, and what measuring them needs."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

from pytest_gpuperf.model.demand import Kind
from pytest_gpuperf.model.errors import Fault
from pytest_gpuperf.model.measurement import DeviceInfo

__all__ = ["Activity", "Backend", "Device", "Observation", "Single", "TimedDevice", "Watched"]


@runtime_checkable
class Device(Protocol):
    """A device as a test sees it: arrays live there, and work runs there.

    Its `native` is the library's own object for it, such as a `torch.device`; None where there is none.
    """

    if TYPE_CHECKING:  # isinstance takes one of another plugin that lacks it: in tests its `native` is None

        @property
        def native(self) -> Any:
            """The library's own object for this device; None where there is none."""

    @property
    def kind(self) -> Kind:
        """`cpu` or `gpu`: which of the two compared devices it is."""

    @property
    def backend(self) -> str:
        """The name of the library behind it."""

    @property
    def name(self) -> str:
        """The device's own name."""

    @property
    def xp(self) -> Any:
        """The array namespace whose arrays live on this device."""

    def asarray(self, host: Any) -> Any:
        """Return a new array on this device with the values of `host` (any shape, NumPy's dtypes)."""

    def asnumpy(self, array: Any) -> Any:
        """Return a new NumPy array with the values of an array of this device, once it is ready."""

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


class TimedDevice(Device, Protocol):
    """A device that can be measured: what the plugin needs besides the members that a test sees.

    Optional methods are listed in `pytest_gpuperf.devices.capabilities`.
    """

    @property
    def info(self) -> DeviceInfo:
        """The description of the device in the report."""

    @property
    def clock(self) -> Callable[[], float]:
        """The host clock to time this device with, in seconds: `time.perf_counter` unless simulated."""

    def holds(self, value: Any) -> bool:
        """Return whether `value` is an array that lives on this device."""

    def observe(self) -> AbstractContextManager[Observation]:
        """Observe one untimed call: was work submitted here, and how long did it take (seconds)?"""

    def fault(self, error: BaseException) -> Fault | None:
        """Return the fault if `error` means that this device ran out of memory or was lost."""

    def release(self) -> None:
        """Return memory that no array uses to the device."""


class Backend(Protocol):
    """One library's devices, as `--gpuperf-gpu=NAME[:SELECTOR]` and the hook name them.

    Optional methods: `selectors()` returns a list with a selector for each device, or `count()` how many are
    there, which then are numbered. With one of them the processes that share a run are spread over the
    devices, and `gpuperf devices` lists them all. `group(devices)` returns several of them as one, for tests
    of scaling; without it their arrays are lists with a part for each device. `is_emulation(selector)` is
    whether that device is no GPU: a run that requires one is then refused before its first test.
    """

    @property
    def name(self) -> str:
        """Its name in `--gpuperf-gpu`."""

    @property
    def automatic(self) -> bool:
        """Whether `--gpuperf-gpu=auto` may pick it."""

    def check(self, selector: str) -> None:
        """Raise GpuPerfError, with the valid selectors, for one that is wrong on every machine."""

    def gpu(self, selector: str) -> TimedDevice:
        """Return the GPU; raise Unavailable, with cause and remedy, when a trial allocation fails."""

    def cpu(self) -> TimedDevice:
        """Return the CPU that this backend's GPU is compared with."""


class Single:
    """Base of devices: a copy of one is the device itself, as a copy of a module is that module."""

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, known: dict[int, Any]) -> Self:
        return self
