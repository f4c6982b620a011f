"""`gpuperf compare`: two reports in, the changes and an exit code out, by the rules of the gate in pytest.

`gpuperf against`, which measures what it compares, has the same options and the same end.
"""

import argparse
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

from msgspec.structs import replace

from pytest_gpuperf.cli import outputs
from pytest_gpuperf.cli.command import (
    FAILED,
    FINE,
    INCOMPARABLE,
    CommandResult,
    add_command,
    check_replaceable,
    lines_result,
    output_file,
    width,
)
from pytest_gpuperf.gate import pairs, text, tolerance
from pytest_gpuperf.gate.baseline import comparable_tests
from pytest_gpuperf.gate.gate import Gate, RunCoverage
from pytest_gpuperf.gate.pairs import Pair
from pytest_gpuperf.model.comparison import GateOptions
from pytest_gpuperf.model.demand import Fail, RunOptions
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.metrics import METRICS
from pytest_gpuperf.model.nodeid import without_number
from pytest_gpuperf.model.record import Report, Run
from pytest_gpuperf.model.units import count
from pytest_gpuperf.report import files, reader
from pytest_gpuperf.report.json import document
from pytest_gpuperf.report.terminal import section
from pytest_gpuperf.report.words.regression_check import gate_lines, outcome_counts
from pytest_gpuperf.report.words.verdicts import GRAVITY

_MOST_TESTS = 50  # with rows: more would move the gravest out of sight
_Parsed = TypeVar("_Parsed")
_EPILOG = """\
example: gpuperf compare baseline.json report.json --fail-on speedup:10% --fail-on memory:5%
         gpuperf compare base/ head/ --fail-on gpu_time:3%

A metric regressed when it misses the baseline's range, less the tolerance, as a marker's limit. Without
--fail-on it is speedup:10%, and efficiency:10% of scaling tests. Of a folder the newest comparable report is
the baseline; of six that began ten minutes apart their range over runs, which must be missed by a quarter of
itself.

Two folders are of processes: as many reports in each, 6 or more, in pairs by their start. What all pairs say
decides; from 12 on without the least and the greatest. Without --fail-on it is gpu_time:5%, cpu_time:5% and
memory:5%.

exit codes: 0 nothing regressed, or --fail nothing; 1 something did, or too little was measured; 2 the reports
could not be compared, or an option is wrong; 3 the reports have nothing in common to compare"""


def add(commands: Any) -> None:
    """Add the command."""
    purpose = "compare two reports, the earlier first, as pytest does with --gpuperf-baseline, or two folders"
    command = add_command(commands, "compare", purpose, _compare, _EPILOG)
    command.add_argument("base", type=Path, metavar="BASE", help="the earlier report, or a folder of them")
    command.add_argument(
        "new", type=Path, metavar="NEW", help="the report to compare with it, or a folder of processes"
    )
    add_rules(command, "NEW", "BASE")


def add_rules(command: ArgumentParser, new: str, base: str) -> None:
    """Add the options that say what fails, and what is written; `new` and `base` are the users' words."""
    command.add_argument(
        "--fail-on",
        action="append",
        type=_argument(tolerance.parse),
        metavar="METRIC:PERCENT",
        help=f"what must not get worse: {', '.join(METRICS)}; improvement "
        "fails what got better; may be repeated",
    )
    command.add_argument("--strict", action="store_true", help="fail tests that cannot be compared")
    command.add_argument(
        "--allow",
        action="append",
        type=_argument(tolerance.allowances),
        default=[],
        metavar="no-gpu,missing",
        help=f"allow that {new} measured nothing because it had no GPU (no-gpu), or that it lacks tests of "
        f"{base} (missing); may be repeated",
    )
    command.add_argument(
        "--fail",
        choices=get_args(Fail),
        default="sure",
        help="what fails: regressions (sure, default), inconclusive comparisons, too (doubt), or nothing",
    )
    command.add_argument(
        "--json", type=output_file, metavar="PATH", help="write the later report with what changed"
    )
    outputs.add(command)


def _argument(parse: Callable[[str], _Parsed]) -> Callable[[str], _Parsed]:
    """Return a parser for argparse, which shows the message of this error as it is."""

    def read(text: str) -> _Parsed:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return read


def _compare(chosen: argparse.Namespace) -> CommandResult:
    options = gate_options(chosen, chosen.base, by_pairs=chosen.new.is_dir())
    check_outputs(chosen, [chosen.base, chosen.new])
    found = _pairs(chosen) if chosen.new.is_dir() else ()
    new = found[0].head.run if found else reader.load_report(chosen.new)
    run, failures = with_comparisons(new, options, RunOptions(fail=chosen.fail), found)
    notes = []
    if run.gate and run.gate.started and run.started < run.gate.started:  # both are UTC
        notes.append(f"{chosen.new} is older than the baseline; the earlier report comes first")
    if not run.complete:
        early = f"{chosen.new} is incomplete: its run ended early"
        (notes if chosen.fail == "nothing" else failures).append(early)
    return ended(chosen, run, failures, notes, options, by_pairs=bool(found))


