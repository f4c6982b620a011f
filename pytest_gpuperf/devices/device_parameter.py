"""From the values of a suite's own parameters to the device, and its library, that a test uses."""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from textwrap import shorten
from typing import Any, Protocol

from pytest_gpuperf.devices.registry import REGISTRY
from pytest_gpuperf.model import ask
from pytest_gpuperf.model.demand import Kind, UnknownValue
from pytest_gpuperf.model.plain_text import first_line, one_line, quote, stable_text

_NAMES = {"numpy": ("numpy", "np", "scipy"), **{row.name: row.values for row in REGISTRY}}
_LIBRARIES = {name: library for library, names in _NAMES.items() for name in names}
_ON_EITHER = frozenset(row.name for row in REGISTRY if row.is_on_either)
_ONLY_KIND: dict[str, Kind] = {"numpy": "cpu", **{row.name: row.only for row in REGISTRY if row.only}}
TORCH_TYPES = ("cuda", "hpu", "mps", "mtia", "npu", "xpu")
"""The types of `torch.device` that are GPUs or in the place of one."""
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("cpu", "host"), "cpu"),
    **dict.fromkeys(("gpu", "rocm", "hip", "tpu", *TORCH_TYPES), "gpu"),
}
_LIBRARY_OF_DEVICE = {**dict.fromkeys(TORCH_TYPES[1:], "torch"), "tpu": "jax"}  # only one library uses these
_LONGEST = 60  # letters of an object's text
_REMEDY = (
    "use a value that is known (numpy, cupy, torch, jax, dpnp, cpu, cuda:1, modules, devices of torch and "
    "jax), map yours to a device (gpuperf_device_values = VALUE=torch), or remove the parameter from "
    "gpuperf_device_params"
)


class Recognizer(Protocol):
    """A backend that recognizes its own values among a suite's parameters."""

    name: str

    def recognizes(self, value: Any, /) -> Kind | None:
        """Return the kind of device that a value means, None where it means none of this backend's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpec:
    """The device of a test that uses one device only.

    `library` is a backend's name, "numpy", or empty: then it is the run's own device of that kind. `selector`
    chooses one of several devices. With `is_default` the value names the library only, which is on this kind
    of device by default; with `is_stand_in` it does, and another backend is in the place of its GPU.
    """

    kind: Kind
    library: str = ""
    selector: str = ""
    is_default: bool = field(default=False, compare=False)
    is_stand_in: bool = field(default=False, compare=False)

    @property
    def may_be_on_gpu(self) -> bool:
        """Whether the same value means a GPU where there is one: torch, JAX and Keras choose by default."""
        return self.library in _ON_EITHER


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedDevice:
    """The device that parameters name, None where none of them does, and the names of those that do."""

    spec: DeviceSpec | None = None
    parameters: frozenset[str] = frozenset()


class UnknownDevice(ValueError):
    """A parameter has a value that no backend knows: `given` is what `value` describes."""

    def __init__(self, message: str, value: UnknownValue, given: Any) -> None:
        super().__init__(message)
        self.value = value
        self.given = given


@dataclass(frozen=True, slots=True, kw_only=True)
class _PartialSpec:
    """The parts of a device that one value names."""

    library: str = ""
    kind: Kind | None = None
    selector: str = ""
    is_stand_in: bool = False


class DeviceParser:
    """Parses parameter values; `names` are the device parameters, `recognizers` other plugins' backends.

    `devices` maps a suite's own values to devices, by their text as messages show it or by their class:
    `{"TorchBackend": "torch"}`. Raises ValueError for an unknown device.
    """

    def __init__(
        self,
        names: Iterable[str],
        recognizers: Iterable[Recognizer] = (),
        devices: Mapping[str, str] | None = None,
    ) -> None:
        self.names = tuple(names)
        self._recognizers = tuple(recognizers)
        self._mapped: dict[str, _PartialSpec] = {}
        for value, device in (devices or {}).items():
            part = self._known(device)
            if part is None:
                raise ValueError(f"{device!r} is not a known device or array library")
            self._mapped[value] = part

    def parse(self, parameters: Mapping[str, Any]) -> ParsedDevice:
        """Return the device that these parameters name; ValueError for an unknown one and a contradiction."""
        values = {name: parameters[name] for name in self.names if name in parameters}
        given = {name: value for name, value in values.items() if value is not None}
        parts = {name: part for name, value in given.items() if (part := self._parse_value(value))}
        if not parts:
            if not given:
                return ParsedDevice()
            name, value = next(iter(given.items()))
            unknown = UnknownValue(parameter=name, value=_shown(value))
            problem = self._problem(f"{name}={unknown.value} is not a known device or array library")
            raise UnknownDevice(problem, unknown, value)
        shown = ", ".join(f"{name}={_shown(given[name])}" for name in parts)
        libraries = {part.library for part in parts.values() if part.library}
        kinds = {part.kind for part in parts.values() if part.kind}
        if len(libraries) > 1 or len(kinds) > 1:
            raise ValueError(self._problem(f"{shown} name different devices"))
        library = libraries.pop() if libraries else _loaded_library()
        only_kind = _ONLY_KIND.get(library)
        is_default = not kinds and library in _ON_EITHER
        is_stand_in = library in _ON_EITHER and all(part.is_stand_in for part in parts.values())
        kind = kinds.pop() if kinds else only_kind or _default_kind(library)
        if only_kind is not None and kind != only_kind:
            raise ValueError(self._problem(f"{shown}: {library} has no {kind.upper()}"))
        selector = next((part.selector for part in parts.values() if part.selector), "")
        if library == "torch" and selector.isdecimal():
            selector = f"cuda:{selector}"
        unset = {name for name, value in values.items() if value is None}  # `device=None`: the library's own
        return ParsedDevice(
            spec=DeviceSpec(
                kind=kind,
                library=library,
                selector=selector,
                is_default=is_default,
                is_stand_in=is_stand_in,
            ),
            parameters=frozenset(parts) | unset,
        )

    def parse_text(self, text: str) -> DeviceSpec | None:
        """Return the device that a text names, as a parameter with that value would; None for no device."""
        try:
            return self.parse({self.names[0]: text}).spec
        except ValueError:
            return None

    def _problem(self, text: str) -> str:
        return f"{text}; {_REMEDY} (it lists {', '.join(self.names)})"

    def _parse_value(self, value: Any) -> _PartialSpec | None:
        keys = (_text(value), type(value).__name__) if self._mapped else ()
        mapped = (self._mapped[key] for key in keys if key in self._mapped)
        return next(mapped, None) or self._known(value)

    def _known(self, value: Any) -> _PartialSpec | None:
        value = ask.attribute(value, "value") if ask.is_a(value, Enum) else value
        for recognizer in self._recognizers:
            if (kind := _recognized(recognizer, value)) is not None:
                return _PartialSpec(library=recognizer.name, kind=kind, is_stand_in=kind == "gpu")
        part = _parse(value)
        if part is None or part.kind is not None:
            return part
        own = (_recognized(each, each.name) for each in self._recognizers if each.name == part.library)
        kind = next(own, None)  # `jnp` means JAX, which may be in the place of a GPU
        return replace(part, kind=kind, is_stand_in=kind == "gpu")


def _recognized(recognizer: Recognizer, value: Any) -> Kind | None:
    """Return what a backend says of a value; one of another plugin's that raises is a problem of the test."""
    try:
        return recognizer.recognizes(value)
    except Exception as error:
        raise ValueError(
            f"{type(recognizer).__name__}.recognizes, of the plugin of {recognizer.name!r} devices, raised "
            f"{first_line(error)} for {_shown(value)}; it must return None for a value that it does not know"
        ) from error


