"""From the reports of several runs to one: a test that ran once on each device gets its verdict."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from pytest_gpuperf.analysis import threshold
from pytest_gpuperf.gate import fingerprint, policy
from pytest_gpuperf.model.comparison import Commit
from pytest_gpuperf.model.demand import Kind, Plan, Selection
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Environment, Merged, Record, Run, Status
from pytest_gpuperf.report.merge_record import OneDeviceResult, alone, join
from pytest_gpuperf.report.reader import Report

__all__ = ["MergedRun", "Report", "merge"]

_KINDS: tuple[Kind, ...] = ("cpu", "gpu")
_TELLING: tuple[Status, ...] = ("error", "failed", "inconclusive", "passed", "recorded", "skipped")


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedRun:
    """The run that reports make together; `joined` are the node ids of tests with a side from each of two."""

    run: Run
    joined: tuple[str, ...]

    def failures(self, plan: Plan) -> tuple[str, ...]:
        """Return what fails, test by test and then threshold by threshold, as a run would settle it."""
        records = (record for record in self.run.records if policy.decide(record, None, plan).failure)
        families = (found for found in self.run.thresholds if policy.threshold_fails(found, plan))
        return (
            *(f"{record.nodeid}: {record.status}: {record.reason}" for record in records),
            *(f"threshold of {found.name}: {found.status}: {found.reason}" for found in families),
        )

    def doubts(self, plan: Plan) -> tuple[str, ...]:
        """Return the tests in doubt that do not fail, with the reason."""
        doubted = (record for record in self.run.records if record.status == "inconclusive")
        passing = (record for record in doubted if not policy.decide(record, None, plan).failure)
        return tuple(f"{record.nodeid}: {record.status}: {record.reason}" for record in passing)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReportedRecord:
    """A test's record in one report; `sides` are those that it has for others to be joined with."""

    report: Report
    record: Record
    sides: frozenset[Kind]

    def side(self, kind: Kind) -> OneDeviceResult | None:
        """Return one side, unless the record has none or both."""
        measurement = self.record.cpu if kind == "cpu" else self.record.gpu
        if self.sides != {kind} or measurement is None:
            return None
        return OneDeviceResult(
            kind=kind,
            report=self.report.name,
            record=self.record,
            measurement=measurement,
            environment=self.report.run.environment,
        )


def merge(reports: Sequence[Report]) -> MergedRun:
    """Return the run that reports make together: of runs on one device each, or of shards of one run.

    Raises GpuPerfError when two of them have the same side of a test, when shards were measured in different
    surroundings, and when no test was compared, in one report or between two.
    """
    tests: dict[str, list[_ReportedRecord]] = {}
    for found in (each for report in reports for each in _records(report)):
        tests.setdefault(found.record.nodeid, []).append(found)
    for several in tests.values():
        _check_once(several)
    sources = {kind: _source(reports, tests, kind) for kind in _KINDS}
    ratio = _cost_ratio([source for source in (sources["gpu"], sources["cpu"]) if source])
    pairs = {nodeid: _pair(several) for nodeid, several in tests.items()}
    records = tuple(_record(several, pairs[nodeid], ratio) for nodeid, several in tests.items())
    joined = tuple(record.nodeid for record in records if pairs[record.nodeid] and record.speedup)
    shards = [report for report in reports if any(record.speedup for record in report.run.records)]
    if not joined and not shards:
        raise GpuPerfError(_nothing(records))
    _check_alike(shards)
    cpu, gpu = (sources[kind] if joined else shards[0] for kind in _KINDS)
    if cpu is None or gpu is None:
        raise AssertionError("what was joined has a source on either side")
    return MergedRun(run=_run(reports, records, cpu.run, gpu.run, ratio), joined=joined)


def _records(report: Report) -> Iterator[_ReportedRecord]:
    """Yield a report's records; siblings were compared in it, and have no side for others."""
    pairings = (record.pairing for record in report.run.records)
    partners = {pairing.partner for pairing in pairings if pairing}
    for record in report.run.records:
        kinds = [kind for kind in _KINDS if (record.cpu if kind == "cpu" else record.gpu)]
        if len(kinds) < len(_KINDS) and (
            record.pairing is None or record.pairing.partner or record.nodeid in partners
        ):
            kinds = []
        yield _ReportedRecord(report=report, record=record, sides=frozenset(kinds))


def _check_once(several: Sequence[_ReportedRecord]) -> None:
    """Refuse a side that two reports have: nothing says which of them is meant."""
    for one, other in combinations(several, 2):
        if both := [kind for kind in _KINDS if kind in one.sides & other.sides]:
            sides = " and its ".join(f"{kind.upper()} side" for kind in both)
            remedy = "leave one out"
            if both == ["gpu"]:
                remedy += "; a CPU run is joined with one GPU run at a time"
            names = f"{one.report.name} and {other.report.name}"
            raise GpuPerfError(f"{names} both have {one.record.nodeid} with its {sides}; {remedy}")


