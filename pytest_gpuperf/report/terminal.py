"""From a run to the lines of the terminal's section: devices, table, reasons, thresholds, gate."""

from collections.abc import Iterable, Mapping, Sequence
from textwrap import wrap

from pytest_gpuperf.model import units
from pytest_gpuperf.model.record import Record, Run
from pytest_gpuperf.report import comparison_text, summary

_HEADINGS = ("test", "CPU", "GPU", "speedup", "with copies", "limit", "change", "verdict")
_SHORTEST_NAME = 24  # a column that leaves less for a test's name is left out
_GAP = "  "
_MOST_UNMARKED = 20  # rows for tests that only --gpuperf-all measured


def lines(run: Run, width: int) -> list[str]:
    """Return the section's lines, none of them longer than `width` (at least 80) columns."""
    records = summary.shown_records(run)
    gate = _wrapped(comparison_text.gate_lines(run), width)
    if not records:
        return [*_after_gap(_selections(run, ())), *_after_gap(_left_alone(run, width)), *_after_gap(gate)]
    rows = _with_rows(records)
    names = summary.short_names(rows)
    measured = summary.measured_thresholds(run)
    thresholds = (f"threshold of {each.name}: {summary.threshold_sentence(each)}" for each in measured)
    blocks = [
        _table(rows, names, width) if rows else [],
        _reasons(rows, names, width),
        _limits(rows, run.cost_ratio, width),
        _wrapped(thresholds, width),
        _worth(records, run.cost_ratio),
        _waits(records),
        _selections(run, rows),
        _left_alone(run, width),
        _undecided(records),
        gate,
    ]
    return [*_devices(run, width), *(line for block in blocks for line in _after_gap(block))]


def _after_gap(block: list[str]) -> list[str]:
    return ["", *block] if block else []


def _wrapped(texts: Iterable[str], width: int) -> list[str]:
    # Hyphens are parts of node ids and options, which should stay whole to be copied.
    return [
        line for text in texts for line in wrap(text, width, subsequent_indent="  ", break_on_hyphens=False)
    ]


def _with_rows(records: Sequence[Record]) -> list[Record]:
    """Return the records with a marker or pattern, and of all others the slowest that have a speedup."""
    others = [record for record in records if record.source == "all" and record.speedup and record.cpu]
    others.sort(key=lambda record: (record.cpu and record.cpu.median) or 0.0, reverse=True)
    slowest = {record.nodeid for record in others[:_MOST_UNMARKED]}
    return [record for record in records if record.source != "all" or record.nodeid in slowest]


def _selections(run: Run, rows: Sequence[Record]) -> list[str]:
    """Return how many tests were measured without a marker, and how many of them have no row."""
    shown = []
    for selection in run.selections:
        if selection.pattern is not None:
            shown.append(f"gpuperf_speedup {selection.pattern}: {units.count(selection.tests, 'test')}")
            continue
        others = [record for record in run.records if record.source == "all"]
        compared = f"{sum(record.speedup is not None for record in others)} compared with a CPU variant"
        above = sum(record.source == "all" for record in rows)
        rest = f"the slowest {above} are above, all are in the report"
        shown.append(f"--gpuperf-all: {units.count(selection.tests, 'test')}, {compared}; {rest}")
    return shown


def _left_alone(run: Run, width: int) -> list[str]:
    """Return how many marked tests ran as if they had no marker, because no backend knows their device."""
    if not run.unknown_values:
        return []
    tests = units.count(sum(value.tests for value in run.unknown_values), "test")
    values = sorted(f"{value.parameter}={value.value}" for value in run.unknown_values)
    shown = units.first_few(values, most=6)
    text = f"left alone: {tests} on devices that are not known ({shown}); gpuperf_device_values can map them"
    return _wrapped([text], width)


def _devices(run: Run, width: int) -> list[str]:
    environment = run.environment
    gpu = environment.gpu
    shown = f"{gpu.name} through {gpu.backend}" if gpu else "none"
    if gpu and gpu.emulated:
        shown += ", emulated: not a GPU's speedup"
    return wrap(f"CPU {environment.cpu.get('name') or 'unknown'} | GPU {shown}", width)


