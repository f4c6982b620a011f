"""Run -> the lines of the terminal's section: devices, table, reasons."""

from collections.abc import Iterable, Mapping, Sequence
from textwrap import wrap

from pytest_gpuperf.model import Record, Run
from pytest_gpuperf.verdict import digits, ratio

__all__ = ["lines", "readable"]

_HEADINGS = ("test", "CPU", "GPU", "speedup", "wanted", "verdict")
_GAP = "  "
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def lines(run: Run, width: int) -> list[str]:
    """Return the section's lines, none of them longer than `width` (at least 80) columns."""
    shown = [record for record in run.records if not _is_deselected(record)]
    if not shown:
        return []
    names = _names(shown)
    return [*_devices(run, width), "", *_table(shown, names, width), *_reasons(shown, names, width)]


def readable(seconds: float | None) -> str:
    """Return a time with three digits and its unit: `1.23 ms`; a dash for None."""
    if seconds is None:
        return "-"
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= 0.9995 * size), _UNITS[-1])
    return f"{digits(seconds / size)} {unit}"


def _is_deselected(record: Record) -> bool:
    return (
        record.status == "skipped" and record.cpu is None and (record.reason or "").startswith("deselected")
    )


def _devices(run: Run, width: int) -> list[str]:
    environment = run.environment
    gpu = environment.gpu
    if gpu is None:
        there = "none"
    elif gpu.emulated:
        there = f"{gpu.name} through {gpu.backend}, emulated: not a GPU's speedup"
    else:
        there = f"{gpu.name} through {gpu.backend}"
    return wrap(f"CPU {environment.cpu['name']} | GPU {there}", width)


def _table(records: Sequence[Record], names: Mapping[str, str], width: int) -> list[str]:
    cells = [_HEADINGS, *((names[record.nodeid], *_row(record)) for record in records)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(_HEADINGS))]
    widths[0] = min(widths[0], width - sum(widths[1:]) - len(_GAP) * (len(widths) - 1))
    return [_line(row, widths) for row in cells]


def _names(records: Sequence[Record]) -> dict[str, str]:
    """Return the tests' names; with their files, or whole node ids, where those would be ambiguous."""
    nodeids = [record.nodeid for record in records]
    for short in (_name, _name_in_file):
        names = {nodeid: short(nodeid) for nodeid in nodeids}
        if len(set(names.values())) == len(names):
            return names
    return {nodeid: nodeid for nodeid in nodeids}


def _name(nodeid: str) -> str:
    """Return the test's own name; colons and slashes in its parameters belong to it."""
    path, bracket, parameters = nodeid.partition("[")
    return path.split("::")[-1] + bracket + parameters


def _name_in_file(nodeid: str) -> str:
    path, bracket, parameters = nodeid.partition("[")
    return path.split("/")[-1] + bracket + parameters


def _row(record: Record) -> tuple[str, ...]:
    return (
        readable(record.cpu.median if record.cpu else None),
        readable(record.gpu.median if record.gpu else None),
        ratio(record.speedup) if record.speedup else "-",
        _wanted(record),
        record.status,
    )


def _wanted(record: Record) -> str:
    least, most = record.demand.min, record.demand.max
    if least is not None and most is not None:
        return f"{least:g}..{most:g}x"
    if least is not None:
        return f">={least:g}x"
    return f"<={most:g}x" if most is not None else "-"


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    name, *others, status = row
    cells = [_shortened(name, widths[0]).ljust(widths[0])]
    cells += [cell.rjust(size) for cell, size in zip(others, widths[1:], strict=False)]
    return _GAP.join([*cells, status])


def _shortened(name: str, width: int) -> str:
    """Return the end of a name, which tells tests apart, where the whole does not fit."""
    return name if len(name) <= width else f"~{name[len(name) - width + 1 :]}"


def _reasons(records: Iterable[Record], names: Mapping[str, str], width: int) -> list[str]:
    """Return why, once for all tests that share a reason."""
    tests: dict[str, list[str]] = {}
    for record in records:
        for reason in (*filter(None, [record.reason]), *record.notes):
            tests.setdefault(reason, []).append(names[record.nodeid])
    found = []
    for reason, (first, *others) in tests.items():
        who = f"{first} and {len(others)} more" if others else first
        found += wrap(f"{who}: {reason}", width, subsequent_indent="  ", break_on_hyphens=False)
    return ["", *found] if found else []
