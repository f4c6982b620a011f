"""From tests that other work disturbed to one line: how many, which most, and what leaves them alone."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pytest_gpuperf.analysis import noise, threads
from pytest_gpuperf.model import units
from pytest_gpuperf.model.demand import LIBRARY_NOT_KNOWN
from pytest_gpuperf.model.measurement import DeviceInfo, Interference
from pytest_gpuperf.model.record import Record


class _Disturbed(NamedTuple):
    """A test of which other work disturbed one device; None where nobody knows whose library computed."""

    name: str
    device: DeviceInfo | None
    by: Interference


def lines(tests: Sequence[tuple[str, Record]], variables: Mapping[str, str] | None = None) -> Iterator[str]:
    """Yield how many tests other work disturbed, the one that it disturbed most, and a remedy, if it did any.

    `tests` are all of a run, by their names, in any order: each form of a report names the same one. The
    `variables` are those of the environment in which they ran.
    """
    found = [*_disturbed(tests)]
    if found:
        worst = min(found, key=lambda each: (each.by.own_share, -(each.by.waited or 0.0), each.name))
        count = f"{len({each.name for each in found})} of {units.count(len(tests), 'test')}"
        how = f"worst {worst.name}, {noise.in_short(worst.by)}"
        yield f"machine busy: {count}; {how}: {_remedy(found, variables or {})}"


def _disturbed(tests: Sequence[tuple[str, Record]]) -> Iterator[_Disturbed]:
    pairings = [record.pairing for _, record in tests if record.pairing]
    unknown = {each.partner for each in pairings if each.library == LIBRARY_NOT_KNOWN}
    for name, record in tests:
        may_be_others = _may_be_others(record, is_unknown=record.nodeid in unknown)
        for side, by in ((record.cpu, record.interference), (record.gpu, record.gpu_interference)):
            if by is not None:
                yield _Disturbed(name, side.device if side and not may_be_others else None, by)


def _may_be_others(record: Record, *, is_unknown: bool) -> bool:
    """Return whether NumPy is only what no GPU leaves for a test, which may compute with any library.

    So it is of a variant on `cpu` whose partner on `gpu` names no library.
    """
    is_alone = record.gpu is None and (record.pairing is None or is_unknown)
    return is_alone and record.cpu is not None and record.cpu.device.backend == "numpy"


def _remedy(found: Iterable[_Disturbed], variables: Mapping[str, str]) -> str:
    """Return what to do: fewer threads where several of a library waited, and their number can be limited."""
    limits: dict[str, list[str]] = {}
    for each in found:
        may_be_several = each.by.threads is None or each.by.threads > 1
        for library in threads.libraries(each.device) if each.device and may_be_several else ():
            limits.setdefault(f"{threads.LIMITS[library]}=1", []).append(library)
    for name, value in variables.items():
        limits.pop(f"{name}={value}", None)
    fewer = ", ".join(f"{limit} ({', '.join(dict.fromkeys(of))})" for limit, of in limits.items())
    return "close other work" + (f", or use fewer threads: {fewer}" if fewer else "")
