"""torchrun, srun, mpiexec and their like: from the environment alone to this process's rank in a launch."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.launch import Launch, Launcher, Rank
from pytest_gpuperf.options import usage_error

_RANK = pytest.StashKey[Rank | GpuPerfError | None]()
_OF_PROCESS = "PYTEST_GPUPERF_RANK"  # the launch, for what a rank's tests start: that is no rank
_THREADS = "OMP_NUM_THREADS"
REFUSED = {
    "usepdb": ("--pdb", "the other ranks would wait for the one in the debugger"),
    "trace": ("--trace", "the other ranks would wait for the one in the debugger"),
    "reruns": ("--reruns", "one rank would run a test again that the others do not"),
    "retries": ("--retries", "one rank would run a test again that the others do not"),
    "force_flaky": ("--force-flaky", "one rank would run a test again that the others do not"),
}
"""Options that each rank would follow for itself, by their names in pytest's configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Variables:
    """The environment variables of a launcher. It is the one where all of `marks` are set.

    `keys` are what tells its launches apart; where one has no value, so does the process that started the
    ranks.
    """

    launcher: Launcher
    marks: tuple[str, ...]
    rank: str
    ranks: str
    local_rank: str
    local_ranks: str = ""
    nodes: str = ""
    keys: tuple[str, ...] = ()


_MPICH = _Variables(
    launcher="mpich",
    marks=("PMI_SIZE", "MPI_LOCALRANKID"),
    rank="PMI_RANK",
    ranks="PMI_SIZE",
    local_rank="MPI_LOCALRANKID",
    local_ranks="MPI_LOCALNRANKS",
)
OF_PYTEST = "PYTEST_GPUPERF_LAUNCH"
RANK_OF_PYTEST, RANKS_OF_PYTEST = f"{OF_PYTEST}_RANK", f"{OF_PYTEST}_RANKS"
"""Variables of ranks that plain pytest has started: a suite may set those that torch.distributed reads."""
_LAUNCHERS = (
    _Variables(
        launcher="pytest",
        marks=(OF_PYTEST,),
        rank=RANK_OF_PYTEST,
        ranks=RANKS_OF_PYTEST,
        local_rank=RANK_OF_PYTEST,
        local_ranks=RANKS_OF_PYTEST,
        keys=(OF_PYTEST,),
    ),
    _Variables(
        launcher="torchrun",
        marks=("TORCHELASTIC_RUN_ID",),
        rank="RANK",
        ranks="WORLD_SIZE",
        local_rank="LOCAL_RANK",
        local_ranks="LOCAL_WORLD_SIZE",
        nodes="GROUP_WORLD_SIZE",
        keys=("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"),
    ),
    _Variables(
        launcher="open_mpi",
        marks=("OMPI_COMM_WORLD_SIZE",),
        rank="OMPI_COMM_WORLD_RANK",
        ranks="OMPI_COMM_WORLD_SIZE",
        local_rank="OMPI_COMM_WORLD_LOCAL_RANK",
        local_ranks="OMPI_COMM_WORLD_LOCAL_SIZE",
        keys=("PMIX_NAMESPACE",),
    ),
    _MPICH,
    _Variables(
        launcher="srun",
        marks=("SLURM_STEP_NUM_TASKS",),  # of a step: a batch script is no task of one
        rank="SLURM_PROCID",
        ranks="SLURM_STEP_NUM_TASKS",
        local_rank="SLURM_LOCALID",
        nodes="SLURM_STEP_NUM_NODES",
        keys=("SLURM_JOB_ID", "SLURM_STEP_ID"),
    ),
    replace(_MPICH, marks=("PMI_SIZE", "PMI_RANK")),
    _Variables(
        launcher="variables",
        marks=("RANK", "WORLD_SIZE", "MASTER_ADDR"),  # what torch.distributed reads
        rank="RANK",
        ranks="WORLD_SIZE",
        local_rank="LOCAL_RANK",
        local_ranks="LOCAL_WORLD_SIZE",
        keys=("MASTER_ADDR", "MASTER_PORT"),
    ),
    _Variables(
        launcher="jax",
        marks=("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES"),
        rank="JAX_PROCESS_ID",
        ranks="JAX_NUM_PROCESSES",
        local_rank="JAX_LOCAL_PROCESS_ID",
        keys=("JAX_COORDINATOR_ADDRESS",),
    ),
)
"""The launchers, of which the first one whose variables are set has started this process.

A launcher is often started by another one, whose variables are set as well: torchrun and mpiexec within a
job of Slurm, or by srun, which MPICH's mpiexec calls for its own daemons. srun sets those of PMI, too, where
it stands for mpiexec; without MPI_LOCALRANKID these are srun's.
"""


def rank(environ: Mapping[str, str]) -> Rank | None:
    """Return the rank of this process in its launch; None where it is alone.

    Raises GpuPerfError for a launcher whose variables make no sense.
    """
    found = next((each for each in _LAUNCHERS if all(environ.get(name) for name in each.marks)), None)
    if found is None:
        return None
    ranks = _number(environ, found, found.ranks)
    number = _number(environ, found, found.rank)
    if ranks == 1 and number == 0:
        return None
    if number >= ranks:
        raise _wrong(found, f"{found.rank}={number} is no rank of {found.ranks}={ranks}")
    nodes = _nodes(environ, found, ranks)
    local = number if not environ.get(found.local_rank) else _number(environ, found, found.local_rank)
    known = [environ.get(name, "") for name in found.keys]
    key = known if known and all(known) else [*known, str(_starter(found.rank))]
    rank = Rank(
        launch=Launch(launcher=found.launcher, ranks=ranks, nodes=nodes),
        number=number,
        local=local,
        key=":".join([found.launcher, *key]),
    )
    return None if _is_within(environ, rank) else rank


