"""pytest's hooks under a launcher: ranks wait for each other, and the summary names those that failed to."""

import pytest

from pytest_gpuperf.collection.items import SPEC
from pytest_gpuperf.model.plain_text import first_line, message, printable
from pytest_gpuperf.session.cpu_variants import CpuRun
from pytest_gpuperf.session.ranks.signals import Terminated
from pytest_gpuperf.session.run_devices import SKIPS
from pytest_gpuperf.session.session import GpuPerfSession

_CUT_SHORT = (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR)


class RankHooks:
    """Lets ranks wait for rank 0 between a test's body and the end of its fixtures.

    Fixtures that communicate when they end are met by those of the other ranks then.
    """

    def __init__(self, session: GpuPerfSession, cpu_run: CpuRun) -> None:
        self._session = session
        self._cpu_run = cpu_run
        self._run: pytest.Session | None = None
        self._is_early = False
        self._is_terminated = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        """Tell the others why a test in which they work has not begun here."""
        if call.when != "setup" or call.excinfo is None or SPEC not in item.stash:
            return
        if item.stash[SPEC].is_in_ranks:
            error = call.excinfo.value
            is_skip = isinstance(error, SKIPS)
            cause = message(error) or "skipped" if is_skip else f"{first_line(error)}, raised in its set-up"
            self._session.ranks.end_setup(item, cause, is_skip=is_skip)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """End the body of a speedup test, however it ended."""
        if SPEC not in item.stash or item is self._cpu_run.item:
            return
        self._session.meet_ranks(item, item.stash[SPEC])

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Keep whether a launcher or another rank ends this one, and so waits for none that waits for it."""
        self._is_terminated = isinstance(excinfo.value, Terminated)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Keep the session for its exit status, and tell the other ranks that its tests are over."""
        self._run = session
        is_cut_short = exitstatus in _CUT_SHORT and not self._is_terminated
        self._is_early = bool(session.shouldfail or session.shouldstop) or is_cut_short
        self._session.ranks.finish()
        if not self._session.ranks.measures:
            # All share one cache, and rank 0 knows how a speedup test ended. With this option pytest's own
            # plugins of --lf and --nf write nothing.
            session.config.option.cacheshow = ["*"]

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
