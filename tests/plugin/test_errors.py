"""Bad input and faults: what was measured before them stays, and the next test is not harmed."""

import json
import re
from collections import Counter
from fnmatch import fnmatch

import pytest
from cases import for_each

FAULTY = """
    from pytest_gpuperf.devices.simulated import Injected, SimulatedBackend, Timing

    GPU = Timing(kernel={gpu}, memory=1 << 20)

    def pytest_gpuperf_devices():
        return [SimulatedBackend(name="faulty", faults=[Injected({fault})], gpu=GPU)]
"""
TWO_TESTS = """
    import pytest

    @pytest.mark.speedup(min=4.98)
    def test_first(device):
        return lambda: device.launch()

    @pytest.mark.speedup(min=3)
    def test_second(device):
        return lambda: device.launch()

    def test_third(gpu):
        gpu.synchronize()

    def test_fourth():
        pass
"""


@pytest.fixture
def faulty(run, pytester):
    """Run TWO_TESTS on a GPU with one fault; return pytest's result and the report's records by name."""

    def call(fault, *options, source=TWO_TESTS, gpu="2e-3"):
        pytester.makeconftest(FAULTY.format(fault=fault, gpu=gpu))
        result = run(source, "--gpuperf-json=report.json", *options, gpu="faulty")
        return result, records(pytester)

    return call


def records(pytester):
    content = json.loads((pytester.path / "report.json").read_text())
    return {record["nodeid"].split("::")[1]: record for record in content["records"]}


LATE = """
from contextlib import nullcontext

import numpy as np

MADE = [0]

def calling(device, *, last, end):
    a, made = device.asarray(np.ones(100)), 0

    def call():
        nonlocal made
        if device.kind == "gpu":
            made += 1
            MADE[0] = max(MADE[0], made)
            if made >= last:
                end()
        return a * 2

    return call

@pytest.mark.speedup(min=3)
def test_counted(device):
    return calling(device, last=1_000_000, end=None)
"""
LATE_END = """
def end():
    {end}

@pytest.mark.speedup(min=3)
@pytest.mark.parametrize("before_last", {before_last})
def test_ends(device, before_last):
    call = calling(device, last=MADE[0] - before_last, end=end)
    with nullcontext():  # of which the note of a failure would tell
        return lambda: call()

def test_after():
    pass
"""


def late(suite, end, *before_last):
    """Run a test that raises so many calls before the last one that is ever made; the last copies follow."""
    source = LATE + LATE_END.format(end=end, before_last=before_last)
    return suite(source, "-v", interrupts=True)


@for_each(
    ("ending", "end"), [("FAILED", "raise AssertionError('broken')"), ("SKIPPED", "pytest.skip('why')")]
)
def test_a_workload_that_raises_or_skips_late_ends_as_one_that_does_so_at_once(suite, ending, end):
    calls = (0, 1, 2, 5, 9, 12, 20, 50)
    found = late(suite, end, *calls)
    assert (str(found.result.stdout).count("`with nullcontext():` has ended") > 0) == (ending == "FAILED")
    endings = {f"test_ends[{before_last}]": ending for before_last in calls}
    assert {"test_counted": "PASSED", **endings, "test_after": "PASSED"} == found.endings


@for_each(("code", "end"), [(5, "pytest.exit('enough', 5)"), (2, "raise KeyboardInterrupt")])
@for_each("before_last", [0, 9])
def test_a_workload_that_ends_the_run_does_so_in_any_call_with_its_code_and_words(
    suite, before_last, code, end
):
    found = late(suite, end, before_last)
    assert code == found.result.ret
    assert found.records[f"test_ends[{before_last}]"]["reason"].startswith("interrupted on")
    assert "test_after" not in found.endings
    assert not [note for note in ("raised on", "nullcontext") if note in str(found.result.stdout)]


SOLVER = """
def solve(value):
    return inner(value)

def inner(value):
    raise ValueError("singular")

def later():
    calls = iter(range(3))

    def call():
        return next(calls) and 0

    return call
"""
OF_A_LIBRARY = """
import functools, pytest, solver

@pytest.mark.speedup
def test_at_once(device):
    return functools.partial(solver.solve, 3)

@pytest.mark.speedup
def test_later(device):
    return solver.later()

@pytest.mark.speedup
def test_both(gpuperf):
    gpuperf.both(lambda device: functools.partial(solver.solve, 3))
"""


