"""What a body sets for the whole process must not time one device's workload under the other's setting."""

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
KEPT = {}


@pytest.fixture
def found(suite):
    """Return what one run of all tests has left, which is the same for all that only read it."""
    if not KEPT:
        told = (sets_a_backend(name, cpu, gpu) for name, (cpu, gpu, _) in TOLD.items())
        KEPT["found"] = suite("".join([HEAD, *told, RIGHT, DOUBTFUL, OPEN, WARMING_UP]), "-v")
    return KEPT["found"]


def doubts(record):
    return [note["text"] for note in record["notes"] if note["code"] == "work_in_doubt"]


def test_a_backend_that_the_body_sets_is_an_error_that_says_where_to_set_it(found):
    for name, (_, _, said) in TOLD.items():
        record = found.records[name]
        assert ("error", None) == (record["status"], record["speedup"])
        assert said in record["reason"]
        assert "set it in a fixture that restores it, or inside the returned callable" in record["reason"]
        assert "FAILED" == found.endings[name]


def test_a_backend_that_is_set_where_it_belongs_is_right(found):
    for name in ("test_fixture[gpu]", "test_callable", "test_body"):
        assert "passed" == found.statuses[name]
        assert 10 == pytest.approx(found.records[name]["speedup"]["value"], rel=0.02)
        assert [] == doubts(found.records[name])


def test_a_time_that_follows_the_bodies_only_once_may_be_a_busy_machines(found):
    assert "inconclusive" == found.statuses["test_faster_once"]
    assert "failed" == found.statuses["test_slower_once"]
    for name in ("test_faster_once", "test_slower_once"):
        (text,) = doubts(found.records[name])
        assert "it was not warm yet, the machine was busy, or the body of the test sets something" in text


def test_bodies_that_take_longer_than_the_test_may_run_twice_more(found):
    record = found.records["test_slow_body"]
    assert "set it in a fixture that restores it" in record["reason"]
    assert 24 == pytest.approx(record["elapsed"], abs=5)  # nobody waits for the further work of the GPU


def test_an_exception_in_the_first_call_after_the_other_body_says_what_may_have_caused_it(found):
    hint = "since then the test has prepared the other device: if the body sets something"
    found.says("TypeError: not an array of mine", "*raised on the CPU", f"E *{hint}")
    assert 1 == str(found.result.stdout).count(hint)
    assert "error" == found.statuses["test_raises_later"]


def test_a_time_that_no_body_explains_leaves_open_what_rests_on_it(found):
    expected = {
        "test_open": "inconclusive",
        "test_closed": "passed",
        "test_bare": "recorded",
        "test_once": "inconclusive",
    }
    for name, status in expected.items():
        assert status == found.statuses[name]
        (text,) = doubts(found.records[name])
        assert text.startswith("a call on the CPU takes 1.00 ms after the test has prepared the GPU"), name
    assert "was not warm yet" in found.records["test_open"]["reason"]


def test_calls_that_are_as_fast_again_as_before_were_slow_on_a_busy_machine_only(found):
    for name, is_noted in (("test_busy_for_a_while", False), ("test_busy_for_good", True)):
        assert "passed" == found.statuses[name]
        assert is_noted == bool(doubts(found.records[name]))


def test_late_warm_up_is_never_an_error(found):
    warming = [status for name, status in found.statuses.items() if name.startswith("test_warms_up")]
    assert 36 == len(warming)
    assert {"passed", "inconclusive"} >= {*warming}
    # Where another time of the CPU would change nothing, it is a note at most.
    assert 30 <= warming.count("passed")


def test_a_restart_does_not_forget_that_a_time_changed(found):
    record = found.records["test_restarted"]
    assert "inconclusive" == record["status"]
    assert "later calls took" in record["restart_reason"]
    assert doubts(record)


def test_a_default_dtype_that_the_body_sets_is_an_error(found):
    said = (
        "on the CPU the first call returned an array of numpy float64, and later calls one of numpy float32"
    )
    assert said in found.records["test_default_dtype"]["reason"]


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
