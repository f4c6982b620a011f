"""What libraries do besides the work: they compile, at first or later, and leave operators to the CPU."""

from contextlib import nullcontext
from functools import partial

import pytest
from walks import walked

from pytest_gpuperf.devices.protocol import Watched
from pytest_gpuperf.devices.simulated import Clock, SimulatedDevice, Timing
from pytest_gpuperf.model.errors import GpuPerfError


class Compiling(SimulatedDevice):
    """A device whose library compiles: `compiled` programs so far, and what it says of a call."""

    compiled = 0
    captured, constant, on_cpu = None, (), ()

    def compile(self, seconds):
        self.compiled += 1
        self.launch(seconds)

    def compilations(self):
        return self.compiled

    def watch(self):
        return nullcontext(Watched(captured=self.captured, constant=self.constant, on_cpu=self.on_cpu))


def device(kind, clock, seconds):
    return Compiling(kind, clock=clock, timing=Timing(kernel=seconds))


class Pair:
    """A CPU and a GPU that compile, 10 ms and 1 ms a call."""

    def __init__(self):
        clock = Clock()
        self.cpu, self.gpu = device("cpu", clock, 10e-3), device("gpu", clock, 1e-3)

    def record(self, body, demand=None, **options):
        return walked(body, self.cpu, self.gpu, demand, **options)


def slow_at_first(device, seconds=6.0):
    calls = iter([seconds])

    def work():
        device.launch(next(calls, None))

    return work


def notes(record):
    return {note.code: note.text for note in record.notes}


def test_first_calls_are_in_no_limit_and_have_a_line_of_their_own():
    record = Pair().record(slow_at_first)
    assert record.status == "passed"
    assert record.cpu.first_call == pytest.approx(6)
    assert notes(record)["long_warm_up"] == (
        "first calls took 12.0 s (6.00 s on the CPU, 6.00 s on the GPU): imports, compilation, autotuning; "
        "max_time does not limit them"
    )


@pytest.mark.parametrize("seconds", [0.4, None])
def test_short_first_calls_and_those_that_take_as_long_as_later_ones_have_none(seconds):
    assert "long_warm_up" not in notes(Pair().record(partial(slow_at_first, seconds=seconds)))
    pair = Pair()
    pair.cpu.timing = pair.gpu.timing = Timing(kernel=2.0)
    assert "long_warm_up" not in notes(pair.record(partial(slow_at_first, seconds=None), max_time=30.0))


def compiles_at(device, *when, slow=0.5):
    """Return a call that compiles at these numbers of its calls, for half a second."""
    calls = [0]

    def work():
        calls[0] += 1
        device.launch()
        if calls[0] in when or when == ():
            device.compile(slow)

    return work


def test_a_block_in_which_something_was_compiled_is_no_sample_and_is_counted():
    record = Pair().record(lambda found: compiles_at(found, *(range(24, 27) if found.kind == "gpu" else [0])))
    assert record.status == "passed"
    assert max(record.gpu.samples) == pytest.approx(1e-3)
    assert notes(record)["recompiles"] == (
        "in 3 timed blocks on the GPU something was compiled; they do not count: give calls the same shapes, "
        "dtypes and Python numbers"
    )


def test_a_call_that_goes_on_to_compile_is_an_error():
    with pytest.raises(GpuPerfError, match=r"compiles again and again, in each of 11 timed blocks: make its"):
        Pair().record(lambda found: compiles_at(found, slow=0.0))


def test_a_call_of_constants_is_an_error_with_the_remedy():
    pair = Pair()
    pair.gpu.constant = ("step",)
    with pytest.raises(GpuPerfError, match=r"the compiler does that work; pass them as arguments"):
        pair.record(slow_at_first)


def test_constants_beside_arguments_are_noted_once():
    pair = Pair()
    pair.cpu.captured = pair.gpu.captured = "65.54KB"
    record = pair.record(slow_at_first)
    (text,) = (note.text for note in record.notes if note.code == "not_on_device")
    assert text == (
        "a compiled function closes over arrays (65.54KB), and the compiler computes what depends on nothing "
        "else; pass them as arguments to time that, too"
    )


def test_operators_that_were_left_to_the_cpu_are_named():
    pair = Pair()
    pair.gpu.on_cpu = ("aten::linalg_eig",)
    assert notes(pair.record(slow_at_first))["not_on_device"] == (
        "simulated GPU left to the CPU: aten::linalg_eig; the times of the GPU include that, and its copies"
    )
