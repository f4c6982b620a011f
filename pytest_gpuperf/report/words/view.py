"""From a run to what a reader sees of it, in words and in order. Terminal, Markdown and page lay it out."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from msgspec.structs import replace

from pytest_gpuperf.gate import text as gate_text
from pytest_gpuperf.gate.metrics import decided
from pytest_gpuperf.model import units
from pytest_gpuperf.model.comparison import Commit
from pytest_gpuperf.model.nodeid import function_of
from pytest_gpuperf.model.offload import Threshold
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.model.record import Record, Run
from pytest_gpuperf.model.scaling import ScalingCurve
from pytest_gpuperf.report.words import alike, machine_busy
from pytest_gpuperf.report.words.names import short_names
from pytest_gpuperf.report.words.verdicts import FAILURES, Counts, place, rows_of, run_counts, shown_records
from pytest_gpuperf.report.words.wording import (
    Explanation,
    Saying,
    cells_of,
    explained_by_variant,
    explanations,
    gate_lines,
    gpu_text,
    left_alone,
    sayings_of,
    threshold_sentence,
)

_SEVERAL_KINDS = (
    *(None, "check_the_test", "work_in_doubt", "not_on_device", "slowed_by_settings", "long_warm_up"),
)
"""Codes whose texts say unlike things, none of which another one stands for."""
_DIGITS = 12  # of a commit's id: as many tell the commits of large repositories apart
_MOST_IN_HEAD = 3  # names of tests before what is said of them
_MOST_UNMARKED = 20  # rows for tests that only --gpuperf-all measured

ShownAbove = Mapping[str, str]
"""What pytest has shown of tests above, by their node ids."""
NOTHING_ABOVE: ShownAbove = MappingProxyType({})


class Row(NamedTuple):
    """One test in the table: its name, its cells by their headings, and what is said of it."""

    record: Record
    name: str
    cells: Mapping[str, str]
    said: Sequence[Saying]


class Note(NamedTuple):
    """What is said of some tests: `head` names them."""

    head: str
    texts: Sequence[str]


class Sizes(NamedTuple):
    """A threshold, its sentence, and what its sizes were measured on: `GPU`, or `emulated device`."""

    threshold: Threshold
    said: str
    gpu: str


class View(NamedTuple):
    """A run as its reader sees it.

    `headline` has the devices, `cautions` what a reader may not overlook, `explanations` what
    cells of some rows mean, `notes` what is said of tests;
    `more_notes` is how many texts those leave out, `busy` what other work did to tests. `gate` is about the
    regression check: what it compared, `gate_failures` why it failed, `not_compared` what it lacked.
    """

    title: str
    counts: Counts
    headline: str
    commit: str | None
    cautions: Sequence[str]
    headings: Sequence[str]
    rows: Sequence[Row]
    explanations: Sequence[Explanation]
    notes: Sequence[Note]
    more_notes: int
    busy: Sequence[str]
    thresholds: Sequence[Sizes]
    scalings: Sequence[ScalingCurve]
    gate: Sequence[str]
    gate_failures: Sequence[str]
    not_compared: str | None
    totals: Sequence[str]


def of(
    run: Run,
    *,
    above: ShownAbove = NOTHING_ABOVE,
    all_notes: bool = False,
    only_failures: bool = False,
    worst_first: bool = False,
) -> View:
    """Return the view of a run. What pytest has shown `above` is not said again.

    Without `all_notes` each kind of note is said once, and what only explains is left out; with
    `only_failures` notes say only why tests failed, and totals how many would fail. Rows keep the order of
    the suite. Of tests without a marker they show the slowest, and the notes give the first error. With
    `worst_first` there are all rows, failed ones first.
    """
    records = shown_records(run)
    by_place = sorted(records, key=place)
    listed = by_place if worst_first else _with_rows(records)
    told = {each.nodeid for each in (*listed, *_unmarked_error(records, above))}
    with_rows, names, explained = rows_of(listed), short_names(records), explained_by_variant(records)
    disturbed = [(names[record.nodeid], record) for record in rows_of(records)]
    rows = [
        Row(record, names[record.nodeid], cells_of(record), list(sayings_of(record, explained)))
        for record in with_rows
    ]
    said = list(_said([each for each in by_place if each.nodeid in told], explained, above))
    if only_failures:
        said = [(record, each) for record, each in said if record.verdict in FAILURES and each.code is None]
    counted = [record for each in _counted_together(records) for record in each]
    unclear = {each.nodeid for each in counted if each.offload and each.offload.worth is None}
    said = [each for each in said if not (each[0].nodeid in unclear and each[1].code == "not_worth_it")]
    notes, more = _notes(said, names, all_notes=all_notes)
    return View(
        title=_title(records),
        counts=run_counts(run),
        headline=_headline(run, records),
        commit=_commit(run.commit) if run.commit else None,
        cautions=list(_cautions(run, all_names=all_notes)),
        headings=_headings(rows),
        rows=rows,
        explanations=list(explanations([(row.name, row.record) for row in rows], all_names=all_notes)),
        notes=notes,
        more_notes=more,
        busy=list(machine_busy.lines(disturbed, run.environment.variables)),
        thresholds=list(_thresholds(run, above)),
        scalings=_scalings(run),
        gate=list(gate_lines(run, all_names=all_notes)),
        gate_failures=[failure.text for failure in run.gate.failures] if run.gate else [],
        not_compared=gate_text.not_run(run),
        totals=[
            *_would_fail(with_rows),
            *_not_compared(with_rows),
            *(
                []
                if only_failures
                else [*_unmarked(run, with_rows), *_totals(run, records, names if all_notes else {})]
            ),
        ],
    )


def _thresholds(run: Run, above: ShownAbove) -> Iterator[Sizes]:
    """Yield each threshold that was measured, without a reason that pytest has shown."""
    nouns = {record.nodeid: record.gpu_noun for record in run.records if record.gpu}
    for each in run.thresholds:
        if each.status != "skipped":
            tests = {point.nodeid for point in each.curve}
            gpu = next((nouns[nodeid] for nodeid in tests if nodeid in nouns), "GPU")
            is_above = each.reason and any(each.reason in above.get(nodeid, "") for nodeid in tests)
            shown = replace(each, reason=None) if is_above else each
            yield Sizes(each, threshold_sentence(shown, f"the {gpu}"), gpu)


def _with_rows(records: Sequence[Record]) -> list[Record]:
    """Return the records with a marker, and of all others the slowest that have a speedup.

    Those of one function stand together.
    """
    others = [record for record in records if record.source == "all" and record.speedup and record.cpu]
    others.sort(key=lambda record: (record.cpu and record.cpu.median) or 0.0, reverse=True)
    slowest = {record.nodeid for record in others[:_MOST_UNMARKED]}
    listed = [record for record in records if record.source != "all" or record.nodeid in slowest]
    # Workers finish the tests of one function among those of others.
    places: dict[str, int] = {}
    for record in listed:
        places.setdefault(function_of(record.nodeid), len(places))
    return sorted(listed, key=lambda record: places[function_of(record.nodeid)])


def _unmarked_error(records: Sequence[Record], above: ShownAbove) -> Iterator[Record]:
    """Yield the first test without a marker, if any, that passed and whose further calls did not."""
    errors = (each for each in records if each.source == "all" and each.verdict == "error")
    yield from [each for each in errors if each.nodeid not in above][:1]


def _title(records: Sequence[Record]) -> str:
    """Return what the run is about: whether it has speedups, and whether they are a real GPU's."""
    if records and not any(map(decided, records)):
        return "Speedups (none was measured)"
    return "Speedups on an emulated device" if any(each.is_emulated for each in records) else "Speedups"


