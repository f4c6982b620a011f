"""Unmarked tests that a run selects: by the patterns of `gpuperf_speedup`, or all with `--gpuperf-all`."""

import re
import shlex
from ast import literal_eval
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_gpuperf.collection.items import SPEC, ItemSpec, item_spec, test_id, why_not_timeable
from pytest_gpuperf.collection.markers import demand
from pytest_gpuperf.collection.variants import group_by_pair
from pytest_gpuperf.devices.device_parameter import DeviceParser
from pytest_gpuperf.model.demand import Selection
from pytest_gpuperf.model.nodeid import file_of

BARE_MARK = pytest.mark.speedup.mark
"""The marker without arguments: it records, and requires nothing."""
_USED_ONCE = ("benchmark", "subtests")  # fixtures that cannot be used again in a further call


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pattern:
    """One line of gpuperf_speedup: which node ids it matches, and the marker that they get."""

    text: str
    matches: re.Pattern[str]
    mark: pytest.Mark


def parse_pattern(line: str) -> _Pattern:
    """Return the pattern of a line like `tests/test_fft.py::* min=2`; raise ValueError for a wrong one."""
    text, *words = _split(line)
    arguments: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise ValueError(f"{line!r}: {word!r} is not an argument; expected NAME=VALUE, e.g. min=2")
        arguments[name] = value
        with suppress(ValueError, SyntaxError):
            arguments[name] = literal_eval(value)
    mark: pytest.Mark = pytest.mark.speedup(**arguments).mark
    try:
        demand(mark)
    except ValueError as error:
        raise ValueError(f"{line!r}: {error}") from error
    # Not fnmatch: only * and ? are wild, because node ids have brackets.
    expression = "".join({"*": ".*", "?": "."}.get(letter, re.escape(letter)) for letter in text)
    return _Pattern(text=text, matches=re.compile(expression, re.DOTALL), mark=mark)


class Patterns:
    """The lines of gpuperf_speedup, and how many tests each selected; the last one that matches counts."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._patterns = [parse_pattern(line) for line in lines]
        self._selected: dict[pytest.Item, list[str]] = {}  # the patterns that match each selected test
        self._matched_others: set[str] = (
            set()
        )  # patterns of tests that have a marker, or need another machine

    def select(self, items: Iterable[pytest.Item], parser: DeviceParser) -> list[pytest.Item]:
        """Give specs to the items that a pattern matches, that have no marker and that can be timed."""
        selected: list[pytest.Item] = []
        for item in items if self._patterns else ():
            nodeid = test_id(item)
            matching = [pattern for pattern in self._patterns if pattern.matches.fullmatch(nodeid)]
            if not matching or not isinstance(item, pytest.Function):
                continue
            if item.get_closest_marker("speedup"):
                self._matched_others.update(pattern.text for pattern in matching)
                continue
            last = matching[-1]
            spec = unmarked_spec(item, parser, last.mark)
            if spec is not None and spec.has_device:
                item.add_marker(pytest.mark.speedup(**last.mark.kwargs))
                item.stash[SPEC] = spec._replace(source="pattern")
                self._selected[item] = [pattern.text for pattern in matching]
                selected.append(item)
        return selected

    def discard(self, item: pytest.Item, *, may_use_gpu: bool) -> None:
        """Take back a selected test that has no variant; on a machine with a GPU it may have one."""
        patterns = self._selected.pop(item, ())  # a variant may have been added without a pattern
        if may_use_gpu:
            self._matched_others.update(patterns)

    @property
    def selections(self) -> list[Selection]:
        """How many tests each pattern selected."""
        counts = Counter(texts[-1] for texts in self._selected.values())
        return [Selection(pattern=pattern.text, tests=counts[pattern.text]) for pattern in self._patterns]

    def unmatched(self, root: Path, arguments: Sequence[str]) -> list[str]:
        """Return the patterns that matched no test, although this run collected where they point."""
        matched = self._matched_others.union(*self._selected.values())
        return [
            pattern.text
            for pattern in self._patterns
            if pattern.text not in matched and not _is_not_collected(pattern.text, root, arguments)
        ]


def select_all(items: Iterable[pytest.Item], parser: DeviceParser) -> list[pytest.Item]:
    """Give specs to all items without one that have a variant on the other device, or may where a GPU is."""
    candidates = []
    for item in items:
        if SPEC in item.stash or not isinstance(item, pytest.Function):
            continue
        if any(name in item.fixturenames for name in _USED_ONCE):
            continue
        spec = unmarked_spec(item, parser, BARE_MARK)
        if spec is not None and spec.device is not None and spec.device_parameters:
            item.stash[SPEC] = spec._replace(source="all")
            candidates.append(item)
    selected = []
    for group in group_by_pair(candidates, across_functions=False):
        devices = [spec.device for _, spec in group if spec.device is not None]
        here = {device.kind for device in devices}
        elsewhere = {"gpu" if device.may_be_on_gpu else device.kind for device in devices}
        if {"cpu", "gpu"} in (here, elsewhere):
            selected += [item for item, _ in group]
        else:
            for item, _ in group:
                del item.stash[SPEC]
    return selected


def unmarked_spec(item: pytest.Item, parser: DeviceParser, mark: pytest.Mark) -> ItemSpec | None:
    """Return the spec that an unmarked item has under a mark, or None if it cannot be timed."""
    if not isinstance(item, pytest.Function) or why_not_timeable(item):
        return None
    try:
        return item_spec(item, parser, mark)
    except ValueError:
        return None


def _split(line: str) -> list[str]:
    """Return a line's words; quotes keep one with spaces together, a backslash is an ordinary letter."""
    words = shlex.shlex(line, posix=True, punctuation_chars=False)
    words.whitespace_split = True
    words.escape = ""
    words.commenters = ""
    return list(words)


def _is_not_collected(text: str, root: Path, arguments: Sequence[str]) -> bool:
    """Return whether a pattern is about an existing file outside what the command line selects."""
    file = file_of(text)
    if not arguments or "*" in file or "?" in file or not (root / file).is_file():
        return False
    if any("::" in argument for argument in arguments):
        return True
    path = (root / file).resolve()
    return not any(path.is_relative_to(argument) for argument in arguments)  # they are resolved
