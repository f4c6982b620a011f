"""Under pytest-xdist: which tests need each other, from the workers, who know, to the controller, who sends.

xdist's controller knows node ids only. So each worker adds one line to the list of ids that it sends, and the
controller takes it off again before anyone else, xdist's own schedulers included, sees the list.
"""

import json
from collections.abc import Callable, Generator
from typing import Any

import pytest

from pytest_gpuperf.integrations.xdist_groups import WorkerGroups

__all__ = ["join"]

_ASKED = "gpuperf_together"  # in a worker's input: this controller takes the line off
_LINE = "\x1fgpuperf:"  # no node id begins like this: pytest escapes what is not printable
_SENT_TO_ONE = ("load", "worksteal", "loadscope", "loadfile", "loadgroup")


def join(config: pytest.Config, is_marked: Callable[[], bool]) -> None:
    """Take part in a run of xdist's, as its controller or as a worker.

    `is_marked` says, once all tests are collected, whether there is any of ours.
    """
    if getattr(config, "workerinput", {}).get(_ASKED):
        config.pluginmanager.register(_Worker(is_marked))
    elif config.getoption("dist", "no") in _SENT_TO_ONE:
        config.pluginmanager.register(_Controller())


class _Worker:
    """Tells the controller which tests need each other."""

    def __init__(self, is_marked: Callable[[], bool]) -> None:
        self._is_marked = is_marked

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Add our line to what xdist sends next, where there is something to tell."""
        if not self._is_marked():
            return
        from pytest_gpuperf.collection import siblings

        groups = siblings.together(session.items)
        if groups:
            told = {"groups": groups, "needs": list(siblings.needs(session.items).items())}
            _append(session.config, _LINE + json.dumps(told))


class _Controller:
    """Makes schedulers that keep tests together, in place of xdist's own; another plugin's stays."""

    def __init__(self) -> None:
        self._scheduler: Any = None

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Ask the worker for its line."""
        node.workerinput[_ASKED] = True

    @pytest.hookimpl(optionalhook=True, wrapper=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Generator[None, Any, Any]:
        """Return ours for one of xdist's own."""
        theirs = yield
        from pytest_gpuperf.integrations.xdist_schedulers import OURS

        ours = OURS.get(type(theirs))
        if ours is None:
            return theirs
        self._scheduler = ours(config, log)
        return self._scheduler

    @pytest.hookimpl(optionalhook=True, wrapper=True, tryfirst=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> Generator[None, None, None]:
        """Take our line off, and keep what the first worker told: the others have collected the same."""
        if ids and ids[-1].startswith(_LINE):
            told = json.loads(ids.pop().removeprefix(_LINE))
            if self._scheduler is not None and self._scheduler.together is None:
                together = WorkerGroups(ids=tuple(ids), groups=told["groups"], needs=dict(told["needs"]))
                self._scheduler.together = together
        return (yield)


def _append(config: pytest.Config, line: str) -> None:
    """Add a line to the list of node ids that xdist's plugin in this worker sends next."""
    plugins: Any = config.pluginmanager.get_plugins()
    interactor = next(plugin for plugin in plugins if type(plugin).__name__ == "WorkerInteractor")
    send = interactor.sendevent

    def send_with_line(name: str, **content: Any) -> None:
        if name == "collectionfinish":
            interactor.sendevent = send
            content["ids"] = [*content["ids"], line]
        send(name, **content)

    interactor.sendevent = send_with_line
