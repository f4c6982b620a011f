"""Baseline: an earlier run's records and a later one's, matched by their tests and compared in words."""

from math import inf

import factories
import pytest
from cases import for_each
from factories import (
    CPU,
    GATE,
    GPU,
    HERE,
    LASTED,
    base_of,
    measured,
    offload,
    recorded,
    run_of,
    scaled,
    speedup,
    speedup_within,
    within,
)
from golden import assert_golden
from msgspec.structs import replace

from pytest_gpuperf.gate.gate import Gate, RunCoverage
from pytest_gpuperf.model.comparison import GateOptions
from pytest_gpuperf.model.demand import Demand, Pairing, RunOptions, SizeGroup
from pytest_gpuperf.model.measurement import (
    Estimate,
    Interference,
    Memory,
    ResultCheck,
)
from pytest_gpuperf.model.metrics import METRICS
from pytest_gpuperf.model.record import Environment, Record, Report

TEST = "tests/test_fft.py::test_fft[64]"
UNSTABLE = Interference(kind="unstable_cpu_times", own_share=0.2, median=0.5, fastest=0.1)


def record(value=10.0, **changes) -> Record:
    """Return a record of which each metric, also the CPU's time, is as good as this value says."""
    known = {
        "nodeid": TEST,
        "offload": offload(always=speedup_within(value / 2, 0.04), latency=speedup_within(value / 4, 0.04)),
        "cpu": measured(CPU, 0.1 / value),
        "memory": Memory(peak=round(1e6 / value)),
    }
    return recorded(value=value, **{**known, **changes})


def skipped(**changes) -> Record:
    return factories.skipped(**{"nodeid": TEST, "reason": "no GPU", **changes})


OF_SPEEDUP = [metric for metric in METRICS if metric != "efficiency"]


def compare(now: Record, here: Environment, base: Report, tolerances):
    held = Gate(GateOptions(tolerances=tuple(tolerances)), [base], lambda: here)
    return held.with_comparisons(now).comparisons


def compared(now: Record, *before: Record, metric="speedup", here=HERE):
    """Return the one comparison of a record with a baseline."""
    (found,) = compare(now, here, base_of(*before), [within(metric=metric)])
    return found


# One metric after the other


def test_a_speedup_is_compared_with_the_baselines():
    found = compared(record(8.0), record())
    assert ("regressed", "speedup", 0.1) == (found.outcome, found.metric, found.tolerance)
    assert found.baseline == Estimate(value=10.0, low=9.6, high=10.4)
    assert found.found == Estimate(value=8.0, low=8.0 * 0.96, high=8.0 * 1.04)
    assert (0.8, ()) == (found.ratio.value, found.differences)
    assert compared(record(), record()).reason is None


def test_each_metric_is_compared_in_its_own_unit_and_a_change_in_percent_or_as_a_factor():
    found = [compared(record(now), record(), metric=metric) for now in (8.0, 13.0) for metric in OF_SPEEDUP]
    found += [compared(record(now), record()) for now in (99.0, 100.0)]
    found += [
        compared(record(speedup=speedup(10.0, low, high)), record()) for low, high in ((5, 15), (5, None))
    ]
    nothing, some = (record(memory=Memory(peak=peak)) for peak in (0, 5))
    found.append(compared(some, nothing, metric="memory"))
    assert_golden("words/comparisons.txt", "".join(f"{each.reason}\n" for each in found))


def test_a_scaling_test_is_compared_by_its_efficiency():
    before, now = (replace(scaled(4, each), rounds_elapsed=LASTED) for each in (0.9, 0.4))
    worse = compared(now, before, metric="efficiency")
    assert worse.outcome == "regressed"
    said = "parallel efficiency got worse: 0.40 [0.36, 0.44], baseline 0.90 [0.81, 0.99]"
    assert worse.reason.startswith(said)


@for_each("change", [{"mode": "weak"}, {"counts": (2, 4)}])
def test_another_mode_or_other_fewest_devices_are_not_compared(change):
    before = scaled(4, 0.9)
    now = replace(before, scaling=replace(before.scaling, **change))
    found = compared(now, before, metric="efficiency")
    assert found.outcome == "not_comparable"
    assert any(difference.startswith("scaling: strong from 1 device") for difference in found.differences)


OF_PAIR = Pairing(kind="gpu", library="cupy", partner="tests/test_fft.py::test_fft[numpy]")
ON_CPU = record(gpu=None, speedup=None, offload=None, memory=None)


