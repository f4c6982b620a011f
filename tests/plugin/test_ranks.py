"""Several pytest processes with the variables of a launcher: one measures, the others wait."""

import json
import re
import socket
import subprocess
import sys
from contextlib import ExitStack, closing, suppress
from textwrap import dedent
from threading import Event, Thread, Timer

import pytest
from launches import launched
from real_clock import REAL_TIME

from pytest_gpuperf.session.ranks.channel import Server, connect
from pytest_gpuperf.session.ranks.meeting import FileMeeting, file_of
from pytest_gpuperf.session.ranks.process import Place

SHORT = """
from pytest_gpuperf.session.ranks import patience, roles

roles._JOIN, patience._SHORTEST, patience._CALLS = {join}, 1.0, 1
"""
TWO = """
    import os
    import time
    import pytest

    RANK = os.environ["RANK"]

    @pytest.mark.speedup
    def test_first(device):
        return lambda: time.sleep(1e-3)

    @pytest.mark.speedup
    def test_second(device):
        {fault}
        return lambda: time.sleep(1e-3)

    @pytest.mark.speedup
    def test_third(device):
        return lambda: time.sleep(1e-3)

    def test_plain():
        pass
"""
FAULT_ON_1 = 'if RANK == "1": {}'


@pytest.fixture
def launch(pytester):
    """Run a suite in as many ranks as are asked for, and return how they ended."""

    def run(source, *options, ranks=2, started=None, join=60.0, each=None, **variables):
        pytester.makeconftest(dedent(REAL_TIME) + SHORT.format(join=join))
        pytester.makepyfile(test_it=source)
        numbers = range(ranks) if started is None else started
        options = ["--gpuperf-json=report.json", *options]
        return launched(pytester.path, numbers, ranks, *options, each=each, **variables)

    return run


def test_rank_0_measures_and_writes_and_the_other_runs_each_test_once(launch, pytester):
    body = 'open(f"calls-{RANK}", "a").write(f"{device.kind} ")'
    found = launch(TWO.format(fault=body))
    assert [0, 0] == found.status
    assert {"test_first": "recorded", "test_second": "recorded", "test_third": "recorded"} == found.statuses()
    assert {"launcher": "variables", "ranks": 2, "nodes": 1} == found.report["launch"]
    assert "cpu gpu " == (pytester.path / "calls-1").read_text()
    first, second = found.output
    assert "gpuperf: rank 0 of 2 (RANK and WORLD_SIZE) measures the speedup tests" in first
    assert "gpuperf: rank 1 of 2 (RANK and WORLD_SIZE) runs each speedup test once" in second
    assert "- gpuperf -" in first
    assert "- gpuperf -" not in second
    assert "4 passed" in first
    assert "4 passed" in second


def test_rank_0_samples_when_all_wait_and_they_wait_until_it_has(launch, pytester):
    """The system's clock is one for all processes: of rank 1 nothing is within rank 0's samples."""
    source = """
        import os
        import time
        from pathlib import Path
        import pytest

        RANK = os.environ["RANK"]
        times = []

        def note(words):
            with open(f"times-{RANK}", "a") as file:
                file.write(f"{words} {time.monotonic()}\\n")

        @pytest.mark.parametrize("n", range(3))
        @pytest.mark.speedup
        def test_it(device, n):
            note(f"begin-{n}")
            if RANK == "1":
                time.sleep(0.3)
            note(f"end-{n}")
            def call():
                time.sleep(1e-3)
                times.append(time.monotonic())
            return call

        @pytest.fixture(autouse=True)
        def last(request):
            times.clear()
            yield
            for each in times:
                note(f"call-{request.node.callspec.params['n']} {each}")
    """
    found = launch(source)
    assert [0, 0] == found.status

    def times(rank, word):
        text = (pytester.path / f"times-{rank}").read_text()
        return [float(each) for each in re.findall(rf"{word} (\S+)", text)]

    for n in range(3):
        calls, begun, ended = times(0, f"call-{n}"), times(1, f"begin-{n}")[0], times(1, f"end-{n}")[-1]
        before = [call for call in calls if call < ended]
        assert len(before) < 10 < len(calls)  # the first calls, and what looks at them
        if n:
            assert times(0, f"call-{n - 1}")[-1] < begun
    assert all(record["turn_wait"] > 0.2 for record in found.report["records"])


