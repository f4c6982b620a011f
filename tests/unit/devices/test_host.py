"""Plain copies on the host: what they move, and that they leave the allocator as it was."""

import mmap

import numpy as np
from cases import for_each

from pytest_gpuperf.devices import environment, host
from pytest_gpuperf.devices.host import HostDevice


def root(array):
    while isinstance(array, np.ndarray):
        array = array.base
    return array.obj if isinstance(array, memoryview) else array


@for_each(
    ("expected", "processors", "size"),
    [(1, 1, 1 << 24), (2, 2, 1 << 24), (3, 7.5, 1 << 24), (1, 8, 1 << 10), (2, 8, 1 << 20)],
)
def test_copies_are_made_on_one_thread_and_on_as_many_as_may_move_more(
    monkeypatch, expected, processors, size
):
    monkeypatch.setattr(environment, "usable_processors", lambda: processors)
    assert expected == len(HostDevice("CPU").copiers(size))


def test_each_copy_moves_every_byte(monkeypatch):
    made = []
    new_memory = host._new_memory
    monkeypatch.setattr(environment, "usable_processors", lambda: 4)
    monkeypatch.setattr(host, "_new_memory", lambda size: made.append(new_memory(size)) or made[-1])
    copiers = HostDevice("CPU").copiers(1 << 21)
    source, target = made
    for number, copy in enumerate(copiers, 2):
        source[:] = number
        copy()
        assert (target == number).all()


def test_the_memory_of_copies_is_of_no_allocator():
    # glibc keeps what a call gives back, once as much was given back to it: later calls would be faster.
    assert isinstance(root(host._new_memory(1 << 16)), mmap.mmap)