@for_each(
    ("expected", "now"),
    [
        (["speedup", "gpu_time"], record(pairing=OF_PAIR)),  # its CPU variant has the CPU's
        (["speedup", "cpu_time", "gpu_time"], record(pairing=replace(OF_PAIR, partner=None))),
        (["cpu_time"], replace(ON_CPU, pairing=Pairing(kind="cpu", library="numpy"))),
    ],
)
def test_a_variant_is_compared_where_its_times_were_taken(expected, now):
    asked = [within(metric=metric) for metric in ("speedup", "cpu_time", "gpu_time")]
    found = compare(now, HERE, base_of(now), asked)
    assert expected == [each.metric for each in found]


# What has nothing to compare with

BROKE = record(status="error", reason="it broke")


@for_each(
    ("expected", "before", "metric"),
    [
        ("does not have this test", record(nodeid="another"), "speedup"),
        ("has no speedup of this test (skipped: no GPU)", skipped(), "speedup"),
        ("has no GPU time of this test (skipped: no GPU)", skipped(), "gpu_time"),
        ("has no speedup with copies of this test", record(offload=None), "with_copies"),
        ("has no memory of this test", record(memory=Memory(peak=None, reason="untold")), "memory"),
        ("has no speedup of this test (error: it broke)", BROKE, "speedup"),
    ],
)
def test_what_the_baseline_does_not_have_is_new(expected, before, metric):
    found = compared(record(), before, metric=metric)
    reason = f"nothing to compare with: the baseline base.json {expected}"
    assert ("new", reason) == (found.outcome, found.reason)


@for_each("before", [[skipped()], [record(nodeid="another")], [record(), scaled(4, 0.9)]])
@for_each("now", [skipped(), BROKE, replace(scaled(4, 0.9), status="error", reason="lost")])
def test_what_this_run_has_not_measured_is_not_compared(before, now):
    tolerances = [within(), within(metric="efficiency")]
    assert compare(now, HERE, base_of(*before), tolerances) == ()


WRONG = ResultCheck(agreed=False, error=1.0, tolerance=1e-3, reason="they differ")


@for_each(
    ("expected", "changes"),
    [
        ([], {"status": "error", "reason": "no work reached it"}),
        ([], {"check": WRONG}),
        (["cpu_time", "first_call"], {"status": "skipped", "reason": "not today"}),  # half way through
        *(
            ([each for each in OF_SPEEDUP if each != "cpu_time"], {"cpu": measured(CPU, *samples)})
            for samples in ((), (0.0,), (inf,), (1.0, -1.0))
        ),
    ],
)
def test_what_is_no_valid_measurement_is_no_metric_of_this_run_and_none_of_the_baseline(expected, changes):
    asked = [within(metric=metric) for metric in OF_SPEEDUP]
    assert expected == [each.metric for each in compare(record(**changes), HERE, base_of(record()), asked)]
    found = compare(record(), HERE, base_of(record(**changes)), asked)
    assert expected == [each.metric for each in found if each.outcome != "new"]


# Doubt


def test_a_doubt_says_both_numbers_and_what_would_decide():
    found = compared(record(9.0, speedup=speedup(9.0, low=7.0, high=12.0)), record())
    numbers = "9.00x [7.00, 12.0], baseline 10.0x [9.60, 10.4]: -10.0 % [-32.7, +25.0], 10 % less is allowed"
    remedy = "rounds of this run differ by 72 %, which hides losses below 51 %: "
    assert found.reason.startswith(f"speedup is inconclusive: {numbers}; {remedy}")


SLOWED = "the GPU was slowed down in 12 of 40 rounds; improve its cooling or raise its power limit"


def test_a_doubt_that_more_time_would_not_end_says_what_would():
    assert compared(record(9.0, dropped_rounds=12), record()).reason.endswith(f"is allowed; {SLOWED}")
    then = compared(record(9.0), record(dropped_rounds=12)).reason
    assert then.endswith(f"; when the baseline was made {SLOWED}")


@for_each("seconds", [0.28, 1.0, 10.0])
def test_a_gain_that_may_fail_lies_as_far_beyond_its_limit_as_a_loss_that_does(seconds):
    """The range of a test reaches 4 % to either side."""
    factor = {0.28: 2.0, 1.0: 1.3, 10.0: 1.01}[seconds]
    before = record(rounds_elapsed=seconds)
    least = 10.0 * 1.1 * factor * 1.04 / 0.96
    outcomes = [compared(record(least * by), before).outcome for by in (0.999, 1.001)]
    assert ["not_regressed", "improved"] == outcomes