def test_a_test_that_fails_on_another_rank_fails_there_alone(launch):
    found = launch(TWO.format(fault=FAULT_ON_1.format("raise ValueError('odd')")))
    assert [0, 1] == found.status
    assert {"recorded"} == set(found.statuses().values())
    assert "ValueError: odd" in found.output[1]
    assert "rank_run" not in found.output[1]


def test_a_test_that_fails_on_rank_0_stops_nobody(launch):
    found = launch(TWO.format(fault='if RANK == "0": raise ValueError("odd")'))
    assert [1, 0] == found.status
    assert {"test_first": "recorded", "test_second": "error", "test_third": "recorded"} == found.statuses()


@pytest.mark.parametrize("death", ["os._exit(3)", "os.kill(os.getpid(), 9)"])
def test_a_rank_that_dies_is_named_and_rank_0_goes_on(launch, death):
    found = launch(TWO.format(fault=FAULT_ON_1.format(death)), ranks=3)
    assert 0 == found.status[0]
    assert 0 == found.status[2]
    assert {"recorded"} == set(found.statuses().values())
    named = r"gpuperf: rank 1 \(.*, process \d+\) was killed or crashed before it had run .*::test_second"
    assert re.search(named, found.output[0])


def test_where_rank_0_dies_the_others_go_on_and_say_so(launch):
    found = launch(TWO.format(fault='if RANK == "0": os._exit(3)'), ranks=3)
    assert [3, 0, 0] == found.status
    for output in found.output[1:]:
        assert "gpuperf: rank 0 was killed or crashed: the tests after that ran without it" in output
        assert "4 passed" in output


def test_a_rank_that_ends_early_says_its_exit_status(launch):
    fault = FAULT_ON_1.format("pytest.exit('enough', returncode=7)")
    found = launch(TWO.format(fault=fault))
    assert [0, 7] == found.status
    assert [] == [note for note in found.notes() if "rank" in note]
    assert re.search(r"rank 1 \(.*\) ended with exit status \d before it had run", found.output[0])


ENDED = "os.kill(os.getpid(), 15); time.sleep(60)"


@pytest.mark.skipif(sys.platform == "win32", reason="where os.kill ends a process at once")
@pytest.mark.parametrize("rank", ["0", "1"])
def test_a_rank_that_a_launcher_ends_writes_its_report_and_says_where_it_was(launch, rank):
    found = launch(TWO.format(fault=f'if RANK == "{rank}": {ENDED}'))
    assert 2 == found.status[int(rank)]
    assert re.search(r"this run was asked to end \(SIGTERM\) at .*test_it.py:\d+", found.output[int(rank)])
    statuses = found.statuses()
    assert "recorded" == statuses["test_first"]
    assert ("error" if rank == "0" else "recorded") == statuses["test_second"]


@pytest.mark.skipif(sys.platform == "win32", reason="where os.kill ends a process at once")
def test_sigterm_cuts_no_report_short_ends_what_a_test_forks_and_is_left_to_a_suite(launch, pytester):
    finishing = "\n    def pytest_sessionfinish(): os.kill(os.getpid(), 15)\n"
    pytester.makepyfile(plugin="import os\n" + dedent(finishing))
    found = launch(TWO.format(fault="pass"), "-pplugin", PYTHONPATH=f"{pytester.path}:{':'.join(sys.path)}")
    assert [0, 0] == found.status
    assert {"recorded"} == set(found.statuses().values())
    forked = (
        "ready, here = os.pipe(); child = os.fork() or (os.write(here, b'.'), time.sleep(60));"
        "os.read(ready, 1); os.kill(child, 15); assert os.waitpid(child, 0)[1] == 15"
    )
    assert [0, 0] == launch(TWO.format(fault=forked)).status
    own = "\n    import signal\n    signal.signal(15, lambda *_: os._exit(7))\n"
    assert [0, 7] == launch(TWO.format(fault=FAULT_ON_1.format(ENDED)) + own).status


