"""From the timers of one test to its rounds: as many as decide, without those of a throttled GPU."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle, repeat
from random import Random
from time import perf_counter

from pytest_gpuperf.analysis import estimation, looks, noise
from pytest_gpuperf.analysis.estimation import Evidence, OwnShares
from pytest_gpuperf.analysis.looks import Limit, Look
from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.model.measurement import Round, Speedup
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.checks import CpuResult
from pytest_gpuperf.timing.clock import seconds_between
from pytest_gpuperf.timing.context import TrialContext

_FEWEST = 2  # rounds, or samples of one device, taken whatever they cost
_FEWEST_TO_RESTART = 0.25  # of the sampling time must be left for a restart to be worth it
_MOST_DROPPED = 12  # rounds of a throttled GPU, before too large a share of them ends sampling
# What follows keeps rounds from falling into step with calls that alternate, or with anything periodic.
_UNTIMED_SHARE = 1 / 8  # of the rounds are preceded by one that is not timed
_WAIT_SHARE, _LONGEST_WAIT = 1 / 4, 0.01  # of a round; seconds, in which no GPU's clocks fall
_SLOW = 1 / 100  # of the sampling time: longer rounds have no time for more than an untimed one a stretch
# Where nothing is required, whether the GPU wins is looked at, and ends nothing that fails.
_WHO_WINS = Limit(1.0, 1.0, "neither")


class RoundSampler:
    """The rounds of one test in the mode of its demand; `dropped` were taken while the GPU was throttled.

    `limits` are ranges of ratios that the rounds must lie outside of, beside those of the demand.
    """

    def __init__(self, context: TrialContext, limits: Sequence[Limit] = ()) -> None:
        self._context = context
        self._limits = [*looks.limits_of(context.demand), *limits]
        self._restarted = False
        self._begin()

    def restart(self) -> None:
        """Discard every round; the next ones have three quarters of the time that is left."""
        self._restarted = True
        self._begin()

    def _begin(self) -> None:
        self.rounds: list[Round] = []
        self.begun = 0
        self.dropped = 0
        self.throttle: tuple[str, ...] = ()
        self.elapsed: float | None = None
        self.look: Look = looks.planned(self._context.options.passes)[0]
        self.is_decided = False
        self._last_due: Look | None = None
        self._undecided: list[Limit] = []
        self._own = OwnShares()
        self._recorded: CpuResult | None = None

    @property
    def seconds(self) -> float:
        """The sampling time: three quarters of the test's, or of what a restart left."""
        context = self._context
        left = context.remaining() + (self.elapsed or 0.0)
        whole = left if self._restarted else context.options.max_time
        return max(0.0, min(looks.SAMPLING_SHARE * whole, left))

    @property
    def evidence(self) -> Evidence:
        """The times of the rounds so far, with the copies that the demand includes."""
        recorded, rounds = self._recorded, self.rounds
        return Evidence(
            reference=recorded.samples if recorded else [each.cpu for each in rounds],
            candidate=estimation.candidate_times(rounds, self._context.demand),
            alpha=self._context.options.alpha,
            sampling="siblings" if recorded else "interleaved",
            own=self._own,
        )

    @property
    def speedup(self) -> Speedup | None:
        """The ratio that the rounds so far show; None before the first."""
        return estimation.speedup(self.evidence, self.look, decided=self.is_decided) if self.rounds else None

    @property
    def throttled(self) -> str | None:
        """Why the rounds decide nothing, when too many of them were dropped."""
        return noise.throttle_reason(self.dropped, self.begun, self.throttle)

    @property
    def too_late_to_restart(self) -> bool:
        """Whether too little time is left to take rounds again that decide as much."""
        return self._context.remaining() < _FEWEST_TO_RESTART * self._context.options.max_time

    def maybe_cold(self, cpu: BlockTimer, gpu: BlockTimer) -> Iterator[BlockTimer]:
        """Yield the timers on whose warm-up a verdict of the first look rests.

        A reference that is still slow puts the ratio above a limit, and a candidate puts it below one.
        """
        if not self.is_decided or self.look.name != "first":
            return
        seen = self.evidence.seen
        if any(seen.low > limit.high for limit in self._limits):
            yield cpu
        if any(seen.high < limit.low for limit in self._limits):
            yield gpu

    def take_interleaved(
        self,
        cpu: BlockTimer,
        gpu: BlockTimer,
        loop: BlockTimer | None = None,
        *,
        beside: Sequence[BlockTimer] = (),
        may_stop: Callable[[], bool] = lambda: True,
    ) -> None:
        """Take rounds of both devices, and of a `loop` of calls with their transfers if any, in random order.

        Timers `beside` them take a sample in each round, too. Where rounds decide, but `may_stop` does not
        allow it, take more while there is time.
        """
        self._own = OwnShares(reference=cpu.own_share, candidate=gpu.own_share)
        timers = [cpu, gpu, *filter(None, [loop]), *beside]
        latest = (cpu.samples[-1] for _ in repeat(None))
        self._take(_RoundSource(timers, self._context.order, gpu, loop, latest), may_stop)

    def take_against(
        self,
        recorded: CpuResult,
        gpu: BlockTimer,
        loop: BlockTimer | None = None,
        *,
        beside: Sequence[BlockTimer] = (),
    ) -> None:
        """Take rounds of the GPU alone, compared with the samples that the CPU sibling left."""
        self._recorded = recorded
        self._own = OwnShares(reference=recorded.own_share, candidate=gpu.own_share)
        timers = [gpu, *filter(None, [loop]), *beside]
        if recorded.samples:
            self._take(
                _RoundSource(timers, self._context.order, gpu, loop, cycle(recorded.samples)), lambda: True
            )

    def take_alone(self, timer: BlockTimer, seconds: float, *, beside: Sequence[BlockTimer] = ()) -> None:
        """Take two samples of one device alone, and more within `seconds` of its sampling time."""
        longest = self.seconds
        seconds = min(seconds, longest)
        while self.begun < _FEWEST or self._has_time_for_another(seconds):
            started = timer.device.clock()
            self._keep_out_of_step([timer, *beside], longest)
            self.begun += 1
            for each in (timer, *beside):
                each.take_sample()
            self._add_time(seconds_between(started, timer.device.clock()))
            self._report_round()
        if (self.elapsed or 0.0) + self._round_time > longest:
            self.look = looks.last(self.begun, self._stretches, longest, self._context.options.alpha)
        else:
            self.look = looks.reached(
                self._context.options.passes, self.begun, self._stretches, self.elapsed or 0.0, longest
            )

    @property
    def certain_factor(self) -> float | None:
        """The factor by which times certainly lie within the range of their stretches; None before any."""
        return self.look.sure if self.begun else None

    def _take(self, source: "_RoundSource", may_stop: Callable[[], bool]) -> None:
        """Take rounds until a look decides, until none can, or until the time is up."""
        seconds = self.seconds
        while not self._is_over(seconds, may_stop):
            started = source.gpu.device.clock()
            self._keep_out_of_step(source.timers, seconds)
            self.begun += 1
            counters = capabilities.throttle_counters(source.gpu.device)
            taken = source.take()
            self._add_time(seconds_between(started, source.gpu.device.clock()))
            if reasons := capabilities.throttle(source.gpu.device, counters):
                self.throttle = tuple(sorted({*self.throttle, *reasons}))
                self.dropped += 1
                for timer in source.timers:
                    timer.drop_last_sample()
            else:
                self.rounds.append(taken)
            self._report_round()

    def _is_over(self, seconds: float, may_stop: Callable[[], bool]) -> bool:
        """Return whether no more rounds are taken; weigh those so far where a look is due."""
        if self.begun < _FEWEST:
            return False
        taken, spent, plan = len(self.rounds), self.elapsed or 0.0, self._context.options.sampling
        is_mostly_dropped = self.dropped > _MOST_DROPPED and self.throttled is not None
        if not self._has_time_for_another(seconds):
            if taken:
                self._weigh(looks.last(taken, self._stretches, seconds, self._context.options.alpha))
            return True
        if is_mostly_dropped or (not self._limits and not plan.whole and spent >= plan.record_time):
            return True
        if taken < self._stretches or plan.whole:
            return False
        due = looks.reached(self._context.options.passes, taken, self._stretches, spent, seconds)
        if due is not self._last_due:
            self._last_due = due
            self._weigh(due)
        if self.is_decided and (spent >= plan.precision_time or self._is_precise):
            self._weigh(self.look)  # with all rounds: a limit must lie outside of these, too
            return self.is_decided and may_stop()
        return bool(self._limits) and not self.is_decided and self._is_hopeless(seconds)

    def _has_time_for_another(self, seconds: float) -> bool:
        """Return whether one more round, and the two calls that end the test, fit into the time left."""
        fits = (self.elapsed or 0.0) + self._round_time <= seconds
        return fits and 2 * self._round_time <= self._context.remaining()

    def _weigh(self, look: Look) -> None:
        """Weigh all rounds at a look; what was recorded in less time allows no later one."""
        recorded = self._recorded
        self.look = recorded.look if recorded is not None and recorded.look.share < look.share else look
        self._undecided = [limit for limit in self._asked if not self.evidence.is_decided(limit, self.look)]
        self.is_decided = not self._undecided

    def _is_hopeless(self, seconds: float) -> bool:
        """Return whether stretches of the last look already lie on both sides of every limit left."""
        size = int(seconds / self._round_time) // self._stretches
        if not size or len(self.rounds) % size:  # no stretch has just ended
            return False
        seen = self.evidence.in_stretches_of(size)
        return seen is not None and all(looks.is_hopeless(limit, seen) for limit in self._undecided)

    @property
    def _is_precise(self) -> bool:
        """Whether the range of the stretches is as narrow as the plan requires."""
        evidence, width = self.evidence, 1 + self._context.options.sampling.precision
        low, high = evidence.seen
        return high <= width * evidence.value and low * width >= evidence.value

    @property
    def _asked(self) -> list[Limit]:
        return self._limits or [_WHO_WINS]

    @property
    def _stretches(self) -> int:
        return looks.count_of_stretches(self._context.options.alpha)

    @property
    def _round_time(self) -> float:
        """The seconds that a round takes, with the waits and untimed rounds between."""
        return (self.elapsed or 0.0) / self.begun if self.begun else 0.0

    def _keep_out_of_step(self, timers: Sequence[BlockTimer], seconds: float) -> None:
        """Wait for a random while, or let each timer run untimed at random, before a round."""
        chance, round_time = self._context.order, self._round_time
        if round_time > _SLOW * seconds:
            size = max(1, int(seconds / round_time) // self._stretches)
            is_untimed = self.begun % size == 0 and size > 1 and chance.random() < 1 / 2
        else:
            is_untimed = self.begun >= self._stretches and chance.random() < _UNTIMED_SHARE
            wait = min(chance.random() * _WAIT_SHARE * round_time, _LONGEST_WAIT)
            _wait(timers[-1].device, wait)
        if is_untimed:
            for timer in timers:
                timer.run_untimed()

    def _add_time(self, seconds: float) -> None:
        self.elapsed = (self.elapsed or 0.0) + seconds

    def _report_round(self) -> None:
        """Tell who watches that a round has ended."""
        if self._context.on_round is not None:
            self._context.on_round(self.begun, partial(getattr, self, "speedup"))


@dataclass(frozen=True, slots=True)
class _RoundSource:
    """Where rounds come from: a sample of every timer, in an order drawn anew for each round."""

    timers: Sequence[BlockTimer]
    order: Random
    gpu: BlockTimer
    loop: BlockTimer | None
    cpu: Iterator[float]

    def take(self) -> Round:
        """Return the next round."""
        shuffled = [*self.timers]
        self.order.shuffle(shuffled)
        for timer in shuffled:
            timer.take_sample()
        gpu_sample = self.gpu.samples[-1]
        copies = self.loop.samples[-1] - gpu_sample if self.loop else 0.0
        return Round(cpu=next(self.cpu), gpu=gpu_sample, copies=copies)


def _wait(device: TimedDevice, seconds: float) -> None:
    """Let so many seconds pass, too few to sleep for: the processor's clocks would fall."""
    if device.clock is not perf_counter:
        capabilities.pause(device, seconds)
        return
    ends = perf_counter() + seconds
    while perf_counter() < ends:
        pass
