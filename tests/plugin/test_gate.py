"""The gate, as pytest's users meet it: red when a speedup is lost, and when nothing could have been seen."""

import errno
import json
import os
from xml.etree import ElementTree

import pytest

from pytest_gpuperf.cli import main

FAST = """
import pytest

@pytest.mark.speedup(min=3)
def test_fast(device):
    return lambda: device.launch(10e-3 if device.kind == "cpu" else {gpu})
"""
BARE = FAST.replace("(min=3)", "").replace("test_fast", "test_bare")
GATE = ("--gpuperf-baseline=base.json", "--gpuperf-fail-on=speedup:10%")
CREATE = (*GATE, "--gpuperf-baseline-missing=create")
KEPT = ("--gpuperf-baseline=kept", *CREATE[1:])
SERIAL = ()
PARALLEL = ("-n", "1")  # what passes between a worker and the controller is the same with more of them
MADE = {}  # baselines by their suites: simulated devices measure the same each time
BEFORE, SLOWER = 1e-3, 1.25e-3


@pytest.fixture
def ends(pytester, forked_workers, monkeypatch):
    """Run a suite on the simulated device; return how pytest ended, with the records of its report."""
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)

    def call(source, *options, gpu=BEFORE, device="simulated"):
        if source is not None:
            pytester.makepyfile(test_it=source.format(gpu=gpu))
        asked = ("-pno:randomly", "-Wdefault", f"--gpuperf-gpu={device}", "--gpuperf-json=report.json")
        result = pytester.runpytest_inprocess(*asked, *options)
        result.report = None
        if (pytester.path / "report.json").exists():
            result.report = json.loads((pytester.path / "report.json").read_text(encoding="utf-8"))
        return result

    return call


@pytest.fixture
def made(ends, pytester):
    """Make the baseline of a suite, in its first test by a run and in later ones from what that wrote."""

    def call(source):
        path = pytester.path / "base.json"
        if source in MADE:
            path.write_bytes(MADE[source])
        else:
            assert pytest.ExitCode.OK == ends(source, *CREATE).ret
            MADE[source] = path.read_bytes()
            (pytester.path / "report.json").unlink()

    return call


@pytest.fixture
def held(ends, made):
    """Make a baseline of a suite; then run it against that."""

    def call(source, *options, then=None, **others):
        made(source)
        return ends(then or source, *GATE, *options, **others)

    return call


def last(result):
    """Return the last line, below what pytest itself says."""
    return [line for line in result.outlines if line][-1]


def missed(told, counts="1 of 2"):
    """Return the last line of a run that failed for tests of the baseline that did not run."""
    return f"regression check failed: {counts} baseline tests did not run: {told}"


def left_out(option, count=1):
    """Return the last line of a run that left out so many tests of the baseline with this option."""
    told = f"{count} left out by the command line ({option})"
    return f"regression check: {count} of 2 baseline tests did not run: {told}"


def outcomes(result):
    """Return the outcomes of comparisons by the tests' names and metrics."""
    return {
        (record["nodeid"].rpartition("::")[2], found["metric"]): found["outcome"]
        for record in result.report["records"]
        for found in record["comparisons"]
    }


# Red when the speedup is lost


def test_a_lost_speedup_fails_its_own_test_although_its_demand_is_met(held):
    result = held(FAST + BARE, gpu=SLOWER)
    result.assert_outcomes(failed=2)
    assert pytest.ExitCode.TESTS_FAILED == result.ret
    result.stdout.fnmatch_lines(
        [
            "speedup got worse: 7.97x [[]7.89, 8.05], baseline 9.95x [[]9.85, 10.0]: -19.9 % [[]*, *], *",
            "test_fast * >=3x * -20 % * regressed",
            "baseline base.json of * (tolerance: speedup 10 %): 2*",
        ]
    )
    assert {"regressed"} == {*outcomes(result).values()}
    assert ["passed", "recorded"] == sorted(record["status"] for record in result.report["records"])


@pytest.mark.parametrize(
    ("expected", "gpu", "options", "told"),
    [
        ("not_regressed", BEFORE, (), "*"),
        ("not_regressed", 1.05e-3, (), "*"),  # within the tolerance
        (
            "improved",
            0.5e-3,
            (),
            "*1 comparison improved beyond the tolerance: the baseline is out of date;*",
        ),
        ("regressed", SLOWER, ("--gpuperf-fail=nothing",), "*"),
    ],
)
def test_what_is_no_loss_beyond_the_tolerance_or_only_reported_passes(held, expected, gpu, options, told):
    result = held(BARE, *options, gpu=gpu)
    result.assert_outcomes(passed=1)
    assert pytest.ExitCode.OK == result.ret
    assert {("test_bare", "speedup"): expected} == outcomes(result)
    result.stdout.fnmatch_lines([told])


def test_a_gain_fails_where_that_is_asked_for_and_the_summary_says_it(held, pytester):
    result = held(BARE, "--gpuperf-fail-on=improvement", "--gpuperf-markdown=summary.md", gpu=0.5e-3)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["speedup got better: *"])
    assert "speedup got better: " in (pytester.path / "summary.md").read_text(encoding="utf-8")


def test_without_fail_on_a_loss_is_only_told(ends, made):
    made(BARE)
    result = ends(BARE, "--gpuperf-baseline=base.json", gpu=SLOWER)
    assert pytest.ExitCode.OK == result.ret
    assert {("test_bare", "speedup"): "regressed"} == outcomes(result)
    assert [] == result.report["gate"]["tolerances"]


def test_without_fail_on_a_doubt_is_decided_by_measuring_for_a_gate(ends, made):
    """Such a run stops at its own verdict and would not take more time."""
    made(BARE)
    result = ends(
        BARE,
        "--gpuperf-baseline=base.json",
        gpu=f"{BEFORE / 0.9} * (0.97 + 0.06 * (device.launches // 8 % 2))",  # in spells longer than a block
    )
    (found,) = result.report["records"][0]["comparisons"]
    assert ("inconclusive", "run_with_gate") == (found["outcome"], found["remedy"])
    assert "--gpuperf-fail-on" in found["reason"]


def test_junit_has_the_failure_and_the_outcome_as_a_property(held, pytester):
    held(BARE, "--junitxml=junit.xml", gpu=SLOWER)
    suite = ElementTree.parse(pytester.path / "junit.xml").getroot()[0]
    assert ("1", "0") == (suite.get("failures"), suite.get("errors"))
    properties = {each.get("name"): each.get("value") for each in suite.iter("property")}
    assert "regressed" == properties["gpuperf.baseline.speedup"]


def test_a_strict_xfail_expects_the_loss(held):
    marked = BARE.replace("@pytest.mark.speedup", "@pytest.mark.xfail(strict=True)\n@pytest.mark.speedup")
    result = held(BARE, then=marked, gpu=SLOWER)
    result.assert_outcomes(xfailed=1)
    result.stdout.fnmatch_lines(["test_bare *  regressed (expected)"])


def test_last_failed_runs_the_loss_again_and_asks_for_no_other_test(held, ends):
    held(FAST + BARE, then=FAST.format(gpu=BEFORE) + BARE.format(gpu=SLOWER)).assert_outcomes(
        passed=1, failed=1
    )
    again = ends(None, *GATE, "--lf")
    again.assert_outcomes(failed=1)
    again.stdout.no_fnmatch_line("FAILED: *did not run*")
    assert left_out("--lf") == last(again)


@pytest.mark.parametrize("option", ["--lf", "--sw"])
def test_running_what_failed_again_misses_a_test_that_was_removed(held, ends, option):
    failing = FAST.format(gpu=SLOWER)
    held(BARE + FAST, then=BARE + failing).assert_outcomes(passed=1, failed=1)
    again = ends(failing, *GATE, option)
    assert pytest.ExitCode.OK != again.ret
    assert missed("1 missing") == last(again)


