"""The results of a run's tests, and its journal: a line for each, from which a killed run is recovered."""

import os
import shlex
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from glob import escape
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

from msgspec.structs import replace

from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.nodeid import numbered
from pytest_gpuperf.model.record import Environment, Note, Record, Run
from pytest_gpuperf.model.value import Value
from pytest_gpuperf.report import files
from pytest_gpuperf.report.json import codec, document

_SUFFIX = ".journal"
_RANDOM = 6  # bytes of a journal's name
# Bytes of a report's name in it: with the rest it fits where a name has 143, as in encrypted folders.
_LONGEST = 120
_DIGEST = 16  # letters that tell apart longer names which begin alike


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
    pairing, scaling, size_group = record.pairing, record.scaling, record.size_group
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


class Heading(Value, frozen=True, kw_only=True):
    """The first line of a journal."""

    started: str
    environment: Environment


class Journal:
    """The records of finished tests, on the disk as soon as the test has ended; `kill -9` loses none.

    The file is made at the first line, under a name that no other run has, beside the report or what its link
    leads to. It is locked for as long as the process lives, and removed by `close`.
    """

    def __init__(self, report: Path) -> None:
        with suppress(OSError):  # which ends the run before, or comes up when the report is written
            report = files.target(report)
        self.path = report.with_name(f"{_begin(report)}.{os.urandom(_RANDOM).hex()}{_SUFFIX}")
        self._file: IO[str] | None = None

    @property
    def begun(self) -> bool:
        """Whether a line was written."""
        return self._file is not None

    def add(self, line: str) -> None:
        """Append a line; raises OSError."""
        if self._file is None:
            self._file = files.open_new(self.path)
            _lock(self._file, exclusive=True)
        self._file.write(line + "\n")
        self._file.flush()

    def close(self, *, keep: bool) -> None:
        """Close the file, and remove it unless it holds the only copy of something."""
        if self._file is None:
            return
        with suppress(OSError):
            self._file.close()
        if not keep:
            with suppress(OSError):
                self.path.unlink()


def left_behind(report: Path) -> list[Path]:
    """Return the journals of this report's runs that ended without a report and were not recovered."""
    with suppress(OSError):
        report = files.target(report)
    named = report.parent.glob(f"{escape(_begin(report))}.{'[0-9a-f]' * 2 * _RANDOM}{_SUFFIX}")
    return [path for path in sorted(named) if _was_left(path)]


def _begin(report: Path) -> str:
    """Return how the names of a report's journals begin: as its own, which may be cut."""
    name = os.fsencode(report.name)
    if len(name) <= _LONGEST:
        return report.name
    cut = name[: _LONGEST - _DIGEST - 1].decode(errors="ignore")
    return f"{cut}.{sha256(name).hexdigest()[:_DIGEST]}"


def recovery_command(journal: Path) -> str:
    """Return the command that makes a report of a journal, under a name of its own."""
    return shlex.join(["gpuperf", "recover", str(journal), str(_recovered(journal))])


def _recovered(journal: Path) -> Path:
    return journal.with_suffix(".json")


def _was_left(path: Path) -> bool:
    """Return whether a journal holds a record that was not recovered, and no process writes it."""
    if _recovered(path).exists():
        return False
    try:
        with files.open_regular(path) as file:
            is_ours = files.JOURNAL(file.readline())
            return is_ours and file.readline().endswith(b"\n") and _lock(file)
    except OSError:
        return False


def _lock(file: IO[Any], *, exclusive: bool = False) -> bool:
    """Lock an open file until it is closed; return False if another process has it locked.

    Also where the system or file system cannot lock: there a run that goes on looks like one that was killed.
    """
    try:
        import fcntl

        fcntl.flock(file, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


def run_in(path: Path) -> Run:
    """Return the run in a journal; raise GpuPerfError for a line that is not a record, and OSError.

    A last line that was cut off is left out.
    """
    *lines, _ = files.content(path).split(b"\n")
    if not lines:
        raise GpuPerfError(f"{path} has no whole line: the run ended before it measured anything")
    results = Results()
    try:
        heading = codec.load(lines[0], Heading)
        for line in lines[1:]:
            results.add(document.record_in(line))
    except GpuPerfError as error:
        raise GpuPerfError(f"{path} is no whole journal of a run: {error}") from error
    surveyed, found = heading.environment, results.all()
    # Under pytest-xdist the heading is written before any worker has reported its GPU.
    gpu = surveyed.gpu or next((record.gpu.device for record in found if record.gpu), None)
    if gpu:
        surveyed = replace(surveyed, gpu=gpu, gpu_reason=None)
    return Run(environment=surveyed, started=heading.started, records=found, complete=False)