def test_ranks_that_collect_different_tests_end_in_words(launch):
    found = launch(TWO.format(fault="pass"), each={1: ["-k", "not second"]})
    assert [4, 4] == found.status
    for output in found.output:
        assert (
            "ERROR: the ranks have collected different tests, 3 speedup tests on rank 0 and 2 on rank 1"
            in output
        )
        assert "test_it.py::test_second is on rank 0 only" in output


def test_ranks_with_another_order_end_in_words(launch):
    source = """
        import os
        import pytest

        @pytest.mark.parametrize("n", [1, 2] if os.environ["RANK"] == "0" else [2, 1])
        @pytest.mark.speedup
        def test_it(device, n):
            return lambda: None
    """
    found = launch(source)
    assert [4, 4] == found.status
    assert all("in another order" in output for output in found.output)


def test_a_test_that_only_one_rank_skips_holds_up_nobody(launch):
    for rank in "01":
        found = launch(TWO.format(fault=f'if RANK == "{rank}": pytest.skip("not here")'))
        assert [0, 0] == found.status
        assert ("skipped" if rank == "0" else "recorded") == found.statuses()["test_second"]


def test_a_rank_that_hangs_is_waited_for_once_and_named_in_the_records(launch, pytester):
    fault = FAULT_ON_1.format("time.sleep(20) if not os.path.exists('over') else None")
    source = TWO.format(fault=fault) + (
        '\n    def test_over():\n        open("over", "w").close()\n'
        '\n    @pytest.fixture(scope="session", autouse=True)\n    def end():\n        yield\n'
        '        if RANK == "0": os.kill(int(open("pid").read()), 9)\n'
        '\n    if RANK == "1": open("pid", "w").write(str(os.getpid()))\n'
    )
    found = launch(source)
    assert 0 == found.status[0]
    records = {record["nodeid"].partition("::")[2]: record for record in found.report["records"]}
    assert [] == [note for note in records["test_first"]["notes"] if note["code"] == "not_exclusive"]
    for name in ("test_second", "test_third"):
        (note,) = (note for note in records[name]["notes"] if note["code"] == "not_exclusive")
        assert "rank 1 has not come to wait, and may have run tests meanwhile" == note["text"]
    assert records["test_second"]["turn_wait"] > 0.9
    assert records["test_third"]["turn_wait"] is None


def test_a_rank_that_never_comes_is_named_on_those_that_do(launch):
    first = launch(TWO.format(fault="pass"), started=[0], join=0.3)
    assert [0] == first.status
    assert "gpuperf: rank 1 did not come within 0.3 s: it has collected no speedup test" in first.output[0]
    assert "parent process" not in first.output[0]
    assert "rank 1 has not come to wait, and may have run tests meanwhile" in first.notes()
    (second,) = launch(TWO.format(fault="pass"), started=[1], join=0.3).output
    assert "gpuperf: rank 0 did not come within 0.3 s" in second
    assert "4 passed" in second


@pytest.mark.parametrize("rank", [0, 1])
def test_ranks_that_do_not_meet_and_have_no_key_are_told_which_variable_makes_one(launch, rank):
    found = launch(TWO.format(fault="pass"), started=[rank], join=0.3, MASTER_PORT="")
    remedy = (
        "or the ranks do not have the same parent process, by which they are known: set MASTER_PORT alike"
    )
    assert remedy in found.output[0]


def test_without_a_way_to_wait_ranks_take_turns_under_the_lock(launch, pytester, lock_file):
    asked = (
        "import filelock, sys; lock = filelock.FileLock(sys.argv[1], mode=0o666)\n"
        "try: lock.acquire(timeout=0); print('free')\n"
        "except filelock.Timeout: print('held')"
    )
    body = f"import subprocess, sys; command = [sys.executable, '-c', {asked!r}, {str(lock_file)!r}]; "
    body += "open(f'lock-{RANK}', 'a').write(subprocess.check_output(command, text=True))"
    source = TWO.format(fault=FAULT_ON_1.format(body)) + (
        "\n    from pytest_gpuperf.session.ranks import meeting\n"
        "\n    def nowhere(key):\n        raise OSError('no folder')\n"
        "\n    meeting.file_of = nowhere\n"
    )
    found = launch(source, f"--gpuperf-lock={lock_file}")
    assert [0, 0] == found.status
    assert "the other ranks cannot wait for this one, and take turns with it: no folder" in found.output[0]
    assert "this rank cannot wait for rank 0, and takes turns with it: no folder" in found.output[1]
    assert [] == [note for note in found.notes() if "rank" in note]
    assert "held\nheld\n" == (pytester.path / "lock-1").read_text()


