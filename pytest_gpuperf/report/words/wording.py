"""From a run to what every form of a report says of it: cells, changes, reasons, curves, the environment."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pytest_gpuperf.analysis.scaling import efficiency_text, karp_flatt_text
from pytest_gpuperf.analysis.verdict import ratio
from pytest_gpuperf.gate import metrics
from pytest_gpuperf.gate import text as gate_text
from pytest_gpuperf.model import units
from pytest_gpuperf.model.comparison import Comparison
from pytest_gpuperf.model.demand import UnknownValue
from pytest_gpuperf.model.measurement import Estimate, Speedup
from pytest_gpuperf.model.metrics import TABLE
from pytest_gpuperf.model.offload import Threshold
from pytest_gpuperf.model.record import Environment, Record, Run
from pytest_gpuperf.model.scaling import ScalingCurve, ScalingPoint
from pytest_gpuperf.report.words import alike
from pytest_gpuperf.report.words.verdicts import FAILURES, GRAVITY, CountedCode, in_words, verdict, worst

PROPERTY_PREFIX = "gpuperf."
_APART = 0.05  # from the ratio of the times in the row: more than rounding and usual noise
_OF_ROUNDS = "the median of the rounds' ratios, because times changed between rounds"
_WITH_MORE = "with copies or waits, as its limit"
_NO_END = (
    "? in a range: an end that is not known, for one round shows no range, or other work may have taken any "
    "share of the time"
)


def cells_of(record: Record) -> dict[str, str]:
    """Return the cells of a record's row, by their headings; the GPU's stand under `emulated`, too."""
    always = record.offload.always if record.offload else None
    gpu = format_time(record.gpu.median) if record.gpu else _longest_gpu_call(record)
    return {
        "CPU": format_time(record.cpu.median if record.cpu else None),
        "GPU": gpu,
        "emulated": gpu,
        "speedup": f"{'~' if is_apart(record) else ''}{ratio(record.speedup)}" if record.speedup else "-",
        "with copies": ratio(always) if always else "-",
        "limit": _limit(record),
        "change": _change(record),
        "verdict": verdict(record),
    }


def in_one_row(record: Record) -> dict[str, str]:
    """Return the cells that are shorter where a test takes one row: without a range, and rounded to it."""
    always = record.offload.always if record.offload else None
    if always is None or always.low is None or always.high is None:
        return {}
    return {"with copies": f"{units.digits_within(always.value, always.low, always.high)}x"}


def is_apart(record: Record) -> bool:
    """Return whether a row's speedup is visibly another one than that of its two times."""
    cpu, gpu = (side.median if side else None for side in (record.cpu, record.gpu))
    if record.speedup is None or not cpu or not gpu:
        return False
    return abs(record.speedup.value * gpu / cpu - 1) > _APART


class Explanation(NamedTuple):
    """What a mark or a value in a column's cells means, which its heading does not say."""

    heading: str
    text: str


def explanations(rows: Sequence[tuple[str, Record]], *, all_names: bool = False) -> Iterator[Explanation]:
    """Yield what is to be known of some cells in the rows of named tests, if any are so."""
    apart = [record.demand for _, record in rows if is_apart(record)]
    includes_more = [demand.transfer != "never" or demand.latency for demand in apart]
    causes = [*[_OF_ROUNDS] * (not all(includes_more)), *[_WITH_MORE] * any(includes_more)]
    if causes:
        text = f"~ not the ratio of the test's two times, but {'; or '.join(causes)}"
        yield Explanation("speedup", text)
    if any(record.gpu is None and _longest_gpu_call(record) != "-" for _, record in rows):
        yield Explanation("GPU", "needs: how long a call may take on a GPU to meet the limit")
    if any(_is_open(_of_speedup(record)) for _, record in rows):
        yield Explanation("speedup", _NO_END)
    elif any(_is_open([record.offload.always]) for _, record in rows if record.offload):
        yield Explanation("with copies", _NO_END)
    if above := [name for name, record in rows if _is_above_without(record)]:
        tests = units.first_few(above, None if all_names else 3)
        why = "by noise, for copies only add time: the two rest on other rounds"
        yield Explanation("with copies", f"with copies above the speedup ({tests}): {why}")


