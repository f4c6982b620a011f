"""xdist's schedulers, but for tests that need each other: those go to one worker, in their order.

Each bears the name of the one whose place it takes, because xdist prints it, and does what that does as long
as it is not told of any group.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from xdist import scheduler as xdist
from xdist.scheduler.worksteal import MIN_PENDING

from pytest_gpuperf.integrations.xdist_groups import WorkerGroups

__all__ = ["OURS"]

# A worker is lost for some time before xdist hears of it and calls remove_node, which sees to its tests.
# Until then xdist's own schedulers end the run with the error.
_GONE = suppress(OSError)

if TYPE_CHECKING:
    _InScopes = xdist.LoadScopeScheduling

    class _InPieces:
        """What LoadScheduling and WorkStealingScheduling have in common."""

        pending: list[int]
        node2pending: dict[Any, list[int]]

        def _send_tests(self, node: Any, num: int) -> None: ...
        def mark_test_pending(self, item: str) -> None: ...
        def remove_node(self, node: Any) -> str | None: ...

else:
    _InPieces = _InScopes = object


class _Pieces(_InPieces):
    """For schedulers with a list of pending tests from whose front they send: never a part of a group."""

    together: WorkerGroups | None = None
    _is_arranged = False
    _crashed: frozenset[int] = frozenset()

    def _send_tests(self, node: Any, num: int) -> None:
        together = self.together
        if together is None:
            super()._send_tests(node, num)
            return
        if not self._is_arranged:
            self.pending[:] = together.arranged(self.pending)
            self._is_arranged = True
        pending = self.pending
        while 0 < num < len(pending) and together.group(pending[num - 1]) == together.group(pending[num]):
            num += 1
        pending[:num] = sorted(pending[:num], key=together.position)
        with _GONE:
            super()._send_tests(node, num)

    def mark_test_pending(self, item: str) -> None:
        self._is_arranged = False
        super().mark_test_pending(item)

    def remove_node(self, node: Any) -> str | None:
        """Let the tests that a lost worker had left run elsewhere, and what they need before them."""
        if self.together is not None and self.node2pending[node]:
            lost, *left = self.node2pending[node]
            self._crashed |= {lost}
            again = [index for index in self.together.needed(left) if index not in self._crashed]
            self.node2pending[node] = [lost, *left, *again]
            self._is_arranged = False
        return super().remove_node(node)


class LoadScheduling(_Pieces, xdist.LoadScheduling):
    """Chunks, whose ends are not within a group."""


class WorkStealingScheduling(_Pieces, xdist.WorkStealingScheduling):
    """Queues, from whose ends whole groups are stolen, of which no test has begun."""

    def __init__(self, config: Any, log: Any = None) -> None:
        super().__init__(config, log)
        self._begun: dict[Any, set[int]] = {}

    def mark_test_complete(self, node: Any, item_index: int, duration: float | None = None) -> None:
        if self.together is not None:
            self._begun.setdefault(node, set()).add(self.together.group(item_index))
        super().mark_test_complete(node, item_index, duration)

    def remove_pending_tests_from_node(self, node: Any, indices: Sequence[int]) -> None:
        self._is_arranged = False
        super().remove_pending_tests_from_node(node, indices)

    def check_schedule(self) -> None:
        """Do as xdist does, but for which tests are stolen."""
        if self.together is None:
            super().check_schedule()
            return
        idle = self._idle_nodes()
        for place, node in enumerate(idle):
            self._send_tests(node, len(self.pending) // (len(idle) - place))
        idle = self._idle_nodes()
        if not idle or self.steal_requested_from_node is not None:
            return
        for node in sorted(self._nodes_up(), key=lambda node: -len(self.node2pending[node])):
            if stolen := self._stealable(node, self.together):
                with _GONE:
                    node.send_steal(stolen)
                self.steal_requested_from_node = node
                return
        for node in idle:
            node.shutdown()

    def _nodes_up(self) -> list[Any]:
        return [node for node in self.node2pending if not node.shutting_down]

    def _idle_nodes(self) -> list[Any]:
        return [node for node in self._nodes_up() if len(self.node2pending[node]) < MIN_PENDING]

    def _stealable(self, node: Any, together: WorkerGroups) -> list[int]:
        """Return half of a worker's queue, or as many as come in whole groups from its end."""
        pending = self.node2pending[node]
        begun = self._begun.get(node, set()) | {together.group(index) for index in pending[:MIN_PENDING]}
        pieces: dict[int, list[int]] = {}
        for index in pending[MIN_PENDING:]:
            if together.group(index) not in begun:
                pieces.setdefault(together.group(index), []).append(index)
        stolen: list[int] = []
        while pieces and len(stolen) < len(pending) // 2:
            stolen += pieces.popitem()[1]
        return stolen


