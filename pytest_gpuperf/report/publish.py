"""From a run to the files that it leaves for people and tools: each whole or not at all."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pytest_gpuperf.gate.baseline import Baseline
from pytest_gpuperf.model.comparison import GateOptions
from pytest_gpuperf.model.demand import Outputs
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Run
from pytest_gpuperf.report import files, paths, reader
from pytest_gpuperf.report.json import document

__all__ = ["PublishResult", "publish"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishResult:
    """What was written, in words, and what could not be."""

    told: tuple[str, ...]
    problems: tuple[str, ...]


def publish(run: Run, outputs: Outputs, baseline: Path | None) -> PublishResult:
    """Write a run's files, and its report as the baseline that was missing, if there was one to make.

    A file that cannot be written is a problem of its own, and keeps no other from being written.
    """
    told, problems = [], []
    for what, write in _steps(run, outputs, baseline):
        try:
            told.append(f"{what}: {write()}")
        except Exception as error:  # noqa: BLE001 - no form takes the others along, nor what was measured
            problems.append(f"the {what} was not written: {error}")
    return PublishResult(told=tuple(told), problems=tuple(problems))


def _steps(run: Run, outputs: Outputs, baseline: Path | None) -> Iterator[tuple[str, Callable[[], Path]]]:
    """Yield each file's name in words, and what writes it and returns its place.

    A run that was cut short before it measured anything leaves earlier files as they are.
    """
    for path in outputs.markdown:
        if not (run.is_empty and path.exists()):
            yield "summary", partial(_summarize, path, run)
    if outputs.summary is not None:
        yield "job's summary", partial(_append_summary, outputs.summary, run)
    for name, path in outputs.exports:
        if not (run.is_empty and path.exists()):
            yield f"export as {name}", partial(_export, name, path, run)
    if outputs.history is not None and not run.is_empty:
        yield "history", partial(_remember, outputs.history, run)
    if baseline is not None:
        yield "new baseline", partial(_make, baseline, run)


def _summarize(path: Path, run: Run) -> Path:
    from pytest_gpuperf.report import markdown

    files.replace(path, markdown.text(run))
    return path


def _append_summary(path: Path, run: Run) -> Path:
    from pytest_gpuperf.report import markdown

    with path.open("a", encoding="utf-8") as file:
        file.write(f"\n{markdown.text(run)}")
    return path


def _export(name: str, path: Path, run: Run) -> Path:
    from pytest_gpuperf.report import exports

    files.replace(path, exports.text(name, run))
    return path


def _remember(folder: Path, run: Run) -> Path:
    from pytest_gpuperf.report import history

    return history.write(folder, history.entry(run))


def _make(path: Path, run: Run) -> Path:
    """Make a run's report the baseline that is missing; one that has come meanwhile stays as it is."""
    gate = GateOptions(tolerances=run.gate.tolerances if run.gate else ())
    if not Baseline(path.name, run).tests(gate.compared):
        raise GpuPerfError("this run measured nothing that a later one could be compared with")
    if not run.complete:
        raise GpuPerfError("this run ended early, and would be compared with as if it were whole")
    text = document.text(run)
    if paths.is_folder(path):
        name = reader.file_name(reader.Report(name="this run", run=run))
        path.mkdir(exist_ok=True)
        path = path / name
    files.create(path, text)
    return path
