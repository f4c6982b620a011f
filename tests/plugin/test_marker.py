"""The marker at pytest's door: what is collected, measured and failed."""

import re
from fnmatch import fnmatch

import pytest

EVEN = """
@pytest.mark.speedup(min=2, max_time=1)
def test_even(device):
    return lambda: device.launch(2e-3 if device.kind == "cpu" else 1e-3 - 5e-6)
"""
LOST = """
@pytest.mark.speedup(min=300)
def test_lost(device):
    return lambda: device.launch()
"""
FORGOT = """
@pytest.mark.speedup(min=0.5)
def test_forgot(device):
    a = np.ones(100)
    return lambda: a + 1
"""
DOUBTFUL_UNIT = """
@pytest.mark.speedup(pair="ones", min=9.95)
class TestUnit(unittest.TestCase):
    def test_cpu(self):
        conftest.numpy.ones(3)

    def test_gpu(self):
        conftest.cupy.ones(3)
"""
VERDICTS = f"""
import numpy as np

speedup = pytest.mark.speedup
{EVEN}{LOST}{FORGOT}
@speedup(min=3)
def test_body(device):
    device.xp.fft.fft(device.xp.ones(64))

@speedup(min=3)
def test_callable(device):
    a = device.asarray(np.ones((8, 8)))
    return lambda: a @ a

@speedup(max=1)
def test_maximum(device):
    return device.launch

@speedup
def test_bare(device):
    return lambda: device.launch(1.0 if device.kind == "gpu" else 1e-3)

@speedup(min=1)
def test_disagrees(device):
    return lambda: device.xp.ones(3) * (1 if device.kind == "cpu" else 1.1)

@speedup(min=3)
def test_a_callable_now_and_then(xp):
    xp.ones(3)
    if not pytest:
        return lambda: xp.ones(3)

@pytest.fixture(scope="module")
def table():
    return np.array([4.0, 1.0, 3.0])

@speedup
def test_index(device, table):
    if np.ptp(table) == 0:
        raise ValueError("empty table")
    table.sort()
    return device.xp.sum(device.asarray(table))

def test_the_table_is_sorted_and_nothing_else(table):
    assert table.tolist() == [1.0, 3.0, 4.0]

def of_each_device(cls):
    # As parameterized_class does, which makes a subclass for each device.
    for kind in ("cpu", "gpu"):
        name = f"{{cls.__name__}}_{{kind}}"
        globals()[name] = type(name, (cls,), {{**vars(cls), "device": kind}})

@of_each_device
@speedup(min=3)
class TestCopied(unittest.TestCase):
    def test_ones(self):
        conftest.LIBRARIES[self.device].ones(3)

@of_each_device
@pytest.mark.offload_threshold("n")
@speedup(min=3)
class TestSizes:
    @pytest.mark.parametrize("n", [3, 4])
    def test_ones(self, xp, n):
        xp.ones(n)
"""
TOO_SLOW = ("FAILED", "failed", "required at least 300x, speedup 9.9?x [[]9.9?, 9.9?]")
FINE = ("PASSED", "passed", None)
UNJUDGED = ("PASSED", "recorded", None)
ENDINGS = {
    "test_even": (
        "PASSED",
        "inconclusive",
        "required at least 2x, speedup 2.0*inconclusive after * rounds, *",
    ),
    "test_lost": TOO_SLOW,
    "test_forgot": ("FAILED", "error", "no work reached simulated GPU: *"),
    "test_body": FINE,
    "test_callable": FINE,
    "test_maximum": ("FAILED", "failed", "required at most 1x, speedup 9.9*"),
    "test_bare": UNJUDGED,
    "test_disagrees": ("FAILED", "failed", "the devices disagree before timing: *relative error 0.091*"),
    "test_a_callable_now_and_then[numpy]": UNJUDGED,
    "test_a_callable_now_and_then[cupy]": FINE,
    "test_index": UNJUDGED,
    "TestCopied_cpu::test_ones": UNJUDGED,
    "TestCopied_gpu::test_ones": FINE,
    **{
        f"TestSizes_{kind}::test_ones[{library}-{n}]": ending
        for kind in ("cpu", "gpu")
        for library, ending in (("numpy", UNJUDGED), ("cupy", FINE))
        for n in (3, 4)
    },
}


