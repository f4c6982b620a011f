"""A scaling test with `ranks` whose ranks exchange results through gloo, started by torchrun or by pytest."""

import json
import os
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
    def step():
        total = part.sum().reshape(1)
        dist.all_reduce(total, group=group)
        assert float(total) == 4096 * 4095 / 2
        return total
    return step
"""


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
    ours = ["-pgpuperf", "--gpuperf-gpu=torch:cpu", "--gpuperf-lock=none", "--gpuperf-max-time=1"]
    path = str(Path(pytest_gpuperf.__file__).parents[1])
    ended = subprocess.run(
        [*start, sys.executable, "-m", "pytest", "-pno:randomly", *ours, *options],
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
    assert "this rank was asked to end (SIGTERM) at" in ended.stdout
