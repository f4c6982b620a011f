"""Whether a call of JAX multiplies or convolves: only there does a mode such as TF32 act."""

import numpy as np
import pytest
from cases import for_each
from walks import walked

# Here, and not in an inner run, which would forget it: compiled modules cannot be imported twice.
jax = pytest.importorskip("jax", reason="CI's second environment has it")
jnp = jax.numpy

import jax.extend.core.primitives  # noqa: E402 - after what skips without JAX
from jax.experimental import pallas  # noqa: E402 - as above

from pytest_gpuperf.devices import jax_products  # noqa: E402 - as above
from pytest_gpuperf.devices.jax import JaxDevice  # noqa: E402 - as above
from pytest_gpuperf.devices.library import Reduced  # noqa: E402 - as above
from pytest_gpuperf.devices.machine import Machine  # noqa: E402 - as above
from pytest_gpuperf.model.demand import Demand  # noqa: E402 - as above

A = np.random.default_rng(0).uniform(1, 2, (16, 16)).astype(np.float32)
own = jax.extend.core.Primitive("own")
own.def_impl(lambda x: x)


@jax.custom_vjp
def slanted(x):
    return x * 2


slanted.defvjp(lambda x: (x * 2, x), lambda x, slope: (slope @ x,))


@jax.custom_jvp
def multiplied(x):
    return x @ x


multiplied.defjvps(lambda slope, result, x: slope @ x)


def products():
    """Return calls by whether they multiply or convolve: True, False, or None where that is not known."""
    a = jnp.asarray(A)
    jitted = jax.jit(lambda x: jnp.sin(x) @ x)
    ahead = jitted.lower(a).compile()
    doubled = pallas.pallas_call(
        lambda x, out: out.__setitem__(..., x[...] * 2), out_shape=jax.typeof(a), interpret=True
    )
    exported = jax.export.export(jax.jit(jnp.sin))(a)
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), "i")
    along = jax.sharding.PartitionSpec("i")
    return {
        True: {
            "product": lambda: a @ a,
            "convolution": lambda: jnp.convolve(a[0], a[1]),
            "function of jit": lambda: jitted(a) + 1,
            "in a loop": lambda: jax.lax.fori_loop(0, 3, lambda _, x: x @ x, a),
            "in a branch": lambda: jax.lax.cond(a[0, 0] > 0, jitted, jnp.sin, a),
            "gradient": lambda: jax.grad(lambda x: jitted(x).sum())(a),
            "of each row": lambda: jax.vmap(lambda x: a @ x)(a),
            "rule of one's own": lambda: multiplied(a),
            "gradient of one's own": lambda: jax.grad(lambda x: slanted(x).sum())(a),
            "in few bits": lambda: jnp.dot(a, a, precision="high"),
        },
        False: {
            "sort": lambda: jnp.sort(a) * 1.02,
            "sort of NumPy's": lambda: jnp.sort(A),
            "fft": lambda: jnp.fft.fft(a),
            "random numbers": lambda: jax.random.normal(jax.random.key(0), (3,)),
            "factors": lambda: jnp.linalg.qr(a),
            "in a loop": lambda: jax.lax.scan(lambda c, x: (c + x, x), a[0], a),
            "rule of one's own": lambda: slanted(a),
            "printing": lambda: jax.jit(lambda x: (jax.debug.callback(lambda: None), x + 1)[1])(a),
            "in all bits": lambda: jnp.dot(a, a, precision="highest"),
            "in float32's": lambda: jax.lax.dot(a, a, precision="F32_F32_F32"),
        },
        None: {
            "nothing": lambda: None,
            "compiled ahead of time": lambda: ahead(a) + 1,
            "kernel": lambda: jnp.sort(doubled(a)),
            "kernel in a function": lambda: jax.jit(doubled)(a),
            "primitive": lambda: own.bind(a + 1),
            "exported": lambda: exported.call(a),
            "NumPy's": lambda: jax.pure_callback(np.asarray, a, a) + 1,
            "on shards": lambda: jax.shard_map(jnp.sin, mesh=mesh, in_specs=along, out_specs=along)(a) + 1,
        },
    }


@pytest.fixture
def gpu():
    return Machine("jax:cpu").gpu()


@for_each("known", [True, False, None])
def test_products_are_seen_in_one_more_call(gpu, known):
    calls = products()[known]
    for _ in range(2):  # the first one compiles
        assert dict.fromkeys(calls, known) == {name: gpu.runs_products(call) for name, call in calls.items()}


def test_a_call_that_is_looked_at_traces_and_compiles_nothing_and_leaves_arrays(gpu):
    a, traced, state = jnp.asarray(A), [], {}
    function = jax.jit(lambda x: (traced.append(x), x @ x)[1])

    def call():
        state["last"] = jnp.sort(function(a))

    call()
    before = gpu.compilations()
    assert gpu.runs_products(call)
    assert (1, before) == (len(traced), gpu.compilations())
    assert not isinstance(state["last"], jax.core.Tracer)
    assert gpu.asnumpy(state["last"]).shape == A.shape
    assert gpu.runs_products(lambda: (function(a), 1 / 0)) is None
    call()
    assert before == gpu.compilations(), "JAX is as it was"


def test_each_primitive_that_jax_publishes_is_known():
    core = jax._src.core
    known = jax_products._primitives(core, jax_products._OWN)
    published = vars(jax.extend.core.primitives).values()
    assert set() == {each for each in published if isinstance(each, core.Primitive)} - known


def test_on_a_tpu_xla_makes_products_of_transforms_and_factors():
    a = jnp.asarray(A)
    for call, known in (
        (lambda: jnp.fft.fft(a), None),
        (lambda: jnp.linalg.qr(a), None),
        (lambda: jnp.sort(a), False),
    ):
        assert jax_products.runs_products(jax, call, (), "tpu") is known


@for_each(
    ("name", "factor", "agrees"),
    [
        ("sort", 1.02, False),
        ("sort", 1.0001, True),
        ("matmul", 1.02, True),
        ("matmul", 1.04, False),
    ],
)
def test_only_a_product_has_the_tolerance_of_tf32(monkeypatch, name, factor, agrees):
    mode = Reduced(mode="TF32", setting="a setting")
    monkeypatch.setattr(JaxDevice, "_reduced_products", lambda device: mode if device.kind == "gpu" else None)
    machine = Machine("jax:cpu")

    def body(device):
        a, wrong = device.asarray(A), 1 if device.kind == "cpu" else factor
        inputs = [a] if name == "sort" else [a, a]
        return lambda: getattr(device.xp, name)(*inputs) * wrong

    record = walked(body, machine.cpu(), machine.gpu(), Demand(), max_time=10)
    assert agrees is record.check.agreed
