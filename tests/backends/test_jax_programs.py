"""What XLA computes while it compiles is no workload: functions of jax.jit that close over their arrays."""

import json
import warnings
from contextlib import nullcontext

import pytest

# Here, and not in an inner run, which would forget them: compiled modules cannot be imported twice.
jax = pytest.importorskip("jax", reason="CI's second environment has it")

from pytest_gpuperf.devices.machine import Machine  # noqa: E402 - after what skips without JAX

HEAD = """
import functools
import jax, jax.numpy as jnp, numpy as np, pytest

pytestmark = pytest.mark.speedup(min=0.0001)
HOST = np.random.default_rng(0).normal(size=(128, 128)).astype(np.float32)
ONES = jnp.ones((128, 128))
product = jax.jit(lambda: ONES @ HOST)

class Network:
    def __init__(self, weights):
        self.weights = weights

    @functools.partial(jax.jit, static_argnums=0)
    def run(self):
        return self.weights @ self.weights

def called(function, *arguments, **options):
    compiled = jax.jit(function, **options)
    return lambda: compiled(*arguments)

def helped(function):
    def helper():
        return function()
    return lambda: helper()

def with_hypot(function):
    compiled = jax.jit(function, static_argnums=0)
    return lambda: jnp.hypot(compiled(3), 2.0)

def added(function, *arguments):
    compiled = jax.jit(function)
    return lambda: compiled(*arguments) + jnp.zeros(()) + jnp.arange(1.0)

def multiplied(x, table):
    return x @ table

def tabled(table, function, a):
    return lambda: function(a, table())

def warmed(function):
    compiled = jax.jit(function)
    compiled().block_until_ready()
    return compiled
"""
CONSTANT = """
CASES = {
    "returned": lambda a: jax.jit(lambda: a @ a),
    "called": lambda a: called(lambda: a @ a),
    "a static argument": lambda a: called(lambda n: a @ a * n, 3, static_argnums=0),
    "another operation, too": lambda a: with_hypot(lambda n: a @ a * n),
    "an argument that is not read": lambda a: called(lambda x: a @ a, a),
    "a method": lambda a: Network(a).run,
    "called before": lambda a: warmed(lambda: a @ a),
    "of the module": lambda a: lambda: product(),
    "called before by a helper": lambda a: helped(warmed(lambda: a @ a)),
    "arrays of NumPy": lambda a: jax.jit(lambda: jnp.asarray(HOST) @ HOST),
}
"""
COMPUTED = """
TABLE = jnp.arange(1024.0)
CASES = {
    "weights": lambda a: called(lambda x: x @ a, a),
    "without jit": lambda a: lambda: a @ a,
    "new arrays, too": lambda a: added(lambda x: x @ a, a),
    "a table that a program made": lambda a: called(lambda x, t: x @ t, a, jax.jit(lambda: a @ a)()),
    "an argument with a default": lambda a: called(lambda x=a: x @ x, a),
    "a table made in the call": lambda a: tabled(jax.jit(lambda: a * 2), jax.jit(multiplied), a),
    "one output of two": lambda a: called(lambda x: (x @ a, a.sum()), a),
    **{
        f"a table of {size}": lambda a, table=TABLE[:size]: called(lambda x: table[(x > 0).astype(int)], a)
        for size in (2, 512, 1024)
    },
    "numbers of a loop": lambda a: jax.jit(lambda: (jnp.arange(10000.0) ** 2).sum()),
    "random numbers": lambda a: jax.jit(lambda: jax.random.normal(jax.random.key(0), (64, 64))),
}
"""
TEST = """
@pytest.mark.parametrize("name", CASES)
def test_it(device, name):
    return CASES[name](device.asarray(HOST))
"""
OTHERS = """
import itertools, warnings

def test_filter(device):
    a = device.xp.ones(3)
    warnings.filterwarnings("ignore", message="mine")

    def call():
        warnings.warn("mine")
        return a + 1
    return call

@pytest.mark.speedup(check=False)
def test_shapes(device):
    sizes = itertools.count(10)
    total = jax.jit(lambda x: x.sum())
    return lambda: total(jnp.ones(next(sizes)))
"""


@pytest.fixture
def records(run, pytester):
    """Run tests on JAX's CPU as a GPU; return the records by the names of their cases."""

    def call(source, *options):
        options = ("--gpuperf-json=r.json", "--gpuperf-max-time=30", "--gpuperf-fail=nothing", *options)
        run(source, *options, gpu="jax:cpu")
        listed = json.loads((pytester.path / "r.json").read_text(encoding="utf-8"))["records"]
        names = [record["nodeid"].partition("::test_")[2] for record in listed]
        return {
            name.removeprefix("it[").removesuffix("]"): record
            for name, record in zip(names, listed, strict=True)
        }

    return call


def test_what_is_computed_from_constants_is_refused_with_the_remedy_and_filters_are_the_bodys(records):
    found = records(HEAD + CONSTANT + TEST + OTHERS, "-Werror")
    assert "passed" == found.pop("filter")["status"]
    assert "the call compiles again and again" in found.pop("shapes")["reason"]
    assert len(found) == 10
    for name, record in found.items():
        assert "error" == record["status"], name
        assert record["reason"] == (
            "the call computes from arrays that its compiled function closes over, and from no argument: the "
            "compiler does that work; pass them as arguments, as in f = jax.jit(...); return lambda: f(a)"
        )


def test_what_reads_an_argument_or_makes_its_values_is_timed(records):
    found = records(HEAD + COMPUTED + TEST)
    assert len(found) == 12
    assert {"passed"} == {record["status"] for record in found.values()}
    noted = [
        name
        for name, record in found.items()
        if any(note["code"] == "not_on_device" for note in record["notes"])
    ]
    assert {"weights", "one output of two", "a table of 1024"} <= set(noted)
    timed = {"without jit", "a table of 512", "a table that a program made", "random numbers"}
    assert not timed & set(noted)


@pytest.fixture
def device():
    return Machine("jax:cpu").gpu()


@pytest.mark.parametrize("raises", [False, True])
def test_a_users_warnings_are_given_and_the_option_is_restored(device, raises):
    before = jax.config.jax_captured_constants_warn_bytes
    assert before > 1_000_000
    expected = pytest.raises(ZeroDivisionError) if raises else nullcontext()
    with warnings.catch_warnings(record=True) as given, expected, device.watch() as seen:
        warnings.simplefilter("always")
        warnings.warn("old", DeprecationWarning, stacklevel=1)
        assert 1 / (not raises)
    assert ["old"] == [str(each.message) for each in given]
    assert (seen.captured, seen.constant) == (None, ())
    assert before == jax.config.jax_captured_constants_warn_bytes


def test_what_is_compiled_is_counted(device):
    first = device.compilations()
    compiled = jax.jit(lambda x: x * 3 + 1)
    compiled(device.xp.ones(7))
    after = device.compilations()
    assert after > first
    compiled(device.xp.ones(7))
    assert after == device.compilations()
