"""The bytes that a call moves: each array once, and no more of views than their memory has."""

import numpy as np
import pytest
from cases import for_each

from pytest_gpuperf.devices.host import HostDevice
from pytest_gpuperf.work.first_call import first_call
from pytest_gpuperf.work.moved_bytes import moved_bytes

MATRIX = np.ones((100, 50))
ROW = np.ones(50)


class Mute:
    """An array that cannot be asked for its size."""

    dtype, shape = np.dtype("float64"), (4,)

    @property
    def nbytes(self):
        raise RuntimeError


class Sparse:
    """An array of four values that says how large a dense one would be."""

    dtype, shape, nbytes = np.dtype("float64"), (1000, 1000), 8_000_000

    def todense(self):
        return np.zeros(self.shape)


@for_each(
    ("expected", "arrays"),
    [
        (40_000, [MATRIX]),
        (40_400, [MATRIX, ROW]),
        (40_000, [MATRIX, MATRIX]),
        (40_000, [MATRIX, MATRIX.T]),
        (20_000, [MATRIX[:50]]),
        (40_000, [MATRIX[:60], MATRIX[40:]]),
        (400, [np.broadcast_to(ROW, (1000, 50))]),
        (400, [np.lib.stride_tricks.sliding_window_view(ROW, 10)]),
        (0, [np.ones(0)]),
        (None, [MATRIX, Mute()]),
        (None, [MATRIX, Sparse()]),
    ],
)
def test_each_array_counts_once_and_views_no_more_than_their_memory(expected, arrays):
    assert expected == moved_bytes(arrays)


def moved(body):
    device = HostDevice("a CPU")
    workload, _ = first_call(lambda seen: lambda: body(seen), device)
    return workload.moved_bytes


def test_a_call_reads_its_inputs_and_writes_its_results():
    def body(device):
        a, b = device.asarray(MATRIX), device.asarray(MATRIX)
        return lambda: (a + b, a.sum(axis=0))

    assert moved(body) == 3 * 40_000 + 400


def test_an_output_that_is_there_before_counts_once():
    def body(device):
        a, out = device.asarray(MATRIX), np.empty((100, 50))
        return lambda: np.add(a, a, out=out)

    assert moved(body) == 2 * 40_000


def test_what_only_the_set_up_has_read_does_not_count():
    def body(device):
        a = device.asarray(MATRIX)
        b = a * 2
        del a
        return lambda: b + 1

    assert moved(body) == 2 * 40_000


def test_what_only_returns_views_need_not_move_anything():
    def body(device):
        a = device.asarray(MATRIX)
        return lambda: (a.T, a.reshape(-1))

    def mixed(device):
        a = device.asarray(MATRIX)
        return lambda: (a.T, a + 1)

    assert moved(body) is None
    assert moved(mixed) == 2 * 40_000


def test_arrays_in_an_object_that_the_call_uses_count():
    class Layer:
        def __init__(self, device):
            self.weights = device.asarray(MATRIX)

        def __call__(self, x):
            return x @ self.weights.T

    def body(device):
        layer, x = Layer(device), device.asarray(ROW)
        return lambda: layer(x)

    assert moved(body) == 40_000 + 400 + 800


@pytest.mark.parametrize("body", [lambda _: np.ones(5).sum(), lambda _: lambda: 3])
def test_of_a_whole_body_and_of_a_call_without_arrays_nothing_is_known(body):
    assert moved(body) is None


def test_numpys_arrays_count_on_the_cpu_of_another_library():
    class Other(HostDevice):
        def holds(self, value):
            return False

    a = MATRIX.copy()
    workload, _ = first_call(lambda _: lambda: lambda: a + a, Other("a CPU"))
    assert workload.moved_bytes == 2 * 40_000


@pytest.mark.libraries
def test_detached_views_of_tensors_are_no_larger_than_their_storage():
    torch = pytest.importorskip("torch")
    x = torch.ones(1000)
    assert moved_bytes([torch.ones(1, 100).expand(100, 100).detach()]) == 400
    assert moved_bytes([part.detach() for part in x.chunk(2)]) == 4000
    assert moved_bytes([x, x[:500].detach()]) == 4000
    assert moved_bytes([torch.eye(1000).to_sparse()]) is None
