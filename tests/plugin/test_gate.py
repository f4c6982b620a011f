"""The gate, as pytest's users meet it: red when a speedup is lost, and when nothing could have been seen."""

import json
import shlex
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
RENAMED = BARE.replace("test_bare", "test_bear")
HOST = """
import numpy as np
import pytest

@pytest.mark.speedup(min=0.001, max_time=1)  # seconds of real time, where the simulated clock is not used
def test_host(device):
    a = device.asarray(np.ones(3))
    return lambda: a + 1
"""
NO_GPU = "--gpuperf-gpu=none"
GATE = ("--gpuperf-baseline=base.json", "--gpuperf-fail-on=speedup:10%")
CREATE = (*GATE, "--gpuperf-baseline-missing=create")
KEPT = ("--gpuperf-baseline=kept", *CREATE[1:])
INI_GATE = "gpuperf_baseline = base.json\ngpuperf_fail_on = speedup:10%"
SPREAD = pytest.mark.parametrize("spread", [(), ("-n", "1")], ids=["serial", "-n 1"])
MADE = {}  # baselines by their suites: simulated devices measure the same each time
BEFORE, SLOWER = 1e-3, 1.25e-3


@pytest.fixture
def ends(pytester, forked_workers, monkeypatch):
    """Run a suite on the simulated device; return how pytest ended, with the records of its report."""
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
        monkeypatch.delenv(name, raising=False)

    def call(source, *options, gpu=BEFORE):
        if source is not None:
            pytester.makepyfile(test_it=source.format(gpu=gpu))
        asked = ("-pno:randomly", "-Wdefault", "--gpuperf-gpu=simulated", "--gpuperf-json=report.json")
        result = pytester.runpytest_inprocess(*asked, *options)
        result.report = None
        if (pytester.path / "report.json").exists():
            result.report = json.loads((pytester.path / "report.json").read_text(encoding="utf-8"))
        return result

    return call


@pytest.fixture
def made(ends, pytester):
    """Make the baseline of a suite, in its first test by a run and in later ones from what that wrote."""

    def call(source, name=None):
        path = pytester.path / "base.json"
        name = name or source
        if name in MADE:
            path.write_bytes(MADE[name])
        else:
            assert pytest.ExitCode.OK == ends(source, *CREATE).ret
            MADE[name] = path.read_bytes()
            (pytester.path / "report.json").unlink()

    return call


@pytest.fixture
def held(ends, made):
    """Make a baseline of a suite; then run it against that."""

    def call(source, *options, then=None, **others):
        made(source)
        return ends(then or source, *GATE, *options, **others)

    return call


def outcomes(result):
    """Return the outcomes of comparisons by the tests' names and metrics."""
    return {
        (record["nodeid"].rpartition("::")[2], found["metric"]): found["outcome"]
        for record in result.report["records"]
        for found in record["comparisons"]
    }


# Red when the speedup is lost


def test_a_lost_speedup_fails_its_own_test_although_its_demand_is_met(held, pytester):
    result = held(FAST + BARE, "--junitxml=junit.xml", gpu=SLOWER)
    result.assert_outcomes(failed=2)
    assert pytest.ExitCode.TESTS_FAILED == result.ret
    result.stdout.fnmatch_lines(
        [
            "speedup got worse: 7.97x [[]7.97, 7.97], baseline 9.95x [[]9.95, 9.95]: -19.9 %*, 10 % less *",
            "test_fast * >=3x * -20 % * regressed",
            "baseline base.json of * (tolerance: speedup 10 %): 2*",
        ]
    )
    assert {"regressed"} == {*outcomes(result).values()}
    assert ["passed", "recorded"] == sorted(record["status"] for record in result.report["records"])
    suite = ElementTree.parse(pytester.path / "junit.xml").getroot()[0]
    assert ("2", "0") == (suite.get("failures"), suite.get("errors"))
    properties = {each.get("name"): each.get("value") for each in suite.iter("property")}
    assert "regressed" == properties["gpuperf.baseline.speedup"]


