"""When rounds are enough: a look at them decides, none can any more, or the time is up."""

from collections.abc import Callable, Sequence
from math import inf

from pytest_gpuperf.analysis import looks
from pytest_gpuperf.analysis.estimation import Sampled
from pytest_gpuperf.analysis.looks import Limit, Look
from pytest_gpuperf.timing.alone import LoneWork
from pytest_gpuperf.timing.near_roof import ShareLimit
from pytest_gpuperf.timing.taken_rounds import TakenRounds
from pytest_gpuperf.timing.trial_context import TrialContext

_FEWEST = 2  # rounds, or samples of one device, taken however long they last while there is time
_FEWEST_OF_LONG_CALLS = 3  # rounds of one process of many: its fastest block counts
_WITH_UNTIMED = 1.2  # of the time of many rounds: some of them have an untimed one
_MOST_DROPPED = 12  # rounds of a throttled GPU, before too large a share of them ends sampling


class StoppingRule:
    """The rule that ends the `rounds` of a test, which may take `longest` seconds.

    The `limits` are ranges of speedups that the rounds must lie outside of; a limit on the share of a roof is
    one more.
    """

    def __init__(
        self,
        context: TrialContext,
        limits: Sequence[Limit],
        rounds: TakenRounds,
        *,
        share: ShareLimit | None,
        has_long_call: bool,
    ) -> None:
        self._context = context
        # Where nothing is required, sampling goes on until it shows if the GPU is faster, and worth it.
        prices = {1.0, context.options.cost_ratio or 1.0}
        self._share = share
        self._has_limits = bool(limits) or share is not None
        self._weighed = limits if self._has_limits else [Limit(price, price, "neither") for price in prices]
        self._rounds = rounds
        self._look: Look | None = None  # the last one that was taken
        self._is_decided = False
        self._was_near = False  # rounds were not clear of a limit when a look left it open
        self._enough: int | None = None
        self._fewest = _FEWEST
        if self.is_one_of_many:
            self._fewest = _FEWEST_OF_LONG_CALLS if has_long_call else looks.STRETCHES
        self.longest = self._time_for_many(self._sampling_time)

    @property
    def is_one_of_many(self) -> bool:
        """Whether this is one process of many, which all sample for the same time."""
        return self._context.options.sampling.sampling_time is not None

    @property
    def has_enough(self) -> bool:
        """Whether slow rounds, which took longer than a test usually may, are as many as a check needs."""
        rounds = self._rounds
        is_beyond = (rounds.elapsed or 0.0) >= looks.SAMPLING_SHARE * self._context.options.max_time
        return self._enough is not None and is_beyond and rounds.begun - rounds.dropped >= self._enough

    def is_time_up(self, longest: float) -> bool:
        """Return whether there is no time for one more round: the fewest are begun while any is left."""
        rounds, left = self._rounds, self._context.remaining()
        if left < 0 or rounds.begun < self._fewest:
            return left < 0
        # One more round, and the two calls that end the test, must fit into the time that is left.
        return (rounds.elapsed or 0.0) >= longest or 2 * rounds.round_time > left

    def is_over(self, lone: LoneWork, may_stop: Callable[[], bool]) -> bool:
        """Return whether no more rounds are taken, and weigh those so far where a look is due.

        Devices work alone where a first look has left the question open, and where others are compared with
        these rounds.
        """
        if self.is_time_up(self.longest):
            return True
        rounds, plan = self._rounds, self._context.options.sampling
        spent = rounds.elapsed or 0.0
        if rounds.throttled is not None:
            return rounds.dropped > _MOST_DROPPED
        if self.has_enough:
            return True
        if rounds.compared < looks.STRETCHES or self.is_one_of_many:
            return False
        if plan.whole:
            lone.begin(spent)
            lone.confirm_early(lambda: rounds.turns, spent)
            return False
        if not self._has_limits and (plan.compared or spent >= plan.record_time):
            is_long_enough = spent >= plan.record_time  # to be compared: seven rounds are a moment
            if is_long_enough and (plan.compared or self._was_near):
                lone.begin()
            return is_long_enough
        self._take_look()
        if self._was_near:
            lone.begin(inf if self._is_decided else spent)
            lone.confirm_early(lambda: rounds.turns, spent)
        if self._is_decided:
            if spent < plan.precision_time and not self._is_precise:
                return False
            lone.confirm(rounds.turns)
            return may_stop()
        return self._has_limits and self._is_hopeless

    def _take_look(self) -> None:
        """Weigh the rounds so far, if a look is due: is every limit decided, and were they near one?"""
        look = looks.reached(self._rounds.compared, self._rounds.seconds or 0.0)
        if look is None:
            return
        if look != self._look or self._is_decided:
            self._look = look
            self._is_decided = not self._open_limits(look)
        if not self._is_decided and not self._was_near:
            self._was_near = bool(self._open_limits(looks.CLEAR))

    def _open_limits(self, look: Look) -> list[tuple[Limit, Sampled]]:
        """Return the limits that a look at the rounds so far leaves open, and what each of them is on."""
        speedup = self._rounds.sampled
        judged = [(limit, speedup) for limit in self._weighed]
        if self._share is not None:
            judged.append((self._share.limit, self._rounds.beside(self._share.copy_time)))
        return [(limit, on) for limit, on in judged if not looks.decided(limit, on.seen, look)]

    @property
    def _is_hopeless(self) -> bool:
        """Whether stretches of the last look already lie on both sides of every limit left."""
        plan, rounds, size = self._context.options.sampling, self._rounds, self.stretch
        taken = len(rounds.rounds)
        if plan.compared and taken < looks.MANY:  # two runs together may decide by fewer
            return False
        if self._look is None or not size or taken % size:  # no stretch has just ended
            return False
        still_open = self._open_limits(self._look)
        return bool(still_open) and all(
            looks.is_hopeless(limit, on.in_stretches_of(size)) for limit, on in still_open
        )

    @property
    def stretch(self) -> int:
        """How many rounds a stretch of all that may be taken has."""
        return int(self.longest / self._rounds.round_time) // looks.STRETCHES

    @property
    def _is_precise(self) -> bool:
        """Whether the range of the stretches is as narrow as the plan requires."""
        found, width = self._rounds.sampled, 1 + self._context.options.sampling.precision
        return found.seen.high <= width * found.value and found.value <= width * found.seen.low

    @property
    def _sampling_time(self) -> float:
        """The seconds that rounds may take from now on."""
        options, recorded = self._context.options, self._rounds.recorded
        whole = options.sampling.sampling_time or looks.SAMPLING_SHARE * options.max_time
        if recorded is not None:  # longer than the other variant decides no more
            whole = min(whole, recorded.seconds)
        return max(0.0, min(whole, self._context.remaining()))

    def _time_for_many(self, longest: float) -> float:
        """Return the seconds that rounds may take: where slow ones are compared, until there are enough."""
        plan, recorded = self._context.options.sampling, self._rounds.recorded
        round_time, enough = self._rounds.lasted.expected, looks.ENOUGH
        if recorded is not None:  # a speedup has no more rounds than the other variant left samples
            enough = min(enough, len(recorded.cpu))
        needed = enough * _WITH_UNTIMED * round_time
        if plan.slow_time is None or not plan.compared or needed <= longest:
            return longest
        if plan.slow_time / round_time - looks.ROUNDS_AROUND < looks.FEWEST_OF_SLOW:
            return longest
        self._context.extend(plan.slow_time)
        self._enough = enough
        return min(needed, self._context.remaining())
