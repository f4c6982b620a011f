"""From a run to its size thresholds, and from each of them to a sentence."""

from pytest_gpuperf.model.offload import Threshold
from pytest_gpuperf.model.record import Run


def measured_thresholds(run: Run) -> list[Threshold]:
    """Return the thresholds that were measured."""
    return [threshold for threshold in run.thresholds if threshold.status != "skipped"]


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
            return f"no {name} from which {gpu} surely wins (inconclusive at the largest, {lost:.16g})"
        return f"{gpu} does not win at the largest {name}, {lost:.16g}"
    below = f"not at {lost:.16g}" if lost is not None else "the smallest"
    return f"{gpu} wins from {name} = {won:.16g} on, {below}"
