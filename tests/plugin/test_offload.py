"""Is it worth it, as a user asks: transfers, latency, memory, the price and thresholds through pytest."""

import json

import pytest
from real_clock import REAL_TIME

CONFTEST = """
import pytest
from pytest_gpuperf.devices.simulated import SimulatedBackend, Timing

@pytest.hookimpl(optionalhook=True)
def pytest_gpuperf_devices():
    return [SimulatedBackend(cpu=Timing({cpu}), gpu=Timing({gpu}), unavailable={unavailable!r})]
"""


@pytest.fixture
def suite(run, pytester):
    """Run a suite on simulated devices with these timings; the report is written beside it."""

    def call(source, *options, cpu="kernel=10e-3", gpu="kernel=1e-3", on="simulated"):
        unavailable = None if on else "no GPU is here"
        pytester.makeconftest(CONFTEST.format(cpu=cpu, gpu=gpu, unavailable=unavailable))
        always = ("--gpuperf-json=report.json", "-Walways::pytest_gpuperf.InconclusiveWarning")
        return run("import numpy as np, pytest\n" + source, *always, *options, gpu="simulated")

    return call


@pytest.fixture
def report(pytester):
    return lambda: json.loads((pytester.path / "report.json").read_text())


def of(marker, size=1000):
    """Return a test that uploads `size` doubles and returns as many."""
    return f"""
@pytest.mark.speedup({marker})
def test_it(device):
    a = device.asarray(np.ones({size}))
    return lambda: a + a
"""


@pytest.fixture
def statuses(suite, report):
    """Run such a test for each marker in one suite; return how they ended, by their markers."""

    def call(*markers, **timings):
        sources = [of(marker).replace("test_it", f"test_{index}") for index, marker in enumerate(markers)]
        result = suite("".join(sources), **timings)
        ended = [record["status"] for record in report()["records"]]
        result.assert_outcomes(passed=ended.count("passed"), failed=ended.count("failed"))
        return dict(zip(markers, ended, strict=True))

    return call


SLOW_LINK = "kernel=1e-3, bandwidth=1e6"  # 8 ms up and 8 ms down for a thousand doubles


def test_the_gate_is_on_the_regime_or_the_memory_that_was_asked_for(statuses):
    expected = {
        "min=4": "passed",
        "min=4, transfer='always'": "failed",
        "max=1, transfer='always'": "passed",
        "min=8, transfer='once', calls=10": "failed",
        "min=2, transfer='once', calls=10": "passed",
        "min=4, transfer='once', calls=1000": "passed",
        "min=3, max_memory='16kB'": "passed",
        "min=3, max_memory='15.9kB'": "failed",
        "max_memory=1 << 20": "passed",
    }
    assert expected == statuses(*expected, gpu=SLOW_LINK)


def test_copies_of_a_whole_body_gate_nothing(suite):
    source = "@pytest.mark.speedup(min=1, transfer='always')\ndef test_it(xp):\n    return xp.ones(3)\n"
    result = suite(source)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*transfer='always' has no effect here*return a callable*"])


def test_a_gate_on_latency_sees_what_a_block_hides(statuses, report):
    gpu = "kernel=0.2e-3, synchronize=1e-3"
    expected = {"min=2": "passed", "min=2, latency=True": "failed"}
    assert expected == statuses(*expected, cpu="kernel=1e-3", gpu=gpu)
    for record, by_latency in zip(report()["records"], (False, True), strict=True):
        assert record["offload"]["by_latency"] == by_latency
        assert record["offload"]["latency"]["value"] < 1 < record["cpu"]["latency"] / record["gpu"]["median"]


def test_worth_it_means_faster_than_the_cost_ratio(suite, report):
    suite(of("min=3"), "--gpuperf-cost-ratio=25", "-v").stdout.fnmatch_lines(
        ["test_it: not worth it at 25 times the price: 10.0x *"]
    )
    offload = report()["records"][0]["offload"]
    assert (False, True) == (offload["worth"], offload["faster"])


def test_without_a_gpu_the_table_says_what_one_must_reach(suite):
    suite(of("min=4", size=4), on=None).stdout.fnmatch_lines(["test_it * needs 2.50 ms * skipped"])


def test_what_holds_a_speedup_back_is_shown_where_it_does_not_pay(suite, report):
    source = of("min=3, transfer='always'")
    result = suite(source, gpu=SLOW_LINK)
    assert "transfer_bound" in [found["code"] for found in report()["records"][0]["diagnosis"]]
    rest = "* more note*: pytest -v"
    result.stdout.fnmatch_lines(["test_it: transfer-bound: *", "*keep the data on the device and*", rest])
    whole = suite(source, "-v", gpu=SLOW_LINK).stdout
    whole.no_fnmatch_line(rest)
    whole.fnmatch_lines(["test_it: not worth it: *"])


