"""What accelerators share: two devices of one library, the calls that one ran, and columns to compare."""

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from math import isnan
from time import process_time
from typing import Any

import numpy as np

from pytest_gpuperf.devices import environment
from pytest_gpuperf.devices.host import SynchronousDevice
from pytest_gpuperf.devices.library import import_library, missing
from pytest_gpuperf.devices.protocol import Backend, Observation, TimedDevice
from pytest_gpuperf.model.demand import Kind
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import DeviceInfo
from pytest_gpuperf.model.units import first_few

_MISSING_TYPES = ("NAType", "NaTType")  # of pandas.NA, whose comparisons have no truth value, and pandas.NaT


@dataclass(slots=True)
class Calls:
    """The functions that the accelerator ran, and those that it left to the library, with repetitions."""

    ran: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


class Accelerator(Backend):
    """Base of accelerators, each the backend `accelerator:NAME`: off, the library is the CPU; on, the GPU.

    `library` is the module of the namespace, `remedy` how to install it, and `is_gpu` whether the accelerator
    works on a GPU. `how` is the rest of its name, as in `networkx:parallel`; GpuPerfError for a wrong one.
    `idle_remedy` is what to do where it has nothing to do, and `off_remedy` where it ran though it was off.
    """

    library: str
    remedy: str
    idle_remedy = "call what it accelerates through xp, inside the test"
    off_remedy = (
        "take what the test calls from xp inside its body: names that a module imported once stay those of "
        "the accelerator"
    )
    is_gpu = False

    def __init__(self, name: str, how: str) -> None:
        self.name = name
        self.how = how

    def missing(self) -> str | None:
        """Return that the library is not installed, and what to do; this imports nothing."""
        return missing(self.library, self.library, self.remedy)

    def namespace(self) -> Any:
        """Return the library; raise Unavailable where it is missing or broken."""
        return import_library(self.library, self.library, self.remedy)

    def open(self) -> str:
        """Return the accelerator's name, with its version; raise Unavailable where it cannot be used."""
        raise NotImplementedError

    def switched(self, *, is_on: bool) -> AbstractContextManager[Any]:
        """Return a context in which the accelerator is on, or off whatever the suite has set."""
        raise NotImplementedError

    def calls(self) -> AbstractContextManager[Calls]:
        """Return a context that fills in which functions ran, and where."""
        raise NotImplementedError

    def unpack(self, value: Any) -> Any:
        """Return an object of the library as containers of arrays, numbers and text; None for any other."""

    def synchronize(self) -> None:
        """Wait for what the accelerator has not done when a call returns; most have done all."""

    def check(self, selector: str) -> None:
        """Accept no selector: the name has it."""
        if selector:
            raise GpuPerfError(f"{self.name} takes no selector, not {selector!r}")

    def is_emulation(self, selector: str) -> bool:  # noqa: ARG002 - as other backends have it
        """Return whether the accelerator works on the CPU."""
        return not self.is_gpu

    def gpu(self, selector: str) -> TimedDevice:  # noqa: ARG002 - the protocol passes it
        """Return the library with its accelerator; raise Unavailable where either cannot be used."""
        library = self.namespace()
        return _Side(self, "gpu", self.open(), library)

    def cpu(self) -> TimedDevice:
        """Return the library by itself."""
        return _Side(self, "cpu", environment.cpu_name(), self.namespace())


class _Side(SynchronousDevice):
    """A library with its accelerator on or off: its arrays are NumPy's or its own, and always on the host."""

    arrays_are_on_host = True

    def __init__(self, accelerator: Accelerator, kind: Kind, name: str, library: Any) -> None:
        self._accelerator = accelerator
        self.kind, self.backend, self.name = kind, accelerator.name, name
        self.xp = library
        self.unpack = accelerator.unpack
        self.idle_remedy = accelerator.idle_remedy
        self.synchronize = accelerator.synchronize  # type: ignore[method-assign]  # as each accelerator has it
        self.sees_all_work = kind == "gpu"
        self.info: DeviceInfo = DeviceInfo(
            kind=kind,
            backend=self.backend,
            name=name,
            library=f"{library.__name__} {library.__version__}",
            emulated=kind == "gpu" and not accelerator.is_gpu,
        )

    def processor_time(self) -> float | None:
        """Return the seconds that all threads have worked, on the CPU."""
        return process_time() if self.kind == "cpu" else None

    def context(self) -> AbstractContextManager[Any]:
        """Switch the accelerator on or off."""
        return self._accelerator.switched(is_on=self.kind == "gpu")

    def holds(self, value: Any) -> bool:
        """Return whether `value` is a NumPy array of the CPU: that one is here is no sign of a GPU's work."""
        return self.kind == "cpu" and isinstance(value, np.ndarray)

    @contextmanager
    def observe(self) -> Iterator[Observation]:
        """Report what the accelerator ran and left; GpuPerfError where it ran though it was off."""
        observation = Observation(worked=True)
        with self._accelerator.calls() as calls:
            yield observation
        if self.kind == "gpu":
            observation.worked, observation.fallbacks = bool(calls.ran), tuple(sorted({*calls.left}))
        elif calls.ran:
            raise GpuPerfError(
                f"{self.backend} was switched off and yet ran {first_few(sorted({*calls.ran}))}; "
                f"{self._accelerator.off_remedy}"
            )


@contextmanager
def log_of(name: str, level: int, read: Callable[[logging.LogRecord], None]) -> Iterator[None]:
    """Pass each record of a logger to `read` and to nobody else, then leave the logger as it was."""

    class Reader(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            read(record)

    logger = logging.getLogger(name)
    before = logger.level, logger.handlers, logger.propagate, logger.disabled
    logger.handlers, logger.propagate, logger.disabled = [Reader()], False, False
    logger.setLevel(level)
    try:
        yield
    finally:
        _, logger.handlers, logger.propagate, logger.disabled = before
        logger.setLevel(before[0])


def column(values: Any) -> Any:
    """Return a series of polars or pandas as an array; of text with what is missing, of others as a list.

    What is missing has no text: one side may have None where another has NaN or pandas.NA.
    """
    array = values.to_numpy()
    if array.dtype != object:
        return array
    listed = values.to_list()
    missing = [_is_missing(value) for value in listed]
    if not all(
        is_missing or isinstance(value, str) for value, is_missing in zip(listed, missing, strict=True)
    ):
        return listed
    text = ["" if is_missing else value for value, is_missing in zip(listed, missing, strict=True)]
    return {"missing": np.array(missing), "text": np.array(text)}


def _is_missing(value: Any) -> bool:
    is_nan = isinstance(value, float) and isnan(value)
    return value is None or is_nan or type(value).__name__ in _MISSING_TYPES
