"""From a record to the command that repeats its test: node ids and the options of its run, for a shell."""

import re
import shlex
from collections.abc import Iterator, Sequence
from functools import cached_property

from pytest_gpuperf.model.nodeid import function_of, has_module_name, without_number
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.model.record import Record, Run

_PREFIX = "--gpuperf-"
_EMULATED_DEVICES = "JAX_NUM_CPU_DEVICES"
_STRICT, _ALLOW_MISSING = f"{_PREFIX}strict", f"{_PREFIX}allow=missing"


class Repeater:
    """Makes the commands that repeat tests of a run."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def command(self, record: Record) -> str:
        """Return the command that reaches a test's verdict again, when it is called in the root folder.

        A GPU variant comes with its CPU variant, and the last test of a size group, which has the threshold's
        verdict, with the others. Whatever a report holds, the command is one printable line, and calls pytest
        with node ids and options of ours.
        """
        tests = [_path(nodeid) for nodeid in self._tests(record)]
        by_name = ["--pyargs"] if has_module_name(record.nodeid) else []
        words = ["pytest", *by_name, *tests, *_options(self._run)]
        return " ".join([*self._settings(record), *(shlex.quote(printable(word)) for word in words)])

    def _settings(self, record: Record) -> Iterator[str]:
        """Yield the variable without which a scaling test would lack emulated devices."""
        number = (self._run.environment.variables or {}).get(_EMULATED_DEVICES, "")
        if record.scaling and re.fullmatch("[0-9]{1,9}", number):  # a report may hold anything
            yield f"{_EMULATED_DEVICES}={number}"

    def _tests(self, record: Record) -> Sequence[str]:
        """Return the node ids that a test's verdict needs: in short, the function that makes all of them."""
        size_group = record.size_group if record.nodeid in self._last_of_curves else None
        members = self._size_groups[size_group.name] if size_group else [record]
        nodeids = list(dict.fromkeys(nodeid for member in members for nodeid in _with_partner(member)))
        function = function_of(record.nodeid)
        if len(nodeids) > 1 and self._functions.get(function) == {*nodeids}:
            return [function]
        return list(dict.fromkeys(map(without_number, nodeids)))

    @cached_property
    def _last_of_curves(self) -> set[str]:
        return {threshold.curve[-1].nodeid for threshold in self._run.thresholds if threshold.curve}

    @cached_property
    def _size_groups(self) -> dict[str, list[Record]]:
        size_groups: dict[str, list[Record]] = {}
        for record in self._run.records:
            if record.size_group:
                size_groups.setdefault(record.size_group.name, []).append(record)
        return size_groups

    @cached_property
    def _functions(self) -> dict[str, set[str]]:
        """The node ids of each function's tests."""
        functions: dict[str, set[str]] = {}
        for record in self._run.records:
            functions.setdefault(function_of(record.nodeid), set()).add(record.nodeid)
        return functions


def _with_partner(record: Record) -> Iterator[str]:
    if record.pairing and record.pairing.partner:
        yield record.pairing.partner
    yield record.nodeid


def _options(run: Run) -> Iterator[str]:
    """Yield the options of ours; a report may have been made by anyone, and name others."""
    options = [option for option in run.arguments if option.startswith(_PREFIX)]
    yield from options
    if _STRICT in options and _ALLOW_MISSING not in options:
        yield _ALLOW_MISSING  # the other tests of the baseline are left out on purpose


def _path(nodeid: str) -> str:
    """Return a node id that pytest takes for no option, and for no file of arguments (`@file`)."""
    return f"./{nodeid}" if nodeid.startswith(("-", "@")) else nodeid
