"""From the times of a reference and a candidate to what a median does not show: rare slow calls, trends."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import fmean, median

from pytest_gpuperf.analysis.estimation import Evidence
from pytest_gpuperf.model import units
from pytest_gpuperf.model.record import Note

_FEWEST_FOR_TOTALS = 60  # rounds: fewer differ by more than a tenth by chance, in 4 % of recorded noise
_FEWEST_FOR_TREND = 28  # four in each of seven stretches
_DIFFERENT = 1.1


def notes(evidence: Evidence) -> Iterator[Note]:
    """Yield notes where sums of times say something else than medians, or late ones than early ones."""
    if (text := _totals(evidence)) is not None:
        yield Note(code="totals_differ", text=text)
    for times, name in ((evidence.reference, "reference"), (evidence.candidate, "candidate")):
        if (text := _trend(times, evidence.stretches, name)) is not None:
            yield Note(code="trend", text=text)


def _totals(evidence: Evidence) -> str | None:
    """Return how the ratio of all times differs from the median ratio, if a loop would feel the difference.

    It must do so without the slowest sample of each side, too: one stall says nothing of others.
    """
    if evidence.rounds < _FEWEST_FOR_TOTALS:
        return None
    middle = evidence.value
    slowest_left_out = [sorted(times)[:-1] for times in (evidence.reference, evidence.candidate)]
    totals = [
        fmean(evidence.reference) / fmean(evidence.candidate),
        fmean(slowest_left_out[0]) / fmean(slowest_left_out[1]),
    ]
    far = [ratio for ratio in totals if max(ratio / middle, middle / ratio) > _DIFFERENT]
    if len(far) < len(totals):
        return None
    return (
        f"all times together give {units.digits(totals[0])}x, the median {units.digits(middle)}x: some calls "
        "take far longer than the others, and a loop pays for them"
    )


def _trend(times: Sequence[float], stretches: int, name: str) -> str | None:
    """Return how the later half of the samples differs from the earlier one, if no halves overlap.

    The stretches' medians must rise, or fall, from the first to the last, but for one step.
    """
    if len(times) < _FEWEST_FOR_TREND:
        return None
    half = len(times) // 2
    early, late = median(times[:half]), median(times[half:])
    change = late / early
    if max(change, 1 / change) <= _DIFFERENT or not _is_monotone(times, stretches):
        return None
    word = "slower" if change > 1 else "faster"
    percent = 100 * (max(change, 1 / change) - 1)
    return (
        f"the second half of the samples of the {name} is {percent:.0f} % {word}: clocks or caches that "
        "change, or work that grows from call to call"
    )


def _is_monotone(times: Sequence[float], stretches: int) -> bool:
    size = len(times) // stretches
    middles = [median(times[part * size : (part + 1) * size]) for part in range(stretches)]
    steps = [later - earlier for earlier, later in pairwise(middles)]
    rising = sum(step > 0 for step in steps)
    return rising >= len(steps) - 1 or rising <= 1
