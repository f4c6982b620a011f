"""What a run leaves: a record for each marked test, thresholds, and the environment they depend on."""

from dataclasses import dataclass
from typing import Literal

from pytest_gpuperf.model.comparison import Commit, Comparison, GateResult
from pytest_gpuperf.model.demand import Demand, Family, Pairing, Selection, Source
from pytest_gpuperf.model.measurement import (
    DeviceInfo,
    Interference,
    Measurement,
    Memory,
    Parity,
    Speedup,
    Transfer,
)
from pytest_gpuperf.model.offload import Diagnosis, Offload, Threshold

__all__ = [
    "STATUSES",
    "Clocks",
    "Environment",
    "Merged",
    "Note",
    "NoteCode",
    "ReasonCode",
    "Record",
    "Run",
    "Status",
    "ThreadPool",
    "Verdict",
]

Status = Literal["passed", "failed", "inconclusive", "recorded", "skipped", "error"]
ReasonCode = Literal[
    # skipped
    "deselected",
    "session_ended",
    "no_gpu",
    "measuring_off",
    "call_too_long",
    "cpu_sibling_skipped",
    # inconclusive
    "not_enough_time",
    "not_enough_rounds",
    "interference",
    "gpu_throttled",
    # failed
    "speedup_outside_limits",
    "devices_disagree",
    "memory_above_limit",
    # error
    "memory_not_known",
    "out_of_memory",
    "gpu_lost",
]
"""Why a test has its status, where more than its own words say it; most errors have only those."""
NoteCode = Literal[
    # of the measurement
    "restarted",
    "interference",
    "dependent_samples",
    "gpu_throttled",
    "rounds_dropped",
    "traced",
    "not_exclusive",
    "aside_failed",
    # of the answers
    "devices_disagree",
    "parity_not_checked",
    "answers_not_compared_again",
    "answers_not_compared",
    # of what the test is compared with
    "one_device",
    "no_cpu_sibling",
    "no_gpu_sibling",
    "gpu_sibling_without_speedup",
    "different_machines",
]
STATUSES: tuple[Status, ...] = ("passed", "failed", "inconclusive", "recorded", "skipped", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the evidence says about the demand, and why."""

    status: Status
    reason: str | None
    reason_code: ReasonCode | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A doubt about a test's numbers, or what to know of them: a code for programs, a text for readers."""

    code: NoteCode
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Everything known about one speedup test; the reason is None only when passed or recorded.

    `interference` is what disturbed the CPU's samples, whatever the verdict made of it.
    `turn_wait` is the time (seconds) spent waiting while other processes of the machine measured, `reruns`
    how often the test had been run before.
    """

    nodeid: str
    status: Status
    reason: str | None
    reason_code: ReasonCode | None = None
    demand: Demand
    alpha: float
    scope: Literal["body", "call"] | None = None
    family: Family | None = None
    cpu: Measurement | None = None
    gpu: Measurement | None = None
    speedup: Speedup | None = None
    parity: Parity | None = None
    transfer: Transfer | None = None
    offload: Offload | None = None
    memory: Memory | None = None
    diagnosis: tuple[Diagnosis, ...] = ()
    dropped_rounds: int = 0
    parity_elapsed: float | None = None
    rounds_elapsed: float | None = None
    elapsed: float | None = None
    interference: Interference | None = None
    notes: tuple[Note, ...] = ()
    pairing: Pairing | None = None
    source: Source = "marker"
    reruns: int = 0
    turn_wait: float | None = None
    comparisons: tuple[Comparison, ...] = ()

    @property
    def is_deselected(self) -> bool:
        """Whether the test was not to run at all."""
        return self.reason_code == "deselected"

    @property
    def is_cut_off(self) -> bool:
        """Whether the session ended before the test's turn came."""
        return self.reason_code == "session_ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadPool:
    """A library's pool of threads, and how many of them it may use."""

    library: str
    api: str
    threads: int
    version: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """The state of a GPU at one moment: clocks in MHz, temperature in degrees Celsius, power in watts.

    `throttle` names the reasons for which it ran slower than it could.
    """

    sm_mhz: int | None
    memory_mhz: int | None
    celsius: int | None
    watts: float | None
    throttle: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What the numbers depend on."""

    host: dict[str, str | int | None]
    cpu: dict[str, str | int | float | None]
    gpu: DeviceInfo | None
    gpu_reason: str | None
    python: str
    packages: dict[str, str]
    thread_pools: tuple[ThreadPool, ...] = ()
    variables: dict[str, str] | None = None
    clocks_at_start: Clocks | None = None
    clocks_at_end: Clocks | None = None
    clocks_reason: str | None = None

    @property
    def usable_processors(self) -> float | None:
        """How many processors' worth of time the run could get; None where that is not reported."""
        cpu = self.cpu
        limits = [limit for limit in (cpu.get("usable") or cpu.get("logical"), cpu.get("quota")) if limit]
        return min(map(float, limits), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The reports that were joined, and how their environments differ; None when the hosts cannot be told."""

    reports: tuple[str, ...]
    hosts_differ: bool | None
    differences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run's records, in the order in which the tests finished."""

    environment: Environment
    started: str
    records: tuple[Record, ...] = ()
    thresholds: tuple[Threshold, ...] = ()
    cost_ratio: float | None = None
    complete: bool = True
    selections: tuple[Selection, ...] = ()
    merged: Merged | None = None
    commit: Commit | None = None
    gate: GateResult | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the run ended early, before it measured anything."""
        return not self.complete and not any(record.cpu or record.gpu for record in self.records)

    @property
    def summary(self) -> dict[Status, int]:
        """How many records have each status, every status named."""
        counts = dict.fromkeys(STATUSES, 0)
        for record in self.records:
            counts[record.status] += 1
        return counts
