"""pytest-xdist at pytest's door: the same records as without it, in every mode, and nobody sees how."""

import json

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
SORTED = """
    import pytest

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(items):
        items.sort(key=lambda item: "{last}" in item.name)
"""
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


def known(report, number=""):
    """Return what must not depend on the process that measured: statuses, medians, values, thresholds.

    Of tests that each worker runs, `number` is what is behind the ids of those that have ended later.
    """
    records = {}
    for record in report["records"]:
        sides = [record[side] and pytest.approx(record[side]["median"], rel=1e-6) for side in ("cpu", "gpu")]
        value = record["speedup"] and pytest.approx(record["speedup"]["value"], rel=1e-6)
        if ("#" in record["nodeid"]) == bool(number):
            nodeid = record["nodeid"].removesuffix(number)
            assert nodeid not in records
            records[nodeid] = (record["status"], record["reason"], *sides, value)
    thresholds = {
        each["name"].removesuffix(number): (each["status"], each["smallest_won"])
        for each in report["thresholds"]
        if ("#" in each["name"]) == bool(number)
    }
    return records, thresholds, report["complete"]


# Where GPU variants come first, their CPU variants have left nothing yet, or run in another worker.
@pytest.mark.parametrize(("mode", "last"), [("load", "cpu"), ("loadgroup", "gpu"), ("each", "gpu")])
def test_workers_give_the_records_of_a_run_without_xdist(suite, mode, last):
    conftest = SORTED.format(last=last)
    expected, alone = suite(SUITE, "-n0", conftest=conftest)
    result, report = suite(SUITE, "-n2", "--dist", mode, "-v", conftest=conftest)
    many = 2 if mode == "each" else 1
    for number in ("", "#2")[:many]:
        assert known(alone) == known(report, number)
    once = {"passed": 8, "failed": 1, "inconclusive": 0, "recorded": 13, "skipped": 1, "error": 0}
    assert {status: many * count for status, count in once.items()} == report["summary"]
    counts = {what: many * count for what, count in expected.parseoutcomes().items()}
    assert counts == result.parseoutcomes()
    result.stdout.fnmatch_lines(
        ["* PASSED (9.95x [[]9.95, 9.95], required 3x, *) test_plain.py::test_alone *"]
    )


CRASHING = """
    import os
    import pytest

    @pytest.fixture
    def work(device, request):
        if "crashes" in request.node.name and device.kind == "cpu":
            os._exit(3)
        return lambda: device.launch()

    @pytest.mark.speedup(min=3)
    def test_crashes(work):
        return work

    @pytest.mark.parametrize("n", range(6))
    @pytest.mark.speedup(min=3)
    def test_pair(work, n):
        return work

    def test_lost():
        os._exit(3)

    @pytest.mark.parametrize("n", range(20))
    def test_plain(n):
        pass
"""
LOST_BETWEEN = """
    import pytest

    def place(item):
        return 1 if "lost" in item.name else 2 if "gpu" in item.name else 0 if "cpu" in item.name else 3

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(items):
        items.sort(key=place)
"""


def test_a_worker_that_crashes_loses_only_its_test_and_the_variant_that_needs_it(suite):
    """Its CPU variants' samples are lost with it: the GPU variants run them again in the next worker."""
    result, report = suite({"test_it": CRASHING}, "-n2", "--dist=worksteal", "-v", conftest=LOST_BETWEEN)
    assert {"failed": 3, "passed": 12 + 20} == result.parseoutcomes()
    result.stdout.fnmatch_lines(["*worker 'gw*' crashed while running 'test_it.py::test_lost'*"])
    ended = dict.fromkeys(report["summary"], 0) | {"passed": 6, "recorded": 6, "error": 2}
    assert ended == report["summary"]
    reasons = {each["nodeid"]: each["reason"] for each in report["records"] if each["status"] == "error"}
    assert {"test_it.py::test_crashes[cpu]", "test_it.py::test_crashes[gpu]"} == {*reasons}
    assert all("crashed while running" in reason for reason in reasons.values())
    assert report["complete"] is False


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
        time.sleep(0.05)  # so that each worker gets some
        return lambda: device.launch()
"""


# tests/unit/devices/test_machine.py has more workers than GPUs, and a GPU that was chosen.
def test_workers_have_a_gpu_each(suite):
    _, report = suite({"test_it": WHERE}, "--gpuperf-gpu=many", "-n2", conftest=MANY)
    assert 12 == len(report["records"])
    assert {"simulated GPU", "simulated GPU 1"} == {
        each["gpu"]["device"]["name"] for each in report["records"]
    }
