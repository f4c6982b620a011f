"""pytest-xdist: what the controller learns from its workers besides the records in their reports."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from pytest_gpuperf.model.worker_keys import OUTCOME_ATTRIBUTE, RECORD_ATTRIBUTE, USAGE_ERROR

_DIST = "gpuperf_dist"  # in a worker's input: the controller's value of --dist
_BY_NODE_ID = ("loadscope", "loadfile", "loadgroup")  # in which xdist loses tests that share a node id
_LOST = (
    "--dist={}: pytest-xdist knows tests by node ids, and would run one of the {} tests called {}; pass "
    "--rootdir=FOLDER with a folder that contains all tests, or --dist=load"
)


def register(config: pytest.Config, on_report: Callable[[pytest.TestReport], None]) -> None:
    """Register the plugin of this process in a run of xdist's, as its controller or as a worker.

    `on_report` gets each report with a record, or with words for its outcome.
    """
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Controller(on_report))
    elif config.workerinput.get(_DIST) in _BY_NODE_ID:
        config.pluginmanager.register(_Worker(config.workerinput[_DIST]))


class _Worker:
    """Refuses to lose a speedup test."""

    def __init__(self, dist: str) -> None:
        self._dist = dist

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """End the run where two speedup tests have one node id."""
        from pytest_gpuperf.collection.items import SPEC

        marked = Counter(item.nodeid for item in session.items if SPEC in item.stash)
        for nodeid, count in marked.most_common(1):
            if count > 1:
                from pytest_gpuperf.options import usage_error

                raise usage_error(session.config, _LOST.format(self._dist, count, nodeid))


class _Controller:
    """Passes the value of --dist to workers, and receives their records and errors."""

    def __init__(self, on_report: Callable[[pytest.TestReport], None]) -> None:
        self._on_report = on_report

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Say how the tests are distributed, which a worker does not know."""
        node.workerinput[_DIST] = node.config.getoption("dist")

    @pytest.hookimpl(tryfirst=True)  # before the terminal, which asks for the words of the first one, too
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Pass on a report of ours; a controller whose workers send none needs no session."""
        if hasattr(report, RECORD_ATTRIBUTE) or hasattr(report, OUTCOME_ATTRIBUTE):
            self._on_report(report)

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """End the run for a usage error in a worker, which xdist does not report."""
        text = getattr(node, "workeroutput", {}).get(USAGE_ERROR)
        if text is not None:
            pytest.exit(text, returncode=pytest.ExitCode.USAGE_ERROR)
