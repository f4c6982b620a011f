"""From workloads to rounds: taken until they are enough, and given up where the GPU was slowed down."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random

from pytest_gpuperf.analysis import noise
from pytest_gpuperf.analysis.estimation import SequentialEstimator
from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.measurement import Neighbours, Round, Speedup
from pytest_gpuperf.timing import blocks
from pytest_gpuperf.timing.blocks import Workload
from pytest_gpuperf.timing.transfers import TransferTimer

__all__ = ["RoundSampler"]

_FEWEST = 2  # rounds that are taken whatever they cost, dropped ones counted
_WORTH_IT = 0.5  # of the time that rounds took must be left for others to take their place


class RoundSampler:
    """The rounds of one test as its demand gates them; `dropped` were taken while the GPU was throttled.

    `left` tells the seconds that the test has left. `apart` are ranges of speedups that it must be told
    from, too.
    """

    def __init__(
        self,
        demand: Demand,
        plan: RunOptions,
        left: Callable[[], float],
        apart: Sequence[tuple[float, float]] = (),
    ) -> None:
        self._demand, self._plan, self._left, self._apart = demand, plan, left, apart
        self.start_afresh()

    def start_afresh(self) -> None:
        """Give up every round."""
        self._estimation = SequentialEstimator(self._demand, self._plan, self._apart)
        self.rounds: list[Round] = []
        self.begun = 0
        self.dropped = 0
        self.throttle: tuple[str, ...] = ()
        self.elapsed: float | None = None

    def speedup(self, sampling: Neighbours) -> Speedup | None:
        """Return the estimate from the rounds so far."""
        return self._estimation.speedup(sampling)

    @property
    def throttled(self) -> str | None:
        """Why the rounds decide nothing, when too many of them were dropped."""
        return noise.throttled(self.dropped, self.begun, self.throttle)

    def interleaved(self, cpu: Workload, gpu: Workload, copying: TransferTimer | None, order: Random) -> None:
        """Take rounds of both devices, and of the copies, in random order."""
        workloads = [cpu, gpu, *(copying.workloads if copying else ())]
        steps = (cpu.samples[-1] for _ in blocks.rounds(workloads, order))
        self._take(steps, gpu, copying, workloads)

    def against(self, cpu_samples: Iterable[float], gpu: Workload, copying: TransferTimer | None) -> None:
        """Take a round for each sample that was taken of the CPU before."""
        workloads = [gpu, *(copying.workloads if copying else ())]
        self._take(_with_each(cpu_samples, workloads), gpu, copying, workloads)

    @property
    def are_late(self) -> bool:
        """Whether so little time is left that others instead of these would be far fewer."""
        return self._left() < _WORTH_IT * (self.elapsed or 0.0)

    def alone(self, workload: Workload, most_blocks: int, seconds: float) -> None:
        """Take at least two samples of one device alone, at most `most_blocks`, within `seconds`."""
        clock = workload.device.clock
        started, self.begun = clock(), 0
        fewest = min(most_blocks, _FEWEST)
        while self.begun < fewest or (self.begun < most_blocks and clock() - started < seconds):
            self.begun += 1
            blocks.sample(workload)
            self.elapsed = clock() - started

    def _take(
        self,
        steps: Iterator[float],
        gpu: Workload,
        copying: TransferTimer | None,
        workloads: Sequence[Workload],
    ) -> None:
        clock = gpu.device.clock
        started, spent = clock(), 0.0
        while not self._enough(spent):
            self.begun += 1
            cpu_sample = next(steps, None)
            if cpu_sample is None:
                self.begun -= 1
                break
            spent = self.elapsed = clock() - started
            if slowed := capabilities.throttle(gpu.device):
                self.throttle = tuple(sorted({*self.throttle, *slowed}))
                self.dropped += 1
                blocks.take_back(workloads)
                continue
            copies = copying.latest if copying else 0.0
            taken = Round(cpu=cpu_sample, gpu=gpu.samples[-1], copies=copies)
            self.rounds.append(taken)
            self._estimation.add(taken)

    def _enough(self, spent: float) -> bool:
        left = self._left()
        late = self.begun >= _FEWEST and 2 * spent / self.begun > left
        if late or self.dropped > noise.MOST_DROPPED * self._plan.sampling.max_rounds:
            return True
        return self._estimation.enough(spent=spent, left=left) and self.throttled is None


def _with_each(cpu_samples: Iterable[float], workloads: Sequence[Workload]) -> Iterator[float]:
    for cpu_sample in cpu_samples:
        for workload in workloads:
            blocks.sample(workload)
        yield cpu_sample
