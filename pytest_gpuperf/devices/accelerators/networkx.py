"""NetworkX with a backend: nx-parallel (`accelerator:networkx:parallel`), or nx-cugraph (`:cugraph`)."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from os import environ
from typing import Any

import numpy as np

from pytest_gpuperf.devices.accelerators.base import Accelerator, Calls, log_of
from pytest_gpuperf.devices.library import unusable
from pytest_gpuperf.model.errors import GpuPerfError, Unavailable

_KNOWN = {"parallel": "nx-parallel", "cugraph": "nx-cugraph-cu12 or nx-cugraph-cu13"}
_FOR_TESTS = "nx_loopback"  # NetworkX's own
_CURRENT_TEST = "PYTEST_CURRENT_TEST"
_DISPATCHING = "networkx.utils.backends"


class NetworkX(Accelerator):
    """A backend that `nx.config.backend_priority` puts before NetworkX's own algorithms.

    NetworkX converts a graph for its backend once and keeps that: timed calls find it converted.
    """

    library = "networkx"
    remedy = "install networkx"

    def __init__(self, name: str, how: str) -> None:
        super().__init__(name, how)
        self.is_gpu = how == "cugraph"
        known = sorted({*_KNOWN, *(entry.name for entry in _entries())} - {_FOR_TESTS})
        if how not in known:
            names = ", ".join(f"accelerator:networkx:{name}" for name in known)
            problem = f"networkx has no backend {how!r}" if how else "networkx needs a backend"
            raise GpuPerfError(f"{problem}; pass one of {names}")

    def open(self) -> str:
        """Return the name of the backend's distribution; raise Unavailable if it cannot be used."""
        entry = next((entry for entry in _entries() if entry.name == self.how), None)
        if entry is None:
            remedy = f"install {_KNOWN[self.how]}"
            raise Unavailable(f"networkx has no backend {self.how} here; {remedy}", missing=True)
        package = entry.dist.name if entry.dist else self.how
        version = entry.dist.version if entry.dist else ""
        try:
            entry.load()
            nx = self.namespace()
            with self.switched(is_on=True):
                nx.config.backend_priority  # noqa: B018 - the context has set it
        except Exception as error:
            remedy = f"install a version of networkx that {package} {version} supports"
            raise unusable(f"{package} {version} cannot be used", error, remedy) from error
        return f"networkx with {package} {version}{'' if self.is_gpu else ' on the CPU'}"

    @contextmanager
    def switched(self, *, is_on: bool) -> Iterator[None]:
        """Put the backend or none first, and let no call warn that NetworkX uses a graph it has converted.

        Under pytest nx-parallel takes two jobs whatever n_jobs is: the variable that shows pytest is hidden.
        """
        test = environ.pop(_CURRENT_TEST, None) if is_on else None
        config = sys.modules["networkx"].config
        ignored = {*config.warnings_to_ignore, "cache"}
        # The list of algorithms by itself: NetworkX 3.4 does not put the whole priority back as it was.
        algorithms = [self.how] if is_on else []
        try:
            with config.backend_priority(algos=algorithms), config(warnings_to_ignore=ignored):
                yield
        finally:
            if test is not None:
                environ[_CURRENT_TEST] = test

    @contextmanager
    def calls(self) -> Iterator[Calls]:
        """Read the log of NetworkX: for each call which backends are tried, and which one is used.

        What an algorithm calls itself is its own affair.
        """
        calls = Calls()

        def read(record: logging.LogRecord) -> None:
            words, arguments = str(record.msg), record.args
            if not isinstance(arguments, tuple) or _is_nested():
                return
            if words.startswith("Call to") and "following order" in words and self.how in str(arguments[-1]):
                calls.left.append(str(arguments[0]))
            elif words.startswith("Using backend") and arguments[0] == self.how:
                name = str(arguments[1])
                calls.ran.append(name)
                if name in calls.left:
                    calls.left.remove(name)

        with log_of(_DISPATCHING, logging.DEBUG, read):
            yield calls

    def unpack(self, value: Any) -> Any:
        """Return the nodes, edges and attributes of a graph, NetworkX's or a backend's."""
        backend = getattr(type(value), "__networkx_backend__", None)
        if not isinstance(backend, str):
            return None
        if backend != "networkx":
            owner = next(entry for entry in _entries() if entry.name == backend)
            value = owner.load().convert_to_nx(value)
        return _contents(value)


def _entries() -> metadata.EntryPoints:
    return metadata.entry_points(group="networkx.backends")


def _contents(graph: Any) -> dict[str, Any]:
    """Return a graph's nodes and edges as sorted text, for backends have orders of their own."""
    directed = graph.is_directed()
    edges: dict[str, list[Any]] = {}
    for *ends, attributes in graph.edges(data=True):
        names = [repr(end) for end in ends]
        edges.setdefault(" ".join(names if directed else sorted(names)), []).append(dict(attributes))
    attributes = {repr(node): dict(found) for node, found in graph.nodes(data=True) if found}
    return {
        "nodes": np.array(sorted(map(repr, graph.nodes))),
        "edges": np.array(sorted(name for name, found in edges.items() for _ in found)),
        "node attributes": attributes,
        "edge attributes": {name: found for name, found in edges.items() if any(found)},
    }


def _is_nested() -> bool:
    """Return whether one call of NetworkX that is dispatched is within another one."""
    frame: Any = sys._getframe()  # noqa: SLF001 - the only way to the stack without reading its sources
    calls, was_within = 0, False
    while frame is not None:
        is_within = frame.f_globals.get("__name__") == _DISPATCHING
        calls += is_within and not was_within
        frame, was_within = frame.f_back, is_within
    return calls > 1