@pytest.mark.parametrize("spread", [SERIAL, PARALLEL], ids=["serial", "-n 1"])
def test_last_failed_leaves_out_a_file_that_has_no_failure_until_the_file_is_gone(
    two_files, ends, pytester, spread
):
    two_files(*GATE)
    failing = FAST.format(gpu=SLOWER)
    ends(failing, *GATE).assert_outcomes(passed=1, failed=1)
    again = ends(failing, *GATE, "--lf", *spread)
    assert left_out("--lf") == last(again)
    (pytester.path / "sub" / "test_other.py").unlink()
    gone = ends(failing, *GATE, "--lf", *spread)
    assert missed("1 missing") == last(gone)


def test_last_failed_may_run_nothing_where_nothing_has_failed(two_files):
    result = two_files("--lf", "--lfnf=none", ini=INI_GATE)
    assert pytest.ExitCode.NO_TESTS_COLLECTED == result.ret
    assert left_out("--lf", 2) == last(result)


def test_a_rerun_takes_the_loss_back(held):
    pytest.importorskip("pytest_rerunfailures", reason="the extra `test` has pytest-rerunfailures")
    flaky = BARE.replace("import pytest\n", "import pytest\nruns = []\n").replace(
        "    return", "    runs.append(1)\n    gpu = 1e-3 if len(runs) > 2 else 2e-3\n    return"
    )
    result = held(BARE, "--reruns=1", then=flaky.replace("{gpu}", "gpu"))
    assert pytest.ExitCode.OK == result.ret
    assert {("test_bare", "speedup"): "not_regressed"} == outcomes(result)


def test_each_metric_has_its_own_tolerance(ends):
    source = """
import pytest

@pytest.mark.speedup
def test_it(device):
    a = device.asarray([1.0] * 1000)
    return lambda: device.launch({gpu})
"""

    def run(metrics, *options, slower=None):
        tolerances = (f"--gpuperf-fail-on={metric}:10%" for metric in metrics.split())
        before, later = '20e-3 if device.kind == "cpu" else 2e-3', f'1.3 if device.kind == "{slower}" else 1'
        asked = ("--gpuperf-baseline=base.json", *tolerances, *options)
        return ends(source, *asked, gpu=f"({before}) * ({later})")

    create = "--gpuperf-baseline-missing=create"
    assert pytest.ExitCode.OK == run("gpu_time cpu_time latency with_copies memory", create).ret
    of_gpu = {"gpu_time": "GPU time", "latency": "speedup by latency", "with_copies": "speedup with copies"}
    for slower, lost, kept in [
        ("gpu", of_gpu, "cpu_time memory"),
        ("gpu", {}, "cpu_time memory"),
        ("cpu", {"cpu_time": "CPU time"}, "gpu_time"),
        ("cpu", {}, "gpu_time"),
    ]:
        result = run(" ".join([*lost, kept]), slower=slower)
        case = (slower, lost, kept)
        assert bool(lost) == (result.ret == pytest.ExitCode.TESTS_FAILED), case
        expected = {
            metric: "regressed" if metric in lost else "not_regressed" for metric in [*lost, *kept.split()]
        }
        assert expected == {metric: outcome for (_, metric), outcome in outcomes(result).items()}, case
        for told in lost.values():
            result.stdout.fnmatch_lines([f"{told} got worse: *"])


def test_a_test_that_nobody_marked_fails_for_what_it_lost(suite):
    source = """
@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_it(device):
    conftest.LIBRARIES[device].ones(3 if device == "cpu" else {n})
"""
    launch = "\n    LIBRARIES['gpu'].ones = lambda n: BACKEND.gpu('').launch(n * 1e-3)"
    options = ("--gpuperf-all", "--gpuperf-gpu=cupy", *GATE)
    made = suite(source.format(n=1), *options, "--gpuperf-baseline-missing=create", conftest=launch)
    made.ended(passed=2)
    lost = suite(source.format(n=2), *options, conftest=launch)
    lost.ended(passed=1, failed=1)


WATCHED = """
@pytest.mark.parametrize("device", ["cpu", "gpu"])
@pytest.mark.parametrize("n", [1, 2])
def test_it(device, n):
    conftest.LIBRARIES[device].ones(n)
"""
CALLS = """
    import os, time
    calls = []

    def ones(n):
        calls.append(n)
        {then}
        BACKEND.gpu("").launch(1e-3)

    LIBRARIES["gpu"].ones = ones
    LIBRARIES["cpu"].ones = lambda n: BACKEND.cpu().launch(10e-3)
"""


@pytest.mark.parametrize(
    ("then", "reason"),
    [
        ("time.sleep(0.3 if n == 2 else 0)", "one call takes 0.* s, more than an eighth of *"),
        ("assert n == 1 or calls.count(2) < 2, 'not twice'", "AssertionError: not twice*"),
    ],
    ids=["too slow", "fails when called again"],
)
def test_a_test_that_nobody_marked_fails_when_it_cannot_be_measured_any_more(suite, then, reason):
    options = ("--gpuperf-all", "--gpuperf-gpu=cupy", "--gpuperf-max-time=2", *GATE)
    made = suite(WATCHED, *options, "--gpuperf-baseline-missing=create", conftest=CALLS.format(then="pass"))
    made.ended(passed=4)
    lost = suite(WATCHED, *options, conftest=CALLS.format(then=then))
    lost.ended(passed=3, failed=1)
    lost.says(f"the regression check has no valid measurement: {reason}")


# Doubt is no failure


NOISY = """
import itertools, pytest

TIMES = itertools.cycle([5e-3, 20e-3, 10e-3, 40e-3, 2e-3])

@pytest.mark.speedup
def test_bare(device):
    return lambda: device.launch(next(TIMES) if device.kind == "cpu" else {gpu})
"""


def test_a_noisy_baseline_fails_a_good_run_only_where_doubt_does_and_says_last_that_nothing_was_decided(
    held, ends
):
    result = held(NOISY, then=BARE, gpu=1.4e-3)
    assert pytest.ExitCode.OK == result.ret
    assert {("test_bare", "speedup"): "inconclusive"} == outcomes(result)
    result.stdout.fnmatch_lines(["*InconclusiveWarning*speedup is inconclusive*recreate it with *fail-on*"])
    nothing = "the regression check decided nothing: every comparison is inconclusive"
    _, _, below = " ".join(str(result.stdout).split()).rpartition("baseline base.json of ")
    assert f"{nothing} (1 comparison)" in below
    strict = ends(BARE, *GATE, "--gpuperf-strict", gpu=1.4e-3)
    assert pytest.ExitCode.TESTS_FAILED == strict.ret
    strict.stdout.fnmatch_lines([f"FAILED: {nothing}*"])
    ends(BARE, *GATE, "--gpuperf-fail=doubt", gpu=1.4e-3).assert_outcomes(failed=1)


# Comparable or not


def edit_baseline(pytester, change):
    path = pytester.path / "base.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def on_another_machine(content):
    content["environment"]["cpu"]["name"] = "another processor"
    for record in content["records"]:
        record["gpu"]["device"]["name"] = "another GPU"


def test_another_machine_is_not_compared_and_warns_once_and_fails_with_strict(ends, made, pytester):
    made(FAST + BARE)
    edit_baseline(pytester, on_another_machine)
    result = ends(FAST + BARE, *GATE, gpu=SLOWER)
    result.assert_outcomes(passed=2, warnings=1)
    assert {"not_comparable"} == {*outcomes(result).values()}
    result.stdout.fnmatch_lines(
        ["*NotComparableWarning: not comparable with the baseline base.json: *CPU: another processor in*"]
    )
    found = result.report["records"][0]["comparisons"][0]["differences"]
    assert "GPU: another GPU in the baseline, simulated GPU now" in found
    ends(FAST + BARE, *GATE, "--gpuperf-strict").assert_outcomes(failed=2)


