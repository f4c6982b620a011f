"""From the numbers of one test to its verdict, its offload verdict and the notes on them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pytest_gpuperf.analysis import noise, offload, verdict
from pytest_gpuperf.analysis.offload import OffloadInput
from pytest_gpuperf.model.demand import RunOptions
from pytest_gpuperf.model.measurement import Interference, Memory
from pytest_gpuperf.model.offload import Offload
from pytest_gpuperf.model.record import Note, Verdict

_REMEDY = "use a quieter machine, or fewer BLAS threads (OPENBLAS_NUM_THREADS)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The verdict on a test's demand, its offload verdict, and notes on the numbers."""

    verdict: Verdict
    offload: Offload | None
    notes: tuple[Note, ...]


def judge_offline(
    measured: OffloadInput,
    options: RunOptions,
    *,
    memory: Memory,
    interference: Interference | None,
    throttled: str | None,
) -> Judgement:
    """Return the judgement of stored numbers, which need no live workload.

    Nothing is decided by samples that interference or a throttled GPU made too slow.
    """
    own_share = interference.own_share if interference else 1.0
    trusted = replace(measured, own_share=own_share, throttled=throttled is not None)
    on_speedup = _judge_speedup(measured, options, interference, throttled)
    return Judgement(
        verdict=verdict.apply_memory_limit(on_speedup, memory, measured.demand),
        offload=offload.assess(trusted, options),
        notes=tuple(_notes(measured, interference, throttled)),
    )


def _judge_speedup(
    measured: OffloadInput, options: RunOptions, interference: Interference | None, throttled: str | None
) -> Verdict:
    """Return the verdict on the demand; one that rests on lost CPU time or on a slow GPU is inconclusive."""
    speedup, demand = measured.speedup, measured.demand
    if not demand.limits:
        return Verdict(status="recorded", reason=None)
    state = f"speedup {verdict.ratio(speedup)}, required {verdict.describe_demand(demand)}"
    if throttled is not None:
        return Verdict(status="inconclusive", reason=f"{state}: {throttled}", reason_code="gpu_throttled")
    if interference and not verdict.holds_with_own_share(speedup, demand, interference.own_share):
        reason = f"{state}: {noise.describe(interference)}; {_REMEDY}"
        return Verdict(status="inconclusive", reason=reason, reason_code="interference")
    return verdict.judge(speedup, demand, options)


def _notes(
    measured: OffloadInput, interference: Interference | None, throttled: str | None
) -> Iterator[Note]:
    """Yield notes on disturbances that did not change the verdict."""
    speedup, demand = measured.speedup, measured.demand
    autocorrelation = verdict.autocorrelation_note(speedup)
    if autocorrelation is not None:
        yield Note(code="dependent_samples", text=autocorrelation)
    if interference and verdict.holds_with_own_share(speedup, demand, interference.own_share):
        yield Note(code="interference", text=noise.describe(interference))
    if throttled is not None and not demand.limits:
        yield Note(code="gpu_throttled", text=throttled)
