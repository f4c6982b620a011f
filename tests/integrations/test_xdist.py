"""pytest-xdist at pytest's door: the same records as without it, in every mode, and nobody sees how."""

import json
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

pytest.importorskip("xdist", reason="the extra `test` has pytest-xdist")
pytestmark = pytest.mark.usefixtures("forked_workers")

SUITE = {
    "test_variants": """
        import pytest

        @pytest.fixture
        def work(device):
            return lambda: device.launch()

        @pytest.mark.parametrize("b", [1, 2])
        @pytest.mark.parametrize("work", [0], indirect=True)
        @pytest.mark.parametrize("a", [1, 2, 3])
        @pytest.mark.speedup(min=3)
        def test_stacked(a, work, b):
            return work

        class TestMethods:
            @pytest.mark.speedup(min=300)
            def test_slow(self, work):
                return work

            def test_unmarked_between(self):
                pass

        @pytest.mark.xdist_group("mine")  # in the ids of --dist=loadgroup, and in no record's
        @pytest.mark.speedup(min=3)
        def test_grouped(work):
            return work
    """,
    "test_sizes": """
        import pytest

        @pytest.mark.parametrize("n", [100, 300, 1000, 3000, 10_000])
        @pytest.mark.offload_threshold("n", at_most=3000)
        @pytest.mark.speedup
        def test_scan(device, n):
            return lambda: device.launch(1e-3 if device.kind == "gpu" else n * 1e-6)

        @pytest.fixture
        def sized(device, n):
            return lambda: device.launch(1e-3 if device.kind == "gpu" else n * 1e-6)

        @pytest.mark.parametrize("n", [100, 10_000])
        @pytest.mark.offload_threshold("n", at_most=3000)
        @pytest.mark.speedup
        def test_variants_of_all_sizes(sized, n):
            return sized
    """,
    "test_plain": """
        import pytest

        @pytest.mark.parametrize("n", range(20))
        def test_plain(n):
            pass

        @pytest.mark.speedup(min=3)
        def test_alone(device):
            return lambda: device.launch()

        @pytest.mark.skip(reason="a bad day")
        @pytest.mark.speedup(min=3)
        def test_skipped(device):
            pass
    """,
}
CPU_SIDES_FIRST = """
    import pytest

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(items):
        items.sort(key=lambda item: "gpu" in item.name)
"""
SCHEDULERS = {
    "load": "LoadScheduling",
    "worksteal": "WorkStealingScheduling",
    "loadscope": "LoadScopeScheduling",
    "loadfile": "LoadFileScheduling",
    "loadgroup": "LoadGroupScheduling",
}
OURS = ["-p", "no:randomly", "--gpuperf-gpu=simulated", "--gpuperf-json=report.json"]


@pytest.fixture
def suite(pytester):
    """Run pytest on some files; return its result and the report."""

    def call(files, *options, conftest=""):
        pytester.makeconftest(conftest)
        pytester.makepyfile(**files)
        result = pytester.runpytest_inprocess(*OURS, *options)
        path = pytester.path / "report.json"
        return result, json.loads(path.read_text()) if path.exists() else None

    return call


@pytest.fixture(scope="module")
def alone_in():
    """Keep what a run without xdist gives, in each order of its tests."""
    return {}


def known(report, number=""):
    """Return what must not depend on the process that measured: statuses, medians, values, thresholds.

    Of tests that each worker runs, `number` is what is behind the ids of those that have ended later.
    """
    records = {}
    chosen = [record for record in report["records"] if (("#" in record["nodeid"]) == bool(number))]
    for record in chosen:
        sides = [record[side] and pytest.approx(record[side]["median"], rel=1e-6) for side in ("cpu", "gpu")]
        value = record["speedup"] and pytest.approx(record["speedup"]["value"], rel=1e-6)
        nodeid = record["nodeid"].removesuffix(number)
        assert nodeid not in records
        records[nodeid] = (record["status"], record["reason"], *sides, value)
    thresholds = {
        each["name"].removesuffix(number): (each["status"], each["smallest_won"])
        for each in report["thresholds"]
        if ("#" in each["name"]) == bool(number)
    }
    return records, thresholds, report["complete"]


