"""Garbage is collected between rounds where memory runs out, and not before."""

import gc
import weakref
from types import SimpleNamespace

import pytest

from pytest_gpuperf.timing.gc_pause import MemoryWatch

MEMINFO = "MemTotal:  9 kB\nMemFree: 1 kB\nMemAvailable:   {} kB\nBuffers: 0 kB\n"


class Memory:
    """What is free of a machine and of a device: a thousand kB and bytes, to be changed."""

    def __init__(self, folder):
        self.meminfo = folder / "meminfo"
        self.free(machine=1000)
        self.device = SimpleNamespace(free_memory=lambda: 1000)
        self._watch = MemoryWatch(self.meminfo)
        self._watch.collect_if_grown(self.device)

    def free(self, machine=None, device=None):
        if machine is not None:
            self.meminfo.write_text(MEMINFO.format(machine))
        if device is not None:
            self.device.free_memory = lambda: device

    def collects(self) -> bool:
        class Cycle:
            pass

        cycle = Cycle()
        cycle.itself = cycle
        garbage = weakref.ref(cycle)
        del cycle
        self._watch.collect_if_grown(self.device)
        return garbage() is None


@pytest.fixture
def memory(tmp_path):
    gc.disable()  # nothing else collects garbage
    yield Memory(tmp_path)
    gc.enable()


@pytest.mark.parametrize("place", ["machine", "device"])
def test_a_quarter_of_what_was_free_is_the_most_that_garbage_may_take_each_time(memory, place):
    for left, collects in ((751, False), (749, True), (570, False), (560, True)):
        memory.free(**{place: left})
        assert memory.collects() is collects


@pytest.mark.parametrize("content", ["", "MemTotal: 1 kB\nMemFree: 1 kB\nActive: 2 kB\n", "MemAvailable\n"])
def test_where_free_memory_is_not_known_nothing_is_collected(memory, content):
    memory.meminfo.write_text(content)
    unknown = MemoryWatch(memory.meminfo)
    memory.device.free_memory = lambda: None
    unknown.collect_if_grown(memory.device)
    memory._watch = unknown
    assert not memory.collects()
