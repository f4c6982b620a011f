"""The gate, as pytest's users meet it: red when a speedup is lost, and when nothing could have been seen."""

import json
from xml.etree import ElementTree

import pytest
from command import record, written

from pytest_gpuperf.cli import main

FAST = """
import pytest

@pytest.mark.speedup(min=3)
def test_fast(device):
    return lambda: device.launch(50e-3 if device.kind == "cpu" else {gpu})
"""
BARE = FAST.replace("(min=3)", "").replace("test_fast", "test_bare")
HOST = """
import numpy as np
import pytest

@pytest.mark.speedup(min=0.001, max_time=0.1)  # of real time, where the simulated clock is not used
def test_host(device):
    a = device.asarray(np.ones(3))
    return lambda: a + 1
"""
SKIPPED = HOST.replace("@", "@pytest.mark.skip(reason='not today')  # before a device is opened\n@", 1)
NO_GPU, ALLOWED = "--gpuperf-gpu=none", "--gpuperf-allow=no-gpu"
GATE = ("--gpuperf-baseline=base.json", "--gpuperf-fail-on=speedup:10%")
CREATE = (*GATE, "--gpuperf-baseline-missing=create")
KEPT = ("--gpuperf-baseline=kept", *CREATE[1:])
INI_GATE = "gpuperf_baseline = base.json\ngpuperf_fail_on = speedup:10%"
BEFORE, SLOWER = 5e-3, 6.25e-3  # not less: the more calls, the longer a test takes
MEASURED = BARE.replace("{gpu}", str(BEFORE)).replace("test_bare", "test_it")


@pytest.fixture
def ends(pytester, forked_workers, monkeypatch):
    """Run a suite on the simulated device; return how pytest ended, with the records of its report."""
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
        monkeypatch.delenv(name, raising=False)

    def call(source, *options, gpu=BEFORE):
        if source is not None:
            pytester.makepyfile(test_it=source.format(gpu=gpu))
        asked = ("-pno:randomly", "-Wdefault", "--gpuperf-lock=none", "--gpuperf-gpu=simulated")
        result = pytester.runpytest_inprocess(*asked, "--gpuperf-json=report.json", *options)
        result.report = None
        if (pytester.path / "report.json").exists():
            result.report = json.loads((pytester.path / "report.json").read_text(encoding="utf-8"))
        return result

    return call


@pytest.fixture
def held(ends):
    """Make a baseline of a suite; then run it, or another one, against that."""

    def call(source, *options, then=None, **others):
        assert pytest.ExitCode.OK == ends(source, *CREATE).ret
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
    missed = FAST.replace("=3", "=9").replace("fast", "too")
    result = held(FAST + BARE + missed, "--junitxml=junit.xml", gpu=SLOWER)
    result.assert_outcomes(failed=3)
    assert pytest.ExitCode.TESTS_FAILED == result.ret
    result.stdout.fnmatch_lines(
        [
            "speedup got worse: 7.99x [[]7.99, 7.99], baseline 9.99x [[]9.99, 9.99]: -20.0 %*, 10 % less *",
            "required at least 9x, speedup 7.99x *",
            "speedup got worse: *",
            "test_fast * >=3x * -20 % * regressed",
            "baseline base.json of * (tolerance: speedup 10 %): 3*",
        ]
    )
    assert {"regressed"} == {*outcomes(result).values()}
    assert ["passed", "recorded", "failed"] == [record["status"] for record in result.report["records"]]
    suite = ElementTree.parse(pytester.path / "junit.xml").getroot()[0]
    assert ("3", "0") == (suite.get("failures"), suite.get("errors"))
    properties = {each.get("name"): each.get("value") for each in suite.iter("property")}
    assert "regressed" == properties["gpuperf.baseline.speedup"]


def test_without_fail_on_losses_and_doubts_are_only_said(ends):
    ends(BARE, *CREATE)
    lost = ends(BARE, "--gpuperf-baseline=base.json", gpu=SLOWER)
    assert pytest.ExitCode.OK == lost.ret
    assert {("test_bare", "speedup"): "regressed"} == outcomes(lost)
    assert [] == lost.report["gate"]["tolerances"]
    lost.stdout.fnmatch_lines(["*(nothing fails without", "*--gpuperf-fail-on): 1 regressed"])
    unclear = ends(BARE, "--gpuperf-baseline=base.json", gpu=5.55e-3)
    unclear.assert_outcomes(passed=1, warnings=0)
    assert {("test_bare", "speedup"): "inconclusive"} == outcomes(unclear)


