"""From the reports of several runs to one run: a test that ran once on each device gets its verdict."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from msgspec.structs import asdict, replace

from pytest_gpuperf.analysis import diagnosis, judgement, scaling, threshold
from pytest_gpuperf.gate import fingerprint
from pytest_gpuperf.model.demand import KINDS, Kind, RunOptions
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import Measurement
from pytest_gpuperf.model.record import Merged, Note, Record, Report, Run
from pytest_gpuperf.report.verdicts import GRAVITY

_NOT_COMPARED = "the results were not compared: the CPU and the GPU variant ran in two runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    """A test's record in one report; what its `measurements` are of, no other report may have measured."""

    report: Report
    record: Record
    measurements: dict[Kind, Measurement]


def merge(reports: Sequence[Report]) -> Run:
    """Return the run that reports make together: of runs on one device each, or of shards of one run.

    Raises GpuPerfError when two of them have the same device's result of a test, when shards were measured
    in different conditions, when GPUs were judged at different prices, and when no test was compared, in one
    report or between two.
    """
    shards = [each for each in reports if any(map(_is_compared, each.run.records))]
    _check_same_conditions(reports, shards)
    tests: dict[str, list[_Result]] = {}
    for result in (result for report in reports for result in _results(report)):
        tests.setdefault(result.record.nodeid, []).append(result)
    pairs = {nodeid: pair for nodeid, results in tests.items() if (pair := _pair(results))}
    records = tuple(
        _joined(*pairs[nodeid])
        if nodeid in pairs
        else _carried_over(results, joins=bool(pairs or not shards))
        for nodeid, results in tests.items()
    )
    joined = [pairs[record.nodeid] for record in records if record.speedup and record.nodeid in pairs]
    if not joined and not shards:
        cause = next((f"; {record.nodeid}: {record.reason}" for record in records if record.reason), "")
        missing = "no test has a CPU result in one report and a GPU result in another"
        raise GpuPerfError(f"nothing to merge: {missing}{cause}")
    cpu, gpu = (half.report.run for half in joined[0]) if joined else (shards[0].run, shards[0].run)
    return _run(reports, records, cpu, gpu)


def _is_compared(record: Record) -> bool:
    """Return whether a run has measured what its test is about: both devices, or so many of one kind."""
    return record.speedup is not None or (record.scaling is not None and record.gpu is not None)


def _run(reports: Sequence[Report], records: tuple[Record, ...], cpu: Run, gpu: Run) -> Run:
    """Return the run that these records make; `cpu` and `gpu` are the runs that measured on each device."""
    here, there = cpu.environment, gpu.environment
    runs = [report.run for report in reports]
    return Run(
        started=min(run.started for run in runs),
        complete=all(run.complete for run in runs),
        cost_ratio=gpu.cost_ratio,
        arguments=gpu.arguments if len({run.arguments for run in runs}) == 1 else (),
        narrowed_by=tuple(dict.fromkeys(option for run in runs for option in run.narrowed_by)),
        environment=replace(
            there, host=here.host, cpu=here.cpu, thread_pools=here.thread_pools, variables=here.variables
        ),
        records=records,
        thresholds=threshold.find(records),
        scalings=scaling.curves(records),
        unmarked=max(filter(None, (run.unmarked for run in runs)), default=None),
        unknown_values=tuple(dict.fromkeys(value for run in runs for value in run.unknown_values)),
        merged=Merged(
            reports=tuple(report.name for report in reports),
            differences=fingerprint.environment_differences([run.environment for run in runs]),
        ),
        commit=gpu.commit if len({run.commit for run in runs}) == 1 else None,
        job=gpu.job if len({run.job for run in runs}) == 1 else None,
    )


def _results(report: Report) -> Iterator[_Result]:
    """Yield the results of a report; variants were compared in it, and have no measurement for another."""
    partners = {record.pairing.partner for record in report.run.records if record.pairing}
    for record in report.run.records:
        measured = {kind: found for kind in KINDS if (found := record.measurement(kind))}
        is_alone = record.pairing and not record.pairing.partner and record.nodeid not in partners
        kept = measured if len(measured) == 2 or is_alone else {}
        yield _Result(report=report, record=record, measurements=kept)


def _check_same_conditions(reports: Sequence[Report], shards: Sequence[Report]) -> None:
    """Refuse shards of different machines, and results of GPUs that were judged at different prices.

    A report has one environment, which its speedups depend on, and one cost ratio.
    """
    with_gpu = [report for report in reports if any(record.gpu for record in report.run.records)]
    for one, other in combinations(reports, 2):
        differences: tuple[str, ...] = ()
        if one in shards and other in shards:
            differences = fingerprint.run_differences(one.run.environment, other.run.environment)
        if one in with_gpu and other in with_gpu and one.run.cost_ratio != other.run.cost_ratio:
            differences += (f"cost ratio: {_price(one)}, {_price(other)}",)
        if differences:
            cause = f"were measured in different conditions ({'; '.join(differences)})"
            remedy = "and a report has only one environment and one cost ratio; keep two reports"
            raise GpuPerfError(f"{one.name} and {other.name} {cause}, {remedy}")