def check_outputs(chosen: argparse.Namespace, inputs: Sequence[Path] = ()) -> None:
    """Raise GpuPerfError for an output that would replace an input, or a file of another kind."""
    outputs.check(chosen.outputs, inputs)
    if chosen.json is not None:
        check_replaceable(chosen.json, files.REPORT, "a report", inputs)


def ended(
    chosen: argparse.Namespace,
    run: Run,
    failures: Sequence[str],
    notes: Sequence[str],
    options: GateOptions,
    *,
    by_pairs: bool,
) -> CommandResult:
    """Write a run that has been compared; return what changed, why it failed, and the exit code."""
    if chosen.json is not None:
        files.replace(chosen.json, document.text(run))
    written = outputs.write(run, chosen.outputs)
    lines = [*_changes(run)]
    if (absent := text.not_run(run)) is not None:
        lines.append(absent)
    lines += [*notes, *(f"FAILED: {failure}" for failure in failures)]
    lines += written.lines if written.lacks_one else []
    code = _exit_code(run, failures, options, by_pairs=by_pairs)
    return lines_result(lines, code, written.printed)


def compared_with(run: Run, base: Path) -> Run:
    """Return a run with its comparisons with an earlier report, which fail nothing."""
    return with_comparisons(run, GateOptions(baseline=base), RunOptions())[0]


def gate_options(chosen: argparse.Namespace, base: Path | None, *, by_pairs: bool) -> GateOptions:
    """Return the rules of the comparison with a base, if that is a path."""
    fail_on = chosen.fail_on or (pairs.DEFAULT if by_pairs else GateOptions().compared)
    return GateOptions(
        baseline=base,
        tolerances=tolerance.tolerances_of(fail_on, of_pairs=by_pairs),
        improvements=tolerance.IMPROVEMENT in fail_on,
        strict=chosen.strict,
        allow=frozenset().union(*chosen.allow),
    )


def _pairs(chosen: argparse.Namespace) -> Sequence[Pair]:
    """Return pairs of the reports in two folders: those that were started first are the first pair."""
    base, head = (reader.load_reports(path)[::-1] for path in (chosen.base, chosen.new))
    # The first stands for all of them.
    return pairs.pairs_of([replace(each, name=str(chosen.base)) for each in base[:1]] + [*base[1:]], head)


def with_comparisons(
    run: Run, gate_options: GateOptions, options: RunOptions, of_processes: Sequence[Pair] = ()
) -> tuple[Run, list[str]]:
    """Return a run with its comparisons with the baseline, and why the gate fails its tests, and it.

    What was typed excuses no absent test by itself, as it may have left out others: the run's own check does.
    """
    candidates = [of_processes[0].base] if of_processes else _candidates(gate_options)
    gate = Gate(gate_options, candidates, lambda: run.environment, of_processes)
    compared = replace(run, records=tuple(map(gate.with_comparisons, run.records)))
    failed = {record.nodeid: gate.failures(record, options) for record in compared.records}
    failed = {nodeid: reasons for nodeid, reasons in failed.items() if reasons}
    causes = {without_number(each.name): each.cause for each in (run.gate.absent if run.gate else ())}
    coverage = RunCoverage(
        cause=lambda nodeid, _: causes.get(nodeid, "gone"), failed=failed, flag_prefix="--"
    )
    result = gate.finish(compared, coverage, options)
    told = [f"{nodeid}: {reason}" for nodeid, reasons in failed.items() for reason in reasons]
    told += [failure.text for failure in (result.failures if result else ())]
    return replace(compared, gate=result), told


def _candidates(options: GateOptions) -> tuple[Report, ...]:
    """Return the baselines with something to compare, newest first; if none has, all of them."""
    assert options.baseline is not None, "it is an argument of the command"  # noqa: S101 - for mypy
    reports = reader.load_reports(options.baseline)
    if not reports:
        raise GpuPerfError(f"{options.baseline} has no report to compare with")
    return tuple(report for report in reports if comparable_tests(report.run, options.compared)) or reports


def _exit_code(run: Run, failures: Sequence[str], options: GateOptions, *, by_pairs: bool) -> int:
    """Return 3 where nothing could be compared, even with failures: none of them is a regression."""
    is_compared = any(record.comparisons for record in run.records)
    if not is_compared and not failures and "no-gpu" in options.allow and run.environment.gpu is None:
        return FINE
    if not has_common(run) and not (by_pairs and failures and run.gate and run.gate.baseline_tests):
        return INCOMPARABLE  # but what base's processes measure, and head's do not, is lost
    return FAILED if failures else FINE


def has_common(run: Run) -> bool:
    """Return whether a run has anything in common with what it was compared with."""
    outcomes = {comparison.outcome for record in run.records for comparison in record.comparisons}
    return bool(outcomes - {"not_comparable", "new"})


def _changes(run: Run) -> Iterator[str]:
    """Yield the changes with their numbers, the worst first, and the counts."""
    changed = [record for record in run.records if any(each.reason for each in record.comparisons)]
    changed.sort(key=lambda record: min(GRAVITY[each.outcome] for each in record.comparisons))
    yield from section.changes(changed[:_MOST_TESTS], width())
    if rest := changed[_MOST_TESTS:]:
        yield f"and {count(len(rest), 'more test')}: {outcome_counts(rest)}"
    if changed:
        yield ""
    yield from gate_lines(run)
