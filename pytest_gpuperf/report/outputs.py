"""From a run to its output files, each written whole or not at all: its formats, history, baseline."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from pytest_gpuperf.gate.baseline import comparable_tests
from pytest_gpuperf.model import units
from pytest_gpuperf.model.comparison import GateOptions
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Record, Run
from pytest_gpuperf.report import exports, files, history_folder, markdown, reader
from pytest_gpuperf.report.exports import ReportFormat
from pytest_gpuperf.report.json import document


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A file, the format in which a run is written to it, and the option or key that it is named by."""

    set_by: str
    format: ReportFormat
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """What a run writes besides its report: files in formats, and a folder of history.

    `summary` is a file of the CI's to which a summary is appended.
    """

    files: tuple[Output, ...] = ()
    summary: Path | None = None
    history: Path | None = None


def publish(run: Run, outputs: Outputs, baseline: Path | None) -> tuple[list[str], list[str]]:
    """Write a run's files, and its report as the baseline that was missing, if there was one to make.

    Returns a line for each file that was written, and a problem for each that could not be: all others are
    written nevertheless.
    """
    lines: list[str] = []
    problems: list[str] = []
    for what, write in _steps(run, outputs, baseline):
        try:
            lines.append(f"{what}: {write()}")
        except (KeyboardInterrupt, pytest.exit.Exception):
            raise
        except BaseException as error:  # noqa: BLE001 - one output that fails must cost neither the others nor the report
            problems.append(f"the {what} was not written: {error}")
    return lines, problems


def _steps(
    run: Run, outputs: Outputs, baseline: Path | None
) -> Iterator[tuple[str, Callable[[], Path | str]]]:
    """Yield each file's description, and a function that writes it and returns its path, or why it has none.

    A run that was cut short before it measured anything leaves earlier files as they are.
    """
    if outputs.history is not None and not run.is_empty:
        yield "history", partial(history_folder.add, outputs.history, run)
    for output in outputs.files:
        if not (run.is_empty and output.path.exists()):
            yield f"{output.format.name} file", partial(_write, output, run)
    if outputs.summary is not None:
        yield "job's summary", partial(_append_summary, outputs.summary, run)
    if baseline is not None:
        yield "new baseline", partial(_create_baseline, baseline, run)


def _write(output: Output, run: Run) -> Path | str:
    return exports.write(exports.text(output.format, run), output.format, output.path) or output.path


def _append_summary(path: Path, run: Run) -> Path:
    with path.open("a", encoding="utf-8") as file:
        file.write(f"\n{markdown.text(run)}")
    return path


def _create_baseline(path: Path, run: Run) -> Path | str:
    """Write a run's report as the missing baseline; one that another run has written meanwhile stays."""
    gate = GateOptions(tolerances=run.gate.tolerances if run.gate else ())
    held = {*comparable_tests(run, gate.compared)}
    if not held:
        remedy = "; create it on a machine with a GPU" if run.environment.gpu is None else ""
        raise GpuPerfError(f"this run measured nothing that a later one could be compared with{remedy}")
    if not run.complete:
        cause = "later runs would be compared with it as if it were complete"
        raise GpuPerfError(f"this run ended early, and {cause}")
    file = reader.baseline_file(path, run)
    try:
        files.create(file, document.text(run))
    except FileExistsError:
        if not files.begins_as(file, files.REPORT):
            raise
        return f"this run's is not kept, because another run has created {file} meanwhile"
    lacking = [each.nodeid for each in run.records if each.nodeid not in held and _should_be_held(each)]
    if not lacking:
        return file
    return f"{file}, without {units.count(len(lacking), 'test')} of this run: {units.first_few(lacking)}"


def _should_be_held(record: Record) -> bool:
    """Return whether a baseline without a test is less than what its user asked for."""
    is_half = record.pairing is not None and record.pairing.kind == "cpu"
    is_base = record.scaling is not None and record.scaling.is_base
    return record.source != "all" and not (is_half or is_base)
