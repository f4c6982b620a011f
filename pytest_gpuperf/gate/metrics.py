"""From a record to a metric with its interval, and to why it decides less than that says."""

from dataclasses import dataclass, replace
from math import inf

from pytest_gpuperf.analysis import noise
from pytest_gpuperf.analysis.estimation import estimate
from pytest_gpuperf.model.comparison import Metric
from pytest_gpuperf.model.demand import RunOptions
from pytest_gpuperf.model.measurement import Estimate, Interference, Measurement, Speedup
from pytest_gpuperf.model.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricValue:
    """A metric of a record: `doubt` is why it decides nothing, `widened` why its interval is so wide."""

    estimate: Estimate
    doubt: str | None = None
    widened: str | None = None


def has(record: Record, metric: Metric) -> bool:
    """Return whether a record has a metric, without the work of making its interval."""
    if metric in ("cpu", "gpu"):
        return _is_valid(record, metric) and _is_timed(record.cpu if metric == "cpu" else record.gpu)
    return estimate_of(record, metric) is not None


def estimate_of(record: Record, metric: Metric) -> Estimate | None:
    """Return a metric with its interval, in seconds, bytes or as a ratio; None where a record has none."""
    if not _is_valid(record, metric):
        return None
    if metric in ("cpu", "gpu"):
        measurement = record.cpu if metric == "cpu" else record.gpu
        if measurement is None or not _is_timed(measurement):
            return None
        # Times of one device have no partner in a round, like those of siblings.
        time = estimate(measurement.samples, RunOptions(alpha=record.demand.alpha), "siblings")
        return time.estimate if time else None
    if metric == "memory":
        peak = record.memory.peak if record.memory else None
        return None if peak is None else Estimate(value=peak, low=peak, high=peak)
    speedup: Speedup | None = record.speedup if metric == "speedup" else getattr(record.offload, metric, None)
    return speedup.estimate if speedup else None


def value_of(record: Record, metric: Metric) -> MetricValue | None:
    """Return a metric, its interval widened by what disturbed the measurement."""
    exact = estimate_of(record, metric)
    if exact is None:
        return None
    if metric == "memory":
        return MetricValue(estimate=exact)
    throttled = None
    if metric != "cpu":
        rounds = record.speedup.rounds if record.speedup else 0
        throttled = noise.throttle_reason(record.dropped_rounds, record.dropped_rounds + rounds)
    interference = None if metric == "gpu" else _interference(record)
    if interference is None:
        return MetricValue(estimate=exact, doubt=throttled)
    own = interference.own_share
    widened = replace(exact, low=exact.low * own if exact.low is not None and own > 0 else None)
    return MetricValue(estimate=widened, doubt=throttled, widened=noise.describe(interference))


def _is_valid(record: Record, metric: Metric) -> bool:
    """Return whether the measurement is one of the required work."""
    if record.status == "error" or (record.parity is not None and record.parity.agreed is False):
        return False
    return record.status != "skipped" or metric == "cpu"


def _interference(record: Record) -> Interference | None:
    """Return what took a share of the CPU's time from the workload, if anything did.

    The recorded interference may be worse than what the samples show: it also knew the warm-up's blocks.
    """
    measurement = record.cpu
    if measurement is None or not measurement.samples:
        return None
    in_samples = noise.detect(
        measurement.samples,
        block_calls=measurement.block_calls,
        waited=measurement.waited or 0.0,
        fastest=min(measurement.samples),
    )
    return noise.worst(in_samples, record.interference)


def _is_timed(measurement: Measurement | None) -> bool:
    samples = measurement.samples if measurement else ()
    return len(samples) > 0 and all(0 < sample < inf for sample in samples)
