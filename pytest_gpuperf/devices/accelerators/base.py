"""What accelerators share: two devices of one library, the calls that one ran, and columns to compare."""

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from math import isnan
from time import process_time
from typing import Any

import numpy as np

from pytest_gpuperf.devices import environment
from pytest_gpuperf.devices.host import SynchronousDevice
from pytest_gpuperf.devices.library import import_library
from pytest_gpuperf.devices.protocol import Observation, TimedDevice
from pytest_gpuperf.model.demand import Kind
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import DeviceInfo
from pytest_gpuperf.model.units import first_few

_MISSING_TYPES = ("NAType", "NaTType")  # of pandas.NA, whose comparisons have no truth value, and pandas.NaT


class Accelerator:
    """Base of accelerators: how one is switched on and off, and what its library's results are made of.

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

    def __init__(self, how: str) -> None:
        self.how = how

    def namespace(self) -> Any:
        """Return the library; raise Unavailable where it is missing or broken."""
        return import_library(self.library, self.library, self.remedy)

    def open(self) -> str:
        """Return the accelerator's name, with its version; raise Unavailable where it cannot be used."""
        raise NotImplementedError

    def on(self) -> AbstractContextManager[Any]:
        """Return a context in which the accelerator is switched on."""
        raise NotImplementedError

    def off(self) -> AbstractContextManager[Any]:
        """Return a context in which it is switched off, whatever the suite or the environment has set."""
        raise NotImplementedError

    def calls(self) -> AbstractContextManager["Calls"]:
        """Return a context that fills in which functions ran, and where."""
        raise NotImplementedError

    def unpack(self, value: Any) -> Any:
        """Return an object of the library as containers of arrays, numbers and text; None for any other."""

    def synchronize(self) -> None:
        """Wait for what the accelerator has not done when a call returns; most have done all."""


class Calls:
    """The functions that the accelerator ran, and those that it left to the library, with repetitions."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.left: list[str] = []


class AcceleratorBackend:
    """`accelerator:NAME`: the library by itself is the CPU; with its accelerator it stands for the GPU."""

    automatic = False

    def __init__(self, name: str, accelerator: Accelerator) -> None:
        self.name = name
        self._accelerator = accelerator

    def check(self, selector: str) -> None:
        """Accept no selector: the name has it."""
        if selector:
            raise GpuPerfError(f"{self.name} takes no selector, not {selector!r}")

    def gpu(self, selector: str) -> TimedDevice:  # noqa: ARG002 - the protocol passes it
        """Return the library with its accelerator; raise Unavailable where either cannot be used."""
        library = self._accelerator.namespace()
        return _Accelerated("gpu", self.name, self._accelerator.open(), library, self._accelerator)

    def cpu(self) -> TimedDevice:
        """Return the library by itself."""
        library = self._accelerator.namespace()
        return _Plain("cpu", self.name, environment.cpu_name(), library, self._accelerator)


class _Side(SynchronousDevice):
    """A library under one setting: its arrays are NumPy's or its own, and always on the host."""

    arrays_are_on_host = True

    def __init__(self, kind: Kind, backend: str, name: str, library: Any, accelerator: Accelerator) -> None:
        self.kind, self.backend, self.name = kind, backend, name
        self.xp = library
        self.unpack = accelerator.unpack
        self.idle_remedy = accelerator.idle_remedy
        self.synchronize = accelerator.synchronize  # type: ignore[method-assign]  # as each accelerator has it
        self.accelerator = accelerator
        self.info = DeviceInfo(
            kind=kind,
            backend=backend,
            name=name,
            library=f"{library.__name__} {library.__version__}",
            emulated=kind == "gpu" and not accelerator.is_gpu,
        )

    def asarray(self, host: Any) -> Any:
        """Return a copy, an array of NumPy: work on it never changes the other device's input."""
        return np.array(host)

    def asnumpy(self, array: Any) -> Any:
        """Return a copy."""
        return np.array(array)


class _Plain(_Side):
    """The library with its accelerator switched off."""

    processor_time = staticmethod(process_time)  # of all threads

    def context(self) -> AbstractContextManager[Any]:
        """Switch the accelerator off."""
        return self.accelerator.off()

    @contextmanager
    def observe(self) -> Iterator[Observation]:
        """Raise GpuPerfError where the accelerator ran functions though it was switched off."""
        with self.accelerator.calls() as calls:
            yield Observation(worked=True)
        if calls.ran:
            raise GpuPerfError(
                f"{self.backend} was switched off and yet ran {first_few(sorted({*calls.ran}))}; "
                f"{self.accelerator.off_remedy}"
            )

    def holds(self, value: Any) -> bool:
        """Return whether `value` is a NumPy array."""
        return isinstance(value, np.ndarray)


class _Accelerated(_Side):
    """The library with its accelerator switched on; that an array is here is no sign of its work."""

    sees_all_work = True

    def context(self) -> AbstractContextManager[Any]:
        """Switch the accelerator on."""
        return self.accelerator.on()

    @contextmanager
    def observe(self) -> Iterator[Observation]:
        """Take for work, and for what fell back, what the accelerator tells."""
        observation = Observation()
        with self.accelerator.calls() as calls:
            yield observation
        observation.worked = bool(calls.ran)
        observation.fallbacks = tuple(sorted({*calls.left}))

    def holds(self, value: Any) -> bool:  # noqa: ARG002 - the protocol passes it
        """Return False: arrays are the host's."""
        return False


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
