"""Groups of tests that one worker must run: indices in, indices out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property


@dataclass(frozen=True, kw_only=True)
class WorkerGroups:
    """Which tests must run in one process, by their indices in the collection `ids`.

    Groups are disjoint, and each is in the order in which its tests run. `needs` maps a test to the test of
    the same group that must have run before it.
    """

    ids: Sequence[str]
    groups: Sequence[Sequence[int]]
    needs: Mapping[int, int]

    def group(self, index: int) -> int:
        """Return the first test of a test's group, which identifies it; a test without a group is its own."""
        return self._first.get(index, index)

    def position(self, index: int) -> int:
        """Return the sort key of a test: its index, except in a group with another order."""
        return self._positions.get(index, index)

    def scope_nodeid(self, nodeid: str) -> str:
        """Return the node id of the first test of a test's group."""
        return self.ids[self.group(self.indices[nodeid])]

    def contiguous(self, indices: Iterable[int]) -> list[int]:
        """Return the indices with each group in one piece, at the place of its first test."""
        pieces: dict[int, list[int]] = {}
        for index in indices:
            pieces.setdefault(self.group(index), []).append(index)
        return [index for piece in pieces.values() for index in sorted(piece, key=self.position)]

    def missing_prerequisites(self, indices: Sequence[int]) -> list[int]:
        """Return the tests that must run again before these, which move to another process without them."""
        moved = set(indices)
        needs = dict.fromkeys(self.needs[index] for index in indices if index in self.needs)
        return [need for need in needs if need not in moved]

    def without(self, crashed: int) -> "WorkerGroups":
        """Return the groups once a test has crashed its worker: no other test needs it any more."""
        return replace(self, needs={test: need for test, need in self.needs.items() if need != crashed})

    @cached_property
    def indices(self) -> dict[str, int]:
        """The index of each node id in the collection."""
        return {nodeid: index for index, nodeid in reversed(list(enumerate(self.ids)))}

    @cached_property
    def _first(self) -> dict[int, int]:
        return {index: group[0] for group in self.groups for index in group}

    @cached_property
    def _positions(self) -> dict[int, int]:
        return {
            index: position
            for group in self.groups
            for index, position in zip(group, sorted(group), strict=True)
        }
