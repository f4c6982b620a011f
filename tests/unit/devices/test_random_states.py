"""Random states: what is drawn meanwhile changes nothing of what is drawn next."""

import random
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from cases import for_each

from pytest_gpuperf.devices import random_states


def drawn_next(draw):
    """Return two numbers that must agree: one drawn meanwhile, and one drawn after it."""
    draw()
    with random_states.kept():
        before = draw()
        draw()
    return before, draw()


def torch_draws():
    torch = pytest.importorskip("torch")
    return lambda: float(torch.rand(1))


def mlx_draws():
    core = pytest.importorskip("mlx.core")
    return lambda: float(core.random.uniform())


def keras_draws():
    keras = pytest.importorskip("keras")
    return lambda: float(keras.random.normal(()))


@pytest.mark.libraries
@pytest.mark.parametrize("library", [torch_draws, mlx_draws, keras_draws])
def test_each_library_draws_next_what_it_would_have_drawn(library):
    expected, drawn = drawn_next(library())
    assert expected == drawn


@for_each("generator", [np.random.MT19937, np.random.PCG64, np.random.Philox])
def test_numpy_draws_next_what_it_would_have_drawn_from_any_generator(generator, recwarn):
    before = np.random.get_bit_generator()
    np.random.set_bit_generator(generator(3))
    try:
        with random_states.kept():
            np.random.set_bit_generator(np.random.SFC64(4))
        expected, drawn = drawn_next(np.random.standard_normal)
        is_kept = isinstance(np.random.get_bit_generator(), generator)
    finally:
        np.random.set_bit_generator(before)
    assert expected == drawn
    assert is_kept
    assert not recwarn.list


class Accelerator:
    """A module of torch's for two devices, as far as their random states go."""

    def __init__(self, is_used):
        self.states = [1, 2]
        self.is_used = is_used

    def is_initialized(self):
        return self.is_used

    def get_rng_state_all(self):
        self.is_used = True
        return list(self.states)

    def set_rng_state_all(self, states):
        self.states = states


@for_each("is_used", [True, False])
def test_torchs_devices_have_their_states_again_and_are_not_taken_into_use(installed, is_used):
    module = Accelerator(is_used)
    accelerator = SimpleNamespace(current_accelerator=lambda: "cuda")
    installed(torch={"accelerator": accelerator, "get_device_module": lambda _: module})
    with random_states.kept():
        module.states[1] = 7
    assert is_used == module.is_used
    assert ([1, 2] if is_used else [1, 7]) == module.states


@for_each(
    ("module", "name"),
    [("cupy.random._generator", "_random_states"), ("dpnp.random.dpnp_iface_random", "_dpnp_random_states")],
)
def test_a_devices_state_that_cannot_be_read_is_not_drawn_from(monkeypatch, module, name):
    states = {0: "as before"}
    monkeypatch.setitem(sys.modules, module, SimpleNamespace(**{name: states}))
    with random_states.kept():
        found_meanwhile = dict(states)
        states.update({0: "another", 1: "another"})
    assert found_meanwhile == {}
    assert states == {0: "as before"}


def test_the_names_of_cupys_states_are_right():
    generator = pytest.importorskip("cupy.random._generator")
    assert isinstance(generator._random_states, dict)


def test_a_state_that_cannot_be_read_is_left_alone_and_the_others_are_kept(monkeypatch, recwarn):
    def warns(**_):
        raise RuntimeWarning("of this generator")

    monkeypatch.setattr(np.random, "get_state", warns)
    expected, drawn = drawn_next(random.random)
    assert expected == drawn
    assert not recwarn.list
