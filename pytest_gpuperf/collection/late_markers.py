"""Speedup markers that another plugin or a conftest adds after pytest collected the items."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from pytest_gpuperf.collection import siblings
from pytest_gpuperf.collection.families import build_families
from pytest_gpuperf.collection.items import SPEC, ItemSpec, item_spec, marker_error
from pytest_gpuperf.collection.spec_reader import SpecReader

_DIFFERENT = (
    "has a speedup marker, and a plugin or conftest added a second one with different arguments; keep one"
)


class LateMarkers:
    """Handles three moments: after collection, after collection on a marked item, and while a test runs."""

    def __init__(self, reader: SpecReader, found: list[pytest.Item]) -> None:
        self._reader = reader
        self._found = found

    def collect(self, items: Iterable[pytest.Item], marked: Iterable[pytest.Item]) -> list[str]:
        """Give specs to items that were marked after collection, and to their siblings; return errors."""
        new = [item for item in marked if SPEC not in item.stash]
        self._reader.forget_cache()
        found, errors = self._reader.read(new)
        unmarked = list(self._reader.unmarked_siblings(items, found)) if found else []
        self._found += [*found, *unmarked]
        errors += siblings.pair_items([*found, *unmarked], across_functions=False)
        return errors + build_families([*new, *unmarked])

    def conflicts(self, items: Iterable[pytest.Item]) -> list[str]:
        """Return an error for each item with a spec that got a second, different marker."""
        errors = []
        for item in items:
            spec = item.stash[SPEC]
            if spec.source != "marker" or spec.kind == "cpu" or not isinstance(item, pytest.Function):
                continue  # a CPU sibling has the requirements of its GPU sibling
            message = marker_error(item)
            if message is not None:
                errors.append(message)
            elif item_spec(item, self._reader.parser).demand != spec.demand:
                errors.append(f"{item.nodeid}: {_DIFFERENT}")
        return errors

    def marked_during_run(self, item: pytest.Item) -> ItemSpec | None:
        """Return the spec of a test that was marked while it ran: it cannot be measured any more."""
        if not isinstance(item, pytest.Function):
            return None
        spec = item.stash.get(SPEC, None)
        if spec is not None:
            return spec if spec.source == "marker" and marker_error(item) is not None else None
        _, errors = self._reader.read([item])
        if errors:
            pytest.fail(errors[0], pytrace=False)
        spec = item.stash.get(SPEC, None)
        if spec is not None:
            spec = replace(spec, slots=frozenset(), device=None, calls_both=False, pair=None)
            item.stash[SPEC] = spec
        return spec