def test_other_work_is_not_compared(ends, pytester):
    source = """
import numpy as np
import pytest

@pytest.mark.speedup
def test_it(device):
    a = device.asarray(np.ones({gpu}))
    return lambda: a + 1
"""
    ends(source, *CREATE, gpu=1000)
    result = ends(source, *GATE, gpu=2000)
    assert pytest.ExitCode.OK == result.ret
    assert [f"{side} shapes: 1000 in the baseline, 2000 now" for side in ("CPU", "GPU")] == sorted(
        result.report["records"][0]["comparisons"][0]["differences"]
    )


def test_of_a_folder_the_newest_report_of_such_a_machine_is_taken(ends, pytester):
    folder = pytester.mkdir("kept")
    for number, change in enumerate([lambda content: None, lambda content: None, on_another_machine]):
        ends(BARE, *CREATE, gpu=[2e-3, 1e-3, 1e-3][number])
        edit_baseline(
            pytester,
            lambda content, number=number, change=change: (
                change(content),
                content.update(started=f"2026-01-0{number + 1}T00:00:00+00:00"),
                content["environment"]["gpu"].update(name="another GPU" if number == 2 else "simulated GPU"),
            ),
        )
        (pytester.path / "base.json").rename(folder / f"{9 - number}.json")
    result = ends(BARE, "--gpuperf-baseline=kept", "--gpuperf-fail-on=speedup:10%")
    assert ("kept/8.json", {"not_regressed"}) == (
        result.report["gate"]["baseline"],
        {*outcomes(result).values()},
    )


# Never a false green


@pytest.mark.parametrize("spread", [SERIAL, PARALLEL], ids=["serial", "-n 1"])
def test_a_run_without_any_speedup_test_fails(held, spread):
    result = held(BARE, *spread, "--gpuperf-allow=missing", then="def test_it(): pass\n")
    assert pytest.ExitCode.TESTS_FAILED == result.ret
    result.stdout.fnmatch_lines(["FAILED: nothing was measured: no test with a speedup marker ran"])


HOST = """
import numpy as np
import pytest

@pytest.mark.speedup(min=0.001, max_time=1)  # seconds of real time, where the simulated clock is not used
def test_host(device):
    a = device.asarray(np.ones(3))
    return lambda: a + 1
"""


def test_a_run_in_which_every_test_was_skipped_fails(held):
    result = held(HOST, device="none")
    result.assert_outcomes(skipped=1)
    assert pytest.ExitCode.TESTS_FAILED == result.ret
    result.stdout.fnmatch_lines(
        ["FAILED: every test of the regression check was skipped (1): *; on a runner without a GPU pass *"]
    )


@pytest.mark.parametrize("spread", [SERIAL, PARALLEL], ids=["serial", "-n 1"])
def test_a_runner_without_a_gpu_may_say_so(held, spread):
    assert pytest.ExitCode.OK == held(HOST, *spread, "--gpuperf-allow=no-gpu", device="none").ret


def test_where_a_gpu_is_used_a_skip_for_another_reason_is_not_excused(held):
    source = HOST.replace("    return", "    pytest.skip('not today')\n    return")
    result = held(HOST, "--gpuperf-allow=no-gpu", then=source)
    assert pytest.ExitCode.TESTS_FAILED == result.ret
    result.stdout.fnmatch_lines(["FAILED: every test of the regression check was skipped (1): not today"])


RENAMED = BARE.replace("test_bare", "test_bear")


@pytest.mark.parametrize(
    ("later", "options"),
    [
        (FAST + RENAMED, ()),
        (FAST + BARE.replace("@pytest.mark.speedup", ""), ()),
        (FAST + RENAMED, ("-k", "fast")),
    ],
    ids=["renamed", "unmarked", "renamed, with -k"],
)
def test_a_test_of_the_baseline_that_did_not_run_fails(held, later, options):
    result = held(FAST + BARE, *options, then=later)
    assert missed("1 missing") == last(result)
    assert pytest.ExitCode.TESTS_FAILED == result.ret
    result.stdout.fnmatch_lines(
        ["FAILED: 1 of the baseline's tests did not run: test_it.py::test_bare; renamed, unmarked or *"]
    )
    assert 1 == len(result.report["gate"]["failures"])


BOTH = """
import pytest

def call(device): return device.launch(10e-3 if device.kind == "cpu" else 1e-3)

@pytest.mark.speedup
def test_fast(gpuperf): gpuperf.both(call)

@pytest.mark.speedup
def test_bare(gpuperf): gpuperf.both(call)
"""
UNMARKED = BOTH.replace("@pytest.mark.speedup\ndef test_bare", "def test_bare")


@pytest.mark.parametrize(
    "options",
    [("-m", "speedup"), ("-k", "fast"), ("-m", "speedup", "--gpuperf-all")],
    ids=["-m", "-k", "-m, --gpuperf-all"],
)
def test_a_test_that_lost_its_marker_is_missed_although_an_option_deselects_it(held, options):
    result = held(BOTH, *options, then=UNMARKED)
    assert missed("1 missing") == last(result)
    assert pytest.ExitCode.TESTS_FAILED == result.ret


def test_a_gate_of_the_ini_file_fails_when_all_of_its_tests_have_lost_their_markers(made, ends, pytester):
    made(BOTH)
    pytester.makeini(f"[pytest]\n{INI_GATE}\n")
    unmarked = BOTH.replace("@pytest.mark.speedup", "")
    result = ends(unmarked + BARE.replace("test_bare", "test_new"), "-m", "speedup")
    assert pytest.ExitCode.TESTS_FAILED == result.ret
    assert missed("2 missing", "2 of 2") == last(result)


MARKS_LATE = """
import pytest
def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker(pytest.mark.speedup)
"""


@pytest.mark.parametrize(
    ("conftest", "option"), [(MARKS_LATE, "-v"), ("", "--gpuperf-all")], ids=["marked late", "--gpuperf-all"]
)
def test_a_test_without_a_marker_of_its_own_is_left_out_by_the_option_that_deselects_it(
    ends, pytester, conftest, option
):
    pytester.makeconftest(conftest)
    pytester.makeini(f"[pytest]\n{INI_GATE}\n")
    source = (FAST + BARE).replace("@pytest.mark.speedup(min=3)", "").replace("@pytest.mark.speedup", "")
    assert pytest.ExitCode.OK == ends(source, option, "--gpuperf-baseline-missing=create").ret
    result = ends(source, option, "-k", "fast")
    assert pytest.ExitCode.OK == result.ret
    assert left_out("-k") == last(result)


def test_a_test_may_be_missing_where_that_is_said(held):
    assert pytest.ExitCode.OK == held(FAST + BARE, "--gpuperf-allow=missing", "-k", "fast").ret


def test_a_file_that_was_renamed_is_missed(held, pytester):
    held(FAST)
    (pytester.path / "test_it.py").rename(pytester.path / "test_other.py")
    result = pytester.runpytest_inprocess("--gpuperf-gpu=simulated", *GATE)
    assert pytest.ExitCode.TESTS_FAILED == result.ret
    result.stdout.fnmatch_lines(
        [
            "FAILED: the baseline base.json has none of the tests that were measured (1); node ids are *",
            "FAILED: 1 of the baseline's tests did not*",
        ]
    )