def _commit(commit: Commit) -> str:
    branch = f" of {commit.branch}" if commit.branch else ""
    changed = ", with files that differ from it" if commit.changed else ""
    return printable(f"commit {commit.id[:_DIGITS]}{branch}{changed}")


def _cautions(run: Run, *, all_names: bool) -> Iterator[str]:
    """Yield what the rows do not show of the run."""
    if not run.complete:
        yield "the run ended early: this is not all of it"
    if run.unknown_values:  # their tests ran as if they had no marker
        yield left_alone(run.unknown_values, all_names=all_names)
    if waited := sum(record.turn_wait or 0.0 for record in run.records):
        yield f"waited {units.seconds(waited)} in all for other processes that measured"


def _scalings(run: Run) -> list[ScalingCurve]:
    """Return the curves that were measured, those of tests that failed first."""
    places = {record.nodeid: place(record) for record in run.records}
    measured = [curve for curve in run.scalings if any(point.time is not None for point in curve.points)]
    return sorted(measured, key=lambda curve: places.get(curve.points[-1].nodeid, (0, 0.0)))


def _headline(run: Run, records: Sequence[Record]) -> str:
    gpu, found = gpu_text(run.environment), run.environment.gpu
    cpus = [record.cpu.device for record in records if record.cpu]
    if cpus and all(cpu.emulated for cpu in cpus):
        return printable(f"simulated CPU | {gpu}: synthetic times")
    others = {record.gpu.device.name for record in records if record.gpu and record.is_emulated}
    if found and found.emulated:
        gpu = f"emulated: {gpu}, not a GPU"
    else:
        gpu = "; ".join([f"GPU {gpu}", *(f"emulated: {name}, not a GPU" for name in sorted(others))])
    return printable(f"CPU {run.environment.cpu.get('name') or 'unknown'} | {gpu}")


def _headings(rows: Sequence[Row]) -> list[str]:
    """Return the headings of the columns that any row has something in."""
    measured = [row.record.is_emulated for row in rows if row.record.gpu]
    gpu = "emulated" if measured and all(measured) else "GPU"
    headings = ("CPU", gpu, "speedup", "with copies", "limit", "change")
    return [*(each for each in headings if any(row.cells[each] != "-" for row in rows)), "verdict"]


