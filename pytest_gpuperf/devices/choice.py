"""From a name such as `cupy:1` to the backend that it chooses, and this process's device of it."""

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from importlib.util import find_spec

from pytest_gpuperf.devices import doubts
from pytest_gpuperf.devices.accelerators import ACCELERATOR, LIBRARIES, chosen_accelerator
from pytest_gpuperf.devices.protocol import Backend
from pytest_gpuperf.devices.registry import EMULATED, REGISTRY
from pytest_gpuperf.devices.stand_in import STAND_IN, chosen_stand_in
from pytest_gpuperf.model.errors import GpuPerfError, Unavailable, is_outcome
from pytest_gpuperf.model.other_names import remedy
from pytest_gpuperf.model.plain_text import first_line

_ON_EITHER = tuple(row.name for row in REGISTRY if row.is_on_either)
_MISSING = "install pytest-gpuperf[cuda13] (NVIDIA) or [sycl] (Intel), or pass --gpuperf-gpu=torch or jax"
_MORE = "more: gpuperf devices"


def backends(registered: Iterable[Backend] = ()) -> dict[str, Backend]:
    """Return every backend by its name: our own, and other plugins', which replace one of that name."""
    built_in: list[Backend] = [row.backend() for row in REGISTRY]
    return {backend.name: backend for backend in [*built_in, *registered]}


def selectors(backend: Backend) -> list[str]:
    """Return a selector for each device; just an empty one where a backend has one, or counts none."""
    found = _listed(backend)
    return found if len(found) > 1 else [""]


def _listed(backend: Backend) -> list[str]:
    """Return a selector for each device that a backend shows or counts; the run tells what else it raises."""
    try:
        return [*backend.selectors()]
    except (GpuPerfError, Warning):
        pass  # it comes again, with its cause, when a device is opened; a suite may make warnings errors
    except Exception as error:
        if is_outcome(error):
            raise
        is_counted = type(backend).selectors is Backend.selectors
        doubts.note(backend, "count" if is_counted else "selectors", f"raised {first_line(error)}")
    return []


class Choice:
    """The backend that a run uses; what is asked of it here opens no device.

    `name` is `auto`, `none`, `NAME[:SELECTOR]`, a stand-in's or an accelerator's. `registered` returns other
    plugins' backends and is called once, when a backend is first asked for: hooks must not run before.
    Without a selector, the processes that share a run are spread over the devices by their number `worker`.
    `setting` is how the user wrote the choice: an option, unless it says otherwise. Where a GPU is `required`
    no reason for a missing one tells to emulate it.
    """

    def __init__(
        self,
        name: str,
        registered: Callable[[], Iterable[Backend]] = tuple,
        worker: int | None = None,
        setting: str | None = None,
        *,
        required: bool = False,
    ) -> None:
        self.setting = setting or f"--gpuperf-gpu={name}"
        self.is_off = name == "none"
        self._name = name
        self._registered = registered
        self._worker = worker
        self._required = required

    def missing(self) -> str | None:
        """Return why the library that was chosen cannot be there at all; this imports nothing.

        None where it is installed, or where a backend does not say. Raises GpuPerfError, with the valid ones,
        for a choice that nobody offers.
        """
        return self.backend.missing() if self.backend else None

    def emulates(self) -> bool:
        """Return whether the choice emulates a GPU, as its backend says."""
        return self.backend is not None and self.backend.is_emulation(self.selector)

    def may_emulate(self, backend: Backend) -> bool:
        """Return whether to tell the user that a backend emulates the GPU that it lacks."""
        return not self._required and self._whole is None and backend.name in EMULATED

    @cached_property
    def backend(self) -> Backend | None:
        """The backend that is chosen; None for `auto` and `none`."""
        name = self._whole.name if self._whole else self._name.partition(":")[0]
        if name in ("auto", "none"):
            if self.selector:
                raise GpuPerfError(f"{name} takes no device, not {self.selector!r}")
            return None
        if name not in self._available:
            if name in LIBRARIES:
                accelerator = f"{ACCELERATOR}:{self._name}"
                raise GpuPerfError(f"{name} is an accelerator and no backend; pass {accelerator}")
            names = ["auto", "none", *self._available, f"{STAND_IN}:MODULE", f"{ACCELERATOR}:NAME"]
            hint = remedy("backend", name, names, f"available: {', '.join(names)}")
            raise GpuPerfError(f"no backend is called {name!r}; {hint}")
        self._available[name].check(self.selector)
        return self._available[name]

    @property
    def selector(self) -> str:
        """The device that is chosen of the backend; empty for any."""
        return "" if self._whole else self._name.partition(":")[2]

    def selector_of(self, backend: Backend) -> str:
        """Return the selector of this process's device of a backend; empty for the backend's first."""
        if self.selector and backend is self.backend:
            return self.selector
        if self._worker is None:
            return ""
        found = selectors(backend)
        return found[self._worker % len(found)]

    @property
    def first(self) -> Backend:
        """The backend whose CPU is NumPy's, as is that of each that `auto` chooses."""
        return next(iter(self._available.values()))

    @property
    def automatic(self) -> list[Backend]:
        """The backends that `auto` tries, in this order."""
        return [backend for backend in self._available.values() if backend.automatic]

    def other(self, library: str) -> Backend:
        """Return the backend of a library; raise Unavailable if no backend supports it."""
        backend = self._available.get(library) or chosen_accelerator(library)
        if backend is None:
            problem = f"no backend supports {library}"
            raise Unavailable(f"{problem}: it cannot be synchronized, so it cannot be timed")
        return backend

    def none_found(self, reasons: Sequence[str], *, is_broken: bool) -> Unavailable:
        """Return the error for `auto` without a GPU: the reason of each backend, and the remedy.

        If a GPU `is_broken`, its reason comes first.
        """
        used = [name for name in _ON_EITHER if name in sys.modules]
        seeing = [name for name in used if _listed(self._available[name])]
        imported = [
            f"{name} {'sees a GPU' if name in seeing else 'is imported'}: gpuperf_gpu = {name} in the ini "
            "file compares its CPU and its GPU"
            for name in seeing or used
        ]
        emulation = [] if self._required else [_emulation(used)]
        if is_broken:
            return Unavailable("; ".join([*reasons, *imported, *emulation]))
        if seeing:
            return Unavailable("; ".join(["auto chooses no library that replaces NumPy", *imported, _MORE]))
        # What suits the suite stands first: a table cuts what is long.
        said = [*imported, *emulation, *reasons] if used else [*(reasons or [_MISSING]), *emulation]
        return Unavailable(f"no GPU found: {'; '.join([*said, _MORE])}")

    @cached_property
    def _whole(self) -> Backend | None:
        """What is chosen by a name that has its device in it: a stand-in, or an accelerator."""
        return chosen_stand_in(self._name) or chosen_accelerator(self._name)

    @cached_property
    def _available(self) -> dict[str, Backend]:
        return backends([*self._registered(), *filter(None, [self._whole])])


def _emulation(used: Sequence[str]) -> str:
    """Return what to do without a GPU: with a library that the suite has imported, or JAX, else simulated."""
    if used:
        return f"--gpuperf-gpu={used[0]}:cpu emulates one"
    return f"--gpuperf-gpu={'standin:jax.numpy' if find_spec('jax') else 'simulated'} emulates one"
