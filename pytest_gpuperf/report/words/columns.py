"""From the record of a test to its row in the table: what each column has of it, and what its cells mean."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pytest_gpuperf.analysis.verdict import ratio
from pytest_gpuperf.gate import metrics
from pytest_gpuperf.gate import text as gate_text
from pytest_gpuperf.model import units
from pytest_gpuperf.model.measurement import Estimate, Speedup
from pytest_gpuperf.model.metrics import TABLE
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.report.words.notes import Saying
from pytest_gpuperf.report.words.verdicts import in_words, verdict, worst

_APART = 0.05  # from the ratio of the times in the row: more than rounding and usual noise
_OF_ROUNDS = "the median of the rounds' ratios, because times changed between rounds"
_WITH_MORE = "with copies or waits, as its limit"
_NO_END = (
    "? in a range: an end that is not known, for one round shows no range, or other work may have taken any "
    "share of the time"
)


class Row(NamedTuple):
    """One test in the table: its name, its cells by their headings, and what is said of it."""

    record: Record
    name: str
    cells: Mapping[str, str]
    said: Sequence[Saying]


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


def explanations(rows: Sequence[Row], *, all_names: bool = False) -> Iterator[Explanation]:
    """Yield what is to be known of some cells in the rows, if any are so."""
    records = [row.record for row in rows]
    apart = [record.demand for record in records if is_apart(record)]
    includes_more = [demand.transfer != "never" or demand.latency for demand in apart]
    causes = [*[_OF_ROUNDS] * (not all(includes_more)), *[_WITH_MORE] * any(includes_more)]
    if causes:
        text = f"~ not the ratio of the test's two times, but {'; or '.join(causes)}"
        yield Explanation("speedup", text)
    if any(record.gpu is None and _longest_gpu_call(record) != "-" for record in records):
        yield Explanation("GPU", "needs: how long a call may take on a GPU to meet the limit")
    if any(_is_open(_of_speedup(record)) for record in records):
        yield Explanation("speedup", _NO_END)
    elif any(_is_open([record.offload.always]) for record in records if record.offload):
        yield Explanation("with copies", _NO_END)
    if above := [row.name for row in rows if _is_above_without(row.record)]:
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


def headings(rows: Sequence[Row]) -> list[str]:
    """Return the headings of the columns that any row has something in."""
    measured = [row.record.is_emulated for row in rows if row.record.gpu]
    gpu = "emulated" if measured and all(measured) else "GPU"
    headings = ("CPU", gpu, "speedup", "with copies", "limit", "change")
    return [*(each for each in headings if any(row.cells[each] != "-" for row in rows)), "verdict"]