def test_a_new_test_is_sampled_as_long_as_when_the_baseline_was_made(held):
    """Its record may enter the baseline. What the baseline has is decided earlier."""
    result = held(BARE, then=BARE + FAST)
    sampled = {each["nodeid"]: each["rounds_elapsed"] for each in result.report["records"]}
    assert sampled["test_it.py::test_bare"] < 7 < sampled["test_it.py::test_fast"]


def test_a_rerun_takes_the_loss_back(held):
    pytest.importorskip("pytest_rerunfailures", reason="the extra `test` has pytest-rerunfailures")
    flaky = BARE.replace("import pytest\n", "import pytest\nruns = []\n").replace(
        "    return", "    runs.append(1)\n    gpu = 5e-3 if len(runs) > 2 else 10e-3\n    return"
    )
    result = held(BARE, "--reruns=1", then=flaky.replace("{gpu}", "gpu"))
    assert pytest.ExitCode.OK == result.ret
    assert {("test_bare", "speedup"): "not_regressed"} == outcomes(result)


def test_a_test_that_nobody_marked_is_held_to_its_baseline(suite):
    source = """
@pytest.mark.parametrize("device", ["cpu", "gpu"])
@pytest.mark.parametrize("then", ["as_before", "slower", "raises_when_called_again", "takes_too_long"])
def test_it(device, then):
    conftest.LIBRARIES[device].ones(then)
"""
    conftest = """
    import time
    calls = []

    def ones(then):
        calls.append(then)
        assert then != "raises_when_called_again" or calls.count(then) < {calls}, "not twice"
        time.sleep({seconds} if then == "takes_too_long" else 0)
        BACKEND.gpu("").launch({slower} if then == "slower" else 1e-3)

    LIBRARIES["gpu"].ones = ones
    LIBRARIES["cpu"].ones = lambda _: BACKEND.cpu().launch(10e-3)
"""
    options = ("--gpuperf-all", "--gpuperf-gpu=cupy", "--gpuperf-max-time=2", *GATE)
    before, now = (
        conftest.format(calls=10**6, seconds=0, slower=1e-3),
        conftest.format(calls=2, seconds=0.3, slower=3e-3),
    )
    suite(source, *options, "--gpuperf-baseline-missing=create", conftest=before).ended(passed=8)
    lost = suite(source, *options, conftest=now)
    lost.ended(passed=6, failed=2)
    lost.says(
        "speedup got worse: ",
        "no speedup of it, as the baseline has: AssertionError: not twice",
        "FAILED: 1 test * skipped: *: one call takes 0.* s, more",
    )


@pytest.mark.parametrize("mark", ["", "@pytest.mark.speedup\n"], ids=["of all", "marked"])
def test_variants_lose_as_little_as_other_tests_before_they_fail(suite, mark):
    """The samples of a CPU variant cannot be taken again: they have all the time of the rounds."""
    source = f"""
{mark}@pytest.mark.parametrize("device", ["cpu", "gpu"])
@pytest.mark.parametrize("lost", [0, 12, 30])
def test_it(device, lost):
    conftest.LIBRARIES[device].ones(lost)
"""
    conftest = """
    LIBRARIES["gpu"].ones = lambda lost: BACKEND.gpu("").launch(5e-3 / (1 - {share} * lost))
    LIBRARIES["cpu"].ones = lambda _: BACKEND.cpu().launch(50e-3)
"""
    options = (*([] if mark else ["--gpuperf-all"]), "--gpuperf-gpu=cupy", *GATE)
    suite(source, *options, CREATE[-1], conftest=conftest.format(share=0)).ended(passed=6)
    lost = suite(source, *options, conftest=conftest.format(share=0.01))
    lost.ended(passed=4, failed=2)
    lost.says("FAILED *test_it[[]12-gpu]*", "FAILED *test_it[[]30-gpu]*")


# What a check will not find is told before the first test


BRIEF = record("test_it.py::test_it", rounds_elapsed=0.28)  # of a plain run
TOO_BRIEF = "the baseline base.json was sampled for at most 280 ms: it shows losses from "
ONCE_MORE = (
    "for a new baseline check out the code that base.json is of on its machine, delete base.json, and run: "
    "pytest --gpuperf-lock=none --gpuperf-gpu=simulated --gpuperf-baseline=base.json "
    "--gpuperf-fail-on=speedup:10% --gpuperf-max-time=20 --gpuperf-baseline-missing=create"
)


