"""From the reports of several runs to one report: a test that ran once on each device gets its verdict."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, cycle, repeat
from math import inf
from typing import TypeVar

from msgspec.structs import asdict, replace

from pytest_gpuperf.analysis import diagnosis, estimation, noise, scaling, threshold
from pytest_gpuperf.analysis.estimation import Sampled
from pytest_gpuperf.analysis.judgement import judge_offline
from pytest_gpuperf.analysis.offload import OffloadInput
from pytest_gpuperf.gate import fingerprint, policy
from pytest_gpuperf.gate.table import Rules
from pytest_gpuperf.model.demand import KINDS, Kind, RunOptions, UnknownValue
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import Measurement, Memory, Round
from pytest_gpuperf.model.record import Environment, Merged, Note, Record, Report, Run, Status, Verdict

_Value = TypeVar("_Value")
_MOST_SEVERE_FIRST: tuple[Status, ...] = ("error", "failed", "inconclusive", "passed", "recorded", "skipped")
_RESULTS_NOT_COMPARED = Note(
    code="results_not_compared",
    text="the results were not compared: the CPU and the GPU variant ran in two runs",
)
_MEMORY_NOT_REPORTED = Memory(peak=None, reason="the report does not say how much memory a call holds")
# One device's status that is the whole test's, too, in words; any other makes the test an error.
_ENDED: dict[Status, str] = {"skipped": "was skipped", "inconclusive": "is inconclusive"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedRun:
    """The run that reports make together; `joined` are the tests (node ids) whose results come from two."""

    run: Run
    joined: tuple[str, ...]

    def failures(self, options: RunOptions) -> tuple[str, ...]:
        """Return what fails, test by test and then threshold by threshold, as in a run of pytest."""
        rules = Rules(run=options)
        records = (record for record in self.run.records if policy.decide(record, None, rules).failure)
        missed = (each for each in self.run.thresholds if policy.threshold_fails(each, options))
        texts = [f"{record.nodeid}: {record.status}: {record.reason}" for record in records]
        texts += [f"threshold of {each.name}: {each.status}: {each.reason}" for each in missed]
        return tuple(texts)

    def doubts(self, options: RunOptions) -> tuple[str, ...]:
        """Return the inconclusive tests that do not fail, with the reason."""
        rules = Rules(run=options)
        inconclusive = (record for record in self.run.records if record.status == "inconclusive")
        passing = (record for record in inconclusive if not policy.decide(record, None, rules).failure)
        return tuple(f"{record.nodeid}: {record.status}: {record.reason}" for record in passing)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReportedRecord:
    """A test's record in one report; `measurements` are those that others can be joined with."""

    report: Report
    record: Record
    measurements: dict[Kind, Measurement]

    @property
    def kind(self) -> Kind:
        """The device of a result of one device."""
        return next(iter(self.measurements))

    @property
    def measurement(self) -> Measurement:
        """The measurement of a result of one device."""
        return self.measurements[self.kind]


def merge(reports: Sequence[Report]) -> MergedRun:
    """Return the run that reports make together: of runs on one device each, or of shards of one run.

    Raises GpuPerfError when two of them have the same device's result of a test, when shards were measured
    in different conditions, and when no test was compared, in one report or between two.
    """
    tests: dict[str, list[_ReportedRecord]] = {}
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


def _records(report: Report) -> Iterator[_ReportedRecord]:
    """Yield a report's records; variants were compared in it, and have no results for others."""
    pairings = (record.pairing for record in report.run.records)
    partners = {pairing.partner for pairing in pairings if pairing}
    for record in report.run.records:
        measurements = {kind: measured for kind in KINDS if (measured := record.measurement(kind))}
        is_alone = record.pairing and not record.pairing.partner and record.nodeid not in partners
        if len(measurements) < 2 and not is_alone:
            measurements = {}
        yield _ReportedRecord(report=report, record=record, measurements=measurements)


def _check_unique(copies: Sequence[_ReportedRecord]) -> None:
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
    copies: Sequence[_ReportedRecord], results: dict[Kind, _ReportedRecord], ratio: float | None
) -> Record:
    """Return one test's record from all reports together."""
    if len(results) == 2:
        return _joined(results["cpu"], results["gpu"], ratio)
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
    return _unpaired(result, _most_severe(causes) if causes else None)