def test_each_test_ends_as_its_marker_and_what_was_measured_say(suite):
    found = suite(VERDICTS, "-v", "-Walways::pytest_gpuperf.InconclusiveWarning")
    found.ended(passed=18, failed=4, warnings=1)
    reasons = {name: record["reason"] for name, record in found.records.items()}
    assert {name: ending[:2] for name, ending in ENDINGS.items()} == {
        name: (found.endings[name], status) for name, status in found.statuses.items()
    }
    for name, (ending, _, reason) in ENDINGS.items():
        assert (reasons[name] is None) == (reason is None)
        assert reason is None or fnmatch(reasons[name], reason), name
        assert ending != "FAILED" or reasons[name] in found.result.outlines, "what failed is said in one line"
    found.says("InconclusiveWarning: required at least 2x, speedup 2.0")
    assert 1 == str(found.result.stdout).count("inconclusive after "), "among the warnings alone"
    found.says("test_callable *9.9*x [[]*>=3x *passed")
    assert 0.001 == pytest.approx(found.records["test_bare"]["speedup"]["value"], rel=0.1)
    assert ["TestSizes_cpu", "TestSizes_gpu"] == [
        threshold["name"].split("::")[1] for threshold in found.written["thresholds"]
    ]


@pytest.mark.parametrize(
    ("fails", "options"),
    [
        (("FAILED", "FAILED"), ["-Walways", "--disable-warnings"]),
        (("FAILED", "FAILED"), ["-Werror", "-Wignore::pytest_gpuperf.InconclusiveWarning"]),
        (("PASSED", "SKIPPED"), ["--gpuperf-fail=nothing", "-Werror"]),
        (("FAILED", "FAILED"), ["--gpuperf-fail=doubt"]),
        (("FAILED", "FAILED"), ["-Werror"]),
    ],
)
def test_the_user_settles_what_fails(suite, fails, options):
    found = suite(f"import numpy as np\n{EVEN}{LOST}{FORGOT}{DOUBTFUL_UNIT}", "-v", "-rs", *options)
    doubt = "FAILED" if options in (["-Werror"], ["--gpuperf-fail=doubt"]) else "PASSED"
    assert [doubt, *fails, "PASSED", doubt] == [*found.endings.values()]
    assert ["inconclusive", "failed", "error", "recorded", "inconclusive"] == [*found.statuses.values()]
    assert 2 == " ".join(str(found.result.stdout).split()).count("inconclusive after ")
    if options == ["-Werror"]:
        found.says("(InconclusiveWarning, and the suite makes warnings errors)")
        assert not [words for words in ("session.py", "During handling") if words in str(found.result.stdout)]
    if "SKIPPED" in fails:
        found.says("SKIPPED*there is no valid measurement: no work reached simulated GPU")


UNJUDGED = """
import numpy as np
import pytest
from threading import Thread

@pytest.mark.speedup(min=1000)
def test_too_slow(device):
    ones = device.asarray(np.ones(9))
    return lambda: ones + ones

@pytest.mark.speedup(min=1)
def test_results_differ(device):
    ones = device.asarray(np.full(9, 1.0 if device.kind == "cpu" else 2.0))
    return lambda: ones + ones

@pytest.mark.speedup(max_memory=10)
def test_too_large(device):
    ones = device.asarray(np.ones(9))
    return lambda: ones + ones

@pytest.mark.speedup(min=1)
def test_a_handle(device):
    return lambda: Thread()

@pytest.mark.speedup(min=1)
def test_workload_raises(device):
    return lambda: int("no number")

@pytest.mark.speedup(min=1)
def test_body_raises(device):
    assert device is None

@pytest.mark.speedup(mim=1)
def test_wrong_marker(device):
    return lambda: None

@pytest.mark.speedup(min=1)
def test_no_device():
    pass
"""