def test_a_check_whose_baseline_shows_nothing_is_told_the_command_for_another(ends):
    """It is not refused: a run that was accepted into the baseline may have been short."""
    written("base.json", BRIEF)
    result = ends(MEASURED, *GATE, "--gpuperf-max-time=20")
    assert pytest.ExitCode.OK == result.ret
    result.stdout.fnmatch_lines([f"gpuperf: {TOO_BRIEF}*, not 10 %, in 1 test *", f"gpuperf: {ONCE_MORE}"])


@pytest.mark.parametrize(
    "spread", [(), ("-n1", "-q"), ("-n1", "--dist=loadgroup")], ids=["", "-n 1", "groups"]
)
def test_where_some_tests_show_something_the_others_are_told_once_before_the_first(ends, spread):
    written("base.json", BRIEF, record("test_it.py::test_fine"))
    grouped = MEASURED.replace("def ", '@pytest.mark.xdist_group("g")\ndef ')  # which ends its node id
    both = grouped + MEASURED.replace("test_it", "test_fine")
    result = ends(both, *GATE, *spread)
    (place,) = [place for place, line in enumerate(result.outlines) if TOO_BRIEF in line]
    assert result.outlines[place].startswith("gpuperf: ")
    assert not any(line.startswith("test_it.py") for line in result.outlines[:place])
    for others in ("--gpuperf-fail=nothing", NO_GPU):
        ends(both, *GATE, *spread, others).stdout.no_fnmatch_line(f"*{TOO_BRIEF}*")
    ends(both, *GATE, *spread, "-k", "fine").stdout.no_fnmatch_line(f"*{TOO_BRIEF}*")


# Comparable or not


def on_another_machine(path):
    """Make it a report of another machine."""
    content = json.loads(path.read_text(encoding="utf-8"))
    content["environment"]["cpu"]["name"] = "another processor"
    for each in content["records"]:
        each["gpu"]["device"]["name"] = "another GPU"
    path.write_text(json.dumps(content), encoding="utf-8")


def test_another_machine_is_not_compared_and_stays_and_warns_once(ends, pytester):
    ends(FAST + BARE, *CREATE)
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


# What the baseline holds and the run does not have: gate/what_fails.py says which of it fails


PLAIN = "class TestIt:\n    def test_it(self): pass\n"
SKIPS = "import pytest\npytest.importorskip('no_such')\n"


def last(result):
    return [line for line in result.outlines if line][-1]


@pytest.fixture
def absent(ends, pytester):
    """Run files against a baseline of other tests; return pytest's result, and why each did not run."""

    def call(tests, *options, files, ini="", conftest="", gate=GATE):
        written("base.json", *map(record, tests))
        pytester.makeini(f"[pytest]\n{ini}\n")
        pytester.makeconftest(conftest)
        for name, source in files.items():
            path = pytester.path / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(source, encoding="utf-8")
        result = ends(None, *gate, *options)
        return result, {each["name"]: each["cause"] for each in result.report["gate"]["absent"]}

    return call


def last_failed(pytester, *nodeids):
    """Write what pytest's cache has where these tests failed last."""
    folder = pytester.path / ".pytest_cache" / "v" / "cache"
    folder.mkdir(parents=True)
    (folder / "lastfailed").write_text(json.dumps(dict.fromkeys(nodeids, True)), encoding="utf-8")


