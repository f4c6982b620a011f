"""From a record to a metric with its interval, and to why it decides less than that says."""

from dataclasses import dataclass, replace
from math import inf

from pytest_gpuperf.analysis import noise
from pytest_gpuperf.analysis.estimation import estimate
from pytest_gpuperf.model.comparison import Metric
from pytest_gpuperf.model.demand import Plan
from pytest_gpuperf.model.measurement import Estimate, Interference, Measurement, Speedup
from pytest_gpuperf.model.record import Record

__all__ = ["MetricValue", "found", "has", "value"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricValue:
    """A metric of a record, why it decides nothing by itself, and what its interval is the wider for."""

    estimate: Estimate
    doubt: str | None = None
    widened: str | None = None


def has(record: Record, metric: Metric) -> bool:
    """Say whether a record has a metric, without the work of making its interval."""
    if metric in ("cpu", "gpu"):
        return _counts(record, metric) and _is_timed(record.cpu if metric == "cpu" else record.gpu)
    return value(record, metric) is not None


def value(record: Record, metric: Metric) -> Estimate | None:
    """Return a metric with its interval, in seconds, bytes or as a ratio; None where a record has none."""
    if not _counts(record, metric):
        return None
    if metric in ("cpu", "gpu"):
        return _time(record.cpu if metric == "cpu" else record.gpu, record.alpha)
    if metric == "memory":
        peak = record.memory.peak if record.memory else None
        return None if peak is None else Estimate(value=peak, low=peak, high=peak)
    ratio: Speedup | None = record.speedup if metric == "speedup" else getattr(record.offload, metric, None)
    return Estimate(value=ratio.value, low=ratio.low, high=ratio.high) if ratio else None


def found(record: Record, metric: Metric) -> MetricValue | None:
    """Return a metric, its interval as wide as what disturbed the measurement leaves it."""
    known = value(record, metric)
    if known is None or metric == "memory":
        return MetricValue(estimate=known) if known else None
    interference = None if metric == "gpu" else _interference(record)
    rounds = record.speedup.rounds if record.speedup else 0
    slowed = None
    if metric != "cpu":
        slowed = noise.throttled(record.dropped_rounds, record.dropped_rounds + rounds)
    if interference is None:
        return MetricValue(estimate=known, doubt=slowed)
    own = interference.own_share
    known = replace(known, low=known.low * own if known.low is not None and own > 0 else None)
    return MetricValue(estimate=known, doubt=slowed, widened=noise.sentence(interference))


def _counts(record: Record, metric: Metric) -> bool:
    """Say whether what was measured is of the work that was asked for."""
    if record.status == "error" or (record.parity is not None and record.parity.agreed is False):
        return False
    return record.status != "skipped" or metric == "cpu"


def _interference(record: Record) -> Interference | None:
    """Return what took a share of the CPU's time from the workload, if anything did.

    The fastest of all blocks, which tells more than that of the samples, was known while they were taken.
    """
    measured = record.cpu
    if measured is None or not measured.samples:
        return None
    seen = noise.find(
        measured.samples,
        block_calls=measured.block_calls,
        waited=measured.waited or 0.0,
        fastest=min(measured.samples),
    )
    return noise.worst(seen, record.interference)


def _time(measured: Measurement | None, alpha: float) -> Estimate | None:
    if measured is None or not _is_timed(measured):
        return None
    time = estimate(measured.samples, Plan(alpha=alpha), "siblings")
    return Estimate(value=time.value, low=time.low, high=time.high) if time else None


def _is_timed(measured: Measurement | None) -> bool:
    if measured is None or not measured.samples:
        return False
    return all(0 < each < inf for each in measured.samples)
