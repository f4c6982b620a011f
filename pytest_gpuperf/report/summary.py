"""From a run to the facts of its summary, which the terminal and Markdown lay out: names, reasons, cells."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from pytest_gpuperf.analysis.verdict import ratio
from pytest_gpuperf.model import units
from pytest_gpuperf.model.comparison import WORST_FIRST, Comparison, GateResult
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.nodeid import function_of, name_of
from pytest_gpuperf.model.offload import Offload, Threshold
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.model.record import Environment, Record, Run

NOTED = ("regressed", "improved", "undecided", "not_comparable")
_COUNTED = (
    *("failed", "error", "regressed", "failed (expected)", "error (expected)", "improved"),
    *("inconclusive", "undecided", "not_comparable", "new", "passed", "recorded", "skipped"),
)
_PLURALS = {"error": "errors"}


def shown_records(run: Run) -> list[Record]:
    """Return the records of tests that were to run, or that were measured for a sibling."""
    return [record for record in run.records if not (record.is_deselected and record.cpu is None)]


def verdict(record: Record) -> str:
    """Return how a test ended, in words: with a remark where that was expected."""
    return expected(verdict_code(record), record)


def verdict_code(record: Record) -> str:
    """Return the word for how a test ended: its status, or `regressed`."""
    return "regressed" if _is_regressed(record) else record.status


def expected(text: str, record: Record) -> str:
    """Return a text on how a test ended, with a remark if that is a failure that its `xfail` expects."""
    return f"{text} (expected)" if is_expected_failure(record) else text


def is_expected_failure(record: Record) -> bool:
    """Return whether a test failed as its `xfail` expects."""
    has_failed = record.status in ("failed", "error") or _is_regressed(record)
    return record.expected_failure and has_failed


def _is_regressed(record: Record) -> bool:
    return any(comparison.outcome == "regressed" for comparison in record.comparisons)


def rows_of(records: Sequence[Record]) -> list[Record]:
    """Return the records without those of CPU siblings of which a GPU sibling's row says all."""
    told = {
        record.pairing.partner
        for record in records
        if record.pairing and record.pairing.partner and record.speedup
    }
    return [record for record in records if record.nodeid not in told or not _is_plain(record)]


def _is_plain(record: Record) -> bool:
    """Return whether a CPU sibling ended as it does where nothing is to be said of it."""
    outcomes = {comparison.outcome for comparison in record.comparisons}
    return record.status == "recorded" and outcomes <= {"new", "not_regressed"}


def is_emulated(record: Record) -> bool:
    """Return whether a test's speedup is not one of a GPU."""
    return record.gpu is not None and record.gpu.device.emulated


def short_names(records: Iterable[Record]) -> dict[str, str]:
    """Return the tests' names; with their files, or whole node ids, where those would be ambiguous."""
    functions = _short_functions({function_of(record.nodeid) for record in records})
    names = {}
    for record in records:
        function = function_of(record.nodeid)
        names[record.nodeid] = printable(functions[function] + record.nodeid[len(function) :])
    return names


def _short_functions(functions: Collection[str]) -> dict[str, str]:
    """Return the shortest name of each function that no other has."""
    shortest: dict[str, str] = {}
    for shorten_one in (_without_path, name_of):  # the shortest last: it replaces the one before
        names = {function: shorten_one(function) for function in functions}
        counts = Counter(names.values())
        shortest.update({function: name for function, name in names.items() if counts[name] == 1})
    return {function: shortest.get(function, function) for function in functions}


def _without_path(function: str) -> str:
    return function.rpartition("/")[2]


def shorten(name: str, width: int) -> str:
    """Return the end of a name, which differs between tests, where the whole does not fit."""
    return name if len(name) <= width else f"~{name[len(name) - width + 1 :]}"


