"""What a body sets for the whole process must not time one device's workload under the other's setting."""

from fnmatch import fnmatch

import pytest

HEAD = """
import numpy

BACKEND, XP, TIMES, RAN = "cpu", numpy, [], []

@pytest.fixture(autouse=True)
def clean():
    global BACKEND
    BACKEND = "cpu"
    TIMES.clear(), RAN.clear()

def solve(device, cpu=10e-3, gpu=1e-3):
    device.launch(cpu if BACKEND == "cpu" else gpu)
"""


def sets_a_backend(name, cpu, gpu):
    """Return a test whose body sets for the process which device its calls use."""
    return f"""
@pytest.mark.speedup(min=3)
def {name}(device):
    global BACKEND
    BACKEND = device.kind
    return lambda: solve(device, {cpu}, {gpu})
"""


TOLD = {
    "test_faster": ("10e-3", "1e-3", "takes 1.00 ms after the test has prepared the GPU, and 10.0 ms before"),
    "test_slower": ("10e-3", "50e-3", "takes 50.0 ms after the test has prepared the GPU, and 10.0 ms"),
    "test_slow_call": ("1", "0.1", "takes 100 ms after the test has prepared the GPU, and 1.00 s before"),
    "test_blocks": ("5e-6", "5e-7", "takes 500 ns after the test has prepared the GPU, and 5.00 us before"),
}
RIGHT = """
@pytest.fixture
def of_device(device):
    global BACKEND
    before, BACKEND = BACKEND, device.kind
    yield device
    BACKEND = before

@pytest.mark.speedup(min=3)
def test_fixture(of_device):
    return lambda: solve(of_device)

@pytest.mark.speedup(min=3)
def test_callable(device):
    def call():
        global BACKEND
        BACKEND = device.kind
        solve(device)
    return call

@pytest.mark.speedup(min=3)
def test_body(device):
    global BACKEND
    BACKEND = device.kind
    solve(device)
"""
DOUBTFUL = """
def follows_once(device, first, second):
    RAN.append(device.kind)
    return lambda: device.launch(first if len(RAN) in (1, 3) else second)

@pytest.mark.speedup(min=3)
def test_faster_once(device):
    return follows_once(device, 10e-3, 1e-3)

@pytest.mark.speedup(min=3)
def test_slower_once(device):
    return follows_once(device, 1e-3, 10e-3)

@pytest.mark.speedup(min=3, max_time=5)
def test_slow_body(device):
    global BACKEND
    BACKEND = device.kind
    device.launch(6)
    return lambda: solve(device)

@pytest.mark.speedup(min=3)
def test_raises(device):
    global BACKEND
    BACKEND = device.kind

    def call():
        if BACKEND != device.kind:
            raise TypeError("not an array of mine")
        device.launch(1e-3)
    return call

@pytest.mark.speedup(min=3)
def test_raises_later(device):
    calls = iter(range(12))
    return lambda: (next(calls, None) is None and 1 / 0, device.launch(10e-3))

def busy(device, slow):
    RAN.append(device.kind)
    assert len(RAN) < 3, "this body cannot run again"
    TIMES.extend([40e-3] * slow if device.kind == "gpu" else [])
    own = lambda: TIMES.pop() if TIMES else 10e-3
    return lambda: device.launch(own() if device.kind == "cpu" else 1e-3)

@pytest.mark.speedup(min=3)
def test_busy_for_a_while(device):
    return busy(device, 8)

@pytest.mark.speedup(min=3)
def test_busy_for_good(device):
    return busy(device, 10_000)

@pytest.mark.speedup(min=25)
def test_restarted(device):
    # The body may run only once, so that nothing more can be known than that the time changed.
    assert device.kind not in RAN
    RAN.append(device.kind)
    if device.kind == "gpu":
        TIMES.extend([20e-3] * 16)
    own = lambda: TIMES.pop() if TIMES else (1e-3 if RAN == ["cpu"] else 4e-3)
    return lambda: device.launch(own() if device.kind == "cpu" else 1e-4)

@pytest.mark.speedup(min=3)
def test_default_dtype(device):
    global DTYPE
    DTYPE = "float64" if device.kind == "cpu" else "float32"
    return lambda: (device.launch(1e-3 if device.kind == "gpu" else 10e-3), numpy.ones(3, DTYPE))[1]
"""
OPEN = """
def prepare(device, times):
    \"\"\"Set it once, and for good.\"\"\"
    global BACKEND
    BACKEND = "cpu" if device.kind == "cpu" and times == 0 else "gpu"

def unexplained(device):
    prepare(device, len(TIMES))
    TIMES.append(1)
    return lambda: device.launch(1e-3 if device.kind == "gpu" or BACKEND == "gpu" else 10e-3)

@pytest.mark.speedup(min=3)
def test_open(device):
    TIMES.extend([1] * (device.kind == "gpu"))
    return unexplained(device)

@pytest.mark.speedup(min=0.5)
def test_closed(device):
    return unexplained(device)

@pytest.mark.speedup
def test_bare(device):
    return unexplained(device)

@pytest.mark.speedup(min=3)
def test_once(device):
    assert len(TIMES) < 2, "this body cannot run again"
    return unexplained(device)
"""
WARMING_UP = """
@pytest.mark.parametrize("ms", [0.01, 0.3, 1, 20])
@pytest.mark.parametrize("factor", [2, 3.5, 5])
@pytest.mark.parametrize("first", [3, 20, 50])
@pytest.mark.speedup(min=1.2)
def test_warms_up(device, first, factor, ms):
    calls = iter(range(first))
    own = ms * 1e-3 * (1 if device.kind == "cpu" else 0.1)
    return lambda: device.launch(own if next(calls, None) is None else own * factor)
"""
NOT_WARM = "*it was not warm yet, the machine was busy, or the body of the test sets something*"
FOLLOWS = "a call on the CPU takes 1.00 ms after the test has prepared the GPU*"
ENDINGS = {  # the record's status and reason, and what its one note of a doubt says, if it has one
    # A backend that the body sets is an error that says where to set it, and right where it belongs.
    **{
        name: (
            "error",
            f"*{said}*set it in a fixture that restores it, or inside the returned callable*",
            None,
        )
        for name, (_, _, said) in TOLD.items()
    },
    "test_fixture[gpu]": ("passed", "", None),
    "test_callable": ("passed", "", None),
    "test_body": ("passed", "", None),
    "test_slow_body": ("error", "*set it in a fixture that restores it*", None),
    "test_default_dtype": ("error", "*CPU the first call returned *float64, and later calls *float32*", None),
    # A time that follows the bodies only once may be a busy machine's.
    "test_faster_once": ("inconclusive", "*", NOT_WARM),
    "test_slower_once": ("failed", "*", NOT_WARM),
    # A time that no body explains leaves open what rests on it.
    "test_open": ("inconclusive", "*was not warm yet*", FOLLOWS),
    "test_closed": ("passed", "", FOLLOWS),
    "test_bare": ("recorded", "", FOLLOWS),
    "test_once": ("inconclusive", "*", FOLLOWS),
    # Calls that are as fast again as before were slow on a busy machine only.
    "test_busy_for_a_while": ("passed", "", None),
    "test_busy_for_good": ("passed", "", "*"),
    # A restart does not forget that a time changed.
    "test_restarted": ("inconclusive", "*", "*"),
    "test_raises": ("error", "TypeError: not an array of mine*", None),
    "test_raises_later": ("error", "*", None),
}


