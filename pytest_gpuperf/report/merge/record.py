"""From a test's CPU result and its GPU result, of one run each, to its record."""

from dataclasses import asdict, dataclass, replace
from itertools import repeat
from math import inf

from pytest_gpuperf.analysis import diagnosis, estimation, noise, spacing
from pytest_gpuperf.analysis.estimation import Exclusion, SequentialEstimator
from pytest_gpuperf.analysis.judgement import judge_offline
from pytest_gpuperf.analysis.offload import OffloadInput
from pytest_gpuperf.gate import fingerprint, metrics
from pytest_gpuperf.model.demand import Kind, RunOptions
from pytest_gpuperf.model.measurement import Measurement, Memory, Round
from pytest_gpuperf.model.record import Note, Record, Report, Status, Verdict

_RESULTS_NOT_COMPARED = Note(
    code="results_not_compared",
    text="the results were not compared: the CPU and the GPU variant ran in two runs",
)
_MEMORY_NOT_REPORTED = Memory(peak=None, reason="the report does not say how much memory a call holds")
# One device's status that is the whole test's, too, in words; any other makes the test an error.
_ENDED: dict[Status, str] = {"skipped": "was skipped", "inconclusive": "is inconclusive"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedRecord:
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


def merge_results(cpu: ReportedRecord, gpu: ReportedRecord, cost_ratio: float | None) -> Record:
    """Return the record of a test from both results; its reason is why it has no speedup, if so."""
    record = _combined(cpu, gpu)
    verdict = _unusable(cpu) or _unusable(gpu) or _disagreement(cpu, gpu) or _unpairable(cpu, gpu)
    if verdict is not None:
        return replace(record, **asdict(verdict))
    options = RunOptions(alpha=record.demand.alpha, cost_ratio=cost_ratio)
    on_gpu = gpu.measurement.samples_for(record.demand)
    copies = record.transfer.beside(on_gpu) if record.transfer else []
    included = copies if record.demand.transfer != "never" else ()
    sampled = (result.measurement.samples_for(record.demand) for result in (cpu, gpu))
    times = zip(*sampled, included or repeat(0.0), strict=False)  # in order; the longer ends are left out
    rounds = [Round(cpu=one, gpu=other, copies=copied) for one, other, copied in times]
    at_one = [Exclusion(1.0, 1.0, "either")] if record.size_group else []
    alpha_share = estimation.alpha_share(restarted=record.restart_reason is not None)
    estimator = SequentialEstimator(record.demand, options, at_one, alpha_share=alpha_share)
    for one_round in rounds:
        estimator.add(one_round)
    lasted = min(metrics.lasted(result.record) for result in (cpu, gpu))
    speedup = estimator.speedup("variants", confirmation=spacing.confirmation(estimator, lasted))
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
        speedup=speedup,
        copies=copies[: len(rounds)],
        transfer=record.transfer,
        disturbance=estimation.undisturbed(
            speedup,
            rounds,
            record.demand,
            options,
            cpu=interference,
            gpu=gpu_interference,
            alpha_share=alpha_share,
        ),
        throttled=noise.throttle_reason(dropped, dropped + len(gpu.measurement.samples_for(record.demand))),
        alpha_share=alpha_share,
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


def unpaired(result: ReportedRecord, other: Record | None) -> Record:
    """Return the record of a test with one result only; `other` is a record that explains why, if any."""
    missing = "GPU" if result.kind == "cpu" else "CPU"
    verdict = _unusable(result)
    if verdict is None and other is not None:
        verdict = _of_variant(missing, other.status, other.reason)
    if verdict is None:
        verdict = _error(f"no report has its {missing} result; a test needs the same node id in both runs")
    return replace(result.record, **asdict(verdict))


def _combined(cpu: ReportedRecord, gpu: ReportedRecord) -> Record:
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
        round_time=_sum(on_cpu.round_time, on_gpu.round_time),
        rounds_elapsed=_sum(on_cpu.rounds_elapsed, on_gpu.rounds_elapsed),
        elapsed=_sum(on_cpu.elapsed, on_gpu.elapsed),
        interference=on_cpu.interference,
        restart_reason=on_cpu.restart_reason or on_gpu.restart_reason,
        notes=tuple(dict.fromkeys(notes)),
        pairing=on_gpu.pairing and replace(on_gpu.pairing, partner=on_cpu.nodeid),
        reruns=max(on_cpu.reruns, on_gpu.reruns),
        turn_wait=_sum(on_cpu.turn_wait, on_gpu.turn_wait),
    )


def _unusable(result: ReportedRecord) -> Verdict | None:
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


def _disagreement(cpu: ReportedRecord, gpu: ReportedRecord) -> Verdict | None:
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


def _unpairable(cpu: ReportedRecord, gpu: ReportedRecord) -> Verdict | None:
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
    return _error(f"{needs}, and its GPU variant has none{cause}")


def _error(reason: str) -> Verdict:
    return Verdict(status="error", reason=reason)


def _notes(cpu: ReportedRecord, gpu: ReportedRecord) -> list[Note]:
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
