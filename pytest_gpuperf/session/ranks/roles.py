"""The processes of one launch: rank 0 measures a test while the others, which have run it once, wait."""

import os
import signal
import socket
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from time import perf_counter, sleep

import pytest

from pytest_gpuperf.collection.items import SPEC
from pytest_gpuperf.integrations import collectives, launchers
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.launch import Launch, Rank
from pytest_gpuperf.model.units import count
from pytest_gpuperf.session.ranks import meeting, process, signals
from pytest_gpuperf.session.ranks.channel import Channel, Message, Server, connect
from pytest_gpuperf.session.ranks.patience import Patience
from pytest_gpuperf.timing.lock import LockHold, OnWait

_JOIN = 60.0  # seconds from the end of collection until all ranks are there
_ANSWER = 30.0  # seconds more for rank 0 to answer those that are, and for others to end with it
_GRACE = 30.0  # seconds for rank 0, once it is asked to end, to write its report: as torchrun gives it
_IDLE = 5.0  # seconds for which a rank that ends early waits for another that says nothing
_LONGEST = 600.0  # seconds beyond max_time for which others wait for rank 0, as for the lock
_SEVERAL_NODES = (
    "this launch has {ranks} on {nodes}, which cannot wait for each other: on several machines the ranks of "
    "torchrun can; start pytest by torchrun, or with ranks of one node, or pass --gpuperf-off"
)
_NO_MEETING = "the ranks on several machines cannot wait for each other: {}"
_SOON = 1.0  # seconds for which rank 0 waits for an answer without a word to those that wait for it
_NO_TURNS = "the other ranks cannot wait for this one, and may have run tests meanwhile"
_HANGS = "it hangs, or its calls take longer than those of rank 0, for which a longer max_time allows"
_WHY_MISSING = "it has collected no speedup test, has ended, or is not on this machine"


class RankFailed(Exception):
    """Another rank has raised, died or hung in a test of which all make the calls."""


class Ranks:
    """This process alone, and what all kinds of ranks do; the other classes are those of a launch.

    `measures` is whether its tests are measured here. `refusal` is why no test can be; `told` what the run
    has to say at its end. `local` is its number among the ranks of its machine. Where it `takes_turns` with
    the others, they hold the measurement lock while they run a test.
    """

    measures = True
    refusal: str | None = None
    launch: Launch | None = None
    local: int | None = None

    def __init__(self) -> None:
        self.told: list[str] = []

    @property
    def takes_turns(self) -> bool:
        """Whether nobody waits for anybody."""
        return False

    def begin(self, items: Sequence[pytest.Item]) -> None:
        """Meet the other ranks, which must have the same speedup tests; GpuPerfError if they have not."""

    def start(self, item: pytest.Item, max_time: float) -> None:
        """Begin a test, which is measured for so long."""

    def note_wait(self) -> None:
        """Tell the other ranks of a test in which all work that this one waits for the measurement lock."""

    def note_start(self) -> None:
        """Tell them that its samples are taken from now on."""

    def turn(self, max_time: float, on_wait: OnWait) -> LockHold | None:
        """Wait until all ranks have run the test that has begun; return for how long, and who has not."""

    def end(self, item: pytest.Item) -> bool | None:
        """End the body of a test, before its fixtures end, and release those who wait for that.

        Return whether this rank waits now.
        """

    def wait(self, max_time: float) -> None:
        """Wait until rank 0 has measured the test."""

    def end_setup(self, item: pytest.Item, cause: str, *, is_skip: bool) -> None:
        """Tell the other ranks of a test in which all work why its fixtures have ended it here."""

    def end_calls(self, cause: str | None, *, is_skip: bool) -> None:
        """Tell the other ranks of a test in which all work that it is over, with why it was not measured."""

    def why_ended(self, below: int) -> str | None:
        """Return how a rank with a smaller number has ended the test that has begun, if another one has."""

    def look(self) -> None:
        """Read what other ranks have said meanwhile."""

    def finish(self) -> None:
        """Say that this rank has run all of its tests, and writes what it found."""

    def close(self, status: int, *, is_early: bool = False) -> None:
        """Tell the other ranks that this one has ended, with its exit status; the last thing that it does.

        A launcher ends all ranks where one has failed, which must not cut short what the others write. But
        where a rank ends before its last test, as with -x, another one may wait for it in a test.
        """


