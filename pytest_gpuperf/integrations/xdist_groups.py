"""Tests that need each other: numbers in, numbers out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

__all__ = ["WorkerGroups"]


@dataclass(frozen=True, kw_only=True)
class WorkerGroups:
    """Which tests run in one process, by their indices in the collection `ids`.

    A group is in the order in which its tests run. `needs` has the test of the same group that must have
    run before another. Groups are disjoint.
    """

    ids: Sequence[str]
    groups: Sequence[Sequence[int]]
    needs: Mapping[int, int]

    def index(self, nodeid: str) -> int:
        """Return where in the collection a node id is."""
        return self._indices[nodeid]

    def group(self, index: int) -> int:
        """Return what tells a test's group from others: its first test; a test without any is its own."""
        return self._first.get(index, index)

    def position(self, index: int) -> int:
        """Return when a test runs: where it was collected, but for groups with another order."""
        return self._positions.get(index, index)

    def of_first(self, nodeid: str) -> str:
        """Return the node id of the first test of a test's group."""
        return self.ids[self.group(self.index(nodeid))]

    def arranged(self, indices: Iterable[int]) -> list[int]:
        """Return the indices with each group in one piece, where its first one was."""
        pieces: dict[int, list[int]] = {}
        for index in indices:
            pieces.setdefault(self.group(index), []).append(index)
        return [index for piece in pieces.values() for index in sorted(piece, key=self.position)]

    def needed(self, indices: Sequence[int]) -> list[int]:
        """Return what must run again before these, as they move to another process without it."""
        here = set(indices)
        needs = (self.needs[index] for index in indices if index in self.needs)
        return [need for need in dict.fromkeys(needs) if need not in here]

    @cached_property
    def _indices(self) -> dict[str, int]:
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
