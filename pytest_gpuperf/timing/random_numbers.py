"""From the random generators that a test may use to those that it drew from, and what to do about it."""

import pickle
import random
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pytest_gpuperf.timing.inputs import reached

States = Mapping[str, bytes]
"""The states of generators, by the names that messages give them."""

_TORCHS = "torch's generator"
_IN_CALL = "the call draws random numbers from {}: {}draw them before, or seed it inside the call"
_DROPOUT = "turn dropout off{}, "
_EVAL = " with eval() of the module in training mode ({})"
_UNSEEDED = "the test draws other random numbers on each device, from {}: seed it inside the test"


def states(call: Callable[[], Any]) -> States:
    """Return the states of the generators of Python, NumPy and torch, and of those that a call refers to."""
    torchs = getattr(sys.modules.get("torch"), "get_rng_state", None)
    found: dict[str, list[Any]] = {
        "Python's generator": [random.getstate()],
        "NumPy's generator": [np.random.get_state()],
    }
    if torchs is not None:
        found[_TORCHS] = [torchs().numpy()]
    for generator in reached(call, lambda value: _own_state(value) is not None, through_functions=True):
        found.setdefault(f"a {type(generator).__name__} that it refers to", []).append(_own_state(generator))
    return {name: pickle.dumps(state) for name, state in found.items()}


def changed(before: States, after: States) -> tuple[str, ...]:
    """Return the names of the generators that are in another state."""
    return tuple(name for name, state in before.items() if after.get(name, state) != state)


def of_call(drawn: tuple[str, ...], call: Callable[[], Any]) -> str | None:
    """Return what to do about the random numbers that a call draws; None where it draws none."""
    torch: Any = sys.modules.get("torch")
    dropout = ""
    if _TORCHS in drawn:
        modules = reached(
            call,
            lambda value: isinstance(value, torch.nn.Module) and value.training,
            through_functions=True,
        )
        dropout = _DROPOUT.format(next((_EVAL.format(type(module).__name__) for module in modules), ""))
    return _IN_CALL.format(" and ".join(drawn), dropout) if drawn else None


def unseeded(drawn: tuple[str, ...], cpu: States, gpu: States) -> str | None:
    """Return what to do about generators that setups drew from in other states; None without any."""
    names = [name for name in changed(cpu, gpu) if name in drawn]
    return _UNSEEDED.format(" and ".join(names)) if names else None


def _own_state(value: Any) -> Any:
    """Return the state of a random generator; None for anything else, and for one of the operating system."""
    if isinstance(value, np.random.Generator):
        return value.bit_generator.state
    if isinstance(value, random.Random):
        return None if isinstance(value, random.SystemRandom) else value.getstate()
    torchs = getattr(sys.modules.get("torch"), "Generator", None)
    if torchs is not None and isinstance(value, torchs):
        return value.get_state().cpu().numpy()
    return value.get_state() if isinstance(value, np.random.RandomState) else None
