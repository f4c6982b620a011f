"""JAX on the CPU, the side that its GPU is compared with, and as asynchronous; the GPU is tests/gpu's."""

import json
from dataclasses import dataclass
from importlib.util import find_spec
from statistics import median
from threading import Thread
from time import perf_counter
from typing import Any

import numpy as np
import pytest
from cpu_devices import second_of_jax, two_of_jax
from plugins import skip_module
from walks import time_block, warmed_up

from pytest_gpuperf.devices.jax import JaxBackend
from pytest_gpuperf.devices.stand_in import chosen_stand_in
from pytest_gpuperf.model.demand import RunOptions
from pytest_gpuperf.model.errors import Unavailable
from pytest_gpuperf.testing import StandIn
from pytest_gpuperf.timing import inputs, leaves, warm_up

if find_spec("jax") is None:
    skip_module("JAX is not installed; CI's second environment has it")

import jax
import jax.numpy as jnp

two_of_jax()


@pytest.fixture
def cpu():
    return JaxBackend().cpu()


@pytest.fixture
def second():
    """A device that is not JAX's default one."""
    return second_of_jax()


@pytest.fixture
def emulated():
    """The CPU in the place of a GPU."""
    return StandIn("jax").gpu("")


def test_a_suite_that_has_imported_jax_keeps_its_own_precision():
    assert chosen_stand_in("jax:cpu").gpu("").asarray(np.ones(3)).dtype == np.float32
    assert not jax.config.jax_enable_x64


EMULATED = """
    import numpy as np
    import pytest

    @pytest.fixture(params=["numpy", "jax.numpy"])
    def xp(request):
        return pytest.importorskip(request.param)

    @pytest.mark.speedup(max=1000)
    def test_sum(xp):
        array = xp.ones(1000)
        return lambda: array + 1

    @pytest.mark.speedup(max=1000)
    def test_product(device):
        array = device.asarray(np.ones((300, 300)))
        return lambda: array @ array
"""


@pytest.mark.parametrize(
    ("choice", "selected", "cpu", "dtype"),
    [("standin:jax.numpy", "", "numpy", "float64"), ("jax:cpu", "product", "jax", "float32")],
)
def test_a_suite_that_does_not_import_jax_has_float64_beside_numpy_and_jaxs_own_precision_beside_jax(
    pytester, choice, selected, cpu, dtype
):
    pytester.makepyfile(EMULATED)
    ours = (f"--gpuperf-gpu={choice}", "--gpuperf-json=r.json", "--gpuperf-max-time=3")
    filters = ("-Werror", "-Wignore::pytest_gpuperf.InconclusiveWarning")
    result = pytester.runpytest_subprocess("-k", selected, *ours, *filters)
    result.stdout.fnmatch_lines(["CPU * | emulated: jax on the CPU, not a GPU"])
    listed = json.loads((pytester.path / "r.json").read_text())["records"]
    records = [each for each in listed if each["gpu"]]
    assert len(records) == (1 if selected else 2)
    for each in records:
        assert (cpu, [dtype]) == (each["cpu"]["device"]["backend"], each["gpu"]["dtypes"])
        assert each["check"]["agreed"]


def products(device, count=3, size=1500):
    """Submit large products that do not depend on each other."""
    array = device.asarray(np.ones((size, size), dtype=np.float32))
    return [array @ (array + step) for step in range(count)]


@pytest.fixture(params=["cpu", "second", "emulated"])
def either(request):
    return request.getfixturevalue(request.param)


def share_left(work, wait):
    """Return how long work lasts after a wait, in shares of the longest wait: some may end before it."""
    waited, left = [], []
    for _ in range(5):
        results, started = work(), perf_counter()
        wait(results)
        ended = perf_counter()
        jax.block_until_ready(results)
        waited.append(ended - started)
        left.append(perf_counter() - ended)
    return median(left) / max(waited)


def test_work_whose_results_nobody_keeps_is_waited_for(either, monkeypatch):
    """Such results are no array that is alive: the later computation has to wait for them by itself."""
    monkeypatch.setattr(either, "_wait_for_arrays", lambda: None)
    assert share_left(lambda: products(either), lambda _: either.synchronize()) < 0.2