def test_without_a_way_to_wait_nor_turns_each_record_says_that_ranks_may_disturb(launch):
    """A test that may wait for other ranks must be in all of them at one time."""
    source = TWO.format(fault="pass") + (
        "\n    import sys\n    import types\n    from pytest_gpuperf.session.ranks import meeting\n"
        "\n    def nowhere(key):\n        raise OSError('no folder')\n"
        "\n    meeting.file_of = nowhere\n"
        "\n    sys.modules['mpi4py.MPI'] = types.ModuleType('mpi4py.MPI')\n"
    )
    found = launch(source)
    assert [0, 0] == found.status
    note = "the other ranks cannot wait for this one, and may have run tests meanwhile"
    assert [note] * 3 == [text for text in found.notes() if "rank" in text]


@pytest.mark.parametrize("option", ["--pdb", "--trace"])
def test_a_debugger_is_refused_in_words(launch, option):
    found = launch(TWO.format(fault="pass"), option)
    assert [4, 4] == found.status
    problem = f"ERROR: {option} under a launcher (RANK and WORLD_SIZE): the other ranks would wait"
    assert all(problem in output for output in found.output)


def test_reruns_and_workers_are_refused_in_words(launch):
    pytest.importorskip("xdist", reason="the extra `test` has pytest-xdist")
    found = launch(TWO.format(fault="pass"), "-pxdist", "-n1")
    assert [4, 4] == found.status
    assert all(
        "-n under a launcher (RANK and WORLD_SIZE): each rank would start" in each for each in found.output
    )
    pytest.importorskip("pytest_rerunfailures", reason="the extra `test` has it")
    found = launch(TWO.format(fault="pass"), "-ppytest_rerunfailures", "--reruns=2")
    assert [4, 4] == found.status
    assert all("--reruns under a launcher" in output for output in found.output)
    assert [0, 0] == launch(TWO.format(fault="pass"), "-ppytest_rerunfailures", "--reruns=0").status


def test_wrong_variables_are_an_error_where_there_is_a_speedup_test(launch):
    found = launch(TWO.format(fault="pass"), WORLD_SIZE="two")
    assert [4, 4] == found.status
    assert all("ERROR: WORLD_SIZE='two' is no number, and " in output for output in found.output)
    assert [0, 0] == launch("def test_plain(): pass", WORLD_SIZE="two").status


def test_on_several_machines_speedup_tests_are_refused_and_others_run(launch):
    found = launch(TWO.format(fault="pass"), LOCAL_WORLD_SIZE=1)
    assert [1, 1] == found.status
    for output in found.output:
        assert "this launch has 2 ranks on 2 machines, which cannot wait for each other: on several" in output
        assert "1 passed, 3 errors" in output


def test_a_suite_without_a_speedup_test_notices_nothing(launch, pytester):
    source = """
        import sys

        def test_plain():
            ours = {name for name in sys.modules if name.startswith("pytest_gpuperf.")}
            assert not {name for name in ours if "rank" in name or "launch" in name}
    """
    pytester.makeini("[pytest]")
    found = launch(source, started=[0, 1])
    assert "gpuperf: rank" not in "".join(found.output)


def test_a_run_that_a_test_starts_is_no_rank(launch):
    source = """
        import subprocess
        import sys
        import pytest

        @pytest.mark.speedup
        def test_it(device):
            return getattr(device, "launch", lambda: None)

        def test_inner(tmp_path):
            (tmp_path / "test_inner.py").write_text(open(__file__).read().split("def test_inner")[0])
            options = ["-pgpuperf", "-pno:randomly", "--gpuperf-gpu=simulated", "--gpuperf-lock=none"]
            command = [sys.executable, "-m", "pytest", *options, str(tmp_path)]
            output = subprocess.run(command, capture_output=True, text=True).stdout
            assert "1 passed" in output, output
            assert "gpuperf: rank" not in output
    """
    found = launch(source)
    assert [0, 0] == found.status, found.output