SIZE_GROUP = """
@pytest.mark.offload_threshold("n"{limits})
@pytest.mark.parametrize("n", {sizes})
@pytest.mark.speedup{speedup}
def test_add(device, n):
    a = device.xp.ones(n)
    return lambda: a + a
"""
# The GPU takes 10 ms, the CPU 10 us for each number: the GPU wins from a thousand numbers on.
BY_SIZE = {"cpu": "kernel=0, per_element=1e-5", "gpu": "kernel=10e-3"}


def size_group(limits="", sizes="[100, 500, 2000, 10_000]", speedup="(min=1e-9)"):
    return SIZE_GROUP.format(limits=limits, sizes=sizes, speedup=speedup)


def test_the_threshold_lies_between_the_last_size_lost_and_the_first_won(suite, report):
    suite(size_group(), **BY_SIZE).assert_outcomes(passed=4)
    (found,) = report()["thresholds"]
    assert ("bracket", 500, 2000) == (found["outcome"], found["largest_not_won"], found["smallest_won"])
    assert [100, 500, 2000, 10_000] == [point["size"] for point in found["curve"]]
    assert [0.1, 0.5, 2, 10] == [pytest.approx(point["speedup"]["value"]) for point in found["curve"]]
    assert found["status"] == "recorded"


def ended(report):
    """Return the statuses of thresholds by the tests that they are of."""
    return {found["name"].partition("::")[2]: found["status"] for found in report()["thresholds"]}


VARIANTS = """
@pytest.fixture
def values(device):
    return device.xp.ones(4)

@pytest.mark.offload_threshold("n", at_most=2000)
@pytest.mark.parametrize("n", [500, 2000])
@pytest.mark.speedup(min=1e-9)
def test_variants(values, xp, n):
    a = xp.ones(n)
    return lambda: a + a
"""
OPERATIONS = """
@pytest.mark.offload_threshold("n", at_least=100.5)
@pytest.mark.parametrize("n", [100, 500])
@pytest.mark.parametrize("op", [int, lambda a: a + a, lambda a: a])
@pytest.mark.speedup(min=1e-9)
def test_operations(device, n, op):
    a = device.xp.ones(n)
    return lambda: a + a
"""
LIMITS = {
    "test_below": (", at_most=2000", "passed"),
    "test_not_below": (", at_most=500", "failed"),
    "test_above": (", at_least=2000", "passed"),
    "test_not_above": (", at_least=3000", "failed"),
}
ENDED = {
    **{name: status for name, (_, status) in LIMITS.items()},
    "test_backwards": "failed",
    "test_variants": "passed",
    # Other parameters make other size groups, though a word may not tell them apart.
    **{f"test_operations[op={op}": "passed" for op in ("<lambda>]", "<lambda>] #2", "int]")},
}


def test_a_threshold_beyond_its_limits_fails_the_last_of_its_size_group(suite, report):
    source = "".join(size_group(limit).replace("test_add", name) for name, (limit, _) in LIMITS.items())
    backwards = size_group(", at_most=500", sizes="[10_000, 2000, 100, 500]")
    source += backwards.replace("test_add", "test_backwards") + VARIANTS + OPERATIONS
    result = suite(source, "-v", **BY_SIZE)
    result.assert_outcomes(passed=27, failed=3)
    assert ENDED == ended(report)
    thresholds = {found["name"].partition("::")[2]: found for found in report()["thresholds"]}
    assert (500, 2000) == tuple(
        thresholds["test_variants"][end] for end in ("largest_not_won", "smallest_won")
    )
    result.stdout.fnmatch_lines_random(
        [
            "*test_not_below[[]10000] FAILED*",
            "*test_not_above[[]10000] FAILED*",
            "*test_backwards[[]500] FAILED*",
            "*offload threshold of n: required at most 500*",
            "*offload threshold of n: required at least 3000*",
        ]
    )
    result.stdout.no_fnmatch_line("FAILED: *")  # by its last test, and not once more by the run
    quiet = suite(source, "--gpuperf-fail=nothing", "-k", "not_below", **BY_SIZE)
    quiet.assert_outcomes(passed=4, deselected=26)


def test_a_size_group_that_was_selected_in_part_is_in_doubt_and_says_which_sizes_are_missing(suite, report):
    result = suite(size_group(", at_most=500"), "-k", "test_add and 100]", **BY_SIZE)
    result.assert_outcomes(warnings=1, passed=1, deselected=3)
    said = "*InconclusiveWarning: *no speedup at n=500, n=2000, n=10000 (not run); run all sizes*"
    result.stdout.fnmatch_lines([said])
    assert report()["thresholds"][0]["status"] == "inconclusive"


