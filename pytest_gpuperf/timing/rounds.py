"""From the timers of one test to its rounds: as many as decide, without those of a throttled GPU."""

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from math import inf
from statistics import median
from time import perf_counter, process_time

from msgspec.structs import replace

from pytest_gpuperf.analysis import estimation, looks, noise, turns
from pytest_gpuperf.analysis.estimation import Sampled
from pytest_gpuperf.analysis.looks import Limit, Look
from pytest_gpuperf.analysis.turns import Alone, Turns
from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.clock import let_pass, seconds_between
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.model.comparison import GateOptions
from pytest_gpuperf.model.measurement import Round, Speedup
from pytest_gpuperf.model.metrics import TABLE
from pytest_gpuperf.model.sampling import SamplingPlan
from pytest_gpuperf.timing import blocks
from pytest_gpuperf.timing.alone import LoneWork
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.cpu_result import CpuResult
from pytest_gpuperf.timing.gc_pause import MemoryWatch
from pytest_gpuperf.timing.late_look import LateLook
from pytest_gpuperf.timing.time_budget import CountedSeconds
from pytest_gpuperf.timing.trial_context import TrialContext

_FEWEST = 2  # rounds, or samples of one device, taken however long they last while there is time
# Of one process of many: its fastest block counts, which so many seconds, and rounds, have seen undisturbed.
_ONE_OF_MANY, _FEWEST_OF_LONG_CALLS, _LONG_CALL = 0.3, 3, 0.1  # seconds; rounds; seconds
_WITH_UNTIMED = 1.2  # of the time of many rounds: some of them have an untimed one
_RESTART_SHARE = 0.5  # of the time that the rounds took must be left for a restart to be worth it
_MOST_DROPPED = 12  # rounds of a throttled GPU, before too large a share of them ends sampling
# Rounds must not fall into step with calls that alternate, or with anything periodic. Before a round there is
# a random wait, and sometimes a round that is not timed. No wait lets the clocks of a GPU fall.
_WAIT_SHARE, _LONGEST_WAIT = 1 / 4, 0.01  # of a round; seconds
_UNTIMED_SHARE = 1 / 8  # of the rounds have an untimed one before them
_SLOW = 1 / 100  # of the sampling time: longer rounds have time for an untimed one in a stretch, and no waits
_MANY_ROUNDS = 500  # decide as much as more would, and keep reports small: of more, each waits longer
_UNMARKED_TIME = 0.05  # seconds: there may be thousands of them


