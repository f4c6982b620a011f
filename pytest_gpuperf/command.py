"""The command `gpuperf`: what can be done with a report outside pytest."""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from pytest_gpuperf import fingerprint, schema, store
from pytest_gpuperf.model import GpuPerfError, Plan, Run, Settlement
from pytest_gpuperf.report import terminal

if TYPE_CHECKING:
    from pytest_gpuperf.merging import MergedRun, Report

__all__ = ["main"]

_FINE, _FAILED, _WRONG = 0, 1, 2
_NARROWEST = 80  # columns of the table
_INCONCLUSIVE = (
    "an undecided test: warn passes it near its limit and fails it elsewhere; fail and pass settle it (warn)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Done:
    """What a command has to say, and its exit code."""

    text: str
    code: int = _FINE


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code: 0 fine, 1 when a demand failed, 2 when it could not be done."""
    chosen = _parser().parse_args(arguments)
    try:
        done: _Done = chosen.run(chosen)
    except (GpuPerfError, OSError, ValueError) as error:
        print(f"gpuperf: {error}", file=sys.stderr)
        return _WRONG
    encoding = sys.stdout.encoding or "utf-8"
    print(done.text.encode(encoding, "backslashreplace").decode(encoding))  # a node id may be no text
    return done.code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gpuperf", description="Work with reports of pytest-gpuperf.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("recover", help="make a report from the journal of a run that was killed")
    command.add_argument("journal", type=Path, help="REPORT.PID.journal, beside where the report would be")
    command.add_argument("report", type=Path, help="the report to write; it must not exist")
    command.set_defaults(run=lambda chosen: _recover(chosen.journal, chosen.report))
    command = commands.add_parser("validate", help="check a report against its schema")
    command.add_argument("report", type=Path)
    command.set_defaults(run=lambda chosen: _validate(chosen.report))
    command = commands.add_parser("merge", help="join reports of a suite that ran once on each device")
    command.add_argument("reports", type=Path, nargs="+", metavar="REPORT", help="two of them or more")
    command.add_argument("-o", "--output", type=Path, required=True, help="the report to write")
    command.add_argument(
        "--inconclusive", choices=("warn", "fail", "pass"), default="warn", help=_INCONCLUSIVE
    )
    command.set_defaults(run=lambda chosen: _merge(chosen.reports, chosen.output, chosen.inconclusive))
    return parser


def _recover(journal: Path, report: Path) -> _Done:
    if report.exists():
        raise GpuPerfError(f"{report} exists; name a new file, so that nothing is lost")
    run = _run_in(store.read_journal(journal))
    store.replace(report, schema.text(run))
    return _Done(text=f"{report}: {len(run.records)} records recovered; {journal} can be removed")


def _validate(report: Path) -> _Done:
    return _Done(text=f"{report}: valid, {len(_read(report).records)} records")


def _merge(paths: Sequence[Path], output: Path, inconclusive: Settlement) -> _Done:
    from pytest_gpuperf import merging  # with NumPy behind it, which no other command needs

    if len(paths) < 2:
        raise GpuPerfError("one report has nothing to be joined with; name two or more")
    reports = [merging.Report(name=str(path), run=_read(path)) for path in paths]
    _check_replaceable(output, paths)
    merged = merging.merge(reports)
    store.replace(output, schema.text(merged.run))
    failures = merged.failures(Plan(inconclusive=inconclusive))
    told = "\n".join(_told(merged, reports, failures))
    return _Done(text=told, code=_FAILED if failures else _FINE)


def _check_replaceable(output: Path, inputs: Iterable[Path]) -> None:
    """Refuse to overwrite what is read, or what is no report."""
    if not output.exists():
        return
    if any(output.samefile(path) for path in inputs):
        raise GpuPerfError(f"{output} is one of the reports to join; name another file")
    try:
        _read(output)
    except (GpuPerfError, OSError) as error:
        raise GpuPerfError(f"{output} is there and no report; name another file ({error})") from error


def _told(merged: "MergedRun", reports: Sequence["Report"], failures: Sequence[str]) -> Iterator[str]:
    """Yield what failed or is in doubt, the table, and what was joined."""
    doubts = [doubt for doubt in merged.doubts if doubt not in failures]
    yield from (*failures, *doubts, "")
    yield from (*terminal.lines(merged.run, max(_NARROWEST, get_terminal_size().columns)), "")
    if merged.run.merged and merged.run.merged.differences:
        yield f"the runs differ: {'; '.join(merged.run.merged.differences)}"
    for report in (each for each in reports if not each.run.complete):
        yield f"{report.name} is incomplete, and so is what was made of it: its run ended early"
    yield f"{_counted(merged, failures)}; {_where(merged.run, reports)}"


def _counted(merged: "MergedRun", failures: Sequence[str]) -> str:
    joined, skipped = len(merged.joined), merged.run.summary["skipped"]
    counts = [f"{joined} {'test' if joined == 1 else 'tests'} joined", f"{len(failures)} failed"]
    return ", ".join([*counts, *([f"{skipped} skipped"] if skipped else [])])


def _where(run: Run, reports: Iterable["Report"]) -> str:
    names = ", ".join(fingerprint.machines([report.run.environment for report in reports]))
    differ = run.merged.hosts_differ if run.merged else None
    if differ is None:
        return "whether the hosts differ is not known"
    return f"hosts differ: {names}" if differ else f"all on one host: {names}"


def _read(report: Path) -> Run:
    """Return the run in a report; raise GpuPerfError, naming the file, when it holds none."""
    try:
        return schema.load(json.loads(report.read_text(encoding="utf-8")))
    except (ValueError, RecursionError) as error:
        raise GpuPerfError(f"{report} is not JSON: {error}") from error
    except GpuPerfError as error:
        raise GpuPerfError(f"{report}: {error}") from error


def _run_in(lines: Iterable[str]) -> Run:
    """Return the run that a journal's lines hold; raise GpuPerfError for a line that is none of its own."""
    try:
        heading, *contents = map(json.loads, lines)
        records = {content["nodeid"]: schema.load_record(content) for content in contents}
        surveyed = schema.load_environment(heading["environment"])
        started = heading["started"]
    except (ValueError, KeyError, TypeError) as error:
        raise GpuPerfError(f"this is no whole journal of a run: {error}") from error
    return Run(environment=surveyed, started=started, records=tuple(records.values()), complete=False)
