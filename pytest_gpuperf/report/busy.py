"""From tests that other work disturbed to one line: how many, which most, and what leaves them alone."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pytest_gpuperf.analysis import noise
from pytest_gpuperf.model import units
from pytest_gpuperf.model.measurement import DeviceInfo, Interference
from pytest_gpuperf.model.record import Record

# Each was tried: with it the work of the library's CPU is that of one thread. OpenBLAS, MKL and BLIS read
# OpenMP's variable, too. XLA takes no flag for it (`xla_cpu_multi_thread_eigen` changes nothing), and sizes
# its pool by NPROC. A library that is not here has no threads, or nobody has tried.
_ONE_THREAD = {
    **dict.fromkeys(("numpy", "array_api_strict", "torch", "sklearn"), "OMP_NUM_THREADS=1"),
    "jax": "NPROC=1",
    "polars": "POLARS_MAX_THREADS=1",
}


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


def _disturbed(rows: Iterable[tuple[str, Record]]) -> Iterator[_Disturbed]:
    for name, record in rows:
        for side, by in ((record.cpu, record.interference), (record.gpu, record.gpu_interference)):
            if by is not None:
                yield _Disturbed(name, side.device if side and not _may_be_others(record) else None, by)


def _may_be_others(record: Record) -> bool:
    """Return whether NumPy is only what no GPU leaves for a test, which may compute with any library."""
    is_alone = record.gpu is None and record.pairing is None
    return is_alone and record.cpu is not None and record.cpu.device.backend == "numpy"


def _remedy(found: Iterable[_Disturbed], variables: Mapping[str, str]) -> str:
    """Return what to do: fewer threads where several of a library waited, and their number can be limited."""
    limits: dict[str, list[str]] = {}
    for each in found:
        may_be_several = each.by.threads is None or each.by.threads > 1
        for library in _libraries(each.device) if may_be_several else ():
            limits.setdefault(_ONE_THREAD[library], []).append(library)
    for name, value in variables.items():
        limits.pop(f"{name}={value}", None)
    fewer = ", ".join(f"{limit} ({', '.join(dict.fromkeys(of))})" for limit, of in limits.items())
    return "close other work" + (f", or use fewer threads: {fewer}" if fewer else "")


def _libraries(device: DeviceInfo | None) -> list[str]:
    """Return the libraries that work on a device and can be limited: `jax` of Keras on JAX."""
    words = re.findall(r"\w+", f"{device.backend} {device.library}".lower()) if device else []
    return [library for library in _ONE_THREAD if library in words]
