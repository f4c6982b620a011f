"""From what a finished test has measured to the word for its outcome, which pytest shows with `-v`."""

from collections.abc import Generator, Mapping

import pytest

OUTCOME_ATTRIBUTE = "gpuperf_outcome"
"""Of the report of a test's call: what the terminal shows of it. Reports travel from xdist's workers."""

Status = tuple[str, str, str | tuple[str, Mapping[str, bool]]]
"""What pytest_report_teststatus returns: a category, a letter, and a word with its colours if any."""


class OutcomeWords:
    """Adds what was measured to the word of each outcome: `PASSED (2.9x [2.8, 3.0], required 3x, ...)`.

    Only while a report is shown for the first time: the summary at the end has such words, too.
    """

    def __init__(self) -> None:
        self._shown: pytest.TestReport | None = None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None, None, None]:
        """Remember which report is shown."""
        self._shown = report
        try:
            yield
        finally:
            self._shown = None

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> Generator[None, Status, Status]:
        """Add what was measured to the word; the category and the colours stay as others have chosen them."""
        status = yield
        text: str | None = getattr(report, OUTCOME_ATTRIBUTE, None)
        if text is None or report is not self._shown:
            return status
        category, letter, word = status
        if isinstance(word, str):
            return category, letter, f"{word} ({text})"
        return category, letter, (f"{word[0]} ({text})", word[1])
