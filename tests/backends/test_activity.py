"""What a library is seen to do in a call: what computes, what only copies, and what does nothing."""

from importlib.util import find_spec

import numpy as np
import pytest
from cases import for_each
from plugins import skip_module

from pytest_gpuperf.devices.host import HostDevice
from pytest_gpuperf.testing import StandIn

if find_spec("torch") is None or find_spec("jax") is None:
    skip_module("torch and jax are not installed; CI's second environment has them")

import jax
import torch

SIZE = 200  # a side: NumPy recycles the memory of much smaller arrays


def does(device, call):
    """Return the most that a call is seen to do; None where that cannot be told."""
    call()  # programs are compiled
    found = device.activity(call, SIZE * SIZE * 8)
    if found is None:
        return None
    return COMPUTES if found.computed else COPIES if found.copied else NOTHING


COMPUTES, COPIES, NOTHING = "computes", "copies", "nothing"
TENSOR = torch.ones(SIZE, SIZE)
COMPILED = torch.compile(lambda tensor: tensor @ tensor, backend="eager", fullgraph=True)
NET = torch.nn.Linear(SIZE, SIZE)


@for_each(
    ("expected", "call"),
    [
        (COMPUTES, lambda: TENSOR @ TENSOR),
        (COMPUTES, lambda: TENSOR.mul_(1.0)),
        (COMPUTES, lambda: COMPILED(TENSOR)),
        (COMPUTES, lambda: NET(TENSOR).sum().backward()),
        (COMPUTES, lambda: torch.func.vmap(torch.sum)(TENSOR)),
        (COPIES, lambda: torch.tensor(np.ones(3))),
        (COPIES, lambda: TENSOR.clone()),
        (COPIES, lambda: TENSOR.to(torch.float64)),
        (COMPUTES, lambda: torch._foreach_mul_([TENSOR], 1.0)),
        (NOTHING, lambda: torch.ones(SIZE, device="meta") + 1),
        (NOTHING, lambda: TENSOR.T[::2]),
        (NOTHING, lambda: torch.empty_like(TENSOR)),
        (NOTHING, lambda: TENSOR[:0] @ TENSOR),
        (NOTHING, lambda: sum(range(100))),
    ],
)
def test_torch_shows_its_operators(expected, call):
    device = StandIn("torch", with_itself=True).gpu("")
    assert expected == does(device, call)
    assert device.activity(call, 0).is_complete


def test_torch_on_a_gpu_may_run_kernels_that_are_no_operators():
    from pytest_gpuperf.devices.torch import TorchDevice

    device = TorchDevice(torch, torch.device("meta"), "a GPU")
    assert not device.activity(lambda: TENSOR @ TENSOR, 0).is_complete


PRODUCT = jax.jit(lambda array: array @ array)
CALLING_BACK = jax.jit(lambda array: (jax.debug.callback(lambda _: None, array), array + 1)[1])


def ones():
    """Return an array, the first of which makes JAX count its devices."""
    return jax.numpy.ones((SIZE, SIZE))


@for_each(
    ("expected", "call"),
    [
        (COMPUTES, lambda array: array @ array),
        (COMPUTES, PRODUCT),
        (COMPUTES, CALLING_BACK),
        (COMPUTES, jax.grad(lambda array: (array @ array).sum())),
        (COMPUTES, jax.vmap(lambda row: row.sum())),
        (COMPUTES, lambda array: jax.lax.fori_loop(0, 3, lambda _, each: each + 1, array)),
        (COPIES, lambda _: jax.device_put(np.ones(3))),
        (COPIES, lambda _: jax.numpy.asarray(np.ones(3))),
        (NOTHING, lambda array: array.shape),
        (NOTHING, lambda _: sum(range(100))),
    ],
)
def test_jax_shows_the_programs_that_it_runs(expected, call):
    device, array = StandIn("jax", with_itself=True).gpu(""), ones()
    assert expected == does(device, lambda: call(array))
    assert device.activity(lambda: call(array), 0).is_complete


