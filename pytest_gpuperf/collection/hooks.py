"""pytest's hooks once a speedup test was collected: the order of items, and which of them will run."""

from collections.abc import Callable, Generator, Sequence

import pytest

from pytest_gpuperf import options
from pytest_gpuperf.collection import variants
from pytest_gpuperf.collection.items import SPEC


class CollectionHooks:
    """Orders items, and calls `begin` with the selected and the deselected tests before they run.

    `found` is the finder's own list, which grows until all are collected. Registered when the first speedup
    test is collected, so that other suites do not pay for it.
    """

    def __init__(
        self,
        found: Sequence[pytest.Item],
        begin: Callable[[Sequence[pytest.Item], Sequence[pytest.Item]], None],
    ) -> None:
        self._found = found
        self._begin = begin
        self._deselected: list[pytest.Item] = []

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> Generator[None, None, None]:
        """Add CPU variants that --lf and --sw left out, and move GPU variants behind their CPU variants."""
        yield
        if config.getoption("lf", default=False) or config.getoption("stepwise", default=False):
            items[:] = variants.add_missing_cpu_variants(items, self._found)
        items[:] = variants.in_order(items)  # after --ff, --nf and other plugins have reordered them

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Remember what will not run: each speedup test among them gets a record."""
        self._deselected += items

    def pytest_report_collectionfinish(
        self, config: pytest.Config, items: Sequence[pytest.Item]
    ) -> str | list[str]:
        """Return a line on how long the run may take, if that is long; pytest prints it."""
        # pytest would print it under -q, too.
        if config.getoption("verbose") < 0 or runs_no_test(config):
            return []
        from pytest_gpuperf.report.text import progress  # which --collect-only would import for nothing

        longest = options.run_options(config).max_time
        specs = [item.stash[SPEC] for item in items if SPEC in item.stash]
        limits = [spec.demand.max_time or longest for spec in specs if spec.has_device]
        text = progress.time_limits(limits)
        return f"gpuperf: {text}" if text else []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Announce the tests that are about to run; `--collect-only` and its like run none."""
        if not runs_no_test(session.config):
            self._begin(session.items, self._deselected)


def runs_no_test(config: pytest.Config) -> bool:
    """Return whether an option makes pytest stop before the first call of a test."""
    return any(config.getoption(name) for name in ("collectonly", "setuponly", "setupplan"))
