"""From the records of a run to sentences that count them."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import geometric_mean

from pytest_gpuperf.model import units
from pytest_gpuperf.model.demand import UnknownValue
from pytest_gpuperf.model.record import Record, Run


def left_alone(unknown: Sequence[UnknownValue], *, all_names: bool = False) -> str:
    """Return how many tests ran as if they had no marker, for values of which no backend knows the device."""
    tests = units.count(sum(value.tests for value in unknown), "test")
    values = sorted(f"{value.parameter}={value.value}" for value in unknown)
    few = units.first_few(values, None if all_names else 6)
    remedy = "gpuperf_device_values maps them: VALUE=DEVICE"
    return f"left alone: {tests} on devices that are not known ({few}); {remedy}"


def lines(
    run: Run,
    records: Sequence[Record],
    rows: Sequence[Record],
    names: Mapping[str, str],
    *,
    only_failures: bool,
) -> Iterator[str]:
    """Yield the totals; with `only_failures` how many would fail alone, with `names` which tests are unclear.

    Skipped tests and those without results are counted by the `rows` that a reader sees.
    """
    yield from _would_fail(rows)
    yield from _not_compared(rows)
    if not only_failures:
        yield from _unmarked(run, rows)
        yield from _worth_it(run, records, names)


def of_speedups(records: Sequence[Record]) -> Iterator[tuple[str, str]]:
    """Yield what the speedups are together; those of GPUs and of emulated devices are never mixed."""
    for device, is_emulated in (("", False), (", emulated", True)):
        speedups = [record.speedup for record in records if record.is_emulated == is_emulated]
        values = [speedup.value for speedup in speedups if speedup and speedup.value > 0]
        if len(values) > 1:
            ends = f"{units.digits(min(values))}x to {units.digits(max(values))}x"
            mean = f"{units.digits(geometric_mean(values))}x ({units.count(len(values), 'test')}, {ends})"
            yield f"geometric mean{device}", mean


def _unmarked(run: Run, rows: Sequence[Record]) -> Iterator[str]:
    """Yield how many tests were measured without a marker, and how many of them have no row."""
    others = [record for record in run.records if record.source == "all"]
    if run.unmarked == 0:
        yield (
            "--gpuperf-all: 0 tests: no unmarked test has variants on the CPU and on a GPU here; "
            "choose one with --gpuperf-gpu, or name parameters that choose a device in gpuperf_device_params"
        )
    elif run.unmarked is not None:
        compared = sum(record.speedup is not None for record in others)
        above = sum(record.source == "all" for record in rows)
        rest = f"; the slowest {above} are above, all are in the report" if above < compared else ""
        rest += f": {run.environment.gpu_reason}" if not compared and run.environment.gpu_reason else ""
        tests = units.count(run.unmarked, "test")
        yield f"--gpuperf-all: {tests}, {compared} compared with a CPU variant{rest}"


def _would_fail(rows: Sequence[Record]) -> Iterator[str]:
    """Yield how many of the skipped tests would be errors on a GPU, if any, and of how many nothing is known.

    More may be than are known: some mistakes show only with the test's own library, or on a GPU.
    """
    skipped = [record for record in rows if record.status == "skipped"]
    tests, unseen = units.count(len(skipped), "skipped test"), sum(map(_is_unseen, skipped))
    if wrong := sum(record.reason_code == "error_on_gpu" for record in skipped):
        more = f"; {units.count(unseen, 'other')} {_not_looked_at(unseen)}" if unseen else ""
        yield f"at least {wrong} of {tests} would be {'an error' if wrong == 1 else 'errors'} on a GPU{more}"
    elif unseen:
        yield f"{unseen} of {tests} {_not_looked_at(unseen)}"


def _not_compared(rows: Sequence[Record]) -> Iterator[str]:
    """Yield of how many tests no result was compared, though none asked for that: they return nothing.

    Such a test is green whatever the GPU computes, unless it asserts it.
    """
    compared = [
        record.check
        for record in rows
        if record.speedup is not None and record.check is not None and record.demand.check
    ]
    # A result whose values could not be compared has an error of 0; a result without values has no error.
    without = sum(check.agreed is None and check.error is None for check in compared)
    if without:
        tests, returns = units.count(len(compared), "test"), "it returns" if without == 1 else "they return"
        yield (
            f"{without} of {tests} compared no results, as {returns} none: return what is computed, or pass "
            "check=False"
        )


def _not_looked_at(count: int) -> str:
    was, use = ("was", "it uses") if count == 1 else ("were", "they use")
    return f"{was} not looked at: {use} a library that gpuperf_gpu in the ini file does not name"


def _is_unseen(record: Record) -> bool:
    """Return whether a test computes with a library that this run does not follow, not even on its CPU.

    A GPU variant is looked at in its CPU variant, and a test of several GPUs has nothing to look at.
    """
    if record.scaling is not None or (record.pairing is not None and record.pairing.kind == "gpu"):
        return False
    return record.reason_code == "no_gpu" and record.cpu is None


def counted_together(records: Sequence[Record]) -> Iterator[list[Record]]:
    """Yield the records of GPUs, and those of emulated devices, where the totals count several."""
    for is_emulated in (False, True):
        compared = [each for each in records if each.gpu and each.offload and each.is_emulated == is_emulated]
        if len(compared) > 1:
            yield compared


def _worth_it(run: Run, records: Sequence[Record], names: Mapping[str, str]) -> Iterator[str]:
    """Yield how many of several tests are worth it; with `names`, which of them are unclear."""
    faster = f"more than {run.cost_ratio:g} times as fast" if run.cost_ratio else "faster"
    for compared in counted_together(records):
        emulated = compared[0].is_emulated
        label = f"emulated device surely {faster}" if emulated else f"worth it (GPU surely {faster})"
        worth = [each.nodeid for each in compared if each.offload and each.offload.worth]
        unclear = [each.nodeid for each in compared if each.offload and each.offload.worth is None]
        doubt = f", {len(unclear)} unclear" if unclear else ""
        if names and 0 < len(unclear) < len(compared):
            doubt += f" ({', '.join(names[nodeid] for nodeid in unclear)})"
        yield f"{label}: {len(worth)} of {units.count(len(compared), 'test')}{doubt}"