OF_ONE_FILE = """
import pytest

@pytest.mark.speedup
def test_kept(device): return lambda: device.launch(50e-3 if device.kind == "cpu" else 5e-3)

@pytest.mark.speedup
def test_by_k(device): pass

@pytest.mark.by_m
@pytest.mark.speedup
def test_by_m(device): pass

@pytest.mark.speedup
def test_by_deselect(device): pass

@pytest.mark.speedup
def test_by_plugin(device): pass

def test_marked_late_by_k(device): pass

def test_of_all_by_k(device): pass

def test_unmarked_by_k(): pass
"""
# The ini file and plugins leave tests out, too, and a plugin marks some that others deselect.
INI = """
markers = by_m
norecursedirs = by_ini
python_files = test_it.py in_*.py
addopts = --ignore=by_addopts --ignore-glob=*by_addglobs*
"""
PLUGIN = """
    collect_ignore = ["by_name"]
    collect_ignore_glob = ["by_glob/*"]

    def pytest_ignore_collect(collection_path):
        return collection_path.name == "by_hook" or None

    def pytest_collection_modifyitems(config, items):
        for item in items:
            if "late" in item.name:
                item.add_marker("speedup")
        config.hook.pytest_deselected(items=[item for item in items if item.name == "test_by_plugin"])
        items[:] = [item for item in items if item.name != "test_by_plugin"]
"""
TYPED = ("-m", "not by_m", "--deselect=test_it.py::test_by_d", "--ignore=typed", "--ignore-glob=glob*")
NARROWED = [
    *(f"test_it.py::test_{name}" for name in ("by_k", "by_m", "by_deselect", "marked_late_by_k[gpu]")),
    *("typed/in_typed.py::test_it", "globbed/in_globbed.py::test_it"),
]
GONE = [
    *(f"test_it.py::test_{name}" for name in ("by_plugin", "unmarked_by_k", "renamed")),
    *(f"by_{how}/in_{how}.py::test_it" for how in ("name", "glob", "hook", "ini", "addopts", "addglobs")),
    "test_of_another_name.py::test_it",
    "no_such_file.py::test_it",
]


@pytest.mark.parametrize(
    ("options", "of_all", "failed"),
    [
        (("-k", "not by_k"), "gone", ["no_such_file.py::test_it"]),
        (("-vknot by_k", "-n1", "--gpuperf-all"), "narrowed", []),
    ],
    ids=["serial", "-n 1, all tests"],
)
def test_what_the_command_line_leaves_out_is_not_what_is_gone(absent, pytester, options, of_all, failed):
    """To run again what failed leaves out nothing where nothing is there that failed."""
    last_failed(pytester, *failed)
    places = {place.partition("::")[0]: MEASURED for place in [*NARROWED, *GONE] if "no_such" not in place}
    result, causes = absent(
        [*NARROWED, *GONE, "test_it.py::test_of_all_by_k[gpu]"],
        *(*TYPED, *options, "--lf", "--sw"),
        files={**places, "test_it.py": OF_ONE_FILE},
        ini=INI,
        conftest=PLUGIN,
    )
    expected = dict.fromkeys(NARROWED, "narrowed") | dict.fromkeys(GONE, "gone")
    assert expected | {"test_it.py::test_of_all_by_k[gpu]": of_all} == causes
    assert ["-k", "-m", "--deselect", "--ignore", "--ignore-glob"] == result.report["narrowed_by"]
    assert pytest.ExitCode.TESTS_FAILED == result.ret
    result.stdout.fnmatch_lines(["FAILED: * of the baseline did not run: *; *left out by conftest.py *"])


def test_what_configuration_leaves_out_is_gone_although_another_word_is_typed(absent):
    tests = ["test_it.py::test_this", "test_x.py::test_it"]
    files = {"test_it.py": MEASURED + MEASURED.replace("test_it", "test_this"), "test_x.py": MEASURED}
    ini = "addopts = test_it.py"
    conftest = "def pytest_configure(config): config.option.keyword = 'not this'"
    _, causes = absent(tests, "-k", "not slow", "-n1", files=files, ini=ini, conftest=conftest)
    assert dict.fromkeys(tests, "gone") == causes


def test_a_path_on_the_command_line_asks_for_its_tests_however_it_is_written(absent, pytester):
    path = pytester.path
    (path.parent / f"{path.name}-link").symlink_to(path)
    typed = {
        "test_class.py::TestIt": "test_class.py::TestIt::test_gone",
        "test_function.py::TestIt::test_it": "test_function.py::TestIt::test_it[1]",
        "test_file.py": "test_file.py::test_gone",
        f"{path}/../{path.name}/dots": "dots/test_it.py::test_gone",
        f"../{path.name}-link/linked": "linked/test_it.py::test_gone",
    }
    others = [
        "test_class.py::TestItself::test_it",
        "test_function.py::TestIt::test_it_too",
        "test_x.py::test_it",
    ]
    files = dict.fromkeys((test.partition("::")[0] for test in [*typed.values(), *others]), PLAIN)
    result, causes = absent([*typed.values(), *others], f"--rootdir={path}", *typed, files=files)
    assert dict.fromkeys(typed.values(), "gone") | dict.fromkeys(others, "narrowed") == causes
    assert ["paths"] == result.report["narrowed_by"]


