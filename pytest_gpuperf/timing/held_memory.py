"""From what a device observes of calls to the most memory that a workload held there."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pytest_gpuperf.devices.protocol import Observation
from pytest_gpuperf.model.measurement import Memory
from pytest_gpuperf.work.workload import Workload

_NOT_REPORTED = "the device does not report how much memory a call needs"


@dataclass(slots=True, kw_only=True)
class HeldMemory:
    """The bytes that a workload held on its device: `most`, in the calls of which that is known.

    `at_last` is what the inspected call held, with what is kept of an earlier one, and `added_at_last` what
    it added to what was there before it.
    """

    workload: Workload
    most: int = 0
    at_last: int | None = None
    added_at_last: int | None = None

    @property
    def needed(self) -> Memory:
        """What the workload holds on its device at its peak, and what of that its setup left there.

        The setup leaves the inputs, or what the device held more after it than before, if more. A call adds
        something to that, and may find what earlier ones have left: the most that one held counts. While a
        whole body is called first, its uploads are kept: a later call counts in its place.
        """
        workload, of_last = self.workload, self.added_at_last
        # An input that was freed since, after the setup that made it, is not held.
        inputs = sum(entry.bytes for entry in workload.inputs if entry.array() is not None)
        freed = sum(entry.bytes for entry in workload.inputs if entry.array() is None)
        before = max(inputs, (workload.held_after_setup or 0) - freed)
        of_first = workload.first_call_memory if workload.scope == "call" or of_last is None else None
        added = [each for each in (of_first, of_last) if each is not None]
        if not added:
            return Memory(peak=None, inputs=before, reason=_NOT_REPORTED)
        return Memory(peak=max(before + max(added), self.most), inputs=before)

    def note_call(self, observed: Observation) -> None:
        """Count what a call held, with the garbage of its block."""
        self.most = max(self.most, self._held_in(observed) or 0)

    def note_inspected(self, observed: Observation) -> None:
        """Keep what the inspected call held, until it is known what of that is kept: see `settling`."""
        self.at_last, self.added_at_last = self._held_in(observed), observed.memory

    @contextmanager
    def settling(self) -> Iterator[None]:
        """Let what the inspected call held count, without what is freed meanwhile: only we had kept that."""
        held, self.at_last = self.at_last, None
        if held is None:
            yield
            return
        with self.workload.device.observe() as released:
            yield
        self._note(held + min(0, released.held or 0))

    def note_left(self) -> None:
        """Let count what calls have left: the last of them held that, too."""
        if self.workload.live_before is None:
            return
        with self.workload.device.observe() as nothing:
            pass
        if (held := self._held_in(nothing)) is not None:
            self._note(held)

    def _held_in(self, observed: Observation) -> int | None:
        """Return the most bytes that were held in a call, its inputs and what earlier calls left included.

        What was there before the setup is not counted, unless it is an input; None where that is not known.
        """
        before = self.workload.live_before
        if before is None or observed.live is None or observed.memory is None:
            return None
        return observed.live + observed.memory - before + self.workload.brought_bytes

    def _note(self, held: int) -> None:
        """Let so many bytes count, without the garbage of blocks: the collector pauses in them."""
        if held > self.most:
            with self.workload.device.observe() as collected:
                gc.collect()
            self.most = max(self.most, held + min(0, collected.held or 0))
