"""pytest's hooks once the speedup tests are known: what is said before the first of them runs."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import pytest

from pytest_gpuperf import options
from pytest_gpuperf.collection.items import SPEC
from pytest_gpuperf.model.nodeid import function_of


class CollectionHooks:
    """Says which markers seem wrong, and calls `begin` with the selected tests before they run.

    Registered where there is a speedup test, so that other suites do not pay for it. Where another process
    `measures` the tests, nothing is said of the time that this may take.
    """

    def __init__(
        self,
        found: Sequence[pytest.Item],
        hints: Sequence[str],
        begin: Callable[[Sequence[pytest.Item]], None],
        *,
        measures: bool = True,
    ) -> None:
        self._measures = measures
        self._found = found
        self._hints = hints
        self._begin = begin

    def pytest_report_collectionfinish(
        self, config: pytest.Config, items: Sequence[pytest.Item]
    ) -> list[str]:
        """Return a line for each wrong marker and each hint, and one on a run that may take long."""
        wrong = {item for item in self._found if item.stash[SPEC].problem is not None}
        lines = [f"gpuperf: {line}" for line in _problems(item for item in items if item in wrong)]
        # pytest would print them under -q, too.
        if config.getoption("verbose") < 0:
            return lines
        lines += [f"gpuperf: {hint}" for hint in self._hints]
        if runs_no_test(config) or not self._measures:
            return lines
        from pytest_gpuperf.report.terminal import progress  # which --collect-only would import for nothing

        run = options.run_options(config)
        specs = [item.stash[SPEC] for item in items if SPEC in item.stash]
        demands = [spec.demand for spec in specs if spec.has_device and not spec.problem]
        is_check = options.gate_options(config).compares and any(each.max_time is None for each in demands)
        limits = [each.max_time or run.max_time for each in demands]
        text = progress.time_limits(limits, run.sampling.slow_time if is_check else None)
        return [*lines, f"gpuperf: {text}"] if text else lines

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Announce the tests that are about to run; `--collect-only` and its like run none."""
        if not runs_no_test(session.config):
            self._begin(session.items)


def _problems(items: Iterable[pytest.Item]) -> Iterator[str]:
    """Yield what is wrong with the markers of these items, once for those of a file that share it."""
    wrong: dict[tuple[str, str | None], list[str]] = {}
    for item in items:
        spec = item.stash[SPEC]
        wrong.setdefault((spec.nodeid.partition("::")[0], spec.problem), []).append(spec.nodeid)
    for (_, problem), (first, *others) in wrong.items():
        is_of_one = len({function_of(each) for each in (first, *others)}) == 1
        of_what = "its parametrizations" if is_of_one else "its file"
        more = f" (and {len(others)} more of {of_what})" if others else ""
        yield f"error: {first}{more}: {problem}"


def runs_no_test(config: pytest.Config) -> bool:
    """Return whether an option makes pytest stop before the first call of a test."""
    return any(config.getoption(name) for name in ("collectonly", "setuponly", "setupplan"))
