"""From a record to a metric with its intervals, and to why it decides less than they say."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

from pytest_gpuperf.analysis import noise, scaling
from pytest_gpuperf.analysis.estimation import estimate_time
from pytest_gpuperf.model.comparison import Metric
from pytest_gpuperf.model.demand import Kind
from pytest_gpuperf.model.measurement import Estimate, Speedup
from pytest_gpuperf.model.record import Record

_UNSURE = 2.0  # the factor of times whose record does not say how sure they are


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricValue:
    """A metric of a record: what people see of it, what is `sure`, and the `quick` evidence of the last look.

    A loss must show in what is sure; that nothing was lost may rest on the quick evidence. `doubt` is why the
    metric decides nothing, `widened` why its intervals are so wide.
    """

    seen: Estimate
    sure: Estimate
    quick: Estimate
    doubt: str | None = None
    widened: str | None = None

    def widened_by(self, low: float, high: float, cause: str) -> "MetricValue":
        """Return the value, each lower end times `low`, each upper end over `high`; 0 leaves it unbounded."""

        def wider(estimate: Estimate) -> Estimate:
            return replace(
                estimate,
                low=(estimate.low or 0.0) * low or None,
                high=estimate.high / high if estimate.high is not None and high > 0 else None,
            )

        seen, sure, quick = (wider(each) for each in (self.seen, self.sure, self.quick))
        return replace(self, seen=seen, sure=sure, quick=quick, widened=cause)


def has(record: Record, metric: Metric) -> bool:
    """Return whether a record has a metric, without the work of making its intervals."""
    if metric == "cpu" or metric == "gpu":  # not `in`, by which mypy narrows no type
        return len(_samples(record, metric)) > 0
    if not _is_valid(record, metric):
        return False
    if metric == "memory":
        return record.memory is not None and record.memory.peak is not None
    return _speedup(record, metric) is not None


def value_of(record: Record, metric: Metric) -> MetricValue | None:
    """Return a metric, its intervals widened by what disturbed the measurement; None where there is none.

    It is in seconds or bytes, or a ratio.
    """
    exact = _undisturbed(record, metric)
    if exact is None or metric == "memory":
        return exact
    if metric != "cpu":
        compared = _compared(record)
        rounds = compared.rounds if compared else 0
        throttled = noise.throttle_reason(record.dropped_rounds, record.dropped_rounds + rounds)
        exact = replace(exact, doubt=throttled)
    on_cpu = noise.worst_in_report(record.cpu, record.interference) if metric != "gpu" else None
    on_gpu = noise.worst_in_report(record.gpu, record.gpu_interference) if metric != "cpu" else None
    if on_cpu is None and on_gpu is None:
        return exact
    shortened = on_gpu if metric == "gpu" else on_cpu  # less time, or a smaller ratio
    low = shortened.own_share if shortened else 1.0
    high = on_gpu.own_share if on_gpu and metric != "gpu" else 1.0
    return exact.widened_by(low, high, noise.describe(on_cpu, on_gpu) or "")


def _undisturbed(record: Record, metric: Metric) -> MetricValue | None:
    """Return a metric as if nothing had disturbed it."""
    if metric == "cpu" or metric == "gpu":  # not `in`, by which mypy narrows no type
        return _time(record, metric)
    if not _is_valid(record, metric):
        return None
    if metric == "memory":
        peak = record.memory.peak if record.memory else None
        if peak is None:
            return None
        exact = Estimate(value=peak, low=peak, high=peak)
        return MetricValue(seen=exact, sure=exact, quick=exact)
    speedup = _speedup(record, metric)
    if speedup is None:
        return None
    estimates = [speedup.estimate, speedup.sure, speedup.quick]
    if metric == "efficiency" and record.scaling:
        estimates = [scaling.efficiency_of(record.scaling, each) for each in estimates]
    seen, sure, quick = estimates
    return MetricValue(seen=seen, sure=sure, quick=quick)


def _time(record: Record, kind: Kind) -> MetricValue | None:
    """Return the time of a call on one device; a part of it may not be the calls' own."""
    samples, measurement = _samples(record, kind), record.measurement(kind)
    seen = estimate_time(samples, record.demand.alpha)
    sure = estimate_time(samples, record.demand.alpha, record.certain_factor or _UNSURE)
    if seen is None or sure is None or measurement is None:
        return None
    sure = replace(sure, low=None if sure.low is None else sure.low * measurement.own_share)
    return MetricValue(seen=seen, sure=sure, quick=sure)


def _speedup(record: Record, metric: Metric) -> Speedup | None:
    """Return the speedup that a metric is: of the calls themselves, or with what its name includes."""
    if metric == "efficiency":
        return record.scaling.speedup if record.scaling else None
    speedup: Speedup | None = record.speedup if metric == "speedup" else getattr(record.offload, metric, None)
    return speedup


def _compared(record: Record) -> Speedup | None:
    """Return the speedup that a test's rounds are about: over the CPU, or over fewer devices."""
    return record.scaling.speedup if record.scaling else record.speedup


def _is_valid(record: Record, metric: Metric) -> bool:
    """Return whether the measurement is one of the required work."""
    if record.status == "error" or (record.parity is not None and record.parity.agreed is False):
        return False
    return record.status != "skipped" or metric == "cpu"


def _samples(record: Record, kind: Kind) -> Sequence[float]:
    """Return the valid times of one device; none where any of them is no time."""
    measurement = record.measurement(kind) if _is_valid(record, kind) else None
    samples = measurement.samples if measurement else ()
    return samples if all(0 < sample < inf for sample in samples) else ()
