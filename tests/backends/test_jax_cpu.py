"""JAX on the CPU, the side that its GPU is compared with, and as asynchronous; the GPU is tests/gpu's."""

import json
from dataclasses import dataclass
from importlib.util import find_spec
from statistics import median
from threading import Thread
from time import perf_counter
from timeit import repeat
from typing import Any

import numpy as np
import pytest
from cases import unfolded
from cpu_devices import two_of_jax
from plugins import skip_module
from walks import time_block, walked

from pytest_gpuperf.devices.machine import Machine
from pytest_gpuperf.model.demand import Demand

if find_spec("jax") is None:
    skip_module("JAX is not installed; CI's second environment has it")

import jax
import jax.numpy as jnp

two_of_jax()


@pytest.fixture
def cpu():
    return Machine("jax:cpu").cpu()


@pytest.fixture
def second():
    """A device that is not JAX's default one, in the place of a GPU."""
    return Machine("jax:cpu").group(2).all[1]


@pytest.fixture(params=["cpu", "second"])
def either(request):
    return request.getfixturevalue(request.param)


def test_a_suite_that_has_imported_jax_keeps_its_own_precision(second):
    assert second.asarray(np.ones(3)).dtype == np.float32
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
    assert "| emulated: jax on the CPU, not a GPU" in unfolded(result)
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


def share_left(device, work, wait):
    """Return how long work lasts after a wait, in shares of the longest wait: some may end before it."""
    waited, left = [], []
    for _ in range(5):
        results, started = work(), perf_counter()
        wait(results)
        ended = perf_counter()
        jax.block_until_ready([results, device.xp.ones(()) + 1])  # after all else on the device
        waited.append(ended - started)
        left.append(perf_counter() - ended)
    return median(left) / max(waited)


def test_work_whose_results_nobody_keeps_is_waited_for(either):
    """Such results are no array that is alive: a later computation has to wait for them by itself."""
    assert share_left(either, lambda: products(either) and None, lambda _: either.synchronize()) < 0.2


def test_work_of_another_thread_is_waited_for_also_at_the_end_of_a_block(either):
    number, results = either.xp.ones(()), []

    def call():
        results.clear()
        thread = Thread(target=lambda: results.extend(products(either, size=800)))
        thread.start()
        thread.join()
        return number

    for _ in range(3):
        call()
        either.synchronize()
        assert all(result.is_ready() for result in results)
        time_block(call, 1, either)
        assert all(result.is_ready() for result in results)


@dataclass
class Unknown:
    array: Any


class Stranger:
    """Raises whatever it is asked for."""

    def __getattr__(self, name):
        raise KeyError(name)

    __class__ = property(__getattr__)


@pytest.mark.parametrize(
    "pack",
    [
        lambda array: array,
        lambda array: [array, {"b": array}],
        lambda array: (array, 1.0),
        lambda array: {1: array, "keys that JAX cannot sort": 2.0},
        Unknown,
        lambda _: None,
        lambda _: Stranger(),
    ],
)
def test_a_wait_for_a_result_waits_for_its_arrays_wherever_they_are(second, pack):
    def work():
        return products(second, 1, size=800)[0]

    assert share_left(second, work, lambda array: second.wait(pack(array))) < 0.2


@pytest.mark.parametrize("own", [3, lambda _: {}["missing"]])
def test_what_only_has_the_name_of_how_jax_waits_is_not_asked_to_wait(second, own):
    stranger = type("Stranger", (), {"block_until_ready": own})()
    assert second.wait(stranger) is None
    assert second.wait([stranger]) is None


def test_a_wait_for_a_result_asks_no_other_array_that_is_alive(second):
    """It is in the time of a call, and to ask them all may take longer than that."""
    alive = [second.asarray(1.0) for _ in range(1000)]
    for array in ([*alive[:2]], alive[0]):
        alone, all_of_them = (
            min(repeat(wait, number=1))
            for wait in (lambda array=array: second.wait(array), second.synchronize)
        )
        assert alone < all_of_them / 5


