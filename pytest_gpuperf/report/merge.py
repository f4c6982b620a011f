"""From the reports of shards, each with some tests of one suite, to the run that they make together."""

from collections.abc import Iterator, Sequence
from itertools import combinations

from pytest_gpuperf.analysis import scaling, threshold
from pytest_gpuperf.gate import fingerprint
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Record, Report, Run
from pytest_gpuperf.report.words.verdicts import GRAVITY

_IN_ONE_RUN = "a CPU and a GPU are compared in one run only, which measures both"


def merge(reports: Sequence[Report]) -> Run:
    """Return the run that shards make together, in which each test stays as it ended.

    Raises GpuPerfError when no test was compared, when two reports have measured the same test, and when they
    were measured in different conditions: a report has one environment, which its speedups depend on.
    """
    if not any(_is_compared(record) for report in reports for record in report.run.records):
        raise GpuPerfError(f"nothing to merge: no report has a test that was compared; {_IN_ONE_RUN}")
    records = tuple(_records(reports))
    measured = [report for report in reports if any(map(_is_measured, report.run.records))]
    for one, other in combinations(measured, 2):
        _check_same_conditions(one, other)
    run, runs = measured[0].run, [report.run for report in reports]
    return Run(
        started=min(each.started for each in runs),
        complete=all(each.complete for each in runs),
        cost_ratio=run.cost_ratio,
        arguments=run.arguments if len({each.arguments for each in runs}) == 1 else (),
        narrowed_by=tuple(dict.fromkeys(option for each in runs for option in each.narrowed_by)),
        environment=run.environment,
        records=records,
        thresholds=threshold.find(records),
        scalings=scaling.curves(records),
        unmarked=None if run.unmarked is None else sum(each.unmarked or 0 for each in runs),
        unknown_values=tuple(dict.fromkeys(value for each in runs for value in each.unknown_values)),
        commit=run.commit if len({each.commit for each in runs}) == 1 else None,
        job=run.job if len({each.job for each in runs}) == 1 else None,
    )


def _is_compared(record: Record) -> bool:
    """Return whether a run has measured what its test is about: both devices, or so many of one kind."""
    return record.speedup is not None or (record.scaling is not None and record.gpu is not None)


def _is_measured(record: Record) -> bool:
    return record.cpu is not None or record.gpu is not None


def _records(reports: Sequence[Report]) -> Iterator[Record]:
    """Yield the record of each test; of several that of a shard that ran it, the gravest first."""
    found: dict[str, list[tuple[Report, Record]]] = {}
    for report in reports:
        for record in report.run.records:
            found.setdefault(record.nodeid, []).append((report, record))
    for nodeid, results in found.items():
        measured = [report.name for report, record in results if _is_measured(record)]
        if len(measured) > 1:
            both = f"{measured[0]} and {measured[1]} both have a result of {nodeid}"
            raise GpuPerfError(f"{both}; leave one out; {_IN_ONE_RUN}")
        records = (record for _, record in results)
        yield min(records, key=lambda each: (GRAVITY[each.status], each.is_deselected))


def _check_same_conditions(one: Report, other: Report) -> None:
    differences = fingerprint.run_differences(one.run.environment, other.run.environment)
    if one.run.cost_ratio != other.run.cost_ratio:
        differences += (f"cost ratio: {_price(one)}, {_price(other)}",)
    if differences:
        cause = f"were measured in different conditions ({'; '.join(differences)})"
        remedy = "and a report has only one environment and one cost ratio; keep two reports"
        raise GpuPerfError(f"{one.name} and {other.name} {cause}, {remedy}")


def _price(report: Report) -> str:
    return "none" if report.run.cost_ratio is None else f"{report.run.cost_ratio:g}"