def test_what_a_librarys_callable_raises_is_shown_without_frames_of_the_plugin(run, pytester):
    pytester.makepyfile(solver=SOLVER)
    result = run(OF_A_LIBRARY)
    result.assert_outcomes(failed=3)
    in_workloads, _, _ = str(result.stdout).partition("_ test_both _")
    assert "pytest_gpuperf" not in in_workloads
    result.stdout.fnmatch_lines(
        ["solver.py:5: ValueError", "solver.py:*: StopIteration", "solver.py:5: ValueError"]
    )
    assert "pytest_gpuperf" in str(run(OF_A_LIBRARY, "--full-trace", "-k", "test_at_once").stdout)


GENERATED = """
import pytest

@pytest.fixture
def own(device):
    return device

def of(device, kind, error, calls):
    left = iter(range(calls if device.kind == kind else 10**9))

    def call():
        if next(left, None) is None:
            raise error("no more inputs")
        device.launch(3e-3 if device.kind == "cpu" else 1e-3)
    return call

CASES = [
    (kind, error, calls)
    for kind in ("cpu", "gpu")
    for error in (StopIteration, GeneratorExit)
    for calls in (0, 1, 4, 9, 20)
]
pytestmark = [pytest.mark.speedup(min=2), pytest.mark.parametrize(("kind", "error", "calls"), CASES)]

def test_slot(device, kind, error, calls):
    return of(device, kind, error, calls)

def test_variants(own, kind, error, calls):
    return of(own, kind, error, calls)
"""


def test_an_exception_that_generators_take_for_theirs_is_the_workloads_own(run):
    said = str(run(GENERATED, "--gpuperf-max-time=1").stdout)
    assert "RuntimeError" not in said
    raised = Counter(re.findall(r"^E +(\w+): no more inputs$", said, flags=re.MULTILINE))
    assert min(raised["StopIteration"], raised["GeneratorExit"]) >= 16
    assert raised.total() == len(
        re.findall(r"^E +raised on the (?:CPU|emulated device)", said, flags=re.MULTILINE)
    )
    assert raised["StopIteration"] == said.count(
        "use itertools.cycle (with check=False if the inputs differ)"
    )


ENDS = """
import itertools
import numpy as np

@pytest.mark.speedup
def test_raises_on_cpu(device):
    assert device.kind == "gpu"

@pytest.mark.speedup(min=3)
def test_skips_in_its_body(device):
    pytest.importorskip("no_such_module")

@pytest.fixture
def breaks():
    raise ValueError("it broke")

@pytest.mark.skip(reason="a bad day")
@pytest.mark.speedup(min=3)
def test_is_skipped(device): pass

@pytest.mark.xfail(run=False, reason="known")
@pytest.mark.speedup(min=3)
def test_is_not_run(device): pass

@pytest.mark.usefixtures("breaks")
@pytest.mark.speedup(min=3)
def test_has_no_setup(device): pass

@pytest.mark.xfail(strict=True)
@pytest.mark.speedup(min=300)
def test_known_slow(device):
    return device.launch

@pytest.mark.xfail(strict=True)
@pytest.mark.speedup(min=3)
def test_fast_after_all(device):
    return device.launch

@pytest.mark.xfail(strict=False)
@pytest.mark.speedup(min=3)
def test_passes_nevertheless(device):
    return device.launch

@pytest.mark.xfail(strict=True)
@pytest.mark.speedup(min=3)
def test_raises(device):
    raise ValueError("known")

@pytest.mark.xfail(strict=True, raises=KeyError)
@pytest.mark.speedup(min=3)
def test_raises_another(device):
    raise ValueError("not known")

@pytest.mark.speedup(min=0.1)
def test_never_settles(device):
    times = itertools.cycle([1e-3, 2e-3, 4e-3])
    return lambda: device.launch(next(times))

@pytest.mark.speedup(min=300)
def test_keeps_arrays(device):
    a = device.asarray(np.ones(1000))
    return lambda: a + 1

class Unshown(Exception):
    def __str__(self):
        raise SystemExit(3)

@pytest.mark.speedup(min=3)
def test_cannot_be_shown(device):
    raise Unshown

@pytest.mark.speedup(min=3)
class TestNothing:
    def test_one(self):
        pass

@pytest.mark.speedup(min=3)
class TestUnit(unittest.TestCase):
    def test_two(self):
        pass

@pytest.mark.speedup
class TestBare:
    def test_three(self):
        pass

@pytest.fixture
def live(gpu):
    return gpu.live_bytes

def test_none_is_kept(live):
    assert live == 0
"""
ENDINGS = {  # how pytest ends it, the record's status and its reason, and whether the failure was expected
    "test_raises_on_cpu": ("FAILED", "error", "*raised on the CPU (simulated CPU)", False),
    "test_skips_in_its_body": ("SKIPPED", "skipped", "*no_such_module*", False),
    "test_is_skipped": ("SKIPPED", "skipped", "a bad day", False),
    "test_is_not_run": ("XFAIL", "skipped", "*known", False),
    "test_has_no_setup": ("ERROR", "error", "*it broke*", False),
    "test_known_slow": ("XFAIL", "failed", "required at least 300x*", True),
    "test_fast_after_all": ("FAILED", "passed", "", False),
    "test_passes_nevertheless": ("XPASS", "passed", "", False),
    "test_raises": ("XFAIL", "error", "ValueError: known*", True),
    "test_raises_another": ("FAILED", "error", "ValueError: not known*", False),
    "test_cannot_be_shown": ("FAILED", "error", "Unshown: <Unshown, which cannot be shown: S*", False),
    "TestNothing::test_one": ("ERROR", "error", "*must use a device*", False),
    "TestUnit::test_two": ("ERROR", "error", "*must use a device*", False),
    "TestBare::test_three": ("PASSED", "error", "*must use a device*", False),
    "test_never_settles": ("PASSED", "passed", "", False),
    "test_keeps_arrays": ("FAILED", "failed", "required at least 300x*", False),
}


