"""From a run to what a reader sees of it, in words and in order. Terminal, Markdown and page lay it out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from types import MappingProxyType
from typing import NamedTuple

from msgspec.structs import replace

from pytest_gpuperf.analysis import noise
from pytest_gpuperf.gate import text as gate_text
from pytest_gpuperf.model import units
from pytest_gpuperf.model.comparison import Commit
from pytest_gpuperf.model.nodeid import function_of
from pytest_gpuperf.model.offload import Threshold
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.model.record import Record, Run, VerdictCode
from pytest_gpuperf.model.scaling import ScalingCurve
from pytest_gpuperf.report import repeat
from pytest_gpuperf.report.names import short_names
from pytest_gpuperf.report.summary import (
    Saying,
    common_cells,
    environment_facts,
    explained_by_variant,
    gate_lines,
    gpu_text,
    left_alone_text,
    measured_scalings,
    measured_thresholds,
    sayings_of,
    scaling_heading,
    scaling_lines,
    short_change,
    threshold_sentence,
)
from pytest_gpuperf.report.verdicts import (
    FAILURES,
    GRAVEST_FIRST,
    Count,
    rank,
    rows_of,
    run_counts,
    shown_records,
    verdict,
)

_MOST_UNMARKED = 20  # rows for tests that only --gpuperf-all measured

ShownAbove = Mapping[str, str]
"""What pytest has shown of tests above, by their node ids."""
NOTHING_ABOVE: ShownAbove = MappingProxyType({})


class Row(NamedTuple):
    """One test in the table: its name, its cells by their headings, how it ended, and what is said of it."""

    record: Record
    name: str
    cells: Mapping[str, str]
    code: VerdictCode
    said: Sequence[Saying]


class Note(NamedTuple):
    """What is said of some tests: `head` names them."""

    head: str
    texts: Sequence[str]


class Curve(NamedTuple):
    """How a group of tests scales: what was measured on each number of devices, and what holds it back."""

    curve: ScalingCurve
    head: str
    texts: Sequence[str]


class View(NamedTuple):
    """A run as its reader sees it.

    `headline` has the devices, `cautions` what a reader may not overlook, `notes` what is said of tests;
    `more_notes` is how many texts those leave out, `busy` what other work did to tests, which stands in
    `notes` where these are all. `gate` is about the regression check: what it compared, `gate_failures` why
    it failed, `not_compared` what it lacked. `commands` repeat what failed.
    """

    title: str
    counts: Sequence[Count]
    headline: str
    commit: str | None
    cautions: Sequence[str]
    headings: Sequence[str]
    rows: Sequence[Row]
    notes: Sequence[Note]
    more_notes: int
    busy: Sequence[Note]
    thresholds: Sequence[tuple[Threshold, str]]
    scalings: Sequence[Curve]
    unmarked: Sequence[str]
    gate: Sequence[str]
    gate_failures: Sequence[str]
    not_compared: str | None
    totals: Sequence[str]
    commands: Sequence[str]
    environment: Sequence[tuple[str, str]]


def of(
    run: Run, *, above: ShownAbove = NOTHING_ABOVE, all_notes: bool = False, worst_first: bool = False
) -> View:
    """Return the view of a run. What pytest has shown `above` is not said again.

    Without `all_notes` each kind of note is said once, and what only explains is left out. Rows stand in the
    order of the suite, of tests without a marker only the slowest; with `worst_first` there are all rows, and
    what failed stands first.
    """
    records = shown_records(run)
    listed = sorted(records, key=_place) if worst_first else _with_rows(records)
    rows, names = rows_of(listed), short_names(listed)
    notes, more = _notes(listed, names, above, all_notes=all_notes)
    explained = explained_by_variant(records)
    return View(
        title=_title(records),
        counts=run_counts(run),
        headline=_headline(run, records),
        commit=_commit(run.commit) if run.commit else None,
        cautions=list(_cautions(run)),
        headings=_headings(rows),
        rows=[
            Row(
                record,
                names[record.nodeid],
                _cells(record),
                record.verdict,
                list(sayings_of(record, explained)),
            )
            for record in rows
        ],
        notes=notes,
        more_notes=more,
        busy=[] if all_notes else list(_busy(rows, names)),
        thresholds=thresholds(run, measured_thresholds(run), above),
        scalings=_scalings(run),
        unmarked=_unmarked(run, rows),
        gate=list(gate_lines(run)),
        gate_failures=[failure.text for failure in run.gate.failures] if run.gate else [],
        not_compared=gate_text.not_run(run),
        totals=list(_totals(run, records)),
        commands=list(_commands(run, rows)),
        environment=list(environment_facts(run.environment)),
    )


def failures(run: Run, above: ShownAbove) -> list[Note]:
    """Return why the tests failed that did, without what explains it."""
    records = rows_of(shown_records(run))
    failed = [record for record in records if record.verdict in FAILURES]
    bare = [replace(record, notes=(), offload=None, restart_reason=None) for record in failed]
    return _notes(bare, short_names(records), above, all_notes=True)[0]


def thresholds(run: Run, found: Iterable[Threshold], above: ShownAbove) -> list[tuple[Threshold, str]]:
    """Return each threshold with its sizes, its status, and its reason unless pytest has shown that."""
    said = []
    for each in found:
        is_above = each.reason and any(each.reason in above.get(point.nodeid, "") for point in each.curve)
        gpu = f"the {gpu_of(run, each)}"
        said.append((each, threshold_sentence(replace(each, reason=None) if is_above else each, gpu)))
    return said


def gpu_of(run: Run, threshold: Threshold) -> str:
    """Return what a threshold's sizes were measured on: `GPU`, or `emulated GPU`."""
    sizes = {point.nodeid for point in threshold.curve}
    is_emulated = any(record.is_emulated and record.nodeid in sizes for record in run.records)
    return "emulated GPU" if is_emulated else "GPU"


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


