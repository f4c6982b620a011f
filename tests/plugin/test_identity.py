"""Two tests are never one: each run of each test has a record, whatever pytest's node ids are."""

import json
import re
from collections import Counter
from types import SimpleNamespace

import pytest
from conftest import TWO_DEVICES

SPEEDUPS = {"package/near/test_fft.py": 10 / 9, "package/far/test_fft.py": 10, "loose/test_other.py": 10 / 9}
"""The modules, of which two have one name, and how much faster the GPU is in each: it takes 9 calls, or 1."""
MODULE = """
import pytest

def work(xp, name):
    for _ in range({calls} if name == "cupy" else 1):
        xp.ones(3)

@pytest.mark.speedup(min=3)
def test_slot(device):
    return lambda: work(device.xp, "numpy" if device.kind == "cpu" else "cupy")

@pytest.mark.speedup(min=3)
def test_variants(xp):
    work(xp, xp.__name__)

class TestMethods:
    @pytest.mark.speedup(min=3)
    def test_variants(self, xp):
        work(xp, xp.__name__)

@pytest.mark.offload_threshold("n")
@pytest.mark.parametrize("n", [4, 8])
@pytest.mark.speedup
def test_sizes(device, n):
    return lambda: work(device.xp, "numpy" if device.kind == "cpu" else "cupy")
"""
NEAR, FAR = "package.near.test_fft", "package.far.test_fft"
GATE = ("--gpuperf-baseline=base.json", "--gpuperf-fail-on=speedup:10%", "--gpuperf-max-time=3")


@pytest.fixture
def run_places(pytester, monkeypatch):
    """Run pytest with a root folder beside the suite or around it; return what it collected and recorded."""
    params = 'params=["numpy", "cupy"]'
    session_wide = TWO_DEVICES.replace(params, f'{params}, scope="session"')
    pytester.mkdir("beside")
    suite = pytester.mkdir("suite")
    for path, speedup in SPEEDUPS.items():
        file = suite / path
        file.parent.mkdir(parents=True)
        file.write_text(MODULE.format(calls=round(10 / speedup)))
    for package in ("package", "package/near", "package/far"):
        (suite / package / "__init__.py").touch()
    plugin = pytester.makepyfile(two_devices=session_wide)
    monkeypatch.syspath_prepend(plugin.parent)
    monkeypatch.syspath_prepend(suite)
    monkeypatch.chdir(pytester.path)

    def call(root, places, *options):
        report = pytester.path / "r.json"
        report.unlink(missing_ok=True)
        result = pytester.inline_run(
            "-pno:randomly",
            "-ptwo_devices",
            "-c/dev/null",
            f"--rootdir={pytester.path / root}",
            "--pyargs",
            "--gpuperf-gpu=cupy",
            f"--gpuperf-json={report}",
            *options,
            *(place.format(suite=suite) for place in places),
        )
        items = result.getcall("pytest_collection_finish").session.items
        written = json.loads(report.read_text(encoding="utf-8"))
        return SimpleNamespace(items=items, written=written, records=written["records"])

    return call


def expected_id(item, root):
    """Return the id of an item's record, by another way than the plugin's."""
    function = "::".join(filter(None, (item.cls and item.cls.__name__, item.name)))
    path = next(path for path in SPEEDUPS if item.path.as_posix().endswith(path))
    if root == "beside":
        name = path.removeprefix("loose/").removesuffix(".py").replace("/", ".")
        return f"{name}::{function}"
    return f"{'suite/' if root == '.' else ''}{path}::{function}"


