"""Garbage is collected between rounds where memory runs out, and not before."""

import gc
import weakref
from types import SimpleNamespace

import pytest
from cases import for_each

from pytest_gpuperf.timing import gc_pause
from pytest_gpuperf.timing.gc_pause import MemoryWatch


class Cycle:
    def __init__(self):
        self.itself = self


@pytest.fixture
def free(monkeypatch):
    """What is free of the machine and of the device, to be changed; nothing else collects garbage."""
    left = SimpleNamespace(host=1000, device=1000)
    monkeypatch.setattr(gc_pause, "_available", lambda: left.host)
    left.watch = MemoryWatch()
    left.look = lambda: left.watch.collect_if_grown(SimpleNamespace(free_memory=lambda: left.device))
    gc.disable()
    yield left
    gc.enable()


@pytest.mark.parametrize("place", ["host", "device"])
def test_a_quarter_of_what_was_free_is_the_most_that_garbage_may_take(free, place):
    free.look()
    garbage = weakref.ref(Cycle())
    setattr(free, place, 751)
    free.look()
    assert garbage() is not None
    setattr(free, place, 749)
    free.look()
    assert garbage() is None


def test_what_is_no_garbage_is_collected_once_for_each_quarter(free):
    free.look()
    free.host = 700
    free.look()
    garbage = weakref.ref(Cycle())
    free.host = 600
    free.look()
    assert garbage() is not None
    free.host = 500
    free.look()
    assert garbage() is None


def test_where_free_memory_is_not_known_nothing_is_collected(free):
    free.host = free.device = 0
    garbage = weakref.ref(Cycle())
    for _ in range(3):
        free.look()
    assert garbage() is not None
    assert not gc_pause.MemoryWatch()._least


@for_each("content", [b"", b"MemTotal: 1 kB\nMemFree: 1 kB\nActive: 2 kB\n", b"MemAvailable\n"])
def test_a_machine_that_does_not_say_what_is_free_is_not_watched(content, tmp_path, monkeypatch):
    (tmp_path / "meminfo").write_bytes(content)
    monkeypatch.setattr(gc_pause, "_MEMORY", tmp_path / "meminfo")
    assert 0 == gc_pause._available()


def test_a_machine_says_what_is_free(tmp_path, monkeypatch):
    (tmp_path / "meminfo").write_bytes(
        b"MemTotal:  9 kB\nMemFree: 1 kB\nMemAvailable:   5 kB\nBuffers: 0 kB\n"
    )
    monkeypatch.setattr(gc_pause, "_MEMORY", tmp_path / "meminfo")
    assert 5 * 1024 == gc_pause._available()
