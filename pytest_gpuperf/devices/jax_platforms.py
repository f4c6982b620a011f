"""From JAX's platforms to why it shows no accelerator: it logs what its plugins raise, and uses its CPU."""

import re
from functools import cache
from logging import LogRecord
from typing import Any

from pytest_gpuperf.model import ask

_IS_THERE = re.compile("already (exists|initialized|registered)|ALREADY_EXISTS")  # the plugin, asked again
_ADVICE = re.compile(r"\.? \((you may need to uninstall|set JAX_PLATFORMS).*")  # whatever the cause is


@cache
def failure_at_start(jax: Any) -> Exception | None:
    """Start JAX's platforms; return what that raises, without which JAX shows devices.

    JAX raises it once in a process, and afterwards shows its CPU as if it were all.
    """
    try:
        jax.local_devices()
    except Exception as error:  # noqa: BLE001 - of any plugin
        return error.with_traceback(None)
    return None


def cpus(jax: Any) -> list[Any]:
    """Return JAX's devices on the CPU, which it may not show before its other platforms have failed."""
    failure_at_start(jax)
    return list(jax.local_devices(backend="cpu"))


def failures(jax: Any) -> list[Exception]:
    """Return why platforms for accelerators did not start, though JAX has a plugin for them.

    These are private names of JAX (0.10, 0.11): where they have changed, nothing is known.
    """
    found: list[Exception] = ask.answer(_refusals, jax, default=[])
    raised = failure_at_start(jax)
    if not found and not isinstance(raised, AssertionError | None):  # of JAX_PLATFORMS without any device
        found.append(RuntimeError(_ADVICE.sub("", str(raised))))
    kept: dict[str, str] = ask.answer(lambda: dict(_bridge(jax)._backend_errors), default={})  # noqa: SLF001 - as above
    if not ask.answer(_tpu_chips, jax, default=0):
        kept.pop("tpu", None)  # which JAX tries on each machine
    return found + [RuntimeError(f"{name}: {said}") for name, said in kept.items()]


def _refusals(jax: Any) -> list[Exception]:
    """Return what plugins raise before they have registered a platform: they are asked again."""
    found: list[Exception] = []

    def keep(record: LogRecord) -> bool:
        if record.exc_info and isinstance(record.exc_info[1], Exception):
            found.append(record.exc_info[1])
        return False

    bridge = _bridge(jax)
    bridge.logger.addFilter(keep)
    try:
        bridge.discover_pjrt_plugins()
    finally:
        bridge.logger.removeFilter(keep)
    return [error for error in found if not _IS_THERE.search(str(error))]


def _bridge(jax: Any) -> Any:
    return jax._src.xla_bridge  # noqa: SLF001 - no public name tells it


def _tpu_chips(jax: Any) -> int:
    """Return how many TPUs are on this machine's bus."""
    return int(jax._src.hardware_utils.num_available_tpu_chips_and_device_id()[0])  # noqa: SLF001 - as above