def words_in_limits(records: Sequence[Record]) -> Iterator[tuple[str, str]]:
    """Yield the words that stand behind the limits of tests, each with its meaning."""
    limited = [record.demand for record in records if record.scaling is None and record.demand.limits]
    if any(demand.transfer == "always" for demand in limited):
        yield "always", "with copies at every call"
    if any(demand.transfer == "once" for demand in limited):
        yield "once/N", "with copies once for N calls"
    if any(demand.latency for demand in limited):
        yield "latency", "of single calls, each waited for"
    if any(record.scaling and record.scaling.is_judged for record in records):
        yield "eff.", "parallel efficiency on the most devices"


def _of_speedup(record: Record) -> Iterator[Speedup | Estimate | None]:
    """Yield what is said of a test with its range: its speedup or efficiency, and its comparisons."""
    yield from metrics.decided(record).values()
    for compared in record.comparisons:
        yield from (compared.baseline, compared.found, compared.ratio)


def _is_open(estimates: Iterable[Speedup | Estimate | None]) -> bool:
    """Return whether an end of any range is not known."""
    return any(each is not None and None in (each.low, each.high) for each in estimates)


def _is_above_without(record: Record) -> bool:
    """Return whether the speedup with copies in every call is above the one without them."""
    if record.offload is None or record.offload.always is None or record.offload.never is None:
        return False
    return record.offload.always.value > record.offload.never.value


def _longest_gpu_call(record: Record) -> str:
    """Return how long a call may take on a GPU that was not measured, for the speedup that is required.

    Not in the row of a CPU variant: that of its GPU variant says it.
    """
    demand, cpu = record.demand, record.cpu
    lacks_gpu = record.pairing is not None and record.pairing.kind == "gpu" and record.reason_code == "no_gpu"
    is_whole = lacks_gpu or record.transfer is not None
    is_alone = cpu is not None and is_whole and not record.interference
    if cpu is None or not is_alone or demand.min is None or demand.max is not None:
        return "-"
    time = cpu.latency if demand.latency else cpu.median
    return "-" if time is None else f"needs {units.seconds(time / demand.min)}"


def format_time(seconds: float | None) -> str:
    """Return a time with three digits and its unit: `1.23 ms`; a dash for None."""
    return "-" if seconds is None else units.seconds(seconds)


def _limit(record: Record) -> str:
    """Return the limits as short as a cell: `>=3x always`, `>=0.8 eff.`; a dash where there are none."""
    demand = record.demand
    if record.scaling is not None:
        return f">={record.scaling.required:g} eff." if record.scaling.is_judged else "-"
    least, most = demand.min, demand.max
    if least is not None and most is not None:
        limits = f"{least:g}..{most:g}x"
    elif least is not None:
        limits = f">={least:g}x"
    elif most is not None:
        limits = f"<={most:g}x"
    else:
        return "-"
    regime = {"never": "", "always": " always", "once": f" once/{demand.calls}"}[demand.transfer]
    return f"{limits}{regime}{' latency' if demand.latency else ''}"


def _change(record: Record) -> str:
    """Return the change of the worst comparison for a narrow column: `-20 %`, or its outcome."""
    comparison = worst(record)
    if comparison is None:
        return "-"
    if comparison.ratio is None:
        return "differs" if comparison.outcome == "not_comparable" else in_words(comparison.outcome)
    metric = f"{comparison.metric} " if (short := TABLE[comparison.metric].short) is None else short
    doubt = "?" if comparison.outcome == "inconclusive" else ""
    if comparison.ratio.value >= gate_text.MOST_IN_PERCENT:
        return f"{metric}x{units.digits(comparison.ratio.value)}{doubt}"
    percent = f"{100 * (comparison.ratio.value - 1):+.0f}"
    return f"{metric}{percent if float(percent) else '0'} %{doubt}"


def baseline_of(record: Record) -> Estimate | None:
    """Return the speedup that a record's is compared with."""
    compared = (each.baseline for each in record.comparisons if each.metric == "speedup")
    return next(filter(None, compared), None)


def comparison_cells(comparison: Comparison) -> dict[str, str]:
    """Return the row of a comparison with the baseline, by headings; a dash for what is not known."""

    def shown(estimate: Estimate | None) -> str:
        return "-" if estimate is None else gate_text.format_metric(comparison.metric, estimate)

    return {
        "metric": TABLE[comparison.metric].words,
        "baseline": shown(comparison.baseline),
        "now": shown(comparison.found),
        "change": "-" if comparison.ratio is None else gate_text.format_change(comparison.ratio),
        "outcome": in_words(comparison.outcome),
    }


