"""From the timers of one test to its rounds: enough of them, without those of a throttled GPU."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from pytest_gpuperf.analysis import noise, spacing
from pytest_gpuperf.analysis.estimation import Exclusion, SequentialEstimator, alpha_share
from pytest_gpuperf.analysis.stopping import is_used_up, should_stop
from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.model.measurement import Confirmation, Neighbours, Round, Speedup
from pytest_gpuperf.timing import blocks
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.clock import seconds_between
from pytest_gpuperf.timing.context import TrialContext
from pytest_gpuperf.timing.gc_pause import MemoryWatch

_MIN_ALONE = 2  # samples of one device, taken however long they last while there is time
_PAUSES, _UNTIMED = (0.5, 1.5), (1, 2)  # of what is planned; untimed blocks after each pause
_RESTART_SHARE = 0.5  # of the time that the rounds took must be left for a restart to be worth it


class RoundSampler:
    """The rounds of one test in the mode of its demand; `dropped` were taken while the GPU was throttled.

    What is estimated from `rounds` may spend `alpha_share` of alpha: the rest is for those that a restart
    discards.

    `exclusions` are ranges of speedups that the interval must exclude as well before sampling stops.
    """

    def __init__(self, context: TrialContext, exclusions: Sequence[Exclusion] = ()) -> None:
        self._context = context
        self._exclusions = exclusions
        self._memory = MemoryWatch()
        self._begin(alpha_share(restarted=False))

    def restart(self) -> None:
        """Discard every round."""
        self._begin(alpha_share(restarted=True))

    def _begin(self, share: float) -> None:
        demand, options = self._context.demand, self._context.options
        self.alpha_share = share
        self._estimator = SequentialEstimator(demand, options, self._exclusions, alpha_share=share)
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
        if not self.elapsed:
            return 0.0
        # Rounded: sums of floats must not make 66 rounds without pauses look like fewer.
        return round(self.elapsed / self.round_time, 6)

    @property
    def too_late_to_restart(self) -> bool:
        """Whether too little time is left to take nearly as many rounds again."""
        return self._context.remaining() < _RESTART_SHARE * (self.elapsed or 0.0)

    def take_interleaved(
        self,
        cpu: BlockTimer,
        gpu: BlockTimer,
        loop: BlockTimer | None = None,
        may_stop: Callable[[], bool] = lambda: True,
    ) -> None:
        """Take rounds of both devices, and of a `loop` of calls with their transfers if any, in random order.

        Where they decide, but `may_stop` does not allow it, take more while there is time. Where they miss a
        limit, but not by far, or meet it by rounds that depend on each other, take rounds once more, far
        apart, which must show the same.
        """
        timers = [cpu, gpu, *filter(None, [loop])]
        take_round = blocks.round_of(timers, self._context.order)

        def sample_cpu() -> float:
            take_round()
            return cpu.samples[-1]

        source = _RoundSource(sample_cpu, timers, gpu, loop)
        self._take(source)
        if self.rounds and not may_stop():
            self._take(source, may_stop)
        if not self.rounds or self.throttled is not None:
            return
        missed = spacing.unconfirmed(self._estimator)
        is_dependent = spacing.depends(self._estimator, self.lasted)
        if missed or is_dependent:
            self._confirmation = "interrupted"  # until it ends
            sums = [timer.sums for timer in timers]
            try:
                found = self._confirm(missed, source)
                self._confirmation = "dependent" if is_dependent and found != "confirmed" else found
            finally:
                for timer, before in zip(timers, sums, strict=True):
                    timer.go_back(len(self.rounds), before)

    def take_against(
        self,
        cpu_samples: Sequence[float],
        gpu: BlockTimer,
        loop: BlockTimer | None = None,
        *,
        cpu_lasted: float,
        cpu_restarted: bool = False,
    ) -> None:
        """Take a round for each sample that the CPU variant left; these rounds are never taken again.

        The CPU's samples lasted as long as so many of its blocks, with their pauses; a restart may have
        discarded earlier ones. Where they miss a limit, but not by far, the rest of them are taken over three
        quarters of the test's time, to show whether that lasts.
        """
        self._begin(alpha_share(restarted=cpu_restarted))
        timers = [gpu, *filter(None, [loop])]
        recorded = iter(cpu_samples)

        def next_sample() -> float | None:
            cpu_sample = next(recorded, None)
            for timer in timers if cpu_sample is not None else ():
                timer.take_sample()
            return cpu_sample

        def confirmation() -> Confirmation | None:
            return spacing.confirmation(self._estimator, min(cpu_lasted, self.lasted))

        source = _RoundSource(next_sample, timers, gpu, loop)
        self._take(source)
        if not self.rounds or self.throttled is not None:
            return
        options = self._context.options
        longest = spacing.SAMPLING_SHARE * options.max_time
        left = min(len(cpu_samples) - self.begun, options.sampling.max_rounds - self._estimator.taken)
        if left > 0 and cpu_lasted >= spacing.LASTING_ROUNDS and confirmation():
            apart = min(longest / spacing.FEWEST_ROUNDS, (longest - (self.elapsed or 0.0)) / left)
            self._take(
                source,
                lambda: not confirmation() or (self.elapsed or 0.0) >= longest,
                least_pause=apart - self.round_time,
            )
        self._confirmation = confirmation()

    def take_alone(self, timer: BlockTimer, seconds: float) -> None:
        """Take two samples of one device alone, and more within `seconds`, up to the plan's most rounds.

        They last for no more than the plan's share of the test's time. Where a limit may rest on them they
        sit apart in time: its variant cannot take them again.
        """
        plan = self._context.options.sampling
        seconds = min(seconds, self._context.options.max_time * plan.alone_share)
        is_apart = plan.apart or bool(self._context.demand.limits or self._exclusions)
        most, pause = plan.max_rounds * plan.alone_together, 0.0
        while self._context.remaining() >= 0:
            if self.begun >= _MIN_ALONE and (self.begun >= most or (self.elapsed or 0.0) >= seconds):
                break
            idle = self._pause(pause, [timer]) if self.begun % plan.alone_together == 0 else 0.0
            self.begun += 1
            started = timer.device.clock()
            timer.take_sample()
            self._add_time(seconds_between(started, timer.device.clock()), idle)
            self._memory.collect_if_grown(timer.device)
            self._report_round()
            if is_apart:
                pause = spacing.pause_alone(self.round_time, seconds, plan.alone_together)
                if not plan.apart:
                    most = spacing.FEWEST_ROUNDS if pause else spacing.LASTING_ROUNDS

    def _take(
        self,
        source: "_RoundSource",
        may_stop: Callable[[], bool] | None = None,
        least_pause: float = 0.0,
    ) -> None:
        """Take rounds until the stopping rule ends them, or as soon as they may stop."""
        gpu = source.gpu
        spell: list[Round] = []
        due = 0  # rounds of a spell that are still to be taken
        while due or not self._is_over(may_stop):
            self.begun += 1
            idle = 0.0
            if not due:
                due = spacing.rounds_together(self._estimator, self.round_time, self.elapsed or 0.0)
                pause = spacing.pause_before_next(self._estimator, self.round_time)
                idle = self._pause(max(pause, least_pause), source.timers)
            due -= 1
            counters = capabilities.throttle_counters(gpu.device)
            started = gpu.device.clock()
            taken = source.take()
            if taken is None:
                self.begun -= 1
                break
            self._add_time(seconds_between(started, gpu.device.clock()), idle)
            if reasons := capabilities.throttle(gpu.device, counters):
                self.throttle = tuple(sorted({*self.throttle, *reasons}))
                self.dropped += 1
                for timer in source.timers:
                    timer.drop_last_sample()
            else:
                self.rounds.append(taken)
                spell.append(taken)
            if spell and not due:
                self._estimator.add(spacing.middle(spell, self._estimator))
                spell = []
            self._memory.collect_if_grown(gpu.device)
            self._report_round()

    def _is_over(self, may_stop: Callable[[], bool] | None) -> bool:
        """Return whether no more rounds are taken."""
        spent, left = self.elapsed or 0.0, self._context.remaining()
        if may_stop is not None:
            return may_stop() or is_used_up(self._estimator, spent=spent, left=left, dropped=self.dropped)
        return should_stop(self._estimator, spent=spent, left=left, dropped=self.dropped, lasted=self.lasted)

    def _add_time(self, working: float, idle: float) -> None:
        """Add the seconds of the round that has begun, and of the pause before it."""
        self.elapsed = (self.elapsed or 0.0) + idle + working
        self.round_time += (working - self.round_time) / self.begun

    def _report_round(self, confirming: int = 0) -> None:
        """Tell who watches that a round has ended, of all or of those that confirm them."""
        if self._context.on_round is not None:
            self._context.on_round(self.begun + confirming, partial(self.speedup, "interleaved"))

    def _confirm(self, missed: frozenset[str], source: "_RoundSource") -> Confirmation:
        """Return whether rounds far apart miss the same limits; they are weighed alone, and are not kept."""
        context, plan = self._context, self._context.options.sampling
        again = SequentialEstimator(context.demand, context.options, self._exclusions)
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
            if self._pause(apart.pause, source.timers) < apart.pause / 2:
                return "no_time"  # a clock of its own that nothing lets go on
            spell = [one for _ in range(apart.together) if (one := source.take_unthrottled())]
            if not spell:
                continue
            again.add(spacing.middle(spell, again))
            self._report_round(again.taken)
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

        How long and how often is random: rounds must not fall into step with calls that alternate, as those
        with two buffers in turn, or with anything periodic. Where the device has a clock of its own and no
        `pause`, no time passes between.
        """
        if not seconds:
            return 0.0
        device, order = timers[-1].device, self._context.order
        seconds *= order.uniform(*_PAUSES)
        begun = device.clock()
        self._context.pause(device, seconds)
        resumed = device.clock()
        for _ in range(order.choice(_UNTIMED)):
            for timer in order.sample(timers, len(timers)):  # the last one leaves its memory in the caches
                timer.run_untimed()
        return min(seconds, seconds_between(begun, resumed)) + seconds_between(resumed, device.clock())


@dataclass(frozen=True, slots=True)
class _RoundSource:
    """Where rounds come from: `take_all` samples every timer and returns the CPU's time; None at the end."""

    take_all: Callable[[], float | None]
    timers: Sequence[BlockTimer]
    gpu: BlockTimer
    loop: BlockTimer | None

    def take(self) -> Round | None:
        """Return the next round; None where the CPU has no more samples."""
        cpu_sample = self.take_all()
        if cpu_sample is None:
            return None
        gpu_sample = self.gpu.samples[-1]
        copies = self.loop.samples[-1] - gpu_sample if self.loop else 0.0
        return Round(cpu=cpu_sample, gpu=gpu_sample, copies=copies)

    def take_unthrottled(self) -> Round | None:
        """Return the next round; None where the GPU was slowed down in it, too."""
        counters = capabilities.throttle_counters(self.gpu.device)
        taken = self.take()
        return None if capabilities.throttle(self.gpu.device, counters) else taken