@pytest.fixture
def two_files(ends, pytester):
    """Make two files with a test each, and their baseline; then run them against it."""
    (pytester.mkdir("sub") / "test_other.py").write_text(BARE.format(gpu=BEFORE), encoding="utf-8")
    path = pytester.path / "base.json"
    if "two files" in MADE:
        path.write_bytes(MADE["two files"])
    else:
        assert pytest.ExitCode.OK == ends(FAST, *CREATE).ret
        MADE["two files"] = path.read_bytes()

    def call(*options, ini="", conftest=""):
        pytester.makeini(f"[pytest]\n{ini}\n")
        pytester.makeconftest(conftest)
        return ends(FAST, *options)

    return call


INI_GATE = "gpuperf_baseline = base.json\ngpuperf_fail_on = speedup:10%"


@pytest.mark.parametrize(
    ("ini", "conftest", "told"),
    [
        ("", "collect_ignore = ['sub/test_other.py']", ""),
        ("", "collect_ignore_glob = ['sub/*']", ""),
        ("", "def pytest_ignore_collect(collection_path): return collection_path.name == 'sub' or None", ""),
        ("python_files = test_it.py", "", ""),
        ("norecursedirs = sub", "", ""),
        ("addopts = --ignore=sub", "", ""),
        ("addopts = --ignore-glob=*other*", "", ""),
        ("testpaths = test_it.py", "", " (testpaths)"),
        ("addopts = test_it.py", "", " (paths)"),
        ("addopts = -k fast", "", " (-k)"),
    ],
    ids=lambda value: value.partition(" ")[0] if " = " in value or "def" in value else "",
)
def test_a_test_that_configuration_hides_is_missed(two_files, ini, conftest, told):
    result = two_files(*GATE, ini=ini, conftest=conftest)
    result.assert_outcomes(passed=1, deselected=int("-k" in told))
    assert pytest.ExitCode.TESTS_FAILED == result.ret
    result.stdout.fnmatch_lines(["FAILED: 1 of the baseline's tests was left out by configuration*"])
    assert missed(f"1 left out by configuration{told}") == last(result)


HIDES_OTHER = """
def pytest_collection_modifyitems(config, items):
    other = [item for item in items if item.name == "test_bare"]
    items[:] = [item for item in items if item not in other]
    config.hook.pytest_deselected(items=other)
"""


@pytest.mark.parametrize(
    ("ini", "conftest", "options", "told"),
    [
        ("", HIDES_OTHER, ["-k", "not slow"], ""),
        ("", HIDES_OTHER, ["-m", "speedup"], ""),
        ("", HIDES_OTHER, ["--lf"], ""),
        ("addopts = -k 'not test_bare'", "", ["-m", "speedup"], " (-k)"),
        ("", "def pytest_configure(config): config.option.keyword = 'fast'", ["-k", "not slow"], " (-k)"),
        ("addopts = -k 'not test_bare'", "", ["-m", "speedup", *PARALLEL], " (-k)"),
    ],
    ids=["-k", "-m", "--lf", "addopts", "changed by a conftest", "addopts, in workers"],
)
def test_options_that_do_not_exclude_a_test_hide_no_configuration_that_does(
    two_files, ini, conftest, options, told
):
    result = two_files(*options, ini=f"{INI_GATE}\n{ini}", conftest=conftest)
    assert pytest.ExitCode.TESTS_FAILED == result.ret
    assert missed(f"1 left out by configuration{told}") == last(result)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["-k", "fast"], "-k"),
        (["-vkfast"], "-k"),
        (["-m", "not speedup or speedup(min=3)"], "-m"),
        (["--deselect=sub/test_other.py::test_bare"], "--deselect"),
        (["test_it.py"], "paths"),
        (["test_it.py::test_fast"], "paths"),
        (["--ignore=sub"], "--ignore"),
        (["--ignore-glob=sub/*"], "--ignore-glob"),
    ],
    ids=lambda value: value[0].partition("=")[0] if isinstance(value, list) else "",
)
def test_what_a_command_line_leaves_out_on_purpose_passes_and_is_told_last(two_files, options, told):
    result = two_files(*options, ini=INI_GATE)
    assert pytest.ExitCode.OK == result.ret
    assert left_out(told) == last(result)
    (absent,) = result.report["gate"]["absent"]
    assert ("command_line", [told], ["sub/test_other.py::test_bare"]) == tuple(absent.values())


OTHER_OPTIONS = """
import argparse

class Counted(argparse.Action):
    calls = []
    def __call__(self, parser, namespace, values, option_string=None):
        self.calls.append(values)
        setattr(namespace, self.dest, values)

def pytest_addoption(parser):
    parser.addoption("--backend", required=True)
    parser.addoption("--group", action=Counted)

def pytest_sessionfinish(session):
    session.config.pluginmanager.get_plugin("terminalreporter").write_line(f"calls: {Counted.calls}")
"""


def test_options_of_other_plugins_are_not_parsed_again(two_files):
    """They may be required, and given in addopts, and their actions may have side effects."""
    ini = f"{INI_GATE}\naddopts = --backend=a"
    result = two_files("--group", "test_it.py", "-vkfast", ini=ini, conftest=OTHER_OPTIONS)
    assert pytest.ExitCode.OK == result.ret
    result.stdout.fnmatch_lines(["calls: ['test_it.py']"])
    assert left_out("-k") == last(result)


def test_a_command_line_may_run_none_of_the_tests_of_a_gate_in_the_ini_file(two_files, pytester):
    pytester.makepyfile(test_plain="def test_it(): pass\n")
    result = two_files("test_plain.py", ini=INI_GATE)
    assert pytest.ExitCode.OK == result.ret
    assert left_out("paths", 2) == last(result)
    assert pytest.ExitCode.TESTS_FAILED == two_files("test_plain.py", *GATE).ret


def test_in_workers_it_is_told_who_left_a_test_out(two_files):
    result = two_files("-k", "fast", *PARALLEL, ini=INI_GATE)
    assert pytest.ExitCode.OK == result.ret
    assert left_out("-k") == last(result)
    hidden = two_files(*PARALLEL, ini=INI_GATE, conftest="collect_ignore = ['sub']")
    assert pytest.ExitCode.TESTS_FAILED == hidden.ret
    assert missed("1 left out by configuration") == last(hidden)


def test_strict_fails_what_a_command_line_leaves_out(two_files):
    result = two_files("-k", "fast", "--gpuperf-strict", ini=INI_GATE)
    assert pytest.ExitCode.TESTS_FAILED == result.ret
    result.stdout.fnmatch_lines(
        ["FAILED: 1 of the baseline's tests was left out by the command line (-k), which --gpuperf-strict *"]
    )


def test_other_files_are_not_missed(ends, pytester):
    pytester.makepyfile(test_other=BARE.format(gpu=BEFORE))
    assert pytest.ExitCode.OK == ends(FAST, *CREATE).ret
    assert pytest.ExitCode.OK == ends(FAST, *GATE, "test_it.py").ret
    assert pytest.ExitCode.OK == ends(FAST + BARE, *GATE, "test_it.py::test_fast").ret


@pytest.mark.parametrize("spread", [SERIAL, PARALLEL], ids=["serial", "-n 1"])
def test_off_measures_nothing_and_so_refuses_a_gate(held, spread):
    result = held(BARE, "--gpuperf-off", *spread)
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    result.stderr.fnmatch_lines(["*--gpuperf-off measures nothing, so --gpuperf-fail-on could never*"])


