"""What took processors from a workload: how long its threads waited for them in blocks, and who had them."""

from math import inf

import pytest
from cases import for_each
from msgspec import structs
from walks import simulated, system, timer_on

from pytest_gpuperf.timing.blocks import BlockTimer


def blocks_of(seen, others=(), *, blocks_before=0) -> BlockTimer:
    """Return a timer whose threads were seen to have waited so long, before each block and after it."""
    left, worked = iter(seen), iter(others)
    timer = timer_on(simulated("cpu"))
    reports = {"waits": lambda: next(left), "other_work": lambda: next(worked, None)}
    with system(timer.device.clock, **reports):
        for _ in range(blocks_before or len(seen) // 2):
            timer.take_sample()
    return timer


POOL = [f"{n}" for n in range(10_000)]


@pytest.mark.parametrize(
    ("waited", "threads", "lost", "seen", "others"),
    [
        (0.75, 1, 0.75, [{"1": 1.0}, {"1": 1.5}, {"1": 7.0}, {"1": 7.25}], []),
        (1.0, 3, 1.0, [{"1": 1.0, "2": 0.0, "3": 2.0}, {"1": 1.5, "2": 0.0, "3": 2.25, "4": 0.25}], []),
        (1.0, 1, 0.25, [{"1": 1.0}, {"1": 2.0}], [100.0, 100.25]),
        # In the second block nobody waited, and nobody asks.
        (1.125, 1, 0.5, [{"1": t} for t in (1, 2, 2, 2, 3, 3.125)], [100.0, 100.25, 100.5]),
        (9.0, 1, 0.0, [{"1": 0.0}, {"1": 9.0}], [0.0, -1.0]),
        (1e-3, 0, 0.5e-3, [dict.fromkeys(POOL, 0.0), dict.fromkeys(POOL, 1e-7)], [1.0, 1.0 + 0.5e-3]),
        (None, None, None, [None, None], []),
    ],
    ids=["blocks alone", "all threads", "others", "each block", "for each other", "a little each", "unknown"],
)
def test_threads_waited_for_processors_in_blocks_but_no_longer_than_these_worked_for_others(
    waited, threads, lost, seen, others
):
    timer = blocks_of(seen, others)
    found = timer.measurement
    assert (waited and pytest.approx(waited), threads) == (timer.processors.waited, found.waiting_threads)
    assert (lost and pytest.approx(lost)) == found.waited
    assert lost or timer.interference is None


@for_each(("asked", "emulated"), [(2, True), (0, False)])  # before and after the block
def test_no_thread_is_asked_around_the_blocks_of_a_real_gpu(asked, emulated):
    device, looks = simulated(), []
    device.info = structs.replace(device.info, emulated=emulated)
    with system(device.clock, waits=lambda: looks.append(1)):
        timer_on(device).take_sample()
    assert asked == len(looks)


@for_each(("expected", "kind", "samples"), [(3.5, "cpu", 2), (None, "cpu", 0), (None, "gpu", 2)])
def test_a_cpu_keeps_as_many_processors_busy_as_its_threads_worked_in_the_timed_blocks(
    expected, kind, samples
):
    timer = timer_on(simulated(kind, kernel=2e-3, threads=3.5), block_calls=4)
    for _ in range(samples):
        timer.take_sample()
        timer.device.launch(5.0)
    assert timer.measurement.processors == (expected and pytest.approx(expected))


def test_what_a_dropped_block_added_to_the_sums_is_dropped_with_it_and_all_of_it_at_a_restart():
    timer = timer_on(simulated("cpu", kernel=1.0, threads=2.0))
    left, worked = iter([{"1": seconds} for seconds in (0.0, 0.5, 0.5, 3.5)]), iter([10.0, 10.25, 12.0])
    with system(timer.device.clock, waits=lambda: next(left), other_work=lambda: next(worked)):
        timer.take_sample()
        timer.take_sample()
    found = timer.processors
    assert (3.5, 2.0, pytest.approx(4.0)) == (found.waited, found.lost, found.worked)
    timer.drop_last_sample()
    assert (0.5, 0.25, pytest.approx(2.0)) == (found.waited, found.lost, found.worked)
    timer.restart()
    assert (None, None, None, inf) == (found.waited, found.lost, found.worked, found.others_worked)
