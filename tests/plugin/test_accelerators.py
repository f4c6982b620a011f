"""Accelerators in pytest: the option, the marker, and what is said of one that did nothing or not all."""

import json
from contextlib import contextmanager
from fnmatch import fnmatch
from time import sleep
from types import SimpleNamespace

import pytest

from pytest_gpuperf.devices import accelerators
from pytest_gpuperf.devices.accelerators.base import Accelerator, Calls
from pytest_gpuperf.model.errors import Unavailable

SLOW = 3e-3  # seconds of a function that is not accelerated: others take as long as Python needs to call them


class Switch(Accelerator):
    """A library of three functions: one is accelerated, one is not, and one stays accelerated once it is."""

    is_on = False

    def namespace(self):
        functions = {name: getattr(self, name) for name in ("supported", "unsupported", "kept")}
        return SimpleNamespace(__name__="lib", __version__="2", is_on=lambda: self.is_on, **functions)

    def open(self):
        if self.how:
            raise Unavailable(f"the switch {self.how} is not installed; install it", missing=True)
        return "lib with a switch on the CPU"

    @contextmanager
    def switched(self, *, is_on):
        self.is_on, before = is_on, self.is_on
        yield
        self.is_on = before

    told = Calls()

    @contextmanager
    def calls(self):
        self.told = Calls()
        yield self.told

    def supported(self):
        if self.is_on:
            self.told.ran.append("supported")
        else:
            sleep(SLOW)
        return 1.0

    def unsupported(self):
        if self.is_on:
            self.told.left.append("unsupported")
        sleep(SLOW)
        return 1.0

    def kept(self):
        self.told.ran.append("kept")
        return 1.0


@pytest.fixture(autouse=True)
def switch(monkeypatch):
    monkeypatch.setitem(accelerators._ACCELERATORS, "switch", Switch)


@pytest.fixture
def found(pytester):
    """Run a suite with short measurements; return pytest's result and the records, by the tests' names."""

    def call(source, *options, chosen="accelerator:switch"):
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
    "lib with a switch on the CPU did not run unsupported, which fell back to the library without it; leave "
    "these out of the workload*"
)
REASONS = {
    "test_partly": FELL_BACK,
    "test_late": FELL_BACK,
    "test_nothing": "no work reached lib with a switch on the CPU: *; call what it accelerates through xp, *",
    "test_kept": "accelerator:switch was switched off and yet ran kept; *",
}


def test_a_suite_is_compared_with_itself_and_what_the_accelerator_left_is_an_error(found, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")  # the names of processors may be long
    result, records = found(MEASURED)
    record = records.pop("test_supported")
    assert "passed" == record["status"]
    assert record["speedup"]["value"] > 2
    device = record["gpu"]["device"]
    assert ("accelerator:switch", "lib 2", True) == (device["backend"], device["library"], device["emulated"])
    assert record["transfer"]["reason"].startswith("nothing is transferred")
    result.stdout.fnmatch_lines(["CPU * | emulated: lib with a switch on the CPU*, not a GPU"])
    assert [*REASONS] == [*records]
    for name, reason in REASONS.items():
        assert "error" == records[name]["status"]
        assert fnmatch(records[name]["reason"], reason), records[name]["reason"]


ONE = """
@pytest.mark.speedup(min=2, accelerator="switch")
def test_one(device):
    assert device.backend.startswith("accelerator:switch")
    return device.xp.supported
"""
OTHER = """
@pytest.mark.speedup
def test_other(device):
    return device.xp.ones(3).sum
"""
BOTH = """
@pytest.mark.speedup(check=False, accelerator="switch")
def test_both(gpuperf):
    assert (False, True) == gpuperf.both(lambda xp: xp.supported() and xp.is_on())
"""


def test_a_marker_chooses_for_its_test_alone(found):
    _, records = found(ONE + OTHER, chosen="simulated")
    assert "passed" == records["test_one"]["status"]
    devices = {name: record["gpu"]["device"]["backend"] for name, record in records.items()}
    assert {"test_one": "accelerator:switch", "test_other": "simulated"} == devices
    accelerators = {name: record["demand"]["accelerator"] for name, record in records.items()}
    assert {"test_one": "switch", "test_other": None} == accelerators


def test_gpuperf_both_runs_with_the_accelerator_of_its_test_off_and_on(found):
    result, records = found(BOTH, chosen=None)
    result.assert_outcomes(passed=1)
    assert "recorded" == records["test_both"]["status"]


def test_off_runs_a_test_on_the_library_without_measuring_it(found):
    result, records = found(ONE + BOTH, "--gpuperf-off", chosen=None)
    result.assert_outcomes(passed=2)
    assert {} == records


def test_an_accelerator_that_is_not_installed_skips_the_test_and_times_the_library(found):
    result, records = found(ONE.replace('"switch"', '"switch:fast"'), "-rs", chosen=None)
    assert "skipped" == records["test_one"]["status"]
    assert len(records["test_one"]["cpu"]["samples"]) > 1
    result.stdout.fnmatch_lines(["SKIPPED * the switch fast is not installed; install it"])


ON_ONE_DEVICE = """
@pytest.mark.speedup(accelerator="switch")
@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_it(device): pass
"""


MISUSED = [
    (
        '@pytest.mark.speedup(accelerator="foo")\ndef test_it(xp): pass',
        "@pytest.mark.speedup: accelerator='foo': there is no accelerator 'foo'; the accelerators are ",
    ),
    (
        "@pytest.mark.speedup(accelerator=3)\ndef test_it(xp): pass",
        "accelerator must be the name of an accelerator, e.g. 'networkx:parallel', not 3",
    ),
    (ON_ONE_DEVICE, "accelerator= compares two devices within one test, and this one runs on one; "),
]


def test_a_marker_that_cannot_be_right_is_an_error_of_its_test(marker_errors):
    said = marker_errors(*(f"import pytest\n{source}" for source, _ in MISUSED))
    for (_, reason), found in zip(MISUSED, said, strict=True):
        assert reason in found
