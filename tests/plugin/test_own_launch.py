"""Plain pytest starts the ranks of a scaling test with `ranks` itself, and reports what they report."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep
from xml.etree import ElementTree

import pytest

from pytest_gpuperf.devices import environment

CONFTEST = """
import os
import pytest
from cards import taken_for_gpus
from pytest_gpuperf.devices.simulated import SimulatedBackend, Timing

def pytest_addoption(parser):
    parser.addoption("--work", type=float, default=1.0)

@pytest.hookimpl(optionalhook=True)
def pytest_gpuperf_devices():
    return [{real}(SimulatedBackend(name="one", gpu=Timing(kernel=0.0)))]
"""
SUITE = """
import os
import warnings
import numpy as np
import pytest

RANK = os.environ.get("RANK")

@pytest.fixture(scope="module")
def launched():
    assert RANK is not None, "as init_process_group, which needs its variables"

def test_before():
    assert RANK is None

@pytest.mark.scaling([1, 2], efficiency={efficiency})
def test_step(ranks, launched, request):
    {body}
    part = ranks.asarray(np.arange(24.0), shard=0)
    def step():
        ranks.device.launch(request.config.getoption("work") * [10e-3, 8e-3][ranks.count - 1])
        return part * 2
    return step

def test_after():
    assert RANK is None
