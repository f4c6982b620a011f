"""A GPU's clocks: for how long times change after it has idled, and what they were around timed blocks."""

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile
from math import inf
from statistics import median
from typing import Any
from weakref import WeakKeyDictionary

from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.clock import seconds_between
from pytest_gpuperf.devices.protocol import TimedDevice

_IDLE = 0.01  # seconds: clocks are changed in steps of about this
_PAUSE = 0.05  # seconds, after which a GPU has surely changed its clocks
_WORK = 0.512  # seconds: ramps of up to half of it are found
_RUNS = (_WORK, _WORK, 0.016, 0.016, 0.016)  # seconds, after a pause each: how blocks begin shows five times
_FEWEST_BLOCKS = 4  # of a long run: with longer blocks no ramp is looked for
_FIRST_WINDOW = 1e-3  # seconds; each next one ends at twice the time
_FEWEST_IN_WINDOW = 3  # blocks: of fewer, one slow block looks like a slow clock
_ALIKE = 1.05
_MATTERS = 0.05  # of a block's time: a shorter ramp, of clocks half as high, makes less than 3 % of it


@dataclass(frozen=True, slots=True)
class _Block:
    """A block of a run: when it began, after the pause, and its seconds per call."""

    began: float
    took: float


@dataclass(slots=True)
class GpuClocks:
    """The seconds of work until a GPU that idled is as fast as in steady work, None before that is known.

    `ended` is when its last block did.
    """

    ramp: float | None = None
    ended: float = inf

    def ramp_at(self, now: float, block: float) -> float:
        """Return the seconds of work that a GPU needs before a timed block of so many seconds; 0 for none."""
        has_idled = now - self.ended > _IDLE
        return self.ramp if self.ramp and has_idled and self.ramp > _MATTERS * block else 0.0

    def may_find_ramp(self, block: float) -> bool:
        """Return whether the ramp is not known yet and blocks of so many seconds can show it."""
        return self.ramp is None and _FEWEST_BLOCKS * block <= _WORK

    def find_ramp(self, device: TimedDevice, run_block: Callable[[], float]) -> None:
        """Let the GPU idle and work, five times; find after how long its blocks take as long as at the end.

        A ramp shows each time; what shows in one run alone was other work.
        """
        blocks = [block for seconds in _RUNS for block in _run(device, run_block, seconds)]
        windows = _windows(blocks)
        steady = median(block.took for block in windows[-1])
        changing = sum(1 for _ in takewhile(lambda window: _differs(window, steady), windows))
        # A ramp may end within the window after the last one that differs.
        self.ramp = windows[min(changing + 1, len(windows) - 1)][0].began if changing else 0.0


class BlockClocks:
    """The clocks of a GPU around the blocks of one workload; of other devices nothing is noted.

    `raised` are the seconds of untimed work that raised the clocks of a GPU that had idled, and `mhz` its
    clocks right after the timed blocks, where it reports them.
    """

    def __init__(self, device: TimedDevice) -> None:
        self.gpu = clocks_of(device)
        self.raised = 0.0
        self.mhz = array("l")
        self._device = device

    @property
    def ramp(self) -> float | None:
        """The seconds of work until a GPU that idled is as fast as in steady work; None if not known."""
        return self.gpu.ramp if self.gpu else None

    def note_mhz(self) -> None:
        """Note the GPU's clock while it is that of the block: NVML takes some tens of microseconds."""
        if self.gpu is not None and (mhz := self._device.sm_mhz()) is not None:
            self.mhz.append(mhz)

    def note_end(self) -> None:
        """Note when a GPU's last block ended: it idles from then on."""
        if self.gpu is not None:
            self.gpu.ended = self._device.clock()


def has_own_clocks(device: TimedDevice) -> bool:
    """Return whether a device is a GPU: those of a CPU or an emulated device are the machine's."""
    return device.kind == "gpu" and not device.info.emulated


def clocks_of(device: TimedDevice) -> GpuClocks | None:
    """Return what is known of a GPU; None for another device."""
    if not has_own_clocks(device):
        return None
    try:
        return _known.setdefault(device, GpuClocks())
    except TypeError:  # of another plugin, without weak references: it is asked anew in each test
        return GpuClocks()


_known: "WeakKeyDictionary[Any, GpuClocks]" = WeakKeyDictionary()


def _differs(window: list[_Block], steady: float) -> bool:
    """Return whether the blocks are slower than steady ones, or faster, except for an eighth of them."""
    times = sorted(block.took for block in window)
    eighth = len(times) // 8
    return times[eighth] > _ALIKE * steady or _ALIKE * times[-1 - eighth] < steady


def _run(device: TimedDevice, run_block: Callable[[], float], seconds: float) -> list[_Block]:
    """Return the blocks of so many seconds of work after a pause."""
    capabilities.pause(device, _PAUSE)
    started = device.clock()
    blocks: list[_Block] = []
    while (began := seconds_between(started, device.clock())) < seconds:
        blocks.append(_Block(began, run_block()))
    return blocks


def _windows(blocks: list[_Block]) -> list[list[_Block]]:
    """Return the blocks of all runs by when they began, in windows that double, with enough in each."""
    windows: list[list[_Block]] = [[]]
    end = _FIRST_WINDOW
    for block in sorted(blocks, key=lambda block: block.began):
        while block.began >= end:
            end *= 2
            if len(windows[-1]) >= _FEWEST_IN_WINDOW:
                windows.append([])
        windows[-1].append(block)
    if len(windows) > 1 and len(windows[-1]) < _FEWEST_IN_WINDOW:
        windows[-2] += windows.pop()
    return windows
