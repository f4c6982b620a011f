"""One launch of several processes that each run the same tests, and the place of this process in it."""

from dataclasses import dataclass
from typing import Literal

from pytest_gpuperf.model.value import AtLeastOne, Value

Launcher = Literal["torchrun", "srun", "open_mpi", "mpich", "jax", "variables", "pytest"]
"""What started them: `variables` are RANK and WORLD_SIZE, which several launchers set; `pytest` is plain
pytest, for its tests with `ranks`."""

_NAMES: dict[Launcher, str] = {
    "torchrun": "torchrun",
    "srun": "srun",
    "open_mpi": "Open MPI",
    "mpich": "MPICH",
    "jax": "jax.distributed",
    "variables": "RANK and WORLD_SIZE",
    "pytest": "pytest",
}


class Launch(Value, frozen=True, kw_only=True):
    """Processes that run the same tests, of which rank 0 measures."""

    launcher: Launcher
    """What started them."""
    ranks: AtLeastOne
    """How many there are."""
    nodes: AtLeastOne | None
    """On how many machines they run; null where the launcher does not say."""

    @property
    def is_on_one_machine(self) -> bool:
        """Whether all run on one machine, as far as the launcher says."""
        return (self.nodes or 1) == 1

    @property
    def name(self) -> str:
        """What a sentence calls the launcher."""
        return _NAMES[self.launcher]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """A process of a launch: its `number`, and `local`, that among the processes of its machine.

    `key` is the same in all processes of a launch, and another one in every other launch of a machine at that
    time.
    """

    launch: Launch
    number: int
    local: int
    key: str

    @property
    def words(self) -> str:
        """What a sentence calls it: `rank 1 of 2 (torchrun)`."""
        return f"rank {self.number} of {self.launch.ranks} ({self.launch.name})"