def _check_alike(shards: Sequence[Report]) -> None:
    """Refuse shards of different machines: a report has one environment, which its speedups depend on."""
    for one, other in combinations(shards, 2):
        made = (each.run.environment for each in (one, other))
        here, there = (fingerprint.run_conditions(each, each.gpu) for each in made)
        if unlike := fingerprint.differences(here, there):
            raise GpuPerfError(
                f"{one.name} and {other.name} were not measured in the same surroundings "
                f"({'; '.join(unlike)}), and one report cannot tell them apart; keep them as two"
            )


def _source(reports: Sequence[Report], tests: dict[str, list[_ReportedRecord]], kind: Kind) -> Report | None:
    """Return the first report that has this side, and not the other, of any test."""
    having = [each.report.name for several in tests.values() for each in several if each.sides == {kind}]
    return next((report for report in reports if report.name in having), None)


def _cost_ratio(reports: Sequence[Report]) -> float:
    told = (report.run.cost_ratio for report in reports)
    return next((ratio for ratio in told if ratio is not None), Plan().cost_ratio)


def _pair(several: Sequence[_ReportedRecord]) -> tuple[OneDeviceResult, OneDeviceResult] | None:
    """Return the two sides of a test, if two reports have one each."""
    cpu, gpu = (_first(several, kind) for kind in _KINDS)
    return (cpu, gpu) if cpu and gpu else None


def _first(several: Sequence[_ReportedRecord], kind: Kind) -> OneDeviceResult | None:
    return next((side for found in several if (side := found.side(kind))), None)


def _record(
    several: Sequence[_ReportedRecord], pair: tuple[OneDeviceResult, OneDeviceResult] | None, ratio: float
) -> Record:
    """Return what all reports together say of one test."""
    if pair is not None:
        return join(*pair, ratio)
    whole = next((found.record for found in several if len(found.sides) == len(_KINDS)), None)
    if whole is not None:
        return whole
    side = _first(several, "cpu") or _first(several, "gpu")
    if side is None:
        return _most_telling(several)
    others = [found for found in several if _tells_of_the_other(side, found)]
    return alone(side, _most_telling(others) if others else None)


def _tells_of_the_other(side: OneDeviceResult, found: _ReportedRecord) -> bool:
    """Say whether a record without a measurement says why a test's other side is not there."""
    pairing, ended_well = found.record.pairing, found.record.status in ("passed", "recorded")
    return not ended_well and (pairing is None or pairing.side != side.kind)


def _most_telling(several: Sequence[_ReportedRecord]) -> Record:
    """Return the record of those that are no side of anything: an error before a skip."""
    return min((found.record for found in several), key=lambda record: _TELLING.index(record.status))


def _nothing(records: Sequence[Record]) -> str:
    why = next((f"; {record.nodeid}: {record.reason}" for record in records if record.reason), "")
    return f"no test could be joined: none has a CPU side in one report and a GPU side in another{why}"


def _run(reports: Sequence[Report], records: tuple[Record, ...], cpu: Run, gpu: Run, ratio: float) -> Run:
    return Run(
        environment=_environment(cpu.environment, gpu.environment),
        started=min(report.run.started for report in reports),
        records=records,
        thresholds=threshold.find(records),
        cost_ratio=ratio,
        complete=all(report.run.complete for report in reports),
        selections=_selections(reports),
        merged=_merged(reports),
        commit=_commit(reports),
    )


def _commit(reports: Sequence[Report]) -> Commit | None:
    """Return the commit that was measured, if it is the same in all reports."""
    first, *others = (report.run.commit for report in reports)
    return first if all(other == first for other in others) else None


def _environment(cpu: Environment, gpu: Environment) -> Environment:
    """Return the CPU run's environment with the GPU of the other, and with the packages for it."""
    return replace(
        cpu,
        gpu=gpu.gpu,
        gpu_reason=gpu.gpu_reason,
        packages={**gpu.packages, **cpu.packages},
        clocks_at_start=gpu.clocks_at_start,
        clocks_at_end=gpu.clocks_at_end,
        clocks_reason=gpu.clocks_reason,
    )


def _selections(reports: Sequence[Report]) -> tuple[Selection, ...]:
    """Return each pattern once, with the most tests that it matched in a run."""
    most: dict[str | None, Selection] = {}
    for selection in (each for report in reports for each in report.run.selections):
        known = most.setdefault(selection.pattern, selection)
        most[selection.pattern] = max(known, selection, key=lambda each: each.tests)
    return tuple(most.values())


def _merged(reports: Sequence[Report]) -> Merged:
    surveyed = [report.run.environment for report in reports]
    ratios = dict.fromkeys(f"{report.run.cost_ratio:g}" for report in reports if report.run.cost_ratio)
    prices = (f"cost ratio: {', '.join(ratios)}",) if len(ratios) > 1 else ()
    return Merged(
        reports=tuple(report.name for report in reports),
        hosts_differ=fingerprint.hosts_differ(surveyed),
        differences=(*fingerprint.environment_differences(surveyed), *prices),
    )