def _most_severe(copies: Sequence[_ReportedRecord]) -> Record:
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


def _joined(cpu: _ReportedRecord, gpu: _ReportedRecord, cost_ratio: float | None) -> Record:
    """Return the record of a test from both results; its reason is why it has no speedup, if so."""
    record = _combined(cpu, gpu)
    verdict = _unusable(cpu) or _unusable(gpu) or _disagreement(cpu, gpu) or _unpairable(cpu, gpu)
    if verdict is not None:
        return replace(record, **asdict(verdict))
    options = RunOptions(cost_ratio=cost_ratio)
    on_cpu, on_gpu = (result.measurement.samples_for(record.demand) for result in (cpu, gpu))
    copies = record.transfer.beside(on_gpu) if record.transfer else []
    included = copies if record.demand.transfer != "never" else ()
    # As of variants in one run: where the GPU has more samples, those of the CPU begin again.
    times = zip(cycle(on_cpu), on_gpu, included or repeat(0.0), strict=False)
    rounds = [Round(cpu=one, gpu=other, copies=copied) for one, other, copied in times]
    sampled = Sampled(
        cpu=on_cpu,
        gpu=[estimation.gpu_time(each, record.demand) for each in rounds] if included else on_gpu,
        seconds=record.rounds_elapsed or 0.0,
        sampling="variants",
    )
    speedup = sampled.speedup()
    assert speedup is not None, "results that can be paired have a round"  # noqa: S101 - for mypy
    latency = record.demand.latency
    dropped = gpu.record.dropped_rounds
    interference = noise.worst_in_report(cpu.measurement, cpu.record.interference, latency=latency)
    gpu_interference = noise.worst_in_report(gpu.measurement, gpu.record.gpu_interference, latency=latency)
    measured = OffloadInput(
        demand=record.demand,
        regime="body" if record.scope == "body" else record.demand.transfer,
        cpu=cpu.measurement,
        gpu=gpu.measurement,
        rounds=rounds,
        sampled=sampled,
        speedup=speedup,
        copies=copies[: len(rounds)],
        transfer=record.transfer,
        disturbance=sampled.in_spite_of(interference, gpu_interference),
        throttled=noise.throttle_reason(dropped, dropped + len(gpu.measurement.samples_for(record.demand))),
    )
    judged = judge_offline(measured, options, record.memory or _MEMORY_NOT_REPORTED)
    joined = replace(
        record,
        **asdict(judged.verdict),
        interference=interference,
        gpu_interference=gpu_interference,
        speedup=speedup,
        offload=judged.offload,
        notes=tuple(dict.fromkeys([*_notes(cpu, gpu), *record.notes, *judged.notes])),
    )
    surveyed = cpu.report.run.environment
    threads = max((pool.threads for pool in surveyed.thread_pools), default=None)
    return diagnosis.annotate(joined, lambda: (surveyed.usable_processors, threads))


def _unpaired(result: _ReportedRecord, other: Record | None) -> Record:
    """Return the record of a test with one result only; `other` is a record that explains why, if any."""
    missing = "GPU" if result.kind == "cpu" else "CPU"
    verdict = _unusable(result)
    if verdict is None and other is not None:
        verdict = _of_variant(missing, other.status, other.reason)
    if verdict is None:
        verdict = _error(f"no report has its {missing} result; a test needs the same node id in both runs")
    return replace(result.record, **asdict(verdict))


