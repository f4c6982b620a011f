"""From the reports of several runs to one report: a test that ran once on each device gets its verdict."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TypeVar

from pytest_gpuperf.analysis import scaling, threshold
from pytest_gpuperf.gate import fingerprint, policy
from pytest_gpuperf.model.demand import KINDS, Kind, RunOptions, UnknownValue
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Environment, Merged, Record, Report, Run, Status
from pytest_gpuperf.report.merge.record import ReportedRecord, merge_results, unpaired

_Value = TypeVar("_Value")

_MOST_SEVERE_FIRST: tuple[Status, ...] = ("error", "failed", "inconclusive", "passed", "recorded", "skipped")


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedRun:
    """The run that reports make together; `joined` are the tests (node ids) whose results come from two."""

    run: Run
    joined: tuple[str, ...]

    def failures(self, options: RunOptions) -> tuple[str, ...]:
        """Return what fails, test by test and then threshold by threshold, as in a run of pytest."""
        records = (record for record in self.run.records if policy.decide(record, None, options).failure)
        missed = (each for each in self.run.thresholds if policy.threshold_fails(each, options))
        texts = [f"{record.nodeid}: {record.status}: {record.reason}" for record in records]
        texts += [f"threshold of {each.name}: {each.status}: {each.reason}" for each in missed]
        return tuple(texts)

    def doubts(self, options: RunOptions) -> tuple[str, ...]:
        """Return the inconclusive tests that do not fail, with the reason."""
        inconclusive = (record for record in self.run.records if record.status == "inconclusive")
        passing = (record for record in inconclusive if not policy.decide(record, None, options).failure)
        return tuple(f"{record.nodeid}: {record.status}: {record.reason}" for record in passing)


def merge(reports: Sequence[Report]) -> MergedRun:
    """Return the run that reports make together: of runs on one device each, or of shards of one run.

    Raises GpuPerfError when two of them have the same device's result of a test, when shards were measured
    in different conditions, and when no test was compared, in one report or between two.
    """
    tests: dict[str, list[ReportedRecord]] = {}
    for report in reports:
        for entry in _records(report):
            tests.setdefault(entry.record.nodeid, []).append(entry)
    for copies in tests.values():
        _check_unique(copies)
    # A test's results of one device are those of the reports that have no other device's.
    results = {
        nodeid: {entry.kind: entry for entry in copies if len(entry.measurements) == 1}
        for nodeid, copies in tests.items()
    }
    names = {(kind, entry.report.name) for found in results.values() for kind, entry in found.items()}
    # By device, the first report that has only that device's result of any test.
    sources = {kind: next((one for one in reports if (kind, one.name) in names), None) for kind in KINDS}
    ratios = (source.run.cost_ratio for source in (sources["gpu"], sources["cpu"]) if source)
    ratio = next(filter(None, ratios), None)
    records = tuple(_record(copies, results[nodeid], ratio) for nodeid, copies in tests.items())
    joined = tuple(record.nodeid for record in records if len(results[record.nodeid]) == 2 and record.speedup)
    shards = [report for report in reports if any(record.speedup for record in report.run.records)]
    if not joined and not shards:
        cause = next((f"; {record.nodeid}: {record.reason}" for record in records if record.reason), "")
        missing = "no test has a CPU result in one report and a GPU result in another"
        raise GpuPerfError(f"nothing to merge: {missing}{cause}")
    _check_same_conditions(shards)
    # The environment of the CPU's run with the other's GPU; shards of one run share theirs.
    cpu, gpu = (sources[kind] if joined else shards[0] for kind in KINDS)
    assert cpu is not None and gpu is not None, "a joined test has a report for each device"  # noqa: PT018, S101 - for mypy
    return MergedRun(run=_run(reports, records, cpu.run, gpu.run, ratio), joined=joined)


def _records(report: Report) -> Iterator[ReportedRecord]:
    """Yield a report's records; variants were compared in it, and have no results for others."""
    pairings = (record.pairing for record in report.run.records)
    partners = {pairing.partner for pairing in pairings if pairing}
    for record in report.run.records:
        measurements = {kind: measured for kind in KINDS if (measured := record.measurement(kind))}
        is_alone = record.pairing and not record.pairing.partner and record.nodeid not in partners
        if len(measurements) < 2 and not is_alone:
            measurements = {}
        yield ReportedRecord(report=report, record=record, measurements=measurements)


