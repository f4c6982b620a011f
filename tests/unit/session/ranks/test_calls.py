"""The calls of a rank that does not measure: what rank 0 tells it to do, and what it says of that."""

import gc
from collections import deque
from types import SimpleNamespace
from weakref import ref

import numpy as np
import pytest

from pytest_gpuperf.collection.items import SPEC
from pytest_gpuperf.devices.simulated import SimulatedBackend
from pytest_gpuperf.session.ranks.calls import serve
from pytest_gpuperf.session.ranks.results import unpacked

OVER = {"do": "over", "cause": None, "is_skip": False}
BODY = {"do": "call", "key": 0, "as": 1}
STEP = {"do": "call", "key": 1, "as": 2}
BLOCK = {"do": "block", "key": 1, "calls": 3, "empty_wait": 0.0}
GO = {"do": "go", "at": 0.0}


class RankZero:
    """What rank 0 tells rank 1, in this order, and what that answers."""

    number = 1

    def __init__(self, commands):
        self.commands = deque({"count": 2, "drop": [], **command} for command in commands)
        self.said = []

    def command(self, item):
        return self.commands.popleft()

    def answer(self, item, message, data=b""):
        self.said.append({**message, "data": data})


@pytest.fixture
def device():
    return SimulatedBackend().gpu("")


def served(device, body, *commands, bare=True):
    """Let a rank serve those commands with a test's body, which takes its group, and return what it said."""
    item = SimpleNamespace(stash={SPEC: SimpleNamespace(scaling=None, demand=SimpleNamespace(bare=bare))})
    ranks = RankZero(commands)
    try:
        serve(item, lambda group: lambda: body(group), device, ranks)
    except BaseException as error:
        error.said = ranks.said
        raise
    return ranks.said


def raised_by(device, body, *commands, **options):
    """Return the exception that ends the served test, so that its skip does not skip the calling test."""
    try:
        served(device, body, *commands, **options)
    except BaseException as error:  # noqa: BLE001 - pytest's own outcomes, too
        return error
    return None


def test_a_rank_says_of_a_call_whether_it_worked_and_of_the_body_what_it_holds(device):
    def body(group):
        part = group.asarray(np.ones(6), shard=0)
        return lambda: part * 2

    body_done, step_done = served(device, body, BODY, STEP, OVER)
    assert (24, False) == (body_done["inputs"], body_done["worked"])
    assert (None, True) == (step_done["inputs"], step_done["worked"])
    (*_, idle) = served(device, lambda group: lambda: 3.0, BODY, STEP, OVER)
    assert not idle["worked"]


def test_a_part_of_the_result_is_work_also_where_nothing_shows_that(device, monkeypatch):
    array = device.asarray(np.ones(4))
    monkeypatch.setattr("pytest_gpuperf.session.ranks.calls.observed_call", idle_call)
    (_, done) = served(device, lambda group: lambda: [array], BODY, STEP, OVER)
    assert done["worked"]


def idle_call(call, device):
    return SimpleNamespace(result=call(), observation=SimpleNamespace(worked=False))


def test_an_array_of_the_device_is_held_also_where_the_body_got_it_elsewhere(device):
    carried = device.asarray(np.ones(4))
    (done, *_) = served(device, lambda group: lambda: carried * 2, BODY, OVER)
    assert 32 == done["inputs"]


def test_what_is_compiled_here_is_told(device):
    compiled = [0]
    device.compilations = lambda: compiled[0]

    def body(group):
        def step():
            compiled[0] += 1

        return step

    body_done, step_done, _, took = served(device, body, BODY, STEP, BLOCK, GO, OVER)
    assert (0, 1, 3) == (body_done["compiled"], step_done["compiled"], took["compiled"])


def test_a_block_has_its_calls_without_garbage_collection(device):
    seen = []
    served(device, lambda group: lambda: seen.append(gc.isenabled()), BODY, BLOCK, GO, OVER)
    assert [False] * 3 == seen


def test_a_callable_that_rank_0_has_dropped_is_forgotten(device):
    made = []

    def body(group):
        if made:
            gc.collect()
            assert made.pop()() is None

        def step():
            pass

        made.append(ref(step))
        return step

    served(device, body, BODY, {**BODY, "as": 2, "drop": [1]}, OVER)
    assert [] != made


def test_the_last_result_of_a_group_is_the_one_of_its_last_block(device):
    calls = []
    commands = [BODY, STEP, BLOCK, GO, {"do": "result"}, OVER]
    said = served(device, lambda group: lambda: calls.append(1) or len(calls), *commands)
    (value,) = unpacked(said[-1]["places"], said[-1]["data"]).values()
    assert 4 == value


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (ValueError("odd"), "error", "rank 1 raised ValueError: odd"),
        (pytest.skip.Exception("not here"), "skip", "rank 1: not here"),
    ],
)
def test_what_a_call_raises_is_told_and_raised(device, error, kind, words):
    def body(group):
        raise error

    said = raised_by(device, body, BODY).said[-1]
    assert (kind, words) == (said["kind"], said["failed"])


@pytest.mark.parametrize("bare", [True, False])
def test_a_callable_that_is_on_rank_0_alone_skips_only_what_requires_nothing(device, bare):
    expected = pytest.skip.Exception if bare else pytest.fail.Exception
    error = raised_by(device, lambda group: None, BODY, STEP, bare=bare)
    assert expected is type(error)
    assert "returned a callable on rank 0" in str(error)
    assert "refusal" == error.said[-1]["kind"]


def test_a_barrier_that_rank_0_does_not_come_to_ends_in_words(device):
    def body(group):
        group.barrier()

    assert ["barrier", "done"] == [each["said"] for each in served(device, body, BODY, {"do": "pass"}, OVER)]
    for command, kind, words in (
        (STEP, pytest.skip.Exception, "all ranks must call it as often"),
        ({**OVER, "cause": "rank 2: gone"}, pytest.fail.Exception, "rank 2: gone"),
        (OVER, pytest.skip.Exception, "rank 0 has ended the test within this call"),
    ):
        error = raised_by(device, body, BODY, command)
        assert (kind, True) == (type(error), words in str(error))


@pytest.mark.parametrize(
    ("is_skip", "expected"), [(True, pytest.skip.Exception), (False, pytest.fail.Exception)]
)
def test_how_rank_0_ends_a_test_is_how_it_ends_here(device, is_skip, expected):
    over = {**OVER, "cause": "rank 2: not there", "is_skip": is_skip}
    error = raised_by(device, lambda group: None, over)
    assert (expected, "rank 2: not there") == (type(error), str(error))
