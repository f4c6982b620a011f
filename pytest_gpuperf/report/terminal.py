"""Run -> the lines of the terminal's section: devices, table, reasons."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from textwrap import wrap

from pytest_gpuperf.analysis.verdict import ratio
from pytest_gpuperf.model import units
from pytest_gpuperf.model.nodeid import function_of, name_of
from pytest_gpuperf.model.offload import Offload, Threshold
from pytest_gpuperf.model.record import Record, Run
from pytest_gpuperf.report import comparison_text

__all__ = [
    "bracket",
    "lines",
    "readable",
    "short_names",
    "shortened",
    "told_elsewhere",
    "wanted",
    "why",
]

_HEADINGS = ("test", "CPU", "GPU", "speedup", "with copies", "wanted", "change", "verdict")
_SHORTEST_NAME = 24  # a column that leaves less for a test's name is left out
_GAP = "  "
_MOST_OTHERS = 20  # rows for tests that nobody asked for one by one


def lines(run: Run, width: int) -> list[str]:
    """Return the section's lines, none of them longer than `width` (at least 80) columns."""
    found = [record for record in run.records if not (record.is_deselected and record.cpu is None)]
    if not found:
        return [*_selections(run, ()), *_gate(run, width)]
    shown = _slowest(found)
    names = short_names(shown)
    table = ["", *_table(shown, names, width)] if shown else []
    below = [*_limits(shown, run.cost_ratio, width), *_thresholds(run.thresholds, width)]
    below += [*_summary(found, run.cost_ratio), *_waits(found), *_selections(run, shown)]
    below += _gate(run, width)
    return [*_devices(run, width), *table, *_reasons(shown, names, width), *below]


def readable(seconds: float | None) -> str:
    """Return a time with three digits and its unit: `1.23 ms`; a dash for None."""
    return "-" if seconds is None else units.seconds(seconds)


def _slowest(records: Sequence[Record]) -> list[Record]:
    """Return the records that were asked for, and of all others the slowest that have a speedup."""
    others = [record for record in records if record.source == "all" and record.speedup and record.cpu]
    others.sort(key=lambda record: (record.cpu and record.cpu.median) or 0.0, reverse=True)
    slowest = {record.nodeid for record in others[:_MOST_OTHERS]}
    return [record for record in records if record.source != "all" or record.nodeid in slowest]


def _selections(run: Run, shown: Sequence[Record]) -> list[str]:
    """Return how many tests were measured without a marker, and what became of those that have no row."""
    found = []
    for selection in run.selections:
        if selection.pattern is not None:
            found.append(f"gpuperf_speedup {selection.pattern}: {selection.tests} tests")
            continue
        others = [record for record in run.records if record.source == "all"]
        compared = sum(record.speedup is not None for record in others)
        rows = sum(record.source == "all" for record in shown)
        found.append(
            f"--gpuperf-all: {selection.tests} tests, {compared} compared with a CPU sibling; the slowest "
            f"{rows} are above, all are in the report"
        )
    return ["", *found] if found else []


def _devices(run: Run, width: int) -> list[str]:
    environment = run.environment
    gpu = environment.gpu
    if gpu is None:
        there = "none"
    elif gpu.emulated:
        there = f"{gpu.name} through {gpu.backend}, emulated: not a GPU's speedup"
    else:
        there = f"{gpu.name} through {gpu.backend}"
    return wrap(f"CPU {environment.cpu.get('name') or 'unknown'} | GPU {there}", width)


