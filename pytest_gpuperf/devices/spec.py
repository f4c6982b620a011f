"""From the values of a suite's own parameters to a side: which device of which library a test works on."""

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import ModuleType
from typing import Any, Protocol

from pytest_gpuperf.model.demand import Kind

__all__ = ["DeviceParser", "DeviceSpec", "Recognizer"]

_LIBRARIES = {
    "numpy": "numpy",
    "np": "numpy",
    "scipy": "numpy",
    "cupy": "cupy",
    "cp": "cupy",
    "cupyx": "cupy",
    "torch": "torch",
    "pytorch": "torch",
    "jax": "jax",
    "jnp": "jax",
    "dpnp": "sycl",
}
_OWN_DEVICES: dict[str, Kind] = {"numpy": "cpu", "cupy": "gpu", "sycl": "gpu"}
_KINDS: dict[str, Kind] = {
    "cpu": "cpu",
    "host": "cpu",
    "gpu": "gpu",
    "cuda": "gpu",
    "rocm": "gpu",
    "hip": "gpu",
    "mps": "gpu",
    "xpu": "gpu",
    "tpu": "gpu",
}
_BETWEEN = re.compile(r"[-:_/]")
_NAMED_BY = {"mps": "torch", "xpu": "torch", "tpu": "jax"}  # devices that only one library calls so


