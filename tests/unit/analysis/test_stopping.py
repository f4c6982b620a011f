"""The stopping rule: when enough rounds were taken, and when there is no time for more."""

from itertools import islice

from cases import for_each
from factories import estimation_of, noisy, taken

from pytest_gpuperf.analysis.estimation import Exclusion, SequentialEstimator
from pytest_gpuperf.analysis.stopping import should_stop
from pytest_gpuperf.analysis.verdict import judge
from pytest_gpuperf.model.demand import Demand, RunOptions, SamplingPlan
from pytest_gpuperf.model.measurement import Round

PLENTY = 10.0


def rounds_until_enough(ratios, demand, plan=None, *, each=1e-6, allowed=PLENTY) -> int:
    """Return how many rounds are taken when each of them takes `each` seconds."""
    estimation = SequentialEstimator(demand, plan or RunOptions())
    source = iter(ratios)
    count = 0
    while not should_stop(estimation, spent=count * each, left=allowed - count * each):
        estimation.add(taken(next(source)))
        count += 1
    return count


@for_each(
    ("rounds", "ratios", "demand", "each"),
    [
        (6, [10.0] * 60, Demand(min=3), 0.1),  # the precision time is used up
        (6, [1.0] * 60, Demand(min=3), 0.02),  # a failing case stops as soon as a passing one
        (6, [0.1] * 60, Demand(max=1), 0.02),  # a ceiling like a floor
        # In doubt: with one of n below it, 0.3 * (2**(n + 1) - n - 2) / (n + 1) / n is 40 at fourteen rounds.
        (14, [0.9, *[1.1] * 60], Demand(min=1), 0.1),
        (6, [2.5, *[2.2] * 60], Demand(min=1), 0.02),
        (14, [2.5, *[2.2] * 60], Demand(min=1, max=2.4), 0.02),  # both limits have to be decided
        (60, [0.1, 10.0] * 30, Demand(min=2), 1e-3),  # two heaps
        (6, [10.0] * 60, Demand(), 1e-3),  # precise
        (500, noisy(0, spread=0.3), Demand(), 0.0),  # until its rounds are used up
    ],
)
def test_a_clear_case_stops_at_six_rounds_and_a_doubt_is_waited_for(rounds, ratios, demand, each):
    assert rounds_until_enough(ratios, demand, each=each) == rounds


def test_no_round_is_begun_that_would_leave_no_time_for_the_last_calls():
    assert rounds_until_enough([1.0] * 60, Demand(min=1), each=0.4, allowed=2.1) == 4


def test_a_clear_case_goes_on_for_precision_while_it_is_cheap():
    scattered = [8.0, 12.0, *[10.0] * 60]
    assert 6 < rounds_until_enough(scattered, Demand(min=3), each=1e-3) < 60


@for_each("demand", [Demand(min=3), Demand()])
@for_each(("expected", "allowed"), [(20, 1000.0), (15, 10.0), (8, 5.0)])
def test_a_slow_workload_has_its_rounds_where_a_change_must_show(expected, allowed, demand):
    plan = RunOptions(max_time=allowed, sampling=SamplingPlan(precision=1e-9, precision_rounds=20))
    assert rounds_until_enough([10.0] * 60, demand, plan, each=0.5, allowed=allowed) == expected


def test_a_slow_workload_that_is_precise_takes_no_more_rounds():
    plan = RunOptions(max_time=1000.0, sampling=SamplingPlan(precision_rounds=20))
    assert rounds_until_enough([10.0] * 60, Demand(min=3), plan, each=0.5) == 6


def test_a_bare_demand_stops_when_its_time_is_used_up():
    options = RunOptions(sampling=SamplingPlan(record_time=2.5))
    found = rounds_until_enough(noisy(0, spread=0.3), Demand(), options, each=0.3)
    assert found == 9  # 9 x 0.3 s is the first time beyond 2.5 s


@for_each("demand", [Demand(min=3), Demand()])
@for_each(("allowed", "begun"), [(-1.0, 0), (0.5, 1), (1.5, 2), (3.5, 2)])
def test_two_rounds_are_begun_while_there_is_time_however_long_they_last(demand, allowed, begun):
    assert rounds_until_enough([10.0] * 60, demand, each=1.0, allowed=allowed) == begun


def test_sixty_rounds_at_the_limit_are_inconclusive():
    demand = Demand(min=1)
    alternating = [0.9, 1.1] * 40
    assert rounds_until_enough(alternating, demand) == 60
    found = estimation_of(islice(alternating, 60), demand).speedup("interleaved")
    assert judge(found, demand, RunOptions()).status == "inconclusive"


def near_one(rounds, demand):
    """Return whether that many rounds about 1.05 are enough to tell a size of a size group."""
    estimation = SequentialEstimator(demand, RunOptions(), exclusions=[Exclusion(1.0, 1.0)])
    for step in range(rounds):
        estimation.add(Round(cpu=(0.98, 1.05, 1.08, 1.1, 1.06, 1.07)[step % 6], gpu=1.0))
    return should_stop(estimation, spent=5.0, left=100.0)


@for_each("demand", [Demand(), Demand(min=0.5)])
def test_a_size_of_a_size_group_is_sampled_until_it_is_won_or_lost(demand):
    assert not near_one(8, demand)
    assert near_one(40, demand)


@for_each(("expected", "middle"), [(True, 1.3), (True, 0.8), (False, 2.0), (False, 0.5)])
def test_near_its_limit_a_size_of_a_size_group_is_sampled_for_its_verdict_and_no_record(expected, middle):
    estimation = SequentialEstimator(Demand(), RunOptions(), exclusions=[Exclusion(1.0, 1.0)])
    for step in range(8):
        estimation.add(Round(cpu=middle * (0.93, 1.07)[step % 2], gpu=1.0))
    assert expected == should_stop(estimation, spent=0.5, left=100.0)


def test_a_size_that_nothing_tells_from_one_ends_all_the_same():
    estimation = SequentialEstimator(
        Demand(), RunOptions(sampling=SamplingPlan(max_rounds=20)), exclusions=[Exclusion(1.0, 1.0)]
    )
    for step in range(20):
        estimation.add(Round(cpu=0.9 + 0.2 * (step % 2), gpu=1.0))
        assert (step == 19) == should_stop(estimation, spent=5.0, left=100.0)


@for_each(
    ("expected", "lasted", "spent", "apart"),
    [(False, 65, 1.0, True), (True, 66, 1.0, True), (True, 65, 7.5, True), (True, 6, 1.0, False)],
)
def test_rounds_that_are_compared_later_last_longer_than_a_spell_while_there_is_time(
    expected, lasted, spent, apart
):
    options = RunOptions(max_time=10, sampling=SamplingPlan(apart=apart))
    estimation = SequentialEstimator(Demand(), options)
    for _ in range(6):
        estimation.add(Round(cpu=10.0, gpu=1.0))
    assert expected == should_stop(estimation, spent=spent, left=100.0, lasted=lasted)
