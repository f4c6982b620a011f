"""From a record, its family's threshold and a gate to how the test ends: fail, skip, warn or pass."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from pytest_gpuperf.analysis import verdict
from pytest_gpuperf.analysis.threshold import settled_near
from pytest_gpuperf.model.comparison import Comparison, GateOptions, Outcome
from pytest_gpuperf.model.demand import Plan
from pytest_gpuperf.model.offload import Threshold
from pytest_gpuperf.model.record import Note, Record

__all__ = ["Ending", "ending", "fails", "gated", "held", "nothing_measured", "unanswered"]

_NO_GATE = GateOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a test ends: with the reason of its failure, else of its skip; and with warnings."""

    failure: str | None
    skip: str | None
    warnings: tuple[str, ...]


def ending(record: Record, threshold: Threshold | None, plan: Plan, gate: GateOptions = _NO_GATE) -> Ending:
    """Return how a test ends; `threshold` is its family's, if it was the last member."""
    failures = [record.reason or record.status] if _record_fails(record, plan) else []
    failures += gated(record.comparisons, gate, plan) if failures else held(record, gate, plan)
    warnings = []
    if record.status == "inconclusive" and not failures and not record.demand.bare and _warns(plan):
        warnings.append(f"{record.nodeid}: {record.reason}")
    if threshold is not None and fails(threshold, plan):
        failures.append(threshold.reason or threshold.status)
    elif (
        threshold is not None and threshold.status == "inconclusive" and _is_asked(threshold) and _warns(plan)
    ):
        warnings.append(f"{threshold.name}: {threshold.reason}")
    if gate.is_gate and not failures and _warns(plan):
        doubts = (each for each in record.comparisons if each.outcome == "cannot_tell")
        warnings += [f"{record.nodeid}: {each.reason}" for each in doubts]
    skip = None
    if record.status == "skipped":
        skip = record.reason or ""
    if record.status == "error":
        skip = f"there is no valid measurement: {record.reason}"
    return Ending(failure="\n".join(failures) or None, skip=skip, warnings=tuple(warnings))


def _invalid(record: Record) -> str | None:
    """Return why what was measured counts for nothing, if so: it failed, or the answers are wrong."""
    if record.parity is not None and record.parity.agreed is False:
        return f"the devices disagree: {record.parity.reason}"
    return record.reason if record.status == "error" else None


def gated(comparisons: Iterable[Comparison], gate: GateOptions, plan: Plan) -> list[str]:
    """Return why a test fails that was compared with a baseline; doubt fails only where all doubt does."""
    if plan.report_only:
        return []
    failing: set[Outcome] = {"regressed"} if gate.tolerances else set()
    failing |= {"improved"} if gate.improvements else set()
    if gate.is_gate:
        failing |= {"not_comparable"} if gate.strict else set()
        failing |= {"cannot_tell"} if plan.inconclusive == "fail" else set()
    return [each.reason or each.outcome for each in comparisons if each.outcome in failing]


def held(record: Record, gate: GateOptions, plan: Plan) -> list[str]:
    """Return why a gate fails a test, whatever its own demand does; a lost measurement is no green one."""
    failures = gated(record.comparisons, gate, plan)
    invalid = _invalid(record) if gate.is_gate and not plan.report_only else None
    if invalid is not None and not failures:
        failures.append(f"the gate has no valid measurement: {invalid}")
    return failures


def fails(threshold: Threshold, plan: Plan) -> bool:
    """Say whether a threshold's verdict fails the test that tells it."""
    if plan.report_only or not _is_asked(threshold) or threshold.status in ("passed", "recorded", "skipped"):
        return False
    if threshold.status == "failed" or plan.inconclusive == "fail":
        return True
    return plan.inconclusive == "warn" and not settled_near(threshold, plan.doubt)


def unanswered(records: Sequence[Record]) -> Iterator[Record]:
    """Yield CPU siblings' records with a note on what became of each GPU sibling that has no speedup."""
    known = {record.nodeid: record for record in records}
    for record in records:
        partner = known.get(record.pairing.partner or "") if record.pairing else None
        if partner is None or record.speedup is not None or partner.cpu is None:
            continue
        text = f"its GPU sibling {record.nodeid} was {record.status}: {record.reason}"
        note = Note(code="gpu_sibling_without_speedup", text=text)
        if record.reason is not None and note not in partner.notes:
            known[partner.nodeid] = replace(partner, notes=(*partner.notes, note))
            yield known[partner.nodeid]


def nothing_measured(records: Sequence[Record], plan: Plan) -> str | None:
    """Return what is wrong with a run that requires a GPU, has demands on siblings, and used none.

    A suite may skip its own GPU tests, each for a good reason; all of them together are a gate that is open.
    """
    asked = [
        record for record in records if record.demand.limits and record.pairing and record.source != "all"
    ]
    if not plan.require_gpu or plan.off or not asked or any(record.gpu for record in records):
        return None
    return (
        f"a GPU is required (--gpuperf-require-gpu), and none of {len(asked)} tests that ask for a speedup "
        "was measured on one"
    )


def _is_asked(threshold: Threshold) -> bool:
    return threshold.at_most is not None or threshold.at_least is not None


def _record_fails(record: Record, plan: Plan) -> bool:
    if record.status in ("passed", "recorded", "skipped") or record.demand.bare or plan.report_only:
        return False
    if record.status != "inconclusive" or plan.inconclusive == "fail":
        return True
    return plan.inconclusive == "warn" and not _is_near(record, plan)


def _warns(plan: Plan) -> bool:
    return plan.inconclusive == "warn" and not plan.report_only


def _is_near(record: Record, plan: Plan) -> bool:
    """Say whether an estimate is as close to its limit as a doubt may be to pass."""
    return record.speedup is not None and verdict.is_near(record.speedup, record.demand, plan.doubt)
