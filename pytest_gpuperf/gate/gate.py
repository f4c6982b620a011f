"""From an earlier run and the options of a gate to comparisons, and to why a run as a whole fails."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from math import inf
from pathlib import Path

from msgspec.structs import replace

from pytest_gpuperf.analysis import looks, scaling
from pytest_gpuperf.analysis.looks import Limit
from pytest_gpuperf.gate import baseline, forecast, metric_values, regression, runs, text, what_fails
from pytest_gpuperf.gate.baseline import Comparer, GetCause, comparable_tests, is_comparable
from pytest_gpuperf.gate.pairs import Pair, PairComparer
from pytest_gpuperf.gate.remedy import Plan
from pytest_gpuperf.gate.runs import RunsComparer
from pytest_gpuperf.gate.what_fails import Rules
from pytest_gpuperf.model import units
from pytest_gpuperf.model.comparison import (
    AbsenceCause,
    Absent,
    Comparison,
    GateFailure,
    GateNote,
    GateOptions,
    GateResult,
    Outcome,
    Tolerance,
)
from pytest_gpuperf.model.demand import RunOptions
from pytest_gpuperf.model.metrics import TABLE, Metric
from pytest_gpuperf.model.nodeid import without_number
from pytest_gpuperf.model.record import Environment, Record, Report, Run

_NOT_VALID = "the regression check has no valid measurement: {}"
_STRICT = "{prefix}strict fails such a run"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCoverage:
    """What a run covered: `cause` returns why a test of the baseline did not run.

    `crashed` are tests, with the reason, that were lost with their process, `failed` those that failed
    themselves. `gate_requested` says that the command itself asks for the gate, not the ini file alone, and
    `flag_prefix` is how the options that remedies name begin.
    """

    cause: GetCause
    crashed: Mapping[str, str] = field(default_factory=dict)
    failed: Collection[str] = ()
    gate_requested: bool = True
    flag_prefix: str = "--gpuperf-"


@dataclass(frozen=True)
class Gate:
    """Compares a run with the one of `candidates` (newest first) that was made in conditions like its own.

    Where six or more were, at different times, it compares with the range over the six newest.
    `environment` returns that of the run; it is called when the devices are open. With `pairs` of processes
    the run is head's first one, the candidate base's first, and what decides is all of them. `plan` is the
    time of a test, where it is known.
    """

    options: GateOptions
    candidates: Sequence[Report]
    environment: Callable[[], Environment]
    pairs: Sequence[Pair] = ()
    plan: Plan | None = None

    @cached_property
    def base(self) -> Report | None:
        """The baseline; of several it is chosen at first use, which should be when the devices are open."""
        if len(self.candidates) < 2:
            return next(iter(self.candidates), None)
        return next(iter(self._of_same_conditions(self.candidates)), self.candidates[0])

    @cached_property
    def _earlier(self) -> Sequence[Report]:
        """The runs whose range decides, newest first; none where the baseline alone does."""
        if len(self.candidates) < runs.RUNS:
            return ()
        return runs.newest(self._of_same_conditions(self.candidates))

    def limits(self, nodeid: str) -> tuple[Limit, ...]:
        """Return the limits of a change, from which a test's speedup must be distinguished, too."""
        if self.base is None or nodeid not in self.base.records:
            return ()
        record = self.base.records[nodeid]
        metric: Metric = "efficiency" if record.scaling else "speedup"
        records = [each.records[nodeid] for each in self._earlier if nodeid in each.records]
        over = runs.range_over(records, metric)
        before, luck = metric_values.estimate_of(record, metric), _luck(record, metric)
        if over is not None:
            before, luck = runs.widened(over)
        if before is None:
            return ()
        if record.scaling:  # what is sampled is the speedup over fewer devices
            before = scaling.speedup_of(record.scaling, before)
        limits = []
        for tolerance in self.options.compared:
            if tolerance.metric == metric:
                lost, gained = regression.limits(before, tolerance, luck)
                limits.append(Limit(*lost, "below"))
                if self.options.improvements:
                    limits.append(Limit(*gained, "above"))
        # No sampling decides against a baseline too wide for its own value to lie outside of the limit.
        return tuple(
            limit
            for limit in limits
            if limit.low > 0 and limit.high < inf and not limit.low <= before.value <= limit.high
        )

    def forecast(
        self,
        selected: Iterable[str],
        typed: Sequence[str] = (),
        times: Mapping[str, float | None] | None = None,
    ) -> list[str]:
        """Return in lines what the check will not find of tests that are about to run.

        `times` has the `max_time` of their markers; where it is not known, it is that of the baseline.
        """
        if self._known_base is None or self.plan is None:
            return []
        known = forecast.times(self._known_base)
        tests = {each: (times or known)[each] for each in selected if each in known}
        return forecast.foresee(self._known_base, self.options.tolerances, self.plan, tests, typed)

    def forecast_of(self, made: Report, typed: Sequence[str] = ()) -> list[str]:
        """Return in lines what checks against the baseline that this run has made will not find."""
        return [] if self.plan is None else forecast.of_new(made, self.options.compared, self.plan, typed)

    @property
    def _known_base(self) -> Report | None:
        """The baseline of a check, where that is known before the devices are open."""
        is_known = self.options.is_gate and len(self.candidates) == 1
        return self.candidates[0] if is_known else None

    def with_comparisons(self, record: Record) -> Record:
        """Return a record with its comparisons with the baseline."""
        if self._comparer is None:
            return record
        return replace(record, comparisons=self._comparer.compare(record, self.options.compared))

    def failures(self, record: Record, options: RunOptions) -> list[str]:
        """Return why the regression check fails a test, whatever its own demand does.

        Something got worse, or could not be measured any more. Without a valid measurement a marked test is
        not green, in the baseline or not.
        """
        rules = Rules(gate=self.options, run=options)
        invalid = (
            None if record.source == "all" or record.expected_failure else what_fails.why_invalid(record)
        )
        if rules.enforced and invalid is not None:
            return [_NOT_VALID.format(invalid)]
        failed = [
            compared.reason or compared.outcome
            for compared in record.comparisons
            if rules.fails(compared.outcome) and not baseline.is_excused(record, compared, rules)
        ]
        before = self.base.record_of(record) if self.base else None
        if before is not None and rules.fails("not_measured"):
            missing = baseline.not_measured(before, record, self.options.compared)
            failed += [_NOT_VALID.format(each.reason) for each in missing]
        return failed

    def path_to_create(self, records: Sequence[Record]) -> Path | None:
        """Return where a run makes the baseline that was missing.

        In a folder it is missing, too, where all that exist were made in other conditions than those of a run
        that has something to compare with.
        """
        path = self.options.baseline if self.options.create else None
        if path is None or not self.candidates:
            return path
        if not path.is_dir() or not self._any_comparable(records):
            return None
        # The base is a candidate that was made in the same conditions, if there is one.
        has_match = self.base and baseline.has_same_conditions(self.base, self._environment)
        return None if has_match else path

    def allows_missing_gpu(self, records: Sequence[Record], *, has_gpu: bool) -> bool:
        """Return whether a run measured nothing for want of a GPU, and may do so."""
        return "no-gpu" in self.options.allow and not has_gpu and not self._any_comparable(records)

    def finish(self, run: Run, coverage: RunCoverage, options: RunOptions) -> GateResult | None:
        """Return the gate's result for a run as a whole; None where there is neither gate nor baseline."""
        if not self.options.is_gate and self.options.baseline is None:
            return None
        rules = Rules(gate=self.options, run=options, has_gpu=run.environment.gpu is not None)
        base = self.base
        found = baseline.absences(base, run, self.options.compared, coverage.cause, rules) if base else ()
        case = _Case(
            rules=rules,
            base=base,
            run=run,
            absent=tuple(found),
            coverage=coverage,
            of_pairs=bool(self.pairs),
            would_decide=self._would_decide,
        )
        known = comparable_tests(base.run, self.options.compared) if base else []
        return GateResult(
            baseline=base.name if base else None,
            started=base.run.started if base and not self.pairs else None,
            runs=len(self._earlier),
            tolerances=self.options.tolerances,
            failures=tuple(_failures(case)) if rules.enforced else (),
            notes=tuple(self._all_notes(case, base)) if base else (),
            baseline_tests=len(set(map(without_number, known))),
            absent=case.absent,
        )

    def _would_decide(self, record: Record, compared: Comparison) -> str | None:
        if self._comparer is None or self.pairs:  # all pairs lack the same: more of them
            return None
        tolerance = Tolerance(metric=compared.metric, share=compared.tolerance)
        return self._comparer.would_decide(record, tolerance)

    def _all_notes(self, case: "_Case", base: Report) -> Iterator[GateNote]:
        """Yield what could not be compared, and that the baseline is out of date, or how processes differ."""
        yield from _notes(case, base, self._only_in_older(case.run))
        alike = [] if self._earlier or self.pairs else self._of_same_conditions(self.candidates)
        if len(alike) >= runs.RUNS:
            apart = f"fewer than {runs.RUNS} of them began {runs.APART.seconds // 60} minutes apart"
            only = f"of {len(alike)} reports the newest alone decides: {apart}"
            yield GateNote(code="not_comparable", text=only)
        if isinstance(self._comparer, PairComparer):
            yield from self._comparer.notes(case.run.records)
        elif improved := case.outcomes["improved"]:
            beyond = f"{units.count(improved, 'comparison')} improved beyond the tolerance"
            stale = "the baseline is out of date; run gpuperf baseline update to lock in the gain"
            if self._earlier:
                stale = "as soon as the folder has newer reports, remove the older ones to lock in the gain"
            yield GateNote(code="baseline_stale", text=f"{beyond}: {stale}")

    def _any_comparable(self, records: Iterable[Record]) -> bool:
        return any(is_comparable(record, self.options.compared) for record in records)

    def _of_same_conditions(self, candidates: Iterable[Report]) -> list[Report]:
        return [each for each in candidates if baseline.has_same_conditions(each, self._environment)]

    def _only_in_older(self, run: Run) -> dict[str, str]:
        """Return the measured tests that the baseline lacks and an older one of its conditions has."""
        others = self._of_same_conditions(each for each in self.candidates if each is not self.base)
        compared = ((record.nodeid, each) for record in run.records for each in record.comparisons)
        new = [nodeid for nodeid, comparison in compared if comparison.outcome == "new"]
        return {
            nodeid: each.name
            for each in reversed(others)
            for nodeid in new
            if nodeid in each.records and self._any_comparable([each.records[nodeid]])
        }

    @cached_property
    def _environment(self) -> Environment:
        return self.environment()

    @cached_property
    def _comparer(self) -> Comparer | None:
        if self.base is None:
            return None
        if self.pairs:
            return PairComparer(baseline=self.base, environment=self._environment, pairs=self.pairs)
        if self._earlier:
            earlier = [Comparer(baseline=each, environment=self._environment) for each in self._earlier]
            return RunsComparer(
                baseline=self.base,
                environment=self._environment,
                plan=self.plan,
                earlier=earlier,
            )
        return Comparer(baseline=self.base, environment=self._environment, plan=self.plan)


