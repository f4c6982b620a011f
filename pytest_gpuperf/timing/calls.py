"""What is known of a workload's calls: of all that were made, and of those of its warm-up."""

from dataclasses import dataclass
from math import inf

from pytest_gpuperf.model.errors import GpuPerfError

_MOST_RECOMPILES = 10  # blocks: torch compiles a function 8 times at most


@dataclass(slots=True, kw_only=True)
class Calls:
    """What all calls have shown, of whatever became of their times: it outlives a restart. Times in seconds.

    `made` counts the first one, too. `second` is a call's time in the first block, which is one call;
    infinite before that. The samples of a busy machine are compared with the `fastest`; `fastest_latency` is
    that of calls which were each waited for before a restart. So many programs were `compiled` in the last
    block; `recompiles` counts the timed ones in which something was: they are no samples. `shows_at_last` is
    whether the inspected call seemed to work.
    """

    made: int = 1
    second: float = inf
    fastest: float = inf
    fastest_latency: float = inf
    compiled: int = 0
    recompiles: int = 0
    shows_at_last: bool = True

    def note_time(self, seconds: float) -> None:
        """Let the time of a call count for the `fastest`, though it may be no sample.

        What a clock of its own did not show took an unknown time.
        """
        if seconds > 0:
            self.fastest = min(self.fastest, seconds)

    def count_recompiled(self) -> None:
        """Count a block in which something was compiled, which is no sample; refuse a call that goes on."""
        self.recompiles += 1
        if self.recompiles > _MOST_RECOMPILES:
            raise GpuPerfError(
                f"the call compiles again and again, in each of {self.recompiles} timed blocks: make its "
                "functions once, outside what is timed (where that is the whole test, return a callable), "
                "and give them the same shapes, dtypes and Python numbers"
            )


@dataclass(slots=True, kw_only=True)
class WarmUp:
    """What warm-up has found of the calls and blocks of a workload. Times in seconds.

    `calls` counts the first one, too. `overlap_left` is the share of a block's time beyond that of its calls
    in a loop; None if not known.
    """

    elapsed: float = 0.0
    calls: int = 1
    steady: bool = False
    synchronize_cost: float = 0.0
    block_time: float | None = None
    last_block: float = 0.0
    overlap_left: float | None = None
