"""What a body sets for the whole process must not time one device's workload under the other's setting."""

import json

import pytest

from pytest_gpuperf.timing.trial import Trial

HEAD = """
import pytest

BACKEND = "cpu"
XP = None

def solve(device):
    device.launch(10e-3 if BACKEND == "cpu" else 1e-3)
"""
SETS_A_BACKEND = f"""{HEAD}
@pytest.mark.speedup(min=3)
def test_it(device):
    global BACKEND
    BACKEND = device.kind
    return lambda: solve(device)
"""


@pytest.fixture
def ended(run, pytester):
    """Run tests on the simulated devices; return pytest's result and the records by the tests' names."""

    def call(source):
        result = run(source, "--gpuperf-json=r.json")
        listed = json.loads((pytester.path / "r.json").read_text())["records"]
        return result, {record["nodeid"].partition("::")[2]: record for record in listed}

    return call


def test_a_backend_that_the_body_sets_is_an_error_that_says_where_to_set_it(ended):
    result, records = ended(SETS_A_BACKEND)
    result.assert_outcomes(failed=1)
    record = records["test_it"]
    assert "error" == record["status"]
    assert record["speedup"] is None
    assert "takes 1.00 ms after the test has prepared the GPU, and 10.0 ms before" in record["reason"]
    assert "set it in a fixture that restores it, or inside the returned callable" in record["reason"]


@pytest.mark.parametrize(
    ("said", "cpu", "gpu"),
    [
        ("takes 50.0 ms after the test has prepared the GPU, and 10.0 ms", "10e-3", "50e-3"),
        ("takes 100 ms after the test has prepared the GPU, and 1.00 s before", "1", "0.1"),
        ("takes 500 ns after the test has prepared the GPU, and 5.00 us before", "5e-6", "5e-7"),
    ],
    ids=["slower", "a slow call", "a short call, in blocks"],
)
def test_a_backend_that_changes_any_call_is_one_too(ended, said, cpu, gpu):
    source = SETS_A_BACKEND.replace("10e-3 if", f"{cpu} if").replace("else 1e-3", f"else {gpu}")
    record = ended(source)[1]["test_it"]
    assert "error" == record["status"]
    assert said in record["reason"]


@pytest.mark.parametrize("place", ["in a fixture", "in the callable", "in the whole body"])
def test_a_backend_that_is_set_where_it_belongs_is_right(ended, place):
    sources = {
        "in a fixture": """
@pytest.fixture
def of_device(device):
    global BACKEND
    before, BACKEND = BACKEND, device.kind
    yield device
    BACKEND = before

@pytest.mark.speedup(min=3)
def test_it(of_device):
    return lambda: solve(of_device)
""",
        "in the callable": """
@pytest.mark.speedup(min=3)
def test_it(device):
    def call():
        global BACKEND
        BACKEND = device.kind
        solve(device)
    return call
""",
        "in the whole body": """
@pytest.mark.speedup(min=3)
def test_it(device):
    global BACKEND
    BACKEND = device.kind
    solve(device)
""",
    }
    _, records = ended(HEAD + sources[place])
    judged = next(record for record in records.values() if record["speedup"])
    assert 10 == pytest.approx(judged["speedup"]["value"], rel=0.02)
    assert "passed" == judged["status"]
    assert "work_in_doubt" not in {note["code"] for note in judged["notes"]}


@pytest.mark.parametrize(
    ("first", "second", "status"), [(10e-3, 1e-3, "inconclusive"), (1e-3, 10e-3, "failed")]
)
def test_a_time_that_follows_the_bodies_only_once_may_be_a_busy_machines(ended, first, second, status):
    _, records = ended(f"""{HEAD}
runs = []

@pytest.mark.speedup(min=3)
def test_it(device):
    runs.append(device.kind)
    return lambda: device.launch({first} if len(runs) in (1, 3) else {second})
""")
    assert status == records["test_it"]["status"]
    (note,) = (note for note in records["test_it"]["notes"] if note["code"] == "work_in_doubt")
    assert "it was not warm yet, the machine was busy, or the body of the test sets something" in note["text"]


def test_bodies_that_take_longer_than_the_test_may_run_twice_more(ended):
    slow = SETS_A_BACKEND.replace("    return lambda", "    device.launch(6)\n    return lambda")
    _, records = ended(slow.replace("min=3", "min=3, max_time=5"))
    record = records["test_it"]
    assert "set it in a fixture that restores it" in record["reason"]
    assert 24 == pytest.approx(record["elapsed"], abs=5)  # nobody waits for the further work of the GPU


def test_results_of_another_library_are_an_error_whatever_they_are_worth(ended):
    pytest.importorskip("array_api_strict", reason="the extra `test` has it")
    source = f"""{HEAD}
import array_api_strict, numpy

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
"""
    _, records = ended(source)
    for record in records.values():
        assert "error" == record["status"]
        told = "the first call returned an array of numpy float64, and later calls one of array_api_strict"
        assert told in record["reason"]


