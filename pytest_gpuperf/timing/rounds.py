"""From the timers of one test to its rounds: as many as decide, without those of a throttled GPU."""

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from time import perf_counter, process_time

from msgspec.structs import replace

from pytest_gpuperf.analysis import looks
from pytest_gpuperf.analysis.estimation import Sampled
from pytest_gpuperf.analysis.looks import Limit
from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.clock import let_pass, seconds_between
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.model.comparison import GateOptions
from pytest_gpuperf.model.measurement import Round
from pytest_gpuperf.model.metrics import TABLE
from pytest_gpuperf.model.sampling_constants import SamplingPlan
from pytest_gpuperf.timing import blocks
from pytest_gpuperf.timing.alone import LoneWork
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.cpu_result import CpuResult
from pytest_gpuperf.timing.gc_pause import MemoryWatch
from pytest_gpuperf.timing.late_look import LateLook
from pytest_gpuperf.timing.near_roof import ShareLimit
from pytest_gpuperf.timing.stopping import StoppingRule
from pytest_gpuperf.timing.taken_rounds import TakenRounds
from pytest_gpuperf.timing.trial_context import TrialContext

# Of one process of many its fastest block counts, which so many seconds have seen undisturbed.
_ONE_OF_MANY, _LONG_CALL = 0.3, 0.1  # seconds
_RESTART_SHARE = 0.5  # of the time that the rounds took must be left for a restart to be worth it
# Rounds must not fall into step with calls that alternate, or with anything periodic. Before a round there is
# a random wait, and sometimes a round that is not timed. No wait lets the clocks of a GPU fall.
_WAIT_SHARE, _LONGEST_WAIT = 1 / 4, 0.01  # of a round; seconds
_UNTIMED_SHARE = 1 / 8  # of the rounds have an untimed one before them
_SLOW = 1 / 100  # of the sampling time: longer rounds have time for an untimed one in a stretch, and no waits
_MANY_ROUNDS = 500  # decide as much as more would, and keep reports small: of more, each waits longer
_UNMARKED_TIME = 0.05  # seconds: there may be thousands of them


