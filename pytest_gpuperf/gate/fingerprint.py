"""From the environments of several runs to whether one machine made them, and to how they differ."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Literal

from pytest_gpuperf.devices.environment import THREADS
from pytest_gpuperf.model import units
from pytest_gpuperf.model.demand import Kind
from pytest_gpuperf.model.measurement import DeviceInfo
from pytest_gpuperf.model.record import Environment, Record

__all__ = [
    "SINCE",
    "Conditions",
    "around",
    "conditions",
    "differences",
    "hosts_differ",
    "machines",
    "settings",
    "surroundings",
    "traits",
    "unlike",
    "version",
]

Conditions = Mapping[str, str | None]
"""What must be the same for two measurements to be comparable, by name; None for what is not told."""

SINCE = "{}: {} in the baseline, {} now"
"""How a difference from a baseline is told: its name, what was, and what is."""

_PACKAGES = ("numpy", "pytest-gpuperf")
_VERSION = re.compile(r"(\d+)(\.\d+)?[\w.+-]*")
_CUDA = re.compile(r"\bcuda (\d\d)0(\d)0\b")  # as CUDA itself counts, and JAX tells it: 12090 is 12.9
_ROUNDING = ("CUPY_TF32", "NVIDIA_TF32_OVERRIDE", "JAX_DEFAULT_MATMUL_PRECISION", "JAX_ENABLE_X64")


def hosts_differ(surveyed: Sequence[Environment]) -> bool | None:
    """Say whether runs were made on several machines; None when an environment does not name its own."""
    if len(_known(_host(each) for each in surveyed)) > 1 or len(_known(_cpu(each) for each in surveyed)) > 1:
        return True
    return None if any(_host(each) is None or _cpu(each) is None for each in surveyed) else False


def machines(surveyed: Sequence[Environment]) -> tuple[str, ...]:
    """Return the machines' names, each once: the hosts', or those of the processors that tell them apart."""
    hosts, processors = (_known(map(name, surveyed)) for name in (_host, _cpu))
    return hosts if len(hosts) > 1 or len(processors) < 2 else processors


def differences(surveyed: Sequence[Environment]) -> tuple[str, ...]:
    """Return what differs, with the values in the order of the runs: `python: 3.11.7, 3.12.1`.

    What an environment does not tell differs from nothing.
    """
    variables = sorted({name for each in surveyed for name in each.variables or ()})
    parts = [_parts(each, variables) for each in surveyed]
    found = {name: _known(part[name] for part in parts) for name in parts[0]}
    return tuple(f"{name}: {', '.join(values)}" for name, values in found.items() if len(values) > 1)


def surroundings(surveyed: Environment, gpu: DeviceInfo | None) -> Conditions:
    """Return what the measurements of a whole run depend on; `gpu` is the one that they were made on."""
    return {**_processor(surveyed), **_device("GPU", gpu), **_chosen(surveyed, _ROUNDING)}


def around(surveyed: Environment, kinds: Iterable[Kind]) -> Conditions:
    """Return what every test's times on these devices depend on."""
    found: dict[str, str | None] = {}
    for kind in kinds:
        found |= _processor(surveyed) if kind == "cpu" else _chosen(surveyed, _ROUNDING)
    return found


def traits(record: Record, kinds: Iterable[Kind]) -> tuple[object, ...]:
    """Return what `conditions` are made of: where it is the same, so are they."""
    demand = record.demand
    sides = (record.cpu if kind == "cpu" else record.gpu for kind in kinds)
    of_sides = (side and (side.device, side.dtypes, side.shapes) for side in sides)
    return (record.scope, demand.transfer, demand.calls, demand.latency, *of_sides)


def conditions(record: Record, kinds: Iterable[Kind], asked: bool) -> Conditions:  # noqa: FBT001 - the last of the parts that count
    """Return what one test's times on these devices depend on, and with `asked` what its speedup includes."""
    found: dict[str, str | None] = {"scope": record.scope}
    for kind in kinds:
        side = record.cpu if kind == "cpu" else record.gpu
        found |= _device(kind.upper(), side.device if side else None)
        found[f"{kind.upper()} dtypes"] = ", ".join(sorted(side.dtypes)) or None if side else None
        found[f"{kind.upper()} shapes"] = ", ".join(side.shapes) or None if side else None
    return {**found, **(_included(record) if asked else {})}