class _Workload(dict[str, dict[str, bool]]):
    """A worker's scopes, with the number of tests that are left in them; xdist counts them at every test."""

    left = 0


class _Scopes(_InScopes):
    """For schedulers that send whole scopes: a group is in the scope of its first test."""

    assigned_work: Any  # xdist's, of _Workload here
    together: WorkerGroups | None = None
    _crashed: frozenset[int] = frozenset()

    def add_node(self, node: Any) -> None:
        super().add_node(node)
        self.assigned_work[node] = _Workload()

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        self.assigned_work[node].left -= 1
        super().mark_test_complete(node, item_index, duration)

    def _pending_of(self, workload: Any) -> int:
        return super()._pending_of(workload) if self.together is None else workload.left

    def _split_scope(self, nodeid: str) -> str:
        return super()._split_scope(nodeid if self.together is None else self.together.of_first(nodeid))

    def _assign_work_unit(self, node: Any) -> None:
        if self.together is None:
            super()._assign_work_unit(node)
            return
        scope, unit = self.workqueue.popitem(last=False)
        indices = sorted(map(self.together.index, unit), key=self.together.position)
        ids = self.together.ids
        self.assigned_work[node][scope] = {ids[index]: False for index in indices}
        self.assigned_work[node].left += len(indices)
        with _GONE:
            node.send_runtest_some(indices)

    def _reschedule(self, node: Any) -> None:
        """Send another scope where the first has one test only: a worker begins a test when it has the next.

        xdist lets a worker that comes in the place of a lost one wait for it for ever.
        """
        super()._reschedule(node)
        if self.together is None or not self.workqueue or node.shutting_down:
            return
        if self._pending_of(self.assigned_work[node]) < MIN_PENDING:
            super()._reschedule(node)

    def remove_node(self, node: Any) -> str | None:
        """Let the tests that a lost worker had left run elsewhere, and what they need before them.

        xdist would send the test that it was in, too, to be lost again.
        """
        together = self.together
        if together is None:
            return super().remove_node(node)
        lost: str | None = None
        for scope, unit in self.assigned_work.pop(node).items():
            left = [nodeid for nodeid, completed in unit.items() if not completed]
            if left and lost is None:
                lost = left.pop(0)
                self._crashed |= {together.index(lost)}
            needed = together.needed([together.index(nodeid) for nodeid in left])
            again = [together.ids[index] for index in needed if index not in self._crashed]
            if left:
                self.workqueue[scope] = dict.fromkeys([*again, *left], False)
        if lost is not None:
            for other in self.assigned_work:
                self._reschedule(other)
        return lost


class LoadScopeScheduling(_Scopes, xdist.LoadScopeScheduling):
    """Modules and classes."""


class LoadFileScheduling(_Scopes, xdist.LoadFileScheduling):
    """Files."""


class LoadGroupScheduling(_Scopes, xdist.LoadGroupScheduling):
    """The groups of xdist's own mark."""


OURS: dict[type, Any] = {
    xdist.LoadScheduling: LoadScheduling,
    xdist.WorkStealingScheduling: WorkStealingScheduling,
    xdist.LoadScopeScheduling: LoadScopeScheduling,
    xdist.LoadFileScheduling: LoadFileScheduling,
    xdist.LoadGroupScheduling: LoadGroupScheduling,
}