def test_what_fails_nothing_lets_verdicts_pass_and_nothing_that_raises(suite):
    verdicts = ["too_slow", "results_differ", "too_large"]
    broken = ["workload_raises", "body_raises", "wrong_marker", "no_device"]
    found = suite(UNJUDGED, "-v", "--gpuperf-fail=nothing")
    endings = {name.removeprefix("test_"): ending for name, ending in found.endings.items()}
    assert ["PASSED"] * 3 == [endings[name] for name in verdicts]
    assert "SKIPPED" == endings["a_handle"]
    assert ["FAILED", "FAILED", "ERROR", "ERROR"] == [endings[name] for name in broken]
    assert {"failed": 3, "error": 5} == {
        status: [*found.statuses.values()].count(status) for status in found.statuses.values()
    }


OFF = """
import numpy
import pytest

calls = []
pytestmark = pytest.mark.speedup(min=300)

@pytest.fixture
def ones(device):
    return device.xp.ones(3)

def test_call(device, xp):
    assert xp is device.xp
    return lambda: calls.append(device.kind)

def test_body(xp):
    calls.append("body")
    return 3

def test_reset(gpuperf):
    return gpuperf.workload(lambda: calls.append("call"), reset=lambda: calls.append("reset"))

def test_fixture(ones, device):
    calls.append(f"fixture on {device.kind}")

@pytest.mark.parametrize("backend", ["numpy", "torch", "dask"])
def test_own(backend):
    calls.append(backend)

def test_lonely(gpuperf):
    calls.append("lonely")

@pytest.mark.speedup(wrong=3)
@pytest.mark.offload_threshold("n")
def test_misused():
    calls.append("misused")

@pytest.mark.parametrize("run", [lambda: pytest.skip("why"), lambda: 1 / 0])
def test_ends(device, run):
    run()

def test_ends_in_its_workload(device):
    return lambda: 1 / 0

class TestOwn:
    @pytest.fixture
    def device(self):
        return numpy.ones(3)

    def test_array(self, device):
        assert device.sum() == 3

def test_after(request):
    request.applymarker(pytest.mark.speedup(min=3))
    assert calls[:5] == ["cpu", "body", "reset", "call", "fixture on cpu"]
    assert calls[5:] == ["numpy", "torch", "dask", "lonely", "misused"]
"""


def test_off_runs_each_test_once_as_if_the_plugin_were_not_there(run, pytester):
    result = run(OFF, "--gpuperf-off", "--gpuperf-json=r.json", "--gpuperf-all", gpu="none")
    result.assert_outcomes(passed=11, skipped=2, failed=2)
    failed = {line.partition("::")[2].partition(" ")[0] for line in result.outlines if "FAILED" in line}
    assert failed == {"test_ends[<lambda>1]", "test_ends_in_its_workload"}
    assert "- gpuperf -" not in result.stdout.str()
    assert not (pytester.path / "r.json").exists()


def test_a_wrong_marker_is_an_error_of_no_other_test_and_each_function_is_listed_once(suite):
    found = suite(
        """
@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.speedup(least=3)
def test_wrong(device, n):
    pass

@pytest.mark.speedup(max=5)
@pytest.mark.speedup(min=3)
def test_twice(device):
    pass

@pytest.mark.speedup(min=3)
async def test_async(device):
    pass

@pytest.mark.speedup(min=3)
def test_right(device):
    return lambda: device.launch()

def test_plain():
    pass

@pytest.mark.xfail(strict=True)
@pytest.mark.speedup(most=3)
def test_wrong_and_expected_to_fail(device):
    pass
"""
    )
    found.ended(errors=5, passed=2)
    lines = found.result.outlines
    ran = next(index for index, line in enumerate(lines) if line.startswith("test_it.py "))
    listed = [line.partition("::")[2] for line in lines[:ran] if line.startswith("gpuperf: error: ")]
    wrong, twice, is_async, expected = listed
    assert wrong.startswith(
        "test_wrong[1] (and 1 more of its parametrizations): @pytest.mark.speedup: has no"
    )
    assert "2 speedup markers, speedup(min=3) and speedup(max=5); keep one" in twice
    assert (is_async[:12], expected[:32]) == ("test_async: ", "test_wrong_and_expected_to_fail:")
    reasons = [record["reason"] for record in found.records.values() if record["status"] == "error"]
    assert 5 == len(reasons)
    assert reasons[0].startswith("@pytest.mark.speedup: has no argument 'least'")


