"""From the environments of several runs to whether one machine made them, and to how they differ."""

from collections.abc import Iterable, Sequence

from pytest_gpuperf import units
from pytest_gpuperf.model import Environment

__all__ = ["differences", "hosts_differ", "machines"]

_PACKAGES = ("numpy", "pytest-gpuperf")


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