class _OfLaunch(Ranks):
    """What rank 0 and the others have in common."""

    def __init__(self, rank: Rank) -> None:
        super().__init__()
        self.rank = rank
        self.launch = rank.launch
        self.local = rank.local
        if not launchers.can_meet(rank.launch, os.environ):
            ranks, nodes = count(rank.launch.ranks, "rank"), count(rank.launch.nodes or 1, "machine")
            self.refusal = _SEVERAL_NODES.format(ranks=ranks, nodes=nodes)
        self._places: dict[pytest.Item, int] = {}
        self._names: list[str] = []
        self._process = ExitStack()
        self._is_over = False
        self._patience = Patience()

    def begin(self, items: Sequence[pytest.Item]) -> None:
        """Meet the other ranks where there is a speedup test."""
        self._places = {item: place for place, item in enumerate(items)}
        self._names = [item.stash[SPEC].nodeid for item in items]
        if (again := _why_not_once(items)) is not None:
            raise GpuPerfError(again)
        if self._names and self.refusal is None:
            self._process.enter_context(launchers.marked_process(self.rank))
            self._process.enter_context(signals.ended_by_sigterm(lambda: self._is_over))
            self._meet()

    def _meet(self) -> None:
        raise NotImplementedError

    def _tell_of_turns(self, text: str, error: OSError) -> None:
        """Tell that ranks take turns, as their machine's lock lets them: of several machines none does."""
        if not self.rank.launch.is_on_one_machine:
            raise GpuPerfError(_NO_MEETING.format(error)) from error
        self.told.append(f"{text}: {error}")

    def finish(self) -> None:
        """Let nothing interrupt this process any more: it writes what it found."""
        self._is_over = True

    def close(self, status: int, *, is_early: bool = False) -> None:
        """End, with what was said to processes that tests start."""
        self._process.close()
        self._say_end(status, is_early=is_early)

    def _say_end(self, status: int, *, is_early: bool) -> None:
        raise NotImplementedError


class JointCalls:
    """What all groups of a launch share: the key of the last call, and how to read the answers to it.

    `unanswered` reads them; it is None once they are read.
    """

    def __init__(self) -> None:
        self._last_key = 0
        self.unanswered: Callable[[], None] | None = None

    def next_key(self) -> int:
        """Return the key of the next call, which no other call of any group has."""
        self._last_key += 1
        return self._last_key

    def settle(self) -> None:
        """Read the answers to the last call, if they are to be read; raise how a rank ended the test."""
        read, self.unanswered = self.unanswered, None
        if read is not None:
            read()


