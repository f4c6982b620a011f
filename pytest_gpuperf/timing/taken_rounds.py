"""From the rounds that were taken to what they show so far."""

from statistics import median

from pytest_gpuperf.analysis import estimation, noise, turns
from pytest_gpuperf.analysis.estimation import Sampled
from pytest_gpuperf.analysis.turns import Alone, Turns
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import Round, Speedup
from pytest_gpuperf.timing.time_budget import CountedSeconds


class TakenRounds:
    """The rounds of one test in the mode of its demand; `dropped` were taken while the GPU was throttled.

    `elapsed` are their seconds of sampling, as far as they count, and `alone` is what the devices took alone.
    Where the CPU variant left samples, these are `recorded`, and the rounds are those of the GPU.
    """

    def __init__(self, demand: Demand) -> None:
        self._demand = demand
        self.restart()

    def restart(self) -> None:
        """Discard every round."""
        self.rounds: list[Round] = []
        self.begun = 0
        self.dropped = 0
        self.throttle: tuple[str, ...] = ()
        self.elapsed: float | None = None
        self.lasted = CountedSeconds()
        self.recorded: Sampled | None = None
        self.alone: tuple[list[Alone], list[Alone]] = ([], [])
        self._known_turns: tuple[tuple[int, ...], Turns | None] = (), None

    @property
    def sampled(self) -> Sampled:
        """The times of the rounds so far, as the demand counts them."""
        of_rounds = estimation.sampled_rounds(
            self.rounds, self._demand, self.seconds or 0.0, self._sure_turns
        )
        if self.recorded is None:
            return of_rounds
        cpu, gpu, seconds = self.recorded.cpu, of_rounds.gpu, of_rounds.seconds
        return Sampled(cpu=cpu, gpu=gpu, seconds=seconds, sampling="variants")

    def beside(self, seconds: float) -> Sampled:
        """Return the GPU's calls, without transfers, beside a call that takes so many seconds."""
        calls = [each.gpu for each in self.rounds]
        return Sampled(
            cpu=[seconds] * len(calls), gpu=calls, seconds=self.elapsed or 0.0, sampling="variants"
        )

    def speedup(self) -> Speedup | None:
        """Return what the rounds so far show; None before the first."""
        return self.sampled.speedup()

    @property
    def seconds(self) -> float | None:
        """The seconds of sampling that count, of two variants the fewer; None before the first round."""
        if self.elapsed is None or self.recorded is None:
            return self.elapsed
        return min(self.elapsed, self.recorded.seconds)

    @property
    def compared(self) -> int:
        """How many rounds a speedup has: of two variants no more than the other one left samples."""
        taken = len(self.rounds)
        return taken if self.recorded is None else min(taken, len(self.recorded.cpu))

    @property
    def round_time(self) -> float:
        """The seconds that a round takes, with the waits and untimed rounds before it."""
        return (self.elapsed or 0.0) / self.begun if self.begun else 0.0

    @property
    def throttled(self) -> str | None:
        """Why the rounds decide nothing, when too many of them were dropped."""
        return noise.throttle_reason(self.dropped, self.begun, self.throttle)

    @property
    def turns(self) -> Turns | None:
        """How the devices differ in rounds from their loops, surely or not; None where they do not."""
        if not any(self.alone):
            return None
        known = len(self.rounds), *map(len, self.alone)
        if known != self._known_turns[0]:  # it is asked several times after each round
            cpu, gpu = [each.cpu for each in self.rounds], [each.gpu for each in self.rounds]
            self._known_turns = known, turns.find(cpu, gpu, self.alone)
        return self._known_turns[1]

    @property
    def _sure_turns(self) -> Turns | None:
        """What is sure of that, with the copies that the demand counts."""
        found = self.turns
        if found is None:
            return None
        copies = median(each.copies for each in self.rounds)
        return turns.sure(found, estimation.with_copies(0.0, copies, self._demand))

    def drop(self, reasons: tuple[str, ...]) -> None:
        """Count a round that is dropped, since the GPU was throttled."""
        self.throttle = tuple(sorted({*self.throttle, *reasons}))
        self.dropped += 1
