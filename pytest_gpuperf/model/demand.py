"""What a marker requires of a test, and the options of a run."""

from typing import Annotated, Literal

from msgspec import Meta

from pytest_gpuperf.model.value import (
    AtLeastOne,
    Count,
    Finite,
    MemoryLimit,
    NonNegative,
    Ratio,
    TimeLimit,
    Value,
)

Kind = Literal["cpu", "gpu"]
KINDS: tuple[Kind, ...] = ("cpu", "gpu")
Transfers = Literal["never", "always", "once"]
Fail = Literal["sure", "doubt", "nothing"]
"""What fails: a limit that is surely missed or a sure regression; a doubt, too; or nothing."""
Source = Literal["marker", "all"]
"""What asked for a measurement: a marker, or `--gpuperf-all`."""


class Demand(Value, frozen=True, kw_only=True):
    """What a marker requires of one test; limits are ratios cpu time / gpu time."""

    min: Ratio | None = None
    """Smallest speedup that passes."""
    max: Ratio | None = None
    """Largest speedup that passes."""
    transfer: Transfers = "never"
    """Copies that the speedup includes."""
    calls: AtLeastOne | None = None
    """Calls per transfer; only with `transfer` `once`."""
    latency: bool = False
    """Whether the speedup is that of single calls, each waited for."""
    max_memory: MemoryLimit | None = None
    """Most bytes on the device."""
    rtol: NonNegative | None = None
    """Elementwise relative tolerance; null where none was given."""
    atol: NonNegative | None = None
    """Elementwise absolute tolerance; null where none was given."""
    check: bool = True
    """Whether the results must be the same."""
    max_time: TimeLimit | None = None
    """Seconds that measuring may take; null for the run's own limit."""
    accelerator: (
        Annotated[str, Meta(extra={"valid": "the name of an accelerator, e.g. 'networkx:parallel'"})] | None
    ) = None
    """Accelerator, as `networkx:parallel`; null for the devices of the run."""

    def __post_init__(self) -> None:
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min must be at most max; min={self.min!r} is above max={self.max!r}")
        if not self.check and not (self.rtol is None and self.atol is None):
            raise ValueError(
                "rtol and atol set how results are compared, but check=False turns the comparison off"
            )
        if self.transfer == "once" and self.calls is None:
            raise ValueError("transfer='once' needs calls=N, the number of calls that share one transfer")
        if self.transfer != "once" and self.calls is not None:
            raise ValueError(f"calls={self.calls!r} has no effect without transfer='once'")

    @property
    def bare(self) -> bool:
        """Whether nothing is required: such a test records and never fails, whatever else is said of it."""
        return not self.limits and self.max_memory is None

    @property
    def is_default(self) -> bool:
        """Whether nothing is said: the marker has no argument, or names an accelerator only."""
        return self == Demand(accelerator=self.accelerator)

    @property
    def limits(self) -> tuple[float, ...]:
        """The required limits of the speedup, lowest first."""
        return tuple(limit for limit in (self.min, self.max) if limit is not None)


class SizeGroup(Value, frozen=True, kw_only=True):
    """What one test shares with those that differ from it in one size only."""

    name: str
    """Name of the group, the same for all its members."""
    parameter: Annotated[
        str,
        Meta(extra={"valid": "the name of the parameter that is the size, as in offload_threshold('n')"}),
    ]
    """Name of the parameter that is the size."""
    size: float
    """Size of this test."""
    sizes: tuple[float, ...]
    """Sizes of all members that were collected, smallest first."""
    at_most: Finite | None = None
    """Largest threshold that passes."""
    at_least: Finite | None = None
    """Smallest threshold that passes."""


LIBRARY_NOT_KNOWN = "not known"
"""The library of a variant that was not measured, and whose value names only a kind of device."""


class Pairing(Value, frozen=True, kw_only=True):
    """Which of two variants a test is."""

    kind: Kind
    """Device on which the test runs."""
    library: str
    """Library whose arrays it works on."""
    partner: str | None = None
    """Node id of the CPU variant that it was compared with; null where there was none."""


class UnknownValue(Value, frozen=True, kw_only=True):
    """A value of a device parameter that no backend knows: its tests run as if they had no marker."""

    parameter: str
    """Name of the parameter."""
    value: str
    """The value, as text."""
    tests: Count = 1
    """Marked tests with it."""


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


class RunOptions(Value, frozen=True, kw_only=True):
    """What users set for a run, read once from the command line and the ini file.

    `max_time` is the time limit of one test in seconds. `default_device` is the device of tests that do not
    choose one themselves. A GPU machine costs `cost_ratio` times as much as a CPU machine; None where nobody
    said so. `lock` is the file that lets one process measure at a time, `auto` or `none`. `sampling`
    follows from the other options: a gated run samples more precisely.
    """

    max_time: float = 10.0
    fail: Fail = "sure"
    off: bool = False
    require_gpu: bool = False
    gpu: str = "auto"
    default_device: str | None = None
    cost_ratio: float | None = None
    lock: str = "auto"
    sampling: SamplingPlan = SamplingPlan()
