"""From the two sides of one test, each measured in a run of its own, to its record."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import repeat
from math import inf

from pytest_gpuperf.analysis import diagnosis, estimation, noise
from pytest_gpuperf.analysis.judgement import Judgement, judge_offline
from pytest_gpuperf.analysis.offload import OffloadInput
from pytest_gpuperf.gate import fingerprint
from pytest_gpuperf.model.demand import Demand, Kind, Plan
from pytest_gpuperf.model.measurement import Interference, Measurement, Memory, Round, Speedup, Transfer
from pytest_gpuperf.model.record import Environment, Note, Record, Status, Verdict

__all__ = ["OneDeviceResult", "alone", "join"]

_APART = Note(
    code="answers_not_compared", text="the answers were not compared: the two sides ran in two runs"
)
_UNTOLD = "the report does not tell how much memory a call holds"
_ENDED: dict[Status, tuple[Status, str]] = {  # how a side ended, and what that makes of the whole
    "skipped": ("skipped", "was skipped"),
    "inconclusive": ("inconclusive", "is in doubt"),
}
_FAILED: tuple[Status, str] = ("error", "failed")
_SAME_IDS = "a test has to have the same node id in both runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class OneDeviceResult:
    """One side of a test that was measured, with the report and the environment that it is from."""

    kind: Kind
    report: str
    record: Record
    measurement: Measurement
    environment: Environment

    def sampled(self, demand: Demand) -> Sequence[float]:
        """Return the samples that the demand is about, in order."""
        return self.measurement.waited_for if demand.latency else self.measurement.samples


def join(cpu: OneDeviceResult, gpu: OneDeviceResult, cost_ratio: float) -> Record:
    """Return the record of a test whose sides ran apart; one without a speedup says why."""
    record = _side_by_side(cpu, gpu)
    found = _unusable(cpu) or _unusable(gpu) or _disagreement(cpu, gpu) or _unpaired(cpu, gpu)
    if found is not None:
        return replace(record, status=found.status, reason=found.reason, reason_code=found.reason_code)
    plan = Plan(alpha=record.alpha, cost_ratio=cost_ratio)
    rounds = _rounds(cpu, gpu, record)
    speedup = estimation.gated(rounds, record.demand, plan, "siblings")
    if speedup is None:
        raise AssertionError("sides that can be paired have a round")
    interference = _interference(cpu, record.demand)
    judged = _judged(record, cpu, gpu, rounds, speedup, plan, interference)
    joined = replace(
        record,
        status=judged.verdict.status,
        reason=judged.verdict.reason,
        reason_code=judged.verdict.reason_code,
        interference=interference,
        speedup=speedup,
        offload=judged.offload,
        notes=tuple(dict.fromkeys([*_apart(cpu, gpu), *record.notes, *judged.notes])),
    )
    return _diagnosed(joined, cpu.environment)


def alone(side: OneDeviceResult, other: Record | None) -> Record:
    """Return the record of a side that nothing can be set beside; `other` says why, if anything does."""
    absent = "GPU" if side.kind == "cpu" else "CPU"
    found = _unusable(side)
    if found is None and other is not None:
        found = _ending(absent, other.status, other.reason)
    if found is None:
        found = Verdict(status="error", reason=f"no report has its {absent} side; {_SAME_IDS}")
    return replace(side.record, status=found.status, reason=found.reason, reason_code=found.reason_code)


def _side_by_side(cpu: OneDeviceResult, gpu: OneDeviceResult) -> Record:
    """Return both sides in one record, with the GPU's demand unless only the CPU's asks for something."""
    here, there = cpu.record, gpu.record
    return replace(
        there,
        demand=here.demand if there.demand.bare else there.demand,
        family=there.family or here.family,
        cpu=cpu.measurement,
        gpu=gpu.measurement,
        parity=None,
        offload=None,
        diagnosis=(),
        dropped_rounds=here.dropped_rounds + there.dropped_rounds,
        parity_elapsed=None,
        rounds_elapsed=_sum(here.rounds_elapsed, there.rounds_elapsed),
        elapsed=_sum(here.elapsed, there.elapsed),
        interference=here.interference,
        notes=tuple(dict.fromkeys(note for note in (*here.notes, *there.notes) if note.code != "one_device")),
        pairing=there.pairing and replace(there.pairing, partner=here.nodeid),
        reruns=max(here.reruns, there.reruns),
        turn_wait=_sum(here.turn_wait, there.turn_wait),
    )


def _unusable(side: OneDeviceResult) -> Verdict | None:
    """Return what a side's own end makes of the whole, unless it was measured as it should be.

    The only thing that one side can be judged by is its memory, and that is judged again.
    """
    record = side.record
    of_memory = record.reason_code in ("memory_above_limit", "memory_not_known")
    if of_memory or record.status in ("recorded", "passed"):
        return None
    return _ending(side.kind.upper(), record.status, record.reason)


def _ending(side: str, status: Status, reason: str | None) -> Verdict:
    whole, words = _ENDED.get(status, _FAILED)
    return Verdict(status=whole, reason=f"its {side} side {words}: {reason}")


def _disagreement(cpu: OneDeviceResult, gpu: OneDeviceResult) -> Verdict | None:
    """Return that the sides are not of the same test, or were not asked for the same."""
    here, there = _asked(cpu.record), _asked(gpu.record)
    names = [name for name in {**here, **there} if here.get(name) != there.get(name)]
    if not names:
        return None
    on_cpu, on_gpu = (", ".join(f"{name}={asked.get(name)}" for name in names) for asked in (here, there))
    reason = f"the two sides differ in what they ask: {on_cpu} in {cpu.report}, {on_gpu} in {gpu.report}"
    return Verdict(status="error", reason=reason)


def _asked(record: Record) -> dict[str, object]:
    """Return the demand, and what else must be the same for two sides to be of one test."""
    family = {} if record.family is None else asdict(record.family)
    return {**asdict(record.demand), "alpha": record.alpha, "scope": record.scope, **family}


def _unpaired(cpu: OneDeviceResult, gpu: OneDeviceResult) -> Verdict | None:
    """Return why the samples cannot be paired, if they cannot."""
    demand, transfer = gpu.record.demand, gpu.record.transfer
    for side in (cpu, gpu):
        samples = side.sampled(demand)
        if not samples:
            kind = " of calls that are waited for" if demand.latency else ""
            return _error(f"its {side.kind.upper()} side left no samples{kind}")
        if not all(0 < sample < inf for sample in samples):
            return _error(f"its {side.kind.upper()} side has samples that are no times")
    if demand.transfer == "never" or (transfer and (transfer.bytes == 0 or transfer.samples)):
        return None
    why = f": {transfer.reason}" if transfer and transfer.reason else ""
    return _error(f"transfer={demand.transfer!r} needs the copies' times, and its GPU side has none{why}")


def _error(reason: str) -> Verdict:
    return Verdict(status="error", reason=reason)


def _rounds(cpu: OneDeviceResult, gpu: OneDeviceResult, record: Record) -> list[Round]:
    """Pair the samples in order, and with copies where the demand includes them."""
    samples = (side.sampled(record.demand) for side in (cpu, gpu))
    moved = record.demand.transfer != "never" and record.transfer and record.transfer.samples
    triples = zip(*samples, moved or repeat(0.0), strict=False)
    return [Round(cpu=here, gpu=there, copies=copies) for here, there, copies in triples]


def _judged(
    record: Record,
    cpu: OneDeviceResult,
    gpu: OneDeviceResult,
    rounds: Sequence[Round],
    speedup: Speedup,
    plan: Plan,
    interference: Interference | None,
) -> Judgement:
    seen = OffloadInput(
        demand=record.demand,
        regime="body" if record.scope == "body" else record.demand.transfer,
        cpu=cpu.measurement,
        gpu=gpu.measurement,
        rounds=rounds,
        speedup=speedup,
        copies=_moved(record.transfer)[: len(rounds)],
        transfer=record.transfer,
    )
    dropped = gpu.record.dropped_rounds
    return judge_offline(
        seen,
        plan,
        memory=_memory(record),
        interference=interference,
        throttled=noise.throttled(dropped, dropped + len(gpu.sampled(record.demand))),
    )


def _moved(transfer: Transfer | None) -> list[float]:
    return transfer.samples if transfer else []


def _interference(cpu: OneDeviceResult, demand: Demand) -> Interference | None:
    """Return what disturbed the CPU most, as its samples tell or as it was known then.

    The times of blocks before the samples are not in a report, nor how single calls had to wait.
    """
    measured, samples = cpu.measurement, cpu.sampled(demand)
    in_blocks = samples is measured.samples
    found = noise.find(
        samples,
        block_calls=measured.block_calls if in_blocks else 1,
        waited=(measured.waited or 0.0) if in_blocks else 0.0,
        fastest=min(samples),
    )
    return noise.worst(found, cpu.record.interference)


def _memory(record: Record) -> Memory:
    return record.memory or Memory(peak=None, reason=_UNTOLD)


def _apart(cpu: OneDeviceResult, gpu: OneDeviceResult) -> list[Note]:
    """Return what to know about a speedup of two runs."""
    surveyed = (cpu.environment, gpu.environment)
    notes = [_APART] if gpu.record.demand.parity else []
    if fingerprint.hosts_differ(surveyed):
        names = " and ".join(fingerprint.machine_names(surveyed))
        text = f"the two sides ran on different machines, {names}: the speedup is of two machines"
        notes.append(Note(code="different_machines", text=text))
    return notes


def _diagnosed(record: Record, surveyed: Environment) -> Record:
    """Return a record with what holds its speedup back, on the machine of its CPU side."""
    emulated = any(side and side.device.emulated for side in (record.cpu, record.gpu))
    usable = None if emulated else surveyed.usable_processors
    threads = None if emulated else max((pool.threads for pool in surveyed.thread_pools), default=None)
    return replace(record, diagnosis=diagnosis.find(record, usable=usable, pool_threads=threads))


def _sum(*seconds: float | None) -> float | None:
    """Return the sum of the times that are known, None of none."""
    known = [each for each in seconds if each is not None]
    return sum(known) if known else None
