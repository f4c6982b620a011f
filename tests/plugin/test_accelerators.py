"""Accelerators in pytest: the option, the marker, and what is said of one that did nothing or not all."""

import json
import logging
from contextlib import nullcontext
from fnmatch import fnmatch
from time import sleep
from types import SimpleNamespace

import pytest
from cases import unfolded

SLOW = 3e-3  # seconds of a function that is not accelerated: others take as long as Python needs to call them


@pytest.fixture(autouse=True)
def _scikit_learn(installed, monkeypatch, tmp_path):
    """Install a scikit-learn that accelerates one function, another one not, and one always."""
    patched, log = [], logging.getLogger("sklearnex")

    def accelerated(name):
        log.info("sklearn.%s: running accelerated version on CPU", name)
        return 1.0

    def by_itself():
        sleep(SLOW)
        return 1.0

    def unsupported():
        if patched:
            log.info("sklearn.unsupported: fallback to original Scikit-learn")
        return by_itself()

    linear_model = SimpleNamespace(fit=lambda *_: None)
    installed(
        sklearn={
            "__version__": "2",
            "is_on": lambda: bool(patched),
            "supported": lambda: accelerated("supported") if patched else by_itself(),
            "unsupported": unsupported,
            "kept": lambda: accelerated("kept"),
        },
        sklearn__linear_model={"LinearRegression": lambda: linear_model},
        sklearnex={
            "sklearn_is_patched": lambda: bool(patched),
            "patch_sklearn": lambda **_: patched.append(True),
            "unpatch_sklearn": patched.clear,
            "config_context": nullcontext,
        },
        onedal={"__path__": []},
    )
    metadata = tmp_path / "site" / "scikit_learn_intelex-3.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("Metadata-Version: 2.1\nName: scikit-learn-intelex\nVersion: 3\n")
    monkeypatch.syspath_prepend(tmp_path / "site")


@pytest.fixture
def found(pytester):
    """Run a suite with short measurements; return pytest's result and the records, by the tests' names."""

    def call(source, *options, chosen="accelerator:sklearnex"):
        pytester.makepyfile(test_it=f"import pytest\n{source}")
        chooses = [f"--gpuperf-gpu={chosen}"] if chosen else []
        ours = [*chooses, "--gpuperf-json=r.json", "--gpuperf-max-time=3", "--gpuperf-lock=none"]
        result = pytester.runpytest_inprocess("-p", "no:randomly", *ours, *options)
        report = pytester.path / "r.json"
        listed = json.loads(report.read_text(encoding="utf-8"))["records"] if report.exists() else []
        return result, {record["nodeid"].removeprefix("test_it.py::"): record for record in listed}

    return call


MEASURED = """
@pytest.mark.speedup(min=2)
def test_supported(device):
    assert device.xp.unsupported() == 1  # in its setup that is no matter
    values = device.asarray([1.0, 2.0])
    return lambda: values * device.xp.supported()

@pytest.mark.speedup(min=2)
def test_partly(xp):
    return lambda: xp.supported() + xp.unsupported()

@pytest.mark.speedup
def test_late(xp):
    calls = []
    def workload():
        calls.append(None)
        return xp.supported() if len(calls) < 6 else xp.supported() * xp.unsupported()
    return workload

@pytest.mark.speedup(min=2)
def test_nothing(device):
    return lambda: device.asarray([1.0])

@pytest.mark.speedup(min=2)
def test_kept(xp):
    return xp.kept
"""
FELL_BACK = (
    "* on the CPU did not run unsupported, which fell back to the library without it; leave these out of *"
)
REASONS = {
    "test_partly": FELL_BACK,
    "test_late": FELL_BACK,
    "test_nothing": "no work reached scikit-learn *: *; call what it accelerates through xp, *",
    "test_kept": "accelerator:sklearnex was switched off and yet ran kept; *",
}


def test_a_suite_is_compared_with_itself_and_what_the_accelerator_left_is_an_error(found):
    result, records = found(MEASURED)
    record = records.pop("test_supported")
    assert "passed" == record["status"]
    assert record["speedup"]["value"] > 2
    device = record["gpu"]["device"]
    assert ("accelerator:sklearnex", "sklearn 2", True) == (
        device["backend"],
        device["library"],
        device["emulated"],
    )
    assert record["transfer"]["reason"].startswith("nothing is transferred")
    emulated = "scikit-learn with scikit-learn-intelex 3 on the CPU through accelerator:sklearnex"
    assert f"| emulated: {emulated}, not a GPU" in unfolded(result)
    assert [*REASONS] == [*records]
    for name, reason in REASONS.items():
        assert "error" == records[name]["status"]
        assert fnmatch(records[name]["reason"], reason), records[name]["reason"]


ONE = """
@pytest.mark.speedup(min=2, accelerator="sklearnex")
def test_one(device):
    assert device.backend.startswith("accelerator:sklearnex")
    return device.xp.supported
"""
OTHER = """
@pytest.mark.speedup
def test_other(device):
    return device.xp.ones(3).sum
"""
BOTH = """
@pytest.mark.speedup(check=False, accelerator="sklearnex")
def test_both(gpuperf):
    assert (False, True) == gpuperf.both(lambda xp: xp.supported() and xp.is_on())
"""


def test_a_marker_chooses_for_its_test_alone(found):
    _, records = found(ONE + OTHER, chosen="simulated")
    assert "passed" == records["test_one"]["status"]
    devices = {name: record["gpu"]["device"]["backend"] for name, record in records.items()}
    assert {"test_one": "accelerator:sklearnex", "test_other": "simulated"} == devices
    accelerators = {name: record["demand"]["accelerator"] for name, record in records.items()}
    assert {"test_one": "sklearnex", "test_other": None} == accelerators


def test_each_test_has_its_accelerator_and_one_that_is_not_installed_skips_and_times_the_library(found):
    result, records = found(ONE.replace('"sklearnex"', '"sklearnex:gpu"') + BOTH, "-rs", chosen=None)
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED * scikit-learn-intelex is here for the CPU only; install *"])
    assert ["skipped", "recorded"] == [record["status"] for record in records.values()]
    assert len(records["test_one"]["cpu"]["samples"]) > 1


def test_off_runs_a_test_on_the_library_without_measuring_it(found):
    result, records = found(ONE + BOTH, "--gpuperf-off", chosen=None)
    result.assert_outcomes(passed=2)
    assert {} == records
    wrong, _ = found(ONE.replace('"sklearnex"', '"networkx"'), "--gpuperf-off", chosen=None)
    wrong.assert_outcomes(failed=1)
    wrong.stdout.fnmatch_lines(["test_it.py::test_one: accelerator='networkx': networkx needs a backend; *"])
    wrong.stdout.no_fnmatch_line("*unmeasured_hooks.py*")


MISUSED = {
    '@pytest.mark.speedup(accelerator="foo")\ndef test_it(xp): pass': (
        "@pytest.mark.speedup: accelerator='foo': there is no accelerator 'foo'; the accelerators are "
    ),
    "@pytest.mark.speedup(accelerator=3)\ndef test_it(xp): pass": (
        "accelerator must be the name of an accelerator, e.g. 'networkx:parallel', not 3"
    ),
    '@pytest.mark.parametrize("device", ["cpu", "gpu"])\n' + ONE: (
        "accelerator= compares two devices within one test, and this one runs on one; "
    ),
}


def test_a_marker_that_cannot_be_right_is_an_error_of_its_test(marker_errors):
    said = marker_errors(*(f"import pytest\n{source}" for source in MISUSED))
    for reason, found in zip(MISUSED.values(), said, strict=True):
        assert reason in found
