"""How long and how often a workload is sampled: warm-up, blocks, rounds, and what is measured besides."""

from pytest_gpuperf.model.value import Value


class SamplingPlan(Value, frozen=True, kw_only=True):
    """How long and how often a workload is sampled: constants that users do not set. Times in seconds.

    A block lasts at least `block_time`. Warm-up ends when three blocks agree within `warmup_tolerance`, or
    after `warmup_time`. Sampling continues after the verdict until the range of the stretches is within
    `precision` of the value, for at most `precision_time`; without a limit for at most `record_time`. With
    `whole` it takes all of its time: other runs are compared with what is found. Secondary measurements
    (copies, latency) take at most `secondary_time` each, in blocks of `secondary_block_time`, or one sample
    in each round where a check rests on them (`in_rounds`). With `compared`, a run is measured for a baseline
    or against one: a CPU variant is sampled for longer, since nothing can sample it again, and a test without
    limits for the whole of `record_time`. With a `sampling_time` the run is one process of many: each test is
    sampled for so long, and for longer only to have a few rounds. In a check, a test of slow calls may take
    `slow_time` in all to have enough rounds for it, where nobody set its time limit. A test restarts once at
    most, where it `may_restart`: on a busy machine, or if later calls took another time.
    """

    block_time: float = 1e-3
    warmup_tolerance: float = 0.05
    warmup_time: float = 0.1
    precision: float = 0.05
    precision_time: float = 0.03
    record_time: float = 1.0
    secondary_time: float = 0.003
    secondary_block_time: float = 0.25e-3
    may_restart: bool = True
    compared: bool = False
    whole: bool = False
    in_rounds: bool = False
    sampling_time: float | None = None
    slow_time: float | None = None


SLOW_TIME = 30.0
"""Seconds of a test of slow calls in a regression check, where nobody set its time limit."""