class RoundSampler:
    """The rounds of one test in the mode of its demand; `dropped` were taken while the GPU was throttled.

    `limits` are ranges of speedups that the rounds must lie outside of, as well as the demand's limits.
    """

    def __init__(self, context: TrialContext, limits: Sequence[Limit] = ()) -> None:
        self._context = context
        self._limits = [*looks.limits_of(context.demand), *limits]
        # Where nothing is required, sampling goes on until it shows if the GPU is faster, and worth it.
        prices = {1.0, context.options.cost_ratio or 1.0}
        self._worth = [Limit(price, price, "neither") for price in prices]
        self._memory = MemoryWatch()
        self._excused = 0.0
        self._worked = 0.0  # seconds of processors, when the last round ended
        self.restart()

    def restart(self) -> None:
        """Discard every round."""
        self.rounds: list[Round] = []
        self.begun = 0
        self.dropped = 0
        self.throttle: tuple[str, ...] = ()
        self.elapsed: float | None = None
        self.lasted = CountedSeconds()
        self._look: Look | None = None  # the last one that was taken
        self._is_decided = False
        self._was_near = False  # rounds were not clear of a limit when a look left it open
        self._fewest = _FEWEST
        self._enough: int | None = None
        self._recorded: Sampled | None = None
        self._alone: tuple[list[Alone], list[Alone]] = ([], [])
        self._known_turns: tuple[tuple[int, ...], Turns | None] = (), None

    @property
    def sampled(self) -> Sampled:
        """The times of the rounds so far, as the demand counts them."""
        of_rounds = estimation.sampled_rounds(
            self.rounds, self._context.demand, self.seconds or 0.0, self._sure_turns
        )
        if self._recorded is None:
            return of_rounds
        cpu, gpu, seconds = self._recorded.cpu, of_rounds.gpu, of_rounds.seconds
        return Sampled(cpu=cpu, gpu=gpu, seconds=seconds, sampling="variants")

    def speedup(self) -> Speedup | None:
        """Return what the rounds so far show; None before the first."""
        return self.sampled.speedup()

    @property
    def seconds(self) -> float | None:
        """The seconds of sampling that count, of two variants the fewer; None before the first round."""
        if self.elapsed is None or self._recorded is None:
            return self.elapsed
        return min(self.elapsed, self._recorded.seconds)

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
        self._alone = cpu.alone, gpu.alone
        # Of scaling both are groups of GPUs, of which one is idle in the loop of the other, too.
        sides = (cpu, gpu) if cpu.device.kind == "cpu" else ()
        lone = LoneWork(sides, self._context.options, self._context.remaining)
        self._take(timers, gpu, loop, lambda: cpu.samples[-1], lone, may_stop, late)
        lone.confirm(self._turns)

    def late_look(self, cpu: BlockTimer, gpu: BlockTimer) -> LateLook:
        """Return what shows whether calls take another time later: those that would then turn the verdict."""

        def suspects() -> Iterator[BlockTimer]:
            value = self.sampled.value
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
        self._recorded = Sampled(cpu=cpu_samples, gpu=(), seconds=recorded.seconds)
        timers = [gpu, *filter(None, [loop]), *others]
        of_cpu = cycle(cpu_samples)
        lone = LoneWork((), self._context.options, self._context.remaining)  # each side was a loop already
        self._take(timers, gpu, loop, lambda: next(of_cpu), lone, lambda: True)

    def take_alone(self, timer: BlockTimer, seconds: float, *, others: Sequence[BlockTimer] = ()) -> None:
        """Take two samples of one device alone, and more within `seconds` of its sampling time."""
        timers = [timer, *others]
        longest = self._time_for(timers)
        seconds = longest if self._is_one_of_many else min(seconds, longest)
        take_round = blocks.round_of(timers, self._context.order)
        while not (self._is_time_up(seconds) or self._has_enough):
            started = timer.device.clock()
            self._keep_out_of_step(timers, longest)
            self.begun += 1
            take_round()
            self._end_round(timer.device, timers, started)

    def _take(
        self,
        timers: Sequence[BlockTimer],
        gpu: BlockTimer,
        loop: BlockTimer | None,
        cpu_sample: Callable[[], float],
        lone: LoneWork,
        may_stop: Callable[[], bool],
        late: LateLook | None = None,
    ) -> None:
        """Take rounds until a look decides, until none can, or until the time is up."""
        device, longest = gpu.device, self._time_for(timers)
        take_round = blocks.round_of(timers, self._context.order)
        while not self._is_over(longest, lone, may_stop):
            if late is not None:
                late.call_ahead(lambda: self._memory.collect_if_grown(device))
            started = device.clock()
            self._keep_out_of_step(timers, longest)
            self.begun += 1
            counters = device.throttle_counters()
            take_round()
            if reasons := capabilities.throttle(device, counters):
                self.throttle = tuple(sorted({*self.throttle, *reasons}))
                self.dropped += 1
                for timer in timers:
                    timer.drop_last_sample()
            else:
                on_gpu = gpu.samples[-1]
                copies = loop.samples[-1] - on_gpu if loop else 0.0
                self.rounds.append(Round(cpu=cpu_sample(), gpu=on_gpu, copies=copies))
            self._end_round(device, timers, started)

    def _end_round(self, device: TimedDevice, timers: Sequence[BlockTimer], started: float) -> None:
        """Count the time of a round, and tell who watches that it has ended.

        Of max_time the longest standstill of the machine uses nothing up; slow calls come more than once.
        """
        before, self._worked = self._worked, _processor_time(device, timers)
        self.lasted.add(seconds_between(started, device.clock()), max(0.0, self._worked - before))
        self.elapsed = self.lasted.counted
        if (excused := self.lasted.standstill) > self._excused:
            self._context.excuse(excused - self._excused)
            self._excused = excused
        self._memory.collect_if_grown(device)
        if self._context.on_round is not None:
            self._context.on_round(self._context.remaining())

    def _is_over(self, longest: float, lone: LoneWork, may_stop: Callable[[], bool]) -> bool:
        """Return whether no more rounds are taken, and weigh those so far where a look is due.

        Devices work alone where a first look has left the question open, and where others are compared with
        these rounds.
        """
        if self._is_time_up(longest):
            return True
        spent, rounds = self.elapsed or 0.0, len(self.rounds)
        if self._recorded is not None:
            rounds = min(rounds, len(self._recorded.cpu))
        if self.throttled is not None:
            return self.dropped > _MOST_DROPPED
        if self._has_enough:
            return True
        plan = self._context.options.sampling
        if rounds < looks.STRETCHES or self._is_one_of_many:
            return False
        if plan.whole:
            lone.begin(spent)
            lone.confirm_early(lambda: self._turns, spent)
            return False
        if not self._limits and (plan.compared or spent >= plan.record_time):
            is_long_enough = spent >= plan.record_time  # to be compared: seven rounds are a moment
            if is_long_enough and (plan.compared or self._was_near):
                lone.begin()
            return is_long_enough
        look = looks.reached(rounds, self.seconds or 0.0)
        if look is not None and (look != self._look or self._is_decided):
            self._look = look
            self._is_decided = not self._open_limits(look)
        if look is not None and not self._is_decided and not self._was_near:
            self._was_near = bool(self._open_limits(looks.CLEAR))
        if self._was_near:
            lone.begin(inf if self._is_decided else spent)
            lone.confirm_early(lambda: self._turns, spent)
        if self._is_decided:
            if spent < plan.precision_time and not self._is_precise:
                return False
            lone.confirm(self._turns)
            return may_stop()
        return bool(self._limits) and self._is_hopeless(longest)

    @property
    def _turns(self) -> Turns | None:
        """How the devices differ in rounds from their loops, surely or not; None where they do not."""
        if not any(self._alone):
            return None
        known = len(self.rounds), *map(len, self._alone)
        if known != self._known_turns[0]:  # it is asked several times after each round
            cpu, gpu = [each.cpu for each in self.rounds], [each.gpu for each in self.rounds]
            self._known_turns = known, turns.find(cpu, gpu, self._alone)
        return self._known_turns[1]

    @property
    def _sure_turns(self) -> Turns | None:
        """What is sure of that, with the copies that the demand counts."""
        found = self._turns
        if found is None:
            return None
        of_call = estimation.with_copies(
            0.0, median(each.copies for each in self.rounds), self._context.demand
        )
        return turns.sure(found, of_call)

    def _is_time_up(self, longest: float) -> bool:
        """Return whether there is no time for one more round: the fewest are begun while any is left."""
        left = self._context.remaining()
        if left < 0 or self.begun < self._fewest:
            return left < 0
        # One more round, and the two calls that end the test, must fit into the time that is left.
        return (self.elapsed or 0.0) >= longest or 2 * self._round_time > left

    def _open_limits(self, look: Look) -> list[Limit]:
        """Return the limits that a look at the rounds so far leaves open."""
        found = self.sampled.seen
        return [limit for limit in self._limits or self._worth if not looks.decided(limit, found, look)]

    def _is_hopeless(self, longest: float) -> bool:
        """Return whether stretches of the last look already lie on both sides of every limit left."""
        plan, size = self._context.options.sampling, int(longest / self._round_time) // looks.STRETCHES
        if plan.compared and len(self.rounds) < looks.MANY:  # two runs together may decide by fewer
            return False
        if self._look is None or not size or len(self.rounds) % size:  # no stretch has just ended
            return False
        found, still_open = self.sampled.in_stretches_of(size), self._open_limits(self._look)
        return bool(still_open) and all(looks.is_hopeless(limit, found) for limit in still_open)

    @property
    def _is_precise(self) -> bool:
        """Whether the range of the stretches is as narrow as the plan requires."""
        found, width = self.sampled, 1 + self._context.options.sampling.precision
        return found.seen.high <= width * found.value and found.value <= width * found.seen.low

    @property
    def _sampling_time(self) -> float:
        """The seconds that rounds may take from now on."""
        options = self._context.options
        whole = options.sampling.sampling_time or looks.SAMPLING_SHARE * options.max_time
        if self._recorded is not None:  # longer than the other variant decides no more
            whole = min(whole, self._recorded.seconds)
        return max(0.0, min(whole, self._context.remaining()))

    def _time_for(self, timers: Sequence[BlockTimer]) -> float:
        """Return the seconds that rounds of these may take, and set how many are enough, and the fewest."""
        self._fewest, longest = self._fewest_of(timers), self._sampling_time
        plan, round_time = self._context.options.sampling, sum(timer.block_seconds for timer in timers)
        self.lasted.expected = round_time
        self._worked = _processor_time(timers[-1].device, timers)
        enough = looks.ENOUGH
        if self._recorded is not None:  # a speedup has no more rounds than the other variant left samples
            enough = min(enough, len(self._recorded.cpu))
        needed = enough * _WITH_UNTIMED * round_time
        if plan.slow_time is None or not plan.compared or needed <= longest:
            return longest
        if plan.slow_time / round_time - looks.ROUNDS_AROUND < looks.FEWEST_OF_SLOW:
            return longest
        self._context.extend(plan.slow_time)
        self._enough = enough
        return min(needed, self._context.remaining())

    @property
    def _has_enough(self) -> bool:
        """Whether slow rounds, which took longer than a test usually may, are as many as a check needs."""
        is_beyond = (self.elapsed or 0.0) >= looks.SAMPLING_SHARE * self._context.options.max_time
        return self._enough is not None and is_beyond and self.begun - self.dropped >= self._enough

    @property
    def _is_one_of_many(self) -> bool:
        return self._context.options.sampling.sampling_time is not None

    def _fewest_of(self, timers: Sequence[BlockTimer]) -> int:
        """Return how many rounds are begun while any time is left, however long they last."""
        if not self._is_one_of_many:
            return _FEWEST
        has_long_call = any(timer.calls.fastest > _LONG_CALL for timer in timers)
        return _FEWEST_OF_LONG_CALLS if has_long_call else looks.STRETCHES

    @property
    def _round_time(self) -> float:
        """The seconds that a round takes, with the waits and untimed rounds before it."""
        return (self.elapsed or 0.0) / self.begun if self.begun else 0.0

    def _keep_out_of_step(self, timers: Sequence[BlockTimer], longest: float) -> None:
        """Wait for a random while, or let each device run untimed at random, before a round."""
        if self.begun < looks.STRETCHES:  # one round a stretch shows alternation by itself
            return
        chance, round_time = self._context.order, self._round_time
        if round_time > _SLOW * longest:
            size = int(longest / round_time) // looks.STRETCHES
            is_untimed = size > 1 and self.begun % size == 0 and chance.random() < 1 / 2
        else:
            early = self.begun * longest / _MANY_ROUNDS - (self.elapsed or 0.0)
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
    return sum(timer.processors.spent.worked or 0.0 for timer in timers)
