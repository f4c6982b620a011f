"""Hints: what a test's source shows that its author may not have meant."""

from functools import partial

import numpy as np
import numpy.testing
import pytest

from pytest_gpuperf.session.hints import Body, read_body

NOTHING, MORE, CALLABLE = Body(), Body(does_more=True), Body(returns_callable=True)


def forgets_a_named_function(device):
    a = device.xp.ones(3)

    def work():
        return a + a


def forgets_a_lambda_with_a_name(device):
    a = device.xp.ones(3)
    work = lambda: a + a  # noqa: E731, F841 - that is what people write


def forgets_a_lambda(device):
    a = device.xp.ones(3)
    lambda: a + a


def calls_its_function(device):
    def work():
        return device.xp.ones(3)

    work()
    key = lambda value: value  # noqa: E731 - as above
    sorted([2, 1], key=key)


def returns_its_function(device):
    def work():
        return device.xp.ones(3)

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
    def work():
        return device.xp.ones(3)


def makes_a_class(xp):
    class Model:
        def forward(self, values):
            return xp.fft.fft(values)

        def __call__(self, values):
            return self.forward(values)

    Model()(xp.ones(3))


def reads_its_names_at_once(device):
    def work():
        return device.xp.ones(3)

    device.run(**locals())


def only_works(xp):
    xp.fft.fft(xp.ones(4096, dtype=np.float32))


def asserts_with_numpys_functions(xp):
    np.testing.assert_allclose(xp.ones(3), 1)
    numpy.testing.assert_array_equal(xp.ones(3), 1)


def makes_a_reference(xp):
    return np.fft.fft(np.ones(3)) - xp.fft.fft(xp.ones(3))


def uploads(device):
    return device.asarray([1.0, 2.0])


class TestMethod:
    def method(self, device):
        assert device


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (forgets_a_named_function, Body(unused="`work`")),
        (forgets_a_lambda_with_a_name, Body(unused="`work`")),
        (forgets_a_lambda, Body(unused="a lambda")),
        (calls_its_function, NOTHING),
        (returns_its_function, CALLABLE),
        (
            returns_a_lambda_from_nested_blocks,
            Body(returns_callable=True, block="device.context(1) as first, device.context(2)"),
        ),
        (returns_a_lambda_or_nothing, CALLABLE),
        (returns_a_result_from_a_block, NOTHING),
        (returns_what_its_function_returns, NOTHING),
        (returns_a_partial, CALLABLE),
        (registers_its_function, NOTHING),
        (makes_a_class, NOTHING),
        (reads_its_names_at_once, NOTHING),
        (only_works, NOTHING),
        (asserts_with_numpys_functions, MORE),
        (makes_a_reference, MORE),
        (uploads, MORE),
        (TestMethod.method, MORE),
        (lambda: 0, NOTHING),
        (len, NOTHING),
    ],
)
def test_a_body_shows_what_is_timed_with_its_work(function, expected):
    assert expected == read_body(function)
