"""From a record to its speedup taken apart: that of the devices' roofs, and that of the code on them."""

from collections.abc import Iterable, Iterator

from pytest_gpuperf.model import units
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.report.words.columns import Row


def lines(rows: Iterable[Row]) -> Iterator[str]:
    """Yield for each test of a table what its speedup is a product of, where the roofs are known."""
    for row in rows:
        if (product := line(row.record)) is not None:
            yield f"{row.name}: {product}"


def line(record: Record) -> str | None:
    """Return the speedup as a product: `90.0x = 12.0x (...) x 7.50x (...)`; None where a roof is not known.

    It is that of calls without copies from and to the host. A roof is what a plain copy of as many bytes
    takes, so the second factor is what better code on the CPU could take back at most.
    """
    roof, speedup = record.roof, _resident(record)
    of_roofs = roof.of_roofs if roof else None
    shares = [side.share for side in (roof.gpu, roof.cpu) if side and side.share] if roof else []
    if speedup is None or not of_roofs or len(shares) < 2:  # 0 where a file lies
        return None
    on_gpu, on_cpu = (f"{units.digits(100 * share.value)} %" for share in shares)
    noun = record.gpu_noun
    return (
        f"{units.digits(speedup)}x = {units.digits(of_roofs)}x (the {noun}'s roof over the CPU's) x "
        f"{units.digits(speedup / of_roofs)}x (the {noun} code is at {on_gpu} of its roof, the CPU code at "
        f"{on_cpu})"
    )


def _resident(record: Record) -> float | None:
    """Return the speedup of calls without copies from and to the host."""
    if record.demand.transfer == "never":
        return record.speedup.value if record.speedup else None
    return record.offload.never.value if record.offload and record.offload.never else None
