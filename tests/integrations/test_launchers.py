"""Which rank a process is, from the environment that each launcher gives it."""

import os
import subprocess
import sys

import pytest

from pytest_gpuperf.integrations import launchers
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.launch import Launch

TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "none",
    "TORCHELASTIC_RESTART_COUNT": "0",
    "RANK": "5",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "4",
    "GROUP_WORLD_SIZE": "2",
    "MASTER_ADDR": "node7",
    "MASTER_PORT": "29500",
}
PLAIN = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
DEEPSPEED = {**PLAIN, "LOCAL_RANK": "1", "LOCAL_SIZE": "2", "CROSS_RANK": "0", "CROSS_SIZE": "1"}
BATCH_SCRIPT = {"SLURM_JOB_ID": "77", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NTASKS": "8"}
SRUN = {
    **BATCH_SCRIPT,
    "SLURM_STEP_ID": "2",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "3",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_STEP_NUM_NODES": "1",
}
SRUN_AS_MPIEXEC = {**SRUN, "PMI_RANK": "3", "PMI_SIZE": "4"}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "2",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "PMIX_NAMESPACE": "prterun-node7-31@1",
}
MPICH = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
MPICH_DAEMONS = {**SRUN, **MPICH, "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}
JAX = {"JAX_COORDINATOR_ADDRESS": "localhost:8476", "JAX_PROCESS_ID": "1", "JAX_NUM_PROCESSES": "2"}
RANKS = {
    "torchrun": (TORCHRUN, "torchrun", 5, 1, 8, 2),
    "torchrun within srun": ({**SRUN, **TORCHRUN}, "torchrun", 5, 1, 8, 2),
    "RANK and its like alone": (PLAIN, "variables", 1, 1, 2, None),
    "DeepSpeed": (DEEPSPEED, "variables", 1, 1, 2, None),
    "srun": (SRUN, "srun", 3, 3, 4, 1),
    "srun that stands for mpiexec": (SRUN_AS_MPIEXEC, "srun", 3, 3, 4, 1),
    "srun on two nodes": ({**SRUN, "SLURM_STEP_NUM_NODES": "2", "SLURM_LOCALID": "1"}, "srun", 3, 1, 4, 2),
    "srun whose script sets RANK": ({**PLAIN, **SRUN, "RANK": "3", "WORLD_SIZE": "4"}, "srun", 3, 3, 4, 1),
    "Open MPI": (OPEN_MPI, "open_mpi", 2, 0, 4, 2),
    "Open MPI within sbatch": ({**BATCH_SCRIPT, **OPEN_MPI}, "open_mpi", 2, 0, 4, 2),
    "MPICH": (MPICH, "mpich", 1, 1, 2, 1),
    "MPICH, which srun starts on each node": (MPICH_DAEMONS, "mpich", 1, 1, 2, 1),
    "PMI alone": ({"PMI_RANK": "0", "PMI_SIZE": "2"}, "mpich", 0, 0, 2, None),
    "JAX": (JAX, "jax", 1, 1, 2, None),
}


@pytest.mark.parametrize("case", RANKS)
def test_the_rank_of_each_launcher(case):
    environ, launcher, number, local, ranks, nodes = RANKS[case]
    rank = launchers.rank(environ)
    assert Launch(launcher=launcher, ranks=ranks, nodes=nodes) == rank.launch
    assert (number, local) == (rank.number, rank.local)


@pytest.mark.parametrize(
    "environ",
    [
        {},
        BATCH_SCRIPT,
        {**BATCH_SCRIPT, "SLURM_STEP_ID": "4294967290", "SLURM_STEP_NUM_TASKS": "1"},  # a shell of salloc
        {**TORCHRUN, "RANK": "0", "WORLD_SIZE": "1"},
        {**SRUN, **TORCHRUN, "RANK": "0", "WORLD_SIZE": "1"},
        {**MPICH, "PMI_RANK": "0", "PMI_SIZE": "1"},
        {"RANK": "1", "WORLD_SIZE": "2"},  # of something else: torch.distributed reads MASTER_ADDR, too
        {"JAX_COORDINATOR_ADDRESS": "localhost:8476"},
        {"PMIX_RANK": "1"},
    ],
)
def test_one_process_alone_is_no_rank(environ):
    assert launchers.rank(environ) is None


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"RANK": "two"}, "RANK='two' is no number"),
        ({"RANK": "-1"}, "RANK='-1' is no number"),
        ({"RANK": "8"}, "RANK=8 is no rank of WORLD_SIZE=8"),
        ({"WORLD_SIZE": "0"}, "RANK=5 is no rank of WORLD_SIZE=0"),
        ({"LOCAL_RANK": "x"}, "LOCAL_RANK='x' is no number"),
        ({"GROUP_WORLD_SIZE": ""}, None),
    ],
)
def test_variables_that_make_no_sense_are_an_error_in_words(change, problem):
    environ = {**TORCHRUN, **change}
    if problem is None:
        assert 2 == launchers.rank(environ).launch.nodes
        return
    with pytest.raises(GpuPerfError) as error:
        launchers.rank(environ)
    assert str(error.value).startswith(f"{problem}, and TORCHELASTIC_RUN_ID says that this process is one of")
    assert str(error.value).endswith("unset TORCHELASTIC_RUN_ID where pytest runs alone")


