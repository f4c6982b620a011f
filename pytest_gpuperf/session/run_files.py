"""From a finished run to its files: the report, its other forms, and the baseline that was missing."""

from collections.abc import Collection, Sequence

from pytest_gpuperf.model import units
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.model.record import Report, Run
from pytest_gpuperf.report import outputs
from pytest_gpuperf.report.journal import recovery_command
from pytest_gpuperf.session.session import GpuPerfSession


def write(
    run: Run, session: GpuPerfSession, failed: Collection[str], arguments: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Write every requested file; return what was written, and why others were not, which fails the run."""
    records, gate = session.records, session.gate
    records.write(run)
    problems = [records.unwritten] if records.unwritten else []
    lines = [f"report: {records.report}"] if records.report and not problems else []
    remedy = "recover what it measured, then remove its journal"
    lines += [
        f"an earlier run wrote no report; {remedy}: {recovery_command(each)}" for each in records.left_behind
    ]
    new = gate.path_to_create(run.records)
    if new is not None and gate.allows_missing_gpu(run.records, has_gpu=run.environment.gpu is not None):
        cause = "there was no GPU to measure; create it on a machine with one"
        lines.append(f"no baseline was created at {new}: {cause}")
        new = None
    written, unwritten = outputs.publish(run, session.outputs, new)
    lines += written
    problems += unwritten
    if new is not None and not unwritten:
        made = Report(name=f"the new file in {new}" if new.is_dir() else str(new), run=run)
        lines += [_of_failed(made, failed)] if failed else []
        lines += map(printable, gate.forecast_of(made, arguments))
    return lines, problems


def _of_failed(made: Report, failed: Collection[str]) -> str:
    """Return what to do about a baseline that was just made of a run in which tests failed."""
    count, first = units.count(len(failed), "test"), units.first_few(sorted(failed))
    emulated = any(record.is_emulated for record in made.run.records)
    or_report = ", or pass --gpuperf-fail=nothing, as nothing here is a GPU's speed" if emulated else ""
    remedy = f"mend that{or_report}, delete {made.name}, and run this command again"
    return f"the new baseline is of a run in which {count} failed ({first}): {remedy}"