# The other modes are those of the tests below in which workers crash.
@pytest.mark.parametrize(
    ("mode", "order"), [("load", "in order"), ("loadgroup", "CPU sides first"), ("each", "CPU sides first")]
)
def test_every_mode_gives_the_records_of_a_run_without_xdist(suite, alone_in, mode, order):
    conftest = CPU_SIDES_FIRST if order == "CPU sides first" else ""
    if order not in alone_in:
        alone_in[order] = suite(SUITE, "-n0", conftest=conftest)
    expected, alone = alone_in[order]
    result, report = suite(SUITE, "-n2", "--dist", mode, "-v", conftest=conftest)
    many = 2 if mode == "each" else 1
    for number in ("", "#2")[:many]:
        assert known(alone) == known(report, number)
    once = {"passed": 8, "failed": 1, "inconclusive": 0, "recorded": 17, "skipped": 1, "error": 0}
    assert {status: many * count for status, count in once.items()} == report["summary"]
    counts = {what: many * count for what, count in expected.parseoutcomes().items()}
    assert counts == result.parseoutcomes()
    if mode != "each":
        result.stdout.fnmatch_lines([f"scheduling tests via {SCHEDULERS[mode]}"])
    result.stdout.fnmatch_lines(
        ["* PASSED (9.95x [[]9.85, 10.0], required 3x, *) test_plain.py::test_alone *"]
    )


CRASHING = {
    "test_it": """
        import os
        import signal
        import pytest

        @pytest.fixture
        def work(device):
            return lambda: device.launch()

        @pytest.mark.parametrize("n", range(6))
        @pytest.mark.speedup(min=3)
        def test_pair(work, n):
            return work

        def test_lost():
            {crash}

        @pytest.mark.parametrize("n", range(20))
        def test_plain(n):
            pass
    """
}
LOST_BETWEEN = """
    import pytest

    def place(item):
        return 1 if "lost" in item.name else 2 if "gpu" in item.name else 0 if "cpu" in item.name else 3

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(items):
        items.sort(key=place)
"""


def test_a_gpu_variant_says_that_its_cpu_variant_was_lost(suite):
    source = """
        import os
        import pytest

        @pytest.fixture
        def work(device):
            if device.kind == "cpu":
                os._exit(3)
            return lambda: device.launch()

        @pytest.mark.speedup(min=3)
        def test_it(work):
            return work
    """
    result, report = suite({"test_it": source}, "-n1", "--dist=loadfile", "-v")
    result.stdout.fnmatch_lines(["scheduling tests via LoadFileScheduling"])
    reasons = {record["nodeid"]: record["reason"] for record in report["records"]}
    assert {"passed": 0, "failed": 0, "inconclusive": 0, "recorded": 0, "skipped": 0, "error": 2} == report[
        "summary"
    ]
    assert "crashed while running" in reasons["test_it.py::test_it[cpu]"]
    lost = "its CPU variant test_it.py::test_it[cpu] did not run before it in this process"
    assert lost in reasons["test_it.py::test_it[gpu]"]
    assert report["complete"] is False


SEEN = """
    from pathlib import Path
    import pytest

    def note(*lines):
        with Path(__file__).with_name("seen.log").open("a") as log:
            log.writelines(f"{line}\\n" for line in lines)

    def pytest_xdist_node_collection_finished(node, ids):
        note(*ids)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(session):
        note(*(item.nodeid for item in session.items))

    def pytest_runtest_logstart(nodeid):
        note(nodeid)

    def pytest_runtest_logreport(report):
        note(report.nodeid)

    def pytest_handlecrashitem(crashitem):
        note(crashitem)
"""


EXIT = "os._exit(3)"
KILL = "os.kill(os.getpid(), signal.SIGKILL)" if hasattr(signal, "SIGKILL") else EXIT


# How a worker ends is the same to every scheduler; test_xdist_schedulers.py has all of them lose workers.
# All tests are in one scope and one file, so one worker does what two would.
@pytest.mark.parametrize(
    ("mode", "workers", "crash"),
    [
        ("worksteal", 2, EXIT),
        ("loadscope", 1, KILL),
    ],
)
def test_a_worker_that_crashes_loses_only_its_test_and_nobody_sees_how_the_workers_tell(
    suite, pytester, mode, workers, crash
):
    files = {name: source.format(crash=crash) for name, source in CRASHING.items()}
    options = (f"-n{workers}", "--dist", mode, "-v", "--junitxml=junit.xml")
    result, report = suite(files, *options, conftest=LOST_BETWEEN + SEEN)
    counts = result.parseoutcomes()
    assert 1 == counts["failed"]
    assert 12 + 20 <= counts["passed"] <= 12 + 20 + 6  # CPU variants that had to run again
    result.stdout.fnmatch_lines(["*worker 'gw*' crashed while running 'test_it.py::test_lost'*"])
    again = [record for record in report["records"] if record["nodeid"].endswith("#2")]
    assert {"recorded"} >= {record["status"] for record in again}
    once = {"passed": 6, "failed": 0, "inconclusive": 0, "recorded": 6, "skipped": 0, "error": 0}
    assert once | {"recorded": 6 + len(again)} == report["summary"]
    assert 12 + 20 + len(again) == counts["passed"]
    seen = set((pytester.path / "seen.log").read_text().splitlines())
    pairs = {f"test_it.py::test_pair[{n}-{side}]" for n in range(6) for side in ("cpu", "gpu")}
    plain = {f"test_it.py::test_plain[{n}]" for n in range(20)}
    assert pairs | plain | {"test_it.py::test_lost"} == seen
    assert "\x1f" not in str(result.stdout)
    assert "gpuperf:" not in str(result.stdout)
    names = {case.get("name") for case in ElementTree.parse(pytester.path / "junit.xml").iter("testcase")}
    assert {nodeid.split("::")[1] for nodeid in seen} == names
    result.stdout.fnmatch_lines([f"scheduling tests via {SCHEDULERS[mode]}"])