def test_in_workers_losses_missing_tests_and_a_crash_fail_as_in_one_process(ends, pytester):
    """The controller itself has run and collected no test."""
    folder = pytester.mkdir("sub")
    (folder / "test_sub.py").write_text(BARE.format(gpu=BEFORE), encoding="utf-8")
    gone, crash = (BARE.replace("test_bare", name) for name in ("test_gone", "test_crash"))
    kept = BARE.format(gpu=BEFORE).replace("test_bare", "test_kept")
    assert pytest.ExitCode.OK == ends(FAST + BARE + kept + gone + crash, *CREATE).ret
    before = (pytester.path / "base.json").read_bytes()
    (folder / "conftest.py").write_text(SKIPS, encoding="utf-8")
    crash = crash.replace("    return", "    import os\n    os._exit(3)\n    return")
    result = ends(FAST + BARE + kept + crash, *CREATE, *PARALLEL, gpu=SLOWER)
    result.assert_outcomes(passed=1, failed=3, skipped=1)
    assert pytest.ExitCode.TESTS_FAILED == result.ret
    result.stdout.fnmatch_lines(
        [
            "speedup got worse: 7.97x [[]7.89, 8.05], baseline 9.95x [[]9.85, 10.0]: -19.9 % [[]*, *], *",
            "test_fast * >=3x * -20 % * regressed",
            "baseline base.json of * (tolerance: speedup 10 %): 2*",
            "FAILED: 1 of the baseline's tests did not run: sub/test_sub.py::*; its file or folder skipped *",
            "FAILED: 1 of the baseline's tests did not run: test_it.py::test_gone; renamed, *",
            "FAILED: test_it.py::test_crash was lost when its process crashed: *",
        ]
    )
    assert {"test_fast": "regressed", "test_bare": "regressed", "test_kept": "not_regressed"} == {
        name: outcome for (name, _), outcome in outcomes(result).items()
    }
    statuses = sorted(record["status"] for record in result.report["records"])
    assert ["error", "passed", "recorded", "recorded"] == statuses
    result.stdout.no_fnmatch_line("new baseline: *")
    assert before == (pytester.path / "base.json").read_bytes()


@pytest.mark.parametrize(
    ("said", "work"),
    [
        ("*", "__import__('numpy').ones(3) + 1"),
        ("the devices disagree: *", "a + (device.kind == 'gpu')"),
    ],
)
def test_a_measurement_that_is_not_valid_fails_although_nothing_was_demanded(held, said, work):
    kept = FAST + HOST.replace("(min=0.001, max_time=1)", "")
    result = held(kept, then=kept.replace("a + 1", work))
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines([f"the regression check has no valid measurement: {said}"])


def test_a_metric_that_no_test_has_any_more_fails_beside_one_that_all_have(suite):
    source = """
@pytest.mark.speedup
@pytest.mark.parametrize("xp", ["numpy", "cupy"])
def test_it(xp):
    if xp == "cupy" and {skips}: pytest.skip("not today")
    conftest.LIBRARIES[xp].ones(3)
"""
    launch = """
    numpy.ones = lambda n: BACKEND.cpu().launch(10e-3)
    cupy.ones = lambda n: BACKEND.gpu("").launch(1e-3)
"""
    options = ("--gpuperf-gpu=cupy", *GATE, "--gpuperf-fail-on=cpu_time:20%")
    made = suite(source.format(skips=False), *options, "--gpuperf-baseline-missing=create", conftest=launch)
    made.ended(passed=2)
    lost = suite(source.format(skips=True), *options, conftest=launch)
    assert pytest.ExitCode.TESTS_FAILED == lost.result.ret
    lost.says("FAILED: no speedup was measured (1 test): test_it.py::test_it[[]cupy]: not today")


def test_a_run_that_ends_itself_as_a_success_fails(held):
    result = held(FAST + BARE, then=FAST + "\ndef test_exit(): pytest.exit('enough', returncode=0)\n" + BARE)
    assert pytest.ExitCode.TESTS_FAILED == result.ret
    result.stdout.fnmatch_lines(
        ["FAILED: the session ended before 1 test of the regression check could run: test_it.py::test_bare"]
    )


def test_a_run_that_ended_before_its_first_test_is_not_told_to_allow_it(held):
    result = held(BARE, "-x", then="def test_first(): assert False\n" + BARE)
    result.stdout.fnmatch_lines(["FAILED: nothing was measured: no test with a speedup marker ran"])
    result.stdout.no_fnmatch_line("*--gpuperf-allow=no-gpu*")


@pytest.mark.parametrize("option", ["--lf", "--sw"])
def test_running_what_failed_before_misses_a_test_where_none_has(held, pytester, option):
    result = held(FAST + BARE, option, then=FAST + RENAMED)
    assert pytest.ExitCode.TESTS_FAILED == result.ret
    result.stdout.fnmatch_lines(["FAILED: 1 of the baseline's tests did not run: test_it.py::test_bare; *"])


IN_A_CLASS = """
import pytest

@pytest.mark.speedup
class TestIt:
    @pytest.mark.parametrize("n", {sizes})
    def test_bare(self, device, n):
        return lambda: device.launch(10e-3 if device.kind == "cpu" else 1e-3)
"""


@pytest.mark.parametrize(
    "asked",
    ["{path}/../{path.name}", "../{path.name}-link", "test_it.py::TestIt", "test_it.py::TestIt::test_bare"],
    ids=["dots", "link", "class", "test"],
)
def test_a_test_is_missed_however_the_command_line_names_its_place(held, pytester, asked):
    path = pytester.path
    (path.parent / f"{path.name}-link").symlink_to(path)
    made, later = (IN_A_CLASS.replace("{sizes}", sizes) for sizes in ("[1, 2]", "[1, 3]"))
    result = held(made, f"--rootdir={path}", asked.format(path=path), then=later)
    assert pytest.ExitCode.TESTS_FAILED == result.ret
    result.stdout.fnmatch_lines(["FAILED: 1 of the baseline's tests did not run: *TestIt::test_bare[[]2]; *"])


@pytest.fixture
def package(ends, pytester, monkeypatch):
    """Make a package with two test modules, and their baseline; return how it is run from another folder."""
    folder = pytester.mkpydir("a_package")
    for name in ("fast", "bare"):
        source = BARE.replace("test_bare", f"test_{name}").format(gpu=BEFORE)
        (folder / f"test_{name}.py").write_text(source, encoding="utf-8")
    pytester.syspathinsert()
    assert pytest.ExitCode.OK == ends(None, *CREATE).ret
    monkeypatch.chdir(pytester.mkdir("elsewhere"))
    gate = (f"--gpuperf-baseline={pytester.path / 'base.json'}", "--gpuperf-fail-on=speedup:10%")
    return lambda *options: ends(None, f"--rootdir={pytester.path}", *gate, "--pyargs", *options)


@pytest.mark.parametrize(
    ("hide", "told"),
    [
        (lambda folder: (folder / "test_bare.py").rename(folder / "test_bear.py"), "1 missing"),
        (
            lambda folder: (folder / "conftest.py").write_text("collect_ignore = ['test_bare.py']"),
            "1 left out by configuration",
        ),
    ],
    ids=["renamed", "ignored"],
)
def test_a_file_of_an_installed_package_that_is_not_collected_is_missed(package, pytester, hide, told):
    hide(pytester.path / "a_package")
    result = package("a_package")
    assert pytest.ExitCode.TESTS_FAILED == result.ret
    assert missed(told) == last(result)


def test_a_module_of_an_installed_package_may_be_run_alone(package):
    result = package("a_package.test_fast")
    assert pytest.ExitCode.OK == result.ret
    assert left_out("paths") == last(result)


SKIPS = "import pytest\npytest.importorskip('no_such')\n"


