"""What GPU libraries share: imports, selectors, the clock, faults, namespaces, warnings and rounding."""

import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from os import R_OK, W_OK, access, environ
from pathlib import Path
from time import perf_counter, process_time
from types import ModuleType
from typing import Any

from pytest_gpuperf.devices import faults
from pytest_gpuperf.devices.environment import cpu_name
from pytest_gpuperf.devices.host import HostDevice
from pytest_gpuperf.devices.nvml import MonitoredDevice
from pytest_gpuperf.devices.protocol import Backend, TimedDevice
from pytest_gpuperf.devices.registry import EMULATED
from pytest_gpuperf.model.demand import Kind
from pytest_gpuperf.model.errors import Fault, GpuPerfError, Unavailable
from pytest_gpuperf.model.measurement import DeviceInfo
from pytest_gpuperf.model.plain_text import message, text_of

LONGEST_SPIN = 1.0
"""Seconds for which a kernel may keep a GPU busy: one that also drives a screen may kill it after two."""
BFLOAT16_EPS, TF32_EPS = 2.0**-7, 2.0**-10  # the relative spacing to which these modes round float32
VISIBLE = "CUDA_VISIBLE_DEVICES"
VISIBLE_TO_AMD = ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
"""What hides AMD's GPUs besides `VISIBLE`, which HIP reads, too."""
NVIDIA_DRIVER, NVIDIA_NODES = "/proc/driver/nvidia", "/dev"
"""The folders in which NVIDIA's driver for Linux lists its GPUs, and in which programs open them."""
AMD_NODE = "/dev/kfd"
"""What programs open, to read and write, for all of AMD's GPUs: https://github.com/ROCm/ROCT-Thunk-Interface."""
_REFUSED = "the driver has a GPU that no variable hides: this user needs rights on "
_OF_NVIDIA, _OF_AMD = (
    "/dev/nvidia*, and `dmesg` says whether the GPU has failed",
    "/dev/kfd and /dev/dri/renderD*, as the groups `render` and `video` have",
)
_AMPERE = 8.0  # the first compute capability with TF32


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduced:
    """A mode in which a device rounds the factors of float32 work, `eps` apart, and what has set it."""

    mode: str
    setting: str
    work: str = "products"
    eps: float = TF32_EPS

    def __str__(self) -> str:
        return f"{self.mode} in float32 {self.work} ({self.setting})"


