"""Notes on the numbers of a test: where all times together differ from their median."""

import factories
from cases import for_each

from pytest_gpuperf.analysis.estimation import sampled_rounds
from pytest_gpuperf.analysis.offload import OffloadInput
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import Round, Transfer
from pytest_gpuperf.timing.notes import on_numbers


def notes(cpu, gpu, *, copies=0.0, demand=None) -> list[str]:
    """Return the notes `totals_differ` on rounds of these seconds; their median speedup is 10."""
    rounds = [Round(cpu=one, gpu=other, copies=copies) for one, other in zip(cpu, gpu, strict=True)]
    measured = OffloadInput(
        demand=demand or Demand(),
        regime=(demand or Demand()).transfer,
        cpu=factories.measurement(factories.CPU, *cpu),
        gpu=factories.measurement(factories.GPU, *gpu),
        alone=gpu,
        sampled=sampled_rounds(rounds, demand or Demand(), factories.LASTED),
        speedup=factories.speedup(10.0),
        copies=[copies] * len(rounds),
        transfer=Transfer(h2d=None, d2h=None, reason="nothing moves"),
    )
    return [note.text for note in on_numbers(measured) if note.code == "totals_differ"]


def times(usual, *, slow=0, factor=20.0, rounds=60) -> list[float]:
    """Return so many times, of which some are slow."""
    return [usual * factor] * slow + [usual] * (rounds - slow)


def test_slow_calls_that_a_loop_pays_for_are_noted():
    (text,) = notes(times(10.0, slow=2), times(1.0))
    assert text == (
        "all times together give 16.3x, and the median is 10.0x: on the CPU a call takes 16.3 s on average "
        "and 10.0 s typically, and a loop pays the average"
    )
    (text,) = notes(times(10.0), times(1.0, slow=2))
    assert "give 6.12x" in text
    assert "on the GPU a call takes 1.63 s on average and 1.00 s typically" in text


def test_the_note_names_the_uneven_device_where_its_typical_block_holds_the_slow_call():
    """Most blocks of the GPU hold the slow call: without it a fifth of them takes a tenth as long."""
    (text,) = notes(times(10.0), times(1.0, slow=12, factor=0.1))
    assert "give 12.2x" in text
    assert "on the GPU a call takes 820 ms on average and 1.00 s typically" in text


@for_each(
    ("cpu", "gpu"),
    [
        (times(10.0, slow=1), times(1.0)),  # which may have been a stall
        (times(10.0, slow=2), times(1.0, slow=2)),
        (
            times(10.0, slow=2, factor=90.0),
            times(1.0, slow=10, factor=20.0),
        ),  # of sides that differ without the largest
        (times(10.0, slow=5, factor=2.0), times(1.0)),  # less than a tenth
        (times(10.0, slow=2, rounds=59), times(1.0, rounds=59)),
    ],
)
def test_one_slow_call_slow_calls_of_both_small_differences_and_few_rounds_are_not(cpu, gpu):
    assert notes(cpu, gpu) == []


def test_the_times_are_with_the_copies_of_the_demand():
    """The median is 10: that of calls of 10 s on the CPU, and of 0.25 s with copies of 0.75 s on the GPU."""
    cpu, gpu = times(10.0), times(0.25)
    assert notes(cpu, gpu, copies=0.75, demand=Demand(transfer="always")) == []
    (text,) = notes(cpu, gpu, copies=0.75, demand=Demand(transfer="once", calls=3))
    assert "give 20.0x" in text
