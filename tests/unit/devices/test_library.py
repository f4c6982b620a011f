"""What the libraries' backends share: numbers, and refusals with their remedies."""

import pytest
from cases import for_each

from pytest_gpuperf.devices.library import LibraryBackend, LibraryDevice, is_emulated
from pytest_gpuperf.devices.machine import Machine
from pytest_gpuperf.model.errors import GpuPerfError, Unavailable


class Gpu(LibraryDevice):
    """A GPU of a library that counts how often it was waited for."""

    backend = "lib"

    def __init__(self, index):
        self.name, self.waited = f"GPU {index}", 0

    def synchronize(self):
        self.waited += 1


class Backend(LibraryBackend):
    """A library with some GPUs; `error` is what using one of them raises."""

    name, library, hidden_by, emulates = "lib", ("lib", "Lib", "install it"), "LIB_VISIBLE", True
    toolkit = "install the toolkit"
    error = None

    def count(self):
        return 2

    def open(self, index):
        if self.error is not None:
            raise self.error
        return Gpu(index)


@pytest.fixture
def backend():
    return Backend()


def test_a_selector_is_a_number(backend):
    for selector in ("", "0", "12"):
        backend.check(selector)
    for selector in ("gpu", "cuda:0", "-1", "1.5", "٣"):
        with pytest.raises(GpuPerfError, match=r"of lib is a number, e\.g\. lib:0, .*; lib:cpu emulates a"):
            backend.check(selector)


@for_each(
    ("name", "worker", "selector"),
    [("GPU 0", None, ""), ("GPU 1", None, ":1"), ("GPU 1", 1, ""), ("GPU 0", 2, ""), ("GPU 0", 1, ":0")],
)
def test_a_device_is_opened_by_its_number_or_for_each_worker_in_turn_and_waited_for(name, worker, selector):
    gpu = Machine(f"lib{selector}", lambda: [Backend()], worker).gpu()
    assert (name, 1) == (gpu.name, gpu.waited)


def test_a_number_beyond_the_devices_says_how_many_there_are_and_what_may_hide_them(backend, setting):
    setting("LIB_VISIBLE", "0,1")
    with pytest.raises(Unavailable) as caught:
        backend.gpu("2")
    said = "Lib sees 2 GPU(s) and number 2 was requested; LIB_VISIBLE is '0,1', which may hide devices"
    assert said == str(caught.value)
    assert not caught.value.broken


@for_each(
    ("said", "remedy"),
    [
        ("Out of memory allocating 512 bytes", "free memory of the GPU: "),
        ("nvrtc: error: failed to open libnvrtc-builtins.so.13.0\n  more of it", "install the toolkit"),
        ("something new", "check that it is free and healthy"),
    ],
)
def test_a_device_that_was_found_and_fails_is_broken_and_its_remedy_is_by_cause(backend, said, remedy):
    backend.error = RuntimeError(said)
    with pytest.raises(Unavailable) as caught:
        backend.gpu("1")
    problem = f"Lib's GPU 1 was found but cannot be used: {said.partition(chr(10))[0]}; {remedy}"
    assert str(caught.value).startswith(problem)
    assert caught.value.broken


@for_each(
    ("name", "expected"),
    [
        ("Emulated CUDA device", True),  # of tests/fakes/cuda/devices.c
        ("NVIDIA H100 80GB HBM3", False),
        ("AMD Instinct MI300X", False),
        ("Intel(R) Data Center GPU Max 1550", False),
    ],
)
def test_a_gpu_is_never_called_emulated_and_the_fake_always(name, expected):
    assert expected == is_emulated(name)