def threaded(call):
    """Call in another thread, and return when that has ended."""
    thread = Thread(target=call)
    thread.start()
    thread.join()


def test_work_of_another_thread_is_waited_for(either):
    for _ in range(5):
        results = []
        threaded(lambda results=results: results.extend(products(either)))
        either.synchronize()
        assert all(result.is_ready() for result in results)


def test_a_block_waits_for_work_of_another_thread_that_is_not_in_its_last_result(second):
    number, results = second.xp.ones(()), []

    def call():
        threaded(lambda: results.extend(products(second, size=800)))
        return number

    for _ in range(3):
        time_block(call, 1, second)
        assert all(result.is_ready() for result in results)


def test_a_result_with_keys_that_jax_cannot_sort_is_waited_for(second):
    results = {1: products(second), "sum": 2.0}
    second.wait(results)
    assert all(result.is_ready() for result in results[1])


@dataclass
class Unknown:
    array: Any


@pytest.mark.parametrize(
    "pack",
    [lambda a: a, lambda a: [a, {"b": a}], lambda a: (a, 1.0), Unknown, lambda _: None],
    ids=["array", "containers", "beside a number", "in an object", "nowhere"],
)
def test_a_wait_for_a_result_waits_for_its_arrays_wherever_they_are(second, pack):
    assert share_left(lambda: products(second, 1, size=800)[0], lambda array: second.wait(pack(array))) < 0.2


def test_arrays_that_are_alive_are_not_in_the_time_of_a_call(either, monkeypatch):
    steps, array = [], either.xp.ones(3)
    live_arrays = jax.live_arrays
    monkeypatch.setattr(jax, "live_arrays", lambda *inputs: (steps.append("look"), live_arrays(*inputs))[1])
    monkeypatch.setattr(either, "clock", lambda: (steps.append("clock"), perf_counter())[1])
    timer = warmed_up(either, lambda: array + 1)
    for sampled in (timer, warm_up.per_call(timer, RunOptions())):
        steps.clear()
        sampled.take_sample()
        assert steps == ["look", "clock", "clock", "look"]


def test_an_array_that_failed_or_was_deleted_does_not_fail_others(cpu):
    array = cpu.asarray(np.ones((1500, 1500), dtype=np.float32))
    first = jax.jit(lambda a: (a @ a)[0, 0])
    too_large = (
        jax.jit(lambda value: jnp.zeros(1 << 44, dtype=np.float32) + value).lower(first(array)).compile()
    )
    failed = too_large(first(array))  # while its input is still being computed
    array.delete()
    for wait in (
        cpu.synchronize,
        cpu.unfinished,
        lambda: cpu.wait(failed),
        lambda: cpu.wait([failed, array]),
    ):
        wait()
    assert cpu.asnumpy(cpu.xp.ones(2)).tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="Out of memory"):
        failed.block_until_ready()


@pytest.mark.parametrize(
    "make",
    [
        lambda xp: xp.ones(3),
        lambda xp: xp.sin(1.0),
        lambda xp: xp.meshgrid(np.ones(3), np.ones(3))[1],
        lambda xp: xp.fft.fftfreq(4),
        lambda xp: xp.linalg.norm(np.ones(3)),
        lambda xp: xp.stack([xp.ones(3), xp.ones(3)]) @ xp.ones(3),
    ],
)
def test_what_xp_makes_lives_on_its_device_and_stays_there(either, make):
    made = make(either.xp)
    assert either.holds(made)
    assert either.holds(made + 1)
    assert either.holds(jax.jit(lambda a: a * jnp.ones(()))(made))


def test_the_suites_default_device_does_not_move_what_xp_makes(cpu):
    with jax.default_device(jax.local_devices(backend="cpu")[1]):
        assert cpu.holds(cpu.xp.ones(3))
        assert cpu.holds(cpu.asarray(np.ones(3)))
        assert not cpu.holds(jnp.ones(3))


def test_a_place_that_was_asked_for_wins(cpu, second):
    assert second.holds(cpu.xp.ones(3, device=jax.local_devices(backend="cpu")[1]))
    assert second.holds(second.xp.ones(3, device=None))