def _check_unique(copies: Sequence[ReportedRecord]) -> None:
    """Refuse a device's result that two reports have: nothing decides between them."""
    for one, other in combinations(copies, 2):
        if both := [kind for kind in one.measurements if kind in other.measurements]:
            results = " and ".join(f"{kind.upper()} result" for kind in both)
            remedy = "leave one out"
            if both == ["gpu"]:
                remedy += "; merge a CPU run with one GPU run at a time"
            names = f"{one.report.name} and {other.report.name}"
            raise GpuPerfError(f"{names} both have a {results} of {one.record.nodeid}; {remedy}")


def _check_same_conditions(shards: Sequence[Report]) -> None:
    """Refuse shards of different machines: a report has one environment, which its speedups depend on."""
    for one, other in combinations(shards, 2):
        if differences := fingerprint.run_differences(one.run.environment, other.run.environment):
            names = f"{one.name} and {other.name}"
            cause = f"were measured in different conditions ({'; '.join(differences)})"
            raise GpuPerfError(f"{names} {cause}, and a report has only one environment; keep two reports")


def _record(
    copies: Sequence[ReportedRecord], results: dict[Kind, ReportedRecord], ratio: float | None
) -> Record:
    """Return one test's record from all reports together."""
    if len(results) == 2:
        return merge_results(results["cpu"], results["gpu"], ratio)
    whole = next((entry.record for entry in copies if len(entry.measurements) == 2), None)
    if whole is not None:
        return whole
    if not results:
        return _most_severe(copies)
    (result,) = results.values()
    # An unmeasured record may explain why the other device's result is missing.
    failed = (entry for entry in copies if entry.record.status not in ("passed", "recorded"))
    pairings = ((entry, entry.record.pairing) for entry in failed)
    causes = [entry for entry, pairing in pairings if pairing is None or pairing.kind != result.kind]
    return unpaired(result, _most_severe(causes) if causes else None)


def _most_severe(copies: Sequence[ReportedRecord]) -> Record:
    """Return the record with the most severe status."""
    return min((entry.record for entry in copies), key=lambda record: _MOST_SEVERE_FIRST.index(record.status))


def _run(
    reports: Sequence[Report], records: tuple[Record, ...], cpu: Run, gpu: Run, ratio: float | None
) -> Run:
    commit = _shared([report.run.commit for report in reports])
    return Run(
        environment=_environment(cpu.environment, gpu.environment),
        started=min(report.run.started for report in reports),
        records=records,
        thresholds=threshold.find(records),
        scalings=scaling.curves(records),
        cost_ratio=ratio,
        complete=all(report.run.complete for report in reports),
        unmarked=max(filter(None, (report.run.unmarked for report in reports)), default=None),
        unknown_values=_unknown_values(reports),
        merged=_merged(reports),
        arguments=_shared([report.run.arguments for report in reports]) or (),
        commit=commit,
    )


def _shared(values: Sequence[_Value]) -> _Value | None:
    """Return what all runs have; None where they differ."""
    return values[0] if all(value == values[0] for value in values) else None


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


def _unknown_values(reports: Sequence[Report]) -> tuple[UnknownValue, ...]:
    """Return each value once, with the most tests that had it in a run."""
    most: dict[tuple[str, str], UnknownValue] = {}
    for value in (item for report in reports for item in report.run.unknown_values):
        key = (value.parameter, value.value)
        most[key] = max(most.setdefault(key, value), value, key=lambda item: item.tests)
    return tuple(most.values())


def _merged(reports: Sequence[Report]) -> Merged:
    environments = [report.run.environment for report in reports]
    ratios = dict.fromkeys(f"{report.run.cost_ratio:g}" for report in reports if report.run.cost_ratio)
    prices = (f"cost ratio: {', '.join(ratios)}",) if len(ratios) > 1 else ()
    return Merged(
        reports=tuple(report.name for report in reports),
        hosts_differ=fingerprint.hosts_differ(environments),
        differences=(*fingerprint.environment_differences(environments), *prices),
    )