def _combined(cpu: _ReportedRecord, gpu: _ReportedRecord) -> Record:
    """Return both results in one record, with the GPU's demand unless only the CPU's has limits."""
    on_cpu, on_gpu = cpu.record, gpu.record
    notes = [note for note in (*on_cpu.notes, *on_gpu.notes) if note.code != "one_device"]
    return replace(
        on_gpu,
        demand=on_cpu.demand if on_gpu.demand.bare else on_gpu.demand,
        size_group=on_gpu.size_group or on_cpu.size_group,
        cpu=cpu.measurement,
        gpu=gpu.measurement,
        check=None,
        offload=None,
        diagnosis=(),
        dropped_rounds=on_cpu.dropped_rounds + on_gpu.dropped_rounds,
        check_elapsed=None,
        rounds_elapsed=min(on_cpu.rounds_elapsed or 0.0, on_gpu.rounds_elapsed or 0.0),
        elapsed=_sum(on_cpu.elapsed, on_gpu.elapsed),
        interference=on_cpu.interference,
        restart_reason=on_cpu.restart_reason or on_gpu.restart_reason,
        notes=tuple(dict.fromkeys(notes)),
        pairing=on_gpu.pairing and replace(on_gpu.pairing, partner=on_cpu.nodeid),
        reruns=max(on_cpu.reruns, on_gpu.reruns),
        turn_wait=_sum(on_cpu.turn_wait, on_gpu.turn_wait),
    )


def _unusable(result: _ReportedRecord) -> Verdict | None:
    """Return what one result's status makes of the whole test, unless it was measured as it should be.

    One result alone can miss no limit but that of its memory, which is judged again.
    """
    record = result.record
    of_memory = record.reason_code in ("memory_above_limit", "memory_not_known")
    if of_memory or record.status in ("recorded", "passed"):
        return None
    return _of_variant(result.kind.upper(), record.status, record.reason)


def _of_variant(name: str, status: Status, reason: str | None) -> Verdict:
    whole = status if status in _ENDED else "error"
    return Verdict(status=whole, reason=f"its {name} variant {_ENDED.get(status, 'failed')}: {reason}")


def _disagreement(cpu: _ReportedRecord, gpu: _ReportedRecord) -> Verdict | None:
    """Return that the results are not of the same test, or have different limits."""
    cpu_terms = _terms(cpu.record)
    gpu_terms = _terms(gpu.record)
    names = [name for name in {**cpu_terms, **gpu_terms} if cpu_terms.get(name) != gpu_terms.get(name)]
    if not names:
        return None
    terms = ((cpu_terms, cpu.report.name), (gpu_terms, gpu.report.name))
    listed = (f"{', '.join(f'{name}={of.get(name)}' for name in names)} in {report}" for of, report in terms)
    return _error(f"its CPU and GPU variants have different requirements: {', '.join(listed)}")


def _terms(record: Record) -> dict[str, object]:
    """Return the demand, and what else must be the same for two results to be of one test."""
    size_group = {} if record.size_group is None else asdict(record.size_group)
    return {**asdict(record.demand), "scope": record.scope, **size_group}


def _unpairable(cpu: _ReportedRecord, gpu: _ReportedRecord) -> Verdict | None:
    """Return why the samples cannot be paired, if they cannot."""
    demand, transfer = gpu.record.demand, gpu.record.transfer
    for result in (cpu, gpu):
        samples = result.measurement.samples_for(demand)
        variant = f"its {result.kind.upper()} variant"
        if not samples:
            kind = " of awaited calls" if demand.latency else ""
            return _error(f"{variant} has no samples{kind}")
        if not all(0 < sample < inf for sample in samples):
            return _error(f"{variant} has samples that are not times")
    if demand.transfer == "never" or (
        transfer and (transfer.bytes == 0 or transfer.loop or transfer.samples)
    ):
        return None
    cause = f": {transfer.reason}" if transfer and transfer.reason else ""
    needs = f"transfer={demand.transfer!r} needs the times of the copies"
    return _error(f"{needs}, and its GPU variant lacks them{cause}")


def _error(reason: str) -> Verdict:
    return Verdict(status="error", reason=reason)


def _notes(cpu: _ReportedRecord, gpu: _ReportedRecord) -> list[Note]:
    """Return what to know about a speedup of two runs."""
    environments = (cpu.report.run.environment, gpu.report.run.environment)
    notes = [_RESULTS_NOT_COMPARED] if gpu.record.demand.check else []
    if fingerprint.hosts_differ(environments):
        names = " and ".join(fingerprint.machine_names(environments))
        text = f"its CPU and GPU variants ran on different machines, {names}: the speedup is of two machines"
        notes.append(Note(code="different_machines", text=text))
    return notes


def _sum(*seconds: float | None) -> float | None:
    """Return the sum of the times that are known, None of none."""
    known = [time for time in seconds if time is not None]
    return sum(known) if known else None
