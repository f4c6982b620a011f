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


@pytest.mark.libraries
@pytest.mark.parametrize("launcher", ["torchrun", "pytest"])
def test_the_first_ranks_are_a_process_group_and_each_call_meets_in_it(pytester, launcher):
    pytester.makepyfile(test_it=SUITE)
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=3", "--no-python"]
    start = [sys.executable, *torchrun] if launcher == "torchrun" else []
    ours = ["-pgpuperf", "--gpuperf-gpu=torch:cpu", "--gpuperf-lock=none", "--gpuperf-max-time=1"]
    run = [sys.executable, "-m", "pytest", "-pno:randomly", *ours, "--gpuperf-json=report.json"]
    path = str(Path(pytest_gpuperf.__file__).parents[1])
    ended = subprocess.run(
        [*start, *run],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert 0 == ended.returncode, ended.stdout + ended.stderr
    report = json.loads((pytester.path / "report.json").read_text("utf-8"))
    assert ["recorded", "recorded"] == [record["status"] for record in report["records"]]
    ranks = report["records"][-1]["scaling"]["ranks"]
    assert (launcher, 2) == (ranks["launcher"], ranks["ranks"])
    assert report["records"][-1]["check"]["agreed"] is True