class Recognizer(Protocol):
    """A backend that knows its own values among a suite's parameters."""

    name: str
    recognizes: Callable[[Any], Kind | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpec:
    """One side of a comparison: what a test that meets one device only works on.

    `library` is a backend's name, "numpy", or empty: then it is the run's own device of that kind. `selector`
    chooses one of several devices, and `variant` is what else a value says, as in `numpy:readonly`.
    """

    kind: Kind
    library: str = ""
    selector: str = ""
    variant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _PartialSpec:
    """What one value says: some of a side, or nothing."""

    library: str = ""
    kind: Kind | None = None
    selector: str = ""
    variant: str = ""


class DeviceParser:
    """Reads sides; `names` are the parameters that may tell them, `recognizers` other plugins' backends."""

    def __init__(self, names: Iterable[str], recognizers: Iterable[Recognizer] = ()) -> None:
        self.names = tuple(names)
        self._recognizers = tuple(recognizers)
        self._known: dict[tuple[tuple[str, int], ...], tuple[DeviceSpec | str | None, frozenset[str]]] = {}
        self._alive: list[Any] = []  # so that no other value gets the identity of one that is known

    def of(self, parameters: Mapping[str, Any]) -> tuple[DeviceSpec | str | None, frozenset[str]]:
        """Return the side that these parameters tell, and the names of those that tell it.

        A sentence instead of a side says what is unknown or contradicts itself; None: no parameter tells any.
        """
        told = {name: parameters[name] for name in self.names if name in parameters}
        key = tuple((name, id(value)) for name, value in told.items())
        if key not in self._known:
            self._alive += told.values()
            self._known[key] = self._read(told)
        return self._known[key]

    def _read(self, values: Mapping[str, Any]) -> tuple[DeviceSpec | str | None, frozenset[str]]:
        found = {name: self._tell(value) for name, value in values.items() if value is not None}
        known = {name: told for name, told in found.items() if told is not None}
        libraries = {told.library for told in known.values() if told.library}
        kinds = {told.kind for told in known.values() if told.kind}
        names = frozenset(known)
        unknown = [name for name in found if name not in known]
        if not known:
            return (_unknown(unknown[0], values) if unknown else None), frozenset(unknown)
        if len(libraries) > 1 or len(kinds) > 1:
            said = ", ".join(f"{name}={_shown(values[name])}" for name in known)
            return f"{said} name different devices", names
        library = libraries.pop() if libraries else _loaded_library()
        own = _OWN_DEVICES.get(library)
        kind = kinds.pop() if kinds else own or _default_kind(library)
        if own is not None and kind != own:
            said = ", ".join(f"{name}={_shown(values[name])}" for name in known)
            return f"{said}: {library} has no {kind.upper()}", names
        selector = "".join(dict.fromkeys(told.selector for told in known.values() if told.selector))
        selector = f"cuda:{selector}" if library == "torch" and selector.isdecimal() else selector
        variant = ":".join(told.variant for told in known.values() if told.variant)
        return DeviceSpec(kind=kind, library=library, selector=selector, variant=variant), names | {
            name for name, value in values.items() if value is None
        }

    def _tell(self, value: Any) -> _PartialSpec | None:
        for recognizer in self._recognizers:
            if (kind := recognizer.recognizes(value)) is not None:
                return _PartialSpec(library=recognizer.name, kind=kind)
        return _tell(value.value if isinstance(value, Enum) else value)


def _tell(value: Any) -> _PartialSpec | None:
    """Return what a value of a well-known type says, without importing its library."""
    if isinstance(value, str):
        return _tell_word(value)
    if isinstance(value, ModuleType):
        library = _library_of(value.__name__)
        return _PartialSpec(library=library) if library else None
    home = type(value).__module__.partition(".")[0]
    if home == "torch" and type(value).__name__ == "device":
        return _tell_torch(value)
    if home in ("jaxlib", "jax") and hasattr(value, "platform"):
        kind: Kind = "cpu" if value.platform == "cpu" else "gpu"
        return _PartialSpec(library="jax", kind=kind, selector=str(value.id) if kind == "gpu" else "")
    if home == "cupy" and type(value).__name__ == "Device":
        return _PartialSpec(library="cupy", selector=str(value.id))
    if getattr(value, "kind", None) in ("cpu", "gpu") and isinstance(getattr(value, "backend", None), str):
        return _PartialSpec(library=value.backend, kind=value.kind)
    return None


def _tell_torch(device: Any) -> _PartialSpec | None:
    if device.type == "meta":
        return None
    if device.type == "cpu":
        return _PartialSpec(library="torch", kind="cpu")
    index = "" if device.index is None else f":{device.index}"
    return _PartialSpec(library="torch", kind="gpu", selector=f"{device.type}{index}")


def _tell_word(text: str) -> _PartialSpec | None:
    """Return what a text says: `cuda:1`, `torch`, `torch:gpu`, `jax.numpy`, `numpy:readonly`, `torch-cpu`."""
    first, *rest = _words(text.strip().lower())
    whole = _library_of(text.strip().lower())
    if whole and not rest:
        return _PartialSpec(library=whole)
    library, kind = _library_of(first), _KINDS.get(first)
    if not library and kind is None:
        return None
    words = [first] if kind else []
    variant: list[str] = []
    for word in rest:
        if word in _KINDS and kind in (None, _KINDS[word]):
            kind = _KINDS[word]
            words.append(word)
        elif word.isdecimal():
            words.append(word)
        elif ":" in text:
            variant.append(word)
        else:
            return None
    named = library or next((_NAMED_BY[word] for word in words if word in _NAMED_BY), "")
    if named == "cupy" and words:
        kind = kind or "gpu"
    return _PartialSpec(library=named, kind=kind, selector=_selector(named, words), variant=":".join(variant))


def _words(text: str) -> list[str]:
    """Return a text's words; the name of a module, with its dots, is one."""
    return [text] if "." in text and not _BETWEEN.search(text, text.rindex(".")) else _BETWEEN.split(text)


def _selector(library: str, words: list[str]) -> str:
    """Return which device the words choose, as the backend's own selector; nothing for a plain `gpu`."""
    number = next((word for word in words if word.isdecimal()), "")
    if library in ("cupy", "jax"):
        return number
    own = next((word for word in words if word in ("cuda", "mps", "xpu")), "")
    if library == "torch" and own:
        return f"{own}:{number}" if number else own
    return f"cuda:{number}" if library == "torch" and number else number


def _library_of(name: str) -> str:
    """Return the library of a module's name: `array_api_compat.torch` is torch, `jax.numpy` is JAX."""
    first, *others = name.split(".")
    if first in _LIBRARIES and first != "scipy":
        return _LIBRARIES[first]
    inner = next((_LIBRARIES[part] for part in reversed(others) if part in _LIBRARIES), "")
    return inner or _LIBRARIES.get(first, "")


def _loaded_library() -> str:
    """Return whose devices are called just `cuda` and `cpu`: torch's or JAX's where just one is loaded."""
    loaded = [name for name in ("cupy", "torch", "jax") if name in sys.modules]
    return loaded[0] if loaded in (["torch"], ["jax"]) else ""


def _default_kind(library: str) -> Kind:
    """Return where a library that can do both puts its arrays when nothing else is said."""
    module = sys.modules.get(library)
    try:
        if library == "torch" and module is not None:
            return "cpu" if module.get_default_device().type == "cpu" else "gpu"
        if library == "jax" and module is not None:
            return "cpu" if module.default_backend() == "cpu" else "gpu"
    except Exception:  # noqa: BLE001 - a library that cannot be used: the test itself will say so
        return "cpu"
    return "cpu"


def _unknown(name: str, values: Mapping[str, Any]) -> str:
    return f"{name}={_shown(values[name])} is no device or array library that is known"


def _shown(value: Any) -> str:
    return value.__name__ if isinstance(value, ModuleType) else repr(value).partition(" at 0x")[0]
