"""What can go wrong, as exceptions, warnings, and what an error means for a device."""

import sys
from dataclasses import dataclass
from typing import Literal

from pytest_gpuperf.model.plain_text import one_line

_OUTCOMES = (("_pytest.outcomes", "Exit"), ("unittest.case", "SkipTest"))  # that are of type Exception


def is_outcome(error: BaseException) -> bool:
    """Return whether an exception ends a test or a run on purpose, as pytest.skip, pytest.exit and Ctrl-C do.

    It is no failure of what it was raised in: who catches Exception lets it pass, as it is.
    """
    known = (getattr(sys.modules.get(module), name, None) for module, name in _OUTCOMES)
    return not isinstance(error, Exception) or isinstance(error, tuple(filter(None, known)))


def is_skip(error: BaseException) -> bool:
    """Return whether an exception is pytest.skip's, which is of no type that `except Exception` catches."""
    return isinstance(error, getattr(sys.modules.get("_pytest.outcomes"), "Skipped", ()))


def ends_run(error: BaseException) -> bool:
    """Return whether an exception ends the whole run on purpose, as Ctrl-C and pytest.exit do."""
    return isinstance(error, (KeyboardInterrupt, getattr(sys.modules.get("_pytest.outcomes"), "Exit", ())))


class GpuPerfError(Exception):
    """A request that cannot be met; the message names what, where, and what to do next."""


class UnknownResult(GpuPerfError):
    """A result is of a type that the devices of the run can neither compare nor wait for.

    `library` is the one that made it, if the plugin knows it.
    """

    def __init__(self, message: str, library: str | None = None) -> None:
        super().__init__(message)
        self.library = library


class Unavailable(GpuPerfError):
    """A backend has no usable GPU; the message names the cause and the remedy in one sentence.

    `missing`: the backend's library is not even installed. `broken`: its library or its GPU is there, but
    cannot be used, which is a fault of the machine.
    """

    def __init__(self, message: str | None, *, missing: bool = False, broken: bool = False) -> None:
        super().__init__(one_line(" ".join((message or "").split())) or "its backend gives no reason")
        self.missing = missing
        self.broken = broken


class TooFewDevices(Unavailable):
    """A test needs more devices than there are."""


class InconclusiveWarning(UserWarning):
    """A speedup test is inconclusive, and passed with this warning."""


class BrokenGpuWarning(UserWarning):
    """A GPU, or the library for it, is there but cannot be used: no test uses it."""


class BackendWarning(UserWarning):
    """A backend raised in an optional method of a device; the test was measured without what that tells."""


class NotComparableWarning(UserWarning):
    """A test was not compared with its baseline, which was made on another machine or of other work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What an exception means for its device: memory ran out, or the device is gone for good.

    Where it does not say how many bytes were `requested`, `free` is how many the device had left.
    """

    kind: Literal["out_of_memory", "lost"]
    requested: int | None = None
    free: int | None = None
