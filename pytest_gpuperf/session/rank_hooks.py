"""pytest's hooks in a launch of several ranks: who waits for whom, and what is told of that at the end."""

import pytest

from pytest_gpuperf.collection.items import SPEC
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.session.cpu_variants import CpuRun
from pytest_gpuperf.session.session import GpuPerfSession


class RankHooks:
    """Lets ranks wait for rank 0 between a test's body and the end of its fixtures.

    Fixtures that communicate when they end are met by those of the other ranks then.
    """

    def __init__(self, session: GpuPerfSession, cpu_run: CpuRun) -> None:
        self._session = session
        self._cpu_run = cpu_run
        self._run: pytest.Session | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """End the body of a speedup test, however it ended."""
        if SPEC not in item.stash or item is self._cpu_run.item:
            return
        if self._session.ranks.end(item):
            with self._session.timers.stopped(item):
                self._session.ranks.wait(self._session.max_time(item.stash[SPEC]))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Remember whose exit status the other ranks are told."""
        self._run = session

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print what the ranks have to tell."""
        self._session.ranks.look()
        for line in self._session.ranks.told:
            terminalreporter.write_line(f"gpuperf: {printable(line)}", yellow=True)

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Tell the others that this rank has ended, now that everything is written."""
        status = pytest.ExitCode.INTERNAL_ERROR if self._run is None else self._run.exitstatus
        self._session.ranks.close(int(status))