def _parse(value: Any) -> _PartialSpec | None:
    """Return what a value of a well-known type names, without importing its library."""
    if ask.is_really(value, str):
        return _parse_text(str.__str__(value))
    package = ask.package(type(value))
    if package == "torch" and type(value).__name__ == "device":
        return _parse_text(f"torch:{value}")
    if package in ("jaxlib", "jax") and ask.has(value, "platform"):
        kind: Kind = "cpu" if value.platform == "cpu" else "gpu"
        return _PartialSpec(library="jax", kind=kind, selector=str(value.id) if kind == "gpu" else "")
    name = ask.name_of(value)
    return None if name is None else _parse_text(name)


def _parse_text(text: str) -> _PartialSpec | None:
    """Return what a text names: `cuda:1`, `torch:gpu`, `jax.numpy`; None where a word of it is unknown."""
    first, *words = text.strip().lower().split(":")
    library = _library_of(first)
    if first in _KINDS:
        words.insert(0, first)
    kinds = {_KINDS[word] for word in words if word in _KINDS}
    are_known = all(word in _KINDS or word.isdecimal() for word in words)
    if not are_known or len(kinds) > 1 or not (library or kinds):
        return None
    kind = next(iter(kinds), None)
    library = library or next((_LIBRARY_OF_DEVICE[word] for word in words if word in _LIBRARY_OF_DEVICE), "")
    if library == "cupy" and words:
        kind = kind or "gpu"
    return _PartialSpec(library=library, kind=kind, selector=_selector(library, words))


def _selector(library: str, words: list[str]) -> str:
    """Return the backend's selector for the device that the words name; empty for a plain `gpu`."""
    number = next((word for word in words if word.isdecimal()), "")
    if library != "torch":
        return number
    device_type = next((word for word in words if word in TORCH_TYPES), "cuda" if number else "")
    return f"{device_type}:{number}" if number else device_type


def _library_of(name: str) -> str:
    """Return the library of a module's name: `array_api_compat.torch` is torch, `jax.numpy` is JAX."""
    first, *others = name.split(".")
    if first in _LIBRARIES and first != "scipy":
        return _LIBRARIES[first]
    inner = next((_LIBRARIES[part] for part in reversed(others) if part in _LIBRARIES), "")
    return inner or _LIBRARIES.get(first, "")


def _loaded_library() -> str:
    """Return the library of a bare `cuda` or `cpu`: torch or JAX, if it is the only one that is loaded."""
    loaded = [name for name in ("cupy", "torch", "jax") if name in sys.modules]
    return loaded[0] if loaded in (["torch"], ["jax"]) else ""


def _default_kind(library: str) -> Kind:
    """Return where a library that has both devices puts its arrays by default."""
    module: Any = sys.modules.get(library)
    if library not in _ON_EITHER or module is None:
        return "cpu"
    try:
        if library == "keras":
            return "cpu" if "cpu" in str(module.ops.zeros(1).device).lower() else "gpu"
        default = module.get_default_device().type if library == "torch" else module.default_backend()
    except Exception:  # noqa: BLE001 - the library cannot be used, and the test itself will fail for it
        return "cpu"
    return "cpu" if default == "cpu" else "gpu"


def _text(value: Any) -> str:
    """Return a value's text, which is the same in every run: that of an object is short and has one line."""
    if ask.is_really(value, str):
        return str.__str__(value)  # of a member of an Enum, too
    return one_line(shorten(stable_text(value), _LONGEST, placeholder="..."))


def _shown(value: Any) -> str:
    return quote(_text(value)) if ask.is_really(value, str) else _text(value)