def _table(records: Sequence[Record], names: Mapping[str, str], width: int) -> list[str]:
    """Return the table; where names would be cut short, what can be spared is left out.

    What is wanted cannot be spared where it says what a speedup includes.
    """
    unused = {"with copies"} if not _any_copies(records) else set()
    unused |= set() if any(record.comparisons for record in records) else {"change"}
    headings = [heading for heading in _HEADINGS if heading not in unused]
    plain = all(record.demand.transfer == "never" and not record.demand.latency for record in records)
    for spare in (None, "with copies", "wanted") if plain else (None, "with copies"):
        headings = [heading for heading in headings if heading != spare]
        cells = [headings, *(_row(record, names, headings) for record in records)]
        widths = [max(len(row[column]) for row in cells) for column in range(len(headings))]
        room = width - sum(widths[1:]) - len(_GAP) * (len(widths) - 1)
        if room >= min(widths[0], _SHORTEST_NAME):
            break
    widths[0] = min(widths[0], room)
    return [_line(row, widths) for row in cells]


def _any_copies(records: Iterable[Record]) -> bool:
    return any(record.offload is not None and record.offload.always is not None for record in records)


def short_names(records: Sequence[Record]) -> dict[str, str]:
    """Return the tests' names; with their files, or whole node ids, where those would be ambiguous."""
    nodeids = [record.nodeid for record in records]
    for short in (name_of, _name_in_file):
        names = {nodeid: short(nodeid) for nodeid in nodeids}
        if len(set(names.values())) == len(names):
            return names
    return {nodeid: nodeid for nodeid in nodeids}


def _name_in_file(nodeid: str) -> str:
    function = function_of(nodeid)
    return function.rpartition("/")[2] + nodeid[len(function) :]


def _row(record: Record, names: Mapping[str, str], headings: Iterable[str]) -> list[str]:
    cells = {
        "test": names[record.nodeid],
        "CPU": readable(record.cpu.median if record.cpu else None),
        "GPU": readable(record.gpu.median) if record.gpu else _allowed(record),
        "speedup": ratio(record.speedup) if record.speedup else "-",
        "with copies": _with_copies(record),
        "wanted": wanted(record),
        "change": comparison_text.briefly(record),
        "verdict": "regressed" if _is_regressed(record) else record.status,
    }
    return [cells[heading] for heading in headings]


def _is_regressed(record: Record) -> bool:
    return any(found.outcome == "regressed" for found in record.comparisons)


def _allowed(record: Record) -> str:
    """Return what a GPU that was not measured may take: for the demand, or else for the price."""
    limits = record.offload.gpu_limits if record.offload else None
    most = (limits.demand or limits.price) if limits and record.demand.max is None else None
    return f"<={units.seconds(most)}" if most is not None else "-"


def _with_copies(record: Record) -> str:
    """Return the speedup with copies at every call."""
    always = record.offload.always if record.offload else None
    return f"{units.digits(always.value)}x" if always else "-"


def wanted(record: Record) -> str:
    """Return the demand as short as a cell: `>=3x always`; a dash when nothing was demanded."""
    demand = record.demand
    least, most = demand.min, demand.max
    if least is not None and most is not None:
        limits = f"{least:g}..{most:g}x"
    elif least is not None:
        limits = f">={least:g}x"
    elif most is not None:
        limits = f"<={most:g}x"
    else:
        return "-"
    regime = {"never": "", "always": " always", "once": f" once/{demand.calls}"}[demand.transfer]
    return f"{limits}{regime}{' latency' if demand.latency else ''}"


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    name, *others, status = row
    cells = [shortened(name, widths[0]).ljust(widths[0])]
    cells += [cell.rjust(size) for cell, size in zip(others, widths[1:], strict=False)]
    return _GAP.join([*cells, status])


def shortened(name: str, width: int) -> str:
    """Return the end of a name, which tells tests apart, where the whole does not fit."""
    return name if len(name) <= width else f"~{name[len(name) - width + 1 :]}"


def _reasons(records: Sequence[Record], names: Mapping[str, str], width: int) -> list[str]:
    """Return why, once for all tests that share a reason."""
    tests: dict[str, dict[str, None]] = {}
    answered = told_elsewhere(records)
    for record in records:
        for reason in why(record, answered):
            tests.setdefault(reason, {})[names[record.nodeid]] = None
    found = []
    for reason, (first, *others) in tests.items():
        who = f"{first} and {len(others)} more" if others else first
        found += wrap(f"{who}: {reason}", width, subsequent_indent="  ", break_on_hyphens=False)
    return ["", *found] if found else []