def test_a_run_within_the_process_of_a_rank_is_no_rank(launch):
    source = """
        import pytest

        @pytest.mark.speedup
        def test_it(device):
            return lambda: None

        def test_inner(pytester):
            body = "return getattr(device, 'launch', lambda: None)"
            inner = f"import pytest\\n@pytest.mark.speedup\\ndef test_it(device): {body}"
            pytester.makepyfile(test_inner=inner)
            options = ["-pgpuperf", "-pno:randomly", "--gpuperf-gpu=simulated", "--gpuperf-lock=none"]
            found = pytester.runpytest_inprocess(*options)
            found.assert_outcomes(passed=1)
            found.stdout.no_fnmatch_line("*gpuperf: rank*")

        @pytest.mark.speedup
        def test_last(device):
            return lambda: None
    """
    found = launch(source, "-ppytester", "--runpytest=inprocess")
    assert [0, 0] == found.status, "".join(found.output)
    assert {"test_it": "recorded", "test_last": "recorded"} == found.statuses()
    assert "crashed" not in "".join(found.output)


def test_variants_and_both_and_unittest_run_once_on_the_other_rank(launch, pytester):
    source = """
        import os
        import time
        import unittest
        import pytest

        RANK = os.environ["RANK"]

        def note(name, device):
            open(f"calls-{RANK}", "a").write(f"{name}-{device.kind} ")
            time.sleep(1e-3)

        @pytest.fixture
        def work(device):
            return lambda: note("variant", device)

        @pytest.mark.speedup
        def test_variant(work):
            return work

        @pytest.mark.speedup
        def test_both(gpuperf):
            gpuperf.both(lambda device: note("both", device))

        class TestCase(unittest.TestCase):
            @pytest.fixture(autouse=True, params=["cpu", "gpu"])
            def take(self, device):
                self.device = device
    """
    found = launch(source)
    assert [0, 0] == found.status, found.output
    assert "variant-cpu variant-gpu both-cpu both-gpu " == (pytester.path / "calls-1").read_text()
    assert {"recorded"} == set(found.statuses().values())


def test_a_scaling_test_is_measured_on_rank_0_alone(launch):
    source = """
        import pytest

        @pytest.mark.scaling([1, 2])
        def test_it(devices):
            return lambda: None
    """
    found = launch(source, "-rs")
    assert "rank 0 alone measures a scaling test, on GPUs that this rank leaves idle" in found.output[1]
    assert "2 skipped" in found.output[1]


@pytest.mark.parametrize("is_in_use", [False, True])
def test_a_file_of_an_earlier_launch_misleads_nobody(launch, pytester, is_in_use):
    """Its port is closed, or somebody else's by now, who knows nothing of ranks."""
    source = TWO.format(fault="pass") + (
        "\n    from pathlib import Path\n    from pytest_gpuperf.session.ranks import meeting\n"
        "\n    meeting.file_of = lambda key: Path(__file__).with_name('file')\n"
        "\n    if RANK == '0': time.sleep(1)\n"
    )

    def hang_up():
        with suppress(OSError):
            while True:
                stranger.accept()[0].close()

    with socket.create_server(("127.0.0.1", 0)) as stranger:
        (pytester.path / "file").write_text(text_of(stranger.getsockname()[1]))
        if is_in_use:
            Thread(target=hang_up, daemon=True).start()
        else:
            stranger.close()
        found = launch(source)
    assert [0, 0] == found.status
    assert "gpuperf: rank 0 of 2" in found.output[0]
    assert not re.search("rank 0 (did not come|was killed|ended)", found.output[1])


def test_a_rank_that_fails_ends_after_rank_0_has_written(launch, pytester):
    """A launcher such as torchrun kills all ranks once one has failed."""
    source = TWO.format(fault=FAULT_ON_1.format("raise ValueError('odd')")) + (
        '\n    def test_last():\n        if RANK == "0": time.sleep(1)\n'
        "\n    import atexit, pathlib\n"
        '\n    if RANK == "1": atexit.register(lambda: open("seen", "w").write('
        'str(pathlib.Path("report.json").exists())))\n'
    )
    assert [0, 1] == launch(source).status
    assert "True" == (pytester.path / "seen").read_text()


