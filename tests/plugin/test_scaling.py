"""The scaling marker as a user meets it: pytest in pytest, on simulated devices that share one clock."""

import json
import xml.etree.ElementTree as ElementTree

import pytest

CONFTEST = """
import pytest
from cards import taken_for_gpus
from pytest_gpuperf.devices.simulated import SimulatedBackend, Timing

@pytest.hookimpl(optionalhook=True)
def pytest_gpuperf_devices():
    return [{real}(SimulatedBackend(gpu=Timing(kernel=0.0), count={count}, unavailable={unavailable!r}))]
"""
SUITE = """
import numpy as np
import pytest

{marker}
def test_step(devices):
    parts = devices.asarray(np.arange(8.0), shard=0)
    def step():
        for device in devices.all:
            device.launch(10e-3 / devices.count + {extra})
        return [part * 2 for part in parts]
    return step
"""
STRONG = "@pytest.mark.scaling([1, 2, 4], efficiency=0.8)"


@pytest.fixture
def suite(run, pytester):
    """Run one scaling test on so many simulated devices; the report is written beside it."""

    def call(*options, marker=STRONG, extra=0.0, count=4, unavailable=None, source=SUITE, real=""):
        pytester.makeconftest(CONFTEST.format(count=count, unavailable=unavailable, real=real))
        return run(source.format(marker=marker, extra=extra), "--gpuperf-json=report.json", *options)

    return call


@pytest.fixture
def report(pytester):
    return lambda: json.loads((pytester.path / "report.json").read_text())


def test_there_is_an_item_for_each_number_of_devices_and_the_last_is_judged(suite, report, pytester):
    result = suite("-v", "--junit-xml=junit.xml")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["*[[]4devices] PASSED (efficiency 1.00 [[]1.00, 1.00]*required 0.8*"])
    records = {record["nodeid"].partition("::")[2]: record for record in report()["records"]}
    assert {name: record["status"] for name, record in records.items()} == {
        "test_step[1device]": "recorded",
        "test_step[2devices]": "recorded",
        "test_step[4devices]": "passed",
    }
    last = records["test_step[4devices]"]
    assert last["scaling"]["efficiency"]["value"] == pytest.approx(1)
    assert last["scaling"]["required"] == last["demand"]["min"] / 4 == 0.8
    assert records["test_step[2devices]"]["demand"]["min"] is None
    properties = ElementTree.parse(pytester.path / "junit.xml").findall(".//testcase[3]//property")
    known = {each.get("name"): each.get("value") for each in properties}
    assert {"gpuperf.status", "gpuperf.efficiency", "gpuperf.low", "gpuperf.high"} == {*known}
    assert float(known["gpuperf.efficiency"]) == pytest.approx(1)


def test_an_efficiency_below_the_limit_fails_the_test_on_the_most_devices_and_the_report_has_the_curve(
    suite, report
):
    result = suite(extra=1e-3)  # 11 ms, 6 ms and 3.5 ms: 0.92 and 0.79
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["required at least 0.8, parallel efficiency 0.79 * on 4 devices"])
    assert report()["records"][-1]["reason_code"] == "efficiency_below_limit"
    (curve,) = report()["scalings"]
    assert (curve["name"], curve["mode"], curve["required"]) == ("test_it.py::test_step", "strong", 0.8)
    assert [point["count"] for point in curve["points"]] == [1, 2, 4]
    assert [diagnosis["code"] for diagnosis in curve["diagnosis"]] == ["serial_part"]
    result.stdout.fnmatch_lines(
        [
            "scaling of test_it.py::test_step (strong)*",
            "  devices 1, time 11.0 ms",
            "  devices 2, time 6.00 ms, speedup 1.83x, efficiency 0.92 [[]0.92, 0.92],*",
            "  devices 4, time 3.50 ms, speedup 3.14x, efficiency 0.79 [[]0.79, 0.79],*",
            "  about 9.09 % of the work is not divided among the devices*",
        ]
    )


def test_other_parameters_make_curves_of_their_own(suite, report):
    values = "@pytest.mark.parametrize('size', [8, 16])\n"
    functions = "@pytest.mark.parametrize('f', [lambda x: x, lambda x: 2 * x], ids=['one', 'two'])\n"
    source = SUITE.replace("test_step(devices)", "test_step(devices, size)")
    source += SUITE.replace("test_step(devices)", "test_other(devices, f)").replace(
        "{marker}", functions + STRONG
    )
    suite(marker=values + STRONG, source=source).assert_outcomes(passed=12)
    names = [curve["name"].removeprefix("test_it.py::test_") for curve in report()["scalings"]]
    assert ["step[size=8]", "step[size=16]", "other[f=<lambda>]", "other[f=<lambda>] #2"] == names