def _luck(record: Record, metric: Metric) -> float:
    """Return by how much a loss beside this baseline must be beyond what the longest run misses by itself."""
    length = metric_values.length_of(record, metric)
    if length is None:
        return metric_values.look_at(record, metric).meets
    of_both, alone = looks.of_pair(length, looks.LONGEST).misses, looks.SHARPEST.misses
    return max(1.0, of_both / alone) if of_both and alone else 1.0


@dataclass(frozen=True, kw_only=True)
class _Case:
    """A run as the failures and notes below look at it; `absent` is what it lacks of the baseline."""

    rules: Rules
    base: Report | None
    run: Run
    absent: tuple[Absent, ...]
    coverage: RunCoverage
    would_decide: Callable[[Record, Comparison], str | None]
    of_pairs: bool = False

    @cached_property
    def outcomes(self) -> Counter[Outcome]:
        """How many comparisons have each outcome."""
        return Counter(each.outcome for record in self.run.records for each in record.comparisons)

    @property
    def compared(self) -> set[Outcome]:
        """The outcomes of comparisons with something."""
        return set(self.outcomes) - {"new"}

    @cached_property
    def selected(self) -> list[Record]:
        """The tests that were to run, and did."""
        return [record for record in self.run.records if not (record.is_deselected or record.is_cut_off)]

    @cached_property
    def measured(self) -> list[Record]:
        """The selected tests that have a metric of the gate."""
        return [each for each in self.selected if is_comparable(each, self.rules.gate.compared)]

    @property
    def is_left_out(self) -> bool:
        """Whether the command line left out all that a gate of the ini file is about, as `-k one_test` does.

        A command that asks for the gate itself contradicts itself by that, and fails.
        """
        return (
            not self.coverage.gate_requested
            and not self.rules.fails("narrowed")
            and not self.compared
            and {each.cause for each in self.absent} == {"narrowed"}
        )

    @property
    def decides_nothing(self) -> bool:
        """Whether there are comparisons, and every one of them is inconclusive."""
        return self.compared == {"inconclusive"}

    def is_forgotten(self, absent: Absent) -> bool:
        """Return whether a test is gone as this run, unlike the baseline's, asks for marked tests only."""
        before = self.base.records.get(absent.name) if self.base and absent.cause == "gone" else None
        is_unmarked = before is not None and before.source == "all"
        return is_unmarked and all(each.source != "all" for each in self.run.records) and not self.of_pairs

    def with_remedies(self, is_meant: Callable[[Comparison], bool]) -> dict[str, str | None]:
        """Return the tests of such comparisons, and what would decide them."""
        compared = ((record, each) for record in self.run.records for each in record.comparisons)
        return {record.nodeid: self.would_decide(record, each) for record, each in compared if is_meant(each)}


