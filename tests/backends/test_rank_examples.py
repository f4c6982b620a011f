"""The gallery's scaling tests with `ranks`: each library exchanges between two processes, on the CPU."""

import json
import os
import shutil
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import pytest_gpuperf

GALLERY = Path(__file__).parents[2] / "examples" / "ranks"
SMALLER = {"4096, 1024": "64, 32", "SIDE = 4096": "SIDE = 64", "[1, 2, 4], efficiency=0.6": "[1, 2]"}
OURS = "-m pytest -pgpuperf -pno:randomly --gpuperf-lock=none --gpuperf-max-time=1 --gpuperf-json=report.json"


@pytest.fixture
def start(pytester):
    """Start a command on a smaller example, and return its process."""

    def call(*command, **variables):
        for path in GALLERY.glob("test_*.py"):
            source = path.read_text("utf-8")
            for large, small in SMALLER.items():
                source = source.replace(large, small)
            (pytester.path / path.name).write_text(source, "utf-8")
        known = {
            **os.environ,
            "PYTHONPATH": str(Path(pytest_gpuperf.__file__).parents[1]),
            "OMP_NUM_THREADS": "1",
            **variables,
        }
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.Popen([*map(str, command)], env=known, **pipes)

    return call


@pytest.fixture
def measured(pytester):
    """Require that processes end well, and that two ranks were measured and gave the same results as one."""

    def call(launcher, *processes):
        output = [process.communicate(timeout=120)[0] for process in processes]
        assert [0] * len(processes) == [process.returncode for process in processes], output
        report = json.loads((pytester.path / "report.json").read_text("utf-8"))
        one, two = report["records"]
        assert ["recorded", "recorded"] == [one["status"], two["status"]], output
        assert [] == [note for note in two["notes"] if note["code"] == "not_on_device"]
        assert two["check"]["agreed"] is True, two["check"]
        ranks = two["scaling"]["ranks"]
        assert (launcher, 2) == (ranks["launcher"], ranks["ranks"])

    return call


@pytest.mark.libraries
@pytest.mark.skipif(find_spec("torch") is None, reason="the extra `torch` has it")
def test_a_training_step_of_torch_scales(start, measured):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [*torchrun, *OURS.split(), "test_torch.py", "--gpuperf-gpu=torch:cpu"]
    measured("torchrun", start(*command))


@pytest.mark.libraries
@pytest.mark.skipif(find_spec("jax") is None, reason="the extra `jax` has it")
def test_a_training_step_of_jax_scales(start, measured):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        launch = {"JAX_COORDINATOR_ADDRESS": f"localhost:{free.getsockname()[1]}", "JAX_NUM_PROCESSES": "2"}
    command = [sys.executable, *OURS.split(), "test_jax.py", "--gpuperf-gpu=jax:cpu"]
    measured("jax", *(start(*command, **launch, JAX_PROCESS_ID=rank) for rank in "01"))


@pytest.mark.libraries
def test_an_exchange_of_mpi4py_scales(start, measured):
    beside = str(Path(sys.executable).parent)
    mpiexec = shutil.which("mpiexec", path=os.pathsep.join([beside, os.environ.get("PATH", "")]))
    if mpiexec is None or find_spec("mpi4py") is None or find_spec("torch") is None:
        pytest.skip("no mpiexec, mpi4py or torch: `pip install mpi4py mpich` has the first two")
    command = [mpiexec, "-n", 2, sys.executable, *OURS.split(), "test_mpi4py.py", "--gpuperf-gpu=torch:cpu"]
    measured("mpich", start(*command))


@pytest.mark.libraries
@pytest.mark.parametrize("name", ["torch", "jax"])
def test_plain_pytest_starts_their_ranks_itself(start, measured, name):
    if find_spec(name) is None:
        pytest.skip(f"the extra `{name}` has it")
    measured("pytest", start(sys.executable, *OURS.split(), f"test_{name}.py", f"--gpuperf-gpu={name}:cpu"))


def test_on_another_device_they_are_skipped_with_what_to_do(start, pytester):
    ended = start(sys.executable, *OURS.split(), "-rs", ".", "--gpuperf-gpu=simulated")
    output, _ = ended.communicate(timeout=120)
    assert ended.returncode in {0, pytest.ExitCode.NO_TESTS_COLLECTED}, output
    for name, module in (("PyTorch", "torch"), ("JAX", "jax")):
        said = f"this is about {name}: pass" if find_spec(module) else f"{name} is not installed"
        assert said in output
    if find_spec("mpi4py") is None:
        assert "mpi4py is not installed" in output
