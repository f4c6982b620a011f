"""What a body sets for the whole process must not time one device's workload under the other's setting."""

from fnmatch import fnmatch

import pytest

SUITE = """
import array_api_strict
import numpy

BACKEND, XP, DTYPE, TIMES, RAN = "cpu", numpy, "float64", [], []
pytestmark = pytest.mark.speedup(min=3)

@pytest.fixture(autouse=True)
def clean():
    global BACKEND
    BACKEND = "cpu"
    TIMES.clear(), RAN.clear()

def solve(device, cpu=10e-3, gpu=1e-3):
    device.launch(cpu if BACKEND == "cpu" else gpu)

@pytest.mark.parametrize(
    "cpu, gpu",
    [(10e-3, 1e-3), (10e-3, 50e-3), (1, 0.1), (5e-6, 5e-7)],
    ids=["faster", "slower", "slow_call", "blocks"],
)
def test_sets(device, cpu, gpu):
    global BACKEND
    BACKEND = device.kind
    return lambda: solve(device, cpu, gpu)

@pytest.fixture
def of_device(device):
    global BACKEND
    before, BACKEND = BACKEND, device.kind
    yield device
    BACKEND = before

def test_fixture(of_device):
    return lambda: solve(of_device)

def test_callable(device):
    def call():
        global BACKEND
        BACKEND = device.kind
        solve(device)
    return call

def test_body(device):
    global BACKEND
    BACKEND = device.kind
    solve(device)

@pytest.mark.parametrize("first, second", [(10e-3, 1e-3), (1e-3, 10e-3)], ids=["faster", "slower"])
def test_once(device, first, second):
    RAN.append(device.kind)
    return lambda: device.launch(first if len(RAN) in (1, 3) else second)

def test_raises(device):
    global BACKEND
    BACKEND = device.kind

    def call():
        if BACKEND != device.kind:
            raise TypeError("not an array of mine")
        device.launch(1e-3)
    return call

def test_raises_later(device):
    calls = iter(range(12))
    return lambda: (next(calls, None) is None and 1 / 0, device.launch(10e-3))

@pytest.mark.parametrize("slow", [8, 10_000])
def test_busy(device, slow):
    RAN.append(device.kind)
    assert len(RAN) < 3, "this body cannot run again"
    TIMES.extend([40e-3] * slow if device.kind == "gpu" else [])
    own = lambda: TIMES.pop() if TIMES else 10e-3
    return lambda: device.launch(own() if device.kind == "cpu" else 1e-3)

@pytest.mark.speedup(min=15)
def test_restarted(device):
    # The body may run only once, so that nothing more can be known than that the time changed.
    assert device.kind not in RAN
    RAN.append(device.kind)
    if device.kind == "gpu":
        TIMES.extend([5e-3] * 16)
    own = lambda: TIMES.pop() if TIMES else (1e-3 if RAN == ["cpu"] else 4e-3)
    return lambda: device.launch(own() if device.kind == "cpu" else 1e-4)

def test_default_dtype(device):
    global DTYPE
    DTYPE = "float64" if device.kind == "cpu" else "float32"
    return lambda: (device.launch(1e-3 if device.kind == "gpu" else 10e-3), numpy.ones(3, DTYPE))[1]

@pytest.mark.speedup
def test_library(device):
    global XP
    XP = numpy if device.kind == "cpu" else array_api_strict
    return lambda: (device.launch(1e-3), XP.ones(4))

@pytest.mark.parametrize("limit", [
    pytest.param(3, marks=pytest.mark.speedup(min=3)),
    pytest.param(0.5, marks=pytest.mark.speedup(min=0.5)),
    pytest.param(None, marks=pytest.mark.speedup),
])
def test_for_good(device, limit):
    # The body sets it once, and no further run of it changes that.
    global BACKEND
    BACKEND = "cpu" if device.kind == "cpu" and not RAN else "gpu"
    RAN.append(device.kind)
    return lambda: device.launch(1e-3 if device.kind == "gpu" or BACKEND == "gpu" else 10e-3)

@pytest.mark.parametrize(
    "first, factor, ms", [(12, 5, 0.1), (20, 5, 0.05), (30, 3.5, 0.02), (50, 2, 0.1), (3, 5, 20)]
)
@pytest.mark.speedup(min=1.2)
def test_warms_up(device, first, factor, ms):
    calls = iter(range(first))
    own = ms * 1e-3 * (1 if device.kind == "cpu" else 0.1)
    return lambda: device.launch(own if next(calls, None) is None else own * factor)
"""
SET_ELSEWHERE = "*{}*set it in a fixture that restores it, or inside the returned callable*"
NOT_WARM = "*it was not warm yet, the machine was busy, or the body of the test sets something*"
FOLLOWS = "a call on the CPU takes 1.00 ms after the test has prepared the emulated device*"
OTHER_LIBRARY = "*first call returned an array of numpy float64, and later calls one of array_api_strict*"
ENDINGS = {  # the record's status and reason, and what its one note of a doubt says, if it has one
    # A backend that the body sets is an error that says where to set it, and right where it belongs.
    **{
        f"test_sets[{name}]": ("error", SET_ELSEWHERE.format(f"takes {after}*, and {before} before"), None)
        for name, after, before in (
            ("faster", "1.00 ms after the test has prepared the emulated device", "10.0 ms"),
            ("slower", "50.0 ms", "10.0 ms"),
            ("slow_call", "100 ms", "1.00 s"),
            ("blocks", "500 ns", "5.00 us"),
        )
    },
    "test_fixture[gpu]": ("passed", "", None),
    "test_callable": ("passed", "", None),
    "test_body": ("passed", "", None),
    "test_default_dtype": ("error", "*CPU the first call returned *float64, and later calls *float32*", None),
    # Results of another library are an error whatever they are worth.
    "test_library": ("error", OTHER_LIBRARY, None),
    # A time that follows the bodies only once may be a busy machine's.
    "test_once[faster]": ("inconclusive", "*", NOT_WARM),
    "test_once[slower]": ("failed", "*", NOT_WARM),
    # A time that no body explains leaves open what rests on it.
    "test_for_good[3]": ("inconclusive", "*was not warm yet*", FOLLOWS),
    "test_for_good[0.5]": ("passed", "", FOLLOWS),
    "test_for_good[None]": ("recorded", "", FOLLOWS),
    # Calls that are as fast again as before were slow on a busy machine only.
    "test_busy[8]": ("passed", "", None),
    "test_busy[10000]": ("passed", "", "*"),
    # A restart does not forget that a time changed.
    "test_restarted": ("inconclusive", "*", "*"),
    "test_raises_later": ("error", "*", None),
    "test_raises": ("error", "TypeError: not an array of mine*", None),
}


