"""How the time of a workload changes with the number of devices: strong and weak scaling."""

from typing import Literal

from pytest_gpuperf.model.launch import Launcher
from pytest_gpuperf.model.measurement import Estimate, Measurement, Speedup
from pytest_gpuperf.model.offload import Diagnosis
from pytest_gpuperf.model.value import AtLeastOne, Positive, Seconds, Text, Value

Mode = Literal["strong", "weak"]
"""Strong: the problem stays the same. Weak: it grows with the number of devices."""
MODES: tuple[Mode, ...] = ("strong", "weak")

Member = Literal["device", "rank"]
"""What a scaling test counts: devices that one process drives, or processes with a device each."""


class RankBlocks(Value, frozen=True, kw_only=True):
    """All timed blocks that each rank of a launch ran on a device of its own: of warm-up, rounds and loops.

    The time of a block is that of the slowest rank. They begin at a moment that all have agreed on, and on
    several machines, whose clocks differ, when rank 0 says so.
    """

    launcher: Launcher
    """What started the ranks."""
    ranks: AtLeastOne
    """How many ranks ran the blocks."""
    blocks: AtLeastOne
    """Number of blocks."""
    skew: Seconds | None
    """Median seconds from the start of the first rank to that of the last one; null on several machines."""
    slowest: int
    """The rank that was the slowest in most blocks."""
    slowest_share: float
    """In which share of the blocks it was."""
    slowest_excess: float
    """By which share of their time it took longer than the fastest rank; the median over all blocks."""


class Scaling(Value, frozen=True, kw_only=True):
    """A test on several devices, compared with itself on the fewest of its group.

    With r times as many devices that take the time T, and T1 on the fewest, the parallel efficiency is
    T1 / (r T) for strong scaling, and T1 / T for weak.
    """

    name: Text
    """Name of the group."""
    mode: Mode
    """Whether the problem stays the same, or grows with the devices."""
    count: AtLeastOne
    """Devices of this test."""
    counts: tuple[int, ...]
    """Numbers of devices of the group, fewest first."""
    required: Positive | None = None
    """Smallest parallel efficiency that passes; null without one."""
    member: Member = "device"
    """What `count` and `counts` count."""
    ranks: RankBlocks | None = None
    """How the ranks of a launch ran it; null where one process drove all devices, or one rank ran alone."""
    base: Measurement | None = None
    """Times on the fewest devices, in the same rounds; null for the test on the fewest itself."""
    speedup: Speedup | None = None
    """Time on the fewest devices / time on these; null where they were not compared."""
    efficiency: Estimate | None = None
    """Parallel efficiency: 1 is perfect; null where it was not measured."""
    karp_flatt: Estimate | None = None
    """Share of the work that the devices do not divide; null without an efficiency."""

    @property
    def ratio(self) -> float:
        """How many times as many devices as the fewest."""
        return self.count / self.counts[0]

    @property
    def ideal(self) -> float:
        """The speedup over the fewest devices at an efficiency of 1."""
        return self.ratio if self.mode == "strong" else 1.0

    @property
    def is_judged(self) -> bool:
        """Whether this test is held to the required efficiency."""
        return self.required is not None and self.count == self.counts[-1]

    @property
    def is_base(self) -> bool:
        """Whether the others of the group are compared with this test."""
        return self.count == self.counts[0]


class ScalingPoint(Value, frozen=True, kw_only=True):
    """One number of devices of a curve."""

    count: AtLeastOne
    """Number of devices."""
    nodeid: str
    """Its test."""
    time: Seconds | None
    """Median seconds per call; null when it was not measured."""
    speedup: Estimate | None = None
    """Time on the fewest devices / time on these."""
    efficiency: Estimate | None = None
    """Parallel efficiency: 1 is perfect."""
    karp_flatt: Estimate | None = None
    """Share of the work that the devices do not divide."""


class ScalingCurve(Value, frozen=True, kw_only=True):
    """How a group of tests scales."""

    name: Text
    """Name of the group."""
    mode: Mode
    """Whether the problem stays the same, or grows with the number of devices."""
    required: Positive | None
    """Smallest parallel efficiency that passes on the most devices; null without one."""
    counts: tuple[int, ...]
    """Numbers of devices of all tests of the group, fewest first."""
    points: tuple[ScalingPoint, ...]
    """Numbers of devices that have a record, fewest first."""
    member: Member = "device"
    """What `counts` counts."""
    diagnosis: tuple[Diagnosis, ...] = ()
    """What holds the efficiency back."""
