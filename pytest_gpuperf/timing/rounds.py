"""From the timers of one test to its rounds: enough of them, without those of a throttled GPU."""

from collections.abc import Iterable, Iterator, Sequence

from pytest_gpuperf.analysis import noise
from pytest_gpuperf.analysis.estimation import SequentialEstimator
from pytest_gpuperf.analysis.spacing import pause_before_next
from pytest_gpuperf.analysis.stopping import should_stop
from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.model.measurement import Neighbours, Round, Speedup
from pytest_gpuperf.timing import blocks
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.context import TrialContext

_MIN_ALONE = 2  # samples of one device, taken whatever they cost
_RESTART_SHARE = 0.5  # of the time that the rounds took must be left for a restart to be worth it


class RoundSampler:
    """The rounds of one test in the mode of its demand; `dropped` were taken while the GPU was throttled.

    `exclusions` are ranges of speedups that the interval must exclude as well before sampling stops.
    """

    def __init__(self, context: TrialContext, exclusions: Sequence[tuple[float, float]] = ()) -> None:
        self._context = context
        self._exclusions = exclusions
        self.restart()

    def restart(self) -> None:
        """Discard every round."""
        context = self._context
        self._estimator = SequentialEstimator(context.demand, context.options, self._exclusions)
        self.rounds: list[Round] = []
        self.begun = 0
        self.dropped = 0
        self.throttle: tuple[str, ...] = ()
        self.elapsed: float | None = None

    def speedup(self, sampling: Neighbours) -> Speedup | None:
        """Return the estimate from the rounds so far."""
        return self._estimator.speedup(sampling)

    @property
    def throttled(self) -> str | None:
        """Why the rounds decide nothing, when too many of them were dropped."""
        return noise.throttle_reason(self.dropped, self.begun, self.throttle)

    @property
    def too_late_to_restart(self) -> bool:
        """Whether too little time is left to take nearly as many rounds again."""
        return self._context.remaining() < _RESTART_SHARE * (self.elapsed or 0.0)

    def take_interleaved(
        self, cpu: BlockTimer, gpu: BlockTimer, transfers: Sequence[BlockTimer] = ()
    ) -> None:
        """Take rounds of both devices, and of the transfers, in random order."""
        timers = [cpu, gpu, *transfers]
        cpu_samples = (cpu.samples[-1] for _ in blocks.rounds(timers, self._context.order))
        self._take(cpu_samples, timers, gpu, transfers)

    def take_against(
        self, cpu_samples: Iterable[float], gpu: BlockTimer, transfers: Sequence[BlockTimer] = ()
    ) -> None:
        """Take a round for each sample that the CPU sibling left."""
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
    ) -> None:
        """Take a round per CPU sample; each `next` samples all timers before it returns."""
        clock = gpu.device.clock
        working = idle = 0.0  # without the time that a pause lasts longer because another process measures
        while not should_stop(
            self._estimator, spent=working + idle, left=self._context.remaining(), dropped=self.dropped
        ):
            self.begun += 1
            if pause := pause_before_next(self._estimator, working / max(1, self.begun - 1)):
                self._context.pause(gpu.device, pause)
                resumed = clock()
                for timer in timers:
                    timer.run_untimed()
                idle += pause + clock() - resumed
            started = clock()
            cpu_sample = next(cpu_samples, None)
            if cpu_sample is None:
                self.begun -= 1
                break
            working += clock() - started
            self.elapsed = working + idle
            if reasons := capabilities.throttle(gpu.device):
                self.throttle = tuple(sorted({*self.throttle, *reasons}))
                self.dropped += 1
                for timer in timers:
                    timer.drop_last_sample()
                continue
            copies = sum(timer.samples[-1] for timer in transfers)
            taken = Round(cpu=cpu_sample, gpu=gpu.samples[-1], copies=copies)
            self.rounds.append(taken)
            self._estimator.add(taken)


def _sampled_with(cpu_samples: Iterable[float], timers: Sequence[BlockTimer]) -> Iterator[float]:
    """Yield each CPU sample after one sample of every timer."""
    for cpu_sample in cpu_samples:
        for timer in timers:
            timer.take_sample()
        yield cpu_sample
