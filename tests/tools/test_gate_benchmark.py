"""The benchmark of the gate: its replay has the changes that it says."""

from random import Random

import pytest


def trace(gate, name, seed, spread=0.02, blocks=700):
    """Return the block times of a workload that takes about a millisecond."""
    chance = Random(seed)  # noqa: S311 - noise, not a secret
    times = tuple(1e-3 * chance.lognormvariate(0.0, spread) for _ in range(blocks))
    return gate.Trace(name=name, times=times, median=sorted(times)[blocks // 2])


@pytest.mark.parametrize(
    ("regressed", "inconclusive", "marker", "factor"),
    [
        (0.0, 0.0, "bare", 1.0),
        (100.0, 0.0, "min=3", 0.8),
        (0.0, 0.0, "bare, 50 ms", 1.2),
        (0.0, 100.0, "min=3", 0.9),  # the limit itself
    ],
)
def test_on_steady_noise_what_was_lost_is_found_and_nothing_else(
    script, regressed, inconclusive, marker, factor
):
    gate = script("gate")
    cpu, gpu = trace(gate, "one", 1), trace(gate, "other", 2)
    (row,) = [each for each in gate.MARKERS if each.name == marker]
    found = gate.tally(gate.Task(cpu=cpu, gpu=gpu, row=row, factor=factor, runs=3, seed=1))
    assert (regressed, inconclusive) == (found.regressed, found.inconclusive)
    assert 7 <= found.rounds <= 1.1 * found.baseline_rounds, "a baseline takes all of the time"
