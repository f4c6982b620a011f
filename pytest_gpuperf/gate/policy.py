"""From a record, its size group's threshold and a gate to how the test ends: fail, skip, warn or pass."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from pytest_gpuperf.gate import text
from pytest_gpuperf.gate.table import Rules
from pytest_gpuperf.model.demand import RunOptions
from pytest_gpuperf.model.offload import Threshold
from pytest_gpuperf.model.record import Note, Record
from pytest_gpuperf.model.units import count


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """How a test ends: with the reason of its failure, else of its skip; and with warnings."""

    failure: str | None
    skip: str | None
    warnings: tuple[str, ...]


def decide(
    record: Record, threshold: Threshold | None, rules: Rules, of_baseline: Sequence[str] = ()
) -> Decision:
    """Return how a test ends; `threshold` is its size group's, if it was the last member.

    `of_baseline` is why it fails for its baseline.
    """
    options = rules.run
    failures = []
    if not record.is_bare and _fails(record.status, options):
        failures.append(record.reason or record.status)
        failures += of_baseline if _why_invalid(record) is None else ()  # which says the same
    else:
        failures += check_failures(record, rules, of_baseline)
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
        skip = record.reason or ""
    elif record.status == "error":
        skip = f"there is no valid measurement: {record.reason}"
    return Decision(failure="\n".join(failures) or None, skip=skip, warnings=tuple(warnings))


def check_failures(record: Record, rules: Rules, of_baseline: Sequence[str]) -> list[str]:
    """Return why a regression check fails a test, whatever its own demand does.

    Without a valid measurement a marked test is not green, in the baseline or not.
    """
    invalid = _why_invalid(record) if record.source != "all" else None
    if rules.enforced and invalid is not None and not record.expected_failure:
        return [text.no_valid_measurement(invalid)]
    return list(of_baseline)


def _why_invalid(record: Record) -> str | None:
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
    if not options.require_gpu or any(record.gpu for record in records):
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
