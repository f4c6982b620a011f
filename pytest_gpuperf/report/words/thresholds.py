"""From the size thresholds of a run to their sentences."""

from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace

from pytest_gpuperf.model.offload import Threshold
from pytest_gpuperf.model.record import Run
from pytest_gpuperf.report.words.below_table import ShownAbove


class Sizes(NamedTuple):
    """A threshold, its sentence, and what its sizes were measured on: `GPU`, or `emulated device`."""

    threshold: Threshold
    said: str
    gpu: str


def measured(run: Run, above: ShownAbove) -> Iterator[Sizes]:
    """Yield each threshold that was measured, without a reason that pytest has shown."""
    nouns = {record.nodeid: record.gpu_noun for record in run.records if record.gpu}
    for each in run.thresholds:
        if each.status != "skipped":
            tests = {point.nodeid for point in each.curve}
            gpu = next((nouns[nodeid] for nodeid in tests if nodeid in nouns), "GPU")
            is_above = each.reason and any(each.reason in above.get(nodeid, "") for nodeid in tests)
            shown = replace(each, reason=None) if is_above else each
            yield Sizes(each, threshold_sentence(shown, f"the {gpu}"), gpu)


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