@pytest.mark.parametrize("spread", [(), ("-n1",)], ids=["serial", "-n 1"])
def test_running_again_what_failed_leaves_out_the_other_tests_that_are_there(absent, pytester, spread):
    last_failed(pytester, "test_it.py::test_failed")
    left_out = ["test_it.py::test_it", "sub/test_x.py::test_it"]
    files = {"test_it.py": f"{MEASURED}\ndef test_failed(): pass\n", "sub/test_x.py": MEASURED}
    result, causes = absent([*left_out, "gone.py::test_it"], "--lf", *spread, files=files)
    assert 1 == result.parseoutcomes()["passed"]
    assert {**dict.fromkeys(left_out, "narrowed"), "gone.py::test_it": "gone"} == causes
    assert ["--lf"] == result.report["narrowed_by"]


def test_going_on_where_a_run_stopped_leaves_out_the_tests_before(absent):
    files = {"test_it.py": f"{MEASURED}\ndef test_fails(): assert False\n"}
    two = ["test_it.py::test_it", "test_it.py::test_gone"]
    assert last(absent(two, "--sw", files=files)[0]).endswith("compared: 1 missing")
    assert last(absent(two, "--sw", files=files)[0]).endswith(
        "1 left out by the command line (--sw), 1 missing"
    )


@pytest.mark.parametrize(
    ("typed", "gate", "ended"),
    [
        (("-k", "test_it"), GATE, pytest.ExitCode.OK),
        (("test_plain.py",), (), pytest.ExitCode.OK),
        (("test_plain.py",), GATE, pytest.ExitCode.TESTS_FAILED),
        (("--lf", "--lfnf=none"), (), pytest.ExitCode.NO_TESTS_COLLECTED),
    ],
    ids=["a part of it", "all", "all, and the gate is typed, too", "nothing failed"],
)
def test_a_command_line_may_leave_out_what_the_gate_of_the_ini_file_is_about(absent, typed, gate, ended):
    two = ["test_it.py::test_it", "test_x.py::test_x"]
    files = {
        "test_it.py": MEASURED,
        "test_plain.py": PLAIN,
        "test_x.py": MEASURED.replace("test_it", "test_x"),
    }
    result, causes = absent(two, *typed, files=files, ini=INI_GATE, gate=gate)
    assert ended == result.ret
    assert {*causes.values()} == {"narrowed"}
    count, failed = len(causes), " failed" if ended == pytest.ExitCode.TESTS_FAILED else ""
    were, option = "was" if count == 1 else "were", typed[0] if typed[0].startswith("-") else "paths"
    said = f"{count} of 2 baseline tests {were} not compared: {count} left out by the command line ({option})"
    assert f"regression check{failed}: {said}" == last(result)


def test_options_of_other_plugins_are_not_parsed_again(absent):
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
    two, files = ["test_it.py::test_it", "test_it.py::test_x"], {"test_it.py": MEASURED}
    typed = ("--group", "test_it.py", "-knot x")
    result, _ = absent(two, *typed, files=files, ini="addopts = --backend=a", conftest=conftest)
    assert ["-k"] == result.report["narrowed_by"]
    result.stdout.fnmatch_lines(["calls: ['test_it.py']"])


@pytest.mark.parametrize(
    ("options", "ended"),
    [
        (("--gpuperf-allow=no-gpu",), pytest.ExitCode.TESTS_FAILED),
        (("--gpuperf-allow=missing", "-n1"), pytest.ExitCode.OK),
    ],
    ids=["no-gpu, where there is one", "missing, -n 1"],
)
def test_what_skips_itself_fails_with_a_gpu_unless_tests_may_be_missing(absent, options, ended):
    files = {
        "sub/conftest.py": SKIPS,
        "sub/test_it.py": MEASURED,
        "test_file.py": SKIPS,
        "test_mark.py": MEASURED.replace("@", "@pytest.mark.skip(reason='not today')\n@"),
        "test_it.py": MEASURED,
    }
    tests = [f"{name}::test_it" for name in files if "conftest" not in name]
    result, causes = absent(tests, *options, files=files)
    assert dict.fromkeys(tests[:-1], "skipped") == causes
    assert ended == result.ret
    notes = [note["code"] for note in result.report["gate"]["notes"]]
    assert ("tests_skipped" in notes) == (ended == pytest.ExitCode.OK)
    if ended != pytest.ExitCode.OK:
        result.stdout.fnmatch_lines(["FAILED: 3 tests of the baseline skipped: *--gpuperf-allow=missing*"])


