"""From the items of a run to its speedup tests: marked, named by a pattern, or all that have siblings."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gpuperf.collection import siblings
from pytest_gpuperf.collection.families import families
from pytest_gpuperf.collection.items import (
    SHAPE,
    ItemSpec,
    SpecCache,
    has_marked_parameters,
    misuse,
    shape,
    takes_ours,
    unfit,
)
from pytest_gpuperf.collection.patterns import Patterns, take_all
from pytest_gpuperf.devices.spec import DeviceParser, DeviceSpec
from pytest_gpuperf.model.demand import Selection
from pytest_gpuperf.model.nodeid import function_of

__all__ = ["Finder"]

_TWICE = (
    "has a speedup marker, and another plugin or conftest gave it one that asks for something else; keep one"
)
_BARE = pytest.mark.speedup.mark


class Finder:
    """Gives items their shapes; what is wrong with them comes back in sentences.

    `lone` is the side of tests that do not choose their device themselves. `foreign` says that the suite has
    a mark called speedup of its own: then one that cannot be ours is left alone.
    """

    def __init__(
        self,
        sides: DeviceParser,
        patterns: Patterns,
        *,
        takes_all: bool,
        lone: DeviceSpec | None,
        foreign: bool,
    ) -> None:
        self.found: list[pytest.Item] = []
        self._sides = sides
        self._patterns = patterns
        self._takes_all = takes_all
        self._lone = lone
        self._foreign = foreign
        self._kin: SpecCache | None = None
        self._all = 0

    def collected(
        self, items: Sequence[pytest.Item], marked: Iterable[pytest.Item], *, has_threshold: bool
    ) -> list[str]:
        """Take what one module or class has collected; say what is wrong with it."""
        found, wrong = self._mark(marked)
        taken = self._patterns.take(items, self._sides)
        found += taken
        if taken or any(has_marked_parameters(item) for item in found):
            found += self._company(items, found)
        self.found += found
        wrong += siblings.join(found, siblings.within_functions)
        return wrong + families(items) if has_threshold else wrong

    def late(self, items: Iterable[pytest.Item], marked: Iterable[pytest.Item]) -> list[str]:
        """Take those of the items that other plugins have marked since, and their siblings."""
        listed = [item for item in marked if SHAPE not in item.stash]
        self._kin = None
        found, wrong = self._mark(listed)
        company = list(self._company(items, found)) if found else []
        self.found += [*found, *company]
        wrong += siblings.join([*found, *company], siblings.within_functions)
        return wrong + families([*listed, *company])

    def marked_again(self, items: Iterable[pytest.Item]) -> list[str]:
        """Say which items, with a shape, were since given a marker that asks for something else."""
        wrong = []
        for item in items:
            known = item.stash[SHAPE]
            if known.source != "marker" or known.kind == "cpu" or not isinstance(item, pytest.Function):
                continue  # what is asked of a CPU sibling is asked of its GPU sibling
            if (message := misuse(item)) is not None:
                wrong.append(message)
            elif shape(item, self._sides).demand != known.demand:
                wrong.append(f"{item.nodeid}: {_TWICE}")
        return wrong

    def passed_by(self, item: pytest.Item) -> ItemSpec | None:
        """Return the shape of a test whose marker came while it ran; it cannot be measured any more."""
        if not isinstance(item, pytest.Function):
            return None
        if (known := item.stash.get(SHAPE, None)) is not None:
            return known if known.source == "marker" and misuse(item) is not None else None
        for message in self._mark([item])[1]:
            pytest.fail(message, pytrace=False)
        known = item.stash.get(SHAPE, None)
        if known is not None:
            item.stash[SHAPE] = replace(known, slots=frozenset(), side=None, both=False, pair=None)
        return item.stash.get(SHAPE, None)

    def complete(self, items: Sequence[pytest.Item]) -> list[str]:
        """Pair up what several modules and classes have collected; take the rest where all was asked for."""
        wrong = siblings.join(self.found, siblings.across_functions)
        if self._takes_all:
            taken = take_all(items, self._sides)
            self._all = len(taken)
            self.found += taken
            siblings.join(taken, siblings.within_functions)
            self._all -= self._drop(taken)
        named = [item for item in self.found if item.stash[SHAPE].source == "pattern"]
        self._patterns.leave(item.nodeid for item in self._alone(named))
        self._drop(named)
        return wrong

    def _drop(self, items: Sequence[pytest.Item]) -> int:
        """Leave alone those that nobody asked for one by one and that have no sibling; return how many."""
        alone = self._alone(items)
        for item in alone:
            del item.stash[SHAPE]
            item.own_markers[:] = [mark for mark in item.own_markers if mark.name != "speedup"]  # a pattern's
        self.found = [item for item in self.found if SHAPE in item.stash]
        return len(alone)

    def _alone(self, items: Sequence[pytest.Item]) -> list[pytest.Item]:
        partners = {item.stash[SHAPE].partner for item in self.found}
        shapes = [(item, item.stash[SHAPE]) for item in items]
        return [
            item
            for item, known in shapes
            if known.side is not None and known.partner is None and known.nodeid not in partners
        ]

    def missing(self, root: Path, arguments: Sequence[str]) -> list[str]:
        """Return what was asked for beside markers and has found no test, in sentences."""
        wrong = [
            f"gpuperf_speedup: no test that can be timed matches {text!r}; node ids are relative to {root}, "
            "and a test needs siblings on both devices, or the fixture device or xp"
            for text in self._patterns.missing(root, arguments)
        ]
        if self._takes_all and not self._all and not self.found:
            names = ", ".join(self._sides.names)
            wrong.append(
                f"--gpuperf-all: no test has siblings on both devices; parameters that tell them: {names} "
                "(gpuperf_device_params)"
            )
        return wrong

    @property
    def selections(self) -> tuple[Selection, ...]:
        """What was asked for beside markers, and how many tests it has found."""
        of_all = [Selection(pattern=None, tests=self._all)] if self._takes_all else []
        return (*self._patterns.selections, *of_all)

    def _mark(self, items: Iterable[pytest.Item]) -> tuple[list[pytest.Item], list[str]]:
        """Give marked items their shapes; return them, and what is wrong with the others' markers."""
        found: list[pytest.Item] = []
        wrong: list[str] = []
        for item in items:
            if not isinstance(item, pytest.Function):  # a doctest, say, in a module that is marked
                continue
            try:
                known = self._shape(item)
            except ValueError as error:
                wrong += [] if self._foreign else [str(error)]
                continue
            if not self._foreign or not known.demand.bare or takes_ours(item):
                item.stash[SHAPE] = known if known.has_device else replace(known, side=self._lone)
                found.append(item)
        return found, wrong

    def _shape(self, item: pytest.Function) -> ItemSpec:
        """Return a marked item's shape; raise ValueError with what is wrong with its marker."""
        kin = self._kin if self._kin is not None and self._kin.has(item) else None
        if kin is not None and (known := kin.shape(item)) is not None:
            return known
        if (wrong := misuse(item)) is not None:
            raise ValueError(wrong)
        try:
            known = shape(item, self._sides)
            if kin is not None:
                kin.learn(item, known)
            elif not has_marked_parameters(item):
                self._kin = SpecCache(item, known, self._sides.names)
        except ValueError as error:
            raise ValueError(f"{item.nodeid}: {error}") from error
        return known

    def _company(self, items: Iterable[pytest.Item], found: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
        """Yield the siblings, without a marker, of items whose own parameter set is marked, or named."""
        marked = [item.stash[SHAPE] for item in found]
        asked = {known.pair: known for known in marked if known.pair is not None}
        kinds = {(known.pair, known.kind) for known in marked}
        functions = {function_of(known.nodeid) for known in asked.values()}
        for item in items:
            if SHAPE in item.stash or function_of(item.nodeid) not in functions:
                continue
            known = self._sibling(item)
            like = None if known is None or known.pair is None else asked.get(known.pair)
            if known is None or like is None:
                continue
            known = replace(known, source=like.source)
            if known.kind == "cpu":
                item.stash[SHAPE] = known
                yield item
            elif (known.pair, "gpu") not in kinds:
                item.stash[SHAPE] = replace(known, demand=like.demand)
                yield item

    def _sibling(self, item: pytest.Item) -> ItemSpec | None:
        if not isinstance(item, pytest.Function) or unfit(item):
            return None
        try:
            return shape(item, self._sides, _BARE)
        except ValueError:
            return None