@for_each(
    ("expected", "now", "before"),
    [
        (False, {"dropped_rounds": 12}, {}),
        (True, {}, {"dropped_rounds": 12}),  # a run in which it was not slowed down finds losses
        (True, {}, {}),
    ],
)
def test_a_gpu_that_was_slowed_down_shows_no_loss_at_all(expected, now, before):
    found = [compared(record(value, **now), record(**before)) for value in (5.0, 9.0, 10.0)]
    assert {expected} == {each.visible is not None for each in found}
    assert expected != any(each.shows_little for each in found)


OF_RATIO = ["speedup", "gpu_time", "latency", "with_copies"]
TIMED = [*OF_RATIO, "cpu_time"]
SLOW = {"dropped_rounds": 12}
WAITED = {"waited": 0.14}  # in 28 blocks of 10 ms: half of the time was the workload's own
BUSY = {"cpu": measured(CPU, 10e-3, **WAITED)}
SHAKEN = {"interference": UNSTABLE}
BEHIND = measured(CPU, 20e-3)
UNEVEN = {"cpu": measured(CPU, 1e-3, *([10e-3] * 9))}
UNTOLD = {"check": ResultCheck(agreed=None, error=None, tolerance=None, reason=None)}
OTHER_GPU = {"gpu": measured(replace(GPU, name="another"), 1e-3)}
OTHER_CPU = {"cpu": measured(replace(CPU, library="numpy 1.26"), 10e-3)}
COPIED = {"demand": Demand(transfer="always")}


def few(value) -> Record:
    """Return a record whose secondary speedups have fewer samples than there were rounds."""
    short = {"always": speedup_within(value / 2, rounds=10), "latency": speedup_within(value / 4, rounds=10)}
    return record(value, offload=offload(**short))


def within_seconds(elapsed, value=10.0) -> Record:
    return record(value, rounds_elapsed=elapsed)


@for_each(
    ("expected", "metrics", "now", "before"),
    [
        # Each status, and an answer that nobody could compare, has its metrics.
        *(
            ("regressed", ["speedup"], record(8.0, status=status, reason="so"), record(status=status))
            for status in ("passed", "failed", "inconclusive", "recorded")
        ),
        ("regressed", ["speedup"], record(8.0, **UNTOLD), record(**UNTOLD)),
        # A GPU that was slowed down decides what it cannot have changed.
        ("inconclusive", OF_RATIO, record(5.0, **SLOW), record()),
        ("regressed", OF_RATIO, record(5.0), record(**SLOW)),
        ("not_regressed", OF_RATIO, record(**SLOW), record()),
        ("inconclusive", OF_RATIO, record(20.0), record(**SLOW)),
        ("inconclusive", OF_RATIO, record(5.0, **SLOW), record(**SLOW)),
        ("regressed", OF_RATIO, record(5.0, dropped_rounds=7), record()),  # a fifth of the rounds may be
        ("inconclusive", OF_RATIO, record(5.0, dropped_rounds=8), record()),
        ("regressed", ["cpu_time", "memory"], record(5.0, **SLOW), record()),
        # The shorter a run was sampled, the farther from the limit it decides.
        ("regressed", TIMED, within_seconds(7.5, 10 / 1.3), record()),
        ("inconclusive", TIMED, within_seconds(2.0, 10 / 1.3), record()),
        ("regressed", TIMED, within_seconds(0.1, 10 / 3), record()),
        ("improved", TIMED, within_seconds(0.1, 10 / 0.3), record()),
        # A baseline that was sampled for a short time may have been lucky.
        ("regressed", TIMED, record(10 / 1.5), within_seconds(2.0)),
        ("inconclusive", TIMED, record(10 / 1.3), within_seconds(1.0)),
        # Fewer samples than rounds were short, however long the rounds took.
        ("inconclusive", ["latency", "with_copies"], few(10 / 1.7), record()),
        ("regressed", ["latency", "with_copies"], few(10 / 3), record()),
        ("regressed", ["latency", "with_copies"], record(10 / 1.7), record()),
        # What was disturbed is a doubt about itself alone.
        ("regressed", ["speedup"], record(8.0, **BUSY), record()),  # too low in spite of that
        ("regressed", ["cpu_time"], record(cpu=BEHIND), record()),
        ("inconclusive", ["cpu_time"], record(cpu=replace(BEHIND, waited=0.28)), record()),
        ("regressed", ["gpu_time", "memory"], record(5.0, **SHAKEN), record(**SHAKEN)),
        # A speedup of 10 with a disturbed CPU may have been 5: with a quiet one it is no regression.
        *(
            (expected, ["speedup"], record(value), record(**disturbed))
            for disturbed in (BUSY, SHAKEN, {**SHAKEN, "status": "inconclusive"}, UNEVEN)
            for expected, value in (("inconclusive", 8.0), ("not_regressed", 10.0), ("improved", 20.0))
        ),
        # A metric depends on its own side only.
        ("not_comparable", ["speedup", "memory"], record(**OTHER_GPU), record()),
        ("not_regressed", ["cpu_time"], record(**OTHER_GPU), record()),
        ("not_comparable", ["speedup"], record(**OTHER_CPU), record()),
        ("not_regressed", ["gpu_time", "memory"], record(**OTHER_CPU), record()),
        ("not_comparable", ["with_copies"], record(**COPIED), record()),
        ("not_regressed", ["gpu_time"], record(**COPIED), record()),
        ("not_comparable", ["gpu_time"], record(scope="body"), record()),
    ],
)
def test_what_a_metric_of_such_a_run_is_to_such_a_baseline(expected, metrics, now, before):
    for metric in metrics:
        assert (metric, expected) == (metric, compared(now, before, metric=metric).outcome)


