"""From records to what is said of tests below the table: each thing once, under the names of its tests."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from pytest_gpuperf.model import units
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.report.words.verdicts import FAILURES

_SEVERAL_KINDS = (
    *(None, "check_the_test", "work_in_doubt", "not_on_device", "slowed_by_settings", "long_warm_up"),
)
"""Codes whose texts say unlike things, none of which another one stands for."""
_MOST_IN_HEAD = 3  # names of tests before what is said of them
ShownAbove = Mapping[str, str]
"""What pytest has shown of tests above, by their node ids."""
NOTHING_ABOVE: ShownAbove = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Saying:
    """What is said of a test: `code` is the kind of a note or diagnosis, None for what is the test's own."""

    text: str
    code: str | None = None
    only_explains: bool = False
    """Whether it only explains, and asks for nothing."""


class Note(NamedTuple):
    """What is said of some tests: `head` names them."""

    head: str
    texts: Sequence[str]


def explained_by_variant(records: Iterable[Record]) -> frozenset[str]:
    """Return the CPU variants whose GPU variants explain themselves why they have no speedup."""
    pairings = (record.pairing for record in records if record.speedup is None and record.reason)
    return frozenset(pairing.partner for pairing in pairings if pairing and pairing.partner)


def sayings_of(record: Record, explained: Collection[str] = ()) -> Iterator[Saying]:
    """Yield a record's reason and its doubts, and what holds it back where it failed or is not worth it.

    CPU variants in `explained` leave out why a GPU variant has no speedup. What is said of both devices in
    the same words is one saying.
    """
    found: dict[tuple[object, ...], tuple[Saying, list[_Parts]]] = {}
    for saying in _sayings_of(record, explained):
        parts = _parts(saying.text, record)
        kind = (saying.code, saying.only_explains, parts.around)
        found.setdefault(kind, (saying, []))[1].append(parts)
    yield from (replace(saying, text=_joined(parts)) for saying, parts in found.values())


def causes_of(record: Record) -> list[str]:
    """Return why a test failed or regressed, the gravest first; nothing of any other."""
    own = [record.reason] if record.status in ("failed", "error") else []
    regressed = [each.reason for each in record.comparisons if each.outcome == "regressed"]
    return [each for each in (*own, *regressed) if each]


def _sayings_of(record: Record, explained: Collection[str]) -> Iterator[Saying]:
    reasons = (*causes_of(record), record.reason, *(each.reason for each in record.comparisons))
    yield from (Saying(reason) for reason in dict.fromkeys(reasons) if reason)
    offload, has_failed = record.offload, record.verdict in FAILURES
    if offload and not offload.worth:
        yield Saying(offload.reason, "not_worth_it", only_explains=True)
    if offload and (not offload.worth or record.status == "failed"):
        yield from (
            Saying(each.sentence, each.code, only_explains=not has_failed) for each in record.diagnosis
        )
    if record.roof and record.roof.asked and record.roof.reason and record.speedup:
        yield Saying(f"not taken apart: {record.roof.reason}", "no_share", only_explains=True)
    if record.restart_reason is not None:  # the plugin has dealt with it
        text = f"restarted the measurement: {record.restart_reason}"
        yield Saying(text, "restarted", only_explains=True)
    for note in record.notes:
        if not (note.code == "no_partner" and record.nodeid in explained):
            yield Saying(note.text, note.code)


def said(
    records: Sequence[Record], explained: Collection[str], above: ShownAbove
) -> Iterator[tuple[Record, Saying]]:
    """Yield once what is said of each test, if neither pytest nor the test's GPU variant has said it."""
    said = [(record, saying) for record in records for saying in sayings_of(record, explained)]
    told = {(record.pairing.partner, saying.text) for record, saying in said if record.pairing}
    for record, saying in said:
        if (record.nodeid, saying.text) not in told and not _is_above(saying.text, record, above):
            told.add((record.nodeid, saying.text))
            yield record, saying


def _is_above(text: str, record: Record, above: ShownAbove) -> bool:
    """Return whether pytest has shown a text above, or the exception that it is about."""
    shown = above.get(record.nodeid)
    is_of_exception = text == record.reason and record.status == "error"
    return shown is not None and (is_of_exception or text in shown)


def grouped(
    said: Sequence[tuple[Record, Saying]], names: Mapping[str, str], *, all_notes: bool
) -> tuple[list[Note], int]:
    """Return the notes, and how many texts they leave out.

    Texts on the same tests are one note, and so are texts that differ in the device alone. Of a kind of note
    that differs from test to test, one is shown.
    """
    kinds: dict[tuple[object, ...], dict[tuple[str, str], list[tuple[_Parts, str]]]] = {}
    every = set()
    for record, saying in said:
        parts = _parts(saying.text, record)
        every.add((saying.code, parts.around))
        if all_notes or not (saying.only_explains or saying.code == "interference"):
            is_own = all_notes or saying.code in _SEVERAL_KINDS
            kind = (None, parts.around) if is_own else (saying.code,)
            kinds.setdefault(kind, {}).setdefault(parts.around, []).append((parts, names[record.nodeid]))
    notes: dict[tuple[str, ...], list[str]] = {}
    for texts in kinds.values():
        shown, *others = texts.values()
        text = _joined(parts for parts, _ in shown)
        rest = f" ({units.count(len(others), 'note')} of this kind more)" if others else ""
        notes.setdefault(tuple(dict.fromkeys(name for _, name in shown)), []).append(f"{text}{rest}")
    left_out = len(every) - len(kinds)
    return [_note(tests, texts, all_names=all_notes) for tests, texts in notes.items()], left_out


def _note(tests: Sequence[str], texts: Sequence[str], *, all_names: bool) -> Note:
    """Return a note; many names stand below what is said of their tests."""
    if not all_names:
        return Note(units.first_few(tests, most=1), texts)
    if len(tests) <= _MOST_IN_HEAD:
        return Note(", ".join(tests), texts)
    return Note(units.count(len(tests), "test"), [*texts, f"in {', '.join(tests)}"])


class _Parts(NamedTuple):
    """A sentence around the device that it names; it is all `before` where it names none, or several."""

    before: str
    device: str = ""
    after: str = ""

    @property
    def around(self) -> tuple[str, str]:
        """What sentences have in common that differ in the device alone."""
        return self.before, self.after


def _parts(sentence: str, record: Record) -> _Parts:
    """Return the parts of a sentence on a test, which names devices as the record does."""
    # A note has no field for the device that it is about: what many rooms say of it, a report keeps as text.
    # So its own names are looked for, and decide nothing but whether two texts are shown as one.
    names = {side.device.name for side in (record.cpu, record.gpu) if side}
    parts = _devices(frozenset({"the CPU", f"the {record.gpu_noun}", *names})).split(sentence)
    return _Parts(*parts) if len(parts) == 3 else _Parts(sentence)


def _joined(alike: Iterable[_Parts]) -> str:
    """Return one sentence for all that have the same parts around their devices."""
    first, *others = alike
    devices = dict.fromkeys(each.device for each in (first, *others))
    return f"{first.before}{units.listed(devices)}{first.after}"


@cache
def _devices(names: frozenset[str]) -> re.Pattern[str]:
    longest_first = sorted(filter(None, names), key=lambda name: (-len(name), name))
    return re.compile(rf"(?<!\w)({'|'.join(map(re.escape, longest_first))})(?!\w)")
