"""Evidence: e-values with worked numbers, the running interval, autocorrelation."""

from math import comb, exp, inf, isfinite, log
from statistics import median

import numpy as np
import pytest
from cases import for_each

from pytest_gpuperf.analysis.evidence import Evidence, _sign_evidence, autocorrelation, e_value

ALPHA = 0.025


def evidence_of(values, *, alpha=ALPHA, resolution=0.0) -> Evidence:
    evidence = Evidence(alpha=alpha, resolution=resolution)
    for value in values:
        evidence.add(value)
    return evidence


def noise(seed: int, rounds: int, *, spread: float = 0.2, centre: float = 0.0) -> list[float]:
    return (centre + spread * np.random.default_rng(seed).standard_normal(rounds)).tolist()


def lower_limit(values, alpha=ALPHA) -> float:
    """Invert the evidence by brute force: the least step at which it no longer rejects."""
    if e_value(values, -1e9) < 1 / alpha:
        return -inf
    return next(step for step in sorted(values) if e_value(values, step) < 1 / alpha)


@for_each(
    ("expected", "rounds", "above"),
    [
        (0.7 * 2**3 + 0.3 * (2**4 - 1) / 4, 3, 3),  # (1 + 4 + 6 + 4) / (4 * 1) = 3.75
        (0.3 * 11 / 12, 3, 2),  # (1 + 4 + 6) / (4 * 3)
        (0.3 * 5 / 12, 3, 1),  # (1 + 4) / (4 * 3)
        (0.3 * 1 / 4, 3, 0),  # 1 / (4 * 1)
        (0.7 * 2**2 + 0.3 * 7 / 3, 2, 2),  # (1 + 3 + 3) / (3 * 1)
        (0.7 * 2**10 + 0.3 * (2**11 - 1) / 11, 10, 10),
    ],
)
def test_the_sign_evidence_is_the_formula_worked_by_hand(expected, rounds, above):
    assert expected == pytest.approx(_sign_evidence(rounds, above), rel=1e-12)


@for_each("rounds", [1, 2, 3, 7, 20, 60])
def test_the_sign_evidence_of_a_fair_coin_is_one_on_average(rounds):
    total = sum(comb(rounds, above) * _sign_evidence(rounds, above) for above in range(rounds + 1))
    assert pytest.approx(1, rel=1e-12) == total / 2**rounds


@for_each(("rounds", "above"), [(1, 0), (3, 3), (9, 4), (30, 21)])
def test_one_more_throw_of_a_fair_coin_leaves_the_sign_evidence_as_it_was(rounds, above):
    after = [_sign_evidence(rounds + 1, above + heads) for heads in (0, 1)]
    assert _sign_evidence(rounds, above) == pytest.approx(sum(after) / 2, rel=1e-12)


def test_a_value_at_the_limit_is_not_above_it():
    assert e_value([0.9] * 3, 1.0) == e_value([1.0] * 3, 1.0)


def test_six_rounds_that_agree_are_evidence_enough_however_small_their_distance():
    assert e_value([0.001] * 6, 0.0) >= 1 / ALPHA > e_value([9.0] * 5, 0.0)


@for_each("values", [[], [1.0]])
def test_without_a_second_round_there_is_no_interval(values):
    evidence = evidence_of(values)
    assert (-inf, inf) == (evidence.low, evidence.high)


@for_each("alpha", [0.2, 0.025, 0.001])
@for_each("spread", [0.01, 0.2, 1.5])
def test_the_running_interval_is_the_inverted_evidence_of_every_round(alpha, spread):
    values = noise(7, 40, spread=spread, centre=0.3)
    evidence = Evidence(alpha=alpha, resolution=0.0)
    low, high = -inf, inf
    for taken, value in enumerate(values, start=1):
        evidence.add(value)
        low = max(low, lower_limit(values[:taken], alpha))
        high = min(high, -lower_limit([-v for v in values[:taken]], alpha))
        assert (low, high) == (evidence.low, evidence.high)
    assert isfinite(low)


def test_ties_are_inverted_too():
    values = [0.0, 0.7, 0.2, 0.0, 0.7, 0.7, -0.7, 0.0, 0.2, 0.0, 0.0, 0.7, *[0.7] * 10]
    assert max(lower_limit(values[: n + 1]) for n in range(len(values))) == evidence_of(values).low