def shared_reasons(
    records: Sequence[Record], names: Mapping[str, str], reasons: Callable[[Record], Iterable[str]]
) -> dict[str, list[str]]:
    """Return the short names of the tests by reason; `reasons` returns those of one record."""
    tests: dict[str, dict[str, None]] = {}
    for record in records:
        for reason in reasons(record):
            tests.setdefault(reason, {})[names[record.nodeid]] = None
    return {reason: list(shared) for reason, shared in tests.items()}


def explained_by_sibling(records: Iterable[Record]) -> frozenset[str]:
    """Return the CPU siblings whose GPU siblings explain themselves why they have no speedup."""
    pairings = (record.pairing for record in records if record.speedup is None and record.reason)
    return frozenset(pairing.partner for pairing in pairings if pairing and pairing.partner)


def reasons_of(record: Record, explained: Collection[str] = ()) -> Iterator[str]:
    """Yield a record's reason and its doubts, and what holds it back where it failed or is not worth it.

    CPU siblings in `explained` leave out why a GPU sibling has no speedup.
    """
    yield from filter(None, [record.reason, *(comparison.reason for comparison in record.comparisons)])
    is_explained = _is_offload_explained(record)
    diagnoses = [diagnosis.sentence for diagnosis in record.diagnosis] if is_explained else []
    if record.status == "failed":  # what helps comes first: a narrow terminal may show no more
        yield from diagnoses
    for note in record.notes:
        if not (note.code == "gpu_sibling_without_speedup" and record.nodeid in explained):
            yield note.text
    if record.offload is not None and is_explained and not _is_worth_it(record.offload):
        yield record.offload.reason
    if record.status != "failed":
        yield from diagnoses


def _is_offload_explained(record: Record) -> bool:
    """Return whether it is said what holds a record back: it failed, or is not worth it."""
    offload = record.offload
    if offload is None or (_is_worth_it(offload) and record.status != "failed"):
        return False
    bounds = [link.speedup_at_most for link in offload.links]
    no_link_is_fast_enough = bounds and all(bound is not None and bound < 1 for bound in bounds)
    # Without a GPU the table shows how long a call may take on one.
    return record.gpu is not None or bool(no_link_is_fast_enough)


def _is_worth_it(offload: Offload) -> bool:
    """Return whether moving the work to the GPU surely saves time, and costs no more."""
    return offload.worth is True and not (offload.price is not None and offload.price.saves is False)


def measured_thresholds(run: Run) -> list[Threshold]:
    """Return the thresholds that were measured."""
    return [threshold for threshold in run.thresholds if threshold.status != "skipped"]


def threshold_sentence(threshold: Threshold) -> str:
    """Return a threshold's sizes, its status and its reason."""
    reason = f": {threshold.reason}" if threshold.reason else ""
    return f"{_bracket(threshold)}, {threshold.status}{reason}"


def _bracket(threshold: Threshold) -> str:
    """Return from which size on the GPU wins, and up to which it does not."""
    name, lost, won = threshold.parameter, threshold.largest_not_won, threshold.smallest_won
    if threshold.outcome is None:
        return "not known"
    if won is None:
        if threshold.curve and threshold.curve[-1].won is None:
            return f"undecided whether the GPU wins at the largest {name}, {lost:.16g}"
        return f"the GPU does not win at the largest {name}, {lost:.16g}"
    below = f"not at {lost:.16g}" if lost is not None else "the smallest"
    return f"the GPU wins from {name} = {won:.16g} on, {below}"


def left_alone(run: Run, shown: Callable[[str], str] = str) -> str | None:
    """Return how many marked tests ran as if they had no marker, because no backend knows their device.

    `shown` returns a value as it is to be written. None where there are no such tests.
    """
    if not run.unknown_values:
        return None
    tests = units.count(sum(value.tests for value in run.unknown_values), "test")
    values = sorted(f"{value.parameter}={value.value}" for value in run.unknown_values)
    few = units.first_few(map(shown, values), most=6)
    return f"left alone: {tests} on devices that are not known ({few}); gpuperf_device_values can map them"