def settings(surveyed: Environment) -> tuple[str, ...]:
    """Return the interpreter and what environment variables set: `python 3.11`, `OMP_NUM_THREADS=1`."""
    chosen = surveyed.variables or {}
    names = (name for name in (*THREADS, *_ROUNDING) if name in chosen)
    return (f"python {version(surveyed.python, 'minor')}", *(f"{name}={chosen[name]}" for name in names))


def unlike(before: Conditions, now: Conditions, form: str = "{}: {}, {}") -> tuple[str, ...]:
    """Return what differs, `name: before, now`; what either does not tell differs from nothing."""
    if before == now:
        return ()
    pairs = ((name, before.get(name), value) for name, value in now.items())
    return tuple(form.format(*pair) for pair in pairs if pair[1] and pair[2] and pair[1] != pair[2])


def _processor(surveyed: Environment) -> dict[str, str | None]:
    """Return the CPU, how much of it a run could use, and the interpreter that it ran."""
    cpu = surveyed.cpu
    limits = [limit for limit in (cpu.get("usable") or cpu.get("logical"), cpu.get("quota")) if limit]
    return {
        "CPU": _cpu(surveyed),
        "processors": f"{min(map(float, limits)):g}" if limits else None,
        "python": version(surveyed.python, "minor"),
        **_chosen(surveyed, THREADS),
    }


def _device(side: str, device: DeviceInfo | None) -> dict[str, str | None]:
    if device is None:
        return {}
    library = device.library.partition(",")[0]  # what follows are its driver and its runtime
    return {
        **({side: device.name} if device.kind == "gpu" else {}),  # a CPU's is the processor's
        f"{side} backend": device.backend,
        f"{side} emulated": "yes" if device.emulated else "no",
        f"{side} library": version(library, "minor"),
        f"{side} driver": version(device.driver, "major"),
        f"{side} runtime": version(device.runtime, "major"),
        f"{side} precision": device.reduced_precision or "full",
    }


def _included(record: Record) -> dict[str, str | None]:
    demand = record.demand
    calls = f" for {demand.calls} calls" if demand.calls else ""
    return {"transfer": f"{demand.transfer}{calls}", "latency": "yes" if demand.latency else "no"}


def _chosen(surveyed: Environment, names: Iterable[str]) -> dict[str, str | None]:
    """Return what environment variables set; None where the report does not list them."""
    variables = surveyed.variables
    return {name: None if variables is None else variables.get(name, "not set") for name in names}


@cache
def version(text: str | None, part: Literal["major", "minor"]) -> str | None:
    """Return a text with each version in it cut down to its major or minor part: `numpy 2.4`."""
    groups = r"\1" if part == "major" else r"\1\2"
    return _VERSION.sub(groups, _CUDA.sub(r"cuda \1.\2", text)) if text else None


def _parts(surveyed: Environment, variables: Iterable[str]) -> dict[str, str | None]:
    """Return what must be the same for two runs to be comparable; None for what is not told."""
    memory, chosen = surveyed.host.get("memory"), surveyed.variables
    pools = sorted(f"{pool.library} {pool.threads}" for pool in surveyed.thread_pools)
    return {
        "host": _host(surveyed),
        "CPU": _cpu(surveyed),
        "memory": units.size(memory) if isinstance(memory, int) else None,
        "python": surveyed.python,
        **{name: surveyed.packages.get(name) for name in _PACKAGES},
        "thread pools": " + ".join(pools) or None,
        **{name: None if chosen is None else chosen.get(name, "not set") for name in variables},
    }


def _host(surveyed: Environment) -> str | None:
    return str(surveyed.host.get("name") or "") or None


def _cpu(surveyed: Environment) -> str | None:
    return str(surveyed.cpu.get("name") or "") or None


def _known(values: Iterable[str | None]) -> tuple[str, ...]:
    """Return the values that are known, each once."""
    return tuple(dict.fromkeys(value for value in values if value is not None))