def test_what_a_body_sets_for_the_process_times_no_device_under_the_others_setting(suite):
    told = (sets_a_backend(name, cpu, gpu) for name, (cpu, gpu, _) in TOLD.items())
    found = suite("".join([HEAD, *told, RIGHT, DOUBTFUL, OPEN, WARMING_UP]), "-v")
    for name, (status, reason, doubt) in ENDINGS.items():
        record = found.records[name]
        assert status == record["status"], name
        assert fnmatch(record["reason"] or "", reason), name
        doubts = [note["text"] for note in record["notes"] if note["code"] == "work_in_doubt"]
        assert [True] * (doubt is not None) == [fnmatch(text, doubt or "") for text in doubts], name
        assert status != "error" or found.endings[name] == "FAILED", name
        assert name not in TOLD or record["speedup"] is None
    for name in ("test_fixture[gpu]", "test_callable", "test_body"):
        assert 10 == pytest.approx(found.records[name]["speedup"]["value"], rel=0.02)
    # Bodies that take longer than the test may run twice more; nobody waits for the further work of the GPU.
    assert 24 == pytest.approx(found.records["test_slow_body"]["elapsed"], abs=5)
    assert "later calls took" in found.records["test_restarted"]["restart_reason"]
    # An exception in the first call after the other body says what may have caused it, and no later one.
    hint = "since then the test has prepared the other device: if the body sets something"
    found.says("TypeError: not an array of mine", "*raised on the CPU", f"E *{hint}")
    assert 1 == str(found.result.stdout).count(hint)
    # Late warm-up is never an error, and a note at most where another time of the CPU would change nothing.
    warming = [status for name, status in found.statuses.items() if name.startswith("test_warms_up")]
    assert 36 == len(warming)
    assert {"passed", "inconclusive"} >= {*warming}
    assert 30 <= warming.count("passed")


def test_results_of_another_library_are_an_error_whatever_they_are_worth(suite):
    pytest.importorskip("array_api_strict", reason="the extra `test` has it")
    found = suite(f"""{HEAD}
import array_api_strict

def body(device):
    global XP
    XP = numpy if device.kind == "cpu" else array_api_strict
    return lambda: (device.launch(1e-3), XP.ones(4))

@pytest.mark.speedup
def test_bare(device):
    return body(device)

@pytest.mark.speedup(min=0.5, check=False)
def test_unchecked(device):
    return body(device)
""")
    assert {"test_bare": "error", "test_unchecked": "error"} == found.statuses
    for record in found.records.values():
        told = "the first call returned an array of numpy float64, and later calls one of array_api_strict"
        assert told in record["reason"]
