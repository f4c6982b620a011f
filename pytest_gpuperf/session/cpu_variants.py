"""CPU variants: what each leaves for the GPU variants that are compared with it, and which must run first."""

from collections.abc import Iterable, Mapping

import pytest
from _pytest.runner import runtestprotocol

from pytest_gpuperf.collection.items import SPEC, ItemSpec
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.timing.cpu_result import CpuResult


class CpuVariants:
    """Keeps the samples of each CPU variant until its last GPU variant in this process has used them.

    `records` are those of the tests that have ended. At most `most_kept` samples are kept, the newest, where
    GPU variants may run in other processes: one whose CPU variant has left none here runs it first.
    """

    def __init__(self, records: Mapping[str, Record], *, most_kept: int | None) -> None:
        self._records = records
        self._most_kept = most_kept
        self._results: dict[str, CpuResult] = {}
        self._ended: dict[str, Record] = {}
        self._items: dict[str, pytest.Item] = {}
        self._waiting: dict[str, list[ItemSpec]] = {}
        self._partners: frozenset[str] = frozenset()

    def plan(self, found: Iterable[pytest.Item], selected: Iterable[ItemSpec]) -> None:
        """Set which speedup tests there are, and which of them will run."""
        specs = {item: item.stash[SPEC] for item in found}
        self._items = {spec.nodeid: item for item, spec in specs.items() if spec.kind == "cpu"}
        self._partners = frozenset(spec.partner for spec in specs.values() if spec.partner is not None)
        self._waiting.clear()
        for spec in selected:
            self._expect(spec)

    def _expect(self, gpu: ItemSpec) -> None:
        if gpu.partner is not None and gpu.device is not None and gpu.problem is None:
            self._waiting.setdefault(gpu.partner, []).append(gpu)

    def has_gpu_variant(self, cpu: ItemSpec) -> bool:
        """Return whether a GPU variant is compared with this CPU variant, if both run."""
        return cpu.nodeid in self._partners

    def waiting_for(self, cpu: ItemSpec) -> list[ItemSpec]:
        """Return the GPU variants that will run and are not measured yet."""
        return self._waiting.get(cpu.nodeid, [])

    def keep(self, cpu: ItemSpec, result: CpuResult) -> None:
        """Keep what a CPU variant has measured."""
        self._results[cpu.nodeid] = result
        if self._most_kept is not None and len(self._results) > self._most_kept:
            del self._results[next(iter(self._results))]

    def result_for(self, gpu: ItemSpec) -> CpuResult | None:
        """Return what a GPU variant is compared with; nothing of a CPU variant that has failed since."""
        ended = self.end_for(gpu)
        has_failed = ended is not None and ended.status != "recorded"
        return None if has_failed else self._results.get(gpu.partner or "")

    def release(self, gpu: ItemSpec) -> None:
        """Discard the CPU variant's samples when its last GPU variant has been measured."""
        waiting = self._waiting.get(gpu.partner or "", [])
        waits = [each for each in waiting if each.device == gpu.device]
        if waits:
            waiting.remove(waits[0])
        if gpu.partner is not None and not waiting:
            self._results.pop(gpu.partner, None)

    def missing_for(self, gpu: ItemSpec) -> pytest.Item | None:
        """Return the CPU variant that has to run first: it has left no samples here, and not failed here."""
        ended = self.end_for(gpu)
        if gpu.partner is None or gpu.problem is not None or self.result_for(gpu) is not None:
            return None
        if ended is not None and ended.status != "recorded":
            return None
        waiting = self._waiting.get(gpu.partner, [])
        if gpu.device not in (each.device for each in waiting):  # measured before, and run again
            self._expect(gpu)
        return self._items.get(gpu.partner)

    def begin(self, spec: ItemSpec) -> None:
        """Forget how a CPU variant has ended that ran for its GPU variant: it runs by itself."""
        self._ended.pop(spec.nodeid, None)

    def end(self, cpu: ItemSpec, record: Record) -> None:
        """Set how a CPU variant has ended that ran for its GPU variant only: the run has no record of it."""
        self._ended[cpu.nodeid] = record

    def end_for(self, gpu: ItemSpec) -> Record | None:
        """Return how a GPU variant's CPU variant has ended; None if it has not run here."""
        partner = gpu.partner or ""
        return self._ended.get(partner) or self._records.get(partner)


class CpuRun:
    """Runs a CPU variant for its GPU variant: within what plugins put around a test, without its reports."""

    def __init__(self) -> None:
        self.item: pytest.Item | None = None
        self._reports: list[pytest.TestReport] = []

    def run(self, cpu: pytest.Item, gpu: pytest.Item) -> list[pytest.TestReport]:
        """Run an item, and return the reports of its phases."""
        self.item = cpu
        self._reports = []
        try:
            cpu.ihook.pytest_runtest_protocol(item=cpu, nextitem=gpu)
        finally:
            self.item = None
        return self._reports

    @pytest.hookimpl(tryfirst=True)  # before pytest's own, and plugins that run a test again or in a process
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Run the phases of the item in place of pytest, which would report them."""
        if item is not self.item:
            return None
        self._reports = runtestprotocol(item, nextitem=nextitem, log=False)
        return True
