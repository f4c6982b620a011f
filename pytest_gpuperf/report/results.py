"""From what each run of a test has found to the records of a session, none of which replaces another's."""

from collections import Counter
from dataclasses import dataclass

from msgspec.structs import replace

from pytest_gpuperf.model.nodeid import numbered
from pytest_gpuperf.model.record import Note, Record


@dataclass(slots=True)
class _Result:
    """A record, and the pytest-xdist worker that measured it."""

    record: Record
    worker: str | None


class Results:
    """The results of each test; `newest` has the last one of each by the test's id.

    A rerun's result replaces the one before, as pytest reports it. A test that pytest runs more than once
    (--keep-duplicates, `--dist each`, a worker that takes over from one that crashed) has as many results.
    """

    def __init__(self) -> None:
        self.newest: dict[str, Record] = {}
        self._workers: dict[str, str | None] = {}  # of the newest
        self._earlier: dict[str, list[_Result]] = {}

    def begin(self, nodeid: str) -> None:
        """Note that a test runs, for the first time or once more; its reruns do not come here."""
        record = self.newest.pop(nodeid, None)
        if record is not None:
            worker = self._workers.pop(nodeid, None)
            self._earlier.setdefault(nodeid, []).append(_Result(record=record, worker=worker))

    def add(self, record: Record, worker: str | None = None) -> None:
        """Add a finished test's record, in the order in which tests have ended."""
        if record.reruns == 0:
            self.begin(record.nodeid)
        elif self._workers.get(record.nodeid) != worker:  # since the first attempt others have ended
            of_worker = [each for each in self._earlier.get(record.nodeid, ()) if each.worker == worker]
            if of_worker:
                of_worker[-1].record = record
                return
        self.newest[record.nodeid] = record
        self._workers[record.nodeid] = worker

    def count(self, nodeid: str) -> int:
        """Return how many results a test has."""
        return len(self._earlier.get(nodeid, ())) + (nodeid in self.newest)

    def all(self) -> tuple[Record, ...]:
        """Return every result, in the order of the tests; those of one test have an id and a note each."""
        order = dict.fromkeys((*self.newest, *self._earlier))
        records = {nodeid: [each.record for each in self._earlier.get(nodeid, ())] for nodeid in order}
        for nodeid, record in self.newest.items():
            records[nodeid].append(record)
        counts = Counter({nodeid: self.count(nodeid) for nodeid in order})
        return tuple(
            _numbered(record, number, counts) if number > 1 else record
            for found in records.values()
            for number, record in enumerate(found, 1)
        )


def _numbered(record: Record, number: int, counts: Counter[str]) -> Record:
    """Return a further result of a test under an id of its own, and in groups of its own."""
    runs = f"{counts[record.nodeid]} times in this session"
    text = f"the test ran {runs}; this is result {number}, and each of them counts"
    note = Note(code="ran_more_than_once", text=text)
    pairing, scaling = record.pairing, record.scaling
    # Of a size group the GPU variants count.
    size_group = None if pairing and pairing.kind == "cpu" else record.size_group
    if pairing and pairing.partner and counts[pairing.partner] >= number:
        pairing = replace(pairing, partner=numbered(pairing.partner, number))
    return replace(
        record,
        nodeid=numbered(record.nodeid, number),
        size_group=replace(size_group, name=numbered(size_group.name, number)) if size_group else None,
        scaling=replace(scaling, name=numbered(scaling.name, number)) if scaling else None,
        pairing=pairing,
        notes=(*record.notes, note),
    )