def test_time_that_the_cpu_lost_to_others_makes_no_speedup():
    """A CPU twice as slow shows a speedup of 10 where it is 5: nothing says that it is still there."""
    found = compared(record(**BUSY), record())
    assert found.outcome == "inconclusive"
    assert found.found == Estimate(value=10.0, low=pytest.approx(4.8), high=10.4)
    assert "; the range reaches so low because CPU times were disturbed: other programs" in found.reason


SPREAD = Interference(kind="unstable_cpu_times", own_share=0.4, median=10e-3, fastest=4e-3)


@for_each(
    ("own_share", "waited", "changes", "recorded_before"),
    [
        (1.0, 0.07, {}, None),  # of 28 blocks of 10 ms up to a quarter
        (0.74, 0.0728, {}, None),
        (0.5, 0.28, {"block_calls": 2}, None),
        (0.1, 1.9 * 0.28, {"waiting_threads": 2, "least_time": 1e-3}, None),  # one waits for the other
        (
            1.0,
            7.8 * 0.28,
            {"waiting_threads": 8, "least_time": 20e-3},
            None,
        ),  # no more than the fastest block
        (None, 1.9 * 0.28, {"waiting_threads": 2}, None),
        # The worst of the samples' own and of what the run has recorded counts.
        (0.4, 0.0, {}, SPREAD),
        (0.4, 0.14, {}, SPREAD),
        (0.4, 0.224, {"least_time": 5e-3}, SPREAD),
        (0.3, 0.196, {}, SPREAD),
    ],
)
def test_what_is_left_without_all_waits_or_is_processor_time_is_certainly_the_workloads_own(
    own_share, waited, changes, recorded_before
):
    busy = record(cpu=measured(CPU, 10e-3, waited=waited, **changes), interference=recorded_before)
    found = compared(busy, record(), metric="cpu_time").found
    assert (own_share and pytest.approx(own_share * 10e-3)) == found.low


@for_each(
    ("is_watched", "device", "waited"),
    [
        (True, replace(GPU, emulated=True), 0.0),
        (False, replace(GPU, emulated=True), None),  # simulated times
        (False, GPU, 9.0),
    ],
)
def test_a_gpu_is_disturbed_where_it_is_emulated_on_the_cpu(is_watched, device, waited):
    slowed = record(gpu=measured(device, *[1e-3] * 6, *[4e-3] * 22, waited=waited))
    found = compared(slowed, record(gpu=measured(device, 1e-3)), metric="gpu_time").found
    assert (0.25e-3 if is_watched else 1e-3) == pytest.approx(found.low)


