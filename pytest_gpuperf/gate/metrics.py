"""From a record to a metric with its interval, and to why it decides less than that says."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, log

from pytest_gpuperf.analysis import noise, spacing
from pytest_gpuperf.analysis.estimation import alpha_share, estimate_time
from pytest_gpuperf.analysis.evidence import ALPHA
from pytest_gpuperf.gate.regression import LESS_IS_BETTER, Range
from pytest_gpuperf.model.comparison import Metric
from pytest_gpuperf.model.demand import Kind
from pytest_gpuperf.model.measurement import Confirmation, Estimate, Speedup
from pytest_gpuperf.model.record import Record

TIME_OF: dict[Kind, Metric] = {"cpu": "cpu_time", "gpu": "gpu_time"}
_TIMED = {metric: kind for kind, metric in TIME_OF.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricValue:
    """A metric of a record: `doubt` is why it decides nothing, `widened` why its interval is so wide."""

    estimate: Estimate
    doubt: str | None = None
    widened: str | None = None


def has(record: Record, metric: Metric) -> bool:
    """Return whether a record has a metric, without the work of making its interval."""
    if metric in _TIMED:
        return len(_samples(record, metric)) > 0
    if metric in ("memory", "efficiency"):
        return estimate_of(record, metric) is not None
    return _is_valid(record, metric) and _speedup(record, metric) is not None


def is_held(record: Record, metric: Metric) -> bool:
    """Return whether later runs are compared with a record's metric: a CPU variant has its own times."""
    is_of_partner = record.pairing is not None and record.pairing.kind == "gpu" and record.pairing.partner
    return has(record, metric) and not (metric == "cpu_time" and is_of_partner)


def estimate_of(record: Record, metric: Metric) -> Estimate | None:
    """Return a metric with its interval, in seconds, bytes or as a ratio; None where a record has none."""
    if metric in _TIMED:
        alpha = alpha_share(restarted=record.restart_reason is not None) * ALPHA
        return estimate_time(_samples(record, metric), alpha)
    if not _is_valid(record, metric):
        return None
    if metric == "memory":
        peak = record.memory.peak if record.memory else None
        return None if peak is None else Estimate(value=peak, low=peak, high=peak)
    if metric == "efficiency":
        return record.scaling.efficiency if record.scaling else None
    speedup = _speedup(record, metric)
    return speedup.estimate if speedup else None


def value_of(record: Record, metric: Metric) -> MetricValue | None:
    """Return a metric, its interval widened by what disturbed the measurement."""
    exact = estimate_of(record, metric)
    if exact is None:
        return None
    if metric == "memory":
        return MetricValue(estimate=exact)
    throttled = None
    if metric != "cpu_time":
        compared = _compared(record)
        rounds = compared.rounds if compared else 0
        throttled = noise.throttle_reason(record.dropped_rounds, record.dropped_rounds + rounds)
    on_cpu = noise.worst_in_report(record.cpu, record.interference) if metric != "gpu_time" else None
    on_gpu = noise.worst_in_report(record.gpu, record.gpu_interference) if metric != "cpu_time" else None
    if on_cpu is None and on_gpu is None:
        return MetricValue(estimate=exact, doubt=throttled)
    low, high = exact.low, exact.high
    if shortened := on_gpu if metric == "gpu_time" else on_cpu:  # less time, or a smaller ratio
        low = (low or 0.0) * shortened.own_share or None
    if on_gpu and metric != "gpu_time":
        high = high / on_gpu.own_share if high is not None and on_gpu.own_share > 0 else None
    widened = replace(exact, low=low, high=high)
    return MetricValue(estimate=widened, doubt=throttled, widened=noise.describe(on_cpu, on_gpu))


def confirmation(record: Record, metric: Metric, limit: Range, *, gated: bool) -> Confirmation | None:
    """Return whether rounds far apart confirm that a metric got worse; None where no spell explains it.

    `limit` is from where to where "worse" may begin. In a run that was measured for a gate the speedup was
    measured once more near this limit, and what no limit of its own rests on has rounds apart in time.
    """
    if metric == "memory":
        return None
    speedup = _compared(record)
    if (
        metric in ("speedup", "efficiency")
        and speedup
        and (speedup.is_unconfirmed or (gated and speedup.confirmation))
    ):
        return speedup.confirmation
    values = _values(record, metric)
    measured = estimate_of(record, metric)
    ends = [end for end in (measured.lower, measured.upper) if 0 < end < inf] if measured else []
    less_is_better = metric in LESS_IS_BETTER
    distances = [log(each / limit[1] if less_is_better else limit[0] / each) for each in values or ends]
    if not spacing.is_near(distances):
        return None
    is_apart = spacing.are_sustained(distances, lasted(record)) if values else gated
    return "confirmed" if is_apart else "not_apart"


def lasted(record: Record) -> float:
    """Return how many rounds could have been taken in the time that sampling took, with its pauses."""
    return record.rounds_elapsed / record.round_time if record.rounds_elapsed and record.round_time else 0.0


def _speedup(record: Record, metric: Metric) -> Speedup | None:
    """Return the speedup that a metric is: of the calls themselves, or with what its name includes."""
    if metric == "speedup":
        return record.speedup
    if record.offload is None:
        return None
    return {"latency": record.offload.latency, "with_copies": record.offload.always}.get(metric)


def _compared(record: Record) -> Speedup | None:
    """Return the speedup that a test's rounds are about: over the CPU, or over fewer devices."""
    return record.scaling.speedup if record.scaling else record.speedup


def _values(record: Record, metric: Metric) -> Sequence[float]:
    """Return the values that a metric is the median of, in order; none where not all of them are kept."""
    if metric in _TIMED:
        return _samples(record, metric)
    if metric == "speedup" and record.cpu and record.gpu and record.demand.transfer == "never":
        pairs = zip(*(each.samples_for(record.demand) for each in (record.cpu, record.gpu)), strict=False)
        return [cpu / gpu for cpu, gpu in pairs]
    return []


def _is_valid(record: Record, metric: Metric) -> bool:
    """Return whether the measurement is one of the required work."""
    if record.status == "error" or (record.check is not None and record.check.agreed is False):
        return False
    return record.status != "skipped" or metric == "cpu_time"


def _samples(record: Record, metric: Metric) -> Sequence[float]:
    """Return the valid times of one device; none where any of them is no time."""
    measurement = record.measurement(_TIMED[metric]) if _is_valid(record, metric) else None
    samples = measurement.samples if measurement else ()
    return samples if all(0 < sample < inf for sample in samples) else ()