def test_too_few_devices_skip_with_the_reason_and_fail_where_a_gpu_is_required(suite, report):
    result = suite("-rs", count=2)
    result.assert_outcomes(passed=2, skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED * 4 devices are needed, and simulated shows 2 devices"])
    assert report()["records"][-1]["reason_code"] == "too_few_gpus"
    required = suite("--gpuperf-require-gpu", count=2, real="taken_for_gpus")
    required.assert_outcomes(passed=2, errors=1)
    required.stdout.fnmatch_lines(["*a GPU is required (--gpuperf-require-gpu): 4 devices are needed*"])


def test_without_any_gpu_every_item_skips_with_the_reason(suite, report):
    suite(unavailable="no GPU is here").assert_outcomes(skipped=3)
    skipped = report()["records"]
    assert {record["reason_code"] for record in skipped} == {"no_gpu"}
    assert [1, 2, 4] == [record["scaling"]["count"] for record in skipped]


def test_off_runs_the_workload_once_on_its_devices(suite):
    source = SUITE.replace("        return [", "        print('ran on', devices.count)\n        return [")
    result = suite("--gpuperf-off", "-s", source=source)
    result.assert_outcomes(passed=3)
    shown = str(result.stdout)
    assert [shown.count(f"ran on {count}") for count in (1, 2, 4)] == [1, 1, 1]


def test_a_lost_efficiency_fails_the_regression_check(suite):
    check = ("--gpuperf-baseline=base.json", "--gpuperf-fail-on=efficiency:10%")
    unlimited = {"marker": "@pytest.mark.scaling([1, 2, 4])", "source": SUITE.replace("10e-3", "100e-3")}
    suite(*check, "--gpuperf-baseline-missing=create", **unlimited)
    suite(*check, **unlimited, extra=2e-3).assert_outcomes(passed=3)
    result = suite(*check, **unlimited, extra=8e-3)  # 0.82 on four devices
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        ["parallel efficiency got worse: 0.82 [[]0.82, 0.82], baseline 1.00 * 10 % less is allowed"]
    )


@pytest.mark.usefixtures("forked_workers")
def test_workers_share_its_items(suite, report):
    suite("-n2").assert_outcomes(passed=3)
    (curve,) = report()["scalings"]
    assert [1, 2, 4] == [point["count"] for point in curve["points"]]
    assert [pytest.approx(1)] * 2 == [point["efficiency"]["value"] for point in curve["points"][1:]]


def test_a_plain_test_gets_one_device_or_what_a_suites_own_fixture_of_that_name_gives(suite):
    source = """
import pytest

def test_ours(devices):
    assert (devices.count, devices.all[0].kind) == (1, 'gpu')

class TestOwn:
    @pytest.fixture
    def devices(self):
        return 3

    def test_it(self, devices):
        assert devices == 3
"""
    suite(source=source).assert_outcomes(passed=2)


def test_a_suites_own_marker_of_that_name_stays_its_own(suite, pytester):
    pytester.makeini("[pytest]\nmarkers = scaling: how large the picture is")
    source = "import pytest\n@pytest.mark.scaling(3)\ndef test_it():\n    pass\n"
    suite("--strict-markers", source=source).assert_outcomes(passed=1)


MISUSED = {
    "scaling\ndef test_it(devices): pass": "needs numbers of devices, as in scaling([1, 2, 4])",
    "scaling([1, 2])\n@pytest.mark.speedup\ndef test_it(devices): pass": "the test has a speedup marker, too",
    "scaling([1, 2])\n@pytest.mark.scaling([1, 4])\ndef test_it(devices): pass": "2 scaling markers found",
    "scaling([1, 3])\ndef test_it(gpu): pass": "the test must take the fixture `devices` of pytest-gpuperf",
}


def test_misuse_is_an_error_with_the_argument_and_what_is_valid(marker_errors):
    said = marker_errors(*(f"import pytest\n@pytest.mark.{source}" for source in MISUSED))
    for expected, found in zip(MISUSED.values(), said, strict=True):
        assert expected in found


def test_a_fixture_that_uses_the_devices_is_told_where_they_are(suite):
    source = (
        "import numpy as np, pytest\n"
        "@pytest.fixture\ndef parts(devices):\n    return devices.asarray(np.ones(8))\n"
        "@pytest.mark.scaling([1, 2])\ndef test_it(devices, parts):\n    return lambda: parts\n"
    )
    result = suite(source=source)
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(
        ["*`devices` has no attribute 'asarray' before the test is measured; request*"]
    )


def test_a_marker_that_is_added_after_collection_is_an_error(run, pytester):
    pytester.makeconftest(
        "import pytest\n"
        "def pytest_collection_modifyitems(items):\n"
        "    for item in items:\n"
        "        item.add_marker(pytest.mark.scaling([1, 2]))\n"
    )
    result = run("def test_it(devices):\n    pass\n")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*the marker was added after collection; add it where the test is defined*"])
