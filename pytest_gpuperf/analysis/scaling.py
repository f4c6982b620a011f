"""From times on several numbers of devices to parallel efficiency, curves, and what holds it back."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from pytest_gpuperf.model import units
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import Estimate, Measurement, Speedup
from pytest_gpuperf.model.offload import Diagnosis
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.model.scaling import Scaling, ScalingCurve, ScalingPoint

_NEARLY_ALWAYS = 0.8  # of the blocks: two equal ranks are each the slowest in half of them
_MATTERS = 0.05  # of the fastest rank's time: a rank may always be slower by what nobody notices
_GOOD = 0.95  # an efficiency that leaves nothing to explain
_DRIFT = 0.01  # of a share: what 1 % between the times of two tests makes of it, which no range shows


def with_required_speedup(demand: Demand, scaling: Scaling) -> Demand:
    """Return the demand on the speedup over the fewest devices that the required efficiency is."""
    if scaling.required is None or not scaling.is_judged:
        return demand
    return replace(demand, min=scaling.required * scaling.ideal)


def with_speedup(scaling: Scaling, speedup: Speedup | None, base: Measurement | None) -> Scaling:
    """Return a scaling with what follows from its speedup over the fewest devices."""
    if speedup is None:
        return replace(scaling, base=base)
    efficiency = efficiency_of(scaling, speedup.estimate)
    return replace(
        scaling,
        base=base,
        speedup=speedup,
        efficiency=efficiency,
        karp_flatt=karp_flatt(efficiency, scaling.ratio),
    )


def efficiency_of(scaling: Scaling, speedup: Estimate) -> Estimate:
    """Return the parallel efficiency of a speedup over the fewest devices."""
    return _times(speedup, 1 / scaling.ideal)


def speedup_of(scaling: Scaling, efficiency: Estimate) -> Estimate:
    """Return the speedup over the fewest devices of a parallel efficiency."""
    return _times(efficiency, scaling.ideal)


def karp_flatt(efficiency: Estimate, ratio: float) -> Estimate:
    """Return the experimentally determined serial fraction, on `ratio` times as many devices.

    Karp and Flatt, "Measuring parallel processor performance", CACM 33(5), 1990: with the speedup S on p
    processors it is (1/S - 1/p) / (1 - 1/p), and S is E p. An efficiency of 0.8 on 4 devices gives 1/12.
    """

    def share(value: float) -> float:
        return (1 / value - 1) / (ratio - 1)

    return Estimate(
        value=share(efficiency.value),
        low=None if efficiency.high is None else share(efficiency.high),
        high=share(efficiency.low) if efficiency.low else None,
    )


def describe(scaling: Scaling, speedup: Speedup) -> str:
    """Return the required efficiency and that found: what a verdict's reason begins with."""
    required = f"required at least {scaling.required:g}, " if scaling.is_judged else ""
    shown = efficiency_text(efficiency_of(scaling, speedup.estimate))
    return f"{required}parallel efficiency {shown} on {units.count(scaling.count, scaling.member)}"


def efficiency_text(efficiency: Estimate) -> str:
    """Return an efficiency with its range: `0.81 [0.79, 0.83]`."""
    return f"{efficiency.value:.2f} {units.interval(efficiency.low, efficiency.high, '{:.2f}'.format)}"


def karp_flatt_text(share: Estimate) -> str:
    """Return a share of the work that is not divided, with its range: `0.083 [0.071, 0.095]`."""
    return f"{_share(share.value)} {units.interval(share.low, share.high, _share)}"


def curves(records: Iterable[Record]) -> tuple[ScalingCurve, ...]:
    """Return the curve of each group of scaling tests, in order of first appearance."""
    groups: dict[str, dict[int, tuple[Scaling, Record]]] = {}
    for record in records:
        if (scaling := record.scaling) is not None:
            groups.setdefault(scaling.name, {})[scaling.count] = scaling, record
    return tuple(_curve([members[count] for count in sorted(members)]) for members in groups.values())


def _times(estimate: Estimate, factor: float) -> Estimate:
    return Estimate(
        value=factor * estimate.value,
        low=None if estimate.low is None else factor * estimate.low,
        high=None if estimate.high is None else factor * estimate.high,
    )


def _curve(members: Sequence[tuple[Scaling, Record]]) -> ScalingCurve:
    last, _ = members[-1]
    points = tuple(
        ScalingPoint(
            count=scaling.count,
            nodeid=record.nodeid,
            time=record.gpu.median if record.gpu else None,
            speedup=scaling.speedup.estimate if scaling.speedup else None,
            efficiency=scaling.efficiency,
            karp_flatt=scaling.karp_flatt,
        )
        for scaling, record in members
    )
    return ScalingCurve(
        name=last.name,
        mode=last.mode,
        required=next((scaling.required for scaling, _ in members if scaling.required), None),
        points=points,
        counts=last.counts,
        member=last.member,
        diagnosis=(*_diagnoses(points, last.counts[0], f"{last.member}s"), *_stragglers(last)),
    )


def _diagnoses(points: Sequence[ScalingPoint], fewest: int, they: str) -> Iterable[Diagnosis]:
    """Yield what holds a curve back: one number of devices alone does not tell a cause from another."""
    shares = [(point.count, point.karp_flatt) for point in points if point.karp_flatt is not None]
    efficiency = next((point.efficiency for point in reversed(points) if point.efficiency), None)
    if len(shares) < 2 or efficiency is None or efficiency.upper > _GOOD:
        return
    (fewer, first), (most, last) = shares[0], shares[-1]
    stayed = last.lower - _DRIFT <= first.value <= last.upper + _DRIFT and first.lower <= last.value + _DRIFT
    if efficiency.upper * most / fewest < 1:
        sentence = (
            f"{most} {they} are slower than {fewest} at the same work: to submit it and to "
            "exchange results costs more than they save; give each call more work"
        )
        yield Diagnosis(code="communication_bound", sentence=sentence)
    elif last.lower > first.upper + _DRIFT:
        sentence = (
            f"the share of the work that the {they} do not divide grows from {_share(first.value)} on "
            f"{fewer} {they} to {_share(last.value)} on {most} (Karp-Flatt): communication or "
            "synchronization holds it back; exchange less, or give each of them more work"
        )
        yield Diagnosis(code="communication_bound", sentence=sentence)
    elif stayed and last.lower > 0 and last.upper <= 1:
        sentence = (
            f"about {units.digits(100 * last.value)} % of the work is not divided among the {they}, however "
            f"many there are (Karp-Flatt {karp_flatt_text(last)} on {most} {they}): divide it, too, or make "
            "it smaller"
        )
        yield Diagnosis(code="serial_part", sentence=sentence)


def _stragglers(scaling: Scaling) -> Iterable[Diagnosis]:
    """Yield which of the most ranks was slower than the others nearly each time, if one was."""
    ranks = scaling.ranks
    if ranks is None or ranks.slowest_share < _NEARLY_ALWAYS or ranks.slowest_excess < _MATTERS:
        return
    share, excess = 100 * ranks.slowest_share, 100 * ranks.slowest_excess
    sentence = (
        f"rank {ranks.slowest} of {ranks.ranks} was the slowest in {share:.0f} % of the blocks, by "
        f"{excess:.0f} % of the fastest rank's time: all wait for it; give it less work, or look for what "
        "its device or its processors do besides"
    )
    yield Diagnosis(code="straggler", sentence=sentence)


def _share(value: float) -> str:
    """Return a share of the work that is not divided: on many devices a small one matters."""
    return f"{round(value, 3) + 0.0:.3f}"  # without the sign of a zero