def test_a_test_that_is_skipped_expected_to_fail_or_broken_has_its_record(suite):
    found = suite(ENDS, "-v")
    assert "PASSED" == found.endings["test_none_is_kept"], "a test that fails lets go of its arrays"
    assert {
        name: (ending, status, is_expected) for name, (ending, status, _, is_expected) in ENDINGS.items()
    } == {
        name: (found.endings[name], record["status"], record["expected_failure"])
        for name, record in found.records.items()
    }
    for name, (_, _, reason, _) in ENDINGS.items():
        assert fnmatch(found.records[name]["reason"] or "", reason), name
    for name in ("test_is_skipped", "test_is_not_run", "test_has_no_setup"):
        assert 3 == found.records[name]["demand"]["min"]
    found.says("E*assert 'cpu' == 'gpu'", "raised on the CPU (simulated CPU)")
    found.says("test_known_slow *  failed (expected)", "test_raises *  error (expected)")


LARGE = """
    import numpy as np
    import pytest

    @pytest.mark.speedup(min=4.98)
    def test_large(device):
        a = device.asarray(np.ones({size}))
        b = a + 1
        return lambda: a + b

    def test_after(gpu):
        assert gpu.live_bytes == 0
        assert gpu.released == 1
"""


@pytest.mark.parametrize(
    ("fault", "size", "is_late", "said"),
    [
        ("kind='error', call=10**9", 60_000, False, "* (480,000 bytes *"),  # of 1 MiB, three times
        ("kind='out_of_memory', call=54, requested=1234567", 1000, True, " in round* (1,234,567 bytes *"),
    ],
)
def test_a_test_that_ran_out_of_memory_frees_it_and_keeps_its_rounds(faulty, fault, size, is_late, said):
    result, found = faulty(fault, source=LARGE.format(size=size))
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines([f"out of memory on the emulated device (simulated GPU){said}"])
    record = found["test_large"]
    assert ("error", is_late) == (record["status"], record["speedup"] is not None)
    if is_late:
        rounds = record["speedup"]["rounds"]
        assert 3 < rounds == min(len(record["cpu"]["samples"]), len(record["gpu"]["samples"]))
        assert f"in round {rounds + 1}" in record["reason"]


@pytest.mark.parametrize(
    ("before", "call", "errors", "where"),
    [("", 54, 2, "first"), ("    def test_zeroth(gpu): gpu.launch()\n", 1, 3, "zeroth")],
    ids=["in a speedup test", "in an unmarked test"],
)
def test_a_lost_device_fails_the_tests_after_it_at_once(faulty, before, call, errors, where):
    result, found = faulty(f"kind='lost', call={call}", source=before + TWO_TESTS)
    result.assert_outcomes(passed=1, failed=1, errors=errors)
    lost = f"the emulated device (simulated GPU) was lost in test_it.py::test_{where}: *"
    result.stdout.fnmatch_lines([lost] * 3)
    assert [found[name]["status"] for name in ("test_first", "test_second")] == ["error", "error"]
    assert fnmatch(found["test_second"]["reason"], lost)