def _nodes(environ: Mapping[str, str], found: _Variables, ranks: int) -> int | None:
    if environ.get(found.nodes):
        return max(1, _number(environ, found, found.nodes))
    if environ.get(found.local_ranks):
        local_ranks = max(1, _number(environ, found, found.local_ranks))
        return -(-ranks // local_ranks)
    return None


def _number(environ: Mapping[str, str], found: _Variables, name: str) -> int:
    text = environ.get(name)
    if text is None:
        raise _wrong(found, f"{name} is not set")
    if not text.isdecimal():
        raise _wrong(found, f"{name}={text[:80]!r} is no number")
    return int(text)


def _wrong(found: _Variables, problem: str) -> GpuPerfError:
    """Return the error for wrong variables, with those to unset where no launcher is meant."""
    name = Launch(launcher=found.launcher, ranks=1, nodes=None).name
    return GpuPerfError(
        f"{problem}, and {' and '.join(found.marks)} {'says' if len(found.marks) == 1 else 'say'} that this "
        f"process is one of several ({name}); correct it, or unset {found.marks[0]} where pytest runs alone"
    )


def _starter(variable: str) -> int:
    """Return the process that started the ranks: the nearest one above without this variable.

    A script may stand between. Where the system does not show other processes, it is the parent.
    """
    process = os.getppid()
    with suppress(OSError, ValueError, IndexError):
        while f"\0{variable}=".encode() in b"\0" + Path(f"/proc/{process}/environ").read_bytes():
            process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return process


def can_meet(launch: Launch, environ: Mapping[str, str]) -> bool:
    """Return whether ranks can find each other: on several machines in the store of torchrun's agents."""
    has_store = environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    return launch.is_on_one_machine or (launch.launcher == "torchrun" and has_store)


def hint_on_key(rank: Rank, environ: Mapping[str, str]) -> str:
    """Return what to add where ranks did not meet, if they are known by the process that started them."""
    names = next(each.keys for each in _LAUNCHERS if each.launcher == rank.launch.launcher)
    missing = [name for name in names if not environ.get(name)]
    if names and not missing:
        return ""
    remedy = f"set {' and '.join(missing)} alike in all ranks" if missing else "start all from one process"
    return f"; or the ranks do not have the same parent process, by which they are known: {remedy}"


def _is_within(environ: Mapping[str, str], rank: Rank) -> bool:
    """Return whether a test of a rank started this run, which has its variables and is no rank.

    It may be in the rank's own process, as those of pytester are.
    """
    return environ.get(_OF_PROCESS) == rank.key


@contextmanager
def marked_process(rank: Rank) -> Iterator[None]:
    """Let runs that tests start know within this context that they are no ranks."""
    former = os.environ.get(_OF_PROCESS)
    os.environ[_OF_PROCESS] = rank.key
    try:
        yield
    finally:
        if former is None:
            os.environ.pop(_OF_PROCESS, None)
        else:
            os.environ[_OF_PROCESS] = former


def of_run(config: pytest.Config) -> Rank | None:
    """Return the rank of this process, read once in a run; None where its variables are wrong, too."""
    found = _read_once(config)
    return None if isinstance(found, GpuPerfError) else found


def check(config: pytest.Config) -> None:
    """Raise UsageError for wrong variables, and for what does not go together with several ranks.

    Called where there are speedup tests: other suites may do as they like.
    """
    found = _read_once(config)
    if isinstance(found, GpuPerfError):
        raise usage_error(config, str(found))
    if found is None:
        return
    remedy = "leave it out, or run pytest without the launcher"
    if hasattr(config, "workerinput"):
        problem = "each rank would start workers of its own"
        raise usage_error(config, f"-n under a launcher ({found.launch.name}): {problem}; {remedy}")
    for name, (option, problem) in REFUSED.items():
        if _is_given(config, name):
            said = f"{option} under a launcher ({found.launch.name}): {problem}; {remedy}"
            raise usage_error(config, said)


def _read_once(config: pytest.Config) -> Rank | GpuPerfError | None:
    if _RANK not in config.stash:
        try:
            config.stash[_RANK] = rank(os.environ)
        except GpuPerfError as error:
            config.stash[_RANK] = error
    return config.stash[_RANK]


def _is_given(config: pytest.Config, name: str) -> bool:
    """Return whether an option is given on the command line, or in the ini file, as that of reruns may be."""
    value: Any = config.getoption(name, None)
    if value is None:
        with suppress(ValueError, KeyError):  # no plugin has such a key
            value = config.getini(name)
    with suppress(TypeError, ValueError):
        return int(value or 0) > 0
    return bool(value)


def hints(rank: Rank | None) -> Iterator[str]:
    """Yield a line on what this process does in its launch, and one on threads that the launcher took."""
    if rank is None:
        return
    if not can_meet(rank.launch, os.environ):
        yield f"{rank.words}: the ranks are on several machines, so no speedup test is measured"
    elif rank.number:
        yield f"{rank.words} runs each speedup test once, waits while rank 0 measures, and gives no verdict"
    else:
        yield f"{rank.words} measures the speedup tests; the other ranks run each once and wait meanwhile"
        if rank.launch.launcher == "torchrun" and os.environ.get(_THREADS) == "1":
            yield f"torchrun sets {_THREADS}=1 where it is not set: set it, for the CPU to use its processors"