def _notes(
    said: Sequence[tuple[Record, Saying]], names: Mapping[str, str], *, all_notes: bool
) -> tuple[list[Note], int]:
    """Return the notes, and how many texts they leave out.

    Texts on the same tests are one note, and so are texts that differ in the device alone. Of a kind of note
    that differs from test to test, one is shown.
    """
    kinds: dict[tuple[object, ...], dict[tuple[str, str], list[tuple[alike.Parts, str]]]] = {}
    every = set()
    for record, saying in said:
        parts = alike.parts(saying.text, record)
        every.add((saying.code, parts.around))
        if all_notes or not (saying.only_explains or saying.code == "interference"):
            is_own = all_notes or saying.code in _SEVERAL_KINDS
            kind = (None, parts.around) if is_own else (saying.code,)
            kinds.setdefault(kind, {}).setdefault(parts.around, []).append((parts, names[record.nodeid]))
    notes: dict[tuple[str, ...], list[str]] = {}
    for texts in kinds.values():
        shown, *others = texts.values()
        text = alike.joined(parts for parts, _ in shown)
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


def _said(
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


def _unmarked(run: Run, rows: Sequence[Record]) -> Iterator[str]:
    """Yield how many tests were measured without a marker, and how many of them have no row."""
    others = [record for record in run.records if record.source == "all"]
    if run.unmarked == 0:
        yield (
            "--gpuperf-all: 0 tests: no unmarked test has variants on the CPU and on a GPU here; "
            "choose one with --gpuperf-gpu, or name parameters that choose a device in gpuperf_device_params"
        )
    elif run.unmarked is not None:
        compared = sum(record.speedup is not None for record in others)
        above = sum(record.source == "all" for record in rows)
        rest = f"; the slowest {above} are above, all are in the report" if above < compared else ""
        rest += f": {run.environment.gpu_reason}" if not compared and run.environment.gpu_reason else ""
        tests = units.count(run.unmarked, "test")
        yield f"--gpuperf-all: {tests}, {compared} compared with a CPU variant{rest}"


def _would_fail(rows: Sequence[Record]) -> Iterator[str]:
    """Yield how many of the skipped tests would be errors on a GPU, if any, and of how many nothing is known.

    More may be than are known: some mistakes show only with the test's own library, or on a GPU.
    """
    skipped = [record for record in rows if record.status == "skipped"]
    tests, unseen = units.count(len(skipped), "skipped test"), sum(map(_is_unseen, skipped))
    if wrong := sum(record.reason_code == "error_on_gpu" for record in skipped):
        more = f"; {units.count(unseen, 'other')} {_not_looked_at(unseen)}" if unseen else ""
        yield f"at least {wrong} of {tests} would be {'an error' if wrong == 1 else 'errors'} on a GPU{more}"
    elif unseen:
        yield f"{unseen} of {tests} {_not_looked_at(unseen)}"


def _not_compared(rows: Sequence[Record]) -> Iterator[str]:
    """Yield of how many tests no result was compared, though none asked for that: they return nothing.

    Such a test is green whatever the GPU computes, unless it asserts it.
    """
    compared = [
        record.check
        for record in rows
        if record.speedup is not None and record.check is not None and record.demand.check
    ]
    # A result whose values could not be compared has an error of 0; a result without values has no error.
    without = sum(check.agreed is None and check.error is None for check in compared)
    if without:
        tests, returns = units.count(len(compared), "test"), "it returns" if without == 1 else "they return"
        yield (
            f"{without} of {tests} compared no results, as {returns} none: return what is computed, or pass "
            "check=False"
        )


def _not_looked_at(count: int) -> str:
    was, use = ("was", "it uses") if count == 1 else ("were", "they use")
    return f"{was} not looked at: {use} a library that gpuperf_gpu in the ini file does not name"


def _is_unseen(record: Record) -> bool:
    """Return whether a test computes with a library that this run does not follow, not even on its CPU.

    A GPU variant is looked at in its CPU variant, and a test of several GPUs has nothing to look at.
    """
    if record.scaling is not None or (record.pairing is not None and record.pairing.kind == "gpu"):
        return False
    return record.reason_code == "no_gpu" and record.cpu is None


def _counted_together(records: Sequence[Record]) -> Iterator[list[Record]]:
    """Yield the records of GPUs, and those of emulated devices, where the totals count several."""
    for is_emulated in (False, True):
        compared = [each for each in records if each.gpu and each.offload and each.is_emulated == is_emulated]
        if len(compared) > 1:
            yield compared


def _totals(run: Run, records: Sequence[Record], names: Mapping[str, str]) -> Iterator[str]:
    """Yield how many of several tests are worth it; with `names`, which of them are unclear."""
    faster = f"more than {run.cost_ratio:g} times as fast" if run.cost_ratio else "faster"
    for compared in _counted_together(records):
        emulated = compared[0].is_emulated
        label = f"emulated device surely {faster}" if emulated else f"worth it (GPU surely {faster})"
        worth = [each.nodeid for each in compared if each.offload and each.offload.worth]
        unclear = [each.nodeid for each in compared if each.offload and each.offload.worth is None]
        doubt = f", {len(unclear)} unclear" if unclear else ""
        if names and 0 < len(unclear) < len(compared):
            doubt += f" ({', '.join(names[nodeid] for nodeid in unclear)})"
        yield f"{label}: {len(worth)} of {units.count(len(compared), 'test')}{doubt}"