def test_an_array_that_failed_or_was_deleted_does_not_fail_others(cpu):
    array = cpu.asarray(np.ones((1500, 1500), dtype=np.float32))
    first = jax.jit(lambda a: (a @ a)[0, 0])
    beyond = jax.jit(lambda value: jnp.zeros(1 << 44, dtype=np.float32) + value)
    too_large = beyond.lower(first(array)).compile()
    failed = too_large(first(array))  # while its input is still being computed
    array.delete()
    cpu.synchronize()
    cpu.unfinished()
    cpu.wait(failed)
    cpu.wait([failed, array])
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


def test_neither_the_suites_default_device_nor_xps_moves_an_array_that_has_its_place(cpu, second):
    on_second = jax.local_devices(backend="cpu")[1]
    with jax.default_device(on_second):
        assert cpu.holds(cpu.xp.ones(3))
        assert cpu.holds(cpu.asarray(np.ones(3)))
        assert not cpu.holds(jnp.ones(3))
    assert second.holds(cpu.xp.ones(3, device=on_second))
    assert second.holds(second.xp.ones(3, device=None))
    assert second.holds(cpu.xp.linspace(second.xp.zeros(3), 1.0, 5))
    assert second.holds(cpu.xp.asarray(second.xp.ones(3)))
    assert not cpu.holds(second.xp.ones(3))


HERE = jnp.ones((8, 8))  # on JAX's default device, as all that a module makes
DOUBLE = jax.jit(lambda x: 2 * x)


def made_by_jax(device):
    key, array = jax.random.key(0), jnp.ones((8, 8))
    return lambda: DOUBLE(array) + jax.random.normal(key, (8, 8)).astype(jnp.float32)


def only_computed(device):
    jnp.ones((8, 8)) @ jnp.eye(8)


@pytest.mark.parametrize("body", [made_by_jax, only_computed])
def test_what_a_test_makes_with_jax_itself_is_on_the_device_that_it_is_timed_on(cpu, second, body):
    places = []

    def placed(device):
        call = body(device)
        places.append((device.kind, jnp.ones(1).devices(), jax.random.key(0).devices()))
        return call

    record = walked(placed, cpu, second, Demand(), max_time=0.5)
    assert {"cpu", "gpu"} == {kind for kind, *_ in places}
    for kind, *found in places:
        assert [{(cpu if kind == "cpu" else second).native}] * 2 == found
    assert [] == [note.text for note in record.notes if note.code == "not_on_device"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            lambda device: lambda: DOUBLE(HERE),
            "the call on the emulated device reads arrays on cpu:0 and none on its own",
        ),
        (
            lambda device: lambda: jax.device_put(DOUBLE(HERE), jax.local_devices(backend="cpu")[1]),
            "the call on the CPU returns arrays on cpu:1 and none on its own",
        ),
    ],
    ids=["inputs", "results"],
)
def test_a_call_whose_arrays_are_on_another_device_is_noted(cpu, second, body, said):
    record = walked(body, cpu, second, Demand(), max_time=0.5)
    notes = [note.text for note in record.notes if note.code == "not_on_device"]
    assert any(said in text for text in notes), notes


def test_a_call_whose_arrays_are_on_its_device_and_others_is_not_said_to_be_elsewhere(cpu, second):
    mesh = jax.make_mesh((2,), ("both",), devices=jax.local_devices(backend="cpu")[:2])
    shared = jax.device_put(np.ones((8, 8)), jax.NamedSharding(mesh, jax.P("both")))
    record = walked(lambda device: lambda: DOUBLE(shared), cpu, second, Demand(), max_time=0.5)
    assert [] == [note.text for note in record.notes if note.code == "not_on_device"]


def test_a_call_that_returns_what_the_next_one_donates_is_not_said_to_be_elsewhere(cpu, second):
    step = jax.jit(lambda x: x + 1, donate_argnums=0)

    def body(device):
        state = {"x": device.xp.ones(1000)}

        def work():
            state["x"] = step(state["x"])
            return state["x"]

        return work

    record = walked(body, cpu, second, Demand(check=False), max_time=0.5)
    assert [] == [note.text for note in record.notes if note.code == "not_on_device"]


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
