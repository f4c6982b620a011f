"""Looks: stretches of rounds, their range, and the factor beyond a limit at which it decides."""

from cases import for_each

from pytest_gpuperf.analysis import looks
from pytest_gpuperf.analysis.looks import STRETCHES, Limit, Look, Range


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


@for_each(
    ("expected", "rounds", "seconds"),
    [
        (Look(4.9, 4.9), 2, 100.0),
        (Look(2.7, 2.7), 3, 100.0),
        (Look(2.0, 2.0), 7, 0.0),
        (Look(1.2, 2.0), 28, 1.0),
        (Look(1.1, 1.5), 28, 2.0),
        (Look(1.01, 1.01), 28, 7.5),
        (Look(1.1, 1.1), 27, 7.5),  # few rounds a stretch
    ],
)
def test_rounds_that_have_ended_may_miss_a_limit_however_few_they_are(expected, rounds, seconds):
    assert looks.at_end(rounds, seconds) == expected


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


@for_each(
    ("expected", "values"),
    [
        ((5, 5), [5]),
        ((1, 7), [0, 1, 9, 0, 2, 9, 0, 3, 9, 0, 4, 9, 0, 5, 9, 0, 6, 9, 0, 7, 9]),
    ],
)
def test_what_was_seen_reaches_from_the_least_median_to_the_greatest(expected, values):
    assert looks.seen(values) == Range(*expected)


EARLY, SURE = Look(1.2, None), Look(1.1, 1.5)


@for_each(
    ("expected", "limit", "found", "look"),
    [
        ("above", Limit(10, 10), (11.1, 99), SURE),  # a minimum is met
        (None, Limit(10, 10), (11.0, 99), SURE),
        ("below", Limit(10, 10), (1, 6.6), SURE),  # and missed: what fails takes more
        (None, Limit(10, 10), (1, 6.7), SURE),
        (None, Limit(10, 10), (0, 1e-9), EARLY),  # nothing fails yet
        ("above", Limit(10, 10), (12.1, 99), EARLY),
        ("below", Limit(10, 10, "above"), (1, 9.0), SURE),
        ("above", Limit(10, 10, "above"), (15.1, 99), SURE),
        ("below", Limit(10, 10, "neither"), (1, 9.0), SURE),
        (None, Limit(10, 10, "either"), (15.0, 99), SURE),
        (None, Limit(10, 10, "either"), (99, 99), EARLY),
        ("above", Limit(8, 10), (11.1, 99), SURE),  # a limit with ends
        ("below", Limit(8, 10), (1, 5.3), SURE),
        (None, Limit(10, 10), (10, 10), looks.EXACT),
    ],
)
def test_a_limit_is_decided_by_all_of_the_range_and_by_the_factor_of_its_side(expected, limit, found, look):
    assert looks.decided(limit, Range(*found), look) == expected


@for_each(
    ("expected", "limit", "found"),
    [
        (False, Limit(10, 10), (10, 10)),  # as one stretch may be
        (True, Limit(8, 10), (7, 11)),
        (False, Limit(8, 10), (9, 9)),
        (False, Limit(8, 10), (9, 11)),
    ],
)
def test_no_later_round_decides_a_limit_that_stretches_lie_on_both_sides_of(expected, limit, found):
    assert looks.is_hopeless(limit, Range(*found)) is expected