def test_answers_that_differ_fail_although_nothing_was_demanded(held):
    kept = FAST + HOST.replace("(min=0.001, max_time=0.1)", "")
    then = kept.replace("a + 1", "a + (device.kind == 'gpu')")
    result = held(kept, "--gpuperf-allow=missing", then=then)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["the regression check has no valid measurement: the devices disagree: *"])
    assert last(result).endswith("1 not measured (test_it.py::test_host)")


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
            "speedup got worse: 7.99x *",
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
        ("def test_it(): pass\n", ("--gpuperf-allow=missing", "-n1"), "no test with a speedup marker ran"),
        (f"def test_first(): assert False\n{HOST}", ("-x",), "no test with a speedup marker ran"),
        (HOST, (NO_GPU,), "every test * was skipped (1): *; on a runner without a GPU pass *"),
        (HOST, (NO_GPU, ALLOWED), None),
        (HOST, (NO_GPU, ALLOWED, "-n1"), None),
        (SKIPPED, (ALLOWED,), "every test * (1): not today"),
        (SKIPPED, (ALLOWED, "-n1"), "every test * (1): not today"),
    ],
    ids=["no marker", "ended", "no GPU", "allowed", "allowed, -n 1", "skipped with a GPU", "skipped, -n 1"],
)
def test_a_run_that_measured_nothing_fails_unless_it_may_lack_a_gpu(held, source, options, said):
    result = held(HOST, *options, then=source)
    assert (said is None) == (result.ret == pytest.ExitCode.OK)
    if said is not None:
        result.stdout.fnmatch_lines([f"FAILED: nothing was measured: {said}"])


def test_a_required_gpu_is_not_missed_by_tests_that_the_command_line_left_out(ends):
    ends(BARE, "--gpuperf-require-gpu", "--gpuperf-gpu=auto", "-knothing").stdout.no_fnmatch_line("FAILED*")


# What cannot be asked: tests/unit/test_options.py has the rest


def test_measuring_that_is_off_refuses_a_gate_of_workers_too(ends, pytester):
    pytester.makeini("[pytest]\ngpuperf_off = true\n")
    (pytester.path / "base.json").touch()
    result = ends(BARE, *GATE, "-n1")
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    result.stderr.fnmatch_lines(["*off* measures nothing, so *"])


def test_the_ini_file_asks_for_the_same_from_its_folder_until_the_command_line_does_not(
    ends, pytester, monkeypatch
):
    ends(BARE, *CREATE)
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


def test_what_a_slow_workload_lost_is_found_too(ends):
    asked = (CREATE[0], CREATE[2], *(f"--gpuperf-fail-on={metric}:20%" for metric in ("gpu_time", "latency")))
    slow = (BARE + FAST.replace("min=3", "min=0.1")).replace("50e-3", "0.1")
    for gpu in (0.1, 0.1):
        ends(slow, *asked, gpu=gpu).assert_outcomes(passed=2)
    lost = ends(slow, *asked, gpu=0.2)
    lost.assert_outcomes(failed=2)
    assert {"regressed"} == {*outcomes(lost).values()}


def test_a_baseline_that_shows_little_or_is_of_a_failed_run_says_so_when_it_is_made(ends):
    slow = BARE.replace("test_bare", "test_slow").replace("50e-3", "3.0")
    result = ends(FAST + slow, *CREATE, gpu=0.3)
    assert pytest.ExitCode.TESTS_FAILED == result.ret
    remedy = "or pass --gpuperf-fail=nothing, as nothing here is a GPU's speed"
    result.stdout.fnmatch_lines(
        [
            f"the new baseline is of a run in which 1 test failed (*_fast): mend that, {remedy}, delete *",
            "1 test has too few rounds at max_time=10, *_slow (3.* s a round) takes max_time=10?*; then *",
        ]
    )
    into_folder = ends(FAST, KEPT[0], *CREATE[1:], gpu=0.3)
    into_folder.stdout.fnmatch_lines(["the new baseline is of *, delete the new file in *kept, and run *"])
    fine = ends(BARE, "--gpuperf-baseline=fine.json", *CREATE[1:])
    fine.stdout.no_fnmatch_line("*run this command again*")


