"""What is timed on one device: a call, what restores its state, its arrays, what its first call returned."""

from collections.abc import Callable
from dataclasses import dataclass, field
from traceback import walk_tb
from typing import Any, Literal

from pytest_gpuperf.devices.protocol import TimedDevice, Watched
from pytest_gpuperf.work.any_array import Part
from pytest_gpuperf.work.inputs import AfterReset, Fingerprint, Upload

NO_WORK = 150e-9
"""Seconds: a function of Python that returns a stored object takes about a third of them."""


@dataclass(frozen=True, slots=True)
class ResettableCall:
    """A call that changes its own state, and the function that restores it; called, it restores first."""

    call: Callable[[], Any]
    reset: Callable[[], Any]

    def __call__(self) -> Any:
        """Restore the state and return what one call returns."""
        self.restore()
        return self.call()

    def restore(self) -> None:
        """Restore the state."""
        self.reset()


def is_raised_by_reset(error: BaseException) -> bool:
    """Return whether an exception has passed through a reset."""
    code = ResettableCall.restore.__code__
    return any(frame.f_code is code for frame, _ in walk_tb(error.__traceback__))


# More than 15 fields: all that a first call shows, which checks, memory and copies read.
@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A call without arguments on one device, as its first call showed it. Times in seconds, sizes in bytes.

    The inputs of a whole body are the arrays that fixtures gave to it, which it does not hold. What a device
    does not report is None.
    """

    device: TimedDevice
    call: Callable[[], Any]
    scope: Literal["body", "call"]
    """`call` where the test returned a callable, whose set-up was the test's body; `body` for that itself."""
    restore: Callable[[], None] | None = None
    """Brings back the state that calls change: it runs before each block and is not timed."""
    set_up_again: Callable[[], Any] | None = None
    """Runs the body once more and returns its callable."""
    setup: float | None = None
    """How long the test's body took, where that was the set-up."""
    first_call: float = 0.0
    inputs: tuple[Fingerprint, ...] = ()
    state: tuple[Fingerprint, ...] = ()
    """The arrays in objects that the call refers to."""
    returned: tuple[Part, ...] = ()
    """References to what the first call returned."""
    returned_types: tuple[str, ...] = ()
    """The libraries and dtypes of the arrays that it returned."""
    uploads: tuple[Upload, ...] = ()
    """The inputs that were copied from the host."""
    host_arrays: tuple[Fingerprint, ...] = ()
    """NumPy's arrays that a GPU's call refers to."""
    created: tuple[Fingerprint, ...] = ()
    """The inputs that were made on the device."""
    moved_bytes: int | None = None
    """Those that a call reads or writes at least; None where they are not known."""
    result_bytes: int = 0
    result_arrays: int = 0
    has_host_form: bool = True
    """Whether each array of the result can be copied to the host."""
    dtypes: tuple[str, ...] = ()
    brought_dtypes: tuple[str, ...] = ()
    """Those of what fixtures gave to a whole body, and of its uploads."""
    shapes: tuple[str, ...] = ()
    other_library: str | None = None
    """The library of an array of the result, if it is not the device's."""
    live_before: int | None = None
    """What the device held before the set-up, or before the first call of a whole body."""
    brought_bytes: int = 0
    """Those of the inputs that were there before the set-up."""
    held_after_setup: int | None = None
    """What the device holds more since the set-up."""
    first_call_memory: int | None = None
    """What the first call added at its peak."""
    first_device_time: float | None = None
    """How long the device surely worked in the first call: by its events, without the call's submission."""
    watched: Watched = field(default_factory=Watched)
    """What the library did in the first call besides the work."""
    returned_new: bool = False
    """Whether the first result had an array that the call cannot reach."""
    used_device_at_first: bool = False
    """Whether the device was seen to work in the first call."""
    did_device_work: bool = False
    """Whether a call may have worked on the device."""

    def prepare(self) -> None:
        """Bring back the state that calls change, if they do."""
        if self.restore is not None:
            self.restore()

    def after_reset(self) -> AfterReset | None:
        """Bring back the state, and return what is left of calls; None of a workload without a reset."""
        if self.restore is None:
            return None
        return AfterReset((*self.inputs, *self.state), self.call, self.restore, self.device)

    @property
    def arrays(self) -> list[Any]:
        """The arrays that it is known to use and that exist."""
        return [array for entry in self.inputs if (array := entry.array()) is not None]

    @property
    def reached(self) -> list[Any]:
        """The arrays that it is known to use, and those in objects that it refers to, that exist."""
        entries = (*self.inputs, *self.state)
        return [array for entry in entries if (array := entry.array()) is not None]

    @property
    def computed(self) -> list[Any]:
        """The arrays among those that it is known to use that were made on the device, and exist."""
        return [array for entry in self.created if (array := entry.array()) is not None]

    @property
    def created_bytes(self) -> int:
        """The size of those inputs that were made on the device."""
        return sum(entry.bytes for entry in self.created)

    @property
    def used_dtypes(self) -> tuple[str, ...]:
        """The dtypes of its inputs and results, and of what a whole body was given or uploads."""
        return (*self.dtypes, *self.brought_dtypes)
