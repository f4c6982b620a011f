"""xdist's schedulers, except that tests which need each other go to one worker, in their order.

Each has the name of the one that it replaces, because xdist prints it, and behaves like that one as long as
its `groups` are None.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from xdist import scheduler as xdist
from xdist.scheduler.worksteal import MIN_PENDING

from pytest_gpuperf.integrations.xdist_groups import WorkerGroups

# A worker is gone for some time before xdist notices and calls remove_node, which reschedules its tests.
# Until then sending to it raises, with which xdist's own schedulers end the run.
_IGNORE_LOST_WORKER = suppress(OSError)

if TYPE_CHECKING:
    _InScopes = xdist.LoadScopeScheduling
    _InPieces = xdist.WorkStealingScheduling  # what is used here LoadScheduling has, too
else:
    _InPieces = _InScopes = object


class _Pieces(_InPieces):
    """For schedulers that send from the front of a list of pending tests: they send whole groups only."""

    groups: WorkerGroups | None = None
    _is_arranged = False

    def _send_tests(self, node: Any, num: int) -> None:
        groups = self.groups
        if groups is None:
            super()._send_tests(node, num)
            return
        if not self._is_arranged:
            self.pending[:] = groups.contiguous(self.pending)
            self._is_arranged = True
        pending = self.pending
        while 0 < num < len(pending) and groups.group(pending[num - 1]) == groups.group(pending[num]):
            num += 1
        pending[:num] = sorted(pending[:num], key=groups.position)
        with _IGNORE_LOST_WORKER:
            super()._send_tests(node, num)

    def mark_test_pending(self, item: str) -> None:
        self._is_arranged = False
        super().mark_test_pending(item)

    def remove_node(self, node: Any) -> str | None:
        """Reschedule the remaining tests of a lost worker, and the tests that must run before them."""
        if self.groups is not None and self.node2pending[node]:
            crashed, *remaining = self.node2pending[node]
            self.groups = self.groups.without(crashed)
            again = self.groups.missing_prerequisites(remaining)
            self.node2pending[node] = [crashed, *remaining, *again]
            self._is_arranged = False
        return super().remove_node(node)


class LoadScheduling(_Pieces, xdist.LoadScheduling):  # type: ignore[misc]  # see _InPieces
    """Chunks that end between groups."""


class WorkStealingScheduling(_Pieces, xdist.WorkStealingScheduling):
    """Queues, from whose ends groups are stolen whole, if none of their tests has begun."""

    def __init__(self, config: Any, log: Any = None) -> None:
        super().__init__(config, log)
        self._begun: dict[Any, set[int]] = {}

    def mark_test_complete(self, node: Any, item_index: int, duration: float | None = None) -> None:
        """Remember that the test's group has begun, so that the rest of it is not stolen."""
        if self.groups is not None:
            self._begun.setdefault(node, set()).add(self.groups.group(item_index))
        super().mark_test_complete(node, item_index, duration)

    def remove_pending_tests_from_node(self, node: Any, indices: Sequence[int]) -> None:
        """Arrange the queues anew at the next check: a worker gave these tests back."""
        self._is_arranged = False
        super().remove_pending_tests_from_node(node, indices)

    def check_schedule(self) -> None:
        """Do what xdist does, except for which tests are stolen."""
        if self.groups is None:
            super().check_schedule()
            return
        idle = self._idle_nodes()
        for place, node in enumerate(idle):
            self._send_tests(node, len(self.pending) // (len(idle) - place))
        idle = self._idle_nodes()
        if not idle or self.steal_requested_from_node is not None:
            return
        for node in sorted(self._nodes_up(), key=lambda node: -len(self.node2pending[node])):
            if stolen := self._stealable(node, self.groups):
                with _IGNORE_LOST_WORKER:
                    node.send_steal(stolen)
                self.steal_requested_from_node = node
                return
        for node in idle:
            node.shutdown()

    def _nodes_up(self) -> list[Any]:
        return [node for node in self.node2pending if not node.shutting_down]

    def _idle_nodes(self) -> list[Any]:
        return [node for node in self._nodes_up() if len(self.node2pending[node]) < MIN_PENDING]

    def _stealable(self, node: Any, groups: WorkerGroups) -> list[int]:
        """Return whole groups from the end of a worker's queue, up to about half of it."""
        pending = self.node2pending[node]
        begun = self._begun.get(node, set()) | {groups.group(index) for index in pending[:MIN_PENDING]}
        pieces: dict[int, list[int]] = {}
        for index in pending[MIN_PENDING:]:
            if groups.group(index) not in begun:
                pieces.setdefault(groups.group(index), []).append(index)
        stolen: list[int] = []
        while pieces and len(stolen) < len(pending) // 2:
            stolen += pieces.popitem()[1]
        return stolen


class _Workload(dict[str, dict[str, bool]]):
    """A worker's scopes, with the number of their tests that have not run; xdist counts anew each time."""

    remaining = 0


class _Scopes(_InScopes):
    """For schedulers that send whole scopes: a group belongs to the scope of its first test."""

    assigned_work: Any  # xdist's, of _Workload here
    groups: WorkerGroups | None = None

    def add_node(self, node: Any) -> None:
        super().add_node(node)
        self.assigned_work[node] = _Workload()

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        self.assigned_work[node].remaining -= 1
        super().mark_test_complete(node, item_index, duration)

    def _pending_of(self, workload: Any) -> int:
        return super()._pending_of(workload) if self.groups is None else workload.remaining

    def _split_scope(self, nodeid: str) -> str:
        return super()._split_scope(nodeid if self.groups is None else self.groups.scope_nodeid(nodeid))

    def _assign_work_unit(self, node: Any) -> None:
        if self.groups is None:
            super()._assign_work_unit(node)
            return
        scope, unit = self.workqueue.popitem(last=False)
        indices = sorted(map(self.groups.indices.__getitem__, unit), key=self.groups.position)
        ids = self.groups.ids
        self.assigned_work[node][scope] = {ids[index]: False for index in indices}
        self.assigned_work[node].remaining += len(indices)
        with _IGNORE_LOST_WORKER:
            node.send_runtest_some(indices)

    def _reschedule(self, node: Any) -> None:
        """Send another scope if the first has one test only: a worker begins a test when it has the next.

        Without this, a worker that replaces a lost one would wait for ever.
        """
        super()._reschedule(node)
        if self.groups is None or not self.workqueue or node.shutting_down:
            return
        if self._pending_of(self.assigned_work[node]) < MIN_PENDING:
            super()._reschedule(node)

    def remove_node(self, node: Any) -> str | None:
        """Reschedule the remaining tests of a lost worker, and the tests that must run before them.

        xdist would also reschedule the test that crashed it, to crash the next one.
        """
        groups = self.groups
        if groups is None:
            return super().remove_node(node)
        crashed: str | None = None
        for scope, unit in self.assigned_work.pop(node).items():
            remaining = [nodeid for nodeid, completed in unit.items() if not completed]
            if remaining and crashed is None:
                crashed = remaining.pop(0)
                self.groups = groups = groups.without(groups.indices[crashed])
            if remaining:
                again = groups.missing_prerequisites([groups.indices[nodeid] for nodeid in remaining])
                self.workqueue[scope] = dict.fromkeys(
                    [*map(groups.ids.__getitem__, again), *remaining], False
                )
        if crashed is not None:
            for other in self.assigned_work:
                self._reschedule(other)
        return crashed


class LoadScopeScheduling(_Scopes, xdist.LoadScopeScheduling):
    """Modules and classes."""


class LoadFileScheduling(_Scopes, xdist.LoadFileScheduling):
    """Files."""


class LoadGroupScheduling(_Scopes, xdist.LoadGroupScheduling):
    """The groups of xdist's own mark."""


SCHEDULERS: dict[type, Any] = {
    xdist.LoadScheduling: LoadScheduling,
    xdist.WorkStealingScheduling: WorkStealingScheduling,
    xdist.LoadScopeScheduling: LoadScopeScheduling,
    xdist.LoadFileScheduling: LoadFileScheduling,
    xdist.LoadGroupScheduling: LoadGroupScheduling,
}
