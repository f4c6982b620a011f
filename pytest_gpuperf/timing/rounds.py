"""From the timers of one test to its rounds: enough of them, without those of a throttled GPU."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from pytest_gpuperf.analysis import noise, spacing
from pytest_gpuperf.analysis.estimation import Exclusion, SequentialEstimator
from pytest_gpuperf.analysis.stopping import is_used_up, should_stop
from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.model.measurement import Confirmation, Neighbours, Round, Speedup
from pytest_gpuperf.timing import blocks
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.clock import seconds_between
from pytest_gpuperf.timing.context import TrialContext

_FIRST_SHARE = 0.8  # of alpha, for the rounds before any restart; six that agree still decide
_MIN_ALONE = 2  # samples of one device, taken whatever they cost
_RESTART_SHARE = 0.5  # of the time that the rounds took must be left for a restart to be worth it


class RoundSampler:
    """The rounds of one test in the mode of its demand; `dropped` were taken while the GPU was throttled.

    `exclusions` are ranges of speedups that the interval must exclude as well before sampling stops.
    """

    def __init__(self, context: TrialContext, exclusions: Sequence[Exclusion] = ()) -> None:
        self._context = context
        self._exclusions = exclusions
        self._begin(_FIRST_SHARE)

    def restart(self) -> None:
        """Discard every round; what is left of alpha is divided among all restarts."""
        self._begin((1 - _FIRST_SHARE) / max(1, self._context.options.sampling.max_restarts))

    def _begin(self, alpha_share: float) -> None:
        context = self._context
        self._estimator = SequentialEstimator(
            context.demand, context.options, self._exclusions, alpha_share=alpha_share
        )
        self.rounds: list[Round] = []
        self.begun = 0
        self.dropped = 0
        self.throttle: tuple[str, ...] = ()
        self.elapsed: float | None = None
        self.round_time = 0.0
        self._confirmation: Confirmation | None = None

    def speedup(self, sampling: Neighbours) -> Speedup | None:
        """Return the estimate from the rounds so far."""
        return self._estimator.speedup(sampling, confirmation=self._confirmation)

    @property
    def throttled(self) -> str | None:
        """Why the rounds decide nothing, when too many of them were dropped."""
        return noise.throttle_reason(self.dropped, self.begun, self.throttle)

    @property
    def lasted(self) -> float:
        """How many rounds could have been taken in the time that the rounds took with their pauses."""
        return self.elapsed / self.round_time if self.elapsed else 0.0

    @property
    def too_late_to_restart(self) -> bool:
        """Whether too little time is left to take nearly as many rounds again."""
        return self._context.remaining() < _RESTART_SHARE * (self.elapsed or 0.0)

    def take_interleaved(
        self,
        cpu: BlockTimer,
        gpu: BlockTimer,
        transfers: Sequence[BlockTimer] = (),
        is_settled: Callable[[], bool] = lambda: True,
    ) -> None:
        """Take rounds of both devices, and of the transfers, in random order.

        Where they decide, but not as `is_settled` demands, take more while there is time. Where they miss a
        limit, but not by far, or meet it by rounds that depend on each other, take rounds once more, far
        apart, which must show the same.
        """
        timers = [cpu, gpu, *transfers]
        cpu_samples = (cpu.samples[-1] for _ in blocks.rounds(timers, self._context.order))
        self._take(cpu_samples, timers, gpu, transfers)
        if self.rounds and not is_settled():
            self._take(cpu_samples, timers, gpu, transfers, is_settled)
        if not self.rounds or self.throttled is not None:
            return
        missed = spacing.unconfirmed(self._estimator)
        is_dependent = spacing.depends(self._estimator, self.lasted)
        if missed or is_dependent:
            self._confirmation = "dependent" if is_dependent else "interrupted"  # until it ends
            sums = [timer.sums for timer in timers]
            try:
                found = self._confirm(missed, cpu_samples, timers, transfers)
                self._confirmation = "dependent" if is_dependent and found != "confirmed" else found
            finally:
                for timer, before in zip(timers, sums, strict=True):
                    timer.go_back(len(self.rounds), before)

    def take_against(
        self,
        cpu_samples: Iterable[float],
        gpu: BlockTimer,
        transfers: Sequence[BlockTimer] = (),
        *,
        cpu_lasted: float,
    ) -> None:
        """Take a round for each sample that the CPU sibling left; these rounds are never taken again.

        The CPU's samples lasted as long as so many of its blocks, with their pauses.
        """
        self._begin(alpha_share=1.0)
        timers = [gpu, *transfers]
        self._take(_sampled_with(cpu_samples, timers), timers, gpu, transfers)
        if self.rounds and self.throttled is None:
            self._confirmation = spacing.confirmation(self._estimator, min(cpu_lasted, self.lasted))

    def take_alone(self, timer: BlockTimer, seconds: float) -> None:
        """Take two samples of one device alone, and more within `seconds`, up to the plan's most rounds.

        Where a limit may rest on them they sit apart in time: its sibling cannot take them again.
        """
        plan = self._context.options.sampling
        is_apart = plan.apart or bool(self._context.demand.limits or self._exclusions)
        most, pause, working, idle = plan.max_rounds, 0.0, 0.0, 0.0
        clock = timer.device.clock
        self.begun = 0
        while self.begun < _MIN_ALONE or (self.begun < most and working + idle < seconds):
            if pause:
                idle += self._pause(pause, [timer])
            self.begun += 1
            started = clock()
            timer.take_sample()
            working += seconds_between(started, clock())
            self.elapsed = working + idle
            self.round_time = working / self.begun
            if is_apart:
                pause = spacing.pause_alone(self.round_time, seconds)
                if not plan.apart:
                    most = spacing.FEWEST_ROUNDS if pause else spacing.LASTING_ROUNDS

    def _take(
        self,
        cpu_samples: Iterator[float],
        timers: Sequence[BlockTimer],
        gpu: BlockTimer,
        transfers: Sequence[BlockTimer],
        is_settled: Callable[[], bool] | None = None,
    ) -> None:
        """Take a round per CPU sample; each `next` samples all timers before it returns.

        The rounds end by the stopping rule, or as soon as they are settled.
        """
        clock = gpu.device.clock
        working = self.round_time * self.begun
        idle = (self.elapsed or 0.0) - working  # not the time for which a pause waits for another process
        spell: list[Round] = []
        due = 0  # rounds of a spell that are still to be taken
        while due or not self._is_over(working + idle, is_settled):
            self.begun += 1
            if not due:
                due = spacing.rounds_together(self._estimator, self.round_time, working + idle)
                if pause := spacing.pause_before_next(self._estimator, self.round_time):
                    idle += self._pause(pause, timers)
            due -= 1
            started = clock()
            cpu_sample = next(cpu_samples, None)
            if cpu_sample is None:
                self.begun -= 1
                break
            working += seconds_between(started, clock())
            self.elapsed = working + idle
            self.round_time = working / self.begun
            if reasons := capabilities.throttle(gpu.device):
                self.throttle = tuple(sorted({*self.throttle, *reasons}))
                self.dropped += 1
                for timer in timers:
                    timer.drop_last_sample()
            else:
                spell.append(_round(cpu_sample, gpu, transfers))
                self.rounds.append(spell[-1])
            if spell and not due:
                self._estimator.add(spacing.middle(spell, self._estimator))
                spell = []

    def _is_over(self, spent: float, is_settled: Callable[[], bool] | None) -> bool:
        """Return whether no more rounds are taken, `spent` seconds after the first began."""
        left = self._context.remaining()
        if is_settled is not None:
            return is_settled() or is_used_up(self._estimator, spent=spent, left=left, dropped=self.dropped)
        return should_stop(self._estimator, spent=spent, left=left, dropped=self.dropped, lasted=self.lasted)

    def _confirm(
        self,
        missed: frozenset[str],
        cpu_samples: Iterator[float],
        timers: Sequence[BlockTimer],
        transfers: Sequence[BlockTimer],
    ) -> Confirmation:
        """Return whether rounds far apart miss the same limits; they are weighed alone, and are not kept."""
        context, gpu = self._context, timers[1]
        again = SequentialEstimator(context.demand, context.options, self._exclusions)
        plan = context.options.sampling
        if missed and spacing.is_confirmed_already(self._estimator, self.lasted):
            return "confirmed"
        apart = spacing.second_measurement(self.round_time, context.remaining())
        if apart is None and not missed:
            return "no_time"
        if apart is None:  # but so many slow rounds may have been taken that they last longer than a spell
            own = spacing.confirmation(self._estimator, self._estimator.taken)
            return "confirmed" if own == "confirmed" else "no_time"
        for _ in range(plan.max_rounds):
            # A pause, an untimed round, those that are timed, and the two calls that end the test.
            if context.remaining() < apart.pause + (3 + apart.together) * self.round_time:
                return "no_time"
            paused = self._pause(apart.pause, timers) if apart.pause else 0.0
            if paused < apart.pause / 2:  # a clock of its own that nothing lets go on
                return "no_time"
            spell = []
            for _ in range(apart.together):
                cpu_sample = next(cpu_samples)
                if not capabilities.throttle(gpu.device):
                    spell.append(_round(cpu_sample, gpu, transfers))
            if not spell:
                continue
            again.add(spacing.middle(spell, again))
            if again.taken < plan.min_rounds:
                continue
            missed_again = again.missed.keys()
            if missed and missed <= missed_again:
                return "confirmed"
            if again.is_decided:
                return "contradicted" if missed or missed_again else "confirmed"
        return "contradicted"

    def _pause(self, seconds: float, timers: Sequence[BlockTimer]) -> float:
        """Wait, and let each device run untimed; return the seconds, without a wait for other processes.

        Where the device has a clock of its own and no `pause`, no time passes between.
        """
        device = timers[-1].device
        begun = device.clock()
        self._context.pause(device, seconds)
        resumed = device.clock()
        for timer in timers:
            timer.run_untimed()
        return min(seconds, seconds_between(begun, resumed)) + seconds_between(resumed, device.clock())


def _round(cpu_sample: float, gpu: BlockTimer, transfers: Sequence[BlockTimer]) -> Round:
    copies = sum(timer.samples[-1] for timer in transfers)
    return Round(cpu=cpu_sample, gpu=gpu.samples[-1], copies=copies)


def _sampled_with(cpu_samples: Iterable[float], timers: Sequence[BlockTimer]) -> Iterator[float]:
    """Yield each CPU sample after one sample of every timer."""
    for cpu_sample in cpu_samples:
        for timer in timers:
            timer.take_sample()
        yield cpu_sample