def test_without_fail_on_losses_are_only_said_and_doubts_stay(ends, made):
    made(BARE)
    lost = ends(BARE, "--gpuperf-baseline=base.json", gpu=SLOWER)
    assert pytest.ExitCode.OK == lost.ret
    assert {("test_bare", "speedup"): "regressed"} == outcomes(lost)
    assert [] == lost.report["gate"]["tolerances"]
    lost.stdout.fnmatch_lines(["*(nothing fails without", "*--gpuperf-fail-on): 1 regressed"])
    in_spells = f"{BEFORE / 0.9} * (0.97 + 0.06 * (device.launches // 8 % 2))"  # longer than a block
    doubt = ends(BARE, "--gpuperf-baseline=base.json", gpu=in_spells)
    (found,) = doubt.report["records"][0]["comparisons"]
    assert "inconclusive" == found["outcome"]
    assert "more time (max_time) or a quieter machine would decide it" in found["reason"]


def test_a_rerun_takes_the_loss_back(held):
    pytest.importorskip("pytest_rerunfailures", reason="the extra `test` has pytest-rerunfailures")
    flaky = BARE.replace("import pytest\n", "import pytest\nruns = []\n").replace(
        "    return", "    runs.append(1)\n    gpu = 1e-3 if len(runs) > 2 else 2e-3\n    return"
    )
    result = held(BARE, "--reruns=1", then=flaky.replace("{gpu}", "gpu"))
    assert pytest.ExitCode.OK == result.ret
    assert {("test_bare", "speedup"): "not_regressed"} == outcomes(result)


@pytest.mark.parametrize(
    ("then", "failed", "said"),
    [
        ("BACKEND.gpu('').launch(2e-3 if n == 2 else 0)", 1, "speedup got worse: "),
        (
            "assert n == 1 or calls.count(2) < 2, 'not twice'",
            1,
            "no speedup of it, as the baseline has: AssertionError: not twice",
        ),
        ("time.sleep(0.3 if n == 2 else 0)", 0, "FAILED: 1 test * skipped: *: one call takes 0.* s, more"),
    ],
    ids=["slower", "fails when called again", "too slow to measure"],
)
def test_a_test_that_nobody_marked_is_held_to_its_baseline(suite, then, failed, said):
    source = """
@pytest.mark.parametrize("device", ["cpu", "gpu"])
@pytest.mark.parametrize("n", [1, 2])
def test_it(device, n):
    conftest.LIBRARIES[device].ones(n)
"""
    calls = """
    import time
    calls = []

    def ones(n):
        calls.append(n)
        {then}
        BACKEND.gpu("").launch(1e-3)

    LIBRARIES["gpu"].ones = ones
    LIBRARIES["cpu"].ones = lambda n: BACKEND.cpu().launch(10e-3)
"""
    options = ("--gpuperf-all", "--gpuperf-gpu=cupy", "--gpuperf-max-time=2", *GATE)
    made = suite(source, *options, "--gpuperf-baseline-missing=create", conftest=calls.format(then="pass"))
    made.ended(passed=4)
    lost = suite(source, *options, conftest=calls.format(then=then))
    lost.ended(passed=4 - failed, failed=failed)
    assert pytest.ExitCode.TESTS_FAILED == lost.result.ret
    lost.says(said)


# Comparable or not


def on_another_machine(path):
    """Make it a report of another machine."""
    content = json.loads(path.read_text(encoding="utf-8"))
    content["environment"]["cpu"]["name"] = "another processor"
    for record in content["records"]:
        record["gpu"]["device"]["name"] = "another GPU"
    path.write_text(json.dumps(content), encoding="utf-8")


def test_another_machine_is_not_compared_and_stays_and_warns_once_and_fails_with_strict(ends, made, pytester):
    made(FAST + BARE)
    path = pytester.path / "base.json"
    on_another_machine(path)
    before = path.read_bytes()
    result = ends(FAST + BARE, *CREATE, gpu=SLOWER)
    result.assert_outcomes(passed=2, warnings=1)
    assert {"not_comparable"} == {*outcomes(result).values()}
    result.stdout.fnmatch_lines(
        ["*NotComparableWarning: not comparable with the baseline base.json: *CPU: another processor in*"]
    )
    found = result.report["records"][0]["comparisons"][0]["differences"]
    assert "GPU: another GPU in the baseline, simulated GPU now" in found
    assert before == path.read_bytes()
    ends(FAST + BARE, *GATE, "--gpuperf-strict").assert_outcomes(failed=2)