def test_an_expected_failure_is_none_of_a_rank_that_does_not_measure(launch):
    found = launch(
        """
        import pytest, time

        @pytest.mark.xfail(strict=True)
        @pytest.mark.speedup(min=1000)
        def test_it(device):
            return lambda: time.sleep(1e-3)
        """
    )
    assert [0, 0] == found.status
    assert {"test_it": "failed"} == found.statuses()


def test_what_failed_on_rank_0_is_remembered_for_lf(launch, pytester):
    source = """
        import os, pytest, time

        @pytest.mark.speedup(min=1000)
        def test_it(device):
            return lambda: time.sleep(1e-3)

        def test_plain():
            if os.environ["RANK"] == "1":  # which writes last
                time.sleep(2)
    """
    launch(source, "-p", "cacheprovider")
    failed = pytester.path / ".pytest_cache" / "v" / "cache" / "lastfailed"
    assert ["test_it"] == [name.partition("::")[2] for name in json.loads(failed.read_text())]


def test_both_and_tear_down_are_followed_by_what_other_ranks_do(launch):
    # A barrier of files, as a collective of the suite's own: it takes both ranks.
    found = launch(
        """
        import os, pathlib, time, unittest
        import pytest

        def barrier(name):
            here = pathlib.Path(f"{name}{os.environ['RANK']}")
            here.touch()
            until = time.monotonic() + 20
            while len(list(pathlib.Path().glob(f"{name}?"))) < 2:
                assert time.monotonic() < until, "the other rank did not come"
                time.sleep(0.01)

        @pytest.mark.speedup
        def test_both(gpuperf):
            gpuperf.both(lambda device: time.sleep(1e-3))
            barrier("both")

        class TestIt(unittest.TestCase):
            def tearDown(self):
                barrier("unittest")

            @pytest.mark.speedup(pair="it", device="cpu")
            def test_cpu(self):
                time.sleep(1e-3)
        """
    )
    assert [0, 0] == found.status
    assert found.report["records"][-1]["cpu"] is not None
    assert not [note for note in found.notes() if "come to wait" in note]


def test_a_rank_that_ends_early_does_not_hold_up_one_that_waits_for_it(launch):
    # Rank 1 holds a lock until its process ends; rank 0 waits for that, as in a collective.
    found = launch(
        """
        import fcntl, os, time
        import pytest

        HELD = open("held", "w")
        if os.environ["RANK"] == "1":
            fcntl.flock(HELD, fcntl.LOCK_EX)

        @pytest.mark.speedup
        def test_first(device):
            return lambda: time.sleep(1e-3)

        def test_plain():
            assert os.environ["RANK"] == "0"

        def test_second():
            until = time.monotonic() + 60
            while time.monotonic() < until:
                try:
                    fcntl.flock(HELD, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    time.sleep(0.05)
                else:
                    return
            pytest.fail("rank 1 waited for rank 0")
        """,
        "-x",
    )
    assert [0, 1] == found.status


