"""Scheduling: xdist's schedulers on workers that only remember, with tests that need each other."""

import random
from collections import deque
from itertools import pairwise, product
from types import SimpleNamespace

import pytest

pytest.importorskip("xdist", reason="the extra `test` has pytest-xdist")

from xdist import scheduler as xdist

from pytest_gpuperf.integrations.xdist import _LINE, _Controller
from pytest_gpuperf.integrations.xdist_groups import WorkerGroups
from pytest_gpuperf.integrations.xdist_schedulers import SCHEDULERS

MODES = [ours for theirs, ours in SCHEDULERS.items()]
BY_NAME = {ours.__name__: ours for ours in MODES}


class Worker:
    """A worker without a process: it runs a test when it knows the one after it, as xdist's do."""

    def __init__(self, name):
        self.gateway = SimpleNamespace(id=name)
        self.shutting_down = self.is_gone = False
        self.queue = deque()
        self.ran = []
        self.sends = 0
        self.asked_to_give = deque()

    def send_runtest_some(self, indices):
        self._reach()
        self.sends += 1
        self.queue.extend(indices)

    def send_steal(self, indices):
        self._reach()
        self.asked_to_give.append(set(indices))

    def _reach(self):
        if self.is_gone:
            raise OSError("cannot send (already closed?)")

    def shutdown(self):
        self.shutting_down = True

    @property
    def can_run(self):
        return len(self.queue) >= 2 or (bool(self.queue) and self.shutting_down)

    def give(self):
        """Take out of the queue what was asked for: all of it or nothing; the next test is taken already."""
        asked = self.asked_to_give.popleft()
        waiting = list(self.queue)[1:]
        if not asked <= set(waiting):
            return []
        self.queue = deque(index for index in self.queue if index not in asked)
        return [index for index in waiting if index in asked]


class Run:
    """xdist's controller with such workers; `crash` has the tests in which a worker is lost.

    At every step the loss of one is noticed with the probability `notices`.
    """

    def __init__(self, monkeypatch, mode, ids, together=None, *, workers=2, crash=(), seed=0, notices=0.3):
        for module in ("load", "loadscope", "worksteal"):
            monkeypatch.setattr(
                f"xdist.scheduler.{module}.parse_tx_spec_config", lambda config: ["popen"] * workers
            )
        option = SimpleNamespace(loadscopereorder=True)
        config = SimpleNamespace(option=option, getoption=lambda name: None)
        log = SimpleNamespace()
        quiet = lambda *args: None  # noqa: E731 - xdist's log, which is called and has attributes
        for name in ("loadsched", "loadscopesched", "loadfilesched", "loadgroupsched", "workstealsched"):
            setattr(log, name, quiet)
        quiet.loadscopesched = quiet
        self.scheduler = mode(config, SimpleNamespace(**vars(log)))
        self.ids = list(ids)
        self.workers = []
        self.crash = set(crash)
        self.lost = []
        self._gone = []
        self._notices = notices
        self.order = []
        self._random = random.Random(seed)  # noqa: S311 - an order, not a secret
        if together is not None:
            self.scheduler.groups = together
        for number in range(workers):
            self._add(number)
        for worker in self.workers:
            self.scheduler.add_node_collection(worker, list(self.ids))
        self.scheduler.schedule()

    def _add(self, number):
        worker = Worker(f"gw{number}")
        self.workers.append(worker)
        self.scheduler.add_node(worker)
        return worker

    def finish(self):
        """Run all tests, on workers of which now the one is faster, now the other."""
        while True:
            for worker in self.workers:
                while worker.asked_to_give:
                    self.scheduler.remove_pending_tests_from_node(worker, worker.give())
            if self.scheduler.tests_finished:
                for worker in self.workers:
                    worker.shutdown()
            ready = [worker for worker in self.workers if worker.can_run]
            if self._gone and (not ready or self._random.random() < self._notices):
                self._replace(self._gone.pop(0))
            elif not ready:
                return self
            else:
                self._step(self._random.choice(ready))

    def _step(self, worker):
        index = worker.queue.popleft()
        if index in self.crash:
            worker.queue.clear()
            worker.asked_to_give.clear()
            worker.is_gone = True
            self._gone.append(worker)
            return
        worker.ran.append(index)
        self.order.append(index)
        self.scheduler.mark_test_complete(worker, index, 0.01)

    def _replace(self, worker):
        self.lost.append(self.scheduler.remove_node(worker))
        worker.shutting_down = True
        fresh = self._add(len(self.workers))
        self.scheduler.add_node_collection(fresh, list(self.ids))
        self.scheduler.schedule()

    def place(self, index):
        return [(number, w.ran.index(index)) for number, w in enumerate(self.workers) if index in w.ran]