def _failures(case: _Case) -> Iterator[GateFailure]:
    """Yield why a run as a whole fails: what the gate did not measure, match or compare."""
    nothing = None if case.is_left_out else _nothing_measured(case) or _nothing_compared(case)
    if nothing is not None:
        yield nothing
    cut_off = [record.nodeid for record in case.run.records if record.is_cut_off]
    cut_off = cut_off or [each.name for each in case.absent if each.cause == "ended"]
    if cut_off and case.rules.fails("ended"):
        tests = units.count(len(cut_off), "test")
        told = f"the session ended before {tests} of the regression check could run: {cut_off[0]}"
        yield GateFailure(code="session_ended", text=told)
    yield from _tests_missing(case, has_no_values=nothing is not None and not case.measured)
    known = {record.nodeid for record in case.selected} | {*(case.base.records if case.base else ())}
    for nodeid, reason in case.coverage.crashed.items():
        if nodeid in known:
            told = f"{nodeid} was lost when its process crashed: {reason}"
            yield GateFailure(code="test_lost", text=told)


def _nothing_measured(case: _Case) -> GateFailure | None:
    no_gpu = not case.rules.has_gpu
    if case.measured or (no_gpu and "no-gpu" in case.rules.gate.allow):
        return None
    # The verdict falls on the GPU variant, and so does the reason that explains the most.
    verdicts = [each for each in case.selected if not (each.pairing and each.pairing.kind == "cpu")]
    ran = verdicts or case.selected
    if not ran:
        cause = "no test with a speedup marker ran"
    elif (first := next((record for record in ran if record.status != "skipped"), None)) is not None:
        cause = (
            f"no test has a metric of the regression check; {first.nodeid}: {first.reason or first.status}"
        )
    else:
        create = "; create the baseline on a machine with a GPU" if case.base is None else ""
        allow = f"; on a runner without a GPU pass {case.coverage.flag_prefix}allow=no-gpu"
        remedy = create + allow if no_gpu else ""
        cause = f"every test of the regression check was skipped ({len(ran)}): {ran[0].reason}{remedy}"
    return GateFailure(code="nothing_measured", text=f"nothing was measured: {cause}")


