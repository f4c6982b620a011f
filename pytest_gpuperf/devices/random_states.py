"""From the loaded libraries to what brings their random states back; JAX has none."""

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

Restore = Callable[[], object]


@contextmanager
def kept() -> Iterator[None]:
    """Bring back the random states of the libraries that are loaded now.

    One that cannot be read, or written, is left alone: a test may have replaced what it takes.
    """
    restores = [*_restores()]
    try:
        yield
    finally:
        for restore in restores:
            with suppress(Exception):
                restore()


def _restores() -> Iterator[Restore]:
    for name, read in _LIBRARIES:
        library, restore = sys.modules.get(name), None
        with suppress(Exception), warnings.catch_warnings(action="ignore"):
            restore = None if library is None else read(library)
        if restore is not None:
            yield restore


def _python(random: Any) -> Restore:
    return partial(random.setstate, random.getstate())


def _numpy(random: Any) -> Restore:
    generator, state = random.get_bit_generator(), random.get_state()

    def restore() -> None:
        random.set_bit_generator(generator)
        random.set_state(state)

    return restore


def _torch(torch: Any) -> Restore:
    return partial(torch.set_rng_state, torch.get_rng_state())


def _torch_accelerator(torch: Any) -> Restore | None:
    """Return what brings back the states of all devices; None before the first one is used."""
    module = torch.get_device_module(torch.accelerator.current_accelerator())
    if not getattr(module, "is_initialized", lambda: True)():
        return None
    if hasattr(module, "get_rng_state_all"):
        return partial(module.set_rng_state_all, module.get_rng_state_all())
    return partial(module.set_rng_state, module.get_rng_state())  # MPS has one device


def _by_device(states: dict[Any, Any]) -> Restore:
    """Return what brings back states that cannot be read: others are drawn from meanwhile."""
    before = dict(states)
    states.clear()

    def restore() -> None:
        states.clear()
        states.update(before)

    return restore


def _keras(global_state: Any) -> Restore:
    generator = global_state.get_global_attribute("global_seed_generator")
    return partial(generator.state.assign, generator.state.numpy().copy())


def _mlx(core: Any) -> Restore:
    high, low = core.random.state[0].tolist()  # a key, which is the two halves of a seed
    return partial(core.random.seed, high << 32 | low)


_LIBRARIES: tuple[tuple[str, Callable[[Any], Restore | None]], ...] = (
    ("random", _python),
    ("numpy.random", _numpy),
    ("torch", _torch),
    ("torch", _torch_accelerator),
    ("cupy.random._generator", lambda module: _by_device(module._random_states)),  # noqa: SLF001 - the public function makes a state, which loads cuRAND
    ("dpnp.random.dpnp_iface_random", lambda module: _by_device(module._dpnp_random_states)),  # noqa: SLF001 - there is no public one
    ("keras.src.backend.common.global_state", _keras),
    ("mlx.core", _mlx),
)
