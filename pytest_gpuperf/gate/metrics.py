"""From a record to a metric: the range in which it was seen, and how far beyond a limit it must lie."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from msgspec.structs import replace

from pytest_gpuperf.analysis import looks, noise
from pytest_gpuperf.analysis.estimation import estimate_time
from pytest_gpuperf.analysis.looks import Length, Look
from pytest_gpuperf.model.comparison import Metric
from pytest_gpuperf.model.demand import Kind
from pytest_gpuperf.model.measurement import Estimate, Speedup
from pytest_gpuperf.model.record import Record

TIMES: dict[Metric, Kind] = {"cpu_time": "cpu", "gpu_time": "gpu"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricValue:
    """A metric of a record, and the factors beyond a limit at which it decides.

    `length` says how many rounds it rests on and how long they took; a metric without rounds has None.
    `doubt` says why it decides nothing, and `widened` why its range is so wide.
    """

    estimate: Estimate
    look: Look
    length: Length | None = None
    doubt: str | None = None
    widened: str | None = None


def has(record: Record, metric: Metric) -> bool:
    """Return whether a record has a metric, without the work of making the range of a time."""
    if metric in TIMES:
        return len(samples_of(record, metric)) > 0
    return estimate_of(record, metric) is not None


def is_held(record: Record, metric: Metric) -> bool:
    """Return whether later runs are compared with a record's metric: a CPU variant has its own times."""
    is_of_partner = record.pairing is not None and record.pairing.kind == "gpu" and record.pairing.partner
    return has(record, metric) and not (metric == "cpu_time" and is_of_partner)


def estimate_of(record: Record, metric: Metric) -> Estimate | None:
    """Return a metric with its range: seconds, bytes or a ratio. None if it was not measured."""
    if metric in TIMES:
        return estimate_time(samples_of(record, metric))
    if not _is_valid(record, metric):
        return None
    if metric == "memory":
        peak = record.memory.peak if record.memory else None
        return None if peak is None else _exactly(peak)
    if metric == "first_call":
        measured = record.gpu or record.cpu
        return _exactly(measured.first_call) if measured else None
    if metric == "efficiency":
        return record.scaling.efficiency if record.scaling else None
    speedup = _speedup(record, metric)
    return speedup.estimate if speedup else None


def value_of(record: Record, metric: Metric) -> MetricValue | None:
    """Return a metric, its range widened by what disturbed the measurement."""
    exact = estimate_of(record, metric)
    if exact is None:
        return None
    if metric in ("memory", "first_call"):
        return MetricValue(estimate=exact, look=looks.EXACT)
    look, length = look_at(record, metric), length_of(record, metric)
    throttled = None
    if metric != "cpu_time":
        compared = _compared(record)
        rounds = compared.rounds if compared else 0
        throttled = noise.throttle_reason(record.dropped_rounds, record.dropped_rounds + rounds)
    on_cpu = noise.worst_in_report(record.cpu, record.interference) if metric != "gpu_time" else None
    on_gpu = noise.worst_in_report(record.gpu, record.gpu_interference) if metric != "cpu_time" else None
    if on_cpu is None and on_gpu is None:
        return MetricValue(estimate=exact, look=look, length=length, doubt=throttled)
    low, high = exact.low, exact.high
    if shortened := on_gpu if metric == "gpu_time" else on_cpu:  # less time, or a smaller ratio
        low = (low or 0.0) * shortened.own_share or None
    if on_gpu and metric != "gpu_time":
        high = high / on_gpu.own_share if high is not None and on_gpu.own_share > 0 else None
    widened = replace(exact, low=low, high=high)
    why = noise.describe(on_cpu, on_gpu)
    return MetricValue(estimate=widened, look=look, length=length, doubt=throttled, widened=why)


def look_at(record: Record, metric: Metric) -> Look:
    """Return the look at the samples of a metric that has some."""
    length = length_of(record, metric)
    if length is None:  # a secondary measurement, which was short
        found = _speedup(record, metric)
        return looks.at_end(found.rounds if found else 0, 0.0)
    return looks.at_end(*length)


def length_of(record: Record, metric: Metric) -> Length | None:
    """Return how long a metric's rounds took; None of what was measured in rounds of its own, or in none."""
    seconds = record.rounds_elapsed or 0.0
    if metric in TIMES:
        return Length(len(samples_of(record, metric)), seconds)
    compared, found = _compared(record), _speedup(record, metric)
    rounds = compared.rounds if compared else 0
    return None if found is not None and found.rounds != rounds else Length(rounds, seconds)


def factors(before: MetricValue, now: MetricValue) -> tuple[Look, float]:
    """Return the look at two runs, and a further factor for the luck of the earlier one."""
    if before.length is None or now.length is None:
        return now.look, before.look.meets
    return looks.of_pair(before.length, now.length), 1.0


def _exactly(value: float) -> Estimate:
    return Estimate(value=value, low=value, high=value)


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


def _is_valid(record: Record, metric: Metric) -> bool:
    """Return whether the measurement is one of the required work."""
    if record.status == "error" or (record.check is not None and record.check.agreed is False):
        return False
    return record.status != "skipped" or metric in ("cpu_time", "first_call")


def samples_of(record: Record, metric: Metric) -> Sequence[float]:
    """Return the valid times of one device; none where any of them is no time."""
    measurement = record.measurement(TIMES[metric]) if _is_valid(record, metric) else None
    samples = measurement.samples if measurement else ()
    return samples if all(0 < sample < inf for sample in samples) else ()