def told_elsewhere(records: Iterable[Record]) -> frozenset[str]:
    """Return the CPU siblings of which GPU siblings that have no speedup say so themselves."""
    pairings = (record.pairing for record in records if record.speedup is None and record.reason)
    return frozenset(pairing.partner for pairing in pairings if pairing and pairing.partner)


def why(record: Record, answered: Collection[str] = ()) -> Iterator[str]:
    """Yield a record's reason and its doubts; what holds it back too when it failed or does not pay.

    Of CPU siblings in `answered` it is left out why a GPU sibling has no speedup.
    """
    yield from filter(None, [record.reason, *(each.reason for each in record.comparisons)])
    for note in record.notes:
        if not (note.code == "gpu_sibling_without_speedup" and record.nodeid in answered):
            yield note.text
    offload = record.offload
    if offload is None or (offload.worth and offload.price.saves is not False and record.status != "failed"):
        return
    if record.gpu is None and not _is_hopeless(offload):
        return  # the table says what a GPU may take
    yield offload.reason
    yield from (found.sentence for found in record.diagnosis)


def _is_hopeless(offload: Offload) -> bool:
    """Say whether no link is fast enough for copies at every call."""
    return all(
        link.speedup_at_most is not None and link.speedup_at_most < 1 for link in offload.links
    ) and bool(offload.links)


def _thresholds(thresholds: Iterable[Threshold], width: int) -> list[str]:
    found = []
    for threshold in (each for each in thresholds if each.status != "skipped"):
        reason = f": {threshold.reason}" if threshold.reason else ""
        text = f"threshold of {threshold.name}: {bracket(threshold)}, {threshold.status}{reason}"
        found += wrap(text, width, subsequent_indent="  ", break_on_hyphens=False)
    return ["", *found] if found else []


def _limits(records: Iterable[Record], price: float | None, width: int) -> list[str]:
    """Return what the limits in the table are, where there are any."""
    if price is None or all(record.gpu or _allowed(record) == "-" for record in records):
        return []
    text = f"<=: what a call may take on a GPU for the demand, or to save money at {price:g} times the price"
    return ["", *wrap(text, width)]


def bracket(threshold: Threshold) -> str:
    """Return from which size on the GPU wins, and up to which it does not."""
    name, least, most = threshold.parameter, threshold.largest_not_won, threshold.smallest_won
    if threshold.outcome is None:
        return "not known"
    if most is None:
        if threshold.curve and threshold.curve[-1].won is None:
            return f"it is in doubt whether the GPU wins at the largest {name}, {least:.16g}"
        return f"the GPU does not win at the largest {name}, {least:.16g}"
    below = f"not at {least:.16g}" if least is not None else "the smallest"
    return f"the GPU wins from {name} = {most:.16g} on, {below}"


def _gate(run: Run, width: int) -> list[str]:
    told = [
        part for line in comparison_text.gate_lines(run) for part in wrap(line, width, subsequent_indent="  ")
    ]
    return ["", *told] if told else []


def _summary(records: Sequence[Record], price: float | None) -> list[str]:
    """Return how many tests pay, where more than one was measured on both devices."""
    found = [record.offload for record in records if record.offload and record.gpu]
    if len(found) < 2 or price is None:
        return []
    pay, save = sum(o.worth is True for o in found), sum(o.price.saves is True for o in found)
    return ["", f"worth it: {pay} of {len(found)}; saves money at {price:g} times the price: {save}"]


def _waits(records: Iterable[Record]) -> list[str]:
    """Return how long the tests waited for their turns, where they did."""
    waited = sum(record.turn_wait or 0.0 for record in records)
    return ["", f"waited {units.seconds(waited)} in all for other processes that measured"] if waited else []