@pytest.mark.parametrize("file", ["conftest.py", "test_sub.py"], ids=["folder", "file"])
def test_what_skips_itself_is_missed_and_called_so(ends, pytester, file):
    folder = pytester.mkdir("sub")
    (folder / "test_sub.py").write_text(BARE.format(gpu=BEFORE), encoding="utf-8")
    assert pytest.ExitCode.OK == ends(FAST, *CREATE).ret
    (folder / file).write_text(SKIPS, encoding="utf-8")
    result = ends(FAST, *GATE)
    assert pytest.ExitCode.TESTS_FAILED == result.ret
    result.stdout.fnmatch_lines(
        ["FAILED: 1 of the baseline's tests did not run: sub/test_sub.py::*; its file or folder skipped *"]
    )
    assert last(result).endswith("1 in a file or folder that skipped itself")


# What cannot be asked


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "*base.json does not exist; --gpuperf-baseline-missing=create creates one"),
        ("", "*base.json*not JSON*"),
        (
            '{"schema_version": "2.0"}',
            "*base.json: its schema_version 2.0 is newer than *; update pytest-gpuperf",
        ),
        ('{"schema_version": "1.0"}', "*base.json: it breaks its schema*"),
    ],
)
def test_a_baseline_that_cannot_be_read_ends_the_run_before_the_first_test(ends, pytester, content, message):
    if content is not None:
        (pytester.path / "base.json").write_text(content, encoding="utf-8")
    result = ends(BARE, *GATE)
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    result.stderr.fnmatch_lines([f"ERROR: --gpuperf-baseline: {message}"])
    assert result.report is None


def test_a_baseline_that_measured_nothing_ends_the_run(ends, pytester):
    ends(HOST, device="none")
    (pytester.path / "report.json").rename(pytester.path / "base.json")
    result = ends(HOST, *GATE)
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    result.stderr.fnmatch_lines(["*base.json has no test with a speedup to compare with*"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gpuperf-fail-on=speedup:10%"], "fail-on requires --gpuperf-baseline"),
        (
            [*GATE, "--gpuperf-fail-on=speed:10%"],
            "'speed' is not a metric; expected one of speedup, gpu_time, cpu_time,",
        ),
        ([*GATE, "--gpuperf-fail-on=gpu_time:nan%"], "'gpu_time:nan%': expected METRIC:PERCENT"),
        (
            ["--gpuperf-baseline=base.json", "--gpuperf-fail-on=improvement"],
            "improvement needs a tolerance",
        ),
        (
            ["--gpuperf-baseline=none", "--gpuperf-fail-on=speedup:10%"],
            "fail-on requires --gpuperf-baseline",
        ),
        ([*GATE, "--gpuperf-fail-on=speedup:20%"], "speedup has two tolerances; keep one"),
        (["--gpuperf-baseline-missing=create"], "baseline-missing requires --gpuperf-baseline"),
        ([*GATE, "--gpuperf-baseline-missing=maybe"], "'maybe' is not one of fail, create"),
        (["--gpuperf-export=xml:x"], "'xml' is not an export format; use one of pytest-benchmark,"),
        (["--gpuperf-export=csv"], "'csv' names no file; expected csv:PATH"),
        (["--gpuperf-markdown=notes.md/x.md"], "notes.md is not a folder"),
        (["--gpuperf-markdown=notes.md"], "notes.md exists and is not a "),
        (["--gpuperf-history=notes.md"], "notes.md is not a folder"),
    ],
)
def test_what_cannot_be_asked_ends_the_run_before_the_first_test(ends, pytester, options, message):
    (pytester.path / "notes.md").write_text("# My notes\n", encoding="utf-8")
    result = ends(BARE, *options)
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    result.stderr.fnmatch_lines([f"ERROR: --gpuperf-*{message.replace('[', '[[]')}*"])
    assert "# My notes\n" == (pytester.path / "notes.md").read_text(encoding="utf-8")


def test_the_ini_file_asks_for_the_same(held, ends, pytester):
    held(BARE)
    pytester.makeini("[pytest]\ngpuperf_baseline = base.json\ngpuperf_fail_on = memory:5% speedup:10%\n")
    result = ends(BARE, gpu=SLOWER)
    result.assert_outcomes(failed=1)
    assert ["memory", "speedup"] == [each["metric"] for each in result.report["gate"]["tolerances"]]


def test_the_command_line_turns_off_what_the_ini_file_asks_for(ends, pytester):
    pytester.makeini("[pytest]\ngpuperf_baseline = gone.json\ngpuperf_fail_on = speedup:10%\n")
    assert pytest.ExitCode.USAGE_ERROR == ends(BARE).ret
    assert pytest.ExitCode.OK == ends(BARE, "--gpuperf-baseline=none").ret


def test_measuring_that_the_ini_file_turns_off_refuses_a_gate_too(held, ends, pytester):
    held(BARE)
    pytester.makeini("[pytest]\ngpuperf_off = true\n")
    assert pytest.ExitCode.USAGE_ERROR == ends(BARE, *GATE).ret
    result = ends(BARE, "--gpuperf-require-gpu")
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    result.stderr.fnmatch_lines(["*--gpuperf-off measures nothing, so --gpuperf-require-gpu could never*"])


def test_measuring_that_the_environment_turns_off_refuses_a_required_gpu(ends, monkeypatch):
    monkeypatch.setenv("PYTEST_ADDOPTS", "--gpuperf-off")
    assert pytest.ExitCode.USAGE_ERROR == ends(BARE, "--gpuperf-require-gpu").ret


def test_paths_of_the_ini_file_start_at_its_folder(held, ends, pytester, monkeypatch):
    held(BARE)
    ini = "gpuperf_baseline = base.json\ngpuperf_fail_on = speedup:10%\ngpuperf_markdown = summary.md\n"
    pytester.makeini(f"[pytest]\n{ini}")
    monkeypatch.chdir(pytester.mkdir("below"))
    result = ends(None, "../test_it.py", "--gpuperf-json=../below/other.json")
    assert pytest.ExitCode.OK == result.ret
    assert (pytester.path / "summary.md").exists()
    assert (pytester.path / "below" / "other.json").exists()


# The baseline is made


def test_what_a_slow_workload_lost_is_found_too(ends):
    slow = (BARE + FAST.replace("min=3", "min=0.1")).replace("10e-3", "0.2")
    ends(slow, *CREATE, gpu=0.2).assert_outcomes(passed=2)
    ends(slow, *CREATE, gpu=0.2).assert_outcomes(passed=2)
    ends(slow, *CREATE, gpu=0.4).assert_outcomes(failed=2)


def test_what_a_slow_workload_lost_in_another_metric_is_found_too(ends):
    asked = (
        "--gpuperf-baseline=base.json",
        "--gpuperf-fail-on=gpu_time:20%",
        "--gpuperf-fail-on=latency:20%",
    )
    slow = BARE.replace("10e-3", "0.05")
    ends(slow, *asked, "--gpuperf-baseline-missing=create", gpu=0.05).assert_outcomes(passed=1)
    result = ends(slow, *asked, gpu=0.1)
    result.assert_outcomes(failed=1)
    assert {("test_bare", metric): "regressed" for metric in ("gpu_time", "latency")} == outcomes(result)


@pytest.mark.parametrize("spread", [SERIAL, PARALLEL], ids=["serial", "-n 1"])
def test_a_missing_baseline_is_made(ends, pytester, spread):
    result = ends(BARE, *CREATE, *spread)
    assert pytest.ExitCode.OK == result.ret
    result.stdout.fnmatch_lines(["new baseline: *base.json"])
    assert (pytester.path / "base.json").exists()


def test_a_baseline_is_not_made_again(ends, made, pytester):
    made(BARE)
    before = (pytester.path / "base.json").read_bytes()
    ends(BARE, *CREATE).stdout.no_fnmatch_line("new baseline: *")
    assert before == (pytester.path / "base.json").read_bytes()