LAST = {"test_skips": ("skip", "pass"), "test_expected": ("xfail", "if n > 5000: 1 / 0")}


def test_a_size_group_whose_last_test_did_not_run_is_in_doubt_too(suite, report):
    source = "".join(
        size_group(", at_most=2000", sizes=f"[100, 2000, pytest.param(10_000, marks=pytest.mark.{mark})]")
        .replace("    a =", f"    {first_line}\n    a =")
        .replace("test_add", name)
        for name, (mark, first_line) in LAST.items()
    )
    result = suite(source, **BY_SIZE)
    result.assert_outcomes(passed=4, skipped=1, xfailed=1, warnings=2)
    assert result.ret == pytest.ExitCode.OK
    assert dict.fromkeys(LAST, "inconclusive") == ended(report)
    said = [f"test_it.py::{name}: *at n=10000 (*" for name in LAST]
    result.stdout.fnmatch_lines_random([f"*InconclusiveWarning: {each}" for each in said])
    for option in ("--gpuperf-fail=doubt", "-Werror::pytest_gpuperf.InconclusiveWarning"):
        doubtful = suite(source, option, **BY_SIZE)
        assert doubtful.ret == pytest.ExitCode.TESTS_FAILED
        doubtful.stdout.fnmatch_lines_random([f"FAILED: {each}" for each in said])


@pytest.mark.usefixtures("forked_workers")
def test_in_workers_a_threshold_that_none_could_tell_fails_the_run_and_one_that_holds_does_not(suite, report):
    holds = size_group(", at_most=2000").replace("test_add", "test_holds")
    result = suite(size_group(", at_most=500") + holds, "-n2", "--dist=load", **BY_SIZE)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*offload threshold of n: required at most 500*"])
    result.stdout.no_fnmatch_line("*required at most 2000*")
    assert {"test_add": "failed", "test_holds": "passed"} == ended(report)


NO_SENSE = [
    ("needs a speedup test", size_group().replace("@pytest.mark.speedup(min=1e-9)\n", "")),
    ("the test has no parameter 'size'; its parameters: n", size_group().replace('d("n"', 'd("size"')),
    ("n='small' is not a size", size_group(sizes="['small', 'large']")),
    ("n=nan is not a size", size_group(sizes="[1, float('nan')]")),
    ("'n' needs at least two sizes", size_group(sizes="[5]")),
    (
        "no variant of the test runs on a GPU",
        '@pytest.mark.parametrize("device", ["cpu"])\n' + size_group().replace("(min=1e-9)", ""),
    ),
    ("'n' has the same size twice: 5, 5", size_group(sizes="[5, 5]")),
    ("has no argument 'most'", size_group(", most=5")),
    ("at_most must be a finite number, not 'big'", size_group(", at_most='big'")),
    ("at_least must not be above at_most", size_group(", at_least=3000, at_most=2000")),
    ("at_most=5 is below the smallest size, 100", size_group(", at_most=5")),
    ("at_least=100 is not above the smallest size, 100", size_group(", at_least=100")),
    (
        "parameter must be the name of the parameter that",
        size_group().replace('threshold("n"', "threshold(5"),
    ),
    (
        "2 offload_threshold markers found; ",
        '@pytest.mark.offload_threshold("n", at_most=1)\n' + size_group(),
    ),
]


def test_a_threshold_that_makes_no_sense_is_an_error_of_its_test(marker_errors):
    said = marker_errors(*(f"import pytest\n{source}" for _, source in NO_SENSE))
    for (expected, _), found in zip(NO_SENSE, said, strict=True):
        assert f"@pytest.mark.offload_threshold: {expected}" in found


def test_a_threshold_that_failed_fails_again_when_it_is_rerun(suite):
    result = suite(VARIANTS.replace("at_most=2000", "at_most=500"), "--reruns=1", **BY_SIZE)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert result.parseoutcomes()["failed"] == 1


def test_diagnoses_know_the_processors_of_a_real_cpu(report, pytester, monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    pytester.makeconftest(REAL_TIME.replace(", emulated=True", ""))
    pytester.makepyfile("import pytest\n@pytest.mark.speedup\ndef test_it(xp): return xp.ones(1000)")
    options = ("--gpuperf-gpu=hosts", "--gpuperf-json=report.json", "--gpuperf-max-time=0.5")
    pytester.runpytest_subprocess(*options)
    cpu = report()["environment"]["cpu"]
    usable = min(filter(None, (cpu["usable"], cpu["quota"])))
    said = [each["sentence"] for each in report()["records"][0]["diagnosis"] if each["code"] == "cpu_threads"]
    assert (usable >= 2) == any(f"may use 1 of {usable:g} usable processors" in each for each in said)
