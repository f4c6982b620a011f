"""What a marker requires of a test, and the options of a run."""

from typing import Annotated, Literal

from msgspec import Meta

from pytest_gpuperf.model.sampling_constants import SamplingPlan
from pytest_gpuperf.model.value import (
    AtLeastOne,
    Count,
    Finite,
    MemoryLimit,
    NonNegative,
    PartOfOne,
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
    bytes: MemoryLimit | None = None
    """Bytes that a call reads and writes; null for those of its arrays, as far as they are known."""
    min_share: PartOfOne | None = None
    """Smallest share of the GPU's roof that passes: seconds of a plain copy of as many bytes over those of a
    call."""
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
        return not self.limits and self.max_memory is None and self.min_share is None

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


class RunOptions(Value, frozen=True, kw_only=True):
    """What users set for a run, read once from the command line and the ini file.

    `max_time` is the time limit of one test in seconds. `default_device` is the device of tests that do not
    choose one themselves. A GPU machine costs `cost_ratio` times as much as a CPU machine; None where nobody
    said so. `lock` is the file that lets one process measure at a time, `auto` or `none`. `sampling`
    follows from the other options: a gated run samples more precisely. With `roofs` each test's devices are
    held against plain copies of as many bytes, for what will be shown of them.
    """

    max_time: float = 10.0
    fail: Fail = "sure"
    off: bool = False
    require_gpu: bool = False
    gpu: str = "auto"
    default_device: str | None = None
    cost_ratio: float | None = None
    lock: str = "auto"
    roofs: bool = False
    sampling: SamplingPlan = SamplingPlan()
