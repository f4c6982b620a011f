"""When the last member of a size group has a record, the group's threshold is judged."""

from collections.abc import Iterable

from pytest_gpuperf.analysis import threshold
from pytest_gpuperf.gate import policy
from pytest_gpuperf.model.demand import RunOptions
from pytest_gpuperf.model.offload import Threshold
from pytest_gpuperf.model.record import Record


class OpenThresholds:
    """Which members of each size group are still to run here, and which thresholds were reported."""

    def __init__(self) -> None:
        self.reported: set[str] = set()
        self._expected: set[str] = set()
        self._waiting: dict[str, set[str]] = {}

    def expect(self, name: str, nodeid: str) -> None:
        """Add a member of a size group that will run."""
        self._expected.add(nodeid)
        self._waiting.setdefault(name, set()).add(nodeid)

    def remove(self, name: str, nodeid: str) -> None:
        """Remove a member that has a record, or will not get one."""
        self._waiting.get(name, set()).discard(nodeid)

    def threshold_after(self, record: Record, records: Iterable[Record]) -> Threshold | None:
        """Return the size group's threshold, if this record is of its last member."""
        if record.size_group is None or record.nodeid not in self._expected:
            return None
        name = record.size_group.name
        if self._waiting.get(name):
            return None
        members = (member for member in records if member.size_group and member.size_group.name == name)
        return next(iter(threshold.find(members)), None)

    def unreported_failures(self, records: Iterable[Record], options: RunOptions) -> list[Threshold]:
        """Return the failed thresholds that no test reported: their members ran in several processes."""
        return [
            found
            for found in threshold.find(records)
            if found.name not in self.reported and policy.threshold_fails(found, options)
        ]