def test_an_exception_in_the_first_call_after_the_other_body_says_what_may_have_caused_it(ended):
    source = f"""{HEAD}
@pytest.mark.speedup(min=3)
def test_it(device):
    global BACKEND
    BACKEND = device.kind

    def call():
        if BACKEND != device.kind:
            raise TypeError("not an array of mine")
        device.launch(1e-3)
    return call

@pytest.mark.speedup(min=3)
def test_later(device):
    calls = iter(range(12))
    return lambda: (next(calls, None) is None and 1 / 0, device.launch(10e-3))
"""
    result, _ = ended(source)
    hint = "since then the test has prepared the other device: if the body sets something"
    result.stdout.fnmatch_lines(["*TypeError: not an array of mine", "*raised on the CPU*", f"*E *{hint}*"])
    assert 1 == str(result.stdout).count(hint)


def test_a_time_that_no_body_explains_leaves_open_what_rests_on_it(ended):
    source = f"""{HEAD}
def prepare(device, times):
    \"\"\"Set it once, and for good.\"\"\"
    global BACKEND
    BACKEND = "cpu" if device.kind == "cpu" and times == 0 else "gpu"

TIMES = []

def body(device):
    prepare(device, len(TIMES))
    TIMES.append(1)
    return lambda: device.launch(1e-3 if device.kind == "gpu" or BACKEND == "gpu" else 10e-3)

@pytest.mark.speedup(min=3)
def test_open(device):
    TIMES.extend([1] * (device.kind == "gpu"))
    return body(device)

@pytest.fixture(autouse=True)
def clean():
    TIMES.clear()

@pytest.mark.speedup(min=0.5)
def test_closed(device):
    return body(device)

@pytest.mark.speedup
def test_bare(device):
    return body(device)

@pytest.mark.speedup(min=3)
def test_once(device):
    assert len(TIMES) < 2, "this body cannot run again"
    return body(device)
"""
    _, records = ended(source)
    statuses = {name: record["status"] for name, record in records.items()}
    assert {
        "test_open": "inconclusive",
        "test_closed": "passed",
        "test_bare": "recorded",
        "test_once": "inconclusive",
    } == statuses
    for name, record in records.items():
        (text,) = [note["text"] for note in record["notes"] if note["code"] == "work_in_doubt"]
        assert text.startswith("a call on the CPU takes 1.00 ms after the test has prepared the GPU"), name
    assert "was not warm yet" in records["test_open"]["reason"]


@pytest.mark.parametrize(("slow", "is_noted"), [(8, False), (10_000, True)])
def test_calls_that_are_as_fast_again_as_before_were_slow_on_a_busy_machine_only(ended, slow, is_noted):
    _, records = ended(f"""{HEAD}
SLOW, RAN = [], []

@pytest.mark.speedup(min=3)
def test_it(device):
    RAN.append(device.kind)
    assert len(RAN) < 3, "this body cannot run again"
    SLOW.extend([40e-3] * {slow} if device.kind == "gpu" else [])
    own = lambda: SLOW.pop() if SLOW else 10e-3
    return lambda: device.launch(own() if device.kind == "cpu" else 1e-3)
""")
    record = records["test_it"]
    assert record["status"] == "passed"
    assert is_noted == ("work_in_doubt" in [note["code"] for note in record["notes"]])


def test_late_warm_up_is_never_an_error(ended):
    source = f"""{HEAD}
@pytest.mark.parametrize("ms", [0.01, 0.3, 1, 20])
@pytest.mark.parametrize("factor", [2, 3.5, 5])
@pytest.mark.parametrize("first", [3, 20, 50])
@pytest.mark.speedup(min=1.2)
def test_it(device, first, factor, ms):
    calls = iter(range(first))
    own = ms * 1e-3 * (1 if device.kind == "cpu" else 0.1)
    return lambda: device.launch(own if next(calls, None) is None else own * factor)
"""
    _, records = ended(source)
    assert 36 == len(records)
    assert {"passed", "inconclusive"} >= {record["status"] for record in records.values()}
    # Where another time of the CPU would change nothing, it is a note at most.
    assert 30 <= sum(record["status"] == "passed" for record in records.values())


def test_a_restart_does_not_forget_that_a_time_changed(ended, monkeypatch):
    """The body may run only once, so that nothing more can be known than that the time changed."""
    asked = []
    monkeypatch.setattr(Trial, "_samples_usable", property(lambda _: asked.append(1) or len(asked) > 1))
    source = f"""{HEAD}
RAN, TIMES = [], {{}}

@pytest.mark.speedup(min=3)
def test_it(device):
    if device.kind in RAN:
        raise LookupError("only once")
    RAN.append(device.kind)
    TIMES["cpu"] = 1e-3 if device.kind == "cpu" else 4e-3
    return lambda: device.launch(TIMES.get(device.kind, 1e-3))
"""
    _, records = ended(source)
    record = records["test_it"]
    assert (2, "inconclusive") == (len(asked), record["status"])
    assert record["restart_reason"] == "the machine was busy with other work"
    assert "work_in_doubt" in [note["code"] for note in record["notes"]]


def test_a_default_dtype_that_the_body_sets_is_an_error(ended):
    source = f"""{HEAD}
import numpy as np

@pytest.mark.speedup(min=3)
def test_it(device):
    global DTYPE
    DTYPE = "float64" if device.kind == "cpu" else "float32"
    return lambda: (device.launch(1e-3 if device.kind == "gpu" else 10e-3), np.ones(3, DTYPE))[1]
"""
    _, records = ended(source)
    assert (
        "on the CPU the first call returned an array of numpy float64, and later calls one of numpy float32"
        in records["test_it"]["reason"]
    )