def test_a_folder_of_other_machines_gets_one_of_this_machine_which_is_compared_with(ends, pytester):
    folder = pytester.mkdir("kept")
    ends(BARE, *KEPT)
    (theirs,) = folder.iterdir()
    on_another_machine(theirs)
    asked = ("--gpuperf-baseline=kept", "--gpuperf-baseline-missing=create")
    assert pytest.ExitCode.OK == ends(HOST, *asked, NO_GPU).ret
    assert [theirs] == [*folder.iterdir()]
    result = ends(BARE, *KEPT)
    assert pytest.ExitCode.OK == result.ret
    result.stdout.fnmatch_lines(["not comparable*: CPU: another processor in*", "new baseline: *"])
    (ours,) = {*folder.iterdir()} - {theirs}
    again = ends(BARE, *KEPT, gpu=SLOWER)
    again.assert_outcomes(failed=1)
    again.stdout.no_fnmatch_line("new baseline: *")
    assert f"kept/{ours.name}" == again.report["gate"]["baseline"]
    assert {ours, theirs} == {*folder.iterdir()}


# What the baseline holds and the run does not have: gate/policy.py says which of it fails


OTHER = "sub/test_other.py"
NARROWED = "left out by the command line"
PLAIN = BARE.replace("@pytest.mark.speedup\n", "").replace("(device)", "()").replace("device", "print")
SKIPPED = BARE.replace("    return", "    pytest.skip('not today')\n    return")
SKIPS = "import pytest\npytest.importorskip('no_such')\n"


def not_compared(why, count=1, *, failed=True):
    """Return the last line of a run that lacks so many tests of its baseline, below what pytest says."""
    was = "was" if count == 1 else "were"
    check = "regression check failed" if failed else "regression check"
    return f"{check}: {count} of 2 baseline tests {was} not compared: {count} {why}"


def last(result):
    return [line for line in result.outlines if line][-1]


def assert_fails(result, why, count=1):
    assert pytest.ExitCode.TESTS_FAILED == result.ret
    assert not_compared(why, count) == last(result)


def assert_allows(result, why, count=1):
    assert pytest.ExitCode.OK == result.ret
    assert not_compared(why, count, failed=False) == last(result)


def edit(pytester, place, source):
    """Write a file of the suite anew, or remove it."""
    if source is None:
        (pytester.path / place).unlink()
    else:
        (pytester.path / place).write_text(source.replace("{gpu}", str(BEFORE)), encoding="utf-8")


@pytest.fixture
def two_files(ends, made, pytester):
    """Make two files with a test each, and their baseline; then run them against it."""
    pytester.mkdir("sub")
    edit(pytester, OTHER, BARE)
    made(FAST, "two files")

    def call(typed="", *, ini="", conftest="", gate=GATE, source=FAST, **others):
        pytester.makeini(f"[pytest]\n{ini}\n")
        pytester.makeconftest(conftest)
        return ends(source, *gate, *shlex.split(typed), **others)

    return call


@pytest.mark.parametrize(
    ("typed", "option"),
    [
        ("-k fast", "-k"),
        ("-vkfast", "-k"),
        ("-k fast -n 1", "-k"),
        ("-m 'not speedup or speedup(min=3)'", "-m"),
        (f"--deselect={OTHER}::test_bare", "--deselect"),
        ("test_it.py", "paths"),
        ("test_it.py::test_fast", "paths"),
        ("--ignore=sub", "--ignore"),
        ("--ignore-glob=sub/*", "--ignore-glob"),
    ],
)
def test_what_a_command_line_leaves_out_passes_and_is_said_last(two_files, typed, option):
    result = two_files(typed)
    assert_allows(result, f"{NARROWED} ({option})")
    absent = {"name": f"{OTHER}::test_bare", "metric": "speedup", "cause": "narrowed", "reason": None}
    assert [absent] == result.report["gate"]["absent"]
    assert [option] == result.report["narrowed_by"]