@pytest.mark.parametrize(
    ("root", "options", "places"),
    [
        ("beside", ["--keep-duplicates"], ["{suite}/package/far", NEAR, FAR]),
        ("beside", [], [NEAR, f"{FAR}::TestMethods", f"{NEAR}::test_variants", "{suite}/loose"]),
        (".", ["--keep-duplicates"], ["{suite}/loose/test_other.py", FAR, "{suite}", "package.far"]),
        (".", [], ["{suite}", f"{NEAR}::test_variants"]),
    ],
)
def test_each_item_has_a_record_of_its_own_whatever_else_the_command_line_collects(
    run_places, root, options, places
):
    found = run_places(root, places, *options)
    ids = [record["nodeid"] for record in found.records]
    tests = [re.sub(r"#\d+$", "", nodeid) for nodeid in ids]
    assert len(ids) == len({*ids})
    assert Counter(expected_id(item, root) for item in found.items) == Counter(tests)
    groups = {record["nodeid"].partition("[")[0] for record in found.records if record["size_group"]}
    assert groups == {re.sub(r"#\d+$", "", threshold["name"]) for threshold in found.written["thresholds"]}
    for record, test in zip(found.records, tests, strict=True):
        pairing = record["pairing"] or {}
        if pairing.get("kind") != "cpu":
            is_fast = "far" in test
            assert (10 if is_fast else 10 / 9) == pytest.approx(record["speedup"]["value"], rel=0.02), test
            judged = "recorded" if "test_sizes" in test else "passed" if is_fast else "failed"
            assert judged == record["status"]
        is_repeated = test != record["nodeid"]
        assert is_repeated == ("ran_more_than_once" in {note["code"] for note in record["notes"]})
        partner = pairing.get("partner")
        assert partner is None or test.partition("::")[0] == partner.partition("::")[0]


def test_a_baseline_finds_each_test_of_a_package_and_why_one_did_not_run(run_places, pytester):
    near, far = "package.near", "package.far"
    gate = [
        f"--gpuperf-baseline={pytester.path / 'base.json'}",
        "--gpuperf-fail-on=speedup:90%",
        "--gpuperf-fail=nothing",
        "--gpuperf-max-time=0.2",
    ]
    run_places("beside", [near, far], *gate, "--gpuperf-baseline-missing=create")
    for chosen in ([far, near], ["{suite}/package/near/test_fft.py", "{suite}/package/far"]):
        found = run_places("beside", chosen, *gate)
        outcomes = Counter(each["outcome"] for record in found.records for each in record["comparisons"])
        assert {"not_regressed": 10} == outcomes, chosen

    def causes(*chosen):
        absent = run_places("beside", chosen, *gate).written["gate"]["absent"]
        return {each["cause"] for each in absent if each["name"] == f"{NEAR}::test_slot"}

    assert {"narrowed"} == causes(FAR)
    assert {"narrowed"} == causes(FAR, "-k", "test_slot")
    folder = pytester.path / "suite/package/near"
    (folder / "conftest.py").write_text("collect_ignore = ['test_fft.py']", encoding="utf-8")
    assert {"gone"} == causes(near, far), "ignored"
    (folder / "conftest.py").unlink()
    (folder / "test_fft.py").write_text(MODULE.format(calls=9).replace("test_slot", "test_new"), "utf-8")
    assert {"gone"} == causes(near, far), "renamed"


def test_items_that_are_collected_or_run_more_than_once_have_a_record_each(suite):
    source = """
def test_late(xp):
    xp.ones(3)

@pytest.mark.speedup(min=3)
def test_again(device):
    return lambda: device.xp.ones(3)
"""
    conftest = """
    def pytest_collection_modifyitems(items):
        for item in items:
            if item.name.startswith("test_late"):
                item.add_marker(pytest.mark.speedup(min=3))
        items += [item for item in items if item.name == "test_again"][:1]
"""
    twice = ("--keep-duplicates", "test_it.py", "test_it.py")
    found = suite(source, *twice, conftest=conftest)
    found.ended(passed=4 + 3)
    gpus = dict.fromkeys(("test_late[cupy]", "test_late[cupy]#2"), "passed")
    cpus = dict.fromkeys(("test_late[numpy]", "test_late[numpy]#2"), "recorded")
    again = dict.fromkeys(("test_again", "test_again#2", "test_again#3"), "passed")
    assert {**gpus, **cpus, **again} == found.statuses
    stopped = suite(source.replace("min=3", "min=30"), "-x", "-k", "again", *twice)
    assert {"test_again": "failed", "test_again#2": "skipped"} == stopped.statuses
    assert not stopped.written["complete"]


