"""From the record of a test to its row in the table: what each column has of it, and what its cells mean."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from pytest_gpuperf.analysis.verdict import ratio
from pytest_gpuperf.gate import metric_values
from pytest_gpuperf.gate import text as gate_text
from pytest_gpuperf.model import units
from pytest_gpuperf.model.measurement import Estimate, Measurement, Speedup
from pytest_gpuperf.model.metrics import TABLE
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.report.words.below_table import Saying
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of the table of tests, as terminal, Markdown and page lay it out."""

    heading: str
    cell: Callable[[Record], str]
    """The text of its cell for a test; a dash stands for nothing, and a column of dashes is left out."""
    short_cell: Callable[[Record], str] | None = None
    """The same in less room, for a terminal where a test takes one row."""
    left_out: int | None = None
    """The turn in which a narrow terminal does without it; None for a column that it never lacks."""
    on_page: Literal["left", "right"] | None = None
    """The side of the plot on which the page has it; None where it has not. `page.css` has its width."""
    page_class: str | None = None
    """The name of its cells in `page.css`; None for that of its heading."""
    is_sorted: bool = True
    """Whether the page can sort by it."""
    keeps_dashes: bool = False
    """Whether a page on a narrow screen shows its dashes."""

    @property
    def key(self) -> str:
        """The class of its cells on the page."""
        return self.page_class or self.heading


def _cpu_time(record: Record) -> str:
    return format_time(record.cpu.median if record.cpu else None)


def _gpu_time(record: Record) -> str:
    return format_time(record.gpu.median) if record.gpu else _longest_gpu_call(record)


def _speedup(record: Record) -> str:
    return f"{'~' if _is_apart(record) else ''}{ratio(record.speedup)}" if record.speedup else "-"


def _with_copies(record: Record) -> str:
    always = record.offload.always if record.offload else None
    return ratio(always) if always else "-"


def _with_copies_in_short(record: Record) -> str:
    """Return the speedup with copies without its range, and rounded to that."""
    always = record.offload.always if record.offload else None
    if always is None or always.low is None or always.high is None:
        return _with_copies(record)
    return f"{units.digits_within(always.value, always.low, always.high)}x"


def _is_apart(record: Record) -> bool:
    """Return whether a row's speedup is visibly another one than that of its two times."""
    cpu, gpu = (side.median if side else None for side in (record.cpu, record.gpu))
    if record.speedup is None or not cpu or not gpu:
        return False
    return abs(record.speedup.value * gpu / cpu - 1) > _APART


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


_GPU = Column(heading="GPU", cell=_gpu_time, left_out=2, on_page="left", keeps_dashes=True)
EMULATED = replace(_GPU, heading="emulated", page_class="GPU")
SPEEDUP = Column(heading="speedup", cell=_speedup, on_page="left", keeps_dashes=True)
COLUMNS = (
    Column(heading="CPU", cell=_cpu_time, left_out=2, on_page="left", keeps_dashes=True),
    _GPU,
    EMULATED,
    SPEEDUP,
    Column(heading="with copies", cell=_with_copies, short_cell=_with_copies_in_short, left_out=1),
    Column(heading="limit", cell=_limit, left_out=4, on_page="right", is_sorted=False),
    Column(heading="change", cell=_change, left_out=3, on_page="left"),
    Column(heading="verdict", cell=verdict),
)
"""In their order; the verdict is the last, and the page has it before all others.

What says least is left out first: without its limit or change, nobody sees why a test failed or regressed.
"""


def cells_of(record: Record) -> dict[str, str]:
    """Return the cells of a record's row, by their headings; the GPU's stand under `emulated`, too."""
    return {column.heading: column.cell(record) for column in COLUMNS}


def cells_in_one_row(row: Row) -> dict[str, str]:
    """Return a row's cells where a test takes one row of a terminal."""
    short = {each.heading: each.short_cell(row.record) for each in COLUMNS if each.short_cell}
    return {**row.cells, **short}


def left_out() -> list[list[str]]:
    """Return the headings of the columns that a narrow terminal does without, by turns."""
    turns = sorted({each.left_out for each in COLUMNS if each.left_out is not None})
    return [[each.heading for each in COLUMNS if each.left_out == turn] for turn in turns]


def shown(rows: Sequence[Row]) -> list[Column]:
    """Return the columns that any row has something in."""
    measured = [row.record.is_emulated for row in rows if row.record.gpu]
    other = _GPU if measured and all(measured) else EMULATED
    filled = (each for each in COLUMNS if any(row.cells[each.heading] != "-" for row in rows))
    return [each for each in filled if each is not other]


def times_of(record: Record) -> Iterator[tuple[str, Measurement]]:
    """Yield what was timed on each device, under the heading of its column."""
    if record.cpu:
        yield "CPU", record.cpu
    if record.gpu:
        yield (EMULATED if record.is_emulated else _GPU).heading, record.gpu


class Explanation(NamedTuple):
    """What a mark or a value in a column's cells means, which its heading does not say."""

    heading: str
    text: str


def explanations(rows: Sequence[Row], *, all_names: bool = False) -> Iterator[Explanation]:
    """Yield what is to be known of some cells in the rows, if any are so."""
    records = [row.record for row in rows]
    apart = [record.demand for record in records if _is_apart(record)]
    includes_more = [demand.transfer != "never" or demand.latency for demand in apart]
    causes = [*[_OF_ROUNDS] * (not all(includes_more)), *[_WITH_MORE] * any(includes_more)]
    if causes:
        text = f"~ not the ratio of the test's two times, but {'; or '.join(causes)}"
        yield Explanation("speedup", text)
    if any(record.gpu is None and _longest_gpu_call(record) != "-" for record in records):
        yield Explanation(_GPU.heading, "needs: how long a call may take on a GPU to meet the limit")
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
    yield from metric_values.decided(record).values()
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
