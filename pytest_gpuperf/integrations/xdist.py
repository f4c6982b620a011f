"""pytest-xdist: the workers send the controller which tests need each other, and what went wrong.

xdist's controller knows node ids only. So each worker appends one line to the list of ids that it sends, and
the controller removes it before anyone else, xdist's own schedulers included, sees the list.
"""

import json
from collections import Counter
from collections.abc import Callable, Generator
from typing import Any

import pytest

from pytest_gpuperf.integrations.xdist_groups import WorkerGroups
from pytest_gpuperf.options import RECORD_ATTRIBUTE, USAGE_ERROR, usage_error

# In a worker's input, with the value of --dist: this controller removes the line.
_WANTS_GROUPS = "gpuperf_together"
_LINE = "\x1fgpuperf:"  # no node id begins like this: pytest escapes what is not printable
_ONE_WORKER_PER_TEST = ("load", "worksteal", "loadscope", "loadfile", "loadgroup")  # not "each"
_BY_NODE_ID = ("loadscope", "loadfile", "loadgroup")  # in which xdist loses tests that share a node id
_LOST = (
    "--dist={}: pytest-xdist knows tests by node ids, and would run one of the {} tests called {}; pass "
    "--rootdir=FOLDER with a folder that contains all tests, or --dist=load"
)


def register(
    config: pytest.Config,
    has_speedup_tests: Callable[[], bool],
    on_record: Callable[[pytest.TestReport], None],
) -> None:
    """Register the plugin of this process in a run of xdist's, as its controller or as a worker.

    `has_speedup_tests` answers once all tests are collected; `on_record` gets each report with a record.
    """
    if hasattr(config, "workerinput"):
        if config.workerinput.get(_WANTS_GROUPS):
            config.pluginmanager.register(_Worker(config.workerinput[_WANTS_GROUPS], has_speedup_tests))
    else:
        config.pluginmanager.register(_Controller(config, on_record))


class _Worker:
    """Sends the controller the groups of tests that need each other."""

    def __init__(self, dist: str, has_speedup_tests: Callable[[], bool]) -> None:
        self._dist = dist
        self._has_speedup_tests = has_speedup_tests

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Append our line to what xdist sends next, where there are groups; refuse to lose a speedup test."""
        if not self._has_speedup_tests():
            return
        from pytest_gpuperf.collection import variants
        from pytest_gpuperf.collection.items import SPEC

        marked = Counter(item.nodeid for item in session.items if SPEC in item.stash)
        for nodeid, count in marked.most_common(1 if self._dist in _BY_NODE_ID else 0):
            if count > 1:
                raise usage_error(session.config, _LOST.format(self._dist, count, nodeid))
        groups = variants.worker_groups(session.items)
        if groups:
            needs = list(variants.must_run_before(session.items).items())
            _append(session.config, _LINE + json.dumps({"groups": groups, "needs": needs}))


class _Controller:
    """Makes schedulers that keep groups together, and receives the records and errors of workers."""

    def __init__(self, config: pytest.Config, on_record: Callable[[pytest.TestReport], None]) -> None:
        self._on_record = on_record
        self._can_group = config.getoption("dist", "no") in _ONE_WORKER_PER_TEST
        self._scheduler: Any = None

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Request the worker's line."""
        if self._can_group:
            node.workerinput[_WANTS_GROUPS] = node.config.getoption("dist")

    @pytest.hookimpl(optionalhook=True, wrapper=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Generator[None, Any, Any]:
        """Return our subclass of one of xdist's own schedulers; another plugin's stays."""
        scheduler = yield
        from pytest_gpuperf.integrations.xdist_schedulers import SCHEDULERS

        ours = SCHEDULERS.get(type(scheduler))
        if ours is None:
            return scheduler
        self._scheduler = ours(config, log)
        return self._scheduler

    @pytest.hookimpl(optionalhook=True, wrapper=True, tryfirst=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> Generator[None, None, None]:
        """Remove our line, and use the first worker's: the others have collected the same tests."""
        if ids and ids[-1].startswith(_LINE):
            content = json.loads(ids.pop().removeprefix(_LINE))
            if self._scheduler is not None and self._scheduler.groups is None:
                self._scheduler.groups = WorkerGroups(
                    ids=tuple(ids), groups=content["groups"], needs=dict(content["needs"])
                )
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Pass on a record; a controller whose workers send none needs no session."""
        if hasattr(report, RECORD_ATTRIBUTE):
            self._on_record(report)

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """End the run for a usage error in a worker, which xdist does not report."""
        text = getattr(node, "workeroutput", {}).get(USAGE_ERROR)
        if text is not None:
            pytest.exit(text, returncode=pytest.ExitCode.USAGE_ERROR)


def _append(config: pytest.Config, line: str) -> None:
    """Append a line to the list of node ids that xdist's plugin in this worker sends next."""
    # xdist has no hook for sending data from a worker before its tests run: `workeroutput` is sent when it
    # ends, and reports come with tests. So we wrap the method that sends the collected ids, for one call.
    # `WorkerInteractor` is looked up by its name because xdist registers no name for it, and the module
    # that defines it (xdist.remote) runs as a script in the worker. tests/integrations/test_xdist.py fails
    # when xdist changes either.
    plugins: Any = config.pluginmanager.get_plugins()
    interactor = next(plugin for plugin in plugins if type(plugin).__name__ == "WorkerInteractor")
    send = interactor.sendevent

    def send_with_line(name: str, **content: Any) -> None:
        if name == "collectionfinish":
            interactor.sendevent = send
            content["ids"] = [*content["ids"], line]
        send(name, **content)

    interactor.sendevent = send_with_line
