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


def test_a_marked_test_that_takes_no_device_of_ours_says_which_one_of_the_suites_it_takes(suite):
    source = """
import os

process = pytest.fixture(name="device")(os.getpid)

@pytest.mark.speedup
def test_no_source(device):
    pass

@pytest.mark.speedup(min=3)
def test_gpu(gpu, gpuperf):
    pass

class TestOurs:
    @pytest.fixture(scope="class")
    def device(self):
        return "cuda"

    @pytest.mark.speedup(min=3)
    def test_xp(self, xp):
        xp.ones(3)

@pytest.mark.parametrize("cpu", [1])
@pytest.mark.speedup(min=2)
def test_parameter(cpu):
    pass

@pytest.mark.speedup(min=3)
def test_nothing(tmp_path):
    pass
"""
    ours_is_xp = OWN_FIXTURES.partition("@pytest.fixture\n")[2]
    found = suite(source, conftest=f"\n    del xp\n    @pytest.fixture\n{ours_is_xp}")
    found.ended(passed=1, errors=4)
    own, no_device = (
        "the test uses the suite's own fixture ",
        "a speedup test must use a device: request the ",
    )
    for name, begins in {
        "test_no_source": f"{own}`device`, whose value",
        "test_gpu": f"{own}`gpu` (conftest.py:",
        "TestOurs::test_xp": f"{own}`device` (test_it.py:",
        "test_parameter[1]": f"{no_device}`device` or `xp`",
        "test_nothing": f"{no_device}`device` or `xp`",
    }.items():
        assert found.records[name]["reason"].startswith(begins), name
        assert ("give that fixture params" in found.records[name]["reason"]) == begins.startswith(own), name


WITHOUT_DEVICE = """
import dataclasses

@dataclasses.dataclass(frozen=True)
class Config:
    device: str
    size: int

class TestOwn:
    @pytest.fixture
    def device(self, device_name):
        return getattr(conftest, "numpy" if device_name == "cpu" else "cupy")

    @pytest.mark.parametrize("device_name", ["cpu", "cuda"])
    @pytest.mark.speedup(min=3)
    def test_fixture(self, device):
        return lambda: device.ones(3)

@pytest.mark.parametrize("place", ["cpu", "cuda"])
@pytest.mark.speedup(min=3)
def test_parameter(place):
    xp = getattr(conftest, "numpy" if place == "cpu" else "cupy")
    return lambda: xp.ones(3)

@pytest.mark.parametrize("config", [Config("cpu", 3), Config("cuda", 3)], ids=["cpu", "cuda"])
@pytest.mark.speedup(min=3)
def test_config(config):
    pass

class TestUnit(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def ours(self, {fixture}):
        self.{fixture} = {fixture}

    @pytest.mark.speedup(min=3)
    def test_autouse(self):
        {body}

class TestBare(unittest.TestCase):
    {keep}

    @pytest.mark.speedup(min=3)
    def test_nothing(self):
        {body}
"""
BOTH = {
    "fixture": "gpuperf",
    "keep": "ours = TestUnit.ours",
    "body": "self.gpuperf.both(lambda xp: xp.ones(3))",
}


def test_a_marked_test_without_a_device_says_which_line_names_it_and_that_line_works(suite):
    found = suite(WITHOUT_DEVICE.format(fixture="device", keep="", body="pass"))
    found.ended(errors=8)
    names = "gpuperf_device_params = device xp module namespace array_namespace library backend nx"
    for name, remedy in {
        "TestOwn::test_fixture[cuda]": "; `device_name` seems to choose it: name that parameter in the ini "
        f"file: {names} device_name",
        "test_parameter[cuda]": "parameter `place` seems to name one: name that parameter in the ini file: "
        f"{names} place",
        "test_config[cuda]": "(config.device='cuda'), where the plugin does not look: make the device a "
        "parameter of its own",
        "TestUnit::test_autouse": "request `gpuperf` in an autouse fixture of the class, keep it ",
        "TestBare::test_nothing": "request `gpuperf` in an autouse fixture of the class, keep it ",
    }.items():
        assert remedy in found.records[name]["reason"]
    found = suite(
        WITHOUT_DEVICE.format(**BOTH), "-k", "not config", ini="gpuperf_device_params = device_name place"
    )
    found.ended(passed=6, deselected=2)


