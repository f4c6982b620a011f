"""From a record to a metric: the range in which it was seen, and how far beyond a limit it must lie."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from msgspec.structs import replace

from pytest_gpuperf.analysis import looks, noise
from pytest_gpuperf.analysis.estimation import estimate_time
from pytest_gpuperf.analysis.looks import Length, Look
from pytest_gpuperf.model.measurement import Estimate, Speedup
from pytest_gpuperf.model.metrics import TABLE, Metric
from pytest_gpuperf.model.record import Record

TIMES = tuple(metric for metric, row in TABLE.items() if row.rounds == "samples")


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
    return bool(samples_of(record, metric) if metric in TIMES else estimate_of(record, metric))


def is_held(record: Record, metric: Metric) -> bool:
    """Return whether later runs are compared with a record's metric: a CPU variant has its own times."""
    is_of_partner = record.pairing is not None and record.pairing.kind == "gpu" and record.pairing.partner
    return has(record, metric) and not (TABLE[metric].device == "cpu" and is_of_partner)


def estimate_of(record: Record, metric: Metric) -> Estimate | None:
    """Return a metric with its range: seconds, bytes or a ratio. None if it was not measured."""
    if metric in TIMES:
        return estimate_time(samples_of(record, metric))
    found = at(record, TABLE[metric].place) if _is_valid(record, metric) else None
    if isinstance(found, Speedup):
        return found.estimate
    return Estimate(value=found, low=found, high=found) if isinstance(found, int | float) else found


def decided(record: Record) -> dict[Metric, Speedup | Estimate]:
    """Return what a test's rounds are to decide, valid or not: its speedup or its efficiency."""
    found = {metric: at(record, row.place) for metric, row in TABLE.items() if row.rounds == "decide"}
    return {metric: value for metric, value in found.items() if value is not None}


def value_of(record: Record, metric: Metric) -> MetricValue | None:
    """Return a metric, its range widened by what disturbed the measurement."""
    exact = estimate_of(record, metric)
    if exact is None:
        return None
    if TABLE[metric].rounds is None:
        return MetricValue(estimate=exact, look=looks.EXACT)
    device = TABLE[metric].device
    look, length = look_at(record, metric), length_of(record, metric)
    dropped, rounds = record.dropped_rounds, _rounds(record)
    throttled = noise.throttle_reason(dropped, dropped + rounds) if device != "cpu" else None
    on_cpu = noise.worst_in_report(record.cpu, record.interference) if device != "gpu" else None
    on_gpu = noise.worst_in_report(record.gpu, record.gpu_interference) if device != "cpu" else None
    if on_cpu is None and on_gpu is None:
        return MetricValue(estimate=exact, look=look, length=length, doubt=throttled)
    low, high = exact.low, exact.high
    less = on_gpu if device == "gpu" else on_cpu  # less time, or a smaller ratio
    more = None if device == "gpu" else on_gpu  # a larger ratio
    if less is not None:
        low = low * less.own_share if low and less.own_share > 0 else None
    if more is not None:
        high = high / more.own_share if high is not None and more.own_share > 0 else None
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
    rounds, found = _rounds(record), _speedup(record, metric)
    return None if found is not None and found.rounds != rounds else Length(rounds, seconds)


def factors(before: MetricValue, now: MetricValue) -> tuple[Look, float]:
    """Return the look at two runs, and a further factor for the luck of the earlier one."""
    if before.length is None or now.length is None:
        return now.look, before.look.meets
    return looks.of_pair(before.length, now.length), 1.0


def at(value: Any, path: str) -> Any:
    """Return what a path of attributes leads to; None where something on the way is None."""
    for name in path.split("."):
        value = None if value is None else getattr(value, name)
    return value


def _speedup(record: Record, metric: Metric) -> Speedup | None:
    """Return the speedup that a metric is: of the calls themselves, or with what its name includes."""
    found = at(record, TABLE[metric].place)
    return found if isinstance(found, Speedup) else None


def _rounds(record: Record) -> int:
    """Return how many rounds the speedup that they are about has: over the CPU, or over fewer devices."""
    compared = record.scaling.speedup if record.scaling else record.speedup
    return compared.rounds if compared else 0


def _is_valid(record: Record, metric: Metric) -> bool:
    """Return whether the measurement is one of the required work."""
    if record.status == "error" or (record.check is not None and record.check.agreed is False):
        return False
    return record.status != "skipped" or not TABLE[metric].needs_gpu


def samples_of(record: Record, metric: Metric) -> Sequence[float]:
    """Return the valid times of one device; none where any of them is no time."""
    device = TABLE[metric].device
    measurement = record.measurement(device) if device and _is_valid(record, metric) else None
    samples = measurement.samples if measurement else ()
    return samples if all(0 < sample < inf for sample in samples) else ()
