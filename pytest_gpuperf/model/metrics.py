"""The metrics, one row each: whoever needs a list of them, or what sets one apart, reads it here.

A new one is its word in `Metric`, a row, and, where no attributes of a record lead to it, a property of
`Record` that finds it. Start-up reads the help text of an option from this module, so it imports nothing of
ours.

PYTEST_DONT_REWRITE: there is no assert here, which pytest would look for at each start without bytecode.
"""

# Annotations stay text: every start of pytest would have to evaluate them.
from __future__ import annotations

from typing import Literal, get_args

Metric = Literal[
    "speedup", "gpu_time", "cpu_time", "latency", "with_copies", "memory", "efficiency", "first_call"
]
METRICS: tuple[Metric, ...] = get_args(Metric)
"""As options and messages list them."""


class Row:
    """What one metric is.

    `words` are its name in a sentence, and `short` is what stands before its change in a narrow column, where
    that is not the metric and a space. It is `worse` when it is more, or less. `place` is where a record has
    it, and `at_least` and `at_most` where its limits are: the attributes on the way there.

    `rounds` are those that it rests on. A test's own rounds are taken until they `decide` it, or have
    `samples` of it, for which no look is waited for. Others are taken among them where a check has `asked`
    for the metric, and are few otherwise. None: it is one value, which has no rounds.

    It is of one `device`, which must be the same one in both runs, and with None of both. Unless it
    `needs_gpu`, it is known of a test that was skipped without one, too. With `pairs_only` a check of one run
    cannot be on it: only pairs of processes show by how much it differs.
    """

    # To make a NamedTuple or a dataclass takes half a millisecond, at each start of pytest.
    def __init__(
        self,
        words: str,
        unit: Literal["s", "x", "ratio", "bytes"],
        worse: Literal["more", "less"],
        rounds: Literal["decide", "samples", "asked"] | None,
        place: str,
        *,
        device: Literal["cpu", "gpu"] | None = None,
        at_least: str | None = None,
        at_most: str | None = None,
        short: str | None = None,
        needs_gpu: bool = True,
        pairs_only: bool = False,
    ) -> None:
        self.words, self.short, self.unit, self.worse = words, short, unit, worse
        self.place, self.at_least, self.at_most = place, at_least, at_most
        self.rounds, self.device, self.needs_gpu, self.pairs_only = rounds, device, needs_gpu, pairs_only


TABLE: dict[Metric, Row] = {
    "cpu_time": Row(
        "CPU time", "s", "more", "samples", "cpu.median", device="cpu", short="CPU ", needs_gpu=False
    ),
    "gpu_time": Row("GPU time", "s", "more", "samples", "gpu.median", device="gpu", short="GPU "),
    "speedup": Row(
        "speedup", "x", "less", "decide", "speedup", at_least="demand.min", at_most="demand.max", short=""
    ),
    "with_copies": Row("speedup with copies", "x", "less", "asked", "offload.always", short="with copies "),
    "latency": Row("speedup by latency", "x", "less", "asked", "offload.latency"),
    "memory": Row("memory", "bytes", "more", None, "memory.peak", at_most="demand.max_memory", device="gpu"),
    "efficiency": Row(
        "parallel efficiency", "ratio", "less", "decide", "scaling.efficiency", at_least="scaling.required"
    ),
    "first_call": Row("first call", "s", "more", None, "first_call", needs_gpu=False, pairs_only=True),
}
"""In the order of the rows of a CSV file."""
