"""pytest's hooks that tell of a run: what the check will not find, what each test measured, the summary."""

from collections.abc import Generator, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import pytest

from pytest_gpuperf.collection.hooks import runs_no_test
from pytest_gpuperf.collection.items import SPEC
from pytest_gpuperf.gate import text
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.model.record import Run
from pytest_gpuperf.model.worker_keys import OUTCOME_ATTRIBUTE
from pytest_gpuperf.report.terminal import layout, section
from pytest_gpuperf.report.terminal.layout import Line
from pytest_gpuperf.session.session import GpuPerfSession

Status = tuple[str, str, str | tuple[str, Mapping[str, bool]]]
"""What pytest_report_teststatus returns: a category, a letter, and a word with its colours if any."""


class TerminalHooks:
    """Tells of a run on the terminal: before, during and after its tests.

    At the end it tells of the `run`, if one `has_finished`: what fails it (`errors`), and what was written
    (`written`). It foretells the losses that the check will miss, but not if no loss fails the run.
    """

    def __init__(self, config: pytest.Config, session: GpuPerfSession, arguments: Sequence[str]) -> None:
        self.run: Run | None = None
        self.errors: list[str] = []
        self.written: list[str] = []
        self.has_finished = self.ran_tests = False
        self._config = config
        self._session = session
        self._arguments = arguments
        measures = session.ranks.measures and not (runs_no_test(config) or hasattr(config, "workerinput"))
        self._foretells = measures and session.options.gpu != "none" and session.options.fail != "nothing"
        self._has_foretold = False

    @pytest.hookimpl(optionalhook=True, trylast=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Print, when the first worker knows the tests, what the check will not find of them.

        The controller of workers knows no markers. A group of --dist=loadgroup ends a node id.
        """
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None and not self._has_foretold:
            self._has_foretold = True
            selected = dict.fromkeys(chain(ids, (each.rpartition("@")[0] for each in ids)))
            reporter.ensure_newline()
            _write(reporter, self._foretold(selected))

    def pytest_report_collectionfinish(self, items: Sequence[pytest.Item]) -> list[str]:
        """Return what the regression check will not find of the tests that are about to run."""
        specs = (item.stash[SPEC] for item in items if SPEC in item.stash)
        times = {spec.nodeid: spec.demand.max_time for spec in specs}
        return self._foretold(times, times)

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> Generator[None, Status, Status]:
        """Add what was measured to the word of an outcome: `PASSED (2.9x [2.8, 3.0], required 3x, ...)`.

        The category and the colours stay as others have chosen them, and so do the words of pytest's summary.
        """
        status = yield
        text: str | None = getattr(report, OUTCOME_ATTRIBUTE, None)
        if text is None or self.has_finished:
            return status
        category, letter, word = status
        if isinstance(word, str):
            return category, letter, f"{word} ({text})"
        return category, letter, (f"{word[0]} ({text})", word[1])

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table and the notes, or less if less is asked for; what fails the run in any case."""
        if self.run is None or not (self.ran_tests or self.errors):
            return
        lines = _section(self.run, terminalreporter)
        if lines or self.errors:
            terminalreporter.write_sep("-", "gpuperf")
        for line in lines:
            terminalreporter.write(printable(line.text))
            terminalreporter.write_line(
                printable(line.verdict), **({line.colour: True} if line.colour else {})
            )
        self._write_errors(terminalreporter)
        if terminalreporter.verbosity >= 0:
            _write(terminalreporter, self.written if lines else ())

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Print what the gate did not see below pytest's own last line, which says `4 passed`.

        Before pytest 9, `--no-summary` leaves out the other plugins' summaries, too.
        """
        reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
        if reporter is None:
            return
        self._write_errors(reporter)
        gate = self.run.gate if self.run else None
        if self.run and gate and gate.tolerances and (line := text.not_run(self.run)) is not None:
            reporter.write_line(line, red=bool(gate.failures), yellow=not gate.failures)

    def _foretold(self, tests: Iterable[str], times: Mapping[str, float | None] | None = None) -> list[str]:
        if not self._foretells:
            return []
        lines = self._session.gate.forecast(tests, self._arguments, times)
        return [f"gpuperf: {printable(line)}" for line in lines]

    def _write_errors(self, reporter: pytest.TerminalReporter) -> None:
        """Print what fails the run, once."""
        _write(reporter, self.errors, red=True)
        self.errors.clear()


def _section(run: Run, reporter: pytest.TerminalReporter) -> list[Line]:
    """Return the lines of our section, which are fewer with each `-q` and none with `--no-summary`."""
    width = max(layout.NARROWEST, reporter._tw.fullwidth)  # noqa: SLF001 - plugins have no other way
    verbosity = reporter.verbosity
    if reporter.no_summary or verbosity < -1:
        return []
    above = _shown_above(reporter)
    if verbosity < 0:
        return section.short_lines(run, width, above=above)
    return section.lines(run, width, above=above, all_notes=verbosity > 0)


def _shown_above(reporter: pytest.TerminalReporter) -> dict[str, str]:
    """Return what pytest's sections of errors, failures and warnings say of each test."""
    shown: dict[str, list[str]] = {}
    if reporter.config.getoption("tbstyle") not in ("no", "line"):
        for report in chain.from_iterable(reporter.stats.get(key, ()) for key in ("failed", "error")):
            shown.setdefault(report.nodeid, []).append(report.longreprtext)
    if reporter.hasopt("w"):
        for warning in reporter.stats.get("warnings", ()):
            shown.setdefault(warning.nodeid, []).append(warning.message)
    return {nodeid: "\n".join(texts) for nodeid, texts in shown.items()}


def _write(reporter: pytest.TerminalReporter, lines: Iterable[str], **markup: bool) -> None:
    """Write lines to the terminal, which node ids and paths in them must not steer."""
    for line in map(printable, lines):
        reporter.write_line(line, **markup)