def ids_of(count, files=4):
    size = -(-count // files)
    return [f"test_{index // size}.py::test[{index}]" for index in range(count)]


def pairs_far_apart(count):
    """Return variants as a stacked parametrization has them: all CPU sides, then all GPU sides."""
    half = count // 2
    groups = [[index, half + index] for index in range(half)]
    return groups, {gpu: cpu for cpu, gpu in groups}


def together(ids, groups, needs=()):
    return WorkerGroups(ids=ids, groups=groups, needs=dict(needs))


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.__name__)
@pytest.mark.parametrize("count", [2, 3, 12, 200])
def test_a_group_runs_in_one_worker_in_its_order_and_every_test_once(monkeypatch, mode, count):
    rng = random.Random(count)  # noqa: S311 - as above
    for workers, seed in product([1, 2, 3, 7], range(5)):
        ids = ids_of(count)
        shuffled = rng.sample(range(count), count)
        cuts = sorted(rng.sample(range(count), min(count, 6)))
        groups = [shuffled[a:b] for a, b in pairwise(cuts) if b - a > 1 and b - a < 20]
        run = Run(monkeypatch, mode, ids, together(ids, groups), workers=workers, seed=seed).finish()
        assert sorted(run.order) == list(range(count))
        for group in groups:
            places = [place for index in group for place in run.place(index)]
            assert len({worker for worker, _ in places}) == 1
            assert places == sorted(places)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.__name__)
def test_variants_far_apart_run_in_one_worker(monkeypatch, mode):
    ids = ids_of(400)
    groups, needs = pairs_far_apart(400)
    run = Run(monkeypatch, mode, ids, together(ids, groups, needs), workers=3).finish()
    assert sorted(run.order) == list(range(400))
    for cpu, gpu in groups:
        ((worker, first),), ((same, second),) = run.place(cpu), run.place(gpu)
        assert (worker, first) < (same, second)
        assert worker == same


def test_a_worker_runs_a_chunk_in_the_suites_order(monkeypatch):
    ids = ids_of(400)
    groups, needs = pairs_far_apart(400)
    run = Run(monkeypatch, BY_NAME["LoadScheduling"], ids, together(ids, groups, needs))
    first = list(run.workers[0].queue)
    assert first == sorted(first)
    assert len(first) == 50


@pytest.mark.parametrize("theirs", SCHEDULERS, ids=lambda mode: mode.__name__)
@pytest.mark.parametrize("crash", [(), (30, 31)])
def test_without_groups_all_goes_as_with_xdists_own(monkeypatch, theirs, crash):
    if crash and issubclass(theirs, xdist.LoadScopeScheduling):
        crash = ()  # xdist would send such a test again and again
    ids = ids_of(120)
    here = Run(monkeypatch, SCHEDULERS[theirs], ids, crash=crash, seed=7, notices=1).finish()
    there = Run(monkeypatch, theirs, ids, crash=crash, seed=7, notices=1).finish()
    assert [worker.ran for worker in there.workers] == [worker.ran for worker in here.workers]
    assert [worker.sends for worker in there.workers] == [worker.sends for worker in here.workers]
    assert there.lost == here.lost


