"""From the timers of one test to its rounds: enough of them, without those of a throttled GPU."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from pytest_gpuperf.analysis import noise
from pytest_gpuperf.analysis.estimation import SequentialEstimator
from pytest_gpuperf.analysis.spacing import confirming_pause, pause_before_next, unconfirmed
from pytest_gpuperf.analysis.stopping import is_used_up, should_stop
from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.model.measurement import Neighbours, Round, Speedup
from pytest_gpuperf.timing import blocks
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.context import TrialContext

_FIRST_SHARE = 0.8  # of alpha, for the rounds before any restart; six that agree still decide
_MIN_ALONE = 2  # samples of one device, taken whatever they cost
_RESTART_SHARE = 0.5  # of the time that the rounds took must be left for a restart to be worth it


class RoundSampler:
    """The rounds of one test in the mode of its demand; `dropped` were taken while the GPU was throttled.

    `exclusions` are ranges of speedups that the interval must exclude as well before sampling stops.
    """

    def __init__(self, context: TrialContext, exclusions: Sequence[tuple[float, float]] = ()) -> None:
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
        self._round_time = 0.0
        self._confirmed: bool | None = None

    def speedup(self, sampling: Neighbours) -> Speedup | None:
        """Return the estimate from the rounds so far."""
        return self._estimator.speedup(sampling, confirmed=self._confirmed)

    @property
    def throttled(self) -> str | None:
        """Why the rounds decide nothing, when too many of them were dropped."""
        return noise.throttle_reason(self.dropped, self.begun, self.throttle)

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
        limit, but not by far, take rounds once more, far apart, which must miss it, too.
        """
        timers = [cpu, gpu, *transfers]
        cpu_samples = (cpu.samples[-1] for _ in blocks.rounds(timers, self._context.order))
        self._take(cpu_samples, timers, gpu, transfers)
        if self.rounds and not is_settled():
            self._take(cpu_samples, timers, gpu, transfers, is_settled)
        if self.rounds and self.throttled is None and (missed := unconfirmed(self._estimator)):
            self._confirmed = False  # until it is, also where that is interrupted
            sums = [timer.sums for timer in timers]
            try:
                self._confirmed = self._is_confirmed(missed, cpu_samples, timers, transfers)
            finally:
                for timer, before in zip(timers, sums, strict=True):
                    timer.go_back(len(self.rounds), before)

    def take_against(
        self, cpu_samples: Iterable[float], gpu: BlockTimer, transfers: Sequence[BlockTimer] = ()
    ) -> None:
        """Take a round for each sample that the CPU sibling left; these rounds are never taken again."""
        self._begin(alpha_share=1.0)
        timers = [gpu, *transfers]
        self._take(_sampled_with(cpu_samples, timers), timers, gpu, transfers)

    def take_alone(self, timer: BlockTimer, seconds: float) -> None:
        """Take two samples of one device alone, and more within `seconds`, up to the plan's most rounds."""
        most = self._context.options.sampling.max_rounds
        clock = timer.device.clock
        started = clock()
        self.begun = 0
        while self.begun < _MIN_ALONE or (self.begun < most and clock() - started < seconds):
            self.begun += 1
            timer.take_sample()
            self.elapsed = clock() - started

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
        working = self._round_time * self.begun
        idle = (self.elapsed or 0.0) - working  # not the time for which a pause waits for another process
        ends = should_stop if is_settled is None else is_used_up
        while not ends(
            self._estimator, spent=working + idle, left=self._context.remaining(), dropped=self.dropped
        ):
            if is_settled is not None and is_settled():
                break
            self.begun += 1
            if pause := pause_before_next(self._estimator, self._round_time):
                idle += self._pause(pause, timers)
            started = clock()
            cpu_sample = next(cpu_samples, None)
            if cpu_sample is None:
                self.begun -= 1
                break
            working += clock() - started
            self.elapsed = working + idle
            self._round_time = working / self.begun
            if reasons := capabilities.throttle(gpu.device):
                self.throttle = tuple(sorted({*self.throttle, *reasons}))
                self.dropped += 1
                for timer in timers:
                    timer.drop_last_sample()
                continue
            taken = _round(cpu_sample, gpu, transfers)
            self.rounds.append(taken)
            self._estimator.add(taken)

    def _is_confirmed(
        self,
        missed: frozenset[str],
        cpu_samples: Iterator[float],
        timers: Sequence[BlockTimer],
        transfers: Sequence[BlockTimer],
    ) -> bool:
        """Return whether rounds far apart miss the same limits; False where they do not in time.

        They are weighed alone, and their samples are not kept.
        """
        context, gpu = self._context, timers[1]
        again = SequentialEstimator(context.demand, context.options, self._exclusions)
        plan = context.options.sampling
        pause = confirming_pause(self._round_time, context.options)
        for _ in range(plan.max_rounds):
            # An untimed round, a timed one, and the two calls that end the test.
            if context.remaining() < pause + 4 * self._round_time:
                break
            if pause:
                self._pause(pause, timers)
            cpu_sample = next(cpu_samples)
            if not capabilities.throttle(gpu.device):
                again.add(_round(cpu_sample, gpu, transfers))
            if again.taken < plan.min_rounds:
                continue
            if missed <= again.missed.keys():
                return True
            if again.is_decided:  # the other way
                break
        return False

    def _pause(self, seconds: float, timers: Sequence[BlockTimer]) -> float:
        """Wait, and let each device run untimed; return the seconds, without a wait for other processes."""
        device = timers[-1].device
        self._context.pause(device, seconds)
        resumed = device.clock()
        for timer in timers:
            timer.run_untimed()
        return seconds + device.clock() - resumed


def _round(cpu_sample: float, gpu: BlockTimer, transfers: Sequence[BlockTimer]) -> Round:
    copies = sum(timer.samples[-1] for timer in transfers)
    return Round(cpu=cpu_sample, gpu=gpu.samples[-1], copies=copies)


def _sampled_with(cpu_samples: Iterable[float], timers: Sequence[BlockTimer]) -> Iterator[float]:
    """Yield each CPU sample after one sample of every timer."""
    for cpu_sample in cpu_samples:
        for timer in timers:
            timer.take_sample()
        yield cpu_sample
