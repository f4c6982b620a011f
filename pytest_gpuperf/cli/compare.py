"""`gpuperf compare`: two reports in, the changes and an exit code out, by the rules of the gate in pytest."""

import argparse
from collections.abc import Iterator, Sequence
from os.path import realpath
from pathlib import Path
from typing import Any, get_args

from msgspec.structs import replace

from pytest_gpuperf.cli.command import (
    FAILED,
    FINE,
    INCOMPARABLE,
    CommandResult,
    add_command,
    check_replaceable,
    lines_result,
    output_file,
    refuse,
    width,
)
from pytest_gpuperf.gate import policy, text, tolerance
from pytest_gpuperf.gate.baseline import comparable_tests
from pytest_gpuperf.gate.gate import Gate, RunCoverage
from pytest_gpuperf.gate.table import GetCause, Rules
from pytest_gpuperf.model.comparison import METRICS, Allowance, GateOptions, Tolerance
from pytest_gpuperf.model.demand import Fail, RunOptions
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.nodeid import without_number
from pytest_gpuperf.model.record import Report, Run
from pytest_gpuperf.model.units import count
from pytest_gpuperf.report import files, markdown, paths, reader
from pytest_gpuperf.report.summary import gate_lines, outcome_counts
from pytest_gpuperf.report.text import section
from pytest_gpuperf.report.verdicts import severity

_MOST_TESTS = 50
_EPILOG = """\
example: gpuperf compare baseline.json report.json --fail-on speedup:10% --fail-on memory:5%

A metric regressed when it misses the baseline's range, less the tolerance, as a marker's limit. Without
--fail-on it is speedup:10%, and efficiency:10% of scaling tests.

exit codes: 0 nothing regressed, or --fail nothing; 1 something did, or too little was measured; 2 the reports
could not be compared, or an option is wrong; 3 the reports have nothing in common to compare"""


def add(commands: Any) -> None:
    """Add the command."""
    purpose = "compare a report with an earlier one, as pytest does with --gpuperf-baseline"
    command = add_command(commands, "compare", purpose, _compare, _EPILOG)
    command.add_argument("base", type=Path, metavar="BASE", help="the earlier report, or a folder of them")
    command.add_argument("new", type=Path, metavar="NEW", help="the report to compare with it")
    command.add_argument(
        "--fail-on",
        action="append",
        type=_tolerance,
        metavar="METRIC:PERCENT",
        help=f"what must not get worse: {', '.join(METRICS)}; improvement "
        "fails what got better; may be repeated",
    )
    command.add_argument("--strict", action="store_true", help="fail tests that cannot be compared")
    command.add_argument(
        "--allow",
        action="append",
        type=_allowances,
        default=[],
        metavar="no-gpu,missing",
        help="allow that NEW measured nothing because it had no GPU (no-gpu), or that it lacks tests of BASE "
        "(missing); may be repeated",
    )
    refuse(command, "--inconclusive", "--allow-no-gpu", "--allow-missing")
    command.add_argument(
        "--fail",
        choices=get_args(Fail),
        default="sure",
        help="what fails: regressions (sure, default), inconclusive comparisons, too (doubt), or nothing",
    )
    command.add_argument(
        "--markdown", type=output_file, metavar="PATH", help="write a summary for pull requests"
    )
    command.add_argument(
        "--html", type=output_file, metavar="PATH", help="write the comparison as an HTML page"
    )