def test_each_bears_the_name_of_the_one_whose_place_it_takes():
    for theirs, ours in SCHEDULERS.items():
        assert theirs.__name__ == ours.__name__
        assert issubclass(ours, theirs)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.__name__)
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_lost_worker_loses_the_test_that_it_was_in_and_no_other(monkeypatch, mode, workers):
    ids = ids_of(12, files=2)
    groups, needs = [[0, 6], [1, 7], [2, 3, 4, 8, 9, 10]], {6: 0, 7: 1, 8: 2, 9: 3, 10: 4}
    for crash, seed in product(range(12), range(10)):
        known = together(ids, groups, needs)
        run = Run(monkeypatch, mode, ids, known, workers=workers, crash=[crash], seed=seed).finish()
        assert [ids[crash]] == run.lost
        assert set(range(12)) - {crash} == set(run.order)
        for gpu, cpu in needs.items():
            for worker in run.workers:
                if gpu in worker.ran and cpu != crash:
                    assert cpu in worker.ran[: worker.ran.index(gpu)]
        again = [index for index in set(run.order) if run.order.count(index) > 1]
        assert set(again) <= set(needs.values())


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.__name__)
def test_workers_that_are_lost_before_it_is_noticed_lose_no_more(monkeypatch, mode):
    ids = ids_of(60, files=12)
    groups = [[index, 30 + index] for index in range(5)]
    for seed in range(30):
        known = together(ids, groups, {gpu: cpu for cpu, gpu in groups})
        crash = {seed, seed + 12}
        run = Run(monkeypatch, mode, ids, known, workers=2, crash=crash, seed=seed, notices=0).finish()
        assert {ids[index] for index in crash} == set(run.lost)
        assert set(range(60)) - crash == set(run.order)


@pytest.mark.parametrize(("crash", "expected"), [(3, [0, 1, 2]), (0, [1, 2, 3]), (1, [0, 2, 3])])
def test_a_cpu_variant_is_not_run_again_for_nothing(monkeypatch, crash, expected):
    ids = ids_of(4, files=1)
    known = together(ids, [[0, 1, 2, 3]], {1: 0, 3: 2})
    run = Run(monkeypatch, BY_NAME["LoadScheduling"], ids, known, workers=1, crash=[crash]).finish()
    assert expected == run.order


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.__name__)
def test_two_lost_workers_do_not_bring_a_lost_test_back(monkeypatch, mode):
    ids = ids_of(6, files=1)
    known = together(ids, [[0, 1, 2, 3, 4, 5]], {3: 0, 4: 1, 5: 2})
    run = Run(monkeypatch, mode, ids, known, workers=1, crash=[1, 3]).finish()
    assert [ids[1], ids[3]] == run.lost
    assert {0, 2, 4, 5} == set(run.order)
    assert run.workers[-1].ran in ([2, 4, 5], [4, 2, 5])


@pytest.mark.parametrize("mode", ["LoadScheduling", "WorkStealingScheduling"])
def test_another_plugin_may_ask_for_a_lost_test_again(monkeypatch, mode):
    ids = ids_of(8)
    run = Run(monkeypatch, BY_NAME[mode], ids, together(ids, [[0, 5], [1, 6]]), workers=2)
    run.scheduler.mark_test_pending(ids[3])
    run.finish()
    assert 2 == run.order.count(3)
    assert set(range(8)) == set(run.order)


def test_a_test_that_is_asked_for_again_runs_with_its_group(monkeypatch):
    ids = ids_of(100)
    groups, needs = pairs_far_apart(100)
    run = Run(monkeypatch, BY_NAME["LoadScheduling"], ids, together(ids, groups, needs))
    run.scheduler.mark_test_pending(ids[40])
    run.finish()
    (worker,) = (worker for worker in run.workers if 40 in worker.ran)
    assert [40, 40, 90] == [index for index in worker.ran if index in (40, 90)]


def test_what_was_stolen_goes_in_whole_groups_to_several_workers(monkeypatch):
    ids = ids_of(120, files=1)
    groups, needs = pairs_far_apart(120)
    known = together(ids, groups, needs)
    run = Run(monkeypatch, BY_NAME["WorkStealingScheduling"], ids, known, workers=3)
    slow, *fast = run.workers
    for worker in fast:
        while worker.can_run:
            run._step(worker)
    assert slow.asked_to_give
    run.finish()
    for cpu, gpu in groups:
        assert run.place(cpu)[0] < run.place(gpu)[0]
        assert run.place(cpu)[0][0] == run.place(gpu)[0][0]