WHOLE_MODULE = """
pytestmark = pytest.mark.speedup(min=3, device="cuda")

def test_first(device): pass

@pytest.mark.parametrize("n", [1, 2])
def test_second(device, n): pass
"""
NO_DEVICE_AT_ALL = """
pytestmark = pytest.mark.speedup(min=3)

def test_first(): pass

def test_second(): pass
"""


def test_what_is_wrong_with_a_whole_module_is_said_once_and_stands_in_each_record(suite):
    found = suite(WHOLE_MODULE)
    found.ended(errors=3)
    whole = "leave it out, and choose the GPU with gpuperf_gpu in the ini file, as torch or jax:1"
    shown = str(found.result.stdout)
    assert 2 == shown.count(whole), "before the first test, and as its error"
    found.says(
        "gpuperf: error: test_it.py::test_first (and 2 more of its file): device='cuda' is for a test on",
        "device='cuda' is for a test on one *(as test_it.py::test_first, which says it in full)",
        "ERROR test_it.py::test_second[[]2] - Failed: device='cuda' is for a test",
    )
    assert all(whole in record["reason"] for record in found.records.values())


@pytest.mark.parametrize(
    ("gpu", "said"),
    [
        ("auto", " (with gpuperf_gpu = jax that is all: *; with torch also pass device.native), parametrize"),
        ("torch", " and pass device.native to torch, parametrize"),
        ("jax", " (that is all: what the test makes with JAX is there), parametrize"),
        ("cupy", ", parametrize"),
    ],
)
def test_a_test_without_a_device_is_told_the_remedy_of_the_library_that_the_run_names(suite, gpu, said):
    found = suite(NO_DEVICE_AT_ALL, ini=f"gpuperf_gpu = {gpu}", ours=())
    found.ended(errors=2)
    found.says(f"a speedup test must use a device: request the `device` or `xp` fixture{said} over devices")
    assert 1 == str(found.result.stdout).count("call gpuperf.both(), or link two tests with pair=NAME")


VARIANTS = """
import numpy as np

@pytest.fixture(scope="session")
def data(device):
    return device.asarray(np.ones(100))

@pytest.mark.parametrize("power", [2, 3])
@pytest.mark.speedup(min=3)
def test_power(data, power):
    return lambda: data ** power
"""


def test_a_fixture_on_device_makes_two_variants_and_that_of_the_gpu_is_compared_alone_too(suite):
    found = suite(
        VARIANTS, "test_it.py::test_power[2-cpu]", *(f"test_it.py::test_power[{n}-gpu]" for n in (2, 3))
    )
    found.ended(passed=3)
    for name, status in (("2-cpu", "recorded"), ("2-gpu", "passed"), ("3-gpu", "passed")):
        record = found.records[f"test_power[{name}]"]
        assert (status, 0.01) == (record["status"], round(record["cpu"]["median"], 3))


OF_CONFTEST = """
    def pytest_itemcollected(item):
        if item.name == "test_collected":
            item.add_marker(pytest.mark.speedup(min=300))

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(items):
        items.reverse()
        for item in items:
            if item.name.startswith("test_modified"):
                item.add_marker(pytest.mark.speedup(min=300))
            elif item.name == "test_misused[cpu]":
                item.add_marker(pytest.mark.speedup(least=3))
            elif item.name == "test_foreign":
                item.runtest = lambda: None
"""
CHANGED = """
def test_collected(gpu):
    pass

def test_modified(gpu):
    pass

def test_modified_variants(device):
    return device.launch

def test_misused(device):
    pass

@pytest.mark.speedup(min=3)
def test_foreign(device):
    return device.launch

@pytest.fixture
def slot(device):
    return device

@pytest.mark.speedup(min=3)
def test_reversed(slot):
    return slot.launch
"""