def _nothing_compared(case: _Case) -> GateFailure | None:
    if case.base is None or not case.measured:
        return None
    if case.decides_nothing and case.rules.gate.strict:
        doubts = case.with_remedies(lambda found: found.outcome == "inconclusive")
        decided_nothing = f"{_decided_nothing(case)}: {text.with_remedies(doubts)}"
        return GateFailure(code="nothing_compared", text=decided_nothing)
    blind = case.with_remedies(lambda found: found.shows_little) if case.rules.gate.strict else None
    if blind:
        return GateFailure(code="nothing_compared", text=text.blind(blind))
    if case.compared:
        return None
    name, tests = case.base.name, len(case.measured)
    if any(map(case.base.record_of, case.measured)):
        names = ", ".join(TABLE[each.metric].words for each in case.rules.gate.compared)
        cause = f"the baseline {name} and the measured tests ({tests}) share no {names}"
    else:
        cause = (
            f"no measured test ({tests} in all) is in the baseline {name}; node ids are relative "
            "to the rootdir: was it another one then, or were files moved?"
        )
    return GateFailure(code="nothing_compared", text=f"nothing was compared: {cause}")


def _tests_missing(case: _Case, *, has_no_values: bool) -> Iterator[GateFailure]:
    """Yield what the baseline holds and the run does not have, where no failed test says so."""
    told = {"ended", *(("skipped", "excused", "not_measured") if has_no_values else ())}  # by another failure
    by_cause: dict[tuple[AbsenceCause, bool], list[Absent]] = {}
    for each in case.absent:
        if case.rules.fails(each.cause) and each.name not in case.coverage.failed:
            by_cause.setdefault((each.cause, case.is_forgotten(each)), []).append(each)
    for (cause, forgotten), absents in by_cause.items():
        if cause not in told and case.base is not None:
            yield text.absence(
                cause,
                absents,
                case.run,
                case.base.name,
                prefix=case.coverage.flag_prefix,
                no_gpu=not case.rules.has_gpu,
                of_pairs=case.of_pairs,
                forgotten=forgotten,
            )


