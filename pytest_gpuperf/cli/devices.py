"""`gpuperf devices`: what is here, what can be used, and what is missing."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.cli.output import CommandResult, told
from pytest_gpuperf.model.errors import Unavailable
from pytest_gpuperf.model.measurement import DeviceInfo

if TYPE_CHECKING:
    from pytest_gpuperf.devices.protocol import Backend

__all__ = ["add", "devices"]

_CPU = "cpu"  # of sycl: it only stands for a GPU, and is taken by name
_FIRST = "auto takes the first GPU that can be used; another is chosen by name, as in --gpuperf-gpu=torch"
_OTHERS = "devices that other plugins offer are listed by pytest only: pytest --gpuperf-gpu=NAME"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceListing:
    """One backend's GPU, or why it has none; `automatic` says that `auto` may take it."""

    choice: str
    device: DeviceInfo | None
    reason: str | None
    automatic: bool


def add(commands: Any) -> None:
    """Add the command."""
    command = commands.add_parser(
        "devices",
        help="list the devices: what can be used, and what is missing",
        description=devices.__doc__,
    )
    command.add_argument("--json", action="store_true", help="as an object of JSON, for programs")
    command.set_defaults(run=lambda chosen: devices(as_json=chosen.json))


def devices(*, as_json: bool) -> CommandResult:
    """List the CPU, and every backend's GPU with its name, or with why there is none and the remedy."""
    from pytest_gpuperf.devices import environment
    from pytest_gpuperf.devices.registry import backends
    from pytest_gpuperf.report.json import codec

    found = list(_found(backends(environment.cpu_name(), [])))
    taken = next((each.choice for each in found if each.automatic and each.device), None)
    cpu = {"name": environment.cpu_name(), "usable": environment.usable_processors()}
    if as_json:
        listed = [_content(each, taken) for each in found]
        return CommandResult(text=codec.indented({"cpu": cpu, "gpus": listed, "auto": taken}))
    lines = [
        f"CPU  {cpu['name']}, {cpu['usable']:g} processors",
        "",
        *_table(found, taken),
        "",
        _FIRST,
        _OTHERS,
    ]
    return told(lines)


def _found(offered: list["Backend"]) -> Iterator[DeviceListing]:
    """Yield what each backend has; one that fails in a way of its own says so, and hides no other."""
    for backend in offered:
        for selector in _selectors(backend):
            choice = f"{backend.name}:{selector}" if selector else backend.name
            device, reason = None, None
            try:
                device = backend.gpu(selector).info
            except Unavailable as cause:
                reason = _one_line(str(cause))
            except Exception as error:  # noqa: BLE001 - a vendor's library may raise anything
                reason = f"it cannot be used: {type(error).__name__}: {_one_line(str(error))}"
            automatic = backend.automatic and selector != _CPU
            yield DeviceListing(choice=choice, device=device, reason=reason, automatic=automatic)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _selectors(backend: Any) -> list[str]:
    """Return a selector for each device; just the first where a backend does not count them."""
    if backend.name == "sycl":
        return ["", _CPU]
    try:
        count = int(backend.count())
    except Exception:  # noqa: BLE001 - few backends count, and what fails here fails again, with its reason
        count = 0
    return [str(index) for index in range(count)] if count > 1 else [""]


def _table(found: list[DeviceListing], taken: str | None) -> Iterator[str]:
    width = max(len(each.choice) for each in found)
    for each in found:
        name = each.choice.ljust(width)
        if each.device is None:
            yield f"-    {name}  {each.reason}"
        else:
            yield f"GPU  {name}  {', '.join(_words(each, taken))}"


def _words(each: DeviceListing, taken: str | None) -> Iterator[str]:
    device = each.device
    if device is None:
        return
    yield device.name
    yield device.library
    if device.emulated:
        yield "emulated: not a GPU's speedup, for trying things"
    if each.choice == taken:
        yield "auto takes it"


def _content(each: DeviceListing, taken: str | None) -> dict[str, Any]:
    device = each.device
    return {
        "choice": each.choice,
        "usable": device is not None,
        "reason": each.reason,
        "automatic": each.automatic,
        "taken_by_auto": each.choice == taken,
        "name": device.name if device else None,
        "library": device.library if device else None,
        "emulated": device.emulated if device else None,
        "memory": device.memory if device else None,
        "driver": device.driver if device else None,
        "runtime": device.runtime if device else None,
    }