def outcome_counts(records: Iterable[Record]) -> str:
    """Return how many comparisons have each outcome, the worst first: `1 regressed, 2 new`."""
    counts: Counter[CountedCode] = Counter(
        comparison.outcome for record in records for comparison in record.comparisons
    )
    return ", ".join(f"{counts[outcome]} {in_words(outcome)}" for outcome in GRAVITY if counts[outcome])


def gate_lines(run: Run, *, all_names: bool = False) -> Iterator[str]:
    """Yield what a run was compared with, the outcomes, and the notes on them."""
    gate = run.gate
    if gate is None:
        return
    if gate.baseline is not None:
        tolerances = ", ".join(f"{each.metric} {units.percent(each.share)}" for each in gate.tolerances)
        limits = f" (tolerance: {tolerances})" if tolerances else " (nothing fails without --gpuperf-fail-on)"
        outcomes = outcome_counts(run.records) or "nothing was compared"
        when = f" of {units.minute(gate.started)}" if gate.started else ""
        of_runs = f"of {gate.runs} runs, the newest " if gate.runs else ""
        yield f"baseline {of_runs}{gate.baseline}{when}{limits}: {outcomes}"
    if gate.tolerances and (finds := gate_text.found_from(run, all_names=all_names)) is not None:
        yield finds
    yield from (note.text for note in gate.notes)


@dataclass(frozen=True, slots=True)
class Saying:
    """What is said of a test: `code` is the kind of a note or diagnosis, None for what is the test's own."""

    text: str
    code: str | None = None
    only_explains: bool = False
    """Whether it only explains, and asks for nothing."""


def explained_by_variant(records: Iterable[Record]) -> frozenset[str]:
    """Return the CPU variants whose GPU variants explain themselves why they have no speedup."""
    pairings = (record.pairing for record in records if record.speedup is None and record.reason)
    return frozenset(pairing.partner for pairing in pairings if pairing and pairing.partner)


def sayings_of(record: Record, explained: Collection[str] = ()) -> Iterator[Saying]:
    """Yield a record's reason and its doubts, and what holds it back where it failed or is not worth it.

    CPU variants in `explained` leave out why a GPU variant has no speedup. What is said of both devices in
    the same words is one saying.
    """
    found: dict[tuple[object, ...], tuple[Saying, list[alike.Parts]]] = {}
    for saying in _sayings_of(record, explained):
        parts = alike.parts(saying.text, record)
        kind = (saying.code, saying.only_explains, parts.around)
        found.setdefault(kind, (saying, []))[1].append(parts)
    yield from (replace(saying, text=alike.joined(parts)) for saying, parts in found.values())


def causes_of(record: Record) -> list[str]:
    """Return why a test failed or regressed, the gravest first; nothing of any other."""
    own = [record.reason] if record.status in ("failed", "error") else []
    regressed = [each.reason for each in record.comparisons if each.outcome == "regressed"]
    return [each for each in (*own, *regressed) if each]


def _sayings_of(record: Record, explained: Collection[str]) -> Iterator[Saying]:
    reasons = (*causes_of(record), record.reason, *(each.reason for each in record.comparisons))
    yield from (Saying(reason) for reason in dict.fromkeys(reasons) if reason)
    offload, has_failed = record.offload, record.verdict in FAILURES
    if offload and not offload.worth:
        yield Saying(offload.reason, "not_worth_it", only_explains=True)
    if offload and (not offload.worth or record.status == "failed"):
        yield from (
            Saying(each.sentence, each.code, only_explains=not has_failed) for each in record.diagnosis
        )
    if record.restart_reason is not None:  # the plugin has dealt with it
        text = f"restarted the measurement: {record.restart_reason}"
        yield Saying(text, "restarted", only_explains=True)
    for note in record.notes:
        if not (note.code == "no_partner" and record.nodeid in explained):
            yield Saying(note.text, note.code)


def left_alone(unknown: Sequence[UnknownValue], *, all_names: bool = False) -> str:
    """Return how many tests ran as if they had no marker, for values of which no backend knows the device."""
    tests = units.count(sum(value.tests for value in unknown), "test")
    values = sorted(f"{value.parameter}={value.value}" for value in unknown)
    few = units.first_few(values, None if all_names else 6)
    remedy = "gpuperf_device_values maps them: VALUE=DEVICE"
    return f"left alone: {tests} on devices that are not known ({few}); {remedy}"


