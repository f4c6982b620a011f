"""Turns: rounds of two devices, held against the loop of each that they stand for."""

from itertools import chain, repeat
from random import Random

from cases import for_each

from pytest_gpuperf.analysis import turns
from pytest_gpuperf.analysis.turns import Alone

STEADY = [1.0] * 30


def noisy(level, spread=0.02, seed=1, blocks=30):
    chance = Random(seed)  # noqa: S311 - a simulation
    return [level * chance.lognormvariate(0, spread) for _ in range(blocks)]


def windows(*levels):
    """Return what windows of such a level show, of five blocks each."""
    return Alone.of([noisy(level, 0.001, seed, 5) for seed, level in enumerate(levels)])


def loop(level):
    return windows(*repeat(level, 10))


def of_speedup(cpu=STEADY, gpu=STEADY, on_cpu=(), on_gpu=(), copies=0.0):
    """Return between which factors of the rounds' speedup that of loops is; None where both agree."""
    same = [loop(1.0)] * 2
    found = turns.sure(turns.find(cpu, gpu, (on_cpu or same, on_gpu or same)), copies)
    return found and tuple(round(end, 2) for end in found.speedup)


@for_each(
    ("expected", "changed"),
    [
        (None, {"cpu": noisy(1.0), "gpu": noisy(1.0)}),
        (None, {"cpu": noisy(1.02)}),  # a smaller difference than noise may make
        (None, {"cpu": noisy(1.2, 0.4)}),  # as are 2.5 standard errors of such rounds
        ((0.67, 1.0), {"cpu": noisy(1.5)}),  # a CPU whose clock has fallen in the GPU's turn
        ((1.0, 1.5), {"gpu": noisy(1.5)}),
        ((0.77, 1.0), {"on_gpu": [loop(1.3)] * 2}),  # a GPU that is hot in a loop
        ((0.67, 1.5), {"cpu": noisy(1.5), "gpu": noisy(1.5)}),
    ],
)
def test_the_speedup_of_loops_may_be_all_that_the_other_device_has_changed(expected, changed):
    assert expected == of_speedup(**changed)


def test_a_device_that_begins_to_work_alone_is_at_first_that_of_rounds():
    slow_at_first = windows(*[1.5] * 5, *[1.0] * 9)
    assert of_speedup(cpu=noisy(1.5), on_cpu=[slow_at_first] * 2) == (0.67, 1.0)


def test_what_shows_one_time_alone_was_noise_that_lasts():
    assert of_speedup(on_cpu=[loop(1.5)]) is None
    assert of_speedup(on_cpu=[loop(1.5), loop(1.0)]) is None
    assert of_speedup(on_cpu=[loop(1.5), loop(1.4)]) == (1.0, 1.5)


def test_one_window_in_five_may_be_as_in_rounds_and_then_so_may_be_the_loop():
    disturbed = loop_with_exceptions(1)
    assert of_speedup(cpu=noisy(1.5), on_cpu=[disturbed] * 2) == (0.67, 1.07)
    assert of_speedup(on_cpu=[disturbed] * 2) is None
    assert of_speedup(cpu=noisy(1.5), on_cpu=[loop_with_exceptions(2)] * 2) is None


def loop_with_exceptions(exceptions):
    levels = [1.0] * 5 + [1.6] * exceptions + [1.0] * (5 - exceptions)
    return Alone(medians=tuple(levels[5:]), means=tuple(levels[5:]), is_settled=True)


def test_what_still_changes_when_it_ends_may_change_as_much_again():
    heating = windows(*(1.0 + step / 100 for step in range(14)))
    assert not heating.is_settled
    assert of_speedup(on_gpu=[heating] * 2) == (0.78, 1.0)  # 1 / 1.13 ** 2


def test_copies_that_a_speedup_counts_are_no_part_of_what_changes():
    assert of_speedup(gpu=[2.0] * 30) == (1.0, 2.0)
    assert of_speedup(gpu=[2.0] * 30, copies=8.0) == (1.0, 1.11)  # of 10 s a call it is one


def test_the_rounds_after_a_loop_are_still_its_own():
    assert of_speedup(cpu=[1.0] * 14 + [1.5] * 16) == (0.67, 1.0)


def test_calls_that_differ_in_turn_differ_by_chance_in_windows_of_a_few():
    rounds = [2.0, 1.0] * 15  # of the later half most are 1
    pairs = Alone.of([[1.0, 2.0]] * 10)
    assert of_speedup(cpu=rounds, on_cpu=[pairs] * 2) is None


def test_a_quota_that_stops_some_blocks_shows_in_how_long_a_loop_takes_on_average():
    blocks = [[1.0, 1.0, 1.0, 7.0]] * 10
    assert of_speedup(cpu=noisy(1.0), on_cpu=[Alone.of(blocks, is_stopped=True)] * 2) == (1.0, 2.5)
    assert (
        of_speedup(cpu=noisy(1.0), on_cpu=[Alone.of(blocks)] * 2) is None
    )  # rare slow calls, of which it is median


def test_a_few_windows_of_long_blocks_are_enough():
    few = Alone.of([[1.4], [1.2], [1.0], [1.0], [1.0], [1.0]])
    assert of_speedup(cpu=[1.5] * 10, on_cpu=[few] * 2) == (0.67, 1.0)


@for_each("rounds", [[], [9.0] * 4])
def test_a_few_rounds_are_held_against_nothing(rounds):
    assert of_speedup(cpu=rounds) is None


def test_the_times_of_both_are_said_and_of_which_rounds_they_are():
    still_changing = windows(*chain([0.01] * 6, [0.02] * 4))
    found = turns.find([0.03] * 9, [0.01] * 9, ([loop(0.02)], [still_changing]))
    assert turns.describe(found, ("the CPU", "the GPU")) == (
        "a call on the CPU takes 30.0 ms in turn with the GPU, and 20.0 ms in a loop; a call on the GPU "
        "takes 10.0 ms in turn with the CPU, and 20.0 ms in a loop, which still changed (in turn: the median "
        "of the later half of the rounds)"
    )
