"""`gpuperf merge`: the reports of a suite that ran once on each device, to one."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_gpuperf import schema
from pytest_gpuperf.cli.output import FAILED, FINE, CommandResult, check_replaceable, told
from pytest_gpuperf.cli.reports import width
from pytest_gpuperf.gate import fingerprint
from pytest_gpuperf.model.demand import InconclusivePolicy, Plan
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Run
from pytest_gpuperf.model.units import count
from pytest_gpuperf.report import files, paths, reader, terminal

if TYPE_CHECKING:
    from pytest_gpuperf.report.merge import MergedRun
    from pytest_gpuperf.report.reader import Report

__all__ = ["INCONCLUSIVE", "add"]

INCONCLUSIVE = (
    "an undecided test: warn passes it near its limit and fails it elsewhere; fail and pass settle it (warn)"
)


def add(commands: Any) -> None:
    """Add the command."""
    command = commands.add_parser(
        "merge",
        help="join reports of a suite that ran once on each device",
        description="Join the reports of a suite that ran once on each device, test by test.",
        epilog="example: gpuperf merge cpu.json gpu.json -o merged.json",
    )
    command.add_argument("reports", type=Path, nargs="+", metavar="REPORT", help="two of them or more")
    command.add_argument(
        "-o", "--output", type=Path, required=True, metavar="PATH", help="the report to write"
    )
    command.add_argument(
        "--inconclusive", choices=("warn", "fail", "pass"), default="warn", help=INCONCLUSIVE
    )
    command.set_defaults(run=lambda chosen: _merge(chosen.reports, chosen.output, chosen.inconclusive))


def _merge(inputs: Sequence[Path], output: Path, inconclusive: InconclusivePolicy) -> CommandResult:
    from pytest_gpuperf.report import merge  # with NumPy behind it, which few commands need

    if len(inputs) < 2:
        raise GpuPerfError("one report has nothing to be joined with; name two or more")
    reports = [reader.Report(name=str(path), run=reader.read(path)) for path in inputs]
    check_replaceable(output, paths.REPORT, "report", inputs)
    merged = merge.merge(reports)
    files.replace(output, schema.text(merged.run))
    plan = Plan(inconclusive=inconclusive)
    failures = merged.failures(plan)
    return told(_told(merged, reports, failures, plan), FAILED if failures else FINE)


def _told(
    merged: "MergedRun", reports: Sequence["Report"], failures: Sequence[str], plan: Plan
) -> Iterator[str]:
    """Yield what failed or is in doubt, the table, and what was joined."""
    yield from (*failures, *merged.doubts(plan), "")
    yield from (*terminal.lines(merged.run, width()), "")
    if merged.run.merged and merged.run.merged.differences:
        yield f"the runs differ: {'; '.join(merged.run.merged.differences)}"
    for report in (each for each in reports if not each.run.complete):
        yield f"{report.name} is incomplete, and so is what was made of it: its run ended early"
    yield f"{_counted(merged, failures)}; {_where(merged.run, reports)}"


def _counted(merged: "MergedRun", failures: Sequence[str]) -> str:
    joined, skipped = len(merged.joined), merged.run.summary["skipped"]
    counts = [f"{count(joined, 'test')} joined", f"{len(failures)} failed"]
    whole = sum(record.speedup is not None for record in merged.run.records) - joined
    counts += [f"{count(whole, 'test')} from one report each"] if whole else []
    return ", ".join([*counts, *([f"{skipped} skipped"] if skipped else [])])


def _where(run: Run, reports: Iterable["Report"]) -> str:
    names = ", ".join(fingerprint.machine_names([report.run.environment for report in reports]))
    differ = run.merged.hosts_differ if run.merged else None
    if differ is None:
        return "whether the hosts differ is not known"
    return f"hosts differ: {names}" if differ else f"all on one host: {names}"
