"""Looks: stretches of rounds, and the factor beyond a limit at which they decide."""

from cases import for_each

from pytest_gpuperf.analysis import looks
from pytest_gpuperf.analysis.looks import STRETCHES, Look


@for_each(
    ("expected", "rounds", "seconds"),
    [
        (None, 6, 100.0),
        (Look(2.0, None), 7, 0.0),
        (Look(1.2, None), 28, 1.0),
        (Look(1.1, 1.5), 28, 2.0),
        (Look(1.01, 1.01), 28, 7.5),
        (Look(2.0, None), 27, 100.0),  # medians of three are as noisy as rounds
    ],
)
def test_the_longer_the_rounds_lasted_the_nearer_to_its_limit_a_look_decides(expected, rounds, seconds):
    assert looks.reached(rounds, seconds) == expected


@for_each("rounds", range(2, STRETCHES))
def test_few_rounds_lie_beyond_their_limit_by_chance_once_in_forty_on_either_side(rounds):
    """In Laplace noise of the log ratio with a tail of 0.8, one round does with 1/2 factor ** -0.8."""
    factor = looks.at_end(rounds, 0.0).misses
    assert (0.5 * factor**-0.8) ** rounds < 1 / 40


@for_each(
    ("expected", "values", "size"),
    [
        ([3, 1, 5], [3, 1, 4, 1, 5, 9], 2),  # the last and the first of an even number are left out in turn
        ([1, 2, 1], [1, 2] * 6, 4),  # so that values which alternate show it
        ([3, 5], [3, 1, 4, 1, 5, 9, 2], 3),  # the seventh is in no full stretch
        ([*range(7)], range(9), 1),  # there are seven
        ([], [1, 2], 3),
    ],
)
def test_a_stretch_has_the_median_of_its_values_in_their_order(expected, values, size):
    assert looks.medians(values, size) == expected