@for_each(("alpha", "rounds"), [(0.2, 3), (0.025, 6), (0.001, 11)])
def test_rounds_that_agree_leave_the_interval_from_the_least_to_the_greatest(alpha, rounds):
    values = noise(8, rounds)
    enough, too_few = evidence_of(values, alpha=alpha), evidence_of(values[1:], alpha=alpha)
    assert (min(values), max(values)) == enough.interval
    assert enough.has_enough_rounds
    assert (-inf, inf) == too_few.interval
    assert not too_few.has_enough_rounds


@for_each(
    ("factor", "rounds", "alpha"),
    [
        (4.215, 2, 0.025),  # (1 / (2 * 0.025 ** (1 / 2))) ** (1 / 0.8)
        (2.7, 3, 0.025),  # 1.95 by that, less than two levels of a clock explain
        (2.7, 5, 0.025),
        (31.53, 2, 0.001),
    ],
)
def test_few_rounds_leave_an_interval_that_reaches_far_beyond_them(factor, rounds, alpha):
    values = noise(9, rounds)
    low, high = evidence_of(values, alpha=alpha).few_rounds_interval
    assert (factor, factor) == pytest.approx((exp(min(values) - low), exp(high - max(values))), rel=1e-3)


@for_each("rounds", [0, 1])
def test_one_round_has_no_interval_of_few(rounds):
    assert evidence_of([1.0] * rounds).few_rounds_interval is None


@for_each("values", [[3.0], [3.0, 1.0], [3.0, 1.0, 2.0], [0.3, 0.1, 0.2, 0.1], [5.0, 1.0, 4.0, 2.0, 3.0]])
def test_the_median_is_that_of_the_values_in_any_order(values):
    assert median(values) == evidence_of(values).median


def test_the_interval_only_shrinks():
    evidence = Evidence(alpha=ALPHA, resolution=0.01)
    low, high = evidence.low, evidence.high
    for value in [*noise(1, 60, spread=0.5), *noise(2, 60, spread=0.5, centre=2)]:
        evidence.add(value)
        assert evidence.low >= low
        assert evidence.high <= high
        low, high = evidence.low, evidence.high


def test_the_resolution_widens_the_interval_by_itself_on_either_side():
    values = noise(3, 30)
    exact, widened = evidence_of(values), evidence_of(values, resolution=log(1.01))
    assert exact.low - log(1.01) == widened.low
    assert exact.high + log(1.01) == widened.high


def test_swapping_the_devices_mirrors_the_interval():
    values = noise(4, 50, centre=0.7)
    there, back = evidence_of(values), evidence_of([-value for value in values])
    assert (-there.high, -there.low) == (back.low, back.high)


def test_a_smaller_alpha_gives_a_wider_interval():
    values = noise(5, 40)
    sure, surer = evidence_of(values), evidence_of(values, alpha=0.001)
    assert surer.low < sure.low < sure.high < surer.high


@for_each("value", [0.5, 50.0, -0.5, 0.0])
def test_more_rounds_than_floats_have_powers_of_two_do_not_overflow(value):
    assert isfinite(e_value([value] * 1100, 0.0))


def test_five_hundred_rounds_do_not_overflow_the_interval():
    evidence = evidence_of([0.5] * 500)
    assert (0.5, 0.5) == (evidence.low, evidence.high)


@for_each(
    ("expected", "values"),
    [
        (-7 / 8, [1, -1, 1, -1, 1, -1, 1, -1]),
        (5 / 8, [1, 1, 1, 1, -1, -1, -1, -1]),  # three likes, one change, three likes
        (5 / 8, [3, 3, 3, 3, 1, 1, 1, 1]),
    ],
)
def test_the_autocorrelation_is_the_number_worked_by_hand(expected, values):
    assert expected == pytest.approx(autocorrelation(values))


@for_each("values", [[1, -1, 1, -1, 1, -1, 1], [2.0] * 20, [2.0, 2.0 + 1e-9] * 10])
def test_few_values_and_those_that_vary_by_rounding_have_no_autocorrelation(values):
    assert autocorrelation(values) is None