def test_a_variable_that_is_missing_is_an_error_in_words():
    with pytest.raises(GpuPerfError, match=r"^RANK is not set, and TORCHELASTIC_RUN_ID says"):
        launchers.rank({name: value for name, value in TORCHRUN.items() if name != "RANK"})


def test_launches_that_follow_each_other_have_other_keys():
    def key(environ):
        return launchers.rank(environ).key

    assert key(TORCHRUN) == key({**TORCHRUN, "RANK": "0", "LOCAL_RANK": "0"})
    assert key(TORCHRUN) != key({**TORCHRUN, "TORCHELASTIC_RESTART_COUNT": "1"})
    assert key(TORCHRUN) != key({**TORCHRUN, "MASTER_PORT": "29501"})
    assert key(SRUN) != key({**SRUN, "SLURM_STEP_ID": "3"})


def test_where_a_variable_of_the_key_is_missing_the_starter_is_in_it(monkeypatch):
    """Two launches on one machine have the same MASTER_ADDR."""
    without = {**PLAIN, "MASTER_PORT": ""}
    keys = []
    for starter in (7, 8):
        monkeypatch.setattr(launchers, "_starter", lambda variable, starter=starter: starter)
        keys.append([launchers.rank(environ).key for environ in (PLAIN, without, MPICH)])
    assert ["variables:localhost:29500", "variables:localhost::7", "mpich:7"] == keys[0]
    assert ["variables:localhost:29500", "variables:localhost::8", "mpich:8"] == keys[1]


@pytest.mark.parametrize(
    ("environ", "remedy"),
    [
        (PLAIN, ""),
        ({**PLAIN, "MASTER_PORT": ""}, "set MASTER_PORT alike in all ranks"),
        (MPICH, "start all from one process"),
        (SRUN, ""),
    ],
)
def test_where_the_starter_is_the_key_a_rank_that_is_missed_gets_the_remedy(environ, remedy):
    hint = launchers.hint_on_key(launchers.rank(environ), environ)
    assert bool(remedy) == bool(hint)
    assert hint.endswith(remedy)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems show no environments")
@pytest.mark.parametrize("script", ["{}", "sh -c '{}; true'"])
def test_ranks_without_a_key_are_known_by_what_started_them(script):
    """A launcher starts its ranks directly, or each in a script of the user's."""
    source = (
        "import os; from pytest_gpuperf.integrations import launchers; print(launchers.rank(os.environ).key)"
    )
    launcher = (
        "import os, subprocess, sys\n"
        "for rank in '01':\n"
        "    environ = {**os.environ, 'PMI_RANK': rank, 'PMI_SIZE': '2', 'SOURCE': sys.argv[2]}\n"
        "    subprocess.run(sys.argv[1], shell=True, env=environ, check=True)\n"
        "print('mpich:%s' % os.getpid())\n"
    )
    command = script.format(f'{sys.executable} -c "$SOURCE"')
    started = [sys.executable, "-c", launcher, command, source]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PMI")}
    output = subprocess.run(started, check=True, capture_output=True, text=True, env=environ).stdout
    assert 1 == len(set(output.split())), output


def test_what_a_rank_starts_is_none_unless_it_is_a_launch_of_its_own(monkeypatch):
    rank = launchers.rank(MPICH)
    monkeypatch.setattr(os, "environ", {})
    with launchers.marked_process(rank):
        within = dict(os.environ)
        assert launchers.rank({**MPICH, **within}) is None  # in the rank's own process, too
        inner = launchers.rank({**TORCHRUN, **within})
        with launchers.marked_process(inner):
            assert launchers.rank({**TORCHRUN, **os.environ}) is None
        assert within == os.environ
    assert launchers.rank(MPICH) == rank
    assert {} == os.environ
