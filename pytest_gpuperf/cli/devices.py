"""`gpuperf devices`: each backend's device and each accelerator, whether it can be used, what is missing."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from pytest_gpuperf.cli.command import CommandResult, add_command, lines_result
from pytest_gpuperf.model.errors import Unavailable
from pytest_gpuperf.model.measurement import DeviceInfo

_CPU = "cpu"  # of a library: it emulates a GPU, and is never chosen automatically
_FACTS = ("name", "library", "emulated", "memory", "driver", "runtime")
_EMULATED = (
    "emulated: no GPU; with one of them the fixture `gpu` and the GPU of speedup tests are that device, to "
    "try things out, and no speedup is a GPU's"
)
_FIRST = (
    "auto chooses the first usable GPU whose library replaces NumPy (cupy, sycl), and emulates none; pass "
    "others by name, e.g. --gpuperf-gpu=torch"
)
_OTHERS = "devices of other plugins are not listed here: pytest --gpuperf-gpu=NAME uses them"
_ACCELERATORS = (
    "accelerators, each compared with its library alone: --gpuperf-gpu, or accelerator= of a marker"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceListing:
    """A GPU or an accelerator, or why it is not usable; `automatic` means that `auto` may choose it."""

    choice: str
    device: DeviceInfo | None
    reason: str | None
    automatic: bool


def add(commands: Any) -> None:
    """Add the command."""
    purpose = "list the CPU, each GPU and each accelerator, or why one is not usable and the remedy"
    command = add_command(commands, "devices", purpose, lambda chosen: devices(as_json=chosen.json))
    command.add_argument("--json", action="store_true", help="as an object of JSON, for programs")


def devices(*, as_json: bool) -> CommandResult:
    """List the CPU, each GPU and each accelerator, or why one is not usable and the remedy."""
    from pytest_gpuperf.devices import environment
    from pytest_gpuperf.report.json import codec

    listings, accelerators = list(_listings()), list(_accelerators())
    automatic = next((listing.choice for listing in listings if listing.automatic and listing.device), None)
    cpu = {"name": environment.cpu_name(), "usable": environment.usable_processors()}
    if as_json:
        gpus = [_content(listing, automatic) for listing in listings]
        others = [_content(listing, None) for listing in accelerators]
        found = {"cpu": cpu, "gpus": gpus, "auto": automatic, "accelerators": others}
        return CommandResult(text=codec.indented(found))
    heading = f"CPU  {cpu['name']}, {cpu['usable']:g} processors"
    rows = (_table(each, automatic) for each in (listings, accelerators))
    said = [_EMULATED, _FIRST, _OTHERS]
    return lines_result([heading, "", *next(rows), "", *said, "", _ACCELERATORS, "", *next(rows)])


def _listings() -> Iterator[DeviceListing]:
    """Yield each backend's devices; a failure is that backend's reason, and hides no other backend."""
    from pytest_gpuperf.devices.choice import backends
    from pytest_gpuperf.devices.stand_in import chosen_stand_in

    for backend in backends().values():
        for selector in _selectors(backend):
            choice = f"{backend.name}:{selector}" if selector else backend.name
            stand_in = chosen_stand_in(choice)
            automatic = backend.automatic and selector != _CPU
            opened = partial(stand_in.gpu, "") if stand_in else partial(backend.gpu, selector)
            yield _listing(choice, opened, automatic=automatic)


def _accelerators() -> Iterator[DeviceListing]:
    from pytest_gpuperf.devices.accelerators import CHOICES, chosen_accelerator

    for choice in CHOICES:
        if (backend := chosen_accelerator(choice)) is not None:
            yield _listing(choice, partial(backend.gpu, ""), automatic=False)


def _listing(choice: str, opened: Callable[[], Any], *, automatic: bool) -> DeviceListing:
    """Return what a choice opens, or why it does not."""
    device, reason = None, ""
    try:
        device = opened().info
    except Unavailable as cause:
        reason = str(cause)
    except Exception as error:  # noqa: BLE001 - a vendor's library may raise anything
        reason = f"it cannot be used: {type(error).__name__}: {error}"
    line = " ".join(reason.split()) or None
    return DeviceListing(choice=choice, device=device, reason=line, automatic=automatic)


def _selectors(backend: Any) -> list[str]:
    """Return a selector for each device; just the first where a backend does not count them."""
    from pytest_gpuperf.devices.choice import selectors
    from pytest_gpuperf.devices.registry import EMULATED

    emulated = [_CPU] if backend.name in EMULATED else []
    return [*selectors(backend), *emulated]


def _table(listings: list[DeviceListing], automatic: str | None) -> Iterator[str]:
    kinds = [_kind(listing) for listing in listings]
    width, of_kinds = max(len(listing.choice) for listing in listings), max(map(len, kinds))
    for listing, kind in zip(listings, kinds, strict=True):
        start, device = f"{kind.ljust(of_kinds)}  {listing.choice.ljust(width)}", listing.device
        if device is None:
            yield f"{start}  {listing.reason}"
            continue
        parts = [device.name, device.library]
        parts += ["chosen by auto"] if listing.choice == automatic else []
        yield f"{start}  {', '.join(parts)}"


def _kind(listing: DeviceListing) -> str:
    """Return what a choice is: a GPU, what emulates one, an accelerator of the CPU, or nothing here."""
    if listing.device is None:
        return "-"
    if not listing.device.emulated:
        return "GPU"
    return "CPU" if listing.choice.startswith("accelerator:") else "emulated"


def _content(listing: DeviceListing, automatic: str | None) -> dict[str, Any]:
    return {
        "choice": listing.choice,
        "usable": listing.device is not None,
        "reason": listing.reason,
        "automatic": listing.automatic,
        "taken_by_auto": listing.choice == automatic,
        **{name: getattr(listing.device, name, None) for name in _FACTS},
    }