@pytest.mark.parametrize(
    ("typed", "lost"), [("--lf", None), ("--lf -n 1", None), ("--sw", RENAMED)], ids=["--lf", "-n 1", "--sw"]
)
def test_running_what_failed_again_leaves_out_the_other_tests_until_they_are_gone(
    two_files, pytester, typed, lost
):
    two_files(typed, gpu=SLOWER).assert_outcomes(passed=1, failed=1)
    again = two_files(typed, gpu=SLOWER)
    again.assert_outcomes(failed=1, deselected=int(typed == "--sw"))
    assert not_compared(f"{NARROWED} ({typed[:4]})", failed=False) == last(again)
    edit(pytester, OTHER, lost)
    assert not_compared("missing") == last(two_files(typed, gpu=SLOWER))


def test_last_failed_leaves_out_the_other_tests_of_a_file(held, ends):
    failing = FAST.format(gpu=SLOWER)
    held(FAST + BARE, then=failing + BARE).assert_outcomes(passed=1, failed=1)
    again = ends(failing + BARE, *GATE, "--lf")
    assert not_compared(f"{NARROWED} (--lf)", failed=False) == last(again)


def test_last_failed_leaves_out_nothing_where_the_file_of_what_failed_is_gone(two_files, pytester):
    edit(pytester, "test_failing.py", "def test_it(): assert False\n")
    two_files().assert_outcomes(passed=2, failed=1)
    edit(pytester, "test_failing.py", None)
    edit(pytester, OTHER, RENAMED)
    assert not_compared("missing") == last(two_files("--lf"))


def test_a_command_line_may_leave_out_all_tests_of_a_gate_in_the_ini_file_that_are_there(two_files, pytester):
    pytester.makepyfile(test_plain="def test_it(): pass\n")
    assert_allows(two_files("test_plain.py", ini=INI_GATE, gate=()), f"{NARROWED} (paths)", 2)
    assert pytest.ExitCode.TESTS_FAILED == two_files("test_plain.py").ret
    none = two_files("--lf --lfnf=none", ini=INI_GATE, gate=())
    assert pytest.ExitCode.NO_TESTS_COLLECTED == none.ret
    assert not_compared(f"{NARROWED} (--lf)", 2, failed=False) == last(none)
    edit(pytester, OTHER, PLAIN)
    unmarked = two_files("-m speedup", ini=INI_GATE, gate=(), source=RENAMED)
    assert_fails(unmarked, "missing", 2)
    unmarked.stdout.fnmatch_lines(
        ["FAILED: nothing was compared: no measured test (1 in all) is in the baseline base.json; *"]
    )


def test_options_of_other_plugins_are_not_parsed_again(two_files):
    """They may be required, and given in addopts, and their actions may have side effects."""
    conftest = """
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
    result = two_files("--group test_it.py -vkfast", ini="addopts = --backend=a", conftest=conftest)
    assert_allows(result, f"{NARROWED} (-k)")
    result.stdout.fnmatch_lines(["calls: ['test_it.py']"])


HIDES_OTHER = """
def pytest_collection_modifyitems(config, items):
    config.hook.pytest_deselected(items=[items.pop(0)])
"""


@pytest.mark.parametrize(
    ("typed", "ini", "conftest"),
    [
        ("", "", "collect_ignore = ['sub/test_other.py']"),
        ("-n 1", "", "collect_ignore = ['sub']"),
        ("", "", "collect_ignore_glob = ['sub/*']"),
        ("", "", "def pytest_ignore_collect(collection_path): return collection_path.name == 'sub' or None"),
        ("", "python_files = test_it.py", ""),
        ("", "norecursedirs = sub", ""),
        ("", "testpaths = test_it.py", ""),
        ("", "addopts = --ignore=sub", ""),
        ("", "addopts = --ignore-glob=*other*", ""),
        ("", "addopts = test_it.py", ""),
        ("", "addopts = -k fast", ""),
        ("-m speedup", "addopts = -k fast", ""),
        ("-m speedup -n 1", "addopts = -k fast", ""),
        ("-k 'not slow'", "", "def pytest_configure(config): config.option.keyword = 'fast'"),
        ("-k 'not slow'", "", HIDES_OTHER),
        ("-m speedup", "", HIDES_OTHER),
        ("--lf", "", HIDES_OTHER),
    ],
)
def test_what_configuration_leaves_out_fails_whatever_is_typed_that_does_not(two_files, typed, ini, conftest):
    result = two_files(typed, ini=ini, conftest=conftest)
    assert_fails(result, "missing")
    result.stdout.fnmatch_lines(
        [f"FAILED: 1 test of the baseline did not run: {OTHER}::test_bare; *left out by conftest.py *"]
    )


@pytest.mark.parametrize("typed", ["", "-k fast", "-m speedup", "-m speedup --gpuperf-all", "--lf", "--sw"])
@pytest.mark.parametrize("lost", [RENAMED, PLAIN, None], ids=["renamed", "unmarked", "file gone"])
def test_what_is_gone_fails_whatever_is_typed_that_does_not_name_it(two_files, pytester, lost, typed):
    edit(pytester, OTHER, lost)
    result = two_files(typed)
    assert_fails(result, "missing")
    result.stdout.fnmatch_lines([f"FAILED: 1 test * did not run: {OTHER}::test_bare; renamed, moved, *"])


@pytest.mark.parametrize(
    "asked",
    ["{path}/../{path.name}", "../{path.name}-link", "test_it.py::TestIt", "test_it.py::TestIt::test_bare"],
    ids=["dots", "link", "class", "test"],
)
def test_what_is_gone_fails_however_the_command_line_names_its_place(held, pytester, asked):
    source = """