def test_an_array_of_another_device_stays_there_and_is_not_held(cpu, second):
    assert second.holds(cpu.xp.linspace(second.xp.zeros(3), 1.0, 5))
    assert second.holds(cpu.xp.asarray(second.xp.ones(3)))
    assert not cpu.holds(second.xp.ones(3))


def test_xp_can_be_traced(second):
    xp = second.xp
    made = jax.jit(lambda a: xp.sin(a) + xp.ones(3) + xp.linalg.norm(xp.stack([a, a])))(xp.ones(3))
    assert second.holds(made)
    assert jax.grad(lambda a: xp.sum(xp.square(a)))(xp.ones(2)).tolist() == [2, 2]


def test_what_is_no_function_is_jaxs_own(cpu):
    assert (cpu.xp.float32, cpu.xp.ndarray, cpu.xp.pi) == (jnp.float32, jnp.ndarray, jnp.pi)
    assert cpu.xp.add.reduce(cpu.xp.ones(3)) == 3
    assert cpu.xp.result_type("float32", "int8") == np.float32
    assert cpu.xp.sin.__doc__ == jnp.sin.__doc__
    assert "cumsum" in dir(cpu.xp)


def test_a_host_array_that_xla_could_use_in_place_is_copied(cpu):
    memory = np.zeros(1 << 16, dtype=np.uint8)
    begin = -memory.ctypes.data % 64  # XLA's own alignment
    host = memory[begin : begin + 4096].view(np.float32)
    there = cpu.asarray(host)
    host += 1
    assert not cpu.asnumpy(there).any()


def test_an_array_of_jax_is_copied_too_and_a_random_key_comes_down_as_its_numbers(cpu, second):
    array = second.xp.ones(3)
    copies = [second.asarray(array), cpu.asarray(array), second.asarray(jax.random.key(7))]
    array.delete()
    assert copies[0].tolist() == copies[1].tolist() == [1, 1, 1]
    assert (second.holds(copies[0]), cpu.holds(copies[1]), second.holds(copies[2])) == (True, True, True)
    host = second.asnumpy(copies[2])
    assert ("uint32", [0, 7]) == (str(host.dtype), host.tolist())


def test_a_plugin_for_cuda_that_failed_is_told_from_one_that_is_not_there(monkeypatch):
    if any(device.platform != "cpu" for device in jax.local_devices()):
        pytest.skip("this machine has an accelerator")
    failures = {"cuda": "INTERNAL: cuSPARSE was not found"}  # as JAX notes it and falls back to the CPU
    monkeypatch.setattr("jax._src.xla_bridge._backend_errors", failures)
    with pytest.raises(Unavailable, match=r"failed to initialize: INTERNAL: cuSPARSE was not") as caught:
        JaxBackend().gpu("")
    assert caught.value.broken


def test_the_inputs_of_a_workload_are_found(cpu):
    array, key = cpu.asarray(np.ones(100, dtype=np.float32)), jax.device_put(jax.random.key(0), cpu.native)
    found = inputs.fingerprints([array, key], cpu)
    assert [(400, "float32"), (8, "key<fry>")] == [(entry.bytes, entry.dtype) for entry in found]
    assert inputs.changes_of(found, lambda: None, cpu) == ()


@jax.tree_util.register_pytree_node_class
class Layer:
    """As a module of Equinox: arrays, a number and a function are its leaves, and a text is static."""

    def __init__(self, *leaves):
        self.leaves = leaves
        self.cached = jnp.ones(9)

    def tree_flatten(self):
        return self.leaves, "static"

    @classmethod
    def tree_unflatten(cls, _, leaves):
        return cls(*leaves)


def test_the_values_of_a_registered_class_are_its_leaves_but_for_functions():
    result = {"layer": Layer(jnp.zeros(2), 0.5, jnp.tanh, Layer(jnp.ones(3)))}
    found = {leaf.path: leaf.value for leaf in leaves.values_of(result)}
    assert [(2,), 0.5, (3,)] == [getattr(value, "shape", value) for value in found.values()]
    assert all(path.startswith("result['layer'][<flat index ") for path in found)