"""
JSON = "--gpuperf-json=report.json"
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)


@pytest.fixture
def plain(run, pytester):
    """Run a suite with a scaling test in plain pytest."""

    def call(*options, body="pass", efficiency=0.5, source=SUITE, real=False, conftest=""):
        pytester.makeconftest(CONFTEST.format(real="taken_for_gpus" if real else "") + conftest)
        return run(source.format(body=body, efficiency=efficiency), *options, gpu="one")

    return call


@pytest.fixture
def records(pytester):
    def read():
        report = json.loads((pytester.path / "report.json").read_text("utf-8"))
        return {record["nodeid"].partition("::")[2]: record for record in report["records"]}

    return read


def is_running(file):
    """Return whether the process runs whose number a file has; one that has ended may await its parent."""
    status = Path("/proc", file.read_text().strip(), "stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


def on_1(what):
    return f"if RANK == '1': {what}"


def test_ranks_are_started_for_the_tests_that_need_them_and_for_no_others(plain, records):
    result = plain("-v", JSON)
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(
        [
            "*::test_before PASSED *",
            "*::test_step[[]1rank] PASSED (emulated 10.0 ms*",
            "*::test_step[[]2ranks] PASSED (efficiency 0.62 * required 0.5*",
            "*::test_after PASSED *",
            "scaling of test_it.py::test_step (strong), required efficiency 0.5",
        ]
    )
    assert {"test_step[1rank]": "recorded", "test_step[2ranks]": "passed"} == {
        name: record["status"] for name, record in records().items()
    }
    ranks = records()["test_step[2ranks]"]["scaling"]["ranks"]
    assert ("pytest", 2) == (ranks["launcher"], ranks["ranks"])


def test_an_efficiency_below_the_limit_fails_the_run(plain):
    result = plain(efficiency=0.9)
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["*required at least 0.9, parallel efficiency 0.62*on 2 ranks"])


def test_what_is_raised_on_another_rank_is_shown_with_its_traceback(plain):
    result = plain(body=on_1("raise ValueError('odd')"))
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(
        [
            "rank 1 raised ValueError: odd",
            "*- rank 1, call -*",
            "> *raise ValueError('odd')",
            "E *ValueError: odd",
        ]
    )


def test_a_skip_and_an_expected_failure_are_those_of_the_ranks(plain):
    result = plain("-rs", body="pytest.skip('not here')")
    result.assert_outcomes(passed=2, skipped=2)
    result.stdout.fnmatch_lines(["SKIPPED * not here"])
    expected = SUITE.replace("@pytest.mark.scaling", "@pytest.mark.xfail\n@pytest.mark.scaling")
    plain(source=expected, efficiency=0.9).assert_outcomes(passed=2, xpassed=1, xfailed=1)


@pytest.mark.parametrize("rank", [0, 1])
def test_ranks_that_die_are_errors_of_their_tests_alone(plain, rank):
    result = plain(body=f"if RANK == '{rank}' and ranks.count == 2: os._exit(7)")
    outcomes = result.parseoutcomes()
    assert (3, 1) == (outcomes["passed"], outcomes.get("failed", 0) + outcomes.get("errors", 0))
    words = "rank 0 ended with exit status 7" if rank == 0 else "rank 1 (*, process *) was killed or crashed"
    result.stdout.fnmatch_lines([f"*{words}*"])


def test_ranks_of_which_one_does_not_start_are_an_error_that_says_why_once(plain):
    """Without waiting for it: rank 0 would for a minute."""
    broken = "\nif RANK == '1':\n    raise SystemExit('no such card')\n"
    result = plain("--reruns=1", source=SUITE.replace("@pytest.fixture", f"{broken}\n@pytest.fixture"))
    result.assert_outcomes(passed=2, errors=2)
    assert 1 == str(result.stdout).count("SystemExit: no such card")
    result.stdout.fnmatch_lines(["*have ended before this test did: as test_it.py::test_step[[]1rank]"])


def test_what_fails_on_another_rank_alone_fails_the_test_and_its_record(plain, records):
    end_of_fixture = 'which needs its variables"\n'
    failing = f"{end_of_fixture}    yield\n    assert RANK == '0', 'left behind'\n"
    after = SUITE.replace(end_of_fixture, failing)
    result = plain(JSON, source=after)
    result.assert_outcomes(passed=4, errors=1)
    record = records()["test_step[2ranks]"]
    assert ("error", "its teardown failed: Failed: rank 1 has failed in its teardown") == (
        record["status"],
        record["reason"],
    )
    result.stdout.fnmatch_lines(
        ["rank 1 has failed in its teardown", "*- rank 1, teardown -*", "E *left behind"]
    )
    assert pytest.ExitCode.TESTS_FAILED == result.ret
    crash = SUITE + "\nif RANK == '1':\n    import atexit\n    atexit.register(os._exit, 7)\n"
    result = plain(source=crash)
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["FAILED: rank 1 ended with exit status 7 after its last test; *"])
    assert pytest.ExitCode.TESTS_FAILED == result.ret


@pytest.mark.parametrize(
    ("what", "outcomes"),
    [("fail('late')", {"passed": 3, "errors": 1}), ("skip('late')", {"passed": 3, "skipped": 1})],
)
def test_what_a_fixture_of_the_run_raises_when_it_ends_is_of_the_last_test_before(plain, what, outcomes):
    fixture = f"@pytest.fixture(scope='module')\ndef held():\n    yield\n    pytest.{what}\n\n"
    source = SUITE.replace("def test_before():", f"{fixture}def test_before(held):")
    result = plain(source=source.partition("def test_after")[0])
    result.assert_outcomes(**outcomes)


def test_each_of_the_ranks_has_the_order_of_the_run_and_each_test_as_often(plain):
    shuffled = (
        "\n\ndef pytest_collection_modifyitems(items):\n"
        "    if os.environ.get('RANK') == '1':\n        items.reverse()\n"
    )
    result = plain("--keep-duplicates", "test_it.py", "test_it.py", conftest=shuffled)
    result.assert_outcomes(passed=8)


def test_a_suite_that_sets_the_variables_of_torch_itself_starts_ranks_once(plain, monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "")  # so that what the suite sets here ends with this test
    alone = "\nos.environ.update(RANK='0', WORLD_SIZE='1', MASTER_ADDR='localhost', MASTER_PORT='1')\n"
    source = SUITE.replace("RANK is None", "True").replace("RANK is not None", "True")
    plain(source=source, conftest=alone).assert_outcomes(passed=4)


def test_warnings_that_are_errors_disturb_no_rank(plain):
    plain("-Werror").assert_outcomes(passed=4)


def test_properties_that_json_cannot_have_are_kept_as_texts(plain, pytester):
    source = SUITE.replace("launched, request", "launched, request, record_property")
    result = plain("--junit-xml=junit.xml", source=source, body="record_property('x', {(1, 2): 3})")
    result.assert_outcomes(passed=4)
    assert 'value="{(1, 2): 3}"' in (pytester.path / "junit.xml").read_text()


def test_options_of_the_suite_reach_the_ranks_and_files_are_written_once(plain, records, pytester):
    seen = "print('seen', file=open(f'ended-{RANK}', 'a'))"
    result = plain("--work=2", JSON, "--junit-xml=junit.xml", "-k", "step or before", body=seen)
    result.assert_outcomes(passed=3, deselected=1)
    assert 20e-3 == pytest.approx(records()["test_step[1rank]"]["gpu"]["median"])
    cases = ElementTree.parse(pytester.path / "junit.xml").getroot().iter("testcase")
    assert ["test_before", "test_step[1rank]", "test_step[2ranks]"] == [case.get("name") for case in cases]
    assert {"ended-0", "ended-1"} == {file.name for file in pytester.path.glob("ended-*")}


def test_a_baseline_is_compared_in_the_run_that_started_the_ranks(plain, records):
    base = ("--gpuperf-baseline=base.json", "--gpuperf-fail-on=efficiency:10%")
    plain(*base, "--gpuperf-baseline-missing=create").assert_outcomes(passed=4)
    result = plain(*base, "--work=1", source=SUITE.replace("8e-3", "9.9e-3"))
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["*test_step[[]2ranks]*efficiency*"])


def test_a_doubt_is_a_warning_of_the_run_and_the_first_failure_ends_it(plain):
    odd = "class Odd(UserWarning):\n    def __init__(self, one, two):\n        super().__init__('odd')\n\n"
    source = SUITE.replace("@pytest.fixture", f"{odd}@pytest.fixture")
    result = plain(source=source, body="warnings.warn(Odd(1, 2), stacklevel=1)")
    result.stdout.fnmatch_lines(["*test_it.py:*: UserWarning: odd"])
    warned = plain(body="warnings.warn('worn', DeprecationWarning, stacklevel=1)")
    warned.assert_outcomes(passed=4, warnings=3)
    warned.stdout.fnmatch_lines(["*test_it.py:*: DeprecationWarning: worn"])
    stopped = plain("-x", efficiency=0.9)
    stopped.assert_outcomes(passed=2, failed=1)


@pytest.mark.parametrize(
    ("options", "gpu", "words"),
    [
        (["--pdb"], "one", "2 ranks are needed, and with --pdb pytest starts none; leave it out, or start *"),
        (["-n1"], "one", "2 ranks are needed, and with -n pytest starts none; leave it out, or start *"),
        ([], "many", "3 ranks are needed: where a GPU is emulated, the processors are enough for 2"),
        ([], "real", "2 ranks are needed: each has a GPU of its own, of which there are 1"),
    ],
)
def test_where_no_ranks_are_started_one_is_measured_and_more_are_skipped(
    plain, monkeypatch, options, gpu, words
):
    monkeypatch.setattr(environment, "usable_processors", lambda: 1.0)
    source = SUITE.replace("    assert RANK is not None", "    pass  #")
    if gpu == "many":
        source = source.replace("[1, 2]", "[1, 3]")
    result = plain("-rs", *options, source=source, real=gpu == "real")
    result.assert_outcomes(passed=3, skipped=1)
    result.stdout.fnmatch_lines([f"SKIPPED * {words}"])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc tells which processes run")
@pytest.mark.parametrize(
    ("ending", "status"),
    [
        (signal.SIGINT, pytest.ExitCode.INTERRUPTED),
        (signal.SIGTERM, pytest.ExitCode.INTERRUPTED),
        (KILL, -KILL),
    ],
)
def test_nothing_is_left_of_ranks_when_the_run_is_ended(pytester, ending, status):
    conftest = CONFTEST.format(real="").replace("from cards import", "# ")
    interruptible = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    pytester.makeconftest(interruptible + conftest)  # whatever started the tests
    here = "print(os.getpid(), file=open(f'at-{RANK}', 'w'), flush=True)"
    hang = f"if ranks.count == 2: {here} or __import__('time').sleep(99)"
    pytester.makepyfile(test_it=SUITE.format(body=hang, efficiency=0.5))
    command = [sys.executable, "-mpytest", "-pgpuperf", "-pno:randomly", "--gpuperf-gpu=one"]
    temporary = pytester.mkdir("temporary")
    with subprocess.Popen(command, env={**os.environ, "TMPDIR": str(temporary)}, stdout=-3) as run:
        files = [Path(pytester.path, f"at-{number}") for number in (0, 1)]
        deadline = monotonic() + 60
        while not all(file.exists() and file.read_text() for file in files) and monotonic() < deadline:
            sleep(0.05)
        run.send_signal(ending)
        assert status == run.wait(30)
    deadline = monotonic() + 10
    while any(map(is_running, files)) and monotonic() < deadline:
        sleep(0.05)
    assert not any(map(is_running, files))
    if ending != KILL:
        assert [] == [*temporary.glob("gpuperf-ranks-*")]
