"""What is known of a GPU's clocks in this process: for how long they rise after it has idled."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from statistics import median
from typing import Any
from weakref import WeakKeyDictionary

from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.timing.clock import seconds_between

_IDLE = 0.01  # seconds: clocks are changed in steps of about this
_PAUSE = 0.05  # seconds, after which a GPU has surely lowered its clocks
_RUNS = 2
_WORK = 0.512  # seconds of a run: ramps of up to half of it are found
_FEWEST_BLOCKS = 4  # of a run, however long they are
_FIRST_WINDOW = 1e-3  # seconds; each next one ends at twice the time
_FEWEST_IN_WINDOW = 3  # blocks: of fewer, one slow block looks like a slow clock
_SLOWER = 1.05
_known: "WeakKeyDictionary[Any, GpuClocks]" = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class _Block:
    """A block of a run: when it began, after the pause, and its seconds per call."""

    began: float
    took: float


@dataclass(slots=True)
class GpuClocks:
    """The seconds of work that raise a GPU's clocks, None before that is known; when its last block ended.

    It `is_settled` unless blocks still became faster when their measurement ended.
    """

    ramp: float | None = None
    is_settled: bool = True
    ended: float = inf

    def have_changed(self, now: float) -> bool:
        """Return whether the GPU has idled for so long that its clocks may not be those of steady work."""
        return bool(self.ramp) and now - self.ended > _IDLE

    def find_ramp(self, device: TimedDevice, run_block: Callable[[], float]) -> None:
        """Let the GPU idle and work, and find after how long its blocks are as fast as at the end.

        Where that shows a ramp, once more: the shorter one counts, as noise hardly ever looks like one twice.
        """
        self.ramp, self.is_settled = _ramp_of(_runs(device, run_block))
        if self.ramp or not self.is_settled:
            ramp, is_settled = _ramp_of(_runs(device, run_block))
            self.ramp, self.is_settled = min(self.ramp, ramp), self.is_settled or is_settled


def clocks_of(device: TimedDevice) -> GpuClocks | None:
    """Return what is known of a GPU; None for a CPU or an emulated device, whose clocks are the machine's."""
    if device.kind != "gpu" or device.info.emulated:
        return None
    try:
        return _known.setdefault(device, GpuClocks())
    except TypeError:  # of another plugin, without weak references: it is asked anew in each test
        return GpuClocks()


def _runs(device: TimedDevice, run_block: Callable[[], float]) -> list[_Block]:
    """Return the blocks of two whiles of work, each after a pause, in the order of their times since it."""
    blocks: list[_Block] = []
    for _ in range(_RUNS):
        capabilities.pause(device, _PAUSE)
        started, taken = device.clock(), 0
        while (began := seconds_between(started, device.clock())) < _WORK or taken < _FEWEST_BLOCKS:
            blocks.append(_Block(began, run_block()))
            taken += 1
    return sorted(blocks, key=lambda block: block.began)


def _ramp_of(blocks: list[_Block]) -> tuple[float, bool]:
    """Return after how long blocks were as fast as at the end, and whether they had settled by then."""
    windows = _windows(blocks)
    middles = [median(block.took for block in window) for window in windows]
    slow = [place for place, middle in enumerate(middles) if middle > _SLOWER * middles[-1]]
    is_settled = len(middles) < 2 or middles[-2] <= _SLOWER * middles[-1]
    # A ramp may end within the window after the last slow one.
    return windows[min(slow[-1] + 2, len(windows) - 1)][0].began if slow else 0.0, is_settled


def _windows(blocks: list[_Block]) -> list[list[_Block]]:
    """Return blocks by the time that they began, in windows that double in length; none has too few."""
    windows: list[list[_Block]] = [[]]
    for block in blocks:
        window = windows[-1]
        is_full = len(window) >= _FEWEST_IN_WINDOW and block.began > window[-1].began
        if is_full and block.began >= max(_FIRST_WINDOW, 2 * window[0].began):
            windows.append([])
        windows[-1].append(block)
    if len(windows) > 1 and len(windows[-1]) < _FEWEST_IN_WINDOW:
        windows[-2] += windows.pop()
    return windows
