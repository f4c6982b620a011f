"""The journal of a run: a heading, then one line per finished test, from which a killed run is recovered."""

import os
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Environment, Record, Run
from pytest_gpuperf.report.json import codec


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """The first line of a journal."""

    started: str
    environment: Environment


class Journal:
    """The records of finished tests, on the disk as soon as the test has ended; `kill -9` loses none.

    The file is made at the first line, under a name of this process's own, and removed by `close`.
    """

    def __init__(self, report: Path) -> None:
        self.path = report.with_name(f"{report.name}.{os.getpid()}.journal")
        self._file: IO[str] | None = None

    @property
    def begun(self) -> bool:
        """Whether a line was written."""
        return self._file is not None

    def add(self, content: Any) -> None:
        """Append a value as one line; raises OSError, and GpuPerfError for what JSON cannot hold.

        It is not checked against its type: a record that no report can hold is in the journal at least.
        """
        line = codec.text(codec.dump(content))
        if self._file is None:
            self._file = self.path.open("w", encoding="utf-8", newline="")
        self._file.write(line + "\n")
        self._file.flush()

    def close(self, *, keep: bool) -> None:
        """Close the file, and remove it unless it holds the only copy of something."""
        if self._file is None:
            return
        with suppress(OSError):
            self._file.close()
            if not keep:
                self.path.unlink()


def is_journal(content: bytes) -> bool:
    """Return whether a file's bytes begin with the heading of a journal."""
    return re.match(rb'\{"started": ?"[^"]*", ?"environment": ?\{.*\}\}\r?\n', content) is not None


def run_in(path: Path) -> Run:
    """Return the run in a journal; raise GpuPerfError for a line that is not a record.

    A last line that was cut off is left out.
    """
    try:
        first, *others, _ = path.read_bytes().split(b"\n")
        heading = codec.value_in(first, Heading)
        records = {record.nodeid: record for record in (codec.value_in(line, Record) for line in others)}
    except (ValueError, GpuPerfError) as error:
        raise GpuPerfError(f"this is no whole journal of a run: {error}") from error
    surveyed, found = heading.environment, tuple(records.values())
    # Under pytest-xdist the heading is written before any worker has reported its GPU.
    gpu = surveyed.gpu or next((record.gpu.device for record in found if record.gpu), None)
    if gpu:
        surveyed = replace(surveyed, gpu=gpu, gpu_reason=None)
    return Run(environment=surveyed, started=heading.started, records=found, complete=False)
