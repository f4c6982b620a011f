"""`gpuperf compare`: two reports, by the rule and in the words of the gate in pytest."""

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_gpuperf.cli.output import FAILED, FINE, INCOMPARABLE, CommandResult, check_replaceable, told
from pytest_gpuperf.gate import policy, tolerance
from pytest_gpuperf.gate.baseline import Baseline
from pytest_gpuperf.gate.gate import Gate, RunCoverage
from pytest_gpuperf.model.comparison import GateOptions, Tolerance
from pytest_gpuperf.model.demand import Plan
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.nodeid import file_of
from pytest_gpuperf.model.record import Record, Run
from pytest_gpuperf.model.units import first_few
from pytest_gpuperf.report import comparison_text, files, paths, reader

__all__ = ["add"]

_MOST_ROWS = 50
_ASKED = (Tolerance(metric="speedup", share=0.1),)
_EPILOG = """\
example: gpuperf compare baseline.json report.json --fail-on speedup:10% --fail-on memory:5%

A metric regressed when the whole of its new interval lies beyond the baseline's, less the tolerance. Without
--fail-on it is speedup:10%.

exit codes: 0 nothing regressed; 1 something did, or the gate saw too little; 2 the reports could not be
compared, or an option is wrong; 3 they have nothing in common that could be compared"""


