"""pytest's hooks under a launcher: ranks wait for each other, and the summary names those that failed to."""

import pytest

from pytest_gpuperf.collection.items import SPEC
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.session.cpu_variants import CpuRun
from pytest_gpuperf.session.session import GpuPerfSession

_CUT_SHORT = (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR)
_REMEMBER_FAILURES = ("lfplugin", "nfplugin")  # pytest's own, of --lf and --nf


class RankHooks:
    """Lets ranks wait for rank 0 between a test's body and the end of its fixtures.

    Fixtures that communicate when they end are met by those of the other ranks then.
    """

    def __init__(self, session: GpuPerfSession, cpu_run: CpuRun, config: pytest.Config) -> None:
        self._session = session
        self._cpu_run = cpu_run
        self._run: pytest.Session | None = None
        self._is_early = False
        if not session.ranks.measures:  # all share one cache, and rank 0 knows how a speedup test ended
            for name in _REMEMBER_FAILURES:
                if (plugin := config.pluginmanager.get_plugin(name)) is not None:
                    config.pluginmanager.unregister(plugin)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """End the body of a speedup test, however it ended."""
        if SPEC not in item.stash or item is self._cpu_run.item:
            return
        self._session.meet_ranks(item, item.stash[SPEC])

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Keep the session for its exit status, and tell the other ranks that its tests are over."""
        self._run = session
        self._is_early = bool(session.shouldfail or session.shouldstop) or exitstatus in _CUT_SHORT
        self._session.ranks.finish()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print what the ranks have to tell."""
        self._session.ranks.look()
        for line in self._session.ranks.told:
            terminalreporter.write_line(f"gpuperf: {printable(line)}", yellow=True)

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Tell the others that this rank has ended, now that everything is written."""
        status = pytest.ExitCode.INTERNAL_ERROR if self._run is None else self._run.exitstatus
        self._session.ranks.close(int(status), is_early=self._is_early)
