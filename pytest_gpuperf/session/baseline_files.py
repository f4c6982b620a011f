"""The reports that a run is compared with, read before the first test."""

import pytest

from pytest_gpuperf.gate.baseline import comparable_tests
from pytest_gpuperf.model.comparison import GateOptions
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Report
from pytest_gpuperf.report import paths, reader


def baselines(gate: GateOptions) -> tuple[Report, ...]:
    """Return the reports that a run may be compared with, newest first; raise UsageError if there is none."""
    path = gate.baseline
    if path is None:
        return ()
    if (problem := paths.why_broken(path)) is not None:
        raise pytest.UsageError(f"--gpuperf-baseline: {problem}")
    try:
        reports = reader.load_reports(path) if path.exists() else ()
    except GpuPerfError as error:
        raise pytest.UsageError(f"--gpuperf-baseline: {error}") from error
    except OSError as error:  # a name that is too long, for example
        raise pytest.UsageError(f"--gpuperf-baseline: {path} cannot be read: {error.strerror}") from error
    usable = tuple(report for report in reports if comparable_tests(report.run, gate.compared))
    if gate.create and (path.is_dir() or not reports):
        problem = paths.why_no_new_file(path)
    elif not reports:
        missing = f"folder {path} contains no report" if path.is_dir() else f"{path} does not exist"
        problem = f"{missing}; --gpuperf-baseline-missing=create creates one"
    elif not usable:
        metrics = ", ".join(tolerance.metric for tolerance in gate.compared)
        remedy = "create it on a machine that has the GPU"
        problem = f"{path} has no test with a {metrics} to compare with; {remedy}"
    if problem is not None:
        raise pytest.UsageError(f"--gpuperf-baseline: {problem}")
    return usable
