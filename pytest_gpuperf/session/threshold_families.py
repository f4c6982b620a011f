"""From records as they come to a family's verdict, once its last member has ended."""

from collections.abc import Iterable

from pytest_gpuperf.analysis import threshold
from pytest_gpuperf.gate import policy
from pytest_gpuperf.model.demand import Plan
from pytest_gpuperf.model.offload import Threshold
from pytest_gpuperf.model.record import Record

__all__ = ["SweepTracker"]


class SweepTracker:
    """Which members of each family are still to come in this process, and whose verdict was told."""

    def __init__(self) -> None:
        self.told: set[str] = set()
        self._expected: set[str] = set()
        self._waiting: dict[str, set[str]] = {}

    def expect(self, name: str, nodeid: str) -> None:
        """Say that a member of a family will run."""
        self._expected.add(nodeid)
        self._waiting.setdefault(name, set()).add(nodeid)

    def leave(self, name: str, nodeid: str) -> None:
        """Say that a member will not tell anything: it ended before it was measured."""
        self._waiting.get(name, set()).discard(nodeid)

    def ended(self, record: Record, records: Iterable[Record]) -> Threshold | None:
        """Return the family's verdict, if this was the last of its members."""
        if record.family is None or record.nodeid not in self._expected:
            return None
        name = record.family.name
        self.leave(name, record.nodeid)
        if self._waiting.get(name):
            return None
        found = threshold.find(each for each in records if each.family and each.family.name == name)
        return found[0] if found else None

    def untold(self, records: Iterable[Record], plan: Plan) -> list[Threshold]:
        """Return the verdicts that fail and that no test could tell: its members ran in several processes."""
        return [
            found
            for found in threshold.find(records)
            if found.name not in self.told and policy.threshold_fails(found, plan)
        ]
