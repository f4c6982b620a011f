"""Suites that have names of their own for what we have: fixtures, options and marks."""

import pytest

OWN_FIXTURES = """
    @pytest.fixture(params=["numpy", "cupy"])
    def xp(request):
        return request.param

    @pytest.fixture
    def gpu():
        return "my gpu"

    @pytest.fixture
    def cpu():
        return "my cpu"

    @pytest.fixture
    def device():
        return "my device"

    @pytest.fixture
    def gpuperf():
        return "my gpuperf"

    @pytest.fixture
    def both():
        return "my both"

    def pytest_addoption(parser):
        parser.addoption("--gpu", action="store_true")
        parser.addoption("--device", default="cpu")
        parser.addoption("--side", default="left")
        parser.addoption("--gpuperf-site", default="left")
"""

OWN_TESTS = """
def test_own(gpu, cpu, device, gpuperf, both, xp, request):
    assert [gpu, cpu, device, gpuperf, both] == ["my " + name for name in (
        "gpu", "cpu", "device", "gpuperf", "both"
    )]
    chosen = [request.config.getoption(name) for name in ("gpu", "device", "side", "gpuperf_site")]
    assert chosen == [True, "cuda", "right", "top"]

def test_scan_cpu(): pass

def test_scan_gpu(): pass

@pytest.mark.parametrize("device", ["cpu", "meta", 7])
def test_parametrized(device):
    assert device != "my device"
"""


def test_a_suites_own_fixtures_and_options_are_its_own(suite):
    found = suite(
        OWN_TESTS, "--gpu", "--device=cuda", "--side=right", "--gpuperf-site=top", conftest=OWN_FIXTURES
    )
    found.ended(passed=7)
    assert [] == found.written["records"]
    found.result.stdout.no_fnmatch_line("*- gpuperf -*")


def test_a_marked_test_that_takes_a_suites_own_device_says_that_it_has_none_of_ours(suite):
    source = """
@pytest.mark.speedup(min=3)
def test_own(device, gpuperf):
    pass

@pytest.mark.speedup(min=3)
def test_gpu(gpu):
    pass
"""
    found = suite(source, conftest=OWN_FIXTURES)
    found.ended(errors=2)
    assert {"test_own": "error", "test_gpu": "error"} == found.statuses
    own = {"test_own": "device", "test_gpu": "gpu"}
    for name, record in found.records.items():
        assert f"the suite's own fixture `{own[name]}` (conftest.py:" in record["reason"]
        assert "give that fixture params" in record["reason"]


def test_a_test_without_a_device_is_timed_on_the_default_device_alone(suite):
    """A regression check can compare its times; a speedup it has only with both devices."""
    source = "@pytest.mark.speedup(min=3)\ndef test_it(): return lambda: conftest.cupy.ones(3)"
    record = suite(source, "--gpuperf-default-device=cupy").records["test_it"]
    assert ("recorded", None) == (record["status"], record["cpu"])
    assert ["no_partner"] == [note["code"] for note in record["notes"]]
    assert record["gpu"]["median"] > 0


def test_a_fixture_without_source_a_parameter_of_such_a_name_and_no_device_are_named_right(suite):
    source = """
import os

process = pytest.fixture(name="device")(os.getpid)

@pytest.mark.speedup
def test_fixture(device):
    pass

@pytest.mark.parametrize("cpu", [1])
@pytest.mark.speedup(min=2)
def test_parameter(cpu):
    pass

@pytest.mark.speedup(min=3)
def test_nothing(tmp_path):
    pass

class TestOurs:
    @pytest.fixture(scope="class")
    def device(self):
        return "cuda"

    @pytest.mark.speedup(min=3)
    def test_xp(self, xp):
        xp.ones(3)
"""
    reasons = {
        name: record["reason"] for name, record in suite(source, conftest="\n    del xp\n").records.items()
    }
    assert reasons["test_fixture"].startswith("the test uses the suite's own fixture `device`, whose value")
    of_xp = "the test uses the suite's own fixture `device` (test_it.py:"
    assert reasons["TestOurs::test_xp"].startswith(of_xp)
    for name in ("test_parameter[1]", "test_nothing"):
        assert reasons[name].startswith("a speedup test must use a device: request the `device` or `xp`")


FOREIGN = """
@pytest.mark.speedup
@pytest.mark.gpu
def test_plain():
    pass

@pytest.mark.speedup
@pytest.mark.parametrize("backend", ["fftw", lambda: 0])
def test_backends(backend):
    pass

@pytest.mark.speedup
def test_libraries(xp):
    xp.ones(3)

@pytest.mark.speedup("fast", factor=3)
def test_arguments():
    pass

@pytest.fixture
def mark(request):
    request.applymarker("speedup")

def test_late(mark):
    pass
"""

DEMANDS = """
@pytest.mark.speedup(min=3)
def test_demand(xp):
    xp.ones(3)

@pytest.mark.speedup
def test_ours(device):
    device.xp.ones(3)

@pytest.mark.speedup(min=3)
def test_nothing():
    pass
"""

RETURNS = """
class Returned:
    def __call__(self):
        raise AssertionError("it was called")

@pytest.mark.speedup
def test_theirs():
    return Returned()

@pytest.mark.speedup("fast", factor=3)
def test_their_arguments():
    return Returned()

@pytest.mark.speedup
def test_ours(device):
    return Returned()

@pytest.mark.speedup(min=3)
def test_our_demand(xp):
    return Returned()
"""

REGISTERED = """
    def pytest_configure(config):
        config.addinivalue_line("markers", "speedup: what this suite means by it")
        config.addinivalue_line("markers", "gpu: needs a GPU")
"""

IN_INI = "markers =\n    speedup: what this suite means by it\n    gpu: needs a GPU\n"


@pytest.mark.parametrize("where", ["ini", "conftest"])
def test_a_mark_called_speedup_that_a_suite_registers_is_its_own(suite, where):
    ini, conftest = (IN_INI, "") if where == "ini" else ("", REGISTERED)
    found = suite(FOREIGN + DEMANDS, "--strict-markers", ini=ini, conftest=conftest)
    found.ended(passed=10, errors=1)
    assert {
        "test_demand[numpy]": "recorded",
        "test_demand[cupy]": "passed",
        "test_ours": "recorded",
        "test_nothing": "error",
    } == found.statuses


def test_a_suite_whose_marks_are_all_its_own_has_no_section(suite):
    found = suite(FOREIGN, "--strict-markers", "-Werror", ini=IN_INI)
    found.ended(passed=7)
    assert [] == found.written["records"]
    found.result.stdout.no_fnmatch_line("*- gpuperf -*")


def test_with_off_nothing_is_called_that_a_test_with_a_suites_own_mark_returns(suite):
    options = ("--gpuperf-off", "-Wignore::pytest.PytestReturnNotNoneWarning")
    found = suite(RETURNS, *options, ini=IN_INI)
    found.result.assert_outcomes(passed=2, failed=3)
    found.result.stdout.fnmatch_lines(["FAILED *::test_ours *", "FAILED *::test_our_demand[[]numpy] *"])