def _place(record: Record) -> tuple[int, float]:
    """Return a record's place: what went wrong first, and of that what is the farthest from its limit."""
    place = rank(record)
    return place, -_excess(record) if place == 0 else 0.0


def _excess(record: Record) -> float:
    """Return how many times a test misses its limit, or its baseline; infinity where that is not known."""
    if record.speedup is None or record.status == "error":
        return inf
    value, least, most = record.speedup.value, record.demand.min, record.demand.max
    misses = [least / value] if least is not None and value else []
    misses += [value / most] if most is not None else []
    ratios = [each.ratio.value for each in record.comparisons if each.outcome == "regressed" and each.ratio]
    misses += [max(ratio, 1 / ratio) if ratio else inf for ratio in ratios]
    return max(misses, default=inf)


def _title(records: Sequence[Record]) -> str:
    """Return what the run is about: whether it has speedups, and whether they are a real GPU's."""
    if records and not any(
        record.speedup or (record.scaling and record.scaling.efficiency) for record in records
    ):
        return "Speedups (none was measured)"
    return "Speedups on an emulated device" if any(each.is_emulated for each in records) else "Speedups"


def _commit(commit: Commit) -> str:
    branch = f" of {commit.branch}" if commit.branch else ""
    changed = ", with files that differ from it" if commit.changed else ""
    return printable(f"commit {commit.id}{branch}{changed}")


def _cautions(run: Run) -> Iterator[str]:
    """Yield what the rows do not show of the run."""
    if not run.complete:
        yield "the run ended early: this is not all of it"
    if left_alone := left_alone_text(run):
        yield left_alone
    if run.merged and run.merged.differences:
        yield f"the runs that were merged differ: {'; '.join(run.merged.differences)}"
    if waited := sum(record.turn_wait or 0.0 for record in run.records):
        yield f"waited {units.seconds(waited)} in all for other processes that measured"


def _scalings(run: Run) -> list[Curve]:
    """Return the curves that were measured, those of tests that failed first."""
    ranks = {record.nodeid: rank(record) for record in run.records}
    curves = sorted(measured_scalings(run), key=lambda curve: ranks.get(curve.points[-1].nodeid, 0))
    return [Curve(each, scaling_heading(each), list(scaling_lines(each))) for each in curves]


def _commands(run: Run, rows: Sequence[Record]) -> Iterator[str]:
    """Yield the commands that repeat the tests that failed or regressed, and those of missed thresholds."""
    missed = {each.curve[-1].nodeid for each in run.thresholds if each.status == "failed" and each.curve}
    return (repeat.command(run, each) for each in rows if rank(each) == 0 or each.nodeid in missed)


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


