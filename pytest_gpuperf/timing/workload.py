"""What is timed on one device: a call, what restores its state, its arrays, what its first call returned."""

from collections.abc import Callable
from dataclasses import dataclass, field
from traceback import walk_tb
from typing import Any, Literal

from pytest_gpuperf.devices.protocol import TimedDevice, Watched
from pytest_gpuperf.timing.any_array import Part
from pytest_gpuperf.timing.inputs import AfterReset, Fingerprint, Upload


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A call without arguments on one device, as its first call showed it. Times in seconds, sizes in bytes.

    `scope` is `call` where the test returned a callable, whose `setup` was the test's body, and `body` where
    the body itself is called; `set_up_again` runs that body once more. `restore` brings back the state that
    calls change: it runs before each block and is not timed; `state` are the arrays in objects that the call
    refers to. `uploads` are the inputs that were copied from the host, `host_arrays` NumPy's that it refers
    to, `created` those that were made on the device. The inputs of a whole body are the arrays that
    fixtures gave to it, which it does not hold; `brought_dtypes` are theirs and those of its uploads.
    `returned` are references to what the first call returned, `returned_types` the libraries and dtypes of
    its arrays, `other_library` one that is not the device's; it `has_host_form` unless one of them cannot be
    copied to the host. `live_before` is what the device held before the setup, or before the first call of a
    whole body, `brought_bytes` are those of the inputs among it, `held_after_setup` is what it holds more
    since the setup, and `first_call_memory` what the first call
    added at its peak; None where it does not report that. `first_device_time` is how long the device surely
    worked in the first call: by its own events, without the time in which the call was submitted. It
    `returned_new` arrays where one of its first result is none that it can reach. `watched` is what the
    library did in the first call besides the work.
    """

    device: TimedDevice
    call: Callable[[], Any]
    scope: Literal["body", "call"]
    restore: Callable[[], None] | None = None
    set_up_again: Callable[[], Any] | None = None
    setup: float | None = None
    first_call: float = 0.0
    inputs: tuple[Fingerprint, ...] = ()
    state: tuple[Fingerprint, ...] = ()
    returned: tuple[Part, ...] = ()
    returned_types: tuple[str, ...] = ()
    uploads: tuple[Upload, ...] = ()
    host_arrays: tuple[Fingerprint, ...] = ()
    created: tuple[Fingerprint, ...] = ()
    result_bytes: int = 0
    result_arrays: int = 0
    has_host_form: bool = True
    dtypes: tuple[str, ...] = ()
    brought_dtypes: tuple[str, ...] = ()
    shapes: tuple[str, ...] = ()
    other_library: str | None = None
    live_before: int | None = None
    brought_bytes: int = 0
    held_after_setup: int | None = None
    first_call_memory: int | None = None
    first_device_time: float | None = None
    watched: Watched = field(default_factory=Watched)
    returned_new: bool = False
    used_device_at_first: bool = False
    did_device_work: bool = False

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
