"""The records of a run, journaled as they come and written once at the end; the only writer."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from pytest_gpuperf.collection.items import ItemSpec
from pytest_gpuperf.model.demand import LIBRARY_NOT_KNOWN, Pairing, UnknownValue
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Environment, Record, Run, Verdict
from pytest_gpuperf.report import files, journal
from pytest_gpuperf.report.journal import Heading, Journal, Results
from pytest_gpuperf.report.json import codec, document
from pytest_gpuperf.report.words.properties import properties
from pytest_gpuperf.session import user_properties


class RecordStore:
    """Keeps what each run of a marked test found; `unwritten` is why something is not on the disk.

    `by_nodeid` has the newest record of each test, `runs` how often it was set up since it began, reruns
    included; `left_behind` are the journals of earlier sessions that were killed.
    """

    def __init__(self, report: Path | None) -> None:
        self.report = report
        self.results = Results()
        self.by_nodeid = self.results.newest
        self.runs: Counter[str] = Counter()
        self.unwritten: str | None = None
        self.unmarked: int | None = None
        self.unknown_values: tuple[UnknownValue, ...] = ()
        self.started = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.left_behind = journal.left_behind(report) if report else []
        self._journal = Journal(report) if report else None
        self._journal_error: str | None = None
        self._is_journaled = False  # a record, at least
        self._lines: dict[str, tuple[Record, str]] = {}  # by node id, as it is written
        self._attached: tuple[str, str] | None = None  # node id and line
        self._refused: GpuPerfError | None = None

    def completed(self, record: Record, spec: ItemSpec) -> Record:
        """Return a record with its source, its place among its variants and the number of its reruns."""
        pairing = None
        if spec.device is not None:
            measured = record.cpu if spec.kind == "cpu" else record.gpu
            library = measured.device.backend if measured else spec.device.library or LIBRARY_NOT_KNOWN
            pairing = Pairing(kind=spec.device.kind, library=library, partner=spec.partner)
        reruns = max(0, self.runs[spec.nodeid] - 1)
        return replace(record, pairing=pairing, source=spec.source, reruns=reruns)

    def without_measurement(self, item: pytest.Item, spec: ItemSpec, ended: Verdict) -> Record:
        """Keep and return the record of a speedup test that ended before it was measured."""
        cpu_variant = self.by_nodeid.get(spec.partner or "")
        record = Record(
            nodeid=spec.nodeid,
            status=ended.status,
            reason=ended.reason,
            reason_code=ended.reason_code,
            demand=spec.demand,
            size_group=spec.size_group,
            scaling=spec.scaling,
            cpu=cpu_variant.cpu if cpu_variant is not None and cpu_variant.status == "recorded" else None,
        )
        return self.keep(self.completed(record, spec), item)

    def invalidate(self, item: pytest.Item, spec: ItemSpec, reason: str) -> None:
        """Invalidate the record of a test that failed outside the measured call."""
        record = self.by_nodeid.get(spec.nodeid)
        if record is not None and record.status in ("passed", "recorded", "inconclusive"):
            self.keep(replace(record, status="error", reason=reason, reason_code=None), item)

    def keep(self, record: Record, item: pytest.Item | None = None) -> Record:
        """Keep a record and return what is kept of it; a rerun's replaces the one before.

        With its item it is also in the item's user properties, for other plugins' reports. One that no report
        can hold, as with the time of a clock that a test has replaced, is kept without what is wrong in it:
        the other records must not be lost with it.
        """
        try:
            if not record.is_deselected:  # which has no numbers, and there may be very many
                self.line(record)
        except GpuPerfError:
            record = document.possible(record)
        self.by_nodeid[record.nodeid] = record
        if item is not None:
            user_properties.put(item, user_properties.of_others(item), properties(record))
        return record

    def line(self, record: Record) -> str:
        """Return a record as it is journaled, sent to another process, and written to the report."""
        known = self._lines.get(record.nodeid)
        if known is None or known[0] is not record:
            known = self._lines[record.nodeid] = record, document.line_of(record)
        return known[1]

    def attach(self, nodeid: str) -> str:
        """Return a record as it travels with pytest's report, to this process or to another."""
        self._attached = nodeid, self.line(self.by_nodeid[nodeid])
        return self._attached[1]

    def receive(self, line: str, worker: str | None, survey: Callable[[], Environment]) -> str | None:
        """Keep and journal the record that came with a report, and return its node id.

        One that this process attached needs no reading. `survey` is called once, for the journal's heading.
        """
        if self._attached is not None and line is self._attached[1]:
            nodeid = self._attached[0]
        else:
            try:
                record = document.record_in(line.encode())
            except GpuPerfError as error:
                self.refuse(error)
                return None
            nodeid = record.nodeid
            self.results.add(record, worker)
            self._lines[nodeid] = record, line
        self._add_to_journal(line, survey)
        return nodeid

    def refuse(self, error: GpuPerfError) -> None:
        """Note that something of another process cannot be read."""
        self._refused = self._refused or error

    def _add_to_journal(self, line: str, survey: Callable[[], Environment]) -> None:
        if self._journal is None or self._journal_error:
            return
        try:
            if not self._journal.begun:
                heading = Heading(started=self.started, environment=possible_environment(survey()))
                self._journal.add(codec.text(heading))
            self._journal.add(line)
            self._is_journaled = True
        except Exception as error:  # noqa: BLE001 - a test may have broken Python, and others have passed
            self._journal_error = f"the journal {self._journal.path} cannot be written: {error}"

    def write(self, run: Run) -> None:
        """Write a run's report, if one was requested.

        A run that was cut short before it measured anything leaves an earlier report as it is.
        """
        if self._refused:
            where = "in the report" if self.report else "shown"
            self.unwritten = f"not all that was measured is {where}: {self._refused}"
        if self.report is None or self._journal is None:
            return
        if run.is_empty and self.report.exists():
            self.unwritten = f"{self.report} was left as it is: this run ended before it measured anything"
            self._journal.close(keep=False)
            return
        try:
            run = replace(run, environment=possible_environment(run.environment))
            run, wrong = document.possible_run(run)
            files.replace(self.report, document.text(run, self.line))
            if wrong:
                lacks = f"the report {self.report} is written without what it cannot hold: {wrong}"
                self.unwritten = "; ".join(filter(None, [self.unwritten, lacks]))
        except Exception as error:  # noqa: BLE001 - a test may have broken Python: the journal has the rest
            problems = [f"the report {self.report} was not written: {error}", self._journal_error]
            is_rescued = self._is_journaled and self._journal.path.exists()
            since = " before that" if self._journal_error else ""
            problems += [f"what was measured{since} is in {self._journal.path}"] if is_rescued else []
            self.unwritten = "; ".join(filter(None, problems))
            self._journal.close(keep=is_rescued)
        else:
            self._journal.close(keep=False)


def possible_environment(found: Environment) -> Environment:
    """Return the environment, without what a backend says of its GPU if no report can hold that."""
    try:
        codec.text(found)
    except GpuPerfError as error:
        reason = f"what its backend says of it is impossible: {error}"
        return replace(
            found,
            gpu=None,
            gpu_reason=reason,
            clocks_at_start=None,
            clocks_at_end=None,
            clocks_reason=reason,
        )
    return found