def test_what_a_body_sets_for_the_process_times_no_device_under_the_others_setting(suite):
    pytest.importorskip("array_api_strict", reason="the extra `test` has it")
    found = suite(SUITE, "-v")
    for name, (status, reason, doubt) in ENDINGS.items():
        record = found.records[name]
        assert status == record["status"], name
        assert fnmatch(record["reason"] or "", reason), name
        doubts = [note["text"] for note in record["notes"] if note["code"] == "work_in_doubt"]
        assert [True] * (doubt is not None) == [fnmatch(text, doubt or "") for text in doubts], name
        assert status != "error" or record["demand"]["min"] is None or found.endings[name] == "FAILED"
        assert not name.startswith("test_sets") or record["speedup"] is None
    for name in ("test_fixture[gpu]", "test_callable", "test_body"):
        assert 10 == found.speedup(name)
    assert "later calls took" in found.records["test_restarted"]["restart_reason"]
    # An exception in the first call after the other body says what may have caused it, and no later one.
    hint = "since then the test has prepared the other device: if the body sets something"
    found.says("TypeError: not an array of mine", "*raised on the CPU", f"E *{hint}")
    assert 1 == str(found.result.stdout).count(hint)
    # Late warm-up does not follow the bodies, and is never an error.
    warming = [status for name, status in found.statuses.items() if name.startswith("test_warms_up")]
    assert ["passed"] * 5 == warming
