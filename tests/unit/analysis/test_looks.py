"""Looks: stretches of rounds, and the factor beyond a limit at which they decide."""

import pytest
from cases import for_each

from pytest_gpuperf.analysis import looks
from pytest_gpuperf.analysis.looks import Length, Look


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


@for_each("rounds", range(2, 5))
def test_few_rounds_lie_beyond_their_limit_by_chance_once_in_forty_on_either_side(rounds):
    """In Laplace noise of the log ratio with a tail of 0.8, one round does with 1/2 factor ** -0.8."""
    factor = looks.at_end(rounds, 0.0).misses
    assert (0.5 * factor**-0.8) ** rounds < 1 / 40


@for_each(
    ("expected", "rounds", "seconds"),
    [
        (Look(2.7, 2.7), 4, 100.0),
        (Look(2.0, 2.0), 5, 1.9),
        (Look(1.2, 1.6), 6, 2.0),  # one spell may be all of it
        (Look(1.2, 1.2), 6, 7.5),
        (Look(1.1, 1.1), 7, 7.5),
        (Look(1.01, 1.01), 28, 7.5),
    ],
)
def test_rounds_that_have_ended_decide_the_nearer_the_more_and_the_longer_they_were(
    expected, rounds, seconds
):
    assert expected == looks.at_end(rounds, seconds)


@for_each(
    ("expected", "before", "now"),
    [
        (Look(1.01, 1.01), (28, 7.5), (28, 7.5)),
        (Look(1.03, 1.03), (20, 7.5), (99, 7.5)),  # the fewer rounds count
        (Look(1.05, 1.15), (7, 5.6), (7, 5.6)),  # a spell of 3 s may be as long as a half of each
        (Look(1.05, 1.2), (99, 7.5), (99, 2.0)),
        (Look(1.1, 1.65), (99, 2.0), (99, 2.0)),
        (Look(1.01, 1.3), (99, 1.0), (99, 7.5)),
        (Look(1.01, 2.0), (99, 0.3), (99, 7.5)),  # a report that nobody made for a baseline
        (Look(2.0, 2.0), (99, 7.5), (99, 0.3)),
        (Look(1.05, 1.2), (5, 20.0), (5, 20.0)),
        (Look(2.7, 2.7), (99, 12.0), (3, 12.0)),
        (Look(4.9, 4.9), (2, 8.0), (2, 8.0)),
    ],
)
def test_two_runs_decide_by_the_fewer_rounds_and_the_seconds_of_both(expected, before, now):
    assert expected.misses == looks.of_pair(Length(*before), Length(*now)).misses
    assert expected.misses == looks.of_pair(Length(*now), Length(*before)).misses
    assert expected.meets == looks.of_pair(Length(*before), Length(*now)).meets


@for_each(
    ("expected", "round_time"),
    [
        (Length(24, 7.5), 0.31),  # more fit as usual
        (Length(20, 8.0), 0.4),
        (Length(5, 15.0), 3.0),  # the fewest of slow calls
        (Length(0, 0.0), 3.01),  # fewer do not fit: as usual
    ],
)
def test_slow_calls_are_planned_up_to_twenty_rounds_where_five_fit(expected, round_time):
    assert expected == pytest.approx(looks.planned(round_time, 10.0, 30.0))


def test_beside_several_runs_a_loss_lies_beyond_their_range_by_a_quarter_of_it_and_none_by_an_eighth():
    assert (1.01, 1.01) == looks.of_runs(1.0)
    assert (1.01 * 1.1, 1.01 * 1.1**2) == pytest.approx(looks.of_runs(1.1**8))
    assert (1.1, 1.1**2) == pytest.approx(looks.of_runs(1.1**8, looks.EXACT))


@for_each(
    ("expected", "values"),
    [
        ((1, 3), [1, 2, 3]),  # of few all count
        ((1, 7), [*range(1, 8)]),
        ((1, 7.5), [*range(1, 9)]),  # in stretches as equal as can be: the last has two
        ((2, 25.5), [*range(1, 28)]),
        ((2, 26), [*range(1, 29)]),  # four to a stretch: the last and the first are left out in turn
    ],
)
def test_the_range_is_that_of_seven_stretches_of_all_values(expected, values):
    assert expected == looks.seen(values)


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