class LibraryDevice(MonitoredDevice):
    """Base of a library's devices: timed by the host's clock, with faults that their texts describe.

    With `emulates_gpu` the library's CPU is called a GPU.
    """

    kind: Kind = "gpu"
    native: Any = None
    clock = staticmethod(perf_counter)
    emulates_gpu = False

    def processor_time(self) -> float | None:
        """Return the seconds that all threads of this process have worked, on a CPU."""
        return process_time() if self.kind == "cpu" else None

    def describe(
        self,
        library: str,
        *,
        products: Reduced | None = None,
        convolutions: Reduced | None = None,
        driver: str | None = None,
        **details: Any,
    ) -> DeviceInfo:
        """Return the device's description; it is asked each time, as a program can switch the precision.

        The `driver` is what the library tells of it, which is less than NVML's own version.
        """
        is_gpu = self.kind == "gpu" and not self.emulates_gpu
        reduced = products or convolutions
        return DeviceInfo(
            kind=self.kind,
            backend=self.backend,
            name=self.name,
            library=library,
            emulated=self.emulates_gpu or is_emulated(self.name),
            reduced_precision=str(products) if products else None,
            reduced_convolutions=str(convolutions) if convolutions else None,
            reduced_eps=reduced.eps if reduced else None,
            power_limit_watts=self.power_limit_watts if is_gpu else None,
            driver=(self.driver_version if is_gpu else None) or driver,
            **details,
        )

    @property
    def shares_host_memory(self) -> bool:  # type: ignore[override]  # in the base an attribute that is False
        """Whether it is the library's CPU."""
        return self.kind == "cpu" or self.emulates_gpu

    def ones(self, count: int) -> Any:
        """Return so many new values of float32 on this device."""
        return self.xp.ones(count, dtype=self.xp.float32)

    def copiers(self, size: int) -> tuple[Callable[[], Any], ...]:
        """Return a copy into an existing array; of what cannot be written a negation, which moves as much."""
        source = self.ones(size // 4)
        if self.is_immutable(source):
            return (lambda: -source,)
        target = self.ones(size // 4)

        def copy() -> None:
            target[...] = source

        return (copy,)

    def fault(self, error: BaseException) -> Fault | None:
        """Recognize memory errors and the CUDA errors that outlive their call."""
        return faults.parse_error(error)

    def _pci_bus_id(self) -> str:
        raise GpuPerfError(f"{self.backend} does not report its clocks")


class LibraryBackend(Backend):
    """Base of backends whose devices are numbered and compared with NumPy, unless they override that.

    `library` is what `import_library` takes, and `gpus` what its devices are called. `hidden_by` is the
    variable that chooses among them, `remedy` what to do with one that cannot be used, and `toolkit` how to
    get what the library compiles with.
    """

    library: tuple[str, ...]
    gpus = "GPU"
    hidden_by: str | None = None
    remedy = "check that it is free and healthy"
    toolkit: str | None = None

    def check(self, selector: str) -> None:
        """Accept nothing or a device number."""
        if selector and not (selector.isascii() and selector.isdecimal()):
            problem = f"the device of {self.name} is a number, e.g. {self.name}:0, not {selector!r}"
            title = self.library[1]
            hint = (
                f"; {self.name}:cpu emulates a GPU with {title} on the CPU" if self.name in EMULATED else ""
            )
            raise GpuPerfError(problem + hint)

    def missing(self) -> str | None:
        """Return that the library is not installed, and what to do; this imports nothing."""
        return missing(*self.library[:3])

    def load(self) -> Any:
        """Return the library; raise Unavailable where it is missing or broken."""
        return import_library(*self.library)

    def open(self, index: int) -> TimedDevice:
        """Return that device after one allocation and one kernel on it; raise what the library raises."""
        raise NotImplementedError

    def gpu(self, selector: str) -> TimedDevice:
        """Return the device after one allocation, one kernel and one synchronize on it."""
        index, count = int(selector or 0), self.count()
        if index >= count:
            raise self.too_few(count, index)
        try:
            device = self.open(index)
            device.synchronize()
        except Exception as error:
            problem = f"{self.library[1]}'s {self.gpus} {index} was found but cannot be used"
            raise unusable(problem, error, self.remedy, self.toolkit) from error
        return device

    def too_few(self, count: int, index: int) -> Unavailable:
        """Return the error for a number that is too large: the library sees `count` devices."""
        problem = f"{self.library[1]} sees {count} {self.gpus}(s) and number {index} was requested"
        return Unavailable(f"{problem}; {shown_settings(self.hidden_by)}" if self.hidden_by else problem)

    def emulated(self, name: str, index: int) -> TimedDevice:
        """Return the library's CPU, or that of its devices there, as a GPU of that name."""
        raise NotImplementedError

    def cpu(self) -> TimedDevice:
        """Return NumPy."""
        return HostDevice(cpu_name())


class Namespace(ModuleType):
    """A module whose attributes go through `change`, which maps each name and value to the value to use.

    Torch and JAX put a new array on their own default device. That setting belongs to the suite, so it stays:
    each function gets the device of its result instead. Attributes set on a namespace stay on it.
    """

    def __init__(self, module: ModuleType, change: Callable[[str, Any], Any]) -> None:
        super().__init__(module.__name__, module.__doc__)
        self.__dict__.update(_module=module, _change=change)

    def __getattr__(self, name: str) -> Any:
        if "_module" not in self.__dict__:  # copy.copy looks attributes up before __init__ has run
            raise AttributeError(name)
        value = self._change(name, getattr(self._module, name))
        setattr(self, name, value)  # the next access does not come here
        return value

    def __dir__(self) -> list[str]:
        return dir(self._module)


def missing(module: str, name: str, remedy: str) -> str | None:
    """Return that a library is not installed, with the remedy; None where it is."""
    return f"{name} is not installed; {remedy}" if find_spec(module.partition(".")[0]) is None else None


def import_library(module: str, name: str, remedy: str, if_broken: str = "reinstall it") -> Any:
    """Import a library that users know by `name`; raise Unavailable, with a remedy, if missing or broken."""
    if (problem := missing(module, name, remedy)) is not None:
        raise Unavailable(problem, missing=True)
    try:
        return import_module(module)
    except Exception as error:
        raise unusable(f"{name} is installed but cannot be imported", error, if_broken) from error


def unusable(problem: str, error: Exception, remedy: str, toolkit: str | None = None) -> Unavailable:
    """Return why something cannot be used, with the cause's remedy or else the given one.

    It is broken, unless no GPU is there or a variable hides it. `toolkit` is the remedy where the library
    misses what it compiles with.
    """
    cause = error.__cause__ or error  # CuPy hides it in a page of its own
    known = faults.cause(f"{text_of(str, cause)} {text_of(str, error)}")
    said = f"{problem}: {message(cause) or type(cause).__name__}; {faults.remedy(known, remedy, toolkit)}"
    if known is None or known.gpu == "there":
        return Unavailable(said, broken=True)
    if known.gpu == "absent":
        return Unavailable(said)
    if should_show_gpu():
        return Unavailable(f"{said}; {_REFUSED}{_OF_NVIDIA}", broken=True)
    if known.is_of_amd and _is_refused_by_amd():
        return Unavailable(f"{said}; {_REFUSED}{_OF_AMD}", broken=True)
    return Unavailable(f"{said}; {shown_settings(VISIBLE)}")


def _is_refused_by_amd() -> bool:
    """Return whether AMD's driver has a GPU that no variable hides, and that this user may not open.

    Where no GPU is there, or a container was given none, there is nothing to open.
    """
    is_shown = all(_names_gpu(_first_visible(name)) for name in (VISIBLE, *VISIBLE_TO_AMD))
    return is_shown and Path(AMD_NODE).exists() and not access(AMD_NODE, R_OK | W_OK)


def should_show_gpu() -> bool:
    """Return whether CUDA should show a GPU: NVIDIA's driver has one, and no variable hides it.

    Where CUDA shows none then, this user may not use it, it has failed, or it has no instances (MIG).
    """
    first, count = _first_visible(VISIBLE), len([*Path(NVIDIA_DRIVER).glob("gpus/*")])
    has_node = any(Path(NVIDIA_NODES).glob("nvidia[0-9]*"))  # a container may see the host's driver alone
    return has_node and _names_gpu(first) and count > (int(first) if first.isdecimal() else 0)


def _first_visible(name: str) -> str:
    """Return the first device that a variable shows, "0" where it is not set, as all show then."""
    return environ.get(name, "0").partition(",")[0].strip()


def _names_gpu(device: str) -> bool:
    """Return whether a number or a UUID names a device: "-1" and the empty string, which hide all, do not."""
    return device.isdecimal() or device.startswith(("GPU-", "MIG-"))


def is_emulated(name: str) -> bool:
    """Return whether a device is of a runtime that emulates GPUs, and says so in the name, as no GPU does."""
    return name.startswith("Emulated ")


def shown_setting(name: str) -> str:
    """Return what a variable that chooses among devices is set to: `CUDA_VISIBLE_DEVICES is not set`."""
    value = environ.get(name)
    return f"{name} is {'not set' if value is None else f'{value!r}, which may hide devices'}"


def shown_settings(name: str) -> str:
    """Return what a variable that chooses among devices is set to, and those of AMD's that are set."""
    return "; ".join(shown_setting(each) for each in (name, *VISIBLE_TO_AMD) if each in (name, *environ))


def any_product(operators: Iterable[bool | None]) -> bool | None:
    """Return whether a call multiplies or convolves, from whether each of its operators does.

    None where one of them is not known (None), or where none was seen: the call may do so out of sight.
    """
    found = set(operators)
    return True if True in found else False if found == {False} else None


@contextmanager
def noted_calls(owner: type, method: str, note: Callable[[], Any]) -> Iterator[None]:
    """Call `note` at each call of a method of a library's class meanwhile."""
    original = vars(owner)[method]

    @wraps(original)
    def noted(*inputs: Any, **options: Any) -> Any:
        note()
        return original(*inputs, **options)

    setattr(owner, method, noted)
    try:
        yield
    finally:
        setattr(owner, method, original)


def may_use_tf32(compute_capability: float) -> bool:
    """Return whether a device has TF32, and NVIDIA's own variable does not forbid it."""
    return compute_capability >= _AMPERE and environ.get("NVIDIA_TF32_OVERRIDE") != "0"


@contextmanager
def observed_warnings(pattern: re.Pattern[str]) -> Iterator[list[re.Match[str]]]:
    """Collect warnings that begin as the pattern, in a list that is filled at the end; give all others."""
    found: list[re.Match[str]] = []
    caught: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.filterwarnings("always", message=pattern.pattern)
            yield found
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("always")  # they have passed the user's filters
            for each in caught:
                if (match := pattern.match(str(each.message))) is not None:
                    found.append(match)
                else:
                    warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
