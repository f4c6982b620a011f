"""A clock that goes back or shows no number: an error, never a hang."""

import re
from math import inf, nan

from cases import for_each
from walks import bound, trial_of

from pytest_gpuperf.devices.simulated import Clock, SimulatedDevice, Timing
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Record, Verdict

# A block is a few calls, and so is one of copies: enough for readings of each kind.
TIMINGS = {
    "cpu": Timing(kernel=1e-3, bandwidth=1e5),
    "gpu": Timing(kernel=1e-4, bandwidth=1e5, synchronize=1e-6),
}
NO_TIMES = {"nan": lambda now: nan, "inf": lambda now: inf, "minus inf": lambda now: -inf}
FAULTS = {**NO_TIMES, "back to the start": lambda now: 0.0, "running backwards": lambda now: -now}
WRONG = re.compile(r"\b(nan|inf)\b|[=\[( ]-[\d.i]")


class Reader:
    """A clock that is read through a fault from one reading on, and may not be read for ever."""

    def __init__(self, clock: Clock, fault, first: int, last: float) -> None:
        self._clock, self._fault, self._first, self._last = clock, fault, first, last
        self.readings = 0

    def __call__(self) -> float:
        self.readings += 1
        assert self.readings < 100_000, "this is a hang"
        now = self._clock()
        return self._fault(now) if self._first <= self.readings <= self._last else now


class Clocked:
    """A simulated device that is read through another clock than the one that it advances."""

    def __init__(self, device: SimulatedDevice, clock: Reader) -> None:
        self._device, self.clock = device, clock

    def __getattr__(self, name: str):
        return getattr(self._device, name)


def walk(demand, fault=float, *, first=0, last=-1) -> tuple[Record, str | None, int]:
    """Return the record of a walk on such a clock, its error, and how often the clock was read."""
    clock = Clock()
    clock.advance(1.0)
    reader = Reader(clock, fault, first, last)
    cpu, gpu = (
        Clocked(SimulatedDevice(kind, clock=clock, timing=timing), reader) for kind, timing in TIMINGS.items()
    )
    trial = trial_of(demand, RunOptions(max_time=0.2))
    ended, said = Verdict(status="error", reason="no time"), None
    try:
        ended = trial.compare(bound(body), cpu, gpu)
    except GpuPerfError as error:
        trial.discard_estimate()
        said = str(error)
    return trial.record(ended), said, reader.readings


def body(device):
    a = device.asarray([1.0, 2.0])
    return lambda: a + 1


@for_each("demand", [Demand(min=10), Demand(max=30, transfer="always"), Demand(min=3, latency=True)])
def test_a_clock_that_breaks_at_any_time_or_once_is_an_error_and_what_was_measured_stays(demand):
    found, error, count = walk(demand)  # the last reading is for the record
    assert (found.status in ("passed", "inconclusive"), error) == (True, None)
    for name, fault in FAULTS.items():
        for share in (0.0, 0.4, 0.99):
            found, error, _ = walk(demand, fault, first=int(share * count) + 2, last=inf)
            assert re.search("clock cannot be right: it measured|no time that the clock can show", error)
            assert (None, None) == (found.elapsed, WRONG.search(repr(found))), f"{name} after {share}"
    for name, fault in NO_TIMES.items():
        for at in {2, 3, 4, 5, *range(6, count, count // 8), count - 1}:
            found, error, _ = walk(demand, fault, first=at, last=at)
            assert error or found.status == "error", f"{name} in reading {at} of {count}"
            assert WRONG.search(repr(found)) is None, f"{name} in reading {at} of {count}"
