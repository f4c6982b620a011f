"""The reports that a run is compared with, read before the first test."""

from pathlib import Path

import pytest

from pytest_gpuperf.gate.baseline import Baseline
from pytest_gpuperf.model.comparison import GateOptions
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.report import paths, reader


def baselines(gate: GateOptions) -> tuple[Baseline, ...]:
    """Return the reports that a run may be compared with, newest first; raise UsageError if there is none."""
    path = gate.baseline
    if path is None:
        return ()
    try:
        reports = reader.load_reports(path) if path.exists() else ()
    except GpuPerfError as error:
        raise pytest.UsageError(f"--gpuperf-baseline: {error}") from error
    except OSError as error:  # a name that is too long, for example
        raise pytest.UsageError(f"--gpuperf-baseline: {path} cannot be read: {error.strerror}") from error
    creates = gate.create and (path.is_dir() or not reports)
    if creates:
        _check_folder(path)
    elif not reports:
        problem = f"folder {path} contains no report" if path.is_dir() else f"{path} does not exist"
        raise pytest.UsageError(
            f"--gpuperf-baseline: {problem}; --gpuperf-baseline-missing=create creates one"
        )
    candidates = (Baseline(Path(report.name).name, report.run) for report in reports)
    usable = tuple(baseline for baseline in candidates if baseline.tests(gate.compared))
    if not usable and not creates:
        metrics = ", ".join(tolerance.metric for tolerance in gate.compared)
        raise pytest.UsageError(
            f"--gpuperf-baseline: {path} has no test with a {metrics} to compare with; create it on a "
            "machine that has the GPU"
        )
    return usable


def _check_folder(path: Path) -> None:
    """Raise UsageError where a baseline could not be created."""
    folder = path if path.is_dir() else path.parent
    if not folder.is_dir():
        raise pytest.UsageError(f"--gpuperf-baseline: folder {folder} does not exist; create it first")
    if not paths.writable(folder / "baseline"):
        raise pytest.UsageError(f"--gpuperf-baseline: {folder} is not writable; choose another folder")
