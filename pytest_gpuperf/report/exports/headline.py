"""The number that tools chart of a test: its speedup, or its parallel efficiency."""

from typing import Literal

from pytest_gpuperf.model.measurement import Estimate, Speedup
from pytest_gpuperf.model.record import Record


def headline(record: Record) -> tuple[Literal["speedup", "efficiency"], Estimate | Speedup] | None:
    """Return what the number is, and the number with its range; None for a test without any."""
    if record.speedup is not None:
        return "speedup", record.speedup
    efficiency = record.scaling.efficiency if record.scaling else None
    return None if efficiency is None else ("efficiency", efficiency)
