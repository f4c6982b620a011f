"""From what a run asks for, beside markers, to the items that it is about: patterns of node ids, and all."""

import re
import shlex
from ast import literal_eval
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from pytest_gpuperf.collection.items import SHAPE, ItemSpec, shape, unfit
from pytest_gpuperf.collection.markers import demand
from pytest_gpuperf.collection.siblings import pairs, within_functions
from pytest_gpuperf.devices.spec import DeviceParser
from pytest_gpuperf.model.demand import Selection
from pytest_gpuperf.model.nodeid import file_of

__all__ = ["Patterns", "pattern", "take_all"]

_ALL = pytest.mark.speedup.mark
_REPEATED = ("benchmark", "subtests")  # fixtures that cannot be used again in a further call


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pattern:
    """One line of gpuperf_speedup; in its text only * and ? are wild, for node ids have brackets."""

    text: str
    matches: re.Pattern[str]
    mark: pytest.Mark


def pattern(line: str) -> _Pattern:
    """Return what a line asks, as `tests/test_fft.py::* min=2`; raise ValueError for one that cannot be."""
    text, *words = _words(line)
    asked = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise ValueError(f"{line!r}: {word!r} is no argument; write them as in min=2")
        asked[name] = _read(value)
    mark: pytest.Mark = pytest.mark.speedup(**asked).mark
    try:
        demand(mark)
    except ValueError as error:
        raise ValueError(f"{line!r}: {error}") from error
    wild = "".join({"*": ".*", "?": "."}.get(letter, re.escape(letter)) for letter in text)
    return _Pattern(text=text, matches=re.compile(wild, re.DOTALL), mark=mark)


class Patterns:
    """The lines of gpuperf_speedup, and how many tests each has found; the last that matches counts."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._patterns = [pattern(line) for line in lines]
        self._found: Counter[str] = Counter()
        self._matched: set[str] = set()

    def take(self, items: Iterable[pytest.Item], sides: DeviceParser) -> list[pytest.Item]:
        """Give shapes to the items that a pattern names, that have no marker and that can be timed."""
        taken: list[pytest.Item] = []
        for item in items if self._patterns else ():
            found = [each for each in self._patterns if each.matches.fullmatch(item.nodeid)]
            if not found or not isinstance(item, pytest.Function):
                continue
            if item.get_closest_marker("speedup"):
                self._matched.update(each.text for each in found)
                continue
            known = _shape(item, sides, found[-1].mark)
            if known is not None and known.has_device:
                item.add_marker(pytest.mark.speedup(**found[-1].mark.kwargs))
                item.stash[SHAPE] = replace(known, source="pattern")
                self._found[found[-1].text] += 1
                self._matched.update(each.text for each in found)
                taken.append(item)
        return taken

    def leave(self, nodeids: Iterable[str]) -> None:
        """Take back that these were found."""
        for nodeid in nodeids:
            found = [each.text for each in self._patterns if each.matches.fullmatch(nodeid)]
            self._found[found[-1]] -= 1
            self._matched.difference_update(text for text in found if not self._found[text])

    @property
    def selections(self) -> list[Selection]:
        """How many tests each pattern has found."""
        return [Selection(pattern=each.text, tests=self._found[each.text]) for each in self._patterns]

    def missing(self, root: Path, arguments: Sequence[str]) -> list[str]:
        """Return the patterns that found nothing, though what was collected could have held it."""
        return [
            each.text
            for each in self._patterns
            if each.text not in self._matched and not _is_elsewhere(each.text, root, arguments)
        ]


def take_all(items: Iterable[pytest.Item], sides: DeviceParser) -> list[pytest.Item]:
    """Give shapes to all items without one that have a sibling on the other device."""
    tried = []
    for item in items:
        if SHAPE in item.stash or not isinstance(item, pytest.Function):
            continue
        if any(name in item.fixturenames for name in _REPEATED):
            continue
        known = _shape(item, sides, _ALL)
        if known is not None and known.side is not None and known.told:
            item.stash[SHAPE] = replace(known, source="all")
            tried.append(item)
    taken = []
    for group in pairs(tried, within_functions):
        if {shape.kind for _, shape in group} == {"cpu", "gpu"}:
            taken += [item for item, _ in group]
        else:
            for item, _ in group:
                del item.stash[SHAPE]
    return taken


def _shape(item: pytest.Function, sides: DeviceParser, mark: pytest.Mark) -> ItemSpec | None:
    """Return the shape of an item that asked for nothing itself, None for one that cannot be timed."""
    if unfit(item):
        return None
    try:
        return shape(item, sides, mark)
    except ValueError:
        return None


def _words(line: str) -> list[str]:
    """Return a line's words; quotes keep one with spaces together, and a backslash is as any other letter."""
    words = shlex.shlex(line, posix=True, punctuation_chars=False)
    words.whitespace_split, words.escape, words.commenters = True, "", ""
    return list(words)


def _read(text: str) -> Any:
    try:
        return literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _is_elsewhere(text: str, root: Path, arguments: Sequence[str]) -> bool:
    """Say whether a pattern is about a file that is there and that this run was not asked to collect."""
    file = file_of(text)
    if not arguments or "*" in file or "?" in file or not (root / file).is_file():
        return False
    asked = [Path(file_of(argument)).resolve() for argument in arguments]
    narrower = any("::" in argument for argument in arguments)
    wanted = (root / file).resolve()
    return narrower or not any(wanted == path or path in wanted.parents for path in asked)
