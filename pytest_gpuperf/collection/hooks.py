"""pytest's hooks while it collects speedup tests: which will run, in what order; imports nothing heavy."""

from collections.abc import Callable, Generator, Iterable, Sequence

import pytest

from pytest_gpuperf.collection import siblings
from pytest_gpuperf.collection.items import SHAPE

__all__ = ["CollectionHooks"]


class CollectionHooks:
    """Remembers which speedup tests will run and which were deselected; `begin` is told when they run."""

    def __init__(
        self,
        found: Callable[[], Iterable[pytest.Item]],
        begin: Callable[[Sequence[pytest.Item], Sequence[pytest.Item]], None],
    ) -> None:
        self._found = found
        self._begin = begin
        self._deselected: list[pytest.Item] = []

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> Generator[None, None, None]:
        """Bring back what tests that are run again are compared with, and put GPU after CPU siblings."""
        yield
        if config.getoption("lf", default=False) or config.getoption("stepwise", default=False):
            items[:] = siblings.brought_back(items, self._found())
        items[:] = siblings.in_order(items)  # --ff, --nf and other plugins have reordered them since

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Remember the speedup tests that will not run: each has its record."""
        self._deselected += [item for item in items if SHAPE in item.stash]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Say which tests are about to run; `--collect-only` and its like run none."""
        option = session.config.option
        if not (option.collectonly or option.setuponly or option.setupplan):
            self._begin([item for item in session.items if SHAPE in item.stash], self._deselected)
