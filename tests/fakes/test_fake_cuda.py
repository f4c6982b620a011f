"""The fake CUDA runtime keeps CUDA's rules of streams, events and graphs.

CuPy calls it, since it shows the runtime's functions as they are. The other files here run suites on its
memory, its errors and several of its devices.
"""

import cupy
import cupyx
import numpy as np
import pytest

cuda, runtime = cupy.cuda, cupy.cuda.runtime
MILLISECOND = 1_000_000  # in nanoseconds
LONG = 200 * MILLISECOND  # a kernel that is not done when the host looks, also on a busy machine


@pytest.fixture
def kernels(monkeypatch):
    """Let kernels last so many nanoseconds, by a part of their names."""

    def call(**lengths):
        known = " ".join(f"{part}={length}" for part, length in lengths.items())
        monkeypatch.setenv("FAKE_CUDA_KERNELS", known)

    yield call
    cuda.Device().synchronize()


@pytest.fixture
def array():
    """Return an array; the kernels that the tests launch are compiled."""
    made = cupy.ones(1000)
    made += 1
    cupy.sin(made)
    cuda.Device().synchronize()
    return made


def elapsed(start, end):
    """Return the nanoseconds between two events, to a microsecond, as a float32 of milliseconds has."""
    end.synchronize()
    return round(cuda.get_elapsed_time(start, end) * 1e3) * 1000


def events():
    return cuda.Event(), cuda.Event()


def test_kernels_follow_each_other_on_a_stream_and_pass_each_other_on_two(array, kernels):
    kernels(add=LONG, sin=5 * MILLISECOND)
    long, short = cuda.Stream(non_blocking=True), cuda.Stream(non_blocking=True)
    start, end = events()
    with long:
        start.record()
        array += 1
        array += 1
        end.record()
    with short:
        cupy.sin(array)
        short.synchronize()
    assert not long.done
    assert 2 * LONG <= elapsed(start, end) < 3 * LONG


@pytest.mark.parametrize("non_blocking", [True, False])
def test_the_null_stream_waits_for_streams_that_block(array, kernels, non_blocking):
    kernels(add=LONG, sin=1000)
    stream = cuda.Stream(non_blocking=non_blocking)
    with stream:
        array += 1
    cupy.sin(array)
    cuda.Stream.null.synchronize()
    assert stream.done is not non_blocking


def test_an_event_is_not_done_before_its_work(array, kernels):
    kernels(add=LONG)
    array += 1
    event = cuda.Event()
    event.record()
    assert not event.done
    with pytest.raises(runtime.CUDARuntimeError, match="cudaErrorNotReady"):
        cuda.get_elapsed_time(event, event)
    event.synchronize()
    assert event.done


def test_a_value_arrives_on_the_host_when_the_device_has_come_to_it(array, kernels):
    kernels(add=LONG)
    host = cupyx.empty_pinned(3)
    host[:] = 7
    source = cupy.asarray(np.arange(3.0))
    array += 1
    source.get(out=host, blocking=False)
    assert not cuda.Stream.null.done
    assert host.tolist() == [7, 7, 7], "the value came before its time"
    cuda.Stream.null.synchronize()
    assert host.tolist() == [0, 1, 2]


def test_a_graph_is_replayed_in_the_time_of_its_kernels(array, kernels):
    kernels(add=LONG)
    stream = cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        array += 1
        array += 1
        with pytest.raises(runtime.CUDARuntimeError, match="cudaErrorStreamCaptureUnsupported"):
            stream.synchronize()
        graph = stream.end_capture()
    assert stream.done, "what was captured did not run"
    start, end = events()
    with stream:
        start.record()
        graph.launch()
        end.record()
    assert 2 * LONG <= elapsed(start, end) < 3 * LONG