class FirstRank(_OfLaunch):
    """Rank 0: it measures, when all others that are there wait."""

    def __init__(self, rank: Rank) -> None:
        super().__init__(rank)
        self.calls = JointCalls()
        self._server: Server | None = None
        self._others: dict[int, _Other] = {}  # that have come
        self._missing: set[int] = set()  # that have not come in time
        self._heard: defaultdict[int, deque[Message]] = defaultdict(
            deque
        )  # answers in the test that has begun
        self._ended: dict[int, str] = {}  # how each that was there has ended
        self._place = -1

    def _meet(self) -> None:
        try:
            self._server = Server(meeting.of_launch(self.rank), self.rank.key, self._on_message, self._on_end)
        except OSError as error:
            self._tell_of_turns("the other ranks cannot wait for this one, and take turns with it", error)
            return
        wanted = set(range(1, self.rank.launch.ranks))
        self._server.wait(lambda: wanted <= self._others.keys(), _JOIN)
        self._missing = wanted - self._others.keys()
        differences = (
            _difference(number, self._others[number].tests, self._names) for number in sorted(self._others)
        )
        problem = next(filter(None, differences), None)
        self._server.send({"refused": problem})
        if problem is not None:
            raise GpuPerfError(problem)
        if self._missing:
            why = _WHY_MISSING + launchers.hint_on_key(self.rank, os.environ)
            self.told.append(f"{_ranks(self._missing)} did not come within {_JOIN:g} s: {why}")

    def start(self, item: pytest.Item, max_time: float) -> None:
        """Begin a test, at which the others shall wait.

        Where they work in it, nothing shows them yet how long rank 0 may say nothing: its fixtures, and the
        calls that it makes alone, may take longer than theirs.
        """
        self._place = self._places.get(item, self._place)
        self._patience.begin(max_time)
        self.calls.unanswered = None
        self._heard.clear()
        if item.stash[SPEC].is_in_ranks:
            self._say_wait(max_time + _LONGEST)

    def note_wait(self) -> None:
        """Tell all others."""
        self._patience.end_call()
        self._say_wait(self._patience.max_time + _LONGEST)

    def note_start(self) -> None:
        """Tell all others how long rank 0 may say nothing from now on."""
        self._patience.end_call()
        self._say_wait(self._patience.seconds)

    def tell(self, message: Message, below: int) -> None:
        """Send a message on the test that has begun to the other ranks with a smaller number."""
        self._patience.note()
        if self._server is not None:
            seconds = self._patience.seconds
            self._server.send({**message, "of": self._place, "seconds": seconds}, below)
        self._patience.begin_call()

    def _say_wait(self, seconds: float) -> None:
        """Tell the others that rank 0 may say nothing for so many seconds."""
        if self._server is not None:
            self._server.send({"do": "wait", "of": self._place, "seconds": seconds})

    def require(self, below: int) -> None:
        """Raise how another rank with a smaller number has ended the test, if one has said so or hangs.

        What waits for one within a call may wait for ever.
        """
        self.look()
        for number in range(1, below):
            if (why := self._why_not(number)) is not None:
                raise why

    def hear(self, what: str, below: int) -> list[Message]:
        """Return the answer of each other rank with a smaller number; raise how one has ended the test.

        That is a skip, GpuPerfError for a refusal, or RankFailed.
        """
        others = range(1, below)
        self._patience.note()
        self._await(others)
        self._patience.end_call()
        answers = []
        for number in sorted(others, key=lambda number: not self._heard[number]):  # first what they said
            if (why := self._why_not(number)) is not None:
                raise why
            if not self._heard[number]:
                raise RankFailed(f"rank {number} has not begun this test for {_LONGEST:g} s")
        for number in others:
            answer = self._heard[number].popleft()
            if answer["said"] != what:
                raise RankFailed(
                    f"rank {number} is at another place of the test ({answer['said']}) than rank 0 ({what}): "
                    "all must call ranks.barrier() as often, and return a callable where one does"
                )
            answers.append(answer)
        return answers

    def _await(self, others: Sequence[int]) -> None:
        """Wait until each has answered or one has ended the test; note which of those that began it hang."""
        if self._server is None:
            return

        def is_known() -> bool:
            return all(map(self._heard.get, others)) or any(map(self._why_not, others))

        def working() -> list[int]:
            silent = [number for number in others if not self._heard[number] and number in self._others]
            return [number for number in silent if self._others[number].begun >= self._place]

        seconds, until = self._patience.seconds, perf_counter() + _LONGEST
        if self._server.wait(is_known, min(_SOON, seconds / 2)):
            return
        self._say_wait(max(seconds, _LONGEST))
        while not self._server.wait(is_known, seconds):
            for number in working():
                self._give_up(number, seconds)
            left = until - perf_counter()
            if is_known() or not self._server.wait(lambda: bool(is_known() or working()), left):
                return

    def await_all(self) -> None:
        """Wait until all have set up the test that has begun; raise how one of them has ended it.

        What all make together, such as a group of processes, would wait for that one without a word.
        """
        others = range(1, self.rank.launch.ranks)

        def missing() -> list[int]:
            here = {number for number, other in self._others.items() if other.here >= self._place}
            return [number for number in others if number not in here]

        if self._server is not None:
            self._server.wait(lambda: not missing() or any(map(self._why_not, others)), _LONGEST)
        for number in missing():
            raise self._why_not(number) or RankFailed(
                f"rank {number} has not set up this test in {_LONGEST:g} s"
            )

    def _give_up(self, number: int, seconds: float) -> None:
        """Note that a rank hangs, and ask it to end, which a call in C need not hear."""
        other = self._others[number]
        other.hang = f"has said nothing for {seconds:.0f} s in {self._names[self._place]}"
        self.told.append(f"rank {number} ({other.where}) {other.hang}, and was asked to end")
        process.send_signal(other.process, signal.SIGTERM)

    def barrier(self, below: int) -> None:
        """Let all ranks with a smaller number go on once they have met."""
        self.hear("barrier", below)
        self.tell({"do": "pass"}, below)

    def end_setup(self, item: pytest.Item, cause: str, *, is_skip: bool) -> None:
        """Tell all others."""
        if self._places.get(item) == self._place:
            self.end_calls(cause, is_skip=is_skip)

    def end_calls(self, cause: str | None, *, is_skip: bool) -> None:
        """Tell all others; a cause that is another rank's names it."""
        if cause is not None and not cause.startswith("rank "):
            cause = f"rank 0 has ended the test: {cause}"
        self.tell({"do": "over", "cause": cause, "is_skip": is_skip}, self.rank.launch.ranks)

    def why_ended(self, below: int) -> str | None:
        """Return how another rank has ended the test, as far as it has said so; nobody is waited for."""
        self.look()
        return next((str(why) for why in map(self._why_not, range(1, below)) if why is not None), None)

    def _why_not(self, number: int) -> BaseException | None:
        """Return what to raise where a rank answers no more; None where it has, or may yet."""
        if heard := self._heard[number]:
            return _failure(heard[0])
        if number not in self._others:
            return RankFailed(f"rank {number} {self._ended.get(number, 'has not come')}")
        other = self._others[number]
        if other.setup is not None and other.setup["setup"] == self._place:
            return _failure(other.setup)
        if other.place >= self._place:
            return RankFailed(f"rank {number} has ended this test without its calls: its output says why")
        if other.hang is not None:
            return RankFailed(f"rank {number} ({other.where}) {other.hang}: {_HANGS}")
        return None

    def turn(self, max_time: float, on_wait: OnWait) -> LockHold | None:  # noqa: ARG002 - it began with that
        """Wait for the others, but not for ever, nor again for one that has not come."""
        if self._server is None:
            return LockHold(warning=_NO_TURNS) if collectives.are_possible() else None
        self._server.send({"measures": self._place})
        self._patience.note()
        limit = self._patience.seconds
        started, waited = perf_counter(), 0.0
        if not self._server.wait(lambda: not self._late(), 0.0):
            with on_wait():
                self._server.wait(lambda: not self._late(), limit)
            waited = perf_counter() - started
        for number in self._late():
            self._others[number].is_given_up = True
        given_up = {number for number, other in self._others.items() if other.is_given_up}
        may_disturb = self._missing | given_up
        if not may_disturb:
            return LockHold(waited=waited)
        has = "has" if len(may_disturb) == 1 else "have"
        warning = f"{_ranks(may_disturb)} {has} not come to wait, and may have run tests meanwhile"
        return LockHold(waited=waited, warning=warning)

    def _late(self) -> list[int]:
        """Return the ranks that do not wait yet, without those that were waited for in vain."""
        return [n for n, other in self._others.items() if not other.is_given_up and other.place < self._place]

    def end(self, item: pytest.Item) -> bool:
        """Release the others, once the test that has begun is measured, and whenever it ends."""
        if self._server is not None and self._places.get(item) == self._place:
            self._server.send({"done": self._place})
        return False

    def finish(self) -> None:
        """Say so, for a rank that waits for the report."""
        super().finish()
        if self._server is not None:
            self._server.send({"finishes": True})

    def look(self) -> None:
        """Read who has ended meanwhile."""
        if self._server is not None:
            self._server.wait(lambda: True, 0.0)

    def _say_end(self, status: int, *, is_early: bool) -> None:
        """End; where this fails the launch, when the others have."""
        if self._server is not None:
            self._server.send({"ended": status})
            self._end_hung(self._server)
            if status:
                self._server.wait(lambda: not self._others, _IDLE if is_early else _ANSWER)
            self._server.close()
            self._server = None

    def _end_hung(self, server: Server) -> None:
        """End the processes of ranks that hang: nobody else would, and some launchers wait for them."""
        hung = {number for number, other in self._others.items() if other.hang is not None}
        if not server.wait(lambda: not hung & self._others.keys(), _IDLE):
            for number in hung & self._others.keys():
                process.send_signal(self._others[number].process, process.KILL)

    def _on_message(self, number: int, message: Message) -> None:
        if "tests" in message:
            self._others[number] = _Other(message)
            self._missing.discard(number)
        elif number in self._others:
            other = self._others[number]
            if message.get("of") == self._place and "said" in message:
                self._heard[number].append(message)
            if isinstance(place := message.get("at"), int):
                other.place, other.is_given_up, other.hang = place, False, None
            if isinstance(place := message.get("begins"), int):
                other.begun, other.hang = place, None
            if isinstance(place := message.get("here"), int):
                other.here = place
            if "setup" in message:
                other.setup = message
            if "leaves" in message:
                other.end = str(message["leaves"])
            if isinstance(status := message.get("ended"), int):
                other.status = status
                self._on_end(number)

    def _on_end(self, number: int) -> None:
        other = self._others.pop(number, None)
        last = len(self._names) - 1
        if other is None:
            return
        how = other.end if other.status is None else f"ended with exit status {other.status}"
        if other.hang is not None:
            how = f"{other.hang}, and {how}"
        self._ended[number] = f"({other.where}) {how}"
        if other.hang is not None or (other.place >= last and other.status is not None):
            return
        where = "after its last speedup test"
        if other.place < last:
            where = f"before it had run {self._names[other.place + 1]}"
        self.told.append(f"rank {number} ({other.where}) {how} {where}")


