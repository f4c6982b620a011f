"""Several ranks as one device on rank 0: what it announces before which call, and what it hears after it."""

import gc
import sys
from collections import defaultdict
from copy import copy
from types import ModuleType, SimpleNamespace

import pytest

from pytest_gpuperf.devices.simulated import SimulatedBackend
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.launch import Launch
from pytest_gpuperf.session.ranks.group import MeasuredRanks, _Times, make_groups
from pytest_gpuperf.session.ranks.roles import JointCalls
from pytest_gpuperf.work.workload import ResettableCall

LAUNCH = Launch(launcher="variables", ranks=2, nodes=1)
DONE = {"worked": True, "inputs": 8, "compiled": 0}
TOOK = {"took": 1.0, "started": 0.0, "compiled": 0}


class OneOther:
    """What rank 0 says to rank 1 and hears of it; the answers are known before."""

    def __init__(self, **answers):
        self.told, self.heard, self.problem, self.calls = [], [], None, JointCalls()
        self.answers = defaultdict(dict, {"done": DONE, "took": TOOK, **answers})

    def tell(self, message, below):
        self.told.append({**message, "below": below})

    def hear(self, what, below):
        self.heard.append(what)
        return [{"said": what, **self.answers[what]}]

    def require(self, below):
        if self.problem is not None:
            raise self.problem


def both(**answers):
    other = OneOther(**answers)
    return MeasuredRanks(SimulatedBackend().gpu(""), other, LAUNCH, 2), other


def test_a_call_is_announced_to_the_ranks_of_its_group_and_heard_of_before_the_next():
    group, other = both()
    step = group.jointly(lambda: lambda: None)()
    assert [{"do": "call", "key": 0, "as": 1, "count": 2, "drop": [], "below": 2}] == other.told
    assert [] == other.heard
    step()
    assert ["done"] == other.heard
    assert ("call", 1) == (other.told[-1]["do"], other.told[-1]["key"])
    group.synchronize()
    group.synchronize()
    assert ["done", "done"] == other.heard


def test_no_call_is_begun_in_which_this_rank_would_wait_for_one_that_has_ended():
    group, other = both()
    called = []
    other.problem = RuntimeError("rank 1 was killed or crashed")
    with pytest.raises(RuntimeError, match="killed"):
        group.jointly(lambda: called.append(1))()
    assert [] == called == other.told


def test_a_callable_that_is_forgotten_here_is_dropped_by_the_others():
    group, other = both()
    body = group.jointly(lambda: lambda: None)
    step = body()
    del step
    gc.collect()
    body()
    assert [1] == other.told[-1]["drop"]
    body()
    assert 1 not in other.told[-1]["drop"]


def test_call_and_reset_of_a_workload_have_keys_of_their_own():
    group, other = both()
    made = group.jointly(lambda: ResettableCall(lambda: None, lambda: None))()
    made.call()
    made.reset()
    assert [0, 1, -1] == [message["key"] for message in other.told]


def test_programs_that_another_rank_compiles_count():
    group, _ = both(done={**DONE, "compiled": 2}, took={**TOOK, "compiled": 3})
    before = group.compilations()
    step = group.jointly(lambda: lambda: None)()
    group.time_calls(step, 1)
    assert before + 5 == group.compilations()


def test_results_are_asked_for_when_the_others_have_said_how_the_call_went():
    group, other = both(result={"places": []})
    group.jointly(lambda: None)()
    assert [] == group.gathered([])
    assert ["done", "result"] == other.heard
    assert ["call", "result"] == [message["do"] for message in other.told]


def test_inputs_of_the_others_count_as_bytes_elsewhere_and_stay_known_after_other_calls():
    group, other = both(done={**DONE, "inputs": 24})
    step = group.jointly(lambda: lambda: None)()
    group.synchronize()
    assert 24 == group.bytes_elsewhere
    other.answers["done"] = {**DONE, "inputs": None}
    step()
    group.synchronize()
    assert 24 == group.bytes_elsewhere


