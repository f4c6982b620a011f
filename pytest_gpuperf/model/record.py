"""What a run leaves: a record for each marked test, thresholds, and the environment they depend on."""

from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property
from typing import Literal, cast

from msgspec.structs import force_setattr

from pytest_gpuperf.model.comparison import Commit, Comparison, GateResult, LeftOutBy
from pytest_gpuperf.model.demand import Demand, Kind, Pairing, SizeGroup, Source, UnknownValue
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.launch import Launch
from pytest_gpuperf.model.measurement import (
    DeviceInfo,
    Interference,
    Measurement,
    Memory,
    ResultCheck,
    Speedup,
    Transfer,
)
from pytest_gpuperf.model.nodeid import without_number
from pytest_gpuperf.model.offload import Diagnosis, Offload, Threshold
from pytest_gpuperf.model.plain_text import keep_plain
from pytest_gpuperf.model.roof import Roof
from pytest_gpuperf.model.scaling import Scaling, ScalingCurve
from pytest_gpuperf.model.value import (
    Count,
    NonNegative,
    Positive,
    Said,
    Seconds,
    Value,
)

Status = Literal["passed", "failed", "inconclusive", "recorded", "skipped", "error"]
VerdictCode = Status | Literal["regressed", "failed_expected", "error_expected", "regressed_expected"]
"""How a test ended with its comparisons; an expected failure is one that its `xfail` marker expects."""
ReasonCode = Literal[
    # skipped
    "deselected",
    "session_ended",
    "no_gpu",
    "error_on_gpu",
    "too_few_gpus",
    "too_few_ranks",
    "no_library",
    "call_too_long",
    "cpu_variant_skipped",
    # inconclusive
    "not_enough_time",
    "limit_too_close",
    "interference",
    "turns_differ",
    "gpu_throttled",
    "work_not_seen",
    # failed
    "speedup_outside_limits",
    "efficiency_below_limit",
    "devices_disagree",
    "memory_above_limit",
    "share_below_limit",
    # error
    "memory_not_known",
    "out_of_memory",
    "gpu_lost",
]
"""Why a test has its status, where more than its own words say it; most errors have only those."""
NoteCode = Literal[
    # of the measurement
    "interference",
    "turns_differ",
    "not_exclusive",
    "gpu_throttled",
    "slowed_by_settings",
    "long_warm_up",
    "not_enough_time",
    "overlap_not_measured",
    "recompiles",
    "not_on_device",
    "aside_failed",
    "totals_differ",
    # of the results
    "devices_disagree",
    "results_not_compared",
    "degenerate_results",
    "work_in_doubt",
    "faster_than_roof",
    # of the test
    "check_the_test",
    "no_partner",
    "ran_more_than_once",
]
STATUSES: tuple[Status, ...] = ("passed", "failed", "inconclusive", "recorded", "skipped", "error")


class Verdict(Value, frozen=True, kw_only=True):
    """What the rounds say about the demand, and why."""

    status: Status
    reason: str | None
    reason_code: ReasonCode | None = None

    def __post_init__(self) -> None:
        """Keep what a test or a device says from steering a terminal, and short."""
        keep_plain(self, "reason")


class Note(Said, frozen=True, kw_only=True):
    """A doubt about a test's numbers, or what to know of them."""

    code: NoteCode
    """Its kind."""


