"""Runs on a machine without a GPU: what only measuring refuses fails nothing, and what pytest fails does."""

import pytest
from cards import REAL

CARDLESS = """
    CARDLESS = SimulatedBackend(name="cardless", unavailable="no card is here")
    JAX = SimulatedBackend(name="jax", unavailable="JAX sees no GPU")
    JAX._cpu = BACKEND.cpu()

    @pytest.hookimpl(optionalhook=True)
    def pytest_gpuperf_devices():
        return [BACKEND, CARDLESS, JAX]
"""
WITHOUT = ("--gpuperf-gpu=cardless", "--gpuperf-json=r.json")
HEAD = """
import concurrent.futures, itertools
import numpy as np

pytestmark = pytest.mark.speedup(min=3)

def ones(device):
    return device.asarray(np.ones(9))
"""
MISTAKES = {  # test bodies, and what is said of each
    "changes": (
        "a, n = ones(device), itertools.count(); return lambda: a + next(n)",
        "the workload's result changes",
    ),
    "runs_out": (
        "n = iter([1]); return lambda: next(n)",
        "StopIteration, raised on the CPU (simulated CPU)",
    ),
    "raises_later": (
        "n = [1]; return lambda: ones(device) * n.pop()",
        "IndexError: pop from empty list, raised on the CPU",
    ),
    "handle": ("return concurrent.futures.Future", "the workload returns a Future, whose work is not"),
    "type": ("return object", "result is of type object, which can be neither compared nor copied; return"),
    "arguments": ("return lambda n: n", "the callable that the test returned takes arguments: "),
    "input": (
        "a = ones(device); return lambda: np.multiply(a, 2, out=a)[:0]",
        "the workload modifies its input",
    ),
}
OWN = {
    "body": "assert device is None",
    "call": "return lambda: int('no number')",
    "skip": "pytest.skip('not today')",
}
GOOD = {"good": "a = ones(device); return lambda: a + 1"}


def written(bodies):
    """Return a suite with a test for each body."""
    return HEAD + "".join(f"\ndef test_{name}(device):\n    {body}\n" for name, body in bodies.items())


WRONG = written({name: body for name, (body, _) in MISTAKES.items()} | GOOD)


@pytest.mark.parametrize("options", [(), ("-q",)])
def test_what_only_measuring_refuses_is_skipped_with_both_reasons_and_counted(suite, options):
    found = suite(WRONG, *options, conftest=CARDLESS, ours=WITHOUT)
    found.ended(skipped=len(MISTAKES) + 1)
    found.says(f"at least {len(MISTAKES)} of {len(MISTAKES) + 1} skipped tests would be errors on a GPU")
    good = found.records.pop("test_good")
    assert ("skipped", "no_gpu", "no card is here") == (good["status"], good["reason_code"], good["reason"])
    for name, record in found.records.items():
        said = MISTAKES[name.removeprefix("test_")][1]
        assert ("skipped", "error_on_gpu") == (record["status"], record["reason_code"])
        assert record["reason"].startswith("no GPU; on one it would be an error: "), name
        assert said in record["reason"], name
        assert record["reason"].endswith(" (no card is here)")
    remedy, _, raised = found.records["test_runs_out"]["reason"].partition("; StopIteration")
    assert "; use itertools.cycle (" in remedy, "a table cuts what stands last"
    assert raised


@pytest.mark.parametrize(
    ("ours", "outcome"),
    [(("--gpuperf-gpu=simulated", WITHOUT[1]), "failed"), ((*WITHOUT, "--gpuperf-require-gpu"), "errors")],
)
def test_on_an_emulated_gpu_and_where_one_is_required_it_is_an_error(suite, ours, outcome):
    found = suite(WRONG, "-k", "not good", conftest=CARDLESS, ours=ours)
    found.ended(**{outcome: len(MISTAKES), "deselected": 1})
    del found.records["test_good"]
    assert {"error"} == {*found.statuses.values()}
    for name, record in found.records.items() if outcome == "failed" else ():
        assert record["reason"].startswith(MISTAKES[name.removeprefix("test_")][1].partition(" (")[0]), name