class RoundSampler:
    """Takes the `rounds` of one test in the mode of its demand.

    `limits` are ranges of speedups that the rounds must lie outside of, as well as the demand's limits.
    `share` is the limit on the share of the GPU's roof, once that is known.
    """

    share: ShareLimit | None = None

    def __init__(self, context: TrialContext, limits: Sequence[Limit] = ()) -> None:
        self.rounds = TakenRounds(context.demand)
        self._context = context
        self._limits = [*looks.limits_of(context.demand), *limits]
        self._memory = MemoryWatch()
        self._excused = 0.0
        self._worked = 0.0  # seconds of processors, when the last round ended

    @property
    def too_late_to_restart(self) -> bool:
        """Whether too little time is left to take nearly as many rounds again."""
        return self._context.remaining() < _RESTART_SHARE * (self.rounds.elapsed or 0.0)

    def take_interleaved(
        self,
        cpu: BlockTimer,
        gpu: BlockTimer,
        loop: BlockTimer | None = None,
        *,
        others: Sequence[BlockTimer] = (),
        late: LateLook | None = None,
        may_stop: Callable[[], bool] = lambda: True,
    ) -> None:
        """Take rounds of both devices, and of a `loop` of calls with their transfers if any, in random order.

        The `others` take a sample in each round, too. Some rounds are `late`, if that is asked. Where rounds
        decide, but `may_stop` does not allow it, take more while there is time.
        """
        timers = [cpu, gpu, *filter(None, [loop]), *others]
        self.rounds.alone = cpu.alone, gpu.alone
        self._take(timers, gpu, loop, lambda: cpu.samples[-1], sides=(cpu, gpu), late=late, may_stop=may_stop)

    def late_look(self, cpu: BlockTimer, gpu: BlockTimer) -> LateLook:
        """Return what shows whether calls take another time later: those that would then turn the verdict."""

        def suspects() -> Iterator[BlockTimer]:
            value = self.rounds.sampled.value
            if not self._limits or any(limit.low < value for limit in self._limits):
                yield cpu
            if not self._limits or any(limit.high > value for limit in self._limits):
                yield gpu

        return LateLook([cpu, gpu], suspects, self._context.order, self._context.remaining)

    def take_against(
        self,
        recorded: CpuResult,
        gpu: BlockTimer,
        loop: BlockTimer | None = None,
        *,
        others: Sequence[BlockTimer] = (),
    ) -> None:
        """Take rounds of the GPU, to be compared with the samples that the CPU variant left."""
        cpu_samples = recorded.measurement.samples_for(self._context.demand)
        if not cpu_samples:
            return
        self.rounds.recorded = Sampled(cpu=cpu_samples, gpu=(), seconds=recorded.seconds)
        timers = [gpu, *filter(None, [loop]), *others]
        self._take(timers, gpu, loop, cycle(cpu_samples).__next__)  # each side was a loop already

    def take_alone(self, timer: BlockTimer, seconds: float, *, others: Sequence[BlockTimer] = ()) -> None:
        """Take two samples of one device alone, and more within `seconds` of its sampling time."""
        timers = [timer, *others]
        rule = self._begin(timers)
        longest = rule.longest if rule.is_one_of_many else min(seconds, rule.longest)
        take_round = blocks.round_of(timers, self._context.order)
        while not (rule.is_time_up(longest) or rule.has_enough):
            started = timer.device.clock()
            self._keep_out_of_step(timers, rule)
            self.rounds.begun += 1
            take_round()
            self._end_round(timer.device, timers, started)

    def _take(
        self,
        timers: Sequence[BlockTimer],
        gpu: BlockTimer,
        loop: BlockTimer | None,
        cpu_sample: Callable[[], float],
        *,
        sides: Sequence[BlockTimer] = (),
        late: LateLook | None = None,
        may_stop: Callable[[], bool] = lambda: True,
    ) -> None:
        """Take rounds until a look decides, until none can, or until the time is up.

        The devices of the `sides` work alone, too.
        """
        lone = LoneWork(sides, self._context.options, self._context.remaining)
        device, rounds, rule = gpu.device, self.rounds, self._begin(timers)
        take_round = blocks.round_of(timers, self._context.order)
        while not rule.is_over(lone, may_stop):
            if late is not None:
                late.call_ahead(lambda: self._memory.collect_if_grown(device))
            started = device.clock()
            self._keep_out_of_step(timers, rule)
            rounds.begun += 1
            counters = device.throttle_counters()
            take_round()
            if reasons := capabilities.throttle(device, counters):
                rounds.drop(reasons)
                for timer in timers:
                    timer.drop_last_sample()
            else:
                on_gpu = gpu.samples[-1]
                copies = loop.samples[-1] - on_gpu if loop else 0.0
                rounds.rounds.append(Round(cpu=cpu_sample(), gpu=on_gpu, copies=copies))
            self._end_round(device, timers, started)
        lone.confirm(rounds.turns)

    def _begin(self, timers: Sequence[BlockTimer]) -> StoppingRule:
        """Return the rule that ends the rounds of these timers, which begin now."""
        self.rounds.lasted.expected = sum(timer.block_seconds for timer in timers)
        self._worked = _processor_time(timers[-1].device, timers)
        has_long_call = any(timer.calls.fastest > _LONG_CALL for timer in timers)
        return StoppingRule(
            self._context, self._limits, self.rounds, share=self.share, has_long_call=has_long_call
        )

    def _end_round(self, device: TimedDevice, timers: Sequence[BlockTimer], started: float) -> None:
        """Count the time of a round, and tell who watches that it has ended.

        Of max_time the longest standstill of the machine uses nothing up; slow calls come more than once.
        """
        lasted, before, self._worked = self.rounds.lasted, self._worked, _processor_time(device, timers)
        lasted.add(seconds_between(started, device.clock()), max(0.0, self._worked - before))
        self.rounds.elapsed = lasted.counted
        if (excused := lasted.standstill) > self._excused:
            self._context.excuse(excused - self._excused)
            self._excused = excused
        self._memory.collect_if_grown(device)
        if self._context.on_round is not None:
            self._context.on_round(self._context.remaining())

    def _keep_out_of_step(self, timers: Sequence[BlockTimer], rule: StoppingRule) -> None:
        """Wait for a random while, or let each device run untimed at random, before a round."""
        begun, round_time, chance = self.rounds.begun, self.rounds.round_time, self._context.order
        if begun < looks.STRETCHES:  # one round a stretch shows alternation by itself
            return
        if round_time > _SLOW * rule.longest:
            size = rule.stretch
            is_untimed = size > 1 and begun % size == 0 and chance.random() < 1 / 2
        else:
            early = begun * rule.longest / _MANY_ROUNDS - (self.rounds.elapsed or 0.0)
            most = min(max(_WAIT_SHARE * round_time, 2 * early), _LONGEST_WAIT)
            let_pass(timers[-1].device, most * chance.random())
            is_untimed = chance.random() < _UNTIMED_SHARE
        if is_untimed:
            for timer in chance.sample(timers, len(timers)):
                timer.run_untimed()


def for_gate(plan: SamplingPlan, gate: GateOptions) -> SamplingPlan:
    """Return the plan of a run that is compared with an earlier one, or that makes a baseline.

    The limit of a check on the speedup is one more that a look decides. A baseline, and what no look decides,
    takes all of the sampling time. One process of many takes a short one, the same for all tests: what ends
    it earlier, or begins it again, hangs on the noise.
    """
    rounds = {TABLE[tolerance.metric].rounds for tolerance in gate.tolerances}
    return replace(
        plan,
        compared=gate.compares,
        whole=not gate.later and (bool(rounds & {"samples", "asked"}) or (gate.create and rounds != {None})),
        in_rounds="asked" in rounds,
        sampling_time=_ONE_OF_MANY if gate.later else None,
        may_restart=not gate.later,
    )


def for_test(plan: SamplingPlan, gate: GateOptions, limits: Sequence[Limit]) -> SamplingPlan:
    """Return the plan of a test of which a check has these limits.

    Without any nothing ends sampling early, and a later run is compared with it: a test that is new, or whose
    baseline is so wide that only rounds of both runs together decide.
    """
    is_sampled_for = any(TABLE[tolerance.metric].rounds == "decide" for tolerance in gate.compared)
    is_open = gate.compares and not gate.later and is_sampled_for and not limits
    return replace(plan, whole=True) if is_open else plan


def for_unmarked(plan: SamplingPlan, gate: GateOptions) -> SamplingPlan:
    """Return a short plan for the tests of `--gpuperf-all`: there may be thousands of them.

    What is compared is measured as if it were marked.
    """
    if gate.compares or gate.later:
        return plan
    return replace(plan, record_time=_UNMARKED_TIME, warmup_time=0.02, may_restart=False)


def _processor_time(device: TimedDevice, timers: Sequence[BlockTimer]) -> float:
    """Return the seconds that processors have worked for the process; in simulated time, for its samples."""
    if device.clock is perf_counter:
        return process_time()
    return sum(timer.processors.worked or 0.0 for timer in timers)