def threshold_sentence(threshold: Threshold, gpu: str = "the GPU") -> str:
    """Return a threshold's status, its sizes and its reason; `gpu` is what its sizes are of."""
    reason = f"; {threshold.reason}" if threshold.reason else ""
    return f"{threshold.status}: {_bracket(threshold, gpu)}{reason}"


def _bracket(threshold: Threshold, gpu: str) -> str:
    """Return from which size on the GPU wins, and up to which it does not."""
    name, lost, won = threshold.parameter, threshold.largest_not_won, threshold.smallest_won
    if threshold.outcome is None or (lost is None and won is None):
        return "not known"
    if won is None:
        if threshold.curve and threshold.curve[-1].won is None:
            return f"no {name} from which {gpu} surely wins (no clear result at the largest, {lost:.16g})"
        return f"{gpu} does not win at the largest {name}, {lost:.16g}"
    below = f"not at {lost:.16g}" if lost is not None else "the smallest"
    return f"{gpu} wins from {name} = {won:.16g} on, {below}"


def scaling_heading(curve: ScalingCurve) -> str:
    """Return which curve it is and what is required: `test_step (strong), required efficiency 0.8`."""
    required = "" if curve.required is None else f", required efficiency {curve.required:g}"
    return f"{curve.name} ({curve.mode}){required}"


def scaling_lines(curve: ScalingCurve) -> Iterator[str]:
    """Yield what was measured on each number of devices, and what holds the efficiency back."""
    for point in curve.points:
        if point.time is not None:
            known = [f"{name} {cell}" for name, cell in scaling_cells(point).items() if cell != "-"]
            yield ", ".join(known)
    yield from (diagnosis.sentence for diagnosis in curve.diagnosis)


def scaling_cells(point: ScalingPoint) -> dict[str, str]:
    """Return the row of a number of devices in a table, by headings; a dash for what was not measured."""
    return {
        "devices": f"{point.count}",
        "time": "-" if point.time is None else units.seconds(point.time),
        "speedup": "-" if point.speedup is None else f"{units.digits(point.speedup.value)}x",
        "efficiency": "-" if point.efficiency is None else efficiency_text(point.efficiency),
        "Karp-Flatt": "-" if point.karp_flatt is None else karp_flatt_text(point.karp_flatt),
    }


def gpu_text(environment: Environment) -> str:
    """Return the GPU, and its backend where the name has it not: `H200 through cupy`."""
    gpu = environment.gpu
    if gpu is None:
        return "not looked for" if environment.gpu_reason is None else "none"
    return gpu.name if gpu.backend in gpu.name else f"{gpu.name} through {gpu.backend}"


def environment_facts(environment: Environment) -> Iterator[tuple[str, str]]:
    """Yield what is known of the environment, name by name."""
    gpu = environment.gpu
    names = ("name", "backend", "library", "driver", "runtime")
    device = {**{name: getattr(gpu, name, None) for name in names}, "missing": environment.gpu_reason}
    pools = {pool.library: f"{pool.threads} threads" for pool in environment.thread_pools}
    yield "python", environment.python
    host = dict(environment.host)
    if isinstance(memory := host.get("memory"), int | float):
        host["memory"] = units.size(memory)
    for group, values in (("host", host), ("CPU", environment.cpu), ("GPU", device)):
        yield from ((f"{group} {name}", str(value)) for name, value in values.items() if value is not None)
    for pairs in (environment.packages, pools, environment.variables or {}):
        yield from ((name, str(value)) for name, value in pairs.items())


def properties(record: Record) -> Iterator[tuple[str, str | float]]:
    """Yield a test's properties in the files of JUnit and pytest-json-report, as names and values.

    They are its status, its speedup or efficiency with the range, and the outcomes of its comparisons.
    """
    yield f"{PROPERTY_PREFIX}status", record.status
    for metric, found in metrics.decided(record).items():
        ends = {metric: found.value, "low": found.low, "high": found.high}
        yield from ((f"{PROPERTY_PREFIX}{name}", value) for name, value in ends.items() if value is not None)
    for comparison in record.comparisons:
        yield f"{PROPERTY_PREFIX}baseline.{comparison.metric}", comparison.outcome
