"""From the samples of two arms to the ratio of their times: what was seen, and what is certain of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from statistics import median

from pytest_gpuperf.analysis import looks, noise
from pytest_gpuperf.analysis.looks import Limit, Look, Range
from pytest_gpuperf.analysis.noise import Disturbance
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import (
    Certain,
    DecidedBy,
    Estimate,
    Interference,
    Neighbours,
    Round,
    Speedup,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnShares:
    """The shares of each arm's samples that are certainly its own; 0 where nothing is.

    What is not may be a pipeline that a block fills, or clocks that had not risen.
    """

    reference: float = 1.0
    candidate: float = 1.0

    def applied(self, ratios: Range) -> Range:
        """Return a range of ratios that reaches as far as they may be off."""
        high = ratios.high / self.candidate if self.candidate > 0 else inf
        return Range(ratios.low * self.reference, high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The times of a reference and a candidate, in order: of the same rounds, or each of its own time."""

    reference: Sequence[float]
    candidate: Sequence[float]
    alpha: float
    sampling: Neighbours = "interleaved"
    own: OwnShares = OwnShares()

    @property
    def stretches(self) -> int:
        """How many equal parts the rounds are split into."""
        return looks.count_of_stretches(self.alpha)

    @property
    def rounds(self) -> int:
        """How many rounds there are: of samples that were taken apart, those of the shorter side."""
        return min(len(self.reference), len(self.candidate))

    @property
    def value(self) -> float:
        """The median ratio; of samples that were taken apart, the ratio of the medians."""
        if self.sampling == "siblings":
            return median(self.reference) / median(self.candidate)
        return median(self._ratios)

    @property
    def seen(self) -> Range:
        """The range of the stretches' medians; of samples taken apart, that of any stretch over any other."""
        if self.sampling == "siblings":
            one, other = (looks.seen(each, self.stretches) for each in (self.reference, self.candidate))
            return Range(one.low / other.high, one.high / other.low)
        return looks.seen(self._ratios, self.stretches)

    def in_stretches_of(self, size: int) -> Range | None:
        """Return the range of those stretches of so many rounds that are full; None before the first is."""
        if self.sampling == "siblings":
            found = looks.medians(self.candidate, self.stretches, size)
            one = looks.seen(self.reference, self.stretches)
            return Range(one.low / max(found), one.high / min(found)) if found else None
        found = looks.medians(self._ratios, self.stretches, size)
        return Range(min(found), max(found)) if found else None

    def is_decided(self, limit: Limit, look: Look) -> bool:
        """Return whether the rounds lie far enough beyond a limit at a look."""
        return looks.is_decided(limit, self.own.applied(self.seen), look)

    @property
    def _ratios(self) -> list[float]:
        return [one / other for one, other in zip(self.reference, self.candidate, strict=False)]


def speedup(evidence: Evidence, look: Look, *, decided: bool = False) -> Speedup | None:
    """Return the ratio that rounds show, widened as a look is unsure; None without a round."""
    if not evidence.rounds:
        return None
    seen, is_single = evidence.seen, evidence.rounds == 1
    sure = look.sure
    if evidence.rounds < evidence.stretches:
        sure = max(sure, looks.few_rounds_factor(evidence.rounds, evidence.alpha))
    certain = looks.widened(evidence.own.applied(seen), sure)
    return Speedup(
        value=evidence.value,
        low=None if is_single else seen.low,
        high=None if is_single else seen.high,
        certain=Certain(
            low=None if is_single or certain.low <= 0 else certain.low,
            high=None if is_single or certain.high == inf else certain.high,
            factor=sure,
        ),
        decided_by=DecidedBy(look=look.name, factor=look.meets) if decided else None,
        rounds=evidence.rounds,
        sampling=evidence.sampling,
    )


def estimate_time(samples: Sequence[float], alpha: float, factor: float = 1.0) -> Estimate | None:
    """Return the median of one device's times with the range of its stretches, widened; None for none."""
    if not samples:
        return None
    low, high = looks.widened(looks.seen(samples, looks.count_of_stretches(alpha)), factor)
    return Estimate(value=median(samples), low=low, high=high)


def candidate_times(rounds: Sequence[Round], demand: Demand) -> list[float]:
    """Return the candidate's times with the copies that the demand includes."""
    calls = demand.calls if demand.transfer == "once" else None
    return [each.gpu + each.copies / (calls or 1) for each in rounds]


def undisturbed(
    evidence: Evidence,
    look: Look,
    *,
    decided: bool,
    reference: Interference | None,
    candidate: Interference | None,
) -> Disturbance | None:
    """Return what is certain of a speedup although other work took time from the samples of either arm.

    Time lost to other work makes the speedup too large on the reference's side, and too small on the
    candidate's. So the lower end is that of rounds in which the reference needs no more than its own time,
    and the upper end that of rounds in which the candidate does. None without other work, and without a
    round.
    """
    if not evidence.rounds or (reference is None and candidate is None):
        return None
    least, most = _with_own_time(evidence, reference, None), _with_own_time(evidence, None, candidate)
    seen = evidence.seen
    own = OwnShares(
        reference=evidence.own.reference * (least.seen.low / seen.low if least else 0.0),
        candidate=evidence.own.candidate * (seen.high / most.seen.high if most else 0.0),
    )
    certain = speedup(replace(evidence, own=own), look, decided=decided)
    if certain is None:
        return None
    return Disturbance(
        certain=certain,
        medians=(least.value if least else 0.0, most.value if most else inf),
        reason=noise.describe(reference, candidate) or "",
    )


def _with_own_time(
    evidence: Evidence, reference: Interference | None, candidate: Interference | None
) -> Evidence | None:
    """Return the evidence with no sample above what is certainly an arm's own; None where that is nothing."""

    def shortened(samples: Sequence[float], by: Interference | None) -> Sequence[float] | None:
        if by is None:
            return samples
        own = by.own_share * median(samples)
        return [min(own, sample) for sample in samples] if own > 0 else None

    one, other = shortened(evidence.reference, reference), shortened(evidence.candidate, candidate)
    if one is None or other is None:
        return None
    return replace(evidence, reference=one, candidate=other)
