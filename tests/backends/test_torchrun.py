"""A suite under the real torchrun, whose ranks form a group of torch.distributed."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("torch.distributed.run", reason="the extra `torch` has PyTorch")

GROUP = """
    import pytest
    import torch.distributed as dist

    @pytest.fixture(scope="session", autouse=True)
    def group():
        dist.init_process_group("gloo")
        yield
        dist.barrier()
        dist.destroy_process_group()
"""
SUITE = """
    import pytest
    import torch
    import torch.distributed as dist

    @pytest.mark.speedup
    def test_ordinary(device):
        a = torch.ones(50, 50, device=device.native)
        return lambda: a @ a

    @pytest.mark.speedup
    def test_call(device):
        a = torch.ones(50, 50, device=device.native)

        def step():
            dist.all_reduce(a)
            return a.sum()

        return step

    @pytest.mark.speedup(min=0.01)
    def test_set_up(device):
        a = torch.ones(50, 50, device=device.native)
        dist.broadcast(a, 0)
        return lambda: a @ a

    @pytest.mark.speedup
    def test_both(gpuperf):
        def body(xp):
            a = torch.ones(50, 50)
            dist.all_reduce(a)
            return a

        gpuperf.both(body)

    def test_plain():
        a = torch.ones(2)
        dist.all_reduce(a)
        assert a.tolist() == [2, 2]

    @pytest.mark.speedup
    def test_new_group(device):
        group = dist.new_group([0, 1])
        a = torch.ones(50, 50, device=device.native)
        return lambda: a @ a

    @pytest.mark.speedup
    def test_last(device):
        a = torch.ones(50, 50, device=device.native)
        return lambda: a @ a
"""


def torchrun(*options):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m"]
    ours = ["-pgpuperf", "-pno:cacheprovider", "--gpuperf-gpu=torch:cpu", "--gpuperf-json=report.json"]
    run = [*command, "pytest", *ours, "--gpuperf-max-time=0.5", *options]
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(run, capture_output=True, text=True, timeout=120, env=environ, check=False)


def test_what_needs_other_ranks_is_refused_after_its_first_run_and_nobody_hangs(pytester):
    pytester.makeconftest(GROUP)
    pytester.makepyfile(SUITE)
    result = torchrun("--tb=line", "-rs")
    report = json.loads((pytester.path / "report.json").read_text("utf-8"))
    records = {record["nodeid"].partition("::")[2]: record for record in report["records"]}
    assert {"launcher": "torchrun", "ranks": 2, "nodes": 1} == report["launch"]
    assert "recorded" == records.pop("test_ordinary")["status"]
    assert "recorded" == records.pop("test_last")["status"]
    assert {"test_call", "test_set_up", "test_both", "test_new_group"} == records.keys()
    assert 2 == result.stdout.count("Failed: a speedup test is measured on rank 0 alone"), result.stdout
    for record in records.values():
        assert "error" == record["status"]
        assert "measured on rank 0 alone, and this one needs the other ranks in each call" in record["reason"]


def test_an_ordinary_suite_has_one_report(pytester):
    pytester.makepyfile("""
        import pytest

        @pytest.mark.parametrize("n", range(3))
        @pytest.mark.speedup
        def test_it(device, n):
            a = device.xp.ones((50, 50))
            return lambda: a @ a
    """)
    result = torchrun()
    assert 0 == result.returncode, result.stdout
    assert 1 == result.stdout.count("- gpuperf -")
    assert 2 == result.stdout.count("3 passed in")
    assert "gpuperf: torchrun sets OMP_NUM_THREADS=1 where it is not set" in result.stdout