def test_idle_workers_steal_whole_groups_that_have_not_begun(monkeypatch):
    ids = ids_of(100, files=1)
    groups = [[index, index + 1] for index in range(0, 100, 2)]
    run = Run(monkeypatch, BY_NAME["WorkStealingScheduling"], ids, together(ids, groups))
    slow, fast = run.workers
    while len(fast.queue) > 1:
        run._step(fast)
    (stolen,) = slow.asked_to_give
    assert 20 < len(stolen) < 30
    assert not stolen & set(list(slow.queue)[:2])
    for cpu, gpu in groups:
        assert (cpu in stolen) == (gpu in stolen)


def test_a_group_that_has_begun_is_not_stolen(monkeypatch):
    ids = ids_of(40, files=1)
    run = Run(monkeypatch, BY_NAME["WorkStealingScheduling"], ids, together(ids, [list(range(20))]))
    slow, fast = run.workers
    assert list(range(20)) == list(slow.queue)
    run._step(slow)
    while fast.can_run:
        run._step(fast)
    assert not slow.asked_to_give
    assert fast.shutting_down


def test_where_the_longest_queue_has_nothing_to_steal_another_has(monkeypatch):
    ids = ids_of(60, files=1)
    run = Run(
        monkeypatch, BY_NAME["WorkStealingScheduling"], ids, together(ids, [list(range(30))]), workers=3
    )
    long, idle, other = sorted(run.workers, key=lambda worker: -len(worker.queue))
    assert len(long.queue) > len(other.queue)
    for _ in range(2):
        run._step(long)
    while idle.can_run:
        run._step(idle)
    assert other.asked_to_give
    assert not long.asked_to_give


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("LoadScopeScheduling", "test_0.py"),
        ("LoadFileScheduling", "test_0.py"),
        ("LoadGroupScheduling", "test_0.py::test[1]"),
    ],
)
def test_a_group_across_scopes_is_in_the_scope_of_its_first(monkeypatch, mode, expected):
    ids = ids_of(8)
    run = Run(monkeypatch, BY_NAME[mode], ids, together(ids, [[1, 7, 4]]))
    scopes = {scope for nodeid in (ids[1], ids[7], ids[4]) for scope in [run.scheduler._split_scope(nodeid)]}
    assert {expected} == scopes
    run.finish()
    assert 1 == len({worker for index in (1, 7, 4) for worker, _ in run.place(index)})


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.__name__)
def test_eight_times_as_many_tests_cost_no_more_than_in_proportion(monkeypatch, mode):
    def work(count):
        """Return how many functions the schedulers call, and how often they send tests."""
        import sys

        calls = 0

        def count_calls(frame, event, argument):
            nonlocal calls
            if event in ("call", "c_call") and frame.f_code.co_filename.endswith(
                ("integrations/xdist.py", "xdist_schedulers.py", "scheduler/loadscope.py")
            ):
                calls += 1

        ids = ids_of(count, files=20)
        groups, needs = pairs_far_apart(count)
        known = together(ids, groups[: count // 4], needs)
        run = Run(monkeypatch, mode, ids, known)
        sys.setprofile(count_calls)
        try:
            run.finish()
        finally:
            sys.setprofile(None)
        assert len(set(run.order)) == count
        return calls, sum(worker.sends for worker in run.workers)

    (calls, sends), (many_calls, many_sends) = work(250), work(2_000)
    assert many_calls <= 8 * calls * 1.2 + 250
    assert many_sends <= 8 * sends * 1.2 + 25


def test_the_line_of_a_worker_is_taken_off_before_anyone_sees_it():
    controller = _Controller(SimpleNamespace(getoption=lambda *_: "load"), on_record=None)
    controller._scheduler = SimpleNamespace(groups=None)
    ids = ["a", "b", "c", _LINE + '{"groups": [[0, 2]], "needs": [[2, 0]]}']
    hook = controller.pytest_xdist_node_collection_finished(ids)
    next(hook)
    assert ["a", "b", "c"] == ids
    assert WorkerGroups(ids=("a", "b", "c"), groups=[[0, 2]], needs={2: 0}) == controller._scheduler.groups