def _price(report: Report) -> str:
    return "none" if report.run.cost_ratio is None else f"{report.run.cost_ratio:g}"


def _pair(results: Sequence[_Result]) -> tuple[_Result, _Result] | None:
    """Return the results of one device each, if a test has both; refuse a device's that two reports have."""
    found: dict[Kind, _Result] = {}
    for result in results:
        for kind in result.measurements:
            if (other := found.setdefault(kind, result)) is not result:
                both = f"{other.report.name} and {result.report.name} both have a {kind.upper()} result"
                remedy = "leave one out, or merge a CPU run with one GPU run at a time"
                raise GpuPerfError(f"{both} of {result.record.nodeid}; {remedy}")
    is_pair = len(found) == 2 and found["cpu"] is not found["gpu"]
    return (found["cpu"], found["gpu"]) if is_pair else None


def _carried_over(results: Sequence[_Result], *, joins: bool) -> Record:
    """Return the record of a test that no two reports make together: the one with most measurements.

    Where reports of two devices are joined, a result of one device lacks that of the other.
    """
    found = min(results, key=lambda each: (-len(each.measurements), GRAVITY[each.record.status]))
    ran = [each for each in results if not each.record.is_deselected]
    if len(found.measurements) != 1 or (len(ran) < 2 and not joins):
        return found.record
    missing = "GPU" if "cpu" in found.measurements else "CPU"
    absent = f"no report has its {missing} result; a test needs the same node id in both runs"
    ended = _as_one_ended(found.record, ran)
    return ended or (_failed(found.record, absent) if joins else found.record)


def _as_one_ended(record: Record, results: Sequence[_Result]) -> Record | None:
    """Return a record that ends as the gravest of the results, unless all were measured as they should be."""
    ended = [each for each in results if each.record.status not in ("passed", "recorded")]
    if not ended:
        return None
    gravest = min(ended, key=lambda each: GRAVITY[each.record.status])
    status, reason = gravest.record.status, f"{gravest.record.status} in {gravest.report.name}"
    return replace(record, status=status, reason=f"{reason}: {gravest.record.reason}", reason_code=None)


def _joined(cpu: _Result, gpu: _Result) -> Record:
    """Return the record of a test from both results; its reason is why it has no speedup, if so."""
    on_cpu, on_gpu = cpu.record, gpu.record
    demand = on_cpu.demand if on_gpu.demand.bare else on_gpu.demand  # where they differ, an error must fail
    not_compared = [Note(code="results_not_compared", text=_NOT_COMPARED)] if demand.check else []
    notes = [note for note in (*not_compared, *on_cpu.notes, *on_gpu.notes) if note.code != "no_partner"]
    record = replace(
        on_gpu,
        demand=demand,
        cpu=on_cpu.cpu,
        rounds_elapsed=min(on_cpu.rounds_elapsed or 0.0, on_gpu.rounds_elapsed or 0.0),
        elapsed=(on_cpu.elapsed or 0.0) + (on_gpu.elapsed or 0.0),
        interference=on_cpu.interference,
        restart_reason=on_cpu.restart_reason or on_gpu.restart_reason,
        notes=tuple(dict.fromkeys(notes)),
        pairing=None,
    )
    if (ended := _as_one_ended(record, (cpu, gpu))) is not None:
        return ended
    if (problem := _unjoinable(cpu, gpu)) is not None:
        return _failed(record, problem)
    judged = judgement.judge_apart(record, RunOptions(cost_ratio=gpu.report.run.cost_ratio))
    surveyed = cpu.report.run.environment
    threads = max((pool.threads for pool in surveyed.thread_pools), default=None)
    return diagnosis.annotate(judged, lambda: (surveyed.usable_processors, threads))


def _unjoinable(cpu: _Result, gpu: _Result) -> str | None:
    """Return why two results make no speedup: other requirements, or samples or copies that are missing."""
    of_cpu, of_gpu = _terms(cpu.record), _terms(gpu.record)
    if differ := [name for name in of_cpu if of_cpu[name] != of_gpu[name]]:
        terms = ((of_cpu, cpu.report.name), (of_gpu, gpu.report.name))
        listed = [f"{', '.join(f'{name}={of[name]}' for name in differ)} in {name}" for of, name in terms]
        return f"its CPU and GPU variants have different requirements: {', '.join(listed)}"
    demand, transfer = gpu.record.demand, gpu.record.transfer
    for kind, half in zip(KINDS, (cpu, gpu), strict=True):
        if min(half.measurements[kind].samples_for(demand), default=0.0) <= 0:
            return f"{half.report.name} has no {kind.upper()} times to judge it by"
    is_timed = transfer is not None and (transfer.bytes == 0 or transfer.loop or transfer.samples)
    if demand.transfer == "never" or is_timed:
        return None
    return f"transfer={demand.transfer!r} needs the times of the copies, which {gpu.report.name} lacks"


def _terms(record: Record) -> dict[str, object]:
    """Return what must be the same for two results to be of one test."""
    return {**asdict(record.demand), "scope": record.scope, "size_group": record.size_group}


def _failed(record: Record, reason: str) -> Record:
    return replace(record, status="error", reason=reason, reason_code=None)