def test_a_folder_gets_a_report_of_its_own(ends, pytester):
    pytester.mkdir("kept")
    assert pytest.ExitCode.OK == ends(BARE, *KEPT).ret
    assert 1 == len([*(pytester.path / "kept").iterdir()])
    ends(BARE, *KEPT, gpu=SLOWER).assert_outcomes(failed=1)


def test_a_folder_that_is_not_there_is_made_for_its_first_baseline(ends, pytester):
    asked = ("--gpuperf-baseline=kept/", *CREATE[1:])
    watched = BARE.replace("import pytest\n", "import pathlib, pytest\n").replace(
        "    return", "    assert not pathlib.Path('kept').exists()\n    return"
    )
    result = ends(watched, *asked)
    assert pytest.ExitCode.OK == result.ret
    result.stdout.fnmatch_lines(["new baseline: *kept*.json"])
    assert [".json"] == [path.suffix for path in (pytester.path / "kept").iterdir()]
    ends(BARE, *asked, gpu=SLOWER).assert_outcomes(failed=1)


def test_a_run_that_measured_nothing_makes_no_folder(ends, pytester):
    assert pytest.ExitCode.TESTS_FAILED == ends("def test_it(): pass\n", *KEPT).ret
    assert not (pytester.path / "kept").exists()


def test_a_folder_that_could_not_be_made_ends_the_run_before_the_first_test(ends, pytester):
    result = ends(BARE, "--gpuperf-baseline=test_it.py/kept", "--gpuperf-baseline-missing=create")
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    result.stderr.fnmatch_lines(
        ["ERROR: --gpuperf-baseline: *test_it.py is not a folder; choose another place"]
    )


@pytest.mark.parametrize("name", ["new/folder/base.json", "new/folder"])
def test_the_folders_of_a_new_baseline_are_made(ends, pytester, name):
    assert pytest.ExitCode.OK == ends(BARE, f"--gpuperf-baseline={name}", *CREATE[1:]).ret
    assert 1 == len(list((pytester.path / "new").glob("folder/*.json")))


@pytest.mark.parametrize("missing", ["create", "fail"])
def test_a_baseline_that_is_a_link_to_no_file_ends_the_run_before_the_first_test(ends, pytester, missing):
    for name, place in {"loop.json": "loop.json", "dangling.json": "nothing.json"}.items():
        (pytester.path / name).symlink_to(pytester.path / place)
        result = ends(BARE, f"--gpuperf-baseline={name}", f"--gpuperf-baseline-missing={missing}")
        assert pytest.ExitCode.USAGE_ERROR == result.ret
        result.stderr.fnmatch_lines([f"ERROR: *{name} cannot be used: it is a link that leads to no file; *"])


def test_a_stray_file_in_a_folder_ends_the_run_and_can_be_moved_out(ends, pytester):
    (pytester.mkdir("kept") / "package.json").write_text("{}", encoding="utf-8")
    result = ends(BARE, "--gpuperf-baseline=kept", "--gpuperf-fail-on=speedup:10%")
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    result.stderr.fnmatch_lines(
        ["ERROR: *package.json: this is no report: *; or move the file out of the folder"]
    )


def made_elsewhere(path):
    """Make it a report of another machine."""
    content = json.loads(path.read_text(encoding="utf-8"))
    content["environment"]["cpu"]["name"] = "another processor"
    path.write_text(json.dumps(content), encoding="utf-8")


def test_a_folder_of_other_machines_gets_one_of_this_machine_beside_them(ends, pytester):
    folder = pytester.mkdir("kept")
    ends(BARE, *KEPT)
    made_elsewhere(*folder.iterdir())
    result = ends(BARE, *KEPT)
    assert pytest.ExitCode.OK == result.ret
    result.stdout.fnmatch_lines(["not comparable*: CPU: another processor in*", "new baseline: *"])
    assert 2 == len([*folder.iterdir()])
    held = ends(BARE, *KEPT, gpu=SLOWER)
    held.assert_outcomes(failed=1)
    held.stdout.no_fnmatch_line("new baseline: *")
    assert 2 == len([*folder.iterdir()])


def test_a_baseline_in_a_file_is_of_another_machine_until_it_is_made_anew(ends, made, pytester):
    made(BARE)
    path = pytester.path / "base.json"
    made_elsewhere(path)
    before = path.read_bytes()
    result = ends(BARE, *CREATE)
    assert pytest.ExitCode.OK == result.ret
    result.stdout.fnmatch_lines(["not comparable*: CPU: another processor in*"])
    assert before == path.read_bytes()


def test_without_a_gpu_a_folder_of_other_machines_stays_as_it_is(ends, pytester):
    folder = pytester.mkdir("kept")
    asked = ("--gpuperf-baseline=kept", "--gpuperf-baseline-missing=create")
    ends(BARE, *asked)
    made_elsewhere(*folder.iterdir())
    result = ends(HOST, *asked, device="none")
    assert pytest.ExitCode.OK == result.ret
    assert 1 == len([*folder.iterdir()])


@pytest.mark.parametrize(
    ("code", "source", "options", "device", "told"),
    [
        (1, "def test_it(): pass\n", (), "simulated", "the new baseline was not written: *measured nothing*"),
        (1, f"def test_first(): assert False\n{BARE}", ("-x",), "simulated", "*"),
        (1, HOST, (), "none", "the new baseline was not written: this run measured nothing*"),
        (
            0,
            HOST,
            ("--gpuperf-allow=no-gpu",),
            "none",
            "no baseline was created at *base.json: there was no GPU*",
        ),
    ],
    ids=["measured nothing", "ended early", "no GPU", "no GPU, allowed"],
)
def test_a_run_that_did_not_measure_what_the_gate_is_about_makes_no_baseline(
    ends, pytester, code, source, options, device, told
):
    result = ends(source, *CREATE, *options, device=device)
    assert code == result.ret
    result.stdout.fnmatch_lines([told])
    assert not (pytester.path / "base.json").exists()


@pytest.mark.parametrize(
    ("code", "content", "told"),
    [
        (0, None, "new baseline: * not kept, because another run has created *base.json meanwhile"),
        (1, "{}", "the new baseline was not written: *File exists*base.json*"),
    ],
    ids=["a baseline", "something else"],
)
def test_a_baseline_that_another_run_has_created_meanwhile_is_left_as_it_is(
    ends, pytester, code, content, told
):
    ends(BARE, *CREATE)
    base = pytester.path / "base.json"
    theirs = base.read_text(encoding="utf-8") if content is None else content
    base.rename(pytester.path / "theirs")
    (pytester.path / "theirs").write_text(theirs, encoding="utf-8")
    meanwhile = 'def test_other_run():\n    import shutil\n    shutil.copy("theirs", "base.json")\n'
    result = ends(f"{BARE}\n{meanwhile}", *CREATE)
    assert code == result.ret
    result.stdout.fnmatch_lines([told])
    assert theirs == base.read_text(encoding="utf-8")


# Files for others


FILES = ("--gpuperf-markdown=summary.md", "--gpuperf-export=csv:it.csv", "--gpuperf-history=kept")


def test_summary_exports_and_history_are_written_and_written_anew_by_the_next_run(ends, pytester):
    result = ends(BARE, *FILES, "--gpuperf-export=bencher:it.json")
    assert pytest.ExitCode.OK == result.ret
    assert (pytester.path / "summary.md").read_text(encoding="utf-8").startswith("### Speedups")
    assert (pytester.path / "it.csv").read_text(encoding="utf-8").startswith("test,")
    assert "test_it.py::test_bare" in json.loads((pytester.path / "it.json").read_text(encoding="utf-8"))
    assert 1 == len([*(pytester.path / "kept").iterdir()])
    result.stdout.fnmatch_lines(["summary: *summary.md", "export as csv: *it.csv", "history: *kept*"])
    assert pytest.ExitCode.OK == ends(FAST, *FILES).ret
    assert "test_fast" in (pytester.path / "it.csv").read_text(encoding="utf-8")
    assert 2 == len([*(pytester.path / "kept").iterdir()])