def test_what_a_test_itself_raises_is_red_without_a_gpu_too(suite):
    found = suite(written(OWN), conftest=CARDLESS, ours=WITHOUT)
    found.ended(failed=2, skipped=1)
    found.says("raised on the CPU (simulated CPU)", "test_skip: not today")
    assert "on a GPU" not in str(found.result.stdout)


VARIANTS = """
import itertools

@pytest.mark.speedup(min=2)
@pytest.mark.parametrize("backend", ["numpy", "jax.numpy"])
@pytest.mark.parametrize("value", [3, 4])
def test_ones(backend, value):
    assert conftest.numpy.ones(value).sum() == 3

@pytest.mark.speedup(min=2)
@pytest.mark.parametrize("xp", ["numpy", "cupy"])
def test_changes(xp):
    counted = itertools.count()
    return lambda: float(next(counted))

@pytest.mark.speedup(min=2)
@pytest.mark.parametrize("xp", ["numpy", "cupy"])
def test_unfinished(xp, gpuperf):
    gpuperf.both(lambda xp: xp.ones(3))
    assert False, "never reached"
"""


def test_a_variant_that_passes_what_it_asserts_is_passed_without_a_gpu(suite):
    found = suite(VARIANTS, "-v", "--gpuperf-gpu=none", conftest=CARDLESS)
    assert {
        "test_ones[3-numpy]": ("PASSED", "recorded", None),
        "test_ones[3-jax.numpy]": ("PASSED", "skipped", "no_gpu"),
        "test_ones[4-numpy]": ("FAILED", "error", None),
        "test_ones[4-jax.numpy]": ("FAILED", "error", None),
        "test_changes[numpy]": ("PASSED", "skipped", "error_on_gpu"),
        "test_changes[cupy]": ("SKIPPED", "skipped", "no_gpu"),
        "test_unfinished[numpy]": ("FAILED", "error", None),
        "test_unfinished[cupy]": ("SKIPPED", "skipped", "no_gpu"),
    } == {
        name: (ending, found.records[name]["status"], found.records[name]["reason_code"])
        for name, ending in found.endings.items()
    }


OF_ANOTHER_LIBRARY = """
@pytest.mark.speedup(min=2)
@pytest.mark.parametrize("backend", ["numpy", "jax.numpy"])
def test_ones(backend):
    conftest.numpy.ones(3)

@pytest.mark.speedup(min=2)
@pytest.mark.parametrize("backend", ["numpy"])
def test_lonely(backend):
    conftest.numpy.ones(3)
"""


def test_a_suite_without_a_variant_for_the_emulated_gpu_ends_as_without_one(suite):
    found = suite(OF_ANOTHER_LIBRARY, "--gpuperf-gpu=simulated", conftest=CARDLESS)
    found.ended(passed=2, errors=1)
    statuses = {
        "test_ones[numpy]": "recorded",
        "test_ones[jax.numpy]": "skipped",
        "test_lonely[numpy]": "error",
    }
    assert statuses == found.statuses, "no machine has anything to compare the lonely one with"
    for options in ((), ("--gpuperf-require-gpu",)):
        suite(OF_ANOTHER_LIBRARY, "--gpuperf-gpu=cupy", *options, conftest=CARDLESS + REAL).ended(errors=3)


CHECK = ("--gpuperf-baseline=base.json", "--gpuperf-baseline-missing=create", "--gpuperf-fail-on=speedup:10%")


@pytest.mark.parametrize(
    ("options", "outcomes", "code"),
    [
        (("--gpuperf-require-gpu", "-kones and 3"), {"errors": 2}, "TESTS_FAILED"),
        (("--gpuperf-require-gpu", "-kchanges"), {"errors": 1, "failed": 1}, "TESTS_FAILED"),
        ((*CHECK, "-kones and 3"), {"passed": 2}, "TESTS_FAILED"),
        ((*CHECK, "-kones and 3", "--gpuperf-allow=no-gpu"), {"passed": 2}, "OK"),
    ],
)
def test_what_requires_a_gpu_or_a_check_fails_although_such_a_variant_passes(suite, options, outcomes, code):
    found = suite(VARIANTS, "--gpuperf-gpu=none", *options, conftest=CARDLESS)
    assert pytest.ExitCode[code] == found.result.ret
    found.ended(**outcomes, deselected=6)