def test_a_baseline_is_that_of_each_run_of_a_test_and_a_file_that_is_gone_is_imported_from_nowhere_else(
    suite, pytester, monkeypatch
):
    source = """
import pytest

RUNS = []

@pytest.mark.speedup
def test_it(device):
    if device.kind == "gpu":
        RUNS.append(1)
    slower = len(RUNS) == {run}
    return lambda: [device.xp.ones(3) for _ in range(2 if slower else 1)][-1]
"""
    pytester.makepyfile(test_gone=source.format(run=9))
    suite(source.format(run=9), *GATE, "--gpuperf-baseline-missing=create").ended(passed=2)
    (pytester.path / "test_gone.py").unlink()
    elsewhere = pytester.mkdir("elsewhere")
    (elsewhere / "test_gone.py").write_text("raise SystemExit(1)", encoding="utf-8")
    monkeypatch.syspath_prepend(elsewhere)
    found = suite(source.format(run=2), *GATE, "--keep-duplicates", "test_it.py", "test_it.py")
    found.ended(passed=1, failed=1)
    outcomes = [found.records[name]["comparisons"][0]["outcome"] for name in ("test_it", "test_it#2")]
    assert ["not_regressed", "regressed"] == outcomes
    absent = [(each["cause"], each["name"]) for each in found.written["gate"]["absent"]]
    assert [("narrowed", "test_gone.py::test_it")] == absent


@pytest.mark.usefixtures("forked_workers")
@pytest.mark.parametrize("dist", ["loadfile", "loadscope", "loadgroup", "load"])
def test_where_xdist_would_lose_a_test_with_the_node_id_of_another_the_run_is_refused(suite, dist):
    pytest.importorskip("xdist", reason="the extra `test` has pytest-xdist")
    source = "@pytest.mark.speedup\ndef test_it(device):\n    return lambda: device.xp.ones(3)\n"
    found = suite(source, "-n1", f"--dist={dist}", "--keep-duplicates", "test_it.py", "test_it.py")
    if dist == "load":
        found.ended(passed=2)
        assert ["test_it", "test_it#2"] == [*found.records]
    else:
        assert pytest.ExitCode.USAGE_ERROR == found.result.ret
        said = str(found.result.stdout) + str(found.result.stderr)
        assert f"--dist={dist}: pytest-xdist knows tests by node ids" in said
        assert "would run one of the 2 tests called test_it.py::test_it; pass --rootdir=FOLDER" in said


def test_a_rerun_replaces_the_attempt_before_it_and_no_other_run_of_the_test(suite):
    pytest.importorskip("pytest_rerunfailures", reason="the extra `test` has pytest-rerunfailures")
    source = """
ATTEMPTS = []

@pytest.mark.speedup(min=3)
def test_it(device):
    if device.kind == "cpu":
        ATTEMPTS.append(1)
    failing = len(ATTEMPTS) in (1, 3)
    return lambda: [device.xp.ones(3) for _ in range(9 if failing and device.kind == "gpu" else 1)][-1]
"""
    found = suite(source, "--reruns=1", "--keep-duplicates", "test_it.py", "test_it.py")
    found.ended(passed=2)
    reruns = {name: record["reruns"] for name, record in found.records.items()}
    assert {"test_it": 1, "test_it#2": 1} == reruns
    assert {"passed"} == {*found.statuses.values()}


def test_a_pair_name_that_two_modules_use_pairs_within_each(suite, pytester):
    source = """
import pytest, conftest

@pytest.mark.speedup(min=3, pair="fft")
def test_cpu():
    conftest.numpy.ones(3)

@pytest.mark.speedup(min=3, pair="fft")
def test_gpu():
    for _ in range({calls}):
        conftest.cupy.ones(3)
"""
    pytester.makepyfile(test_slow=source.format(calls=9), test_fast=source.format(calls=1))
    found = suite(None, "--keep-duplicates", "test_slow.py", "test_fast.py", "test_fast.py")
    again = ("passed", "failed", "passed")
    tests = ("test_fast.py::test_gpu", "test_slow.py::test_gpu", "test_fast.py::test_gpu#2")
    assert again == tuple(found.statuses[test] for test in tests)