def tolerances_text(gate: GateResult) -> str:
    """Return what may get worse, and by how much: `speedup 10 %, memory 5 %`."""
    return ", ".join(f"{tolerance.metric} {100 * tolerance.share:g} %" for tolerance in gate.tolerances)


def cells(record: Record) -> dict[str, str]:
    """Return the cells of a record that every table has, by their headings."""
    return {
        "CPU": format_time(record.cpu.median if record.cpu else None),
        "GPU": format_time(record.gpu.median) if record.gpu else _longest_gpu_call(record),
        "speedup": ratio(record.speedup) if record.speedup else "-",
        "limit": _limit(record.demand),
    }


def _longest_gpu_call(record: Record) -> str:
    """Return how long a call may take on a GPU that was not measured: for the demand, or for the price."""
    limits = record.offload.gpu_limits if record.offload else None
    most = (limits.demand or limits.price) if limits and record.demand.max is None else None
    return f"<={units.seconds(most)}" if most is not None else "-"


def about_gpu_limits(records: Iterable[Record], price: float | None) -> str | None:
    """Return what the times after <= in the GPU column are; None where there are none."""
    if all(record.gpu or _longest_gpu_call(record) == "-" for record in records):
        return None
    aim = "to meet its limit"
    if price is not None:
        aim += f", or to cost less at {price:g} times the price"
    return f"GPU times after <= were not measured: a call may take as long as that {aim}"


def format_time(seconds: float | None) -> str:
    """Return a time with three digits and its unit: `1.23 ms`; a dash for None."""
    return "-" if seconds is None else units.seconds(seconds)


def _limit(demand: Demand) -> str:
    """Return the limits of the speedup as short as a cell: `>=3x always`; a dash where there are none."""
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


def worst(record: Record) -> Comparison | None:
    """Return the comparison that a reader must see first: a regression before doubt before the rest."""
    return min(record.comparisons, key=lambda each: WORST_FIRST.index(each.outcome), default=None)


def rank(record: Record) -> int:
    """Return a record's place: what went wrong, what is inconclusive, what got better, the rest."""
    comparison = worst(record)
    outcome = comparison.outcome if comparison else None
    if record.status in ("failed", "error") or outcome == "regressed":
        return 0
    if record.status == "inconclusive" or outcome in ("undecided", "not_comparable"):
        return 1
    if outcome == "improved":
        return 2
    return 4 if record.status == "skipped" else 3


def counts(records: Iterable[Record]) -> list[str]:
    """Return how many tests there are of each kind: `2 failed`.

    A test may be of two; but what a gate reports of it replaces a verdict that needs no attention.
    """
    counted: Counter[str] = Counter()
    for record in records:
        counted.update({comparison.outcome for comparison in record.comparisons})
        is_noted = any(comparison.outcome in NOTED for comparison in record.comparisons)
        if not is_noted or record.status not in ("passed", "recorded"):
            failed = record.status in ("failed", "error")
            counted[expected(record.status, record) if failed else record.status] += 1
    words = {code: code.replace("_", " ") for code in _COUNTED if counted[code]}
    return [units.count(counted[code], word, _PLURALS.get(code, word)) for code, word in words.items()]


def environment_facts(environment: Environment) -> Iterator[tuple[str, str]]:
    """Yield what is known of the environment, name by name."""
    gpu = environment.gpu
    names = ("name", "backend", "library", "driver", "runtime")
    device = {**{name: getattr(gpu, name, None) for name in names}, "missing": environment.gpu_reason}
    pools = {pool.library: f"{pool.threads} threads" for pool in environment.thread_pools}
    yield "python", environment.python
    for group, values in (("host", environment.host), ("CPU", environment.cpu), ("GPU", device)):
        yield from ((f"{group} {name}", str(value)) for name, value in values.items() if value is not None)
    for pairs in (environment.packages, pools, environment.variables or {}):
        yield from ((name, str(value)) for name, value in pairs.items())
