"""Objects that answer badly, wherever a suite has them: no run ends or hangs, and no other test changes."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import strangers

LONGEST = 300  # seconds that one of these runs may take before it is taken for one that hangs
ONE = re.compile(r"^(PASSED|FAILED|ERROR) (\S+)", re.MULTILINE)
LIMITED = """
import resource

resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))  # for who goes through an endless one
"""
UNMARKED = """
import pytest
from strangers import ENDING, NAMES, make, parameters

every = pytest.mark.parametrize("name", NAMES)

@pytest.fixture
def device(request):
    return request.param

@pytest.mark.parametrize("device", parameters(*ENDING))
def test_device(device):
    pass

@pytest.mark.parametrize("device", parameters(), indirect=True)
def test_device_of_a_fixture(device):
    pass

@pytest.mark.parametrize("xp", parameters(*ENDING))
def test_namespace(xp):
    pass

@pytest.mark.parametrize("v", parameters(*ENDING))
@pytest.mark.parametrize("backend", ["numpy", "simulated"])
def test_other_parameter(backend, v):
    pass

def test_it(self):
    pass

for name in NAMES:
    names = {"xp": make(name), "other": make(name), "test_it": test_it}
    globals()[f"TestAttribute_{name}"] = type(f"TestAttribute_{name}", (), names)
del test_it

class Raises:
    def __init__(self, error):
        self.error = error

    def __get__(self, instance, owner):
        raise self.error

class TestDescriptor:
    xp, backend = Raises(RuntimeError("a descriptor")), Raises(pytest.fail.Exception("it fails"))

    def test_it(self):
        pass

@pytest.fixture
def stranger(name):
    return make(name)

@every
def test_fixture(stranger, name):
    pass

@every
def test_property(record_property, name):
    record_property("case", make(name))

@every
def test_strange_pair(request, name):
    request.node.user_properties.append(make(name))

@every
def test_failing(name):
    error = ValueError()
    error.stranger = make(name)
    raise error
"""
ONE_MARKED = """
import numpy as np
import pytest

@pytest.mark.speedup(min=1.1)
def test_marked(device):
    a = device.asarray(np.arange(20_000.0))
    return lambda: a * 2
"""
MARKED = """
import numpy as np
import pytest
from strangers import NAMES, make, parameters

every = pytest.mark.parametrize("name", NAMES)
speedup = pytest.mark.speedup(min=1.1)

def workload(device):
    a = device.asarray(np.arange(20_000.0))
    return lambda: a * 2

@speedup
@pytest.mark.parametrize("device", parameters())
def test_device(device):
    pass

@speedup
@pytest.mark.parametrize("device", ["cpu", make("bad_text")], ids=["cpu", "gpu"], indirect=True)
def test_our_device(device):
    return workload(device)

@speedup
@pytest.mark.parametrize("backend", parameters())
def test_backend(backend):
    pass

@speedup
@pytest.mark.parametrize("v", parameters())
def test_other_parameter(device, v):
    return workload(device)

@speedup
def test_it(self, device):
    return workload(device)

for name in NAMES:
    names = {"xp": make(name), "other": make(name), "test_it": test_it}
    globals()[f"TestAttribute_{name}"] = type(f"TestAttribute_{name}", (), names)
del test_it

@pytest.fixture
def stranger(name):
    return make(name)

@speedup
@every
def test_fixture(device, stranger, name):
    return workload(device)

@speedup
@every
def test_closure(device, name):
    call, stranger = workload(device), make(name)
    return lambda: (stranger is None) or call()

class Holder:
    def __init__(self, **held):
        self.__dict__.update(held)

    def __call__(self):
        return self.call()

@speedup
@every
def test_object(device, name):
    return Holder(stranger=make(name), call=workload(device))

MENTIONS = '''
def test_it(device):
    call = workload(device)
    return lambda: (stranger is None) or call()
'''
for name in NAMES:
    names = {"stranger": make(name), "workload": workload, "__name__": __name__}
    exec(MENTIONS, names)
    globals()[f"test_global_{name}"] = speedup(names["test_it"])

@speedup
@every
def test_result(device, name):
    call, stranger = workload(device), make(name)
    return lambda: (call(), stranger)

@speedup
@every
def test_only_result(device, name):
    call, stranger = workload(device), make(name)
    return lambda: (call(), stranger)[1]