def add(commands: Any) -> None:
    """Add the command."""
    command = commands.add_parser(
        "compare",
        help="compare a report with an earlier one",
        description="Compare a report with an earlier one, as pytest does with --gpuperf-baseline.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("base", type=Path, metavar="BASE", help="the earlier report, or a folder of them")
    command.add_argument("new", type=Path, metavar="NEW", help="the report to hold against it")
    command.add_argument(
        "--fail-on",
        action="append",
        type=_tolerance,
        metavar="METRIC:PERCENT",
        help="what may not get worse: speedup, gpu, cpu, latency, always, threshold, memory; improvement "
        "fails what got better; may be repeated",
    )
    command.add_argument("--strict", action="store_true", help="fail what cannot be compared, too")
    command.add_argument(
        "--allow-no-gpu", action="store_true", help="NEW may have measured nothing for want of a GPU"
    )
    command.add_argument("--allow-missing", action="store_true", help="tests of BASE may be missing in NEW")
    command.add_argument(
        "--inconclusive",
        choices=("warn", "fail", "pass"),
        default="warn",
        help="a metric of which the two reports cannot tell: warn and pass let it be, fail fails it (warn)",
    )
    command.add_argument("--markdown", type=Path, metavar="PATH", help="write a summary for pull requests")
    command.set_defaults(run=_compare)


def _tolerance(text: str) -> Tolerance | str:
    try:
        return tolerance.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _compare(chosen: argparse.Namespace) -> CommandResult:
    gate, plan = _gate(chosen), Plan(inconclusive=chosen.inconclusive)
    if chosen.markdown is not None:
        inputs = (chosen.base, chosen.new)
        check_replaceable(chosen.markdown, paths.MARKDOWN, "summary of ours", inputs)
    bases = _bases(gate, chosen.base)
    new = reader.read(chosen.new)
    gated = new.gate is not None and bool(new.gate.tolerances)
    gating = Gate(gate, bases, lambda: new.environment, gated=gated)
    run = _compared(new, gating, plan)
    if chosen.markdown is not None:
        _summarize(run, chosen.markdown)
    failures = list(_failures(run, gating, plan))
    if not run.complete:
        failures.append(f"FAILED: {chosen.new} is incomplete: its run ended early")
    absent = _absent(run, gating.base) if gating.base else ()
    return told([*_told(run), *absent, *failures], _code(run, failures, gate))


def _gate(chosen: argparse.Namespace) -> GateOptions:
    """Return what the new report is held against."""
    asked = chosen.fail_on or _ASKED
    held = tolerance.tolerances_of(asked)
    return GateOptions(
        baseline=chosen.base,
        tolerances=held,
        improvements=tolerance.IMPROVEMENT in asked,
        strict=chosen.strict,
        allow_no_gpu=chosen.allow_no_gpu,
        allow_missing=chosen.allow_missing,
    )


def _bases(gate: GateOptions, path: Path) -> list[Baseline]:
    """Return what can be compared with, newest first; where nothing can, all of it, to say so."""
    found = [Baseline(Path(each.name).name, each.run) for each in reader.read_all(path)]
    if not found:
        raise GpuPerfError(f"{path} has no report to compare with")
    if len(found) == 1:
        return found
    return [base for base in found if base.tests(gate.compared)] or found


def _summarize(run: Run, path: Path) -> None:
    from pytest_gpuperf.report import markdown

    files.replace(path, markdown.text(run))


def _compared(run: Run, gating: Gate, plan: Plan) -> Run:
    """Return a run with how it stands beside its baseline, test by test and as a whole."""
    records = {record.nodeid: gating.with_comparisons(record) for record in run.records}
    for threshold in run.thresholds:
        found = gating.threshold_comparisons(threshold, list(records.values()))
        last = threshold.curve[-1].nodeid if threshold.curve else None
        if found and last in records:
            records[last] = replace(records[last], comparisons=(*records[last].comparisons, *found))
    measured = {file_of(record.nodeid) for record in run.records}
    seen = RunCoverage(
        expects=lambda nodeid: file_of(nodeid) in measured,
        crashed={},
        has_gpu=run.environment.gpu is not None,
        flag_prefix="--",
    )
    compared = tuple(records.values())
    return replace(run, records=compared, gate=gating.finish(compared, seen, plan))


def _absent(run: Run, base: Baseline) -> Iterator[str]:
    """Yield which files of the baseline a run has nothing of: it may have been of a part of the suite."""
    there = {file_of(record.nodeid) for record in run.records}
    left = Counter(file_of(record.nodeid) for record in base.run.records)
    absent = {file: count for file, count in left.items() if file not in there}
    if absent:
        missing = sum(absent.values())
        yield f"the new report has nothing of {first_few(absent)} (tests in the baseline: {missing})"


def _failures(run: Run, gating: Gate, plan: Plan) -> Iterator[str]:
    """Yield why the gate fails: test by test, and then as a whole."""
    for record in run.records:
        watched = record.source == "all"
        reasons = (
            gating.unmarked_failures(record, plan)
            if watched
            else policy.gate_failures(record, gating.options, plan)
        )
        for reason in reasons:
            yield f"FAILED: {record.nodeid}: {reason}"
    yield from (f"FAILED: {failure.text}" for failure in (run.gate.failures if run.gate else ()))


def _code(run: Run, failures: Sequence[str], gate: GateOptions) -> int:
    """Return 3 where nothing could be compared, whatever else is said of it: that is no regression."""
    outcomes = {each.outcome for record in run.records for each in record.comparisons}
    if not outcomes and not failures and gate.allow_no_gpu and run.environment.gpu is None:
        return FINE
    if not outcomes - {"not_comparable", "new"}:
        return INCOMPARABLE
    return FAILED if failures else FINE


def _told(run: Run) -> Iterator[str]:
    """Yield the changes, the gravest first, and the counts."""
    found = sorted((record for record in run.records if _is_noted(record)), key=comparison_text.severity)
    yield from _rows(found[:_MOST_ROWS])
    if len(found) > _MOST_ROWS:
        left = Counter(each.outcome for record in found[_MOST_ROWS:] for each in record.comparisons)
        yield f"and {len(found) - _MOST_ROWS} more tests: {comparison_text.outcome_counts(left)}"
    yield from ("", *comparison_text.gate_lines(run)) if found else comparison_text.gate_lines(run)


def _is_noted(record: Record) -> bool:
    return any(each.outcome != "not_regressed" for each in record.comparisons)


def _rows(records: Sequence[Record]) -> Iterator[str]:
    """Yield each comparison that is no plain "not regressed", with its numbers."""
    for record in records:
        for found in record.comparisons:
            if found.reason is not None:
                yield f"{record.nodeid}: {comparison_text.outcome_text(found.outcome)}: {found.reason}"
