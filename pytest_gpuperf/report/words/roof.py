"""From a record to its speedup taken apart: that of the devices' roofs, and that of the code on them."""

from collections.abc import Iterable, Iterator

from pytest_gpuperf.model import units
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.report.words.columns import Row

_ALIKE = 0.01  # bytes of both sides differ by less


def lines(rows: Iterable[Row]) -> Iterator[str]:
    """Yield for each test of a table what its speedup is a product of, where the roofs are known."""
    for row in rows:
        if (product := line(row.record)) is not None:
            yield f"{row.name}: {product}"


def line(record: Record) -> str | None:
    """Return the speedup as a product: `90.0x = 12.0x (...) x 7.50x (...)`; None where a roof is not known.

    It is that of calls without copies from and to the host. A roof is what a plain copy of as many bytes
    takes, so the last factor is what CPU code as near to its roof as the GPU's would take back.
    """
    roof, speedup = record.roof, _resident(record)
    of_roofs = roof.of_bandwidths if roof else None
    if roof is None or speedup is None or not (roof.cpu and roof.gpu):
        return None
    if not of_roofs:  # not known, or 0, as in a file that lies
        return None
    noun, of_bytes = record.gpu_noun, roof.of_bytes
    factors = [f"{units.digits(of_roofs)}x (the {noun}'s roof over the CPU's)"]
    if abs(of_bytes - 1) > _ALIKE:
        factors.append(f"{units.digits(of_bytes)}x (the bytes of the CPU's call over the {noun}'s)")
    else:
        of_bytes = 1.0
    on_gpu, on_cpu = (
        f"{units.digits(100 * side.share.value)} %" for side in (roof.gpu, roof.cpu) if side.share
    )
    factors.append(
        f"{units.digits(speedup / of_roofs / of_bytes)}x (the {noun} code is at {on_gpu} of its roof, the "
        f"CPU code at {on_cpu})"
    )
    without = " without copies" if record.demand.transfer != "never" else ""
    return f"{units.digits(speedup)}x{without} = {' x '.join(factors)}"


def _resident(record: Record) -> float | None:
    """Return the speedup of calls without copies from and to the host."""
    if record.demand.transfer == "never":
        return record.speedup.value if record.speedup else None
    return record.offload.never.value if record.offload and record.offload.never else None