def test_workers_that_collect_different_tests_are_told_apart_as_ever(suite):
    source = """
        import os
        import pytest

        @pytest.mark.parametrize("n", [os.environ["PYTEST_XDIST_WORKER"], "same"])
        @pytest.mark.speedup
        def test_it(device, n):
            return lambda: device.launch()

        @pytest.fixture
        def work(device):
            return lambda: device.launch()

        @pytest.mark.speedup
        def test_pair(work):
            return work
    """
    result, _ = suite({"test_it": source}, "-n2")
    result.stdout.fnmatch_lines(["Different tests were collected between gw? and gw?*"])
    said = str(result.stdout)
    assert "\x1f" not in said
    assert "groups" not in said


THEIRS = """
    import pytest
    from xdist.scheduler import LoadScheduling

    class TheirScheduling(LoadScheduling):
        def add_node_collection(self, node, collection):
            assert collection == [nodeid for nodeid in collection if nodeid.startswith("test_")]
            super().add_node_collection(node, collection)

    {hookimpl}
    def pytest_xdist_make_scheduler(config, log):
        return TheirScheduling(config, log)
"""


@pytest.mark.parametrize("hookimpl", ["@pytest.hookimpl(tryfirst=True)", "@pytest.hookimpl(trylast=True)"])
def test_another_plugins_scheduler_stays(suite, hookimpl):
    files = {"test_sizes": SUITE["test_sizes"]}
    result, report = suite(files, "-n1", "-v", conftest=THEIRS.format(hookimpl=hookimpl))
    result.stdout.fnmatch_lines(["scheduling tests via TheirScheduling"])
    assert 9 == len(report["records"])


# test_xdist_schedulers.py has every scheduler without groups.
def test_a_suite_without_our_marks_runs_as_ever(suite, pytester):
    files = {"test_plain": "import pytest\n@pytest.mark.parametrize('n', range(40))\ndef test_it(n): pass"}
    result, _ = suite(files, "-n1", conftest=SEEN)
    result.assert_outcomes(passed=40)
    seen = set((pytester.path / "seen.log").read_text().splitlines())
    assert {f"test_plain.py::test_it[{n}]" for n in range(40)} == seen


def test_without_xdist_nothing_of_it_is_imported(pytester):
    pytester.makepyfile(test_it="import pytest\n@pytest.mark.speedup\ndef test_it(device): device.launch()")
    pytester.makeconftest("import sys\ndef pytest_unconfigure(): print('IMPORTED', *sorted(sys.modules))")
    command = [sys.executable, "-m", "pytest", "-s", "-pgpuperf", "-pxdist", "--gpuperf-gpu=simulated"]
    ran = subprocess.run(command, cwd=pytester.path, capture_output=True, text=True, check=True)
    (line,) = [line for line in ran.stdout.splitlines() if line.startswith("IMPORTED")]
    assert "pytest_gpuperf.timing.trial" in line.split()
    assert not {"pytest_gpuperf.integrations.xdist", "pytest_gpuperf.integrations.xdist_schedulers"} & set(
        line.split()
    )


MANY = """
    from pytest_gpuperf.devices.simulated import SimulatedBackend

    def pytest_gpuperf_devices():
        return [SimulatedBackend(name="many", count=2)]
"""
WHERE = """
    import time
    import pytest

    @pytest.mark.parametrize("n", range(12))
    @pytest.mark.speedup
    def test_it(device, n, worker_id):
        print("on", worker_id)
        time.sleep(0 if worker_id == "master" else 0.05)  # so that each worker gets some
        return lambda: device.launch()
"""


# tests/unit/devices/test_registry.py has more workers than GPUs, and a GPU that was chosen.
@pytest.mark.parametrize(
    ("expected", "workers"), [({"simulated GPU"}, "-n0"), ({"simulated GPU", "simulated GPU 1"}, "-n2")]
)
def test_workers_have_a_gpu_each(suite, expected, workers):
    _, report = suite({"test_it": WHERE}, "--gpuperf-gpu=many", workers, conftest=MANY)
    assert 12 == len(report["records"])
    assert expected == {record["gpu"]["device"]["name"] for record in report["records"]}