def _notes(case: _Case, base: Report, only_in_older: Mapping[str, str]) -> Iterator[GateNote]:
    """Yield what could not be compared."""
    strict = _STRICT.format(prefix=case.coverage.flag_prefix)
    if not base.run.complete:
        early = f"the run of the baseline {base.name} ended early: tests that it did not reach count as new"
        yield GateNote(code="not_comparable", text=early)
    if only_in_older:
        name, older = next(iter(only_in_older.items()))
        count = units.count(len(only_in_older), "test is", "tests are")
        lacks = f"as the newest baseline of the folder lacks what the older {older} has: {name}"
        yield GateNote(code="not_comparable", text=f"{count} compared with nothing, {lacks}")
    skipped = [each for each in case.absent if each.cause == "skipped"]
    if skipped and not case.rules.fails("skipped"):
        yield GateNote(code="tests_skipped", text=text.skipped(skipped))
    compared = [each for record in case.run.records for each in record.comparisons]
    if unlike := [each.differences for each in compared if each.differences]:
        differences = "; ".join(dict.fromkeys(chain.from_iterable(unlike)))
        count = units.count(len(unlike), "comparison")
        anew = f"delete {base.name} and create it again, or pass a folder, which has a baseline of each"
        remedy = f"; where that is for good, {anew}; {strict}"
        remedy = "" if case.rules.fails("not_comparable") else remedy
        yield GateNote(code="not_comparable", text=f"not comparable ({count}): {differences}{remedy}")
    if case.decides_nothing and case.rules.gate.is_gate and not case.rules.gate.strict:
        passed = f"{_decided_nothing(case)}; a regression may have passed; {strict}"
        yield GateNote(code="not_comparable", text=passed)


def _decided_nothing(case: _Case) -> str:
    count = units.count(case.outcomes["inconclusive"], "comparison")
    return f"the regression check decided nothing: every comparison is inconclusive ({count})"