def test_a_baseline_that_lacks_tests_of_its_run_says_which(ends):
    result = ends(FAST + BARE, *CREATE, "-k", "fast")
    said = "new baseline: *base.json, made on an emulated device, without 1 test of this run: *::test_bare"
    result.stdout.fnmatch_lines([said])
    assert pytest.ExitCode.OK == result.ret


@pytest.mark.parametrize(
    ("name", "spread"),
    [("kept/", ()), ("new/folder/base.json", ("-n1",)), ("new/folder", ())],
    ids=["folder", "file, -n 1", "folders"],
)
def test_a_missing_baseline_is_made_with_its_folders_when_there_is_one_to_write(ends, pytester, name, spread):
    watched = BARE.replace("import pytest\n", "import pathlib, pytest\n").replace(
        "    return", f"    assert not pathlib.Path('{name}').exists()\n    return"
    )
    result = ends(watched, f"--gpuperf-baseline={name}", *CREATE[1:], *spread)
    assert pytest.ExitCode.OK == result.ret
    result.stdout.fnmatch_lines([f"new baseline: *{name}*"])
    assert 1 == len({*pytester.path.rglob("*.json")} - {pytester.path / "report.json"})


STOPPED = f"{BARE}\n\ndef test_stops():\n    assert False\n\n{BARE.replace('test_bare', 'test_last')}"


@pytest.mark.parametrize(
    ("code", "source", "option", "told"),
    [
        (1, "def test_it(): pass\n", KEPT[0], "the new baseline was not written: *measured nothing*"),
        (1, STOPPED, "-x", "the new baseline was not written: this run ended early*"),
        (
            1,
            HOST,
            "-v",
            "the new baseline was not written: * measured nothing *; create it on a * with a GPU",
        ),
        (
            1,
            HOST,
            "-q",
            "*every test * skipped (1): *; create the baseline * with a GPU; * pass *allow=no-gpu",
        ),
        (
            0,
            HOST,
            "--gpuperf-allow=no-gpu",
            "no baseline was created at *base.json: * no GPU *; create it on a machine with one",
        ),
    ],
    ids=["measured nothing, in a folder", "ended early", "no GPU", "no GPU, quiet", "no GPU, allowed"],
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
def test_what_another_run_has_created_meanwhile_is_left_as_it_is(ends, pytester, code, content, told):
    ends(BARE, *CREATE)
    base = pytester.path / "base.json"
    theirs = content or base.read_bytes()
    base.rename(pytester.path / "theirs").write_bytes(theirs)
    meanwhile = "def test_other_run():\n    import shutil\n    shutil.copy('theirs', 'base.json')\n"
    result = ends(f"{BARE}\n{meanwhile}", *CREATE)
    assert code == result.ret
    result.stdout.fnmatch_lines([told])
    assert theirs == base.read_bytes()


def test_a_baseline_of_cpu_times_is_made_held_and_updated(ends, pytester, monkeypatch):
    of_cpu = HOST.replace("max_time=0.1", "max_time=1")
    cpu = ("--gpuperf-baseline=base.json", "--gpuperf-fail-on=cpu_time:50%")
    assert pytest.ExitCode.OK == ends(of_cpu, *cpu, "--gpuperf-baseline-missing=create", NO_GPU).ret
    ends(of_cpu, *cpu, NO_GPU)
    monkeypatch.chdir(pytester.path)
    assert 0 == main(["baseline", "update", "--accept-regressions", "base.json", "report.json"])


# One process of many


def sampled(result):
    return [each["rounds_elapsed"] for each in result.report["records"]]


def test_a_process_that_is_compared_later_samples_every_test_alike_and_checks_nothing_now(ends, pytester):
    ends(BARE, *CREATE)
    pytester.makeini(f"[pytest]\n{INI_GATE}\n")
    later = ("--gpuperf-baseline=later", "--gpuperf-fail-on=gpu_time:5%")
    of_both = ends(BARE + FAST, *later, gpu=SLOWER)
    assert (pytest.ExitCode.OK, None) == (of_both.ret, of_both.report["gate"])
    seven_rounds = [7 * (50e-3 + SLOWER)] * 2
    assert pytest.approx(seven_rounds, rel=0.1) == sampled(of_both)
    on_cpu = HOST.replace("0.1", "1")
    usual, longer = (sampled(ends(on_cpu, NO_GPU, *asked))[0] for asked in ((), later))
    assert longer > 2 * usual
