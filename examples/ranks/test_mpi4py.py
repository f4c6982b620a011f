"""A step of diffusion whose ranks exchange the edges of their rows through mpi4py.

    mpiexec -n 2 python -m pytest examples/ranks/test_mpi4py.py --gpuperf-gpu=cupy

Arrays of a GPU need an MPI that is built for it; without one, torch:cpu emulates them.
"""

import numpy as np
import pytest

MPI = pytest.importorskip("mpi4py.MPI", reason="mpi4py is not installed", exc_type=ImportError)

SIDE = 4096


@pytest.mark.scaling([1, 2, 4], efficiency=0.6)
def test_diffusion(ranks):
    if ranks.device.backend not in {"cupy", "torch"}:
        pytest.skip("MPI writes into arrays of CuPy or PyTorch: pass --gpuperf-gpu=cupy, torch or torch:cpu")
    if MPI.COMM_WORLD.size < ranks.count:
        pytest.skip("MPI knows this process only: start pytest by mpiexec")
    first = MPI.COMM_WORLD.group.Incl(range(ranks.count))
    comm = MPI.COMM_WORLD.Create_group(first)  # without the ranks that wait: Split needs all of them
    before, after = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    own = ranks.asarray(np.random.default_rng(0).random((SIDE, SIDE), dtype=np.float32), shard=0)
    above, below = (ranks.asarray(np.zeros(SIDE, dtype=np.float32)) for _ in range(2))

    def step():
        ranks.device.synchronize()  # MPI does not wait for a GPU, which may still read these two
        comm.Sendrecv(own[-1], after, recvbuf=above, source=before)
        comm.Sendrecv(own[0], before, recvbuf=below, source=after)
        mixed = own * 0.5
        mixed[1:] += own[:-1] * 0.25
        mixed[:-1] += own[1:] * 0.25
        mixed[0] += above * 0.25
        mixed[-1] += below * 0.25
        return mixed

    return step