def test_githubs_summary_is_appended_to_and_elsewhere_none(ends, pytester, monkeypatch):
    assert pytest.ExitCode.OK == ends(BARE, "--gpuperf-markdown=github").ret
    summary = pytester.path / "step.md"
    summary.write_text("before\n", encoding="utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    ends(BARE, "--gpuperf-markdown=github")
    written = summary.read_text(encoding="utf-8")
    assert written.startswith("before\n")
    assert 1 == written.count("### Speedups")


def test_somebody_elses_json_is_not_taken_for_ours(ends, pytester):
    theirs = '{"name": "mine", "private": true}'
    for name in ("package.json", "list.json"):
        (pytester.path / name).write_text(theirs, encoding="utf-8")
    forms = ("pytest-benchmark", "github-action-benchmark", "bencher", "csv")
    for option in ("json=", "markdown=", *(f"export={form}:" for form in forms)):
        assert pytest.ExitCode.USAGE_ERROR == ends(BARE, f"--gpuperf-{option}package.json").ret
    assert theirs == (pytester.path / "package.json").read_text(encoding="utf-8")


def test_a_run_that_ended_before_it_measured_leaves_earlier_files_as_they_are(ends, pytester):
    ends(BARE, *FILES)
    before = [(pytester.path / name).read_bytes() for name in ("report.json", "summary.md", "it.csv")]
    assert pytest.ExitCode.INTERRUPTED == ends("def test_it(: pass\n", *FILES).ret
    assert before == [(pytester.path / name).read_bytes() for name in ("report.json", "summary.md", "it.csv")]
    assert 1 == len([*(pytester.path / "kept").iterdir()])


def test_a_baseline_of_cpu_times_is_made_held_and_updated(ends, pytester, monkeypatch):
    cpu = ("--gpuperf-baseline=base.json", "--gpuperf-fail-on=cpu_time:50%")
    assert pytest.ExitCode.OK == ends(HOST, *cpu, "--gpuperf-baseline-missing=create", device="none").ret
    ends(HOST, *cpu, device="none")
    monkeypatch.chdir(pytester.path)
    assert 0 == main(["baseline", "update", "--accept-regressions", "base.json", "report.json"])


def test_a_full_disk_is_told_and_the_results_are_printed_all_the_same(ends, pytester, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    result = ends(BARE, *CREATE, "--gpuperf-markdown=summary.md", "--gpuperf-export=csv:it.csv")
    assert pytest.ExitCode.TESTS_FAILED == result.ret
    result.stdout.fnmatch_lines(["test_bare * recorded"])
    for what in ("report *", "summary", "export as csv", "new baseline"):
        result.stdout.fnmatch_lines([f"the {what} was not written: *No space left on device*"])
    left = {path.suffix for path in pytester.path.iterdir() if path.is_file()}
    assert {".py", ".journal"} == left


@pytest.mark.skipif(os.name != "posix", reason="a folder that cannot be written to is made as POSIX has it")
def test_a_file_that_cannot_be_written_is_told_fails_the_run_and_loses_no_other(ends, pytester):
    source = BARE.replace("import pytest\n", "import pathlib, pytest\n").replace(
        "    return", "    pathlib.Path('out').touch()\n    return"
    )
    result = ends(source, "--gpuperf-markdown=out/summary.md", "--gpuperf-export=csv:it.csv")
    assert pytest.ExitCode.TESTS_FAILED == result.ret
    result.stdout.fnmatch_lines(
        ["test_bare *", "the summary was not written: *Not a directory*", "export as csv: *"]
    )
    assert (pytester.path / "it.csv").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gpuperf-json=base.json"], "--gpuperf-json: the next run would be compared with *base.json*"),
        (
            ["--gpuperf-export=bencher:./base.json"],
            "--gpuperf-export: *base.json exists and is not a bencher file*",
        ),
        (
            ["--gpuperf-baseline=kept", "--gpuperf-export=bencher:./kept/new.json"],
            "--gpuperf-export: the next run would be compared with *new.json*",
        ),
        (
            ["--gpuperf-baseline=kept", "--gpuperf-json=kept/new.json"],
            "--gpuperf-json: the next*new.json*",
        ),
        (["--gpuperf-baseline=kept", "--gpuperf-history=kept"], "--gpuperf-history: *kept holds the basel*"),
        (
            ["--gpuperf-json=new.json", "--gpuperf-export=bencher:./new.json"],
            "--gpuperf-export: --gpuperf-json writes *new.json too*",
        ),
        (
            ["--gpuperf-markdown=x.md", "--gpuperf-markdown=./x.md"],
            "--gpuperf-markdown: --gpuperf-markdown writes *x.md too*",
        ),
        (
            ["--gpuperf-html=h", "--gpuperf-history=./h"],
            "--gpuperf-html: --gpuperf-history needs a folder at *h; choose another file",
        ),
        (
            ["--gpuperf-json=out", "--gpuperf-history=out/runs"],
            "--gpuperf-json: --gpuperf-history needs a folder at *out; choose another file",
        ),
        (
            ["--gpuperf-markdown=out", "--gpuperf-export=csv:out/it.csv"],
            "--gpuperf-markdown: --gpuperf-export needs a folder at *out; choose another file",
        ),
    ],
)
def test_no_file_of_a_run_takes_the_place_of_another_or_of_the_baseline(held, pytester, options, message):
    (pytester.mkdir("kept") / "a.json").write_text("{}", encoding="utf-8")
    result = held(BARE, *options, gpu=SLOWER)
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    result.stderr.fnmatch_lines([f"ERROR: {message}"])


@pytest.mark.parametrize(
    ("baseline", "option"),
    [
        ("base.json", "json=./base.json"),
        ("kept", "json=kept/new.json"),
        ("kept", "export=bencher:kept/new.json"),
        ("kept", "history=kept"),
    ],
)
def test_no_file_takes_the_place_of_a_baseline_that_no_gate_holds(ends, made, pytester, baseline, option):
    made(BARE)
    before = (pytester.path / "base.json").read_bytes()
    (pytester.mkdir("kept") / "a.json").write_bytes(before)
    result = ends(BARE, f"--gpuperf-baseline={baseline}", f"--gpuperf-{option}", gpu=SLOWER)
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    assert before == (pytester.path / "base.json").read_bytes()
    assert ["a.json"] == [path.name for path in (pytester.path / "kept").iterdir()]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no files that are neither")
@pytest.mark.parametrize("option", ["markdown=", "export=csv:", "json="])
def test_what_is_no_regular_file_stays_what_it_is(ends, pytester, option):
    os.mkfifo(pytester.path / "pipe")
    result = ends(BARE, f"--gpuperf-{option}pipe")
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    result.stderr.fnmatch_lines(["ERROR: --gpuperf-*: *pipe is not a regular file; choose another"])


@pytest.mark.skipif(os.name != "posix", reason="elsewhere such a name is just not there")
@pytest.mark.parametrize("option", ["baseline", "json", "markdown"])
def test_a_name_that_no_file_can_have_is_told(ends, option):
    result = ends(BARE, f"--gpuperf-{option}={'x' * 300}")
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    result.stderr.fnmatch_lines([f"ERROR: --gpuperf-{option}: *"])