import pytest

@pytest.mark.speedup
class TestIt:
    @pytest.mark.parametrize("n", [1, 2])
    def test_bare(self, device, n):
        return lambda: device.launch(10e-3 if device.kind == "cpu" else 1e-3)
"""
    path = pytester.path
    (path.parent / f"{path.name}-link").symlink_to(path)
    then = source.replace("[1, 2]", "[1, 3]")
    assert_fails(held(source, f"--rootdir={path}", asked.format(path=path), then=then), "missing")


@pytest.mark.parametrize(
    ("place", "source", "said"),
    [
        ("sub/conftest.py", SKIPS, "skipped: *::test_bare; run them"),
        (OTHER, SKIPS, "skipped: *::test_bare; run them"),
        (
            *(OTHER, BARE.replace("@", "@pytest.mark.skip(reason='not today')\n@")),
            "skipped: *::test_bare: not today; run them",
        ),
    ],
    ids=["folder", "file", "mark"],
)
@SPREAD
def test_what_skips_itself_fails_with_a_gpu_unless_tests_may_be_missing(
    two_files, pytester, place, source, said, spread
):
    edit(pytester, place, source)
    result = two_files(" ".join([*spread, "--gpuperf-allow=no-gpu"]))
    assert_fails(result, "skipped")
    result.stdout.fnmatch_lines([f"FAILED: 1 test of the baseline {said}, * --gpuperf-allow=missing*"])
    allowed = two_files(" ".join([*spread, "--gpuperf-allow=missing"]))
    assert_allows(allowed, f"skipped ({OTHER}::test_bare)")
    assert "tests_skipped" in [note["code"] for note in allowed.report["gate"]["notes"]]


MARKS_LATE = "def pytest_collection_modifyitems(items):\n    for item in items: item.add_marker('speedup')"


@pytest.mark.parametrize(
    ("conftest", "option"), [(MARKS_LATE, "-v"), ("", "--gpuperf-all")], ids=["marked late", "--gpuperf-all"]
)
def test_a_test_without_a_marker_of_its_own_is_left_out_by_the_option_that_deselects_it(
    ends, pytester, conftest, option
):
    pytester.makeconftest(conftest)
    source = (FAST + BARE).replace("@pytest.mark.speedup(min=3)", "").replace("@pytest.mark.speedup", "")
    assert pytest.ExitCode.OK == ends(source, option, *CREATE).ret
    assert_allows(ends(source, *GATE, option, "-k", "fast"), f"{NARROWED} (-k)")


def test_answers_that_differ_fail_although_nothing_was_demanded(held):
    kept = FAST + HOST.replace("(min=0.001, max_time=1)", "")
    then = kept.replace("a + 1", "a + (device.kind == 'gpu')")
    result = held(kept, "--gpuperf-allow=missing", then=then)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["the regression check has no valid measurement: the devices disagree: *"])
    assert not_compared("not measured (test_it.py::test_host)", failed=False) == last(result)


def test_in_workers_losses_missing_tests_and_a_crash_fail_as_in_one_process(ends, pytester):
    """The controller itself has run and collected no test."""
    kept, gone, crash = (BARE.replace("test_bare", f"test_{name}") for name in ("kept", "gone", "crash"))
    kept = kept.format(gpu=BEFORE)
    assert pytest.ExitCode.OK == ends(FAST + kept + gone + crash, *CREATE).ret
    before = (pytester.path / "base.json").read_bytes()
    crash = crash.replace("    return", "    import os\n    os._exit(3)\n    return")
    result = ends(FAST + kept + crash, *CREATE, "-n", "1", gpu=SLOWER)
    result.stdout.fnmatch_lines(
        [
            "speedup got worse: 7.97x *",
            "FAILED: 1 test of the baseline did not run: test_it.py::test_gone; renamed, *",
            "FAILED: test_it.py::test_crash was lost when its process crashed: *",
        ]
    )
    found = {("test_fast", "speedup"): "regressed", ("test_kept", "speedup"): "not_regressed"}
    assert found == outcomes(result)
    assert ["tests_missing", "test_lost"] == [each["code"] for each in result.report["gate"]["failures"]]
    assert ["error", "passed", "recorded"] == sorted(each["status"] for each in result.report["records"])
    result.stdout.no_fnmatch_line("new baseline: *")
    assert before == (pytester.path / "base.json").read_bytes()


# Nothing was measured


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        ("def test_it(): pass\n", "allow=missing", "no test with a speedup marker ran"),
        (f"def test_first(): assert False\n{HOST}", "-x", "no test with a speedup marker ran"),
        (HOST, "gpu=none", "every test * was skipped (1): *; on a runner without a GPU pass *"),
        (HOST, "gpu=none allow=no-gpu", None),
        (SKIPPED.replace("test_bare", "test_host"), "allow=no-gpu", "every test * (1): not today"),
    ],
    ids=["no marker", "ended", "no GPU", "no GPU, allowed", "skipped with a GPU"],
)
@SPREAD
def test_a_run_that_measured_nothing_fails_unless_it_may_lack_a_gpu(held, source, options, said, spread):
    asked = [each if each == "-x" else f"--gpuperf-{each}" for each in options.split()]
    result = held(HOST, *spread, *asked, then=source)
    assert (said is None) == (result.ret == pytest.ExitCode.OK)
    if said is not None:
        result.stdout.fnmatch_lines([f"FAILED: nothing was measured: {said}"])


# What cannot be asked: tests/unit/test_options.py has the rest


@SPREAD
@pytest.mark.parametrize("place", ["ini", "environment"])
def test_measuring_that_is_off_refuses_a_gate(ends, pytester, monkeypatch, place, spread):
    if place == "ini":
        pytester.makeini("[pytest]\ngpuperf_off = true\n")
    else:
        monkeypatch.setenv("PYTEST_ADDOPTS", "--gpuperf-off")
    (pytester.path / "base.json").touch()
    result = ends(BARE, *GATE, *spread)
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    result.stderr.fnmatch_lines(["*off measures nothing, so *"])


def test_the_ini_file_asks_for_the_same_from_its_folder_until_the_command_line_does_not(
    made, ends, pytester, monkeypatch
):
    made(BARE)
    gate = "gpuperf_baseline = base.json\ngpuperf_fail_on = memory:5% speedup:10%\n"
    pytester.makeini(f"[pytest]\n{gate}gpuperf_markdown = summary.md\n")
    pytester.makepyfile(test_it=BARE.format(gpu=SLOWER))
    monkeypatch.chdir(pytester.mkdir("below"))
    ends(None, "../test_it.py", "--gpuperf-json=../below/other.json").assert_outcomes(failed=1)
    assert (pytester.path / "summary.md").exists()
    report = json.loads((pytester.path / "below" / "other.json").read_text(encoding="utf-8"))
    assert pytest.ExitCode.OK == ends(None, "../test_it.py", "--gpuperf-baseline=none").ret
    assert ["memory", "speedup"] == [each["metric"] for each in report["gate"]["tolerances"]]


# The baseline is made


@pytest.mark.parametrize("metrics", [("speedup",), ("gpu_time", "latency")], ids=" ".join)
def test_what_a_slow_workload_lost_is_found_too(ends, metrics):
    asked = (CREATE[0], CREATE[2], *(f"--gpuperf-fail-on={metric}:20%" for metric in metrics))
    slow = (BARE + FAST.replace("min=3", "min=0.1")).replace("10e-3", "0.1")
    for gpu in (0.1, 0.1):
        ends(slow, *asked, gpu=gpu).assert_outcomes(passed=2)
    lost = ends(slow, *asked, gpu=0.2)
    lost.assert_outcomes(failed=2)
    assert {"regressed"} == {*outcomes(lost).values()}


def test_a_baseline_that_lacks_tests_of_its_run_says_which(ends):
    result = ends(FAST + BARE, *CREATE, "-k", "fast")
    said = "new baseline: *base.json, without 1 test of this run: test_it.py::test_bare"
    result.stdout.fnmatch_lines([said])
    assert pytest.ExitCode.OK == result.ret


@pytest.mark.parametrize("name", ["base.json", "kept/", "new/folder/base.json", "new/folder"])
@SPREAD
def test_a_missing_baseline_is_made_with_its_folders_when_there_is_one_to_write(ends, pytester, name, spread):
    asked = (f"--gpuperf-baseline={name}", *CREATE[1:], *spread)
    watched = BARE.replace("import pytest\n", "import pathlib, pytest\n").replace(
        "    return", f"    assert not pathlib.Path('{name}').exists()\n    return"
    )
    result = ends(watched, *asked)
    assert pytest.ExitCode.OK == result.ret
    result.stdout.fnmatch_lines([f"new baseline: *{name}*"])
    (made,) = {*pytester.path.rglob("*.json")} - {pytester.path / "report.json"}
    before = made.read_bytes()
    again = ends(BARE, *asked, gpu=SLOWER)
    again.assert_outcomes(failed=1)
    again.stdout.no_fnmatch_line("new baseline: *")
    assert before == made.read_bytes()


STOPPED = f"{BARE}\n\ndef test_stops():\n    assert False\n\n{BARE.replace('test_bare', 'test_last')}"


@pytest.mark.parametrize(
    ("code", "source", "option", "told"),
    [
        (1, "def test_it(): pass\n", "-v", "the new baseline was not written: *measured nothing*"),
        (1, "def test_it(): pass\n", KEPT[0], "the new baseline was not written: *"),
        (1, STOPPED, "-x", "the new baseline was not written: this run ended early*"),
        (1, HOST, "-v", "the new baseline was not written: this run measured nothing*"),
        (0, HOST, "--gpuperf-allow=no-gpu", "no baseline was created at *base.json: there was no GPU*"),
    ],
    ids=["measured nothing", "in a folder", "ended early", "no GPU", "no GPU, allowed"],
)
def test_a_run_that_did_not_measure_what_the_gate_is_about_makes_no_baseline(
    ends, pytester, code, source, option, told
):
    result = ends(source, *CREATE, *([NO_GPU] if source == HOST else []), option)
    assert code == result.ret
    result.stdout.fnmatch_lines([told])
    assert not any((pytester.path / name).exists() for name in ("base.json", "kept"))


@pytest.mark.parametrize(
    ("code", "content", "told"),
    [
        (0, None, "new baseline: * not kept, because another run has created *base.json meanwhile"),
        (1, b"{}", "the new baseline was not written: *File exists*base.json*"),
    ],
    ids=["a baseline", "something else"],
)
def test_what_another_run_has_created_meanwhile_is_left_as_it_is(ends, made, pytester, code, content, told):
    made(BARE)
    base = pytester.path / "base.json"
    theirs = content or base.read_bytes()
    base.rename(pytester.path / "theirs").write_bytes(theirs)
    meanwhile = "def test_other_run():\n    import shutil\n    shutil.copy('theirs', 'base.json')\n"
    result = ends(f"{BARE}\n{meanwhile}", *CREATE)
    assert code == result.ret
    result.stdout.fnmatch_lines([told])
    assert theirs == base.read_bytes()


def test_a_baseline_of_cpu_times_is_made_held_and_updated(ends, pytester, monkeypatch):
    cpu = ("--gpuperf-baseline=base.json", "--gpuperf-fail-on=cpu_time:50%")
    assert pytest.ExitCode.OK == ends(HOST, *cpu, "--gpuperf-baseline-missing=create", NO_GPU).ret
    ends(HOST, *cpu, NO_GPU)
    monkeypatch.chdir(pytester.path)
    assert 0 == main(["baseline", "update", "--accept-regressions", "base.json", "report.json"])