def test_a_marker_of_reruns_is_refused_in_words(launch):
    pytest.importorskip("pytest_rerunfailures")
    found = launch(
        """
        import pytest, time

        @pytest.mark.flaky(reruns=1)
        @pytest.mark.speedup
        def test_it(device):
            return lambda: time.sleep(1e-3)
        """,
        "-p",
        "rerunfailures",
    )
    assert [4, 4] == found.status
    assert "has the marker flaky, by which one of several ranks would run it again" in found.output[0]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder in which ranks of this test meet."""
    folder = tmp_path / "ranks"
    monkeypatch.setattr("pytest_gpuperf.session.ranks.meeting._folders", lambda: [folder])
    return folder


@pytest.fixture
def served():
    """Let servers handle what comes, each in a thread, until the test ends."""
    with ExitStack() as stack:

        def serve(key, after=0.0):
            server = Server(FileMeeting(key), key, lambda *_: None, lambda *_: None)
            over = Event()

            def handle():
                over.wait(after)
                while not over.is_set():
                    server.wait(over.is_set, 0.02)

            thread = Thread(target=handle)
            thread.start()

            @stack.callback
            def end():
                over.set()
                thread.join()
                server.close()

            return server

        yield serve


def connected(key, number, seconds=30.0):
    channel = connect(FileMeeting(key), number, seconds)
    assert channel is not None
    return closing(channel)


def text_of(port, **changed):
    """Return what the file of a launch of this process says."""
    return json.dumps({**json.loads(Place.of_this_process(port, "old").text), **changed})


def ended_process():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_silent_program_with_the_port_of_an_earlier_launch_costs_a_second(folder, served):
    folder.mkdir(mode=0o700)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        file_of("key").write_text(text_of(silent.getsockname()[1]))
        timer = Timer(0.3, served, ["key"])
        timer.start()
        with connected("key", 1):
            pass
        timer.join()


def test_a_rank_0_that_is_busy_is_asked_once(folder, served, monkeypatch):
    monkeypatch.setattr("pytest_gpuperf.session.ranks.channel._LOOK", 0.02)
    asked = []
    connection = socket.create_connection
    monkeypatch.setattr(socket, "create_connection", lambda *a, **k: asked.append(a) or connection(*a, **k))
    served("key", after=0.5)
    with connected("key", 1):
        assert 1 == len(asked)


def test_the_token_of_a_launch_whose_rank_0_is_gone_is_told_nobody(folder):
    folder.mkdir(mode=0o700)
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        stranger.settimeout(0.0)
        file_of("key").write_text(text_of(stranger.getsockname()[1], process=ended_process()))
        assert connect(FileMeeting("key"), 1, 0.2) is None
        with pytest.raises(BlockingIOError):
            stranger.accept()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not say which processes there are")
def test_a_new_launch_removes_the_files_of_those_whose_rank_0_was_killed(folder, served, monkeypatch):
    folder.mkdir(mode=0o700)
    (folder / "gone").write_text(text_of(1, process=ended_process()))
    (folder / "gone-without-start").write_text(text_of(1, process=ended_process(), start=""))
    (folder / "here").write_text(text_of(1))
    (folder / "in-another-container").write_text(text_of(1, process=ended_process(), container="other"))
    (folder / "here-without-start").write_text(text_of(1, start=""))
    if sys.platform.startswith("linux"):
        (folder / "another-process-by-now").write_text(text_of(1, start="7"))
    served("key")
    left = {"here", "in-another-container", "here-without-start", file_of("key").name}
    assert left == {file.name for file in folder.iterdir()}


def test_a_launch_removes_no_file_of_a_later_one(folder):
    earlier, later = (Server(FileMeeting("key"), "key", print, print) for _ in range(2))
    earlier.close()
    assert later._token in file_of("key").read_text()
    later.close()
    assert [] == [*folder.iterdir()]


def test_a_second_rank_of_the_same_number_is_refused_in_words(folder, served):
    served("variables:localhost")
    refusal = r"^rank 0 has a rank 1 already, so .* key \(variables:localhost\)"
    with connected("variables:localhost", 1), pytest.raises(OSError, match=refusal):
        connect(FileMeeting("variables:localhost"), 1, 30.0)
    served("variables:localhost")
    with connected("variables:localhost", 1):
        pass


@pytest.mark.skipif(sys.platform == "win32", reason="the folder for temporary files is one user's")
def test_where_another_user_has_the_folder_the_next_one_is_taken_or_the_reason_told(tmp_path, monkeypatch):
    taken, own = tmp_path / "taken", tmp_path / "own"
    taken.mkdir()
    taken.chmod(0o777)
    monkeypatch.setattr("pytest_gpuperf.session.ranks.meeting._folders", lambda: [taken, own])
    assert own == file_of("key").parent
    assert 0o700 == own.stat().st_mode & 0o777
    monkeypatch.setattr(
        "pytest_gpuperf.session.ranks.meeting._folders", lambda: [taken, tmp_path / "not" / "there"]
    )
    with pytest.raises(OSError, match="taken is not a folder of this user alone"):
        connect(FileMeeting("key"), 1, 30.0)