class Record(Value, frozen=True, kw_only=True):
    """Everything known about one speedup test."""

    nodeid: str
    """Node id; outside of pytest's root folder with the module's name in the place of the file. That of a
    second result ends in `#2`."""
    status: Status
    """How the test ended."""
    reason: str | None
    """Why, as a sentence; null for passed and recorded, and only for them."""
    reason_code: ReasonCode | None = None
    """Kind of the reason; null without one, and for one without a code."""
    expected_failure: bool = False
    """Whether it failed as its `xfail` expects."""
    demand: Demand
    """What the marker requires."""
    scope: Literal["body", "call"] | None = None
    """What was timed: the test's body, or the callable that it returned; null when nothing ran."""
    size_group: SizeGroup | None = None
    """Tests that differ in one size only; null where no threshold is asked for."""
    cpu: Measurement | None = None
    """Times on the CPU; null when it was not measured."""
    gpu: Measurement | None = None
    """Times on the GPU; null when it was not measured."""
    speedup: Speedup | None = None
    """What the demand is about; null when it was not measured."""
    check: ResultCheck | None = None
    """Comparison of the two results; null when nothing was measured."""
    transfer: Transfer | None = None
    """Copies between host and device; null when nothing was measured."""
    offload: Offload | None = None
    """Whether moving the work to the GPU pays; null without a speedup."""
    scaling: Scaling | None = None
    """Comparison with fewer devices; null for a test of speedup."""
    roof: Roof | None = None
    """Bytes that a call moves, and how near each device is to its roof; null when nothing was measured, and
    for a test of scaling."""
    memory: Memory | None = None
    """Memory held on the device; null when the GPU was not measured."""
    diagnosis: tuple[Diagnosis, ...] = ()
    """What holds the speedup back, or flatters it."""
    dropped_rounds: Count = 0
    """Rounds that do not count because the GPU was slowed down."""
    check_elapsed: Seconds | None = None
    """Seconds of comparing the results."""
    rounds_elapsed: Seconds | None = None
    """Seconds of sampling, of two variants or runs the fewer; a round in which the machine stood still counts
    for ten typical ones, or 0.5 s if that is more."""
    elapsed: Seconds | None = None
    """Seconds of the whole measurement."""
    interference: Interference | None = None
    """What disturbed the samples of the CPU; null where nothing did."""
    gpu_interference: Interference | None = None
    """What disturbed the samples of an emulated GPU; null where nothing did."""
    restart_reason: str | None = None
    """Why earlier samples were discarded; null when there was no restart."""
    notes: tuple[Note, ...] = ()
    """Doubts about the numbers."""
    pairing: Pairing | None = None
    """Device and partner; null where one test runs on both devices."""
    source: Source = "marker"
    """What asked for the measurement: a marker, or `--gpuperf-all`."""
    reruns: Count = 0
    """How often a plugin had rerun the failed test before."""
    turn_wait: Seconds | None = None
    """Seconds of waiting while other processes measured; null when there was no wait."""
    comparisons: tuple[Comparison, ...] = ()
    """One with the baseline for each metric."""

    def __post_init__(self) -> None:
        """Keep what a test or a device says from steering a terminal, and short."""
        keep_plain(self, "reason", "restart_reason")

    @property
    def first_call(self) -> float | None:
        """The seconds of the process's first call: on the GPU, or on the CPU where there is no GPU."""
        return measured.first_call if (measured := self.gpu or self.cpu) else None

    def measurement(self, kind: Kind) -> Measurement | None:
        """Return the times on one kind of device; None when it was not measured."""
        return self.cpu if kind == "cpu" else self.gpu

    @property
    def is_bare(self) -> bool:
        """Whether nothing is required of the test: it never fails."""
        return self.demand.bare and not (self.scaling and self.scaling.required is not None)

    @property
    def is_regressed(self) -> bool:
        """Whether any metric got worse than the baseline allows."""
        return any(comparison.outcome == "regressed" for comparison in self.comparisons)

    @property
    def is_expected_failure(self) -> bool:
        """Whether the test failed, or regressed, as its `xfail` marker expects."""
        return self.expected_failure and (self.status in ("failed", "error") or self.is_regressed)

    @property
    def verdict(self) -> VerdictCode:
        """How the test ended: its status, or that it regressed, and whether such a failure was expected."""
        code: VerdictCode = "regressed" if self.is_regressed else self.status
        return cast("VerdictCode", f"{code}_expected") if self.is_expected_failure else code

    @property
    def is_deselected(self) -> bool:
        """Whether the test was not to run at all."""
        return self.reason_code == "deselected"

    @property
    def is_cut_off(self) -> bool:
        """Whether the session ended before the test's turn came."""
        return self.reason_code == "session_ended"

    @property
    def ran_without_gpu(self) -> bool:
        """Whether the test ran to its end, as it would without the marker, and only lacked a GPU."""
        is_on_cpu = self.pairing is not None and self.pairing.kind == "cpu"
        return is_on_cpu and self.reason_code in ("no_gpu", "error_on_gpu")

    @property
    def gpu_noun(self) -> str:
        """What a sentence calls the device that is compared with the CPU."""
        return self.gpu.device.noun if self.gpu else "GPU"

    @property
    def is_emulated(self) -> bool:
        """Whether the speedup is not one of a GPU."""
        return self.gpu is not None and self.gpu.device.emulated


class ThreadPool(Value, frozen=True, kw_only=True):
    """The thread pool of a library."""

    library: str
    """Name."""
    api: str
    """Interface: blas, openmp."""
    threads: Count
    """Threads that it may use."""
    version: str | None
    """Version."""


class Clocks(Value, frozen=True, kw_only=True):
    """The state of a GPU at one moment."""

    sm_mhz: Count | None
    """Clock of the multiprocessors."""
    memory_mhz: Count | None
    """Clock of the memory."""
    celsius: int | None
    """Temperature, in degrees."""
    watts: NonNegative | None
    """Power."""
    throttle: tuple[str, ...]
    """Why it ran slower than it could."""


