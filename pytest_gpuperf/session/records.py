"""The records of a run, journaled as they come and written once at the end; the only writer."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pytest_gpuperf.model.demand import Selection, UnknownValue
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Environment, Record, Run
from pytest_gpuperf.report import files
from pytest_gpuperf.report.journal import Heading, Journal
from pytest_gpuperf.report.json import codec, document


class RecordStore:
    """Keeps one record for each marked test; `unwritten` is why something is not on the disk."""

    def __init__(self, report: Path | None) -> None:
        self.report = report
        self.by_nodeid: dict[str, Record] = {}
        self.unwritten: str | None = None
        self.selections: tuple[Selection, ...] = ()
        self.unknown_values: tuple[UnknownValue, ...] = ()
        self.started = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._journal = Journal(report) if report else None
        self._attached: dict[str, Any] = {}
        self._refused: GpuPerfError | None = None

    def keep(self, record: Record) -> None:
        """Keep a record; a rerun's replaces the one before."""
        self.by_nodeid[record.nodeid] = record

    def attach(self, nodeid: str) -> dict[str, Any]:
        """Return a record as it travels with pytest's report, to this process or to another."""
        self._attached = codec.dump(self.by_nodeid[nodeid])
        return self._attached

    def receive(self, content: dict[str, Any]) -> None:
        """Keep the record that came with a report; one that this process attached needs no reading."""
        if content is not self._attached:
            try:
                self.keep(codec.load(content, Record))
            except GpuPerfError as error:
                self.refuse(error)

    def refuse(self, error: GpuPerfError) -> None:
        """Note that something of another process cannot be read; the journal keeps what it measured."""
        self._refused = self._refused or error

    def journal(self, content: dict[str, Any], survey: Callable[[], Environment]) -> None:
        """Add the record of a finished test to the journal, as it came with pytest's report.

        `survey` is called once, for the journal's first line.
        """
        if self._journal is None or self.unwritten:
            return
        try:
            if not self._journal.begun:
                self._journal.add(Heading(started=self.started, environment=survey()))
            self._journal.add(content)
        except (OSError, GpuPerfError) as error:
            self.unwritten = f"the journal {self._journal.path} cannot be written: {error}"

    def write(self, run: Run) -> None:
        """Write a run's report, if one was requested.

        A run that was cut short before it measured anything leaves an earlier report as it is.
        """
        if self.report is None or self._journal is None:
            if self._refused:
                self.unwritten = f"not all that was measured is shown: {self._refused}"
            return
        if run.is_empty and self.report.exists():
            self.unwritten = f"{self.report} was left as it is: this run ended before it measured anything"
            self._journal.close(keep=False)
            return
        try:
            if self._refused:
                raise self._refused
            files.replace(self.report, document.text(run))
        except (OSError, GpuPerfError) as error:
            self.unwritten = f"the report {self.report} was not written: {error}"
            self.unwritten += f"; what was measured is in {self._journal.path}"
            self._journal.close(keep=True)
        else:
            self._journal.close(keep=False)
