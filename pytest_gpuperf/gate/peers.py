"""From an environment and two devices to the text that all results share that can be compared with theirs."""

from collections.abc import Iterable, Iterator

from pytest_gpuperf.gate.fingerprint import settings, version
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import DeviceInfo
from pytest_gpuperf.model.record import Environment

__all__ = ["fingerprint"]


def fingerprint(
    environment: Environment, cpu: DeviceInfo | None, gpu: DeviceInfo | None, demand: Demand | None = None
) -> str:
    """Return what must be the same for two results to be comparable, as a short text.

    That are the processor and how many of it can be used, the GPU, the major versions of driver and runtime,
    the libraries and Python as far as their minor versions, modes of reduced precision, threads, and what the
    speedup includes: what `pytest_gpuperf.gate.fingerprint` compares, without the single test's own work.
    """
    known = environment.cpu
    limits = (known.get("usable") or known.get("logical"), known.get("quota"))
    counts = [count for count in limits if isinstance(count, int | float)]
    number = f" x{min(counts):g}" if counts else ""
    host = f"{known.get('name') or 'unknown processor'}{number}{_listed(_software(cpu))}"
    device = f"{gpu.name}{_listed(_software(gpu))}" if gpu else "no GPU"
    return " | ".join([host, device, ", ".join(settings(environment)), *_included(demand or Demand())])


def _software(device: DeviceInfo | None) -> Iterator[str]:
    """Yield what a device's times depend on beside itself."""
    if device is None:
        return
    library = version(device.library.partition(",")[0], "minor") or ""
    if device.backend not in library:
        yield device.backend
    yield library
    if device.driver:
        yield f"driver {version(device.driver, 'major')}"
    if runtime := version(device.runtime, "major"):
        yield runtime
    if device.reduced_precision:
        yield device.reduced_precision
    if device.emulated:
        yield "emulated"


def _included(demand: Demand) -> Iterator[str]:
    if demand.transfer != "never":
        calls = f" in {demand.calls} calls" if demand.transfer == "once" and demand.calls else ""
        yield f"with copies {demand.transfer}{calls}"
    if demand.latency:
        yield "latency"


def _listed(parts: Iterable[str]) -> str:
    listed = ", ".join(parts)
    return f" ({listed})" if listed else ""