class Environment(Value, frozen=True, kw_only=True):
    """What the numbers depend on."""

    host: dict[str, str | int | None]
    """Name, system, machine, and bytes of memory."""
    cpu: dict[str, str | int | float | None]
    """Model, logical and usable processors, quota in processors, frequency governor."""
    gpu: DeviceInfo | None
    """GPU that the run used; null when there was none."""
    gpu_reason: str | None
    """Why there is no GPU; null when there is one, or none was asked for."""
    python: str
    """Version of Python."""
    packages: dict[str, str]
    """Versions of the packages that matter, by distribution."""
    thread_pools: tuple[ThreadPool, ...] = ()
    """Thread pools of the libraries that were loaded."""
    variables: dict[str, str] | None = None
    """Environment variables that change threads, devices or precision, where set; what looks like a password
    or a token is `***`."""
    clocks_at_start: Clocks | None = None
    """State of the GPU before the measurements; null where it is not known."""
    clocks_at_end: Clocks | None = None
    """State of the GPU after the measurements; null where it is not known."""
    clocks_reason: str | None = None
    """Why the clocks are null."""

    def __post_init__(self) -> None:
        """Keep what a backend says from steering a terminal, and short."""
        keep_plain(self, "gpu_reason", "clocks_reason")

    @property
    def usable_processors(self) -> float | None:
        """How many processors' worth of time the run could get; None where that is not reported."""
        cpu = self.cpu
        limits = (cpu.get("usable") or cpu.get("logical"), cpu.get("quota"))
        return min((float(each) for each in limits if each and isinstance(each, float | int)), default=None)


class Summary(Value, frozen=True, kw_only=True):
    """How many records have each status."""

    passed: Count = 0
    """Number of records that passed."""
    failed: Count = 0
    """Number of records that failed."""
    inconclusive: Count = 0
    """Number of records that are inconclusive."""
    recorded: Count = 0
    """Number of records that are recorded only, without a requirement."""
    skipped: Count = 0
    """Number of records that were skipped."""
    error: Count = 0
    """Number of records that are errors."""


class Run(Value, frozen=True, kw_only=True):
    """The speedups of GPU over CPU in one pytest run.

    Times are in seconds, sizes in bytes; null means that a value could not be had.
    """

    schema_version: Literal["1.0"] = "1.0"
    """Version of the schema."""
    started: str
    """Start of the run, ISO 8601 with offset."""
    complete: bool = True
    """False where the run was interrupted."""
    cost_ratio: Positive | None = None
    """Hourly cost of a GPU machine over that of a CPU machine; null where it was not given."""
    arguments: tuple[str, ...] = ()
    """Options of pytest-gpuperf on the command line, paths relative to the root folder; not those that name
    outputs."""
    narrowed_by: tuple[LeftOutBy, ...] = ()
    """Options of pytest that the user typed and that leave tests out; `paths` are those given to pytest, or
    its working folder."""
    environment: Environment
    """What the numbers depend on."""
    records: tuple[Record, ...] = ()
    """One for every marked test that was collected, in the order in which they finished."""
    thresholds: tuple[Threshold, ...] = ()
    """One for each group of sizes."""
    scalings: tuple[ScalingCurve, ...] = ()
    """One for each group of tests that differ in the number of devices only."""
    unmarked: Count | None = None
    """Number of unmarked tests that `--gpuperf-all` timed; null without that option."""
    unknown_values: tuple[UnknownValue, ...] = ()
    """Values of device parameters that no backend knows."""
    commit: Commit | None = None
    """The commit that was measured; null where the run was in no repository, or it is not known."""
    job: str | None = None
    """Address of the run's page in CI; null outside of a CI that names it."""
    launch: Launch | None = None
    """The launcher of the run's processes, of which rank 0 measured; null where there was one process, or
    pytest-xdist's workers."""
    gate: GateResult | None = None
    """The regression check; null where nothing was compared with an earlier run."""
    summary: Summary = Summary()
    """How many records have each status."""

    def __post_init__(self) -> None:
        """Derive what is written to the report and not read from it."""
        counts: Counter[str] = Counter(record.status for record in self.records)
        force_setattr(self, "summary", Summary(**counts))

    @property
    def is_empty(self) -> bool:
        """Whether the run ended early, before it measured anything."""
        return not self.complete and not any(record.cpu or record.gpu for record in self.records)

    @property
    def start(self) -> datetime:
        """When it began, in UTC; raises GpuPerfError where `started` is no time."""
        with suppress(ValueError, OverflowError):
            time = datetime.fromisoformat(self.started)
            if time.tzinfo is not None:
                return time.astimezone(UTC)
        wanted = "not a time with an offset such as 2026-01-01T00:00:00+00:00"
        raise GpuPerfError(f"$.started is {self.started[:80]!r}, which is {wanted}")


class Report(Value, frozen=True, kw_only=True, dict=True):
    """A run, and the name of the file that it was read from."""

    name: str
    run: Run

    @cached_property
    def records(self) -> dict[str, Record]:
        """The records by node id."""
        return {record.nodeid: record for record in self.run.records}

    def record_of(self, now: Record) -> Record | None:
        """Return the record of the same test; each result of one that ran several times is compared.

        It is the result of the same number, if that was measured, or else the first one that was.
        """
        own, test = self.records.get(now.nodeid), without_number(now.nodeid)
        if own is not None and (own.cpu or own.gpu):
            return own
        return self._measured.get(test) or own or self.records.get(test)

    @cached_property
    def _measured(self) -> dict[str, Record]:
        found = (record for record in reversed(self.run.records) if record.cpu or record.gpu)
        return {without_number(record.nodeid): record for record in found}

    @cached_property
    def thresholds(self) -> dict[str, Threshold]:
        """The thresholds by name."""
        return {threshold.name: threshold for threshold in self.run.thresholds}
