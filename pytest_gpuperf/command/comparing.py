"""`gpuperf compare`: two reports, by the rule and in the words of the gate in pytest."""

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_gpuperf import gate_options, reading, settlement, store
from pytest_gpuperf.baseline import Baseline
from pytest_gpuperf.command.done import FAILED, FINE, INCOMPARABLE, Done
from pytest_gpuperf.gating import Gating, Seen
from pytest_gpuperf.model import GatePlan, GpuPerfError, Plan, Record, Run, Tolerance
from pytest_gpuperf.report import changes, markdown

__all__ = ["add", "tolerances"]

_MOST_ROWS = 50
_EPILOG = """\
example: gpuperf compare baseline.json report.json --fail-on speedup:10% --fail-on memory:5%

A metric regressed when the whole of its new interval lies beyond the baseline's, less the tolerance. Without
--fail-on it is speedup:10%."""


def add(commands: Any) -> None:
    """Add the command."""
    command = commands.add_parser(
        "compare",
        help="compare a report with an earlier one",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("base", type=Path, metavar="BASE", help="the earlier report, or a folder of them")
    command.add_argument("new", type=Path, metavar="NEW")
    command.add_argument(
        "--fail-on", action="append", metavar="METRIC:PERCENT", help="what may not get worse; repeatable"
    )
    command.add_argument("--strict", action="store_true", help="fail what cannot be compared, too")
    command.add_argument("--allow-missing", action="store_true", help="tests of BASE may be missing in NEW")
    command.add_argument(
        "--inconclusive", choices=("warn", "fail", "pass"), default="warn", help="what doubt does"
    )
    command.add_argument("--markdown", type=Path, metavar="PATH", help="write a summary for pull requests")
    command.set_defaults(run=_compare)


def tolerances(given: Sequence[str] | None) -> tuple[Tolerance, ...]:
    """Return what `--fail-on` says; raise ValueError for what it cannot."""
    return tuple(gate_options.tolerance(text) for text in given or ["speedup:10%"])


def _compare(chosen: argparse.Namespace) -> Done:
    plan = Plan(inconclusive=chosen.inconclusive)
    gate = GatePlan(
        baseline=chosen.base,
        tolerances=tolerances(chosen.fail_on),
        strict=chosen.strict,
        allow_missing=chosen.allow_missing,
    )
    bases = [Baseline(Path(each.name).name, each.run) for each in reading.read_all(chosen.base)]
    if not bases:
        raise GpuPerfError(f"{chosen.base} has no report to compare with")
    run = _compared(reading.read(chosen.new), bases, gate, plan)
    if chosen.markdown is not None:
        store.replace(chosen.markdown, markdown.text(run))
    failing = [(record, settlement.gated(record.comparisons, gate, plan)) for record in run.records]
    failures = [f"{record.nodeid}: {reason}" for record, reasons in failing for reason in reasons]
    failures += run.gate.failures if run.gate else ()
    text = "\n".join(_told(run, failures))
    return Done(text=text, code=_code(run, failures))


def _compared(run: Run, bases: Sequence[Baseline], gate: GatePlan, plan: Plan) -> Run:
    """Return a run with how it stands beside its baseline, test by test and as a whole."""
    held = Gating(gate, bases, lambda: run.environment)
    records = {record.nodeid: held.compared(record) for record in run.records}
    for threshold in run.thresholds:
        found = held.threshold(threshold, list(records.values()))
        last = threshold.curve[-1].nodeid if threshold.curve else None
        if found and last in records:
            records[last] = replace(records[last], comparisons=(*records[last].comparisons, *found))
    files = {_file(record.nodeid) for record in run.records}
    seen = Seen(
        expects=lambda nodeid: _file(nodeid) in files, crashed={}, has_gpu=run.environment.gpu is not None
    )
    compared = tuple(records.values())
    return replace(run, records=compared, gate=held.ended(compared, seen, plan))


def _code(run: Run, failures: Sequence[str]) -> int:
    """Return 3 where nothing could be compared, whatever else is said of it: that is no regression."""
    outcomes = {each.outcome for record in run.records for each in record.comparisons}
    if not outcomes - {"not_comparable", "new"}:
        return INCOMPARABLE
    return FAILED if failures else FINE


def _told(run: Run, failures: Sequence[str]) -> Iterator[str]:
    """Yield the changes, the gravest first, the counts, and what fails."""
    found = sorted((record for record in run.records if _is_noted(record)), key=changes.gravity)
    yield from _rows(found[:_MOST_ROWS])
    if len(found) > _MOST_ROWS:
        left = Counter(each.outcome for record in found[_MOST_ROWS:] for each in record.comparisons)
        yield f"and {len(found) - _MOST_ROWS} more: {changes.counts(left)}"
    yield from ("", *changes.gate_lines(run)) if found else changes.gate_lines(run)
    yield from (f"FAILED: {failure}" for failure in failures)


def _is_noted(record: Record) -> bool:
    return any(each.outcome != "not_regressed" for each in record.comparisons)


def _rows(records: Sequence[Record]) -> Iterator[str]:
    """Yield each comparison that is no plain "not regressed", with its numbers."""
    for record in records:
        for found in record.comparisons:
            if found.reason is not None:
                yield f"{record.nodeid}: {changes.outcome_words(found.outcome)}: {found.reason}"


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]
