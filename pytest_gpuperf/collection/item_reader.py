"""From items with a speedup marker, and their unmarked variants, to ItemSpecs in their stashes."""

from collections.abc import Collection, Iterable, Iterator, Mapping

import pytest

from pytest_gpuperf.collection.items import (
    SPEC,
    UNKNOWN,
    ItemSpec,
    SpecCache,
    UnknownDevice,
    has_marked_parameters,
    item_spec,
    marker_error,
    test_id,
    uses_plugin_fixtures,
)
from pytest_gpuperf.collection.markers import demand
from pytest_gpuperf.collection.patterns import BARE_MARK, unmarked_spec
from pytest_gpuperf.devices.device_parameter import DeviceParser, DeviceSpec
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.nodeid import function_of


class ItemReader:
    """Gives marked items their specs.

    `default_device` is that of tests that do not choose one themselves. With `has_foreign_marker` the suite
    has a marker called speedup of its own: then one that cannot be ours is ignored. With `require_gpu` each
    limit has to be checked, also that of a test on an unknown device.
    """

    def __init__(
        self,
        parser: DeviceParser,
        *,
        default_device: DeviceSpec | None,
        has_foreign_marker: bool,
        require_gpu: bool,
    ) -> None:
        self.parser = parser
        self._default_device = default_device
        self._has_foreign_marker = has_foreign_marker
        self._require_gpu = require_gpu
        self._cache: SpecCache | None = None

    def read(self, items: Iterable[pytest.Item]) -> tuple[list[pytest.Item], list[str]]:
        """Give marked items their specs; return them, and what is wrong with the markers of the others.

        Items with a value that no backend knows are left alone, if others of their function have a known one;
        with `require_gpu`, those without limits only.
        """
        found: list[pytest.Item] = []
        errors: list[str] = []
        unknown: dict[str, dict[pytest.Item, UnknownDevice]] = {}
        self._cache = None  # since the last call other plugins may have changed the markers
        for item in items:
            if not isinstance(item, pytest.Function):  # a doctest, for example, in a module that is marked
                continue
            if UNKNOWN in item.stash:
                continue
            try:
                spec = self._spec(item)
            except UnknownDevice as error:
                if not self._has_foreign_marker:
                    unknown.setdefault(function_of(test_id(item)), {})[item] = error
                continue
            except ValueError as error:
                if not self._has_foreign_marker:
                    errors.append(str(error))
                continue
            if self._has_foreign_marker and spec.demand.bare and not uses_plugin_fixtures(item):
                continue
            item.stash[SPEC] = spec if spec.has_device else spec._replace(device=self._default_device)
            found.append(item)
        known = {function_of(test_id(item)) for item in found}
        return found, errors + _leave_alone(unknown, known, require_gpu=self._require_gpu)

    def unmarked_variants(
        self, items: Iterable[pytest.Item], marked: Iterable[pytest.Item]
    ) -> Iterator[pytest.Item]:
        """Give specs to the unmarked variants of items whose own parameter set is marked, and yield them.

        `pytest.param(cupy, marks=pytest.mark.speedup)` marks the GPU item only; its CPU variant is `numpy`.
        """
        specs = [item.stash[SPEC] for item in marked]
        marked_by_pair = {spec.pair: spec for spec in specs if spec.pair is not None}
        pairs_on_gpu = {spec.pair for spec in specs if spec.kind == "gpu"}
        functions = {function_of(spec.nodeid) for spec in marked_by_pair.values()}
        for item in items:
            if SPEC in item.stash or function_of(test_id(item)) not in functions:
                continue
            spec = unmarked_spec(item, self.parser, BARE_MARK)
            if spec is None or spec.pair is None or spec.pair not in marked_by_pair:
                continue
            variant = marked_by_pair[spec.pair]
            if spec.kind == "gpu" and spec.pair in pairs_on_gpu:
                continue
            demand = spec.demand if spec.kind == "cpu" else variant.demand
            item.stash[SPEC] = spec._replace(source=variant.source, demand=demand)
            yield item

    def _spec(self, item: pytest.Function) -> ItemSpec:
        """Return a marked item's spec; raise ValueError with what is wrong with its marker."""
        cache = self._cache if self._cache is not None and self._cache.matches(item) else None
        if cache is not None and (spec := cache.get(item)) is not None:
            return spec
        error_text = marker_error(item)
        if error_text is not None:
            raise ValueError(error_text)
        try:
            spec = item_spec(item, self.parser)
        except UnknownDevice:
            raise
        except ValueError as error:
            raise ValueError(f"{item.nodeid}: {error}") from error
        if cache is not None:
            cache.add(item, spec)
        elif not has_marked_parameters(item):
            self._cache = SpecCache(item, spec, self.parser.names)
        return spec


def _leave_alone(
    unknown: Mapping[str, Mapping[pytest.Item, UnknownDevice]], known: Collection[str], *, require_gpu: bool
) -> list[str]:
    """Note the value of each item of the `known` functions; return an error for each other function.

    With `require_gpu` there is an error for each function with limits, too.
    """
    errors = []
    for function, items in unknown.items():
        if function not in known:
            errors.append(f"{function}: {next(iter(items.values()))}")
            continue
        limited = (error for item, error in items.items() if _demand(item).limits)
        if require_gpu and (first := next(limited, None)) is not None:
            errors.append(f"{function}: {first}; without --gpuperf-require-gpu these tests are left alone")
            continue
        for item, error in items.items():
            item.stash[UNKNOWN] = error.value
    return errors


def _demand(item: pytest.Item) -> Demand:
    mark = item.get_closest_marker("speedup")
    return demand(mark) if mark else Demand()
