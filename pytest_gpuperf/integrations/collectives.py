"""torch.distributed, JAX and mpi4py: whether a test's calls wait for the other ranks of a launch.

Only what the suite has imported is asked.
"""

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_gpuperf.model import ask


class Collectives:
    """The calls of a test that wait for other ranks, as far as they can be seen after its first run."""

    def __init__(self, item: pytest.Function) -> None:
        self._item = item
        self._before = _torch_calls()

    def found(self) -> str | None:
        """Return what makes calls wait for other ranks; None where nothing shows it."""
        if _torch_calls() != self._before:
            return "it communicates through torch.distributed"
        if ask.answer(_has_global_arrays, default=False):
            return "JAX has arrays that are spread over several processes"
        if ask.answer(_mpi_ranks, default=1) > 1 and any(map(_is_of_mpi, _referred(self._item))):
            return "it uses mpi4py"
        return None


def are_possible() -> bool:
    """Return whether anything is loaded with which a test may wait for other ranks."""
    return any(name in sys.modules for name in ("torch.distributed", "jax", "mpi4py.MPI"))


def _torch_calls() -> tuple[int, int] | None:
    """Return how many groups of processes there are, and how many calls all of them have made.

    PyTorch counts the calls of each group to find ranks that differ; it has no public way to that number.
    None where there is no group.
    """
    torch: Any = sys.modules.get("torch.distributed.distributed_c10d")
    if torch is None or not ask.answer(torch.is_initialized, default=False):
        return None
    groups = [*torch._world.pg_map]  # noqa: SLF001 - as above
    calls: int = sum(ask.answer(_calls_of, group, default=0) for group in groups)
    return len(groups), calls


def _calls_of(group: Any) -> int:
    calls: int = group._get_sequence_number_for_group()  # noqa: SLF001 - as above
    return calls


def _has_global_arrays() -> bool:
    jax: Any = sys.modules.get("jax")
    if jax is None or jax.process_count() == 1:
        return False
    return any(not array.is_fully_addressable for array in jax.live_arrays())


def _mpi_ranks() -> int:
    mpi: Any = sys.modules.get("mpi4py.MPI")
    if mpi is None or not mpi.Is_initialized() or mpi.Is_finalized():
        return 1
    ranks: int = mpi.COMM_WORLD.Get_size()
    return ranks


def _referred(item: pytest.Function) -> Iterator[Any]:
    """Yield what a test's function names in its module, and its fixtures."""
    yield from item.funcargs.values()
    function = ask.attribute(item, "function")
    names = ask.attribute(ask.attribute(function, "__code__"), "co_names", ())
    module = ask.attribute(function, "__globals__", {})
    yield from (module[name] for name in names if name in module)


def _is_of_mpi(value: Any) -> bool:
    return ask.package(type(value)) == "mpi4py" or (ask.name_of(value) or "").partition(".")[0] == "mpi4py"
