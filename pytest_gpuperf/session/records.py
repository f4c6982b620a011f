"""The records of a run, journaled as they come and written once at the end; the only writer."""

from collections.abc import Callable
from datetime import UTC, datetime
from json import dumps
from pathlib import Path
from typing import Any

from pytest_gpuperf import schema
from pytest_gpuperf.analysis import threshold
from pytest_gpuperf.model.demand import Selection
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Environment, Record, Run
from pytest_gpuperf.report import files

__all__ = ["RecordStore"]


class RecordStore:
    """Holds one record for each marked test; `unwritten` says why something is not on the disk."""

    def __init__(self, report: Path | None, cost_ratio: float) -> None:
        self.report = report
        self.records: dict[str, Record] = {}
        self.unwritten: str | None = None
        self.selections: tuple[Selection, ...] = ()
        self._cost_ratio = cost_ratio
        self.started = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._journal = files.Journal(report) if report else None

    def keep(self, record: Record) -> None:
        """Hold a record; a rerun's replaces the one before."""
        self.records[record.nodeid] = record

    def enter(self, content: dict[str, Any], survey: Callable[[], Environment]) -> None:
        """Take the record of a finished test, as it came with pytest's report, and journal it.

        `survey` is asked once, for the journal's first line.
        """
        self.keep(schema.load_record(content))
        if self._journal is None or self.unwritten:
            return
        try:
            if not self._journal.begun:
                heading = {"started": self.started, "environment": schema.dump_environment(survey())}
                self._journal.add(dumps(heading, allow_nan=False))
            self._journal.add(dumps(content, allow_nan=False))
        except (OSError, ValueError) as error:
            self.unwritten = f"the journal {self._journal.path} cannot be written: {error}"

    def run(self, surveyed: Environment, *, complete: bool) -> Run:
        """Return everything as one value."""
        records = tuple(self.records.values())
        return Run(
            environment=surveyed,
            started=self.started,
            records=records,
            thresholds=threshold.find(records),
            cost_ratio=self._cost_ratio,
            complete=complete,
            selections=self.selections,
        )

    def write(self, run: Run) -> None:
        """Write a run's report, if one was asked for.

        A run that was cut short before it measured anything leaves an earlier report as it is.
        """
        if self.report is None or self._journal is None:
            return
        if run.is_empty and self.report.exists():
            self.unwritten = f"{self.report} was left as it is: this run ended before it measured anything"
            self._journal.close(keep=False)
            return
        try:
            files.replace(self.report, schema.text(run))
        except (OSError, GpuPerfError) as error:
            self.unwritten = f"the report {self.report} was not written: {error}"
            self.unwritten += f"; what was measured is in {self._journal.path}"
            self._journal.close(keep=True)
        else:
            self._journal.close(keep=False)