class Distributed(ModuleType):
    """torch.distributed as far as groups are made with it; `made` are their ranks."""

    def __init__(self, rank):
        super().__init__("torch.distributed")
        self.made, self.rank = [], rank
        self.is_available = self.is_initialized = lambda: True
        self.get_rank = lambda: self.rank
        backend = SimpleNamespace(options=SimpleNamespace(_timeout=7.0))
        world = SimpleNamespace(_device_types=["cpu"], _get_backend=lambda _: backend)
        self.group = SimpleNamespace(WORLD=world)

    def new_group(self, ranks, timeout):
        assert 7.0 == timeout, "that of the suite's own group"
        self.made.append([*ranks])
        return f"{len(self.made)} of {ranks}"


@pytest.fixture
def distributed(monkeypatch):
    monkeypatch.setattr("pytest_gpuperf.session.ranks.group._native_groups", {})
    module = Distributed(0)
    monkeypatch.setitem(sys.modules, "torch.distributed", module)
    return module


def test_process_groups_are_made_once_for_each_world_and_forgotten_with_it(distributed):
    group, _ = both()
    assert group.group is None
    for _ in range(2):
        make_groups((2, 1), 0)
    assert [[0], [0, 1]] == distributed.made
    assert "2 of range(0, 2)" == group.group
    distributed.group.WORLD = copy(distributed.group.WORLD)  # the suite has initialised it again
    make_groups((2,), 0)
    assert "3 of range(0, 2)" == group.group
    distributed.is_initialized = lambda: False
    make_groups((2,), 0)
    assert group.group is None


def test_a_process_group_with_other_numbers_than_the_launch_is_refused(distributed):
    distributed.rank = 1
    with pytest.raises(GpuPerfError, match="calls this process rank 1, and its launch calls it rank 0"):
        make_groups((1, 2), 0)
    assert [] == distributed.made


def test_who_worked_and_who_has_inputs_is_what_each_says():
    group, _ = both(done={**DONE, "worked": False, "inputs": 0})
    group.jointly(lambda: lambda: None)()
    with group.observe():
        pass
    group.synchronize()
    array = group.device.asarray([1.0])
    assert [1] == group.idle([array])
    assert [0, 1] == group.idle([])
    assert {0} == group.at_work([array])
    other, _ = both()
    with other.observe():
        other.jointly(lambda: None)()
    other.synchronize()
    assert {1} == other.at_work([])


def test_a_block_begins_when_all_are_ready_and_takes_as_long_as_the_slowest(monkeypatch):
    monkeypatch.setattr("pytest_gpuperf.session.ranks.group.begin_at", lambda moment: moment)
    group, other = both(took={**TOOK, "took": 7.0})
    step = group.jointly(lambda: lambda: group.device.launch(5.0))()
    started = group.device.clock()
    assert (7.0, None) == group.time_calls(step, 1)
    assert ["call", "block", "go"] == [message["do"] for message in other.told]
    assert ["done", "ready", "took"] == other.heard
    assert 7.0 <= group.device.clock() - started
    assert (1, 1.0) == (group.blocks.slowest, group.blocks.slowest_share)
    assert pytest.approx(0.4, rel=1e-3) == group.blocks.slowest_excess
    assert group.blocks.skew == other.told[-1]["at"]  # rank 1 says that it began at 0


def test_on_the_clock_of_all_a_rank_does_not_pause_for_the_slowest(monkeypatch):
    group, _ = both(took={**TOOK, "took": 7.0})
    step = group.jointly(lambda: lambda: None)()
    paused = []
    monkeypatch.setattr(group.device, "pause", paused.append)
    monkeypatch.setattr("pytest_gpuperf.session.ranks.group.perf_counter", group.device.clock)
    group.time_calls(step, 1)
    assert [] == paused


def test_blocks_without_time_have_no_excess():
    assert 0 == _Times([0.0, 0.0], 0.0).excess


def test_a_call_of_the_timer_itself_is_announced_to_nobody():
    group, other = both()
    group.time_calls(lambda: None, 3)
    assert [] == other.told
    assert group.blocks is None