def test_a_limit_that_is_set_while_the_test_runs_comes_too_late_and_is_no_pass(suite):
    found = suite(
        """
@pytest.fixture
def mark(request):
    request.applymarker(pytest.mark.speedup(min=300))

@pytest.fixture
def mark_bare(request):
    request.node.add_marker("speedup")

@pytest.fixture(scope="class")
def mark_class(request):
    request.node.add_marker(pytest.mark.speedup(min=300))

def test_late(mark, xp):
    xp.ones(3)

def test_later(request):
    request.applymarker(pytest.mark.speedup(min=300))

def test_bare(mark_bare):
    pass

@pytest.mark.usefixtures("mark_class")
class TestLate:
    def test_it(self):
        pass

def test_wrong(mark):
    raise ValueError("first")

def test_plain():
    pass

@pytest.mark.speedup
def test_stricter(mark, xp):
    xp.ones(3)

@pytest.mark.speedup
@pytest.mark.parametrize("n", [3, 4])
def test_threshold(request, n, device):
    request.applymarker(pytest.mark.offload_threshold("n", at_most=3))
    return lambda: device.launch()
"""
    )
    found.ended(passed=2, failed=9)
    said = [line for line in found.result.outlines if line.startswith("the ")]
    assert 6 == sum(line.startswith("the speedup marker was added after") for line in said)
    assert 2 == sum(line.startswith("the offload_threshold marker was added after") for line in said)
    found.says("E*ValueError: first")


HOSTILE_BACKEND = """
    from msgspec.structs import replace
    from pytest_gpuperf.devices.simulated import SimulatedBackend

    class Hostile(SimulatedBackend):
        def gpu(self, selector):
            found = super().gpu("")
            found.name = "\\x1b]0;owned\\x07"
            found.info = replace(found.info, name=found.name)
            return found

    def pytest_gpuperf_devices():
        return [Hostile(name="hostile")]
"""
HOSTILE_TESTS = """
    import pytest, unittest

    @pytest.mark.speedup
    def test_raises(device):
        if device.kind == "gpu":
            raise ValueError("\\x1b[31m" + 50_000 * "x")

    @pytest.mark.speedup
    def test_skips(device):
        raise unittest.SkipTest("\\x1b[31m")

    @pytest.mark.speedup
    def test_measured(device):
        return lambda: device.launch()
"""


def test_nothing_that_others_have_written_steers_the_terminal_or_is_endless(run, pytester):
    pytester.makeconftest(HOSTILE_BACKEND)
    gate = ("--gpuperf-baseline=base.json", "--gpuperf-fail-on=speedup:10%", "--gpuperf-json=report.json")
    run(HOSTILE_TESTS, *gate, "--gpuperf-baseline-missing=create", "-k", "measured", gpu="hostile")
    base = pytester.path / "base.json"
    other_gpu = base.read_text().replace(r"\\x1b]0;owned\\x07", r"\u001b[32m")
    base.write_text(other_gpu.replace("test_raises", r"test_gone\u001b[33m"))
    result = run(HOSTILE_TESTS, *gate, "--tb=no", "-rN", "-W", "default", gpu="hostile")
    result.assert_outcomes(passed=1, failed=1, skipped=1, warnings=1)
    assert [line for line in result.outlines if not line.isprintable()] == []
    result.stdout.fnmatch_lines(
        [r"*NotComparableWarning:*GPU: \x1b[[]32m in the baseline, \x1b[]]0;owned\x07 now"]
    )
    assert len(str(result.stdout)) < 5_000
    found = records(pytester)
    assert found["test_skips"]["reason"] == r"\x1b[31m"
    assert found["test_raises"]["reason"].startswith(r"ValueError: \x1b[31mxxx")
    assert found["test_raises"]["reason"].endswith(r"xxx…, raised on the emulated device (\x1b]0;owned\x07)")
    pytester.makepyfile(**{"test_\x1b[31m": HOSTILE_TESTS})
    _, ours = str(pytester.runpytest_inprocess("--gpuperf-gpu=none", "--tb=no", "-rN").stdout).split(
        "- gpuperf -"
    )
    assert [line for line in ours.splitlines() if not line.isprintable()] == []
    assert r"test_\x1b[31m.py::test_measured" in ours
