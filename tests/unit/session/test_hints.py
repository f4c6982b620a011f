"""Hints: what a test's source shows that its author may not have meant."""

import runpy

import pytest

from pytest_gpuperf.session.hints import Body, read_body

SOURCE = """
from functools import partial
import numpy as np
from numpy.testing import assert_array_equal

def forgets_a_named_function(device):
    a = device.xp.ones(3)
    def work(): return a + a

def forgets_a_lambda_with_a_name(device):
    a = device.xp.ones(3)
    work = lambda: a + a

def forgets_a_lambda(device):
    a = device.xp.ones(3)
    lambda: a + a

def calls_its_function(device):
    def work(): return device.xp.ones(3)
    work()
    key = lambda value: value
    sorted([2, 1], key=key)

def returns_its_function(device):
    def work(): return device.xp.ones(3)
    return work

def returns_a_lambda_from_nested_blocks(device):
    for _ in range(3):
        with device.context(1) as first, device.context(2):
            if first:
                with device.context(3):
                    return lambda: first
    return None

def returns_a_lambda_or_nothing(device):
    with device.context(1):
        if device.kind == "cpu":
            return None
    return lambda: device.xp.ones(3)

def returns_a_result_from_a_block(device):
    with device.context(1):
        return device.xp.ones(3)

def returns_what_its_function_returns(device):
    def work():
        with device.context(1):
            return lambda: 0
    return work()

def returns_a_partial(device):
    return partial(device.xp.ones, 3)

def registers_its_function(device):
    @device.register
    def work(): return device.xp.ones(3)

def makes_a_class(xp):
    class Model:
        def forward(self, values): return xp.fft.fft(values)
        def __call__(self, values): return self.forward(values)
    Model()(xp.ones(3))

def reads_its_names_at_once(device):
    def work(): return device.xp.ones(3)
    device.run(**locals())

def only_works(xp):
    xp.fft.fft(xp.ones(4096, dtype=np.float32))

def asserts_with_numpys_functions(xp):
    np.testing.assert_allclose(xp.ones(3), 1)

def asserts_with_a_function(xp):
    assert_array_equal(xp.ones(3), 1)

def makes_a_reference(xp):
    return np.fft.fft(np.ones(3)) - xp.fft.fft(xp.ones(3))

def uploads(device):
    return device.asarray([1.0, 2.0])

class Test:
    def asserts(self, device):
        assert device

asserts = Test.asserts
no_function = lambda: 0
without_source = len
"""
NESTED = Body(returns_callable=True, block="device.context(1) as first, device.context(2)")
SHOWN = {
    Body(unused="`work`"): "forgets_a_named_function forgets_a_lambda_with_a_name",
    Body(unused="a lambda"): "forgets_a_lambda",
    Body(returns_callable=True): "returns_its_function returns_a_lambda_or_nothing returns_a_partial",
    NESTED: "returns_a_lambda_from_nested_blocks",
    Body(does_more=True): "asserts asserts_with_numpys_functions asserts_with_a_function "
    "makes_a_reference uploads",
    Body(): "calls_its_function returns_a_result_from_a_block returns_what_its_function_returns only_works "
    "registers_its_function makes_a_class reads_its_names_at_once no_function without_source",
}


@pytest.fixture(scope="module")
def bodies(tmp_path_factory):
    path = tmp_path_factory.mktemp("bodies") / "bodies.py"
    path.write_text(SOURCE, encoding="utf-8")
    return runpy.run_path(str(path))


@pytest.mark.parametrize(
    ("name", "expected"), [(name, shown) for shown, names in SHOWN.items() for name in names.split()]
)
def test_a_body_shows_what_is_timed_with_its_work(bodies, name, expected):
    assert expected == read_body(bodies[name])