def _tolerance(text: str) -> Tolerance | str:
    try:
        return tolerance.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _allowances(text: str) -> frozenset[Allowance]:
    try:
        return tolerance.allowances(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _compare(chosen: argparse.Namespace) -> CommandResult:
    gate_options = _gate_options(chosen)
    enforced = chosen.fail != "nothing"
    options = RunOptions(fail=chosen.fail if enforced else "sure")
    inputs = (chosen.base, chosen.new)
    if chosen.markdown is not None:
        check_replaceable(chosen.markdown, paths.MARKDOWN, "markdown", inputs)
    if chosen.html is not None:
        check_replaceable(chosen.html, paths.PAGE, "html", inputs)
    if None not in (chosen.markdown, chosen.html) and realpath(chosen.markdown) == realpath(chosen.html):
        raise GpuPerfError(f"--html: --markdown writes {chosen.html} too; choose another file")
    candidates = _candidates(gate_options, chosen.base)
    new = reader.load_report(chosen.new)
    records = (record for run in (new, *(each.run for each in candidates)) for record in run.records)
    if not (chosen.fail_on or any(record.scaling for record in records)):
        without = (each for each in gate_options.tolerances if each.metric != "efficiency")
        gate_options = replace(gate_options, tolerances=tuple(without))
    gated = new.gate is not None
    gate = Gate(gate_options, candidates, lambda: new.environment, gated=gated)
    run, failures = _with_comparisons(new, gate, options)
    if not run.complete:
        failures.append(f"{chosen.new} is incomplete: its run ended early")
    if run.gate and not enforced:
        run = replace(run, gate=replace(run.gate, failures=()))
    if chosen.markdown is not None:
        files.replace(chosen.markdown, markdown.text(run))
    if chosen.html is not None:
        from pytest_gpuperf.report.html import page

        files.replace(chosen.html, page.text(run))
    found = (f"{'FAILED' if enforced else 'not enforced'}: {failure}" for failure in failures)
    code = _exit_code(run, failures if enforced else (), gate_options)
    absent = text.not_run(run)
    return lines_result([*_changes(run), *([absent] if absent else []), *found], code)


def compared_with(run: Run, base: Path) -> Run:
    """Return a run with its comparisons with an earlier report, which fail nothing."""
    options = GateOptions(baseline=base)
    gated = run.gate is not None
    gate = Gate(options, _candidates(options, base), lambda: run.environment, gated=gated)
    return _with_comparisons(run, gate, RunOptions())[0]


def _gate_options(chosen: argparse.Namespace) -> GateOptions:
    fail_on = chosen.fail_on or GateOptions().compared
    return GateOptions(
        baseline=chosen.base,
        tolerances=tolerance.tolerances_of(fail_on),
        improvements=tolerance.IMPROVEMENT in fail_on,
        strict=chosen.strict,
        allow=frozenset().union(*chosen.allow),
    )


def _candidates(options: GateOptions, path: Path) -> tuple[Report, ...]:
    """Return the baselines with something to compare, newest first; if none has, all of them."""
    reports = reader.load_reports(path)
    if not reports:
        raise GpuPerfError(f"{path} has no report to compare with")
    return tuple(report for report in reports if comparable_tests(report.run, options.compared)) or reports


def _with_comparisons(run: Run, gate: Gate, options: RunOptions) -> tuple[Run, list[str]]:
    """Return a run with its comparisons with the baseline, and why the gate fails its tests, and it."""
    run = replace(run, records=tuple(map(gate.with_comparisons, run.records)))
    failed = _failed(run, gate, options)
    coverage = RunCoverage(cause=_cause_in(run), failed=failed, flag_prefix="--")
    result = gate.finish(run, coverage, options)
    told = [f"{nodeid}: {reason}" for nodeid, reasons in failed.items() for reason in reasons]
    told += [failure.text for failure in (result.failures if result else ())]
    return replace(run, gate=result), told


def _cause_in(run: Run) -> GetCause:
    """Return what says why a run has no result of a test, as far as its own check has said it.

    What was typed excuses no test by itself: it may have left out others.
    """
    known = {without_number(each.name): each.cause for each in (run.gate.absent if run.gate else ())}
    return lambda nodeid, _: known.get(nodeid, "gone")


def _failed(run: Run, gate: Gate, options: RunOptions) -> dict[str, list[str]]:
    """Return why the gate fails each test that it fails."""
    rules = Rules(run=options, gate=gate.options)
    failed = {}
    for record in run.records:
        reasons = gate.failures(record, options)
        failed[record.nodeid] = (
            reasons if record.source == "all" else policy.check_failures(record, rules, reasons)
        )
    return {nodeid: reasons for nodeid, reasons in failed.items() if reasons}


def _exit_code(run: Run, failures: Sequence[str], options: GateOptions) -> int:
    """Return 3 where nothing could be compared, even with failures: none of them is a regression."""
    outcomes = {comparison.outcome for record in run.records for comparison in record.comparisons}
    if not outcomes and not failures and "no-gpu" in options.allow and run.environment.gpu is None:
        return FINE
    if not outcomes - {"not_comparable", "new"}:
        return INCOMPARABLE
    return FAILED if failures else FINE


def _changes(run: Run) -> Iterator[str]:
    """Yield the changes with their numbers, the worst first, and the counts."""
    changed = [record for record in run.records if any(each.reason for each in record.comparisons)]
    changed.sort(key=severity)
    yield from section.changes(changed[:_MOST_TESTS], width())
    if rest := changed[_MOST_TESTS:]:
        yield f"and {count(len(rest), 'more test')}: {outcome_counts(rest)}"
    if changed:
        yield ""
    yield from gate_lines(run)