def test_to_wait_for_jax_is_no_work():
    device = StandIn("jax", with_itself=True).gpu("")
    assert NOTHING == does(device, device.synchronize)


def test_jax_shows_a_program_that_was_compiled_ahead_of_time():
    device, array = StandIn("jax", with_itself=True).gpu(""), ones()
    ahead = PRODUCT.lower(array).compile()
    assert COMPUTES == does(device, lambda: ahead(array))


def test_a_hook_of_jax_that_a_user_has_set_is_set_again():
    from jax._src.api import _post_hook_state as hook

    device, array, seen = StandIn("jax", with_itself=True).gpu(""), ones(), []
    PRODUCT(array)
    before = hook.swap_local(lambda *_: seen.append(1))
    try:
        device.activity(lambda: PRODUCT(array), 0)
        assert [] == seen
        PRODUCT(array)
        assert [1] == seen
    finally:
        hook.set_local(before)


def test_a_version_of_jax_without_that_hook_shows_nothing(monkeypatch):
    monkeypatch.delattr("jax._src.api._post_hook_state")
    device = StandIn("jax", with_itself=True).gpu("")
    assert device.activity(lambda: PRODUCT(ones()), 0) is None


HOST = np.ones((SIZE, SIZE))
SMALL = np.ones(4)


@for_each(
    ("expected", "call"),
    [
        (COMPUTES, lambda: HOST @ HOST),
        (COMPUTES, lambda: np.sort(HOST)),
        (COMPUTES, lambda: HOST.sum()),
        (COPIES, lambda: np.array(HOST)),
        (COPIES, lambda: np.array(HOST) @ HOST),  # what operators allocate beside a copy is not told apart
        (COPIES, lambda: np.array(SMALL)),
        (NOTHING, lambda: HOST.T[::2]),
        (NOTHING, lambda: (np.ndim(HOST), np.shape(HOST), np.reshape(HOST, -1))),
        (COPIES, lambda: np.copy(HOST)),
        (NOTHING, lambda: np.multiply(HOST, HOST, out=HOST)),  # in place it is no call from Python
        (NOTHING, lambda: sum(range(100))),
    ],
)
def test_of_numpy_functions_and_new_arrays_are_seen(expected, call):
    assert expected == does(HostDevice("a processor"), call)


def test_of_numpys_small_arrays_and_under_a_users_tracing_nothing_that_is_seen_is_no_proof():
    import tracemalloc

    device = HostDevice("a processor")
    assert device.activity(lambda: SMALL + SMALL, SMALL.nbytes) is None
    tracemalloc.start()
    try:
        assert device.activity(lambda: HOST + HOST, HOST.nbytes) is None
        assert tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()


def test_a_profiler_of_the_user_goes_on_to_see_what_a_look_sees():
    import sys

    device, seen, outer = HostDevice("a processor"), [], sys.getprofile()
    sys.setprofile(lambda _, event, argument: seen.append(argument) if event == "c_call" else None)
    try:
        device.activity(lambda: np.sort(HOST), HOST.nbytes)
    finally:
        sys.setprofile(outer)
    assert HOST.sort.__name__ in [each.__name__ for each in seen]


def test_a_library_with_operators_in_python_shows_them():
    device = StandIn("array_api_strict").gpu("")
    array = device.asarray(HOST)
    assert [COMPUTES, NOTHING] == [does(device, lambda: array + array), does(device, lambda: None)]


@pytest.mark.skipif(find_spec("dpnp") is None, reason="dpnp is not installed; CI's second environment has it")
def test_dpnp_shows_its_functions_and_operators():
    from pytest_gpuperf.devices.sycl import SyclBackend

    device = SyclBackend().gpu("cpu")
    array = device.asarray(HOST)
    assert [COMPUTES, NOTHING] == [does(device, lambda: array + array), does(device, lambda: None)]