def _table(records: Sequence[Record], names: Mapping[str, str], width: int) -> list[str]:
    """Return the table; where names would be cut short, the columns that can be spared are left out.

    The limit cannot be spared where it shows what a speedup includes.
    """
    has_copies = any(record.offload is not None and record.offload.always is not None for record in records)
    unused = set() if has_copies else {"with copies"}
    if not any(record.comparisons for record in records):
        unused.add("change")
    headings = [heading for heading in _HEADINGS if heading not in unused]
    plain = all(record.demand.transfer == "never" and not record.demand.latency for record in records)
    for spare in (None, "with copies", "limit") if plain else (None, "with copies"):
        headings = [heading for heading in headings if heading != spare]
        cells = [headings, *(_row(record, names, headings) for record in records)]
        widths = [max(len(row[column]) for row in cells) for column in range(len(headings))]
        room = width - sum(widths[1:]) - len(_GAP) * (len(widths) - 1)
        if room >= min(widths[0], _SHORTEST_NAME):
            break
    # The name is the only column that still identifies its row when it is cut.
    widths[0] = min(widths[0], room)
    return [_line(row, widths) for row in cells]


def _row(record: Record, names: Mapping[str, str], headings: Iterable[str]) -> list[str]:
    always = record.offload.always if record.offload else None
    is_regressed = any(comparison.outcome == "regressed" for comparison in record.comparisons)
    cells = {
        **summary.cells(record),
        **({} if record.gpu else {"GPU": _allowed(record)}),
        "test": names[record.nodeid],
        "with copies": f"{units.digits(always.value)}x" if always else "-",
        "change": comparison_text.short_change(record),
        "verdict": "regressed" if is_regressed else record.status,
    }
    return [cells[heading] for heading in headings]


def _allowed(record: Record) -> str:
    """Return how long a call may take on a GPU that was not measured: for the demand, or for the price."""
    limits = record.offload.gpu_limits if record.offload else None
    most = (limits.demand or limits.price) if limits and record.demand.max is None else None
    return f"<={units.seconds(most)}" if most is not None else "-"


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    name, *others, status = row
    cells = [summary.shorten(name, widths[0]).ljust(widths[0])]
    cells += [cell.rjust(size) for cell, size in zip(others, widths[1:], strict=False)]
    return _GAP.join([*cells, status])


def _reasons(records: Sequence[Record], names: Mapping[str, str], width: int) -> list[str]:
    """Return why, once for all tests that share a reason."""
    explained = summary.explained_by_sibling(records)
    reasons = summary.shared_reasons(records, names, lambda record: summary.reasons_of(record, explained))
    return _wrapped((f"{units.first_few(tests, most=1)}: {text}" for text, tests in reasons.items()), width)


def _limits(records: Iterable[Record], price: float | None, width: int) -> list[str]:
    """Return what the times in the GPU column are that were not measured, where there are any."""
    if all(record.gpu or _allowed(record) == "-" for record in records):
        return []
    aim = (
        "to meet its limit"
        if price is None
        else f"to meet its limit, or to cost less at {price:g} times the price"
    )
    return wrap(f"GPU times after <= were not measured: a call may take as long as that {aim}", width)


def _worth(records: Sequence[Record], price: float | None) -> list[str]:
    """Return how many tests are worth offloading, where more than one was measured on both devices."""
    offloads = [record.offload for record in records if record.offload and record.gpu]
    if len(offloads) < 2:
        return []
    worth = sum(offload.worth is True for offload in offloads)
    saves = sum(offload.price is not None and offload.price.saves is True for offload in offloads)
    costs = "" if price is None else f"; costs less at {price:g} times the price: {saves}"
    return [f"worth it: {worth} of {len(offloads)}{costs}"]


def _undecided(records: Iterable[Record]) -> list[str]:
    """Return how many tests are undecided, where there are any: by default they pass."""
    undecided = [record for record in records if record.status == "inconclusive"]
    return [f"undecided: {units.count(len(undecided), 'test')}"] if undecided else []


def _waits(records: Iterable[Record]) -> list[str]:
    """Return how long the tests waited for the measurement lock, where they did."""
    waited = sum(record.turn_wait or 0.0 for record in records)
    return [f"waited {units.seconds(waited)} in all for other processes that measured"] if waited else []