def test_markers_orders_and_runners_of_a_conftest_count(suite):
    found = suite(CHANGED, "-v", conftest=OF_CONFTEST)
    assert found.endings == {
        "test_reversed[cpu]": "PASSED",
        "test_reversed[gpu]": "PASSED",
        "test_foreign": "FAILED",
        "test_misused[gpu]": "PASSED",
        "test_misused[cpu]": "ERROR",
        "test_modified_variants[cpu]": "PASSED",
        "test_modified_variants[gpu]": "FAILED",
        "test_modified": "ERROR",
        "test_collected": "ERROR",
    }
    assert "passed" == found.statuses["test_reversed[gpu]"], "after its CPU variant"
    assert 10 == found.speedup("test_modified_variants[gpu]")
    alone = "nothing to compare with: this test runs on the GPU only"
    for name, reason in [
        ("test_collected", alone),
        ("test_modified", alone),
        ("test_foreign", "not measured: another plugin executed the test function itself"),
    ]:
        assert found.records[name]["reason"].startswith(reason)


HIDES = """
from functools import wraps

import numpy as np

LIMIT = pytest.mark.speedup(min=3)

def handed_on(test):
    return wraps(test)(lambda *values, **named: test(*values, **named))

def hidden(calls=False):
    def decorate(test):
        @wraps(test)
        def call(*values, **named):
            result = test(*values, **named)
            return result() if calls and callable(result) else None
        return call
    return decorate

@LIMIT
@hidden()
def test_slot(device):
    return lambda: device.xp.ones(3)

@LIMIT
@hidden(calls=True)
def test_called(device):
    return lambda: device.xp.ones(3)

@LIMIT
@hidden()
def test_variants(xp):
    return lambda: xp.ones(3)

@hidden()
def test_unmarked(xp):
    return lambda: xp.ones(3)

@LIMIT
@hidden()
def test_number(device):
    device.xp.ones(3)
    return 1

def prepared(xp):
    return lambda: xp.ones(3)

@LIMIT
@hidden()
def test_of_a_helper(device):
    return prepared(device.xp)

@LIMIT
@hidden()
def test_of_a_name(device):
    call = prepared(device.xp)
    return call

@LIMIT
@hidden()
def test_in_no_case_but_one(device):
    device.xp.ones(3)
    if device is None:
        return prepared(device.xp)
    return

@LIMIT
@handed_on
def test_falls_off_its_end(device):
    if device is None:
        return lambda: device.xp.ones(3)
    device.xp.ones(3)

@LIMIT
@handed_on
def test_falls_off_a_loop(device):
    for step in range(3):
        if step > 5:
            return prepared(device.xp)
    device.xp.ones(3)

@LIMIT
@handed_on
def test_asserts(device):
    return np.testing.assert_allclose(device.asnumpy(device.xp.ones(3)), 1)

@LIMIT
@hidden()
def test_in_each_branch(device):
    if device is None:
        return prepared(device.xp)
    else:
        with pytest.MonkeyPatch.context():
            return prepared(device.xp)

@LIMIT
@handed_on
def test_result(device):
    return device.xp.ones(3) + 1

@LIMIT
@handed_on
def test_callable(device):
    return prepared(device.xp)
"""


def test_a_decorator_that_hides_what_the_test_returns_is_an_error(suite):
    found = suite(HIDES, "-v", "--gpuperf-all")
    said = re.compile(
        "does not hand on (the callable that|what) the test returns, so its preparation would be"
    )
    hide = {name for name, record in found.records.items() if said.search(record["reason"] or "")}
    failed = {name.partition("[")[0] for name, ending in found.endings.items() if ending != "PASSED"}
    of_callables = {"test_slot", "test_called", "test_variants"}
    assert of_callables | {"test_of_a_helper", "test_of_a_name", "test_in_each_branch"} == failed
    assert failed | {"test_unmarked"} == {name.partition("[")[0] for name in hide}


