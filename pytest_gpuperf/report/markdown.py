"""Run -> Markdown for a pull request or a step summary: a headline, a table, reasons, the environment.

The whole fits a comment, which may have 65,536 characters, and a step summary, which may have 1 MiB.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from pytest_gpuperf.analysis.verdict import ratio
from pytest_gpuperf.model.comparison import GateResult
from pytest_gpuperf.model.offload import Threshold
from pytest_gpuperf.model.record import Environment, Record, Run
from pytest_gpuperf.report.comparison_text import before, by_how_much, foremost, outcome_words
from pytest_gpuperf.report.escape import markdown_code, markdown_row, printable
from pytest_gpuperf.report.terminal import (
    bracket,
    readable,
    short_names,
    shortened,
    told_elsewhere,
    wanted,
    why,
)

__all__ = ["text"]

_MOST_ROWS = 50
_NOTED = ("regressed", "improved", "cannot_tell", "not_comparable")
_MOST_REASONS = 15
_MOST_OTHERS = 10  # thresholds, failures and notes of a gate, differences
_MOST_FACTS = 40  # of the environment
_LONGEST_NAME, _LONGEST_FACT = 100, 120
_COUNTED = (
    *("failed", "error", "regressed", "improved", "inconclusive", "cannot_tell", "not_comparable"),
    *("new", "passed", "recorded", "skipped"),
)

_PLURALS = {"error": "errors"}


def text(run: Run) -> str:
    """Return the whole; what does not fit is named, and how much of it there is."""
    shown = (record for record in run.records if not (record.is_deselected and record.cpu is None))
    found = sorted(shown, key=_rank)
    parts = [
        _headline(run, found),
        *_about(run, found),
        "\n".join(_table(found)),
        _left_out(found[_MOST_ROWS:]),
        "\n".join(chain(_reasons(found), _thresholds(run.thresholds))),
        *_gate(run.gate),
        _environment(run.environment),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _rank(record: Record) -> int:
    """Return where a record stands: what went wrong, what is in doubt, what got better, the rest."""
    compared = foremost(record)
    outcome = compared.outcome if compared else None
    if record.status in ("failed", "error") or outcome == "regressed":
        return 0
    if record.status == "inconclusive" or outcome in ("cannot_tell", "not_comparable"):
        return 1
    return 2 if outcome == "improved" else 4 if record.status == "skipped" else 3


def _headline(run: Run, records: Sequence[Record]) -> str:
    """Return one line: what failed and changed, and how many of each."""
    failed = sum(threshold.status == "failed" for threshold in run.thresholds)
    first = ["the gate failed"] if run.gate and run.gate.failures else []
    first += [_number(failed, "threshold failed", "thresholds failed")] if failed else []
    told = ", ".join([*first, *_counts(records)]) or "no test was measured"
    device = " on an emulated device" if any(map(_is_emulated, records)) else ""
    return f"### Speedups{device}: {told}"


def _counts(records: Iterable[Record]) -> list[str]:
    """Return how many tests there are of each kind: `2 failed`.

    A test may be of two; but what a gate noted of it stands for a verdict that is nothing to look at.
    """
    counted: Counter[str] = Counter()
    for record in records:
        outcomes = {each.outcome for each in record.comparisons}
        is_noted = any(each.outcome in _NOTED for each in record.comparisons)
        told = set() if is_noted and record.status in ("passed", "recorded") else {record.status}
        counted.update(told | outcomes)
    words = {code: code.replace("_", " ") for code in _COUNTED if counted[code]}
    return [_number(counted[code], word, _PLURALS.get(code, word)) for code, word in words.items()]


def _number(number: int, one: str, several: str) -> str:
    return f"{number:,} {one if number == 1 else several}"


def _about(run: Run, records: Sequence[Record]) -> Iterator[str]:
    """Yield what the numbers are of, and what they are not."""
    yield _measured(run)
    emulated = sum(map(_is_emulated, records))
    if emulated:
        tests = _number(emulated, "test was", "tests were")
        yield f"**{tests} measured on an emulated device: this is not a GPU's speedup.**"
    if not any(record.speedup for record in records):
        yield "**No speedup was measured.**"
    if not run.complete:
        yield "**The run ended early: this is not all of it.**"
    if run.merged and run.merged.differences:
        yield "\n".join(["The runs that were merged differ:", "", *_listed(run.merged.differences)])


def _is_emulated(record: Record) -> bool:
    return record.gpu is not None and record.gpu.device.emulated


def _measured(run: Run) -> str:
    environment, commit = run.environment, run.commit
    gpu = environment.gpu
    there = f"{_fact(gpu.name)} through {_fact(gpu.backend)}" if gpu else "none"
    parts = [f"CPU {_fact(environment.cpu.get('name'))}", f"GPU {there}"]
    if commit:
        branch = f" of {_fact(commit.branch)}" if commit.branch else ""
        changed = ", with files that differ from it" if commit.changed else ""
        parts.append(f"commit {_fact(commit.id)}{branch}{changed}")
    return ", ".join(parts)


def _fact(value: object) -> str:
    return markdown_code("not known" if value is None else str(value), _LONGEST_FACT)


def _table(records: Sequence[Record]) -> Iterator[str]:
    """Yield the rows of the first records, with the columns that any record needs."""
    if not records:
        return
    names = short_names(records)
    limits = any(record.demand.limits for record in records)
    compared = any(record.comparisons for record in records)
    headings = ["CPU", "GPU", "speedup", *(["wanted"] if limits else [])]
    headings += [*(["baseline", "change"] if compared else []), "verdict"]
    yield markdown_row("test", headings)
    yield markdown_row(":---", [*("---:" for _ in headings[1:]), ":---"])
    for record in records[:_MOST_ROWS]:
        cells = _cells(record)
        yield markdown_row(_name(names[record.nodeid]), [cells[heading] for heading in headings])


def _name(name: str) -> str:
    return markdown_code(shortened(printable(name), _LONGEST_NAME), _LONGEST_NAME)


def _cells(record: Record) -> dict[str, str]:
    compared = foremost(record)
    noted = compared and compared.outcome != "not_regressed"
    return {
        "CPU": readable(record.cpu.median if record.cpu else None),
        "GPU": readable(record.gpu.median if record.gpu else None),
        "speedup": ratio(record.speedup) if record.speedup else "-",
        "wanted": wanted(record),
        "baseline": before(compared) if compared else "-",
        "change": by_how_much(compared) if compared else "-",
        "verdict": f"{record.status}, {outcome_words(compared.outcome)}"
        if compared and noted
        else record.status,
    }


def _left_out(records: Sequence[Record]) -> str:
    if not records:
        return ""
    tests = _number(len(records), "more test is", "more tests are")
    return f"{tests} not in the table, only in the report: {', '.join(_counts(records))}."


def _reasons(records: Sequence[Record]) -> Iterator[str]:
    """Yield why, once for all tests that share a reason."""
    tests: dict[str, dict[str, None]] = {}
    names = short_names(records)
    answered = told_elsewhere(records)
    for record in records:
        for reason in _why(record, answered):
            tests.setdefault(reason, {})[names[record.nodeid]] = None
    for reason, (first, *others) in list(tests.items())[:_MOST_REASONS]:
        who = f"{_name(first)} and {len(others):,} more" if others else _name(first)
        yield f"- {who}: {markdown_code(reason)}"
    if len(tests) > _MOST_REASONS:
        yield f"- {_number(len(tests) - _MOST_REASONS, 'more reason is', 'more reasons are')} in the report"


def _why(record: Record, answered: Collection[str]) -> Iterator[str]:
    """Yield what a reader of the table asks: why a test failed, is in doubt, got worse or was skipped."""
    for comparison in record.comparisons:
        if comparison.reason and comparison.outcome in _NOTED:
            yield comparison.reason
    if record.status in ("failed", "error", "inconclusive"):
        yield from why(record, answered)
    elif record.status == "skipped" and record.reason:
        yield record.reason


def _thresholds(thresholds: Iterable[Threshold]) -> Iterator[str]:
    found = sorted(
        (each for each in thresholds if each.status != "skipped"),
        key=lambda each: ("failed", "inconclusive", "passed", "recorded").index(each.status),
    )
    for threshold in found[:_MOST_OTHERS]:
        reason = f": {threshold.reason}" if threshold.reason else ""
        verdict = markdown_code(f"{bracket(threshold)}, {threshold.status}{reason}")
        yield f"- threshold of {_name(threshold.name)}: {verdict}"
    if len(found) > _MOST_OTHERS:
        more = _number(len(found) - _MOST_OTHERS, "more threshold is", "more thresholds are")
        yield f"- {more} in the report"


def _gate(gate: GateResult | None) -> Iterator[str]:
    """Yield what the run was held against, and what that found for the run as a whole."""
    if gate is None:
        return
    if gate.baseline is None:
        yield "**There is no baseline to compare with.**"
    else:
        limits = ", ".join(f"{each.metric} {each.share * 100:g} %" for each in gate.tolerances)
        asked = f"fails what is worse by more than: {limits}" if limits else "nothing fails for it"
        yield f"Compared with {_fact(gate.baseline)} of {_fact(gate.started)}; {asked}."
    if gate.failures:
        yield "\n".join(["**The gate failed:**", "", *_listed([each.text for each in gate.failures])])
    if gate.notes:
        yield "\n".join(_listed([each.text for each in gate.notes]))


def _listed(texts: Sequence[str]) -> Iterator[str]:
    yield from (f"- {markdown_code(text)}" for text in texts[:_MOST_OTHERS])
    if len(texts) > _MOST_OTHERS:
        yield f"- {len(texts) - _MOST_OTHERS:,} more in the report"


def _environment(environment: Environment) -> str:
    """Return the environment, folded."""
    facts = list(_facts(environment))
    more = [f"{len(facts) - _MOST_FACTS:,} more in the report"] if len(facts) > _MOST_FACTS else []
    table = [f"| {_cell(name)} | {_cell(value)} |" for name, value in facts[:_MOST_FACTS]]
    folded = ["<details>", "<summary>Environment</summary>", "", "| | |", "| :--- | :--- |", *table]
    return "\n".join([*folded, "", *more, "</details>"])


def _cell(value: str) -> str:
    return markdown_code(value, _LONGEST_FACT).replace("|", r"\|")


def _facts(environment: Environment) -> Iterator[tuple[str, str]]:
    """Yield what is known of the environment, name by name."""
    gpu = environment.gpu
    device = {
        "name": gpu and gpu.name,
        "backend": gpu and gpu.backend,
        "library": gpu and gpu.library,
        "driver": gpu and gpu.driver,
        "runtime": gpu and gpu.runtime,
        "missing": environment.gpu_reason,
    }
    pools = {pool.library: f"{pool.threads} threads" for pool in environment.thread_pools}
    groups: dict[str, Mapping[str, object]] = {
        "host": environment.host,
        "CPU": environment.cpu,
        "GPU": device,
    }
    yield "python", environment.python
    for group, values in groups.items():
        yield from ((f"{group} {name}", str(value)) for name, value in values.items() if value is not None)
    for pairs in (environment.packages, pools, environment.variables or {}):
        yield from ((name, str(value)) for name, value in pairs.items())