class _Other:
    """What rank 0 knows of another one: its tests, and at which of them it waits."""

    def __init__(self, message: Message) -> None:
        self.tests: list[str] = [str(test) for test in message["tests"]]
        self.where = str(message.get("where"))
        self.process: str | None = message.get("process")
        self.place = self.begun = self.here = -1
        self.setup: Message | None = None  # the last one that failed
        self.hang: str | None = None  # how it was found to hang
        self.end = "was killed or crashed"
        self.status: int | None = None
        self.is_given_up = False


class OtherRank(_OfLaunch):
    """A rank that runs each test once, and waits while rank 0 measures it."""

    measures = False

    def __init__(self, rank: Rank) -> None:
        super().__init__(rank)
        self._channel: Channel | None = None
        self._place = self._done = -1
        self._is_first_busy = False  # with a measurement, or the report
        self._granted: float | None = None  # the seconds for which rank 0 may say nothing in a test of all
        self._hung: str | None = None  # the process of rank 0, if that hangs

    def _meet(self) -> None:
        try:
            self._channel = connect(meeting.of_launch(self.rank), self.rank.number, _JOIN)
        except OSError as error:
            self._tell_of_turns("this rank cannot wait for rank 0, and takes turns with it", error)
            return
        if self._channel is None:
            why = _WHY_MISSING + launchers.hint_on_key(self.rank, os.environ)
            self.told.append(f"rank 0 did not come within {_JOIN:g} s: {why}")
            return
        here = f"{socket.gethostname()}, process {os.getpid()}"
        self._channel.send({"tests": self._names, "where": here, "process": process.this_process()})
        answer = self._next(_JOIN + _ANSWER)
        if answer is not None and answer.get("refused"):
            raise GpuPerfError(str(answer["refused"]))

    @property
    def takes_turns(self) -> bool:
        """Whether nobody waits; ranks that wait for each other in a test must be in it at one time."""
        return self._channel is None and not collectives.are_possible()

    def start(self, item: pytest.Item, max_time: float) -> None:
        """Begin a test; say so where all work in it."""
        self._patience.begin(max_time)
        self._granted = None
        if self._channel is not None and item.stash[SPEC].is_in_ranks:
            self._channel.send({"begins": self._places.get(item)})

    def end(self, item: pytest.Item) -> bool:
        """Say that this rank waits."""
        place = self._places.get(item)
        if self._channel is None or place is None:
            return False
        self._place = place
        self._channel.send({"at": place})
        return True

    @property
    def number(self) -> int:
        """Its number in the launch."""
        return self.rank.number

    def begin_body(self, item: pytest.Item) -> None:
        """Say that the fixtures of a test in which all work are set up."""
        if self._channel is not None:
            self._channel.send({"here": self._places.get(item)})

    def answer(self, item: pytest.Item, message: Message, data: bytes = b"") -> None:
        """Say something of a test to rank 0, which waits for it."""
        self._patience.end_call()
        if self._channel is not None:
            self._channel.send({**message, "of": self._places.get(item)}, data)

    def end_setup(self, item: pytest.Item, cause: str, *, is_skip: bool) -> None:
        """Tell rank 0."""
        if self._channel is not None:
            kind = "skip" if is_skip else "error"
            failed = f"rank {self.number}: {cause}"
            self._channel.send({"setup": self._places.get(item), "failed": failed, "kind": kind})

    def command(self, item: pytest.Item) -> Message:
        """Return what rank 0 says next of a test; raise pytest's failure where it says no more."""
        place = self._places.get(item)
        self._patience.end_call()
        while self._channel is not None:
            message = self._next(self._limit, must_end=self._granted is not None)
            if message is not None and message.get("of") == place:
                self._granted = message["seconds"]
                if message["do"] == "wait":
                    continue
                self._patience.begin_call()
                return message
            if message is not None and message.get("done") == place:
                self._done = self._places[item]
                pytest.fail("rank 0 has ended this test before its calls: its output says why", pytrace=False)
        pytest.fail(self.told[-1] if self.told else "rank 0 is not there", pytrace=False)

    @property
    def _limit(self) -> float:
        """The seconds for which rank 0 may say nothing within a test in which all work.

        It may wait as long for another rank.
        """
        if self._granted is None:
            return self._patience.max_time + _LONGEST
        return max(self._granted, self._patience.seconds) + _ANSWER

    def wait(self, max_time: float) -> None:
        """Wait, unless rank 0 ends or hangs, as long as it may take."""
        while self._channel is not None and self._done < self._place:
            message = self._next(max_time + _LONGEST)
            if message is not None and isinstance(done := message.get("done"), int):
                self._done = max(self._done, done)

    def _say_end(self, status: int, *, is_early: bool) -> None:
        """End; where this fails the launch, when rank 0 has written its report.

        One that ends early waits only while rank 0 measures or writes: else it may wait for this one.
        """
        if self._channel is not None:
            self._channel.send({"ended": status})
            while status and self._channel is not None:
                self._next(_IDLE if is_early and not self._is_first_busy else _LONGEST)
            self._leave()
        self._end_hung()

    def _end_hung(self) -> None:
        """End the process of rank 0 where it hangs and does not hear that it shall end."""
        if self._hung is not None:
            until = perf_counter() + _GRACE
            while not process.is_gone_or_unknown(self._hung) and perf_counter() < until:
                sleep(0.1)
            process.send_signal(self._hung, process.KILL)

    def _next(self, seconds: float, *, must_end: bool = False) -> Message | None:
        """Return rank 0's next message; None where it has ended or hangs: nobody waits for it any more.

        Where it hangs and `must_end`, it is asked to.
        """
        assert self._channel is not None  # noqa: S101 - who asks has joined
        problem = "was killed or crashed"
        try:
            message = self._channel.receive(seconds)
        except TimeoutError:
            message, problem = None, f"has said nothing for {seconds:.0f} s"
            self._channel.send({"leaves": f"has waited {seconds:.0f} s for rank 0, and gone on without it"})
            if must_end:
                self._hung = self._channel.process
                process.send_signal(self._hung, signal.SIGTERM)
        if message is not None and message.keys() & {"measures", "done", "finishes"}:
            self._is_first_busy = "done" not in message
        if message is not None and isinstance(status := message.get("ended"), int):
            message, problem = None, f"ended with exit status {status}"
        if message is None:
            self.told.append(
                f"rank 0 {problem}: the tests after that ran without it, and those with `ranks` failed"
            )
            self._leave()
        return message

    def _leave(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None


def _failure(message: Message) -> BaseException | None:
    """Return what to raise for how another rank has ended a test, if it says so."""
    if (text := message.get("failed")) is None:
        return None
    kinds: dict[str, Callable[[str], BaseException]] = {"skip": skipped, "refusal": GpuPerfError}
    return kinds.get(message["kind"], RankFailed)(text)


def skipped(reason: str) -> BaseException:
    """Return the skip of a test that another rank has skipped."""
    return pytest.skip.Exception(reason, _use_item_location=True)


def of_run(config: pytest.Config) -> Ranks:
    """Return what this process does in the launch that it is a rank of, if it is one."""
    rank = launchers.of_run(config)
    if rank is None:
        return Ranks()
    return OtherRank(rank) if rank.number else FirstRank(rank)


@contextmanager
def in_turn(
    ranks: Ranks,
    max_time: float,
    lock: Callable[[OnWait], AbstractContextManager[LockHold]],
    on_wait: OnWait,
) -> Iterator[LockHold]:
    """Hold the right to measure: all ranks wait, and no other run measures."""
    of_ranks = ranks.turn(max_time, on_wait) or LockHold()
    with lock(on_wait) as hold:
        warnings = [*filter(None, [of_ranks.warning, hold.warning])]
        yield LockHold(waited=of_ranks.waited + hold.waited, warning="; ".join(warnings) or None)


def _why_not_once(items: Sequence[pytest.Item]) -> str | None:
    """Return why one of the tests may run again on one rank alone; None where none may."""
    for item in items:
        has_plugin = any(item.config.pluginmanager.hasplugin(name) for name in ("rerunfailures", "flaky"))
        if has_plugin and item.get_closest_marker("flaky") is not None:
            return (
                f"{item.nodeid} has the marker flaky, by which one of several ranks would run it again that "
                "the others do not; leave the marker out, or run pytest without a launcher"
            )
    return None


def _ranks(numbers: set[int]) -> str:
    """Return ranks in words: `rank 1`, or `ranks 1, 2`."""
    names = ", ".join(map(str, sorted(numbers)))
    return f"rank {names}" if len(numbers) == 1 else f"ranks {names}"


def _difference(number: int, tests: Sequence[str], own: Sequence[str]) -> str | None:
    """Return in which speedup tests another rank differs from rank 0, and the remedy; None in none."""
    if list(tests) == list(own):
        return None
    remedy = "each rank must collect the same ones in the same order"
    if sorted(tests) == sorted(own):
        return (
            f"rank {number} has the speedup tests of rank 0 in another order, and {remedy}; with "
            "pytest-randomly pass -p no:randomly, or one --randomly-seed to all"
        )
    of_each = ((number, tests, set(own)), (0, own, set(tests)))
    firsts = ((rank, next((test for test in its if test not in they), "")) for rank, its, they in of_each)
    named = "; ".join(f"{test} is on rank {rank} only" for rank, test in firsts if test)
    counts = f"{count(len(own), 'speedup test')} on rank 0 and {len(tests)} on rank {number}"
    return f"the ranks have collected different tests, {counts} ({named or 'some twice'}), and {remedy}"
