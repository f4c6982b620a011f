"""A scaling test with `ranks` whose ranks exchange results through gloo, started by torchrun or by pytest."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_gpuperf

pytest.importorskip("torch", reason="the extra `torch` has it")

SUITE = """
from datetime import timedelta
import numpy as np
import pytest
import torch
import torch.distributed as dist

@pytest.fixture(scope="session", autouse=True)
def processes():
    dist.init_process_group("gloo", timeout=timedelta(seconds=30))
    yield
    dist.destroy_process_group()

@pytest.mark.scaling([1, 2])
def test_sum(ranks):
    part = ranks.asarray(np.arange(4096.0), shard=0)
    group = ranks.group
    assert dist.get_world_size(group) == ranks.count
    assert group._get_backend(torch.device("cpu")).options._timeout == timedelta(seconds=30)
    def step():
        total = part.sum().reshape(1)
        dist.all_reduce(total, group=group)
        assert float(total) == 4096 * 4095 / 2
        return total
    return step
"""

ORDINARY = """
@pytest.mark.speedup
def test_alone(device):
    x = device.asarray(np.arange(4096.0))
    return lambda: x * x
"""
OURS = ("-pgpuperf", "--gpuperf-gpu=torch:cpu", "--gpuperf-lock=none", "--gpuperf-max-time=1")
CRASH = """
import os
import time
import pytest

@pytest.mark.scaling([1, 2])
def test_first(ranks):
    return lambda: time.sleep(1e-3)

@pytest.mark.scaling([1, 2])
def test_crash(ranks):
    if ranks.rank == 1:
        os._exit(3)
    return lambda: time.sleep(1e-3)

def test_last():
    time.sleep(120)  # within this torchrun ends rank 0
"""


def run(pytester, launcher, *options):
    """Run the tests of a folder in ranks of torchrun, or plainly; return how it ended, and the report."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=3", "--no-python"]
    start = [sys.executable, *torchrun] if launcher == "torchrun" else []
    path = str(Path(pytest_gpuperf.__file__).parents[1])
    ended = subprocess.run(
        [*start, sys.executable, "-m", "pytest", "-pno:randomly", *OURS, *options],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return ended, json.loads((pytester.path / "report.json").read_text("utf-8"))


@pytest.mark.libraries
@pytest.mark.parametrize("launcher", ["torchrun", "pytest"])
def test_the_first_ranks_are_a_process_group_and_each_call_meets_in_it(pytester, launcher):
    pytester.makepyfile(test_it=SUITE)
    ended, report = run(pytester, launcher, "--gpuperf-json=report.json")
    assert 0 == ended.returncode, ended.stdout + ended.stderr
    assert ["recorded", "recorded"] == [record["status"] for record in report["records"]]
    ranks = report["records"][-1]["scaling"]["ranks"]
    assert (launcher, 2) == (ranks["launcher"], ranks["ranks"])
    assert report["records"][-1]["check"]["agreed"] is True


@pytest.mark.libraries
@pytest.mark.skipif(sys.platform == "win32", reason="where a launcher ends ranks without a word")
def test_where_a_rank_crashes_rank_0_writes_its_report_before_torchrun_kills_it(pytester):
    pytester.makepyfile(test_it=CRASH)
    ended, report = run(pytester, "torchrun", "--gpuperf-json=report.json")
    assert 1 == ended.returncode
    by_name = {record["nodeid"].partition("::")[2]: record for record in report["records"]}
    assert "recorded" == by_name["test_first[2ranks]"]["status"]
    assert "was killed or crashed" in by_name["test_crash[2ranks]"]["reason"]
    assert "this run was asked to end (SIGTERM) at" in ended.stdout


@pytest.mark.libraries
def test_a_rank_whose_set_up_fails_is_named_before_groups_wait_for_it(pytester):
    failing = "@pytest.fixture\ndef late(processes):\n    assert dist.get_rank() == 0, 'no room'\n\n"
    source = SUITE.replace("@pytest.mark.scaling", f"{failing}@pytest.mark.scaling").replace(
        "(ranks)", "(ranks, late)"
    )
    pytester.makepyfile(test_it=source.replace("seconds=30", "seconds=100"))
    ended, report = run(pytester, "pytest", "--gpuperf-json=report.json")
    assert 1 == ended.returncode
    assert "rank 1: AssertionError: no room" in report["records"][0]["reason"]


@pytest.mark.libraries
def test_ranks_on_two_machines_meet_in_the_store_of_torchrun(pytester):
    """Two agents, at two addresses of this machine: each takes its own for a machine of its own."""
    pytester.makepyfile(test_it=SUITE + ORDINARY)
    with socket.create_server(("127.0.0.1", 0)) as free:
        endpoint = f"127.0.0.1:{free.getsockname()[1]}"
    path = str(Path(pytest_gpuperf.__file__).parents[1])
    agents = []
    for address in ("127.0.0.1", "127.0.0.2"):
        rendezvous = ["--rdzv-backend=c10d", f"--rdzv-endpoint={endpoint}", f"--local-addr={address}"]
        launch = ["-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1", *rendezvous]
        run = ["--no-python", sys.executable, "-m", "pytest", "-pno:randomly", "-pno:cacheprovider", *OURS]
        agents.append(
            subprocess.Popen(
                [sys.executable, *launch, *run, "--gpuperf-json=report.json"],
                env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    output = [agent.communicate(timeout=120)[0] for agent in agents]
    assert [0, 0] == [agent.returncode for agent in agents], output
    report = json.loads((pytester.path / "report.json").read_text("utf-8"))
    assert {"launcher": "torchrun", "ranks": 2, "nodes": 2} == report["launch"]
    assert ["recorded"] * 3 == [record["status"] for record in report["records"]]
    two = report["records"][1]
    assert (2, None) == (two["scaling"]["ranks"]["ranks"], two["scaling"]["ranks"]["skew"])
    assert two["check"]["agreed"] is True