def test_a_parameter_that_hides_a_fixture_of_ours_is_to_be_renamed(suite):
    source = (
        "@pytest.mark.parametrize('device', ['sensor-a', 'sensor-b'])\n"
        "@pytest.mark.speedup(min=3)\n"
        "def test_it(device): return lambda: device"
    )
    record = suite(source, ini="gpuperf_device_params = backend").records["test_it[sensor-a]"]
    assert "own parameter `device` is there in place of the fixture `device`" in record["reason"]
    renamed = source.replace("'device'", "'sensor'").replace("device)", "device, sensor)")
    suite(renamed.replace("lambda: device", "lambda: device.launch()"), ini="").ended(passed=2)


def test_a_test_without_a_device_is_timed_on_the_default_device_alone(suite):
    """A regression check can compare its times; a speedup it has only with both devices."""
    source = "@pytest.mark.speedup(min=3)\ndef test_it(): return lambda: conftest.cupy.ones(3)"
    record = suite(source, "--gpuperf-default-device=cupy").records["test_it"]
    assert ("recorded", None) == (record["status"], record["cpu"])
    assert ["no_partner"] == [note["code"] for note in record["notes"]]
    assert record["gpu"]["median"] > 0


FOREIGN = """
class Returned:
    def __call__(self):
        raise AssertionError("it was called")

@pytest.mark.speedup
@pytest.mark.gpu
def test_plain():
    return Returned()

@pytest.mark.speedup
@pytest.mark.parametrize("backend", ["fftw", lambda: 0])
def test_backends(backend):
    pass

@pytest.mark.speedup
def test_libraries(xp):
    assert xp

@pytest.mark.speedup("fast", factor=3)
def test_arguments():
    return Returned()

@pytest.fixture
def mark(request):
    request.applymarker("speedup")

def test_late(mark):
    pass
"""

DEMANDS = """
CALLED = set()

@pytest.mark.speedup(min=3)
def test_demand(xp):
    return lambda: CALLED.add(xp.ones(3).size)

@pytest.mark.speedup
def test_ours(device):
    return lambda: CALLED.add(device.xp.ones(4).size)

@pytest.mark.speedup(min=3)
def test_nothing():
    pass

def test_what_ours_return_was_called():
    assert CALLED == {3, 4}
"""

REGISTERED = """
    def pytest_configure(config):
        config.addinivalue_line("markers", "speedup: what this suite means by it")
        config.addinivalue_line("markers", "gpu: needs a GPU")
"""

RETURNING = "-Wignore::pytest.PytestReturnNotNoneWarning"
IN_INI = "markers =\n    speedup: what this suite means by it\n    gpu: needs a GPU\n"


@pytest.mark.parametrize("where", ["ini", "conftest"])
def test_a_mark_called_speedup_that_a_suite_registers_is_its_own(suite, where):
    ini, conftest = (IN_INI, "") if where == "ini" else ("", REGISTERED)
    found = suite(FOREIGN + DEMANDS, "--strict-markers", RETURNING, ini=ini, conftest=conftest)
    found.ended(passed=11, errors=1)
    assert {
        "test_demand[numpy]": "recorded",
        "test_demand[cupy]": "passed",
        "test_ours": "recorded",
        "test_nothing": "error",
    } == found.statuses
    off = suite(FOREIGN + DEMANDS, "--gpuperf-off", RETURNING, ini=ini, conftest=conftest)
    off.ended(passed=12)


def test_a_suite_whose_fixtures_options_and_marks_are_all_its_own_has_no_section(suite):
    options = ("--gpu", "--device=cuda", "--side=right", "--gpuperf-site=top")
    strict = ("--strict-markers", "-Werror", RETURNING)
    found = suite(OWN_TESTS + FOREIGN, *options, *strict, ini=IN_INI, conftest=OWN_FIXTURES)
    found.ended(passed=7 + 7)
    assert [] == found.written["records"]
    found.result.stdout.no_fnmatch_line("*- gpuperf -*")