@for_each(("metric", "expected"), [("speedup", "inconclusive"), ("cpu_time", "not_regressed")])
def test_a_disturbed_emulated_gpu_is_no_regression(metric, expected):
    emulated = replace(GPU, emulated=True)
    quiet = record(gpu=measured(emulated, 1e-3))
    busy = measured(emulated, 2e-3, waited=28e-3, waiting_threads=2)  # half of the time was its own
    here = replace(HERE, gpu=emulated)
    base = base_of(quiet, environment=here)
    now = record(5.0, gpu=busy, cpu=measured(CPU, 10e-3))
    (found,) = compare(now, here, base, [within(metric=metric)])
    assert found.outcome == expected


# What cannot be compared


def test_another_machine_is_not_comparable_and_what_differs_is_listed():
    there = replace(HERE, cpu={**HERE.cpu, "name": "another"}, python="3.12.1")
    found = compared(record(1.0), record(), here=there)
    assert found.outcome == "not_comparable"
    differences = ("CPU: EPYC in the baseline, another now", "python: 3.11 in the baseline, 3.12 now")
    assert found.differences == differences
    assert found.reason == f"not comparable with the baseline base.json: {'; '.join(differences)}"
    assert (10.0, 1.0, None) == (found.baseline.value, found.found.value, found.ratio)


RUNNER = replace(
    HERE,
    cpu={"name": "EPYC", "logical": 16, "usable": 8, "quota": None},
    variables={"OMP_NUM_THREADS": "4"},
)
SIZE = {"memory": 12 << 30, "multiprocessors": 132, "power_limit_watts": 700}
NUMPY = replace(CPU, library="numpy 2.4.6")
CUPY = replace(
    GPU, library="cupy 13.4.1, CUDA 12.8", driver="for CUDA 12.9", runtime="CUDA 12.8", **SIZE, settings=()
)
WORK = {"dtypes": ("float32", "int64"), "shapes": ("512x512", "512")}


ON_NUMPY, ON_CUPY = (measured(device, 1.0, **WORK) for device in (NUMPY, CUPY))


def on_both(**changes) -> Record:
    return record(**{"cpu": ON_NUMPY, "gpu": ON_CUPY, **changes})


def on_cpu(device=None, **work) -> Record:
    return on_both(cpu=replace(ON_NUMPY, device=replace(NUMPY, **device or {}), **work))


def on_gpu(device=None, **work) -> Record:
    return on_both(gpu=replace(ON_CUPY, device=replace(CUPY, **device or {}), **work))


def differs(now, here=RUNNER, *, before=None, was=RUNNER, metric="speedup"):
    base = base_of(before or on_both(), environment=was)
    return compare(now, here, base, [within(metric=metric)])[0].differences


def said(expected) -> tuple[str, ...]:
    """Return what is said of `name: before | now`."""
    return () if expected is None else (f"{expected.replace(' | ', ' in the baseline, ')} now",)


@for_each(
    ("expected", "now"),
    [
        ("GPU: H200 | A100", on_gpu({"name": "A100"})),
        ("GPU backend: cupy | torch", on_gpu({"backend": "torch"})),
        ("GPU emulated: no | yes", on_gpu({"emulated": True})),
        ("GPU library: cupy 13.4 | cupy 13.5", on_gpu({"library": "cupy 13.5.0, CUDA 12.8"})),
        ("GPU driver for: CUDA 12 | CUDA 13", on_gpu({"driver": "for CUDA 13.0"})),
        ("GPU runtime: CUDA 12 | CUDA 13", on_gpu({"runtime": "CUDA 13.0"})),
        ("GPU precision: full | TF32", on_gpu({"reduced_precision": "TF32"})),
        ("GPU convolutions: full | TF32", on_gpu({"reduced_convolutions": "TF32"})),
        ("GPU memory: 12 GiB | 8 GiB", on_gpu({"memory": 8 << 30})),
        ("GPU multiprocessors: 132 | 114", on_gpu({"multiprocessors": 114})),
        ("GPU power limit: 700 W | 350 W", on_gpu({"power_limit_watts": 350.2})),
        ("GPU settings: default | cudnn.benchmark=True", on_gpu({"settings": ("cudnn.benchmark=True",)})),
        ("CPU library: numpy 2.4 | numpy 2.5", on_cpu({"library": "numpy 2.5.0"})),
        ("CPU precision: full | bfloat16", on_cpu({"reduced_precision": "bfloat16"})),
        ("GPU dtypes: float32, int64 | int64", on_gpu(dtypes=("int64",))),
        ("GPU shapes: 512x512, 512 | 1024x1024", on_gpu(shapes=("1024x1024",))),
        ("CPU dtypes: float32, int64 | float64", on_cpu(dtypes=("float64",))),
        ("CPU shapes: 512x512, 512 | 512, 512x512", on_cpu(shapes=("512", "512x512"))),
        ("scope: call | body", on_both(scope="body")),
        ("transfer: never | always", on_both(demand=Demand(transfer="always"))),
        ("transfer: never | once for 9 calls", on_both(demand=Demand(transfer="once", calls=9))),
        ("latency: no | yes", on_both(demand=Demand(latency=True))),
        (None, on_gpu({"library": "cupy 13.4.9rc1", "driver": "for CUDA 12.4", "runtime": "CUDA 12.2"})),
        (None, on_gpu({"memory": 12_600_000_000})),  # as little as one driver leaves less of it than another
        (None, on_cpu({"name": "the CPU", "library": "numpy 2.4.0"})),  # the processor is the environment's
        (None, on_gpu(dtypes=("int64", "float32"))),
        (None, on_both(status="failed", reason="too slow", demand=Demand(min=3, max_time=1.0))),
    ],
)
def test_what_a_time_depends_on_is_named_by_itself_and_nothing_else_is(expected, now):
    assert said(expected) == differs(now)