HINTED = """
from functools import partial
from unittest import mock

import numpy as np

pytestmark = pytest.mark.speedup(min=3)

@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(f"{__name__}.helper", lambda: 1)

def helper():
    pass

def wait(device):
    assert helper() == 1, "the patch is gone"
    device.launch(1e-3 if device.kind == "gpu" else 10e-3)

@mock.patch(f"{__name__}.print", create=True)
def test_decorated(_print, device):
    return lambda: wait(device)

def test_block(device):
    if device:
        with mock.patch(f"{__name__}.helper") as _, mock.patch(f"{__name__}.print", create=True):
            return partial(wait, device)

def test_block_in_the_callable(device):
    def work():
        with mock.patch(f"{__name__}.print", create=True):
            return wait(device)
    with mock.patch(f"{__name__}.print", create=True):
        pass
    return work

@mock.patch(f"{__name__}.print", create=True)
def test_decorated_body(_print, device):
    wait(device)

patch = partial(mock.patch, f"{__name__}.helper", lambda: 2)

def work():
    raise LookupError(f"helper() is {helper()}")

def test_forgot(device):
    a = device.xp.ones(3)
    work = lambda: a + a

def test_all_of_it(device):
    a = device.asarray(np.ones(3))
    assert (device.asnumpy(a + a) == 2).all()

@pytest.mark.speedup(transfer="always")
def test_lonely(device):
    a = device.xp.ones(3)
    return lambda: a + a

@pytest.mark.speedup(transfer="always")
def test_random(device):
    return lambda: device.xp.ones(3)

@pytest.mark.speedup(transfer="once", calls=3)
def test_well(device):
    a = device.asarray(np.ones(3))
    return lambda: a + a

def test_calls_both(gpuperf):
    assert gpuperf.both(lambda xp: xp.ones(3))

@pytest.mark.speedup(pair="z")
class TestUnit(unittest.TestCase):  # a method of unittest's may return nothing
    def test_cpu(self):
        assert len(conftest.numpy.ones(3)) == 3

    def test_gpu(self):
        assert len(conftest.cupy.ones(3)) == 3

@patch()
def test_raises_decorator(device):
    return lambda: work()

def test_raises_block(device):
    with patch():
        return lambda: work()

def test_raises_nothing(device):
    return lambda: work()

def test_raises_body(device):
    with patch():
        raise LookupError(1)
        return lambda: work()

def test_raises_both(gpuperf):
    with patch():
        gpuperf.both(lambda device: work())
        return lambda: work()
"""
HAS_ENDED = {  # what is said of the exception that a test raises; nothing of the others
    "decorator": "the test's decorator has ended",
    "block": "`with patch():` has ended when the timed callable runs",
}


def test_a_test_that_times_what_its_author_did_not_mean_gets_a_hint(suite):
    found = suite(HINTED)
    found.ended(passed=12, failed=5)
    records = {name: record for name, record in found.records.items() if "raises" not in name}
    assert {name: {note["code"] for note in record["notes"]} for name, record in records.items()} == {
        "test_decorated": {"check_the_test", "results_not_compared"},
        "test_block": {"check_the_test", "results_not_compared"},
        "test_block_in_the_callable": {"results_not_compared"},
        "test_decorated_body": {"results_not_compared"},
        "test_forgot": {"check_the_test", "results_not_compared"},
        "test_all_of_it": {"check_the_test", "results_not_compared"},
        "test_lonely": {"check_the_test"},
        "test_random": set(),
        "test_well": set(),
        "test_calls_both": set(),
        "TestUnit::test_cpu": set(),
        "TestUnit::test_gpu": {"results_not_compared"},
    }
    hints = {
        name: note["text"]
        for name, record in records.items()
        for note in record["notes"]
        if note["code"] == "check_the_test"
    }
    ended = "has ended when the timed callable runs; what it needs of that belongs in it, or in a fixture"
    with_ = "with mock.patch(f'{__name__}.helper') as _, mock.patch(f'{__name__}.print', create=True):"
    assert f"`{with_}` {ended}" == hints["test_block"]
    assert f"the test's decorator {ended}" == hints["test_decorated"]
    assert hints["test_all_of_it"].startswith("the whole body is timed, including set-up, assertions")
    failures = str(found.result.stdout).partition("- gpuperf -")[0]
    sections = re.split(r"^_+ test_raises_(\w+) _+$", failures, flags=re.MULTILINE)[1:]
    shown = dict(zip(sections[::2], sections[1::2], strict=True))
    assert {*HAS_ENDED, "nothing", "body", "both"} == {*shown}
    for name, section in shown.items():
        assert "LookupError: " in section
        assert ("has ended" in section) == (name in HAS_ENDED), name
        assert HAS_ENDED.get(name, "") in section
        assert name not in HAS_ENDED or "LookupError: helper() is 1" in section
