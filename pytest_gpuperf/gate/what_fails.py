"""What fails: from options to the outcomes that do, and from a record to how its test ends.

| outcome          | the run has                                                    | fails                  |
| ---------------- | -------------------------------------------------------------- | ---------------------- |
| `regressed`      | a value that is surely worse than the tolerance allows         | always                 |
| `improved`       | a value that is surely better by as much                       | with `improvement`     |
| `not_regressed`  | a value within the tolerance                                   | never                  |
| `inconclusive`   | a value that could be either                                   | with fail=doubt        |
| `not_comparable` | a value from other conditions                                  | with strict            |
| `not_measured`   | the test, without this metric                                  | always                 |
| `gone`           | no such test: renamed, moved, unmarked, left out by            | unless allow=missing   |
|                  | configuration; a group without tests                           |                        |
| `skipped`        | a test or a file that skipped itself                           | unless allow=missing,  |
|                  |                                                                | or no-gpu and no GPU   |
| `excused`        | what fails, of a test that xfail expects to fail               | unless allow=missing   |
| `narrowed`       | a test that the command line left out                          | with strict            |
| `ended`          | a test that the session did not reach                          | always                 |

Nothing fails with fail=nothing. What the baseline does not hold is `new`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from pytest_gpuperf.model.comparison import AbsenceCause, GateOptions, Outcome
from pytest_gpuperf.model.demand import RunOptions
from pytest_gpuperf.model.offload import Threshold
from pytest_gpuperf.model.record import Note, Record
from pytest_gpuperf.model.units import count


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the options make of an outcome, in a run that has a GPU or not."""

    run: RunOptions
    gate: GateOptions = field(default_factory=GateOptions)
    has_gpu: bool = True

    def fails(self, outcome: Outcome | AbsenceCause) -> bool:
        """Return whether an outcome fails: that of a comparison its test, that of an absence the run."""
        return self.enforced and self.would_fail(outcome)

    def would_fail(self, outcome: Outcome | AbsenceCause) -> bool:
        """Return whether an outcome fails where anything does."""
        return _FAILS[outcome](self)

    @property
    def enforced(self) -> bool:
        """Whether anything can fail."""
        return self.gate.is_gate and self.run.fail != "nothing"

    @property
    def allows_missing(self) -> bool:
        """Whether tests may be missing."""
        return "missing" in self.gate.allow

    @property
    def allows_skips(self) -> bool:
        """Whether tests may skip themselves."""
        return self.allows_missing or (not self.has_gpu and "no-gpu" in self.gate.allow)


_FAILS: dict[Outcome | AbsenceCause, Callable[[Rules], bool]] = {
    "regressed": lambda _: True,
    "improved": lambda rules: rules.gate.improvements,
    "not_regressed": lambda _: False,
    "inconclusive": lambda rules: rules.run.fail == "doubt",
    "not_comparable": lambda rules: rules.gate.strict,
    "new": lambda _: False,
    "not_measured": lambda _: True,
    "gone": lambda rules: not rules.allows_missing,
    "skipped": lambda rules: not rules.allows_skips,
    "excused": lambda rules: not rules.allows_missing,
    "narrowed": lambda rules: rules.gate.strict and not rules.allows_missing,
    "ended": lambda _: True,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """How a test ends: with the reason of its failure, else of its skip; and with warnings."""

    failure: str | None
    skip: str | None
    warnings: tuple[str, ...]


def decide(
    record: Record, threshold: Threshold | None, rules: Rules, of_gate: Sequence[str] = ()
) -> Decision:
    """Return how a test ends; `threshold` is its size group's, if it was the last member.

    `of_gate` is why its regression check fails it.
    """
    options = rules.run
    failures = []
    if not record.is_bare and _fails(record.status, options):
        failures.append(record.reason or record.status)
        of_gate = of_gate if why_invalid(record) is None else ()  # which says the same
    failures += of_gate
    warns = options.fail == "sure"
    warnings = []
    if warns and record.status == "inconclusive" and not failures and not record.is_bare:
        warnings.append(record.reason or record.status)
    if threshold is not None and threshold_fails(threshold, options):
        failures.append(threshold.reason or threshold.status)
    elif threshold is not None and (doubt := threshold_doubt(threshold, options)) is not None:
        warnings.append(doubt)
    if warns and rules.enforced and not failures:
        doubts = (comparison for comparison in record.comparisons if comparison.outcome == "inconclusive")
        warnings += [comparison.reason or comparison.outcome for comparison in doubts]
    skip = None
    if record.status == "skipped":
        skip = None if record.ran_without_gpu else record.reason or ""
    elif record.status == "error":
        skip = f"there is no valid measurement: {record.reason}"
    return Decision(failure="\n".join(failures) or None, skip=skip, warnings=tuple(warnings))


def why_invalid(record: Record) -> str | None:
    """Return why nothing valid was measured, or None."""
    if record.check is not None and record.check.agreed is False:
        return f"the devices disagree: {record.check.reason}"
    return (record.reason or record.status) if record.status == "error" else None


def threshold_fails(threshold: Threshold, options: RunOptions) -> bool:
    """Return whether a threshold's verdict fails the test that reports it."""
    return _has_limit(threshold) and _fails(threshold.status, options)


def threshold_doubt(threshold: Threshold, options: RunOptions) -> str | None:
    """Return what to warn of where a required threshold is undecided, or None."""
    if options.fail == "sure" and threshold.status == "inconclusive" and _has_limit(threshold):
        return f"{threshold.name}: {threshold.reason}"
    return None


def missing_gpu_notes(records: Sequence[Record]) -> Iterator[Record]:
    """Yield CPU variants' records with a note on what became of each GPU variant that has no speedup."""
    by_nodeid = {record.nodeid: record for record in records}
    for record in records:
        partner = by_nodeid.get(record.pairing.partner or "") if record.pairing else None
        if partner is None or record.speedup is not None or partner.cpu is None:
            continue
        sentence = f"its GPU variant {record.nodeid} was {record.status}: {record.reason}"
        note = Note(code="no_partner", text=sentence)
        if record.reason is not None and note not in partner.notes:
            by_nodeid[partner.nodeid] = replace(partner, notes=(*partner.notes, note))
            yield by_nodeid[partner.nodeid]


def required_gpu_unused(records: Sequence[Record], options: RunOptions) -> str | None:
    """Return what is wrong with a run that requires a GPU, has marked tests, and measured none on a GPU.

    A suite may skip its own GPU tests, each for a good reason; when it skips all of them, nothing is checked.
    """
    if not options.require_gpu or any(record.gpu and not record.is_emulated for record in records):
        return None
    ran = [record for record in records if not (record.is_deselected or record.is_cut_off)]
    marked = [record for record in ran if record.source != "all" and not record.expected_failure]
    if not marked:
        return None
    tests = count(len(marked), "speedup test")
    is_skipped = any(record.status == "skipped" for record in marked)
    why = "pytest -rs shows why tests were skipped" if is_skipped else "the errors above say why"
    return f"a GPU is required (--gpuperf-require-gpu), and none of {tests} was measured on one; {why}"


def _has_limit(threshold: Threshold) -> bool:
    return threshold.at_most is not None or threshold.at_least is not None


def _fails(status: str, options: RunOptions) -> bool:
    """Return whether a verdict fails its test; a doubt only with --gpuperf-fail=doubt."""
    if options.fail == "nothing":
        return False
    return status in ("failed", "error") or (status == "inconclusive" and options.fail == "doubt")