@speedup
@every
def test_property(device, record_property, name):
    record_property("case", make(name))
    return workload(device)

@speedup
@every
def test_strange_pair(device, request, name):
    request.node.user_properties.append(make(name))
    return workload(device)
"""
ARGUMENTS = """
import pytest
from strangers import ENDING, NAMES, make

ARGUMENTS = ("min", "accelerator", "device", "pair", "max_memory", "transfer")

@pytest.mark.parametrize(
    "argument",
    [
        pytest.param(argument, id=f"{argument}-{name}", marks=pytest.mark.speedup(**{argument: make(name)}))
        for argument in ARGUMENTS
        for name in (*NAMES, *ENDING)
    ],
)
def test_it(argument):
    pass
"""
OURS = ("-p", "gpuperf", "--gpuperf-gpu=simulated", "--gpuperf-json=report.json")


def outcomes(folder, *options, **sources):
    """Run suites in a process of its own; return what became of each test, and the output."""
    folder.joinpath("conftest.py").write_text(LIMITED)
    folder.joinpath("pytest.ini").touch()
    for name, source in sources.items():
        folder.joinpath(f"test_{name}.py").write_text(source)
    command = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rA", "--tb=short", *options)
    ours = {"PYTHONPATH": str(Path(strangers.__file__).parent), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ran = subprocess.run(
        command, cwd=folder, env={**os.environ, **ours}, capture_output=True, text=True, timeout=LONGEST
    )
    assert "INTERNALERROR" not in ran.stdout + ran.stderr, ran.stdout + ran.stderr
    return {test: outcome for outcome, test in ONE.findall(ran.stdout)}, ran.stdout


@pytest.fixture(scope="module")
def without_us(tmp_path_factory):
    found, _ = outcomes(tmp_path_factory.mktemp("without"), unmarked=UNMARKED)
    assert len(strangers.NAMES) < len(found)
    return found


@pytest.mark.parametrize("options", [(), ("--gpuperf-all",), ("--gpuperf-off",)], ids=" ".join)
def test_no_unmarked_test_ends_otherwise_than_without_us(tmp_path, without_us, options):
    found, _ = outcomes(tmp_path, *OURS, *options, unmarked=UNMARKED, marked=ONE_MARKED)
    assert "PASSED" == found.pop("test_marked.py::test_marked")
    assert without_us == found


def test_what_no_argument_can_be_is_named_with_it_and_is_nothing_where_nothing_is_measured(tmp_path):
    found, _ = outcomes(tmp_path, *OURS, arguments=ARGUMENTS)
    records = json.loads((tmp_path / "report.json").read_text())["records"]
    reasons = {record["nodeid"]: record["reason"] for record in records if record["status"] == "error"}
    assert {test for test, outcome in found.items() if outcome == "ERROR"} <= set(reasons)
    for test in found:
        argument, _, name = test.partition("[")[2][:-1].partition("-")
        is_valid = name in ("bad_text", "bad_number")  # such a text, and such a number, is one
        said = "reading the test's marker" if name in strangers.ENDING else argument
        assert is_valid or re.match(rf"(@pytest.mark.speedup: )?({argument}|{said})\b", reasons[test]), test
    off, _ = outcomes(tmp_path, *OURS, "--gpuperf-off", arguments=ARGUMENTS)
    assert ["accelerator-bad_text"] == [
        test.partition("[")[2][:-1] for test, outcome in off.items() if outcome != "PASSED"
    ]


def test_what_a_marked_test_cannot_have_is_named_in_its_own_error(tmp_path):
    found, output = outcomes(tmp_path, *OURS, marked=MARKED)
    listed = json.loads((tmp_path / "report.json").read_text())["records"]
    reasons = {record["nodeid"]: record["reason"] for record in listed if record["status"] == "error"}
    assert set(reasons) == {test for test, outcome in found.items() if outcome in ("FAILED", "ERROR")}
    unknown = {test for test in reasons if "[bad_text]" in test and "_result" not in test}
    assert {test for test in reasons if "_result[" not in test} == unknown, "a GPU without a CPU variant"
    for test in {*reasons} - unknown:
        kind = type(strangers.make(test.partition("[")[2][:-1])).__name__
        assert re.match(rf"result(\[1\])? is of type {kind}\b.*", reasons[test]), reasons[test]
    assert "pytest_gpuperf/" not in output, "no traceback of ours"
