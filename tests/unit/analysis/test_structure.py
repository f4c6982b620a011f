"""Structure: what sums and halves of the samples show that their median does not."""

from random import Random

from cases import for_each

from pytest_gpuperf.analysis import structure
from pytest_gpuperf.analysis.estimation import Evidence


def evidence(reference, candidate, sampling="interleaved") -> Evidence:
    return Evidence(reference=reference, candidate=candidate, alpha=0.025, sampling=sampling)


def notes(*sides, **known):
    return {note.code: note.text for note in structure.notes(evidence(*sides, **known))}


@for_each("side", [0, 1])
def test_rare_slow_calls_are_told_with_what_a_loop_pays_for_them(side):
    often = [20.0 if index % 37 == 0 else 1.0 for index in range(187)]
    sides = [[3.0] * 187, [1.0] * 187]
    sides[side] = [sides[side][0] * each for each in often]
    text = notes(*sides)["totals_differ"]
    assert text.startswith("all times together give ")
    assert "the median 3.00x" in text


def test_one_stall_is_no_difference():
    assert {} == notes([3.0] * 99 + [300.0], [1.0] * 100)


def test_few_rounds_say_nothing_of_their_sum():
    assert {} == notes([20.0, 20.0] + [3.0] * 57, [1.0] * 59)


def test_sides_that_were_sampled_apart_may_differ_in_their_number():
    assert {} == notes([3.0] * 600, [1.0] * 100, sampling="siblings")


@for_each(
    ("side", "change", "said"),
    [(0, 0.3, "reference is 14 % slower"), (1, 0.3, "candidate is 14 % slower"), (1, -0.3, "candidate is")],
)
def test_times_that_grow_or_fall_to_the_end_are_told(side, change, said):
    sides = [[3.0] * 70, [1.0] * 70]
    sides[side] = [each * (1 + change * index / 70) for index, each in enumerate(sides[side])]
    text = notes(*sides)["trend"]
    assert said in text
    assert ("faster" in text) is (change < 0)


def test_times_that_change_and_come_back_are_no_trend():
    there_and_back = [1.0] * 30 + [1.3] * 40 + [1.0] * 20 + [1.3] * 30
    assert "trend" not in notes([3.0] * 120, there_and_back)


def test_noise_is_seldom_a_trend():
    chance = Random(0)  # noqa: S311 - noise, not a secret
    drawn = ([[chance.lognormvariate(0, 0.3) for _ in range(70)] for _ in range(2)] for _ in range(400))
    assert sum("trend" in notes(*sides) for sides in drawn) <= 24  # 2 % of the sides
