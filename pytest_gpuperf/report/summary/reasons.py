"""From records to why their tests ended as they did, their doubts, and what holds them back."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_gpuperf.model.offload import Offload
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.report.summary.cells import is_gpu_limit_unknown
from pytest_gpuperf.report.summary.verdicts import FAILURES, verdict_code


@dataclass(frozen=True, slots=True)
class Saying:
    """What is said of a test: `code` is the kind of a note or diagnosis, None for what is the test's own."""

    text: str
    code: str | None = None
    only_explains: bool = False
    """Whether it only explains, and asks for nothing."""


def shared_reasons(
    records: Sequence[Record], names: Mapping[str, str], reasons: Callable[[Record], Iterable[str]]
) -> dict[str, list[str]]:
    """Return the short names of the tests by reason; `reasons` returns those of one record."""
    tests: dict[str, dict[str, None]] = {}
    for record in records:
        for reason in reasons(record):
            tests.setdefault(reason, {})[names[record.nodeid]] = None
    return {reason: list(shared) for reason, shared in tests.items()}


def explained_by_variant(records: Iterable[Record]) -> frozenset[str]:
    """Return the CPU variants whose GPU variants explain themselves why they have no speedup."""
    pairings = (record.pairing for record in records if record.speedup is None and record.reason)
    return frozenset(pairing.partner for pairing in pairings if pairing and pairing.partner)


def reasons_of(record: Record, explained: Collection[str] = ()) -> Iterator[str]:
    """Yield the texts of all that is said of a record."""
    return (saying.text for saying in sayings_of(record, explained))


def sayings_of(record: Record, explained: Collection[str] = ()) -> Iterator[Saying]:
    """Yield a record's reason and its doubts, and what holds it back where it failed or is not worth it.

    CPU variants in `explained` leave out why a GPU variant has no speedup.
    """
    reasons = [record.reason, *(comparison.reason for comparison in record.comparisons)]
    yield from map(Saying, filter(None, reasons))
    is_explained, has_failed = _is_offload_explained(record), verdict_code(record) in FAILURES
    diagnoses = [
        Saying(each.sentence, each.code, only_explains=not has_failed)
        for each in record.diagnosis
        if is_explained
    ]
    if has_failed:  # what helps comes first: a narrow terminal may show no more
        yield from diagnoses
    if record.restart_reason is not None:  # the plugin has dealt with it
        text = f"restarted the measurement: {record.restart_reason}"
        yield Saying(text, "restarted", only_explains=True)
    for note in record.notes:
        if not (note.code == "gpu_variant_without_speedup" and record.nodeid in explained):
            yield Saying(note.text, note.code)
    if record.offload is not None and is_explained and not _is_worth_it(record.offload):
        yield Saying(record.offload.reason, "not_worth_it", only_explains=record.gpu is not None)
    if not has_failed:
        yield from diagnoses


def _is_offload_explained(record: Record) -> bool:
    """Return whether it is said what holds a record back: it failed, or is not worth it."""
    offload = record.offload
    if offload is None or (_is_worth_it(offload) and record.status != "failed"):
        return False
    bounds = [link.speedup_at_most for link in offload.links]
    no_link_is_fast_enough = bounds and all(bound is not None and bound < 1 for bound in bounds)
    # Without a GPU the table shows how long a call may take on one, if that is known.
    return record.gpu is not None or is_gpu_limit_unknown(record) or bool(no_link_is_fast_enough)


def _is_worth_it(offload: Offload) -> bool:
    """Return whether moving the work to the GPU surely saves time, and costs no more."""
    return offload.worth is True and not (offload.price is not None and offload.price.saves is False)
