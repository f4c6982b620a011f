"""From what options ask for to output files, each written whole or not at all: formats, history, baseline."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, permutations
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
class Named:
    """A file or folder as an option asks for it: what set it, what was typed in which folder, its format."""

    set_by: str
    typed: str
    folder: Path
    format: str | None = None

    @property
    def path(self) -> Path:
        """The path, of which nothing is known yet."""
        return self.folder / self.typed

    def error(self, problem: object) -> GpuPerfError:
        """Return the error of what is wrong with it."""
        return GpuPerfError(f"{self.set_by}: {problem}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a run is asked to write; `summary` is the file that GitHub names."""

    report: Named | None = None
    files: tuple[Named, ...] = ()
    summary: Path | None = None
    history: Named | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A file, and the format in which a run is written to it."""

    format: ReportFormat
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """What a run writes: its report, files in formats, and a folder of history.

    `summary` is a file of the CI's to which a summary is appended.
    """

    report: Path | None = None
    files: tuple[Output, ...] = ()
    summary: Path | None = None
    history: Path | None = None


def checked(wanted: Wanted, of_hook: Callable[[], Iterable[object]], baseline: Path | None) -> Outputs:
    """Return the outputs that were asked for, in our formats and those that the suite's hook returns.

    Raises GpuPerfError for one that cannot be written, for a file that is not one of ours and would be
    overwritten, and for two that are in each other's way, or of which one would be the next run's baseline.
    """
    report, history = wanted.report, wanted.history
    found = Outputs(
        report=_writable(report, _why_no_file(report, files.REPORT, "a report")) if report else None,
        history=_writable(history, _why_no_folder(history)) if history else None,
        summary=wanted.summary,
    )
    if wanted.files:
        formats = _formats(of_hook, found.history)
        found = replace(found, files=tuple(_output(named, formats) for named in wanted.files))
    _require_apart([*filter(None, [report, *wanted.files, history])], baseline)
    return found


def _formats(of_hook: Callable[[], Iterable[object]], history: Path | None) -> dict[str, ReportFormat]:
    try:
        with exports.errors_named("the hook"):
            others = chain.from_iterable(each if isinstance(each, Iterable) else [each] for each in of_hook())
            return exports.formats(others, history)
    except GpuPerfError as error:
        raise GpuPerfError(f"pytest_gpuperf_reports: {error}") from error


def _output(named: Named, formats: dict[str, ReportFormat]) -> Output:
    found = formats.get(named.format or "")
    if found is None:
        known = ", ".join(f"{each.name} ({each.suffix})" for each in formats.values())
        problem = f"{named.format!r} is not an export format; use one of {known}; a suite's come from "
        remedy = "pytest_gpuperf_reports in a conftest.py that pytest loads at its start"
        raise named.error(problem + remedy)
    try:
        if found.name == "html":
            from pytest_gpuperf.report.html import page

            page.template()
        why_not = _why_no_file(named, *exports.known_by(found))
    except GpuPerfError as error:
        raise named.error(error) from error
    return Output(format=found, path=_writable(named, why_not))


def _why_no_file(named: Named, is_ours: Callable[[bytes], bool], what: str) -> str | None:
    if named.typed.endswith(("/", os.sep)):
        return f"{named.typed} is a folder; choose a file in it"
    return files.why_not_writable(named.path, is_ours, what)


def _why_no_folder(named: Named) -> str | None:
    if named.path.exists() and not named.path.is_dir():
        return f"{named.path} is not a folder; choose another place"
    return files.why_no_new_file(named.path)


def _writable(named: Named, problem: str | None) -> Path:
    if problem is not None:
        raise named.error(problem)
    return named.path


def _require_apart(wanted: Sequence[Named], baseline: Path | None) -> None:
    places = [
        (named, Path(os.path.realpath(named.path))) for named in wanted
    ]  # `resolve` raises for some links
    for (other, of_other), (named, path) in permutations(places, 2):
        if path == of_other or of_other in path.parents:
            in_the_way = f"{path} and {of_other} of {other.set_by} are in each other's way"
            raise named.error(f"{in_the_way}; choose another place")
    if baseline is None:
        return
    baseline = Path(os.path.realpath(baseline))
    for named, path in places:
        if path == baseline or (path.parent == baseline and path.suffix == ".json"):
            raise named.error(
                f"the next run would be compared with {path}, even if this one regressed; choose a place "
                "elsewhere (`gpuperf baseline update` accepts a good report into a baseline)"
            )


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


def _create_baseline(path: Path, run: Run) -> str:
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
    emulated = any(record.is_emulated for record in run.records if record.nodeid in held)
    made = f"{file}, made on an emulated device" if emulated else str(file)
    lacking = [each.nodeid for each in run.records if each.nodeid not in held and _should_be_held(each)]
    if not lacking:
        return made
    return f"{made}, without {units.count(len(lacking), 'test')} of this run: {units.first_few(lacking)}"


def _should_be_held(record: Record) -> bool:
    """Return whether a baseline without a test is less than what its user asked for."""
    is_half = record.pairing is not None and record.pairing.kind == "cpu"
    is_base = record.scaling is not None and record.scaling.is_base
    return record.source != "all" and not (is_half or is_base)
