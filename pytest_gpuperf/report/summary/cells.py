"""From a record to the cells that every table has: times, speedup, limits."""

from pytest_gpuperf.analysis.verdict import ratio
from pytest_gpuperf.model import units
from pytest_gpuperf.model.record import Record


def common_cells(record: Record) -> dict[str, str]:
    """Return the cells of a record that every table has, by their headings."""
    return {
        "CPU": format_time(record.cpu.median if record.cpu else None),
        "GPU": format_time(record.gpu.median) if record.gpu else _longest_gpu_call(record),
        "speedup": ratio(record.speedup) if record.speedup else "-",
        "limit": _limit(record),
    }


def _longest_gpu_call(record: Record) -> str:
    """Return how long a call may take on a GPU that was not measured: for the demand, or for the price."""
    limits = record.offload.gpu_limits if record.offload else None
    most = (limits.demand or limits.price) if limits and record.demand.max is None else None
    return f"needs {units.seconds(most)}" if most is not None else "-"


def is_gpu_limit_unknown(record: Record) -> bool:
    """Return whether the CPU's times do not show how long a call may take on a GPU that was not measured."""
    offload = record.offload
    if record.gpu or offload is None or offload.gpu_limits is not None or record.demand.max is not None:
        return False
    return record.demand.min is not None or offload.price is not None


def format_time(seconds: float | None) -> str:
    """Return a time with three digits and its unit: `1.23 ms`; a dash for None."""
    return "-" if seconds is None else units.seconds(seconds)


def _limit(record: Record) -> str:
    """Return the limits as short as a cell: `>=3x always`, `>=0.8 eff.`; a dash where there are none."""
    demand = record.demand
    if record.scaling is not None:
        return f">={record.scaling.required:g} eff." if record.scaling.is_judged else "-"
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
