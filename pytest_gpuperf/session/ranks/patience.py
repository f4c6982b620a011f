"""How long a rank may say nothing in a test before it is said to hang, by the calls of that test so far."""

from time import perf_counter

_SHORTEST = 30.0  # seconds: libraries start, and compile in first calls, in one process later than in another
_CALLS = 10  # as many times the longest call: other ranks may share its processors


class Patience:
    """The longest call so far of a test whose time limit is `max_time`, of this rank and of those it heard.

    What a rank does until its first call counts as one: it may compile for minutes, on all ranks alike.
    """

    def __init__(self) -> None:
        self.begin(0.0)

    def begin(self, max_time: float) -> None:
        """Begin a test."""
        self.max_time = max_time
        self._longest = 0.0
        self.begin_call()

    def begin_call(self) -> None:
        """Begin a call, or what is waited for like one."""
        self._since: float | None = perf_counter()

    def note(self) -> None:
        """Note how long the call that has begun takes, up to now, if there is one."""
        if self._since is not None:
            self._longest = max(self._longest, perf_counter() - self._since)

    def end_call(self) -> None:
        """Note that as the whole."""
        self.note()
        self._since = None

    @property
    def seconds(self) -> float:
        """How long another rank may say nothing."""
        return max(_SHORTEST, self.max_time + _CALLS * self._longest)