SETTINGS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "NPROC", "CUPY_TF32")
SETTINGS += ("NVIDIA_TF32_OVERRIDE", "JAX_ENABLE_X64", "JAX_DEFAULT_MATMUL_PRECISION", "MLX_ENABLE_TF32")
SETTINGS += ("CUBLAS_WORKSPACE_CONFIG", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")


def with_variable(name, value):
    return {"variables": {**RUNNER.variables, name: value}}


@for_each(
    ("expected", "metrics", "changes"),
    [
        ("CPU: EPYC | Xeon", ["speedup", "cpu_time"], {"cpu": {**RUNNER.cpu, "name": "Xeon"}}),
        (None, ["gpu_time"], {"cpu": {**RUNNER.cpu, "name": "Xeon"}, "python": "3.13.0"}),
        ("processors: 8 | 4", ["speedup"], {"cpu": {**RUNNER.cpu, "usable": 4}}),
        ("processors: 8 | 2.5", ["speedup"], {"cpu": {**RUNNER.cpu, "quota": 2.5}}),
        ("processors: 8 | 16", ["speedup"], {"cpu": {**RUNNER.cpu, "usable": None}}),
        ("python: 3.11 | 3.12", ["speedup"], {"python": "3.12.1"}),
        ("OMP_NUM_THREADS: 4 | 8", ["speedup"], with_variable("OMP_NUM_THREADS", "8")),
        ("OMP_NUM_THREADS: 4 | not set", ["speedup"], {"variables": {}}),
        *((f"{name}: not set | 1", ["speedup"], with_variable(name, "1")) for name in SETTINGS),
        ("CUPY_TF32: not set | 1", ["gpu_time"], with_variable("CUPY_TF32", "1")),
        (None, ["cpu_time"], with_variable("CUPY_TF32", "1")),
        (
            *("blocking launches: not set | HIP_LAUNCH_BLOCKING=1", ["gpu_time"]),
            with_variable("HIP_LAUNCH_BLOCKING", "1"),
        ),
        # The devices' libraries are what counts.
        (None, ["speedup"], {"host": {"name": "there", "memory": 1}, "packages": {"numpy": "1.26"}}),
        (None, ["speedup"], {"python": "3.11.9", "cpu": {**RUNNER.cpu, "logical": 32, "quota": 8.0}}),
        (None, ["speedup"], with_variable("CUDA_VISIBLE_DEVICES", "1")),
    ],
)
def test_so_is_what_a_whole_run_depends_on(expected, metrics, changes):
    for metric in metrics:
        assert said(expected) == differs(on_both(), replace(RUNNER, **changes), metric=metric)


@for_each(
    ("known_less", "here"),
    [
        (
            on_gpu({"driver": None, "runtime": None, "library": "", **dict.fromkeys(SIZE), "settings": None}),
            RUNNER,
        ),
        (on_gpu({"driver": "535.104.05"}), RUNNER),  # one has NVML's version, the other CUDA's
        (on_gpu(dtypes=(), shapes=()), RUNNER),
        (on_both(gpu=None, scope=None), RUNNER),
        (on_both(), replace(RUNNER, variables=None, python="", cpu={})),
        (on_both(), replace(RUNNER, cpu={"name": None, "usable": None})),
    ],
)
def test_what_either_run_does_not_report_differs_from_nothing(known_less, here):
    assert () == differs(known_less, here) == differs(on_both(), before=known_less, was=here)


@for_each(
    ("expected", "before", "now"),
    [
        (None, "cuda 12080", "cuda 12090"),
        ("cuda 12 | cuda 13", "cuda 12090", "cuda 13000"),
        ("550 | 560", "550.54.15", "560.28.03"),
        (None, "2025.20.10.0.23", "2025.20.11"),
    ],
)
def test_of_a_driver_and_a_runtime_the_major_version_counts(expected, before, now):
    for part in ("driver", "runtime"):
        found = differs(on_gpu({part: now}), before=on_gpu({part: before}))
        assert said(expected and f"GPU {part}: {expected}") == found


@for_each(
    ("is_told", "metric", "before", "now"),
    [
        (True, "speedup", 1980, 1410),
        (True, "gpu_time", 1410, 1980),
        (False, "cpu_time", 1980, 1410),
        (False, "gpu_time", 1980, 1905),
        (False, "gpu_time", None, 1410),
        (False, "gpu_time", 1980, None),
    ],
)
def test_other_clocks_of_the_gpu_are_named_with_what_got_worse(is_told, metric, before, now):
    of_gpu = {"gpu": measured(GPU, 1e-3, highest_sm_mhz=before)}
    slower = {"cpu": measured(CPU, 0.2), "gpu": measured(GPU, 2e-3, highest_sm_mhz=now)}
    (found,) = compare(record(5.0, **slower), HERE, base_of(record(**of_gpu)), [within(metric=metric)])
    assert "regressed" == found.outcome
    said = (
        f"; the GPU's clock reached {now:,} MHz, and {before:,} MHz when the baseline was made"
        if is_told
        else ""
    )
    assert found.reason.endswith(f"is allowed{said}")


# Baselines


@for_each(("expected", "metric"), [(3, "speedup"), (1, "with_copies"), (4, "cpu_time")])
def test_a_baselines_tests_are_those_that_have_what_is_asked_for(expected, metric):
    size_group = SizeGroup(name="f", parameter="n", size=1, sizes=(1, 2))
    base = base_of(
        record(nodeid="whole"),
        record(nodeid="plain", offload=None),
        skipped(nodeid="skipped"),
        skipped(nodeid="cpu", cpu=measured(CPU, 1.0)),
        record(nodeid="broken", status="error", reason="so"),
        record(nodeid="sized", offload=None, size_group=size_group),
        skipped(nodeid="sized and skipped", size_group=size_group),
    )
    held = Gate(GateOptions(tolerances=(within(metric=metric),)), [base], lambda: HERE)
    assert (
        expected == held.finish(run_of(), RunCoverage(cause=lambda *_: "gone"), RunOptions()).baseline_tests
    )


ANOTHER = replace(GPU, name="another GPU")
KNOWN = {
    "here": HERE,
    "older": HERE,
    "there": replace(HERE, gpu=ANOTHER),
    "elsewhere": replace(HERE, cpu={"name": "another"}),
    "no GPU": replace(HERE, gpu=None),
    "other settings": replace(HERE, variables={"CUPY_TF32": "1"}),
}


@for_each(
    ("expected", "names", "gpu"),
    [
        ("here", ["there", "here", "older"], GPU),
        ("there", ["there", "here"], ANOTHER),
        ("older", ["there", "older", "here"], GPU),
        ("here", ["other settings", "here"], GPU),
        ("there", ["there", "elsewhere"], GPU),
        ("there", ["there"], GPU),
        ("here", ["no GPU", "here"], GPU),
        ("no GPU", ["no GPU", "there"], GPU),
        ("no GPU", ["no GPU", "here"], None),
        ("here", ["elsewhere", "here", "no GPU"], None),
        (None, [], GPU),
    ],
)
def test_of_several_baselines_the_first_of_the_same_surroundings_is_taken(expected, names, gpu):
    bases = [base_of(name=name, environment=KNOWN[name]) for name in names]
    found = Gate(GATE, bases, lambda: replace(HERE, gpu=gpu, variables={})).base
    assert expected == (found.name if found else None)