def _headings(rows: Sequence[Record]) -> list[str]:
    measured = [record.is_emulated for record in rows if record.gpu]
    gpu = "emulated" if measured and all(measured) else "GPU"
    used = {
        "with copies": any(record.offload and record.offload.always for record in rows),
        "change": any(record.comparisons for record in rows),
    }
    headings = ("CPU", gpu, "speedup", "with copies", "limit", "change", "verdict")
    return [heading for heading in headings if used.get(heading, True)]


def _cells(record: Record) -> dict[str, str]:
    always = record.offload.always if record.offload else None
    cells = common_cells(record)
    return {
        **cells,
        "emulated": cells["GPU"],
        "with copies": f"{units.digits(always.value)}x" if always else "-",
        "change": short_change(record),
        "verdict": verdict(record),
    }


def _notes(
    records: Sequence[Record], names: Mapping[str, str], above: ShownAbove, *, all_notes: bool
) -> tuple[list[Note], int]:
    """Return the notes, of the gravest tests first, and how many texts they leave out.

    Texts on the same tests are one note. Of a kind of note that differs from test to test, one is shown.
    """
    in_order = sorted(records, key=lambda record: GRAVEST_FIRST[record.verdict])
    said = list(_said(in_order, above))
    kinds: dict[tuple[str | None, str], dict[str, list[str]]] = {}
    for record, saying in said:
        if all_notes or not (saying.only_explains or saying.code == "interference"):
            kind = (None, saying.text) if all_notes or saying.code is None else (saying.code, "")
            kinds.setdefault(kind, {}).setdefault(saying.text, []).append(names[record.nodeid])
    notes: dict[tuple[str, ...], list[str]] = {}
    left_out = len({(saying.code, saying.text) for _, saying in said}) - len(kinds)
    for texts in kinds.values():
        (text, tests), *others = texts.items()
        rest = f" ({units.count(len(others), 'note')} of this kind more)" if others else ""
        notes.setdefault(tuple(dict.fromkeys(tests)), []).append(f"{text}{rest}")
    shown = [Note(units.first_few(tests, most=1), texts) for tests, texts in notes.items()]
    return shown, left_out


def _said(records: Iterable[Record], above: ShownAbove) -> Iterator[tuple[Record, Saying]]:
    """Yield once what is said of each test, if neither pytest nor the test's GPU variant has said it."""
    records = list(records)
    explained = explained_by_variant(records)
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


def _busy(rows: Sequence[Record], names: Mapping[str, str]) -> Iterator[Note]:
    """Yield how many tests other work disturbed, and the one that it disturbed most, if it did any."""
    pairs = ((each, of) for of in rows for each in (of.interference, of.gpu_interference))
    found = [(each, of) for each, of in pairs if each is not None]
    if not found:
        return
    worst, record = min(found, key=lambda pair: pair[0].own_share)
    count = f"{len({of.nodeid for _, of in found})} of {units.count(len(rows), 'test')}"
    text = f"{count}; worst {names[record.nodeid]}, {noise.in_short(worst)}: close other work"
    yield Note("machine busy", [text])


def _unmarked(run: Run, rows: Sequence[Record]) -> list[str]:
    """Return how many tests were measured without a marker, and how many of them have no row."""
    if run.unmarked is None:
        return []
    if not run.unmarked:
        return ["--gpuperf-all: 0 tests: no unmarked test has variants on the CPU and on a GPU here"]
    others = [record for record in run.records if record.source == "all"]
    compared = f"{sum(record.speedup is not None for record in others)} compared with a CPU variant"
    above = sum(record.source == "all" for record in rows)
    timed = sum(record.speedup is not None and record.cpu is not None for record in others)
    rest = f"; the slowest {above} are above, all are in the report" if above < timed else ""
    return [f"--gpuperf-all: {units.count(run.unmarked, 'test')}, {compared}{rest}"]


def _totals(run: Run, records: Sequence[Record]) -> Iterator[str]:
    """Yield how many of several tests are worth it."""
    faster = f"more than {run.cost_ratio:g} times as fast" if run.cost_ratio else "faster"
    labels = (f"worth it (GPU surely {faster})", f"emulated device {faster}")
    for label, is_emulated in zip(labels, (False, True), strict=True):
        compared = [record for record in records if record.gpu and record.is_emulated == is_emulated]
        offloads = [record.offload for record in compared if record.offload]
        if len(offloads) > 1:
            worth = sum(offload.worth is True for offload in offloads)
            yield f"{label}: {worth} of {len(offloads)}"
